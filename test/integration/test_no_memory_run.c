/* What becomes of calls when memory runs out: whatever is opened or started then fails with a
 * reason, each call ends, nothing is left behind, and all works once there is memory again. */
#include "no_memory.h"

#include "loop.h"
#include "run/call/space_directory.h"

#include <rota/experimental/broker.h>
#include <rota/experimental/channel.h>
#include <rota/experimental/get.h>
#include <rota/experimental/health.h>
#include <rota/experimental/members.h>
#include <rota/experimental/shards.h>
#include <rota/queue.h>
#include <rota/server.h>

#include <stdio.h>

#define METHOD "/test.Memory/Echo"

static struct rota_error error;

/* Keeps the loop from sleeping when it has nothing to do. */
static uv_timer_t ticking;

static void on_tick(uv_timer_t *timer)
{
    (void)timer;
}

static void begin(void)
{
    assert_int_equal(uv_loop_init(&loop), 0);
    uv_timer_init(&loop, &ticking);
    uv_timer_start(&ticking, on_tick, 1, 1);
}

static void end(void)
{
    uv_close((uv_handle_t *)&ticking, NULL);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&loop), 0);
}

#define RUN_WITHOUT_MEMORY_UNTIL(condition)                                                        \
    while (!(condition))                                                                           \
    NO_MEMORY_IN(uv_run(&loop, UV_RUN_ONCE))

/* Whether it went well; if not, it said why. */
static bool went_well(enum rota_code code)
{
    if (!code)
        return true;
    assert_true(no_memory_has_failed());
    assert_true(code == ROTA_ERR_NO_MEMORY || code == ROTA_ERR_LIMIT);
    assert_int_equal(error.code, code);
    return false;
}

#define OPEN(call) went_well(NO_MEMORY_IN(call))

/* --- a server and its channels --- */

static void on_echo(void *data, struct rota_server_call *call)
{
    (void)data;
    rota_server_call_reply(call, rota_server_call_request(call));
}

/* Three messages. */
static void on_stream(void *data, struct rota_server_call *call)
{
    (void)data;
    for (int i = 0; i < 3; i++)
        rota_server_call_send(call, rota_server_call_request(call));
    rota_server_call_finish(call, ROTA_STATUS_OK, NULL, NULL, 0);
}

static bool open_server(const struct rota_server_options *options, struct rota_server **server)
{
    const struct rota_server_method methods[] = {{.path = METHOD, .on_call = on_echo},
                                                 {.path = METHOD "3", .on_call = on_stream}};
    *server = NULL;
    return OPEN(rota_server_open(&loop, options, server, &error)) &&
           OPEN(rota_server_add(*server, &methods[0], &error)) &&
           OPEN(rota_server_add(*server, &methods[1], &error)) &&
           OPEN(rota_server_listen(*server, "127.0.0.1:0", &error));
}

static size_t n_ended, n_messages;
static enum rota_status status;

static void on_message(void *data, struct rota_call *call, struct rota_str message)
{
    (void)data, (void)call;
    assert_int_equal(message.size, 5);
    n_messages++;
}

static void on_end(void *data, struct rota_call *call, const struct rota_call_result *result)
{
    const bool *is_stream = data;
    (void)call;
    n_ended++;
    status = result->status;
    if (status == ROTA_STATUS_OK && !*is_stream)
        assert_memory_equal(result->message.data, "hello", result->message.size);
    if (status == ROTA_STATUS_OK)
        assert_int_equal(*is_stream ? n_messages : result->message.size, *is_stream ? 3 : 5);
    else
        assert_true(result->text.size > 0);
}

