#include "work_hand.h"

#include <string.h>

/* --- the table --- */

void table_on_message(struct world *world, uint32_t from, const struct frame *frame)
{
    if (frame->type == IMPORTED) {
        struct row *row = &world->rows[frame->part];
        if (row->epoch == frame->epoch && row->owner == from)
            row->from = NOBODY;
        return;
    }
    struct frame answer = {.type = TELL_ROWS, .life = frame->life};
    memcpy(answer.rows, world->rows, sizeof answer.rows);
    post(world, TABLE, from, &answer);
}

void table_move(struct world *world, uint32_t part, uint32_t owner)
{
    struct row *row = &world->rows[part];
    if (row->from != NOBODY || row->owner == owner)
        return;
    rota_sim_note(world->sim, TABLE, "partition %u goes from node %u to node %u", part, row->owner,
                  owner);
    row->from = row->owner;
    row->owner = owner;
    row->epoch++;
    world->n_moves++;
}

/* --- ours, or not --- */

/* What was handed over, but is not forgotten on disk. */
static void forget_copies(struct world *world, uint32_t node, uint32_t part)
{
    struct broker *broker = broker_at(world, node);
    struct rota_work_record record;
    uint64_t number;
    size_t place = 0;
    while (world->plant != PLANT_STALE_COPY &&
           rota_broker_partition_next(broker->machine, queue_of(part), part % PARTS_OF_QUEUE,
                                      &place, &record)) {
        if (rota_broker_forget(broker->machine, now_of(world, node), record.queue, record.id,
                               &number, NULL))
            rota_sim_fail(world->sim, "node %u can't forget job %u", node, job_of(record.id));
        place = 0;
    }
}

static void open_part(struct world *world, uint32_t node, uint32_t number)
{
    struct broker *broker = broker_at(world, node);
    struct partition *part = &broker->parts[number];
    if (part->is_open)
        return;
    forget_copies(world, node, number);
    if (rota_broker_partition_open(broker->machine, now_of(world, node), queue_of(number),
                                   number % PARTS_OF_QUEUE, part->row.epoch, NULL))
        rota_sim_fail(world->sim, "node %u can't open partition %u", node, number);
    for (uint32_t other = FIRST_BROKER; is_broker(world, other); other++)
        if (other != node && broker_at(world, other)->parts[number].is_open)
            rota_sim_fail(world->sim, "nodes %u and %u both have partition %u", node, other,
                          number);
    part->is_open = true;
}

static void close_part(struct world *world, uint32_t node, uint32_t number)
{
    struct broker *broker = broker_at(world, node);
    struct partition *part = &broker->parts[number];
    if (rota_broker_partition_close(broker->machine, now_of(world, node), queue_of(number),
                                    number % PARTS_OF_QUEUE, NULL))
        rota_sim_fail(world->sim, "node %u can't close partition %u", node, number);
    part->is_open = false;
    part->close_number = rota_broker_last_number(broker->machine);
    part->chunk = part->place = 0;
}

static void learn(struct world *world, uint32_t node, uint32_t number, const struct row *row)
{
    struct broker *broker = broker_at(world, node);
    struct partition *part = &broker->parts[number];
    bool is_old =
        row->epoch < part->row.epoch || (row->epoch == part->row.epoch && part->row.from == NOBODY);
    if (is_old)
        return;
    if (row->epoch > part->row.epoch)
        part->is_imported = false;
    part->row = *row;
    if (row->owner == node) {
        if (row->from == NOBODY)
            open_part(world, node, number);
        return;
    }
    if (part->is_open)
        close_part(world, node, number);
    if (row->from != node)
        forget_copies(world, node, number);
}

void hear_rows(struct world *world, uint32_t node, const struct frame *frame)
{
    if (frame->life != rota_sim_life(world->sim, node))
        return;
    for (uint32_t part = 0; part < PARTS; part++) {
        learn(world, node, part, &frame->rows[part]);
        drive(world, node);
    }
    broker_at(world, node)->is_ready = true;
}

/* --- handing over --- */

