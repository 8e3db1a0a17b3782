/* Runs for programs that have no loop of their own. */
#include "run/call/shards_inside.h"

#include "base/text.h"
#include "run/rpc/link.h"

#include <stdlib.h>

struct wait {
    struct uv_loop_s *loop;
    struct rota_shards_answers answers;
    ROTA_VECTOR(struct rota_shards_answer) items;
    const struct rota_shards_request *request;
    bool is_done, has_failed;
};

static void on_reply(void *data, const struct rota_shards_reply *reply)
{
    struct wait *wait = data;
    bool is_ok = reply->status == ROTA_STATUS_OK;
    struct rota_shards_answer answer = {
        .channel = rota_text_copy(reply->channel),
        .status = reply->status,
        .text = rota_text_copy(reply->text),
        .message = is_ok ? rota_text_copy(reply->message) : NULL,
        .size = is_ok ? reply->message.size : 0,
        .node = reply->node,
    };
    bool is_whole = answer.channel && answer.text && (answer.message || !is_ok);
    if (is_whole && rota_vector_push(&wait->items, answer))
        return;
    free(answer.channel);
    free(answer.text);
    free(answer.message);
    wait->has_failed = true;
}

static void on_done(void *data, const struct rota_shards_result *result)
{
    struct wait *wait = data;
    wait->is_done = true;
    wait->answers.status = result->status;
    wait->answers.text = rota_text_copy(result->text);
    wait->has_failed |= !wait->answers.text;
    uv_stop(wait->loop); /* from a timer, the loop would still sleep once */
}

static struct rota_str on_request(void *data, struct rota_str channel)
{
    const struct wait *wait = data;
    return wait->request->on_request(wait->request->data, channel);
}

enum rota_code rota_shards_wait(struct rota_shards *shards,
                                const struct rota_shards_request *request,
                                struct rota_shards_answers *answers, struct rota_error *error)
{
    if (rota_link_is_inside())
        return rota_error_set(
            error, ROTA_ERR_INVALID,
            "a callback cannot wait for shards: the event loop is already running");
    struct wait wait = {.loop = shards->loop, .request = request};
    struct rota_shards_request ours = *request;
    ours.on_reply = on_reply;
    ours.on_done = on_done;
    ours.on_request = request->on_request ? on_request : NULL;
    ours.data = &wait;
    enum rota_code code = rota_shards_execute(shards, &ours, NULL, error);
    if (code)
        return code;
    while (!wait.is_done)
        uv_run(shards->loop, UV_RUN_ONCE);
    wait.answers.items = wait.items.items;
    wait.answers.n_items = wait.items.size;
    if (wait.has_failed) {
        rota_shards_answers_deinit(&wait.answers);
        return rota_error_no_memory(error, "for the replies of shards");
    }
    *answers = wait.answers;
    return ROTA_OK;
}

void rota_shards_answers_deinit(struct rota_shards_answers *answers)
{
    for (size_t i = 0; i < answers->n_items; i++) {
        free(answers->items[i].channel);
        free(answers->items[i].text);
        free(answers->items[i].message);
    }
    free(answers->items);
    free(answers->text);
    *answers = (struct rota_shards_answers){0};
}
