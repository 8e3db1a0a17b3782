/* The state of all shards of a space: its map, the claims that servers fence by, and the history
 * of a shard. */
#include "io/clock.h"
#include "run/own/space_inside.h"

#include "base/hash.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int64_t rota_space_node(struct rota_str address)
{
    uint64_t high = rota_hash_farm32(address), low = rota_hash_finish32((uint32_t)address.size);
    for (size_t i = 0; i < address.size; i++) /* FNV: another hash of the same bytes */
        low = (uint32_t)((low ^ (unsigned char)address.data[i]) * 16777619U);
    return (int64_t)((high << 32 | low) & INT64_MAX);
}

/* --- nodes --- */

static struct rota_str text_copy(struct rota_str text)
{
    char *copy = malloc(text.size + 1);
    if (!copy)
        return rota_str_of(NULL, 0);
    memcpy(copy, text.data, text.size);
    copy[text.size] = '\0';
    return rota_str_of(copy, text.size);
}

/* Numbers are stored plus one, since a map has no NULL. */
uint32_t rota_space_map_node_index(struct rota_space *space, struct rota_str address)
{
    if (address.size == 0)
        return ROTA_SPACE_NOBODY;
    uintptr_t number = (uintptr_t)rota_map_get(&space->node_numbers, address);
    if (number)
        return (uint32_t)(number - 1);
    if (space->nodes.size >= ROTA_SPACE_NODES_MAX)
        return ROTA_SPACE_NOBODY;
    struct rota_str copy = text_copy(address);
    if (!copy.data || !rota_vector_reserve(&space->nodes, space->nodes.size + 1) ||
        !rota_map_put(&space->node_numbers, copy, (void *)(uintptr_t)(space->nodes.size + 1))) {
        free((char *)copy.data);
        return ROTA_SPACE_NOBODY;
    }
    space->nodes.items[space->nodes.size++] = copy;
    space->map.nodes = space->nodes.items;
    space->map.n_nodes = space->nodes.size;
    return (uint32_t)(space->nodes.size - 1);
}

/* --- claims --- */

static void set_claim(struct rota_space *space, uint32_t shard, uint64_t epoch, uint32_t owner,
                      bool is_held)
{
    char text[ROTA_DRIVER_SHARD_MAX];
    struct rota_error error;
    bool is_starting = owner == space->self && !is_held;
    const struct rota_claim claim = {
        .space = rota_str(space->options.name),
        .shard = rota_driver_shard_text(shard, text),
        .node = rota_space_node(space->nodes.items[owner]),
        .epoch = epoch,
        .address = is_starting ? rota_str("") : space->nodes.items[owner],
        .is_held = is_held,
    };
    if (rota_claims_set(space->options.claims, &claim, &error) && is_held)
        rota_log(space->options.log, rota_clock_wall(), ROTA_LOG_ERROR, "shard not served",
                 ROTA_LOG_FACT("space", space->options.name), ROTA_LOG_FACT("shard", shard),
                 ROTA_LOG_FACT("error", error.text));
}

void rota_space_map_claim(struct rota_space *space, uint32_t shard, uint64_t epoch)
{
    bool is_served = rota_space_start_is_served(space, shard, epoch);
    if (space->engine->keeps_claims && is_served && space->options.is_start_answered)
        space->engine->claim(space->state, shard, epoch);
    else if (space->options.claims && !space->engine->keeps_claims)
        set_claim(space, shard, epoch, space->self, is_served);
}

void rota_space_map_unclaim(struct rota_space *space, uint32_t shard, uint64_t epoch)
{
    char text[ROTA_DRIVER_SHARD_MAX];
    if (space->options.claims)
        rota_claims_drop(space->options.claims, rota_str(space->options.name),
                         rota_driver_shard_text(shard, text), epoch);
}

/* What another has. A shard of ours is set when it is started. */
static void claim_other(struct rota_space *space, uint32_t shard,
                        const struct rota_space_shard *seen)
{
    if (!space->options.claims || seen->owner == space->self ||
        space->mine[shard].state == ROTA_SPACE_STARTED)
        return;
    if (seen->owner == ROTA_SPACE_NOBODY)
        rota_space_map_unclaim(space, shard, seen->epoch);
    else
        set_claim(space, shard, seen->epoch, seen->owner, false);
}

/* --- the map --- */

static void on_change_timer(uv_timer_t *timer)
{
    struct rota_space *space = timer->data;
    rota_space_view_check_drained(space);
    if (space->options.on_change && !space->is_closing)
        space->options.on_change(space->options.data);
}

