/* broker_reply: answers to calls of rota.v1.Queue. All take the call. */
#pragma once

#include "core/work/cluster/front_fsm.h"
#include "wire/message/queue_message.h"

#include <rota/server.h>

struct rota_work_broker;

/* Reject a call; because of a stale attempt or, when `is_partition`, a partition that is not
 * ours. */
void rota_work_broker_reply_error(struct rota_server_call *call, const struct rota_error *error,
                                  bool is_partition);

/* ... an add, of this job or NULL: with the number of partitions for new jobs, and the owner of
 * the job's partition. `is_undone`: the job is certainly not there. */
void rota_work_broker_reply_bad_add(const struct rota_work_broker *broker,
                                    struct rota_server_call *call, const struct rota_front_new *job,
                                    const struct rota_error *error, bool is_undone);

/* ... for a reason of front_fsm. `text` replaces that of the reason, unless it is NULL. */
void rota_work_broker_reply_reason(struct rota_server_call *call, enum rota_front_reason reason,
                                   const char *text);

/* ... for lack of memory for its answer. */
void rota_work_broker_reply_no_memory(struct rota_server_call *call);

/* Finish it with a status and notes for clients: that the route was stale, that nothing was done.
 */
void rota_work_broker_reply_finish(struct rota_server_call *call, enum rota_status status,
                                   const char *text, bool is_stale, bool is_undone);

/* Answer with a message, an empty one when `type` is NULL, once record `number` is on disk; or
 * with what was encoded in the buffer of the front door. Rejected when there was no memory for
 * it. */
void rota_work_broker_reply_message(struct rota_work_broker *broker, struct rota_server_call *call,
                                    uint64_t number, const struct rota_message_type *type,
                                    const void *message);
void rota_work_broker_reply_buffer(struct rota_work_broker *broker, struct rota_server_call *call,
                                   uint64_t number);

/* The same for one job of a batch; the text is borrowed. */
struct rota_queue_added rota_work_broker_reply_failed_add(const struct rota_error *error,
                                                          bool is_undone);

/* The job that a request names; and the same for a call, false when that was rejected. */
enum rota_code rota_work_broker_reply_read_id(const struct rota_queue_about *about,
                                              struct rota_job_id *id, struct rota_error *error);
bool rota_work_broker_reply_read_job(struct rota_server_call *call,
                                     const struct rota_queue_about *about, struct rota_job_id *id);
