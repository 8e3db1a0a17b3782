/* Adds that are made again at a node that has the partition by now, while the job is still at the
 * one before: two brokers on one loop, of which the first does not know of the second. */
#include "two_brokers.h"

static int set_up(void **state)
{
    struct world *world = world_new();
    open_first(world);
    open_second(world);
    await_told(world);
    *state = world;
    return 0;
}

/* The second is not in its own list. */
static int set_up_unlisted(void **state)
{
    struct world *world = world_new();
    await_write(world->hosts, world->nodes[FIRST].address);
    open_first(world);
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

static size_t n_jobs(const struct world *world, size_t node)
{
    return rota_work_broker_counts(world->nodes[node].broker).jobs;
}

/* --- adds --- */

struct batch {
    struct rota_queue_job_spec specs[N_PARTITIONS];
    char ids[N_PARTITIONS][ROTA_QUEUE_ID_SIZE];
    bool is_new[N_PARTITIONS];
};

/* A job for each partition. */
static void make_batch(struct batch *batch, uint64_t chance)
{
    for (uint32_t i = 0; i < N_PARTITIONS; i++)
        batch->specs[i] =
            (struct rota_queue_job_spec){.queue = rota_str("jobs"),
                                         .partition = i,
                                         .id = rota_queue_message_id_write(
                                             rota_job_id_make(ROTA_SEC, i, chance), batch->ids[i])};
}

static enum rota_status add_all(struct world *world, size_t node, struct batch *batch,
                                bool is_again)
{
    struct rota_arena arena = {0};
    struct rota_queue_list request = {.items = {batch->specs, N_PARTITIONS}}, added;
    struct rota_reply reply;
    for (size_t i = 0; i < N_PARTITIONS; i++)
        batch->specs[i].is_again = is_again;
    enum rota_status status = ask(world, node, "AddBatch", &ROTA_QUEUE_ADD_BATCH, &request, &reply);
    if (status == ROTA_STATUS_OK) {
        assert_int_equal(rota_message_decode(&ROTA_QUEUE_ADD_BATCH_REPLY,
                                             rota_str_of(reply.message, reply.size), &added, &arena,
                                             NULL),
                         ROTA_OK);
        const struct rota_queue_added *items = added.items.items;
        assert_int_equal(added.items.n, N_PARTITIONS);
        for (size_t i = 0; i < N_PARTITIONS; i++) {
            assert_int_equal(items[i].status, ROTA_STATUS_OK);
            assert_true(rota_str_is_equal(items[i].id, batch->specs[i].id));
            batch->is_new[i] = items[i].is_new;
        }
    }
    rota_reply_deinit(&reply);
    rota_arena_deinit(&arena);
    return status;
}

static enum rota_status add_one(struct world *world, size_t node, struct rota_queue_job_spec *spec,
                                bool is_again, bool *is_new)
{
    struct rota_arena arena = {0};
    struct rota_queue_add request = {.job = spec};
    struct rota_queue_added added;
    struct rota_reply reply;
    spec->is_again = is_again;
    enum rota_status status = ask(world, node, "Add", &ROTA_QUEUE_ADD, &request, &reply);
    if (status == ROTA_STATUS_OK) {
        assert_int_equal(rota_message_decode(&ROTA_QUEUE_ADDED,
                                             rota_str_of(reply.message, reply.size), &added, &arena,
                                             NULL),
                         ROTA_OK);
        assert_true(rota_str_is_equal(added.id, spec->id));
        *is_new = added.is_new;
    }
    rota_reply_deinit(&reply);
    rota_arena_deinit(&arena);
    return status;
}

static size_t n_new(const struct batch *batch)
{
    size_t n = 0;
    for (size_t i = 0; i < N_PARTITIONS; i++)
        n += batch->is_new[i];
    return n;
}

/* --- tests --- */

static void job_on_another_node_is_not_added_again(void **state)
{
    struct world *world = *state;
    static struct batch batch, other;
    bool is_new;
    make_batch(&batch, 1);
    make_batch(&other, 2);
    assert_int_equal(add_all(world, FIRST, &batch, false), ROTA_STATUS_OK);
    assert_int_equal(n_new(&batch), N_PARTITIONS);
    for (size_t i = 0; i < N_PARTITIONS; i++) {
        assert_int_equal(add_one(world, SECOND, &batch.specs[i], true, &is_new), ROTA_STATUS_OK);
        assert_false(is_new);
    }
    assert_int_equal(add_all(world, SECOND, &batch, true), ROTA_STATUS_OK);
    assert_int_equal(n_new(&batch), 0);
    assert_int_equal(n_jobs(world, SECOND), 0);
    /* The danger is real: who does not say it has two of those that are the second's now. */
    assert_int_equal(add_all(world, SECOND, &batch, false), ROTA_STATUS_OK);
    assert_in_range(n_new(&batch), 1, N_PARTITIONS - 1);
}

static void unknown_job_is_added(void **state)
{
    struct world *world = *state;
    static struct batch batch, mixed;
    bool is_new;
    make_batch(&batch, 3);
    assert_int_equal(add_one(world, SECOND, &batch.specs[5], true, &is_new), ROTA_STATUS_OK);
    assert_true(is_new);
    make_batch(&mixed, 3); /* one of them is there */
    assert_int_equal(add_all(world, SECOND, &mixed, true), ROTA_STATUS_OK);
    assert_int_equal(n_new(&mixed), N_PARTITIONS - 1);
    assert_int_equal(n_jobs(world, FIRST) + n_jobs(world, SECOND), N_PARTITIONS);
}

static void node_that_does_not_answer_may_have_it(void **state)
{
    struct world *world = *state;
    static struct batch batch;
    bool is_new;
    make_batch(&batch, 4);
    close_node(&world->nodes[FIRST]);
    assert_int_equal(add_one(world, SECOND, &batch.specs[0], true, &is_new),
                     ROTA_STATUS_UNAVAILABLE);
    assert_int_equal(add_all(world, SECOND, &batch, true), ROTA_STATUS_UNAVAILABLE);
    assert_int_equal(n_jobs(world, SECOND), 0);
}

static void recently_listed_node_is_asked(void **state)
{
    struct world *world = *state;
    static struct batch batch, more;
    size_t n_owned = 0;
    make_batch(&batch, 5);
    assert_int_equal(add_all(world, FIRST, &batch, false), ROTA_STATUS_OK);
    write_hosts(world, false);
    for (uint64_t i = 0; n_owned < N_PARTITIONS; i++) { /* until the second has all partitions */
        make_batch(&more, 100 + i);
        assert_int_equal(add_all(world, SECOND, &more, false), ROTA_STATUS_OK);
        size_t before = n_jobs(world, SECOND);
        make_batch(&more, 1000000 + i);
        assert_int_equal(add_all(world, SECOND, &more, false), ROTA_STATUS_OK);
        n_owned = n_jobs(world, SECOND) - before;
    }
    size_t before = n_jobs(world, SECOND);
    assert_int_equal(add_all(world, SECOND, &batch, true), ROTA_STATUS_OK);
    assert_int_equal(n_new(&batch), 0);
    assert_int_equal(n_jobs(world, SECOND), before);
}

/* A client can't make a node believe that a job is somewhere. */
static void clients_statements_about_other_nodes_are_ignored(void **state)
{
    struct world *world = *state;
    static struct batch batch;
    bool is_new = false;
    make_batch(&batch, 6);
    batch.specs[0].is_known = true;
    assert_int_equal(add_one(world, FIRST, &batch.specs[0], false, &is_new), ROTA_STATUS_OK);
    assert_true(is_new);
    assert_int_equal(n_jobs(world, FIRST), 1);
}

static void node_that_does_not_know_all_nodes_denies_no_job(void **state)
{
    struct world *world = *state;
    static struct batch batch;
    bool is_new = false;
    make_batch(&batch, 7);
    assert_int_equal(add_one(world, FIRST, &batch.specs[1], false, &is_new), ROTA_STATUS_OK);
    assert_int_equal(add_one(world, SECOND, &batch.specs[0], true, &is_new),
                     ROTA_STATUS_UNAVAILABLE);
    assert_int_equal(add_all(world, SECOND, &batch, true), ROTA_STATUS_UNAVAILABLE);
    assert_int_equal(n_jobs(world, FIRST) + n_jobs(world, SECOND), 1);
    write_hosts(world, true);
    await_told(world);
    assert_int_equal(add_all(world, SECOND, &batch, true), ROTA_STATUS_OK);
    assert_int_equal(n_new(&batch), N_PARTITIONS - 1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(job_on_another_node_is_not_added_again),
        TEST(unknown_job_is_added),
        TEST(node_that_does_not_answer_may_have_it),
        TEST(recently_listed_node_is_asked),
        TEST(clients_statements_about_other_nodes_are_ignored),
        cmocka_unit_test_setup_teardown(node_that_does_not_know_all_nodes_denies_no_job,
                                        set_up_unlisted, tear_down),
    };
    return cmocka_run_group_tests_name("broker_again", tests, NULL, NULL);
}
