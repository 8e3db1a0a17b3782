/* queue_options: the options by which commands name a queue, and their rules.
 *
 * The library accepts any bytes as a name. Users want to see the name they typed on one line, so
 * the command line rejects names that can't be shown. */
#pragma once

#include "base/option.h"
#include "cli/place/host_options.h"
#include "core/place/names.h"

#include <rota/experimental/route.h>

/* What `route` and `plan` share; the first member of their options. */
struct rota_queue_options {
    struct rota_host_options hosts;
    const char *namespace_id, *queue;
    int type; /* an index into rota_task_type_names + 1: the unspecified type is useless here */
    int64_t partitions, batch, points;
    int mode; /* enum rota_spread_mode */
    rota_time at;
};

enum rota_task_type rota_queue_options_type(const struct rota_queue_options *options);
struct rota_spread rota_queue_options_spread(const struct rota_queue_options *options);

/* Reject invalid names of queues and namespaces, as options of `command`. */
enum rota_code rota_queue_options_check(const char *command, const char *namespace_id,
                                        const char *queue, struct rota_error *error);

/* `result` begins with a struct rota_queue_options named `queue`. */
#define ROTA_QUEUE_OPTIONS(result)                                                                 \
    ROTA_HOST_OPTIONS(result, queue.hosts.file, queue.hosts.store, queue.hosts.role),              \
        {.name = "namespace",                                                                      \
         ROTA_OPTION_INTO(TEXT, result, queue.namespace_id),                                       \
         .value_name = "NS",                                                                       \
         .default_text = "default",                                                                \
         .help = "namespace of the queue, as in routing keys"},                                    \
        {.name = "type",                                                                           \
         ROTA_OPTION_INTO(CHOICE, result, queue.type),                                             \
         .value_name = "TYPE",                                                                     \
         .choices = rota_task_type_names + 1,                                                      \
         .default_text = "workflow",                                                               \
         .help = "type of the queue as in Temporal, part of the routing key"},                     \
        {.name = "partitions",                                                                     \
         ROTA_OPTION_INTO(INT, result, queue.partitions),                                          \
         .value_name = "N",                                                                        \
         .default_text = "4",                                                                      \
         .min = 1,                                                                                 \
         .max = ROTA_PARTITIONS_MAX,                                                               \
         .help = "number of partitions of the queue"},                                             \
        {.name = "batch",                                                                          \
         ROTA_OPTION_INTO(INT, result, queue.batch),                                               \
         .value_name = "N",                                                                        \
         .default_text = "0",                                                                      \
         .max = ROTA_BATCH_MAX,                                                                    \
         .help = "place partitions in batches of N, each batch on different hosts if "             \
                 "there are enough; 0: place each partition by its own key"},                      \
        {.name = "mode",                                                                           \
         ROTA_OPTION_INTO(CHOICE, result, queue.mode),                                             \
         .value_name = "MODE",                                                                     \
         .choices = rota_spread_mode_names,                                                        \
         .default_text = "lookup",                                                                 \
         .help = "how to place a batch: lookup uses the order of hosts found for one key; slots "  \
                 "moves fewer partitions when hosts change"},                                      \
        {.name = "points",                                                                         \
         ROTA_OPTION_INTO(INT, result, queue.points),                                              \
         .value_name = "N",                                                                        \
         .default_text = "100",                                                                    \
         .min = 1,                                                                                 \
         .max = ROTA_RING_POINTS_MAX,                                                              \
         .help = "number of points on the ring for a host of weight 1"},                           \
    {                                                                                              \
        .name = "at", ROTA_OPTION_INTO(TIME, result, queue.at), .value_name = "TIME",              \
        .help = "compute for this time [default: now]"                                             \
    }
