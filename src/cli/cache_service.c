#include "cli/cache_service.h"

#include "cli/cli.h"
#include "descriptors.h"
#include "io/address.h"
#include "io/clock.h"
#include "run/cache.h"

#include <rota/health.h>
#include <rota/reflection.h>
#include <rota/server.h>
#include <rota/store_members.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <uv.h>

/* How long a member is alive after a beat. */
#define MEMBER_TTL (10 * ROTA_SEC)

/* How long what was closed may take to end. */
#define GRACE ROTA_SEC

enum { MESSAGE_MAX = 64 << 20 }; /* bytes of an answer */

_Static_assert(ROTA_LEASE_WANTED_MAX <= ROTA_STORE_KEYS_MAX + 1, "all slots are one beat");

struct service;

/* One gRPC server, and the shard it answers for. */
struct slot {
    struct service *service;
    struct rota_server *server;
    struct rota_health *health;
    struct rota_reflection *reflection;
    struct rota_get_server *gets;
    char address[ROTA_ADDRESS_TEXT_MAX]; /* what clients know it by */
    bool is_held, is_drained;
    uint32_t shard;
};

struct service {
    const struct rota_cache_service_options *options;
    struct rota_log log;
    uv_loop_t loop;
    uv_signal_t interrupt, terminate;
    bool has_handles;
    struct rota_store *store;
    struct rota_cache_source *source;
    struct rota_cache *cache;
    struct rota_lease *lease;
    struct slot *slots;
    size_t n_slots;
    struct rota_str more[ROTA_STORE_KEYS_MAX]; /* the addresses of all slots but the first */
    char role[ROTA_STORE_ROLES_MAX];
    struct rota_heartbeat *heartbeat; /* NULL: no beat was heard yet */
    bool is_announced, was_held, is_ready, is_leaving, is_forced, is_over;
    int exit_code;
};

static void stop(struct service *service, int exit_code)
{
    service->is_over = true;
    service->exit_code = exit_code;
    uv_stop(&service->loop);
}

/* Only what went wrong first is told. */
static void fail(struct service *service, const struct rota_error *error)
{
    if (!service->is_over)
        stop(service, rota_cli_fail_error(error));
}

static void write_log(void *data, struct rota_str line)
{
    (void)data;
    fwrite(line.data, 1, line.size, stderr);
}

static void tell(const struct service *service, const char *phrase)
{
    struct rota_cache_counts counts = rota_cache_counts(service->cache);
    rota_log(&service->log, rota_clock_wall(), ROTA_LOG_INFO, phrase,
             ROTA_LOG_FACT("hits", counts.memory.n_hits),
             ROTA_LOG_FACT("misses", counts.memory.n_misses),
             ROTA_LOG_FACT("loaded", counts.n_loaded), ROTA_LOG_FACT("entries", counts.n_entries),
             ROTA_LOG_FACT("bytes", counts.n_bytes));
}

/* --- being ready --- */

static void be_ready(struct service *service)
{
    service->is_ready = true;
    for (size_t i = 0; i < service->n_slots; i++)
        printf("%s%s", i ? "," : "ready grpc=", rota_server_address(service->slots[i].server, 0));
    printf("\n");
    fflush(stdout);
    if (!rota_cli_can_print())
        stop(service, ROTA_CLI_NO);
}

static enum rota_code open_store(struct service *service, struct rota_error *error);

/* Only now does the store hear of us: one who can't serve takes no shard from those who
 * can, and changes no number of shards. */
static void on_source_ready(void *data)
{
    struct service *service = data;
    struct rota_error error;
    if (!service->is_leaving && !service->is_over && open_store(service, &error))
        fail(service, &error);
}

static void on_source_refused(void *data, const struct rota_error *error)
{
    fail(data, error);
}

static void on_source_changed(void *data)
{
    rota_cache_outdate(((struct service *)data)->cache);
}

/* --- members --- */

/* All addresses are members, by one request. */
static struct rota_store_request request_of(const struct service *service,
                                            enum rota_store_verb verb)
{
    return (struct rota_store_request){.verb = verb,
                                       .member = {.address = rota_str(service->slots[0].address),
                                                  .roles = rota_str(service->role),
                                                  .zone = rota_str(service->options->dc),
                                                  .ttl = MEMBER_TTL},
                                       .keys = service->more,
                                       .n_keys = service->n_slots - 1};
}

