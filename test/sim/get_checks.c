#include "get_checks.h"

#include <stdio.h>
#include <string.h>

const struct sim_plant plants[N_PLANTS - 1] = {
    {"older-teaches", "an answer teaches the map however old its request is"},
    {"mismatch-again", "an answer that did not match is retried like a failure"},
    {"mismatch-taken", "an answer that did not match is taken for one that did"},
    {"calls-twice", "a late answer ends a Get that has ended"},
    {"loses-duplicate", "of a key asked for twice one is answered"},
    {"no-deadline", "a Get does not know its deadline"},
    {"waits-on", "a key without a shard waits beyond the deadline"},
    {"stale-taken", "an answer of an older epoch is believed"},
    {"leaves-loser", "a try that lost is not cancelled"},
    {"forgets-key", "the keys of a host that failed are not asked for elsewhere"},
    {"by-place", "values are taken by their place in the answer"},
    {"gives-up", "a Get ends when all who hold a key have failed, before its deadline"},
    {"joins-not", "a broadcast is not told of replicas that are learned of later"},
    {"left-absent", "a key that an answer has no room for is taken for absent"},
};

rota_time clock_of(const struct world *world)
{
    return rota_sim_mono(world->sim, 0);
}

void violate(struct world *world, const char *what)
{
    if (!world->violation)
        world->violation = what;
}

/* --- hosts and nodes --- */

void list_hosts(struct world *world)
{
    static const char *const dcs[N_DCS] = {"east", "west"};
    static char names[N_NODES][8];
    struct rota_interval_member members[N_SERVERS];
    for (uint32_t i = 0; i < N_SERVERS; i++) {
        uint32_t node = FIRST_SERVER + i;
        int size = snprintf(names[node], sizeof names[node], "%u", node);
        members[i].address = rota_str_of(names[node], (size_t)size);
        members[i].dc = rota_str(dcs[i / N_HOSTS]);
    }
    rota_interval_map_set_hosts(world->map, members, N_SERVERS, NULL);
}

uint64_t id_of(const struct world *world, uint32_t node)
{
    return rota_interval_map_host(world->map, node - FIRST_SERVER)->id;
}

uint32_t node_of(const struct world *world, uint64_t id)
{
    uint32_t node = FIRST_SERVER;
    while (id_of(world, node) != id)
        node++;
    return node;
}

/* --- what must hold --- */

uint64_t *seen_of(struct world *world, uint32_t node, const struct rota_interval *shard)
{
    return &world->seen[(node - FIRST_SERVER) / N_HOSTS][shard->of][shard->from];
}

void note_told(struct world *world, uint32_t node, const struct message *message)
{
    struct told *told = &world->told[node];
    for (size_t i = 0; i < message->n_claims; i++) {
        uint64_t *seen = seen_of(world, node, &message->claims[i].interval);
        *seen = message->claims[i].epoch > *seen ? message->claims[i].epoch : *seen;
    }
    if (message->number <= told->number)
        return;
    told->number = message->number;
    told->n_claims = message->n_claims;
    memcpy(told->claims, message->claims, sizeof told->claims);
}

void check_map(struct world *world, uint32_t node)
{
    const struct told *told = &world->told[node];
    const struct rota_interval_host *host = rota_interval_map_find(world->map, id_of(world, node));
    bool is_same = host->n_claims == told->n_claims;
    for (size_t i = 0; i < told->n_claims && is_same; i++)
        is_same = host->claims[i].epoch == told->claims[i].epoch &&
                  rota_interval_is_equal(&host->claims[i].interval, &told->claims[i].interval);
    if (told->number && !is_same)
        violate(world, "the map does not say what the newest answer of a host said");
}

void note_end(struct get *get, uint64_t number)
{
    for (size_t i = 0; i < get->n_running; i++)
        if (get->running[i].number == number) {
            get->running[i] = get->running[--get->n_running];
            return;
        }
}

