#include <rota/experimental/picker.h>

#include "base/list.h"
#include "base/map.h"
#include "base/vector.h"
#include <rota/experimental/random.h>

#include <assert.h>
#include <stdlib.h>

/* What is known about one partition. It counts the polls picked after `born`: an older one belongs
 * to a count that was forgotten when the queue shrank. */
struct cell {
    uint64_t born;
    uint32_t count;
};

struct balancer {
    struct cell *cells;
    size_t n_cells;
    size_t n_polls;             /* outstanding, also of forgotten partitions: slots point here */
    struct rota_list_node link; /* in the list of the idle, while n_polls is 0 */
    rota_time idle_at;
    size_t key_size;
    char key[];
};

struct slot {
    struct balancer *balancer;
    uint64_t serial; /* of the poll that is here, 0: free */
    uint32_t partition;
    uint32_t next_free;
};

struct forced {
    enum rota_picker_side side;
    bool is_for_all;
    int64_t partition;
    size_t size;
    char namespace_id[ROTA_QUEUE_NAME_MAX];
};

struct rota_picker {
    struct rota_map balancers;
    size_t n_cells;             /* of all balancers */
    struct rota_list_node idle; /* balancers, in the order in which they became so */
    rota_time now;              /* the latest time passed in */
    ROTA_VECTOR(struct slot) slots;
    uint32_t first_free;
    size_t n_polls;
    uint64_t serial; /* of the last pick */
    ROTA_VECTOR(struct forced) forced;
};

#define NO_SLOT UINT32_MAX

/* Room for any queue's key: type, size of the namespace, namespace, name. */
enum { KEY_MAX = 3 + 2 * ROTA_QUEUE_NAME_MAX };

enum rota_code rota_picker_new(uint64_t seed, struct rota_picker **picker, struct rota_error *error)
{
    struct rota_picker *p = calloc(1, sizeof *p);
    if (!p)
        return rota_error_no_memory(error, "to choose partitions to poll");
    rota_list_init(&p->idle);
    rota_map_init(&p->balancers, seed);
    p->first_free = NO_SLOT;
    p->now = ROTA_TIME_MIN;
    *picker = p;
    return ROTA_OK;
}

static void balancer_free(struct balancer *balancer)
{
    free(balancer->cells);
    free(balancer);
}

void rota_picker_free(struct rota_picker *picker)
{
    const struct rota_map_entry *entry;
    size_t place = 0;
    if (!picker)
        return;
    while ((entry = rota_map_next(&picker->balancers, &place)))
        balancer_free(entry->value);
    rota_map_deinit(&picker->balancers);
    rota_vector_deinit(&picker->slots);
    rota_vector_deinit(&picker->forced);
    free(picker);
}

/* --- forced choices --- */

static struct forced *find_forced(const struct rota_picker *picker, enum rota_picker_side side,
                                  const struct rota_str *namespace_id)
{
    for (size_t i = 0; i < picker->forced.size; i++) {
        struct forced *forced = &picker->forced.items[i];
        struct rota_str own = rota_str_of(forced->namespace_id, forced->size);
        if (forced->side == side && forced->is_for_all == !namespace_id &&
            (!namespace_id || rota_str_is_equal(own, *namespace_id)))
            return forced;
    }
    return NULL;
}

/* The partition that is forced on the namespace, or -1. */
static int64_t forced_partition(const struct rota_picker *picker, enum rota_picker_side side,
                                struct rota_str namespace_id)
{
    const struct forced *forced = find_forced(picker, side, &namespace_id);
    if (!forced)
        forced = find_forced(picker, side, NULL);
    return forced ? forced->partition : -1;
}

/* --- writes --- */

static enum rota_code check_count(int64_t *n, struct rota_error *error)
{
    if (*n > ROTA_PARTITIONS_MAX)
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "picker: %lld partitions are too many; a queue has at most %d",
                              (long long)*n, ROTA_PARTITIONS_MAX);
    if (*n < 1)
        *n = 1;
    return ROTA_OK;
}

