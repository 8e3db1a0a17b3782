/* The members of a space, and the row by which they agree. */
#include "base/sha256.h"
#include "io/sql/store_inside.h"

#include <rota/ring.h>

/* Run a statement that changes a row, or finds none that is as expected. */
#define change_row(session, text, arguments, answer)                                               \
    change_row_n((session), (text), (arguments), sizeof(arguments) / sizeof *(arguments), (answer))
static enum rota_code change_row_n(struct rota_store_session *session, const char *text,
                                   const struct rota_store_argument *arguments, size_t n_arguments,
                                   struct rota_store_answer *answer)
{
    struct rota_sql_result result = {0};
    enum rota_code code =
        rota_store_text_run_n(session, text, arguments, n_arguments, &result, &answer->error);
    answer->is_done = !code && result.n_affected > 0;
    rota_sql_result_deinit(&result);
    return code;
}

/* --- the node's own row --- */

#define SET                                                                                        \
    "pings = :pings, ttl_ms = :ttl_ms, acked = :acked, highest = :highest, weight = :weight, "     \
    "is_draining = :is_draining, zone = :zone "
#define NODE "WHERE space = :space AND name = :name AND "

/* The clock is read first, so that a missing answer leaves no doubt about what was written. */
static enum rota_code change_space(struct rota_store_session *session,
                                   const struct rota_store_request *request, const char *text,
                                   struct rota_store_answer *answer)
{
    const struct rota_store_node *node = &request->node;
    const struct rota_store_argument arguments[] = {
        ROTA_STORE_STR("space", request->space),
        ROTA_STORE_STR("name", node->name),
        ROTA_STORE_INT("instance", node->instance),
        ROTA_STORE_INT("former", request->former),
        ROTA_STORE_INT("pings", node->pings),
        ROTA_STORE_INT("ttl_ms", node->ttl / ROTA_MSEC),
        ROTA_STORE_INT("acked", node->acked),
        ROTA_STORE_INT("highest", node->highest),
        ROTA_STORE_INT("weight", node->weight ? node->weight : ROTA_WEIGHT_ONE),
        ROTA_STORE_INT("is_draining", node->is_draining),
        ROTA_STORE_STR("zone", node->zone),
    };
    return change_row(session, text, arguments, answer);
}

/* Between the two another can only have made the row, and then it is taken. */
static enum rota_code join_space(struct rota_store_session *session,
                                 const struct rota_store_request *request,
                                 struct rota_store_answer *answer)
{
    enum rota_code code = change_space(
        session, request,
        "UPDATE rota_space_nodes SET instance = :instance, " SET NODE "instance = :former", answer);
    if (code || answer->is_done)
        return code;
    return change_space(
        session, request,
        "$insert_new rota_space_nodes (space, name, instance, pings, ttl_ms, acked, "
        "highest, weight, is_draining, zone) VALUES (:space, :name, :instance, :pings, :ttl_ms, "
        ":acked, :highest, :weight, :is_draining, :zone) $or_nothing",
        answer);
}

/* --- the space --- */

/* The digest of a version's text, without sending it: a database that fell back and whose clock
 * was set back may reuse a version. */
#define DIGEST "$digest_from config $digest_to = :digest"

/* One statement, and so one snapshot: first the space, then its nodes, then the highest epoch of
 * its leases. */
#define READ                                                                                       \
    "SELECT 0 AS kind, name, engine, CASE WHEN version = :known AND " DIGEST " THEN '' ELSE "      \
    "config END AS config, version, 0 AS pings, 0 AS ttl_ms, 0 AS acked, 0 AS highest, 0 AS "      \
    "weight, "                                                                                     \
    "0 AS is_draining, '' AS zone FROM rota_spaces WHERE name = :space "                           \
    "UNION ALL SELECT 1, name, '', '', instance, pings, ttl_ms, acked, highest, weight, "          \
    "is_draining, zone FROM rota_space_nodes WHERE space = :space "                                \
    "UNION ALL SELECT 2, '', '', '', COALESCE(MAX(epoch), 0), 0, 0, 0, 0, 0, 0, '' "               \
    "FROM rota_leases WHERE space = :space ORDER BY 1, 2"

static struct rota_store_space space_at(const struct rota_sql_result *result, size_t row)
{
    return (struct rota_store_space){
        .name = rota_sql_bytes_at(result, row, 1),
        .engine = rota_sql_bytes_at(result, row, 2),
        .text = rota_sql_bytes_at(result, row, 3),
        .version = (uint64_t)rota_sql_int_at(result, row, 4),
    };
}

static struct rota_store_node node_at(const struct rota_sql_result *result, size_t row)
{
    return (struct rota_store_node){
        .name = rota_sql_bytes_at(result, row, 1),
        .instance = (uint64_t)rota_sql_int_at(result, row, 4),
        .pings = (uint64_t)rota_sql_int_at(result, row, 5),
        .ttl = rota_store_span(rota_sql_int_at(result, row, 6)),
        .acked = (uint64_t)rota_sql_int_at(result, row, 7),
        .highest = (uint64_t)rota_sql_int_at(result, row, 8),
        .weight = (uint32_t)rota_sql_int_at(result, row, 9),
        .is_draining = rota_sql_int_at(result, row, 10) != 0,
        .zone = rota_sql_bytes_at(result, row, 11),
    };
}

