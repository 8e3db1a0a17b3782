/* What connected workers are sent, and what follows from what they report. */
#include "core/work/worker/delivery_fsm.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

enum { BIG = 6 << 20 };

/* A broker with a queue whose partition 0 is ours and whose partition 1 is another node's. */
struct bench {
    struct rota_broker *broker;
    struct rota_remote_fsm remote;
    struct rota_delivery_fsm fsm;
    struct rota_delivery_worker worker;
    rota_time now;
    uint64_t attempt;                           /* of the last dispatch */
    const struct rota_delivery_action *actions; /* of the last step */
};

static struct rota_work_now at(const struct bench *bench)
{
    return (struct rota_work_now){.boot = bench->now, .wall = bench->now};
}

static bool is_others(void *data, struct rota_str queue, struct rota_job_id id,
                      struct rota_str *node)
{
    (void)data;
    (void)queue;
    *node = rota_str("there:1");
    return rota_job_id_partition(id) == 1;
}

static size_t step(struct bench *bench, struct rota_delivery_event event)
{
    struct rota_delivery_actions todo = rota_delivery_fsm_step(&bench->fsm, at(bench), &event);
    bench->actions = todo.items;
    return todo.n;
}

/* Carry out what the broker wants; returns how many jobs were handed out. */
static unsigned settle(struct bench *bench)
{
    unsigned n_handed = 0;
    size_t n;
    do {
        const struct rota_work_effect *effects = rota_broker_effects(bench->broker, &n);
        for (size_t i = 0; i < n; i++) {
            if (effects[i].type != ROTA_WORK_DO_DISPATCH)
                continue;
            bench->attempt = effects[i].attempt;
            assert_true(step(bench, (struct rota_delivery_event){.type = ROTA_DELIVERY_HAND,
                                                                 .session = effects[i].session,
                                                                 .handed = effects[i].handed}));
            n_handed++;
        }
        rota_broker_clear(bench->broker);
        rota_broker_durable(bench->broker, at(bench), rota_broker_last_number(bench->broker));
        rota_broker_effects(bench->broker, &n);
    } while (n > 0);
    return n_handed;
}

static int set_up(void **state)
{
    struct bench *bench = calloc(1, sizeof *bench);
    assert_non_null(bench);
    bench->now = ROTA_SEC;
    assert_false(rota_broker_new(&(struct rota_broker_options){.seed = 7}, &bench->broker, NULL));
    rota_broker_begin(bench->broker, at(bench));
    assert_false(rota_broker_partition_open(bench->broker, at(bench), rota_str("q"), 0, 1, NULL));
    rota_remote_fsm_init(&bench->remote, 1);
    const struct rota_delivery_options options = {
        .broker = bench->broker, .remote = &bench->remote, .is_others = is_others, .data = bench};
    assert_true(rota_delivery_fsm_init(&bench->fsm, &options, bench->now));
    step(bench,
         (struct rota_delivery_event){.type = ROTA_DELIVERY_CONNECTED, .worker = &bench->worker});
    *state = bench;
    settle(bench);
    return 0;
}

static int tear_down(void **state)
{
    struct bench *bench = *state;
    rota_delivery_fsm_deinit(&bench->fsm);
    rota_remote_fsm_deinit(&bench->remote);
    rota_broker_free(bench->broker);
    free(bench);
    return 0;
}

static size_t ready(struct bench *bench, uint32_t slots, struct rota_worker_running *held, size_t n)
{
    struct rota_str queue = rota_str("q");
    const struct rota_worker_spec spec = {
        .name = rota_str("w"), .epoch = 1, .queues = &queue, .n_queues = 1, .slots = slots};
    return step(bench, (struct rota_delivery_event){.type = ROTA_DELIVERY_READY,
                                                    .worker = &bench->worker,
                                                    .spec = &spec,
                                                    .held = held,
                                                    .n_held = n});
}

static struct rota_job_id add(struct bench *bench)
{
    struct rota_job_spec spec = {.queue = rota_str("q")};
    struct rota_job_id id;
    uint64_t number;
    bool is_new;
    assert_false(rota_broker_add(bench->broker, at(bench), &spec, &id, &is_new, &number, NULL));
    return id;
}

static size_t flush(struct bench *bench)
{
    return step(bench, (struct rota_delivery_event){.type = ROTA_DELIVERY_FLUSH});
}

