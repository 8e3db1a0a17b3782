#include "run/connector/connector_inside.h"

#include "io/clock.h"

#include <stdlib.h>

/* A try: another connection and another epoch. */
static void open_another(struct rota_connector *connector)
{
    struct rota_connector_peer *peer = connector->broker;
    struct rota_zmq_options options = {
        .endpoint = connector->endpoint,
        .message_max = connector->options.message_max,
        .high_water = ROTA_CONNECTOR_HIGH_WATER,
        .handshake_timeout = connector->join.timeout,
    };
    if (connector->keys.is_on) {
        options.public_key = &connector->keys.public_key;
        options.secret_key = &connector->keys.secret_key;
        options.broker_key = &connector->keys.broker_key;
    }
    rota_error_set(&connector->join_error, ROTA_ERR_UNAVAILABLE, "no welcome in time");
    if (rota_zmq_connect(connector->zmq, &options, &connector->socket, &connector->join_error) ||
        rota_connector_socket_watch(connector, &connector->join_error)) {
        rota_connector_socket_unwatch(connector, 0);
        return; /* and the try runs out of time */
    }
    struct rota_worker_hello hello = {
        .version = ROTA_WORKER_PROTOCOL_VERSION,
        .name = rota_str(connector->options.name),
        .epoch = connector->join.epoch,
    };
    peer->stamp = connector->join.epoch;
    rota_buffer_clear(&connector->scratch);
    rota_worker_frame_hello_write(&hello, &connector->scratch);
    rota_connector_socket_say(connector, peer, ROTA_WORKER_HELLO,
                              rota_buffer_str(&connector->scratch));
}

static void close_connection(struct rota_connector *connector)
{
    connector->broker->stamp = 0;
    rota_connector_socket_drop_queue(connector, connector->broker);
    rota_connector_socket_unwatch(connector, 0);
}

static void tell_up(struct rota_connector *connector)
{
    struct rota_connector_news *news = connector->broker->news;
    news->stamp = connector->broker->stamp;
    news->session = connector->session;
    news->epoch = connector->join.epoch;
    rota_connector_news_tell_up(news);
}

static void tell_down(struct rota_connector *connector)
{
    rota_connector_news_tell_down(connector->broker->news, &connector->join_error);
    connector->broker->news = NULL;
}

static void drive(struct rota_connector *connector, struct rota_join_event event)
{
    struct rota_join_actions todo = rota_join_fsm_step(&connector->join, rota_clock_mono(), &event);
    if (todo.is_silent && todo.tell_down)
        rota_error_set(&connector->join_error, ROTA_ERR_UNAVAILABLE, "no heartbeat for too long");
    if (todo.tell_down)
        tell_down(connector);
    if (todo.tell_failed)
        rota_connector_news_tell_retry(connector, &connector->join_error, todo.wait);
    if (todo.close)
        close_connection(connector);
    if (todo.open)
        open_another(connector);
    if (todo.tell_up)
        tell_up(connector);
    if (todo.beat && !connector->broker->first)
        rota_connector_socket_say(connector, connector->broker, ROTA_WORKER_BEAT, rota_str(""));
}

static void lose_broker(struct rota_connector *connector, const struct rota_error *why)
{
    connector->join_error = *why;
    drive(connector, (struct rota_join_event){.type = ROTA_JOIN_LOST});
}

/* --- messages --- */

static void on_welcome(struct rota_connector *connector, struct rota_str body)
{
    struct rota_worker_welcome welcome;
    struct rota_error why;
    if (rota_worker_frame_welcome_read(body, &welcome, &why)) {
        rota_count(&connector->counters.n_malformed, 1);
        lose_broker(connector, &why);
        return;
    }
    if (connector->join.state == ROTA_JOIN_JOINING) {
        connector->broker->news = rota_connector_news_new(connector, connector->broker);
        if (!connector->broker->news) {
            rota_error_set(&why, ROTA_ERR_LIMIT,
                           "the application has not processed the previous sessions yet");
            lose_broker(connector, &why);
            return;
        }
    }
    connector->session = welcome.session;
    drive(connector, (struct rota_join_event){.type = ROTA_JOIN_WELCOME, .beat = welcome.beat});
}

static void on_bye(struct rota_connector *connector, struct rota_str body)
{
    struct rota_worker_bye bye;
    struct rota_error why;
    if (!rota_worker_frame_bye_read(body, &bye, &why)) {
        struct rota_str text =
            bye.text.size ? bye.text : rota_str(rota_worker_frame_bye_text(bye.reason));
        enum rota_code code = bye.reason == ROTA_BYE_REPLACED || bye.reason == ROTA_BYE_STALE
                                  ? ROTA_ERR_STALE
                                  : ROTA_ERR_UNAVAILABLE;
        rota_error_set(&why, code, "the broker ended the session: %.*s", ROTA_STR_ARGS(text));
    }
    lose_broker(connector, &why);
}

