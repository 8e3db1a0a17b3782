/* Shards by a group (<rota/group.h>): each is a partition that never ends.
 *
 * The epoch of a shard is the partition's mark and the token together. Tokens grow with every
 * owner, and the mark is the highest earlier epoch of the space: a node that is granted a
 * partition with a lower mark first writes the new one to the log, and serves once it is there.
 * So an epoch is the same for all readers of the log, and only grows. */
#include "io/clock.h"
#include "run/own/group_inside.h"
#include "run/own/space_inside.h"

#include <rota/group.h>
#include <stdio.h>
#include <stdlib.h>

enum { NAME_MAX_SIZE = 256, SHARDS_MAX = 65536 };

struct grant {
    uint64_t token; /* 0: none */
    uint64_t base;
    bool is_waiting; /* for its mark to be in the log */
    bool is_told;    /* the group asked it to stop */
    bool is_stopped; /* and the user has */
};

struct engine {
    struct rota_space *space;
    struct rota_group *group;    /* that we own by; NULL: it does not run */
    struct rota_group *observer; /* otherwise */
    uint64_t floor;
    struct grant *grants; /* by shard */
    uv_timer_t timer;
    uint64_t seen_next; /* of the log, when the map was last updated */
    bool is_halting;    /* the group is being closed: only stops are reported to it */
    uint32_t n_parts;   /* groups that are not closed yet, and the timer */
};

/* False for what is not a shard of ours: another program may use the group. */
static bool read_shard(const struct engine *engine, struct rota_str name, uint32_t *shard)
{
    uint32_t number = 0;
    if (name.size == 0 || name.size > 6 || (name.data[0] == '0' && name.size > 1))
        return false;
    for (size_t i = 0; i < name.size; i++) {
        if (name.data[i] < '0' || name.data[i] > '9')
            return false;
        number = number * 10 + (uint32_t)(name.data[i] - '0');
    }
    *shard = number;
    return number < engine->space->map.n_shards;
}

/* --- the state of all shards --- */

/* The one that can be asked; NULL: none. */
static struct rota_group *group_of(const struct engine *engine)
{
    return engine->is_halting ? NULL : engine->group ? engine->group : engine->observer;
}

static bool see_partition(void *data, const struct rota_group_partition_status *partition)
{
    struct engine *engine = data;
    struct rota_space *space = engine->space;
    uint32_t shard;
    if (!read_shard(engine, partition->partition, &shard) || partition->token == 0)
        return true;
    /* Also those of others, which may fail before they could report theirs. */
    uint64_t epoch = (uint64_t)partition->mark + partition->token;
    rota_view_fsm_note_epoch(&space->view.fsm, epoch);
    if (space->mine[shard].state == ROTA_SPACE_STARTED)
        return true;
    bool is_offered = partition->owner.size == 0 && partition->target.size > 0;
    struct rota_str owner = is_offered ? partition->target : partition->owner;
    rota_space_map_see(space, shard,
                       (struct rota_space_shard){
                           .epoch = epoch,
                           .owner = rota_space_map_node_index(space, owner),
                           .state = owner.size == 0 ? ROTA_SPACE_UNOWNED
                                    : is_offered    ? ROTA_SPACE_MOVING
                                                    : ROTA_SPACE_OWNED,
                       });
    return true;
}

static void on_timer(uv_timer_t *timer)
{
    struct engine *engine = timer->data;
    struct rota_group *group = group_of(engine);
    struct rota_group_status status;
    if (!group)
        return;
    rota_group_status(group, &status);
    if (group == engine->group)
        rota_space_engine_trouble(engine->space, status.trouble);
    if (status.next == engine->seen_next)
        return;
    engine->seen_next = status.next;
    rota_group_each_partition(group, see_partition, engine);
}

/* --- our own shards --- */

static void start_shard(struct engine *engine, uint32_t shard)
{
    struct grant *grant = &engine->grants[shard];
    uint64_t epoch = grant->base + grant->token;
    grant->is_waiting = false;
    rota_view_fsm_note_epoch(&engine->space->view.fsm, epoch);
    rota_space_engine_start(engine->space, shard, epoch);
}

static void on_start(void *data, const struct rota_group_grant *granted)
{
    struct engine *engine = data;
    uint32_t shard;
    if (!read_shard(engine, granted->partition, &shard))
        return;
    uint64_t mark = granted->mark > 0 ? (uint64_t)granted->mark : 0;
    struct grant *grant = &engine->grants[shard];
    *grant = (struct grant){.token = granted->token, .base = mark};
    if (mark >= engine->floor) {
        start_shard(engine, shard);
        return;
    }
    grant->base = engine->floor;
    grant->is_waiting = true;
    (void)rota_group_progress(engine->group, granted->partition, granted->token,
                              (int64_t)engine->floor, rota_str(""), NULL);
}

