#include "wire/text/shards_file.h"

#include "vectors.h"

#include <stdlib.h>

static struct rota_shards_file read_text(const char *text)
{
    struct rota_shards_file file;
    struct rota_error error;
    if (rota_shards_file_parse(rota_str(text), "map", &file, &error))
        fail_msg("%s", error.text);
    return file;
}

static void assert_refused(const char *text, const char *message)
{
    struct rota_shards_file file = {.n_collections = 77};
    struct rota_error error;
    assert_int_equal(rota_shards_file_parse(rota_str(text), "map", &file, &error),
                     ROTA_ERR_INVALID);
    assert_string_equal(error.text, message);
    assert_int_equal(file.n_collections, 77); /* left alone */
}

static void assert_str(struct rota_str str, const char *text)
{
    assert_true(rota_str_is_equal(str, rota_str(text)));
}

static void lines_are_put_together_by_collection_and_shard(void **state)
{
    struct rota_shards_file file = read_text("# the map\n"
                                             "db b 2 b-0 7 h:7\r\n"
                                             "\n"
                                             "db a 1 a-1 9 h:9 epoch=18446744073709551615 # last\n"
                                             "db a 1 a-0 8 h:8 serviceable=false\n"
                                             "\tdb a 1 a-0 7 h:7 serviceable=true epoch=0");
    (void)state;
    assert_int_equal(file.n_collections, 2);
    const struct rota_shards_collection *a = &file.collections[0], *b = &file.collections[1];
    assert_str(a->name, "a");
    assert_str(b->name, "b");
    assert_int_equal(a->n_channels, 2);
    assert_int_equal(b->n_channels, 1);
    assert_str(a->channels[0].name, "a-0");
    assert_int_equal(a->channels[0].n_replicas, 2);
    assert_int_equal(a->channels[0].replicas[0].node, 8);
    assert_false(a->channels[0].replicas[0].is_serviceable);
    assert_int_equal(a->channels[0].replicas[0].epoch, 1);
    assert_int_equal(a->channels[0].replicas[1].epoch, 0);
    assert_str(a->channels[0].replicas[1].address, "h:7");
    assert_str(a->channels[1].name, "a-1");
    assert_true(a->channels[1].replicas[0].epoch == UINT64_MAX);
    assert_int_equal(b->channels[0].replicas[0].node, 7);
    rota_shards_file_deinit(&file);
}

static void nothing_is_no_error(void **state)
{
    static const char *const texts[] = {"", "\n", "# only words", " \t\r\n#"};
    (void)state;
    for (size_t i = 0; i < 4; i++) {
        struct rota_shards_file file = read_text(texts[i]);
        assert_int_equal(file.n_collections, 0);
        rota_shards_file_deinit(&file);
    }
}

static void mistake_is_told_with_its_line(void **state)
{
    (void)state;
    assert_refused("\ndb a 1", "map:2: the line ends before its channel");
    assert_refused("db a 0 c 1 h:1",
                   "map:1: id \"0\" is not a whole number from 1 to 9223372036854775807");
    assert_refused("db a 1 c -1 h:1",
                   "map:1: node \"-1\" is not a whole number from 0 to 9223372036854775807");
    assert_refused("db a 1 c 9223372036854775808 h:1",
                   "map:1: node \"9223372036854775808\" is not a whole number from 0 to "
                   "9223372036854775807");
    assert_refused("db a 1 c 1 h:1 servicable=no", "map:1: unknown attribute \"servicable=no\"");
    assert_refused("db a 1 c 1 h:1 serviceable=no",
                   "map:1: serviceable \"no\" is neither true nor false");
    assert_refused("db a 1 c 1 h:1 epoch=",
                   "map:1: epoch \"\" is not a whole number from 0 to 18446744073709551615");
    assert_refused("db \x80 1 c 1 h:1", "map:1: byte 4 (0x80) is not printable ASCII");
}

static void node_serves_a_shard_once(void **state)
{
    (void)state;
    assert_refused("db a 1 c 1 h:1\ndb a 1 d 1 h:1\ndb a 1 c 1 h:2",
                   "map:3: duplicate: node 1 already serves shard \"c\" on line 1");
}

static void name_and_id_belong_together(void **state)
{
    (void)state;
    assert_refused("db a 1 c 1 h:1\ndb a 2 c 1 h:1",
                   "map:2: collection \"a\" has id 2, but on line 1 it has id 1");
    assert_refused("db a 1 c 1 h:1\ndb b 1 c 2 h:1",
                   "map:2: the id 1 of \"b\" belongs to another collection");
    assert_refused("db a 1 c 1 h:1\nother a 1 d 2 h:1",
                   "map:2: the id 1 of \"a\" belongs to another collection");
}

static void bounds_hold(void **state)
{
    struct rota_shards_file file;
    struct rota_error error;
    static char text[1 << 20];
    (void)state;
    memset(text, 'x', ROTA_SHARDS_LINE_MAX + 1);
    assert_int_equal(
        rota_shards_file_parse(rota_str_of(text, ROTA_SHARDS_LINE_MAX + 1), "map", &file, &error),
        ROTA_ERR_LIMIT);
    size_t size = 0;
    for (int i = 0; i <= ROTA_SHARD_REPLICAS_MAX; i++)
        size += (size_t)sprintf(text + size, "db a 1 c %d h:1\n", i);
    assert_int_equal(rota_shards_file_parse(rota_str_of(text, size), "map", &file, &error),
                     ROTA_ERR_LIMIT);
    size = 0;
    for (int i = 0; i <= ROTA_SHARD_CHANNELS_MAX; i++)
        size += (size_t)sprintf(text + size, "db a 1 c-%d 1 h:1\n", i);
    assert_int_equal(rota_shards_file_parse(rota_str_of(text, size), "map", &file, &error),
                     ROTA_ERR_LIMIT);
    assert_int_equal(
        rota_shards_file_parse(rota_str_of("db a 1 c 1 h:1\0", 15), "map", &file, &error),
        ROTA_ERR_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_are_put_together_by_collection_and_shard),
        cmocka_unit_test(nothing_is_no_error),
        cmocka_unit_test(mistake_is_told_with_its_line),
        cmocka_unit_test(node_serves_a_shard_once),
        cmocka_unit_test(name_and_id_belong_together),
        cmocka_unit_test(bounds_hold),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
