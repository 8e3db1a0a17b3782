#include "io/sql/store_inside.h"

#include "base/quote.h"

enum {
    SETUP_TRIES = 5, /* two that make the same rows may be in each other's way */
    CLAIM_TRIES = 3,
    TRIM_EVERY = 64,
};

/* --- the claim --- */

/* The texts, in the lines in which they read best. */
/* clang-format off */

/* Whether row `r` is one of those that the claim names. The text always has the same number of
 * them, so that it is prepared once. */
#define IS_NAMED(r, n)                                                                        \
    "(" r ".shard = :shard_" n " AND " r ".epoch = :epoch_" n " AND " r ".pings = :pings_" n ")"
#define ARE_NAMED(r, a, b, c, d)                                                              \
    IS_NAMED(r, a) " OR " IS_NAMED(r, b) " OR " IS_NAMED(r, c) " OR " IS_NAMED(r, d)
#define IS_DEAD(r)                                                                            \
    "(" ARE_NAMED(r, "a", "b", "c", "d") " OR " ARE_NAMED(r, "e", "f", "g", "h") " OR "       \
    ARE_NAMED(r, "i", "j", "k", "l") " OR " ARE_NAMED(r, "m", "n", "o", "p") ")"

/* Whether row `r` may be taken at `now`: the rules of struct rota_store_claim. */
#define MAY_TAKE(r, now)                                                                      \
    "(" r ".instance = 0 "                                                                    \
    "OR (" r ".instance <> :instance AND ((:alone = 1 AND " r ".host = :host) "               \
    "OR ((" r ".last_ping + " r ".ttl_ms * 1000 < " now " "                                   \
    "OR " r ".last_ping > " now " + " r ".ttl_ms * 1000) AND " IS_DEAD(r) "))))"

#define IN_SPACE(r) r ".space = :space AND " r ".dc = :dc AND " r ".shard < :shards"

#define IN_ORDER(r)                                                                           \
    "ORDER BY CASE WHEN " r ".host = :host AND (" r ".instance = 0 OR :alone = 1) THEN 1 "    \
    "WHEN " r ".host = :host THEN 2 WHEN " r ".instance = 0 THEN 3 ELSE 4 END, "              \
    r ".last_ping, " r ".shard"

/* No claim freeze, and the number of shards is the current one. */
#define IS_OPEN(now)                                                                          \
    "EXISTS (SELECT 1 FROM rota_dcs d WHERE d.space = :space AND d.dc = :dc "                 \
    "AND d.shards = :shards) "                                                                \
    "AND NOT EXISTS (SELECT 1 FROM rota_holds h WHERE h.space IN (:space, '') "               \
    "AND h.hold_until > " now ")"

#define CLOCK "(SELECT $now AS now_us LIMIT 1) n"

/* SQLite has one writer at a time. PostgreSQL locks rows after it has sorted them, so
 * only the one it returns. */
#define CLAIM(lock, returning)                                                                \
    "UPDATE rota_leases SET shards = :shards, host = :host, instance = :instance, "           \
    "epoch = $greatest(epoch + 1, :floor + 1, $now $over 1000), pings = pings + 1, "          \
    "locked_at = $now, last_ping = $now, ttl_ms = :ttl_ms "                                   \
    "WHERE space = :space AND dc = :dc AND shard = ("                                         \
    "SELECT t.shard FROM " CLOCK " CROSS JOIN rota_leases t "                                 \
    "WHERE " IN_SPACE("t") " AND " IS_OPEN("n.now_us") " AND " MAY_TAKE("t", "n.now_us") " "  \
    IN_ORDER("t") " LIMIT 1 " lock ") RETURNING " returning

/* Each grant and release is written to the history together with the change of the row.
 * PostgreSQL does both in one statement, MariaDB in one packet; SQLite has no round trips, and
 * uses a transaction of two. */
#define NOTE(is_release) "INSERT INTO rota_history (space, dc, shard, host, epoch, "          \
    "is_release, at, shards) SELECT space, dc, shard, host, epoch, " is_release ", "          \
    "last_ping, shards FROM "

#define WITH_NOTE(change, is_release)                                                         \
    "WITH changed AS (" change "), noted AS (" NOTE(is_release) "changed) "                   \
    "SELECT shard, epoch, last_ping FROM changed"

#define NOTED "space, dc, shard, host, epoch, last_ping, shards"

