/* When partitions are opened and closed, and which jobs are sent where as the route changes. */
#include "core/work/cluster/handover_fsm.h"

#include "work_bench.h"

#include <stdio.h>

static struct bench bench;
static struct rota_handover_fsm fsm;

/* The route, the same for all partitions. */
static enum rota_handover_whose whose;
static const char *owner;

static enum rota_handover_whose whose_is(void *data, struct rota_str queue, uint32_t partition,
                                         struct rota_str *to)
{
    assert_ptr_equal(data, &bench);
    assert_true(queue.size > 0 && partition < 10);
    *to = rota_str(owner);
    return whose;
}

static void start(void)
{
    rota_handover_fsm_init(&fsm, &(struct rota_handover_options){
                                     .broker = bench.broker, .whose = whose_is, .data = &bench});
}

static int set_up(void **state)
{
    (void)state;
    bench_init(&bench);
    whose = ROTA_HANDOVER_NOBODYS;
    owner = "";
    start();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    rota_handover_fsm_deinit(&fsm);
    bench_deinit(&bench);
    return 0;
}

/* --- events; what they send as text: "b" for a chunk to b, "b." for the word that it is over ---
 */

static struct rota_job_id sent; /* the last that was */

static const char *step(struct rota_handover_event event)
{
    static char text[256];
    size_t n, end = 0;
    const struct rota_handover_send *sends = rota_handover_fsm_step(&fsm, bench.now, &event, &n);
    text[0] = '\0';
    for (size_t i = 0; i < n; i++) {
        sent = sends[i].name;
        end +=
            (size_t)snprintf(text + end, sizeof text - end, "%s%.*s%s", i ? " " : "",
                             (int)sends[i].to.size, sends[i].to.data, sends[i].is_over ? "." : "");
    }
    bench_settle(&bench);
    return text;
}

static const char *look(void)
{
    return step((struct rota_handover_event){.type = ROTA_HANDOVER_LOOK});
}

static const char *durable(void)
{
    return step((struct rota_handover_event){.type = ROTA_HANDOVER_DURABLE,
                                             .number = rota_broker_last_number(bench.broker)});
}

static const char *answer(enum rota_handover_event_type type)
{
    return step((struct rota_handover_event){.type = type, .name = sent});
}

static const char *came(const char *queue, uint32_t partition)
{
    return step((struct rota_handover_event){
        .type = ROTA_HANDOVER_CAME, .queue = rota_str(queue), .partition = partition});
}

static void route_to(const char *to)
{
    whose = *to ? ROTA_HANDOVER_ANOTHERS : ROTA_HANDOVER_OURS;
    owner = to;
}

static void wait(rota_time span)
{
    bench.now.boot += span;
    bench.now.wall += span;
}

/* --- what the broker has --- */

static struct rota_partition_view partition(void)
{
    struct rota_partition_view view;
    for (size_t place = 0; rota_broker_next_partition(bench.broker, &place, &view);)
        if (rota_str_is_equal(view.queue, rota_str("q")) && view.partition == 0)
            return view;
    return (struct rota_partition_view){0};
}

static void close_it(void)
{
    assert_int_equal(rota_broker_partition_close(bench.broker, bench.now, rota_str("q"), 0, NULL),
                     ROTA_OK);
    bench_settle(&bench);
}

/* The chunk for b was sent, and what came of that. */
static void send_first(void)
{
    bench_add(&bench, "x");
    route_to("b");
    assert_string_equal(look(), "");
    assert_string_equal(durable(), "b");
}

static void nothing_changes_while_the_route_is_not_known(void **state)
{
    (void)state;
    bench_add(&bench, "x");
    assert_string_equal(look(), "");
    assert_true(partition().is_open);
    close_it();
    assert_string_equal(look(), "");
    assert_false(partition().is_open);
    assert_int_equal(partition().n_chunked, 0);
    assert_int_equal(rota_handover_fsm_deadline(&fsm), ROTA_TIME_NEVER);
}

static void own_partition_is_opened_when_it_has_jobs(void **state)
{
    (void)state;
    close_it();
    route_to("");
    look();
    assert_false(partition().is_open);
    bench_own(&bench, "q");
    bench_add(&bench, "x");
    close_it();
    assert_string_equal(look(), "");
    assert_true(partition().is_open);
    assert_int_equal(partition().epoch, 1);
    look();
    assert_true(partition().is_open);
    assert_false(rota_handover_fsm_is_busy(&fsm));
}

static void epoch_of_a_partition_that_is_opened_again_stays(void **state)
{
    (void)state;
    assert_int_equal(rota_broker_partition_open(bench.broker, bench.now, rota_str("q"), 0, 7, NULL),
                     ROTA_OK);
    bench_settle(&bench);
    bench_add(&bench, "x");
    close_it();
    route_to("");
    look();
    assert_true(partition().is_open);
    assert_int_equal(partition().epoch, 7);
}

