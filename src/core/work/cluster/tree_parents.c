#include "core/work/cluster/tree_inside.h"

#include "base/hash.h"

#include <assert.h>
#include <rota/experimental/partition.h>

bool rota_tree_parents_are_down(const struct rota_tree_fsm *fsm, struct rota_str node)
{
    return rota_map_get(&fsm->down, node) != NULL;
}

void rota_tree_parents_forget(struct rota_tree_queue *queue)
{
    for (size_t i = 0; i < queue->parents.size; i++)
        free(queue->parents.items[i]);
    queue->parents.size = 0;
    queue->has_parents = false;
}

static void add_parent(struct rota_tree_fsm *fsm, struct rota_tree_queue *queue,
                       struct rota_str owner)
{
    if (owner.size == 0 || owner.size > ROTA_TREE_NODE_MAX ||
        rota_str_is_equal(owner, rota_tree_self(fsm)) ||
        queue->parents.size >= ROTA_TREE_PARENTS_MAX)
        return;
    for (size_t i = 0; i < queue->parents.size; i++)
        if (rota_str_is_equal(rota_str(queue->parents.items[i]), owner))
            return;
    char *copy = malloc(owner.size + 1);
    if (!copy)
        return;
    memcpy(copy, owner.data, owner.size);
    copy[owner.size] = '\0';
    if (!rota_vector_push(&queue->parents, copy))
        free(copy);
}

static void add_owner(struct rota_tree_fsm *fsm, struct rota_tree_queue *queue, uint32_t partition)
{
    add_parent(fsm, queue,
               fsm->options.owner(fsm->options.data, rota_tree_queue_name(queue), partition));
}

/* Those with a lower address. */
static void add_nodes(struct rota_tree_fsm *fsm, struct rota_tree_queue *queue)
{
    struct rota_str node;
    for (size_t i = 0; queue->parents.size < ROTA_TREE_PARENTS_MAX; i++) {
        node = fsm->options.node(fsm->options.data, i);
        if (node.size == 0 || rota_str_compare(node, rota_tree_self(fsm)) >= 0)
            break;
        add_parent(fsm, queue, node);
    }
}

static uint32_t parent_of(const struct rota_tree_fsm *fsm, uint32_t partition)
{
    int64_t parent = 0;
    rota_partition_parent(partition, fsm->options.degree, &parent, NULL);
    return (uint32_t)parent;
}

void rota_tree_parents_find(struct rota_tree_fsm *fsm, struct rota_tree_queue *queue)
{
    uint32_t n = fsm->options.partitions, lowest = 0;
    assert(n > 0);
    if (queue->has_parents)
        return;
    rota_tree_parents_forget(queue);
    queue->has_parents = true;
    while (lowest < n && !rota_str_is_equal(fsm->options.owner(fsm->options.data,
                                                               rota_tree_queue_name(queue), lowest),
                                            rota_tree_self(fsm)))
        lowest++;
    uint32_t from = lowest;
    if (lowest == n) {
        from = rota_hash_finish32(rota_hash_farm32(rota_tree_self(fsm)) ^
                                  rota_hash_farm32(rota_tree_queue_name(queue))) %
               n;
        add_owner(fsm, queue, from);
    }
    while (from > 0) {
        from = parent_of(fsm, from);
        add_owner(fsm, queue, from);
    }
    for (uint32_t p = 1; p < lowest && queue->parents.size < ROTA_TREE_PARENTS_MAX; p++)
        add_owner(fsm, queue, p);
    if (lowest == n)
        add_nodes(fsm, queue);
}

struct rota_str rota_tree_parents_one(struct rota_tree_fsm *fsm, struct rota_str name)
{
    struct rota_tree_queue *queue = rota_tree_words_need_queue(fsm, name);
    if (!queue)
        return rota_str("");
    rota_tree_parents_find(fsm, queue);
    for (size_t i = 0; i < queue->parents.size; i++)
        if (!rota_tree_parents_are_down(fsm, rota_str(queue->parents.items[i])))
            return rota_str(queue->parents.items[i]);
    return rota_str("");
}
