#include "core/call/get_fsm.h"
#include "vectors.h"

#include <stdio.h>
#include <string.h>

enum { LOG_MAX = 256, KEYS_MAX = 64, HOSTS_MAX = 16, N_SHARDS = 2 };

/* One that was sent. */
struct sent {
    uint64_t number, host;
    size_t index; /* of the host, in the list */
    uint32_t keys[KEYS_MAX];
    size_t n_keys;
    rota_time at, deadline;
    uint64_t epoch;
    bool is_hedge, is_cancelled, is_kept;
};

/* Hosts 0, 1 of dc "a" and 2, 3 of dc "b", shard 0 and 1 of 2 each. */
struct world {
    struct rota_interval_map *map;
    struct rota_balancer *balancer;
    struct rota_random random;
    struct rota_budget budget;
    struct rota_hedge hedge;
    struct rota_get_load load;
    struct rota_get_stats stats;
    struct rota_get_shared shared;
    struct rota_get_fsm fsm;
    rota_time now;
    struct sent sent[LOG_MAX];
    size_t n_sent, n_finished, n_missing;
    enum rota_failure failure;
    uint64_t ids[KEYS_MAX], keys[KEYS_MAX];
};

static struct world world; /* large */

static void list_hosts(size_t n)
{
    static char names[HOSTS_MAX][8];
    struct rota_interval_member members[HOSTS_MAX];
    for (size_t i = 0; i < n; i++) {
        int size = snprintf(names[i], sizeof names[i], "h%zu", i);
        members[i] = (struct rota_interval_member){{names[i], (size_t)size},
                                                   {i < 2 || i >= 4 ? "a" : "b", 1}};
    }
    assert_int_equal(rota_interval_map_set_hosts(world.map, members, n, NULL), ROTA_OK);
}

static uint64_t id_at(size_t index)
{
    return rota_interval_map_host(world.map, index)->id;
}

static void teach(size_t index, struct rota_interval shard, uint64_t epoch)
{
    struct rota_interval_lesson lesson = {rota_interval_map_number(world.map), true, shard, epoch};
    rota_interval_map_learn(world.map, id_at(index), &lesson);
}

static int setup(void **state)
{
    (void)state;
    memset(&world, 0, sizeof world);
    assert_int_equal(rota_interval_map_new(1, &world.map, NULL), ROTA_OK);
    assert_int_equal(rota_balancer_new(&(struct rota_balancer_options){0}, &world.balancer, NULL),
                     ROTA_OK);
    rota_random_init(&world.random, 1);
    rota_budget_init(&world.budget, 0, &ROTA_BUDGET_RETRIES);
    rota_hedge_init(&world.hedge, 0, &(struct rota_hedge_options){0});
    rota_get_load_init(&world.load, 0);
    world.shared = (struct rota_get_shared){
        .map = world.map,
        .balancer = world.balancer,
        .random = &world.random,
        .budget = &world.budget,
        .hedge = &world.hedge,
        .load = &world.load,
        .stats = &world.stats,
    };
    rota_get_fsm_init(&world.fsm, &world.shared);
    list_hosts(4);
    for (size_t i = 0; i < 4; i++)
        teach(i, rota_interval_of(i % N_SHARDS, N_SHARDS), 10 + i);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    rota_get_fsm_deinit(&world.fsm, world.now);
    assert_int_equal(world.stats.n_running, 0);
    assert_int_equal(rota_balancer_n_tries(world.balancer), 0);
    rota_balancer_free(world.balancer);
    rota_interval_map_free(world.map);
    return 0;
}

/* --- stepping --- */

static void note_send(const struct rota_get_fsm_action *action)
{
    struct sent *sent = &world.sent[world.n_sent++];
    assert_non_null(action->host);
    *sent = (struct sent){
        .number = action->number,
        .host = action->host->id,
        .n_keys = action->n_keys,
        .at = world.now,
        .deadline = action->deadline,
        .epoch = action->epoch,
        .is_hedge = action->is_hedge,
    };
    memcpy(sent->keys, action->keys, action->n_keys * sizeof *action->keys);
    for (size_t i = 0; i < rota_interval_map_n_hosts(world.map); i++)
        if (id_at(i) == action->host->id)
            sent->index = i;
}

static struct sent *find_sent(uint64_t number)
{
    for (size_t i = 0; i < world.n_sent; i++)
        if (world.sent[i].number == number)
            return &world.sent[i];
    fail_msg("nothing was sent under this number");
    return NULL;
}

static void drain(void)
{
    struct rota_get_fsm_action action;
    while (rota_get_fsm_next(&world.fsm, &action)) {
        assert_int_equal(world.n_finished, 0); /* a finish is the last */
        switch (action.type) {
        case ROTA_GET_SEND:
            note_send(&action);
            break;
        case ROTA_GET_KEEP:
            find_sent(action.number)->is_kept = true;
            break;
        case ROTA_GET_CANCEL_TRY:
            assert_false(find_sent(action.number)->is_cancelled);
            find_sent(action.number)->is_cancelled = true;
            break;
        case ROTA_GET_FINISH:
            world.n_finished++;
            world.failure = action.failure;
            world.n_missing = action.n_missing;
            break;
        }
    }
}

/* Keys with the ids 100, 101, ... and the given sharding keys. */
static void start(enum rota_get_mode mode, rota_time deadline, size_t n, const uint64_t *keys)
{
    struct rota_get_fsm_options options = {
        .ids = world.ids,
        .keys = world.keys,
        .n_keys = n,
        .deadline = deadline,
        .mode = mode,
        .host_timeout = 100 * ROTA_MSEC,
        .ping_time = 500 * ROTA_MSEC,
    };
    for (size_t i = 0; i < n; i++) {
        world.ids[i] = world.ids[i] ? world.ids[i] : 100 + i;
        world.keys[i] = keys[i];
    }
    world.n_finished = 0;
    assert_int_equal(rota_get_fsm_start(&world.fsm, world.now, &options, NULL), ROTA_OK);
    drain();
}

#define START(mode, deadline, ...)                                                                 \
    start(mode, deadline, sizeof(uint64_t[]){__VA_ARGS__} / sizeof(uint64_t),                      \
          (uint64_t[]){__VA_ARGS__})

