/* Each allocation of each request to the store fails once: the answer says that, whole or not at
 * all, and the session continues. On SQLite, whose own allocations are made by its library. */
#include "no_memory.h"
#include "store.h"

static struct rota_store_session *session;
static struct rota_store_claimed claimed[2];

/* Carries it out without some of the memory, and if that fails, with all of it. */
static void attempt(const struct rota_store_request *request, struct rota_store_answer *answer)
{
    NO_MEMORY_DURING(rota_store_session_do(session, request, answer));
    if (answer->code) {
        assert_true(no_memory_has_failed());
        /* With another code if it was done before it could be answered. */
        if (answer->code == ROTA_ERR_INVALID || !strstr(answer->error.text, "not enough memory"))
            fail_msg("verb %d: %s", request->verb, answer->error.text);
        no_memory_end();
        assert_true(rota_store_session_is_alive(session));
        rota_store_session_answer_deinit(answer);
        rota_store_session_do(session, request, answer);
        if (answer->code)
            fail_msg("verb %d, with memory: %s", request->verb, answer->error.text);
    }
}

static void renew_all(void)
{
    enum { PINGS = 20 }; /* more values than fit without another allocation */
    struct rota_store_ping pings[PINGS] = {{claimed[0].shard, claimed[0].epoch},
                                           {claimed[1].shard, claimed[1].epoch}};
    struct rota_store_request request = store_request(ROTA_STORE_PINGS);
    struct rota_store_answer answer = {0};
    request.instance = 1;
    request.pings = pings;
    request.n_pings = PINGS;
    for (uint32_t i = 2; i < PINGS; i++)
        pings[i] = (struct rota_store_ping){10 + i, 7};
    attempt(&request, &answer);
    assert_int_equal(answer.n_holders, PINGS);
    assert_true(answer.holders[0].is_ours && answer.holders[1].is_ours);
    assert_false(answer.holders[PINGS - 1].is_ours);
    rota_store_session_answer_deinit(&answer);
}

static void read_all(void)
{
    static const struct rota_str names[] = {{"east", 4}, {"west", 4}};
    struct rota_store_request request = store_request(ROTA_STORE_LEASES);
    struct rota_store_answer answer = {0};
    attempt(&request, &answer);
    assert_int_equal(answer.n_leases, 2);
    assert_true(rota_str_is_equal(answer.leases[1].host, rota_str("a-host-with-a-long-name")));
    rota_store_session_answer_deinit(&answer);
    request.verb = ROTA_STORE_HISTORY;
    attempt(&request, &answer);
    assert_int_equal(answer.n_history, 2);
    rota_store_session_answer_deinit(&answer);
    request.verb = ROTA_STORE_DCS;
    attempt(&request, &answer);
    assert_int_equal(answer.n_dcs, 1);
    assert_true(rota_str_is_equal(answer.dcs[0].name, names[0]));
    rota_store_session_answer_deinit(&answer);
    request = (struct rota_store_request){.verb = ROTA_STORE_SELECT,
                                          .table = rota_str("things"),
                                          .key_column = rota_str("name"),
                                          .value_column = rota_str("color"),
                                          .keys = names,
                                          .n_keys = 2};
    attempt(&request, &answer);
    assert_int_equal(answer.n_values, 2);
    rota_store_session_answer_deinit(&answer);
}

static void list_members(void)
{
    static const struct rota_str more[] = {{"a:2", 3}, {"a:3", 3}};
    struct rota_store_request request = {.verb = ROTA_STORE_BEAT,
                                         .member = {.address = rota_str("a:1"), .ttl = TTL},
                                         .keys = more,
                                         .n_keys = 2};
    struct rota_store_answer answer = {0};
    attempt(&request, &answer);
    rota_store_session_answer_deinit(&answer);
    request.verb = ROTA_STORE_MEMBERS;
    attempt(&request, &answer);
    assert_int_equal(answer.n_members, 3);
    assert_true(rota_str_is_equal(answer.members[2].address, more[1]));
    rota_store_session_answer_deinit(&answer);
}

static void keep_space(void)
{
    struct rota_store_request request = {
        .verb = ROTA_STORE_SPACE_BEAT,
        .space = rota_str("s"),
        .node = {.name = rota_str("n"), .instance = 1, .ttl = TTL}};
    struct rota_store_answer answer = {0};
    attempt(&request, &answer);
    assert_true(answer.is_done);
    rota_store_session_answer_deinit(&answer);
    request.verb = ROTA_STORE_SPACE_READ;
    attempt(&request, &answer);
    assert_int_equal(answer.n_nodes, 1);
    assert_int_equal(answer.n_spaces, 1);
    assert_true(rota_str_is_equal(answer.spaces[0].text, rota_str("a text")));
    rota_store_session_answer_deinit(&answer);
    request.verb = ROTA_STORE_SPACES;
    attempt(&request, &answer);
    assert_int_equal(answer.n_spaces, 1);
    rota_store_session_answer_deinit(&answer);
}

/* All shards are taken, and why is found out. */
static void claim_none(void)
{
    const struct rota_store_request request = store_claim_of("another-host", 2, 2);
    struct rota_store_answer answer = {0};
    attempt(&request, &answer);
    assert_int_equal(answer.claimed.result, ROTA_STORE_CLAIM_NONE);
    rota_store_session_answer_deinit(&answer);
}

/* What the scenarios find. */
static void fill_store(void)
{
    struct rota_store_request request = store_claim_of("a-host-with-a-long-name", 1, 2);
    struct rota_store_answer answer = {0};
    struct rota_sql *sql = store_admin();
    store_clear();
    session = store_open();
    for (size_t i = 0; i < 2; i++)
        claimed[i] = store_claim(session, &request);
    request =
        (struct rota_store_request){.verb = ROTA_STORE_SPACE_JOIN,
                                    .space = rota_str("s"),
                                    .node = {.name = rota_str("n"), .instance = 1, .ttl = TTL}};
    store_must(session, &request, &answer);
    request = (struct rota_store_request){.verb = ROTA_STORE_SPACE_PROPOSE,
                                          .space = rota_str("s"),
                                          .config = {.name = rota_str("s"),
                                                     .engine = rota_str("ring"),
                                                     .version = 1,
                                                     .text = rota_str("a text")}};
    store_must(session, &request, &answer);
    rota_store_session_answer_deinit(&answer);
    rota_store_session_close(session);
    store_sql(sql, "CREATE TABLE IF NOT EXISTS things (name TEXT PRIMARY KEY, color TEXT)");
    store_sql(sql, "DELETE FROM things");
    store_sql(sql, "INSERT INTO things VALUES ('east', 'red'), ('west', 'a rather long color')");
    rota_sql_close(sql);
}

static void (*verbs)(void);

static void scenario(void)
{
    session = store_open();
    verbs();
    rota_store_session_close(session);
}

static void each_allocation_fails_in(void (*what)(void))
{
    fill_store();
    verbs = what;
    no_memory_everywhere(scenario);
}

#define RULE(name)                                                                                 \
    static void name##_without_memory(void **state)                                                \
    {                                                                                              \
        (void)state;                                                                               \
        each_allocation_fails_in(name);                                                            \
    }

RULE(renew_all)
RULE(claim_none)
RULE(read_all)
RULE(list_members)
RULE(keep_space)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(renew_all_without_memory),  cmocka_unit_test(claim_none_without_memory),
        cmocka_unit_test(read_all_without_memory),   cmocka_unit_test(list_members_without_memory),
        cmocka_unit_test(keep_space_without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
