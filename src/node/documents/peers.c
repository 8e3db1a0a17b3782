#include "node/documents/peers.h"

#include "base/search.h"
#include "base/vector.h"
#include "node/node_inside.h"
#include "wire/message/nodes_message.h"

#include <stdlib.h>
#include <string.h>

enum { REPORT_MAX = 32 << 20 }; /* bytes of one answer */

#define TALKS                                                                                      \
    (3 * ROTA_SEC) /* how long after an answer a node counts as alive whatever the store says */

struct rota_peers {
    struct rota_node *node;
    uv_timer_t timer;
    bool is_ticking;
    ROTA_VECTOR(struct rota_peer *) list; /* by address */

    rota_time wanted_until, calls_until; /* reports, and calls in them */
    rota_time seen_at, calls_seen_at;    /* when the last completed round with them began */
    bool with_calls;                     /* in the current round */

    bool is_round; /* in progress */
    rota_time round_at;
    size_t n_awaited; /* answers, before it is over */
    struct rota_list_node waits;
};

/* --- the list of nodes --- */

size_t rota_peers_n(const struct rota_peers *peers)
{
    return peers->list.size;
}

const struct rota_peer *rota_peers_at(const struct rota_peers *peers, size_t i)
{
    return peers->list.items[i];
}

size_t rota_peers_place(const struct rota_peers *peers, struct rota_str address)
{
    struct rota_peer *const *list = peers->list.items;
    size_t place;
    ROTA_SEARCH(place, peers->list.size, at,
                rota_str_compare(rota_str(list[at]->address), address) < 0);
    bool is_known =
        place < peers->list.size && rota_str_is_equal(rota_str(list[place]->address), address);
    return is_known ? place : SIZE_MAX;
}

const struct rota_peer *rota_peers_find(const struct rota_peers *peers, struct rota_str address)
{
    size_t place = rota_peers_place(peers, address);
    return place == SIZE_MAX ? NULL : peers->list.items[place];
}

const char *rota_peer_name(const struct rota_peer *peer)
{
    return peer->name[0] ? peer->name : peer->address;
}

const struct rota_peer *rota_peers_seek(const struct rota_peers *peers, struct rota_str name)
{
    const struct rota_peer *found = rota_peers_find(peers, name);
    if (found)
        return found;
    bool is_clear = true;
    for (size_t i = 0; i < peers->list.size; i++) {
        const struct rota_peer *peer = peers->list.items[i];
        if (!rota_str_is_equal(rota_str(peer->name), name) || name.size == 0)
            continue;
        bool was_alive = found && rota_peer_is_alive(found);
        is_clear &= !was_alive || !rota_peer_is_alive(peer);
        found = was_alive ? found : peer;
    }
    return is_clear ? found : NULL;
}

/* "box (a:1)", or "a:1". */
static size_t append_peer(char *text, size_t size, const char *comma, const struct rota_peer *peer)
{
    enum { SHOWN = 100 };
    return (size_t)(peer->name[0] ? snprintf(text, size, "%s%s (%.*s)", comma, peer->name, SHOWN,
                                             peer->address)
                                  : snprintf(text, size, "%s%.*s", comma, SHOWN, peer->address));
}

char *rota_peers_format_none(const struct rota_peers *peers, char text[ROTA_PEERS_NONE_MAX])
{
    enum { NAMED = 8 };
    size_t n = rota_peers_n(peers), size;
    size = (size_t)snprintf(text, ROTA_PEERS_NONE_MAX, "no such node%s",
                            n > 0 ? "; the nodes are " : "");
    for (size_t i = 0; i < n && i < NAMED; i++)
        size += append_peer(text + size, ROTA_PEERS_NONE_MAX - size, i > 0 ? ", " : "",
                            rota_peers_at(peers, i));
    if (n > NAMED)
        snprintf(text + size, ROTA_PEERS_NONE_MAX - size, " and %zu more", n - NAMED);
    return text;
}

bool rota_peer_is_alive(const struct rota_peer *peer)
{
    rota_time now = rota_clock_boot();
    return peer->is_self || now - peer->beat_at <= peer->ttl ||
           (peer->answered_at > 0 && now - peer->answered_at <= TALKS);
}

