#include "core/own/view_fsm_inside.h"

#include <assert.h>

/* --- making one --- */

static enum rota_code check_options(const struct rota_view_fsm_options *options,
                                    struct rota_error *error)
{
    if (!rota_view_name_is_valid(options->space) || !rota_view_name_is_valid(options->name))
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "view: a space and a node have names of 1 to %d bytes without "
                              "control characters",
                              ROTA_VIEW_NAME_MAX);
    if (!rota_view_zone_is_valid(options->zone))
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "view: a zone has at most %d bytes and no control characters",
                              ROTA_VIEW_NAME_MAX);
    if (options->n_shards > ROTA_VIEW_SHARDS_MAX)
        return rota_error_set(error, ROTA_ERR_INVALID, "view: %u shards; a space has 1 to %d",
                              options->n_shards, ROTA_VIEW_SHARDS_MAX);
    if (options->n_shards == 0 && options->engine != ROTA_VIEW_RING)
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "view: a keyed space has engine ring, not %s",
                              rota_view_engine_name(options->engine));
    if (options->ttl < ROTA_VIEW_TTL_MIN || options->ttl > ROTA_VIEW_TTL_MAX)
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "view: a ttl of %lld ms is not within 100ms to 1h",
                              (long long)(options->ttl / ROTA_MSEC));
    if (options->weight < ROTA_WEIGHT_MIN || options->weight > ROTA_WEIGHT_MAX)
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "view: weight %u/1000 is not within %d/1000 to %d", options->weight,
                              ROTA_WEIGHT_MIN, ROTA_WEIGHT_MAX / ROTA_WEIGHT_ONE);
    if (options->n_seats > ROTA_VIEW_SEATS_MAX ||
        (options->engine == ROTA_VIEW_STATIC && options->n_seats == 0 && !options->is_observer))
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "view: %zu nodes in the list, but a static space has 1 to %d",
                              options->n_seats, ROTA_VIEW_SEATS_MAX);
    for (size_t i = 0; i < options->n_seats; i++)
        if (!rota_view_name_is_valid(options->seats[i]))
            return rota_error_set(error, ROTA_ERR_INVALID,
                                  "view: entry %zu of the node list has an invalid name", i);
    return ROTA_OK;
}

static bool copy_options(struct rota_view_fsm *fsm)
{
    struct rota_view_fsm_options *o = &fsm->options;
    struct rota_str *seats = rota_arena_take(&fsm->texts, (o->n_seats + 1) * sizeof *seats);
    o->space = rota_arena_copy(&fsm->texts, o->space);
    o->name = rota_arena_copy(&fsm->texts, o->name);
    bool is_fine = seats && o->space.data && o->name.data;
    for (size_t i = 0; is_fine && i < o->n_seats; i++) {
        seats[i] = rota_arena_copy(&fsm->texts, o->seats[i]);
        is_fine = seats[i].data;
    }
    o->seats = seats;
    return is_fine;
}

/* It changes, and so is not kept in the arena. The zone is valid. */
static void keep_zone(struct rota_view_fsm *fsm, struct rota_str zone)
{
    if (zone.size > 0)
        memcpy(fsm->zone, zone.data, zone.size);
    fsm->options.zone = rota_str_of(fsm->zone, zone.size);
}

static bool make_tables(struct rota_view_fsm *fsm)
{
    size_t n = (size_t)fsm->options.n_shards + 1; /* none of them may be NULL */
    fsm->hashes = calloc(n, sizeof *fsm->hashes);
    fsm->owners = calloc(n, sizeof *fsm->owners);
    fsm->epochs = calloc(n, sizeof *fsm->epochs);
    fsm->scratch = calloc(n, sizeof *fsm->scratch);
    fsm->is_taken = calloc(n, sizeof *fsm->is_taken);
    fsm->held = calloc(n, sizeof *fsm->held);
    fsm->stops = calloc(n, sizeof *fsm->stops);
    fsm->starts = calloc(n, sizeof *fsm->starts);
    return fsm->hashes && fsm->owners && fsm->epochs && fsm->scratch && fsm->is_taken &&
           fsm->held && fsm->stops && fsm->starts;
}

