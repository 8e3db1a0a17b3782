#include "core/work/broker/broker_inside.h"

#include <stdio.h>
#include <string.h>

enum { EFFECTS_PER_CHANGE = 8, BLOCKS_PER_CHANGE = ROTA_JOB_STORY_MAX + 16 };

#define BYTES_MAX  ((size_t)4 << 30)
#define STARVED_AT (10 * ROTA_MSEC) /* when to retry after a lack of memory */

/* --- its life --- */

static void free_key(void *data, void *block)
{
    rota_broker_discard(data, block);
}

static size_t clamp_limit(size_t asked, size_t usual, size_t max)
{
    size_t wanted = asked ? asked : usual;
    return wanted < max ? wanted : max;
}

static void set_options(struct rota_broker *broker, const struct rota_broker_options *options)
{
    struct rota_broker_options *own = &broker->options;
    if (options)
        *own = *options;
    own->jobs_max = clamp_limit(own->jobs_max, ROTA_BROKER_JOBS_MAX, ROTA_BROKER_JOBS_MAX);
    own->bytes_max = clamp_limit(own->bytes_max, BYTES_MAX, SIZE_MAX);
    own->ended_max = clamp_limit(own->ended_max, 100000, ROTA_BROKER_JOBS_MAX);
    own->queues_max = clamp_limit(own->queues_max, ROTA_BROKER_QUEUES_MAX, ROTA_BROKER_QUEUES_MAX);
    own->keep = own->keep > 0 ? own->keep : ROTA_JOB_KEEP;
    own->grace = own->grace > 0 ? own->grace : ROTA_BROKER_GRACE;
    own->kills_max = own->kills_max > 0 ? own->kills_max : ROTA_JOB_KILLS_DEFAULT;
}

enum rota_code rota_broker_new(const struct rota_broker_options *options,
                               struct rota_broker **broker, struct rota_error *error)
{
    struct rota_broker *made = calloc(1, sizeof *made);
    if (!made)
        return rota_error_no_memory(error, "for a broker");
    set_options(made, options);
    rota_random_init(&made->random, made->options.seed);
    made->seed = rota_random_next(&made->random);
    made->adding.chance = rota_random_next(&made->random);
    made->now.boot = ROTA_TIME_MIN;
    made->lanes.fair =
        (struct rota_fair){.keys_max = ROTA_BROKER_KEYS_MAX, .on_free = free_key, .data = made};
    rota_list_init(&made->lanes.fair.resting);
    rota_list_init(&made->classes.free);
    rota_job_table_init(&made->jobs, rota_random_next(&made->random));
    rota_map_init(&made->queues.by_name, made->seed);
    rota_map_init(&made->classes.by_key, made->seed);
    rota_map_init(&made->workers.by_name, made->seed);
    rota_map_init(&made->names, made->seed);
    rota_map_init(&made->uniques, made->seed);
    if (!rota_capabilities_init(&made->capabilities, ROTA_BROKER_SETS_MAX, made->seed)) {
        rota_broker_free(made);
        return rota_error_no_memory(error, "for a broker");
    }
    *broker = made;
    return ROTA_OK;
}

void rota_broker_free(struct rota_broker *broker)
{
    if (!broker)
        return;
    rota_broker_clear(broker);
    rota_broker_chunk_free_all(broker);
    rota_broker_node_free_all(broker);
    for (size_t i = 0; i < broker->workers.all.size; i++)
        if (broker->workers.all.items[i])
            rota_broker_worker_free(broker, broker->workers.all.items[i]);
    for (uint32_t i = 0; (i = rota_job_table_next(&broker->jobs, i));)
        rota_broker_job_free(broker, i);
    for (size_t i = 0; i < broker->lanes.all.size; i++)
        if (broker->lanes.all.items[i]) {
            rota_lane_deinit(broker->lanes.all.items[i]);
            free(broker->lanes.all.items[i]);
        }
    for (size_t i = 0; i < broker->queues.all.size; i++)
        if (broker->queues.all.items[i])
            rota_broker_queue_free(broker, broker->queues.all.items[i]);
    rota_capabilities_deinit(&broker->capabilities);
    rota_job_table_deinit(&broker->jobs);
    rota_map_deinit(&broker->queues.by_name);
    rota_map_deinit(&broker->classes.by_key);
    rota_map_deinit(&broker->workers.by_name);
    rota_map_deinit(&broker->names);
    rota_map_deinit(&broker->uniques);
    rota_heap_deinit(&broker->workers.alarms);
    rota_vector_deinit(&broker->queues.all);
    rota_vector_deinit(&broker->lanes.all);
    rota_vector_deinit(&broker->lanes.dirty);
    rota_vector_deinit(&broker->queues.empties);
    rota_vector_deinit(&broker->workers.all);
    rota_vector_deinit(&broker->workers.free_numbers);
    rota_vector_deinit(&broker->workers.pollers);
    rota_vector_deinit(&broker->timers);
    rota_vector_deinit(&broker->output.effects);
    rota_vector_deinit(&broker->output.trash);
    rota_vector_deinit(&broker->matching.starts);
    rota_arena_deinit(&broker->output.arena);
    free(broker);
}

