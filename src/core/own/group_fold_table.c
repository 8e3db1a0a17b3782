#include "core/own/group_fold_inside.h"

#include "base/hash.h"

#include <assert.h>
#include <stdlib.h>

/* --- by name --- */

static size_t home_of_hash(const struct rota_group_fold *fold, uint64_t hash)
{
    return (size_t)hash & (fold->index_capacity - 1);
}

static const struct rota_group_def *def_at(const struct rota_group_fold *fold, size_t slot)
{
    return fold->partitions.items[fold->index[slot] - 1].def;
}

/* Where the name is, or the free slot where it would go. */
static size_t find_slot(const struct rota_group_fold *fold, struct rota_group_name name)
{
    size_t slot = home_of_hash(fold, name.hash);
    while (fold->index[slot]) {
        const struct rota_group_def *def = def_at(fold, slot);
        if (def->name.hash == name.hash && rota_str_is_equal(def->name.text, name.text))
            break;
        slot = (slot + 1) & (fold->index_capacity - 1);
    }
    return slot;
}

uint32_t rota_group_fold_table_find(const struct rota_group_fold *fold, struct rota_group_name name)
{
    if (fold->index_size == 0)
        return ROTA_FOLD_NONE;
    uint32_t found = fold->index[find_slot(fold, name)];
    return found ? found - 1 : ROTA_FOLD_NONE;
}

static bool grow_index(struct rota_group_fold *fold, size_t size)
{
    size_t capacity = fold->index_capacity ? fold->index_capacity : 16;
    while (size * 4 > capacity * 3)
        capacity *= 2;
    if (capacity == fold->index_capacity)
        return true;
    uint32_t *bigger = calloc(capacity, sizeof *bigger);
    if (!bigger)
        return false;
    uint32_t *old = fold->index;
    size_t old_capacity = fold->index_capacity;
    fold->index = bigger;
    fold->index_capacity = capacity;
    for (size_t i = 0; i < old_capacity; i++)
        if (old[i])
            bigger[find_slot(fold, fold->partitions.items[old[i] - 1].def->name)] = old[i];
    free(old);
    return true;
}

/* Remove a name; later ones that would no longer be found move up. */
static void unindex_name(struct rota_group_fold *fold, struct rota_group_name name)
{
    size_t mask = fold->index_capacity - 1, hole = find_slot(fold, name);
    assert(fold->index[hole]);
    for (size_t i = (hole + 1) & mask; fold->index[i]; i = (i + 1) & mask) {
        size_t from = home_of_hash(fold, def_at(fold, i)->name.hash);
        if (((i - from) & mask) >= ((i - hole) & mask)) {
            fold->index[hole] = fold->index[i];
            hole = i;
        }
    }
    fold->index[hole] = 0;
    fold->index_size--;
}

/* --- partitions --- */

bool rota_group_fold_table_reserve(struct rota_group_fold *fold, size_t n)
{
    size_t wanted = fold->partitions.size + n;
    return rota_vector_reserve(&fold->partitions, wanted) &&
           rota_vector_reserve(&fold->touched, fold->partitions.capacity) &&
           rota_vector_reserve(&fold->edges, fold->edges.size + n) &&
           grow_index(fold, fold->index_size + n);
}

void rota_group_fold_table_touch(struct rota_group_fold *fold, uint32_t place)
{
    struct rota_group_partition *partition = &fold->partitions.items[place];
    if (partition->is_touched)
        return;
    partition->is_touched = true;
    fold->touched.items[fold->touched.size++] = place;
}

uint32_t rota_group_fold_table_add(struct rota_group_fold *fold, struct rota_group_def *def)
{
    uint32_t place = fold->free_partition;
    bool is_touched = false; /* by the former partition of this place, in this very record */
    if (place != ROTA_FOLD_NONE) {
        fold->free_partition = fold->partitions.items[place].next;
        is_touched = fold->partitions.items[place].is_touched;
    } else {
        place = (uint32_t)fold->partitions.size++;
    }
    fold->index[find_slot(fold, def->name)] = place + 1;
    fold->index_size++;
    fold->partitions.items[place] = (struct rota_group_partition){
        .def = rota_group_def_ref(def),
        .owner = ROTA_GROUP_NOBODY,
        .target = ROTA_GROUP_NOBODY,
        .edges = ROTA_FOLD_NONE,
        .previous = ROTA_FOLD_NONE,
        .next = ROTA_FOLD_NONE,
        .stage = ROTA_FOLD_NAMED,
        .is_touched = is_touched,
    };
    fold->n_named++;
    return place;
}

