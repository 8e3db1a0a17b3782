/* Settings of queues that go from broker to broker. */
#include "core/work/job/fair.h"
#include "work_bench.h"

#include <stdio.h>
#include <string.h>

enum { HERE, THERE, N_BROKERS };
enum { QUEUES = 1024 }; /* of each, at most */

static const struct rota_spread SPREAD = {.mode = ROTA_SPREAD_SLOTS, .batch = 16};

static struct bench benches[N_BROKERS];

static int set_up(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_BROKERS; i++) {
        benches[i].options = (struct rota_broker_options){
            .seed = 7 + i, .layout = {4, 4, 4, SPREAD}, .queues_max = QUEUES};
        bench_init(&benches[i]);
    }
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_BROKERS; i++)
        bench_deinit(&benches[i]);
    return 0;
}

static void set_paused(size_t broker, bool is_paused)
{
    struct bench *bench = &benches[broker];
    assert_int_equal(rota_broker_pause(bench->broker, bench->now, rota_str("q"), is_paused,
                                       &bench->number, NULL),
                     ROTA_OK);
    bench_settle(bench);
}

static void set_weight(size_t broker, const char *key, uint32_t weight)
{
    struct bench *bench = &benches[broker];
    assert_int_equal(rota_broker_set_weight(bench->broker, bench->now, rota_str("q"), rota_str(key),
                                            weight, &bench->number, NULL),
                     ROTA_OK);
    bench_settle(bench);
}

static void pass_time(rota_time span)
{
    for (size_t i = 0; i < N_BROKERS; i++)
        bench_tick(&benches[i], span);
}

/* One learns what the other has. */
static void tell(size_t from, size_t to)
{
    struct rota_setting_place place = {0};
    struct rota_work_record record;
    while (rota_broker_next_setting(benches[from].broker, &place, &record))
        assert_int_equal(
            rota_broker_take_setting(benches[to].broker, benches[to].now, &record, NULL), ROTA_OK);
    bench_settle(&benches[to]);
}

static bool is_paused(size_t broker)
{
    struct rota_queue_view view;
    struct rota_str place = {0};
    assert_true(rota_broker_next_queue(benches[broker].broker, &place, &view));
    return view.is_paused;
}

/* 0: it was never set. */
static uint32_t weight_of(size_t broker, const char *key)
{
    struct rota_setting_place place = {0};
    struct rota_work_record record;
    while (rota_broker_next_setting(benches[broker].broker, &place, &record))
        if (record.type == ROTA_WORK_WEIGHT && rota_str_is_equal(record.key, rota_str(key)))
            return record.weight;
    return 0;
}

static void a_later_broker_learns_the_settings(void **state)
{
    (void)state;
    set_paused(HERE, true);
    set_weight(HERE, "heavy", 3000);
    set_weight(HERE, "", 500);
    tell(HERE, THERE);
    struct rota_job_id id = bench_add(&benches[THERE], "x");
    bench_open(&benches[THERE], "w", 1);
    assert_int_equal(bench_state(&benches[THERE], id), ROTA_JOB_WAITING);
    bench_restart(&benches[THERE]); /* it is in its journal */
    assert_true(is_paused(THERE));
    assert_int_equal(weight_of(THERE, "heavy"), 3000);
    assert_int_equal(weight_of(THERE, ""), 500);
}

static void the_latest_setting_wins_in_any_order(void **state)
{
    (void)state;
    set_paused(HERE, true);
    set_weight(HERE, "k", 3000);
    tell(HERE, THERE);
    pass_time(ROTA_SEC);
    set_paused(THERE, false); /* while the other is unreachable */
    set_weight(THERE, "k", ROTA_FAIR_WEIGHT);
    bench_restart(&benches[HERE]);
    tell(HERE, THERE);
    assert_false(is_paused(THERE));
    assert_int_equal(weight_of(THERE, "k"), ROTA_FAIR_WEIGHT);
    struct rota_job_id id = bench_add(&benches[HERE], "x");
    bench_open(&benches[HERE], "w", 1);
    assert_int_equal(bench_state(&benches[HERE], id), ROTA_JOB_WAITING);
    tell(THERE, HERE);
    assert_int_equal(bench_state(&benches[HERE], id), ROTA_JOB_RUNNING);
    assert_int_equal(weight_of(HERE, "k"), ROTA_FAIR_WEIGHT);
}

