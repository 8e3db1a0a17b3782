/* queue_view: queues and jobs as commands show them, and the nodes missing from an answer. */
#pragma once

#include "cli/client.h"
#include "wire/message/queue_message.h"

/* --- nodes that are missing --- */

/* Remember the nodes missing from the client's last reply (a list or a sum), and report them once.
 * Returns how many there are. */
size_t rota_queue_view_read_missing(struct rota_client *client);

/* Afterwards: add them as the member "missing" of an object; and, with --json, as a line of its own
 * if there are any. */
void rota_queue_view_add_missing(const struct rota_client *client, struct rota_json *json);
void rota_queue_view_append_missing(const struct rota_client *client, struct rota_buffer *buffer);

/* --- queues --- */

/* Get the queue, summed over all nodes. ROTA_ERR_UNAVAILABLE if no node knows it. The second: a
 * page of all queues, if none is named. */
enum rota_code rota_queue_view_look(struct rota_client *client, struct rota_str queue,
                                    struct rota_queue_list *reply, struct rota_error *error);
enum rota_code rota_queue_view_queues(struct rota_client *client,
                                      const struct rota_queue_page *page,
                                      struct rota_queue_list *reply, struct rota_error *error);

/* Append "change", a gradual change of batch and mode; null if the end is 0. */
void rota_queue_view_add_change(struct rota_json *json, uint64_t from_batch, bool from_slots,
                                uint64_t start_ms, uint64_t end_ms);

/* --- jobs --- */

/* Whether a name has the form QUEUE/ID. */
enum rota_code rota_queue_view_check_job(const char *name, struct rota_error *error);

const char *rota_queue_view_state(enum rota_queue_state state);

/* Append a job with its details, as a line of JSON. */
void rota_queue_view_append_job(struct rota_buffer *buffer, const struct rota_queue_result *result);

/* The same for all jobs in a state, at most `max`. Fails if no node knows the queue. */
enum rota_code rota_queue_view_append_jobs(struct rota_client *client, struct rota_str name,
                                           enum rota_queue_state state, uint64_t max,
                                           struct rota_buffer *buffer, struct rota_error *error);
