#include "core/work/cluster/tree_inside.h"

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

bool rota_tree_words_can(struct rota_str offered, struct rota_str needed)
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

/* --- queues --- */

static struct rota_str key_of(const struct rota_tree_said *word)
{
    return rota_str_of(word->key, word->key_size);
}

struct rota_tree_queue *rota_tree_words_need_queue(struct rota_tree_fsm *fsm, struct rota_str name)
{
    struct rota_tree_queue *queue = rota_map_get(&fsm->queues, name);
    if (queue)
        return queue;
    queue = calloc(1, sizeof *queue + name.size + 1);
    if (!queue)
        return NULL;
    queue->name_size = name.size;
    memcpy(queue->name, name.data, name.size);
    if (rota_map_put(&fsm->queues, rota_tree_queue_name(queue), queue))
        return queue;
    free(queue);
    return NULL;
}

void rota_tree_words_free_queue(struct rota_tree_queue *queue)
{
    rota_tree_parents_forget(queue);
    rota_vector_deinit(&queue->parents);
    rota_vector_deinit(&queue->words[0]);
    rota_vector_deinit(&queue->words[1]);
    free(queue);
}

/* NULL when there is no memory for the key. */
static const struct rota_str *make_word_key(struct rota_tree_fsm *fsm,
                                            const struct rota_tree_word *said, struct rota_str *key)
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

struct rota_tree_said *rota_tree_words_find(struct rota_tree_fsm *fsm,
                                            const struct rota_tree_word *said)
{
    struct rota_str key;
    return make_word_key(fsm, said, &key) ? rota_map_get(&fsm->words, key) : NULL;
}

static struct rota_tree_said *make_word(struct rota_tree_fsm *fsm,
                                        const struct rota_tree_word *said)
{
    struct rota_str key;
    struct rota_tree_queue *queue = rota_tree_words_need_queue(fsm, said->queue);
    if (!queue || !make_word_key(fsm, said, &key))
        return NULL;
    struct rota_tree_said *word = calloc(1, sizeof *word + key.size + 1);
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

/* Our own are as many as there are queues and sets here, and have room always. */
struct rota_tree_said *rota_tree_words_need(struct rota_tree_fsm *fsm,
                                            const struct rota_tree_word *said)
{
    struct rota_tree_said *word = rota_tree_words_find(fsm, said);
    if (!word && (fsm->words.size < ROTA_TREE_WORDS_MAX ||
                  rota_str_is_equal(said->node, rota_tree_self(fsm))))
        word = make_word(fsm, said);
    fsm->counts.dropped_total += !word;
    return word;
}

void rota_tree_words_free(struct rota_tree_fsm *fsm, struct rota_tree_said *word)
{
    struct rota_tree_queue *queue = word->queue;
    struct rota_tree_said *last = queue->words[word->kind].items[--queue->words[word->kind].size];
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

void rota_tree_words_sweep_queues(struct rota_tree_fsm *fsm)
{
    const struct rota_map_entry *entry;
    for (size_t place = 0; (entry = rota_map_next(&fsm->queues, &place));) {
        struct rota_tree_queue *queue = entry->value;
        if (queue->words[0].size + queue->words[1].size > 0)
            continue;
        rota_map_remove(&fsm->queues, rota_tree_queue_name(queue));
        rota_tree_words_free_queue(queue);
        place = 0;
    }
}
