/* A lease on a loop: what a program sees of it, and what it may do from inside. The
 * processes of test_lease.py show what happens when things go wrong. */
#include "await.h"
#include "database.h"
#include "metric.h"
#include "run/own/lease_inside.h"
#include "store.h"

#include <rota/experimental/claims.h>
#include <rota/experimental/lease.h>
#include <rota/experimental/store_ask.h>
#include <stdio.h>
#include <string.h>

enum { SHARDS = 4 };

static uv_loop_t loop;
static struct rota_store *store;
static struct rota_claims *claims;
static char lines[16384];

/* What callbacks have said. */
static struct seen {
    struct rota_lease *lease;
    size_t n_starts, n_stops, n_lost, n_refused, n_closed;
    uint32_t shard;
    uint64_t epoch;
    enum rota_lease_why why;
    bool was_held; /* in on_stop */
    char refusal[ROTA_ERROR_TEXT_MAX];
    bool closes, sees; /* in on_start */
} one, other;

static void on_closed(void *data)
{
    ((struct seen *)data)->n_closed++;
}

static void on_start(void *data, uint32_t shard, uint64_t epoch)
{
    struct seen *seen = data;
    seen->n_starts++;
    seen->shard = shard;
    seen->epoch = epoch;
    assert_true(rota_lease_check(seen->lease, shard, epoch));
    if (seen->closes)
        rota_lease_close(seen->lease, on_closed, seen);
    if (seen->sees)
        assert_int_equal(rota_lease_seen(seen->lease, shard, epoch + 5, NULL), ROTA_OK);
    seen->closes = seen->sees = false;
}

static void on_stop(void *data, uint32_t shard, uint64_t epoch, enum rota_lease_why why)
{
    struct seen *seen = data;
    seen->n_stops++;
    seen->why = why;
    seen->was_held |= rota_lease_check(seen->lease, shard, epoch);
}

static void on_lost(void *data, uint32_t shard, uint64_t epoch, enum rota_lease_why why)
{
    struct seen *seen = data;
    (void)shard;
    (void)epoch;
    assert_int_equal(seen->why, why);
    assert_int_equal(seen->n_stops, ++seen->n_lost); /* it comes behind on_stop */
}

static void on_refused(void *data, const struct rota_error *error)
{
    struct seen *seen = data;
    seen->n_refused++;
    snprintf(seen->refusal, sizeof seen->refusal, "%s", error->text);
}

static void write_line(void *data, struct rota_str line)
{
    (void)data;
    size_t used = strlen(lines);
    if (used + line.size < sizeof lines)
        memcpy(lines + used, line.data, line.size);
}

static const struct rota_log log_all = {.level = ROTA_LOG_INFO, .write = write_line};

static struct rota_lease_options options_of(struct seen *seen, const char *host)
{
    return (struct rota_lease_options){
        .space = "cache",
        .dc = "east",
        .host = host,
        .shards = SHARDS,
        .ttl = 2 * ROTA_SEC,
        .loss = ROTA_LEASE_LOSS_STANDBY,
        .on_start = on_start,
        .on_stop = on_stop,
        .on_lost = on_lost,
        .on_refused = on_refused,
        .claims = claims,
        .node = 3,
        .address = "a:1",
        .log = &log_all,
        .data = seen,
    };
}

static void open_lease(struct seen *seen, const struct rota_lease_options *options)
{
    struct rota_error error;
    if (rota_lease_open(&loop, store, options, &seen->lease, &error))
        fail_msg("%s", error.text);
}

static void close_lease(struct seen *seen)
{
    rota_lease_close(seen->lease, on_closed, seen);
    await(&loop, &seen->n_closed, 1);
}

static int setup(void **state)
{
    struct rota_store_options options = {
        .url = database_text("ROTA_TEST_URL"), .statement_timeout = 20 * ROTA_SEC, .log = &log_all};
    struct rota_error error;
    (void)state;
    store_clear();
    uv_loop_init(&loop);
    memset(lines, 0, sizeof lines);
    one = other = (struct seen){0};
    if (rota_store_open(&loop, &options, &store, &error))
        fail_msg("%s", error.text);
    return rota_claims_new(1, &claims, NULL);
}

