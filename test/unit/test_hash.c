#include "base/hash.h"
#include "vectors.h"

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
static void quick64_spreads_what_is_much_alike(void **state)
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(farm32_is_fingerprint32),
        cmocka_unit_test(sip64_depends_on_every_bit_of_seed_and_text),
        cmocka_unit_test(quick64_depends_on_every_bit_of_seed_and_text),
        cmocka_unit_test(quick64_spreads_what_is_much_alike),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
