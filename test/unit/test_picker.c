#include <rota/experimental/picker.h>
#include <rota/experimental/route.h>

#include "base/vector.h"
#include "vectors.h"
#include <rota/experimental/random.h>

#include <stdio.h>
#include <stdlib.h>

static struct rota_partition queue_named(const char *namespace_id, const char *name)
{
    return (struct rota_partition){
        .namespace_id = rota_str(namespace_id),
        .queue = rota_str(name),
        .type = ROTA_TASK_WORKFLOW,
    };
}

static struct rota_picker *make(struct rota_random *random)
{
    struct rota_picker *picker;
    assert_int_equal(rota_picker_new(1, &picker, NULL), ROTA_OK);
    rota_random_init(random, 2);
    return picker;
}

static struct rota_poll pick(struct rota_picker *picker, rota_time now,
                             const struct rota_partition *queue, int64_t n,
                             struct rota_random *random)
{
    struct rota_poll poll;
    struct rota_error error;
    if (rota_picker_read(picker, now, queue, n, random, &poll, &error))
        fail_msg("%s", error.text);
    return poll;
}

static struct rota_poll pick_forced(struct rota_picker *picker, const struct rota_partition *queue,
                                    int64_t n, int64_t partition)
{
    assert_int_equal(rota_picker_force(picker, ROTA_PICKER_READ, NULL, partition, NULL), ROTA_OK);
    struct rota_poll poll = pick(picker, 0, queue, n, NULL);
    assert_int_equal(poll.partition, partition);
    assert_true(rota_picker_unforce(picker, ROTA_PICKER_READ, NULL));
    return poll;
}

static uint32_t count_at(const struct rota_picker *picker, const struct rota_partition *queue,
                         size_t partition)
{
    uint32_t counts[64];
    size_t n = rota_picker_counts(picker, queue, counts, 64);
    assert_true(partition < n && n <= 64);
    return counts[partition];
}

/* --- the original's answers --- */

static void check_counts(const struct rota_picker *picker, const struct rota_partition *queue,
                         const json_t *expected)
{
    uint32_t counts[64];
    size_t n = rota_picker_counts(picker, queue, counts, 64);
    assert_int_equal(n, json_array_size(expected));
    for (size_t i = 0; i < n; i++)
        assert_int_equal(counts[i], json_integer_value(json_array_get(expected, i)));
}

static void play(const json_t *trace)
{
    struct rota_random random;
    struct rota_picker *picker = make(&random);
    struct rota_partition queue = queue_named("ns", "q");
    ROTA_VECTOR(struct rota_poll) polls[64] = {0}; /* outstanding, of each partition */
    const json_t *op;
    size_t i;

    json_array_foreach (json_object_get(trace, "ops"), i, op) {
        struct rota_str kind = vectors_str(op, "op");
        size_t partition = (size_t)vectors_int(op, "partition");
        assert_true(partition < 64);
        if (rota_str_is_equal(kind, rota_str("release"))) {
            assert_true(polls[partition].size > 0);
            assert_true(
                rota_picker_release(picker, 0, polls[partition].items[--polls[partition].size]));
        } else {
            bool is_forced = rota_str_is_equal(kind, rota_str("force"));
            int64_t n = vectors_int(op, "count");
            struct rota_poll poll = is_forced ? pick_forced(picker, &queue, n, (int64_t)partition)
                                              : pick(picker, 0, &queue, n, &random);
            assert_int_equal(poll.partition, partition);
            assert_true(rota_vector_push(&polls[partition], poll));
        }
        check_counts(picker, &queue, json_object_get(op, "poller_counts"));
    }
    assert_true(i >= 40);
    for (size_t p = 0; p < 64; p++)
        rota_vector_deinit(&polls[p]);
    rota_picker_free(picker);
}

/* A trace says of which partition a poll is released, not which of its polls;
 * the original can't tell them apart. Here the newest one goes first and all
 * traces hold to the end. With the oldest first, traces 3, 4 and 7 would not:
 * they shrink and grow again, and the original then takes a new poll's count
 * away for a poll that it had forgotten. */