struct sight {
    struct rota_store_space space;
    struct rota_store_node nodes[];
};

static enum rota_code read_space(struct rota_store_session *session,
                                 const struct rota_store_request *request,
                                 struct rota_store_answer *answer)
{
    char digest[ROTA_SHA256_TEXT_SIZE];
    rota_sha256_format(request->known_text, digest);
    const struct rota_store_argument arguments[] = {ROTA_STORE_STR("space", request->space),
                                                    ROTA_STORE_INT("known", request->known),
                                                    ROTA_STORE_STR("digest", rota_str(digest))};
    struct rota_sql_result result = {0};
    enum rota_code code = rota_store_run(session, READ, arguments, &result, &answer->error);
    if (code)
        return code == ROTA_ERR_UNKNOWN ? ROTA_ERR_UNAVAILABLE : code; /* it only reads */
    const struct rota_sql_result rows = result; /* the values stay where they are */
    struct sight *sight = rota_store_session_answer_rows(
        answer, 1, sizeof *sight + result.n_rows * sizeof *sight->nodes, &result);
    if (!sight) {
        rota_sql_result_deinit(&result);
        return ROTA_ERR_NO_MEMORY;
    }
    for (size_t i = 0; i < rows.n_rows; i++) {
        int64_t kind = rota_sql_int_at(&rows, i, 0);
        if (kind == 0) {
            sight->space = space_at(&rows, i);
            answer->n_spaces = 1;
        } else if (kind == 1) {
            sight->nodes[answer->n_nodes++] = node_at(&rows, i);
        } else {
            answer->highest = (uint64_t)rota_sql_int_at(&rows, i, 4);
        }
    }
    answer->spaces = &sight->space;
    answer->nodes = sight->nodes;
    return ROTA_OK;
}

static enum rota_code propose_view(struct rota_store_session *session,
                                   const struct rota_store_request *request,
                                   struct rota_store_answer *answer)
{
    const struct rota_store_space *config = &request->config;
    char digest[ROTA_SHA256_TEXT_SIZE];
    rota_sha256_format(request->known_text, digest);
    const struct rota_store_argument arguments[] = {
        ROTA_STORE_STR("name", config->name),    ROTA_STORE_STR("engine", config->engine),
        ROTA_STORE_STR("config", config->text),  ROTA_STORE_INT("version", config->version),
        ROTA_STORE_INT("known", request->known), ROTA_STORE_STR("digest", rota_str(digest)),
    };
    return change_row(session,
                      request->known ? "UPDATE rota_spaces SET engine = :engine, config = :config, "
                                       "version = :version WHERE name = :name AND version = :known "
                                       "AND " DIGEST
                                     : "$insert_new rota_spaces (name, engine, config, version) "
                                       "VALUES (:name, :engine, :config, :version) $or_nothing",
                      arguments, answer);
}

/* The condition on the nodes is the statement's own, so that a node that joins meanwhile either
 * keeps the space or finds it missing, as after a database that fell back. */
static enum rota_code delete_space(struct rota_store_session *session,
                                   const struct rota_store_request *request,
                                   struct rota_store_answer *answer)
{
    char digest[ROTA_SHA256_TEXT_SIZE];
    rota_sha256_format(request->known_text, digest);
    const struct rota_store_argument arguments[] = {ROTA_STORE_STR("space", request->space),
                                                    ROTA_STORE_INT("known", request->known),
                                                    ROTA_STORE_STR("digest", rota_str(digest))};
    return change_row(session,
                      "DELETE FROM rota_spaces WHERE name = :space AND version = :known AND " DIGEST
                      " AND NOT EXISTS (SELECT 1 FROM rota_space_nodes WHERE space = :space)",
                      arguments, answer);
}

enum rota_code rota_store_space_do(struct rota_store_session *session,
                                   const struct rota_store_request *request,
                                   struct rota_store_answer *answer)
{
    enum rota_code code = rota_store_text_now(session, &answer->db_now, &answer->error);
    if (code)
        return code == ROTA_ERR_UNKNOWN ? ROTA_ERR_UNAVAILABLE : code;
    if (request->verb == ROTA_STORE_SPACE_JOIN)
        return join_space(session, request, answer);
    if (request->verb == ROTA_STORE_SPACE_BEAT)
        return change_space(session, request,
                            "UPDATE rota_space_nodes SET " SET NODE "instance = :instance", answer);
    if (request->verb == ROTA_STORE_SPACE_LEAVE)
        return change_space(session, request,
                            "DELETE FROM rota_space_nodes " NODE "instance = :instance", answer);
    if (request->verb == ROTA_STORE_SPACE_EVICT)
        return change_space(
            session, request,
            "DELETE FROM rota_space_nodes " NODE "instance = :instance AND pings = :pings", answer);
    if (request->verb == ROTA_STORE_SPACE_READ)
        return read_space(session, request, answer);
    if (request->verb == ROTA_STORE_SPACE_DELETE)
        return delete_space(session, request, answer);
    return propose_view(session, request, answer);
}
