/* Dynamic configuration: how many partitions a queue has, and how they spread.
 *
 * A configuration is read from a text and never changes; a new text makes a
 * new one, and a text with a mistake makes none, so that what is in force stays
 * in force. Every setting has a default, a value for the whole file perhaps,
 * and overrides for those queues that an override's scope matches; the most
 * specific one wins, setting by setting:
 *
 *     queue + namespace + type, queue + namespace, queue + type, queue,
 *     namespace + type, namespace, type, the whole file, the default
 *
 * Invariant: whatever queue is asked about, it has at least as many read as
 * write partitions, so that no job lies where nobody looks. */
#pragma once

#include <rota/error.h>
#include <rota/gradual.h>
#include <rota/partition.h>
#include <rota/route.h>
#include <rota/str.h>
#include <rota/time.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { ROTA_CONFIG_OVERRIDES_MAX = 4096 };

/* --- settings --- */

enum rota_setting {
    ROTA_SETTING_WRITE_PARTITIONS,
    ROTA_SETTING_READ_PARTITIONS,
    ROTA_SETTING_SPREAD_BATCH,
    ROTA_SETTING_SPREAD_MODE,
    ROTA_SETTING_TREE_DEGREE,
    ROTA_SETTING_RING_POINTS,
    ROTA_SETTING_ALIGN,
};

enum { ROTA_SETTINGS = ROTA_SETTING_ALIGN + 1 }; /* how many there are */

enum rota_setting_type {
    ROTA_SETTING_INTEGER,
    ROTA_SETTING_CHOICE, /* the value is an index into `choices` */
    ROTA_SETTING_SPAN,   /* the value is a rota_time */
};

struct rota_setting_info {
    const char *name; /* "matching.numTaskqueueWritePartitions" */
    enum rota_setting_type type;
    bool is_gradual;   /* may go from old to new key by key */
    bool is_file_wide; /* may not be overridden */
    int64_t fallback, min, max;
    const char *const *choices; /* max + 1 names, of a choice */
    const char *help;
};

/* The description of a setting, constant. */
const struct rota_setting_info *rota_setting_info(enum rota_setting setting);

/* Room for any value as text, with its final NUL. */
enum { ROTA_SETTING_TEXT_MAX = 256 };

/* Write a value the way a configuration has it: `8`, `"slots"`, `"10s"`, or
 * `{ old = 0, new = 8, start = ..., end = ... }`. Returns `text`. */
char *rota_setting_format(enum rota_setting setting, const struct rota_gradual *value,
                          char text[ROTA_SETTING_TEXT_MAX]);

/* --- a configuration --- */

struct rota_config;

/* Read a configuration; docs/configuration.md has the format. `file` is its
 * name in messages, which begin with "FILE:LINE: ". An empty text is one with
 * all the defaults. Gives `*config`; rota_config_unref() ends it. Any thread. */
enum rota_code rota_config_parse(struct rota_str text, const char *file,
                                 struct rota_config **config, struct rota_error *error);

/* Share a configuration, and end a share; the last one frees it. NULL may be
 * unref'd. Any thread. */
struct rota_config *rota_config_ref(struct rota_config *config);
void rota_config_unref(struct rota_config *config);

/* What holds for all: points per host of the ring, and the span that joins and
 * leaves are aligned to (0: not at all). Any thread. */
uint32_t rota_config_ring_points(const struct rota_config *config);
rota_time rota_config_align(const struct rota_config *config);

/* What holds for one queue. */
struct rota_queue_config {
    int64_t write, read;       /* partitions; 1 <= write <= read */
    struct rota_gradual batch; /* of spread routing */
    struct rota_gradual mode;  /* enum rota_spread_mode */
    int64_t degree;            /* children of a partition in the forwarding tree */
};

/* The settings of a queue. Allocates nothing. Any thread. */
struct rota_queue_config rota_config_queue(const struct rota_config *config,
                                           struct rota_str namespace_id, struct rota_str queue,
                                           enum rota_task_type type);

/* How a partition is routed at `now` (wall clock). `gradual_key` is its basic
 * routing key, that under batch 0. */
struct rota_spread rota_queue_config_spread(const struct rota_queue_config *queue,
                                            struct rota_str gradual_key, rota_time now);

/* Which queues an override is for: those that have all it names. */
struct rota_config_scope {
    struct rota_str namespace_id, queue;
    enum rota_task_type type;
    bool has_namespace, has_queue, has_type; /* none: the whole file */
};

/* A value and where it comes from. */
struct rota_config_origin {
    struct rota_gradual value;
    uint32_t line;                  /* 0: it is the default */
    struct rota_config_scope scope; /* of the override; lives as long as the config */
};

/* For each setting, by its number, what a queue has and why. Any thread. */
void rota_config_explain(const struct rota_config *config, struct rota_str namespace_id,
                         struct rota_str queue, enum rota_task_type type,
                         struct rota_config_origin origins[ROTA_SETTINGS]);

#ifdef __cplusplus
}
#endif
