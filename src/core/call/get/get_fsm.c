#include "core/call/get/get_fsm.h"

#include "core/call/get/get_plan.h"
#include "core/call/get/get_tries.h"

#include <assert.h>
#include <string.h>

/* A broadcast needs no choice; some of its tries are reported to the balancer, so that it knows
 * the hosts when there is a choice to make. */
enum { TELL_BALANCER_EVERY = 8 };

static_assert((int)ROTA_GET_KEYS_MAX <= (int)ROTA_INTERVAL_KEYS_MAX,
              "all keys are looked up at once");

void rota_get_fsm_init(struct rota_get_fsm *fsm, const struct rota_get_shared *shared)
{
    *fsm = (struct rota_get_fsm){
        .shared = shared,
        .is_done = true,
        .look_at = ROTA_TIME_NEVER,
    };
}

/* --- the end --- */

/* Mark all pending keys as missing. */
static void fail_pending_keys(struct rota_get_fsm *fsm, enum rota_failure failure)
{
    for (uint32_t i = 0; i < fsm->keys.items.size; i++) {
        const struct rota_get_key *key = &fsm->keys.items.items[i];
        if (key->first != i || key->state != ROTA_GET_PENDING)
            continue;
        if (key->n_out == 0 && !key->failure)
            rota_get_keys_give_up(&fsm->keys, i, ROTA_GET_NO_SHARD, ROTA_FAILURE_NO_REPLICA);
        else
            rota_get_keys_give_up(&fsm->keys, i, ROTA_GET_NO_ANSWER,
                                  key->failure ? (enum rota_failure)key->failure : failure);
    }
}

/* The one way out. `failure` is the reason of keys that have no other. */
static void finish_get(struct rota_get_step *step, enum rota_failure failure)
{
    struct rota_get_fsm *fsm = step->fsm;
    if (fsm->keys.n_pending > 0)
        fail_pending_keys(fsm, failure);
    for (size_t i = 0; i < fsm->tries.size; i++) {
        struct rota_get_fsm_try *try = &fsm->tries.items[i];
        if (!try->is_running)
            continue;
        if (!failure)
            rota_get_tries_record(step, try);
        rota_get_tries_cancel(step, try);
    }
    fsm->is_done = true;
    fsm->look_at = ROTA_TIME_NEVER;
    struct rota_get_fsm_action *action = rota_get_tries_act(step, ROTA_GET_FINISH);
    uint32_t first;
    action->n_missing = rota_get_keys_missing(&fsm->keys, &first, 1);
    if (action->n_missing == 0) {
        if (fsm->options.mode == ROTA_GET_MODE_ADAPTIVE && fsm->tries.size > 0)
            rota_get_load_ended(fsm->shared->load, step->now, fsm->started_at, fsm->copies);
        return;
    }
    fsm->shared->stats->n_failed++;
    action->failure = failure;
    if (!failure)
        action->failure = rota_get_keys_result(&fsm->keys, first).failure;
}

static void cancel_losers(struct rota_get_step *step)
{
    struct rota_get_fsm *fsm = step->fsm;
    for (size_t i = 0; i < fsm->tries.size; i++) {
        struct rota_get_fsm_try *try = &fsm->tries.items[i];
        if (!try->is_running || rota_get_tries_is_wanted(fsm, try))
            continue;
        rota_get_tries_record(step, try);
        rota_get_tries_cancel(step, try);
    }
}

/* --- events --- */

/* Continue after an event: finish, or plan where idle keys go. */
static void advance_get(struct rota_get_step *step)
{
    struct rota_get_fsm *fsm = step->fsm;
    cancel_losers(step);
    if (fsm->keys.n_pending > 0 && step->now >= fsm->options.deadline) {
        finish_get(step, ROTA_FAILURE_DEADLINE);
        return;
    }
    if (fsm->wants_plan && fsm->keys.n_idle > 0)
        rota_get_plan_idle(step);
    if (fsm->has_no_memory)
        finish_get(step, ROTA_FAILURE_LOCAL);
    else if (fsm->keys.n_pending == 0)
        finish_get(step, ROTA_FAILURE_NONE);
    if (fsm->keys.n_idle == 0) {
        fsm->look_at = ROTA_TIME_NEVER;
        fsm->is_backing_off = false;
    }
}

