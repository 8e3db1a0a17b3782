#include "core/work/cluster/peer_fsm.h"

struct rota_beat rota_peer_fsm_clamp_heartbeat(struct rota_beat beat)
{
    if (beat.interval == 0)
        beat.interval = ROTA_PEER_INTERVAL;
    if (beat.interval < ROTA_PEER_INTERVAL_MIN)
        beat.interval = ROTA_PEER_INTERVAL_MIN;
    if (beat.interval > ROTA_PEER_INTERVAL_MAX)
        beat.interval = ROTA_PEER_INTERVAL_MAX;
    if (beat.missed_max == 0)
        beat.missed_max = ROTA_PEER_MISSED_MAX;
    if (beat.missed_max > ROTA_PEER_MISSED_LIMIT)
        beat.missed_max = ROTA_PEER_MISSED_LIMIT;
    return beat;
}

/* Two intervals: a peer that sends once an interval wakes up a little late. */
bool rota_peer_fsm_attention_listened(struct rota_attention *attention, rota_time now,
                                      const struct rota_beat *beat)
{
    if (now - attention->listened_at > 2 * beat->interval) {
        attention->spare_until = now + beat->interval;
        attention->excuse_until = now + rota_peer_fsm_timeout(beat);
    }
    attention->listened_at = now;
    return now >= attention->spare_until;
}

void rota_peer_fsm_init(struct rota_peer_fsm *fsm, struct rota_beat beat, rota_time now)
{
    *fsm = (struct rota_peer_fsm){
        .beat = rota_peer_fsm_clamp_heartbeat(beat), .heard_at = now, .sent_at = now};
}

void rota_peer_fsm_heard(struct rota_peer_fsm *fsm, rota_time now)
{
    fsm->heard_at = now;
}

void rota_peer_fsm_sent(struct rota_peer_fsm *fsm, rota_time now)
{
    fsm->sent_at = now;
}

bool rota_peer_fsm_is_silent(const struct rota_peer_fsm *fsm, rota_time now)
{
    return now - fsm->heard_at >= rota_peer_fsm_timeout(&fsm->beat);
}

bool rota_peer_fsm_is_heartbeat_due(const struct rota_peer_fsm *fsm, rota_time now)
{
    return now - fsm->sent_at >= fsm->beat.interval;
}

rota_time rota_peer_fsm_deadline(const struct rota_peer_fsm *fsm)
{
    return rota_time_min(fsm->heard_at + rota_peer_fsm_timeout(&fsm->beat),
                         fsm->sent_at + fsm->beat.interval);
}
