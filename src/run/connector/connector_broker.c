#include "run/connector/connector_inside.h"

#include "io/clock.h"

#include <stdlib.h>

static struct rota_connector_peer *peer_of(struct rota_session *session)
{
    return session ? ROTA_CONTAINER(session, struct rota_connector_peer, in_table) : NULL;
}

static struct rota_str route_str(const struct rota_zmq_route *route)
{
    return rota_str_of(route->bytes, route->size);
}

/* The session is over: its queue is dropped, and the consumer is notified. Drops the table's
 * reference. */
static void end_session(struct rota_connector *connector, struct rota_connector_peer *peer,
                        bool is_in_order, const struct rota_error *why)
{
    peer->how = is_in_order ? ROTA_SESSION_LEFT
                            : rota_sessions_judge_end(&connector->sessions, &peer->in_table,
                                                      rota_clock_mono());
    rota_sessions_remove(&connector->sessions, &peer->in_table);
    peer->stamp = 0;
    atomic_store(&peer->told_stamp, 0);
    rota_connector_socket_drop_queue(connector, peer);
    rota_connector_news_tell_down(peer->news, why);
    rota_connector_peer_unref(peer);
}

/* The same, with a reason for the worker. */
static void dismiss_worker(struct rota_connector *connector, struct rota_connector_peer *peer,
                           enum rota_worker_bye_reason reason, const struct rota_error *why)
{
    bool is_in_order = reason != ROTA_BYE_REPLACED && reason != ROTA_BYE_SILENT;
    rota_connector_socket_say_bye(connector, route_str(&peer->route), reason, why->text);
    end_session(connector, peer, is_in_order, why);
}

/* --- guests --- */

static void forget_guest(struct rota_connector *connector, int fd)
{
    struct rota_connector_guest *guests = connector->guests.items;
    size_t n = 0;
    for (size_t i = 0; i < connector->guests.size; i++)
        if (guests[i].fd != fd)
            guests[n++] = guests[i];
    connector->guests.size = n;
}

static void cut_guest(struct rota_connector *connector, int fd, const char *why)
{
    rota_zmq_cut(connector->socket, fd);
    forget_guest(connector, fd);
    rota_count(&connector->counters.n_turned_away, 1);
    if (rota_connector_lines_may_log(connector, ROTA_CONNECTOR_LINE_TURNED_AWAY))
        rota_log(connector->options.log, rota_clock_wall(), ROTA_LOG_WARN, "worker rejected",
                 ROTA_LOG_FACT("name", ""), ROTA_LOG_FACT("reason", why));
}

/* Without memory for one, the connection stays unnoticed. */
static void add_guest(struct rota_connector *connector, int fd)
{
    rota_time now = rota_clock_mono();
    struct rota_connector_guest guest = {fd, now};
    forget_guest(connector, fd);
    if (connector->guests.size == ROTA_CONNECTOR_GUESTS_MAX)
        cut_guest(connector, connector->guests.items[0].fd, "too many connections without a hello");
    if (rota_vector_push(&connector->guests, guest) && !connector->guests_at)
        connector->guests_at = now + ROTA_CONNECTOR_GUEST_LOOK;
}

/* The memory of a connection is freed when it is cut, and returned to the system a little later. */
static void look_at_guests(struct rota_connector *connector, rota_time now)
{
    if (!connector->guests_at || now < connector->guests_at)
        return;
    for (size_t i = connector->guests.size; i-- > 0;) {
        struct rota_connector_guest guest = connector->guests.items[i];
        if (rota_zmq_received(connector->socket, guest.fd) > ROTA_CONNECTOR_GUEST_BYTES)
            cut_guest(connector, guest.fd, "too many bytes before the hello");
        else if (now - guest.since >= ROTA_CONNECTOR_GUEST_TIME)
            cut_guest(connector, guest.fd, "no hello in time");
    }
    connector->guests_at = connector->guests.size > 0 ? now + ROTA_CONNECTOR_GUEST_LOOK : 0;
}

/* --- hello --- */

