#include "run/work/cluster/work_broker_cluster.h"

#include "base/decimal.h"
#include "base/map.h"
#include "base/vector.h"
#include "core/work/cluster/layouts.h"
#include "io/clock.h"
#include "run/place/wall_wait.h"
#include "run/rpc/channel_inside.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

enum {
    ROUTES_MAX = 1 << 21,   /* owners that are remembered; with more, all are forgotten */
    NOTES_MAX = 16,         /* metadata of a call to a peer, ours included */
    MESSAGE_MAX = 40 << 20, /* of a reply: a payload, a result and a history */
};

#define FLIPS_EVERY (20 * ROTA_MSEC) /* minimum interval between reports of changed partitions */

#define KEEP_UNLISTED ROTA_MIN /* after its last call, with its history of failures */

/* A client of several nodes leaves one that does not answer a call, nor a ping after it, within a
 * second in all: until then its polls wait there, although other nodes have jobs. */
#define CLIENT_PING_AFTER   (250 * ROTA_MSEC)
#define CLIENT_PING_TIMEOUT (600 * ROTA_MSEC)

static const char SUBSCRIPTION[] = "broker_cluster";

struct peer {
    struct rota_channel *channel;
    bool is_listed;
    rota_time called_at; /* monotonic */
    char address[];      /* the key in `peers` */
};

/* The owners of a queue's partitions, as host numbers of `ring`. */
struct route {
    size_t name_size;
    char *name; /* the key in `routes`; after the hosts */
    uint32_t n; /* hosts */
    uint32_t hosts[];
};

struct rota_broker_cluster {
    uv_loop_t *loop;
    struct rota_members *members; /* NULL: alone */
    struct rota_ring *ring;
    uint32_t self_host; /* in `ring` */
    uint32_t partitions;
    struct rota_tls *tls;
    bool insecure, is_client, has_unlisted;
    const char *token;
    uint64_t (*view)(void *data);
    void *data;
    struct rota_layouts layouts;
    uv_timer_t timer;       /* of the next partitions that change */
    rota_time told_at;      /* monotonic: when a change of partitions was last reported */
    struct rota_map routes; /* by queue */
    size_t n_routes;        /* owners in them */
    struct rota_map peers;  /* by address */
    struct rota_list_node subscribers;
    size_t self_size;
    char self[];
};

/* --- the route --- */

static void forget_routes(struct rota_broker_cluster *cluster)
{
    uint64_t seed = cluster->routes.seed;
    rota_map_deinit_values(&cluster->routes);
    rota_map_init(&cluster->routes, seed);
    cluster->n_routes = 0;
}

struct rota_work_layout rota_work_broker_cluster_default(uint32_t partitions)
{
    return (struct rota_work_layout){.wanted = partitions,
                                     .write = partitions,
                                     .read = partitions,
                                     .spread = ROTA_BROKER_CLUSTER_SPREAD};
}

struct rota_work_layout rota_work_broker_cluster_layout(const struct rota_broker_cluster *cluster,
                                                        struct rota_str queue)
{
    return rota_layouts_get(&cluster->layouts, queue);
}

void rota_work_broker_cluster_set_partitions(struct rota_broker_cluster *cluster,
                                             uint32_t partitions)
{
    if (cluster->partitions == partitions)
        return;
    cluster->partitions = partitions;
    cluster->layouts.usual = rota_work_broker_cluster_default(partitions);
    forget_routes(cluster);
}

static void forget_route(struct rota_broker_cluster *cluster, struct rota_str queue)
{
    struct route *route = rota_map_get(&cluster->routes, queue);
    if (!route)
        return;
    rota_map_remove(&cluster->routes, queue);
    cluster->n_routes -= route->n;
    free(route);
}

static void on_timer(uv_timer_t *timer);

/* The timer does not keep the loop alive. */
static void set_timer(struct rota_broker_cluster *cluster)
{
    rota_time deadline = rota_layouts_deadline(&cluster->layouts);
    rota_time earliest = rota_time_add(cluster->told_at, FLIPS_EVERY) - rota_clock_mono();
    if (deadline == ROTA_TIME_NEVER) {
        uv_timer_stop(&cluster->timer);
        return;
    }
    uint64_t wait = rota_wall_wait_ms(rota_clock_wall(), deadline);
    uint64_t least = earliest > 0 ? (uint64_t)(earliest / ROTA_MSEC) + 1 : 0;
    uv_timer_start(&cluster->timer, on_timer, wait > least ? wait : least, 0);
    uv_unref((uv_handle_t *)&cluster->timer);
}

