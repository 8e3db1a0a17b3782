#include "run/connector/connector_inside.h"

#include "io/clock.h"

#include <assert.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

/* The socket thread works in turns: it receives what has arrived, up to TURN_MAX messages, then
 * does what is due, and waits. The library signals once that there is something, and may do so
 * within any other call; so each turn reads until there is nothing more, and reads again when it
 * has sent since. Letters, timers and the socket only wake it.
 *
 * A send that finds no room is such a call too. To read after it, and then to try it again,
 * would never end: while something waits for room, a turn comes after BLOCKED_MS at the latest. */

enum { TURN_MAX = 256, PAUSED_MS = 20, BLOCKED_MS = 5 };

/* --- a thread with a loop --- */

enum rota_code rota_connector_socket_thread_open(struct rota_connector_thread *thread,
                                                 const char *name, struct rota_error *error)
{
    int failed = uv_loop_init(&thread->loop);
    if (failed)
        return rota_error_set(error, ROTA_ERR_IO, "a loop for the thread %s: %s", name,
                              uv_strerror(failed));
    thread->name = name;
    thread->is_open = true;
    /* What is posted is bounded by kind, see struct rota_connector. */
    enum rota_code code = rota_mailbox_open(&thread->loop, SIZE_MAX, &thread->mailbox, error);
    if (code) {
        uv_loop_close(&thread->loop);
        thread->is_open = false;
    }
    return code;
}

static void run_loop(void *data)
{
    struct rota_connector_thread *thread = data;
    pthread_setname_np(pthread_self(), thread->name);
    uv_run(&thread->loop, UV_RUN_DEFAULT);
}

/* Signals are for the program's own threads: block them all in this one. */
enum rota_code rota_connector_socket_thread_start(struct rota_connector_thread *thread,
                                                  struct rota_error *error)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = uv_thread_create(&thread->handle, run_loop, thread);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failed)
        return rota_error_set(error, ROTA_ERR_IO, "the thread %s: %s", thread->name,
                              uv_strerror(failed));
    return ROTA_OK;
}

static void close_loop(struct rota_connector_thread *thread)
{
    int failed = uv_loop_close(&thread->loop);
    assert(!failed);
    (void)failed;
    thread->is_open = false;
}

void rota_connector_socket_thread_join(struct rota_connector_thread *thread)
{
    uv_thread_join(&thread->handle);
    close_loop(thread);
}

void rota_connector_socket_thread_abandon(struct rota_connector_thread *thread)
{
    if (!thread->is_open)
        return;
    rota_mailbox_close(thread->mailbox, NULL, NULL);
    uv_run(&thread->loop, UV_RUN_DEFAULT);
    close_loop(thread);
}

/* --- the current thread --- */

static _Thread_local const struct rota_connector *connector_of_thread;

bool rota_connector_socket_is_here(const struct rota_connector *connector)
{
    return connector_of_thread == connector;
}

/* --- watching --- */

/* The turn runs before the next wait. */
static void on_poll(uv_poll_t *poll, int status, int events)
{
    struct rota_connector *connector = poll->data;
    (void)status, (void)events;
    connector->are_events_due |= poll == connector->polls[1];
    connector->is_judge_due |= poll == connector->judge_poll;
}

static void on_poll_closed(uv_handle_t *handle)
{
    free(handle);
}

static uv_poll_t *watch_fd(struct rota_connector *connector, int fd)
{
    uv_poll_t *poll = malloc(sizeof *poll);
    if (!poll)
        return NULL;
    if (uv_poll_init(&connector->thread.loop, poll, fd) != 0) {
        free(poll);
        return NULL;
    }
    poll->data = connector;
    uv_poll_start(poll, UV_READABLE, on_poll);
    return poll;
}

static void unwatch_fd(uv_poll_t **poll)
{
    if (*poll)
        uv_close((uv_handle_t *)*poll, on_poll_closed);
    *poll = NULL;
}