static size_t check(struct bench *bench)
{
    bench->now = rota_delivery_fsm_deadline(&bench->fsm);
    return step(bench, (struct rota_delivery_event){.type = ROTA_DELIVERY_TICK});
}

static struct rota_worker_running other_job(uint64_t number)
{
    return (struct rota_worker_running){rota_str("q"), rota_job_id_make(ROTA_SEC, 1, number),
                                        1000 + number};
}

static size_t hand(struct bench *bench, size_t size)
{
    return step(bench, (struct rota_delivery_event){.type = ROTA_DELIVERY_HAND,
                                                    .session = bench->worker.session,
                                                    .handed = bench->worker.handed + 1,
                                                    .size = size});
}

static bool is_running(const struct bench *bench, struct rota_job_id id)
{
    struct rota_job_view view;
    assert_false(rota_broker_find(bench->broker, rota_str("q"), id, &view, NULL));
    return view.state == ROTA_JOB_RUNNING;
}

static void a_worker_that_was_sent_jobs_is_asked_until_it_answers(void **state)
{
    struct bench *bench = *state;
    ready(bench, 1, NULL, 0);
    struct rota_job_id id = add(bench);
    assert_int_equal(settle(bench), 1);
    assert_int_equal(check(bench), 0); /* the job is about to be sent */
    assert_int_equal(flush(bench), 1);
    assert_int_equal(bench->actions[0].type, ROTA_DELIVERY_DO_SEND_JOBS);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(check(bench), 1);
        assert_int_equal(bench->actions[0].type, ROTA_DELIVERY_DO_ASK);
        assert_int_equal(bench->actions[0].round, 1);
    }
    struct rota_worker_running held = {rota_str("q"), id, bench->attempt};
    struct rota_delivery_event holds = {.type = ROTA_DELIVERY_HOLDS,
                                        .worker = &bench->worker,
                                        .held = &held,
                                        .n_held = 1,
                                        .up_to = bench->worker.handed,
                                        .round = 1};
    step(bench, holds);
    assert_true(is_running(bench, id));
    for (int i = 1; i < ROTA_DELIVERY_SURE_CHECKS; i++)
        assert_int_equal(check(bench), 0);
    assert_int_equal(check(bench), 1); /* its own messages may be lost, too */
}

static void attempts_that_a_worker_does_not_name_did_not_reach_it(void **state)
{
    struct bench *bench = *state;
    ready(bench, 1, NULL, 0);
    add(bench);
    settle(bench);
    flush(bench);
    struct rota_delivery_event holds = {
        .type = ROTA_DELIVERY_HOLDS, .worker = &bench->worker, .round = 1};
    step(bench, holds); /* asked before the job was handed out */
    assert_int_equal(settle(bench), 0);
    holds.up_to = bench->worker.handed + 1; /* a question that was never asked */
    step(bench, holds);
    assert_int_equal(settle(bench), 0);
    holds.up_to--;
    step(bench, holds);
    assert_int_equal(settle(bench), 1); /* it is handed out again */
}

static void an_unready_worker_is_disconnected(void **state)
{
    struct bench *bench = *state;
    for (int i = 1; i < ROTA_DELIVERY_READY_CHECKS; i++)
        assert_int_equal(check(bench), 0);
    assert_int_equal(check(bench), 1);
    assert_int_equal(bench->actions[0].type, ROTA_DELIVERY_DO_DROP);
    assert_int_equal(check(bench), 0);
}

static void jobs_and_cancels_are_sent_in_their_order(void **state)
{
    struct bench *bench = *state;
    ready(bench, 8, NULL, 0);
    const struct rota_delivery_event cancel = {.type = ROTA_DELIVERY_CANCEL,
                                               .session = bench->worker.session};
    assert_int_equal(hand(bench, 1), 1);
    assert_int_equal(step(bench, cancel), 2);
    assert_int_equal(bench->actions[0].type, ROTA_DELIVERY_DO_SEND_JOBS);
    assert_int_equal(bench->actions[1].type, ROTA_DELIVERY_DO_WRITE);
    assert_int_equal(hand(bench, 1), 2);
    assert_int_equal(bench->actions[0].type, ROTA_DELIVERY_DO_SEND_CANCELS);
    assert_int_equal(flush(bench), 1);
    assert_int_equal(bench->actions[0].type, ROTA_DELIVERY_DO_SEND_JOBS);
    assert_int_equal(bench->worker.round, 3);
}

