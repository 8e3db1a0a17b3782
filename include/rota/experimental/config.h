/* Dynamic configuration: the number of partitions of a queue, and how they are spread.
 *
 * A configuration is parsed from text and immutable; a changed text makes a new configuration, and
 * a text with an error makes none, so the one in force stays. Every setting has a default, an
 * optional value for the whole file, and overrides for the queues that match the override's scope.
 * The most specific one wins, setting by setting:
 *
 *     queue + namespace + type, queue + namespace, queue + type, queue,
 *     namespace + type, namespace, type, the whole file, the default
 *
 * Invariant: every queue has at least as many read as write partitions, so that every job is in a
 * partition that is read. */
#pragma once

#include <rota/error.h>
#include <rota/experimental/gradual.h>
#include <rota/experimental/partition.h>
#include <rota/experimental/route.h>
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

enum { ROTA_SETTINGS = ROTA_SETTING_ALIGN + 1 }; /* number of settings */

enum rota_setting_type {
    ROTA_SETTING_INTEGER,
    ROTA_SETTING_CHOICE, /* the value is an index into `choices` */
    ROTA_SETTING_SPAN,   /* the value is a rota_time */
};

struct rota_setting_info {
    const char *name; /* "matching.numTaskqueueWritePartitions" */
    enum rota_setting_type type;
    bool is_gradual;   /* may change from old to new key by key */
    bool is_file_wide; /* cannot be overridden */
    int64_t fallback, min, max;
    const char *const *choices; /* max + 1 names, for a choice */
    const char *help;
};

/* The description of a setting, constant. */
const struct rota_setting_info *rota_setting_info(enum rota_setting setting);

/* Room for any value as text, with its final NUL. */
enum { ROTA_SETTING_TEXT_MAX = 256 };

/* Writes a value in the syntax of a configuration: `8`, `"slots"`, `"10s"`, or a gradual
 * change, `{ old = 0, new = 8, start = ..., end = ... }`. Returns `text`. */
char *rota_setting_format(enum rota_setting setting, const struct rota_gradual *value,
                          char text[ROTA_SETTING_TEXT_MAX]);

/* --- a configuration --- */

struct rota_config;

/* Parses a configuration; docs/dynamic-settings.md has the format. `file` is its name in error
 * messages, which begin with "FILE:LINE: ". An empty text has all defaults. Gives `*config`;
 * release it with rota_config_unref(). Any thread. */
enum rota_code rota_config_parse(struct rota_str text, const char *file,
                                 struct rota_config **config, struct rota_error *error);

/* Add and release a reference; the last release frees the configuration. rota_config_unref()
 * accepts NULL. Any thread. */
struct rota_config *rota_config_ref(struct rota_config *config);
void rota_config_unref(struct rota_config *config);

/* Global settings: points per host of the ring, and the duration to whose multiples joins and
 * leaves are aligned (0: not aligned). Any thread. */
uint32_t rota_config_ring_points(const struct rota_config *config);
rota_time rota_config_align(const struct rota_config *config);

/* The settings of one queue. */
struct rota_queue_config {
    int64_t write, read;       /* partitions; 1 <= write <= read */
    struct rota_gradual batch; /* of spread routing */
    struct rota_gradual mode;  /* enum rota_spread_mode */
    int64_t degree;            /* children of a partition in the forwarding tree */
};

/* Returns the settings of a queue. Allocates nothing. Any thread. */
struct rota_queue_config rota_config_queue(const struct rota_config *config,
                                           struct rota_str namespace_id, struct rota_str queue,
                                           enum rota_task_type type);

/* The routing of a partition at `now` (wall clock). `gradual_key` is its basic routing key, that
 * is, its key under batch 0. */
struct rota_spread rota_queue_config_spread(const struct rota_queue_config *queue,
                                            struct rota_str gradual_key, rota_time now);

/* The scope of an override: it applies to queues that match everything it names. */
struct rota_config_scope {
    struct rota_str namespace_id, queue;
    enum rota_task_type type;
    bool has_namespace, has_queue, has_type; /* none set: the whole file */
};

/* A value and where it comes from. */
struct rota_config_origin {
    struct rota_gradual value;
    uint32_t line;                  /* 0: the default */
    struct rota_config_scope scope; /* of the override; lives as long as the configuration */
};

/* The value of each setting for a queue, indexed by setting, and where it comes from. Any
 * thread. */
void rota_config_explain(const struct rota_config *config, struct rota_str namespace_id,
                         struct rota_str queue, enum rota_task_type type,
                         struct rota_config_origin origins[ROTA_SETTINGS]);

#ifdef __cplusplus
}
#endif
