/* The cache behind a server, over a source that the test plays, and over a file. */
#include "await.h"
#include "base/vector.h"
#include "run/call/cache.h"
#include "wire/message/cache_message.h"

#include <rota/experimental/channel.h>
#include <rota/server.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CALLS = 64, READS = 8 };

/* How a call ended: its entries as "0=value 2=value", then its problems as "1?text". */
struct ended {
    struct world *world;
    bool is_over;
    enum rota_status status;
    size_t n_entries, n_left;
    char text[512];
};

/* A source that keeps what it is asked until the test answers. */
struct world {
    struct rota_cache_source source; /* first */
    uv_loop_t loop;
    struct rota_server *server;
    struct rota_get_server *gets;
    struct rota_cache *cache;
    struct rota_channel *channel;
    struct rota_cache_source *file; /* or this one */
    struct rota_cache_read *reads[READS];
    size_t n_reads, n_ended, n_changed;
    struct ended ended[CALLS];
    size_t n_calls;
    bool is_quick; /* it answers at once */
    size_t depth;
};

static void source_read(struct rota_cache_source *source, struct rota_cache_read *read)
{
    struct world *world = (struct world *)source;
    assert_true(world->n_reads < READS);
    world->reads[world->n_reads++] = read;
    if (!world->is_quick)
        return;
    assert_int_equal(++world->depth, 1); /* its stack does not grow with the keys */
    rota_cache_read_done(read, NULL);
    world->depth--;
}

static void source_on_changed(void *data)
{
    struct world *world = data;
    world->n_changed++;
    rota_cache_outdate(world->cache);
}

static void on_batch(void *data, struct rota_get_batch *batch)
{
    rota_cache_answer(((struct world *)data)->cache, batch);
}

static void on_cancel(void *data, struct rota_get_batch *batch)
{
    rota_cache_cancel(((struct world *)data)->cache, batch);
}

static void world_open(struct world *world, const char *file, rota_time keep)
{
    struct rota_error error;
    struct rota_get_server_options gets = {
        .on_batch = on_batch, .on_cancel = on_cancel, .data = world};
    struct rota_interval all = {0};
    memset(world, 0, sizeof *world);
    uv_loop_init(&world->loop);
    world->source = (struct rota_cache_source){.read = source_read};
    struct rota_cache_source_options with = {
        .events = {.on_changed = source_on_changed, .data = world}};
    if (file && rota_cache_file_open(&world->loop, file, &with, &world->file, &error))
        fail_msg("%s", error.text);
    struct rota_cache_options options = {
        .source = file ? world->file : &world->source, .memory = 1 << 20, .keep = keep, .seed = 1};
    if (rota_cache_open(&options, &world->cache, &error) ||
        rota_server_open(&world->loop, NULL, &world->server, &error) ||
        rota_get_server_open(world->server, &gets, &world->gets, &error) ||
        rota_get_server_hold(world->gets, &all, 1, &error) ||
        rota_server_listen(world->server, "127.0.0.1:0", &error) ||
        rota_channel_open(&world->loop, rota_server_address(world->server, 0), NULL,
                          &world->channel, &error))
        fail_msg("%s", error.text);
}

static void world_close(struct world *world)
{
    rota_channel_close(world->channel);
    rota_server_close(world->server);
    if (world->file)
        world->file->close(world->file);
    rota_get_server_close(world->gets);
    rota_cache_close(world->cache);
    uv_run(&world->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&world->loop), 0);
}

static void on_end(void *data, struct rota_call *call, const struct rota_call_result *result)
{
    struct ended *ended = data;
    struct rota_cache_response response;
    struct rota_arena arena = {0};
    int n = 0;
    (void)call;
    ended->is_over = true;
    ended->world->n_ended++;
    ended->status = result->status;
    if (result->status != ROTA_STATUS_OK) {
        snprintf(ended->text, sizeof ended->text, "%.*s", ROTA_STR_ARGS(result->text));
        return;
    }
    assert_int_equal(
        rota_message_decode(&ROTA_CACHE_RESPONSE, result->message, &response, &arena, NULL),
        ROTA_OK);
    const struct rota_get_entry *entries = response.entry.items;
    const struct rota_get_problem *problems = response.problem.items;
    ended->n_entries = response.entry.n;
    for (size_t i = 0; i < response.problem.n; i++)
        ended->n_left += problems[i].text.size == 0;
    for (size_t i = 0; i < response.entry.n; i++)
        n += snprintf(ended->text + n, sizeof ended->text - (size_t)n, "%s%llu=%.*s", i ? " " : "",
                      (unsigned long long)entries[i].id, (int)(entries[i].value.size % 32),
                      entries[i].value.data);
    for (size_t i = 0; i < response.problem.n; i++)
        n += snprintf(ended->text + n, sizeof ended->text - (size_t)n, "%s%llu?%.*s", n ? " " : "",
                      (unsigned long long)problems[i].id, ROTA_STR_ARGS(problems[i].text));
    rota_arena_deinit(&arena);
}

