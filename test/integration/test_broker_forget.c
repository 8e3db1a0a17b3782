/* A node that is lost while jobs are on their way to it: a server that takes them for lost calls,
 * and a broker that lists it for a while. */
#include "two_brokers.h"

static size_t n_adopts;

static void on_adopt(void *data, struct rota_server_call *call)
{
    (void)data;
    n_adopts++;
    rota_server_call_finish(call, ROTA_STATUS_INTERNAL, "nobody knows what became of it", NULL, 0);
}

static int set_up(void **state)
{
    struct world *world = world_new();
    const struct rota_server_method method = {.path = "/rota.peer.v1.QueuePeer/Adopt",
                                              .on_call = on_adopt};
    n_adopts = 0;
    assert_int_equal(rota_server_add(world->nodes[FIRST].server, &method, NULL), ROTA_OK);
    write_hosts(world, false);
    open_second(world);
    await_read(world);
    *state = world;
    return 0;
}

static int tear_down(void **state)
{
    world_free(*state);
    return 0;
}

static void add_all(struct world *world)
{
    struct rota_queue_job_spec specs[N_PARTITIONS];
    char ids[N_PARTITIONS][ROTA_QUEUE_ID_SIZE];
    struct rota_queue_list request = {.items = {specs, N_PARTITIONS}};
    struct rota_reply reply;
    for (uint32_t i = 0; i < N_PARTITIONS; i++)
        specs[i] = (struct rota_queue_job_spec){
            .queue = rota_str("jobs"),
            .partition = i,
            .id = rota_queue_message_id_write(rota_job_id_make(ROTA_SEC, i, 1), ids[i])};
    assert_int_equal(ask(world, SECOND, "AddBatch", &ROTA_QUEUE_ADD_BATCH, &request, &reply),
                     ROTA_STATUS_OK);
    rota_reply_deinit(&reply);
}

static enum rota_status forget_at(struct world *world, const char *address, bool is_dry_run,
                                  size_t *n_jobs)
{
    struct rota_arena arena = {0};
    struct rota_queue_forget request = {.node = rota_str(address), .is_dry_run = is_dry_run};
    struct rota_queue_forgotten forgotten = {0};
    struct rota_reply reply;
    enum rota_status status =
        ask_alone(world, SECOND, "Forget", &ROTA_QUEUE_FORGET, &request, &reply);
    if (status == ROTA_STATUS_OK)
        assert_int_equal(rota_message_decode(&ROTA_QUEUE_FORGOTTEN,
                                             rota_str_of(reply.message, reply.size), &forgotten,
                                             &arena, NULL),
                         ROTA_OK);
    *n_jobs = forgotten.n_jobs;
    rota_reply_deinit(&reply);
    rota_arena_deinit(&arena);
    return status;
}

static enum rota_status forget(struct world *world, bool is_dry_run, size_t *n_jobs)
{
    return forget_at(world, world->nodes[FIRST].address, is_dry_run, n_jobs);
}

/* Nobody is told that a node with a mistyped address is given up. */
static void a_node_that_never_was_is_not_forgotten(void **state)
{
    struct world *world = *state;
    size_t n_jobs;
    assert_int_equal(forget_at(world, "192.0.2.1:7700", true, &n_jobs), ROTA_STATUS_NOT_FOUND);
    assert_int_equal(forget_at(world, "192.0.2.1:7700", false, &n_jobs), ROTA_STATUS_NOT_FOUND);
}

static void jobs_in_handover_to_a_lost_node_are_reclaimed_on_command(void **state)
{
    struct world *world = *state;
    size_t n_jobs, n_dry;
    add_all(world);
    write_hosts(world, true);
    await(&world->loop, &n_adopts, 1);
    assert_int_equal(forget(world, false, &n_jobs), ROTA_STATUS_FAILED_PRECONDITION);
    write_hosts(world, false);
    while (forget(world, true, &n_dry) != ROTA_STATUS_OK) /* until it is off the list */
        ;
    assert_in_range(n_dry, 1, N_PARTITIONS);
    size_t n_done = 0, n_free = N_PARTITIONS - n_dry;
    while (n_done < n_free) /* the others are served */
        n_done += poll_jobs(world, SECOND, AWAIT_MAX_MS);
    assert_int_equal(poll_jobs(world, SECOND, 1), 0);
    assert_int_equal(forget(world, false, &n_jobs), ROTA_STATUS_OK);
    assert_int_equal(n_jobs, n_dry);
    while (n_done < N_PARTITIONS)
        n_done += poll_jobs(world, SECOND, AWAIT_MAX_MS);
    assert_int_equal(n_done, N_PARTITIONS);
    assert_int_equal(forget(world, false, &n_jobs), ROTA_STATUS_OK);
    assert_int_equal(n_jobs, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_node_that_never_was_is_not_forgotten, set_up, tear_down),
        cmocka_unit_test_setup_teardown(jobs_in_handover_to_a_lost_node_are_reclaimed_on_command,
                                        set_up, tear_down),
    };
    return cmocka_run_group_tests_name("broker_forget", tests, NULL, NULL);
}
