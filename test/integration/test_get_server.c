/* The server's side of a Get, as a plain call meets it. */
#include "get_hosts.h"
#include "metric.h"

#include "run/call/get_server_inside.h"
#include "wire/message/cache_message.h"

#include <rota/experimental/channel.h>
#include <rota/metrics.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SHARDS = 4 };

struct world {
    uv_loop_t loop;
    struct get_host host;
    struct rota_channel *channel;

    /* Of the last call. */
    size_t n_ended;
    enum rota_status status;
    char text[256], cost[64];
    char *message;
    struct rota_arena arena;
    struct rota_cache_response response;
    struct rota_interval shard; /* the first of the response; zero: none */
    uint64_t epoch;
    const struct rota_get_entry *entries;
};

static void world_open_with(struct world *world, struct rota_server_options options)
{
    struct rota_error error;
    memset(world, 0, sizeof *world);
    uv_loop_init(&world->loop);
    get_host_open_with(&world->host, &world->loop, "a", "127.0.0.1:0", options);
    get_host_hold(&world->host, 1, SHARDS, 7);
    struct rota_channel_options channel = {.message_max = 64 << 20};
    if (rota_channel_open(&world->loop, world->host.address, &channel, &world->channel, &error))
        fail_msg("%s", error.text);
}

static void world_open(struct world *world)
{
    world_open_with(world, (struct rota_server_options){0});
}

static void world_close(struct world *world)
{
    rota_channel_close(world->channel);
    free(world->message);
    rota_arena_deinit(&world->arena);
    get_hosts_close(&world->host, 1, &world->loop);
}

static void on_end(void *data, struct rota_call *call, const struct rota_call_result *result)
{
    struct world *world = data;
    struct rota_str cost = {"", 0};
    (void)call;
    world->n_ended++;
    world->status = result->status;
    snprintf(world->text, sizeof world->text, "%.*s", ROTA_STR_ARGS(result->text));
    rota_metadata_get(result->metadata, result->n_metadata, "rota-cost", &cost);
    snprintf(world->cost, sizeof world->cost, "%.*s", ROTA_STR_ARGS(cost));
    if (result->status != ROTA_STATUS_OK)
        return;
    free(world->message);
    world->message = malloc(result->message.size + 1);
    assert_non_null(world->message);
    memcpy(world->message, result->message.data, result->message.size);
    rota_arena_clear(&world->arena);
    assert_int_equal(rota_message_decode(&ROTA_CACHE_RESPONSE,
                                         rota_str_of(world->message, result->message.size),
                                         &world->response, &world->arena, NULL),
                     ROTA_OK);
    world->entries = world->response.entry.items;
    world->shard = (struct rota_interval){0};
    world->epoch = 0;
    if (world->response.shard.n > 0) {
        const struct rota_interval_claim *first = world->response.shard.items;
        world->shard = first->interval;
        world->epoch = first->epoch;
    }
}

static struct rota_call *start_bytes(struct world *world, struct rota_str request)
{
    struct rota_call_options options = {
        .method = rota_str("/rota.v1.Cache/Get"),
        .request = request,
        .timeout = 20 * ROTA_SEC,
        .on_end = on_end,
        .data = world,
    };
    struct rota_call *call;
    struct rota_error error;
    if (rota_channel_call(world->channel, &options, &call, &error))
        fail_msg("%s", error.text);
    return call;
}

static struct rota_call *start(struct world *world, uint64_t epoch, const char *const *keys,
                               size_t n_keys)
{
    struct rota_str *strs = calloc(n_keys + 1, sizeof *strs);
    const struct rota_cache_request request = {.key = {strs, n_keys}, .epoch = epoch};
    struct rota_buffer buffer = {0};
    assert_non_null(strs);
    for (size_t i = 0; i < n_keys; i++)
        strs[i] = rota_str(keys[i]);
    rota_message_encode(&ROTA_CACHE_REQUEST, &request, &buffer);
    struct rota_call *call = start_bytes(world, rota_buffer_str(&buffer));
    rota_buffer_deinit(&buffer);
    free(strs);
    return call;
}

