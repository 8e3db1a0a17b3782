/* rota's own policy; include/rota/balancer.h explains the score. */
#include "core/call/balancer_rule.h"

/* How far apart two averages are before the difference is believed. */
static const double DEAD_BAND = 1.6;

/* A new sample counts one part in so many, and as at most so many averages: one
 * try that met a pause says little about the next. */
static const double SAMPLE_PART = 10, SAMPLE_MOST = 6;

/* Before the first sample of anybody: any number will do, all have it. */
static const double SERVICE_UNKNOWN_US = 1000;

/* What is not heard of any more fades: the queue others made, what failures and
 * slow tries are held against a replica. */
#define WAITING_HALF_LIFE (200 * ROTA_MSEC)
#define SILENCE_HALF_LIFE (1 * ROTA_SEC)
#define PENALTY_HALF_LIFE (2 * ROTA_SEC)

/* An average of which nothing new was heard for this long goes halfway to the
 * others', so that a replica that was slow once is tried again. */
#define SERVICE_HALF_LIFE (5 * ROTA_SEC)

/* Of an unknown replica: so many answers make it known, and until then each try
 * in flight counts as so many. */
enum { SLOW_START_ANSWERS = 8, SLOW_START_WORK = 4 };

/* A try is unusually old at so many times the average. */
static const double SILENCE_FROM = 3;

/* One failure weighs as much as waiting for so many tries. */
static const double FAILURE_PENALTY = 20, OVERLOAD_PENALTY = 4;

enum { EJECT_FAILURES = 3, EJECT_DOUBLINGS_MAX = 5 };
#define EJECT_FOR ROTA_SEC

/* --- the score --- */

/* What all candidates share: the average of those known, and the best. */
struct ground {
    double mean_us, best_us;
};

static double service_of(const struct rota_policy_rota *own, rota_time now, double mean_us)
{
    if (own->service_us == 0)
        return mean_us;
    return mean_us +
           rota_balancer_fade(own->service_us - mean_us, now - own->service_at, SERVICE_HALF_LIFE);
}

static struct ground survey(rota_time now, const struct rota_balancer_field *field)
{
    struct ground ground = {.mean_us = SERVICE_UNKNOWN_US};
    double sum = 0, n = 0;
    for (size_t i = 0; i < field->n; i++) {
        double service_us = field->replicas[i]->rota.service_us;
        sum += service_us;
        n += service_us > 0;
    }
    if (n > 0)
        ground.mean_us = sum / n;
    for (size_t i = 0; i < field->n; i++) {
        double service_us = service_of(&field->replicas[i]->rota, now, ground.mean_us);
        if (i == 0 || service_us < ground.best_us)
            ground.best_us = service_us;
    }
    return ground;
}

static double silence_of(const struct rota_balancer *balancer, rota_time now,
                         const struct rota_balancer_replica *replica, double service_us)
{
    const struct rota_policy_rota *own = &replica->rota;
    double past = rota_balancer_fade(own->silence_us, now - own->silence_at, SILENCE_HALF_LIFE);
    rota_time oldest = rota_balancer_oldest(balancer, replica);
    double present = oldest == ROTA_TIME_NEVER ? 0 : (double)(now - oldest) / ROTA_USEC;
    present -= SILENCE_FROM * service_us;
    return past > present ? past : present > 0 ? present : 0;
}

static double score_on(const struct rota_balancer *balancer, rota_time now,
                       const struct rota_balancer_replica *replica, const struct ground *ground)
{
    const struct rota_policy_rota *own = &replica->rota;
    double service_us = service_of(own, now, ground->mean_us);
    if (service_us < DEAD_BAND * ground->best_us)
        service_us = ground->best_us;

    double work = (double)replica->work;
    if (own->n_answers < SLOW_START_ANSWERS)
        work *= SLOW_START_WORK;
    double others = rota_balancer_fade(own->waiting, now - own->waiting_at, WAITING_HALF_LIFE);
    double penalty = rota_balancer_fade(own->penalty, now - own->penalty_at, PENALTY_HALF_LIFE);
    return service_us * (1 + work + others + penalty) +
           silence_of(balancer, now, replica, service_us);
}

static double score(const struct rota_balancer *balancer, rota_time now,
                    const struct rota_balancer_replica *replica)
{
    double service_us = replica->rota.service_us;
    struct ground ground = {.mean_us = service_us > 0 ? service_us : SERVICE_UNKNOWN_US};
    return score_on(balancer, now, replica, &ground);
}

/* --- the circuit --- */

static void open_circuit(struct rota_balancer *balancer, rota_time now,
                         struct rota_balancer_replica *replica)
{
    struct rota_policy_rota *own = &replica->rota;
    uint32_t doublings = own->n_opened < EJECT_DOUBLINGS_MAX ? own->n_opened : EJECT_DOUBLINGS_MAX;
    rota_time delay = EJECT_FOR << doublings;
    own->circuit = ROTA_CIRCUIT_OPEN;
    own->open_until = now + rota_random_range(&balancer->random, delay / 2, delay + delay / 2);
    own->probe = 0;
    own->n_opened++;
    replica->n_ejections++;
}

static void close_circuit(struct rota_policy_rota *own)
{
    own->circuit = ROTA_CIRCUIT_CLOSED;
    own->probe = 0;
    own->n_opened = 0;
    own->n_answers = 0; /* it comes back as one to be tried out */
    own->penalty = 0;
    own->silence_us = 0;
}

/* Whether the replica takes no part in an ordinary choice. */
static bool is_out(const struct rota_balancer_replica *replica)
{
    return replica->rota.circuit != ROTA_CIRCUIT_CLOSED || replica->is_unavailable;
}

