/* When a node reads settings of queues, begins, and changes one. */
#include "core/work/cluster/settings_fsm.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define START    (100 * ROTA_SEC)
#define INTERVAL ROTA_SEC

enum { A_COPY = true, NO_COPY = false };

static struct rota_settings_fsm fsm;
static rota_time now;

static void begin(bool has_copy)
{
    now = START;
    rota_settings_fsm_init(&fsm, now, INTERVAL, has_copy);
}

static struct rota_settings_actions step(struct rota_settings_event event)
{
    return rota_settings_fsm_step(&fsm, now, &event);
}

static struct rota_settings_actions happen(enum rota_settings_event_type type)
{
    return step((struct rota_settings_event){.type = type});
}

static struct rota_settings_actions hear_read(uint64_t version)
{
    return step((struct rota_settings_event){.type = ROTA_SETTINGS_READ, .version = version});
}

static struct rota_settings_actions hear_written(uint64_t previous, uint64_t version)
{
    return step((struct rota_settings_event){.type = ROTA_SETTINGS_WRITTEN,
                                             .previous = previous,
                                             .version = version,
                                             .is_applied = true});
}

static struct rota_settings_actions want(struct rota_settings_change *change)
{
    return step((struct rota_settings_event){.type = ROTA_SETTINGS_CHANGE, .change = change});
}

/* It has read all rows, up to version 7. */
static void be_up_to_date(void)
{
    begin(NO_COPY);
    assert_true(happen(ROTA_SETTINGS_TICK).is_all);
    assert_true(hear_read(7).begin);
}

static void a_new_node_begins_when_it_has_read_and_not_before(void **state)
{
    (void)state;
    begin(NO_COPY);
    struct rota_settings_actions todo = happen(ROTA_SETTINGS_TICK);
    assert_true(todo.read && todo.is_all && !todo.begin);
    assert_false(happen(ROTA_SETTINGS_FAILED).begin);
    now += ROTA_HOUR;
    todo = happen(ROTA_SETTINGS_TICK);
    assert_true(todo.read && todo.is_all && !todo.begin);
    assert_true(hear_read(0).begin); /* there are none */
    assert_false(hear_read(0).begin);
}

static void a_node_with_a_copy_begins_when_the_store_is_unreachable(void **state)
{
    (void)state;
    begin(A_COPY);
    assert_false(happen(ROTA_SETTINGS_TICK).begin);
    assert_true(happen(ROTA_SETTINGS_FAILED).begin);
    begin(A_COPY); /* or does not answer */
    assert_false(happen(ROTA_SETTINGS_TICK).begin);
    assert_int_equal(rota_settings_fsm_deadline(&fsm), START + ROTA_SETTINGS_START);
    now = START + ROTA_SETTINGS_START;
    assert_true(happen(ROTA_SETTINGS_TICK).begin);
}

static void rows_are_read_at_every_interval_from_the_last_version_on(void **state)
{
    (void)state;
    be_up_to_date();
    assert_int_equal(rota_settings_fsm_deadline(&fsm), now + INTERVAL);
    assert_false(happen(ROTA_SETTINGS_TICK).read);
    now += INTERVAL;
    struct rota_settings_actions todo = happen(ROTA_SETTINGS_TICK);
    assert_true(todo.read && !todo.is_all);
    assert_int_equal(todo.from, 7);
    assert_false(happen(ROTA_SETTINGS_TICK).read); /* one at a time */
}

static void a_hint_makes_it_read_at_once(void **state)
{
    const struct rota_settings_event older = {.type = ROTA_SETTINGS_HINT, .version = 7};
    const struct rota_settings_event later = {.type = ROTA_SETTINGS_HINT, .version = 9};
    (void)state;
    be_up_to_date();
    assert_false(step(older).read);
    assert_true(step(later).read);
    assert_false(step(later).read);
    assert_true(hear_read(8).read);  /* the hint came after the rows were read */
    assert_false(hear_read(8).read); /* a hint that is not true is no reason to go on */
}

static void all_rows_are_read_now_and_then_and_when_versions_are_lower(void **state)
{
    (void)state;
    be_up_to_date();
    now += ROTA_SETTINGS_ALL;
    assert_true(happen(ROTA_SETTINGS_TICK).is_all);
    assert_false(hear_read(9).read);
    now += INTERVAL;
    assert_false(happen(ROTA_SETTINGS_TICK).is_all);
    struct rota_settings_actions todo = hear_read(5); /* the store was restored */
    assert_true(todo.read && todo.is_all);
    assert_false(hear_read(5).read);
    now += INTERVAL;
    assert_int_equal(happen(ROTA_SETTINGS_TICK).from, 5);
}

static void a_change_is_done_when_it_is_written(void **state)
{
    struct rota_settings_change first, second;
    (void)state;
    be_up_to_date();
    struct rota_settings_actions todo = want(&first);
    assert_ptr_equal(todo.write, &first);
    assert_int_equal(todo.known, 7);
    assert_null(want(&second).write);
    todo = hear_written(7, 8);
    assert_ptr_equal(todo.ended, &first);
    assert_int_equal(todo.how, ROTA_SETTINGS_DONE);
    assert_ptr_equal(todo.write, &second);
    assert_int_equal(todo.known, 8);
    todo = hear_written(9, 10); /* another node has written 9 */
    assert_ptr_equal(todo.ended, &second);
    assert_true(todo.read);
    assert_int_equal(todo.from, 8);
}

