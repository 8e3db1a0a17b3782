#include "node/node_inside.h"

#include "io/clock.h"
#include "io/timer.h"
#include "node/node_spaces.h"
#include "run/call/space_directory.h"

#include <stdio.h>
#include <stdlib.h>

enum {
    EVENTS_PER_MS = 1000
}; /* so that numbers of events grow from life to life, and fit in 2^53 */

#define LOOK_EVERY (50 * ROTA_MSEC) /* at roles that drain */

/* --- actions of the machine --- */

static void log_state(struct rota_node *node, const char *phrase)
{
    const char *name = node->is_named ? rota_node_naming_name(node) : node->naming.name;
    rota_log(node->log, rota_clock_wall(), ROTA_LOG_INFO, phrase,
             ROTA_LOG_FACT("address", node->advertise), ROTA_LOG_FACT("name", name));
}

/* The first time, or again after it was drained. */
static void join_cluster(struct rota_node *node)
{
    log_state(node, "node joining");
    for (size_t i = 0; i < node->n_roles && node->has_drained; i++)
        if (node->roles[i].role->restore)
            node->roles[i].role->restore(node->roles[i].data);
    rota_node_spaces_undrain(node->spaces);
    rota_node_naming_join(node);
}

static void announce_ready(struct rota_node *node)
{
    char line[1024];
    int n = snprintf(line, sizeof line, "ready grpc=%s", rota_server_address(node->server, 0));
    for (size_t i = 0; i < node->n_roles; i++) {
        const struct rota_role *role = node->roles[i].role;
        const char *where = role->reach ? role->reach(node->roles[i].data) : NULL;
        if (where)
            n += snprintf(line + n, sizeof line - (size_t)n, " %s", where);
    }
    snprintf(line + n, sizeof line - (size_t)n, " http=%s", rota_http_address(node->http));
    rota_health_set(node->health, "", true, NULL);
    log_state(node, "node serving");
    rota_node_note(node, ROTA_EVENT_NODE, rota_str(node->advertise), "%s",
                   node->was_killed && !node->has_served
                       ? "is serving again: its previous process ended without leaving"
                       : "is serving");
    if (!node->has_served)
        node->options.on_ready(node->options.data, line);
    node->has_served = true;
}

static void drain_node(struct rota_node *node)
{
    struct rota_error error;
    log_state(node, "node draining");
    rota_node_note(node, ROTA_EVENT_NODE, rota_str(node->advertise), "is draining");
    rota_health_set(node->health, "", false, NULL);
    node->has_drained = true;
    for (size_t i = 0; i < node->n_roles; i++)
        node->roles[i].role->drain(node->roles[i].data);
    if (rota_node_open_heartbeat(node, !node->is_drained_by_operator, &error))
        rota_log(node->log, rota_clock_wall(), ROTA_LOG_WARN,
                 "node cannot announce that it is leaving", ROTA_LOG_FACT("error", error.text));
    rota_node_spaces_drain(node->spaces);
}

static void on_left(void *data, const struct rota_store_answer *answer)
{
    (void)answer; /* whatever the answer: without heartbeats it is removed in a while anyway */
    rota_node_step(data, ROTA_NODE_LEFT);
}

/* A node that an operator has drained stays listed, so that it is drained when it returns. */
static void leave_cluster(struct rota_node *node)
{
    struct rota_store_request request = {.verb = ROTA_STORE_MEMBER_REMOVE,
                                         .member = {.address = rota_str(node->advertise)}};
    node->has_left = true;
    log_state(node, "node leaving");
    rota_heartbeat_close(node->heartbeat);
    node->heartbeat = NULL;
    if (node->is_drained_by_operator || rota_store_ask(node->store, &request, on_left, node, NULL))
        rota_node_step(node, ROTA_NODE_LEFT);
}

static void on_timer_closed(uv_handle_t *handle)
{
    struct rota_node *node = handle->data;
    struct rota_node_options options = node->options;
    bool has_failed = node->fsm.has_failed;
    log_state(node, "node ended");
    free(node->advertise);
    free(node);
    options.on_ended(options.data, has_failed);
}

static void close_timer(struct rota_node *node)
{
    uv_close((uv_handle_t *)&node->timer, on_timer_closed);
}

static void on_spaces_closed(void *data)
{
    struct rota_node *node = data;
    rota_node_open_close_parts(node);
    rota_node_step(node, ROTA_NODE_CLOSED);
}

static void close_node(struct rota_node *node)
{
    struct rota_node_spaces *spaces = node->spaces;
    node->spaces = NULL;
    rota_node_spaces_close(spaces, on_spaces_closed, node);
}

/* --- time --- */

/* Calls that only read, or watch a space, don't hold it up: they go elsewhere when it closes. */
static bool is_idle(const struct rota_node *node)
{
    size_t n_followers = node->n_reading + rota_space_directory_n_watchers(node->space_directory);
    for (size_t i = 0; i < node->n_roles; i++)
        if (!node->roles[i].role->is_idle(node->roles[i].data))
            return false;
    return rota_node_spaces_is_idle(node->spaces) &&
           rota_server_counts(node->server).calls <= n_followers;
}

static bool is_draining(const struct rota_node *node)
{
    return node->fsm.state == ROTA_NODE_DRAINING || node->fsm.state == ROTA_NODE_STOPPING;
}

static void on_timer(uv_timer_t *timer)
{
    struct rota_node *node = timer->data;
    if (node->is_failing)
        rota_node_step(node, ROTA_NODE_FAILED);
    else if (is_draining(node) && is_idle(node))
        rota_node_step(node, ROTA_NODE_IDLE);
    else
        rota_node_step(node, ROTA_NODE_TICK);
}