static void counts_are_the_originals(void **state)
{
    json_t *root = vectors_load("readlb.json");
    const json_t *trace;
    size_t i;
    (void)state;
    json_array_foreach (json_object_get(root, "traces"), i, trace)
        play(trace);
    assert_int_equal(i, 8);
    json_decref(root);
}

/* --- writes --- */

static void writes_go_everywhere_alike(void **state)
{
    enum { N = 7, ROUNDS = 70000 };
    struct rota_random random;
    struct rota_picker *picker = make(&random);
    int hits[N] = {0};
    (void)state;
    for (int i = 0; i < ROUNDS; i++) {
        int64_t partition;
        assert_int_equal(rota_picker_write(picker, rota_str("ns"), N, &random, &partition, NULL),
                         ROTA_OK);
        assert_true(partition >= 0 && partition < N);
        hits[partition]++;
    }
    for (int i = 0; i < N; i++)
        assert_in_range(hits[i], 9600, 10400);
    rota_picker_free(picker);
}

static void less_than_one_partition_is_one_and_absurdly_many_are_refused(void **state)
{
    const int64_t few[] = {1, 0, -5, INT64_MIN}, many[] = {ROTA_PARTITIONS_MAX + 1, INT64_MAX};
    struct rota_partition queue = queue_named("ns", "q");
    struct rota_random random;
    struct rota_picker *picker = make(&random);
    struct rota_error error;
    struct rota_poll poll = {.partition = 77};
    int64_t partition = 77;
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(
            rota_picker_write(picker, rota_str("ns"), many[i], &random, &partition, &error),
            ROTA_ERR_INVALID);
        assert_int_equal(rota_picker_read(picker, 0, &queue, many[i], &random, &poll, &error),
                         ROTA_ERR_INVALID);
        assert_non_null(strstr(error.text, "at most 16777216"));
    }
    assert_int_equal(partition, 77);
    assert_int_equal(poll.partition, 77);
    assert_int_equal(rota_picker_n_queues(picker), 0);
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(
            rota_picker_write(picker, rota_str("ns"), few[i], &random, &partition, NULL), ROTA_OK);
        assert_int_equal(partition, 0);
        assert_int_equal(pick(picker, 0, &queue, few[i], &random).partition, 0);
        assert_int_equal(rota_picker_counts(picker, &queue, NULL, 0), 1);
    }
    rota_picker_free(picker);
}

/* --- reads --- */

static void outstanding_polls_are_balanced(void **state)
{
    struct rota_partition queue = queue_named("ns", "q");
    struct rota_random random;
    (void)state;
    for (int64_t n = 1; n <= 64; n++) {
        struct rota_picker *picker = make(&random);
        uint32_t counts[64];
        for (uint32_t i = 0; i < 300; i++) {
            pick(picker, 0, &queue, n, &random);
            assert_int_equal(rota_picker_counts(picker, &queue, counts, 64), n);
            for (int64_t p = 0; p < n; p++)
                assert_in_range(counts[p], i / n, i / n + 1);
        }
        rota_picker_free(picker);
    }
}

/* Not uniform, but as the original has it: a partition's chance grows with the
 * number of busier ones just before it. */
static void ties_go_to_the_first_after_a_random_start(void **state)
{
    const int64_t setup[] = {0, 0, 1, 1, 2, 3};
    struct rota_partition queue = queue_named("ns", "q");
    struct rota_random random;
    struct rota_picker *picker = make(&random);
    int hits[4] = {0};
    (void)state;
    for (size_t i = 0; i < 6; i++)
        pick_forced(picker, &queue, 4, setup[i]);
    for (int i = 0; i < 40000; i++) {
        struct rota_poll poll = pick(picker, 0, &queue, 4, &random);
        hits[poll.partition]++;
        assert_true(rota_picker_release(picker, 0, poll));
    }
    assert_int_equal(hits[0] + hits[1], 0);
    assert_in_range(hits[2], 29600, 30400);
    assert_in_range(hits[3], 9600, 10400);
    rota_picker_free(picker);
}