enum rota_code rota_picker_write(const struct rota_picker *picker, struct rota_str namespace_id,
                                 int64_t n, struct rota_random *random, int64_t *partition,
                                 struct rota_error *error)
{
    enum rota_code code = check_count(&n, error);
    if (code)
        return code;
    int64_t forced = forced_partition(picker, ROTA_PICKER_WRITE, namespace_id);
    *partition = forced >= 0 ? forced : (int64_t)rota_random_below(random, (uint64_t)n);
    return ROTA_OK;
}

/* --- balancers --- */

static void link_idle(struct rota_picker *picker, struct balancer *balancer)
{
    balancer->idle_at = picker->now;
    rota_list_push(&picker->idle, &balancer->link);
}

/* Forget a balancer without polls, which is in no list. */
static void forget_balancer(struct rota_picker *picker, struct balancer *balancer)
{
    assert(balancer->n_polls == 0);
    rota_map_remove(&picker->balancers, rota_str_of(balancer->key, balancer->key_size));
    picker->n_cells -= balancer->n_cells;
    balancer_free(balancer);
}

static bool forget_oldest(struct rota_picker *picker)
{
    struct balancer *balancer = ROTA_LIST_FIRST(&picker->idle, struct balancer, link);
    if (!balancer)
        return false;
    rota_list_remove(&balancer->link);
    forget_balancer(picker, balancer);
    return true;
}

static enum rota_code check_queue(const struct rota_partition *queue, struct rota_error *error)
{
    struct rota_partition root = *queue;
    root.id = 0;
    if (queue->kind != ROTA_PARTITION_NORMAL)
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "picker: only a normal queue has partitions to choose from");
    return rota_partition_check(&root, error);
}

/* The key of a checked queue. The size of the namespace keeps concatenated names unambiguous. */
static struct rota_str key_of(const struct rota_partition *queue, char text[KEY_MAX])
{
    struct rota_str namespace_id = queue->namespace_id, name = queue->queue;
    char *end = text;
    *end++ = (char)queue->type;
    *end++ = (char)(namespace_id.size & 0xff);
    *end++ = (char)(namespace_id.size >> 8);
    if (namespace_id.size > 0)
        memcpy(end, namespace_id.data, namespace_id.size);
    end += namespace_id.size;
    if (name.size > 0)
        memcpy(end, name.data, name.size);
    end += name.size;
    return rota_str_of(text, (size_t)(end - text));
}

static enum rota_code balancer_new(struct rota_picker *picker, struct rota_str key,
                                   struct balancer **balancer, struct rota_error *error)
{
    if (picker->balancers.size >= ROTA_PICKER_QUEUES_MAX && !forget_oldest(picker))
        return rota_error_set(error, ROTA_ERR_LIMIT,
                              "picker: %d queues already have outstanding polls, the maximum",
                              ROTA_PICKER_QUEUES_MAX);
    struct balancer *b = calloc(1, sizeof *b + key.size);
    if (b) {
        memcpy(b->key, key.data, key.size);
        b->key_size = key.size;
    }
    if (!b || !rota_map_put(&picker->balancers, rota_str_of(b->key, b->key_size), b)) {
        free(b);
        return rota_error_no_memory(error, "for the counts of a queue");
    }
    *balancer = b;
    return ROTA_OK;
}

/* Have counts for exactly `n` partitions, n > 0. The array is never larger than
 * that, so that the bound on cells bounds memory. */
static enum rota_code resize_counts(struct rota_picker *picker, struct balancer *balancer, size_t n,
                                    struct rota_error *error)
{
    size_t had = balancer->n_cells;
    if (n == had)
        return ROTA_OK;
    while (picker->n_cells - had + n > ROTA_PICKER_PARTITIONS_MAX)
        if (!forget_oldest(picker))
            return rota_error_set(error, ROTA_ERR_LIMIT,
                                  "picker: %zu more partitions exceed the limit of %d", n - had,
                                  ROTA_PICKER_PARTITIONS_MAX);