enum rota_code rota_view_fsm_init(struct rota_view_fsm *fsm, rota_time now,
                                  const struct rota_view_fsm_options *options,
                                  struct rota_error *error)
{
    *fsm = (struct rota_view_fsm){.options = *options};
    struct rota_view_fsm_options *o = &fsm->options;
    if (o->ttl == 0)
        o->ttl = 10 * ROTA_SEC;
    if (o->weight == 0)
        o->weight = ROTA_WEIGHT_ONE;
    enum rota_code code = check_options(o, error);
    if (code)
        return code;
    rota_session_watch_init(&fsm->watch, o->ttl / 2, ROTA_VIEW_TTL_MIN, ROTA_VIEW_TTL_MAX);
    if (!copy_options(fsm) || !make_tables(fsm)) {
        rota_view_fsm_deinit(fsm);
        return rota_error_no_memory(error, "for a view of %u shards", options->n_shards);
    }
    for (uint32_t shard = 0; shard < o->n_shards; shard++)
        fsm->hashes[shard] = rota_view_hash(o->space, shard);
    keep_zone(fsm, o->zone);
    rota_random_init(&fsm->random, o->seed);
    rota_view_fsm_apply_forget(fsm);
    fsm->guard = o->ttl / 8;
    fsm->until = fsm->read_at = fsm->own_at = now;
    fsm->propose_at = fsm->give_up_at = ROTA_TIME_NEVER;
    return ROTA_OK;
}

void rota_view_fsm_deinit(struct rota_view_fsm *fsm)
{
    rota_session_watch_deinit(&fsm->watch);
    rota_view_deinit(&fsm->view);
    rota_view_deinit(&fsm->proposal);
    rota_vector_deinit(&fsm->lives);
    rota_vector_deinit(&fsm->moves);
    rota_vector_deinit(&fsm->rows);
    rota_vector_deinit(&fsm->wishes);
    rota_arena_deinit(&fsm->texts);
    rota_arena_deinit(&fsm->names);
    rota_arena_deinit(&fsm->row_names);
    rota_arena_deinit(&fsm->wish_texts);
    free(fsm->hashes);
    free(fsm->owners);
    free(fsm->epochs);
    free(fsm->scratch);
    free(fsm->is_taken);
    free(fsm->held);
    free(fsm->stops);
    free(fsm->starts);
    *fsm = (struct rota_view_fsm){0};
}

/* --- durations: never exact, so that nodes started together do not ask together --- */

rota_time rota_view_fsm_some_of(struct rota_view_fsm *fsm, rota_time most)
{
    return rota_random_range(&fsm->random, most - most / 4, most);
}

static rota_time heartbeat_interval(struct rota_view_fsm *fsm)
{
    return rota_view_fsm_some_of(fsm, fsm->options.ttl / 3);
}

/* After an unknown outcome, or while something is in flight. */
rota_time rota_view_fsm_pause(struct rota_view_fsm *fsm)
{
    return rota_view_fsm_some_of(fsm, fsm->options.ttl / 24);
}

/* --- actions --- */

void rota_view_fsm_stop(struct rota_view_fsm *fsm, uint32_t shard, enum rota_view_why why)
{
    assert(fsm->actions.n_stops < fsm->options.n_shards);
    fsm->stops[fsm->actions.n_stops++] =
        (struct rota_view_shard){.shard = shard, .epoch = fsm->held[shard]};
    fsm->held[shard] = 0;
    fsm->n_held--;
    fsm->actions.why = why;
}

void rota_view_fsm_stop_all(struct rota_view_fsm *fsm, enum rota_view_why why)
{
    for (uint32_t shard = 0; fsm->n_held > 0; shard++)
        if (fsm->held[shard] != 0)
            rota_view_fsm_stop(fsm, shard, why);
    if (!fsm->is_running)
        return;
    fsm->is_running = false;
    fsm->actions.has_halt = true;
    fsm->actions.why = why;
}

