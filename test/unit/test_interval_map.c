#include "core/call/get/interval_index.h"
#include "core/call/get/interval_map.h"
#include "vectors.h"

#include <rota/experimental/random.h>
#include <stdio.h>
#include <string.h>

enum { HOSTS_MAX = 600 };

/* Hosts "a0".. of dc "a" and "b0".. of dc "b". */
static struct rota_interval_map *map_with(size_t n_a, size_t n_b)
{
    static char names[HOSTS_MAX][8];
    struct rota_interval_member members[HOSTS_MAX];
    struct rota_interval_map *map;
    for (size_t i = 0; i < n_a + n_b; i++) {
        bool is_a = i < n_a;
        int size =
            snprintf(names[i], sizeof names[i], "%c%zu", is_a ? 'a' : 'b', is_a ? i : i - n_a);
        members[i] = (struct rota_interval_member){{names[i], (size_t)size}, {names[i], 1}};
    }
    assert_int_equal(rota_interval_map_new(1, &map, NULL), ROTA_OK);
    assert_int_equal(rota_interval_map_set_hosts(map, members, n_a + n_b, NULL), ROTA_OK);
    return map;
}

static uint64_t id_at(const struct rota_interval_map *map, size_t index)
{
    return rota_interval_map_host(map, index)->id;
}

static enum rota_interval_learned teach_by(struct rota_interval_map *map, size_t index,
                                           uint64_t number, struct rota_interval shard,
                                           uint64_t epoch)
{
    struct rota_interval_claim claim = {shard, epoch};
    struct rota_interval_lesson lesson = {number, &claim, 1};
    return rota_interval_map_learn(map, id_at(map, index), &lesson);
}

static enum rota_interval_learned teach(struct rota_interval_map *map, size_t index,
                                        struct rota_interval shard, uint64_t epoch)
{
    return teach_by(map, index, rota_interval_map_number(map), shard, epoch);
}

/* The addresses of a key's replicas, in order, with a blank after each. */
static const char *holders(struct rota_interval_map *map, uint64_t key)
{
    static char text[256];
    uint32_t route;
    size_t size = 0;
    text[0] = 0;
    assert_true(rota_interval_map_lookup(map, &key, 1, &route));
    struct rota_interval_replicas replicas = rota_interval_map_replicas(map, route);
    for (size_t i = 0; i < replicas.n; i++) {
        const struct rota_interval_host *host = replicas.items[i];
        size += (size_t)snprintf(text + size, sizeof text - size, "%.*s ", (int)host->address.size,
                                 host->address.data);
    }
    return text;
}

static bool holds(const struct rota_interval_host *host, uint64_t key)
{
    for (size_t i = 0; i < host->n_claims; i++) {
        const struct rota_interval *shard = &host->claims[i].interval;
        uint64_t at = shard->of ? key % shard->of : key;
        if (at >= shard->from && (shard->to == 0 || at < shard->to))
            return true;
    }
    return false;
}

static void a_host_is_a_replica_of_the_shards_it_claims(void **state)
{
    struct rota_interval_map *map = map_with(2, 2);
    (void)state;
    assert_string_equal(holders(map, 1), "");
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(teach(map, i, rota_interval_of(i % 2, 2), 7), ROTA_INTERVAL_NEW);
    assert_string_equal(holders(map, 0), "a0 b0 ");
    assert_string_equal(holders(map, 1), "a1 b1 ");
    assert_string_equal(holders(map, UINT64_MAX), "a1 b1 ");
    rota_interval_map_free(map);
}

static void the_same_answer_again_changes_nothing(void **state)
{
    struct rota_interval_map *map = map_with(1, 0);
    (void)state;
    teach(map, 0, rota_interval_of(0, 2), 7);
    uint64_t version = rota_interval_map_version(map);
    assert_int_equal(teach(map, 0, rota_interval_of(0, 2), 7), ROTA_INTERVAL_NOTHING);
    assert_int_equal(rota_interval_map_version(map), version);
    rota_interval_map_free(map);
}

static void an_answer_to_an_older_request_does_not_undo_a_newer_one(void **state)
{
    struct rota_interval_map *map = map_with(1, 0);
    (void)state;
    uint64_t older = rota_interval_map_number(map), newer = rota_interval_map_number(map);
    teach_by(map, 0, newer, rota_interval_of(1, 2), 9);
    assert_int_equal(teach_by(map, 0, older, rota_interval_of(0, 2), 8), ROTA_INTERVAL_NOTHING);
    assert_string_equal(holders(map, 0), "");
    assert_string_equal(holders(map, 1), "a0 ");
    rota_interval_map_free(map);
}

