#include <rota/experimental/members.h>

#include "await.h"
#include "io/clock.h"
#include "run/place/subscribers.h"
#include <rota/log.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* --- a membership of a hosts file, and all that it told --- */

static uv_loop_t loop;
static struct rota_members *members;
static char directory[64], path[96], spare[96];

static size_t n_told, n_errors, n_lines; /* how often */
static char told[512];                   /* what last: "+added -removed ~changed" */
static struct rota_error last_error;
static char last_line[ROTA_LOG_LINE_MAX];

static void on_line(void *data, struct rota_str line)
{
    (void)data;
    n_lines++;
    snprintf(last_line, sizeof last_line, "%.*s", ROTA_STR_ARGS(line));
}

static const struct rota_log log_sink = {.level = ROTA_LOG_INFO, .write = on_line};

static void on_error(void *data, const struct rota_error *error)
{
    (void)data;
    n_errors++;
    last_error = *error;
}

static void on_change(void *data, const struct rota_members_change *change)
{
    const struct rota_str *lists[] = {change->added, change->removed, change->changed};
    const size_t sizes[] = {change->n_added, change->n_removed, change->n_changed};
    size_t end = 0;
    (void)data;
    told[0] = '\0';
    for (size_t list = 0; list < 3; list++)
        for (size_t i = 0; i < sizes[list]; i++)
            end += (size_t)snprintf(told + end, sizeof told - end, "%s%c%.*s", end ? " " : "",
                                    "+-~"[list], ROTA_STR_ARGS(lists[list][i]));
    n_told++;
}

/* The hosts on the ring as text. */
static const char *placed(void)
{
    static char text[512];
    struct rota_ring *ring = rota_members_ring(members);
    size_t end = 0;
    text[0] = '\0';
    for (uint32_t i = 0; i < rota_ring_size(ring); i++)
        end += (size_t)snprintf(text + end, sizeof text - end, "%s%.*s", end ? " " : "",
                                ROTA_STR_ARGS(rota_ring_host(ring, i).address));
    rota_ring_unref(ring);
    return text;
}

static enum rota_code open_file(struct rota_error *error)
{
    struct rota_members_options options = {.points = 16, .log = &log_sink, .on_error = on_error};
    struct rota_members_source *source;
    assert_int_equal(rota_hosts_watch_new(path, &source, error), ROTA_OK);
    return rota_members_open(&loop, source, &options, &members, error);
}

static void open_with(const char *text)
{
    struct rota_error error;
    await_write(path, text);
    if (open_file(&error) || rota_members_subscribe(members, "test", on_change, NULL, &error))
        fail_msg("%s", error.text);
}

static int setup(void **state)
{
    (void)state;
    strcpy(directory, "/tmp/rota-members-XXXXXX");
    if (!mkdtemp(directory))
        return -1;
    snprintf(path, sizeof path, "%s/hosts", directory);
    snprintf(spare, sizeof spare, "%s/spare", directory);
    members = NULL;
    n_told = n_errors = n_lines = 0;
    told[0] = '\0';
    return uv_loop_init(&loop);
}

static int teardown(void **state)
{
    (void)state;
    rota_members_close(members);
    await_end(&loop);
    unlink(path);
    unlink(spare);
    return rmdir(directory);
}

/* --- the file --- */

static void list_is_there_when_open_returns(void **state)
{
    size_t n;
    (void)state;
    open_with("b:1\na:1 draining\nc:1 weight=2\n");
    assert_string_equal(placed(), "b:1 c:1");
    const struct rota_member *list = rota_members_list(members, &n);
    assert_int_equal(n, 3);
    assert_true(rota_str_is_equal(list[0].host.address, rota_str("a:1")));
    assert_true(list[0].host.is_draining && !list[0].is_placed);
    assert_int_equal(list[2].host.weight, 2 * ROTA_WEIGHT_ONE);
    assert_int_equal(n_told, 0); /* who subscribes later reads what is */
    assert_non_null(strstr(last_line, "msg=\"members changed\" added=2 removed=0 changed=1 "
                                      "members=3 placed=2"));
}

