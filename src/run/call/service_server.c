/* The server of a space: a gRPC server, fenced by the claims that the space keeps; and the calls in
 * progress, by shard, which a shard that stops waits for. */
#include <rota/service_server.h>

#include "base/metrics.h"
#include "base/text.h"
#include "io/clock.h"
#include "io/timer.h"
#include "run/rpc/server_call.h"

#include <rota/experimental/claims.h>
#include <rota/experimental/health.h>
#include <rota/experimental/reflection.h>
#include <stdio.h>
#include <stdlib.h>
#include <uv.h>

#define DRAIN_WITHIN (10 * ROTA_SEC)

/* What a shard waits for that stops. */
struct shard {
    uint32_t n_calls;  /* in progress */
    uint64_t stopping; /* its epoch; 0: it does not stop */
    rota_time until;
};

struct rota_service_server {
    struct rota_service_server_options options; /* its texts are in `texts` */
    struct rota_metrics *metrics;               /* our own, when none was given */
    struct rota_gauge *calls;
    struct rota_counter *cut;
    struct rota_claims *claims;
    struct rota_server *server;
    struct rota_health *health;
    struct rota_reflection *reflection;
    struct rota_space *space;
    char address[300];
    struct shard *shards; /* as many as the space has; NULL: none has started yet */
    uint32_t n_shards;
    uv_timer_t timer; /* for the first `until` */
    bool has_timer, is_closing;
    void (*on_closed)(void *data);
    void *closed_data;
    char texts[];
};

/* --- shards and their calls --- */

bool rota_service_server_shard(const struct rota_service_server *server,
                               struct rota_server_call *call, uint32_t *shard, uint64_t *epoch)
{
    struct rota_str space, name;
    uint64_t number = 0, number_epoch;
    if (!rota_server_call_shard(call, &space, &name, &number_epoch) ||
        !rota_str_is_equal(space, rota_str(server->options.space)) || name.size > 9)
        return false;
    for (size_t i = 0; i < name.size; i++) {
        if (name.data[i] < '0' || name.data[i] > '9')
            return false;
        number = number * 10 + (uint64_t)(name.data[i] - '0');
    }
    *shard = (uint32_t)number;
    *epoch = number_epoch;
    return true;
}

bool rota_service_server_is_current(const struct rota_service_server *server,
                                    struct rota_server_call *call)
{
    uint32_t shard;
    uint64_t epoch;
    return server->space && rota_service_server_shard(server, call, &shard, &epoch) &&
           rota_space_is_current(server->space, shard, epoch);
}

static struct shard *find_shard(struct rota_service_server *server, uint32_t shard)
{
    uint32_t n = server->shards ? server->n_shards : rota_space_map(server->space)->n_shards;
    if (!server->shards) {
        server->shards = calloc(n + 1, sizeof *server->shards);
        server->n_shards = n;
    }
    return server->shards && shard < n ? &server->shards[shard] : NULL;
}

static void on_timer(uv_timer_t *timer);

static void arm_timer(struct rota_service_server *server)
{
    rota_time at = ROTA_TIME_NEVER;
    for (uint32_t i = 0; i < server->n_shards; i++)
        if (server->shards[i].stopping)
            at = rota_time_min(at, server->shards[i].until);
    rota_timer_set(&server->timer, on_timer, rota_clock_boot(), at);
}

static void end_stop(struct rota_service_server *server, uint32_t number)
{
    struct shard *shard = &server->shards[number];
    uint64_t epoch = shard->stopping;
    shard->stopping = 0;
    if (shard->n_calls > 0) {
        rota_counter_add(server->cut, shard->n_calls);
        rota_log(server->options.log, rota_clock_wall(), ROTA_LOG_WARN,
                 "shard stopped with calls in progress",
                 ROTA_LOG_FACT("space", server->options.space), ROTA_LOG_FACT("shard", number),
                 ROTA_LOG_FACT("epoch", epoch), ROTA_LOG_FACT("calls", shard->n_calls));
    }
    rota_space_stopped(server->space, number, epoch);
}

static void on_timer(uv_timer_t *timer)
{
    struct rota_service_server *server = timer->data;
    for (uint32_t i = 0; i < server->n_shards; i++)
        if (server->shards[i].stopping && rota_clock_boot() >= server->shards[i].until)
            end_stop(server, i);
    arm_timer(server);
}

static uint32_t on_begin(void *data, struct rota_server_call *call)
{
    struct rota_service_server *server = data;
    uint32_t number;
    uint64_t epoch;
    struct shard *shard = rota_service_server_shard(server, call, &number, &epoch)
                              ? find_shard(server, number)
                              : NULL;
    if (!shard)
        return UINT32_MAX;
    shard->n_calls++;
    rota_gauge_add(server->calls, 1);
    return number;
}

