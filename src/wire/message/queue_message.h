/* queue_message: the messages of rota.v1.Queue, proto/rota/v1/queue.proto, as structs.
 *
 * Each struct has a type, ROTA_QUEUE_..., for rota_message_encode() and
 * rota_message_decode(). Ids are 16 bytes on the wire; rota_queue_message_id_read() and its
 * counterpart know how. */
#pragma once

#include "core/work/broker/broker.h"
#include "wire/message/message.h"
#include "wire/record/journal_record.h"

enum {
    ROTA_QUEUE_ID_SIZE = 16,
    ROTA_QUEUE_BATCH_MAX = 4096, /* jobs of one AddBatch */
    ROTA_QUEUE_LIST_MAX = 1000,  /* jobs of one List */
    ROTA_QUEUE_PAGE_MAX = 1000,  /* queues of one Queues */
    ROTA_QUEUE_POLL_MAX = 1000,  /* jobs of one Poll */
};

struct rota_queue_job_spec {
    struct rota_str queue, payload, id;
    struct rota_message_strs can;
    uint64_t partition;
    int64_t priority;
    uint64_t delay_ms, not_before_ms, deadline_ms, timeout_ms, max_attempts;
    uint64_t backoff_ms, backoff_max_ms;
    struct rota_str unique, key, trace;
    bool is_again, is_known;
    struct rota_str idempotency_key;
    bool is_keyed; /* the id is that of the key; not of the message */
};

struct rota_queue_add {
    const void *job; /* a struct rota_queue_job_spec */
};

/* AddReply, and Added of a batch. */
struct rota_queue_added {
    struct rota_str id;
    bool is_new;
    uint64_t status;
    struct rota_str error;
    bool may_go_elsewhere; /* certainly not added; another partition may accept it */
};

/* FindRequest and FindReply, of struct rota_queue_about;
 * AddBatchRequest, of struct rota_queue_job_spec; AddBatchReply, of struct
 * rota_queue_added; PollReply, of struct rota_queue_handed; QueuesReply, WorkersReply. */
struct rota_queue_list {
    struct rota_message_list items;
    struct rota_str next;                          /* of QueuesReply */
    uint64_t nodes;                                /* of FindReply */
    struct rota_message_strs missing, missing_why; /* of QueuesReply and WorkersReply */
};

/* The nodes that did not answer, and each one's error: fields of QueuesReply, WorkersReply,
 * ListReply and ForgetReply, as they are appended to a reply one by one. */
struct rota_queue_missing {
    struct rota_message_strs nodes, why;
};

/* A request about a job or an attempt: all requests that name one. */
struct rota_queue_about {
    struct rota_str queue, id;
    uint64_t attempt;
    struct rota_str bytes; /* a result, a reason, a progress */
    struct rota_str log;
    bool is_final, is_given_back, is_lost, with_payload, asks_nodes;
    uint64_t retry_after_ms, lease_ms;
    int64_t priority;
};

struct rota_queue_event {
    uint64_t at_ms, state, cause, attempt;
    struct rota_str worker, reason;
};

struct rota_queue_job_info {
    const void *spec; /* a struct rota_queue_job_spec */
    uint64_t state, cause, enqueued_ms, ended_ms, not_before_ms, attempt, n_attempts;
    struct rota_str worker, progress, reason, result;
    struct rota_message_list events; /* of struct rota_queue_event */
};

struct rota_queue_description {
    const void *job; /* a struct rota_queue_job_info */
    struct rota_str explain;
};

struct rota_queue_news {
    const void *job; /* a struct rota_queue_job_info */
    uint64_t n_missed;
};

struct rota_queue_poll {
    struct rota_message_strs queues, can;
    uint64_t max_jobs, lease_ms, wait_ms;
    struct rota_str worker;
};

struct rota_queue_handed {
    struct rota_str queue, id;
    uint64_t attempt;
    struct rota_str payload;
    uint64_t n_attempts, timeout_ms;
    int64_t priority;
    struct rota_str key, trace;
};

struct rota_queue_list_request {
    struct rota_str queue;
    uint64_t state, max_jobs, after;
};

struct rota_queue_list_reply {
    struct rota_message_list jobs; /* of struct rota_queue_job_info */
    uint64_t next;
    struct rota_message_strs missing, missing_why;
};

struct rota_queue_page {
    struct rota_str queue; /* empty: all, */
    uint64_t max_queues;   /* at most this many; 0: ROTA_QUEUE_PAGE_MAX */
    struct rota_str after; /* this name */
};

