/* A watched queue: how many partitions a live queue has and how each of them is
 * routed, kept up to date.
 *
 * What rota_config_queue() returns is what is wanted. In force is what is safe:
 * more partitions at once, fewer only as they are known to be empty, see
 * <rota/counts.h>; and of a gradual change what has come so far. Whoever owns,
 * reads or writes partitions of a queue asks here, and is told of every change:
 * an old owner lets go, a new one takes over. */
#pragma once

#include <rota/config_watch.h>

#ifdef __cplusplus
extern "C" {
#endif

struct rota_queue_watch;

struct rota_queue_watch_options {
    struct rota_str namespace_id, queue; /* copied */
    enum rota_task_type type;
    const struct rota_log *log; /* kept; NULL: none */

    /* Other counts are in force. May be NULL, as all that follow. */
    void (*on_counts)(void *data, int64_t write, int64_t read);

    /* `partition` is routed otherwise from now on. Told once for every change,
     * whatever the clock does, and only of partitions that are read. */
    void (*on_flip)(void *data, int64_t partition, struct rota_spread old_spread,
                    struct rota_spread new_spread);

    /* A new configuration could not be followed; what was in force stays. */
    void (*on_error)(void *data, const struct rota_error *error);
    void *data; /* kept */
};

/* Follow the queue in the configuration of `config` on `loop`; both are kept,
 * and `config` is closed later than all queues on it. They count against its
 * subscribers. What is in force now is not told. Gives `*watch`;
 * rota_queue_watch_close() ends it. */
enum rota_code rota_queue_watch_open(struct uv_loop_s *loop, struct rota_config_watch *config,
                                     const struct rota_queue_watch_options *options,
                                     struct rota_queue_watch **watch, struct rota_error *error);

/* Takes `watch`, which may be NULL; no callback comes after, and a callback may
 * call it. */
void rota_queue_watch_close(struct rota_queue_watch *watch);

/* The queue's settings, with the counts that are in force. */
struct rota_queue_config rota_queue_watch_config(const struct rota_queue_watch *watch);

/* How a partition that is read is routed, as last told: 0 <= `partition` <
 * rota_queue_watch_config().read. */
struct rota_spread rota_queue_watch_spread(const struct rota_queue_watch *watch, int64_t partition);

/* Partition `partition` was found to hold no job, or to hold some, when all who
 * write knew the write count that is in force. Any number is allowed. */
void rota_queue_watch_report_empty(struct rota_queue_watch *watch, int64_t partition,
                                   bool is_empty);

/* The partition whose report the next lowering waits for; -1: nothing waits. */
int64_t rota_queue_watch_waits_for(const struct rota_queue_watch *watch);

#ifdef __cplusplus
}
#endif