static void on_failed(struct rota_get_step *step, size_t index, enum rota_failure failure,
                      const struct rota_cost *cost)
{
    struct rota_get_fsm *fsm = step->fsm;
    struct rota_get_fsm_try *try = &fsm->tries.items[index];
    const struct rota_get_shared *shared = fsm->shared;
    if (failure == ROTA_FAILURE_TIMEOUT || failure == ROTA_FAILURE_UNREACHABLE ||
        failure == ROTA_FAILURE_BROKEN)
        rota_interval_map_failed(shared->map, try->host);
    if (shared->load && (failure == ROTA_FAILURE_TIMEOUT || failure == ROTA_FAILURE_OVERLOAD))
        rota_get_load_refused(shared->load, step->now);
    fsm->visits.items[try->visit].n_failures++;
    if (failure == ROTA_FAILURE_STALE) {
        fsm->visits.items[try->visit].refused = try->lesson;
        try->is_stale = true;
    }
    rota_get_tries_end(step, try, failure, cost);
    if (!rota_failure_is_retried(failure)) { /* it is the same everywhere */
        const uint32_t *list = &fsm->lists.items[try->first];
        for (uint32_t i = 0; i < try->n_keys; i++)
            if (rota_get_keys_is_pending(&fsm->keys, list[i]))
                rota_get_keys_give_up(&fsm->keys, list[i], ROTA_GET_NO_ANSWER, failure);
    } else if (fsm->copies == ROTA_GET_ALL) {
        rota_get_tries_retry(step, index);
    }
}

/* Whether the answer says what the map says of its host. */
static bool is_as_known(const struct rota_interval_host *host,
                        const struct rota_get_fsm_event *event)
{
    if (host->n_claims != event->n_claims)
        return false;
    for (size_t i = 0; i < event->n_claims; i++)
        if (host->claims[i].epoch != event->claims[i].epoch ||
            !rota_interval_is_equal(&host->claims[i].interval, &event->claims[i].interval))
            return false;
    return true;
}

/* The claims that no host has under a later epoch; false: no memory. */
static bool collect_fresh(struct rota_get_fsm *fsm, const struct rota_interval_host *host,
                          const struct rota_get_fsm_event *event)
{
    const struct rota_interval_map *map = fsm->shared->map;
    fsm->fresh.size = 0;
    if (!rota_vector_reserve(&fsm->fresh, event->n_claims))
        return false;
    for (size_t i = 0; i < event->n_claims; i++)
        if (event->claims[i].epoch >=
            rota_interval_map_epoch(map, host->dc, &event->claims[i].interval))
            fsm->fresh.items[fsm->fresh.size++] = event->claims[i];
    return true;
}

/* `claims`: whose keys the answer counts for; NULL: all of the try. */
static void take_reply(struct rota_get_step *step, size_t index,
                       const struct rota_get_fsm_event *event,
                       const struct rota_interval_claim *claims, size_t n_claims)
{
    struct rota_get_fsm *fsm = step->fsm;
    struct rota_get_fsm_try *try = &fsm->tries.items[index];
    struct rota_get_entries entries = {
        .ids = event->ids,
        .n = event->n_ids,
        .problems = event->problems,
        .n_problems = event->n_problems,
        .claims = claims,
        .n_claims = n_claims,
        .number = try->number,
        .try = (uint32_t)index,
    };
    struct rota_get_visit *visit = &fsm->visits.items[try->visit];
    struct rota_get_taken taken =
        rota_get_keys_use_answer(&fsm->keys, &fsm->lists.items[try->first], try->n_keys, &entries);
    if (taken.n_left == try->n_keys) {
        on_failed(step, index, ROTA_FAILURE_INTERNAL, event->cost); /* else: forever */
        return;
    }
    try->n_taken = (uint32_t)taken.n;
    if (taken.n_found + taken.n_refused > 0)
        rota_get_tries_act_on(step, ROTA_GET_KEEP, try);
    rota_get_tries_record(step, try);
    if (taken.n_left + taken.n_refused == 0 &&
        rota_get_tries_is_wanted(fsm, try)) /* it matched, yet these are not of the shard */
        visit->refused = try->lesson;
    rota_get_tries_end(step, try, ROTA_FAILURE_NONE, event->cost);
    if (taken.n_left > 0)
        rota_get_tries_go_on(step, index);
}

static bool is_broken(const struct rota_get_fsm_event *event)
{
    for (size_t i = 0; i < event->n_claims; i++)
        if (!rota_interval_is_valid(&event->claims[i].interval))
            return true;
    return event->n_claims > ROTA_INTERVAL_CLAIMS_MAX ||
           (event->n_claims == 0 && event->all_matched);
}

