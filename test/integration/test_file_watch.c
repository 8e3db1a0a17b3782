#include "run/place/file_watch.h"

#include "await.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static uv_loop_t loop;
static struct rota_file_watch *watch;
static char directory[64], path[128];

static size_t n_contents, n_errors;
static char last_content[64]; /* its first line */
static struct rota_error last_error;
static bool refuses, closes; /* what the callbacks do */

static void close_watch(void)
{
    rota_file_watch_close(watch);
    watch = NULL;
}

static enum rota_code on_content(void *data, struct rota_str content, struct rota_error *error)
{
    (void)data;
    n_contents++;
    snprintf(last_content, sizeof last_content, "%.*s", ROTA_STR_ARGS(content));
    last_content[strcspn(last_content, "\n")] = '\0';
    if (closes)
        close_watch();
    return refuses ? rota_error_set(error, ROTA_ERR_INVALID, "not to my taste") : ROTA_OK;
}

static void on_error(void *data, const struct rota_error *error)
{
    (void)data;
    n_errors++;
    last_error = *error;
    if (closes)
        close_watch();
}

static const char *inside(const char *name)
{
    static char text[128];
    snprintf(text, sizeof text, "%s/%s", directory, name);
    return text;
}

static enum rota_code open_watch(const char *name, rota_time poll)
{
    struct rota_file_watch_options options = {
        .path = path, .size_max = 20, .poll = poll, .on_content = on_content, .on_error = on_error};
    snprintf(path, sizeof path, "%s", inside(name));
    return rota_file_watch_open(&loop, &options, &watch, &last_error);
}

static void write_line(const char *to, const char *line)
{
    char text[64];
    snprintf(text, sizeof text, "%s\n", line);
    await_write(to, text);
}

static void run_shell(const char *command)
{
    char text[512];
    snprintf(text, sizeof text, "cd '%s' && %s", directory, command);
    assert_int_equal(system(text), 0);
}

static int setup(void **state)
{
    (void)state;
    strcpy(directory, "/tmp/rota-watch-XXXXXX");
    watch = NULL;
    n_contents = n_errors = 0;
    refuses = closes = false;
    return mkdtemp(directory) ? uv_loop_init(&loop) : -1;
}

static int teardown(void **state)
{
    (void)state;
    close_watch();
    await_end(&loop);
    run_shell("rm -r \"$PWD\"");
    return 0;
}

static void content_is_handed_over_at_once_and_when_it_differs(void **state)
{
    (void)state;
    write_line(inside("file"), "one");
    assert_int_equal(open_watch("file", 0), ROTA_OK);
    assert_int_equal(n_contents, 1);
    assert_string_equal(last_content, "one");
    write_line(path, "two");
    await(&loop, &n_contents, 2);
    assert_string_equal(last_content, "two");
}

static void refusal_at_the_start_is_an_error(void **state)
{
    (void)state;
    assert_int_equal(open_watch("file", 0), ROTA_ERR_NOT_FOUND);
    write_line(inside("file"), "far more than twenty bytes");
    assert_int_equal(open_watch("file", 0), ROTA_ERR_LIMIT);
    write_line(inside("file"), "one");
    refuses = true;
    assert_int_equal(open_watch("file", 0), ROTA_ERR_INVALID);
    assert_string_equal(last_error.text, "not to my taste");
    assert_int_equal(n_errors, 0);
}

static void same_refusal_is_reported_once(void **state)
{
    (void)state;
    write_line(inside("file"), "one");
    assert_int_equal(open_watch("file", 0), ROTA_OK);
    refuses = true;
    write_line(path, "two");
    await(&loop, &n_errors, 1);
    write_line(path, "three");
    await(&loop, &n_contents, 3);
    assert_int_equal(n_errors, 1);
    write_line(path, "far more than twenty bytes");
    await(&loop, &n_errors, 2);
    assert_int_equal(last_error.code, ROTA_ERR_LIMIT);

    refuses = false;
    write_line(path, "four");
    await(&loop, &n_contents, 4);
    refuses = true;
    write_line(path, "five");
    await(&loop, &n_errors, 3); /* all was well in between */
}