static void get(struct world *world, uint64_t epoch, const char *const *keys, size_t n_keys)
{
    size_t before = world->n_ended;
    start(world, epoch, keys, n_keys);
    await(&world->loop, &world->n_ended, before + 1);
}

/* A key of this shard: "PREFIX-NUMBER". */
static const char *key_of(uint64_t shard, const char *prefix, char text[32])
{
    for (int i = 0;; i++) {
        snprintf(text, 32, "%s%d", prefix, i);
        if (rota_get_hash(rota_str(text)) % SHARDS == shard)
            return text;
    }
}

static void assert_shard_alone(const struct world *world, uint64_t shard, uint64_t epoch)
{
    assert_int_equal(world->status, ROTA_STATUS_OK);
    assert_false(world->response.all_matched);
    assert_int_equal(world->response.entry.n, 0);
    assert_int_equal(world->response.shard.n, 1);
    assert_int_equal(world->shard.from, shard);
    assert_int_equal(world->epoch, epoch);
}

static void keys_of_the_shard_are_answered(void **state)
{
    struct world world;
    char one[32], two[32], expected[40];
    (void)state;
    world_open(&world);
    const char *keys[] = {key_of(1, "a", one), key_of(1, "b", two)};
    get(&world, 0, keys, 2);
    assert_int_equal(world.status, ROTA_STATUS_OK);
    assert_true(world.response.all_matched);
    assert_int_equal(world.epoch, 7);
    assert_int_equal(world.shard.from, 1);
    assert_int_equal(world.shard.to, 2);
    assert_int_equal(world.shard.of, SHARDS);
    assert_int_equal(world.response.entry.n, 2);
    assert_int_equal(world.entries[1].id, 1);
    snprintf(expected, sizeof expected, "%s@a", two);
    assert_true(rota_str_is_equal(world.entries[1].value, rota_str(expected)));
    assert_true(strlen(world.cost) > 0);
    world_close(&world);
}

static void key_without_a_value_has_no_entry(void **state)
{
    struct world world;
    char one[32], two[32];
    (void)state;
    world_open(&world);
    const char *keys[] = {key_of(1, "-", one), key_of(1, "b", two)};
    get(&world, 7, keys, 2);
    assert_true(world.response.all_matched);
    assert_int_equal(world.response.entry.n, 1);
    assert_int_equal(world.entries[0].id, 1);
    world_close(&world);
}

static void one_key_of_another_shard_and_there_is_the_shard_alone(void **state)
{
    struct world world;
    char one[32], two[32];
    (void)state;
    world_open(&world);
    const char *keys[] = {key_of(1, "a", one), key_of(2, "b", two)};
    get(&world, 7, keys, 2);
    assert_shard_alone(&world, 1, 7);
    assert_int_equal(world.host.n_batches, 0);
    world_close(&world);
}

static void empty_get_returns_the_shard(void **state)
{
    struct world world;
    (void)state;
    world_open(&world);
    get(&world, 0, NULL, 0);
    assert_int_equal(world.status, ROTA_STATUS_OK);
    assert_int_equal(world.response.shard.n, 1);
    assert_true(world.response.all_matched);
    assert_int_equal(world.shard.from, 1);
    assert_int_equal(world.host.n_batches, 0);
    get_host_hold(&world.host, 0, 0, 0);
    get(&world, 0, NULL, 0);
    assert_int_equal(world.status, ROTA_STATUS_OK);
    assert_int_equal(world.response.shard.n, 0);
    assert_false(world.response.all_matched);
    world_close(&world);
}

