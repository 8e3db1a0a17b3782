#include "core/call/shard_cache.h"
#include "vectors.h"

#include <rota/random.h>
#include <stdio.h>
#include <stdlib.h>

/* The rows C1 to C21 are the behaviours of the system that Rota is compatible
 * with; where a row names two of its versions the comment says which is ours. */

static const struct rota_str DB = {"default", 7}, OTHER_DB = {"other", 5}, NONE = {"", 0};

struct world {
    struct rota_shard_cache *cache;
    uint64_t n_asks, n_tells, n_forgets;
    uint64_t asked[64];                /* flights, in order */
    struct rota_shard_action last_ask; /* without its texts */
    uint64_t told[64];                 /* waiters, in order */
    enum rota_failure failures[64];
    int64_t first_nodes[64]; /* of their maps; -1: none */
};

static void setup(struct world *world)
{
    *world = (struct world){0};
    assert_int_equal(
        rota_shard_cache_new(&(struct rota_shard_cache_options){.seed = 1}, &world->cache, NULL),
        ROTA_OK);
}

/* Carry out what is to be done. */
static void pump(struct world *world)
{
    struct rota_shard_action action;
    while (rota_shard_cache_next(world->cache, &action)) {
        switch (action.type) {
        case ROTA_SHARD_ASK:
            world->asked[world->n_asks++ % 64] = action.flight;
            world->last_ask = action;
            break;
        case ROTA_SHARD_FORGET:
            world->n_forgets++;
            break;
        case ROTA_SHARD_TELL:
            world->told[world->n_tells % 64] = action.waiter;
            world->failures[world->n_tells % 64] = action.failure;
            world->first_nodes[world->n_tells++ % 64] =
                action.map && action.map->n_channels ? action.map->channels[0].replicas[0].node
                                                     : -1;
            assert_true((action.failure == ROTA_FAILURE_NONE) == (action.map != NULL));
            rota_shard_map_drop(action.map);
            break;
        }
    }
}

static void teardown(struct world *world)
{
    pump(world);
    rota_shard_cache_free(world->cache);
}

/* A map of one channel with one replica. */
static struct rota_shard_map *map_of(int64_t collection, const char *channel, int64_t node)
{
    struct rota_replica replica = {node, {"a:1", 3}, 1, true};
    struct rota_shard_channel row = {rota_str(channel), &replica, 1};
    struct rota_shard_map *map;
    assert_int_equal(rota_shard_map_new(collection, &row, 1, &map, NULL), ROTA_OK);
    return map;
}

static struct rota_shard_query by_id(int64_t collection, uint64_t waiter)
{
    return (struct rota_shard_query){
        .database = DB, .collection = collection, .with_cache = true, .waiter = waiter};
}

static struct rota_shard_query by_name(const char *name, uint64_t waiter)
{
    return (struct rota_shard_query){
        .database = DB, .name = rota_str(name), .with_cache = true, .waiter = waiter};
}

static struct rota_shard_query forced(struct rota_shard_query query)
{
    query.with_cache = false;
    return query;
}

/* The node of the map at hand, 0 when the caller waits. */
static int64_t get(struct world *world, rota_time now, struct rota_shard_query query)
{
    struct rota_shard_map *map;
    struct rota_error error;
    if (rota_shard_cache_get(world->cache, now, &query, &map, &error))
        fail_msg("%s", error.text);
    int64_t node = map ? map->channels[0].replicas[0].node : 0;
    rota_shard_map_drop(map);
    pump(world);
    return node;
}

static void answer(struct world *world, rota_time now, uint64_t flight, struct rota_shard_map *map)
{
    rota_shard_cache_answered(world->cache, now, flight, ROTA_FAILURE_NONE, map);
    pump(world);
}

static void step(struct world *world, rota_time now)
{
    rota_shard_cache_step(world->cache, now);
    pump(world);
}

/* Have the map of `collection` at hand, with this node. */
static void fill(struct world *world, rota_time now, struct rota_str database, const char *name,
                 int64_t collection, int64_t node)
{
    struct rota_shard_query query = {.database = database,
                                     .name = rota_str(name),
                                     .collection = collection,
                                     .waiter = 1000 + (uint64_t)collection};
    assert_int_equal(get(world, now, query), 0);
    answer(world, now, world->asked[(world->n_asks - 1) % 64], map_of(collection, "channel", node));
}

static bool has(const struct world *world, int64_t collection)
{
    return rota_shard_cache_peek(world->cache, collection) != NULL;
}

