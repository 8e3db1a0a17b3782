/* rota's own policy; include/rota/experimental/balancer.h explains the score. */
#include "core/call/balancer_rule.h"

/* Two averages count as different only if they are this far apart, by ratio and in microseconds. A
 * replica that is called often answers a little faster than one that sleeps between its calls, so
 * without the second bound a small difference would take all calls from a replica, and grow. */
static const double DEAD_BAND = 1.6, NOISE_US = 1000;

/* A new sample has this weight in the average, and counts at most as this many averages: one try
 * that met a pause says little about the next. */
enum { SAMPLE_PART = 20 };
static const double SAMPLE_MOST = 3;

/* The first answers of a process are slow, and a few samples can all be unlucky. So a service
 * time is unknown before the third sample, it begins with the lowest of these, and up to the tenth
 * the band is wider. Otherwise one bad sample costs a replica all further tries, and thus the
 * chance to show a better one. Tries that were in flight together meet the same pause: while a
 * replica is being learned, they are one sample. */
enum { KNOWN_SAMPLES = 3, SURE_SAMPLES = 10 };

/* Scores this close to the best one count as equal; then replicas take turns, which spreads
 * tries more evenly than a random choice. */
static const double EVEN = 1.3;

/* Before the first sample of any replica: any number will do, all have it. */
static const double SERVICE_UNKNOWN_US = 1000;

/* Below this mean queue its drain rate is unknown; and it is never assumed faster than this part
 * of a service time. A sample counts one part in 100. */
static const double WAITING_KNOWN = 0.1, DRAIN_LEAST = 1.0 / 32, WAITING_PART = 100;

/* Old knowledge decays: the queue that others made, and the penalty of failures and slow tries. */
#define WAITING_HALF_LIFE (100 * ROTA_MSEC)
#define SILENCE_HALF_LIFE (1 * ROTA_SEC)
#define PENALTY_HALF_LIFE (2 * ROTA_SEC)

/* A replica that looks bad gets no tries, and so can't look better. One choice in this many goes to
 * a replica without a recent report, whose answer counts more than an average that old. A report is
 * old after this many service times: replicas that answer fast are tried again soon. */
enum { EXPLORE_EVERY = 100, STALE_PART = 5, STALE_SERVICES = 300 };
#define STALE_MOST (500 * ROTA_MSEC)

/* Of an unknown replica: this many answers make it known, and until then each try in flight
 * counts as this many. */
enum { SLOW_START_ANSWERS = 8, SLOW_START_WORK = 4 };

/* A try is unusually old at this many times the average. */
static const double SILENCE_FROM = 3;

/* One failure weighs as much as waiting for this many tries. */
static const double FAILURE_PENALTY = 20, OVERLOAD_PENALTY = 4;

enum { EJECT_FAILURES = 3, EJECT_DOUBLINGS_MAX = 5 };
#define EJECT_FOR ROTA_SEC

/* --- the score --- */

/* What all candidates share: the average of the known ones, the best, and its band. */
struct ground {
    double mean_us, best_us, band;
};

static bool is_measured(const struct rota_policy_rota *own)
{
    return own->n_samples >= KNOWN_SAMPLES;
}

static double service_of(const struct rota_policy_rota *own, double mean_us)
{
    return is_measured(own) ? own->service_us : mean_us;
}

static bool is_stale(const struct rota_policy_rota *own, rota_time now)
{
    double after = STALE_SERVICES * own->service_us * ROTA_USEC;
    return own->n_samples == 0 ||
           now - own->service_at > (after < STALE_MOST ? (rota_time)after : STALE_MOST);
}

static double band_of(const struct rota_policy_rota *own)
{
    bool is_sure = own->n_samples >= SURE_SAMPLES;
    return is_sure || !is_measured(own) ? DEAD_BAND : DEAD_BAND * SURE_SAMPLES / own->n_samples;
}

