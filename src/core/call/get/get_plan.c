#include "core/call/get/get_plan.h"

#include <assert.h>

struct candidates {
    size_t n;
    uint32_t visits[ROTA_INTERVAL_REPLICAS_MAX];
    bool is_retry;   /* all of them have failed in this round */
    bool is_refused; /* a host does not have the keys that the map says it has */
};

/* NULL without memory. */
static struct rota_get_visit *visit_replica(struct rota_get_fsm *fsm,
                                            const struct rota_interval_host *replica,
                                            uint32_t *index)
{
    *index = rota_get_tries_visit(fsm, replica->id);
    if (*index == ROTA_GET_NO_VISIT) {
        fsm->has_no_memory = true;
        return NULL;
    }
    struct rota_get_visit *visit = &fsm->visits.items[*index];
    visit->view = replica;
    return visit;
}

/* Those of the highest rank. */
static void collect_best(struct rota_get_step *step, uint32_t route, uint32_t excluded,
                         struct candidates *candidates)
{
    struct rota_get_fsm *fsm = step->fsm;
    struct rota_interval_replicas replicas = rota_interval_map_replicas(fsm->shared->map, route);
    int best = 1;
    *candidates = (struct candidates){.n = 0};
    for (size_t i = 0; i < replicas.n; i++) {
        uint32_t index;
        struct rota_get_visit *visit = visit_replica(fsm, replicas.items[i], &index);
        if (!visit)
            return;
        int own = index == excluded ? 0 : rota_get_tries_rank(fsm, visit, replicas.items[i]);
        candidates->is_refused |= visit->refused == replicas.items[i]->lesson;
        if (own < best)
            continue;
        if (own > best)
            candidates->n = 0;
        best = own;
        candidates->visits[candidates->n++] = index;
    }
    candidates->is_retry = best < ROTA_GET_FRESH;
}

/* The choice did not lead to a try. */
static void undo_choice(struct rota_get_step *step, uint32_t index)
{
    struct rota_get_visit *visit = &step->fsm->visits.items[index];
    if (visit->chosen.serial)
        rota_balancer_report(step->fsm->shared->balancer, step->now, visit->chosen,
                             ROTA_OUTCOME_CANCELLED, NULL);
    visit->chosen = (struct rota_try){0};
}

/* The keys of the group go there, too. False when an extra try has no token. */
static bool aim_at_host(struct rota_get_step *step, struct rota_get_group *group, uint32_t index,
                        struct rota_budget *budget, bool is_extra)
{
    struct rota_get_fsm *fsm = step->fsm;
    struct rota_get_visit *visit = &fsm->visits.items[index];
    if (visit->n_new == 0) {
        if (is_extra && !rota_get_tries_spend(step, budget))
            return false;
        if (!rota_vector_push(&fsm->chosen, index)) {
            undo_choice(step, index); /* the end of the plan does not know of it */
            fsm->has_no_memory = true;
            return true;
        }
    }
    if (!rota_vector_push(&fsm->targets, index))
        fsm->has_no_memory = true;
    visit->n_new += group->n;
    group->n_targets++;
    return true;
}

/* One of several: one that gets a try already, or the balancer's choice. */
static uint32_t choose_host(struct rota_get_step *step, const struct rota_get_group *group,
                            const struct candidates *candidates)
{
    struct rota_get_fsm *fsm = step->fsm;
    uint64_t hosts[ROTA_INTERVAL_REPLICAS_MAX];
    for (size_t i = 0; i < candidates->n; i++) {
        hosts[i] = fsm->visits.items[candidates->visits[i]].host;
        if (fsm->visits.items[candidates->visits[i]].n_new > 0)
            return candidates->visits[i];
    }
    struct rota_choice choice = {.replicas = hosts, .n_replicas = candidates->n, .work = group->n};
    struct rota_try chosen;
    if (candidates->is_retry || rota_balancer_select(fsm->shared->balancer, step->now, &choice,
                                                     fsm->shared->random, &chosen, NULL))
        return candidates->visits[0];
    for (size_t i = 0; i < candidates->n; i++)
        if (hosts[i] == chosen.replica) {
            fsm->visits.items[candidates->visits[i]].chosen = chosen;
            return candidates->visits[i];
        }
    assert(!"the balancer chose what it was not offered");
    return candidates->visits[0];
}

