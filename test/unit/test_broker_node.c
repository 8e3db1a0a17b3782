/* Which nodes may hold jobs, although they are down: what a broker remembers of others. */
#include "work_bench.h"

#include <stdio.h>
#include <string.h>

static struct bench bench;

static int set_up(void **state)
{
    (void)state;
    bench.options = (struct rota_broker_options){0};
    bench_init(&bench);
    assert_int_equal(rota_broker_node_self(bench.broker, bench.now, rota_str("a:1"), NULL),
                     ROTA_OK);
    bench_settle(&bench);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    bench_deinit(&bench);
    return 0;
}

/* The nodes of the list: "b" is placed, "(b" is listed without partitions. */
static void list(const char *const *names, size_t n)
{
    rota_broker_nodes_begin(bench.broker, bench.now);
    for (size_t i = 0; i < n; i++) {
        bool is_placed = names[i][0] != '(';
        assert_int_equal(
            rota_broker_node_listed(bench.broker, rota_str(names[i] + !is_placed), is_placed, NULL),
            ROTA_OK);
    }
    rota_broker_nodes_end(bench.broker);
    bench_settle(&bench);
    bench_tick(&bench, ROTA_SEC);
}

#define LIST(...)                                                                                  \
    list((const char *const[]){__VA_ARGS__}, sizeof((const char *[]){__VA_ARGS__}) / sizeof(char *))

/* "b:1 c:1": the nodes that are not listed and may hold jobs. */
static const char *absent_for(bool for_add)
{
    static char text[200];
    struct rota_str address;
    size_t used = 0;
    text[0] = '\0';
    for (size_t place = 0;
         rota_broker_next_absent(bench.broker, bench.now.boot, for_add, &place, &address);)
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%.*s", used ? " " : "",
                                 ROTA_STR_ARGS(address));
    return text;
}

static const char *absent(void)
{
    return absent_for(false);
}

static void empty(const char *node)
{
    struct rota_broker_node_view said = {rota_str(node), false, bench.now.wall};
    assert_int_equal(rota_broker_take_node(bench.broker, bench.now, &said, NULL), ROTA_OK);
    bench_settle(&bench);
    bench_tick(&bench, ROTA_SEC);
}

static void hear(const char *node, bool may_hold, rota_time at)
{
    struct rota_broker_node_view view = {rota_str(node), may_hold, at};
    assert_int_equal(rota_broker_take_node(bench.broker, bench.now, &view, NULL), ROTA_OK);
    bench_settle(&bench);
}

/* Everything is written again; then the journal begins there. */
static void compact(void)
{
    uint64_t from = rota_broker_last_number(bench.broker) + 1;
    size_t n_old = bench.journal.size;
    while (rota_broker_rewrite(bench.broker, from, 2, SIZE_MAX) > 0)
        bench_settle(&bench);
    bench_settle(&bench);
    memmove(bench.journal.items, bench.journal.items + n_old,
            (bench.journal.size - n_old) * sizeof *bench.journal.items);
    bench.journal.size -= n_old;
}

static void a_node_that_was_placed_may_hold_jobs_when_it_is_down(void **state)
{
    (void)state;
    LIST("a:1", "b:1", "c:1");
    assert_string_equal(absent(), "");
    LIST("a:1", "c:1");
    assert_string_equal(absent(), "b:1");
    bench_restart(&bench);
    assert_string_equal(absent(), "b:1 c:1"); /* until the first list */
    LIST("a:1", "c:1");
    assert_string_equal(absent(), "b:1");
    compact();
    bench_restart(&bench);
    LIST("a:1", "c:1");
    assert_string_equal(absent(), "b:1");
    LIST("a:1", "b:1", "c:1");
    assert_string_equal(absent(), "");
}

static void an_empty_node_is_not_waited_for(void **state)
{
    (void)state;
    LIST("a:1", "b:1");
    LIST("a:1", "(b:1"); /* it drains */
    empty("b:1");
    LIST("a:1", "(b:1");
    LIST("a:1");
    assert_string_equal(absent(), "");
    bench_restart(&bench);
    LIST("a:1");
    assert_string_equal(absent(), "");
}

/* The list of this node may be older than the word of the one that leaves. */
static void a_late_list_does_not_mark_an_empty_node(void **state)
{
    (void)state;
    LIST("a:1", "b:1");
    empty("b:1");
    LIST("a:1", "b:1");
    LIST("a:1");
    assert_string_equal(absent(), "");
}