static void step(struct rota_get_fsm_event event)
{
    rota_get_fsm_step(&world.fsm, world.now, &event);
    drain();
}

static void tick_at(rota_time now)
{
    world.now = now;
    step((struct rota_get_fsm_event){.type = ROTA_GET_TICK});
}

/* The try's host answers all its keys, as what it holds by the map. */
static struct rota_get_fsm_event answer_of(const struct sent *sent)
{
    static uint64_t ids[KEYS_MAX];
    const struct rota_interval_host *host = rota_interval_map_find(world.map, sent->host);
    for (size_t i = 0; i < sent->n_keys; i++)
        ids[i] = world.ids[sent->keys[i]];
    return (struct rota_get_fsm_event){
        .type = ROTA_GET_ANSWER,
        .number = sent->number,
        .host = sent->host,
        .has_shard = true,
        .all_matched = true,
        .shard = host->shard,
        .epoch = host->epoch,
        .ids = ids,
        .n_ids = sent->n_keys,
    };
}

static void answer(const struct sent *sent)
{
    step(answer_of(sent));
}

/* It does not hold these keys, but this. */
static void mismatch(const struct sent *sent, struct rota_interval shard, uint64_t epoch)
{
    step((struct rota_get_fsm_event){
        .type = ROTA_GET_ANSWER,
        .number = sent->number,
        .host = sent->host,
        .has_shard = true,
        .shard = shard,
        .epoch = epoch,
    });
}

static void fail_try(const struct sent *sent, enum rota_failure failure)
{
    step((struct rota_get_fsm_event){
        .type = ROTA_GET_FAILED, .number = sent->number, .failure = failure});
}

/* The latest that went to the host, or NULL. */
static struct sent *sent_to(size_t index)
{
    for (size_t i = world.n_sent; i-- > 0;)
        if (world.sent[i].index == index)
            return &world.sent[i];
    return NULL;
}

static enum rota_get_key_state state_of(size_t key)
{
    return rota_get_fsm_result(&world.fsm, key).state;
}

static void assert_well(void)
{
    assert_int_equal(world.n_finished, 1);
    assert_int_equal(world.failure, ROTA_FAILURE_NONE);
    assert_int_equal(world.n_missing, 0);
}

static void assert_missing(size_t n, enum rota_failure failure)
{
    assert_int_equal(world.n_finished, 1);
    assert_int_equal(world.n_missing, n);
    assert_int_equal(world.failure, failure);
}

/* --- what a Get is --- */

static void a_get_of_nothing_succeeds_at_once(void **state)
{
    (void)state;
    start(ROTA_GET_MODE_ADAPTIVE, 0, 0, NULL);
    assert_well();
    assert_int_equal(world.n_sent, 0);
}

static void each_key_goes_to_every_replica_of_its_shard_and_to_no_other(void **state)
{
    (void)state;
    START(ROTA_GET_MODE_BROADCAST, ROTA_SEC, 0, 1, 2, 3, 5);
    assert_int_equal(world.n_sent, 4);
    for (size_t i = 0; i < 4; i++) {
        const struct sent *sent = sent_to(i);
        assert_int_equal(sent->n_keys, i % 2 ? 3 : 2);
        assert_int_equal(sent->epoch, 10 + i);
        for (size_t k = 0; k < sent->n_keys; k++)
            assert_int_equal(world.keys[sent->keys[k]] % 2, i % 2);
    }
}

static void the_first_answer_wins_and_the_loser_is_cancelled_at_once(void **state)
{
    (void)state;
    START(ROTA_GET_MODE_BROADCAST, ROTA_SEC, 0, 1);
    uint64_t winner = sent_to(2)->number;
    answer(sent_to(2));
    assert_true(sent_to(0)->is_cancelled);
    assert_true(sent_to(2)->is_kept);
    assert_false(sent_to(1)->is_cancelled);
    assert_int_equal(world.n_finished, 0);
    answer(sent_to(1));
    assert_well();
    assert_true(sent_to(3)->is_cancelled);
    assert_int_equal(rota_get_fsm_result(&world.fsm, 0).number, winner);
    assert_int_equal(state_of(0), ROTA_GET_FOUND);
}

static void the_caller_is_called_as_soon_as_all_keys_are_there(void **state)
{
    (void)state;
    START(ROTA_GET_MODE_BROADCAST, ROTA_SEC, 0, 2);
    answer(sent_to(0));
    assert_well();
}

static void a_late_answer_only_teaches_the_map(void **state)
{
    (void)state;
    START(ROTA_GET_MODE_BROADCAST, ROTA_SEC, 0);
    struct sent late = *sent_to(2);
    answer(sent_to(0));
    assert_well();
    mismatch(&late, rota_interval_of(1, 2), 50);
    assert_int_equal(world.n_finished, 1);
    assert_int_equal(rota_interval_map_host(world.map, 2)->shard.from, 1);
    assert_int_equal(rota_interval_map_host(world.map, 2)->epoch, 50);
}

static void an_answer_that_comes_twice_is_taken_once(void **state)
{
    (void)state;
    START(ROTA_GET_MODE_BROADCAST, ROTA_SEC, 0, 1);
    answer(sent_to(0));
    answer(sent_to(0));
    assert_int_equal(world.n_finished, 0);
    answer(sent_to(1));
    answer(sent_to(1));
    fail_try(sent_to(3), ROTA_FAILURE_BROKEN);
    tick_at(ROTA_SEC);
    assert_well();
}

static void a_key_asked_for_twice_is_sent_once_and_answered_twice(void **state)
{
    (void)state;
    world.ids[0] = world.ids[1] = world.ids[3] = 7;
    START(ROTA_GET_MODE_BROADCAST, ROTA_SEC, 4, 4, 6, 4);
    assert_int_equal(sent_to(0)->n_keys, 2);
    answer(sent_to(0));
    assert_well();
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(state_of(i), ROTA_GET_FOUND);
    assert_int_equal(rota_get_fsm_result(&world.fsm, 3).entry,
                     rota_get_fsm_result(&world.fsm, 0).entry);
}