static void compaction_keeps_when_it_was_set(void **state)
{
    (void)state;
    struct bench *bench = &benches[HERE];
    set_paused(HERE, true);
    set_paused(HERE, false);
    pass_time(ROTA_SEC);
    set_paused(THERE, true);
    pass_time(ROTA_SEC);
    uint64_t number = rota_broker_last_number(bench->broker) + 1;
    assert_int_equal(rota_broker_rewrite(bench->broker, number, 100, SIZE_MAX), 0);
    bench_settle(bench);
    bench_restart(bench);
    tell(HERE, THERE); /* an older word, though it was written later */
    assert_true(is_paused(THERE));
    tell(THERE, HERE);
    assert_true(is_paused(HERE));
}

static void of_two_settings_of_the_same_time_both_brokers_choose_the_same(void **state)
{
    (void)state;
    set_paused(HERE, true);
    set_paused(THERE, false);
    set_weight(HERE, "k", 10);
    set_weight(THERE, "k", 20);
    tell(HERE, THERE);
    tell(THERE, HERE);
    assert_true(is_paused(HERE) && is_paused(THERE));
    assert_int_equal(weight_of(HERE, "k"), 20);
    assert_int_equal(weight_of(THERE, "k"), 20);
    size_t before = benches[HERE].journal.size;
    tell(THERE, HERE); /* what is known is not written again */
    assert_int_equal(benches[HERE].journal.size, before);
}

/* --- layouts --- */

/* At `at`; 0: now. */
static void set_layout(size_t broker, uint32_t wanted, uint32_t write, uint32_t read, rota_time at)
{
    struct bench *bench = &benches[broker];
    const struct rota_work_layout layout = {
        .wanted = wanted, .write = write, .read = read, .spread = SPREAD};
    assert_int_equal(rota_broker_set_layout(bench->broker, bench->now, rota_str("q"), &layout, at,
                                            &bench->number, NULL),
                     ROTA_OK);
    bench_settle(bench);
}

static void check_layout(size_t broker, uint32_t wanted, uint32_t write, uint32_t read)
{
    const struct rota_work_layout expected = {
        .wanted = wanted, .write = write, .read = read, .spread = SPREAD};
    struct rota_work_layout layout;
    rota_time at;
    assert_true(rota_broker_layout(benches[broker].broker, rota_str("q"), &layout, &at));
    assert_true(rota_layout_is_equal(&layout, &expected));
}

static rota_time laid_at(size_t broker)
{
    struct rota_work_layout layout;
    rota_time at;
    assert_true(rota_broker_layout(benches[broker].broker, rota_str("q"), &layout, &at));
    return at;
}

static void a_layout_is_kept_and_goes_to_others(void **state)
{
    struct bench *bench = &benches[HERE];
    (void)state;
    set_layout(HERE, 4, 4, 16, 0);
    tell(HERE, THERE);
    bench_restart(&benches[THERE]);
    check_layout(THERE, 4, 4, 16);
    assert_int_equal(laid_at(THERE), laid_at(HERE));
    assert_int_equal(rota_broker_rewrite(bench->broker, rota_broker_last_number(bench->broker) + 1,
                                         100, SIZE_MAX),
                     0);
    bench_settle(bench);
    bench_restart(bench);
    check_layout(HERE, 4, 4, 16);
}

static void a_request_takes_precedence_over_a_step_of_the_former_one(void **state)
{
    (void)state;
    set_layout(HERE, 4, 4, 16, 0);
    tell(HERE, THERE);
    pass_time(ROTA_SEC);
    set_layout(THERE, 8, 4, 16, 0);
    pass_time(ROTA_SEC);
    set_layout(HERE, 4, 4, 4, laid_at(HERE) + 1); /* it has not heard of it, and is later */
    tell(HERE, THERE);
    tell(THERE, HERE);
    check_layout(THERE, 8, 4, 16);
    check_layout(HERE, 8, 4, 16);
}

