#include "core/call/get/get_keys.h"

#include <assert.h>
#include <string.h>

void rota_get_keys_deinit(struct rota_get_keys *keys)
{
    rota_vector_deinit(&keys->items);
    rota_vector_deinit(&keys->table);
    *keys = (struct rota_get_keys){0};
}

/* An odd secret factor, and the upper bits of the product: clients can't choose ids that
 * collide. */
static size_t bucket_of_id(const struct rota_get_keys *keys, uint64_t id)
{
    return (size_t)((id * keys->salt) >> 32) & (keys->table.size - 1);
}

/* The next first with this id, from `*place` on; NULL when there is none. */
static struct rota_get_key *find_id(struct rota_get_keys *keys, uint64_t id, size_t *place)
{
    size_t mask = keys->table.size - 1;
    for (;; *place = (*place + 1) & mask) {
        uint32_t index = keys->table.items[*place];
        if (index == 0)
            return NULL;
        if (keys->items.items[index - 1].id != id)
            continue;
        *place = (*place + 1) & mask;
        return &keys->items.items[index - 1];
    }
}

/* The first that is the same, or `index` when it is that itself. */
static uint32_t find_first(struct rota_get_keys *keys, uint32_t index)
{
    const struct rota_get_key *key = &keys->items.items[index];
    size_t place = bucket_of_id(keys, key->id);
    const struct rota_get_key *same;
    while ((same = find_id(keys, key->id, &place)))
        if (same->key == key->key)
            return same->first;
    keys->table.items[place] = index + 1;
    return index;
}

bool rota_get_keys_set(struct rota_get_keys *keys, uint64_t salt, const uint64_t *ids,
                       const uint64_t *sharding_keys, size_t n)
{
    size_t size = 16;
    while (size < 2 * n)
        size *= 2;
    if (!rota_vector_reserve(&keys->items, n) || !rota_vector_reserve(&keys->table, size))
        return false;
    memset(keys->table.items, 0, size * sizeof *keys->table.items);
    keys->table.size = size;
    keys->items.size = n;
    keys->salt = salt | 1;
    keys->n_pending = keys->n_given_up = 0;
    for (uint32_t i = 0; i < n; i++) {
        struct rota_get_key *key = &keys->items.items[i];
        *key = (struct rota_get_key){.id = ids[i], .key = sharding_keys[i]};
        key->first = find_first(keys, i);
        keys->n_pending += key->first == i;
    }
    keys->n_idle = keys->n_pending;
    return true;
}

void rota_get_keys_return(struct rota_get_keys *keys, uint32_t index, enum rota_failure failure)
{
    struct rota_get_key *key = &keys->items.items[index];
    if (key->state != ROTA_GET_PENDING)
        return;
    assert(key->n_out > 0);
    keys->n_idle += --key->n_out == 0;
    if (failure)
        key->failure = (uint8_t)failure;
}

/* It is no longer pending. */
static void settle_key(struct rota_get_keys *keys, struct rota_get_key *key,
                       enum rota_get_key_state state)
{
    assert(key->state == ROTA_GET_PENDING);
    key->state = (uint8_t)state;
    keys->n_pending--;
    keys->n_idle -= key->n_out == 0;
}

void rota_get_keys_give_up(struct rota_get_keys *keys, uint32_t index,
                           enum rota_get_key_state state, enum rota_failure failure)
{
    struct rota_get_key *key = &keys->items.items[index];
    settle_key(keys, key, state);
    keys->n_given_up++;
    key->failure = (uint8_t)failure;
}

/* --- answers --- */

static bool is_in(const uint32_t *list, size_t n, uint32_t index)
{
    size_t low = 0;
    while (low < n) {
        size_t middle = low + (n - low) / 2;
        if (list[middle] == index)
            return true;
        if (list[middle] < index)
            low = middle + 1;
        else
            n = middle;
    }
    return false;
}

