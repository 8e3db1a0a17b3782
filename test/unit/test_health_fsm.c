/* The rows L10 .. L13 are those that the original's own tests check; their times
 * are bounds. */
#include "core/call/shards/health_fsm.h"
#include "vectors.h"

enum behaviour { ANSWERS_WELL, ANSWERS_BADLY, HANGS };

enum { NODES = 8 };

/* Nodes 1 .. that answer checks as told, and what became of them. */
struct ward {
    struct rota_health_fsm fsm;
    rota_time now;
    enum behaviour behaviour[NODES + 1];
    enum rota_health_state state[NODES + 1];
    int n_asked[NODES + 1], n_told[NODES + 1];
};

static void ward_init(struct ward *ward, uint64_t n)
{
    memset(ward, 0, sizeof *ward);
    ward->now = 50 * ROTA_SEC;
    rota_health_fsm_init(&ward->fsm, &(struct rota_health_options){.seed = 5});
    for (uint64_t node = 1; node <= n; node++)
        assert_int_equal(rota_health_fsm_add(&ward->fsm, ward->now, node, NULL), ROTA_OK);
}

static void step(struct ward *ward, struct rota_health_event event)
{
    struct rota_health_actions todo = rota_health_fsm_step(&ward->fsm, ward->now, &event);
    if (todo.tell) {
        ward->state[todo.node] = todo.state;
        ward->n_told[todo.node]++;
    }
    if (!todo.ask)
        return;
    ward->n_asked[todo.node]++;
    if (ward->behaviour[todo.node] == HANGS)
        return;
    step(ward,
         (struct rota_health_event){.type = ROTA_HEALTH_ANSWERED,
                                    .node = todo.node,
                                    .check = todo.check,
                                    .is_healthy = ward->behaviour[todo.node] == ANSWERS_WELL});
}

static void pass(struct ward *ward, rota_time span)
{
    rota_time until = ward->now + span;
    while (rota_health_fsm_deadline(&ward->fsm) <= until) {
        if (rota_health_fsm_deadline(&ward->fsm) > ward->now)
            ward->now = rota_health_fsm_deadline(&ward->fsm);
        step(ward, (struct rota_health_event){.type = ROTA_HEALTH_TICK});
    }
    ward->now = until;
}

static void heard(struct ward *ward, uint64_t node)
{
    step(ward, (struct rota_health_event){.type = ROTA_HEALTH_HEARD, .node = node});
}

static void a_healthy_node_is_asked_once_per_interval(void **state)
{
    struct ward ward;
    (void)state;
    ward_init(&ward, 3);
    pass(&ward, 10 * ROTA_SEC);
    for (int node = 1; node <= 3; node++) {
        assert_in_range(ward.n_asked[node], 10, 11);
        assert_int_equal(ward.n_told[node], 0);
    }
    rota_health_fsm_deinit(&ward.fsm);
}

static void a_node_that_answers_calls_is_not_asked(void **state)
{
    struct ward ward;
    (void)state;
    ward_init(&ward, 1);
    for (int i = 0; i < 20; i++) {
        heard(&ward, 1);
        pass(&ward, ROTA_SEC / 2);
    }
    assert_int_equal(ward.n_asked[1], 0);
    pass(&ward, 3 * ROTA_SEC);
    assert_in_range(ward.n_asked[1], 2, 3);
    rota_health_fsm_deinit(&ward.fsm);
}

static void row_l10_a_success_clears_the_flag_of_failures(void **state)
{
    struct ward ward;
    (void)state;
    ward_init(&ward, 1);
    ward.behaviour[1] = ANSWERS_BADLY;
    pass(&ward, 4 * ROTA_SEC);
    assert_int_equal(ward.state[1], ROTA_HEALTH_UNAVAILABLE);
    heard(&ward, 1); /* a call was answered */
    assert_int_equal(ward.state[1], ROTA_HEALTH_WELL);

    pass(&ward, 5 * ROTA_SEC);
    assert_int_not_equal(ward.state[1], ROTA_HEALTH_WELL);
    ward.behaviour[1] = ANSWERS_WELL;
    pass(&ward, 5 * ROTA_SEC); /* a check was */
    assert_int_equal(ward.state[1], ROTA_HEALTH_WELL);
    rota_health_fsm_deinit(&ward.fsm);
}