/* --- effects --- */

const struct rota_work_effect *rota_broker_effects(const struct rota_broker *broker, size_t *n)
{
    *n = broker->output.effects.size;
    return broker->output.effects.items;
}

void rota_broker_clear(struct rota_broker *broker)
{
    enum { KEPT = 4096 };
    for (size_t i = 0; i < broker->output.trash.size; i++) {
        struct rota_work_trash trash = broker->output.trash.items[i];
        if (trash.size > 0)
            rota_blocks_give(&broker->jobs.blocks, trash.block, trash.size);
        else
            free(trash.block);
    }
    broker->output.trash.size = broker->output.effects.size = 0;
    if (broker->output.effects.capacity > KEPT)
        rota_vector_deinit(&broker->output.effects);
    rota_arena_clear(&broker->output.arena);
    broker->output.spec_ahead = NULL;
}

void rota_broker_set_watched(struct rota_broker *broker, bool is_watched)
{
    broker->output.is_unwatched = !is_watched;
}

bool rota_broker_ready(struct rota_broker *broker, struct rota_lane *lane)
{
    if (!broker->output.spec_ahead)
        broker->output.spec_ahead =
            rota_arena_take(&broker->output.arena, sizeof *broker->output.spec_ahead);
    bool is_ready =
        broker->output.spec_ahead &&
        rota_vector_reserve(&broker->output.effects,
                            broker->output.effects.size + EFFECTS_PER_CHANGE) &&
        rota_vector_reserve(&broker->output.trash, broker->output.trash.size + BLOCKS_PER_CHANGE) &&
        (!lane || rota_lane_reserve(lane));
    broker->is_starved = broker->is_starved || !is_ready;
    return is_ready;
}

struct rota_work_effect *rota_broker_emit(struct rota_broker *broker,
                                          enum rota_work_effect_type type,
                                          const struct rota_job *job)
{
    assert(broker->output.effects.size < broker->output.effects.capacity);
    struct rota_work_effect *effect = &broker->output.effects.items[broker->output.effects.size++];
    memset(effect, 0, offsetof(struct rota_work_effect, record));
    effect->type = type;
    if (!job)
        return effect;
    const struct rota_job_extra *extra = rota_job_extra_of(&broker->jobs, job);
    effect->id = job->id;
    effect->queue = rota_broker_queue_name(rota_broker_queue_of(broker, job));
    if (extra) {
        effect->attempt = extra->attempt;
        effect->n_attempts = extra->n_attempts;
    }
    return effect;
}

struct rota_work_record *rota_broker_write(struct rota_broker *broker,
                                           enum rota_work_record_type type,
                                           const struct rota_job *job)
{
    struct rota_work_effect *effect = rota_broker_emit(broker, ROTA_WORK_DO_RECORD, job);
    struct rota_work_record *record = &effect->record;
    *record = (struct rota_work_record){
        .type = type, .number = ++broker->journal.last_number, .at = broker->stamp};
    if (job) {
        record->id = job->id;
        record->queue = effect->queue;
        record->partition = rota_job_partition(&broker->jobs, job);
    }
    return record;
}

struct rota_work_record *rota_broker_note(struct rota_broker *broker,
                                          enum rota_work_record_type type,
                                          const struct rota_job *job)
{
    if (!broker->options.is_volatile)
        return rota_broker_write(broker, type, job);
    broker->output.noted.type = type; /* other fields are not read */
    broker->output.noted.number = ++broker->journal.last_number;
    broker->output.noted.at = broker->stamp;
    return &broker->output.noted;
}

