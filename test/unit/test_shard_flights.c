#include "cache_world.h"

#include "core/call/shards/shard_flights.h"

#include <rota/experimental/random.h>
#include <stdio.h>
#include <stdlib.h>

/* --- who shares one --- */

static void c9_two_ids_under_one_alias_are_two_questions(void **state)
{
    struct world world;
    (void)state;
    setup(&world);
    for (uint64_t i = 0; i < 20; i++) {
        struct rota_shard_query query = by_name("alias", i);
        query.collection = i % 2 ? 200 : 100;
        get(&world, 0, query);
    }
    assert_int_equal(world.n_asks, 2);
    answer(&world, 0, world.asked[0], map_of(100, "channel", 1));
    answer(&world, 0, world.asked[1], map_of(200, "channel", 2));
    assert_int_equal(world.n_tells, 20);
    for (size_t i = 0; i < 20; i++)
        assert_int_equal(world.first_nodes[i], world.told[i] % 2 ? 2 : 1);
    teardown(&world);
}

static void c10_names_that_change_under_one_id_share_a_question(void **state)
{
    struct world world;
    (void)state;
    setup(&world);
    for (uint64_t i = 0; i < 20; i++) {
        char name[32];
        snprintf(name, sizeof name, "name%d", (int)i);
        struct rota_shard_query query = by_name(name, i);
        query.collection = 7;
        get(&world, 0, forced(query));
    }
    assert_int_equal(world.n_asks, 1);
    teardown(&world);
}

static void waiter_that_leaves_returns_its_answer(void **state)
{
    struct world world;
    (void)state;
    setup(&world);
    assert_int_equal(get(&world, 0, by_id(1, 7)), 0);
    struct rota_shard_map *map = rota_shard_map_share(map_of(1, "channel", 5));
    rota_shard_cache_answered(world.cache, 0, world.last_ask.flight, ROTA_FAILURE_NONE, map);
    uint32_t n_shares = (uint32_t)map->n_shares;
    assert_true(rota_shard_cache_cancel(world.cache, 7)); /* before it was told */
    assert_int_equal(map->n_shares, n_shares - 1);
    pump(&world);
    assert_int_equal(world.n_tells, 0);
    rota_shard_map_drop(map);
    teardown(&world);
}

static void c11_many_misses_are_one_question(void **state)
{
    struct world world;
    (void)state;
    setup(&world);
    for (uint64_t i = 0; i < 32; i++)
        assert_int_equal(get(&world, 0, by_id(1, i)), 0);
    assert_int_equal(world.n_asks, 1);
    answer(&world, 0, world.asked[0], map_of(1, "channel", 5));
    assert_int_equal(world.n_tells, 32);
    for (size_t i = 0; i < 32; i++)
        assert_int_equal(world.first_nodes[i], 5);
    answer(&world, 0, world.asked[0], map_of(1, "channel", 6)); /* repeated: no news */
    assert_int_equal(get(&world, 0, by_id(1, 99)), 5);
    teardown(&world);
}

static void c12_newer_forced_flight_wins_over_an_older_one_that_ends_later(void **state)
{
    struct world world;
    (void)state;
    setup(&world);
    get(&world, 0, by_id(1, 1));
    get(&world, 0, forced(by_id(1, 2)));
    assert_int_equal(world.n_asks, 2);
    answer(&world, 0, world.asked[1], map_of(1, "channel", 22));
    answer(&world, 0, world.asked[0], map_of(1, "channel", 11));
    assert_int_equal(get(&world, 0, by_id(1, 3)), 22);
    assert_int_equal(world.told[1], 1);
    assert_int_equal(world.first_nodes[1], 22); /* the older one's waiter has the newer, too */

    get(&world, 0, forced(by_id(2, 4))); /* a read joins the newest that there is */
    get(&world, 0, by_id(2, 5));
    assert_int_equal(world.n_asks, 3);
    teardown(&world);
}

static void c13_cancelling_the_first_caller_leaves_the_flight(void **state)
{
    struct world world;
    (void)state;
    setup(&world);
    get(&world, 0, by_id(1, 1));
    get(&world, 0, by_id(1, 2));
    assert_true(rota_shard_cache_cancel(world.cache, 1));
    assert_false(rota_shard_cache_cancel(world.cache, 1));
    answer(&world, 0, world.asked[0], map_of(1, "channel", 5));
    assert_int_equal(world.n_tells, 1);
    assert_int_equal(world.told[0], 2);

    get(&world, 0, by_id(2, 3)); /* also when nobody is left */
    rota_shard_cache_cancel(world.cache, 3);
    answer(&world, 0, world.asked[1], map_of(2, "channel", 6));
    assert_int_equal(get(&world, 0, by_id(2, 4)), 6);
    teardown(&world);
}

