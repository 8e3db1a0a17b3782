/* Members that say for themselves that they are well, and a membership of them. */
#include "await.h"
#include "database.h"
#include "store.h"

#include <rota/experimental/store_members.h>
#include <stdio.h>
#include <string.h>

static uv_loop_t loop;
static struct rota_store *store;
static struct rota_members *members;
static size_t n_changes, n_errors;
static char last_error[ROTA_ERROR_TEXT_MAX];

static void on_change(void *data, const struct rota_members_change *change)
{
    (void)data;
    (void)change;
    n_changes++;
}

static void on_error(void *data, const struct rota_error *error)
{
    (void)data;
    n_errors++;
    snprintf(last_error, sizeof last_error, "%s", error->text);
}

static void open_members(const char *role)
{
    struct rota_members_options options = {.on_error = on_error};
    struct rota_members_source *source;
    struct rota_error error;
    if (rota_store_members_new(store, role, 20 * ROTA_MSEC, &source, &error) ||
        rota_members_open(&loop, source, &options, &members, &error) ||
        rota_members_subscribe(members, "test", on_change, NULL, &error))
        fail_msg("%s", error.text);
}

static struct rota_heartbeat *beat(const char *address, const char *roles)
{
    struct rota_store_member member = {.address = rota_str(address),
                                       .roles = rota_str(roles),
                                       .zone = rota_str("z"),
                                       .weight = 2000,
                                       .ttl = ROTA_SEC};
    struct rota_heartbeat *heartbeat;
    struct rota_error error;
    if (rota_heartbeat_open(&loop, store, &member, NULL, 0, NULL, &heartbeat, &error))
        fail_msg("%s", error.text);
    return heartbeat;
}

/* The members' addresses, those on the ring with a '+'. */
static const char *shown(void)
{
    static char text[256];
    size_t n;
    const struct rota_member *list = rota_members_list(members, &n);
    text[0] = 0;
    for (size_t i = 0; i < n; i++) {
        size_t used = strlen(text);
        snprintf(text + used, sizeof text - used, "%s%s%.*s", used ? " " : "",
                 list[i].is_placed ? "+" : "", (int)list[i].host.address.size,
                 list[i].host.address.data);
    }
    return text;
}

static void await_members(const char *wanted)
{
    while (strcmp(shown(), wanted) != 0)
        await(&loop, &n_changes, n_changes + 1);
}

static void set_member(struct rota_store_member member)
{
    struct rota_store_session *session = store_open();
    struct rota_store_request request = {.verb = ROTA_STORE_MEMBER_STATE, .member = member};
    struct rota_store_answer answer = {0};
    store_must(session, &request, &answer);
    assert_true(answer.is_done);
    rota_store_session_answer_deinit(&answer);
    rota_store_session_close(session);
}

static void set_state(const char *address, enum rota_store_member_state state)
{
    set_member((struct rota_store_member){.address = rota_str(address), .state = state});
}

static int setup(void **state)
{
    struct rota_store_options options = {.url = database_text("ROTA_TEST_URL"),
                                         .statement_timeout = 20 * ROTA_SEC};
    struct rota_error error;
    (void)state;
    store_clear();
    uv_loop_init(&loop);
    n_changes = n_errors = 0;
    members = NULL;
    if (rota_store_open(&loop, &options, &store, &error))
        fail_msg("%s", error.text);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    rota_members_close(members);
    rota_store_close(store);
    uv_run(&loop, UV_RUN_DEFAULT); /* its thread ends */
    assert_int_equal(uv_loop_close(&loop), 0);
    return 0;
}

static void processes_with_heartbeats_are_members(void **state)
{
    (void)state;
    open_members(NULL);
    struct rota_heartbeat *a = beat("a:1", "cache"), *b = beat("b:1", "cache,queue");
    await_members("+a:1 +b:1");
    size_t n;
    const struct rota_member *list = rota_members_list(members, &n);
    assert_int_equal(list[0].host.weight, 2000);
    assert_true(rota_str_is_equal(list[0].host.zone, rota_str("z")));
    rota_heartbeat_close(a);
    await_members("+b:1"); /* when its ttl is over */
    rota_heartbeat_close(b);
    rota_heartbeat_close(NULL);
}

