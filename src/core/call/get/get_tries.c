#include "core/call/get/get_tries.h"

#include <assert.h>
#include <string.h>

enum { HEDGE_LATER = 3 }; /* how many times the usual delay, when there is one copy only */

/* --- small things --- */

struct rota_get_fsm_action *rota_get_tries_act(struct rota_get_step *step,
                                               enum rota_get_action_type type)
{
    struct rota_get_fsm *fsm = step->fsm;
    assert(fsm->actions.size < fsm->actions.capacity);
    struct rota_get_fsm_action *action = &fsm->actions.items[fsm->actions.size++];
    *action = (struct rota_get_fsm_action){.type = type};
    return action;
}

void rota_get_tries_act_on(struct rota_get_step *step, enum rota_get_action_type type,
                           const struct rota_get_fsm_try *try)
{
    struct rota_get_fsm_action *action = rota_get_tries_act(step, type);
    action->number = try->number;
    action->try = (size_t)(try - step->fsm->tries.items);
}

struct rota_get_fsm_try *rota_get_tries_find(struct rota_get_fsm *fsm, uint64_t number)
{
    for (size_t i = 0; i < fsm->tries.size; i++)
        if (fsm->tries.items[i].number == number && fsm->tries.items[i].is_running)
            return &fsm->tries.items[i];
    return NULL;
}

bool rota_get_tries_spend(struct rota_get_step *step, struct rota_budget *budget)
{
    bool is_allowed = !budget || rota_budget_spend(budget, step->now);
    step->fsm->shared->stats->n_unbudgeted += !is_allowed;
    return is_allowed;
}

static size_t place_of_visit(const struct rota_get_fsm *fsm, uint64_t host)
{
    size_t mask = fsm->visit_table.size - 1;
    size_t place = (size_t)((host * 0x9e3779b97f4a7c15u) >> 32) & mask;
    uint32_t index;
    while ((index = fsm->visit_table.items[place]) && fsm->visits.items[index - 1].host != host)
        place = (place + 1) & mask;
    return place;
}

static bool grow_visits(struct rota_get_fsm *fsm)
{
    size_t size = fsm->visit_table.size ? 2 * fsm->visit_table.size : 64;
    if (!rota_vector_reserve(&fsm->visit_table, size))
        return false;
    memset(fsm->visit_table.items, 0, size * sizeof *fsm->visit_table.items);
    fsm->visit_table.size = size;
    for (uint32_t i = 0; i < fsm->visits.size; i++)
        fsm->visit_table.items[place_of_visit(fsm, fsm->visits.items[i].host)] = i + 1;
    return true;
}

uint32_t rota_get_tries_visit(struct rota_get_fsm *fsm, uint64_t host)
{
    if (2 * (fsm->visits.size + 1) > fsm->visit_table.size && !grow_visits(fsm))
        return ROTA_GET_NO_VISIT;
    size_t place = place_of_visit(fsm, host);
    if (fsm->visit_table.items[place] == 0) {
        struct rota_get_visit visit = {.host = host};
        if (!rota_vector_push(&fsm->visits, visit))
            return ROTA_GET_NO_VISIT;
        fsm->visit_table.items[place] = (uint32_t)fsm->visits.size;
    }
    return fsm->visit_table.items[place] - 1;
}

/* --- the end of tries --- */

/* The try is over, also for the balancer; its pending keys return. */
void rota_get_tries_end(struct rota_get_step *step, struct rota_get_fsm_try *try,
                        enum rota_failure failure, const struct rota_cost *cost)
{
    struct rota_get_fsm *fsm = step->fsm;
    const struct rota_get_shared *shared = fsm->shared;
    if (try->number)
        shared->stats->n_running--;
    if (try->chosen.serial)
        rota_balancer_report(shared->balancer, step->now, try->chosen,
                             rota_failure_outcome(failure), cost);
    try->is_running = false;
    try->ended_at = step->now;
    try->failure = failure;
    fsm->n_running--;
    bool is_its_fault = failure && failure != ROTA_FAILURE_CANCELLED;
    const uint32_t *list = &fsm->lists.items[try->first];
    for (uint32_t i = try->cursor; i < try->n_keys; i++)
        rota_get_keys_return(&fsm->keys, list[i], is_its_fault ? failure : ROTA_FAILURE_NONE);
    fsm->wants_plan = true;
}

