/* A space: open and close, and the callbacks of its user. */
#include "base/text.h"
#include "io/clock.h"
#include "run/own/space_inside.h"
#include "run/own/space_members.h"

#include <assert.h>
#include <rota/experimental/members.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TTL         (10 * ROTA_SEC)
#define STOP_WITHIN (1 * ROTA_SEC)

enum { NAME_MAX_SIZE = 200 };

/* --- engines --- */

static const struct rota_engine *const engines[] = {
    &rota_engine_static,
    &rota_engine_ring,
    &rota_engine_lease,
    &rota_engine_group,
};

enum { N_ENGINES = sizeof engines / sizeof *engines };

const struct rota_engine *rota_space_engine_find(struct rota_str name)
{
    for (size_t i = 0; i < N_ENGINES; i++)
        if (rota_str_is_equal(name, rota_str(engines[i]->name)))
            return engines[i];
    return NULL;
}

static const struct rota_engine *engine_of(enum rota_view_engine kind)
{
    size_t i = 0;
    while (engines[i]->kind != kind)
        i++; /* there is one of each */
    return engines[i];
}

bool rota_space_has_engine(struct rota_str name)
{
    return rota_space_engine_find(name) != NULL;
}

const char *rota_space_engine_name(size_t index)
{
    return index < N_ENGINES ? engines[index]->name : NULL;
}

const char *rota_space_phase_name(enum rota_space_phase phase)
{
    switch (phase) {
    case ROTA_SPACE_STABLE:
        return "stable";
    case ROTA_SPACE_SHADOW:
        return "shadow";
    case ROTA_SPACE_STOPPING:
        return "stopping";
    case ROTA_SPACE_STARTING:
        return "starting";
    }
    return "unknown";
}

rota_time rota_space_now(void)
{
    return rota_clock_boot();
}

rota_time rota_space_ttl(const struct rota_space *space)
{
    return space->options.ttl > 0 ? space->options.ttl : TTL;
}

rota_time rota_space_stop_within(const struct rota_space *space)
{
    if (space->options.stop_within > 0)
        return space->options.stop_within;
    return rota_time_min(STOP_WITHIN, rota_space_ttl(space) / 4);
}

bool rota_space_is_stopping(const struct rota_space *space)
{
    return space->is_halting || space->n_mine > space->map.n_held;
}

/* --- shards that are held here --- */

static void log_shard(const struct rota_space *space, const char *phrase, uint32_t shard,
                      uint64_t epoch)
{
    rota_log(space->options.log, rota_clock_wall(), ROTA_LOG_DEBUG, phrase,
             ROTA_LOG_FACT("space", space->options.name), ROTA_LOG_FACT("shard", shard),
             ROTA_LOG_FACT("epoch", epoch));
}

/* The map shows a shard of ours as moving until it is served. */
void rota_space_see_mine(struct rota_space *space, uint32_t shard)
{
    const struct rota_space_mine *mine = &space->mine[shard];
    bool is_served = mine->progress == ROTA_SPACE_SERVED;
    rota_space_map_see(
        space, shard,
        (struct rota_space_shard){.epoch = mine->epoch,
                                  .owner = space->self,
                                  .state = is_served ? ROTA_SPACE_OWNED : ROTA_SPACE_MOVING,
                                  .is_pinned = mine->is_pinned && !space->engine->open});
}

void rota_space_engine_start(struct rota_space *space, uint32_t shard, uint64_t epoch)
{
    struct rota_space_mine *mine = &space->mine[shard];
    if (mine->state == ROTA_SPACE_STOPS) { /* it has to be answered first */
        mine->next = epoch;
        return;
    }
    assert(mine->state == ROTA_SPACE_NOT_MINE);
    mine->epoch = epoch;
    mine->state = ROTA_SPACE_STARTED;
    space->n_mine++;
    space->map.n_held++;
    rota_gauge_set(space->series.held, space->map.n_held);
    rota_counter_add(space->series.started, 1);
    mine->progress = space->options.is_start_answered ? ROTA_SPACE_STARTING_UP : ROTA_SPACE_SERVED;
    rota_space_see_mine(space, shard);
    rota_space_map_claim(space, shard, epoch);
    log_shard(space, "shard started", shard, epoch);
    rota_space_start_begin(space, shard);
}

