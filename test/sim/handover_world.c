#include "handover_world.h"
#include "handover_lists.h"

#include "wire/message/queue_message.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const ADDRESSES[NODES] = {"a:1", "b:1", "c:1"};

void die(const char *text)
{
    fprintf(stderr, "%s\n", text);
    exit(2);
}

struct rota_work_now now_of(const struct world *world, uint32_t node)
{
    return (struct rota_work_now){.boot = rota_sim_mono(world->sim, node),
                                  .wall = rota_sim_wall(world->sim, node)};
}

struct rota_str queue(void)
{
    return rota_str("q");
}

bool by_chance(struct world *world, int percent)
{
    return rota_random_range(world->random, 0, 99) < percent;
}

void set_timer(struct world *world, uint32_t node, uint32_t timer, rota_time wait)
{
    rota_sim_set_timer(world->sim, node, timer, ROTA_SIM_MONO,
                       rota_sim_mono(world->sim, node) + wait);
}

/* --- the disk --- */

/* For whoever reads a trace: which job or chunk, and which jobs are in it. */
static void note_record(struct world *world, uint32_t number, const struct rota_work_record *record)
{
    char ids[120] = "";
    size_t size = 0;
    for (size_t i = 0; record->type == ROTA_WORK_CHUNK && i + 16 <= record->bytes.size; i += 16)
        if (size < sizeof ids - 10)
            size += (size_t)snprintf(ids + size, sizeof ids - size, " %u",
                                     (unsigned)(unsigned char)record->bytes.data[i + 8] +
                                         256 * (unsigned char)record->bytes.data[i + 9]);
    rota_sim_note(world->sim, number, "%s %llx state %d %.*s%s",
                  rota_job_work_record_name(record->type), (unsigned long long)record->id.low,
                  (int)record->state, ROTA_STR_ARGS(record->key), ids);
}

static void append(struct world *world, uint32_t number, const struct rota_work_record *record)
{
    struct node *node = &world->nodes[number];
    struct rota_journal_batch batch = {0};
    struct kept kept = {.number = record->number,
                        .job = (uint32_t)record->id.low,
                        .is_done = record->type == ROTA_WORK_END && record->state == ROTA_JOB_DONE,
                        .is_new = record->type == ROTA_WORK_ADD};
    rota_queue_message_write_jobs(&batch, record, &kept.bytes);
    if (kept.is_done)
        world->jobs[kept.job].is_ended = true;
    note_record(world, number, record);
    if (kept.bytes.failed || !rota_vector_push(&node->disk, kept))
        die("no memory for a record");
}

void harden(struct world *world, struct node *node, size_t n)
{
    for (; n > 0; n--) {
        const struct kept *kept = &node->disk.items[node->n_synced++];
        if (kept->is_done && ++world->jobs[kept->job].n_done > 1)
            rota_sim_fail(world->sim, "job %u is done twice", kept->job);
        if (kept->is_new && world->on_added)
            world->on_added(world, node->number, kept->job);
    }
}

static void lose_unsynced(struct world *world, struct node *node)
{
    size_t n = node->disk.size - node->n_synced;
    harden(world, node, (size_t)rota_random_range(world->random, 0, (int64_t)n));
    while (node->disk.size > node->n_synced)
        rota_buffer_deinit(&node->disk.items[--node->disk.size].bytes);
}

static void read_disk(struct world *world, struct node *node)
{
    enum { COMING = 3 }; /* the state of TAKEN of a chunk that begins to come */
    for (size_t i = 0; i < node->disk.size; i++) {
        struct rota_journal_batch batch = {0};
        struct rota_journal_room room;
        struct rota_work_record record;
        struct rota_error error;
        size_t place = 0;
        if (!rota_queue_message_read_jobs(&batch, rota_buffer_str(&node->disk.items[i].bytes),
                                          &place, &record, &room))
            die("a record can't be read");
        record.number = node->durable = node->disk.items[i].number;
        bool is_coming = record.type == ROTA_WORK_TAKEN && (unsigned)record.state == COMING;
        if ((world->plant == HANDOVER_CHUNKS_LOST && record.type == ROTA_WORK_CHUNK) ||
            (world->plant == HANDOVER_NODES_LOST && record.type == ROTA_WORK_NODE) ||
            (world->plant == HANDOVER_NAMES_LOST && record.type == ROTA_WORK_TAKEN && !is_coming &&
             by_chance(world, 50)) ||
            (world->plant == HANDOVER_HALVES_KEPT && is_coming))
            continue;
        if (rota_broker_replay(node->core, &record, &error) && world->plant == HANDOVER_NONE)
            rota_sim_fail(world->sim, "%.200s", error.text);
    }
}

