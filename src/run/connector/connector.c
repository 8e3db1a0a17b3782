#include <rota/experimental/connector.h>

#include "io/clock.h"
#include "run/connector/connector_inside.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { WORKER_PLACES = 4 }; /* sessions whose end the consumer has not received yet */

#define LINGER (1 * ROTA_SEC)

/* --- peers --- */

struct rota_connector_peer *rota_connector_peer_new(struct rota_connector *connector,
                                                    struct rota_str name)
{
    struct rota_connector_peer *peer = calloc(1, sizeof *peer);
    if (!peer)
        return NULL;
    atomic_store(&peer->n_refs, 1);
    atomic_store(&peer->is_room_told, true);
    peer->connector = connector;
    snprintf(peer->name, sizeof peer->name, "%.*s", ROTA_STR_ARGS(name));
    return peer;
}

struct rota_connector_peer *rota_connector_peer_ref(struct rota_connector_peer *peer)
{
    atomic_fetch_add_explicit(&peer->n_refs, 1, memory_order_relaxed);
    return peer;
}

void rota_connector_peer_unref(struct rota_connector_peer *peer)
{
    if (peer && atomic_fetch_sub(&peer->n_refs, 1) == 1)
        free(peer);
}

struct rota_str rota_connector_peer_name(const struct rota_connector_peer *peer)
{
    return rota_str(peer->name);
}

uint64_t rota_connector_peer_session(const struct rota_connector_peer *peer)
{
    return atomic_load(&peer->session);
}

uint64_t rota_connector_peer_epoch(const struct rota_connector_peer *peer)
{
    return atomic_load(&peer->epoch);
}

/* --- making one --- */

static char *copy_option(const char *text, bool *has_failed)
{
    char *copied = text ? strdup(text) : NULL;
    *has_failed |= text && !copied;
    return copied;
}

static void set_default(size_t *option, size_t value)
{
    if (*option == 0)
        *option = value;
}

static bool take_options(struct rota_connector *connector,
                         const struct rota_connector_options *options)
{
    struct rota_connector_options *own = &connector->options;
    bool has_failed = false;
    *own = *options;
    own->address = copy_option(options->address, &has_failed);
    own->name = copy_option(options->name, &has_failed);
    own->key_file = copy_option(options->key_file, &has_failed);
    own->workers_file = copy_option(options->workers_file, &has_failed);
    own->broker_key = copy_option(options->broker_key, &has_failed);
    set_default(&own->message_max, ROTA_CONNECTOR_MESSAGE_MAX);
    set_default(&own->queue_max, ROTA_CONNECTOR_QUEUE_MAX);
    set_default(&own->queue_bytes, ROTA_CONNECTOR_QUEUE_BYTES);
    set_default(&own->inbox_max, ROTA_CONNECTOR_INBOX_MAX);
    set_default(&own->inbox_bytes, ROTA_CONNECTOR_INBOX_BYTES);
    set_default(&own->workers_max, ROTA_CONNECTOR_WORKERS_MAX);
    if (own->linger == 0)
        own->linger = LINGER;
    return !has_failed;
}

static void free_texts(struct rota_connector_options *own)
{
    free((char *)own->address);
    free((char *)own->name);
    free((char *)own->key_file);
    free((char *)own->workers_file);
    free((char *)own->broker_key);
}

/* All threads have ended, or were never started. */
static void free_connector(struct rota_connector *connector)
{
    rota_connector_socket_unwatch(connector, 0);
    rota_zmq_close(connector->zmq);
    rota_sessions_deinit(&connector->sessions);
    rota_vector_deinit(&connector->guests);
    rota_connector_peer_unref(connector->broker);
    rota_connector_keys_close(&connector->keys);
    rota_buffer_deinit(&connector->scratch);
    for (size_t i = 0; i < connector->types.size; i++)
        free(connector->types.items[i]);
    rota_vector_deinit(&connector->types);
    rota_map_deinit(&connector->types_by_name);
    free_texts(&connector->options);
    free(connector);
}