void rota_get_tries_record(struct rota_get_step *step, const struct rota_get_fsm_try *try)
{
    if (step->fsm->shared->hedge && try->number)
        rota_hedge_record(step->fsm->shared->hedge, step->now, step->now - try->started_at);
}

void rota_get_tries_cancel(struct rota_get_step *step, struct rota_get_fsm_try *try)
{
    if (try->number) {
        rota_get_tries_act_on(step, ROTA_GET_CANCEL_TRY, try);
        step->fsm->shared->stats->n_cancelled++;
    }
    if (try->is_hedged) /* it brought nothing, and another try did */
        rota_interval_map_failed(step->fsm->shared->map, try->host);
    rota_get_tries_end(step, try, ROTA_FAILURE_CANCELLED, NULL);
}

/* Whether a key of the try is still pending. An answer is final, so keys that were skipped once
 * need not be checked again. */
bool rota_get_tries_is_wanted(struct rota_get_fsm *fsm, struct rota_get_fsm_try *try)
{
    const uint32_t *list = &fsm->lists.items[try->first];
    while (try->cursor < try->n_keys && !rota_get_keys_is_pending(&fsm->keys, list[try->cursor]))
        try->cursor++;
    return try->cursor < try->n_keys;
}

/* --- sending --- */

/* How long a try may take before it is hedged. */
static rota_time hedge_delay(const struct rota_get_fsm *fsm, rota_time delay)
{
    return fsm->copies == ROTA_GET_ONE ? HEDGE_LATER * delay : delay;
}

/* When to hedge a try that is sent now. Each one earns its part of a hedge. */
static rota_time hedge_time(struct rota_get_step *step)
{
    struct rota_get_fsm *fsm = step->fsm;
    if (!fsm->shared->hedge || fsm->copies == ROTA_GET_ALL)
        return ROTA_TIME_NEVER;
    rota_time at = rota_hedge_begin(fsm->shared->hedge, step->now, fsm->options.deadline);
    if (at == ROTA_TIME_NEVER)
        return at;
    return rota_time_add(step->now, hedge_delay(fsm, at - step->now));
}

rota_time rota_get_tries_hedge_again(const struct rota_get_step *step)
{
    return rota_time_add(step->now, hedge_delay(step->fsm, step->fsm->shared->hedge->delay));
}

void rota_get_tries_send(struct rota_get_step *step, struct rota_get_fsm_try *try,
                         const struct rota_interval_host *host, struct rota_try chosen)
{
    struct rota_get_fsm *fsm = step->fsm;
    struct rota_get_visit *visit = &fsm->visits.items[try->visit];
    struct rota_get_stats *stats = fsm->shared->stats;
    struct rota_choice only = {.replicas = &host->id, .n_replicas = 1, .work = try->n_keys};
    if (!chosen.serial && fsm->tells_balancer)
        rota_balancer_select(fsm->shared->balancer, step->now, &only, fsm->shared->random, &chosen,
                             NULL);
    if (visit->lesson != host->lesson)
        visit->n_failures = 0;
    visit->lesson = host->lesson;
    visit->n_tries++;
    try->number = visit->number = rota_interval_map_number(fsm->shared->map);
    try->started_at = step->now;
    try->deadline =
        rota_time_min(fsm->options.deadline, rota_time_add(step->now, fsm->options.host_timeout));
    try->at = try->is_hedge ? ROTA_TIME_NEVER : hedge_time(step);
    try->lesson = host->lesson;
    try->epoch = host->epoch;
    try->chosen = chosen;
    stats->n_tries++;
    stats->n_running++;
    stats->n_hedges += try->is_hedge;
    rota_get_tries_act_on(step, ROTA_GET_SEND, try);
    fsm->actions.items[fsm->actions.size - 1].host = host;
}

/* Those of its keys that are pending are its keys from now on. */
static void keep_pending(struct rota_get_fsm *fsm, struct rota_get_fsm_try *try)
{
    uint32_t *list = &fsm->lists.items[try->first];
    uint32_t n = 0;
    for (uint32_t i = 0; i < try->n_keys; i++)
        if (rota_get_keys_is_pending(&fsm->keys, list[i]))
            list[n++] = list[i];
    try->n_keys = n;
    try->cursor = 0;
}

