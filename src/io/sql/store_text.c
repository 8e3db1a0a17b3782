#include "io/sql/store_inside.h"

#include <assert.h>

/* What a `$name` is in the three dialects, in the order of enum rota_sql_kind. */
static const struct token {
    const char *name;
    const char *texts[3];
} tokens[] = {
    /* The database's clock, read when the expression is evaluated and not when the transaction
     * began; in microseconds since 1970. */
    {"now",
     {"rota_now()", "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', SYSDATE(6))",
      "CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000000 AS BIGINT)"}},

    /* The same, returned by the statement that writes it. */
    {"mark_now",
     {"rota_now()", "LAST_INSERT_ID(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', SYSDATE(6)))",
      "CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000000 AS BIGINT)"}},
    {"returning_ping", {"RETURNING last_ping", "", "RETURNING last_ping"}},

    {"greatest", {"MAX", "GREATEST", "GREATEST"}},
    {"over", {"/", "DIV", "/"}},
    {"for_update", {"", "FOR UPDATE", "FOR UPDATE"}},
    {"insert_new", {"INSERT INTO", "INSERT IGNORE INTO", "INSERT INTO"}},
    {"or_nothing", {"ON CONFLICT DO NOTHING", "", "ON CONFLICT DO NOTHING"}},
    /* In MariaDB INSERT IGNORE shares the lock of a row that is there, and two that do so
     * can't go on to change it; this one has it alone. */
    {"or_keep_shards",
     {"ON CONFLICT DO NOTHING", "ON DUPLICATE KEY UPDATE rota_dcs.shards = rota_dcs.shards",
      "ON CONFLICT DO NOTHING"}},
    {"or_update_address",
     {"ON CONFLICT (address) DO UPDATE SET", "ON DUPLICATE KEY UPDATE",
      "ON CONFLICT (address) DO UPDATE SET"}},
    {"or_update_space",
     {"ON CONFLICT (space) DO UPDATE SET", "ON DUPLICATE KEY UPDATE",
      "ON CONFLICT (space) DO UPDATE SET"}},

    {"or_update_job",
     {"ON CONFLICT (queue, part, id) DO UPDATE SET", "ON DUPLICATE KEY UPDATE",
      "ON CONFLICT (queue, part, id) DO UPDATE SET"}},
    {"or_update_part",
     {"ON CONFLICT (queue, part) DO UPDATE SET", "ON DUPLICATE KEY UPDATE",
      "ON CONFLICT (queue, part) DO UPDATE SET"}},
    {"or_update_id",
     {"ON CONFLICT (id) DO UPDATE SET", "ON DUPLICATE KEY UPDATE",
      "ON CONFLICT (id) DO UPDATE SET"}},

    /* A value that is bytes, and no text. */
    {"bytes_from", {"CAST(", "", ""}},
    {"bytes_to", {" AS BLOB)", "", ""}},

    /* SHA-256 of a text, in hexadecimal digits. */
    {"digest_from", {"rota_sha256(", "SHA2(", "encode(sha256(convert_to("}},
    {"digest_to", {")", ", 256)", ", 'UTF8')), 'hex')"}},

    /* Types. Names compare byte by byte. */
    {"type_name",
     {"TEXT NOT NULL", "VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL",
      "TEXT COLLATE \"C\" NOT NULL"}},
    {"type_text",
     {"TEXT NOT NULL", "MEDIUMTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL",
      "TEXT NOT NULL"}},
    {"type_bytes", {"BLOB NOT NULL", "LONGBLOB NOT NULL", "BYTEA NOT NULL"}},
    {"type_payload", {"BLOB", "LONGBLOB", "BYTEA"}},
    {"type_key", {"BLOB NOT NULL", "VARBINARY(256) NOT NULL", "BYTEA NOT NULL"}},
    {"type_int", {"BIGINT NOT NULL", "BIGINT NOT NULL", "BIGINT NOT NULL"}},
    {"type_id",
     {"INTEGER PRIMARY KEY AUTOINCREMENT", "BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY",
      "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY"}},
    {"engine", {"", " ENGINE = InnoDB", ""}},
    {"add_column", {"ADD COLUMN", "ADD COLUMN IF NOT EXISTS", "ADD COLUMN IF NOT EXISTS"}},
};

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || c == '_';
}

