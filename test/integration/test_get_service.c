/* A service of a program's own for <rota/experimental/get.h>: keys are numbers, messages are plain
 * structs, and what does not fit into one answer is asked for again. */
#include "await.h"

#include <rota/experimental/get.h>
#include <rota/experimental/interval.h>
#include <rota/server.h>

#include <stdio.h>
#include <string.h>

enum { KEYS = 40, AT_A_TIME = 7, KEY_REFUSED = 13, KEY_ABSENT = 14, EPOCH = 21 };

#define SHORT (3 * ROTA_SEC)

struct line { /* of a response; the first is its head */
    uint64_t id, is_problem;
    char text[24];
};

static struct {
    uv_loop_t loop;
    struct rota_server *server;
    struct rota_get_server *gets;
    struct rota_get *get;
    size_t n_batches, n_keys_max;
    bool allows_problems;
    bool is_malformed; /* the answers of the server are */
    bool sends_many;   /* more keys than a request may have */
    uint64_t epoch;    /* of the last request */
} world;

/* --- the service --- */

static uint64_t sharding_key(void *data, const void *key)
{
    (void)data;
    return *(const uint64_t *)key;
}

/* Not the index, so that one is not taken for the other. */
static uint64_t entry_id(void *data, const void *key)
{
    (void)data;
    return *(const uint64_t *)key + 1000;
}

static void name_key(void *data, const void *key, char *text, size_t size)
{
    (void)data;
    snprintf(text, size, "no. %d", (int)*(const uint64_t *)key);
}

static enum rota_code write_request(void *data, const void *const *keys, size_t n, uint64_t epoch,
                                    struct rota_get_writer *writer, struct rota_error *error)
{
    uint64_t *words = rota_get_write(writer, (n + 1) * sizeof *words);
    (void)data, (void)error;
    if (!words)
        return ROTA_ERR_NO_MEMORY;
    words[0] = epoch;
    for (size_t i = 0; i < n; i++)
        words[i + 1] = *(const uint64_t *)keys[i];
    return ROTA_OK;
}

static enum rota_code read_request(void *data, struct rota_str bytes, struct rota_get_batch *batch,
                                   uint64_t *epoch, struct rota_error *error)
{
    size_t n = bytes.size / sizeof(uint64_t);
    uint64_t *key;
    (void)data, (void)error;
    memcpy(epoch, bytes.data, sizeof *epoch);
    if (n > 1)
        world.epoch = *epoch;
    if (world.allows_problems)
        rota_get_batch_allow_problems(batch);
    for (size_t i = 1; i < n && (key = rota_get_batch_add(batch)); i++) {
        assert_int_equal(*key, 0);
        memcpy(key, bytes.data + i * sizeof *key, sizeof *key);
    }
    if (world.sends_many && n > 1)
        while (rota_get_batch_add(batch))
            ;
    return ROTA_OK;
}

static enum rota_code write_response(void *data, const struct rota_get_head *head,
                                     const struct rota_get_entry *entries, size_t n,
                                     struct rota_get_writer *writer, struct rota_error *error)
{
    struct line *lines = rota_get_write(writer, (1 + n + head->n_problems) * sizeof *lines);
    (void)data, (void)error;
    if (!lines)
        return ROTA_ERR_NO_MEMORY;
    memset(lines, 0, (1 + n + head->n_problems) * sizeof *lines);
    lines[0].id = head->n_shards > 0 ? head->shards[0].epoch : 0;
    lines[0].is_problem = head->all_matched;
    for (size_t i = 0; i < n; i++) {
        lines[1 + i].id = entries[i].id;
        memcpy(lines[1 + i].text, entries[i].value.data, entries[i].value.size);
    }
    for (size_t i = 0; i < head->n_problems; i++) {
        lines[1 + n + i].id = head->problems[i].id;
        lines[1 + n + i].is_problem = true;
        memcpy(lines[1 + n + i].text, head->problems[i].text.data, head->problems[i].text.size);
    }
    return ROTA_OK;
}

