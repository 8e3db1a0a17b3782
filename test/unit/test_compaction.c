#include "core/work/broker/compaction.h"

#include "work_bench.h"

#include <string.h>

enum { SEGMENT = 1 << 20, LARGE = 100000 };

static struct bench bench;
static struct rota_compaction compaction;
static struct rota_compaction_look look;

/* A journal of three segments with ten large jobs, five of them in the oldest. */
static int set_up(void **state)
{
    static char payload[LARGE];
    (void)state;
    memset(payload, 'x', sizeof payload);
    bench_init(&bench);
    compaction = (struct rota_compaction){0};
    look = (struct rota_compaction_look){
        .live = 10 * LARGE,
        .segment_size = SEGMENT,
        .room = {.left = 8 * SEGMENT, .free = 64 * SEGMENT, .has_reserve = true},
        .n_old = 2,
    };
    for (int i = 0; i < 10; i++) {
        if (i == 5)
            look.old[0].end = rota_broker_last_number(bench.broker) + 1;
        bench_add_spec(&bench, (struct rota_job_spec){.payload = {payload, sizeof payload}});
    }
    look.old[0].bytes = look.old[1].bytes = SEGMENT;
    look.edge = look.old[1].end = rota_broker_last_number(bench.broker) + 1;
    look.bytes = look.live + 3 * SEGMENT;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    bench_deinit(&bench);
    return 0;
}

static struct rota_compaction_todo step(void)
{
    struct rota_compaction_todo todo =
        rota_compaction_step(&compaction, bench.now.boot, &look, bench.broker);
    bench_settle(&bench);
    return todo;
}

/* How many jobs were written again by one step. */
static size_t n_written(struct rota_compaction_todo *todo)
{
    size_t before = bench.journal.size, n = 0;
    *todo = step();
    for (size_t i = before; i < bench.journal.size; i++)
        n += bench.journal.items[i].type == ROTA_WORK_JOB;
    return n;
}

/* The oldest segment is gone. */
static void drop(void)
{
    look.n_old--;
    memmove(look.old, look.old + 1, look.n_old * sizeof *look.old);
}

static void end_jobs(size_t n)
{
    bench_open(&bench, "w", 1);
    for (size_t i = 0; i < n; i++)
        bench_done(&bench, bench_last(&bench, ROTA_WORK_DO_DISPATCH).id);
}

static void a_journal_of_living_jobs_is_left_alone(void **state)
{
    struct rota_compaction_todo todo;
    (void)state;
    look.bytes = 2 * look.live + 4 * SEGMENT;
    assert_int_equal(n_written(&todo), 0);
    look.live = UINT64_MAX;
    look.bytes = 100 * SEGMENT;
    assert_int_equal(n_written(&todo), 0);
    assert_false(todo.has_written);
    assert_int_equal(rota_compaction_deadline(&compaction), ROTA_TIME_NEVER);
}

static void a_journal_of_forgotten_jobs_shrinks_segment_by_segment(void **state)
{
    struct rota_compaction_todo todo;
    (void)state;
    look.bytes = 2 * look.live + 4 * SEGMENT + 1;
    assert_int_equal(n_written(&todo), 5);
    assert_int_equal(todo.drop_below, look.old[0].end);
    assert_int_equal(n_written(&todo), 0); /* the first is not gone yet */
    assert_int_equal(todo.drop_below, 0);
    drop();
    look.bytes = 0; /* what was begun continues to where it was to */
    look.old[look.n_old++] = (struct rota_compaction_segment){.bytes = SEGMENT, .end = 1000};
    assert_int_equal(n_written(&todo), 5);
    assert_int_equal(todo.drop_below, look.edge);
    drop();
    assert_int_equal(n_written(&todo), 0);
    assert_int_equal(todo.drop_below, 0);
}

static void one_segment_alone_is_left_alone(void **state)
{
    struct rota_compaction_todo todo;
    (void)state;
    look.bytes = 1000 * SEGMENT;
    look.is_full = look.is_damaged = true;
    look.n_old = 0;
    assert_int_equal(n_written(&todo), 0);
    assert_int_equal(todo.drop_below, 0);
}

static void a_segment_that_stays_is_dropped_again_after_a_while(void **state)
{
    struct rota_compaction_todo todo;
    (void)state;
    look.bytes = 100 * SEGMENT;
    assert_int_equal(n_written(&todo), 5);
    bench.now.boot = rota_compaction_deadline(&compaction);
    assert_int_equal(n_written(&todo), 0);
    assert_int_equal(todo.drop_below, look.old[0].end);
    assert_true(rota_compaction_deadline(&compaction) > bench.now.boot);
}

static void damage_makes_it_sooner_and_once(void **state)
{
    struct rota_compaction_todo todo;
    (void)state;
    look.bytes = 100;
    look.is_damaged = true;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(n_written(&todo), 5);
        drop();
    }
    look.n_old = 1;
    look.old[0].end = 1000;
    assert_int_equal(n_written(&todo), 0);
    assert_int_equal(todo.drop_below, 0);
}

