/* Pauses and weights from node to node.
 *
 * Who changes a setting has all nodes told. One that was not there asks for it: each node asks its
 * peers when it begins, when the list changes, and every few seconds; of two settings the later
 * one counts. A node that begins hands nothing out before its peers have answered, or can't, and
 * before it is listed itself: until then its partitions are others', and what it began would be
 * begun again there. */
#include "run/broker_inside.h"

#include <stdio.h>
#include <stdlib.h>

#define INTERVAL (10 * ROTA_SEC)
#define ASK_MAX  (2 * ROTA_SEC)  /* for answers */
#define HOLD_MAX (10 * ROTA_SEC) /* for being listed: one that an operator drains never is */

static const char SETTINGS[] = "/rota.peer.v1.QueuePeer/Settings";

/* Over a connection of its own: a peer that is not there yet would keep others from trying it. */
struct asking {
    struct rota_broker_settings *settings;
    struct rota_channel *channel;
    struct rota_list_node link;
};

struct rota_broker_settings {
    struct rota_work_broker *broker;
    struct rota_broker_cluster_subscriber subscriber;
    struct rota_list_node askings;
    rota_time ask_at;        /* monotonic */
    rota_time hold_until;    /* monotonic; 0: it is over */
    rota_time answers_until; /* the same; 0: not listed yet */
};

/* --- what is here --- */

void rota_work_broker_settings_tell(struct rota_work_broker *broker, struct rota_server_call *call)
{
    struct rota_buffer records = {0};
    struct rota_journal_batch batch = {0};
    struct rota_setting_place place = {0};
    struct rota_work_record record;
    while (rota_broker_next_setting(broker->core, &place, &record))
        rota_queue_jobs_write(&batch, &record, &records);
    struct rota_queue_settings reply = {.records = rota_buffer_str(&records)};
    if (records.failed)
        rota_work_broker_refuse_memory(call);
    else
        rota_work_broker_reply(broker, call, rota_broker_last_number(broker->core),
                               &ROTA_QUEUE_SETTINGS, &reply);
    rota_buffer_deinit(&records);
}

/* --- what is elsewhere --- */

static void warn(const struct rota_broker_settings *settings, const char *why)
{
    rota_log(settings->broker->options.log, rota_work_broker_now().wall, ROTA_LOG_WARN,
             "settings of another node not taken over", ROTA_LOG_FACT("why", why));
}

static void take_over(struct rota_broker_settings *settings, struct rota_str message)
{
    struct rota_work_broker *broker = settings->broker;
    struct rota_queue_settings told;
    struct rota_journal_batch batch = {0};
    struct rota_journal_room room;
    struct rota_work_record record;
    struct rota_error error = {0};
    size_t place = 0;
    rota_arena_clear(&broker->arena);
    if (rota_message_decode(&ROTA_QUEUE_SETTINGS, message, &told, &broker->arena, &error)) {
        warn(settings, error.text);
        return;
    }
    while (rota_queue_jobs_read(&batch, told.records, &place, &record, &room))
        if (rota_broker_take_setting(broker->core, rota_work_broker_now(), &record, &error))
            warn(settings, error.text);
    if (place < told.records.size)
        warn(settings, "what it says can't be read");
}

/* Listed, and told by all who answer in time: what was held back goes out. */
static void settle(struct rota_broker_settings *settings, rota_time now)
{
    const struct rota_broker_cluster *cluster = settings->broker->cluster;
    if (settings->hold_until == 0)
        return;
    if (settings->answers_until == 0 &&
        rota_broker_cluster_is_listed(cluster, rota_broker_cluster_self(cluster)))
        settings->answers_until = now + ASK_MAX;
    bool is_told = settings->answers_until > 0 &&
                   (now >= settings->answers_until || rota_list_is_empty(&settings->askings));
    if (!is_told && now < settings->hold_until)
        return;
    settings->hold_until = 0;
    rota_broker_hold(settings->broker->core, rota_work_broker_now(), false);
}