static void an_empty_node_that_gets_partitions_again_may_hold_jobs_again(void **state)
{
    (void)state;
    LIST("a:1", "b:1");
    LIST("a:1", "(b:1");
    empty("b:1");
    LIST("a:1", "b:1"); /* taken back without having been off the list */
    LIST("a:1");
    assert_string_equal(absent(), "b:1");
}

static void a_node_that_never_had_partitions_holds_nothing(void **state)
{
    struct rota_broker_node_view view;
    (void)state;
    LIST("a:1", "(b:1");
    LIST("a:1");
    assert_string_equal(absent(), "");
    for (size_t place = 0; rota_broker_next_node(bench.broker, &place, &view);)
        assert_string_equal(view.address.data[0] == 'a' ? "" : "told", "");
}

static void of_two_statements_the_later_one_counts(void **state)
{
    rota_time at = bench.now.wall;
    (void)state;
    hear("b:1", true, at);
    assert_string_equal(absent(), "b:1");
    hear("b:1", false, at - 1);
    hear("b:1", false, at); /* of two at one time: it may hold jobs */
    assert_string_equal(absent(), "b:1");
    hear("b:1", false, at + 1);
    assert_string_equal(absent(), "");
    hear("b:1", true, at + 1);
    assert_string_equal(absent(), "b:1");
    struct rota_broker_node_view future = {rota_str("b:1"), false, at + 48 * ROTA_HOUR};
    assert_int_equal(rota_broker_take_node(bench.broker, bench.now, &future, NULL),
                     ROTA_ERR_INVALID);
    struct rota_broker_node_view none = {rota_str(""), true, at};
    assert_int_equal(rota_broker_take_node(bench.broker, bench.now, &none, NULL), ROTA_ERR_INVALID);
}

/* Seen again, a node is filled by a later date than that of a word which was missed. */
static void a_late_report_does_not_mark_a_returned_node_as_empty(void **state)
{
    rota_time at;
    (void)state;
    LIST("a:1", "b:1");
    at = bench.now.wall; /* then it left in order, which another broker knows */
    bench_tick(&bench, ROTA_MIN);
    bench_restart(&bench);
    LIST("a:1", "b:1");
    LIST("a:1");
    hear("b:1", false, at);
    assert_string_equal(absent(), "b:1");
}

static void a_lost_node_is_forgotten_on_an_operators_command(void **state)
{
    (void)state;
    LIST("a:1", "b:1");
    LIST("a:1");
    assert_true(rota_broker_node_is_known(bench.broker, rota_str("b:1")));
    assert_false(rota_broker_node_is_known(bench.broker, rota_str("z:1")));
    assert_int_equal(
        rota_broker_node_forget(bench.broker, bench.now, rota_str("b:1"), &bench.number, NULL),
        ROTA_OK);
    assert_int_equal(bench.number, rota_broker_last_number(bench.broker)); /* its record */
    uint64_t number = bench.number;
    assert_int_equal(
        rota_broker_node_forget(bench.broker, bench.now, rota_str("z:1"), &bench.number, NULL),
        ROTA_OK);
    assert_int_equal(bench.number, number); /* there is none to wait for */
    bench_settle(&bench);
    assert_string_equal(absent(), "");
    bench_restart(&bench);
    assert_string_equal(absent(), "");
}

/* Also when its clock goes back between two lives. */
static void each_report_of_a_node_about_itself_has_a_later_date(void **state)
{
    struct rota_broker_node_view first, second, third, again;
    uint64_t hash = rota_broker_nodes_hash(bench.broker);
    (void)state;
    assert_int_equal(rota_broker_node_speak(bench.broker, bench.now, true, &first, NULL), ROTA_OK);
    assert_int_equal(rota_broker_node_speak(bench.broker, bench.now, true, &again, NULL), ROTA_OK);
    assert_true(first.may_hold && again.at == first.at);
    assert_int_equal(rota_broker_node_speak(bench.broker, bench.now, false, &second, NULL),
                     ROTA_OK);
    assert_true(!second.may_hold && second.at > first.at);
    assert_true(rota_broker_nodes_hash(bench.broker) != hash); /* as the others see it */
    bench_settle(&bench);
    bench.now.wall -= ROTA_HOUR;
    bench_restart(&bench);
    assert_int_equal(rota_broker_node_self(bench.broker, bench.now, rota_str("a:1"), NULL),
                     ROTA_OK);
    assert_int_equal(rota_broker_node_speak(bench.broker, bench.now, true, &third, NULL), ROTA_OK);
    assert_true(third.may_hold && third.at > second.at);
    assert_true(rota_broker_nodes_hash(bench.broker) == hash);
}