static void of_two_layouts_of_the_same_time_both_brokers_choose_the_same(void **state)
{
    (void)state;
    set_layout(HERE, 8, 8, 8, 0);
    set_layout(THERE, 4, 4, 16, laid_at(HERE));
    tell(HERE, THERE);
    tell(THERE, HERE);
    check_layout(HERE, 8, 8, 8);
    check_layout(THERE, 8, 8, 8);
    bench_restart(&benches[THERE]);
    check_layout(THERE, 8, 8, 8);
}

static enum rota_code lay_out_one(size_t i, uint32_t partitions)
{
    struct bench *bench = &benches[HERE];
    const struct rota_work_layout layout = {
        .wanted = partitions, .write = partitions, .read = partitions, .spread = SPREAD};
    char name[32];
    snprintf(name, sizeof name, "q%zu", i);
    enum rota_code code = rota_broker_set_layout(bench->broker, bench->now, rota_str(name), &layout,
                                                 0, &bench->number, NULL);
    bench_settle(bench);
    return code;
}

static void a_queue_with_the_default_layout_may_be_forgotten(void **state)
{
    const size_t n = QUEUES; /* that of the bench makes room */
    (void)state;
    for (size_t i = 0; i < n; i++)
        assert_int_equal(lay_out_one(i, 8), ROTA_OK);
    assert_int_equal(lay_out_one(n, 8), ROTA_ERR_LIMIT);
    for (size_t i = 0; i < n; i += 2)
        assert_int_equal(lay_out_one(i, 4), ROTA_OK);
    for (size_t i = n; i < n + (n + 1) / 2; i++)
        assert_int_equal(lay_out_one(i, 8), ROTA_OK);
    assert_int_equal(lay_out_one(2 * n, 8), ROTA_ERR_LIMIT);
    bench_restart(&benches[HERE]); /* reading has room for all of them, too */
    assert_int_equal(lay_out_one(1, 4), ROTA_OK);
    assert_int_equal(lay_out_one(2 * n, 8), ROTA_OK);
}

static void deleted_queue_has_default_settings_everywhere(void **state)
{
    struct bench *bench = &benches[HERE];
    struct rota_work_layout layout;
    size_t n_live, n_ended;
    rota_time at;
    (void)state;
    set_paused(HERE, true);
    set_weight(HERE, "", 3 * ROTA_FAIR_WEIGHT);
    set_weight(HERE, "k", 5 * ROTA_FAIR_WEIGHT);
    set_weight(HERE, "usual", ROTA_FAIR_WEIGHT);
    set_layout(HERE, 8, 8, 8, 0);
    tell(HERE, THERE);
    assert_true(is_paused(THERE));
    assert_int_equal(weight_of(THERE, "k"), 5 * ROTA_FAIR_WEIGHT);
    uint64_t n_layouts = rota_broker_n_layouts(bench->broker);
    assert_int_equal(rota_broker_delete_queue(bench->broker, bench->now, rota_str("q"), false,
                                              &n_live, &n_ended, &bench->number, NULL),
                     ROTA_OK);
    assert_int_equal(bench->number, rota_broker_last_number(bench->broker));
    assert_true(rota_broker_n_layouts(bench->broker) > n_layouts);
    bench_settle(bench);
    tell(HERE, THERE); /* in the same moment as it was set */
    assert_false(is_paused(THERE));
    assert_int_equal(weight_of(THERE, ""), ROTA_FAIR_WEIGHT);
    assert_int_equal(weight_of(THERE, "k"), ROTA_FAIR_WEIGHT);
    assert_true(rota_broker_layout(benches[THERE].broker, rota_str("q"), &layout, &at));
    assert_int_equal(layout.wanted, 4);
    assert_true(at > bench->now.wall);
}

