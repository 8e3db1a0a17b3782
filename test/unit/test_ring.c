#include <rota/ring.h>

#include "core/place/ring_points.h"
#include "ring_vectors.h"
#include <rota/experimental/random.h>

#include <stdio.h>

/* --- the original's answers --- */

static struct rota_ring *build(const struct rota_ring_host *hosts, size_t n, uint32_t points)
{
    struct rota_ring *ring;
    struct rota_error error;
    if (rota_ring_new(hosts, n, points, &ring, &error))
        fail_msg("%s", error.text);
    return ring;
}

/* Apply the recorded operations one by one to the ring they start from. */
static struct rota_ring *build_by_changes(const json_t *root, const json_t *description)
{
    struct rota_ring *ring = ring_of_vector(vectors_ring(root, vectors_str(description, "base")));
    const json_t *op;
    size_t i;
    json_array_foreach (json_object_get(description, "ops"), i, op) {
        struct rota_ring_host added = {.address = vectors_str(op, "server")};
        bool is_add = rota_str_is_equal(vectors_str(op, "op"), rota_str("add"));
        struct rota_ring *next;
        assert_int_equal(rota_ring_with(ring, &added, is_add, &added.address, !is_add, &next, NULL),
                         ROTA_OK);
        rota_ring_unref(ring);
        ring = next;
    }
    return ring;
}

static void check_row(const struct rota_ring *ring, const json_t *description, const json_t *row)
{
    const json_t *list = json_object_get(row, "list"),
                 *servers = json_object_get(description, "servers");
    const json_t *owner = json_object_get(row, "owner");
    struct rota_str key = vectors_str(row, "key");
    size_t n = (size_t)vectors_int(row, "n");
    uint32_t hosts[300];

    assert_int_equal(rota_ring_hash(key), vectors_int(row, "hash"));
    uint32_t first = rota_ring_lookup(ring, key);
    if (json_is_null(owner))
        assert_int_equal(first, ROTA_RING_NONE);
    else
        assert_true(rota_str_is_equal(rota_ring_host(ring, first).address,
                                      rota_str(json_string_value(owner))));
    uint32_t batch;
    rota_ring_lookup_batch(ring, &key, 1, &batch);
    assert_int_equal(batch, first);

    for (size_t m = 0; m <= n; m++) {
        size_t found = rota_ring_lookup_n(ring, key, m, hosts);
        assert_int_equal(found, m < json_array_size(list) ? m : json_array_size(list));
        for (size_t i = 0; i < found; i++) {
            size_t server = (size_t)json_integer_value(json_array_get(list, i));
            assert_true(
                rota_str_is_equal(rota_ring_host(ring, hosts[i]).address,
                                  rota_str(json_string_value(json_array_get(servers, server)))));
        }
    }
}

static void ring_is_ringpops(void **state)
{
    json_t *root = vectors_load("ringpop_small.json");
    const json_t *description, *row;
    size_t i, j, n_rows = 0;
    (void)state;

    json_array_foreach (json_object_get(root, "rings"), i, description) {
        bool is_derived = json_object_get(description, "base") != NULL;
        struct rota_ring *rings[2] = {ring_of_vector(description),
                                      is_derived ? build_by_changes(root, description) : NULL};
        for (int r = 0; r < 1 + is_derived; r++) {
            assert_int_equal(rota_ring_hosts_checksum(rings[r]),
                             vectors_int(description, "ring_checksum"));
            assert_int_equal(rota_ring_points_checksum(rings[r]),
                             vectors_int(description, "replica_checksum"));
            json_array_foreach (json_object_get(root, "rows"), j, row) {
                if (!rota_str_is_equal(vectors_str(row, "ring"), vectors_str(description, "id")))
                    continue;
                check_row(rings[r], description, row);
                n_rows += r == 0;
            }
            rota_ring_unref(rings[r]);
        }
    }
    assert_int_equal(n_rows, json_array_size(json_object_get(root, "rows")));
    json_decref(root);
}

/* --- rules of our own --- */

enum { HOSTS = 40 };

static char names[HOSTS][32], zones[HOSTS][16];

