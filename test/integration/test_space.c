/* A space as a program meets it, on SQLite: what it refuses, what it may do from inside of
 * callbacks, and what observers see. The promises of engines are in test_engines.c. */
#include "await.h"
#include "database.h"
#include "io/clock.h"
#include "io/sql/sql.h"
#include "metric.h"

#include <rota/experimental/claims.h>
#include <rota/experimental/members.h>
#include <rota/space.h>
#include <rota/store.h>
#include <stdio.h>
#include <string.h>

enum { MANY = 100000 };

static uv_loop_t loop;
static struct rota_store *store;
static struct rota_claims *claims;

struct seen {
    struct rota_space *space;
    size_t n_starts, n_stops, n_changes, n_closed, n_drained, n_outcomes;
    enum rota_code code;
    char text[ROTA_SPACE_TEXT_MAX];
    bool closes, drains; /* in on_start */
    size_t n_refusals;   /* with `is_start_answered`: starts that are refused before one succeeds */
    const char *problem;
    bool keeps_stops; /* unanswered */
    uint64_t stopped_epoch;
};

static void on_closed(void *data)
{
    ((struct seen *)data)->n_closed++;
}

static void on_drained(void *data)
{
    ((struct seen *)data)->n_drained++;
}

static void on_start(void *data, uint32_t shard, uint64_t epoch)
{
    struct seen *seen = data;
    seen->n_starts++;
    assert_true(rota_space_is_current(seen->space, shard, epoch));
    if (seen->closes)
        rota_space_close(seen->space, on_closed, seen);
    if (seen->drains)
        rota_space_drain(seen->space, on_drained, seen);
    seen->closes = seen->drains = false;
    if (seen->n_refusals == 0)
        rota_space_started(seen->space, shard, epoch);
    else
        rota_space_refuse(seen->space, shard, epoch, seen->problem);
    seen->n_refusals -= seen->n_refusals > 0;
    rota_space_refuse(seen->space, shard, epoch, "too late"); /* is ignored */
    rota_space_started(seen->space, shard, epoch + 1);
}

static void on_stop(void *data, uint32_t shard, uint64_t epoch, rota_time until)
{
    struct seen *seen = data;
    (void)until;
    seen->n_stops++;
    seen->stopped_epoch = epoch;
    if (seen->keeps_stops)
        return;
    rota_space_stopped(seen->space, shard, epoch);
    rota_space_stopped(seen->space, shard, epoch); /* once more is ignored */
}

static void on_change(void *data)
{
    ((struct seen *)data)->n_changes++;
}

static void on_outcome(void *data, const struct rota_space_outcome *outcome)
{
    struct seen *seen = data;
    seen->code = outcome->code;
    snprintf(seen->text, sizeof seen->text, "%s", outcome->text);
    seen->n_outcomes++;
}

static struct rota_space_options options_of(struct seen *seen, const char *engine,
                                            uint32_t n_shards)
{
    return (struct rota_space_options){
        .name = "tests",
        .member = "127.0.0.1:7001",
        .engine = engine,
        .n_shards = n_shards,
        .is_alone = true,
        .ttl = 30 * ROTA_SEC,
        .on_start = on_start,
        .on_stop = on_stop,
        .on_change = on_change,
        .data = seen,
    };
}

static void open_space(struct seen *seen, const struct rota_space_options *options)
{
    struct rota_error error;
    if (rota_space_open(&loop, store, options, &seen->space, &error))
        fail_msg("%s", error.text);
}

static void close_space(struct seen *seen)
{
    rota_space_close(seen->space, on_closed, seen);
    await(&loop, &seen->n_closed, 1);
}

/* Until the map is like that. */
static void await_owned(struct seen *seen, uint32_t n_owned)
{
    while (rota_space_map(seen->space)->n_owned != n_owned)
        await(&loop, &seen->n_changes, seen->n_changes + 1);
}

static void run_sql(const char *text)
{
    struct rota_sql_url url = database_url(true);
    struct rota_sql *sql = NULL;
    struct rota_error error;
    if (rota_sql_open(&url, NULL, &sql, &error) || rota_sql_run(sql, text, NULL, 0, NULL, &error))
        fail_msg("%s: %s", text, error.text);
    rota_sql_close(sql);
}

static void on_up(void *data)
{
    ++*(size_t *)data;
}

