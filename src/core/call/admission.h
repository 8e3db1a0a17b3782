/* admission: how many calls a server works on at one time, and who waits.
 *
 *     enter --a place is free--> RUNNING --leave--> gone
 *     enter --none is--> WAITING --next--> RUNNING
 *                        WAITING --leave, or its deadline passes--> gone
 *     enter --too many wait--> refused, and was never here
 *
 * Working on fewer calls at once finishes each of them sooner, and what waits can
 * be seen: the length of the queue goes out with every answer, as part of its cost,
 * so that clients go elsewhere before it is full. The first to come is the first
 * served; one whose deadline has passed meanwhile is not served at all, for nobody
 * would hear the answer.
 *
 * Intrusive: a ticket lies in the caller's memory and stays there until it has
 * left. Nothing here needs memory or can fail. Time is monotonic. */
#pragma once

#include "core/call/list.h"

#include <rota/balancer.h>
#include <rota/time.h>

enum rota_admission_place { ROTA_ADMISSION_OUT, ROTA_ADMISSION_WAITING, ROTA_ADMISSION_RUNNING };

struct rota_admission_ticket {
    struct rota_list_node link; /* while it waits */
    enum rota_admission_place place;
    rota_time deadline; /* the caller's; ROTA_TIME_NEVER: none */
    rota_time arrived_at, started_at;
};

struct rota_admission {
    struct rota_list_node queue;
    size_t running_max, waiting_max; /* 0: without bound; nothing waits */
    size_t n_running, n_waiting;
};

void rota_admission_init(struct rota_admission *admission, size_t running_max, size_t waiting_max);

/* A call comes, with a deadline set in its ticket: RUNNING or WAITING, or OUT when
 * it is refused, as is one that would have to wait and can't. Nobody overtakes those
 * who wait, also while a place is free. */
enum rota_admission_place rota_admission_enter(struct rota_admission *admission, rota_time now,
                                               bool can_wait, struct rota_admission_ticket *ticket);

/* A call is through, or does not wait any more. No-op when it is out. */
void rota_admission_leave(struct rota_admission *admission, struct rota_admission_ticket *ticket);

/* The next to leave the queue, NULL when there is none or no place: RUNNING now, or
 * OUT when it is too late for it. To be called until it is NULL after a leave. */
struct rota_admission_ticket *rota_admission_next(struct rota_admission *admission, rota_time now);

/* Would rota_admission_next() give one? */
bool rota_admission_has_next(const struct rota_admission *admission);

/* What a call that is answered now has cost. */
struct rota_cost rota_admission_cost(const struct rota_admission *admission, rota_time now,
                                     const struct rota_admission_ticket *ticket);
