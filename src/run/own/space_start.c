/* Starts of shards that take time, or fail: how the user answers on_start, and what happens to a
 * shard that it refuses. The view has the refusals, and so all nodes know them. */
#include "io/clock.h"
#include "io/timer.h"
#include "run/own/space_inside.h"

#include "core/own/start_retry.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RETRY_AFTER ROTA_MIN
#define WISH_AGAIN  ROTA_SEC

/* The wishes of starts have these numbers: 1 is of space_change.c. */
enum { FIRST_ID = 2 };

bool rota_space_start_is_served(const struct rota_space *space, uint32_t shard, uint64_t epoch)
{
    const struct rota_space_mine *mine = &space->mine[shard];
    return mine->state == ROTA_SPACE_STARTED && mine->epoch == epoch &&
           mine->progress == ROTA_SPACE_SERVED;
}

/* --- time --- */

static void on_timer(uv_timer_t *timer);

/* Few shards have to be tried again, and rarely. */
static void arm_timer(struct rota_space *space)
{
    rota_time at = ROTA_TIME_NEVER;
    for (uint32_t i = 0; i < space->map.n_shards && space->n_failed > 0; i++)
        if (space->mine[i].try_at > 0)
            at = rota_time_min(at, space->mine[i].try_at);
    if (!uv_is_closing((uv_handle_t *)&space->start_timer))
        rota_timer_set(&space->start_timer, on_timer, rota_clock_boot(), at);
}

static void set_try(struct rota_space *space, uint32_t shard, rota_time at)
{
    space->mine[shard].try_at = at;
    arm_timer(space);
}

/* --- starts --- */

static void call_user(struct rota_space *space, uint32_t shard)
{
    struct rota_space_mine *mine = &space->mine[shard];
    if (space->options.is_start_answered)
        mine->progress = ROTA_SPACE_STARTING_UP;
    if (space->options.on_start)
        space->options.on_start(space->options.data, shard, mine->epoch);
    else
        rota_space_started(space, shard, mine->epoch);
}

/* We own it although we refused it, so no other node can start it either. */
static void try_soon(struct rota_space *space, uint32_t shard)
{
    struct rota_space_mine *mine = &space->mine[shard];
    mine->progress = ROTA_SPACE_FAILED;
    set_try(space, shard, rota_clock_boot() + rota_start_retry_alone(mine->n_failures));
}

void rota_space_start_begin(struct rota_space *space, uint32_t shard)
{
    if (space->mine[shard].has_refused && space->options.is_start_answered)
        try_soon(space, shard);
    else
        call_user(space, shard);
}

static void wish_for(struct rota_space *space, bool *wants)
{
    space->n_wishes += !*wants;
    *wants = true;
    rota_space_view_wish(space);
}

/* Whether the view says that we have refused it. */
static bool is_refused_here(const struct rota_space *space, uint32_t shard)
{
    const struct rota_view *view = rota_view_fsm_view(&space->view.fsm);
    size_t n, first = rota_view_refusals_of(view, shard, &n);
    for (size_t i = first; i < first + n; i++)
        if (view->refusals.items[i].span.to == 0 && space->options.member &&
            rota_str_is_equal(view->refusals.items[i].name, rota_str(space->options.member)))
            return true;
    return false;
}

static struct rota_space_mine *find_start(struct rota_space *space, uint32_t shard, uint64_t epoch)
{
    if (shard >= space->map.n_shards)
        return NULL;
    struct rota_space_mine *mine = &space->mine[shard];
    bool is_expected = mine->state == ROTA_SPACE_STARTED && mine->epoch == epoch &&
                       mine->progress == ROTA_SPACE_STARTING_UP;
    return is_expected ? mine : NULL;
}

void rota_space_started(struct rota_space *space, uint32_t shard, uint64_t epoch)
{
    struct rota_space_mine *mine = find_start(space, shard, epoch);
    if (!mine)
        return;
    space->n_failed -= mine->n_failures > 0;
    free(mine->problem);
    mine->problem = NULL;
    mine->n_failures = 0;
    mine->try_at = 0;
    mine->has_refused = false;
    mine->progress = ROTA_SPACE_SERVED;
    rota_space_see_mine(space, shard);
    rota_space_map_claim(space, shard, epoch);
    rota_space_map_changed(space);
    if (is_refused_here(space, shard))
        wish_for(space, &mine->wants_retry);
}

/* A reason has no control characters, and is cut between two characters of UTF-8. */
static char *copy_problem(const char *problem)
{
    size_t size = problem ? strlen(problem) : 0;
    if (size > ROTA_SPACE_PROBLEM_MAX) {
        size = ROTA_SPACE_PROBLEM_MAX;
        while (size > 0 && (problem[size] & 0xc0) == 0x80)
            size--;
    }
    char *copy = size > 0 ? strndup(problem, size) : strdup("no reason given");
    for (char *at = copy; at && *at; at++)
        if ((unsigned char)*at < ' ' || *at == 0x7f)
            *at = ' ';
    return copy;
}

