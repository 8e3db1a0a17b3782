#include "io/sql/store_inside.h"

#include <stdio.h>

/* A column or a table in the quotation marks of its database: a name like "key" is a keyword in
 * some. SQLite would take an unknown column in double quotes for a text. */
static void append_identifier(struct rota_store_session *session, struct rota_str name)
{
    const char *quote = session->kind == ROTA_SQL_POSTGRES ? "\"" : "`";
    rota_buffer_append_text(&session->text, quote);
    for (size_t i = 0; i < name.size; i++) {
        if (name.data[i] == '.')
            rota_buffer_print(&session->text, "%s.%s", quote, quote);
        else
            rota_buffer_append_char(&session->text, name.data[i]);
    }
    rota_buffer_append_text(&session->text, quote);
}

/* The value unless it is too large, so that a huge one stays where it is. */
static void append_value(struct rota_store_session *session, struct rota_str column)
{
    static const char *const tests[] = {
        [ROTA_SQL_SQLITE] = "length(%) <= #",
        [ROTA_SQL_MYSQL] = "OCTET_LENGTH(%) <= #",
        /* The stored size first, since a huge text can't even be made; bytes are twice as long
         * as a text, and checked again here. */
        [ROTA_SQL_POSTGRES] =
            "pg_column_size(%) <= # AND octet_length(CAST(% AS TEXT)) <= 2 * # + 2",
    };
    rota_buffer_append_text(&session->text, "CASE WHEN ");
    for (const char *c = tests[session->kind]; *c; c++) {
        if (*c == '%')
            append_identifier(session, column);
        else if (*c == '#')
            rota_buffer_print(&session->text, "%d", ROTA_STORE_VALUE_MAX);
        else
            rota_buffer_append_char(&session->text, *c);
    }
    rota_buffer_append_text(&session->text, " THEN ");
    append_identifier(session, column);
    rota_buffer_append_text(&session->text, " END");
}

static bool push_key(struct rota_store_session *session, struct rota_str key)
{
    return rota_vector_push(&session->values, rota_sql_bytes(key));
}

/* SELECT key, value, whether there is one FROM table WHERE key IN (?, ...). The list is
 * filled up to a power of two with the last key, so that few texts are prepared. */
static bool write_select(struct rota_store_session *session,
                         const struct rota_store_request *request, const struct rota_str *keys,
                         size_t n_keys)
{
    struct rota_str key = request->key_column.size ? request->key_column : rota_str("key");
    struct rota_str value = request->value_column.size ? request->value_column : rota_str("value");
    bool is_sqlite = session->kind == ROTA_SQL_SQLITE;
    size_t n_places = 1;
    while (n_places < n_keys)
        n_places *= 2;

    rota_buffer_clear(&session->text);
    session->values.size = 0;
    rota_buffer_append_text(&session->text, "SELECT ");
    append_identifier(session, key);
    rota_buffer_append_text(&session->text, ", ");
    append_value(session, value);
    rota_buffer_append_text(&session->text, ", CASE WHEN ");
    append_identifier(session, value);
    rota_buffer_append_text(&session->text, " IS NULL THEN 0 ELSE 1 END FROM ");
    append_identifier(session, request->table);
    rota_buffer_append_text(&session->text, " WHERE ");
    append_identifier(session, key);
    rota_buffer_append_text(&session->text, " IN (");
    for (size_t i = 0; i < n_places; i++) {
        struct rota_str asked = keys[i < n_keys ? i : n_keys - 1];
        if (!push_key(session, asked) || (is_sqlite && !push_key(session, asked)))
            return false;
        /* In SQLite a text and a blob of the same bytes are two things. */
        rota_buffer_print(&session->text, "%s%s", i ? ", " : "",
                          is_sqlite ? "?, CAST(? AS BLOB)" : "?");
    }
    rota_buffer_append_char(&session->text, ')');
    return !session->text.failed;
}

