/* settings_fsm: settings of queues as rows of a store that all nodes share: when a node reads them,
 * when it may begin with its jobs, and how it changes one.
 *
 *     NEW --all rows read--> BEGUN
 *     NEW --the store does not answer, and the node has a copy of its own--> BEGUN
 *
 * Each row has a version, and versions are numbered through all rows: a node that has read up to a
 * version asks for the later ones only. It reads at every interval, at once when another node says
 * that it has written, and now and then all rows again, in case that the store was restored from a
 * backup or has dropped a row. What a node has read is in force there, whatever it had before; its
 * own copy is a cache, for a start while the store is unreachable.
 *
 * A change is computed from the row as it was read, and written only if the row is still that one;
 * otherwise the node reads again and computes it again, so that two changes of different settings
 * are both kept. Changes must be repeatable: one whose outcome is unknown is made again.
 *
 * Invariants: one request is in flight at most, so that no older row overwrites a newer one. A
 * change ends as DONE only when the store has it, and as UNREACHABLE only when the store does not.
 * A node without a copy does not begin before it has read the rows. */
#pragma once

#include "base/list.h"

#include <rota/time.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ROTA_SETTINGS_PATIENCE (5 * ROTA_SEC)  /* of a change while the store is unreachable */
#define ROTA_SETTINGS_START    (2 * ROTA_SEC)  /* for the first rows, where there is a copy */
#define ROTA_SETTINGS_ALL      (10 * ROTA_MIN) /* between two reads of all rows */

enum { ROTA_SETTINGS_CHANGES_MAX = 1024 }; /* that wait */

/* A change, in the caller's struct, which stays until it has ended. */
struct rota_settings_change {
    struct rota_list_node link;
    rota_time until;
    bool is_unsure; /* a write of it had no answer */
};

enum rota_settings_event_type {
    ROTA_SETTINGS_TICK,
    ROTA_SETTINGS_HINT,     /* another node has written `version` */
    ROTA_SETTINGS_CHANGE,   /* begin `change`; there is room for it */
    ROTA_SETTINGS_READ,     /* what was read is in force; `version` is the latest of all rows */
    ROTA_SETTINGS_WRITTEN,  /* the change is in the store as `version`, after `previous` */
    ROTA_SETTINGS_CONFLICT, /* the row has changed since it was read: nothing was written */
    ROTA_SETTINGS_REFUSED,  /* the change can't be made to the row as it is */
    ROTA_SETTINGS_FAILED,   /* the request was certainly not carried out */
    ROTA_SETTINGS_LOST,     /* ... or it may have been, or may be later */
};

struct rota_settings_event {
    enum rota_settings_event_type type;
    uint64_t version, previous;
    struct rota_settings_change *change;
    bool is_first;   /* of CHANGE: before those that wait */
    bool is_applied; /* of WRITTEN: the row is in force here */
};

enum rota_settings_end {
    ROTA_SETTINGS_DONE,
    ROTA_SETTINGS_INVALID,     /* it was refused */
    ROTA_SETTINGS_UNREACHABLE, /* the store has not answered: nothing has changed */
    ROTA_SETTINGS_UNKNOWN,     /* ... and may have changed it */
};

/* At most one request is made; `ended` is over, and the caller's again. */
struct rota_settings_actions {
    bool read, is_all; /* all rows, or those after `from` */
    uint64_t from;
    struct rota_settings_change *write;
    uint64_t known; /* ... if its row is not of a later version */
    struct rota_settings_change *ended;
    enum rota_settings_end how;
    bool begin; /* once */
};

enum rota_settings_flight {
    ROTA_SETTINGS_IDLE,
    ROTA_SETTINGS_READING,
    ROTA_SETTINGS_READING_ALL,
    ROTA_SETTINGS_WRITING,
};

struct rota_settings_fsm {
    rota_time interval;
    uint64_t known;  /* rows up to this version are in force here */
    uint64_t hinted; /* ... and one up to this exists */
    rota_time read_at, all_at;
    rota_time begin_by; /* ROTA_TIME_NEVER: only with rows */
    enum rota_settings_flight flight;
    bool has_copy, has_begun, has_read, has_failed;
    bool must_read;   /* before the next write */
    bool has_changed; /* hinted since the read in flight was sent */
    struct rota_list_node changes;
    size_t n_changes;
    struct rota_settings_change *written; /* the first of them, while it is written */
};

/* `has_copy`: of the settings, from an earlier run. */
void rota_settings_fsm_init(struct rota_settings_fsm *fsm, rota_time now, rota_time interval,
                            bool has_copy);

/* Repeat it with TICK while the deadline has passed. */
struct rota_settings_actions rota_settings_fsm_step(struct rota_settings_fsm *fsm, rota_time now,
                                                    const struct rota_settings_event *event);
rota_time rota_settings_fsm_deadline(const struct rota_settings_fsm *fsm);

static inline bool rota_settings_fsm_has_room(const struct rota_settings_fsm *fsm)
{
    return fsm->n_changes < ROTA_SETTINGS_CHANGES_MAX;
}

/* The next change, removed; NULL: none is left. For a caller that stops: do not
 * report the request in flight after that. */
struct rota_settings_change *rota_settings_fsm_drop(struct rota_settings_fsm *fsm);