static void rewrite_in_place_is_seen(void **state)
{
    (void)state;
    open_with("a:1\nb:1\n");
    await_write(path, "a:1\nc:1\n");
    await(&loop, &n_told, 1);
    assert_string_equal(told, "+c:1 -b:1");
    assert_string_equal(placed(), "a:1 c:1");
    await_write(path, "a:1 weight=2\nc:1\n");
    await(&loop, &n_told, 2);
    assert_string_equal(told, "~a:1");
    assert_int_equal(n_errors, 0);
}

static void rename_over_is_seen(void **state)
{
    (void)state;
    open_with("a:1\n");
    for (size_t i = 0; i < 3; i++) { /* each time the file is another one */
        await_write(spare, i % 2 ? "a:1\n" : "a:1\nb:1\n");
        assert_int_equal(rename(spare, path), 0);
        await(&loop, &n_told, i + 1);
        assert_string_equal(told, i % 2 ? "-b:1" : "+b:1");
    }
}

static void file_that_is_gone_is_awaited(void **state)
{
    (void)state;
    open_with("a:1\n");
    assert_int_equal(unlink(path), 0);
    await(&loop, &n_errors, 1);
    assert_int_equal(last_error.code, ROTA_ERR_NOT_FOUND);
    assert_non_null(strstr(last_error.text, path));
    assert_string_equal(placed(), "a:1");
    await_write(path, "a:1\nb:1\n");
    await(&loop, &n_told, 1);
    assert_string_equal(placed(), "a:1 b:1");

    unlink(path); /* it was well in between, so this is news */
    await(&loop, &n_errors, 2);
}

static void invalid_file_keeps_the_members_and_is_reported(void **state)
{
    (void)state;
    open_with("a:1\n");
    await_write(path, "a:1\nb:1 wieght=2\n");
    await(&loop, &n_errors, 1);
    assert_non_null(strstr(last_error.text, "hosts:2: unknown attribute"));
    assert_string_equal(placed(), "a:1");
    assert_non_null(strstr(last_line, "level=warn msg=\"members not updated\" code=invalid"));

    await_write(path, "a:1\na:1\n");
    await(&loop, &n_errors, 2);
    assert_non_null(strstr(last_error.text, "already listed in line 1"));

    await_write(path, "a:1\nb:1\n");
    await(&loop, &n_told, 1);
    assert_string_equal(placed(), "a:1 b:1");
    assert_int_equal(n_errors, 2);
}

static void emptied_file_keeps_the_members(void **state)
{
    (void)state;
    open_with("a:1\n");
    await_write(path, "# nobody\n");
    await(&loop, &n_errors, 1);
    assert_non_null(strstr(last_error.text, "is empty; keeping the current members"));
    assert_string_equal(placed(), "a:1");
    await_write(path, "b:1\n");
    await(&loop, &n_told, 1);
    assert_string_equal(placed(), "b:1");
}

static void file_may_be_empty_from_the_start(void **state)
{
    (void)state;
    open_with("");
    assert_string_equal(placed(), "");
    await_write(path, "a:1\n");
    await(&loop, &n_told, 1);
    assert_string_equal(placed(), "a:1");
    assert_int_equal(n_errors, 0);
}

static void start_with_a_bad_file_is_an_error(void **state)
{
    struct rota_error error;
    (void)state;
    assert_int_equal(open_file(&error), ROTA_ERR_NOT_FOUND);
    assert_non_null(strstr(error.text, "No such file"));
    await_write(path, "a:1 weight=heavy\n");
    assert_int_equal(open_file(&error), ROTA_ERR_INVALID);
    assert_non_null(strstr(error.text, "hosts:1: weight"));
    assert_null(members);
    assert_int_equal(n_errors, 0);
}

/* --- time and operators --- */