/* Ask for keys, with spaces between them; `is_partial`: and mind problems. */
static struct rota_call *ask_with(struct world *world, const char *keys, bool is_partial)
{
    struct ended *ended = &world->ended[world->n_calls++];
    ROTA_VECTOR(struct rota_str) strs = {0};
    struct rota_buffer buffer = {0};
    struct rota_error error;
    struct rota_call *call;
    assert_true(world->n_calls <= CALLS);
    ended->world = world;
    for (const char *key = keys; *key;) {
        size_t size = strcspn(key, " ");
        assert_true(rota_vector_push(&strs, rota_str_of(key, size)));
        key += size + (key[size] == ' ');
    }
    const struct rota_cache_request request = {.key = {strs.items, strs.size},
                                               .partial = is_partial};
    rota_message_encode(&ROTA_CACHE_REQUEST, &request, &buffer);
    struct rota_call_options options = {.method = rota_str("/rota.v1.Cache/Get"),
                                        .request = rota_buffer_str(&buffer),
                                        .timeout = 25 * ROTA_SEC,
                                        .on_end = on_end,
                                        .data = ended};
    if (rota_channel_call(world->channel, &options, &call, &error))
        fail_msg("%s", error.text);
    rota_buffer_deinit(&buffer);
    rota_vector_deinit(&strs);
    return call;
}

static struct rota_call *ask(struct world *world, const char *keys)
{
    return ask_with(world, keys, false);
}

/* The answer to the last call. */
static const char *last(struct world *world)
{
    await(&world->loop, &world->n_ended, world->n_calls);
    return world->ended[world->n_calls - 1].text;
}

static void give(struct world *world, size_t read, const char *key, const char *value)
{
    rota_cache_read_value(world->reads[read], rota_str(key), rota_str(value));
}

static void done(struct world *world, size_t read, enum rota_code code)
{
    struct rota_error error;
    rota_error_set(&error, code, "the source is on fire");
    rota_cache_read_done(world->reads[read], code ? &error : NULL);
}

static size_t n_keys(struct world *world, size_t read)
{
    size_t n;
    rota_cache_read_keys(world->reads[read], &n);
    return n;
}

/* Until the server has these calls: those that came after them would be answered later. */
static void await_waits(struct world *world, uint64_t n)
{
    while (rota_cache_counts(world->cache).n_asked < n)
        uv_run(&world->loop, UV_RUN_ONCE);
}

static void a_value_is_read_once(void **state)
{
    struct world world;
    (void)state;
    world_open(&world, NULL, ROTA_HOUR);
    ask(&world, "a b");
    await(&world.loop, &world.n_reads, 1);
    assert_int_equal(n_keys(&world, 0), 2);
    give(&world, 0, "a", "1");
    done(&world, 0, ROTA_OK);
    assert_string_equal(last(&world), "0=1");
    ask(&world, "b a a");
    assert_string_equal(last(&world), "1=1 2=1"); /* that b has none is known, too */
    assert_int_equal(world.n_reads, 1);
    ask(&world, "a c");
    await(&world.loop, &world.n_reads, 2);
    assert_int_equal(n_keys(&world, 1), 1);
    give(&world, 1, "c", "3");
    done(&world, 1, ROTA_OK);
    assert_string_equal(last(&world), "0=1 1=3");
    world_close(&world);
}

static void one_read_answers_all_callers(void **state)
{
    struct world world;
    (void)state;
    world_open(&world, NULL, ROTA_HOUR);
    for (int i = 0; i < 20; i++)
        ask(&world, "hot");
    await_waits(&world, 20);
    assert_int_equal(world.n_reads, 1);
    give(&world, 0, "hot", "h");
    done(&world, 0, ROTA_OK);
    last(&world);
    for (size_t i = 0; i < 20; i++)
        assert_string_equal(world.ended[i].text, "0=h");
    world_close(&world);
}

