/* Ids and idempotency keys that clients choose: a job is added once, whichever of three nodes is
 * asked, and however the partitions of its queue change in between. */
#include "three_brokers.h"

#include <stdio.h>
#include <string.h>

static struct rota_random chance;

struct outcome {
    enum rota_status status;
    bool is_new;
    struct rota_job_id id;
    char text[300];
};

static struct outcome add(struct world *world, int node, struct rota_queue_job_spec spec)
{
    struct rota_queue_add request = {.job = &spec};
    struct rota_queue_added added = {0};
    struct rota_arena arena = {0};
    struct rota_reply reply;
    struct outcome outcome = {.status = ask(world, node, "Add", &ROTA_QUEUE_ADD, &request, &reply)};
    snprintf(outcome.text, sizeof outcome.text, "%s", reply.text);
    rota_message_decode(&ROTA_QUEUE_ADDED, rota_str_of(reply.message, reply.size), &added, &arena,
                        NULL);
    outcome.is_new = added.is_new;
    rota_queue_message_id_read(added.id, &outcome.id, NULL);
    rota_arena_deinit(&arena);
    rota_reply_deinit(&reply);
    return outcome;
}

/* As clients do: a node that rejects a job for the moment is asked again. While a layout spreads,
 * two nodes may each hold the other to be the owner of a partition. */
static struct outcome add_at_last(struct world *world, int node, struct rota_queue_job_spec spec)
{
    struct outcome outcome;
    do
        outcome = add(world, node, spec);
    while (outcome.status == ROTA_STATUS_UNAVAILABLE);
    assert_string_equal(outcome.text, "");
    assert_int_equal(outcome.status, ROTA_STATUS_OK);
    return outcome;
}

static struct outcome add_id(struct world *world, int node, struct rota_job_id id, bool is_again)
{
    char bytes[ROTA_QUEUE_ID_SIZE];
    return add_at_last(world, node,
                       (struct rota_queue_job_spec){.queue = rota_str("q"),
                                                    .payload = rota_str("x"),
                                                    .id = rota_queue_message_id_write(id, bytes),
                                                    .is_again = is_again});
}

static struct rota_queue_job_spec with_key(int node, const char *key)
{
    return (struct rota_queue_job_spec){.queue = rota_str("q"),
                                        .payload = rota_str(node == 0 ? "x" : "another"),
                                        .idempotency_key = rota_str(key)};
}

static struct outcome add_key(struct world *world, int node, const char *key)
{
    return add_at_last(world, node, with_key(node, key));
}

static struct rota_job_id uuid4(void)
{
    struct rota_job_id id = {rota_random_next(&chance), rota_random_next(&chance)};
    id.high = (id.high & ~(uint64_t)0xf000) | 0x4000;
    id.low = (id.low & ~((uint64_t)3 << 62)) | (uint64_t)1 << 63;
    return id;
}

static bool is_same(struct rota_job_id a, struct rota_job_id b)
{
    return a.high == b.high && a.low == b.low;
}

static size_t n_jobs(struct world *world)
{
    size_t n = 0;
    for (int i = 0; i < NODES; i++)
        if (world->brokers[i])
            n += rota_work_broker_counts(world->brokers[i]).jobs;
    return n;
}

static void assert_found(struct world *world, struct rota_job_id id)
{
    char bytes[ROTA_QUEUE_ID_SIZE];
    struct rota_queue_about about = {.queue = rota_str("q"),
                                     .id = rota_queue_message_id_write(id, bytes)};
    struct rota_reply reply;
    for (int i = 0; i < NODES; i++) {
        assert_int_equal(ask(world, i, "Describe", &ROTA_QUEUE_DESCRIBE, &about, &reply),
                         ROTA_STATUS_OK);
        rota_reply_deinit(&reply);
    }
}

static void any_uuid_is_an_id(void **state)
{
    enum { N = 60 };
    struct world *world = *state;
    for (int i = 0; i < N; i++) {
        struct rota_job_id id = uuid4();
        struct outcome first = add_id(world, i % NODES, id, false);
        assert_true(first.is_new && is_same(first.id, id));
        struct outcome second = add_id(world, (i + 1) % NODES, id, false);
        assert_true(!second.is_new && is_same(second.id, id));
        assert_found(world, id);
    }
    assert_int_equal(n_jobs(world), N);
    for (int i = 0; i < NODES; i++) /* none is left out */
        assert_true(rota_work_broker_counts(world->brokers[i]).jobs > 0);
}

static void a_key_is_that_of_one_job_at_every_node(void **state)
{
    enum { N = 60 };
    struct world *world = *state;
    char key[16];
    for (int i = 0; i < N; i++) {
        snprintf(key, sizeof key, "order %d", i);
        struct outcome first = add_key(world, i % NODES, key);
        assert_true(first.is_new);
        for (int k = 0; k < NODES; k++) {
            struct outcome again = add_key(world, k, key);
            assert_true(!again.is_new && is_same(again.id, first.id));
        }
        assert_found(world, first.id);
    }
    assert_int_equal(n_jobs(world), N);
    for (int i = 0; i < NODES; i++)
        assert_true(rota_work_broker_counts(world->brokers[i]).jobs > 0);
}