static void a_duplicate_that_is_missing_is_named_twice(void **state)
{
    (void)state;
    world.ids[0] = world.ids[1] = 7;
    START(ROTA_GET_MODE_BROADCAST, ROTA_SEC, 4, 4);
    tick_at(ROTA_SEC);
    assert_missing(2, ROTA_FAILURE_DEADLINE);
}

static void the_same_id_in_two_shards_is_two_keys(void **state)
{
    (void)state;
    world.ids[0] = world.ids[1] = 7;
    START(ROTA_GET_MODE_BROADCAST, ROTA_SEC, 4, 5);
    answer(sent_to(0));
    assert_int_equal(state_of(0), ROTA_GET_FOUND);
    assert_int_equal(state_of(1), ROTA_GET_PENDING);
    answer(sent_to(1));
    assert_well();
}

static void an_entry_that_was_not_asked_for_is_ignored(void **state)
{
    (void)state;
    START(ROTA_GET_MODE_BROADCAST, ROTA_SEC, 0, 1, 2);
    struct rota_get_fsm_event event = answer_of(sent_to(0));
    uint64_t ids[] = {999, 101, 102, 100}; /* unknown, the other shard's, and in disorder */
    event.ids = ids;
    event.n_ids = 4;
    step(event);
    assert_int_equal(state_of(0), ROTA_GET_FOUND);
    assert_int_equal(rota_get_fsm_result(&world.fsm, 0).entry, 3);
    assert_int_equal(rota_get_fsm_result(&world.fsm, 2).entry, 2);
    assert_int_equal(state_of(1), ROTA_GET_PENDING);
}

static void an_entry_that_is_missing_is_an_absent_value(void **state)
{
    (void)state;
    START(ROTA_GET_MODE_BROADCAST, ROTA_SEC, 0, 2);
    struct rota_get_fsm_event event = answer_of(sent_to(0));
    event.n_ids = 1;
    step(event);
    assert_well();
    assert_int_equal(state_of(0), ROTA_GET_FOUND);
    assert_int_equal(state_of(1), ROTA_GET_ABSENT);
}

/* Also when another host is asked for it, which may be frozen. */
static void a_key_that_an_answer_leaves_out_is_asked_for_again_there(void **state)
{
    (void)state;
    START(ROTA_GET_MODE_BROADCAST, ROTA_SEC, 0, 2, 4, 6);
    struct rota_get_fsm_event event = answer_of(sent_to(0));
    struct rota_get_fsm_problem left[] = {{102, true}, {103, true}};
    event.n_ids = 1;
    event.problems = left;
    event.n_problems = 2;
    step(event);
    assert_int_equal(state_of(0), ROTA_GET_FOUND);
    assert_int_equal(state_of(1), ROTA_GET_ABSENT);
    assert_int_equal(world.n_finished, 0);
    assert_int_equal(world.n_sent, 3);
    assert_int_equal(world.sent[2].index, 0);
    assert_int_equal(world.sent[2].n_keys, 2);
    assert_int_equal(world.budget.n_spent, 0); /* it is no retry */
    answer(&world.sent[2]);
    assert_well();
    assert_int_equal(state_of(3), ROTA_GET_FOUND);
    assert_true(sent_to(2)->is_cancelled);
}

static void a_host_that_leaves_out_all_has_failed(void **state)
{
    (void)state;
    START(ROTA_GET_MODE_HEDGE, ROTA_SEC, 0, 2);
    struct rota_get_fsm_event event = answer_of(&world.sent[0]);
    struct rota_get_fsm_problem left[] = {{100, true}, {101, true}};
    event.n_ids = 0;
    event.problems = left;
    event.n_problems = 2;
    step(event);
    assert_int_equal(world.n_sent, 2);
    assert_int_not_equal(world.sent[1].index, world.sent[0].index);
    assert_int_equal(rota_get_fsm_try(&world.fsm, 0)->failure, ROTA_FAILURE_INTERNAL);
    answer(&world.sent[1]);
    assert_well();
}

/* Keys 0 and 2 of three have a value there, and key 1 has one that can't be given. */
static void refuse_key_1(const struct sent *sent)
{
    struct rota_get_fsm_event event = answer_of(sent);
    struct rota_get_fsm_problem problems[] = {{999, false}, {101, false}};
    uint64_t ids[] = {100, 102};
    event.ids = ids;
    event.n_ids = 2;
    event.problems = problems;
    event.n_problems = 2;
    step(event);
    assert_true(sent->is_kept);
}

static void a_value_that_can_not_be_given_is_missing_at_once_and_harms_no_other(void **state)
{
    (void)state;
    START(ROTA_GET_MODE_HEDGE, ROTA_SEC, 0, 2, 4);
    refuse_key_1(&world.sent[0]);
    assert_missing(1, ROTA_FAILURE_INPUT);
    assert_int_equal(state_of(0), ROTA_GET_FOUND);
    assert_int_equal(state_of(1), ROTA_GET_REFUSED);
    assert_int_equal(rota_get_fsm_result(&world.fsm, 1).entry, 1);
    assert_int_equal(rota_get_fsm_result(&world.fsm, 2).entry, 1);
}

static void who_refuses_a_key_does_not_speak_for_the_others_that_are_asked(void **state)
{
    (void)state;
    START(ROTA_GET_MODE_BROADCAST, ROTA_SEC, 0, 2, 4);
    refuse_key_1(sent_to(0));
    assert_int_equal(state_of(1), ROTA_GET_PENDING);
    assert_int_equal(world.n_sent, 2);
    answer(sent_to(2));
    assert_well();
    world.n_sent = 0;
    START(ROTA_GET_MODE_BROADCAST, ROTA_SEC, 0, 2, 4);
    refuse_key_1(sent_to(0));
    refuse_key_1(sent_to(2));
    assert_missing(1, ROTA_FAILURE_INPUT);
    assert_int_equal(state_of(1), ROTA_GET_REFUSED);
}

/* --- shards that are elsewhere --- */

