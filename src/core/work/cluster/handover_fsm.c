#include "core/work/cluster/handover_fsm.h"

#include <string.h>

void rota_handover_fsm_init(struct rota_handover_fsm *fsm,
                            const struct rota_handover_options *options)
{
    *fsm = (struct rota_handover_fsm){.options = *options, .deadline = ROTA_TIME_NEVER};
    fsm->durable = rota_broker_last_number(options->broker);
    struct rota_chunk_view chunk;
    for (size_t place = 0; rota_broker_next_chunk(options->broker, &place, &chunk);) {
        struct rota_handover_trip trip = {.name = chunk.name, .is_seen = true, .is_there = true};
        if (!rota_vector_push(&fsm->trips, trip))
            break; /* one that is made later counts as seen, too */
    }
}

void rota_handover_fsm_deinit(struct rota_handover_fsm *fsm)
{
    rota_vector_deinit(&fsm->trips);
    rota_vector_deinit(&fsm->holds);
    rota_vector_deinit(&fsm->sends);
}

static struct rota_handover_trip *find_trip(struct rota_handover_fsm *fsm, struct rota_job_id name)
{
    for (size_t i = 0; i < fsm->trips.size; i++)
        if (fsm->trips.items[i].name.high == name.high && fsm->trips.items[i].name.low == name.low)
            return &fsm->trips.items[i];
    return NULL;
}

static void wake_at(struct rota_handover_fsm *fsm, rota_time at)
{
    fsm->deadline = rota_time_min(fsm->deadline, at);
}

/* --- received jobs --- */

static struct rota_handover_hold *find_hold(struct rota_handover_fsm *fsm, struct rota_str queue,
                                            uint32_t partition)
{
    for (size_t i = 0; i < fsm->holds.size; i++)
        if (fsm->holds.items[i].partition == partition &&
            rota_str_is_equal(rota_str(fsm->holds.items[i].queue), queue))
            return &fsm->holds.items[i];
    return NULL;
}

static void hold_partition(struct rota_handover_fsm *fsm, rota_time now, struct rota_str queue,
                           uint32_t partition)
{
    struct rota_handover_hold made = {.partition = partition}, *known;
    if ((known = find_hold(fsm, queue, partition))) {
        known->until = now + ROTA_HANDOVER_HOLD;
        return;
    }
    if (rota_job_queue_check(queue, NULL) || fsm->holds.size >= ROTA_HANDOVER_HOLDS_MAX)
        return; /* there is no such queue, or no room to remember it */
    memcpy(made.queue, queue.data, queue.size);
    made.until = now + ROTA_HANDOVER_HOLD;
    rota_vector_push(&fsm->holds, made);
}

static void drop_holds(struct rota_handover_fsm *fsm, rota_time now)
{
    for (size_t i = 0; i < fsm->holds.size;)
        if (fsm->holds.items[i].until <= now)
            fsm->holds.items[i] = fsm->holds.items[--fsm->holds.size];
        else
            wake_at(fsm, fsm->holds.items[i++].until);
}

/* --- partitions --- */

static void open_partition(struct rota_handover_fsm *fsm, struct rota_work_now now,
                           const struct rota_partition_view *view)
{
    rota_broker_partition_open(fsm->options.broker, now, view->queue, view->partition,
                               view->epoch ? view->epoch : 1, NULL);
}

/* One chunk of a partition at a time: the next one is recorded with the end of the last. */
static void begin_chunk(struct rota_handover_fsm *fsm, struct rota_work_now now,
                        const struct rota_partition_view *view, struct rota_str owner)
{
    struct rota_handover_trip trip = {.is_there = true};
    if (!rota_vector_reserve(&fsm->trips, fsm->trips.size + 1))
        return;
    if (!rota_broker_chunk_begin(fsm->options.broker, now, view->queue, view->partition, owner,
                                 &trip.name, NULL))
        fsm->trips.items[fsm->trips.size++] = trip;
}

static void settle_partition(struct rota_handover_fsm *fsm, struct rota_work_now now,
                             const struct rota_partition_view *view)
{
    struct rota_str owner = {"", 0};
    switch (fsm->options.whose(fsm->options.data, view->queue, view->partition, &owner)) {
    case ROTA_HANDOVER_NOBODYS:
        return;
    case ROTA_HANDOVER_OURS:
        if (!view->is_open && view->n_chunked == 0 && view->n_jobs > 0)
            open_partition(fsm, now, view);
        return;
    case ROTA_HANDOVER_ANOTHERS:
        break;
    }
    bool is_held = find_hold(fsm, view->queue, view->partition);
    if (is_held && !view->is_open && view->n_chunked == 0 && view->n_jobs > 0)
        open_partition(fsm, now, view);
    if (is_held)
        return;
    if (view->is_open &&
        rota_broker_partition_close(fsm->options.broker, now, view->queue, view->partition, NULL))
        wake_at(fsm, now.boot + ROTA_HANDOVER_RETRY_FIRST);
    else if (view->n_chunked == 0 && view->n_jobs > 0)
        begin_chunk(fsm, now, view, owner);
}

/* --- chunks --- */

/* A chunk that the receiver can't have seen goes to the current owner of the partition, or
 * stays. */
static bool give_up_chunk(struct rota_handover_fsm *fsm, struct rota_work_now now,
                          const struct rota_chunk_view *chunk,
                          const struct rota_handover_trip *trip)
{
    struct rota_str owner = {"", 0};
    if (trip->is_seen || trip->is_sent || chunk->is_taken)
        return false;
    if (fsm->options.whose(fsm->options.data, chunk->queue, chunk->partition, &owner) ==
            ROTA_HANDOVER_ANOTHERS &&
        rota_str_is_equal(owner, chunk->to))
        return false;
    return !rota_broker_chunk_end(fsm->options.broker, now, chunk->name, NULL);
}

