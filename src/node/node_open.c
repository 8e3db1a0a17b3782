/* The parts of a node, opened in order and closed in reverse. */
#include "node/node_inside.h"
#include "run/call/space_directory.h"
#include "run/store/store_members.h"

#include "io/clock.h"
#include "io/file.h"
#include "io/memory.h"
#include "io/net/address.h"
#include "node/api/api.h"
#include "node/api/api_stream.h"
#include "node/api/node_service.h"
#include "node/change/node_change.h"
#include "node/change/node_plan.h"
#include "node/documents/peers.h"
#include "node/documents/topics.h"
#include "node/node_spaces.h"
#include "node/rules/node_memory.h"
#include "wire/text/hosts_file.h"

#include "descriptors.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static const struct rota_role *const ROLES[] = {&rota_role_queue, &rota_role_cache,
                                                &rota_role_group};

/* --- the data directory --- */

static enum rota_code refuse_path(const char *what, const char *path, struct rota_error *error)
{
    return rota_error_set(error, ROTA_ERR_IO, "%s %.1000s: %s", what, path, strerror(errno));
}

static enum rota_code lock_directory(struct rota_node *node, struct rota_error *error)
{
    const char *data = node->settings->data;
    char path[4200];
    long holder;
    if (mkdir(data, 0700) && errno != EEXIST)
        return refuse_path("cannot create the data directory", data, error);
    snprintf(path, sizeof path, "%s/.", data);
    if (access(path, W_OK | X_OK))
        return refuse_path("cannot write to the data directory", data, error);
    snprintf(path, sizeof path, "%s/rotad.lock", data);
    enum rota_code code = rota_file_lock(path, &node->lock_fd, &holder, error);
    if (code == ROTA_ERR_UNAVAILABLE)
        rota_error_set(error, code,
                       "another rotad (process %ld) uses the data directory %.1000s; stop it, or "
                       "give this node its own --data",
                       holder, data);
    node->was_killed = !code && holder > 0;
    return code;
}

/* --- names for HTTP --- */

void rota_node_open_note_names(struct rota_node *node)
{
    size_t n = 0;
    node->names[n++] = rota_str(rota_http_address(node->http));
    const char *rest = node->settings->http_names;
    while (rest && *rest && n < ROTA_NODE_NAMES_MAX) {
        size_t size = strcspn(rest, ",");
        if (size > 0)
            node->names[n++] = rota_str_of(rest, size);
        rest += size + (rest[size] == ',');
    }
    node->guard.names = node->names;
    node->guard.n_names = n;
}

/* --- membership --- */

static const struct rota_member *find_self(const struct rota_node *node)
{
    size_t n;
    const struct rota_member *list = rota_members_list(node->members, &n);
    for (size_t i = 0; i < n; i++)
        if (rota_str_is_equal(list[i].host.address, rota_str(node->advertise)))
            return &list[i];
    return NULL;
}

/* The list also has the state that an operator set for this node. */
static void on_members(void *data, const struct rota_members_change *change)
{
    struct rota_node *node = data;
    const struct rota_member *self = find_self(node);
    rota_node_news_note_members(node, change);
    if (!self || node->fsm.state >= ROTA_NODE_STOPPING)
        return;
    node->is_drained_by_operator = self->host.is_draining;
    if (self->host.is_draining)
        rota_node_step(node, ROTA_NODE_DRAIN);
    else if (node->fsm.state == ROTA_NODE_DRAINING || node->fsm.state == ROTA_NODE_DRAINED)
        rota_node_step(node, ROTA_NODE_RESTORE);
    node->is_placed = self->is_placed;
    rota_node_open_look_ready(node);
}

void rota_node_open_look_ready(struct rota_node *node)
{
    for (size_t i = 0; i < node->n_roles; i++)
        if (node->roles[i].role->is_ready && !node->roles[i].role->is_ready(node->roles[i].data))
            return;
    if (node->is_placed && node->is_named)
        rota_node_step(node, ROTA_NODE_JOINED);
}

