/* Calls for programs that have no loop of their own. */
#include "run/rpc/channel_inside.h"

#include "base/text.h"
#include "run/rpc/link.h"

#include <stdlib.h>
#include <uv.h>

struct wait {
    struct uv_loop_s *loop;
    struct rota_reply reply;
    bool is_done, has_failed;
};

/* The pairs and their texts, in one piece. */
static bool copy_metadata(const struct rota_call_result *result, struct rota_reply *reply)
{
    size_t size = result->n_metadata * sizeof *reply->metadata;
    if (result->n_metadata == 0)
        return true;
    for (size_t i = 0; i < result->n_metadata; i++)
        size += result->metadata[i].name.size + result->metadata[i].value.size;
    reply->metadata = malloc(size);
    if (!reply->metadata)
        return false;
    char *text = (char *)(reply->metadata + result->n_metadata);
    for (size_t i = 0; i < result->n_metadata; i++) {
        struct rota_metadata *pair = &reply->metadata[i];
        *pair = result->metadata[i];
        pair->name.data = memcpy(text, pair->name.data, pair->name.size);
        text += pair->name.size;
        if (pair->value.size == 0)
            pair->value = rota_str("");
        else
            pair->value.data = memcpy(text, pair->value.data, pair->value.size);
        text += pair->value.size;
    }
    reply->n_metadata = result->n_metadata;
    return true;
}

static void on_wait_end(void *data, struct rota_call *call, const struct rota_call_result *result)
{
    struct wait *wait = data;
    (void)call;
    wait->is_done = true;
    wait->reply.status = result->status;
    wait->reply.may_have_run = result->may_have_run;
    wait->reply.text = rota_text_copy(result->text);
    if (result->status == ROTA_STATUS_OK) {
        wait->reply.message = rota_text_copy(result->message);
        wait->reply.size = result->message.size;
    }
    wait->has_failed = !copy_metadata(result, &wait->reply) || !wait->reply.text ||
                       (result->status == ROTA_STATUS_OK && !wait->reply.message);
    uv_stop(wait->loop); /* from a timer, the loop would still sleep once */
}

enum rota_code rota_channel_wait(struct rota_channel *channel,
                                 const struct rota_call_options *options, struct rota_reply *reply,
                                 struct rota_error *error)
{
    if (rota_link_is_inside())
        return rota_error_set(
            error, ROTA_ERR_INVALID,
            "a callback cannot wait for a call: the event loop is already running");
    struct wait wait = {.loop = rota_channel_loop(channel)};
    struct rota_call_options ours = *options;
    ours.on_message = NULL;
    ours.on_end = on_wait_end;
    ours.data = &wait;
    enum rota_code code = rota_channel_call(channel, &ours, NULL, error);
    if (code)
        return code;
    while (!wait.is_done)
        uv_run(rota_channel_loop(channel), UV_RUN_ONCE);
    if (wait.has_failed) {
        rota_reply_deinit(&wait.reply);
        return rota_error_no_memory(error, "for the reply from %s", rota_channel_target(channel));
    }
    *reply = wait.reply;
    return ROTA_OK;
}

void rota_reply_deinit(struct rota_reply *reply)
{
    free(reply->text);
    free(reply->message);
    free(reply->metadata);
    *reply = (struct rota_reply){0};
}
