/* The connection to a broker's store: made, lost, made again; and what there is to do. */
#include "run/broker_store.h"

#include "io/clock.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#define RETRY_MAX (5 * ROTA_SEC)

#define STORE_OF(letter_) (ROTA_LIST_ITEM(letter_, struct rota_broker_letter, letter)->store)

static void tell(struct rota_broker_store *store, enum rota_log_level level, const char *phrase,
                 const char *why)
{
    rota_log(store->broker->options.log, rota_clock_wall(), level, phrase,
             ROTA_LOG_FACT("store", store->name), ROTA_LOG_FACT("why", why));
}

/* --- letters --- */

void rota_broker_store_post(struct rota_broker_letter *letter)
{
    assert(!letter->is_under_way);
    letter->is_under_way = true;
    letter->code = ROTA_OK;
    enum rota_code code = rota_thread_post(letter->store->thread, &letter->letter);
    assert(!code); /* there is room for one of each kind */
    (void)code;
}

static void go_down(struct rota_broker_store *store, const struct rota_error *error)
{
    rota_time now = rota_clock_boot();
    if (store->is_up)
        store->down_at = now;
    store->why = *error;
    store->is_up = store->is_looked = false;
    store->retry_at = rota_time_add(now, rota_backoff_failed(&store->backoff, &store->random));
    if (!store->is_told_down)
        tell(store,
             rota_sql_is_disk_failure(store->url.kind, error) ? ROTA_LOG_ERROR : ROTA_LOG_WARN,
             "store down", error->text);
    store->is_told_down = true;
}

bool rota_broker_store_heard(struct rota_broker_letter *letter)
{
    struct rota_broker_store *store = letter->store;
    if (!letter->code) {
        rota_backoff_succeeded(&store->backoff);
        return true;
    }
    if (store->is_up || letter == &store->connect)
        go_down(store, &letter->error);
    return false;
}

/* On the thread. */
static void work_connect(struct rota_letter *letter)
{
    struct rota_broker_store *store = STORE_OF(letter);
    struct rota_broker_letter *own = &store->connect;
    rota_store_session_close(store->session);
    store->session = NULL;
    own->code = rota_store_session_open(&store->url, NULL, &store->session, &own->error);
    if (!own->code)
        own->code = rota_store_jobs_bound(store->session, &store->new_bytes_max, &own->error);
}

static void go_up(struct rota_broker_store *store)
{
    const char *warning = rota_store_session_warning(store->session);
    store->is_up = true;
    store->is_told_down = false;
    store->bytes_max = store->new_bytes_max;
    store->look_at = rota_clock_boot();
    tell(store, ROTA_LOG_INFO, "store up", "");
    if (warning)
        tell(store, ROTA_LOG_WARN, "store not durable", warning);
}

static void done_connect(struct rota_letter *letter, bool is_cancelled)
{
    struct rota_broker_store *store = STORE_OF(letter);
    store->connect.is_under_way = false;
    if (is_cancelled || store->is_closing)
        return;
    if (rota_broker_store_heard(&store->connect))
        go_up(store);
    rota_broker_store_drive(store);
}

/* --- away, and back --- */

static void go_away(struct rota_broker_store *store)
{
    store->is_away = true;
    tell(store, ROTA_LOG_ERROR, "store away", store->why.text);
    rota_broker_hold(store->broker->core, rota_work_broker_now(), true);
    rota_work_broker_drop_answers(
        store->broker, "it is not known whether this was written, " ROTA_BROKER_STORE_AWAY);
    rota_broker_store_unpark(store, NULL); /* each is refused in its own words */
}

void rota_broker_store_there(struct rota_broker_store *store)
{
    if (!store->is_away)
        return;
    store->is_away = false;
    tell(store, ROTA_LOG_INFO, "store back", "");
    rota_broker_hold(store->broker->core, rota_work_broker_now(), false);
    rota_work_broker_touch(store->broker);
}

static void on_timer(uv_timer_t *timer)
{
    rota_broker_store_drive(timer->data);
}