static void a_key_stays_that_of_its_job_when_the_queue_gets_other_partitions(void **state)
{
    enum { N = 24 };
    static const uint32_t layouts[] = {2, 40, 1, 16};
    struct world *world = *state;
    struct rota_job_id ids[2 * N];
    char key[16];
    for (int i = 0; i < N; i++) {
        snprintf(key, sizeof key, "%d", i);
        struct outcome made = add_key(world, i % NODES, key);
        assert_true(made.is_new);
        ids[i] = made.id;
        ids[N + i] = uuid4();
        assert_true(add_id(world, i % NODES, ids[N + i], false).is_new);
    }
    for (size_t k = 0; k < sizeof layouts / sizeof *layouts; k++) {
        lay_out(world, "q", layouts[k]);
        for (int i = 0; i < N; i++) {
            snprintf(key, sizeof key, "%d", i);
            struct outcome again = add_key(world, (i + (int)k) % NODES, key);
            assert_true(!again.is_new && is_same(again.id, ids[i]));
            /* Its partition may be on the way to another node. */
            assert_false(add_id(world, (i + (int)k) % NODES, ids[N + i], true).is_new);
            assert_found(world, ids[N + i]);
        }
        snprintf(key, sizeof key, "new %zu", k); /* and new ones are accepted */
        assert_true(add_key(world, 0, key).is_new);
        assert_true(add_id(world, 0, uuid4(), false).is_new);
    }
    assert_int_equal(n_jobs(world), 2 * N + 8);
}

/* Its number is one that the queue does not have when the job comes, and has later. */
static void an_id_from_elsewhere_stays_that_of_its_job_when_the_queue_gets_its_partition(
    void **state)
{
    enum { FROM = 16, TO = 40, N = TO - FROM };
    struct world *world = *state;
    struct rota_job_id ids[N];
    for (int i = 0; i < N; i++) {
        ids[i] = uuid4();
        ids[i].high = (ids[i].high & ~(uint64_t)0xffff) | (uint64_t)(FROM + i);
        assert_true(add_id(world, i % NODES, ids[i], false).is_new);
    }
    lay_out(world, "q", TO);
    for (int i = 0; i < N; i++) {
        assert_false(add_id(world, i % NODES, ids[i], false).is_new);
        assert_found(world, ids[i]);
    }
    assert_int_equal(n_jobs(world), N);
}

/* How many partitions of the queue a node reads. */
static uint64_t n_read(struct world *world, int node)
{
    const struct rota_queue_setting about = {.queue = rota_str("q")};
    struct rota_queue_list list = {0};
    struct rota_arena arena = {0};
    struct rota_reply reply;
    assert_int_equal(ask(world, node, "Queues", &ROTA_QUEUE_PAUSE, &about, &reply), ROTA_STATUS_OK);
    rota_message_decode(&ROTA_QUEUE_QUEUES_REPLY, rota_str_of(reply.message, reply.size), &list,
                        &arena, NULL);
    assert_int_equal(list.items.n, 1);
    uint64_t n = ((const struct rota_queue_info *)list.items.items)->read;
    rota_arena_deinit(&arena);
    rota_reply_deinit(&reply);
    return n;
}

static void jobs_with_keys_do_not_keep_a_queue_from_getting_fewer_partitions(void **state)
{
    struct world *world = *state;
    char key[16];
    int n = 0;
    for (; n < 40; n++) { /* in each partition */
        snprintf(key, sizeof key, "%d", n);
        assert_true(add_key(world, n % NODES, key).is_new);
    }
    lay_out(world, "q", 2);
    while (n_read(world, 0) > 2 || n_read(world, 1) > 2 || n_read(world, 2) > 2) {
        snprintf(key, sizeof key, "%d", n++); /* and they keep coming */
        assert_true(add_key(world, n % NODES, key).is_new);
    }
    for (int i = 0; i < n; i++) {
        snprintf(key, sizeof key, "%d", i);
        assert_false(add_key(world, i % NODES, key).is_new);
    }
    assert_int_equal(n_jobs(world), n);
}

static void a_key_is_not_given_to_two_jobs_while_a_node_is_down(void **state)
{
    struct world *world = *state;
    struct outcome first = add_key(world, 0, "known");
    assert_true(first.is_new);
    int away = 0; /* one that does not have it */
    while (rota_work_broker_counts(world->brokers[away]).jobs > 0)
        away++;
    close_node(world, away);
    int other = (away + 1) % NODES;
    struct outcome again = add(world, other, with_key(other, "known"));
    assert_int_equal(again.status, ROTA_STATUS_OK);
    assert_true(!again.is_new && is_same(again.id, first.id));
    struct outcome new = add(world, other, with_key(other, "new")); /* which the node may have */
    assert_int_equal(new.status, ROTA_STATUS_UNAVAILABLE);
    assert_int_equal(n_jobs(world), 1);
}