static void on_timer(uv_timer_t *timer)
{
    struct rota_broker_cluster *cluster = timer->data;
    struct rota_layouts_flip flip;
    bool has_flipped = false;
    while (rota_layouts_step(&cluster->layouts, rota_clock_wall(), &flip)) {
        struct route *route = rota_map_get(&cluster->routes, flip.queue);
        struct rota_partition of = rota_layout_partition(flip.queue, flip.partition);
        if (route && flip.partition < route->n)
            route->hosts[flip.partition] = rota_route(cluster->ring, &of, flip.spread);
        has_flipped = true;
    }
    if (has_flipped)
        cluster->told_at = rota_clock_mono();
    set_timer(cluster);
    if (has_flipped)
        rota_work_broker_cluster_laid_out(cluster);
}

const struct rota_config *rota_work_broker_cluster_config(const struct rota_broker_cluster *cluster)
{
    return cluster->layouts.config;
}

void rota_work_broker_cluster_set_config(struct rota_broker_cluster *cluster,
                                         struct rota_config *config)
{
    rota_layouts_set_config(&cluster->layouts, config);
    forget_routes(cluster);
}

bool rota_work_broker_cluster_lay_out(struct rota_broker_cluster *cluster, struct rota_str queue,
                                      const struct rota_work_layout *layout)
{
    if (!rota_layouts_set(&cluster->layouts, rota_clock_wall(), queue, layout))
        return false;
    forget_route(cluster, queue);
    set_timer(cluster);
    return true;
}

/* The route of a queue, computed once; NULL when there is no memory to store it. */
static const struct route *route_of(struct rota_broker_cluster *cluster, struct rota_str queue)
{
    struct route *route = rota_map_get(&cluster->routes, queue);
    if (route)
        return route;
    size_t n = rota_work_broker_cluster_layout(cluster, queue).read;
    if (cluster->n_routes + n > ROUTES_MAX)
        forget_routes(cluster);
    route = malloc(sizeof *route + n * sizeof *route->hosts + queue.size + 1);
    if (!route)
        return NULL;
    rota_layouts_route(&cluster->layouts, cluster->ring, queue, route->hosts);
    route->n = (uint32_t)n;
    route->name = (char *)(route->hosts + n);
    route->name_size = queue.size;
    memcpy(route->name, queue.data, queue.size);
    if (!rota_map_put(&cluster->routes, rota_str_of(route->name, queue.size), route)) {
        free(route);
        return NULL;
    }
    cluster->n_routes += n;
    return route;
}

static uint32_t host_of(struct rota_broker_cluster *cluster, struct rota_str queue,
                        uint32_t partition)
{
    const struct route *route = route_of(cluster, queue);
    if (route)
        return route->hosts[partition < route->n ? partition : partition % route->n];
    struct rota_work_layout layout = rota_work_broker_cluster_layout(cluster, queue);
    struct rota_partition of = rota_layout_partition(queue, rota_layout_read(&layout, partition));
    return rota_route(cluster->ring, &of,
                      rota_layouts_spread(&cluster->layouts, queue, (uint32_t)of.id));
}

struct rota_str rota_work_broker_cluster_owner(struct rota_broker_cluster *cluster,
                                               struct rota_str queue, uint32_t partition)
{
    if (!cluster->members)
        return rota_work_broker_cluster_self(cluster);
    uint32_t host = host_of(cluster, queue, partition);
    return host == ROTA_RING_NONE ? rota_str("") : rota_ring_host(cluster->ring, host).address;
}

bool rota_work_broker_cluster_is_ours(struct rota_broker_cluster *cluster, struct rota_str queue,
                                      uint32_t partition)
{
    if (!cluster->members)
        return true;
    return cluster->self_host != ROTA_RING_NONE &&
           host_of(cluster, queue, partition) == cluster->self_host;
}

struct rota_front_owner rota_work_broker_cluster_whose(struct rota_broker_cluster *cluster,
                                                       struct rota_str queue, uint32_t partition)
{
    struct rota_front_owner owner = {.whose = ROTA_PARTITION_OURS};
    if (!cluster->members)
        return owner;
    uint32_t host = host_of(cluster, queue, partition);
    if (host == ROTA_RING_NONE)
        owner.whose = ROTA_PARTITION_NOBODYS;
    else if (host != cluster->self_host)
        owner = (struct rota_front_owner){.whose = ROTA_PARTITION_ANOTHERS,
                                          .address = rota_ring_host(cluster->ring, host).address};
    return owner;
}