static void a_message_is_bounded(void **state)
{
    struct bench *bench = *state;
    ready(bench, 8, NULL, 0);
    assert_int_equal(hand(bench, 3 * BIG), 1); /* one job may be larger than all */
    assert_int_equal(hand(bench, BIG), 2);
    assert_int_equal(hand(bench, BIG), 1);
    assert_int_equal(hand(bench, BIG), 2);
    for (int i = 1; i < ROTA_DELIVERY_BATCH_MAX; i++)
        assert_int_equal(hand(bench, 0), 1);
    assert_int_equal(hand(bench, 0), 2);
}

static void verdicts_travel_with_jobs_if_the_worker_supports_it(void **state)
{
    struct bench *bench = *state;
    ready(bench, 8, NULL, 0);
    const struct rota_delivery_event verdict = {.type = ROTA_DELIVERY_VERDICT,
                                                .worker = &bench->worker};
    for (int i = 0; i < 2; i++) {
        bench->worker.takes_ended_with_jobs = i;
        step(bench, verdict);
        hand(bench, 1);
        assert_int_equal(flush(bench), 2);
        assert_int_equal(bench->actions[0].type,
                         i ? ROTA_DELIVERY_DO_MERGE : ROTA_DELIVERY_DO_SEND_VERDICTS);
        assert_int_equal(bench->actions[1].type, ROTA_DELIVERY_DO_SEND_JOBS);
    }
    assert_int_equal(bench->worker.round, 2); /* verdicts begin none */
}

static void a_worker_that_is_ready_gets_no_more_jobs_than_it_has_slots_left(void **state)
{
    struct bench *bench = *state;
    struct rota_worker_running held[] = {other_job(1), other_job(2)};
    add(bench);
    add(bench);
    settle(bench);
    assert_int_equal(ready(bench, 3, held, 2), 0);
    assert_int_equal(settle(bench), 1); /* jobs of another node have the others */
    assert_int_equal(bench->worker.n_kept, 2);
    assert_int_equal(bench->remote.attempts.size, 2);
}

static void an_attempt_of_another_session_is_cancelled(void **state)
{
    struct bench *bench = *state;
    struct rota_worker_running held = other_job(1);
    assert_false(rota_remote_fsm_take(&bench->remote, bench->now, 77, rota_str("there:1"), &held,
                                      ROTA_SEC, NULL));
    assert_int_equal(ready(bench, 2, &held, 1), 1);
    assert_int_equal(bench->actions[0].type, ROTA_DELIVERY_DO_CANCEL);
    assert_int_equal(bench->actions[0].attempt->attempt, held.attempt);
    assert_int_equal(bench->worker.n_kept, 0);
}

static void an_end_of_another_nodes_job_goes_there_and_frees_the_slot(void **state)
{
    struct bench *bench = *state;
    struct rota_worker_running held = other_job(1);
    ready(bench, 1, &held, 1);
    add(bench);
    assert_int_equal(settle(bench), 0);
    struct rota_attempt_end end = {
        .queue = held.queue, .id = held.id, .attempt = held.attempt, .cause = ROTA_JOB_CAUSE_DONE};
    const struct rota_delivery_event event = {
        .type = ROTA_DELIVERY_END, .worker = &bench->worker, .end = &end};
    assert_int_equal(step(bench, event), 0); /* the other node gives the verdict */
    assert_int_equal(settle(bench), 1);
    assert_int_equal(bench->worker.n_kept, 0);
    end.attempt++;
    assert_int_equal(step(bench, event), 1);
    assert_int_equal(bench->actions[0].type, ROTA_DELIVERY_DO_ANSWER);
    assert_int_equal(bench->actions[0].code, ROTA_ERR_NOT_FOUND);
    assert_int_equal(bench->actions[0].number, 0); /* there is no record to wait for */
}

static void a_node_that_drains_hands_nothing_out(void **state)
{
    struct bench *bench = *state;
    struct rota_worker_running unknown = {rota_str("q"), rota_job_id_make(ROTA_SEC, 0, 5), 9};
    add(bench);
    step(bench, (struct rota_delivery_event){.type = ROTA_DELIVERY_DRAIN, .is_draining = true});
    ready(bench, 2, &unknown, 1); /* its claim is refused, but the slot stays empty */
    assert_int_equal(settle(bench), 0);
    const struct rota_worker_running other = other_job(1);
    const struct rota_delivery_event fetched = {.type = ROTA_DELIVERY_FETCHED,
                                                .session = bench->worker.session,
                                                .attempt = &other,
                                                .node = rota_str("there:1"),
                                                .lease = ROTA_SEC};
    assert_int_equal(step(bench, fetched), 0);
    step(bench, (struct rota_delivery_event){.type = ROTA_DELIVERY_DRAIN});
    assert_int_equal(settle(bench), 1);
    assert_int_equal(step(bench, fetched), 1);
}

