/* oracle: our message tables beside what protobuf-c generates from the same .proto. Both are asked
 * for the same thing, and equal answers are the rule. */
#pragma once

#include "wire/message/message.h"

#include <protobuf-c/protobuf-c.h>
#include <rota/experimental/random.h>

/* Whether the table has the fields of the .proto, with their types and, if `with_names`, their
 * names; if not, `where` is the first that differs. A list of numbers is of no use to us and may be
 * missing. */
bool oracle_has_table(const struct rota_message_type *ours,
                      const ProtobufCMessageDescriptor *theirs, bool with_names,
                      const char **where);

/* Whether a random message that is written by our table is read by protobuf-c and written again
 * as the same bytes, and these are read and written by our table as the same bytes. */
bool oracle_agrees(const struct rota_message_type *ours, const ProtobufCMessageDescriptor *theirs,
                   struct rota_random *random);

/* Any bytes: what ours reads theirs reads, too, and both write the same again; and ours reads what
 * theirs has read and written. (Not the other way round: theirs drops bits that ours rejects.)
 * Asserts. Not for a table that has less than the .proto, as for a oneof. */
void oracle_check(const struct rota_message_type *ours, const ProtobufCMessageDescriptor *theirs,
                  struct rota_str bytes);