enum rota_code rota_node_open_heartbeat(struct rota_node *node, bool is_leaving,
                                        struct rota_error *error)
{
    const struct rota_node_settings *settings = node->settings;
    rota_time at = rota_members_align(rota_clock_wall(), settings->align, ROTA_MEMBERS_PROPAGATION);
    char roles[2 * ROTA_STORE_ROLES_MAX];
    size_t n = (size_t)snprintf(roles, sizeof roles, ROTA_NODE_ROLE ",%s", settings->roles);
    for (size_t i = 0; i < node->n_roles && n < sizeof roles; i++)
        if (node->roles[i].role->member_roles)
            n += (size_t)snprintf(roles + n, sizeof roles - n, "%s",
                                  node->roles[i].role->member_roles(node->roles[i].data));
    struct rota_store_member member = {
        .address = rota_str(node->advertise),
        .name = rota_str(node->name),
        .roles = rota_str(roles),
        .zone = rota_str(settings->zone),
        .ttl = settings->ttl,
        .start_at = settings->align && node->fsm.state == ROTA_NODE_JOINING ? at : 0,
        .stop_at = is_leaving ? at : 0,
    };
    rota_hosts_file_parse_weight(settings->weight, &member.weight);
    if (node->weight > 0)
        member.weight = node->weight;
    rota_heartbeat_close(node->heartbeat);
    node->heartbeat = NULL;
    return rota_heartbeat_open(node->loop, node->store, &member, NULL, 0, node->log,
                               &node->heartbeat, error);
}

static enum rota_code open_members(struct rota_node *node, struct rota_error *error)
{
    enum rota_code code = rota_store_members_new(node->store, ROTA_NODE_ROLE,
                                                 node->settings->ttl / 10, &node->rows, error);
    if (code)
        return code;
    rota_store_members_watch(node->rows, rota_node_naming_take_rows, node);
    code =
        rota_members_open(node->loop, node->rows, &(struct rota_members_options){.log = node->log},
                          &node->members, error);
    return code ? code : rota_members_subscribe(node->members, "node", on_members, node, error);
}

/* --- parts --- */

/* How much the settings allow jobs, requests and cached values to take. */
static uint64_t allowed_memory(const struct rota_node *node)
{
    const struct rota_settings *all = node->options.settings;
    struct rota_node_memory memory = rota_node_memory_split((uint64_t)node->settings->memory);
    uint64_t bytes = memory.grpc + memory.http;
    if (rota_node_settings_has_role(node->settings, "queue"))
        bytes += memory.jobs;
    for (size_t i = 0; i < all->n_sections; i++)
        if (strcmp(all->sections[i].kind->name, "cache") == 0 &&
            rota_node_settings_has_role(node->settings, "cache"))
            bytes += (uint64_t)((const struct rota_node_cache *)all->sections[i].values)->memory;
    return bytes;
}

static enum rota_code check_memory(struct rota_node *node, struct rota_error *error)
{
    struct rota_memory memory = rota_memory_look();
    uint64_t allowed = allowed_memory(node);
    switch (rota_memory_judge(&memory, allowed)) {
    case ROTA_MEMORY_ENOUGH:
        break;
    case ROTA_MEMORY_LESS_THAN_ALLOWED:
        rota_log(node->log, rota_clock_wall(), ROTA_LOG_WARN, "less memory than settings allow",
                 ROTA_LOG_FACT("limit", memory.bytes),
                 ROTA_LOG_FACT("of", rota_memory_bound_name(memory.bound)),
                 ROTA_LOG_FACT("allowed", allowed),
                 ROTA_LOG_FACT("fix", "lower memory, there and in [[cache]], or raise the limit: "
                                      "at the limit the kernel kills the node"));
        break;
    case ROTA_MEMORY_TOO_LITTLE:
        return rota_error_set(error, ROTA_ERR_LIMIT,
                              "%s limits this node to %llu MiB of memory, which is too little: "
                              "raise it to at least %llu MiB",
                              rota_memory_bound_name(memory.bound),
                              (unsigned long long)(memory.bytes >> 20),
                              (unsigned long long)((memory.bound == ROTA_MEMORY_OF_ADDRESSES
                                                        ? ROTA_MEMORY_ADDRESSES_MIN
                                                        : ROTA_MEMORY_NODE_MIN) >>
                                                   20));
    }
    return ROTA_OK;
}