/* --- dropping --- */

static void c1_invalidating_one_id_leaves_the_others(void **state)
{
    struct world world;
    (void)state;
    setup(&world);
    for (int64_t id = 1; id <= 3; id++)
        fill(&world, 0, DB, "", id, id);
    rota_shard_cache_invalidate(world.cache, (int64_t[]){2}, 1);
    assert_true(has(&world, 1) && !has(&world, 2) && has(&world, 3));
    assert_true(rota_shard_cache_has_node(world.cache, 1));
    assert_false(rota_shard_cache_has_node(world.cache, 2));
    teardown(&world);
}

static void c2_c3_c4_c5_ids_are_dropped_in_any_number_and_database(void **state)
{
    struct world world;
    (void)state;
    setup(&world);
    for (int64_t id = 1; id <= 6; id++)
        fill(&world, 0, id < 4 ? DB : OTHER_DB, "", id, id);
    rota_shard_cache_invalidate(world.cache, (int64_t[]){77, INT64_MIN, 0}, 3);
    assert_int_equal(rota_shard_cache_size(world.cache), 6);
    rota_shard_cache_invalidate(world.cache, (int64_t[]){1, 4}, 2); /* of two databases */
    assert_int_equal(rota_shard_cache_size(world.cache), 4);
    assert_int_equal(rota_shard_cache_n_databases(world.cache), 2);
    rota_shard_cache_invalidate(world.cache, (int64_t[]){2, 3, 3}, 3); /* all of the first */
    assert_int_equal(rota_shard_cache_n_databases(world.cache), 1);
    assert_true(has(&world, 5) && has(&world, 6));
    teardown(&world);
}

static void c6_dropping_by_name_ends_with_the_database(void **state)
{
    struct world world;
    (void)state;
    setup(&world);
    fill(&world, 0, DB, "a", 1, 1);
    fill(&world, 0, DB, "b", 2, 2);
    rota_shard_cache_deprecate(world.cache, DB, rota_str("unknown"));
    rota_shard_cache_deprecate(world.cache, OTHER_DB, rota_str("a"));
    assert_int_equal(rota_shard_cache_size(world.cache), 2);
    rota_shard_cache_deprecate(world.cache, DB, rota_str("a"));
    assert_true(!has(&world, 1) && has(&world, 2));
    assert_int_equal(get(&world, 0, by_name("a", 1)), 0);
    assert_int_equal(get(&world, 0, by_name("b", 2)), 2);
    rota_shard_cache_deprecate(world.cache, DB, rota_str("b"));
    assert_int_equal(rota_shard_cache_n_databases(world.cache), 0);
    teardown(&world);
}

/* The original's latest version evicts nothing here, since it no longer knows
 * databases; Rota does, and does what the function is called. */
static void c7_removing_a_database_removes_its_maps_alone(void **state)
{
    struct world world;
    (void)state;
    setup(&world);
    fill(&world, 0, DB, "a", 1, 1);
    fill(&world, 0, OTHER_DB, "a", 2, 2);
    rota_shard_cache_remove_database(world.cache, rota_str("unknown"));
    assert_int_equal(rota_shard_cache_size(world.cache), 2);
    rota_shard_cache_remove_database(world.cache, DB);
    assert_true(!has(&world, 1) && has(&world, 2));
    teardown(&world);
}

/* --- names --- */

static void c8_alias_that_moved_never_answers_for_the_old_one(void **state)
{
    struct world world;
    (void)state;
    setup(&world);
    fill(&world, 0, DB, "alias", 100, 1);
    assert_int_equal(get(&world, 0, by_name("alias", 1)), 1);

    struct rota_shard_query moved = by_name("alias", 2);
    moved.collection = 200;
    assert_int_equal(get(&world, 0, moved), 0);
    assert_int_equal(world.last_ask.collection, 200);
    answer(&world, 0, world.last_ask.flight, map_of(200, "channel", 2));
    assert_int_equal(get(&world, 0, moved), 2);
    assert_int_equal(get(&world, 0, by_name("alias", 3)), 2); /* the name has moved, too */
    assert_int_equal(get(&world, 0, by_id(100, 4)), 1);
    teardown(&world);
}

