#include "wire/grpc/descriptor.h"

#include "base/buffer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* A field with a length, as protobuf writes it. */
static void put(struct rota_buffer *buffer, int number, struct rota_str bytes)
{
    rota_buffer_append_char(buffer, (char)(number << 3 | 2));
    size_t size = bytes.size;
    for (; size > 127; size >>= 7)
        rota_buffer_append_char(buffer, (char)((size & 127) | 128));
    rota_buffer_append_char(buffer, (char)size);
    rota_buffer_append_str(buffer, bytes);
}

static void put_text(struct rota_buffer *buffer, int number, const char *text)
{
    put(buffer, number, rota_str(text));
}

/* Put `inner` into `outer` and empty it. */
static void put_into(struct rota_buffer *outer, int number, struct rota_buffer *inner)
{
    put(outer, number, rota_buffer_str(inner));
    rota_buffer_clear(inner);
}

/* A set with one file: message M with message N and enum E in it, enum F,
 * service S with method Do. */
static struct rota_buffer make_set(const char *file_name, const char *package)
{
    struct rota_buffer set = {0}, file = {0}, outer = {0}, inner = {0};
    put_text(&file, 1, file_name);
    if (package)
        put_text(&file, 2, package);
    put_text(&outer, 1, "M");
    put_text(&inner, 1, "N");
    put_into(&outer, 3, &inner);
    put_text(&inner, 1, "E");
    put_into(&outer, 4, &inner);
    put_into(&file, 4, &outer);
    put_text(&outer, 1, "F");
    put_into(&file, 5, &outer);
    put_text(&outer, 1, "S");
    put_text(&inner, 1, "Do");
    put_into(&outer, 2, &inner);
    put_into(&file, 6, &outer);
    put_into(&set, 1, &file);
    rota_buffer_deinit(&file);
    rota_buffer_deinit(&outer);
    rota_buffer_deinit(&inner);
    return set;
}

static bool defines(const struct rota_descriptors *descriptors, const char *symbol,
                    const char *file_name)
{
    const struct rota_descriptor_file *file =
        rota_descriptors_file_of(descriptors, rota_str(symbol));
    return file && rota_str_is_equal(file->name, rota_str(file_name));
}

static void symbols_have_their_full_names(void **state)
{
    struct rota_buffer set = make_set("a.proto", "pack.age");
    struct rota_descriptors descriptors;
    static const char *const names[] = {"pack.age.M", "pack.age.M.N", "pack.age.M.E",
                                        "pack.age.F", "pack.age.S",   "pack.age.S.Do"};
    (void)state;
    rota_descriptors_init(&descriptors);
    assert_int_equal(rota_descriptors_add(&descriptors, rota_buffer_str(&set)), ROTA_OK);
    assert_int_equal(descriptors.symbols.size, 6);
    for (size_t i = 0; i < 6; i++)
        assert_true(defines(&descriptors, names[i], "a.proto"));
    assert_false(defines(&descriptors, "M", "a.proto"));
    assert_false(defines(&descriptors, "pack.age", "a.proto"));
    for (size_t i = 0; i < 6; i++) {
        const struct rota_descriptor_symbol *symbol = descriptors.symbols.items[i];
        assert_int_equal(symbol->is_service, strcmp(symbol->name, "pack.age.S") == 0);
    }
    rota_descriptors_deinit(&descriptors);
    rota_buffer_deinit(&set);
}

static void a_file_without_a_package_defines_plain_names(void **state)
{
    struct rota_buffer set = make_set("a.proto", NULL);
    struct rota_descriptors descriptors;
    (void)state;
    rota_descriptors_init(&descriptors);
    assert_int_equal(rota_descriptors_add(&descriptors, rota_buffer_str(&set)), ROTA_OK);
    assert_true(defines(&descriptors, "S.Do", "a.proto"));
    rota_descriptors_deinit(&descriptors);
    rota_buffer_deinit(&set);
}

static void a_file_is_returned_unchanged(void **state)
{
    struct rota_buffer set = make_set("a.proto", "p");
    struct rota_descriptors descriptors;
    (void)state;
    rota_descriptors_init(&descriptors);
    assert_int_equal(rota_descriptors_add(&descriptors, rota_buffer_str(&set)), ROTA_OK);
    const struct rota_descriptor_file *file =
        rota_descriptors_file(&descriptors, rota_str("a.proto"));
    assert_non_null(file);
    assert_int_equal(file->bytes.size, set.size - 2); /* its tag and its length */
    assert_ptr_equal(file->bytes.data, set.data + 2);
    assert_null(rota_descriptors_file(&descriptors, rota_str("b.proto")));
    rota_descriptors_deinit(&descriptors);
    rota_buffer_deinit(&set);
}