static struct ground survey_field(const struct rota_balancer_field *field)
{
    struct ground ground = {.mean_us = SERVICE_UNKNOWN_US, .band = DEAD_BAND};
    double sum = 0, n = 0;
    for (size_t i = 0; i < field->n; i++) {
        const struct rota_policy_rota *own = &field->replicas[i]->rota;
        sum += is_measured(own) ? own->service_us : 0;
        n += is_measured(own);
    }
    if (n > 0)
        ground.mean_us = sum / n;
    for (size_t i = 0; i < field->n; i++) {
        const struct rota_policy_rota *own = &field->replicas[i]->rota;
        double service_us = service_of(own, ground.mean_us);
        if (i > 0 && service_us >= ground.best_us)
            continue;
        ground.best_us = service_us;
        ground.band = band_of(own);
    }
    return ground;
}

/* A replica that answers other tries is not silent, however old one of them is. */
static double silence_of(const struct rota_balancer *balancer, rota_time now,
                         const struct rota_balancer_replica *replica, double service_us)
{
    const struct rota_policy_rota *own = &replica->rota;
    double past = rota_balancer_fade(own->silence_us, now - own->silence_at, SILENCE_HALF_LIFE);
    rota_time oldest = rota_balancer_oldest(balancer, replica);
    rota_time since = oldest > own->service_at ? oldest : own->service_at;
    double present = oldest == ROTA_TIME_NEVER ? 0 : (double)(now - since) / ROTA_USEC;
    present -= SILENCE_FROM * service_us;
    return past > present ? past : present; /* the past is never below 0 */
}

static double score_on(const struct rota_balancer *balancer, rota_time now,
                       const struct rota_balancer_replica *replica, const struct ground *ground)
{
    const struct rota_policy_rota *own = &replica->rota;
    double service_us = service_of(own, ground->mean_us), band = band_of(own);
    if (band < ground->band)
        band = ground->band;
    if (service_us < band * ground->best_us ||
        service_us < ground->best_us + NOISE_US * band / DEAD_BAND)
        service_us = ground->best_us;

    double work = (double)replica->work;
    if (own->n_answers < SLOW_START_ANSWERS)
        work *= SLOW_START_WORK;
    double others = rota_balancer_fade(own->waiting, now - own->waiting_at, WAITING_HALF_LIFE);
    double penalty = rota_balancer_fade(own->penalty, now - own->penalty_at, PENALTY_HALF_LIFE);
    double part = own->part == 0 ? 1 : own->part;
    return service_us * (1 + penalty + part * (work + others)) +
           silence_of(balancer, now, replica, service_us);
}

static double score_replica(const struct rota_balancer *balancer, rota_time now,
                            const struct rota_balancer_replica *replica)
{
    struct ground ground = {.mean_us = SERVICE_UNKNOWN_US, .band = DEAD_BAND};
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
    own->opened = balancer->serial;
    own->probe = 0;
    own->n_opened++;
    replica->n_ejections++;
}

static void close_circuit(struct rota_policy_rota *own)
{
    own->circuit = ROTA_CIRCUIT_CLOSED;
    own->probe = 0;
    own->n_opened = 0;
    own->n_answers = 0; /* it returns as a replica to be probed */
    own->penalty = 0;
    own->silence_us = 0;
}

/* Whether the replica takes no part in an ordinary choice. */
static bool is_out(const struct rota_balancer_replica *replica)
{
    return replica->rota.circuit != ROTA_CIRCUIT_CLOSED || replica->is_unavailable;
}

/* Half open circuits whose time is over; count the ejected ones. */
static size_t update_circuits(rota_time now, const struct rota_balancer_field *field)
{
    size_t n_out = 0;
    for (size_t i = 0; i < field->n; i++) {
        struct rota_balancer_replica *replica = field->replicas[i];
        if (replica->rota.circuit == ROTA_CIRCUIT_OPEN && now >= replica->rota.open_until)
            replica->rota.circuit = ROTA_CIRCUIT_HALF_OPEN;
        n_out += is_out(replica);
    }
    return n_out;
}

