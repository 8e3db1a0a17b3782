/* What becomes of a call when memory runs out: it finishes once, reports each try once, leaks
 * nothing, and the next call on the same balancer and blacklist goes well. */
#include "no_memory.h"

#include "core/call/call_fsm.h"
#include "core/call/get/interval_map.h"
#include "core/call/get/loads.h"
#include "core/call/get/lru.h"
#include "core/call/shards/pool_fsm.h"
#include "core/call/shards/shard_cache.h"

#define rota_call_fsm_step(...) NO_MEMORY_IN(rota_call_fsm_step(__VA_ARGS__))
#include "call_world.c" /* compiled here for the call above */

static void call_with(enum rota_balancer_policy policy)
{
    struct world world;
    setup_with(&world, MAP(1, 2, 3), policy);
    SCRIPT(&world, ROTA_FAILURE_BROKEN, ROTA_FAILURE_NONE);
    if (run(&world, IDEMPOTENT)) {
        assert_true(no_memory_has_failed());
        assert_true(world.n_tried <= 3);
    } else {
        assert_true(world.n_tried >= 2);
    }
    rota_call_fsm_deinit(&world.fsm, world.now);
    assert_int_equal(rota_balancer_n_tries(world.balancer), 0);

    no_memory_end();
    world.n_finished = 0;
    SCRIPT(&world, ROTA_FAILURE_NONE);
    assert_int_equal(run(&world, IDEMPOTENT), ROTA_FAILURE_NONE);
    teardown(&world);
}

static void call_by_round_robin(void)
{
    call_with(ROTA_BALANCER_ROUND_ROBIN);
}

static void call_by_rota(void)
{
    call_with(ROTA_BALANCER_ROTA);
}

static void call_by_look_aside(void)
{
    call_with(ROTA_BALANCER_LOOK_ASIDE);
}

static void a_call_finishes_and_the_next_succeeds(void **state)
{
    (void)state;
    no_memory_everywhere(call_by_round_robin);
    no_memory_everywhere(call_by_rota);
    no_memory_everywhere(call_by_look_aside);
}

/* OK, or refused because of the failure that was planted. */
static bool is_done(enum rota_code code)
{
    assert_true(code == ROTA_OK || (code == ROTA_ERR_NO_MEMORY && no_memory_has_failed()));
    return code == ROTA_OK;
}

/* Answer all questions; how many waiters are told. */
static int answer_shards(struct rota_shard_cache *cache)
{
    struct rota_shard_action action;
    int n_told = 0;
    while (rota_shard_cache_next(cache, &action)) {
        if (action.type == ROTA_SHARD_ASK) {
            int64_t node = action.collection;
            struct rota_shard_map *map = map_of(1, &node, 0);
            map->collection = action.collection;
            NO_MEMORY_DURING(
                rota_shard_cache_answered(cache, 0, action.flight, ROTA_FAILURE_NONE, map));
        } else if (action.type == ROTA_SHARD_TELL) {
            assert_true(action.map || no_memory_has_failed());
            rota_shard_map_drop(action.map);
            n_told++;
        }
    }
    return n_told;
}

/* Each waiter is told once, and what could not be kept is asked for again. */
static void look_up_shards(void)
{
    static const char *const NAMES[] = {"a", "b", "c", "d", "e", "f"};
    enum { N = sizeof NAMES / sizeof *NAMES };
    struct rota_shard_cache *cache = NULL;
    if (!is_done(NO_MEMORY_IN(
            rota_shard_cache_new(&(struct rota_shard_cache_options){.seed = 1}, &cache, NULL))))
        return;
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < N; i++) {
            struct rota_shard_query query = {.database = rota_str("db"),
                                             .name = rota_str(NAMES[i]),
                                             .collection = i + 1,
                                             .with_cache = true,
                                             .waiter = (uint64_t)i + 1};
            struct rota_shard_map *map = NULL;
            while (!is_done(NO_MEMORY_IN(rota_shard_cache_get(cache, 0, &query, &map, NULL))))
                no_memory_end();
            assert_int_equal(answer_shards(cache), map == NULL);
            rota_shard_map_drop(map);
        }
        no_memory_end();
    }
    for (int i = 0; i < N; i++)
        assert_non_null(rota_shard_cache_peek(cache, i + 1));
    assert_int_equal(rota_shard_cache_n_waiters(cache) + rota_shard_cache_n_flights(cache), 0);
    rota_shard_cache_free(cache);
}

/* Who is refused can ask again, and everybody else gets a connection. */
static void open_connections(void)
{
    enum { N = 6 };
    struct rota_pool_fsm *pools = NULL;
    struct rota_pool_action action;
    int n_told = 0;
    if (!is_done(NO_MEMORY_IN(rota_pool_fsm_new(&(struct rota_pool_options){0}, &pools, NULL))))
        return;
    for (int i = 0; i < N; i++) {
        uint64_t connection = 0;
        while (!is_done(NO_MEMORY_IN(rota_pool_fsm_get(pools, 0, i % 3, rota_str("a:1"),
                                                       (uint64_t)i + 1, &connection, NULL))))
            no_memory_end();
        n_told += connection != 0;
        while (rota_pool_fsm_next(pools, &action)) {
            n_told += action.type == ROTA_POOL_TELL;
            if (action.type == ROTA_POOL_OPEN)
                rota_pool_fsm_opened(pools, 0, action.connection);
        }
    }
    assert_int_equal(n_told, N);
    rota_pool_fsm_free(pools);
}

