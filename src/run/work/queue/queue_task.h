/* queue_task: one call of a queue client, over all its tries.
 *
 * queue.c makes tasks, queue_task.c sends them to nodes until try_fsm says that they are over, and
 * queue_reply.c reads the reply. */
#pragma once

#include "base/arena.h"
#include "base/list.h"
#include "base/map.h"
#include "core/work/worker/try_fsm.h"
#include "run/work/cluster/work_broker_cluster.h"
#include "wire/message/queue_message.h"

#include <rota/experimental/picker.h>
#include <rota/queue.h>
#include <uv.h>

struct rota_queue {
    uv_loop_t *loop;
    struct rota_broker_cluster *cluster;
    struct rota_picker *picker;
    struct rota_random random;
    struct rota_queue_options options;
    struct rota_map learned; /* layouts that were requested, by name */
    struct rota_list_node tasks;
    size_t n_tasks, n_asked; /* `n_asked`: without our own questions */
    size_t n_nodes;          /* of the cluster, as a node has said; 0: not known */
    bool has_answered;       /* a node */
    bool is_awaited;         /* the loop runs until nothing is asked; */
    bool is_idle;            /* ... as it was when it was stopped */
    struct rota_arena arena; /* of one reply */
};

enum rota_queue_kind {
    ROTA_QUEUE_TASK_PLAIN, /* the reply has nothing to read */
    ROTA_QUEUE_TASK_ADD,
    ROTA_QUEUE_TASK_POLL,
    ROTA_QUEUE_TASK_WAIT, /* a stream */
    ROTA_QUEUE_TASK_LOOK,
    ROTA_QUEUE_TASK_LIST,
    ROTA_QUEUE_TASK_COUNT,
    ROTA_QUEUE_TASK_PROBE,
    ROTA_QUEUE_TASK_LEARN, /* our own question about a queue's layout */
};

/* A job to add; what `spec` points to is in the task's memory. */
struct rota_queue_item {
    struct rota_queue_job_spec spec;
    struct rota_job_id id;
    uint32_t partition;
    char bytes[ROTA_QUEUE_ID_SIZE];
    bool is_over, is_new, is_ours;
    enum rota_code code;
    enum rota_status status;
    const char *text;
};

typedef void rota_queue_on_work(void *data, const struct rota_queue_result *result,
                                const struct rota_queue_work *works, size_t n);

struct rota_queue_task {
    struct rota_queue *queue;
    struct rota_list_node link;
    enum rota_queue_kind kind;
    struct rota_try_fsm tries;
    uv_timer_t timer; /* closed last: the task is freed with it */
    struct rota_call *call;
    const char *method;               /* "/rota.v1.Queue/..." */
    struct rota_buffer request, last; /* `last`: of a stream, the last message received */
    struct rota_arena memory;
    struct rota_str name; /* of the queue */
    struct rota_str node; /* the one that is asked; in `memory` */
    struct rota_job_id id;
    uint32_t partition;
    rota_time wait, timeout; /* of a poll; of one try */
    struct rota_poll poll;   /* of a poll */
    bool has_heard;          /* something, in this try */

    struct rota_queue_item *items; /* of an add */
    size_t n_items;
    bool is_batch;
    bool is_held; /* until the layout of the queue was requested */

    rota_queue_on_result *on_result;
    rota_queue_on_results *on_results;
    rota_queue_on_work *on_work;
    void *data;
};

/* A task that rota_queue_task_begin() or rota_queue_task_drop() takes; NULL, with ROTA_ERR_LIMIT,
 * when there are too many. `name` is copied. */
struct rota_queue_task *rota_queue_task_make(struct rota_queue *queue, enum rota_queue_kind kind,
                                             const char *method, struct rota_str name, void *data,
                                             struct rota_error *error);

/* Copy it to the task's memory; false if out of memory. */
bool rota_queue_task_keep(struct rota_queue_task *task, struct rota_str *text);

/* From the loop, as all that follows. */
enum rota_code rota_queue_task_begin(struct rota_queue_task *task, bool may_move);
void rota_queue_task_drop(struct rota_queue_task *task);

/* The same for an add: it gets a partition and an id when the layout of its queue is known. */
enum rota_code rota_queue_task_begin_add(struct rota_queue_task *task);

/* Request the layout of a queue, unless that was done a short while ago. Afterwards, whether it is
 * known or not, adds that were held begin. */
void rota_queue_task_learn(struct rota_queue *queue, struct rota_str name, bool is_urgent);
void rota_queue_task_learned(struct rota_queue *queue, struct rota_str name);

/* --- queue_reply.c: all of these take the task, unless it says otherwise --- */

void rota_queue_reply_fail(struct rota_queue_task *task, enum rota_code code,
                           enum rota_status status, const char *text);
void rota_queue_reply_end(struct rota_queue_task *task, struct rota_str message);

/* Of several adds: note the outcome of each. ROTA_STATUS_OK when none is left to add; else the
 * reason of one that is, in `text`, too. Does not take the task. */
enum rota_status rota_queue_reply_settle(struct rota_queue_task *task, struct rota_str message,
                                         char text[ROTA_ERROR_TEXT_MAX]);

/* The result of a failure, which is borrowed from the arguments and from `name`. */
struct rota_queue_result rota_queue_reply_failure(const struct rota_queue_task *task,
                                                  enum rota_code code, enum rota_status status,
                                                  const char *text, char name[ROTA_QUEUE_JOB_MAX]);