static enum rota_code check_options(const struct rota_connector_options *options, bool is_broker,
                                    struct rota_error *error)
{
    if (!options->address)
        return rota_error_set(error, ROTA_ERR_INVALID, "a connector needs an address");
    if (options->interval < 0 || options->join_timeout < 0 || options->reconnect_first < 0 ||
        options->reconnect_max < 0 || options->linger < 0)
        return rota_error_set(error, ROTA_ERR_INVALID, "a duration is negative");
    if (options->interval &&
        (options->interval < ROTA_PEER_INTERVAL_MIN || options->interval > ROTA_PEER_INTERVAL_MAX))
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "the interval of the heartbeat must be from 10 ms to 10 min");
    if (options->missed_max > ROTA_PEER_MISSED_LIMIT)
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "%u missed heartbeats are too many; at most %d are allowed",
                              options->missed_max, ROTA_PEER_MISSED_LIMIT);
    if (is_broker)
        return ROTA_OK;
    return rota_worker_frame_name_check(rota_str(options->name ? options->name : ""), error);
}

/* Unpredictable, for numbers of sessions and seeds. */
static uint64_t random_seed(void)
{
    uint64_t value;
    if (uv_random(NULL, NULL, &value, sizeof value, 0, NULL) != 0)
        value = (uint64_t)rota_clock_wall() ^ (uint64_t)getpid() << 48;
    return value;
}

static enum rota_code open_broker(struct rota_connector *connector, struct rota_error *error)
{
    struct rota_zmq_options options = {
        .endpoint = connector->endpoint,
        .message_max = connector->options.message_max,
        .high_water = ROTA_CONNECTOR_HIGH_WATER,
        .handshake_timeout = 10 * ROTA_SEC,
    };
    struct rota_beat beat = {connector->options.interval, connector->options.missed_max};
    if (connector->keys.is_on) {
        options.public_key = &connector->keys.public_key;
        options.secret_key = &connector->keys.secret_key;
    }
    /* Numbers of two runs do not overlap: a random number of 2^32 sessions apart. */
    rota_sessions_init(&connector->sessions, beat, connector->options.workers_max,
                       random_seed() >> 1 & ~(uint64_t)UINT32_MAX, random_seed());
    connector->places_max = connector->options.workers_max + connector->options.workers_max / 2 + 8;
    enum rota_code code = rota_zmq_listen(connector->zmq, &options, &connector->socket, error);
    if (code)
        return code;
    const char *endpoint = rota_zmq_socket_endpoint(connector->socket);
    const char *scheme = strstr(endpoint, "://");
    snprintf(connector->address, sizeof connector->address, "%s", scheme ? scheme + 3 : endpoint);
    return ROTA_OK;
}

static enum rota_code open_worker(struct rota_connector *connector, struct rota_error *error)
{
    struct rota_join_options options = {
        .beat = {connector->options.interval, connector->options.missed_max},
        .timeout = connector->options.join_timeout,
        .wait_first = connector->options.reconnect_first,
        .wait_max = connector->options.reconnect_max,
        .seed = random_seed(),
    };
    rota_join_fsm_init(&connector->join, &options, rota_clock_mono());
    connector->places_max = WORKER_PLACES;
    connector->broker = rota_connector_peer_new(connector, rota_str(connector->address));
    if (!connector->broker)
        return rota_error_no_memory(error, "for a connector");
    return ROTA_OK;
}

/* One with its options, its keys and its address, that has no socket yet. */
static enum rota_code make_connector(const struct rota_connector_options *options,
                                     const struct rota_connector_side *side,
                                     struct rota_connector **connector, struct rota_error *error)
{
    bool is_broker = side == &rota_connector_broker_side;
    enum rota_code code = rota_zmq_check(error);
    if (!code)
        code = check_options(options, is_broker, error);
    if (code)
        return code;
    struct rota_connector *made = calloc(1, sizeof *made);
    if (!made)
        return rota_error_no_memory(error, "for a connector");
    made->side = side;
    atomic_store(&made->is_retry_told, true);
    rota_map_init(&made->types_by_name, random_seed());
    if (!take_options(made, options))
        code = rota_error_no_memory(error, "for a connector");
    if (!code)
        code = rota_connector_keys_open(made, is_broker, error);
    if (code) {
        free_connector(made);
        return code;
    }
    *connector = made;
    return ROTA_OK;
}