void rota_broker_attach_spec(struct rota_broker *broker, const struct rota_job *job)
{
    struct rota_work_effect *effect =
        &broker->output.effects.items[broker->output.effects.size - 1];
    struct rota_job_spec *spec = broker->output.spec_ahead;
    assert(spec && effect->type == ROTA_WORK_DO_RECORD);
    broker->output.spec_ahead = NULL;
    rota_broker_job_fill_spec(broker, job, spec);
    effect->record.spec = spec;
}

void rota_broker_tell(struct rota_broker *broker, const struct rota_job *job, uint64_t number)
{
    if (broker->output.is_unwatched)
        return;
    struct rota_work_effect *effect = rota_broker_emit(broker, ROTA_WORK_TELL_STATE, job);
    const struct rota_job_extra *extra = rota_job_extra_of(&broker->jobs, job);
    effect->number = number;
    if (extra) {
        effect->session = extra->session;
        effect->cause = (enum rota_job_cause)extra->cause;
    }
}

void rota_broker_discard(struct rota_broker *broker, void *block)
{
    if (!block)
        return;
    struct rota_work_trash trash = {.block = block};
    if (broker->output.effects.size == 0 || !rota_vector_push(&broker->output.trash, trash))
        free(block);
}

/* --- the clocks --- */

void rota_broker_at(struct rota_broker *broker, struct rota_work_now now)
{
    bool is_late = now.boot >= rota_time_add(broker->now.boot, ROTA_BROKER_STALL); /* seldom */
    rota_time due_at = is_late ? rota_broker_deadline(broker) : ROTA_TIME_NEVER;
    if (due_at < ROTA_TIME_NEVER && now.boot >= rota_time_add(due_at, ROTA_BROKER_STALL))
        broker->workers.spare_until = rota_time_add(now.boot, broker->options.grace);
    if (now.boot > broker->now.boot)
        broker->now.boot = now.boot;
    broker->now.wall = now.wall;
    if (now.wall > broker->stamp)
        broker->stamp = now.wall;
}

rota_time rota_broker_boot_of(const struct rota_broker *broker, rota_time wall)
{
    rota_time span;
    if (wall == 0)
        return ROTA_TIME_NEVER;
    if (__builtin_sub_overflow(wall, broker->now.wall, &span))
        return wall > 0 ? ROTA_TIME_NEVER : ROTA_TIME_MIN;
    return rota_time_add(broker->now.boot, span);
}

/* What could not be done for lack of memory. */
static void retry_undone(struct rota_broker *broker)
{
    broker->is_starved = false;
    if (broker->journal.life_number == UINT64_MAX && rota_broker_ready(broker, NULL))
        rota_broker_replay_next_life(broker);
    for (uint32_t i = 0; (i = rota_job_table_next(&broker->jobs, i));) {
        const struct rota_job *job = rota_job_at(&broker->jobs, i);
        if (job->state == ROTA_JOB_WAITING && !(job->flags & ~ROTA_JOB_PLACED)) {
            if (!rota_broker_ready(broker, rota_broker_lane_of(broker, job)))
                return;
            rota_broker_job_enter(broker, i);
        }
    }
    rota_broker_match_offer_all(broker);
    rota_broker_durable(broker, broker->now, broker->journal.durable);
}

void rota_broker_tick(struct rota_broker *broker, struct rota_work_now now)
{
    rota_broker_at(broker, now);
    if (!broker->journal.is_begun)
        return;
    if (broker->is_starved)
        retry_undone(broker);
    for (uint32_t due; (due = rota_broker_timer_due(broker));)
        if (!rota_broker_end_on_time(broker, rota_job_extra_at(&broker->jobs, due)->job))
            break;
    rota_broker_worker_lose_all(broker);
    rota_broker_ended_forget(broker, 0);
    rota_broker_match_end_yields(broker);
    rota_broker_match(broker);
}

/* When a worker may be judged is known, and then whether we were running shortly before: a pause
 * that ends just after a lease has expired is not counted against the worker. */
static rota_time watch_before(const struct rota_broker *broker, rota_time at)
{
    rota_time from = at - ROTA_BROKER_STALL - ROTA_BROKER_WATCH;
    rota_time next = rota_time_add(broker->now.boot, ROTA_BROKER_WATCH);
    return rota_time_min(at, from > next ? from : next);
}

