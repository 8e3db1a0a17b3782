/* server_call: the calls in progress, counted by a user's numbers; and a reply that is built in the
 * memory of its call, without a copy, and without an allocation for similar calls.
 *
 *     struct rota_buffer reply = {0};
 *     rota_server_call_begin_reply(call, &reply);
 *     ... append the message ...
 *     rota_server_call_reply_buffer(call, &reply);
 *     rota_buffer_deinit(&reply); */
#pragma once

#include "base/buffer.h"

#include <rota/server.h>

/* Counts the calls of fenced methods: on_begin numbers a call before its handler gets it; on_end
 * gets the number when the handler has finished the call. */
struct rota_server_tally {
    uint32_t (*on_begin)(void *data, struct rota_server_call *call);
    void (*on_end)(void *data, uint32_t number);
    void *data;
};

/* The tally is copied; one without functions ends the counting. */
void rota_server_call_set_tally(struct rota_server *server, struct rota_server_tally tally);

/* `reply`, which is empty, gets memory of the call, and a few bytes before the message, which
 * must not be changed. The caller frees it. */
void rota_server_call_begin_reply(struct rota_server_call *call, struct rota_buffer *reply);

/* Answer with a reply that was begun like that, and status OK. Takes `call`, and the content of
 * `reply`, which must not have failed. */
void rota_server_call_reply_buffer(struct rota_server_call *call, struct rota_buffer *reply);