void rota_space_map_changed(struct rota_space *space)
{
    space->map.version++;
    if (!uv_is_closing((uv_handle_t *)&space->change_timer) &&
        !uv_is_active((uv_handle_t *)&space->change_timer))
        uv_timer_start(&space->change_timer, on_change_timer, 0, 0);
}

static void count_shard(struct rota_space_map *map, const struct rota_space_shard *shard,
                        uint32_t by)
{
    if (shard->state == ROTA_SPACE_OWNED)
        map->n_owned += by;
    else if (shard->state == ROTA_SPACE_MOVING)
        map->n_moving += by;
}

static void note_change(struct rota_space *space, uint32_t shard,
                        const struct rota_space_shard *seen)
{
    space->notes[space->n_notes++ % ROTA_SPACE_HISTORY_MAX] =
        (struct rota_space_note){.at = rota_clock_wall(),
                                 .shard = shard,
                                 .epoch = seen->epoch,
                                 .owner = seen->owner,
                                 .state = seen->state};
}

void rota_space_map_see(struct rota_space *space, uint32_t shard, struct rota_space_shard seen)
{
    struct rota_space_shard *known = &space->shards[shard];
    if (seen.epoch < known->epoch)
        return;
    bool is_same =
        seen.epoch == known->epoch && seen.owner == known->owner && seen.state == known->state;
    if (is_same && seen.is_pinned == known->is_pinned)
        return;
    count_shard(&space->map, known, UINT32_MAX);
    count_shard(&space->map, &seen, 1);
    *known = seen;
    rota_space_map_changed(space);
    if (is_same)
        return;
    note_change(space, shard, &seen);
    claim_other(space, shard, &seen);
}

/* --- the map of a view --- */

/* A shard that a view gives us is shown as ours once it is started. Until it is known how far
 * the others are, shards that a new view does not change stay as they were. `indices` are those
 * of the machine's lives. */
static struct rota_space_shard shard_of(const struct rota_space *space, uint32_t shard,
                                        const uint32_t *indices)
{
    const struct rota_view_fsm *fsm = &space->view.fsm;
    if (fsm->owners[shard] == ROTA_VIEW_NOBODY)
        return (struct rota_space_shard){.epoch = space->shards[shard].epoch,
                                         .owner = ROTA_SPACE_NOBODY,
                                         .state = ROTA_SPACE_UNOWNED};
    uint32_t index = indices[fsm->owners[shard]];
    bool is_waiting =
        index == space->self && !rota_space_start_is_served(space, shard, fsm->epochs[shard]);
    const struct rota_space_shard *known = &space->shards[shard];
    bool is_kept = known->state == ROTA_SPACE_OWNED && known->owner == index &&
                   known->epoch == fsm->epochs[shard];
    bool is_moving = fsm->is_taken[shard] || (fsm->is_barred && !is_kept) || is_waiting;
    return (struct rota_space_shard){.epoch = fsm->epochs[shard],
                                     .owner = index,
                                     .state = is_moving ? ROTA_SPACE_MOVING : ROTA_SPACE_OWNED,
                                     .is_pinned = space->mine[shard].is_pinned};
}

static void see_pins(struct rota_space *space)
{
    const struct rota_view *view = rota_view_fsm_view(&space->view.fsm);
    for (uint32_t i = 0; i < space->map.n_shards; i++)
        space->mine[i].is_pinned = false;
    for (size_t i = 0; i < view->pins.size; i++)
        if (view->pins.items[i].span.to == 0)
            space->mine[view->pins.items[i].shard].is_pinned = true;
}

static void see_shards(struct rota_space *space)
{
    const struct rota_view_fsm *fsm = &space->view.fsm;
    uint32_t *indices = calloc(fsm->lives.size + 1, sizeof *indices);
    if (!indices)
        return; /* the next update has it */
    for (size_t i = 0; i < fsm->lives.size; i++)
        indices[i] = rota_space_map_node_index(space, fsm->lives.items[i].name);
    see_pins(space);
    for (uint32_t i = 0; i < space->map.n_shards; i++)
        rota_space_map_see(space, i, shard_of(space, i, indices));
    free(indices);
}

