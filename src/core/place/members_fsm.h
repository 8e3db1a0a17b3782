/* members_fsm: what the membership is, from snapshots of a source, operators' overrides and the
 * wall clock.
 *
 * It has no states to go through: after every step the members are those of the last snapshot, and
 * the ring holds exactly those for which rota_host_is_placed() is true and no override says
 * otherwise. An event is only a hint to look again, so one that comes late, twice or out of order
 * does no harm, and a clock set back takes a host off the ring until its time comes again.
 *
 * An override belongs to an address, not to a member: it waits for a host that is not listed yet
 * and outlives one that is gone for a while.
 *
 * A snapshot without hosts is refused once there were some: that is far more often a mistake, a
 * partial write or an answer from a dropped table than the intent to remove every host. To remove
 * all hosts, drain them.
 *
 * Invariants: a step that fails has changed nothing. All hosts of an accepted snapshot fit on
 * one ring together, so a start or stop time or the end of an override never fails later for
 * lack of room. */
#pragma once

#include "base/map.h"

#include <rota/experimental/members.h>

enum rota_members_event_type {
    ROTA_MEMBERS_SNAPSHOT, /* the source's whole list */
    ROTA_MEMBERS_EVICT,
    ROTA_MEMBERS_UNEVICT,
    ROTA_MEMBERS_DRAIN,
    ROTA_MEMBERS_UNDRAIN,
    ROTA_MEMBERS_TICK,
};

struct rota_members_event {
    enum rota_members_event_type type;

    /* Of a snapshot. One with a lower version than the last is out of date. */
    uint64_t version;
    const struct rota_host *hosts; /* copied */
    size_t n_hosts;

    struct rota_str address; /* of an override; copied */
};

/* Swap the ring first, then notify: subscribers must find the new ring. */
struct rota_members_actions {
    struct rota_ring *ring; /* to swap in, with a reference of its own; NULL: unchanged */
    bool tell;              /* `change` is not empty */
    struct rota_members_change change;
    void *memory; /* what `change` points into */
};

/* The source's hosts, sorted by address, and the text they point into. */
struct rota_members_list {
    struct rota_member *members;
    size_t n_members;
    char *text;
};

struct rota_members_fsm {
    struct rota_members_list list;
    struct rota_map overrides; /* address -> struct override, see members_fsm.c */
    struct rota_ring *ring;
    uint64_t version;
    rota_time looked_at; /* `now` when the members' times were last checked */
    rota_time deadline;  /* the first bound after it */
    bool is_timed;
};

/* Start without members, with an empty ring. `points` as in rota_ring_new(). */
enum rota_code rota_members_fsm_init(struct rota_members_fsm *fsm, uint32_t points,
                                     struct rota_error *error);
void rota_members_fsm_deinit(struct rota_members_fsm *fsm);

/* Handle an event; `now` is the wall clock. Gives `*actions`, which
 * rota_members_fsm_actions_deinit() ends. Refuses a snapshot with a bad or repeated host, with too
 * many hosts, or with none after some, and an override with a bad address. */
enum rota_code rota_members_fsm_step(struct rota_members_fsm *fsm, rota_time now,
                                     const struct rota_members_event *event,
                                     struct rota_members_actions *actions,
                                     struct rota_error *error);
void rota_members_fsm_actions_deinit(struct rota_members_actions *actions);

/* The first start_at or stop_at to come on the wall clock; ROTA_TIME_NEVER when
 * there is none. */
rota_time rota_members_fsm_deadline(const struct rota_members_fsm *fsm);

/* Whether any member has a start_at or a stop_at: then it matters if the clock is set back, and
 * the driver has to check now and then. */
bool rota_members_fsm_is_timed(const struct rota_members_fsm *fsm);

/* The current ring, borrowed until the next step. */
struct rota_ring *rota_members_fsm_ring(const struct rota_members_fsm *fsm);

/* All members by address, or one or NULL; borrowed until the next step. */
const struct rota_member *rota_members_fsm_list(const struct rota_members_fsm *fsm,
                                                size_t *n_members);
const struct rota_member *rota_members_fsm_find(const struct rota_members_fsm *fsm,
                                                struct rota_str address);
