#include "core/call/balancer_rule.h"

#include <assert.h>
#include <stdlib.h>

#define NO_SLOT UINT32_MAX

/* How often to look for replicas that have been idle for too long. */
#define SWEEP_EVERY ROTA_MIN

/* --- names --- */

const char *rota_outcome_name(enum rota_outcome outcome)
{
    switch (outcome) {
    case ROTA_OUTCOME_OK:
        return "ok";
    case ROTA_OUTCOME_INPUT:
        return "input";
    case ROTA_OUTCOME_OVERLOAD:
        return "overload";
    case ROTA_OUTCOME_UNAVAILABLE:
        return "unavailable";
    case ROTA_OUTCOME_TIMEOUT:
        return "timeout";
    case ROTA_OUTCOME_CANCELLED:
        return "cancelled";
    case ROTA_OUTCOME_OTHER:
        return "other";
    }
    return "unknown";
}

bool rota_outcome_is_failure(enum rota_outcome outcome)
{
    return outcome == ROTA_OUTCOME_UNAVAILABLE || outcome == ROTA_OUTCOME_TIMEOUT ||
           outcome == ROTA_OUTCOME_OTHER;
}

const char *rota_circuit_name(enum rota_circuit circuit)
{
    switch (circuit) {
    case ROTA_CIRCUIT_CLOSED:
        return "closed";
    case ROTA_CIRCUIT_OPEN:
        return "open";
    case ROTA_CIRCUIT_HALF_OPEN:
        return "half-open";
    }
    return "unknown";
}

static const struct rota_balancer_rule *rule_of(enum rota_balancer_policy policy)
{
    switch (policy) {
    case ROTA_BALANCER_ROTA:
        return &rota_policy_rota;
    case ROTA_BALANCER_LOOK_ASIDE:
        return &rota_policy_look_aside;
    case ROTA_BALANCER_ROUND_ROBIN:
        return &rota_policy_round_robin;
    case ROTA_BALANCER_RANDOM:
        return &rota_policy_random;
    }
    return NULL;
}

const char *rota_balancer_policy_name(enum rota_balancer_policy policy)
{
    const struct rota_balancer_rule *rule = rule_of(policy);
    return rule ? rule->name : "unknown";
}

enum rota_code rota_balancer_policy_parse(struct rota_str name, enum rota_balancer_policy *policy,
                                          struct rota_error *error)
{
    for (int i = ROTA_BALANCER_ROTA; i <= ROTA_BALANCER_RANDOM; i++) {
        if (rota_str_is_equal(name, rota_str(rota_balancer_policy_name(i)))) {
            *policy = (enum rota_balancer_policy)i;
            return ROTA_OK;
        }
    }
    return rota_error_set(error, ROTA_ERR_INVALID,
                          "balancer: the policy must be rota, look_aside, round_robin or random");
}

/* --- life --- */

static struct rota_balancer_options with_defaults(struct rota_balancer_options options)
{
    if (options.expires == 0)
        options.expires = ROTA_SEC;
    if (options.check_every == 0)
        options.check_every = 10;
    if (options.tolerance_ppm == 0)
        options.tolerance_ppm = 100000;
    return options;
}

enum rota_code rota_balancer_new_with(const struct rota_balancer_options *options,
                                      const struct rota_balancer_rule *rule, void *data,
                                      struct rota_balancer **balancer, struct rota_error *error)
{
    struct rota_balancer *b = calloc(1, sizeof *b);
    if (!b)
        return rota_error_no_memory(error, "for a balancer");
    b->rule = rule;
    b->rule_data = data;
    b->options = with_defaults(*options);
    b->first_free = NO_SLOT;
    b->now = ROTA_TIME_MIN;
    b->sweep_at = ROTA_TIME_NEVER;
    rota_map_init(&b->replicas, options->seed);
    rota_random_init(&b->random, options->seed);
    *balancer = b;
    return ROTA_OK;
}

