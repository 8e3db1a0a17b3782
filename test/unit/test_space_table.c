/* A feed and the tables of its followers, and what a table does with a hostile directory. */
#include "core/call/service/space_table.h"
#include "core/own/space_feed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { N_NODES = 5, MANY = 40000 };

/* A space as its owner sees it. */
static struct rota_space_shard shards[MANY];
static struct rota_str nodes[N_NODES] = {
    {"a:1", 3}, {"b:1", 3}, {"c:1", 3}, {"d:1", 3}, {"e:1", 3}};
static struct rota_space_map map;
static struct rota_space_feed feed;
static struct rota_space_table table; /* of one that follows it */
static struct rota_space_follower follower;

static int set_up(void **state)
{
    (void)state;
    rota_space_feed_init(&feed, 1);
    rota_space_table_init(&table, 1);
    follower = (struct rota_space_follower){0};
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    rota_space_table_deinit(&table);
    rota_space_feed_deinit(&feed);
    return 0;
}

static void begin(uint32_t n_shards, size_t n_nodes)
{
    for (uint32_t i = 0; i < n_shards; i++)
        shards[i] = (struct rota_space_shard){
            .epoch = 1, .owner = i % (uint32_t)n_nodes, .state = ROTA_SPACE_OWNED};
    map = (struct rota_space_map){.engine = rota_str("ring"),
                                  .nodes = nodes,
                                  .n_nodes = n_nodes,
                                  .shards = shards,
                                  .n_shards = n_shards};
    assert_true(rota_space_feed_update(&feed, &map, NULL));
}

static void move(uint32_t shard, uint32_t owner)
{
    shards[shard].epoch++;
    shards[shard].owner = owner;
    shards[shard].state = owner == ROTA_SPACE_NOBODY ? ROTA_SPACE_UNOWNED : ROTA_SPACE_OWNED;
    assert_true(rota_space_feed_update(&feed, &map, NULL));
}

static void put_claim(uint32_t number)
{
    const struct rota_space_shard *known = &feed.claims[number];
    size_t zone;
    const char *name = feed.zones[number / feed.n_shards];
    assert_int_equal(rota_space_table_zone(&table, rota_str(name), &zone, NULL), ROTA_OK);
    const struct rota_space_table_claim claim = {
        .epoch = known->epoch,
        .owner = known->state == ROTA_SPACE_UNOWNED ? 0 : known->owner + 1,
        .is_moving = known->state == ROTA_SPACE_MOVING};
    assert_int_equal(rota_space_table_claim(&table, zone, number % feed.n_shards, &claim, NULL),
                     ROTA_OK);
}

/* Send one piece; false when there is none. */
static bool send_piece(struct rota_space_follower *to, struct rota_space_piece *piece)
{
    if (!rota_space_feed_next(&feed, to, piece))
        return false;
    const struct rota_space_table_head head = {.history = feed.history,
                                               .version = feed.version,
                                               .is_snapshot = piece->is_snapshot,
                                               .is_whole = piece->is_whole,
                                               .engine = rota_str(feed.engine),
                                               .n_shards = feed.n_shards};
    assert_int_equal(rota_space_table_begin(&table, &head, NULL), ROTA_OK);
    for (size_t i = 0; i < piece->n_nodes; i++)
        assert_int_equal(rota_space_table_node(&table, piece->first_node + i,
                                               nodes[piece->first_node + i], NULL),
                         ROTA_OK);
    for (uint32_t i = 0; i < piece->n_claims; i++)
        put_claim(piece->first_claim + i);
    for (uint64_t i = piece->from; i < piece->to; i++)
        put_claim(rota_space_feed_claim(&feed, i));
    assert_int_equal(rota_space_table_end(&table, &head, NULL), ROTA_OK);
    rota_space_feed_sent(&feed, to, piece);
    return true;
}

static size_t send_all(struct rota_space_follower *to)
{
    struct rota_space_piece piece;
    bool is_whole = true;
    size_t n = 0;
    for (; send_piece(to, &piece); n++)
        is_whole = piece.is_whole;
    assert_true(is_whole);
    return n;
}

