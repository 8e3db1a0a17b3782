/* What a space asks of the store: its nodes, and the row by which they agree. */
#include "store.h"

static struct rota_store_session *session;
static struct rota_store_answer answer;

static struct rota_store_request of_node(enum rota_store_verb verb, const char *name,
                                         uint64_t instance)
{
    struct rota_store_request request = store_request(verb);
    request.node = (struct rota_store_node){.name = rota_str(name),
                                            .instance = instance,
                                            .pings = 3,
                                            .ttl = TTL,
                                            .acked = 7,
                                            .highest = 9};
    return request;
}

static bool node_do(enum rota_store_verb verb, const char *name, uint64_t instance)
{
    struct rota_store_request request = of_node(verb, name, instance);
    store_must(session, &request, &answer);
    return answer.is_done;
}

static const struct rota_store_answer *read_known(uint64_t known, const char *text)
{
    struct rota_store_request request = store_request(ROTA_STORE_SPACE_READ);
    request.known = known;
    request.known_text = rota_str(text);
    store_must(session, &request, &answer);
    return &answer;
}

static const struct rota_store_answer *read_space(void)
{
    return read_known(0, "");
}

static bool propose(uint64_t known, const char *known_text, uint64_t version, const char *text)
{
    struct rota_store_request request = store_request(ROTA_STORE_SPACE_PROPOSE);
    request.known = known;
    request.known_text = rota_str(known_text);
    request.config = (struct rota_store_space){.name = rota_str("cache"),
                                               .engine = rota_str("ring"),
                                               .text = rota_str(text),
                                               .version = version};
    store_must(session, &request, &answer);
    return answer.is_done;
}

static int setup(void **state)
{
    (void)state;
    store_clear();
    session = store_open();
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    rota_store_session_answer_deinit(&answer);
    rota_store_session_close(session);
    return 0;
}

static void name_has_one_incarnation_at_a_time(void **state)
{
    (void)state;
    assert_true(node_do(ROTA_STORE_SPACE_JOIN, "a:1", 5));
    assert_false(node_do(ROTA_STORE_SPACE_JOIN, "a:1", 6));
    struct rota_store_request request = of_node(ROTA_STORE_SPACE_JOIN, "a:1", 6);
    request.former = 5;
    store_must(session, &request, &answer);
    assert_true(answer.is_done);
    assert_false(node_do(ROTA_STORE_SPACE_BEAT, "a:1", 5));
    assert_false(node_do(ROTA_STORE_SPACE_LEAVE, "a:1", 5));
    assert_true(node_do(ROTA_STORE_SPACE_BEAT, "a:1", 6));
    assert_true(node_do(ROTA_STORE_SPACE_LEAVE, "a:1", 6));
    assert_false(node_do(ROTA_STORE_SPACE_BEAT, "a:1", 6));
}

static void each_heartbeat_counts(void **state)
{
    (void)state;
    assert_true(node_do(ROTA_STORE_SPACE_JOIN, "a:1", 5));
    assert_true(read_space()->nodes[0].pings == 3);
    struct rota_store_request request = of_node(ROTA_STORE_SPACE_BEAT, "a:1", 5);
    request.node.pings = 1ULL << 61;
    request.node.acked = 1ULL << 60;
    request.node.is_draining = true;
    request.node.weight = 2000;
    store_must(session, &request, &answer);
    const struct rota_store_node *node = read_space()->nodes;
    assert_true(node->pings == 1ULL << 61);
    assert_true(node->acked == 1ULL << 60 && node->is_draining && node->weight == 2000);
    assert_true(node->ttl == TTL && node->highest == 9 && node->instance == 5);
}

static void only_the_very_row_that_was_seen_is_evicted(void **state)
{
    (void)state;
    assert_true(node_do(ROTA_STORE_SPACE_JOIN, "a:1", 5));
    struct rota_store_request request = of_node(ROTA_STORE_SPACE_EVICT, "a:1", 5);
    request.node.pings = 4;
    store_must(session, &request, &answer);
    assert_false(answer.is_done);
    request.node.pings = 3;
    store_must(session, &request, &answer);
    assert_true(answer.is_done);
    assert_int_equal(read_space()->n_nodes, 0);
}