/* The first beat, of which we hear: from now on clients find us. */
static void on_announced(void *data, const struct rota_store_answer *answer)
{
    struct service *service = data;
    const struct rota_store_request beat = request_of(service, ROTA_STORE_BEAT);
    struct rota_error error = answer->error;
    enum rota_code code = answer->code;
    if (service->heartbeat || service->is_leaving || service->is_over)
        return;
    if (!code)
        code = rota_heartbeat_open(&service->loop, service->store, &beat.member, beat.keys,
                                   beat.n_keys, &service->log, &service->heartbeat, &error);
    if (code == ROTA_ERR_UNAVAILABLE || code == ROTA_ERR_UNKNOWN)
        return; /* the store will be up again */
    if (code)
        fail(service, &error);
    else
        be_ready(service);
}

static void on_store_up(void *data)
{
    struct service *service = data;
    const struct rota_store_request beat = request_of(service, ROTA_STORE_BEAT);
    struct rota_error error;
    if (service->heartbeat || service->is_leaving || service->is_over)
        return;
    if (rota_store_ask(service->store, &beat, on_announced, service, &error))
        fail(service, &error);
    service->is_announced = true;
}

static void on_removed(void *data, const struct rota_store_answer *answer)
{
    (void)data; /* without an answer it is gone when its time is over */
    (void)answer;
}

/* Those who leave take themselves off the list. */
static void remove_members(struct service *service)
{
    rota_heartbeat_close(service->heartbeat);
    service->heartbeat = NULL;
    if (service->is_announced) {
        const struct rota_store_request request = request_of(service, ROTA_STORE_MEMBER_REMOVE);
        rota_store_ask(service->store, &request, on_removed, service, NULL);
    }
    service->is_announced = false;
}

/* A database that is away is waited for; one that refuses us will go on to. */
static void on_store_down(void *data, const struct rota_error *error)
{
    struct service *service = data;
    if (!service->is_ready && error->code == ROTA_ERR_INVALID)
        fail(service, error);
}

/* --- shards --- */

static void set_health(struct slot *slot)
{
    if (slot->health)
        rota_health_set(slot->health, "rota.v1.Cache", slot->is_held, NULL);
}

static void on_start(void *data, uint32_t shard, uint64_t epoch)
{
    struct service *service = data;
    struct rota_interval interval = {shard, (uint64_t)shard + 1,
                                     (uint64_t)service->options->shards};
    struct rota_error error;
    for (size_t i = 0; i < service->n_slots; i++) {
        struct slot *slot = &service->slots[i];
        if (slot->is_held)
            continue;
        slot->shard = shard;
        slot->is_held = service->was_held = true;
        if (rota_get_server_hold(slot->gets, &interval, epoch, &error))
            fail(service, &error);
        set_health(slot);
        return;
    }
}

static void on_stop(void *data, uint32_t shard, uint64_t epoch, enum rota_lease_why why)
{
    struct service *service = data;
    (void)epoch;
    (void)why;
    for (size_t i = 0; i < service->n_slots; i++) {
        struct slot *slot = &service->slots[i];
        if (!slot->is_held || slot->shard != shard)
            continue;
        if (slot->gets)
            rota_get_server_drop(slot->gets);
        slot->is_held = false;
        set_health(slot);
    }
}

/* The claim is wrong from the start, or has become so: then others hold on. */
static void on_lease_refused(void *data, const struct rota_error *error)
{
    struct service *service = data;
    if (!service->was_held)
        fail(service, error);
    else
        rota_log(&service->log, rota_clock_wall(), ROTA_LOG_ERROR, "lease refused",
                 ROTA_LOG_FACT("space", service->options->space),
                 ROTA_LOG_FACT("dc", service->options->dc), ROTA_LOG_FACT("error", error->text));
}

static bool is_held(void *data, const struct rota_interval *shard, uint64_t epoch)
{
    const struct slot *slot = data;
    const struct rota_lease *lease = slot->service->lease;
    return lease && rota_lease_check(lease, (uint32_t)shard->from, epoch);
}