void rota_space_engine_stop(struct rota_space *space, uint32_t shard, uint64_t epoch,
                            rota_time until)
{
    struct rota_space_mine *mine = &space->mine[shard];
    if (mine->state == ROTA_SPACE_STOPS && mine->next == epoch)
        mine->next = 0;
    if (mine->state == ROTA_SPACE_NOT_MINE || mine->epoch != epoch)
        return;
    if (mine->state == ROTA_SPACE_STOPS) { /* it was lost meanwhile */
        mine->until = rota_time_min(mine->until, until);
        return;
    }
    mine->state = ROTA_SPACE_STOPS;
    mine->until = until;
    space->map.n_held--;
    rota_gauge_set(space->series.held, space->map.n_held);
    rota_counter_add(space->series.stopped, 1);
    rota_space_map_unclaim(space, shard, epoch);
    rota_space_map_changed(space);
    log_shard(space, "shard stopped", shard, epoch);
    if (rota_space_start_end(space, shard) && space->options.on_stop)
        space->options.on_stop(space->options.data, shard, epoch, until);
    else
        rota_space_stopped(space, shard, epoch);
}

static void stop_all(struct rota_space *space, rota_time until)
{
    for (uint32_t i = 0; i < space->map.n_shards && space->n_mine > 0; i++)
        if (space->mine[i].state != ROTA_SPACE_NOT_MINE)
            rota_space_engine_stop(space, i, space->mine[i].epoch, until);
}

/* By the clock of the view or engine that grants it. */
static bool is_held(const struct rota_space *space, uint32_t shard, uint64_t epoch)
{
    rota_time now = rota_clock_boot();
    if (!space->view.has_fsm || !space->engine)
        return false;
    if (!space->engine->open)
        return rota_view_fsm_epoch(&space->view.fsm, now, shard) == epoch;
    return space->is_running && rota_view_fsm_is_running(&space->view.fsm, now) &&
           space->engine->is_current(space->state, shard, epoch);
}

void rota_space_stopped(struct rota_space *space, uint32_t shard, uint64_t epoch)
{
    if (shard >= space->map.n_shards)
        return;
    struct rota_space_mine *mine = &space->mine[shard];
    if (mine->state != ROTA_SPACE_STOPS || mine->epoch != epoch)
        return;
    uint64_t next = mine->next;
    mine->state = ROTA_SPACE_NOT_MINE;
    mine->next = 0;
    space->n_mine--;
    if (space->state && space->engine->stopped)
        space->engine->stopped(space->state, shard, epoch);
    if (next && is_held(space, shard, next))
        rota_space_engine_start(space, shard, next);
    rota_space_view_stopped(space);
}

bool rota_space_is_current(const struct rota_space *space, uint32_t shard, uint64_t epoch)
{
    if (shard >= space->map.n_shards || space->mine[shard].epoch != epoch || epoch == 0)
        return false;
    const struct rota_space_mine *mine = &space->mine[shard];
    switch (mine->state) {
    case ROTA_SPACE_NOT_MINE:
        return false;
    case ROTA_SPACE_STARTED:
        return is_held(space, shard, epoch);
    case ROTA_SPACE_STOPS:
        return rota_clock_boot() < mine->until;
    }
    return false;
}

uint64_t rota_space_epoch(const struct rota_space *space, uint32_t shard)
{
    if (shard >= space->map.n_shards || space->mine[shard].state != ROTA_SPACE_STARTED)
        return 0;
    uint64_t epoch = space->mine[shard].epoch;
    return rota_space_is_current(space, shard, epoch) ? epoch : 0;
}

/* --- why --- */