    struct cell *cells = realloc(balancer->cells, n * sizeof *cells);
    if (!cells && n > had)
        return rota_error_no_memory(error, "to count %zu partitions", n);
    if (cells)
        balancer->cells = cells;
    for (size_t i = had; i < n; i++)
        balancer->cells[i] = (struct cell){.born = picker->serial};
    picker->n_cells = picker->n_cells - had + n;
    balancer->n_cells = n;
    return ROTA_OK;
}

/* The balancer of a queue, out of the list of the idle and with counts for `n`
 * partitions; it is about to have a poll. */
static enum rota_code use_balancer(struct rota_picker *picker, const struct rota_partition *queue,
                                   size_t n, struct balancer **balancer, struct rota_error *error)
{
    char text[KEY_MAX];
    struct rota_str key = key_of(queue, text);
    struct balancer *b = rota_map_get(&picker->balancers, key);
    enum rota_code code = b ? ROTA_OK : balancer_new(picker, key, &b, error);
    if (code)
        return code;

    if (b->n_cells > 0 && b->n_polls == 0) /* not one that is just made */
        rota_list_remove(&b->link);
    code = resize_counts(picker, b, n, error);
    if (code && b->n_polls == 0)
        forget_balancer(picker, b); /* it holds nothing */
    if (!code)
        *balancer = b;
    return code;
}

/* --- reads --- */

static uint32_t fewest_polls(const struct balancer *balancer, struct rota_random *random)
{
    const struct cell *cells = balancer->cells;
    size_t n = balancer->n_cells;
    size_t start = rota_random_below(random, n), best = start;
    for (size_t i = 1; i < n && cells[best].count > 0; i++) {
        size_t next = start + i < n ? start + i : start + i - n;
        if (cells[next].count < cells[best].count)
            best = next;
    }
    return (uint32_t)best;
}

static void tell_time(struct rota_picker *picker, rota_time now)
{
    if (now > picker->now)
        picker->now = now;
}

/* A free slot; there is room for one. */
static uint32_t take_slot(struct rota_picker *picker)
{
    uint32_t index = picker->first_free;
    if (index == NO_SLOT)
        return (uint32_t)picker->slots.size++;
    picker->first_free = picker->slots.items[index].next_free;
    return index;
}

enum rota_code rota_picker_read(struct rota_picker *picker, rota_time now,
                                const struct rota_partition *queue, int64_t n,
                                struct rota_random *random, struct rota_poll *poll,
                                struct rota_error *error)
{
    struct balancer *balancer;
    enum rota_code code;
    if ((code = check_count(&n, error)) || (code = check_queue(queue, error)))
        return code;
    if (picker->n_polls == ROTA_POLLS_MAX)
        return rota_error_set(error, ROTA_ERR_LIMIT,
                              "picker: %d polls are already outstanding, the maximum",
                              ROTA_POLLS_MAX);
    if (picker->first_free == NO_SLOT &&
        !rota_vector_reserve(&picker->slots, picker->slots.size + 1))
        return rota_error_no_memory(error, "for %zu polls", picker->n_polls);

    int64_t forced = forced_partition(picker, ROTA_PICKER_READ, queue->namespace_id);
    if (n <= forced)
        n = forced + 1;
    tell_time(picker, now);
    if ((code = use_balancer(picker, queue, (size_t)n, &balancer, error)))
        return code;

    uint32_t partition = forced >= 0 ? (uint32_t)forced : fewest_polls(balancer, random);
    uint32_t slot = take_slot(picker);
    uint64_t serial = ++picker->serial;
    balancer->cells[partition].count++;
    balancer->n_polls++;
    picker->n_polls++;
    picker->slots.items[slot] =
        (struct slot){.balancer = balancer, .serial = serial, .partition = partition};
    *poll = (struct rota_poll){.partition = partition, .serial = serial, .slot = slot};
    return ROTA_OK;
}

