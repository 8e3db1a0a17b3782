#include "wire/record/group_record.h"

#include "vectors.h"

#include <stdio.h>
#include <stdlib.h>

#define HEAD                                                                                       \
    "\"syncEpoch\":\"e\",\"epoch\":1,\"taskID\":\"t1\",\"incarnation\":7,\"sequence\":2,"          \
    "\"messageTimestamp\":\"2026-01-31T12:00:00Z\",\"replayFrom\":0,\"next\":4"

#define STATE(partitions)                                                                          \
    "{\"version\":1,\"kind\":\"state\"," HEAD ",\"connectorState\":[{\"taskID\":\"t1\","           \
    "\"incarnation\":7,\"stateTimestamp\":\"2026-01-31T12:00:00Z\",\"data\":{\"partitions\":"      \
    "[" partitions "]}}]}"

static struct rota_group_record *parse(const char *text)
{
    struct rota_group_record *record;
    enum rota_group_verdict verdict;
    struct rota_error error = {0};
    assert_int_equal(rota_group_record_parse(rota_str(text), &record, &verdict, &error), ROTA_OK);
    if (verdict != ROTA_GROUP_ACCEPTED)
        print_message("%s: %s\n", rota_group_fold_verdict_name(verdict), error.text);
    assert_int_equal(verdict, ROTA_GROUP_ACCEPTED);
    return record;
}

static enum rota_group_verdict refused(struct rota_str text)
{
    struct rota_group_record *record = NULL;
    enum rota_group_verdict verdict;
    struct rota_error error = {0};
    assert_int_equal(rota_group_record_parse(text, &record, &verdict, &error), ROTA_OK);
    assert_null(record);
    assert_true(error.text[0] != '\0');
    return verdict;
}

static void assert_written(struct rota_group_record *record, const char *text)
{
    struct rota_buffer buffer = {0};
    assert_int_equal(rota_group_record_format(record, &buffer, NULL), ROTA_OK);
    assert_string_equal(buffer.data, text);
    assert_int_equal(record->size, strlen(text));
    rota_buffer_deinit(&buffer);
}

static void epoch_lists_its_members(void **state)
{
    static const char text[] =
        "{\"version\":1,\"kind\":\"epoch\"," HEAD ",\"prevEpoch\":0,\"generation\":3,"
        "\"connectorState\":[{\"taskID\":\"t1\",\"incarnation\":7},"
        "{\"taskID\":\"t2\",\"incarnation\":9007199254740992}]}";
    struct rota_group_record *record = parse(text);
    (void)state;
    assert_int_equal(record->kind, ROTA_GROUP_EPOCH);
    assert_int_equal(record->generation, 3);
    assert_int_equal(record->n_tasks, 2);
    assert_true(record->tasks[1].member.incarnation == ROTA_GROUP_NUMBER_MAX);
    assert_written(record, text);
    rota_group_record_unref(record);
}

static void state_has_own_partitions_and_offers(void **state)
{
    static const char text[] =
        "{\"version\":1,\"kind\":\"state\"," HEAD ",\"connectorState\":[{\"taskID\":\"t1\","
        "\"incarnation\":7,\"stateTimestamp\":\"2026-01-31T12:00:00Z\",\"data\":{\"partitions\":["
        "{\"partition\":\"caf\xc3\xa9 \\\"1\\\"\",\"change\":\"own\",\"parents\":[\"a\",\"b\"],"
        "\"mark\":-9223372036854775808,\"position\":\"x\\u0000\"},"
        "{\"partition\":\"p\",\"change\":\"finish\",\"token\":5,\"mark\":6,"
        "\"positionHex\":\"00ff\",\"end\":true}]},\"share\":{\"partitions\":["
        "{\"partition\":\"c\",\"change\":\"share\",\"target\":\"t2\",\"targetIncarnation\":8,"
        "\"mark\":0},{\"partition\":\"d\",\"change\":\"clear\"}]}}],\"seeded\":true}";
    struct rota_group_record *record = parse(text);
    (void)state;
    assert_int_equal(record->n_changes, 4);
    assert_int_equal(record->changes[0].def->n_parents, 2);
    assert_true(
        rota_str_is_equal(record->changes[0].def->name.text, rota_str("caf\xc3\xa9 \"1\"")));
    assert_true(rota_str_is_equal(rota_blob_str(record->changes[0].position), rota_str_of("x", 2)));
    assert_true(record->changes[1].is_end);
    assert_true(
        rota_str_is_equal(rota_blob_str(record->changes[1].position), rota_str_of("\0\xff", 2)));
    assert_true(record->is_seed_end);
    assert_written(record, text);
    rota_group_record_unref(record);
}

