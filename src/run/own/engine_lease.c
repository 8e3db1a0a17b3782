/* Shards by leases (<rota/experimental/lease.h>): first come, first served, with a row for each; no
 * process holds more than its share among the participants, by their weights. */
#include "core/own/lease_share.h"
#include "io/clock.h"
#include "run/own/lease_inside.h"
#include "run/own/space_inside.h"

#include <rota/experimental/lease.h>
#include <rota/experimental/store_ask.h>
#include <stdio.h>
#include <stdlib.h>

#define DC "space"

struct engine {
    struct rota_space *space;
    struct rota_lease *lease; /* NULL: it does not run */
    uint64_t instance;        /* of the last one; 0: there was none */
    bool is_halting, is_lease_closing;
    uv_timer_t timer;
    bool is_asking, is_closed;
};

/* --- shards of others --- */

static void see_row(struct rota_space *space, const struct rota_store_lease *row, rota_time db_now)
{
    bool is_held = row->instance != 0 && row->last_ping + row->ttl >= db_now;
    uint32_t owner = is_held ? rota_space_map_node_index(space, row->host) : ROTA_SPACE_NOBODY;
    if (row->shard >= space->map.n_shards || row->epoch == 0 ||
        space->mine[row->shard].state == ROTA_SPACE_STARTED)
        return;
    rota_space_map_see(
        space, row->shard,
        (struct rota_space_shard){.epoch = row->epoch,
                                  .owner = owner,
                                  .state = is_held ? ROTA_SPACE_OWNED : ROTA_SPACE_UNOWNED});
}

static void on_rows(void *data, const struct rota_store_answer *answer)
{
    struct engine *engine = data;
    engine->is_asking = false;
    for (size_t i = 0; !answer->code && i < answer->n_leases; i++)
        see_row(engine->space, &answer->leases[i], answer->db_now);
}

/* --- our share --- */

static uint32_t wanted_of(const struct rota_space *space)
{
    const struct rota_space_options *o = &space->options;
    struct rota_str self = o->member ? rota_str(o->member) : (struct rota_str){0};
    return rota_lease_share_of_member(rota_view_fsm_view(&space->view.fsm), self,
                                      space->map.n_shards, o->wanted);
}

static void on_timer(uv_timer_t *timer)
{
    struct engine *engine = timer->data;
    if (engine->lease && !engine->is_halting)
        rota_lease_set_share(engine->lease, wanted_of(engine->space));
    const struct rota_store_request request = {.verb = ROTA_STORE_LEASES,
                                               .space = rota_str(engine->space->options.name),
                                               .dc = rota_str(DC)};
    if (!engine->is_asking)
        engine->is_asking = !rota_store_ask(engine->space->store, &request, on_rows, engine, NULL);
}

static enum rota_code engine_open(struct rota_space *space, void **state, struct rota_error *error)
{
    struct engine *engine = calloc(1, sizeof *engine);
    if (!engine)
        return rota_error_no_memory(error, "for space %s", space->options.name);
    engine->space = space;
    uv_timer_init(space->loop, &engine->timer);
    engine->timer.data = engine;
    rota_time every = rota_lease_share_read_interval(rota_space_ttl(space), space->map.n_shards);
    uv_timer_start(&engine->timer, on_timer, 0, (uint64_t)(every / ROTA_MSEC));
    *state = engine;
    return ROTA_OK;
}

static void on_closed(uv_handle_t *handle)
{
    free(handle->data);
}

static void engine_close(void *state)
{
    struct engine *engine = state;
    rota_store_forget(engine->space->store, engine);
    uv_close((uv_handle_t *)&engine->timer, on_closed);
}

/* --- our own shards --- */

static void on_start(void *data, uint32_t shard, uint64_t epoch)
{
    struct engine *engine = data;
    struct rota_space *space = engine->space;
    rota_view_fsm_note_epoch(&space->view.fsm, epoch);
    if (!engine->is_halting)
        rota_space_engine_start(space, shard, epoch);
}

static void on_stop(void *data, uint32_t shard, uint64_t epoch, enum rota_lease_why why)
{
    struct engine *engine = data;
    struct rota_space *space = engine->space;
    (void)why;
    rota_space_engine_stop(space, shard, epoch, 0);
    if (space->shards[shard].epoch == epoch)
        rota_space_map_see(space, shard,
                           (struct rota_space_shard){.epoch = epoch,
                                                     .owner = ROTA_SPACE_NOBODY,
                                                     .state = ROTA_SPACE_UNOWNED});
}

static bool is_served(void *data, uint32_t shard, uint64_t epoch)
{
    return rota_space_start_is_served(((struct engine *)data)->space, shard, epoch);
}