static void set_timer(struct rota_node *node)
{
    rota_time now = rota_clock_boot();
    rota_time at = rota_node_fsm_deadline(&node->fsm);
    if (is_draining(node))
        at = rota_time_min(at, now + LOOK_EVERY);
    if (node->is_failing)
        at = now;
    rota_timer_set(&node->timer, on_timer, now, at);
}

void rota_node_step(struct rota_node *node, enum rota_node_event event)
{
    static void (*const ACTIONS[])(struct rota_node * node) = {
        join_cluster, announce_ready, drain_node, leave_cluster, close_node, close_timer};
    enum rota_node_state before = node->fsm.state;
    unsigned actions = rota_node_fsm_step(&node->fsm, rota_clock_boot(), event);
    if (node->fsm.state == ROTA_NODE_DRAINED && before != ROTA_NODE_DRAINED)
        rota_node_note(node, ROTA_EVENT_NODE, rota_str(node->advertise), "is drained");
    if (node->fsm.state < ROTA_NODE_CLOSING)
        set_timer(node);
    for (size_t i = 0; i < sizeof ACTIONS / sizeof ACTIONS[0]; i++)
        if (actions & 1u << i)
            ACTIONS[i](node);
}

void rota_node_fail(struct rota_node *node)
{
    node->is_failing = true;
    if (node->fsm.state < ROTA_NODE_CLOSING)
        set_timer(node);
}

void rota_node_stop(struct rota_node *node)
{
    rota_node_step(node, ROTA_NODE_STOP);
}

/* --- reloading settings --- */

/* `*is_told` becomes true if something changes that other nodes know about this one. */
static enum rota_code adopt_settings(struct rota_node *node, const struct rota_settings *fresh,
                                     bool *is_told, struct rota_error *error)
{
    struct rota_settings *own = node->options.settings;
    for (size_t i = 0; i < rota_node_n_options; i++) {
        const char *name = rota_node_options[i].name;
        if (rota_settings_is_same(own, fresh, i))
            continue;
        if (!rota_node_settings_is_live(i)) {
            rota_log(node->log, rota_clock_wall(), ROTA_LOG_WARN, "setting needs a restart",
                     ROTA_LOG_FACT("setting", name));
            continue;
        }
        enum rota_code code = rota_settings_adopt(own, fresh, i, error);
        if (code)
            return code;
        *is_told |= strcmp(name, "zone") == 0 || strcmp(name, "weight") == 0;
        rota_log(node->log, rota_clock_wall(), ROTA_LOG_INFO, "setting changed",
                 ROTA_LOG_FACT("setting", name));
        rota_node_note(node, ROTA_EVENT_SETTING, rota_str(name), "has a new value");
    }
    if (!rota_settings_has_same_sections(own, fresh))
        rota_log(node->log, rota_clock_wall(), ROTA_LOG_WARN, "setting needs a restart",
                 ROTA_LOG_FACT("setting", "sections"));
    return ROTA_OK;
}

enum rota_code rota_node_reload(struct rota_node *node, const struct rota_settings *fresh,
                                struct rota_error *error)
{
    bool is_told = false;
    struct rota_tls *const certificates[] = {node->tls, node->self_tls, node->peers_tls};
    enum rota_code code = ROTA_OK;
    for (size_t i = 0; i < 3 && !code; i++)
        code = certificates[i] ? rota_tls_reload(certificates[i], error) : ROTA_OK;
    if (code)
        return code;
    code = adopt_settings(node, fresh, &is_told, error);
    is_told |= node->weight > 0;
    node->weight = 0; /* the settings count again */
    node->fsm.drain_limit = node->settings->drain_limit;
    rota_node_open_note_names(node);
    if (!code && is_told && node->heartbeat)
        code = rota_node_open_heartbeat(node, false, error);
    if (!code)
        rota_node_note(node, ROTA_EVENT_SETTING, rota_str(node->advertise),
                       "has reloaded its settings");
    return code;
}

void rota_node_note_unread(struct rota_node *node, const struct rota_error *why)
{
    rota_node_note(node, ROTA_EVENT_SETTING, rota_str(node->advertise),
                   "could not reload its settings: %s", why->text);
}

enum rota_node_state rota_node_state(const struct rota_node *node)
{
    return node->fsm.state;
}

enum rota_code rota_node_open(uv_loop_t *loop, const struct rota_node_options *options,
                              struct rota_node **node, struct rota_error *error)
{
    struct rota_node *made = calloc(1, sizeof *made);
    if (!made)
        return rota_error_no_memory(error, "for a node");
    made->loop = loop;
    made->options = *options;
    made->settings = options->settings->values;
    made->log = options->log;
    made->lock_fd = made->local_token_fd = -1;
    rota_list_init(&made->gone);
    rota_list_init(&made->changes);
    rota_list_init(&made->plans);
    rota_list_init(&made->plannings);
    rota_list_init(&made->asks);
    rota_list_init(&made->calls);
    made->started_at = rota_clock_wall();
    made->events.base = (uint64_t)(made->started_at / ROTA_MSEC) * EVENTS_PER_MS;
    rota_node_fsm_init(&made->fsm, made->settings->drain_limit);
    enum rota_code code = rota_node_open_parts(made, error);
    if (code) {
        rota_node_open_close_parts(made);
        uv_run(loop, UV_RUN_DEFAULT);
        free(made->advertise);
        free(made);
        return code;
    }
    uv_timer_init(loop, &made->timer);
    made->timer.data = made;
    *node = made;
    rota_node_step(made, ROTA_NODE_OPENED);
    return ROTA_OK;
}