void rota_view_fsm_start(struct rota_view_fsm *fsm, uint32_t shard)
{
    assert(fsm->actions.n_starts < fsm->options.n_shards);
    fsm->held[shard] = fsm->epochs[shard];
    fsm->n_held++;
    fsm->starts[fsm->actions.n_starts++] =
        (struct rota_view_shard){.shard = shard, .epoch = fsm->held[shard]};
}

void rota_view_fsm_tell_outcome(struct rota_view_fsm *fsm, uint64_t id, enum rota_code code,
                                uint64_t number)
{
    assert(fsm->actions.n_outcomes <= ROTA_VIEW_WISHES_MAX);
    fsm->outcomes[fsm->actions.n_outcomes++] =
        (struct rota_view_outcome){.id = id, .code = code, .number = number};
}

uint64_t rota_view_fsm_ask(struct rota_view_fsm *fsm, struct rota_view_ask made)
{
    assert(fsm->actions.n_asks < ROTA_VIEW_ASKS_MAX);
    made.number = ++fsm->n_asked;
    fsm->asks[fsm->actions.n_asks++] = made;
    return made.number;
}

/* --- our row --- */

/* A number that was never used; not 0, and fit for a signed column. */
static uint64_t some_number(struct rota_view_fsm *fsm)
{
    return (rota_random_next(&fsm->random) & INT64_MAX) | 1;
}

static void ask_own(struct rota_view_fsm *fsm, rota_time now, enum rota_view_ask_type type)
{
    struct rota_view_row row = {.name = fsm->options.name,
                                .instance = fsm->instance,
                                .pings = some_number(fsm),
                                .ttl = fsm->options.ttl,
                                .acked = fsm->view.number,
                                .highest = fsm->highest,
                                .weight = fsm->options.weight,
                                .zone = fsm->options.zone,
                                .is_draining = fsm->is_draining};
    fsm->own_type = type;
    fsm->own_acked = row.acked;
    fsm->own_sent_at = now;
    fsm->is_row_old = false;
    fsm->own_ask = rota_view_fsm_ask(
        fsm, (struct rota_view_ask){.type = type,
                                    .row = row,
                                    .former = type == ROTA_VIEW_JOIN ? fsm->join_former : 0});
}

static void tend_row(struct rota_view_fsm *fsm, rota_time now)
{
    if (fsm->own_ask != 0 || now < fsm->own_at)
        return;
    if (fsm->standing == ROTA_VIEW_CLOSING) {
        ask_own(fsm, now, ROTA_VIEW_LEAVE);
    } else if (fsm->standing == ROTA_VIEW_IN) {
        ask_own(fsm, now, ROTA_VIEW_BEAT);
    } else if (fsm->may_join) {
        /* A new incarnation each time: it can't be mistaken for an earlier one. */
        fsm->instance = some_number(fsm);
        fsm->may_join = false;
        ask_own(fsm, now, ROTA_VIEW_JOIN);
    }
}

/* Our row has to be updated. */
void rota_view_fsm_renew_row(struct rota_view_fsm *fsm, rota_time now)
{
    fsm->is_row_old = true;
    fsm->own_at = rota_time_min(fsm->own_at, now);
}

void rota_view_fsm_look_at(struct rota_view_fsm *fsm, rota_time at)
{
    fsm->read_at = rota_time_min(fsm->read_at, at);
}

static void confirm_ownership(struct rota_view_fsm *fsm, rota_time now)
{
    rota_time until = fsm->own_sent_at + fsm->options.ttl - fsm->guard;
    if (!fsm->has_rows)
        rota_view_fsm_look_at(fsm, now);
    if (until > fsm->until)
        fsm->until = until;
    fsm->acked = fsm->own_acked;
    fsm->own_at = fsm->is_row_old ? now : fsm->own_sent_at + heartbeat_interval(fsm);
}

static void fall_out(struct rota_view_fsm *fsm, rota_time now)
{
    fsm->standing = ROTA_VIEW_OUT;
    fsm->may_join = false;
    fsm->acked = 0;
    fsm->propose_at = ROTA_TIME_NEVER;
    fsm->own_at = now;
    rota_view_fsm_apply_find_me(fsm);
    rota_view_fsm_look_at(fsm, now + rota_view_fsm_pause(fsm));
}

