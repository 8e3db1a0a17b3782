#include <rota/experimental/store_ask.h>

#include "base/list.h"
#include "core/call/backoff.h"
#include "io/clock.h"
#include "io/sql/store_session.h"
#include "run/store/store_thread.h"

#include <assert.h>
#include <stddef.h>
#include <stdlib.h>
#include <uv.h>

/* The loop decides when to connect, the thread executes: a session belongs to the thread, and the
 * loop uses it only after the thread has ended.
 *
 *     DOWN --timer--> CONNECTING --made--> UP --lost--> CONNECTING
 *                         |                  (at once: the first delay comes after
 *                         +--failed--> DOWN   a connection that could not be made) */

/* A database that has not answered for this long is worth a log line: it may hang. */
#define ANSWER_LATE ROTA_SEC

/* Owners wait for the store to come back: this is the maximum interval between two attempts to
 * connect. */
#define CONNECT_PAUSE_MAX (2 * ROTA_SEC)

struct ask {
    struct rota_letter letter;
    struct rota_store *store;
    struct rota_list_node link; /* those in flight */
    struct rota_store_request request;
    struct rota_store_answer answer;
    rota_store_on_answer *on_answer; /* NULL: the answer is not needed */
    void *data;
    bool is_replaced;                   /* the connection, before it */
    bool is_lost;                       /* the connection, after it */
    _Alignas(max_align_t) char bytes[]; /* what the request points into */
};

struct rota_store {
    uv_loop_t *loop;
    struct rota_store_options options;
    struct rota_sql_url url;
    char name[ROTA_SQL_URL_TEXT_MAX];
    struct rota_thread *thread;
    uv_timer_t timer;
    uv_timer_t late_timer; /* runs while an answer is waited for */
    bool is_told_late;     /* in the log, once until it answers again */
    struct rota_backoff backoff;
    struct rota_random random;
    struct rota_list_node asks;
    size_t n_asks; /* places for the letter that connects and those of others are kept free */

    struct rota_letter connect;
    bool is_connecting, is_up, is_closed;
    bool is_told_down;                 /* in the log, once until it is up again */
    int n_parts;                       /* of parts that have to end before it is freed */
    rota_store_on_session *on_session; /* may be NULL, like on_closed */
    void (*on_closed)(void *data);
    void *closed_data;

    struct rota_store_session *session; /* the thread's */

    /* How `connect` went: the thread's from its post until its done(), and then the loop's. A
     * request that replaces the connection leaves them alone. */
    enum rota_code code;
    const char *warning; /* about its database, or NULL */
    int upgraded_from;   /* the version of its tables, if they were changed; or 0 */
    struct rota_error error;
};

/* --- connecting --- */

/* On the thread. */
static enum rota_code connect_session(struct rota_store *store, struct rota_error *error)
{
    struct rota_sql_options options = {
        .connect_timeout = store->options.connect_timeout,
        .statement_timeout = store->options.statement_timeout,
        .is_reader = store->options.is_reader,
    };
    rota_store_session_close(store->session);
    store->session = NULL;
    enum rota_code code = rota_store_session_open(&store->url, &options, &store->session, error);
    if (!store->on_session)
        return code;
    enum rota_code own = store->on_session(store->options.data, store->session, error);
    return code ? code : own;
}

/* On the thread. */
static void work_connect(struct rota_letter *letter)
{
    struct rota_store *store = ROTA_CONTAINER(letter, struct rota_store, connect);
    store->code = connect_session(store, &store->error);
    store->warning = store->code ? NULL : rota_store_session_warning(store->session);
    store->upgraded_from = store->code ? 0 : rota_store_session_upgraded_from(store->session);
}

static void connect_now(struct rota_store *store);

static void on_timer(uv_timer_t *timer)
{
    connect_now(timer->data);
}

static void go_down(struct rota_store *store, const struct rota_error *error)
{
    store->is_up = false;
    if (!store->is_told_down)
        rota_log(store->options.log, rota_clock_wall(),
                 rota_sql_is_disk_failure(store->url.kind, error) ? ROTA_LOG_ERROR : ROTA_LOG_WARN,
                 "store down", ROTA_LOG_FACT("store", store->name),
                 ROTA_LOG_FACT("purpose", store->options.purpose),
                 ROTA_LOG_FACT("reason", error->text));
    store->is_told_down = true;
    if (store->options.on_down)
        store->options.on_down(store->options.data, error);
}

