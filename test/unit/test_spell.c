#include "base/spell.h"

#include "vectors.h"

static const char *nearest(const char *word)
{
    static const char *const names[] = {"store", "start", "batch", "json", "at"};
    struct rota_spell spell = {.word = rota_str(word)};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        rota_spell_offer(&spell, names[i]);
    return spell.best ? spell.best : "none";
}

static void a_slip_leads_to_the_name(void **state)
{
    (void)state;
    assert_string_equal(nearest("store"), "store");
    assert_string_equal(nearest("stor"), "store");
    assert_string_equal(nearest("sstore"), "store");
    assert_string_equal(nearest("stoer"), "store");
    assert_string_equal(nearest("bacth"), "batch");
    assert_string_equal(nearest("jsno"), "json");
    assert_string_equal(nearest("stars"), "start");
}

static void a_distant_word_has_no_suggestion(void **state)
{
    (void)state;
    assert_string_equal(nearest(""), "none");
    assert_string_equal(nearest("it"), "none");
    assert_string_equal(nearest("frobnicate"), "none");
    assert_string_equal(nearest("storestorestorestorestorestorestorestorestore"), "none");
}

static void a_swap_is_one_slip(void **state)
{
    struct rota_spell spell = {.word = rota_str("ab12")};
    (void)state;
    rota_spell_offer(&spell, "ba12");
    assert_int_equal(spell.slips, 1);
    spell = (struct rota_spell){.word = rota_str("partition")};
    rota_spell_offer(&spell, "aprtitoin");
    assert_int_equal(spell.slips, 2);
}

static void a_hint_names_the_best_or_is_empty(void **state)
{
    char text[ROTA_SPELL_HINT_MAX];
    char long_name[ROTA_SPELL_WORD_MAX + 1];
    (void)state;
    struct rota_spell spell = {.word = rota_str("stor")};
    assert_string_equal(rota_spell_hint(&spell, text), "");
    rota_spell_offer(&spell, "store");
    assert_string_equal(rota_spell_hint(&spell, text), "; did you mean store?");

    memset(long_name, 'x', sizeof long_name - 1);
    long_name[sizeof long_name - 1] = '\0';
    spell = (struct rota_spell){.word = rota_str(long_name)};
    rota_spell_offer(&spell, long_name);
    assert_int_equal(rota_spell_hint(&spell, text)[ROTA_SPELL_WORD_MAX + 15], '?');
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_slip_leads_to_the_name),
        cmocka_unit_test(a_distant_word_has_no_suggestion),
        cmocka_unit_test(a_swap_is_one_slip),
        cmocka_unit_test(a_hint_names_the_best_or_is_empty),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
