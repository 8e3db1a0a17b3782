#include "core/work/tree_fsm.h"

#include "base/arena.h"
#include "base/buffer.h"
#include "base/hash.h"

#include <rota/partition.h>
#include <stdlib.h>
#include <string.h>

#define BELIEVED_FOR (3 * ROTA_TREE_REFRESH)

enum { RESTORED_MAX = 1024 }; /* what an offer may grow to by visits that nobody went on */

struct word {
    enum rota_tree_kind kind;
    struct queue *queue;
    struct rota_str node, can; /* of `key` */
    size_t place;              /* in its queue's list */
    uint64_t stamp;
    uint32_t n; /* that is left of what was said */
    uint32_t hops;
    rota_time since, until; /* the oldest; when it is not believed any more */

    /* Of our own words. */
    bool is_ours, is_believed, is_seen;
    uint32_t real_n;
    rota_time real_since, quiet_until;
    size_t own_place;

    size_t key_size;
    char key[]; /* kind, queue, node, can */
};

struct queue {
    ROTA_VECTOR(struct word *) words[2]; /* by kind */
    ROTA_VECTOR(char *) parents;         /* addresses, the first one first */
    bool has_parents;                    /* they were worked out */
    size_t name_size;
    char name[];
};

struct visit {
    uint64_t number;
    uint32_t n;
    size_t key_size;
    char key[]; /* of the offer */
};

struct rota_tree_fsm {
    struct rota_tree_options options;
    struct rota_random random;
    rota_time now, refresh_at;
    uint64_t stamp, n_visits;
    struct rota_map words, queues, visits, down;
    ROTA_VECTOR(struct word *) own;
    ROTA_VECTOR(struct rota_tree_action) actions;
    struct rota_arena arena;   /* of actions */
    struct rota_buffer buffer; /* of a key */
    struct rota_tree_counts counts;
    char self[];
};

/* --- names --- */

static struct rota_str next_name(struct rota_str *list)
{
    const char *blank = list->size ? memchr(list->data, ' ', list->size) : NULL;
    size_t size = blank ? (size_t)(blank - list->data) : list->size;
    struct rota_str name = rota_str_of(list->data, size);
    size_t used = blank ? size + 1 : size;
    *list = rota_str_of(list->data + used, list->size - used);
    return name;
}

bool rota_tree_can(struct rota_str offered, struct rota_str needed)
{
    while (needed.size > 0) {
        struct rota_str need = next_name(&needed);
        int order = 1;
        while (order > 0 && offered.size > 0)
            order = rota_str_compare(need, next_name(&offered));
        if (order != 0)
            return false;
    }
    return true;
}

static struct rota_str self_of(const struct rota_tree_fsm *fsm)
{
    return fsm->options.self;
}

static struct rota_str queue_name(const struct queue *queue)
{
    return rota_str_of(queue->name, queue->name_size);
}

static struct rota_str key_of(const struct word *word)
{
    return rota_str_of(word->key, word->key_size);
}

/* --- queues and words --- */

static struct queue *need_queue(struct rota_tree_fsm *fsm, struct rota_str name)
{
    struct queue *queue = rota_map_get(&fsm->queues, name);
    if (queue)
        return queue;
    queue = calloc(1, sizeof *queue + name.size + 1);
    if (!queue)
        return NULL;
    queue->name_size = name.size;
    memcpy(queue->name, name.data, name.size);
    if (rota_map_put(&fsm->queues, queue_name(queue), queue))
        return queue;
    free(queue);
    return NULL;
}

static void forget_parents(struct queue *queue)
{
    for (size_t i = 0; i < queue->parents.size; i++)
        free(queue->parents.items[i]);
    queue->parents.size = 0;
    queue->has_parents = false;
}

static void free_queue(struct queue *queue)
{
    forget_parents(queue);
    rota_vector_deinit(&queue->parents);
    rota_vector_deinit(&queue->words[0]);
    rota_vector_deinit(&queue->words[1]);
    free(queue);
}

