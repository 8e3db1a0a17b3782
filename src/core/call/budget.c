#include "core/call/budget.h"

static const uint64_t TOKEN = 1000000;

static void add_parts(struct rota_budget *budget, uint64_t parts)
{
    uint64_t most = budget->options.most * TOKEN;
    budget->parts = budget->parts + parts < most ? budget->parts + parts : most;
}

/* Add the tokens earned since the last call; the fraction below one part is kept. */
static void refill_budget(struct rota_budget *budget, rota_time now)
{
    const rota_time part_time = ROTA_SEC / (rota_time)TOKEN; /* of one token per second */
    if (now <= budget->filled_at)
        return;
    rota_time age = now - budget->filled_at;
    if (age > ROTA_HOUR) { /* more than enough to fill it */
        age = ROTA_HOUR;
        budget->filled_at = now - age;
    }
    uint64_t parts = (uint64_t)(age / part_time);
    budget->filled_at += (rota_time)parts * part_time;
    add_parts(budget, parts * budget->options.per_second);
}

void rota_budget_init(struct rota_budget *budget, rota_time now,
                      const struct rota_budget_options *options)
{
    *budget = (struct rota_budget){.options = *options, .filled_at = now};
    if (budget->options.most == 0)
        budget->options.most = 10;
    add_parts(budget, options->per_second * TOKEN);
}

void rota_budget_earn(struct rota_budget *budget)
{
    add_parts(budget, budget->options.ppm);
    budget->n_calls++;
}

bool rota_budget_spend(struct rota_budget *budget, rota_time now)
{
    refill_budget(budget, now);
    if (budget->parts < TOKEN) {
        budget->n_refused++;
        return false;
    }
    budget->parts -= TOKEN;
    budget->n_spent++;
    return true;
}

void rota_budget_refund(struct rota_budget *budget)
{
    add_parts(budget, TOKEN);
    if (budget->n_spent > 0)
        budget->n_spent--;
}
