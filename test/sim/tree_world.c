#include "tree_world.h"

_Static_assert(sizeof(struct message) == 10 * 4 + 6 * 8, "there are holes in a message");

const char *const QUEUES[N_QUEUES] = {"mail", "film", "sums"};

struct totals totals;

rota_time mono(const struct world *world, uint32_t node)
{
    return rota_sim_mono(world->sim, node);
}

struct rota_str can_text(uint32_t can, char text[2 * N_NAMES])
{
    size_t size = 0;
    for (uint32_t i = 0; i < N_NAMES; i++)
        if (can >> i & 1) {
            text[size++] = (char)('a' + i);
            text[size++] = ' ';
        }
    return rota_str_of(text, size);
}

uint32_t can_mask(struct rota_str text)
{
    uint32_t can = 0;
    for (size_t i = 0; i < text.size; i += 2)
        can |= 1u << (text.data[i] - 'a');
    return can;
}

uint32_t queue_of(struct rota_str name)
{
    uint32_t queue = 0;
    while (!rota_str_is_equal(name, rota_str(QUEUES[queue])))
        queue++;
    return queue;
}

uint32_t node_of(const struct world *world, struct rota_str name)
{
    uint32_t node = 0;
    while (!rota_str_is_equal(name, rota_str(world->names[node])))
        node++;
    return node;
}

bool can_do(const struct worker *worker, const struct job *job)
{
    return (worker->can & job->can) == job->can && worker->queues >> job->queue & 1;
}

/* --- the route --- */

struct viewer viewers[NODES_MAX];

struct rota_str owner(void *data, struct rota_str queue, uint32_t partition)
{
    const struct viewer *viewer = (const struct viewer *)data;
    const struct world *world = viewer->world;
    uint64_t mix = rota_sim_seed(world->sim) * 1000003 +
                   (uint64_t)world->nodes[viewer->node].view * 7919 + queue_of(queue) * 104729 +
                   partition;
    return rota_str(world->names[rota_random_mix(&mix) % world->n_nodes]);
}

struct rota_str node_at(void *data, size_t index)
{
    const struct world *world = ((const struct viewer *)data)->world;
    return rota_str(index < world->n_nodes ? world->names[index] : "");
}

/* --- calls --- */

void post(struct world *world, uint32_t from, uint32_t to, const struct message *message)
{
    rota_sim_send(world->sim, from, to, rota_str_of(message, sizeof *message));
}

void call(struct world *world, uint32_t from, uint32_t to, struct message message, uint32_t worker,
          uint32_t trip)
{
    struct node *node = &world->nodes[from];
    rota_time timeout = message.type == VISIT ? 2 * CALL_TIMEOUT : CALL_TIMEOUT;
    for (size_t i = 0; i < CALLS_MAX; i++) {
        struct call *place = &node->calls[i];
        if (place->number)
            continue;
        if (i >= node->calls_end)
            node->calls_end = i + 1;
        message.call = ++node->n_calls;
        message.until = rota_sim_now(world->sim) + timeout;
        *place =
            (struct call){message.call, to, worker, trip, mono(world, from) + timeout, message};
        post(world, from, to, &message);
        return;
    }
    rota_sim_fail(world->sim, "node %u has too many calls under way", from);
}

void answer(struct world *world, uint32_t from, uint32_t to, const struct message *to_what,
            struct message message)
{
    message.call = to_what->call;
    post(world, from, to, &message);
}
