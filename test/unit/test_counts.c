#include <rota/experimental/counts.h>

#include <rota/experimental/random.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct rota_counts start(int64_t write, int64_t read)
{
    struct rota_counts counts;
    assert_int_equal(rota_counts_init(&counts, write, read, NULL), ROTA_OK);
    return counts;
}

static void want(struct rota_counts *counts, int64_t write, int64_t read)
{
    assert_int_equal(rota_counts_want(counts, write, read, NULL), ROTA_OK);
}

static void check(const struct rota_counts *counts, int64_t write, int64_t read, int64_t waits_for)
{
    assert_int_equal(counts->write, write);
    assert_int_equal(counts->read, read);
    assert_int_equal(rota_counts_waits_for(counts), waits_for);
    assert_int_equal(rota_counts_is_lowering(counts), waits_for >= 0);
}

static void a_raise_is_in_force_at_once(void **state)
{
    struct rota_counts counts = start(2, 3);
    (void)state;
    check(&counts, 2, 3, -1);
    want(&counts, 8, 16);
    check(&counts, 8, 16, -1);
    rota_counts_deinit(&counts);
}

static void write_is_lowered_at_once_and_read_when_all_above_is_empty(void **state)
{
    struct rota_counts counts = start(8, 8);
    (void)state;
    want(&counts, 4, 4);
    check(&counts, 4, 8, 7);
    rota_counts_report_empty(&counts, 5, true);
    check(&counts, 4, 8, 7);
    rota_counts_report_empty(&counts, 7, true);
    check(&counts, 4, 7, 6);
    rota_counts_report_empty(&counts, 6, true);
    check(&counts, 4, 5, 4);
    rota_counts_report_empty(&counts, 4, true);
    check(&counts, 4, 4, -1);
    rota_counts_deinit(&counts);
}

static void a_report_from_while_it_was_written_counts_for_nothing(void **state)
{
    struct rota_counts counts = start(2, 2);
    (void)state;
    rota_counts_report_empty(&counts, 1, true);
    want(&counts, 1, 1);
    check(&counts, 1, 2, 1);

    /* The same for one that is written again between report and lowering. */
    want(&counts, 1, 2);
    rota_counts_report_empty(&counts, 1, true);
    want(&counts, 2, 2);
    want(&counts, 1, 1);
    check(&counts, 1, 2, 1);
    rota_counts_deinit(&counts);
}

static void a_job_that_shows_up_takes_the_report_back(void **state)
{
    struct rota_counts counts = start(1, 4);
    (void)state;
    rota_counts_report_empty(&counts, 3, true);
    rota_counts_report_empty(&counts, 2, true);
    rota_counts_report_empty(&counts, 2, false);
    want(&counts, 1, 1);
    check(&counts, 1, 3, 2);
    rota_counts_deinit(&counts);
}

static void a_partition_that_went_and_came_back_is_unknown(void **state)
{
    struct rota_counts counts = start(1, 2);
    (void)state;
    rota_counts_report_empty(&counts, 1, true);
    want(&counts, 1, 1);
    check(&counts, 1, 1, -1);
    want(&counts, 1, 2);
    want(&counts, 1, 1);
    check(&counts, 1, 2, 1);
    rota_counts_deinit(&counts);
}

static void a_new_request_replaces_the_lowering_in_progress(void **state)
{
    struct rota_counts counts = start(8, 8);
    (void)state;
    want(&counts, 2, 2);
    want(&counts, 4, 6);
    check(&counts, 4, 8, 7);
    want(&counts, 4, 8);
    check(&counts, 4, 8, -1);
    rota_counts_deinit(&counts);
}

static void impossible_counts_are_refused_and_change_nothing(void **state)
{
    struct rota_counts counts = start(4, 8);
    struct rota_error error;
    static const int64_t BAD[][2] = {{5, 4},
                                     {0, 1},
                                     {1, 0},
                                     {-1, 4},
                                     {INT64_MIN, INT64_MAX},
                                     {4, INT64_MIN},
                                     {-3, -2},
                                     {1, ROTA_PARTITIONS_MAX + 1}};
    (void)state;
    for (size_t i = 0; i < sizeof BAD / sizeof *BAD; i++) {
        error.text[0] = '\0';
        assert_int_equal(rota_counts_want(&counts, BAD[i][0], BAD[i][1], &error), ROTA_ERR_INVALID);
        assert_true(error.text[0]);
        check(&counts, 4, 8, -1);
    }
    rota_counts_report_empty(&counts, -1, true);
    rota_counts_report_empty(&counts, INT64_MAX, true);
    rota_counts_report_empty(&counts, INT64_MIN, true);
    rota_counts_report_empty(&counts, 8, true);
    check(&counts, 4, 8, -1);
    want(&counts, 1, ROTA_PARTITIONS_MAX);
    rota_counts_report_empty(&counts, ROTA_PARTITIONS_MAX - 1, true);
    rota_counts_deinit(&counts);
}

/* --- the property --- */

/* How the world around the counts may be wrong: then jobs are lost, and the
 * property has to see it. */
enum mistake {
    NO_MISTAKE,
    REPORT_FROM_BEFORE, /* what was seen while it was written is told later */
    LOWER_AT_ONCE,      /* all is called empty as soon as less is wanted */
    ONE_REPORT_MISSING, /* nothing is lost, but the count wanted is not reached */
};

enum { WORLD = 12 };