static void assert_same(void)
{
    struct rota_space_table_shard shard;
    assert_int_equal(table.now.n_shards, map.n_shards);
    for (uint32_t i = 0; i < map.n_shards; i++) {
        assert_true(rota_space_table_look(&table, 0, i, true, &shard));
        bool is_owned = shards[i].state == ROTA_SPACE_OWNED;
        assert_int_equal(shard.n_replicas, is_owned);
        assert_int_equal(shard.is_moving, shards[i].state == ROTA_SPACE_MOVING);
        if (is_owned) {
            assert_true(rota_str_is_equal(shard.replicas[0].address, nodes[shards[i].owner]));
            assert_int_equal(shard.replicas[0].epoch, shards[i].epoch);
        }
    }
}

static void snapshot_comes_in_parts_then_changes(void **state)
{
    (void)state;
    begin(MANY, 3);
    assert_int_equal(send_all(&follower), 3);
    assert_same();

    move(7, 2);
    move(MANY - 1, ROTA_SPACE_NOBODY);
    map.n_nodes = 4;
    move(8, 3);
    shards[9].state = ROTA_SPACE_MOVING;
    assert_true(rota_space_feed_update(&feed, &map, NULL));
    assert_int_equal(send_all(&follower), 1);
    assert_same();
    assert_int_equal(send_all(&follower), 0);
}

static void changes_during_a_snapshot_are_not_lost(void **state)
{
    struct rota_space_piece piece;
    (void)state;
    begin(MANY, 3);
    assert_true(send_piece(&follower, &piece));
    move(1, 2); /* in the part that was sent, and in one that was not */
    move(MANY - 1, 2);
    assert_false(table.is_known);
    assert_int_equal(send_all(&follower), 3);
    assert_same();
}

static void map_in_use_stays_whole_while_a_snapshot_comes(void **state)
{
    struct rota_space_follower other = {0};
    struct rota_space_table_shard shard;
    struct rota_space_piece piece;
    (void)state;
    begin(MANY, 3);
    send_all(&follower);
    move(1, 2);
    assert_true(send_piece(&other, &piece)); /* from another directory */
    assert_true(rota_space_table_look(&table, 0, MANY - 1, true, &shard));
    assert_int_equal(shard.n_replicas, 1);
    assert_true(rota_space_table_look(&table, 0, 1, true, &shard));
    assert_int_equal(shard.replicas[0].epoch, 1);
    rota_space_table_pause(&table); /* which has gone */
    assert_true(rota_space_table_look(&table, 0, MANY - 1, true, &shard));
    rota_space_feed_resume(&feed, table.history, table.version, &follower);
    assert_int_equal(send_all(&follower), 1);
    assert_same();
}

static void a_snapshot_that_starts_again_replaces_its_first_parts(void **state)
{
    struct rota_space_follower other = {0};
    struct rota_space_piece piece;
    struct rota_str before = nodes[0];
    (void)state;
    begin(MANY, 3);
    assert_true(send_piece(&follower, &piece));
    assert_false(piece.is_whole);
    nodes[0] = rota_str("x:1"); /* another directory numbers them otherwise */
    send_all(&other);
    assert_same();
    nodes[0] = before;
}

static void a_follower_resumes_where_it_was(void **state)
{
    struct rota_space_piece piece;
    (void)state;
    begin(100, 3);
    send_all(&follower);
    move(7, 2);
    send_all(&follower);
    map.n_nodes = 4;
    move(8, 3);
    move(9, 3);
    rota_space_feed_resume(&feed, table.history, table.version, &follower);
    assert_true(send_piece(&follower, &piece));
    assert_false(piece.is_snapshot);
    assert_int_equal(piece.to - piece.from, 2);
    assert_same();

    rota_space_feed_resume(&feed, table.history, table.version, &follower);
    assert_true(send_piece(&follower, &piece)); /* so that it knows that this is all */
    assert_true(piece.is_whole && !piece.is_snapshot && piece.from == piece.to);
    assert_false(rota_space_feed_next(&feed, &follower, &piece));
    rota_space_feed_resume(&feed, table.history + 1, table.version, &follower);
    assert_true(rota_space_feed_next(&feed, &follower, &piece) && piece.is_snapshot);
    rota_space_feed_resume(&feed, table.history, table.version + 1, &follower);
    assert_true(rota_space_feed_next(&feed, &follower, &piece) && piece.is_snapshot);
}