static void a_source_that_answers_at_once_is_not_read_from_inside_its_answer(void **state)
{
    enum { KEYS = 3 * ROTA_CACHE_READ_KEYS_MAX };
    static char keys[8 * KEYS];
    struct world world;
    size_t size = 0;
    (void)state;
    for (int i = 0; i < KEYS; i++)
        size += (size_t)snprintf(keys + size, sizeof keys - size, "%s%d", i ? " " : "", i);
    world_open(&world, NULL, ROTA_HOUR);
    world.is_quick = true;
    ask(&world, keys);
    assert_string_equal(last(&world), "");
    assert_int_equal(world.ended[0].status, ROTA_STATUS_OK);
    assert_int_equal(world.n_reads, 3);
    world_close(&world);
}

static void keys_requested_during_a_read_are_read_together(void **state)
{
    struct world world;
    char key[8];
    (void)state;
    world_open(&world, NULL, ROTA_HOUR);
    for (int i = 0; i < ROTA_CACHE_READS_MAX + 10; i++) {
        snprintf(key, sizeof key, "k%d", i);
        ask(&world, key);
        await_waits(&world, (uint64_t)i + 1);
    }
    assert_int_equal(world.n_reads, ROTA_CACHE_READS_MAX);
    done(&world, 0, ROTA_OK);
    assert_int_equal(world.n_reads, ROTA_CACHE_READS_MAX + 1);
    assert_int_equal(n_keys(&world, ROTA_CACHE_READS_MAX), 10);
    for (size_t i = 1; i <= ROTA_CACHE_READS_MAX; i++)
        done(&world, i, ROTA_OK);
    last(&world);
    world_close(&world);
}

static void a_failure_reaches_all_waiters_and_is_not_cached(void **state)
{
    struct world world;
    (void)state;
    world_open(&world, NULL, ROTA_HOUR);
    ask(&world, "a");
    ask(&world, "a a");
    await_waits(&world, 3);
    done(&world, 0, ROTA_ERR_UNAVAILABLE);
    last(&world);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(world.ended[i].status, ROTA_STATUS_UNAVAILABLE);
        assert_non_null(strstr(world.ended[i].text, "on fire"));
    }
    ask(&world, "a");
    await(&world.loop, &world.n_reads, 2);
    give(&world, 1, "a", "1");
    done(&world, 1, ROTA_OK);
    assert_string_equal(last(&world), "0=1");
    world_close(&world);
}

static void one_bad_key_fails_alone(void **state)
{
    struct world world;
    (void)state;
    world_open(&world, NULL, ROTA_HOUR);
    for (int i = 0; i < ROTA_CACHE_READS_MAX; i++) { /* all readers are busy */
        char key[8];
        snprintf(key, sizeof key, "k%d", i);
        ask(&world, key);
        await_waits(&world, (uint64_t)i + 1);
    }
    size_t good = world.n_calls, bad = good + 1;
    ask(&world, "good");
    ask(&world, "bad");
    await_waits(&world, ROTA_CACHE_READS_MAX + 2);
    done(&world, 0, ROTA_OK);
    assert_int_equal(n_keys(&world, ROTA_CACHE_READS_MAX), 2);
    done(&world, ROTA_CACHE_READS_MAX, ROTA_ERR_INVALID);
    done(&world, 1, ROTA_OK);
    give(&world, ROTA_CACHE_READS_MAX + 1, "good", "1");
    done(&world, ROTA_CACHE_READS_MAX + 1, ROTA_OK);
    rota_cache_read_refuse(world.reads[ROTA_CACHE_READS_MAX + 2], rota_str("bad"),
                           "\"bad\" is too large");
    done(&world, ROTA_CACHE_READS_MAX + 2, ROTA_OK);
    done(&world, 2, ROTA_OK);
    done(&world, 3, ROTA_OK);
    last(&world);
    assert_string_equal(world.ended[good].text, "0=1");
    assert_int_equal(world.ended[bad].status, ROTA_STATUS_INVALID_ARGUMENT);
    assert_non_null(strstr(world.ended[bad].text, "\"bad\""));
    world_close(&world);
}