static void jobs_of_another_go_there_and_are_forgotten_when_they_are_there(void **state)
{
    (void)state;
    struct rota_job_id id = bench_add(&bench, "x");
    route_to("b");
    assert_string_equal(look(), ""); /* it is not on disk */
    assert_false(partition().is_open);
    assert_int_equal(partition().n_chunked, 1);
    assert_true(rota_handover_fsm_is_busy(&fsm));
    assert_string_equal(
        step((struct rota_handover_event){.type = ROTA_HANDOVER_DURABLE,
                                          .number = rota_broker_last_number(bench.broker) - 1}),
        "");
    assert_string_equal(durable(), "b");
    struct rota_job_id first = sent;
    assert_string_equal(look(), ""); /* once, while it is in flight */
    assert_string_equal(answer(ROTA_HANDOVER_TAKEN), "");
    assert_int_equal(partition().n_jobs, 0);
    struct rota_job_view view;
    assert_int_equal(rota_broker_find(bench.broker, rota_str("q"), id, &view, NULL),
                     ROTA_ERR_NOT_FOUND);
    assert_true(rota_handover_fsm_is_busy(&fsm));
    assert_string_equal(durable(), "b.");
    assert_true(bench_id_is(sent, first));
    assert_string_equal(look(), "");
    assert_string_equal(answer(ROTA_HANDOVER_TAKEN), "");
    assert_false(rota_handover_fsm_is_busy(&fsm));
    assert_int_equal(fsm.trips.size, 0);
    assert_int_equal(rota_handover_fsm_deadline(&fsm), ROTA_TIME_NEVER);
    assert_string_equal(answer(ROTA_HANDOVER_TAKEN), ""); /* said again */
    assert_string_equal(answer(ROTA_HANDOVER_UNKNOWN), "");
}

static void older_report_of_the_disk_changes_nothing(void **state)
{
    (void)state;
    bench_add(&bench, "x");
    route_to("b");
    look();
    uint64_t number = rota_broker_last_number(bench.broker);
    step((struct rota_handover_event){.type = ROTA_HANDOVER_DURABLE, .number = number});
    step((struct rota_handover_event){.type = ROTA_HANDOVER_DURABLE, .number = 1});
    assert_int_equal(fsm.durable, number);
}

static void empty_partition_of_another_is_closed_and_nothing_is_sent(void **state)
{
    (void)state;
    route_to("b");
    assert_string_equal(look(), "");
    assert_false(partition().is_open);
    assert_string_equal(durable(), "");
    assert_false(rota_handover_fsm_is_busy(&fsm));
}

static void jobs_go_one_chunk_after_the_other(void **state)
{
    (void)state;
    for (int i = 0; i < 2 * ROTA_BROKER_CHUNK_JOBS_MAX; i++)
        bench_add(&bench, "x");
    send_first();
    for (size_t n_left = ROTA_BROKER_CHUNK_JOBS_MAX + 1; n_left > 1; n_left = 1) {
        assert_int_equal(partition().n_chunked, ROTA_BROKER_CHUNK_JOBS_MAX);
        assert_string_equal(look(), "");
        assert_string_equal(answer(ROTA_HANDOVER_TAKEN), "");
        assert_int_equal(partition().n_jobs, n_left);
        assert_string_equal(durable(), "b. b"); /* and the next one */
    }
    assert_int_equal(fsm.trips.size, 2);
}

static void unanswered_chunk_is_sent_again_with_growing_pauses(void **state)
{
    static const rota_time PAUSES[] = {100, 200, 400, 800, 1600, 2000, 2000};
    (void)state;
    send_first();
    for (size_t i = 0; i < sizeof PAUSES / sizeof *PAUSES; i++) {
        rota_time pause = PAUSES[i] * ROTA_MSEC;
        struct rota_job_id name = sent;
        assert_string_equal(answer(i % 2 ? ROTA_HANDOVER_UNKNOWN : ROTA_HANDOVER_UNSEEN), "");
        assert_int_equal(rota_handover_fsm_deadline(&fsm), bench.now.boot + pause);
        wait(pause - 1);
        assert_string_equal(look(), "");
        assert_int_equal(rota_handover_fsm_deadline(&fsm), bench.now.boot + 1);
        wait(1);
        assert_string_equal(look(), "b");
        assert_true(bench_id_is(sent, name));
        assert_int_equal(rota_handover_fsm_deadline(&fsm), ROTA_TIME_NEVER);
    }
    answer(ROTA_HANDOVER_UNKNOWN);
    wait(ROTA_HANDOVER_RETRY_MAX);
    assert_string_equal(look(), "b");
    answer(ROTA_HANDOVER_TAKEN);
    assert_string_equal(durable(), "b.");
    answer(ROTA_HANDOVER_UNKNOWN); /* an answer starts the pauses over */
    assert_int_equal(rota_handover_fsm_deadline(&fsm), bench.now.boot + ROTA_HANDOVER_RETRY_FIRST);
}