static void the_jobs_of_other_queues_stay_when_one_is_deleted(void **state)
{
    struct bench *bench = &benches[HERE];
    struct rota_str other = rota_str("other"), q = rota_str("q");
    struct rota_job_id ids[2][3];
    struct rota_job_view view;
    size_t n_live, n_ended;
    (void)state;
    bench_own(bench, "other");
    for (int i = 0; i < 3; i++) {
        ids[1][i] = bench_add_spec(bench, (struct rota_job_spec){.queue = other});
        ids[0][i] = bench_add(bench, "x");
        for (int k = 0; k < 2; k++)
            assert_int_equal(rota_broker_cancel(bench->broker, bench->now, k ? other : q, ids[k][i],
                                                &bench->number, NULL),
                             ROTA_OK);
        bench_settle(bench);
    }
    assert_int_equal(rota_broker_delete_queue(bench->broker, bench->now, q, false, &n_live,
                                              &n_ended, &bench->number, NULL),
                     ROTA_OK);
    assert_int_equal(n_ended, 3);
    bench_settle(bench);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(rota_broker_find(bench->broker, q, ids[0][i], &view, NULL),
                         ROTA_ERR_NOT_FOUND);
        assert_int_equal(rota_broker_find(bench->broker, other, ids[1][i], &view, NULL), ROTA_OK);
    }
}

static void jobs_beyond_are_those_that_have_not_ended(void **state)
{
    struct bench *bench = &benches[HERE];
    struct rota_job_spec spec = {.queue = rota_str("q"), .partition = 3, .payload = rota_str("x")};
    struct rota_job_id id;
    bool is_new;
    const struct rota_work_layout one = {.wanted = 1, .write = 1, .read = 16},
                                  three = {.wanted = 3, .write = 3, .read = 4},
                                  four = {.wanted = 4, .write = 4, .read = 16},
                                  none = {.wanted = 3, .write = 3, .read = 3};
    (void)state;
    bench_add(bench, "x"); /* of partition 0 */
    assert_int_equal(rota_broker_partition_open(bench->broker, bench->now, spec.queue, 3, 1, NULL),
                     ROTA_OK);
    assert_false(rota_broker_has_beyond(bench->broker, spec.queue, &one));
    assert_int_equal(
        rota_broker_add(bench->broker, bench->now, &spec, &id, &is_new, &bench->number, NULL),
        ROTA_OK);
    bench_settle(bench);
    assert_true(rota_broker_has_beyond(bench->broker, spec.queue, &one));
    assert_true(rota_broker_has_beyond(bench->broker, spec.queue, &three));
    assert_false(rota_broker_has_beyond(bench->broker, spec.queue, &four));
    assert_false(rota_broker_has_beyond(bench->broker, spec.queue, &none));
    assert_int_equal(
        rota_broker_cancel(bench->broker, bench->now, spec.queue, id, &bench->number, NULL),
        ROTA_OK);
    bench_settle(bench);
    assert_false(rota_broker_has_beyond(bench->broker, spec.queue, &one));
    for (uint64_t i = 0; i < 20; i++) { /* these come however few are written */
        char key[] = {(char)i, 0};
        spec.id = rota_job_id_of_key(spec.queue, rota_str_of(key, 1), 4);
        id = rota_job_id_make(bench->now.wall, 3, i);
        spec.is_keyed = rota_job_id_partition(spec.id) == 3;
        if (!spec.is_keyed)
            spec.id = (struct rota_job_id){id.high, id.low ^ (uint64_t)1 << 60};
        assert_int_equal(
            rota_broker_add(bench->broker, bench->now, &spec, &id, &is_new, &bench->number, NULL),
            ROTA_OK);
        assert_true(is_new);
    }
    bench_settle(bench);
    assert_false(rota_broker_has_beyond(bench->broker, spec.queue, &one));
}

static void invalid_settings_are_refused(void **state)
{
    (void)state;
    struct bench *bench = &benches[HERE];
    rota_time now = bench->now.wall;
    struct rota_str q = rota_str("q"), bad = rota_str("a b");
    const struct rota_work_layout none = {0};
    const struct rota_work_record records[] = {
        {.type = ROTA_WORK_OWN, .queue = q, .at = now, .epoch = 1},
        {.type = ROTA_WORK_PAUSE, .queue = bad, .at = now},
        {.type = ROTA_WORK_PAUSE, .queue = q, .is_paused = true},
        {.type = ROTA_WORK_PAUSE, .queue = q, .is_paused = true, .at = -1},
        {.type = ROTA_WORK_PAUSE, .queue = q, .is_paused = true, .at = ROTA_TIME_NEVER},
        {.type = ROTA_WORK_WEIGHT, .queue = q, .at = now},
        {.type = ROTA_WORK_WEIGHT, .queue = q, .at = now, .weight = UINT32_MAX},
        {.type = ROTA_WORK_LAYOUT, .queue = q, .at = now},
        {.type = ROTA_WORK_LAYOUT, .queue = q, .at = now, .layout = &none},
    };
    for (size_t i = 0; i < sizeof records / sizeof *records; i++)
        assert_int_equal(
            rota_broker_take_setting(bench->broker, bench->now, &records[i], &bench->error),
            ROTA_ERR_INVALID);
    assert_false(is_paused(HERE));
}

