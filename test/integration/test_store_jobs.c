/* Jobs as rows of a real database: which owner may write, and that rows read back as written. */
#include "io/sql/store_jobs.h"
#include "store.h"

#include <stdlib.h>
#include <string.h>

static struct rota_store_session *ours, *theirs;

enum { OURS = 11, THEIRS = 22 };

static int set_up(void **state)
{
    (void)state;
    store_clear();
    ours = store_open();
    theirs = store_open();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    rota_store_session_close(ours);
    rota_store_session_close(theirs);
    return 0;
}

static uint64_t take(struct rota_store_session *session, uint64_t instance, const char *queue,
                     uint32_t first, size_t n)
{
    struct rota_store_partition partitions[64];
    struct rota_error error;
    uint64_t epoch = 0;
    for (size_t i = 0; i < n; i++)
        partitions[i] =
            (struct rota_store_partition){.queue = rota_str(queue), .number = first + (uint32_t)i};
    if (rota_store_jobs_take_partitions(session, instance, rota_str("host:1"), partitions, n,
                                        &epoch, &error))
        fail_msg("%s", error.text);
    return epoch;
}

static struct rota_job_id make_id(uint32_t partition, uint64_t low)
{
    return (struct rota_job_id){.high = (uint64_t)1 << 20 | partition, .low = low};
}

static struct rota_store_job make_job(size_t index, uint32_t partition, uint64_t low,
                                      const char *record)
{
    return (struct rota_store_job){.partition = index,
                                   .id = make_id(partition, low),
                                   .has_payload = true,
                                   .state = ROTA_JOB_WAITING,
                                   .worker = rota_str(""),
                                   .record = rota_str(record),
                                   .payload = rota_str("payload")};
}

static void write_turn(struct rota_store_session *session, struct rota_store_turn *turn)
{
    struct rota_error error;
    if (rota_store_jobs_write(session, turn, &error))
        fail_msg("%s", error.text);
}

static void write_one(struct rota_store_session *session, uint64_t instance,
                      struct rota_store_partition *partition, const struct rota_store_job *job)
{
    struct rota_store_turn turn = {
        .instance = instance, .partitions = partition, .n_partitions = 1, .jobs = job, .n_jobs = 1};
    write_turn(session, &turn);
}

/* The rows of a partition, in `result`. */
static size_t load(const char *queue, uint32_t number, const char *after,
                   struct rota_sql_result *result)
{
    struct rota_error error;
    if (rota_store_jobs_load(ours, rota_str(queue), number, rota_str(after), result, &error))
        fail_msg("%s", error.text);
    return result->n_rows;
}

static void check_record(const char *queue, uint32_t number, const char *record,
                         const char *payload)
{
    struct rota_sql_result rows = {0};
    assert_int_equal(load(queue, number, "", &rows), 1);
    assert_true(rota_str_is_equal(rota_sql_bytes_at(&rows, 0, 1), rota_str(record)));
    assert_true(rota_str_is_equal(rota_sql_bytes_at(&rows, 0, 2), rota_str(payload)));
    rota_sql_result_deinit(&rows);
}

static void every_take_has_a_new_epoch(void **state)
{
    (void)state;
    uint64_t first = take(ours, OURS, "q", 0, 3);
    uint64_t second = take(theirs, THEIRS, "q", 1, 1);
    uint64_t third = take(ours, OURS, "other", 0, 1);
    assert_true(first > 1 && second > first && third > second);
    assert_int_equal(store_sql(ours->sql, "SELECT epoch FROM rota_partitions WHERE queue = 'q' "
                                          "AND part = 2"),
                     first);
    assert_int_equal(store_sql(ours->sql, "SELECT epoch FROM rota_partitions WHERE queue = 'q' "
                                          "AND part = 1"),
                     second);
}