/* A list that is refused changes nothing; a lesson that is forgotten is learned from the next. Keys
 * are divided in two ways, and each has a replica of either. */
static void learn_intervals(void)
{
    enum { HOSTS = 5, KEYS = 12 };
    struct rota_interval_member members[HOSTS] = {{{"a:1", 3}, {"x", 1}},
                                                  {{"b:1", 3}, {"x", 1}},
                                                  {{"c:1", 3}, {"y", 1}},
                                                  {{"d:1", 3}, {"y", 1}},
                                                  {{"e:1", 3}, {"y", 1}}};
    struct rota_interval_map *map = NULL;
    uint64_t keys[KEYS];
    uint32_t routes[KEYS];
    if (!is_done(NO_MEMORY_IN(rota_interval_map_new(1, &map, NULL))))
        return;
    while (!is_done(NO_MEMORY_IN(rota_interval_map_set_hosts(map, members, HOSTS, NULL)))) {
        assert_int_equal(rota_interval_map_n_hosts(map), 0);
        no_memory_end();
    }
    for (uint64_t i = 0; i < KEYS; i++)
        keys[i] = i;
    for (int round = 0; round < 2; round++) {
        for (size_t i = 0; i < HOSTS; i++) {
            struct rota_interval_claim claims[] = {
                {i < 2 ? rota_interval_of(i, 2) : rota_interval_of(i - 2, 3), 10 + (uint64_t)round},
                {rota_interval_of(1000 + i, 2000), 10 + (uint64_t)round},
            };
            struct rota_interval_lesson lesson = {rota_interval_map_number(map), claims, 2};
            NO_MEMORY_DURING(
                rota_interval_map_learn(map, rota_interval_map_host(map, i)->id, &lesson));
        }
        if (!NO_MEMORY_IN(rota_interval_map_lookup(map, keys, KEYS, routes)))
            assert_true(no_memory_has_failed());
        no_memory_end();
    }
    for (size_t i = 0; i < KEYS; i++) {
        struct rota_interval_replicas found = rota_interval_map_replicas(map, routes[i]);
        uint64_t of_two = rota_interval_map_host(map, i % 2)->id;
        uint64_t of_three = rota_interval_map_host(map, 2 + i % 3)->id;
        assert_int_equal(found.n, 2);
        assert_true(found.items[0]->id == of_two || found.items[0]->id == of_three);
        assert_true(found.items[1]->id == of_two || found.items[1]->id == of_three);
        assert_true(found.items[0]->id != found.items[1]->id);
    }
    rota_interval_map_free(map);
}

/* What could not be asked for is not waited for; the rest is read, in as many reads as it
 * takes. */
static void load_keys(void)
{
    struct rota_loads loads;
    struct rota_load_asker asker = {0};
    size_t n_asked = 0, n_settled = 0;
    rota_loads_init(&loads, &(struct rota_loads_options){100, 5, 2}, 1);
    for (uint32_t i = 0; i < 12; i++) {
        char key[] = {(char)('a' + i), 0};
        n_asked += is_done(NO_MEMORY_IN(rota_loads_ask(&loads, rota_str(key), &asker, i)));
        assert_int_equal(asker.n_waiting, n_asked);
    }
    while (n_settled < n_asked) {
        struct rota_load_read *read = NO_MEMORY_IN(rota_loads_begin(&loads));
        struct rota_str name;
        uint32_t index;
        if (!read) {
            assert_true(no_memory_has_failed());
            no_memory_end();
            continue;
        }
        for (; rota_loads_next_asker_left(&loads, read, &name, &index); n_settled++)
            assert_int_equal(name.data[0], 'a' + (int)index);
        rota_loads_end(&loads, read);
    }
    rota_loads_deinit(&loads);
}

/* What could not be kept is not there, and nothing else is in its place. */
static void keep_values(void)
{
    struct rota_lru lru;
    rota_lru_init(&lru, 1 << 20, 0, 1);
    for (int i = 0; i < 20; i++) {
        char key[] = {(char)('a' + i), 0};
        struct rota_str value = rota_str(key), found;
        bool is_kept = NO_MEMORY_IN(rota_lru_put(&lru, rota_str(key), &value, ROTA_SEC));
        assert_true(is_kept || no_memory_has_failed());
        assert_int_equal(rota_lru_get(&lru, 0, rota_str(key), &found),
                         is_kept ? ROTA_LRU_VALUE : ROTA_LRU_MISS);
    }
    rota_lru_deinit(&lru);
}

static void shared_state_of_calls_refuses_and_continues(void **state)
{
    (void)state;
    no_memory_everywhere(load_keys);
    no_memory_everywhere(keep_values);
    no_memory_everywhere(look_up_shards);
    no_memory_everywhere(open_connections);
    no_memory_everywhere(learn_intervals);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_call_finishes_and_the_next_succeeds),
        cmocka_unit_test(shared_state_of_calls_refuses_and_continues),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