static void adopted_chunk_needs_no_pause_before_its_end_is_reported(void **state)
{
    (void)state;
    send_first();
    answer(ROTA_HANDOVER_UNKNOWN);
    answer(ROTA_HANDOVER_TAKEN); /* the answer was only late */
    assert_string_equal(durable(), "b.");
}

static void chunk_that_is_not_seen_follows_the_route(void **state)
{
    (void)state;
    send_first();
    struct rota_job_id first = sent;
    answer(ROTA_HANDOVER_UNSEEN);
    route_to("c");
    assert_string_equal(look(), "");
    assert_int_equal(partition().n_chunked, 1);
    assert_string_equal(durable(), "c");
    assert_false(bench_id_is(sent, first));
    assert_int_equal(fsm.trips.size, 1);
    answer(ROTA_HANDOVER_UNSEEN);
    route_to("");
    assert_string_equal(look(), "");
    assert_true(partition().is_open);
    assert_false(rota_handover_fsm_is_busy(&fsm));
}

static void chunk_that_is_not_seen_is_given_up_when_the_route_is_lost(void **state)
{
    (void)state;
    send_first();
    answer(ROTA_HANDOVER_UNSEEN);
    whose = ROTA_HANDOVER_NOBODYS;
    assert_string_equal(look(), "");
    assert_int_equal(partition().n_chunked, 0);
    assert_false(partition().is_open);
}

static void chunk_that_was_never_sent_follows_the_route(void **state)
{
    (void)state;
    bench_add(&bench, "x");
    route_to("b");
    look();
    route_to("c");
    assert_string_equal(durable(), "");
    assert_string_equal(durable(), "c");
}

static void chunk_that_may_be_there_stays_with_its_receiver(void **state)
{
    (void)state;
    send_first();
    route_to("c");
    assert_string_equal(look(), ""); /* in flight */
    answer(ROTA_HANDOVER_UNKNOWN);
    wait(ROTA_HANDOVER_RETRY_FIRST);
    assert_string_equal(look(), "b");
    answer(ROTA_HANDOVER_UNSEEN); /* this time; the time before it may have got there */
    route_to("");
    wait(ROTA_HANDOVER_RETRY_MAX);
    assert_string_equal(look(), "b");
    assert_false(partition().is_open);
    answer(ROTA_HANDOVER_TAKEN);
    route_to("c");
    assert_string_equal(durable(), "b."); /* and so does the word that it is over */
    answer(ROTA_HANDOVER_UNSEEN);
    wait(ROTA_HANDOVER_RETRY_FIRST);
    assert_string_equal(look(), "b.");
}

static void chunks_of_an_earlier_life_are_sent_at_once_to_the_same_receiver(void **state)
{
    (void)state;
    bench_add(&bench, "x");
    route_to("b");
    look();
    rota_handover_fsm_deinit(&fsm);
    bench_restart(&bench);
    start();
    assert_true(rota_handover_fsm_is_busy(&fsm));
    assert_int_equal(rota_handover_fsm_deadline(&fsm), ROTA_TIME_NEVER);
    route_to("c");
    assert_string_equal(look(), "b");
}

/* --- jobs that came although the route says another's --- */

static void jobs_that_came_are_served_for_a_while(void **state)
{
    (void)state;
    bench_add(&bench, "x");
    close_it();
    route_to("b");
    assert_string_equal(came("q", 0), "");
    assert_true(partition().is_open);
    assert_int_equal(rota_handover_fsm_deadline(&fsm), bench.now.boot + ROTA_HANDOVER_HOLD);
    wait(ROTA_HANDOVER_HOLD - 1);
    assert_string_equal(look(), "");
    assert_true(partition().is_open);
    assert_int_equal(rota_handover_fsm_deadline(&fsm), bench.now.boot + 1);
    came("q", 0); /* more of them */
    assert_int_equal(fsm.holds.size, 1);
    wait(ROTA_HANDOVER_HOLD - 1);
    look();
    assert_true(partition().is_open);
    wait(1);
    assert_string_equal(look(), "");
    assert_false(partition().is_open);
    assert_int_equal(fsm.holds.size, 0);
    assert_string_equal(durable(), "b");
}