enum rota_code rota_balancer_new(const struct rota_balancer_options *options,
                                 struct rota_balancer **balancer, struct rota_error *error)
{
    const struct rota_balancer_rule *rule = rule_of(options->policy);
    if (!rule)
        return rota_error_set(error, ROTA_ERR_INVALID, "balancer: unknown policy %d",
                              (int)options->policy);
    if (options->expires < 0 || options->expires > ROTA_DAY)
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "balancer: reports must expire within a day");
    return rota_balancer_new_with(options, rule, NULL, balancer, error);
}

void rota_balancer_free(struct rota_balancer *balancer)
{
    if (!balancer)
        return;
    rota_map_deinit_values(&balancer->replicas);
    rota_vector_deinit(&balancer->slots);
    rota_vector_deinit(&balancer->field);
    free(balancer);
}

static void tell_time(struct rota_balancer *balancer, rota_time now)
{
    if (now > balancer->now)
        balancer->now = now;
}

/* --- replicas --- */

static struct rota_str key_of(const uint64_t *id)
{
    return rota_str_of(id, sizeof *id);
}

static struct rota_balancer_replica *find_replica(const struct rota_balancer *balancer, uint64_t id)
{
    return rota_map_get(&balancer->replicas, key_of(&id));
}

/* Its tries stay where they are, without a replica: they can still be reported. */
static void forget_replica(struct rota_balancer *balancer, struct rota_balancer_replica *replica)
{
    for (uint32_t i = replica->oldest; i != NO_SLOT; i = balancer->slots.items[i].newer)
        balancer->slots.items[i].replica = NULL;
    rota_map_remove(&balancer->replicas, key_of(&replica->id));
    free(replica);
}

/* The one that was idle longest, or NULL when none is. */
static struct rota_balancer_replica *find_idlest(const struct rota_balancer *balancer)
{
    struct rota_balancer_replica *best = NULL;
    const struct rota_map_entry *entry;
    size_t place = 0;
    while ((entry = rota_map_next(&balancer->replicas, &place))) {
        struct rota_balancer_replica *replica = entry->value;
        if (replica->n_tries == 0 && replica->seen_at < balancer->now &&
            (!best || replica->seen_at < best->seen_at))
            best = replica;
    }
    return best;
}

static enum rota_code replica_new(struct rota_balancer *balancer, uint64_t id,
                                  struct rota_balancer_replica **replica, struct rota_error *error)
{
    if (balancer->replicas.size >= ROTA_BALANCER_REPLICAS_MAX) {
        struct rota_balancer_replica *old = find_idlest(balancer);
        if (!old)
            return rota_error_set(error, ROTA_ERR_LIMIT,
                                  "balancer: %d replicas are already in use, the maximum",
                                  ROTA_BALANCER_REPLICAS_MAX);
        forget_replica(balancer, old);
    }
    struct rota_balancer_replica *r = calloc(1, sizeof *r);
    if (r) {
        r->id = id;
        r->oldest = r->newest = NO_SLOT;
        r->reported_at = ROTA_TIME_MIN;
        r->seen_at = balancer->now;
    }
    if (!r || !rota_map_put(&balancer->replicas, key_of(&r->id), r)) {
        free(r);
        return rota_error_no_memory(error, "for a replica's state");
    }
    if (balancer->sweep_at == ROTA_TIME_NEVER)
        balancer->sweep_at = rota_time_add(balancer->now, ROTA_BALANCER_IDLE);
    *replica = r;
    return ROTA_OK;
}

static enum rota_code find_or_new(struct rota_balancer *balancer, uint64_t id,
                                  struct rota_balancer_replica **replica, struct rota_error *error)
{
    *replica = find_replica(balancer, id);
    enum rota_code code = *replica ? ROTA_OK : replica_new(balancer, id, replica, error);
    if (!code)
        (*replica)->seen_at = balancer->now;
    return code;
}

/* --- choosing --- */

static bool is_excluded(const struct rota_choice *choice, uint64_t id)
{
    for (size_t i = 0; i < choice->n_excluded; i++)
        if (choice->excluded[i] == id)
            return true;
    return false;
}