static struct rota_connector_peer *make_peer(struct rota_connector *connector,
                                             const struct rota_zmq_route *route,
                                             const struct rota_worker_hello *hello)
{
    struct rota_connector_peer *peer = rota_connector_peer_new(connector, hello->name);
    if (!peer)
        return NULL;
    peer->route = *route;
    peer->in_table.route = route_str(&peer->route);
    peer->in_table.name = rota_connector_peer_name(peer);
    peer->in_table.epoch = hello->epoch;
    peer->news = rota_connector_news_new(connector, peer);
    if (!peer->news) {
        rota_connector_peer_unref(peer);
        return NULL;
    }
    if (!rota_sessions_add(&connector->sessions, &peer->in_table, rota_clock_mono())) {
        rota_connector_peer_unref(peer->news->peer);
        free(peer->news);
        atomic_fetch_sub(&connector->n_places, 1);
        rota_connector_peer_unref(peer);
        return NULL;
    }
    return peer;
}

static void welcome_worker(struct rota_connector *connector, struct rota_connector_peer *peer)
{
    struct rota_worker_welcome words = {
        .version = ROTA_WORKER_PROTOCOL_VERSION,
        .session = peer->in_table.number,
        .beat = connector->sessions.beat,
        .message_max = connector->options.message_max,
    };
    peer->stamp = 1;
    atomic_store(&peer->session, peer->in_table.number);
    atomic_store(&peer->epoch, peer->in_table.epoch);
    atomic_store(&peer->told_stamp, peer->stamp);
    peer->news->session = peer->in_table.number;
    peer->news->epoch = peer->in_table.epoch;
    rota_connector_news_tell_up(peer->news);
    rota_buffer_clear(&connector->scratch);
    rota_worker_frame_welcome_write(&words, &connector->scratch);
    rota_connector_socket_say(connector, peer, ROTA_WORKER_WELCOME,
                              rota_buffer_str(&connector->scratch));
}

static void reject_worker(struct rota_connector *connector, const struct rota_zmq_route *route,
                          struct rota_str name, enum rota_worker_bye_reason reason,
                          const char *text)
{
    rota_count(&connector->counters.n_turned_away, 1);
    if (rota_connector_lines_may_log(connector, ROTA_CONNECTOR_LINE_TURNED_AWAY))
        rota_log(connector->options.log, rota_clock_wall(), ROTA_LOG_WARN, "worker rejected",
                 ROTA_LOG_FACT("name", name), ROTA_LOG_FACT("reason", text));
    rota_connector_socket_say_bye(connector, route_str(route), reason, text);
}

static void come_in(struct rota_connector *connector, const struct rota_zmq_route *route,
                    const struct rota_worker_hello *hello)
{
    struct rota_session *replaced = NULL;
    struct rota_connector_peer *peer;
    struct rota_error why;
    switch (rota_sessions_judge(&connector->sessions, hello->name, hello->epoch, &replaced)) {
    case ROTA_SESSION_STALE:
        reject_worker(connector, route, hello->name, ROTA_BYE_STALE,
                      rota_worker_frame_bye_text(ROTA_BYE_STALE));
        return;
    case ROTA_SESSION_FULL:
        reject_worker(connector, route, hello->name, ROTA_BYE_FULL,
                      rota_worker_frame_bye_text(ROTA_BYE_FULL));
        return;
    case ROTA_SESSION_NEW:
        break;
    }
    if (replaced) {
        rota_error_set(&why, ROTA_ERR_STALE, "replaced by another session with this name");
        dismiss_worker(connector, peer_of(replaced), ROTA_BYE_REPLACED, &why);
    }
    peer = make_peer(connector, route, hello);
    if (peer)
        welcome_worker(connector, peer);
    else
        reject_worker(connector, route, hello->name, ROTA_BYE_FULL,
                      rota_worker_frame_bye_text(ROTA_BYE_FULL));
}

