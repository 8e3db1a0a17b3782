/* sessions: the workers that are connected to a broker, by connection and by name.
 *
 * A worker says hello with its name and an epoch that grows with each of its sessions.
 * A name has one session: a higher epoch ends the older one at once, so that a worker
 * that was restarted need not wait until its former life is given up, and any other is
 * refused. Epoch 0 stands apart: the name is not kept to one. Who was not heard for
 * too long is dead (core/work/peer_fsm.h).
 *
 * All sessions beat alike, so two rows are enough to know who is next: who was heard
 * longest ago, and who was sent to longest ago. All doors are O(1).
 *
 * A session is a part of what the driver keeps of a worker; nothing here needs memory
 * but the maps. */
#pragma once

#include "base/map.h"
#include "core/call/list.h"
#include "core/work/peer_fsm.h"

struct rota_session {
    struct rota_str route; /* the connection; kept, like the name */
    struct rota_str name;
    uint64_t number; /* never 0, never used twice by one table */
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
    ROTA_SESSION_LEFT,    /* it said so, or we wanted it */
    ROTA_SESSION_DIED,    /* its connection is gone, it was silent, or another took its place */
    ROTA_SESSION_EXCUSED, /* the same, but we were not listening ourselves: it may come back */
};

/* `first` is where numbers begin, so that those of two lives of a broker differ. */
void rota_sessions_init(struct rota_sessions *sessions, struct rota_beat beat, size_t n_max,
                        uint64_t first, uint64_t seed);
void rota_sessions_deinit(struct rota_sessions *sessions);

/* May a worker come in? `*replaced`, of NEW, is who has to go first: another of its name,
 * or NULL. */
enum rota_session_verdict rota_sessions_judge(const struct rota_sessions *sessions,
                                              struct rota_str name, uint64_t epoch,
                                              struct rota_session **replaced);

/* It comes in: route, name and epoch are set, and neither route nor name is there. Gives
 * it a number. False when there is no memory. */
bool rota_sessions_add(struct rota_sessions *sessions, struct rota_session *session, rota_time now);
void rota_sessions_remove(struct rota_sessions *sessions, struct rota_session *session);

/* Who is at the other end of a connection, or NULL. */
struct rota_session *rota_sessions_find(const struct rota_sessions *sessions,
                                        struct rota_str route);

void rota_sessions_heard(struct rota_sessions *sessions, struct rota_session *session,
                         rota_time now);
void rota_sessions_sent(struct rota_sessions *sessions, struct rota_session *session,
                        rota_time now);

/* All that had arrived was taken in; then those that are dead, one after the other:
 * each is to be removed. NULL ends it. */
bool rota_sessions_listened(struct rota_sessions *sessions, rota_time now);
struct rota_session *rota_sessions_next_dead(const struct rota_sessions *sessions, rota_time now);

/* What it means that a session ends now without a word. Excused is one that began before we were
 * away. */
enum rota_session_end rota_sessions_judge_end(const struct rota_sessions *sessions,
                                              const struct rota_session *session, rota_time now);

/* Who has to be sent a beat; each is to be sent one. NULL ends it. */
struct rota_session *rota_sessions_next_beat(const struct rota_sessions *sessions, rota_time now);

rota_time rota_sessions_deadline(const struct rota_sessions *sessions);

static inline size_t rota_sessions_n(const struct rota_sessions *sessions)
{
    return sessions->by_route.size;
}