static void slots_that_were_not_reported_are_learned(void **state)
{
    struct bench *bench = *state;
    ready(bench, 0, NULL, 0);
    add(bench);
    assert_int_equal(settle(bench), 0);
    const struct rota_delivery_event holds = {
        .type = ROTA_DELIVERY_HOLDS, .worker = &bench->worker, .has_slots = true, .n = 1};
    assert_int_equal(step(bench, holds), 1);
    assert_int_equal(bench->actions[0].type, ROTA_DELIVERY_DO_LEARN);
    assert_int_equal(settle(bench), 1);
}

static rota_time heard_at(const struct bench *bench)
{
    struct rota_worker_view view;
    size_t place = 0;
    assert_true(rota_broker_next_worker(bench->broker, &place, &view));
    return view.heard_at;
}

/* For people: how long a worker has been silent. It is asked now and then whatever it does. */
static void an_answer_shows_when_a_worker_was_last_seen(void **state)
{
    struct bench *bench = *state;
    ready(bench, 1, NULL, 0);
    assert_int_equal(heard_at(bench), bench->now);
    bench->now += ROTA_MIN;
    step(bench,
         (struct rota_delivery_event){.type = ROTA_DELIVERY_HOLDS, .worker = &bench->worker});
    assert_int_equal(heard_at(bench), bench->now);
}

static void a_session_that_ended_is_unknown(void **state)
{
    struct bench *bench = *state;
    ready(bench, 1, NULL, 0);
    uint64_t session = bench->worker.session;
    assert_true(rota_delivery_fsm_has(&bench->fsm, session));
    assert_int_equal(
        step(bench, (struct rota_delivery_event){.type = ROTA_DELIVERY_LOST, .session = session}),
        1);
    assert_int_equal(bench->actions[0].type, ROTA_DELIVERY_DO_DROP);
    assert_false(rota_delivery_fsm_has(&bench->fsm, session));
    assert_int_equal(
        step(bench, (struct rota_delivery_event){.type = ROTA_DELIVERY_HAND, .session = session}),
        0);
}

static size_t holds(struct bench *bench, uint64_t round)
{
    return step(bench, (struct rota_delivery_event){.type = ROTA_DELIVERY_HOLDS,
                                                    .worker = &bench->worker,
                                                    .round = round,
                                                    .has_slots = true,
                                                    .n = 5});
}

static void an_answer_counts_for_the_rounds_before_its_question_only(void **state)
{
    struct bench *bench = *state;
    ready(bench, 8, NULL, 0);
    for (int i = 0; i < 2; i++) {
        hand(bench, 1);
        flush(bench);
    }
    assert_int_equal(holds(bench, 3), 0); /* to a question of another */
    holds(bench, 1);
    assert_int_equal(check(bench), 1);
    holds(bench, 2);
    assert_int_equal(check(bench), 0);
    hand(bench, 1);
    flush(bench);
    hand(bench, 1);
    assert_int_equal(check(bench), 0); /* there is more to send: it is asked after that */
    flush(bench);
    assert_int_equal(check(bench), 1);
}

static void attempts_in_flight_stay_with_a_worker_that_is_ready_again(void **state)
{
    struct bench *bench = *state;
    ready(bench, 1, NULL, 0);
    struct rota_job_id id = add(bench);
    assert_int_equal(settle(bench), 1);
    uint64_t attempt = bench->attempt, session = bench->worker.session;
    ready(bench, 1, NULL, 0);
    assert_int_equal(settle(bench), 0);
    assert_true(bench->worker.session != session && is_running(bench, id));
    struct rota_attempt_end end = {
        .queue = rota_str("q"), .id = id, .attempt = attempt, .cause = ROTA_JOB_CAUSE_DONE};
    step(bench, (struct rota_delivery_event){
                    .type = ROTA_DELIVERY_END, .worker = &bench->worker, .end = &end});
    assert_int_equal(bench->actions[0].code, ROTA_OK);
}