/* The answer to the ask about our row. */
static void hear_own(struct rota_view_fsm *fsm, rota_time now, enum rota_view_event_type type)
{
    fsm->own_ask = 0;
    if (fsm->standing == ROTA_VIEW_CLOSING) {
        fsm->own_at = now + rota_view_fsm_pause(fsm);
        if (type == ROTA_VIEW_LEFT)
            fsm->give_up_at = now;
    } else if (type == ROTA_VIEW_JOINED && fsm->own_type == ROTA_VIEW_JOIN) {
        fsm->standing = ROTA_VIEW_IN;
        confirm_ownership(fsm, now);
        rota_view_fsm_apply_find_me(fsm);
        rota_view_fsm_look_at(fsm, now);
    } else if (type == ROTA_VIEW_BEATEN && fsm->own_type == ROTA_VIEW_BEAT) {
        confirm_ownership(fsm, now);
    } else if (type == ROTA_VIEW_GONE && fsm->own_type == ROTA_VIEW_BEAT) {
        rota_view_fsm_stop_all(fsm, ROTA_VIEW_WHY_GONE);
        fall_out(fsm, now);
    } else if (fsm->own_type == ROTA_VIEW_JOIN) {
        fall_out(fsm, now);
    } else {
        fsm->is_row_old = true;
        fsm->own_at = now + rota_view_fsm_pause(fsm);
    }
}

/* --- looking --- */

static void hear_proposed(struct rota_view_fsm *fsm, rota_time now)
{
    size_t n = 0;
    uint64_t number = fsm->proposal.number;
    for (size_t i = 0; i < fsm->wishes.size; i++)
        if (fsm->wishes.items[i].is_proposed)
            rota_view_fsm_tell_outcome(fsm, fsm->wishes.items[i].wish.id, ROTA_OK, number);
        else
            fsm->wishes.items[n++] = fsm->wishes.items[i];
    fsm->wishes.size = n;
    rota_view_fsm_apply(fsm, &fsm->proposal);
    rota_view_fsm_renew_row(fsm, now);
}

/* The answer to the read or proposal that is out. */
static void hear_seek(struct rota_view_fsm *fsm, rota_time now, const struct rota_view_event *event)
{
    bool is_read = fsm->seek_type == ROTA_VIEW_READ;
    fsm->seek_ask = 0;
    if (is_read && event->type == ROTA_VIEW_SIGHT) {
        rota_view_fsm_sight_hear(fsm, now, event);
        return;
    }
    if (!is_read && event->type == ROTA_VIEW_PROPOSED)
        hear_proposed(fsm, now);
    rota_view_deinit(&fsm->proposal);
    fsm->propose_at = ROTA_TIME_NEVER;
    fsm->read_at = event->type == ROTA_VIEW_UNKNOWN ? now + rota_view_fsm_pause(fsm) : now;
}

static void ask_for_rows(struct rota_view_fsm *fsm, rota_time now)
{
    struct rota_view_ask made = {.type = ROTA_VIEW_READ, .known = fsm->view.number};
    if (fsm->seek_ask != 0 || fsm->standing == ROTA_VIEW_CLOSING)
        return;
    if (now >= fsm->propose_at && fsm->proposal.number > 0 && fsm->has_rows) {
        made.type = ROTA_VIEW_PROPOSE;
        made.view = &fsm->proposal;
        fsm->propose_at = ROTA_TIME_NEVER;
    } else if (now < fsm->read_at) {
        return;
    }
    fsm->seek_type = made.type;
    fsm->seek_ask = rota_view_fsm_ask(fsm, made);
}

/* --- ownership --- */

/* Whether what the view gives us may be started, as far as all shards go. */
static bool may_start(const struct rota_view_fsm *fsm, rota_time now)
{
    return fsm->standing == ROTA_VIEW_IN && now < fsm->until && fsm->has_rows && !fsm->is_on_hold &&
           fsm->me != ROTA_VIEW_NOBODY && fsm->view.base > fsm->lost && !fsm->is_barred;
}

