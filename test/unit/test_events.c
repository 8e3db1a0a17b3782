/* What has happened, numbered. */
#include "node/rules/events.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct rota_events *events;

static int set_up(void **state)
{
    (void)state;
    events = calloc(1, sizeof *events);
    return events == NULL;
}

static int tear_down(void **state)
{
    (void)state;
    free(events);
    return 0;
}

static void add(int n)
{
    for (int i = 0; i < n; i++)
        rota_events_add(events, 7, ROTA_EVENT_SHARD, rota_str("s"), "%d", i);
}

static void events_come_in_order_and_once(void **state)
{
    (void)state;
    assert_null(rota_events_next(events, 0));
    rota_events_add(events, 3 * ROTA_SEC, ROTA_EVENT_NODE, rota_str("a:1"), "joined zone %s", "b");
    add(2);
    const struct rota_event *event = rota_events_next(events, 0);
    assert_int_equal(event->number, 1);
    assert_int_equal(event->at, 3 * ROTA_SEC);
    assert_int_equal(event->kind, ROTA_EVENT_NODE);
    assert_string_equal(event->subject, "a:1");
    assert_string_equal(event->text, "joined zone b");
    assert_int_equal(rota_events_next(events, 1)->number, 2);
    assert_int_equal(rota_events_next(events, 1)->kind, ROTA_EVENT_SHARD);
    assert_int_equal(rota_events_next(events, 2)->number, 3);
    assert_null(rota_events_next(events, 3));
    assert_null(rota_events_next(events, UINT64_MAX)); /* of a life that is over, perhaps */
}

static void oldest_give_way_and_leave_a_gap(void **state)
{
    (void)state;
    add(ROTA_EVENTS_KEPT);
    assert_int_equal(rota_events_next(events, 0)->number, 1);
    add(10);
    assert_int_equal(rota_events_next(events, 0)->number, 11);
    assert_int_equal(rota_events_next(events, 5)->number, 11);
    assert_int_equal(rota_events_next(events, 11)->number, 12);
    uint64_t seen = 0;
    size_t n = 0;
    for (const struct rota_event *event; (event = rota_events_next(events, seen)); n++)
        seen = event->number;
    assert_int_equal(n, ROTA_EVENTS_KEPT);
    assert_int_equal(seen, ROTA_EVENTS_KEPT + 10);
}

static void long_texts_are_cut_between_characters(void **state)
{
    char text[600] = "";
    (void)state;
    for (int i = 0; i < 200; i++)
        strcat(text, "\xc3\xa4");
    rota_events_add(events, 1, ROTA_EVENT_JOB, rota_str(text), "x%s", text);
    const struct rota_event *event = rota_events_next(events, 0);
    assert_int_equal(strlen(event->subject), ROTA_EVENT_SUBJECT_MAX - 2);
    assert_int_equal(strlen(event->text), ROTA_EVENT_TEXT_MAX - 1);

    memset(text, 'x', ROTA_EVENT_SUBJECT_MAX); /* and whole if they just fit */
    for (size_t size = ROTA_EVENT_SUBJECT_MAX - 2; size <= ROTA_EVENT_SUBJECT_MAX; size++) {
        rota_events_adopt(events, 1, ROTA_EVENT_JOB, rota_str_of(text, size), rota_str(""),
                          rota_str_of(text, size));
        event = rota_events_next(events, rota_events_last(events) - 1);
        size_t kept = size < ROTA_EVENT_SUBJECT_MAX ? size : ROTA_EVENT_SUBJECT_MAX - 1;
        assert_int_equal(strlen(event->subject), kept);
        assert_int_equal(strlen(event->node), kept);
    }
    memset(text, 0x80, ROTA_EVENT_SUBJECT_MAX); /* no character begins here */
    rota_events_adopt(events, 1, ROTA_EVENT_JOB, rota_str_of(text, ROTA_EVENT_SUBJECT_MAX),
                      rota_str(""), rota_str(""));
    assert_string_equal(rota_events_next(events, rota_events_last(events) - 1)->subject, "");
}

static void numbers_of_an_earlier_life_are_before_all(void **state)
{
    (void)state;
    events->base = 5000;
    assert_int_equal(rota_events_last(events), 5000);
    add(2);
    assert_int_equal(rota_events_next(events, 0)->number, 5001);
    assert_int_equal(rota_events_next(events, 4999)->number, 5001);
    assert_int_equal(rota_events_next(events, 5001)->number, 5002);
    assert_null(rota_events_next(events, 5002));
    assert_int_equal(rota_events_last(events), 5002);
    add(ROTA_EVENTS_KEPT);
    assert_int_equal(rota_events_next(events, 0)->number, 5003);
}

static void events_of_others_have_their_node_and_our_number(void **state)
{
    (void)state;
    add(1);
    rota_events_adopt(events, 3, ROTA_EVENT_NODE, rota_str("a:1"), rota_str("is %s dead"),
                      rota_str("b:1"));
    assert_string_equal(rota_events_next(events, 0)->node, "");
    const struct rota_event *event = rota_events_next(events, 1);
    assert_int_equal(event->number, 2);
    assert_int_equal(event->at, 3);
    assert_int_equal(event->kind, ROTA_EVENT_NODE);
    assert_string_equal(event->subject, "a:1");
    assert_string_equal(event->node, "b:1");
    assert_string_equal(event->text, "is %s dead");
}

static void kinds_have_names(void **state)
{
    enum rota_event_kind kind;
    (void)state;
    for (int i = 0; i < ROTA_EVENT_KINDS; i++) {
        assert_true(
            rota_event_kind_parse(rota_str(rota_event_kind_name((enum rota_event_kind)i)), &kind));
        assert_int_equal(kind, i);
    }
    assert_false(rota_event_kind_parse(rota_str("nodes"), &kind));
    for (int i = 0; i < ROTA_EVENT_KINDS; i++)
        assert_non_null(
            strstr(ROTA_EVENT_KIND_NAMES, rota_event_kind_name((enum rota_event_kind)i)));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(events_come_in_order_and_once),
        TEST(oldest_give_way_and_leave_a_gap),
        TEST(long_texts_are_cut_between_characters),
        TEST(numbers_of_an_earlier_life_are_before_all),
        TEST(events_of_others_have_their_node_and_our_number),
        TEST(kinds_have_names),
    };
    return cmocka_run_group_tests_name("events", tests, NULL, NULL);
}
