#include <rota/experimental/config_watch.h>

#include "await.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static uv_loop_t loop;
static struct rota_config_watch *watch;
static char path[64];

static size_t n_told, n_errors;
static uint32_t points_told, points_then; /* what was told, and in force when it was */
static struct rota_error last_error;
static bool closes;

static uint32_t points_now(void)
{
    struct rota_config *config = rota_config_watch_get(watch);
    uint32_t points = rota_config_ring_points(config);
    rota_config_unref(config);
    return points;
}

static void close_watch(void)
{
    rota_config_watch_close(watch);
    watch = NULL;
}

static void on_change(void *data, const struct rota_config *config)
{
    (void)data;
    n_told++;
    points_told = rota_config_ring_points(config);
    points_then = points_now();
    if (closes) {
        close_watch();
        assert_int_equal(rota_config_ring_points(config), points_told); /* lives for the call */
    }
}

static void on_error(void *data, const struct rota_error *error)
{
    (void)data;
    n_errors++;
    last_error = *error;
}

static enum rota_code open_watch(void)
{
    struct rota_config_watch_options options = {.path = path, .on_error = on_error};
    return rota_config_watch_open(&loop, &options, &watch, &last_error);
}

static void write_points(unsigned points)
{
    char text[64];
    snprintf(text, sizeof text, "system.ringpopReplicaPoints = %u\n", points);
    await_write(path, text);
}

static int setup(void **state)
{
    (void)state;
    strcpy(path, "/tmp/rota-config-XXXXXX");
    watch = NULL;
    n_told = n_errors = 0;
    closes = false;
    int fd = mkstemp(path);
    return fd < 0 || close(fd) ? -1 : uv_loop_init(&loop);
}

static int teardown(void **state)
{
    (void)state;
    close_watch();
    await_end(&loop);
    return unlink(path);
}

static void new_file_is_in_force_when_reported(void **state)
{
    (void)state;
    write_points(50);
    assert_int_equal(open_watch(), ROTA_OK);
    assert_int_equal(points_now(), 50);
    assert_int_equal(rota_config_watch_subscribe(watch, "test", on_change, NULL, NULL), ROTA_OK);
    assert_int_equal(rota_config_watch_subscribe(watch, "test", on_change, NULL, NULL),
                     ROTA_ERR_INVALID);
    write_points(60);
    await(&loop, &n_told, 1);
    assert_int_equal(points_told, 60);
    assert_int_equal(points_then, 60);
    rota_config_watch_unsubscribe(watch, "nobody");
}

static void invalid_file_keeps_the_previous_settings(void **state)
{
    (void)state;
    write_points(50);
    assert_int_equal(open_watch(), ROTA_OK);
    assert_int_equal(rota_config_watch_subscribe(watch, "test", on_change, NULL, NULL), ROTA_OK);
    write_points(0);
    await(&loop, &n_errors, 1);
    assert_true(strncmp(last_error.text, path, strlen(path)) == 0);
    assert_int_equal(points_now(), 50);
    write_points(70);
    await(&loop, &n_told, 1);
    assert_int_equal(points_now(), 70);
}

/* An empty text is a configuration, but an emptied file is a slip. */
static void emptied_file_keeps_the_previous_settings(void **state)
{
    (void)state;
    write_points(50);
    assert_int_equal(open_watch(), ROTA_OK);
    await_write(path, "");
    await(&loop, &n_errors, 1);
    assert_non_null(strstr(last_error.text, "is empty"));
    assert_int_equal(points_now(), 50);
}

static void start_with_a_bad_file_is_an_error(void **state)
{
    (void)state;
    write_points(0);
    assert_int_equal(open_watch(), ROTA_ERR_INVALID);
    assert_null(watch);
}

static void subscriber_may_close_the_watch(void **state)
{
    (void)state;
    write_points(50);
    assert_int_equal(open_watch(), ROTA_OK);
    assert_int_equal(rota_config_watch_subscribe(watch, "test", on_change, NULL, NULL), ROTA_OK);
    assert_int_equal(rota_config_watch_subscribe(watch, "other", on_change, NULL, NULL), ROTA_OK);
    closes = true;
    write_points(60);
    await(&loop, &n_told, 1);
    assert_int_equal(n_told, 1);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(new_file_is_in_force_when_reported),
        TEST(invalid_file_keeps_the_previous_settings),
        TEST(emptied_file_keeps_the_previous_settings),
        TEST(start_with_a_bad_file_is_an_error),
        TEST(subscriber_may_close_the_watch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