/* A limit that is too low fails at the worst time. The soft limit is for programs that can't
 * handle large descriptor numbers, which does not apply here. */
static enum rota_code check_limits(struct rota_node *node, struct rota_error *error)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < ROTA_NODE_FILES_WANTED)
        rota_log(node->log, rota_clock_wall(), ROTA_LOG_WARN, "few file descriptors",
                 ROTA_LOG_FACT("limit", (uint64_t)limit.rlim_cur),
                 ROTA_LOG_FACT("fix", "LimitNOFILE=65536, or ulimit -n 65536"));
    return check_memory(node, error);
}

/* An unreachable store is waited for; a store that rejects a starting node will keep doing so. */
static void on_store_down(void *data, const struct rota_error *error)
{
    struct rota_node *node = data;
    if (node->has_served || error->code != ROTA_ERR_INVALID)
        return;
    rota_log(node->log, rota_clock_wall(), ROTA_LOG_ERROR, "store cannot be used",
             ROTA_LOG_FACT("error", error->text));
    rota_node_fail(node);
}

static enum rota_code open_store(struct rota_node *node, struct rota_error *error)
{
    char url[4200];
    snprintf(url, sizeof url, "sqlite:%s/store.db", node->settings->data);
    struct rota_store_options options = {.url = node->settings->store ? node->settings->store : url,
                                         .purpose = "cluster",
                                         .log = node->log,
                                         .on_up = rota_node_access_ask,
                                         .on_down = on_store_down,
                                         .data = node};
    enum rota_code code = rota_store_open(node->loop, &options, &node->store, error);
    if (!code)
        rota_node_access_ask(node); /* before any other request: no peer is asked without it */
    return code;
}

/* As a client of our own server we trust its very certificate; for other nodes those of the
 * settings, or else the system's. If a certificate does not match the address by which others
 * reach us, their calls would fail one after the other: so it is rejected here. */
static enum rota_code open_clients(struct rota_node *node, struct rota_error *error)
{
    const struct rota_node_settings *settings = node->settings;
    struct rota_tls_options own = {.certificate_file = settings->certificate,
                                   .key_file = settings->key,
                                   .ca_file = settings->certificate};
    struct rota_tls_options others = {.certificate_file = settings->certificate,
                                      .key_file = settings->key,
                                      .ca_file = settings->ca};
    struct rota_address advertised;
    enum rota_code code = rota_address_parse(node->advertise, &advertised, error);
    if (!code)
        code =
            rota_node_check_certificate(node->tls, settings->certificate, advertised.host, error);
    if (!code)
        code = rota_tls_client_new(&own, &node->self_tls, error);
    return code ? code : rota_tls_client_new(&others, &node->peers_tls, error);
}

