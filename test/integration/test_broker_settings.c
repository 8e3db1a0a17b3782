/* Pauses and weights that were made before a node came: two brokers on one loop, of which the first
 * does not know the second, and so can't have sent it anything. */
#include "two_brokers.h"

#include <string.h>

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

static void add(struct world *world, size_t node)
{
    struct rota_reply reply;
    char id[ROTA_QUEUE_ID_SIZE];
    struct rota_queue_job_spec spec = {.queue = rota_str("jobs")};
    for (uint32_t i = 0; i < N_PARTITIONS; i++) { /* one of them is the node's */
        spec.id = rota_queue_message_id_write(rota_job_id_make(ROTA_SEC, i, 1), id);
        spec.partition = i;
        ask_alone(world, node, "Add", &ROTA_QUEUE_ADD, &(struct rota_queue_add){.job = &spec},
                  &reply);
        rota_reply_deinit(&reply);
    }
    assert_in_range(rota_work_broker_counts(world->nodes[node].broker).jobs, 1, N_PARTITIONS);
}

/* What a node says of its settings; each has to be in it once the other one was asked. */
static bool knows(struct world *world, size_t node, const char *text)
{
    struct rota_reply reply;
    assert_int_equal(ask_alone(world, node, "/rota.peer.v1.QueuePeer/Settings", NULL, NULL, &reply),
                     ROTA_STATUS_OK);
    bool is_known = memmem(reply.message, reply.size, text, strlen(text)) != NULL;
    rota_reply_deinit(&reply);
    return is_known;
}

/* The second is told to forget the first, and does. */
static void unlist_first(struct world *world)
{
    bool is_listed = true;
    write_hosts(world, false);
    while (is_listed) {
        struct rota_reply reply;
        const char *address = world->nodes[FIRST].address;
        assert_int_equal(ask_alone(world, SECOND, "Nodes", NULL, NULL, &reply), ROTA_STATUS_OK);
        is_listed = memmem(reply.message, reply.size, address, strlen(address));
        rota_reply_deinit(&reply);
    }
}

static void node_that_comes_later_hands_out_nothing_of_a_paused_queue(void **state)
{
    struct world *world = *state;
    set_paused(world, FIRST, true);
    set(world, FIRST, "SetWeight", &ROTA_QUEUE_WEIGHT,
        (struct rota_queue_setting){.key = rota_str("heavy"), .weight = 3000});
    open_second(world);
    add(world, SECOND);
    assert_int_equal(poll_jobs(world, SECOND, 0), 0); /* it may not even have asked yet */
    while (!knows(world, SECOND, "heavy"))
        ;
    assert_int_equal(poll_jobs(world, SECOND, 1), 0);
    unlist_first(world);
    set_paused(world, FIRST, false);
    write_hosts(world, true); /* it asks when the list changes */
    assert_int_equal(poll_jobs(world, SECOND, AWAIT_MAX_MS), 1);
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
    while (!knows(world, SECOND, "heavy"))
        ;
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
        cmocka_unit_test_setup_teardown(queue_that_one_node_cannot_delete_keeps_its_settings_on_all,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(starting_node_does_not_wait_for_an_unreachable_one, set_up,
                                        tear_down),
    };
    return cmocka_run_group_tests_name("broker_settings", tests, NULL, NULL);
}
