#include "run/connector/connector_inside.h"

#include "io/clock.h"

#include <assert.h>
#include <stdlib.h>

/* It leaves with the others of this turn. */
static void post_letter(struct rota_connector *connector, struct rota_letter *letter)
{
    rota_mailbox_letters_add(&connector->news, letter);
}

/* The mailbox is unbounded, so each kind of letter has a bound. */
void rota_connector_news_tell_all(struct rota_connector *connector)
{
    enum rota_code code = rota_mailbox_post_all(connector->consumer, &connector->news);
    assert(!code);
    (void)code;
}

static bool is_told(const struct rota_connector *connector, bool is_cancelled)
{
    return !is_cancelled && !atomic_load(&connector->is_closed);
}

/* --- sessions --- */

/* On the consumer. */
static void done_up(struct rota_letter *letter, bool is_cancelled)
{
    struct rota_connector_news *news = ROTA_CONTAINER(letter, struct rota_connector_news, up);
    struct rota_connector *connector = news->connector;
    struct rota_connector_peer *peer = news->peer;
    if (!is_told(connector, is_cancelled))
        return;
    if (connector->broker) { /* which outlives its sessions */
        atomic_store(&peer->session, news->session);
        atomic_store(&peer->epoch, news->epoch);
        atomic_store(&peer->told_stamp, news->stamp);
    }
    if (connector->options.on_connected)
        connector->options.on_connected(connector->options.data, peer);
}

static void done_down(struct rota_letter *letter, bool is_cancelled)
{
    struct rota_connector_news *news = ROTA_CONTAINER(letter, struct rota_connector_news, down);
    struct rota_connector *connector = news->connector;
    atomic_store(&news->peer->told_stamp, 0);
    if (is_told(connector, is_cancelled) && connector->options.on_disconnected)
        connector->options.on_disconnected(connector->options.data, news->peer, &news->why);
    atomic_fetch_sub(&connector->n_places, 1);
    rota_connector_peer_unref(news->peer);
    free(news);
}

struct rota_connector_news *rota_connector_news_new(struct rota_connector *connector,
                                                    struct rota_connector_peer *peer)
{
    if (atomic_load(&connector->n_places) >= connector->places_max)
        return NULL;
    struct rota_connector_news *news = calloc(1, sizeof *news);
    if (!news)
        return NULL;
    atomic_fetch_add(&connector->n_places, 1);
    news->up.done = done_up;
    news->down.done = done_down;
    news->connector = connector;
    news->peer = rota_connector_peer_ref(peer);
    return news;
}

void rota_connector_news_tell_up(struct rota_connector_news *news)
{
    struct rota_connector *connector = news->connector;
    rota_count(&connector->counters.n_sessions, 1);
    atomic_fetch_add(&connector->counters.n_peers, 1);
    rota_log(connector->options.log, rota_clock_wall(), ROTA_LOG_INFO, "session started",
             ROTA_LOG_FACT("peer", rota_connector_peer_name(news->peer)),
             ROTA_LOG_FACT("session", news->session), ROTA_LOG_FACT("epoch", news->epoch));
    post_letter(connector, &news->up);
}

void rota_connector_news_tell_down(struct rota_connector_news *news, const struct rota_error *why)
{
    struct rota_connector *connector = news->connector;
    news->why = *why;
    rota_count(&connector->counters.n_lost, 1);
    atomic_fetch_sub(&connector->counters.n_peers, 1);
    rota_log(connector->options.log, rota_clock_wall(), ROTA_LOG_INFO, "session ended",
             ROTA_LOG_FACT("peer", rota_connector_peer_name(news->peer)),
             ROTA_LOG_FACT("session", news->session), ROTA_LOG_FACT("reason", why->text));
    post_letter(connector, &news->down);
}

/* --- other news --- */

static void done_retry(struct rota_letter *letter, bool is_cancelled)
{
    struct rota_connector *connector = ROTA_CONTAINER(letter, struct rota_connector, retry);
    struct rota_error why = connector->retry_error;
    rota_time wait = connector->retry_wait;
    atomic_store(&connector->is_retry_told, true);
    if (is_told(connector, is_cancelled) && connector->options.on_retry)
        connector->options.on_retry(connector->options.data, &why, wait);
}

/* When the last one was not delivered yet, this one is only counted. */
void rota_connector_news_tell_retry(struct rota_connector *connector, const struct rota_error *why,
                                    rota_time wait)
{
    rota_count(&connector->counters.n_retries, 1);
    rota_log(connector->options.log, rota_clock_wall(), ROTA_LOG_WARN, "no session",
             ROTA_LOG_FACT("peer", rota_connector_peer_name(connector->broker)),
             ROTA_LOG_FACT("reason", why->text), ROTA_LOG_SPAN("wait", wait));
    if (!atomic_exchange(&connector->is_retry_told, false))
        return;
    connector->retry_error = *why;
    connector->retry_wait = wait;
    connector->retry.done = done_retry;
    post_letter(connector, &connector->retry);
}

static void done_room(struct rota_letter *letter, bool is_cancelled)
{
    struct rota_connector_peer *peer = ROTA_CONTAINER(letter, struct rota_connector_peer, room);
    struct rota_connector *connector = peer->connector;
    atomic_store(&peer->is_room_told, true);
    if (is_told(connector, is_cancelled) && connector->options.on_room &&
        atomic_load(&peer->told_stamp))
        connector->options.on_room(connector->options.data, peer);
    rota_connector_peer_unref(peer);
}

