#include "io/pairs.h"
#include "vectors.h"

#include <fcntl.h>
#include <rota/error.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[64], path[96];

static int setup(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/rota-pairs-XXXXXX");
    if (!mkdtemp(folder))
        return -1;
    snprintf(path, sizeof path, "%s/pairs", folder);
    return 0;
}

static int teardown(void **state)
{
    char command[128];
    (void)state;
    snprintf(command, sizeof command, "rm -r %s", folder);
    return system(command);
}

static void put_at(const char *name, const char *mode, const char *text)
{
    FILE *file = fopen(name, mode);
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
}

static void put(const char *text)
{
    put_at(path, "w", text);
}

static struct rota_pairs_file *opened(void)
{
    struct rota_pairs_file *file;
    struct rota_error error;
    if (rota_pairs_file_open(path, 5, &file, &error))
        fail_msg("%s", error.text);
    return file;
}

static void assert_value(const struct rota_pairs_file *file, const char *key, const char *expected)
{
    struct rota_buffer value = {0};
    struct rota_error error;
    bool is_found = !expected;
    if (rota_pairs_file_get(file, rota_str(key), 1000, &value, &is_found, &error))
        fail_msg("%s", error.text);
    assert_int_equal(is_found, expected != NULL);
    if (expected)
        assert_true(rota_str_is_equal(rota_buffer_str(&value), rota_str(expected)));
    rota_buffer_deinit(&value);
}

static void assert_refused(enum rota_code code, const char *phrase)
{
    struct rota_pairs_file *file = NULL;
    struct rota_error error;
    assert_int_equal(rota_pairs_file_open(path, 5, &file, &error), code);
    assert_null(file);
    assert_non_null(strstr(error.text, path));
    if (!strstr(error.text, phrase))
        fail_msg("%s", error.text);
}

static void the_value_of_a_key_is_read_from_its_line(void **state)
{
    (void)state;
    put("first\tone\n\nsecond\ttwo \\t words\r\nthird\t\nlast\tend");
    struct rota_pairs_file *file = opened();
    assert_int_equal(rota_pairs_file_n_keys(file), 4);
    assert_false(rota_pairs_file_is_whole(file));
    assert_value(file, "first", "one");
    assert_value(file, "second", "two \t words");
    assert_value(file, "third", "");
    assert_value(file, "last", "end");
    assert_value(file, "fourth", NULL);
    rota_pairs_file_close(file);
    put("first\tone\n");
    file = opened();
    assert_true(rota_pairs_file_is_whole(file));
    rota_pairs_file_close(file);
    rota_pairs_file_close(NULL);
}

/* More than one read of it. */
static void a_large_file_is_read_in_pieces(void **state)
{
    enum { LINES = 60000 };
    char key[32], text[64];
    (void)state;
    FILE *out = fopen(path, "w");
    assert_non_null(out);
    for (int i = 0; i < LINES; i++)
        fprintf(out, "key %d\tthis is the value %d\n", i, 7 * i);
    assert_int_equal(fclose(out), 0);
    struct rota_pairs_file *file = opened();
    assert_int_equal(rota_pairs_file_n_keys(file), LINES);
    for (int i = 0; i < LINES; i += 500) {
        snprintf(key, sizeof key, "key %d", i);
        snprintf(text, sizeof text, "this is the value %d", 7 * i);
        assert_value(file, key, text);
    }
    rota_pairs_file_close(file);
}

static void a_value_is_appended_within_the_bound(void **state)
{
    struct rota_buffer value = {0};
    struct rota_error error;
    bool is_found;
    (void)state;
    put("a\t12345\n"); /* a line of 7 bytes */
    struct rota_pairs_file *file = opened();
    /* The first value comes whatever its size, or it could never be read. */
    assert_int_equal(rota_pairs_file_get(file, rota_str("a"), 0, &value, &is_found, &error), 0);
    assert_int_equal(value.size, 5);
    assert_int_equal(rota_pairs_file_get(file, rota_str("a"), 12, &value, &is_found, &error), 0);
    assert_true(is_found);
    assert_true(rota_str_is_equal(rota_buffer_str(&value), rota_str("1234512345")));
    for (size_t max = 9; max <= 16; max++) {
        assert_int_equal(rota_pairs_file_get(file, rota_str("a"), max, &value, &is_found, &error),
                         ROTA_ERR_LIMIT);
        assert_non_null(strstr(error.text, "the values have more than"));
        assert_int_equal(value.size, 10);
    }
    assert_int_equal(rota_pairs_file_get(file, rota_str("a"), 17, &value, &is_found, &error), 0);
    rota_buffer_deinit(&value);
    rota_pairs_file_close(file);
}