static void a_false_all_matched_is_not_retried_there(void **state)
{
    (void)state;
    START(ROTA_GET_MODE_BROADCAST, 10 * ROTA_SEC, 0);
    mismatch(sent_to(0), rota_interval_of(0, 2), 10); /* it says so, and yet */
    mismatch(sent_to(2), rota_interval_of(0, 2), 12);
    assert_int_equal(world.n_sent, 2);
    for (rota_time now = 0; now < 9 * ROTA_SEC; now += 100 * ROTA_MSEC)
        tick_at(now);
    assert_int_equal(world.n_sent, 2);
    tick_at(10 * ROTA_SEC);
    assert_missing(1, ROTA_FAILURE_DEADLINE);
    assert_int_equal(state_of(0), ROTA_GET_NO_SHARD);
}

static void a_false_all_matched_teaches_and_moves_the_keys(void **state)
{
    (void)state;
    START(ROTA_GET_MODE_HEDGE, 10 * ROTA_SEC, 0);
    assert_int_equal(world.n_sent, 1);
    struct sent first = world.sent[0];
    mismatch(&first, rota_interval_of(1, 2), 99);
    assert_int_equal(rota_interval_map_find(world.map, first.host)->epoch, 99);
    assert_int_equal(world.n_sent, 2);
    assert_int_equal(world.sent[1].index, first.index == 0 ? 2 : 0);
    answer(&world.sent[1]);
    assert_well();
}

static void a_host_that_has_taken_the_shard_since_is_asked(void **state)
{
    (void)state;
    START(ROTA_GET_MODE_BROADCAST, 10 * ROTA_SEC, 0);
    mismatch(sent_to(0), rota_interval_of(1, 2), 20);
    mismatch(sent_to(2), rota_interval_of(1, 2), 21);
    assert_true(rota_get_fsm_wants_news(&world.fsm));
    teach(0, rota_interval_of(0, 2), 30); /* from another Get or a ping */
    step((struct rota_get_fsm_event){.type = ROTA_GET_MAP_CHANGED});
    assert_int_equal(world.n_sent, 3);
    assert_int_equal(world.sent[2].index, 0);
    assert_int_equal(world.sent[2].epoch, 30);
    answer(&world.sent[2]);
    assert_well();
}

/* A host that never makes up its mind does not get a request for each answer. */
static void a_host_that_changes_its_shard_all_the_time_is_not_asked_for_ever(void **state)
{
    (void)state;
    list_hosts(1);
    START(ROTA_GET_MODE_BROADCAST, 10 * ROTA_SEC, 0);
    for (uint64_t epoch = 100; epoch < 200 && world.n_sent <= 100; epoch++)
        mismatch(&world.sent[world.n_sent - 1], rota_interval_of(0, 2), epoch);
    assert_int_equal(world.n_sent, ROTA_GET_HOST_TRIES_MAX);
}

static void a_replica_that_is_learned_of_later_joins_a_broadcast(void **state)
{
    (void)state;
    list_hosts(5);
    START(ROTA_GET_MODE_BROADCAST, 10 * ROTA_SEC, 0, 1, 2);
    assert_null(sent_to(4));
    answer(sent_to(1));
    teach(4, rota_interval_of(0, 1), 60); /* all keys, in the dc of hosts 0 and 1 */
    step((struct rota_get_fsm_event){.type = ROTA_GET_MAP_CHANGED});
    assert_int_equal(world.n_sent, 5);
    assert_int_equal(sent_to(4)->n_keys, 2); /* what is still out */
    step((struct rota_get_fsm_event){.type = ROTA_GET_MAP_CHANGED});
    assert_int_equal(world.n_sent, 5);
    answer(sent_to(4));
    assert_well();
    assert_true(sent_to(0)->is_cancelled && sent_to(2)->is_cancelled);
}

static void a_replica_that_is_not_live_or_is_of_a_hedge_does_not_join(void **state)
{
    (void)state;
    list_hosts(5);
    START(ROTA_GET_MODE_HEDGE, 10 * ROTA_SEC, 0);
    teach(4, rota_interval_of(0, 1), 60);
    assert_false(rota_get_fsm_wants_news(&world.fsm));
    step((struct rota_get_fsm_event){.type = ROTA_GET_MAP_CHANGED});
    assert_int_equal(world.n_sent, 1);
    answer(&world.sent[0]);
    for (int i = 0; i < ROTA_INTERVAL_FAILURES; i++)
        rota_interval_map_failed(world.map, id_at(4));
    START(ROTA_GET_MODE_BROADCAST, 10 * ROTA_SEC, 0);
    step((struct rota_get_fsm_event){.type = ROTA_GET_MAP_CHANGED});
    assert_int_equal(world.n_sent, 3);
    answer(&world.sent[2]);
    assert_well();
}

static void a_key_without_a_shard_waits_a_ping_time_and_looks_again(void **state)
{
    (void)state;
    rota_interval_map_set_hosts(world.map, NULL, 0, NULL);
    START(ROTA_GET_MODE_BROADCAST, 10 * ROTA_SEC, 0);
    assert_int_equal(world.n_sent, 0);
    assert_int_equal(rota_get_fsm_deadline(&world.fsm), 500 * ROTA_MSEC);
    list_hosts(1);
    teach(0, rota_interval_of(0, 2), 20); /* and nobody says that the map has changed */
    tick_at(500 * ROTA_MSEC);
    assert_int_equal(world.n_sent, 1);
    answer(&world.sent[0]);
    assert_well();
}

static void the_wait_for_a_shard_ends_with_the_deadline(void **state)
{
    (void)state;
    rota_interval_map_set_hosts(world.map, NULL, 0, NULL);
    START(ROTA_GET_MODE_BROADCAST, 300 * ROTA_MSEC, 0);
    assert_int_equal(rota_get_fsm_deadline(&world.fsm), 300 * ROTA_MSEC);
    tick_at(300 * ROTA_MSEC);
    assert_missing(1, ROTA_FAILURE_DEADLINE);
    assert_int_equal(state_of(0), ROTA_GET_NO_SHARD);
}

