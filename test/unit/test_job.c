#include "core/work/job/job.h"
#include "vectors.h"

#include <rota/experimental/random.h>
#include <stdio.h>
#include <string.h>

/* What jobs are found by for as long as they are remembered: never to change. */
static void the_id_of_a_key_never_changes(void **state)
{
    char text[ROTA_JOB_ID_TEXT];
    struct rota_str mail = rota_str("mail"), key = rota_str("order 17");
    uint64_t seen = 0;
    (void)state;
    struct rota_job_id id = rota_job_id_of_key(mail, key, 16);
    assert_string_equal(rota_job_id_format(id, text), "62e22045dce00002e3d23043bdb6bb0c");
    struct rota_job_id other = rota_job_id_of_key(rota_str("mai"), rota_str("lorder 17"), 16);
    assert_true(other.low != id.low);
    for (uint16_t i = 0; i < 20000; i++) {
        id = rota_job_id_of_key(mail, rota_str_of(&i, sizeof i), 16);
        assert_true(rota_job_id_partition(id) < 16);
        assert_false(rota_job_id_is_made(id));
        seen |= (uint64_t)1 << rota_job_id_partition(id);
    }
    assert_int_equal(seen, 0xffff);
}

static void an_id_that_names_no_partition_has_one(void **state)
{
    struct rota_job_id id = {0x7c9e6679742540de, 0x944be07fc1f90ae7};
    uint64_t seen = 0;
    (void)state;
    for (uint64_t i = 0; i < 200; i++) {
        id.high += 7;
        uint32_t place = rota_job_id_place(id, 16);
        assert_true(place < 16);
        seen |= (uint64_t)1 << place;
    }
    assert_int_equal(seen, 0xffff);
}

/* A queue may have any partition by the time that a job of it is looked for. */
static void an_id_of_ours_contains_its_partition_and_others_are_distinguished(void **state)
{
    struct rota_random chance;
    int n_ours = 0;
    (void)state;
    rota_random_init(&chance, 7);
    for (uint32_t i = 0; i < 65536; i++) {
        uint64_t bits = rota_random_next(&chance);
        struct rota_job_id id = rota_job_id_make(1700000000123 * ROTA_MSEC + i, i, bits);
        assert_int_equal(rota_job_id_place(id, 16), i);
        id.low = rota_random_next(&chance); /* as a ULID is */
        uint32_t place = rota_job_id_place(id, 16);
        n_ours += i >= 16 && place == i;
        assert_true(place == i || place == i % 16);
    }
    assert_in_range(n_ours, 1, 64);
}

static void a_uuid_is_an_id(void **state)
{
    struct rota_job_id id;
    (void)state;
    assert_int_equal(rota_job_id_parse(rota_str("7c9e6679-7425-40de-944b-e07fc1f90ae7"), &id, NULL),
                     ROTA_OK);
    assert_true(id.high == 0x7c9e6679742540de && id.low == 0x944be07fc1f90ae7);
    assert_int_equal(rota_job_id_parse(rota_str("7c9e6679742540de-944b-e07f-c1f9-0ae7"), &id, NULL),
                     ROTA_ERR_INVALID);
    assert_int_equal(rota_job_id_parse(rota_str("7c9e6679-7425-40de-944b-e07fc1f90aeg"), &id, NULL),
                     ROTA_ERR_INVALID);
}

static void ids_read_back_as_they_were_written(void **state)
{
    char text[ROTA_JOB_ID_TEXT];
    struct rota_job_id id = rota_job_id_make(1700000000123 * ROTA_MSEC, 513, 0xcba9876543210);
    struct rota_job_id back;
    (void)state;
    assert_string_equal(rota_job_id_format(id, text), "018bcfe5687b020107bcba9876543210");
    assert_int_equal(rota_job_id_partition(id), 513);
    assert_int_equal(rota_job_id_parse(rota_str(text), &back, NULL), ROTA_OK);
    assert_true(back.high == id.high && back.low == id.low);
    assert_int_equal(rota_job_id_parse(rota_str("018BCFE5687B020107BCBA9876543210"), &back, NULL),
                     ROTA_OK);
    assert_true(back.high == id.high && back.low == id.low);
}

