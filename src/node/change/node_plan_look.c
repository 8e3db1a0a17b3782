/* The result of a plan that was applied.
 *
 * The current owners are compared with those before: the maps of spaces are copied on the loop,
 * a worker thread routes the partitions of queues again. */
#include "node/change/node_plan.h"

#include "io/clock.h"
#include "node/change/node_plan_inside.h"
#include "node/documents/node_queues.h"
#include "node/documents/peers.h"
#include "run/own/space_service.h"

#include <stdlib.h>

#define STILL (30 * ROTA_SEC) /* if nothing has moved for this long, nothing will */

struct rota_node_plan_look {
    struct rota_node_plan *plan; /* kept: a comparison is in progress */
    struct rota_arena arena;
    struct rota_str queues;
    ROTA_VECTOR(struct rota_node_plan_host) hosts; /* with the weights that they have now */
    ROTA_VECTOR(struct rota_node_plan_map) maps;   /* of all things; those of queues are empty */
    struct rota_node_plan_count count;
    struct rota_buffer predicted;
    bool is_moving;
};

static const struct rota_peer *find_living(const struct rota_node_plan *plan, struct rota_str name)
{
    const struct rota_peer *peer = rota_peers_find(plan->node->peers, name);
    return peer && peer->state == ROTA_STORE_MEMBER_IN && rota_peer_is_alive(peer) ? peer : NULL;
}

static bool copy_hosts(struct rota_node_plan_look *look)
{
    const struct rota_node_plan *plan = look->plan;
    bool is_well = rota_vector_reserve(&look->hosts, plan->hosts.size + 1);
    for (size_t i = 0; is_well && i < plan->hosts.size; i++) {
        struct rota_node_plan_host host = plan->hosts.items[i];
        const struct rota_peer *peer = find_living(plan, host.name);
        host.n_before = host.n_after = 0;
        host.weight_before = !peer ? 0 : peer->weight ? peer->weight : ROTA_WEIGHT_ONE;
        look->hosts.items[look->hosts.size++] = host;
    }
    return is_well;
}

static bool copy_maps(struct rota_node_plan_look *look)
{
    const struct rota_node_plan *plan = look->plan;
    bool is_well = rota_vector_reserve(&look->maps, plan->things.size + 1);
    for (size_t i = 0; is_well && i < plan->things.size; i++) {
        const struct rota_node_plan_thing *thing = &plan->things.items[i];
        struct rota_node_plan_map *map = &look->maps.items[look->maps.size++];
        const struct rota_space *space =
            thing->is_queue ? NULL
                            : rota_space_service_find(plan->node->space_service, thing->name);
        *map = (struct rota_node_plan_map){0};
        if (space) {
            look->is_moving |= rota_space_map(space)->n_moving > 0;
            is_well = rota_node_plan_map_copy(space, &look->arena, map);
        }
    }
    return is_well;
}

static struct rota_node_plan *find_plan(struct rota_node *node, uint64_t id)
{
    for (struct rota_list_node *at = rota_list_first(&node->plans); at && at != &node->plans;
         at = at->next) {
        struct rota_node_plan *plan = ROTA_LIST_ITEM(at, struct rota_node_plan, link);
        if (plan->id == id)
            return plan;
    }
    return NULL;
}

enum rota_code rota_node_plan_look_new(struct rota_node *node, uint64_t id, struct rota_str queues,
                                       struct rota_node_plan_look **look, struct rota_error *error)
{
    struct rota_node_plan *plan = find_plan(node, id);
    *look = NULL;
    if (!plan)
        return ROTA_OK;
    struct rota_node_plan_look *made = calloc(1, sizeof *made);
    if (!made)
        return rota_node_plan_no_memory(error);
    made->plan = plan;
    plan->n_looks++;
    made->queues = rota_arena_copy(&made->arena, queues);
    if (!made->queues.data || !copy_hosts(made) || !copy_maps(made)) {
        rota_node_plan_look_free(made);
        return rota_node_plan_no_memory(error);
    }
    *look = made;
    return ROTA_OK;
}

void rota_node_plan_look_free(struct rota_node_plan_look *look)
{
    if (!look)
        return;
    rota_node_plan_apply_look_ended(look->plan);
    rota_vector_deinit(&look->hosts);
    rota_vector_deinit(&look->maps);
    rota_buffer_deinit(&look->predicted);
    rota_arena_deinit(&look->arena);
    free(look);
}

/* --- on the worker thread --- */

/* The current state of the queues, as nodes report it. */
static enum rota_code see_queue(void *data, const struct rota_node_queue *queue,
                                struct rota_error *error)
{
    struct rota_node_plan_thing *thing = rota_map_get(data, queue->name);
    (void)error;
    if (thing)
        thing->seen = queue->layout;
    return ROTA_OK;
}