static void row_l11_a_node_that_can_t_be_reached_is_dropped(void **state)
{
    struct ward ward;
    (void)state;
    ward_init(&ward, 1);
    ward.behaviour[1] = HANGS;
    pass(&ward, 30 * ROTA_SEC);
    assert_int_equal(ward.state[1], ROTA_HEALTH_DROPPED);
    assert_int_equal(ward.n_told[1], 2); /* unavailable first */
    rota_health_fsm_deinit(&ward.fsm);
}

static void row_l12_three_failures_flag_and_one_success_clears(void **state)
{
    struct ward ward;
    (void)state;
    ward_init(&ward, 1);
    ward.behaviour[1] = ANSWERS_BADLY;
    while (ward.n_asked[1] < 2)
        pass(&ward, 100 * ROTA_MSEC);
    assert_int_equal(ward.n_told[1], 0);
    while (ward.n_asked[1] < 3)
        pass(&ward, 100 * ROTA_MSEC);
    assert_int_equal(ward.state[1], ROTA_HEALTH_UNAVAILABLE);
    ward.behaviour[1] = ANSWERS_WELL;
    pass(&ward, ROTA_SEC);
    assert_int_equal(ward.state[1], ROTA_HEALTH_WELL);
    rota_health_fsm_deinit(&ward.fsm);
}

static void row_l13_a_node_that_stays_unhealthy_is_flagged_then_dropped(void **state)
{
    struct ward ward;
    (void)state;
    ward_init(&ward, 1);
    ward.behaviour[1] = ANSWERS_BADLY;
    pass(&ward, 3 * ROTA_SEC + 1);
    assert_int_equal(ward.state[1], ROTA_HEALTH_UNAVAILABLE);
    pass(&ward, 7 * ROTA_SEC);
    assert_int_equal(ward.state[1], ROTA_HEALTH_DROPPED);
    rota_health_fsm_deinit(&ward.fsm);
}

static void a_dropped_node_is_asked_less_and_less_but_forever(void **state)
{
    struct ward ward;
    (void)state;
    ward_init(&ward, 1);
    ward.behaviour[1] = ANSWERS_BADLY;
    pass(&ward, 10 * ROTA_MIN);
    int before = ward.n_asked[1];
    pass(&ward, ROTA_HOUR);
    assert_in_range(ward.n_asked[1] - before, 120, 240); /* every 15 to 30 s */
    ward.behaviour[1] = ANSWERS_WELL;
    pass(&ward, 30 * ROTA_SEC);
    assert_int_equal(ward.state[1], ROTA_HEALTH_WELL);
    before = ward.n_asked[1];
    pass(&ward, 10 * ROTA_SEC);
    assert_in_range(ward.n_asked[1] - before, 9, 11); /* as often as any again */
    rota_health_fsm_deinit(&ward.fsm);
}

static void a_hanging_node_delays_no_other(void **state)
{
    struct ward ward;
    (void)state;
    ward_init(&ward, 5);
    ward.behaviour[1] = ward.behaviour[2] = HANGS;
    ward.behaviour[3] = ANSWERS_BADLY;
    pass(&ward, 3 * ROTA_SEC);
    assert_int_equal(ward.state[3], ROTA_HEALTH_UNAVAILABLE);
    pass(&ward, 2 * ROTA_SEC);
    assert_in_range(ward.n_asked[4], 5, 6);
    assert_in_range(ward.n_asked[5], 5, 6);
    assert_int_equal(ward.n_asked[1], 2); /* again when the timeout is over */
    rota_health_fsm_deinit(&ward.fsm);
}

