/* server_call: a reply that is built in the memory of its call, without a copy, and without an
 * allocation for similar calls.
 *
 *     struct rota_buffer reply = {0};
 *     rota_server_call_begin_reply(call, &reply);
 *     ... append the message ...
 *     rota_server_call_reply_buffer(call, &reply);
 *     rota_buffer_deinit(&reply); */
#pragma once

#include "base/buffer.h"

#include <rota/server.h>

/* `reply`, which is empty, gets memory of the call, and a few bytes before the message, which
 * must not be changed. The caller frees it. */
void rota_server_call_begin_reply(struct rota_server_call *call, struct rota_buffer *reply);

/* Answer with a reply that was begun like that, and status OK. Takes `call`, and the content of
 * `reply`, which must not have failed. */
void rota_server_call_reply_buffer(struct rota_server_call *call, struct rota_buffer *reply);
