/* server_call: a reply that is built in the memory of its call, and so not copied, nor
 * allocated for calls that are alike.
 *
 *     struct rota_buffer reply = {0};
 *     rota_server_call_begin_reply(call, &reply);
 *     ... append the message ...
 *     rota_server_call_reply_buffer(call, &reply);
 *     rota_buffer_deinit(&reply); */
#pragma once

#include "base/buffer.h"

#include <rota/server.h>

/* `reply`, which is empty, gets memory of the call's, and a few bytes in front of the
 * message, which are not to be touched. It is the caller's to free. */
void rota_server_call_begin_reply(struct rota_server_call *call, struct rota_buffer *reply);

/* Answer with what was begun like that, and status OK. Takes `call`, and the content of
 * `reply`, which has to be well. */
void rota_server_call_reply_buffer(struct rota_server_call *call, struct rota_buffer *reply);
