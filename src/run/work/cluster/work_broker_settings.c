/* What nodes exchange besides jobs: which nodes may hold some, as exchange_fsm says. The list of
 * nodes goes from here to the broker, which remembers them. */
#include "run/work/cluster/work_broker_settings.h"
#include "core/work/cluster/exchange_fsm.h"
#include "run/work/broker/work_broker_inside.h"
#include "run/work/broker/work_broker_reply.h"
#include "run/work/cluster/work_broker_handover.h"

#include <stdio.h>
#include <stdlib.h>

#define BYE_MAX (2 * ROTA_SEC) /* for the peers to receive our goodbye */

static const char HOLDERS[] = "/rota.peer.v1.QueuePeer/Holders";

/* Over a separate connection: a peer that is not up yet would keep others from trying it. */
struct asking {
    struct rota_broker_settings *settings;
    struct rota_channel *channel;
    bool is_bye;
    struct rota_list_node link;
};

struct rota_broker_settings {
    struct rota_work_broker *broker;
    struct rota_broker_cluster_subscriber subscriber;
    struct rota_list_node askings;
    struct rota_exchange_fsm fsm;
};

/* --- unlisted nodes --- */

struct rota_str rota_work_broker_settings_absent(const struct rota_work_broker *broker,
                                                 bool for_add, size_t index)
{
    struct rota_str address = rota_str("");
    size_t place = 0;
    rota_time now = rota_work_broker_now().boot;
    while (rota_broker_next_absent(broker->core, now, for_add, &place, &address))
        if (index-- == 0)
            return address;
    return rota_str("");
}

size_t rota_work_broker_settings_n_absent(const struct rota_work_broker *broker, bool for_add)
{
    struct rota_str address;
    rota_time now = rota_work_broker_now().boot;
    size_t n = 0;
    for (size_t place = 0; rota_broker_next_absent(broker->core, now, for_add, &place, &address);)
        n++;
    return n;
}

static void log_absent(const struct rota_work_broker *broker)
{
    size_t n = rota_work_broker_settings_n_absent(broker, false);
    for (size_t i = 0; i < n; i++)
        rota_log(broker->options.log, rota_work_broker_now().wall, ROTA_LOG_WARN,
                 "node no longer listed, may hold jobs",
                 ROTA_LOG_FACT("node", rota_work_broker_settings_absent(broker, false, i)));
}

/* Give the broker the list of nodes. A list that has not arrived yet proves nothing. */
static void note_nodes(struct rota_broker_settings *settings)
{
    struct rota_work_broker *broker = settings->broker;
    struct rota_str address;
    struct rota_error error;
    bool is_placed;
    size_t n_before = rota_work_broker_settings_n_absent(broker, false);
    if (!rota_work_broker_cluster_member(broker->cluster, 0, &address, &is_placed))
        return;
    rota_broker_nodes_begin(broker->core, rota_work_broker_now());
    for (size_t i = 0; rota_work_broker_cluster_member(broker->cluster, i, &address, &is_placed);
         i++)
        if (rota_broker_node_listed(broker->core, address, is_placed, &error))
            rota_log(broker->options.log, rota_work_broker_now().wall, ROTA_LOG_WARN,
                     "node not remembered", ROTA_LOG_FACT("node", address),
                     ROTA_LOG_FACT("why", error.text));
    rota_broker_nodes_end(broker->core);
    if (rota_work_broker_settings_n_absent(broker, false) > n_before)
        log_absent(broker);
}

void rota_work_broker_settings_was_alive(struct rota_work_broker *broker, struct rota_str address,
                                         rota_time at)
{
    struct rota_error error;
    if (rota_broker_node_was_alive(broker->core, rota_work_broker_now(), address, at, &error))
        rota_log(broker->options.log, rota_work_broker_now().wall, ROTA_LOG_WARN,
                 "node not remembered", ROTA_LOG_FACT("node", address),
                 ROTA_LOG_FACT("why", error.text));
}

/* Whether other nodes have partitions, and whether this one has. */
static void look_at_ring(const struct rota_work_broker *broker, bool *has_others, bool *has_self)
{
    struct rota_str address;
    bool is_placed;
    *has_others = *has_self = false;
    for (size_t i = 0; rota_work_broker_cluster_member(broker->cluster, i, &address, &is_placed);
         i++)
        if (rota_str_is_equal(address, rota_work_broker_cluster_self(broker->cluster)))
            *has_self = is_placed;
        else
            *has_others |= is_placed;
}

/* --- our own state --- */

static struct rota_message_list list_nodes(struct rota_work_broker *broker)
{
    struct rota_broker_node_view view;
    struct rota_queue_node *nodes =
        rota_arena_take(&broker->front.arena, ROTA_BROKER_NODES_MAX * sizeof *nodes);
    size_t n = 0;
    for (size_t place = 0;
         nodes && n < ROTA_BROKER_NODES_MAX && rota_broker_next_node(broker->core, &place, &view);)
        nodes[n++] = (struct rota_queue_node){view.address, view.may_hold, (uint64_t)view.at};
    return (struct rota_message_list){nodes, n};
}

