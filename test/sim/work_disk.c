#include "work_disk.h"
#include "work_broker.h"

#include <stdlib.h>
#include <string.h>

/* --- records --- */

static size_t bytes_of_spec(const struct rota_job_spec *spec)
{
    size_t size = spec->queue.size + spec->payload.size + spec->unique.size + spec->key.size +
                  spec->trace.size;
    for (size_t i = 0; i < spec->n_capabilities; i++)
        size += spec->capabilities[i].size;
    return size;
}

static struct rota_str keep_bytes(char **end, struct rota_str bytes)
{
    struct rota_str copy = rota_str_of(*end, bytes.size);
    if (bytes.size > 0)
        memcpy(*end, bytes.data, bytes.size);
    *end += bytes.size;
    return copy;
}

struct kept *keep(const struct rota_work_record *record)
{
    size_t size = record->queue.size + record->key.size + record->worker.size +
                  record->reason.size + record->bytes.size +
                  (record->spec ? bytes_of_spec(record->spec) : 0);
    struct kept *kept = calloc(1, sizeof *kept + size);
    if (!kept)
        die("no memory for a record");
    char *end = kept->bytes;
    kept->size = (record->spec ? 80 : 30) + size;
    kept->record = *record;
    kept->record.queue = keep_bytes(&end, record->queue);
    kept->record.key = keep_bytes(&end, record->key);
    kept->record.worker = keep_bytes(&end, record->worker);
    kept->record.reason = keep_bytes(&end, record->reason);
    kept->record.bytes = keep_bytes(&end, record->bytes);
    if (!record->spec)
        return kept;
    kept->spec = *record->spec;
    kept->spec.queue = keep_bytes(&end, record->spec->queue);
    kept->spec.payload = keep_bytes(&end, record->spec->payload);
    kept->spec.unique = keep_bytes(&end, record->spec->unique);
    kept->spec.key = keep_bytes(&end, record->spec->key);
    kept->spec.trace = keep_bytes(&end, record->spec->trace);
    for (size_t i = 0; i < record->spec->n_capabilities; i++)
        kept->capabilities[i] = keep_bytes(&end, record->spec->capabilities[i]);
    kept->spec.capabilities = kept->capabilities;
    kept->record.spec = &kept->spec;
    return kept;
}

/* --- writing --- */

void set_timer(struct world *world, uint32_t node, uint32_t timer, rota_time after)
{
    rota_sim_set_timer(world->sim, node, timer, ROTA_SIM_MONO,
                       rota_time_add(rota_sim_mono(world->sim, node), after));
}

void disk_append(struct broker *broker, const struct rota_work_record *record)
{
    if (!rota_vector_push(&broker->pending, keep(record)))
        die("no memory for a journal");
}

static size_t pending_bytes(const struct broker *broker)
{
    size_t bytes = 0;
    for (size_t i = 0; i < broker->pending.size; i++)
        bytes += broker->pending.items[i]->size;
    return bytes;
}

/* --- a disk of a size: segments are taken from it and given back --- */

enum { SEGMENT_SIZE = 4096, RESERVE_SIZE = 12288 };

static size_t disk_left(const struct disk *disk)
{
    if (disk->segments.size == 0)
        return 0;
    const struct segment *last = &disk->segments.items[disk->segments.size - 1];
    return last->size - last->used;
}

static size_t disk_free(const struct world *world, const struct disk *disk)
{
    size_t taken = disk->is_spent ? 0 : RESERVE_SIZE;
    for (size_t i = 0; i < disk->segments.size; i++)
        taken += disk->segments.items[i].size;
    return taken < world->shape.disk_size ? world->shape.disk_size - taken : 0;
}

