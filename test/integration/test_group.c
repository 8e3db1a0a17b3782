/* A group on a loop: what a program sees of it, and what it may do from inside. Several
 * tasks share one loop here; what happens to processes is another test's matter. */
#include "await.h"
#include "database.h"
#include "io/clock.h"
#include "io/log/sync.h"
#include "io/sql/sql.h"
#include "metric.h"

#include <rota/group.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { RUNS_MAX = 128, POSITION_MAX = 4096 };

struct run {
    char partition[64];
    uint64_t token;
    bool is_stopping;
};

/* A task, and what callbacks have said. */
struct task {
    struct rota_group *group;
    struct run runs[RUNS_MAX];
    size_t n_runs, n_starts, n_stops, n_closed, n_failed;
    size_t n_news[ROTA_GROUP_NEWS_UNREACHABLE + 1];
    int64_t mark; /* of the last start */
    char position[POSITION_MAX + 1], parents[256], failure[ROTA_ERROR_TEXT_MAX], reason[600];
    uint64_t token, generation;
    size_t n_tasks;
    bool stops_late;                  /* on_stop is not answered by itself */
    bool closes, finishes, was_first; /* in on_start */
};

static uv_loop_t loop;
static struct task a, b, c;
static size_t n_starts; /* of all */
static char group_name[64];
static struct rota_group_seed seeds[RUNS_MAX];
static char seed_names[RUNS_MAX][8];

static int set_up(void **state)
{
    static int n;
    (void)state;
    snprintf(group_name, sizeof group_name, "group-%d-%d.%lld", (int)getpid(), ++n,
             (long long)(rota_clock_wall() / ROTA_MSEC));
    a = b = c = (struct task){0};
    n_starts = 0;
    for (size_t i = 0; i < RUNS_MAX; i++) {
        snprintf(seed_names[i], sizeof seed_names[i], "p%zu", i);
        seeds[i] = (struct rota_group_seed){.name = rota_str(seed_names[i]), .mark = 5};
    }
    return uv_loop_init(&loop);
}