static enum rota_code check_choice(const struct rota_balancer *balancer,
                                   const struct rota_choice *choice, struct rota_error *error)
{
    if (choice->n_replicas > ROTA_BALANCER_CANDIDATES_MAX ||
        choice->n_excluded > ROTA_BALANCER_CANDIDATES_MAX)
        return rota_error_set(error, ROTA_ERR_LIMIT,
                              "balancer: %zu candidates and %zu excluded replicas are too many; "
                              "at most %d of each are allowed",
                              choice->n_replicas, choice->n_excluded, ROTA_BALANCER_CANDIDATES_MAX);
    if (choice->work < 0 || choice->work > ROTA_BALANCER_WORK_MAX)
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "balancer: work of %lld is not within 0 to %d",
                              (long long)choice->work, ROTA_BALANCER_WORK_MAX);
    if (balancer->n_tries == ROTA_TRIES_MAX)
        return rota_error_set(error, ROTA_ERR_LIMIT,
                              "balancer: %d tries are already in flight, the maximum",
                              ROTA_TRIES_MAX);
    return ROTA_OK;
}

/* Put the candidates that are not excluded into the field, with state. */
static enum rota_code gather_candidates(struct rota_balancer *balancer,
                                        const struct rota_choice *choice, struct rota_error *error)
{
    balancer->field.size = 0;
    if (!rota_vector_reserve(&balancer->field, choice->n_replicas) ||
        (balancer->first_free == NO_SLOT &&
         !rota_vector_reserve(&balancer->slots, balancer->slots.size + 1)))
        return rota_error_no_memory(error, "to choose among %zu replicas", choice->n_replicas);
    for (size_t i = 0; i < choice->n_replicas; i++) {
        struct rota_balancer_replica *replica;
        if (is_excluded(choice, choice->replicas[i]))
            continue;
        enum rota_code code = find_or_new(balancer, choice->replicas[i], &replica, error);
        if (code)
            return code;
        balancer->field.items[balancer->field.size++] = replica;
    }
    if (balancer->field.size == 0)
        return rota_error_set(error, ROTA_ERR_UNAVAILABLE,
                              "balancer: none of %zu replicas is left to choose from",
                              choice->n_replicas);
    return ROTA_OK;
}

/* Count a try on `replica`, in a slot; there is room for one. */
static uint32_t begin_try(struct rota_balancer *balancer, struct rota_balancer_replica *replica,
                          int64_t work)
{
    struct rota_balancer_slot *slots = balancer->slots.items;
    uint32_t index = balancer->first_free;
    if (index == NO_SLOT)
        index = (uint32_t)balancer->slots.size++;
    else
        balancer->first_free = slots[index].newer;

    slots[index] = (struct rota_balancer_slot){.replica = replica,
                                               .serial = ++balancer->serial,
                                               .began_at = balancer->now,
                                               .work = work,
                                               .older = replica->newest,
                                               .newer = NO_SLOT};
    if (replica->newest == NO_SLOT)
        replica->oldest = index;
    else
        slots[replica->newest].newer = index;
    replica->newest = index;
    replica->n_tries++;
    replica->work += work;
    balancer->n_tries++;
    return index;
}

enum rota_code rota_balancer_select(struct rota_balancer *balancer, rota_time now,
                                    const struct rota_choice *choice, struct rota_random *random,
                                    struct rota_try *chosen, struct rota_error *error)
{
    enum rota_code code = check_choice(balancer, choice, error);
    if (code)
        return code;
    tell_time(balancer, now);
    if ((code = gather_candidates(balancer, choice, error)))
        return code;

    struct rota_balancer_field field = {.replicas = balancer->field.items,
                                        .n = balancer->field.size,
                                        .serial = balancer->serial + 1,
                                        .has_excluded = choice->n_excluded > 0,
                                        .random = random};
    size_t index = balancer->rule->choose(balancer, balancer->now, &field);
    if (index == ROTA_BALANCER_NONE)
        return rota_error_set(error, ROTA_ERR_UNAVAILABLE,
                              "balancer: all %zu replicas are unavailable", field.n);
    assert(index < field.n);
    struct rota_balancer_replica *replica = field.replicas[index];
    uint32_t slot = begin_try(balancer, replica, choice->work ? choice->work : 1);
    *chosen = (struct rota_try){.replica = replica->id, .serial = balancer->serial, .slot = slot};
    return ROTA_OK;
}