static void start_ours(struct rota_view_fsm *fsm, rota_time now)
{
    if (fsm->n_held >= fsm->n_ours || !may_start(fsm, now))
        return;
    for (uint32_t shard = 0; shard < fsm->options.n_shards; shard++)
        if (fsm->owners[shard] == fsm->me && fsm->held[shard] == 0 && !fsm->is_taken[shard])
            rota_view_fsm_start(fsm, shard);
}

/* Another engine runs when all members have acked the view since which it is the engine. */
static void run_engine(struct rota_view_fsm *fsm, rota_time now)
{
    struct rota_migrate migrate = rota_view_fsm_migrate(&fsm->view);
    if (fsm->is_running || rota_migrate_is_by_view(fsm->view.engine) || !may_start(fsm, now) ||
        !rota_migrate_fsm_owns(&migrate, fsm->view.engine) ||
        !rota_view_fsm_draft_is_acked(fsm, fsm->view.base))
        return;
    fsm->is_running = true;
    fsm->actions.has_run = true;
    fsm->actions.engine = fsm->view.engine;
    fsm->actions.floor = fsm->view.base;
}

static void expire_ownership(struct rota_view_fsm *fsm, rota_time now)
{
    if (fsm->is_on_hold && now >= fsm->hold_until)
        fsm->is_on_hold = false;
    if (now < fsm->until)
        return;
    rota_view_fsm_stop_all(fsm, ROTA_VIEW_WHY_EXPIRED);
    fsm->propose_at = ROTA_TIME_NEVER;
    fsm->has_rows = false; /* the store is read before the next start */
}

/* --- the machine --- */

static bool copy_wish(struct rota_view_fsm *fsm, struct rota_view_wish *wish)
{
    struct rota_str *seats = rota_arena_take(&fsm->wish_texts, (wish->n_seats + 1) * sizeof *seats);
    wish->name = rota_arena_copy(&fsm->wish_texts, wish->name);
    wish->why = rota_arena_copy(&fsm->wish_texts, wish->why);
    bool is_fine = seats && wish->name.data && wish->why.data;
    for (size_t i = 0; is_fine && i < wish->n_seats; i++) {
        seats[i] = rota_arena_copy(&fsm->wish_texts, wish->seats[i]);
        is_fine = seats[i].data;
    }
    wish->seats = seats;
    return is_fine;
}

static void hear_wish(struct rota_view_fsm *fsm, rota_time now, const struct rota_view_wish *wish)
{
    struct rota_view_waiting waiting = {.wish = *wish};
    if (fsm->standing == ROTA_VIEW_CLOSING)
        rota_view_fsm_tell_outcome(fsm, wish->id, ROTA_ERR_UNAVAILABLE, 0);
    else if (fsm->wishes.size == ROTA_VIEW_WISHES_MAX || wish->n_seats > ROTA_VIEW_SEATS_MAX)
        rota_view_fsm_tell_outcome(fsm, wish->id, ROTA_ERR_LIMIT, 0);
    else if (wish->name.size > ROTA_VIEW_NAME_MAX || wish->why.size > ROTA_VIEW_WHY_MAX)
        rota_view_fsm_tell_outcome(fsm, wish->id, ROTA_ERR_INVALID, 0);
    else if (!copy_wish(fsm, &waiting.wish) || !rota_vector_push(&fsm->wishes, waiting))
        rota_view_fsm_tell_outcome(fsm, wish->id, ROTA_ERR_NO_MEMORY, 0);
    else
        rota_view_fsm_look_at(fsm, now);
}

static void shut_down(struct rota_view_fsm *fsm, rota_time now)
{
    if (fsm->standing == ROTA_VIEW_CLOSING)
        return;
    rota_view_fsm_stop_all(fsm, ROTA_VIEW_WHY_SHUTDOWN);
    for (size_t i = 0; i < fsm->wishes.size; i++)
        rota_view_fsm_tell_outcome(fsm, fsm->wishes.items[i].wish.id, ROTA_ERR_UNAVAILABLE, 0);
    fsm->wishes.size = 0;
    fsm->standing = ROTA_VIEW_CLOSING;
    rota_view_fsm_apply_find_me(fsm);
    fsm->own_ask = fsm->seek_ask = 0; /* their answers no longer matter */
    fsm->own_at = now;
    fsm->give_up_at = fsm->instance != 0 ? rota_time_add(now, fsm->options.ttl) : now;
}