/* --- a node --- */

static void send(struct world *world, uint32_t number, const struct rota_handover_send *what)
{
    struct node *node = &world->nodes[number];
    struct rota_buffer bytes = {0};
    struct rota_journal_batch batch = {0};
    struct rota_work_record record;
    uint32_t to = 0;
    struct message message;
    memset(&message, 0, sizeof message);
    message.serial = ++world->serial;
    message.name = what->name;
    message.is_over = what->is_over;
    message.partition = rota_job_id_partition(what->name);
    while (to < NODES - 1 && !rota_str_is_equal(what->to, rota_str(ADDRESSES[to])))
        to++;
    rota_buffer_append(&bytes, &message, sizeof message);
    struct rota_buffer jobs = {0};
    for (size_t place = 0;
         !what->is_over && rota_broker_chunk_next(node->core, what->name, &place, &record);)
        rota_queue_message_write_jobs(&batch, &record, &jobs);
    rota_buffer_append_str(&bytes, rota_buffer_str(&jobs));
    struct call call = {.serial = message.serial,
                        .name = what->name,
                        .until = rota_sim_mono(world->sim, number) + CALL_TIMEOUT};
    if (bytes.failed || jobs.failed || !rota_vector_push(&node->calls, call))
        die("no memory");
    rota_sim_send(world->sim, number, to, rota_buffer_str(&bytes));
    rota_buffer_deinit(&bytes);
    rota_buffer_deinit(&jobs);
    set_timer(world, number, TIMER_CALLS, CALL_TIMEOUT / 4);
}

void step(struct world *world, uint32_t number, struct rota_handover_event event)
{
    struct node *node = &world->nodes[number];
    struct rota_handover_send sends[64];
    size_t n;
    const struct rota_handover_send *todo =
        rota_handover_fsm_step(&node->fsm, now_of(world, number), &event, &n);
    if (n > 64)
        die("too much to send");
    for (size_t i = 0; i < n; i++)
        sends[i] = todo[i];
    for (size_t i = 0; i < n; i++) {
        bool is_down = !rota_sim_is_up(world->sim, (uint32_t)(sends[i].to.data[0] - 'a'));
        if (is_down && by_chance(world, 50)) { /* nobody listens there: it does not leave */
            step(world, number,
                 (struct rota_handover_event){.type = ROTA_HANDOVER_UNSEEN, .name = sends[i].name});
            continue;
        }
        send(world, number, &sends[i]);
        if (world->plant == HANDOVER_FORGET_FIRST && !sends[i].is_over)
            rota_broker_chunk_taken(node->core, now_of(world, number), sends[i].name, NULL);
    }
    drive(world, number);
}

/* Effects until there are none, and when to look again. */
void drive(struct world *world, uint32_t number)
{
    struct node *node = &world->nodes[number];
    size_t n;
    const struct rota_work_effect *effects = rota_broker_effects(node->core, &n);
    for (size_t i = 0; i < n; i++) {
        struct running running = {.id = effects[i].id, .attempt = effects[i].attempt};
        if (effects[i].type == ROTA_WORK_DO_RECORD) {
            append(world, number, &effects[i].record);
        } else if (effects[i].type == ROTA_WORK_DO_DISPATCH) {
            running.until =
                rota_sim_mono(world->sim, number) +
                rota_random_range(world->random, 1, by_chance(world, 70) ? 30 : 600) * ROTA_MSEC;
            if (!rota_vector_push(&node->running, running))
                die("no memory");
            set_timer(world, number, TIMER_WORK, ROTA_MSEC);
        }
    }
    rota_broker_clear(node->core);
    if (node->n_synced < node->disk.size || node->held.size > 0)
        set_timer(world, number, TIMER_SYNC, rota_random_range(world->random, 0, world->pace.sync));
    rota_sim_set_timer(world->sim, number, TIMER_CORE, ROTA_SIM_MONO,
                       rota_broker_deadline(node->core));
    rota_sim_set_timer(world->sim, number, TIMER_HANDOVER, ROTA_SIM_MONO,
                       rota_handover_fsm_deadline(&node->fsm));
}

