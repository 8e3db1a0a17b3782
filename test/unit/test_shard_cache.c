#include "cache_world.h"

#include <stdio.h>

/* The rows C1 to C21 are the behaviours of the system that Rota is compatible
 * with; where a row names two of its versions the comment says which is ours. Those
 * about flights and about single maps are in test_shard_flights.c and test_shard_map.c. */

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

/* --- leaving --- */

static void c18_c20_unread_maps_leave_and_a_read_keeps_them(void **state)
{
    struct world world;
    (void)state;
    setup(&world);
    const rota_time start = 3 * ROTA_HOUR, idle = 10 * ROTA_MIN;
    fill(&world, start, DB, "", 1, 1);
    fill(&world, start, DB, "", 2, 2);
    assert_int_equal(rota_shard_cache_deadline(world.cache), start + idle);
    assert_int_equal(get(&world, start + idle - 1, by_id(1, 1)), 1); /* at the last moment */
    step(&world, start + idle);
    assert_true(has(&world, 1) && !has(&world, 2));
    assert_false(rota_shard_cache_has_node(world.cache, 2));
    assert_int_equal(rota_shard_cache_stats(world.cache)->n_evicted, 1);
    step(&world, start + 2 * idle);
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

static void unreachable_directory_is_asked_once_per_gap_and_the_old_map_stays(void **state)
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

static void unknown_channel_is_requested_once_per_gap(void **state)
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

static void every_error_changes_the_cache_as_documented(void **state)
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
        enum rota_cache_effect effect = rota_failure_cache_effect((enum rota_failure)failure);
        assert_int_equal(effect, effects[failure]);
        report(&world, ROTA_SEC, 1, version_of(&world, 1), 5, (enum rota_failure)failure, NULL);
        assert_int_equal(has(&world, 1), effect == ROTA_CACHE_KEEP || effect == ROTA_CACHE_REFRESH);
        assert_int_equal(world.n_asks, 1 + (effect == ROTA_CACHE_REFRESH));
        if (effect == ROTA_CACHE_REFRESH) { /* by its id alone */
            assert_int_equal(world.last_ask.collection, 1);
            assert_int_equal(world.last_ask.database.size + world.last_ask.name.size, 0);
        }
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

static void claim_of_a_listed_replica_leaves_a_map_that_is_refreshed(void **state)
{
    struct world world;
    struct rota_replica replicas[] = {{5, {"a:1", 3}, 1, true}, {6, {"b:1", 3}, 2, true}};
    struct rota_shard_channel channel = {rota_str("channel"), replicas, 2};
    struct rota_replica claim = {6, {"b:1", 3}, 3, true};
    struct rota_shard_map *map;
    rota_time later = ROTA_SHARD_REFRESH_GAP;
    (void)state;
    setup(&world);
    get(&world, 0, by_id(1, 1));
    assert_int_equal(rota_shard_map_new(1, rota_str(""), &channel, 1, &map, NULL), ROTA_OK);
    answer(&world, 0, world.last_ask.flight, map);
    report(&world, 0, 1, version_of(&world, 1), 5, ROTA_FAILURE_STALE, &claim);
    assert_int_equal(get(&world, 0, by_id(1, 2)), 6);
    assert_int_equal(world.n_asks, 1); /* within the gap */
    assert_int_equal(get(&world, later, by_id(1, 3)), 6);
    assert_int_equal(world.n_asks, 2);
    answer(&world, later, world.last_ask.flight, map_of(1, "channel", 6));
    assert_int_equal(get(&world, 3 * later, by_id(1, 4)), 6);
    assert_int_equal(world.n_asks, 2);
    claim = (struct rota_replica){7, {"c:1", 3}, 4, true}; /* one for one: nothing is missing */
    report(&world, 3 * later, 1, version_of(&world, 1), 6, ROTA_FAILURE_STALE, &claim);
    assert_int_equal(get(&world, 5 * later, by_id(1, 5)), 7);
    assert_int_equal(world.n_asks, 2);
    teardown(&world);
}

static void outdated_claim_drops_the_map_instead(void **state)
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
    rota_shard_map_new(1, rota_str(""), &row, 1, &map, NULL);
    answer(&world, 0, world.last_ask.flight, map);
    assert_false(rota_shard_cache_peek(world.cache, 1)->channels[0].replicas[0].is_serviceable);
    teardown(&world);
}

/* --- counters and bounds --- */

static void forced_read_is_counted_as_forced(void **state)
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

