#include "sim/balance_world.h"

#include "base/container.h"
#include "sim/sim.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { N_CALLS = 60000 };

/* --- events and memory --- */

void rota_balance_push(struct rota_balance_world *world, struct rota_balance_event *event,
                       enum rota_balance_kind kind, rota_time when)
{
    event->kind = kind;
    event->heap.at = when;
    event->heap.order = world->order++;
    if (!rota_heap_push(&world->events, &event->heap))
        world->is_out_of_memory = true;
}

static void drop_event(struct rota_balance_world *world, struct rota_balance_event *event)
{
    rota_heap_remove(&world->events, &event->heap);
}

static struct rota_balance_call *call_new(struct rota_balance_world *world)
{
    struct rota_balance_call *call = world->free_calls;
    if (call)
        world->free_calls = call->next_free;
    else
        call = malloc(sizeof *call);
    if (call)
        memset(call, 0, sizeof *call);
    return call;
}

static void call_free(struct rota_balance_world *world, struct rota_balance_call *call)
{
    drop_event(world, &call->hedge);
    call->next_free = world->free_calls;
    world->free_calls = call;
}

static struct rota_balance_attempt *attempt_new(struct rota_balance_world *world)
{
    struct rota_balance_attempt *attempt =
        ROTA_LIST_FIRST(&world->free_attempts, struct rota_balance_attempt, link);
    if (attempt)
        rota_list_remove(&attempt->link);
    else
        attempt = malloc(sizeof *attempt);
    if (attempt)
        memset(attempt, 0, sizeof *attempt);
    return attempt;
}

/* Give it back once neither side has it. */
void rota_balance_attempt_release(struct rota_balance_world *world,
                                  struct rota_balance_attempt *attempt)
{
    if (attempt->call || attempt->is_at_server)
        return;
    drop_event(world, &attempt->step);
    drop_event(world, &attempt->timeout);
    rota_list_push(world->free_attempts.next, &attempt->link);
}

/* --- clients --- */

static void exclude_replica(struct rota_balance_call *call, uint64_t replica)
{
    if (call->n_excluded < ROTA_BALANCE_EXCLUDED_MAX)
        call->excluded[call->n_excluded++] = replica;
}

static bool send_try(struct rota_balance_world *world, struct rota_balance_call *call)
{
    struct rota_balance_client *client = &world->clients[call->client];
    struct rota_choice choice = {.replicas = world->ids,
                                 .n_replicas = world->scenario->n_replicas,
                                 .excluded = call->excluded,
                                 .n_excluded = call->n_excluded};
    struct rota_try token;
    struct rota_balance_attempt *attempt = attempt_new(world);
    if (!attempt) {
        world->is_out_of_memory = true;
        return false;
    }
    if (rota_balancer_select(client->balancer, world->now, &choice, &world->choice, &token, NULL)) {
        rota_balance_attempt_release(world, attempt);
        return false;
    }
    attempt->call = call;
    attempt->token = token;
    attempt->server = (uint32_t)token.replica;
    attempt->is_at_server = true;
    attempt->sent_at = world->now;
    call->out[call->n_out++] = attempt;
    world->servers[attempt->server].n_coming++;
    world->servers[attempt->server].n_tries++;
    world->n_tries += call->is_counted;
    world->n_odd += call->is_counted && attempt->server == 0;
    world->n_final_tries += call->is_final;
    world->n_final_odd += call->is_final && attempt->server == 0;
    rota_balance_push(world, &attempt->step, ROTA_BALANCE_TO_SERVER,
                      world->now + ROTA_BALANCE_DELAY);
    rota_balance_push(world, &attempt->timeout, ROTA_BALANCE_AT_TIMEOUT,
                      world->now + world->scenario->timeout);
    return true;
}

