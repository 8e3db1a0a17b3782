#include "queue_world.h"

#include <stdio.h>
#include <string.h>

void world_open(struct world *world, const struct rota_work_broker_options *options)
{
    struct rota_server_options with = {.message_max = ROTA_WORK_BROKER_MESSAGE_MAX};
    struct rota_channel_options ask = {.message_max = 32 << 20};
    struct rota_work_broker_options own = *options;
    struct rota_error error;
    assert_int_equal(uv_loop_init(&world->loop), 0);
    if (world->settings_url)
        assert_int_equal(rota_store_open(&world->loop,
                                         &(struct rota_store_options){.url = world->settings_url},
                                         &world->settings, NULL),
                         ROTA_OK);
    own.settings_store = world->settings;
    assert_int_equal(rota_server_open(&world->loop, &with, &world->server, NULL), ROTA_OK);
    if (rota_work_broker_open(&world->loop, world->server, &own, &world->broker, &error))
        fail_msg("%s", error.text);
    while (!rota_work_broker_is_listed(world->broker)) /* before, it accepts no jobs */
        uv_run(&world->loop, UV_RUN_ONCE);
    assert_int_equal(rota_server_listen(world->server, "127.0.0.1:0", NULL), ROTA_OK);
    assert_int_equal(rota_channel_open(&world->loop, rota_server_address(world->server, 0), &ask,
                                       &world->channel, NULL),
                     ROTA_OK);
}

void world_close(struct world *world)
{
    rota_channel_close(world->channel);
    rota_server_close(world->server);
    rota_work_broker_close(world->broker);
    rota_store_close(world->settings);
    rota_arena_deinit(&world->arena);
    uv_run(&world->loop, UV_RUN_DEFAULT);
    await_end(&world->loop);
}

/* --- calls --- */

static void keep(struct told *told, struct rota_str message)
{
    assert_true(message.size <= sizeof told->message);
    if (message.size)
        memcpy(told->message, message.data, message.size);
    told->size = message.size;
}

static void on_end(void *data, struct rota_call *call, const struct rota_call_result *result)
{
    struct told *told = data;
    struct rota_str failure;
    (void)call;
    told->n_ends++;
    told->status = result->status;
    snprintf(told->text, sizeof told->text, "%.*s", ROTA_STR_ARGS(result->text));
    if (rota_metadata_get(result->metadata, result->n_metadata, "rota-failure", &failure))
        snprintf(told->failure, sizeof told->failure, "%.*s", ROTA_STR_ARGS(failure));
    if (result->status == ROTA_STATUS_OK && result->message.data)
        keep(told, result->message);
}

static void on_message(void *data, struct rota_call *call, struct rota_str message)
{
    struct told *told = data;
    (void)call;
    told->n_messages++;
    keep(told, message);
}

struct rota_call *start_raw(struct world *world, const char *method, struct rota_str request,
                            bool is_stream, struct told *told)
{
    char path[64];
    struct rota_call *call;
    snprintf(path, sizeof path, "%s%s", method[0] == '/' ? "" : "/rota.v1.Queue/", method);
    struct rota_call_options options = {.method = rota_str(path),
                                        .request = request,
                                        .on_message = is_stream ? on_message : NULL,
                                        .on_end = on_end,
                                        .data = told};
    *told = (struct told){0};
    assert_int_equal(rota_channel_call(world->channel, &options, &call, NULL), ROTA_OK);
    return call;
}

struct rota_call *start(struct world *world, const char *method,
                        const struct rota_message_type *type, const void *message,
                        struct told *told)
{
    struct rota_buffer buffer = {0};
    rota_message_encode(type, message, &buffer);
    struct rota_call *call =
        start_raw(world, method, rota_buffer_str(&buffer), strcmp(method, "Watch") == 0, told);
    rota_buffer_deinit(&buffer);
    return call;
}

enum rota_status ask(struct world *world, const char *method, const struct rota_message_type *type,
                     const void *message, struct told *told)
{
    start(world, method, type, message, told);
    await(&world->loop, &told->n_ends, 1);
    return told->status;
}

void read_reply(struct world *world, const struct rota_message_type *type, const struct told *told,
                void *message)
{
    struct rota_error error;
    if (rota_message_decode(type, rota_str_of(told->message, told->size), message, &world->arena,
                            &error))
        fail_msg("%s", error.text);
}

/* --- what tests do --- */

struct rota_str id_of(const struct name *name)
{
    return rota_str_of(name->bytes, sizeof name->bytes);
}

enum rota_status add(struct world *world, struct rota_queue_job_spec spec, struct name *name,
                     bool *is_new, struct told *told)
{
    struct rota_queue_add request = {.job = &spec};
    struct rota_queue_added added;
    if (ask(world, "Add", &ROTA_QUEUE_ADD, &request, told))
        return told->status;
    read_reply(world, &ROTA_QUEUE_ADDED, told, &added);
    assert_int_equal(added.id.size, sizeof name->bytes);
    memcpy(name->bytes, added.id.data, sizeof name->bytes);
    if (is_new)
        *is_new = added.is_new;
    return ROTA_STATUS_OK;
}

struct name must_add(struct world *world, const char *queue, const char *payload)
{
    static struct told told;
    struct name name = {0};
    struct rota_queue_job_spec spec = {.queue = rota_str(queue), .payload = rota_str(payload)};
    assert_int_equal(add(world, spec, &name, NULL, &told), ROTA_STATUS_OK);
    return name;
}

const struct rota_str JOBS = {"jobs", 4};

struct rota_queue_poll a_poll(uint64_t max_jobs, uint64_t wait_ms)
{
    return (struct rota_queue_poll){
        .queues = {&JOBS, 1}, .max_jobs = max_jobs, .wait_ms = wait_ms, .worker = rota_str("w1")};
}

size_t poll_jobs(struct world *world, uint64_t max_jobs, uint64_t wait_ms, struct told *told,
                 struct rota_queue_handed *first)
{
    struct rota_queue_poll request = a_poll(max_jobs, wait_ms);
    struct rota_queue_list reply;
    assert_int_equal(ask(world, "Poll", &ROTA_QUEUE_POLL, &request, told), ROTA_STATUS_OK);
    read_reply(world, &ROTA_QUEUE_POLL_REPLY, told, &reply);
    if (reply.items.n > 0)
        *first = *(const struct rota_queue_handed *)reply.items.items;
    return reply.items.n;
}

enum rota_status complete(struct world *world, const struct rota_queue_handed *job,
                          const char *result, struct told *told)
{
    struct rota_queue_about about = {
        .queue = job->queue, .id = job->id, .attempt = job->attempt, .bytes = rota_str(result)};
    return ask(world, "Complete", &ROTA_QUEUE_COMPLETE, &about, told);
}

struct rota_queue_job_info describe(struct world *world, const struct name *name, struct told *told)
{
    struct rota_queue_about about = {.queue = JOBS, .id = id_of(name)};
    struct rota_queue_description reply;
    assert_int_equal(ask(world, "Describe", &ROTA_QUEUE_DESCRIBE, &about, told), ROTA_STATUS_OK);
    read_reply(world, &ROTA_QUEUE_DESCRIPTION, told, &reply);
    return *(const struct rota_queue_job_info *)reply.job;
}