static void second_release_is_refused_and_takes_nothing(void **state)
{
    struct rota_partition queue = queue_named("ns", "q");
    struct rota_random random;
    struct rota_picker *picker = make(&random);
    (void)state;
    struct rota_poll first = pick(picker, 0, &queue, 1, &random);
    struct rota_poll second = pick(picker, 0, &queue, 1, &random);
    assert_true(rota_picker_release(picker, 0, first));
    assert_false(rota_picker_release(picker, 0, first));
    assert_int_equal(count_at(picker, &queue, 0), 1);

    struct rota_poll third = pick(picker, 0, &queue, 1, &random);
    assert_int_equal(third.slot, first.slot); /* whose slot is used again */
    assert_false(rota_picker_release(picker, 0, first));
    assert_int_equal(count_at(picker, &queue, 0), 2);
    assert_true(rota_picker_release(picker, 0, second));
    assert_true(rota_picker_release(picker, 0, third));
    assert_int_equal(count_at(picker, &queue, 0), 0);

    assert_false(rota_picker_release(picker, 0, (struct rota_poll){0}));
    assert_false(rota_picker_release(picker, 0, (struct rota_poll){.slot = 5, .serial = 1}));
    assert_false(rota_picker_release(picker, 0, (struct rota_poll){0, UINT64_MAX, UINT32_MAX}));
    assert_int_equal(rota_picker_n_polls(picker), 0);
    rota_picker_free(picker);
}

static void old_poll_takes_nothing_from_a_partition_that_came_back(void **state)
{
    struct rota_partition queue = queue_named("ns", "q");
    struct rota_random random;
    struct rota_picker *picker = make(&random);
    (void)state;
    struct rota_poll old = pick_forced(picker, &queue, 4, 3);
    struct rota_poll other = pick_forced(picker, &queue, 4, 3);
    pick_forced(picker, &queue, 2, 0);
    assert_int_equal(rota_picker_counts(picker, &queue, NULL, 0), 2);
    assert_true(rota_picker_release(picker, 0, other)); /* forgotten: no count, but no error */

    struct rota_poll young = pick_forced(picker, &queue, 4, 3);
    assert_true(rota_picker_release(picker, 0, old));
    assert_int_equal(count_at(picker, &queue, 3), 1);
    assert_true(rota_picker_release(picker, 0, young));
    assert_int_equal(count_at(picker, &queue, 3), 0);
    rota_picker_free(picker);
}

static void queues_differ_by_namespace_name_and_type(void **state)
{
    struct rota_partition queues[] = {
        queue_named("ab", "c"), queue_named("a", "bc"), queue_named("", "abc"),
        queue_named("abc", ""), queue_named("ab", "c"), queue_named("xb", "c"),
    };
    struct rota_random random;
    struct rota_picker *picker = make(&random);
    (void)state;
    queues[4].type = ROTA_TASK_ACTIVITY;
    for (size_t i = 0; i < 6; i++)
        for (size_t n = 0; n <= i; n++)
            pick(picker, 0, &queues[i], 1, &random);
    assert_int_equal(rota_picker_n_queues(picker), 6);
    for (size_t i = 0; i < 6; i++) {
        queues[i].id = 3; /* means nothing here */
        assert_int_equal(count_at(picker, &queues[i], 0), i + 1);
    }
    rota_picker_free(picker);
}

