/* The schedule of a broker's store, whose connection is run/store/store.c's. */
#include "run/work/broker/work_broker_reply.h"
#include "run/work/store/work_broker_store_inside.h"

#include "io/clock.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#define STORE_OF(letter_) (ROTA_CONTAINER(letter_, struct rota_broker_letter, letter)->store)

static void log_store(struct rota_broker_store *store, enum rota_log_level level,
                      const char *phrase, const char *why)
{
    rota_log(store->broker->options.log, rota_clock_wall(), level, phrase,
             ROTA_LOG_FACT("store", rota_store_name(store->store)), ROTA_LOG_FACT("why", why));
}

/* --- letters --- */

void rota_work_broker_store_post(struct rota_broker_letter *letter)
{
    assert(!letter->is_under_way);
    letter->is_under_way = true;
    letter->code = ROTA_OK;
    rota_store_post(letter->store->store, &letter->letter);
}

bool rota_work_broker_store_heard(struct rota_broker_letter *letter)
{
    if (letter->code)
        rota_store_fail(letter->store->store, &letter->error);
    return !letter->code;
}

/* On the thread. */
static enum rota_code on_session(void *data, struct rota_store_session *session,
                                 struct rota_error *error)
{
    struct rota_broker_store *store = data;
    enum rota_code code =
        session ? rota_store_jobs_bound(session, &store->new_bytes_max, error) : ROTA_OK;
    store->session = code ? NULL : session;
    return code;
}

static void on_up(void *data)
{
    struct rota_broker_store *store = data;
    store->is_up = true;
    store->bytes_max = store->new_bytes_max;
    rota_work_broker_store_parts_tell(store,
                                      &(struct rota_partition_event){.type = ROTA_PARTITION_UP});
    rota_work_broker_store_drive(store);
}

static void on_down(void *data, const struct rota_error *error)
{
    struct rota_broker_store *store = data;
    if (store->is_up)
        store->down_at = rota_clock_boot();
    store->why = *error;
    store->is_up = false;
    rota_work_broker_store_parts_tell(store,
                                      &(struct rota_partition_event){.type = ROTA_PARTITION_DOWN});
    rota_work_broker_store_drive(store);
}

/* --- unreachable, and back --- */

static void lose_store(struct rota_broker_store *store)
{
    store->broker->front.fsm.is_store_down = true;
    log_store(store, ROTA_LOG_ERROR, "store unreachable", store->why.text);
    rota_work_broker_hold(store->broker, ROTA_BROKER_HOLD_STORE, true);
    rota_work_broker_drop_answers(store->broker,
                                  "the outcome of this write is unknown, " ROTA_BROKER_STORE_AWAY);
    rota_work_broker_store_gate_unpark(store, NULL); /* each is rejected with its own error */
}

void rota_work_broker_store_there(struct rota_broker_store *store)
{
    if (!store->broker->front.fsm.is_store_down)
        return;
    store->broker->front.fsm.is_store_down = false;
    log_store(store, ROTA_LOG_INFO, "store reachable again", "");
    rota_work_broker_hold(store->broker, ROTA_BROKER_HOLD_STORE, false);
    rota_work_broker_touch(store->broker);
}

static void on_timer(uv_timer_t *timer)
{
    rota_work_broker_store_drive(timer->data);
}

static void set_timer(struct rota_broker_store *store, rota_time now)
{
    rota_time at = ROTA_TIME_NEVER;
    if (store->is_up)
        at = rota_partition_fsm_deadline(&store->fsm);
    else if (!store->broker->front.fsm.is_store_down)
        at = rota_time_add(store->down_at, ROTA_BROKER_STORE_PATIENCE);
    if (store->look.is_under_way || at == ROTA_TIME_NEVER) {
        uv_timer_stop(&store->timer);
        return;
    }
    uv_update_time(store->timer.loop);
    uv_timer_start(&store->timer, on_timer, at > now ? rota_queue_to_ms(at - now) + 1 : 0, 0);
}

void rota_work_broker_store_look_soon(struct rota_broker_store *store)
{
    rota_work_broker_store_parts_tell(store,
                                      &(struct rota_partition_event){.type = ROTA_PARTITION_WAITS});
    set_timer(store, rota_clock_boot());
}

void rota_work_broker_store_drive(struct rota_broker_store *store)
{
    rota_time now = rota_clock_boot();
    if (store->is_closing)
        return;
    if (!store->is_up && !store->broker->front.fsm.is_store_down &&
        now >= rota_time_add(store->down_at, ROTA_BROKER_STORE_PATIENCE))
        lose_store(store);
    rota_work_broker_store_turn_write(store);
    rota_work_broker_store_parts_take(store);
    set_timer(store, now);
}

/* --- the sink --- */

static void run_store_turn(struct rota_work_broker *broker)
{
    rota_work_broker_store_turn_write(broker->store);
    rota_work_broker_store_parts_take(broker->store);
}

