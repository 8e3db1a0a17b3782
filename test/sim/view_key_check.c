#include "view_key_check.h"

#include "core/own/view_keys.h"

#include <rota/experimental/route.h>
#include <string.h>

enum { KEYS = 12, BATCH = 4, NOBODY = -1 };

/* Of one key, as all nodes that know a view have to see it. */
struct key_fact {
    int owner, former; /* numbers of names; NOBODY */
    uint64_t instance, epoch, lost_at;
};

struct view_fact {
    uint64_t number;
    struct key_fact keys[KEYS];
};

static struct view_fact facts[NUMBERS_MAX]; /* by number */
static size_t n_facts;
static uint32_t n_failovers; /* that are known here */
static struct {
    uint32_t life;
    uint64_t number;
} first_known[NODES_MAX];

void key_check_begin(void)
{
    n_facts = n_failovers = 0;
    memset(first_known, 0, sizeof first_known);
}

/* Zones make a difference for the second host and those after it. */
static uint32_t place(const void *key, const struct rota_ring *ring)
{
    const struct rota_partition partition = {.queue = rota_str("orders"), .id = *(const int *)key};
    const struct rota_spread spread = {.mode = ROTA_SPREAD_LOOKUP, .batch = BATCH};
    return rota_route(ring, &partition, spread);
}

static uint32_t place_next(const void *key, const struct rota_ring *ring)
{
    int next = *(const int *)key + 1;
    return place(&next, ring);
}

static int number_of(struct rota_str name)
{
    return name.size > 0 ? name.data[name.size - 1] - '0' : NOBODY; /* "node-3" */
}

/* --- what the node computes --- */

static void sabotage_view(struct world *world, uint32_t node, enum key_plant plant,
                          struct rota_view *view)
{
    uint32_t life = rota_sim_life(world->sim, node);
    if (first_known[node].number == 0 || first_known[node].life != life) {
        first_known[node].life = life;
        first_known[node].number = view->number;
    }
    if (plant == KEY_PLANT_EPOCH && first_known[node].number > view->base)
        rota_view_rebase(view, first_known[node].number);
    for (size_t i = 0; i < view->members.size; i++) {
        if (plant == KEY_PLANT_ZONES && node == FIRST_HOST)
            view->members.items[i].zone = rota_str("");
        if (plant == KEY_PLANT_LIVES)
            view->members.items[i].instance = 1;
    }
}

/* The incarnation that the view itself names. */
static uint64_t instance_of(const struct world *world, uint32_t node, struct rota_str name)
{
    const struct rota_view *view = &world->hosts[node].fsm.view;
    uint32_t member = rota_view_find(view, name);
    return member == ROTA_VIEW_NOBODY ? 0 : view->members.items[member].instance;
}

static bool compute(struct world *world, uint32_t node, enum key_plant plant,
                    struct view_fact *fact)
{
    struct rota_view view;
    struct rota_view_keys keys;
    enum rota_code code = rota_view_copy(&world->hosts[node].fsm.view, &view, NULL);
    if (code)
        return false;
    sabotage_view(world, node, plant, &view);
    fact->number = view.number;
    code = rota_view_keys_init(&keys, &view, NULL);
    rota_view_deinit(&view);
    for (int i = 0; !code && i < KEYS; i++) {
        struct rota_view_key found, next;
        code = rota_view_keys_find(&keys, place, &i, &found, NULL);
        if (!code && plant == KEY_PLANT_FORMER && found.former.size > 0) {
            code = rota_view_keys_find(&keys, place_next, &i, &next, NULL);
            found.former = next.owner;
        }
        if (!code)
            fact->keys[i] = (struct key_fact){.owner = number_of(found.owner),
                                              .former = number_of(found.former),
                                              .instance = instance_of(world, node, found.owner),
                                              .epoch = found.epoch,
                                              .lost_at = found.lost_at};
    }
    rota_view_keys_deinit(&keys);
    return !code;
}

/* --- what must hold --- */

/* From its epoch on the owner is the same, and before it another, in all views that there were
 * since the base. */
static const char *check_epoch(const struct rota_view *view, const struct view_fact *fact, int i)
{
    const struct key_fact *key = &fact->keys[i];
    for (size_t k = 0; k < n_facts; k++) {
        const struct key_fact *then = &facts[k].keys[i];
        if (facts[k].number < view->base || facts[k].number > fact->number)
            continue;
        if (facts[k].number >= key->epoch && then->instance != key->instance)
            return "O1: an epoch of a key names two owners";
        if (then->epoch > key->epoch)
            return "O2: the epoch of a key decreases";
    }
    return NULL;
}

/* Since the former owner lost the key, nobody had it but the owner. */
static const char *check_former(const struct rota_view *view, const struct view_fact *fact, int i)
{
    const struct key_fact *key = &fact->keys[i];
    uint64_t states[ROTA_VIEW_STATES_MAX + 1];
    size_t n = rota_view_states(view, states);
    uint64_t last = 0; /* of the former owner */
    for (size_t k = 0; k < n && states[k] < key->lost_at; k++)
        last = states[k];
    for (size_t k = 0; k < n_facts; k++) {
        int then = facts[k].keys[i].owner;
        if (facts[k].number < view->base || facts[k].number > fact->number)
            continue;
        if (facts[k].number >= key->lost_at && then != NOBODY && then != key->owner)
            return "P5: another than the former owner had the key last";
        if (key->former != NOBODY && facts[k].number == last && then != key->former)
            return "P5: the former owner of a key did not have it";
    }
    return NULL;
}

static struct view_fact *find_fact(uint64_t number)
{
    for (size_t i = 0; i < n_facts; i++)
        if (facts[i].number == number)
            return &facts[i];
    return NULL;
}

static bool facts_agree(const struct view_fact *a, const struct view_fact *b)
{
    for (int i = 0; i < KEYS; i++) {
        const struct key_fact *x = &a->keys[i], *y = &b->keys[i];
        if (x->owner != y->owner || x->former != y->former || x->instance != y->instance ||
            x->epoch != y->epoch || x->lost_at != y->lost_at)
            return false;
    }
    return true;
}

/* A database that falls back forgets views, and those that come next may contradict them. */
static void forget_lost(const struct world *world)
{
    if (n_failovers != world->n_failovers)
        n_facts = 0;
    n_failovers = world->n_failovers;
}

void key_check_view(struct world *world, uint32_t node, enum key_plant plant)
{
    struct view_fact fact = {0};
    const struct rota_view *view = &world->hosts[node].fsm.view;
    forget_lost(world);
    if (view->number <= world->lost_max || has_lost_numbers(world))
        return;
    if (n_facts == NUMBERS_MAX || !compute(world, node, plant, &fact)) {
        rota_sim_fail(world->sim, "the keys of view %llu can't be recorded",
                      (unsigned long long)view->number);
        return;
    }
    const struct view_fact *known = find_fact(view->number);
    if (known && !facts_agree(known, &fact))
        rota_sim_fail(world->sim, "R1: node %u sees the keys of view %llu otherwise than another",
                      node, (unsigned long long)view->number);
    if (known)
        return;
    facts[n_facts++] = fact;
    for (int i = 0; i < KEYS; i++) {
        const char *sentence = check_epoch(view, &fact, i);
        if (!sentence)
            sentence = check_former(view, &fact, i);
        if (sentence)
            rota_sim_fail(world->sim, "%s: key %d in view %llu", sentence, i,
                          (unsigned long long)view->number);
    }
}
