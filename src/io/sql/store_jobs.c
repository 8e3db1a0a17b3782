#include "io/sql/store_jobs.h"

#include "io/sql/store_inside.h"

static bool push_value(struct rota_store_session *session, struct rota_sql_value value)
{
    return rota_vector_push(&session->values, value);
}

static void begin_statement(struct rota_store_session *session, const char *text)
{
    rota_store_text_begin(session);
    rota_store_text_expand(session->kind, text, &session->text);
}

/* How many of `n` to put into a list, filled up so that few texts are prepared. */
static size_t list_size(size_t n)
{
    size_t size = 1;
    while (size < n)
        size *= 4;
    return size;
}

/* --- the fence --- */

enum { LIST_MAX = 1024 };

/* The owners of partitions of one queue. Their rows are locked until the commit. */
static enum rota_code check_epochs(struct rota_store_session *session, uint64_t instance,
                                   struct rota_store_partition *partitions, size_t n,
                                   struct rota_error *error)
{
    struct rota_sql_result result = {0};
    size_t n_listed = list_size(n);
    begin_statement(session, "SELECT part, epoch, instance FROM rota_partitions WHERE queue = ? "
                             "AND part IN (");
    bool is_written = push_value(session, rota_sql_bytes(partitions[0].queue));
    for (size_t i = 0; i < n_listed; i++) {
        rota_buffer_append_text(&session->text, i ? ", ?" : "?");
        is_written =
            is_written && push_value(session, rota_sql_int(partitions[i < n ? i : n - 1].number));
    }
    rota_store_text_expand(session->kind, ") ORDER BY part $for_update", &session->text);
    enum rota_code code = rota_store_text_run(session, is_written, &result, error);
    for (size_t i = 0, row = 0; !code && i < n; i++) {
        while (row < result.n_rows &&
               rota_sql_int_at(&result, row, 0) < (int64_t)partitions[i].number)
            row++;
        partitions[i].is_stale =
            row >= result.n_rows ||
            rota_sql_int_at(&result, row, 0) != (int64_t)partitions[i].number ||
            rota_sql_int_at(&result, row, 1) != (int64_t)partitions[i].epoch ||
            rota_sql_int_at(&result, row, 2) != (int64_t)instance;
    }
    rota_sql_result_deinit(&result);
    return code;
}

static enum rota_code check_all(struct rota_store_session *session, struct rota_store_turn *turn,
                                struct rota_error *error)
{
    enum rota_code code = ROTA_OK;
    for (size_t i = 0, n; !code && i < turn->n_partitions; i += n) {
        struct rota_store_partition *first = &turn->partitions[i];
        for (n = 1; n < LIST_MAX && i + n < turn->n_partitions; n++)
            if (!rota_str_is_equal(first[n].queue, first->queue))
                break;
        code = check_epochs(session, turn->instance, first, n, error);
    }
    return code;
}

/* --- rows --- */

static const char *const COLUMNS[] = {"queue",    "part",        "id",     "state",  "priority",
                                      "attempts", "enqueued_at", "worker", "record", "payload"};
enum { N_COLUMNS = sizeof COLUMNS / sizeof *COLUMNS, N_KEYS = 3, ROWS_MAX = 256 };

#define ROW "(?, ?, ?, ?, ?, ?, ?, ?, $bytes_from?$bytes_to, $bytes_from?$bytes_to)"

struct rows {
    const struct rota_store_job *jobs[ROWS_MAX];
    char ids[ROWS_MAX][ROTA_JOB_ID_TEXT];
    size_t n, bytes;
};

static bool push_row(struct rota_store_session *session, const struct rota_store_turn *turn,
                     const struct rota_store_job *job, char id[ROTA_JOB_ID_TEXT])
{
    const struct rota_store_partition *partition = &turn->partitions[job->partition];
    const struct rota_sql_value values[N_COLUMNS] = {
        rota_sql_bytes(partition->queue),
        rota_sql_int(partition->number),
        rota_sql_bytes(rota_str(rota_job_id_format(job->id, id))),
        rota_sql_bytes(rota_str(rota_job_state_name(job->state))),
        rota_sql_int(job->priority),
        rota_sql_int(job->n_attempts),
        rota_sql_int(rota_store_us(job->enqueued_at)),
        rota_sql_bytes(job->worker),
        rota_sql_bytes(job->record),
        job->has_payload ? rota_sql_bytes(job->payload) : rota_sql_null(),
    };
    for (size_t i = 0; i < N_COLUMNS; i++)
        if (!push_value(session, values[i]))
            return false;
    return true;
}