/* Whether the call went well. */
static bool call(struct rota_channel *channel, bool is_stream)
{
    const struct rota_metadata pairs[] = {{rota_str("x-first"), rota_str("one")},
                                          {rota_str("x-bin"), rota_str_of("\0\1", 2)}};
    struct rota_call_options options = {.method = rota_str(is_stream ? METHOD "3" : METHOD),
                                        .request = rota_str("hello"),
                                        .metadata = pairs,
                                        .n_metadata = 2,
                                        .timeout = 100 * ROTA_SEC,
                                        .on_message = is_stream ? on_message : NULL,
                                        .on_end = on_end,
                                        .data = &is_stream};
    n_ended = n_messages = 0;
    enum rota_code code = NO_MEMORY_IN(rota_channel_call(channel, &options, NULL, &error));
    if (code) {
        assert_true(code == ROTA_ERR_NO_MEMORY || code == ROTA_ERR_LIMIT ||
                    code == ROTA_ERR_UNAVAILABLE);
        assert_int_equal(n_ended, 0);
        uv_run(&loop, UV_RUN_ONCE); /* a pause may end */
        return false;
    }
    RUN_WITHOUT_MEMORY_UNTIL(n_ended);
    assert_int_equal(n_ended, 1);
    assert_int_equal(rota_channel_n_calls(channel), 0);
    return status == ROTA_STATUS_OK;
}

static void call_scenario(void)
{
    struct rota_channel_options options = {
        .backoff_first = ROTA_MSEC, .backoff_max = ROTA_MSEC, .tls_name = "n", .token = "secret"};
    struct rota_server *server;
    struct rota_channel *channel = NULL;
    begin();
    if (open_server(NULL, &server) && OPEN(rota_channel_open(&loop, rota_server_address(server, 0),
                                                             &options, &channel, &error))) {
        bool is_well = call(channel, false);
        is_well &= call(channel, true);
        assert_true(is_well || no_memory_has_failed());
        no_memory_end();
        while (!call(channel, false) || !call(channel, true))
            ;
    }
    rota_channel_close(channel);
    rota_server_close(server);
    end();
}

static void calls_end_and_the_next_one_succeeds(void **state)
{
    (void)state;
    no_memory_everywhere(call_scenario);
}

/* --- shards --- */

static struct rota_replica replica;
static struct rota_shard_channel shard;

static void on_ask(void *data, struct rota_shards *shards, uint64_t question,
                   const struct rota_shards_name *name)
{
    const struct rota_shards_map map = {.id = 1, .channels = &shard, .n_channels = 1};
    (void)data, (void)name;
    rota_shards_tell(shards, question, &map, NULL);
}

static void on_reply(void *data, const struct rota_shards_reply *reply)
{
    (void)data;
    n_messages++;
    if (reply->status == ROTA_STATUS_OK)
        assert_memory_equal(reply->message.data, "hello", 5);
}

static void on_done(void *data, const struct rota_shards_result *result)
{
    (void)data;
    n_ended++;
    status = result->status;
    assert_int_equal(n_messages, status == ROTA_STATUS_OK ? 1 : n_messages);
    assert_int_equal(result->n_ok, status == ROTA_STATUS_OK);
}

static bool execute(struct rota_shards *shards)
{
    const struct rota_shards_request request = {
        .name = {.database = rota_str("db"), .collection = rota_str("books")},
        .mode = ROTA_SHARDS_ALL,
        .method = rota_str(METHOD),
        .request = rota_str("hello"),
        .timeout = 50 * ROTA_MSEC,
        .repeat = ROTA_REPEAT_ANY,
        .on_reply = on_reply,
        .on_done = on_done,
    };
    n_ended = n_messages = 0;
    if (!OPEN(rota_shards_execute(shards, &request, NULL, &error)))
        return false;
    RUN_WITHOUT_MEMORY_UNTIL(n_ended);
    assert_int_equal(n_ended, 1);
    return status == ROTA_STATUS_OK;
}

static void shards_scenario(void)
{
    const struct rota_shards_source source = {.ask = on_ask};
    const struct rota_shards_options options = {
        .source = &source, .connections = 1, .seed = 1, .blacklist = -1};
    struct rota_server *server;
    struct rota_shards *shards = NULL;
    begin();
    if (open_server(NULL, &server)) {
        replica = (struct rota_replica){1, rota_str(rota_server_address(server, 0)), 1, true};
        shard = (struct rota_shard_channel){rota_str("a"), &replica, 1};
        if (OPEN(rota_shards_open(&loop, &options, &shards, &error))) {
            (void)execute(shards);
            no_memory_end();
            while (!execute(shards))
                ;
        }
    }
    rota_shards_close(shards);
    rota_server_close(server);
    end();
}

