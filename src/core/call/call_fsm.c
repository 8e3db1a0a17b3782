#include "core/call/call_fsm.h"

#include "core/call/service/follow.h"

#include <assert.h>

static_assert(sizeof(int64_t) == sizeof(uint64_t), "a node is a replica's number");

/* One step: its context, and its actions. */
struct step {
    struct rota_call_fsm *fsm;
    rota_time now;
    struct rota_call_fsm_actions todo;
};

void rota_call_fsm_init(struct rota_call_fsm *fsm, const struct rota_call_shared *shared,
                        const struct rota_call_fsm_options *options)
{
    *fsm = (struct rota_call_fsm){
        .shared = shared,
        .options = *options,
        .wait_until = ROTA_TIME_NEVER,
        .hedge_at = ROTA_TIME_NEVER,
        .hedge_delay = ROTA_TIME_NEVER,
        .retry_backoff = {.first = ROTA_CALL_BACKOFF, .max = ROTA_CALL_BACKOFF_MAX},
        .lookup_backoff = {.first = ROTA_CALL_BACKOFF, .max = ROTA_CALL_BACKOFF_MAX},
    };
    if (options->deadline == 0)
        fsm->options.deadline = ROTA_TIME_NEVER;
    if (options->retries == 0)
        fsm->options.retries = ROTA_CALL_RETRIES;
    if (options->retries < 0)
        fsm->options.retries = 1;
    if (options->retries > ROTA_CALL_TRIES_MAX)
        fsm->options.retries = ROTA_CALL_TRIES_MAX;
}

static struct rota_call_fsm_action *add_action(struct step *step, enum rota_call_action_type type)
{
    assert(step->todo.n < ROTA_CALL_ACTIONS_MAX);
    struct rota_call_fsm_action *action = &step->todo.items[step->todo.n++];
    *action = (struct rota_call_fsm_action){.type = type};
    return action;
}

/* --- tries --- */

size_t rota_call_fsm_n_running(const struct rota_call_fsm *fsm)
{
    size_t n = 0;
    for (size_t i = 0; i < ROTA_CALL_RUNNING_MAX; i++)
        n += fsm->running[i].number != 0;
    return n;
}

static struct rota_call_try *find_try(struct rota_call_fsm *fsm, uint64_t number)
{
    for (size_t i = 0; i < ROTA_CALL_RUNNING_MAX; i++)
        if (fsm->running[i].number == number)
            return &fsm->running[i];
    return NULL;
}

/* The try has ended: report it to the balancer and free its place. */
static void end_try(struct rota_call_fsm *fsm, rota_time now, struct rota_call_try *try,
                    enum rota_failure failure, const struct rota_cost *cost)
{
    if (try->chosen.serial)
        rota_balancer_report(fsm->shared->balancer, now, try->chosen, rota_failure_outcome(failure),
                             cost);
    rota_shard_map_drop(try->map);
    *try = (struct rota_call_try){0};
}

/* Record how long a try took: one that was answered, or one that lost to it. */
static void record_latency(struct rota_call_fsm *fsm, rota_time now,
                           const struct rota_call_try *try)
{
    if (fsm->shared->hedge)
        rota_hedge_record(fsm->shared->hedge, now, now - try->started_at);
}

void rota_call_fsm_deinit(struct rota_call_fsm *fsm, rota_time now)
{
    for (size_t i = 0; i < ROTA_CALL_RUNNING_MAX; i++)
        if (fsm->running[i].number)
            end_try(fsm, now, &fsm->running[i], ROTA_FAILURE_CANCELLED, NULL);
    if (fsm->has_token)
        rota_budget_refund(fsm->shared->budget);
    rota_shard_map_drop(fsm->map);
    fsm->has_token = false;
    fsm->map = NULL;
    fsm->state = ROTA_CALL_DONE;
}