static void set_trouble(struct rota_space *space, char trouble[ROTA_ERROR_TEXT_MAX],
                        const char *text)
{
    if (strcmp(text ? text : "", trouble) == 0)
        return;
    snprintf(trouble, ROTA_ERROR_TEXT_MAX, "%s", text ? text : "");
    space->map.trouble = space->trouble[0]          ? space->trouble
                         : space->engine_trouble[0] ? space->engine_trouble
                                                    : NULL;
    rota_space_map_changed(space);
    if (text)
        rota_log(space->options.log, rota_clock_wall(), ROTA_LOG_WARN, "space blocked",
                 ROTA_LOG_FACT("space", space->options.name), ROTA_LOG_FACT("error", text));
}

void rota_space_trouble(struct rota_space *space, const char *text)
{
    set_trouble(space, space->trouble, text);
}

void rota_space_engine_trouble(struct rota_space *space, const char *text)
{
    set_trouble(space, space->engine_trouble, text);
}

char *rota_space_explain(const struct rota_space *space, uint32_t shard, char *text, size_t size)
{
    const char *name = space->options.name;
    if (!space->shards)
        snprintf(text, size, "space %s is unknown so far: %s", name,
                 space->map.trouble ? space->map.trouble : "the store has not responded");
    else if (shard >= space->map.n_shards)
        snprintf(text, size, "space %s has %u shards, 0 to %u; there is no shard %u", name,
                 (unsigned)space->map.n_shards, (unsigned)space->map.n_shards - 1, (unsigned)shard);
    else if (!space->engine)
        snprintf(text, size, "space %s has no nodes yet: shard %u has no owner", name,
                 (unsigned)shard);
    else if (space->map.phase == ROTA_SPACE_STOPPING)
        snprintf(text, size,
                 "space %s is migrating from %s to %.*s: until all nodes have stopped, shard %u "
                 "has no owner",
                 name, space->engine->name, (int)space->map.to.size, space->map.to.data,
                 (unsigned)shard);
    else if (!space->engine->open)
        space->engine->explain(space, shard, text, size);
    else if (space->state)
        space->engine->explain(space->state, shard, text, size);
    else
        snprintf(text, size, "engine %s cannot be observed from here: %s", space->engine->name,
                 space->engine_trouble);
    if (shard < space->map.n_shards && space->engine)
        rota_space_start_explain(space, shard, text, size);
    return text;
}

/* --- engines that observe by themselves --- */

static void stop_running(struct rota_space *space, rota_time until)
{
    space->is_run_wanted = false;
    if (!space->is_running)
        return;
    space->is_running = false;
    space->is_halting = true;
    stop_all(space, until);
    space->engine->halt(space->state);
}

void rota_space_halt(struct rota_space *space, rota_time until)
{
    stop_running(space, until);
}

static void run_now(struct rota_space *space)
{
    struct rota_error error;
    space->is_run_wanted = false;
    space->is_running = !space->engine->run(space->state, space->floor, &error);
    rota_space_engine_trouble(space, space->is_running ? NULL : error.text);
}

/* It may have to wait: for its own halt, or for the end of the engine before. */
void rota_space_run(struct rota_space *space, uint64_t floor)
{
    space->floor = floor;
    space->is_run_wanted = true;
    if (space->state && !space->is_halting && space->engine->kind == space->view.fsm.view.engine)
        run_now(space);
}

void rota_space_set_engine(struct rota_space *space)
{
    const struct rota_engine *engine = engine_of(space->view.fsm.view.engine);
    struct rota_error error;
    if (space->view.fsm.view.number == 0 || engine == space->engine || space->is_halting ||
        space->is_running)
        return;
    if (space->state)
        space->engine->close(space->state);
    space->state = NULL;
    space->engine = engine;
    rota_log(space->options.log, rota_clock_wall(), ROTA_LOG_INFO, "space engine changed",
             ROTA_LOG_FACT("space", space->options.name), ROTA_LOG_FACT("engine", engine->name));
    bool is_failed = engine->open && engine->open(space, &space->state, &error);
    rota_space_engine_trouble(space, is_failed ? error.text : NULL);
}

void rota_space_engine_halted(struct rota_space *space)
{
    assert(space->n_mine == 0);
    space->is_halting = false;
    rota_space_set_engine(space);
    if (space->is_run_wanted && rota_view_fsm_is_running(&space->view.fsm, rota_clock_boot()))
        rota_space_run(space, space->floor);
    rota_space_view_stopped(space);
}