static void c14_waiter_obeys_its_own_deadline(void **state)
{
    struct world world;
    (void)state;
    setup(&world);
    struct rota_shard_query hasty = by_id(1, 1);
    hasty.deadline = ROTA_SEC;
    get(&world, 0, hasty);
    get(&world, 0, by_id(1, 2));
    assert_int_equal(rota_shard_cache_deadline(world.cache), ROTA_SEC);
    step(&world, ROTA_SEC - 1);
    assert_int_equal(world.n_tells, 0);
    step(&world, ROTA_SEC);
    assert_int_equal(world.n_tells, 1);
    assert_int_equal(world.failures[0], ROTA_FAILURE_DEADLINE);
    answer(&world, 2 * ROTA_SEC, world.asked[0], map_of(1, "channel", 5));
    assert_int_equal(world.told[1], 2);
    assert_int_equal(world.first_nodes[1], 5);
    teardown(&world);
}

static void c15_flight_that_takes_too_long_is_asked_again(void **state)
{
    struct world world;
    (void)state;
    setup(&world);
    get(&world, 0, by_id(1, 1));
    assert_int_equal(rota_shard_cache_deadline(world.cache), 10 * ROTA_SEC);
    step(&world, 10 * ROTA_SEC);
    assert_int_equal(world.n_forgets, 1);
    assert_int_equal(world.n_tells, 0); /* who waits waits on */
    assert_int_equal(world.n_asks, 2);
    answer(&world, 11 * ROTA_SEC, world.asked[0], map_of(1, "channel", 5)); /* too late */
    assert_false(has(&world, 1));
    get(&world, 11 * ROTA_SEC, by_id(1, 2));
    assert_int_equal(world.n_asks, 2);
    answer(&world, 12 * ROTA_SEC, world.asked[1], map_of(1, "channel", 6));
    assert_int_equal(world.n_tells, 2);
    assert_int_equal(world.first_nodes[0], 6);
    teardown(&world);
}

static void flight_without_waiters_is_not_asked_again(void **state)
{
    struct world world;
    struct rota_shard_query query = by_id(1, 1);
    (void)state;
    setup(&world);
    query.deadline = ROTA_SEC;
    get(&world, 0, query);
    step(&world, 10 * ROTA_SEC);
    assert_int_equal(world.failures[0], ROTA_FAILURE_DEADLINE);
    assert_int_equal(world.n_forgets, 1);
    assert_int_equal(world.n_asks, 1);
    assert_int_equal(rota_shard_cache_n_flights(world.cache), 0);
    teardown(&world);
}

static void waiter_without_a_deadline_gives_up_an_unresponsive_directory(void **state)
{
    struct world world;
    struct rota_shard_query query = by_id(1, 2);
    (void)state;
    setup(&world);
    get(&world, 0, by_id(1, 1));
    query.deadline = 500 * ROTA_SEC;
    get(&world, 0, query);
    for (int i = 1; i < ROTA_SHARD_QUESTIONS_MAX; i++)
        step(&world, i * 10 * ROTA_SEC);
    assert_int_equal(world.n_tells, 0);
    step(&world, ROTA_SHARD_QUESTIONS_MAX * 10 * ROTA_SEC);
    assert_int_equal(world.n_tells, 1);
    assert_int_equal(world.told[0], 1);
    assert_int_equal(world.failures[0], ROTA_FAILURE_TIMEOUT);
    answer(&world, 101 * ROTA_SEC, world.asked[ROTA_SHARD_QUESTIONS_MAX], map_of(1, "channel", 6));
    assert_int_equal(world.told[1], 2); /* the other has gone on with the next question */
    assert_int_equal(world.first_nodes[1], 6);
    teardown(&world);
}

static void c16_invalidation_fences_flights_in_progress(void **state)
{
    struct world world;
    (void)state;
    setup(&world);
    get(&world, 0, by_id(1, 1));
    rota_shard_cache_invalidate(world.cache, (int64_t[]){1}, 1);
    get(&world, 0, by_id(1, 2));
    assert_int_equal(world.n_asks, 2);
    answer(&world, 0, world.asked[0], map_of(1, "channel", 11));
    assert_false(has(&world, 1));
    assert_int_equal(world.told[0], 1); /* who asked before still has an answer */
    answer(&world, 0, world.asked[1], map_of(1, "channel", 22));
    assert_int_equal(get(&world, 0, by_id(1, 3)), 22);
    assert_int_equal(rota_shard_cache_stats(world.cache)->n_fenced, 1);
    teardown(&world);
}