static void a_step_is_bounded_by_bytes_and_is_one_job_at_least(void **state)
{
    static char payload[2 * ROTA_COMPACTION_BYTES];
    struct rota_compaction_todo todo;
    (void)state;
    look.old[0].end = look.edge = rota_broker_last_number(bench.broker) + 3;
    look.n_old = 1;
    for (int i = 0; i < 2; i++)
        bench_add_spec(&bench, (struct rota_job_spec){.payload = {payload, sizeof payload}});
    look.bytes = 1000 * SEGMENT;
    assert_int_equal(n_written(&todo), 11); /* 1 MB of them, and the one with which it is more */
    assert_int_equal(todo.drop_below, 0);
    assert_int_equal(n_written(&todo), 1);
    assert_int_equal(todo.drop_below, look.edge);
}

static void on_a_full_disk_it_is_begun_with_only_when_all_of_it_fits(void **state)
{
    struct rota_compaction_todo todo;
    (void)state;
    look.is_full = true;
    look.room = (struct rota_room_look){.left = 9 * LARGE, .reserve = 5 * LARGE};
    assert_int_equal(n_written(&todo), 0); /* four would go beside the reserve */
    assert_int_equal(todo.want, 0);
    assert_int_equal(rota_compaction_deadline(&compaction), bench.now.boot + ROTA_COMPACTION_AGAIN);
    look.room.left = 11 * LARGE;
    assert_int_equal(n_written(&todo), 0); /* it is not looked at all the time */
    bench.now.boot += ROTA_COMPACTION_AGAIN;
    assert_int_equal(n_written(&todo), 5);
    assert_int_equal(todo.drop_below, look.old[0].end);
}

static void a_disk_that_is_not_full_is_not_filled_by_it(void **state)
{
    struct rota_compaction_todo todo;
    (void)state;
    look.bytes = 1000 * SEGMENT;
    look.room = (struct rota_room_look){.left = 4 * LARGE, .has_reserve = true};
    assert_int_equal(n_written(&todo), 0);
    assert_int_equal(todo.want, 0);
}

static void ended_jobs_are_written_from_the_reserve_when_it_has_more_back(void **state)
{
    struct rota_compaction_todo todo;
    (void)state;
    end_jobs(4);
    look.is_full = true;
    look.bytes = look.live; /* there is little to be had elsewhere */
    look.room = (struct rota_room_look){.left = 2 * LARGE, .reserve = 5 * LARGE};
    assert_int_equal(n_written(&todo), 0); /* the fifth is more than half of all */
    look.room.left = 3 * LARGE;
    bench.now.boot += ROTA_COMPACTION_AGAIN;
    assert_int_equal(n_written(&todo), 5);
    assert_int_equal(todo.drop_below, look.old[0].end);
}

static void a_segment_that_is_needed_does_not_keep_those_that_are_not(void **state)
{
    struct rota_compaction_todo todo;
    (void)state;
    end_jobs(10);
    look.is_full = true;
    look.bytes = look.live;
    look.old[0].bytes = 100; /* less than its jobs take even now */
    look.room = (struct rota_room_look){.left = LARGE, .reserve = 5 * LARGE};
    assert_int_equal(n_written(&todo), 10);
    assert_int_equal(todo.drop_below, look.edge);
}

static void a_fully_needed_journal_is_left_alone_on_a_full_disk(void **state)
{
    struct rota_compaction_todo todo;
    (void)state;
    look.is_full = true;
    look.bytes = look.live + 2 * SEGMENT;
    look.old[0].bytes = look.old[1].bytes = 5 * LARGE;
    assert_int_equal(n_written(&todo), 0);
}

static void it_is_written_only_where_room_is_taken(void **state)
{
    struct rota_compaction_todo todo;
    (void)state;
    look.bytes = 1000 * SEGMENT;
    look.room.left = LARGE;
    look.room.waiting = 1000;
    assert_int_equal(n_written(&todo), 0);
    assert_true(todo.want > 5 * LARGE + 1000);
    assert_int_equal(n_written(&todo), 0);
    assert_int_equal(todo.want, 0); /* once */
    look.room.left = todo.want = 6 * LARGE;
    assert_int_equal(n_written(&todo), 5);
}

static void room_that_does_not_come_is_asked_for_again_later(void **state)
{
    struct rota_compaction_todo todo;
    (void)state;
    look.bytes = 1000 * SEGMENT;
    look.room.left = 0;
    assert_int_equal(n_written(&todo), 0);
    assert_true(todo.want > 0);
    for (int i = 0; i < 2; i++) {
        assert_true(rota_compaction_deadline(&compaction) > bench.now.boot);
        bench.now.boot = rota_compaction_deadline(&compaction);
        assert_int_equal(n_written(&todo), 0);
    }
    assert_true(todo.want > 0);
}