/* MariaDB locks whatever a change reads, and all that a locking SELECT sorts. So a plain SELECT
 * sorts without locks; then the statement goes through that list by primary key, skips what
 * others have locked, checks again whether the row may be taken now that it is locked, and stops
 * at the first. Everything is sent at once, so that no slow client keeps it open. */
#define CLAIM_MYSQL                                                                           \
    "START TRANSACTION; "                                                                     \
    "SET @rota_shard = NULL, @rota_epoch = NULL, @rota_now = NULL; "                          \
    "SELECT STRAIGHT_JOIN t.shard INTO @rota_shard FROM ("                                    \
    "SELECT r.shard, n.now_us FROM " CLOCK " CROSS JOIN rota_leases r "                       \
    "WHERE " IN_SPACE("r") " AND " IS_OPEN("n.now_us") " AND " MAY_TAKE("r", "n.now_us") " "  \
    IN_ORDER("r") " LIMIT 65536) c "                                                          \
    "JOIN rota_leases t ON t.space = :space AND t.dc = :dc AND t.shard = c.shard "            \
    "WHERE " MAY_TAKE("t", "c.now_us") " LIMIT 1 FOR UPDATE SKIP LOCKED; "                    \
    "UPDATE rota_leases SET shards = :shards, host = :host, instance = :instance, "           \
    "last_ping = (@rota_now := $now), locked_at = @rota_now, "                                \
    "epoch = (@rota_epoch := $greatest(epoch + 1, :floor + 1, @rota_now $over 1000)), "       \
    "pings = pings + 1, ttl_ms = :ttl_ms "                                                    \
    "WHERE space = :space AND dc = :dc AND shard = @rota_shard; "                             \
    NOTE("0") "rota_leases WHERE space = :space AND dc = :dc AND shard = @rota_shard; "       \
    "SELECT @rota_shard, @rota_epoch, @rota_now; COMMIT"

#define OURS                                                                                  \
    "WHERE space = :space AND dc = :dc AND shard = :shard AND instance = :instance AND "      \
    "epoch = :epoch "

#define RELEASE(now) "UPDATE rota_leases SET instance = 0, last_ping = " now ", "             \
    "pings = pings + 1 " OURS

#define RELEASE_MYSQL                                                                         \
    "START TRANSACTION; SET @rota_now = NULL; " RELEASE("(@rota_now := $now)") "; "           \
    NOTE("1") "rota_leases WHERE space = :space AND dc = :dc AND shard = :shard "             \
    "AND @rota_now IS NOT NULL; "                                                             \
    "SELECT :shard + 0, :epoch + 0, @rota_now; COMMIT"

/* clang-format on */

const char *const rota_store_claim_texts[] = {
    [ROTA_SQL_SQLITE] = CLAIM("", "shard, epoch, last_ping"),
    [ROTA_SQL_MYSQL] = CLAIM_MYSQL,
    [ROTA_SQL_POSTGRES] = WITH_NOTE(CLAIM("FOR UPDATE OF t SKIP LOCKED", NOTED), "0"),
};

static const char *const release_texts[] = {
    [ROTA_SQL_SQLITE] = RELEASE("$now") "RETURNING shard, epoch, last_ping",
    [ROTA_SQL_MYSQL] = RELEASE_MYSQL,
    [ROTA_SQL_POSTGRES] = WITH_NOTE(RELEASE("$now") "RETURNING " NOTED, "1"),
};

/* The answer of a claim and a release: shard, epoch and the time of the change; no row, or one
 * without the time, when there was nothing to change. */
static bool is_changed(const struct rota_sql_result *result)
{
    return result->n_rows == 1 && rota_sql_at(result, 0, 2).type == ROTA_SQL_INT;
}

static enum rota_code note_sqlite(struct rota_store_session *session,
                                  const struct rota_store_request *request, bool is_release,
                                  const struct rota_sql_result *result, struct rota_error *error)
{
    const struct rota_store_argument arguments[] = {
        ROTA_STORE_STR("space", request->space),
        ROTA_STORE_STR("dc", request->dc),
        ROTA_STORE_INT("shard", rota_sql_int_at(result, 0, 0)),
        ROTA_STORE_INT("is_release", is_release),
    };
    return rota_store_run(session,
                          NOTE(":is_release") "rota_leases WHERE space = :space AND dc = :dc "
                                              "AND shard = :shard",
                          arguments, NULL, error);
}