/* A try that waited: send its remaining keys, if its host is still listed. */
void rota_get_tries_send_again(struct rota_get_step *step, struct rota_get_fsm_try *try)
{
    struct rota_get_fsm *fsm = step->fsm;
    const struct rota_interval_host *host = rota_interval_map_find(fsm->shared->map, try->host);
    keep_pending(fsm, try);
    if (!host || host->n_claims == 0 || host->lesson != try->lesson) {
        rota_get_tries_end(step, try, ROTA_FAILURE_CANCELLED,
                           NULL); /* its keys are planned again */
        return;
    }
    fsm->shared->stats->n_retries++;
    rota_get_tries_send(step, try, host, (struct rota_try){0});
}

/* Room for one more try and all actions that it can cause in one step: to be sent, kept and
 * cancelled. */
bool rota_get_tries_add(struct rota_get_fsm *fsm, struct rota_get_fsm_try try)
{
    if (fsm->tries.size >= ROTA_GET_TRIES_MAX ||
        !rota_vector_reserve(&fsm->actions, 3 * (fsm->tries.size + 1) + 1) ||
        !rota_vector_push(&fsm->tries, try)) {
        fsm->has_no_memory = true;
        return false;
    }
    fsm->n_running++;
    return true;
}

/* --- again --- */

int rota_get_tries_rank(const struct rota_get_fsm *fsm, const struct rota_get_visit *visit,
                        const struct rota_interval_host *host)
{
    uint32_t n_failures = visit->lesson == host->lesson ? visit->n_failures : 0;
    if (visit->refused == host->lesson || n_failures > (uint32_t)fsm->options.retries ||
        visit->n_tries >= ROTA_GET_HOST_TRIES_MAX)
        return 0;
    return 1 + host->is_live + (n_failures == 0 ? ROTA_GET_FRESH - 1 : 0);
}

/* Another try with the keys of one that has ended; NULL when there is no room. */
static struct rota_get_fsm_try *repeat_try(struct rota_get_fsm *fsm, struct rota_get_fsm_try again)
{
    again.number = 0;
    again.is_running = true;
    again.is_hedged = false;
    again.failure = ROTA_FAILURE_NONE;
    again.n_taken = 0;
    again.at = again.deadline = ROTA_TIME_NEVER;
    again.chosen = (struct rota_try){0};
    if (!rota_get_tries_add(fsm, again))
        return NULL;
    const uint32_t *list = &fsm->lists.items[again.first];
    for (uint32_t i = again.cursor; i < again.n_keys; i++)
        if (rota_get_keys_is_pending(&fsm->keys, list[i]))
            rota_get_keys_send(&fsm->keys, list[i], 1);
    return &fsm->tries.items[fsm->tries.size - 1];
}

void rota_get_tries_go_on(struct rota_get_step *step, size_t index)
{
    struct rota_get_fsm *fsm = step->fsm;
    struct rota_get_fsm_try rest = fsm->tries.items[index];
    const struct rota_interval_host *host = rota_interval_map_find(fsm->shared->map, rest.host);
    if (!host || host->lesson != rest.lesson)
        return; /* its keys are planned again */
    keep_pending(fsm, &rest);
    struct rota_get_fsm_try *try = repeat_try(fsm, rest);
    if (!try)
        return;
    fsm->visits.items[try->visit].n_tries = 0; /* each one makes progress */
    rota_get_tries_send(step, try, host, (struct rota_try){0});
}

void rota_get_tries_retry(struct rota_get_step *step, size_t index)
{
    struct rota_get_fsm *fsm = step->fsm;
    struct rota_get_fsm_try again = fsm->tries.items[index];
    struct rota_get_visit *visit = &fsm->visits.items[again.visit];
    const struct rota_interval_host *host = rota_interval_map_find(fsm->shared->map, again.host);
    if (!host || host->lesson != again.lesson || rota_get_tries_rank(fsm, visit, host) == 0 ||
        !rota_get_tries_is_wanted(fsm, &again) || !rota_get_tries_spend(step, fsm->shared->budget))
        return;
    struct rota_get_fsm_try *try = repeat_try(fsm, again);
    if (try)
        try->at = rota_time_add(step->now, rota_backoff_failed(&fsm->backoff, fsm->shared->random));
}