/* The one way out. */
static void finish_call(struct step *step, enum rota_failure failure, int64_t node)
{
    struct rota_call_fsm *fsm = step->fsm;
    for (size_t i = 0; i < ROTA_CALL_RUNNING_MAX; i++) {
        struct rota_call_try *try = &fsm->running[i];
        if (!try->number)
            continue;
        if (failure == ROTA_FAILURE_NONE)
            record_latency(fsm, step->now, try);
        add_action(step, ROTA_CALL_CANCEL_TRY)->number = try->number;
        end_try(fsm, step->now, try, ROTA_FAILURE_CANCELLED, NULL);
    }
    if (fsm->has_token)
        rota_budget_refund(fsm->shared->budget);
    fsm->has_token = false;
    fsm->state = ROTA_CALL_DONE;
    fsm->shared->stats->n_ended[failure]++;
    struct rota_call_fsm_action *action = add_action(step, ROTA_CALL_FINISH);
    action->failure = failure;
    action->node = node;
}

/* Give up: the failure of a try says more than that nothing could be tried. */
static void give_up_call(struct step *step, enum rota_failure failure)
{
    finish_call(step, step->fsm->last ? step->fsm->last : failure, 0);
}

static void ask_for_map(struct step *step, bool with_cache)
{
    struct rota_call_fsm *fsm = step->fsm;
    fsm->asked = ++fsm->number;
    fsm->is_asked_with_cache = with_cache;
    fsm->state = ROTA_CALL_ASKING;
    fsm->shared->stats->n_refreshes += !with_cache;
    struct rota_call_fsm_action *action = add_action(step, ROTA_CALL_ASK_LEADERS);
    action->number = fsm->asked;
    action->with_cache = with_cache;
    action->deadline = fsm->options.deadline;
}

/* Ask again after a while; give up at once when there is no time left. */
static void wait_and_ask(struct step *step, struct rota_backoff *backoff, bool with_cache,
                         enum rota_failure failure)
{
    struct rota_call_fsm *fsm = step->fsm;
    rota_time until = rota_time_add(step->now, rota_backoff_failed(backoff, fsm->shared->random));
    if (until >= fsm->options.deadline) {
        give_up_call(step, failure);
        return;
    }
    fsm->state = ROTA_CALL_WAITING;
    fsm->wait_until = until;
    fsm->asks_past_cache = !with_cache;
}

/* --- choosing --- */

static bool is_excluded(const struct rota_call_fsm *fsm, int64_t node)
{
    for (size_t i = 0; i < fsm->n_excluded; i++)
        if (fsm->excluded[i] == node)
            return true;
    return false;
}

/* Overloaded nodes come first. */
static void exclude_node(struct rota_call_fsm *fsm, int64_t node, enum rota_failure failure)
{
    if (is_excluded(fsm, node))
        return;
    assert(fsm->n_excluded < ROTA_CALL_TRIES_MAX);
    size_t place = fsm->n_excluded++;
    if (failure == ROTA_FAILURE_OVERLOAD) {
        fsm->excluded[place] = fsm->excluded[fsm->n_excluded_by_overload];
        place = fsm->n_excluded_by_overload++;
    }
    fsm->excluded[place] = node;
}

/* Whether each replica of the shard has refused this call for overload. */
static bool is_saturated(const struct rota_call_fsm *fsm, const struct rota_shard_channel *channel)
{
    for (size_t i = 0; channel && i < channel->n_replicas; i++) {
        bool is_full = false;
        for (size_t j = 0; j < fsm->n_excluded_by_overload; j++)
            is_full |= fsm->excluded[j] == channel->replicas[i].node;
        if (!is_full)
            return false;
    }
    return channel && channel->n_replicas > 0;
}

static const struct rota_shard_channel *channel_of(const struct rota_call_fsm *fsm)
{
    return fsm->map ? rota_shard_map_find(fsm->map, fsm->options.channel) : NULL;
}

static bool is_running_on(const struct rota_call_fsm *fsm, int64_t node)
{
    for (size_t i = 0; i < ROTA_CALL_RUNNING_MAX; i++)
        if (fsm->running[i].number && fsm->running[i].replica->node == node)
            return true;
    return false;
}

/* The rank of the replica, 0: not usable. The blacklist and the serviceable flag are preferences: a
 * try that may fail beats certain failure. */
