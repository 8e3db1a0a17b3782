/* Changes of a space that operators request: passed to the machine of views as wishes. */
#include "io/clock.h"
#include "run/own/space_inside.h"

#include "base/quote.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Of the wishes of a person; the end of a shadow has none, and others are of space_start.c. */
#define CHANGE_ID 1

/* --- the outcome --- */

static void report_outcome(struct rota_space *space, enum rota_code code,
                           const struct rota_error *error)
{
    struct rota_space_change *change = &space->change;
    rota_space_on_outcome *on_outcome = change->on_outcome;
    struct rota_space_outcome outcome = {.code = code, .text = change->text};
    if (code)
        outcome.error = *error;
    change->on_outcome = NULL;
    change->is_new = change->is_sent = change->is_dry = false;
    if (on_outcome && !space->is_closing)
        on_outcome(change->data, &outcome);
}

static void fail_change(struct rota_space *space, enum rota_code code)
{
    const char *name = space->options.name;
    struct rota_error error;
    if (code == ROTA_ERR_LIMIT)
        rota_error_set(&error, code, "space %s: too many shards are pinned", name);
    else if (code == ROTA_ERR_INVALID)
        rota_error_set(&error, code,
                       "space %s: the space was changed at the same time, or is migrating to "
                       "another engine; check its state and try again",
                       name);
    else
        rota_error_set(&error, code, "space %s: no change was made: %.300s", name,
                       space->map.trouble ? space->map.trouble : "the space is being closed");
    report_outcome(space, code, &error);
}

static void on_dry_timer(uv_timer_t *timer)
{
    report_outcome(timer->data, ROTA_OK, NULL);
}

static void on_shadow_timer(uv_timer_t *timer)
{
    struct rota_space *space = timer->data;
    space->change.is_commit_wanted = true;
    rota_space_view_wish(space);
}

void rota_space_change_hear(struct rota_space *space, const struct rota_view_outcome *outcome)
{
    struct rota_space_change *change = &space->change;
    if (outcome->id < CHANGE_ID && outcome->code)
        rota_log(space->options.log, rota_clock_wall(), ROTA_LOG_WARN, "shadow not ended",
                 ROTA_LOG_FACT("space", space->options.name),
                 ROTA_LOG_FACT("engine", rota_view_engine_name(change->to)));
    if (outcome->id != CHANGE_ID || !change->is_sent)
        return;
    if (outcome->code) {
        fail_change(space, outcome->code);
        return;
    }
    if (change->wish.type == ROTA_VIEW_MIGRATE)
        uv_timer_start(&change->shadow_timer, on_shadow_timer,
                       (uint64_t)(change->shadow / ROTA_MSEC), 0);
    else if (change->wish.type == ROTA_VIEW_CANCEL)
        uv_timer_stop(&change->shadow_timer);
    report_outcome(space, ROTA_OK, NULL);
}

bool rota_space_change_next(struct rota_space *space, struct rota_view_wish *wish)
{
    struct rota_space_change *change = &space->change;
    if (change->is_new) {
        change->is_new = false;
        change->is_sent = true;
        *wish = change->wish;
        return true;
    }
    if (!change->is_commit_wanted)
        return false;
    change->is_commit_wanted = false;
    *wish = (struct rota_view_wish){.type = ROTA_VIEW_COMMIT, .to = change->to};
    return true;
}

/* --- one change at a time --- */

static enum rota_code begin_change(struct rota_space *space, rota_space_on_outcome *on_outcome,
                                   void *data, struct rota_error *error)
{
    struct rota_space_change *change = &space->change;
    if (!space->engine || space->is_closing)
        return rota_error_set(error, ROTA_ERR_UNAVAILABLE, "space %s is unknown so far: %s",
                              space->options.name,
                              space->map.trouble ? space->map.trouble : "no node has joined it");
    if (change->is_new || change->is_sent || change->is_dry)
        return rota_error_set(error, ROTA_ERR_UNAVAILABLE,
                              "space %s: another change from this node is in progress",
                              space->options.name);
    rota_buffer_clear(&change->names);
    change->seats.size = 0;
    change->on_outcome = on_outcome;
    change->data = data;
    return ROTA_OK;
}

static void wish_for(struct rota_space *space, const struct rota_view_wish *wish, bool is_dry_run)
{
    struct rota_space_change *change = &space->change;
    if (is_dry_run) { /* its outcome is not reported from inside of the call */
        change->is_dry = true;
        uv_timer_start(&change->dry_timer, on_dry_timer, 0, 0);
        return;
    }
    change->wish = *wish;
    change->wish.id = CHANGE_ID;
    change->is_new = true;
    rota_space_view_wish(space);
}

/* --- pins --- */