/* NULL when there is no memory for the key. */
static const struct rota_str *make_key(struct rota_tree_fsm *fsm, const struct rota_tree_word *said,
                                       struct rota_str *key)
{
    struct rota_buffer *buffer = &fsm->buffer;
    rota_buffer_clear(buffer);
    rota_buffer_append_char(buffer, said->kind == ROTA_TREE_WANT ? 'w' : 'o');
    rota_buffer_append_str(buffer, said->queue);
    rota_buffer_append_char(buffer, '\n'); /* in neither of them */
    rota_buffer_append_str(buffer, said->node);
    rota_buffer_append_char(buffer, '\n');
    rota_buffer_append_str(buffer, said->can);
    *key = rota_buffer_str(buffer);
    return buffer->failed ? NULL : key;
}

static struct word *find_word(struct rota_tree_fsm *fsm, const struct rota_tree_word *said)
{
    struct rota_str key;
    return make_key(fsm, said, &key) ? rota_map_get(&fsm->words, key) : NULL;
}

static struct word *make_word(struct rota_tree_fsm *fsm, const struct rota_tree_word *said)
{
    struct rota_str key;
    struct queue *queue = need_queue(fsm, said->queue);
    if (!queue || !make_key(fsm, said, &key))
        return NULL;
    struct word *word = calloc(1, sizeof *word + key.size + 1);
    if (!word)
        return NULL;
    memcpy(word->key, key.data, key.size);
    word->key_size = key.size;
    word->kind = said->kind;
    word->queue = queue;
    word->node = rota_str_of(word->key + said->queue.size + 2, said->node.size);
    word->can = rota_str_of(word->node.data + said->node.size + 1, said->can.size);
    word->place = queue->words[said->kind].size;
    if (rota_vector_push(&queue->words[said->kind], word)) {
        if (rota_map_put(&fsm->words, key_of(word), word))
            return word;
        queue->words[said->kind].size--;
    }
    free(word);
    return NULL;
}

/* The word under its name, made if need be; NULL when there is no room. */
static struct word *need_word(struct rota_tree_fsm *fsm, const struct rota_tree_word *said)
{
    struct word *word = find_word(fsm, said);
    if (!word && fsm->words.size < ROTA_TREE_WORDS_MAX)
        word = make_word(fsm, said);
    fsm->counts.dropped_total += !word;
    return word;
}

static void free_word(struct rota_tree_fsm *fsm, struct word *word)
{
    struct queue *queue = word->queue;
    struct word *last = queue->words[word->kind].items[--queue->words[word->kind].size];
    queue->words[word->kind].items[word->place] = last;
    last->place = word->place;
    if (word->is_ours) {
        last = fsm->own.items[--fsm->own.size];
        fsm->own.items[word->own_place] = last;
        last->own_place = word->own_place;
    }
    rota_map_remove(&fsm->words, key_of(word));
    free(word);
}

static void sweep_queues(struct rota_tree_fsm *fsm)
{
    const struct rota_map_entry *entry;
    for (size_t place = 0; (entry = rota_map_next(&fsm->queues, &place));) {
        struct queue *queue = entry->value;
        if (queue->words[0].size + queue->words[1].size > 0)
            continue;
        rota_map_remove(&fsm->queues, queue_name(queue));
        free_queue(queue);
        place = 0;
    }
}

/* --- parents --- */

static bool is_down(const struct rota_tree_fsm *fsm, struct rota_str node)
{
    return rota_map_get(&fsm->down, node) != NULL;
}