bool rota_work_broker_cluster_is_alone(const struct rota_broker_cluster *cluster)
{
    return !cluster->members;
}

struct rota_str rota_work_broker_cluster_self(const struct rota_broker_cluster *cluster)
{
    return rota_str_of(cluster->self, cluster->self_size);
}

uint32_t rota_work_broker_cluster_n_partitions(const struct rota_broker_cluster *cluster)
{
    return cluster->partitions;
}

uint32_t rota_work_broker_cluster_partition_of(const struct rota_broker_cluster *cluster,
                                               struct rota_str queue, struct rota_str unique)
{
    struct rota_work_layout layout = rota_work_broker_cluster_layout(cluster, queue);
    return rota_layout_write(&layout, rota_ring_hash(unique) % cluster->partitions);
}

uint32_t rota_work_broker_cluster_place(const struct rota_broker_cluster *cluster,
                                        struct rota_job_id id)
{
    return rota_job_id_place(id, cluster->partitions);
}

/* --- changes --- */

void rota_work_broker_cluster_subscribe(struct rota_broker_cluster *cluster,
                                        struct rota_broker_cluster_subscriber *subscriber)
{
    rota_list_push(&cluster->subscribers, &subscriber->link);
}

void rota_work_broker_cluster_unsubscribe(struct rota_broker_cluster_subscriber *subscriber)
{
    rota_list_remove(&subscriber->link);
}

/* A subscriber is put back into the list before it is called, so that it may unsubscribe. */
static void notify_listeners(struct rota_broker_cluster *cluster)
{
    struct rota_list_node row;
    rota_list_take(&row, &cluster->subscribers);
    ROTA_LIST_DRAIN (subscriber, &row, struct rota_broker_cluster_subscriber, link) {
        rota_list_remove(&subscriber->link);
        rota_list_push(&cluster->subscribers, &subscriber->link);
        subscriber->on_route(subscriber->data);
    }
}

void rota_work_broker_cluster_laid_out(struct rota_broker_cluster *cluster)
{
    notify_listeners(cluster);
}

bool rota_work_broker_cluster_is_placed(const struct rota_broker_cluster *cluster)
{
    return !cluster->members || cluster->self_host != ROTA_RING_NONE;
}

bool rota_work_broker_cluster_is_listed(const struct rota_broker_cluster *cluster,
                                        struct rota_str address)
{
    size_t n;
    if (!cluster->members)
        return false;
    const struct rota_member *members = rota_members_list(cluster->members, &n);
    for (size_t i = 0; i < n; i++)
        if (rota_str_is_equal(members[i].host.address, address))
            return true;
    return false;
}

/* Drop an unlisted peer when it was not called for a while. Until then its channel knows that it
 * is down, and calls fail at once. */
static void drop_unlisted(struct rota_broker_cluster *cluster)
{
    const struct rota_map_entry *entry;
    rota_time now = rota_clock_boot();
    size_t place = 0;
    cluster->has_unlisted = false;
    while ((entry = rota_map_next(&cluster->peers, &place))) {
        struct peer *peer = entry->value;
        if (peer->is_listed)
            continue;
        if (rota_channel_n_calls(peer->channel) > 0 || now - peer->called_at < KEEP_UNLISTED) {
            cluster->has_unlisted = true;
            continue;
        }
        rota_map_remove(&cluster->peers, entry->key);
        rota_channel_close(peer->channel);
        free(peer);
        place = 0;
    }
}

static void take_ring(struct rota_broker_cluster *cluster)
{
    const struct rota_map_entry *entry;
    forget_routes(cluster);
    rota_ring_unref(cluster->ring);
    cluster->ring = rota_members_ring(cluster->members);
    cluster->self_host = rota_ring_find(cluster->ring, rota_work_broker_cluster_self(cluster));
    for (size_t place = 0; (entry = rota_map_next(&cluster->peers, &place));) {
        struct peer *peer = entry->value;
        peer->is_listed = rota_work_broker_cluster_is_listed(cluster, entry->key);
    }
    drop_unlisted(cluster);
}

static void on_change(void *data, const struct rota_members_change *change)
{
    struct rota_broker_cluster *cluster = data;
    (void)change;
    take_ring(cluster);
    notify_listeners(cluster);
}

/* --- peers --- */

/* We may be anywhere among the members, or missing. */
static size_t n_others(const struct rota_broker_cluster *cluster, size_t until,
                       struct rota_str *address)
{
    size_t n, n_seen = 0;
    if (!cluster->members)
        return 0;
    const struct rota_member *members = rota_members_list(cluster->members, &n);
    for (size_t i = 0; i < n; i++) {
        if (rota_str_is_equal(members[i].host.address, rota_work_broker_cluster_self(cluster)))
            continue;
        if (n_seen++ == until)
            *address = members[i].host.address;
    }
    return n_seen;
}