static enum rota_code open_server(struct rota_node *node, struct rota_error *error)
{
    const struct rota_node_settings *settings = node->settings;
    struct rota_tls_options tls = {.certificate_file = settings->certificate,
                                   .key_file = settings->key,
                                   .ca_file = settings->ca};
    struct rota_node_memory memory = rota_node_memory_split((uint64_t)settings->memory);
    enum rota_code code = ROTA_OK;
    if (settings->certificate)
        code = rota_tls_server_new(&tls, &node->tls, error);
    struct rota_server_options options = {.tls = node->tls,
                                          .insecure = settings->insecure,
                                          .message_max = 20 << 20,
                                          .calls_max = 65536,
                                          .identify = rota_node_access_identify,
                                          .data = node,
                                          .peer_connections_max =
                                              (uint32_t)settings->peer_connections,
                                          .held_max = (size_t)memory.grpc,
                                          .idle_timeout = settings->idle_limit,
                                          .log = node->log,
                                          .metrics = node->metrics};
    if (!code)
        code = rota_server_open(node->loop, &options, &node->server, error);
    if (!code)
        code = rota_health_open(node->server, &node->health, error);
    if (!code)
        code = rota_reflection_open(node->server, &rota_proto_descriptors, 1, &node->reflection,
                                    error);
    if (!code)
        code = rota_server_listen(node->server, settings->listen, error);
    if (code)
        return code;
    node->advertise =
        strdup(settings->advertise ? settings->advertise : rota_server_address(node->server, 0));
    if (!node->advertise)
        return rota_error_no_memory(error, "for a node");
    rota_node_access_publish(node);
    return node->tls ? open_clients(node, error) : ROTA_OK;
}

static enum rota_code open_roles(struct rota_node *node, struct rota_error *error)
{
    for (size_t i = 0; i < sizeof ROLES / sizeof ROLES[0]; i++) {
        if (!rota_node_settings_has_role(node->settings, ROLES[i]->name))
            continue;
        struct rota_node_role *role = &node->roles[node->n_roles];
        enum rota_code code = ROLES[i]->open(node, &role->data, error);
        if (code)
            return code;
        role->role = ROLES[i];
        node->n_roles++;
    }
    return ROTA_OK;
}

/* The address of our own server: one that listens on all addresses is here, too. */
static void own_address(const struct rota_node *node, char address[ROTA_ADDRESS_TEXT_MAX])
{
    static const struct {
        const char *any, *here;
    } PLACES[] = {{"0.0.0.0:", "127.0.0.1:"}, {"[::]:", "[::1]:"}};
    const char *listens = rota_server_address(node->server, 0);
    snprintf(address, ROTA_ADDRESS_TEXT_MAX, "%s", listens);
    for (size_t i = 0; i < sizeof PLACES / sizeof PLACES[0]; i++) {
        size_t size = strlen(PLACES[i].any);
        if (strncmp(listens, PLACES[i].any, size) == 0)
            snprintf(address, ROTA_ADDRESS_TEXT_MAX, "%s%s", PLACES[i].here, listens + size);
    }
}

static enum rota_code open_self(struct rota_node *node, struct rota_error *error)
{
    char address[ROTA_ADDRESS_TEXT_MAX];
    struct rota_address advertised;
    own_address(node, address);
    enum rota_code code = rota_address_parse(node->advertise, &advertised, error);
    if (code)
        return code;
    snprintf(node->self_name, sizeof node->self_name, "%s", advertised.host);
    struct rota_channel_options options = {.tls = node->self_tls,
                                           .tls_name = node->self_tls ? node->self_name : NULL,
                                           .insecure = node->settings->insecure,
                                           .token = node->secret,
                                           .message_max = 64 << 20};
    return rota_channel_open(node->loop, address, &options, &node->self, error);
}

enum rota_code rota_node_open_channel(struct rota_node *node, const char *address,
                                      size_t message_max, struct rota_channel **channel,
                                      struct rota_error *error)
{
    struct rota_channel_options options = {.tls = node->peers_tls,
                                           .insecure = node->settings->insecure,
                                           .token = node->secret,
                                           .message_max = message_max};
    return rota_channel_open(node->loop, address, &options, channel, error);
}

static enum rota_code open_peers(struct rota_node *node, struct rota_error *error)
{
    return rota_peers_open(node, &node->peers, error);
}

static enum rota_code open_service(struct rota_node *node, struct rota_error *error)
{
    return rota_node_service_open(node, &node->service, error);
}

