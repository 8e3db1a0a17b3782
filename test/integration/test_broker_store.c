/* A broker whose jobs are rows of a real database, and another process that takes them over. */
#include "queue_world.h"

#include "io/clock.h"
#include "io/sql/store_jobs.h"
#include "store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct rota_store_session *theirs;
static void open_broker(struct world *world)
{
    struct rota_work_broker_options options = {.store = database_text("ROTA_TEST_URL"),
                                               .partitions = 4};
    *world = (struct world){0};
    world_open(world, &options);
}

static int set_up(void **state)
{
    struct world *world = calloc(1, sizeof *world);
    assert_non_null(world);
    store_clear();
    theirs = store_open();
    open_broker(world);
    *state = world;
    return 0;
}

static int tear_down(void **state)
{
    world_close(*state);
    rota_store_session_close(theirs);
    free(*state);
    return 0;
}

static void restart(struct world *world)
{
    world_close(world);
    open_broker(world);
}

/* Another node takes the partition, and does nothing with it. */
static void steal(void)
{
    const struct rota_store_partition partition = {.queue = JOBS};
    struct rota_error error;
    uint64_t epoch;
    if (rota_store_jobs_take_partitions(theirs, 77, rota_str("thief"), &partition, 1, &epoch,
                                        &error))
        fail_msg("%s", error.text);
}

static int64_t count(const char *condition)
{
    char text[256];
    snprintf(text, sizeof text, "SELECT COUNT(*) FROM rota_jobs WHERE %s", condition);
    return store_sql(theirs->sql, text);
}

static void a_jobs_row_follows_its_life(void **state)
{
    struct world *world = *state;
    static struct told told, other;
    struct rota_queue_handed job;
    struct name name = must_add(world, "jobs", "what to do");
    assert_int_equal(count("state = 'waiting' AND attempts = 0"), 1);
    assert_int_equal(poll_jobs(world, 1, 60000, &told, &job), 1);
    assert_true(rota_str_is_equal(job.payload, rota_str("what to do")));
    assert_int_equal(complete(world, &job, "done so", &other), ROTA_STATUS_OK);
    assert_int_equal(count("state = 'done' AND attempts = 1 AND worker = 'w1'"), 1);
    restart(world);
    struct rota_queue_job_info info = describe(world, &name, &other);
    assert_int_equal(info.state, ROTA_JOB_DONE);
    assert_true(rota_str_is_equal(info.result, rota_str("done so")));
}

static void jobs_keep_their_order_over_a_restart(void **state)
{
    struct world *world = *state;
    static struct told told;
    struct rota_queue_handed job = {0};
    char payload[2] = "0";
    for (int c = '0'; c <= '9'; c++) {
        payload[0] = (char)c;
        must_add(world, "jobs", payload);
        if (c == '4')
            restart(world);
    }
    restart(world);
    for (int c = '0'; c <= '9'; c++) {
        assert_int_equal(poll_jobs(world, 1, 60000, &told, &job), 1);
        assert_int_equal(job.payload.data[0], c);
    }
}

static void an_attempt_is_ended_after_a_restart_and_numbers_are_not_used_twice(void **state)
{
    struct world *world = *state;
    static struct told told, other;
    struct rota_queue_handed first = {0}, second = {0};
    must_add(world, "jobs", "x");
    assert_int_equal(poll_jobs(world, 1, 60000, &told, &first), 1);
    must_add(world, "jobs", "so that what came before is written");
    first.queue = JOBS;
    restart(world);
    static struct told again;
    assert_int_equal(poll_jobs(world, 1, 60000, &again, &second), 1);
    assert_true(second.attempt >> 32 > first.attempt >> 32);
    /* The bytes of the first one were of the world before. */
    struct rota_queue_list reply;
    read_reply(world, &ROTA_QUEUE_POLL_REPLY, &told, &reply);
    first = *(const struct rota_queue_handed *)reply.items.items;
    assert_int_equal(complete(world, &first, "in time", &other), ROTA_STATUS_OK);
    assert_int_equal(count("state = 'done'"), 1);
}

/* It may find out before the add comes, and takes the partition back then. */
static void an_add_to_a_lost_partition_is_not_acknowledged(void **state)
{
    struct world *world = *state;
    static struct told told;
    struct name name;
    size_t n_known = 1, n_refused = 0;
    must_add(world, "jobs", "first");
    for (int i = 0; i < 100 && n_refused < 3; i++) {
        struct rota_queue_job_spec spec = {.queue = JOBS, .payload = rota_str("x")};
        steal();
        if (add(world, spec, &name, NULL, &told) == ROTA_STATUS_OK) {
            n_known++;
        } else {
            assert_int_equal(told.status, ROTA_STATUS_UNAVAILABLE);
            assert_string_equal(told.failure, "stale");
            n_refused++;
        }
        assert_int_equal(count("state = 'waiting'"), n_known);
    }
    assert_true(n_refused > 0);
    must_add(world, "jobs", "last"); /* it is taken back */
    assert_int_equal(count("state = 'waiting'"), n_known + 1);
}