static void a_known_epoch_counts_however_late_its_answer(void **state)
{
    struct rota_interval_map *map = map_with(2, 0);
    (void)state;
    uint64_t older = rota_interval_map_number(map);
    teach(map, 0, rota_interval_of(1, 2), 9);
    teach(map, 1, rota_interval_of(0, 2), 5);
    assert_int_equal(teach_by(map, 0, older, rota_interval_of(0, 2), 8), ROTA_INTERVAL_NEW);
    assert_string_equal(holders(map, 0), ""); /* a1 has a claim that is over */
    assert_string_equal(holders(map, 1), "a0 ");
    rota_interval_map_free(map);
}

static void of_two_hosts_of_a_dc_the_one_with_the_later_epoch_counts(void **state)
{
    struct rota_interval_map *map = map_with(2, 1);
    (void)state;
    teach(map, 0, rota_interval_of(0, 2), 7);
    teach(map, 2, rota_interval_of(0, 2), 3); /* another dc has epochs of its own */
    teach(map, 1, rota_interval_of(0, 2), 8);
    assert_string_equal(holders(map, 0), "a1 b0 ");
    assert_int_equal(teach(map, 0, rota_interval_of(0, 2), 7), ROTA_INTERVAL_STALE);
    assert_string_equal(holders(map, 0), "a1 b0 ");
    assert_int_equal(rota_interval_map_host(map, 0)->n_replicas, 0);
    rota_interval_map_free(map);
}

static void a_later_epoch_is_remembered_when_its_holder_has_gone(void **state)
{
    struct rota_interval_map *map = map_with(2, 0);
    struct rota_interval shard = rota_interval_of(0, 2);
    (void)state;
    teach(map, 0, shard, 8);
    uint64_t gone = id_at(map, 0);
    struct rota_interval_member left = {rota_interval_map_host(map, 1)->address, {"a", 1}};
    assert_int_equal(rota_interval_map_set_hosts(map, &left, 1, NULL), ROTA_OK);
    assert_null(rota_interval_map_find(map, gone));
    assert_string_equal(holders(map, 0), "");
    assert_int_equal(teach(map, 0, shard, 7), ROTA_INTERVAL_STALE);
    assert_string_equal(holders(map, 0), "");
    assert_int_equal(teach(map, 0, shard, 9), ROTA_INTERVAL_NEW);
    assert_string_equal(holders(map, 0), "a1 ");
    rota_interval_map_free(map);
}

static void hosts_without_epochs_are_all_replicas(void **state)
{
    struct rota_interval_map *map = map_with(2, 0);
    (void)state;
    teach(map, 0, rota_interval_of(0, 2), 0);
    teach(map, 1, rota_interval_of(0, 2), 0);
    assert_string_equal(holders(map, 4), "a0 a1 ");
    rota_interval_map_free(map);
}

static void overlaps_and_holes_of_a_dc_that_is_re_sharded(void **state)
{
    struct rota_interval_map *map = map_with(3, 2);
    (void)state;
    teach(map, 3, rota_interval_of(0, 2), 1);
    teach(map, 4, rota_interval_of(1, 2), 1);
    teach(map, 0, rota_interval_of(1, 2), 2); /* still the old one */
    teach(map, 1, rota_interval_of(0, 4), 3);
    teach(map, 2, rota_interval_of(1, 4), 4); /* and nobody has 2 of 4 there */
    assert_string_equal(holders(map, 0), "b0 a1 ");
    assert_string_equal(holders(map, 1), "a0 b1 a2 ");
    assert_string_equal(holders(map, 2), "b0 ");
    assert_string_equal(holders(map, 3), "a0 b1 ");
    rota_interval_map_free(map);
}

