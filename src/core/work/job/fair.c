#include "core/work/job/fair.h"

#include <stdlib.h>

#define STEP ((uint64_t)1 << 20) /* of a key with the usual weight */

void rota_fair_queue_init(struct rota_fair_queue *queue, struct rota_fair *fair, uint64_t seed)
{
    *queue = (struct rota_fair_queue){.fair = fair, .weight = ROTA_FAIR_WEIGHT};
    rota_map_init(&queue->keys, seed);
}

static void rest_key(struct rota_fair_key *key)
{
    rota_list_push(&key->queue->fair->resting, &key->link);
}

static void wake_key(struct rota_fair_key *key)
{
    rota_list_remove(&key->link);
}

static void forget_key(struct rota_fair_key *key)
{
    struct rota_fair *fair = key->queue->fair;
    wake_key(key);
    rota_map_remove(&key->queue->keys, rota_str_of(key->name, key->size));
    fair->n_keys--;
    fair->on_free(fair->data, key);
}

void rota_fair_queue_deinit(struct rota_fair_queue *queue)
{
    size_t place = 0;
    for (const struct rota_map_entry *entry; (entry = rota_map_next(&queue->keys, &place));) {
        wake_key(entry->value);
        queue->fair->n_keys--;
        queue->fair->on_free(queue->fair->data, entry->value);
    }
    rota_map_deinit(&queue->keys);
}

bool rota_fair_is_weighed(const struct rota_fair_queue *queue)
{
    size_t place = 0;
    if (queue->weight != ROTA_FAIR_WEIGHT)
        return true;
    for (const struct rota_map_entry *entry; (entry = rota_map_next(&queue->keys, &place));)
        if (((const struct rota_fair_key *)entry->value)->weight != ROTA_FAIR_WEIGHT)
            return true;
    return false;
}

struct rota_fair_key *rota_fair_find(const struct rota_fair_queue *queue, struct rota_str name)
{
    return rota_map_get(&queue->keys, name);
}

/* The present has reached them; or there are too many. A few at a time, since one is added. */
static void forget_resting(struct rota_fair *fair)
{
    for (int i = 0; i < 4 && !rota_list_is_empty(&fair->resting); i++) {
        struct rota_fair_key *key = ROTA_LIST_ITEM(fair->resting.next, struct rota_fair_key, link);
        bool is_full = fair->n_keys >= fair->keys_max;
        if (key->ahead > key->queue->present && !is_full)
            return;
        if (key->weighed_at && !is_full) { /* it is skipped */
            wake_key(key);
            rest_key(key);
        } else {
            forget_key(key);
        }
    }
}

enum rota_code rota_fair_key(struct rota_fair_queue *queue, struct rota_str name,
                             struct rota_fair_key **key, struct rota_error *error)
{
    struct rota_fair *fair = queue->fair;
    struct rota_fair_key *known = rota_fair_find(queue, name);
    if (known) {
        *key = known;
        return ROTA_OK;
    }
    forget_resting(fair);
    if (fair->n_keys >= fair->keys_max)
        return rota_error_set(error, ROTA_ERR_LIMIT,
                              "%zu fair keys are already in use, the maximum", fair->n_keys);
    struct rota_fair_key *made = malloc(sizeof *made + name.size);
    if (!made)
        return rota_error_no_memory(error, "for a key");
    *made = (struct rota_fair_key){
        .queue = queue, .weight = ROTA_FAIR_WEIGHT, .size = (uint16_t)name.size};
    memcpy(made->name, name.data, name.size);
    if (!rota_map_put(&queue->keys, rota_str_of(made->name, made->size), made)) {
        free(made);
        return rota_error_no_memory(error, "for a key");
    }
    fair->n_keys++;
    rest_key(made);
    *key = made;
    return ROTA_OK;
}

void rota_fair_hold(struct rota_fair_key *key)
{
    if (!key)
        return;
    key->n_jobs++;
    wake_key(key);
}

static void rest_or_forget(struct rota_fair_key *key)
{
    if (key->n_jobs > 0 || key->weight != ROTA_FAIR_WEIGHT) {
        wake_key(key);
        return;
    }
    if (key->ahead <= key->queue->present && !key->weighed_at)
        forget_key(key);
    else if (!key->link.next)
        rest_key(key);
}

void rota_fair_let_go(struct rota_fair_key *key)
{
    if (!key)
        return;
    key->n_jobs--;
    rest_or_forget(key);
}

static uint64_t add_to_tag(uint64_t tag, uint32_t weight)
{
    uint64_t step = STEP * ROTA_FAIR_WEIGHT / weight, sum;
    return __builtin_add_overflow(tag, step, &sum) ? UINT64_MAX : sum;
}

uint64_t rota_fair_tag(struct rota_fair_queue *queue, struct rota_fair_key *key)
{
    uint64_t *ahead = key ? &key->ahead : &queue->ahead;
    uint64_t tag = *ahead > queue->present ? *ahead : queue->present;
    *ahead = add_to_tag(tag, key ? key->weight : queue->weight);
    return tag;
}

void rota_fair_seen(struct rota_fair_queue *queue, struct rota_fair_key *key, uint64_t tag)
{
    uint64_t *ahead = key ? &key->ahead : &queue->ahead;
    uint64_t end = add_to_tag(tag, key ? key->weight : queue->weight);
    if (end > *ahead)
        *ahead = end;
}

void rota_fair_set_weight(struct rota_fair_queue *queue, struct rota_fair_key *key, uint32_t weight,
                          rota_time at)
{
    if (!key) {
        queue->weight = weight;
        queue->weighed_at = at;
        return;
    }
    key->weight = weight;
    key->weighed_at = at;
    rest_or_forget(key);
}