static void an_invalid_key_is_refused_with_its_bound(void **state)
{
    struct world *world = *state;
    char bytes[ROTA_QUEUE_ID_SIZE] = {1};
    char longest[257];
    memset(longest, 'k', sizeof longest);
    struct rota_queue_job_spec good = {.queue = rota_str("q"),
                                       .idempotency_key = rota_str_of(longest, 256)};
    struct rota_queue_job_spec bad[4] = {good, good, good, good};
    bad[0].idempotency_key.size = 257;
    bad[1].id = rota_str_of(bytes, sizeof bytes);
    bad[2].unique = rota_str("u");
    bad[3].partition = 3;
    for (int i = 0; i < 4; i++) {
        struct outcome outcome = add(world, i % NODES, bad[i]);
        assert_int_equal(outcome.status, ROTA_STATUS_INVALID_ARGUMENT);
        assert_non_null(strstr(outcome.text, "idempotency_key"));
        if (i == 0)
            assert_non_null(strstr(outcome.text, "256"));
    }
    assert_true(add(world, 0, good).is_new);
}

static void each_of_a_batch_has_its_key(void **state)
{
    struct world *world = *state;
    enum { N = 40 };
    struct rota_queue_job_spec specs[N];
    char keys[N][8];
    assert_true(add_key(world, 1, "k7").is_new);
    for (int i = 0; i < N; i++) {
        snprintf(keys[i], sizeof keys[i], "k%d", i);
        specs[i] = (struct rota_queue_job_spec){.queue = rota_str("q"),
                                                .idempotency_key = rota_str(keys[i])};
    }
    specs[9].idempotency_key = rota_str("");
    specs[11].unique = rota_str("u"); /* with a key: refused by itself */
    struct rota_queue_list request = {.items = {specs, N}}, list = {0};
    for (int round = 0; round < 2; round++) {
        struct rota_arena arena = {0};
        struct rota_reply reply;
        assert_int_equal(ask(world, round, "AddBatch", &ROTA_QUEUE_ADD_BATCH, &request, &reply),
                         ROTA_STATUS_OK);
        assert_int_equal(rota_message_decode(&ROTA_QUEUE_ADD_BATCH_REPLY,
                                             rota_str_of(reply.message, reply.size), &list, &arena,
                                             NULL),
                         ROTA_OK);
        const struct rota_queue_added *added = list.items.items;
        assert_int_equal(list.items.n, N);
        for (int i = 0; i < N; i++) {
            bool is_new = round == 0 ? i != 7 && i != 11 : i == 9;
            assert_int_equal(added[i].is_new, is_new);
            assert_int_equal(added[i].status, i == 11 ? ROTA_STATUS_INVALID_ARGUMENT : 0);
        }
        rota_arena_deinit(&arena);
        rota_reply_deinit(&reply);
    }
    assert_int_equal(n_jobs(world), N); /* without one, and one twice */
}

static void on_added(void *data, const struct rota_queue_result *result)
{
    struct outcome *outcome = data;
    outcome->status = ROTA_STATUS_OK;
    outcome->is_new = result->is_new;
    snprintf(outcome->text, sizeof outcome->text, "%d %s", result->code, result->job);
}

static void a_client_of_the_library_finds_the_job_of_a_key(void **state)
{
    struct world *world = *state;
    char id[ROTA_JOB_ID_TEXT], expected[80];
    struct outcome first = add_key(world, 2, "shared");
    struct outcome second = {.status = ROTA_STATUS_UNKNOWN};
    struct rota_queue_job job = {
        .queue = rota_str("q"), .payload = rota_str("y"), .idempotency_key = rota_str("shared")};
    assert_int_equal(rota_queue_add(world->queue, &job, on_added, &second, NULL), ROTA_OK);
    while (second.status != ROTA_STATUS_OK)
        uv_run(&world->loop, UV_RUN_ONCE);
    snprintf(expected, sizeof expected, "0 q/%s", rota_job_id_format(first.id, id));
    assert_string_equal(second.text, expected);
    assert_false(second.is_new);
    job.unique = rota_str("u");
    assert_int_equal(rota_queue_add(world->queue, &job, on_added, &second, NULL), ROTA_ERR_INVALID);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(any_uuid_is_an_id),
        TEST(a_key_is_that_of_one_job_at_every_node),
        TEST(a_key_stays_that_of_its_job_when_the_queue_gets_other_partitions),
        TEST(an_id_from_elsewhere_stays_that_of_its_job_when_the_queue_gets_its_partition),
        TEST(jobs_with_keys_do_not_keep_a_queue_from_getting_fewer_partitions),
        TEST(a_key_is_not_given_to_two_jobs_while_a_node_is_down),
        TEST(an_invalid_key_is_refused_with_its_bound),
        TEST(each_of_a_batch_has_its_key),
        TEST(a_client_of_the_library_finds_the_job_of_a_key),
    };
    rota_random_init(&chance, 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