rota_time rota_broker_deadline(const struct rota_broker *broker)
{
    if (!broker->journal.is_begun)
        return ROTA_TIME_NEVER;
    rota_time at = rota_broker_timer_first(broker);
    const struct rota_heap_node *alarm = rota_heap_first(&broker->workers.alarms);
    if (alarm)
        at = rota_time_min(at, alarm->at);
    if (at < ROTA_TIME_NEVER && broker->counts[ROTA_JOB_RUNNING] > 0)
        at = watch_before(broker, at);
    at = rota_time_min(at, rota_broker_ended_forgets_at(broker));
    if (broker->matching.yield_at)
        at = rota_time_min(at, broker->matching.yield_at);
    if (broker->is_starved)
        at = rota_time_min(at, rota_time_add(broker->now.boot, STARVED_AT));
    return at;
}

/* --- names of workers --- */

struct rota_work_name *rota_broker_hold_name(struct rota_broker *broker, struct rota_str name)
{
    struct rota_work_name *known = rota_map_get(&broker->names, name);
    if (!known) {
        known = malloc(sizeof *known + name.size);
        if (!known)
            return NULL;
        known->pollers = NULL;
        known->n_refs = 0;
        known->size = (uint32_t)name.size;
        if (name.size > 0)
            memcpy(known->bytes, name.data, name.size);
        if (!rota_map_put(&broker->names, rota_str_of(known->bytes, known->size), known)) {
            free(known);
            return NULL;
        }
    }
    known->n_refs++;
    return known;
}

void rota_broker_drop_name(struct rota_broker *broker, struct rota_work_name *name)
{
    if (!name || --name->n_refs > 0)
        return;
    rota_map_remove(&broker->names, rota_str_of(name->bytes, name->size));
    rota_broker_discard(broker, name);
}

/* --- durability --- */

void rota_broker_durable(struct rota_broker *broker, struct rota_work_now now, uint64_t number)
{
    rota_broker_at(broker, now);
    bool may_already = rota_broker_may_dispatch(broker);
    if (number > broker->journal.durable)
        broker->journal.durable =
            number < broker->journal.last_number ? number : broker->journal.last_number;
    while (broker->first_unsafe) {
        uint32_t safe = broker->first_unsafe;
        struct rota_job *job = rota_job_at(&broker->jobs, safe);
        if (job->record > broker->journal.durable)
            break;
        if (!rota_lane_reserve(rota_broker_lane_of(broker, job))) {
            broker->is_starved = true;
            break;
        }
        broker->first_unsafe = job->newer;
        job->flags &= (uint8_t)~ROTA_JOB_UNSAFE;
        rota_broker_job_enter(broker, safe);
    }
    rota_broker_match_send_starts(broker);
    if (!may_already)
        rota_broker_match_offer_all(broker);
    rota_broker_match(broker);
}

void rota_broker_refuse_adds(struct rota_broker *broker, const char *why)
{
    snprintf(broker->adding.refusal, sizeof broker->adding.refusal, "%s", why ? why : "");
}

void rota_broker_allow_adds(struct rota_broker *broker, uint64_t bytes)
{
    broker->adding.room = bytes;
    broker->adding.is_bounded = bytes != UINT64_MAX;
    broker->adding.is_short = false;
}

bool rota_broker_is_short(const struct rota_broker *broker)
{
    return broker->adding.is_short;
}

size_t rota_broker_memory(const struct rota_broker *broker)
{
    size_t bytes = rota_job_table_bytes(&broker->jobs) +
                   broker->timers.capacity * sizeof *broker->timers.items +
                   broker->uniques.capacity * sizeof *broker->uniques.entries;
    for (size_t i = 0; i < broker->lanes.all.size; i++)
        if (broker->lanes.all.items[i])
            bytes += rota_lane_bytes(broker->lanes.all.items[i]);
    return bytes;
}

size_t rota_broker_n_jobs(const struct rota_broker *broker)
{
    return broker->n_live;
}

uint64_t rota_broker_last_number(const struct rota_broker *broker)
{
    return broker->journal.last_number;
}

uint64_t rota_broker_n_looks(const struct rota_broker *broker)
{
    return broker->matching.n_looks;
}