static void a_stale_owner_changes_nothing_and_learns_which(void **state)
{
    (void)state;
    uint64_t epoch = take(ours, OURS, "q", 0, 2);
    struct rota_store_partition partitions[] = {
        {.queue = rota_str("q"), .number = 0, .epoch = epoch},
        {.queue = rota_str("q"), .number = 1, .epoch = epoch},
    };
    struct rota_store_job jobs[] = {make_job(0, 0, 1, "zero"), make_job(1, 1, 1, "one")};
    struct rota_store_turn turn = {
        .instance = OURS, .partitions = partitions, .n_partitions = 2, .jobs = jobs, .n_jobs = 2};
    write_turn(ours, &turn);
    assert_false(partitions[0].is_stale || partitions[1].is_stale);

    take(theirs, THEIRS, "q", 1, 1);
    jobs[0].record = rota_str("zero again");
    jobs[1].record = rota_str("one again");
    write_turn(ours, &turn);
    assert_false(partitions[0].is_stale);
    assert_true(partitions[1].is_stale);
    check_record("q", 0, "zero again", "payload");
    check_record("q", 1, "one", "payload");

    jobs[1].is_gone = true;
    write_turn(ours, &turn);
    assert_true(partitions[1].is_stale);
    check_record("q", 1, "one", "payload");
}

static void an_epoch_of_another_process_grants_nothing(void **state)
{
    (void)state;
    uint64_t epoch = take(ours, OURS, "q", 0, 1);
    struct rota_store_partition partition = {.queue = rota_str("q"), .number = 0, .epoch = epoch};
    struct rota_store_job job = make_job(0, 0, 1, "x");
    write_one(theirs, THEIRS, &partition, &job);
    assert_true(partition.is_stale);
    partition = (struct rota_store_partition){.queue = rota_str("never"), .epoch = epoch};
    write_one(ours, OURS, &partition, &job);
    assert_true(partition.is_stale);
    assert_int_equal(store_sql(ours->sql, "SELECT COUNT(*) FROM rota_jobs"), 0);
}

static void a_take_waits_for_an_open_turn(void **state)
{
    (void)state;
    struct rota_error error;
    uint64_t epoch = take(ours, OURS, "q", 0, 1), other = 0;
    if (rota_sql_kind(ours->sql) == ROTA_SQL_SQLITE)
        return; /* there is one writer at a time */
    assert_int_equal(rota_sql_begin(ours->sql, &error), ROTA_OK);
    assert_int_equal(store_sql(ours->sql, "SELECT epoch FROM rota_partitions WHERE queue = 'q' "
                                          "AND part = 0 FOR UPDATE"),
                     epoch);
    struct rota_store_session *hasty = store_open_with(300 * ROTA_MSEC);
    const struct rota_store_partition partition = {.queue = rota_str("q")};
    assert_int_not_equal(rota_store_jobs_take_partitions(hasty, THEIRS, rota_str("host:2"),
                                                         &partition, 1, &other, &error),
                         ROTA_OK);
    rota_store_session_close(hasty);
    rota_sql_rollback(ours->sql);
    assert_true(take(theirs, THEIRS, "q", 0, 1) > epoch);
}

static void a_turn_may_be_written_again(void **state)
{
    (void)state;
    struct rota_store_partition partition = {
        .queue = rota_str("q"), .number = 0, .epoch = take(ours, OURS, "q", 0, 1)};
    struct rota_store_job job = make_job(0, 0, 1, "x");
    for (int i = 0; i < 3; i++)
        write_one(ours, OURS, &partition, &job);
    check_record("q", 0, "x", "payload");
    job.is_gone = true;
    for (int i = 0; i < 2; i++)
        write_one(ours, OURS, &partition, &job);
    assert_int_equal(store_sql(ours->sql, "SELECT COUNT(*) FROM rota_jobs"), 0);
}

static void a_change_leaves_the_payload_alone(void **state)
{
    (void)state;
    struct rota_store_partition partition = {
        .queue = rota_str("q"), .number = 0, .epoch = take(ours, OURS, "q", 0, 1)};
    struct rota_store_job job = make_job(0, 0, 1, "new");
    write_one(ours, OURS, &partition, &job);
    job.has_payload = false;
    job.payload = rota_str("never looked at");
    job.record = rota_str("changed");
    job.state = ROTA_JOB_RUNNING;
    job.worker = rota_str("someone");
    write_one(ours, OURS, &partition, &job);
    check_record("q", 0, "changed", "payload");
    assert_int_equal(store_sql(ours->sql, "SELECT COUNT(*) FROM rota_jobs WHERE state = 'running' "
                                          "AND worker = 'someone'"),
                     1);

    /* Of a row that somebody has removed it is told that the payload is lost. */
    store_sql(ours->sql, "DELETE FROM rota_jobs");
    write_one(ours, OURS, &partition, &job);
    assert_int_equal(store_sql(ours->sql, "SELECT COUNT(*) FROM rota_jobs WHERE payload IS NULL"),
                     1);
}