static void on_batch(void *data, struct rota_get_batch *batch)
{
    rota_cache_answer(((struct slot *)data)->service->cache, batch);
}

static void on_cancel(void *data, struct rota_get_batch *batch)
{
    rota_cache_cancel(((struct slot *)data)->service->cache, batch);
}

/* --- leaving --- */

static void on_lease_closed(void *data)
{
    struct service *service = data;
    tell(service, "cache stopped");
    stop(service, ROTA_CLI_OK);
}

static void on_drained(void *data, size_t n_cut)
{
    struct slot *slot = data;
    struct service *service = slot->service;
    struct rota_lease *lease = service->lease;
    slot->is_drained = true;
    if (n_cut > 0)
        rota_log(&service->log, rota_clock_wall(), ROTA_LOG_WARN, "calls cut off",
                 ROTA_LOG_FACT("address", slot->address), ROTA_LOG_FACT("calls", n_cut));
    for (size_t i = 0; i < service->n_slots; i++)
        if (!service->slots[i].is_drained)
            return;
    service->lease = NULL;
    if (lease)
        rota_lease_close(lease, on_lease_closed, service);
    else
        on_lease_closed(service); /* the source was never ready */
}

/* The shards are held until the last call is answered, and then given back. */
static void on_signal(uv_signal_t *handle, int number)
{
    struct service *service = handle->data;
    if (service->is_leaving) {
        rota_log(&service->log, rota_clock_wall(), ROTA_LOG_WARN, "cache ended at once",
                 ROTA_LOG_FACT("signal", number));
        service->is_forced = true;
        stop(service, ROTA_CLI_NO);
        return;
    }
    service->is_leaving = true;
    tell(service, "cache stopping");
    remove_members(service);
    for (size_t i = 0; i < service->n_slots; i++) {
        rota_health_set(service->slots[i].health, "", false, NULL);
        rota_server_drain(service->slots[i].server, service->options->drain, on_drained,
                          &service->slots[i]);
    }
}

/* --- opening --- */

/* The address that is `offset` ports behind `text`. */
static enum rota_code shift_port(const char *text, size_t offset, char *shifted,
                                 struct rota_error *error)
{
    struct rota_address address;
    enum rota_code code = rota_address_parse(text, &address, error);
    if (code)
        return code;
    size_t port = address.port == 0 ? 0 : address.port + offset;
    if (port > UINT16_MAX)
        return rota_error_set(error, ROTA_ERR_INVALID, "%s has not enough ports behind it", text);
    snprintf(shifted, ROTA_ADDRESS_TEXT_MAX, strchr(address.host, ':') ? "[%s]:%zu" : "%s:%zu",
             address.host, port);
    return ROTA_OK;
}

static bool is_any(const char *text)
{
    struct rota_address address;
    struct sockaddr_storage resolved;
    if (rota_address_parse(text, &address, NULL) || !rota_address_resolve(&address, &resolved))
        return false;
    return strcmp(address.host, "0.0.0.0") == 0 ||
           strspn(address.host, "0:") == strlen(address.host);
}

static enum rota_code open_slot(struct slot *slot, size_t index, struct rota_error *error)
{
    const struct rota_cache_service_options *options = slot->service->options;
    struct rota_server_options with = {.insecure = options->insecure};
    struct rota_get_server_options gets = {.on_batch = on_batch,
                                           .on_cancel = on_cancel,
                                           .is_held = is_held,
                                           .message_max = MESSAGE_MAX,
                                           .data = slot};
    char address[ROTA_ADDRESS_TEXT_MAX];
    enum rota_code code = shift_port(options->listen, index, address, error);
    if (!code)
        code = rota_server_open(&slot->service->loop, &with, &slot->server, error);
    if (!code)
        code = rota_health_open(slot->server, &slot->health, error);
    if (!code)
        code = rota_get_server_open(slot->server, &gets, &slot->gets, error);
    if (!code)
        code = rota_reflection_open(slot->server, &rota_proto_descriptors, 1, &slot->reflection,
                                    error);
    if (!code)
        code = rota_server_listen(slot->server, address, error);
    if (code)
        return code;
    set_health(slot);
    if (options->advertise)
        return shift_port(options->advertise, index, slot->address, error);
    snprintf(slot->address, sizeof slot->address, "%s", rota_server_address(slot->server, 0));
    return ROTA_OK;
}