static enum rota_code change_sqlite(struct rota_store_session *session,
                                    const struct rota_store_request *request, const char *text,
                                    const struct rota_store_argument *arguments, size_t n_arguments,
                                    struct rota_sql_result *result, struct rota_error *error)
{
    bool is_release = request->verb == ROTA_STORE_RELEASE;
    enum rota_code code = rota_sql_begin(session->sql, error);
    if (code)
        return code;
    code = rota_store_text_run_n(session, text, arguments, n_arguments, result, error);
    if (!code && is_changed(result))
        code = note_sqlite(session, request, is_release, result, error);
    if (!code)
        code = rota_sql_commit(session->sql, error);
    if (code)
        rota_sql_rollback(session->sql);
    return code;
}

/* Claim or release, with the entry in the history. */
static enum rota_code change_lease(struct rota_store_session *session,
                                   const struct rota_store_request *request, const char *text,
                                   const struct rota_store_argument *arguments, size_t n_arguments,
                                   struct rota_sql_result *result, struct rota_error *error)
{
    switch (session->kind) {
    case ROTA_SQL_SQLITE:
        return change_sqlite(session, request, text, arguments, n_arguments, result, error);
    case ROTA_SQL_MYSQL:
        return rota_store_text_script(session, text, arguments, n_arguments, result, error);
    case ROTA_SQL_POSTGRES:
        break;
    }
    return rota_store_text_run_n(session, text, arguments, n_arguments, result, error);
}

enum { CLAIM_ARGUMENTS = 8, DEAD_ARGUMENTS = 3 * ROTA_LEASE_DEAD_MAX };

static const char *const dead_names[DEAD_ARGUMENTS] = {
    "shard_a", "epoch_a", "pings_a", "shard_b", "epoch_b", "pings_b", "shard_c", "epoch_c",
    "pings_c", "shard_d", "epoch_d", "pings_d", "shard_e", "epoch_e", "pings_e", "shard_f",
    "epoch_f", "pings_f", "shard_g", "epoch_g", "pings_g", "shard_h", "epoch_h", "pings_h",
    "shard_i", "epoch_i", "pings_i", "shard_j", "epoch_j", "pings_j", "shard_k", "epoch_k",
    "pings_k", "shard_l", "epoch_l", "pings_l", "shard_m", "epoch_m", "pings_m", "shard_n",
    "epoch_n", "pings_n", "shard_o", "epoch_o", "pings_o", "shard_p", "epoch_p", "pings_p",
};

/* A shard of -1 means none. */
static void name_dead(const struct rota_store_claim *claim,
                      struct rota_store_argument arguments[DEAD_ARGUMENTS])
{
    for (size_t i = 0; i < ROTA_LEASE_DEAD_MAX; i++) {
        const struct rota_lease_dead *dead = i < claim->n_dead ? &claim->dead[i] : NULL;
        const int64_t values[] = {dead ? (int64_t)dead->shard : -1, dead ? (int64_t)dead->epoch : 0,
                                  dead ? (int64_t)dead->pings : 0};
        for (size_t j = 0; j < 3; j++)
            arguments[3 * i + j] =
                (struct rota_store_argument){dead_names[3 * i + j], rota_sql_int(values[j])};
    }
}

enum rota_code rota_store_lease_run_claim(struct rota_store_session *session,
                                          const struct rota_store_request *request,
                                          const char *text, struct rota_store_answer *answer,
                                          bool *is_granted)
{
    const struct rota_store_claim *claim = &request->claim;
    struct rota_sql_result result = {0};
    struct rota_store_argument arguments[CLAIM_ARGUMENTS + DEAD_ARGUMENTS] = {
        ROTA_STORE_STR("space", request->space),
        ROTA_STORE_STR("dc", request->dc),
        ROTA_STORE_STR("host", request->host),
        ROTA_STORE_INT("shards", request->shards),
        ROTA_STORE_INT("instance", request->instance),
        ROTA_STORE_INT("ttl_ms", request->ttl / ROTA_MSEC),
        ROTA_STORE_INT("alone", claim->is_alone),
        ROTA_STORE_INT("floor", claim->floor),
    };
    size_t n_arguments = sizeof arguments / sizeof *arguments;
    name_dead(claim, arguments + CLAIM_ARGUMENTS);
    enum rota_code code =
        change_lease(session, request, text, arguments, n_arguments, &result, &answer->error);
    *is_granted = !code && is_changed(&result);
    if (*is_granted) {
        answer->claimed = (struct rota_store_claimed){
            .result = ROTA_STORE_CLAIM_GRANTED,
            .shard = (uint32_t)rota_sql_int_at(&result, 0, 0),
            .shards = request->shards,
            .epoch = (uint64_t)rota_sql_int_at(&result, 0, 1),
        };
        answer->db_now = rota_store_time(rota_sql_int_at(&result, 0, 2));
    }
    rota_sql_result_deinit(&result);
    return code;
}