static void quarantine_limits_set_at_the_same_time_are_the_same_everywhere(void **state)
{
    static const struct {
        uint32_t kills[N_BROKERS];
        bool is_paused[N_BROKERS];
    } CASES[] = {{{2, 3}, {false, false}}, {{3, 2}, {false, true}}, {{2, 2}, {true, false}}};
    (void)state;
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        for (size_t k = 0; k < N_BROKERS; k++) {
            struct rota_work_record setting = {.type = ROTA_WORK_PAUSE,
                                               .queue = rota_str("q"),
                                               .at = benches[k].now.wall + (rota_time)i + 1,
                                               .weight = CASES[i].kills[k],
                                               .is_paused = CASES[i].is_paused[k]};
            assert_int_equal(
                rota_broker_take_setting(benches[k].broker, benches[k].now, &setting, NULL),
                ROTA_OK);
        }
        tell(HERE, THERE);
        tell(THERE, HERE);
        size_t wins = 2 * CASES[i].kills[0] + CASES[i].is_paused[0] >
                              2 * CASES[i].kills[1] + CASES[i].is_paused[1]
                          ? HERE
                          : THERE;
        for (size_t k = 0; k < N_BROKERS; k++) {
            struct rota_setting_place place = {0};
            struct rota_work_record record;
            assert_true(rota_broker_next_setting(benches[k].broker, &place, &record));
            assert_int_equal(record.type, ROTA_WORK_PAUSE);
            assert_int_equal(record.weight, CASES[i].kills[wins]);
            assert_int_equal(record.is_paused, CASES[i].is_paused[wins]);
        }
    }
}

static void settings_are_taken_at_their_bounds_and_refused_beyond(void **state)
{
    struct bench *bench = &benches[HERE];
    static char text[ROTA_JOB_KEY_MAX + 1];
    memset(text, 'k', sizeof text);
    struct rota_str most = rota_str_of(text, ROTA_JOB_KEY_MAX),
                    more = rota_str_of(text, sizeof text);
    struct rota_str q = rota_str("q"), none = rota_str("");
    uint64_t number;
    (void)state;
    static const struct {
        uint32_t weight;
        enum rota_code code;
    } WEIGHTS[] = {{0, ROTA_ERR_INVALID},
                   {1, ROTA_OK},
                   {ROTA_FAIR_WEIGHT_MAX, ROTA_OK},
                   {ROTA_FAIR_WEIGHT_MAX + 1, ROTA_ERR_INVALID}};
    for (size_t i = 0; i < sizeof WEIGHTS / sizeof *WEIGHTS; i++)
        assert_int_equal(rota_broker_set_weight(bench->broker, bench->now, q, none,
                                                WEIGHTS[i].weight, &number, NULL),
                         WEIGHTS[i].code);
    assert_int_equal(
        rota_broker_set_weight(bench->broker, bench->now, q, most, 2000, &number, NULL), ROTA_OK);
    assert_int_equal(
        rota_broker_set_weight(bench->broker, bench->now, q, more, 2000, &number, NULL),
        ROTA_ERR_INVALID);
    assert_int_equal(
        rota_broker_set_kills(bench->broker, bench->now, q, ROTA_JOB_ATTEMPTS_MAX, &number, NULL),
        ROTA_OK);
    assert_int_equal(rota_broker_set_kills(bench->broker, bench->now, q, ROTA_JOB_ATTEMPTS_MAX + 1,
                                           &number, NULL),
                     ROTA_ERR_INVALID);
    bench_settle(bench);
    static const struct {
        rota_time ahead;
        enum rota_code code;
    } TIMES[] = {{24 * ROTA_HOUR, ROTA_OK},
                 {24 * ROTA_HOUR + 1, ROTA_ERR_INVALID},
                 {-BENCH_WALL, ROTA_ERR_INVALID},
                 {1 - BENCH_WALL, ROTA_OK}};
    for (size_t i = 0; i < sizeof TIMES / sizeof *TIMES; i++) {
        struct rota_work_record setting = {.type = ROTA_WORK_PAUSE,
                                           .queue = q,
                                           .is_paused = true,
                                           .at = bench->now.wall + TIMES[i].ahead};
        if (TIMES[i].ahead < 0)
            setting.at = BENCH_WALL + TIMES[i].ahead;
        assert_int_equal(rota_broker_take_setting(bench->broker, bench->now, &setting, NULL),
                         TIMES[i].code);
        bench_settle(bench);
    }
}