void rota_group_fold_table_make(struct rota_group_fold *fold, uint32_t place,
                                struct rota_group_def *def)
{
    struct rota_group_partition *partition = &fold->partitions.items[place];
    assert(partition->stage == ROTA_FOLD_NAMED);
    rota_group_def_ref(def);
    rota_group_def_unref(partition->def);
    partition->def = def;
    partition->stage = ROTA_FOLD_ALIVE;
    fold->n_named--;
    fold->n_partitions++;
    fold->n_unfinished++;
    if (fold->n_unfinished == 1)
        fold->is_watermark_known = false;
    else if (fold->is_watermark_known && partition->mark < fold->watermark)
        fold->watermark = partition->mark;
}

static void forget_watermark(struct rota_group_fold *fold, int64_t mark)
{
    if (mark <= fold->watermark)
        fold->is_watermark_known = false;
}

void rota_group_fold_table_set_position(struct rota_group_fold *fold, uint32_t place, int64_t mark,
                                        struct rota_blob *position)
{
    struct rota_group_partition *partition = &fold->partitions.items[place];
    if (mark != partition->mark)
        forget_watermark(fold, partition->mark < mark ? partition->mark : mark);
    partition->mark = mark;
    rota_group_blob_ref(position);
    rota_group_blob_unref(partition->position);
    partition->position = position;
}

/* --- names that are remembered, in the order of their removal --- */

static void forget_partition(struct rota_group_fold *fold, uint32_t place);

static void remember_removed(struct rota_group_fold *fold, uint32_t place)
{
    struct rota_group_partition *partition = &fold->partitions.items[place];
    partition->previous = fold->removed_last;
    partition->next = ROTA_FOLD_NONE;
    if (fold->removed_last != ROTA_FOLD_NONE)
        fold->partitions.items[fold->removed_last].next = place;
    else
        fold->removed_first = place;
    fold->removed_last = place;
    if (++fold->n_removed > ROTA_GROUP_REMEMBERED_MAX && !fold->is_loading)
        forget_partition(fold, fold->removed_first);
}

static void unlink_removed(struct rota_group_fold *fold, uint32_t place)
{
    struct rota_group_partition *items = fold->partitions.items, *partition = &items[place];
    if (partition->previous != ROTA_FOLD_NONE)
        items[partition->previous].next = partition->next;
    else
        fold->removed_first = partition->next;
    if (partition->next != ROTA_FOLD_NONE)
        items[partition->next].previous = partition->previous;
    else
        fold->removed_last = partition->previous;
    partition->previous = partition->next = ROTA_FOLD_NONE;
    fold->n_removed--;
}

static void forget_partition(struct rota_group_fold *fold, uint32_t place)
{
    struct rota_group_partition *partition = &fold->partitions.items[place];
    unlink_removed(fold, place);
    unindex_name(fold, partition->def->name);
    rota_group_def_unref(partition->def);
    partition->def = NULL;
    partition->next = fold->free_partition;
    fold->free_partition = place;
    fold->counts.n_forgotten++;
}

/* --- parents and children --- */

static void add_edge(struct rota_group_fold *fold, uint32_t parent, uint32_t child)
{
    uint32_t edge = fold->free_edge;
    if (edge != ROTA_FOLD_NONE)
        fold->free_edge = fold->edges.items[edge].next;
    else
        edge = (uint32_t)fold->edges.size++;
    fold->edges.items[edge] =
        (struct rota_group_edge){.child = child, .next = fold->partitions.items[parent].edges};
    fold->partitions.items[parent].edges = edge;
}

