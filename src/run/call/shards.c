#include "run/call/shards_hooks.h"

#include "io/clock.h"
#include "io/timer.h"
#include "run/rpc/link.h"

#include <assert.h>
#include <stdlib.h>

/* --- waiting --- */

bool rota_shards_wait_begin(struct rota_shards *shards, struct rota_shards_waiter *waiter)
{
    assert(waiter->number == 0);
    waiter->number = ++shards->n_numbers;
    if (rota_map_put(&shards->waiters, rota_str_of(&waiter->number, sizeof waiter->number), waiter))
        return true;
    waiter->number = 0;
    return false;
}

void rota_shards_wait_end(struct rota_shards *shards, struct rota_shards_waiter *waiter)
{
    if (waiter->number == 0)
        return;
    rota_map_remove(&shards->waiters, rota_str_of(&waiter->number, sizeof waiter->number));
    waiter->number = 0;
}

/* Remove and return the waiter with this number; or NULL. */
static struct rota_shards_waiter *take_waiter(struct rota_shards *shards, uint64_t number)
{
    struct rota_shards_waiter *waiter =
        rota_map_get(&shards->waiters, rota_str_of(&number, sizeof number));
    if (waiter)
        rota_shards_wait_end(shards, waiter);
    return waiter;
}

#define HOLDER(waiter_, type) ((type *)(void *)((char *)(waiter_)-offsetof(type, waiter)))

/* --- reads of the map --- */

static void look_free(struct rota_shards *shards, struct rota_shards_look *look)
{
    if (look->waiter.number)
        rota_shard_cache_cancel(shards->cache, look->waiter.number);
    rota_shards_wait_end(shards, &look->waiter);
    rota_list_remove(&look->link);
    rota_list_remove(&look->told);
    rota_shard_map_drop(look->map);
    free(look);
}

static void warm_connections(struct rota_shards *shards, const struct rota_shard_map *map)
{
    rota_time now = rota_clock_mono();
    for (size_t i = 0; i < map->n_channels; i++)
        for (size_t j = 0; j < map->channels[i].n_replicas; j++) {
            const struct rota_replica *replica = &map->channels[i].replicas[j];
            rota_pool_fsm_warm(shards->pools, now, replica->node, replica->address, NULL);
        }
}

/* Every read that asks for it has another order. Takes and gives a reference, NULL without
 * memory. */
static struct rota_shard_map *shuffle_map(struct rota_shards *shards, struct rota_shard_map *map)
{
    struct rota_shard_map *shuffled = NULL;
    rota_shard_map_shuffle(map, shards->n_shuffled++, &shards->random, &shuffled, NULL);
    rota_shard_map_drop(map);
    return shuffled;
}

/* The read has its answer; takes a reference to the map. */
static void look_answered(struct rota_shards *shards, struct rota_shards_look *look,
                          enum rota_failure failure, struct rota_shard_map *map)
{
    if (map && look->query.is_warmed)
        warm_connections(shards, map);
    if (map && look->query.is_shuffled) {
        map = shuffle_map(shards, map);
        failure = map ? failure : ROTA_FAILURE_LOCAL;
    }
    look->failure = failure;
    look->map = map;
    rota_list_push(&shards->told_looks, &look->told);
}

enum rota_code rota_shards_look(struct rota_shards *shards, const struct rota_shards_query *query,
                                struct rota_error *error)
{
    if (!query->on_map)
        return rota_error_set(error, ROTA_ERR_INVALID, "shards: on_map is not set");
    struct rota_shards_look *look = calloc(1, sizeof *look);
    struct rota_shard_map *map = NULL;
    if (!look ||
        (look->waiter.kind = ROTA_WAITS_LOOK, !rota_shards_wait_begin(shards, &look->waiter))) {
        free(look);
        return rota_error_no_memory(error, "to query a shard map");
    }
    look->query = *query;
    look->query.name = (struct rota_shards_name){.id = query->name.id};
    rota_list_push(&shards->looks, &look->link);
    rota_time now = rota_clock_mono();
    struct rota_shard_query ask = {
        .method = ROTA_SHARD_GET_LEADERS,
        .database = query->name.database,
        .name = query->name.collection,
        .collection = query->name.id,
        .with_cache = !query->is_fresh,
        .deadline = query->timeout > 0 ? rota_time_add(now, query->timeout) : 0,
        .waiter = look->waiter.number,
    };
    enum rota_code code = rota_shard_cache_get(shards->cache, now, &ask, &map, error);
    if (code) {
        rota_shards_wait_end(shards, &look->waiter);
        look_free(shards, look);
        return code;
    }
    if (map) {
        rota_shards_wait_end(shards, &look->waiter);
        look_answered(shards, look, ROTA_FAILURE_NONE, map);
    }
    rota_shards_settle(shards, false);
    return ROTA_OK;
}

