/* Hosts: their source, the connection to each, and the pings that ask what they hold. */
#include "run/call/get_inside.h"

#include "io/clock.h"
#include "io/net/address.h"

#include <inttypes.h>
#include <rota/experimental/members.h>
#include <stdio.h>
#include <stdlib.h>

/* A host that was silent for this long gets a keepalive, and has to answer within the same time:
 * a machine that lost power does not close its connections. */
#define KEEPALIVE (10 * ROTA_SEC)

static const char DEFAULT_DC[] = "default";

/* --- peers --- */

struct rota_get_peer *rota_get_hosts_find_peer(const struct rota_get *get, uint64_t id)
{
    return rota_map_get(&get->peers, rota_str_of(&id, sizeof id));
}

static enum rota_code open_channel(struct rota_get_peer *peer, struct rota_error *error)
{
    const struct rota_get_options *options = &peer->get->options;
    struct rota_channel_options with = {
        .tls = options->tls,
        .insecure = options->insecure,
        .connect_timeout = options->host_timeout,
        .backoff_max = options->ping_period, /* a host that returns should be found soon */
        .keepalive_interval = KEEPALIVE,
        .keepalive_timeout = KEEPALIVE,
        .message_max = options->message_max,
    };
    return rota_channel_open(peer->get->loop, peer->address, &with, &peer->channel, error);
}

static void peer_free(struct rota_get_peer *peer)
{
    rota_channel_close(peer->channel);
    free(peer);
}

static enum rota_code add_peer(struct rota_get *get, const struct rota_interval_host *host,
                               struct rota_error *error)
{
    struct rota_get_peer *peer = calloc(1, sizeof *peer);
    if (!peer)
        return rota_error_no_memory(error, "for a host of a multi-get");
    peer->id = host->id;
    peer->get = get;
    rota_list_init(&peer->calls);
    memcpy(peer->address, host->address.data, host->address.size);
    enum rota_code code = open_channel(peer, error);
    if (!code && !rota_map_put(&get->peers, rota_str_of(&peer->id, sizeof peer->id), peer))
        code = rota_error_no_memory(error, "for a host of a multi-get");
    if (code)
        peer_free(peer);
    return code;
}

static struct rota_get_peer *find_unlisted(const struct rota_get *get)
{
    const struct rota_map_entry *entry;
    size_t place = 0;
    while ((entry = rota_map_next(&get->peers, &place)))
        if (!((struct rota_get_peer *)entry->value)->is_listed)
            return entry->value;
    return NULL;
}

/* Make the peers match the map's hosts. One that can't be made is retried with the next ping. */
static enum rota_code follow_map(struct rota_get *get, struct rota_error *error)
{
    const struct rota_map_entry *entry;
    struct rota_get_peer *peer;
    enum rota_code code = ROTA_OK;
    size_t place = 0;
    while ((entry = rota_map_next(&get->peers, &place)))
        ((struct rota_get_peer *)entry->value)->is_listed = false;
    for (size_t i = 0; i < rota_interval_map_n_hosts(get->map); i++) {
        const struct rota_interval_host *host = rota_interval_map_host(get->map, i);
        if (!rota_get_hosts_find_peer(get, host->id) && !code)
            code = add_peer(get, host, error);
        if ((peer = rota_get_hosts_find_peer(get, host->id)))
            peer->is_listed = true;
    }
    while ((peer = find_unlisted(get))) {
        rota_map_remove(&get->peers, rota_str_of(&peer->id, sizeof peer->id));
        rota_balancer_forget(get->balancer, peer->id);
        rota_get_run_drop_calls(peer);
        peer_free(peer);
    }
    return code;
}

/* --- pings --- */

static void note_problem(struct rota_get_peer *peer, struct rota_str text)
{
    size_t size = text.size < sizeof peer->problem ? text.size : sizeof peer->problem - 1;
    memcpy(peer->problem, text.data, size);
    peer->problem[size] = '\0';
}

static struct rota_str problem_of(const struct rota_call_result *result)
{
    if (result->status == ROTA_STATUS_OK)
        return rota_str("the response is malformed");
    if (result->status == ROTA_STATUS_UNIMPLEMENTED)
        return rota_str("it does not serve this cache");
    return result->text.size > 0 ? result->text : rota_str(rota_status_name(result->status));
}

static void on_ping(void *data, struct rota_call *rpc, const struct rota_call_result *result)
{
    struct rota_get_peer *peer = data;
    struct rota_get *get = peer->get;
    const struct rota_get_service *service = &get->service;
    struct rota_get_head head = {0};
    (void)rpc;
    peer->ping = NULL;
    get->reader.response = result->message;
    get->reader.has_failed = false;
    bool is_answered =
        result->status == ROTA_STATUS_OK &&
        !service->read_response(service->data, result->message, &head, &get->reader, NULL) &&
        !get->reader.has_failed;
    rota_get_metrics_measure_ping(get, is_answered);
    if (is_answered)
        peer->problem[0] = '\0';
    else
        note_problem(peer, problem_of(result));
    if (is_answered) {
        struct rota_interval_lesson lesson = {.number = peer->ping_number,
                                              .claims = get->reader.shards.items,
                                              .n_claims = get->reader.shards.size};
        rota_interval_map_learn(get->map, peer->id, &lesson);
    } else {
        rota_interval_map_failed(get->map, peer->id);
    }
    rota_get_cache_reader_clear(&get->reader);
    rota_get_finish_event(get, true);
}