/* It had said that it holds none while the jobs were in flight to it. */
static void a_node_that_accepted_jobs_may_hold_them_despite_earlier_reports(void **state)
{
    struct rota_job_id name;
    (void)state;
    LIST("a:1", "b:1");
    bench_add(&bench, "x");
    assert_int_equal(rota_broker_partition_close(bench.broker, bench.now, rota_str("q"), 0, NULL),
                     ROTA_OK);
    assert_int_equal(rota_broker_chunk_begin(bench.broker, bench.now, rota_str("q"), 0,
                                             rota_str("b:1"), &name, NULL),
                     ROTA_OK);
    bench_settle(&bench);
    bench_tick(&bench, ROTA_SEC);
    empty("b:1");
    LIST("a:1");
    assert_string_equal(absent(), "");
    assert_int_equal(rota_broker_chunk_taken(bench.broker, bench.now, name, NULL), ROTA_OK);
    bench_settle(&bench);
    assert_string_equal(absent(), "b:1");
}

/* What this node reports about itself: whether it may hold jobs, and since when. */
static struct rota_broker_node_view own_report(void)
{
    struct rota_broker_node_view view = {0};
    for (size_t place = 0; rota_broker_next_node(bench.broker, &place, &view);)
        if (rota_str_is_equal(view.address, rota_str("a:1")))
            return view;
    fail_msg("the node does not know itself");
    return view;
}

static void a_node_corrects_wrong_memories_about_itself(void **state)
{
    struct rota_broker_node_view said;
    (void)state;
    assert_int_equal(rota_broker_node_speak(bench.broker, bench.now, false, &said, NULL), ROTA_OK);
    bench_settle(&bench);
    rota_time at = own_report().at;
    hear("a:1", true, at - 1); /* they have not heard it yet, */
    hear("a:1", false, at + ROTA_SEC);
    assert_int_equal(own_report().at, at); /* or agree */
    hear("a:1", true, at + ROTA_SEC);
    assert_false(own_report().may_hold);
    assert_true(own_report().at > at + ROTA_SEC);
    assert_int_equal(rota_broker_node_speak(bench.broker, bench.now, true, &said, NULL), ROTA_OK);
    bench_settle(&bench);
    at = own_report().at;
    hear("a:1", false, at);
    assert_true(own_report().may_hold);
    assert_true(own_report().at > at);
}

static void a_node_that_is_sent_jobs_may_hold_them(void **state)
{
    struct rota_job_id name;
    (void)state;
    LIST("a:1", "b:1");
    empty("b:1");
    LIST("a:1");
    bench_add(&bench, "x");
    assert_false(rota_broker_is_empty(bench.broker));
    assert_int_equal(rota_broker_partition_close(bench.broker, bench.now, rota_str("q"), 0, NULL),
                     ROTA_OK);
    assert_int_equal(rota_broker_chunk_begin(bench.broker, bench.now, rota_str("q"), 0,
                                             rota_str("b:1"), &name, NULL),
                     ROTA_OK);
    bench_settle(&bench);
    assert_string_equal(absent(), "b:1");
    assert_int_equal(rota_broker_chunk_taken(bench.broker, bench.now, name, NULL), ROTA_OK);
    assert_false(rota_broker_is_empty(bench.broker)); /* the other is still to be told */
    assert_int_equal(rota_broker_chunk_end(bench.broker, bench.now, name, NULL), ROTA_OK);
    bench_settle(&bench);
    assert_true(rota_broker_is_empty(bench.broker));
    assert_string_equal(absent(), "b:1");
}

static void a_journal_that_moves_to_another_address_leaves_nothing_at_the_old_one(void **state)
{
    (void)state;
    LIST("a:1", "b:1");
    bench_restart(&bench);
    assert_int_equal(rota_broker_node_self(bench.broker, bench.now, rota_str("a:2"), NULL),
                     ROTA_OK);
    bench_settle(&bench);
    LIST("a:1", "a:2", "b:1"); /* its former row is not out of date yet */
    LIST("a:2", "b:1");
    assert_string_equal(absent(), "");
    LIST("a:1", "a:2", "b:1"); /* somebody else has that address now */
    LIST("a:2", "b:1");
    assert_string_equal(absent(), "a:1");
    hear("a:2", false, bench.now.wall); /* of ourselves we know best */
    LIST("b:1");
    assert_string_equal(absent(), "a:1");
}