static void a_follower_that_is_far_behind_gets_a_snapshot(void **state)
{
    struct rota_space_follower late;
    struct rota_space_piece piece;
    (void)state;
    begin(100, 3);
    send_all(&follower);
    late = follower;
    for (uint32_t i = 0; i < ROTA_SPACE_FEED_CHANGES_MIN; i++)
        move(i % 100, i % 3);
    assert_true(rota_space_feed_next(&feed, &late, &piece));
    assert_false(piece.is_snapshot); /* all of them are there */
    move(0, 1);
    assert_true(rota_space_feed_next(&feed, &late, &piece));
    assert_true(piece.is_snapshot);
    rota_space_feed_resume(&feed, table.history, table.version, &late);
    assert_true(rota_space_feed_next(&feed, &late, &piece) && piece.is_snapshot);
    send_all(&late);
    assert_same();
}

static void another_number_of_shards_is_another_history(void **state)
{
    (void)state;
    begin(100, 3);
    send_all(&follower);
    uint64_t history = feed.history;
    map.n_shards = 50;
    assert_true(rota_space_feed_update(&feed, &map, NULL));
    assert_true(feed.history != history);
    send_all(&follower);
    assert_same();
}

static void fewer_nodes_are_another_history(void **state)
{
    (void)state;
    begin(100, 3);
    uint64_t history = feed.history;
    map.n_nodes = 4;
    assert_true(rota_space_feed_update(&feed, &map, NULL));
    assert_int_equal(feed.history, history);
    map.n_nodes = 3; /* their numbers mean others now */
    assert_true(rota_space_feed_update(&feed, &map, NULL));
    assert_true(feed.history != history && feed.history != 0);
}

static void another_node_under_a_number_is_another_history(void **state)
{
    struct rota_str before = nodes[1];
    (void)state;
    begin(100, 3);
    uint64_t history = feed.history;
    nodes[1] = rota_str("x:1");
    assert_true(rota_space_feed_update(&feed, &map, NULL));
    assert_true(feed.history != history);
    nodes[1] = before;
}

static void a_shard_has_a_claim_in_each_zone(void **state)
{
    const struct rota_str names[] = {rota_str("east"), rota_str("west"), rota_str("north")};
    struct rota_space_zones zones = {names, 2};
    struct rota_space_table_shard shard;
    struct rota_space_piece piece;
    (void)state;
    begin(100, 3);
    for (uint32_t i = 0; i < 200; i++)
        shards[i] = (struct rota_space_shard){.epoch = 1 + i, .owner = i < 100 ? 0 : 1};
    uint64_t history = feed.history;
    assert_true(rota_space_feed_update(&feed, &map, &zones));
    assert_true(feed.history != history);
    send_all(&follower);
    assert_int_equal(table.now.n_shards, 100);
    assert_true(rota_space_table_look(&table, 0, 99, true, &shard));
    assert_int_equal(shard.n_replicas, 2);
    assert_true(rota_str_is_equal(shard.replicas[0].zone, names[0]) &&
                rota_str_is_equal(shard.replicas[0].address, nodes[0]) &&
                shard.replicas[0].epoch == 100);
    assert_true(rota_str_is_equal(shard.replicas[1].zone, names[1]) &&
                rota_str_is_equal(shard.replicas[1].address, nodes[1]) &&
                shard.replicas[1].epoch == 200);

    shards[107].epoch = 300; /* shard 7 in the west */
    assert_true(rota_space_feed_update(&feed, &map, &zones));
    assert_true(send_piece(&follower, &piece));
    assert_true(!piece.is_snapshot && piece.to - piece.from == 1);
    assert_true(rota_space_table_look(&table, 0, 7, true, &shard));
    assert_true(shard.replicas[0].epoch == 8 && shard.replicas[1].epoch == 300);

    history = feed.history;
    zones.n = 3; /* another zone, or one of another name, is another space */
    assert_true(rota_space_feed_update(&feed, &map, &zones));
    assert_true(feed.history != history);
    history = feed.history;
    zones.names = (const struct rota_str[]){names[0], names[1], rota_str("south")};
    assert_true(rota_space_feed_update(&feed, &map, &zones));
    assert_true(feed.history != history);
}

