#include "store.h"

#include <stdio.h>

struct rota_store_session *store_open_with(rota_time statement_timeout)
{
    struct rota_sql_url url = database_url(false);
    struct rota_sql_options options = {.statement_timeout = statement_timeout};
    struct rota_store_session *session = NULL;
    struct rota_error error;
    if (rota_store_session_open(&url, &options, &session, &error))
        fail_msg("%s", error.text);
    return session;
}

struct rota_store_session *store_open(void)
{
    return store_open_with(20 * ROTA_SEC); /* for a busy machine */
}

struct rota_sql *store_admin(void)
{
    struct rota_sql_url url = database_url(true);
    struct rota_sql *sql = NULL;
    struct rota_error error;
    if (rota_sql_open(&url, NULL, &sql, &error))
        fail_msg("%s", error.text);
    return sql;
}

int64_t store_sql(struct rota_sql *sql, const char *text)
{
    struct rota_sql_result result = {0};
    struct rota_error error;
    if (rota_sql_run(sql, text, NULL, 0, &result, &error))
        fail_msg("%s: %s", text, error.text);
    int64_t number =
        result.n_rows > 0 ? rota_sql_int_at(&result, 0, 0) : (int64_t)result.n_affected;
    rota_sql_result_deinit(&result);
    return number;
}

void store_clear(void)
{
    static const char *const tables[] = {
        "rota_leases",     "rota_dcs",         "rota_holds",   "rota_history",       "rota_members",
        "rota_spaces",     "rota_jobs",        "rota_queues",  "rota_weights",       "rota_lives",
        "rota_partitions", "rota_space_nodes", "rota_layouts", "rota_queue_settings"};
    struct rota_store_session *session = store_open();
    char text[64];
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
        snprintf(text, sizeof text, "DELETE FROM %s", tables[i]);
        store_sql(session->sql, text);
    }
    rota_store_session_close(session);
}

struct rota_store_request store_request(enum rota_store_verb verb)
{
    return (struct rota_store_request){
        .verb = verb, .space = rota_str("cache"), .dc = rota_str("east"), .ttl = TTL};
}

enum rota_code store_do(struct rota_store_session *session,
                        const struct rota_store_request *request, struct rota_store_answer *answer)
{
    struct rota_error error;
    rota_store_session_answer_deinit(answer);
    if (rota_store_check_request(request, &error))
        fail_msg("%s", error.text);
    rota_store_session_do(session, request, answer);
    return answer->code;
}

void store_must(struct rota_store_session *session, const struct rota_store_request *request,
                struct rota_store_answer *answer)
{
    if (store_do(session, request, answer))
        fail_msg("%s", answer->error.text);
    if (request->verb != ROTA_STORE_SELECT)
        assert_true(answer->db_now > 1600000000 * ROTA_SEC);
    assert_true(answer->sent_at <= answer->heard_at);
}

struct rota_store_request store_claim_of(const char *host, uint64_t instance, uint32_t shards)
{
    struct rota_store_request request = store_request(ROTA_STORE_CLAIM);
    request.host = rota_str(host);
    request.instance = instance;
    request.shards = shards;
    return request;
}

struct rota_store_claimed store_claim(struct rota_store_session *session,
                                      const struct rota_store_request *request)
{
    struct rota_store_answer answer = {0};
    store_must(session, request, &answer);
    struct rota_store_claimed claimed = answer.claimed;
    rota_store_session_answer_deinit(&answer);
    return claimed;
}

struct rota_store_request store_of_lease(enum rota_store_verb verb, uint64_t instance,
                                         struct rota_store_claimed claimed)
{
    struct rota_store_request request = store_request(verb);
    request.instance = instance;
    request.shard = claimed.shard;
    request.epoch = claimed.epoch;
    return request;
}

bool store_ping(struct rota_store_session *session, uint64_t instance,
                struct rota_store_claimed claimed)
{
    struct rota_store_answer answer = {0};
    struct rota_store_request request = store_of_lease(ROTA_STORE_PING, instance, claimed);
    store_must(session, &request, &answer);
    bool is_ours = answer.holder.is_ours;
    rota_store_session_answer_deinit(&answer);
    return is_ours;
}

bool store_release(struct rota_store_session *session, uint64_t instance,
                   struct rota_store_claimed claimed)
{
    struct rota_store_answer answer = {0};
    struct rota_store_request request = store_of_lease(ROTA_STORE_RELEASE, instance, claimed);
    store_must(session, &request, &answer);
    bool is_ours = answer.holder.is_ours;
    rota_store_session_answer_deinit(&answer);
    return is_ours;
}

void store_name_dead(struct rota_store_session *session, uint32_t shard,
                     struct rota_lease_dead *dead, struct rota_store_request *request)
{
    struct rota_store_request list = store_request(ROTA_STORE_LEASES);
    struct rota_store_answer answer = {0};
    store_must(session, &list, &answer);
    assert_in_range(shard, 0, answer.n_leases - 1);
    *dead = (struct rota_lease_dead){
        .shard = shard, .epoch = answer.leases[shard].epoch, .pings = answer.leases[shard].pings};
    request->claim.dead = dead;
    request->claim.n_dead = 1;
    rota_store_session_answer_deinit(&answer);
}