static void go_up(struct rota_store *store)
{
    rota_backoff_succeeded(&store->backoff);
    store->is_up = true;
    store->is_told_down = false;
    rota_log(store->options.log, rota_clock_wall(), ROTA_LOG_INFO, "store up",
             ROTA_LOG_FACT("store", store->name), ROTA_LOG_FACT("purpose", store->options.purpose));
    if (store->upgraded_from) /* an older program can no longer use it */
        rota_log(store->options.log, rota_clock_wall(), ROTA_LOG_WARN, "store tables upgraded",
                 ROTA_LOG_FACT("store", store->name),
                 ROTA_LOG_FACT("purpose", store->options.purpose),
                 ROTA_LOG_FACT("from", store->upgraded_from),
                 ROTA_LOG_FACT("to", ROTA_STORE_SCHEMA_VERSION));
    if (store->warning)
        rota_log(store->options.log, rota_clock_wall(), ROTA_LOG_WARN, "store not durable",
                 ROTA_LOG_FACT("store", store->name),
                 ROTA_LOG_FACT("purpose", store->options.purpose),
                 ROTA_LOG_FACT("reason", store->warning));
    if (store->options.on_up)
        store->options.on_up(store->options.data);
}

static void connect_later(struct rota_store *store, const struct rota_error *error)
{
    rota_time wait = rota_backoff_failed(&store->backoff, &store->random);
    uv_timer_start(&store->timer, on_timer, (uint64_t)(wait / ROTA_MSEC) + 1, 0);
    go_down(store, error);
}

static void done_connect(struct rota_letter *letter, bool is_cancelled)
{
    struct rota_store *store = ROTA_CONTAINER(letter, struct rota_store, connect);
    store->is_connecting = false;
    if (is_cancelled || store->is_closed)
        return;
    if (!store->code) {
        go_up(store);
        return;
    }
    struct rota_error error = store->error; /* a new attempt may begin in the callback */
    connect_later(store, &error);
}

static void connect_now(struct rota_store *store)
{
    if (store->is_connecting || store->is_closed)
        return;
    uv_timer_stop(&store->timer);
    store->is_connecting = true;
    rota_store_post(store, &store->connect);
}

/* --- letters of others --- */

/* There is a place for it: requests leave some free. */
void rota_store_post(struct rota_store *store, struct rota_letter *letter)
{
    enum rota_code code = rota_mailbox_thread_post(store->thread, letter);
    assert(!code);
    (void)code;
}

void rota_store_fail(struct rota_store *store, const struct rota_error *error)
{
    if (store->is_up && !store->is_connecting && !store->is_closed)
        connect_later(store, error);
}

/* --- requests --- */

/* The texts of a request, to be copied after it. */
#define N_TEXTS 16
static void list_texts(struct rota_store_request *request, struct rota_str *texts[N_TEXTS])
{
    struct rota_str *all[N_TEXTS] = {
        &request->space,        &request->dc,
        &request->host,         &request->member.address,
        &request->member.roles, &request->member.zone,
        &request->config.name,  &request->config.engine,
        &request->config.text,  &request->table,
        &request->key_column,   &request->value_column,
        &request->node.name,    &request->known_text,
        &request->member.name,  &request->node.zone,
    };
    memcpy(texts, all, sizeof all);
}

static size_t size_of(const struct rota_store_request *request)
{
    struct rota_store_request copy = *request;
    struct rota_str *texts[N_TEXTS];
    size_t size = request->claim.n_dead * sizeof *request->claim.dead +
                  request->n_pings * sizeof *request->pings +
                  request->n_keys * sizeof *request->keys;
    list_texts(&copy, texts);
    for (size_t i = 0; i < N_TEXTS; i++)
        size += texts[i]->size;
    for (size_t i = 0; i < request->n_keys; i++)
        size += request->keys[i].size;
    return size;
}

static void copy_text(struct rota_str *text, char **at)
{
    if (text->size > 0)
        memcpy(*at, text->data, text->size);
    text->data = *at;
    *at += text->size;
}

/* Arrays first, because of their alignment. */
static void copy_request(struct ask *ask, const struct rota_store_request *request)
{
    struct rota_store_request *copy = &ask->request;
    struct rota_str *texts[N_TEXTS];
    char *at = ask->bytes;
    *copy = *request;
    if (request->claim.n_dead > 0)
        memcpy(at, request->claim.dead, request->claim.n_dead * sizeof *request->claim.dead);
    copy->claim.dead = (const struct rota_lease_dead *)(void *)at;
    at += request->claim.n_dead * sizeof *request->claim.dead;

    if (request->n_pings > 0)
        memcpy(at, request->pings, request->n_pings * sizeof *request->pings);
    copy->pings = (const struct rota_store_ping *)(void *)at;
    at += request->n_pings * sizeof *request->pings;

    struct rota_str *keys = (struct rota_str *)(void *)at;
    if (request->n_keys > 0)
        memcpy(keys, request->keys, request->n_keys * sizeof *keys);
    copy->keys = keys;
    at += request->n_keys * sizeof *keys;
    for (size_t i = 0; i < request->n_keys; i++)
        copy_text(&keys[i], &at);
    list_texts(copy, texts);
    for (size_t i = 0; i < N_TEXTS; i++)
        copy_text(texts[i], &at);
}