static bool wants_probe(const struct rota_balancer_replica *replica)
{
    return replica->rota.circuit == ROTA_CIRCUIT_HALF_OPEN && replica->rota.probe == 0;
}

/* Half open those whose time is over; count those that are out. */
static size_t update_circuits(rota_time now, const struct rota_balancer_field *field,
                              size_t *probed)
{
    size_t n_out = 0;
    for (size_t i = 0; i < field->n; i++) {
        struct rota_balancer_replica *replica = field->replicas[i];
        if (replica->rota.circuit == ROTA_CIRCUIT_OPEN && now >= replica->rota.open_until)
            replica->rota.circuit = ROTA_CIRCUIT_HALF_OPEN;
        n_out += is_out(replica);
        if (wants_probe(replica))
            *probed = i;
    }
    return n_out;
}

/* --- the rule --- */

static size_t choose(struct rota_balancer *balancer, rota_time now,
                     const struct rota_balancer_field *field)
{
    size_t best = ROTA_BALANCER_NONE, probed = ROTA_BALANCER_NONE;
    size_t n_out = update_circuits(now, field, &probed);
    bool is_panic = n_out > field->n / 2;
    balancer->n_panics += is_panic;
    if (probed != ROTA_BALANCER_NONE && !field->has_excluded) {
        field->replicas[probed]->rota.probe = field->serial;
        return probed;
    }

    struct ground ground = survey(now, field);
    double best_score = 0;
    size_t start = rota_random_below(field->random, field->n);
    for (size_t i = 0; i < field->n; i++) {
        size_t index = start + i < field->n ? start + i : start + i - field->n;
        const struct rota_balancer_replica *replica = field->replicas[index];
        if (is_out(replica) && !is_panic)
            continue;
        double its_score = score_on(balancer, now, replica, &ground);
        if (best == ROTA_BALANCER_NONE || its_score < best_score) {
            best = index;
            best_score = its_score;
        }
    }
    return best;
}

/* --- learning --- */

/* The time the try would have taken without a queue. */
static void learn_service(struct rota_policy_rota *own, rota_time now,
                          const struct rota_balancer_end *end)
{
    double sample = (double)end->latency / ROTA_USEC;
    if (end->cost)
        sample -= (double)(end->cost->response_us - end->cost->service_us);
    if (sample < 1)
        sample = 1;
    if (own->service_us == 0) {
        own->service_us = sample;
    } else {
        if (sample > SAMPLE_MOST * own->service_us)
            sample = SAMPLE_MOST * own->service_us;
        own->service_us += (sample - own->service_us) / SAMPLE_PART;
    }
    own->service_at = now;
}

static void add_penalty(struct rota_policy_rota *own, rota_time now, double tries)
{
    own->penalty =
        rota_balancer_fade(own->penalty, now - own->penalty_at, PENALTY_HALF_LIFE) + tries;
    own->penalty_at = now;
}

/* Remember how long a try was waited for in vain. */
static void add_silence(struct rota_policy_rota *own, rota_time now, rota_time age)
{
    double had = rota_balancer_fade(own->silence_us, now - own->silence_at, SILENCE_HALF_LIFE);
    double us = (double)age / ROTA_USEC - SILENCE_FROM * own->service_us;
    own->silence_us = us > had ? us : had;
    own->silence_at = now;
}

static void on_answer(struct rota_policy_rota *own, rota_time now,
                      const struct rota_balancer_end *end)
{
    own->silence_us = 0;
    own->n_failures = 0;
    if (own->n_answers < SLOW_START_ANSWERS)
        own->n_answers++;
    if (end->cost) {
        own->waiting = (double)end->cost->waiting;
        own->waiting_at = now;
    }
}

static void on_failure(struct rota_balancer *balancer, rota_time now,
                       struct rota_balancer_replica *replica)
{
    struct rota_policy_rota *own = &replica->rota;
    add_penalty(own, now, FAILURE_PENALTY);
    own->n_failures++;
    if (own->circuit == ROTA_CIRCUIT_CLOSED && own->n_failures >= EJECT_FAILURES)
        open_circuit(balancer, now, replica);
}

/* The end of the one try that a half-open circuit lets through. */
static void on_probe(struct rota_balancer *balancer, rota_time now,
                     struct rota_balancer_replica *replica, enum rota_outcome outcome)
{
    replica->rota.probe = 0;
    if (rota_outcome_is_failure(outcome))
        open_circuit(balancer, now, replica);
    else if (outcome != ROTA_OUTCOME_CANCELLED)
        close_circuit(&replica->rota);
}

static void on_end(struct rota_balancer *balancer, rota_time now,
                   struct rota_balancer_replica *replica, const struct rota_balancer_end *end)
{
    struct rota_policy_rota *own = &replica->rota;
    if (own->probe == end->serial)
        on_probe(balancer, now, replica, end->outcome);

    switch (end->outcome) {
    case ROTA_OUTCOME_OK:
        on_answer(own, now, end);
        learn_service(own, now, end);
        break;
    case ROTA_OUTCOME_INPUT: /* refused before any work: its time says nothing */
        on_answer(own, now, end);
        break;
    case ROTA_OUTCOME_OVERLOAD:
        on_answer(own, now, end);
        add_penalty(own, now, OVERLOAD_PENALTY);
        break;
    case ROTA_OUTCOME_CANCELLED:
        add_silence(own, now, end->latency);
        break;
    case ROTA_OUTCOME_TIMEOUT:
        add_silence(own, now, end->latency);
        on_failure(balancer, now, replica);
        break;
    case ROTA_OUTCOME_UNAVAILABLE:
    case ROTA_OUTCOME_OTHER:
        on_failure(balancer, now, replica);
        break;
    }
}

const struct rota_balancer_rule rota_policy_rota = {
    .name = "rota",
    .choose = choose,
    .on_end = on_end,
    .score = score,
};