static void how_a_session_ended_is_how_its_jobs_of_other_nodes_do(void **state)
{
    static const struct {
        enum rota_session_end how;
        enum rota_job_cause cause;
    } CASES[] = {{ROTA_SESSION_LEFT, ROTA_JOB_CAUSE_FAILED},
                 {ROTA_SESSION_DIED, ROTA_JOB_CAUSE_LOST},
                 {ROTA_SESSION_EXCUSED, ROTA_JOB_CAUSE_NONE}};
    struct bench *bench = *state;
    for (size_t i = 0; i < 3; i++) {
        struct rota_worker_running held = other_job(i + 1);
        size_t n;
        ready(bench, 1, &held, 1);
        rota_remote_fsm_answered(&bench->remote, bench->now, held.id, held.attempt, ROTA_OK, false);
        rota_remote_fsm_clear(&bench->remote);
        step(bench, (struct rota_delivery_event){.type = ROTA_DELIVERY_DISCONNECTED,
                                                 .worker = &bench->worker,
                                                 .how = CASES[i].how});
        const struct rota_remote_action *actions = rota_remote_fsm_actions(&bench->remote, &n);
        assert_int_equal(n, CASES[i].cause != ROTA_JOB_CAUSE_NONE);
        assert_true(n == 0 || actions[0].end.cause == CASES[i].cause);
        rota_remote_fsm_clear(&bench->remote);
        bench->worker = (struct rota_delivery_worker){0};
        step(bench, (struct rota_delivery_event){.type = ROTA_DELIVERY_CONNECTED,
                                                 .worker = &bench->worker});
    }
}

static void an_ended_attempt_keeps_no_slot(void **state)
{
    struct bench *bench = *state;
    struct rota_worker_running held = other_job(1);
    struct rota_attempt_end end = {
        .queue = held.queue, .id = held.id, .attempt = held.attempt, .cause = ROTA_JOB_CAUSE_DONE};
    ready(bench, 1, &held, 1);
    for (int i = 0; i < 2; i++) { /* said twice, it counts once */
        bench->worker.n_kept = 1;
        step(bench, (struct rota_delivery_event){
                        .type = ROTA_DELIVERY_END, .worker = &bench->worker, .end = &end});
        assert_int_equal(bench->worker.n_kept, i);
    }
    step(bench, (struct rota_delivery_event){.type = ROTA_DELIVERY_DISCONNECTED,
                                             .worker = &bench->worker,
                                             .how = ROTA_SESSION_EXCUSED});
    bench->worker = (struct rota_delivery_worker){0};
    step(bench,
         (struct rota_delivery_event){.type = ROTA_DELIVERY_CONNECTED, .worker = &bench->worker});
    assert_int_equal(ready(bench, 1, &held, 1), 0); /* the answer to its end is in flight */
    assert_int_equal(bench->worker.n_kept, 0);
}

/* --- slots --- */

static size_t tell(struct bench *bench, enum rota_delivery_event_type type, uint32_t n)
{
    return step(bench,
                (struct rota_delivery_event){.type = type, .worker = &bench->worker, .n = n});
}

static void slots_that_a_worker_reports_later_count(void **state)
{
    struct bench *bench = *state;
    for (int i = 0; i < 4; i++)
        add(bench);
    tell(bench, ROTA_DELIVERY_SLOTS, 4); /* it is not ready */
    ready(bench, 1, NULL, 0);
    assert_int_equal(settle(bench), 1);
    tell(bench, ROTA_DELIVERY_SLOTS, 3);
    assert_int_equal(settle(bench), 2);
    assert_int_equal(bench->worker.slots, 3);
}

static void slots_kept_for_other_nodes_are_not_filled_here(void **state)
{
    struct bench *bench = *state;
    tell(bench, ROTA_DELIVERY_KEEP, 1); /* it is not ready */
    ready(bench, 3, NULL, 0);
    assert_int_equal(bench->worker.n_kept, 0);
    tell(bench, ROTA_DELIVERY_KEEP, 1);
    tell(bench, ROTA_DELIVERY_KEEP, 1);
    for (int i = 0; i < 4; i++)
        add(bench);
    assert_int_equal(settle(bench), 1);
    tell(bench, ROTA_DELIVERY_RELEASE, 1);
    assert_int_equal(settle(bench), 1);
    tell(bench, ROTA_DELIVERY_RELEASE, 7); /* more than it kept */
    assert_int_equal(settle(bench), 1);
    assert_int_equal(bench->worker.n_kept, 0);
    tell(bench, ROTA_DELIVERY_KEEP, 7); /* more than it has */
    assert_int_equal(settle(bench), 0);
    assert_int_equal(bench->worker.n_kept, 7);
}

