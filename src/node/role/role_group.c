#include "node/role/role_group.h"

#include "base/arena.h"
#include "node/node_inside.h"
#include "wire/message/nodes_message.h"

#include <stdio.h>
#include <stdlib.h>

#define AGAIN_AFTER (2 * ROTA_SEC) /* a group that could not be read */

enum { POSITION_SHOWN_MAX = 200 };

struct group_role {
    size_t n_groups;
    struct rota_watched_group *groups[]; /* each frees itself when its log is closed */
};

/* --- partitions --- */

static void partition_free(struct rota_watched_partition *partition)
{
    free(partition->name);
    free(partition->owner);
    free(partition->position);
    free(partition->parents);
    free(partition);
}

static char *copy_str(struct rota_str text, size_t max)
{
    return strndup(text.data ? text.data : "", text.size < max ? text.size : max);
}

static char *copy_parents(const struct rota_group_partition_status *status)
{
    size_t size = 1, at = 0;
    for (size_t i = 0; i < status->n_parents; i++)
        size += status->parents[i].size + 1;
    char *text = calloc(1, size);
    for (size_t i = 0; text && i < status->n_parents; i++) {
        memcpy(text + at, status->parents[i].data, status->parents[i].size);
        at += status->parents[i].size + 1;
    }
    return text;
}

/* The one that ended longest ago makes room: the first in the order of arrival. */
static void forget_one(struct rota_watched_group *watched)
{
    size_t i = 0;
    while (i < watched->partitions.size && !watched->partitions.items[i]->ended_at)
        i++;
    if (i == watched->partitions.size)
        return;
    struct rota_watched_partition *partition = watched->partitions.items[i];
    rota_map_remove(&watched->by_name, rota_str(partition->name));
    memmove(&watched->partitions.items[i], &watched->partitions.items[i + 1],
            (watched->partitions.size - i - 1) * sizeof watched->partitions.items[0]);
    watched->partitions.size--;
    watched->n_ended--;
    partition_free(partition);
}

static struct rota_watched_partition *add_partition(
    struct rota_watched_group *watched, const struct rota_group_partition_status *status)
{
    if (watched->partitions.size >= ROTA_WATCHED_PARTITIONS_MAX) {
        watched->n_left_out++;
        return NULL;
    }
    struct rota_watched_partition *partition = calloc(1, sizeof *partition);
    if (!partition)
        return NULL;
    partition->name = copy_str(status->partition, SIZE_MAX);
    partition->parents = copy_parents(status);
    partition->n_parents = partition->parents ? status->n_parents : 0;
    if (!partition->name || !rota_vector_push(&watched->partitions, partition)) {
        partition_free(partition);
        return NULL;
    }
    if (!rota_map_put(&watched->by_name, rota_str(partition->name), partition)) {
        watched->partitions.size--;
        partition_free(partition);
        return NULL;
    }
    return partition;
}

static const char *state_of(const char *life)
{
    static const char *const SAME[] = {"running", "finished", "removed"};
    for (size_t i = 0; i < sizeof SAME / sizeof SAME[0]; i++)
        if (strcmp(life, SAME[i]) == 0)
            return SAME[i];
    return "waiting"; /* for its parents, or to be taken */
}

static void set_text(char **text, struct rota_str value, size_t max)
{
    if (*text && rota_str_is_equal(rota_str(*text), value))
        return;
    char *copy = copy_str(value, max);
    if (!copy)
        return;
    free(*text);
    *text = copy;
}

static void keep_numbers(struct rota_watched_partition *partition,
                         const struct rota_group_partition_status *status)
{
    set_text(&partition->owner, status->owner, SIZE_MAX);
    set_text(&partition->position, status->position, POSITION_SHOWN_MAX);
    partition->token = status->token;
    partition->mark = status->mark;
}

/* A task may request a partition while its parents are about to end, so that the record which
 * starts it was made before the one that ended them, and comes after it: it did not run before. */
static rota_time not_before_parents(const struct rota_watched_group *watched,
                                    const struct rota_watched_partition *partition, rota_time at)
{
    const char *name = partition->parents;
    for (size_t i = 0; i < partition->n_parents; i++, name += strlen(name) + 1) {
        const struct rota_watched_partition *parent =
            rota_map_get(&watched->by_name, rota_str(name));
        if (parent && parent->ended_at > at)
            at = parent->ended_at;
    }
    return at;
}

