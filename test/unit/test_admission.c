#include "core/call/admission.h"
#include "vectors.h"

enum { TICKETS = 8 };

static struct rota_admission admission;
static struct rota_admission_ticket tickets[TICKETS];

static void begin(size_t running_max, size_t waiting_max)
{
    rota_admission_init(&admission, running_max, waiting_max);
    for (size_t i = 0; i < TICKETS; i++)
        tickets[i] = (struct rota_admission_ticket){.deadline = ROTA_TIME_NEVER};
}

static enum rota_admission_place enter(size_t i, rota_time now)
{
    return rota_admission_enter(&admission, now, true, &tickets[i]);
}

static void without_a_bound_all_run(void **state)
{
    (void)state;
    begin(0, 0);
    for (size_t i = 0; i < TICKETS; i++)
        assert_int_equal(enter(i, 0), ROTA_ADMISSION_RUNNING);
    assert_int_equal(admission.n_running, TICKETS);
    for (size_t i = 0; i < TICKETS; i++)
        rota_admission_leave(&admission, &tickets[i]);
    assert_int_equal(admission.n_running, 0);
}

static void limits_bound_running_and_waiting_calls(void **state)
{
    (void)state;
    begin(2, 3);
    for (size_t i = 0; i < TICKETS; i++)
        assert_int_equal(enter(i, 0), i < 2   ? ROTA_ADMISSION_RUNNING
                                      : i < 5 ? ROTA_ADMISSION_WAITING
                                              : ROTA_ADMISSION_OUT);
    assert_null(rota_admission_next(&admission, 0));
    assert_int_equal(admission.n_running, 2);
    assert_int_equal(admission.n_waiting, 3);
    rota_admission_leave(&admission, &tickets[7]); /* was never in */
    assert_int_equal(admission.n_running, 2);
}

static void first_come_is_first_served(void **state)
{
    (void)state;
    begin(1, 4);
    for (size_t i = 0; i < 5; i++)
        enter(i, 0);
    for (size_t i = 0; i < 4; i++) {
        rota_admission_leave(&admission, &tickets[i]);
        assert_ptr_equal(rota_admission_next(&admission, 0), &tickets[i + 1]);
        assert_int_equal(tickets[i + 1].place, ROTA_ADMISSION_RUNNING);
        assert_null(rota_admission_next(&admission, 0));
    }
}

static void no_call_overtakes_waiting_ones(void **state)
{
    (void)state;
    begin(1, 4);
    enter(0, 0);
    enter(1, 0);
    rota_admission_leave(&admission, &tickets[0]);
    assert_true(rota_admission_has_next(&admission));
    assert_int_equal(enter(2, 0), ROTA_ADMISSION_WAITING); /* though a place is free */
    assert_ptr_equal(rota_admission_next(&admission, 0), &tickets[1]);
    assert_false(rota_admission_has_next(&admission));
}

static void a_late_call_leaves_without_running(void **state)
{
    (void)state;
    begin(1, 4);
    tickets[1].deadline = 10;
    tickets[2].deadline = 11;
    for (size_t i = 0; i < 4; i++)
        enter(i, 0);
    rota_admission_leave(&admission, &tickets[0]);
    assert_ptr_equal(rota_admission_next(&admission, 10), &tickets[1]);
    assert_int_equal(tickets[1].place, ROTA_ADMISSION_OUT);
    assert_ptr_equal(rota_admission_next(&admission, 10), &tickets[2]);
    assert_int_equal(tickets[2].place, ROTA_ADMISSION_RUNNING);
    assert_null(rota_admission_next(&admission, 10));
    assert_int_equal(admission.n_running, 1);
    assert_int_equal(admission.n_waiting, 1);
}

static void a_call_that_gives_up_makes_room(void **state)
{
    (void)state;
    begin(1, 2);
    for (size_t i = 0; i < 3; i++)
        enter(i, 0);
    assert_int_equal(enter(3, 0), ROTA_ADMISSION_OUT);
    rota_admission_leave(&admission, &tickets[1]);
    assert_int_equal(enter(3, 0), ROTA_ADMISSION_WAITING);
    rota_admission_leave(&admission, &tickets[0]);
    assert_ptr_equal(rota_admission_next(&admission, 0), &tickets[2]);
}

static void a_call_that_cannot_wait_runs_or_is_refused(void **state)
{
    (void)state;
    begin(1, 4);
    assert_int_equal(rota_admission_enter(&admission, 0, false, &tickets[0]),
                     ROTA_ADMISSION_RUNNING);
    assert_int_equal(rota_admission_enter(&admission, 0, false, &tickets[1]), ROTA_ADMISSION_OUT);
    enter(2, 0);
    rota_admission_leave(&admission, &tickets[0]); /* a place, but not for who comes now */
    assert_int_equal(rota_admission_enter(&admission, 0, false, &tickets[1]), ROTA_ADMISSION_OUT);
    assert_int_equal(admission.n_running, 0);
    assert_int_equal(admission.n_waiting, 1);
}

static void cost_distinguishes_waiting_from_working(void **state)
{
    (void)state;
    begin(1, 4);
    enter(0, 0);
    enter(1, 100 * ROTA_USEC);
    enter(2, 0);
    rota_admission_leave(&admission, &tickets[0]);
    rota_admission_next(&admission, 700 * ROTA_USEC);
    struct rota_cost cost = rota_admission_cost(&admission, 1000 * ROTA_USEC, &tickets[1]);
    assert_int_equal(cost.response_us, 900);
    assert_int_equal(cost.service_us, 300);
    assert_int_equal(cost.waiting, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_a_bound_all_run),
        cmocka_unit_test(limits_bound_running_and_waiting_calls),
        cmocka_unit_test(first_come_is_first_served),
        cmocka_unit_test(no_call_overtakes_waiting_ones),
        cmocka_unit_test(a_late_call_leaves_without_running),
        cmocka_unit_test(a_call_that_gives_up_makes_room),
        cmocka_unit_test(a_call_that_cannot_wait_runs_or_is_refused),
        cmocka_unit_test(cost_distinguishes_waiting_from_working),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