static void ranges_are_half_open_and_the_last_has_no_end(void **state)
{
    struct rota_interval_map *map = map_with(3, 0);
    (void)state;
    teach(map, 0, (struct rota_interval){0, 10, 0}, 0);
    teach(map, 1, (struct rota_interval){10, 20, 0}, 0);
    teach(map, 2, (struct rota_interval){30, 0, 0}, 0);
    assert_string_equal(holders(map, 9), "a0 ");
    assert_string_equal(holders(map, 10), "a1 ");
    assert_string_equal(holders(map, 20), "");
    assert_string_equal(holders(map, 29), "");
    assert_string_equal(holders(map, UINT64_MAX), "a2 ");
    teach(map, 2, (struct rota_interval){0, 0, 0}, 0);
    assert_string_equal(holders(map, 20), "a2 ");
    assert_string_equal(holders(map, 9), "a0 a2 ");
    rota_interval_map_free(map);
}

static void the_end_of_a_modulus_can_be_written_in_two_ways(void **state)
{
    struct rota_interval_map *map = map_with(2, 0);
    (void)state;
    teach(map, 0, (struct rota_interval){3, 4, 4}, 5);
    assert_int_equal(teach(map, 1, (struct rota_interval){3, 0, 4}, 4), ROTA_INTERVAL_STALE);
    assert_int_equal(teach(map, 1, (struct rota_interval){3, 0, 4}, 6), ROTA_INTERVAL_NEW);
    assert_string_equal(holders(map, 7), "a1 ");
    rota_interval_map_free(map);
}

