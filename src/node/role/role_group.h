/* The role "group": observes groups of tasks.
 *
 * Each section [[group]] names a group and its log. The node reads the log as a task would, but
 * never joins and never writes, so it can show which task owns which partition, and how
 * partitions descended from each other over time. A group that does not exist yet is retried. */
#pragma once

#include "base/map.h"
#include "base/vector.h"

#include <rota/group.h>
#include <uv.h>

struct rota_node;

enum {
    ROTA_WATCHED_ENDED_MAX = 2000,       /* finished partitions that are remembered, of a group */
    ROTA_WATCHED_PARTITIONS_MAX = 20000, /* of a group; more are not shown */
};

/* A partition as last reported. */
struct rota_watched_partition {
    char *name, *owner, *position;
    char *parents; /* one after the other, each with its NUL */
    size_t n_parents;
    const char *state; /* "waiting", "running", "finished", "removed" */
    uint64_t token;
    int64_t mark;
    rota_time started_at, ended_at; /* wall clock; 0: not yet */
};

struct rota_watched_group {
    const char *name; /* the settings' */
    struct rota_node *node;
    struct rota_group *group; /* NULL: it is opened again in a while */
    char log[4200];
    char trouble[512]; /* why it can't be read; "": it can */
    uv_timer_t timer;
    bool is_closed, is_closing;
    struct rota_map by_name;
    ROTA_VECTOR(struct rota_watched_partition *) partitions; /* in the order of arrival */
    size_t n_ended;
    uint64_t n_left_out;
};

/* Watched group number `i` of a node; NULL past the last. */
const struct rota_watched_group *rota_role_group_at(const struct rota_node *node, size_t i);