static void runs_over_shards_end(void **state)
{
    (void)state;
    no_memory_everywhere(shards_scenario);
}

/* The same with maps of a directory. */
static void look_up(void *data)
{
    (void)data;
}

static void directory_scenario(void)
{
    struct rota_server *server;
    struct rota_space_directory *directory = NULL;
    struct rota_shards *shards = NULL;
    begin();
    if (open_server(NULL, &server) &&
        OPEN(rota_space_directory_open(&loop, server, look_up, NULL, &directory, &error))) {
        const char *address = rota_server_address(server, 0);
        const struct rota_str node = rota_str(address);
        const struct rota_space_shard claim = {.epoch = 1, .state = ROTA_SPACE_OWNED};
        const struct rota_space_map map = {.name = rota_str("db/books"),
                                           .engine = rota_str("lease"),
                                           .nodes = &node,
                                           .n_nodes = 1,
                                           .shards = &claim,
                                           .n_shards = 1};
        const struct rota_shards_options options = {.directories = &address,
                                                    .n_directories = 1,
                                                    .connections = 1,
                                                    .seed = 1,
                                                    .blacklist = -1};
        if (OPEN(rota_space_directory_set(directory, &map, NULL, &error)) &&
            OPEN(rota_shards_open(&loop, &options, &shards, &error))) {
            (void)execute(shards);
            no_memory_end();
            while (!execute(shards))
                ;
        }
    }
    rota_shards_close(shards);
    rota_server_close(server);
    rota_space_directory_close(directory);
    end();
}

static void runs_by_a_directory_end(void **state)
{
    (void)state;
    no_memory_everywhere(directory_scenario);
}

/* --- Gets --- */

static void on_batch(void *data, struct rota_get_batch *batch)
{
    (void)data;
    for (size_t i = 0; i < rota_get_batch_n_keys(batch); i++) {
        const struct rota_str *key = rota_get_batch_key(batch, i);
        rota_get_batch_put(batch, i, rota_get_batch_copy(batch, *key));
    }
    rota_get_batch_finish(batch);
}

static void on_got(void *data, const struct rota_get_result *result)
{
    const struct rota_str *keys = data;
    n_ended++;
    n_messages = result->items ? result->n_items - result->n_missing : 0;
    if (result->n_missing > 0)
        assert_true(result->code && result->text[0]);
    for (size_t i = 0; result->items && i < result->n_items; i++)
        if (result->items[i].state == ROTA_GET_KEY_FOUND)
            assert_true(rota_str_is_equal(result->items[i].value, keys[i]));
        else
            assert_int_equal(result->items[i].state, ROTA_GET_KEY_MISSING);
}

/* So many that not all of their answers fit into memory that is there already. */
enum { KEYS = 200 };

static bool get_keys(struct rota_get *get)
{
    static char names[KEYS][8];
    static struct rota_str keys[KEYS];
    for (int i = 0; i < KEYS; i++) {
        snprintf(names[i], sizeof names[i], "key %d", i);
        keys[i] = rota_str(names[i]);
    }
    const struct rota_get_request request = {
        .keys = keys, .n_keys = KEYS, .timeout = 50 * ROTA_MSEC, .on_done = on_got, .data = keys};
    n_ended = 0;
    if (!OPEN(rota_get_start(get, &request, NULL, &error)))
        return false;
    RUN_WITHOUT_MEMORY_UNTIL(n_ended);
    assert_int_equal(n_ended, 1);
    return n_messages == KEYS;
}

static void get_scenario(void)
{
    const struct rota_get_server_options serve = {.on_batch = on_batch};
    struct rota_get_host host = {.dc = rota_str("a")};
    struct rota_get_options options = {
        .hosts = &host, .n_hosts = 1, .ping_period = ROTA_MSEC, .seed = 1};
    const struct rota_interval whole = rota_interval_of(0, 1);
    struct rota_server *server;
    struct rota_get_server *gets = NULL;
    struct rota_get *get = NULL;
    begin();
    if (open_server(NULL, &server) && OPEN(rota_get_server_open(server, &serve, &gets, &error)) &&
        OPEN(rota_get_server_hold(gets, &whole, 1, &error))) {
        host.address = rota_str(rota_server_address(server, 0));
        if (OPEN(rota_get_open(&loop, &options, &get, &error))) {
            (void)get_keys(get);
            no_memory_end();
            while (!get_keys(get))
                ;
        }
    }
    rota_get_close(get);
    rota_server_close(server);
    rota_get_server_close(gets);
    end();
}

