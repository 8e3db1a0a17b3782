/* broker_inside: the parts of a broker that serves: its driver (broker.c), its journal
 * (broker_journal.c), its store (broker_store*.c), its service (broker_service.c) and the
 * service's methods (broker_grpc.c and the files it names), polls (broker_poll.c), connected
 * workers (broker_workers.c) and watchers (broker_watch.c). Private to these. */
#pragma once

#include "base/arena.h"
#include "base/heap.h"
#include "base/list.h"
#include "base/map.h"
#include "base/vector.h"
#include "core/work/broker/broker.h"
#include "core/work/broker/compaction.h"
#include "core/work/worker/sessions.h"
#include "io/journal/journal.h"
#include "run/work/broker_cluster.h"
#include "wire/message/queue_message.h"
#include "wire/message/worker_frame.h"

#include <rota/broker.h>
#include <rota/connector.h>
#include <rota/log.h>
#include <rota/server.h>
#include <uv.h>

/* An answer that waits for its record: to a call, or to a worker by its `connection`. */
struct rota_broker_answer {
    uint64_t number;      /* it waits for this one ... */
    uint64_t first, last; /* ... because its own are among these; 0: it has none */
    struct rota_server_call *call;
    uint64_t connection;
    char *large; /* the message when it is not `small`; freed */
    size_t size;
    char small[64];
};

/* A poll that waits for jobs. */
struct rota_broker_poll {
    struct rota_server_call *call;
    uint64_t session; /* the key in `polls` */
    struct rota_heap_node until;
    struct rota_list_node ready; /* in `polls_ready` when it has received something */
    rota_time until_at;          /* `until`, unless another node is asked for it */
    uint32_t kept;               /* its slots, while another node is asked; 0: none is */
    char *visited;               /* the queue, when another node polls for its workers; freed */
    struct rota_buffer reply;
    size_t n_jobs;
};

/* A watcher of a job, or of a queue when the id is none. */
struct rota_broker_watcher {
    struct rota_server_call *call;
    struct rota_job_id id;
    struct rota_str queue;       /* of its call's memory */
    struct rota_list_node link;  /* beside others of the same job, or in `queue_watchers` */
    struct rota_list_node dirty; /* in `watchers_dirty` when there is something to send */
    uint64_t number;             /* ... once this is on disk */
    uint64_t n_missed;
    bool is_full; /* the client is slow: wait for on_room */
    char name[];
};

struct rota_broker_watched {
    struct rota_job_id id; /* the key in `watched` */
    struct rota_list_node watchers;
};

/* A change of a queue, sent to its watchers once `number` is on disk. */
struct rota_broker_change {
    uint64_t number;
    struct rota_job_id id;
    enum rota_job_state state;
    enum rota_job_cause cause;
    uint64_t attempt;
    uint32_t n_attempts;
    char queue[ROTA_JOB_QUEUE_NAME_MAX + 1];
};

enum { ROTA_BROKER_CHANGES_MAX = 100000 }; /* pending; more are counted as missed */

struct rota_broker_forward;
struct rota_broker_handover;
struct rota_broker_layouts;
struct rota_broker_settings;
struct rota_broker_method;
struct rota_broker_store;
struct rota_broker_workers;

/* Where records go: a journal or a store. Without one, in memory, appended records count as
 * durable. It calls rota_work_broker_durable() as records become durable. */
struct rota_broker_sink {
    /* False when it can't be taken now: the same record is appended again later. */
    bool (*append)(struct rota_work_broker *broker, const struct rota_work_record *record);

    /* All records of a turn were appended. */
    void (*turn)(struct rota_work_broker *broker);

    /* When another turn is needed at the latest. NULL: never. */
    rota_time (*deadline)(const struct rota_work_broker *broker);

    /* Write what is pending, if possible, and release everything. Nothing else is called after
     * this. */
    void (*close)(struct rota_work_broker *broker, void (*on_closed)(void *data), void *data);

    const char *failed; /* the error for callers when it can't write any more */
};
extern const struct rota_broker_sink rota_work_broker_journal_sink, rota_work_broker_store_sink;

/* The data of a method's handler. */
struct rota_broker_service {
    struct rota_work_broker *broker;
    const struct rota_broker_method *method;
};

enum { ROTA_BROKER_METHODS = 28 };