static void trap_b_failures_go_with_the_listing(void **state)
{
    struct ward ward;
    enum rota_health_state health;
    uint32_t n_failures;
    (void)state;
    ward_init(&ward, 1);
    ward.behaviour[1] = ANSWERS_BADLY;
    pass(&ward, 10 * ROTA_SEC);
    assert_int_equal(ward.state[1], ROTA_HEALTH_DROPPED);
    rota_health_fsm_remove(&ward.fsm, 1);
    assert_false(rota_health_fsm_look(&ward.fsm, 1, &health, &n_failures));
    assert_int_equal(rota_health_fsm_deadline(&ward.fsm), ROTA_TIME_NEVER);

    assert_int_equal(rota_health_fsm_add(&ward.fsm, ward.now, 1, NULL), ROTA_OK);
    ward.n_told[1] = 0;
    pass(&ward, 3 * ROTA_SEC + 1);
    assert_int_equal(ward.state[1], ROTA_HEALTH_UNAVAILABLE); /* before it is dropped again */
    assert_int_equal(ward.n_told[1], 1);
    rota_health_fsm_deinit(&ward.fsm);
}

static void an_answer_that_comes_too_late_does_nothing(void **state)
{
    struct ward ward;
    enum rota_health_state health;
    uint32_t n_failures;
    (void)state;
    ward_init(&ward, 1);
    ward.behaviour[1] = HANGS;
    pass(&ward, 5 * ROTA_SEC);
    struct rota_health_event late = {
        .type = ROTA_HEALTH_ANSWERED, .node = 1, .check = 1, .is_healthy = true};
    step(&ward, late);
    late.check = 0;
    step(&ward, late);
    late.node = 77;
    step(&ward, late);
    heard(&ward, 77);
    assert_true(rota_health_fsm_look(&ward.fsm, 1, &health, &n_failures));
    assert_int_equal(n_failures, 1);
    rota_health_fsm_deinit(&ward.fsm);
}

static void the_list_is_bounded(void **state)
{
    struct rota_health_fsm fsm;
    (void)state;
    rota_health_fsm_init(&fsm, &(struct rota_health_options){0});
    for (uint64_t node = 0; node < ROTA_HEALTH_NODES_MAX; node++)
        assert_int_equal(rota_health_fsm_add(&fsm, 0, node, NULL), ROTA_OK);
    assert_int_equal(rota_health_fsm_add(&fsm, 0, 7, NULL), ROTA_OK); /* is there */
    assert_int_equal(rota_health_fsm_add(&fsm, 0, UINT64_MAX, NULL), ROTA_ERR_LIMIT);
    rota_health_fsm_deinit(&fsm);
}

static void thresholds_and_intervals_are_in_order(void **state)
{
    struct rota_health_fsm fsm;
    (void)state;
    rota_health_fsm_init(&fsm, &(struct rota_health_options){0});
    assert_int_equal(fsm.options.interval, ROTA_SEC);
    assert_int_equal(fsm.options.timeout, 3 * ROTA_SEC);
    assert_int_equal(fsm.options.n_unavailable, 3);
    assert_int_equal(fsm.options.n_dropped, 5);
    assert_int_equal(fsm.options.interval_max, 30 * ROTA_SEC);
    rota_health_fsm_deinit(&fsm);
    rota_health_fsm_init(&fsm, &(struct rota_health_options){.interval = ROTA_MIN,
                                                             .timeout = ROTA_MSEC,
                                                             .n_unavailable = 9,
                                                             .n_dropped = 2,
                                                             .interval_max = ROTA_SEC});
    assert_int_equal(fsm.options.interval, ROTA_MIN);
    assert_int_equal(fsm.options.timeout, ROTA_MSEC);
    assert_int_equal(fsm.options.n_unavailable, 9);
    assert_int_equal(fsm.options.n_dropped, 9);
    assert_int_equal(fsm.options.interval_max, ROTA_MIN);
    rota_health_fsm_deinit(&fsm);
}