/* It has started when it first runs, and ended when it is finished. */
static void note_partition(struct rota_watched_group *watched,
                           const struct rota_group_partition_status *status, rota_time at)
{
    struct rota_watched_partition *partition = rota_map_get(&watched->by_name, status->partition);
    const char *state = state_of(status->life);
    bool has_ended = state[0] == 'f' || strcmp(state, "removed") == 0;
    if (!partition && strcmp(state, "removed") == 0)
        return; /* it is no longer kept */
    if (!partition && !(partition = add_partition(watched, status)))
        return;
    partition->state = state;
    if (strcmp(state, "removed") != 0)
        keep_numbers(partition, status);
    if (!partition->started_at && strcmp(state, "waiting") != 0)
        partition->started_at = not_before_parents(watched, partition, at);
    if (!partition->ended_at && has_ended) {
        partition->ended_at = at;
        if (++watched->n_ended > ROTA_WATCHED_ENDED_MAX)
            forget_one(watched);
    }
}

static void on_partition(void *data, const struct rota_group_partition_status *status, rota_time at)
{
    note_partition(data, status, at);
}

/* Everything found at the same time; else a child might seem to start before its parent ended. */
struct found {
    struct rota_watched_group *watched;
    rota_time at;
};

static bool note_each(void *data, const struct rota_group_partition_status *status)
{
    const struct found *found = data;
    note_partition(found->watched, status, found->at);
    return true;
}

/* --- the group --- */

static void on_news(void *data, const struct rota_group_news *news)
{
    struct rota_watched_group *watched = data;
    if (news->type == ROTA_GROUP_NEWS_READY) {
        watched->trouble[0] = '\0';
        struct found found = {watched, rota_clock_wall()};
        rota_group_each_partition(watched->group, note_each, &found);
    } else if (news->type == ROTA_GROUP_NEWS_EPOCH) {
        rota_node_note(watched->node, ROTA_EVENT_NODE, rota_str(watched->name),
                       "is in epoch %llu with %zu tasks", (unsigned long long)news->epoch,
                       news->n_tasks);
    }
}

static void on_timer_closed(uv_handle_t *handle)
{
    struct rota_watched_group *watched = handle->data;
    for (size_t i = 0; i < watched->partitions.size; i++)
        partition_free(watched->partitions.items[i]);
    rota_vector_deinit(&watched->partitions);
    rota_map_deinit(&watched->by_name);
    free(watched);
}

static void on_again(uv_timer_t *timer);

static void on_closed(void *data)
{
    struct rota_watched_group *watched = data;
    watched->is_closing = false;
    watched->group = NULL;
    if (watched->is_closed)
        uv_close((uv_handle_t *)&watched->timer, on_timer_closed);
    else
        uv_timer_start(&watched->timer, on_again, AGAIN_AFTER / ROTA_MSEC, 0);
}

static void close_group(struct rota_watched_group *watched)
{
    if (watched->is_closing || !watched->group)
        return;
    watched->is_closing = true;
    rota_group_close(watched->group, on_closed, watched);
}

/* It is retried, and fails with the same text each time: one line is enough. */
static void report_trouble(struct rota_watched_group *watched, const struct rota_error *error)
{
    char text[sizeof watched->trouble];
    snprintf(text, sizeof text, "%s", error->text);
    if (strcmp(text, watched->trouble) == 0)
        return;
    memcpy(watched->trouble, text, sizeof text);
    rota_log(watched->node->log, rota_clock_wall(),
             error->code == ROTA_ERR_NOT_FOUND ? ROTA_LOG_INFO : ROTA_LOG_WARN,
             "group cannot be read", ROTA_LOG_FACT("group", watched->name),
             ROTA_LOG_FACT("error", error->text));
}

/* It does not exist yet, or was lost: shown to people, and retried. */
static void on_failed(void *data, const struct rota_error *error)
{
    struct rota_watched_group *watched = data;
    report_trouble(watched, error);
    close_group(watched);
}