static void set_timer(struct rota_broker_store *store, rota_time now)
{
    rota_time at = ROTA_TIME_NEVER;
    if (store->is_up)
        at = store->look_at;
    else if (!store->connect.is_under_way)
        at = store->retry_at;
    if (!store->is_up && !store->is_away)
        at = rota_time_min(at, rota_time_add(store->down_at, ROTA_BROKER_STORE_PATIENCE));
    if (store->look.is_under_way || at == ROTA_TIME_NEVER) {
        uv_timer_stop(&store->timer);
        return;
    }
    uv_update_time(store->timer.loop);
    uv_timer_start(&store->timer, on_timer, at > now ? rota_queue_to_ms(at - now) + 1 : 0, 0);
}

void rota_broker_store_look_soon(struct rota_broker_store *store)
{
    store->look_at = rota_time_min(store->look_at,
                                   rota_time_add(store->look_began_at, ROTA_BROKER_STORE_LOOK_MIN));
    set_timer(store, rota_clock_boot());
}

void rota_broker_store_drive(struct rota_broker_store *store)
{
    rota_time now = rota_clock_boot();
    if (store->is_closing)
        return;
    if (!store->is_up && !store->connect.is_under_way && now >= store->retry_at)
        rota_broker_store_post(&store->connect);
    if (!store->is_up && !store->is_away &&
        now >= rota_time_add(store->down_at, ROTA_BROKER_STORE_PATIENCE))
        go_away(store);
    if (store->is_up && !store->look.is_under_way && now >= store->look_at) {
        store->look_began_at = now;
        rota_broker_store_post(&store->look);
    }
    rota_broker_store_write(store);
    rota_broker_store_take(store);
    set_timer(store, now);
}

/* --- the sink --- */

static void turn(struct rota_work_broker *broker)
{
    rota_broker_store_write(broker->store);
    rota_broker_store_take(broker->store);
}

static void let_go(struct rota_broker_store *store)
{
    if (--store->n_parts_open > 0)
        return;
    rota_store_session_close(store->session);
    rota_broker_store_parts_deinit(store);
    rota_broker_store_turn_deinit(store);
    explicit_bzero(&store->url, sizeof store->url);
    void (*on_closed)(void *data) = store->on_closed;
    void *data = store->data;
    store->broker->store = NULL;
    free(store);
    if (on_closed)
        on_closed(data);
}

static void on_thread_closed(void *data)
{
    let_go(data);
}

static void on_timer_closed(uv_handle_t *timer)
{
    let_go(timer->data);
}

/* On the thread: others need not wait until we are found dead. */
static void work_leave(struct rota_letter *letter)
{
    struct rota_broker_store *store = STORE_OF(letter);
    struct rota_store_answer answer = {0};
    struct rota_store_request request = {.verb = ROTA_STORE_MEMBER_REMOVE};
    request.member.address = rota_str(store->owner);
    if (!store->session || !store->owner[0])
        return;
    rota_store_session_do(store->session, &request, &answer);
    rota_store_answer_deinit(&answer);
}

static void done_leave(struct rota_letter *letter, bool is_cancelled)
{
    struct rota_broker_store *store = STORE_OF(letter);
    (void)is_cancelled;
    store->leave.is_under_way = false;
    rota_thread_close(store->thread, on_thread_closed, store);
}

void rota_broker_store_end(struct rota_broker_store *store)
{
    if (!store->is_leaving) {
        store->is_leaving = true;
        rota_broker_store_post(&store->leave);
    }
}

static void close_store(struct rota_work_broker *broker, void (*on_closed)(void *data), void *data)
{
    struct rota_broker_store *store = broker->store;
    store->is_closing = true;
    store->on_closed = on_closed;
    store->data = data;
    if (store->has_route)
        rota_broker_cluster_unsubscribe(&store->route);
    rota_broker_store_unpark(store, "this broker stops");
    uv_close((uv_handle_t *)&store->timer, on_timer_closed);
    if (store->is_up)
        rota_broker_store_write(store);
    if (!store->write.is_under_way)
        rota_broker_store_end(store);
}