static void an_id_is_never_zero(void **state)
{
    (void)state;
    assert_false(rota_job_id_is_none(rota_job_id_make(0, 0, 0)));
    assert_false(rota_job_id_is_none(rota_job_id_make(-1, 65536, 0)));
    assert_true(rota_job_id_is_none((struct rota_job_id){0}));
}

static void texts_that_are_not_ids_are_refused(void **state)
{
    static const char *const bad[] = {"",
                                      "1",
                                      "00000000000000000000000000000000",
                                      "g18bcfe5687b0201fedcba9876543210",
                                      "018bcfe5687b0201fedcba98765432101",
                                      " 18bcfe5687b0201fedcba987654321",
                                      "\xff"};
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct rota_job_id id = {1, 2};
        struct rota_error error;
        assert_int_equal(rota_job_id_parse(rota_str(bad[i]), &id, &error), ROTA_ERR_INVALID);
        assert_non_null(strstr(error.text, "hexadecimal"));
        assert_true(id.high == 1 && id.low == 2);
    }
}

static void every_word_has_a_name_of_its_own(void **state)
{
    (void)state;
    for (int i = 0; i < ROTA_JOB_STATES; i++)
        for (int k = 0; k < i; k++)
            assert_string_not_equal(rota_job_state_name((enum rota_job_state)i),
                                    rota_job_state_name((enum rota_job_state)k));
    for (int i = 0; i <= ROTA_JOB_CAUSE_HANDED_OVER; i++)
        for (int k = 0; k < i; k++)
            assert_string_not_equal(rota_job_cause_text((enum rota_job_cause)i),
                                    rota_job_cause_text((enum rota_job_cause)k));
    for (int i = 0; i < ROTA_WORK_RECORDS; i++)
        for (int k = 0; k < i; k++)
            assert_string_not_equal(rota_job_work_record_name((enum rota_work_record_type)i),
                                    rota_job_work_record_name((enum rota_work_record_type)k));
    assert_string_equal(rota_job_state_name(ROTA_JOB_WAITING), "waiting");
    assert_string_equal(rota_job_cause_text(ROTA_JOB_CAUSE_TIMED_OUT), "timed out");
    assert_string_equal(rota_job_work_record_name(ROTA_WORK_OWN), "own");
    assert_string_equal(rota_job_state_name((enum rota_job_state)99), "unknown");
    assert_string_equal(rota_job_cause_text((enum rota_job_cause)99), "unknown");
    assert_string_equal(rota_job_work_record_name((enum rota_work_record_type)99), "unknown");
}

static void names_have_few_letters_and_are_not_long(void **state)
{
    static char longest[300];
    (void)state;
    memset(longest, 'x', sizeof longest);
    assert_int_equal(rota_job_check_capability(rota_str("os=linux/x86_64:v1.2-3"), NULL), ROTA_OK);
    assert_int_equal(rota_job_queue_check(rota_str("a.b_c-D9"), NULL), ROTA_OK);
    assert_int_equal(rota_job_check_capability(rota_str_of(longest, 64), NULL), ROTA_OK);
    assert_int_equal(rota_job_queue_check(rota_str_of(longest, 255), NULL), ROTA_OK);
    assert_int_equal(rota_job_check_capability(rota_str_of(longest, 65), NULL), ROTA_ERR_INVALID);
    assert_int_equal(rota_job_queue_check(rota_str_of(longest, 256), NULL), ROTA_ERR_INVALID);
    for (int c = 0; c < 256; c++) { /* a blank, a NUL, what is no ASCII ... */
        char name = (char)c;
        bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        bool is_queue = is_letter || c == '.' || c == '_' || c == '-';
        bool is_capability = is_queue || c == ':' || c == '/' || c == '=';
        assert_int_equal(rota_job_queue_check(rota_str_of(&name, 1), NULL) == ROTA_OK, is_queue);
        assert_int_equal(rota_job_check_capability(rota_str_of(&name, 1), NULL) == ROTA_OK,
                         is_capability);
    }
    struct rota_error error;
    assert_int_equal(rota_job_queue_check(rota_str("a b\n"), &error), ROTA_ERR_INVALID);
    assert_non_null(strstr(error.text, "\"a b\\n\" is not the name of a queue"));
}