static int rank_replica(const struct rota_call_fsm *fsm, rota_time now,
                        const struct rota_replica *replica)
{
    if (is_excluded(fsm, replica->node) || is_running_on(fsm, replica->node) ||
        (fsm->options.is_pinned && replica->node != fsm->options.preferred))
        return 0;
    bool is_blacklisted = fsm->shared->blacklist &&
                          rota_blacklist_has(fsm->shared->blacklist, now, fsm->map->collection,
                                             fsm->options.channel, replica->node);
    return 1 + replica->is_serviceable + 2 * !is_blacklisted;
}

struct candidates {
    size_t n;
    const struct rota_replica *replicas[ROTA_SHARD_REPLICAS_MAX];
};

/* Those of the highest rank. */
static void collect_best(const struct rota_call_fsm *fsm, rota_time now,
                         struct candidates *candidates)
{
    const struct rota_shard_channel *channel = channel_of(fsm);
    int best = 1;
    candidates->n = 0;
    for (size_t i = 0; channel && i < channel->n_replicas; i++) {
        const struct rota_replica *replica = &channel->replicas[i];
        int own = rank_replica(fsm, now, replica);
        if (own < best)
            continue;
        if (own > best)
            candidates->n = 0;
        best = own;
        candidates->replicas[candidates->n++] = replica;
    }
}

/* The preferred replica, if it is among the candidates and well. One to which the
 * call is pinned is left to the balancer, which then learns from it. */
static const struct rota_replica *find_preferred(struct rota_call_fsm *fsm,
                                                 const struct candidates *candidates)
{
    if (!fsm->options.has_preferred || fsm->options.is_pinned)
        return NULL;
    const struct rota_replica *found = NULL;
    for (size_t i = 0; i < candidates->n; i++)
        if (candidates->replicas[i]->node == fsm->options.preferred &&
            candidates->replicas[i]->is_serviceable)
            found = candidates->replicas[i];
    if (fsm->n_tries == 0) {
        struct rota_call_stats *stats = fsm->shared->stats;
        const struct rota_shard_channel *channel = channel_of(fsm);
        bool is_listed = channel && rota_shard_map_find_channel(channel, fsm->options.preferred);
        stats->n_preferred_hit += found != NULL;
        stats->n_preferred_unavailable += !found && is_listed;
        stats->n_preferred_miss += !found && !is_listed;
    }
    return found;
}

/* The replica for the next try, or NULL; `*chosen` is filled in when it was the
 * balancer that chose. */
static const struct rota_replica *choose_replica(struct step *step,
                                                 const struct candidates *candidates,
                                                 struct rota_try *chosen)
{
    struct rota_call_fsm *fsm = step->fsm;
    const struct rota_replica *preferred = find_preferred(fsm, candidates);
    if (preferred || candidates->n == 0)
        return preferred;

    uint64_t nodes[ROTA_SHARD_REPLICAS_MAX];
    for (size_t i = 0; i < candidates->n; i++)
        nodes[i] = (uint64_t)candidates->replicas[i]->node;
    struct rota_choice choice = {
        .replicas = nodes,
        .n_replicas = candidates->n,
        .excluded = (const uint64_t *)fsm->excluded,
        .n_excluded = fsm->n_excluded,
        .work = fsm->options.work,
    };
    if (rota_balancer_select(fsm->shared->balancer, step->now, &choice, fsm->shared->random, chosen,
                             NULL))
        return NULL;
    for (size_t i = 0; i < candidates->n; i++)
        if (nodes[i] == chosen->replica)
            return candidates->replicas[i];
    assert(!"the balancer chose what it was not offered");
    return NULL;
}

/* --- starting --- */

/* When to hedge this try. The delay is determined once per call, which earns its part of a hedge
 * then. */