static void spare_answers_no_key(void **state)
{
    struct world world;
    char one[32];
    (void)state;
    world_open(&world);
    get_host_hold(&world.host, 0, 0, 0);
    const char *keys[] = {key_of(1, "a", one)};
    get(&world, 0, keys, 1);
    assert_int_equal(world.status, ROTA_STATUS_OK);
    assert_false(world.response.all_matched);
    assert_int_equal(world.response.shard.n, 0);
    assert_int_equal(world.host.n_batches, 0);
    world_close(&world);
}

static void caller_that_knows_a_later_epoch_is_not_served(void **state)
{
    struct world world;
    char one[32];
    (void)state;
    world_open(&world);
    const char *keys[] = {key_of(1, "a", one)};
    get(&world, 8, keys, 1);
    assert_shard_alone(&world, 1, 7);
    get(&world, 6, keys, 1); /* who is behind is told, with the values */
    assert_true(world.response.all_matched);
    assert_int_equal(world.epoch, 7);
    world_close(&world);
}

static void each_get_checks_for_an_unnoticed_loss(void **state)
{
    struct world world;
    char one[32];
    (void)state;
    world_open(&world);
    const char *keys[] = {key_of(1, "a", one)};
    world.host.has_lost = true;
    get(&world, 7, keys, 1);
    assert_false(world.response.all_matched);
    assert_int_equal(world.response.shard.n, 0);
    assert_int_equal(world.host.n_batches, 0);
    world_close(&world);
}

static void answer_that_comes_after_the_loss_does_not_leave(void **state)
{
    struct world world;
    char one[32];
    (void)state;
    world_open(&world);
    world.host.is_keeping = true;
    const char *keys[] = {key_of(1, "a", one)};
    start(&world, 7, keys, 1);
    await(&world.loop, &world.host.n_kept, 1);
    assert_false(rota_get_batch_is_cancelled(world.host.kept[0]));
    world.host.has_lost = true;
    assert_true(rota_get_batch_is_cancelled(world.host.kept[0]));
    get_host_release(&world.host);
    await(&world.loop, &world.n_ended, 1);
    assert_false(world.response.all_matched);
    assert_int_equal(world.response.entry.n, 0);
    world_close(&world);
}

static void re_sharding_meets_batches_in_progress(void **state)
{
    struct world world;
    char one[32];
    (void)state;
    world_open(&world);
    world.host.is_keeping = true;
    const char *keys[] = {key_of(1, "a", one)};
    start(&world, 7, keys, 1);
    await(&world.loop, &world.host.n_kept, 1);
    get_host_hold(&world.host, 5, 8, 9);
    get_host_release(&world.host);
    await(&world.loop, &world.n_ended, 1);
    assert_shard_alone(&world, 5, 9);
    assert_int_equal(world.shard.of, 8);
    world_close(&world);
}

static void malformed_request_is_refused_with_a_sentence(void **state)
{
    struct world world;
    (void)state;
    world_open(&world);
    start_bytes(&world, rota_str("\xff\xff\xff"));
    await(&world.loop, &world.n_ended, 1);
    assert_int_equal(world.status, ROTA_STATUS_INVALID_ARGUMENT);
    assert_non_null(strstr(world.text, "malformed"));
    world_close(&world);
}

static void response_that_is_too_large_says_how_large(void **state)
{
    struct world world;
    char one[32];
    (void)state;
    world_open(&world);
    world.host.is_large = true;
    const char *keys[] = {key_of(1, "a", one)};
    get(&world, 0, keys, 1);
    assert_int_equal(world.status, ROTA_STATUS_RESOURCE_EXHAUSTED);
    assert_non_null(strstr(world.text, "the response has at least 1073741824 bytes"));
    world.host.is_large = false;
    get(&world, 0, keys, 1);
    assert_int_equal(world.status, ROTA_STATUS_OK);
    world_close(&world);
}

static void failure_of_the_program_reaches_the_client(void **state)
{
    struct world world;
    char one[32];
    (void)state;
    world_open(&world);
    world.host.is_failing = true;
    const char *keys[] = {key_of(1, "a", one)};
    get(&world, 0, keys, 1);
    assert_int_equal(world.status, ROTA_STATUS_INTERNAL);
    assert_string_equal(world.text, "the disk is on fire");
    world_close(&world);
}