bool rota_peer_has_role(const struct rota_peer *peer, const char *role)
{
    size_t size = strlen(role);
    for (const char *at = peer->roles; *at;) {
        size_t n = strcspn(at, ",");
        if (n == size && memcmp(at, role, n) == 0)
            return true;
        at += n + (at[n] == ',');
    }
    return false;
}

static void hang_up(struct rota_peer *peer)
{
    rota_channel_close(peer->channel); /* its call is dropped */
    peer->channel = NULL;
    peer->call = NULL;
    if (peer->is_awaited)
        peer->peers->n_awaited--;
    peer->is_awaited = false;
}

static void free_peer(struct rota_peer *peer)
{
    hang_up(peer);
    rota_buffer_deinit(&peer->bytes);
    rota_arena_deinit(&peer->arena);
    free(peer);
}

static void copy_text(char *to, size_t size, struct rota_str text)
{
    size_t n = text.size < size ? text.size : size - 1;
    memcpy(to, text.data, n);
    to[n] = '\0';
}

/* Others are members, too: servers of shards. */
bool rota_peers_is_node(const struct rota_store_member *row)
{
    return rota_str_has_prefix(row->roles, rota_str(ROTA_NODE_ROLE ","));
}

static void take_row(struct rota_peer *peer, const struct rota_store_member *row,
                     const struct rota_store_answer *answer)
{
    copy_text(peer->zone, sizeof peer->zone, row->zone);
    copy_text(peer->name, sizeof peer->name, row->name);
    size_t before = sizeof ROTA_NODE_ROLE; /* with its comma */
    copy_text(peer->roles, sizeof peer->roles,
              rota_str_of(row->roles.data + before, row->roles.size - before));
    peer->weight = row->weight;
    peer->state = row->state;
    peer->ttl = row->ttl;
    peer->beat_at = answer->heard_at - (answer->db_now - row->heartbeat);
    peer->is_listed = true;
}

static struct rota_peer *add_peer(struct rota_peers *peers, struct rota_str address)
{
    struct rota_peer *peer = peers->list.size < ROTA_PEERS_MAX ? calloc(1, sizeof *peer) : NULL;
    if (peer && !rota_vector_push(&peers->list, peer)) {
        free(peer);
        peer = NULL;
    }
    if (!peer)
        return NULL;
    peer->peers = peers;
    peer->is_new = true;
    copy_text(peer->address, sizeof peer->address, address);
    peer->is_self = rota_str_is_equal(address, rota_str(peers->node->advertise));
    return peer;
}

static int compare_peers(const void *a, const void *b)
{
    return strcmp((*(struct rota_peer *const *)a)->address,
                  (*(struct rota_peer *const *)b)->address);
}

/* Nodes that left are forgotten; unresponsive ones stay for a while. */
static void take_rows(struct rota_peers *peers, const struct rota_store_answer *answer)
{
    size_t n_known = peers->list.size, n = 0;
    for (size_t i = 0; i < n_known; i++)
        peers->list.items[i]->is_listed = false;
    for (size_t i = 0; i < answer->n_members; i++) {
        const struct rota_store_member *row = &answer->members[i];
        if (!rota_peers_is_node(row) || answer->db_now - row->heartbeat > ROTA_PEERS_DEAD)
            continue;
        /* New ones are appended to the known ones, which stay sorted meanwhile. */
        size_t size = peers->list.size;
        peers->list.size = n_known;
        size_t place = rota_peers_place(peers, row->address);
        peers->list.size = size;
        struct rota_peer *peer =
            place == SIZE_MAX ? add_peer(peers, row->address) : peers->list.items[place];
        if (peer)
            take_row(peer, row, answer);
    }
    for (size_t i = 0; i < peers->list.size; i++) {
        struct rota_peer *peer = peers->list.items[i];
        if (peer->is_listed)
            peers->list.items[n++] = peer;
        else
            free_peer(peer);
    }
    peers->list.size = n;
    qsort(peers->list.items, n, sizeof(struct rota_peer *), compare_peers);
}

/* --- their reports --- */