static void refused_content_is_tried_again(void **state)
{
    (void)state;
    write_line(inside("file"), "one");
    assert_int_equal(open_watch("file", 20 * ROTA_MSEC), ROTA_OK);
    refuses = true;
    write_line(path, "two");
    await(&loop, &n_contents, 4); /* without another change of the file */
    assert_int_equal(n_errors, 1);
    assert_string_equal(last_content, "two");
}

/* How Kubernetes shows a ConfigMap: the file is a link through a link, and only
 * the one in the middle is replaced. */
static void link_that_is_turned_is_followed(void **state)
{
    (void)state;
    run_shell("mkdir v1 v2 && echo one >v1/file && echo two >v2/file && "
              "ln -s v1 data && ln -s data/file file");
    assert_int_equal(open_watch("file", 0), ROTA_OK);
    run_shell("ln -s v2 next && mv -T next data");
    await(&loop, &n_contents, 2);
    assert_string_equal(last_content, "two");
}

static void slow_poll_notices_a_replaced_directory(void **state)
{
    (void)state;
    run_shell("mkdir d e && echo one >d/file && echo two >e/file");
    assert_int_equal(open_watch("d/file", 50 * ROTA_MSEC), ROTA_OK);
    run_shell("mv d old && mv e d");
    await(&loop, &n_contents, 2);
    assert_string_equal(last_content, "two");
    write_line(path, "three");
    await(&loop, &n_contents, 3);
}

static void on_time_to_finish(uv_timer_t *timer)
{
    write_line(path, "two and a half");
    uv_close((uv_handle_t *)timer, NULL);
}

/* A writer that takes its time: what it wrote first is no line, and not taken
 * for one. */
static void half_a_write_is_waited_for(void **state)
{
    static uv_timer_t timer; /* the loop has it until it is closed, after this returns */
    (void)state;
    write_line(inside("file"), "one");
    assert_int_equal(open_watch("file", 0), ROTA_OK);
    await_write(path, "two");
    uv_timer_init(&loop, &timer);
    uv_timer_start(&timer, on_time_to_finish, 2 * ROTA_FILE_WATCH_SETTLE / ROTA_MSEC, 0);
    await(&loop, &n_contents, 2);
    assert_string_equal(last_content, "two and a half");
}

static void unfinished_line_is_accepted_after_a_while(void **state)
{
    (void)state;
    write_line(inside("file"), "one");
    assert_int_equal(open_watch("file", 0), ROTA_OK);
    await_write(path, "two");
    await(&loop, &n_contents, 2);
    assert_string_equal(last_content, "two");
}

static void emptied_file_is_reported_and_not_handed_over(void **state)
{
    (void)state;
    write_line(inside("file"), "one");
    assert_int_equal(open_watch("file", 0), ROTA_OK);
    await_write(path, "");
    await(&loop, &n_errors, 1);
    assert_int_equal(last_error.code, ROTA_ERR_INVALID);
    assert_non_null(strstr(last_error.text, "file: is empty; the previous contents stay in force"));
    assert_int_equal(n_contents, 1);
    write_line(path, "two");
    await(&loop, &n_contents, 2);
    assert_int_equal(n_errors, 1);
}

static void callbacks_may_close_the_watch(void **state)
{
    (void)state;
    for (int is_error = 0; is_error < 2; is_error++) {
        closes = false;
        write_line(inside("file"), "one");
        assert_int_equal(open_watch("file", 0), ROTA_OK);
        closes = true;
        if (is_error)
            unlink(path);
        else
            write_line(path, "two");
        await(&loop, is_error ? &n_errors : &n_contents, is_error ? 1 : 2);
        assert_null(watch);
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(content_is_handed_over_at_once_and_when_it_differs),
        TEST(refusal_at_the_start_is_an_error),
        TEST(same_refusal_is_reported_once),
        TEST(refused_content_is_tried_again),
        TEST(link_that_is_turned_is_followed),
        TEST(slow_poll_notices_a_replaced_directory),
        TEST(half_a_write_is_waited_for),
        TEST(unfinished_line_is_accepted_after_a_while),
        TEST(emptied_file_is_reported_and_not_handed_over),
        TEST(callbacks_may_close_the_watch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