/* --- reports --- */

/* Take the try out of its replica's list and counts. */
static void leave_replica(struct rota_balancer *balancer, const struct rota_balancer_slot *slot)
{
    struct rota_balancer_replica *replica = slot->replica;
    struct rota_balancer_slot *slots = balancer->slots.items;
    *(slot->older == NO_SLOT ? &replica->oldest : &slots[slot->older].newer) = slot->newer;
    *(slot->newer == NO_SLOT ? &replica->newest : &slots[slot->newer].older) = slot->older;
    replica->n_tries--;
    replica->work -= slot->work;
}

static void count_latency(struct rota_balancer_replica *replica, rota_time latency)
{
    uint64_t us = (uint64_t)(latency / ROTA_USEC);
    size_t bucket = us < 2 ? 0 : (size_t)(63 - __builtin_clzll(us));
    if (bucket >= ROTA_BALANCER_LATENCIES)
        bucket = ROTA_BALANCER_LATENCIES - 1;
    replica->latencies[bucket]++;
    if (replica->latency_us == 0)
        replica->latency_us = (double)us;
    else
        replica->latency_us += ((double)us - replica->latency_us) / 8;
}

/* The cost that a peer reported, clamped to sensible values. */
static struct rota_cost clamp_cost(const struct rota_cost *cost)
{
    const int64_t most_us = ROTA_HOUR / ROTA_USEC;
    struct rota_cost told = *cost;
    if (told.service_us < 0)
        told.service_us = 0;
    if (told.service_us > most_us)
        told.service_us = most_us;
    if (told.response_us > most_us)
        told.response_us = most_us;
    if (told.response_us < told.service_us)
        told.response_us = told.service_us;
    if (told.waiting < 0)
        told.waiting = 0;
    return told;
}

static void learn_from_end(struct rota_balancer *balancer, struct rota_balancer_replica *replica,
                           struct rota_balancer_end end)
{
    rota_time now = balancer->now;
    replica->seen_at = now;
    replica->outcomes[end.outcome]++;
    if (end.outcome == ROTA_OUTCOME_OK) {
        replica->is_unavailable = false;
        count_latency(replica, end.latency);
        if (end.cost)
            replica->reported_at = now;
    }
    if (balancer->rule->on_end)
        balancer->rule->on_end(balancer, now, replica, &end);
}

/* The slot of a try that has not been reported, or NULL. */
static struct rota_balancer_slot *find_slot(struct rota_balancer *balancer, struct rota_try try)
{
    if (try.serial == 0 || try.slot >= balancer->slots.size)
        return NULL;
    struct rota_balancer_slot *slot = &balancer->slots.items[try.slot];
    return slot->serial == try.serial ? slot : NULL;
}

void rota_balancer_sent(struct rota_balancer *balancer, rota_time now, struct rota_try sent)
{
    struct rota_balancer_slot *slot = find_slot(balancer, sent);
    tell_time(balancer, now);
    if (slot)
        slot->began_at = balancer->now;
}

bool rota_balancer_report(struct rota_balancer *balancer, rota_time now, struct rota_try ended,
                          enum rota_outcome outcome, const struct rota_cost *cost)
{
    struct rota_balancer_slot *place = find_slot(balancer, ended);
    if (!place || (unsigned)outcome >= ROTA_OUTCOMES)
        return false;
    struct rota_balancer_slot slot = *place;

    tell_time(balancer, now);
    balancer->n_tries--;
    if (slot.replica)
        leave_replica(balancer, &slot);
    *place = (struct rota_balancer_slot){.newer = balancer->first_free};
    balancer->first_free = ended.slot;

    struct rota_cost told;
    if (cost)
        told = clamp_cost(cost);
    if (slot.replica)
        learn_from_end(balancer, slot.replica,
                       (struct rota_balancer_end){.outcome = outcome,
                                                  .cost = cost ? &told : NULL,
                                                  .latency = balancer->now - slot.began_at,
                                                  .serial = slot.serial});
    return true;
}

/* --- health --- */