static int teardown(void **state)
{
    (void)state;
    rota_store_close(store);
    uv_run(&loop, UV_RUN_DEFAULT); /* its thread ends */
    assert_int_equal(uv_loop_close(&loop), 0);
    rota_claims_free(claims);
    return 0;
}

static void shard_is_held_until_it_is_released(void **state)
{
    struct rota_lease_shard held[2];
    struct rota_claim claim;
    char shard[16];
    (void)state;
    struct rota_lease_options options = options_of(&one, "a");
    open_lease(&one, &options);
    assert_int_equal(rota_lease_shards(one.lease, held, 2), 0);
    await(&loop, &one.n_starts, 1);

    assert_true(rota_lease_check(one.lease, one.shard, one.epoch));
    assert_false(rota_lease_check(one.lease, one.shard, one.epoch + 1));
    assert_false(rota_lease_check(one.lease, one.shard, 0));
    assert_false(rota_lease_check(one.lease, SHARDS, one.epoch));
    assert_int_equal(rota_lease_epoch(one.lease, one.shard), one.epoch);
    assert_int_equal(rota_lease_epoch(one.lease, one.shard + 1), 0);
    assert_int_equal(rota_lease_shards(one.lease, held, 2), 1);
    assert_int_equal(rota_lease_shards(one.lease, NULL, 0), 1);
    assert_int_equal(held[0].epoch, one.epoch);
    assert_true(held[0].left > 0 && held[0].left < options.ttl);

    snprintf(shard, sizeof shard, "%u", one.shard);
    assert_true(rota_claims_find(claims, rota_str("cache"), rota_str(shard), &claim));
    assert_true(claim.is_held);
    assert_int_equal(claim.node, 3);
    assert_int_equal(claim.epoch, one.epoch);
    assert_int_equal(
        rota_claims_check(claims, claim.until - 1, claim.space, claim.shard, one.epoch),
        ROTA_CLAIMS_HELD);
    assert_int_equal(rota_claims_check(claims, claim.until, claim.space, claim.shard, one.epoch),
                     ROTA_CLAIMS_NOT_HELD); /* whatever the loop has noticed by then */
    assert_true(rota_str_is_equal(claim.address, rota_str("a:1")));

    rota_lease_close(one.lease, on_closed, &one);
    assert_int_equal(one.n_stops, 1); /* at once */
    assert_int_equal(one.why, ROTA_LEASE_WHY_SHUTDOWN);
    assert_false(one.was_held);
    assert_int_equal(one.n_lost, 0);
    assert_false(rota_claims_find(claims, rota_str("cache"), rota_str(shard), &claim));
    await(&loop, &one.n_closed, 1);

    struct rota_sql *admin = store_admin();
    assert_int_equal(store_sql(admin, "SELECT COUNT(*) FROM rota_leases WHERE instance <> 0"), 0);
    rota_sql_close(admin);
    assert_non_null(strstr(lines, "\"lease gained\" space=cache dc=east"));

    /* The MariaDB of the tests is set up to be fast. */
    bool is_fast = strncmp(database_text("ROTA_TEST_URL"), "mysql", 5) == 0;
    assert_int_equal(strstr(lines, "\"store not durable\"") != NULL, is_fast);
}

static void claims_are_extended_by_pings(void **state)
{
    struct rota_claim claim;
    (void)state;
    struct rota_lease_options options = options_of(&one, "a");
    options.ttl = ROTA_LEASE_TTL_MIN * 5;
    open_lease(&one, &options);
    await(&loop, &one.n_starts, 1);
    char shard[16];
    snprintf(shard, sizeof shard, "%u", one.shard);
    assert_true(rota_claims_find(claims, rota_str("cache"), rota_str(shard), &claim));
    rota_time until = claim.until;
    while (rota_claims_find(claims, rota_str("cache"), rota_str(shard), &claim) &&
           claim.until == until && one.n_stops == 0)
        uv_run(&loop, UV_RUN_ONCE);
    assert_true(claim.until > until || one.n_stops > 0);
    close_lease(&one);
}