static void a_spec_within_all_bounds_is_valid(void **state)
{
    static char bytes[ROTA_JOB_KEY_MAX];
    struct rota_str names[ROTA_JOB_CAPABILITIES_MAX];
    (void)state;
    for (int i = 0; i < ROTA_JOB_CAPABILITIES_MAX; i++)
        names[i] = rota_str("cap");
    struct rota_job_spec spec = {
        .queue = rota_str("q"),
        .partition = ROTA_JOB_PARTITIONS_MAX - 1,
        .capabilities = names,
        .n_capabilities = ROTA_JOB_CAPABILITIES_MAX,
        .payload = {NULL, ROTA_JOB_PAYLOAD_MAX},
        .priority = INT16_MIN,
        .not_before = 1,
        .deadline = ROTA_TIME_NEVER,
        .timeout = ROTA_TIME_NEVER,
        .max_attempts = ROTA_JOB_ATTEMPTS_MAX,
        .backoff = ROTA_TIME_NEVER,
        .backoff_max = ROTA_TIME_NEVER,
        .unique = rota_str_of(bytes, sizeof bytes),
        .key = rota_str_of(bytes, sizeof bytes),
        .trace = rota_str_of(bytes, sizeof bytes),
    };
    assert_int_equal(rota_job_spec_check(&spec, NULL), ROTA_OK);
    spec.deadline = 1;
    assert_int_equal(rota_job_spec_check(&spec, NULL), ROTA_ERR_INVALID);
}

static void specs_are_valid_up_to_their_bounds(void **state)
{
    static char text[ROTA_JOB_PAYLOAD_MAX + 1];
    struct rota_str names[ROTA_JOB_CAPABILITIES_MAX + 1];
    memset(text, 'x', sizeof text);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        names[i] = rota_str("c");
    (void)state;
    for (size_t more = 0; more < 2; more++) {
        const struct rota_job_spec plain = {.queue = rota_str("q")};
        struct rota_job_spec specs[12];
        for (size_t i = 0; i < 12; i++)
            specs[i] = plain;
        specs[0].queue = rota_str_of(text, ROTA_JOB_QUEUE_NAME_MAX + more);
        specs[1].payload = rota_str_of(text, ROTA_JOB_PAYLOAD_MAX + more);
        specs[2].unique = rota_str_of(text, ROTA_JOB_KEY_MAX + more);
        specs[3].key = rota_str_of(text, ROTA_JOB_KEY_MAX + more);
        specs[4].trace = rota_str_of(text, ROTA_JOB_KEY_MAX + more);
        specs[5].capabilities = names;
        specs[5].n_capabilities = ROTA_JOB_CAPABILITIES_MAX + more;
        specs[6].partition = ROTA_JOB_PARTITIONS_MAX - 1 + (uint32_t)more;
        specs[7].max_attempts = ROTA_JOB_ATTEMPTS_MAX + (uint32_t)more;
        specs[8].deadline = 5;
        specs[8].not_before = 4 + (rota_time)more;
        specs[9].timeout = -(rota_time)more;
        specs[10].backoff = -(rota_time)more;
        specs[11].backoff_max = -(rota_time)more;
        for (size_t i = 0; i < 12; i++)
            assert_int_equal(rota_job_spec_check(&specs[i], NULL),
                             more ? ROTA_ERR_INVALID : ROTA_OK);
    }
    assert_int_equal(rota_job_check_capability(rota_str_of(text, ROTA_CAPABILITY_NAME_MAX), NULL),
                     ROTA_OK);
    assert_int_equal(
        rota_job_check_capability(rota_str_of(text, ROTA_CAPABILITY_NAME_MAX + 1), NULL),
        ROTA_ERR_INVALID);
    assert_int_equal(rota_job_check_capability(rota_str(""), NULL), ROTA_ERR_INVALID);
}