static void ping_peer(struct rota_get_peer *peer)
{
    struct rota_get *get = peer->get;
    struct rota_call_options options = {
        .method = rota_str(get->service.method),
        .request = rota_buffer_str(&get->ping),
        .timeout = get->options.host_timeout,
        .on_end = on_ping,
        .data = peer,
    };
    struct rota_metadata pair;
    rota_get_name_collection(get, &pair, &options);
    peer->is_asked = true;
    if (peer->ping)
        return; /* it is slow, and will answer */
    peer->ping_number = rota_interval_map_number(get->map);
    struct rota_error error;
    if (rota_channel_call(peer->channel, &options, &peer->ping, &error)) {
        peer->ping = NULL;
        note_problem(peer, rota_str(error.text));
        rota_get_metrics_measure_ping(get, false);
        rota_interval_map_failed(get->map, peer->id);
    }
}

/* --- the source --- */

/* A host that can't be reached under its address is refused before anything changes. */
static enum rota_code check_host(struct rota_str address, struct rota_str dc,
                                 struct rota_error *error)
{
    char text[ROTA_CHANNEL_TARGET_MAX + 1];
    struct rota_address parsed;
    if (dc.size > ROTA_GET_NAME_MAX)
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "the name of a data center has at most %d bytes, not %zu",
                              (int)ROTA_GET_NAME_MAX, dc.size);
    if (address.size >= sizeof text || memchr(address.data, '\0', address.size))
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "a host's address has at most %d bytes and no NUL",
                              (int)ROTA_CHANNEL_TARGET_MAX);
    memcpy(text, address.data, address.size);
    text[address.size] = '\0';
    return rota_address_parse(text, &parsed, error);
}

/* A new host is asked at once, since a Get may wait for what it holds. */
static enum rota_code set_hosts(struct rota_get *get, const struct rota_interval_member *hosts,
                                size_t n_hosts, struct rota_error *error)
{
    const struct rota_map_entry *entry;
    size_t place = 0;
    enum rota_code code = rota_interval_map_set_hosts(get->map, hosts, n_hosts, error);
    if (code)
        return code;
    code = follow_map(get, error);
    while ((entry = rota_map_next(&get->peers, &place)))
        if (!((struct rota_get_peer *)entry->value)->is_asked)
            ping_peer(entry->value);
    return code;
}

enum rota_code rota_get_set_hosts(struct rota_get *get, const struct rota_get_host *hosts,
                                  size_t n_hosts, struct rota_error *error)
{
    ROTA_VECTOR(struct rota_interval_member) list = {0};
    enum rota_code code = ROTA_OK;
    for (size_t i = 0; i < n_hosts && !code; i++) {
        struct rota_interval_member member = {hosts[i].address, hosts[i].dc};
        if (member.dc.size == 0)
            member.dc = rota_str(DEFAULT_DC);
        code = check_host(member.address, member.dc, error);
        if (!code && !rota_vector_push(&list, member))
            code = rota_error_no_memory(error, "for the hosts of a multi-get");
    }
    if (!code)
        code = set_hosts(get, list.items, list.size, error);
    rota_vector_deinit(&list);
    if (!code)
        rota_get_finish_event(get, false);
    return code;
}

/* A member with an unusable address, or one too many, is skipped without affecting the others.
 * An evicted one counts as dead. */
static void follow_members(struct rota_get *get, const struct rota_members *members)
{
    ROTA_VECTOR(struct rota_interval_member) list = {0};
    size_t n;
    const struct rota_member *items = rota_members_list(members, &n);
    for (size_t i = 0; i < n && list.size < ROTA_GET_HOSTS_MAX; i++) {
        struct rota_interval_member member = {items[i].host.address, items[i].host.zone};
        if (member.dc.size == 0)
            member.dc = rota_str(DEFAULT_DC);
        if (items[i].is_evicted || check_host(member.address, member.dc, NULL))
            continue;
        if (!rota_vector_push(&list, member))
            break;
    }
    if (list.size > 0 || n == 0)
        set_hosts(get, list.items, list.size, NULL); /* without memory: with the next ping */
    rota_vector_deinit(&list);
}

static void on_members_changed(void *data, const struct rota_members_change *change)
{
    struct rota_get *get = data;
    (void)change;
    follow_members(get, get->options.members);
    rota_get_finish_event(get, false); /* it may be the program that has changed them */
}