static void cancel_of_another_nodes_job_frees_its_slot(void **state)
{
    struct bench *bench = *state;
    ready(bench, 1, NULL, 0);
    tell(bench, ROTA_DELIVERY_KEEP, 1);
    add(bench);
    assert_int_equal(settle(bench), 0);
    assert_int_equal(tell(bench, ROTA_DELIVERY_CANCEL, 0), 1); /* of one of ours */
    assert_int_equal(settle(bench), 0);
    tell(bench, ROTA_DELIVERY_CANCEL, 1);
    assert_int_equal(settle(bench), 1);
}

/* --- what it says of its jobs --- */

static void progress_is_shown_at_the_node_of_the_job(void **state)
{
    struct bench *bench = *state;
    struct rota_worker_running other = other_job(1);
    struct rota_job_view view;
    size_t n;
    struct rota_job_id id = add(bench);
    ready(bench, 2, &other, 1);
    assert_int_equal(settle(bench), 1);
    rota_remote_fsm_answered(&bench->remote, bench->now, other.id, other.attempt, ROTA_OK, false);
    rota_remote_fsm_clear(&bench->remote);
    struct rota_attempt_end said = {
        .queue = rota_str("q"), .id = id, .attempt = bench->attempt, .reason = rota_str("half")};
    const struct rota_delivery_event event = {
        .type = ROTA_DELIVERY_PROGRESS, .worker = &bench->worker, .end = &said};
    step(bench, event);
    assert_false(rota_broker_find(bench->broker, rota_str("q"), id, &view, NULL));
    assert_true(rota_str_is_equal(view.progress, rota_str("half")));
    rota_remote_fsm_actions(&bench->remote, &n);
    assert_int_equal(n, 0);

    said.id = other.id;
    said.attempt = other.attempt;
    said.reason = rota_str("most");
    step(bench, event);
    const struct rota_remote_action *actions = rota_remote_fsm_actions(&bench->remote, &n);
    assert_int_equal(n, 1);
    assert_true(rota_str_is_equal(actions[0].end.reason, rota_str("most")));
    rota_remote_fsm_clear(&bench->remote);
}

static void invalid_end_of_another_nodes_job_fails_its_attempt_there(void **state)
{
    static char huge[ROTA_JOB_PAYLOAD_MAX + 1];
    struct bench *bench = *state;
    struct rota_worker_running held = other_job(1);
    ready(bench, 1, &held, 1);
    rota_remote_fsm_answered(&bench->remote, bench->now, held.id, held.attempt, ROTA_OK, false);
    rota_remote_fsm_clear(&bench->remote);
    struct rota_attempt_end end = {.queue = held.queue,
                                   .id = held.id,
                                   .attempt = held.attempt,
                                   .cause = ROTA_JOB_CAUSE_DONE,
                                   .retry_after = ROTA_HOUR,
                                   .bytes = rota_str_of(huge, sizeof huge)};
    size_t n;
    step(bench, (struct rota_delivery_event){
                    .type = ROTA_DELIVERY_END, .worker = &bench->worker, .end = &end});
    const struct rota_remote_action *actions = rota_remote_fsm_actions(&bench->remote, &n);
    assert_int_equal(n, 1);
    assert_int_equal(actions[0].end.cause, ROTA_JOB_CAUSE_FAILED);
    assert_int_equal(actions[0].end.bytes.size, 0);
    assert_int_equal(actions[0].end.retry_after, 0);
    assert_true(actions[0].end.reason.size > 0);
}

static void worker_that_is_not_ready_is_ignored(void **state)
{
    struct bench *bench = *state;
    struct rota_job_id id = add(bench);
    struct rota_attempt_end end = {.queue = rota_str("q"), .id = id, .attempt = 1};
    for (int type = ROTA_DELIVERY_END; type <= ROTA_DELIVERY_RELEASE; type++) {
        struct rota_delivery_event event = {
            .type = (enum rota_delivery_event_type)type, .worker = &bench->worker, .n = 1};
        if (type == ROTA_DELIVERY_END || type == ROTA_DELIVERY_PROGRESS)
            event.end = &end;
        if (type != ROTA_DELIVERY_VERDICT)
            assert_int_equal(step(bench, event), 0);
    }
    assert_int_equal(bench->worker.round, 0);
    assert_int_equal(flush(bench), 0);
}