static void jobs_in_memory_are_gone_with_their_node(void **state)
{
    (void)state;
    bench_deinit(&bench);
    bench.options.is_volatile = true;
    bench_init(&bench);
    LIST("a:1", "b:1");
    LIST("a:1");
    assert_string_equal(absent(), "");
    assert_string_equal(absent_for(true), "b:1");
    bench_tick(&bench, ROTA_BROKER_NODE_VOLATILE - ROTA_MIN);
    assert_string_equal(absent_for(true), "b:1");
    bench_tick(&bench, ROTA_MIN);
    assert_string_equal(absent_for(true), "");
}

static void as_many_nodes_are_remembered_as_promised(void **state)
{
    char name[32];
    (void)state;
    LIST("a:1", "b:1");
    empty("b:1");
    LIST("a:1");
    rota_broker_nodes_begin(bench.broker, bench.now);
    for (int i = 0; i < ROTA_BROKER_NODES_MAX - 1; i++) { /* one of them in place of b:1 */
        snprintf(name, sizeof name, "n%d:1", i);
        assert_int_equal(rota_broker_node_listed(bench.broker, rota_str(name), true, NULL),
                         ROTA_OK);
    }
    assert_int_equal(rota_broker_node_listed(bench.broker, rota_str("one:1"), true, NULL),
                     ROTA_ERR_LIMIT);
    rota_broker_nodes_end(bench.broker);
    bench_settle(&bench);
    compact();
    bench_restart(&bench);
    LIST("n0:1");
    size_t n = 0;
    struct rota_str address;
    for (size_t place = 0;
         rota_broker_next_absent(bench.broker, bench.now.boot, false, &place, &address);)
        n++;
    assert_int_equal(n, ROTA_BROKER_NODES_MAX - 2); /* not we, and not n0:1 */
}

static void an_invalid_record_is_refused(void **state)
{
    struct rota_work_record record = {
        .type = ROTA_WORK_NODE, .key = rota_str("b:1"), .weight = ROTA_BROKER_NODE_SELF + 1};
    (void)state;
    rota_broker_free(bench.broker);
    bench_new(&bench);
    record.number = 1;
    assert_int_equal(rota_broker_replay(bench.broker, &record, NULL), ROTA_ERR_INVALID);
    record.weight = ROTA_BROKER_NODE_HOLDS;
    record.key = rota_str("");
    record.number = 2;
    assert_int_equal(rota_broker_replay(bench.broker, &record, NULL), ROTA_ERR_INVALID);
}

/* Who holds nothing and then adopts jobs may hold some again, from a later moment on. */
static void node_that_accepts_jobs_revokes_its_report_of_being_empty(void **state)
{
    struct rota_broker_node_view said, view = {0};
    (void)state;
    assert_int_equal(rota_broker_node_speak(bench.broker, bench.now, false, &said, NULL), ROTA_OK);
    rota_time empty_at = said.at;
    bench_settle(&bench);
    struct rota_job_spec spec = {
        .id = {1 << 16 | 0x4000, 7}, .queue = rota_str("q"), .payload = rota_str("x")};
    struct rota_work_record job = {
        .type = ROTA_WORK_JOB, .id = spec.id, .spec = &spec, .at = bench.now.wall};
    const struct rota_job_id name = {3, 4};
    uint64_t number;
    assert_int_equal(rota_broker_adopting(bench.broker, bench.now, name, NULL), ROTA_OK);
    assert_int_equal(rota_broker_adopt(bench.broker, bench.now, &job, &number, NULL), ROTA_OK);
    assert_int_equal(rota_broker_adopted(bench.broker, bench.now, name, &number, NULL), ROTA_OK);
    bench_settle(&bench);
    for (size_t place = 0; rota_broker_next_node(bench.broker, &place, &view);)
        if (rota_str_is_equal(view.address, rota_str("a:1")))
            break;
    assert_true(view.may_hold);
    assert_true(view.at > empty_at);
}