/* The next few jobs, or a word that there are no more. */
static void hand_some(struct world *world, uint32_t node, uint32_t number)
{
    struct broker *broker = broker_at(world, node);
    struct partition *part = &broker->parts[number];
    struct rota_work_record record;
    struct frame frame = {.type = HAND_LAST, .part = number, .epoch = part->row.epoch};
    size_t place = part->place;
    uint64_t forgotten;
    while (frame.n < CHUNK &&
           rota_broker_partition_next(broker->machine, queue_of(number), number % PARTS_OF_QUEUE,
                                      &place, &record)) {
        frame.type = HAND;
        frame.records[frame.n] = world->sent.size;
        part->sent[frame.n++] = record.spec->id;
        if (!rota_vector_push(&world->sent, keep(&record)))
            die("no memory for a message");
    }
    part->n_sent = frame.n;
    part->chunk = frame.number =
        (uint64_t)rota_sim_life(world->sim, node) << 32 | ++broker->n_chunks;
    post(world, node, part->row.owner, &frame);
    for (size_t i = 0; i < part->n_sent && world->plant == PLANT_FORGET_FIRST; i++)
        rota_broker_forget(broker->machine, now_of(world, node), queue_of(number), part->sent[i],
                           &forgotten, NULL);
}

void hand_on_timer(struct world *world, uint32_t node)
{
    struct broker *broker = broker_at(world, node);
    for (uint32_t i = 0; i < PARTS; i++) {
        const struct partition *part = &broker->parts[i];
        bool is_closed = part->close_number <= broker->durable || world->plant == PLANT_CLOSE_EARLY;
        if (part->row.from == node && !part->is_open && is_closed)
            hand_some(world, node, i);
    }
    drive(world, node);
    set_timer(world, node, TIMER_HAND, 100 * ROTA_MSEC);
}

void hear_taken(struct world *world, uint32_t node, const struct frame *frame)
{
    struct broker *broker = broker_at(world, node);
    struct partition *part = &broker->parts[frame->part];
    uint64_t number;
    if (part->chunk != frame->number || part->row.from != node || part->is_open)
        return;
    part->chunk = 0;
    for (size_t i = 0; i < part->n_sent; i++) {
        struct rota_work_record record;
        if (world->plant == PLANT_STALE_COPY)
            rota_broker_partition_next(broker->machine, queue_of(frame->part),
                                       frame->part % PARTS_OF_QUEUE, &part->place, &record);
        else
            rota_broker_forget(broker->machine, now_of(world, node), queue_of(frame->part),
                               part->sent[i], &number, NULL);
    }
    hand_some(world, node, frame->part);
    drive(world, node);
}

/* --- taking over --- */

static uint64_t adopt(struct world *world, uint32_t node, const struct kept *kept,
                      enum rota_code *code)
{
    struct rota_error error;
    struct rota_work_record record = kept->record;
    struct job *job = &world->jobs[job_of(record.spec->id)];
    uint64_t number = 0;
    if (world->plant == PLANT_AGE_LOST)
        record.at = rota_sim_wall(world->sim, node);
    if (world->plant == PLANT_STILL_OPEN && record.cause == ROTA_JOB_CAUSE_HANDED_OVER)
        record.cause = ROTA_JOB_CAUSE_LOST;
    *code = rota_broker_adopt(broker_at(world, node)->machine, now_of(world, node), &record,
                              &number, &error);
    if (*code != ROTA_OK && *code != ROTA_ERR_LIMIT)
        rota_sim_fail(world->sim, "node %u does not adopt job %u: %.150s", node,
                      job_of(record.spec->id), error.text);
    if (*code != ROTA_OK || job->whole_at == node)
        return number;
    job->whole_at = node;
    job->whole_number = number;
    job->is_moved = true;
    job->wait_at = NOBODY; /* by another clock from now on */
    return number;
}

void hear_hand(struct world *world, uint32_t node, uint32_t from, const struct frame *frame)
{
    struct broker *broker = broker_at(world, node);
    struct partition *part = &broker->parts[frame->part];
    struct held held = {
        .to = from, .frame = {.type = HAND_TAKEN, .part = frame->part, .number = frame->number}};
    enum rota_code code = ROTA_OK;
    if (!broker->is_ready || part->row.owner != node || part->row.from != from ||
        part->row.epoch != frame->epoch)
        return;
    open_part(world, node, frame->part);
    for (uint32_t i = 0; i < frame->n && code == ROTA_OK && frame->type == HAND; i++) {
        const struct kept *kept = world->sent.items[frame->records[i]];
        uint64_t number = adopt(world, node, kept, &code);
        held.number = number > held.number ? number : held.number;
        held.frame.items[held.frame.n++].job = job_of(kept->spec.id);
    }
    if (frame->type == HAND && code == ROTA_OK)
        hold(world, node, held);
    if (frame->type == HAND_LAST)
        post(world, node, TABLE,
             &(struct frame){.type = IMPORTED, .part = frame->part, .epoch = frame->epoch});
    drive(world, node);
}
