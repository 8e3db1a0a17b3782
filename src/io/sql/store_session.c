#include "io/sql/store_inside.h"

#include "core/place/node_name.h"
#include "io/clock.h"

#include <rota/ring.h>
#include <stdlib.h>

/* --- sessions --- */

/* The other two follow the settings of each session. */
static enum rota_code check_durable(struct rota_store_session *session, struct rota_error *error)
{
    struct rota_sql_result result = {0};
    enum rota_code code = rota_store_text_run_n(session, "SELECT @@innodb_flush_log_at_trx_commit",
                                                NULL, 0, &result, error);
    if (!code && result.n_rows == 1 && rota_sql_int_at(&result, 0, 0) != 1)
        session->warning = "innodb_flush_log_at_trx_commit is not 1: if its machine fails, the "
                           "database loses leases that it has granted";
    rota_sql_result_deinit(&result);
    return code;
}

enum rota_code rota_store_session_open(const struct rota_sql_url *url,
                                       const struct rota_sql_options *options,
                                       struct rota_store_session **session,
                                       struct rota_error *error)
{
    struct rota_store_session *made = calloc(1, sizeof *made);
    if (!made)
        return rota_error_no_memory(error, "for a store");
    made->kind = url->kind;
    enum rota_code code = rota_sql_open(url, options, &made->sql, error);

    /* A claim goes through its list in order. */
    if (!code && made->kind == ROTA_SQL_MYSQL)
        code =
            rota_store_text_run_n(made, "SET SESSION join_cache_level = 0", NULL, 0, NULL, error);
    if (!code && made->kind == ROTA_SQL_MYSQL)
        code = check_durable(made, error);
    if (!code && !(options && options->is_reader))
        code = rota_store_schema_open(made, error);
    if (code) {
        rota_store_session_close(made);
        return code == ROTA_ERR_UNKNOWN ? ROTA_ERR_UNAVAILABLE : code;
    }
    *session = made;
    return ROTA_OK;
}

void rota_store_session_close(struct rota_store_session *session)
{
    if (!session)
        return;
    rota_sql_close(session->sql);
    rota_buffer_deinit(&session->text);
    rota_vector_deinit(&session->values);
    free(session);
}

bool rota_store_session_is_alive(const struct rota_store_session *session)
{
    return rota_sql_is_alive(session->sql);
}

int rota_store_session_upgraded_from(const struct rota_store_session *session)
{
    return session->upgraded_from;
}

bool rota_store_session_is_closed(const struct rota_store_session *session)
{
    return rota_sql_is_closed(session->sql);
}

const char *rota_store_session_warning(const struct rota_store_session *session)
{
    return session->warning;
}

/* --- the memory of an answer --- */

struct memory {
    struct rota_sql_result result; /* the texts */
    _Alignas(max_align_t) char rows[];
};

void *rota_store_session_answer_rows(struct rota_store_answer *answer, size_t n, size_t size,
                                     struct rota_sql_result *result)
{
    struct memory *memory = calloc(1, sizeof *memory + n * size + 1);
    if (!memory) {
        rota_error_no_memory(&answer->error, "for an answer");
        return NULL;
    }
    memory->result = *result;
    *result = (struct rota_sql_result){0};
    answer->memory = memory;
    return memory->rows;
}

void rota_store_session_answer_clear(struct rota_store_answer *answer)
{
    struct memory *memory = answer->memory;
    if (memory)
        rota_sql_result_deinit(&memory->result);
    free(memory);
    answer->memory = NULL;
}

void rota_store_session_answer_deinit(struct rota_store_answer *answer)
{
    rota_store_session_answer_clear(answer);
    *answer = (struct rota_store_answer){0};
}

/* --- lists --- */

