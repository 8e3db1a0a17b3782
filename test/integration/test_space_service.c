/* rota.v1.Space over a space that is made up here, so that it says whatever a test wants. */
#include "run/own/space_service.h"

#include "echo.h"
#include "loop.h"

#include <stdio.h>
#include <stdlib.h>

/* --- a space of three shards --- */

struct rota_space {
    struct rota_space_map map;
    struct rota_space_shard shards[3];
    struct rota_str nodes[2];
    rota_space_on_outcome *on_outcome; /* of the change that waits */
    void *data;
    enum rota_code refusal; /* of changes, at once */
    uint32_t shard;
    char text[64];
    rota_time shadow;
    bool is_dry_run;
};

const struct rota_space_map *rota_space_map(const struct rota_space *space)
{
    return &space->map;
}

uint64_t rota_space_epoch(const struct rota_space *space, uint32_t shard)
{
    return space->map.shards[shard].owner == 0 ? 70 + shard : 0;
}

char *rota_space_explain(const struct rota_space *space, uint32_t shard, char *text, size_t size)
{
    (void)space;
    snprintf(text, size, "because %u", shard);
    return text;
}

size_t rota_space_history(const struct rota_space *space, uint32_t shard,
                          struct rota_space_event *events, size_t n_max)
{
    assert_true(n_max >= 2);
    events[0] = (struct rota_space_event){.at = 7 * ROTA_SEC,
                                          .shard = shard,
                                          .epoch = 5,
                                          .state = ROTA_SPACE_OWNED,
                                          .owner = space->nodes[1]};
    events[1] = (struct rota_space_event){.shard = shard, .state = ROTA_SPACE_UNOWNED};
    return 2;
}

bool rota_space_has_engine(struct rota_str name)
{
    return rota_str_is_equal(name, rota_str("lease"));
}

const char *rota_space_phase_name(enum rota_space_phase phase)
{
    return phase == ROTA_SPACE_SHADOW ? "shadow" : "another";
}

static enum rota_code take(struct rota_space *space, struct rota_str text, bool is_dry_run,
                           rota_space_on_outcome *on_outcome, void *data, struct rota_error *error)
{
    if (space->refusal)
        return rota_error_set(error, space->refusal, "refused at once");
    assert_null(space->on_outcome);
    snprintf(space->text, sizeof space->text, "%.*s", ROTA_STR_ARGS(text));
    space->is_dry_run = is_dry_run;
    space->on_outcome = on_outcome;
    space->data = data;
    return ROTA_OK;
}

enum rota_code rota_space_pin(struct rota_space *space, uint32_t shard, struct rota_str node,
                              bool is_dry_run, rota_space_on_outcome *on_outcome, void *data,
                              struct rota_error *error)
{
    space->shard = shard;
    return take(space, node, is_dry_run, on_outcome, data, error);
}

enum rota_code rota_space_migrate(struct rota_space *space, struct rota_str engine,
                                  rota_time shadow, bool is_dry_run,
                                  rota_space_on_outcome *on_outcome, void *data,
                                  struct rota_error *error)
{
    space->shadow = shadow;
    return take(space, engine, is_dry_run, on_outcome, data, error);
}

enum rota_code rota_space_reseat(struct rota_space *space, const char *seats, bool is_dry_run,
                                 rota_space_on_outcome *on_outcome, void *data,
                                 struct rota_error *error)
{
    return take(space, rota_str(seats), is_dry_run, on_outcome, data, error);
}

static void tell_outcome(struct rota_space *space, enum rota_code code, const char *text)
{
    struct rota_space_outcome outcome = {.code = code, .text = text};
    rota_space_on_outcome *on_outcome = space->on_outcome;
    snprintf(outcome.error.text, sizeof outcome.error.text, "%s", text);
    space->on_outcome = NULL;
    on_outcome(space->data, &outcome);
}

/* --- asking --- */

struct fixture {
    struct rota_space space;
    struct rota_server *server;
    struct rota_space_service *service;
    struct rota_channel *channel;
    struct rota_arena arena;
    struct rota_call *call; /* in flight */
    char *message;
    size_t size;
    char text[512];
    bool is_over;
    enum rota_status status;
    size_t n_done; /* changes that were told */
};