static enum rota_code open_side(const struct rota_connector_options *options,
                                const struct rota_connector_side *side,
                                struct rota_connector **connector, struct rota_error *error)
{
    bool is_broker = side == &rota_connector_broker_side;
    struct rota_connector *made;
    enum rota_code code = make_connector(options, side, &made, error);
    if (code)
        return code;
    code = is_broker ? rota_zmq_open(&made->zmq, error) : rota_zmq_share(&made->zmq, error);
    if (!code)
        code = (is_broker ? open_broker : open_worker)(made, error);
    if (code) {
        free_connector(made);
        return code;
    }
    *connector = made;
    return ROTA_OK;
}

enum rota_code rota_connector_check_broker(const struct rota_connector_options *options,
                                           struct rota_error *error)
{
    struct rota_connector *made;
    enum rota_code code = make_connector(options, &rota_connector_broker_side, &made, error);
    if (!code)
        free_connector(made);
    return code;
}

enum rota_code rota_connector_open_broker(const struct rota_connector_options *options,
                                          struct rota_connector **connector,
                                          struct rota_error *error)
{
    return open_side(options, &rota_connector_broker_side, connector, error);
}

enum rota_code rota_connector_open_worker(const struct rota_connector_options *options,
                                          struct rota_connector **connector,
                                          struct rota_error *error)
{
    return open_side(options, &rota_connector_worker_side, connector, error);
}

/* --- types --- */

static bool is_of_session(struct rota_str name)
{
    return rota_str_is_equal(name, rota_str(ROTA_WORKER_HELLO)) ||
           rota_str_is_equal(name, rota_str(ROTA_WORKER_WELCOME)) ||
           rota_str_is_equal(name, rota_str(ROTA_WORKER_BEAT)) ||
           rota_str_is_equal(name, rota_str(ROTA_WORKER_BYE));
}

enum rota_code rota_connector_register(struct rota_connector *connector, const char *name,
                                       uint32_t *type, struct rota_error *error)
{
    struct rota_str key = rota_str(name);
    for (size_t i = 0; i < connector->types.size; i++)
        if (strcmp(connector->types.items[i]->name, name) == 0) {
            *type = (uint32_t)i;
            return ROTA_OK;
        }
    if (connector->is_started || !rota_worker_frame_type_is_valid(key) || is_of_session(key))
        return rota_error_set(
            error, ROTA_ERR_INVALID,
            "\"%.80s\" cannot be a message type: use 1 to %d letters, digits, '.', '_' or '-', no "
            "reserved type, and register it before the connector starts",
            name, ROTA_CONNECTOR_TYPE_NAME_MAX);
    if (connector->types.size == ROTA_CONNECTOR_TYPES_MAX)
        return rota_error_set(error, ROTA_ERR_LIMIT, "more than %d message types",
                              ROTA_CONNECTOR_TYPES_MAX);
    struct rota_connector_type *made = calloc(1, sizeof *made);
    if (!made || !rota_vector_push(&connector->types, made)) {
        free(made);
        return rota_error_no_memory(error, "for a message type");
    }
    snprintf(made->name, sizeof made->name, "%s", name);
    if (!rota_map_put(&connector->types_by_name, rota_str(made->name), made)) {
        connector->types.size--;
        free(made);
        return rota_error_no_memory(error, "for a message type");
    }
    *type = (uint32_t)connector->types.size - 1;
    return ROTA_OK;
}

static enum rota_code set_handler(struct rota_connector *connector, uint32_t number,
                                  rota_connector_on_message *on_message, void *data, bool is_async,
                                  struct rota_error *error)
{
    if (connector->is_started || number >= connector->types.size)
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "a handler needs a registered message type and must be set before "
                              "the connector starts");
    struct rota_connector_type *type = connector->types.items[number];
    if (type->on_message)
        return rota_error_set(error, ROTA_ERR_INVALID, "%s already has a handler", type->name);
    type->on_message = on_message;
    type->data = data;
    type->is_async = is_async;
    return ROTA_OK;
}

enum rota_code rota_connector_register_handler(struct rota_connector *connector, uint32_t type,
                                               rota_connector_on_message *on_message, void *data,
                                               struct rota_error *error)
{
    return set_handler(connector, type, on_message, data, false, error);
}

enum rota_code rota_connector_register_handler_async(struct rota_connector *connector,
                                                     uint32_t type,
                                                     rota_connector_on_message *on_message,
                                                     void *data, struct rota_error *error)
{
    return set_handler(connector, type, on_message, data, true, error);
}

/* --- starting and ending --- */

