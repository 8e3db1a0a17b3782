#include "core/call/shards/execute_fsm.h"

#include <rota/experimental/random.h>
#include <stdlib.h>

void rota_execute_fsm_init(struct rota_execute_fsm *fsm, enum rota_execute_mode mode,
                           bool is_partial, struct rota_random *random)
{
    *fsm = (struct rota_execute_fsm){.mode = mode, .is_partial = is_partial, .random = random};
}

void rota_execute_fsm_init_shard(struct rota_execute_fsm *fsm, struct rota_str channel)
{
    *fsm = (struct rota_execute_fsm){.mode = ROTA_EXECUTE_SHARD, .channel = channel};
}

void rota_execute_fsm_deinit(struct rota_execute_fsm *fsm)
{
    rota_shard_map_drop(fsm->map);
    free(fsm->shards);
    *fsm = (struct rota_execute_fsm){.state = ROTA_EXECUTE_DONE};
}

static void finish_execute(struct rota_execute_fsm *fsm, enum rota_failure failure)
{
    if (!fsm->failure)
        fsm->failure = failure;
    fsm->state = ROTA_EXECUTE_DONE;
    fsm->finishes = true;
}

/* The shards of the map that are used, from `first` on; false when there is none. */
static bool choose_shards(struct rota_execute_fsm *fsm, const struct rota_shard_map *map)
{
    const struct rota_shard_channel *channel;
    switch (fsm->mode) {
    case ROTA_EXECUTE_ALL:
        fsm->end = map->n_channels;
        return true;
    case ROTA_EXECUTE_ONE:
        fsm->first = rota_random_below(fsm->random, map->n_channels);
        break;
    case ROTA_EXECUTE_SHARD:
        channel = rota_shard_map_find(map, fsm->channel);
        if (!channel)
            return false;
        fsm->first = (size_t)(channel - map->channels);
        break;
    }
    fsm->end = fsm->first + 1;
    return true;
}

static void on_leaders(struct rota_execute_fsm *fsm, const struct rota_execute_event *event)
{
    if (fsm->state != ROTA_EXECUTE_ASKING)
        return;
    if (event->failure || !event->map) {
        finish_execute(fsm, event->failure ? event->failure : ROTA_FAILURE_NO_REPLICA);
        return;
    }
    size_t n = event->map->n_channels;
    if (n == 0) {
        finish_execute(fsm, ROTA_FAILURE_NOT_LOADED);
        return;
    }
    if (!choose_shards(fsm, event->map)) {
        finish_execute(fsm, ROTA_FAILURE_NO_REPLICA);
        return;
    }
    fsm->shards = calloc(n, sizeof *fsm->shards);
    if (!fsm->shards) {
        finish_execute(fsm, ROTA_FAILURE_LOCAL);
        return;
    }
    fsm->map = rota_shard_map_share(event->map);
    fsm->n_shards = n;
    fsm->place = fsm->first;
    fsm->starts = true;
    fsm->state = ROTA_EXECUTE_RUNNING;
}

/* Running calls are cancelled, and those that have not started never will. */
static void cancel_calls(struct rota_execute_fsm *fsm)
{
    fsm->starts = false;
    fsm->cancels = true;
    fsm->place = fsm->first;
    for (size_t i = fsm->first; i < fsm->end; i++) {
        struct rota_execute_shard *shard = &fsm->shards[i];
        if (shard->state != ROTA_EXECUTE_SHARD_IDLE)
            continue;
        *shard =
            (struct rota_execute_shard){ROTA_EXECUTE_SHARD_ENDED, ROTA_FAILURE_CANCELLED, true};
        fsm->n_ended++;
    }
    if (fsm->n_ended == fsm->end - fsm->first)
        finish_execute(fsm, ROTA_FAILURE_CANCELLED);
}