static void malformed_lines_are_refused(void **state)
{
    (void)state;
    assert_refused(ROTA_ERR_NOT_FOUND, "No such file");
    put("a\tb\nc\n");
    assert_refused(ROTA_ERR_INVALID, ":2: ");
    put("a\tb\n\nb\tc\na\tc\n");
    assert_refused(ROTA_ERR_INVALID, ":4: the key \"a\" is already on line 1");
    unlink(path);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_refused(ROTA_ERR_INVALID, "is not a file");
    strcat(path, "/below");
    assert_refused(ROTA_ERR_NOT_FOUND, "Not a directory");
}

static void a_file_that_was_replaced_is_not_current(void **state)
{
    char other[128];
    struct rota_buffer value = {0};
    (void)state;
    assert_true(rota_pairs_file_is_current(NULL, path));
    put("a\t1\n");
    assert_false(rota_pairs_file_is_current(NULL, path));
    struct rota_pairs_file *file = opened();
    assert_true(rota_pairs_file_is_current(file, path));
    snprintf(other, sizeof other, "%s/other", folder);
    put_at(other, "w", "a\t2\n");
    assert_int_equal(rename(other, path), 0);
    assert_false(rota_pairs_file_is_current(file, path));
    assert_value(file, "a", "1"); /* the old one is still open */
    unlink(path);
    assert_false(rota_pairs_file_is_current(file, path));
    rota_pairs_file_close(file);
    put("a\t1\n");
    file = opened();
    put_at(path, "a", "b\t1\n"); /* it has grown */
    assert_false(rota_pairs_file_is_current(file, path));
    assert_value(file, "a", "1");
    rota_pairs_file_close(file);
    rota_buffer_deinit(&value);
}

/* Of the same size, at another moment. */
static void times_of_change_count_to_the_nanosecond(void **state)
{
    const struct timespec base[2] = {{1000, 5}, {1000, 5}};
    static const struct timespec others[] = {{1000, 6}, {1001, 5}};
    (void)state;
    put("a\t1\n");
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        assert_int_equal(utimensat(AT_FDCWD, path, base, 0), 0);
        struct rota_pairs_file *file = opened();
        assert_true(rota_pairs_file_is_current(file, path));
        const struct timespec times[2] = {base[0], others[i]};
        assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
        assert_false(rota_pairs_file_is_current(file, path));
        rota_pairs_file_close(file);
    }
}

static void a_change_in_place_is_detected_by_the_lines(void **state)
{
    struct rota_buffer value = {0};
    struct rota_error error;
    static const char *const changes[] = {"", "a\t", "\n\n\n\n", "abcd\n"};
    (void)state;
    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
        put("a\t12\n");
        struct rota_pairs_file *file = opened();
        put(changes[i]);
        bool is_found;
        enum rota_code code =
            rota_pairs_file_get(file, rota_str("a"), 1000, &value, &is_found, &error);
        assert_int_equal(code, ROTA_ERR_UNAVAILABLE);
        assert_non_null(strstr(error.text, "was changed in place"));
        assert_int_equal(value.size, 0);
        put("b\t12\n"); /* another pair: the key was removed, as far as we can see */
        assert_value(file, "a", NULL);
        rota_pairs_file_close(file);
    }
    rota_buffer_deinit(&value);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_value_of_a_key_is_read_from_its_line),
        TEST(a_large_file_is_read_in_pieces),
        TEST(a_value_is_appended_within_the_bound),
        TEST(malformed_lines_are_refused),
        TEST(a_file_that_was_replaced_is_not_current),
        TEST(times_of_change_count_to_the_nanosecond),
        TEST(a_change_in_place_is_detected_by_the_lines),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