static void fields_in_any_order_and_with_blanks_are_read(void **state)
{
    struct rota_group_record *record =
        parse(" {\n\t\"next\": 4 , \"connectorState\" : [ { \"share\" : { } , \"incarnation\" : 7 ,"
              "\"taskID\":\"\\u00741\" } ] , \"kind\":\"state\", \"replayFrom\":0, \"sequence\":2,"
              "\"taskID\":\"t1\",\"incarnation\":7,\"epoch\":1,\"version\":1 }\r\n");
    (void)state;
    assert_int_equal(record->n_changes, 0);
    rota_group_record_unref(record);
}

static void unknown_fields_are_kept(void **state)
{
    static const char text[] =
        "{\"version\":1,\"kind\":\"state\"," HEAD ",\"connectorState\":[{\"taskID\":\"t1\","
        "\"incarnation\":7,\"stateTimestamp\":\"2026-01-31T12:00:00Z\",\"data\":{\"partitions\":["
        "{\"partition\":\"p\",\"change\":\"own\",\"mark\":0,\"colour\":{\"a\":[1,2.50e+3,null]},"
        "\"k\\\"\":\"\\u0041\"}]}}],\"later\":true}";
    struct rota_group_record *record = parse(text);
    (void)state;
    assert_true(rota_str_is_equal(record->extra, rota_str("\"later\":true")));
    assert_written(record, text);
    rota_group_record_unref(record);
}

static void unknown_fields_of_a_partition_are_in_the_snapshot(void **state)
{
    struct rota_group_record *epoch =
        parse("{\"version\":1,\"kind\":\"epoch\"," HEAD ",\"prevEpoch\":0,\"generation\":3,"
              "\"connectorState\":[{\"taskID\":\"t1\",\"incarnation\":7}]}");
    struct rota_group_record *record =
        parse(STATE("{\"partition\":\"p\",\"change\":\"own\",\"mark\":0,\"colour\":\"red\"}"));
    struct rota_group_record **pieces;
    struct rota_buffer buffer = {0};
    struct rota_group_fold fold;
    enum rota_group_verdict verdict;
    size_t n;
    (void)state;
    rota_group_fold_init(&fold);
    record->sequence = 3;
    assert_int_equal(rota_group_fold_apply(&fold, 0, epoch, &verdict), ROTA_OK);
    assert_int_equal(rota_group_fold_apply(&fold, 1, record, &verdict), ROTA_OK);
    assert_int_equal(verdict, ROTA_GROUP_ACCEPTED);
    assert_int_equal(rota_group_fold_save(&fold, &pieces, &n), ROTA_OK);
    assert_int_equal(rota_group_record_format(pieces[n - 1], &buffer, NULL), ROTA_OK);
    assert_non_null(strstr(buffer.data, "\"colour\":\"red\""));
    for (size_t i = 0; i < n; i++)
        rota_group_record_unref(pieces[i]);
    free(pieces);
    rota_buffer_deinit(&buffer);
    rota_group_fold_deinit(&fold);
    rota_group_record_unref(epoch);
    rota_group_record_unref(record);
}