/* --- the end --- */

static void space_free(struct rota_space *space)
{
    rota_space_start_deinit(space);
    rota_space_view_deinit(space);
    rota_space_map_deinit(space);
    rota_buffer_deinit(&space->change.names);
    rota_vector_deinit(&space->change.seats);
    rota_metrics_free(space->metrics);
    free(space);
}

static void on_handle_closed(uv_handle_t *handle)
{
    struct rota_space *space = handle->data;
    if (--space->n_handles > 0)
        return;
    void (*on_closed)(void *data) = space->on_closed;
    void *data = space->closed_data;
    space_free(space);
    if (on_closed)
        on_closed(data);
}

void rota_space_finish(struct rota_space *space)
{
    assert(space->n_mine == 0 && !space->is_halting);
    if (space->is_finished)
        return;
    space->is_finished = true;
    if (space->state)
        space->engine->close(space->state);
    space->state = NULL;
    if (space->options.claims)
        rota_claims_limit(space->options.claims, rota_str(space->options.name), 0, NULL);
    if (space->follower)
        rota_space_members_unfollow(space->follower);
    uv_close((uv_handle_t *)&space->view.driver.timer, on_handle_closed);
    uv_close((uv_handle_t *)&space->change.dry_timer, on_handle_closed);
    uv_close((uv_handle_t *)&space->change.shadow_timer, on_handle_closed);
    uv_close((uv_handle_t *)&space->change_timer, on_handle_closed);
    uv_close((uv_handle_t *)&space->start_timer, on_handle_closed);
}

void rota_space_close(struct rota_space *space, void (*on_closed)(void *data), void *data)
{
    if (!space || space->is_closing)
        return;
    space->is_closing = true;
    space->on_closed = on_closed;
    space->closed_data = data;
    if (space->options.members)
        rota_members_unsubscribe(space->options.members, space->subscription);
    rota_space_view_close(space);
}

static void tell_draining(struct rota_space *space)
{
    bool is_draining = space->is_draining || space->is_displaced;
    space->map.is_draining = is_draining;
    rota_space_view_tell(space, is_draining ? ROTA_VIEW_DRAIN : ROTA_VIEW_UNDRAIN);
    rota_space_map_changed(space);
}

void rota_space_drain(struct rota_space *space, void (*on_drained)(void *data), void *data)
{
    space->is_draining = true;
    space->is_drained = false;
    space->on_drained = on_drained;
    space->drained_data = data;
    tell_draining(space);
}

void rota_space_undrain(struct rota_space *space)
{
    if (!space->is_draining)
        return;
    space->is_draining = space->is_drained = false;
    space->on_drained = NULL;
    tell_draining(space);
}

/* --- the members --- */

/* An evicted node is not listed, and withdraws from a keyed space. */
static void note_placed(struct rota_space *space, const struct rota_member *self)
{
    bool was_displaced = space->is_displaced;
    space->is_listed = space->is_listed || self;
    if (self || space->options.is_keyed)
        space->is_displaced = !self || !self->is_placed;
    if (was_displaced != space->is_displaced)
        tell_draining(space);
}

static void note_weight(struct rota_space *space, const struct rota_host *host)
{
    struct rota_str zone = space->options.is_keyed ? host->zone : rota_str("");
    if (host->weight == space->weight && rota_str_is_equal(zone, rota_str(space->zone)))
        return;
    space->weight = host->weight;
    snprintf(space->zone, sizeof space->zone, "%.*s", ROTA_STR_ARGS(zone));
    rota_space_view_tell(space, ROTA_VIEW_WEIGH);
}

static void on_members(void *data, const struct rota_members_change *change)
{
    struct rota_space *space = data;
    size_t n;
    const struct rota_member *members = rota_members_list(space->options.members, &n), *self = NULL;
    (void)change;
    for (size_t i = 0; i < n && !self; i++)
        if (rota_str_is_equal(members[i].host.address, rota_str(space->options.member)))
            self = &members[i];
    note_placed(space, self);
    if (self)
        note_weight(space, &self->host);
}