static int tear_down(void **state)
{
    (void)state;
    await_end(&loop);
    return 0;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

static struct run *find_run(struct task *task, struct rota_str partition)
{
    for (size_t i = 0; i < task->n_runs; i++)
        if (rota_str_is_equal(rota_str(task->runs[i].partition), partition))
            return &task->runs[i];
    return NULL;
}

static void on_closed(void *data)
{
    ((struct task *)data)->n_closed++;
}

static void end_run(struct task *task, struct run *run)
{
    *run = task->runs[--task->n_runs];
}

static void on_start(void *data, const struct rota_group_grant *grant)
{
    struct task *task = data;
    struct task *const tasks[] = {&a, &b, &c};
    for (size_t i = 0; i < 3; i++)
        assert_null(find_run(tasks[i], grant->partition)); /* nobody else reads it */
    assert_true(task->n_runs < RUNS_MAX);
    struct run *run = &task->runs[task->n_runs++];
    snprintf(run->partition, sizeof run->partition, "%.*s", ROTA_STR_ARGS(grant->partition));
    run->token = task->token = grant->token;
    run->is_stopping = false;
    task->mark = grant->mark;
    memcpy(task->position, grant->position.data, grant->position.size);
    task->position[grant->position.size] = '\0';
    task->parents[0] = '\0';
    for (size_t i = 0; i < grant->n_parents; i++)
        snprintf(task->parents + strlen(task->parents),
                 sizeof task->parents - strlen(task->parents), "%.*s ",
                 ROTA_STR_ARGS(grant->parents[i]));
    task->n_starts++;
    n_starts++;
    if (task->finishes) {
        assert_true(rota_group_is_current(task->group, grant->partition, grant->token));
        end_run(task, run);
        assert_int_equal(rota_group_progress(task->group, grant->partition, grant->token, 99,
                                             rota_str("end"), NULL),
                         ROTA_OK);
        assert_int_equal(rota_group_finish(task->group, grant->partition, grant->token, true, NULL),
                         ROTA_OK);
    }
    if (task->closes)
        rota_group_close(task->group, on_closed, task);
    task->closes = false;
}

static void on_stop(void *data, struct rota_str partition, uint64_t token)
{
    struct task *task = data;
    struct run *run = find_run(task, partition);
    assert_non_null(run);
    assert_false(run->is_stopping);
    assert_int_equal(run->token, token);
    assert_false(rota_group_is_current(task->group, partition, token));
    task->n_stops++;
    run->is_stopping = true;
    if (task->stops_late)
        return;
    end_run(task, run);
    rota_group_stopped(task->group, partition, token);
}

static void on_news(void *data, const struct rota_group_news *news)
{
    struct task *task = data;
    task->n_news[news->type]++;
    if (news->type == ROTA_GROUP_NEWS_EPOCH)
        task->n_tasks = news->n_tasks;
    if (news->type == ROTA_GROUP_NEWS_JOINED) {
        assert_true(news->incarnation > 0);
        task->generation = news->generation;
    }
    if (news->reason)
        snprintf(task->reason, sizeof task->reason, "%s", news->reason);
    assert_string_not_equal(rota_group_news_name(news->type), "unknown");
}

static void on_failed(void *data, const struct rota_error *error)
{
    struct task *task = data;
    assert_int_equal(task->n_failed, 0);
    for (size_t i = 0; i < task->n_runs; i++)
        assert_true(task->runs[i].is_stopping);
    task->n_failed++;
    snprintf(task->failure, sizeof task->failure, "%s", error->text);
}

static struct rota_group_options options_of(struct task *task, const char *name, size_t n_seeds)
{
    return (struct rota_group_options){
        .log_url = database_text("ROTA_TEST_URL"),
        .name = group_name,
        .task = name,
        .progress_every = ROTA_MSEC,
        .seeds = seeds,
        .n_seeds = n_seeds,
        .on_start = on_start,
        .on_stop = on_stop,
        .on_news = on_news,
        .on_failed = on_failed,
        .data = task,
    };
}

static void open_with(struct task *task, const struct rota_group_options *options)
{
    struct rota_error error;
    if (rota_group_open(&loop, options, &task->group, &error))
        fail_msg("%s", error.text);
}

static void open_task(struct task *task, const char *name, size_t n_seeds)
{
    struct rota_group_options options = options_of(task, name, n_seeds);
    open_with(task, &options);
}

static void await_news(struct task *task, enum rota_group_news_type type, size_t n)
{
    await(&loop, &task->n_news[type], n);
}

/* The epoch that has `n` tasks is there. */
static void await_tasks(struct task *task, size_t n)
{
    while (task->n_tasks != n)
        await_news(task, ROTA_GROUP_NEWS_EPOCH, task->n_news[ROTA_GROUP_NEWS_EPOCH] + 1);
}

static void close_task(struct task *task)
{
    rota_group_close(task->group, on_closed, task);
    await(&loop, &task->n_closed, 1);
    assert_int_equal(task->n_runs, 0);
}

static struct rota_group_status status_of(const struct task *task)
{
    struct rota_group_status status;
    rota_group_status(task->group, &status);
    return status;
}

/* --- the tests --- */

static void partitions_of_a_leaving_task_go_to_the_others(void **state)
{
    (void)state;
    open_task(&a, "a", 6);
    await(&loop, &a.n_starts, 6);
    assert_int_equal(a.mark, 5);
    open_task(&b, "b", 6);
    await_tasks(&a, 2);
    await_tasks(&b, 2);
    assert_int_equal(b.n_starts, 0); /* what a living task has stays with it */
    uint64_t token = a.token;
    close_task(&a);
    assert_int_equal(a.n_stops, 6);
    await(&loop, &b.n_starts, 6);
    assert_true(b.token > token);
    close_task(&b);
    assert_int_equal(n_starts, 12);
}

/* What `a` and `b` have, in this order. */
static bool note_owned(void *data, const struct rota_group_task_status *task)
{
    uint32_t *owned = data;
    owned[rota_str_is_equal(task->task, rota_str("b"))] = task->owned;
    return true;
}

static void child_goes_to_the_least_loaded_and_waits_for_its_parents(void **state)
{
    struct rota_str parents[] = {rota_str("p0"), rota_str("p1")};
    struct rota_group_child child = {.name = rota_str("m"),
                                     .parents = parents,
                                     .n_parents = 2,
                                     .mark = 7,
                                     .position = rota_str("here")};
    (void)state;
    open_task(&a, "a", 2);
    await(&loop, &a.n_starts, 2);
    open_task(&b, "b", 2);
    await_tasks(&a, 2);
    uint64_t token = find_run(&a, parents[0])->token;
    assert_int_equal(rota_group_child(a.group, parents[0], token, &child, NULL), ROTA_OK);
    assert_int_equal(rota_group_child(a.group, parents[1], token, &child, NULL), ROTA_OK);
    await_news(&b, ROTA_GROUP_NEWS_TAKE, 1);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(b.n_starts, 0);
        end_run(&a, find_run(&a, parents[i]));
        assert_int_equal(rota_group_finish(a.group, parents[i], token, false, NULL), ROTA_OK);
        await_news(&a, ROTA_GROUP_NEWS_FINISH, (size_t)i + 1);
    }
    await(&loop, &b.n_starts, 1);
    assert_string_equal(b.runs[0].partition, "m");
    assert_string_equal(b.parents, "p0 p1 ");
    assert_string_equal(b.position, "here");
    assert_int_equal(b.mark, 7);
    assert_int_equal(a.n_stops, 0); /* what was finished is not told to stop */
    uint32_t owned[2] = {9, 9};
    rota_group_each_task(b.group, note_owned, owned);
    assert_int_equal(owned[0], 0); /* nor counted, though it is remembered */
    assert_int_equal(owned[1], 1);
    close_task(&a);
    close_task(&b);
}

