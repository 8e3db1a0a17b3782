#include "core/work/compaction.h"

#include "vectors.h"

enum { SEGMENT = 1 << 20 };

static void a_journal_of_living_jobs_is_left_alone(void **state)
{
    struct rota_compaction compaction = {0};
    struct rota_compaction_look look = {.segment_size = SEGMENT, .edge = 900};
    (void)state;
    look.bytes = 4 * SEGMENT;
    assert_int_equal(rota_compaction_step(&compaction, &look), 0);
    look.live = 10 * SEGMENT;
    look.bytes = 24 * SEGMENT;
    assert_int_equal(rota_compaction_step(&compaction, &look), 0);
    look.live = UINT64_MAX;
    assert_int_equal(rota_compaction_step(&compaction, &look), 0);
}

static void one_of_the_forgotten_is_written_anew_up_to_its_edge(void **state)
{
    struct rota_compaction compaction = {0};
    struct rota_compaction_look look = {
        .segment_size = SEGMENT, .edge = 900, .live = 10 * SEGMENT, .bytes = 24 * SEGMENT + 1};
    (void)state;
    assert_int_equal(rota_compaction_step(&compaction, &look), 900);
    assert_false(rota_compaction_done(&compaction, 7));
    look.edge = 1000; /* it has grown meanwhile, and the number stays */
    look.bytes = 0;
    assert_int_equal(rota_compaction_step(&compaction, &look), 900);
    assert_true(rota_compaction_done(&compaction, 0));
    assert_int_equal(rota_compaction_step(&compaction, &look), 0);
}

static void a_full_disk_and_damage_make_it_sooner(void **state)
{
    struct rota_compaction compaction = {0};
    struct rota_compaction_look look = {
        .segment_size = SEGMENT, .edge = 900, .live = 10 * SEGMENT, .bytes = 12 * SEGMENT};
    (void)state;
    look.is_full = true;
    assert_int_equal(rota_compaction_step(&compaction, &look), 0);
    look.bytes++;
    assert_int_equal(rota_compaction_step(&compaction, &look), 900);
    compaction.number = 0;
    look.bytes = 100;
    look.is_full = false;
    look.is_damaged = true;
    assert_int_equal(rota_compaction_step(&compaction, &look), 900);
    compaction.number = 0;
    look.edge = 1; /* all of it is in the newest segment */
    assert_int_equal(rota_compaction_step(&compaction, &look), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_journal_of_living_jobs_is_left_alone),
        cmocka_unit_test(one_of_the_forgotten_is_written_anew_up_to_its_edge),
        cmocka_unit_test(a_full_disk_and_damage_make_it_sooner),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