static void bad_queues_are_refused(void **state)
{
    static char long_text[100000];
    struct rota_partition queue = queue_named("ns", "q"), bad;
    struct rota_random random;
    struct rota_picker *picker = make(&random);
    struct rota_poll poll;
    (void)state;
    for (int i = 0; i < 5; i++) {
        bad = queue;
        if (i == 0)
            bad.queue = rota_str_of(long_text, sizeof long_text);
        else if (i == 1)
            bad.namespace_id = rota_str_of(long_text, sizeof long_text);
        else if (i == 2)
            bad.kind = ROTA_PARTITION_STICKY;
        else if (i == 3)
            bad.type = (enum rota_task_type)9;
        else
            bad.queue = rota_str("/_sys/q/1");
        assert_int_equal(rota_picker_read(picker, 0, &bad, 4, &random, &poll, NULL),
                         ROTA_ERR_INVALID);
        assert_int_equal(rota_picker_counts(picker, &bad, NULL, 0), 0);
    }
    assert_int_equal(rota_picker_n_queues(picker), 0);
    rota_picker_free(picker);
}

/* Pick and route as a client does: whatever fails after the pick, the poll is
 * given back. */
static enum rota_code pick_and_route(struct rota_picker *picker, const struct rota_ring *ring,
                                     struct rota_partition *partition, struct rota_random *random,
                                     struct rota_poll *poll, uint32_t *host)
{
    enum rota_code code = rota_picker_read(picker, 0, partition, 4, random, poll, NULL);
    if (code)
        return code;
    partition->id = poll->partition;
    *host = rota_route(ring, partition, (struct rota_spread){.batch = 4});
    if (*host == ROTA_RING_NONE) {
        rota_picker_release(picker, 0, *poll);
        return ROTA_ERR_UNAVAILABLE;
    }
    return ROTA_OK;
}

static void poll_that_finds_no_host_leaves_no_count(void **state)
{
    struct rota_partition queue = queue_named("ns", "q");
    struct rota_ring_host hosts[] = {{.address = rota_str("a:1")}, {.address = rota_str("b:1")}};
    struct rota_ring *empty, *full;
    struct rota_random random;
    struct rota_picker *picker = make(&random);
    struct rota_poll poll;
    uint32_t host;
    (void)state;
    assert_int_equal(rota_ring_new(NULL, 0, 0, &empty, NULL), ROTA_OK);
    assert_int_equal(rota_ring_new(hosts, 2, 0, &full, NULL), ROTA_OK);
    for (int i = 0; i < 100; i++)
        assert_int_equal(pick_and_route(picker, empty, &queue, &random, &poll, &host),
                         ROTA_ERR_UNAVAILABLE);
    assert_int_equal(rota_picker_n_polls(picker), 0);
    for (size_t p = 0; p < 4; p++)
        assert_int_equal(count_at(picker, &queue, p), 0);
    assert_int_equal(pick_and_route(picker, full, &queue, &random, &poll, &host), ROTA_OK);
    assert_true(host < 2);
    assert_int_equal(rota_picker_n_polls(picker), 1);
    rota_ring_unref(empty);
    rota_ring_unref(full);
    rota_picker_free(picker);
}

/* --- bounds --- */

static void idle_queues_are_forgotten_in_time(void **state)
{
    struct rota_partition a = queue_named("ns", "a"), b = queue_named("ns", "b"),
                          c = queue_named("ns", "c");
    struct rota_random random;
    struct rota_picker *picker = make(&random);
    (void)state;
    assert_int_equal(rota_picker_deadline(picker), ROTA_TIME_NEVER);
    struct rota_poll poll_a = pick(picker, 0, &a, 4, &random);
    struct rota_poll poll_b = pick(picker, ROTA_MIN, &b, 4, &random);
    struct rota_poll poll_c = pick(picker, 2 * ROTA_MIN, &c, 4, &random);
    assert_int_equal(rota_picker_deadline(picker), ROTA_TIME_NEVER);

    rota_picker_release(picker, ROTA_MIN, poll_b); /* at 2 min: the clock does not go back */
    rota_picker_release(picker, 3 * ROTA_MIN, poll_a);
    assert_int_equal(rota_picker_deadline(picker), 2 * ROTA_MIN + ROTA_PICKER_IDLE);
    rota_picker_step(picker, 2 * ROTA_MIN + ROTA_PICKER_IDLE - 1);
    assert_int_equal(rota_picker_n_queues(picker), 3);
    rota_picker_step(picker, 2 * ROTA_MIN + ROTA_PICKER_IDLE);
    assert_int_equal(rota_picker_n_queues(picker), 2);
    assert_int_equal(rota_picker_counts(picker, &b, NULL, 0), 0);
    assert_false(rota_picker_release(picker, 0, poll_b));

    poll_a = pick(picker, 0, &a, 4, &random); /* in use again; an early `now` is not believed */
    assert_int_equal(rota_picker_deadline(picker), ROTA_TIME_NEVER);
    rota_picker_step(picker, 1000 * ROTA_DAY);
    assert_int_equal(rota_picker_n_queues(picker), 2);
    rota_picker_release(picker, 0, poll_a);
    rota_picker_release(picker, 0, poll_c);
    rota_picker_step(picker, INT64_MAX);
    assert_int_equal(rota_picker_n_queues(picker), 0);
    rota_picker_free(picker);
}