/* Have the last segment take `bytes`, or another one, of whatever size there is room for. */
static bool disk_take(struct world *world, struct disk *disk, uint64_t first, size_t bytes)
{
    size_t size = SEGMENT_SIZE, room = disk_free(world, disk);
    if (bytes <= disk_left(disk))
        return true;
    while (size > room && size > bytes)
        size /= 2;
    struct segment segment = {.first = first, .size = size > bytes ? size : bytes};
    if (segment.size > room)
        return false;
    if (disk->segments.size > 0) /* what it does not use any more is given back */
        disk->segments.items[disk->segments.size - 1].size -= disk_left(disk);
    if (!rota_vector_push(&disk->segments, segment))
        die("no memory for a segment");
    return true;
}

static struct rota_room_look disk_look(const struct world *world, const struct broker *broker)
{
    return (struct rota_room_look){
        .left = disk_left(&broker->disk),
        .free = disk_free(world, &broker->disk),
        .waiting = pending_bytes(broker),
        .reserve = RESERVE_SIZE,
        .has_reserve = !broker->disk.is_spent,
        .n_jobs = rota_broker_n_jobs(broker->machine),
    };
}

void disk_bound(struct world *world, uint32_t node)
{
    struct broker *broker = broker_at(world, node);
    if (world->shape.disk_size == 0)
        return;
    if (broker->disk.is_spent && disk_free(world, &broker->disk) >= RESERVE_SIZE / 2 * 3)
        broker->disk.is_spent = false;
    struct rota_room_look look = disk_look(world, broker);
    bool is_short = rota_room_step(&broker->room, &look, rota_broker_is_short(broker->machine));
    bool is_full = is_short || broker->disk.is_spent;
    if (is_full && !broker->is_full)
        world->n_fulls++;
    if (is_full != broker->is_full)
        rota_sim_note(world->sim, node, is_full ? "the disk is full" : "the disk has room");
    broker->is_full = is_full;
    rota_broker_refuse_adds(broker->machine, is_full ? "the disk is full" : NULL);
    rota_broker_allow_adds(broker->machine, rota_room_for_adds(&look));
}

/* Whether the next batch finds room; at the last the reserve is given up for it. */
static bool disk_fits(struct world *world, uint32_t node, uint64_t first, size_t bytes)
{
    struct disk *disk = &broker_at(world, node)->disk;
    if (disk_take(world, disk, first, bytes))
        return true;
    disk->is_spent = true;
    return disk_take(world, disk, first, bytes);
}

/* No job is accepted, and what was kept free for that is used for the rest. */
static void disk_is_full(struct world *world, uint32_t node)
{
    struct broker *broker = broker_at(world, node);
    if (!broker->is_full) {
        rota_sim_note(world->sim, node, "the disk is full");
        world->n_fulls++;
        rota_broker_refuse_adds(broker->machine, "the disk is full");
        broker->disk.room += broker->disk.reserve;
        broker->disk.reserve = 0;
    }
    broker->is_full = true;
}

static void disk_has_room(struct broker *broker)
{
    if (broker->is_full && broker->disk.room == NO_ROOM && !broker->disk.segments.size) {
        broker->is_full = false;
        rota_broker_refuse_adds(broker->machine, NULL);
    }
}

/* Nobody waits for the start of an attempt: it goes to the disk with what comes next, or in a
 * while. True as long as there is nothing else. */
static bool is_nothing_urgent(struct world *world, uint32_t node)
{
    struct broker *broker = broker_at(world, node);
    rota_time now = rota_sim_mono(world->sim, node);
    bool is_start = true;
    for (size_t i = 0; i < broker->pending.size; i++)
        is_start = is_start && broker->pending.items[i]->record.type == ROTA_WORK_START;
    if (is_start && broker->later_at == 0)
        broker->later_at = now + START_LATER;
    if (is_start && now < broker->later_at) {
        set_timer(world, node, TIMER_DISK, broker->later_at - now);
        return true;
    }
    broker->later_at = 0;
    return false;
}

