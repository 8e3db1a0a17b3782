#include "sim/balance_rules.h"

#define PEAK_HALF_LIFE (5 * ROTA_SEC)

/* Which of two is better, by a cost; the first one when they are equal. */
typedef double (*cost_of)(const struct rota_balancer *balancer, rota_time now,
                          const struct rota_balancer_replica *replica);

static size_t better_of_all(const struct rota_balancer *balancer, rota_time now,
                            const struct rota_balancer_field *field, cost_of cost)
{
    size_t start = rota_random_below(field->random, field->n), best = start;
    for (size_t i = 1; i < field->n; i++) {
        size_t index = (start + i) % field->n;
        if (cost(balancer, now, field->replicas[index]) <
            cost(balancer, now, field->replicas[best]))
            best = index;
    }
    return best;
}

static size_t better_of_two(const struct rota_balancer *balancer, rota_time now,
                            const struct rota_balancer_field *field, cost_of cost)
{
    size_t a = rota_random_below(field->random, field->n);
    if (field->n == 1)
        return a;
    size_t b = rota_random_below(field->random, field->n - 1);
    b += b >= a;
    return cost(balancer, now, field->replicas[b]) < cost(balancer, now, field->replicas[a]) ? b
                                                                                             : a;
}

/* --- least in flight, and of two --- */

static double in_flight(const struct rota_balancer *balancer, rota_time now,
                        const struct rota_balancer_replica *replica)
{
    (void)balancer, (void)now;
    return (double)replica->work;
}

static size_t choose_least(struct rota_balancer *balancer, rota_time now,
                           const struct rota_balancer_field *field)
{
    return better_of_all(balancer, now, field, in_flight);
}

static size_t choose_p2c(struct rota_balancer *balancer, rota_time now,
                         const struct rota_balancer_field *field)
{
    return better_of_two(balancer, now, field, in_flight);
}

/* --- peak EWMA --- */

static double peak_score(const struct rota_balancer *balancer, rota_time now,
                         const struct rota_balancer_replica *replica)
{
    const struct rota_policy_reference *own = &replica->reference;
    double value = rota_balancer_fade(own->value, now - own->value_at, PEAK_HALF_LIFE);
    (void)balancer;
    if (own->value == 0 && replica->work > 0)
        return 1e12 + (double)replica->work;
    return value * (double)(replica->work + 1);
}

static size_t choose_peak(struct rota_balancer *balancer, rota_time now,
                          const struct rota_balancer_field *field)
{
    return better_of_two(balancer, now, field, peak_score);
}

static void learn_peak(struct rota_balancer *balancer, rota_time now,
                       struct rota_balancer_replica *replica, const struct rota_balancer_end *end)
{
    struct rota_policy_reference *own = &replica->reference;
    double us = (double)end->latency / ROTA_USEC;
    (void)balancer;
    if (end->outcome == ROTA_OUTCOME_CANCELLED && us < own->value)
        return; /* it would have taken longer */
    double kept = rota_balancer_fade(1, now - own->value_at, PEAK_HALF_LIFE);
    own->value = us > own->value ? us : own->value * kept + us * (1 - kept);
    own->value_at = now;
}

/* --- the oracle --- */

static double true_score(const struct rota_balancer *balancer, rota_time now,
                         const struct rota_balancer_replica *replica)
{
    const struct rota_balance_truth *known = balancer->rule_data;
    (void)now;
    return known->expected_us(known->world, replica->id);
}

static size_t choose_oracle(struct rota_balancer *balancer, rota_time now,
                            const struct rota_balancer_field *field)
{
    return better_of_all(balancer, now, field, true_score);
}

const struct rota_balancer_rule rota_balance_least_in_flight = {.name = "least_in_flight",
                                                                .choose = choose_least};
const struct rota_balancer_rule rota_balance_p2c = {.name = "p2c", .choose = choose_p2c};
const struct rota_balancer_rule rota_balance_peak_ewma = {
    .name = "peak_ewma", .choose = choose_peak, .on_end = learn_peak, .score = peak_score};
const struct rota_balancer_rule rota_balance_oracle = {
    .name = "oracle", .choose = choose_oracle, .score = true_score};
