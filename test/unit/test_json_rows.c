/* Entries of a document as rows of cells. */
#include "wire/text/json_rows.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char *const FIELDS[] = {"name", "jobs", "load.cpu", "load.memory", "is_on"};
enum { N = sizeof FIELDS / sizeof FIELDS[0] };

static enum rota_code read_rows(const char *text, struct rota_rows *rows)
{
    return rota_json_rows_read(rota_str(text), "nodes", FIELDS, N, rows, NULL);
}

static void expect(const struct rota_rows *rows, size_t row, const char *const cells[N])
{
    for (size_t i = 0; i < N; i++)
        assert_true(rota_str_is_equal(rota_rows_cell(rows, row, i), rota_str(cells[i])));
}

static void fields_become_cells_whatever_their_order(void **state)
{
    struct rota_rows rows;
    (void)state;
    assert_int_equal(read_rows("{\"x\": [1], \"nodes\": [{\"jobs\": 3, \"name\": \"a\\u00e4\\n\", "
                               "\"load\": {\"memory\": null, \"cpu\": 2.5}, \"is_on\": true}, {}, "
                               "{\"name\": 7, \"load\": 4, \"load.cpu\": 1}], \"y\": {}}\n",
                               &rows),
                     ROTA_OK);
    assert_int_equal(rows.n_rows, 3);
    expect(&rows, 0, (const char *const[]){"a\xc3\xa4\n", "3", "2.5", "", "true"});
    expect(&rows, 1, (const char *const[]){"", "", "", "", ""});
    expect(&rows, 2, (const char *const[]){"7", "", "1", "", ""});
    assert_true(rota_str_is_equal(rows.objects[1], rota_str("{}")));
    rota_json_rows_deinit(&rows);
}

static void an_empty_array_is_valid_but_a_missing_key_is_an_error(void **state)
{
    struct rota_rows rows;
    (void)state;
    assert_int_equal(read_rows("{\"nodes\": []}", &rows), ROTA_OK);
    assert_int_equal(rows.n_rows, 0);
    rota_json_rows_deinit(&rows);
    assert_int_equal(read_rows("{}", &rows), ROTA_ERR_NOT_FOUND);
    assert_int_equal(read_rows("{\"node\": []}", &rows), ROTA_ERR_NOT_FOUND);
}

static void document_of_another_shape_is_refused(void **state)
{
    static const char *const BAD[] = {"",
                                      "[]",
                                      "{\"nodes\": {}}",
                                      "{\"nodes\": [1]}",
                                      "{\"nodes\": [{]}",
                                      "{\"nodes\": [{}",
                                      "{\"nodes\": []} x",
                                      "{\"nodes\": [\"\xff\"]}",
                                      "{\"nodes\": [{\"name\": \"\\ud800\"}]}"};
    struct rota_rows rows;
    (void)state;
    for (size_t i = 0; i < sizeof BAD / sizeof BAD[0]; i++)
        assert_int_equal(read_rows(BAD[i], &rows), ROTA_ERR_INVALID);
}

static void too_many_rows_are_refused(void **state)
{
    struct rota_rows rows;
    size_t n = ROTA_ROWS_MAX + 1, at = 10;
    char *text = malloc(3 * n + 20);
    (void)state;
    assert_non_null(text);
    memcpy(text, "{\"nodes\":[", at);
    for (size_t i = 0; i < n; i++, at += 3)
        memcpy(text + at, "{},", 3);
    memcpy(text + at - 1, "]}", 3);
    assert_int_equal(read_rows(text, &rows), ROTA_ERR_LIMIT);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fields_become_cells_whatever_their_order),
        cmocka_unit_test(an_empty_array_is_valid_but_a_missing_key_is_an_error),
        cmocka_unit_test(document_of_another_shape_is_refused),
        cmocka_unit_test(too_many_rows_are_refused),
    };
    return cmocka_run_group_tests_name("json_rows", tests, NULL, NULL);
}