enum rota_code rota_connector_socket_watch(struct rota_connector *connector,
                                           struct rota_error *error)
{
    int fds[ROTA_ZMQ_FDS_MAX];
    size_t n = rota_zmq_socket_fds(connector->socket, fds);
    for (size_t i = 0; i < n; i++) {
        connector->polls[i] = watch_fd(connector, fds[i]);
        if (!connector->polls[i])
            return rota_error_set(error, ROTA_ERR_IO, "the socket cannot be watched");
    }
    connector->is_touched = connector->are_events_due = true;
    return ROTA_OK;
}

void rota_connector_socket_unwatch(struct rota_connector *connector, rota_time linger)
{
    for (size_t i = 0; i < ROTA_ZMQ_FDS_MAX; i++)
        unwatch_fd(&connector->polls[i]);
    rota_zmq_socket_close(connector->socket, linger);
    connector->socket = NULL;
    connector->has_event = false;
}

/* --- sending --- */

static void done_outgoing(struct rota_letter *letter, bool is_cancelled);

struct rota_connector_outgoing *rota_connector_socket_outgoing_new(struct rota_connector *connector,
                                                                   struct rota_connector_peer *peer,
                                                                   struct rota_str type,
                                                                   struct rota_str body)
{
    struct rota_connector_outgoing *outgoing = malloc(sizeof *outgoing);
    if (!outgoing)
        return NULL;
    *outgoing = (struct rota_connector_outgoing){
        .letter = {.done = done_outgoing},
        .connector = connector,
        .size = rota_worker_head_size(type) + body.size,
    };
    if (!rota_zmq_message_init(&outgoing->message, outgoing->size)) {
        free(outgoing);
        return NULL;
    }
    uint8_t *to = rota_worker_frame_head_write(rota_zmq_message_data(&outgoing->message), type);
    if (body.size)
        memcpy(to, body.data, body.size);
    outgoing->peer = rota_connector_peer_ref(peer);
    return outgoing;
}

/* It was sent, or never will be. */
static void finish_outgoing(struct rota_connector_outgoing *outgoing)
{
    struct rota_connector_peer *peer = outgoing->peer;
    const struct rota_connector_options *options = &outgoing->connector->options;
    size_t bytes = atomic_fetch_sub(&peer->bytes_queued, outgoing->size) - outgoing->size;
    size_t n = atomic_fetch_sub(&peer->n_queued, 1) - 1;
    if (n <= options->queue_max / 2 && bytes <= options->queue_bytes / 2 &&
        atomic_load(&peer->was_refused) && atomic_exchange(&peer->was_refused, false))
        rota_connector_news_tell_room(peer);
    rota_zmq_message_deinit(&outgoing->message);
    rota_connector_peer_unref(peer);
    free(outgoing);
}

static struct rota_str route_of(const struct rota_connector_peer *peer)
{
    return rota_str_of(peer->route.bytes, peer->route.size);
}

/* ROTA_ERR_LIMIT: it stays. Otherwise it is finished; the session too when it failed. */
static enum rota_code try_send(struct rota_connector *connector,
                               struct rota_connector_outgoing *outgoing)
{
    struct rota_connector_peer *peer = outgoing->peer;
    struct rota_error why;
    size_t size = outgoing->size;
    enum rota_code code = rota_zmq_send(connector->socket, route_of(peer), &outgoing->message);
    if (code == ROTA_ERR_LIMIT)
        return code;
    connector->is_touched = true;
    rota_connector_peer_ref(peer);
    finish_outgoing(outgoing);
    if (!code) {
        rota_count(&connector->counters.n_sent, 1);
        rota_count(&connector->counters.bytes_sent, size);
        connector->side->on_sent(connector, peer);
    } else {
        rota_count(&connector->counters.n_dropped, 1);
        rota_error_set(&why, ROTA_ERR_UNAVAILABLE, "the connection was closed");
        connector->side->on_gone(connector, peer, &why);
    }
    rota_connector_peer_unref(peer);
    return code;
}

