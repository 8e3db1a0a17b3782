/* Spaces that operators create and delete, on SQLite. */
#include "core/own/view.h"
#include "loop.h"
#include "run/own/space_admin.h"
#include "wire/text/view_text.h"

#include <rota/experimental/lease.h>
#include <rota/experimental/store_ask.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static char folder[64];
static struct rota_store *store;
static struct rota_space_admin admin;
static struct rota_error error;
static uint64_t version; /* of the space that was read last; 0: there is none */
static uint32_t n_shards;
static bool is_read;

struct outcome {
    enum rota_code code;
    char text[ROTA_SPACE_TEXT_MAX], error[ROTA_ERROR_TEXT_MAX];
    bool is_told;
};

static int set_up(void **state)
{
    char url[128];
    loop_set_up(state);
    snprintf(folder, sizeof folder, "/tmp/rota-test-XXXXXX");
    assert_non_null(mkdtemp(folder));
    snprintf(url, sizeof url, "sqlite:%s/store.db", folder);
    const struct rota_store_options options = {.url = url, .statement_timeout = 60 * ROTA_SEC};
    if (rota_store_open(&loop, &options, &store, &error))
        fail_msg("%s", error.text);
    return 0;
}

static int tear_down(void **state)
{
    char command[128];
    rota_store_close(store);
    snprintf(command, sizeof command, "rm -r %s", folder);
    assert_int_equal(system(command), 0);
    return loop_tear_down(state);
}

static void on_outcome(void *data, const struct rota_space_outcome *told)
{
    struct outcome *outcome = data;
    assert_false(outcome->is_told);
    outcome->is_told = true;
    outcome->code = told->code;
    snprintf(outcome->text, sizeof outcome->text, "%s", told->text);
    snprintf(outcome->error, sizeof outcome->error, "%s", told->code ? told->error.text : "");
}

static struct rota_space_options ring_of(uint32_t n)
{
    return (struct rota_space_options){.name = "things", .engine = "ring", .n_shards = n};
}

static struct outcome create_as(struct rota_space_options options, bool is_dry_run)
{
    struct outcome outcome = {0};
    if (rota_space_admin_create(&admin, store, &options, is_dry_run, on_outcome, &outcome, &error))
        fail_msg("%s", error.text);
    RUN_UNTIL(outcome.is_told);
    return outcome;
}

static struct outcome delete_as(const char *name, bool is_dry_run)
{
    struct outcome outcome = {0};
    if (rota_space_admin_delete(&admin, store, rota_str(name), is_dry_run, on_outcome, &outcome,
                                &error))
        fail_msg("%s", error.text);
    RUN_UNTIL(outcome.is_told);
    return outcome;
}

static void on_space(void *data, const struct rota_store_answer *answer)
{
    struct rota_view view = {0};
    (void)data;
    assert_int_equal(answer->code, ROTA_OK);
    is_read = true;
    version = 0;
    if (answer->n_spaces == 0)
        return;
    assert_int_equal(rota_view_text_parse(answer->spaces->text, &view, NULL), ROTA_OK);
    version = answer->spaces->version;
    n_shards = view.n_shards;
    assert_int_equal(view.number, version);
    rota_view_deinit(&view);
}

static void read_space(void)
{
    const struct rota_store_request request = {.verb = ROTA_STORE_SPACE_READ,
                                               .space = rota_str("things")};
    is_read = false;
    assert_int_equal(rota_store_ask(store, &request, on_space, NULL, &error), ROTA_OK);
    RUN_UNTIL(is_read);
}

static void assert_outcome(struct outcome outcome, enum rota_code code, const char *phrase)
{
    if (outcome.code != code || !strstr(code ? outcome.error : outcome.text, phrase))
        fail_msg("%d: \"%s\" \"%s\"", outcome.code, outcome.text, outcome.error);
}

static void a_space_is_created_and_deleted_once(void **state)
{
    (void)state;
    assert_outcome(create_as(ring_of(4), true), ROTA_OK,
                   "space things would be created with engine ring and 4 shards");
    read_space();
    assert_int_equal(version, 0);
    assert_outcome(create_as(ring_of(4), false), ROTA_OK,
                   "space things was created with engine ring and 4 shards");
    read_space();
    assert_true(version >
                UINT64_C(1000) * 1000 * 1000 * 1000); /* in ms, by the clock of the store */
    assert_int_equal(n_shards, 4);
    uint64_t first = version;
    assert_outcome(create_as(ring_of(8), false), ROTA_ERR_INVALID,
                   "space things exists already, with engine ring");
    assert_outcome(delete_as("things", true), ROTA_OK, "space things would be deleted");
    read_space();
    assert_int_equal(version, first);
    assert_outcome(delete_as("things", false), ROTA_OK, "space things was deleted");
    read_space();
    assert_int_equal(version, 0);
    assert_outcome(delete_as("things", false), ROTA_ERR_NOT_FOUND, "there is no space \"things\"");
    struct outcome one = create_as(ring_of(1), false);
    assert_string_equal(one.text, "space things was created with engine ring and 1 shard");
    read_space();
    assert_true(version >= first); /* by the clock of the store: epochs do not go back */
}