static enum rota_code see_queues(struct rota_node_plan_look *look, struct rota_error *error)
{
    struct rota_node_plan *plan = look->plan;
    struct rota_map names;
    bool is_well = true;
    rota_map_init(&names, plan->places.seed);
    for (size_t i = 0; is_well && i < plan->things.size; i++) {
        struct rota_node_plan_thing *thing = &plan->things.items[i];
        if (thing->is_queue)
            is_well = rota_map_put(&names, thing->name, thing);
    }
    if (is_well)
        rota_node_queues_each(look->queues, see_queue, &names, NULL);
    rota_map_deinit(&names);
    return is_well ? ROTA_OK : rota_node_plan_no_memory(error);
}

static bool compare_thing(struct rota_node_plan_look *look, size_t index,
                          const struct rota_node_plan_ring *ring)
{
    const struct rota_node_plan_thing *thing = &look->plan->things.items[index];
    if (!thing->is_queue && look->maps.items[index].n_shards == 0)
        return true; /* nothing is known about the space now */
    uint32_t n = thing->is_queue ? thing->seen.read : thing->n_before;
    uint32_t *owners = calloc((size_t)n + 1, sizeof *owners);
    bool is_well = owners;
    if (is_well && thing->is_queue) {
        rota_time now = rota_clock_wall();
        look->is_moving |= !rota_layout_is_settled(&thing->seen) ||
                           rota_layout_is_changing(&thing->seen, now) ||
                           (rota_node_plan_is_changed(thing) &&
                            rota_node_plan_differs(&thing->seen, &thing->wished));
        rota_node_plan_rules_route(ring, thing->name, &thing->seen, now, n, owners);
    } else if (is_well) {
        is_well = rota_node_plan_owners(look->plan, &look->maps.items[index], n, owners);
    }
    if (is_well) {
        struct rota_node_plan_count count = rota_node_plan_rules_count(
            look->hosts.items, look->hosts.size, thing->before, thing->n_before, owners, n);
        look->count.moves += count.moves;
        look->count.lost += count.lost;
    }
    free(owners);
    return is_well;
}

enum rota_code rota_node_plan_look_work_out(struct rota_node_plan_look *look,
                                            struct rota_error *error)
{
    struct rota_node_plan_ring ring = {0};
    struct rota_json json = {.buffer = &look->predicted};
    enum rota_code code = see_queues(look, error);
    for (size_t i = 0; !code && i < look->plan->things.size; i++) {
        if (look->plan->things.items[i].is_queue && !ring.ring)
            code = rota_node_plan_rules_ring_init(&ring, look->hosts.items, look->hosts.size, false,
                                                  error);
        if (!code && !compare_thing(look, i, &ring))
            code = rota_node_plan_no_memory(error);
    }
    rota_node_plan_rules_ring_deinit(&ring);
    rota_node_plan_write(look->plan, &json);
    return code;
}

/* --- on the loop again --- */

/* New nodes that have not joined. */
static size_t n_awaited(const struct rota_node_plan *plan)
{
    size_t n = 0;
    for (size_t i = 0; i < plan->hosts.size; i++)
        n += plan->hosts.items[i].weight_before == 0 &&
             !find_living(plan, plan->hosts.items[i].name);
    return n;
}

static const char *state_of(const struct rota_node_plan *plan, bool is_moving)
{
    if (plan->failure[0])
        return "failed";
    if (rota_node_plan_apply_is_in_progress(plan))
        return "applying";
    if (n_awaited(plan) > 0)
        return "waiting";
    return is_moving ? "moving" : "done";
}

void rota_node_plan_look_write(struct rota_node_plan_look *look, struct rota_json *json)
{
    struct rota_node_plan *plan = look->plan;
    bool is_moving = look->is_moving || look->count.lost > plan->count.lost;
    for (size_t i = 0; i < plan->hosts.size; i++)
        is_moving |= rota_node_plan_apply_is_going(&plan->hosts.items[i]) &&
                     look->hosts.items[i].n_after > 0;
    if (look->count.moves != plan->n_moved)
        plan->moved_at = rota_clock_boot();
    plan->n_moved = look->count.moves;
    is_moving |=
        look->count.moves != plan->count.moves && rota_clock_boot() - plan->moved_at < STILL;
    rota_json_begin_object(json);
    rota_json_add_uint(json, "id", plan->id);
    rota_json_key(json, "predicted");
    rota_json_raw(json, rota_buffer_str(&look->predicted));
    rota_json_add_object(json, "outcome");
    rota_json_add_uint(json, "moves", look->count.moves);
    rota_json_add_uint(json, "lost", look->count.lost);
    rota_node_plan_add_spread(look->hosts.items, look->hosts.size, "spread_after", true, json);
    rota_json_end_object(json);
    rota_json_add_text(json, "state", state_of(plan, is_moving));
    rota_json_add_text(json, "why", plan->failure);
    rota_json_end_object(json);
}
