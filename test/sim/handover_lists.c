#include "handover_lists.h"

#include <string.h>

#define CROWD_FOR     (2 * ROTA_SEC)
#define LEARN_MAX     (4 * ROTA_SEC)
#define SETTLED_AFTER (5 * ROTA_SEC) /* all lists but the last one have arrived */

bool is_well(const struct world *world, uint32_t number)
{
    return world->nodes[number].core && !rota_sim_is_paused(world->sim, number);
}

static bool is_owner(const uint8_t owners[PARTS], uint32_t number)
{
    for (int i = 0; i < PARTS; i++)
        if (owners[i] == number)
            return true;
    return false;
}

bool is_listed(const struct node *node, uint32_t other)
{
    return is_owner(node->owners, other);
}

static uint32_t any_other(struct world *world, uint32_t number)
{
    return (number + (uint32_t)rota_random_range(world->random, 1, NODES - 1)) % NODES;
}

/* --- what nodes say --- */

/* The nodes that hear what a node says to all; the others are down, or the message is lost. */
static void draw_hearers(struct world *world, uint32_t number, bool hears[NODES])
{
    for (uint32_t i = 0; i < NODES; i++)
        hears[i] = i != number && is_well(world, i) && by_chance(world, world->pace.heard);
}

/* Those that hear it have it on disk when it goes on. */
static rota_time speak(struct world *world, uint32_t number, bool may_hold, const bool hears[NODES])
{
    struct rota_broker_node_view said;
    if (rota_broker_node_speak(world->nodes[number].core, now_of(world, number), may_hold, &said,
                               NULL))
        die("no memory for a node");
    for (uint32_t i = 0; i < NODES; i++)
        if (hears[i]) {
            rota_broker_take_node(world->nodes[i].core, now_of(world, i), &said, NULL);
            drive(world, i);
            harden(world, &world->nodes[i], world->nodes[i].disk.size - world->nodes[i].n_synced);
        }
    rota_time at = said.at;
    drive(world, number);
    return at;
}

rota_time announce_jobs(struct world *world, uint32_t number)
{
    bool hears[NODES];
    draw_hearers(world, number, hears);
    return speak(world, number, true, hears);
}

/* What another node remembers. */
static void hear_nodes(struct world *world, uint32_t number, uint32_t from)
{
    struct rota_broker_node_view view;
    for (size_t place = 0; rota_broker_next_node(world->nodes[from].core, &place, &view);)
        if (!world->is_deaf_to_itself ||
            !rota_str_is_equal(view.address, rota_str(ADDRESSES[number])))
            rota_broker_take_node(world->nodes[number].core, now_of(world, number), &view, NULL);
    drive(world, number);
}

/* A node that is not on its list and holds nothing. */
static void say_bye(struct world *world, uint32_t number)
{
    struct node *node = &world->nodes[number];
    bool hears[NODES];
    if (!is_well(world, number) || is_listed(node, number))
        return;
    bool is_empty =
        rota_broker_is_empty(node->core) && node->durable >= rota_broker_last_number(node->core);
    if (!is_empty && world->plant != HANDOVER_LEAVES_FULL)
        return;
    draw_hearers(world, number, hears);
    for (uint32_t i = 0; i < NODES; i++) /* it may be the only one that knows */
        if (hears[i])
            hear_nodes(world, i, number);
    speak(world, number, false, hears);
    node->has_left = true;
}

/* A while after its start a node has heard from all that are there. One that is alone can't know of
 * those that came back while it was down, unless it sees in a list that they did not leave. */
static void told_call(void *data, uint64_t number)
{
    struct world *world = data;
    if (!is_well(world, (uint32_t)number))
        return;
    for (uint32_t i = 0; i < NODES; i++)
        if (i != number && is_well(world, i)) {
            hear_nodes(world, (uint32_t)number, i);
            world->nodes[number].is_told = true;
        }
}

static void ask_call(void *data, uint64_t unused)
{
    struct world *world = data;
    rota_time now = rota_sim_now(world->sim),
              wait = now < QUIET_AT ? world->pace.ask : 300 * ROTA_MSEC;
    (void)unused;
    rota_sim_call(world->sim, now + wait, ask_call, world, 0);
    for (uint32_t i = 0; i < NODES; i++) {
        uint32_t other = any_other(world, i);
        if (!world->nodes[i].is_told && by_chance(world, 30))
            told_call(world, i);
        if (is_well(world, i) && is_well(world, other) && by_chance(world, 50))
            hear_nodes(world, i, other);
        say_bye(world, i);
    }
}

/* --- a node that comes back --- */

/* Whether a node knows that one of those that hear may hold jobs. It asks that one for any job,
 * also when its list no longer names it. */
static bool asks_one(const struct world *world, uint32_t number, const bool hears[NODES])
{
    struct rota_broker_node_view view;
    for (size_t place = 0; rota_broker_next_node(world->nodes[number].core, &place, &view);)
        if (view.may_hold && hears[view.address.data[0] - 'a'])
            return true;
    return false;
}