/* --- the rows that there have to be --- */

#define DIGITS                                                                                     \
    "(SELECT 0 AS d UNION ALL SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3 UNION ALL "           \
    "SELECT 4 UNION ALL SELECT 5 UNION ALL SELECT 6 UNION ALL SELECT 7 UNION ALL SELECT 8 "        \
    "UNION ALL SELECT 9)"

#define NUMBER "a.d + 10 * b.d + 100 * c.d + 1000 * e.d + 10000 * f.d"

/* A row for each number from `from_shard` on. */
static const char make_rows[] =
    "$insert_new rota_leases (space, dc, shard, shards, host, instance, epoch, locked_at, "
    "last_ping, ttl_ms, pings) SELECT :space, :dc, " NUMBER ", 0, '', 0, 0, 0, 0, 0, 0 "
    "FROM " DIGITS " a CROSS JOIN " DIGITS " b CROSS JOIN " DIGITS " c CROSS JOIN " DIGITS
    " e CROSS JOIN " DIGITS " f WHERE " NUMBER " >= :from_shard AND " NUMBER " < :shards "
    "$or_nothing";

/* Existing ones are left alone, since their holders ping them and should not have to wait;
 * unless there are holes between them. */
static enum rota_code add_rows(struct rota_store_session *session,
                               const struct rota_store_argument arguments[3],
                               struct rota_error *error)
{
    struct rota_sql_result result = {0};
    int64_t from_shard = 0;
    enum rota_code code = rota_store_text_run_n(session,
                                                "SELECT COUNT(*), MAX(shard) FROM rota_leases "
                                                "WHERE space = :space AND dc = :dc",
                                                arguments, 3, &result, error);
    if (!code && rota_sql_int_at(&result, 0, 0) == rota_sql_int_at(&result, 0, 1) + 1)
        from_shard = rota_sql_int_at(&result, 0, 0);
    rota_sql_result_deinit(&result);
    if (code)
        return code;
    const struct rota_store_argument with_from[] = {arguments[0], arguments[1], arguments[2],
                                                    ROTA_STORE_INT("from_shard", from_shard)};
    return rota_store_run(session, make_rows, with_from, NULL, error);
}

/* The result of a change of the number: the fields of struct rota_store_claimed. */
struct reshard {
    uint32_t shards_before, n_held;
};

static enum rota_code change_shards(struct rota_store_session *session,
                                    const struct rota_store_argument arguments[3],
                                    struct reshard *reshard, struct rota_error *error)
{
    struct rota_sql_result result = {0};
    enum rota_code code =
        rota_store_text_run_n(session,
                              "SELECT COUNT(*) FROM rota_leases WHERE space = :space AND dc = :dc "
                              "AND instance <> 0 AND last_ping + ttl_ms * 1000 >= $now",
                              arguments, 3, &result, error);
    if (!code && result.n_rows == 1)
        reshard->n_held = (uint32_t)rota_sql_int_at(&result, 0, 0);
    rota_sql_result_deinit(&result);
    if (code)
        return code;
    return rota_store_text_run_n(session,
                                 "UPDATE rota_dcs SET shards = :shards WHERE space = :space AND "
                                 "dc = :dc",
                                 arguments, 3, NULL, error);
}

