#include "core/work/worker/join_fsm.h"

void rota_join_fsm_init(struct rota_join_fsm *fsm, const struct rota_join_options *options,
                        rota_time now)
{
    *fsm = (struct rota_join_fsm){
        .timeout = options->timeout ? options->timeout : ROTA_JOIN_TIMEOUT,
        .at = now,
        .beat = rota_peer_fsm_clamp_heartbeat(options->beat),
        .attention = {.listened_at = now},
        .backoff = {.first = options->wait_first, .max = options->wait_max},
    };
    rota_random_init(&fsm->random, options->seed);
}

/* The session, or the attempt to open one, is over. */
static struct rota_join_actions end_session(struct rota_join_fsm *fsm, rota_time now,
                                            bool is_silent)
{
    bool was_joined = fsm->state == ROTA_JOIN_JOINED;
    if (was_joined && now - fsm->joined_at >= rota_peer_fsm_timeout(&fsm->beat))
        rota_backoff_succeeded(&fsm->backoff);
    rota_time wait = rota_backoff_failed(&fsm->backoff, &fsm->random);
    fsm->state = ROTA_JOIN_WAITING;
    fsm->at = now + wait;
    return (struct rota_join_actions){
        .tell_down = was_joined,
        .tell_failed = !was_joined,
        .is_silent = is_silent,
        .close = true,
        .wait = wait,
    };
}

/* Epochs are timestamps, so that they also grow from one run of a process to the next; where the
 * clock was set back, by one. */
static struct rota_join_actions open_another(struct rota_join_fsm *fsm, rota_time now,
                                             rota_time wall)
{
    uint64_t moment = wall > 0 ? (uint64_t)(wall / ROTA_USEC) : 0;
    fsm->epoch = moment > fsm->epoch ? moment : fsm->epoch + 1;
    fsm->state = ROTA_JOIN_JOINING;
    fsm->at = now + fsm->timeout;
    return (struct rota_join_actions){.open = true};
}

static struct rota_join_actions tick(struct rota_join_fsm *fsm, rota_time now,
                                     const struct rota_join_event *event)
{
    bool counts =
        event->is_drained && rota_peer_fsm_attention_listened(&fsm->attention, now, &fsm->beat);
    switch (fsm->state) {
    case ROTA_JOIN_WAITING:
        if (now >= fsm->at)
            return open_another(fsm, now, event->wall);
        break;
    case ROTA_JOIN_JOINING:
        if (now >= fsm->at)
            return end_session(fsm, now, true);
        break;
    case ROTA_JOIN_JOINED:
        if (counts && rota_peer_fsm_is_silent(&fsm->peer, now))
            return end_session(fsm, now, true);
        return (struct rota_join_actions){.beat = rota_peer_fsm_is_heartbeat_due(&fsm->peer, now)};
    case ROTA_JOIN_STOPPED:
        break;
    }
    return (struct rota_join_actions){0};
}

/* Said again within a session, it only sets the beat. */
static struct rota_join_actions handle_welcome(struct rota_join_fsm *fsm, rota_time now,
                                               const struct rota_join_event *event)
{
    bool is_new = fsm->state == ROTA_JOIN_JOINING;
    if (!is_new && fsm->state != ROTA_JOIN_JOINED)
        return (struct rota_join_actions){0};
    fsm->beat = rota_peer_fsm_clamp_heartbeat(event->beat);
    if (is_new) {
        fsm->state = ROTA_JOIN_JOINED;
        fsm->joined_at = now;
        rota_peer_fsm_init(&fsm->peer, fsm->beat, now);
    }
    fsm->peer.beat = fsm->beat;
    rota_peer_fsm_heard(&fsm->peer, now);
    return (struct rota_join_actions){.tell_up = is_new};
}

struct rota_join_actions rota_join_fsm_step(struct rota_join_fsm *fsm, rota_time now,
                                            const struct rota_join_event *event)
{
    bool is_open = fsm->state == ROTA_JOIN_JOINING || fsm->state == ROTA_JOIN_JOINED;
    struct rota_join_actions nothing = {0};
    switch (event->type) {
    case ROTA_JOIN_TICK:
        return tick(fsm, now, event);
    case ROTA_JOIN_HEARD:
        rota_peer_fsm_heard(&fsm->peer, now);
        return nothing;
    case ROTA_JOIN_SENT:
        rota_peer_fsm_sent(&fsm->peer, now);
        return nothing;
    case ROTA_JOIN_WELCOME:
        return handle_welcome(fsm, now, event);
    case ROTA_JOIN_LOST:
        return is_open ? end_session(fsm, now, false) : nothing;
    case ROTA_JOIN_STOP:
        nothing.tell_down = fsm->state == ROTA_JOIN_JOINED;
        nothing.close = is_open;
        fsm->state = ROTA_JOIN_STOPPED;
        return nothing;
    }
    return nothing;
}

rota_time rota_join_fsm_deadline(const struct rota_join_fsm *fsm)
{
    switch (fsm->state) {
    case ROTA_JOIN_WAITING:
    case ROTA_JOIN_JOINING:
        return fsm->at;
    case ROTA_JOIN_JOINED:
        if (rota_peer_fsm_deadline(&fsm->peer) < fsm->attention.spare_until)
            return rota_time_min(fsm->attention.spare_until,
                                 fsm->peer.sent_at + fsm->beat.interval);
        return rota_peer_fsm_deadline(&fsm->peer);
    case ROTA_JOIN_STOPPED:
        return ROTA_TIME_NEVER;
    }
    return ROTA_TIME_NEVER;
}