/* On the thread. A connection that a restarted server has closed is replaced before the request
 * is sent on it, so that no caller has to repeat it. */
static void work_ask(struct rota_letter *letter)
{
    struct ask *ask = ROTA_CONTAINER(letter, struct ask, letter);
    struct rota_store *store = ask->store;
    if (store->session && rota_store_session_is_closed(store->session)) {
        ask->is_lost = connect_session(store, NULL) != ROTA_OK;
        ask->is_replaced = !ask->is_lost;
    }
    if (store->session) {
        rota_store_session_do(store->session, &ask->request, &ask->answer);
        ask->is_lost = !rota_store_session_is_alive(store->session);
        return;
    }
    ask->answer.code = rota_error_set(
        &ask->answer.error, ROTA_ERR_UNAVAILABLE,
        "no connection to the store; \"store down\" in the log of this process says why");
}

static void free_ask(struct ask *ask)
{
    rota_store_session_answer_deinit(&ask->answer);
    free(ask);
}

/* The connection was lost: request a new one; requests after this one fail until it is open. */
static void lose_connection(struct rota_store *store, const struct rota_store_answer *answer)
{
    struct rota_error error = answer->error;
    if (!answer->code)
        rota_error_set(&error, ROTA_ERR_UNAVAILABLE, "the connection was lost");
    connect_now(store);
    go_down(store, &error);
}

static void on_late_timer(uv_timer_t *timer)
{
    struct rota_store *store = timer->data;
    store->is_told_late = true;
    rota_log(store->options.log, rota_clock_wall(), ROTA_LOG_WARN, "store not responding",
             ROTA_LOG_FACT("store", store->name), ROTA_LOG_FACT("purpose", store->options.purpose),
             ROTA_LOG_FACT("requests", store->n_asks));
}

/* Requests are answered one after the other: each has its own time. */
static void wait_for_answer(struct rota_store *store)
{
    if (store->n_asks == 0)
        uv_timer_stop(&store->late_timer);
    else if (!store->is_told_late)
        uv_timer_start(&store->late_timer, on_late_timer, ANSWER_LATE / ROTA_MSEC, 0);
}

static void note_answer(struct rota_store *store, const struct ask *ask)
{
    bool is_answered = ask->answer.code != ROTA_ERR_UNKNOWN && !ask->is_lost;
    if (store->is_told_late && is_answered)
        rota_log(store->options.log, rota_clock_wall(), ROTA_LOG_INFO, "store responding again",
                 ROTA_LOG_FACT("store", store->name),
                 ROTA_LOG_FACT("purpose", store->options.purpose));
    store->is_told_late &= !is_answered;
    wait_for_answer(store);
}

static void done_ask(struct rota_letter *letter, bool is_cancelled)
{
    struct ask *ask = ROTA_CONTAINER(letter, struct ask, letter);
    struct rota_store *store = ask->store;
    if (!is_cancelled && ask->is_replaced && !store->is_closed)
        rota_log(store->options.log, rota_clock_wall(), ROTA_LOG_INFO, "store reconnected",
                 ROTA_LOG_FACT("store", store->name),
                 ROTA_LOG_FACT("purpose", store->options.purpose));
    if (!is_cancelled && ask->is_lost && store->is_up)
        lose_connection(store, &ask->answer);
    rota_list_remove(&ask->link);
    store->n_asks--;
    if (!is_cancelled && !store->is_closed)
        note_answer(store, ask);
    if (!is_cancelled && !store->is_closed && ask->on_answer)
        ask->on_answer(ask->data, &ask->answer);
    free_ask(ask);
}

enum rota_code rota_store_ask(struct rota_store *store, const struct rota_store_request *request,
                              rota_store_on_answer *on_answer, void *data, struct rota_error *error)
{
    enum rota_code code = rota_store_check_request(request, error);
    if (code)
        return code;
    struct ask *ask = calloc(1, sizeof *ask + size_of(request) + 1);
    if (!ask)
        return rota_error_no_memory(error, "for a request to the store");
    copy_request(ask, request);
    ask->store = store;
    ask->on_answer = on_answer;
    ask->data = data;
    ask->letter = (struct rota_letter){.work = work_ask, .done = done_ask};
    code = store->n_asks < ROTA_STORE_PENDING_MAX
               ? rota_mailbox_thread_post(store->thread, &ask->letter)
               : ROTA_ERR_LIMIT;
    if (code) {
        free_ask(ask);
        return rota_error_set(error, code,
                              "%d requests to the store are already in flight, the maximum",
                              ROTA_STORE_PENDING_MAX);
    }
    rota_list_push(&store->asks, &ask->link);
    if (store->n_asks++ == 0)
        wait_for_answer(store);
    return ROTA_OK;
}