static enum rota_code select_keys(struct rota_store_session *session,
                                  const struct rota_store_request *request,
                                  const struct rota_str *keys, size_t n_keys,
                                  struct rota_sql_result *result, struct rota_error *error)
{
    if (!write_select(session, request, keys, n_keys))
        return rota_error_no_memory(error, "for a statement");
    return rota_sql_run(session->sql, session->text.data, session->values.items,
                        session->values.size, result, error);
}

/* A key or a value as bytes: a column of numbers is read as their decimal digits. */
static struct rota_str bytes_of(const struct rota_sql_value *value, char number[24])
{
    if (value->type == ROTA_SQL_BYTES)
        return value->bytes;
    if (value->type == ROTA_SQL_NULL)
        return rota_str_of("", 0);
    snprintf(number, 24, "%lld", (long long)value->number);
    return rota_str(number);
}

/* A row while the bytes may still move. */
struct kept {
    size_t key_at, key_size, value_at, value_size;
    bool is_too_large;
};

struct values {
    ROTA_VECTOR(struct kept) rows;
    struct rota_buffer bytes;
};

static enum rota_code keep_rows(struct values *values, const struct rota_sql_result *result,
                                struct rota_error *error)
{
    for (size_t i = 0; i < result->n_rows; i++) {
        char key_number[24], number[24];
        struct rota_sql_value key = rota_sql_at(result, i, 0), value = rota_sql_at(result, i, 1);
        struct rota_str text = bytes_of(&value, number);
        if (rota_sql_int_at(result, i, 2) == 0)
            continue; /* NULL counts as no row */
        bool is_too_large = value.type == ROTA_SQL_NULL || text.size > ROTA_STORE_VALUE_MAX;
        if (values->bytes.size + text.size > ROTA_STORE_ANSWER_MAX)
            return rota_error_set(error, ROTA_ERR_LIMIT,
                                  "the values of the keys have more than %d bytes together",
                                  ROTA_STORE_ANSWER_MAX);
        struct rota_str key_text = bytes_of(&key, key_number);
        if (is_too_large)
            text.size = 0;
        struct kept row = {values->bytes.size, key_text.size, values->bytes.size + key_text.size,
                           text.size, is_too_large};
        rota_buffer_append_str(&values->bytes, key_text);
        rota_buffer_append_str(&values->bytes, text);
        if (!rota_vector_push(&values->rows, row) || values->bytes.failed)
            return rota_error_no_memory(error, "for an answer");
    }
    return ROTA_OK;
}

static enum rota_code give_values(const struct values *values, struct rota_store_answer *answer)
{
    struct rota_sql_result none = {0};
    size_t n = values->rows.size, size = n * sizeof(struct rota_store_value);
    char *made = rota_store_session_answer_rows(answer, 1, size + values->bytes.size + 1, &none);
    if (!made)
        return ROTA_ERR_NO_MEMORY;
    struct rota_store_value *rows = (struct rota_store_value *)made;
    char *bytes = made + size;
    if (values->bytes.size > 0)
        memcpy(bytes, values->bytes.data, values->bytes.size);
    for (size_t i = 0; i < n; i++) {
        const struct kept *row = &values->rows.items[i];
        rows[i] = (struct rota_store_value){
            .key = rota_str_of(bytes + row->key_at, row->key_size),
            .value = rota_str_of(bytes + row->value_at, row->value_size),
            .is_too_large = row->is_too_large,
        };
    }
    answer->values = rows;
    answer->n_values = n;
    return ROTA_OK;
}

enum rota_code rota_store_select_do(struct rota_store_session *session,
                                    const struct rota_store_request *request,
                                    struct rota_store_answer *answer)
{
    struct rota_sql_result result = {0};
    struct values values = {0};
    enum rota_code code = ROTA_OK;
    if (request->n_keys > 0) {
        code =
            select_keys(session, request, request->keys, request->n_keys, &result, &answer->error);
        if (!code)
            code = keep_rows(&values, &result, &answer->error);
    }
    if (!code)
        code = give_values(&values, answer);
    rota_sql_result_deinit(&result);
    rota_vector_deinit(&values.rows);
    rota_buffer_deinit(&values.bytes);
    return code == ROTA_ERR_UNKNOWN ? ROTA_ERR_UNAVAILABLE : code; /* it only reads */
}