static void send_chunk(struct rota_handover_fsm *fsm, struct rota_work_now now,
                       const struct rota_chunk_view *chunk, struct rota_handover_trip *trip)
{
    struct rota_handover_send what = {
        .name = chunk->name, .to = chunk->to, .is_over = chunk->is_taken};
    if (trip->is_sent || chunk->number > fsm->durable)
        return;
    if (trip->again_at > now.boot) {
        wake_at(fsm, trip->again_at);
        return;
    }
    if (rota_vector_push(&fsm->sends, what))
        trip->is_sent = true;
    else
        wake_at(fsm, now.boot + ROTA_HANDOVER_RETRY_FIRST);
}

/* Returns true if a partition may have to be checked again. */
static bool look_at_chunks(struct rota_handover_fsm *fsm, struct rota_work_now now)
{
    struct rota_chunk_view chunk;
    bool is_changed = false;
    size_t n = 0;
    for (size_t i = 0; i < fsm->trips.size; i++)
        fsm->trips.items[i].is_there = false;
    for (size_t place = 0; rota_broker_next_chunk(fsm->options.broker, &place, &chunk);) {
        struct rota_handover_trip *trip = find_trip(fsm, chunk.name);
        struct rota_handover_trip made = {.name = chunk.name, .is_seen = true};
        if (!trip && rota_vector_push(&fsm->trips, made))
            trip = &fsm->trips.items[fsm->trips.size - 1];
        if (!trip) {
            wake_at(fsm, now.boot + ROTA_HANDOVER_RETRY_FIRST);
            continue;
        }
        if (give_up_chunk(fsm, now, &chunk, trip)) {
            is_changed = true;
            place = 0; /* another took its place */
            continue;
        }
        trip->is_there = true;
        send_chunk(fsm, now, &chunk, trip);
    }
    for (size_t i = 0; i < fsm->trips.size; i++)
        if (fsm->trips.items[i].is_there)
            fsm->trips.items[n++] = fsm->trips.items[i];
    fsm->trips.size = n;
    return is_changed;
}

static void review_partitions(struct rota_handover_fsm *fsm, struct rota_work_now now)
{
    struct rota_partition_view view;
    bool is_changed = true;
    fsm->deadline = ROTA_TIME_NEVER;
    drop_holds(fsm, now.boot);
    for (int round = 0; is_changed && round < 2; round++) {
        for (size_t place = 0; rota_broker_next_partition(fsm->options.broker, &place, &view);)
            settle_partition(fsm, now, &view);
        is_changed = look_at_chunks(fsm, now);
    }
    if (is_changed)
        wake_at(fsm, now.boot);
}

/* --- answers --- */

static void handle_taken(struct rota_handover_fsm *fsm, struct rota_work_now now,
                         struct rota_handover_trip *trip)
{
    struct rota_chunk_view chunk;
    trip->is_sent = false;
    trip->is_seen = true;
    trip->pause = trip->again_at = 0;
    for (size_t place = 0; rota_broker_next_chunk(fsm->options.broker, &place, &chunk);) {
        if (chunk.name.high != trip->name.high || chunk.name.low != trip->name.low)
            continue;
        if (chunk.is_taken)
            rota_broker_chunk_end(fsm->options.broker, now, trip->name, NULL);
        else
            rota_broker_chunk_taken(fsm->options.broker, now, trip->name, NULL);
        return;
    }
}

static void hear_nothing(struct rota_handover_trip *trip, rota_time now, bool may_be_there)
{
    trip->is_sent = false;
    trip->is_seen |= may_be_there;
    trip->pause = trip->pause ? 2 * trip->pause : ROTA_HANDOVER_RETRY_FIRST;
    if (trip->pause > ROTA_HANDOVER_RETRY_MAX)
        trip->pause = ROTA_HANDOVER_RETRY_MAX;
    trip->again_at = now + trip->pause;
}

const struct rota_handover_send *rota_handover_fsm_step(struct rota_handover_fsm *fsm,
                                                        struct rota_work_now now,
                                                        const struct rota_handover_event *event,
                                                        size_t *n_sends)
{
    struct rota_handover_trip *trip = find_trip(fsm, event->name);
    fsm->sends.size = 0;
    switch (event->type) {
    case ROTA_HANDOVER_LOOK:
        break;
    case ROTA_HANDOVER_DURABLE:
        if (event->number > fsm->durable)
            fsm->durable = event->number;
        break;
    case ROTA_HANDOVER_CAME:
        hold_partition(fsm, now.boot, event->queue, event->partition);
        break;
    case ROTA_HANDOVER_TAKEN:
        if (trip)
            handle_taken(fsm, now, trip);
        break;
    case ROTA_HANDOVER_UNSEEN:
    case ROTA_HANDOVER_UNKNOWN:
        if (trip)
            hear_nothing(trip, now.boot, event->type == ROTA_HANDOVER_UNKNOWN);
        break;
    }
    review_partitions(fsm, now);
    *n_sends = fsm->sends.size;
    return fsm->sends.items;
}

rota_time rota_handover_fsm_deadline(const struct rota_handover_fsm *fsm)
{
    return fsm->deadline;
}

bool rota_handover_fsm_is_busy(const struct rota_handover_fsm *fsm)
{
    return fsm->trips.size > 0;
}
