/* messages: the load's requests and replies as bytes, by message tables. */
#pragma once

#include "base/buffer.h"
#include "load.h"

/* A client's: put the request for `id` into `bytes`, which is emptied before. */
void messages_ask(bool is_batch, uint64_t id, struct rota_buffer *bytes);

/* Is this the answer to it? */
bool messages_is_right(bool is_batch, uint64_t id, struct rota_str reply);

/* A server's: append the answer to `reply`; false when the request is malformed. */
bool messages_answer(bool is_batch, struct rota_str request, struct rota_buffer *reply);
