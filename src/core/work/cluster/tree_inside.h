/* tree_inside: what the files of tree_fsm share: the machine (tree_fsm.c), the words that are
 * believed (tree_words.c) and the nodes that receive them (tree_parents.c). Private to them. */
#pragma once

#include "base/arena.h"
#include "base/buffer.h"
#include "core/work/cluster/tree_fsm.h"

#include <stdlib.h>
#include <string.h>

/* A word, as it is believed here. */
struct rota_tree_said {
    enum rota_tree_kind kind;
    struct rota_tree_queue *queue;
    struct rota_str node, can; /* of `key` */
    size_t place;              /* in its queue's list */
    uint64_t stamp;
    uint32_t n; /* left of what was reported */
    uint32_t hops;
    rota_time since, until; /* of the oldest; when it is no longer believed */

    /* Of our own words. */
    bool is_ours, is_believed, is_seen;
    bool is_denied; /* the last message about it revoked it */
    uint32_t real_n;
    rota_time real_since, quiet_until;
    size_t own_place;

    size_t key_size;
    char key[]; /* kind, queue, node, can */
};

struct rota_tree_queue {
    ROTA_VECTOR(struct rota_tree_said *) words[2]; /* by kind */
    ROTA_VECTOR(char *) parents;                   /* addresses, the first one first */
    bool has_parents;                              /* they were computed */
    size_t name_size;
    char name[];
};

/* A visit that we have caused. */
struct rota_tree_visit {
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
    ROTA_VECTOR(struct rota_tree_said *) own;
    ROTA_VECTOR(struct rota_tree_action) actions;
    struct rota_arena arena;   /* of actions */
    struct rota_buffer buffer; /* of a key */
    struct rota_tree_counts counts;
    char self[];
};

static inline struct rota_str rota_tree_self(const struct rota_tree_fsm *fsm)
{
    return fsm->options.self;
}

static inline struct rota_str rota_tree_queue_name(const struct rota_tree_queue *queue)
{
    return rota_str_of(queue->name, queue->name_size);
}

/* --- tree_words.c --- */

struct rota_tree_queue *rota_tree_words_need_queue(struct rota_tree_fsm *fsm, struct rota_str name);
void rota_tree_words_free_queue(struct rota_tree_queue *queue);

/* Remove queues without words. */
void rota_tree_words_sweep_queues(struct rota_tree_fsm *fsm);

/* NULL when there is none; `need` makes it, and counts it when there is no room. */
struct rota_tree_said *rota_tree_words_find(struct rota_tree_fsm *fsm,
                                            const struct rota_tree_word *said);
struct rota_tree_said *rota_tree_words_need(struct rota_tree_fsm *fsm,
                                            const struct rota_tree_word *said);
void rota_tree_words_free(struct rota_tree_fsm *fsm, struct rota_tree_said *word);

/* --- tree_parents.c --- */

bool rota_tree_parents_are_down(const struct rota_tree_fsm *fsm, struct rota_str node);

/* Compute the nodes that get the words of a queue, unless they are known. */
void rota_tree_parents_find(struct rota_tree_fsm *fsm, struct rota_tree_queue *queue);
void rota_tree_parents_forget(struct rota_tree_queue *queue);
