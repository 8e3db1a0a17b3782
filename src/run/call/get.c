/* The client of Gets: its life, and its time. */
#include "run/call/get_inside.h"

#include "base/quote.h"
#include "io/clock.h"
#include "io/timer.h"
#include "run/rpc/link.h"

#include <stdlib.h>

#define DEFAULT_TIMEOUT      (5 * ROTA_SEC)
#define DEFAULT_HOST_TIMEOUT ROTA_SEC
#define DEFAULT_PING_PERIOD  ROTA_SEC

/* --- modes --- */

const char *rota_get_mode_name(enum rota_get_mode mode)
{
    static const char *const names[ROTA_GET_MODES] = {
        [ROTA_GET_MODE_ADAPTIVE] = "adaptive",
        [ROTA_GET_MODE_BROADCAST] = "broadcast",
        [ROTA_GET_MODE_HEDGE] = "hedge",
    };
    return names[mode];
}

enum rota_code rota_get_mode_parse(struct rota_str name, enum rota_get_mode *mode,
                                   struct rota_error *error)
{
    char quoted[ROTA_QUOTE_MAX];
    for (int i = 0; i < ROTA_GET_MODES; i++) {
        if (!rota_str_is_equal(name, rota_str(rota_get_mode_name((enum rota_get_mode)i))))
            continue;
        *mode = (enum rota_get_mode)i;
        return ROTA_OK;
    }
    return rota_error_set(error, ROTA_ERR_INVALID,
                          "%s is not a multi-get mode: use adaptive, broadcast or hedge",
                          rota_quote(name, quoted));
}

void rota_get_name_collection(const struct rota_get *get, struct rota_metadata *pair,
                              struct rota_call_options *options)
{
    if (!get->options.collection)
        return;
    *pair =
        (struct rota_metadata){rota_str(ROTA_GET_COLLECTION), rota_str(get->options.collection)};
    options->metadata = pair;
    options->n_metadata = 1;
}

/* --- time --- */

static void on_timer(uv_timer_t *timer);

static void arm_timer(struct rota_get *get)
{
    const struct rota_heap_node *first = rota_heap_first(&get->moments);
    rota_time now = rota_clock_mono(), at = get->ping_at;
    if (first && first->at < at)
        at = first->at;
    if (!rota_list_is_empty(&get->told))
        at = now;
    if (at >= get->timer_at)
        return;
    get->timer_at = at;
    uv_update_time(get->loop);
    rota_timer_set(&get->timer, on_timer, now, at);
}

static void on_timer(uv_timer_t *timer)
{
    struct rota_get *get = timer->data;
    struct rota_heap_node *first;
    rota_time now = rota_clock_mono();
    get->timer_at = ROTA_TIME_NEVER;
    if (get->ping_at <= now) {
        get->ping_at = rota_time_add(now, get->options.ping_period);
        rota_get_hosts_ping_all(get, now);
    }
    while ((first = rota_heap_first(&get->moments)) && first->at <= now)
        rota_get_run_step((struct rota_get_run *)first,
                          &(struct rota_get_fsm_event){.type = ROTA_GET_TICK});
    rota_get_finish_event(get, true);
}

/* --- consequences of a step --- */

/* Runs that depend on the map. A step may change it again. */
static void tell_runs(struct rota_get *get)
{
    while (get->version != rota_interval_map_version(get->map)) {
        get->version = rota_interval_map_version(get->map);
        ROTA_LIST_EACH (run, &get->runs, struct rota_get_run, link) {
            if (rota_get_fsm_wants_news(&run->fsm))
                rota_get_run_step(run, &(struct rota_get_fsm_event){.type = ROTA_GET_MAP_CHANGED});
        }
    }
}

static void tell_program(struct rota_get *get)
{
    struct rota_list_node *first;
    get->is_telling = true;
    rota_link_enter();
    while (!get->is_closed && (first = rota_list_first(&get->told))) {
        struct rota_get_run *run = ROTA_LIST_ITEM(first, struct rota_get_run, told);
        rota_list_remove(first);
        rota_get_result_report(run);
    }
    rota_link_leave();
    get->is_telling = false;
}

void rota_get_finish_event(struct rota_get *get, bool is_from_loop)
{
    if (get->is_closed)
        return;
    tell_runs(get);
    if (is_from_loop && !get->is_telling)
        tell_program(get);
    if (!get->is_closed)
        arm_timer(get);
}

/* --- life --- */

static void get_free(struct rota_get *get)
{
    rota_get_run_free_all(get);
    rota_get_hosts_free(get);
    rota_heap_deinit(&get->moments);
    rota_interval_map_free(get->map);
    rota_balancer_free(get->balancer);
    rota_get_cache_writer_deinit(&get->writer);
    rota_get_cache_reader_deinit(&get->reader);
    rota_arena_deinit(&get->arena);
    rota_vector_deinit(&get->ids);
    rota_vector_deinit(&get->problems);
    rota_vector_deinit(&get->sharding_keys);
    rota_vector_deinit(&get->key_list);
    rota_buffer_deinit(&get->ping);
    rota_get_metrics_deinit(get);
    free(get);
}