void rota_space_refuse(struct rota_space *space, uint32_t shard, uint64_t epoch,
                       const char *problem)
{
    struct rota_space_mine *mine = find_start(space, shard, epoch);
    if (!mine)
        return;
    space->n_failed += mine->n_failures == 0;
    mine->n_failures += mine->n_failures < UINT8_MAX;
    free(mine->problem);
    mine->problem = copy_problem(problem);
    mine->progress = ROTA_SPACE_FAILED;
    mine->try_at = 0;
    rota_counter_add(space->series.failed, 1);
    rota_log(space->options.log, rota_clock_wall(), ROTA_LOG_WARN, "shard not started",
             ROTA_LOG_FACT("space", space->options.name), ROTA_LOG_FACT("shard", shard),
             ROTA_LOG_FACT("epoch", epoch),
             ROTA_LOG_FACT("error", mine->problem ? mine->problem : ""));
    rota_space_map_changed(space);
    wish_for(space, &mine->wants_refusal);
}

bool rota_space_start_end(struct rota_space *space, uint32_t shard)
{
    struct rota_space_mine *mine = &space->mine[shard];
    bool has_something = mine->progress != ROTA_SPACE_FAILED;
    mine->progress = ROTA_SPACE_SERVED;
    if (!has_something && !mine->has_refused)
        mine->try_at = 0;
    return has_something;
}

/* --- trying again --- */

static void on_timer(uv_timer_t *timer)
{
    struct rota_space *space = timer->data;
    rota_time now = rota_clock_boot();
    for (uint32_t i = 0; i < space->map.n_shards && !space->is_closing; i++) {
        struct rota_space_mine *mine = &space->mine[i];
        if (mine->try_at == 0 || mine->try_at > now)
            continue;
        mine->try_at = 0;
        if (mine->state == ROTA_SPACE_STARTED && mine->progress == ROTA_SPACE_FAILED) {
            call_user(space, i);
        } else if (mine->has_refused) {
            mine->has_refused = false;
            wish_for(space, &mine->wants_retry);
        }
    }
    arm_timer(space);
}

/* --- wishes --- */

static struct rota_view_wish wish_of(const struct rota_space *space, uint32_t shard, bool is_retry)
{
    const char *problem = space->mine[shard].problem;
    return (struct rota_view_wish){
        .type = is_retry ? ROTA_VIEW_RETRY : ROTA_VIEW_REFUSE,
        .id = FIRST_ID + 2 * (uint64_t)shard + is_retry,
        .shard = shard,
        .name = rota_str(space->options.member),
        .why = rota_str(is_retry  ? ""
                        : problem ? problem
                                  : "no reason given"),
    };
}

bool rota_space_start_next(struct rota_space *space, struct rota_view_wish *wish)
{
    for (uint32_t i = 0; i < space->map.n_shards && space->n_wishes > 0; i++) {
        struct rota_space_mine *mine = &space->mine[i];
        if (!mine->wants_refusal && !mine->wants_retry)
            continue;
        bool is_retry = !mine->wants_refusal;
        *(is_retry ? &mine->wants_retry : &mine->wants_refusal) = false;
        space->n_wishes--;
        *wish = wish_of(space, i, is_retry);
        return true;
    }
    return false;
}

/* The refusal is in the view, and if the shard went elsewhere it was stopped here before this.
 * Otherwise it is still ours: all have refused it, the engine does not care, or the view has no
 * room for the refusal. */
static void hear_refusal(struct rota_space *space, uint32_t shard, enum rota_code code)
{
    struct rota_space_mine *mine = &space->mine[shard];
    rota_time after = space->options.retry_after ? space->options.retry_after : RETRY_AFTER;
    if (mine->n_failures == 0)
        return; /* it was started meanwhile */
    mine->has_refused = code == ROTA_OK;
    if (mine->state == ROTA_SPACE_STARTED && mine->progress == ROTA_SPACE_FAILED)
        try_soon(space, shard);
    else if (mine->state != ROTA_SPACE_STARTED && mine->has_refused)
        set_try(space, shard, rota_clock_boot() + rota_start_retry_after(after, mine->n_failures));
}

void rota_space_start_hear(struct rota_space *space, const struct rota_view_outcome *outcome)
{
    uint64_t shard = (outcome->id - FIRST_ID) / 2;
    if (outcome->id < FIRST_ID || shard >= space->map.n_shards)
        return;
    struct rota_space_mine *mine = &space->mine[shard];
    if (outcome->id % 2 == FIRST_ID % 2) {
        hear_refusal(space, (uint32_t)shard, outcome->code);
    } else if (outcome->code && mine->n_failures > 0 && mine->state != ROTA_SPACE_STARTED) {
        mine->has_refused = true;
        set_try(space, (uint32_t)shard, rota_clock_boot() + WISH_AGAIN);
    }
}

/* --- why --- */

void rota_space_start_explain(const struct rota_space *space, uint32_t shard, char *text,
                              size_t size)
{
    const struct rota_view *view = rota_view_fsm_view(&space->view.fsm);
    const struct rota_space_mine *mine = &space->mine[shard];
    size_t n, first = rota_view_refusals_of(view, shard, &n), used = strlen(text);
    if (mine->state == ROTA_SPACE_STARTED && mine->progress == ROTA_SPACE_STARTING_UP)
        snprintf(text + used, size - used, "; it is starting");
    for (size_t i = first; i < first + n; i++) {
        const struct rota_view_refusal *refusal = &view->refusals.items[i];
        used = strlen(text);
        if (refusal->span.to == 0)
            snprintf(text + used, size - used, "; %.*s could not start it: %.*s",
                     ROTA_STR_ARGS(refusal->name), ROTA_STR_ARGS(refusal->why));
    }
}

void rota_space_start_deinit(struct rota_space *space)
{
    for (uint32_t i = 0; i < space->map.n_shards && space->mine; i++)
        free(space->mine[i].problem);
}
