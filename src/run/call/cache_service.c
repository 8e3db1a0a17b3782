#include "run/call/cache_service.h"

#include "io/clock.h"
#include "run/call/cache.h"
#include "run/call/get_server_inside.h"

#include <rota/experimental/store_members.h>
#include <stdio.h>
#include <stdlib.h>
#include <uv.h>

enum { MESSAGE_MAX = 64 << 20 };

_Static_assert((int)ROTA_LEASE_WANTED_MAX <= (int)ROTA_GET_SHARDS_MAX,
               "all have room in an answer");

struct rota_cache_service {
    struct rota_cache_service_options options;
    uv_loop_t *loop;
    struct rota_store *store;
    struct rota_cache_source *source;
    struct rota_cache *cache;
    struct rota_lease *lease;
    struct rota_get_server *gets;
    uint32_t wanted, wanted_max;
    size_t n_shards;
    char space[ROTA_STORE_ROLES_MAX];
    bool is_giving_back; /* the lease is being closed */
    bool was_held, is_ready, is_leaving, is_left, is_closed, is_refused;
    void (*on_closed)(void *data);
    void *closed_data;
};

/* Only the first error is reported. */
static void note_failure(struct rota_cache_service *service, const struct rota_error *error)
{
    if (service->is_refused || service->is_closed)
        return;
    service->is_refused = true;
    service->options.on_refused(service->options.data, error);
}

static void log_counts(const struct rota_cache_service *service, const char *phrase)
{
    struct rota_cache_counts counts = rota_cache_counts(service->cache);
    rota_log(service->options.log, rota_clock_wall(), ROTA_LOG_INFO, phrase,
             ROTA_LOG_FACT("hits", counts.memory.n_hits),
             ROTA_LOG_FACT("misses", counts.memory.n_misses),
             ROTA_LOG_FACT("loaded", counts.n_loaded), ROTA_LOG_FACT("entries", counts.n_entries),
             ROTA_LOG_FACT("bytes", counts.n_bytes));
}

static bool is_ending(const struct rota_cache_service *service)
{
    return service->is_leaving || service->is_closed || service->is_refused;
}

/* --- being ready --- */

static enum rota_code open_store(struct rota_cache_service *service, struct rota_error *error);

/* Only now the store learns of us: a process that can't serve takes no shard from others, and
 * does not change the number of shards. */
static void on_source_ready(void *data)
{
    struct rota_cache_service *service = data;
    struct rota_error error;
    if (!is_ending(service) && open_store(service, &error))
        note_failure(service, &error);
}

static void on_source_refused(void *data, const struct rota_error *error)
{
    note_failure(data, error);
}

static void on_source_changed(void *data)
{
    rota_cache_outdate(((struct rota_cache_service *)data)->cache);
}

static void on_store_up(void *data)
{
    struct rota_cache_service *service = data;
    if (service->is_ready || is_ending(service))
        return;
    service->is_ready = true;
    service->options.on_ready(service->options.data);
}

/* An unreachable database is retried; a source that rejects us will keep doing so. */
static void on_store_down(void *data, const struct rota_error *error)
{
    struct rota_cache_service *service = data;
    if (!service->is_ready && error->code == ROTA_ERR_INVALID)
        note_failure(service, error);
}

/* --- shards --- */

static struct rota_interval interval_of(const struct rota_cache_service *service, uint32_t shard)
{
    return rota_interval_of(shard, (uint64_t)service->options.shards);
}

static void on_start(void *data, uint32_t shard, uint64_t epoch)
{
    struct rota_cache_service *service = data;
    struct rota_interval interval = interval_of(service, shard);
    struct rota_error error;
    service->was_held = true;
    service->n_shards++;
    if (rota_get_server_hold(service->gets, &interval, epoch, &error))
        note_failure(service, &error);
    if (!service->is_closed)
        service->options.on_shards(service->options.data);
}

static void on_stop(void *data, uint32_t shard, uint64_t epoch, enum rota_lease_why why)
{
    struct rota_cache_service *service = data;
    struct rota_interval interval = interval_of(service, shard);
    (void)epoch;
    (void)why;
    service->n_shards--;
    if (service->gets)
        rota_get_server_drop(service->gets, &interval);
    if (!service->is_closed)
        service->options.on_shards(service->options.data);
}