bool rota_work_broker_cluster_member(const struct rota_broker_cluster *cluster, size_t index,
                                     struct rota_str *address, bool *is_placed)
{
    size_t n = 0;
    const struct rota_member *members =
        cluster->members ? rota_members_list(cluster->members, &n) : NULL;
    if (index >= n)
        return false;
    *address = members[index].host.address;
    *is_placed = members[index].is_placed;
    return true;
}

struct rota_str rota_work_broker_cluster_peer(const struct rota_broker_cluster *cluster,
                                              size_t index)
{
    struct rota_str address = rota_str("");
    n_others(cluster, index, &address);
    return address;
}

size_t rota_work_broker_cluster_n_peers(const struct rota_broker_cluster *cluster)
{
    struct rota_str address;
    return n_others(cluster, SIZE_MAX, &address);
}

static enum rota_code find_peer(struct rota_broker_cluster *cluster, struct rota_str address,
                                struct peer **found, struct rota_error *error)
{
    struct peer *peer = rota_map_get(&cluster->peers, address);
    struct rota_channel_options options = {.tls = cluster->tls,
                                           .insecure = cluster->insecure,
                                           .token = cluster->token,
                                           .message_max = MESSAGE_MAX,
                                           .connect_timeout = 3 * ROTA_SEC,
                                           .backoff_max = 2 * ROTA_SEC,
                                           .keepalive_interval = 10 * ROTA_SEC,
                                           .keepalive_timeout = 10 * ROTA_SEC};
    if (peer) {
        *found = peer;
        return ROTA_OK;
    }
    if (cluster->is_client && rota_work_broker_cluster_n_peers(cluster) > 1) {
        options.keepalive_timeout = CLIENT_PING_TIMEOUT;
        options.keepalive_call = CLIENT_PING_AFTER;
    }
    if (!(peer = calloc(1, sizeof *peer + address.size + 1)))
        return rota_error_no_memory(error, "for a peer");
    memcpy(peer->address, address.data, address.size);
    peer->is_listed = rota_work_broker_cluster_is_listed(cluster, address);
    cluster->has_unlisted |= !peer->is_listed;
    enum rota_code code =
        rota_channel_open(cluster->loop, peer->address, &options, &peer->channel, error);
    if (!code && !rota_map_put(&cluster->peers, rota_str_of(peer->address, address.size), peer)) {
        rota_channel_close(peer->channel);
        code = rota_error_no_memory(error, "for a peer");
    }
    if (code)
        free(peer);
    else
        *found = peer;
    return code;
}

enum rota_code rota_work_broker_cluster_call(struct rota_broker_cluster *cluster,
                                             struct rota_str address,
                                             const struct rota_call_options *options,
                                             struct rota_call **call, struct rota_error *error)
{
    struct rota_metadata notes[NOTES_MAX] = {{rota_str(ROTA_NOTE_HOPS), rota_str("1")}};
    uint64_t view = rota_work_broker_cluster_view(cluster);
    char number[24];
    struct rota_str note;
    struct rota_call_options with = *options;
    struct rota_error why;
    struct peer *peer;
    if (options->n_metadata > NOTES_MAX - 2)
        return rota_error_set(error, ROTA_ERR_LIMIT,
                              "a call to a peer has at most %d metadata pairs", NOTES_MAX - 2);
    if (cluster->has_unlisted)
        drop_unlisted(cluster);
    enum rota_code code = find_peer(cluster, address, &peer, error);
    if (code)
        return code;
    peer->called_at = rota_clock_boot();
    for (size_t i = 0; i < options->n_metadata; i++)
        notes[i + 1] = options->metadata[i];
    with.metadata = notes;
    with.n_metadata = options->n_metadata + 1;
    if (view > 0 &&
        !rota_metadata_get(options->metadata, options->n_metadata, ROTA_NOTE_VIEW, &note)) {
        const char *end = rota_decimal_put(number, view);
        notes[with.n_metadata++] = (struct rota_metadata){
            rota_str(ROTA_NOTE_VIEW), rota_str_of(number, (size_t)(end - number))};
    }
    if (cluster->is_client) {
        with.metadata++;
        with.n_metadata--;
    }
    if (with.timeout == 0)
        with.timeout = ROTA_BROKER_CLUSTER_TIMEOUT;
    else if (with.timeout == ROTA_TIME_NEVER)
        with.timeout = 0;
    code = rota_channel_call(peer->channel, &with, call, &why);
    if (code && cluster->is_client) /* its results name the node */
        rota_error_set(error, code, "%s", why.text);
    else if (code)
        rota_error_set(error, code, "node %s: %s", peer->address, why.text);
    return code;
}