static void a_static_space_has_its_nodes(void **state)
{
    struct rota_space_options options = ring_of(4);
    char *many = malloc(3 * (ROTA_VIEW_SEATS_MAX + 2));
    size_t size = 0;
    (void)state;
    assert_non_null(many);
    options.engine = "static";
    options.seats = many;
    for (int i = 0; i <= ROTA_VIEW_SEATS_MAX; i++)
        size += (size_t)sprintf(many + size, "%sa", i ? "," : "");
    assert_outcome(create_as(options, true), ROTA_ERR_INVALID, "more than 1024 nodes in the list");
    free(many);
    options.seats = "a,b,a";
    assert_outcome(create_as(options, false), ROTA_OK, "with engine static and 4 shards");
    read_space();
    assert_true(version > 0);
}

static void on_stop(void *data, uint32_t shard, uint64_t epoch, rota_time until)
{
    (void)until;
    rota_space_stopped(*(struct rota_space **)data, shard, epoch);
}

static void on_change(void *data)
{
    (void)data;
}

static void on_closed(void *data)
{
    *(bool *)data = true;
}

static void a_space_with_members_is_not_deleted(void **state)
{
    struct rota_space *space;
    struct rota_space_options options = ring_of(4);
    bool is_closed = false;
    (void)state;
    options.member = "a:1";
    options.is_alone = true;
    options.ttl = 30 * ROTA_SEC;
    options.on_stop = on_stop;
    options.on_change = on_change;
    options.data = &space;
    assert_int_equal(rota_space_open(&loop, store, &options, &space, &error), ROTA_OK);
    RUN_UNTIL(rota_space_map(space)->n_owned == 4);
    assert_outcome(delete_as("things", true), ROTA_ERR_INVALID,
                   "it has 1 member, for example \"a:1\"; stop the processes");
    rota_space_close(space, on_closed, &is_closed);
    RUN_UNTIL(is_closed);
    assert_outcome(delete_as("things", false), ROTA_OK, "was deleted");
}

/* Both have read that there is none. */
static void of_two_requests_at_once_one_is_done(void **state)
{
    struct rota_space_admin other;
    struct outcome outcomes[2] = {0};
    struct rota_space_options options = ring_of(4);
    (void)state;
    assert_int_equal(
        rota_space_admin_create(&admin, store, &options, false, on_outcome, &outcomes[0], &error),
        ROTA_OK);
    assert_int_equal(
        rota_space_admin_create(&other, store, &options, false, on_outcome, &outcomes[1], &error),
        ROTA_OK);
    RUN_UNTIL(outcomes[0].is_told && outcomes[1].is_told);
    assert_outcome(outcomes[0], ROTA_OK, "was created");
    assert_outcome(outcomes[1], ROTA_ERR_INVALID, "was changed at the same time");
}

static void one_that_is_forgotten_has_no_outcome(void **state)
{
    struct outcome outcome = {0};
    struct rota_space_options options = ring_of(4);
    (void)state;
    assert_int_equal(
        rota_space_admin_create(&admin, store, &options, true, on_outcome, &outcome, &error),
        ROTA_OK);
    rota_space_admin_forget(&admin);
    read_space();
    read_space();
    assert_false(outcome.is_told);
}

static void assert_refused(struct rota_space_options options, const char *phrase)
{
    struct outcome outcome = {0};
    assert_int_equal(
        rota_space_admin_create(&admin, store, &options, true, on_outcome, &outcome, &error),
        ROTA_ERR_INVALID);
    if (!strstr(error.text, phrase))
        fail_msg("%s", error.text);
}

static void invalid_spaces_are_refused(void **state)
{
    static const char *const names[] = {"", "a b", "a/b", "a:", "`", "{", "@", "[", "\xc3\xa4"};
    static const char *const engines[] = {"ring", "lease", "group"};
    char longest[ROTA_SPACE_ADMIN_NAME_MAX + 2];
    struct rota_space_options options = ring_of(4);
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        options.name = names[i];
        assert_refused(options, "is not the name of a space: 1 to 200 letters");
        assert_int_equal(rota_space_admin_delete(&admin, store, rota_str(names[i]), true,
                                                 on_outcome, NULL, &error),
                         ROTA_ERR_INVALID);
    }
    memset(longest, 'x', sizeof longest);
    longest[sizeof longest - 1] = '\0';
    options.name = longest;
    assert_refused(options, "is not the name of a space");
    options.name = longest + 1;
    assert_outcome(create_as(options, true), ROTA_OK, "would be created");
    options.name = "azAZ09._-";
    assert_outcome(create_as(options, true), ROTA_OK, "space azAZ09._- would be created");
    options.engine = "rings";
    assert_refused(options, "unknown engine \"rings\"; use static, ring, lease or group");
    for (int i = 0; i < 3; i++) {
        options.engine = engines[i];
        uint32_t most = i == 0 ? ROTA_SPACE_SHARDS_MAX : ROTA_LEASE_SHARDS_MAX;
        options.n_shards = 0;
        assert_refused(options, "shards, not 0");
        options.n_shards = most + 1;
        assert_refused(options, "has 1 to ");
        options.n_shards = most;
        assert_outcome(create_as(options, true), ROTA_OK, "would be created");
        options.seats = "a";
        assert_refused(options, "only a static space has a list of nodes");
        options.seats = "";
    }
    options.n_shards = 4;
    options.engine = "static";
    assert_refused(options, "a static space needs its list of nodes");
}

#define RULE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        RULE(a_space_is_created_and_deleted_once),  RULE(a_static_space_has_its_nodes),
        RULE(a_space_with_members_is_not_deleted),  RULE(of_two_requests_at_once_one_is_done),
        RULE(one_that_is_forgotten_has_no_outcome), RULE(invalid_spaces_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