static enum rota_code subscribe_members(struct rota_space *space, struct rota_error *error)
{
    static _Atomic uint64_t n_spaces; /* names of subscriptions are unique */
    space->weight = ROTA_WEIGHT_ONE;
    if (!space->options.members || !space->options.member) {
        space->options.members = NULL;
        return ROTA_OK;
    }
    space->is_displaced = space->options.is_keyed; /* until it is listed */
    snprintf(space->subscription, sizeof space->subscription, "space %llu",
             (unsigned long long)++n_spaces);
    return rota_members_subscribe(space->options.members, space->subscription, on_members, space,
                                  error);
}

/* --- the beginning --- */

static bool is_name(const char *name)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                                  "0123456789._-";
    size_t size = name ? strlen(name) : 0;
    return size > 0 && size <= NAME_MAX_SIZE && strspn(name, letters) == size;
}

static enum rota_code check_times(const struct rota_space_options *o, struct rota_error *error)
{
    rota_time ttl = o->ttl > 0 ? o->ttl : TTL;
    if (o->ttl && (o->ttl < 2 * ROTA_VIEW_TTL_MIN || o->ttl > ROTA_VIEW_TTL_MAX))
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "space %s: a ttl must be from 200 ms to an hour", o->name);
    if (o->retry_after < 0)
        return rota_error_set(
            error, ROTA_ERR_INVALID,
            "space %s: the delay before a failed start is repeated must not be negative", o->name);
    if (o->stop_within < 0 || o->stop_within > ttl / 2)
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "space %s: stopping may take at most half a ttl", o->name);
    return ROTA_OK;
}

static enum rota_code check_options(const struct rota_space_options *o, struct rota_error *error)
{
    if (!is_name(o->name))
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "the name of a space has 1 to %d letters, digits, '.', '_' and '-'",
                              NAME_MAX_SIZE);
    const struct rota_engine *engine =
        o->engine ? rota_space_engine_find(rota_str(o->engine)) : NULL;
    if (o->engine && !engine)
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "space %s: unknown engine %.40s; use static, ring, lease or group",
                              o->name, o->engine);
    if (!o->is_keyed && o->engine && strcmp(o->name, ROTA_VIEW_QUEUES) == 0)
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "the name " ROTA_VIEW_QUEUES
                              " is taken: it is the space of the nodes that serve queues");
    if (o->is_keyed && (o->n_shards > 0 || (engine && engine != &rota_engine_ring)))
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "space %s: a keyed space has engine ring and no shards", o->name);
    if (engine && !o->is_keyed && (o->n_shards < 1 || o->n_shards > engine->n_shards_max))
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "space %s: engine %s takes from 1 to %u shards, not %u", o->name,
                              engine->name, (unsigned)engine->n_shards_max, (unsigned)o->n_shards);
    if (o->member && !rota_view_name_is_valid(rota_str(o->member)))
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "space %s: the address of a member has 1 to %d printable bytes",
                              o->name, ROTA_VIEW_NAME_MAX);
    return check_times(o, error);
}

static struct rota_space *space_new(const struct rota_space_options *o)
{
    size_t size = rota_text_size(o->name) + rota_text_size(o->member) + rota_text_size(o->engine) +
                  rota_text_size(o->seats) + rota_text_size(o->log_url);
    struct rota_space *space = calloc(1, sizeof *space + size + 1);
    if (!space)
        return NULL;
    char *to = space->texts;
    space->options = *o;
    space->options.name = rota_text_keep(&to, o->name);
    space->options.member = rota_text_keep(&to, o->member);
    space->options.engine = rota_text_keep(&to, o->engine);
    space->options.seats = rota_text_keep(&to, o->seats);
    space->options.log_url = rota_text_keep(&to, o->log_url);
    space->map.name = rota_str(space->options.name);
    space->map.engine = space->map.to = rota_str("");
    space->self = ROTA_SPACE_NOBODY;
    return space;
}

