#include "run/call/cache_service.h"

#include "descriptors.h"
#include "io/clock.h"
#include "io/net/address.h"
#include "run/call/cache.h"

#include <rota/health.h>
#include <rota/reflection.h>
#include <rota/server.h>
#include <rota/store_members.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <uv.h>

/* How long a member is alive after a beat. */
#define MEMBER_TTL (10 * ROTA_SEC)

enum { MESSAGE_MAX = 64 << 20, SLOTS_MAX = ROTA_STORE_KEYS_MAX + 1 };

_Static_assert((int)ROTA_LEASE_WANTED_MAX <= (int)SLOTS_MAX, "all slots are one beat");

/* One gRPC server, and the shard it answers for. */
struct slot {
    struct rota_cache_service *service;
    struct rota_server *server;
    struct rota_health *health;
    struct rota_reflection *reflection;
    struct rota_get_server *gets;
    char address[ROTA_ADDRESS_TEXT_MAX]; /* the address that clients use */
    bool is_held, is_drained;
    uint32_t shard;
    uint64_t epoch;
};

struct rota_cache_service {
    struct rota_cache_service_options options;
    uv_loop_t *loop;
    struct rota_store *store;
    struct rota_cache_source *source;
    struct rota_cache *cache;
    struct rota_lease *lease;
    struct slot *slots[SLOTS_MAX];
    size_t n_slots, wanted, wanted_max;
    struct rota_str more[ROTA_STORE_KEYS_MAX]; /* the addresses of all slots but the first */
    char role[ROTA_STORE_ROLES_MAX], process_role[ROTA_STORE_ROLES_MAX];
    char both_roles[2 * ROTA_STORE_ROLES_MAX];
    struct rota_heartbeat *heartbeats[2]; /* of the first slot, and of the others */
    bool is_giving_back;                  /* the lease is being closed */
    bool is_announced, was_held, is_ready, is_leaving, is_closed, is_refused;
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

/* --- members --- */

/* All addresses are members, by one request. */
static struct rota_store_request request_of(const struct rota_cache_service *service,
                                            enum rota_store_verb verb)
{
    return (struct rota_store_request){.verb = verb,
                                       .member = {.address = rota_str(service->slots[0]->address),
                                                  .roles = rota_str(service->role),
                                                  .zone = rota_str(service->options.dc),
                                                  .ttl = MEMBER_TTL},
                                       .keys = service->more,
                                       .n_keys = service->n_slots - 1};
}

static void close_heartbeats(struct rota_cache_service *service)
{
    for (size_t i = 0; i < 2; i++) {
        rota_heartbeat_close(service->heartbeats[i]);
        service->heartbeats[i] = NULL;
    }
}

/* The first slot also represents the process. */
static enum rota_code open_heartbeats(struct rota_cache_service *service, struct rota_error *error)
{
    struct rota_store_member member = request_of(service, ROTA_STORE_BEAT).member;
    close_heartbeats(service);
    member.roles = rota_str(service->both_roles);
    enum rota_code code = rota_heartbeat_open(service->loop, service->store, &member, NULL, 0,
                                              service->options.log, &service->heartbeats[0], error);
    if (code || service->n_slots == 1)
        return code;
    member.roles = rota_str(service->role);
    member.address = service->more[0];
    return rota_heartbeat_open(service->loop, service->store, &member, service->more + 1,
                               service->n_slots - 2, service->options.log, &service->heartbeats[1],
                               error);
}

/* The first confirmed heartbeat: from now on clients find us. */
static void on_announced(void *data, const struct rota_store_answer *answer)
{
    struct rota_cache_service *service = data;
    struct rota_error error = answer->error;
    enum rota_code code = answer->code;
    if (service->is_ready || is_ending(service))
        return;
    if (!code)
        code = open_heartbeats(service, &error);
    if (code == ROTA_ERR_UNAVAILABLE || code == ROTA_ERR_UNKNOWN)
        return; /* the store will be up again */
    if (code) {
        note_failure(service, &error);
        return;
    }
    service->is_ready = true;
    service->options.on_ready(service->options.data);
}

static void on_store_up(void *data)
{
    struct rota_cache_service *service = data;
    const struct rota_store_request beat = request_of(service, ROTA_STORE_BEAT);
    struct rota_error error;
    if (service->is_ready || is_ending(service))
        return;
    if (rota_store_ask(service->store, &beat, on_announced, service, &error))
        note_failure(service, &error);
    service->is_announced = true;
}

static void on_removed(void *data, const struct rota_store_answer *answer)
{
    (void)data; /* without an answer it expires */
    (void)answer;
}

/* Remove our own members from the store. */
static void remove_members(struct rota_cache_service *service)
{
    close_heartbeats(service);
    if (service->is_announced) {
        const struct rota_store_request request = request_of(service, ROTA_STORE_MEMBER_REMOVE);
        rota_store_ask(service->store, &request, on_removed, service, NULL);
    }
    service->is_announced = false;
}

/* An unreachable database is retried; one that rejects us will keep doing so. */
static void on_store_down(void *data, const struct rota_error *error)
{
    struct rota_cache_service *service = data;
    if (!service->is_ready && error->code == ROTA_ERR_INVALID)
        note_failure(service, error);
}

/* --- shards --- */

static void set_health(struct slot *slot)
{
    if (slot->health)
        rota_health_set(slot->health, "rota.v1.Cache", slot->is_held, NULL);
}

static void on_start(void *data, uint32_t shard, uint64_t epoch)
{
    struct rota_cache_service *service = data;
    struct rota_interval interval = {shard, (uint64_t)shard + 1, (uint64_t)service->options.shards};
    struct rota_error error;
    for (size_t i = 0; i < service->n_slots; i++) {
        struct slot *slot = service->slots[i];
        if (slot->is_held)
            continue;
        slot->shard = shard;
        slot->epoch = epoch;
        slot->is_held = service->was_held = true;
        if (rota_get_server_hold(slot->gets, &interval, epoch, &error))
            note_failure(service, &error);
        set_health(slot);
        return;
    }
}

static void on_stop(void *data, uint32_t shard, uint64_t epoch, enum rota_lease_why why)
{
    struct rota_cache_service *service = data;
    (void)epoch;
    (void)why;
    for (size_t i = 0; i < service->n_slots; i++) {
        struct slot *slot = service->slots[i];
        if (!slot->is_held || slot->shard != shard)
            continue;
        if (slot->gets)
            rota_get_server_drop(slot->gets, NULL);
        slot->is_held = false;
        set_health(slot);
    }
}

/* The claim is wrong from the start, or has become so: then others hold on. */
static void on_lease_refused(void *data, const struct rota_error *error)
{
    struct rota_cache_service *service = data;
    if (!service->was_held)
        note_failure(service, error);
    else
        rota_log(service->options.log, rota_clock_wall(), ROTA_LOG_ERROR, "lease rejected",
                 ROTA_LOG_FACT("space", service->options.space),
                 ROTA_LOG_FACT("dc", service->options.dc), ROTA_LOG_FACT("error", error->text));
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

static void on_drained(void *data, size_t n_cut)
{
    struct slot *slot = data;
    struct rota_cache_service *service = slot->service;
    struct rota_lease *lease = service->lease;
    slot->is_drained = true;
    if (n_cut > 0)
        rota_log(service->options.log, rota_clock_wall(), ROTA_LOG_WARN, "calls aborted",
                 ROTA_LOG_FACT("address", slot->address), ROTA_LOG_FACT("calls", n_cut));
    for (size_t i = 0; i < service->n_slots; i++)
        if (!service->slots[i]->is_drained)
            return;
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
    remove_members(service);
    for (size_t i = 0; i < service->n_slots; i++) {
        rota_health_set(service->slots[i]->health, "", false, NULL);
        rota_server_drain(service->slots[i]->server, service->options.drain, on_drained,
                          service->slots[i]);
    }
}

/* --- opening --- */

/* The address `offset` ports after `text`. */
static enum rota_code shift_port(const char *text, size_t offset, char *shifted,
                                 struct rota_error *error)
{
    struct rota_address address;
    enum rota_code code = rota_address_parse(text, &address, error);
    if (code)
        return code;
    size_t port = address.port == 0 ? 0 : address.port + offset;
    if (port > UINT16_MAX)
        return rota_error_set(error, ROTA_ERR_INVALID, "%s does not leave enough higher ports",
                              text);
    snprintf(shifted, ROTA_ADDRESS_TEXT_MAX, strchr(address.host, ':') ? "[%s]:%zu" : "%s:%zu",
             address.host, port);
    return ROTA_OK;
}

static enum rota_code open_slot(struct slot *slot, size_t index, struct rota_error *error)
{
    const struct rota_cache_service_options *options = &slot->service->options;
    struct rota_server_options with = {.tls = options->tls, .insecure = options->insecure};
    struct rota_get_server_options gets = {.on_batch = on_batch,
                                           .on_cancel = on_cancel,
                                           .is_held = is_held,
                                           .message_max = MESSAGE_MAX,
                                           .data = slot};
    char address[ROTA_ADDRESS_TEXT_MAX];
    enum rota_code code = shift_port(options->listen, index, address, error);
    if (!code)
        code = rota_server_open(slot->service->loop, &with, &slot->server, error);
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
    snprintf(slot->address, sizeof slot->address, "%s", rota_server_address(slot->server, 0));
    return ROTA_OK;
}

/* Append one more. */
static enum rota_code add_slot(struct rota_cache_service *service, struct rota_error *error)
{
    size_t i = service->n_slots;
    struct slot *slot = calloc(1, sizeof *slot);
    if (!slot)
        return rota_error_no_memory(error, "for a server");
    service->slots[service->n_slots++] = slot;
    slot->service = service;
    enum rota_code code = open_slot(slot, i, error);
    if (i > 0)
        service->more[i - 1] = rota_str(slot->address);
    return code;
}

static enum rota_code open_slots(struct rota_cache_service *service, struct rota_error *error)
{
    enum rota_code code = ROTA_OK;
    while (!code && service->n_slots < service->wanted)
        code = add_slot(service, error);
    return code;
}

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
        .space = options->space,
        .dc = options->dc,
        .host = options->host,
        .shards = (uint32_t)options->shards,
        .wanted = (uint32_t)service->wanted_max,
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
        rota_lease_set_wanted(service->lease, (uint32_t)service->wanted);
    return code;
}

/* Errors in the options and the addresses are found before anything is contacted. */
static enum rota_code open_service(struct rota_cache_service *service, struct rota_error *error)
{
    const char *space = service->options.space;
    enum rota_code code = rota_cache_service_role(space, service->role, error);
    if (!code)
        code = rota_cache_service_process_role(space, service->process_role, error);
    if (code)
        return code;
    if (snprintf(service->both_roles, sizeof service->both_roles, "%s,%s", service->role,
                 service->process_role) >= ROTA_STORE_ROLES_MAX)
        return rota_error_set(error, ROTA_ERR_INVALID, "the name of the space is too long");
    code = open_source(service, error);
    if (!code)
        code = open_slots(service, error);
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
    service->wanted = (size_t)options->wanted;
    service->wanted_max = (size_t)(options->wanted_max ? options->wanted_max : options->wanted);
    enum rota_code code = open_service(service, error);
    if (code) {
        rota_cache_service_close(service, NULL, NULL);
        return code;
    }
    *result = service;
    return ROTA_OK;
}

/* Servers that are no longer needed are on standby: their addresses are known. */
void rota_cache_service_set_wanted(struct rota_cache_service *service, uint32_t wanted)
{
    struct rota_error error = {0};
    size_t n_slots = service->n_slots;
    if (is_ending(service))
        return;
    service->wanted = wanted < 1 ? 1 : wanted;
    if (service->wanted > service->wanted_max)
        service->wanted = service->wanted_max;
    if (open_slots(service, &error)) {
        rota_log(service->options.log, rota_clock_wall(), ROTA_LOG_ERROR, "cache full",
                 ROTA_LOG_FACT("error", error.text));
        service->wanted = n_slots;
    }
    if (service->n_slots > n_slots && service->is_ready && open_heartbeats(service, &error))
        rota_log(service->options.log, rota_clock_wall(), ROTA_LOG_ERROR, "cache not announced",
                 ROTA_LOG_FACT("error", error.text));
    if (service->lease)
        rota_lease_set_wanted(service->lease, (uint32_t)service->wanted);
}

/* --- closing --- */

static void service_free(struct rota_cache_service *service)
{
    void (*on_closed)(void *data) = service->on_closed;
    void *data = service->closed_data;
    if (service->store)
        rota_store_forget(service->store, service);
    rota_store_close(service->store);
    for (size_t i = 0; i < service->n_slots; i++)
        free(service->slots[i]);
    free(service);
    if (on_closed)
        on_closed(data);
}

static void on_lease_gone(void *data)
{
    service_free(data);
}

static void close_slots(struct rota_cache_service *service)
{
    for (size_t i = 0; i < service->n_slots; i++)
        rota_server_close(service->slots[i]->server);
    if (service->source)
        service->source->close(service->source);
    for (size_t i = 0; i < service->n_slots; i++) {
        rota_get_server_close(service->slots[i]->gets);
        rota_health_close(service->slots[i]->health);
        rota_reflection_close(service->slots[i]->reflection);
        service->slots[i]->gets = NULL;
        service->slots[i]->health = NULL;
    }
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
    remove_members(service);
    close_slots(service);
    rota_cache_close(service->cache);
    if (service->lease)
        rota_lease_close(service->lease, on_lease_gone, service);
    else if (!service->is_giving_back)
        service_free(service);
}

/* --- questions --- */

size_t rota_cache_service_n_servers(const struct rota_cache_service *service)
{
    return service->n_slots;
}

const char *rota_cache_service_address(const struct rota_cache_service *service, size_t i)
{
    return rota_server_address(service->slots[i]->server, 0);
}

uint64_t rota_cache_service_shard(const struct rota_cache_service *service, size_t i,
                                  uint32_t *shard)
{
    const struct slot *slot = service->slots[i];
    if (!slot->is_held)
        return 0;
    *shard = slot->shard;
    return slot->epoch;
}

static enum rota_code write_role(const char *before, const char *space,
                                 char role[ROTA_STORE_ROLES_MAX], struct rota_error *error)
{
    if (strchr(space, ','))
        return rota_error_set(error, ROTA_ERR_INVALID, "the name of the space contains a comma");
    if (snprintf(role, ROTA_STORE_ROLES_MAX, "%s%s", before, space) >= ROTA_STORE_ROLES_MAX)
        return rota_error_set(error, ROTA_ERR_INVALID, "the name of the space is too long");
    return ROTA_OK;
}

enum rota_code rota_cache_service_role(const char *space, char role[ROTA_STORE_ROLES_MAX],
                                       struct rota_error *error)
{
    return write_role("cache/", space, role, error);
}

enum rota_code rota_cache_service_process_role(const char *space, char role[ROTA_STORE_ROLES_MAX],
                                               struct rota_error *error)
{
    return write_role("cache-process/", space, role, error);
}