static enum rota_code open_http(struct rota_node *node, struct rota_error *error)
{
    const struct rota_node_settings *settings = node->settings;
    struct rota_node_memory memory = rota_node_memory_split((uint64_t)settings->memory);
    struct rota_http_handler handler = {rota_api_on_request, rota_api_is_urgent,
                                        rota_api_on_http_full, node};
    struct rota_http_options options = {.insecure = settings->insecure,
                                        .peer_connections_max =
                                            (uint32_t)settings->peer_connections,
                                        .bodies_max = (size_t)memory.http,
                                        .idle_timeout = settings->idle_limit};
    enum rota_code code =
        rota_http_open(node->loop, settings->http, &options, &handler, &node->http, error);
    if (code)
        return code;
    rota_node_open_note_names(node);
    return rota_api_stream_open(node, &node->streams, error);
}

static void on_space_done(void *data, struct rota_str space, const char *text, const char *actor)
{
    struct rota_node *node = data;
    rota_node_note(node, ROTA_EVENT_OPERATOR, space, "was changed: %s, by %s", text, actor);
    rota_node_spaces_refresh(node->spaces); /* it may have been created or deleted */
}

static enum rota_code open_space_service(struct rota_node *node, struct rota_error *error)
{
    enum rota_code code = rota_space_service_open(node->server, node->store, on_space_done, node,
                                                  &node->space_service, error);
    if (!code)
        rota_space_service_use_names(node->space_service, &node->book);
    return code;
}

/* The last part: it needs all others until it is closed. */
static enum rota_code open_spaces(struct rota_node *node, struct rota_error *error)
{
    return rota_node_spaces_open(node, &node->spaces, error);
}

enum rota_code rota_node_open_parts(struct rota_node *node, struct rota_error *error)
{
    static enum rota_code (*const PARTS[])(struct rota_node * node, struct rota_error * error) = {
        check_limits, lock_directory, rota_node_access_open,
        open_store,   open_server,    rota_node_naming_open,
        open_members, open_peers,     open_space_service,
        open_service, open_roles,     open_self,
        open_http,    open_spaces};
    node->metrics = rota_metrics_new((uint64_t)rota_clock_wall());
    if (!node->metrics)
        return rota_error_no_memory(error, "for a node");
    rota_node_book_init(&node->book, (uint64_t)rota_clock_wall());
    for (size_t i = 0; i < sizeof PARTS / sizeof PARTS[0]; i++) {
        enum rota_code code = PARTS[i](node, error);
        if (code)
            return code;
    }
    return ROTA_OK;
}

void rota_node_open_close_parts(struct rota_node *node)
{
    rota_topics_end(node);
    rota_api_plans_end(node);
    rota_node_plans_end(node);
    rota_node_changes_end(node);
    rota_node_news_end(node);
    rota_channel_close(node->self);
    rota_peers_close(node->peers);
    rota_api_end_requests(node);
    rota_api_stream_close(node->streams);
    rota_http_close(node->http);
    rota_heartbeat_close(node->heartbeat);
    rota_node_access_close(node);
    rota_server_close(node->server);
    for (size_t i = node->n_roles; i-- > 0;)
        node->roles[i].role->close(node->roles[i].data);
    rota_node_service_close(node->service);
    rota_space_directory_close(node->space_directory);
    rota_space_service_close(node->space_service);
    rota_health_close(node->health);
    rota_reflection_close(node->reflection);
    rota_members_close(node->members);
    rota_store_close(node->store);
    rota_tls_free(node->tls);
    rota_tls_free(node->self_tls);
    rota_tls_free(node->peers_tls);
    rota_metrics_free(node->metrics);
    rota_node_book_deinit(&node->book);
    bool is_off_the_list = node->has_left || !node->fsm.has_joined;
    if (node->lock_fd >= 0 && is_off_the_list && ftruncate(node->lock_fd, 0))
        rota_log(node->log, rota_clock_wall(), ROTA_LOG_WARN, "lock not cleared",
                 ROTA_LOG_FACT("error", strerror(errno)));
    if (node->lock_fd >= 0)
        close(node->lock_fd);
}