static enum rota_code check_pin(struct rota_space *space, uint32_t shard, struct rota_str node,
                                struct rota_error *error)
{
    char quoted[ROTA_QUOTE_MAX];
    const struct rota_view *view = &space->view.fsm.view;
    if (shard >= space->map.n_shards)
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "space %s has %u shards; there is no shard %u", space->options.name,
                              (unsigned)space->map.n_shards, (unsigned)shard);
    if (space->engine->open)
        return rota_error_set(
            error, ROTA_ERR_INVALID,
            "space %s has engine %s, which cannot pin shards; ring and static can",
            space->options.name, space->engine->name);
    if (node.size > 0 && rota_view_find(view, node) == ROTA_VIEW_NOBODY)
        return rota_error_set(error, ROTA_ERR_INVALID, "space %s has no live node %s",
                              space->options.name, rota_quote(node, quoted));
    return ROTA_OK;
}

static void describe_pin(struct rota_space *space, uint32_t shard, struct rota_str node)
{
    char *text = space->change.text;
    const struct rota_space_shard *known = &space->shards[shard];
    struct rota_str owner =
        known->owner == ROTA_SPACE_NOBODY ? rota_str("no node") : space->nodes.items[known->owner];
    if (node.size == 0)
        snprintf(text, ROTA_SPACE_TEXT_MAX,
                 "shard %u of space %s goes where engine %s places it; it is on %.*s",
                 (unsigned)shard, space->options.name, space->engine->name, (int)owner.size,
                 owner.data);
    else if (rota_str_is_equal(owner, node))
        snprintf(text, ROTA_SPACE_TEXT_MAX, "shard %u of space %s stays on %.*s; nothing moves",
                 (unsigned)shard, space->options.name, (int)node.size, node.data);
    else
        snprintf(text, ROTA_SPACE_TEXT_MAX,
                 "shard %u of space %s moves from %.*s to %.*s; nothing else moves",
                 (unsigned)shard, space->options.name, (int)owner.size, owner.data, (int)node.size,
                 node.data);
}

enum rota_code rota_space_pin(struct rota_space *space, uint32_t shard, struct rota_str node,
                              bool is_dry_run, rota_space_on_outcome *on_outcome, void *data,
                              struct rota_error *error)
{
    enum rota_code code = begin_change(space, on_outcome, data, error);
    if (!code)
        code = check_pin(space, shard, node, error);
    if (code)
        return code;
    describe_pin(space, shard, node);
    rota_buffer_append(&space->change.names, node.data, node.size);
    if (space->change.names.failed)
        return rota_error_no_memory(error, "for space %s", space->options.name);
    const struct rota_view_wish wish = {
        .type = node.size ? ROTA_VIEW_PIN : ROTA_VIEW_UNPIN,
        .shard = shard,
        .name = rota_buffer_str(&space->change.names),
    };
    wish_for(space, &wish, is_dry_run);
    return ROTA_OK;
}

/* --- seats --- */

static enum rota_code split_seats(struct rota_space *space, const char *seats,
                                  struct rota_error *error)
{
    struct rota_space_change *change = &space->change;
    rota_buffer_append_text(&change->names, seats);
    if (change->names.failed)
        return rota_error_no_memory(error, "for space %s", space->options.name);
    for (const char *at = rota_buffer_str(&change->names).data;;) {
        struct rota_str seat = rota_str_of(at, strcspn(at, ","));
        if (!rota_view_name_is_valid(seat))
            return rota_error_set(error, ROTA_ERR_INVALID,
                                  "space %s: the nodes are not addresses separated by commas",
                                  space->options.name);
        if (change->seats.size >= ROTA_VIEW_SEATS_MAX)
            return rota_error_set(error, ROTA_ERR_LIMIT, "space %s: more than %d nodes in the list",
                                  space->options.name, ROTA_VIEW_SEATS_MAX);
        if (!rota_vector_push(&change->seats, seat))
            return rota_error_no_memory(error, "for space %s", space->options.name);
        if (!at[seat.size])
            return ROTA_OK;
        at += seat.size + 1;
    }
}

enum rota_code rota_space_reseat(struct rota_space *space, const char *seats, bool is_dry_run,
                                 rota_space_on_outcome *on_outcome, void *data,
                                 struct rota_error *error)
{
    struct rota_space_change *change = &space->change;
    enum rota_code code = begin_change(space, on_outcome, data, error);
    if (!code)
        code = split_seats(space, seats, error);
    if (code)
        return code;
    snprintf(change->text, sizeof change->text, "the shards of space %s are spread over %zu %s%s",
             space->options.name, change->seats.size, change->seats.size == 1 ? "node" : "nodes",
             space->engine == &rota_engine_static ? "" : " once its engine is static");
    const struct rota_view_wish wish = {
        .type = ROTA_VIEW_RESEAT, .seats = change->seats.items, .n_seats = change->seats.size};
    wish_for(space, &wish, is_dry_run);
    return ROTA_OK;
}