static void bytes_are_bytes(void **state)
{
    (void)state;
    struct rota_sql_result rows = {0};
    char bytes[512];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (char)(unsigned char)i;
    struct rota_store_partition partition = {
        .queue = rota_str("q"), .number = 0, .epoch = take(ours, OURS, "q", 0, 1)};
    struct rota_store_job job = make_job(0, 0, 1, "");
    job.record = rota_str_of(bytes, sizeof bytes);
    job.payload = rota_str_of(bytes + 1, sizeof bytes - 1);
    write_one(ours, OURS, &partition, &job);
    assert_int_equal(load("q", 0, "", &rows), 1);
    assert_true(rota_str_is_equal(rota_sql_bytes_at(&rows, 0, 1), job.record));
    assert_true(rota_str_is_equal(rota_sql_bytes_at(&rows, 0, 2), job.payload));
    rota_sql_result_deinit(&rows);
}

/* Whatever the numbers are, in however many statements. */
static void many_jobs_are_written_and_read_in_pieces(void **state)
{
    enum { N = 1367 };
    static struct rota_store_job jobs[N];
    struct rota_sql_result rows = {0};
    char after[ROTA_JOB_ID_TEXT] = "";
    size_t n = 0;
    (void)state;
    uint64_t epoch = take(ours, OURS, "q", 0, 3);
    struct rota_store_partition partitions[3];
    for (uint32_t i = 0; i < 3; i++)
        partitions[i] =
            (struct rota_store_partition){.queue = rota_str("q"), .number = i, .epoch = epoch};
    for (size_t i = 0; i < N; i++)
        jobs[i] = make_job(i % 3, i % 3, i + 1, "record");
    struct rota_store_turn turn = {
        .instance = OURS, .partitions = partitions, .n_partitions = 3, .jobs = jobs, .n_jobs = N};
    write_turn(ours, &turn);
    assert_int_equal(store_sql(ours->sql, "SELECT COUNT(*) FROM rota_jobs"), N);
    for (size_t read; (read = load("q", 1, after, &rows)) > 0; n += read) {
        struct rota_str last = rota_sql_bytes_at(&rows, read - 1, 0);
        assert_true(read <= ROTA_STORE_JOBS_LOAD && last.size == ROTA_JOB_ID_TEXT - 1);
        memcpy(after, last.data, last.size);
    }
    assert_int_equal(n, N / 3 + 1);
    for (size_t i = 0; i < N; i++)
        jobs[i].is_gone = i % 3 != 2;
    write_turn(ours, &turn);
    assert_int_equal(store_sql(ours->sql, "SELECT COUNT(*) FROM rota_jobs"), N / 3);
    rota_sql_result_deinit(&rows);
}

static void the_bound_of_bytes_can_be_kept(void **state)
{
    (void)state;
    size_t bytes = 0;
    struct rota_error error;
    assert_int_equal(rota_store_jobs_bound(ours, &bytes, &error), ROTA_OK);
    assert_true(bytes > 0 && bytes <= ROTA_JOB_PAYLOAD_MAX);
    char *large = calloc(1, bytes);
    assert_non_null(large);
    struct rota_store_partition partition = {
        .queue = rota_str("q"), .number = 0, .epoch = take(ours, OURS, "q", 0, 1)};
    struct rota_store_job job = make_job(0, 0, 1, "");
    job.record = job.payload = rota_str_of(large, bytes);
    write_one(ours, OURS, &partition, &job);
    free(large);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(every_take_has_a_new_epoch),
        TEST(a_stale_owner_changes_nothing_and_learns_which),
        TEST(an_epoch_of_another_process_grants_nothing),
        TEST(a_take_waits_for_an_open_turn),
        TEST(a_turn_may_be_written_again),
        TEST(a_change_leaves_the_payload_alone),
        TEST(bytes_are_bytes),
        TEST(many_jobs_are_written_and_read_in_pieces),
        TEST(the_bound_of_bytes_can_be_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