static void an_impossible_interval_is_ignored(void **state)
{
    struct rota_interval_map *map = map_with(1, 0);
    (void)state;
    teach(map, 0, rota_interval_of(0, 2), 1);
    struct rota_interval bad[] = {{5, 5, 0}, {7, 3, 0}, {0, 5, 4}, {4, 0, 4}, {2, 2, 4}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(teach(map, 0, bad[i], 9), ROTA_INTERVAL_NOTHING);
    assert_string_equal(holders(map, 0), "a0 ");
    rota_interval_map_free(map);
}

static void a_host_that_holds_nothing_is_not_a_replica(void **state)
{
    struct rota_interval_map *map = map_with(1, 0);
    (void)state;
    teach(map, 0, rota_interval_of(0, 1), 1);
    struct rota_interval_lesson spare = {.number = rota_interval_map_number(map)};
    assert_int_equal(rota_interval_map_learn(map, id_at(map, 0), &spare), ROTA_INTERVAL_NEW);
    assert_string_equal(holders(map, 0), "");
    rota_interval_map_free(map);
}

static enum rota_interval_learned teach_two(struct rota_interval_map *map, size_t index, uint64_t a,
                                            uint64_t a_epoch, uint64_t b, uint64_t b_epoch)
{
    struct rota_interval_claim claims[] = {{rota_interval_of(a, 4), a_epoch},
                                           {rota_interval_of(b, 4), b_epoch}};
    struct rota_interval_lesson lesson = {rota_interval_map_number(map), claims, 2};
    return rota_interval_map_learn(map, id_at(map, index), &lesson);
}

static void a_host_may_hold_several_shards(void **state)
{
    struct rota_interval_map *map = map_with(2, 0);
    (void)state;
    assert_int_equal(teach_two(map, 0, 0, 5, 2, 6), ROTA_INTERVAL_NEW);
    assert_int_equal(teach_two(map, 1, 1, 7, 3, 8), ROTA_INTERVAL_NEW);
    assert_string_equal(holders(map, 0), "a0 ");
    assert_string_equal(holders(map, 1), "a1 ");
    assert_string_equal(holders(map, 6), "a0 ");
    assert_string_equal(holders(map, 7), "a1 ");
    assert_int_equal(rota_interval_map_host(map, 1)->epoch, 8);
    assert_int_equal(teach_two(map, 1, 1, 7, 3, 8), ROTA_INTERVAL_NOTHING);
    assert_int_equal(teach(map, 0, rota_interval_of(2, 4), 6), ROTA_INTERVAL_NEW);
    assert_string_equal(holders(map, 0), ""); /* it let go of this one */
    assert_string_equal(holders(map, 2), "a0 ");
    rota_interval_map_free(map);
}

static void of_several_shards_a_host_loses_those_that_others_have_since(void **state)
{
    struct rota_interval_map *map = map_with(2, 0);
    (void)state;
    teach_two(map, 0, 0, 5, 2, 6);
    uint64_t lesson = rota_interval_map_host(map, 0)->lesson;
    assert_int_equal(teach(map, 1, rota_interval_of(2, 4), 9), ROTA_INTERVAL_NEW);
    assert_string_equal(holders(map, 2), "a1 ");
    assert_string_equal(holders(map, 0), "a0 ");
    assert_int_equal(rota_interval_map_host(map, 0)->n_replicas, 1);
    assert_int_equal(rota_interval_map_host(map, 0)->epoch, 5);
    assert_true(rota_interval_map_host(map, 0)->lesson != lesson);
    assert_int_equal(teach_two(map, 0, 0, 5, 2, 6), ROTA_INTERVAL_STALE);
    assert_string_equal(holders(map, 0), "a0 ");
    rota_interval_map_free(map);
}

static void a_host_whose_shards_overlap_is_one_replica(void **state)
{
    struct rota_interval_map *map = map_with(1, 1);
    struct rota_interval_claim claims[] = {{{0, 3, 4}, 1}, {{2, 4, 4}, 2}, {{0, 1, 2}, 3}};
    struct rota_interval_lesson lesson = {rota_interval_map_number(map), claims, 3};
    (void)state;
    assert_int_equal(rota_interval_map_learn(map, id_at(map, 0), &lesson), ROTA_INTERVAL_NEW);
    teach(map, 1, rota_interval_of(0, 2), 1);
    assert_string_equal(holders(map, 2), "a0 b0 ");
    assert_string_equal(holders(map, 3), "a0 ");
    rota_interval_map_free(map);
}

static void an_answer_with_too_many_shards_is_ignored(void **state)
{
    enum { MANY = ROTA_INTERVAL_CLAIMS_MAX + 1 };
    static struct rota_interval_claim claims[MANY];
    struct rota_interval_map *map = map_with(1, 0);
    (void)state;
    for (uint64_t i = 0; i < MANY; i++)
        claims[i] = (struct rota_interval_claim){rota_interval_of(i, MANY), 1 + i};
    struct rota_interval_lesson lesson = {rota_interval_map_number(map), claims, MANY};
    assert_int_equal(rota_interval_map_learn(map, id_at(map, 0), &lesson), ROTA_INTERVAL_NOTHING);
    assert_string_equal(holders(map, 0), "");
    lesson.n_claims--;
    assert_int_equal(rota_interval_map_learn(map, id_at(map, 0), &lesson), ROTA_INTERVAL_NEW);
    assert_string_equal(holders(map, MANY - 2), "a0 ");
    assert_string_equal(holders(map, MANY - 1), "");
    rota_interval_map_free(map);
}

static void remaining_hosts_keep_their_claims(void **state)
{
    struct rota_interval_map *map = map_with(2, 0);
    (void)state;
    teach(map, 0, rota_interval_of(0, 2), 1);
    teach(map, 1, rota_interval_of(1, 2), 1);
    uint64_t kept = id_at(map, 1);
    struct rota_interval_member members[] = {
        {{"x", 1}, {"a", 1}}, {{"a1", 2}, {"a", 1}}, {{"x", 1}, {"b", 1}}};
    assert_int_equal(rota_interval_map_set_hosts(map, members, 3, NULL), ROTA_OK);
    assert_int_equal(rota_interval_map_n_hosts(map), 2); /* of x the first counts */
    assert_int_equal(id_at(map, 1), kept);
    assert_string_equal(holders(map, 0), "");
    assert_string_equal(holders(map, 1), "a1 ");
    members[1].dc = (struct rota_str){"b", 1}; /* it has moved: another host */
    assert_int_equal(rota_interval_map_set_hosts(map, members, 2, NULL), ROTA_OK);
    assert_int_not_equal(id_at(map, 1), kept);
    assert_string_equal(holders(map, 1), "");
    rota_interval_map_free(map);
}

static void a_bad_list_of_hosts_changes_nothing(void **state)
{
    struct rota_interval_map *map = map_with(1, 0);
    static char long_name[ROTA_INTERVAL_TEXT_MAX + 1];
    static char names[ROTA_INTERVAL_HOSTS_MAX + 1][8];
    static struct rota_interval_member many[ROTA_INTERVAL_HOSTS_MAX + 1];
    struct rota_error error;
    (void)state;
    teach(map, 0, rota_interval_of(0, 1), 1);
    struct rota_interval_member bad[] = {{{"b", 1}, {"x", 1}}, {{"", 0}, {"x", 1}}};
    assert_int_equal(rota_interval_map_set_hosts(map, bad, 2, &error), ROTA_ERR_INVALID);
    bad[1] = (struct rota_interval_member){{long_name, sizeof long_name}, {NULL, 0}};
    assert_int_equal(rota_interval_map_set_hosts(map, bad, 2, &error), ROTA_ERR_INVALID);
    bad[1] = (struct rota_interval_member){{"c", 1}, {long_name, sizeof long_name}};
    assert_int_equal(rota_interval_map_set_hosts(map, bad, 2, &error), ROTA_ERR_INVALID);
    for (size_t i = 0; i <= ROTA_INTERVAL_HOSTS_MAX; i++) {
        int size = snprintf(names[i], sizeof names[i], "%zu", i);
        many[i].address = rota_str_of(names[i], (size_t)size);
    }
    assert_int_equal(rota_interval_map_set_hosts(map, many, ROTA_INTERVAL_HOSTS_MAX + 1, &error),
                     ROTA_ERR_LIMIT);
    assert_string_equal(holders(map, 0), "a0 ");
    assert_int_equal(rota_interval_map_set_hosts(map, many, ROTA_INTERVAL_HOSTS_MAX, &error),
                     ROTA_OK);
    assert_string_equal(holders(map, 0), "");
    rota_interval_map_free(map);
}

static void shards_without_a_host_are_forgotten_at_the_bound(void **state)
{
    struct rota_interval_map *map = map_with(2, 0);
    struct rota_interval first = rota_interval_of(0, 1);
    (void)state;
    teach(map, 1, first, 5);
    for (uint64_t i = 0; i < ROTA_INTERVAL_SHARDS_MAX + 10; i++)
        teach(map, 0, (struct rota_interval){i, i + 1, 0}, 5);
    size_t n_remembered = 1; /* the one that is held */
    for (uint64_t i = 0; i < ROTA_INTERVAL_SHARDS_MAX + 10; i++)
        n_remembered += rota_interval_map_epoch(map, (struct rota_str){"a", 1},
                                                &(struct rota_interval){i, i + 1, 0}) != 0;
    assert_int_equal(n_remembered, ROTA_INTERVAL_SHARDS_MAX);
    assert_int_equal(rota_interval_map_epoch(map, (struct rota_str){"a", 1}, &first), 5);
    struct rota_interval forgotten = {0, 1, 0};
    assert_int_equal(rota_interval_map_epoch(map, (struct rota_str){"a", 1}, &forgotten), 0);
    assert_string_equal(holders(map, ROTA_INTERVAL_SHARDS_MAX + 9), "a0 a1 ");
    rota_interval_map_free(map);
}

static void a_host_that_fails_three_times_is_not_live_until_it_answers(void **state)
{
    struct rota_interval_map *map = map_with(1, 0);
    (void)state;
    for (int i = 0; i < ROTA_INTERVAL_FAILURES; i++) {
        assert_true(rota_interval_map_host(map, 0)->is_live);
        rota_interval_map_failed(map, id_at(map, 0));
    }
    assert_false(rota_interval_map_host(map, 0)->is_live);
    teach(map, 0, rota_interval_of(0, 1), 1);
    assert_true(rota_interval_map_host(map, 0)->is_live);
    rota_interval_map_free(map);
}

static void keys_of_one_route_have_the_same_replicas_and_only_those(void **state)
{
    enum { N_KEYS = 500, N_HOSTS = 24 };
    struct rota_random random;
    static uint64_t keys[N_KEYS];
    static uint32_t routes[N_KEYS];
    (void)state;
    rota_random_init(&random, 5);
    for (int round = 0; round < 50; round++) {
        struct rota_interval_map *map = map_with(N_HOSTS / 2, N_HOSTS / 2);
        for (size_t i = 0; i < N_HOSTS; i++) {
            static const uint64_t moduli[] = {0, 4, 8, 7, 100, 3};
            uint64_t of = moduli[rota_random_below(&random, 1 + (uint64_t)round % 6)];
            uint64_t end = of ? of : 1000, from = rota_random_below(&random, end);
            uint64_t to = from + 1 + rota_random_below(&random, end - from);
            teach(map, i, (struct rota_interval){from, to, of}, 0);
        }
        for (size_t i = 0; i < N_KEYS; i++)
            keys[i] = rota_random_below(&random, 1100);
        assert_true(rota_interval_map_lookup(map, keys, N_KEYS, routes));
        for (size_t i = 0; i < N_KEYS; i++) {
            struct rota_interval_replicas replicas = rota_interval_map_replicas(map, routes[i]);
            size_t n = 0;
            for (size_t h = 0; h < N_HOSTS; h++)
                n += holds(rota_interval_map_host(map, h), keys[i]);
            assert_int_equal(replicas.n, n);
            for (size_t r = 0; r < replicas.n; r++)
                assert_true(holds(replicas.items[r], keys[i]));
        }
        rota_interval_map_free(map);
    }
}

/* Against all hosts, one by one: with moduli that have a table and that have none, and with so
 * many routes that meet that their table grows; again and again, as what hosts hold changes. */
static void lookup_finds_exactly_those_that_hold_a_key(void **state)
{
    enum { HOSTS = 30, KEYS = 600 };
    static const uint64_t moduli[] = {1, 64, 60, 4096, 4097, 1000003, 0};
    static uint64_t keys[KEYS];
    static uint32_t routes[KEYS];
    struct rota_interval_map *map = map_with(HOSTS, 0);
    struct rota_random random;
    (void)state;
    rota_random_init(&random, 9);
    for (int round = 0; round < 40; round++) {
        for (size_t i = 0; i < HOSTS; i++) {
            uint64_t of = moduli[rota_random_below(&random, 7)];
            uint64_t top = of ? of : UINT64_MAX / 2, from = rota_random_below(&random, top);
            uint64_t to = from + 1 + rota_random_below(&random, top - from);
            struct rota_interval shard = {from, rota_random_below(&random, 4) ? to : 0, of};
            if (rota_random_below(&random, 3) == 0 || round == 0)
                teach(map, i, shard, 0);
        }
        uint64_t version = rota_interval_map_version(map);
        for (size_t k = 0; k < KEYS; k++)
            keys[k] = rota_random_below(&random, 2) ? rota_random_next(&random) : k;
        assert_true(rota_interval_map_lookup(map, keys, KEYS, routes));
        assert_true(rota_interval_map_version(map) == version);
        for (size_t k = 0; k < KEYS; k++) {
            struct rota_interval_replicas found = rota_interval_map_replicas(map, routes[k]);
            size_t n = 0;
            assert_true(routes[k] < rota_interval_map_n_routes(map));
            for (size_t i = 0; i < HOSTS; i++) {
                const struct rota_interval_host *host = rota_interval_map_host(map, i);
                size_t n_times = 0;
                for (size_t r = 0; r < found.n; r++)
                    n_times += found.items[r] == host;
                assert_int_equal(n_times, holds(host, keys[k]));
                n += n_times;
            }
            assert_int_equal(found.n, n);
            assert_int_equal(routes[k] == 0, n == 0);
        }
    }
    rota_interval_map_free(map);
}

/* Every pair of a host of one modulus and a host of the other has a route of its own. */
static void routes_are_made_again_when_there_are_too_many(void **state)
{
    enum { FEW = 256, MANY = 257, ALL = FEW * MANY, HALF = ALL / 2 };
    static uint64_t keys[ALL];
    static uint32_t routes[HALF];
    struct rota_interval_map *map = map_with(FEW, MANY);
    uint32_t most = 0;
    (void)state;
    for (size_t i = 0; i < FEW + MANY; i++)
        teach(map, i, i < FEW ? rota_interval_of(i, FEW) : rota_interval_of(i - FEW, MANY), 0);
    for (size_t k = 0; k < ALL; k++)
        keys[k] = k;
    for (size_t turn = 0; turn < 5; turn++) {
        const uint64_t *now = &keys[turn % 2 * HALF];
        assert_true(rota_interval_map_lookup(map, now, HALF, routes));
        if (turn == 1)
            most = rota_interval_map_n_routes(map);
        if (turn == 2)
            assert_true(rota_interval_map_n_routes(map) < most);
        for (size_t k = 0; k < HALF; k++) {
            struct rota_interval_replicas found = rota_interval_map_replicas(map, routes[k]);
            assert_int_equal(found.n, 2);
            assert_ptr_equal(found.items[0], rota_interval_map_host(map, now[k] % FEW));
            assert_ptr_equal(found.items[1], rota_interval_map_host(map, FEW + now[k] % MANY));
        }
    }
    assert_true(most > ALL);
    rota_interval_map_free(map);
}

/* What they point to goes with them, however often that happens. */
static void members_of_routes_are_bounded(void **state)
{
    enum { FEW = 256, MANY = 257, ALL = FEW * MANY, HALF = ALL / 2 };
    static uint64_t keys[ALL];
    static uint32_t routes[HALF];
    struct rota_interval_index index = {.seed = 1};
    struct rota_interval_map *map = map_with(FEW, MANY);
    (void)state;
    for (size_t k = 0; k < ALL; k++)
        keys[k] = k;
    assert_true(rota_interval_index_begin(&index));
    for (size_t i = 0; i < FEW + MANY; i++) {
        struct rota_interval shard =
            i < FEW ? rota_interval_of(i, FEW) : rota_interval_of(i - FEW, MANY);
        assert_true(rota_interval_index_add(&index, rota_interval_map_host(map, i), &shard));
    }
    assert_true(rota_interval_index_build(&index));
    size_t n_routes = 0, n_members = 0;
    for (int turn = 0; turn < 4; turn++) {
        assert_true(rota_interval_index_lookup(&index, keys, HALF, routes));
        assert_true(rota_interval_index_lookup(&index, &keys[HALF], HALF, routes));
        n_routes = turn == 0 ? index.routes.size : n_routes;
        n_members = turn == 0 ? index.members.size : n_members;
        assert_int_equal(index.routes.size, n_routes);
        assert_int_equal(index.members.size, n_members);
    }
    rota_interval_index_deinit(&index);
    rota_interval_map_free(map);
}

static void texts_of_a_host_have_a_bound(void **state)
{
    static char text[ROTA_INTERVAL_TEXT_MAX + 1];
    struct rota_interval_map *map = map_with(2, 0);
    (void)state;
    memset(text, 'x', sizeof text);
    for (int i = 0; i < 4; i++) {
        size_t size = ROTA_INTERVAL_TEXT_MAX + (i % 2);
        struct rota_interval_member member = {rota_str("h"), rota_str("a")};
        *(i < 2 ? &member.address : &member.dc) = rota_str_of(text, size);
        assert_int_equal(rota_interval_map_set_hosts(map, &member, 1, NULL),
                         i % 2 ? ROTA_ERR_INVALID : ROTA_OK);
        assert_int_equal(rota_interval_map_n_hosts(map), 1);
    }
    rota_interval_map_free(map);
}

/* A list that is refused leaves all that was known, and the next one is taken. */
static void lists_follow_each_other_even_after_a_failure(void **state)
{
    static char names[ROTA_INTERVAL_HOSTS_MAX + 1][8];
    static struct rota_interval_member members[ROTA_INTERVAL_HOSTS_MAX + 1];
    struct rota_interval_map *map = map_with(3, 0);
    (void)state;
    for (size_t i = 0; i <= ROTA_INTERVAL_HOSTS_MAX; i++) {
        int size = snprintf(names[i], sizeof names[i], "a%d", (int)i % 100000);
        members[i] = (struct rota_interval_member){{names[i], (size_t)size}, {"a", 1}};
    }
    teach(map, 1, rota_interval_of(0, 2), 5);
    uint64_t id = id_at(map, 1);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(
            rota_interval_map_set_hosts(map, members, ROTA_INTERVAL_HOSTS_MAX + 1, NULL),
            ROTA_ERR_LIMIT);
        assert_int_equal(rota_interval_map_n_hosts(map), 3);
        assert_string_equal(holders(map, 0), "a1 ");
    }
    assert_int_equal(rota_interval_map_set_hosts(map, members, ROTA_INTERVAL_HOSTS_MAX, NULL),
                     ROTA_OK);
    assert_int_equal(rota_interval_map_n_hosts(map), ROTA_INTERVAL_HOSTS_MAX);
    assert_int_equal(rota_interval_map_set_hosts(map, members + 1, 1, NULL), ROTA_OK);
    assert_int_equal(rota_interval_map_n_hosts(map), 1);
    assert_true(id_at(map, 0) == id);
    assert_string_equal(holders(map, 0), "a1 ");
    assert_int_equal(rota_interval_map_set_hosts(map, members, 1, NULL), ROTA_OK);
    assert_null(rota_interval_map_find(map, id));
    rota_interval_map_free(map);
}

