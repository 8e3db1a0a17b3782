#include <rota/experimental/queue_watch.h>

#include "await.h"
#include "io/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PARTITIONS = 32 };

static uv_loop_t loop;
static struct rota_config_watch *config;
static struct rota_queue_watch *watch;
static char path[64];

static size_t n_counts, n_flips, n_reloads;
static int64_t write_told, read_told;
static unsigned flips[PARTITIONS];         /* how often each was told */
static struct rota_spread now[PARTITIONS]; /* as told */
static bool closes;

static void close_watch(void)
{
    rota_queue_watch_close(watch);
    watch = NULL;
}

static void on_counts(void *data, int64_t write, int64_t read)
{
    (void)data;
    n_counts++;
    write_told = write;
    read_told = read;
}

static void on_flip(void *data, int64_t partition, struct rota_spread old_spread,
                    struct rota_spread new_spread)
{
    (void)data;
    assert_in_range(partition, 0, PARTITIONS - 1);
    assert_memory_equal(&old_spread, &now[partition], sizeof old_spread);
    assert_memory_not_equal(&old_spread, &new_spread, sizeof old_spread);
    now[partition] = new_spread;
    flips[partition]++;
    n_flips++;
    if (closes)
        close_watch();
}

static void on_reload(void *data, const struct rota_config *next)
{
    (void)data;
    (void)next;
    n_reloads++;
}

static const struct rota_queue_watch_options OPTIONS = {
    .namespace_id = {"orders", 6},
    .queue = {"email", 5},
    .type = ROTA_TASK_ACTIVITY,
    .on_counts = on_counts,
    .on_flip = on_flip,
};

static void write_config(int64_t write, int64_t read, const char *batch)
{
    char text[512];
    snprintf(text, sizeof text,
             "[[override]]\nnamespace = 'orders'\nmatching.numTaskqueueWritePartitions = %d\n"
             "matching.numTaskqueueReadPartitions = %d\nmatching.spreadRoutingBatchSize = %s\n",
             (int)write, (int)read, batch);
    await_write(path, text);
}

/* A change of the batch from 0 to `batch`, between two moments from now. */
static const char *change_to(int batch, rota_time from, rota_time until)
{
    static char text[256];
    char start[ROTA_TIME_TEXT_MAX], end[ROTA_TIME_TEXT_MAX];
    rota_time at = rota_clock_wall();
    snprintf(text, sizeof text, "{ old = 0, new = %d, start = %s, end = %s }", batch,
             rota_time_format(at + from, start), rota_time_format(at + until, end));
    return text;
}

static void open_all(void)
{
    struct rota_config_watch_options options = {.path = path};
    struct rota_error error;
    if (rota_config_watch_open(&loop, &options, &config, &error) ||
        rota_config_watch_subscribe(config, "test", on_reload, NULL, &error) ||
        rota_queue_watch_open(&loop, config, &OPTIONS, &watch, &error))
        fail_msg("%s", error.text);
    for (int64_t i = 0; i < rota_queue_watch_config(watch).read; i++)
        now[i] = rota_queue_watch_spread(watch, i);
}

static int setup(void **state)
{
    (void)state;
    strcpy(path, "/tmp/rota-queue-XXXXXX");
    n_counts = n_flips = n_reloads = 0;
    closes = false;
    config = NULL;
    watch = NULL;
    memset(flips, 0, sizeof flips);
    memset(now, 0, sizeof now);
    int fd = mkstemp(path);
    return fd < 0 || close(fd) ? -1 : uv_loop_init(&loop);
}

static int teardown(void **state)
{
    (void)state;
    close_watch();
    rota_config_watch_close(config);
    await_end(&loop);
    return unlink(path);
}

/* A second around now: some have flipped when we open, the others do while the
 * loop runs; what was new already is not told. */
static void every_partition_flips_once(void **state)
{
    size_t n_new = 0;
    (void)state;
    write_config(PARTITIONS, PARTITIONS, change_to(8, -500 * ROTA_MSEC, 500 * ROTA_MSEC));
    open_all();
    for (int64_t i = 0; i < PARTITIONS; i++)
        n_new += now[i].batch == 8;
    await(&loop, &n_flips, PARTITIONS - n_new);
    for (int64_t i = 0; i < PARTITIONS; i++) {
        assert_int_equal(now[i].batch, 8);
        assert_int_equal(rota_queue_watch_spread(watch, i).batch, 8);
        assert_true(flips[i] <= 1);
    }
    assert_int_equal(n_flips, PARTITIONS - n_new);
    assert_int_equal(n_counts, 0);
}

/* The change is cut short by a reload: what has flipped stays, the rest follows
 * at once, and nobody is told twice. */
static void reload_during_a_change_reports_the_rest_once(void **state)
{
    (void)state;
    write_config(PARTITIONS, PARTITIONS, "0");
    open_all();
    write_config(PARTITIONS, PARTITIONS, change_to(8, 0, 100 * ROTA_SEC));
    await(&loop, &n_reloads, 1);
    await(&loop, &n_flips, 1);
    assert_true(n_flips < PARTITIONS);
    write_config(PARTITIONS, PARTITIONS, "8");
    await(&loop, &n_flips, PARTITIONS);
    write_config(PARTITIONS, PARTITIONS, "8 # the same");
    await(&loop, &n_reloads, 3);
    for (int64_t i = 0; i < PARTITIONS; i++)
        assert_int_equal(flips[i], 1);
}

static void lower_counts_are_in_force_when_it_is_safe(void **state)
{
    (void)state;
    write_config(8, 8, "0");
    open_all();
    write_config(2, 6, "0");
    await(&loop, &n_counts, 1);
    assert_int_equal(write_told, 2);
    assert_int_equal(read_told, 8);
    assert_int_equal(rota_queue_watch_config(watch).read, 8);
    assert_int_equal(rota_queue_watch_waits_for(watch), 7);
    rota_queue_watch_report_empty(watch, 6, true);
    assert_int_equal(n_counts, 1);
    rota_queue_watch_report_empty(watch, 7, true);
    assert_int_equal(n_counts, 2);
    assert_int_equal(read_told, 6);
    assert_int_equal(rota_queue_watch_waits_for(watch), -1);

    write_config(9, 9, "0"); /* raising is safe at once */
    await(&loop, &n_counts, 3);
    assert_int_equal(write_told, 9);
    assert_int_equal(read_told, 9);
}

static void callback_may_close_the_watch(void **state)
{
    (void)state;
    write_config(8, 8, "0");
    open_all();
    closes = true;
    write_config(8, 8, "4");
    await(&loop, &n_reloads, 1);
    assert_int_equal(n_flips, 1);
    assert_null(watch);
}

static void invalid_queue_is_refused(void **state)
{
    struct rota_queue_watch_options options = OPTIONS;
    struct rota_error error;
    (void)state;
    write_config(1, 1, "0");
    open_all();
    close_watch();
    options.queue = rota_str("/_sys/email/1");
    assert_int_equal(rota_queue_watch_open(&loop, config, &options, &watch, &error),
                     ROTA_ERR_INVALID);
    assert_non_null(strstr(error.text, "reserved"));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(every_partition_flips_once),
        TEST(reload_during_a_change_reports_the_rest_once),
        TEST(lower_counts_are_in_force_when_it_is_safe),
        TEST(callback_may_close_the_watch),
        TEST(invalid_queue_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