static enum rota_code read_response(void *data, struct rota_str bytes, struct rota_get_head *head,
                                    struct rota_get_reader *reader, struct rota_error *error)
{
    struct line line; /* so that texts are not within the response */
    (void)data, (void)error;
    if (world.is_malformed && bytes.size > sizeof line)
        return ROTA_ERR_INVALID; /* without a word */
    memcpy(&line, bytes.data, sizeof line);
    rota_get_read_shard(reader, &(struct rota_interval_claim){rota_interval_of(0, 1), line.id});
    head->all_matched = line.is_problem;
    for (size_t i = 1; i < bytes.size / sizeof line; i++) {
        memcpy(&line, bytes.data + i * sizeof line, sizeof line);
        if (line.is_problem)
            rota_get_read_problem(reader, &(struct rota_get_problem){line.id, rota_str(line.text)});
        else
            rota_get_read(reader, &(struct rota_get_entry){line.id, rota_str(line.text)});
    }
    return ROTA_OK;
}

static const struct rota_get_service numbers = {
    .method = "/test.Numbers/Get",
    .key_size = sizeof(uint64_t),
    .sharding_key = sharding_key,
    .entry_id = entry_id,
    .name_key = name_key,
    .write_request = write_request,
    .read_response = read_response,
    .read_request = read_request,
    .write_response = write_response,
};

/* A few at a time; one it never gives. */
static void on_batch(void *data, struct rota_get_batch *batch)
{
    size_t n = rota_get_batch_n_keys(batch);
    (void)data;
    world.n_batches++;
    if (n > world.n_keys_max)
        world.n_keys_max = n;
    const struct rota_interval_claim *shard = rota_get_batch_shard(batch, n - 1);
    const struct rota_interval whole = rota_interval_of(0, 1);
    assert_int_equal(shard->epoch, EPOCH);
    assert_true(rota_interval_is_equal(&shard->interval, &whole));
    for (size_t i = 0; i < n && i < AT_A_TIME; i++) {
        const uint64_t *key = rota_get_batch_key(batch, i);
        char text[24];
        snprintf(text, sizeof text, "value %d", (int)*key);
        if (*key == KEY_REFUSED)
            rota_get_batch_refuse(batch, i, "unlucky");
        else if (*key != KEY_ABSENT)
            rota_get_batch_put(batch, i, rota_get_batch_copy(batch, rota_str(text)));
    }
    if (n > AT_A_TIME)
        rota_get_batch_leave_rest(batch);
    rota_get_batch_finish(batch);
}

static int set_up(void **state)
{
    const struct rota_get_server_options serve = {.service = &numbers, .on_batch = on_batch};
    const struct rota_interval whole = rota_interval_of(0, 1);
    struct rota_get_host host = {.dc = rota_str("")};
    struct rota_get_options options = {.service = &numbers,
                                       .hosts = &host,
                                       .n_hosts = 1,
                                       .ping_period = 20 * ROTA_MSEC,
                                       .timeout = 60 * ROTA_SEC,
                                       .host_timeout = 60 * ROTA_SEC,
                                       .seed = 1};
    (void)state;
    memset(&world, 0, sizeof world);
    world.allows_problems = true;
    assert_int_equal(uv_loop_init(&world.loop), 0);
    assert_int_equal(rota_server_open(&world.loop, NULL, &world.server, NULL), ROTA_OK);
    assert_int_equal(rota_get_server_open(world.server, &serve, &world.gets, NULL), ROTA_OK);
    assert_int_equal(rota_get_server_hold(world.gets, &whole, EPOCH, NULL), ROTA_OK);
    assert_int_equal(rota_server_listen(world.server, "127.0.0.1:0", NULL), ROTA_OK);
    host.address = rota_str(rota_server_address(world.server, 0));
    assert_int_equal(rota_get_open(&world.loop, &options, &world.get, NULL), ROTA_OK);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    rota_get_close(world.get);
    rota_server_close(world.server);
    rota_get_server_close(world.gets);
    uv_run(&world.loop, UV_RUN_DEFAULT);
    await_end(&world.loop);
    return 0;
}