static void arm_hedge(struct rota_call_fsm *fsm, rota_time now)
{
    const struct rota_call_fsm_options *options = &fsm->options;
    if (fsm->n_tries == 0 && options->hedge_after >= 0 && fsm->shared->hedge) {
        rota_time at = rota_hedge_begin(fsm->shared->hedge, now, options->deadline);
        fsm->hedge_delay = at == ROTA_TIME_NEVER ? at : at - now;
    }
    if (options->hedge_after > 0)
        fsm->hedge_delay = options->hedge_after;
    bool is_hedged = !fsm->is_hedged && options->repeat == ROTA_REPEAT_ANY;
    fsm->hedge_at = is_hedged ? rota_time_add(now, fsm->hedge_delay) : ROTA_TIME_NEVER;
}

static void start_try(struct step *step, const struct rota_replica *replica, bool is_hedge,
                      struct rota_try chosen)
{
    struct rota_call_fsm *fsm = step->fsm;
    struct rota_call_stats *stats = fsm->shared->stats;
    struct rota_call_try *try = find_try(fsm, 0);
    assert(try && step->now < fsm->options.deadline && fsm->n_tries < fsm->n_tries_max);
    rota_time timeout = fsm->options.try_timeout > 0 ? fsm->options.try_timeout : ROTA_TIME_NEVER;
    if (!is_hedge)
        arm_hedge(fsm, step->now);
    stats->n_tries++;
    stats->n_retries += fsm->n_tries > 0 && !is_hedge;
    stats->n_hedges += is_hedge;
    fsm->n_tries++;
    fsm->state = ROTA_CALL_TRYING;
    *try = (struct rota_call_try){
        .number = ++fsm->number,
        .map = rota_shard_map_share(fsm->map),
        .replica = replica,
        .started_at = step->now,
        .deadline = rota_time_min(fsm->options.deadline, rota_time_add(step->now, timeout)),
        .is_hedge = is_hedge,
        .chosen = chosen,
    };
    struct rota_call_fsm_action *action = add_action(step, ROTA_CALL_START_TRY);
    action->number = try->number;
    action->replica = replica;
    action->deadline = try->deadline;
    action->is_hedge = is_hedge;
}

/* Start a try by the current map; false when it has no candidate. */
static bool try_next(struct step *step)
{
    struct rota_call_fsm *fsm = step->fsm;
    struct candidates candidates;
    struct rota_try chosen = {0};
    collect_best(fsm, step->now, &candidates);
    const struct rota_replica *replica = choose_replica(step, &candidates, &chosen);
    if (!replica)
        return false;
    fsm->has_token = false; /* it is spent now */
    start_try(step, replica, false, chosen);
    return true;
}

static bool may_hedge(struct step *step)
{
    struct rota_call_fsm *fsm = step->fsm;
    bool is_allowed = true;
    if (fsm->shared->hedge)
        is_allowed = rota_hedge_spend(fsm->shared->hedge, step->now);
    else if (fsm->shared->budget)
        is_allowed = rota_budget_spend(fsm->shared->budget, step->now);
    fsm->shared->stats->n_unbudgeted += !is_allowed;
    return is_allowed;
}

/* Without a token the hedge is tried again later: a stuck call outlives the slightly slow ones
 * that took the tokens. */
static void hedge_call(struct step *step)
{
    struct rota_call_fsm *fsm = step->fsm;
    struct candidates candidates;
    struct rota_try chosen = {0};
    fsm->is_hedged = true;
    fsm->hedge_at = ROTA_TIME_NEVER;
    collect_best(fsm, step->now, &candidates);
    if (candidates.n == 0 || fsm->n_tries >= fsm->n_tries_max)
        return;
    if (!may_hedge(step)) {
        rota_time delay = fsm->hedge_delay;
        fsm->is_hedged = false;
        fsm->hedge_at =
            rota_time_add(step->now, delay > ROTA_HEDGE_DELAY_MIN ? delay : ROTA_HEDGE_DELAY_MIN);
        return;
    }
    const struct rota_replica *replica = choose_replica(step, &candidates, &chosen);
    if (replica)
        start_try(step, replica, true, chosen);
    else if (fsm->shared->hedge)
        rota_budget_refund(&fsm->shared->hedge->budget);
    else if (fsm->shared->budget)
        rota_budget_refund(fsm->shared->budget);
}