static void a_map_that_is_not_known_yet_is_not_fed(void **state)
{
    struct rota_space_piece piece;
    (void)state;
    begin(100, 3);
    struct rota_space_feed known = feed;
    rota_space_feed_init(&feed, 1);
    map.engine = rota_str("");
    assert_true(rota_space_feed_update(&feed, &map, NULL));
    map = (struct rota_space_map){.engine = rota_str("ring")};
    assert_true(rota_space_feed_update(&feed, &map, NULL));
    assert_false(rota_space_feed_next(&feed, &follower, &piece));
    assert_true(rota_space_feed_update(&known, &map, NULL)); /* one that was known stays */
    assert_true(known.n_shards == 100 && known.version == 1);
    rota_space_feed_deinit(&known);
}

static void another_engine_is_news_without_claims(void **state)
{
    struct rota_space_piece piece;
    (void)state;
    begin(100, 3);
    send_all(&follower);
    assert_true(rota_space_feed_update(&feed, &map, NULL)); /* nothing new */
    assert_int_equal(feed.version, 1);
    map.engine = rota_str("lease");
    assert_true(rota_space_feed_update(&feed, &map, NULL));
    assert_int_equal(feed.version, 2);
    assert_true(send_piece(&follower, &piece));
    assert_true(piece.is_whole && piece.from == piece.to && piece.n_claims == 0);
    assert_string_equal(table.engine, "lease");
    assert_int_equal(table.version, 2);
    assert_int_equal(send_all(&follower), 0);
}

static void claims_wait_until_all_nodes_are_sent(void **state)
{
    struct rota_space_piece piece;
    (void)state;
    static struct rota_str many[2 * ROTA_SPACE_FEED_NODES + 1];
    begin(100, 3);
    for (size_t i = 0; i < 2 * ROTA_SPACE_FEED_NODES + 1; i++)
        many[i] = nodes[i % N_NODES];
    map.nodes = many;
    map.n_nodes = 2 * ROTA_SPACE_FEED_NODES + 1;
    assert_true(rota_space_feed_update(&feed, &map, NULL));
    for (size_t i = 0; i < 2; i++) {
        assert_true(rota_space_feed_next(&feed, &follower, &piece));
        assert_int_equal(piece.first_node, i * ROTA_SPACE_FEED_NODES);
        assert_int_equal(piece.n_nodes, ROTA_SPACE_FEED_NODES);
        assert_true(piece.is_snapshot == (i == 0) && piece.n_claims == 0 && !piece.is_whole);
        rota_space_feed_sent(&feed, &follower, &piece);
    }
    assert_true(rota_space_feed_next(&feed, &follower, &piece));
    assert_true(piece.n_nodes == 1 && piece.n_claims == 100 && piece.is_whole);
    rota_space_feed_sent(&feed, &follower, &piece);
    assert_false(rota_space_feed_next(&feed, &follower, &piece));
}

static void many_changes_come_in_parts(void **state)
{
    struct rota_space_piece piece;
    (void)state;
    begin(MANY, 3);
    send_all(&follower);
    for (uint32_t i = 0; i < MANY; i++)
        shards[i].epoch = 2;
    assert_true(rota_space_feed_update(&feed, &map, NULL));
    assert_int_equal(feed.version, 2);
    assert_true(send_piece(&follower, &piece));
    assert_true(piece.to - piece.from == ROTA_SPACE_FEED_PIECE && !piece.is_whole);
    assert_int_equal(table.version, 1); /* until it is whole */
    assert_int_equal(send_all(&follower), 2);
    assert_int_equal(table.version, 2);
    assert_same();
}