/* --- actions of the cache --- */

static void answer_waiter(struct rota_shards *shards, const struct rota_shard_action *action)
{
    struct rota_shards_waiter *waiter = take_waiter(shards, action->waiter);
    if (waiter) {
        switch (waiter->kind) {
        case ROTA_WAITS_RUN:
            rota_shards_calls_step_run(HOLDER(waiter, struct rota_shards_run),
                                       &(struct rota_execute_event){.type = ROTA_EXECUTE_LEADERS,
                                                                    .failure = action->failure,
                                                                    .map = action->map});
            break;
        case ROTA_WAITS_LOOK:
            look_answered(shards, HOLDER(waiter, struct rota_shards_look), action->failure,
                          action->map);
            return; /* it has the share now */
        case ROTA_WAITS_CALL: {
            struct rota_shards_call *call = HOLDER(waiter, struct rota_shards_call);
            rota_shards_calls_step(call, &(struct rota_call_fsm_event){.type = ROTA_CALL_LEADERS,
                                                                       .number = call->asked,
                                                                       .failure = action->failure,
                                                                       .map = action->map});
            break;
        }
        case ROTA_WAITS_ATTEMPT:
            assert(!"waiting for a connection");
            break;
        }
    }
    rota_shard_map_drop(action->map);
}

static void do_cache(struct rota_shards *shards, const struct rota_shard_action *action)
{
    switch (action->type) {
    case ROTA_SHARD_ASK:
        shards->source.ask(shards->source.data, shards, action->flight,
                           &(struct rota_shards_name){.database = action->database,
                                                      .collection = action->name,
                                                      .id = action->collection});
        break;
    case ROTA_SHARD_FORGET:
        if (shards->source.forget)
            shards->source.forget(shards->source.data, action->flight);
        break;
    case ROTA_SHARD_TELL:
        answer_waiter(shards, action);
        break;
    }
}

void rota_shards_tell(struct rota_shards *shards, uint64_t question,
                      const struct rota_shards_map *map, const struct rota_error *error)
{
    struct rota_error problem;
    struct rota_shard_map *made = NULL;
    enum rota_code code = ROTA_OK;
    if (shards->is_closed)
        return;
    if (error) {
        problem = *error;
        code = error->code;
    } else {
        code =
            rota_shard_map_new(map->id, map->name, map->channels, map->n_channels, &made, &problem);
        if (code == ROTA_ERR_INVALID)
            code = ROTA_ERR_IO; /* the source's mistake, not the asker's */
    }
    if (code)
        memcpy(shards->reason, problem.text, sizeof shards->reason);
    else
        rota_shards_nodes_meet(shards, made);
    rota_shard_cache_answered(shards->cache, rota_clock_mono(), question,
                              rota_failure_of_answer(code), made);
    rota_shards_settle(shards, false);
}

void rota_shards_replace(struct rota_shards *shards, const struct rota_shards_map *map)
{
    struct rota_shard_map *made;
    if (shards->is_closed)
        return;
    if (rota_shard_map_new(map->id, map->name, map->channels, map->n_channels, &made, NULL) ==
        ROTA_OK) {
        rota_shards_nodes_meet(shards, made);
        rota_shard_cache_replace(shards->cache, rota_clock_mono(), made);
    } else { /* the known map is outdated, even if the new one fails */
        rota_shard_cache_invalidate(shards->cache, &map->id, 1);
    }
    rota_shards_settle(shards, false);
}

void rota_shards_deprecate(struct rota_shards *shards, struct rota_str database,
                           struct rota_str collection)
{
    rota_shard_cache_deprecate(shards->cache, database, collection);
}

void rota_shards_invalidate(struct rota_shards *shards, const int64_t *ids, size_t n_ids)
{
    rota_shard_cache_invalidate(shards->cache, ids, n_ids);
}