/* A node that has left comes back when one of the others hears that, and each other one hears it,
 * too, or asks one that does, or is down, and asks when it starts. Where nodes find each other in a
 * store, its row is there before it is back, and every list that is read from then on names it.
 * Here lists are any, so that without this rule a node would deny a job that it can't know of. */
static bool is_noticed(const struct world *world, uint32_t number, const bool hears[NODES])
{
    bool is_heard = false;
    for (uint32_t i = 0; i < NODES; i++) {
        is_heard = is_heard || hears[i];
        if (i != number && !hears[i] && world->nodes[i].core && !asks_one(world, i, hears))
            return false;
    }
    return is_heard;
}

static void draw_crowd(struct world *world, uint32_t number, const bool hears[NODES])
{
    uint32_t unaware = any_other(world, number);
    if (hears[unaware])
        unaware = NODES - number - unaware; /* the third one: 0 + 1 + 2 = NODES */
    if (!hears[unaware] && rota_sim_now(world->sim) < QUIET_AT)
        world->crowd = (struct crowd){number, unaware, rota_sim_now(world->sim) + CROWD_FOR};
}

bool has_crowd(const struct world *world)
{
    return rota_sim_now(world->sim) < world->crowd.until;
}

uint32_t any_node(struct world *world, bool is_later)
{
    if (has_crowd(world) && by_chance(world, 60))
        return is_later ? world->crowd.unaware : world->crowd.back;
    return (uint32_t)rota_random_range(world->random, 0, NODES - 1);
}

uint32_t any_partition(struct world *world)
{
    uint32_t part = (uint32_t)rota_random_range(world->random, 0, PARTS - 1);
    const uint8_t *owners = world->nodes[world->crowd.back].owners;
    for (int i = 0; i < PARTS && has_crowd(world) && owners[part] != world->crowd.back; i++)
        part = (part + 1) % PARTS;
    return part;
}

static void start_call(void *data, uint64_t number)
{
    rota_sim_start(((struct world *)data)->sim, (uint32_t)number);
}

static void knock_out(struct world *world, uint32_t number)
{
    rota_time now = rota_sim_now(world->sim),
              again = now + rota_random_range(world->random, 0, 600 * ROTA_MSEC);
    if (now >= QUIET_AT)
        return;
    rota_sim_crash(world->sim, number);
    rota_sim_call(world->sim, again, start_call, world, number);
}

/* --- lists --- */

/* Who is listed is known here, and others hear that this node is, if it is. */
static void note_nodes(struct world *world, uint32_t number, const bool hears[NODES])
{
    struct node *node = &world->nodes[number];
    rota_broker_nodes_begin(node->core, now_of(world, number));
    for (uint32_t i = 0; i < NODES; i++)
        if (is_listed(node, i))
            rota_broker_node_listed(node->core, rota_str(ADDRESSES[i]), true, NULL);
    rota_broker_nodes_end(node->core);
    drive(world, number);
    if (is_listed(node, number))
        speak(world, number, true, hears);
}

/* Go by the list that was received last, if that is possible now. */
static void follow(struct world *world, uint32_t number)
{
    struct node *node = &world->nodes[number];
    bool hears[NODES], is_back = node->has_left && is_owner(node->news, number);
    draw_hearers(world, number, hears);
    node->has_news = !is_well(world, number) || (is_back && !is_noticed(world, number, hears));
    if (node->has_news)
        return;
    memcpy(node->owners, node->news, sizeof node->owners);
    if (is_back) {
        node->has_left = false;
        draw_crowd(world, number, hears);
    }
    note_nodes(world, number, hears);
    step(world, number, (struct rota_handover_event){.type = ROTA_HANDOVER_LOOK});
}

void start_list(struct world *world, uint32_t number)
{
    struct node *node = &world->nodes[number];
    const bool hears[NODES] = {false};
    node->is_told = false;
    rota_sim_call(world->sim,
                  rota_sim_now(world->sim) + rota_random_range(world->random, 0, world->pace.start),
                  told_call, world, number);
    if (node->has_left)
        note_nodes(world, number, hears);
    follow(world, number);
}

/* What a node does as soon as it can. */
static void turn_call(void *data, uint64_t unused)
{
    struct world *world = data;
    (void)unused;
    rota_sim_call(world->sim, rota_sim_now(world->sim) + 100 * ROTA_MSEC, turn_call, world, 0);
    for (uint32_t i = 0; i < NODES; i++) {
        if (world->nodes[i].has_news)
            follow(world, i);
        if (!world->nodes[i].has_left)
            say_bye(world, i);
    }
}

/* Node and owners in one number. Another node may be down when one that has left comes back. */
static void learn_call(void *data, uint64_t list)
{
    struct world *world = data;
    uint32_t number = (uint32_t)(list & 0xff);
    struct node *node = &world->nodes[number];
    for (int i = 0; i < PARTS; i++)
        node->news[i] = (uint8_t)(list >> 8 * (i + 1) & 0xff);
    if (node->has_left && is_owner(node->news, number) && by_chance(world, 30))
        knock_out(world, any_other(world, number));
    follow(world, number);
}