static void end(struct asking *asking)
{
    rota_list_remove(&asking->link);
    rota_channel_close(asking->channel);
    free(asking);
}

static void on_end(void *data, struct rota_call *call, const struct rota_call_result *result)
{
    struct asking *asking = data;
    struct rota_broker_settings *settings = asking->settings;
    (void)call;
    if (result->status == ROTA_STATUS_OK)
        take_over(settings, result->message);
    end(asking);
    settle(settings, rota_work_broker_now().boot);
    rota_work_broker_touch(settings->broker);
}

/* One that can't be asked is asked the next time. */
static void ask(struct rota_broker_settings *settings, struct rota_str peer)
{
    struct rota_work_broker *broker = settings->broker;
    char address[ROTA_ADDRESS_MAX + 1];
    const struct rota_channel_options with = {.tls = broker->options.tls,
                                              .insecure = broker->options.is_insecure,
                                              .token = broker->options.token,
                                              .message_max = ROTA_WORK_BROKER_MESSAGE_MAX};
    struct asking *asking = calloc(1, sizeof *asking);
    if (!asking)
        return;
    struct rota_call_options options = {
        .method = rota_str(SETTINGS), .timeout = INTERVAL, .on_end = on_end, .data = asking};
    asking->settings = settings;
    rota_list_init(&asking->link);
    snprintf(address, sizeof address, "%.*s", (int)peer.size, peer.data);
    if (rota_channel_open(broker->timer.loop, address, &with, &asking->channel, NULL) ||
        rota_channel_call(asking->channel, &options, NULL, NULL))
        end(asking);
    else
        rota_list_push(&settings->askings, &asking->link);
}

static void on_route(void *data)
{
    struct rota_broker_settings *settings = data;
    settings->ask_at = 0;
    rota_work_broker_touch(settings->broker);
}

bool rota_work_broker_settings_turn(struct rota_broker_settings *settings, rota_time now)
{
    if (!settings)
        return false;
    struct rota_broker_cluster *cluster = settings->broker->cluster;
    if (now >= settings->ask_at) {
        settings->ask_at = now + INTERVAL;
        for (size_t i = 0; i < rota_broker_cluster_n_peers(cluster); i++)
            ask(settings, rota_broker_cluster_peer(cluster, i));
    }
    bool was_on_hold = settings->hold_until != 0;
    settle(settings, now);
    return was_on_hold && settings->hold_until == 0;
}

rota_time rota_work_broker_settings_deadline(const struct rota_broker_settings *settings)
{
    if (!settings)
        return ROTA_TIME_NEVER;
    if (!settings->hold_until)
        return settings->ask_at;
    rota_time until = settings->hold_until;
    if (settings->answers_until)
        until = rota_time_min(until, settings->answers_until);
    return rota_time_min(until, settings->ask_at);
}

/* --- life --- */

enum rota_code rota_work_broker_settings_open(struct rota_work_broker *broker,
                                              struct rota_error *error)
{
    struct rota_broker_settings *made = calloc(1, sizeof *made);
    struct rota_work_now now = rota_work_broker_now();
    if (!made)
        return rota_error_set(error, ROTA_ERR_NO_MEMORY, "no memory to ask other nodes");
    made->broker = broker;
    made->subscriber = (struct rota_broker_cluster_subscriber){.on_route = on_route, .data = made};
    made->hold_until = now.boot + HOLD_MAX;
    rota_list_init(&made->askings);
    rota_broker_cluster_subscribe(broker->cluster, &made->subscriber);
    rota_broker_hold(broker->core, now, true);
    broker->settings = made;
    return ROTA_OK;
}

void rota_work_broker_settings_close(struct rota_broker_settings *settings)
{
    struct rota_list_node *link;
    if (!settings)
        return;
    while ((link = rota_list_first(&settings->askings)))
        end(ROTA_LIST_ITEM(link, struct asking, link));
    rota_broker_cluster_unsubscribe(&settings->subscriber);
    free(settings);
}