/* Idle is what follows a poll, not what was before it. */
static void queue_is_not_forgotten_after_a_long_poll(void **state)
{
    struct rota_partition queue = queue_named("ns", "q");
    struct rota_random random;
    struct rota_picker *picker = make(&random);
    (void)state;
    struct rota_poll poll = pick(picker, 0, &queue, 4, &random);
    rota_picker_release(picker, ROTA_PICKER_IDLE, poll);
    rota_picker_step(picker, ROTA_PICKER_IDLE);
    assert_int_equal(rota_picker_n_queues(picker), 1);
    assert_int_equal(rota_picker_deadline(picker), 2 * ROTA_PICKER_IDLE);
    rota_picker_free(picker);
}

/* A queue of which only a forgotten partition has a poll is not idle. */
static void queue_stays_while_a_forgotten_partition_is_polled(void **state)
{
    struct rota_partition queue = queue_named("ns", "q");
    struct rota_random random;
    struct rota_picker *picker = make(&random);
    (void)state;
    struct rota_poll far = pick_forced(picker, &queue, 9, 8);
    rota_picker_release(picker, 0, pick(picker, 0, &queue, 2, &random));
    rota_picker_step(picker, ROTA_DAY);
    assert_int_equal(rota_picker_n_queues(picker), 1);
    assert_true(rota_picker_release(picker, 0, far));
    rota_picker_step(picker, 2 * ROTA_DAY);
    assert_int_equal(rota_picker_n_queues(picker), 0);
    rota_picker_free(picker);
}

static struct rota_partition queue_numbered(int i, char text[16])
{
    snprintf(text, 16, "%d", i);
    return queue_named("ns", text);
}

static void full_picker_forgets_the_longest_idle_queue_or_refuses(void **state)
{
    struct rota_random random;
    struct rota_picker *picker = make(&random);
    struct rota_poll *polls = test_malloc(ROTA_PICKER_QUEUES_MAX * sizeof *polls), poll;
    struct rota_error error;
    char text[16];
    (void)state;
    for (int i = 0; i < ROTA_PICKER_QUEUES_MAX; i++) {
        struct rota_partition queue = queue_numbered(i, text);
        polls[i] = pick(picker, i, &queue, 1, &random);
    }
    struct rota_partition extra = queue_named("ns", "extra");
    assert_int_equal(rota_picker_read(picker, 0, &extra, 1, &random, &poll, &error),
                     ROTA_ERR_LIMIT);
    assert_non_null(strstr(error.text, "65536 queues"));

    rota_picker_release(picker, 0, polls[9]); /* idle first */
    rota_picker_release(picker, 0, polls[3]);
    pick(picker, 0, &extra, 1, &random);
    assert_int_equal(rota_picker_n_queues(picker), ROTA_PICKER_QUEUES_MAX);
    struct rota_partition nine = queue_numbered(9, text);
    assert_int_equal(rota_picker_counts(picker, &nine, NULL, 0), 0);
    struct rota_partition three = queue_numbered(3, text);
    assert_int_equal(rota_picker_counts(picker, &three, NULL, 0), 1);
    test_free(polls);
    rota_picker_free(picker);
}