/* --- leaders --- */

static void lookup_failed(struct step *step, enum rota_failure failure)
{
    struct rota_call_fsm *fsm = step->fsm;
    if (failure == ROTA_FAILURE_INPUT || failure == ROTA_FAILURE_LOCAL)
        finish_call(step, failure, 0);
    else if (fsm->is_asked_with_cache)
        ask_for_map(step, false);
    else if (failure == ROTA_FAILURE_NOT_LOADED || ++fsm->n_failed_lookups == ROTA_CALL_LOOKUPS_MAX)
        give_up_call(step, failure);
    else
        wait_and_ask(step, &fsm->lookup_backoff, false, failure);
}

/* Take a token for a try of another sweep; false when there is none. */
static bool spend_token(struct step *step)
{
    struct rota_call_fsm *fsm = step->fsm;
    fsm->has_token = fsm->shared->budget && rota_budget_spend(fsm->shared->budget, step->now);
    fsm->is_unbudgeted = fsm->shared->budget && !fsm->has_token;
    fsm->shared->stats->n_unbudgeted += fsm->is_unbudgeted;
    return !fsm->is_unbudgeted;
}

/* Only an answer from the directory itself can clear the excluded ones, and only if it has no
 * other replica. Then another sweep begins, if the budget allows it. */
static void clear_excluded(struct step *step, const struct rota_shard_channel *channel)
{
    struct rota_call_fsm *fsm = step->fsm;
    for (size_t i = 0; i < channel->n_replicas; i++)
        if (!is_excluded(fsm, channel->replicas[i].node))
            return;
    if (!fsm->has_token && !spend_token(step))
        return;
    fsm->n_excluded = fsm->n_excluded_by_overload = 0;
    fsm->sweeps_again = true;
}

static void got_leaders(struct step *step, struct rota_shard_map *map)
{
    struct rota_call_fsm *fsm = step->fsm;
    rota_shard_map_drop(fsm->map);
    fsm->map = rota_shard_map_share(map);
    fsm->n_failed_lookups = 0;
    rota_backoff_succeeded(&fsm->lookup_backoff);

    const struct rota_shard_channel *channel = channel_of(fsm);
    size_t n_leaders = channel ? channel->n_replicas : 0;
    size_t n_tries = n_leaders + (size_t)fsm->options.retries;
    if (n_tries > ROTA_CALL_TRIES_MAX)
        n_tries = ROTA_CALL_TRIES_MAX;
    n_tries += fsm->n_followed;
    if (n_tries > fsm->n_tries_max)
        fsm->n_tries_max = (uint32_t)n_tries;
    if (is_saturated(fsm, channel)) {
        finish_call(step, ROTA_FAILURE_OVERLOAD, 0); /* another sweep would only add to it */
        return;
    }
    if (!fsm->is_asked_with_cache && n_leaders > 0)
        clear_excluded(step, channel);
    if (try_next(step))
        return;
    if (fsm->is_asked_with_cache)
        ask_for_map(step, false);
    else
        give_up_call(step, ROTA_FAILURE_NO_REPLICA);
}

static void on_leaders(struct step *step, const struct rota_call_fsm_event *event)
{
    struct rota_call_fsm *fsm = step->fsm;
    if (fsm->state != ROTA_CALL_ASKING || event->number != fsm->asked)
        return;
    fsm->asked = 0;
    if (event->failure || !event->map)
        lookup_failed(step, event->failure ? event->failure : ROTA_FAILURE_NO_REPLICA);
    else
        got_leaders(step, event->map);
}

/* --- a try's end --- */

static bool may_repeat(const struct rota_call_fsm *fsm, enum rota_failure failure, bool is_sent)
{
    switch (fsm->options.repeat) {
    case ROTA_REPEAT_UNSENT:
        return !is_sent;
    case ROTA_REPEAT_REFUSED:
        return !is_sent || rota_failure_is_refusal(failure);
    case ROTA_REPEAT_ANY:
        return true;
    }
    return false;
}

