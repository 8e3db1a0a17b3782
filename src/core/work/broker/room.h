/* room: how much may still be written to the disk of a journal, and for what.
 *
 * On a full disk, work can still end, but no new work is accepted. So some room is kept that new
 * jobs never get: the reserve, and beyond that as much as the existing jobs need to begin and to
 * end. A batch is written in one piece: new jobs must fit into the newest segment, or on the disk,
 * not half in each.
 *
 * Once a job was rejected, others are too until half of a reserve is free for them: a small job
 * does not slip in where a large one did not fit, and the state does not flap with every
 * segment. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ROTA_ROOM_UNKNOWN UINT64_MAX

enum {
    ROTA_ROOM_END = 128,      /* bytes of the journal records that an attempt began, and ended */
    ROTA_ROOM_MARGIN = 16384, /* for headers, file names and whole blocks */
};

struct rota_room {
    bool is_short; /* no job is accepted */
};

struct rota_room_look {
    uint64_t left;    /* room in the newest segment, which is ours */
    uint64_t free;    /* of the disk; or ROTA_ROOM_UNKNOWN */
    uint64_t waiting; /* bytes still to be written */
    uint64_t reserve; /* its intended size */
    bool has_reserve; /* ... and it exists, in addition to `free` */
    size_t n_jobs;    /* that have not ended */
};

/* Bytes that can be written at all, and those of them outside the reserve. */
uint64_t rota_room_all(const struct rota_room_look *look);
uint64_t rota_room_spare(const struct rota_room_look *look);

/* Bytes that new jobs may take. */
uint64_t rota_room_for_adds(const struct rota_room_look *look);

/* Whether to reject jobs from now on; `was_refused`: one was rejected for lack of room. */
bool rota_room_step(struct rota_room *room, const struct rota_room_look *look, bool was_refused);
