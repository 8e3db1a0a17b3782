/* Pauses and weights that were made before a node came: two brokers on one loop, of which the first
 * does not know the second, and so can't have told it anything: they are rows of a store. */
#include "two_brokers.h"

static int set_up(void **state)
{
    struct world *world = world_new();
    open_first(world);
    *state = world;
    return 0;
}

static int tear_down(void **state)
{
    world_free(*state);
    return 0;
}

static void set(struct world *world, size_t node, const char *method,
                const struct rota_message_type *type, struct rota_queue_setting setting)
{
    struct rota_reply reply;
    setting.queue = rota_str("jobs");
    assert_int_equal(ask_alone(world, node, method, type, &setting, &reply), ROTA_STATUS_OK);
    rota_reply_deinit(&reply);
}

static void set_paused(struct world *world, size_t node, bool is_paused)
{
    set(world, node, "Pause", &ROTA_QUEUE_PAUSE,
        (struct rota_queue_setting){.is_paused = is_paused});
}

/* A node that has not read the settings refuses. */
static void add(struct world *world, size_t node)
{
    struct rota_reply reply;
    char id[ROTA_QUEUE_ID_SIZE];
    struct rota_queue_job_spec spec = {.queue = rota_str("jobs")};
    while (rota_work_broker_counts(world->nodes[node].broker).jobs == 0)
        for (uint32_t i = 0; i < N_PARTITIONS; i++) { /* one of them is the node's */
            spec.id = rota_queue_message_id_write(rota_job_id_make(ROTA_SEC, i, 1), id);
            spec.partition = i;
            ask_alone(world, node, "Add", &ROTA_QUEUE_ADD, &(struct rota_queue_add){.job = &spec},
                      &reply);
            rota_reply_deinit(&reply);
        }
}

static bool is_set(const struct world *world, size_t node)
{
    return rota_broker_has_settings(world->nodes[node].broker->core, rota_str("jobs"));
}

static void node_that_comes_later_hands_out_nothing_of_a_paused_queue(void **state)
{
    struct world *world = *state;
    set_paused(world, FIRST, true);
    set(world, FIRST, "SetWeight", &ROTA_QUEUE_WEIGHT,
        (struct rota_queue_setting){.key = rota_str("heavy"), .weight = 3000});
    open_second(world);
    assert_false(rota_work_broker_is_listed(world->nodes[SECOND].broker)); /* it has read nothing */
    assert_int_equal(poll_jobs(world, SECOND, 0), 0);
    add(world, SECOND);
    assert_true(is_set(world, SECOND)); /* before its first job */
    assert_int_equal(poll_jobs(world, SECOND, 1), 0);
    set_paused(world, FIRST, false); /* which can't tell the second */
    assert_int_equal(poll_jobs(world, SECOND, AWAIT_MAX_MS), 1);
    assert_true(is_set(world, SECOND));
}

/* Two nodes change a setting of one queue each, and neither undoes the other's. */
static void changes_at_two_nodes_are_both_kept(void **state)
{
    struct world *world = *state;
    open_second(world);
    await_told(world);
    set_paused(world, FIRST, true);
    set(world, SECOND, "SetQuarantine", &ROTA_QUEUE_QUARANTINE,
        (struct rota_queue_setting){.weight = 2});
    set(world, FIRST, "SetWeight", &ROTA_QUEUE_WEIGHT,
        (struct rota_queue_setting){.key = rota_str("heavy"), .weight = 3000});
    struct rota_queue_view view;
    for (size_t i = 0; i < N_NODES; i++) {
        do
            uv_run(&world->loop, UV_RUN_ONCE);
        while (!rota_broker_find_queue(world->nodes[i].broker->core, rota_str("jobs"), &view) ||
               !view.is_paused || view.kills_max != 2);
    }
}

static void starting_node_does_not_wait_for_an_unreachable_one(void **state)
{
    struct world *world = *state;
    close_node(&world->nodes[FIRST]);
    open_second(world);
    add(world, SECOND);
    assert_int_equal(poll_jobs(world, SECOND, AWAIT_MAX_MS), 1);
}

/* The second has no jobs and could delete it at once; the first has one, and refuses. */
static void queue_that_one_node_cannot_delete_keeps_its_settings_on_all(void **state)
{
    struct world *world = *state;
    struct rota_reply reply;
    const struct rota_queue_delete request = {.queue = rota_str("jobs")};
    set_paused(world, FIRST, true);
    set(world, FIRST, "SetWeight", &ROTA_QUEUE_WEIGHT,
        (struct rota_queue_setting){.key = rota_str("heavy"), .weight = 3000});
    add(world, FIRST);
    open_second(world);
    await_told(world);
    assert_int_equal(ask(world, SECOND, "DeleteQueue", &ROTA_QUEUE_DELETE, &request, &reply),
                     ROTA_STATUS_FAILED_PRECONDITION);
    rota_reply_deinit(&reply);
    add(world, SECOND);
    assert_int_equal(poll_jobs(world, SECOND, 1), 0);
    assert_int_equal(poll_jobs(world, FIRST, 1), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(node_that_comes_later_hands_out_nothing_of_a_paused_queue,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(changes_at_two_nodes_are_both_kept, set_up, tear_down),
        cmocka_unit_test_setup_teardown(queue_that_one_node_cannot_delete_keeps_its_settings_on_all,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(starting_node_does_not_wait_for_an_unreachable_one, set_up,
                                        tear_down),
    };
    return cmocka_run_group_tests_name("broker_settings", tests, NULL, NULL);
}