static void a_cancelled_request_leaves_no_waiter(void **state)
{
    struct world world;
    (void)state;
    world_open(&world, NULL, ROTA_HOUR);
    struct rota_call *call = ask(&world, "a");
    await_waits(&world, 1);
    rota_call_cancel(call);
    ask(&world, "b");
    await_waits(&world, 2);
    world.n_calls--;           /* a cancelled call has no end */
    give(&world, 0, "a", "1"); /* it is of use all the same */
    done(&world, 0, ROTA_OK);
    done(&world, 1, ROTA_OK);
    await(&world.loop, &world.n_ended, 1);
    ask(&world, "a");
    await(&world.loop, &world.n_ended, 2);
    assert_int_equal(world.n_reads, 2);
    world_close(&world);
}

static void a_read_from_before_a_change_is_not_kept(void **state)
{
    struct world world;
    (void)state;
    world_open(&world, NULL, ROTA_HOUR);
    ask(&world, "a");
    await(&world.loop, &world.n_reads, 1);
    rota_cache_outdate(world.cache);
    give(&world, 0, "a", "old");
    done(&world, 0, ROTA_OK);
    assert_string_equal(last(&world), "0=old");
    ask(&world, "a");
    await(&world.loop, &world.n_reads, 2);
    give(&world, 1, "a", "new");
    done(&world, 1, ROTA_OK);
    assert_string_equal(last(&world), "0=new");
    world_close(&world);
}

static void keys_that_are_too_long_are_refused(void **state)
{
    static char key[ROTA_CACHE_KEY_MAX + 2];
    struct world world;
    (void)state;
    world_open(&world, NULL, ROTA_HOUR);
    memset(key, 'x', ROTA_CACHE_KEY_MAX + 1);
    ask(&world, key);
    last(&world);
    assert_int_equal(world.ended[0].status, ROTA_STATUS_INVALID_ARGUMENT);
    assert_non_null(strstr(world.ended[0].text, "key \"xxx"));
    assert_non_null(strstr(world.ended[0].text, "more than 4096 bytes"));
    ask_with(&world, key, true);
    assert_string_equal(last(&world), "0?a key has more than 4096 bytes");
    assert_int_equal(world.n_reads, 0);
    world_close(&world);
}

static void a_caller_that_reads_problems_gets_all_but_the_bad_key(void **state)
{
    struct world world;
    (void)state;
    world_open(&world, NULL, ROTA_HOUR);
    ask_with(&world, "a bad c", true);
    await(&world.loop, &world.n_reads, 1);
    give(&world, 0, "a", "1");
    rota_cache_read_refuse(world.reads[0], rota_str("bad"), "\"bad\" is too large");
    give(&world, 0, "c", "3");
    done(&world, 0, ROTA_OK);
    assert_string_equal(last(&world), "0=1 2=3 1?\"bad\" is too large");
    ask_with(&world, "a bad", true); /* refused by the source, when it is asked for it alone */
    await(&world.loop, &world.n_reads, 2);
    done(&world, 1, ROTA_ERR_INVALID);
    assert_string_equal(last(&world), "0=1 1?the source is on fire");
    ask_with(&world, "a gone", true); /* the next replica may have it */
    await(&world.loop, &world.n_reads, 3);
    done(&world, 2, ROTA_ERR_UNAVAILABLE);
    last(&world);
    assert_int_equal(world.ended[2].status, ROTA_STATUS_UNAVAILABLE);
    world_close(&world);
}

/* Values that fill an answer: the rest is asked for again, and an old client fails. */
static void an_answer_that_is_full_leaves_out_the_rest(void **state)
{
    struct world world;
    static char value[1 << 20];
    struct rota_str large = {value, sizeof value};
    (void)state;
    world_open(&world, NULL, 0);
    memset(value, '.', sizeof value);
    for (int is_partial = 0; is_partial <= 1; is_partial++) {
        ask_with(&world, "a b c d e f", is_partial);
        await(&world.loop, &world.n_reads, (size_t)is_partial + 1);
        rota_cache_read_value(world.reads[is_partial], rota_str("a"), large);
        rota_cache_read_value(world.reads[is_partial], rota_str("c"), large);
        rota_cache_read_value(world.reads[is_partial], rota_str("b"), large);
        rota_cache_read_value(world.reads[is_partial], rota_str("e"), large);
        done(&world, (size_t)is_partial, ROTA_OK);
        last(&world);
    }
    assert_int_equal(world.ended[0].status, ROTA_STATUS_RESOURCE_EXHAUSTED);
    assert_int_equal(world.ended[1].status, ROTA_STATUS_OK);
    assert_int_equal(world.ended[1].n_entries, 3); /* of 4 MiB in all, one is too many */
    assert_int_equal(world.ended[1].n_left, 1);
    world_close(&world);
}