static void nothing_is_written_while_the_last_is_not_on_disk(void **state)
{
    struct rota_compaction_todo todo;
    (void)state;
    look.bytes = 1000 * SEGMENT;
    look.is_busy = true;
    assert_int_equal(n_written(&todo), 0);
    assert_int_equal(rota_compaction_deadline(&compaction), ROTA_TIME_NEVER);
    look.is_busy = false;
    assert_int_equal(n_written(&todo), 5);
}

static void on_a_full_disk_two_segments_without_use_are_worth_it(void **state)
{
    struct rota_compaction_todo todo;
    (void)state;
    look.is_full = true;
    look.old[0].bytes = look.old[1].bytes = 100; /* so that only all that is dead makes it due */
    look.bytes = look.live + 2 * SEGMENT;
    assert_int_equal(n_written(&todo), 0);
    assert_int_equal(compaction.until, 0);
    bench.now.boot += ROTA_COMPACTION_AGAIN;
    look.bytes++;
    assert_int_equal(n_written(&todo), 5);
    assert_int_equal(compaction.until, look.edge);
}

static void waiting_steps_are_not_checked_while_the_disk_is_busy(void **state)
{
    struct rota_compaction_todo todo;
    (void)state;
    look.bytes = 1000 * SEGMENT;
    look.room.left = 0;
    assert_int_equal(n_written(&todo), 0);
    look.is_busy = true;
    bench.now.boot += ROTA_COMPACTION_AGAIN;
    assert_int_equal(n_written(&todo), 0);
    assert_int_equal(rota_compaction_deadline(&compaction), bench.now.boot + ROTA_COMPACTION_AGAIN);
}

/* There is room for all of them, half of it in the newest segment and half on the disk. */
static void jobs_that_do_not_fit_in_one_piece_are_written_in_two(void **state)
{
    struct rota_compaction_todo todo;
    (void)state;
    look.bytes = 1000 * SEGMENT;
    look.room.left = look.room.free = 3 * LARGE;
    assert_int_equal(n_written(&todo), 0);
    assert_true(todo.want > 5 * LARGE); /* which the disk does not have */
    bench.now.boot += ROTA_COMPACTION_AGAIN;
    assert_int_equal(n_written(&todo), 2);
    assert_int_equal(todo.drop_below, 0);
    look.room = (struct rota_room_look){.left = 4 * LARGE, .has_reserve = true};
    assert_int_equal(n_written(&todo), 3);
    assert_int_equal(todo.drop_below, look.old[0].end);
}

static void deleted_segment_ends_the_wait_for_it(void **state)
{
    struct rota_compaction_todo todo;
    (void)state;
    look.bytes = 100 * SEGMENT;
    assert_int_equal(n_written(&todo), 5);
    assert_int_equal(rota_compaction_deadline(&compaction),
                     bench.now.boot + ROTA_COMPACTION_DROPPED);
    look.n_old = 0; /* all are gone */
    assert_int_equal(n_written(&todo), 0);
    assert_int_equal(rota_compaction_deadline(&compaction), ROTA_TIME_NEVER);
    assert_int_equal(compaction.until, 0);
    assert_int_equal(compaction.dropped, 0);
}

static void segments_that_are_too_full_alone_go_together(void **state)
{
    struct rota_compaction_todo todo;
    (void)state;
    look.is_full = true;
    look.bytes = look.live + 2 * SEGMENT; /* it is not due by itself */
    look.room = (struct rota_room_look){.left = 40 * LARGE, .reserve = 0};
    look.old[0].bytes = 6 * LARGE;  /* five jobs are more than three quarters of it */
    look.old[1].bytes = 12 * LARGE; /* ten of both are not */
    assert_int_equal(n_written(&todo), 10);
    assert_int_equal(todo.drop_below, look.old[1].end);
}

int main(void)
{
#define RULE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        RULE(a_journal_of_living_jobs_is_left_alone),
        RULE(a_journal_of_forgotten_jobs_shrinks_segment_by_segment),
        RULE(one_segment_alone_is_left_alone),
        RULE(a_segment_that_stays_is_dropped_again_after_a_while),
        RULE(damage_makes_it_sooner_and_once),
        RULE(a_step_is_bounded_by_bytes_and_is_one_job_at_least),
        RULE(on_a_full_disk_it_is_begun_with_only_when_all_of_it_fits),
        RULE(a_disk_that_is_not_full_is_not_filled_by_it),
        RULE(ended_jobs_are_written_from_the_reserve_when_it_has_more_back),
        RULE(a_segment_that_is_needed_does_not_keep_those_that_are_not),
        RULE(a_fully_needed_journal_is_left_alone_on_a_full_disk),
        RULE(it_is_written_only_where_room_is_taken),
        RULE(room_that_does_not_come_is_asked_for_again_later),
        RULE(nothing_is_written_while_the_last_is_not_on_disk),
        RULE(on_a_full_disk_two_segments_without_use_are_worth_it),
        RULE(waiting_steps_are_not_checked_while_the_disk_is_busy),
        RULE(jobs_that_do_not_fit_in_one_piece_are_written_in_two),
        RULE(deleted_segment_ends_the_wait_for_it),
        RULE(segments_that_are_too_full_alone_go_together),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