/* PauseRequest, SetWeightRequest, and SetQuarantineRequest with its deaths as
 * `weight`. */
struct rota_queue_setting {
    struct rota_str queue;
    bool is_paused;
    struct rota_str key;
    uint64_t weight;
};

struct rota_queue_info {
    struct rota_str name;
    bool is_paused;
    uint64_t n_partitions, n_waiting, n_delayed, n_running, n_done, n_dead, n_cancelled;
    uint64_t oldest_ms, added_total, done_total, dead_total, retries_total;
    uint64_t n_workers, n_slots, n_free;
    uint64_t fetched_total, lent_total;
    uint64_t wanted, write, read, batch; /* as in struct rota_queue_laid_out */
    bool is_slots, change_from_slots;
    uint64_t change_from_batch, change_start_ms, change_end_ms;
    uint64_t quarantined_total, worker_deaths;
    struct rota_str partitions_from, spread_from;
};

struct rota_queue_worker_info {
    struct rota_str name;
    uint64_t session, epoch, slots, n_running, silent_ms;
    struct rota_message_strs can, queues;
};

/* TreeWord, and in a rota_queue_list TellRequest; VisitRequest has some of its fields. */
struct rota_queue_word {
    bool is_offer;
    struct rota_str node, queue, can;
    uint64_t stamp, n, hops, age_ms;
};

struct rota_queue_visited {
    uint64_t n;
    bool is_lost;
};

struct rota_queue_adopt {
    struct rota_str name, queue;
    uint64_t partition;
    struct rota_str jobs; /* as rota_queue_message_write_jobs() writes them */
    bool is_over;
};

/* A node that may hold jobs, or holds none, as a broker remembers it. */
struct rota_queue_node {
    struct rota_str address;
    bool may_hold;
    uint64_t at_ns;
};

/* HoldersRequest, HoldersReply, AdoptReply. */
struct rota_queue_holders {
    struct rota_message_list nodes; /* struct rota_queue_node */
    const void *self;               /* struct rota_queue_node, of a request; NULL: none */
};

/* SetLayoutRequest. */
struct rota_queue_lay_out {
    struct rota_str queue;
    uint64_t partitions, batch, gradual_ms;
    bool has_spread, is_slots, is_dry_run;
};

/* SetLayoutReply. */
struct rota_queue_laid_out {
    uint64_t wanted, write, read, batch;
    bool is_slots, change_from_slots;
    uint64_t change_from_batch, change_start_ms, change_end_ms; /* an end of 0: no change */
};

/* ChangedRequest. */
struct rota_queue_changed {
    uint64_t version; /* of the latest row that was written */
    struct rota_str queue;
};

/* ChangedReply. */
struct rota_queue_changed_reply {
    uint64_t version;        /* of the latest row that the node has in force */
    struct rota_str records; /* the layout of the queue there */
    bool has_beyond;
};

struct rota_queue_forget {
    struct rota_str node;
    bool is_dry_run;
};

/* ForgetReply. */
/* DeleteQueueRequest and its reply. */
struct rota_queue_delete {
    struct rota_str queue;
    bool is_dry_run;
};

struct rota_queue_deleted {
    uint64_t n_jobs;
};

struct rota_queue_forgotten {
    uint64_t n_chunks, n_jobs;
};

/* NodesReply. */
struct rota_queue_nodes {
    uint64_t partitions;
    struct rota_str node;
    struct rota_message_strs nodes, absent;
    uint64_t n_jobs, n_leaving, write, read, batch;
    bool is_slots, change_from_slots;
    uint64_t change_from_batch, change_start_ms, change_end_ms;
};