static void finish_call(struct rota_balance_world *world, struct rota_balance_call *call,
                        bool is_ok)
{
    if (call->is_counted) {
        rota_histogram_record(&world->latencies, (world->now - call->began_at) / ROTA_USEC);
        world->n_counted++;
        world->n_failed += !is_ok;
    }
    world->n_final += call->is_final;
    world->n_final_ok += call->is_final && is_ok;
    world->n_live--;
    call_free(world, call);
}

/* The try is over for the client. */
static void report_try(struct rota_balance_world *world, struct rota_balance_attempt *attempt,
                       enum rota_outcome outcome, const struct rota_cost *cost)
{
    const struct rota_balance_plants *plants = &world->options->plants;
    struct rota_balance_call *call = attempt->call;
    struct rota_balance_client *client = &world->clients[call->client];
    if (rota_outcome_is_failure(outcome) && plants->hides_failures)
        outcome = ROTA_OUTCOME_CANCELLED;
    if (outcome != ROTA_OUTCOME_CANCELLED || !plants->leaks_cancelled)
        rota_balancer_report(client->balancer, world->now, attempt->token, outcome, cost);
    if (outcome == ROTA_OUTCOME_OK || outcome == ROTA_OUTCOME_CANCELLED)
        rota_hedge_record(client->hedge, world->now, world->now - attempt->sent_at);

    for (uint32_t i = 0; i < call->n_out; i++)
        if (call->out[i] == attempt)
            call->out[i] = call->out[--call->n_out];
    attempt->call = NULL;
    drop_event(world, &attempt->timeout);
}

/* Retry, on another replica if there is one; another sweep needs a token, as in call_fsm. */
static void retry_call(struct rota_balance_world *world, struct rota_balance_call *call)
{
    struct rota_balance_client *client = &world->clients[call->client];
    if (call->n_excluded >= world->scenario->n_replicas) {
        call->n_excluded = 0;
        call->sweeps_again = true;
    }
    bool may = call->n_tries < world->scenario->n_tries &&
               (world->options->retries_freely || !call->sweeps_again ||
                rota_budget_spend(&client->retries, world->now));
    call->n_tries++;
    if (!may || !send_try(world, call))
        finish_call(world, call, false);
}

static void fail_try(struct rota_balance_world *world, struct rota_balance_attempt *attempt,
                     enum rota_outcome outcome)
{
    struct rota_balance_call *call = attempt->call;
    exclude_replica(call, attempt->token.replica);
    world->n_wasted += call->is_counted;
    report_try(world, attempt, outcome, outcome == ROTA_OUTCOME_TIMEOUT ? NULL : &attempt->cost);
    if (call->n_out == 0)
        retry_call(world, call);
}

static void arrive_at_client(struct rota_balance_world *world, struct rota_balance_attempt *attempt)
{
    struct rota_balance_call *call = attempt->call;
    attempt->is_at_server = false;
    if (!call) {
        rota_balance_attempt_release(world, attempt);
        return;
    }
    if (attempt->outcome != ROTA_OUTCOME_OK) {
        fail_try(world, attempt, attempt->outcome);
    } else {
        report_try(world, attempt, ROTA_OUTCOME_OK, &attempt->cost);
        while (call->n_out > 0) {
            struct rota_balance_attempt *other = call->out[0];
            report_try(world, other, ROTA_OUTCOME_CANCELLED, NULL);
            rota_balance_servers_cancel(world, other);
        }
        finish_call(world, call, true);
    }
    rota_balance_attempt_release(world, attempt);
}

static void time_out(struct rota_balance_world *world, struct rota_balance_attempt *attempt)
{
    fail_try(world, attempt, ROTA_OUTCOME_TIMEOUT);
    rota_balance_servers_cancel(world, attempt);
}

static void hedge_call(struct rota_balance_world *world, struct rota_balance_call *call)
{
    struct rota_balance_client *client = &world->clients[call->client];
    if (call->n_out != 1)
        return;
    if (!world->options->plants.hedges_for_free && !rota_hedge_spend(client->hedge, world->now)) {
        /* as call_fsm does it: again after as long */
        rota_balance_push(world, &call->hedge, ROTA_BALANCE_AT_HEDGE,
                          world->now + client->hedge->delay);
        return;
    }
    exclude_replica(call, call->out[0]->token.replica);
    if (send_try(world, call))
        world->n_hedged += call->is_counted;
}