static void generated_id_is_distinguished_from_others(void **state)
{
    struct rota_job_id id;
    size_t n_others = 0;
    (void)state;
    for (uint64_t i = 0; i < 4096; i++) {
        id = rota_job_id_make((rota_time)i * ROTA_SEC, (uint32_t)i, i * i);
        assert_true(rota_job_id_is_made(id));
        assert_int_equal(rota_job_id_partition(id), i);
        id.low ^= (uint64_t)1 << 63;
        assert_false(rota_job_id_is_made(id));
        n_others += rota_job_id_is_made((struct rota_job_id){i + 1, i * 0x9e3779b97f4a7c15u});
    }
    assert_true(n_others < 10);     /* one in 4096 */
    id = rota_job_id_make(0, 0, 0); /* never the id that means none */
    assert_false(rota_job_id_is_none(id));
    assert_true(rota_job_id_is_made(id));
    id = rota_job_id_make(-ROTA_SEC, 5, 1); /* a clock before 1970 */
    assert_true(rota_job_id_is_made(id));
    assert_int_equal(rota_job_id_partition(id), 5);
}

static void a_reason_is_cut_between_characters_and_only_if_it_is_too_long(void **state)
{
    enum { MARK = sizeof "... (cut)" - 1 };
    static const char SMILE[] = {'\xf0', '\x9f', '\x98', '\x80'};
    static char text[ROTA_JOB_REASON_MAX + 1], room[ROTA_JOB_REASON_MAX];
    (void)state;
    memset(text, 'x', sizeof text);
    struct rota_str whole = rota_str_of(text, ROTA_JOB_REASON_MAX);
    assert_ptr_equal(rota_job_reason_cut(whole, room).data, text);
    assert_int_equal(rota_job_reason_cut(whole, room).size, ROTA_JOB_REASON_MAX);
    struct rota_str cut = rota_job_reason_cut(rota_str_of(text, sizeof text), room);
    assert_int_equal(cut.size, ROTA_JOB_REASON_MAX);
    assert_memory_equal(cut.data, text, cut.size - MARK);
    assert_memory_equal(cut.data + cut.size - MARK, "... (cut)", MARK);
    for (size_t n = 1; n <= 4; n++) { /* bytes of the character that does not fit any more */
        memset(text, 'x', sizeof text);
        memcpy(text + ROTA_JOB_REASON_MAX - MARK - (n - 1), SMILE, sizeof SMILE);
        cut = rota_job_reason_cut(rota_str_of(text, sizeof text), room);
        assert_int_equal(cut.size, ROTA_JOB_REASON_MAX - (n - 1));
        assert_memory_equal(cut.data, text, cut.size - MARK);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ids_read_back_as_they_were_written),
        cmocka_unit_test(the_id_of_a_key_never_changes),
        cmocka_unit_test(an_id_that_names_no_partition_has_one),
        cmocka_unit_test(an_id_of_ours_contains_its_partition_and_others_are_distinguished),
        cmocka_unit_test(a_uuid_is_an_id),
        cmocka_unit_test(an_id_is_never_zero),
        cmocka_unit_test(texts_that_are_not_ids_are_refused),
        cmocka_unit_test(every_word_has_a_name_of_its_own),
        cmocka_unit_test(names_have_few_letters_and_are_not_long),
        cmocka_unit_test(a_spec_within_all_bounds_is_valid),
        cmocka_unit_test(specs_are_valid_up_to_their_bounds),
        cmocka_unit_test(generated_id_is_distinguished_from_others),
        cmocka_unit_test(a_reason_is_cut_between_characters_and_only_if_it_is_too_long),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