static void on_hello(struct rota_connector *connector, const struct rota_zmq_route *route,
                     struct rota_connector_peer *former, struct rota_str body,
                     const struct rota_zmq_message *message)
{
    struct rota_str user = rota_zmq_message_user(message);
    struct rota_worker_hello hello;
    struct rota_error why;
    if (former) { /* on this very connection */
        rota_error_set(&why, ROTA_ERR_STALE, "a second hello");
        end_session(connector, former, false, &why);
    }
    enum rota_code code = rota_worker_frame_hello_read(body, &hello, &why);
    if (code) {
        bool is_foreign = code == ROTA_ERR_UNAVAILABLE;
        rota_count(&connector->counters.n_malformed, !is_foreign);
        reject_worker(connector, route, rota_str(""),
                      is_foreign ? ROTA_BYE_UNSUPPORTED : ROTA_BYE_MALFORMED, why.text);
    } else if (connector->keys.is_on && !rota_str_is_equal(user, hello.name)) {
        reject_worker(connector, route, hello.name, ROTA_BYE_NOT_ALLOWED,
                      rota_worker_frame_bye_text(ROTA_BYE_NOT_ALLOWED));
    } else {
        come_in(connector, route, &hello);
        if (rota_sessions_find(&connector->sessions, route_str(route)))
            forget_guest(connector, rota_zmq_message_fd(message));
    }
}

/* --- other messages --- */

static void on_bye(struct rota_connector *connector, struct rota_connector_peer *peer,
                   struct rota_str body)
{
    struct rota_worker_bye bye;
    struct rota_error why;
    if (!rota_worker_frame_bye_read(body, &bye, &why))
        rota_error_set(&why, ROTA_ERR_UNAVAILABLE, "it ended the session: %s%s%.*s",
                       rota_worker_frame_bye_text(bye.reason), bye.text.size ? ": " : "",
                       ROTA_STR_ARGS(bye.text));
    end_session(connector, peer, true, &why);
}

static void hand_on(struct rota_connector *connector, struct rota_connector_peer *peer,
                    struct rota_str type, struct rota_str body, struct rota_zmq_message *message)
{
    struct rota_error why;
    rota_sessions_heard(&connector->sessions, &peer->in_table, rota_clock_mono());
    if (rota_str_is_equal(type, rota_str(ROTA_WORKER_BEAT))) {
        rota_zmq_message_deinit(message);
    } else if (rota_str_is_equal(type, rota_str(ROTA_WORKER_BYE))) {
        on_bye(connector, peer, body);
        rota_zmq_message_deinit(message);
    } else if (!rota_connector_news_dispatch(connector, peer, type, body, message)) {
        rota_error_no_memory(&why, "for the messages of a connection");
        dismiss_worker(connector, peer, ROTA_BYE_FULL, &why);
    }
}

static void take_malformed(struct rota_connector *connector, const struct rota_zmq_route *route,
                           const struct rota_error *why)
{
    struct rota_connector_peer *peer =
        peer_of(rota_sessions_find(&connector->sessions, route_str(route)));
    if (rota_connector_lines_may_log(connector, ROTA_CONNECTOR_LINE_MALFORMED))
        rota_log(connector->options.log, rota_clock_wall(), ROTA_LOG_WARN, "malformed message",
                 ROTA_LOG_FACT("peer", peer ? rota_connector_peer_name(peer) : rota_str("")),
                 ROTA_LOG_FACT("reason", why->text));
    if (peer)
        dismiss_worker(connector, peer, ROTA_BYE_MALFORMED, why);
    else
        rota_connector_socket_say_bye(connector, route_str(route), ROTA_BYE_MALFORMED, why->text);
}

static void take_message(struct rota_connector *connector, const struct rota_zmq_route *route,
                         struct rota_zmq_message *message)
{
    struct rota_connector_peer *peer =
        peer_of(rota_sessions_find(&connector->sessions, route_str(route)));
    struct rota_str type, body;
    struct rota_error why;
    if (rota_worker_frame_parse(rota_zmq_message_str(message), &type, &body, &why)) {
        rota_count(&connector->counters.n_malformed, 1);
        take_malformed(connector, route, &why);
        rota_zmq_message_deinit(message);
    } else if (rota_str_is_equal(type, rota_str(ROTA_WORKER_HELLO))) {
        on_hello(connector, route, peer, body, message);
        rota_zmq_message_deinit(message);
    } else if (peer) {
        hand_on(connector, peer, type, body, message);
    } else {
        rota_count(&connector->counters.n_strangers, 1);
        if (!rota_str_is_equal(type, rota_str(ROTA_WORKER_BYE)))
            rota_connector_socket_say_bye(connector, route_str(route), ROTA_BYE_NO_SESSION,
                                          rota_worker_frame_bye_text(ROTA_BYE_NO_SESSION));
        rota_zmq_message_deinit(message);
    }
}

/* --- other events --- */