static void retry_call(struct step *step)
{
    struct rota_call_fsm *fsm = step->fsm;
    if (fsm->n_tries >= fsm->n_tries_max) {
        give_up_call(step, fsm->last);
        return;
    }
    if (fsm->sweeps_again && !spend_token(step)) {
        give_up_call(step, fsm->last);
        return;
    }
    if (!fsm->has_failed_over)
        ask_for_map(step, true); /* another replica is free: no reason to wait */
    else
        wait_and_ask(step, &fsm->retry_backoff, true, fsm->last);
    fsm->has_failed_over = true;
}

/* The replica and the shard map are judged separately: a stale replica whose own claim is newer
 * than the map's is right after all, under its new epoch. */
static void blame_replica(struct step *step, const struct rota_replica *replica,
                          enum rota_failure failure, const struct rota_replica *claim)
{
    struct rota_call_fsm *fsm = step->fsm;
    if (failure == ROTA_FAILURE_STALE && claim && claim->node == replica->node &&
        claim->epoch > replica->epoch)
        return;
    switch (rota_failure_replica_effect(failure)) {
    case ROTA_REPLICA_KEEP:
        break;
    case ROTA_REPLICA_BLACKLIST:
        if (fsm->shared->blacklist)
            rota_blacklist_add(fsm->shared->blacklist, step->now, fsm->map->collection,
                               fsm->options.channel, replica->node);
        exclude_node(fsm, replica->node, failure);
        break;
    case ROTA_REPLICA_EXCLUDE:
        exclude_node(fsm, replica->node, failure);
        break;
    }
}

/* The owner was the wrong one, or is unreachable: continue with the next one found. */
static bool is_followed(const struct rota_call_fsm *fsm, enum rota_failure failure)
{
    return fsm->options.is_followed && rota_follow_is_followed(failure);
}

static void follow_call(struct step *step)
{
    struct rota_call_fsm *fsm = step->fsm;
    fsm->n_followed++;
    fsm->n_tries_max++;
    if (rota_call_fsm_n_running(fsm) == 0)
        ask_for_map(step, true);
}

static void try_failed(struct step *step, struct rota_call_try *try, enum rota_failure failure,
                       const struct rota_call_fsm_event *event)
{
    struct rota_call_fsm *fsm = step->fsm;
    bool is_sent = event->type != ROTA_CALL_TRY_ENDED || event->is_sent;
    const struct rota_replica *claim = event->type == ROTA_CALL_TRY_ENDED ? event->claim : NULL;
    if (rota_failure_cache_effect(failure) != ROTA_CACHE_KEEP) {
        struct rota_call_fsm_action *action = add_action(step, ROTA_CALL_REPORT);
        action->version = try->map->version;
        action->node = try->replica->node;
        action->epoch = try->replica->epoch;
        action->failure = failure;
        action->claim = claim;
    }
    fsm->last = failure;
    bool is_free = is_followed(fsm, failure);
    if (!is_free)
        blame_replica(step, try->replica, failure, claim);
    end_try(fsm, step->now, try, failure, event->cost);
    if (is_free) {
        follow_call(step);
        return;
    }

    if (!rota_failure_is_retried(failure) || !may_repeat(fsm, failure, is_sent) ||
        fsm->options.is_pinned)
        finish_call(step, failure, 0);
    else if (rota_call_fsm_n_running(fsm) == 0)
        retry_call(step);
}

static void on_try_sent(struct step *step, const struct rota_call_fsm_event *event)
{
    struct rota_call_try *try = event->number ? find_try(step->fsm, event->number) : NULL;
    if (!try)
        return;
    try->started_at = step->now;
    if (try->chosen.serial)
        rota_balancer_sent(step->fsm->shared->balancer, step->now, try->chosen);
}