/* All keys of the try matched, as the host believes. */
static void on_matched(struct rota_get_step *step, size_t index,
                       const struct rota_get_fsm_event *event, bool is_stale)
{
    struct rota_get_fsm *fsm = step->fsm;
    const struct rota_interval_host *host = rota_interval_map_find(fsm->shared->map, event->host);
    if (is_stale && !collect_fresh(fsm, host, event))
        fsm->has_no_memory = true;
    else if (is_stale && fsm->fresh.size == 0)
        on_failed(step, index, ROTA_FAILURE_STALE, event->cost);
    else if (is_stale)
        take_reply(step, index, event, fsm->fresh.items, fsm->fresh.size);
    else if (host->lesson == fsm->tries.items[index].lesson && is_as_known(host, event))
        take_reply(step, index, event, NULL, 0);
    else
        take_reply(step, index, event, event->claims, event->n_claims);
}

static void on_answer(struct rota_get_step *step, const struct rota_get_fsm_event *event)
{
    struct rota_get_fsm *fsm = step->fsm;
    const struct rota_get_shared *shared = fsm->shared;
    struct rota_interval_lesson lesson = {
        .number = event->number,
        .claims = event->claims,
        .n_claims = event->n_claims,
    };
    enum rota_interval_learned learned =
        is_broken(event) ? ROTA_INTERVAL_NOTHING
                         : rota_interval_map_learn(shared->map, event->host, &lesson);
    struct rota_get_fsm_try *try = fsm->is_done ? NULL : rota_get_tries_find(fsm, event->number);
    if (!try || try->host != event->host)
        return;
    if (shared->load)
        rota_get_load_answered(shared->load, step->now, step->now - try->started_at, event->cost);
    size_t index = (size_t)(try - fsm->tries.items);
    bool is_stale = learned == ROTA_INTERVAL_STALE;
    shared->stats->n_stale += is_stale || learned == ROTA_INTERVAL_GONE;
    if (is_broken(event)) {
        on_failed(step, index, ROTA_FAILURE_INTERNAL, event->cost);
    } else if (learned == ROTA_INTERVAL_GONE) {
        on_failed(step, index, ROTA_FAILURE_STALE, event->cost);
    } else if (!event->all_matched) {
        shared->stats->n_mismatched++;
        try->is_mismatch = true;
        fsm->visits.items[try->visit].refused = try->lesson;
        rota_get_tries_end(step, try, ROTA_FAILURE_NONE, event->cost);
    } else {
        on_matched(step, index, event, is_stale);
    }
}

/* A wait is over: all hosts may be asked again. When they have failed that is an extra round,
 * and needs a token: without one it keeps waiting. */
static void start_next_round(struct rota_get_step *step)
{
    struct rota_get_fsm *fsm = step->fsm;
    fsm->wants_plan = true;
    fsm->look_at = ROTA_TIME_NEVER;
    if (fsm->options.deadline == ROTA_TIME_NEVER && ++fsm->n_rounds > ROTA_GET_ROUNDS_MAX) {
        finish_get(step, ROTA_FAILURE_DEADLINE);
        return;
    }
    if (fsm->is_backing_off && !rota_get_tries_spend(step, fsm->shared->budget)) {
        fsm->look_at =
            rota_time_add(step->now, rota_backoff_failed(&fsm->backoff, fsm->shared->random));
        return;
    }
    fsm->is_backing_off = false;
    for (size_t i = 0; i < fsm->visits.size; i++)
        fsm->visits.items[i].n_failures = fsm->visits.items[i].n_tries = 0;
}

static void on_tick(struct rota_get_step *step)
{
    struct rota_get_fsm *fsm = step->fsm;
    size_t n = fsm->tries.size;
    if (step->now >= fsm->options.deadline)
        return;
    for (size_t i = 0; i < n && !fsm->has_no_memory; i++) {
        struct rota_get_fsm_try *try = &fsm->tries.items[i];
        if (!try->is_running)
            continue;
        if (step->now >= try->deadline) {
            rota_get_tries_act_on(step, ROTA_GET_CANCEL_TRY, try);
            on_failed(step, i, ROTA_FAILURE_TIMEOUT, NULL);
        } else if (step->now >= try->at && try->number == 0) {
            rota_get_tries_send_again(step, try);
        } else if (step->now >= try->at) {
            rota_get_plan_hedge(step, i);
        }
    }
    if (step->now >= fsm->look_at)
        start_next_round(step);
}