static void on_sent(struct rota_connector *connector, struct rota_connector_peer *peer)
{
    if (peer->stamp)
        rota_sessions_sent(&connector->sessions, &peer->in_table, rota_clock_mono());
}

static void on_worker_gone(struct rota_connector *connector, struct rota_connector_peer *peer,
                           const struct rota_error *why)
{
    if (peer->stamp)
        end_session(connector, peer, false, why);
}

/* The event does not name the session; a session whose connection is closed is found by the
 * next message to it, a heartbeat at the latest. */
static void on_event(struct rota_connector *connector, enum rota_zmq_event event,
                     const struct rota_error *why)
{
    if (event == ROTA_ZMQ_ACCEPTED)
        add_guest(connector, rota_zmq_event_fd(connector->socket));
    else if (event == ROTA_ZMQ_DISCONNECTED)
        forget_guest(connector, rota_zmq_event_fd(connector->socket));
    if (event == ROTA_ZMQ_FAILED && why->code == ROTA_ERR_INVALID &&
        rota_connector_lines_may_log(connector, ROTA_CONNECTOR_LINE_REFUSED))
        rota_log(connector->options.log, rota_clock_wall(), ROTA_LOG_WARN, "connection rejected",
                 ROTA_LOG_FACT("reason", why->text));
}

static void tick(struct rota_connector *connector, rota_time now, bool is_drained)
{
    struct rota_session *session;
    struct rota_error why;
    rota_connector_lines_tick(connector, now);
    if (is_drained)
        look_at_guests(connector, now);
    if (is_drained && rota_sessions_listened(&connector->sessions, now))
        while ((session = rota_sessions_next_dead(&connector->sessions, now))) {
            rota_error_set(&why, ROTA_ERR_UNAVAILABLE, "no heartbeat for too long");
            dismiss_worker(connector, peer_of(session), ROTA_BYE_SILENT, &why);
        }
    while ((session = rota_sessions_next_heartbeat(&connector->sessions, now))) {
        struct rota_connector_peer *peer = peer_of(session);
        rota_sessions_sent(&connector->sessions, session, now);
        if (!peer->first) /* pending messages are heartbeats, too, when they leave */
            rota_connector_socket_say(connector, peer, ROTA_WORKER_BEAT, rota_str(""));
    }
}

static rota_time sessions_deadline(const struct rota_connector *connector)
{
    rota_time at = rota_time_min(rota_sessions_deadline(&connector->sessions),
                                 rota_connector_lines_deadline(connector));
    return connector->guests_at ? rota_time_min(at, connector->guests_at) : at;
}

static void drop_worker(struct rota_connector *connector, struct rota_connector_peer *peer,
                        enum rota_worker_bye_reason reason, const struct rota_error *why)
{
    if (peer->stamp)
        dismiss_worker(connector, peer, reason, why);
}

/* Workers that answer too slowly get no goodbye, and time out. */
static bool say_goodbye(struct rota_connector *connector)
{
    struct rota_worker_bye bye = {ROTA_BYE_STOPPING, rota_str("")};
    rota_buffer_clear(&connector->scratch);
    rota_worker_frame_bye_write(&bye, &connector->scratch);
    ROTA_LIST_EACH (session, &connector->sessions.by_heard, struct rota_session, by_heard)
        rota_connector_socket_say(connector, peer_of(session), ROTA_WORKER_BYE,
                                  rota_buffer_str(&connector->scratch));
    return true;
}

static void end_all(struct rota_connector *connector)
{
    struct rota_error why;
    rota_connector_lines_tick(connector, ROTA_TIME_NEVER);
    rota_error_set(&why, ROTA_ERR_UNAVAILABLE, "the broker is stopping");
    ROTA_LIST_DRAIN (session, &connector->sessions.by_heard, struct rota_session, by_heard)
        end_session(connector, peer_of(session), true, &why);
}

const struct rota_connector_side rota_connector_broker_side = {
    .take = take_message,
    .take_malformed = take_malformed,
    .on_sent = on_sent,
    .on_gone = on_worker_gone,
    .takes_events_early = true,
    .on_event = on_event,
    .tick = tick,
    .deadline = sessions_deadline,
    .drop = drop_worker,
    .say_goodbye = say_goodbye,
    .end_all = end_all,
};