/* An attempt that was given to a worker and can't be sent. */
struct rota_broker_return {
    struct rota_job_id id;
    uint64_t attempt;
    char queue[ROTA_JOB_QUEUE_NAME_MAX + 1];
};

struct rota_work_broker {
    struct rota_broker *core;
    struct rota_work_broker_options options;
    uv_check_t check; /* ends a turn */
    uv_idle_t idle;   /* keeps the loop from sleeping before it */
    uv_timer_t timer;
    unsigned n_handles; /* handles that are not closed */
    bool is_dirty, is_draining, is_closing, is_failed;
    uint64_t seed;

    struct rota_broker_cluster *cluster;
    struct rota_broker_cluster_subscriber listing;
    bool was_listed;                       /* among the nodes */
    struct rota_broker_forward *forward;   /* NULL: alone */
    struct rota_broker_handover *handover; /* NULL: nothing is handed over */
    struct rota_broker_settings *settings; /* NULL: alone, or they are in a store */
    struct rota_broker_layouts *layouts;
    struct rota_map errands; /* by call: those that other nodes answer */
    struct rota_random random;

    const struct rota_broker_sink *sink; /* NULL: in memory */
    struct rota_journal
        *journal; /* private to the sink, like the store; NULL: another sink is used */
    struct rota_broker_store *store;
    struct rota_compaction compaction;
    struct rota_room room;
    uint64_t drop_below;        /* for the journal, when this turn is written; 0: nothing */
    uint64_t appended, durable; /* numbers of records */
    uint64_t n_replayed;
    size_t n_carried; /* effects that are carried out; the rest waits for the journal */
    ROTA_VECTOR(struct rota_broker_answer) answers; /* in the order of their numbers */
    size_t n_answered;                              /* of them, from the front */

    struct rota_map polls; /* by session */
    struct rota_broker_poll
        *last_poll; /* the last one looked up: it often gets many jobs in a row */
    struct rota_heap polls_until;
    struct rota_list_node polls_ready;
    uint64_t n_polls_total;
    ROTA_VECTOR(struct rota_broker_return) returns;

    struct rota_broker_workers *workers; /* NULL: workers can't connect */

    ROTA_VECTOR(struct rota_broker_change) changes;
    struct rota_map watched; /* by id */
    struct rota_list_node queue_watchers, watchers_dirty;
    size_t n_watchers;

    struct rota_broker_service services[ROTA_BROKER_METHODS];
    rota_time swept_at;        /* monotonic: when queues without jobs were last removed */
    uint64_t call_first;       /* the first record that the current call may have to wait for */
    struct rota_arena arena;   /* of one request */
    struct rota_buffer buffer; /* of one reply */
    uint64_t n_turns;
};

/* A method: answers `call`, which it takes, about a decoded message of its type. */
typedef void rota_broker_handler(struct rota_work_broker *broker, struct rota_server_call *call,
                                 const void *message);

/* --- broker.c --- */

struct rota_work_now rota_work_broker_now(void);

/* Carry out the machine's effects, in order. A record that the journal can't take stays, with
 * all that follow: then this returns false, and they are retried with the next turn. */
bool rota_work_broker_carry_out(struct rota_work_broker *broker);

/* Something has changed: a turn follows. */
void rota_work_broker_touch(struct rota_work_broker *broker);

/* Answer with `message` once record `number` is on disk. Takes `call`. */
void rota_work_broker_answer(struct rota_work_broker *broker, struct rota_server_call *call,
                             uint64_t number, struct rota_str message);

/* The same for a worker's end of an attempt; false when there is no memory. */
bool rota_work_broker_queue_verdict(struct rota_work_broker *broker, uint64_t connection,
                                    uint64_t number, struct rota_str verdict);

/* All records up to `number` are durable. */
void rota_work_broker_durable(struct rota_work_broker *broker, uint64_t number);

/* Answers that wait for a record fail: it is unknown whether it was written. */
void rota_work_broker_drop_answers(struct rota_work_broker *broker, const char *why);

/* The journal is lost: nothing is acknowledged any more. */
void rota_work_broker_fail(struct rota_work_broker *broker, const struct rota_error *error);

/* One of its handles is closed; the last one frees it. */
void rota_work_broker_let_go(struct rota_work_broker *broker);

/* --- broker_journal.c --- */

enum rota_code rota_work_broker_journal_open(struct rota_work_broker *broker, uv_loop_t *loop,
                                             const char *directory, struct rota_error *error);