void rota_shards_remove_database(struct rota_shards *shards, struct rota_str database)
{
    rota_shard_cache_remove_database(shards->cache, database);
}

/* --- results for the program --- */

static struct rota_list_node *take_first(struct rota_list_node *list)
{
    struct rota_list_node *first = rota_list_first(list);
    if (first)
        rota_list_remove(first);
    return first;
}

/* The deadline has passed; perhaps the source knows why there is no map yet. */
static struct rota_str late_text(struct rota_shards *shards, const struct rota_shards_call *call)
{
    static const char late[] = "the deadline has passed";
    struct rota_error error;
    if (call || !shards->source.explain || !shards->source.explain(shards->source.data, &error))
        return rota_str(late);
    rota_error_set(&shards->told, ROTA_ERR_UNAVAILABLE, "%s; %s", late, error.text);
    return rota_str(shards->told.text);
}

/* The text of a failure: the node's own message if there is one. */
static struct rota_str reason_of(struct rota_shards *shards, enum rota_failure failure,
                                 const struct rota_shards_call *call)
{
    if (failure == ROTA_FAILURE_NONE)
        return rota_str("");
    if (failure == ROTA_FAILURE_CANCELLED)
        return rota_str("cancelled");
    if (call && call->has_status)
        return rota_buffer_str(&call->text);
    if (failure == ROTA_FAILURE_NO_REPLICA)
        return rota_str("no node serves the shard");
    if (failure == ROTA_FAILURE_DEADLINE)
        return late_text(shards, call);
    if (failure == ROTA_FAILURE_TIMEOUT)
        return rota_str(ROTA_SHARDS_SILENT);
    return rota_str(shards->reason[0] ? shards->reason : rota_failure_name(failure));
}

struct rota_str rota_shards_text_of(struct rota_shards *shards, enum rota_failure failure,
                                    const struct rota_shards_call *call)
{
    struct rota_str reason = reason_of(shards, failure, call);
    if (!call || !rota_call_fsm_is_unbudgeted(&call->fsm))
        return reason;
    rota_error_set(&shards->told, ROTA_ERR_UNAVAILABLE,
                   "%.*s; each replica was tried, and the retry budget is exhausted",
                   ROTA_STR_ARGS(reason));
    return rota_str(shards->told.text);
}

/* A node's status is kept if the node has answered; our own findings have a status of their own. */
enum rota_status rota_shards_status_of(enum rota_failure failure,
                                       const struct rota_shards_call *call)
{
    bool is_ours = failure == ROTA_FAILURE_NONE || failure == ROTA_FAILURE_CANCELLED ||
                   failure == ROTA_FAILURE_DEADLINE || failure == ROTA_FAILURE_LOCAL;
    return call && call->has_status && !is_ours ? call->status : rota_failure_status(failure);
}

static void tell_call(struct rota_shards *shards, struct rota_shards_call *call)
{
    struct rota_shards_run *run = call->run;
    if (run->user) {
        bool is_dropped = run->is_dropped;
        run->is_dropped = true; /* a cancel by the program is too late now */
        if (!is_dropped)
            shards->hooks->tell(shards->hooks->data, call);
        if (!shards->is_closed)
            rota_shards_calls_run_free(run);
        return;
    }
    if (run->is_dropped || !run->request.on_reply)
        return;
    struct rota_shards_reply reply = {
        .channel = call->channel,
        .status = rota_shards_status_of(call->failure, call),
        .text = rota_shards_text_of(shards, call->failure, call),
        .failure = rota_failure_name(call->failure),
        .node = call->node,
        .n_tries = call->n_tries,
    };
    if (call->failure == ROTA_FAILURE_NONE)
        reply.message = rota_buffer_str(&call->message);
    run->request.on_reply(run->request.data, &reply);
}

/* The call whose failure is the run's, or NULL if the run itself failed. */
static const struct rota_shards_call *find_blamed_call(const struct rota_shards_run *run)
{
    for (size_t i = 0; i < run->n_calls; i++)
        if (run->calls[i] && run->failure && run->calls[i]->failure == run->failure)
            return run->calls[i];
    return NULL;
}