/* A host that failed us has answered another Get since. */
static bool has_recovered(const struct rota_get_fsm *fsm)
{
    for (size_t i = 0; i < fsm->visits.size; i++) {
        const struct rota_get_visit *visit = &fsm->visits.items[i];
        const struct rota_interval_host *host =
            visit->n_failures ? rota_interval_map_find(fsm->shared->map, visit->host) : NULL;
        if (host && host->is_live && host->taught_by > visit->number)
            return true;
    }
    return false;
}

static void on_map_changed(struct rota_get_step *step)
{
    struct rota_get_fsm *fsm = step->fsm;
    fsm->wants_plan = true;
    if (fsm->copies == ROTA_GET_ALL && step->now < fsm->options.deadline)
        rota_get_plan_join(step);
    if (fsm->is_backing_off && has_recovered(fsm))
        start_next_round(step);
}

/* How many copies, and for how long. */
static void set_defaults(struct rota_get_fsm *fsm)
{
    struct rota_get_fsm_options *options = &fsm->options;
    const struct rota_get_shared *shared = fsm->shared;
    if (options->deadline == 0)
        options->deadline = ROTA_TIME_NEVER;
    if (options->retries == 0)
        options->retries = ROTA_GET_RETRIES;
    if (options->retries < 0)
        options->retries = 0;
    if (options->retries > ROTA_GET_RETRIES_MAX)
        options->retries = ROTA_GET_RETRIES_MAX;
    if (options->ping_time <= 0)
        options->ping_time = ROTA_GET_PING_TIME;
    if (options->host_timeout <= 0) {
        options->host_timeout = ROTA_GET_HOST_TIMEOUT;
        if (options->deadline != ROTA_TIME_NEVER)
            options->host_timeout =
                rota_time_min(ROTA_GET_HOST_TIMEOUT, (options->deadline - fsm->started_at) / 3);
    }
    switch (options->mode) {
    case ROTA_GET_MODE_ADAPTIVE:
        fsm->copies = rota_get_load_choose(shared->load, fsm->started_at, shared->stats->n_running,
                                           shared->random);
        break;
    case ROTA_GET_MODE_BROADCAST:
        fsm->copies = ROTA_GET_ALL;
        break;
    case ROTA_GET_MODE_HEDGE:
        fsm->copies = ROTA_GET_HEDGE;
        break;
    }
}

enum rota_code rota_get_fsm_start(struct rota_get_fsm *fsm, rota_time now,
                                  const struct rota_get_fsm_options *options,
                                  struct rota_error *error)
{
    assert(fsm->is_done);
    const struct rota_get_shared *shared = fsm->shared;
    struct rota_get_step step = {fsm, now};
    size_t n = options->n_keys;
    if (n > ROTA_GET_KEYS_MAX)
        return rota_error_set(error, ROTA_ERR_LIMIT,
                              "the multi-get has %zu keys; at most %d are allowed", n,
                              ROTA_GET_KEYS_MAX);
    if (!rota_vector_reserve(&fsm->actions, 1) ||
        !rota_get_keys_set(&fsm->keys, rota_random_next(shared->random), options->ids,
                           options->keys, n))
        return rota_error_no_memory(error, "for a multi-get of %zu keys", n);
    fsm->options = *options;
    fsm->options.ids = fsm->options.keys = NULL;
    fsm->is_done = fsm->has_no_memory = fsm->is_backing_off = false;
    fsm->wants_plan = true;
    fsm->started_at = now;
    fsm->n_rounds = 0;
    fsm->n_running = 0;
    fsm->look_at = ROTA_TIME_NEVER;
    fsm->backoff = (struct rota_backoff){.first = ROTA_GET_BACKOFF, .max = ROTA_GET_BACKOFF_MAX};
    fsm->tries.size = fsm->visits.size = fsm->lists.size = 0;
    fsm->actions.size = fsm->next_action = 0;
    if (fsm->visit_table.size)
        memset(fsm->visit_table.items, 0, fsm->visit_table.size * sizeof(uint32_t));
    set_defaults(fsm);
    shared->stats->n_gets++;
    shared->stats->n_keys += n;
    shared->stats->n_copies[fsm->copies]++;
    fsm->tells_balancer =
        fsm->copies != ROTA_GET_ALL || shared->stats->n_gets % TELL_BALANCER_EVERY == 0;
    if (shared->budget)
        rota_budget_earn(shared->budget);
    advance_get(&step);
    return ROTA_OK;
}