static void on_news(void *data, const struct rota_group_news *news)
{
    struct engine *engine = data;
    uint32_t shard;
    if (news->type != ROTA_GROUP_NEWS_PROGRESS || !read_shard(engine, news->partition, &shard))
        return;
    const struct grant *grant = &engine->grants[shard];
    if (grant->is_waiting && !grant->is_told && news->mark >= (int64_t)grant->base &&
        rota_group_is_current(engine->group, news->partition, grant->token))
        start_shard(engine, shard);
}

static void end_grant(struct engine *engine, uint32_t shard)
{
    char text[ROTA_DRIVER_SHARD_MAX];
    uint64_t token = engine->grants[shard].token;
    engine->grants[shard] = (struct grant){0};
    rota_group_stopped(engine->group, rota_driver_shard_text(shard, text), token);
}

static void on_stop(void *data, struct rota_str partition, uint64_t token)
{
    struct engine *engine = data;
    struct rota_space *space = engine->space;
    uint32_t shard;
    if (!read_shard(engine, partition, &shard) || engine->grants[shard].token != token) {
        rota_group_stopped(engine->group, partition, token);
        return;
    }
    struct grant *grant = &engine->grants[shard];
    grant->is_told = true;
    if (grant->is_waiting || grant->is_stopped)
        end_grant(engine, shard);
    else
        rota_space_engine_stop(space, shard, grant->base + grant->token,
                               rota_group_fsm_fence_at(&engine->group->fsm) +
                                   rota_space_stop_within(space));
}

/* The user may have stopped for another reason than a request of the group. */
static void engine_stopped(void *state, uint32_t shard, uint64_t epoch)
{
    struct engine *engine = state;
    struct grant *grant = &engine->grants[shard];
    if (grant->token == 0 || grant->base + grant->token != epoch)
        return;
    grant->is_stopped = true;
    if (grant->is_told)
        end_grant(engine, shard);
}

static bool is_current(const void *state, uint32_t shard, uint64_t epoch)
{
    const struct engine *engine = state;
    const struct grant *grant = &engine->grants[shard];
    char text[ROTA_DRIVER_SHARD_MAX];
    return engine->group && !engine->is_halting && grant->token != 0 &&
           grant->base + grant->token == epoch &&
           rota_group_is_current(engine->group, rota_driver_shard_text(shard, text), grant->token);
}

static rota_time engine_until(const void *state)
{
    const struct engine *engine = state;
    return engine->group && !engine->is_halting ? rota_group_fsm_fence_at(&engine->group->fsm)
                                                : ROTA_TIME_NEVER;
}

/* Servers fence by the same time as we do, and from the same moment on. */
static void on_fence(void *data)
{
    rota_space_view_limit(((struct engine *)data)->space);
}

/* --- groups --- */

static void on_failed(void *data, const struct rota_error *error)
{
    rota_space_engine_trouble(((struct engine *)data)->space, error->text);
}

static enum rota_code check_options(const struct rota_space *space, struct rota_error *error)
{
    if (space->options.log_url)
        return ROTA_OK;
    return rota_error_set(error, ROTA_ERR_INVALID,
                          "space %s: engine group needs a log, and this node's settings have none: "
                          "ask a node that has one for the space",
                          space->options.name);
}

/* The names of all shards, one after the other. */
static struct rota_group_seed *make_seeds(uint32_t n)
{
    struct rota_group_seed *seeds = calloc(1, n * (sizeof *seeds + ROTA_DRIVER_SHARD_MAX));
    char *text = seeds ? (char *)(seeds + n) : NULL;
    for (uint32_t i = 0; seeds && i < n; i++, text += ROTA_DRIVER_SHARD_MAX)
        seeds[i] = (struct rota_group_seed){.name = rota_driver_shard_text(i, text),
                                            .position = rota_str("")};
    return seeds;
}