/* Run a SELECT and make rows of `size` bytes of its result, each filled by `read`. */
static void *list_rows(struct rota_store_session *session, const char *text,
                       const struct rota_store_argument *arguments, size_t n_arguments, size_t size,
                       void (*read)(const struct rota_sql_result *result, size_t row, void *made),
                       struct rota_store_answer *answer, size_t *n_rows, enum rota_code *code)
{
    struct rota_sql_result result = {0};
    *code = rota_store_text_now(session, &answer->db_now, &answer->error);
    if (!*code)
        *code =
            rota_store_text_run_n(session, text, arguments, n_arguments, &result, &answer->error);
    if (*code) {
        if (*code == ROTA_ERR_UNKNOWN)
            *code = ROTA_ERR_UNAVAILABLE; /* it only reads */
        return NULL;
    }
    size_t n = result.n_rows;
    char *rows = rota_store_session_answer_rows(answer, n, size, &result);
    if (!rows) {
        *code = ROTA_ERR_NO_MEMORY;
        rota_sql_result_deinit(&result);
        return NULL;
    }
    const struct memory *memory = answer->memory;
    for (size_t i = 0; i < n; i++)
        read(&memory->result, i, rows + i * size);
    *n_rows = n;
    return rows;
}

static void read_lease(const struct rota_sql_result *result, size_t row, void *made)
{
    *(struct rota_store_lease *)made = (struct rota_store_lease){
        .dc = rota_sql_bytes_at(result, row, 0),
        .shard = (uint32_t)rota_sql_int_at(result, row, 1),
        .shards = (uint32_t)rota_sql_int_at(result, row, 2),
        .host = rota_sql_bytes_at(result, row, 3),
        .instance = (uint64_t)rota_sql_int_at(result, row, 4),
        .epoch = (uint64_t)rota_sql_int_at(result, row, 5),
        .locked_at = rota_store_time(rota_sql_int_at(result, row, 6)),
        .last_ping = rota_store_time(rota_sql_int_at(result, row, 7)),
        .ttl = rota_store_span(rota_sql_int_at(result, row, 8)),
        .pings = (uint64_t)rota_sql_int_at(result, row, 9),
    };
}

static enum rota_code do_leases(struct rota_store_session *session,
                                const struct rota_store_request *request,
                                struct rota_store_answer *answer)
{
    const struct rota_store_argument arguments[] = {
        ROTA_STORE_STR("space", request->space),
        ROTA_STORE_STR("dc", request->dc),
    };
    enum rota_code code;
    const char *text =
        request->dc.size
            ? "SELECT dc, shard, shards, host, instance, epoch, locked_at, "
              "last_ping, ttl_ms, pings FROM rota_leases WHERE space = :space AND dc = :dc "
              "ORDER BY dc, shard"
            : "SELECT dc, shard, shards, host, instance, epoch, locked_at, "
              "last_ping, ttl_ms, pings FROM rota_leases WHERE space = :space "
              "ORDER BY dc, shard";
    answer->leases = list_rows(session, text, arguments, 2, sizeof *answer->leases, read_lease,
                               answer, &answer->n_leases, &code);
    return code;
}

static void read_event(const struct rota_sql_result *result, size_t row, void *made)
{
    *(struct rota_store_event *)made = (struct rota_store_event){
        .dc = rota_sql_bytes_at(result, row, 0),
        .shard = (uint32_t)rota_sql_int_at(result, row, 1),
        .host = rota_sql_bytes_at(result, row, 2),
        .epoch = (uint64_t)rota_sql_int_at(result, row, 3),
        .is_release = rota_sql_int_at(result, row, 4) != 0,
        .at = rota_store_time(rota_sql_int_at(result, row, 5)),
        .shards = (uint32_t)rota_sql_int_at(result, row, 6),
    };
}

static enum rota_code do_history(struct rota_store_session *session,
                                 const struct rota_store_request *request,
                                 struct rota_store_answer *answer)
{
    const struct rota_store_argument arguments[] = {
        ROTA_STORE_STR("space", request->space),
        ROTA_STORE_INT("most", ROTA_STORE_HISTORY_MAX),
    };
    enum rota_code code;
    answer->history = list_rows(session,
                                "SELECT dc, shard, host, epoch, is_release, at, shards FROM "
                                "rota_history "
                                "WHERE space = :space ORDER BY id DESC LIMIT :most",
                                arguments, 2, sizeof *answer->history, read_event, answer,
                                &answer->n_history, &code);
    return code;
}

static void read_dc(const struct rota_sql_result *result, size_t row, void *made)
{
    *(struct rota_store_dc *)made = (struct rota_store_dc){
        .space = rota_sql_bytes_at(result, row, 0),
        .name = rota_sql_bytes_at(result, row, 1),
        .shards = (uint32_t)rota_sql_int_at(result, row, 2),
    };
}