static void bounds_of_time_flip_by_themselves(void **state)
{
    char text[200], start[ROTA_TIME_TEXT_MAX], stop[ROTA_TIME_TEXT_MAX];
    rota_time start_at = rota_clock_wall() + ROTA_HOUR, stop_at;
    (void)state;
    snprintf(text, sizeof text, "a:1\nb:1 start_at=%s\nc:1\n", rota_time_format(start_at, start));
    open_with(text);
    assert_string_equal(placed(), "a:1 c:1");

    start_at = rota_clock_wall() + 200 * ROTA_MSEC;
    stop_at = start_at + 100 * ROTA_MSEC;
    snprintf(text, sizeof text, "a:1 stop_at=%s\nb:1 start_at=%s\nc:1\n",
             rota_time_format(stop_at, stop), rota_time_format(start_at, start));
    await_write(path, text);
    while (strcmp(placed(), "b:1 c:1") != 0)
        await(&loop, &n_told, n_told + 1);
    assert_true(rota_clock_wall() >= stop_at);
}

static void operators_hold_against_the_file(void **state)
{
    struct rota_str a = rota_str("a:1"), b = rota_str("b:1");
    struct rota_error error;
    (void)state;
    open_with("a:1\nb:1\nc:1\n");
    assert_int_equal(rota_members_evict(members, a, NULL), ROTA_OK);
    assert_string_equal(told, "-a:1");
    assert_int_equal(rota_members_drain(members, b, NULL), ROTA_OK);
    assert_string_equal(told, "-b:1");
    await_write(path, "a:1 weight=2\nb:1\nc:1\nd:1\n");
    await(&loop, &n_told, 3);
    assert_string_equal(told, "+d:1 ~a:1");
    assert_string_equal(placed(), "c:1 d:1");
    assert_int_equal(rota_members_unevict(members, a, NULL), ROTA_OK);
    assert_int_equal(rota_members_undrain(members, b, NULL), ROTA_OK);
    assert_string_equal(placed(), "a:1 b:1 c:1 d:1");
    assert_int_equal(n_told, 5);
    assert_int_equal(rota_members_evict(members, rota_str(""), &error), ROTA_ERR_INVALID);
}

/* --- subscribers --- */

struct witness {
    size_t n_told, ring_size;
    char order[16]; /* shared by all through `first` */
    struct witness *first;
    char letter;
    enum { WATCHES, LEAVES, EVICTS, CLOSES, SUBSCRIBES } does;
};

static void on_witness(void *data, const struct rota_members_change *change)
{
    struct witness *witness = data;
    struct rota_ring *ring = rota_members_ring(members);
    char *order = witness->first->order;
    witness->n_told++;
    witness->ring_size = rota_ring_size(ring);
    order[strlen(order)] = witness->letter;
    for (size_t i = 0; i < change->n_added; i++)
        assert_int_not_equal(rota_ring_find(ring, change->added[i]), ROTA_RING_NONE);
    for (size_t i = 0; i < change->n_removed; i++)
        assert_int_equal(rota_ring_find(ring, change->removed[i]), ROTA_RING_NONE);
    rota_ring_unref(ring);

    if (witness->does == LEAVES)
        rota_members_unsubscribe(members, "one");
    if (witness->does == EVICTS)
        assert_int_equal(rota_members_evict(members, rota_str("a:1"), NULL), ROTA_OK);
    if (witness->does == SUBSCRIBES && witness->n_told == 1)
        assert_int_equal(rota_members_subscribe(members, "late", on_change, NULL, NULL), ROTA_OK);
    if (witness->does == CLOSES) {
        rota_members_close(members);
        members = NULL;
    }
}

/* Open with two subscribers, the first of which does something. */
static void open_with_witnesses(struct witness *one, struct witness *two)
{
    struct rota_error error;
    one->first = two->first = one;
    one->letter = '1';
    two->letter = '2';
    await_write(path, "a:1\n");
    assert_int_equal(open_file(&error), ROTA_OK);
    assert_int_equal(rota_members_subscribe(members, "one", on_witness, one, &error), ROTA_OK);
    assert_int_equal(rota_members_subscribe(members, "two", on_witness, two, &error), ROTA_OK);
}