static void published_and_fenced_maps_are_counted(void **state)
{
    struct world world;
    (void)state;
    setup(&world);
    const struct rota_shard_stats *stats = rota_shard_cache_stats(world.cache);
    get(&world, ROTA_SEC, by_id(1, 1));
    answer(&world, 3 * ROTA_SEC, world.asked[0], map_of(1, "channel", 5));
    assert_int_equal(stats->n_published, 1);
    assert_int_equal(stats->update_us.max, 2 * ROTA_SEC / ROTA_USEC);
    rota_shard_cache_replace(world.cache, 3 * ROTA_SEC, map_of(1, "channel", 6));
    assert_int_equal(stats->n_published, 2);
    rota_shard_cache_replace(world.cache, 3 * ROTA_SEC, map_of(2, "channel", 6)); /* not known */
    assert_int_equal(stats->n_published, 2);
    assert_int_equal(stats->n_fenced, 0);

    get(&world, 4 * ROTA_SEC, forced(by_id(1, 2)));
    rota_shard_cache_replace(world.cache, 4 * ROTA_SEC, map_of(1, "channel", 7));
    answer(&world, 5 * ROTA_SEC, world.asked[1], map_of(1, "channel", 8)); /* asked for before */
    assert_int_equal(stats->n_fenced, 1);
    assert_int_equal(stats->n_published, 3);
    assert_int_equal(get(&world, 5 * ROTA_SEC, by_id(1, 3)), 7);
    teardown(&world);
}

/* Whether it is asked for with or without the cache: what comes is from before. */
static void deprecated_name_fences_every_flight_for_it(void **state)
{
    (void)state;
    for (int is_forced = 0; is_forced < 2; is_forced++) {
        struct world world;
        setup(&world);
        struct rota_shard_query query = by_name("c", 1);
        get(&world, 0, is_forced ? forced(query) : query);
        rota_shard_cache_deprecate(world.cache, DB, rota_str("c"));
        answer(&world, 1, world.asked[0], map_of(1, "channel", 5));
        assert_int_equal(world.n_tells, 1); /* its waiter has it all the same */
        assert_false(has(&world, 1));
        assert_int_equal(rota_shard_cache_stats(world.cache)->n_fenced, 1);
        teardown(&world);
    }
}

static void names_have_a_bound(void **state)
{
    static char text[ROTA_SHARD_NAME_MAX + 1];
    (void)state;
    memset(text, 'x', sizeof text);
    for (int i = 0; i < 4; i++) {
        struct world world;
        struct rota_shard_map *map;
        setup(&world);
        struct rota_shard_query query = by_name("c", 1);
        *(i < 2 ? &query.name : &query.database) =
            rota_str_of(text, ROTA_SHARD_NAME_MAX + (size_t)(i % 2));
        assert_int_equal(rota_shard_cache_get(world.cache, 0, &query, &map, NULL) == ROTA_OK,
                         i % 2 == 0);
        teardown(&world);
    }
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
    assert_int_equal(rota_shard_cache_stats(world.cache)->n_evicted, 1);
    teardown(&world);
}

/* --- what comes unasked --- */

static void pushed_map_replaces_and_stops_older_flights(void **state)
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

static void pushed_map_that_is_not_cached_is_ignored(void **state)
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
        cmocka_unit_test(c18_c20_unread_maps_leave_and_a_read_keeps_them),
        cmocka_unit_test(c19_whether_a_node_leads_is_known_at_all_times),
        cmocka_unit_test(old_map_serves_while_one_flight_asks_for_the_next),
        cmocka_unit_test(unreachable_directory_is_asked_once_per_gap_and_the_old_map_stays),
        cmocka_unit_test(unknown_channel_is_requested_once_per_gap),
        cmocka_unit_test(every_error_changes_the_cache_as_documented),
        cmocka_unit_test(cancel_does_not_empty_the_cache),
        cmocka_unit_test(dead_node_has_the_map_refreshed),
        cmocka_unit_test(not_loaded_drops_the_map_once),
        cmocka_unit_test(claim_in_a_refusal_is_believed_at_once),
        cmocka_unit_test(claim_of_a_listed_replica_leaves_a_map_that_is_refreshed),
        cmocka_unit_test(outdated_claim_drops_the_map_instead),
        cmocka_unit_test(serviceable_flag_comes_with_a_refresh),
        cmocka_unit_test(forced_read_is_counted_as_forced),
        cmocka_unit_test(published_and_fenced_maps_are_counted),
        cmocka_unit_test(deprecated_name_fences_every_flight_for_it),
        cmocka_unit_test(names_have_a_bound),
        cmocka_unit_test(failed_refresh_leaves_the_old_map),
        cmocka_unit_test(bad_queries_are_refused_and_change_nothing),
        cmocka_unit_test(map_unread_for_longest_makes_room),
        cmocka_unit_test(pushed_map_replaces_and_stops_older_flights),
        cmocka_unit_test(pushed_map_that_is_not_cached_is_ignored),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