static void tell_run(struct rota_shards *shards, struct rota_shards_run *run)
{
    if (!run->is_dropped) {
        const struct rota_shards_call *call = find_blamed_call(run);
        struct rota_shards_result result = {
            .status = rota_shards_status_of(run->failure, call),
            .text = rota_shards_text_of(shards, run->failure, call),
            .failure = rota_failure_name(run->failure),
            .n_ok = run->n_ok,
            .n_failed = run->n_failed,
        };
        run->is_dropped = true; /* a cancel by the program is too late now */
        run->request.on_done(run->request.data, &result);
    }
    if (!shards->is_closed)
        rota_shards_calls_run_free(run);
}

static void tell_look(struct rota_shards *shards, struct rota_shards_look *look)
{
    struct rota_shards_map map = {0};
    if (look->map)
        map = (struct rota_shards_map){look->map->collection, look->map->channels,
                                       look->map->n_channels, look->map->name};
    look->query.on_map(look->query.data, look->map ? &map : NULL,
                       rota_shards_text_of(shards, look->failure, NULL));
    if (!shards->is_closed)
        look_free(shards, look);
}

static bool has_news(const struct rota_shards *shards)
{
    return rota_list_first(&shards->told_calls) || rota_list_first(&shards->told_looks) ||
           rota_list_first(&shards->told_runs);
}

/* Replies are reported before the end of their run, so the runs are last. */
static void report_results(struct rota_shards *shards)
{
    struct rota_list_node *node;
    shards->is_telling = true;
    rota_link_enter();
    while (!shards->is_closed) {
        if ((node = take_first(&shards->told_calls)))
            tell_call(shards, ROTA_LIST_ITEM(node, struct rota_shards_call, told));
        else if ((node = take_first(&shards->told_looks)))
            tell_look(shards, ROTA_LIST_ITEM(node, struct rota_shards_look, told));
        else if ((node = take_first(&shards->told_runs)))
            tell_run(shards, ROTA_LIST_ITEM(node, struct rota_shards_run, told));
        else
            break;
    }
    rota_link_leave();
    shards->is_telling = false;
}

/* --- time --- */

static bool is_leader(void *data, int64_t node)
{
    const struct rota_shards *shards = data;
    return rota_shard_cache_has_node(shards->cache, node);
}

static void on_timer(uv_timer_t *timer);

static rota_time next_moment(const struct rota_shards *shards)
{
    const struct rota_heap_node *first = rota_heap_first(&shards->moments);
    const rota_time moments[] = {
        first ? first->at : ROTA_TIME_NEVER,      rota_shard_cache_deadline(shards->cache),
        rota_pool_fsm_deadline(shards->pools),    rota_health_fsm_deadline(&shards->health),
        rota_balancer_deadline(shards->balancer), rota_blacklist_deadline(&shards->blacklist),
        has_news(shards) ? 0 : ROTA_TIME_NEVER,
    };
    rota_time at = ROTA_TIME_NEVER;
    for (size_t i = 0; i < sizeof moments / sizeof *moments; i++)
        at = rota_time_min(at, moments[i]);
    return at;
}

/* A deadline that has moved later leaves the timer as it is: it fires once for nothing, which is
 * cheaper than setting it again with every call. */
static void arm_timer(struct rota_shards *shards)
{
    rota_time at = next_moment(shards), now = rota_clock_mono();
    if (at >= shards->timer_at)
        return;
    shards->timer_at = at;
    uv_update_time(shards->loop);
    rota_timer_set(&shards->timer, on_timer, now, at);
}

static void on_timer(uv_timer_t *timer)
{
    struct rota_shards *shards = timer->data;
    struct rota_heap_node *first;
    rota_time now = rota_clock_mono();
    shards->timer_at = ROTA_TIME_NEVER;
    rota_shard_cache_step(shards->cache, now);
    rota_pool_fsm_step(shards->pools, now, is_leader, shards);
    rota_balancer_step(shards->balancer, now);
    rota_blacklist_step(&shards->blacklist, now);
    rota_shards_nodes_check_health(shards, now);
    while ((first = rota_heap_first(&shards->moments)) && first->at <= now)
        rota_shards_calls_step((struct rota_shards_call *)first,
                               &(struct rota_call_fsm_event){.type = ROTA_CALL_TICK});
    rota_shards_nodes_forget(shards);
    rota_shards_settle(shards, true);
}

/* --- work --- */