static void position_goes_with_the_partition(void **state)
{
    (void)state;
    open_task(&a, "a", 1);
    await(&loop, &a.n_starts, 1);
    open_task(&b, "b", 1);
    await_tasks(&a, 2);
    assert_int_equal(
        rota_group_progress(a.group, rota_str("p0"), a.token, 20, rota_str("row 20"), NULL),
        ROTA_OK);
    close_task(&a); /* the last position is in the log before the group is left */
    await(&loop, &b.n_starts, 1);
    assert_int_equal(b.mark, 20);
    assert_string_equal(b.position, "row 20");
    close_task(&b);
}

static void callback_may_report_and_even_finish(void **state)
{
    (void)state;
    a.finishes = true;
    open_task(&a, "a", 3);
    await_news(&a, ROTA_GROUP_NEWS_REMOVE, 3);
    assert_int_equal(a.n_news[ROTA_GROUP_NEWS_FINISH], 3);
    assert_int_equal(status_of(&a).n_partitions, 0);
    assert_false(status_of(&a).has_watermark && status_of(&a).n_unfinished);
    struct rota_group_seed more = {.name = rota_str("more"), .mark = 1};
    assert_int_equal(rota_group_add(a.group, &more, NULL), ROTA_OK);
    await_news(&a, ROTA_GROUP_NEWS_REMOVE, 4);
    close_task(&a);
    assert_int_equal(a.n_stops, 0);
}

static void callback_may_close_the_group(void **state)
{
    (void)state;
    a.closes = true;
    open_task(&a, "a", 3);
    await(&loop, &a.n_closed, 1);
    assert_int_equal(a.n_starts, a.n_stops);
    assert_int_equal(a.n_runs, 0);
}

static void group_is_left_when_the_last_reader_has_stopped(void **state)
{
    (void)state;
    open_task(&a, "a", 2);
    await(&loop, &a.n_starts, 2);
    open_task(&b, "b", 2);
    await_tasks(&a, 2);
    a.stops_late = true;
    rota_group_close(a.group, on_closed, &a);
    assert_int_equal(a.n_stops, 2);
    for (int i = 0; i < 2; i++) { /* on_start of b would find them running */
        struct run run = a.runs[0];
        end_run(&a, &a.runs[0]);
        rota_group_stopped(a.group, rota_str(run.partition), run.token + 1); /* not this one */
        assert_int_equal(a.n_closed, 0);
        assert_int_equal(b.n_starts, 0);
        rota_group_stopped(a.group, rota_str(run.partition), run.token);
    }
    await(&loop, &a.n_closed, 1);
    await(&loop, &b.n_starts, 2);
    close_task(&b);
}

/* What a metric of this group says, with one more label or none. */
static int64_t told(const struct rota_metrics *metrics, const char *name, const char *label)
{
    char series[160];
    snprintf(series, sizeof series, "rota_group_%s{group=\"%s\"%s}", name, group_name, label);
    return metric_of(metrics, series);
}

