#include "core/call/balancer_rule.h"

/* The replica whose turn was longest ago goes next; those without a turn before the others, by
 * number. So each list goes round in a fixed order, and a replica that is on some lists only
 * neither loses nor gains. */
static bool goes_before(const struct rota_balancer_replica *a,
                        const struct rota_balancer_replica *b)
{
    if (a->is_unavailable != b->is_unavailable)
        return b->is_unavailable;
    if (a->round_robin.turn != b->round_robin.turn)
        return a->round_robin.turn < b->round_robin.turn;
    return a->id < b->id;
}

static size_t choose_round_robin(struct rota_balancer *balancer, rota_time now,
                                 const struct rota_balancer_field *field)
{
    size_t best = 0;
    (void)balancer, (void)now;
    for (size_t i = 1; i < field->n; i++)
        if (goes_before(field->replicas[i], field->replicas[best]))
            best = i;
    field->replicas[best]->round_robin.turn = field->serial;
    return best;
}

const struct rota_balancer_rule rota_policy_round_robin = {.name = "round_robin",
                                                           .choose = choose_round_robin};