/* --- messages --- */

static void messages_of_cancels_and_verdicts_are_bounded(void **state)
{
    static const struct {
        enum rota_delivery_event_type event;
        enum rota_delivery_action_type action;
    } CASES[] = {{ROTA_DELIVERY_CANCEL, ROTA_DELIVERY_DO_SEND_CANCELS},
                 {ROTA_DELIVERY_VERDICT, ROTA_DELIVERY_DO_SEND_VERDICTS}};
    struct bench *bench = *state;
    ready(bench, 8, NULL, 0);
    for (int i = 0; i < 2; i++) {
        for (int j = 0; j < ROTA_DELIVERY_BATCH_MAX; j++)
            assert_int_equal(tell(bench, CASES[i].event, 0), 1);
        assert_int_equal(tell(bench, CASES[i].event, 0), 2);
        assert_int_equal(bench->actions[0].type, CASES[i].action);
        assert_int_equal(bench->actions[1].type, ROTA_DELIVERY_DO_WRITE);
        assert_int_equal(flush(bench), 1); /* the last one */
        assert_int_equal(bench->actions[0].type, CASES[i].action);
    }
    assert_int_equal(flush(bench), 0);
}

static void job_is_counted_with_its_fixed_part(void **state)
{
    struct bench *bench = *state;
    const size_t most = ROTA_DELIVERY_BATCH_BYTES - 2 * ROTA_DELIVERY_JOB_BYTES;
    ready(bench, 8, NULL, 0);
    hand(bench, most);
    assert_int_equal(hand(bench, 0), 1); /* just fits */
    assert_int_equal(hand(bench, 0), 2);
    hand(bench, most);
    flush(bench);
    hand(bench, most);
    assert_int_equal(hand(bench, 1), 2);
}

static void worker_whose_capabilities_are_invalid_is_refused(void **state)
{
    struct bench *bench = *state;
    struct rota_str queue = rota_str("q"), bad = rota_str("a b");
    const struct rota_worker_spec spec = {.name = rota_str("w"),
                                          .epoch = 1,
                                          .capabilities = &bad,
                                          .n_capabilities = 1,
                                          .queues = &queue,
                                          .n_queues = 1,
                                          .slots = 1};
    assert_int_equal(step(bench, (struct rota_delivery_event){.type = ROTA_DELIVERY_READY,
                                                              .worker = &bench->worker,
                                                              .spec = &spec}),
                     1);
    assert_int_equal(bench->actions[0].type, ROTA_DELIVERY_DO_REFUSE);
    assert_true(bench->fsm.error.text[0] != '\0');
    assert_int_equal(bench->worker.session, 0);
}

static void worker_that_is_ready_again_has_one_session(void **state)
{
    struct bench *bench = *state;
    ready(bench, 1, NULL, 0);
    uint64_t session = bench->worker.session;
    ready(bench, 1, NULL, 0);
    assert_false(rota_delivery_fsm_has(&bench->fsm, session));
    assert_true(rota_delivery_fsm_has(&bench->fsm, bench->worker.session));
}

static void check_is_not_early_and_asks_every_worker(void **state)
{
    struct bench *bench = *state;
    struct rota_delivery_worker other = {0};
    ready(bench, 1, NULL, 0);
    step(bench, (struct rota_delivery_event){.type = ROTA_DELIVERY_CONNECTED, .worker = &other});
    for (int i = 1; i < ROTA_DELIVERY_READY_CHECKS; i++)
        check(bench);
    bench->now = rota_delivery_fsm_deadline(&bench->fsm) - 1;
    assert_int_equal(step(bench, (struct rota_delivery_event){.type = ROTA_DELIVERY_TICK}), 0);
    assert_int_equal(rota_delivery_fsm_deadline(&bench->fsm), bench->now + 1);
    assert_int_equal(check(bench), 1);
    assert_int_equal(bench->actions[0].type, ROTA_DELIVERY_DO_DROP);
    assert_ptr_equal(bench->actions[0].worker, &other);
    assert_int_equal(rota_delivery_fsm_deadline(&bench->fsm), bench->now + ROTA_DELIVERY_CHECK);
    hand(bench, 1);
    step(bench, (struct rota_delivery_event){.type = ROTA_DELIVERY_DISCONNECTED,
                                             .worker = &other,
                                             .how = ROTA_SESSION_LEFT});
    step(bench, (struct rota_delivery_event){.type = ROTA_DELIVERY_DISCONNECTED,
                                             .worker = &bench->worker,
                                             .how = ROTA_SESSION_LEFT});
    assert_int_equal(flush(bench), 0); /* there is no worker to send to, or to ask */
    assert_int_equal(check(bench), 0);
}

