/* view: who owns which shard of a space, agreed upon by number.
 *
 * A view is one row of the store: a number, the members that share the shards, the shards that are
 * pinned to one of them, and the engine by which the rest is placed. Everything else follows from
 * it by a function, the same on every node: the owner of a shard, and its epoch, which is the
 * number of the view in which its owner last changed. So 100,000 shards need no row each.
 *
 * A view keeps what it replaced: each member and each pin has the number of the first view that it
 * is in (`from`) and of the first that it is no longer in (`to`). That goes back to `base`, so that
 * from one view alone all views from `base` on can be made again. A node that missed some views, or
 * is new, computes the same epochs as nodes that followed each of them.
 *
 * When that becomes too much, a later base is chosen, and every epoch below it counts as `base`.
 * The same happens when the engine changes: then the base is the view's own number, and all shards
 * have a new epoch.
 *
 * A member is one incarnation of a node: its name, and an instance that no other incarnation has.
 *
 * A keyed space has no shards, but an owner for any key: its views are of engine `ring`, without
 * pins, refusals and seats, and its members have zones. core/own/view_keys.h finds the owners.
 *
 * Placement: a pin goes before all, if it names a member that has not refused. Then, `ring`: the
 * lookup of "SPACE/SHARD" among the members, by their weights. `static`: seat SHARD modulo the
 * number of seats, which is a node's name; no owner if that node is not a member. `lease` and
 * `group`: views assign no owner; these engines do it themselves.
 *
 * A member that could not start a shard has refused it, which is part of the view, with its reason
 * and with `from` and `to` like a pin. While it lasts the shard goes to the next member clockwise
 * that has not refused it; `static` gives it no owner. If all members have refused a shard of a
 * ring, the refusals count for nothing: one of them tries again. A refusal ends with its member, or
 * when the member asks for another try.
 *
 * Invariants: an epoch is the number of a view, and names one owner, the one of that view. The
 * epoch of a shard never decreases from one view to a later one. */
#pragma once

#include "base/arena.h"
#include "base/vector.h"

#include <rota/error.h>
#include <rota/ring.h>
#include <rota/str.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    ROTA_VIEW_SHARDS_MAX = 1 << 17,    /* of a space */
    ROTA_VIEW_NODES_MAX = 1024,        /* members at a time; others have to wait */
    ROTA_VIEW_MEMBERS_MAX = 4096,      /* in a view, with former ones */
    ROTA_VIEW_PINS_NOW_MAX = 4096,     /* at a time */
    ROTA_VIEW_PINS_MAX = 8192,         /* in a view, with former ones */
    ROTA_VIEW_SEATS_MAX = 1024,        /* of a static space */
    ROTA_VIEW_REFUSALS_NOW_MAX = 1024, /* at a time */
    ROTA_VIEW_REFUSALS_MAX = 2048,     /* in a view, with former ones */
    ROTA_VIEW_WHY_MAX = 200,           /* bytes of a reason; no control characters */
    ROTA_VIEW_STATES_MAX = 64, /* views that can be reconstructed; above it half are dropped */
    ROTA_VIEW_WEIGHT_MAX = 100 * ROTA_WEIGHT_ONE, /* a higher weight counts as this */
    ROTA_VIEW_NAME_MAX = 255, /* bytes of a node's or space's name; no control characters */
};

/* Numbers have to fit a signed column, with room above. */
#define ROTA_VIEW_NUMBER_MAX ((uint64_t)INT64_MAX / 2)

#define ROTA_VIEW_NOBODY UINT32_MAX

/* The keyed space of the nodes that serve queues. No other space has this name. */
#define ROTA_VIEW_QUEUES "queues"

enum rota_view_engine {
    ROTA_VIEW_RING,
    ROTA_VIEW_STATIC,
    ROTA_VIEW_LEASE,
    ROTA_VIEW_GROUP,
};

/* The phase of a migration to another engine: core/own/migrate_fsm.h. */
enum rota_view_phase {
    ROTA_VIEW_STABLE,
    ROTA_VIEW_SHADOW,   /* `engine` owns; the owners by `to` are computed alongside */
    ROTA_VIEW_STOPPING, /* no member owns: all of `engine` stop; `to` comes next */
    ROTA_VIEW_STARTING, /* `engine` is the new one and owns; `to` is the same */
};

/* The views that contain something: from <= number, and number < to unless `to` is 0. */
struct rota_view_span {
    uint64_t from, to;
};

