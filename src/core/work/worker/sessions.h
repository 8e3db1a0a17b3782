/* sessions: the workers that are connected to a broker, by connection and by name.
 *
 * A worker says hello with its name and an epoch that grows with each of its sessions. A name has
 * one session: a higher epoch ends the older one at once, so that a restarted worker need not wait
 * until its former session times out, and any other is rejected. Epoch 0 is special: the name may
 * have several. A session without a heartbeat for too long is dead (core/work/cluster/peer_fsm.h).
 *
 * All sessions have the same heartbeat, so two lists are enough to know the next one: by the last
 * message received, and by the last one sent. All operations are O(1).
 *
 * A session is embedded in the driver's struct of a worker; only the maps allocate memory. */
#pragma once

#include "base/list.h"
#include "base/map.h"
#include "core/work/cluster/peer_fsm.h"

struct rota_session {
    struct rota_str route; /* the connection; kept, like the name */
    struct rota_str name;
    uint64_t number; /* never 0, never reused by a table */
    uint64_t epoch;
    rota_time began_at;
    struct rota_peer_fsm peer;
    struct rota_list_node by_heard, by_sent;
};

struct rota_sessions {
    struct rota_map by_route, by_name;
    struct rota_list_node by_heard, by_sent;
    struct rota_beat beat;
    struct rota_attention attention;
    uint64_t last_number;
    size_t n_max;
};

enum rota_session_verdict {
    ROTA_SESSION_NEW,
    ROTA_SESSION_STALE, /* a session of this name has this epoch or a higher one */
    ROTA_SESSION_FULL,  /* `n_max` are there */
};

/* How a session ended. */
enum rota_session_end {
    ROTA_SESSION_LEFT,    /* it said goodbye, or we ended it */
    ROTA_SESSION_DIED,    /* its connection broke, it was silent, or another took its place */
    ROTA_SESSION_EXCUSED, /* the same, but we were not listening: it may return */
};

/* `first` is where numbers begin, so that those of two runs of a broker differ. */
void rota_sessions_init(struct rota_sessions *sessions, struct rota_beat beat, size_t n_max,
                        uint64_t first, uint64_t seed);
void rota_sessions_deinit(struct rota_sessions *sessions);

/* May a worker enter? `*replaced`, of NEW, is the session that has to end first: another of its
 * name, or NULL. */
enum rota_session_verdict rota_sessions_judge(const struct rota_sessions *sessions,
                                              struct rota_str name, uint64_t epoch,
                                              struct rota_session **replaced);

/* Add it: route, name and epoch are set, and neither route nor name is there. Gives it a number.
 * False when there is no memory. */
bool rota_sessions_add(struct rota_sessions *sessions, struct rota_session *session, rota_time now);
void rota_sessions_remove(struct rota_sessions *sessions, struct rota_session *session);

/* The session of a connection, or NULL. */
struct rota_session *rota_sessions_find(const struct rota_sessions *sessions,
                                        struct rota_str route);

void rota_sessions_heard(struct rota_sessions *sessions, struct rota_session *session,
                         rota_time now);
void rota_sessions_sent(struct rota_sessions *sessions, struct rota_session *session,
                        rota_time now);

/* Everything that had arrived was handled; then the dead ones, one after the other: remove each.
 * NULL ends it. */
bool rota_sessions_listened(struct rota_sessions *sessions, rota_time now);
struct rota_session *rota_sessions_next_dead(const struct rota_sessions *sessions, rota_time now);

/* How to judge a session that ends now without a goodbye. One that began before we stopped
 * listening is excused. */
enum rota_session_end rota_sessions_judge_end(const struct rota_sessions *sessions,
                                              const struct rota_session *session, rota_time now);

/* The sessions that need a heartbeat; send one to each. NULL ends it. */
struct rota_session *rota_sessions_next_heartbeat(const struct rota_sessions *sessions,
                                                  rota_time now);

rota_time rota_sessions_deadline(const struct rota_sessions *sessions);

static inline size_t rota_sessions_n(const struct rota_sessions *sessions)
{
    return sessions->by_route.size;
}