/* Some nodes are off the list for a while, and come back. */
static void choose_nodes(struct world *world)
{
    uint32_t one = (uint32_t)rota_random_range(world->random, 0, NODES - 1);
    bool is_alone = by_chance(world, 50), are_all = true;
    if (!world->pace.has_returns && by_chance(world, 40))
        return;
    for (uint32_t i = 0; i < NODES; i++)
        are_all = are_all && !world->is_off[i];
    for (uint32_t i = 0; i < NODES; i++)
        world->is_off[i] = are_all && (i == one) != is_alone;
}

static uint64_t choose_owners(struct world *world)
{
    uint64_t owners = 0;
    for (int i = 0; i < PARTS; i++) {
        uint32_t owner = (uint32_t)rota_random_range(world->random, 0, NODES - 1);
        while (world->is_off[owner])
            owner = (owner + 1) % NODES;
        owners |= (uint64_t)owner << 8 * (i + 1);
    }
    return owners;
}

/* All nodes agree in the end. Until then one may receive the list before the last one once more. */
static void send_last(struct world *world, uint64_t list, uint64_t before)
{
    for (uint32_t i = 0; i < NODES; i++) {
        rota_time wait = rota_random_range(world->random, 0, SETTLED_AFTER);
        if (by_chance(world, 50))
            rota_sim_call(world->sim, QUIET_AT + wait, learn_call, world, before | i);
        rota_sim_call(world->sim, QUIET_AT + SETTLED_AFTER, learn_call, world, list | i);
    }
}

/* A list reaches each node at another time, and now and then each node gets another one. One that
 * comes back may be the first to know. */
static void send_list(struct world *world, uint64_t list, const bool was_off[NODES])
{
    bool is_return = false, is_torn = by_chance(world, 25);
    for (uint32_t i = 0; i < NODES; i++)
        is_return = is_return || (was_off[i] && !world->is_off[i]);
    for (uint32_t i = 0; i < NODES; i++) {
        rota_time wait = rota_random_range(world->random, 0, world->pace.learn);
        if (world->pace.has_returns && is_return && !was_off[i])
            wait += rota_random_range(world->random, 0, 2 * ROTA_SEC);
        if (is_torn)
            list = choose_owners(world);
        rota_sim_call(world->sim, rota_sim_now(world->sim) + wait, learn_call, world, list | i);
    }
}

static void route_call(void *data, uint64_t unused)
{
    struct world *world = data;
    bool was_off[NODES];
    uint64_t before = world->list;
    rota_time wait = world->pace.has_returns
                         ? rota_random_range(world->random, 2 * ROTA_SEC, 5 * ROTA_SEC)
                         : rota_sim_exponential(world->random, world->pace.route);
    rota_time next = rota_sim_now(world->sim) + wait;
    (void)unused;
    memcpy(was_off, world->is_off, sizeof was_off);
    choose_nodes(world);
    world->list = choose_owners(world);
    send_list(world, world->list, was_off);
    if (next < QUIET_AT)
        rota_sim_call(world->sim, next, route_call, world, 0);
    else
        send_last(world, world->list, before);
}

/* --- the world --- */

static rota_time pick(struct rota_random *random, int64_t a, int64_t b, int64_t c)
{
    const int64_t values[] = {a, b, c};
    return values[rota_random_range(random, 0, 2)];
}

static rota_time pick_ms(struct rota_random *random, int64_t a, int64_t b, int64_t c)
{
    return pick(random, a, b, c) * ROTA_MSEC;
}

struct pace choose_pace(uint64_t seed)
{
    struct rota_random random;
    struct pace pace;
    rota_random_init(&random, seed);
    pace.delay = pick_ms(&random, 10, 40, 150);
    pace.sync = pick_ms(&random, 20, 100, 300);
    pace.crash = pick_ms(&random, 500, 1000, 3000);
    pace.route = pick_ms(&random, 800, 2000, 6000);
    pace.learn = pick_ms(&random, 200, 1000, LEARN_MAX / ROTA_MSEC);
    pace.ask = pick_ms(&random, 300, 1000, 3000);
    pace.start = pick_ms(&random, 100, 300, 1000);
    pace.heard = (int)pick(&random, 40, 60, 80);
    pace.content = (int)pick(&random, 10, 50, 90);
    pace.has_returns = rota_random_range(&random, 0, 1) == 0;
    if (pace.has_returns) {
        pace.crash = pace.ask = 3 * ROTA_SEC;
        pace.start = ROTA_SEC;
        pace.learn = 300 * ROTA_MSEC;
    }
    return pace;
}

void begin_lists(struct world *world)
{
    for (uint32_t i = 0; i < NODES; i++)
        for (uint8_t k = 0; k < PARTS; k++)
            world->nodes[i].owners[k] = world->nodes[i].news[k] = k % NODES;
    rota_sim_call(world->sim, ROTA_SEC, route_call, world, 0);
    rota_sim_call(world->sim, ROTA_SEC, ask_call, world, 0);
    rota_sim_call(world->sim, ROTA_SEC, turn_call, world, 0);
}