bool rota_picker_release(struct rota_picker *picker, rota_time now, struct rota_poll poll)
{
    tell_time(picker, now);
    if (poll.serial == 0 || poll.slot >= picker->slots.size)
        return false;
    struct slot *slot = &picker->slots.items[poll.slot];
    if (slot->serial != poll.serial)
        return false;

    struct balancer *balancer = slot->balancer;
    if (slot->partition < balancer->n_cells && balancer->cells[slot->partition].born < slot->serial)
        balancer->cells[slot->partition].count--;
    if (--balancer->n_polls == 0)
        link_idle(picker, balancer);
    picker->n_polls--;
    *slot = (struct slot){.next_free = picker->first_free};
    picker->first_free = poll.slot;
    return true;
}

void rota_picker_step(struct rota_picker *picker, rota_time now)
{
    tell_time(picker, now);
    while (rota_picker_deadline(picker) <= picker->now && forget_oldest(picker))
        ;
}

rota_time rota_picker_deadline(const struct rota_picker *picker)
{
    const struct balancer *oldest = ROTA_LIST_FIRST(&picker->idle, struct balancer, link);
    return oldest ? rota_time_add(oldest->idle_at, ROTA_PICKER_IDLE) : ROTA_TIME_NEVER;
}

/* --- looking inside --- */

size_t rota_picker_n_queues(const struct rota_picker *picker)
{
    return picker->balancers.size;
}

size_t rota_picker_n_polls(const struct rota_picker *picker)
{
    return picker->n_polls;
}

size_t rota_picker_counts(const struct rota_picker *picker, const struct rota_partition *queue,
                          uint32_t *counts, size_t size)
{
    char text[KEY_MAX];
    if (check_queue(queue, NULL))
        return 0;
    const struct balancer *balancer = rota_map_get(&picker->balancers, key_of(queue, text));
    if (!balancer)
        return 0;
    for (size_t i = 0; i < size && i < balancer->n_cells; i++)
        counts[i] = balancer->cells[i].count;
    return balancer->n_cells;
}

/* --- forcing --- */

enum rota_code rota_picker_force(struct rota_picker *picker, enum rota_picker_side side,
                                 const struct rota_str *namespace_id, int64_t partition,
                                 struct rota_error *error)
{
    if (partition < 0 || partition >= ROTA_PARTITIONS_MAX)
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "picker: forced partition %lld is not within 0 to %d",
                              (long long)partition, ROTA_PARTITIONS_MAX - 1);
    if (namespace_id && namespace_id->size > ROTA_QUEUE_NAME_MAX)
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "picker: the namespace has %zu bytes; at most %d are allowed",
                              namespace_id->size, ROTA_QUEUE_NAME_MAX);

    struct forced *known = find_forced(picker, side, namespace_id);
    if (known) {
        known->partition = partition;
        return ROTA_OK;
    }
    if (picker->forced.size == ROTA_PICKER_FORCED_MAX)
        return rota_error_set(error, ROTA_ERR_LIMIT, "picker: more than %d forced choices",
                              ROTA_PICKER_FORCED_MAX);
    struct forced forced = {.side = side, .is_for_all = !namespace_id, .partition = partition};
    if (namespace_id && namespace_id->size > 0) {
        memcpy(forced.namespace_id, namespace_id->data, namespace_id->size);
        forced.size = namespace_id->size;
    }
    if (!rota_vector_push(&picker->forced, forced))
        return rota_error_no_memory(error, "for a pinned poll");
    return ROTA_OK;
}

bool rota_picker_unforce(struct rota_picker *picker, enum rota_picker_side side,
                         const struct rota_str *namespace_id)
{
    struct forced *forced = find_forced(picker, side, namespace_id);
    if (!forced)
        return false;
    *forced = picker->forced.items[--picker->forced.size];
    return true;
}
