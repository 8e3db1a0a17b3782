/* The messages of rota.v1.Space: a space comes through whole, and as JSON. */
#include "wire/message/message_json.h"
#include "wire/message/space_message.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

static struct rota_buffer buffer;
static struct rota_arena arena;

static int tear_down(void **state)
{
    (void)state;
    rota_buffer_deinit(&buffer);
    rota_arena_deinit(&arena);
    buffer = (struct rota_buffer){0};
    arena = (struct rota_arena){0};
    return 0;
}

static void space_of_many_shards_comes_through(void **state)
{
    enum { N = ROTA_SPACE_SHARDS_MAX };
    struct rota_space_claim_info *claims = calloc(N + 1, sizeof *claims);
    struct rota_str nodes[] = {rota_str("a:1"), rota_str("b:1")};
    struct rota_space_migration_info migration = {.to = rota_str("lease"), .differences = 3};
    struct rota_space_info info = {
        .name = rota_str("orders"), .n_shards = N, .migration = &migration};
    struct rota_space_show show = {.space = &info, .nodes = {nodes, 2}, .shards = {claims, N}},
                           read;
    (void)state;
    assert_non_null(claims);
    for (uint32_t i = 0; i < N; i++)
        claims[i] = (struct rota_space_claim_info){.owner = i % 3, .epoch = i, .state = i % 3};
    rota_message_encode(&ROTA_SPACE_SHOW_REPLY, &show, &buffer);
    assert_int_equal(
        rota_message_decode(&ROTA_SPACE_SHOW_REPLY, rota_buffer_str(&buffer), &read, &arena, NULL),
        ROTA_OK);
    const struct rota_space_claim_info *read_claims = read.shards.items;
    const struct rota_space_info *read_info = read.space;
    const struct rota_space_migration_info *read_migration = read_info->migration;
    assert_int_equal(read.shards.n, N);
    assert_memory_equal(read_claims, claims, N * sizeof *claims);
    assert_int_equal(read_migration->differences, 3);
    assert_int_equal(read.nodes.n, 2);

    show.shards.n = N + 1; /* one too many */
    rota_buffer_clear(&buffer);
    rota_message_encode(&ROTA_SPACE_SHOW_REPLY, &show, &buffer);
    assert_int_equal(
        rota_message_decode(&ROTA_SPACE_SHOW_REPLY, rota_buffer_str(&buffer), &read, &arena, NULL),
        ROTA_ERR_LIMIT);
    free(claims);
}

static void documents_have_the_members_that_pages_read(void **state)
{
    struct rota_space_info info = {
        .name = rota_str("s"), .engine = rota_str("ring"), .n_shards = 2, .n_owned = 1};
    struct rota_space_list list = {.spaces = {&info, 1}};
    struct rota_space_explanation explanation = {.shard = 7, .state = ROTA_SPACE_MOVING};
    struct rota_json json = {.buffer = &buffer};
    (void)state;
    rota_message_json_write(&ROTA_SPACE_LIST_REPLY, &list, &json);
    assert_string_equal(buffer.data,
                        "{\"spaces\":[{\"name\":\"s\",\"engine\":\"ring\",\"n_shards\":2,"
                        "\"version\":0,\"n_owned\":1,\"n_moving\":0,\"migration\":null,"
                        "\"trouble\":\"\"}]}");
    rota_buffer_clear(&buffer);
    json = (struct rota_json){.buffer = &buffer};
    rota_message_json_write(&ROTA_SPACE_EXPLAIN_REPLY, &explanation, &json);
    assert_string_equal(buffer.data, "{\"shard\":7,\"owner\":\"\",\"epoch\":0,\"state\":\"moving\","
                                     "\"why\":\"\",\"history\":[],\"is_pinned\":false,"
                                     "\"owner_name\":\"\"}");
}

static void null_stands_for_missing_fields(void **state)
{
    struct rota_space_request request;
    (void)state;
    assert_int_equal(rota_message_json_read(&ROTA_SPACE_PIN_BODY,
                                            rota_str("{\"node\": null , \"is_dry_run\":true}"),
                                            &request, &arena, NULL),
                     ROTA_OK);
    assert_int_equal(request.node.size, 0);
    assert_true(request.is_dry_run);
    static const char *const WRONG[] = {"{\"node\":nul}", "{\"node\":nulll}", "{\"node\":null",
                                        "{\"node\":[null]}", "{\"space\":\"s\"}"};
    for (size_t i = 0; i < sizeof WRONG / sizeof *WRONG; i++)
        assert_int_equal(rota_message_json_read(&ROTA_SPACE_PIN_BODY, rota_str(WRONG[i]), &request,
                                                &arena, NULL),
                         ROTA_ERR_INVALID);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_teardown(name, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(space_of_many_shards_comes_through),
        TEST(documents_have_the_members_that_pages_read),
        TEST(null_stands_for_missing_fields),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