static void append_outgoing(struct rota_connector *connector,
                            struct rota_connector_outgoing *outgoing)
{
    struct rota_connector_peer *peer = outgoing->peer;
    outgoing->next = NULL;
    if (peer->first) {
        peer->last->next = outgoing;
    } else {
        peer->first = outgoing;
        rota_list_push(&connector->blocked, &peer->blocked);
    }
    peer->last = outgoing;
}

/* After what is queued already. */
static void send_in_order(struct rota_connector *connector,
                          struct rota_connector_outgoing *outgoing)
{
    if (outgoing->peer->stamp != outgoing->stamp || outgoing->stamp == 0 || !connector->socket) {
        rota_count(&connector->counters.n_dropped, 1);
        finish_outgoing(outgoing);
    } else if (outgoing->peer->first || try_send(connector, outgoing) == ROTA_ERR_LIMIT) {
        append_outgoing(connector, outgoing);
    }
}

static void done_outgoing(struct rota_letter *letter, bool is_cancelled)
{
    struct rota_connector_outgoing *outgoing =
        ROTA_CONTAINER(letter, struct rota_connector_outgoing, letter);
    if (is_cancelled)
        outgoing->stamp = 0;
    send_in_order(outgoing->connector, outgoing);
}

void rota_connector_socket_say(struct rota_connector *connector, struct rota_connector_peer *peer,
                               const char *type, struct rota_str body)
{
    struct rota_connector_outgoing *outgoing =
        rota_connector_socket_outgoing_new(connector, peer, rota_str(type), body);
    if (!outgoing)
        return; /* the next heartbeat makes up for a missing one */
    atomic_fetch_add(&peer->n_queued, 1);
    atomic_fetch_add(&peer->bytes_queued, outgoing->size);
    outgoing->stamp = peer->stamp;
    send_in_order(connector, outgoing);
}

static void say_aside(struct rota_connector *connector, struct rota_str route, const char *type,
                      struct rota_str body)
{
    struct rota_zmq_message message;
    struct rota_str name = rota_str(type);
    if (!connector->socket ||
        !rota_zmq_message_init(&message, rota_worker_head_size(name) + body.size))
        return;
    uint8_t *to = rota_worker_frame_head_write(rota_zmq_message_data(&message), name);
    if (body.size)
        memcpy(to, body.data, body.size);
    connector->is_touched = true;
    rota_zmq_send(connector->socket, route, &message);
    rota_zmq_message_deinit(&message);
}

void rota_connector_socket_say_bye(struct rota_connector *connector, struct rota_str route,
                                   enum rota_worker_bye_reason reason, const char *text)
{
    struct rota_worker_bye bye = {reason, rota_str(text)};
    rota_buffer_clear(&connector->scratch);
    rota_worker_frame_bye_write(&bye, &connector->scratch);
    say_aside(connector, route, ROTA_WORKER_BYE, rota_buffer_str(&connector->scratch));
}

void rota_connector_socket_drop_queue(struct rota_connector *connector,
                                      struct rota_connector_peer *peer)
{
    struct rota_connector_outgoing *outgoing = peer->first;
    peer->first = peer->last = NULL;
    rota_list_remove(&peer->blocked);
    while (outgoing) {
        struct rota_connector_outgoing *next = outgoing->next;
        rota_count(&connector->counters.n_dropped, 1);
        finish_outgoing(outgoing);
        outgoing = next;
    }
}

/* As much as there is room for. Holds a reference to the peer, since its session may end
 * meanwhile. */