/* What a wrong driver would make of it: two lists, of which that of the starts comes last. */
static void put_starts_last(struct broker *broker)
{
    size_t n = 0, size = broker->pending.size;
    struct kept **items = broker->pending.items;
    for (size_t left = size; left > 0; left--) {
        struct kept *kept = items[n];
        if (kept->record.type != ROTA_WORK_START) {
            n++;
            continue;
        }
        memmove(items + n, items + n + 1, (size - n - 1) * sizeof *items);
        items[size - 1] = kept;
    }
}

/* How many of the records that wait are the next batch. */
static size_t next_batch(const struct broker *broker, size_t *bytes)
{
    size_t n = 0;
    *bytes = 0;
    while (n < broker->pending.size) {
        const struct kept *kept = broker->pending.items[n++];
        *bytes += kept->size;
        if (kept->ends_batch)
            break;
    }
    return n;
}

void disk_write(struct world *world, uint32_t node)
{
    struct broker *broker = broker_at(world, node);
    struct disk *disk = &broker->disk;
    size_t bytes, n_batch = next_batch(broker, &bytes);
    if (broker->is_writing || broker->pending.size == 0 || is_nothing_urgent(world, node))
        return;
    if (world->shape.disk_size > 0 &&
        !disk_fits(world, node, broker->pending.items[0]->record.number, bytes)) {
        set_timer(world, node, TIMER_DISK, 50 * ROTA_MSEC);
        return;
    }
    if (bytes > disk->room && world->plant != PLANT_FULL) {
        disk_is_full(world, node);
        if (bytes > disk->room) {
            set_timer(world, node, TIMER_DISK, 50 * ROTA_MSEC);
            return;
        }
    }
    bool is_dropped = bytes > disk->room; /* by a driver that does not look */
    disk->last_batch++;
    broker->writing_number = broker->pending.items[n_batch - 1]->record.number;
    if (world->plant == PLANT_START_LATE)
        put_starts_last(broker);
    if (!rota_vector_reserve(&disk->kept, disk->kept.size + broker->pending.size))
        die("no memory for a disk");
    for (size_t i = 0; i < n_batch; i++) {
        struct kept *kept = broker->pending.items[i];
        kept->batch = disk->last_batch;
        if (is_dropped)
            free(kept);
        else
            disk->kept.items[disk->kept.size++] = kept;
    }
    if (disk->room != NO_ROOM && !is_dropped)
        disk->room -= bytes;
    if (world->shape.disk_size > 0)
        disk->segments.items[disk->segments.size - 1].used += bytes;
    broker->pending.size -= n_batch;
    memmove(broker->pending.items, broker->pending.items + n_batch,
            broker->pending.size * sizeof *broker->pending.items);
    broker->is_writing = true;
    rota_time took = ROTA_MSEC / 2 + rota_sim_exponential(world->random, 4 * ROTA_MSEC);
    set_timer(world, node, TIMER_DISK, took + disk->slow_for);
    disk->slow_for = 0;
}

/* What was written since the last sync is gone, whoever says otherwise. */
static void disk_lose(struct disk *disk)
{
    while (disk->kept.size > disk->n_synced)
        free(disk->kept.items[--disk->kept.size]);
}

/* What a compaction has written again is on disk: what is older may go. */
static void disk_drop(struct world *world, uint32_t node)
{
    struct broker *broker = broker_at(world, node);
    struct disk *disk = &broker->disk;
    size_t n = 0, n_old;
    if (broker->compact_after == 0 ||
        (broker->durable < broker->compact_after && world->plant != PLANT_CUT_EARLY))
        return;
    while (n < disk->n_synced && disk->kept.items[n]->record.number < broker->compact_below)
        free(disk->kept.items[n++]);
    memmove(disk->kept.items, disk->kept.items + n,
            (disk->kept.size - n) * sizeof *disk->kept.items);
    disk->kept.size -= n;
    disk->n_synced -= n;
    for (n_old = 0; n_old + 1 < disk->segments.size; n_old++)
        if (disk->segments.items[n_old + 1].first > broker->compact_below)
            break;
    if (n_old > 0) {
        disk->segments.size -= n_old;
        memmove(disk->segments.items, disk->segments.items + n_old,
                disk->segments.size * sizeof *disk->segments.items);
        world->n_drops++;
    }
    rota_sim_note(world->sim, node, "drops %zu records below %llu", n,
                  (unsigned long long)broker->compact_below);
    broker->compact_size = disk->kept.size;
    broker->compact_below = broker->compact_after = 0;
}