static void c16_flight_by_name_is_fenced_by_the_id_it_brings(void **state)
{
    struct world world;
    (void)state;
    setup(&world);
    get(&world, 0, by_name("a", 1));
    get(&world, 0, by_name("b", 2));
    get(&world, 0, by_name("c", 3));
    rota_shard_cache_invalidate(world.cache, (int64_t[]){1}, 1);
    rota_shard_cache_deprecate(world.cache, DB, rota_str("c"));
    answer(&world, 0, world.asked[0], map_of(1, "channel", 1));
    answer(&world, 0, world.asked[1], map_of(2, "channel", 2));
    answer(&world, 0, world.asked[2], map_of(3, "channel", 3));
    assert_true(!has(&world, 1) && has(&world, 2) && !has(&world, 3));
    assert_int_equal(rota_shard_cache_stats(world.cache)->n_fenced, 2);
    get(&world, 0, by_name("a", 4)); /* and one that begins later is not */
    answer(&world, 0, world.asked[3], map_of(1, "channel", 1));
    assert_true(has(&world, 1));
    teardown(&world);
}

static struct rota_shard_flight *begin_flight(struct rota_shard_flights *flights,
                                              int64_t collection, const char *database,
                                              const char *name)
{
    struct rota_shard_flight *flight =
        rota_shard_flights_begin(flights, 0, false, collection, rota_str(database), rota_str(name));
    assert_non_null(flight);
    return flight;
}

static void fence_applies_to_earlier_questions(void **state)
{
    struct rota_shard_flights flights;
    struct rota_str none = rota_str("");
    (void)state;
    rota_shard_flights_init(&flights, 1, ROTA_SEC);
    struct rota_shard_flight *all[] = {
        begin_flight(&flights, 7, "", ""), begin_flight(&flights, 8, "", ""),
        begin_flight(&flights, 0, "a", "x"), begin_flight(&flights, 0, "b", "x"), NULL};
    rota_shard_flights_fence_collection(&flights, 7);
    all[4] = begin_flight(&flights, 0, "a", "y");
    for (int i = 0; i < 5; i++) {
        assert_int_equal(rota_shard_flights_is_fenced(&flights, all[i], 7), i != 1 && i != 4);
        assert_int_equal(rota_shard_flights_is_fenced(&flights, all[i], 8), i == 0);
    }
    assert_null(rota_shard_flights_find(&flights, false, 7, none, none));
    assert_ptr_equal(rota_shard_flights_find(&flights, false, 8, none, none), all[1]);
    rota_shard_flights_fence_database(&flights, rota_str("a"));
    for (int i = 0; i < 5; i++)
        assert_int_equal(rota_shard_flights_is_fenced(&flights, all[i], 9),
                         i == 0 || i == 2 || i == 4);
    assert_null(rota_shard_flights_find(&flights, false, 0, rota_str("a"), rota_str("y")));
    assert_ptr_equal(rota_shard_flights_find(&flights, false, 0, rota_str("b"), rota_str("x")),
                     all[3]);
    for (int i = 0; i < 5; i++) {
        rota_shard_flights_end(&flights, all[i]);
        free(all[i]);
    }
    rota_shard_flights_deinit(&flights);
}

static void fences_beyond_the_bound_stop_every_flight_by_name(void **state)
{
    struct world world;
    (void)state;
    static const char *const names[] = {"a", "b", "c", "d", "e", "f", "g", "h"};
    setup(&world);
    for (uint64_t i = 0; i < 8; i++)
        get(&world, 0, by_name(names[i], i + 1));
    for (int64_t id = 10; id < 3000; id++)
        rota_shard_cache_invalidate(world.cache, &id, 1);
    for (int64_t i = 0; i < 8; i++) {
        answer(&world, 0, world.asked[i], map_of(5000 + i, "channel", 1));
        assert_false(has(&world, 5000 + i));
    }
    teardown(&world);
}

static void c17_invalidation_fences_that_id_only(void **state)
{
    struct world world;
    (void)state;
    setup(&world);
    get(&world, 0, by_id(1, 1));
    get(&world, 0, by_id(2, 2));
    rota_shard_cache_invalidate(world.cache, (int64_t[]){1}, 1);
    answer(&world, 0, world.asked[0], map_of(1, "channel", 1));
    answer(&world, 0, world.asked[1], map_of(2, "channel", 2));
    assert_true(!has(&world, 1) && has(&world, 2));
    teardown(&world);
}

