#include "group_world.h"

#include <stdio.h>
#include <stdlib.h>

bool chance(struct world *world, double probability)
{
    return probability > 0 && rota_random_chance(world->random, probability);
}

rota_time span_upto(struct world *world, rota_time max)
{
    return rota_random_range(world->random, 0, max);
}

void die(const char *what)
{
    fprintf(stderr, "%s\n", what);
    exit(2);
}

void tell(struct world *world, uint32_t from, uint32_t to, const struct note *note)
{
    rota_sim_send(world->sim, from, to, rota_str_of(note, sizeof *note));
}

struct rota_group_record *carry(struct world *world, struct rota_group_record *record)
{
    struct rota_group_record *copy = NULL;
    enum rota_group_verdict verdict = ROTA_GROUP_ACCEPTED;
    rota_buffer_clear(&world->buffer);
    if (rota_group_record_format(record, &world->buffer, &world->error) ||
        rota_group_record_parse(rota_buffer_str(&world->buffer), &copy, &verdict, &world->error)) {
        rota_sim_fail(world->sim, "a record can't be carried: %s", world->error.text);
        return NULL;
    }
    if (verdict != ROTA_GROUP_ACCEPTED)
        rota_sim_fail(world->sim, "our own record is %s: %s", rota_group_fold_verdict_name(verdict),
                      world->error.text);
    return copy;
}