/* Write `n` rows from `first`. */
static enum rota_code put_rows(struct rota_store_session *session,
                               const struct rota_store_turn *turn, struct rows *rows, size_t first,
                               size_t n, struct rota_error *error)
{
    size_t n_set = N_COLUMNS - (rows->jobs[first]->has_payload ? 0 : 1);
    bool is_written = true;
    begin_statement(session, "INSERT INTO rota_jobs (queue, part, id, state, priority, attempts, "
                             "enqueued_at, worker, record, payload) VALUES ");
    for (size_t i = first; is_written && i < first + n; i++) {
        rota_store_text_expand(session->kind, i > first ? ", " ROW : ROW, &session->text);
        is_written = push_row(session, turn, rows->jobs[i], rows->ids[i]);
    }
    rota_store_text_expand(session->kind, " $or_update_job ", &session->text);
    for (size_t i = N_KEYS; i < n_set; i++)
        rota_buffer_print(&session->text,
                          session->kind == ROTA_SQL_MYSQL ? "%s%s = VALUES(%s)"
                                                          : "%s%s = excluded.%s",
                          i > N_KEYS ? ", " : "", COLUMNS[i], COLUMNS[i]);
    return rota_store_text_run(session, is_written, NULL, error);
}

/* 256, 64, 16, 4 and 1 at a time: few texts, however many rows there are. */
static enum rota_code put_all(struct rota_store_session *session,
                              const struct rota_store_turn *turn, struct rows *rows,
                              struct rota_error *error)
{
    enum rota_code code = ROTA_OK;
    for (size_t first = 0, n; !code && first < rows->n; first += n) {
        for (n = ROWS_MAX; n > rows->n - first; n /= 4)
            ;
        code = put_rows(session, turn, rows, first, n, error);
    }
    rows->n = rows->bytes = 0;
    return code;
}

static bool is_written_now(const struct rota_store_turn *turn, const struct rota_store_job *job)
{
    return !turn->partitions[job->partition].is_stale;
}

static enum rota_code write_jobs(struct rota_store_session *session,
                                 const struct rota_store_turn *turn, bool has_payload,
                                 struct rota_error *error)
{
    struct rows rows = {.n = 0};
    enum rota_code code = ROTA_OK;
    for (size_t i = 0; !code && i < turn->n_jobs; i++) {
        const struct rota_store_job *job = &turn->jobs[i];
        if (job->is_gone || job->has_payload != has_payload || !is_written_now(turn, job))
            continue;
        size_t bytes = job->record.size + (has_payload ? job->payload.size : 0);
        if (rows.n == ROWS_MAX || (rows.n > 0 && rows.bytes + bytes > ROTA_STORE_JOBS_CHUNK))
            code = put_all(session, turn, &rows, error);
        rows.jobs[rows.n++] = job;
        rows.bytes += bytes;
    }
    return code ? code : put_all(session, turn, &rows, error);
}

static enum rota_code remove_rows(struct rota_store_session *session,
                                  const struct rota_store_turn *turn, struct rows *rows,
                                  struct rota_error *error)
{
    if (rows->n == 0)
        return ROTA_OK;
    const struct rota_store_partition *partition = &turn->partitions[rows->jobs[0]->partition];
    size_t n_listed = list_size(rows->n);
    begin_statement(session, "DELETE FROM rota_jobs WHERE queue = ? AND part = ? AND id IN (");
    bool is_written = push_value(session, rota_sql_bytes(partition->queue)) &&
                      push_value(session, rota_sql_int(partition->number));
    for (size_t i = 0; is_written && i < n_listed; i++) {
        size_t at = i < rows->n ? i : rows->n - 1;
        rota_job_id_format(rows->jobs[at]->id, rows->ids[at]);
        rota_buffer_append_text(&session->text, i ? ", ?" : "?");
        is_written = push_value(session, rota_sql_bytes(rota_str(rows->ids[at])));
    }
    rota_buffer_append_char(&session->text, ')');
    rows->n = 0;
    return rota_store_text_run(session, is_written, NULL, error);
}