static void without_a_deadline_the_waits_end_too(void **state)
{
    (void)state;
    rota_interval_map_set_hosts(world.map, NULL, 0, NULL);
    START(ROTA_GET_MODE_BROADCAST, 0, 0);
    for (int i = 0; i < 1000 && world.n_finished == 0; i++)
        tick_at(rota_get_fsm_deadline(&world.fsm));
    assert_int_equal(world.n_finished, 1);
    assert_in_range(world.now, 100 * ROTA_SEC, 200 * ROTA_SEC);
}

static void keys_with_a_shard_do_not_wait_for_those_without(void **state)
{
    (void)state;
    list_hosts(1);
    START(ROTA_GET_MODE_BROADCAST, ROTA_SEC, 0, 1, 2);
    assert_int_equal(world.n_sent, 1);
    answer(&world.sent[0]);
    assert_int_equal(world.n_finished, 0);
    tick_at(ROTA_SEC);
    assert_missing(1, ROTA_FAILURE_DEADLINE);
    assert_int_equal(state_of(0), ROTA_GET_FOUND); /* what is there is given */
    assert_int_equal(state_of(1), ROTA_GET_NO_SHARD);
}

static void a_key_that_the_answering_shard_does_not_have_is_not_answered(void **state)
{
    (void)state;
    START(ROTA_GET_MODE_HEDGE, ROTA_SEC, 0, 2);
    struct rota_get_fsm_event event = answer_of(&world.sent[0]);
    event.shard = rota_interval_of(0, 4); /* has key 0 and not key 2, whatever it says */
    event.epoch = 50;
    step(event);
    assert_int_equal(state_of(0), ROTA_GET_FOUND);
    assert_int_equal(state_of(1), ROTA_GET_PENDING);
    assert_int_equal(world.n_sent, 2);
    assert_int_not_equal(world.sent[1].index, world.sent[0].index);
}

static void a_stale_epoch_is_refused(void **state)
{
    (void)state;
    list_hosts(5);
    START(ROTA_GET_MODE_BROADCAST, ROTA_SEC, 0);
    assert_int_equal(world.n_sent, 2);
    teach(4, rota_interval_of(0, 2), 60); /* another host of the same dc has it now */
    struct rota_get_fsm_event event = answer_of(sent_to(0));
    step(event);
    assert_int_equal(state_of(0), ROTA_GET_PENDING);
    assert_int_equal(world.stats.n_stale, 1);
    answer(sent_to(2)); /* the other dc has epochs of its own */
    assert_well();
}

static void a_host_that_has_left_is_not_believed(void **state)
{
    (void)state;
    START(ROTA_GET_MODE_BROADCAST, ROTA_SEC, 1);
    struct rota_get_fsm_event event = answer_of(sent_to(3));
    list_hosts(3);
    step(event);
    assert_int_equal(state_of(0), ROTA_GET_PENDING);
    answer(sent_to(1));
    assert_well();
}

static void an_answer_without_a_shard_or_with_nonsense_is_a_failure(void **state)
{
    (void)state;
    START(ROTA_GET_MODE_BROADCAST, ROTA_SEC, 0);
    struct rota_get_fsm_event event = answer_of(sent_to(0));
    event.shard = (struct rota_interval){9, 3, 0};
    step(event);
    event = answer_of(sent_to(2));
    event.has_shard = false;
    step(event);
    assert_int_equal(state_of(0), ROTA_GET_PENDING);
    assert_int_equal(rota_get_fsm_try(&world.fsm, 0)->failure, ROTA_FAILURE_INTERNAL);
    assert_int_equal(rota_get_fsm_try(&world.fsm, 1)->failure, ROTA_FAILURE_INTERNAL);
}

/* --- failures and time --- */

static void a_host_that_fails_is_tried_once_more_apart_from_the_others(void **state)
{
    (void)state;
    START(ROTA_GET_MODE_BROADCAST, 10 * ROTA_SEC, 0);
    fail_try(sent_to(0), ROTA_FAILURE_UNREACHABLE);
    assert_int_equal(world.n_sent, 2); /* not at once */
    tick_at(rota_get_fsm_deadline(&world.fsm));
    assert_int_equal(world.n_sent, 3);
    assert_int_equal(world.sent[2].index, 0);
    fail_try(sent_to(0), ROTA_FAILURE_UNREACHABLE);
    tick_at(90 * ROTA_MSEC);
    assert_int_equal(world.n_sent, 3);
    answer(sent_to(2));
    assert_well();
}

static void a_host_that_does_not_answer_in_time_is_cancelled_and_tried_again(void **state)
{
    (void)state;
    START(ROTA_GET_MODE_BROADCAST, 10 * ROTA_SEC, 0);
    assert_int_equal(sent_to(0)->deadline, 100 * ROTA_MSEC);
    struct sent first = *sent_to(0);
    tick_at(100 * ROTA_MSEC);
    assert_true(world.sent[0].is_cancelled);
    assert_true(world.sent[1].is_cancelled);
    tick_at(150 * ROTA_MSEC);
    assert_int_equal(world.n_sent, 4);
    answer(&first); /* too late: its try is over */
    assert_int_equal(world.n_finished, 0);
    answer(sent_to(0));
    assert_well();
}

static void a_key_is_not_forgotten_when_its_host_dies(void **state)
{
    (void)state;
    START(ROTA_GET_MODE_HEDGE, 10 * ROTA_SEC, 0, 2);
    assert_int_equal(world.n_sent, 1);
    fail_try(&world.sent[0], ROTA_FAILURE_BROKEN);
    assert_int_equal(world.n_sent, 2); /* the other replica, at once */
    assert_int_not_equal(world.sent[1].index, world.sent[0].index);
    fail_try(&world.sent[1], ROTA_FAILURE_BROKEN);
    tick_at(50 * ROTA_MSEC);
    assert_int_equal(world.n_sent, 3); /* one of them once more */
    answer(&world.sent[2]);
    assert_well();
}

static void when_all_have_failed_they_are_asked_again_after_a_while(void **state)
{
    (void)state;
    START(ROTA_GET_MODE_BROADCAST, 10 * ROTA_SEC, 0);
    for (size_t i = 0; world.n_sent < 6 && world.now < 9 * ROTA_SEC; i++) {
        while (i < world.n_sent)
            fail_try(&world.sent[i++], ROTA_FAILURE_UNREACHABLE);
        i = world.n_sent - 1;
        tick_at(rota_get_fsm_deadline(&world.fsm));
    }
    assert_true(world.n_sent >= 6);
    assert_int_equal(world.n_finished, 0);
    answer(&world.sent[world.n_sent - 1]);
    assert_well();
}

