/* A watched queue: the partitions of a live queue and their routing, kept up to date.
 *
 * rota_config_queue() returns the target. This header returns what is in force, which is always
 * safe: partitions are added at once and removed only when they are known to be empty, see
 * <rota/experimental/counts.h>; a gradual change is in force as far as it has progressed. A program
 * that owns, reads or writes partitions of a queue uses this header and is notified of every
 * change: an old owner releases, a new one takes over. */
#pragma once

#include <rota/experimental/config_watch.h>

#ifdef __cplusplus
extern "C" {
#endif

struct rota_queue_watch;

struct rota_queue_watch_options {
    struct rota_str namespace_id, queue; /* copied */
    enum rota_task_type type;
    const struct rota_log *log; /* kept; NULL: none */

    /* The counts in force have changed. May be NULL, like all callbacks below. */
    void (*on_counts)(void *data, int64_t write, int64_t read);

    /* The routing of `partition` has changed. Called exactly once for every change, whatever the
     * clock does, and only for partitions that are read. */
    void (*on_flip)(void *data, int64_t partition, struct rota_spread old_spread,
                    struct rota_spread new_spread);

    /* A new configuration could not be applied; the old one stays in force. */
    void (*on_error)(void *data, const struct rota_error *error);
    void *data; /* kept */

    void *reserved[4]; /* must be zero; room for future options */
};

/* Watches a queue in the configuration of `config` on `loop`; both are kept, and `config` must be
 * closed after all its queues. A queue counts as a subscriber of `config`. The initial state is not
 * reported. Gives `*watch`; close it with rota_queue_watch_close(). */
enum rota_code rota_queue_watch_open(struct uv_loop_s *loop, struct rota_config_watch *config,
                                     const struct rota_queue_watch_options *options,
                                     struct rota_queue_watch **watch, struct rota_error *error);

/* Takes `watch`, which may be NULL. No callback is called afterwards; a callback may call this. */
void rota_queue_watch_close(struct rota_queue_watch *watch);

/* The queue's settings, with the counts in force. */
struct rota_queue_config rota_queue_watch_config(const struct rota_queue_watch *watch);

/* The routing of a partition that is read, as last reported: 0 <= `partition` <
 * rota_queue_watch_config().read. */
struct rota_spread rota_queue_watch_spread(const struct rota_queue_watch *watch, int64_t partition);

/* Reports whether a partition was empty at a time when all writers knew the write count in force.
 * Any number is allowed. */
void rota_queue_watch_report_empty(struct rota_queue_watch *watch, int64_t partition,
                                   bool is_empty);

/* The partition whose report the next step down waits for; -1: none. */
int64_t rota_queue_watch_waits_for(const struct rota_queue_watch *watch);

#ifdef __cplusplus
}
#endif