/* --- the rule --- */

/* The replica whose last report is oldest, when it is old enough and no try to it is in flight. */
static size_t find_stale(rota_time now, const struct rota_balancer_field *field)
{
    size_t stalest = ROTA_BALANCER_NONE;
    rota_time at = now;
    for (size_t i = 0; i < field->n; i++) {
        const struct rota_balancer_replica *replica = field->replicas[i];
        rota_time heard_at = replica->rota.n_samples > 0 ? replica->rota.service_at : ROTA_TIME_MIN;
        if (is_out(replica) || heard_at > at || replica->work > 0 || !is_stale(&replica->rota, now))
            continue;
        at = heard_at;
        stalest = i;
    }
    return stalest;
}

/* A try whose purpose is to learn about a replica; only the first one of a call, which can be tried
 * again elsewhere. */
static size_t choose_probe(rota_time now, const struct rota_balancer_field *field)
{
    if (field->has_excluded)
        return ROTA_BALANCER_NONE;
    for (size_t i = 0; i < field->n; i++) {
        struct rota_policy_rota *own = &field->replicas[i]->rota;
        if (own->circuit != ROTA_CIRCUIT_HALF_OPEN || own->probe != 0)
            continue;
        own->probe = field->serial;
        return i;
    }
    bool is_due = rota_random_below(field->random, EXPLORE_EVERY) == 0;
    return is_due ? find_stale(now, field) : ROTA_BALANCER_NONE;
}

/* Of the replicas about as good as the best, the one whose turn was longest ago. */
static size_t choose_best(struct rota_balancer *balancer, rota_time now,
                          const struct rota_balancer_field *field, bool takes_all)
{
    struct ground ground = survey_field(field);
    size_t start = rota_random_below(field->random, field->n), best = ROTA_BALANCER_NONE;
    double lowest = -1;
    for (size_t i = 0; i < field->n; i++) {
        struct rota_policy_rota *own = &field->replicas[i]->rota;
        if (is_out(field->replicas[i]) && !takes_all)
            continue;
        own->score = score_on(balancer, now, field->replicas[i], &ground);
        if (lowest < 0 || own->score < lowest)
            lowest = own->score;
    }
    for (size_t i = 0; i < field->n; i++) {
        size_t index = start + i < field->n ? start + i : start + i - field->n;
        const struct rota_policy_rota *own = &field->replicas[index]->rota;
        if ((is_out(field->replicas[index]) && !takes_all) || own->score > lowest * EVEN)
            continue;
        if (best == ROTA_BALANCER_NONE || own->turn < field->replicas[best]->rota.turn)
            best = index;
    }
    field->replicas[best]->rota.turn = field->serial;
    return best;
}

static size_t choose_rota(struct rota_balancer *balancer, rota_time now,
                          const struct rota_balancer_field *field)
{
    bool is_panic = update_circuits(now, field) > field->n / 2;
    balancer->n_panics += is_panic;
    size_t probed = choose_probe(now, field);
    return probed != ROTA_BALANCER_NONE ? probed : choose_best(balancer, now, field, is_panic);
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
    bool was_stale = is_stale(own, now);
    bool is_learning = own->n_samples > 0 && own->n_samples < SAMPLE_PART;
    if (is_learning && now - end->latency < own->service_at) { /* in flight with the last one */
        if (own->n_samples <= KNOWN_SAMPLES && sample < own->service_us)
            own->service_us = sample;
        return;
    }
    if (own->n_samples < SAMPLE_PART)
        own->n_samples++;
    if (own->n_samples <= KNOWN_SAMPLES) {
        if (own->n_samples == 1 || sample < own->service_us)
            own->service_us = sample;
    } else {
        if (sample > SAMPLE_MOST * own->service_us)
            sample = SAMPLE_MOST * own->service_us;
        own->service_us += (sample - own->service_us) / (was_stale ? STALE_PART : own->n_samples);
    }
    own->service_at = now;
}