/* The claim is wrong from the start, or has become so: then others hold on. */
static void on_lease_refused(void *data, const struct rota_error *error)
{
    struct rota_cache_service *service = data;
    if (!service->was_held)
        note_failure(service, error);
    else
        rota_log(service->options.log, rota_clock_wall(), ROTA_LOG_ERROR, "lease rejected",
                 ROTA_LOG_FACT("space", service->space), ROTA_LOG_FACT("dc", service->options.dc),
                 ROTA_LOG_FACT("error", error->text));
}

static bool is_held(void *data, const struct rota_interval *shard, uint64_t epoch)
{
    const struct rota_lease *lease = ((struct rota_cache_service *)data)->lease;
    return lease && rota_lease_check(lease, (uint32_t)shard->from, epoch);
}

static void on_batch(void *data, struct rota_get_batch *batch)
{
    rota_cache_answer(((struct rota_cache_service *)data)->cache, batch);
}

static void on_cancel(void *data, struct rota_get_batch *batch)
{
    rota_cache_cancel(((struct rota_cache_service *)data)->cache, batch);
}

void rota_cache_service_take(struct rota_cache_service *service, struct rota_server_call *call)
{
    rota_get_server_take(service->gets, call);
}

/* --- leaving --- */

static void service_free(struct rota_cache_service *service);

static void on_given_back(void *data)
{
    struct rota_cache_service *service = data;
    service->is_giving_back = false;
    if (service->is_closed) {
        service_free(service);
        return;
    }
    log_counts(service, "cache stopped");
    service->options.on_left(service->options.data);
}

static void on_idle(void *data)
{
    struct rota_cache_service *service = data;
    struct rota_lease *lease = service->lease;
    if (service->is_left || service->is_closed)
        return;
    service->is_left = true;
    service->lease = NULL;
    service->is_giving_back = lease != NULL;
    if (lease)
        rota_lease_close(lease, on_given_back, service);
    else
        on_given_back(service); /* the source was never ready */
}

/* The shards are held until the last call is answered, and then released. */
void rota_cache_service_leave(struct rota_cache_service *service)
{
    if (service->is_leaving)
        return;
    service->is_leaving = true;
    log_counts(service, "cache stopping");
    rota_get_server_leave(service->gets, on_idle, service);
}

/* --- opening --- */

static enum rota_code open_source(struct rota_cache_service *service, struct rota_error *error)
{
    const struct rota_cache_service_options *options = &service->options;
    struct rota_cache_source_options with = {.log = service->options.log,
                                             .events = {.on_ready = on_source_ready,
                                                        .on_refused = on_source_refused,
                                                        .on_changed = on_source_changed,
                                                        .data = service}};
    struct rota_str source = rota_str(options->source);
    enum rota_code code;
    if (rota_str_has_prefix(source, rota_str("file:")) && source.size > 5)
        code = rota_cache_file_open(service->loop, options->source + 5, &with, &service->source,
                                    error);
    else if (rota_str_has_prefix(source, rota_str("sql:")) && source.size > 4)
        code = rota_cache_sql_open(service->loop, options->store, options->source + 4, &with,
                                   &service->source, error);
    else
        code = rota_error_set(error, ROTA_ERR_INVALID,
                              "the source %.64s must be file:FILE or sql:TABLE", options->source);
    if (code)
        return code;
    struct rota_cache_options cache = {.source = service->source,
                                       .memory = (size_t)options->memory,
                                       .keep = service->source->is_static ? ROTA_TIME_NEVER
                                                                          : options->keep,
                                       .seed = (uint64_t)uv_hrtime()};
    return rota_cache_open(&cache, &service->cache, error);
}

static enum rota_code open_lease(struct rota_cache_service *service, struct rota_error *error)
{
    const struct rota_cache_service_options *options = &service->options;
    struct rota_lease_options with = {
        .space = service->space,
        .dc = options->dc,
        .host = options->host,
        .shards = (uint32_t)options->shards,
        .wanted = service->wanted_max,
        .ttl = options->ttl,
        .is_alone = options->is_alone,
        .is_reshard = options->is_reshard,
        .loss = options->loss,
        .on_start = on_start,
        .on_stop = on_stop,
        .on_refused = on_lease_refused,
        .log = service->options.log,
        .data = service,
    };
    enum rota_code code =
        rota_lease_open(service->loop, service->store, &with, &service->lease, error);
    if (!code)
        rota_lease_set_wanted(service->lease, service->wanted);
    return code;
}

