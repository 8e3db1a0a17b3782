/* session_watch: which members of a group have sent no heartbeat for their session.
 *
 * A live member changes its row with every heartbeat: the row's `pings` counts them. A member that
 * sees the same count for as long as the other's session lasts, by its own clock, knows that the
 * other has stopped by itself, and may remove the row if that still has this very count, which the
 * table compares. A member whose process is known to be dead may be removed at once.
 *
 * Only observed time counts: two reads that are further apart than `gap_max` count as `gap_max`. So
 * a process that was paused, or suspended with its machine, gives the others a whole session for a
 * heartbeat before it judges them, and no jump of a clock makes a member look dead.
 *
 * All members see the same and would act at the same time. So the first live member acts at once,
 * and the next ones each a little later, in case the first is dead too.
 *
 * Invariants: a count is seen after the heartbeat was sent, so a member is dead no earlier than
 * its own session ends. No member judges itself. */
#pragma once

#include "base/vector.h"

#include <rota/time.h>

enum { ROTA_SESSION_RANKS_MAX = 8 }; /* members further down the list act with the last of these */

#define ROTA_SESSION_RANK_DELAY (50 * ROTA_MSEC)

/* A member, as a list shows it. */
struct rota_session_row {
    uint64_t place; /* grows with each that joins; never used twice */
    uint64_t pings;
    rota_time session;
    bool is_dead; /* its process is known to be dead */
};

struct rota_session_sight {
    struct rota_session_row row;
    rota_time silent; /* observed time with this count */
    rota_time dead;   /* observed time since it was known to be dead */
};

struct rota_session_watch {
    rota_time gap_max, session_min, session_max;
    rota_time looked_at;
    bool has_looked;
    ROTA_VECTOR(struct rota_session_sight) sights; /* as the list had them */
    ROTA_VECTOR(struct rota_session_sight) fresh;  /* room for the next read */
};

/* Nothing was seen. Sessions are clamped to the two bounds. */
void rota_session_watch_init(struct rota_session_watch *watch, rota_time gap_max,
                             rota_time session_min, rota_time session_max);
void rota_session_watch_deinit(struct rota_session_watch *watch);

/* The whole list was read at `now`, the first to act first. False without memory: nothing has
 * changed. */
bool rota_session_watch_see_rows(struct rota_session_watch *watch, rota_time now,
                                 const struct rota_session_row *rows, size_t n_rows);

/* Start counting again: the table was unreachable, so no heartbeat could be seen. */
void rota_session_watch_forget(struct rota_session_watch *watch);

/* The members that we, at place `ours`, remove at `now`: rows from `*place` on, which starts at
 * 0 and is advanced. NULL at the end. Only a member removes others. */
const struct rota_session_row *rota_session_watch_next(const struct rota_session_watch *watch,
                                                       uint64_t ours, size_t *place);

/* When to read again because a member may be dead then; ROTA_TIME_NEVER: no need. */
rota_time rota_session_watch_deadline(const struct rota_session_watch *watch, uint64_t ours);