static void on_consumer_closed(void *data)
{
    struct rota_connector *connector = data;
    void (*on_closed)(void *) = connector->on_closed;
    void *closed_data = connector->closed_data;
    free_connector(connector);
    if (on_closed)
        on_closed(closed_data);
}

/* The last letter of the socket thread. A consumer of our own ends with its mailbox, and the
 * thread that joins it does the rest. */
static void done_last(struct rota_letter *letter, bool is_cancelled)
{
    struct rota_connector *connector = ROTA_CONTAINER(letter, struct rota_connector, last);
    (void)is_cancelled;
    rota_connector_socket_thread_join(&connector->thread);
    if (connector->options.loop)
        rota_mailbox_close(connector->consumer, on_consumer_closed, connector);
    else
        rota_mailbox_close(connector->consumer, NULL, NULL);
}

/* On the consumer. */
static void begin_close(struct rota_connector *connector)
{
    atomic_store(&connector->is_closed, true);
    enum rota_code code = rota_mailbox_post(connector->thread.mailbox, &connector->stop);
    assert(!code);
    (void)code;
}

static void done_close(struct rota_letter *letter, bool is_cancelled)
{
    (void)is_cancelled;
    begin_close(ROTA_CONTAINER(letter, struct rota_connector, close));
}

static enum rota_code open_consumer(struct rota_connector *connector, struct rota_error *error)
{
    connector->last.done = done_last;
    connector->close.done = done_close;
    if (connector->options.loop)
        return rota_mailbox_open(connector->options.loop, SIZE_MAX, &connector->consumer, error);
    enum rota_code code =
        rota_connector_socket_thread_open(&connector->own, "rota-consumer", error);
    connector->consumer = connector->own.mailbox;
    return code;
}

/* Release what was opened and can't be started. */
static void abandon_connector(struct rota_connector *connector)
{
    for (size_t i = 0; i < ROTA_ZMQ_FDS_MAX; i++)
        if (connector->polls[i])
            uv_close((uv_handle_t *)connector->polls[i], (uv_close_cb)free);
    memset(connector->polls, 0, sizeof connector->polls);
    if (connector->judge_poll)
        uv_close((uv_handle_t *)connector->judge_poll, (uv_close_cb)free);
    connector->judge_poll = NULL;
    if (connector->thread.is_open) {
        uv_close((uv_handle_t *)&connector->prepare, NULL);
        uv_close((uv_handle_t *)&connector->idle, NULL);
        uv_close((uv_handle_t *)&connector->timer, NULL);
        rota_connector_socket_thread_abandon(&connector->thread);
    }
    if (connector->options.loop)
        rota_mailbox_close(connector->consumer, NULL, NULL);
    else
        rota_connector_socket_thread_abandon(&connector->own);
    connector->consumer = NULL;
}

static void done_abort(struct rota_letter *letter, bool is_cancelled)
{
    struct rota_connector *connector = ROTA_CONTAINER(letter, struct rota_connector, close);
    (void)is_cancelled;
    rota_mailbox_close(connector->own.mailbox, NULL, NULL);
}

/* The same with a consumer that runs already. */
static void abort_consumer(struct rota_connector *connector)
{
    if (connector->options.loop)
        return;
    connector->close.done = done_abort;
    rota_mailbox_post(connector->own.mailbox, &connector->close);
    rota_connector_socket_thread_join(&connector->own);
}

enum rota_code rota_connector_start(struct rota_connector *connector, struct rota_error *error)
{
    if (connector->is_started)
        return rota_error_set(error, ROTA_ERR_INVALID, "the connector has started already");
    enum rota_code code = open_consumer(connector, error);
    if (!code)
        code = rota_connector_socket_open(connector, error);
    if (!code && !connector->options.loop)
        code = rota_connector_socket_thread_start(&connector->own, error);
    if (code) {
        abandon_connector(connector);
        return code;
    }
    connector->is_started = true;
    code = rota_connector_socket_thread_start(&connector->thread, error);
    if (code) {
        connector->is_started = false;
        abort_consumer(connector);
        abandon_connector(connector);
    }
    return code;
}

void rota_connector_close(struct rota_connector *connector, void (*on_closed)(void *data),
                          void *data)
{
    if (!connector)
        return;
    connector->on_closed = on_closed;
    connector->closed_data = data;
    if (!connector->is_started) {
        on_consumer_closed(connector);
    } else if (connector->options.loop) {
        begin_close(connector);
    } else {
        enum rota_code code = rota_mailbox_post(connector->consumer, &connector->close);
        assert(!code);
        (void)code;
        rota_connector_socket_thread_join(&connector->own);
        on_consumer_closed(connector);
    }
}

