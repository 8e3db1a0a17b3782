/* A follower of a space gets exactly the changes since its last update. */
#include "node/rules/space_watch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

enum { N = 3 };

static struct rota_space_shard shards[N];
static struct rota_str nodes[3];
static struct rota_space_map map;
static struct rota_space_watch watch;
static struct rota_buffer buffer;

static int set_up(void **state)
{
    (void)state;
    nodes[0] = rota_str("a:1");
    nodes[1] = rota_str("b:1");
    nodes[2] = rota_str("c:1");
    for (uint32_t i = 0; i < N; i++)
        shards[i] = (struct rota_space_shard){.epoch = 5, .owner = 0};
    map = (struct rota_space_map){.name = rota_str("s"),
                                  .version = 1,
                                  .nodes = nodes,
                                  .n_nodes = 2,
                                  .shards = shards,
                                  .n_shards = N};
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    rota_space_watch_deinit(&watch);
    rota_buffer_deinit(&buffer);
    buffer = (struct rota_buffer){0};
    return 0;
}

static uint64_t look(void)
{
    map.version++;
    assert_true(rota_space_watch_look(&watch, &map));
    return watch.stamp;
}

static void check_changes(uint64_t after, const char *text)
{
    struct rota_json json = {.buffer = &buffer};
    rota_buffer_clear(&buffer);
    rota_space_watch_write(&watch, &map, after, &json);
    const char *changed = strstr(buffer.data, "\"changed\":");
    assert_non_null(changed);
    assert_string_equal(changed + sizeof "\"changed\":" - 1, text);
}

static void a_new_follower_gets_all(void **state)
{
    (void)state;
    shards[2].owner = ROTA_SPACE_NOBODY;
    shards[2].state = ROTA_SPACE_UNOWNED;
    look();
    check_changes(0, "[[0,0,5,0],[1,0,5,0],[2,-1,5,2]]}");
}

static void later_updates_have_only_changes(void **state)
{
    (void)state;
    uint64_t first = look();
    assert_true(look() == first); /* a version with the same shards */
    shards[1] = (struct rota_space_shard){.epoch = 6, .owner = 1, .state = ROTA_SPACE_MOVING};
    uint64_t second = look();
    assert_true(second > first);
    shards[0].epoch = 7;
    uint64_t third = look();
    check_changes(second, "[[0,0,7,0]]}");
    check_changes(first, "[[0,0,7,0],[1,1,6,1]]}");
    check_changes(third, "[]}");
}

static void changed_nodes_are_renumbered(void **state)
{
    (void)state;
    uint64_t first = look();
    map.n_nodes = 3;
    uint64_t second = look();
    assert_true(second > first);
    check_changes(first, "[[0,0,5,0],[1,0,5,0],[2,0,5,0]]}");
    nodes[1] = rota_str("bb:1");
    assert_true(look() > second);
    check_changes(second, "[[0,0,5,0],[1,0,5,0],[2,0,5,0]]}");
}

static void space_may_have_other_shards(void **state)
{
    (void)state;
    map.n_shards = 0; /* not known yet */
    uint64_t first = look();
    check_changes(0, "[]}");
    map.n_shards = N;
    assert_true(look() > first);
    check_changes(first, "[[0,0,5,0],[1,0,5,0],[2,0,5,0]]}");
    map.n_shards = 1;
    uint64_t last = watch.stamp;
    look();
    check_changes(last, "[[0,0,5,0]]}");
}

static void document_names_the_space_its_version_and_all_nodes(void **state)
{
    (void)state;
    look();
    struct rota_json json = {.buffer = &buffer};
    rota_space_watch_write(&watch, &map, 0, &json);
    assert_memory_equal(buffer.data, "{\"name\":\"s\",\"version\":2,\"nodes\":[\"a:1\",\"b:1\"],",
                        45);
}

static void each_property_of_a_shard_is_a_change(void **state)
{
    (void)state;
    look();
    for (int i = 0; i < 4; i++) {
        uint64_t before = watch.stamp;
        shards[1].owner = i == 0;
        shards[1].epoch = i == 1 ? 6 : 5;
        shards[1].state = i == 2 ? ROTA_SPACE_UNOWNED : (enum rota_space_state)0;
        shards[1].is_pinned = i == 3;
        assert_int_equal(look(), before + 1);
        check_changes(before, i == 0   ? "[[1,1,5,0]]}"
                              : i == 1 ? "[[1,0,6,0]]}"
                              : i == 2 ? "[[1,0,5,2]]}"
                                       : "[[1,0,5,0]]}");
        check_changes(watch.stamp, "[]}");
    }
    uint64_t last = watch.stamp;
    assert_int_equal(look(), last); /* nothing is another */
    shards[0].epoch = 9;
    map.version--; /* the same version is not looked at */
    watch.version = map.version;
    assert_true(rota_space_watch_look(&watch, &map));
    assert_int_equal(watch.stamp, last);
    shards[2].epoch = 9;
    look();
    check_changes(last, "[[0,0,9,0],[2,0,9,0]]}");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(a_new_follower_gets_all),
        TEST(later_updates_have_only_changes),
        TEST(changed_nodes_are_renumbered),
        TEST(space_may_have_other_shards),
        TEST(document_names_the_space_its_version_and_all_nodes),
        TEST(each_property_of_a_shard_is_a_change),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