/* Also called for messages that are returned after the end, when there is no consumer to notify. */
void rota_connector_news_tell_room(struct rota_connector_peer *peer)
{
    if (atomic_load(&peer->connector->is_closed) || !atomic_exchange(&peer->is_room_told, false))
        return;
    peer->room.done = done_room;
    rota_connector_peer_ref(peer);
    post_letter(peer->connector, &peer->room);
}

/* --- messages --- */

struct arrival {
    struct rota_letter letter;
    struct rota_connector *connector;
    struct rota_connector_peer *peer;       /* a reference */
    const struct rota_connector_type *type; /* NULL: no handler */
    struct rota_zmq_message message;
    size_t offset; /* of the body */
};

/* On the consumer: fewer wait now. */
static void settle_arrived(struct rota_connector *connector, size_t size)
{
    size_t bytes = atomic_fetch_sub(&connector->inbox_bytes, size) - size;
    size_t n = atomic_fetch_sub(&connector->n_inbox, 1) - 1;
    if (n <= connector->options.inbox_max / 2 && bytes <= connector->options.inbox_bytes / 2 &&
        atomic_exchange(&connector->wants_resume, false)) {
        enum rota_code code = rota_mailbox_post(connector->thread.mailbox, &connector->resume);
        assert(!code);
        (void)code;
    }
}

static void handle_arrival(const struct arrival *arrival)
{
    const struct rota_connector_options *options = &arrival->connector->options;
    struct rota_str frame = rota_zmq_message_str(&arrival->message);
    struct rota_str body = rota_str_of(frame.data + arrival->offset, frame.size - arrival->offset);
    if (arrival->type)
        arrival->type->on_message(arrival->type->data, arrival->peer, body);
    else if (options->on_unhandled)
        options->on_unhandled(options->data, arrival->peer,
                              rota_str_of(frame.data + 1, arrival->offset - 1), body);
}

/* A worker's message comes after the news of its session, so its handler knows of it. */
static void done_arrival(struct rota_letter *letter, bool is_cancelled)
{
    struct arrival *arrival = ROTA_CONTAINER(letter, struct arrival, letter);
    struct rota_connector *connector = arrival->connector;
    size_t size = rota_zmq_message_size(&arrival->message);
    if (is_told(connector, is_cancelled))
        handle_arrival(arrival);
    if (is_told(connector, is_cancelled))
        settle_arrived(connector, size);
    rota_zmq_message_deinit(&arrival->message);
    rota_connector_peer_unref(arrival->peer);
    free(arrival);
}

static bool post_arrival(struct rota_connector *connector, struct rota_connector_peer *peer,
                         const struct rota_connector_type *type, size_t offset,
                         struct rota_zmq_message *message)
{
    struct arrival *arrival = malloc(sizeof *arrival);
    if (!arrival) {
        rota_zmq_message_deinit(message);
        return false;
    }
    *arrival = (struct arrival){
        .letter = {.done = done_arrival},
        .connector = connector,
        .peer = rota_connector_peer_ref(peer),
        .type = type,
        .offset = offset,
    };
    rota_zmq_message_move(&arrival->message, message);
    atomic_fetch_add(&connector->n_inbox, 1);
    atomic_fetch_add(&connector->inbox_bytes, rota_zmq_message_size(&arrival->message));
    post_letter(connector, &arrival->letter);
    return true;
}

bool rota_connector_news_dispatch(struct rota_connector *connector,
                                  struct rota_connector_peer *peer, struct rota_str type,
                                  struct rota_str body, struct rota_zmq_message *message)
{
    const struct rota_connector_type *known = rota_map_get(&connector->types_by_name, type);
    size_t offset = rota_worker_head_size(type);
    if (known && known->on_message && known->is_async)
        return post_arrival(connector, peer, known, offset, message);
    if (known && known->on_message) {
        known->on_message(known->data, peer, body);
        rota_zmq_message_deinit(message);
        return true;
    }
    rota_count(&connector->counters.n_unhandled, 1);
    rota_log(connector->options.log, rota_clock_wall(), ROTA_LOG_DEBUG, "message not handled",
             ROTA_LOG_FACT("peer", rota_connector_peer_name(peer)), ROTA_LOG_FACT("type", type));
    if (connector->options.on_unhandled)
        return post_arrival(connector, peer, NULL, offset, message);
    rota_zmq_message_deinit(message);
    return true;
}

/* The flag is raised before the last check, and the consumer lowers the numbers before it checks
 * the flag: one of the two sees the other. */
bool rota_connector_news_is_behind(struct rota_connector *connector)
{
    if (connector->is_paused)
        return true;
    if (atomic_load(&connector->n_inbox) < connector->options.inbox_max &&
        atomic_load(&connector->inbox_bytes) < connector->options.inbox_bytes)
        return false;
    rota_count(&connector->counters.n_pauses, 1);
    connector->is_paused = true;
    atomic_store(&connector->wants_resume, true);
    if (atomic_load(&connector->n_inbox) <= connector->options.inbox_max / 2 &&
        atomic_load(&connector->inbox_bytes) <= connector->options.inbox_bytes / 2 &&
        atomic_exchange(&connector->wants_resume, false))
        connector->is_paused = false;
    return connector->is_paused;
}