static void subscribers_find_the_new_ring(void **state)
{
    struct witness one = {0}, two = {0};
    struct rota_error error;
    (void)state;
    open_with_witnesses(&one, &two);
    assert_int_equal(rota_members_subscribe(members, "one", on_witness, &one, &error),
                     ROTA_ERR_INVALID);
    assert_non_null(strstr(error.text, "subscriber \"one\" exists already"));
    await_write(path, "a:1\nb:1\nc:1\n");
    await(&loop, &two.n_told, 1);
    assert_string_equal(one.order, "12");
    assert_int_equal(one.ring_size, 3);
    assert_int_equal(two.ring_size, 3);

    rota_members_unsubscribe(members, "nobody");
    rota_members_unsubscribe(members, "one");
    assert_int_equal(rota_members_drain(members, rota_str("b:1"), NULL), ROTA_OK);
    assert_string_equal(one.order, "122");
    assert_int_equal(rota_members_subscribe(members, "one", on_witness, &one, NULL), ROTA_OK);
}

static void subscribers_are_bounded(void **state)
{
    char name[ROTA_SUBSCRIBERS_NAME_MAX + 2] = {0};
    (void)state;
    open_with("a:1\n"); /* with one subscriber */
    for (int i = 1; i < ROTA_SUBSCRIBERS_MAX; i++) {
        snprintf(name, sizeof name, "s%d", i);
        assert_int_equal(rota_members_subscribe(members, name, on_change, NULL, NULL), ROTA_OK);
    }
    assert_int_equal(rota_members_subscribe(members, "more", on_change, NULL, NULL),
                     ROTA_ERR_LIMIT);
    rota_members_unsubscribe(members, "s1");
    memset(name, 'x', sizeof name - 1);
    assert_int_equal(rota_members_subscribe(members, name, on_change, NULL, NULL), ROTA_ERR_LIMIT);
    assert_int_equal(rota_members_subscribe(members, "more", on_change, NULL, NULL), ROTA_OK);
}

static void subscriber_may_unsubscribe_during_a_notification(void **state)
{
    struct witness one = {.does = LEAVES}, two = {0};
    (void)state;
    open_with_witnesses(&one, &two);
    rota_members_drain(members, rota_str("a:1"), NULL);
    rota_members_undrain(members, rota_str("a:1"), NULL);
    assert_string_equal(one.order, "122");
}

static void change_made_during_a_notification_is_reported_after_it(void **state)
{
    struct witness one = {.does = EVICTS}, two = {0};
    (void)state;
    open_with_witnesses(&one, &two);
    await_write(path, "a:1\nb:1\n");
    await(&loop, &two.n_told, 2);
    assert_string_equal(one.order, "1212");
    assert_string_equal(placed(), "b:1");
}

static void subscriber_added_during_a_notification_gets_the_next_change(void **state)
{
    struct witness one = {.does = SUBSCRIBES}, two = {0};
    (void)state;
    open_with_witnesses(&one, &two);
    rota_members_drain(members, rota_str("a:1"), NULL);
    assert_int_equal(n_told, 0);
    rota_members_undrain(members, rota_str("a:1"), NULL);
    assert_int_equal(n_told, 1);
    assert_string_equal(told, "+a:1");
}

static void subscriber_may_close_the_membership(void **state)
{
    struct witness one = {.does = CLOSES}, two = {0};
    (void)state;
    open_with_witnesses(&one, &two);
    await_write(path, "a:1\nb:1\n");
    await(&loop, &one.n_told, 1);
    assert_string_equal(one.order, "1");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(list_is_there_when_open_returns),
        TEST(rewrite_in_place_is_seen),
        TEST(rename_over_is_seen),
        TEST(file_that_is_gone_is_awaited),
        TEST(invalid_file_keeps_the_members_and_is_reported),
        TEST(emptied_file_keeps_the_members),
        TEST(file_may_be_empty_from_the_start),
        TEST(start_with_a_bad_file_is_an_error),
        TEST(bounds_of_time_flip_by_themselves),
        TEST(operators_hold_against_the_file),
        TEST(subscribers_find_the_new_ring),
        TEST(subscribers_are_bounded),
        TEST(subscriber_may_unsubscribe_during_a_notification),
        TEST(change_made_during_a_notification_is_reported_after_it),
        TEST(subscriber_added_during_a_notification_gets_the_next_change),
        TEST(subscriber_may_close_the_membership),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