static void tell(struct world *world, uint32_t number, const struct held *held)
{
    if (held->what == HELD_ANSWER)
        rota_sim_send(world->sim, number, held->to,
                      rota_str_of(&held->answer, sizeof held->answer));
    else if (held->what == HELD_ADDED)
        world->jobs[held->job].is_added = true;
    else
        world->on_held(world, number, held);
}

void hold(struct world *world, uint32_t number, struct held held)
{
    if (held.number <= world->nodes[number].durable)
        tell(world, number, &held);
    else if (!rota_vector_push(&world->nodes[number].held, held))
        die("no memory");
    drive(world, number);
}

/* Most of what was written is on disk now. */
static void sync_disk(struct world *world, uint32_t number)
{
    struct node *node = &world->nodes[number];
    size_t n = 0, left = node->disk.size - node->n_synced;
    harden(world, node,
           (size_t)rota_random_range(world->random, (int64_t)(left + 1) / 2, (int64_t)left));
    if (node->n_synced > 0)
        node->durable = node->disk.items[node->n_synced - 1].number;
    rota_broker_durable(node->core, now_of(world, number), node->durable);
    for (size_t i = 0; i < node->held.size; i++)
        if (node->held.items[i].number <= node->durable)
            tell(world, number, &node->held.items[i]);
        else
            node->held.items[n++] = node->held.items[i];
    node->held.size = n;
    step(world, number,
         (struct rota_handover_event){
             .type = ROTA_HANDOVER_DURABLE,
             .number = world->plant == HANDOVER_SEND_EARLY ? UINT64_MAX : node->durable});
}

/* --- taking in --- */

static enum rota_code adopt(struct world *world, uint32_t number, const struct message *message,
                            struct rota_str jobs, uint64_t *record_number)
{
    struct rota_broker *core = world->nodes[number].core;
    struct rota_work_now now = now_of(world, number);
    struct rota_journal_batch batch = {0};
    struct rota_journal_room room;
    struct rota_work_record record;
    enum rota_code code = rota_broker_adopting(core, now, message->name, NULL);
    if (code)
        return code;
    for (size_t place = 0;
         !code && rota_queue_message_read_jobs(&batch, jobs, &place, &record, &room);)
        code = rota_broker_adopt(core, now, &record, record_number, NULL);
    if (!code)
        code = rota_broker_adopted(core, now, message->name, record_number, NULL);
    if (code)
        rota_broker_adopt_none(core, now);
    return code;
}

static void hear_request(struct world *world, uint32_t number, uint32_t from,
                         const struct message *message, struct rota_str jobs)
{
    struct rota_broker *core = world->nodes[number].core;
    struct held held = {.what = HELD_ANSWER, .to = from};
    enum rota_code code = ROTA_OK;
    memcpy(&held.answer, message, sizeof *message);
    held.answer.is_answer = true;
    if (message->is_over)
        code = rota_broker_adopted_over(core, now_of(world, number), message->name, &held.number,
                                        NULL);
    else if (!rota_broker_has_adopted(core, message->name, &held.number))
        code = adopt(world, number, message, jobs, &held.number);
    if (code)
        rota_sim_fail(world->sim, "node %u does not take a chunk", number);
    if (!message->is_over)
        held.answer.at = announce_jobs(world, number);
    if (world->plant == HANDOVER_ANSWER_EARLY)
        tell(world, number, &held);
    hold(world, number, held);
    if (!message->is_over)
        step(world, number,
             (struct rota_handover_event){
                 .type = ROTA_HANDOVER_CAME, .queue = queue(), .partition = message->partition});
}

static void hear_answer(struct world *world, uint32_t number, uint32_t from,
                        const struct message *message)
{
    struct node *node = &world->nodes[number];
    for (size_t i = 0; i < node->calls.size; i++)
        if (node->calls.items[i].serial == message->serial) {
            node->calls.items[i] = node->calls.items[--node->calls.size];
            if (message->at)
                rota_broker_take_node(
                    node->core, now_of(world, number),
                    &(struct rota_broker_node_view){rota_str(ADDRESSES[from]), true, message->at},
                    NULL);
            step(world, number,
                 (struct rota_handover_event){.type = ROTA_HANDOVER_TAKEN, .name = message->name});
            return;
        }
}

/* --- what the world calls --- */

static enum rota_handover_whose whose(void *data, struct rota_str name, uint32_t partition,
                                      struct rota_str *owner)
{
    const struct node *node = data;
    uint8_t of = node->owners[partition];
    (void)name;
    *owner = rota_str(ADDRESSES[of]);
    return of == node->number ? ROTA_HANDOVER_OURS : ROTA_HANDOVER_ANOTHERS;
}