static enum rota_code set_shards(struct rota_store_session *session,
                                 const struct rota_store_request *request,
                                 const struct rota_store_argument arguments[3],
                                 struct reshard *reshard, struct rota_error *error)
{
    struct rota_sql_result result = {0};
    enum rota_code code = rota_store_text_run_n(session,
                                                "INSERT INTO rota_dcs (space, dc, shards) VALUES "
                                                "(:space, :dc, :shards) $or_keep_shards",
                                                arguments, 3, NULL, error);
    if (!code) /* and wait for others that do the same */
        code =
            rota_store_text_run_n(session,
                                  "SELECT shards FROM rota_dcs WHERE space = :space AND dc = :dc "
                                  "$for_update",
                                  arguments, 3, &result, error);
    int64_t before = !code && result.n_rows == 1 ? rota_sql_int_at(&result, 0, 0) : request->shards;
    bool is_other = before != (int64_t)request->shards;
    rota_sql_result_deinit(&result);
    if (is_other && !request->claim.is_reshard)
        return ROTA_OK; /* the claim reports it */
    if (is_other) {
        reshard->shards_before = (uint32_t)before;
        code = change_shards(session, arguments, reshard, error);
    }
    return code ? code : add_rows(session, arguments, error);
}

static enum rota_code set_up_dc(struct rota_store_session *session,
                                const struct rota_store_request *request, struct reshard *reshard,
                                struct rota_error *error)
{
    const struct rota_store_argument arguments[] = {
        ROTA_STORE_STR("space", request->space),
        ROTA_STORE_STR("dc", request->dc),
        ROTA_STORE_INT("shards", request->shards),
    };
    enum rota_code code = ROTA_OK;
    for (int i = 0; i < SETUP_TRIES; i++) {
        code = rota_sql_begin(session->sql, error);
        if (code)
            break;
        struct reshard made = {0};
        code = set_shards(session, request, arguments, &made, error);
        if (!code)
            code = rota_sql_commit(session->sql, error);
        else
            rota_sql_rollback(session->sql);
        if (!code && made.shards_before)
            *reshard = made;
        if (code != ROTA_ERR_UNAVAILABLE || !rota_sql_is_alive(session->sql))
            break;
    }
    return code == ROTA_ERR_UNKNOWN ? ROTA_ERR_UNAVAILABLE : code; /* no row was claimed */
}

/* --- why nothing was granted --- */

struct reason {
    rota_time now, hold_until;
    int64_t shards, n_rows, n_free; /* of the dc; 0 shards: it is not known */
};

static enum rota_code find_reason(struct rota_store_session *session,
                                  const struct rota_store_request *request, struct reason *reason,
                                  struct rota_error *error)
{
    struct rota_sql_result result = {0};
    const struct rota_store_argument arguments[] = {
        ROTA_STORE_STR("space", request->space),
        ROTA_STORE_STR("dc", request->dc),
        ROTA_STORE_INT("shards", request->shards),
    };
    enum rota_code code = rota_store_run(
        session,
        "SELECT $now, "
        "(SELECT MAX(hold_until) FROM rota_holds WHERE space IN (:space, '')), "
        "(SELECT shards FROM rota_dcs WHERE space = :space AND dc = :dc), "
        "(SELECT COUNT(*) FROM rota_leases WHERE space = :space AND dc = :dc AND shard < :shards), "
        "(SELECT COUNT(*) FROM rota_leases WHERE space = :space AND dc = :dc AND shard < :shards "
        "AND instance = 0)",
        arguments, &result, error);
    if (!code && result.n_rows == 1)
        *reason = (struct reason){
            .now = rota_store_time(rota_sql_int_at(&result, 0, 0)),
            .hold_until = rota_store_time(rota_sql_int_at(&result, 0, 1)),
            .shards = rota_sql_int_at(&result, 0, 2),
            .n_rows = rota_sql_int_at(&result, 0, 3),
            .n_free = rota_sql_int_at(&result, 0, 4),
        };
    rota_sql_result_deinit(&result);
    return code;
}

static enum rota_code refuse_shards(const struct rota_store_request *request, int64_t shards,
                                    struct rota_error *error)
{
    char space[ROTA_QUOTE_MAX], dc[ROTA_QUOTE_MAX];
    return rota_error_set(error, ROTA_ERR_INVALID,
                          "data center %s of space %s has %lld shards in the store, not %u; use "
                          "--reshard (in a program: is_reshard) to change that",
                          rota_quote(request->dc, dc), rota_quote(request->space, space),
                          (long long)shards, (unsigned)request->shards);
}