static void on_end(void *data, uint32_t number)
{
    struct rota_service_server *server = data;
    if (number == UINT32_MAX)
        return;
    struct shard *shard = &server->shards[number];
    rota_gauge_add(server->calls, -1);
    if (--shard->n_calls > 0 || !shard->stopping)
        return;
    end_stop(server, number);
    arm_timer(server);
}

static void on_start(void *data, uint32_t shard, uint64_t epoch)
{
    struct rota_service_server *server = data;
    if (server->options.on_start)
        server->options.on_start(server->options.data, shard, epoch);
    else
        rota_space_started(server->space, shard, epoch);
}

static void on_stop(void *data, uint32_t number, uint64_t epoch, rota_time until)
{
    struct rota_service_server *server = data;
    if (server->options.on_stop) {
        server->options.on_stop(server->options.data, number, epoch, until);
        return;
    }
    struct shard *shard = find_shard(server, number);
    if (!shard || shard->n_calls == 0) {
        rota_space_stopped(server->space, number, epoch);
        return;
    }
    shard->stopping = epoch;
    shard->until = until;
    arm_timer(server);
}

void rota_service_server_started(struct rota_service_server *server, uint32_t shard, uint64_t epoch,
                                 const char *problem)
{
    if (problem)
        rota_space_refuse(server->space, shard, epoch, problem);
    else
        rota_space_started(server->space, shard, epoch);
}

void rota_service_server_stopped(struct rota_service_server *server, uint32_t shard, uint64_t epoch)
{
    rota_space_stopped(server->space, shard, epoch);
}

/* --- the end --- */

/* The server is closed or was never opened, and so is the space. */
static void finish(struct rota_service_server *server)
{
    void (*on_closed)(void *data) = server->on_closed;
    void *data = server->closed_data;
    rota_health_close(server->health);
    rota_reflection_close(server->reflection);
    rota_claims_free(server->claims);
    rota_metrics_free(server->metrics);
    free(server->shards);
    free(server);
    if (on_closed)
        on_closed(data);
}

static void on_timer_closed(uv_handle_t *handle)
{
    finish(handle->data);
}

/* Handlers that have not finished will do it without us. */
static void close_server(struct rota_service_server *server)
{
    if (server->server)
        rota_server_call_set_tally(server->server, (struct rota_server_tally){0});
    rota_server_close(server->server);
    if (server->has_timer)
        uv_close((uv_handle_t *)&server->timer, on_timer_closed);
    else
        finish(server);
}

static void on_drained(void *data, size_t n_cut)
{
    struct rota_service_server *server = data;
    rota_log(server->options.log, rota_clock_wall(), n_cut ? ROTA_LOG_WARN : ROTA_LOG_INFO,
             "service closed", ROTA_LOG_FACT("space", server->options.space),
             ROTA_LOG_FACT("address", server->address), ROTA_LOG_FACT("cut", n_cut));
    close_server(server);
}

static void on_space_closed(void *data)
{
    struct rota_service_server *server = data;
    server->space = NULL;
    rota_server_drain(server->server, DRAIN_WITHIN, on_drained, server);
}

void rota_service_server_close(struct rota_service_server *server, void (*on_closed)(void *data),
                               void *data)
{
    if (!server || server->is_closing)
        return;
    server->is_closing = true;
    server->on_closed = on_closed;
    server->closed_data = data;
    (void)rota_health_set(server->health, "", false, NULL);
    rota_space_close(server->space, on_space_closed, server);
}

/* --- the beginning --- */

static bool is_wildcard(const char *listen)
{
    return strncmp(listen, "0.0.0.0:", 8) == 0 || strncmp(listen, "[::]:", 5) == 0;
}

static enum rota_code check_options(const struct rota_service_server_options *o,
                                    struct rota_error *error)
{
    if (!o->space || !o->listen || !o->store)
        return rota_error_set(
            error, ROTA_ERR_INVALID,
            "a service server needs a space, an address to listen at and a store");
    if (!o->address && is_wildcard(o->listen))
        return rota_error_set(
            error, ROTA_ERR_INVALID,
            "service %s listens at %s: set `address` to the one that clients connect to", o->space,
            o->listen);
    return ROTA_OK;
}

static struct rota_service_server *server_new(const struct rota_service_server_options *o)
{
    size_t size = rota_text_size(o->space) + rota_text_size(o->engine);
    struct rota_service_server *server = calloc(1, sizeof *server + size + 1);
    if (!server)
        return NULL;
    char *to = server->texts;
    server->options = *o;
    server->options.space = rota_text_keep(&to, o->space);
    server->options.engine = rota_text_keep(&to, o->engine);
    return server;
}