static rota_time burst_from(const struct rota_balance_world *world)
{
    return (rota_time)(world->n_calls / world->rate / 5 * ROTA_SEC);
}

/* Calls arrive at random at a rate that the scenario may raise for a while. */
static rota_time next_gap(struct rota_balance_world *world)
{
    double rate = world->rate;
    if (world->scenario->trouble == ROTA_BALANCE_BURST && world->now >= burst_from(world) &&
        world->now < burst_from(world) + 10 * ROTA_SEC)
        rate *= 5;
    return rota_sim_exponential(&world->load, (rota_time)((double)ROTA_SEC / rate));
}

static void arrive_call(struct rota_balance_world *world)
{
    struct rota_balance_call *call = call_new(world);
    if (!call) {
        world->is_out_of_memory = true;
        return;
    }
    call->client = (uint32_t)rota_random_below(&world->load, world->scenario->n_clients);
    call->began_at = world->now;
    call->is_counted = world->n_arrived >= world->n_calls / 10;
    call->is_final = world->n_arrived >= world->n_calls / 5 * 4;
    call->n_tries = 1;
    world->n_live++;
    if (++world->n_arrived < world->n_calls)
        rota_balance_push(world, &world->arrival, ROTA_BALANCE_AT_ARRIVAL,
                          world->now + next_gap(world));

    struct rota_balance_client *client = &world->clients[call->client];
    rota_budget_earn(&client->retries);
    rota_time hedge_at = rota_hedge_begin(client->hedge, world->now, ROTA_TIME_NEVER);
    if (world->options->hedges && hedge_at != ROTA_TIME_NEVER)
        rota_balance_push(world, &call->hedge, ROTA_BALANCE_AT_HEDGE, hedge_at);
    if (!send_try(world, call))
        finish_call(world, call, false);
}

/* --- a run --- */

static double slowness_of(const struct rota_balance_scenario *scenario, uint32_t replica)
{
    return replica < (scenario->n_slow ? scenario->n_slow : 1) ? scenario->slowness : 1;
}

/* Calls per second that use the wanted part of the replicas' capacity. */
static double rate_of(const struct rota_balance_scenario *scenario)
{
    double one = scenario->n_slots / ((double)scenario->service / ROTA_SEC), all = 0;
    for (uint32_t i = 0; i < scenario->n_replicas; i++) {
        double slowness = slowness_of(scenario, i);
        if (scenario->trouble == ROTA_BALANCE_FLIPS) /* half of the time each */
            slowness = 2 / (1 + 1 / scenario->slowness);
        if ((scenario->trouble != ROTA_BALANCE_FAILS &&
             scenario->trouble != ROTA_BALANCE_RECOVERS) ||
            i > 0)
            all += one / slowness;
    }
    return all * scenario->load;
}

static void handle_event(struct rota_balance_world *world, struct rota_balance_event *event)
{
    switch (event->kind) {
    case ROTA_BALANCE_AT_ARRIVAL:
        arrive_call(world);
        break;
    case ROTA_BALANCE_AT_TROUBLE:
        rota_balance_servers_strike(world);
        break;
    case ROTA_BALANCE_AT_HEDGE:
        hedge_call(world, (struct rota_balance_call *)event);
        break;
    case ROTA_BALANCE_AT_TIMEOUT:
        time_out(world, ROTA_CONTAINER(event, struct rota_balance_attempt, timeout));
        break;
    case ROTA_BALANCE_TO_SERVER:
        rota_balance_servers_arrive_at(world, (struct rota_balance_attempt *)event);
        break;
    case ROTA_BALANCE_AT_SERVED:
        rota_balance_servers_end_service(world, (struct rota_balance_attempt *)event);
        break;
    case ROTA_BALANCE_TO_CLIENT:
        arrive_at_client(world, (struct rota_balance_attempt *)event);
        break;
    }
}