static void partitions_of_all_queues_have_a_bound(void **state)
{
    struct rota_partition a = queue_named("ns", "a"), b = queue_named("ns", "b"),
                          c = queue_named("ns", "c");
    struct rota_random random;
    struct rota_picker *picker = make(&random);
    struct rota_poll poll;
    struct rota_error error;
    (void)state;
    struct rota_poll first = pick(picker, 0, &a, 1, &random);
    rota_picker_release(picker, 0, pick(picker, 0, &b, 1, &random));
    assert_int_equal(rota_picker_read(picker, 0, &c, ROTA_PARTITIONS_MAX, &random, &poll, &error),
                     ROTA_ERR_LIMIT);
    assert_int_equal(rota_picker_n_queues(picker), 1); /* the idle one went, `c` did not come */
    assert_int_equal(rota_picker_n_polls(picker), 1);
    assert_int_equal(rota_picker_read(picker, 0, &a, ROTA_PARTITIONS_MAX, &random, &poll, &error),
                     ROTA_OK);
    assert_int_equal(rota_picker_read(picker, 0, &b, 1, &random, &poll, &error), ROTA_ERR_LIMIT);
    assert_true(rota_picker_release(picker, 0, first));
    pick(picker, 0, &a, 4, &random); /* shrinks, which makes room */
    pick(picker, 0, &b, 1, &random);
    rota_picker_free(picker);
}

static void polls_have_a_bound(void **state)
{
    struct rota_partition queue = queue_named("ns", "q");
    struct rota_random random;
    struct rota_picker *picker = make(&random);
    struct rota_poll poll = {0}, last;
    struct rota_error error;
    (void)state;
    for (int i = 0; i < ROTA_POLLS_MAX; i++)
        if (rota_picker_read(picker, 0, &queue, 4, &random, &poll, NULL))
            fail();
    last = poll;
    assert_int_equal(rota_picker_read(picker, 0, &queue, 4, &random, &poll, &error),
                     ROTA_ERR_LIMIT);
    assert_non_null(strstr(error.text, "1048576 polls"));
    assert_int_equal(count_at(picker, &queue, 2), ROTA_POLLS_MAX / 4);
    assert_true(rota_picker_release(picker, 0, last));
    assert_int_equal(pick(picker, 0, &queue, 4, &random).partition, last.partition);
    rota_picker_free(picker);
}

/* --- forcing --- */

static void forced_choice_holds_until_it_is_cleared(void **state)
{
    struct rota_str ns = rota_str("ns"), other = rota_str("other");
    struct rota_partition queue = queue_named("ns", "q"), elsewhere = queue_named("other", "q");
    struct rota_random random;
    struct rota_picker *picker = make(&random);
    int64_t partition;
    (void)state;
    assert_int_equal(rota_picker_force(picker, ROTA_PICKER_WRITE, &ns, 9, NULL), ROTA_OK);
    assert_int_equal(rota_picker_force(picker, ROTA_PICKER_WRITE, NULL, 8, NULL), ROTA_OK);
    assert_int_equal(rota_picker_force(picker, ROTA_PICKER_READ, &ns, 7, NULL), ROTA_OK);
    assert_int_equal(rota_picker_force(picker, ROTA_PICKER_READ, &ns, 6, NULL), ROTA_OK);

    rota_picker_write(picker, ns, 4, &random, &partition, NULL);
    assert_int_equal(partition, 9);
    rota_picker_write(picker, other, 4, &random, &partition, NULL);
    assert_int_equal(partition, 8);
    assert_int_equal(pick(picker, 0, &queue, 4, &random).partition, 6);
    assert_int_equal(rota_picker_counts(picker, &queue, NULL, 0), 7);
    assert_true(pick(picker, 0, &elsewhere, 4, &random).partition < 4);

    assert_true(rota_picker_unforce(picker, ROTA_PICKER_WRITE, &ns));
    assert_false(rota_picker_unforce(picker, ROTA_PICKER_WRITE, &ns));
    assert_true(rota_picker_unforce(picker, ROTA_PICKER_READ, &ns));
    rota_picker_write(picker, ns, 4, &random, &partition, NULL);
    assert_int_equal(partition, 8);
    assert_true(rota_picker_unforce(picker, ROTA_PICKER_WRITE, NULL));
    rota_picker_write(picker, ns, 4, &random, &partition, NULL);
    assert_true(partition < 4);
    assert_true(pick(picker, 0, &queue, 4, &random).partition < 4);
    assert_int_equal(rota_picker_counts(picker, &queue, NULL, 0), 4);
    rota_picker_free(picker);
}

