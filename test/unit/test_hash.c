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

static void sip64_depends_on_every_bit_of_seed_and_text(void **state)
{
    char text[40] = {0};
    (void)state;
    for (size_t size = 0; size <= sizeof text; size++) {
        struct rota_str str = rota_str_of(text, size);
        uint64_t hash = rota_hash_sip64(1, str);
        for (int bit = 0; bit < 64; bit++)
            assert_true(hash != rota_hash_sip64(1 ^ (uint64_t)1 << bit, str));
        for (size_t bit = 0; bit < 8 * size; bit++) {
            text[bit / 8] ^= (char)(1 << bit % 8);
            assert_true(hash != rota_hash_sip64(1, str));
            text[bit / 8] ^= (char)(1 << bit % 8);
        }
        if (size > 0)
            assert_true(hash != rota_hash_sip64(1, rota_str_of(text, size - 1)));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(farm32_is_fingerprint32),
        cmocka_unit_test(sip64_depends_on_every_bit_of_seed_and_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
