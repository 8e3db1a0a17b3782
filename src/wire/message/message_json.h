/* message_json: messages as JSON, both ways, by the tables of message.h.
 *
 * A message is an object whose members have the names of its fields. Numbers are numbers, named
 * values their names, ids hexadecimal. Bytes that are text are a string, all others {"base64":
 * "..."}. All members are written; of those that are read any may be missing, or null, but none
 * may be unknown. */
#pragma once

#include "base/json.h"
#include "wire/message/message.h"

/* Write an object. */
void rota_message_json_write(const struct rota_message_type *type, const void *message,
                             struct rota_json *json);

/* Only its members, into an object that is open. */
void rota_message_json_write_members(const struct rota_message_type *type, const void *message,
                                     struct rota_json *json);

/* Read a text into the struct `message`, all of it; what it points to is in the arena. On
 * failure it is all zero. Nested messages are not read. */
enum rota_code rota_message_json_read(const struct rota_message_type *type, struct rota_str text,
                                      void *message, struct rota_arena *arena,
                                      struct rota_error *error);