static void on_timer_closed(uv_handle_t *handle)
{
    get_free(handle->data);
}

void rota_get_close(struct rota_get *get)
{
    if (!get)
        return;
    get->is_closed = true;
    rota_get_hosts_close(get);
    uv_close((uv_handle_t *)&get->timer, on_timer_closed);
}

static enum rota_code check_options(const struct rota_get_options *options,
                                    const struct rota_get_service *service,
                                    struct rota_error *error)
{
    int n_sources = (options->hosts_file != NULL) + (options->members != NULL) +
                    (options->hosts != NULL) + (options->ask_hosts != NULL);
    if (n_sources != 1)
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "a multi-get needs exactly one source of hosts (a hosts file, "
                              "members, a list or a callback); there are %d",
                              n_sources);
    if (!service->sharding_key || !service->write_request || !service->read_response)
        return rota_error_set(
            error, ROTA_ERR_INVALID,
            "a multi-get needs a service with sharding_key, write_request and read_response");
    if (service->key_size == 0 || service->key_size > ROTA_GET_KEY_SIZE_MAX)
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "the key of a service has 1 to %d bytes, not %zu",
                              (int)ROTA_GET_KEY_SIZE_MAX, service->key_size);
    if (options->timeout < 0 || options->host_timeout < 0 || options->ping_period < 0)
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "multi-get: a duration must not be negative");
    return ROTA_OK;
}

static void init_options(struct rota_get *get, const struct rota_get_options *options)
{
    get->options = *options;
    if (get->options.timeout == 0)
        get->options.timeout = DEFAULT_TIMEOUT;
    if (get->options.host_timeout == 0)
        get->options.host_timeout = DEFAULT_HOST_TIMEOUT;
    if (get->options.ping_period == 0)
        get->options.ping_period = DEFAULT_PING_PERIOD;
    if (get->options.message_max == 0)
        get->options.message_max = ROTA_GET_MESSAGE_MAX;
}

static enum rota_code make_machines(struct rota_get *get, uint64_t seed, struct rota_error *error)
{
    rota_time now = rota_clock_mono();
    struct rota_balancer_options balancer = {.seed = seed};
    enum rota_code code = rota_interval_map_new(seed, &get->map, error);
    if (code == ROTA_OK)
        code = rota_balancer_new(&balancer, &get->balancer, error);
    if (code == ROTA_OK && !rota_get_metrics_init(get))
        code = rota_error_no_memory(error, "for a multi-get");
    if (code)
        return code;
    rota_budget_init(&get->budget, now, &ROTA_BUDGET_RETRIES);
    rota_hedge_init(&get->hedge, now,
                    &(struct rota_hedge_options){.budget = ROTA_GET_BUDGET_HEDGES});
    rota_get_load_init(&get->load, now);
    get->shared = (struct rota_get_shared){
        .map = get->map,
        .balancer = get->balancer,
        .random = &get->random,
        .budget = &get->budget,
        .hedge = &get->hedge,
        .load = &get->load,
        .stats = &get->stats,
    };
    return ROTA_OK;
}

/* The request of every ping. */
static enum rota_code write_ping(struct rota_get *get, struct rota_error *error)
{
    enum rota_code code =
        get->service.write_request(get->service.data, NULL, 0, 0, &get->writer, error);
    rota_buffer_append_str(&get->ping, rota_buffer_str(&get->writer.buffer));
    if (!code && (get->writer.buffer.failed || get->ping.failed))
        code = rota_error_no_memory(error, "for a multi-get");
    return code;
}

enum rota_code rota_get_open(struct uv_loop_s *loop, const struct rota_get_options *options,
                             struct rota_get **result, struct rota_error *error)
{
    const struct rota_get_service *service = options->service ? options->service : rota_get_cache();
    enum rota_code code = check_options(options, service, error);
    if (code)
        return code;
    struct rota_get *get = calloc(1, sizeof *get);
    if (!get)
        return rota_error_no_memory(error, "for a multi-get");
    uint64_t seed = options->seed ? options->seed : (uint64_t)rota_clock_mono() ^ (uintptr_t)get;
    init_options(get, options);
    get->service = *service;
    get->loop = loop;
    get->reader.arena = &get->arena;
    get->timer_at = ROTA_TIME_NEVER;
    rota_random_init(&get->random, seed);
    rota_map_init(&get->peers, seed);
    rota_list_init(&get->runs);
    rota_list_init(&get->told);
    uv_timer_init(loop, &get->timer);
    get->timer.data = get;
    code = make_machines(get, seed, error);
    if (!code)
        code = write_ping(get, error);
    if (!code)
        code = rota_get_hosts_open(get, error);
    if (code) {
        rota_get_close(get);
        return code;
    }
    get->ping_at = rota_clock_mono(); /* the first ones from the loop */
    arm_timer(get);
    *result = get;
    return ROTA_OK;
}
