/* store_inside: what the files of the store share.
 *
 * The texts of the statements are written once. A `:name` in them is an argument, a `$name`
 * differs between dialects; store_text.c expands both. */
#pragma once

#include "base/buffer.h"
#include "base/vector.h"
#include "io/sql/sql.h"
#include "io/sql/store_session.h"

struct rota_store_session {
    struct rota_sql *sql;
    enum rota_sql_kind kind;
    struct rota_buffer text; /* of the statement that is being written */
    ROTA_VECTOR(struct rota_sql_value) values;
    uint64_t n_events;   /* that were put into the history */
    const char *warning; /* about the database, or NULL */
    int upgraded_from;   /* the version that the tables had when we connected; 0: this one */
};

struct rota_store_argument {
    const char *name;
    struct rota_sql_value value;
};

#define ROTA_STORE_INT(name, number)                                                               \
    {                                                                                              \
        (name), rota_sql_int((int64_t)(number))                                                    \
    }
#define ROTA_STORE_STR(name, str)                                                                  \
    {                                                                                              \
        (name), rota_sql_bytes(str)                                                                \
    }

/* Write `text` for the session's database and run it. */
#define rota_store_run(session, text, arguments, result, error)                                    \
    rota_store_text_run_n((session), (text), (arguments), sizeof(arguments) / sizeof *(arguments), \
                          (result), (error))
enum rota_code rota_store_text_run_n(struct rota_store_session *session, const char *text,
                                     const struct rota_store_argument *arguments,
                                     size_t n_arguments, struct rota_sql_result *result,
                                     struct rota_error *error);

/* The same with several statements, of MariaDB (rota_sql_script()). */
enum rota_code rota_store_text_script(struct rota_store_session *session, const char *text,
                                      const struct rota_store_argument *arguments,
                                      size_t n_arguments, struct rota_sql_result *result,
                                      struct rota_error *error);

/* The same in parts, for statements whose length depends on the request: the text and the
 * arguments of each part follow those before. False when there is no memory, which the run
 * reports. */
void rota_store_text_begin(struct rota_store_session *session);
bool rota_store_text_append(struct rota_store_session *session, const char *text,
                            const struct rota_store_argument *arguments, size_t n_arguments);
enum rota_code rota_store_text_run(struct rota_store_session *session, bool is_written,
                                   struct rota_sql_result *result, struct rota_error *error);

/* Append `text` as the database of this kind reads it, without arguments. */
void rota_store_text_expand(enum rota_sql_kind kind, const char *text, struct rota_buffer *buffer);

/* Bring the tables to the version of this program, or refuse. */
enum rota_code rota_store_schema_open(struct rota_store_session *session, struct rota_error *error);

/* The database's clock, in microseconds. */
enum rota_code rota_store_text_now(struct rota_store_session *session, rota_time *now,
                                   struct rota_error *error);

/* The claim, for each kind of database, and one run of it. A test that wants to leave one
 * open changes the text. */
extern const char *const rota_store_claim_texts[];
enum rota_code rota_store_lease_run_claim(struct rota_store_session *session,
                                          const struct rota_store_request *request,
                                          const char *text, struct rota_store_answer *answer,
                                          bool *is_granted);

/* --- one function for each kind of request; each fills its part of the answer --- */

enum rota_code rota_store_lease_do_claim(struct rota_store_session *session,
                                         const struct rota_store_request *request,
                                         struct rota_store_answer *answer);
enum rota_code rota_store_lease_do_ping(struct rota_store_session *session,
                                        const struct rota_store_request *request,
                                        struct rota_store_answer *answer);
enum rota_code rota_store_pings_do(struct rota_store_session *session,
                                   const struct rota_store_request *request,
                                   struct rota_store_answer *answer);
enum rota_code rota_store_lease_do_release(struct rota_store_session *session,
                                           const struct rota_store_request *request,
                                           struct rota_store_answer *answer);
enum rota_code rota_store_lease_do_hold(struct rota_store_session *session,
                                        const struct rota_store_request *request,
                                        struct rota_store_answer *answer);
enum rota_code rota_store_space_do(struct rota_store_session *session,
                                   const struct rota_store_request *request,
                                   struct rota_store_answer *answer);
enum rota_code rota_store_settings_do(struct rota_store_session *session,
                                      const struct rota_store_request *request,
                                      struct rota_store_answer *answer);
enum rota_code rota_store_select_do(struct rota_store_session *session,
                                    const struct rota_store_request *request,
                                    struct rota_store_answer *answer);

/* Room for `n` rows of an answer, zeroed, which takes `result`; NULL, with the answer's
 * error, when there is no memory. */
void *rota_store_session_answer_rows(struct rota_store_answer *answer, size_t n, size_t size,
                                     struct rota_sql_result *result);

/* Free what the answer has so far, for other rows. */
void rota_store_session_answer_clear(struct rota_store_answer *answer);

/* The settings of queues as the tables before version 12 have them. */
enum rota_code rota_store_former_read(struct rota_store_session *session,
                                      struct rota_store_answer *answer);

/* Times in the tables are whole microseconds. */
static inline int64_t rota_store_us(rota_time time)
{
    return time / ROTA_USEC;
}

static inline rota_time rota_store_time(int64_t us)
{
    rota_time time;
    if (__builtin_mul_overflow(us, ROTA_USEC, &time))
        return us > 0 ? INT64_MAX : INT64_MIN;
    return time;
}

static inline rota_time rota_store_span(int64_t ms)
{
    rota_time span;
    if (__builtin_mul_overflow(ms, ROTA_MSEC, &span))
        return ms > 0 ? INT64_MAX : INT64_MIN;
    return span;
}