/* --- broker_store*.c: no-ops without a store, except `open` --- */

enum rota_code rota_work_broker_store_open(struct rota_work_broker *broker, uv_loop_t *loop,
                                           const char *url, struct rota_error *error);

/* Whether one of these records belongs to a partition that was lost: it was not written. */
bool rota_work_broker_store_is_void(const struct rota_work_broker *broker, uint64_t first,
                                    uint64_t last);

/* Whether all changes of a job are in the store or, without one, all records are on disk. */
bool rota_work_broker_store_is_written(const struct rota_work_broker *broker, struct rota_str queue,
                                       struct rota_job_id id);

/* Whether the store has been unreachable for too long. The reason is logged but not sent to
 * callers, since it names the server, the user and the database. */
bool rota_work_broker_store_is_away(const struct rota_work_broker *broker);
#define ROTA_BROKER_STORE_AWAY "the store is unreachable; see the log of this node"

/* Whether all our partitions are loaded, as far as is known. */
bool rota_work_broker_store_is_loaded(const struct rota_work_broker *broker);

/* What a call is about. */
enum rota_broker_need {
    ROTA_BROKER_NEEDS_NOTHING,
    ROTA_BROKER_NEEDS_JOB,  /* struct rota_queue_about */
    ROTA_BROKER_NEEDS_ADD,  /* struct rota_queue_add */
    ROTA_BROKER_NEEDS_ADDS, /* struct rota_queue_list */
    ROTA_BROKER_NEEDS_ALL,  /* everything that existed when the broker began */
};

/* True when the call may be handled. Otherwise it is taken: it waits for the partitions that it
 * needs and is handled again, or is rejected. */
bool rota_work_broker_store_admit(struct rota_broker_service *service,
                                  struct rota_server_call *call, enum rota_broker_need need,
                                  const void *request);

/* Whether this node can say whether a job exists: it knows it, or it owns the partition and has
 * read it since. Without a store every node can, about its own jobs. */
bool rota_work_broker_store_vouches(const struct rota_work_broker *broker,
                                    const struct rota_queue_about *about);

/* A queue was deleted: delete its partitions, and its rows in the store. */
void rota_work_broker_store_delete(struct rota_work_broker *broker, struct rota_str queue);

/* --- broker_workers.c: all but `check` and `open` accept NULL --- */

/* Whether workers could connect with these options; checked before anything is created. */
enum rota_code rota_work_broker_workers_check(const struct rota_work_broker_options *options,
                                              struct rota_error *error);
enum rota_code rota_work_broker_workers_open(struct rota_work_broker *broker, uv_loop_t *loop,
                                             struct rota_error *error);
void rota_work_broker_workers_close(struct rota_broker_workers *workers);

/* False when the session is not a worker's. */
bool rota_work_broker_workers_hand(struct rota_broker_workers *workers,
                                   const struct rota_work_effect *effect);
void rota_work_broker_workers_cancel(struct rota_broker_workers *workers,
                                     const struct rota_work_effect *effect, uint32_t n_released);
void rota_work_broker_workers_verdict(struct rota_broker_workers *workers, uint64_t connection,
                                      struct rota_str verdict);
void rota_work_broker_workers_lost(struct rota_broker_workers *workers, uint64_t session);
void rota_work_broker_workers_flush(struct rota_broker_workers *workers);
void rota_work_broker_workers_drain(struct rota_broker_workers *workers); /* or end that */

/* Keep free slots of a session for jobs of another node, or release them, as the end of a job from
 * there does, or its cancel, by `n_released`. False when there is no such session. */
bool rota_work_broker_workers_keep(struct rota_broker_workers *workers, uint64_t session,
                                   uint32_t n);
void rota_work_broker_workers_release(struct rota_broker_workers *workers, uint64_t session,
                                      uint32_t n);
void rota_work_broker_workers_counts(const struct rota_broker_workers *workers,
                                     struct rota_work_broker_counts *counts);

/* A job of another node for a connected session, under a lease; false when the session can't take
 * it. And the answer to its end. */
bool rota_work_broker_workers_hand_other(struct rota_broker_workers *workers, struct rota_str node,
                                         rota_time lease, const struct rota_work_effect *effect);
void rota_work_broker_workers_tell(struct rota_broker_workers *workers, uint64_t session,
                                   struct rota_str verdict);