static void on_try_ended(struct step *step, const struct rota_call_fsm_event *event)
{
    struct rota_call_fsm *fsm = step->fsm;
    struct rota_call_try *try = event->number ? find_try(fsm, event->number) : NULL;
    enum rota_failure failure = event->failure;
    if (!try)
        return;
    if (failure == ROTA_FAILURE_NONE) {
        int64_t node = try->replica->node;
        fsm->shared->stats->n_hedges_won += try->is_hedge;
        record_latency(fsm, step->now, try);
        end_try(fsm, step->now, try, failure, event->cost);
        finish_call(step, failure, node);
        return;
    }
    /* We did not cancel the try and the call has time left, so only the other side considers it
     * cancelled. */
    if (failure == ROTA_FAILURE_CANCELLED || failure == ROTA_FAILURE_DEADLINE)
        failure = ROTA_FAILURE_TIMEOUT;
    try_failed(step, try, failure, event);
}

static void on_tick(struct step *step, const struct rota_call_fsm_event *event)
{
    struct rota_call_fsm *fsm = step->fsm;
    for (size_t i = 0; i < ROTA_CALL_RUNNING_MAX && fsm->state == ROTA_CALL_TRYING; i++) {
        struct rota_call_try *try = &fsm->running[i];
        if (!try->number || step->now < try->deadline)
            continue;
        add_action(step, ROTA_CALL_CANCEL_TRY)->number = try->number;
        try_failed(step, try, ROTA_FAILURE_TIMEOUT, event);
    }
    if (fsm->state == ROTA_CALL_WAITING && step->now >= fsm->wait_until)
        ask_for_map(step, !fsm->asks_past_cache);
    if (fsm->state == ROTA_CALL_TRYING && step->now >= fsm->hedge_at)
        hedge_call(step);
}

static void on_start(struct step *step)
{
    struct rota_call_fsm *fsm = step->fsm;
    if (fsm->state != ROTA_CALL_NEW)
        return;
    fsm->shared->stats->n_calls++;
    if (fsm->shared->budget)
        rota_budget_earn(fsm->shared->budget);
    ask_for_map(step, true);
}

struct rota_call_fsm_actions rota_call_fsm_step(struct rota_call_fsm *fsm, rota_time now,
                                                const struct rota_call_fsm_event *event)
{
    struct step step = {.fsm = fsm, .now = now};
    if (fsm->state == ROTA_CALL_DONE)
        return step.todo;
    bool is_good = event->type == ROTA_CALL_TRY_ENDED && event->failure == ROTA_FAILURE_NONE;
    if (now >= fsm->options.deadline && event->type != ROTA_CALL_CANCEL &&
        !(is_good && event->number && find_try(fsm, event->number))) {
        finish_call(&step, ROTA_FAILURE_DEADLINE, 0);
        return step.todo;
    }
    switch (event->type) {
    case ROTA_CALL_START:
        on_start(&step);
        break;
    case ROTA_CALL_LEADERS:
        on_leaders(&step, event);
        break;
    case ROTA_CALL_TRY_SENT:
        on_try_sent(&step, event);
        break;
    case ROTA_CALL_TRY_ENDED:
        on_try_ended(&step, event);
        break;
    case ROTA_CALL_CANCEL:
        finish_call(&step, ROTA_FAILURE_CANCELLED, 0);
        break;
    case ROTA_CALL_TICK:
        on_tick(&step, event);
        break;
    }
    return step.todo;
}

rota_time rota_call_fsm_deadline(const struct rota_call_fsm *fsm)
{
    if (fsm->state == ROTA_CALL_DONE || fsm->state == ROTA_CALL_NEW)
        return ROTA_TIME_NEVER;
    rota_time at = fsm->options.deadline;
    if (fsm->state == ROTA_CALL_WAITING)
        at = rota_time_min(at, fsm->wait_until);
    if (fsm->state == ROTA_CALL_TRYING)
        at = rota_time_min(at, fsm->hedge_at);
    for (size_t i = 0; i < ROTA_CALL_RUNNING_MAX; i++)
        if (fsm->running[i].number)
            at = rota_time_min(at, fsm->running[i].deadline);
    return at;
}

bool rota_call_fsm_is_unbudgeted(const struct rota_call_fsm *fsm)
{
    return fsm->is_unbudgeted;
}
