/* get_keys: the keys of one Get, and the result of each.
 *
 * A key is *pending* until it is answered or given up, and *idle* while it is pending and no try
 * for it is in flight. A key that is requested twice, by id and sharding key, is kept once: the
 * *first* of them represents all, and only firsts are pending, sent or answered. */
#pragma once

#include "base/vector.h"
#include "core/call/failure.h"
#include "core/call/get/interval_map.h"

enum rota_get_key_state {
    ROTA_GET_PENDING,
    ROTA_GET_FOUND,    /* `number` and `entry` say where */
    ROTA_GET_ABSENT,   /* the shard's holder says that there is none */
    ROTA_GET_REFUSED,  /* missing: the holders can't return it; `entry` is the last one's problem */
    ROTA_GET_NO_SHARD, /* missing: no host is known to hold it */
    ROTA_GET_NO_ANSWER, /* missing: its holders have failed, `failure` was the last */
};

/* The result of a key. */
struct rota_get_fsm_result {
    enum rota_get_key_state state;
    enum rota_failure failure; /* of one that is missing */
    uint64_t number;           /* of the try that answered it */
    uint32_t entry;            /* the index in that answer, of its entries or problems */
    size_t try;                /* index of the try, for rota_get_fsm_try() */
};

struct rota_get_key {
    uint64_t id, key;
    uint64_t number;
    uint32_t try, entry;
    uint32_t first; /* the index of the first equal one: often its own */
    uint32_t n_out; /* tries in flight for it, or waiting to be sent */
    uint8_t state, failure;
    bool is_left; /* while an answer is processed: the answer leaves the key out */
};

/* Starts zeroed. */
struct rota_get_keys {
    ROTA_VECTOR(struct rota_get_key) items;
    ROTA_VECTOR(uint32_t) table; /* firsts by their id: 1 + index, 0: free */
    uint64_t salt;
    size_t n_pending, n_idle, n_given_up;
};

/* Another Get; `salt` is random, against chosen ids. False: no memory. */
bool rota_get_keys_set(struct rota_get_keys *keys, uint64_t salt, const uint64_t *ids,
                       const uint64_t *sharding_keys, size_t n);
void rota_get_keys_deinit(struct rota_get_keys *keys);

static inline bool rota_get_keys_is_pending(const struct rota_get_keys *keys, uint32_t index)
{
    return keys->items.items[index].state == ROTA_GET_PENDING;
}

/* `n` tries go out for a pending key. */
static inline void rota_get_keys_send(struct rota_get_keys *keys, uint32_t index, uint32_t n)
{
    struct rota_get_key *key = &keys->items.items[index];
    keys->n_idle -= key->n_out == 0 && n > 0;
    key->n_out += n;
}

/* One has returned without an answer for it. */
void rota_get_keys_return(struct rota_get_keys *keys, uint32_t index, enum rota_failure failure);

/* Give up a pending key. */
void rota_get_keys_give_up(struct rota_get_keys *keys, uint32_t index,
                           enum rota_get_key_state state, enum rota_failure failure);

/* Of an answer: a key that it does not answer. */
struct rota_get_fsm_problem {
    uint64_t id;
    bool is_left; /* to be requested again; otherwise the host can't return it */
};

/* An answer in which all keys matched. */
struct rota_get_entries {
    const uint64_t *ids;
    size_t n;
    const struct rota_get_fsm_problem *problems;
    size_t n_problems;
    /* Only keys of these are answered; NULL: all keys are of one. */
    const struct rota_interval_claim *claims;
    size_t n_claims;
    uint64_t number;
    uint32_t try;
};

struct rota_get_taken {
    size_t n;         /* keys that were answered */
    size_t n_found;   /* of these, with a value */
    size_t n_refused; /* refused by the host; pending if another host is asked for them, too */
    size_t n_left;    /* keys still pending, because the answer leaves them out */
};

/* Use the answer for the keys that the try asked for, `list` in growing order; keys with neither
 * entry nor problem are absent. */
struct rota_get_taken rota_get_keys_use_answer(struct rota_get_keys *keys, const uint32_t *list,
                                               size_t n, const struct rota_get_entries *entries);

struct rota_get_fsm_result rota_get_keys_result(const struct rota_get_keys *keys, size_t index);

/* Keys that are missing or pending; the first `size` of them go into `list`. */
size_t rota_get_keys_missing(const struct rota_get_keys *keys, uint32_t *list, size_t size);
