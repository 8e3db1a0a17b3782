/* Calls of a service for programs that have no loop of their own. */
#include "run/call/service_client_inside.h"

#include "base/text.h"
#include "run/rpc/link.h"

#include <stdlib.h>

struct wait {
    struct uv_loop_s *loop;
    struct rota_service_answer *answer;
    bool is_done, has_failed;
};

static void on_waited(void *data, const struct rota_service_reply *reply)
{
    struct wait *wait = data;
    bool is_ok = reply->status == ROTA_STATUS_OK;
    *wait->answer = (struct rota_service_answer){
        .status = reply->status,
        .text = rota_text_copy(reply->text),
        .message = is_ok ? rota_text_copy(reply->message) : NULL,
        .size = is_ok ? reply->message.size : 0,
        .node = rota_text_copy(reply->node),
        .shard = reply->shard,
        .n_tries = reply->n_tries,
        .epoch = reply->epoch,
        .may_have_run = reply->may_have_run,
    };
    wait->has_failed =
        !wait->answer->text || !wait->answer->node || (is_ok && !wait->answer->message);
    wait->is_done = true;
    uv_stop(wait->loop); /* from a timer, the loop would still sleep once */
}

enum rota_code rota_service_client_wait(struct rota_service_client *client,
                                        const struct rota_service_request *request,
                                        struct rota_service_answer *answer,
                                        struct rota_error *error)
{
    struct wait wait = {.loop = client->loop, .answer = answer};
    struct rota_service_request ours = *request;
    if (rota_link_is_inside())
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "a callback cannot wait for a service: the event loop is already "
                              "running");
    ours.on_reply = on_waited;
    ours.data = &wait;
    enum rota_code code = rota_service_client_call(client, &ours, NULL, error);
    if (code)
        return code;
    while (!wait.is_done)
        uv_run(client->loop, UV_RUN_ONCE);
    if (!wait.has_failed)
        return ROTA_OK;
    rota_service_answer_deinit(answer);
    return rota_error_no_memory(error, "for the reply of a service");
}

void rota_service_answer_deinit(struct rota_service_answer *answer)
{
    free(answer->text);
    free(answer->message);
    free(answer->node);
    *answer = (struct rota_service_answer){0};
}