static void nodes_that_are_not_listed_change_nothing(void **state)
{
    struct ward ward;
    enum rota_health_state health;
    uint32_t n_failures;
    (void)state;
    ward_init(&ward, 1);
    rota_health_fsm_remove(&ward.fsm, 7);
    heard(&ward, 7);
    step(&ward, (struct rota_health_event){
                    .type = ROTA_HEALTH_ANSWERED, .node = 7, .check = 1, .is_healthy = true});
    assert_false(rota_health_fsm_look(&ward.fsm, 7, &health, &n_failures));
    ward.now = rota_health_fsm_deadline(&ward.fsm) - 1; /* a tick that is early asks nothing */
    step(&ward, (struct rota_health_event){.type = ROTA_HEALTH_TICK});
    assert_int_equal(ward.n_asked[1], 0);
    ward.now++;
    step(&ward, (struct rota_health_event){.type = ROTA_HEALTH_TICK});
    assert_int_equal(ward.n_asked[1], 1);
    rota_health_fsm_remove(&ward.fsm, 1);
    assert_int_equal(rota_health_fsm_deadline(&ward.fsm), ROTA_TIME_NEVER);
    rota_health_fsm_deinit(&ward.fsm);
}

static void node_that_answers_a_call_while_it_is_asked_is_asked_one_interval_later(void **state)
{
    struct ward ward;
    (void)state;
    ward_init(&ward, 1);
    ward.behaviour[1] = ANSWERS_BADLY;
    pass(&ward, 2 * ROTA_SEC);
    heard(&ward, 1); /* its failures are forgiven */
    rota_time heard_at = ward.now;
    assert_int_equal(rota_health_fsm_deadline(&ward.fsm), heard_at + ROTA_SEC);
    rota_health_fsm_deinit(&ward.fsm);
}

static void states_have_names(void **state)
{
    (void)state;
    assert_string_equal(rota_health_state_name(ROTA_HEALTH_WELL), "well");
    assert_string_equal(rota_health_state_name(ROTA_HEALTH_UNAVAILABLE), "unavailable");
    assert_string_equal(rota_health_state_name(ROTA_HEALTH_DROPPED), "dropped");
    assert_string_equal(rota_health_state_name((enum rota_health_state)99), "unknown");
}

static void dropped_nodes_are_not_asked_in_step(void **state)
{
    struct ward ward;
    rota_time shortest = ROTA_TIME_NEVER, longest = 0;
    (void)state;
    ward_init(&ward, 1);
    ward.behaviour[1] = ANSWERS_BADLY;
    pass(&ward, 10 * ROTA_MIN);
    for (int i = 0; i < 20; i++) {
        rota_time asked_at = rota_health_fsm_deadline(&ward.fsm);
        pass(&ward, asked_at - ward.now);
        rota_time span = rota_health_fsm_deadline(&ward.fsm) - asked_at;
        shortest = span < shortest ? span : shortest;
        longest = span > longest ? span : longest;
    }
    assert_in_range(shortest, 15 * ROTA_SEC, 20 * ROTA_SEC);
    assert_in_range(longest, 25 * ROTA_SEC, 30 * ROTA_SEC);
    rota_health_fsm_deinit(&ward.fsm);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_healthy_node_is_asked_once_per_interval),
        cmocka_unit_test(a_node_that_answers_calls_is_not_asked),
        cmocka_unit_test(row_l10_a_success_clears_the_flag_of_failures),
        cmocka_unit_test(row_l11_a_node_that_can_t_be_reached_is_dropped),
        cmocka_unit_test(row_l12_three_failures_flag_and_one_success_clears),
        cmocka_unit_test(row_l13_a_node_that_stays_unhealthy_is_flagged_then_dropped),
        cmocka_unit_test(a_dropped_node_is_asked_less_and_less_but_forever),
        cmocka_unit_test(a_hanging_node_delays_no_other),
        cmocka_unit_test(trap_b_failures_go_with_the_listing),
        cmocka_unit_test(an_answer_that_comes_too_late_does_nothing),
        cmocka_unit_test(the_list_is_bounded),
        cmocka_unit_test(thresholds_and_intervals_are_in_order),
        cmocka_unit_test(nodes_that_are_not_listed_change_nothing),
        cmocka_unit_test(node_that_answers_a_call_while_it_is_asked_is_asked_one_interval_later),
        cmocka_unit_test(states_have_names),
        cmocka_unit_test(dropped_nodes_are_not_asked_in_step),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
