/* loads: one load for each missing key, however many callers ask for it.
 *
 *     ask --> WAITING --begin: it is in a read--> READING --settle--> gone
 *
 * An asker for a key that is already waiting or being read joins the others. Waiting keys go to the
 * source together, many in one read, and at most a few reads run at a time: keys that arrive
 * meanwhile are collected for the next.
 *
 * The end of a read settles its keys one after the other: each asker of a key is returned once,
 * with whatever the caller has for it: a value, no value, or a failure. A read that was too large
 * is split: its keys are then read one by one, so that one bad key fails alone.
 *
 * Invariants: a key is in one read at most; an asker is returned exactly once for each key,
 * unless it is forgotten first; a key without an asker is not read, but one that is being read
 * stays until the read ends. */
#pragma once

#include "base/list.h"
#include "base/map.h"
#include "base/vector.h"

#include <rota/error.h>

/* An asker: a part of the caller's struct, zeroed, which outlives its waits. */
struct rota_load_asker {
    struct rota_list_node waits; /* those of its keys that are not settled */
    size_t n_waiting;
};

struct rota_loads_options {
    size_t waits_max; /* of all askers together */
    size_t keys_max;  /* of one read */
    size_t reads_max; /* at a time */
};

struct rota_load_key;

/* One read of several keys. */
struct rota_load_read {
    ROTA_VECTOR(struct rota_str) keys; /* for the source; valid until the read ends */
    ROTA_VECTOR(struct rota_load_key *) loads;
    size_t n_settled; /* of the rest, from the first on */
    void *data;       /* the caller's */
};

struct rota_loads {
    struct rota_loads_options options;
    struct rota_map keys;
    struct rota_list_node waiting; /* keys that are in no read */
    size_t n_waits, n_reads;
    uint64_t n_asked, n_loaded; /* in all: waits, and keys that went into a read */
};

void rota_loads_init(struct rota_loads *loads, const struct rota_loads_options *options,
                     uint64_t seed);

/* All reads have ended. Remaining askers are forgotten. */
void rota_loads_deinit(struct rota_loads *loads);

/* `asker` waits for `key`, which is copied, and calls it `index`. ROTA_ERR_LIMIT or
 * ROTA_ERR_NO_MEMORY: it does not; its other waits are unchanged. */
enum rota_code rota_loads_ask(struct rota_loads *loads, struct rota_str key,
                              struct rota_load_asker *asker, uint32_t index);

/* `asker` no longer waits for anything. */
void rota_loads_forget(struct rota_loads *loads, struct rota_load_asker *asker);

/* The next read, of keys that wait; NULL when none should begin now. End it with
 * rota_loads_end() or rota_loads_split(). */
struct rota_load_read *rota_loads_begin(struct rota_loads *loads);

/* Take one asker of a key of the read: one of the key with this name, or any that is left, whose
 * key is then in `*name`, valid until the read ends. NULL when there is none. Do not ask between
 * the first of these calls and the end. */
struct rota_load_asker *rota_loads_next_asker(struct rota_loads *loads, struct rota_load_read *read,
                                              struct rota_str name, uint32_t *index);
struct rota_load_asker *rota_loads_next_asker_left(struct rota_loads *loads,
                                                   struct rota_load_read *read,
                                                   struct rota_str *name, uint32_t *index);

/* The read is over. Takes `read`, which has no askers left. */
void rota_loads_end(struct rota_loads *loads, struct rota_load_read *read);

/* The read was too large: those of its keys that have askers are read again, each alone. Takes
 * `read`, which has more than one key. */
void rota_loads_split(struct rota_loads *loads, struct rota_load_read *read);
