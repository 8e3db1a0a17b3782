/* peer_fsm: is the peer alive, and when must we send a heartbeat?
 *
 * Both sides send something at least once an interval, a heartbeat (beat) when there is nothing
 * else; any message counts. A side from which nothing arrived for `missed_max` intervals is dead.
 *
 * Silence counts only while we listen. A process that was paused, or that received nothing because
 * its consumer was slow, has received no heartbeat from any peer when it continues: it gives all of
 * them an interval before it judges. */
#pragma once

#include <rota/time.h>
#include <stdbool.h>

enum { ROTA_PEER_MISSED_MAX = 3, ROTA_PEER_MISSED_LIMIT = 100 };

#define ROTA_PEER_INTERVAL     (1 * ROTA_SEC)
#define ROTA_PEER_INTERVAL_MIN (10 * ROTA_MSEC)
#define ROTA_PEER_INTERVAL_MAX (10 * ROTA_MIN)

/* Zero means the defaults. */
struct rota_beat {
    rota_time interval; /* duration */
    uint32_t missed_max;
};

/* With the defaults filled in, and clamped to the bounds. */
struct rota_beat rota_peer_fsm_clamp_heartbeat(struct rota_beat beat);

/* How long a peer may be silent. */
static inline rota_time rota_peer_fsm_timeout(const struct rota_beat *beat)
{
    return beat->interval * beat->missed_max;
}

/* Whether we were listening ourselves. Starts zeroed. */
struct rota_attention {
    rota_time listened_at;
    rota_time spare_until;  /* no peer is judged before */
    rota_time excuse_until; /* a peer lost before that may be lost because we were not listening */
};

/* Everything that had arrived was handled. Returns whether silence counts now. */
bool rota_peer_fsm_attention_listened(struct rota_attention *attention, rota_time now,
                                      const struct rota_beat *beat);

/* The other side of one session. */
struct rota_peer_fsm {
    struct rota_beat beat;
    rota_time heard_at, sent_at;
};

void rota_peer_fsm_init(struct rota_peer_fsm *fsm, struct rota_beat beat, rota_time now);
void rota_peer_fsm_heard(struct rota_peer_fsm *fsm, rota_time now);
void rota_peer_fsm_sent(struct rota_peer_fsm *fsm, rota_time now);

bool rota_peer_fsm_is_silent(const struct rota_peer_fsm *fsm, rota_time now);
bool rota_peer_fsm_is_heartbeat_due(const struct rota_peer_fsm *fsm, rota_time now);
rota_time rota_peer_fsm_deadline(const struct rota_peer_fsm *fsm);
