#include "node/node_spaces.h"

#include "core/own/view.h"
#include "node/node_caches.h"

#include "node/node_inside.h"
#include "node/rules/space_watch.h"
#include "run/call/space_directory.h"
#include "run/own/space_members.h"

#include <stdio.h>
#include <stdlib.h>

struct entry {
    struct rota_node_spaces *spaces;
    struct rota_space *space;
    struct rota_space_watch watch;
    bool is_member;  /* it is in the settings; else it is only observed */
    bool is_keyed;   /* it has no shards to show: that of the queues */
    bool is_drained; /* owns nothing, and others know it */
    bool is_closing; /* the store has it no longer */

    /* As last reported to people. */
    char engine[32], to[32];
    enum rota_space_phase phase;
    bool has_trouble;
    uint32_t n_held;
};

struct rota_node_spaces {
    struct rota_node *node;
    struct entry *entries[ROTA_NODE_SPACES_MAX + 1]; /* and that of the queues */
    size_t n_entries;
    size_t n_open; /* that are not closed yet; those that were deleted included */
    uv_timer_t timer;
    bool is_draining, is_closing;
    void (*on_closed)(void *data);
    void *data;
};

/* --- news --- */

static bool is_other(const char *known, struct rota_str text)
{
    return !rota_str_is_equal(rota_str(known), text);
}

static void keep_text(char known[32], struct rota_str text)
{
    snprintf(known, 32, "%.*s", ROTA_STR_ARGS(text));
}

static void note_engine(struct entry *entry, const struct rota_space_map *map)
{
    struct rota_node *node = entry->spaces->node;
    if (map->engine.size > 0 && is_other(entry->engine, map->engine))
        rota_node_note(node, ROTA_EVENT_SHARD, map->name, "has engine %.*s now",
                       ROTA_STR_ARGS(map->engine));
    if (map->phase != entry->phase || is_other(entry->to, map->to)) {
        if (map->phase != ROTA_SPACE_STABLE)
            rota_node_note(node, ROTA_EVENT_SHARD, map->name, "is migrating to engine %.*s: %s",
                           ROTA_STR_ARGS(map->to), rota_space_phase_name(map->phase));
    }
    keep_text(entry->engine, map->engine);
    keep_text(entry->to, map->to);
    entry->phase = map->phase;
}

/* Reported when it has settled; shards that arrive one by one are not. */
static void note_held(struct entry *entry, const struct rota_space_map *map)
{
    struct rota_node *node = entry->spaces->node;
    bool is_settled = map->n_moving == 0 && map->n_owned == map->n_shards;
    if (!entry->is_member || map->n_held == entry->n_held || !(is_settled || map->n_held == 0))
        return;
    entry->n_held = map->n_held;
    rota_node_note(node, ROTA_EVENT_SHARD, map->name, "has %u of its %u shards on %s", map->n_held,
                   map->n_shards, rota_node_naming_name(node));
    rota_log(node->log, rota_clock_wall(), ROTA_LOG_INFO, "space shards held",
             ROTA_LOG_FACT("space", map->name), ROTA_LOG_FACT("shards", (uint64_t)map->n_held),
             ROTA_LOG_FACT("of", (uint64_t)map->n_shards));
}

static void note_trouble(struct entry *entry, const struct rota_space_map *map)
{
    if (map->trouble && !entry->has_trouble)
        rota_node_note(entry->spaces->node, ROTA_EVENT_SHARD, map->name, "has a problem here: %s",
                       map->trouble);
    entry->has_trouble = map->trouble != NULL;
}

static void count_held(struct rota_node_spaces *spaces)
{
    size_t n = 0;
    for (size_t i = 0; i < spaces->n_entries; i++)
        n += rota_space_map(spaces->entries[i]->space)->n_held;
    spaces->node->n_shards = n;
}

static void on_change(void *data)
{
    struct entry *entry = data;
    if (!entry->space || entry->is_closing || entry->spaces->is_closing) /* opened or closed now */
        return;
    const struct rota_space_map *map = rota_space_map(entry->space);
    if (entry->is_keyed) {
        note_trouble(entry, map);
        return;
    }
    rota_space_directory_set(entry->spaces->node->space_directory, map, NULL, NULL);
    note_engine(entry, map);
    note_held(entry, map);
    note_trouble(entry, map);
    count_held(entry->spaces);
}

/* --- opening --- */