static void role_chooses_among_them(void **state)
{
    (void)state;
    open_members("queue");
    struct rota_heartbeat *a = beat("a:1", "cache"), *b = beat("b:1", "cache,queue"),
                          *c = beat("c:1", "queues"), *d = beat("d:1", "queue");
    await_members("+b:1 +d:1");
    rota_heartbeat_close(a);
    rota_heartbeat_close(b);
    rota_heartbeat_close(c);
    rota_heartbeat_close(d);
}

static void operators_drain_and_evict(void **state)
{
    (void)state;
    open_members(NULL);
    struct rota_heartbeat *a = beat("a:1", ""), *b = beat("b:1", ""), *c = beat("c:1", "");
    await_members("+a:1 +b:1 +c:1");
    set_state("b:1", ROTA_STORE_MEMBER_DRAINING);
    set_state("c:1", ROTA_STORE_MEMBER_EVICTED);
    await_members("+a:1 b:1"); /* and no beat changes that */
    set_state("c:1", ROTA_STORE_MEMBER_IN);
    await_members("+a:1 b:1 +c:1");
    rota_heartbeat_close(a);
    rota_heartbeat_close(b);
    rota_heartbeat_close(c);
}

static void drain_that_is_due_comes_unless_the_state_is_set_before(void **state)
{
    (void)state;
    open_members(NULL);
    struct rota_heartbeat *a = beat("a:1", ""), *b = beat("b:1", "");
    await_members("+a:1 +b:1");
    set_member((struct rota_store_member){.address = rota_str("a:1"), .drain_in = ROTA_USEC});
    await_members("a:1 +b:1");
    set_member((struct rota_store_member){.address = rota_str("a:1"), .drain_in = ROTA_DAY});
    await_members("+a:1 +b:1"); /* that of before is gone */
    set_member((struct rota_store_member){.address = rota_str("b:1"), .drain_in = ROTA_USEC});
    await_members("+a:1 b:1");
    set_state("b:1", ROTA_STORE_MEMBER_IN);
    await_members("+a:1 +b:1");
    rota_heartbeat_close(a);
    rota_heartbeat_close(b);
}

static void empty_live_list_keeps_the_membership(void **state)
{
    (void)state;
    open_members(NULL);
    struct rota_heartbeat *a = beat("a:1", "");
    await_members("+a:1");
    rota_heartbeat_close(a);
    await(&loop, &n_errors, 1);
    assert_string_equal(shown(), "+a:1");
    assert_true(strlen(last_error) > 10);
}

static void bad_members_are_refused(void **state)
{
    struct rota_store_member member = {.address = rota_str("a b\n")};
    struct rota_heartbeat *heartbeat;
    struct rota_members_source *source;
    struct rota_error error;
    (void)state;
    assert_int_equal(rota_heartbeat_open(&loop, store, &member, NULL, 0, NULL, &heartbeat, &error),
                     ROTA_ERR_INVALID);
    member = (struct rota_store_member){.address = rota_str("a:1"), .ttl = -1};
    assert_int_equal(rota_heartbeat_open(&loop, store, &member, NULL, 0, NULL, &heartbeat, &error),
                     ROTA_ERR_INVALID);
    const struct rota_str more[] = {rota_str("a:2"), rota_str("")};
    member.ttl = 0;
    assert_int_equal(rota_heartbeat_open(&loop, store, &member, more, 2, NULL, &heartbeat, &error),
                     ROTA_ERR_INVALID);
    assert_int_equal(rota_store_members_new(store, "a,b", 0, &source, &error), ROTA_ERR_INVALID);
    assert_int_equal(rota_store_members_new(store, NULL, -1, &source, &error), ROTA_ERR_INVALID);
    assert_int_equal(rota_store_members_new(store, "a", 0, &source, &error), ROTA_OK);
    source->stop(source); /* never started */
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(processes_with_heartbeats_are_members),
        TEST(role_chooses_among_them),
        TEST(operators_drain_and_evict),
        TEST(drain_that_is_due_comes_unless_the_state_is_set_before),
        TEST(empty_live_list_keeps_the_membership),
        TEST(bad_members_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