static void open_group(struct rota_watched_group *watched)
{
    struct rota_error error;
    const struct rota_group_options options = {.log_url = watched->log,
                                               .name = watched->name,
                                               .on_news = on_news,
                                               .on_partition = on_partition,
                                               .on_failed = on_failed,
                                               .data = watched};
    if (rota_group_open(watched->node->loop, &options, &watched->group, &error)) {
        report_trouble(watched, &error);
        uv_timer_start(&watched->timer, on_again, AGAIN_AFTER / ROTA_MSEC, 0);
    }
}

static void on_again(uv_timer_t *timer)
{
    open_group(timer->data);
}

/* --- life --- */

/* The default log of a group: the store, if it can hold one, since all nodes read that; else in
 * the node's data directory. */
static enum rota_code choose_log(struct rota_watched_group *watched, const char *log,
                                 struct rota_error *error)
{
    const struct rota_node_settings *settings = watched->node->settings;
    const char *store = settings->store ? settings->store : "";
    const char *slash = strrchr(store, '/');
    size_t size = sizeof watched->log;
    if (log)
        snprintf(watched->log, size, "%s", log);
    else if (!settings->store)
        snprintf(watched->log, size, "sqlite:%s/groups.db", settings->data);
    else if (strncmp(store, "postgres", 8) == 0)
        snprintf(watched->log, size, "%s", store);
    else if (strncmp(store, "sqlite:", 7) == 0)
        snprintf(watched->log, size, "%.*sgroups.db", slash ? (int)(slash + 1 - store) : 7, store);
    else
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "[[group]] %.100s needs its own log: this store cannot hold one",
                              watched->name);
    return ROTA_OK;
}

static enum rota_code open_watched(struct rota_node *node, const struct rota_node_group *settings,
                                   struct rota_watched_group **result, struct rota_error *error)
{
    struct rota_watched_group *watched = calloc(1, sizeof *watched);
    if (!watched)
        return rota_error_no_memory(error, "for a group");
    watched->name = settings->name;
    watched->node = node;
    enum rota_code code = choose_log(watched, settings->log, error);
    if (code) {
        free(watched);
        return code;
    }
    rota_map_init(&watched->by_name, 0);
    uv_timer_init(node->loop, &watched->timer);
    watched->timer.data = watched;
    open_group(watched);
    *result = watched;
    return ROTA_OK;
}

static void close_watched(struct rota_watched_group *watched)
{
    watched->is_closed = true;
    uv_timer_stop(&watched->timer);
    if (watched->group)
        close_group(watched);
    else
        uv_close((uv_handle_t *)&watched->timer, on_timer_closed);
}

static void close_role(void *data)
{
    struct group_role *role = data;
    for (size_t i = 0; i < role->n_groups; i++)
        close_watched(role->groups[i]);
    free(role);
}

static enum rota_code open_role(struct rota_node *node, void **role_data, struct rota_error *error)
{
    const struct rota_settings *all = node->options.settings;
    enum rota_code code = ROTA_OK;
    struct group_role *role = calloc(1, sizeof *role + all->n_sections * sizeof role->groups[0]);
    if (!role)
        return rota_error_no_memory(error, "for groups");
    for (size_t i = 0; !code && i < all->n_sections; i++) {
        if (strcmp(all->sections[i].kind->name, "group") != 0)
            continue;
        code = open_watched(node, all->sections[i].values, &role->groups[role->n_groups], error);
        role->n_groups += code == ROTA_OK;
    }
    if (code) {
        close_role(role);
        return code;
    }
    *role_data = role;
    return ROTA_OK;
}

static void drain_groups(void *data)
{
    (void)data; /* an observer has nothing to hand over */
}

static bool is_idle(const void *data)
{
    (void)data;
    return true;
}

static void report_groups(const void *data, struct rota_arena *arena,
                          struct rota_nodes_report *report)
{
    struct rota_nodes_group *group = rota_arena_take(arena, sizeof *group);
    if (group)
        group->groups = ((const struct group_role *)data)->n_groups;
    report->group = group;
}

const struct rota_watched_group *rota_role_group_at(const struct rota_node *node, size_t i)
{
    for (size_t k = 0; k < node->n_roles; k++) {
        const struct group_role *role = node->roles[k].data;
        if (node->roles[k].role == &rota_role_group && i < role->n_groups)
            return role->groups[i];
    }
    return NULL;
}

const struct rota_role rota_role_group = {
    .name = "group",
    .open = open_role,
    .drain = drain_groups,
    .is_idle = is_idle,
    .close = close_role,
    .report = report_groups,
};