static int setup(void **state)
{
    static size_t n_ups;
    const struct rota_store_options options = {.url = database_text("ROTA_TEST_URL"),
                                               .statement_timeout = 60 * ROTA_SEC,
                                               .on_up = on_up,
                                               .data = &n_ups};
    struct rota_error error;
    (void)state;
    n_ups = 0;
    assert_int_equal(uv_loop_init(&loop), 0);
    if (rota_store_open(&loop, &options, &store, &error) || rota_claims_new(1, &claims, &error))
        fail_msg("%s", error.text);
    await(&loop, &n_ups, 1);
    run_sql("DELETE FROM rota_spaces");
    run_sql("DELETE FROM rota_space_nodes");
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    rota_store_close(store);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&loop), 0);
    rota_claims_free(claims);
    return 0;
}

static void invalid_arguments_are_refused_with_a_sentence(void **state)
{
    struct seen seen = {0};
    struct rota_error error;
    struct rota_space_options good = options_of(&seen, "ring", 4), bad;
    (void)state;
#define REFUSED(...)                                                                               \
    (bad = good, __VA_ARGS__,                                                                      \
     rota_space_open(&loop, store, &bad, &seen.space, &error) == ROTA_ERR_INVALID &&               \
         strlen(error.text) > 20)
    assert_true(REFUSED(bad.name = NULL));
    assert_true(REFUSED(bad.name = ""));
    assert_true(REFUSED(bad.name = "a/b"));
    assert_true(REFUSED(bad.name = "a\nb"));
    assert_true(REFUSED(bad.engine = "magic"));
    assert_true(REFUSED(bad.n_shards = 0));
    assert_true(REFUSED(bad.n_shards = ROTA_SPACE_SHARDS_MAX + 1));
    assert_true(REFUSED(bad.engine = "lease", bad.n_shards = ROTA_SPACE_SHARDS_MAX));
    assert_true(REFUSED(bad.member = ""));
    assert_true(REFUSED(bad.member = "\x01"));
    assert_true(REFUSED(bad.ttl = ROTA_MSEC));
    assert_true(REFUSED(bad.ttl = -1));
    assert_true(REFUSED(bad.stop_within = 16 * ROTA_SEC));
#undef REFUSED
}

static void engines_have_names(void **state)
{
    size_t n = 0;
    (void)state;
    while (rota_space_engine_name(n))
        assert_true(rota_space_has_engine(rota_str(rota_space_engine_name(n++))));
    assert_int_equal(n, 4);
    assert_false(rota_space_has_engine(rota_str("rings")));
    assert_string_equal(rota_space_phase_name(ROTA_SPACE_SHADOW), "shadow");
    assert_true(rota_space_node(rota_str("a:1")) != rota_space_node(rota_str("a:2")));
    assert_true(rota_space_node(rota_str("a:1")) >= 0);
}

static void space_is_closed_and_drained_from_inside(void **state)
{
    struct seen seen = {.closes = true};
    struct rota_space_options options = options_of(&seen, "ring", 8);
    (void)state;
    open_space(&seen, &options);
    await(&loop, &seen.n_closed, 1);
    assert_int_equal(seen.n_starts, seen.n_stops);

    seen = (struct seen){.drains = true};
    open_space(&seen, &options);
    await(&loop, &seen.n_drained, 1);
    assert_int_equal(seen.n_starts, seen.n_stops);
    assert_int_equal(rota_space_map(seen.space)->n_held, 0);
    rota_space_undrain(seen.space);
    await(&loop, &seen.n_starts, seen.n_starts + 8);
    close_space(&seen);
    assert_int_equal(seen.n_starts, seen.n_stops);
}

static void space_that_is_not_known_yet_can_be_drained_and_closed(void **state)
{
    struct seen seen = {0};
    struct rota_space_options options = options_of(&seen, NULL, 0);
    char text[ROTA_SPACE_TEXT_MAX];
    struct rota_error error;
    (void)state;
    open_space(&seen, &options);
    while (!rota_space_map(seen.space)->trouble)
        await(&loop, &seen.n_changes, seen.n_changes + 1);
    assert_non_null(strstr(rota_space_map(seen.space)->trouble, "no space tests"));
    assert_non_null(strstr(rota_space_explain(seen.space, 0, text, sizeof text), "no space tests"));
    assert_int_equal(rota_space_pin(seen.space, 0, rota_str("a:1"), false, NULL, NULL, &error),
                     ROTA_ERR_UNAVAILABLE);
    assert_false(rota_space_is_current(seen.space, 0, 0));
    rota_space_stopped(seen.space, 3, 4);
    rota_space_drain(seen.space, on_drained, &seen);
    await(&loop, &seen.n_drained, 1);
    close_space(&seen);
}