static void run_world(struct rota_balance_world *world)
{
    while ((world->n_arrived < world->n_calls || world->n_live > 0) && !world->is_out_of_memory) {
        struct rota_balance_event *event =
            (struct rota_balance_event *)rota_heap_first(&world->events);
        if (!event)
            return;
        drop_event(world, event);
        world->now = event->heap.at;
        world->n_events++;
        handle_event(world, event);
    }
}

static const struct rota_balancer_rule *const RULES[] = {
    &rota_policy_rota,       &rota_policy_look_aside,       &rota_policy_round_robin,
    &rota_policy_random,     &rota_balance_least_in_flight, &rota_balance_p2c,
    &rota_balance_peak_ewma, &rota_policy_look_aside, /* the original */
    &rota_balance_oracle,
};
enum { N_RULES = sizeof RULES / sizeof *RULES, ORIGINAL = 7 };

size_t rota_balance_n_policies(void)
{
    return N_RULES;
}

const char *rota_balance_policy(size_t index)
{
    assert(index < N_RULES);
    return index == ORIGINAL ? "look_aside_original" : RULES[index]->name;
}

static enum rota_code clients_init(struct rota_balance_world *world, struct rota_error *error)
{
    const struct rota_balance_options *options = world->options;
    size_t policy = 0;
    while (policy < N_RULES && strcmp(options->policy, rota_balance_policy(policy)) != 0)
        policy++;
    if (policy == N_RULES)
        return rota_error_set(error, ROTA_ERR_NOT_FOUND, "balance: no policy is called %s",
                              options->policy);
    const struct rota_balancer_rule *rule = RULES[policy];
    if (options->plants.rule)
        rule = options->plants.rule;

    for (uint32_t i = 0; i < world->scenario->n_clients; i++) {
        struct rota_balance_client *client = &world->clients[i];
        struct rota_balancer_options balancer = {.seed = options->seed + i,
                                                 .is_original = policy == ORIGINAL};
        enum rota_code code =
            rota_balancer_new_with(&balancer, rule, &world->truth, &client->balancer, error);
        if (code)
            return code;
        client->hedge = malloc(sizeof *client->hedge);
        if (!client->hedge)
            return rota_error_no_memory(error, "for a simulated client");
        rota_hedge_init(client->hedge, 0, &(struct rota_hedge_options){0});
        rota_budget_init(&client->retries, 0, &ROTA_BUDGET_RETRIES);
    }
    return ROTA_OK;
}

static void world_init(struct rota_balance_world *world, const struct rota_balance_options *options)
{
    uint64_t seed = options->seed;
    world->options = options;
    world->scenario = options->scenario;
    world->n_calls = options->n_calls ? options->n_calls : N_CALLS;
    world->rate = rate_of(world->scenario);
    world->truth = (struct rota_balance_truth){.expected_us = rota_balance_servers_expected_us,
                                               .world = world};
    rota_random_init(&world->load, rota_random_mix(&seed));
    rota_random_init(&world->service, rota_random_mix(&seed));
    rota_random_init(&world->choice, rota_random_mix(&seed));
    for (uint32_t i = 0; i < world->scenario->n_replicas; i++) {
        world->ids[i] = i;
        world->servers[i] = (struct rota_balance_server){
            .n_slots = world->scenario->n_slots, .slowness = slowness_of(world->scenario, i)};
        rota_list_init(&world->servers[i].waiting);
    }
    rota_list_init(&world->free_attempts);
    rota_balance_push(world, &world->trouble, ROTA_BALANCE_AT_TROUBLE, 0);
    rota_balance_push(world, &world->arrival, ROTA_BALANCE_AT_ARRIVAL, 0);
}