static void answer_none(const struct reason *reason, struct rota_store_answer *answer)
{
    answer->db_now = reason->now;
    answer->claimed.result = ROTA_STORE_CLAIM_NONE;
    if (reason->hold_until > reason->now) {
        answer->claimed.result = ROTA_STORE_CLAIM_ON_HOLD;
        answer->hold_until = reason->hold_until;
    }
}

/* --- the history --- */

/* Delete entries older than the newest ROTA_STORE_HISTORY_MAX. The end is looked up first: a
 * DELETE that searches it would wait for writers. */
static void trim_history(struct rota_store_session *session, struct rota_str space)
{
    struct rota_sql_result result = {0};
    struct rota_store_argument arguments[] = {
        ROTA_STORE_STR("space", space),
        ROTA_STORE_INT("keep", ROTA_STORE_HISTORY_MAX),
    };
    enum rota_code code = rota_store_run(session,
                                         "SELECT id FROM rota_history WHERE space = :space "
                                         "ORDER BY id DESC LIMIT 1 OFFSET :keep",
                                         arguments, &result, NULL);
    if (!code && result.n_rows == 1) {
        arguments[1] = (struct rota_store_argument){"keep", rota_sql_at(&result, 0, 0)};
        rota_store_run(session, "DELETE FROM rota_history WHERE space = :space AND id <= :keep",
                       arguments, NULL, NULL);
    }
    rota_sql_result_deinit(&result);
}

/* One more was written. */
static void count_event(struct rota_store_session *session, struct rota_str space)
{
    if (session->n_events++ % TRIM_EVERY == 0)
        trim_history(session, space);
}

/* --- requests --- */

static enum rota_code claim_lease(struct rota_store_session *session,
                                  const struct rota_store_request *request, struct reshard *reshard,
                                  struct rota_store_answer *answer)
{
    struct reason reason = {0};
    for (int i = 0; i < CLAIM_TRIES; i++) {
        bool is_granted = false;
        enum rota_code code = rota_store_lease_run_claim(
            session, request, rota_store_claim_texts[session->kind], answer, &is_granted);
        if (code)
            return code;
        if (is_granted) {
            count_event(session, request->space);
            return ROTA_OK;
        }
        code = find_reason(session, request, &reason, &answer->error);
        if (code)
            return code == ROTA_ERR_UNKNOWN ? ROTA_ERR_UNAVAILABLE : code;
        bool is_other = reason.shards != 0 && reason.shards != (int64_t)request->shards;
        if (is_other && !request->claim.is_reshard)
            return refuse_shards(request, reason.shards, &answer->error);
        if (!is_other && reason.n_rows >= (int64_t)request->shards) {
            if (reason.n_free == 0 || reason.hold_until > reason.now)
                break;
            continue; /* another node made the rows, or released one, just after we read them */
        }
        code = set_up_dc(session, request, reshard, &answer->error);
        if (code)
            return code;
    }
    answer_none(&reason, answer);
    return ROTA_OK;
}

enum rota_code rota_store_lease_do_claim(struct rota_store_session *session,
                                         const struct rota_store_request *request,
                                         struct rota_store_answer *answer)
{
    struct reshard reshard = {0};
    enum rota_code code = claim_lease(session, request, &reshard, answer);
    answer->claimed.shards_before = reshard.shards_before;
    answer->claimed.n_held = reshard.n_held;
    return code;
}

/* The row as it is, when it is not ours. */
static enum rota_code read_holder(struct rota_store_session *session,
                                  const struct rota_store_argument *arguments, size_t n_arguments,
                                  struct rota_store_answer *answer)
{
    struct rota_sql_result result = {0};
    enum rota_code code = rota_store_text_now(session, &answer->db_now, &answer->error);
    if (!code)
        code = rota_store_text_run_n(session,
                                     "SELECT host, instance, epoch FROM rota_leases WHERE "
                                     "space = :space AND dc = :dc AND shard = :shard",
                                     arguments, n_arguments, &result, &answer->error);
    if (!code && result.n_rows == 1) {
        answer->holder.instance = (uint64_t)rota_sql_int_at(&result, 0, 1);
        answer->holder.epoch = (uint64_t)rota_sql_int_at(&result, 0, 2);
        answer->holder.host = rota_sql_bytes_at(&result, 0, 0);
        if (!rota_store_session_answer_rows(answer, 0, 1, &result))
            return ROTA_ERR_NO_MEMORY;
    }
    rota_sql_result_deinit(&result);
    return code;
}

