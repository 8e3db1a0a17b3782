/* Settings of queues, and how a broker gets those that others have made. */
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

/* --- what a row has --- */

enum { ROW_MAX = 16 };

struct row {
    struct rota_work_record settings[ROW_MAX];
    struct rota_work_layout layouts[ROW_MAX];
    char keys[ROW_MAX][16];
    size_t n, place;
};

static bool next_of_row(void *data, struct rota_work_record *setting)
{
    struct row *row = data;
    if (row->place == row->n)
        return false;
    *setting = row->settings[row->place++];
    return true;
}

static void push_setting(struct row *row, const struct rota_work_record *setting)
{
    assert_true(row->n < ROW_MAX);
    row->settings[row->n] = *setting;
    if (setting->layout) {
        row->layouts[row->n] = *setting->layout;
        row->settings[row->n].layout = &row->layouts[row->n];
    }
    if (setting->key.size > 0)
        memcpy(row->keys[row->n], setting->key.data, setting->key.size);
    row->settings[row->n].key = rota_str_of(row->keys[row->n], setting->key.size);
    row->n++;
}

/* As a broker has them after an edit. */
static void edit_row(size_t broker, struct rota_setting_edit edit, struct row *row)
{
    struct rota_work_record setting;
    size_t place = 0;
    row->n = row->place = 0;
    assert_int_equal(rota_broker_edit_check(&edit, NULL), ROTA_OK);
    while (rota_broker_next_edited(benches[broker].broker, benches[broker].now, rota_str("q"),
                                   &edit, &place, &setting))
        push_setting(row, &setting);
}

static enum rota_code put(size_t broker, struct row *row)
{
    struct bench *bench = &benches[broker];
    row->place = 0;
    enum rota_code code = rota_broker_put_settings(bench->broker, bench->now, rota_str("q"),
                                                   next_of_row, row, &bench->error);
    bench_settle(bench);
    return code;
}