static void each_part_of_a_snapshot_knows_its_last_change(void **state)
{
    (void)state;
    begin(MANY, 3);
    move(ROTA_SPACE_FEED_PIECE, 1);
    move(ROTA_SPACE_FEED_PIECE - 1, 1);
    move(0, 2);
    assert_int_equal(feed.changed[0], 3);
    assert_int_equal(feed.changed[1], 1);
    assert_int_equal(feed.changed[2], 0);
}

static void a_follower_resumes_from_a_full_ring_if_all_it_lacks_is_there(void **state)
{
    struct rota_space_piece piece;
    (void)state;
    begin(100, 3);
    for (uint32_t i = 0; i < 2 * ROTA_SPACE_FEED_CHANGES_MIN; i++) /* versions 2 and on */
        move(i % 100, i % 3);
    const uint64_t oldest = feed.version - ROTA_SPACE_FEED_CHANGES_MIN + 1; /* in the ring */
    for (uint64_t version = oldest; version < feed.version; version++) {
        rota_space_feed_resume(&feed, feed.history, version, &follower);
        assert_true(rota_space_feed_next(&feed, &follower, &piece));
        assert_false(piece.is_snapshot);
        assert_int_equal(piece.to - piece.from, feed.version - version);
        assert_int_equal(piece.n_nodes, 0);
    }
    rota_space_feed_resume(&feed, feed.history, oldest - 2, &follower);
    assert_true(rota_space_feed_next(&feed, &follower, &piece) && piece.is_snapshot);
    rota_space_feed_resume(&feed, feed.history, 0, &follower);
    assert_true(rota_space_feed_next(&feed, &follower, &piece) && piece.is_snapshot);
}

static struct rota_replica claim_of(const char *address, uint64_t epoch)
{
    return (struct rota_replica){.address = rota_str(address), .epoch = epoch};
}

static void a_learned_claim_counts_until_the_directory_has_it(void **state)
{
    struct rota_space_table_shard shard;
    struct rota_replica claim = claim_of("x:1", 2), old = claim_of("y:1", 1);
    (void)state;
    begin(100, 3);
    assert_false(rota_space_table_learn(&table, 0, 7, &claim)); /* there is no map */
    send_all(&follower);
    assert_false(rota_space_table_learn(&table, 0, 7, &old));
    assert_true(rota_space_table_learn(&table, 0, 7, &claim));
    assert_false(rota_space_table_learn(&table, 0, 7, &claim));
    assert_false(rota_space_table_learn(&table, 0, 100, &claim));
    assert_true(rota_space_table_look(&table, 1, 7, true, &shard));
    assert_true(shard.replicas[0].is_learned && shard.replicas[0].epoch == 2);
    assert_true(rota_space_table_look(&table, 1, 7, false, &shard));
    assert_false(shard.replicas[0].is_learned);
    assert_true(rota_space_table_look(&table, ROTA_SPACE_TABLE_LEARNED_FOR, 7, true, &shard));
    assert_false(shard.replicas[0].is_learned); /* it is over */

    assert_true(rota_space_table_learn(&table, 0, 8, &claim));
    move(8, 1);
    send_all(&follower);
    assert_true(rota_space_table_look(&table, 1, 8, true, &shard));
    assert_false(shard.replicas[0].is_learned);
    assert_int_equal(table.learned.size, 0);
}

static void learned_claims_are_bounded(void **state)
{
    struct rota_replica claim = claim_of("x:1", 2);
    (void)state;
    begin(MANY, 3);
    send_all(&follower);
    size_t n = 0;
    for (uint32_t i = 0; i < MANY; i++)
        n += rota_space_table_learn(&table, 0, i, &claim);
    assert_int_equal(n, ROTA_SPACE_TABLE_LEARNED_MAX);
}