static void metrics_count_the_work_of_a_task(void **state)
{
    struct rota_metrics *metrics = rota_metrics_new(1);
    struct rota_group_options options = options_of(&a, "a", 3);
    (void)state;
    options.metrics = metrics;
    open_with(&a, &options);
    await(&loop, &a.n_starts, 3);
    assert_int_equal(told(metrics, "started_total", ""), 3);
    assert_int_equal(told(metrics, "running", ""), 3);
    assert_int_equal(told(metrics, "stopped_total", ""), 0);
    assert_int_equal(told(metrics, "epoch", ""), status_of(&a).epoch);
    assert_int_equal(told(metrics, "watermark", ""), 5);

    for (size_t i = 0; i < 3; i++)
        assert_int_equal(
            rota_group_progress(a.group, seeds[i].name, a.token, 20, rota_str(""), NULL), ROTA_OK);
    await_news(&a, ROTA_GROUP_NEWS_PROGRESS, 3);
    while (told(metrics, "watermark", "") != 20 || status_of(&a).next < status_of(&a).end)
        uv_run(&loop, UV_RUN_ONCE);
    assert_int_equal(told(metrics, "log_lag", ""), 0);
    while ((uint64_t)told(metrics, "written_total", "") < status_of(&a).end)
        uv_run(&loop, UV_RUN_ONCE); /* nobody else writes */
    assert_int_equal(told(metrics, "written_total", ""), status_of(&a).end);
    assert_int_equal(told(metrics, "unwritten_total", ""), 0);

    end_run(&a, find_run(&a, rota_str("p1")));
    assert_int_equal(rota_group_finish(a.group, rota_str("p1"), a.token, true, NULL), ROTA_OK);
    assert_int_equal(told(metrics, "running", ""), 2);
    close_task(&a);
    assert_int_equal(told(metrics, "running", ""), 0);
    assert_int_equal(told(metrics, "stopped_total", ""), 2); /* the third was finished */
    assert_int_equal(told(metrics, "lost_total", ",why=\"fenced\""), 0);
    rota_metrics_free(metrics);
}

static void token_is_void_when_the_loop_hangs(void **state)
{
    struct rota_metrics *metrics = rota_metrics_new(1);
    struct rota_group_options options = options_of(&a, "a", 1);
    (void)state;
    options.metrics = metrics;
    options.session = ROTA_SYNC_SESSION_MIN;
    open_with(&a, &options);
    await(&loop, &a.n_starts, 1);
    uint64_t token = a.token;
    assert_true(rota_group_is_current(a.group, rota_str("p0"), token));
    assert_false(rota_group_is_current(a.group, rota_str("p0"), token + 1));
    assert_false(rota_group_is_current(a.group, rota_str("p1"), token));
    assert_false(rota_group_is_current(a.group, rota_str("p0"), 0));
    while (rota_group_is_current(a.group, rota_str("p0"), token)) {
    } /* nothing runs meanwhile, and still it ends */
    assert_int_equal(a.n_stops, 0);
    await_news(&a, ROTA_GROUP_NEWS_LOST, 1);
    assert_string_equal(a.reason, "fenced");
    assert_int_equal(told(metrics, "lost_total", ",why=\"fenced\""), 1);
    assert_int_equal(a.n_stops, 1);
    await(&loop, &a.n_starts, 2); /* as another incarnation */
    assert_true(a.token > token);
    close_task(&a);
    rota_metrics_free(metrics);
}

static void invalid_report_is_refused(void **state)
{
    struct rota_error error;
    struct rota_str p0 = rota_str("p0");
    static char large[POSITION_MAX + 1];
    (void)state;
    open_task(&a, "a", 1);
    await(&loop, &a.n_starts, 1);
    assert_int_equal(rota_group_progress(a.group, p0, a.token, 4, rota_str(""), &error),
                     ROTA_ERR_INVALID);
    assert_non_null(strstr(error.text, "watermark 4 after one with watermark 5"));
    assert_int_equal(
        rota_group_progress(a.group, p0, a.token, 6, rota_str_of(large, sizeof large), &error),
        ROTA_ERR_INVALID);
    struct rota_group_child child = {.name = rota_str("c"), .parents = &p0, .n_parents = 1};
    struct rota_group_child orphan = {.name = rota_str("c")};
    struct rota_group_child nameless = {.name = rota_str(""), .parents = &p0, .n_parents = 1};
    assert_int_equal(rota_group_child(a.group, p0, a.token, &orphan, &error), ROTA_ERR_INVALID);
    assert_int_equal(rota_group_child(a.group, p0, a.token, &nameless, &error), ROTA_ERR_INVALID);
    /* Under a token that is not in force all of it is ignored. */
    assert_int_equal(rota_group_child(a.group, p0, a.token + 1, &child, NULL), ROTA_OK);
    assert_int_equal(rota_group_progress(a.group, p0, a.token + 1, 50, rota_str(""), NULL),
                     ROTA_OK);
    assert_int_equal(rota_group_finish(a.group, p0, a.token + 1, true, NULL), ROTA_OK);
    /* An end without children is an accident unless it is said to be none. */
    end_run(&a, &a.runs[0]);
    assert_int_equal(rota_group_finish(a.group, p0, a.token, false, NULL), ROTA_OK);
    await_news(&a, ROTA_GROUP_NEWS_REFUSED, 1);
    assert_string_equal(a.reason, "unproven");
    assert_int_equal(rota_group_finish(a.group, p0, a.token, true, NULL), ROTA_OK);
    await_news(&a, ROTA_GROUP_NEWS_REMOVE, 1);
    assert_int_equal(a.n_news[ROTA_GROUP_NEWS_OWN], 1);
    close_task(&a);
}