static void on_start(void *data, uint32_t number)
{
    struct world *world = data;
    struct node *node = &world->nodes[number];
    struct rota_str serves = queue();
    uint64_t session;
    struct rota_broker_options options = {.ended_max = world->keeps_ended ? 0 : 1,
                                          .keep = world->keeps_ended ? ROTA_HOUR : ROTA_MSEC,
                                          .grace = 300 * ROTA_MSEC,
                                          .seed = rota_random_next(world->random)};
    struct rota_worker_spec worker = {
        .name = rota_str("worker"), .queues = &serves, .n_queues = 1, .slots = SLOTS};
    if (rota_broker_new(&options, &node->core, NULL))
        die("no memory for a broker");
    node->durable = 0;
    read_disk(world, node);
    rota_broker_begin(node->core, now_of(world, number));
    if (rota_broker_node_self(node->core, now_of(world, number), rota_str(ADDRESSES[number]), NULL))
        die("no memory for a node");
    rota_handover_fsm_init(&node->fsm, &(struct rota_handover_options){
                                           .broker = node->core, .whose = whose, .data = node});
    step(world, number, (struct rota_handover_event){.type = ROTA_HANDOVER_LOOK});
    if (rota_broker_worker_open(node->core, now_of(world, number), &worker, &session, NULL))
        die("no worker");
    start_list(world, number);
    if (world->on_node)
        world->on_node(world, number, true);
}

static void on_crash(void *data, uint32_t number)
{
    struct world *world = data;
    struct node *node = &world->nodes[number];
    if (world->on_node)
        world->on_node(world, number, false);
    rota_handover_fsm_deinit(&node->fsm);
    rota_broker_free(node->core);
    node->core = NULL;
    node->held.size = node->calls.size = node->running.size = 0;
    lose_unsynced(world, node);
}

static void on_message(void *data, uint32_t number, uint32_t from, struct rota_str bytes)
{
    struct world *world = data;
    struct message message;
    memcpy(&message, bytes.data, sizeof message);
    if (message.kind)
        world->on_frame(world, number, from, &message);
    else if (message.is_answer)
        hear_answer(data, number, from, &message);
    else
        hear_request(data, number, from, &message,
                     rota_str_of(bytes.data + sizeof message, bytes.size - sizeof message));
}

static void finish_work(struct world *world, uint32_t number)
{
    struct node *node = &world->nodes[number];
    rota_time now = rota_sim_mono(world->sim, number);
    for (size_t i = 0; i < node->running.size;) {
        struct running *running = &node->running.items[i];
        bool is_done = by_chance(world, 90);
        uint64_t record;
        struct rota_attempt_end end = {.queue = queue(),
                                       .id = running->id,
                                       .attempt = running->attempt,
                                       .cause = is_done ? ROTA_JOB_CAUSE_DONE
                                                        : ROTA_JOB_CAUSE_GIVEN_BACK};
        if (running->until > now) {
            i++;
            continue;
        }
        node->running.items[i] = node->running.items[--node->running.size];
        rota_broker_end(node->core, now_of(world, number), &end, &record, NULL);
        drive(world, number);
        i = 0;
    }
    if (node->running.size > 0)
        set_timer(world, number, TIMER_WORK, 2 * ROTA_MSEC);
}

static void end_calls(struct world *world, uint32_t number)
{
    struct node *node = &world->nodes[number];
    for (size_t i = 0; i < node->calls.size;) {
        struct call call = node->calls.items[i];
        if (call.until > rota_sim_mono(world->sim, number)) {
            i++;
            continue;
        }
        node->calls.items[i] = node->calls.items[--node->calls.size];
        if (world->plant != HANDOVER_NEVER_AGAIN)
            step(world, number,
                 (struct rota_handover_event){.type = world->plant == HANDOVER_UNSEEN
                                                          ? ROTA_HANDOVER_UNSEEN
                                                          : ROTA_HANDOVER_UNKNOWN,
                                              .name = call.name});
        i = 0;
    }
    if (node->calls.size > 0)
        set_timer(world, number, TIMER_CALLS, CALL_TIMEOUT / 4);
}

