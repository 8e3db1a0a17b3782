#include "wire/grpc/call_notes.h"

#include "core/own/shard_note.h"
#include "vectors.h"

#include <limits.h>

static void cost_reads_back_as_written(void **state)
{
    struct rota_cost costs[] = {{0, 0, 0}, {1500, 1200, 3}, {INT64_MAX, INT64_MAX, INT64_MAX}};
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        char text[ROTA_NOTE_COST_MAX];
        struct rota_cost cost;
        assert_true(rota_call_notes_parse_cost(
            rota_str(rota_call_notes_format_cost(&costs[i], text)), &cost));
        assert_memory_equal(&cost, &costs[i], sizeof cost);
    }
}

static void time_that_went_backwards_costs_nothing(void **state)
{
    char text[ROTA_NOTE_COST_MAX];
    (void)state;
    rota_call_notes_format_cost(&(struct rota_cost){-1, INT64_MIN, 2}, text);
    assert_string_equal(text, "0 0 2");
}

static void malformed_cost_is_ignored(void **state)
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
        assert_false(rota_call_notes_parse_cost(rota_str(texts[i]), &cost));
    assert_false(rota_call_notes_parse_cost(rota_str_of("1 2 3\0", 6), &cost));
    assert_int_equal(cost.response_us, 7);
}

static void claim_names_the_current_owner(void **state)
{
    struct rota_replica claim = {0};
    (void)state;
    assert_true(
        rota_call_notes_parse_claim(rota_str("12 18446744073709551615 [::1]:7000"), &claim));
    assert_int_equal(claim.node, 12);
    assert_true(claim.epoch == UINT64_MAX && claim.is_serviceable);
    assert_true(rota_str_is_equal(claim.address, rota_str("[::1]:7000")));
    assert_false(rota_call_notes_parse_claim(rota_str("12 8"), &claim));
    assert_false(rota_call_notes_parse_claim(rota_str("12 8 "), &claim));
    assert_false(rota_call_notes_parse_claim(rota_str("-12 8 a:1"), &claim));
    assert_false(rota_call_notes_parse_claim(rota_str("12 18446744073709551616 a:1"), &claim));
    assert_int_equal(claim.node, 12);
}

static void claim_reads_back_as_written(void **state)
{
    static char address[ROTA_SHARD_NAME_MAX];
    char text[ROTA_NOTE_CLAIM_MAX];
    struct rota_replica claim;
    (void)state;
    memset(address, 'h', sizeof address);
    rota_call_notes_format_claim(INT64_MAX, UINT64_MAX, rota_str_of(address, sizeof address), text);
    assert_true(rota_call_notes_parse_claim(rota_str(text), &claim));
    assert_true(claim.node == INT64_MAX && claim.epoch == UINT64_MAX);
    assert_int_equal(claim.address.size, sizeof address);
}

static void epoch_is_a_number_and_nothing_else(void **state)
{
    static const char *const texts[] = {"",   " ",  "7 ", " 7",  "7 8",
                                        "-7", "+7", "7x", "0x7", "18446744073709551616"};
    uint64_t epoch = 3;
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        assert_false(rota_call_notes_parse_epoch(rota_str(texts[i]), &epoch));
    assert_true(epoch == 3);
    assert_true(rota_call_notes_parse_epoch(rota_str("18446744073709551615"), &epoch));
    assert_true(epoch == UINT64_MAX);
}

/* A shard as it is written; that it reads back is seen to, too. */
static void check_shard(struct rota_str space, struct rota_str shard, const char *written)
{
    char text[ROTA_SHARD_NOTE_MAX], room[ROTA_SHARD_NOTE_NAMES_MAX];
    struct rota_str names[2], note = rota_shard_note_format(space, shard, text);
    if (written)
        assert_true(rota_str_is_equal(note, rota_str(written)));
    assert_true(rota_shard_note_parse(note, room, &names[0], &names[1]));
    assert_true(rota_str_is_equal(names[0], space));
    assert_true(rota_str_is_equal(names[1], shard));
}

static void shard_reads_back_as_written(void **state)
{
    static char every[256], large[ROTA_SHARD_NAME_MAX];
    (void)state;
    for (size_t i = 0; i < sizeof every; i++)
        every[i] = (char)i;
    memset(large, 0xff, sizeof large);
    check_shard(rota_str("1"), rota_str("books-0"), "1/books-0");
    check_shard(rota_str("a/b"), rota_str("100% \xc3\xa9"), "a%2Fb/100%25%20%C3%A9");
    check_shard(rota_str_of(every, sizeof every), rota_str_of(every, sizeof every), NULL);
    check_shard(rota_str_of(large, sizeof large), rota_str_of(large, sizeof large), NULL);
}

static void malformed_shard_is_ignored(void **state)
{
    static const char *const texts[] = {"",      "/",     "a",    "a/",     "/b",
                                        "a/b/c", "a b/c", "a/b ", "a/\xe9", "a/b%4",
                                        "a/b%",  "a/%g0", "a/%-1"};
    static char large[ROTA_SHARD_NAME_MAX + 3];
    char text[ROTA_SHARD_NOTE_MAX], room[ROTA_SHARD_NOTE_NAMES_MAX];
    struct rota_str space = {NULL, 7}, shard = {NULL, 7};
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        assert_false(rota_shard_note_parse(rota_str(texts[i]), room, &space, &shard));
    memset(large, 'x', sizeof large);
    large[1] = '/';
    assert_false(rota_shard_note_parse(rota_str_of(large, sizeof large), room, &space, &shard));
    assert_int_equal(space.size + shard.size, 14);
    assert_true(rota_shard_note_parse(rota_str_of(large, sizeof large - 1), room, &space, &shard));
    assert_int_equal(rota_shard_note_format(rota_str(""), rota_str("b"), text).size, 0);
    assert_int_equal(
        rota_shard_note_format(rota_str("a"), rota_str_of(large, sizeof large), text).size, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cost_reads_back_as_written),
        cmocka_unit_test(time_that_went_backwards_costs_nothing),
        cmocka_unit_test(malformed_cost_is_ignored),
        cmocka_unit_test(claim_names_the_current_owner),
        cmocka_unit_test(claim_reads_back_as_written),
        cmocka_unit_test(epoch_is_a_number_and_nothing_else),
        cmocka_unit_test(shard_reads_back_as_written),
        cmocka_unit_test(malformed_shard_is_ignored),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