static void default_setting_creates_no_queue(void **state)
{
    struct bench *bench = &benches[HERE];
    struct rota_work_layout other = bench->options.layout;
    other.wanted = 8;
    const struct {
        struct rota_work_record setting;
        bool is_needless;
    } CASES[] = {
        {{.type = ROTA_WORK_PAUSE}, true},
        {{.type = ROTA_WORK_PAUSE, .is_paused = true}, false},
        {{.type = ROTA_WORK_PAUSE, .weight = 1}, false},
        {{.type = ROTA_WORK_WEIGHT, .weight = ROTA_FAIR_WEIGHT}, true},
        {{.type = ROTA_WORK_WEIGHT, .weight = ROTA_FAIR_WEIGHT + 1}, false},
        {{.type = ROTA_WORK_LAYOUT, .layout = &bench->options.layout}, true},
        {{.type = ROTA_WORK_LAYOUT, .layout = &other}, false},
        {{.type = ROTA_WORK_LAYOUT}, false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        struct rota_work_record setting = CASES[i].setting;
        setting.queue = rota_str("new");
        assert_int_equal(rota_broker_is_needless(bench->broker, &setting), CASES[i].is_needless);
        setting.queue = rota_str("q"); /* which is there */
        assert_false(rota_broker_is_needless(bench->broker, &setting));
    }
}

static void weight_that_was_set_elsewhere_keeps_its_time(void **state)
{
    struct bench *bench = &benches[THERE];
    rota_time at = bench->now.wall - ROTA_HOUR;
    struct rota_work_record setting = {
        .type = ROTA_WORK_WEIGHT, .queue = rota_str("q"), .weight = 3000, .at = at};
    (void)state;
    assert_int_equal(rota_broker_take_setting(bench->broker, bench->now, &setting, NULL), ROTA_OK);
    setting.key = rota_str("k");
    assert_int_equal(rota_broker_take_setting(bench->broker, bench->now, &setting, NULL), ROTA_OK);
    bench_settle(bench);
    for (int i = 0; i < 2; i++, bench_restart(bench)) {
        struct rota_setting_place place = {0};
        struct rota_work_record record;
        size_t n = 0;
        for (; rota_broker_next_setting(bench->broker, &place, &record); n++)
            assert_int_equal(record.at, at);
        assert_int_equal(n, 2);
    }
}

int main(void)
{
#define RULE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        RULE(a_later_broker_learns_the_settings),
        RULE(the_latest_setting_wins_in_any_order),
        RULE(compaction_keeps_when_it_was_set),
        RULE(of_two_settings_of_the_same_time_both_brokers_choose_the_same),
        RULE(a_layout_is_kept_and_goes_to_others),
        RULE(a_request_takes_precedence_over_a_step_of_the_former_one),
        RULE(of_two_layouts_of_the_same_time_both_brokers_choose_the_same),
        RULE(a_queue_with_the_default_layout_may_be_forgotten),
        RULE(deleted_queue_has_default_settings_everywhere),
        RULE(the_jobs_of_other_queues_stay_when_one_is_deleted),
        RULE(jobs_beyond_are_those_that_have_not_ended),
        RULE(invalid_settings_are_refused),
        RULE(quarantine_limits_set_at_the_same_time_are_the_same_everywhere),
        RULE(settings_are_taken_at_their_bounds_and_refused_beyond),
        RULE(default_setting_creates_no_queue),
        RULE(weight_that_was_set_elsewhere_keeps_its_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