static void take_malformed(struct rota_connector *connector, const struct rota_zmq_route *route,
                           const struct rota_error *why)
{
    (void)route;
    rota_connector_socket_say_bye(connector, rota_str(""), ROTA_BYE_MALFORMED, why->text);
    lose_broker(connector, why);
}

static void take_message(struct rota_connector *connector, const struct rota_zmq_route *route,
                         struct rota_zmq_message *message)
{
    struct rota_str type, body;
    struct rota_error why;
    if (rota_worker_frame_parse(rota_zmq_message_str(message), &type, &body, &why)) {
        rota_count(&connector->counters.n_malformed, 1);
        take_malformed(connector, route, &why);
        rota_zmq_message_deinit(message);
        return;
    }
    drive(connector, (struct rota_join_event){.type = ROTA_JOIN_HEARD});
    bool is_joined = connector->join.state == ROTA_JOIN_JOINED;
    if (rota_str_is_equal(type, rota_str(ROTA_WORKER_WELCOME)))
        on_welcome(connector, body);
    else if (rota_str_is_equal(type, rota_str(ROTA_WORKER_BYE)))
        on_bye(connector, body);
    else if (!is_joined)
        rota_count(&connector->counters.n_strangers, 1);
    else if (!rota_str_is_equal(type, rota_str(ROTA_WORKER_BEAT))) {
        if (!rota_connector_news_dispatch(connector, connector->broker, type, body, message)) {
            rota_error_no_memory(&why, "for the messages of a connection");
            lose_broker(connector, &why);
        }
        return;
    }
    rota_zmq_message_deinit(message);
}

/* --- other events --- */

static void on_sent(struct rota_connector *connector, struct rota_connector_peer *peer)
{
    (void)peer;
    drive(connector, (struct rota_join_event){.type = ROTA_JOIN_SENT});
}

static void on_broker_gone(struct rota_connector *connector, struct rota_connector_peer *peer,
                           const struct rota_error *why)
{
    (void)peer;
    lose_broker(connector, why);
}

static void on_event(struct rota_connector *connector, enum rota_zmq_event event,
                     const struct rota_error *why)
{
    if (event == ROTA_ZMQ_FAILED || event == ROTA_ZMQ_DISCONNECTED)
        lose_broker(connector, why);
}

static void tick(struct rota_connector *connector, rota_time now, bool is_drained)
{
    (void)now;
    drive(connector, (struct rota_join_event){
                         .type = ROTA_JOIN_TICK,
                         .is_drained = is_drained,
                         .wall = rota_clock_wall(),
                     });
}

static rota_time join_deadline(const struct rota_connector *connector)
{
    return rota_join_fsm_deadline(&connector->join);
}

static void drop_broker(struct rota_connector *connector, struct rota_connector_peer *peer,
                        enum rota_worker_bye_reason reason, const struct rota_error *why)
{
    (void)peer;
    rota_connector_socket_say_bye(connector, rota_str(""), reason, why->text);
    lose_broker(connector, why);
}

/* A hello that waits for a connection is not worth waiting for. */
static bool say_goodbye(struct rota_connector *connector)
{
    struct rota_worker_bye bye = {ROTA_BYE_STOPPING, rota_str("")};
    if (connector->join.state != ROTA_JOIN_JOINED) {
        rota_connector_socket_drop_queue(connector, connector->broker);
        return false;
    }
    rota_buffer_clear(&connector->scratch);
    rota_worker_frame_bye_write(&bye, &connector->scratch);
    rota_connector_socket_say(connector, connector->broker, ROTA_WORKER_BYE,
                              rota_buffer_str(&connector->scratch));
    return true;
}

/* The caller closes the socket, after some time. */
static void end_all(struct rota_connector *connector)
{
    struct rota_join_event stop = {.type = ROTA_JOIN_STOP};
    struct rota_join_actions todo = rota_join_fsm_step(&connector->join, rota_clock_mono(), &stop);
    rota_error_set(&connector->join_error, ROTA_ERR_UNAVAILABLE, "the worker is stopping");
    connector->broker->stamp = 0;
    rota_connector_socket_drop_queue(connector, connector->broker);
    if (todo.tell_down)
        tell_down(connector);
}

const struct rota_connector_side rota_connector_worker_side = {
    .take = take_message,
    .take_malformed = take_malformed,
    .on_sent = on_sent,
    .on_gone = on_broker_gone,
    .on_event = on_event,
    .tick = tick,
    .deadline = join_deadline,
    .drop = drop_broker,
    .say_goodbye = say_goodbye,
    .end_all = end_all,
};