/* --- sending --- */

/* A place in the peer's queue. The flag is raised before the last check, and the socket thread
 * lowers the numbers before it checks the flag: one of the two sees the other. */
static bool reserve_place(struct rota_connector *connector, struct rota_connector_peer *peer,
                          size_t size)
{
    const struct rota_connector_options *options = &connector->options;
    for (;;) {
        size_t n = atomic_fetch_add(&peer->n_queued, 1);
        size_t bytes = atomic_fetch_add(&peer->bytes_queued, size);
        if (n < options->queue_max && (n == 0 || bytes + size <= options->queue_bytes))
            return true;
        atomic_fetch_sub(&peer->bytes_queued, size);
        atomic_fetch_sub(&peer->n_queued, 1);
        atomic_store(&peer->was_refused, true);
        if (atomic_load(&peer->n_queued) > options->queue_max / 2 ||
            atomic_load(&peer->bytes_queued) > options->queue_bytes / 2 ||
            !atomic_exchange(&peer->was_refused, false))
            return false;
    }
}

/* By this thread. */
static _Thread_local const struct rota_connector *connector_held;

void rota_connector_hold(struct rota_connector *connector)
{
    assert(!connector_held);
    connector_held = connector;
}

void rota_connector_let_go(struct rota_connector *connector)
{
    assert(connector_held == connector);
    connector_held = NULL;
    enum rota_code code = rota_mailbox_post_all(connector->thread.mailbox, &connector->held);
    assert(!code);
    (void)code;
}

static enum rota_code check_send(struct rota_connector *connector, uint32_t type, size_t size,
                                 struct rota_error *error)
{
    if (type >= connector->types.size)
        return rota_error_set(error, ROTA_ERR_INVALID, "%u is not a message type", type);
    size_t all = rota_worker_head_size(rota_str(connector->types.items[type]->name)) + size;
    if (size > connector->options.message_max || all > connector->options.message_max)
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "the message has %zu bytes; at most %zu are allowed", all,
                              connector->options.message_max);
    return ROTA_OK;
}

enum rota_code rota_connector_send(struct rota_connector *connector,
                                   struct rota_connector_peer *peer, uint32_t type,
                                   struct rota_str message, struct rota_error *error)
{
    enum rota_code code = check_send(connector, type, message.size, error);
    if (code)
        return code;
    bool is_on_socket = rota_connector_socket_is_here(connector);
    uint64_t stamp = is_on_socket ? peer->stamp : atomic_load(&peer->told_stamp);
    if (stamp == 0 || atomic_load(&connector->is_closed))
        return rota_error_set(error, ROTA_ERR_UNAVAILABLE, "no session with %s", peer->name);
    struct rota_str name = rota_str(connector->types.items[type]->name);
    size_t size = rota_worker_head_size(name) + message.size;
    if (!reserve_place(connector, peer, size)) {
        rota_count(&connector->counters.n_refused, 1);
        return rota_error_set(
            error, ROTA_ERR_LIMIT,
            "too many messages are waiting for %s: at most %zu messages and %zu bytes in total",
            peer->name, connector->options.queue_max, connector->options.queue_bytes);
    }
    struct rota_connector_outgoing *outgoing =
        rota_connector_socket_outgoing_new(connector, peer, name, message);
    if (!outgoing) {
        atomic_fetch_sub(&peer->bytes_queued, size);
        atomic_fetch_sub(&peer->n_queued, 1);
        return rota_error_no_memory(error, "for a message");
    }
    outgoing->stamp = stamp;
    if (connector_held == connector) {
        rota_mailbox_letters_add(&connector->held, &outgoing->letter);
        return ROTA_OK;
    }
    code = rota_mailbox_post(connector->thread.mailbox, &outgoing->letter);
    assert(!code); /* it is bounded by peer, and open until we are closed */
    return code;
}

struct rota_connector_peer *rota_connector_broker(struct rota_connector *connector)
{
    return connector->broker;
}

/* --- other letters --- */

struct drop {
    struct rota_letter letter;
    struct rota_connector *connector;
    struct rota_connector_peer *peer; /* a reference */
    uint64_t stamp;
    struct rota_error why;
};