static enum rota_space_phase phase_of(enum rota_view_phase phase)
{
    switch (phase) {
    case ROTA_VIEW_STABLE:
        return ROTA_SPACE_STABLE;
    case ROTA_VIEW_SHADOW:
        return ROTA_SPACE_SHADOW;
    case ROTA_VIEW_STOPPING:
        return ROTA_SPACE_STOPPING;
    case ROTA_VIEW_STARTING:
        return ROTA_SPACE_STARTING;
    }
    return ROTA_SPACE_STABLE;
}

/* The engine and the phase are in texts that last. */
static void see_phase(struct rota_space *space)
{
    const struct rota_view *view = rota_view_fsm_view(&space->view.fsm);
    struct rota_space_map *map = &space->map;
    struct rota_space_map before = *map;
    map->engine = rota_str(view->number ? rota_view_engine_name(view->engine) : "");
    map->phase = phase_of(view->phase);
    map->to = rota_str(view->phase == ROTA_VIEW_STABLE ? "" : rota_view_engine_name(view->to));
    map->n_differences = 0;
    map->is_counted = false;
    if (view->phase == ROTA_VIEW_SHADOW)
        map->is_counted = !rota_view_fsm_differences(&space->view.fsm, &map->n_differences, NULL);
    if (before.engine.data != map->engine.data || before.phase != map->phase ||
        before.to.data != map->to.data || before.n_differences != map->n_differences)
        rota_space_map_changed(space);
}

/* With an engine that observes the owners itself, no shard has an owner while all have to stop. */
static void see_nobody(struct rota_space *space)
{
    for (uint32_t i = 0; i < space->map.n_shards; i++)
        if (space->mine[i].state != ROTA_SPACE_STARTED)
            rota_space_map_see(space, i,
                               (struct rota_space_shard){.epoch = space->shards[i].epoch,
                                                         .owner = ROTA_SPACE_NOBODY,
                                                         .state = ROTA_SPACE_UNOWNED});
}

void rota_space_map_view(struct rota_space *space)
{
    see_phase(space);
    if (!space->engine)
        return;
    if (!space->engine->open)
        see_shards(space);
    else if (space->map.phase == ROTA_SPACE_STOPPING)
        see_nobody(space);
}

/* --- the beginning and the end --- */

enum rota_code rota_space_map_init(struct rota_space *space, uint32_t n_shards,
                                   struct rota_error *error)
{
    free(space->shards); /* of an earlier attempt, which has failed */
    free(space->mine);
    space->shards = calloc((size_t)n_shards + 1, sizeof *space->shards);
    space->mine = calloc((size_t)n_shards + 1, sizeof *space->mine);
    if (!space->notes)
        space->notes = calloc(ROTA_SPACE_HISTORY_MAX, sizeof *space->notes);
    if (!space->shards || !space->mine || !space->notes)
        return rota_error_set(error, ROTA_ERR_NO_MEMORY,
                              "space %s: not enough memory for %u shards", space->options.name,
                              (unsigned)n_shards);
    for (uint32_t i = 0; i < n_shards; i++)
        space->shards[i] =
            (struct rota_space_shard){.owner = ROTA_SPACE_NOBODY, .state = ROTA_SPACE_UNOWNED};
    space->map.shards = space->shards;
    space->map.n_shards = n_shards;
    rota_space_map_changed(space);
    return ROTA_OK;
}

void rota_space_map_deinit(struct rota_space *space)
{
    for (size_t i = 0; i < space->nodes.size; i++)
        free((char *)space->nodes.items[i].data);
    rota_vector_deinit(&space->nodes);
    rota_map_deinit(&space->node_numbers);
    free(space->shards);
    free(space->mine);
    free(space->notes);
}

const struct rota_space_map *rota_space_map(const struct rota_space *space)
{
    return &space->map;
}

size_t rota_space_history(const struct rota_space *space, uint32_t shard,
                          struct rota_space_event *events, size_t n_max)
{
    size_t n = 0, oldest = space->n_notes > ROTA_SPACE_HISTORY_MAX
                               ? space->n_notes - ROTA_SPACE_HISTORY_MAX
                               : 0;
    for (size_t i = space->n_notes; i > oldest && n < n_max; i--) {
        const struct rota_space_note *note = &space->notes[(i - 1) % ROTA_SPACE_HISTORY_MAX];
        if (note->shard != shard)
            continue;
        events[n++] = (struct rota_space_event){
            .at = note->at,
            .shard = shard,
            .epoch = note->epoch,
            .state = (enum rota_space_state)note->state,
            .owner =
                note->owner == ROTA_SPACE_NOBODY ? rota_str("") : space->nodes.items[note->owner],
        };
    }
    return n;
}