static void only_the_partition_that_jobs_came_to_is_held(void **state)
{
    (void)state;
    route_to("b");
    bench_add(&bench, "x");
    came("q", 1);
    assert_false(partition().is_open);
    came("r", 0);
    came("r", 0);
    assert_int_equal(fsm.holds.size, 2);
    came("", 0);
    came("no queue", 0);
    assert_int_equal(fsm.holds.size, 2);
    wait(ROTA_HANDOVER_HOLD / 2);
    came("r", 0);
    wait(ROTA_HANDOVER_HOLD / 2);
    look();
    assert_int_equal(fsm.holds.size, 1);
    assert_string_equal(fsm.holds.items[0].queue, "r");
    assert_int_equal(rota_handover_fsm_deadline(&fsm), bench.now.boot + ROTA_HANDOVER_HOLD / 2);
}

static void held_partition_without_jobs_or_with_a_chunk_stays_closed(void **state)
{
    (void)state;
    close_it();
    route_to("b");
    came("q", 0);
    assert_false(partition().is_open);
    wait(ROTA_HANDOVER_HOLD);
    bench_own(&bench, "q");
    send_first();
    came("q", 0);
    assert_false(partition().is_open);
    assert_int_equal(partition().n_chunked, 1);
}

static void holds_are_bounded(void **state)
{
    char name[16];
    (void)state;
    for (int i = 0; i <= ROTA_HANDOVER_HOLDS_MAX; i++) {
        snprintf(name, sizeof name, "q%d", i);
        came(name, 0);
    }
    assert_int_equal(fsm.holds.size, ROTA_HANDOVER_HOLDS_MAX);
    came("q0", 0);
    assert_int_equal(fsm.holds.size, ROTA_HANDOVER_HOLDS_MAX);
}

/* One that somebody else began may have been seen. */
static void chunk_that_cannot_be_withdrawn_is_sent_to_its_receiver(void **state)
{
    (void)state;
    bench_add(&bench, "x");
    close_it();
    struct rota_job_id name;
    assert_int_equal(rota_broker_chunk_begin(bench.broker, bench.now, rota_str("q"), 0,
                                             rota_str("b"), &name, NULL),
                     ROTA_OK);
    bench_settle(&bench);
    route_to("c");
    assert_string_equal(durable(), "b");
    assert_true(bench_id_is(sent, name));
    assert_true(rota_handover_fsm_is_busy(&fsm));
}

static void each_of_many_chunks_has_its_own_answer(void **state)
{
    (void)state;
    bench_own(&bench, "r");
    bench_add_spec(&bench, (struct rota_job_spec){.queue = rota_str("r")});
    bench_add(&bench, "x");
    route_to("b");
    assert_string_equal(look(), "");
    assert_string_equal(durable(), "b b");
    struct rota_job_id last = sent;
    assert_string_equal(answer(ROTA_HANDOVER_TAKEN), "");
    assert_int_equal(rota_broker_n_jobs(bench.broker), 1);
    assert_string_equal(durable(), "b.");
    assert_true(bench_id_is(sent, last));
    assert_string_equal(answer(ROTA_HANDOVER_TAKEN), "");
    assert_int_equal(fsm.trips.size, 1); /* the other one is still in flight */
}

int main(void)
{
#define RULE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        RULE(nothing_changes_while_the_route_is_not_known),
        RULE(own_partition_is_opened_when_it_has_jobs),
        RULE(epoch_of_a_partition_that_is_opened_again_stays),
        RULE(jobs_of_another_go_there_and_are_forgotten_when_they_are_there),
        RULE(older_report_of_the_disk_changes_nothing),
        RULE(empty_partition_of_another_is_closed_and_nothing_is_sent),
        RULE(jobs_go_one_chunk_after_the_other),
        RULE(unanswered_chunk_is_sent_again_with_growing_pauses),
        RULE(adopted_chunk_needs_no_pause_before_its_end_is_reported),
        RULE(chunk_that_is_not_seen_follows_the_route),
        RULE(chunk_that_is_not_seen_is_given_up_when_the_route_is_lost),
        RULE(chunk_that_was_never_sent_follows_the_route),
        RULE(chunk_that_may_be_there_stays_with_its_receiver),
        RULE(chunks_of_an_earlier_life_are_sent_at_once_to_the_same_receiver),
        RULE(jobs_that_came_are_served_for_a_while),
        RULE(only_the_partition_that_jobs_came_to_is_held),
        RULE(held_partition_without_jobs_or_with_a_chunk_stays_closed),
        RULE(holds_are_bounded),
        RULE(chunk_that_cannot_be_withdrawn_is_sent_to_its_receiver),
        RULE(each_of_many_chunks_has_its_own_answer),
    };
    return cmocka_run_group_tests_name("handover_fsm", tests, NULL, NULL);
}