static void malformed_record_is_named(void **state)
{
    static const struct {
        const char *text;
        enum rota_group_verdict verdict;
    } cases[] = {
        {"", ROTA_GROUP_FOREIGN},
        {"hello", ROTA_GROUP_FOREIGN},
        {"\xff\xfe\x00", ROTA_GROUP_FOREIGN},
        {"{}", ROTA_GROUP_FOREIGN},
        {"[1,2]", ROTA_GROUP_FOREIGN},
        {"{\"kind\":\"state\"}", ROTA_GROUP_FOREIGN},
        {"{\"version\":2,\"kind\":\"state\",\"new\":[]}", ROTA_GROUP_FUTURE},
        {"{\"version\":99}", ROTA_GROUP_FUTURE},
        {"{\"version\":1,\"kind\":\"other\"}", ROTA_GROUP_MALFORMED},
        {"{\"version\":1,\"kind\":\"state\"}", ROTA_GROUP_MALFORMED},
        {"{\"version\":1,\"kind\":\"state\"," HEAD "} x", ROTA_GROUP_MALFORMED},
        {"{\"version\":1,\"kind\":\"state\"," HEAD ",}", ROTA_GROUP_MALFORMED},
        {"{\"version\":1,\"kind\":\"state\"," HEAD ",\"epoch\":1}", ROTA_GROUP_MALFORMED},
        {"{\"version\":1,\"kind\":\"state\"," HEAD "}", ROTA_GROUP_MALFORMED},
        {STATE("{\"partition\":\"p\"}"), ROTA_GROUP_MALFORMED},
        {STATE("{\"change\":\"own\"}"), ROTA_GROUP_MALFORMED},
        {STATE("{\"partition\":\"p\",\"change\":\"eat\"}"), ROTA_GROUP_MALFORMED},
        {STATE("{\"partition\":\"p\",\"change\":\"clear\"}"), ROTA_GROUP_MALFORMED}, /* section */
        {STATE("{\"partition\":\"p\",\"change\":\"own\",\"parents\":[\"p\"]}"),
         ROTA_GROUP_MALFORMED},
        {STATE("{\"partition\":\"p\",\"change\":\"own\",\"parents\":[\"a\",\"a\"]}"),
         ROTA_GROUP_MALFORMED},
        {STATE("{\"partition\":\"p\",\"change\":\"own\",\"mark\":1.5}"), ROTA_GROUP_MALFORMED},
        {STATE("{\"partition\":\"p\",\"change\":\"own\",\"mark\":9223372036854775808}"),
         ROTA_GROUP_MALFORMED},
        {STATE("{\"partition\":\"p\",\"change\":\"take\",\"token\":-1}"), ROTA_GROUP_MALFORMED},
        {STATE("{\"partition\":\"\\ud800\",\"change\":\"take\"}"), ROTA_GROUP_MALFORMED},
        {STATE("{\"partition\":\"p\",\"change\":\"own\",\"mark\":1,\"positionHex\":\"0\"}"),
         ROTA_GROUP_MALFORMED},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (refused(rota_str(cases[i].text)) != cases[i].verdict)
            fail_msg("case %zu is not %s", i, rota_group_fold_verdict_name(cases[i].verdict));
}

static void bounds_are_kept(void **state)
{
    struct rota_buffer text = {0};
    (void)state;
    for (int i = 0; i <= ROTA_GROUP_RECORD_MAX; i++)
        rota_buffer_append_char(&text, ' ');
    assert_int_equal(refused(rota_buffer_str(&text)), ROTA_GROUP_OVERSIZED);
    rota_buffer_clear(&text);
    for (int i = 0; i < 100000; i++)
        rota_buffer_append_text(&text, "[");
    assert_int_equal(refused(rota_buffer_str(&text)), ROTA_GROUP_FOREIGN);

    static const char *const begins[] = {
        "{\"partition\":\"",
        "{\"partition\":\"p\",\"change\":\"own\",\"mark\":0,\"position\":\"",
        "{\"partition\":\"p\",\"change\":\"own\",\"other\":\"",
        "{\"partition\":\"p\",\"change\":\"own\",\"parents\":[\"a",
    };
    for (size_t i = 0; i < 4; i++) {
        rota_buffer_clear(&text);
        rota_buffer_append_text(&text, "{\"version\":1,\"kind\":\"state\"," HEAD
                                       ",\"connectorState\":[{\"taskID\":"
                                       "\"t1\",\"incarnation\":7,\"data\":{\"partitions\":[");
        rota_buffer_append_text(&text, begins[i]);
        for (int j = 0; j < 5000; j++)
            rota_buffer_append_text(&text, i == 3 ? "" : "x");
        for (int j = 0; j < 17 && i == 3; j++)
            rota_buffer_print(&text, "\",\"%d", j);
        rota_buffer_append_text(&text, i == 3 ? "\"]}]}}]}" : "\"}]}}]}");
        assert_int_equal(refused(rota_buffer_str(&text)), ROTA_GROUP_OVERSIZED);
    }
    rota_buffer_deinit(&text);
}

static void metadata_reads_back(void **state)
{
    struct rota_group_member member = {rota_str("a/b"), 12345}, read;
    char text[ROTA_GROUP_METADATA_MAX];
    (void)state;
    assert_string_equal(rota_group_record_metadata_format(member, text), "12345/a/b");
    assert_int_equal(rota_group_record_metadata_parse(rota_str(text), &read), ROTA_OK);
    assert_true(rota_group_member_is_equal(member, read));
    static const char *const bad[] = {"",     "/",    "0/a",   "1/",   "x/a",
                                      "-1/a", "01/a", "1/a b", "1 /a", "99999999999999999999/a"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(rota_group_record_metadata_parse(rota_str(bad[i]), &read),
                         ROTA_ERR_INVALID);
}

/* A fold with `n` partitions, all of one task's, of names as long as a real one's. */
static void fill(struct rota_group_fold *fold, int n)
{
    struct rota_group_record *epoch =
        parse("{\"version\":1,\"kind\":\"epoch\"," HEAD ",\"prevEpoch\":0,\"generation\":3,"
              "\"connectorState\":[{\"taskID\":\"t1\",\"incarnation\":7}]}");
    enum rota_group_verdict verdict;
    rota_group_fold_init(fold);
    assert_int_equal(rota_group_fold_apply(fold, 0, epoch, &verdict), ROTA_OK);
    rota_group_record_unref(epoch);
    for (int from = 0; from < n; from += 1000) {
        struct rota_group_record *record = rota_group_record_new(ROTA_GROUP_STATE);
        record->author = (struct rota_group_member){rota_str("t1"), 7};
        record->epoch = 1;
        record->sequence = (uint64_t)from + 3;
        record->changes = calloc(1000, sizeof *record->changes);
        for (record->n_changes = 0; record->n_changes < 1000; record->n_changes++) {
            char name[128];
            snprintf(name, sizeof name, "%s%010d", "__8BAYEG0qQD4AABgsBDg3MQgATD9Ej9_partition_",
                     from + (int)record->n_changes);
            record->changes[record->n_changes] = (struct rota_group_change){
                .type = ROTA_GROUP_OWN,
                .def = rota_group_def_new(rota_str(name), NULL, 0, rota_str("")),
                .has_position = true,
                .mark = 1767225600000000000 + from,
                .position = rota_group_blob_new(rota_str("2026-01-31T12:00:00.123456789Z")),
            };
        }
        assert_int_equal(rota_group_fold_apply(fold, 1 + (uint64_t)from, record, &verdict),
                         ROTA_OK);
        assert_int_equal(verdict, ROTA_GROUP_ACCEPTED);
        rota_group_record_unref(record);
    }
    assert_int_equal(fold->n_partitions, n);
}

static void b11_no_record_is_large_however_many_partitions_there_are(void **state)
{
    struct rota_group_fold fold, loaded;
    struct rota_group_record **pieces, **read;
    size_t n, largest = 0;
    (void)state;
    fill(&fold, 100000);
    assert_int_equal(rota_group_fold_save(&fold, &pieces, &n), ROTA_OK);
    read = calloc(n, sizeof(struct rota_group_record *));
    for (size_t i = 0; i < n; i++) {
        struct rota_buffer buffer = {0};
        enum rota_group_verdict verdict;
        pieces[i]->author = (struct rota_group_member){rota_str("t1"), 7};
        pieces[i]->epoch = pieces[i]->sequence = 1;
        assert_int_equal(rota_group_record_format(pieces[i], &buffer, NULL), ROTA_OK);
        largest = buffer.size > largest ? buffer.size : largest;
        assert_int_equal(
            rota_group_record_parse(rota_buffer_str(&buffer), &read[i], &verdict, NULL), ROTA_OK);
        assert_int_equal(verdict, ROTA_GROUP_ACCEPTED);
        rota_buffer_deinit(&buffer);
    }
    assert_true(largest < 256 << 10);
    rota_group_fold_init(&loaded);
    assert_int_equal(rota_group_fold_load(&loaded, read, n, NULL), ROTA_OK);
    assert_true(rota_group_fold_digest(&loaded) == rota_group_fold_digest(&fold));
    for (size_t i = 0; i < n; i++) {
        rota_group_record_unref(pieces[i]);
        rota_group_record_unref(read[i]);
    }
    free(pieces);
    free(read);
    rota_group_fold_deinit(&fold);
    rota_group_fold_deinit(&loaded);
}

static void b11_change_of_state_takes_less_than_a_kilobyte(void **state)
{
    static const char name[] = "__8BAYEG0qQD4AABgsBDg3MQgATD9Ej9ZxVZlQ0MTYFmnrYRfHeWzmYVBPDkNuY";
    struct rota_str parents[] = {rota_str(name), rota_str(name)};
    (void)state;
    for (int i = 0; i < ROTA_GROUP_CHANGES; i++) {
        struct rota_group_record *record = rota_group_record_new(ROTA_GROUP_STATE);
        struct rota_buffer buffer = {0};
        record->author =
            (struct rota_group_member){rota_str("connector-task-17-of-500"), 123456789};
        record->epoch = record->sequence = record->next = record->replay_from = 1000000000;
        snprintf(record->sync_epoch, sizeof record->sync_epoch,
                 "6f1c9f0e-8f3a-4b52-9b8e-0d8c3c1a2b4d");
        record->timestamp = 1767225600123456789;
        record->n_changes = 1;
        record->changes = calloc(1, sizeof *record->changes);
        record->changes[0] = (struct rota_group_change){
            .type = (enum rota_group_change_type)i,
            .def = rota_group_def_new(rota_str(name), parents, 2, rota_str("")),
            .token = 1000000000,
            .target = record->author,
            .has_position = true,
            .mark = 1767225600123456789,
            .position = rota_group_blob_new(rota_str("2026-01-31T12:00:00.123456789Z/000001")),
        };
        assert_int_equal(rota_group_record_format(record, &buffer, NULL), ROTA_OK);
        assert_true(buffer.size <= 1024);
        rota_buffer_deinit(&buffer);
        rota_group_record_unref(record);
    }
}

static void bound_of_a_size_is_one(void **state)
{
    static const char *const names[] = {"p", "\x01\x02\x03", "caf\xc3\xa9", "\xf0\x9f\x98\x80\"\\",
                                        "\xe2\x80\xa8\xe2\x80\xae"};
    static const char *const positions[] = {"", "x", "\xff\xff\xff\xff", "\x01\x01"};
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        for (size_t j = 0; j < sizeof positions / sizeof *positions; j++) {
            struct rota_group_record *record = rota_group_record_new(ROTA_GROUP_STATE);
            struct rota_buffer with = {0}, without = {0};
            struct rota_str parents[] = {rota_str(names[i]), rota_str(names[i])};
            record->author = (struct rota_group_member){rota_str("t"), 1};
            assert_int_equal(rota_group_record_format(record, &without, NULL), ROTA_OK);
            record->n_changes = 1;
            record->changes = calloc(1, sizeof *record->changes);
            record->changes[0] = (struct rota_group_change){
                .type = ROTA_GROUP_SHARE,
                .def = rota_group_def_new(rota_str(names[i]), parents, 2, rota_str("\"a\":1")),
                .token = UINT64_MAX,
                .target = {rota_str("target"), UINT64_MAX},
                .has_position = true,
                .mark = INT64_MIN,
                .position = rota_group_blob_new(rota_str(positions[j])),
                .is_end = true,
            };
            assert_int_equal(rota_group_record_format(record, &with, NULL), ROTA_OK);
            assert_true(with.size <=
                        without.size + rota_group_change_size_max(&record->changes[0]));
            rota_buffer_deinit(&with);
            rota_buffer_deinit(&without);
            rota_group_record_unref(record);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(epoch_lists_its_members),
        cmocka_unit_test(state_has_own_partitions_and_offers),
        cmocka_unit_test(fields_in_any_order_and_with_blanks_are_read),
        cmocka_unit_test(unknown_fields_are_kept),
        cmocka_unit_test(unknown_fields_of_a_partition_are_in_the_snapshot),
        cmocka_unit_test(malformed_record_is_named),
        cmocka_unit_test(bounds_are_kept),
        cmocka_unit_test(metadata_reads_back),
        cmocka_unit_test(b11_no_record_is_large_however_many_partitions_there_are),
        cmocka_unit_test(b11_change_of_state_takes_less_than_a_kilobyte),
        cmocka_unit_test(bound_of_a_size_is_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
