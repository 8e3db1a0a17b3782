#include "core/work/cluster/tally.h"

#include <string.h>

/* A worker of a queue. */
struct entry {
    size_t node;           /* that `here` is of */
    uint64_t here, n_free; /* slots: at that node so far, and at the node with most */
    uint64_t n_running;
    struct entry *next; /* of the same queue */
};

struct queue {
    struct entry *first;
};

void rota_tally_init(struct rota_tally *tally, uint64_t seed)
{
    *tally = (struct rota_tally){0};
    rota_map_init(&tally->by_queue, seed);
    rota_map_init(&tally->by_worker, seed);
}

void rota_tally_deinit(struct rota_tally *tally)
{
    rota_map_deinit(&tally->by_queue);
    rota_map_deinit(&tally->by_worker);
    rota_arena_deinit(&tally->arena);
}

static void *take_zeroed(struct rota_tally *tally, size_t size)
{
    void *made = rota_arena_take(&tally->arena, size);
    if (made)
        memset(made, 0, size);
    return made;
}

static struct queue *find_queue(struct rota_tally *tally, struct rota_str name)
{
    struct queue *queue = rota_map_get(&tally->by_queue, name);
    if (queue)
        return queue;
    struct rota_str key = rota_arena_copy(&tally->arena, name);
    queue = take_zeroed(tally, sizeof *queue);
    return key.data && queue && rota_map_put(&tally->by_queue, key, queue) ? queue : NULL;
}

/* Names of queues have no NUL in them. */
static struct rota_str key_of(struct rota_tally *tally, struct rota_str queue,
                              struct rota_str worker)
{
    char *key = rota_arena_take(&tally->arena, queue.size + 1 + worker.size);
    if (!key)
        return rota_str_of(NULL, 0);
    memcpy(key, queue.data, queue.size);
    key[queue.size] = '\0';
    memcpy(key + queue.size + 1, worker.data, worker.size);
    return rota_str_of(key, queue.size + 1 + worker.size);
}

static struct entry *find_entry(struct rota_tally *tally, struct rota_str queue_name,
                                struct rota_str worker)
{
    struct queue *queue = find_queue(tally, queue_name);
    struct rota_str key = queue ? key_of(tally, queue_name, worker) : rota_str_of(NULL, 0);
    if (!key.data)
        return NULL;
    struct entry *entry = worker.size > 0 ? rota_map_get(&tally->by_worker, key) : NULL;
    if (entry)
        return entry;
    entry = take_zeroed(tally, sizeof *entry);
    if (!entry || (worker.size > 0 && !rota_map_put(&tally->by_worker, key, entry)))
        return NULL;
    entry->next = queue->first;
    queue->first = entry;
    return entry;
}

bool rota_tally_add(struct rota_tally *tally, size_t node, struct rota_str queue,
                    struct rota_str worker, uint64_t slots, uint64_t n_running)
{
    struct entry *entry = find_entry(tally, queue, worker);
    if (!entry)
        return false;
    if (entry->node != node)
        entry->here = 0;
    entry->node = node;
    entry->here += slots > n_running ? slots - n_running : 0;
    entry->n_running += n_running;
    if (entry->here > entry->n_free)
        entry->n_free = entry->here;
    return true;
}

struct rota_tally_sum rota_tally_of(const struct rota_tally *tally, struct rota_str queue)
{
    const struct queue *found = rota_map_get(&tally->by_queue, queue);
    struct rota_tally_sum sum = {0};
    for (const struct entry *entry = found ? found->first : NULL; entry; entry = entry->next) {
        sum.n_workers++;
        sum.n_free += entry->n_free;
        sum.n_slots += entry->n_free + entry->n_running;
    }
    return sum;
}