static void flush_peer(struct rota_connector *connector, struct rota_connector_peer *peer)
{
    rota_connector_peer_ref(peer);
    while (peer->first) {
        struct rota_connector_outgoing *outgoing = peer->first;
        peer->first = outgoing->next;
        enum rota_code code = try_send(connector, outgoing);
        if (code == ROTA_ERR_LIMIT)
            peer->first = outgoing;
        if (code)
            break;
    }
    if (!peer->first)
        rota_list_remove(&peer->blocked);
    rota_connector_peer_unref(peer);
}

static void flush_all(struct rota_connector *connector)
{
    struct rota_list_node waiting;
    if (!connector->socket)
        return;
    rota_list_take(&waiting, &connector->blocked);
    ROTA_LIST_DRAIN (peer, &waiting, struct rota_connector_peer, blocked) {
        rota_list_remove(&peer->blocked);
        rota_list_push(&connector->blocked, &peer->blocked);
        flush_peer(connector, peer);
    }
}

/* --- receiving --- */

static void receive_one(struct rota_connector *connector, enum rota_code code,
                        const struct rota_zmq_route *route, struct rota_zmq_message *message)
{
    rota_count(&connector->counters.n_received, 1);
    if (!code) {
        rota_count(&connector->counters.bytes_received, rota_zmq_message_size(message));
        connector->side->take(connector, route, message);
        return;
    }
    struct rota_error why;
    rota_error_set(&why, ROTA_ERR_INVALID, "a message of several parts: one is expected");
    rota_count(&connector->counters.n_malformed, 1);
    connector->side->take_malformed(connector, route, &why);
}

/* Returns whether nothing is left; otherwise another turn is needed, or the consumer. */
static bool receive_all(struct rota_connector *connector)
{
    struct rota_zmq_message message;
    struct rota_zmq_route route;
    for (int i = 0; i < TURN_MAX; i++) {
        if (!connector->socket)
            return true;
        if (rota_connector_news_is_behind(connector))
            return false;
        connector->is_touched = false;
        enum rota_code code = rota_zmq_receive(connector->socket, &route, &message);
        if (code == ROTA_ERR_NOT_FOUND)
            return true;
        receive_one(connector, code, &route, &message);
    }
    return false;
}

/* Messages from before a worker's connection closed are handled first. */
static void look_at_events(struct rota_connector *connector)
{
    while (connector->socket && connector->are_events_due && !connector->has_event) {
        connector->event = rota_zmq_next_event(connector->socket, &connector->event_error);
        connector->are_events_due = connector->event != ROTA_ZMQ_NOTHING;
        if (connector->side->takes_events_early && connector->are_events_due)
            connector->side->on_event(connector, connector->event, &connector->event_error);
        else
            connector->has_event = connector->are_events_due;
    }
}

static void tell_event(struct rota_connector *connector)
{
    if (!connector->has_event)
        return;
    struct rota_error why = connector->event_error;
    connector->has_event = false;
    connector->side->on_event(connector, connector->event, &why);
}

/* --- the turn --- */

static void on_timer(uv_timer_t *timer)
{
    (void)timer;
}

static void on_idle(uv_idle_t *idle)
{
    (void)idle;
}

static void end_socket(struct rota_connector *connector);

static void set_timer(struct rota_connector *connector, rota_time now)
{
    rota_time at =
        connector->is_stopping ? connector->stop_at : connector->side->deadline(connector);
    if (!rota_list_is_empty(&connector->blocked))
        at = rota_time_min(at, now + BLOCKED_MS * ROTA_MSEC);
    if (at == ROTA_TIME_NEVER) {
        uv_timer_stop(&connector->timer);
        return;
    }
    uint64_t ms = at > now ? (uint64_t)((at - now) / ROTA_MSEC) + 1 : 1;
    if (connector->is_paused && ms < PAUSED_MS)
        ms = PAUSED_MS; /* sessions are not judged now, though it would be time */
    uv_update_time(&connector->thread.loop);
    uv_timer_start(&connector->timer, on_timer, ms, 0);
}

/* A turn that left something to read, or has touched the socket since it was asked, is
 * followed by another. */