void rota_get_fsm_step(struct rota_get_fsm *fsm, rota_time now,
                       const struct rota_get_fsm_event *event)
{
    struct rota_get_step step = {fsm, now};
    struct rota_get_fsm_try *try;
    if (fsm->next_action == fsm->actions.size)
        fsm->actions.size = fsm->next_action = 0;
    if (event->type == ROTA_GET_ANSWER)
        on_answer(&step, event);
    if (fsm->is_done)
        return;
    switch (event->type) {
    case ROTA_GET_ANSWER:
        break;
    case ROTA_GET_FAILED:
        try = event->number ? rota_get_tries_find(fsm, event->number) : NULL;
        if (try)
            on_failed(&step, (size_t)(try - fsm->tries.items), event->failure, event->cost);
        break;
    case ROTA_GET_TICK:
        on_tick(&step);
        break;
    case ROTA_GET_MAP_CHANGED:
        on_map_changed(&step);
        break;
    case ROTA_GET_CANCEL:
        finish_get(&step, ROTA_FAILURE_CANCELLED);
        break;
    }
    if (!fsm->is_done)
        advance_get(&step);
}

bool rota_get_fsm_next(struct rota_get_fsm *fsm, struct rota_get_fsm_action *action)
{
    if (fsm->next_action == fsm->actions.size)
        return false;
    *action = fsm->actions.items[fsm->next_action++];
    if (action->type != ROTA_GET_SEND)
        return true;
    const struct rota_get_fsm_try *try = &fsm->tries.items[action->try];
    action->keys = &fsm->lists.items[try->first];
    action->n_keys = try->n_keys;
    action->epoch = try->epoch;
    action->deadline = try->deadline;
    action->is_hedge = try->is_hedge;
    return true;
}

void rota_get_fsm_deinit(struct rota_get_fsm *fsm, rota_time now)
{
    struct rota_get_step step = {fsm, now};
    for (size_t i = 0; i < fsm->tries.size; i++)
        if (fsm->tries.items[i].is_running)
            rota_get_tries_end(&step, &fsm->tries.items[i], ROTA_FAILURE_CANCELLED, NULL);
    rota_get_keys_deinit(&fsm->keys);
    rota_vector_deinit(&fsm->tries);
    rota_vector_deinit(&fsm->visits);
    rota_vector_deinit(&fsm->visit_table);
    rota_vector_deinit(&fsm->lists);
    rota_vector_deinit(&fsm->planned);
    rota_vector_deinit(&fsm->asked);
    rota_vector_deinit(&fsm->routes);
    rota_vector_deinit(&fsm->group_of);
    rota_vector_deinit(&fsm->groups);
    rota_vector_deinit(&fsm->targets);
    rota_vector_deinit(&fsm->chosen);
    rota_vector_deinit(&fsm->fresh);
    rota_vector_deinit(&fsm->actions);
    rota_get_fsm_init(fsm, fsm->shared);
}

rota_time rota_get_fsm_deadline(const struct rota_get_fsm *fsm)
{
    if (fsm->is_done)
        return ROTA_TIME_NEVER;
    rota_time at = rota_time_min(fsm->options.deadline, fsm->look_at);
    for (size_t i = 0; i < fsm->tries.size; i++) {
        const struct rota_get_fsm_try *try = &fsm->tries.items[i];
        if (try->is_running)
            at = rota_time_min(at, rota_time_min(try->at, try->deadline));
    }
    return at;
}

bool rota_get_fsm_wants_news(const struct rota_get_fsm *fsm)
{
    return !fsm->is_done && (fsm->keys.n_idle > 0 || fsm->copies == ROTA_GET_ALL);
}

bool rota_get_fsm_is_done(const struct rota_get_fsm *fsm)
{
    return fsm->is_done;
}

/* --- looking inside --- */

struct rota_get_fsm_result rota_get_fsm_result(const struct rota_get_fsm *fsm, size_t key)
{
    return rota_get_keys_result(&fsm->keys, key);
}

size_t rota_get_fsm_n_tries(const struct rota_get_fsm *fsm)
{
    return fsm->tries.size;
}

const struct rota_get_fsm_try *rota_get_fsm_try(const struct rota_get_fsm *fsm, size_t index)
{
    assert(index < fsm->tries.size);
    return &fsm->tries.items[index];
}