/* However many have come and gone, each has an id of its own. */
static void each_host_that_comes_has_an_id_of_its_own(void **state)
{
    struct rota_interval_map *map = map_with(1, 0);
    uint64_t before = id_at(map, 0);
    (void)state;
    for (int i = 0; i < 20000; i++) {
        char name[16];
        int size = snprintf(name, sizeof name, "h%d", i);
        struct rota_interval_member member = {{name, (size_t)size}, {"a", 1}};
        assert_int_equal(rota_interval_map_set_hosts(map, &member, 1, NULL), ROTA_OK);
        uint64_t id = id_at(map, 0);
        assert_true(id != before && !rota_interval_map_find(map, before));
        assert_ptr_equal(rota_interval_map_find(map, id), rota_interval_map_host(map, 0));
        before = id;
    }
    rota_interval_map_free(map);
}

static void host_that_no_longer_holds_a_shard_has_no_epoch(void **state)
{
    struct rota_interval_map *map = map_with(1, 0);
    (void)state;
    teach(map, 0, rota_interval_of(0, 1), 5);
    assert_int_equal(rota_interval_map_host(map, 0)->epoch, 5);
    struct rota_interval_lesson nothing = {.number = rota_interval_map_number(map)};
    rota_interval_map_learn(map, id_at(map, 0), &nothing);
    assert_int_equal(rota_interval_map_host(map, 0)->n_claims, 0);
    assert_int_equal(rota_interval_map_host(map, 0)->n_replicas, 0);
    assert_int_equal(rota_interval_map_host(map, 0)->epoch, 0);
    rota_interval_map_free(map);
}