static void on_prepare(uv_prepare_t *prepare)
{
    struct rota_connector *connector = prepare->data;
    connector_of_thread = connector;
    if (connector->is_judge_due) {
        rota_connector_keys_judge(connector);
        connector->are_events_due = true; /* a guest is registered before its first message */
    }
    connector->is_judge_due = false;
    look_at_events(connector);
    flush_all(connector);
    bool is_drained = connector->is_stopping || receive_all(connector);
    bool is_again = !is_drained && !connector->is_paused;
    if (is_drained && connector->has_event) {
        tell_event(connector);
        is_again = true;
    }
    flush_all(connector);
    rota_time now = rota_clock_mono();
    if (!connector->is_stopping)
        connector->side->tick(connector, now, is_drained);
    if (connector->is_stopping &&
        (rota_list_is_empty(&connector->blocked) || now >= connector->stop_at)) {
        end_socket(connector);
        return;
    }
    rota_connector_news_tell_all(connector);
    set_timer(connector, now);
    if (is_again || (connector->is_touched && connector->socket && !connector->is_paused))
        uv_idle_start(&connector->idle, on_idle);
    else
        uv_idle_stop(&connector->idle);
}

static void done_resume(struct rota_letter *letter, bool is_cancelled)
{
    struct rota_connector *connector = ROTA_CONTAINER(letter, struct rota_connector, resume);
    (void)is_cancelled;
    connector->is_paused = false;
}

/* --- the end --- */

static void done_stop(struct rota_letter *letter, bool is_cancelled)
{
    struct rota_connector *connector = ROTA_CONTAINER(letter, struct rota_connector, stop);
    (void)is_cancelled;
    connector_of_thread = connector;
    bool must_linger = connector->side->say_goodbye(connector);
    connector->is_stopping = true;
    connector->stop_at = rota_clock_mono() + (must_linger ? connector->options.linger : 0);
}

/* The sessions end without a report; then nothing is left on this loop but the last letter to
 * the consumer. */
static void end_socket(struct rota_connector *connector)
{
    rota_time left = connector->stop_at - rota_clock_mono();
    connector->side->end_all(connector);
    rota_connector_socket_unwatch(connector, left > 0 ? left : 0);
    unwatch_fd(&connector->judge_poll);
    uv_close((uv_handle_t *)&connector->prepare, NULL);
    uv_close((uv_handle_t *)&connector->idle, NULL);
    uv_close((uv_handle_t *)&connector->timer, NULL);
    rota_zmq_close(connector->zmq);
    connector->zmq = NULL;
    rota_mailbox_close(connector->thread.mailbox, NULL, NULL);
    rota_mailbox_letters_add(&connector->news, &connector->last);
    rota_connector_news_tell_all(connector);
}

/* --- the beginning --- */

enum rota_code rota_connector_socket_open(struct rota_connector *connector,
                                          struct rota_error *error)
{
    uv_loop_t *loop = &connector->thread.loop;
    rota_list_init(&connector->blocked);
    connector->is_judge_due = true;
    connector->stop.done = done_stop;
    connector->resume.done = done_resume;
    enum rota_code code =
        rota_connector_socket_thread_open(&connector->thread, "rota-socket", error);
    if (code)
        return code;
    uv_prepare_init(loop, &connector->prepare);
    uv_idle_init(loop, &connector->idle);
    uv_timer_init(loop, &connector->timer);
    connector->prepare.data = connector;
    uv_prepare_start(&connector->prepare, on_prepare);
    if (rota_zmq_judge_fd(connector->zmq) >= 0) {
        connector->judge_poll = watch_fd(connector, rota_zmq_judge_fd(connector->zmq));
        if (!connector->judge_poll)
            return rota_error_set(error, ROTA_ERR_IO,
                                  "cannot watch the socket that admits workers");
    }
    return connector->socket ? rota_connector_socket_watch(connector, error) : ROTA_OK;
}