static bool make_series(struct rota_space *space)
{
    const struct rota_label labels[] = {{"space", rota_str(space->options.name)}};
    if (!space->options.metrics)
        space->options.metrics = space->metrics = rota_metrics_new(1);
    struct rota_metrics *metrics = space->options.metrics;
    if (!metrics)
        return false;
    space->series.held =
        rota_metrics_gauge(metrics, "rota_space_held", "Shards owned by this node.", labels, 1);
    space->series.started = rota_metrics_counter(metrics, "rota_space_started_total",
                                                 "Shards started on this node.", labels, 1);
    space->series.stopped = rota_metrics_counter(metrics, "rota_space_stopped_total",
                                                 "Shards stopped on this node.", labels, 1);
    space->series.failed =
        rota_metrics_counter(metrics, "rota_space_start_failed_total",
                             "Starts of shards that failed on this node.", labels, 1);
    return true;
}

/* Everything that can fail, before anything is on the loop. */
static enum rota_code prepare_space(struct rota_space *space, struct rota_error *error)
{
    uint64_t seed = 0;
    const char *member = space->options.member;
    int failed = uv_random(NULL, NULL, &seed, sizeof seed, 0, NULL);
    if (failed)
        return rota_error_set(error, ROTA_ERR_IO, "space %s: no random number: %s",
                              space->options.name, uv_strerror(failed));
    rota_map_init(&space->node_numbers, seed);
    if (member)
        space->self = rota_space_map_node_index(space, rota_str(member));
    if (!make_series(space) || (member && space->self == ROTA_SPACE_NOBODY))
        return rota_error_no_memory(error, "for space %s", space->options.name);
    return subscribe_members(space, error);
}

enum rota_code rota_space_open(struct uv_loop_s *loop, struct rota_store *store,
                               const struct rota_space_options *options, struct rota_space **result,
                               struct rota_error *error)
{
    enum rota_code code = check_options(options, error);
    if (code)
        return code;
    struct rota_space *space = space_new(options);
    if (!space)
        return rota_error_no_memory(error, "for space %s", options->name);
    code = prepare_space(space, error);
    if (code) {
        space_free(space);
        return code;
    }
    space->loop = loop;
    space->store = store;
    rota_driver_init(&space->view.driver, loop, space);
    uv_timer_init(loop, &space->change.dry_timer);
    uv_timer_init(loop, &space->change.shadow_timer);
    uv_timer_init(loop, &space->change_timer);
    uv_timer_init(loop, &space->start_timer);
    space->change_timer.data = space->start_timer.data = space;
    space->change.dry_timer.data = space->change.shadow_timer.data = space;
    space->n_handles = 5;
    if (space->options.members)
        on_members(space, NULL);
    rota_space_view_open(space);
    *result = space;
    return ROTA_OK;
}

/* --- for simple programs --- */

struct wait {
    uv_timer_t timer;
    bool is_over, is_closed;
};

static void on_wait_over(uv_timer_t *timer)
{
    ((struct wait *)timer->data)->is_over = true;
}

static void on_wait_closed(uv_handle_t *handle)
{
    ((struct wait *)handle->data)->is_closed = true;
}

enum rota_code rota_space_wait(struct rota_space *space, rota_time timeout,
                               struct rota_error *error)
{
    struct wait wait = {0};
    uv_timer_init(space->loop, &wait.timer);
    wait.timer.data = &wait;
    uv_timer_start(&wait.timer, on_wait_over, (uint64_t)(timeout / ROTA_MSEC), 0);
    bool is_keyed = space->options.is_keyed;
    while (space->map.n_owned == 0 && !(is_keyed && space->engine) && !wait.is_over)
        uv_run(space->loop, UV_RUN_ONCE);
    uv_close((uv_handle_t *)&wait.timer, on_wait_closed);
    while (!wait.is_closed)
        uv_run(space->loop, UV_RUN_NOWAIT);
    if (space->map.n_owned > 0 || (is_keyed && space->engine))
        return ROTA_OK;
    return rota_error_set(error, ROTA_ERR_UNAVAILABLE, "space %s: no shard has an owner: %.300s",
                          space->options.name,
                          space->map.trouble           ? space->map.trouble
                          : space->map.engine.size > 0 ? "no node serves the space"
                                                       : "the store has not responded");
}