/* Our row was changed, with its time; or its holder is looked up. */
static enum rota_code hear_touch(struct rota_store_session *session,
                                 const struct rota_store_request *request,
                                 const struct rota_store_argument *arguments, size_t n_arguments,
                                 bool is_ours, int64_t at, struct rota_store_answer *answer)
{
    if (is_ours) {
        answer->holder = (struct rota_store_holder){
            .is_ours = true, .instance = request->instance, .epoch = request->epoch};
        answer->db_now = rota_store_time(at);
        return ROTA_OK;
    }
    enum rota_code code = read_holder(session, arguments, n_arguments, answer);
    if (code == ROTA_ERR_UNKNOWN)
        return ROTA_ERR_UNAVAILABLE;
    if (!code && answer->holder.instance == request->instance &&
        answer->holder.epoch == request->epoch) /* it returned between the two */
        code = rota_error_set(&answer->error, ROTA_ERR_UNAVAILABLE,
                              "the lease changed during the query");
    return code;
}

#define TOUCH_ARGUMENTS(request)                                                                   \
    {                                                                                              \
        ROTA_STORE_STR("space", (request)->space), ROTA_STORE_STR("dc", (request)->dc),            \
            ROTA_STORE_INT("shard", (request)->shard),                                             \
            ROTA_STORE_INT("instance", (request)->instance),                                       \
            ROTA_STORE_INT("epoch", (request)->epoch),                                             \
            ROTA_STORE_INT("ttl_ms", (request)->ttl / ROTA_MSEC),                                  \
    }

enum { TOUCH_ARGUMENTS = 6 };

enum rota_code rota_store_lease_do_ping(struct rota_store_session *session,
                                        const struct rota_store_request *request,
                                        struct rota_store_answer *answer)
{
    struct rota_sql_result result = {0};
    const struct rota_store_argument arguments[] = TOUCH_ARGUMENTS(request);
    enum rota_code code =
        rota_store_run(session,
                       "UPDATE rota_leases SET last_ping = $mark_now, "
                       "ttl_ms = :ttl_ms, pings = pings + 1 " OURS "$returning_ping",
                       arguments, &result, &answer->error);
    bool has_row = result.n_rows == 1;
    int64_t at = has_row ? rota_sql_int_at(&result, 0, 0) : result.last_id;
    if (!code)
        code = hear_touch(session, request, arguments, TOUCH_ARGUMENTS,
                          has_row || result.n_affected == 1, at, answer);
    rota_sql_result_deinit(&result);
    return code;
}

enum rota_code rota_store_lease_do_release(struct rota_store_session *session,
                                           const struct rota_store_request *request,
                                           struct rota_store_answer *answer)
{
    struct rota_sql_result result = {0};
    const struct rota_store_argument arguments[] = TOUCH_ARGUMENTS(request);
    enum rota_code code = change_lease(session, request, release_texts[session->kind], arguments,
                                       TOUCH_ARGUMENTS, &result, &answer->error);
    if (!code) {
        bool is_ours = is_changed(&result);
        code = hear_touch(session, request, arguments, TOUCH_ARGUMENTS, is_ours,
                          is_ours ? rota_sql_int_at(&result, 0, 2) : 0, answer);
    }
    rota_sql_result_deinit(&result);
    if (!code && answer->holder.is_ours)
        count_event(session, request->space);
    return code;
}

enum rota_code rota_store_lease_do_hold(struct rota_store_session *session,
                                        const struct rota_store_request *request,
                                        struct rota_store_answer *answer)
{
    rota_time until = 0;
    enum rota_code code = rota_store_text_now(session, &answer->db_now, &answer->error);
    if (code)
        return code == ROTA_ERR_UNKNOWN ? ROTA_ERR_UNAVAILABLE : code;
    if (request->span > 0)
        until = rota_time_add(answer->db_now, request->span);
    const struct rota_store_argument arguments[] = {
        ROTA_STORE_STR("space", request->space),
        ROTA_STORE_INT("until", rota_store_us(until)),
    };
    code = rota_store_run(session,
                          "INSERT INTO rota_holds (space, hold_until) VALUES (:space, :until) "
                          "$or_update_space hold_until = :until",
                          arguments, NULL, &answer->error);
    if (!code)
        answer->hold_until = rota_store_time(rota_store_us(until));
    return code;
}