static void on_done(void *data, struct rota_str space, const char *text, const char *actor)
{
    assert_true(rota_str_is_equal(space, rota_str("orders")));
    assert_string_equal(text, "it goes there");
    assert_memory_equal(actor, "127.0.0.1:", 10); /* all that a server without rules knows */
    ((struct fixture *)data)->n_done++;
}

static void open_all(struct fixture *f)
{
    struct rota_error error;
    struct rota_space *space = &f->space;
    *f = (struct fixture){0};
    space->nodes[0] = rota_str("a:1");
    space->nodes[1] = rota_str("b:1");
    space->shards[0] = (struct rota_space_shard){.epoch = 4, .owner = 0, .is_pinned = true};
    space->shards[1] =
        (struct rota_space_shard){.epoch = 5, .owner = 1, .state = ROTA_SPACE_MOVING};
    space->shards[2] =
        (struct rota_space_shard){.owner = ROTA_SPACE_NOBODY, .state = ROTA_SPACE_UNOWNED};
    space->map = (struct rota_space_map){.name = rota_str("orders"),
                                         .engine = rota_str("ring"),
                                         .version = 9,
                                         .nodes = space->nodes,
                                         .n_nodes = 2,
                                         .shards = space->shards,
                                         .n_shards = 3,
                                         .n_owned = 1,
                                         .n_moving = 1};
    if (rota_server_open(&loop, NULL, &f->server, &error) ||
        rota_space_service_open(f->server, NULL, on_done, f, &f->service, &error) ||
        rota_space_service_add(f->service, space, &error) ||
        rota_server_listen(f->server, "127.0.0.1:0", &error) ||
        rota_channel_open(&loop, rota_server_address(f->server, 0), NULL, &f->channel, &error))
        fail_msg("%s", error.text);
}

static void close_all(struct fixture *f)
{
    rota_channel_close(f->channel);
    rota_space_service_end(f->service);
    rota_server_close(f->server);
    rota_space_service_close(f->service);
    uv_run(&loop, UV_RUN_DEFAULT);
    rota_arena_deinit(&f->arena);
    free(f->message);
}

static void on_end(void *data, struct rota_call *call, const struct rota_call_result *result)
{
    struct fixture *f = data;
    (void)call;
    f->status = result->status;
    snprintf(f->text, sizeof f->text, "%.*s", ROTA_STR_ARGS(result->text));
    free(f->message);
    f->size = result->message.size;
    f->message = malloc(f->size + 1);
    assert_non_null(f->message);
    if (f->size > 0)
        memcpy(f->message, result->message.data, f->size);
    f->is_over = true;
}

static void begin(struct fixture *f, const char *method, struct rota_str request)
{
    char path[64];
    snprintf(path, sizeof path, "/rota.v1.Space/%s", method);
    struct rota_call_options options = {
        .method = rota_str(path), .request = request, .on_end = on_end, .data = f};
    f->is_over = false;
    assert_int_equal(rota_channel_call(f->channel, &options, &f->call, NULL), ROTA_OK);
}

static void begin_with(struct fixture *f, const char *method, const struct rota_message_type *type,
                       const struct rota_space_request *request)
{
    struct rota_buffer bytes = {0};
    rota_message_encode(type, request, &bytes);
    begin(f, method, rota_buffer_str(&bytes));
    rota_buffer_deinit(&bytes);
}

static enum rota_status ask(struct fixture *f, const char *method,
                            const struct rota_message_type *type,
                            const struct rota_space_request *request)
{
    begin_with(f, method, type, request);
    RUN_UNTIL(f->is_over);
    return f->status;
}

static void read_reply(struct fixture *f, const struct rota_message_type *type, void *reply)
{
    assert_int_equal(f->status, ROTA_STATUS_OK);
    assert_int_equal(
        rota_message_decode(type, rota_str_of(f->message, f->size), reply, &f->arena, NULL),
        ROTA_OK);
}

#define ORDERS .space = rota_str("orders")

/* --- tests --- */

