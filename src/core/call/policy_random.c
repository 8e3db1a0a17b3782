#include "core/call/balancer_rule.h"

/* Any available replica, or any at all when none is. */
static size_t choose_random(struct rota_balancer *balancer, rota_time now,
                            const struct rota_balancer_field *field)
{
    size_t n_available = 0;
    (void)balancer, (void)now;
    for (size_t i = 0; i < field->n; i++)
        n_available += !field->replicas[i]->is_unavailable;
    if (n_available == 0)
        return rota_random_below(field->random, field->n);

    size_t left = rota_random_below(field->random, n_available), index = 0;
    while (field->replicas[index]->is_unavailable || left-- > 0)
        index++;
    return index;
}

const struct rota_balancer_rule rota_policy_random = {.name = "random", .choose = choose_random};