static enum rota_code do_dcs(struct rota_store_session *session,
                             const struct rota_store_request *request,
                             struct rota_store_answer *answer)
{
    const struct rota_store_argument arguments[] = {ROTA_STORE_STR("space", request->space)};
    enum rota_code code;
    const char *text = request->space.size
                           ? "SELECT space, dc, shards FROM rota_dcs WHERE space = :space "
                             "ORDER BY space, dc"
                           : "SELECT space, dc, shards FROM rota_dcs ORDER BY space, dc";
    answer->dcs = list_rows(session, text, arguments, request->space.size > 0, sizeof *answer->dcs,
                            read_dc, answer, &answer->n_dcs, &code);
    return code;
}

/* --- members --- */

static void read_member(const struct rota_sql_result *result, size_t row, void *made)
{
    int64_t state = rota_sql_int_at(result, row, 4);
    struct rota_str name = rota_sql_bytes_at(result, row, 9);
    *(struct rota_store_member *)made = (struct rota_store_member){
        .address = rota_sql_bytes_at(result, row, 0),
        .roles = rota_sql_bytes_at(result, row, 1),
        .zone = rota_sql_bytes_at(result, row, 2),
        .weight = (uint32_t)rota_sql_int_at(result, row, 3),
        .state = state == ROTA_STORE_MEMBER_IN         ? ROTA_STORE_MEMBER_IN
                 : state == ROTA_STORE_MEMBER_DRAINING ? ROTA_STORE_MEMBER_DRAINING
                                                       : ROTA_STORE_MEMBER_EVICTED,
        .start_at = rota_store_time(rota_sql_int_at(result, row, 5)),
        .stop_at = rota_store_time(rota_sql_int_at(result, row, 6)),
        .ttl = rota_store_span(rota_sql_int_at(result, row, 7)),
        .heartbeat = rota_store_time(rota_sql_int_at(result, row, 8)),
        .name = rota_node_name_is_valid(name) ? name : rota_str(""),
    };
}

static enum rota_code do_members(struct rota_store_session *session,
                                 struct rota_store_answer *answer)
{
    enum rota_code code;
    answer->members =
        list_rows(session,
                  "SELECT address, roles, zone, weight, CASE WHEN state = 0 AND drain_at > 0 "
                  "AND drain_at <= $now THEN 1 ELSE state END, start_at, stop_at, ttl_ms, "
                  "heartbeat, name FROM rota_members ORDER BY address",
                  NULL, 0, sizeof *answer->members, read_member, answer, &answer->n_members, &code);
    return code;
}

/* The member's address, and then the others that the request has. */
static struct rota_str address_at(const struct rota_store_request *request, size_t index)
{
    return index == 0 ? request->member.address : request->keys[index - 1];
}

/* The clock is read first, so that a missing answer leaves no doubt about what was written. */
static enum rota_code do_beat(struct rota_store_session *session,
                              const struct rota_store_request *request,
                              struct rota_store_answer *answer)
{
    const struct rota_store_member *member = &request->member;
    struct rota_store_argument arguments[] = {
        ROTA_STORE_STR("address", member->address),
        ROTA_STORE_STR("roles", member->roles),
        ROTA_STORE_STR("zone", member->zone),
        ROTA_STORE_INT("weight", member->weight ? member->weight : ROTA_WEIGHT_ONE),
        ROTA_STORE_INT("start_at", rota_store_us(member->start_at)),
        ROTA_STORE_INT("stop_at", rota_store_us(member->stop_at)),
        ROTA_STORE_INT("ttl_ms", member->ttl / ROTA_MSEC),
        ROTA_STORE_STR("name", member->name),
    };
    const size_t n = sizeof arguments / sizeof *arguments;
    enum rota_code code = rota_store_text_now(session, &answer->db_now, &answer->error);
    if (code)
        return code == ROTA_ERR_UNKNOWN ? ROTA_ERR_UNAVAILABLE : code;
    rota_store_text_begin(session);
    bool is_written = rota_store_text_append(
        session,
        "INSERT INTO rota_members (address, roles, zone, weight, state, start_at, stop_at, "
        "ttl_ms, heartbeat, name) VALUES ",
        arguments, n);
    for (size_t i = 0; is_written && i <= request->n_keys; i++) {
        arguments[0].value = rota_sql_bytes(address_at(request, i));
        rota_buffer_append_text(&session->text, i ? ", " : "");
        is_written = rota_store_text_append(
            session, "(:address, :roles, :zone, :weight, 0, :start_at, :stop_at, :ttl_ms, $now, ",
            arguments, n);
        is_written =
            is_written && rota_store_text_append(session, i ? "'')" : ":name)", arguments, n);
    }
    is_written =
        is_written && rota_store_text_append(
                          session,
                          " $or_update_address roles = :roles, zone = :zone, weight = :weight, "
                          "start_at = :start_at, stop_at = :stop_at, ttl_ms = :ttl_ms, "
                          "heartbeat = $now, name = :name",
                          arguments, n);
    return rota_store_text_run(session, is_written, NULL, &answer->error);
}