/* Of a Get of keys 0, 1 and 2: both holders of the even keys fail, and there is no token. */
static void lose_shard_0_without_tokens(void)
{
    rota_budget_init(&world.budget, 0, &(struct rota_budget_options){0});
    START(ROTA_GET_MODE_BROADCAST, 10 * ROTA_SEC, 0, 1, 2);
    fail_try(sent_to(0), ROTA_FAILURE_BROKEN);
    fail_try(sent_to(2), ROTA_FAILURE_UNREACHABLE);
    answer(sent_to(1));
}

static void without_tokens_it_asks_nobody_again_and_waits_until_its_deadline(void **state)
{
    rota_time pause = 0;
    (void)state;
    lose_shard_0_without_tokens();
    while (world.n_finished == 0) {
        rota_time at = rota_get_fsm_deadline(&world.fsm);
        assert_true(at > world.now && at <= 10 * ROTA_SEC);
        pause = at - world.now > pause ? at - world.now : pause;
        tick_at(at);
    }
    assert_int_equal(world.now, 10 * ROTA_SEC);
    assert_in_range(pause, ROTA_GET_BACKOFF_MAX / 2, ROTA_GET_BACKOFF_MAX); /* it grows */
    assert_int_equal(world.n_sent, 4);
    assert_missing(2, ROTA_FAILURE_DEADLINE);
    assert_int_equal(state_of(0), ROTA_GET_NO_ANSWER);
    assert_int_equal(state_of(1), ROTA_GET_FOUND);
    assert_int_equal(rota_get_fsm_result(&world.fsm, 2).failure, ROTA_FAILURE_UNREACHABLE);
}

static void it_goes_on_when_there_is_a_token(void **state)
{
    (void)state;
    lose_shard_0_without_tokens();
    tick_at(rota_get_fsm_deadline(&world.fsm));
    tick_at(rota_get_fsm_deadline(&world.fsm));
    assert_int_equal(world.n_sent, 4);
    rota_budget_init(&world.budget, world.now, &(struct rota_budget_options){.per_second = 1});
    tick_at(rota_get_fsm_deadline(&world.fsm));
    assert_int_equal(world.n_sent, 6);
    assert_int_equal(world.budget.n_spent, 1);
    answer(sent_to(2));
    assert_well();
}

static void a_host_that_answers_again_ends_the_pause(void **state)
{
    (void)state;
    lose_shard_0_without_tokens();
    for (int i = 0; i < ROTA_INTERVAL_FAILURES; i++)
        rota_interval_map_failed(world.map, id_at(0));
    step((struct rota_get_fsm_event){.type = ROTA_GET_MAP_CHANGED}); /* it is not of them */
    assert_int_equal(world.n_sent, 4);
    rota_budget_init(&world.budget, world.now, &(struct rota_budget_options){.per_second = 1});
    uint64_t version = rota_interval_map_version(world.map);
    teach(0, rota_interval_of(0, 2), 10); /* a ping: it is there, as it was */
    assert_int_not_equal(rota_interval_map_version(world.map), version);
    step((struct rota_get_fsm_event){.type = ROTA_GET_MAP_CHANGED});
    assert_true(world.n_sent > 4);
    assert_int_equal(world.budget.n_spent, 1);
    answer(sent_to(0));
    assert_well();
}

static void a_wrong_request_is_not_sent_elsewhere(void **state)
{
    (void)state;
    START(ROTA_GET_MODE_HEDGE, 10 * ROTA_SEC, 0, 1);
    fail_try(&world.sent[0], ROTA_FAILURE_INPUT);
    assert_int_equal(world.n_sent, 2);
    answer(&world.sent[1]);
    assert_missing(1, ROTA_FAILURE_INPUT);
}

static void no_try_begins_at_the_deadline_and_none_outlives_it(void **state)
{
    (void)state;
    START(ROTA_GET_MODE_BROADCAST, 150 * ROTA_MSEC, 0);
    tick_at(100 * ROTA_MSEC);
    tick_at(130 * ROTA_MSEC);
    assert_int_equal(world.n_sent, 4);
    assert_int_equal(sent_to(0)->deadline, 150 * ROTA_MSEC);
    tick_at(150 * ROTA_MSEC);
    assert_missing(1, ROTA_FAILURE_DEADLINE);
    assert_true(world.sent[2].is_cancelled && world.sent[3].is_cancelled);
    assert_int_equal(rota_get_fsm_result(&world.fsm, 0).failure, ROTA_FAILURE_TIMEOUT);
    assert_int_equal(rota_get_fsm_deadline(&world.fsm), ROTA_TIME_NEVER);
}

static void a_get_that_begins_too_late_sends_nothing(void **state)
{
    (void)state;
    world.now = ROTA_SEC;
    START(ROTA_GET_MODE_BROADCAST, ROTA_SEC, 0);
    assert_int_equal(world.n_sent, 0);
    assert_int_equal(world.n_finished, 1);
    assert_int_equal(world.n_missing, 1);
}

static void a_caller_that_gives_up_is_told_so(void **state)
{
    (void)state;
    START(ROTA_GET_MODE_BROADCAST, ROTA_SEC, 0);
    step((struct rota_get_fsm_event){.type = ROTA_GET_CANCEL});
    assert_missing(1, ROTA_FAILURE_CANCELLED);
    assert_true(world.sent[0].is_cancelled && world.sent[1].is_cancelled);
    step((struct rota_get_fsm_event){.type = ROTA_GET_CANCEL});
}

static void a_host_that_is_not_live_is_asked_only_when_no_other_is_left(void **state)
{
    (void)state;
    for (int i = 0; i < ROTA_INTERVAL_FAILURES; i++)
        rota_interval_map_failed(world.map, id_at(0));
    START(ROTA_GET_MODE_BROADCAST, 10 * ROTA_SEC, 0);
    assert_int_equal(world.n_sent, 1);
    assert_int_equal(world.sent[0].index, 2);
    mismatch(&world.sent[0], rota_interval_of(1, 2), 50);
    assert_int_equal(world.n_sent, 2);
    assert_int_equal(world.sent[1].index, 0);
    answer(&world.sent[1]);
    assert_well();
}

