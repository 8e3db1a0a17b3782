#include "core/own/group.h"

#include "vectors.h"

#include <stdlib.h>

static void kinds_and_changes_have_names(void **state)
{
    const char *const kinds[] = {"epoch", "state", "snapshot", "unknown"};
    const char *const changes[ROTA_GROUP_CHANGES + 1] = {"own",    "share",  "take",  "progress",
                                                         "finish", "remove", "clear", "withdraw",
                                                         "move",   "unknown"};
    (void)state;
    for (int i = 0; i < 4; i++)
        assert_string_equal(rota_group_kind_name((enum rota_group_kind)i), kinds[i]);
    for (int i = 0; i <= ROTA_GROUP_CHANGES; i++)
        assert_string_equal(rota_group_change_name((enum rota_group_change_type)i), changes[i]);
}

static void task_name_is_of_printable_ascii_without_blanks_and_quotes(void **state)
{
    char name[ROTA_GROUP_TASK_NAME_MAX + 1];
    (void)state;
    memset(name, 'x', sizeof name);
    assert_false(rota_group_is_task_name(rota_str("")));
    assert_true(rota_group_is_task_name(rota_str_of(name, sizeof name - 1)));
    assert_false(rota_group_is_task_name(rota_str_of(name, sizeof name)));
    for (int c = 0; c < 256; c++)
        for (int i = 0; i < 3; i++) {
            char text[] = "xxx";
            text[i] = (char)c;
            assert_int_equal(rota_group_is_task_name(rota_str_of(text, 3)),
                             c >= '!' && c <= '~' && c != '"' && c != '\\');
        }
}

static void partition_name_is_of_utf8(void **state)
{
    char name[ROTA_GROUP_NAME_MAX + 1];
    (void)state;
    memset(name, 'x', sizeof name);
    assert_false(rota_group_is_name(rota_str("")));
    assert_true(rota_group_is_name(rota_str_of(name, sizeof name - 1)));
    assert_false(rota_group_is_name(rota_str_of(name, sizeof name)));
    assert_true(rota_group_is_name(rota_str("a b\"\\\xc3\xa9")));
    assert_false(rota_group_is_name(rota_str("\xff")));
    assert_false(rota_group_is_name(rota_str("\xc3\xa9\xc3")));
}

static void refcounted_objects_are_freed_with_the_last_reference(void **state)
{
    (void)state;
    struct rota_blob *blob = rota_group_blob_new(rota_str("abc"));
    struct rota_group_def *def = rota_group_def_new(rota_str("p"), NULL, 0, rota_str(""));
    struct rota_group_record *record = rota_group_record_new(ROTA_GROUP_STATE);
    assert_int_equal(blob->n_refs, 1);
    assert_ptr_equal(rota_group_blob_ref(blob), blob);
    assert_ptr_equal(rota_group_def_ref(def), def);
    assert_ptr_equal(rota_group_record_ref(record), record);
    assert_int_equal(blob->n_refs + def->n_refs + record->n_refs, 6);
    rota_group_blob_unref(blob);
    rota_group_def_unref(def);
    rota_group_record_unref(record);
    assert_int_equal(blob->n_refs + def->n_refs + record->n_refs, 3);
    assert_true(rota_str_is_equal(rota_blob_str(blob), rota_str("abc")));
    rota_group_blob_unref(blob);
    rota_group_def_unref(def);
    rota_group_record_unref(record);

    rota_group_blob_unref(rota_group_blob_ref(NULL));
    rota_group_def_unref(rota_group_def_ref(NULL));
    rota_group_record_unref(rota_group_record_ref(NULL));
    assert_int_equal(rota_blob_str(NULL).size, 0);
}

static void def_has_copies_of_all_its_texts(void **state)
{
    char texts[] = "nameonetwo\"x\":1";
    struct rota_str parents[] = {rota_str_of(texts + 4, 3), rota_str_of(texts + 7, 3)};
    (void)state;
    struct rota_group_def *def =
        rota_group_def_new(rota_str_of(texts, 4), parents, 2, rota_str_of(texts + 10, 5));
    memset(texts, '-', sizeof texts);
    assert_true(rota_str_is_equal(def->name.text, rota_str("name")));
    assert_true(rota_str_is_equal(def->parents[0].text, rota_str("one")));
    assert_true(rota_str_is_equal(def->parents[1].text, rota_str("two")));
    assert_true(rota_str_is_equal(def->extra, rota_str("\"x\":1")));
    assert_int_equal(def->n_parents, 2);
    assert_true(def->name.hash == rota_group_hash(rota_str("name")));
    assert_true(def->parents[1].hash == rota_group_hash(rota_str("two")));
    rota_group_def_unref(def);
}

static void new_record_is_empty(void **state)
{
    struct rota_group_record *record = rota_group_record_new(ROTA_GROUP_SNAPSHOT);
    (void)state;
    assert_int_equal(record->kind, ROTA_GROUP_SNAPSHOT);
    assert_int_equal(record->leader, ROTA_GROUP_NOBODY);
    assert_int_equal(record->author.task.size + record->extra.size, 0);
    rota_group_record_unref(record);
}

/* The bounds for a change and for a partition with these texts. */
static void bounds_of(const char *name, const char *parent, const char *position, const char *task,
                      size_t bounds[2])
{
    struct rota_str parents[] = {rota_str(parent)};
    struct rota_group_def *def = rota_group_def_new(rota_str(name), parents, 1, rota_str(""));
    struct rota_blob *blob = rota_group_blob_new(rota_str(position));
    struct rota_group_change change = {.def = def, .position = blob, .target = {rota_str(task), 1}};
    struct rota_group_partition_state partition = {.def = def, .position = blob};
    bounds[0] = rota_group_change_size_max(&change);
    bounds[1] = rota_group_partition_size_max(&partition);
    rota_group_def_unref(def);
    rota_group_blob_unref(blob);
}

static void bound_of_a_size_grows_with_each_text(void **state)
{
    const char *const plain = "xxxxxxxxxxxxxxxxxxxx", *const escaped = "\"\\\"\\\"\\\"\\\x01\x7f";
    size_t none[2], some[2];
    (void)state;
    bounds_of("p", "q", "", "", none);
    for (int i = 0; i < 2; i++) {
        bounds_of(plain, "q", "", "", some);
        assert_int_equal(some[i] - none[i], 19);
        bounds_of("p", plain, "", "", some);
        assert_int_equal(some[i] - none[i], 19);
        bounds_of(escaped, "q", "", "", some);
        assert_int_equal(some[i] - none[i], 60 - 1);
        bounds_of("p", escaped, "", "", some);
        assert_int_equal(some[i] - none[i], 60 - 1);
        bounds_of("p", "q", plain, "", some); /* perhaps as hexadecimal digits */
        assert_int_equal(some[i] - none[i], 40);
        bounds_of("p", "q", escaped, "", some);
        assert_int_equal(some[i] - none[i], 60);
        bounds_of("p", "q", "", plain, some);
        assert_int_equal(some[i] - none[i], i == 0 ? 20 : 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kinds_and_changes_have_names),
        cmocka_unit_test(task_name_is_of_printable_ascii_without_blanks_and_quotes),
        cmocka_unit_test(partition_name_is_of_utf8),
        cmocka_unit_test(refcounted_objects_are_freed_with_the_last_reference),
        cmocka_unit_test(def_has_copies_of_all_its_texts),
        cmocka_unit_test(new_record_is_empty),
        cmocka_unit_test(bound_of_a_size_grows_with_each_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