const struct rota_queue_node *rota_work_broker_settings_speak(struct rota_work_broker *broker,
                                                              bool may_hold,
                                                              struct rota_queue_node *room)
{
    struct rota_broker_node_view said;
    if (rota_broker_node_speak(broker->core, rota_work_broker_now(), may_hold, &said, NULL))
        return NULL;
    *room = (struct rota_queue_node){said.address, said.may_hold, (uint64_t)said.at};
    return room;
}

enum rota_code rota_work_broker_settings_take_node(struct rota_work_broker *broker,
                                                   const struct rota_queue_node *node,
                                                   struct rota_error *error)
{
    struct rota_broker_node_view view = {node->address, node->may_hold, (rota_time)node->at_ns};
    return rota_broker_take_node(broker->core, rota_work_broker_now(), &view, error);
}

void rota_work_broker_settings_exchange(struct rota_broker_request *request)
{
    struct rota_work_broker *broker = request->broker;
    struct rota_server_call *call = request->call;
    const struct rota_queue_holders *message = &request->as.holders;
    struct rota_error error;
    const struct rota_queue_node *self = message->self;
    if (self && rota_work_broker_settings_take_node(broker, self, &error)) {
        rota_work_broker_reply_error(call, &error, false);
        return;
    }
    const struct rota_queue_node *nodes = message->nodes.items;
    for (size_t i = 0; i < message->nodes.n; i++) /* invalid ones are ignored */
        rota_work_broker_settings_take_node(broker, &nodes[i], NULL);
    if (self && !self->may_hold)
        rota_log(broker->options.log, rota_work_broker_now().wall, ROTA_LOG_INFO,
                 "node leaves and holds no jobs", ROTA_LOG_FACT("node", self->address));
    rota_work_broker_touch(broker);
    const struct rota_queue_holders reply = {.nodes = list_nodes(broker)};
    rota_work_broker_reply_message(broker, call, rota_broker_last_number(broker->core),
                                   &ROTA_QUEUE_HOLDERS, &reply);
}

/* --- state of the peers --- */

static void warn_unreadable(const struct rota_broker_settings *settings, const char *why)
{
    rota_log(settings->broker->options.log, rota_work_broker_now().wall, ROTA_LOG_WARN,
             "report of another node not used", ROTA_LOG_FACT("why", why));
}

static void take_over_nodes(struct rota_broker_settings *settings, struct rota_str message)
{
    struct rota_work_broker *broker = settings->broker;
    struct rota_queue_holders told;
    struct rota_error error = {0};
    rota_arena_clear(&broker->front.arena);
    if (rota_message_decode(&ROTA_QUEUE_HOLDERS, message, &told, &broker->front.arena, &error)) {
        warn_unreadable(settings, error.text);
        return;
    }
    const struct rota_queue_node *nodes = told.nodes.items;
    for (size_t i = 0; i < told.nodes.n; i++)
        if (rota_work_broker_settings_take_node(broker, &nodes[i], &error))
            warn_unreadable(settings, error.text);
}

/* Release what was held back, if it is time. */
static bool begin(struct rota_broker_settings *settings, rota_time now)
{
    const struct rota_broker_cluster *cluster = settings->broker->cluster;
    bool is_listed =
        rota_work_broker_cluster_is_listed(cluster, rota_work_broker_cluster_self(cluster));
    if (!rota_exchange_fsm_begin(&settings->fsm, now, is_listed,
                                 !rota_list_is_empty(&settings->askings)))
        return false;
    rota_work_broker_hold(settings->broker, ROTA_BROKER_HOLD_PEERS, false);
    return true;
}

static void end_asking(struct asking *asking)
{
    rota_list_remove(&asking->link);
    rota_channel_close(asking->channel);
    free(asking);
}

static void on_holders_end(void *data, struct rota_call *call,
                           const struct rota_call_result *result)
{
    struct asking *asking = data;
    struct rota_broker_settings *settings = asking->settings;
    (void)call;
    if (result->status == ROTA_STATUS_OK)
        take_over_nodes(settings, result->message);
    end_asking(asking);
    begin(settings, rota_work_broker_now().boot);
    rota_work_broker_touch(settings->broker);
}