/* Several clients may have the same members. */
static const char *name_subscription(const struct rota_get *get, char name[32])
{
    snprintf(name, 32, "get %p", (const void *)get);
    return name;
}

static enum rota_code subscribe_members(struct rota_get *get, struct rota_error *error)
{
    char name[32];
    follow_members(get, get->options.members);
    return rota_members_subscribe(get->options.members, name_subscription(get, name),
                                  on_members_changed, get, error);
}

enum rota_code rota_get_hosts_open(struct rota_get *get, struct rota_error *error)
{
    struct rota_get_options *options = &get->options;
    enum rota_code code = ROTA_OK;
    if (options->hosts_file) {
        struct rota_members_source *source;
        code = rota_hosts_watch_new(options->hosts_file, &source, error);
        if (!code)
            code = rota_members_open(get->loop, source, NULL, &get->members, error);
        options->members = get->members;
    } else if (options->hosts) {
        code = rota_get_set_hosts(get, options->hosts, options->n_hosts, error);
    }
    if (!code && options->members)
        code = subscribe_members(get, error);
    options->hosts = NULL; /* the caller's; they were copied */
    options->hosts_file = NULL;
    options->service = NULL;
    return code;
}

void rota_get_hosts_ping_all(struct rota_get *get, rota_time now)
{
    const struct rota_map_entry *entry;
    size_t place = 0;
    (void)now;
    if (get->options.members)
        follow_members(get, get->options.members); /* also what failed for lack of memory */
    if (get->options.ask_hosts)
        get->options.ask_hosts(get->options.data, get);
    follow_map(get, NULL);
    while ((entry = rota_map_next(&get->peers, &place)))
        ping_peer(entry->value);
}

void rota_get_hosts_describe(const struct rota_get *get, char *text, size_t size)
{
    const struct rota_map_entry *entry;
    const struct rota_get_peer *silent = NULL;
    size_t place = 0, n = 0, n_silent = 0;
    while ((entry = rota_map_next(&get->peers, &place))) {
        const struct rota_get_peer *peer = entry->value;
        const struct rota_interval_host *host = rota_interval_map_find(get->map, peer->id);
        bool is_silent = peer->problem[0] || (host && host->taught_by == 0);
        n++;
        n_silent += is_silent;
        if (is_silent && (!silent || !silent->problem[0]))
            silent = peer;
    }
    const char *why = silent && silent->problem[0] ? silent->problem : "no reply yet";
    bool is_named = silent && strstr(why, silent->address);
    if (n == 0)
        snprintf(text, size, "no host is known");
    else if (!silent)
        snprintf(text, size, "no known host serves its shard");
    else
        snprintf(text, size, "no known host serves its shard; %zu of %zu hosts failed: %s%s%s",
                 n_silent, n, is_named ? "" : silent->address, is_named ? "" : ": ", why);
}

/* --- life --- */

void rota_get_hosts_close(struct rota_get *get)
{
    char name[32];
    const struct rota_map_entry *entry;
    size_t place = 0;
    while ((entry = rota_map_next(&get->peers, &place))) {
        struct rota_get_peer *peer = entry->value;
        rota_channel_close(peer->channel); /* no callback is called after this */
        peer->channel = NULL;
    }
    if (get->options.members)
        rota_members_unsubscribe(get->options.members, name_subscription(get, name));
    rota_members_close(get->members);
    get->members = get->options.members = NULL;
}

void rota_get_hosts_free(struct rota_get *get)
{
    const struct rota_map_entry *entry;
    size_t place = 0;
    while ((entry = rota_map_next(&get->peers, &place)))
        peer_free(entry->value);
    rota_map_deinit(&get->peers);
}

static void show_calls(const struct rota_get_peer *peer, struct rota_get_view *view)
{
    view->n_calls = peer->n_calls;
    view->n_failed = peer->n_failed;
    view->n_cancelled = peer->n_cancelled;
    view->n_hedges = peer->n_hedges;
    view->n_hedges_won = peer->n_hedges_won;
    view->n_running = peer->n_running;
    memcpy(view->latencies, peer->latencies, sizeof view->latencies);
}

bool rota_get_next_host(const struct rota_get *get, size_t *place, struct rota_get_view *view)
{
    if (*place >= rota_interval_map_n_hosts(get->map))
        return false;
    const struct rota_interval_host *host = rota_interval_map_host(get->map, (*place)++);
    const struct rota_get_peer *peer = rota_get_hosts_find_peer(get, host->id);
    *view = (struct rota_get_view){
        .address = host->address,
        .dc = host->dc,
        .shards = host->claims,
        .n_shards = host->n_claims,
        .is_connected = peer && rota_channel_state(peer->channel) == ROTA_CHANNEL_READY,
    };
    struct rota_balancer_view calls;
    if (rota_balancer_look(get->balancer, rota_clock_mono(), host->id, &calls)) {
        view->score = calls.score;
        view->circuit = calls.circuit;
    }
    if (peer)
        show_calls(peer, view);
    return true;
}