static void forced_choice_is_checked(void **state)
{
    static char long_text[ROTA_QUEUE_NAME_MAX + 1];
    struct rota_str too_long = rota_str_of(long_text, sizeof long_text);
    struct rota_random random;
    struct rota_picker *picker = make(&random);
    struct rota_error error;
    int64_t partition;
    char text[16];
    (void)state;
    for (int side = ROTA_PICKER_WRITE; side <= ROTA_PICKER_READ; side++) {
        enum rota_picker_side s = (enum rota_picker_side)side;
        assert_int_equal(rota_picker_force(picker, s, NULL, -1, &error), ROTA_ERR_INVALID);
        assert_non_null(strstr(error.text, "partition -1 is not within"));
        assert_int_equal(rota_picker_force(picker, s, NULL, ROTA_PARTITIONS_MAX, NULL),
                         ROTA_ERR_INVALID);
        assert_int_equal(rota_picker_force(picker, s, &too_long, 0, NULL), ROTA_ERR_INVALID);
        assert_false(rota_picker_unforce(picker, s, NULL));
    }
    for (int i = 0; i <= ROTA_PICKER_FORCED_MAX; i++) {
        snprintf(text, sizeof text, "%d", i);
        struct rota_str ns = rota_str(text);
        assert_int_equal(rota_picker_force(picker, ROTA_PICKER_WRITE, &ns, i, NULL),
                         i < ROTA_PICKER_FORCED_MAX ? ROTA_OK : ROTA_ERR_LIMIT);
    }
    assert_int_equal(rota_picker_write(picker, too_long, 1, &random, &partition, NULL), ROTA_OK);
    assert_int_equal(partition, 0);
    rota_picker_free(picker);
}

/* --- against a naive model --- */

enum { QUEUES = 6, WIDEST = 12, POLLS = 400 };

struct model_poll {
    bool is_outstanding, is_counted;
    size_t queue;
    struct rota_poll poll;
};

struct world {
    struct rota_picker *picker;
    struct rota_random random;
    rota_time now;
    struct rota_partition queues[QUEUES];
    size_t sizes[QUEUES];
    struct model_poll polls[POLLS];
};

static uint32_t model_count(const struct world *world, size_t queue, int64_t partition)
{
    uint32_t n = 0;
    for (size_t i = 0; i < POLLS; i++) {
        const struct model_poll *poll = &world->polls[i];
        n += poll->is_outstanding && poll->is_counted && poll->queue == queue &&
             poll->poll.partition == partition;
    }
    return n;
}

static void model_pick(struct world *world, struct model_poll *poll)
{
    size_t queue = rota_random_below(&world->random, QUEUES);
    int64_t n = (int64_t)world->sizes[queue];
    if (n == 0 || rota_random_chance(&world->random, 0.1))
        n = rota_random_range(&world->random, 1, WIDEST);

    for (size_t i = 0; i < POLLS; i++) /* a shrink forgets */
        if (world->polls[i].queue == queue && world->polls[i].poll.partition >= n)
            world->polls[i].is_counted = false;
    world->sizes[queue] = (size_t)n;
    uint32_t fewest = UINT32_MAX;
    for (int64_t p = 0; p < n; p++) {
        uint32_t count = model_count(world, queue, p);
        fewest = count < fewest ? count : fewest;
    }
    struct rota_poll picked =
        pick(world->picker, world->now, &world->queues[queue], n, &world->random);
    assert_true(picked.partition >= 0 && picked.partition < n);
    assert_int_equal(model_count(world, queue, picked.partition), fewest);
    *poll = (struct model_poll){
        .is_outstanding = true, .is_counted = true, .queue = queue, .poll = picked};
}

