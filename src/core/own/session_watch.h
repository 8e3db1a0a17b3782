/* session_watch: which members of a group have shown no sign of life for their session.
 *
 * A living member changes its row with every sign of life: the row's `pings` counts
 * them. Whoever sees the same count for as long as the member's session lasts, by its
 * own clock, knows that the member has stopped by itself, and may remove the row if
 * that still has this very count, which the table compares. A member whose process is
 * known to be dead may go at once.
 *
 * Only time in which we have looked counts: between two looks that are further apart
 * than `gap_max` no more than that goes by. So whoever was stopped, or slept with its
 * machine, gives the others a session to be heard of before it judges them, and no
 * jump of a clock makes anybody look dead.
 *
 * All see the same and would act at once. The first of the living acts at once, the
 * next ones each a little later, in case that the first is about to be found dead too.
 *
 * Invariants: a count is seen after the sign was sent, so a member is dead no earlier
 * than its own count of the session ends. Nobody judges itself. */
#pragma once

#include "base/vector.h"

#include <rota/time.h>

enum { ROTA_SESSION_RANKS_MAX = 8 }; /* who is further behind acts with the last of these */

#define ROTA_SESSION_RANK_DELAY (50 * ROTA_MSEC)

/* A member, as a list of them says. */
struct rota_session_row {
    uint64_t place; /* grows with each that joins; never used twice */
    uint64_t pings;
    rota_time session;
    bool is_dead; /* its process is known to be */
};

struct rota_session_sight {
    struct rota_session_row row;
    rota_time silent; /* that was seen with this count */
    rota_time dead;   /* that it was known to be dead */
};

struct rota_session_watch {
    rota_time gap_max, session_min, session_max;
    rota_time looked_at;
    bool has_looked;
    ROTA_VECTOR(struct rota_session_sight) sights; /* as the list had them */
    ROTA_VECTOR(struct rota_session_sight) fresh;  /* room for the next look */
};

/* Nothing was seen. Sessions are held within the two bounds. */
void rota_session_watch_init(struct rota_session_watch *watch, rota_time gap_max,
                             rota_time session_min, rota_time session_max);
void rota_session_watch_deinit(struct rota_session_watch *watch);

/* The whole list was heard at `now`, the first to act first. False without memory: what was counted
 * is as it was. */
bool rota_session_watch_see(struct rota_session_watch *watch, rota_time now,
                            const struct rota_session_row *rows, size_t n_rows);

/* Begin to count anew: the table was away, so nobody could be heard of. */
void rota_session_watch_forget(struct rota_session_watch *watch);

/* Whom we, who have `ours` as our place, remove at `now`: rows from `*place` on, which
 * starts at 0 and is moved on. NULL: no more. Only a member removes others. */
const struct rota_session_row *rota_session_watch_next(const struct rota_session_watch *watch,
                                                       uint64_t ours, size_t *place);

/* When to look again because somebody may be dead then; ROTA_TIME_NEVER: when all is
 * as usual. */
rota_time rota_session_watch_deadline(const struct rota_session_watch *watch, uint64_t ours);