/* --- hedges --- */

static void know_what_is_usual(void)
{
    for (int i = 0; i < 100; i++)
        rota_hedge_record(&world.hedge, 0, 5 * ROTA_MSEC);
    for (int i = 0; i < 100; i++)
        rota_hedge_begin(&world.hedge, 0, ROTA_TIME_NEVER);
}

static void hedge_sends_one_copy_and_another_when_it_is_slow(void **state)
{
    (void)state;
    know_what_is_usual();
    START(ROTA_GET_MODE_HEDGE, ROTA_SEC, 0, 2);
    assert_int_equal(world.n_sent, 1);
    rota_time at = rota_get_fsm_deadline(&world.fsm);
    assert_in_range(at, 4 * ROTA_MSEC, 6 * ROTA_MSEC);
    tick_at(at);
    assert_int_equal(world.n_sent, 2);
    assert_true(world.sent[1].is_hedge);
    assert_int_not_equal(world.sent[1].index, world.sent[0].index);
    tick_at(90 * ROTA_MSEC); /* a hedge is not hedged */
    assert_int_equal(world.n_sent, 2);
    answer(&world.sent[1]);
    assert_well();
    assert_true(world.sent[0].is_cancelled);
}

/* It is stuck, and those that took the tokens were only a little slow. */
static void a_slow_try_without_a_token_asks_for_one_again(void **state)
{
    (void)state;
    for (int i = 0; i < 60; i++)
        rota_hedge_record(&world.hedge, 0, 5 * ROTA_MSEC);
    START(ROTA_GET_MODE_HEDGE, ROTA_SEC, 0);
    rota_time delay = world.hedge.delay;
    tick_at(delay);
    assert_int_equal(world.n_sent, 1);
    assert_int_equal(rota_get_fsm_deadline(&world.fsm), 2 * delay);
    for (int i = 0; i < 40; i++)
        rota_budget_earn(&world.hedge.budget, world.now);
    tick_at(2 * delay);
    assert_int_equal(world.n_sent, 2);
    assert_true(world.sent[1].is_hedge);
    answer(&world.sent[1]);
    assert_well();
}

/* Frozen: it accepts all, and answers nothing. */
static void a_host_that_loses_to_hedges_three_times_in_a_row_is_not_live(void **state)
{
    (void)state;
    know_what_is_usual();
    for (int i = 0; i < ROTA_INTERVAL_FAILURES; i++) {
        assert_true(rota_interval_map_host(world.map, 0)->is_live);
        for (int j = 0; j < ROTA_INTERVAL_FAILURES; j++) /* so that it is not asked first */
            rota_interval_map_failed(world.map, id_at(2));
        world.n_sent = 0;
        START(ROTA_GET_MODE_HEDGE, ROTA_TIME_NEVER, 0);
        assert_int_equal(world.sent[0].index, 0);
        tick_at(rota_get_fsm_deadline(&world.fsm));
        assert_int_equal(world.n_sent, 2);
        answer(&world.sent[1]);
        assert_true(world.sent[0].is_cancelled);
    }
    assert_false(rota_interval_map_host(world.map, 0)->is_live);
    for (int i = 0; i < 20; i++) {
        world.n_sent = 0;
        START(ROTA_GET_MODE_HEDGE, ROTA_TIME_NEVER, 0);
        assert_int_equal(world.sent[0].index, 2);
        answer(&world.sent[0]);
    }
    teach(0, rota_interval_of(0, N_SHARDS), 20); /* a ping was answered */
    assert_true(rota_interval_map_host(world.map, 0)->is_live);
}

/* Slower than another at one moment is not frozen. */
static void a_host_that_answers_between_its_losses_stays_live(void **state)
{
    (void)state;
    for (int i = 0; i < 3 * ROTA_INTERVAL_FAILURES; i++) {
        know_what_is_usual();
        for (int j = 0; j < ROTA_INTERVAL_FAILURES; j++)
            rota_interval_map_failed(world.map, id_at(2));
        world.n_sent = 0;
        START(ROTA_GET_MODE_HEDGE, ROTA_TIME_NEVER, 0);
        assert_int_equal(world.sent[0].index, 0);
        tick_at(rota_get_fsm_deadline(&world.fsm));
        answer(&world.sent[i % 2]);
        assert_well();
    }
    assert_true(rota_interval_map_host(world.map, 0)->is_live);
}

static void a_hedge_needs_a_token(void **state)
{
    (void)state;
    for (int i = 0; i < 100; i++)
        rota_hedge_record(&world.hedge, 0, 5 * ROTA_MSEC);
    START(ROTA_GET_MODE_HEDGE, ROTA_SEC, 0);
    tick_at(rota_get_fsm_deadline(&world.fsm));
    assert_int_equal(world.n_sent, 1);
    assert_int_equal(world.stats.n_unbudgeted, 1);
    answer(&world.sent[0]);
    assert_well();
}

static void adaptive_does_what_the_load_allows(void **state)
{
    (void)state;
    START(ROTA_GET_MODE_ADAPTIVE, ROTA_SEC, 0);
    assert_int_equal(world.n_sent, 2);
    answer(&world.sent[0]);
    world.load.step = 0;
    START(ROTA_GET_MODE_ADAPTIVE, 2 * ROTA_SEC, 0);
    assert_int_equal(world.n_sent, 3);
    answer(&world.sent[2]);
    assert_well();
}

/* --- many keys --- */