static void lease_may_be_closed_from_inside(void **state)
{
    (void)state;
    struct rota_lease_options options = options_of(&one, "a");
    one.closes = true;
    open_lease(&one, &options);
    await(&loop, &one.n_closed, 1);
    assert_int_equal(one.n_starts, 1);
    assert_int_equal(one.n_stops, 1);
    assert_int_equal(one.n_lost, 0);
    assert_int_equal(rota_claims_size(claims), 0);
}

static void lease_that_was_never_held_closes(void **state)
{
    (void)state;
    struct rota_lease_options options = options_of(&one, "a");
    open_lease(&one, &options);
    close_lease(&one);
    rota_lease_close(NULL, NULL, NULL);
    assert_int_equal(one.n_stops, 0);
}

static void later_epoch_ends_a_lease(void **state)
{
    static const char behind[] =
        "rota_lease_stopped_total{dc=\"east\",space=\"cache\",why=\"behind\"}";
    struct rota_metrics *metrics = rota_metrics_new(1);
    struct rota_error error;
    (void)state;
    struct rota_lease_options options = options_of(&one, "a");
    options.metrics = metrics;
    one.sees = true; /* from inside a callback */
    open_lease(&one, &options);
    await(&loop, &one.n_lost, 1);
    assert_int_equal(one.why, ROTA_LEASE_WHY_BEHIND);
    assert_false(one.was_held);
    uint64_t first = one.epoch;
    uint32_t shard = one.shard;
    await(&loop, &one.n_starts, 2); /* it stands by, and comes back */
    assert_true(one.shard != shard || one.epoch > first + 5);
    assert_int_equal(metric_of(metrics, behind), 1);
    assert_int_equal(metric_of(metrics, "rota_lease_held{dc=\"east\",space=\"cache\"}"), 1);
    assert_int_equal(metric_of(metrics, "rota_lease_gained_total{dc=\"east\",space=\"cache\"}"), 2);

    assert_int_equal(rota_lease_seen(one.lease, one.shard, one.epoch, &error), ROTA_OK);
    assert_int_equal(one.n_lost, 1); /* that is ours */
    assert_int_equal(rota_lease_seen(one.lease, one.shard, one.epoch + 1, &error), ROTA_OK);
    assert_int_equal(one.n_lost, 2);
    assert_int_equal(rota_lease_seen(one.lease, SHARDS, 1, &error), ROTA_ERR_INVALID);
    assert_int_equal(rota_lease_seen(one.lease, 0, UINT64_MAX, &error), ROTA_ERR_INVALID);
    assert_int_equal(metric_of(metrics, behind), 2);
    assert_int_equal(metric_of(metrics, "rota_lease_held{dc=\"east\",space=\"cache\"}"), 0);
    close_lease(&one);
    rota_metrics_free(metrics);
}

static void row_that_another_process_has_is_lost(void **state)
{
    (void)state;
    struct rota_lease_options options = options_of(&one, "a");
    options.shards = 1;
    open_lease(&one, &options);
    await(&loop, &one.n_starts, 1);
    struct rota_sql *admin = store_admin();
    store_sql(admin, "UPDATE rota_leases SET instance = 1, epoch = epoch + 1, pings = pings + 1");
    await(&loop, &one.n_lost, 1);
    assert_int_equal(one.why, ROTA_LEASE_WHY_TAKEN);
    store_sql(admin, "UPDATE rota_leases SET instance = 0, pings = pings + 1");
    await(&loop, &one.n_starts, 2);

    uint64_t epoch = one.epoch;
    store_sql(admin, "DELETE FROM rota_leases"); /* and the memory of it */
    await(&loop, &one.n_lost, 2);
    assert_int_equal(one.why, ROTA_LEASE_WHY_WENT_BACK);
    await(&loop, &one.n_starts, 3);
    assert_true(one.epoch > epoch);
    assert_non_null(strstr(lines, "\"lease table went backwards\""));
    rota_sql_close(admin);
    close_lease(&one);
}

/* The file of SQLite and what belongs to it get another name, "" for none. */
static void rename_file(const char *from_end, const char *to_end)
{
    static const char *const parts[] = {"", "-wal", "-shm"};
    struct rota_sql_url url = database_url(false);
    char from[ROTA_SQL_URL_PATH_MAX + 32], to[ROTA_SQL_URL_PATH_MAX + 32];
    for (size_t i = 0; i < 3; i++) {
        snprintf(from, sizeof from, "%s%s%s", url.path, from_end, parts[i]);
        snprintf(to, sizeof to, "%s%s%s", url.path, to_end, parts[i]);
        if (rename(from, to) != 0)
            assert_true(i > 0); /* those are not always there */
    }
}