static void hedge_group(struct rota_get_step *step, struct rota_get_group *group, uint32_t excluded)
{
    struct candidates candidates;
    collect_best(step, group->route, excluded, &candidates);
    if (candidates.n == 0 || candidates.is_retry)
        return;
    uint32_t index = choose_host(step, group, &candidates);
    if (!aim_at_host(step, group, index, &step->fsm->shared->hedge->budget, true))
        undo_choice(step, index);
}

/* A host that was not asked before, or holds something else now: it may be faster, or the only
 * healthy one. */
static void join_group(struct rota_get_step *step, struct rota_get_group *group)
{
    struct rota_get_fsm *fsm = step->fsm;
    struct rota_interval_replicas replicas =
        rota_interval_map_replicas(fsm->shared->map, group->route);
    for (size_t i = 0; i < replicas.n && !fsm->has_no_memory; i++) {
        uint32_t index;
        struct rota_get_visit *visit = visit_replica(fsm, replicas.items[i], &index);
        if (!visit)
            return;
        if (visit->lesson != visit->view->lesson &&
            rota_get_tries_rank(fsm, visit, visit->view) > ROTA_GET_FRESH)
            aim_at_host(step, group, index, NULL, false);
    }
}

/* No host can be asked now. Keys without a holder wait until the map knows one; after failures,
 * keys wait for a pause and then for a token. */
static void wait_with(struct rota_get_step *step, bool is_failed)
{
    struct rota_get_fsm *fsm = step->fsm;
    rota_time until = rota_time_add(step->now, fsm->options.ping_time);
    if (is_failed && !fsm->is_backing_off) {
        fsm->is_backing_off = true;
        until = rota_time_add(step->now, rota_backoff_failed(&fsm->backoff, fsm->shared->random));
    }
    fsm->shared->stats->n_waits += fsm->look_at == ROTA_TIME_NEVER;
    fsm->look_at = rota_time_min(fsm->look_at, until);
}

static void aim_group(struct rota_get_step *step, struct rota_get_group *group)
{
    struct rota_get_fsm *fsm = step->fsm;
    struct candidates candidates;
    struct rota_budget *budget = fsm->shared->budget;
    collect_best(step, group->route, ROTA_GET_NO_VISIT, &candidates);
    bool is_extra = candidates.is_retry;
    if (candidates.n == 0) {
        wait_with(step, group->route != 0 && !candidates.is_refused);
        return;
    }
    if (fsm->copies == ROTA_GET_ALL) {
        for (size_t i = 0; i < candidates.n; i++)
            aim_at_host(step, group, candidates.visits[i], budget, is_extra);
    } else {
        uint32_t index = choose_host(step, group, &candidates);
        aim_at_host(step, group, index, budget, is_extra);
    }
    if (group->n_targets == 0)
        wait_with(step, true);
}

/* Group the keys of a plan by their replicas. */
static bool group_keys(struct rota_get_fsm *fsm)
{
    size_t n = fsm->planned.size;
    if (!rota_vector_reserve(&fsm->routes, n) ||
        !rota_interval_map_lookup(fsm->shared->map, fsm->asked.items, n, fsm->routes.items))
        return false;
    size_t n_routes = rota_interval_map_n_routes(fsm->shared->map);
    if (!rota_vector_reserve(&fsm->group_of, n_routes))
        return false;
    for (; fsm->group_of.size < n_routes; fsm->group_of.size++)
        fsm->group_of.items[fsm->group_of.size] = 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t route = fsm->routes.items[i];
        if (fsm->group_of.items[route] == 0) {
            struct rota_get_group group = {.route = route};
            if (!rota_vector_push(&fsm->groups, group))
                return false;
            fsm->group_of.items[route] = (uint32_t)fsm->groups.size;
        }
        fsm->groups.items[fsm->group_of.items[route] - 1].n++;
    }
    return true;
}