/* `text` ends with the list of addresses that it opens. */
static enum rota_code change_members(struct rota_store_session *session,
                                     const struct rota_store_request *request, const char *text,
                                     struct rota_store_answer *answer)
{
    struct rota_sql_result result = {0};
    const struct rota_store_argument arguments[] = {
        ROTA_STORE_INT("state", request->member.state),
        ROTA_STORE_INT("drain_in", rota_store_us(request->member.drain_in)),
    };
    enum rota_code code = rota_store_text_now(session, &answer->db_now, &answer->error);
    if (code)
        return code == ROTA_ERR_UNKNOWN ? ROTA_ERR_UNAVAILABLE : code;
    rota_store_text_begin(session);
    bool is_written = rota_store_text_append(session, text, arguments, 2);
    for (size_t i = 0; is_written && i <= request->n_keys; i++) {
        const struct rota_store_argument address =
            ROTA_STORE_STR("address", address_at(request, i));
        is_written = rota_store_text_append(session, i ? ", :address" : ":address", &address, 1);
    }
    rota_buffer_append_char(&session->text, ')');
    code = rota_store_text_run(session, is_written, &result, &answer->error);
    answer->is_done = !code && result.n_affected > 0;
    rota_sql_result_deinit(&result);
    return code;
}

/* --- spaces --- */

static void read_space(const struct rota_sql_result *result, size_t row, void *made)
{
    *(struct rota_store_space *)made = (struct rota_store_space){
        .name = rota_sql_bytes_at(result, row, 0),
        .engine = rota_sql_bytes_at(result, row, 1),
        .text = rota_sql_bytes_at(result, row, 2),
        .version = (uint64_t)rota_sql_int_at(result, row, 3),
    };
}

static enum rota_code list_spaces(struct rota_store_session *session, struct rota_str name,
                                  struct rota_store_answer *answer)
{
    const struct rota_store_argument arguments[] = {ROTA_STORE_STR("name", name)};
    enum rota_code code;
    const char *text = name.size ? "SELECT name, engine, config, version FROM rota_spaces "
                                   "WHERE name = :name"
                                 : "SELECT name, engine, '', version FROM rota_spaces "
                                   "ORDER BY name";
    answer->spaces = list_rows(session, text, arguments, 1, sizeof *answer->spaces, read_space,
                               answer, &answer->n_spaces, &code);
    return code;
}

static enum rota_code do_space_put(struct rota_store_session *session,
                                   const struct rota_store_request *request,
                                   struct rota_store_answer *answer)
{
    const struct rota_store_space *config = &request->config;
    struct rota_sql_result result = {0};
    const struct rota_store_argument arguments[] = {
        ROTA_STORE_STR("name", config->name),
        ROTA_STORE_STR("engine", config->engine),
        ROTA_STORE_STR("config", config->text),
        ROTA_STORE_INT("version", config->version),
    };
    const char *text =
        config->version
            ? "UPDATE rota_spaces SET engine = :engine, config = :config, version = version + 1 "
              "WHERE name = :name AND version = :version"
            : "$insert_new rota_spaces (name, engine, config, version) "
              "VALUES (:name, :engine, :config, 1) $or_nothing";
    enum rota_code code = rota_store_run(session, text, arguments, &result, &answer->error);
    bool is_done = result.n_affected > 0;
    rota_sql_result_deinit(&result);
    if (code)
        return code;
    code = list_spaces(session, config->name, answer);
    answer->is_done = is_done;
    return code && is_done ? ROTA_ERR_UNKNOWN : code; /* it was written, and can't be shown */
}