/* --- broker_service.c --- */

enum rota_code rota_work_broker_serve(struct rota_work_broker *broker, struct rota_server *server,
                                      struct rota_error *error);

/* Whether it comes from a node that has routed it to us. */
bool rota_work_broker_is_carried(struct rota_server_call *call);

/* Handle a call of `service` from its beginning; `is_resumed`: it had to wait, and begins again. */
void rota_work_broker_call(struct rota_broker_service *service, struct rota_server_call *call,
                           bool is_resumed);

/* Continue an add or a batch after the search for its jobs: those that are `known` are at some
 * node. Takes `call`. */
void rota_work_broker_call_known(struct rota_broker_service *service, struct rota_server_call *call,
                                 const uint32_t *known, size_t n);

/* --- broker_grpc.c --- */

/* Reject a call; because of a stale attempt or, when `is_partition`, a partition that is not
 * ours. */
void rota_work_broker_refuse(struct rota_server_call *call, const struct rota_error *error,
                             bool is_partition);

/* ... an add to a queue: with the number of partitions for new jobs. */
void rota_work_broker_refuse_add(const struct rota_work_broker *broker,
                                 struct rota_server_call *call, struct rota_str queue,
                                 const struct rota_error *error);

/* ... about a job of a partition that this node does not have: others may know it. */
void rota_work_broker_refuse_unowned(struct rota_server_call *call);

/* ... for lack of memory for its answer. */
void rota_work_broker_refuse_memory(struct rota_server_call *call);

/* Answer with a message, an empty one when `type` is NULL, once record `number` is on disk; or
 * with what was encoded in `broker->buffer`. Rejected when there was no memory for it. Takes
 * `call`. */
void rota_work_broker_reply(struct rota_work_broker *broker, struct rota_server_call *call,
                            uint64_t number, const struct rota_message_type *type,
                            const void *message);
void rota_work_broker_reply_buffer(struct rota_work_broker *broker, struct rota_server_call *call,
                                   uint64_t number);

/* --- broker_route.c: true when the call is routed; else the request is for this node --- */

bool rota_work_broker_route_job(struct rota_work_broker *broker, struct rota_server_call *call,
                                const char *method, const struct rota_queue_about *about,
                                bool is_stream);
bool rota_work_broker_route_add(struct rota_work_broker *broker, struct rota_server_call *call,
                                const char *method, struct rota_queue_add *add);
bool rota_work_broker_route_batch(struct rota_work_broker *broker, struct rota_server_call *call,
                                  const char *method, struct rota_queue_list *list);

/* The partition of a job to be added: by its id or, without one, by its unique key.
 * ROTA_ERR_INVALID: the given partition is another one. */
enum rota_code rota_work_broker_place(const struct rota_work_broker *broker,
                                      const struct rota_queue_job_spec *message, bool is_carried,
                                      struct rota_job_id id, uint32_t *partition,
                                      struct rota_error *error);

/* Derive the ids of jobs with an idempotency key, in the broker's arena; false without memory.
 * Such jobs may have been added before: see rota_work_broker_search(). */
bool rota_work_broker_name_jobs(struct rota_work_broker *broker, struct rota_queue_job_spec *jobs,
                                size_t n, bool is_carried);

/* Whether a new job may go to this partition, whose queue has a valid name. ROTA_ERR_STALE:
 * formerly it could; choose another. */
enum rota_code rota_work_broker_check_new(const struct rota_work_broker *broker,
                                          const struct rota_queue_job_spec *message,
                                          uint32_t partition, struct rota_error *error);

/* --- broker_layout.c: all but `open` accept NULL --- */

/* Set a message's fields for the spread of partitions, and the change in progress. */
#define ROTA_BROKER_TELL_SPREAD(message, layout)                                                   \
    do {                                                                                           \
        (message)->batch = (layout)->spread.batch;                                                 \
        (message)->is_slots = (layout)->spread.mode == ROTA_SPREAD_SLOTS;                          \
        (message)->change_from_batch = (layout)->change.from.batch;                                \
        (message)->change_from_slots = (layout)->change.from.mode == ROTA_SPREAD_SLOTS;            \
        (message)->change_start_ms = (uint64_t)((layout)->change.start / ROTA_MSEC);               \
        (message)->change_end_ms = (uint64_t)((layout)->change.end / ROTA_MSEC);                   \
    } while (0)