static int64_t n_ended_as(const struct rota_metrics *metrics, const char *result)
{
    char series[80];
    snprintf(series, sizeof series, "rota_get_server_total{result=\"%s\"}", result);
    return metric_of(metrics, series);
}

static void metrics_count_served_keys(void **state)
{
    struct world world;
    char one[32], two[32], three[32], none[32];
    struct rota_metrics *metrics = rota_metrics_new(1);
    (void)state;
    world_open_with(&world, (struct rota_server_options){.metrics = metrics});
    const char *keys[] = {key_of(1, "a", one), key_of(1, "b", two), key_of(1, "-", none),
                          key_of(2, "c", three)};
    assert_int_equal(metric_of(metrics, "rota_get_server_shards"), 1);
    get(&world, 0, keys, 3);
    get(&world, 0, keys, 2);
    assert_int_equal(n_ended_as(metrics, "answered"), 2);
    assert_int_equal(metric_of(metrics, "rota_get_server_keys_total{result=\"found\"}"), 4);
    assert_int_equal(metric_of(metrics, "rota_get_server_keys_total{result=\"absent\"}"), 1);
    get(&world, 0, keys, 4);
    assert_int_equal(n_ended_as(metrics, "not_matched"), 1);
    get(&world, 0, NULL, 0);
    assert_int_equal(n_ended_as(metrics, "empty"), 1);
    start_bytes(&world, rota_str("\xff"));
    await(&world.loop, &world.n_ended, 5);
    assert_int_equal(n_ended_as(metrics, "invalid"), 1);
    world.host.is_failing = true;
    get(&world, 0, keys, 1);
    assert_int_equal(n_ended_as(metrics, "failed"), 1);
    assert_int_equal(n_ended_as(metrics, "answered"), 2);
    get_host_hold(&world.host, 0, 0, 0);
    assert_int_equal(metric_of(metrics, "rota_get_server_shards"), 0);
    world_close(&world);
    rota_metrics_free(metrics);
}

static void program_is_notified_of_a_cancelled_call(void **state)
{
    struct world world;
    char one[32];
    (void)state;
    world_open(&world);
    world.host.is_keeping = true;
    const char *keys[] = {key_of(1, "a", one)};
    struct rota_call *call = start(&world, 7, keys, 1);
    await(&world.loop, &world.host.n_kept, 1);
    rota_call_cancel(call);
    await(&world.loop, &world.host.n_cancelled, 1);
    get_host_release(&world.host);
    world_close(&world);
}

static void more_batches_than_handlers_wait_and_then_are_refused(void **state)
{
    struct world world;
    char one[32];
    (void)state;
    world_open_with(&world, (struct rota_server_options){.handlers_max = 1, .waiting_max = 1});
    world.host.is_keeping = true;
    const char *keys[] = {key_of(1, "a", one)};
    for (int i = 0; i < 3; i++)
        start(&world, 7, keys, 1);
    await(&world.loop, &world.n_ended, 1);
    assert_int_equal(world.status, ROTA_STATUS_RESOURCE_EXHAUSTED);
    assert_int_equal(world.host.n_batches, 1);
    world.host.is_keeping = false;
    get_host_release(&world.host);
    await(&world.loop, &world.n_ended, 3);
    assert_int_equal(world.status, ROTA_STATUS_OK);
    world_close(&world);
}