static void world_free(struct rota_balance_world *world)
{
    for (size_t i = 0; i < world->events.size; i++) { /* tries that no call waits for */
        struct rota_balance_event *event = (struct rota_balance_event *)world->events.nodes[i];
        if (event->kind == ROTA_BALANCE_TO_SERVER || event->kind == ROTA_BALANCE_AT_SERVED ||
            event->kind == ROTA_BALANCE_TO_CLIENT)
            free(event);
    }
    for (uint32_t i = 0; i < world->scenario->n_replicas; i++)
        ROTA_LIST_EACH (attempt, &world->servers[i].waiting, struct rota_balance_attempt, link)
            free(attempt);
    for (struct rota_balance_call *call = world->free_calls, *next; call; call = next) {
        next = call->next_free;
        free(call);
    }
    ROTA_LIST_EACH (attempt, &world->free_attempts, struct rota_balance_attempt, link)
        free(attempt);
    for (uint32_t i = 0; i < world->scenario->n_clients; i++) {
        rota_balancer_free(world->clients[i].balancer);
        free(world->clients[i].hedge);
    }
    rota_heap_deinit(&world->events);
    free(world);
}

static double ratio_of(double part, double whole)
{
    return whole > 0 ? part / whole : 0;
}

static struct rota_balance_result summarize_world(const struct rota_balance_world *world)
{
    const struct rota_histogram *latencies = &world->latencies;
    double n = (double)world->n_counted, busiest = 0, sum = 0;
    struct rota_balance_result result = {
        .n_calls = world->n_counted,
        .n_failed = world->n_failed,
        .mean_us = (int64_t)ratio_of(latencies->sum, n),
        .p50_us = (int64_t)rota_histogram_quantile(latencies, 0.5),
        .p99_us = (int64_t)rota_histogram_quantile(latencies, 0.99),
        .p999_us = (int64_t)rota_histogram_quantile(latencies, 0.999),
        .wasted = ratio_of((double)world->n_wasted, n),
        .hedged = ratio_of((double)world->n_hedged, n),
        .n_odd = ratio_of((double)world->n_odd, n),
        .final_part = ratio_of((double)world->n_final_ok, (double)world->n_final),
        .final_odd = ratio_of((double)world->n_final_odd, (double)world->n_final_tries),
        .n_events = world->n_events,
    };
    for (uint32_t i = 0; i < world->scenario->n_replicas; i++) {
        double n_tries = (double)world->servers[i].n_tries;
        busiest = n_tries > busiest ? n_tries : busiest;
        sum += n_tries;
    }
    result.imbalance = ratio_of(busiest * world->scenario->n_replicas, sum);
    for (uint32_t i = 0; i < world->scenario->n_clients; i++) {
        struct rota_balancer_view view;
        const struct rota_balancer *balancer = world->clients[i].balancer;
        result.leaked += rota_balancer_n_tries(balancer);
        for (uint32_t r = 0; r < world->scenario->n_replicas; r++)
            if (rota_balancer_look(balancer, world->now, world->ids[r], &view))
                result.n_ejections += view.n_ejections;
    }
    return result;
}

enum rota_code rota_balance_run(const struct rota_balance_options *options,
                                struct rota_balance_result *result, struct rota_error *error)
{
    if (options->n_calls > ROTA_BALANCE_CALLS_MAX)
        return rota_error_set(error, ROTA_ERR_LIMIT,
                              "balance: %u calls are too many; at most %d are possible",
                              options->n_calls, ROTA_BALANCE_CALLS_MAX);
    assert(options->scenario->n_replicas <= ROTA_BALANCE_REPLICAS_MAX &&
           options->scenario->n_clients <= ROTA_BALANCE_CLIENTS_MAX);
    struct rota_balance_world *world = calloc(1, sizeof *world);
    if (!world)
        return rota_error_no_memory(error, "for a simulated cluster");
    world_init(world, options);
    enum rota_code code = clients_init(world, error);
    if (!code)
        run_world(world);
    if (!code && world->is_out_of_memory)
        code = rota_error_no_memory(error, "for a simulated cluster");
    if (!code)
        *result = summarize_world(world);
    world_free(world);
    return code;
}
