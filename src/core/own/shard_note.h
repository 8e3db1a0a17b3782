/* shard_note: a space and a shard as one text, "books/0", as calls carry it (rota-shard) and claims
 * are found by it.
 *
 * All but printable ASCII is written as %XX, and so are "/" and "%". So each pair of names has one
 * text that rota_shard_note_format() writes, and no other pair has it. Callers may escape more. */
#pragma once

#include <rota/experimental/shard.h>

enum {
    ROTA_SHARD_NOTE_NAMES_MAX = 2 * ROTA_SHARD_NAME_MAX,     /* a space and a shard */
    ROTA_SHARD_NOTE_MAX = 3 * ROTA_SHARD_NOTE_NAMES_MAX + 1, /* the same, as they are written */
};

/* Writes the note of a shard; empty when a name is empty or longer than ROTA_SHARD_NAME_MAX.
 * Returns the part of `text` that was written. */
struct rota_str rota_shard_note_format(struct rota_str space, struct rota_str shard,
                                       char text[ROTA_SHARD_NOTE_MAX]);

/* The names point into `text`, or into `room` when some of it was escaped. False, and no result,
 * when it is not a shard. */
bool rota_shard_note_parse(struct rota_str text, char room[ROTA_SHARD_NOTE_NAMES_MAX],
                           struct rota_str *space, struct rota_str *shard);