static void a_later_claim_replaces_one_that_was_learned(void **state)
{
    struct rota_space_table_shard shard;
    struct rota_replica first = claim_of("x:1", 2), second = claim_of("y:1", 3);
    (void)state;
    begin(100, 3);
    send_all(&follower);
    assert_true(rota_space_table_learn(&table, 0, 7, &second));
    assert_false(rota_space_table_learn(&table, 0, 7, &first));
    /* When the later one is over, the earlier one is news again. */
    assert_true(rota_space_table_learn(&table, ROTA_SPACE_TABLE_LEARNED_FOR, 7, &first));
    assert_true(rota_space_table_learn(&table, ROTA_SPACE_TABLE_LEARNED_FOR, 7, &second));
    assert_int_equal(table.learned.size, 1);
    assert_true(
        rota_space_table_look(&table, 2 * ROTA_SPACE_TABLE_LEARNED_FOR - 1, 7, true, &shard));
    assert_int_equal(shard.n_replicas, 1);
    assert_true(rota_str_is_equal(shard.replicas[0].address, rota_str("y:1")));
}

static void a_claim_without_a_proper_address_is_not_learned(void **state)
{
    static char text[ROTA_SHARD_NAME_MAX + 1];
    struct rota_replica claim = claim_of("", 2);
    (void)state;
    memset(text, 'x', sizeof text);
    begin(100, 3);
    send_all(&follower);
    assert_false(rota_space_table_learn(&table, 0, 7, &claim));
    claim.address = rota_str_of(text, sizeof text);
    assert_false(rota_space_table_learn(&table, 0, 7, &claim));
    claim.address.size--;
    assert_true(rota_space_table_learn(&table, 0, 7, &claim));
}

static void the_first_claim_of_a_shard_is_learned(void **state)
{
    struct rota_space_table_shard shard;
    struct rota_replica claim = claim_of("x:1", 1);
    (void)state;
    begin(100, 3);
    shards[7] = (struct rota_space_shard){.owner = ROTA_SPACE_NOBODY, .state = ROTA_SPACE_UNOWNED};
    rota_space_feed_deinit(&feed);
    rota_space_feed_init(&feed, 1);
    assert_true(rota_space_feed_update(&feed, &map, NULL));
    send_all(&follower);
    assert_true(rota_space_table_look(&table, 0, 7, true, &shard));
    assert_int_equal(shard.n_replicas, 0);
    assert_true(rota_space_table_learn(&table, 0, 7, &claim));
    assert_true(rota_space_table_look(&table, 0, 7, true, &shard));
    assert_true(shard.n_replicas == 1 && shard.replicas[0].epoch == 1);
}

static void changes_must_be_of_the_history_and_the_shards_that_are_known(void **state)
{
    (void)state;
    begin(100, 3);
    send_all(&follower);
    const struct rota_space_table_head head = {
        .history = table.history, .version = 2, .n_shards = 100};
    struct rota_space_table_head bad = head;
    bad.history++;
    assert_int_equal(rota_space_table_begin(&table, &bad, NULL), ROTA_ERR_INVALID);
    bad.history = 0;
    bad.is_snapshot = true;
    assert_int_equal(rota_space_table_begin(&table, &bad, NULL), ROTA_ERR_INVALID);
    bad = head;
    bad.n_shards++;
    assert_int_equal(rota_space_table_begin(&table, &bad, NULL), ROTA_ERR_INVALID);
    uint64_t n_updates = table.n_updates;
    assert_int_equal(rota_space_table_begin(&table, &head, NULL), ROTA_OK);
    assert_int_equal(rota_space_table_end(&table, &head, NULL), ROTA_OK);
    assert_int_equal(table.n_updates, n_updates + 1); /* waiting calls look again */
    assert_int_equal(table.version, 1);               /* it is not whole */
}

