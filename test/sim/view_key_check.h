/* The keys of a keyed space in sim_view.c: what every node computes from the view that it knows is
 * recorded, and compared with what was so in earlier views. */
#pragma once

#include "view_world.h"

/* Which node does it wrong. */
enum key_plant {
    KEY_PLANT_NONE,
    KEY_PLANT_EPOCH,  /* it counts from the first view that it has known */
    KEY_PLANT_ZONES,  /* it does not look at zones */
    KEY_PLANT_LIVES,  /* it takes a new life of a node for the node */
    KEY_PLANT_FORMER, /* it takes whom the key would go to next for the one who had it */
};

/* The node knows another view. */
void key_check_view(struct world *world, uint32_t node, enum key_plant plant);

/* At the beginning of a world. */
void key_check_begin(void);