static enum rota_code open_entry(struct rota_node_spaces *spaces,
                                 const struct rota_space_options *options, struct rota_error *error)
{
    struct rota_node *node = spaces->node;
    struct entry *entry = calloc(1, sizeof *entry);
    struct rota_space_options full = *options;
    if (!entry)
        return rota_error_no_memory(error, "for space %s", options->name);
    *entry = (struct entry){
        .spaces = spaces, .is_member = options->member != NULL, .is_keyed = options->is_keyed};
    full.members = node->members;
    /* We hold the port, or at least the data directory, and with it the jobs. */
    full.is_alone = options->is_keyed || !node->settings->advertise;
    full.ttl = node->settings->ttl;
    full.on_change = on_change;
    full.log = node->log;
    full.metrics = node->metrics;
    full.data = entry;
    enum rota_code code = rota_space_open(node->loop, node->store, &full, &entry->space, error);
    if (code) {
        free(entry);
        return code;
    }
    spaces->entries[spaces->n_entries++] = entry;
    spaces->n_open++;
    if (spaces->is_draining && entry->is_member)
        rota_space_drain(entry->space, NULL, NULL);
    if (entry->is_keyed) {
        rota_space_members_follow(node->queue_members, entry->space);
        return ROTA_OK;
    }
    code = rota_space_service_add(node->space_service, entry->space, error);
    return code ? code
                : rota_space_directory_set(node->space_directory, rota_space_map(entry->space),
                                           NULL, error);
}

static enum rota_code open_own(struct rota_node_spaces *spaces, struct rota_error *error)
{
    struct rota_node *node = spaces->node;
    const struct rota_node_space *space;
    enum rota_code code = ROTA_OK;
    for (size_t i = 0; !code && (space = rota_node_settings_space(node->options.settings, &i));
         i++) {
        struct rota_space_options options = {
            .name = space->name,
            .member = node->advertise,
            .engine = rota_node_settings_engine_name(space->engine),
            .n_shards = (uint32_t)space->shards,
            .seats = space->seats,
            .log_url = space->log,
        };
        code = open_entry(spaces, &options, error);
    }
    /* The members and placement of queues follow from the views of this space. */
    if (!code && node->queue_members)
        code = open_entry(spaces,
                          &(struct rota_space_options){.name = ROTA_VIEW_QUEUES,
                                                       .member = node->advertise,
                                                       .engine = "ring",
                                                       .is_keyed = true},
                          error);
    return code;
}

/* --- spaces of the store --- */

static void observe_space(struct rota_node_spaces *spaces, struct rota_str name)
{
    struct rota_error error;
    char text[ROTA_NODE_SPACE_NAME_MAX + 1];
    if (rota_space_service_find(spaces->node->space_service, name) ||
        rota_str_is_equal(name, rota_str(ROTA_VIEW_QUEUES)) || name.size >= sizeof text ||
        spaces->n_entries >= ROTA_NODE_SPACES_MAX)
        return;
    snprintf(text, sizeof text, "%.*s", ROTA_STR_ARGS(name));
    if (open_entry(spaces, &(struct rota_space_options){.name = text}, &error))
        rota_log(spaces->node->log, rota_clock_wall(), ROTA_LOG_WARN, "space cannot be observed",
                 ROTA_LOG_FACT("space", name), ROTA_LOG_FACT("error", error.text));
}

static bool is_listed(const struct rota_store_answer *answer, struct rota_str name)
{
    for (size_t i = 0; i < answer->n_spaces; i++)
        if (rota_str_is_equal(answer->spaces[i].name, name))
            return true;
    return false;
}

static void on_space_closed(void *data);

/* Stop observing deleted spaces. A member keeps its space and creates it again. */
static void forget_deleted(struct rota_node_spaces *spaces, const struct rota_store_answer *answer)
{
    size_t n = 0;
    for (size_t i = 0; i < spaces->n_entries; i++) {
        struct entry *entry = spaces->entries[i];
        struct rota_str name = rota_space_map(entry->space)->name;
        if (entry->is_member || is_listed(answer, name)) {
            spaces->entries[n++] = entry;
            continue;
        }
        rota_node_note(spaces->node, ROTA_EVENT_SHARD, name, "no longer exists");
        rota_space_service_remove(spaces->node->space_service, name);
        rota_space_directory_remove(spaces->node->space_directory, name);
        entry->is_closing = true;
        rota_space_close(entry->space, on_space_closed, entry);
    }
    spaces->n_entries = n;
}

static void on_spaces(void *data, const struct rota_store_answer *answer)
{
    struct rota_node_spaces *spaces = data;
    if (spaces->is_closing)
        return;
    if (!answer->code)
        forget_deleted(spaces, answer);
    for (size_t i = 0; !answer->code && i < answer->n_spaces; i++)
        if (rota_space_has_engine(answer->spaces[i].engine))
            observe_space(spaces, answer->spaces[i].name);
    rota_space_directory_looked_up(spaces->node->space_directory, answer->code ? NULL : answer);
}

static void on_caches(void *data, const struct rota_store_answer *answer)
{
    struct rota_node_spaces *spaces = data;
    const struct rota_store_request request = {.verb = ROTA_STORE_SPACES};
    if (spaces->is_closing)
        return;
    if (!answer->code)
        rota_node_caches_list(spaces->node->caches, answer);
    if (answer->code || rota_store_ask(spaces->node->store, &request, on_spaces, spaces, NULL))
        rota_space_directory_looked_up(spaces->node->space_directory, NULL);
}

/* The caches, then the spaces. */
void rota_node_spaces_refresh(struct rota_node_spaces *spaces)
{
    const struct rota_store_request request = {.verb = ROTA_STORE_DCS};
    if (!spaces || spaces->is_closing)
        return;
    if (rota_store_ask(spaces->node->store, &request, on_caches, spaces, NULL))
        rota_space_directory_looked_up(spaces->node->space_directory, NULL);
}