struct rota_view_member {
    struct rota_view_span span;
    struct rota_str name, zone; /* the zone may be empty, and is unless the space is keyed */
    uint64_t instance;          /* not 0 */
    uint32_t weight;            /* in thousandths: ROTA_WEIGHT_MIN .. ROTA_VIEW_WEIGHT_MAX */
};

struct rota_view_pin {
    struct rota_view_span span;
    uint32_t shard;
    struct rota_str name;
};

/* A member can't start a shard. */
struct rota_view_refusal {
    struct rota_view_span span;
    uint32_t shard;
    struct rota_str name, why;
};

/* The strings are in the arena. */
struct rota_view {
    uint64_t number; /* 0: there is no view yet; all else is then empty */
    uint64_t base;   /* 1 .. number */
    enum rota_view_engine engine, to;
    enum rota_view_phase phase;
    uint32_t n_shards; /* 0: the space is keyed */
    ROTA_VECTOR(struct rota_str) seats;
    ROTA_VECTOR(struct rota_view_member) members;
    ROTA_VECTOR(struct rota_view_pin) pins;
    ROTA_VECTOR(struct rota_view_refusal) refusals;
    struct rota_arena arena;
};

/* A zeroed view is empty. */
void rota_view_deinit(struct rota_view *view);

/* Copy `view` into `copy`, which is empty; without memory it stays empty. */
enum rota_code rota_view_copy(const struct rota_view *view, struct rota_view *copy,
                              struct rota_error *error);

/* The order of the members, the pins and the refusals of a view, for qsort(). */
int rota_view_compare_members(const void *a, const void *b);
int rota_view_compare_pins(const void *a, const void *b);
int rota_view_compare_refusals(const void *a, const void *b);

/* Whether a view is valid: bounds, from and to within base and number, a name at most once at a
 * time, a shard pinned at most once at a time and refused at most once by a member.
 * wire/text/view_text.h checks what it reads from a store with this. */
enum rota_code rota_view_check(const struct rota_view *view, struct rota_error *error);

bool rota_view_name_is_valid(struct rota_str name);
bool rota_view_zone_is_valid(struct rota_str zone); /* it may be empty */
bool rota_view_why_is_valid(struct rota_str why);

static inline bool rota_view_span_has(struct rota_view_span span, uint64_t number)
{
    return span.from <= number && (span.to == 0 || number < span.to);
}

static inline bool rota_view_is_keyed(const struct rota_view *view)
{
    return view->number > 0 && view->n_shards == 0;
}

/* The member of this name as of the view itself, or ROTA_VIEW_NOBODY. */
uint32_t rota_view_find(const struct rota_view *view, struct rota_str name);

/* The refusals of a shard, also those that have ended: the index of the first one; `*n` is how
 * many. */
size_t rota_view_refusals_of(const struct rota_view *view, uint32_t shard, size_t *n);

/* The numbers of views that can be reconstructed: `base`, and those above it at which something
 * changed, in order. Returns how many; one more than there is room for means that there are too
 * many. */
size_t rota_view_states(const struct rota_view *view, uint64_t numbers[ROTA_VIEW_STATES_MAX + 1]);

/* Whether both are equal, so that they have the same text. */
bool rota_view_is_equal(const struct rota_view *view, const struct rota_view *other);

/* Whether `later`, which has a later number and a base that is not above the number of `view`,
 * agrees with `view` about all views from its own base up to that number. If not, they have
 * different histories: the store fell back to an earlier state in between. */
bool rota_view_is_before(const struct rota_view *view, const struct rota_view *later);

/* Raise the base to `base`: what ended by then is forgotten. */
void rota_view_rebase(struct rota_view *view, uint64_t base);

/* The hash of "SPACE/SHARD", which the ring looks up. */
uint32_t rota_view_hash(struct rota_str space, uint32_t shard);

/* Who owns each shard, as of number `number` of the view, which is not below its base:
 * `owners[shard]` becomes an index into `view->members` or ROTA_VIEW_NOBODY. `engine` places
 * them, which need not be the view's own: a shadow uses another. `hashes` are of
 * rota_view_hash(), one per shard. */
enum rota_code rota_view_place(const struct rota_view *view, uint64_t number,
                               enum rota_view_engine engine, const uint32_t *hashes,
                               uint32_t *owners, struct rota_error *error);

/* "ring", "static", "lease", "group"; "stable", "shadow", "stopping", "starting". Any
 * thread. */
const char *rota_view_engine_name(enum rota_view_engine engine);
const char *rota_view_phase_name(enum rota_view_phase phase);
bool rota_view_engine_parse(struct rota_str name, enum rota_view_engine *engine);
bool rota_view_phase_parse(struct rota_str name, enum rota_view_phase *phase);