static void spaces_are_listed_and_shown(void **state)
{
    struct fixture f;
    struct rota_space_list list;
    struct rota_space_show show;
    (void)state;
    open_all(&f);
    f.space.map.phase = ROTA_SPACE_SHADOW;
    f.space.map.to = rota_str("lease");
    f.space.map.n_differences = 2;
    f.space.map.trouble = "the store is away";
    begin(&f, "List", rota_str(""));
    RUN_UNTIL(f.is_over);
    read_reply(&f, &ROTA_SPACE_LIST_REPLY, &list);
    const struct rota_space_info *info = list.spaces.items;
    const struct rota_space_migration_info *migration = info->migration;
    assert_int_equal(list.spaces.n, 1);
    assert_int_equal(info->n_shards, 3);
    assert_int_equal(migration->differences, 2);
    assert_true(rota_str_is_equal(migration->phase, rota_str("shadow")));
    assert_true(rota_str_is_equal(info->trouble, rota_str("the store is away")));

    ask(&f, "Show", &ROTA_SPACE_SHOW, &(struct rota_space_request){ORDERS});
    read_reply(&f, &ROTA_SPACE_SHOW_REPLY, &show);
    const struct rota_space_claim_info *claims = show.shards.items;
    assert_int_equal(show.shards.n, 3);
    assert_int_equal(show.nodes.n, 2);
    assert_int_equal(claims[0].owner, 1);
    assert_true(claims[0].is_pinned);
    assert_int_equal(claims[0].held, 70);
    assert_int_equal(claims[1].held, 0);
    assert_int_equal(claims[1].owner, 2);
    assert_int_equal(claims[1].state, ROTA_SPACE_MOVING);
    assert_int_equal(claims[2].owner, 0);
    close_all(&f);
}

static void shard_is_explained_with_its_history(void **state)
{
    struct fixture f;
    struct rota_space_explanation reply;
    (void)state;
    open_all(&f);
    ask(&f, "Explain", &ROTA_SPACE_EXPLAIN, &(struct rota_space_request){ORDERS, .shard = 1});
    read_reply(&f, &ROTA_SPACE_EXPLAIN_REPLY, &reply);
    const struct rota_space_change *history = reply.history.items;
    assert_true(rota_str_is_equal(reply.owner, rota_str("b:1")));
    assert_true(rota_str_is_equal(reply.why, rota_str("because 1")));
    assert_int_equal(reply.history.n, 2);
    assert_int_equal(history[0].at_ms, 7000);
    assert_true(rota_str_is_equal(history[1].what, rota_str("unowned")));
    ask(&f, "Explain", &ROTA_SPACE_EXPLAIN, &(struct rota_space_request){ORDERS, .shard = 2});
    read_reply(&f, &ROTA_SPACE_EXPLAIN_REPLY, &reply);
    assert_int_equal(reply.owner.size, 0);
    close_all(&f);
}

static void missing_names_are_refused(void **state)
{
    static const char *const METHODS[] = {"Show", "Explain", "Pin", "Migrate"};
    struct fixture f;
    (void)state;
    open_all(&f);
    struct rota_space_request other = {.space = rota_str("other")};
    struct rota_space_request beyond = {ORDERS, .shard = 3};
    assert_int_equal(ask(&f, "Show", &ROTA_SPACE_SHOW, &other), ROTA_STATUS_NOT_FOUND);
    assert_int_equal(ask(&f, "Explain", &ROTA_SPACE_EXPLAIN, &beyond), ROTA_STATUS_NOT_FOUND);
    assert_non_null(strstr(f.text, "0 to 2, not 3"));
    assert_int_equal(ask(&f, "Pin", &ROTA_SPACE_PIN, &beyond), ROTA_STATUS_NOT_FOUND);
    for (size_t i = 0; i < 4; i++) {
        begin(&f, METHODS[i], rota_str("\n\5x"));
        RUN_UNTIL(f.is_over);
        assert_int_equal(f.status, ROTA_STATUS_INVALID_ARGUMENT);
    }
    f.space.map.engine = rota_str(""); /* the store has not answered */
    assert_int_equal(ask(&f, "Show", &ROTA_SPACE_SHOW, &(struct rota_space_request){ORDERS}),
                     ROTA_STATUS_UNAVAILABLE);
    close_all(&f);
}