static void a_repeated_name_stays_with_the_first_file(void **state)
{
    struct rota_buffer one = make_set("a.proto", "p"), two = make_set("b.proto", "p");
    struct rota_descriptors descriptors;
    (void)state;
    rota_descriptors_init(&descriptors);
    assert_int_equal(rota_descriptors_add(&descriptors, rota_buffer_str(&one)), ROTA_OK);
    assert_int_equal(rota_descriptors_add(&descriptors, rota_buffer_str(&one)), ROTA_OK);
    assert_int_equal(descriptors.files.size, 1);
    assert_int_equal(rota_descriptors_add(&descriptors, rota_buffer_str(&two)), ROTA_OK);
    assert_int_equal(descriptors.files.size, 2);
    assert_int_equal(descriptors.symbols.size, 6);
    assert_true(defines(&descriptors, "p.M", "a.proto"));
    rota_descriptors_deinit(&descriptors);
    rota_buffer_deinit(&one);
    rota_buffer_deinit(&two);
}

/* Cut anywhere, a set is refused: there is only one whole one. */
static void a_set_cut_short_is_refused(void **state)
{
    struct rota_buffer set = make_set("a.proto", "p");
    (void)state;
    for (size_t size = 1; size < set.size; size++) {
        struct rota_descriptors descriptors;
        rota_descriptors_init(&descriptors);
        assert_int_equal(rota_descriptors_add(&descriptors, rota_str_of(set.data, size)),
                         ROTA_ERR_INVALID);
        rota_descriptors_deinit(&descriptors);
    }
    rota_buffer_deinit(&set);
}

static void a_nameless_definition_is_refused(void **state)
{
    struct rota_buffer set = {0}, file = {0}, message = {0};
    struct rota_descriptors descriptors;
    (void)state;
    put_text(&file, 1, "a.proto");
    put_into(&file, 4, &message);
    put_into(&set, 1, &file);
    rota_descriptors_init(&descriptors);
    assert_int_equal(rota_descriptors_add(&descriptors, rota_buffer_str(&set)), ROTA_ERR_INVALID);
    rota_descriptors_deinit(&descriptors);
    rota_buffer_deinit(&set);
    rota_buffer_deinit(&file);
    rota_buffer_deinit(&message);
}

/* Messages in each other, `depth` of them below the first. */
static enum rota_code add_nested(int depth, size_t name_size)
{
    struct rota_buffer inner = {0}, outer = {0}, name = {0};
    struct rota_descriptors descriptors;
    for (size_t i = 0; i < name_size; i++)
        rota_buffer_append_char(&name, 'm');
    for (int i = 0; i <= depth; i++) {
        put(&outer, 1, rota_buffer_str(&name));
        if (i > 0)
            put(&outer, 3, rota_buffer_str(&inner));
        rota_buffer_clear(&inner);
        rota_buffer_append_str(&inner, rota_buffer_str(&outer));
        rota_buffer_clear(&outer);
    }
    put_text(&outer, 1, "a.proto");
    put_into(&outer, 4, &inner);
    put_into(&inner, 1, &outer);
    rota_descriptors_init(&descriptors);
    enum rota_code code = rota_descriptors_add(&descriptors, rota_buffer_str(&inner));
    rota_descriptors_deinit(&descriptors);
    rota_buffer_deinit(&inner);
    rota_buffer_deinit(&outer);
    rota_buffer_deinit(&name);
    return code;
}

static void depth_and_names_are_bounded(void **state)
{
    (void)state;
    assert_int_equal(add_nested(ROTA_DESCRIPTOR_DEPTH_MAX - 1, 1), ROTA_OK);
    assert_int_equal(add_nested(ROTA_DESCRIPTOR_DEPTH_MAX, 1), ROTA_ERR_LIMIT);
    assert_int_equal(add_nested(0, ROTA_DESCRIPTOR_NAME_MAX), ROTA_OK);
    assert_int_equal(add_nested(0, ROTA_DESCRIPTOR_NAME_MAX + 1), ROTA_ERR_LIMIT);
    assert_int_equal(add_nested(1, ROTA_DESCRIPTOR_NAME_MAX), ROTA_ERR_LIMIT);
}

static void files_are_bounded(void **state)
{
    struct rota_buffer set = {0}, file = {0};
    struct rota_descriptors descriptors;
    (void)state;
    for (int i = 0; i <= ROTA_DESCRIPTOR_FILES_MAX; i++) {
        char name[16];
        snprintf(name, sizeof name, "%d.proto", i);
        put_text(&file, 1, name);
        put_into(&set, 1, &file);
    }
    rota_descriptors_init(&descriptors);
    assert_int_equal(rota_descriptors_add(&descriptors, rota_buffer_str(&set)), ROTA_ERR_LIMIT);
    assert_int_equal(descriptors.files.size, ROTA_DESCRIPTOR_FILES_MAX);
    rota_descriptors_deinit(&descriptors);
    rota_buffer_deinit(&set);
    rota_buffer_deinit(&file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(symbols_have_their_full_names),
        cmocka_unit_test(a_file_without_a_package_defines_plain_names),
        cmocka_unit_test(a_file_is_returned_unchanged),
        cmocka_unit_test(a_repeated_name_stays_with_the_first_file),
        cmocka_unit_test(a_set_cut_short_is_refused),
        cmocka_unit_test(a_nameless_definition_is_refused),
        cmocka_unit_test(depth_and_names_are_bounded),
        cmocka_unit_test(files_are_bounded),
    };
    return cmocka_run_group_tests_name("descriptor", tests, NULL, NULL);
}