/* The word after the '$' or ':' at the head of `text`. */
static struct rota_str word_at(const char *text)
{
    size_t size = 0;
    while (is_letter(text[1 + size]))
        size++;
    return rota_str_of(text + 1, size);
}

static void append_token(enum rota_sql_kind kind, struct rota_str name, struct rota_buffer *buffer)
{
    for (size_t i = 0; i < sizeof tokens / sizeof *tokens; i++)
        if (rota_str_is_equal(name, rota_str(tokens[i].name))) {
            rota_buffer_append_text(buffer, tokens[i].texts[kind]);
            return;
        }
    assert(!"unknown token in a statement");
}

void rota_store_text_expand(enum rota_sql_kind kind, const char *text, struct rota_buffer *buffer)
{
    while (*text) {
        struct rota_str word = *text == '$' ? word_at(text) : rota_str_of("", 0);
        if (word.size == 0) {
            rota_buffer_append_char(buffer, *text++);
            continue;
        }
        append_token(kind, word, buffer);
        text += 1 + word.size;
    }
}

static bool push_argument(struct rota_store_session *session, struct rota_str name,
                          const struct rota_store_argument *arguments, size_t n_arguments)
{
    for (size_t i = 0; i < n_arguments; i++)
        if (rota_str_is_equal(name, rota_str(arguments[i].name)))
            return rota_vector_push(&session->values, arguments[i].value);
    assert(!"missing argument of a statement");
    return false;
}

void rota_store_text_begin(struct rota_store_session *session)
{
    rota_buffer_clear(&session->text);
    session->values.size = 0;
}

bool rota_store_text_append(struct rota_store_session *session, const char *text,
                            const struct rota_store_argument *arguments, size_t n_arguments)
{
    while (*text) {
        bool is_special = *text == '$' || *text == ':';
        struct rota_str word = is_special ? word_at(text) : rota_str_of("", 0);
        if (word.size == 0) {
            rota_buffer_append_char(&session->text, *text++);
            continue;
        }
        if (*text == ':') {
            rota_buffer_append_char(&session->text, '?');
            if (!push_argument(session, word, arguments, n_arguments))
                return false;
        } else {
            append_token(session->kind, word, &session->text);
        }
        text += 1 + word.size;
    }
    return !session->text.failed;
}

static bool write_statement(struct rota_store_session *session, const char *text,
                            const struct rota_store_argument *arguments, size_t n_arguments)
{
    rota_store_text_begin(session);
    return rota_store_text_append(session, text, arguments, n_arguments);
}

enum rota_code rota_store_text_run(struct rota_store_session *session, bool is_written,
                                   struct rota_sql_result *result, struct rota_error *error)
{
    if (!is_written || session->text.failed)
        return rota_error_no_memory(error, "for a statement");
    return rota_sql_run(session->sql, session->text.data, session->values.items,
                        session->values.size, result, error);
}

enum rota_code rota_store_text_run_n(struct rota_store_session *session, const char *text,
                                     const struct rota_store_argument *arguments,
                                     size_t n_arguments, struct rota_sql_result *result,
                                     struct rota_error *error)
{
    bool is_written = write_statement(session, text, arguments, n_arguments);
    return rota_store_text_run(session, is_written, result, error);
}

enum rota_code rota_store_text_script(struct rota_store_session *session, const char *text,
                                      const struct rota_store_argument *arguments,
                                      size_t n_arguments, struct rota_sql_result *result,
                                      struct rota_error *error)
{
    if (!write_statement(session, text, arguments, n_arguments))
        return rota_error_no_memory(error, "for a statement");
    return rota_sql_script(session->sql, session->text.data, session->values.items,
                           session->values.size, result, error);
}

enum rota_code rota_store_text_now(struct rota_store_session *session, rota_time *now,
                                   struct rota_error *error)
{
    struct rota_sql_result result = {0};
    enum rota_code code = rota_store_text_run_n(session, "SELECT $now", NULL, 0, &result, error);
    if (!code && result.n_rows == 1)
        *now = rota_store_time(rota_sql_int_at(&result, 0, 0));
    rota_sql_result_deinit(&result);
    return code;
}