static bool answer_key(struct rota_get_keys *keys, struct rota_get_key *key,
                       const struct rota_get_entries *entries, enum rota_get_key_state state,
                       size_t entry)
{
    if (key->state != ROTA_GET_PENDING ||
        (entries->claims &&
         !rota_interval_find_claim(entries->claims, entries->n_claims, key->key)))
        return false;
    settle_key(keys, key, state);
    key->number = entries->number;
    key->try = entries->try;
    key->entry = (uint32_t)entry;
    key->failure = ROTA_FAILURE_NONE;
    return true;
}

/* The next pending key with this id that the try asked for, from `*place` on. */
static struct rota_get_key *next_asked(struct rota_get_keys *keys, const uint32_t *list, size_t n,
                                       uint64_t id, size_t *place)
{
    struct rota_get_key *key;
    while ((key = find_id(keys, id, place)))
        if (key->state == ROTA_GET_PENDING && is_in(list, n, key->first))
            return key;
    return NULL;
}

/* An entry that is not where its key is in the request. */
static size_t take_entry(struct rota_get_keys *keys, const uint32_t *list, size_t n,
                         const struct rota_get_entries *entries, size_t entry)
{
    size_t n_taken = 0, place = bucket_of_id(keys, entries->ids[entry]);
    struct rota_get_key *key;
    while ((key = next_asked(keys, list, n, entries->ids[entry], &place)))
        n_taken += answer_key(keys, key, entries, ROTA_GET_FOUND, entry);
    return n_taken;
}

static void take_problem(struct rota_get_keys *keys, const uint32_t *list, size_t n,
                         const struct rota_get_entries *entries, size_t problem,
                         struct rota_get_taken *taken)
{
    const struct rota_get_fsm_problem *of = &entries->problems[problem];
    size_t place = bucket_of_id(keys, of->id);
    struct rota_get_key *key;
    while ((key = next_asked(keys, list, n, of->id, &place))) {
        if (key->is_left)
            continue;
        key->is_left = of->is_left || key->n_out > 1;
        if (of->is_left) {
            taken->n_left++;
            continue;
        }
        taken->n_refused++;
        if (!key->is_left && answer_key(keys, key, entries, ROTA_GET_REFUSED, problem)) {
            keys->n_given_up++;
            taken->n++;
        }
        key->failure = ROTA_FAILURE_INPUT;
    }
}

struct rota_get_taken rota_get_keys_use_answer(struct rota_get_keys *keys, const uint32_t *list,
                                               size_t n, const struct rota_get_entries *entries)
{
    struct rota_get_taken taken = {0};
    for (size_t i = 0; i < entries->n; i++) {
        struct rota_get_key *same = i < n ? &keys->items.items[list[i]] : NULL;
        if (same && same->id == entries->ids[i])
            taken.n += answer_key(keys, same, entries, ROTA_GET_FOUND, i);
        else
            taken.n += take_entry(keys, list, n, entries, i);
    }
    taken.n_found = taken.n;
    for (size_t i = 0; i < entries->n_problems; i++)
        take_problem(keys, list, n, entries, i, &taken);
    for (size_t i = 0; i < n && taken.n < n; i++) {
        struct rota_get_key *key = &keys->items.items[list[i]];
        if (!key->is_left)
            taken.n += answer_key(keys, key, entries, ROTA_GET_ABSENT, 0);
        key->is_left = false;
    }
    return taken;
}

/* --- looking inside --- */

struct rota_get_fsm_result rota_get_keys_result(const struct rota_get_keys *keys, size_t index)
{
    assert(index < keys->items.size);
    const struct rota_get_key *key = &keys->items.items[keys->items.items[index].first];
    return (struct rota_get_fsm_result){
        .state = (enum rota_get_key_state)key->state,
        .failure = (enum rota_failure)key->failure,
        .number = key->number,
        .entry = key->entry,
        .try = key->try,
    };
}

size_t rota_get_keys_missing(const struct rota_get_keys *keys, uint32_t *list, size_t size)
{
    size_t n = 0;
    if (keys->n_given_up + keys->n_pending == 0)
        return 0;
    for (uint32_t i = 0; i < keys->items.size; i++) {
        uint8_t state = keys->items.items[keys->items.items[i].first].state;
        if (state == ROTA_GET_FOUND || state == ROTA_GET_ABSENT)
            continue;
        if (n < size)
            list[n] = i;
        n++;
    }
    return n;
}