static void key_that_no_host_holds_has_no_replicas(void **state)
{
    struct rota_interval_map *map = map_with(2, 0);
    (void)state;
    assert_string_equal(holders(map, 5), "");
    assert_int_equal(rota_interval_map_replicas(map, 0).n, 0);
    assert_null(rota_interval_map_replicas(map, 0).items);
    rota_interval_map_free(map);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_host_is_a_replica_of_the_shards_it_claims),
        cmocka_unit_test(the_same_answer_again_changes_nothing),
        cmocka_unit_test(an_answer_to_an_older_request_does_not_undo_a_newer_one),
        cmocka_unit_test(a_known_epoch_counts_however_late_its_answer),
        cmocka_unit_test(of_two_hosts_of_a_dc_the_one_with_the_later_epoch_counts),
        cmocka_unit_test(a_later_epoch_is_remembered_when_its_holder_has_gone),
        cmocka_unit_test(hosts_without_epochs_are_all_replicas),
        cmocka_unit_test(overlaps_and_holes_of_a_dc_that_is_re_sharded),
        cmocka_unit_test(ranges_are_half_open_and_the_last_has_no_end),
        cmocka_unit_test(the_end_of_a_modulus_can_be_written_in_two_ways),
        cmocka_unit_test(an_impossible_interval_is_ignored),
        cmocka_unit_test(a_host_that_holds_nothing_is_not_a_replica),
        cmocka_unit_test(a_host_may_hold_several_shards),
        cmocka_unit_test(of_several_shards_a_host_loses_those_that_others_have_since),
        cmocka_unit_test(a_host_whose_shards_overlap_is_one_replica),
        cmocka_unit_test(an_answer_with_too_many_shards_is_ignored),
        cmocka_unit_test(remaining_hosts_keep_their_claims),
        cmocka_unit_test(a_bad_list_of_hosts_changes_nothing),
        cmocka_unit_test(shards_without_a_host_are_forgotten_at_the_bound),
        cmocka_unit_test(a_host_that_fails_three_times_is_not_live_until_it_answers),
        cmocka_unit_test(keys_of_one_route_have_the_same_replicas_and_only_those),
        cmocka_unit_test(lookup_finds_exactly_those_that_hold_a_key),
        cmocka_unit_test(routes_are_made_again_when_there_are_too_many),
        cmocka_unit_test(members_of_routes_are_bounded),
        cmocka_unit_test(texts_of_a_host_have_a_bound),
        cmocka_unit_test(lists_follow_each_other_even_after_a_failure),
        cmocka_unit_test(each_host_that_comes_has_an_id_of_its_own),
        cmocka_unit_test(host_that_no_longer_holds_a_shard_has_no_epoch),
        cmocka_unit_test(key_that_no_host_holds_has_no_replicas),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