static size_t make_hosts(struct rota_ring_host *hosts, size_t n, size_t n_zones)
{
    memset(hosts, 0, n * sizeof *hosts);
    for (size_t i = 0; i < n; i++) {
        snprintf(names[i], sizeof names[i], "10.1.%zu.%zu:7000", i / 7, i);
        hosts[i].address = rota_str(names[i]);
        if (n_zones) {
            snprintf(zones[i], sizeof zones[i], "zone-%zu", i % n_zones);
            hosts[i].zone = rota_str(zones[i]);
        }
    }
    return n;
}

static void assert_same_ring(const struct rota_ring *a, const struct rota_ring *b)
{
    assert_int_equal(rota_ring_size(a), rota_ring_size(b));
    assert_int_equal(rota_ring_n_points(a), rota_ring_n_points(b));
    assert_int_equal(rota_ring_n_zones(a), rota_ring_n_zones(b));
    assert_memory_equal(rota_ring_points(a), rota_ring_points(b),
                        (rota_ring_n_points(a) + 1) * sizeof *rota_ring_points(a));
    for (uint32_t i = 0; i < rota_ring_size(a); i++) {
        struct rota_ring_host x = rota_ring_host(a, i), y = rota_ring_host(b, i);
        assert_true(rota_str_is_equal(x.address, y.address) && rota_str_is_equal(x.zone, y.zone));
        assert_int_equal(x.weight, y.weight);
    }
}

static void weight_one_and_one_zone_change_nothing(void **state)
{
    struct rota_ring_host plain[HOSTS], dressed[HOSTS];
    (void)state;
    make_hosts(plain, HOSTS, 0);
    memcpy(dressed, plain, sizeof plain);
    for (size_t i = 0; i < HOSTS; i++) {
        dressed[i].weight = ROTA_WEIGHT_ONE;
        dressed[i].zone = rota_str("all-the-same");
        dressed[i].identity = dressed[i].address;
    }
    struct rota_ring *a = build(plain, HOSTS, 0), *b = build(dressed, HOSTS, 0);
    assert_int_equal(rota_ring_points_checksum(a), rota_ring_points_checksum(b));
    for (uint32_t i = 0; i < 1000; i++) {
        uint32_t x[HOSTS], y[HOSTS];
        assert_int_equal(rota_ring_lookup_n_hash(a, i * 4294967, HOSTS, x), HOSTS);
        assert_int_equal(rota_ring_lookup_n_hash(b, i * 4294967, HOSTS, y), HOSTS);
        assert_memory_equal(x, y, sizeof x);
    }
    rota_ring_unref(a);
    rota_ring_unref(b);
}

static void weight_multiplies_points_and_load(void **state)
{
    struct rota_ring_host hosts[10];
    size_t load[10] = {0};
    (void)state;
    make_hosts(hosts, 10, 0);
    hosts[3].weight = 3 * ROTA_WEIGHT_ONE;
    hosts[4].weight = ROTA_WEIGHT_ONE / 4;
    struct rota_ring *ring = build(hosts, 10, 1000);
    assert_int_equal(rota_ring_n_points(ring), 8 * 1000 + 3000 + 250);
    for (uint32_t i = 0; i < 100000; i++)
        load[rota_ring_lookup_hash(ring, i * 42949)]++;

    uint32_t heavy = rota_ring_find(ring, hosts[3].address);
    uint32_t light = rota_ring_find(ring, hosts[4].address);
    double one = 100000 / 11.25;
    assert_true(load[heavy] > 2.7 * one && load[heavy] < 3.3 * one);
    assert_true(load[light] > 0.2 * one && load[light] < 0.3 * one);
    rota_ring_unref(ring);
}