/* What is not answered is asked for again until the time is over. */
static struct rota_get_result *get(const uint64_t *keys, size_t n, rota_time timeout)
{
    struct rota_get_request request = {.keys = keys, .n_keys = n, .timeout = timeout};
    struct rota_get_result *result;
    struct rota_error error;
    rota_get_wait(world.get, &request, &result, &error);
    assert_non_null(result);
    assert_int_equal(result->n_items, n);
    return result;
}

/* --- what comes of it --- */

static void keys_that_do_not_fit_are_asked_for_again(void **state)
{
    uint64_t keys[KEYS];
    (void)state;
    for (size_t i = 0; i < KEYS; i++)
        keys[i] = i;
    struct rota_get_result *result = get(keys, KEYS, ROTA_MIN);
    for (size_t i = 0; i < KEYS; i++) {
        const struct rota_get_item *item = &result->items[i];
        char text[24];
        snprintf(text, sizeof text, "value %d", (int)i);
        if (i == KEY_REFUSED) {
            assert_int_equal(item->state, ROTA_GET_KEY_MISSING);
            assert_non_null(strstr(item->reason, "unlucky"));
            continue;
        }
        assert_null(item->reason);
        assert_int_equal(item->epoch, EPOCH);
        if (i == KEY_ABSENT) {
            assert_int_equal(item->state, ROTA_GET_KEY_ABSENT);
            continue;
        }
        assert_int_equal(item->state, ROTA_GET_KEY_FOUND);
        assert_true(rota_str_is_equal(item->value, rota_str(text)));
    }
    assert_int_equal(result->n_missing, 1);
    assert_int_equal(result->code, ROTA_ERR_UNAVAILABLE);
    assert_non_null(strstr(result->text, "no. 13"));
    assert_int_equal(world.n_keys_max, KEYS);
    assert_true(world.n_batches >= (KEYS + AT_A_TIME - 1) / AT_A_TIME);
    assert_int_equal(world.epoch, EPOCH); /* by which the client was routed */
    rota_get_result_free(result);
}

/* A client that accepts no problems gets an error for all keys of the request. */
static void without_problems_one_key_fails_them_all(void **state)
{
    const uint64_t keys[] = {1, KEY_REFUSED}, many[AT_A_TIME + 1] = {1, 2, 3, 4, 5, 6, 7, 8};
    (void)state;
    world.allows_problems = false;
    struct rota_get_result *result = get(keys, 2, SHORT);
    assert_int_equal(result->n_missing, 2);
    assert_non_null(strstr(result->items[0].reason, "no. 13: unlucky"));
    rota_get_result_free(result);
    result = get(many, AT_A_TIME + 1, SHORT);
    assert_int_equal(result->n_missing, AT_A_TIME + 1);
    assert_non_null(strstr(result->items[0].reason, "request fewer keys at a time"));
    rota_get_result_free(result);
    result = get(keys, 1, ROTA_MIN);
    assert_int_equal(result->n_missing, 0);
    rota_get_result_free(result);
}

static void unreadable_response_is_an_error(void **state)
{
    const uint64_t key = 5;
    (void)state;
    world.is_malformed = true;
    struct rota_get_result *result = get(&key, 1, SHORT);
    assert_int_equal(result->n_missing, 1);
    assert_non_null(strstr(result->items[0].reason, "the response is malformed"));
    rota_get_result_free(result);
}

static void request_with_too_many_keys_is_refused(void **state)
{
    const uint64_t key = 5;
    (void)state;
    world.sends_many = true;
    struct rota_get_result *result = get(&key, 1, SHORT);
    assert_int_equal(result->n_missing, 1);
    assert_non_null(strstr(result->items[0].reason, "keys"));
    assert_int_equal(world.n_batches, 0);
    rota_get_result_free(result);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(keys_that_do_not_fit_are_asked_for_again),
        TEST(without_problems_one_key_fails_them_all),
        TEST(unreadable_response_is_an_error),
        TEST(request_with_too_many_keys_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