static void read_secret(const struct rota_sql_result *result, size_t row, void *made)
{
    *(struct rota_store_value *)made = (struct rota_store_value){
        .key = rota_sql_bytes_at(result, row, 0), .value = rota_sql_bytes_at(result, row, 1)};
}

static enum rota_code do_secret(struct rota_store_session *session,
                                const struct rota_store_request *request,
                                struct rota_store_answer *answer)
{
    const struct rota_store_argument arguments[] = {
        ROTA_STORE_STR("name", request->config.name),
        ROTA_STORE_STR("value", request->config.text),
    };
    enum rota_code code = rota_store_run(session,
                                         "$insert_new rota_secrets (name, value) "
                                         "VALUES (:name, :value) $or_nothing",
                                         arguments, NULL, &answer->error);
    if (!code)
        answer->values =
            list_rows(session, "SELECT name, value FROM rota_secrets WHERE name = :name", arguments,
                      1, sizeof *answer->values, read_secret, answer, &answer->n_values, &code);
    return code;
}

/* --- requests --- */

static enum rota_code dispatch_request(struct rota_store_session *session,
                                       const struct rota_store_request *request,
                                       struct rota_store_answer *answer)
{
    switch (request->verb) {
    case ROTA_STORE_CLAIM:
        return rota_store_lease_do_claim(session, request, answer);
    case ROTA_STORE_PING:
        return rota_store_lease_do_ping(session, request, answer);
    case ROTA_STORE_PINGS:
        return rota_store_pings_do(session, request, answer);
    case ROTA_STORE_RELEASE:
        return rota_store_lease_do_release(session, request, answer);
    case ROTA_STORE_LEASES:
        return do_leases(session, request, answer);
    case ROTA_STORE_HISTORY:
        return do_history(session, request, answer);
    case ROTA_STORE_DCS:
        return do_dcs(session, request, answer);
    case ROTA_STORE_HOLD:
        return rota_store_lease_do_hold(session, request, answer);
    case ROTA_STORE_BEAT:
        return do_beat(session, request, answer);
    case ROTA_STORE_MEMBERS:
        return do_members(session, answer);
    case ROTA_STORE_MEMBER_STATE:
        return change_members(session, request,
                              request->member.drain_in > 0
                                  ? "UPDATE rota_members SET state = :state, "
                                    "drain_at = $now + :drain_in WHERE address IN ("
                                  : "UPDATE rota_members SET state = :state, drain_at = 0 "
                                    "WHERE address IN (",
                              answer);
    case ROTA_STORE_MEMBER_REMOVE:
        return change_members(session, request, "DELETE FROM rota_members WHERE address IN (",
                              answer);
    case ROTA_STORE_SPACE_PUT:
        return do_space_put(session, request, answer);
    case ROTA_STORE_SPACES:
        return list_spaces(session, request->space, answer);
    case ROTA_STORE_SPACE_JOIN:
    case ROTA_STORE_SPACE_BEAT:
    case ROTA_STORE_SPACE_LEAVE:
    case ROTA_STORE_SPACE_EVICT:
    case ROTA_STORE_SPACE_READ:
    case ROTA_STORE_SPACE_PROPOSE:
    case ROTA_STORE_SPACE_DELETE:
        return rota_store_space_do(session, request, answer);
    case ROTA_STORE_SECRET:
        return do_secret(session, request, answer);
    case ROTA_STORE_QUEUES:
    case ROTA_STORE_QUEUE_PUT:
        return rota_store_settings_do(session, request, answer);
    case ROTA_STORE_SELECT:
        return rota_store_select_do(session, request, answer);
    }
    return ROTA_ERR_INVALID;
}

void rota_store_session_do(struct rota_store_session *session,
                           const struct rota_store_request *request,
                           struct rota_store_answer *answer)
{
    *answer = (struct rota_store_answer){.sent_at = rota_clock_boot()};
    answer->code = rota_sql_look(session->sql, &answer->error);
    if (!answer->code)
        answer->code = dispatch_request(session, request, answer);
    answer->error.code = answer->code;
    answer->heard_at = rota_clock_boot();
}