/* Consecutive ones of a partition together. */
static enum rota_code remove_jobs(struct rota_store_session *session,
                                  const struct rota_store_turn *turn, struct rota_error *error)
{
    struct rows rows = {.n = 0};
    enum rota_code code = ROTA_OK;
    for (size_t i = 0; !code && i < turn->n_jobs; i++) {
        const struct rota_store_job *job = &turn->jobs[i];
        if (!job->is_gone || !is_written_now(turn, job))
            continue;
        if (rows.n == ROWS_MAX || (rows.n > 0 && rows.jobs[0]->partition != job->partition))
            code = remove_rows(session, turn, &rows, error);
        rows.jobs[rows.n++] = job;
    }
    return code ? code : remove_rows(session, turn, &rows, error);
}

/* A partition that is created again gets a higher epoch than any before. */
static enum rota_code remove_partitions(struct rota_store_session *session,
                                        const struct rota_store_turn *turn,
                                        struct rota_error *error)
{
    enum rota_code code = ROTA_OK;
    for (size_t i = 0; !code && i < turn->n_removals; i++) {
        const struct rota_store_argument arguments[] = {
            ROTA_STORE_STR("queue", turn->removals[i].queue),
            ROTA_STORE_INT("part", turn->removals[i].partition),
            ROTA_STORE_INT("epoch", turn->removals[i].epoch),
            ROTA_STORE_INT("instance", turn->instance),
        };
        code = rota_store_run(session,
                              "DELETE FROM rota_partitions WHERE queue = :queue AND part = :part "
                              "AND epoch = :epoch AND instance = :instance AND NOT EXISTS "
                              "(SELECT 1 FROM rota_jobs WHERE queue = :queue AND part = :part)",
                              arguments, NULL, error);
    }
    return code;
}

enum rota_code rota_store_jobs_write(struct rota_store_session *session,
                                     struct rota_store_turn *turn, struct rota_error *error)
{
    enum rota_code code = rota_sql_look(session->sql, error);
    if (!code)
        code = rota_sql_begin(session->sql, error);
    if (code)
        return code;
    code = check_all(session, turn, error);
    if (!code)
        code = write_jobs(session, turn, true, error);
    if (!code)
        code = write_jobs(session, turn, false, error);
    if (!code)
        code = remove_jobs(session, turn, error);
    if (!code)
        code = remove_partitions(session, turn, error);
    if (!code)
        return rota_sql_commit(session->sql, error);
    rota_sql_rollback(session->sql);
    return code;
}

/* --- taking partitions --- */

static enum rota_code next_epoch(struct rota_store_session *session, uint64_t *epoch,
                                 struct rota_error *error)
{
    struct rota_sql_result result = {0};
    enum rota_code code = rota_store_text_run_n(session,
                                                "INSERT INTO rota_lives (id, life) VALUES (1, 2) "
                                                "$or_update_id life = rota_lives.life + 1",
                                                NULL, 0, NULL, error);
    if (!code)
        code = rota_store_text_run_n(session, "SELECT life FROM rota_lives WHERE id = 1", NULL, 0,
                                     &result, error);
    if (!code && (result.n_rows != 1 || rota_sql_int_at(&result, 0, 0) < 1))
        code = rota_error_set(error, ROTA_ERR_INVALID, "the store has no epochs left");
    if (!code)
        *epoch = (uint64_t)rota_sql_int_at(&result, 0, 0);
    rota_sql_result_deinit(&result);
    return code;
}