/* Whether the answer has the key in a claim; and in one that is not over. */
static bool has_key(struct world *world, uint32_t node, const struct message *message, uint64_t key,
                    bool is_fresh)
{
    for (size_t i = 0; i < message->n_claims; i++) {
        const struct rota_interval_claim *claim = &message->claims[i];
        if (rota_interval_has(&claim->interval, key) &&
            (!is_fresh || claim->epoch >= *seen_of(world, node, &claim->interval)))
            return true;
    }
    return false;
}

void check_taken(struct world *world, struct get *get, uint32_t node, const struct message *message)
{
    for (size_t i = 0; i < get->n_keys; i++) {
        struct rota_get_fsm_result result = rota_get_fsm_result(&get->fsm, i);
        bool is_found = result.state == ROTA_GET_FOUND;
        if (get->is_answered[i] || (!is_found && result.state != ROTA_GET_ABSENT))
            continue;
        get->is_answered[i] = true;
        if (result.number != message->number)
            violate(world, "C1: a key was answered by another answer than this");
        if (!message->all_matched || !has_key(world, node, message, get->keys[i], false))
            violate(world, "R3: a key was answered by a shard that does not hold it");
        else if (!has_key(world, node, message, get->keys[i], true))
            violate(world, "O3: an answer of an epoch that is over was believed");
        if (is_found != cluster_has(get->keys[i]))
            violate(world, "C1: a key that is there is not found, or the other way round");
        else if (is_found &&
                 message->entries[result.entry].key != cluster_value(get->ids[i], get->keys[i]))
            violate(world, "C1: a key has the value of another");
    }
}

/* Whether one dc was well all the time since then: the first windows are made so;
 * later only what begins when it is quiet is well. */
static bool was_well_since(const struct world *world, rota_time since)
{
    rota_time now = rota_sim_now(world->sim);
    return (since >= 300 * ROTA_MSEC && now < CHAOS_AT) || since >= WELL_AT;
}

void check_finish(struct world *world, struct get *get, const struct rota_get_fsm_action *action)
{
    rota_time now = clock_of(world);
    size_t n_missing = 0;
    if (++get->n_finished > 1)
        violate(world, "C1: a Get has ended twice");
    if (get->n_running > 0)
        violate(world, "a try was left running");
    if (now > get->deadline + 10 * ROTA_MSEC)
        violate(world, "a Get did not end in time");
    for (size_t i = 0; i < get->n_keys; i++) {
        struct rota_get_fsm_result result = rota_get_fsm_result(&get->fsm, i);
        if (result.state == ROTA_GET_PENDING)
            violate(world, "C1: a key was neither answered nor named");
        bool is_missing = result.state == ROTA_GET_NO_SHARD || result.state == ROTA_GET_NO_ANSWER;
        if (is_missing && !result.failure)
            violate(world, "C1: a key is missing for no reason");
        n_missing += is_missing;
    }
    if (n_missing != action->n_missing || (n_missing > 0) != (action->failure != 0))
        violate(world, "C1: the count of missing keys is wrong");
    bool is_long = get->deadline - get->started_at >= 600 * ROTA_MSEC &&
                   get->fsm.options.host_timeout <= ROTA_SEC / 3;
    if (n_missing > 0 && world->setting.load == 0 && is_long &&
        action->failure != ROTA_FAILURE_CANCELLED && was_well_since(world, get->true_start))
        violate(world, "a Get has failed although one dc was well");
    if (n_missing > 0 && action->failure != ROTA_FAILURE_CANCELLED && now < get->deadline)
        violate(world, "a Get has given up before its deadline");
    world->n_failed += n_missing > 0;
    world->n_ended++;
    if (get->true_start < world->setting.record_at)
        return;
    world->n_good += n_missing == 0;
    rota_histogram_record(&world->latency, (now - get->started_at) / ROTA_USEC);
}