/* Also of 100,000 shards: what one node owns, another that only looks sees at once. */
static void observer_sees_all_and_owns_nothing(void **state)
{
    struct seen owner = {0}, other = {0};
    struct rota_space_options options = options_of(&owner, "ring", MANY);
    struct rota_error error;
    struct rota_claim claim;
    (void)state;
    options.ttl = 6 * ROTA_SEC;
    options.claims = claims;
    open_space(&owner, &options);
    await_owned(&owner, MANY);
    assert_int_equal(owner.n_starts, MANY);
    assert_int_equal(rota_claims_size(claims), MANY);
    assert_true(rota_claims_find(claims, rota_str("tests"), rota_str("99999"), &claim));
    assert_true(claim.is_held && claim.until > rota_clock_boot());

    options = options_of(&other, NULL, 0);
    options.ttl = 6 * ROTA_SEC;
    options.member = NULL;
    open_space(&other, &options);
    await_owned(&other, MANY);
    const struct rota_space_map *map = rota_space_map(other.space);
    assert_int_equal(map->n_shards, MANY);
    assert_int_equal(map->n_held, 0);
    assert_true(rota_str_is_equal(map->engine, rota_str("ring")));
    assert_true(
        rota_str_is_equal(map->nodes[map->shards[MANY - 1].owner], rota_str("127.0.0.1:7001")));
    assert_int_equal(rota_space_pin(other.space, 0, rota_str("127.0.0.1:7001"), false, on_outcome,
                                    &other, &error),
                     ROTA_OK);
    await(&loop, &other.n_outcomes, 1);
    assert_int_equal(other.code, ROTA_OK);
    while (!rota_space_map(other.space)->shards[0].is_pinned)
        await(&loop, &other.n_changes, other.n_changes + 1);
    close_space(&other);
    close_space(&owner);
    assert_int_equal(owner.n_stops, MANY);
    assert_int_equal(rota_claims_size(claims), 0);
}

/* A space that only programs open, and a node beside them: it shows the space by every engine,
 * and moves it from one to the next. */
static void observer_moves_a_space_through_all_engines(void **state)
{
    static const char *const engines[] = {"static", "lease", "ring", "static"};
    struct seen owner = {0}, other = {0};
    struct rota_space_options options = options_of(&owner, "ring", 16);
    struct rota_error error;
    (void)state;
    options.ttl = ROTA_SEC;
    open_space(&owner, &options);
    await_owned(&owner, 16);
    for (size_t i = 0; i < sizeof engines / sizeof *engines; i++) {
        options = options_of(&other, NULL, 0); /* again, so that the engine is not known */
        options.member = NULL;
        other = (struct seen){0};
        open_space(&other, &options);
        await_owned(&other, 16);
        if (rota_space_migrate(other.space, rota_str(engines[i]), 10 * ROTA_MSEC, false, on_outcome,
                               &other, &error))
            fail_msg("%s", error.text);
        await(&loop, &other.n_outcomes, 1);
        assert_int_equal(other.code, ROTA_OK);
        while (!rota_str_is_equal(rota_space_map(other.space)->engine, rota_str(engines[i])) ||
               rota_space_map(other.space)->phase != ROTA_SPACE_STABLE)
            await(&loop, &other.n_changes, other.n_changes + 1);
        assert_null(rota_space_map(other.space)->trouble);
        close_space(&other);
        await_owned(&owner, 16);
    }
    close_space(&owner);
}

static bool explains(const struct seen *seen, uint32_t shard, const char *words)
{
    char text[ROTA_SPACE_TEXT_MAX];
    return strstr(rota_space_explain(seen->space, shard, text, sizeof text), words) != NULL;
}