static void a_change_is_made_again_after_a_conflict(void **state)
{
    struct rota_settings_change change;
    (void)state;
    be_up_to_date();
    want(&change);
    struct rota_settings_actions todo = happen(ROTA_SETTINGS_CONFLICT);
    assert_true(todo.read && !todo.write && !todo.ended);
    todo = hear_read(9);
    assert_ptr_equal(todo.write, &change);
    assert_int_equal(todo.known, 9);
}

static void a_change_ends_when_the_store_stays_away(void **state)
{
    struct rota_settings_change change;
    (void)state;
    be_up_to_date();
    want(&change);
    assert_null(happen(ROTA_SETTINGS_FAILED).ended);
    now += INTERVAL;
    assert_true(happen(ROTA_SETTINGS_TICK).read);
    assert_false(happen(ROTA_SETTINGS_FAILED).write); /* nothing is written unread */
    now = START + ROTA_SETTINGS_PATIENCE;
    struct rota_settings_actions todo = happen(ROTA_SETTINGS_TICK);
    assert_ptr_equal(todo.ended, &change);
    assert_int_equal(todo.how, ROTA_SETTINGS_UNREACHABLE);
}

static void a_write_without_an_answer_is_repeated_or_of_unknown_outcome(void **state)
{
    struct rota_settings_change change;
    (void)state;
    be_up_to_date();
    want(&change);
    assert_null(happen(ROTA_SETTINGS_LOST).write);
    now += INTERVAL;
    assert_true(happen(ROTA_SETTINGS_TICK).read);
    assert_ptr_equal(hear_read(8).write, &change);
    happen(ROTA_SETTINGS_FAILED);
    now = START + ROTA_SETTINGS_PATIENCE;
    struct rota_settings_actions todo = happen(ROTA_SETTINGS_TICK);
    assert_ptr_equal(todo.ended, &change);
    assert_int_equal(todo.how, ROTA_SETTINGS_UNKNOWN);
}

static void a_refused_change_ends_and_the_next_one_begins(void **state)
{
    struct rota_settings_change first, second;
    (void)state;
    be_up_to_date();
    want(&first);
    want(&second);
    struct rota_settings_actions todo = happen(ROTA_SETTINGS_REFUSED);
    assert_ptr_equal(todo.ended, &first);
    assert_int_equal(todo.how, ROTA_SETTINGS_INVALID);
    assert_ptr_equal(todo.write, &second);
}

static void a_change_that_goes_first_is_written_before_those_that_wait(void **state)
{
    struct rota_settings_change first, second, third;
    (void)state;
    begin(NO_COPY);
    happen(ROTA_SETTINGS_TICK);
    want(&second);
    step((struct rota_settings_event){
        .type = ROTA_SETTINGS_CHANGE, .change = &first, .is_first = true});
    assert_ptr_equal(hear_read(7).write, &first);
    step((struct rota_settings_event){
        .type = ROTA_SETTINGS_CHANGE, .change = &third, .is_first = true}); /* too late */
    assert_ptr_equal(hear_written(7, 8).write, &second);
    assert_ptr_equal(hear_written(8, 9).write, &third);
}

static void changes_wait_up_to_a_bound_and_can_be_dropped(void **state)
{
    static struct rota_settings_change changes[ROTA_SETTINGS_CHANGES_MAX];
    (void)state;
    begin(NO_COPY);
    for (size_t i = 0; i < ROTA_SETTINGS_CHANGES_MAX; i++) {
        assert_true(rota_settings_fsm_has_room(&fsm));
        assert_null(want(&changes[i]).write);
    }
    assert_false(rota_settings_fsm_has_room(&fsm));
    for (size_t i = 0; i < ROTA_SETTINGS_CHANGES_MAX; i++)
        assert_ptr_equal(rota_settings_fsm_drop(&fsm), &changes[i]);
    assert_null(rota_settings_fsm_drop(&fsm));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_new_node_begins_when_it_has_read_and_not_before),
        cmocka_unit_test(a_node_with_a_copy_begins_when_the_store_is_unreachable),
        cmocka_unit_test(rows_are_read_at_every_interval_from_the_last_version_on),
        cmocka_unit_test(a_hint_makes_it_read_at_once),
        cmocka_unit_test(all_rows_are_read_now_and_then_and_when_versions_are_lower),
        cmocka_unit_test(a_change_is_done_when_it_is_written),
        cmocka_unit_test(a_change_is_made_again_after_a_conflict),
        cmocka_unit_test(a_change_ends_when_the_store_stays_away),
        cmocka_unit_test(a_write_without_an_answer_is_repeated_or_of_unknown_outcome),
        cmocka_unit_test(a_refused_change_ends_and_the_next_one_begins),
        cmocka_unit_test(a_change_that_goes_first_is_written_before_those_that_wait),
        cmocka_unit_test(changes_wait_up_to_a_bound_and_can_be_dropped),
    };
    return cmocka_run_group_tests_name("settings_fsm", tests, NULL, NULL);
}