static void on_call_ended(struct rota_execute_fsm *fsm, const struct rota_execute_event *event)
{
    if (fsm->state != ROTA_EXECUTE_RUNNING || event->shard >= fsm->n_shards ||
        fsm->shards[event->shard].state != ROTA_EXECUTE_SHARD_RUNNING)
        return;
    struct rota_execute_shard *shard = &fsm->shards[event->shard];
    shard->state = ROTA_EXECUTE_SHARD_ENDED;
    shard->failure = event->failure;
    fsm->n_ended++;
    fsm->n_ok += event->failure == ROTA_FAILURE_NONE;
    if (!fsm->failure)
        fsm->failure = event->failure;
    if (fsm->n_ended == fsm->end - fsm->first)
        finish_execute(fsm, ROTA_FAILURE_NONE);
    else if (event->failure && !fsm->is_partial && !fsm->cancels)
        cancel_calls(fsm);
}

static void on_cancel(struct rota_execute_fsm *fsm)
{
    if (fsm->state == ROTA_EXECUTE_DONE || fsm->cancels)
        return;
    if (!fsm->failure)
        fsm->failure = ROTA_FAILURE_CANCELLED;
    if (fsm->state == ROTA_EXECUTE_RUNNING)
        cancel_calls(fsm);
    else
        finish_execute(fsm, ROTA_FAILURE_CANCELLED);
}

void rota_execute_fsm_step(struct rota_execute_fsm *fsm, const struct rota_execute_event *event)
{
    switch (event->type) {
    case ROTA_EXECUTE_START:
        if (fsm->state != ROTA_EXECUTE_NEW)
            break;
        fsm->state = ROTA_EXECUTE_ASKING;
        fsm->asks = true;
        break;
    case ROTA_EXECUTE_LEADERS:
        on_leaders(fsm, event);
        break;
    case ROTA_EXECUTE_CALL_ENDED:
        on_call_ended(fsm, event);
        break;
    case ROTA_EXECUTE_CANCEL:
        on_cancel(fsm);
        break;
    }
}

static bool next_start(struct rota_execute_fsm *fsm, struct rota_execute_action *action)
{
    if (fsm->place == fsm->end) {
        fsm->starts = false;
        return false;
    }
    fsm->shards[fsm->place].state = ROTA_EXECUTE_SHARD_RUNNING;
    *action = (struct rota_execute_action){
        .type = ROTA_EXECUTE_START_CALL,
        .shard = fsm->place,
        .channel = fsm->map->channels[fsm->place].name,
    };
    fsm->place++;
    return true;
}

static bool next_cancel(struct rota_execute_fsm *fsm, struct rota_execute_action *action)
{
    for (; fsm->place < fsm->end; fsm->place++) {
        struct rota_execute_shard *shard = &fsm->shards[fsm->place];
        if (shard->state != ROTA_EXECUTE_SHARD_RUNNING || shard->is_cancelled)
            continue;
        shard->is_cancelled = true;
        *action = (struct rota_execute_action){
            .type = ROTA_EXECUTE_CANCEL_CALL,
            .shard = fsm->place++,
        };
        return true;
    }
    return false;
}

bool rota_execute_fsm_next(struct rota_execute_fsm *fsm, struct rota_execute_action *action)
{
    if (fsm->asks) {
        fsm->asks = false;
        *action = (struct rota_execute_action){.type = ROTA_EXECUTE_ASK_LEADERS};
        return !fsm->finishes || rota_execute_fsm_next(fsm, action);
    }
    if (fsm->starts && next_start(fsm, action))
        return true;
    if (fsm->cancels && next_cancel(fsm, action))
        return true;
    if (!fsm->finishes)
        return false;
    fsm->finishes = false;
    *action = (struct rota_execute_action){
        .type = ROTA_EXECUTE_FINISH,
        .failure = fsm->failure,
        .n_ok = fsm->n_ok,
        .n_failed = fsm->end - fsm->first - fsm->n_ok,
    };
    return true;
}