/* One gets all that the other has. */
static void tell(size_t from, size_t to)
{
    struct row row;
    edit_row(from, (struct rota_setting_edit){.type = ROTA_SETTING_NONE}, &row);
    assert_int_equal(put(to, &row), ROTA_OK);
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

static void deleted_queue_has_default_settings(void **state)
{
    struct bench *bench = &benches[HERE];
    size_t n_live, n_ended;
    (void)state;
    set_paused(HERE, true);
    set_weight(HERE, "", 3 * ROTA_FAIR_WEIGHT);
    set_weight(HERE, "k", 5 * ROTA_FAIR_WEIGHT);
    set_weight(HERE, "usual", ROTA_FAIR_WEIGHT);
    set_layout(HERE, 8, 8, 8, 0);
    assert_true(rota_broker_has_settings(bench->broker, rota_str("q")));
    uint64_t n_layouts = rota_broker_n_layouts(bench->broker);
    assert_int_equal(rota_broker_delete_queue(bench->broker, bench->now, rota_str("q"), false,
                                              &n_live, &n_ended, &bench->number, NULL),
                     ROTA_OK);
    assert_int_equal(bench->number, rota_broker_last_number(bench->broker));
    assert_true(rota_broker_n_layouts(bench->broker) > n_layouts);
    bench_settle(bench);
    assert_int_equal(weight_of(HERE, ""), ROTA_FAIR_WEIGHT);
    assert_int_equal(weight_of(HERE, "k"), ROTA_FAIR_WEIGHT);
    check_layout(HERE, 4, 4, 8); /* the last step is made by the node that leads it */
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

static void an_invalid_setting_of_a_row_is_left_out(void **state)
{
    (void)state;
    struct bench *bench = &benches[HERE];
    rota_time now = bench->now.wall;
    struct rota_str q = rota_str("q"), bad = rota_str("a b");
    const struct rota_work_layout none = {0};
    const struct rota_work_record records[] = {
        {.type = ROTA_WORK_OWN, .queue = q, .at = now, .epoch = 1},
        {.type = ROTA_WORK_PAUSE, .queue = bad, .at = now, .is_paused = true},
        {.type = ROTA_WORK_PAUSE, .queue = q, .is_paused = true},
        {.type = ROTA_WORK_PAUSE, .queue = q, .is_paused = true, .at = -1},
        {.type = ROTA_WORK_PAUSE, .queue = q, .at = now, .weight = ROTA_JOB_ATTEMPTS_MAX + 1},
        {.type = ROTA_WORK_WEIGHT, .queue = q, .at = now},
        {.type = ROTA_WORK_WEIGHT, .queue = q, .at = now, .weight = UINT32_MAX},
        {.type = ROTA_WORK_LAYOUT, .queue = q, .at = now},
        {.type = ROTA_WORK_LAYOUT, .queue = q, .at = now, .layout = &none},
    };
    const struct rota_work_record weight = {
        .type = ROTA_WORK_WEIGHT, .queue = q, .at = now, .weight = 77};
    for (size_t i = 0; i < sizeof records / sizeof *records; i++) {
        struct row row = {.n = 0};
        push_setting(&row, &records[i]);
        push_setting(&row, &weight);
        assert_int_equal(put(HERE, &row), ROTA_ERR_INVALID);
        assert_int_equal(weight_of(HERE, ""), 77);
        row.n = 0;
        assert_int_equal(put(HERE, &row), ROTA_OK);
        assert_int_equal(weight_of(HERE, ""), ROTA_FAIR_WEIGHT);
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
}

/* --- rows --- */

static void what_a_row_does_not_have_is_the_default(void **state)
{
    struct row row = {.n = 0};
    (void)state;
    set_paused(THERE, true);
    set_weight(THERE, "", 500);
    set_weight(THERE, "k", 3000);
    set_layout(THERE, 8, 8, 8, 0);
    set_weight(HERE, "m", 10);
    tell(HERE, THERE);
    assert_false(is_paused(THERE));
    assert_int_equal(weight_of(THERE, ""), ROTA_FAIR_WEIGHT);
    assert_int_equal(weight_of(THERE, "k"), ROTA_FAIR_WEIGHT);
    assert_int_equal(weight_of(THERE, "m"), 10);
    check_layout(THERE, 4, 4, 4);
    assert_int_equal(put(THERE, &row), ROTA_OK);
    assert_false(rota_broker_has_settings(benches[THERE].broker, rota_str("q")));
    bench_restart(&benches[THERE]); /* it is in its journal */
    assert_false(rota_broker_has_settings(benches[THERE].broker, rota_str("q")));
}

static void a_row_overwrites_whatever_was_here(void **state)
{
    struct row older, newer;
    (void)state;
    edit_row(HERE, (struct rota_setting_edit){.type = ROTA_SETTING_PAUSE, .is_paused = true},
             &older);
    bench_tick(&benches[THERE], ROTA_MIN);
    set_paused(THERE, false); /* later, but not in the store */
    assert_int_equal(put(THERE, &older), ROTA_OK);
    assert_true(is_paused(THERE));
    size_t before = benches[THERE].journal.size;
    assert_int_equal(put(THERE, &older), ROTA_OK); /* what is known is not written again */
    assert_int_equal(benches[THERE].journal.size, before);
    edit_row(THERE, (struct rota_setting_edit){.type = ROTA_SETTING_PAUSE}, &newer);
    assert_int_equal(newer.n, 0);
}

static void an_edit_changes_one_setting_and_keeps_the_others(void **state)
{
    struct row row;
    (void)state;
    set_paused(HERE, true);
    set_weight(HERE, "k", 3000);
    set_layout(HERE, 8, 8, 8, 0);
    edit_row(HERE, (struct rota_setting_edit){.type = ROTA_SETTING_KILLS, .number = 2}, &row);
    assert_int_equal(row.n, 3);
    assert_int_equal(put(THERE, &row), ROTA_OK);
    assert_true(is_paused(THERE));
    assert_int_equal(weight_of(THERE, "k"), 3000);
    check_layout(THERE, 8, 8, 8);
    edit_row(
        THERE,
        (struct rota_setting_edit){.type = ROTA_SETTING_WEIGHT, .key = rota_str("m"), .number = 5},
        &row);
    assert_int_equal(row.n, 4);
    edit_row(THERE,
             (struct rota_setting_edit){
                 .type = ROTA_SETTING_WEIGHT, .key = rota_str("k"), .number = ROTA_FAIR_WEIGHT},
             &row);
    assert_int_equal(row.n, 2);
    edit_row(THERE, (struct rota_setting_edit){.type = ROTA_SETTING_PAUSE}, &row);
    assert_int_equal(row.n, 3);
    assert_int_equal(row.settings[0].weight, 2); /* the deaths */
    edit_row(THERE,
             (struct rota_setting_edit){.type = ROTA_SETTING_RESET, .layout = {4, 4, 8, SPREAD}},
             &row);
    assert_int_equal(row.n, 1);
    assert_int_equal(row.settings[0].type, ROTA_WORK_LAYOUT);
    edit_row(THERE,
             (struct rota_setting_edit){.type = ROTA_SETTING_RESET, .layout = {4, 4, 4, SPREAD}},
             &row);
    assert_int_equal(row.n, 0);
    edit_row(HERE, (struct rota_setting_edit){.type = ROTA_SETTING_NONE}, &row);
    assert_int_equal(row.n, 3);
}

static void an_edit_of_an_unknown_queue_begins_its_row(void **state)
{
    struct rota_work_record setting;
    struct rota_setting_edit edit = {.type = ROTA_SETTING_KILLS, .number = 3};
    struct row none = {.n = 0};
    struct bench *bench = &benches[HERE];
    size_t place = 0;
    (void)state;
    assert_true(rota_broker_next_edited(bench->broker, bench->now, rota_str("new"), &edit, &place,
                                        &setting));
    assert_int_equal(setting.type, ROTA_WORK_PAUSE);
    assert_int_equal(setting.weight, 3);
    assert_false(setting.is_paused);
    assert_int_equal(setting.at, bench->now.wall);
    assert_false(rota_broker_next_edited(bench->broker, bench->now, rota_str("new"), &edit, &place,
                                         &setting));
    assert_int_equal(rota_broker_put_settings(bench->broker, bench->now, rota_str("new"),
                                              next_of_row, &none, NULL),
                     ROTA_OK);
    struct rota_queue_view view;
    assert_false(rota_broker_find_queue(bench->broker, rota_str("new"), &view));
}

static void invalid_edits_are_refused(void **state)
{
    const struct rota_setting_edit edits[] = {
        {.type = ROTA_SETTING_KILLS, .number = ROTA_JOB_ATTEMPTS_MAX + 1},
        {.type = ROTA_SETTING_WEIGHT, .number = 0},
        {.type = ROTA_SETTING_WEIGHT, .number = ROTA_FAIR_WEIGHT_MAX + 1},
        {.type = ROTA_SETTING_LAYOUT},
        {.type = ROTA_SETTING_RESET},
    };
    (void)state;
    for (size_t i = 0; i < sizeof edits / sizeof *edits; i++)
        assert_int_equal(rota_broker_edit_check(&edits[i], NULL), ROTA_ERR_INVALID);
}

static void a_layout_of_a_row_keeps_its_time(void **state)
{
    struct row row;
    (void)state;
    set_layout(HERE, 4, 4, 16, 0);
    edit_row(HERE,
             (struct rota_setting_edit){
                 .type = ROTA_SETTING_LAYOUT, .layout = {4, 4, 4, SPREAD}, .at = laid_at(HERE) + 1},
             &row);
    assert_int_equal(row.n, 0); /* the default needs no row */
    edit_row(HERE,
             (struct rota_setting_edit){.type = ROTA_SETTING_LAYOUT, .layout = {8, 8, 8, SPREAD}},
             &row);
    assert_int_equal(row.settings[0].at, laid_at(HERE) + 1);
    assert_int_equal(put(THERE, &row), ROTA_OK);
    assert_int_equal(laid_at(THERE), laid_at(HERE) + 1);
}

int main(void)
{
#define RULE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        RULE(a_later_broker_learns_the_settings),
        RULE(a_layout_is_kept_and_goes_to_others),
        RULE(a_queue_with_the_default_layout_may_be_forgotten),
        RULE(deleted_queue_has_default_settings),
        RULE(the_jobs_of_other_queues_stay_when_one_is_deleted),
        RULE(jobs_beyond_are_those_that_have_not_ended),
        RULE(an_invalid_setting_of_a_row_is_left_out),
        RULE(settings_are_taken_at_their_bounds_and_refused_beyond),
        RULE(what_a_row_does_not_have_is_the_default),
        RULE(a_row_overwrites_whatever_was_here),
        RULE(an_edit_changes_one_setting_and_keeps_the_others),
        RULE(an_edit_of_an_unknown_queue_begins_its_row),
        RULE(invalid_edits_are_refused),
        RULE(a_layout_of_a_row_keeps_its_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