static void node_that_has_been_empty_for_longest_makes_room(void **state)
{
    char name[32];
    struct rota_broker_node_view view;
    bool has[3] = {false};
    (void)state;
    LIST("a:1", "b:1", "c:1", "d:1");
    empty("c:1");
    empty("b:1");
    empty("d:1");
    LIST("a:1");
    rota_broker_nodes_begin(bench.broker, bench.now);
    for (int i = 0; i < ROTA_BROKER_NODES_MAX - 3; i++) {
        snprintf(name, sizeof name, "n%d:1", i);
        assert_int_equal(rota_broker_node_listed(bench.broker, rota_str(name), true, NULL),
                         ROTA_OK);
    }
    rota_broker_nodes_end(bench.broker);
    bench_settle(&bench);
    for (size_t place = 0; rota_broker_next_node(bench.broker, &place, &view);)
        for (size_t i = 0; i < 3; i++)
            has[i] |= rota_str_is_equal(view.address, rota_str_of("b:1c:1d:1" + 3 * i, 3));
    assert_true(has[0] && !has[1] && has[2]);
}

static void statements_may_be_at_most_a_day_ahead(void **state)
{
    static const struct {
        rota_time ahead;
        enum rota_code code;
    } CASES[] = {{24 * ROTA_HOUR, ROTA_OK},
                 {24 * ROTA_HOUR + 1, ROTA_ERR_INVALID},
                 {-BENCH_WALL, ROTA_ERR_INVALID},
                 {1 - BENCH_WALL, ROTA_OK}};
    (void)state;
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        struct rota_broker_node_view said = {rota_str("b:1"), true, BENCH_WALL + CASES[i].ahead};
        bench.now.wall = BENCH_WALL;
        assert_int_equal(rota_broker_take_node(bench.broker, bench.now, &said, NULL),
                         CASES[i].code);
        bench_settle(&bench);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

/* The row of a member is seen that is not live. */
static void was_alive(const char *node, rota_time at)
{
    assert_int_equal(rota_broker_node_was_alive(bench.broker, bench.now, rota_str(node), at, NULL),
                     ROTA_OK);
    bench_settle(&bench);
}

static void a_node_that_was_alive_after_it_was_empty_may_hold_jobs(void **state)
{
    (void)state;
    LIST("a:1", "b:1", "c:1");
    LIST("a:1");
    rota_time empty_at = bench.now.wall;
    empty("b:1");
    empty("c:1");
    assert_string_equal(absent(), "");
    was_alive("b:1", empty_at); /* when it left */
    was_alive("z:1", bench.now.wall);
    was_alive("a:1", bench.now.wall);
    assert_string_equal(absent(), "");
    was_alive("b:1", empty_at + 1);
    assert_string_equal(absent(), "b:1");
    bench_restart(&bench);
    LIST("a:1");
    assert_string_equal(absent(), "b:1");
    assert_int_equal(
        rota_broker_node_forget(bench.broker, bench.now, rota_str("b:1"), &bench.number, NULL),
        ROTA_OK);
    was_alive("b:1", empty_at + 1); /* the same row */
    assert_string_equal(absent(), "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_node_that_was_placed_may_hold_jobs_when_it_is_down),
        TEST(an_empty_node_is_not_waited_for),
        TEST(a_late_list_does_not_mark_an_empty_node),
        TEST(an_empty_node_that_gets_partitions_again_may_hold_jobs_again),
        TEST(a_node_that_never_had_partitions_holds_nothing),
        TEST(of_two_statements_the_later_one_counts),
        TEST(a_late_report_does_not_mark_a_returned_node_as_empty),
        TEST(a_lost_node_is_forgotten_on_an_operators_command),
        TEST(each_report_of_a_node_about_itself_has_a_later_date),
        TEST(a_node_that_accepted_jobs_may_hold_them_despite_earlier_reports),
        TEST(a_node_corrects_wrong_memories_about_itself),
        TEST(a_node_that_is_sent_jobs_may_hold_them),
        TEST(a_journal_that_moves_to_another_address_leaves_nothing_at_the_old_one),
        TEST(jobs_in_memory_are_gone_with_their_node),
        TEST(as_many_nodes_are_remembered_as_promised),
        TEST(an_invalid_record_is_refused),
        TEST(node_that_accepts_jobs_revokes_its_report_of_being_empty),
        TEST(node_that_has_been_empty_for_longest_makes_room),
        TEST(statements_may_be_at_most_a_day_ahead),
        TEST(a_node_that_was_alive_after_it_was_empty_may_hold_jobs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