static void alias_that_moves_unseen_is_found_when_its_map_is_old(void **state)
{
    struct world world;
    (void)state;
    setup(&world);
    fill(&world, 0, DB, "alias", 100, 1);
    /* Somebody who knows the id keeps the map young all the time. */
    assert_int_equal(get(&world, 50 * ROTA_SEC, forced(by_id(100, 1))), 0);
    answer(&world, 50 * ROTA_SEC, world.last_ask.flight, map_of(100, "channel", 1));

    assert_int_equal(get(&world, 61 * ROTA_SEC, by_name("alias", 2)), 1);
    assert_int_equal(world.last_ask.collection, 0); /* asked by name */
    answer(&world, 61 * ROTA_SEC, world.last_ask.flight, map_of(200, "channel", 2));
    assert_int_equal(get(&world, 61 * ROTA_SEC, by_name("alias", 3)), 2);
    teardown(&world);
}

static void old_flight_does_not_move_an_alias_back(void **state)
{
    struct world world;
    struct rota_shard_query old = by_name("alias", 1), new = by_name("alias", 2);
    (void)state;
    setup(&world);
    old.collection = 100;
    new.collection = 200;
    get(&world, 0, old);
    get(&world, 0, new);
    answer(&world, 0, world.asked[1], map_of(200, "channel", 2));
    answer(&world, 0, world.asked[0], map_of(100, "channel", 1));
    assert_int_equal(get(&world, 0, by_name("alias", 3)), 2);
    teardown(&world);
}

static void names_leave_with_their_collection_and_have_a_bound(void **state)
{
    struct world world;
    (void)state;
    setup(&world);
    for (int i = 0; i <= ROTA_SHARD_NAMES_MAX; i++) {
        char name[32];
        snprintf(name, sizeof name, "alias%d", i);
        fill(&world, 0, DB, name, 1, 1);
    }
    assert_int_equal(get(&world, 0, by_name("alias1", 1)), 1);
    assert_int_equal(get(&world, 0, by_name("alias0", 2)), 0); /* the oldest made room */
    rota_shard_cache_invalidate(world.cache, (int64_t[]){1}, 1);
    assert_int_equal(get(&world, 0, by_name("alias1", 3)), 0);
    teardown(&world);
}

/* --- flights --- */

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

static void c15_flight_has_a_hard_timeout(void **state)
{
    struct world world;
    (void)state;
    setup(&world);
    get(&world, 0, by_id(1, 1));
    assert_int_equal(rota_shard_cache_deadline(world.cache), 10 * ROTA_SEC);
    step(&world, 10 * ROTA_SEC);
    assert_int_equal(world.failures[0], ROTA_FAILURE_TIMEOUT);
    assert_int_equal(world.n_forgets, 1);
    assert_int_equal(rota_shard_cache_n_flights(world.cache), 0);
    answer(&world, 11 * ROTA_SEC, world.asked[0], map_of(1, "channel", 5)); /* too late */
    assert_false(has(&world, 1));
    get(&world, 11 * ROTA_SEC, by_id(1, 2));
    assert_int_equal(world.n_asks, 2);
    teardown(&world);
}

static void c16_invalidation_fences_what_is_under_way(void **state)
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
    get(&world, 0, by_name("a", 4)); /* and one that begins later is not */
    answer(&world, 0, world.asked[3], map_of(1, "channel", 1));
    assert_true(has(&world, 1));
    teardown(&world);
}