void rota_group_fold_table_link(struct rota_group_fold *fold, uint32_t place)
{
    struct rota_group_def *def = fold->partitions.items[place].def;
    for (uint32_t i = 0; i < def->n_parents; i++) {
        uint32_t at = rota_group_fold_table_find(fold, def->parents[i]);
        if (at == ROTA_FOLD_NONE) {
            struct rota_group_def *named =
                rota_group_def_new(def->parents[i].text, NULL, 0, rota_str(""));
            if (!named) {
                fold->is_out_of_memory = true;
                return;
            }
            at = rota_group_fold_table_add(fold, named);
            rota_group_def_unref(named);
        }
        struct rota_group_partition *parent = &fold->partitions.items[at];
        if (parent->stage == ROTA_FOLD_NAMED || parent->stage == ROTA_FOLD_ALIVE) {
            add_edge(fold, at, place);
            fold->partitions.items[place].n_parents_open++;
        } else if (parent->stage == ROTA_FOLD_REMOVED && parent->n_children == 0) {
            unlink_removed(fold, at); /* not forgotten as long as another partition refers to it */
        }
        parent->n_children++;
        rota_group_fold_table_touch(fold, at);
    }
}

/* Its children have one open parent less. */
static void free_children(struct rota_group_fold *fold, uint32_t place)
{
    uint32_t edge = fold->partitions.items[place].edges;
    fold->partitions.items[place].edges = ROTA_FOLD_NONE;
    while (edge != ROTA_FOLD_NONE) {
        struct rota_group_edge *at = &fold->edges.items[edge];
        uint32_t next = at->next;
        fold->partitions.items[at->child].n_parents_open--;
        rota_group_fold_table_touch(fold, at->child);
        at->next = fold->free_edge;
        fold->free_edge = edge;
        edge = next;
    }
}

/* Its parents have one unfinished child less. */
static void release_parents(struct rota_group_fold *fold, uint32_t place)
{
    const struct rota_group_def *def = fold->partitions.items[place].def;
    for (uint32_t i = 0; i < def->n_parents; i++) {
        uint32_t at = rota_group_fold_table_find(fold, def->parents[i]);
        assert(at != ROTA_FOLD_NONE && fold->partitions.items[at].n_children > 0);
        struct rota_group_partition *parent = &fold->partitions.items[at];
        rota_group_fold_table_touch(fold, at);
        if (--parent->n_children == 0 && parent->stage == ROTA_FOLD_REMOVED)
            remember_removed(fold, at);
    }
}

void rota_group_fold_table_finish(struct rota_group_fold *fold, uint32_t place)
{
    struct rota_group_partition *partition = &fold->partitions.items[place];
    assert(partition->stage == ROTA_FOLD_ALIVE && partition->n_parents_open == 0);
    partition->stage = ROTA_FOLD_FINISHED;
    fold->n_unfinished--;
    forget_watermark(fold, partition->mark);
    if (partition->owner != ROTA_GROUP_NOBODY)
        fold->tasks.items[partition->owner].load--;
    rota_group_fold_table_touch(fold, place);
    free_children(fold, place);
    release_parents(fold, place);
}

void rota_group_fold_table_remove(struct rota_group_fold *fold, uint32_t place)
{
    struct rota_group_partition *partition = &fold->partitions.items[place];
    rota_group_fold_table_give(fold, place, ROTA_GROUP_NOBODY, ROTA_GROUP_NOBODY);
    if (partition->stage == ROTA_FOLD_FINISHED)
        fold->n_partitions--;
    else
        fold->n_named--;
    partition->stage = ROTA_FOLD_REMOVED;
    partition->sharer = 0;
    partition->token = 0;
    partition->mark = 0;
    rota_group_blob_unref(partition->position);
    partition->position = NULL;
    rota_group_fold_table_touch(fold, place);
    remember_removed(fold, place);
}

/* --- owners and targets --- */

static uint32_t holder_of(const struct rota_group_partition *partition)
{
    return partition->owner != ROTA_GROUP_NOBODY ? partition->owner : partition->target;
}

static void unlink_from_holder(struct rota_group_fold *fold, uint32_t place)
{
    struct rota_group_partition *items = fold->partitions.items, *partition = &items[place];
    struct rota_group_task *task = &fold->tasks.items[holder_of(partition)];
    if (partition->previous != ROTA_FOLD_NONE)
        items[partition->previous].next = partition->next;
    else
        task->first = partition->next;
    if (partition->next != ROTA_FOLD_NONE)
        items[partition->next].previous = partition->previous;
    partition->previous = partition->next = ROTA_FOLD_NONE;
    task->load -= partition->stage == ROTA_FOLD_ALIVE;
    task->n_owned -= partition->owner != ROTA_GROUP_NOBODY;
}