/* One that can't be asked is asked the next time. */
static void ask_peer(struct rota_broker_settings *settings, struct rota_str peer, bool is_bye)
{
    struct rota_work_broker *broker = settings->broker;
    bool has_others, has_self;
    look_at_ring(broker, &has_others, &has_self);
    struct rota_queue_holders request = {0};
    struct rota_queue_node self;
    char address[ROTA_ADDRESS_MAX + 1];
    const struct rota_channel_options with = {.tls = broker->options.tls,
                                              .insecure = broker->options.is_insecure,
                                              .token = broker->options.token,
                                              .message_max = ROTA_WORK_BROKER_MESSAGE_MAX};
    struct asking *asking = calloc(1, sizeof *asking);
    if (!asking)
        return;
    if (is_bye || has_self || !rota_broker_is_empty(broker->core))
        request.self = rota_work_broker_settings_speak(broker, !is_bye, &self);
    if (is_bye) /* this node may be the only one that received it */
        request.nodes = list_nodes(broker);
    rota_buffer_clear(&broker->front.buffer);
    rota_message_encode(&ROTA_QUEUE_HOLDERS_REQUEST, &request, &broker->front.buffer);
    struct rota_call_options options = {.method = rota_str(HOLDERS),
                                        .request = rota_buffer_str(&broker->front.buffer),
                                        .timeout = is_bye ? BYE_MAX : ROTA_EXCHANGE_INTERVAL,
                                        .on_end = on_holders_end,
                                        .data = asking};
    asking->settings = settings;
    asking->is_bye = is_bye;
    rota_list_init(&asking->link);
    snprintf(address, sizeof address, "%.*s", (int)peer.size, peer.data);
    if (rota_channel_open(broker->timer.loop, address, &with, &asking->channel, NULL) ||
        rota_channel_call(asking->channel, &options, NULL, NULL))
        end_asking(asking);
    else
        rota_list_push(&settings->askings, &asking->link);
}

static void on_route(void *data)
{
    struct rota_broker_settings *settings = data;
    note_nodes(settings);
    rota_exchange_fsm_ask_now(&settings->fsm);
    rota_work_broker_touch(settings->broker);
}

/* --- leaving --- */

static struct rota_exchange_sight look(const struct rota_work_broker *broker)
{
    struct rota_exchange_sight sight = {.is_draining = broker->front.fsm.is_draining,
                                        .delists = broker->options.drain_delists};
    look_at_ring(broker, &sight.has_others, &sight.is_placed);
    sight.is_empty = sight.is_draining && rota_broker_is_empty(broker->core) &&
                     broker->log.durable >= rota_broker_last_number(broker->core);
    return sight;
}

static void ask_peers(struct rota_broker_settings *settings, bool is_bye)
{
    const struct rota_broker_cluster *cluster = settings->broker->cluster;
    for (size_t i = 0; i < rota_work_broker_cluster_n_peers(cluster); i++)
        ask_peer(settings, rota_work_broker_cluster_peer(cluster, i), is_bye);
}

bool rota_work_broker_settings_has_left(const struct rota_work_broker *broker)
{
    const struct rota_broker_settings *settings = broker->settings;
    bool is_waiting = false;
    if (!settings)
        return true;
    ROTA_LIST_EACH (asking, &settings->askings, const struct asking, link)
        is_waiting |= asking->is_bye;
    struct rota_exchange_sight sight = look(broker);
    return rota_exchange_fsm_has_left(&settings->fsm, &sight, is_waiting);
}

void rota_work_broker_settings_take_back(struct rota_broker_settings *settings)
{
    if (settings && rota_exchange_fsm_take_back(&settings->fsm))
        rota_work_broker_touch(settings->broker);
}

void rota_work_broker_settings_ask_soon(struct rota_broker_settings *settings)
{
    if (!settings)
        return;
    rota_exchange_fsm_ask_soon(&settings->fsm);
    rota_work_broker_touch(settings->broker);
}

bool rota_work_broker_settings_are_told(const struct rota_broker_settings *settings)
{
    return !settings || rota_exchange_fsm_has_begun(&settings->fsm);
}

bool rota_work_broker_settings_turn(struct rota_broker_settings *settings, rota_time now)
{
    if (!settings)
        return false;
    if (rota_exchange_fsm_ask(&settings->fsm, now))
        ask_peers(settings, false);
    struct rota_exchange_sight sight = look(settings->broker);
    if (rota_exchange_fsm_leave(&settings->fsm, &sight))
        ask_peers(settings, true);
    return begin(settings, now);
}

rota_time rota_work_broker_settings_deadline(const struct rota_broker_settings *settings)
{
    return settings ? rota_exchange_fsm_deadline(&settings->fsm) : ROTA_TIME_NEVER;
}

/* --- life --- */

enum rota_code rota_work_broker_settings_open(struct rota_work_broker *broker,
                                              struct rota_error *error)
{
    struct rota_broker_settings *made = calloc(1, sizeof *made);
    struct rota_work_now now = rota_work_broker_now();
    if (!made)
        return rota_error_no_memory(error, "to ask other nodes");
    made->broker = broker;
    made->subscriber = (struct rota_broker_cluster_subscriber){.on_route = on_route, .data = made};
    rota_exchange_fsm_init(&made->fsm, now.boot);
    rota_list_init(&made->askings);
    rota_work_broker_cluster_subscribe(broker->cluster, &made->subscriber);
    rota_work_broker_hold(broker, ROTA_BROKER_HOLD_PEERS, true);
    broker->settings = made;
    enum rota_code code = rota_broker_node_self(
        broker->core, now, rota_work_broker_cluster_self(broker->cluster), error);
    if (!code)
        note_nodes(made);
    return code;
}

void rota_work_broker_settings_close(struct rota_broker_settings *settings)
{
    if (!settings)
        return;
    ROTA_LIST_DRAIN (asking, &settings->askings, struct asking, link)
        end_asking(asking);
    rota_work_broker_cluster_unsubscribe(&settings->subscriber);
    free(settings);
}