extern const struct rota_message_type ROTA_QUEUE_DELETE, ROTA_QUEUE_DELETED;
extern const struct rota_message_type ROTA_QUEUE_ADD, ROTA_QUEUE_ADDED, ROTA_QUEUE_ADD_BATCH,
    ROTA_QUEUE_ADD_BATCH_REPLY, ROTA_QUEUE_FIND, ROTA_QUEUE_FOUND, ROTA_QUEUE_NAME,
    ROTA_QUEUE_PRIORITY, ROTA_QUEUE_DESCRIBE, ROTA_QUEUE_DESCRIPTION, ROTA_QUEUE_NEWS,
    ROTA_QUEUE_POLL, ROTA_QUEUE_POLL_REPLY, ROTA_QUEUE_HANDED, ROTA_QUEUE_COMPLETE,
    ROTA_QUEUE_COMPLETE_BATCH, ROTA_QUEUE_COMPLETED, ROTA_QUEUE_COMPLETE_BATCH_REPLY,
    ROTA_QUEUE_EXTEND, ROTA_QUEUE_FAIL, ROTA_QUEUE_JOB_INFO, ROTA_QUEUE_JOB_SPEC, ROTA_QUEUE_LIST,
    ROTA_QUEUE_LIST_REPLY, ROTA_QUEUE_PAGE, ROTA_QUEUE_PAUSE, ROTA_QUEUE_QUARANTINE,
    ROTA_QUEUE_WEIGHT, ROTA_QUEUE_INFO, ROTA_QUEUE_QUEUES_REPLY, ROTA_QUEUE_WORKER_INFO,
    ROTA_QUEUE_WORKERS_REPLY, ROTA_QUEUE_MISSING, ROTA_QUEUE_WORD, ROTA_QUEUE_TELL,
    ROTA_QUEUE_VISIT, ROTA_QUEUE_VISITED, ROTA_QUEUE_ADOPT, ROTA_QUEUE_NODES, ROTA_QUEUE_NODE,
    ROTA_QUEUE_HOLDERS, ROTA_QUEUE_HOLDERS_REQUEST, ROTA_QUEUE_ADOPT_REPLY, ROTA_QUEUE_FORGET,
    ROTA_QUEUE_FORGOTTEN, ROTA_QUEUE_SET_LAYOUT, ROTA_QUEUE_LAID_OUT, ROTA_QUEUE_CHANGED,
    ROTA_QUEUE_CHANGED_REPLY;

/* Empty means none. ROTA_ERR_INVALID for any size other than 16 bytes. */
enum rota_code rota_queue_message_id_read(struct rota_str bytes, struct rota_job_id *id,
                                          struct rota_error *error);
struct rota_str rota_queue_message_id_write(struct rota_job_id id, char bytes[ROTA_QUEUE_ID_SIZE]);

/* Whether it may be one. */
enum rota_code rota_queue_message_priority_check(int64_t priority, struct rota_error *error);

/* What a submitter asks for; `now` is the wall clock, for a delay. Everything is borrowed from
 * `message`, including the names of capabilities. */
/* Whether the idempotency key of a job, if there is one, is valid. A key that was turned into an
 * id was checked before. */
enum rota_code rota_queue_message_key_check(const struct rota_queue_job_spec *message,
                                            struct rota_error *error);

/* Of a job with an idempotency key, unless it can't be: the id that follows from it, in `id`. */
void rota_queue_message_spec_name(struct rota_queue_job_spec *message, uint32_t partitions,
                                  char id[ROTA_QUEUE_ID_SIZE]);

enum rota_code rota_queue_message_spec_read(const struct rota_queue_job_spec *message,
                                            rota_time now, struct rota_job_spec *spec,
                                            struct rota_error *error);

/* And back; `id` is room for the bytes of its id. */
void rota_queue_message_spec_write(const struct rota_job_spec *spec, char id[ROTA_QUEUE_ID_SIZE],
                                   struct rota_queue_job_spec *message);

/* Jobs that move between nodes, one after the other in `bytes`: JOB records as in the journal,
 * preceded by their size. `batch` is zeroed before the first. */
void rota_queue_message_write_jobs(struct rota_journal_batch *batch,
                                   const struct rota_work_record *record,
                                   struct rota_buffer *bytes);

/* The next one, which points into `bytes` and `room`; `*place` is 0 at first. False at the end
 * and, with *place below the size, at a malformed job. */
bool rota_queue_message_read_jobs(struct rota_journal_batch *batch, struct rota_str bytes,
                                  size_t *place, struct rota_work_record *record,
                                  struct rota_journal_room *room);

/* Milliseconds and nanoseconds: rounded up, so that a short duration does not become 0. */
static inline uint64_t rota_queue_to_ms(rota_time span)
{
    return span > 0 ? (uint64_t)(span / ROTA_MSEC) + (span % ROTA_MSEC != 0) : 0;
}

static inline rota_time rota_queue_from_ms(uint64_t ms)
{
    return ms > (uint64_t)(INT64_MAX / ROTA_MSEC) ? INT64_MAX : (rota_time)ms * ROTA_MSEC;
}
