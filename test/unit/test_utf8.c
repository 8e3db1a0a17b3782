#include "base/utf8.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static uint32_t decode(const char *bytes, size_t n, size_t *size)
{
    return rota_utf8_decode(rota_str_of(bytes, n), size);
}

static bool is_character(uint32_t number)
{
    return number <= 0x10ffff && (number < 0xd800 || number > 0xdfff);
}

static void every_character_comes_back(void **state)
{
    (void)state;
    for (uint32_t c = 0; c <= 0x10ffff; c++) {
        char text[ROTA_UTF8_MAX];
        size_t size, n;
        if (!is_character(c))
            continue;
        n = rota_utf8_encode(c, text);
        assert_int_equal(n, c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4);
        assert_int_equal(decode(text, n, &size), c);
        assert_int_equal(size, n);
        for (size_t cut = 1; cut < n; cut++)
            assert_int_equal(decode(text, cut, &size), ROTA_UTF8_NONE);
    }
}

/* All first and second bytes, with followers after them: what is decoded at all
 * encodes to the same bytes, so no form but the shortest is taken. */
static void only_the_shortest_form_is_a_character(void **state)
{
    int n_leads = 0;
    (void)state;
    for (int lead = 0; lead < 0x100; lead++) {
        bool is_lead = false;
        for (int next = 0; next < 0x100; next++) {
            char bytes[] = {(char)lead, (char)next, '\x80', '\x80'}, text[ROTA_UTF8_MAX];
            size_t size;
            uint32_t c = decode(bytes, sizeof bytes, &size);
            if (c == ROTA_UTF8_NONE) {
                assert_int_equal(size, 1);
                continue;
            }
            is_lead = true;
            assert_true(is_character(c));
            assert_int_equal(rota_utf8_encode(c, text), size);
            assert_memory_equal(text, bytes, size);
        }
        assert_int_equal(is_lead, lead < 0x80 || (lead >= 0xc2 && lead <= 0xf4));
        n_leads += is_lead;
    }
    assert_int_equal(n_leads, 0x80 + 0xf5 - 0xc2);
}

static void characters_that_control_a_terminal_or_a_line_are_hidden(void **state)
{
    static const uint32_t hidden[] = {0,      0x1b,   0x7f,   0x80,   0x9f,   0x61c,  0x200e,
                                      0x200f, 0x2028, 0x2029, 0x202a, 0x202e, 0x2066, 0x2069};
    static const uint32_t shown[] = {' ', 'a', 0xa0, 0xe9, 0x200d, 0x2010, 0x202f, 0x206a, 0x1f600};
    (void)state;
    for (size_t i = 0; i < sizeof hidden / sizeof hidden[0]; i++)
        assert_true(rota_utf8_is_hidden(hidden[i]));
    for (size_t i = 0; i < sizeof shown / sizeof shown[0]; i++)
        assert_false(rota_utf8_is_hidden(shown[i]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_character_comes_back),
        cmocka_unit_test(only_the_shortest_form_is_a_character),
        cmocka_unit_test(characters_that_control_a_terminal_or_a_line_are_hidden),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