/* Carry out one pending action; false if there is none. */
static bool work_once(struct rota_shards *shards)
{
    struct rota_shard_action of_cache;
    struct rota_pool_action of_pools;
    if (shards->n_notes_done < shards->notes.size) {
        struct rota_shards_note note = shards->notes.items[shards->n_notes_done++];
        if (note.call) {
            rota_shards_calls_step(note.call, &note.of_call);
            rota_shard_map_drop(note.of_call.map);
        } else {
            rota_shards_calls_step_run(note.run, &note.of_run);
            rota_shard_map_drop(note.of_run.map);
        }
        return true;
    }
    shards->notes.size = shards->n_notes_done = 0;
    if (rota_shard_cache_next(shards->cache, &of_cache)) {
        do_cache(shards, &of_cache);
        return true;
    }
    if (rota_pool_fsm_next(shards->pools, &of_pools)) {
        if (of_pools.type == ROTA_POOL_TELL) {
            struct rota_shards_waiter *waiter = take_waiter(shards, of_pools.waiter);
            if (waiter)
                rota_shards_nodes_attempt_opened(HOLDER(waiter, struct rota_shards_attempt),
                                                 of_pools.connection);
            else if (of_pools.connection)
                rota_pool_fsm_release(shards->pools, rota_clock_mono(), of_pools.connection);
        } else {
            rota_shards_nodes_do_pool(shards, &of_pools);
        }
        return true;
    }
    return false;
}

void rota_shards_settle(struct rota_shards *shards, bool is_from_loop)
{
    if (shards->is_working || shards->is_closed)
        return;
    shards->is_working = true;
    while (work_once(shards))
        ;
    shards->is_working = false;
    if (is_from_loop && !shards->is_telling)
        report_results(shards);
    if (!shards->is_closed)
        arm_timer(shards);
}

/* --- life --- */

static void shards_free(struct rota_shards *shards)
{
    for (size_t i = shards->n_notes_done; i < shards->notes.size; i++) {
        struct rota_shards_note *note = &shards->notes.items[i];
        rota_shard_map_drop(note->call ? note->of_call.map : note->of_run.map);
    }
    ROTA_LIST_DRAIN (run, &shards->runs, struct rota_shards_run, link)
        rota_shards_calls_run_free(run);
    ROTA_LIST_DRAIN (look, &shards->looks, struct rota_shards_look, link)
        look_free(shards, look);
    rota_shards_nodes_free(shards);
    rota_vector_deinit(&shards->notes);
    rota_heap_deinit(&shards->moments);
    rota_map_deinit(&shards->waiters);
    rota_map_deinit(&shards->nodes);
    rota_map_deinit(&shards->connections);
    rota_shard_cache_free(shards->cache);
    rota_pool_fsm_free(shards->pools);
    rota_health_fsm_deinit(&shards->health);
    rota_blacklist_deinit(&shards->blacklist);
    rota_balancer_free(shards->balancer);
    rota_shards_metrics_deinit(shards);
    free(shards);
}

static void on_timer_closed(uv_handle_t *handle)
{
    shards_free(handle->data);
}

void rota_shards_close(struct rota_shards *shards)
{
    if (!shards)
        return;
    shards->is_closed = true;
    ROTA_LIST_EACH (run, &shards->runs, struct rota_shards_run, link)
        rota_shards_calls_run_stop(run);
    rota_shards_nodes_close(shards);
    if (shards->source.close)
        shards->source.close(shards->source.data);
    uv_close((uv_handle_t *)&shards->timer, on_timer_closed);
}

static void init_tables(struct rota_shards *shards, uint64_t seed)
{
    struct rota_list_node *lists[] = {&shards->runs, &shards->looks, &shards->told_calls,
                                      &shards->told_runs, &shards->told_looks};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        rota_list_init(lists[i]);
    rota_random_init(&shards->random, seed);
    rota_map_init(&shards->waiters, seed);
    rota_map_init(&shards->nodes, seed);
    rota_map_init(&shards->connections, seed);
    shards->timer_at = ROTA_TIME_NEVER;
}

/* The value of an option, 0 meaning the default and less than that none. */
static uint32_t or_default(int64_t option, uint32_t normal)
{
    return option == 0           ? normal
           : option < 0          ? 0
           : option < UINT32_MAX ? (uint32_t)option
                                 : UINT32_MAX;
}