enum rota_code rota_balancer_mark(struct rota_balancer *balancer, rota_time now, uint64_t replica,
                                  bool is_available, struct rota_error *error)
{
    struct rota_balancer_replica *r;
    tell_time(balancer, now);
    if (is_available && !find_replica(balancer, replica))
        return ROTA_OK;
    enum rota_code code = find_or_new(balancer, replica, &r, error);
    if (!code)
        r->is_unavailable = !is_available;
    return code;
}

void rota_balancer_forget(struct rota_balancer *balancer, uint64_t replica)
{
    struct rota_balancer_replica *r = find_replica(balancer, replica);
    if (r)
        forget_replica(balancer, r);
}

/* Forgetting changes the map, so one is found at a time. */
void rota_balancer_step(struct rota_balancer *balancer, rota_time now)
{
    tell_time(balancer, now);
    if (balancer->now < balancer->sweep_at)
        return;
    struct rota_balancer_replica *old;
    while ((old = find_idlest(balancer)) && old->seen_at <= balancer->now - ROTA_BALANCER_IDLE)
        forget_replica(balancer, old);
    balancer->sweep_at =
        balancer->replicas.size ? rota_time_add(balancer->now, SWEEP_EVERY) : ROTA_TIME_NEVER;
}

rota_time rota_balancer_deadline(const struct rota_balancer *balancer)
{
    return balancer->sweep_at;
}

/* --- for rules --- */

rota_time rota_balancer_oldest(const struct rota_balancer *balancer,
                               const struct rota_balancer_replica *replica)
{
    return replica->oldest == NO_SLOT ? ROTA_TIME_NEVER
                                      : balancer->slots.items[replica->oldest].began_at;
}

/* Halvings, and a straight line within one: the same on every machine. */
double rota_balancer_fade(double value, rota_time age, rota_time half_life)
{
    if (value == 0 || age <= 0)
        return value;
    if (age >= 60 * half_life)
        return 0;
    rota_time halvings = age < half_life ? 0 : age / half_life;
    double rest = (double)(age - halvings * half_life) / (double)half_life;
    return value / (double)((uint64_t)1 << halvings) * (1 - rest / 2);
}

/* --- looking inside --- */

bool rota_balancer_look(const struct rota_balancer *balancer, rota_time now, uint64_t replica,
                        struct rota_balancer_view *view)
{
    const struct rota_balancer_replica *r = find_replica(balancer, replica);
    if (!r)
        return false;
    double score = balancer->rule->score ? balancer->rule->score(balancer, now, r) : 0;
    struct rota_balancer_view v = {
        .replica = r->id,
        .n_tries = r->n_tries,
        .work = r->work,
        .score = score < 0x1p63 ? (int64_t)score : INT64_MAX,
        .latency_us = (int64_t)r->latency_us,
        .is_available = !r->is_unavailable,
        .n_ejections = r->n_ejections,
        .reported_at = r->reported_at,
        .oldest_at = rota_balancer_oldest(balancer, r),
    };
    memcpy(v.outcomes, r->outcomes, sizeof v.outcomes);
    memcpy(v.latencies, r->latencies, sizeof v.latencies);
    if (balancer->rule == &rota_policy_rota) {
        v.service_us = (int64_t)r->rota.service_us;
        v.circuit = r->rota.circuit;
        v.open_until = r->rota.open_until;
        if (v.circuit == ROTA_CIRCUIT_OPEN && now >= v.open_until)
            v.circuit = ROTA_CIRCUIT_HALF_OPEN; /* the next choice will notice */
    }
    *view = v;
    return true;
}

size_t rota_balancer_replicas(const struct rota_balancer *balancer, uint64_t *replicas, size_t size)
{
    const struct rota_map_entry *entry;
    size_t place = 0, n = 0;
    while ((entry = rota_map_next(&balancer->replicas, &place))) {
        const struct rota_balancer_replica *replica = entry->value;
        if (n < size)
            replicas[n] = replica->id;
        n++;
    }
    return n;
}

size_t rota_balancer_n_tries(const struct rota_balancer *balancer)
{
    return balancer->n_tries;
}

uint64_t rota_balancer_n_panics(const struct rota_balancer *balancer)
{
    return balancer->n_panics;
}