static void drain_takes_the_slots_of_every_worker(void **state)
{
    enum { WORKERS = 8 };
    struct bench *bench = *state;
    struct rota_delivery_worker workers[WORKERS] = {0};
    struct rota_str queue = rota_str("q");
    for (uint64_t i = 0; i < WORKERS; i++) {
        char name[] = {'n', (char)('0' + i)};
        const struct rota_worker_spec spec = {.name = rota_str_of(name, sizeof name),
                                              .epoch = 1,
                                              .queues = &queue,
                                              .n_queues = 1,
                                              .slots = 1};
        step(bench,
             (struct rota_delivery_event){.type = ROTA_DELIVERY_CONNECTED, .worker = &workers[i]});
        step(bench, (struct rota_delivery_event){
                        .type = ROTA_DELIVERY_READY, .worker = &workers[i], .spec = &spec});
    }
    step(bench, (struct rota_delivery_event){.type = ROTA_DELIVERY_DRAIN, .is_draining = true});
    for (int i = 0; i < WORKERS; i++)
        add(bench);
    assert_int_equal(settle(bench), 0);
    step(bench, (struct rota_delivery_event){.type = ROTA_DELIVERY_DRAIN});
    assert_int_equal(settle(bench), WORKERS);
}

static void quiet_worker_is_asked_now_and_then(void **state)
{
    struct bench *bench = *state;
    ready(bench, 1, NULL, 0);
    for (int round = 0; round < 3; round++) {
        for (int i = 1; i < ROTA_DELIVERY_SURE_CHECKS; i++)
            assert_int_equal(check(bench), 0);
        assert_int_equal(check(bench), 1);
        assert_int_equal(bench->actions[0].type, ROTA_DELIVERY_DO_ASK);
        assert_int_equal(bench->actions[0].number, bench->worker.handed);
    }
}

int main(void)
{
#define RULE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        RULE(a_worker_that_was_sent_jobs_is_asked_until_it_answers),
        RULE(attempts_that_a_worker_does_not_name_did_not_reach_it),
        RULE(an_unready_worker_is_disconnected),
        RULE(jobs_and_cancels_are_sent_in_their_order),
        RULE(a_message_is_bounded),
        RULE(verdicts_travel_with_jobs_if_the_worker_supports_it),
        RULE(a_worker_that_is_ready_gets_no_more_jobs_than_it_has_slots_left),
        RULE(an_attempt_of_another_session_is_cancelled),
        RULE(an_end_of_another_nodes_job_goes_there_and_frees_the_slot),
        RULE(a_node_that_drains_hands_nothing_out),
        RULE(slots_that_were_not_reported_are_learned),
        RULE(an_answer_shows_when_a_worker_was_last_seen),
        RULE(a_session_that_ended_is_unknown),
        RULE(an_answer_counts_for_the_rounds_before_its_question_only),
        RULE(attempts_in_flight_stay_with_a_worker_that_is_ready_again),
        RULE(how_a_session_ended_is_how_its_jobs_of_other_nodes_do),
        RULE(an_ended_attempt_keeps_no_slot),
        RULE(slots_that_a_worker_reports_later_count),
        RULE(slots_kept_for_other_nodes_are_not_filled_here),
        RULE(cancel_of_another_nodes_job_frees_its_slot),
        RULE(progress_is_shown_at_the_node_of_the_job),
        RULE(invalid_end_of_another_nodes_job_fails_its_attempt_there),
        RULE(worker_that_is_not_ready_is_ignored),
        RULE(messages_of_cancels_and_verdicts_are_bounded),
        RULE(job_is_counted_with_its_fixed_part),
        RULE(worker_whose_capabilities_are_invalid_is_refused),
        RULE(worker_that_is_ready_again_has_one_session),
        RULE(check_is_not_early_and_asks_every_worker),
        RULE(drain_takes_the_slots_of_every_worker),
        RULE(quiet_worker_is_asked_now_and_then),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