static struct rota_budget_options budget_of(const struct rota_shards_options *options)
{
    struct rota_budget_options usual = ROTA_BUDGET_RETRIES;
    return (struct rota_budget_options){
        .ppm = or_default(options->budget_ppm, usual.ppm),
        .per_second = or_default(options->budget_per_second, usual.per_second),
        .most = or_default(options->budget_max, usual.most),
    };
}

static void init_policy(struct rota_shards *shards, uint64_t seed)
{
    const struct rota_shards_options *options = &shards->options;
    rota_time now = rota_clock_mono();
    rota_time blacklist = options->blacklist ? options->blacklist : ROTA_BLACKLIST_FOR;
    rota_blacklist_init(&shards->blacklist, seed, blacklist > 0 ? blacklist : 0, 0);
    struct rota_budget_options budget = budget_of(options);
    rota_budget_init(&shards->budget, now, &budget);
    rota_hedge_init(&shards->hedge, now, &(struct rota_hedge_options){0});
    rota_health_fsm_init(&shards->health,
                         &(struct rota_health_options){.interval = options->health_interval,
                                                       .timeout = options->health_timeout,
                                                       .n_unavailable = options->health_unavailable,
                                                       .n_dropped = options->health_dropped,
                                                       .seed = seed});
    shards->shared = (struct rota_call_shared){
        .balancer = shards->balancer,
        .random = &shards->random,
        .blacklist = &shards->blacklist,
        .budget = &shards->budget,
        .hedge = options->has_no_hedges ? NULL : &shards->hedge,
        .stats = &shards->stats,
    };
}

static enum rota_code make_machines(struct rota_shards *shards, uint64_t seed,
                                    struct rota_error *error)
{
    const struct rota_shards_options *options = &shards->options;
    struct rota_shard_cache_options cache = {.seed = seed, .ttl = options->ttl};
    struct rota_pool_options pools = {.seed = seed,
                                      .size = options->connections,
                                      .purge_every = options->purge_interval,
                                      .expiry = options->purge_age};
    struct rota_balancer_options balancer = {.policy = options->policy,
                                             .seed = seed,
                                             .expires = options->cost_expiry,
                                             .check_every = options->check_every,
                                             .tolerance_ppm = options->tolerance_ppm};
    enum rota_code code = rota_shard_cache_new(&cache, &shards->cache, error);
    if (code == ROTA_OK)
        code = rota_pool_fsm_new(&pools, &shards->pools, error);
    if (code == ROTA_OK)
        code = rota_balancer_new(&balancer, &shards->balancer, error);
    if (code == ROTA_OK && !rota_shards_metrics_init(shards))
        code = rota_error_no_memory(error, "for a shards client");
    if (code)
        return code;
    if (options->source) {
        shards->source = *options->source;
        return ROTA_OK;
    }
    return rota_shards_directory_new(shards, &shards->source, error);
}

static enum rota_code check_options(const struct rota_shards_options *options,
                                    struct rota_error *error)
{
    const rota_time spans[] = {options->cost_expiry,     options->ttl,
                               options->purge_interval,  options->purge_age,
                               options->health_interval, options->health_timeout};
    for (size_t i = 0; i < sizeof spans / sizeof *spans; i++)
        if (spans[i] < 0)
            return rota_error_set(error, ROTA_ERR_INVALID,
                                  "shards: a duration of the options is negative");
    if (options->budget_max < 0)
        return rota_error_set(error, ROTA_ERR_INVALID, "shards: the budget's bound is negative");
    return ROTA_OK;
}

enum rota_code rota_shards_open(struct uv_loop_s *loop, const struct rota_shards_options *options,
                                struct rota_shards **result, struct rota_error *error)
{
    enum rota_code code = check_options(options, error);
    if (code)
        return code;
    struct rota_shards *shards = calloc(1, sizeof *shards);
    if (!shards)
        return rota_error_no_memory(error, "for a shards client");
    uint64_t seed = options->seed ? options->seed : (uint64_t)rota_clock_mono() ^ (uintptr_t)shards;
    shards->options = *options;
    shards->loop = loop;
    init_tables(shards, seed);
    code = make_machines(shards, seed, error);
    init_policy(shards, seed);
    if (code) {
        shards_free(shards);
        return code;
    }
    shards->options.directories = NULL; /* the caller's; they were copied */
    shards->options.source = NULL;
    uv_timer_init(loop, &shards->timer);
    shards->timer.data = shards;
    *result = shards;
    return ROTA_OK;
}
