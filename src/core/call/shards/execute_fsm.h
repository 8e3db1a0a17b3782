/* execute_fsm: one request on all shards of a collection, on any one, or on a certain one.
 *
 *     ASKING --the map--> RUNNING --all calls ended--> DONE
 *
 * Each shard gets a call of its own, see call_fsm.h; they run in parallel. The first failure
 * cancels the others, since the whole has failed; a caller that can use a part asks for partial
 * results, and then every call runs to its end. The finish comes when the last call has ended,
 * cancelled ones included, so that nothing runs after it.
 *
 * Actions are taken out with rota_execute_fsm_next() after every event. */
#pragma once

#include "core/call/failure.h"
#include "core/call/shards/shard_map.h"

#include <rota/time.h>

struct rota_random;

enum rota_execute_mode {
    ROTA_EXECUTE_ALL,
    ROTA_EXECUTE_ONE,   /* any shard, chosen at random */
    ROTA_EXECUTE_SHARD, /* the one with this name */
};

enum rota_execute_event_type {
    ROTA_EXECUTE_START,
    ROTA_EXECUTE_LEADERS,
    ROTA_EXECUTE_CALL_ENDED,
    ROTA_EXECUTE_CANCEL,
};

struct rota_execute_event {
    enum rota_execute_event_type type;
    enum rota_failure failure;
    struct rota_shard_map *map; /* of leaders; the machine takes a reference of its own */
    size_t shard;               /* of a call that ended: its index */
};

enum rota_execute_action_type {
    ROTA_EXECUTE_ASK_LEADERS,
    ROTA_EXECUTE_START_CALL,
    ROTA_EXECUTE_CANCEL_CALL, /* its end is still outstanding */
    ROTA_EXECUTE_FINISH,
};

struct rota_execute_action {
    enum rota_execute_action_type type;
    size_t shard;
    struct rota_str channel; /* of a start; valid until the finish */

    enum rota_failure failure; /* of a finish: the first one, none when all succeeded */
    size_t n_ok, n_failed;
};

enum rota_execute_state {
    ROTA_EXECUTE_NEW,
    ROTA_EXECUTE_ASKING,
    ROTA_EXECUTE_RUNNING,
    ROTA_EXECUTE_DONE,
};

enum rota_execute_shard_state {
    ROTA_EXECUTE_SHARD_IDLE,
    ROTA_EXECUTE_SHARD_RUNNING,
    ROTA_EXECUTE_SHARD_ENDED,
};

struct rota_execute_shard {
    enum rota_execute_shard_state state;
    enum rota_failure failure;
    bool is_cancelled;
};

struct rota_execute_fsm {
    enum rota_execute_mode mode;
    bool is_partial;
    struct rota_random *random;
    struct rota_str channel; /* of a certain one */
    enum rota_execute_state state;
    struct rota_shard_map *map;
    struct rota_execute_shard *shards;
    size_t n_shards;   /* in the map */
    size_t first, end; /* those that are used */
    size_t place;      /* of the next shard with something to do */
    size_t n_ended, n_ok;
    bool asks, starts, cancels, finishes;
    enum rota_failure failure; /* the first */
};

/* `is_partial`: a shard that fails does not end the others, and the finish says how many
 * succeeded; it still carries the first failure. `random` is kept. */
void rota_execute_fsm_init(struct rota_execute_fsm *fsm, enum rota_execute_mode mode,
                           bool is_partial, struct rota_random *random);

/* The same for the shard `channel`, kept. A map that does not have it is a
 * failure: no replica. */
void rota_execute_fsm_init_shard(struct rota_execute_fsm *fsm, struct rota_str channel);
void rota_execute_fsm_deinit(struct rota_execute_fsm *fsm);

void rota_execute_fsm_step(struct rota_execute_fsm *fsm, const struct rota_execute_event *event);
bool rota_execute_fsm_next(struct rota_execute_fsm *fsm, struct rota_execute_action *action);