/* A try for each host that was chosen, with room for its keys. */
static void make_tries(struct rota_get_step *step, bool is_hedge)
{
    struct rota_get_fsm *fsm = step->fsm;
    for (size_t i = 0; i < fsm->chosen.size && !fsm->has_no_memory; i++) {
        struct rota_get_visit *visit = &fsm->visits.items[fsm->chosen.items[i]];
        struct rota_get_fsm_try try = {
            .host = visit->host,
            .is_running = true,
            .is_hedge = is_hedge,
            .n_keys = visit->n_new,
            .first = (uint32_t)fsm->lists.size,
            .visit = fsm->chosen.items[i],
            .lesson = visit->view->lesson,
            .at = ROTA_TIME_NEVER,
            .deadline = ROTA_TIME_NEVER,
        };
        if (fsm->lists.size + visit->n_new > UINT32_MAX ||
            !rota_vector_reserve(&fsm->lists, fsm->lists.size + visit->n_new))
            fsm->has_no_memory = true;
        else if (rota_get_tries_add(fsm, try))
            fsm->lists.size += visit->n_new;
        visit->place = try.first;
    }
}

static void fill_lists(struct rota_get_fsm *fsm)
{
    uint32_t *lists = fsm->lists.items;
    struct rota_get_visit *visits = fsm->visits.items;
    for (size_t i = 0; i < fsm->planned.size; i++) {
        uint32_t key = fsm->planned.items[i];
        const struct rota_get_group *group =
            &fsm->groups.items[fsm->group_of.items[fsm->routes.items[i]] - 1];
        const uint32_t *targets = &fsm->targets.items[group->first_target];
        for (uint32_t t = 0; t < group->n_targets; t++)
            lists[visits[targets[t]].place++] = key;
        rota_get_keys_send(&fsm->keys, key, group->n_targets);
    }
}

/* Send the new tries; those to a host that has just failed wait a little. */
static void send_new(struct rota_get_step *step, size_t first)
{
    struct rota_get_fsm *fsm = step->fsm;
    for (size_t i = first; i < fsm->tries.size; i++) {
        struct rota_get_fsm_try *try = &fsm->tries.items[i];
        struct rota_get_visit *visit = &fsm->visits.items[try->visit];
        bool is_retry = visit->lesson == visit->view->lesson && visit->n_failures > 0;
        if (is_retry && !try->is_hedge) {
            try->at =
                rota_time_add(step->now, rota_backoff_failed(&fsm->backoff, fsm->shared->random));
            undo_choice(step, try->visit);
        } else {
            rota_get_tries_send(step, try, visit->view, visit->chosen);
            visit->chosen = (struct rota_try){0};
        }
    }
}

/* Forget the plan, whatever its result. */
static void end_plan(struct rota_get_step *step)
{
    struct rota_get_fsm *fsm = step->fsm;
    for (size_t i = 0; i < fsm->groups.size; i++)
        fsm->group_of.items[fsm->groups.items[i].route] = 0;
    for (size_t i = 0; i < fsm->chosen.size; i++) {
        undo_choice(step, fsm->chosen.items[i]);
        fsm->visits.items[fsm->chosen.items[i]].n_new = 0;
    }
    fsm->planned.size = fsm->asked.size = fsm->groups.size = 0;
    fsm->targets.size = fsm->chosen.size = 0;
}

/* There is room for all keys. */
static void plan_key(struct rota_get_fsm *fsm, uint32_t index)
{
    fsm->planned.items[fsm->planned.size++] = index;
    fsm->asked.items[fsm->asked.size++] = fsm->keys.items.items[index].key;
}