static void handle_event(struct rota_view_fsm *fsm, rota_time now,
                         const struct rota_view_event *event)
{
    switch (event->type) {
    case ROTA_VIEW_TICK:
        return;
    case ROTA_VIEW_HINT:
        rota_view_fsm_look_at(fsm, now);
        return;
    case ROTA_VIEW_DRAIN:
    case ROTA_VIEW_UNDRAIN:
        fsm->is_draining = event->type == ROTA_VIEW_DRAIN;
        rota_view_fsm_renew_row(fsm, now);
        return;
    case ROTA_VIEW_WEIGH:
        if (event->weight >= ROTA_WEIGHT_MIN && event->weight <= ROTA_WEIGHT_MAX)
            fsm->options.weight = event->weight;
        if (rota_view_zone_is_valid(event->zone))
            keep_zone(fsm, event->zone);
        rota_view_fsm_renew_row(fsm, now);
        return;
    case ROTA_VIEW_WISH:
        hear_wish(fsm, now, &event->wish);
        return;
    case ROTA_VIEW_SHUTDOWN:
        shut_down(fsm, now);
        return;
    case ROTA_VIEW_JOINED:
    case ROTA_VIEW_TAKEN:
    case ROTA_VIEW_BEATEN:
    case ROTA_VIEW_GONE:
    case ROTA_VIEW_LEFT:
    case ROTA_VIEW_EVICTED:
    case ROTA_VIEW_SIGHT:
    case ROTA_VIEW_PROPOSED:
    case ROTA_VIEW_REFUSED:
    case ROTA_VIEW_UNKNOWN:
        break;
    }
    if (event->ask != 0 && event->ask == fsm->own_ask)
        hear_own(fsm, now, event->type);
    else if (event->ask != 0 && event->ask == fsm->seek_ask)
        hear_seek(fsm, now, event);
}

static struct rota_view_actions finish_step(struct rota_view_fsm *fsm)
{
    struct rota_view_actions *actions = &fsm->actions;
    actions->stops = fsm->stops;
    actions->starts = fsm->starts;
    actions->asks = fsm->asks;
    actions->outcomes = fsm->outcomes;
    actions->until = fsm->n_held > 0 || fsm->is_running ? fsm->until : 0;
    return *actions;
}

struct rota_view_actions rota_view_fsm_step(struct rota_view_fsm *fsm, rota_time now,
                                            const struct rota_view_event *event)
{
    fsm->actions = (struct rota_view_actions){0};
    if (fsm->standing == ROTA_VIEW_OVER)
        return fsm->actions;
    expire_ownership(fsm, now);
    handle_event(fsm, now, event);
    start_ours(fsm, now);
    run_engine(fsm, now);
    if (fsm->standing == ROTA_VIEW_CLOSING && now >= fsm->give_up_at) {
        fsm->standing = ROTA_VIEW_OVER;
        fsm->actions.is_done = true;
        return finish_step(fsm);
    }
    tend_row(fsm, now);
    ask_for_rows(fsm, now);
    return finish_step(fsm);
}

rota_time rota_view_fsm_deadline(const struct rota_view_fsm *fsm)
{
    rota_time at = fsm->standing == ROTA_VIEW_CLOSING ? fsm->give_up_at : ROTA_TIME_NEVER;
    if (fsm->standing == ROTA_VIEW_OVER)
        return ROTA_TIME_NEVER;
    if (fsm->n_held > 0 || fsm->is_running)
        at = rota_time_min(at, fsm->until);
    if (fsm->is_on_hold)
        at = rota_time_min(at, fsm->hold_until);
    if (fsm->own_ask == 0 && (fsm->standing != ROTA_VIEW_OUT || fsm->may_join))
        at = rota_time_min(at, fsm->own_at);
    if (fsm->seek_ask == 0 && fsm->standing != ROTA_VIEW_CLOSING)
        at = rota_time_min(at, rota_time_min(fsm->read_at, fsm->propose_at));
    return at;
}