static bool make_series(struct rota_service_server *server)
{
    const struct rota_label labels[] = {{"space", rota_str(server->options.space)}};
    if (!server->options.metrics)
        server->options.metrics = server->metrics = rota_metrics_new(1);
    if (!server->options.metrics)
        return false;
    server->calls = rota_metrics_gauge(server->options.metrics, "rota_service_calls",
                                       "Calls to shards of this server in progress.", labels, 1);
    server->cut = rota_metrics_counter(
        server->options.metrics, "rota_service_cut_total",
        "Calls still in progress when the server stopped their shard.", labels, 1);
    return true;
}

static enum rota_code add_methods(struct rota_service_server *server,
                                  const struct rota_service_server_options *o,
                                  struct rota_error *error)
{
    enum rota_code code = ROTA_OK;
    for (size_t i = 0; !code && i < o->n_methods + o->n_unfenced; i++) {
        bool is_fenced = i < o->n_methods;
        struct rota_server_method method =
            is_fenced ? o->methods[i] : o->unfenced[i - o->n_methods];
        method.is_fenced = is_fenced;
        code = rota_server_add(server->server, &method, error);
    }
    return code;
}

static enum rota_code open_server(struct uv_loop_s *loop, struct rota_service_server *server,
                                  const struct rota_service_server_options *o,
                                  struct rota_error *error)
{
    uint64_t seed = 0;
    int failed = uv_random(NULL, NULL, &seed, sizeof seed, 0, NULL);
    if (failed)
        return rota_error_set(error, ROTA_ERR_IO, "service %s: no random number: %s", o->space,
                              uv_strerror(failed));
    enum rota_code code = rota_claims_new(seed, &server->claims, error);
    const struct rota_server_options options = {
        .tls = o->tls,
        .insecure = o->insecure,
        .claims = server->claims,
        .metrics = o->metrics, /* it may outlive ours */
        .log = o->log,
    };
    if (!code)
        code = rota_server_open(loop, &options, &server->server, error);
    if (!code)
        code = add_methods(server, o, error);
    if (!code)
        code = rota_health_open(server->server, &server->health, error);
    if (!code && o->n_descriptors > 0)
        code = rota_reflection_open(server->server, o->descriptors, o->n_descriptors,
                                    &server->reflection, error);
    if (!code)
        code = rota_server_listen(server->server, o->listen, error);
    if (code)
        return code;
    snprintf(server->address, sizeof server->address, "%s",
             o->address ? o->address : rota_server_address(server->server, 0));
    rota_server_call_set_tally(server->server,
                               (struct rota_server_tally){on_begin, on_end, server});
    return ROTA_OK;
}

static enum rota_code open_space(struct uv_loop_s *loop, struct rota_service_server *server,
                                 const struct rota_service_server_options *o,
                                 struct rota_error *error)
{
    const struct rota_space_options options = {
        .name = o->space,
        .member = server->address,
        .engine = o->engine ? o->engine : "ring",
        .n_shards = o->n_shards ? o->n_shards : ROTA_SERVICE_SERVER_SHARDS,
        .is_alone = !o->address, /* we have the port */
        .ttl = o->ttl,
        .stop_within = o->stop_within,
        .retry_after = o->retry_after,
        .is_start_answered = true,
        .on_start = on_start,
        .on_stop = on_stop,
        .claims = server->claims,
        .log = o->log,
        .metrics = server->options.metrics,
        .data = server,
    };
    return rota_space_open(loop, o->store, &options, &server->space, error);
}

enum rota_code rota_service_server_open(struct uv_loop_s *loop,
                                        const struct rota_service_server_options *options,
                                        struct rota_service_server **result,
                                        struct rota_error *error)
{
    enum rota_code code = check_options(options, error);
    if (code)
        return code;
    struct rota_service_server *server = server_new(options);
    if (!server || !make_series(server)) {
        free(server);
        return rota_error_no_memory(error, "for service %s", options->space);
    }
    code = open_server(loop, server, options, error);
    if (!code)
        code = open_space(loop, server, options, error);
    if (code) {
        close_server(server);
        return code;
    }
    uv_timer_init(loop, &server->timer);
    server->timer.data = server;
    server->has_timer = true;
    rota_log(options->log, rota_clock_wall(), ROTA_LOG_INFO, "service open",
             ROTA_LOG_FACT("space", options->space), ROTA_LOG_FACT("address", server->address));
    *result = server;
    return ROTA_OK;
}

/* --- its parts --- */

const char *rota_service_server_address(const struct rota_service_server *server)
{
    return server->address;
}

struct rota_space *rota_service_server_space(const struct rota_service_server *server)
{
    return server->space;
}

struct rota_server *rota_service_server_grpc(const struct rota_service_server *server)
{
    return server->server;
}
