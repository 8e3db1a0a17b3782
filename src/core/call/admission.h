/* admission: how many calls a server runs at a time, and which ones wait.
 *
 *     enter --a slot is free--> RUNNING --leave--> gone
 *     enter --none is--> WAITING --next--> RUNNING
 *                        WAITING --leave, or its deadline passes--> gone
 *     enter --too many wait--> refused
 *
 * Running fewer calls at once finishes each of them sooner, and makes the load visible: every
 * answer carries the length of the queue as part of its cost, so that clients choose another server
 * before it is full. First come, first served; a call whose deadline has passed meanwhile is
 * dropped, since its caller no longer waits.
 *
 * Intrusive: a ticket is in the caller's memory and stays there until it has left. Nothing here
 * needs memory or can fail. Time is monotonic. */
#pragma once

#include "base/list.h"

#include <rota/experimental/balancer.h>
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
    size_t running_max, waiting_max; /* 0: unlimited; nothing waits */
    size_t n_running, n_waiting;
};

void rota_admission_init(struct rota_admission *admission, size_t running_max, size_t waiting_max);

/* A call arrives, with a deadline set in its ticket: RUNNING or WAITING, or OUT when it is
 * refused, also when it would have to wait and can't. No call overtakes those that wait, even
 * while a slot is free. */
enum rota_admission_place rota_admission_enter(struct rota_admission *admission, rota_time now,
                                               bool can_wait, struct rota_admission_ticket *ticket);

/* A call has finished, or no longer waits. No-op when it is out. */
void rota_admission_leave(struct rota_admission *admission, struct rota_admission_ticket *ticket);

/* The next call to leave the queue, NULL when there is none or no free slot: RUNNING now, or OUT
 * when its deadline has passed. After a leave, call this until it returns NULL. */
struct rota_admission_ticket *rota_admission_next(struct rota_admission *admission, rota_time now);

/* Would rota_admission_next() give one? */
bool rota_admission_has_next(const struct rota_admission *admission);

/* The cost of a call that is answered now. */
struct rota_cost rota_admission_cost(const struct rota_admission *admission, rota_time now,
                                     const struct rota_admission_ticket *ticket);