struct world {
    struct rota_counts counts;
    struct rota_random random;
    enum mistake mistake;
    int jobs[WORLD];
    bool was_seen_empty[WORLD];
};

static int64_t any(struct world *world, int64_t from, int64_t to)
{
    return rota_random_range(&world->random, from, to);
}

static void report(struct world *world, int64_t partition)
{
    bool is_empty = world->jobs[partition] == 0;
    bool is_written = partition < world->counts.write;
    if (world->mistake == REPORT_FROM_BEFORE && is_written)
        world->was_seen_empty[partition] = is_empty;
    rota_counts_report_empty(&world->counts, partition, is_empty);
}

static void wish(struct world *world)
{
    int64_t write = any(world, 1, WORLD);
    want(&world->counts, write, any(world, write, WORLD));
    for (int64_t i = WORLD - 1; i >= 0; i--) {
        if (world->mistake == LOWER_AT_ONCE ||
            (world->mistake == REPORT_FROM_BEFORE && world->was_seen_empty[i]))
            rota_counts_report_empty(&world->counts, i, true);
    }
}

static void step(struct world *world)
{
    int64_t partition;
    switch (any(world, 0, 5)) {
    case 0:
        wish(world);
        break;
    case 1:
    case 2:
        world->jobs[any(world, 0, world->counts.write - 1)]++;
        break;
    case 3:
        partition = any(world, 0, world->counts.read - 1);
        world->jobs[partition] -= world->jobs[partition] > 0;
        break;
    default:
        report(world, any(world, 0, WORLD - 1));
    }
}

/* Every job lies where somebody reads. */
static bool is_safe(const struct world *world)
{
    for (int64_t i = world->counts.read; i < WORLD; i++) {
        if (world->jobs[i] > 0)
            return false;
    }
    return world->counts.write >= 1 && world->counts.read >= world->counts.write;
}

/* Once all is worked off and told, in any order, what is wanted is in force. */
static bool settles(struct world *world)
{
    int64_t first = any(world, 0, WORLD - 1);
    memset(world->jobs, 0, sizeof world->jobs);
    for (int64_t i = world->mistake == ONE_REPORT_MISSING; i < WORLD; i++)
        report(world, (first + i) % WORLD);
    return world->counts.read == world->counts.wanted_read &&
           !rota_counts_is_lowering(&world->counts);
}

static bool no_job_is_left_behind(uint64_t seed, enum mistake mistake)
{
    struct world world = {.mistake = mistake};
    bool is_well = true;
    rota_random_init(&world.random, seed);
    int64_t write = any(&world, 1, WORLD);
    world.counts = start(write, any(&world, write, WORLD));
    for (int i = 0; is_well && i < 300; i++) {
        step(&world);
        is_well = is_safe(&world);
    }
    is_well = is_well && settles(&world);
    rota_counts_deinit(&world.counts);
    return is_well;
}

static int failures(enum mistake mistake)
{
    int n = 0;
    for (uint64_t seed = 0; seed < 500; seed++)
        n += !no_job_is_left_behind(seed, mistake);
    return n;
}

static void no_job_is_ever_left_behind(void **state)
{
    (void)state;
    assert_int_equal(failures(NO_MISTAKE), 0);
}

static void planted_mistakes_are_caught(void **state)
{
    (void)state;
    assert_true(failures(REPORT_FROM_BEFORE) > 100);
    assert_true(failures(LOWER_AT_ONCE) > 100);
    assert_true(failures(ONE_REPORT_MISSING) > 0);
}

/* Against a list of what is known of each partition. */
static void counts_agree_with_a_naive_list(void **state)
{
    enum { N = 40 };
    bool is_empty[N] = {false};
    struct rota_random random;
    struct rota_counts counts = start(1, 1);
    int64_t write = 1, read = 1, wanted = 1;
    (void)state;
    rota_random_init(&random, 7);
    for (int i = 0; i < 20000; i++) {
        int64_t partition = rota_random_range(&random, 0, N);
        if (rota_random_chance(&random, 0.8)) {
            bool is_now = rota_random_chance(&random, 0.9);
            if (partition >= write && partition < read)
                is_empty[partition] = is_now;
            rota_counts_report_empty(&counts, partition, is_now);
        } else {
            int64_t old = write;
            wanted = rota_random_range(&random, 1, N);
            write = rota_random_range(&random, 1, rota_random_chance(&random, 0.5) ? 1 : wanted);
            read = wanted > read ? wanted : read;
            if (write > old)
                memset(is_empty, 0, sizeof is_empty);
            want(&counts, write, wanted);
        }
        for (; read > wanted && is_empty[read - 1]; read--)
            is_empty[read - 1] = false;
        check(&counts, write, read, read > wanted ? read - 1 : -1);
    }
    rota_counts_deinit(&counts);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_raise_is_in_force_at_once),
        cmocka_unit_test(write_is_lowered_at_once_and_read_when_all_above_is_empty),
        cmocka_unit_test(a_report_from_while_it_was_written_counts_for_nothing),
        cmocka_unit_test(a_job_that_shows_up_takes_the_report_back),
        cmocka_unit_test(a_partition_that_went_and_came_back_is_unknown),
        cmocka_unit_test(a_new_request_replaces_the_lowering_in_progress),
        cmocka_unit_test(impossible_counts_are_refused_and_change_nothing),
        cmocka_unit_test(no_job_is_ever_left_behind),
        cmocka_unit_test(planted_mistakes_are_caught),
        cmocka_unit_test(counts_agree_with_a_naive_list),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