static void on_timer(uv_timer_t *timer)
{
    rota_node_spaces_refresh(timer->data);
}

/* A client wants a space that is not known here. */
static void look_up(void *data)
{
    rota_node_spaces_refresh(data);
}

/* --- draining --- */

static void on_drained(void *data)
{
    struct entry *entry = data;
    entry->is_drained = true;
}

void rota_node_spaces_drain(struct rota_node_spaces *spaces)
{
    spaces->is_draining = true;
    for (size_t i = 0; i < spaces->n_entries; i++)
        if (spaces->entries[i]->is_member)
            rota_space_drain(spaces->entries[i]->space, on_drained, spaces->entries[i]);
}

void rota_node_spaces_undrain(struct rota_node_spaces *spaces)
{
    if (!spaces->is_draining)
        return;
    spaces->is_draining = false;
    for (size_t i = 0; i < spaces->n_entries; i++) {
        spaces->entries[i]->is_drained = false;
        rota_space_undrain(spaces->entries[i]->space);
    }
}

bool rota_node_spaces_is_idle(const struct rota_node_spaces *spaces)
{
    for (size_t i = 0; i < spaces->n_entries; i++)
        if (spaces->entries[i]->is_member && !spaces->entries[i]->is_drained)
            return false;
    return true;
}

/* --- closing --- */

static void on_timer_closed(uv_handle_t *handle)
{
    struct rota_node_spaces *spaces = handle->data;
    void (*on_closed)(void *data) = spaces->on_closed;
    void *data = spaces->data;
    free(spaces);
    on_closed(data);
}

static void end_when_closed(struct rota_node_spaces *spaces)
{
    if (spaces->is_closing && spaces->n_open == 0)
        uv_close((uv_handle_t *)&spaces->timer, on_timer_closed);
}

static void on_space_closed(void *data)
{
    struct entry *entry = data;
    struct rota_node_spaces *spaces = entry->spaces;
    rota_space_watch_deinit(&entry->watch);
    free(entry);
    spaces->n_open--;
    end_when_closed(spaces);
}

void rota_node_spaces_close(struct rota_node_spaces *spaces, void (*on_closed)(void *data),
                            void *data)
{
    if (!spaces) {
        on_closed(data);
        return;
    }
    struct rota_node *node = spaces->node;
    spaces->is_closing = true;
    spaces->on_closed = on_closed;
    spaces->data = data;
    uv_timer_stop(&spaces->timer);
    rota_store_forget(node->store, spaces);
    rota_space_service_end(node->space_service);
    rota_space_directory_end(node->space_directory);
    rota_node_caches_close(node->caches);
    node->caches = NULL;
    size_t n = spaces->n_entries;
    spaces->n_entries = 0;
    spaces->n_open++; /* until all are closed */
    for (size_t i = 0; i < n; i++)
        rota_space_close(spaces->entries[i]->space, on_space_closed, spaces->entries[i]);
    spaces->n_open--;
    end_when_closed(spaces);
}

/* --- life --- */

static void on_given_up(void *data)
{
    *(bool *)data = true;
}

enum rota_code rota_node_spaces_open(struct rota_node *node, struct rota_node_spaces **spaces,
                                     struct rota_error *error)
{
    struct rota_node_spaces *made = calloc(1, sizeof *made);
    bool is_given_up = false;
    if (!made)
        return rota_error_no_memory(error, "for spaces");
    made->node = node;
    uv_timer_init(node->loop, &made->timer);
    made->timer.data = made;
    enum rota_code code = rota_space_directory_open(node->loop, node->server, look_up, made,
                                                    &node->space_directory, error);
    if (!code)
        code = rota_node_caches_open(node, &node->caches, error);
    if (!code)
        code = open_own(made, error);
    if (!code) {
        uv_timer_start(&made->timer, on_timer, 0, ROTA_NODE_SPACES_EVERY / ROTA_MSEC);
        *spaces = made;
        return ROTA_OK;
    }
    rota_node_spaces_close(made, on_given_up, &is_given_up);
    while (!is_given_up)
        uv_run(node->loop, UV_RUN_ONCE);
    return code;
}

/* --- followers --- */

bool rota_node_spaces_write_changes(struct rota_node_spaces *spaces, struct rota_str name,
                                    struct rota_space_seen *seen, struct rota_json *json)
{
    for (size_t i = 0; i < spaces->n_entries; i++) {
        struct entry *entry = spaces->entries[i];
        const struct rota_space_map *map = rota_space_map(entry->space);
        if (!rota_str_is_equal(map->name, name))
            continue;
        if (map->engine.size == 0 || map->version == seen->version ||
            !rota_space_watch_look(&entry->watch, map))
            return false;
        rota_space_watch_write(&entry->watch, map, seen->stamp, json);
        *seen = (struct rota_space_seen){entry->watch.stamp, map->version};
        return true;
    }
    return false;
}
