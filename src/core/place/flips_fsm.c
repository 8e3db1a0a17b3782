#include "core/place/flips_fsm.h"

#include <assert.h>
#include <stdlib.h>

struct key {
    struct rota_heap_node node; /* first, so that a node is its key */
    struct rota_gradual change;
    int64_t told;
    size_t size;
    char text[];
};

void rota_flips_fsm_init(struct rota_flips_fsm *fsm, uint64_t seed)
{
    *fsm = (struct rota_flips_fsm){0};
    rota_map_init(&fsm->keys, seed);
}

void rota_flips_fsm_deinit(struct rota_flips_fsm *fsm)
{
    const struct rota_map_entry *entry;
    size_t place = 0;
    while ((entry = rota_map_next(&fsm->keys, &place)))
        free(entry->value);
    rota_map_deinit(&fsm->keys);
    rota_heap_deinit(&fsm->queue);
}

static struct rota_str text_of(const struct key *key)
{
    return rota_str_of(key->text, key->size);
}

/* When `key`, of which `told` was told just now, has something else to tell. */
static rota_time next_flip(const struct key *key, rota_time now)
{
    if (key->told == key->change.new_value)
        return ROTA_TIME_NEVER;
    rota_time when = rota_gradual_when(&key->change, text_of(key));
    assert(when > now);
    return when;
}

static void wait_until(struct rota_flips_fsm *fsm, struct key *key, rota_time at)
{
    rota_heap_remove(&fsm->queue, &key->node);
    key->node.at = at;
    bool fits = rota_heap_push(&fsm->queue, &key->node);
    assert(fits);
    (void)fits;
}

static struct key *key_new(struct rota_str text, const struct rota_gradual *change)
{
    struct key *key = calloc(1, sizeof *key + text.size);
    if (!key)
        return NULL;
    key->change = *change;
    key->size = text.size;
    if (text.size > 0)
        memcpy(key->text, text.data, text.size);
    return key;
}

enum rota_code rota_flips_fsm_add(struct rota_flips_fsm *fsm, rota_time now, struct rota_str text,
                                  const struct rota_gradual *change, int64_t *value,
                                  struct rota_error *error)
{
    enum rota_code code = rota_gradual_check(change, error);
    if (code)
        return code;
    if (text.size > ROTA_FLIPS_KEY_MAX)
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "flips: key of %zu bytes, at most %d are allowed", text.size,
                              ROTA_FLIPS_KEY_MAX);
    if (rota_map_get(&fsm->keys, text))
        return rota_error_set(error, ROTA_ERR_INVALID, "flips: key %.*s is watched already",
                              ROTA_STR_ARGS(text));
    if (fsm->keys.size == ROTA_FLIPS_KEYS_MAX)
        return rota_error_set(error, ROTA_ERR_LIMIT, "flips: more than %d keys",
                              ROTA_FLIPS_KEYS_MAX);

    struct key *key = key_new(text, change);
    if (!key || !rota_map_put(&fsm->keys, text_of(key), key))
        goto fail;
    key->told = rota_gradual_value(change, text, now);
    key->node = (struct rota_heap_node){.at = next_flip(key, now), .order = fsm->n_added};
    if (!rota_heap_push(&fsm->queue, &key->node))
        goto fail;
    fsm->n_added++;
    *value = key->told;
    return ROTA_OK;

fail:
    rota_map_remove(&fsm->keys, text); /* if it got there */
    free(key);
    return rota_error_set(error, ROTA_ERR_NO_MEMORY, "flips: key %.*s", ROTA_STR_ARGS(text));
}

static bool is_same(const struct rota_gradual *a, const struct rota_gradual *b)
{
    return a->old_value == b->old_value && a->new_value == b->new_value && a->start == b->start &&
           a->end == b->end;
}

enum rota_code rota_flips_fsm_replace(struct rota_flips_fsm *fsm, struct rota_str text,
                                      const struct rota_gradual *change, struct rota_error *error)
{
    enum rota_code code = rota_gradual_check(change, error);
    if (code)
        return code;
    struct key *key = rota_map_get(&fsm->keys, text);
    if (!key)
        return rota_error_set(error, ROTA_ERR_NOT_FOUND, "flips: key %.*s is not watched",
                              text.size > 100 ? 100 : (int)text.size, text.data);
    /* Looked at anew, a settled key would go back with a clock that did. */
    if (is_same(&key->change, change))
        return ROTA_OK;
    key->change = *change;
    wait_until(fsm, key, ROTA_TIME_MIN);
    return ROTA_OK;
}

bool rota_flips_fsm_remove(struct rota_flips_fsm *fsm, struct rota_str text)
{
    struct key *key = rota_map_remove(&fsm->keys, text);
    if (!key)
        return false;
    rota_heap_remove(&fsm->queue, &key->node);
    free(key);
    return true;
}

bool rota_flips_fsm_step(struct rota_flips_fsm *fsm, rota_time now, struct rota_flip *flip)
{
    for (;;) {
        rota_time due = rota_flips_fsm_deadline(fsm);
        if (due > now || due == ROTA_TIME_NEVER)
            return false;

        struct key *key = (struct key *)rota_heap_first(&fsm->queue);
        int64_t before = key->told;
        key->told = rota_gradual_value(&key->change, text_of(key), now);
        wait_until(fsm, key, next_flip(key, now));
        if (key->told != before) {
            *flip = (struct rota_flip){text_of(key), before, key->told};
            return true;
        }
    }
}

rota_time rota_flips_fsm_deadline(const struct rota_flips_fsm *fsm)
{
    const struct rota_heap_node *first = rota_heap_first(&fsm->queue);
    return first ? first->at : ROTA_TIME_NEVER;
}

size_t rota_flips_fsm_size(const struct rota_flips_fsm *fsm)
{
    return fsm->keys.size;
}

bool rota_flips_fsm_value(const struct rota_flips_fsm *fsm, struct rota_str text, int64_t *value)
{
    const struct key *key = rota_map_get(&fsm->keys, text);
    if (!key)
        return false;
    *value = key->told;
    return true;
}
