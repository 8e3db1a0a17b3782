#include "group_data.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct part *part_of(struct world *world, uint32_t index)
{
    return &world->parts.items[index];
}

uint32_t part_find(struct world *world, struct rota_str name)
{
    return (uint32_t)((uintptr_t)rota_map_get(&world->by_name, name) - 1);
}

/* A new partition; UINT32_MAX when there are enough. */
static uint32_t part_new(struct world *world, const uint32_t *parents, uint8_t n_parents)
{
    char name[ROTA_GROUP_NAME_MAX + 1];
    struct rota_str names[2];
    struct part part = {.n_parents = n_parents, .idle_since = ROTA_TIME_NEVER};
    uint32_t index = (uint32_t)world->parts.size;

    if (index >= world->shape.partitions_max || index >= PARTITIONS_MAX)
        return UINT32_MAX;
    int size = snprintf(name, sizeof name, "p%u", index);
    for (; (size_t)size < world->shape.name_size; size++)
        name[size] = (char)('a' + size % 26);
    for (uint8_t i = 0; i < n_parents; i++) {
        part.parents[i] = parents[i];
        names[i] = part_of(world, parents[i])->def->name.text;
    }
    part.def = rota_group_def_new(rota_str_of(name, (size_t)size), names, n_parents, rota_str(""));
    if (!part.def)
        die("no memory");
    part.length = (uint32_t)rota_random_range(world->random, 1, world->shape.length_max);
    push(&world->parts, part);
    world->n_open++;
    if (!rota_map_put(&world->by_name, part.def->name.text, (void *)((uintptr_t)index + 1)))
        die("no memory");
    return index;
}

static void part_add_child(struct world *world, uint32_t index, uint32_t child)
{
    struct part *part = part_of(world, index);
    part->child_at[part->n_children] = (uint32_t)rota_random_range(world->random, 0, part->length);
    part->children[part->n_children++] = child;
}

void part_grow(struct world *world, uint32_t index)
{
    if (part_of(world, index)->is_grown)
        return;
    part_of(world, index)->is_grown = true;
    if (rota_sim_now(world->sim) >= world->shape.quiet_at ||
        !chance(world, world->n_open < world->shape.open_goal ? 0.9 : 0.3))
        return;
    uint32_t a = part_new(world, &index, 1);
    if (a == UINT32_MAX)
        return;
    part_add_child(world, index, a);
    uint32_t b = part_new(world, &index, 1);
    if (b == UINT32_MAX)
        return;
    part_add_child(world, index, b);
    if (!chance(world, world->shape.merges))
        return;
    uint32_t both[2] = {a, b}, merged = part_new(world, both, 2);
    for (int i = 0; i < 2 && merged != UINT32_MAX; i++) {
        part_of(world, both[i])->is_grown = true;
        part_add_child(world, both[i], merged);
    }
}

struct rota_str position_format(const struct world *world, uint32_t position,
                                char text[ROTA_GROUP_POSITION_MAX])
{
    int size = snprintf(text, ROTA_GROUP_POSITION_MAX, "%u", position);
    if ((size_t)size < world->shape.position_size) {
        memset(text + size, ' ', world->shape.position_size - (size_t)size);
        return rota_str_of(text, world->shape.position_size);
    }
    return rota_str_of(text, (size_t)size);
}

uint32_t position_parse(const struct rota_blob *position)
{
    char text[16] = "";
    struct rota_str bytes = rota_blob_str(position);
    snprintf(text, sizeof text, "%.*s", (int)(bytes.size < 12 ? bytes.size : 12), bytes.data);
    return (uint32_t)strtoul(text, NULL, 10);
}

void data_init(struct world *world)
{
    rota_map_init(&world->by_name, 1);
    world->seeds = calloc(world->shape.n_seeds, sizeof *world->seeds);
    if (!world->seeds)
        die("no memory");
    for (uint32_t i = 0; i < world->shape.n_seeds; i++) {
        uint32_t index = part_new(world, NULL, 0);
        world->seeds[i].name = part_of(world, index)->def->name.text;
        world->seeds[i].position = rota_str("0");
    }
}

void data_deinit(struct world *world)
{
    for (size_t i = 0; i < world->parts.size; i++)
        rota_group_def_unref(world->parts.items[i].def);
    rota_vector_deinit(&world->parts);
    rota_map_deinit(&world->by_name);
    free(world->seeds);
}
