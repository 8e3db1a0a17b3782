/* Rota's own channel and server; as call_fenced, each call names the shard that it is for and the
 * epoch that the server owns it by, which the server checks. */
#include "messages.h"

#include <rota/experimental/rota.h>
#include <uv.h>

static uv_loop_t loop;
static struct rota_buffer bytes;

/* --- the server --- */

static void on_call(void *data, struct rota_server_call *call)
{
    bool is_batch = data != NULL;
    rota_buffer_clear(&bytes);
    if (messages_answer(is_batch, rota_server_call_request(call), &bytes))
        rota_server_call_reply(call, rota_buffer_str(&bytes));
    else
        rota_server_call_finish(call, ROTA_STATUS_INVALID_ARGUMENT, "malformed", NULL, 0);
}

static void serve(void)
{
    struct rota_server *server;
    struct rota_server_options options = {0};
    struct rota_error error;
    struct rota_server_method echo = {
        .path = LOAD_ECHO_PATH, .on_call = on_call, .is_fenced = IS_FENCED};
    struct rota_server_method batch = {
        .path = LOAD_BATCH_PATH, .on_call = on_call, .is_fenced = IS_FENCED, .data = &loop};
    struct rota_claim claim = {.space = rota_str("bench"),
                               .shard = rota_str("7"),
                               .node = 1,
                               .epoch = 4711,
                               .is_held = true};
    uv_loop_init(&loop);
    if (IS_FENCED && (rota_claims_new(1, &options.claims, &error) ||
                      rota_claims_set(options.claims, &claim, &error)))
        load_fail("%s", error.text);
    if (rota_server_open(&loop, &options, &server, &error) ||
        rota_server_add(server, &echo, &error) || rota_server_add(server, &batch, &error) ||
        rota_server_listen(server, "127.0.0.1:0", &error))
        load_fail("%s", error.text);
    load_ready(rota_server_address(server, 0));
    uv_run(&loop, UV_RUN_DEFAULT);
}

/* --- the client --- */

static struct load *load;
static struct rota_channel *channels[LOAD_CONNECTIONS_MAX];
static uint64_t ids[LOAD_CALLS_MAX];
static struct rota_metadata fence[2];

static void begin(uint64_t *id);

static void on_end(void *data, struct rota_call *call, const struct rota_call_result *result)
{
    uint64_t *id = data;
    (void)call;
    if (result->status != ROTA_STATUS_OK)
        load_fail("a call failed with status %d: %.*s", result->status,
                  ROTA_STR_ARGS(result->text));
    load_end(load, (unsigned)(id - ids), messages_is_right(load->is_batch, *id, result->message));
    begin(id);
}

static void begin(uint64_t *id)
{
    unsigned slot = (unsigned)(id - ids);
    struct rota_error error;
    *id = load_begin(load, slot);
    messages_ask(load->is_batch, *id, &bytes);
    struct rota_call_options options = {
        .method = rota_str(load->is_batch ? LOAD_BATCH_PATH : LOAD_ECHO_PATH),
        .request = rota_buffer_str(&bytes),
        .timeout = LOAD_TIMEOUT_MS * ROTA_MSEC,
        .metadata = fence,
        .n_metadata = IS_FENCED ? 2 : 0,
        .on_end = on_end,
        .data = id,
    };
    if (rota_channel_call(channels[slot % load->n_connections], &options, NULL, &error))
        load_fail("%s", error.text);
}

static void drive(struct load *the_load)
{
    struct rota_error error;
    load = the_load;
    fence[0] = (struct rota_metadata){rota_str("rota-shard"), rota_str("bench/7")};
    fence[1] = (struct rota_metadata){rota_str("rota-epoch"), rota_str("4711")};
    uv_loop_init(&loop);
    for (unsigned i = 0; i < load->n_connections; i++)
        if (rota_channel_open(&loop, load->address, NULL, &channels[i], &error))
            load_fail("%s", error.text);
    for (unsigned i = 0; i < load->n_calls; i++)
        begin(&ids[i]);
    uv_run(&loop, UV_RUN_DEFAULT);
}

int main(int argc, char **argv)
{
    return load_main(argc, argv, &(struct load_transport){PROGRAM, serve, drive});
}