static enum rota_code open_slots(struct service *service, struct rota_error *error)
{
    size_t n = (size_t)service->options->wanted;
    enum rota_code code = ROTA_OK;
    service->slots = calloc(n, sizeof *service->slots);
    if (!service->slots)
        return rota_error_set(error, ROTA_ERR_NO_MEMORY, "no memory for %zu servers", n);
    for (size_t i = 0; !code && i < n; i++) {
        service->n_slots++;
        service->slots[i].service = service;
        code = open_slot(&service->slots[i], i, error);
        if (i > 0)
            service->more[i - 1] = rota_str(service->slots[i].address);
    }
    return code;
}

static enum rota_code open_source(struct service *service, struct rota_error *error)
{
    const struct rota_cache_service_options *options = service->options;
    struct rota_cache_source_options with = {.log = &service->log,
                                             .events = {.on_ready = on_source_ready,
                                                        .on_refused = on_source_refused,
                                                        .on_changed = on_source_changed,
                                                        .data = service}};
    struct rota_str source = rota_str(options->source);
    enum rota_code code;
    if (rota_str_has_prefix(source, rota_str("file:")) && source.size > 5)
        code = rota_cache_file_open(&service->loop, options->source + 5, &with, &service->source,
                                    error);
    else if (rota_str_has_prefix(source, rota_str("sql:")) && source.size > 4)
        code = rota_cache_sql_open(&service->loop, options->store, options->source + 4, &with,
                                   &service->source, error);
    else
        code = rota_error_set(error, ROTA_ERR_INVALID,
                              "--source %.64s is neither file:FILE nor sql:TABLE", options->source);
    if (code)
        return code;
    struct rota_cache_options cache = {.source = service->source,
                                       .memory = (size_t)options->memory,
                                       .keep = service->source->is_static ? ROTA_TIME_NEVER
                                                                          : options->keep,
                                       .seed = (uint64_t)uv_hrtime()};
    return rota_cache_open(&cache, &service->cache, error);
}

static enum rota_code open_lease(struct service *service, struct rota_error *error)
{
    const struct rota_cache_service_options *options = service->options;
    struct rota_lease_options with = {
        .space = options->space,
        .dc = options->dc,
        .host = service->slots[0].address,
        .shards = (uint32_t)options->shards,
        .wanted = (uint32_t)options->wanted,
        .ttl = options->ttl,
        .is_alone = options->is_alone,
        .is_reshard = options->is_reshard,
        .loss = options->loss,
        .on_start = on_start,
        .on_stop = on_stop,
        .on_refused = on_lease_refused,
        .log = &service->log,
        .data = service,
    };
    return rota_lease_open(&service->loop, service->store, &with, &service->lease, error);
}

static void open_handles(struct service *service)
{
    uv_signal_init(&service->loop, &service->interrupt);
    uv_signal_init(&service->loop, &service->terminate);
    service->interrupt.data = service->terminate.data = service;
    service->has_handles = true;
    uv_signal_start(&service->interrupt, on_signal, SIGINT);
    uv_signal_start(&service->terminate, on_signal, SIGTERM);
}

/* What others are told has to lead here. */
static enum rota_code check_advertise(const char *advertise, struct rota_error *error)
{
    struct rota_address address;
    enum rota_code code = rota_address_parse(advertise, &address, error);
    if (!code && (address.port == 0 || is_any(advertise)))
        code = rota_error_set(error, ROTA_ERR_INVALID,
                              "--advertise %s is no address that clients could use", advertise);
    return code;
}

static enum rota_code check_options(const struct rota_cache_service_options *options,
                                    struct rota_error *error)
{
    struct rota_address address;
    enum rota_code code = rota_address_parse(options->listen, &address, error);
    if (!code && options->advertise)
        code = check_advertise(options->advertise, error);
    if (code)
        return code;
    if (is_any(options->listen) && !options->advertise)
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "--listen %s is no address that clients could use: --advertise has "
                              "to name one",
                              options->listen);
    if (options->is_alone && address.port == 0)
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "--alone needs a port of its own in --listen, not 0");
    return ROTA_OK;
}

