#include "core/work/worker/sessions.h"

#include <assert.h>

void rota_sessions_init(struct rota_sessions *sessions, struct rota_beat beat, size_t n_max,
                        uint64_t first, uint64_t seed)
{
    *sessions = (struct rota_sessions){
        .beat = rota_peer_fsm_clamp_heartbeat(beat), .n_max = n_max, .last_number = first};
    rota_map_init(&sessions->by_route, seed);
    rota_map_init(&sessions->by_name, seed);
    rota_list_init(&sessions->by_heard);
    rota_list_init(&sessions->by_sent);
}

void rota_sessions_deinit(struct rota_sessions *sessions)
{
    rota_map_deinit(&sessions->by_route);
    rota_map_deinit(&sessions->by_name);
}

enum rota_session_verdict rota_sessions_judge(const struct rota_sessions *sessions,
                                              struct rota_str name, uint64_t epoch,
                                              struct rota_session **replaced)
{
    struct rota_session *other = epoch ? rota_map_get(&sessions->by_name, name) : NULL;
    if (other && other->epoch >= epoch)
        return ROTA_SESSION_STALE;
    if (!other && rota_sessions_n(sessions) >= sessions->n_max)
        return ROTA_SESSION_FULL;
    *replaced = other;
    return ROTA_SESSION_NEW;
}

bool rota_sessions_add(struct rota_sessions *sessions, struct rota_session *session, rota_time now)
{
    assert(!rota_map_get(&sessions->by_route, session->route));
    if (!rota_map_put(&sessions->by_route, session->route, session))
        return false;
    if (session->epoch && !rota_map_put(&sessions->by_name, session->name, session)) {
        rota_map_remove(&sessions->by_route, session->route);
        return false;
    }
    if (++sessions->last_number == 0)
        sessions->last_number = 1;
    session->number = sessions->last_number;
    session->began_at = now;
    rota_peer_fsm_init(&session->peer, sessions->beat, now);
    rota_list_push(&sessions->by_heard, &session->by_heard);
    rota_list_push(&sessions->by_sent, &session->by_sent);
    return true;
}

void rota_sessions_remove(struct rota_sessions *sessions, struct rota_session *session)
{
    rota_map_remove(&sessions->by_route, session->route);
    if (session->epoch)
        rota_map_remove(&sessions->by_name, session->name);
    rota_list_remove(&session->by_heard);
    rota_list_remove(&session->by_sent);
}

struct rota_session *rota_sessions_find(const struct rota_sessions *sessions, struct rota_str route)
{
    return rota_map_get(&sessions->by_route, route);
}

void rota_sessions_heard(struct rota_sessions *sessions, struct rota_session *session,
                         rota_time now)
{
    rota_peer_fsm_heard(&session->peer, now);
    rota_list_remove(&session->by_heard);
    rota_list_push(&sessions->by_heard, &session->by_heard);
}

void rota_sessions_sent(struct rota_sessions *sessions, struct rota_session *session, rota_time now)
{
    rota_peer_fsm_sent(&session->peer, now);
    rota_list_remove(&session->by_sent);
    rota_list_push(&sessions->by_sent, &session->by_sent);
}

bool rota_sessions_listened(struct rota_sessions *sessions, rota_time now)
{
    return rota_peer_fsm_attention_listened(&sessions->attention, now, &sessions->beat);
}

static struct rota_session *longest_silent(const struct rota_sessions *sessions)
{
    return ROTA_LIST_FIRST(&sessions->by_heard, struct rota_session, by_heard);
}

static struct rota_session *longest_unsent(const struct rota_sessions *sessions)
{
    return ROTA_LIST_FIRST(&sessions->by_sent, struct rota_session, by_sent);
}

struct rota_session *rota_sessions_next_dead(const struct rota_sessions *sessions, rota_time now)
{
    struct rota_session *session = longest_silent(sessions);
    bool is_dead = session && now >= sessions->attention.spare_until &&
                   rota_peer_fsm_is_silent(&session->peer, now);
    return is_dead ? session : NULL;
}

enum rota_session_end rota_sessions_judge_end(const struct rota_sessions *sessions,
                                              const struct rota_session *session, rota_time now)
{
    const struct rota_attention *attention = &sessions->attention;
    rota_time back_at = attention->excuse_until - rota_peer_fsm_timeout(&sessions->beat);
    bool is_away = now - attention->listened_at > 2 * sessions->beat.interval;
    bool was_away = now < attention->excuse_until && session->began_at < back_at;
    return is_away || was_away ? ROTA_SESSION_EXCUSED : ROTA_SESSION_DIED;
}

struct rota_session *rota_sessions_next_heartbeat(const struct rota_sessions *sessions,
                                                  rota_time now)
{
    struct rota_session *session = longest_unsent(sessions);
    return session && rota_peer_fsm_is_heartbeat_due(&session->peer, now) ? session : NULL;
}

rota_time rota_sessions_deadline(const struct rota_sessions *sessions)
{
    const struct rota_session *silent = longest_silent(sessions);
    const struct rota_session *unsent = longest_unsent(sessions);
    if (!silent)
        return ROTA_TIME_NEVER;
    rota_time dead_at = silent->peer.heard_at + rota_peer_fsm_timeout(&sessions->beat);
    if (dead_at < sessions->attention.spare_until)
        dead_at = sessions->attention.spare_until;
    return rota_time_min(dead_at, unsent->peer.sent_at + sessions->beat.interval);
}