static void shard_that_only_this_node_can_have_is_tried_until_it_starts(void **state)
{
    char problem[ROTA_SPACE_PROBLEM_MAX + 2], shown[ROTA_SPACE_PROBLEM_MAX + 64];
    struct seen seen = {.n_refusals = 3, .problem = problem};
    struct rota_space_options options = options_of(&seen, "ring", 1);
    (void)state;
    /* The last character does not fit as a whole, and a line break has no place in a sentence. */
    snprintf(problem, sizeof problem, "no\ndisk%*s\xc3\xa4", ROTA_SPACE_PROBLEM_MAX - 8, "x");
    snprintf(shown, sizeof shown, "%s could not start it: no disk", options.member);
    options.is_start_answered = true;
    open_space(&seen, &options);
    await(&loop, &seen.n_starts, 2); /* when it is called again the view has the refusal */
    assert_true(explains(&seen, 0, shown));
    assert_true(explains(&seen, 0, "  x"));
    assert_false(explains(&seen, 0, "\xc3"));
    seen.problem = NULL;
    await(&loop, &seen.n_starts, 3);
    await(&loop, &seen.n_starts, 4);
    assert_int_equal(seen.n_stops, 0);
    while (explains(&seen, 0, "could not start it")) /* which is not a change of the map */
        uv_run(&loop, UV_RUN_ONCE);
    assert_int_equal(seen.n_starts, 4);
    close_space(&seen);
    assert_int_equal(seen.n_stops, 1);
}

static void refused_shard_goes_to_another_node_and_comes_back(void **state)
{
    enum { SHARDS = 16 };
    struct seen a = {.n_refusals = SIZE_MAX, .problem = "no disk"}, b = {0};
    struct rota_space_options of_a = options_of(&a, "ring", SHARDS);
    struct rota_space_options of_b = options_of(&b, "ring", SHARDS);
    struct rota_metrics *metrics[] = {rota_metrics_new(1), rota_metrics_new(2)};
    (void)state;
    of_a.metrics = metrics[0];
    of_b.metrics = metrics[1];
    of_a.is_start_answered = of_b.is_start_answered = true;
    of_a.retry_after = ROTA_HOUR;
    of_b.member = "127.0.0.1:7002";
    open_space(&b, &of_b);
    await_owned(&b, SHARDS);
    open_space(&a, &of_a);
    await(&loop, &a.n_starts, 1);
    size_t n_refused = 0;
    do {
        uv_run(&loop, UV_RUN_ONCE);
        n_refused = 0;
        for (uint32_t i = 0; i < SHARDS; i++)
            n_refused += explains(&b, i, "127.0.0.1:7001 could not start it: no disk");
    } while (n_refused < a.n_starts || rota_space_map(b.space)->n_held < SHARDS);
    assert_int_equal(a.n_stops, 0); /* nothing of it was in use there */
    assert_int_equal(b.n_stops, a.n_starts);
    assert_int_equal(b.n_starts, SHARDS + a.n_starts);
    assert_int_equal(metric_of(metrics[0], "rota_space_held{space=\"tests\"}"), 0);
    assert_int_equal(metric_of(metrics[0], "rota_space_start_failed_total{space=\"tests\"}"),
                     n_refused);
    assert_int_equal(metric_of(metrics[1], "rota_space_held{space=\"tests\"}"), SHARDS);
    assert_int_equal(metric_of(metrics[1], "rota_space_started_total{space=\"tests\"}"),
                     b.n_starts);
    assert_int_equal(metric_of(metrics[1], "rota_space_stopped_total{space=\"tests\"}"), b.n_stops);

    /* No other process is left for them: now the hour does not count. */
    a.n_refusals = 0;
    close_space(&b);
    await_owned(&a, SHARDS);
    await(&loop, &a.n_starts, n_refused + SHARDS);
    close_space(&a);
    assert_int_equal(a.n_stops, SHARDS);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(metric_of(metrics[i], "rota_space_held{space=\"tests\"}"), 0);
        rota_metrics_free(metrics[i]);
    }
}

static void seats_decide_the_owners(void **state)
{
    struct seen seen = {0};
    struct rota_space_options options = options_of(&seen, "static", 4);
    struct rota_error error;
    char text[ROTA_SPACE_TEXT_MAX];
    (void)state;
    options.seats = "127.0.0.1:7001,127.0.0.1:7009";
    options.ttl = 3 * ROTA_SEC;
    open_space(&seen, &options);
    await_owned(&seen, 2);
    assert_non_null(strstr(rota_space_explain(seen.space, 1, text, sizeof text), "127.0.0.1:7009"));
    assert_int_equal(rota_space_reseat(seen.space, "a:1,,b:1", false, on_outcome, &seen, &error),
                     ROTA_ERR_INVALID);
    assert_int_equal(
        rota_space_reseat(seen.space, "127.0.0.1:7001", false, on_outcome, &seen, &error), ROTA_OK);
    assert_int_equal(
        rota_space_reseat(seen.space, "127.0.0.1:7001", false, on_outcome, &seen, &error),
        ROTA_ERR_UNAVAILABLE); /* one at a time */
    await(&loop, &seen.n_outcomes, 1);
    assert_int_equal(seen.code, ROTA_OK);
    await_owned(&seen, 4);
    close_space(&seen);
}