static void file_that_is_replaced_is_lost_memory(void **state)
{
    struct rota_sql_url url = database_url(false);
    char text[ROTA_SQL_URL_PATH_MAX + 64];
    (void)state;
    struct rota_lease_options options = options_of(&one, "a");
    options.shards = 1;
    struct rota_sql *admin = store_admin();
    snprintf(text, sizeof text, "VACUUM INTO '%s.copy'", url.path);
    store_sql(admin, text);
    rota_sql_close(admin);

    open_lease(&one, &options);
    await(&loop, &one.n_starts, 1);
    uint64_t epoch = one.epoch;
    rename_file("", ".old"); /* moved away: there is no file now, and a new one is made */
    await(&loop, &one.n_lost, 1);
    assert_int_equal(one.why, ROTA_LEASE_WHY_WENT_BACK);
    assert_non_null(strstr(lines, "moved, removed or replaced"));
    await(&loop, &one.n_starts, 2);
    assert_true(one.epoch > epoch);

    epoch = one.epoch;
    rename_file("", ".older");
    rename_file(".copy", ""); /* the copy of before is put in its place */
    await(&loop, &one.n_lost, 2);
    assert_int_equal(one.why, ROTA_LEASE_WHY_WENT_BACK);
    await(&loop, &one.n_starts, 3);
    assert_true(one.epoch > epoch);
    close_lease(&one);
}

static void other_number_of_shards_is_refused_once(void **state)
{
    (void)state;
    struct rota_lease_options options = options_of(&one, "a");
    open_lease(&one, &options);
    await(&loop, &one.n_starts, 1);
    options = options_of(&other, "b");
    options.shards = SHARDS * 2;
    options.claims = NULL;
    open_lease(&other, &options);
    await(&loop, &other.n_refused, 1);
    assert_non_null(strstr(other.refusal, "has 4 shards"));
    close_lease(&one);
    assert_int_equal(other.n_refused, 1);
    assert_int_equal(other.n_starts, 0);
    close_lease(&other);
}

static void two_leases_of_one_process_do_not_share(void **state)
{
    (void)state;
    struct rota_lease_options options = options_of(&one, "a");
    options.wanted = 2;
    open_lease(&one, &options);
    options = options_of(&other, "b");
    options.wanted = 2;
    open_lease(&other, &options);
    await(&loop, &one.n_starts, 2);
    await(&loop, &other.n_starts, 2);
    assert_int_equal(rota_claims_size(claims), 4);
    close_lease(&one);
    close_lease(&other);
}

/* All of them are asked for with one request; some are still ours, one is not. */
static void one_of_many_shards_is_lost_alone(void **state)
{
    (void)state;
    struct rota_lease_options options = options_of(&one, "a");
    options.wanted = SHARDS;
    open_lease(&one, &options);
    await(&loop, &one.n_starts, SHARDS);
    struct rota_sql *admin = store_admin();
    store_sql(admin, "UPDATE rota_leases SET instance = 1, epoch = epoch + 1 WHERE shard = 2");
    await(&loop, &one.n_lost, 1);
    assert_int_equal(one.why, ROTA_LEASE_WHY_TAKEN);
    assert_int_equal(rota_lease_epoch(one.lease, 2), 0);
    assert_int_equal(rota_lease_shards(one.lease, NULL, 0), SHARDS - 1);
    int64_t before = store_sql(admin, "SELECT MIN(pings) FROM rota_leases WHERE shard <> 2");
    while (store_sql(admin, "SELECT MIN(pings) FROM rota_leases WHERE shard <> 2") < before + 3)
        uv_run(&loop, UV_RUN_ONCE);
    assert_int_equal(one.n_lost, 1);
    rota_sql_close(admin);
    close_lease(&one);
}