enum rota_code rota_work_broker_layouts_open(struct rota_work_broker *broker,
                                             struct rota_error *error);
void rota_work_broker_layouts_close(struct rota_broker_layouts *layouts);
bool rota_work_broker_layouts_turn(struct rota_broker_layouts *layouts, struct rota_work_now now);
rota_time rota_work_broker_layouts_deadline(const struct rota_broker_layouts *layouts);

/* The methods. */
rota_broker_handler rota_work_broker_set_layout;
void rota_work_broker_layout_info(const struct rota_work_broker *broker,
                                  struct rota_queue_info *info);
rota_broker_handler rota_work_broker_lay_out;

/* --- broker_gather.c: all nodes answer --- */

void rota_work_broker_gather_set(struct rota_work_broker *broker, struct rota_server_call *call,
                                 const char *method);
void rota_work_broker_gather_watch(struct rota_work_broker *broker, struct rota_server_call *call,
                                   const char *method);
void rota_work_broker_gather_workers(struct rota_work_broker *broker, struct rota_server_call *call,
                                     const char *method);
void rota_work_broker_gather_delete(struct rota_work_broker *broker, struct rota_server_call *call,
                                    const char *method, const struct rota_queue_delete *request);
void rota_work_broker_gather_forget(struct rota_work_broker *broker, struct rota_server_call *call,
                                    const char *method);
void rota_work_broker_gather_queues(struct rota_work_broker *broker, struct rota_server_call *call,
                                    const char *method, const struct rota_queue_page *page);
void rota_work_broker_gather_list(struct rota_work_broker *broker, struct rota_server_call *call,
                                  const char *method,
                                  const struct rota_queue_list_request *request);

/* --- broker_forward.c --- */

enum rota_code rota_work_broker_forward_open(struct rota_work_broker *broker,
                                             struct rota_error *error);
void rota_work_broker_forward_close(struct rota_work_broker *broker);
void rota_work_broker_forward_turn(struct rota_work_broker *broker, struct rota_work_now now);
rota_time rota_work_broker_forward_deadline(const struct rota_work_broker *broker);

/* The methods of nodes. */
rota_broker_handler rota_work_broker_forward_tell;
rota_broker_handler rota_work_broker_forward_visit;

/* Another node has polled us, and received `n` jobs. */
void rota_work_broker_forward_visited(struct rota_work_broker *broker, struct rota_str queue,
                                      size_t n);

/* Additional information for people. */
void rota_work_broker_forward_info(const struct rota_work_broker *broker,
                                   struct rota_queue_info *info);
void rota_work_broker_forward_counts(const struct rota_work_broker *broker,
                                     struct rota_work_broker_counts *counts);
void rota_work_broker_forward_explain(struct rota_work_broker *broker, struct rota_str queue,
                                      char *text, size_t size);

/* The nodes, and the state of this one. */
rota_broker_handler rota_work_broker_nodes;

/* --- broker_handover.c: all with a handover accept NULL --- */

enum rota_code rota_work_broker_handover_open(struct rota_work_broker *broker,
                                              struct rota_error *error);
void rota_work_broker_handover_close(struct rota_broker_handover *handover);

/* True when something changed. */
bool rota_work_broker_handover_turn(struct rota_broker_handover *handover,
                                    struct rota_work_now now);
rota_time rota_work_broker_handover_deadline(const struct rota_broker_handover *handover);

/* Adopt jobs, or learn that their sender knows that they are here. */
rota_broker_handler rota_work_broker_adopt;

/* A node is permanently lost. */
rota_broker_handler rota_work_broker_forget_node;

/* --- broker_settings.c: those with settings accept NULL --- */

enum rota_code rota_work_broker_settings_open(struct rota_work_broker *broker,
                                              struct rota_error *error);
void rota_work_broker_settings_close(struct rota_broker_settings *settings);
bool rota_work_broker_settings_turn(struct rota_broker_settings *settings, rota_time now);
rota_time rota_work_broker_settings_deadline(const struct rota_broker_settings *settings);
rota_broker_handler rota_work_broker_settings_tell;

/* What to report about ourselves in a message; NULL: nothing. Borrowed until the next call. */
const struct rota_queue_node *rota_work_broker_speak(struct rota_work_broker *broker, bool may_hold,
                                                     struct rota_queue_node *room);

