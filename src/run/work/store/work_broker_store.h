/* broker_store: jobs as rows that the nodes of a cluster share; what the rest of a broker asks of
 * it. No-ops without a store, except `open`. */
#pragma once

#include "run/work/broker/work_broker_front.h"

#include <uv.h>

struct rota_broker_store;
struct rota_store;

enum rota_code rota_work_broker_store_open(struct rota_work_broker *broker, uv_loop_t *loop,
                                           const char *url, struct rota_error *error);

/* Its store, which is also that of the settings of queues; NULL without one. */
struct rota_store *rota_work_broker_store_handle(const struct rota_work_broker *broker);

/* Whether one of these records belongs to a partition that was lost: it was not written. */
bool rota_work_broker_store_turn_is_void(const struct rota_work_broker *broker, uint64_t first,
                                         uint64_t last);

/* Whether all changes of a job are in the store or, without one, all records are on disk. */
bool rota_work_broker_store_turn_is_written(const struct rota_work_broker *broker,
                                            struct rota_str queue, struct rota_job_id id);

/* The reason is logged but not sent to callers, since it names the server, the user and the
 * database. */
#define ROTA_BROKER_STORE_AWAY "the store is unreachable; see the log of this node"

/* Which partitions this node has; NULL without a store. */
struct rota_partition_fsm *rota_work_broker_store_gate_partitions(
    const struct rota_work_broker *broker);

/* Whether all our partitions are loaded, as far as is known. */
bool rota_work_broker_store_gate_is_loaded(const struct rota_work_broker *broker);

/* Keep a request until its partitions are loaded, or reject it. Takes its call. */
void rota_work_broker_store_gate_park(struct rota_broker_request *request);

/* ROTA_ERR_INVALID when a payload or a result is too large for the database. */
enum rota_code rota_work_broker_store_gate_check_size(const struct rota_work_broker *broker,
                                                      struct rota_str bytes, const char *what,
                                                      struct rota_error *error);

/* A queue was deleted: delete its partitions, and its rows in the store. */
void rota_work_broker_store_parts_delete(struct rota_work_broker *broker, struct rota_str queue);
