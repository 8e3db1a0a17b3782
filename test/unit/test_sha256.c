/* The examples of FIPS 180-4 and of NIST's test files. */
#include "base/sha256.h"

#include "vectors.h"

#include <stdio.h>

static void digest_of(const struct rota_str *parts, size_t n, char text[65])
{
    uint8_t digest[ROTA_SHA256_SIZE];
    rota_sha256(parts, n, digest);
    for (int i = 0; i < ROTA_SHA256_SIZE; i++)
        snprintf(text + 2 * i, 3, "%02x", digest[i]);
}

static void texts_have_the_digests_of_the_standard(void **state)
{
    char text[65], million[1000];
    struct rota_str thousand[1000];
    (void)state;
    digest_of(NULL, 0, text);
    assert_string_equal(text, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    digest_of((struct rota_str[]){rota_str("abc")}, 1, text);
    assert_string_equal(text, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    digest_of(
        (struct rota_str[]){rota_str("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq")},
        1, text);
    assert_string_equal(text, "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    memset(million, 'a', sizeof million);
    for (size_t i = 0; i < 1000; i++)
        thousand[i] = rota_str_of(million, sizeof million);
    digest_of(thousand, 1000, text);
    assert_string_equal(text, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

static void parts_are_one_text(void **state)
{
    char whole[65], cut[65];
    (void)state;
    digest_of((struct rota_str[]){rota_str("abcdef")}, 1, whole);
    digest_of((struct rota_str[]){rota_str("ab"), rota_str(""), rota_str("cdef")}, 3, cut);
    assert_string_equal(whole, cut);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_have_the_digests_of_the_standard),
        cmocka_unit_test(parts_are_one_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