static bool count_task(void *data, const struct rota_group_task_status *task)
{
    assert_true(task->owned > 0 && task->is_leader && task->incarnation > 0);
    ++*(size_t *)data;
    return true;
}

static bool count_partition(void *data, const struct rota_group_partition_status *partition)
{
    assert_string_equal(partition->life, "running");
    assert_true(rota_str_is_equal(partition->owner, rota_str("a")));
    assert_int_equal(partition->target.size, 0);
    return ++*(size_t *)data < 2;
}

static void observer_sees_all_and_never_joins(void **state)
{
    struct rota_group_options options = options_of(&b, NULL, 0);
    char text[200];
    size_t n_tasks = 0, n_partitions = 0;
    (void)state;
    open_task(&a, "a", 3);
    await(&loop, &a.n_starts, 3);
    open_with(&b, &options);
    await_news(&b, ROTA_GROUP_NEWS_READY, 1);
    struct rota_group_status status = status_of(&b);
    assert_string_equal(status.state, "ready");
    assert_int_equal(status.n_tasks, 1);
    assert_int_equal(status.n_partitions, 3);
    assert_int_equal(status.n_unfinished, 3);
    assert_int_equal(status.next, status.end);
    assert_true(rota_str_is_equal(status.leader, rota_str("a")));
    assert_true(status.has_watermark);
    assert_int_equal(status.watermark, 5);
    rota_group_each_task(b.group, count_task, &n_tasks);
    rota_group_each_partition(b.group, count_partition, &n_partitions);
    assert_int_equal(n_tasks, 1);
    assert_int_equal(n_partitions, 2);
    assert_non_null(
        strstr(rota_group_explain(b.group, rota_str("p1"), text, sizeof text), "task a owns it"));
    assert_int_equal(
        rota_group_progress(a.group, rota_str(a.runs[0].partition), a.token, 9, rota_str(""), NULL),
        ROTA_OK);
    await_news(&a, ROTA_GROUP_NEWS_PROGRESS, 1);
    while (status_of(&b).next < status_of(&a).next)
        uv_run(&loop, UV_RUN_ONCE);
    assert_int_equal(b.n_news[ROTA_GROUP_NEWS_JOINED], 0);
    assert_int_equal(a.n_tasks, 1);
    close_task(&b);
    close_task(&a);
}

/* Somebody who knows the log and not the rules. */
static struct stranger {
    struct rota_sync *sync;
    size_t n_opened, n_appended, n_closed, n_ok;
    uint64_t end;
} stranger;

static void on_stranger_event(void *data, const struct rota_sync_event *event)
{
    (void)data;
    if (event->type == ROTA_SYNC_OPENED) {
        stranger.n_opened++;
        rota_sync_read(stranger.sync, event->first);
    }
    stranger.n_appended += event->type == ROTA_SYNC_APPENDED;
    if (event->type == ROTA_SYNC_OK) {
        stranger.n_ok++;
        stranger.end = event->end;
    }
}

static void on_stranger_closed(void *data)
{
    (void)data;
    stranger.n_closed++;
}

static void open_stranger(void)
{
    struct rota_sync_options options = {
        .url = database_text("ROTA_TEST_URL"), .name = group_name, .on_event = on_stranger_event};
    struct rota_error error;
    stranger = (struct stranger){0};
    if (rota_sync_open(&loop, &options, &stranger.sync, &error))
        fail_msg("%s", error.text);
    await(&loop, &stranger.n_ok, 1);
}