static enum rota_code open_group(struct engine *engine, bool is_owner, struct rota_group **group,
                                 struct rota_error *error)
{
    struct rota_space *space = engine->space;
    rota_time ttl = rota_space_ttl(space);
    char name[NAME_MAX_SIZE];
    snprintf(name, sizeof name, "space-%s", space->options.name);
    enum rota_code code = check_options(space, error);
    if (code)
        return code;
    struct rota_group_seed *seeds = make_seeds(space->map.n_shards);
    if (!seeds)
        return rota_error_no_memory(error, "for space %s", space->options.name);
    const struct rota_group_options options = {
        .log_url = space->options.log_url,
        .name = name,
        .task = is_owner ? space->options.member : NULL,
        .session = ttl,
        .stop_within = rota_space_stop_within(space),
        .progress_every = ttl / 50,
        .withdraw_after = 2 * ttl,
        .move_every = ttl / 2,
        .moves_max = 16,
        .seeds = seeds,
        .n_seeds = space->map.n_shards,
        .on_start = on_start,
        .on_stop = on_stop,
        .on_news = on_news,
        .on_failed = on_failed,
        .log = space->options.log,
        .metrics = space->options.metrics,
        .data = engine,
    };
    code = rota_group_open(space->loop, &options, group, error);
    engine->n_parts += !code;
    free(seeds);
    return code;
}

static void release_engine(struct engine *engine)
{
    if (--engine->n_parts > 0)
        return;
    free(engine->grants);
    free(engine);
}

static void on_observer_closed(void *data)
{
    release_engine(data);
}

static void on_group_closed(void *data)
{
    struct engine *engine = data;
    struct rota_error error;
    engine->group = NULL;
    engine->is_halting = false;
    engine->n_parts--; /* the timer is still there */
    if (!engine->space->is_closing && open_group(engine, false, &engine->observer, &error))
        rota_space_engine_trouble(engine->space, error.text);
    rota_space_engine_halted(engine->space);
}

static void close_observer(struct engine *engine)
{
    rota_group_close(engine->observer, on_observer_closed, engine);
    engine->observer = NULL;
}

static enum rota_code engine_run(void *state, uint64_t floor, struct rota_error *error)
{
    struct engine *engine = state;
    if (floor >= ROTA_GROUP_NUMBER_MAX / 2)
        return rota_error_set(error, ROTA_ERR_LIMIT,
                              "space %s: its epochs have become too large for engine group",
                              engine->space->options.name);
    engine->floor = floor;
    enum rota_code code = open_group(engine, true, &engine->group, error);
    if (code)
        return code;
    engine->group->on_fence = on_fence;
    close_observer(engine);
    return ROTA_OK;
}

static void engine_halt(void *state)
{
    struct engine *engine = state;
    engine->is_halting = true;
    rota_group_close(engine->group, on_group_closed, engine);
}

/* --- the engine --- */

static enum rota_code engine_open(struct rota_space *space, void **state, struct rota_error *error)
{
    struct engine *engine = calloc(1, sizeof *engine);
    struct grant *grants = calloc(space->map.n_shards, sizeof *grants);
    enum rota_code code = ROTA_ERR_NO_MEMORY;
    if (engine && grants) {
        engine->space = space;
        engine->grants = grants;
        code = open_group(engine, false, &engine->observer, error);
    } else {
        rota_error_set(error, code, "not enough memory for space %s", space->options.name);
    }
    if (code) {
        free(grants);
        free(engine);
        return code;
    }
    engine->n_parts++;
    uv_timer_init(space->loop, &engine->timer);
    engine->timer.data = engine;
    uint64_t every = (uint64_t)(rota_space_ttl(space) / ROTA_MSEC / 20) + 1;
    uv_timer_start(&engine->timer, on_timer, every, every);
    *state = engine;
    return ROTA_OK;
}

static void on_timer_closed(uv_handle_t *handle)
{
    release_engine(handle->data);
}

static void engine_close(void *state)
{
    struct engine *engine = state;
    uv_close((uv_handle_t *)&engine->timer, on_timer_closed);
    close_observer(engine);
}

static void explain_shard(const void *state, uint32_t shard, char *text, size_t size)
{
    const struct engine *engine = state;
    const struct rota_group *group = group_of(engine);
    char name[ROTA_DRIVER_SHARD_MAX];
    if (group)
        rota_group_explain(group, rota_driver_shard_text(shard, name), text, size);
    else
        snprintf(text, size,
                 "shard %u is stopping on this node, which no longer reads the group's log",
                 (unsigned)shard);
}

const struct rota_engine rota_engine_group = {
    .name = "group",
    .kind = ROTA_VIEW_GROUP,
    .n_shards_max = SHARDS_MAX,
    .check = check_options,
    .open = engine_open,
    .close = engine_close,
    .run = engine_run,
    .halt = engine_halt,
    .stopped = engine_stopped,
    .is_current = is_current,
    .until = engine_until,
    .explain = explain_shard,
};
