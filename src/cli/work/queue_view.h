/* queue_view: queues and jobs as the commands show them, and the nodes that an answer is without.
 */
#pragma once

#include "cli/client.h"
#include "wire/message/queue_message.h"

/* --- nodes that are missing --- */

/* Remember the nodes that a reply, a list or a sum, is without; they are reported once. The second
 * reads them from the last reply of the client, and returns how many there are. */
void rota_queue_view_note_missing(struct rota_client *client, const struct rota_str *nodes,
                                  const struct rota_str *why, size_t n);
size_t rota_queue_view_read_missing(struct rota_client *client);

/* Afterwards: the same as a member "missing" of an object; and, with --json, as a line of its own
 * if there are any. */
void rota_queue_view_add_missing(const struct rota_client *client, struct rota_json *json);
void rota_queue_view_append_missing(const struct rota_client *client, struct rota_buffer *buffer);

/* --- queues --- */

/* The queue as all nodes together have it. ROTA_ERR_UNAVAILABLE when nobody knows it. The second:
 * a page of all queues, if it names none. */
enum rota_code rota_queue_view_look(struct rota_client *client, struct rota_str queue,
                                    struct rota_queue_list *reply, struct rota_error *error);
enum rota_code rota_queue_view_queues(struct rota_client *client,
                                      const struct rota_queue_page *page,
                                      struct rota_queue_list *reply, struct rota_error *error);

/* Nothing of a queue was found: whether that is because nobody knows it. */
enum rota_code rota_queue_view_check(struct rota_client *client, struct rota_str queue,
                                     struct rota_error *error);

/* Append "change", a gradual change of batch and mode; null for an end of 0, which is none. */
void rota_queue_view_add_change(struct rota_json *json, uint64_t from_batch, bool from_slots,
                                uint64_t start_ms, uint64_t end_ms);

/* --- jobs --- */

/* Whether a name has the form QUEUE/ID. */
enum rota_code rota_queue_view_check_job(const char *name, struct rota_error *error);

const char *rota_queue_view_state(enum rota_queue_state state);

/* Append a job with its details, as a line of JSON. */
void rota_queue_view_append_job(struct rota_buffer *buffer, const struct rota_queue_result *result);

/* The same of all jobs in a state, `max` at most. An error if nobody knows the queue. */
enum rota_code rota_queue_view_append_jobs(struct rota_client *client, struct rota_str name,
                                           enum rota_queue_state state, uint64_t max,
                                           struct rota_buffer *buffer, struct rota_error *error);