static void close_stranger(void)
{
    rota_sync_close(stranger.sync, on_stranger_closed, NULL);
    await(&loop, &stranger.n_closed, 1);
}

/* What no log takes from us, somebody else can write. */
static void write_oversized(void)
{
    static const char move[] =
        "UPDATE rota_group_head SET next_offset = next_offset + 1 WHERE name = ?";
    static const char insert[] =
        "INSERT INTO rota_group_record (name, place, bytes) "
        "SELECT name, next_offset - 1, ? FROM rota_group_head WHERE name = ?";
    static char bytes[ROTA_SYNC_RECORD_MAX + 1];
    struct rota_sql_url url = database_url(false);
    const struct rota_sql_value values[] = {rota_sql_bytes(rota_str_of(bytes, sizeof bytes)),
                                            rota_sql_bytes(rota_str(group_name))};
    struct rota_sql_options options = {.statement_timeout = 20 * ROTA_SEC};
    struct rota_sql *sql = NULL;
    struct rota_error error;
    if (rota_sql_open(&url, &options, &sql, &error) || rota_sql_begin(sql, &error) ||
        rota_sql_run(sql, move, values + 1, 1, NULL, &error) ||
        rota_sql_run(sql, insert, values, 2, NULL, &error) || rota_sql_commit(sql, &error))
        fail_msg("%s", error.text);
    rota_sql_close(sql);
}

static void foreign_record_is_skipped_counted_and_named(void **state)
{
    struct rota_metrics *metrics = rota_metrics_new(1);
    struct rota_group_options options = options_of(&b, NULL, 0);
    (void)state;
    options.metrics = metrics;
    open_task(&a, "a", 1);
    await(&loop, &a.n_starts, 1);
    open_stranger();
    assert_int_equal(rota_sync_append(stranger.sync, 1, rota_str("hello"), NULL), ROTA_OK);
    await_news(&a, ROTA_GROUP_NEWS_SKIPPED, 1);
    assert_string_equal(a.reason, "foreign");
    assert_int_equal(
        rota_sync_append(stranger.sync, 2, rota_str("{\"version\":2,\"kind\":\"epoch\"}"), NULL),
        ROTA_OK);
    await_news(&a, ROTA_GROUP_NEWS_SKIPPED, 2);
    assert_string_equal(a.reason, "future");
    assert_int_equal(rota_sync_append(stranger.sync, 3, rota_str(""), NULL), ROTA_OK);
    await_news(&a, ROTA_GROUP_NEWS_SKIPPED, 3);
    assert_string_equal(a.reason, "foreign");
    write_oversized();
    await_news(&a, ROTA_GROUP_NEWS_SKIPPED, 4);
    assert_string_equal(a.reason, "oversized");
    assert_int_equal(status_of(&a).n_skipped, 4);
    open_with(&b, &options);
    await_news(&b, ROTA_GROUP_NEWS_READY, 1);
    assert_int_equal(b.n_news[ROTA_GROUP_NEWS_SKIPPED], 4); /* each once, however it is read */
    assert_int_equal(told(metrics, "skipped_total", ",why=\"foreign\""), 2);
    assert_int_equal(told(metrics, "skipped_total", ",why=\"future\""), 1);
    assert_int_equal(told(metrics, "skipped_total", ",why=\"oversized\""), 1);
    assert_int_equal(a.n_stops, 0);
    close_stranger();
    close_task(&a);
    close_task(&b);
    rota_metrics_free(metrics);
}

static void log_without_its_beginning_is_refused(void **state)
{
    (void)state;
    open_task(&a, "a", 1);
    await(&loop, &a.n_starts, 1);
    close_task(&a);
    open_stranger();
    rota_sync_trim(stranger.sync, 1);
    assert_int_equal(rota_sync_append(stranger.sync, 1, rota_str("behind it"), NULL), ROTA_OK);
    await(&loop, &stranger.n_appended, 1);
    close_stranger();
    do { /* a trim may take its time */
        b = (struct task){0};
        open_task(&b, "b", 1);
        while (b.n_failed == 0 && b.n_starts == 0)
            uv_run(&loop, UV_RUN_ONCE);
        close_task(&b);
    } while (b.n_failed == 0);
    assert_non_null(strstr(b.failure, group_name));
    assert_non_null(strstr(b.failure, "starts at offset 1"));
    assert_int_equal(b.n_starts, 0);
}

