/* Maps of what peers, users and workers name are seeded: whoever can choose the keys must not be
 * able to make them collide. Every map works without a seed, so nothing else notices. */
#include "core/call/blacklist.h"
#include "core/call/get/loads.h"
#include "core/call/get/lru.h"
#include "core/call/get/places.h"
#include "core/call/service/space_table.h"
#include "core/call/shards/health_fsm.h"
#include "core/call/shards/shard_flights.h"
#include "core/call/shards/shard_table.h"
#include "core/place/node_book.h"
#include "core/work/broker/broker_inside.h"
#include "core/work/cluster/layouts.h"
#include "core/work/cluster/remote_fsm.h"
#include "core/work/cluster/tally.h"
#include "core/work/cluster/tree_inside.h"
#include "core/work/worker/sessions.h"
#include "vectors.h"

enum { SEED = 77 };

#define SEEDED(map) assert_int_equal((map).seed, SEED)

static void maps_of_calls_are_seeded(void **state)
{
    struct rota_blacklist blacklist;
    struct rota_health_fsm health;
    struct rota_loads loads;
    struct rota_lru lru;
    struct rota_places places;
    struct rota_shard_flights flights;
    struct rota_shard_table shards;
    struct rota_space_table spaces;
    (void)state;
    rota_blacklist_init(&blacklist, SEED, ROTA_SEC, ROTA_SEC);
    SEEDED(blacklist.shards);
    rota_blacklist_deinit(&blacklist);
    rota_health_fsm_init(&health, &(struct rota_health_options){.seed = SEED});
    SEEDED(health.nodes);
    rota_health_fsm_deinit(&health);
    rota_loads_init(&loads, &(struct rota_loads_options){.keys_max = 1, .reads_max = 1}, SEED);
    SEEDED(loads.keys);
    rota_loads_deinit(&loads);
    rota_lru_init(&lru, 1, 1, SEED);
    SEEDED(lru.entries);
    rota_lru_deinit(&lru);
    rota_places_init(&places, 1, 1, 0, SEED);
    SEEDED(places.peers);
    rota_places_deinit(&places);
    rota_shard_flights_init(&flights, SEED, ROTA_SEC);
    SEEDED(flights.by_number);
    SEEDED(flights.by_key);
    rota_shard_flights_deinit(&flights);
    rota_shard_table_init(&shards, SEED, 1, 1);
    SEEDED(shards.entries);
    SEEDED(shards.names);
    SEEDED(shards.databases);
    SEEDED(shards.nodes);
    rota_shard_table_deinit(&shards);
    rota_space_table_init(&spaces, SEED);
    SEEDED(spaces.learned);
    rota_space_table_deinit(&spaces);
}

static void maps_of_nodes_are_seeded(void **state)
{
    struct rota_layouts layouts;
    struct rota_node_book book;
    struct rota_remote_fsm remote;
    struct rota_tally tally;
    (void)state;
    rota_layouts_init(&layouts, &(struct rota_work_layout){0}, SEED);
    SEEDED(layouts.queues);
    rota_layouts_deinit(&layouts);
    rota_node_book_init(&book, SEED);
    SEEDED(book.by_address);
    rota_node_book_deinit(&book);
    rota_remote_fsm_init(&remote, SEED);
    SEEDED(remote.attempts);
    rota_remote_fsm_deinit(&remote);
    rota_tally_init(&tally, SEED);
    SEEDED(tally.by_queue);
    SEEDED(tally.by_worker);
    rota_tally_deinit(&tally);
    struct rota_tree_fsm *tree =
        rota_tree_fsm_new(&(struct rota_tree_options){.self = rota_str("a:1"), .seed = SEED}, 0);
    assert_non_null(tree);
    SEEDED(tree->words);
    SEEDED(tree->queues);
    SEEDED(tree->visits);
    SEEDED(tree->down);
    rota_tree_fsm_free(tree);
}

static void maps_of_jobs_are_seeded(void **state)
{
    struct rota_capabilities capabilities;
    struct rota_fair fair = {0};
    struct rota_fair_queue queue;
    struct rota_sessions sessions;
    (void)state;
    assert_true(rota_capabilities_init(&capabilities, 1, SEED));
    SEEDED(capabilities.by_name);
    SEEDED(capabilities.by_text);
    rota_capabilities_deinit(&capabilities);
    rota_fair_queue_init(&queue, &fair, SEED);
    SEEDED(queue.keys);
    rota_fair_queue_deinit(&queue);
    rota_sessions_init(&sessions, (struct rota_beat){0}, 1, 1, SEED);
    SEEDED(sessions.by_route);
    SEEDED(sessions.by_name);
    rota_sessions_deinit(&sessions);
}

/* Its maps have one seed, made of that which it is given. */
static void maps_of_a_broker_are_seeded(void **state)
{
    struct rota_broker *brokers[2];
    (void)state;
    for (uint64_t i = 0; i < 2; i++)
        assert_int_equal(
            rota_broker_new(&(struct rota_broker_options){.seed = SEED + i}, &brokers[i], NULL),
            ROTA_OK);
    uint64_t seed = brokers[0]->queues_by_name.seed;
    assert_true(seed != 0 && seed != brokers[1]->queues_by_name.seed);
    assert_true(brokers[0]->classes.seed == seed);
    assert_true(brokers[0]->workers_by_name.seed == seed);
    assert_true(brokers[0]->names.seed == seed);
    assert_true(brokers[0]->uniques.seed == seed);
    for (int i = 0; i < 2; i++)
        rota_broker_free(brokers[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(maps_of_calls_are_seeded),
        cmocka_unit_test(maps_of_nodes_are_seeded),
        cmocka_unit_test(maps_of_jobs_are_seeded),
        cmocka_unit_test(maps_of_a_broker_are_seeded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