static void flights_and_waiters_have_bounds(void **state)
{
    struct world world;
    struct rota_shard_map *map;
    (void)state;
    setup(&world);
    for (int64_t i = 1; i <= ROTA_SHARD_FLIGHTS_MAX; i++)
        get(&world, 0, by_id(i, (uint64_t)i));
    struct rota_shard_query more = by_id(ROTA_SHARD_FLIGHTS_MAX + 1, ROTA_SHARD_FLIGHTS_MAX + 1);
    assert_int_equal(rota_shard_cache_get(world.cache, 0, &more, &map, NULL), ROTA_ERR_LIMIT);
    for (uint64_t i = ROTA_SHARD_FLIGHTS_MAX + 1; i <= ROTA_SHARD_WAITERS_MAX; i++)
        get(&world, 0, by_id(1, i));
    more = by_id(1, ROTA_SHARD_WAITERS_MAX + 1);
    assert_int_equal(rota_shard_cache_get(world.cache, 0, &more, &map, NULL), ROTA_ERR_LIMIT);
    assert_int_equal(rota_shard_cache_n_waiters(world.cache), ROTA_SHARD_WAITERS_MAX);
    step(&world, ROTA_MIN); /* all are asked again */
    assert_int_equal(rota_shard_cache_n_flights(world.cache), ROTA_SHARD_FLIGHTS_MAX);
    assert_int_equal(rota_shard_cache_n_waiters(world.cache), ROTA_SHARD_WAITERS_MAX);
    teardown(&world);
}

/* --- any order of events --- */

enum { RANDOM_FLIGHTS = 4096, RANDOM_WAITERS = 20000, RANDOM_IDS = 4 };

/* The truth about a collection is a number that grows with each invalidation,
 * and the directory answers with what it was when it was asked. */
struct chance {
    struct rota_shard_cache *cache;
    struct rota_random random;
    rota_time now;
    int64_t truth[RANDOM_IDS + 1], seen[RANDOM_IDS + 1];
    struct {
        int64_t collection, truth;
    } flights[RANDOM_FLIGHTS + 1];
    uint64_t n_flights;
    uint8_t n_told[RANDOM_WAITERS + 1];
    bool is_waiting[RANDOM_WAITERS + 1];
    uint64_t n_waiters;
};

static void chance_pump(struct chance *chance)
{
    struct rota_shard_action action;
    while (rota_shard_cache_next(chance->cache, &action)) {
        if (action.type == ROTA_SHARD_ASK) {
            assert_true(action.flight <= RANDOM_FLIGHTS);
            chance->n_flights = action.flight;
            chance->flights[action.flight].collection = action.collection;
            chance->flights[action.flight].truth = chance->truth[action.collection];
        }
        if (action.type == ROTA_SHARD_TELL) {
            assert_true(chance->is_waiting[action.waiter]);
            chance->n_told[action.waiter]++;
            chance->is_waiting[action.waiter] = false;
            rota_shard_map_drop(action.map);
        }
    }
}

static void chance_get(struct chance *chance)
{
    struct rota_shard_map *map;
    int64_t collection = 1 + (int64_t)rota_random_below(&chance->random, RANDOM_IDS);
    struct rota_shard_query query = by_id(collection, ++chance->n_waiters);
    query.with_cache = rota_random_chance(&chance->random, 0.8);
    query.deadline = chance->now + rota_random_range(&chance->random, 1, 20 * ROTA_SEC);
    assert_int_equal(rota_shard_cache_get(chance->cache, chance->now, &query, &map, NULL), ROTA_OK);
    chance->is_waiting[query.waiter] = !map;
    if (!map)
        return;
    /* Nothing from before the last invalidation, and never back in time. */
    int64_t seen = map->channels[0].replicas[0].node;
    assert_int_equal(seen, chance->truth[collection]);
    assert_true(seen >= chance->seen[collection]);
    chance->seen[collection] = seen;
    rota_shard_map_drop(map);
}

/* Any flight of late, also one that was answered or has timed out. */
static void chance_answer(struct chance *chance)
{
    uint64_t back = rota_random_below(&chance->random, 8);
    if (chance->n_flights <= back)
        return;
    uint64_t flight = chance->n_flights - back;
    bool is_ok = rota_random_chance(&chance->random, 0.7);
    rota_shard_cache_answered(
        chance->cache, chance->now, flight, is_ok ? ROTA_FAILURE_NONE : ROTA_FAILURE_UNREACHABLE,
        is_ok ? map_of(chance->flights[flight].collection, "channel", chance->flights[flight].truth)
              : NULL);
}