static void engine_claim(void *state, uint32_t shard, uint64_t epoch)
{
    rota_lease_serve_update_claim(((struct engine *)state)->lease, shard, epoch);
}

static void on_refused(void *data, const struct rota_error *error)
{
    rota_space_engine_trouble(((struct engine *)data)->space, error->text);
}

static enum rota_code check_wanted(const struct rota_space *space, struct rota_error *error)
{
    uint32_t wanted = wanted_of(space);
    if (wanted <= ROTA_LEASE_WANTED_MAX)
        return ROTA_OK;
    return rota_error_set(error, ROTA_ERR_INVALID,
                          "space %s: with engine lease one process holds at most %d shards, but "
                          "would have to hold %u: use fewer shards, or engine ring",
                          space->options.name, ROTA_LEASE_WANTED_MAX, (unsigned)wanted);
}

static enum rota_code engine_run(void *state, uint64_t floor, struct rota_error *error)
{
    struct engine *engine = state;
    struct rota_space *space = engine->space;
    const struct rota_space_options *o = &space->options;
    uint32_t most = o->wanted ? o->wanted : space->map.n_shards;
    const struct rota_lease_options options = {
        .space = o->name,
        .dc = DC,
        .host = o->member,
        .shards = space->map.n_shards,
        .wanted = most < ROTA_LEASE_WANTED_MAX ? most : ROTA_LEASE_WANTED_MAX,
        .ttl = rota_space_ttl(space),
        .is_alone = o->is_alone,
        .loss = ROTA_LEASE_LOSS_STANDBY,
        .on_start = on_start,
        .on_stop = on_stop,
        .on_refused = on_refused,
        .claims = o->claims,
        .node = rota_space_node(rota_str(o->member)),
        .address = o->member,
        .log = o->log,
        .metrics = o->metrics,
        .data = engine,
    };
    enum rota_code code = check_wanted(space, error);
    if (!code)
        code = rota_lease_open_again(space->loop, space->store, &options, engine->instance,
                                     &engine->lease, error);
    if (!code)
        engine->instance = engine->lease->fsm.options.instance;
    if (!code && space->options.is_start_answered)
        engine->lease->is_served = is_served; /* else as soon as it is started */
    if (!code)
        rota_lease_set_share(engine->lease, wanted_of(space));
    if (!code && floor > 0) /* it gets an epoch, and grants begin above it */
        (void)rota_lease_seen(engine->lease, 0, floor, NULL);
    return code;
}

static void on_lease_closed(void *data)
{
    struct engine *engine = data;
    engine->lease = NULL;
    engine->is_halting = engine->is_lease_closing = false;
    rota_space_engine_halted(engine->space);
}

/* The leases are kept until the user has stopped, and only then released. */
static void close_if_idle(struct engine *engine)
{
    if (!engine->is_halting || engine->is_lease_closing || engine->space->n_mine > 0)
        return;
    engine->is_lease_closing = true;
    rota_lease_close(engine->lease, on_lease_closed, engine);
}

static void engine_halt(void *state)
{
    struct engine *engine = state;
    engine->is_halting = true;
    close_if_idle(engine);
}

static void engine_stopped(void *state, uint32_t shard, uint64_t epoch)
{
    (void)shard;
    (void)epoch;
    close_if_idle(state);
}

static bool is_current(const void *state, uint32_t shard, uint64_t epoch)
{
    const struct engine *engine = state;
    return engine->lease && rota_lease_check(engine->lease, shard, epoch);
}

/* --- why --- */

static void explain_shard(const void *state, uint32_t shard, char *text, size_t size)
{
    const struct rota_space *space = ((const struct engine *)state)->space;
    const struct rota_space_shard *known = &space->shards[shard];
    struct rota_str owner =
        known->owner == ROTA_SPACE_NOBODY ? rota_str("") : space->nodes.items[known->owner];
    if (owner.size > 0)
        snprintf(text, size,
                 "shard %u is on %.*s (epoch %llu) because that node took its lease first and "
                 "keeps it",
                 (unsigned)shard, (int)owner.size, owner.data, (unsigned long long)known->epoch);
    else
        snprintf(
            text, size,
            "shard %u has no owner: its lease is free or has expired, and no node has taken it yet",
            (unsigned)shard);
}

const struct rota_engine rota_engine_lease = {
    .name = "lease",
    .kind = ROTA_VIEW_LEASE,
    .n_shards_max = ROTA_LEASE_SHARDS_MAX,
    .keeps_claims = true,
    .check = check_wanted,
    .open = engine_open,
    .close = engine_close,
    .run = engine_run,
    .halt = engine_halt,
    .claim = engine_claim,
    .stopped = engine_stopped,
    .is_current = is_current,
    .explain = explain_shard,
};