static void release_store(struct rota_broker_store *store)
{
    if (--store->n_parts_open > 0)
        return;
    rota_work_broker_store_parts_deinit(store);
    rota_work_broker_store_turn_deinit(store);
    void (*on_closed)(void *data) = store->on_closed;
    void *data = store->data;
    store->broker->store = NULL;
    free(store);
    if (on_closed)
        on_closed(data);
}

static void on_store_closed(void *data)
{
    release_store(data);
}

static void on_timer_closed(uv_handle_t *timer)
{
    release_store(timer->data);
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
    rota_store_session_answer_deinit(&answer);
}

static void done_leave(struct rota_letter *letter, bool is_cancelled)
{
    struct rota_broker_store *store = STORE_OF(letter);
    (void)is_cancelled;
    store->leave.is_under_way = false;
    rota_store_close_then(store->store, on_store_closed, store);
}

void rota_work_broker_store_end(struct rota_broker_store *store)
{
    if (!store->is_leaving) {
        store->is_leaving = true;
        rota_work_broker_store_post(&store->leave);
    }
}

static void close_store(struct rota_work_broker *broker, void (*on_closed)(void *data), void *data)
{
    struct rota_broker_store *store = broker->store;
    rota_work_broker_store_parts_tell(store,
                                      &(struct rota_partition_event){.type = ROTA_PARTITION_DOWN});
    store->is_closing = true;
    store->on_closed = on_closed;
    store->data = data;
    if (store->has_route)
        rota_work_broker_cluster_unsubscribe(&store->route);
    rota_work_broker_store_gate_unpark(store, "this node is stopping");
    uv_close((uv_handle_t *)&store->timer, on_timer_closed);
    if (store->is_up)
        rota_work_broker_store_turn_write(store);
    if (!store->write.is_under_way)
        rota_work_broker_store_end(store);
}

const struct rota_broker_sink rota_broker_store_sink = {
    .append = rota_work_broker_store_turn_append,
    .turn = run_store_turn,
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
    rota_work_broker_store_parts_tell(store,
                                      &(struct rota_partition_event){.type = ROTA_PARTITION_ROUTE});
    rota_work_broker_store_drive(store);
}

static bool init(struct rota_broker_store *store)
{
    rota_map_init(&store->dirty_jobs, store->broker->seed);
    rota_list_init(&store->dirty);
    rota_list_init(&store->parked);
    struct rota_random random;
    rota_random_init(&random, store->broker->seed ^ 0x73746f7265);
    store->instance = (rota_random_next(&random) >> 2) + 1;
    store->bytes_max = ROTA_JOB_PAYLOAD_MAX;
    init_letter(store, &store->write, rota_work_broker_store_turn_work_write,
                rota_work_broker_store_turn_done_write);
    init_letter(store, &store->look, rota_work_broker_store_parts_work_look,
                rota_work_broker_store_parts_done_look);
    init_letter(store, &store->take, rota_work_broker_store_parts_work_take,
                rota_work_broker_store_parts_done_take);
    init_letter(store, &store->load, rota_work_broker_store_parts_work_load,
                rota_work_broker_store_parts_done_load);
    init_letter(store, &store->leave, work_leave, done_leave);
    const struct rota_partition_options options = {
        .broker = store->broker->core,
        .instance = store->instance,
        .is_alone = rota_work_broker_cluster_is_alone(store->broker->cluster),
        .owner = rota_work_broker_store_parts_owner,
        .data = store,
        .seed = store->broker->seed,
    };
    return rota_partition_fsm_init(&store->fsm, &options);
}

struct rota_store *rota_work_broker_store_handle(const struct rota_work_broker *broker)
{
    return broker->store ? broker->store->store : NULL;
}

enum rota_code rota_work_broker_store_open(struct rota_work_broker *broker, uv_loop_t *loop,
                                           const char *url, struct rota_error *error)
{
    struct rota_broker_store *store = calloc(1, sizeof *store);
    const struct rota_store_options options = {.url = url,
                                               .log = broker->options.log,
                                               .purpose = "jobs",
                                               .on_up = on_up,
                                               .on_down = on_down,
                                               .data = store};
    if (!store)
        return rota_error_no_memory(error, "for a store");
    store->broker = broker;
    if (broker->options.advertise)
        snprintf(store->owner, sizeof store->owner, "%s", broker->options.advertise);
    if (!init(store)) {
        free(store);
        return rota_error_no_memory(error, "for a store");
    }
    enum rota_code code = rota_store_open_now(loop, &options, on_session, &store->store, error);
    if (code) {
        rota_partition_fsm_deinit(&store->fsm);
        free(store);
        return code;
    }
    store->down_at = rota_clock_boot();
    uv_timer_init(loop, &store->timer);
    store->timer.data = store;
    store->n_parts_open = 2;
    broker->store = store;
    broker->log.sink = &rota_broker_store_sink;
    broker->options.store = NULL; /* the caller's; and it has the password */
    store->route = (struct rota_broker_cluster_subscriber){.on_route = on_route, .data = store};
    rota_work_broker_cluster_subscribe(broker->cluster, &store->route);
    store->has_route = true;
    uv_timer_start(&store->timer, on_timer, 0, 0);
    return ROTA_OK;
}