static void gets_end_with_their_missing_keys(void **state)
{
    (void)state;
    no_memory_everywhere(get_scenario);
}

/* --- queues --- */

static struct {
    enum rota_code code;
    char job[ROTA_QUEUE_JOB_MAX];
    uint64_t attempt;
} last;

static void on_result(void *data, const struct rota_queue_result *result)
{
    (void)data;
    n_ended++;
    last.code = result->code;
    assert_true(!result->code || result->text[0]);
}

static void on_work(void *data, const struct rota_queue_result *result,
                    const struct rota_queue_work *works, size_t n)
{
    on_result(data, result);
    if (n > 0) {
        memcpy(last.job, works->job, strlen(works->job) + 1);
        last.attempt = works->attempt;
        assert_memory_equal(works->payload.data, "hello", 5);
    }
}

/* A call of a queue that has begun runs to its end; whether that is good. */
static bool finish(enum rota_code code)
{
    if (!went_well(code))
        return false;
    RUN_WITHOUT_MEMORY_UNTIL(n_ended);
    assert_int_equal(n_ended, 1);
    return last.code == ROTA_OK;
}

#define ASK(call) (n_ended = 0, finish(NO_MEMORY_IN(call)))

static bool add(struct rota_queue *queue)
{
    const struct rota_queue_job job = {.queue = rota_str("mail"),
                                       .payload = rota_str("hello"),
                                       .idempotency_key = rota_str("once")};
    return ASK(rota_queue_add(queue, &job, on_result, NULL, &error));
}

static bool poll(struct rota_queue *queue)
{
    const struct rota_queue_wanted wanted = {
        .queue = rota_str("mail"), .wait = ROTA_MSEC, .lease = ROTA_MIN};
    last.job[0] = '\0';
    while (!last.job[0])
        if (!ASK(rota_queue_poll(queue, &wanted, on_work, NULL, &error)))
            return false;
    return true;
}

static bool complete(struct rota_queue *queue)
{
    return ASK(rota_queue_complete(queue, last.job, last.attempt, rota_str("well"), on_result, NULL,
                                   &error));
}

static bool queue_opens(struct rota_queue **queue, struct rota_server *server)
{
    const struct rota_queue_options options = {.nodes = rota_server_address(server, 0),
                                               .partitions = 1,
                                               .timeout = 100 * ROTA_MSEC,
                                               .patience = ROTA_MSEC};
    return OPEN(rota_queue_open(&loop, &options, queue, &error));
}

static void queue_scenario(void)
{
    const struct rota_server_options options = {.message_max = ROTA_WORK_BROKER_MESSAGE_MAX};
    const struct rota_work_broker_options broker_options = {.is_memory = true, .partitions = 1};
    struct rota_server *server;
    struct rota_work_broker *broker = NULL;
    struct rota_queue *queue = NULL;
    begin();
    if (open_server(&options, &server) &&
        OPEN(rota_work_broker_open(&loop, server, &broker_options, &broker, &error)) &&
        queue_opens(&queue, server)) {
        bool is_well = add(queue) && poll(queue) && complete(queue);
        assert_true(is_well || no_memory_has_failed());
        no_memory_end();
        while (!add(queue))
            ;
    }
    rota_queue_close(queue);
    rota_server_close(server);
    rota_work_broker_close(broker);
    end();
}

static void calls_of_queues_end(void **state)
{
    (void)state;
    no_memory_everywhere(queue_scenario);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls_end_and_the_next_one_succeeds),
        cmocka_unit_test(runs_over_shards_end),
        cmocka_unit_test(runs_by_a_directory_end),
        cmocka_unit_test(gets_end_with_their_missing_keys),
        cmocka_unit_test(calls_of_queues_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