/* Keep one; false when it is malformed: the last one remains. */
static bool take_report(struct rota_peer *peer, struct rota_str message)
{
    struct rota_buffer bytes = {0};
    struct rota_arena arena = {0};
    struct rota_nodes_report report;
    rota_buffer_append_str(&bytes, message);
    if (bytes.failed ||
        rota_message_decode(&ROTA_NODES_REPORT, rota_buffer_str(&bytes), &report, &arena, NULL)) {
        rota_buffer_deinit(&bytes);
        rota_arena_deinit(&arena);
        return false;
    }
    rota_buffer_deinit(&peer->bytes);
    rota_arena_deinit(&peer->arena);
    peer->bytes = bytes;
    peer->arena = arena;
    peer->report = report;
    return true;
}

static void take_events(struct rota_peer *peer, const struct rota_nodes_report *report)
{
    struct rota_events *events = &peer->peers->node->events;
    const struct rota_nodes_event *heard = report->events.items;
    peer->life = report->life;
    for (size_t i = 0; i < report->events.n; i++) {
        enum rota_event_kind kind;
        if (rota_event_kind_parse(heard[i].kind, &kind) && heard[i].at_ms <= INT64_MAX / ROTA_MSEC)
            rota_events_adopt(events, (rota_time)heard[i].at_ms * ROTA_MSEC, kind, heard[i].subject,
                              heard[i].text, rota_str(peer->address));
        peer->after = heard[i].number;
    }
}

/* --- rounds --- */

static void begin_round(struct rota_peers *peers);

static rota_time seen_at(const struct rota_peers *peers, const struct rota_peers_wait *wait)
{
    return wait->with_calls ? peers->calls_seen_at : peers->seen_at;
}

static void want_reports(struct rota_peers *peers, const struct rota_peers_wait *wait,
                         rota_time now)
{
    peers->wanted_until = now + ROTA_PEERS_WANTED;
    if (wait->with_calls)
        peers->calls_until = peers->wanted_until;
}

static void end_round(struct rota_peers *peers)
{
    struct rota_list_node served;
    rota_list_init(&served);
    peers->is_round = false;
    peers->seen_at = peers->round_at;
    if (peers->with_calls)
        peers->calls_seen_at = peers->round_at;
    ROTA_LIST_EACH (wait, &peers->waits, struct rota_peers_wait, link) {
        if (seen_at(peers, wait) + ROTA_PEERS_EVERY >= wait->since) {
            rota_list_remove(&wait->link);
            rota_list_push(&served, &wait->link);
        }
    }
    if (!rota_list_is_empty(&peers->waits))
        begin_round(peers);
    ROTA_LIST_DRAIN (wait, &served, struct rota_peers_wait, link) {
        rota_list_remove(&wait->link);
        wait->on_seen(wait->data);
    }
}

static void on_reply(void *data, struct rota_call *call, const struct rota_call_result *result)
{
    struct rota_peer *peer = data;
    struct rota_peers *peers = peer->peers;
    (void)call;
    peer->call = NULL;
    peer->has_answered = result->status == ROTA_STATUS_UNIMPLEMENTED; /* a member, but no node */
    if (result->status == ROTA_STATUS_OK && take_report(peer, result->message)) {
        peer->has_answered = true;
        take_events(peer, &peer->report);
    }
    if (peer->has_answered)
        peer->answered_at = rota_clock_boot();
    if (!peer->is_awaited)
        return;
    peer->is_awaited = false;
    if (--peers->n_awaited == 0)
        end_round(peers);
}

static bool open_channel(struct rota_peer *peer)
{
    if (!peer->channel)
        rota_node_open_channel(peer->peers->node, peer->address, REPORT_MAX, &peer->channel, NULL);
    return peer->channel != NULL;
}

static void call_peer(struct rota_peer *peer)
{
    struct rota_buffer message = {0};
    const struct rota_nodes_ask request = {
        .with_calls = peer->peers->with_calls, .events_after = peer->after, .life = peer->life};
    rota_message_encode(&ROTA_NODES_ASK, &request, &message);
    struct rota_call_options options = {.method = rota_str("/rota.peer.v1.NodePeer/Report"),
                                        .request = rota_buffer_str(&message),
                                        .timeout = ROTA_PEERS_TIMEOUT,
                                        .on_end = on_reply,
                                        .data = peer};
    if (message.failed || !open_channel(peer) ||
        rota_channel_call(peer->channel, &options, &peer->call, NULL)) {
        peer->has_answered = false;
    } else if (peer->has_answered || peer->is_new) {
        peer->is_awaited = true;
        peer->peers->n_awaited++;
    }
    peer->is_new = false;
    rota_buffer_deinit(&message);
}