static void changed_ring_equals_fresh_one(void **state)
{
    struct rota_ring_host hosts[HOSTS];
    struct rota_random random;
    bool present[HOSTS] = {false};
    struct rota_ring *ring = build(NULL, 0, 16);
    (void)state;
    make_hosts(hosts, HOSTS, 3);
    rota_random_init(&random, 1);

    for (int round = 0; round < 300; round++) {
        struct rota_ring_host added[HOSTS], fresh[HOSTS];
        struct rota_str removed[HOSTS];
        size_t n_added = 0, n_removed = 0, n_fresh = 0;
        for (size_t i = 0; i < HOSTS; i++) {
            bool stays = present[i] && !rota_random_chance(&random, 0.2);
            bool comes = !stays && rota_random_chance(&random, 0.2);
            if (present[i] && !stays)
                removed[n_removed++] = hosts[i].address;
            if (comes) { /* possibly replacing itself, with another weight */
                hosts[i].weight = (uint32_t)rota_random_range(&random, ROTA_WEIGHT_MIN, 3000);
                added[n_added++] = hosts[i];
            }
            if ((present[i] = stays || comes))
                fresh[n_fresh++] = hosts[i];
        }
        struct rota_ring *next, *same = build(fresh, n_fresh, 16);
        assert_int_equal(rota_ring_with(ring, added, n_added, removed, n_removed, &next, NULL),
                         ROTA_OK);
        assert_same_ring(next, same);
        rota_ring_unref(ring);
        rota_ring_unref(same);
        ring = next;
    }
    rota_ring_unref(ring);
}

/* Sorting all hosts by (how many of their zone came before, place in the walk)
 * is the rule of the header, written another way. */
static void replicas_lie_in_distinct_zones(void **state)
{
    struct rota_ring_host hosts[HOSTS];
    (void)state;
    for (size_t n_zones = 2; n_zones <= 7; n_zones++) {
        make_hosts(hosts, HOSTS, n_zones);
        for (size_t i = 0; i < HOSTS / 2; i++) /* uneven zones */
            hosts[i].zone = hosts[0].zone;
        struct rota_ring *zoned = build(hosts, HOSTS, 0);
        for (size_t i = 0; i < HOSTS; i++)
            hosts[i].zone = rota_str("");
        struct rota_ring *plain = build(hosts, HOSTS, 0);

        for (uint32_t key = 0; key < 300; key++) {
            uint32_t walk[HOSTS], answer[HOSTS], expected[HOSTS], n = 0, prefix[HOSTS];
            uint32_t hash = key * 14316557;
            rota_ring_lookup_n_hash(plain, hash, HOSTS, walk);
            for (uint32_t rank = 0; n < HOSTS; rank++) {
                for (size_t i = 0; i < HOSTS; i++) {
                    struct rota_str zone = rota_ring_host(zoned, walk[i]).zone;
                    uint32_t before = 0;
                    for (size_t j = 0; j < i; j++)
                        before += rota_str_is_equal(rota_ring_host(zoned, walk[j]).zone, zone);
                    if (before == rank)
                        expected[n++] = walk[i];
                }
            }
            assert_int_equal(rota_ring_lookup_n_hash(zoned, hash, HOSTS, answer), HOSTS);
            assert_memory_equal(answer, expected, sizeof expected);
            for (size_t m = 1; m < HOSTS; m++) {
                assert_int_equal(rota_ring_lookup_n_hash(zoned, hash, m, prefix), m);
                assert_memory_equal(prefix, expected, m * sizeof *prefix);
            }
        }
        rota_ring_unref(zoned);
        rota_ring_unref(plain);
    }
}

static void batch_answers_as_single(void **state)
{
    struct rota_ring_host hosts[HOSTS];
    struct rota_str keys[100];
    char texts[100][16];
    uint32_t owners[100];
    (void)state;
    make_hosts(hosts, HOSTS, 0);
    struct rota_ring *ring = build(hosts, HOSTS, 0);
    for (size_t n = 0; n <= 100; n += n < 20 ? 1 : 13) {
        for (size_t i = 0; i < n; i++) {
            snprintf(texts[i], sizeof texts[i], "key-%zu", i * n);
            keys[i] = rota_str(texts[i]);
        }
        rota_ring_lookup_batch(ring, keys, n, owners);
        for (size_t i = 0; i < n; i++)
            assert_int_equal(owners[i], rota_ring_lookup(ring, keys[i]));
    }
    rota_ring_unref(ring);
}