/* --- engines --- */

static enum rota_code check_engine(struct rota_space *space, struct rota_str name,
                                   const struct rota_engine **engine, struct rota_error *error)
{
    char quoted[ROTA_QUOTE_MAX];
    const char *space_name = space->options.name;
    *engine = rota_space_engine_find(name);
    if (!*engine)
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "space %s: unknown engine %s; use static, ring, lease or group",
                              space_name, rota_quote(name, quoted));
    if (space->map.n_shards > (*engine)->n_shards_max)
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "space %s has %u shards, but engine %s supports at most %u",
                              space_name, (unsigned)space->map.n_shards, (*engine)->name,
                              (unsigned)(*engine)->n_shards_max);
    if (space->map.phase == ROTA_SPACE_STOPPING || space->map.phase == ROTA_SPACE_STARTING)
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "space %s is migrating to %.*s: wait until that ends", space_name,
                              (int)space->map.to.size, space->map.to.data);
    if (*engine == space->engine && space->map.phase == ROTA_SPACE_STABLE)
        return rota_error_set(error, ROTA_ERR_INVALID, "space %s already has engine %s", space_name,
                              (*engine)->name);
    return (*engine)->check ? (*engine)->check(space, error) : ROTA_OK;
}

/* How many shards would have another owner under an engine that follows from views; all of them
 * when that is unknown. */
static uint32_t count_moves(const struct rota_space *space, const struct rota_engine *engine)
{
    const struct rota_view_fsm *fsm = &space->view.fsm;
    uint32_t n_shards = space->map.n_shards, n = 0;
    uint32_t *owners = calloc(n_shards, sizeof *owners);
    if (!owners ||
        rota_view_place(&fsm->view, fsm->view.number, engine->kind, fsm->hashes, owners, NULL)) {
        free(owners);
        return n_shards;
    }
    for (uint32_t i = 0; i < n_shards; i++) {
        bool is_owned = fsm->owners[i] != ROTA_VIEW_NOBODY,
             is_to_be = owners[i] != ROTA_VIEW_NOBODY;
        n += is_owned != is_to_be ||
             (is_owned && !rota_str_is_equal(fsm->lives.items[fsm->owners[i]].name,
                                             fsm->view.members.items[owners[i]].name));
    }
    free(owners);
    return n;
}

static void describe_engine(struct rota_space *space, const struct rota_engine *engine)
{
    char *text = space->change.text;
    const char *name = space->options.name;
    if (engine == space->engine)
        snprintf(text, ROTA_SPACE_TEXT_MAX,
                 "space %s stays with engine %s; the shadow of %.*s ends", name, engine->name,
                 (int)space->map.to.size, space->map.to.data);
    else if (engine == &rota_engine_static && space->view.fsm.view.seats.size == 0)
        snprintf(text, ROTA_SPACE_TEXT_MAX,
                 "space %s migrates from %s to static; its current nodes become its node list",
                 name, space->engine->name);
    else if (!engine->open && !space->engine->open)
        snprintf(text, ROTA_SPACE_TEXT_MAX,
                 "space %s migrates from %s to %s: %u of %u shards get another owner, the others "
                 "only a higher epoch",
                 name, space->engine->name, engine->name, (unsigned)count_moves(space, engine),
                 (unsigned)space->map.n_shards);
    else
        snprintf(
            text, ROTA_SPACE_TEXT_MAX,
            "space %s migrates from %s to %s: all %u shards stop and restart with higher epochs",
            name, space->engine->name, engine->name, (unsigned)space->map.n_shards);
}

enum rota_code rota_space_migrate(struct rota_space *space, struct rota_str name, rota_time shadow,
                                  bool is_dry_run, rota_space_on_outcome *on_outcome, void *data,
                                  struct rota_error *error)
{
    const struct rota_engine *engine = NULL;
    enum rota_code code = begin_change(space, on_outcome, data, error);
    if (!code)
        code = check_engine(space, name, &engine, error);
    if (code)
        return code;
    bool is_back = engine == space->engine;
    describe_engine(space, engine);
    if (!is_dry_run) {
        space->change.to = engine->kind;
        space->change.shadow = shadow > 0 ? shadow : rota_space_ttl(space);
    }
    const struct rota_view_wish wish = {.type = is_back ? ROTA_VIEW_CANCEL : ROTA_VIEW_MIGRATE,
                                        .to = engine->kind};
    wish_for(space, &wish, is_dry_run);
    return ROTA_OK;
}