/* What is wrong with the options and the addresses is found before anybody is asked. */
static enum rota_code open_service(struct service *service, struct rota_error *error)
{
    enum rota_code code = check_options(service->options, error);
    if (!code)
        code = rota_cache_service_role(service->options->space, service->role, sizeof service->role,
                                       error);
    if (!code)
        code = open_source(service, error);
    if (!code)
        code = open_slots(service, error);
    if (code)
        return code;
    open_handles(service);
    return service->source->is_ready ? open_store(service, error) : ROTA_OK;
}

static enum rota_code open_store(struct service *service, struct rota_error *error)
{
    struct rota_store_options store = {.url = service->options->store,
                                       .log = &service->log,
                                       .on_up = on_store_up,
                                       .on_down = on_store_down,
                                       .data = service};
    enum rota_code code = rota_store_open(&service->loop, &store, &service->store, error);
    return code ? code : open_lease(service, error);
}

/* --- closing --- */

/* All but the lease and its store, in whatever state. */
static void close_service(struct service *service)
{
    remove_members(service);
    if (service->has_handles) {
        uv_close((uv_handle_t *)&service->interrupt, NULL);
        uv_close((uv_handle_t *)&service->terminate, NULL);
    }
    for (size_t i = 0; i < service->n_slots; i++)
        rota_server_close(service->slots[i].server);
    if (service->source)
        service->source->close(service->source);
    for (size_t i = 0; i < service->n_slots; i++) {
        rota_get_server_close(service->slots[i].gets);
        rota_health_close(service->slots[i].health);
        rota_reflection_close(service->slots[i].reflection);
        service->slots[i].gets = NULL;
        service->slots[i].health = NULL;
    }
    rota_cache_close(service->cache);
}

static void on_grace_over(uv_timer_t *timer)
{
    uv_stop(timer->loop);
}

static void run_for_a_while(struct service *service)
{
    static uv_timer_t grace;
    uv_timer_init(&service->loop, &grace);
    uv_timer_start(&grace, on_grace_over, GRACE / ROTA_MSEC, 0);
    uv_unref((uv_handle_t *)&grace);
    uv_run(&service->loop, UV_RUN_DEFAULT);
    uv_close((uv_handle_t *)&grace, NULL);
    uv_run(&service->loop, UV_RUN_NOWAIT);
}

static void on_lease_gone(void *data)
{
    struct service *service = data;
    service->lease = NULL;
    uv_stop(&service->loop);
}

/* A lease that can't be given back in time ends by itself in the table. */
static void end(struct service *service)
{
    close_service(service);
    if (service->lease) {
        rota_lease_close(service->lease, on_lease_gone, service);
        run_for_a_while(service);
    }
    if (service->lease)
        return;
    rota_store_close(service->store);
    run_for_a_while(service);
    if (uv_loop_close(&service->loop) == 0)
        free(service->slots);
}

enum rota_code rota_cache_service_role(const char *space, char *role, size_t size,
                                       struct rota_error *error)
{
    if (strchr(space, ','))
        return rota_error_set(error, ROTA_ERR_INVALID, "the name of the space has a comma");
    if (snprintf(role, size, "cache/%s", space) >= (int)size)
        return rota_error_set(error, ROTA_ERR_INVALID, "the name of the space is too long");
    return ROTA_OK;
}

int rota_cache_service_run(const struct rota_cache_service_options *options)
{
    /* Stays where it is if the loop can't be ended in time. */
    static struct service service;
    struct rota_error error;
    service.options = options;
    service.log = (struct rota_log){.level = options->log_level, .write = write_log};
    if (uv_loop_init(&service.loop))
        return rota_cli_fail(ROTA_CLI_NO, "no event loop");
    if (open_service(&service, &error))
        fail(&service, &error);
    if (!service.is_over)
        uv_run(&service.loop, UV_RUN_DEFAULT);
    if (!service.is_forced)
        end(&service);
    return service.exit_code;
}
