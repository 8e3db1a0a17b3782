/* capability: what jobs need and workers have, as numbers.
 *
 * A name has a number while it is in use, and a set of names is a sorted list of these. The sets
 * that jobs need are interned too, found by their names in one lookup; set 0 is the empty one.
 * The caller that interns a name holds a reference, and releases it once. */
#pragma once

#include "base/map.h"
#include "base/vector.h"
#include "core/work/job/job.h"

enum { ROTA_CAPABILITIES_MAX = 65536 }; /* names that are known at a time */

struct rota_capability {
    uint32_t number, n_refs;
    uint32_t size;
    char name[ROTA_CAPABILITY_NAME_MAX];
};

/* A sorted list of names by number; the memory is its owner's. */
struct rota_capability_list {
    uint32_t *items;
    size_t size;
};

struct rota_capability_set {
    uint32_t number;
    size_t n_refs; /* lanes */
    struct rota_capability_list list;
    struct rota_str names[ROTA_JOB_CAPABILITIES_MAX]; /* sorted; in `text` */
    char *text;                                       /* its key */
    size_t text_size;
};

struct rota_capabilities {
    struct rota_map by_name;
    ROTA_VECTOR(struct rota_capability *) names; /* NULL: the number is free */
    ROTA_VECTOR(uint32_t) free_names;

    struct rota_map by_text;
    ROTA_VECTOR(struct rota_capability_set *) sets; /* NULL: the number is free */
    size_t n_sets, sets_max;
};

/* False when there is no memory; deinitialise it even then. */
bool rota_capabilities_init(struct rota_capabilities *capabilities, size_t sets_max, uint64_t seed);
void rota_capabilities_deinit(struct rota_capabilities *capabilities);

/* The list of a worker's names; gives the list, rota_capabilities_drop_list() ends it.
 * Duplicates count once. The names must have been checked. */
enum rota_code rota_capabilities_make_list(struct rota_capabilities *capabilities,
                                           const struct rota_str *names, size_t n,
                                           struct rota_capability_list *list,
                                           struct rota_error *error);
void rota_capabilities_drop_list(struct rota_capabilities *capabilities,
                                 struct rota_capability_list *list);

/* The set of at most ROTA_JOB_CAPABILITIES_MAX names, made if needed. It stays until
 * rota_capabilities_sweep(), and while it has refs. */
enum rota_code rota_capabilities_set(struct rota_capabilities *capabilities,
                                     const struct rota_str *names, size_t n,
                                     struct rota_capability_set **set, struct rota_error *error);

static inline struct rota_capability_set *rota_capabilities_set_at(
    const struct rota_capabilities *capabilities, uint32_t number)
{
    return capabilities->sets.items[number];
}

/* Names in order, each once, into `sorted`, which has room for all. Returns how many. */
size_t rota_capabilities_sort(const struct rota_str *names, size_t n, struct rota_str *sorted);

/* Drop the sets without references, except the empty one. */
void rota_capabilities_sweep(struct rota_capabilities *capabilities);

/* Whether all of `needed` is in `offered`. */
bool rota_capability_list_has(const struct rota_capability_list *offered,
                              const struct rota_capability_list *needed);