static void an_unwritten_end_is_not_reported(void **state)
{
    struct world *world = *state;
    static struct told told, other, watching;
    struct rota_queue_handed job = {0};
    size_t n_refused = 0;
    for (int i = 0; i < 100 && n_refused < 2; i++) {
        struct name name = must_add(world, "jobs", "x");
        struct rota_queue_about about = {.queue = JOBS, .id = id_of(&name)};
        assert_int_equal(poll_jobs(world, 1, 60000, &told, &job), 1);
        start(world, "Watch", &ROTA_QUEUE_NAME, &about, &watching);
        await(&world->loop, &watching.n_messages, 1);
        steal();
        enum rota_status status = complete(world, &job, "", &other);
        if (status == ROTA_STATUS_UNAVAILABLE)
            n_refused++;
        else
            assert_int_equal(status, ROTA_STATUS_NOT_FOUND); /* it knew already */
        await(&world->loop, &watching.n_ends, 1);
        assert_int_equal(watching.status, ROTA_STATUS_UNAVAILABLE);
        assert_int_equal(count("state = 'done'"), 0);
    }
    assert_true(n_refused > 0);
}

static void other_partitions_continue_when_one_is_lost(void **state)
{
    struct world *world = *state;
    static struct told told;
    struct name name;
    struct rota_queue_job_spec spec = {.queue = JOBS, .partition = 1, .payload = rota_str("x")};
    must_add(world, "jobs", "x");
    assert_int_equal(add(world, spec, &name, NULL, &told), ROTA_STATUS_OK);
    steal();
    assert_int_equal(add(world, spec, &name, NULL, &told), ROTA_STATUS_OK);
    assert_int_equal(count("part = 1"), 2);
}

static void a_forgotten_job_has_no_row(void **state)
{
    struct world *world = *state;
    static struct told told, other;
    struct rota_queue_handed job;
    must_add(world, "jobs", "x");
    assert_int_equal(poll_jobs(world, 1, 60000, &told, &job), 1);
    assert_int_equal(complete(world, &job, "", &other), ROTA_STATUS_OK);
    world_close(world);
    /* As if it had ended long ago. */
    struct rota_work_broker_options options = {
        .store = database_text("ROTA_TEST_URL"), .partitions = 4, .keep = 1};
    *world = (struct world){0};
    world_open(world, &options);
    for (int i = 0; i < 1000 && count("state = 'done'") > 0; i++)
        must_add(world, "jobs", "to have something written");
    assert_int_equal(count("state = 'done'"), 0);
}

/* How many partitions the broker says that a queue is to have; 0: it does not know the queue. */
static uint64_t wanted_of(struct world *world, struct rota_str queue)
{
    static struct told told;
    struct rota_queue_setting setting = {.queue = queue};
    struct rota_queue_list list;
    assert_int_equal(ask(world, "Queues", &ROTA_QUEUE_PAUSE, &setting, &told), ROTA_STATUS_OK);
    read_reply(world, &ROTA_QUEUE_QUEUES_REPLY, &told, &list);
    return list.items.n > 0 ? ((const struct rota_queue_info *)list.items.items)->wanted : 0;
}

static int64_t count_rows(const char *table)
{
    char text[256];
    snprintf(text, sizeof text, "SELECT COUNT(*) FROM %s WHERE queue = 'jobs'", table);
    return store_sql(theirs->sql, text);
}

/* A row that says nothing is kept for a while, for nodes that have to learn of it. */
static bool has_settings(void)
{
    return store_sql(theirs->sql, "SELECT COUNT(*) FROM rota_queue_settings WHERE queue = 'jobs' "
                                  "AND LENGTH(settings) > 0") > 0;
}