static void add_penalty(struct rota_policy_rota *own, rota_time now, double tries)
{
    own->penalty =
        rota_balancer_fade(own->penalty, now - own->penalty_at, PENALTY_HALF_LIFE) + tries;
    own->penalty_at = now;
}

/* Remember the age of a try that brought no answer. */
static void add_silence(struct rota_policy_rota *own, rota_time now, rota_time age)
{
    double had = rota_balancer_fade(own->silence_us, now - own->silence_at, SILENCE_HALF_LIFE);
    double us = (double)age / ROTA_USEC - SILENCE_FROM * own->service_us;
    own->silence_us = us > had ? us : had;
    own->silence_at = now;
}

/* How long one piece of waiting work takes to go, as a part of a service time. A
 * replica that serves many at once drains faster than one at a time; by Little's
 * law the time is the mean wait over the mean number that waits. */
static void learn_queue(struct rota_policy_rota *own, rota_time now, const struct rota_cost *cost)
{
    double wait_us = (double)(cost->response_us - cost->service_us);
    own->waiting = (double)cost->waiting;
    own->waiting_at = now;
    own->mean_wait_us += (wait_us - own->mean_wait_us) / WAITING_PART;
    own->mean_waiting += (own->waiting - own->mean_waiting) / WAITING_PART;

    double work_us = own->mean_waiting * own->service_us;
    own->part = 1;
    if (own->mean_waiting > WAITING_KNOWN && own->mean_wait_us < work_us)
        own->part =
            own->mean_wait_us > DRAIN_LEAST * work_us ? own->mean_wait_us / work_us : DRAIN_LEAST;
}

/* An answer halves the penalty of failures: a replica that fails now and then stays avoided, and
 * one that has recovered is trusted after a few. */
static void on_answer(struct rota_policy_rota *own, rota_time now,
                      const struct rota_balancer_end *end)
{
    own->silence_us = 0;
    own->penalty /= 2;
    own->n_failures = 0;
    if (own->n_answers < SLOW_START_ANSWERS)
        own->n_answers++;
    if (end->cost)
        learn_queue(own, now, end->cost);
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

/* The end of a try that began after the replica was ejected: the probe of a half-open circuit,
 * or a try during a panic. */
static void on_end_ejected(struct rota_balancer *balancer, rota_time now,
                           struct rota_balancer_replica *replica,
                           const struct rota_balancer_end *end)
{
    struct rota_policy_rota *own = &replica->rota;
    bool is_probe = end->serial == own->probe;
    if (is_probe)
        own->probe = 0;
    if (end->outcome == ROTA_OUTCOME_CANCELLED) {
        if (is_probe) { /* nothing is known: the same delay once more */
            own->n_opened--;
            open_circuit(balancer, now, replica);
        }
    } else if (!rota_outcome_is_failure(end->outcome)) {
        close_circuit(own);
    } else if (is_probe) {
        open_circuit(balancer, now, replica);
    }
}

static void on_rota_end(struct rota_balancer *balancer, rota_time now,
                        struct rota_balancer_replica *replica, const struct rota_balancer_end *end)
{
    struct rota_policy_rota *own = &replica->rota;
    if (own->circuit != ROTA_CIRCUIT_CLOSED && end->serial > own->opened)
        on_end_ejected(balancer, now, replica, end);

    switch (end->outcome) {
    case ROTA_OUTCOME_OK:
        on_answer(own, now, end);
        learn_service(own, now, end);
        break;
    case ROTA_OUTCOME_INPUT: /* rejected before any work: its time says nothing */
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
    .choose = choose_rota,
    .on_end = on_rota_end,
    .score = score_replica,
};