static void names_have_a_bound_and_no_nul(void **state)
{
    static char text[ROTA_SHARD_NAME_MAX + 1];
    const struct rota_str too_long = {text, sizeof text}, longest = {text, sizeof text - 1};
    const struct rota_space_table_head head = {
        .history = 1, .version = 1, .is_snapshot = true, .n_shards = ROTA_SPACE_SHARDS_MAX};
    size_t zone;
    (void)state;
    memset(text, 'x', sizeof text);
    assert_int_equal(rota_space_table_begin(&table, &head, NULL), ROTA_OK);
    assert_int_equal(rota_space_table_node(&table, 0, too_long, NULL), ROTA_ERR_INVALID);
    assert_int_equal(rota_space_table_node(&table, 0, longest, NULL), ROTA_OK);
    assert_int_equal(rota_space_table_zone(&table, too_long, &zone, NULL), ROTA_ERR_INVALID);
    assert_int_equal(rota_space_table_zone(&table, longest, &zone, NULL), ROTA_OK);
    assert_int_equal(rota_space_table_zone(&table, rota_str_of("\0", 1), &zone, NULL),
                     ROTA_ERR_INVALID);
    for (uint64_t i = 1; i < ROTA_SPACE_NODES_MAX; i++)
        assert_int_equal(rota_space_table_node(&table, i, rota_str("a"), NULL), ROTA_OK);
    assert_int_equal(rota_space_table_node(&table, ROTA_SPACE_NODES_MAX, rota_str("a"), NULL),
                     ROTA_ERR_INVALID);
}

static void a_hostile_directory_is_rejected(void **state)
{
    struct rota_space_table_head head = {
        .history = 1, .version = 1, .is_snapshot = true, .is_whole = true, .n_shards = 4};
    struct rota_space_table_claim claim = {.epoch = 1, .owner = 2};
    struct rota_error error;
    char name[16];
    size_t zone;
    (void)state;
    struct rota_space_table_head bad = head;
    bad.n_shards = 0;
    assert_int_equal(rota_space_table_begin(&table, &bad, &error), ROTA_ERR_INVALID);
    bad.n_shards = ROTA_SPACE_SHARDS_MAX + 1;
    assert_int_equal(rota_space_table_begin(&table, &bad, &error), ROTA_ERR_INVALID);
    bad = head;
    bad.version = 0;
    assert_int_equal(rota_space_table_begin(&table, &bad, &error), ROTA_ERR_INVALID);
    bad = head;
    bad.is_snapshot = false; /* changes of a map that we do not have */
    assert_int_equal(rota_space_table_begin(&table, &bad, &error), ROTA_ERR_INVALID);

    assert_int_equal(rota_space_table_begin(&table, &head, &error), ROTA_OK);
    assert_int_equal(rota_space_table_node(&table, 1, rota_str("a:1"), &error), ROTA_ERR_INVALID);
    assert_int_equal(rota_space_table_node(&table, 0, rota_str(""), &error), ROTA_ERR_INVALID);
    assert_int_equal(rota_space_table_node(&table, 0, rota_str_of("a\0b", 3), &error),
                     ROTA_ERR_INVALID);
    assert_int_equal(rota_space_table_node(&table, 0, rota_str("a:1"), &error), ROTA_OK);
    assert_int_equal(rota_space_table_node(&table, 0, rota_str("a:1"), &error), ROTA_OK);
    assert_int_equal(rota_space_table_node(&table, 0, rota_str("b:1"), &error), ROTA_ERR_INVALID);
    assert_int_equal(rota_space_table_claim(&table, 0, 0, &claim, &error), ROTA_ERR_INVALID);
    for (int i = 0; i < ROTA_SPACE_TABLE_ZONES_MAX; i++) {
        snprintf(name, sizeof name, "zone-%d", i);
        assert_int_equal(rota_space_table_zone(&table, rota_str(name), &zone, &error), ROTA_OK);
        assert_int_equal(zone, i);
    }
    assert_int_equal(rota_space_table_zone(&table, rota_str("zone-0"), &zone, &error), ROTA_OK);
    assert_int_equal(zone, 0);
    assert_int_equal(rota_space_table_zone(&table, rota_str("x"), &zone, &error), ROTA_ERR_INVALID);
    assert_int_equal(rota_space_table_claim(&table, 0, 0, &claim, &error), ROTA_ERR_INVALID);
    claim.owner = 1;
    assert_int_equal(rota_space_table_claim(&table, 0, 4, &claim, &error), ROTA_ERR_INVALID);
    assert_int_equal(rota_space_table_claim(&table, 0, 3, &claim, &error), ROTA_OK);
    rota_space_table_abort(&table);
    assert_false(table.is_known);
    assert_int_equal(table.history, 0);
}