static bool begin_plan(struct rota_get_fsm *fsm, size_t n)
{
    bool is_fine = rota_vector_reserve(&fsm->planned, n) && rota_vector_reserve(&fsm->asked, n);
    fsm->has_no_memory = fsm->has_no_memory || !is_fine;
    return is_fine;
}

enum plan { PLAN_IDLE, PLAN_JOIN, PLAN_HEDGE };

/* Decide where the planned keys go, and send them. `hedged`, of a hedge: the visit of the slow
 * try. */
static void execute_plan(struct rota_get_step *step, enum plan plan, uint32_t hedged)
{
    struct rota_get_fsm *fsm = step->fsm;
    size_t first = fsm->tries.size;
    if (!group_keys(fsm))
        fsm->has_no_memory = true;
    for (size_t i = 0; i < fsm->groups.size && !fsm->has_no_memory; i++) {
        struct rota_get_group *group = &fsm->groups.items[i];
        group->first_target = (uint32_t)fsm->targets.size;
        switch (plan) {
        case PLAN_IDLE:
            aim_group(step, group);
            break;
        case PLAN_JOIN:
            join_group(step, group);
            break;
        case PLAN_HEDGE:
            hedge_group(step, group, hedged);
            break;
        }
    }
    make_tries(step, plan == PLAN_HEDGE);
    if (!fsm->has_no_memory) {
        fill_lists(fsm);
        send_new(step, first);
    } else { /* tries without keys, of which nothing was sent */
        fsm->n_running -= fsm->tries.size - first;
        fsm->tries.size = first;
    }
    end_plan(step);
}

void rota_get_plan_idle(struct rota_get_step *step)
{
    struct rota_get_fsm *fsm = step->fsm;
    const struct rota_get_key *keys = fsm->keys.items.items;
    size_t n = fsm->keys.items.size;
    fsm->wants_plan = false;
    if (fsm->n_running == 0)
        fsm->lists.size = 0;
    if (!begin_plan(fsm, n))
        return;
    for (uint32_t i = 0; i < n; i++)
        if (keys[i].state == ROTA_GET_PENDING && keys[i].n_out == 0 && keys[i].first == i)
            plan_key(fsm, i);
    execute_plan(step, PLAN_IDLE, ROTA_GET_NO_VISIT);
}

void rota_get_plan_join(struct rota_get_step *step)
{
    struct rota_get_fsm *fsm = step->fsm;
    const struct rota_get_key *keys = fsm->keys.items.items;
    size_t n = fsm->keys.items.size;
    if (!begin_plan(fsm, n))
        return;
    for (uint32_t i = 0; i < n; i++)
        if (keys[i].state == ROTA_GET_PENDING && keys[i].n_out > 0 && keys[i].first == i)
            plan_key(fsm, i);
    execute_plan(step, PLAN_JOIN, ROTA_GET_NO_VISIT);
}

void rota_get_plan_hedge(struct rota_get_step *step, size_t index)
{
    struct rota_get_fsm *fsm = step->fsm;
    struct rota_get_fsm_try *try = &fsm->tries.items[index];
    const uint32_t *list = &fsm->lists.items[try->first];
    try->at = ROTA_TIME_NEVER;
    if (!begin_plan(fsm, try->n_keys))
        return;
    for (uint32_t i = try->cursor; i < try->n_keys; i++)
        if (rota_get_keys_is_pending(&fsm->keys, list[i]) &&
            fsm->keys.items.items[list[i]].n_out == 1)
            plan_key(fsm, list[i]);
    uint64_t n_unbudgeted = fsm->shared->stats->n_unbudgeted;
    size_t n_tries = fsm->tries.size;
    execute_plan(step, PLAN_HEDGE, try->visit); /* which may move the tries */
    try = &fsm->tries.items[index];
    try->is_hedged |= fsm->tries.size > n_tries;
    if (fsm->shared->stats->n_unbudgeted > n_unbudgeted)
        try->at = rota_get_tries_hedge_again(step);
}