/* Write what waits, and look now and then whether there is room again. */
static void disk_go_on(struct world *world, uint32_t node)
{
    struct broker *broker = broker_at(world, node);
    disk_has_room(broker);
    if (broker->want > 0 && !broker->is_writing)
        (void)disk_take(world, &broker->disk, broker->durable + 1, broker->want);
    if (!broker->is_writing)
        broker->want = 0;
    disk_bound(world, node);
    disk_write(world, node);
    if (broker->is_full && !broker->is_writing)
        set_timer(world, node, TIMER_DISK, 50 * ROTA_MSEC);
}

void disk_on_timer(struct world *world, uint32_t node)
{
    struct broker *broker = broker_at(world, node);
    struct disk *disk = &broker->disk;
    if (!broker->is_writing) {
        disk_go_on(world, node);
        return;
    }
    broker->is_writing = false;
    if (disk->is_eio) {
        disk->is_eio = false;
        world->n_eios++;
        rota_sim_note(world->sim, node, "a sync fails");
        if (world->plant == PLANT_EIO) {
            disk_lose(disk);
        } else {
            end_node(world, node, 200 * ROTA_MSEC + span_upto(world, ROTA_SEC));
            broker->is_writing = true; /* forever: nothing is acknowledged any more */
            return;
        }
    }
    disk->n_synced = disk->kept.size;
    broker->durable = broker->writing_number;
    disk_drop(world, node);
    on_durable(world, node);
    disk_go_on(world, node);
}

/* --- the end of a process, and of a power supply --- */

void disk_crash(struct world *world, struct broker *broker)
{
    struct disk *disk = &broker->disk;
    for (size_t i = 0; i < broker->pending.size; i++)
        free(broker->pending.items[i]);
    broker->pending.size = 0;
    broker->later_at = 0;
    if (disk->kept.size == disk->n_synced)
        return;
    switch (rota_random_below(world->random, 3)) {
    case 0:
        disk_lose(disk);
        break;
    case 1:
        disk->is_torn = true;
        break;
    case 2:
        disk->n_synced = disk->kept.size;
        break;
    }
}

void disk_flip(struct world *world, struct disk *disk)
{
    if (disk->flipped || disk->n_synced == 0)
        return;
    uint64_t batch = disk->kept.items[rota_random_below(world->random, disk->n_synced)]->batch;
    if (batch != disk->kept.items[disk->n_synced - 1]->batch)
        disk->flipped = batch;
}

bool disk_open(struct world *world, struct disk *disk)
{
    if (disk->is_torn)
        disk_lose(disk);
    disk->is_torn = false;
    disk->n_synced = disk->kept.size;
    for (size_t i = 0; i < disk->kept.size; i++) {
        if (disk->kept.items[i]->batch != disk->flipped)
            continue;
        if (world->plant != PLANT_DAMAGE)
            return false;
        disk->n_synced = i;
        disk_lose(disk);
    }
    disk->flipped = 0; /* it was dropped by a compaction meanwhile */
    return true;
}

void disk_deinit(struct broker *broker)
{
    broker->disk.n_synced = 0;
    disk_lose(&broker->disk);
    rota_vector_deinit(&broker->disk.kept);
    rota_vector_deinit(&broker->disk.segments);
    rota_vector_deinit(&broker->pending);
}

/* --- compaction --- */

/* What follows goes to another batch. */
static void seal(struct broker *broker)
{
    if (broker->pending.size > 0)
        broker->pending.items[broker->pending.size - 1]->ends_batch = true;
}