static void on_timer(void *data, uint32_t number, uint32_t timer)
{
    struct world *world = data;
    switch (timer) {
    case TIMER_SYNC:
        sync_disk(world, number);
        break;
    case TIMER_CORE:
        rota_broker_tick(world->nodes[number].core, now_of(world, number));
        drive(world, number);
        break;
    case TIMER_HANDOVER:
        step(world, number, (struct rota_handover_event){.type = ROTA_HANDOVER_LOOK});
        break;
    case TIMER_WORK:
        finish_work(world, number);
        break;
    case TIMER_CALLS:
        end_calls(world, number);
        break;
    case TIMER_OTHER:
        world->on_due(world, number);
        break;
    default:
        break;
    }
}

/* --- the end --- */

static void check_end(struct world *world)
{
    for (uint32_t i = 1; i < NODES; i++)
        if (rota_broker_nodes_hash(world->nodes[i].core) !=
            rota_broker_nodes_hash(world->nodes[0].core))
            rota_sim_fail(world->sim, "nodes 0 and %u know other nodes", i);
    for (uint32_t i = 0; i < world->n_jobs; i++)
        if (world->jobs[i].is_added && world->jobs[i].n_done == 0)
            rota_sim_fail(world->sim, "job %u was acknowledged and is not done", i);
    for (uint32_t i = 0; i < NODES; i++) {
        struct rota_partition_view view;
        struct rota_chunk_view chunk;
        size_t place = 0;
        if (!rota_broker_is_sound(world->nodes[i].core))
            rota_sim_fail(world->sim, "broker %u is not sound", i);
        if (rota_broker_next_chunk(world->nodes[i].core, &place, &chunk))
            rota_sim_fail(world->sim, "a chunk of node %u never ended", i);
        for (place = 0; rota_broker_next_partition(world->nodes[i].core, &place, &view);)
            if (view.n_jobs > 1 && world->nodes[i].owners[view.partition] != i)
                rota_sim_fail(world->sim, "node %u has jobs of partition %u, which is another's", i,
                              view.partition);
    }
}

static void free_world(struct world *world)
{
    for (uint32_t i = 0; i < NODES; i++) {
        struct node *node = &world->nodes[i];
        for (size_t k = 0; k < node->disk.size; k++)
            rota_buffer_deinit(&node->disk.items[k].bytes);
        if (node->core) {
            rota_handover_fsm_deinit(&node->fsm);
            rota_broker_free(node->core);
        }
        rota_vector_deinit(&node->disk);
        rota_vector_deinit(&node->held);
        rota_vector_deinit(&node->calls);
        rota_vector_deinit(&node->running);
    }
    free(world);
}

/* From here on the network is a good one. */
static void calm_call(void *data, uint64_t unused)
{
    struct world *world = data;
    (void)unused;
    for (uint32_t i = 0; i < NODES; i++)
        for (uint32_t k = 0; k < NODES; k++)
            if (i != k)
                rota_sim_set_link(world->sim, i, k, &(struct rota_sim_link){0});
}

void run_handovers(struct sim_case *run, struct world *world, void (*begin)(struct world *world),
                   void (*check)(struct world *world))
{
    world->pace = choose_pace(run->seed);
    world->sim =
        sim_case_new(run, (struct rota_sim_options){.n_nodes = NODES,
                                                    .link = {.delay_min = ROTA_MSEC,
                                                             .delay_mean = world->pace.delay,
                                                             .delay_max = 3 * ROTA_SEC,
                                                             .loss = 0.05,
                                                             .duplication = 0.1},
                                                    .skew_max = ROTA_SEC,
                                                    .drift_max_ppm = 1000,
                                                    .on_start = on_start,
                                                    .on_crash = on_crash,
                                                    .on_message = on_message,
                                                    .on_timer = on_timer,
                                                    .data = world});
    world->random = rota_sim_random(world->sim);
    for (uint32_t i = 0; i < NODES; i++)
        world->nodes[i].number = i;
    rota_sim_chaos_start(&world->chaos, world->sim,
                         &(struct rota_sim_chaos_options){.n_nodes = NODES,
                                                          .quiet_at = QUIET_AT,
                                                          .crash_every = world->pace.crash,
                                                          .crash_for = 600 * ROTA_MSEC,
                                                          .pause_every = 8 * ROTA_SEC,
                                                          .pause_for = ROTA_SEC,
                                                          .split_every = 8 * ROTA_SEC,
                                                          .split_for = 2 * ROTA_SEC});
    rota_sim_call(world->sim, QUIET_AT, calm_call, world, 0);
    begin_lists(world);
    begin(world);
    if (rota_sim_run(world->sim, END_AT)) {
        check_end(world);
        if (check)
            check(world);
    }
    sim_case_end(run, world->sim);
    free_world(world);
}