static void owners_of_all_zones_are_replicas(void **state)
{
    struct rota_space_table_head head = {
        .history = 1, .version = 1, .is_snapshot = true, .is_whole = true, .n_shards = 2};
    struct rota_space_table_shard shard;
    size_t east, west;
    (void)state;
    assert_int_equal(rota_space_table_begin(&table, &head, NULL), ROTA_OK);
    rota_space_table_node(&table, 0, rota_str("a:1"), NULL);
    rota_space_table_node(&table, 1, rota_str("b:1"), NULL);
    rota_space_table_zone(&table, rota_str("east"), &east, NULL);
    rota_space_table_zone(&table, rota_str("west"), &west, NULL);
    rota_space_table_claim(&table, east, 0, &(struct rota_space_table_claim){3, 1, false}, NULL);
    rota_space_table_claim(&table, west, 0, &(struct rota_space_table_claim){5, 2, false}, NULL);
    rota_space_table_claim(&table, west, 1, &(struct rota_space_table_claim){5, 2, true}, NULL);
    rota_space_table_end(&table, &head, NULL);
    assert_true(rota_space_table_look(&table, 0, 0, true, &shard));
    assert_int_equal(shard.n_replicas, 2);
    assert_true(rota_str_is_equal(shard.replicas[1].zone, rota_str("west")));
    assert_int_equal(shard.replicas[1].epoch, 5);
    assert_true(rota_space_table_look(&table, 0, 1, true, &shard));
    assert_true(shard.n_replicas == 0 && shard.is_moving);
    struct rota_replica claim = claim_of("x:1", 9); /* of which zone? */
    assert_false(rota_space_table_learn(&table, 0, 0, &claim));
    assert_false(rota_space_table_look(&table, 0, 2, true, &shard));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(snapshot_comes_in_parts_then_changes),
        TEST(changes_during_a_snapshot_are_not_lost),
        TEST(map_in_use_stays_whole_while_a_snapshot_comes),
        TEST(a_snapshot_that_starts_again_replaces_its_first_parts),
        TEST(a_follower_resumes_where_it_was),
        TEST(a_follower_that_is_far_behind_gets_a_snapshot),
        TEST(another_number_of_shards_is_another_history),
        TEST(fewer_nodes_are_another_history),
        TEST(another_node_under_a_number_is_another_history),
        TEST(a_shard_has_a_claim_in_each_zone),
        TEST(a_map_that_is_not_known_yet_is_not_fed),
        TEST(another_engine_is_news_without_claims),
        TEST(claims_wait_until_all_nodes_are_sent),
        TEST(many_changes_come_in_parts),
        TEST(each_part_of_a_snapshot_knows_its_last_change),
        TEST(a_follower_resumes_from_a_full_ring_if_all_it_lacks_is_there),
        TEST(a_learned_claim_counts_until_the_directory_has_it),
        TEST(learned_claims_are_bounded),
        TEST(a_later_claim_replaces_one_that_was_learned),
        TEST(a_claim_without_a_proper_address_is_not_learned),
        TEST(the_first_claim_of_a_shard_is_learned),
        TEST(changes_must_be_of_the_history_and_the_shards_that_are_known),
        TEST(names_have_a_bound_and_no_nul),
        TEST(a_hostile_directory_is_rejected),
        TEST(owners_of_all_zones_are_replicas),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