static void model_check(struct world *world)
{
    size_t n_outstanding = 0;
    for (size_t i = 0; i < POLLS; i++)
        n_outstanding += world->polls[i].is_outstanding;
    assert_int_equal(rota_picker_n_polls(world->picker), n_outstanding);

    size_t n_queues = 0;
    for (size_t q = 0; q < QUEUES; q++) {
        uint32_t counts[WIDEST];
        size_t n = rota_picker_counts(world->picker, &world->queues[q], counts, WIDEST);
        n_queues += n > 0;
        if (n == 0) /* forgotten, so nothing may be outstanding */
            world->sizes[q] = 0;
        assert_int_equal(n, world->sizes[q]);
        for (size_t p = 0; p < WIDEST; p++)
            assert_int_equal(model_count(world, q, (int64_t)p), p < n ? counts[p] : 0);
    }
    assert_int_equal(rota_picker_n_queues(world->picker), n_queues);
}

static void picker_agrees_with_the_naive_model(void **state)
{
    static struct world world;
    char texts[QUEUES][16];
    size_t n_forgotten = 0;
    (void)state;
    world.picker = make(&world.random);
    for (int q = 0; q < QUEUES; q++)
        world.queues[q] = queue_numbered(q, texts[q]);

    for (int i = 0; i < 20000; i++) {
        /* Long waves: picks and releases, then releases alone, down to none. */
        bool is_flood = i / 1000 % 4 == 0;
        struct model_poll *poll = &world.polls[rota_random_below(&world.random, POLLS)];
        if (poll->is_outstanding || !is_flood) {
            assert_int_equal(rota_picker_release(world.picker, world.now, poll->poll),
                             poll->is_outstanding);
            poll->is_outstanding = false;
        } else {
            model_pick(&world, poll);
        }
        world.now += rota_random_range(&world.random, 0, ROTA_MIN);
        size_t before = rota_picker_n_queues(world.picker);
        rota_picker_step(world.picker, world.now);
        n_forgotten += before - rota_picker_n_queues(world.picker);
        model_check(&world);
    }
    assert_true(n_forgotten >= QUEUES);
    rota_picker_free(world.picker);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_are_the_originals),
        cmocka_unit_test(writes_go_everywhere_alike),
        cmocka_unit_test(less_than_one_partition_is_one_and_absurdly_many_are_refused),
        cmocka_unit_test(outstanding_polls_are_balanced),
        cmocka_unit_test(ties_go_to_the_first_after_a_random_start),
        cmocka_unit_test(second_release_is_refused_and_takes_nothing),
        cmocka_unit_test(old_poll_takes_nothing_from_a_partition_that_came_back),
        cmocka_unit_test(queues_differ_by_namespace_name_and_type),
        cmocka_unit_test(bad_queues_are_refused),
        cmocka_unit_test(poll_that_finds_no_host_leaves_no_count),
        cmocka_unit_test(idle_queues_are_forgotten_in_time),
        cmocka_unit_test(queue_is_not_forgotten_after_a_long_poll),
        cmocka_unit_test(queue_stays_while_a_forgotten_partition_is_polled),
        cmocka_unit_test(full_picker_forgets_the_longest_idle_queue_or_refuses),
        cmocka_unit_test(partitions_of_all_queues_have_a_bound),
        cmocka_unit_test(polls_have_a_bound),
        cmocka_unit_test(forced_choice_holds_until_it_is_cleared),
        cmocka_unit_test(forced_choice_is_checked),
        cmocka_unit_test(picker_agrees_with_the_naive_model),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
