#include "base/crc32c.h"

#include "vectors.h"

static struct rota_crc32c crc;

static void known_sums(void **state)
{
    char bytes[32];
    (void)state;
    assert_int_equal(rota_crc32c_add(&crc, 0, rota_str("")), 0);
    assert_int_equal(rota_crc32c_add(&crc, 0, rota_str("123456789")), 0xe3069283);
    memset(bytes, 0, sizeof bytes); /* RFC 3720, B.4 */
    assert_int_equal(rota_crc32c_add(&crc, 0, rota_str_of(bytes, 32)), 0x8a9136aa);
    memset(bytes, 0xff, sizeof bytes);
    assert_int_equal(rota_crc32c_add(&crc, 0, rota_str_of(bytes, 32)), 0x62a8ab43);
    for (int i = 0; i < 32; i++)
        bytes[i] = (char)i;
    assert_int_equal(rota_crc32c_add(&crc, 0, rota_str_of(bytes, 32)), 0x46dd794e);
}

static void pieces_have_the_sum_of_the_whole(void **state)
{
    char bytes[61];
    (void)state;
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (char)(unsigned char)(i * 37);
    uint32_t whole = rota_crc32c_add(&crc, 0, rota_str_of(bytes, sizeof bytes));
    for (size_t cut = 0; cut <= sizeof bytes; cut++) {
        uint32_t sum = rota_crc32c_add(&crc, 0, rota_str_of(bytes, cut));
        sum = rota_crc32c_add(&crc, sum, rota_str_of(bytes + cut, sizeof bytes - cut));
        assert_int_equal(sum, whole);
    }
}

static void tables_and_instruction_agree(void **state)
{
    struct rota_crc32c tables = crc;
    char bytes[61];
    (void)state;
    tables.has_instruction = false;
    for (size_t i = 0; i < sizeof bytes; i++) {
        bytes[i] = (char)(unsigned char)(i * 91 + 7);
        uint32_t sum = rota_crc32c_add(&tables, (uint32_t)i * 77u, rota_str_of(bytes, i));
        assert_int_equal(rota_crc32c_add(&crc, (uint32_t)i * 77u, rota_str_of(bytes, i)), sum);
    }
    assert_int_equal(rota_crc32c_add(&tables, 0, rota_str("123456789")), 0xe3069283);
}

static int set_up(void **state)
{
    (void)state;
    rota_crc32c_init(&crc);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_sums),
        cmocka_unit_test(tables_and_instruction_agree),
        cmocka_unit_test(pieces_have_the_sum_of_the_whole),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