static bool has_sealed(const struct broker *broker)
{
    for (size_t i = 0; i < broker->pending.size; i++)
        if (broker->pending.items[i]->ends_batch)
            return true;
    return false;
}

static struct rota_compaction_look compaction_look(const struct world *world,
                                                   const struct broker *broker)
{
    const struct disk *disk = &broker->disk;
    struct rota_compaction_look look = {
        .live = rota_broker_rewrite_size(broker->machine, UINT64_MAX, SIZE_MAX, UINT64_MAX),
        .segment_size = SEGMENT_SIZE,
        .room = disk_look(world, broker),
        .is_full = broker->is_full,
        .is_busy = has_sealed(broker) || broker->is_writing,
    };
    for (size_t i = 0; i < disk->segments.size; i++) {
        look.bytes += disk->segments.items[i].used;
        look.edge = disk->segments.items[i].first;
        if (i > 0 && look.n_old < ROTA_COMPACTION_OLD)
            look.old[look.n_old++] = (struct rota_compaction_segment){
                .bytes = disk->segments.items[i - 1].size, .end = look.edge};
    }
    return look;
}

/* What a driver did that had not asked whether there is room: all jobs were written again as soon
 * as the disk was full, in the batch of whatever else came. */
static struct rota_compaction_todo write_all_anew(struct world *world, struct broker *broker,
                                                  const struct rota_compaction_look *look)
{
    struct rota_compaction_todo todo = {0};
    (void)world;
    if (!look->is_full || look->n_old == 0 || look->is_busy)
        return todo;
    todo.has_written = true;
    if (rota_broker_rewrite(broker->machine, look->edge, ROTA_COMPACTION_JOBS, SIZE_MAX) == 0)
        todo.drop_below = look->edge;
    return todo;
}

/* The driver of a disk that is bounded, with the machine that decides. */
static void compact_bounded(struct world *world, uint32_t node)
{
    struct broker *broker = broker_at(world, node);
    struct rota_compaction_look look = compaction_look(world, broker);
    struct rota_compaction_todo todo =
        world->plant == PLANT_NO_ASKING
            ? write_all_anew(world, broker, &look)
            : rota_compaction_step(&broker->compaction, rota_sim_mono(world->sim, node), &look,
                                   broker->machine);
    if (todo.want)
        broker->want = todo.want;
    if (todo.has_written && world->plant != PLANT_NO_ASKING)
        seal(broker);
    if (todo.drop_below) {
        broker->compact_below = todo.drop_below;
        broker->compact_after = rota_broker_last_number(broker->machine);
    }
    drive(world, node);
    if (todo.has_written && world->plant != PLANT_NO_ASKING)
        seal(broker);
    disk_drop(world, node);
    disk_go_on(world, node);
    set_timer(world, node, TIMER_COMPACT, (todo.has_written ? 5 : 20) * ROTA_MSEC);
}

void compact_on_timer(struct world *world, uint32_t node)
{
    enum { AT_A_TIME = 8, WORTH = 40 };
    struct broker *broker = broker_at(world, node);
    rota_time every = world->shape.compact_every;
    if (world->shape.disk_size > 0) {
        compact_bounded(world, node);
        return;
    }
    if (broker->compact_after == 0 && broker->compact_below == 0 && broker->disk.kept.size > WORTH)
        broker->compact_below = rota_broker_last_number(broker->machine) + 1;
    if (broker->compact_below > 0 && broker->compact_after == 0) {
        if (rota_broker_rewrite(broker->machine, broker->compact_below, AT_A_TIME, SIZE_MAX) == 0)
            broker->compact_after = rota_broker_last_number(broker->machine);
        drive(world, node);
        every = 5 * ROTA_MSEC;
        if (world->plant == PLANT_CUT_EARLY)
            disk_drop(world, node);
    }
    set_timer(world, node, TIMER_COMPACT, every);
}