static void a_deleted_queue_leaves_nothing(void **state)
{
    static const char *const tables[] = {"rota_jobs", "rota_partitions"};
    struct world *world = *state;
    static struct told told;
    struct name name;
    for (uint32_t i = 0; i < 8; i++) {
        struct rota_queue_job_spec spec = {
            .queue = JOBS, .partition = i % 4, .payload = rota_str("x")};
        assert_int_equal(add(world, spec, &name, NULL, &told), ROTA_STATUS_OK);
        struct rota_queue_about about = {.queue = JOBS, .id = id_of(&name)};
        assert_int_equal(ask(world, "Cancel", &ROTA_QUEUE_NAME, &about, &told), ROTA_STATUS_OK);
    }
    struct rota_queue_setting setting = {
        .queue = JOBS, .is_paused = true, .key = rota_str("k"), .weight = 300};
    assert_int_equal(ask(world, "Pause", &ROTA_QUEUE_PAUSE, &setting, &told), ROTA_STATUS_OK);
    assert_int_equal(ask(world, "SetWeight", &ROTA_QUEUE_WEIGHT, &setting, &told), ROTA_STATUS_OK);
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
        assert_true(count_rows(tables[i]) > 0);
    assert_true(has_settings());
    struct rota_queue_delete request = {.queue = JOBS};
    assert_int_equal(ask(world, "DeleteQueue", &ROTA_QUEUE_DELETE, &request, &told),
                     ROTA_STATUS_OK);
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
        while (count_rows(tables[i]) > 0)
            uv_run(&world->loop, UV_RUN_ONCE);
    assert_false(has_settings());
    restart(world);
    assert_int_equal(wanted_of(world, JOBS), 0);
    must_add(world, "jobs", "a new one under an old name");
    assert_int_equal(wanted_of(world, JOBS), 4);
    assert_int_equal(count_rows("rota_partitions"), 1);
}

/* As an older program has left them: they become rows, once. */
static void settings_of_older_tables_are_taken_over(void **state)
{
    struct world *world = *state;
    static struct told told;
    const struct rota_queue_setting pause = {.queue = JOBS};
    struct rota_queue_list list;
    world_close(world);
    store_clear();
    store_sql(theirs->sql, "INSERT INTO rota_queues VALUES ('jobs', 1, 2), ('usual', 0, 0)");
    store_sql(theirs->sql, "INSERT INTO rota_weights VALUES ('heavy', '', 300)");
    store_sql(theirs->sql,
              "INSERT INTO rota_layouts VALUES ('jobs', 7, 9, 9, 9, 16, 1, 0, 0, 0, 0), "
              "('jobs', 8, 2, 2, 2, 16, 1, 0, 0, 0, 0)");
    open_broker(world);
    assert_int_equal(wanted_of(world, JOBS), 2);
    assert_int_equal(wanted_of(world, rota_str("heavy")), 4);
    assert_int_equal(wanted_of(world, rota_str("usual")), 0);
    while (store_sql(theirs->sql, "SELECT COUNT(*) FROM rota_queue_settings WHERE queue <> ''") < 2)
        uv_run(&world->loop, UV_RUN_ONCE);
    assert_int_equal(ask(world, "Pause", &ROTA_QUEUE_PAUSE, &pause, &told), ROTA_STATUS_OK);
    restart(world);
    assert_int_equal(ask(world, "Queues", &ROTA_QUEUE_PAUSE, &pause, &told), ROTA_STATUS_OK);
    read_reply(world, &ROTA_QUEUE_QUEUES_REPLY, &told, &list);
    const struct rota_queue_info *info = list.items.items;
    assert_false(info->is_paused); /* the older table is no longer read */
    assert_int_equal(info->worker_deaths, 2);
    assert_int_equal(info->wanted, 2);
}

static void count_deletes(void *data, bool is_job, const char *about, const char *what)
{
    (void)is_job;
    (void)about;
    *(size_t *)data += strstr(what, "DeleteQueue") != NULL;
}

/* The call waits until all partitions are loaded, and is checked again with each of them. */
static void a_call_that_had_to_wait_is_counted_once(void **state)
{
    struct world *world = *state;
    static struct told told;
    size_t n_noted = 0;
    struct name name;
    for (uint32_t i = 0; i < 4; i++) {
        struct rota_queue_job_spec spec = {.queue = JOBS, .partition = i, .payload = rota_str("x")};
        assert_int_equal(add(world, spec, &name, NULL, &told), ROTA_STATUS_OK);
    }
    world_close(world);
    struct rota_work_broker_options options = {.store = database_text("ROTA_TEST_URL"),
                                               .partitions = 4,
                                               .on_news = count_deletes,
                                               .data = &n_noted};
    *world = (struct world){0};
    world_open(world, &options);
    struct rota_queue_delete request = {.queue = JOBS};
    assert_int_equal(ask(world, "DeleteQueue", &ROTA_QUEUE_DELETE, &request, &told),
                     ROTA_STATUS_FAILED_PRECONDITION); /* it has jobs */
    assert_int_equal(n_noted, 1);
}