static void a_dc_that_is_re_sharded_is_asked_by_its_new_shards(void **state)
{
    (void)state;
    list_hosts(6);
    teach(0, rota_interval_of(0, 4), 50);
    teach(1, rota_interval_of(1, 4), 51);
    teach(4, rota_interval_of(2, 4), 52); /* and nobody has 3 of 4 */
    START(ROTA_GET_MODE_BROADCAST, ROTA_SEC, 0, 1, 2, 3);
    assert_int_equal(sent_to(2)->n_keys, 2);
    assert_int_equal(sent_to(3)->n_keys, 2);
    assert_int_equal(sent_to(0)->n_keys, 1);
    assert_int_equal(sent_to(1)->n_keys, 1);
    assert_int_equal(sent_to(4)->n_keys, 1);
    assert_null(sent_to(5));
    answer(sent_to(2));
    assert_true(sent_to(0)->is_cancelled && sent_to(4)->is_cancelled);
    answer(sent_to(1));
    assert_int_equal(world.n_finished, 0);
    answer(sent_to(3));
    assert_well();
}

static void keys_of_one_host_travel_together(void **state)
{
    (void)state;
    teach(0, rota_interval_of(0, 4), 50);
    teach(1, rota_interval_of(2, 4), 51);
    for (int i = 0; i < 20; i++) {
        world.n_sent = 0;
        START(ROTA_GET_MODE_HEDGE, ROTA_SEC, 0, 2, 4, 6);
        assert_true(world.n_sent <= 2);
        for (size_t s = 0; s < world.n_sent; s++)
            if (world.n_finished == 0)
                answer(&world.sent[s]);
        assert_well();
    }
}

static void at_rest_nothing_is_allocated(void **state)
{
    const void *before[4] = {NULL}, *after[4];
    (void)state;
    for (int i = 0; i < 3; i++) {
        world.n_sent = 0;
        START(ROTA_GET_MODE_BROADCAST, ROTA_SEC, 0, 1, 2, 3, 4, 5, 6, 7);
        answer(&world.sent[0]);
        answer(&world.sent[1]);
        if (world.n_finished == 0)
            answer(&world.sent[2]);
        assert_well();
        const void *now[4] = {world.fsm.keys.items.items, world.fsm.lists.items,
                              world.fsm.tries.items, world.fsm.actions.items};
        memcpy(i == 0 ? before : after, now, sizeof now);
    }
    assert_memory_equal(before, after, sizeof before);
}

static void too_many_keys_are_refused(void **state)
{
    struct rota_error error;
    struct rota_get_fsm_options options = {.n_keys = ROTA_GET_KEYS_MAX + 1};
    (void)state;
    assert_int_equal(rota_get_fsm_start(&world.fsm, 0, &options, &error), ROTA_ERR_LIMIT);
    assert_true(rota_get_fsm_is_done(&world.fsm));
    START(ROTA_GET_MODE_HEDGE, ROTA_SEC, 0);
    answer(&world.sent[0]);
    assert_well();
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_get_of_nothing_succeeds_at_once),
        TEST(each_key_goes_to_every_replica_of_its_shard_and_to_no_other),
        TEST(the_first_answer_wins_and_the_loser_is_cancelled_at_once),
        TEST(the_caller_is_called_as_soon_as_all_keys_are_there),
        TEST(a_late_answer_only_teaches_the_map),
        TEST(an_answer_that_comes_twice_is_taken_once),
        TEST(a_key_asked_for_twice_is_sent_once_and_answered_twice),
        TEST(a_duplicate_that_is_missing_is_named_twice),
        TEST(the_same_id_in_two_shards_is_two_keys),
        TEST(an_entry_that_was_not_asked_for_is_ignored),
        TEST(an_entry_that_is_missing_is_an_absent_value),
        TEST(a_key_that_an_answer_leaves_out_is_asked_for_again_there),
        TEST(a_host_that_leaves_out_all_has_failed),
        TEST(a_value_that_can_not_be_given_is_missing_at_once_and_harms_no_other),
        TEST(who_refuses_a_key_does_not_speak_for_the_others_that_are_asked),
        TEST(a_false_all_matched_is_not_retried_there),
        TEST(a_false_all_matched_teaches_and_moves_the_keys),
        TEST(a_host_that_has_taken_the_shard_since_is_asked),
        TEST(a_host_that_changes_its_shard_all_the_time_is_not_asked_for_ever),
        TEST(a_replica_that_is_learned_of_later_joins_a_broadcast),
        TEST(a_replica_that_is_not_live_or_is_of_a_hedge_does_not_join),
        TEST(a_key_without_a_shard_waits_a_ping_time_and_looks_again),
        TEST(the_wait_for_a_shard_ends_with_the_deadline),
        TEST(without_a_deadline_the_waits_end_too),
        TEST(keys_with_a_shard_do_not_wait_for_those_without),
        TEST(a_key_that_the_answering_shard_does_not_have_is_not_answered),
        TEST(a_stale_epoch_is_refused),
        TEST(a_host_that_has_left_is_not_believed),
        TEST(an_answer_without_a_shard_or_with_nonsense_is_a_failure),
        TEST(a_host_that_fails_is_tried_once_more_apart_from_the_others),
        TEST(a_host_that_does_not_answer_in_time_is_cancelled_and_tried_again),
        TEST(a_key_is_not_forgotten_when_its_host_dies),
        TEST(when_all_have_failed_they_are_asked_again_after_a_while),
        TEST(without_tokens_it_asks_nobody_again_and_waits_until_its_deadline),
        TEST(it_goes_on_when_there_is_a_token),
        TEST(a_host_that_answers_again_ends_the_pause),
        TEST(a_wrong_request_is_not_sent_elsewhere),
        TEST(no_try_begins_at_the_deadline_and_none_outlives_it),
        TEST(a_get_that_begins_too_late_sends_nothing),
        TEST(a_caller_that_gives_up_is_told_so),
        TEST(a_host_that_is_not_live_is_asked_only_when_no_other_is_left),
        TEST(hedge_sends_one_copy_and_another_when_it_is_slow),
        TEST(a_slow_try_without_a_token_asks_for_one_again),
        TEST(a_host_that_loses_to_hedges_three_times_in_a_row_is_not_live),
        TEST(a_host_that_answers_between_its_losses_stays_live),
        TEST(a_hedge_needs_a_token),
        TEST(adaptive_does_what_the_load_allows),
        TEST(a_dc_that_is_re_sharded_is_asked_by_its_new_shards),
        TEST(keys_of_one_host_travel_together),
        TEST(at_rest_nothing_is_allocated),
        TEST(too_many_keys_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