static void bad_shards_are_refused(void **state)
{
    struct world world;
    struct rota_interval of_none = rota_interval_of(0, 0), beyond = {4, 5, 4}, empty = {3, 3, 0};
    struct rota_interval held = rota_interval_of(1, SHARDS), all = {0, 0, 0};
    struct rota_error error;
    (void)state;
    world_open(&world);
    assert_int_equal(rota_get_server_hold(world.host.gets, &of_none, 9, &error), ROTA_ERR_INVALID);
    assert_int_equal(rota_get_server_hold(world.host.gets, &beyond, 9, &error), ROTA_ERR_INVALID);
    assert_int_equal(rota_get_server_hold(world.host.gets, &empty, 9, &error), ROTA_ERR_INVALID);
    assert_non_null(strstr(error.text, "has no keys"));
    assert_int_equal(rota_get_server_hold(world.host.gets, &held, 6, &error), ROTA_ERR_INVALID);
    assert_non_null(strstr(error.text, "must not go backwards"));
    get(&world, 0, NULL, 0);
    assert_int_equal(world.epoch, 7); /* as it was */
    rota_get_server_drop(world.host.gets, &held);
    assert_int_equal(rota_get_server_hold(world.host.gets, &held, 6, &error), ROTA_ERR_INVALID);
    assert_int_equal(rota_get_server_hold(world.host.gets, &all, 9, NULL), ROTA_OK);
    get(&world, 0, NULL, 0);
    assert_int_equal(world.shard.to, 0);
    world_close(&world);
}

static void several_shards_are_served_at_one_address(void **state)
{
    struct world world;
    struct rota_interval third = rota_interval_of(3, SHARDS);
    const struct rota_interval_claim *shards = NULL;
    char one[32], two[32], other[32];
    (void)state;
    world_open(&world);
    assert_int_equal(rota_get_server_hold(world.host.gets, &third, 5, NULL), ROTA_OK);
    const char *keys[] = {key_of(1, "a", one), key_of(3, "b", two), key_of(2, "c", other)};
    get(&world, 7, keys, 2);
    assert_true(world.response.all_matched);
    assert_int_equal(world.response.entry.n, 2);
    assert_int_equal(world.response.shard.n, 2);
    shards = world.response.shard.items;
    assert_true(shards[0].interval.from == 1 && shards[0].epoch == 7);
    assert_true(shards[1].interval.from == 3 && shards[1].epoch == 5);
    get(&world, 7, keys, 3);
    assert_false(world.response.all_matched);
    assert_int_equal(world.response.entry.n, 0);
    assert_int_equal(world.response.shard.n, 2);
    rota_get_server_drop(world.host.gets, &third);
    get(&world, 7, keys + 1, 1);
    assert_shard_alone(&world, 1, 7);
    world_close(&world);
}

static void loss_of_one_shard_does_not_harm_the_answers_of_another(void **state)
{
    struct world world;
    struct rota_interval third = rota_interval_of(3, SHARDS);
    char one[32], two[32];
    (void)state;
    world_open(&world);
    assert_int_equal(rota_get_server_hold(world.host.gets, &third, 5, NULL), ROTA_OK);
    const char *keys[] = {key_of(1, "a", one), key_of(3, "b", two)};
    world.host.is_keeping = true;
    start(&world, 7, keys, 1);
    await(&world.loop, &world.host.n_kept, 1);
    rota_get_server_drop(world.host.gets, &third);
    get_host_release(&world.host);
    await(&world.loop, &world.n_ended, 1);
    assert_true(world.response.all_matched);
    assert_int_equal(world.response.entry.n, 1);

    assert_int_equal(rota_get_server_hold(world.host.gets, &third, 6, NULL), ROTA_OK);
    start(&world, 7, keys, 2);
    await(&world.loop, &world.host.n_kept, 1);
    assert_int_equal(rota_get_server_hold(world.host.gets, &third, 8, NULL), ROTA_OK);
    get_host_release(&world.host);
    await(&world.loop, &world.n_ended, 2);
    assert_false(world.response.all_matched); /* a key was of the former claim */
    assert_int_equal(world.response.entry.n, 0);
    world_close(&world);
}

static void on_idle(void *data)
{
    ++*(size_t *)data;
}