static void add_parent(struct rota_tree_fsm *fsm, struct queue *queue, struct rota_str owner)
{
    if (owner.size == 0 || owner.size > ROTA_TREE_NODE_MAX ||
        rota_str_is_equal(owner, self_of(fsm)) || queue->parents.size >= ROTA_TREE_PARENTS_MAX)
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

static void add_owner(struct rota_tree_fsm *fsm, struct queue *queue, uint32_t partition)
{
    add_parent(fsm, queue, fsm->options.owner(fsm->options.data, queue_name(queue), partition));
}

/* Those with a lower address. */
static void add_nodes(struct rota_tree_fsm *fsm, struct queue *queue)
{
    struct rota_str node;
    for (size_t i = 0; queue->parents.size < ROTA_TREE_PARENTS_MAX; i++) {
        node = fsm->options.node(fsm->options.data, i);
        if (node.size == 0 || rota_str_compare(node, self_of(fsm)) >= 0)
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

static void find_parents(struct rota_tree_fsm *fsm, struct queue *queue)
{
    uint32_t n = fsm->options.partitions, lowest = 0;
    if (queue->has_parents)
        return;
    forget_parents(queue);
    queue->has_parents = true;
    while (lowest < n &&
           !rota_str_is_equal(fsm->options.owner(fsm->options.data, queue_name(queue), lowest),
                              self_of(fsm)))
        lowest++;
    uint32_t from = lowest;
    if (lowest == n) {
        from = rota_hash_finish32(rota_hash_farm32(self_of(fsm)) ^
                                  rota_hash_farm32(queue_name(queue))) %
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

/* --- actions --- */

static struct rota_tree_action *act(struct rota_tree_fsm *fsm, enum rota_tree_action_type type,
                                    struct rota_str to, const struct word *word)
{
    struct rota_tree_action action = {
        .type = type,
        .to = rota_arena_copy(&fsm->arena, to),
        .word = {.kind = word->kind,
                 .node = rota_arena_copy(&fsm->arena, word->node),
                 .queue = rota_arena_copy(&fsm->arena, queue_name(word->queue)),
                 .can = rota_arena_copy(&fsm->arena, word->can),
                 .stamp = word->stamp,
                 .n = word->n,
                 .hops = word->hops + 1,
                 .age = fsm->now > word->since ? fsm->now - word->since : 0},
    };
    if (!action.to.data || !action.word.node.data || !action.word.queue.data ||
        !action.word.can.data || !rota_vector_push(&fsm->actions, action))
        return NULL;
    return &fsm->actions.items[fsm->actions.size - 1];
}

/* Tell the parent what is left of a word; with a refresh also those that were passed over.
 * `from` is who told us, and needs not hear it again. */
static void pass_on(struct rota_tree_fsm *fsm, const struct word *word, struct rota_str from,
                    bool is_refresh)
{
    if (word->hops >= ROTA_TREE_HOPS)
        return;
    find_parents(fsm, word->queue);
    for (size_t i = 0; i < word->queue->parents.size; i++) {
        struct rota_str to = rota_str(word->queue->parents.items[i]);
        bool is_over = !is_down(fsm, to);
        if ((is_over || is_refresh) && !rota_str_is_equal(to, word->node) &&
            !rota_str_is_equal(to, from) && act(fsm, ROTA_TREE_DO_TELL, to, word))
            fsm->counts.passed_total += !word->is_ours;
        if (is_over)
            break;
    }
}

/* --- where wants and offers meet --- */

static bool fits(const struct word *want, const struct word *offer)
{
    return want->n > 0 && offer->n > 0 && !rota_str_is_equal(want->node, offer->node) &&
           rota_tree_can(want->can, offer->can);
}

/* Our own slots first, which are told at no cost; then those that are idle for longest. */
static bool is_better_want(const struct word *a, const struct word *b)
{
    return a->is_ours != b->is_ours ? a->is_ours : a->since < b->since;
}

/* Whom to match a word with; NULL: nobody. */
static struct word *find_match(struct word *word)
{
    struct word *best = NULL;
    enum rota_tree_kind other = word->kind == ROTA_TREE_WANT ? ROTA_TREE_OFFER : ROTA_TREE_WANT;
    for (size_t i = 0; i < word->queue->words[other].size; i++) {
        struct word *candidate = word->queue->words[other].items[i];
        if (word->kind == ROTA_TREE_WANT) {
            if (fits(word, candidate) && (!best || candidate->since < best->since))
                best = candidate;
        } else if (fits(candidate, word) && (!best || is_better_want(candidate, best))) {
            best = candidate;
        }
    }
    return best;
}

static bool send_visit(struct rota_tree_fsm *fsm, struct word *want, struct word *offer)
{
    uint32_t n = want->n < offer->n ? want->n : offer->n;
    if (fsm->visits.size >= ROTA_TREE_VISITS_MAX)
        return false;
    struct visit *visit = calloc(1, sizeof *visit + offer->key_size);
    if (!visit)
        return false;
    visit->number = fsm->n_visits + 1;
    visit->n = n;
    visit->key_size = offer->key_size;
    memcpy(visit->key, offer->key, offer->key_size);
    if (!rota_map_put(&fsm->visits, rota_str_of(&visit->number, sizeof visit->number), visit)) {
        free(visit);
        return false;
    }
    struct rota_tree_action *action = act(fsm, ROTA_TREE_DO_VISIT, want->node, offer);
    if (!action) {
        rota_map_remove(&fsm->visits, rota_str_of(&visit->number, sizeof visit->number));
        free(visit);
        return false;
    }
    action->visit = ++fsm->n_visits;
    action->word.n = n;
    want->n -= n;
    offer->n -= n;
    fsm->counts.visits_total++;
    return true;
}

static void match(struct rota_tree_fsm *fsm, struct word *word)
{
    struct word *other;
    while (word->n > 0 && (other = find_match(word))) {
        bool is_want = word->kind == ROTA_TREE_WANT;
        if (!send_visit(fsm, is_want ? word : other, is_want ? other : word))
            return;
    }
}

/* --- our own words --- */

static void say(struct rota_tree_fsm *fsm, struct word *word, bool is_refresh)
{
    word->n = word->real_n;
    word->since = word->real_since;
    word->stamp = ++fsm->stamp;
    word->is_believed = word->n > 0;
    fsm->counts.said_total++;
    match(fsm, word);
    if (word->n > 0 || word->real_n == 0)
        pass_on(fsm, word, self_of(fsm), is_refresh);
}

static void settle(struct rota_tree_fsm *fsm)
{
    for (size_t i = 0; i < fsm->own.size; i++) {
        struct word *word = fsm->own.items[i];
        if (word->real_n > 0 && !word->is_believed && fsm->now >= word->quiet_until)
            say(fsm, word, false);
    }
}

void rota_tree_fsm_begin(struct rota_tree_fsm *fsm, rota_time now)
{
    fsm->now = now;
    for (size_t i = 0; i < fsm->own.size; i++)
        fsm->own.items[i]->is_seen = false;
}

void rota_tree_fsm_have(struct rota_tree_fsm *fsm, enum rota_tree_kind kind, struct rota_str queue,
                        struct rota_str can, uint32_t n, rota_time oldest)
{
    struct rota_tree_word said = {.kind = kind, .node = self_of(fsm), .queue = queue, .can = can};
    struct word *word = n > 0 ? need_word(fsm, &said) : NULL;
    if (!word)
        return;
    if (!word->is_ours) {
        word->own_place = fsm->own.size;
        if (!rota_vector_push(&fsm->own, word)) {
            free_word(fsm, word);
            return;
        }
        word->is_ours = true;
        word->until = ROTA_TIME_NEVER;
    }
    word->real_n = word->is_seen ? word->real_n + n : n;
    if (!word->is_seen || oldest < word->real_since)
        word->real_since = oldest;
    word->is_seen = true;
}

void rota_tree_fsm_end(struct rota_tree_fsm *fsm)
{
    for (size_t i = 0; i < fsm->own.size; i++)
        if (!fsm->own.items[i]->is_seen)
            fsm->own.items[i]->real_n = 0;
    settle(fsm);
}

/* What we said of a queue is used up. In vain: what was believed was not so, which is taken
 * back; and a pause keeps us from going around in circles. */
static void use_up(struct rota_tree_fsm *fsm, enum rota_tree_kind kind, struct rota_str name,
                   bool is_vain)
{
    for (size_t i = 0; i < fsm->own.size; i++) {
        struct word *word = fsm->own.items[i];
        if (word->kind != kind || !rota_str_is_equal(queue_name(word->queue), name))
            continue;
        word->is_believed = false;
        if (!is_vain)
            continue;
        word->quiet_until = fsm->now + ROTA_TREE_PAUSE;
        if (word->real_n == 0)
            say(fsm, word, false);
    }
}

void rota_tree_fsm_sent(struct rota_tree_fsm *fsm, rota_time now, struct rota_str queue, uint32_t n)
{
    fsm->now = now;
    use_up(fsm, ROTA_TREE_WANT, queue, n == 0);
}

void rota_tree_fsm_visited(struct rota_tree_fsm *fsm, rota_time now, struct rota_str queue,
                           uint32_t n)
{
    fsm->now = now;
    use_up(fsm, ROTA_TREE_OFFER, queue, n == 0);
}

void rota_tree_fsm_routed(struct rota_tree_fsm *fsm, rota_time now)
{
    const struct rota_map_entry *entry;
    fsm->now = now;
    for (size_t place = 0; (entry = rota_map_next(&fsm->queues, &place));)
        forget_parents(entry->value);
    for (size_t i = 0; i < fsm->own.size; i++)
        fsm->own.items[i]->is_believed = false;
    settle(fsm);
}

/* --- others --- */

static bool is_sensible(const struct rota_tree_fsm *fsm, const struct rota_tree_word *word)
{
    return word->queue.size > 0 && word->node.size > 0 && word->node.size <= ROTA_TREE_NODE_MAX &&
           word->can.size <= ROTA_TREE_CAN_MAX && word->hops <= ROTA_TREE_HOPS && word->age >= 0 &&
           (word->kind == ROTA_TREE_WANT || word->kind == ROTA_TREE_OFFER) &&
           !memchr(word->queue.data, '\n', word->queue.size) &&
           !memchr(word->node.data, '\n', word->node.size) &&
           !rota_str_is_equal(word->node, self_of(fsm));
}

void rota_tree_fsm_hear(struct rota_tree_fsm *fsm, rota_time now, const struct rota_tree_word *said)
{
    fsm->now = now;
    if (!is_sensible(fsm, said)) {
        fsm->counts.dropped_total++;
        return;
    }
    struct word *word = said->n > 0 ? need_word(fsm, said) : find_word(fsm, said);
    if (!word || said->stamp < word->stamp)
        return;
    word->stamp = said->stamp;
    word->n = said->n;
    word->hops = said->hops;
    word->since = said->age < now ? now - said->age : 0;
    word->until = rota_time_add(now, BELIEVED_FOR);
    match(fsm, word);
    if (word->n > 0 || said->n == 0)
        pass_on(fsm, word, rota_str(""), true);
    if (said->n == 0)
        free_word(fsm, word);
}

/* Nobody is sent to a node that does not answer, nor from it. */
static void forget_node(struct rota_tree_fsm *fsm, struct rota_str name)
{
    char copy[ROTA_TREE_NODE_MAX]; /* it may be the name of a word */
    struct rota_str node = rota_str_of(copy, name.size);
    const struct rota_map_entry *entry;
    memcpy(copy, name.data, name.size);
    for (size_t place = 0; (entry = rota_map_next(&fsm->words, &place));) {
        struct word *word = entry->value;
        if (!word->is_ours && rota_str_is_equal(word->node, node)) {
            free_word(fsm, word);
            place = 0;
        }
    }
}

/* What nobody went for is offered again, to twice as many: who does not go was wrong about
 * itself, and others may be as wrong. */
static void offer_again(struct rota_tree_fsm *fsm, const struct visit *visit, uint32_t n)
{
    struct word *offer = rota_map_get(&fsm->words, rota_str_of(visit->key, visit->key_size));
    if (!offer)
        return;
    uint32_t left = 2 * (visit->n - n),
             room = offer->n < RESTORED_MAX ? RESTORED_MAX - offer->n : 0;
    offer->n += left < room ? left : room;
    match(fsm, offer);
    if (offer->n > 0)
        pass_on(fsm, offer, rota_str(""), false);
}

void rota_tree_fsm_answered(struct rota_tree_fsm *fsm, rota_time now, uint64_t number, uint32_t n,
                            bool is_lost)
{
    fsm->now = now;
    struct visit *visit = rota_map_remove(&fsm->visits, rota_str_of(&number, sizeof number));
    if (!visit)
        return;
    const struct word *offer = rota_map_get(&fsm->words, rota_str_of(visit->key, visit->key_size));
    fsm->counts.visits_vain_total += n == 0;
    if (offer && is_lost)
        forget_node(fsm, offer->node);
    else if (offer && n < visit->n)
        offer_again(fsm, visit, n);
    free(visit);
}

void rota_tree_fsm_failed(struct rota_tree_fsm *fsm, rota_time now, struct rota_str node)
{
    fsm->now = now;
    if (node.size == 0 || node.size > ROTA_TREE_NODE_MAX || is_down(fsm, node))
        return;
    char *copy = malloc(node.size);
    if (!copy)
        return;
    memcpy(copy, node.data, node.size);
    if (!rota_map_put(&fsm->down, rota_str_of(copy, node.size), copy))
        free(copy);
    forget_node(fsm, node);
    for (size_t i = 0; i < fsm->own.size; i++)
        fsm->own.items[i]->is_believed = false;
    settle(fsm);
}

void rota_tree_fsm_reached(struct rota_tree_fsm *fsm, rota_time now, struct rota_str node)
{
    fsm->now = now;
    free(rota_map_remove(&fsm->down, node));
}

/* --- time --- */

static void refresh(struct rota_tree_fsm *fsm)
{
    for (size_t i = fsm->own.size; i-- > 0;) {
        struct word *word = fsm->own.items[i];
        bool was_believed = word->is_believed;
        if (word->real_n > 0 || was_believed)
            say(fsm, word, true);
        else
            free_word(fsm, word);
    }
    const struct rota_map_entry *entry;
    for (size_t place = 0; (entry = rota_map_next(&fsm->words, &place));) {
        struct word *word = entry->value;
        if (word->until > fsm->now)
            continue;
        free_word(fsm, word);
        place = 0;
    }
    sweep_queues(fsm);
    fsm->refresh_at =
        fsm->now + ROTA_TREE_REFRESH - rota_random_range(&fsm->random, 0, ROTA_TREE_REFRESH / 8);
}

void rota_tree_fsm_tick(struct rota_tree_fsm *fsm, rota_time now)
{
    fsm->now = now;
    if (now >= fsm->refresh_at)
        refresh(fsm);
    settle(fsm);
}

rota_time rota_tree_fsm_deadline(const struct rota_tree_fsm *fsm)
{
    rota_time at = fsm->refresh_at;
    for (size_t i = 0; i < fsm->own.size; i++)
        if (fsm->own.items[i]->real_n > 0 && !fsm->own.items[i]->is_believed)
            at = rota_time_min(at, fsm->own.items[i]->quiet_until);
    return at;
}

/* --- questions --- */

struct rota_str rota_tree_fsm_parent(struct rota_tree_fsm *fsm, struct rota_str name)
{
    struct queue *queue = need_queue(fsm, name);
    if (!queue)
        return rota_str("");
    find_parents(fsm, queue);
    for (size_t i = 0; i < queue->parents.size; i++)
        if (!is_down(fsm, rota_str(queue->parents.items[i])))
            return rota_str(queue->parents.items[i]);
    return rota_str("");
}

struct rota_tree_counts rota_tree_fsm_counts(const struct rota_tree_fsm *fsm)
{
    struct rota_tree_counts counts = fsm->counts;
    counts.words = fsm->words.size;
    counts.visits = fsm->visits.size;
    counts.down = fsm->down.size;
    return counts;
}

const struct rota_tree_action *rota_tree_fsm_actions(const struct rota_tree_fsm *fsm, size_t *n)
{
    *n = fsm->actions.size;
    return fsm->actions.items;
}

void rota_tree_fsm_clear(struct rota_tree_fsm *fsm)
{
    fsm->actions.size = 0;
    rota_arena_clear(&fsm->arena);
}

/* --- life --- */

struct rota_tree_fsm *rota_tree_fsm_new(const struct rota_tree_options *options, rota_time now)
{
    struct rota_tree_fsm *fsm = calloc(1, sizeof *fsm + options->self.size + 1);
    if (!fsm)
        return NULL;
    memcpy(fsm->self, options->self.data, options->self.size);
    fsm->options = *options;
    fsm->options.self = rota_str_of(fsm->self, options->self.size);
    if (fsm->options.degree == 0)
        fsm->options.degree = ROTA_TREE_DEGREE;
    if (fsm->options.partitions == 0)
        fsm->options.partitions = 1;
    fsm->stamp = options->stamp;
    fsm->now = now;
    fsm->refresh_at = now + ROTA_TREE_REFRESH;
    rota_random_init(&fsm->random, options->seed);
    rota_map_init(&fsm->words, options->seed);
    rota_map_init(&fsm->queues, options->seed);
    rota_map_init(&fsm->visits, options->seed);
    rota_map_init(&fsm->down, options->seed);
    return fsm;
}

static void free_values(struct rota_map *map)
{
    const struct rota_map_entry *entry;
    for (size_t place = 0; (entry = rota_map_next(map, &place));)
        free(entry->value);
    rota_map_deinit(map);
}

void rota_tree_fsm_free(struct rota_tree_fsm *fsm)
{
    const struct rota_map_entry *entry;
    if (!fsm)
        return;
    for (size_t place = 0; (entry = rota_map_next(&fsm->queues, &place));)
        free_queue(entry->value);
    rota_map_deinit(&fsm->queues);
    free_values(&fsm->words);
    free_values(&fsm->visits);
    free_values(&fsm->down);
    rota_vector_deinit(&fsm->own);
    rota_vector_deinit(&fsm->actions);
    rota_arena_deinit(&fsm->arena);
    rota_buffer_deinit(&fsm->buffer);
    free(fsm);
}