static void pings_of_more_shards_than_fit_into_a_request_take_several(void **state)
{
    enum { MANY = ROTA_STORE_PINGS_MAX + 2 };
    (void)state;
    struct rota_lease_options options = options_of(&one, "a");
    options.shards = options.wanted = MANY;
    options.ttl = 10 * ROTA_MIN; /* no ping is due for long */
    open_lease(&one, &options);
    await(&loop, &one.n_starts, MANY);
    while (!rota_list_is_empty(&one.lease->driver.asks))
        uv_run(&loop, UV_RUN_ONCE);
    struct rota_sql *admin = store_admin();
    int64_t before = store_sql(admin, "SELECT MAX(pings) FROM rota_leases");
    for (uint32_t i = 0; i < MANY; i++)
        rota_lease_ask(one.lease,
                       &(struct rota_lease_action){.type = ROTA_LEASE_PING,
                                                   .shard = i,
                                                   .epoch = rota_lease_epoch(one.lease, i)});
    rota_lease_ask_pings(one.lease);
    while (!rota_list_is_empty(&one.lease->driver.asks))
        uv_run(&loop, UV_RUN_ONCE);
    assert_int_equal(store_sql(admin, "SELECT MIN(pings) FROM rota_leases"), before + 1);
    assert_int_equal(store_sql(admin, "SELECT MAX(pings) FROM rota_leases"), before + 1);
    rota_sql_close(admin);
    close_lease(&one);
}

/* The store was unreachable when it was closed: its rows are still there, and last for an hour. */
static void reopened_lease_releases_shards_it_could_not_release_before(void **state)
{
    struct rota_store_session *session = store_open();
    struct rota_store_request claim = store_claim_of("a:1", 77, SHARDS);
    struct rota_lease_options options = options_of(&one, "a:1");
    struct rota_error error;
    (void)state;
    claim.ttl = ROTA_HOUR;
    options.wanted = SHARDS;
    for (uint32_t i = 0; i < SHARDS; i++)
        assert_int_equal(store_claim(session, &claim).shard, i);
    rota_store_session_close(session);
    if (rota_lease_open_again(&loop, store, &options, 77, &one.lease, &error))
        fail_msg("%s", error.text);
    await(&loop, &one.n_starts, SHARDS);
    close_lease(&one);
}

static void bad_options_are_refused(void **state)
{
    struct rota_error error;
    char huge[ROTA_STORE_NAME_MAX + 2];
    (void)state;
    memset(huge, 'x', sizeof huge - 1);
    huge[sizeof huge - 1] = 0;
    struct rota_lease_options good = options_of(&one, "a");
    struct rota_lease_options bad[10];
    for (size_t i = 0; i < 10; i++)
        bad[i] = good;
    bad[0].space = NULL;
    bad[1].space = "";
    bad[2].dc = huge;
    bad[3].host = "a\nb";
    bad[4].shards = 0;
    bad[5].shards = ROTA_LEASE_SHARDS_MAX + 1;
    bad[6].wanted = ROTA_LEASE_WANTED_MAX + 1;
    bad[7].ttl = ROTA_LEASE_TTL_MIN - 1;
    bad[8].ttl = -1;
    bad[9].node = -1;
    for (size_t i = 0; i < 10; i++) {
        error.text[0] = 0;
        if (!rota_lease_open(&loop, store, &bad[i], &one.lease, &error))
            fail_msg("options %zu were accepted", i);
        assert_true(strlen(error.text) > 10);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(shard_is_held_until_it_is_released),
        TEST(claims_are_extended_by_pings),
        TEST(lease_may_be_closed_from_inside),
        TEST(lease_that_was_never_held_closes),
        TEST(later_epoch_ends_a_lease),
        TEST(row_that_another_process_has_is_lost),
        TEST(other_number_of_shards_is_refused_once),
        TEST(two_leases_of_one_process_do_not_share),
        TEST(one_of_many_shards_is_lost_alone),
        TEST(pings_of_more_shards_than_fit_into_a_request_take_several),
        TEST(reopened_lease_releases_shards_it_could_not_release_before),
        TEST(bad_options_are_refused),
        TEST(file_that_is_replaced_is_lost_memory), /* last: there is one only of SQLite */
    };
    size_t n = sizeof tests / sizeof *tests - (database_url(false).kind != ROTA_SQL_SQLITE);
    return _cmocka_run_group_tests("lease", tests, n, NULL, NULL);
}