static void fences_beyond_the_bound_stop_every_flight_by_name(void **state)
{
    struct world world;
    (void)state;
    setup(&world);
    get(&world, 0, by_name("a", 1));
    for (int64_t id = 10; id < 3000; id++)
        rota_shard_cache_invalidate(world.cache, &id, 1);
    answer(&world, 0, world.asked[0], map_of(10, "channel", 1));
    assert_false(has(&world, 10));
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

static void c18_c20_unread_maps_leave_and_a_read_keeps_them(void **state)
{
    struct world world;
    (void)state;
    setup(&world);
    fill(&world, 0, DB, "", 1, 1);
    fill(&world, 0, DB, "", 2, 2);
    assert_int_equal(rota_shard_cache_deadline(world.cache), 10 * ROTA_MIN);
    assert_int_equal(get(&world, 10 * ROTA_MIN - 1, by_id(1, 1)), 1); /* at the last moment */
    step(&world, 10 * ROTA_MIN);
    assert_true(has(&world, 1) && !has(&world, 2));
    assert_false(rota_shard_cache_has_node(world.cache, 2));
    assert_int_equal(rota_shard_cache_stats(world.cache)->n_evicted, 1);
    step(&world, 20 * ROTA_MIN);
    assert_int_equal(rota_shard_cache_size(world.cache), 0);
    teardown(&world);
}

/* There is no scan: the nodes are counted as maps come and go, so the question
 * is right in the midst of anything. */
static void c19_whether_a_node_leads_is_known_at_all_times(void **state)
{
    struct world world;
    (void)state;
    setup(&world);
    fill(&world, 0, DB, "", 1, 7);
    fill(&world, 0, DB, "", 2, 7);
    rota_shard_cache_invalidate(world.cache, (int64_t[]){1}, 1);
    assert_true(rota_shard_cache_has_node(world.cache, 7));
    get(&world, 0, forced(by_id(2, 1)));
    assert_true(rota_shard_cache_has_node(world.cache, 7));
    answer(&world, 0, world.last_ask.flight, map_of(2, "channel", 8));
    assert_false(rota_shard_cache_has_node(world.cache, 7));
    assert_true(rota_shard_cache_has_node(world.cache, 8));
    teardown(&world);
}

/* --- the shuffled reader --- */

static void c21_shuffle_goes_round_and_keeps_everybody(void **state)
{
    struct rota_replica replicas[5] = {
        {.node = 0}, {.node = 1}, {.node = 2}, {.node = 3}, {.node = 4}};
    struct rota_shard_channel channels[6];
    struct rota_shard_map *map, *shuffled;
    struct rota_random random;
    bool is_second[5] = {false};
    (void)state;
    rota_random_init(&random, 5);
    for (size_t n = 0; n <= 5; n++) /* none, one, several */
        channels[n] = (struct rota_shard_channel){rota_str_of(&"abcdef"[n], 1), replicas, n};
    assert_int_equal(rota_shard_map_new(1, channels, 6, &map, NULL), ROTA_OK);
    for (uint64_t turn = 0; turn < 100; turn++) {
        assert_int_equal(rota_shard_map_shuffle(map, turn, &random, &shuffled, NULL), ROTA_OK);
        for (size_t n = 0; n <= 5; n++) {
            const struct rota_replica *order = shuffled->channels[n].replicas;
            uint32_t seen = 0;
            assert_int_equal(shuffled->channels[n].n_replicas, n);
            for (size_t i = 0; i < n; i++)
                seen |= 1u << order[i].node;
            assert_int_equal(seen, (1u << n) - 1);
            if (n > 0)
                assert_int_equal(order[0].node, turn % n);
            if (n == 5 && turn % 5 == 0)
                is_second[order[1].node] = true;
        }
        rota_shard_map_drop(shuffled);
    }
    for (int i = 1; i < 5; i++)
        assert_true(is_second[i]);                          /* the rest is by chance */
    assert_int_equal(map->channels[5].replicas[0].node, 0); /* who shares it sees no change */
    rota_shard_map_drop(map);
}

/* --- age --- */

static void old_map_serves_while_one_flight_asks_for_the_next(void **state)
{
    struct world world;
    rota_time old = ROTA_SHARD_TTL;
    (void)state;
    setup(&world);
    fill(&world, 0, DB, "", 1, 5);
    assert_int_equal(get(&world, old - 1, by_id(1, 1)), 5);
    assert_int_equal(world.n_asks, 1);
    for (uint64_t i = 0; i < 10; i++)
        assert_int_equal(get(&world, old, by_id(1, 1)), 5);
    assert_int_equal(world.n_asks, 2);
    answer(&world, old, world.asked[1], map_of(1, "channel", 6));
    assert_int_equal(get(&world, old, by_id(1, 1)), 6);
    assert_int_equal(world.n_asks, 2);
    teardown(&world);
}

static void directory_that_is_away_is_asked_once_per_gap_and_the_old_map_stays(void **state)
{
    struct world world;
    (void)state;
    setup(&world);
    fill(&world, 0, DB, "", 1, 5);
    for (rota_time now = ROTA_SHARD_TTL; now < 2 * ROTA_SHARD_TTL; now += 10 * ROTA_MSEC) {
        uint64_t before = world.n_asks;
        assert_int_equal(get(&world, now, by_id(1, 1)), 5);
        if (world.n_asks > before)
            rota_shard_cache_answered(world.cache, now, world.last_ask.flight,
                                      ROTA_FAILURE_UNREACHABLE, NULL);
    }
    assert_in_range(world.n_asks, 50, 62);
    teardown(&world);
}

static void unknown_channel_is_looked_for_once_per_gap(void **state)
{
    struct world world;
    struct rota_shard_query query = by_id(1, 1);
    (void)state;
    setup(&world);
    fill(&world, 0, DB, "", 1, 5);
    query.channel = rota_str("new");
    assert_int_equal(get(&world, 1, query), 5); /* the map is brand-new: it is as it says */
    assert_int_equal(get(&world, ROTA_SHARD_REFRESH_GAP, query), 0);
    answer(&world, ROTA_SHARD_REFRESH_GAP, world.last_ask.flight, map_of(1, "new", 6));
    assert_int_equal(get(&world, ROTA_SHARD_REFRESH_GAP, query), 6);
    teardown(&world);
}

/* --- what errors do --- */

static void report(struct world *world, rota_time now, int64_t collection, uint64_t version,
                   int64_t node, enum rota_failure failure, const struct rota_replica *claim)
{
    rota_shard_cache_report(world->cache, now,
                            &(struct rota_shard_report){.collection = collection,
                                                        .version = version,
                                                        .channel = rota_str("channel"),
                                                        .node = node,
                                                        .failure = failure,
                                                        .claim = claim});
    pump(world);
}

static uint64_t version_of(const struct world *world, int64_t collection)
{
    return rota_shard_cache_peek(world->cache, collection)->version;
}

static void every_error_does_to_the_cache_what_the_table_says(void **state)
{
    static const enum rota_cache_effect effects[ROTA_FAILURES] = {
        [ROTA_FAILURE_TIMEOUT] = ROTA_CACHE_REFRESH,
        [ROTA_FAILURE_UNREACHABLE] = ROTA_CACHE_REFRESH,
        [ROTA_FAILURE_BROKEN] = ROTA_CACHE_REFRESH,
        [ROTA_FAILURE_STALE] = ROTA_CACHE_APPLY,
        [ROTA_FAILURE_NOT_LOADED] = ROTA_CACHE_INVALIDATE,
    };
    (void)state;
    for (int failure = 0; failure < ROTA_FAILURES; failure++) {
        struct world world;
        setup(&world);
        fill(&world, 0, DB, "", 1, 5);
        enum rota_cache_effect effect = rota_shard_cache_effect((enum rota_failure)failure);
        assert_int_equal(effect, effects[failure]);
        report(&world, ROTA_SEC, 1, version_of(&world, 1), 5, (enum rota_failure)failure, NULL);
        assert_int_equal(has(&world, 1), effect == ROTA_CACHE_KEEP || effect == ROTA_CACHE_REFRESH);
        assert_int_equal(world.n_asks, 1 + (effect == ROTA_CACHE_REFRESH));
        teardown(&world);
    }
}

static void cancel_does_not_empty_the_cache(void **state)
{
    struct world world;
    (void)state;
    setup(&world);
    fill(&world, 0, DB, "", 1, 5);
    for (rota_time now = 0; now < 50 * ROTA_SEC; now += ROTA_SEC) {
        report(&world, now, 1, version_of(&world, 1), 5, ROTA_FAILURE_CANCELLED, NULL);
        report(&world, now, 1, version_of(&world, 1), 5, ROTA_FAILURE_DEADLINE, NULL);
        report(&world, now, 1, version_of(&world, 1), 5, ROTA_FAILURE_OVERLOAD, NULL);
        assert_int_equal(get(&world, now, by_id(1, 1)), 5);
    }
    assert_int_equal(world.n_asks, 1);
    teardown(&world);
}

static void dead_node_has_the_map_refreshed(void **state)
{
    struct world world;
    (void)state;
    setup(&world);
    fill(&world, 0, DB, "", 1, 5);
    uint64_t version = version_of(&world, 1);
    for (int i = 0; i < 100; i++) /* a hundred calls met it */
        report(&world, ROTA_SEC, 1, version, 5, ROTA_FAILURE_UNREACHABLE, NULL);
    assert_int_equal(world.n_asks, 2);
    answer(&world, ROTA_SEC, world.last_ask.flight, map_of(1, "channel", 6));
    report(&world, 3 * ROTA_SEC, 1, version, 5, ROTA_FAILURE_UNREACHABLE,
           NULL); /* of the old map */
    assert_int_equal(world.n_asks, 2);
    teardown(&world);
}

static void not_loaded_drops_the_map_once(void **state)
{
    struct world world;
    (void)state;
    setup(&world);
    fill(&world, 0, DB, "", 1, 5);
    uint64_t version = version_of(&world, 1);
    report(&world, ROTA_SEC, 1, version, 5, ROTA_FAILURE_NOT_LOADED, NULL);
    assert_false(has(&world, 1));
    fill(&world, ROTA_SEC, DB, "", 1, 6);
    for (int i = 0; i < 100; i++) /* others that were routed by the old map */
        report(&world, 2 * ROTA_SEC, 1, version, 5, ROTA_FAILURE_NOT_LOADED, NULL);
    assert_true(has(&world, 1));
    /* And a directory that is behind is not asked again for every refusal. */
    report(&world, ROTA_SEC + 1, 1, version_of(&world, 1), 6, ROTA_FAILURE_NOT_LOADED, NULL);
    assert_true(has(&world, 1));
    teardown(&world);
}

static void claim_in_a_refusal_is_believed_at_once(void **state)
{
    struct world world;
    struct rota_replica claim = {6, {"b:1", 3}, 2, true};
    (void)state;
    setup(&world);
    fill(&world, 0, DB, "", 1, 5);
    get(&world, 0, forced(by_id(1, 1))); /* asked before the claim was known */
    report(&world, 0, 1, version_of(&world, 1), 5, ROTA_FAILURE_STALE, &claim);
    assert_int_equal(get(&world, 0, by_id(1, 2)), 6);
    assert_int_equal(rota_shard_cache_peek(world.cache, 1)->channels[0].replicas[0].epoch, 2);
    assert_true(rota_shard_cache_has_node(world.cache, 6));
    assert_false(rota_shard_cache_has_node(world.cache, 5));
    answer(&world, 0, world.last_ask.flight, map_of(1, "channel", 5));
    assert_int_equal(get(&world, 0, by_id(1, 3)), 6);
    assert_int_equal(world.n_asks, 2);
    teardown(&world);
}

static void claim_that_is_no_news_drops_the_map_instead(void **state)
{
    struct world world;
    struct rota_replica claim = {6, {"b:1", 3}, 1, true}; /* the epoch we have already */
    (void)state;
    setup(&world);
    fill(&world, 0, DB, "", 1, 5);
    report(&world, ROTA_SEC, 1, version_of(&world, 1), 5, ROTA_FAILURE_STALE, &claim);
    assert_false(has(&world, 1));
    teardown(&world);
}

static void serviceable_flag_comes_with_a_refresh(void **state)
{
    struct world world;
    struct rota_replica replica = {5, {"a:1", 3}, 1, false};
    struct rota_shard_channel row = {{"channel", 7}, &replica, 1};
    struct rota_shard_map *map;
    (void)state;
    setup(&world);
    fill(&world, 0, DB, "", 1, 5);
    assert_true(rota_shard_cache_peek(world.cache, 1)->channels[0].replicas[0].is_serviceable);
    get(&world, 0, forced(by_id(1, 1)));
    rota_shard_map_new(1, &row, 1, &map, NULL);
    answer(&world, 0, world.last_ask.flight, map);
    assert_false(rota_shard_cache_peek(world.cache, 1)->channels[0].replicas[0].is_serviceable);
    teardown(&world);
}

/* --- counters, bounds, hostile input --- */

static void forced_read_is_counted_as_what_it_is(void **state)
{
    struct world world;
    (void)state;
    setup(&world);
    get(&world, 0, by_id(1, 1));
    answer(&world, 4 * ROTA_MSEC, world.asked[0], map_of(1, "channel", 5));
    get(&world, 0, by_id(1, 2));
    get(&world, 0, forced(by_id(1, 3)));
    struct rota_shard_query leaders = by_id(1, 4);
    leaders.method = ROTA_SHARD_GET_LEADERS;
    get(&world, 0, leaders);
    const struct rota_shard_stats *stats = rota_shard_cache_stats(world.cache);
    assert_int_equal(stats->reads[ROTA_SHARD_GET_SHARD][ROTA_SHARD_MISS], 1);
    assert_int_equal(stats->reads[ROTA_SHARD_GET_SHARD][ROTA_SHARD_HIT], 1);
    assert_int_equal(stats->reads[ROTA_SHARD_GET_SHARD][ROTA_SHARD_FORCED], 1);
    assert_int_equal(stats->reads[ROTA_SHARD_GET_LEADERS][ROTA_SHARD_HIT], 1);
    assert_int_equal(stats->update_us.count, 1);
    assert_int_equal(stats->update_us.max, 4000); /* from the ask to the map in place */
    teardown(&world);
}

static void failed_refresh_leaves_the_old_map(void **state)
{
    struct world world;
    (void)state;
    setup(&world);
    fill(&world, 0, DB, "", 1, 5);
    get(&world, 0, forced(by_id(1, 1)));
    rota_shard_cache_answered(world.cache, 0, world.last_ask.flight, ROTA_FAILURE_INTERNAL, NULL);
    pump(&world);
    assert_int_equal(world.failures[1], ROTA_FAILURE_INTERNAL);
    assert_int_equal(get(&world, 0, by_id(1, 2)), 5);
    get(&world, 0, forced(by_id(1, 3))); /* nor does an answer about something else count */
    answer(&world, 0, world.last_ask.flight, map_of(2, "channel", 6));
    assert_int_equal(world.failures[2], ROTA_FAILURE_INTERNAL);
    assert_true(has(&world, 1) && !has(&world, 2));
    teardown(&world);
}

static void bad_queries_are_refused_and_change_nothing(void **state)
{
    struct world world;
    static char big[ROTA_SHARD_NAME_MAX + 1];
    struct rota_shard_map *map = NULL;
    (void)state;
    setup(&world);
    struct rota_shard_query nothing = by_id(0, 1), huge = by_id(1, 1);
    huge.name = rota_str_of(big, sizeof big);
    assert_int_equal(rota_shard_cache_get(world.cache, 0, &nothing, &map, NULL), ROTA_ERR_INVALID);
    assert_int_equal(rota_shard_cache_get(world.cache, 0, &huge, &map, NULL), ROTA_ERR_INVALID);
    rota_shard_cache_deprecate(world.cache, huge.name, huge.name);
    get(&world, 0, by_id(1, 1));
    struct rota_shard_query again = by_id(2, 1);
    assert_int_equal(rota_shard_cache_get(world.cache, 0, &again, &map, NULL), ROTA_ERR_INVALID);
    assert_int_equal(rota_shard_cache_n_waiters(world.cache), 1);
    assert_int_equal(world.n_asks, 1);
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
    step(&world, ROTA_MIN);
    assert_int_equal(rota_shard_cache_n_flights(world.cache), 0);
    teardown(&world);
}

static void map_unread_for_longest_makes_room(void **state)
{
    struct world world;
    (void)state;
    setup(&world);
    for (int64_t i = 1; i <= ROTA_SHARD_COLLECTIONS_MAX; i++)
        fill(&world, i, DB, "", i, i);
    get(&world, ROTA_SHARD_COLLECTIONS_MAX, by_id(1, 1));
    fill(&world, ROTA_SHARD_COLLECTIONS_MAX, DB, "", -1, 1);
    assert_int_equal(rota_shard_cache_size(world.cache), ROTA_SHARD_COLLECTIONS_MAX);
    assert_true(has(&world, 1) && !has(&world, 2) && has(&world, -1));
    teardown(&world);
}

static void hostile_maps_are_refused(void **state)
{
    struct rota_replica twice[2] = {{.node = 1}, {.node = 1}};
    static struct rota_replica many[ROTA_SHARD_REPLICAS_MAX + 1];
    static struct rota_shard_channel rows[ROTA_SHARD_CHANNELS_MAX + 1];
    struct rota_shard_channel same[2] = {{{"a", 1}, NULL, 0}, {{"a", 1}, NULL, 0}};
    struct rota_shard_channel row = {{"a", 1}, twice, 2};
    struct rota_shard_map *map = NULL;
    struct rota_error error;
    (void)state;
    assert_int_equal(rota_shard_map_new(1, &row, 1, &map, &error), ROTA_ERR_INVALID);
    assert_string_equal(error.text, "shard map: node 1 is there twice in a channel");
    assert_int_equal(rota_shard_map_new(1, same, 2, &map, &error), ROTA_ERR_INVALID);
    row = (struct rota_shard_channel){{"a", 1}, many, ROTA_SHARD_REPLICAS_MAX + 1};
    assert_int_equal(rota_shard_map_new(1, &row, 1, &map, &error), ROTA_ERR_LIMIT);
    assert_int_equal(rota_shard_map_new(1, rows, ROTA_SHARD_CHANNELS_MAX + 1, &map, &error),
                     ROTA_ERR_LIMIT);
    row = (struct rota_shard_channel){NONE, many, 1};
    assert_int_equal(rota_shard_map_new(1, &row, 1, &map, &error), ROTA_ERR_INVALID);
    assert_null(map);
    assert_int_equal(rota_shard_map_new(1, NULL, 0, &map, &error), ROTA_OK);
    rota_shard_map_drop(map);
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

/* --- what comes unasked --- */

static void map_that_comes_unasked_replaces_and_stops_what_is_older(void **state)
{
    struct world world;
    (void)state;
    setup(&world);
    fill(&world, 0, DB, "name", 1, 11);
    assert_int_equal(get(&world, 1, forced(by_id(1, 7))), 0); /* asked before the change */
    rota_shard_cache_replace(world.cache, 2, map_of(1, "channel", 22));
    answer(&world, 3, world.asked[world.n_asks - 1], map_of(1, "channel", 11));
    assert_int_equal(get(&world, 4, by_id(1, 8)), 22);
    assert_int_equal(get(&world, 4, by_name("name", 9)), 22);
    assert_true(rota_shard_cache_has_node(world.cache, 22));
    assert_false(rota_shard_cache_has_node(world.cache, 11));
    teardown(&world);
}

static void map_that_nobody_reads_is_not_taken_up(void **state)
{
    struct world world;
    (void)state;
    setup(&world);
    rota_shard_cache_replace(world.cache, 2, map_of(1, "channel", 22));
    assert_false(has(&world, 1));
    assert_int_equal(rota_shard_cache_stats(world.cache)->n_published, 0);
    teardown(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(c1_invalidating_one_id_leaves_the_others),
        cmocka_unit_test(c2_c3_c4_c5_ids_are_dropped_in_any_number_and_database),
        cmocka_unit_test(c6_dropping_by_name_ends_with_the_database),
        cmocka_unit_test(c7_removing_a_database_removes_its_maps_alone),
        cmocka_unit_test(c8_alias_that_moved_never_answers_for_the_old_one),
        cmocka_unit_test(alias_that_moves_unseen_is_found_when_its_map_is_old),
        cmocka_unit_test(old_flight_does_not_move_an_alias_back),
        cmocka_unit_test(names_leave_with_their_collection_and_have_a_bound),
        cmocka_unit_test(c9_two_ids_under_one_alias_are_two_questions),
        cmocka_unit_test(c10_names_that_change_under_one_id_share_a_question),
        cmocka_unit_test(c11_many_misses_are_one_question),
        cmocka_unit_test(c12_newer_forced_flight_wins_over_an_older_one_that_ends_later),
        cmocka_unit_test(c13_cancelling_the_first_caller_leaves_the_flight),
        cmocka_unit_test(c14_waiter_obeys_its_own_deadline),
        cmocka_unit_test(c15_flight_has_a_hard_timeout),
        cmocka_unit_test(c16_invalidation_fences_what_is_under_way),
        cmocka_unit_test(c16_flight_by_name_is_fenced_by_the_id_it_brings),
        cmocka_unit_test(fences_beyond_the_bound_stop_every_flight_by_name),
        cmocka_unit_test(c17_invalidation_fences_that_id_only),
        cmocka_unit_test(c18_c20_unread_maps_leave_and_a_read_keeps_them),
        cmocka_unit_test(c19_whether_a_node_leads_is_known_at_all_times),
        cmocka_unit_test(c21_shuffle_goes_round_and_keeps_everybody),
        cmocka_unit_test(old_map_serves_while_one_flight_asks_for_the_next),
        cmocka_unit_test(directory_that_is_away_is_asked_once_per_gap_and_the_old_map_stays),
        cmocka_unit_test(unknown_channel_is_looked_for_once_per_gap),
        cmocka_unit_test(every_error_does_to_the_cache_what_the_table_says),
        cmocka_unit_test(cancel_does_not_empty_the_cache),
        cmocka_unit_test(dead_node_has_the_map_refreshed),
        cmocka_unit_test(not_loaded_drops_the_map_once),
        cmocka_unit_test(claim_in_a_refusal_is_believed_at_once),
        cmocka_unit_test(claim_that_is_no_news_drops_the_map_instead),
        cmocka_unit_test(serviceable_flag_comes_with_a_refresh),
        cmocka_unit_test(forced_read_is_counted_as_what_it_is),
        cmocka_unit_test(failed_refresh_leaves_the_old_map),
        cmocka_unit_test(bad_queries_are_refused_and_change_nothing),
        cmocka_unit_test(flights_and_waiters_have_bounds),
        cmocka_unit_test(map_unread_for_longest_makes_room),
        cmocka_unit_test(hostile_maps_are_refused),
        cmocka_unit_test(no_order_of_events_brings_an_old_map_back),
        cmocka_unit_test(map_that_comes_unasked_replaces_and_stops_what_is_older),
        cmocka_unit_test(map_that_nobody_reads_is_not_taken_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
