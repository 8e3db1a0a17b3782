#include "wire/call_notes.h"

#include "vectors.h"

#include <limits.h>

static void cost_reads_back_as_written(void **state)
{
    struct rota_cost costs[] = {{0, 0, 0}, {1500, 1200, 3}, {INT64_MAX, INT64_MAX, INT64_MAX}};
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        char text[ROTA_NOTE_COST_MAX];
        struct rota_cost cost;
        assert_true(rota_note_parse_cost(rota_str(rota_note_format_cost(&costs[i], text)), &cost));
        assert_memory_equal(&cost, &costs[i], sizeof cost);
    }
}

static void time_that_went_backwards_costs_nothing(void **state)
{
    char text[ROTA_NOTE_COST_MAX];
    (void)state;
    rota_note_format_cost(&(struct rota_cost){-1, INT64_MIN, 2}, text);
    assert_string_equal(text, "0 0 2");
}

static void what_is_no_cost_is_left_alone(void **state)
{
    static const char *const texts[] = {"",
                                        " ",
                                        "1",
                                        "1 2",
                                        "1 2 ",
                                        "1 2 3 ",
                                        "1 2 3 4",
                                        "1  2 3",
                                        "-1 2 3",
                                        "+1 2 3",
                                        "a 2 3",
                                        "1 2 3x",
                                        "9223372036854775808 0 0",
                                        "99999999999999999999999 0 0",
                                        "0x1 0 0",
                                        "1.5 2 3"};
    struct rota_cost cost = {7, 7, 7};
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        assert_false(rota_note_parse_cost(rota_str(texts[i]), &cost));
    assert_false(rota_note_parse_cost(rota_str_of("1 2 3\0", 6), &cost));
    assert_int_equal(cost.response_us, 7);
}

static void claim_names_who_leads_now(void **state)
{
    struct rota_replica claim = {0};
    (void)state;
    assert_true(rota_note_parse_claim(rota_str("12 18446744073709551615 [::1]:7000"), &claim));
    assert_int_equal(claim.node, 12);
    assert_true(claim.epoch == UINT64_MAX && claim.is_serviceable);
    assert_true(rota_str_is_equal(claim.address, rota_str("[::1]:7000")));
    assert_false(rota_note_parse_claim(rota_str("12 8"), &claim));
    assert_false(rota_note_parse_claim(rota_str("12 8 "), &claim));
    assert_false(rota_note_parse_claim(rota_str("-12 8 a:1"), &claim));
    assert_false(rota_note_parse_claim(rota_str("12 18446744073709551616 a:1"), &claim));
    assert_int_equal(claim.node, 12);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cost_reads_back_as_written),
        cmocka_unit_test(time_that_went_backwards_costs_nothing),
        cmocka_unit_test(what_is_no_cost_is_left_alone),
        cmocka_unit_test(claim_names_who_leads_now),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