static void unreadable_row_is_ignored(void **state)
{
    struct seen seen = {0};
    struct rota_space_options options = options_of(&seen, "ring", 4);
    (void)state;
    options.ttl = 3 * ROTA_SEC;
    run_sql("INSERT INTO rota_spaces (name, engine, config, version) "
            "VALUES ('tests', 'ring', 'rota-view 1', 7)");
    open_space(&seen, &options);
    while (!rota_space_map(seen.space)->trouble)
        await(&loop, &seen.n_changes, seen.n_changes + 1);
    assert_non_null(strstr(rota_space_map(seen.space)->trouble, "is malformed"));
    assert_int_equal(seen.n_starts, 0);
    run_sql("DELETE FROM rota_spaces");
    await_owned(&seen, 4);
    assert_null(rota_space_map(seen.space)->trouble);

    /* Later too: what is held stays, for nobody else can read it either. */
    run_sql("UPDATE rota_spaces SET config = 'rota-view 2', version = version + 1");
    while (!rota_space_map(seen.space)->trouble)
        await(&loop, &seen.n_changes, seen.n_changes + 1);
    assert_int_equal(seen.n_stops, 0);
    close_space(&seen);
}

static void count_gained(void *data, struct rota_str line)
{
    *(size_t *)data += memmem(line.data, line.size, "lease gained", 12) != NULL;
}

static void shard_that_is_regained_starts_once_the_former_stop_is_answered(void **state)
{
    struct seen seen = {.keeps_stops = true};
    size_t n_gained = 0;
    const struct rota_log log = {.level = ROTA_LOG_INFO, .write = count_gained, .data = &n_gained};
    (void)state;
    struct rota_space_options options = options_of(&seen, "lease", 1);
    options.name = "regained";
    options.ttl = 3 * ROTA_SEC;
    options.log = &log;
    open_space(&seen, &options);
    await(&loop, &seen.n_starts, 1);
    run_sql("UPDATE rota_leases SET instance = 1, epoch = epoch + 1 WHERE space = 'regained'");
    await(&loop, &seen.n_stops, 1);
    run_sql("UPDATE rota_leases SET instance = 0 WHERE space = 'regained'");
    await(&loop, &n_gained, 2);
    assert_int_equal(seen.n_starts, 1);
    rota_space_stopped(seen.space, 0, seen.stopped_epoch);
    assert_int_equal(seen.n_starts, 2);
    seen.keeps_stops = false;
    close_space(&seen);
    assert_int_equal(seen.n_stops, 2);
}

static void lease_that_wants_too_many_says_so(void **state)
{
    struct seen seen = {0};
    struct rota_space_options options = options_of(&seen, "lease", 2000);
    (void)state;
    open_space(&seen, &options);
    while (!rota_space_map(seen.space)->trouble)
        await(&loop, &seen.n_changes, seen.n_changes + 1);
    assert_non_null(strstr(rota_space_map(seen.space)->trouble, "at most 1024 shards"));
    close_space(&seen);
}

static void group_without_a_log_says_so(void **state)
{
    struct seen seen = {0};
    struct rota_space_options options = options_of(&seen, "group", 4);
    (void)state;
    open_space(&seen, &options);
    while (!rota_space_map(seen.space)->trouble)
        await(&loop, &seen.n_changes, seen.n_changes + 1);
    assert_non_null(strstr(rota_space_map(seen.space)->trouble, "needs a log"));
    char text[ROTA_SPACE_TEXT_MAX];
    assert_non_null(strstr(rota_space_explain(seen.space, 1, text, sizeof text), "needs a log"));
    close_space(&seen);
}