void rota_store_forget(struct rota_store *store, const void *data)
{
    ROTA_LIST_EACH (ask, &store->asks, struct ask, link)
        if (ask->data == data)
            ask->on_answer = NULL;
}

bool rota_store_is_up(const struct rota_store *store)
{
    return store->is_up;
}

const char *rota_store_name(const struct rota_store *store)
{
    return store->name;
}

/* --- the beginning and the end --- */

/* The thread has ended, or a handle is closed: the last one frees the store. */
static void release_store(struct rota_store *store)
{
    if (--store->n_parts > 0)
        return;
    void (*on_closed)(void *data) = store->on_closed;
    void *data = store->closed_data;
    rota_store_session_close(store->session);
    explicit_bzero(&store->url, sizeof store->url);
    free(store);
    if (on_closed)
        on_closed(data);
}

static void on_thread_closed(void *data)
{
    release_store(data);
}

static void on_timer_closed(uv_handle_t *timer)
{
    release_store(timer->data);
}

static void on_first_timer(uv_timer_t *timer)
{
    struct rota_store *store = timer->data;
    done_connect(&store->connect, false);
}

static enum rota_code open_store(struct uv_loop_s *loop, const struct rota_store_options *options,
                                 rota_store_on_session *on_session, struct rota_store **store,
                                 struct rota_error *error)
{
    static const struct rota_thread_options thread_options = {
        .name = "rota-store", .pending_max = ROTA_STORE_PENDING_MAX + ROTA_STORE_LETTERS_MAX + 1};
    struct rota_sql_url url;
    enum rota_code code = rota_sql_url_parse(rota_str(options->url), &url, error);
    if (code)
        return code;
    struct rota_store *made = calloc(1, sizeof *made);
    if (!made)
        return rota_error_no_memory(error, "for a store");
    made->loop = loop;
    made->url = url;
    made->options = *options;
    made->options.url = NULL; /* the caller's; and it has the password */
    if (!made->options.purpose)
        made->options.purpose = "store";
    rota_sql_url_format(&url, made->name);
    explicit_bzero(&url, sizeof url);
    rota_random_init(&made->random, (uint64_t)rota_clock_mono() ^ (uint64_t)(uintptr_t)made);
    made->backoff.max = CONNECT_PAUSE_MAX;
    made->connect = (struct rota_letter){.work = work_connect, .done = done_connect};
    made->on_session = on_session;
    made->is_connecting = on_session != NULL;
    made->n_parts = 1;
    rota_list_init(&made->asks);

    if (on_session)
        work_connect(&made->connect);
    bool is_lasting = made->code == ROTA_ERR_INVALID || made->code == ROTA_ERR_NOT_FOUND ||
                      made->code == ROTA_ERR_NO_MEMORY;
    code = is_lasting ? rota_error_set(error, made->code, "%s", made->error.text)
                      : rota_mailbox_thread_open(loop, &thread_options, &made->thread, error);
    if (code) {
        release_store(made);
        return code;
    }
    uv_timer_init(loop, &made->timer);
    uv_timer_init(loop, &made->late_timer);
    made->timer.data = made->late_timer.data = made;
    made->n_parts = 3;
    if (on_session)
        uv_timer_start(&made->timer, on_first_timer, 0, 0);
    else
        connect_now(made);
    *store = made;
    return ROTA_OK;
}

enum rota_code rota_store_open(struct uv_loop_s *loop, const struct rota_store_options *options,
                               struct rota_store **store, struct rota_error *error)
{
    return open_store(loop, options, NULL, store, error);
}

enum rota_code rota_store_open_now(struct uv_loop_s *loop, const struct rota_store_options *options,
                                   rota_store_on_session *on_session, struct rota_store **store,
                                   struct rota_error *error)
{
    return open_store(loop, options, on_session, store, error);
}

void rota_store_close(struct rota_store *store)
{
    if (store)
        rota_store_close_then(store, NULL, NULL);
}

void rota_store_close_then(struct rota_store *store, void (*on_closed)(void *data), void *data)
{
    store->on_closed = on_closed;
    store->closed_data = data;
    store->is_closed = true;
    store->is_up = false;
    uv_close((uv_handle_t *)&store->timer, on_timer_closed);
    uv_close((uv_handle_t *)&store->late_timer, on_timer_closed);
    rota_mailbox_thread_close(store->thread, on_thread_closed, store);
}
