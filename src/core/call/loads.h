/* loads: one load for each missing key, however many ask for it.
 *
 *     ask --> WAITING --begin: it is in a read--> READING --settle--> gone
 *
 * Whoever asks for a key that is waiting or being read already joins those who wait
 * for it. Waiting keys go to the source together, many in one read, and at most a
 * few reads run at one time: what is asked for meanwhile gathers for the next.
 *
 * The end of a read settles its keys one after the other: each of those who wait for
 * a key is given out once, with whatever the caller has for it: a value, nothing, or
 * a failure. A read that was too large is split: its keys are then read alone, so
 * that one bad key fails by itself.
 *
 * Invariants: a key is in one read at most; who asks is given out exactly once for
 * each key, unless it is forgotten first; a key that nobody waits for is not read,
 * but one that is being read stays until that ends. */
#pragma once

#include "base/map.h"
#include "base/vector.h"
#include "core/call/list.h"

#include <rota/error.h>

/* Whoever waits: a part of the caller's struct, zeroed, which outlives its stay. */
struct rota_load_asker {
    struct rota_list_node waits; /* those of its keys that are not settled */
    size_t n_waiting;
};

struct rota_loads_options {
    size_t waits_max; /* of all askers together */
    size_t keys_max;  /* of one read */
    size_t reads_max; /* at one time */
};

struct rota_load_key;

/* One read of several keys. */
struct rota_load_read {
    ROTA_VECTOR(struct rota_str) keys; /* for the source; good until the read ends */
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

/* All reads have ended. Those who still wait are forgotten. */
void rota_loads_deinit(struct rota_loads *loads);

/* `asker` waits for `key`, which is copied, and calls it `index`. ROTA_ERR_LIMIT or
 * ROTA_ERR_NO_MEMORY: it does not; what else it waits for is as it was. */
enum rota_code rota_loads_ask(struct rota_loads *loads, struct rota_str key,
                              struct rota_load_asker *asker, uint32_t index);

/* `asker` does not wait for anything any more. */
void rota_loads_forget(struct rota_loads *loads, struct rota_load_asker *asker);

/* The next read, of keys that wait; NULL when there is none to begin now. It is ended
 * by rota_loads_end() or rota_loads_split(). */
struct rota_load_read *rota_loads_begin(struct rota_loads *loads);

/* Take one of those who wait for a key of the read: the one with this name, or one
 * that is left, whose name is then in `*name`, good until the read ends. NULL when
 * there is none. Nothing is asked between the first of these and the end. */
struct rota_load_asker *rota_loads_settle(struct rota_loads *loads, struct rota_load_read *read,
                                          struct rota_str name, uint32_t *index);
struct rota_load_asker *rota_loads_settle_rest(struct rota_loads *loads,
                                               struct rota_load_read *read, struct rota_str *name,
                                               uint32_t *index);

/* The read is over. Takes `read`, of which nobody waits any more. */
void rota_loads_end(struct rota_loads *loads, struct rota_load_read *read);

/* The read was too large: those of its keys for which somebody waits are read again,
 * each alone. Takes `read`, which has more than one key. */
void rota_loads_split(struct rota_loads *loads, struct rota_load_read *read);
