#include "run/place/subscribers.h"
#include "vectors.h"

#include <stdio.h>
#include <string.h>

static struct rota_subscribers list;
static char called[64]; /* the first letters of those that were called */
static const char *added, *removed;
static bool stops;

static void on_news(void *data, const char *news)
{
    char name[2] = {*(const char *)data, '\0'};
    assert_string_equal(news, "news");
    strcat(called, name);
    if (added && added[0] == name[0])
        assert_int_equal(rota_subscribers_add(&list, added + 1, (rota_subscriber_function *)on_news,
                                              (void *)(added + 1), NULL),
                         ROTA_OK);
    if (removed && removed[0] == name[0])
        rota_subscribers_remove(&list, removed + 1);
    if (stops)
        rota_subscribers_stop(&list);
}

static void call(rota_subscriber_function *function, void *data, const void *news)
{
    ((void (*)(void *, const char *))function)(data, news);
}

static enum rota_code add(const char *name, struct rota_error *error)
{
    return rota_subscribers_add(&list, name, (rota_subscriber_function *)on_news, (void *)name,
                                error);
}

static const char *told(void)
{
    called[0] = '\0';
    rota_subscribers_notify(&list, rota_subscribers_number(&list), call, "news");
    return called;
}

static int setup(void **state)
{
    (void)state;
    list = (struct rota_subscribers){0};
    added = removed = NULL;
    stops = false;
    return add("a", NULL) || add("b", NULL) || add("c", NULL);
}

static int teardown(void **state)
{
    (void)state;
    rota_subscribers_deinit(&list);
    return list.first || list.size;
}

static void subscribers_are_notified_in_the_order_of_subscription(void **state)
{
    (void)state;
    assert_string_equal(told(), "abc");
    rota_subscribers_remove(&list, "b");
    rota_subscribers_remove(&list, "b");
    rota_subscribers_remove(&list, "nobody");
    assert_int_equal(list.size, 2);
    assert_string_equal(told(), "ac");
    assert_int_equal(add("b", NULL), ROTA_OK);
    assert_int_equal(list.size, 3);
    assert_string_equal(told(), "acb");
}

static void one_that_is_added_meanwhile_receives_the_next(void **state)
{
    (void)state;
    added = "bx";
    assert_string_equal(told(), "abc");
    added = NULL;
    assert_string_equal(told(), "abcx");
    uint64_t number = rota_subscribers_number(&list);
    assert_int_equal(add("y", NULL), ROTA_OK); /* between the number and the news */
    called[0] = '\0';
    rota_subscribers_notify(&list, number, call, "news");
    assert_string_equal(called, "abcx");
}

static void subscriber_removed_during_a_notification_is_skipped(void **state)
{
    (void)state;
    removed = "ab";
    assert_string_equal(told(), "ac");
    assert_int_equal(list.size, 2);
    removed = "cc"; /* itself */
    assert_string_equal(told(), "ac");
    removed = NULL;
    assert_string_equal(told(), "a");
}

/* The name is free at once, and the one that is gone is not found under it. */
static void a_name_can_be_used_again_at_once(void **state)
{
    (void)state;
    removed = "aa";
    added = "ba";
    assert_string_equal(told(), "abc");
    removed = added = NULL;
    assert_string_equal(told(), "bca");
    assert_int_equal(list.size, 3);
}

static void no_subscriber_is_notified_after_the_end(void **state)
{
    (void)state;
    stops = true;
    assert_string_equal(told(), "a");
    assert_string_equal(told(), "");
}

static void names_and_their_number_are_bounded(void **state)
{
    static char names[ROTA_SUBSCRIBERS_MAX][8], longest[ROTA_SUBSCRIBERS_NAME_MAX + 2];
    struct rota_error error;
    (void)state;
    assert_int_equal(add("a", &error), ROTA_ERR_INVALID);
    assert_non_null(strstr(error.text, "\"a\" exists already"));
    memset(longest, 'n', sizeof longest - 1);
    assert_int_equal(add(longest, &error), ROTA_ERR_LIMIT);
    assert_non_null(strstr(error.text, "at most 255 bytes"));
    assert_int_equal(add(longest + 1, NULL), ROTA_OK);
    for (int i = 4; i < ROTA_SUBSCRIBERS_MAX; i++) {
        snprintf(names[i], sizeof names[i], "%d", i);
        assert_int_equal(add(names[i], NULL), ROTA_OK);
    }
    assert_int_equal(add("d", &error), ROTA_ERR_LIMIT);
    assert_non_null(strstr(error.text, "already 10000 subscribers"));
    rota_subscribers_remove(&list, "4");
    assert_int_equal(add("d", NULL), ROTA_OK);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(subscribers_are_notified_in_the_order_of_subscription),
        TEST(one_that_is_added_meanwhile_receives_the_next),
        TEST(subscriber_removed_during_a_notification_is_skipped),
        TEST(a_name_can_be_used_again_at_once),
        TEST(no_subscriber_is_notified_after_the_end),
        TEST(names_and_their_number_are_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