/* What another node reports about itself, or about others. */
enum rota_code rota_work_broker_take_node(struct rota_work_broker *broker,
                                          const struct rota_queue_node *node,
                                          struct rota_error *error);

/* Jobs have arrived: if the peers know this node as empty, correct that. */
void rota_work_broker_settings_take_back(struct rota_broker_settings *settings);

/* Another node knows other nodes than we do. */
void rota_work_broker_settings_ask_soon(struct rota_broker_settings *settings);

/* Whether all peers have reported, or can't, what this node must know before it may answer that
 * a job does not exist. */
bool rota_work_broker_settings_are_told(const struct rota_broker_settings *settings);

/* Whether this node has handed over everything it can, and its peers know that it is empty. */
bool rota_work_broker_has_left(const struct rota_work_broker *broker);

/* Nodes that are not listed and may hold jobs, by number from 0; empty for one that is too high.
 * Borrowed until the loop continues. */
size_t rota_work_broker_n_absent(const struct rota_work_broker *broker, bool for_add);
struct rota_str rota_work_broker_absent(const struct rota_work_broker *broker, bool for_add,
                                        size_t index);

/* --- broker_again.c --- */

/* Answer which of the jobs are here. */
rota_broker_handler rota_work_broker_find_jobs;

/* True when some of the jobs may have been added before: then all nodes are asked, and
 * rota_work_broker_call_known() follows. */
bool rota_work_broker_search(struct rota_broker_service *service, struct rota_server_call *call,
                             const struct rota_queue_list *jobs, bool is_batch);

/* --- broker_view.c --- */

enum rota_broker_shown {
    ROTA_BROKER_SHOW_NAME,
    ROTA_BROKER_SHOW_LIST, /* all but payload, result and events */
    ROTA_BROKER_SHOW_ALL,  /* all but the payload */
    ROTA_BROKER_SHOW_PAYLOAD,
};

/* A job for people. Pointers are into the arena or the broker; NULL without memory. */
const struct rota_queue_job_info *rota_work_broker_info(struct rota_work_broker *broker,
                                                        const struct rota_job_view *view,
                                                        enum rota_broker_shown shown);

/* --- broker_poll.c --- */

rota_broker_handler rota_work_broker_poll;
void rota_work_broker_poll_cancel(struct rota_work_broker *broker, struct rota_server_call *call);
void rota_work_broker_poll_hand(struct rota_work_broker *broker,
                                const struct rota_work_effect *effect);
void rota_work_broker_poll_lost(struct rota_work_broker *broker, uint64_t session);

/* Another node is asked for the poll, for at most this long: it receives no jobs here meanwhile.
 * False when there is no such poll. Afterwards release it; or answer it with the other node's
 * reply, `n` jobs, unless it has ended. */
bool rota_work_broker_poll_keep(struct rota_work_broker *broker, uint64_t session, uint32_t slots,
                                rota_time timeout);
void rota_work_broker_poll_release(struct rota_work_broker *broker, uint64_t session);
bool rota_work_broker_poll_fetched(struct rota_work_broker *broker, uint64_t session,
                                   struct rota_str reply, size_t n);

/* Return jobs that could not be sent; true when something changed. */
bool rota_work_broker_poll_return(struct rota_work_broker *broker);

/* Answer polls that have jobs, or waited long enough; all, when `is_over`. */
void rota_work_broker_poll_flush(struct rota_work_broker *broker, rota_time now, bool is_over);

/* --- broker_watch.c --- */

rota_broker_handler rota_work_broker_watch;
void rota_work_broker_watch_cancel(struct rota_work_broker *broker, struct rota_server_call *call);
void rota_work_broker_watch_room(struct rota_work_broker *broker, struct rota_server_call *call);
void rota_work_broker_watch_tell(struct rota_work_broker *broker,
                                 const struct rota_work_effect *effect);
void rota_work_broker_news(struct rota_work_broker *broker, const struct rota_work_effect *effect);
void rota_work_broker_watch_added(struct rota_work_broker *broker,
                                  const struct rota_work_record *record);
void rota_work_broker_watch_flush(struct rota_work_broker *broker);

/* The partition has another owner: pending changes of it are dropped, since their outcome is
 * unknown. */
void rota_work_broker_watch_lost(struct rota_work_broker *broker, struct rota_str queue,
                                 uint32_t partition);
void rota_work_broker_watch_end(struct rota_work_broker *broker);
