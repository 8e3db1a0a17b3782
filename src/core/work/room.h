/* room: what may still be written to the disk of a journal, and for whom.
 *
 * Whoever ends work goes on when a disk is full; whoever brings it does not. So some room is kept
 * that new jobs never get: the reserve, and beyond that as much as the jobs that are there need
 * to begin and to end. A batch goes to the disk in one piece: new jobs must find a place for it
 * in the newest segment, or on the disk, and not half in the one and half on the other.
 *
 * Once a job was refused, others are too until there is half of a reserve for them: a small one
 * does not slip in where a large one did not fit, and nobody is told about every segment. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ROTA_ROOM_UNKNOWN UINT64_MAX

enum {
    ROTA_ROOM_END = 128,      /* bytes of a journal that say that an attempt began, and ended */
    ROTA_ROOM_MARGIN = 16384, /* for heads, names of files and whole blocks */
};

struct rota_room {
    bool is_short; /* no job is taken in */
};

struct rota_room_look {
    uint64_t left;    /* that the newest segment may still take: nobody else gets that */
    uint64_t free;    /* of the disk; or ROTA_ROOM_UNKNOWN */
    uint64_t waiting; /* bytes that are to be written already */
    uint64_t reserve; /* how large it should be */
    bool has_reserve; /* ... and it is there, beside `free` */
    size_t n_jobs;    /* that have not ended */
};

/* Bytes that can be written at all, and those of them that are not the reserve's. */
uint64_t rota_room_all(const struct rota_room_look *look);
uint64_t rota_room_spare(const struct rota_room_look *look);

/* Bytes that new jobs may take. */
uint64_t rota_room_for_adds(const struct rota_room_look *look);

/* Whether jobs are to be refused from now on; `was_refused` says that one was for which there was
 * no room. */
bool rota_room_step(struct rota_room *room, const struct rota_room_look *look, bool was_refused);