enum rota_reach rota_work_broker_cluster_reach(const struct rota_broker_cluster *cluster,
                                               struct rota_str address)
{
    const struct peer *peer = rota_map_get(&cluster->peers, address);
    if (!peer)
        return ROTA_REACH_UNKNOWN;
    return rota_reach_of(rota_channel_state(peer->channel) == ROTA_CHANNEL_READY,
                         rota_channel_is_heard(peer->channel),
                         rota_channel_reason(peer->channel)->code != ROTA_OK);
}

void rota_work_broker_cluster_connect(struct rota_broker_cluster *cluster, struct rota_str address)
{
    struct peer *peer;
    if (!find_peer(cluster, address, &peer, NULL))
        rota_channel_connect(peer->channel);
}

bool rota_work_broker_cluster_is_carried(const struct rota_metadata *metadata, size_t n)
{
    struct rota_str value;
    return rota_metadata_get(metadata, n, ROTA_NOTE_HOPS, &value);
}

uint64_t rota_work_broker_cluster_view(const struct rota_broker_cluster *cluster)
{
    return cluster->view ? cluster->view(cluster->data) : 0;
}

uint64_t rota_work_broker_cluster_view_of(const struct rota_metadata *metadata, size_t n)
{
    struct rota_str value;
    uint64_t number = 0;
    if (!rota_metadata_get(metadata, n, ROTA_NOTE_VIEW, &value) || value.size > 19)
        return 0;
    for (size_t i = 0; i < value.size; i++) {
        if (value.data[i] < '0' || value.data[i] > '9')
            return 0;
        number = 10 * number + (uint64_t)(value.data[i] - '0');
    }
    return number;
}

/* --- life --- */

enum rota_code rota_work_broker_cluster_open(struct uv_loop_s *loop,
                                             const struct rota_broker_cluster_options *options,
                                             struct rota_broker_cluster **cluster,
                                             struct rota_error *error)
{
    const char *self = options->self ? options->self : "";
    size_t size = strlen(self);
    struct rota_members_options with = {.log = options->log};
    struct rota_broker_cluster *made = calloc(1, sizeof *made + size + 1);
    if (!made) {
        if (options->source)
            options->source->stop(options->source);
        return rota_error_no_memory(error, "for the list of nodes");
    }
    made->loop = loop;
    made->partitions = options->partitions;
    made->tls = options->tls;
    made->insecure = options->insecure;
    made->token = options->token;
    made->is_client = options->is_client;
    made->view = options->view;
    made->data = options->data;
    made->self_host = ROTA_RING_NONE;
    made->self_size = size;
    memcpy(made->self, self, size + 1);
    const struct rota_work_layout usual = rota_work_broker_cluster_default(options->partitions);
    rota_layouts_init(&made->layouts, &usual, uv_hrtime());
    uv_timer_init(loop, &made->timer);
    made->timer.data = made;
    rota_map_init(&made->routes, uv_hrtime());
    rota_map_init(&made->peers, uv_hrtime());
    rota_list_init(&made->subscribers);
    enum rota_code code = ROTA_OK;
    if (options->source)
        code = rota_members_open(loop, options->source, &with, &made->members, error);
    if (!code && made->members)
        code = rota_members_subscribe(made->members, SUBSCRIPTION, on_change, made, error);
    if (code) {
        rota_work_broker_cluster_close(made);
        return code;
    }
    if (made->members)
        take_ring(made);
    *cluster = made;
    return ROTA_OK;
}

static void on_closed(uv_handle_t *handle)
{
    free(handle->data);
}

void rota_work_broker_cluster_close(struct rota_broker_cluster *cluster)
{
    const struct rota_map_entry *entry;
    if (!cluster)
        return;
    for (size_t place = 0; (entry = rota_map_next(&cluster->peers, &place));) {
        struct peer *peer = entry->value;
        rota_channel_close(peer->channel);
        free(peer);
    }
    rota_map_deinit(&cluster->peers);
    forget_routes(cluster);
    rota_map_deinit(&cluster->routes);
    rota_layouts_deinit(&cluster->layouts);
    rota_members_close(cluster->members);
    rota_ring_unref(cluster->ring);
    uv_close((uv_handle_t *)&cluster->timer, on_closed);
}