static void version_that_is_not_replaced_refuses(void **state)
{
    (void)state;
    assert_int_equal(read_space()->n_spaces, 0);
    assert_true(propose(0, "", 100, "one"));
    assert_false(propose(0, "", 200, "two"));
    assert_false(propose(99, "one", 200, "two"));
    assert_true(propose(100, "one", 300, "three"));
    const struct rota_store_answer *seen = read_space();
    assert_int_equal(seen->n_spaces, 1);
    assert_true(seen->spaces->version == 300);
    assert_true(rota_str_is_equal(seen->spaces->text, rota_str("three")));
    assert_true(rota_str_is_equal(seen->spaces->engine, rota_str("ring")));
    assert_int_equal(read_known(300, "three")->spaces->text.size, 0);
}

static void version_that_comes_back_with_another_text_is_another(void **state)
{
    (void)state;
    assert_true(propose(0, "", 100, "eins, zw\u00f6lf"));
    assert_false(propose(100, "eins", 200, "two"));
    assert_int_equal(read_known(100, "eins, zw\u00f6lf")->spaces->text.size, 0);
    const struct rota_store_answer *seen = read_known(100, "eins");
    assert_true(rota_str_is_equal(seen->spaces->text, rota_str("eins, zw\u00f6lf")));
    assert_true(propose(100, "eins, zw\u00f6lf", 200, "two"));
}

static bool delete_known(uint64_t known, const char *text)
{
    struct rota_store_request request = store_request(ROTA_STORE_SPACE_DELETE);
    request.known = known;
    request.known_text = rota_str(text);
    store_must(session, &request, &answer);
    return answer.is_done;
}

static void space_with_nodes_or_another_version_is_not_deleted(void **state)
{
    (void)state;
    assert_false(delete_known(100, "one"));
    assert_true(propose(0, "", 100, "one"));
    assert_true(node_do(ROTA_STORE_SPACE_JOIN, "a:1", 5));
    assert_false(delete_known(100, "one"));
    assert_true(node_do(ROTA_STORE_SPACE_LEAVE, "a:1", 5));
    assert_false(delete_known(99, "one"));
    assert_false(delete_known(100, "another"));
    assert_int_equal(read_space()->n_spaces, 1);
    assert_true(delete_known(100, "one"));
    assert_int_equal(read_space()->n_spaces, 0);
}

static void read_shows_all_nodes_by_name_and_the_highest_lease(void **state)
{
    (void)state;
    assert_true(node_do(ROTA_STORE_SPACE_JOIN, "b:1", 5));
    assert_true(node_do(ROTA_STORE_SPACE_JOIN, "a:1", 6));
    struct rota_store_request other = of_node(ROTA_STORE_SPACE_JOIN, "c:1", 7);
    other.space = rota_str("another");
    store_must(session, &other, &answer);
    assert_true(read_space()->highest == 0);
    struct rota_store_request claim = store_claim_of("a:1", 6, 2);
    struct rota_store_claimed claimed = store_claim(session, &claim);
    const struct rota_store_answer *seen = read_space();
    assert_int_equal(seen->n_nodes, 2);
    assert_true(rota_str_is_equal(seen->nodes[0].name, rota_str("a:1")));
    assert_true(rota_str_is_equal(seen->nodes[1].name, rota_str("b:1")));
    assert_true(seen->highest == claimed.epoch);
}

static void invalid_values_are_refused(void **state)
{
    struct rota_error error;
    (void)state;
    struct rota_store_request request = of_node(ROTA_STORE_SPACE_JOIN, "", 5);
    assert_int_equal(rota_store_check_request(&request, &error), ROTA_ERR_INVALID);
    request = of_node(ROTA_STORE_SPACE_JOIN, "a:1", 0);
    assert_int_equal(rota_store_check_request(&request, &error), ROTA_ERR_INVALID);
    request = of_node(ROTA_STORE_SPACE_BEAT, "a:1", 5);
    request.node.ttl = 1;
    assert_int_equal(rota_store_check_request(&request, &error), ROTA_ERR_INVALID);
    request = store_request(ROTA_STORE_SPACE_PROPOSE);
    request.config = (struct rota_store_space){
        .name = rota_str("cache"), .engine = rota_str("ring"), .version = 4};
    request.known = 4;
    assert_int_equal(rota_store_check_request(&request, &error), ROTA_ERR_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(name_has_one_incarnation_at_a_time, setup, teardown),
        cmocka_unit_test_setup_teardown(each_heartbeat_counts, setup, teardown),
        cmocka_unit_test_setup_teardown(only_the_very_row_that_was_seen_is_evicted, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(version_that_is_not_replaced_refuses, setup, teardown),
        cmocka_unit_test_setup_teardown(version_that_comes_back_with_another_text_is_another, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(space_with_nodes_or_another_version_is_not_deleted, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(read_shows_all_nodes_by_name_and_the_highest_lease, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(invalid_values_are_refused, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