void rota_group_fold_table_give(struct rota_group_fold *fold, uint32_t place, uint32_t owner,
                                uint32_t target)
{
    struct rota_group_partition *items = fold->partitions.items, *partition = &items[place];
    assert(owner == ROTA_GROUP_NOBODY || target == ROTA_GROUP_NOBODY);
    if (holder_of(partition) != ROTA_GROUP_NOBODY)
        unlink_from_holder(fold, place);
    partition->owner = owner;
    partition->target = target;
    rota_group_fold_table_touch(fold, place);
    if (holder_of(partition) == ROTA_GROUP_NOBODY)
        return;
    struct rota_group_task *task = &fold->tasks.items[holder_of(partition)];
    partition->next = task->first;
    if (task->first != ROTA_FOLD_NONE)
        items[task->first].previous = place;
    task->first = place;
    task->load += partition->stage == ROTA_FOLD_ALIVE;
    task->n_owned += owner != ROTA_GROUP_NOBODY;
}

/* --- tasks --- */

enum { KEY_MAX = sizeof(uint64_t) + ROTA_GROUP_TASK_NAME_MAX };

static struct rota_str member_key(struct rota_group_member member, char bytes[KEY_MAX])
{
    memcpy(bytes, &member.incarnation, sizeof member.incarnation);
    if (member.task.size > 0)
        memcpy(bytes + sizeof member.incarnation, member.task.data, member.task.size);
    return rota_str_of(bytes, sizeof member.incarnation + member.task.size);
}

uint32_t rota_group_fold_table_find_task(const struct rota_group_fold *fold,
                                         struct rota_group_member member)
{
    char bytes[KEY_MAX];
    if (member.task.size > ROTA_GROUP_TASK_NAME_MAX)
        return ROTA_FOLD_NONE;
    void *found = rota_map_get(&fold->members, member_key(member, bytes));
    return found ? (uint32_t)(uintptr_t)found - 1 : ROTA_FOLD_NONE;
}

static uint32_t task_hash(struct rota_group_member member)
{
    return rota_hash_finish32(rota_hash_farm32(member.task) ^ (uint32_t)member.incarnation ^
                              (uint32_t)(member.incarnation >> 32));
}

uint32_t rota_group_fold_table_add_task(struct rota_group_fold *fold,
                                        struct rota_group_member member)
{
    uint32_t place = 0;
    while (place < fold->tasks.size && fold->tasks.items[place].serial)
        place++;
    if (!rota_vector_reserve(&fold->tasks, (size_t)place + 1))
        return ROTA_FOLD_NONE;
    char *key = malloc(KEY_MAX);
    if (!key)
        return ROTA_FOLD_NONE;
    struct rota_str bytes = member_key(member, key);
    if (!rota_map_put(&fold->members, bytes, (void *)(uintptr_t)(place + 1))) {
        free(key);
        return ROTA_FOLD_NONE;
    }
    if (place == fold->tasks.size)
        fold->tasks.size++;
    fold->tasks.items[place] = (struct rota_group_task){
        .member = {rota_str_of(key + sizeof member.incarnation, member.task.size),
                   member.incarnation},
        .serial = ++fold->serial,
        .first = ROTA_FOLD_NONE,
        .hash = task_hash(member),
        .is_listed = true,
    };
    fold->n_tasks++;
    return place;
}

void rota_group_fold_table_remove_task(struct rota_group_fold *fold, uint32_t place)
{
    struct rota_group_task *task = &fold->tasks.items[place];
    assert(task->serial && task->first == ROTA_FOLD_NONE);
    char bytes[KEY_MAX];
    rota_map_remove(&fold->members, member_key(task->member, bytes));
    free((char *)task->member.task.data - sizeof task->member.incarnation);
    *task = (struct rota_group_task){.first = ROTA_FOLD_NONE};
    fold->n_tasks--;
}

uint32_t rota_group_fold_table_find_serial(const struct rota_group_fold *fold, uint32_t serial)
{
    for (uint32_t i = 0; serial && i < fold->tasks.size; i++)
        if (fold->tasks.items[i].serial == serial)
            return i;
    return ROTA_FOLD_NONE;
}

bool rota_group_fold_table_is_before(const struct rota_group_task *a, uint32_t hash_a,
                                     const struct rota_group_task *b, uint32_t hash_b)
{
    if (hash_a != hash_b)
        return hash_a < hash_b;
    int order = rota_str_compare(a->member.task, b->member.task);
    return order ? order < 0 : a->member.incarnation < b->member.incarnation;
}
