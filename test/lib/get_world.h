/* One Get over four hosts that the test plays: what the machine sends is noted, and the
 * test answers. */
#pragma once

#include "core/call/get/get_fsm.h"
#include "vectors.h"

enum { LOG_MAX = 256, KEYS_MAX = 64, HOSTS_MAX = 16, N_SHARDS = 2, CLAIMS_MAX = 8 };

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
    struct rota_interval_claim claims[CLAIMS_MAX]; /* of the answer that is being made */
    struct rota_get_stats counted;                 /* by the actions, to compare with `stats` */
};

extern struct world world; /* large */

void list_hosts(size_t n);
uint64_t id_at(size_t index);
void teach(size_t index, struct rota_interval shard, uint64_t epoch);
int setup(void **state);
int teardown(void **state);
void drain(void);

/* Keys with the ids 100, 101, ... and the given sharding keys. */
void start(enum rota_get_mode mode, rota_time deadline, size_t n, const uint64_t *keys);

#define START(mode, deadline, ...)                                                                 \
    start(mode, deadline, sizeof(uint64_t[]){__VA_ARGS__} / sizeof(uint64_t),                      \
          (uint64_t[]){__VA_ARGS__})

void step(struct rota_get_fsm_event event);
void tick_at(rota_time now);

/* The try's host answers all its keys, as what it holds by the map. */
struct rota_get_fsm_event answer_of(const struct sent *sent);

void answer(const struct sent *sent);

/* It does not hold these keys, but this. */
void mismatch(const struct sent *sent, struct rota_interval shard, uint64_t epoch);

void fail_try(const struct sent *sent, enum rota_failure failure);

/* The latest that went to the host, or NULL. */
struct sent *sent_to(size_t index);

enum rota_get_key_state state_of(size_t key);
void assert_well(void);
void assert_missing(size_t n, enum rota_failure failure);

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
