/* A partition of a queue: its name in calls, its routing key, its parent.
 *
 * A queue is divided into partitions 0, 1, 2, ...; partition 0 is the root and has the queue's own
 * name, partition p > 0 is called "/_sys/NAME/p". Names and keys are those of Temporal's matching
 * service, byte for byte. */
#pragma once

#include <rota/error.h>
#include <rota/str.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
    ROTA_QUEUE_NAME_MAX = 1000,    /* bytes of a namespace id, a queue name, a sticky name */
    ROTA_PARTITIONS_MAX = 1 << 24, /* partitions of one queue */
    ROTA_BATCH_MAX = 512,          /* partitions of one spread batch */
};

/* Room for any partition name or routing key, with its final NUL. */
enum { ROTA_ROUTE_KEY_MAX = 2 * ROTA_QUEUE_NAME_MAX + 64 };

enum rota_task_type {
    ROTA_TASK_UNSPECIFIED = 0,
    ROTA_TASK_WORKFLOW = 1,
    ROTA_TASK_ACTIVITY = 2,
    ROTA_TASK_NEXUS = 3,
};

enum rota_partition_kind {
    ROTA_PARTITION_NORMAL,
    ROTA_PARTITION_STICKY,          /* of a single worker, named `sticky_name` */
    ROTA_PARTITION_WORKER_COMMANDS, /* to all workers; nexus only */
};

struct rota_partition {
    struct rota_str namespace_id;
    struct rota_str queue; /* the base name, never with the "/_sys/" prefix */
    enum rota_task_type type;
    enum rota_partition_kind kind;
    struct rota_str sticky_name; /* only for the sticky kind */
    int64_t id;                  /* 0 is the root; always 0 unless normal */
};

/* The parts of a partition's name. `queue` points into the text. */
struct rota_partition_name {
    struct rota_str queue;
    int64_t id;
};

/* Parses a name as sent in calls. Any name without the "/_sys/" prefix is a root, even the empty
 * one. */
enum rota_code rota_partition_parse(struct rota_str text, struct rota_partition_name *name,
                                    struct rota_error *error);

/* Checks a partition that you filled in: names within limits and without the prefix, known kind and
 * type, id not negative and 0 where the kind requires it, sticky name only if sticky, worker
 * commands only for nexus. */
enum rota_code rota_partition_check(const struct rota_partition *partition,
                                    struct rota_error *error);

/* Writes the name used in calls; returns its length. The partition must be valid. */
size_t rota_partition_format(const struct rota_partition *partition, char text[ROTA_ROUTE_KEY_MAX]);

/* The parent of partition `id` > 0 in the forwarding tree of `degree` >= 1. */
enum rota_code rota_partition_parent(int64_t id, int64_t degree, int64_t *parent,
                                     struct rota_error *error);

/* A position on the ring: number `index` among the hosts of `key`. */
struct rota_route_key {
    char text[ROTA_ROUTE_KEY_MAX];
    size_t size;
    uint32_t index;
};

/* Writes the routing key under `batch` (0: every partition has its own key). The partition must be
 * valid, `batch` in [0, ROTA_BATCH_MAX]. */
void rota_partition_route_key(const struct rota_partition *partition, uint32_t batch,
                              struct rota_route_key *key);

/* "workflow", "activity", "nexus" or "unspecified", and back. */
const char *rota_task_type_name(enum rota_task_type type);
enum rota_code rota_task_type_parse(struct rota_str text, enum rota_task_type *type);

#ifdef __cplusplus
}
#endif
