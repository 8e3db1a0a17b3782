#include "sim/world.h"

#include <assert.h>
#include <string.h>

bool rota_sim_net_link_is_valid(const struct rota_sim_link *link)
{
    return link->delay_min >= 0 && link->delay_min <= link->delay_mean &&
           link->delay_mean <= link->delay_max && link->delay_max <= ROTA_SIM_TIME_MAX &&
           link->loss >= 0 && link->loss <= 1 && link->duplication >= 0 && link->duplication <= 1;
}

struct rota_sim_link rota_sim_net_link_normal(struct rota_sim_link link)
{
    if (link.delay_max == 0 && link.delay_mean == 0 && link.delay_min == 0) {
        link.delay_min = ROTA_MSEC;
        link.delay_mean = 5 * ROTA_MSEC;
        link.delay_max = 200 * ROTA_MSEC;
    }
    return link;
}

/* -ln(1 - x / 2^33) * 2^32 for x in [0, 2^32): twice the series of the inverse
 * hyperbolic tangent, whose argument stays below a third. */
static uint64_t minus_log(uint64_t x)
{
    const uint64_t one = (uint64_t)1 << 32;
    uint64_t z = (x << 31) / (2 * one - x / 2), z2 = z * z >> 32, sum = 0;
    for (uint64_t odd = 15; odd > 1; odd -= 2)
        sum = (one / odd + sum) * z2 >> 32;
    return 2 * (z * (one + sum) >> 32);
}

/* An exponential duration is a geometric number of whole halvings, and a rest within one of
 * them. */
rota_time rota_sim_exponential(struct rota_random *random, rota_time mean)
{
    const uint64_t ln2 = 2977044472; /* times 2^32 */
    assert(mean >= 0);
    uint64_t bits = rota_random_next(random);
    uint64_t halvings = (uint64_t)__builtin_ctzll(bits | (uint64_t)1 << 32);
    __extension__ unsigned __int128 span = halvings * ln2 + minus_log(bits >> 32);
    span = span * (uint64_t)mean >> 32;
    return span > INT64_MAX ? INT64_MAX : (rota_time)span;
}

/* --- connectivity --- */

void rota_sim_block(struct rota_sim *sim, uint32_t from, uint32_t to, bool is_blocked)
{
    struct rota_sim_node *sender = rota_sim_get(sim, from);
    rota_sim_get(sim, to);
    if (!sender->blocked && is_blocked)
        sender->blocked = calloc(sim->options.n_nodes, sizeof *sender->blocked);
    if (!sender->blocked && is_blocked) {
        rota_sim_fail(sim, "not enough memory to cut node %u off", from);
        return;
    }
    if (!sender->blocked || sender->blocked[to] == is_blocked)
        return;
    sender->blocked[to] = is_blocked;
    rota_sim_trace_record_number(sim, ROTA_SIM_BLOCKED, from, to, is_blocked);
}

void rota_sim_split(struct rota_sim *sim, const uint8_t *groups)
{
    for (uint32_t i = 0; i < sim->options.n_nodes; i++) {
        sim->nodes[i].group = groups[i];
        rota_sim_trace_record_number(sim, ROTA_SIM_SPLIT, i, ROTA_SIM_NO_NODE, groups[i]);
    }
}

void rota_sim_heal(struct rota_sim *sim)
{
    for (uint32_t i = 0; i < sim->options.n_nodes; i++) {
        struct rota_sim_node *node = &sim->nodes[i];
        node->group = 0;
        if (node->blocked)
            memset(node->blocked, 0, sim->options.n_nodes * sizeof *node->blocked);
    }
    rota_sim_trace_record_number(sim, ROTA_SIM_HEALED, ROTA_SIM_NO_NODE, ROTA_SIM_NO_NODE, 0);
}

void rota_sim_set_link(struct rota_sim *sim, uint32_t from, uint32_t to,
                       const struct rota_sim_link *link)
{
    struct rota_sim_node *sender = rota_sim_get(sim, from);
    rota_sim_get(sim, to);
    if (!sender->links && link)
        sender->links = calloc(sim->options.n_nodes, sizeof *sender->links);
    if (!sender->links && link) {
        rota_sim_fail(sim, "not enough memory for a link of node %u", from);
        return;
    }
    if (!sender->links)
        return;
    sender->links[to] = link ? rota_sim_net_link_normal(*link) : (struct rota_sim_link){0};
    assert(rota_sim_net_link_is_valid(&sender->links[to]));
}

/* --- messages --- */

static void send_copy(struct rota_sim *sim, const struct rota_sim_link *link, uint32_t from,
                      uint32_t to, struct rota_str message)
{
    struct rota_sim_pending *event =
        rota_sim_pending_new(sim, ROTA_SIM_WAIT_MESSAGE, to, message.size);
    if (!event)
        return;
    event->from = from;
    if (message.size)
        memcpy(event->bytes, message.data, message.size);
    rota_time tail = rota_sim_exponential(&sim->own, link->delay_mean - link->delay_min);
    rota_time delay = rota_time_min(rota_time_add(link->delay_min, tail), link->delay_max);
    rota_sim_pending_put(sim, &sim->queue, event, sim->now + delay);
}

void rota_sim_send(struct rota_sim *sim, uint32_t from, uint32_t to, struct rota_str message)
{
    const struct rota_sim_node *sender = rota_sim_get(sim, from), *receiver = rota_sim_get(sim, to);
    const struct rota_sim_link *link = &sim->options.link;
    assert(sender->is_up);
    if (sender->links && sender->links[to].delay_max > 0)
        link = &sender->links[to];

    bool is_cut = sender->group != receiver->group || (sender->blocked && sender->blocked[to]);
    if (from != to && (is_cut || rota_random_chance(&sim->own, link->loss))) {
        rota_sim_trace_record(
            sim, (struct rota_sim_event){
                     .kind = ROTA_SIM_LOST, .node = from, .peer = to, .bytes = message});
        return;
    }
    send_copy(sim, link, from, to, message);
    if (from != to && rota_random_chance(&sim->own, link->duplication))
        send_copy(sim, link, from, to, message);
}