static void done_drop(struct rota_letter *letter, bool is_cancelled)
{
    struct drop *drop = ROTA_CONTAINER(letter, struct drop, letter);
    atomic_store(&drop->peer->is_dropping, false);
    if (!is_cancelled && drop->peer->stamp == drop->stamp)
        drop->connector->side->drop(drop->connector, drop->peer, ROTA_BYE_REFUSED, &drop->why);
    rota_connector_peer_unref(drop->peer);
    free(drop);
}

void rota_connector_drop(struct rota_connector *connector, struct rota_connector_peer *peer,
                         const char *why)
{
    uint64_t stamp =
        rota_connector_socket_is_here(connector) ? peer->stamp : atomic_load(&peer->told_stamp);
    if (stamp == 0 || atomic_load(&connector->is_closed) ||
        atomic_exchange(&peer->is_dropping, true))
        return;
    struct drop *drop = calloc(1, sizeof *drop);
    if (!drop) {
        atomic_store(&peer->is_dropping, false);
        return;
    }
    drop->letter.done = done_drop;
    drop->connector = connector;
    drop->peer = rota_connector_peer_ref(peer);
    drop->stamp = stamp;
    rota_error_set(&drop->why, ROTA_ERR_INVALID, "%s", why);
    enum rota_code code = rota_mailbox_post(connector->thread.mailbox, &drop->letter);
    assert(!code);
    (void)code;
}

struct scheduled {
    struct rota_letter letter;
    struct rota_connector *connector;
    void (*call)(void *data, bool is_cancelled);
    void *data;
};

static void done_scheduled(struct rota_letter *letter, bool is_cancelled)
{
    struct scheduled *scheduled = ROTA_CONTAINER(letter, struct scheduled, letter);
    atomic_fetch_sub(&scheduled->connector->n_scheduled, 1);
    scheduled->call(scheduled->data, is_cancelled || atomic_load(&scheduled->connector->is_closed));
    free(scheduled);
}

enum rota_code rota_connector_schedule(struct rota_connector *connector,
                                       void (*call)(void *data, bool is_cancelled), void *data)
{
    if (!connector->is_started || atomic_load(&connector->is_closed))
        return ROTA_ERR_UNAVAILABLE;
    if (atomic_fetch_add(&connector->n_scheduled, 1) >= ROTA_CONNECTOR_SCHEDULED_MAX) {
        atomic_fetch_sub(&connector->n_scheduled, 1);
        return ROTA_ERR_LIMIT;
    }
    struct scheduled *scheduled = malloc(sizeof *scheduled);
    if (!scheduled) {
        atomic_fetch_sub(&connector->n_scheduled, 1);
        return ROTA_ERR_NO_MEMORY;
    }
    *scheduled = (struct scheduled){
        .letter = {.done = done_scheduled}, .connector = connector, .call = call, .data = data};
    enum rota_code code = rota_mailbox_post(connector->consumer, &scheduled->letter);
    assert(!code);
    return code;
}

const char *rota_connector_address(const struct rota_connector *connector)
{
    return connector->address;
}

void rota_connector_stats(const struct rota_connector *connector,
                          struct rota_connector_stats *stats)
{
    const struct rota_connector_counters *counters = &connector->counters;
    *stats = (struct rota_connector_stats){
        .n_sent = atomic_load(&counters->n_sent),
        .bytes_sent = atomic_load(&counters->bytes_sent),
        .n_received = atomic_load(&counters->n_received),
        .bytes_received = atomic_load(&counters->bytes_received),
        .n_refused = atomic_load(&counters->n_refused),
        .n_dropped = atomic_load(&counters->n_dropped),
        .n_unhandled = atomic_load(&counters->n_unhandled),
        .n_malformed = atomic_load(&counters->n_malformed),
        .n_strangers = atomic_load(&counters->n_strangers),
        .n_sessions = atomic_load(&counters->n_sessions),
        .n_lost = atomic_load(&counters->n_lost),
        .n_turned_away = atomic_load(&counters->n_turned_away),
        .n_keys_refused = atomic_load(&counters->n_keys_refused),
        .n_retries = atomic_load(&counters->n_retries),
        .n_pauses = atomic_load(&counters->n_pauses),
        .n_peers = atomic_load(&counters->n_peers),
    };
}
