#include "base/hash.h"
#include "vectors.h"

#include <dlfcn.h>

static size_t unhex(struct rota_str hex, char *bytes)
{
    for (size_t i = 0; i + 1 < hex.size; i += 2) {
        char pair[3] = {hex.data[i], hex.data[i + 1], '\0'};
        bytes[i / 2] = (char)strtol(pair, NULL, 16);
    }
    return hex.size / 2;
}

static void farm32_is_fingerprint32(void **state)
{
    json_t *root = vectors_load("farm32.json");
    json_t *row;
    size_t i;
    char bytes[65536];
    (void)state;

    json_array_foreach (json_object_get(root, "rows"), i, row) {
        struct rota_str hex = vectors_str(row, "in_hex");
        assert_true(hex.size / 2 <= sizeof bytes);
        size_t size = unhex(hex, bytes);
        assert_int_equal(size, vectors_int(row, "len"));
        assert_int_equal(rota_hash_farm32(rota_str_of(bytes, size)), vectors_int(row, "h32"));
    }
    assert_true(i >= 200);
    json_decref(root);
}

typedef uint64_t seeded_hash(uint64_t seed, struct rota_str data);

static void assert_every_bit_counts(seeded_hash *hash)
{
    char text[40] = {0};
    for (size_t size = 0; size <= sizeof text; size++) {
        struct rota_str str = rota_str_of(text, size);
        uint64_t whole = hash(1, str);
        for (int bit = 0; bit < 64; bit++)
            assert_true(whole != hash(1 ^ (uint64_t)1 << bit, str));
        for (size_t bit = 0; bit < 8 * size; bit++) {
            text[bit / 8] ^= (char)(1 << bit % 8);
            assert_true(whole != hash(1, str));
            text[bit / 8] ^= (char)(1 << bit % 8);
        }
        if (size > 0)
            assert_true(whole != hash(1, rota_str_of(text, size - 1)));
    }
}

static void sip64_depends_on_every_bit_of_seed_and_text(void **state)
{
    (void)state;
    assert_every_bit_counts(rota_hash_sip64);
}

static void quick64_depends_on_every_bit_of_seed_and_text(void **state)
{
    (void)state;
    assert_every_bit_counts(rota_hash_quick64);
    assert_true(rota_hash_quick64(1, (struct rota_str){0}) ==
                rota_hash_quick64(1, rota_str_of("", 0)));
}

/* Numbers, which differ in few bits, at each place of a text. */
static void quick64_spreads_similar_bytes(void **state)
{
    enum { N = 4096 };
    static uint64_t hashes[N];
    (void)state;
    for (size_t at = 0; at + sizeof(uint32_t) <= 40; at++) {
        size_t n_ones[64] = {0};
        for (uint32_t i = 0; i < N; i++) {
            char text[40] = {0};
            memcpy(text + at, &i, sizeof i);
            hashes[i] = rota_hash_quick64(at, rota_str_of(text, sizeof text));
            for (int bit = 0; bit < 64; bit++)
                n_ones[bit] += hashes[i] >> bit & 1;
        }
        for (int bit = 0; bit < 64; bit++) /* seven standard deviations */
            assert_in_range(n_ones[bit], N / 2 - 7 * 32, N / 2 + 7 * 32);
        for (size_t i = 1; i < N; i++)
            assert_true(hashes[i] != hashes[i - 1] && hashes[i] != hashes[0]);
    }
}

/* The buffer and the values of the sanity check of the xxHash project. */
static void xxh64_has_the_published_values(void **state)
{
    static const struct {
        size_t size;
        uint64_t seed, hash;
    } rows[] = {
        {0, 0, 0xef46db3751d8e999},
        {0, 2654435761, 0xac75fda2929b17ef},
        {1, 0, 0xe934a84adb052768},
        {1, 2654435761, 0x5014607643a9b4c3},
        {4, 0, 0x9136a0dca57457ee},
        {14, 0, 0x8282dcc4994e35c8},
        {14, 2654435761, 0xc3bd6bf63deb6df0},
        {222, 0, 0xb641ae8cb691c174},
        {222, 2654435761, 0x20cb8ab7ae10c14a},
    };
    char bytes[222];
    uint64_t next = 2654435761;
    (void)state;
    for (size_t i = 0; i < sizeof bytes; i++, next *= 11400714785074694797u)
        bytes[i] = (char)(next >> 56);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_true(rota_hash_xxh64(rows[i].seed, rota_str_of(bytes, rows[i].size)) ==
                    rows[i].hash);
}

static void keys_have_the_shards_of_all_languages(void **state)
{
    json_t *root = vectors_load("key_shard.json");
    json_t *row, *shard;
    const char *n_shards;
    size_t i;
    char bytes[4096];
    (void)state;
    json_array_foreach (json_object_get(root, "rows"), i, row) {
        struct rota_str hex = vectors_str(row, "key_hex");
        struct rota_str key = rota_str_of(bytes, unhex(hex, bytes));
        assert_true(rota_hash_xxh64(0, key) ==
                    strtoull(vectors_str(row, "hash_hex").data, NULL, 16));
        json_object_foreach (json_object_get(row, "shards"), n_shards, shard)
            assert_int_equal(rota_hash_shard(key, (uint32_t)strtoul(n_shards, NULL, 10)),
                             json_integer_value(shard));
    }
    assert_true(i > 80);
    json_decref(root);
}

/* Where it is installed: every size up to several blocks. */
static void xxh64_is_that_of_libxxhash(void **state)
{
    void *library = dlopen("libxxhash.so.0", RTLD_NOW);
    uint64_t (*reference)(const void *, size_t, uint64_t) = NULL;
    char bytes[200];
    (void)state;
    if (!library)
        return; /* cmocka's skip() is a failure, to TAP */
    *(void **)&reference = dlsym(library, "XXH64");
    assert_non_null(reference);
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (char)(i * 151 + (i >> 3));
    for (size_t size = 0; size <= sizeof bytes; size++)
        for (uint64_t seed = 0; seed < UINT64_MAX / 3; seed = seed * 5 + 1)
            assert_true(rota_hash_xxh64(seed, rota_str_of(bytes, size)) ==
                        reference(bytes, size, seed));
    dlclose(library);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(farm32_is_fingerprint32),
        cmocka_unit_test(sip64_depends_on_every_bit_of_seed_and_text),
        cmocka_unit_test(quick64_depends_on_every_bit_of_seed_and_text),
        cmocka_unit_test(quick64_spreads_similar_bytes),
        cmocka_unit_test(xxh64_has_the_published_values),
        cmocka_unit_test(keys_have_the_shards_of_all_languages),
        cmocka_unit_test(xxh64_is_that_of_libxxhash),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