static enum rota_code take_row(struct rota_store_session *session, uint64_t instance,
                               struct rota_str owner, const struct rota_store_partition *partition,
                               uint64_t epoch, struct rota_error *error)
{
    const struct rota_store_argument arguments[] = {
        ROTA_STORE_STR("queue", partition->queue),
        ROTA_STORE_INT("part", partition->number),
        ROTA_STORE_INT("epoch", epoch),
        ROTA_STORE_INT("instance", instance),
        ROTA_STORE_STR("owner", owner),
    };
    return rota_store_run(session,
                          "INSERT INTO rota_partitions (queue, part, epoch, instance, owner, "
                          "owned_at) VALUES (:queue, :part, :epoch, :instance, :owner, $now) "
                          "$or_update_part epoch = :epoch, instance = :instance, owner = :owner, "
                          "owned_at = $now",
                          arguments, NULL, error);
}

enum rota_code rota_store_jobs_take_partitions(struct rota_store_session *session,
                                               uint64_t instance, struct rota_str owner,
                                               const struct rota_store_partition *partitions,
                                               size_t n_partitions, uint64_t *epoch,
                                               struct rota_error *error)
{
    uint64_t given = 0;
    enum rota_code code = rota_sql_look(session->sql, error);
    if (!code)
        code = rota_sql_begin(session->sql, error);
    if (code)
        return code;
    code = next_epoch(session, &given, error);
    for (size_t i = 0; !code && i < n_partitions; i++)
        code = take_row(session, instance, owner, &partitions[i], given, error);
    if (code) {
        rota_sql_rollback(session->sql);
        return code;
    }
    code = rota_sql_commit(session->sql, error);
    if (!code)
        *epoch = given;
    return code;
}

/* --- reading --- */

enum rota_code rota_store_jobs_load(struct rota_store_session *session, struct rota_str queue,
                                    uint32_t partition, struct rota_str after,
                                    struct rota_sql_result *result, struct rota_error *error)
{
    enum rota_code code = ROTA_ERR_LIMIT;
    /* Fewer when they are large. */
    for (int64_t most = ROTA_STORE_JOBS_LOAD; code == ROTA_ERR_LIMIT && most > 0; most /= 8) {
        const struct rota_store_argument arguments[] = {
            ROTA_STORE_STR("queue", queue),
            ROTA_STORE_INT("part", partition),
            ROTA_STORE_STR("after", after),
            ROTA_STORE_INT("most", most),
        };
        code = rota_store_run(session,
                              "SELECT id, record, payload FROM rota_jobs WHERE queue = :queue AND "
                              "part = :part AND id > :after ORDER BY id LIMIT :most",
                              arguments, result, error);
    }
    return code == ROTA_ERR_UNKNOWN ? ROTA_ERR_UNAVAILABLE : code; /* it only reads */
}

enum rota_code rota_store_jobs_list_partitions(struct rota_store_session *session,
                                               struct rota_sql_result *list,
                                               struct rota_error *error)
{
    enum rota_code code = rota_sql_look(session->sql, error);
    if (!code)
        code = rota_store_text_run_n(session,
                                     "SELECT queue, part, epoch, instance FROM rota_partitions "
                                     "ORDER BY queue, part",
                                     NULL, 0, list, error);
    return code == ROTA_ERR_UNKNOWN ? ROTA_ERR_UNAVAILABLE : code;
}

/* MariaDB takes no statement above this size, and a job may have both. */
enum rota_code rota_store_jobs_bound(struct rota_store_session *session, size_t *bytes,
                                     struct rota_error *error)
{
    enum { REST = 128 << 10 }; /* of a statement with one row */
    struct rota_sql_result result = {0};
    if (session->kind != ROTA_SQL_MYSQL) {
        *bytes = ROTA_JOB_PAYLOAD_MAX;
        return ROTA_OK;
    }
    enum rota_code code =
        rota_store_text_run_n(session, "SELECT @@max_allowed_packet", NULL, 0, &result, error);
    int64_t most = !code && result.n_rows == 1 ? rota_sql_int_at(&result, 0, 0) : 0;
    rota_sql_result_deinit(&result);
    if (code)
        return code;
    size_t half = most > 2 * REST ? (size_t)(most - REST) / 2 : REST / 2;
    *bytes = half < ROTA_JOB_PAYLOAD_MAX ? half : ROTA_JOB_PAYLOAD_MAX;
    return ROTA_OK;
}