static void chance_cancel(struct chance *chance)
{
    uint64_t waiter = chance->n_waiters - rota_random_below(&chance->random, 8);
    if (waiter == 0 || waiter > chance->n_waiters)
        return;
    assert_int_equal(rota_shard_cache_cancel(chance->cache, waiter), chance->is_waiting[waiter]);
    chance->n_told[waiter] += chance->is_waiting[waiter];
    chance->is_waiting[waiter] = false;
}

static void no_order_of_events_brings_an_old_map_back(void **state)
{
    static struct chance chance;
    uint64_t n_waited = 0;
    (void)state;
    chance = (struct chance){0};
    struct rota_shard_cache_options options = {.seed = 1};
    assert_int_equal(rota_shard_cache_new(&options, &chance.cache, NULL), ROTA_OK);
    rota_random_init(&chance.random, 11);
    for (size_t i = 0; i <= RANDOM_IDS; i++)
        chance.truth[i] = 1;
    while (chance.n_waiters < RANDOM_WAITERS && chance.n_flights < RANDOM_FLIGHTS - 10) {
        switch (rota_random_below(&chance.random, 8)) {
        case 0: {
            int64_t id = 1 + (int64_t)rota_random_below(&chance.random, RANDOM_IDS);
            chance.truth[id]++;
            rota_shard_cache_invalidate(chance.cache, &id, 1);
            break;
        }
        case 1:
            chance.now += rota_random_range(&chance.random, 0, 4 * ROTA_SEC);
            rota_shard_cache_step(chance.cache, chance.now);
            break;
        case 2:
            chance_cancel(&chance);
            break;
        case 3:
        case 4:
            chance_answer(&chance);
            break;
        default:
            chance_get(&chance);
            break;
        }
        chance_pump(&chance);
    }
    rota_shard_cache_step(chance.cache, chance.now + ROTA_MIN);
    chance_pump(&chance);
    for (uint64_t i = 1; i <= chance.n_waiters; i++) {
        assert_false(chance.is_waiting[i]);
        assert_true(chance.n_told[i] <= 1);
        n_waited += chance.n_told[i];
    }
    assert_true(n_waited > 1000 && rota_shard_cache_stats(chance.cache)->n_fenced > 100);
    rota_shard_cache_free(chance.cache);
}

static void flight_that_times_out_before_it_is_asked_is_asked_once(void **state)
{
    struct world world;
    struct rota_shard_map *map;
    (void)state;
    setup(&world);
    for (uint64_t i = 1; i <= 3; i++) {
        struct rota_shard_query query = by_id((int64_t)i, i);
        assert_int_equal(rota_shard_cache_get(world.cache, 0, &query, &map, NULL), ROTA_OK);
        assert_null(map);
    }
    rota_shard_cache_step(world.cache, ROTA_HOUR); /* others take their place */
    pump(&world);
    assert_int_equal(world.n_asks, 3);
    assert_int_equal(world.n_tells, 0);
    assert_int_equal(world.n_forgets, 0);
    assert_int_equal(rota_shard_cache_n_flights(world.cache), 3);
    for (int i = 0; i < 3; i++)
        answer(&world, ROTA_HOUR, world.asked[i], map_of(i + 1, "channel", 1));
    assert_int_equal(world.n_tells, 3);
    teardown(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(c9_two_ids_under_one_alias_are_two_questions),
        cmocka_unit_test(c10_names_that_change_under_one_id_share_a_question),
        cmocka_unit_test(waiter_that_leaves_returns_its_answer),
        cmocka_unit_test(c11_many_misses_are_one_question),
        cmocka_unit_test(c12_newer_forced_flight_wins_over_an_older_one_that_ends_later),
        cmocka_unit_test(c13_cancelling_the_first_caller_leaves_the_flight),
        cmocka_unit_test(c14_waiter_obeys_its_own_deadline),
        cmocka_unit_test(c15_flight_that_takes_too_long_is_asked_again),
        cmocka_unit_test(flight_without_waiters_is_not_asked_again),
        cmocka_unit_test(waiter_without_a_deadline_gives_up_an_unresponsive_directory),
        cmocka_unit_test(c16_invalidation_fences_flights_in_progress),
        cmocka_unit_test(c16_flight_by_name_is_fenced_by_the_id_it_brings),
        cmocka_unit_test(fence_applies_to_earlier_questions),
        cmocka_unit_test(fences_beyond_the_bound_stop_every_flight_by_name),
        cmocka_unit_test(c17_invalidation_fences_that_id_only),
        cmocka_unit_test(flights_and_waiters_have_bounds),
        cmocka_unit_test(no_order_of_events_brings_an_old_map_back),
        cmocka_unit_test(flight_that_times_out_before_it_is_asked_is_asked_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