/* Large positions, so that a snapshot is due soon. */
static void long_log_is_trimmed_and_a_new_task_begins_after_the_trimmed_part(void **state)
{
    enum { N = 50 };
    static char position[POSITION_MAX];
    (void)state;
    memset(position, 'x', sizeof position);
    open_task(&a, "a", N);
    await(&loop, &a.n_starts, N);
    struct rota_group_options options = options_of(&c, NULL, 0);
    uint64_t first = 0;
    for (int64_t mark = 6; first == 0; mark++) {
        assert_true(mark < 500);
        size_t n = a.n_news[ROTA_GROUP_NEWS_PROGRESS];
        for (size_t i = 0; i < N; i++)
            assert_int_equal(rota_group_progress(a.group, seeds[i].name, a.runs[i].token, mark,
                                                 rota_str_of(position, sizeof position), NULL),
                             ROTA_OK);
        await_news(&a, ROTA_GROUP_NEWS_PROGRESS, n + N);
        if (mark % 10)
            continue;
        c = (struct task){0};
        open_with(&c, &options);
        await_news(&c, ROTA_GROUP_NEWS_READY, 1);
        first = status_of(&c).first;
        assert_int_equal(status_of(&c).n_partitions, N);
        close_task(&c);
    }
    open_task(&b, "b", N);
    await_tasks(&b, 2);
    assert_int_equal(status_of(&b).n_partitions, N);
    assert_int_equal(b.n_failed, 0);
    close_task(&a);
    await(&loop, &b.n_starts, N);
    assert_int_equal(strlen(b.position), POSITION_MAX);
    close_task(&b);
}

static void invalid_options_are_refused(void **state)
{
    struct rota_group *group = NULL;
    struct rota_error error;
    (void)state;
    struct rota_group_options options = options_of(&a, "a", 1);
    options.log_url = NULL;
    assert_int_equal(rota_group_open(&loop, &options, &group, &error), ROTA_ERR_INVALID);
    options = options_of(&a, "a", 1);
    options.log_url = "carrier-pigeon:1";
    assert_int_not_equal(rota_group_open(&loop, &options, &group, &error), ROTA_OK);
    options = options_of(&a, "a b", 1);
    assert_int_equal(rota_group_open(&loop, &options, &group, &error), ROTA_ERR_INVALID);
    assert_non_null(strstr(error.text, "task's name"));
    options = options_of(&a, "a", 1);
    options.name = "no/name";
    assert_int_not_equal(rota_group_open(&loop, &options, &group, &error), ROTA_OK);
    options = options_of(&a, "a", 1);
    options.stop_within = 4 * ROTA_SEC;
    assert_int_equal(rota_group_open(&loop, &options, &group, &error), ROTA_ERR_INVALID);
    assert_non_null(strstr(error.text, "4s"));
    assert_non_null(strstr(error.text, "6s"));
    options = options_of(&a, "a", 1);
    options.on_stop = NULL;
    assert_int_equal(rota_group_open(&loop, &options, &group, &error), ROTA_ERR_INVALID);
    assert_null(group);
    rota_group_close(NULL, NULL, NULL);
}

static void group_may_be_closed_at_any_time(void **state)
{
    (void)state;
    for (int n_turns = 0; n_turns < 12; n_turns++) {
        a = (struct task){0};
        open_task(&a, "a", 2);
        for (int i = 0; i < n_turns; i++)
            uv_run(&loop, UV_RUN_NOWAIT);
        close_task(&a);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(partitions_of_a_leaving_task_go_to_the_others),
        TEST(child_goes_to_the_least_loaded_and_waits_for_its_parents),
        TEST(position_goes_with_the_partition),
        TEST(callback_may_report_and_even_finish),
        TEST(callback_may_close_the_group),
        TEST(group_is_left_when_the_last_reader_has_stopped),
        TEST(metrics_count_the_work_of_a_task),
        TEST(token_is_void_when_the_loop_hangs),
        TEST(invalid_report_is_refused),
        TEST(observer_sees_all_and_never_joins),
        TEST(foreign_record_is_skipped_counted_and_named),
        TEST(log_without_its_beginning_is_refused),
        TEST(long_log_is_trimmed_and_a_new_task_begins_after_the_trimmed_part),
        TEST(invalid_options_are_refused),
        TEST(group_may_be_closed_at_any_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