static void pin_is_answered_when_it_is_in_the_store(void **state)
{
    struct fixture f;
    struct rota_space_plan plan;
    struct rota_space_request request = {ORDERS, .shard = 2, .node = rota_str("b:1")};
    (void)state;
    open_all(&f);
    begin_with(&f, "Pin", &ROTA_SPACE_PIN, &request);
    RUN_UNTIL(f.space.on_outcome);
    assert_false(f.is_over);
    assert_int_equal(f.space.shard, 2);
    assert_string_equal(f.space.text, "b:1");
    tell_outcome(&f.space, ROTA_OK, "it goes there");
    RUN_UNTIL(f.is_over);
    read_reply(&f, &ROTA_SPACE_PLAN_REPLY, &plan);
    assert_true(plan.is_done);
    assert_true(rota_str_is_equal(plan.plan.items[0], rota_str("it goes there")));

    request.is_dry_run = true;
    begin_with(&f, "Pin", &ROTA_SPACE_PIN, &request);
    RUN_UNTIL(f.space.on_outcome);
    assert_true(f.space.is_dry_run);
    tell_outcome(&f.space, ROTA_OK, "it would");
    RUN_UNTIL(f.is_over);
    read_reply(&f, &ROTA_SPACE_PLAN_REPLY, &plan);
    assert_false(plan.is_done);
    assert_int_equal(f.n_done, 1); /* not of the dry run */
    close_all(&f);
}

static void refusals_say_what_to_do(void **state)
{
    static const struct {
        enum rota_code code;
        enum rota_status status;
    } CASES[] = {
        {ROTA_ERR_INVALID, ROTA_STATUS_FAILED_PRECONDITION},
        {ROTA_ERR_LIMIT, ROTA_STATUS_RESOURCE_EXHAUSTED},
        {ROTA_ERR_UNAVAILABLE, ROTA_STATUS_UNAVAILABLE},
        {ROTA_ERR_STALE, ROTA_STATUS_ABORTED},
        {ROTA_ERR_UNKNOWN, ROTA_STATUS_UNKNOWN},
    };
    struct fixture f;
    struct rota_space_request request = {ORDERS, .engine = rota_str("lease"), .shadow_ms = 5};
    (void)state;
    open_all(&f);
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        begin_with(&f, "Migrate", &ROTA_SPACE_MIGRATE, &request);
        RUN_UNTIL(f.space.on_outcome);
        assert_true(f.space.shadow == 5 * ROTA_MSEC);
        tell_outcome(&f.space, CASES[i].code, "not now");
        RUN_UNTIL(f.is_over);
        assert_int_equal(f.status, CASES[i].status);
        assert_string_equal(f.text, "not now");
        f.space.refusal = CASES[i].code;
        assert_int_equal(ask(&f, "Migrate", &ROTA_SPACE_MIGRATE, &request), CASES[i].status);
        f.space.refusal = ROTA_OK;
    }
    request.engine = rota_str("rign");
    assert_int_equal(ask(&f, "Migrate", &ROTA_SPACE_MIGRATE, &request),
                     ROTA_STATUS_INVALID_ARGUMENT);
    close_all(&f);
}

static void waiting_callers_learn_that_the_service_ends(void **state)
{
    struct fixture f;
    struct rota_space_request request = {ORDERS, .engine = rota_str("lease")};
    (void)state;
    open_all(&f);
    begin_with(&f, "Migrate", &ROTA_SPACE_MIGRATE, &request);
    RUN_UNTIL(f.space.on_outcome);
    rota_space_service_end(f.service);
    RUN_UNTIL(f.is_over);
    assert_int_equal(f.status, ROTA_STATUS_UNKNOWN);
    assert_int_equal(ask(&f, "Show", &ROTA_SPACE_SHOW, &request), ROTA_STATUS_UNAVAILABLE);
    close_all(&f);
}

static void disconnected_caller_is_ignored(void **state)
{
    struct fixture f;
    struct rota_space_request request = {ORDERS, .node = rota_str("a:1")};
    (void)state;
    open_all(&f);
    begin_with(&f, "Pin", &ROTA_SPACE_PIN, &request);
    RUN_UNTIL(f.space.on_outcome);
    rota_call_cancel(f.call);
    RUN_UNTIL(rota_server_counts(f.server).cancelled_total == 1);
    tell_outcome(&f.space, ROTA_OK, "it goes there");
    RUN_UNTIL(rota_server_counts(f.server).calls == 0);
    close_all(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(spaces_are_listed_and_shown),    TEST(shard_is_explained_with_its_history),
        TEST(missing_names_are_refused),      TEST(pin_is_answered_when_it_is_in_the_store),
        TEST(refusals_say_what_to_do),        TEST(waiting_callers_learn_that_the_service_ends),
        TEST(disconnected_caller_is_ignored),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