static void call_all(struct rota_peers *peers)
{
    for (size_t i = 0; i < peers->list.size; i++) {
        struct rota_peer *peer = peers->list.items[i];
        if (!peer->is_self && !peer->call && rota_peer_is_alive(peer))
            call_peer(peer);
        else if (!peer->is_self && !rota_peer_is_alive(peer))
            peer->has_answered = false;
    }
    if (peers->n_awaited == 0)
        end_round(peers);
}

static void on_rows(void *data, const struct rota_store_answer *answer)
{
    struct rota_peers *peers = data;
    if (!answer->code)
        take_rows(peers, answer);
    call_all(peers);
}

/* Without the store the known nodes are asked. */
static void begin_round(struct rota_peers *peers)
{
    const struct rota_store_request request = {.verb = ROTA_STORE_MEMBERS};
    rota_time now = rota_clock_boot();
    peers->is_round = true;
    peers->round_at = now;
    ROTA_LIST_EACH (wait, &peers->waits, struct rota_peers_wait, link)
        want_reports(peers, wait, now);
    peers->with_calls = peers->calls_until >= now;
    if (!rota_store_is_up(peers->node->store) ||
        rota_store_ask(peers->node->store, &request, on_rows, peers, NULL))
        call_all(peers);
}

/* --- time --- */

/* When no report is needed, connections are closed, too. */
static void on_timer(uv_timer_t *timer)
{
    struct rota_peers *peers = timer->data;
    if (peers->is_round)
        return;
    if (peers->wanted_until >= rota_clock_boot()) {
        begin_round(peers);
        return;
    }
    uv_timer_stop(timer);
    peers->is_ticking = false;
    for (size_t i = 0; i < peers->list.size; i++) {
        hang_up(peers->list.items[i]);
        peers->list.items[i]->is_new = true;
    }
}

static void tick_round(struct rota_peers *peers)
{
    if (!peers->is_ticking)
        uv_timer_start(&peers->timer, on_timer, ROTA_PEERS_EVERY / ROTA_MSEC,
                       ROTA_PEERS_EVERY / ROTA_MSEC);
    peers->is_ticking = true;
}

void rota_peers_refresh(struct rota_peers *peers, struct rota_peers_wait *wait)
{
    rota_time now = rota_clock_boot();
    wait->since = now;
    want_reports(peers, wait, now);
    tick_round(peers);
    if (seen_at(peers, wait) + ROTA_PEERS_EVERY > now && seen_at(peers, wait) > 0) {
        wait->on_seen(wait->data);
        return;
    }
    rota_list_push(&peers->waits, &wait->link);
    if (!peers->is_round)
        begin_round(peers);
}

void rota_peers_renew(struct rota_peers *peers)
{
    peers->seen_at = peers->calls_seen_at = 0;
}

void rota_peers_want_events(struct rota_peers *peers)
{
    peers->wanted_until = rota_clock_boot() + ROTA_PEERS_WANTED;
    tick_round(peers);
}

/* --- life --- */

enum rota_code rota_peers_open(struct rota_node *node, struct rota_peers **peers,
                               struct rota_error *error)
{
    struct rota_peers *made = calloc(1, sizeof *made);
    if (!made)
        return rota_error_no_memory(error, "for peers");
    made->node = node;
    rota_list_init(&made->waits);
    uv_timer_init(node->loop, &made->timer);
    made->timer.data = made;
    *peers = made;
    return ROTA_OK;
}

static void on_closed(uv_handle_t *handle)
{
    free(handle->data);
}

void rota_peers_close(struct rota_peers *peers)
{
    if (!peers)
        return;
    rota_store_forget(peers->node->store, peers);
    ROTA_LIST_DRAIN (wait, &peers->waits, struct rota_peers_wait, link) {
        rota_list_remove(&wait->link);
        wait->on_seen(wait->data);
    }
    for (size_t i = 0; i < peers->list.size; i++)
        free_peer(peers->list.items[i]);
    rota_vector_deinit(&peers->list);
    uv_close((uv_handle_t *)&peers->timer, on_closed);
}