/* Errors in the options are found before anything is contacted. */
static enum rota_code open_service(struct rota_cache_service *service, struct rota_error *error)
{
    const struct rota_get_server_options gets = {.on_batch = on_batch,
                                                 .on_cancel = on_cancel,
                                                 .is_held = is_held,
                                                 .message_max = MESSAGE_MAX,
                                                 .metrics = service->options.metrics,
                                                 .data = service};
    enum rota_code code = rota_cache_service_role(service->options.name, service->space, error);
    if (!code)
        code = open_source(service, error);
    if (!code)
        code = rota_get_server_new(&gets, &service->gets, error);
    if (code)
        return code;
    return service->source->is_ready ? open_store(service, error) : ROTA_OK;
}

static enum rota_code open_store(struct rota_cache_service *service, struct rota_error *error)
{
    struct rota_store_options store = {.url = service->options.store,
                                       .purpose = "leases",
                                       .log = service->options.log,
                                       .on_up = on_store_up,
                                       .on_down = on_store_down,
                                       .data = service};
    enum rota_code code = rota_store_open(service->loop, &store, &service->store, error);
    return code ? code : open_lease(service, error);
}

enum rota_code rota_cache_service_open(struct uv_loop_s *loop,
                                       const struct rota_cache_service_options *options,
                                       struct rota_cache_service **result, struct rota_error *error)
{
    struct rota_cache_service *service = calloc(1, sizeof *service);
    if (!service)
        return rota_error_no_memory(error, "for a cache");
    service->options = *options;
    service->loop = loop;
    service->wanted = (uint32_t)options->wanted;
    service->wanted_max = (uint32_t)(options->wanted_max ? options->wanted_max : options->wanted);
    enum rota_code code = open_service(service, error);
    if (code) {
        rota_cache_service_close(service, NULL, NULL);
        return code;
    }
    *result = service;
    return ROTA_OK;
}

void rota_cache_service_set_wanted(struct rota_cache_service *service, uint32_t wanted)
{
    if (is_ending(service))
        return;
    service->wanted = wanted < 1 ? 1 : wanted > service->wanted_max ? service->wanted_max : wanted;
    if (service->lease)
        rota_lease_set_wanted(service->lease, service->wanted);
}

/* --- closing --- */

static void service_free(struct rota_cache_service *service)
{
    void (*on_closed)(void *data) = service->on_closed;
    void *data = service->closed_data;
    if (service->store)
        rota_store_forget(service->store, service);
    rota_store_close(service->store);
    free(service);
    if (on_closed)
        on_closed(data);
}

static void on_lease_gone(void *data)
{
    service_free(data);
}

/* A lease that can't be released in time expires in the table. */
void rota_cache_service_close(struct rota_cache_service *service, void (*on_closed)(void *data),
                              void *data)
{
    if (!service)
        return;
    service->is_closed = true;
    service->on_closed = on_closed;
    service->closed_data = data;
    if (service->source)
        service->source->close(service->source);
    rota_get_server_close(service->gets);
    service->gets = NULL;
    rota_cache_close(service->cache);
    if (service->lease)
        rota_lease_close(service->lease, on_lease_gone, service);
    else if (!service->is_giving_back)
        service_free(service);
}

/* --- questions --- */

size_t rota_cache_service_n_shards(const struct rota_cache_service *service)
{
    return service->n_shards;
}

enum rota_code rota_cache_service_role(const char *name, char role[ROTA_STORE_ROLES_MAX],
                                       struct rota_error *error)
{
    if (strchr(name, ','))
        return rota_error_set(error, ROTA_ERR_INVALID, "the name of the cache contains a comma");
    if (snprintf(role, ROTA_STORE_ROLES_MAX, ROTA_CACHE_SERVICE_PREFIX "%s", name) >=
        ROTA_STORE_ROLES_MAX)
        return rota_error_set(error, ROTA_ERR_INVALID, "the name of the cache is too long");
    return ROTA_OK;
}
