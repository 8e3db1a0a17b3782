#include "group_rounds.h"

#include <stdlib.h>
#include <string.h>

static struct session *session_find(struct world *world, uint32_t node, const struct note *ask)
{
    for (size_t i = 0; i < world->group.sessions.size; i++) {
        struct session *session = &world->group.sessions.items[i];
        if (session->node == node && session->life == ask->life && session->joining == ask->joining)
            return session;
    }
    return NULL;
}

static void session_remove(struct world *world, size_t place)
{
    struct session *sessions = world->group.sessions.items;
    memmove(sessions + place, sessions + place + 1,
            (--world->group.sessions.size - place) * sizeof *sessions);
}

/* Who is there has changed. Changes that follow closely are one round. */
static void rounds_want(struct world *world)
{
    rota_time now = rota_sim_mono(world->sim, GROUP);
    rota_time at = now + 10 * ROTA_MSEC + span_upto(world, 300 * ROTA_MSEC);
    if (at < world->group.not_before)
        at = world->group.not_before;
    if (world->group.is_due)
        return;
    world->group.is_due = true;
    rota_sim_set_timer(world->sim, GROUP, TIMER_ROUND, ROTA_SIM_MONO, at);
}

static void rounds_expire(struct world *world)
{
    rota_time now = rota_sim_mono(world->sim, GROUP);
    for (size_t i = world->group.sessions.size; i-- > 0;) {
        if (world->group.sessions.items[i].expires_at > now)
            continue;
        rota_sim_note(world->sim, GROUP, "node %u is out", world->group.sessions.items[i].node);
        session_remove(world, i);
        rounds_want(world);
    }
}

/* --- rounds --- */

static void round_tell(struct world *world, const struct session *session)
{
    struct note note = {.type = TELL_ROUND,
                        .life = session->life,
                        .joining = session->joining,
                        .sent_at = session->sent_at,
                        .round = session->round};
    tell(world, GROUP, session->node, &note);
}

static uint32_t any_session(struct world *world)
{
    return world->group.sessions.items[rota_random_below(world->random, world->group.sessions.size)]
        .node;
}

static void round_nominate(struct world *world, struct round *round)
{
    round->leaders[0] = world->group.sessions.items[0].node;
    if (chance(world, 0.2))
        round->leaders[0] = any_session(world);
    if (rota_sim_now(world->sim) >= world->shape.quiet_at)
        return;
    if (chance(world, world->shape.leader_double))
        round->leaders[1] = any_session(world);
    if (chance(world, world->shape.leader_wrong))
        round->leaders[0] = round->leaders[1] = 0;
}

static void round_new(struct world *world)
{
    struct rounds *group = &world->group;
    size_t n = group->sessions.size;
    struct round round = {.number = group->rounds.size + 1,
                          .generation = ++group->generation,
                          .members = calloc(n, sizeof *round.members),
                          .n_members = n};
    if (!round.members)
        die("no memory");
    for (size_t i = 0; i < n; i++) {
        struct session *session = &group->sessions.items[i];
        session->round = round.number;
        round.members[i] = (struct rota_group_member){rota_str(world->tasks[session->node].name),
                                                      session->incarnation};
    }
    round_nominate(world, &round);
    push(&group->rounds, round);
    rota_sim_note(world->sim, GROUP, "round %llu, generation %llu, of %zu, leader %u",
                  (unsigned long long)round.number, (unsigned long long)round.generation, n,
                  round.leaders[0]);
    for (size_t i = 0; i < n; i++)
        round_tell(world, &group->sessions.items[i]);
    if (round.leaders[0] == 0) { /* it is noticed, some time */
        group->is_due = true;
        rota_sim_set_timer(world->sim, GROUP, TIMER_ROUND, ROTA_SIM_MONO,
                           rota_sim_mono(world->sim, GROUP) + SESSION);
    }
}

/* --- its node --- */

static void rounds_join(struct world *world, uint32_t from, const struct note *ask)
{
    uint64_t mark = (uint64_t)ask->life << 32 | ask->joining;
    struct session *known = session_find(world, from, ask);
    rota_time now = rota_sim_mono(world->sim, GROUP);
    if (known) {
        known->expires_at = now + SESSION;
        known->sent_at = ask->sent_at;
        if (known->round)
            round_tell(world, known);
        return;
    }
    if (mark <= world->group.joined[from])
        return; /* an old one, late */
    world->group.joined[from] = mark;
    for (size_t i = world->group.sessions.size; i-- > 0;) {
        const struct session *other = &world->group.sessions.items[i];
        if (other->node == from && (other->life == ask->life || world->shape.is_named))
            session_remove(world, i);
    }
    struct session session = {.node = from,
                              .life = ask->life,
                              .incarnation = ask->incarnation,
                              .joining = ask->joining,
                              .expires_at = now + SESSION,
                              .sent_at = ask->sent_at};
    push(&world->group.sessions, session);
    rounds_want(world);
}

static void rounds_beat(struct world *world, uint32_t from, const struct note *ask)
{
    struct note note = *ask;
    struct session *session = session_find(world, from, ask);
    note.type = session ? TELL_BEAT : TELL_UNKNOWN;
    if (session) {
        session->expires_at = rota_sim_mono(world->sim, GROUP) + SESSION;
        session->sent_at = ask->sent_at;
    }
    if (session && session->round && session->round != ask->round)
        round_tell(world, session);
    else
        tell(world, GROUP, from, &note);
}

void rounds_on_message(struct world *world, uint32_t from, const struct note *ask)
{
    rounds_expire(world);
    if (ask->type == ASK_JOIN)
        rounds_join(world, from, ask);
    else if (ask->type == ASK_BEAT)
        rounds_beat(world, from, ask);
    else if (ask->type == ASK_LEAVE) {
        struct session *session = session_find(world, from, ask);
        if (!session)
            return;
        session_remove(world, (size_t)(session - world->group.sessions.items));
        rounds_want(world);
    }
}

void rounds_on_timer(struct world *world, uint32_t timer)
{
    rounds_expire(world);
    if (timer == TIMER_EXPIRE) {
        rota_sim_set_timer(world->sim, GROUP, TIMER_EXPIRE, ROTA_SIM_MONO,
                           rota_sim_mono(world->sim, GROUP) + 200 * ROTA_MSEC);
        return;
    }
    world->group.is_due = false;
    if (world->group.sessions.size > 0 && world->group.rounds.size < ROUNDS_MAX)
        round_new(world);
}

void rounds_forget(struct world *world)
{
    rota_sim_note(world->sim, GROUP, "forgets");
    world->group.sessions.size = 0;
    world->group.generation = chance(world, 0.5) ? 0 : world->group.generation;
    if (world->plant != PLANT_FORGETFUL)
        world->group.not_before = rota_sim_mono(world->sim, GROUP) + SESSION;
    world->group.is_due = false;
    rota_sim_set_timer(world->sim, GROUP, TIMER_ROUND, ROTA_SIM_MONO, ROTA_TIME_NEVER);
}

void rounds_deinit(struct world *world)
{
    for (size_t i = 0; i < world->group.rounds.size; i++)
        free(world->group.rounds.items[i].members);
    rota_vector_deinit(&world->group.rounds);
    rota_vector_deinit(&world->group.sessions);
}