static void settings_are_rows_and_outlive_the_broker(void **state)
{
    struct world *world = *state;
    static struct told told;
    const struct rota_queue_setting pause = {.queue = JOBS, .is_paused = true};
    const struct rota_queue_setting weight = {.queue = JOBS, .key = rota_str("gold"), .weight = 77};
    const struct rota_queue_setting deaths = {.queue = JOBS, .weight = 9};
    const struct rota_queue_lay_out layout = {.queue = JOBS, .partitions = 2};
    struct rota_queue_list list;
    struct rota_queue_handed job;
    must_add(world, "jobs", "x");
    assert_int_equal(ask(world, "Pause", &ROTA_QUEUE_PAUSE, &pause, &told), ROTA_STATUS_OK);
    assert_int_equal(ask(world, "SetWeight", &ROTA_QUEUE_WEIGHT, &weight, &told), ROTA_STATUS_OK);
    assert_int_equal(ask(world, "SetQuarantine", &ROTA_QUEUE_QUARANTINE, &deaths, &told),
                     ROTA_STATUS_OK);
    assert_int_equal(ask(world, "SetLayout", &ROTA_QUEUE_SET_LAYOUT, &layout, &told),
                     ROTA_STATUS_OK);
    assert_true(has_settings());
    assert_int_equal(store_sql(theirs->sql, "SELECT COUNT(*) FROM rota_queue_settings"), 2);
    restart(world);
    while (wanted_of(world, JOBS) != 2)
        uv_run(&world->loop, UV_RUN_ONCE);
    assert_int_equal(ask(world, "Queues", &ROTA_QUEUE_PAUSE, &pause, &told), ROTA_STATUS_OK);
    read_reply(world, &ROTA_QUEUE_QUEUES_REPLY, &told, &list);
    const struct rota_queue_info *info = list.items.items;
    assert_true(info->is_paused);
    assert_int_equal(info->worker_deaths, 9);
    assert_int_equal(poll_jobs(world, 1, 1, &told, &job), 0); /* it is paused */
}

/* Not of SQLite, which has no server. */
static void a_broker_without_its_store_rejects_and_later_continues(void **state)
{
    struct world *world = *state;
    static struct told told, polled;
    struct rota_queue_handed job;
    struct rota_queue_job_spec spec = {.queue = JOBS, .payload = rota_str("later")};
    struct name first, second;
    bool is_new;
    if (database_url(false).kind == ROTA_SQL_SQLITE)
        return;
    first = must_add(world, "jobs", "before");
    database_do("stop");
    assert_int_equal(add(world, spec, &second, &is_new, &told), ROTA_STATUS_UNAVAILABLE);
    assert_non_null(strstr(told.text, "the store"));
    /* From now on it says so at once; what it has is not handed out. */
    assert_int_equal(add(world, spec, &second, &is_new, &told), ROTA_STATUS_UNAVAILABLE);
    assert_int_equal(poll_jobs(world, 1, 1, &polled, &job), 0);
    database_do("start");
    do
        uv_run(&world->loop, UV_RUN_ONCE);
    while (add(world, spec, &second, &is_new, &told) == ROTA_STATUS_UNAVAILABLE);
    assert_int_equal(told.status, ROTA_STATUS_OK);
    assert_int_equal(poll_jobs(world, 1, 60000, &polled, &job), 1);
    assert_true(rota_str_is_equal(job.payload, rota_str("before")));
    assert_int_equal(complete(world, &job, "", &told), ROTA_STATUS_OK);
    assert_int_equal(describe(world, &first, &told).state, ROTA_JOB_DONE);
    rota_store_session_close(theirs); /* its connection is gone */
    theirs = store_open();
    assert_int_equal(count("state = 'done'"), 1);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(a_jobs_row_follows_its_life),
        TEST(jobs_keep_their_order_over_a_restart),
        TEST(an_attempt_is_ended_after_a_restart_and_numbers_are_not_used_twice),
        TEST(an_add_to_a_lost_partition_is_not_acknowledged),
        TEST(an_unwritten_end_is_not_reported),
        TEST(other_partitions_continue_when_one_is_lost),
        TEST(a_forgotten_job_has_no_row),
        TEST(a_call_that_had_to_wait_is_counted_once),
        TEST(settings_of_older_tables_are_taken_over),
        TEST(a_deleted_queue_leaves_nothing),
        TEST(settings_are_rows_and_outlive_the_broker),
        TEST(a_broker_without_its_store_rejects_and_later_continues),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
