/* One Get over four hosts that the test plays: what the machine sends is noted, and the
 * test answers. */
#pragma once

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

static inline void list_hosts(size_t n)
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

static inline uint64_t id_at(size_t index)
{
    return rota_interval_map_host(world.map, index)->id;
}

static inline void teach(size_t index, struct rota_interval shard, uint64_t epoch)
{
    struct rota_interval_lesson lesson = {rota_interval_map_number(world.map), true, shard, epoch};
    rota_interval_map_learn(world.map, id_at(index), &lesson);
}

static inline int setup(void **state)
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

static inline int teardown(void **state)
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

static inline void note_send(const struct rota_get_fsm_action *action)
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

static inline struct sent *find_sent(uint64_t number)
{
    for (size_t i = 0; i < world.n_sent; i++)
        if (world.sent[i].number == number)
            return &world.sent[i];
    fail_msg("nothing was sent under this number");
    return NULL;
}

static inline void drain(void)
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
static inline void start(enum rota_get_mode mode, rota_time deadline, size_t n,
                         const uint64_t *keys)
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

static inline void step(struct rota_get_fsm_event event)
{
    rota_get_fsm_step(&world.fsm, world.now, &event);
    drain();
}

static inline void tick_at(rota_time now)
{
    world.now = now;
    step((struct rota_get_fsm_event){.type = ROTA_GET_TICK});
}

/* The try's host answers all its keys, as what it holds by the map. */
static inline struct rota_get_fsm_event answer_of(const struct sent *sent)
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

static inline void answer(const struct sent *sent)
{
    step(answer_of(sent));
}

/* It does not hold these keys, but this. */
static inline void mismatch(const struct sent *sent, struct rota_interval shard, uint64_t epoch)
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

static inline void fail_try(const struct sent *sent, enum rota_failure failure)
{
    step((struct rota_get_fsm_event){
        .type = ROTA_GET_FAILED, .number = sent->number, .failure = failure});
}

/* The latest that went to the host, or NULL. */
static inline struct sent *sent_to(size_t index)
{
    for (size_t i = world.n_sent; i-- > 0;)
        if (world.sent[i].index == index)
            return &world.sent[i];
    return NULL;
}

static inline enum rota_get_key_state state_of(size_t key)
{
    return rota_get_fsm_result(&world.fsm, key).state;
}

static inline void assert_well(void)
{
    assert_int_equal(world.n_finished, 1);
    assert_int_equal(world.failure, ROTA_FAILURE_NONE);
    assert_int_equal(world.n_missing, 0);
}

static inline void assert_missing(size_t n, enum rota_failure failure)
{
    assert_int_equal(world.n_finished, 1);
    assert_int_equal(world.n_missing, n);
    assert_int_equal(world.failure, failure);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
