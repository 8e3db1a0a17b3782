/* queue_plan: what commands that change jobs and queues would do, for their --dry-run.
 *
 * They only read from the node, and append the sentences of dry_run.h to `buffer`. If the change
 * would reject a job or a queue, that is an error. */
#pragma once

#include "cli/work/queue_view.h"

enum rota_queue_plan { ROTA_QUEUE_PLAN_CANCEL, ROTA_QUEUE_PLAN_RETRY, ROTA_QUEUE_PLAN_PRIORITY };

/* For a job that was already described: no call is made. */
enum rota_code rota_queue_plan_job(enum rota_queue_plan plan, const struct rota_queue_result *now,
                                   int64_t priority, bool is_json, struct rota_buffer *buffer,
                                   struct rota_error *error);

/* `n_jobs` jobs like `spec`, which has the payload of the first. */
enum rota_code rota_queue_plan_add(struct rota_client *client, const struct rota_queue_job *spec,
                                   size_t n_jobs, struct rota_buffer *buffer,
                                   struct rota_error *error);

enum rota_code rota_queue_plan_pause(struct rota_client *client, struct rota_str queue,
                                     bool is_paused, struct rota_buffer *buffer,
                                     struct rota_error *error);
enum rota_code rota_queue_plan_quarantine(struct rota_client *client, struct rota_str queue,
                                          uint64_t deaths, struct rota_buffer *buffer,
                                          struct rota_error *error);
/* `n_ended` ended jobs are deleted with it. */
enum rota_code rota_queue_plan_delete(struct rota_client *client, struct rota_str queue,
                                      uint64_t n_ended, struct rota_buffer *buffer,
                                      struct rota_error *error);
enum rota_code rota_queue_plan_weight(struct rota_client *client, struct rota_str queue,
                                      struct rota_str key, uint64_t percent,
                                      struct rota_buffer *buffer, struct rota_error *error);