/* What is in flight when all ends is let go. */
static void it_can_be_closed_while_it_reads(void **state)
{
    struct world world;
    (void)state;
    world_open(&world, NULL, ROTA_HOUR);
    ask(&world, "a b");
    await(&world.loop, &world.n_reads, 1);
    world_close(&world);
}

/* --- a file --- */

static char folder[] = "/tmp/rota_cacheXXXXXX", path[64], other[64];

static void replace(const char *text)
{
    await_write(other, text);
    assert_int_equal(rename(other, path), 0);
}

static void a_file_is_read_and_followed(void **state)
{
    struct world world;
    (void)state;
    replace("a\t1\nb\ttwo\\nlines\n");
    world_open(&world, path, ROTA_TIME_NEVER);
    ask(&world, "a b c");
    assert_string_equal(last(&world), "0=1 1=two\nlines");
    replace("a\t2\nc\t3\n");
    await(&world.loop, &world.n_changed, 1);
    ask(&world, "a b c");
    assert_string_equal(last(&world), "0=2 2=3");
    replace("a 3\n"); /* a mistake changes nothing, and neither does an empty file */
    replace("");
    unlink(path);
    ask(&world, "a b");
    assert_string_equal(last(&world), "0=2");
    replace("a\t4\n");
    await(&world.loop, &world.n_changed, 2);
    ask(&world, "a");
    assert_string_equal(last(&world), "0=4");
    world_close(&world);
}

/* Closed at once: the worker may still have the file. */
static void a_file_can_be_closed_while_it_is_read(void **state)
{
    struct world world;
    (void)state;
    replace("a\t1\n");
    world_open(&world, path, ROTA_TIME_NEVER);
    ask(&world, "a");
    await_waits(&world, 1);
    world_close(&world);
}

static void assert_refused(const char *text, const char *words)
{
    uv_loop_t loop;
    struct rota_cache_source_options with = {0};
    struct rota_cache_source *source;
    struct rota_error error;
    replace(text);
    uv_loop_init(&loop);
    assert_int_not_equal(rota_cache_file_open(&loop, path, &with, &source, &error), ROTA_OK);
    if (!strstr(error.text, words))
        fail_msg("%s", error.text);
    assert_int_equal(uv_loop_close(&loop), 0);
}

static void a_file_with_a_mistake_is_refused_by_line(void **state)
{
    struct rota_cache_source_options with = {0};
    struct rota_cache_source *source;
    struct rota_error error;
    (void)state;
    assert_refused("a\t1\nb\n", ":2: no tab");
    assert_refused("a\t1\nb\t2\n\na\t3\n", ":4: the key \"a\" is already on line 1");
    assert_refused("a\t1\n\\x61\t2\n", ":2: the key \"a\" is already on line 1");
    assert_int_equal(rota_cache_file_open(uv_default_loop(), folder, &with, &source, &error),
                     ROTA_ERR_INVALID);
    assert_int_equal(rota_cache_file_open(uv_default_loop(), "/nowhere", &with, &source, &error),
                     ROTA_ERR_NOT_FOUND);
}

static int make_folder(void **state)
{
    (void)state;
    if (!mkdtemp(folder))
        return -1;
    snprintf(path, sizeof path, "%s/pairs", folder);
    snprintf(other, sizeof other, "%s/new", folder);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    unlink(path);
    return rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_value_is_read_once),
        cmocka_unit_test(one_read_answers_all_callers),
        cmocka_unit_test(a_source_that_answers_at_once_is_not_read_from_inside_its_answer),
        cmocka_unit_test(keys_requested_during_a_read_are_read_together),
        cmocka_unit_test(a_failure_reaches_all_waiters_and_is_not_cached),
        cmocka_unit_test(one_bad_key_fails_alone),
        cmocka_unit_test(a_cancelled_request_leaves_no_waiter),
        cmocka_unit_test(a_read_from_before_a_change_is_not_kept),
        cmocka_unit_test(keys_that_are_too_long_are_refused),
        cmocka_unit_test(a_caller_that_reads_problems_gets_all_but_the_bad_key),
        cmocka_unit_test(an_answer_that_is_full_leaves_out_the_rest),
        cmocka_unit_test(it_can_be_closed_while_it_reads),
        cmocka_unit_test(a_file_is_read_and_followed),
        cmocka_unit_test(a_file_can_be_closed_while_it_is_read),
        cmocka_unit_test(a_file_with_a_mistake_is_refused_by_line),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