static void empty_ring_owns_nothing(void **state)
{
    struct rota_ring *ring = build(NULL, 0, 0);
    uint32_t host = 7;
    (void)state;
    assert_int_equal(rota_ring_lookup(ring, rota_str("key")), ROTA_RING_NONE);
    assert_int_equal(rota_ring_lookup_n(ring, rota_str("key"), 1, &host), 0);
    assert_int_equal(host, 7);
    assert_int_equal(rota_ring_points_checksum(ring), 0);
    rota_ring_unref(ring);
}

static void refuse(struct rota_ring_host host, const char *phrase)
{
    struct rota_ring *ring = (struct rota_ring *)&host;
    struct rota_error error;
    assert_true(rota_ring_new(&host, 1, 0, &ring, &error) != ROTA_OK);
    assert_non_null(strstr(error.text, phrase));
    assert_ptr_equal(ring, &host); /* left alone */
}

static void bad_hosts_are_refused_with_their_name(void **state)
{
    static char long_text[ROTA_ADDRESS_MAX + 1];
    struct rota_ring_host hosts[3];
    struct rota_ring *ring, *next;
    struct rota_error error;
    (void)state;
    memset(long_text, 'x', sizeof long_text);
    struct rota_str too_long = rota_str_of(long_text, sizeof long_text), a = rota_str("a:1");

    refuse((struct rota_ring_host){0}, "without an address");
    refuse((struct rota_ring_host){.address = too_long}, "256 bytes");
    refuse((struct rota_ring_host){.address = a, .zone = too_long}, "a:1");
    refuse((struct rota_ring_host){.address = a, .weight = 1}, "\"a:1\": weight 1/1000");
    refuse((struct rota_ring_host){.address = a, .weight = ROTA_WEIGHT_MAX + 1}, "not within");

    make_hosts(hosts, 3, 0);
    hosts[2].address = hosts[0].address;
    assert_int_equal(rota_ring_new(hosts, 3, 0, &ring, &error), ROTA_ERR_INVALID);
    assert_non_null(strstr(error.text, "\"10.1.0.0:7000\" is listed twice"));
    assert_int_equal(rota_ring_new(hosts, 2, ROTA_RING_POINTS_MAX + 1, &ring, &error),
                     ROTA_ERR_INVALID);
    assert_int_equal(rota_ring_new(hosts, ROTA_RING_HOSTS_MAX + 1, 0, &ring, &error),
                     ROTA_ERR_LIMIT);

    ring = build(hosts, 2, 0);
    assert_int_equal(rota_ring_with(ring, hosts, 1, NULL, 0, &next, &error), ROTA_ERR_INVALID);
    assert_non_null(strstr(error.text, "\"10.1.0.0:7000\" is already on the ring"));
    struct rota_str twice[2] = {hosts[0].address, hosts[0].address};
    assert_int_equal(rota_ring_with(ring, NULL, 0, twice, 2, &next, &error), ROTA_ERR_NOT_FOUND);
    assert_int_equal(rota_ring_with(ring, NULL, 0, &a, 1, &next, &error), ROTA_ERR_NOT_FOUND);
    assert_non_null(strstr(error.text, "cannot remove host \"a:1\""));
    rota_ring_unref(ring);
}

static void lightest_host_has_a_point_too(void **state)
{
    struct rota_ring_host hosts[2];
    (void)state;
    make_hosts(hosts, 2, 0);
    hosts[0].weight = ROTA_WEIGHT_MIN;
    for (uint32_t points = 1; points <= 200; points += 50) {
        struct rota_ring *ring = build(hosts, 2, points);
        size_t of_light = rota_ring_n_points(ring) - points;
        assert_int_equal(of_light, points < 150 ? 1 : 2);
        rota_ring_unref(ring);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ring_is_ringpops),
        cmocka_unit_test(weight_one_and_one_zone_change_nothing),
        cmocka_unit_test(weight_multiplies_points_and_load),
        cmocka_unit_test(changed_ring_equals_fresh_one),
        cmocka_unit_test(replicas_lie_in_distinct_zones),
        cmocka_unit_test(batch_answers_as_single),
        cmocka_unit_test(empty_ring_owns_nothing),
        cmocka_unit_test(bad_hosts_are_refused_with_their_name),
        cmocka_unit_test(lightest_host_has_a_point_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
