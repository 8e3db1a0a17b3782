#include "core/call/balancer_rule.h"

enum { SHUNNED_DOUBLINGS_MAX = 5 };

int64_t rota_policy_look_aside_score(const struct rota_cost *cost, int64_t executing)
{
    int64_t base, score;
    int64_t wait = cost->response_us - cost->service_us;
    if (cost->response_us == 0) {
        if (__builtin_mul_overflow(executing, executing, &score) ||
            __builtin_mul_overflow(score, executing, &score))
            return INT64_MAX;
        return score;
    }
    if (executing < 0 || cost->waiting < 0)
        return wait;
    if (__builtin_add_overflow(cost->waiting, executing + 1, &base) ||
        __builtin_mul_overflow(base, base, &score) || __builtin_mul_overflow(score, base, &score) ||
        __builtin_mul_overflow(score, cost->service_us, &score) ||
        __builtin_add_overflow(score, wait, &score))
        return INT64_MAX;
    return score;
}

static bool has_report(const struct rota_balancer_replica *replica)
{
    return replica->reported_at != ROTA_TIME_MIN;
}

/* By the last report and the calls that are executing. Once the report is old and nothing is
 * executing nothing is known, and nothing counts against the replica. */
static int64_t score_reported(const struct rota_balancer *balancer, rota_time now,
                              const struct rota_balancer_replica *replica)
{
    if (replica->work == 0 && now - replica->reported_at > balancer->options.expires)
        return 0;
    return rota_policy_look_aside_score(&replica->look_aside.cost, replica->work);
}

/* The starting point of a replica that never reported: nothing in the original, otherwise the best
 * of the others. It is then as good as these and no better: a replica that was dropped, or never
 * answers, is not preferred for being unknown. */
static int64_t score_unknown(const struct rota_balancer *balancer, rota_time now,
                             const struct rota_balancer_field *field)
{
    int64_t best = INT64_MAX;
    for (size_t i = 0; i < field->n && !balancer->options.is_original; i++) {
        const struct rota_balancer_replica *replica = field->replicas[i];
        if (!has_report(replica) || replica->is_unavailable)
            continue;
        int64_t score = score_reported(balancer, now, replica);
        if (score < best)
            best = score;
    }
    return best == INT64_MAX ? 0 : best;
}

static int64_t score_of(const struct rota_balancer *balancer, rota_time now,
                        const struct rota_balancer_replica *replica, int64_t unknown)
{
    int64_t score;
    if (has_report(replica))
        return score_reported(balancer, now, replica);
    score = rota_policy_look_aside_score(&(struct rota_cost){0}, replica->work);
    return __builtin_add_overflow(score, unknown, &score) ? INT64_MAX : score;
}

static double score_alone(const struct rota_balancer *balancer, rota_time now,
                          const struct rota_balancer_replica *replica)
{
    return (double)score_of(balancer, now, replica, 0);
}

static bool is_shunned(const struct rota_balancer_replica *replica, rota_time now)
{
    return replica->look_aside.n_failures > 0 && now < replica->look_aside.shunned_until;
}

/* Which replicas to skip. */
enum passing { PASS_NOBODY, PASS_UNAVAILABLE, PASS_FAILED_TOO };

static bool is_passed(const struct rota_balancer_replica *replica, rota_time now,
                      enum passing passing)
{
    return (passing >= PASS_UNAVAILABLE && replica->is_unavailable) ||
           (passing >= PASS_FAILED_TOO && is_shunned(replica, now));
}

/* Skip replicas as long as a candidate is left. When all are unavailable, a try that may fail beats
 * certain failure: overloaded replicas fail their health checks first. The original gives up
 * then. */
static enum passing whom_to_pass(const struct rota_balancer *balancer, rota_time now,
                                 const struct rota_balancer_field *field)
{
    enum passing least = balancer->options.is_original ? PASS_UNAVAILABLE : PASS_NOBODY;
    for (enum passing passing = PASS_FAILED_TOO; passing > least; passing--)
        for (size_t i = 0; i < field->n; i++)
            if (!is_passed(field->replicas[i], now, passing))
                return passing;
    return least;
}

/* The order in which to walk over the candidates. */
static size_t walk_candidates(const struct rota_balancer *balancer,
                              const struct rota_balancer_field *field, size_t step)
{
    return (size_t)((balancer->counter + step) % field->n);
}

static size_t choose_round(struct rota_balancer *balancer, rota_time now,
                           const struct rota_balancer_field *field, enum passing passing)
{
    for (size_t step = 0; step < field->n; step++) {
        size_t index = walk_candidates(balancer, field, step);
        if (is_passed(field->replicas[index], now, passing))
            continue;
        balancer->counter++;
        return index;
    }
    return ROTA_BALANCER_NONE;
}

/* The lowest score. Only when the scores are about equal does the next choice go
 * round again; as long as they are not every choice is scored. */
static size_t choose_scored(struct rota_balancer *balancer, rota_time now,
                            const struct rota_balancer_field *field, enum passing passing)
{
    int64_t unknown = score_unknown(balancer, now, field), min = 0, max = 0;
    size_t best = ROTA_BALANCER_NONE;
    for (size_t step = 0; step < field->n; step++) {
        size_t index = walk_candidates(balancer, field, step);
        const struct rota_balancer_replica *replica = field->replicas[index];
        if (is_passed(replica, now, passing))
            continue;
        int64_t score = score_of(balancer, now, replica, unknown);
        if (best == ROTA_BALANCER_NONE || score < min) {
            min = score;
            best = index;
        }
        if (score > max)
            max = score;
    }
    if (best == ROTA_BALANCER_NONE)
        return best;
    double spread = (double)max - (double)min;
    if (min <= 0 || spread / (double)min <= balancer->options.tolerance_ppm / 1e6)
        balancer->counter++;
    return best;
}

static size_t choose_look_aside(struct rota_balancer *balancer, rota_time now,
                                const struct rota_balancer_field *field)
{
    enum passing passing = whom_to_pass(balancer, now, field);
    return balancer->counter % balancer->options.check_every != 0
               ? choose_round(balancer, now, field, passing)
               : choose_scored(balancer, now, field, passing);
}

static void on_look_aside_end(struct rota_balancer *balancer, rota_time now,
                              struct rota_balancer_replica *replica,
                              const struct rota_balancer_end *end)
{
    struct rota_policy_look_aside *own = &replica->look_aside;
    if (end->outcome == ROTA_OUTCOME_OK) {
        own->n_failures = 0;
        if (end->cost)
            own->cost = *end->cost;
    }
    if (!rota_outcome_is_failure(end->outcome) || balancer->options.is_original)
        return;
    uint32_t doublings =
        own->n_failures < SHUNNED_DOUBLINGS_MAX ? own->n_failures : SHUNNED_DOUBLINGS_MAX;
    own->n_failures++;
    own->shunned_until = rota_time_add(now, balancer->options.expires << doublings);
}

const struct rota_balancer_rule rota_policy_look_aside = {
    .name = "look_aside",
    .choose = choose_look_aside,
    .on_end = on_look_aside_end,
    .score = score_alone,
};