static void state_set_by_members_applies_to_this_node(void **state)
{
    struct seen seen = {0};
    struct rota_space_options options = options_of(&seen, "ring", 4);
    struct rota_members_source *source = NULL;
    struct rota_error error;
    const struct rota_str address = rota_str("127.0.0.1:7001");
    (void)state;
    if (rota_hosts_list_new("127.0.0.1:7001,127.0.0.1:7002", &source, &error) ||
        rota_members_open(&loop, source, NULL, &options.members, &error))
        fail_msg("%s", error.text);
    options.ttl = 3 * ROTA_SEC;
    open_space(&seen, &options);
    await(&loop, &seen.n_starts, 4);
    assert_int_equal(rota_members_drain(options.members, address, &error), ROTA_OK);
    assert_true(rota_space_map(seen.space)->is_draining);
    await(&loop, &seen.n_stops, 4);
    assert_int_equal(rota_members_undrain(options.members, address, &error), ROTA_OK);
    await(&loop, &seen.n_starts, 8);
    close_space(&seen);
    rota_members_close(options.members);
}

static void migration_is_previewed(void **state)
{
    struct seen seen = {0};
    struct rota_space_options options = options_of(&seen, "ring", 2000);
    struct rota_error error;
    (void)state;
    options.ttl = 3 * ROTA_SEC;
    open_space(&seen, &options);
    await_owned(&seen, 2000);
    assert_int_equal(
        rota_space_migrate(seen.space, rota_str("group"), 0, true, on_outcome, &seen, &error),
        ROTA_ERR_INVALID);
    assert_non_null(strstr(error.text, "needs a log"));
    assert_int_equal(
        rota_space_migrate(seen.space, rota_str("lease"), 0, true, on_outcome, &seen, &error),
        ROTA_ERR_INVALID);
    assert_non_null(strstr(error.text, "at most 1024 shards"));
    assert_int_equal(
        rota_space_reseat(seen.space, "127.0.0.1:7001,a:1", false, on_outcome, &seen, &error),
        ROTA_OK);
    await(&loop, &seen.n_outcomes, 1);
    assert_int_equal(
        rota_space_migrate(seen.space, rota_str("static"), 0, true, on_outcome, &seen, &error),
        ROTA_OK);
    await(&loop, &seen.n_outcomes, 2);
    assert_non_null(strstr(seen.text, "1000 of 2000 shards get another owner"));

    /* A shadow shows it, and is taken back. */
    assert_int_equal(rota_space_migrate(seen.space, rota_str("static"), ROTA_HOUR, false,
                                        on_outcome, &seen, &error),
                     ROTA_OK);
    while (rota_space_map(seen.space)->phase != ROTA_SPACE_SHADOW)
        await(&loop, &seen.n_changes, seen.n_changes + 1);
    assert_int_equal(rota_space_map(seen.space)->n_differences, 1000);
    assert_int_equal(
        rota_space_migrate(seen.space, rota_str("ring"), 0, false, on_outcome, &seen, &error),
        ROTA_OK);
    while (rota_space_map(seen.space)->phase != ROTA_SPACE_STABLE)
        await(&loop, &seen.n_changes, seen.n_changes + 1);
    assert_int_equal(seen.n_stops, 0);
    close_space(&seen);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(invalid_arguments_are_refused_with_a_sentence),
        cmocka_unit_test(engines_have_names),
        cmocka_unit_test_setup_teardown(space_is_closed_and_drained_from_inside, setup, teardown),
        cmocka_unit_test_setup_teardown(space_that_is_not_known_yet_can_be_drained_and_closed,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(observer_sees_all_and_owns_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(observer_moves_a_space_through_all_engines, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(shard_that_only_this_node_can_have_is_tried_until_it_starts,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(refused_shard_goes_to_another_node_and_comes_back, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(seats_decide_the_owners, setup, teardown),
        cmocka_unit_test_setup_teardown(unreadable_row_is_ignored, setup, teardown),
        cmocka_unit_test_setup_teardown(
            shard_that_is_regained_starts_once_the_former_stop_is_answered, setup, teardown),
        cmocka_unit_test_setup_teardown(lease_that_wants_too_many_says_so, setup, teardown),
        cmocka_unit_test_setup_teardown(group_without_a_log_says_so, setup, teardown),
        cmocka_unit_test_setup_teardown(state_set_by_members_applies_to_this_node, setup, teardown),
        cmocka_unit_test_setup_teardown(migration_is_previewed, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