static void leaving_server_finishes_its_batches(void **state)
{
    struct world world;
    size_t n_idle = 0;
    char one[32];
    (void)state;
    world_open(&world);
    world.host.is_keeping = true;
    const char *keys[] = {key_of(1, "a", one)};
    start(&world, 7, keys, 1);
    await(&world.loop, &world.host.n_kept, 1);
    rota_get_server_leave(world.host.gets, on_idle, &n_idle);
    get(&world, 0, NULL, 0); /* clients go elsewhere from now on */
    assert_int_equal(world.response.shard.n, 0);
    assert_int_equal(n_idle, 0);
    get_host_release(&world.host);
    await(&world.loop, &world.n_ended, 2);
    assert_true(world.response.all_matched);
    assert_int_equal(world.response.entry.n, 1);
    assert_int_equal(n_idle, 1);
    world_close(&world);
}

static void more_shards_than_a_server_can_hold_are_refused(void **state)
{
    struct world world;
    struct rota_error error;
    (void)state;
    world_open(&world);
    for (uint64_t i = 0; i < ROTA_GET_SHARDS_MAX - 1; i++) {
        struct rota_interval shard = rota_interval_of(i, 5000);
        assert_int_equal(rota_get_server_hold(world.host.gets, &shard, 5, NULL), ROTA_OK);
    }
    struct rota_interval more = rota_interval_of(4999, 5000), first = rota_interval_of(0, 5000);
    assert_int_equal(rota_get_server_hold(world.host.gets, &more, 5, &error), ROTA_ERR_LIMIT);
    assert_non_null(strstr(error.text, "1024"));
    rota_get_server_drop(world.host.gets, &first);
    assert_int_equal(rota_get_server_hold(world.host.gets, &more, 5, &error), ROTA_OK);
    get(&world, 0, NULL, 0);
    assert_int_equal(world.response.shard.n, ROTA_GET_SHARDS_MAX);
    world_close(&world);
}

static void batch_may_be_finished_after_the_server_is_gone(void **state)
{
    struct world world;
    char one[32];
    (void)state;
    world_open(&world);
    world.host.is_keeping = true;
    const char *keys[] = {key_of(1, "a", one)};
    start(&world, 7, keys, 1);
    await(&world.loop, &world.host.n_kept, 1);
    rota_server_close(world.host.server);
    rota_get_server_close(world.host.gets);
    world.host.server = NULL;
    await(&world.loop, &world.n_ended, 1);
    get_host_release(&world.host);
    world_close(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_of_the_shard_are_answered),
        cmocka_unit_test(key_without_a_value_has_no_entry),
        cmocka_unit_test(one_key_of_another_shard_and_there_is_the_shard_alone),
        cmocka_unit_test(empty_get_returns_the_shard),
        cmocka_unit_test(spare_answers_no_key),
        cmocka_unit_test(caller_that_knows_a_later_epoch_is_not_served),
        cmocka_unit_test(each_get_checks_for_an_unnoticed_loss),
        cmocka_unit_test(answer_that_comes_after_the_loss_does_not_leave),
        cmocka_unit_test(re_sharding_meets_batches_in_progress),
        cmocka_unit_test(malformed_request_is_refused_with_a_sentence),
        cmocka_unit_test(response_that_is_too_large_says_how_large),
        cmocka_unit_test(failure_of_the_program_reaches_the_client),
        cmocka_unit_test(metrics_count_served_keys),
        cmocka_unit_test(program_is_notified_of_a_cancelled_call),
        cmocka_unit_test(more_batches_than_handlers_wait_and_then_are_refused),
        cmocka_unit_test(bad_shards_are_refused),
        cmocka_unit_test(several_shards_are_served_at_one_address),
        cmocka_unit_test(loss_of_one_shard_does_not_harm_the_answers_of_another),
        cmocka_unit_test(leaving_server_finishes_its_batches),
        cmocka_unit_test(more_shards_than_a_server_can_hold_are_refused),
        cmocka_unit_test(batch_may_be_finished_after_the_server_is_gone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