const struct rota_broker_sink rota_work_broker_store_sink = {
    .append = rota_broker_store_append,
    .turn = turn,
    .close = close_store,
    .failed = "the store of this node can no longer be written",
};

/* --- the beginning --- */

static void init_letter(struct rota_broker_store *store, struct rota_broker_letter *letter,
                        void (*work)(struct rota_letter *letter),
                        void (*done)(struct rota_letter *letter, bool is_cancelled))
{
    *letter = (struct rota_broker_letter){.letter = {.work = work, .done = done}, .store = store};
}

static void on_route(void *data)
{
    struct rota_broker_store *store = data;
    store->is_looked = false;
    store->look_at = rota_clock_boot();
    rota_broker_store_drive(store);
}

static void init(struct rota_broker_store *store)
{
    rota_map_init(&store->parts, store->broker->seed);
    rota_map_init(&store->dirty_jobs, store->broker->seed);
    rota_list_init(&store->dirty);
    rota_list_init(&store->parked);
    rota_random_init(&store->random, store->broker->seed ^ 0x73746f7265);
    store->instance = (rota_random_next(&store->random) >> 2) + 1;
    store->backoff.max = RETRY_MAX;
    store->bytes_max = ROTA_JOB_PAYLOAD_MAX;
    init_letter(store, &store->connect, work_connect, done_connect);
    init_letter(store, &store->write, rota_broker_store_work_write, rota_broker_store_done_write);
    init_letter(store, &store->look, rota_broker_store_work_look, rota_broker_store_done_look);
    init_letter(store, &store->take, rota_broker_store_work_take, rota_broker_store_done_take);
    init_letter(store, &store->load, rota_broker_store_work_load, rota_broker_store_done_load);
    init_letter(store, &store->leave, work_leave, done_leave);
}

/* The first connection is waited for, so that what will never do is told at once. A database
 * that is away is waited for as it is later. */
static enum rota_code connect_first(struct rota_broker_store *store, struct rota_error *error)
{
    work_connect(&store->connect.letter);
    store->down_at = rota_clock_boot();
    if (store->connect.code == ROTA_ERR_INVALID || store->connect.code == ROTA_ERR_NOT_FOUND ||
        store->connect.code == ROTA_ERR_NO_MEMORY) {
        *error = store->connect.error;
        return store->connect.code;
    }
    if (rota_broker_store_heard(&store->connect))
        go_up(store);
    return ROTA_OK;
}

enum rota_code rota_work_broker_store_open(struct rota_work_broker *broker, uv_loop_t *loop,
                                           const char *url, struct rota_error *error)
{
    static const struct rota_thread_options thread_options = {.name = "rota-jobs",
                                                              .pending_max = 8};
    struct rota_broker_store *store = calloc(1, sizeof *store);
    if (!store)
        return rota_error_set(error, ROTA_ERR_NO_MEMORY, "no memory for a store");
    store->broker = broker;
    if (broker->options.advertise)
        snprintf(store->owner, sizeof store->owner, "%s", broker->options.advertise);
    init(store);
    enum rota_code code = rota_sql_url_parse(rota_str(url), &store->url, error);
    if (!code) {
        rota_sql_url_format(&store->url, store->name);
        code = connect_first(store, error);
    }
    if (!code)
        code = rota_thread_open(loop, &thread_options, &store->thread, error);
    if (code) {
        rota_store_session_close(store->session);
        explicit_bzero(&store->url, sizeof store->url);
        free(store);
        return code;
    }
    uv_timer_init(loop, &store->timer);
    store->timer.data = store;
    store->n_parts_open = 2;
    broker->store = store;
    broker->sink = &rota_work_broker_store_sink;
    broker->options.store = NULL; /* the caller's; and it has the password */
    store->route = (struct rota_broker_cluster_subscriber){.on_route = on_route, .data = store};
    rota_broker_cluster_subscribe(broker->cluster, &store->route);
    store->has_route = true;
    uv_timer_start(&store->timer, on_timer, 0, 0);
    return ROTA_OK;
}
