#include "core/work/cluster/tree_inside.h"

#define BELIEVED_FOR (3 * ROTA_TREE_REFRESH)

enum { RESTORED_MAX = 1024 }; /* limit of an offer that grows by visits on which no node went */

/* --- actions --- */

static struct rota_tree_action *add_action(struct rota_tree_fsm *fsm,
                                           enum rota_tree_action_type type, struct rota_str to,
                                           const struct rota_tree_said *word)
{
    struct rota_tree_action action = {
        .type = type,
        .to = rota_arena_copy(&fsm->arena, to),
        .word = {.kind = word->kind,
                 .node = rota_arena_copy(&fsm->arena, word->node),
                 .queue = rota_arena_copy(&fsm->arena, rota_tree_queue_name(word->queue)),
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

/* Send the parent the rest of a word; with a refresh also those that were skipped. `from` is the
 * node that sent it to us, and does not need it again. */
static void pass_on(struct rota_tree_fsm *fsm, const struct rota_tree_said *word,
                    struct rota_str from, bool is_refresh)
{
    if (word->hops >= ROTA_TREE_HOPS)
        return;
    rota_tree_parents_find(fsm, word->queue);
    for (size_t i = 0; i < word->queue->parents.size; i++) {
        struct rota_str to = rota_str(word->queue->parents.items[i]);
        bool is_over = !rota_tree_parents_are_down(fsm, to);
        if ((is_over || is_refresh) && !rota_str_is_equal(to, word->node) &&
            !rota_str_is_equal(to, from) && add_action(fsm, ROTA_TREE_DO_TELL, to, word))
            fsm->counts.passed_total += !word->is_ours;
        if (is_over)
            break;
    }
}

/* --- matching wants and offers --- */

static bool fits_supply(const struct rota_tree_said *want, const struct rota_tree_said *offer)
{
    return want->n > 0 && offer->n > 0 && !rota_str_is_equal(want->node, offer->node) &&
           rota_tree_words_can(want->can, offer->can);
}

/* Our own slots first, which cost no message; then those that are idle longest. */
static bool is_better_want(const struct rota_tree_said *a, const struct rota_tree_said *b)
{
    return a->is_ours != b->is_ours ? a->is_ours : a->since < b->since;
}

/* The match of a word; NULL: none. */
static struct rota_tree_said *find_match(struct rota_tree_said *word)
{
    struct rota_tree_said *best = NULL;
    enum rota_tree_kind other = word->kind == ROTA_TREE_WANT ? ROTA_TREE_OFFER : ROTA_TREE_WANT;
    for (size_t i = 0; i < word->queue->words[other].size; i++) {
        struct rota_tree_said *candidate = word->queue->words[other].items[i];
        if (word->kind == ROTA_TREE_WANT) {
            if (fits_supply(word, candidate) && (!best || candidate->since < best->since))
                best = candidate;
        } else if (fits_supply(candidate, word) && (!best || is_better_want(candidate, best))) {
            best = candidate;
        }
    }
    return best;
}

static bool send_visit(struct rota_tree_fsm *fsm, struct rota_tree_said *want,
                       struct rota_tree_said *offer)
{
    uint32_t n = want->n < offer->n ? want->n : offer->n;
    if (fsm->visits.size >= ROTA_TREE_VISITS_MAX)
        return false;
    struct rota_tree_visit *visit = calloc(1, sizeof *visit + offer->key_size);
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
    struct rota_tree_action *action = add_action(fsm, ROTA_TREE_DO_VISIT, want->node, offer);
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

static void match_word(struct rota_tree_fsm *fsm, struct rota_tree_said *word)
{
    struct rota_tree_said *other;
    while (word->n > 0 && (other = find_match(word))) {
        bool is_want = word->kind == ROTA_TREE_WANT;
        if (!send_visit(fsm, is_want ? word : other, is_want ? other : word))
            return;
    }
}

/* --- our own words --- */

static void publish_word(struct rota_tree_fsm *fsm, struct rota_tree_said *word, bool is_refresh)
{
    word->n = word->real_n;
    word->since = word->real_since;
    word->stamp = ++fsm->stamp;
    word->is_believed = word->n > 0;
    word->is_denied = word->n == 0;
    fsm->counts.said_total++;
    match_word(fsm, word);
    if (word->n > 0 || word->real_n == 0)
        pass_on(fsm, word, rota_tree_self(fsm), is_refresh);
}

static void settle_own_words(struct rota_tree_fsm *fsm)
{
    for (size_t i = 0; i < fsm->own.size; i++) {
        struct rota_tree_said *word = fsm->own.items[i];
        if (word->real_n > 0 && !word->is_believed && fsm->now >= word->quiet_until)
            publish_word(fsm, word, false);
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
    struct rota_tree_word said = {
        .kind = kind, .node = rota_tree_self(fsm), .queue = queue, .can = can};
    struct rota_tree_said *word = n > 0 ? rota_tree_words_need(fsm, &said) : NULL;
    if (!word)
        return;
    if (!word->is_ours) {
        word->own_place = fsm->own.size;
        if (!rota_vector_push(&fsm->own, word)) {
            rota_tree_words_free(fsm, word);
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
    settle_own_words(fsm);
}

/* Our word about a queue is used up. If no job or slot was found, the belief was wrong, and is
 * revoked; and a pause prevents a loop. */
static void use_up(struct rota_tree_fsm *fsm, enum rota_tree_kind kind, struct rota_str name,
                   bool is_vain)
{
    for (size_t i = 0; i < fsm->own.size; i++) {
        struct rota_tree_said *word = fsm->own.items[i];
        if (word->kind != kind || !rota_str_is_equal(rota_tree_queue_name(word->queue), name))
            continue;
        word->is_believed = false;
        if (!is_vain)
            continue;
        word->quiet_until = fsm->now + ROTA_TREE_PAUSE;
        if (word->real_n == 0)
            publish_word(fsm, word, false);
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
        rota_tree_parents_forget(entry->value);
    for (size_t i = 0; i < fsm->own.size; i++)
        fsm->own.items[i]->is_believed = false;
    settle_own_words(fsm);
}

/* --- others --- */

static bool is_sensible(const struct rota_tree_fsm *fsm, const struct rota_tree_word *word)
{
    return word->queue.size > 0 && word->node.size > 0 && word->node.size <= ROTA_TREE_NODE_MAX &&
           word->can.size <= ROTA_TREE_CAN_MAX && word->hops <= ROTA_TREE_HOPS && word->age >= 0 &&
           (word->kind == ROTA_TREE_WANT || word->kind == ROTA_TREE_OFFER) &&
           !memchr(word->queue.data, '\n', word->queue.size) &&
           !memchr(word->node.data, '\n', word->node.size) &&
           !rota_str_is_equal(word->node, rota_tree_self(fsm));
}

void rota_tree_fsm_hear(struct rota_tree_fsm *fsm, rota_time now, const struct rota_tree_word *said)
{
    fsm->now = now;
    if (!is_sensible(fsm, said)) {
        fsm->counts.dropped_total++;
        return;
    }
    struct rota_tree_said *word =
        said->n > 0 ? rota_tree_words_need(fsm, said) : rota_tree_words_find(fsm, said);
    if (!word || said->stamp < word->stamp ||
        (said->stamp == word->stamp && said->hops >= word->hops))
        return; /* outdated, or a copy that took another way */
    word->stamp = said->stamp;
    word->n = said->n;
    word->hops = said->hops;
    word->since = said->age < now ? now - said->age : 0;
    word->until = rota_time_add(now, BELIEVED_FOR);
    match_word(fsm, word);
    if (word->n > 0 || said->n == 0)
        pass_on(fsm, word, rota_str(""), true);
    if (said->n == 0)
        rota_tree_words_free(fsm, word);
}

/* A node that does not answer neither steals nor is stolen from. */
static void forget_node(struct rota_tree_fsm *fsm, struct rota_str name)
{
    char copy[ROTA_TREE_NODE_MAX]; /* it may be the name of a word */
    struct rota_str node = rota_str_of(copy, name.size);
    const struct rota_map_entry *entry;
    memcpy(copy, name.data, name.size);
    for (size_t place = 0; (entry = rota_map_next(&fsm->words, &place));) {
        struct rota_tree_said *word = entry->value;
        if (!word->is_ours && rota_str_is_equal(word->node, node)) {
            rota_tree_words_free(fsm, word);
            place = 0;
        }
    }
}

/* Jobs that no visitor fetched are offered again, to twice as many slots: a node that does not go
 * was wrong about itself, and others may be as wrong. */
static void offer_again(struct rota_tree_fsm *fsm, const struct rota_tree_visit *visit, uint32_t n)
{
    struct rota_tree_said *offer =
        rota_map_get(&fsm->words, rota_str_of(visit->key, visit->key_size));
    if (!offer)
        return;
    uint32_t left = 2 * (visit->n - n),
             room = offer->n < RESTORED_MAX ? RESTORED_MAX - offer->n : 0;
    offer->n += left < room ? left : room;
    match_word(fsm, offer);
    if (offer->n > 0)
        pass_on(fsm, offer, rota_str(""), false);
}

void rota_tree_fsm_answered(struct rota_tree_fsm *fsm, rota_time now, uint64_t number, uint32_t n,
                            bool is_lost)
{
    fsm->now = now;
    struct rota_tree_visit *visit =
        rota_map_remove(&fsm->visits, rota_str_of(&number, sizeof number));
    if (!visit)
        return;
    const struct rota_tree_said *offer =
        rota_map_get(&fsm->words, rota_str_of(visit->key, visit->key_size));
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
    if (node.size == 0 || node.size > ROTA_TREE_NODE_MAX || rota_tree_parents_are_down(fsm, node))
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
    settle_own_words(fsm);
}

void rota_tree_fsm_reached(struct rota_tree_fsm *fsm, rota_time now, struct rota_str node)
{
    fsm->now = now;
    free(rota_map_remove(&fsm->down, node));
}

/* --- time --- */

/* Whether another node may still believe an outdated word of ours. Visits use a want up
 * permanently. An offer grows again at the node that sends visitors when a visitor does not go
 * (offer_again), so only revoking ends it. */
static bool may_be_believed(const struct rota_tree_said *word)
{
    return word->is_believed || (word->kind == ROTA_TREE_OFFER && !word->is_denied);
}

static void refresh_own_words(struct rota_tree_fsm *fsm)
{
    for (size_t i = fsm->own.size; i-- > 0;) {
        struct rota_tree_said *word = fsm->own.items[i];
        if (word->real_n > 0 || may_be_believed(word))
            publish_word(fsm, word, true);
        else
            rota_tree_words_free(fsm, word);
    }
    const struct rota_map_entry *entry;
    for (size_t place = 0; (entry = rota_map_next(&fsm->words, &place));) {
        struct rota_tree_said *word = entry->value;
        if (word->until > fsm->now)
            continue;
        rota_tree_words_free(fsm, word);
        place = 0;
    }
    rota_tree_words_sweep_queues(fsm);
    fsm->refresh_at =
        fsm->now + ROTA_TREE_REFRESH - rota_random_range(&fsm->random, 0, ROTA_TREE_REFRESH / 8);
}

void rota_tree_fsm_tick(struct rota_tree_fsm *fsm, rota_time now)
{
    fsm->now = now;
    if (now >= fsm->refresh_at)
        refresh_own_words(fsm);
    settle_own_words(fsm);
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
    fsm->refresh_at = now + ROTA_TREE_REFRESH;
    rota_random_init(&fsm->random, options->seed);
    rota_map_init(&fsm->words, options->seed);
    rota_map_init(&fsm->queues, options->seed);
    rota_map_init(&fsm->visits, options->seed);
    rota_map_init(&fsm->down, options->seed);
    return fsm;
}

void rota_tree_fsm_free(struct rota_tree_fsm *fsm)
{
    const struct rota_map_entry *entry;
    if (!fsm)
        return;
    for (size_t place = 0; (entry = rota_map_next(&fsm->queues, &place));)
        rota_tree_words_free_queue(entry->value);
    rota_map_deinit(&fsm->queues);
    rota_map_deinit_values(&fsm->words);
    rota_map_deinit_values(&fsm->visits);
    rota_map_deinit_values(&fsm->down);
    rota_vector_deinit(&fsm->own);
    rota_vector_deinit(&fsm->actions);
    rota_arena_deinit(&fsm->arena);
    rota_buffer_deinit(&fsm->buffer);
    free(fsm);
}
