/* broker_inside: what the files of the broker share; private to them.
 *
 *   broker.c         init, effects, the clocks
 *   broker_queue.c   queues, partitions, lanes
 *   broker_job.c     changes of a job's state, without effects: also used for replay
 *   broker_timer.c   timers of jobs
 *   broker_add.c     jobs are added
 *   broker_match.c   jobs are handed out
 *   broker_class.c   classes of workers
 *   broker_worker.c  workers with sessions
 *   broker_poller.c  workers that poll, and hold jobs by leases
 *   broker_end.c     attempts and jobs end
 *   broker_ended.c   ended jobs, kept for a while
 *   broker_replay.c  the journal is read and rewritten
 *   broker_setting.c pauses and weights
 *   broker_hand.c    partitions are opened, closed and handed over
 *   broker_node.c    nodes that may hold jobs
 *   broker_load.c    partitions whose jobs are in a store
 *   broker_view.c    queries
 *   broker_idle.c    queries for other nodes: free slots, waiting jobs
 *   broker_sound.c   checks of the invariants
 *
 * A change is made completely or not at all: rota_broker_ready() allocates the memory for it
 * first. When there is none, the caller gets an error; changes without a caller, as when a
 * worker is lost, are retried with the next tick. */
#pragma once

#include "base/arena.h"
#include "base/heap.h"
#include "core/work/broker/broker.h"
#include "core/work/cluster/breath.h"
#include "core/work/job/capability.h"
#include "core/work/job/choice.h"
#include "core/work/job/fair.h"

enum { ROTA_BROKER_REFUSAL_MAX = 256 };

#define ROTA_BROKER_NONE UINT32_MAX /* no lane */

struct rota_work_partition {
    uint32_t number;
    bool is_open;
    bool is_loaded; /* and not opened since: times and tags have to be set */
    uint64_t epoch; /* the highest that was seen */
    size_t n_jobs;  /* in any state */
    size_t n_live;  /* those that have not ended */
    size_t n_drawn; /* of these: a layout chose the partition, not the id */
    uint32_t place; /* where the next chunk starts */
};

/* Some jobs of a partition that move to another broker. */
struct rota_work_chunk {
    struct rota_job_id name;
    uint32_t queue, partition;
    uint64_t number; /* of its last record */
    size_t n_ids;    /* 0: the receiver has it */
    char *to;
    struct rota_job_id ids[]; /* sorted */
};

/* A chunk that is being received: its jobs so far. */
struct rota_work_coming {
    struct rota_job_id name; /* none: no chunk is being received */
    ROTA_VECTOR(struct rota_job_id) ids;
    uint32_t queue; /* of them */
};

/* A chunk that was received from another broker. */
struct rota_work_taken {
    struct rota_job_id name;
    uint64_t number;
    rota_time over_at; /* wall clock: since when its sender knows; 0: it may ask again */
};

struct rota_work_queue {
    uint32_t number;
    bool is_paused;
    uint32_t kills_max;  /* see rota_broker_set_kills(); 0: the default */
    rota_time paused_at; /* wall clock: when both were set; 0: never */
    struct rota_work_layout layout;
    rota_time laid_at;                                  /* the same, for the layout */
    ROTA_VECTOR(struct rota_work_partition) partitions; /* by number */
    ROTA_VECTOR(uint32_t) lanes;                        /* by set; ROTA_BROKER_NONE: none */
    struct rota_fair_queue fair;
    size_t counts[ROTA_JOB_STATES];
    size_t n_lanes, n_classes;
    uint64_t least_tag; /* minimum tag, while a broker begins */
    uint64_t n_added, n_done, n_dead, n_retries, n_quarantined;
    bool is_noted;                        /* in `empties` */
    bool is_deleted;                      /* deleted, and not used since */
    struct rota_work_queue *left, *right; /* in `queues_in_order` */
    uint64_t rank;                        /* there: not below those of the two */
    uint16_t name_size;
    char name[ROTA_JOB_QUEUE_NAME_MAX];
};

struct rota_work_class {
    struct rota_capability_list capabilities;
    uint32_t queues[ROTA_WORKER_QUEUES_MAX];
    size_t n_queues;
    struct rota_choice *choices;    /* one for each queue: the lanes that its workers can serve */
    ROTA_VECTOR(uint64_t) has_lane; /* a bit for each lane */
    size_t n_workers, n_slots, n_free;
    size_t n_polls, n_pollers; /* of the workers; and names among these */
    size_t n_leased;           /* attempts of polls that have ended */
    struct rota_list_node free_workers;
    struct rota_list_node link; /* of those with a free worker */
    rota_time free_since;       /* while there is one */
    struct rota_breath breath;
    bool is_away; /* without a worker */
    char *text;   /* its key */
    size_t text_size;
};

/* A poller: all polls of one name and class, and the attempts they have received. */
struct rota_work_poller {
    struct rota_work_class *class;
    struct rota_work_name *name; /* referenced by its polls and attempts */
    struct rota_work_poller *next;
    uint32_t n_polls, n_leased;
    size_t place; /* among all */
    rota_time heard_at;
};

/* How an attempt was lost. */
enum rota_work_loss {
    ROTA_LOSS_LEFT, /* its worker left cleanly, or never received it */
    ROTA_LOSS_DIED, /* its worker is dead, perhaps because of this job */
    ROTA_LOSS_OURS, /* this broker was not running and does not know: it does not count */
};

struct rota_work_worker {
    struct rota_heap_node alarm; /* when to check its heartbeats */
    uint64_t session, epoch;
    struct rota_work_name *name;
    struct rota_work_class *class;
    struct rota_work_poller *poller; /* of a poll */
    struct rota_list_node link;      /* of those that are free */
    uint32_t slots, n_running, n_free;
    uint32_t running; /* the first of its jobs; 0: none */
    rota_time liveness, lease, heard_at;
    bool is_poll, is_hasty, is_free;
    bool is_gone; /* lost or closed, but its jobs are not returned yet */
    bool is_told; /* ... and that will be reported */
    enum rota_work_loss loss;
};

/* An attempt that waits for its START to be written, to be sent to its worker. */
struct rota_work_start {
    struct rota_job_id id;
    uint64_t attempt, session, handed;
    uint64_t number; /* of the record that it waits for: of a poll, the last one of its jobs */
};

struct rota_ended_list {
    uint32_t first, last; /* numbers of extras, not of jobs */
    uint32_t hint; /* the last one that was not put at the end: the next such is often near it */
};

/* A block to be freed. */
struct rota_work_trash {
    void *block;
    size_t size; /* of a block of the table's; 0: from malloc() */
};

/* Another node, or ourselves. */
struct rota_work_node {
    enum rota_broker_node_state state;
    rota_time at;      /* wall clock: since when */
    rota_time left_at; /* monotonic: when it was last listed, in this process */
    bool is_listed, is_placed, is_seen;
    bool is_left; /* of ourselves: we have reported that we hold none */
    size_t size;
    char address[];
};

struct rota_broker {
    struct rota_broker_options options;
    struct rota_random random;
    uint64_t seed;   /* for tables */
    uint64_t chance; /* random part of the next id */
    struct rota_job_table jobs;
    struct rota_capabilities capabilities;
    struct rota_fair fair;

    ROTA_VECTOR(struct rota_work_queue *) queues; /* NULL: the number is free */
    struct rota_map queues_by_name;
    struct rota_work_queue *queues_in_order; /* by name: the root of a treap */
    size_t counts[ROTA_JOB_STATES];          /* jobs of all queues */
    struct rota_work_queue *last_queue;      /* the last one looked up */
    size_t free_queue, free_lane;            /* no number below is free */
    ROTA_VECTOR(uint32_t) empties;           /* queues that may have become empty */
    uint64_t n_layouts;                      /* layouts ever set */
    ROTA_VECTOR(struct rota_lane *) lanes;   /* NULL: the number is free */
    ROTA_VECTOR(uint32_t) dirty;             /* lanes with new jobs; preallocated */
    size_t n_lanes;

    struct rota_map classes;
    struct rota_list_node free_classes;
    ROTA_VECTOR(struct rota_work_worker *) workers; /* by the low bits of a session */
    ROTA_VECTOR(uint32_t) free_workers;             /* numbers; preallocated */
    struct rota_map workers_by_name;                /* those with an epoch */
    ROTA_VECTOR(struct rota_work_poller *) pollers;
    size_t n_away; /* classes without a worker */
    struct rota_heap alarms;
    size_t n_gone;
    uint32_t serial;

    struct rota_map names;        /* of workers */
    struct rota_map uniques;      /* jobs by queue and unique key */
    ROTA_VECTOR(uint32_t) timers; /* extras, a heap; preallocated */
    struct rota_ended_list dead, ended;
    size_t n_live, n_ended, bytes;
    size_t peak;           /* the maximum that jobs held, see rota_broker_has_shrunk() */
    uint32_t first_unsafe; /* the first job, by record, whose record is not on disk */

    ROTA_VECTOR(struct rota_work_chunk *) chunks;
    ROTA_VECTOR(struct rota_work_taken) taken;
    struct rota_work_coming coming;
    ROTA_VECTOR(struct rota_work_node *) nodes; /* nodes that may hold jobs, or did */

    ROTA_VECTOR(struct rota_work_effect) effects;
    ROTA_VECTOR(struct rota_work_trash) trash; /* what effects may point to */
    struct rota_arena arena;
    struct rota_job_spec *spec_ahead; /* of the next record that has one */
    struct rota_work_record noted;    /* the last one that is not emitted */

    struct rota_work_now now; /* of this call; `boot` never goes back */
    rota_time spare_until;    /* we were not running: no worker is lost before */
    rota_time stamp;          /* wall clock: never goes back */
    uint64_t life;
    uint64_t n_attempts; /* attempts numbered so far */
    uint64_t chances;    /* random parts of the last of them, and of the next */
    uint64_t n_handed;   /* attempts handed out */
    ROTA_VECTOR(struct rota_work_start) starts; /* in this order */
    uint64_t last_number, durable, life_number;
    uint64_t rewrite_number, settings_number;
    size_t rewrite_left;
    uint64_t n_looks; /* lanes examined to choose jobs */
    bool is_begun, is_starved, is_on_hold;
    bool is_unwatched;
    bool is_shared;      /* workers are shared with other nodes */
    rota_time breath_at; /* when the first yield is over; 0: there is none */
    char refusal[ROTA_BROKER_REFUSAL_MAX];
    uint64_t add_room; /* bytes of new jobs that may still be accepted ... */
    bool is_bounded;   /* ... if that is bounded */
    bool is_short;     /* one was rejected for it */

    struct rota_job_event events[ROTA_JOB_STORY_MAX + 4]; /* of the last view */
    char put_off[ROTA_TIME_TEXT_MAX + 16];                /* of the first of them */
    struct rota_job_spec spec;                            /* of the last record shown */
};

/* --- broker_add.c --- */

/* Whether a job of this spec may be written, and `more` bytes with it. Count it with
 * rota_broker_add_take_room() once it is accepted. */
enum rota_code rota_broker_add_check_disk(struct rota_broker *broker,
                                          const struct rota_job_spec *spec, size_t more,
                                          struct rota_error *error);
void rota_broker_add_take_room(struct rota_broker *broker, const struct rota_job_spec *spec,
                               size_t more);

/* Bytes of a job in a journal, an upper bound. */
size_t rota_broker_add_spec_size(const struct rota_job_spec *spec);

/* --- broker.c --- */

/* A call begins, at `now`. */
void rota_broker_at(struct rota_broker *broker, struct rota_work_now now);

/* Reserve the memory for one change of a job of `lane` (NULL: it will not wait). False when
 * there is none: the change must not begin. */
bool rota_broker_ready(struct rota_broker *broker, struct rota_lane *lane);

/* One more effect, zeroed except for its type and subject. `job` may be NULL. */
struct rota_work_effect *rota_broker_emit(struct rota_broker *broker,
                                          enum rota_work_effect_type type,
                                          const struct rota_job *job);

/* One more record, with its number and `at`. `job` may be NULL. */
struct rota_work_record *rota_broker_write(struct rota_broker *broker,
                                           enum rota_work_record_type type,
                                           const struct rota_job *job);

/* The same for one that only a journal needs: without a journal the next one overwrites it. */
struct rota_work_record *rota_broker_note(struct rota_broker *broker,
                                          enum rota_work_record_type type,
                                          const struct rota_job *job);

/* The spec of a job for the record that was written last. */
void rota_broker_attach_spec(struct rota_broker *broker, const struct rota_job *job);

/* Notify watchers, if there are any. */
void rota_broker_tell(struct rota_broker *broker, const struct rota_job *job, uint64_t number);

/* Free a block that effects may point to. Takes `block`, which may be NULL. */
void rota_broker_discard(struct rota_broker *broker, void *block);

/* A wall-clock time on the monotonic clock; ROTA_TIME_NEVER for 0. */
rota_time rota_broker_boot_of(const struct rota_broker *broker, rota_time wall);

struct rota_work_name *rota_broker_hold_name(struct rota_broker *broker, struct rota_str name);
void rota_broker_drop_name(struct rota_broker *broker, struct rota_work_name *name);

/* --- broker_queue.c --- */

/* NULL when there is none. */
struct rota_work_queue *rota_broker_queue(const struct rota_broker *broker, struct rota_str name);
/* The first one by name after `name`; NULL at the end. */
struct rota_work_queue *rota_broker_queue_after(const struct rota_broker *broker,
                                                struct rota_str name);

/* ... and made if needed. */
enum rota_code rota_broker_queue_need(struct rota_broker *broker, struct rota_str name,
                                      struct rota_work_queue **queue, struct rota_error *error);
void rota_broker_queue_free(struct rota_broker *broker, struct rota_work_queue *queue);

/* Its last job or class is perhaps gone. Without memory, that is found when the limit is
 * reached. */
void rota_broker_queue_note_empty(struct rota_broker *broker, struct rota_work_queue *queue);

/* The lane of a spec, made if needed. Lanes without jobs are dropped when others need the room. */
enum rota_code rota_broker_queue_need_lane(struct rota_broker *broker,
                                           const struct rota_job_spec *spec,
                                           struct rota_lane **lane, struct rota_error *error);

/* NULL when it is unknown. It is at its own number when all below are known. */
struct rota_work_partition *rota_broker_queue_search_partition(const struct rota_work_queue *queue,
                                                               uint32_t partition);

static inline struct rota_work_partition *rota_broker_partition(const struct rota_work_queue *queue,
                                                                uint32_t partition)
{
    if (partition < queue->partitions.size &&
        queue->partitions.items[partition].number == partition)
        return &queue->partitions.items[partition];
    return rota_broker_queue_search_partition(queue, partition);
}

enum rota_code rota_broker_queue_need_partition(struct rota_work_queue *queue, uint32_t number,
                                                struct rota_work_partition **partition,
                                                struct rota_error *error);

static inline struct rota_lane *rota_broker_lane_of(const struct rota_broker *broker,
                                                    const struct rota_job *job)
{
    return broker->lanes.items[job->lane];
}

/* Whether a job is in its partition because a layout chose that, not its id. */
static inline bool rota_broker_is_drawn(const struct rota_job *job)
{
    return !(job->flags & ROTA_JOB_PLACED) && rota_job_id_is_made(job->id);
}

static inline struct rota_work_queue *rota_broker_queue_of(const struct rota_broker *broker,
                                                           const struct rota_job *job)
{
    return broker->queues.items[rota_broker_lane_of(broker, job)->queue];
}

static inline struct rota_str rota_broker_queue_name(const struct rota_work_queue *queue)
{
    return rota_str_of(queue->name, queue->name_size);
}

/* The job under `id` in a queue; 0: none. */
uint32_t rota_broker_queue_find_job(const struct rota_broker *broker, struct rota_str queue,
                                    struct rota_job_id id);

/* ... and the error when there is none. */
enum rota_code rota_broker_queue_want_job(const struct rota_broker *broker, struct rota_str queue,
                                          struct rota_job_id id, uint32_t *number,
                                          struct rota_error *error);

/* --- broker_job.c --- */

static inline bool rota_job_state_is_ended(int state)
{
    return state >= ROTA_JOB_DONE;
}

void rota_broker_job_set_state(struct rota_broker *broker, struct rota_job *job,
                               enum rota_job_state state);

/* A job from its spec, WAITING, in no lane or list. Its partition must be known. */
enum rota_code rota_broker_job_new(struct rota_broker *broker, const struct rota_job_spec *spec,
                                   struct rota_job_id id, rota_time at, uint64_t order,
                                   uint32_t *number, struct rota_error *error);

/* Remove a job; false when there is no memory for what effects point to. Erase it only when no
 * effect points to it, or the memory is reserved. */
void rota_broker_job_erase(struct rota_broker *broker, uint32_t number);
bool rota_broker_job_free(struct rota_broker *broker, uint32_t number);

/* Its last whole record is `record`. */
void rota_broker_job_whole(struct rota_broker *broker, uint32_t number, uint64_t record);

/* It waits, and enters its lane if it may be handed out. After rota_broker_ready(). */
void rota_broker_job_enter(struct rota_broker *broker, uint32_t number);

/* It leaves its lane, in which it must be; or only if it is there. */
void rota_broker_job_pull(struct rota_broker *broker, uint32_t number);

static inline void rota_broker_job_leave(struct rota_broker *broker, uint32_t number)
{
    if (rota_job_at(&broker->jobs, number)->flags & ROTA_JOB_IN_LANE)
        rota_broker_job_pull(broker, number);
}

/* An attempt begins; the job has an extra. Takes one reference to `worker`, which may be NULL. */
void rota_broker_job_start(struct rota_broker *broker, uint32_t number, uint64_t attempt,
                           uint32_t n_attempts, struct rota_work_name *worker, rota_time at);

/* The running attempt is over and the job returns; `number` is that of the record about it. Its
 * state is WAITING or DELAYED, by `not_before`, but it is in no lane. */
void rota_broker_job_back(struct rota_broker *broker, uint32_t job_number,
                          const struct rota_work_record *record);

/* It ends as `record` says; takes `result`, which may be NULL. The job has an extra. */
void rota_broker_job_end(struct rota_broker *broker, uint32_t job_number,
                         const struct rota_work_record *record, char *result);

/* The workers that died at it are those of `record`. */
void rota_broker_job_set_killed(struct rota_broker *broker, struct rota_job_extra *extra,
                                const struct rota_work_record *record);

/* It waits again. Fails when its unique key is taken, or its fair key has no room. */
enum rota_code rota_broker_job_revive(struct rota_broker *broker, uint32_t job_number, rota_time at,
                                      struct rota_error *error);

/* A copy, counted; NULL when there is no memory, or nothing to copy. */
char *rota_broker_job_copy(struct rota_broker *broker, struct rota_str bytes);

/* Free a copy of `size` bytes. */
void rota_broker_job_discard_copy(struct rota_broker *broker, char *copy, size_t size);

/* The hash that is kept of a payload when its job is done; never 0. */
uint64_t rota_broker_job_hash_payload(const struct rota_broker *broker, struct rota_str payload);

void rota_broker_job_fill_spec(const struct rota_broker *broker, const struct rota_job *job,
                               struct rota_job_spec *spec);

/* --- broker_ended.c --- */

/* Forget ended jobs until both bounds hold with `bytes` more, and those that are too old. */
void rota_broker_ended_forget(struct rota_broker *broker, size_t bytes);

/* While a journal is read none is too old, as later records may refer to it. Forget those that
 * the broker which wrote it had forgotten at `wall`; false when there are none. */
bool rota_broker_ended_forget_read(struct rota_broker *broker, rota_time wall);

/* When the first of them is too old. */
rota_time rota_broker_ended_forgets_at(const struct rota_broker *broker);

/* The oldest is about to be removed and is not in the cache: prefetch it, and the next ones.
 * Only for speed. */
void rota_broker_ended_fetch_oldest(const struct rota_broker *broker);
void rota_broker_ended_list_push(struct rota_broker *broker, uint32_t number);
void rota_broker_ended_list_remove(struct rota_broker *broker, uint32_t number);

/* --- broker_timer.c --- */

/* Set the job's timer to what its state needs. */
void rota_broker_timer_set(struct rota_broker *broker, const struct rota_job *job);

/* From now on the attempt has its timeout, if it has one, and the grace after it. The timer is not
 * set. */
void rota_broker_timer_limit_attempt(const struct rota_broker *broker,
                                     struct rota_job_extra *extra);

/* Stop the job's timer. */
void rota_broker_timer_drop(struct rota_broker *broker, const struct rota_job *job);

/* The job's extra, with room for its timer; NULL when there is no memory. */
struct rota_job_extra *rota_broker_timer_need_extra(struct rota_broker *broker,
                                                    uint32_t job_number);

/* The first extra that is due; 0: none. */
uint32_t rota_broker_timer_due(const struct rota_broker *broker);
rota_time rota_broker_timer_first(const struct rota_broker *broker);

/* --- broker_match.c --- */

void rota_broker_match_mark_dirty(struct rota_broker *broker, struct rota_lane *lane);

/* Hand out jobs that entered lanes, while there are free workers. */
void rota_broker_match(struct rota_broker *broker);

/* Hand jobs to one worker, as long as it is free. It may be freed by this. */
void rota_broker_match_serve(struct rota_broker *broker, struct rota_work_worker *worker);

/* Send the attempts whose START is written. */
void rota_broker_match_send_starts(struct rota_broker *broker);

/* The next rota_broker_match() examines everything that waits. */
void rota_broker_match_offer_all(struct rota_broker *broker);

/* The next rota_broker_match() examines what waits for such a worker, which has become free. */
void rota_broker_match_offer(struct rota_broker *broker, const struct rota_work_worker *worker);

/* End yields whose time is over. */
void rota_broker_match_end_breaths(struct rota_broker *broker);

/* Whether anything may be handed out at all. */
static inline bool rota_broker_may_dispatch(const struct rota_broker *broker)
{
    return broker->is_begun && broker->durable >= broker->life_number && !broker->is_on_hold;
}

/* --- broker_class.c --- */

/* The class of a worker's queues and capabilities, made if needed; it is removed when
 * rota_broker_class_settle() finds neither a worker nor a leased attempt in it. */
enum rota_code rota_broker_class_need(struct rota_broker *broker,
                                      const struct rota_worker_spec *spec,
                                      struct rota_work_class **class, struct rota_error *error);
void rota_broker_class_settle(struct rota_broker *broker, struct rota_work_class *class);

/* The choice of the class that a lane belongs to; NULL when it does not serve the queue. */
struct rota_choice *rota_broker_class_choice(const struct rota_work_class *class, uint32_t queue);

/* Reserve room for a lane that fits the class; then add the lane. False when there is no memory. */
bool rota_broker_class_reserve_lane(struct rota_work_class *class, const struct rota_lane *lane,
                                    uint32_t number);
void rota_broker_class_add_lane(struct rota_work_class *class, struct rota_lane *lane,
                                uint32_t number);

/* Whether its workers serve the queue of a lane, and have the capabilities that its jobs need. */
bool rota_broker_class_fits(const struct rota_broker *broker, const struct rota_work_class *class,
                            const struct rota_lane *lane);

static inline bool rota_broker_class_has(const struct rota_work_class *class, uint32_t lane)
{
    return lane / 64 < class->has_lane.size && (class->has_lane.items[lane / 64] >> lane % 64 & 1);
}

/* A worker has free slots, or its last one was filled. */
void rota_broker_class_put_free(struct rota_broker *broker, struct rota_work_worker *worker);
void rota_broker_class_take_free(struct rota_work_worker *worker);

/* It has received a job: other workers, and other classes, are served before it next time. */
void rota_broker_class_turn(struct rota_broker *broker, struct rota_work_worker *worker);

/* --- broker_worker.c --- */

struct rota_work_worker *rota_broker_worker(const struct rota_broker *broker, uint64_t session);

/* An attempt of a worker begins or ends. */
void rota_broker_worker_take(struct rota_broker *broker, struct rota_work_worker *worker,
                             uint32_t job_number);
void rota_broker_worker_release(struct rota_broker *broker, uint32_t job_number);
void rota_broker_worker_detach(struct rota_broker *broker, struct rota_work_worker *worker);

/* Workers without a heartbeat are lost; workers that are gone lose their jobs. */
void rota_broker_worker_lose_all(struct rota_broker *broker);
void rota_broker_worker_free(struct rota_broker *broker, struct rota_work_worker *worker);

/* --- broker_poller.c --- */

/* A poll begins, or ends; false when there is no memory. */
bool rota_broker_poller_begin(struct rota_broker *broker, struct rota_work_worker *worker);
void rota_broker_poller_end(struct rota_broker *broker, struct rota_work_worker *worker);

/* The poller has the attempt, until rota_broker_poller_unlease(), which may find no poller.
 * `poller` may be NULL. */
void rota_broker_poller_lease(struct rota_work_poller *poller, struct rota_job_extra *extra);
void rota_broker_poller_unlease(struct rota_broker *broker, struct rota_job_extra *extra);

/* --- broker_end.c --- */

/* End the running attempt: the job returns to the queue, or is DEAD when it is out of attempts.
 * After rota_broker_ready() with its lane. Returns the number of the record. */
uint64_t rota_broker_end_attempt_over(struct rota_broker *broker, uint32_t job_number,
                                      enum rota_job_cause cause, struct rota_str reason,
                                      rota_time retry_after);

/* The same when it is lost. */
uint64_t rota_broker_end_attempt_lost(struct rota_broker *broker, uint32_t job_number,
                                      enum rota_work_loss loss, const char *reason);

/* Whether the last attempt can still be ended: it runs, or it was lost and the job was not
 * handed out since. */
static inline bool rota_broker_is_attempt_open(const struct rota_job *job,
                                               const struct rota_job_extra *extra)
{
    bool is_back = job->state == ROTA_JOB_WAITING || job->state == ROTA_JOB_DELAYED;
    return job->state == ROTA_JOB_RUNNING ||
           (is_back && extra && extra->attempt && extra->ended == extra->attempt &&
            extra->ended_cause == ROTA_JOB_CAUSE_LOST && extra->cause == ROTA_JOB_CAUSE_LOST);
}

/* Whether a lost attempt may be resumed: the job was not handed out since. */
bool rota_broker_end_may_resume(const struct rota_broker *broker, const struct rota_job *job,
                                uint64_t attempt);

/* ... and its worker; NULL: not known. */
struct rota_work_name *rota_broker_end_resumes_for(const struct rota_job_extra *extra);

/* Resume it as if it had not been lost, in no session. After rota_broker_ready(). */
void rota_broker_end_resume(struct rota_broker *broker, uint32_t job_number);

/* End the job. After rota_broker_ready(), and it has an extra. */
uint64_t rota_broker_end_finish(struct rota_broker *broker, uint32_t job_number,
                                enum rota_job_state state, enum rota_job_cause cause,
                                struct rota_str reason, char *result, size_t result_size);

/* Its timer fired; false when there is no memory. */
bool rota_broker_end_on_time(struct rota_broker *broker, uint32_t job_number);

/* --- broker_setting.c --- */

/* Reserve memory for a change of a queue, which is made if needed. */
enum rota_code rota_broker_setting_begin(struct rota_broker *broker, struct rota_work_now now,
                                         struct rota_str name, struct rota_work_queue **queue,
                                         struct rota_error *error);

/* ... and its record. */
struct rota_work_record *rota_broker_setting_write(struct rota_broker *broker,
                                                   enum rota_work_record_type type,
                                                   const struct rota_work_queue *queue);

/* Rewrite all of them; false when there is no memory. */
bool rota_broker_setting_rewrite_all(struct rota_broker *broker,
                                     const struct rota_work_queue *queue);

/* --- broker_hand.c --- */

/* Rewrite the settings of a queue; false when there is no memory for all of it. */
bool rota_broker_hand_rewrite_queue(struct rota_broker *broker,
                                    const struct rota_work_queue *queue);

static inline bool rota_broker_is_of(const struct rota_broker *broker, const struct rota_job *job,
                                     const struct rota_work_queue *queue, uint32_t partition)
{
    return rota_job_partition(&broker->jobs, job) == partition &&
           rota_broker_queue_of(broker, job) == queue;
}

/* --- broker_load.c --- */

/* Loaded jobs start to count. */
void rota_broker_load_begin(struct rota_broker *broker, struct rota_work_queue *queue,
                            struct rota_work_partition *partition);

/* --- broker_node.c --- */

/* Jobs are about to be sent to this node. */
enum rota_code rota_broker_node_note_receiver(struct rota_broker *broker, struct rota_str address,
                                              struct rota_error *error);

/* Jobs arrive: if we have reported that we hold none, revoke that. False without memory. */
bool rota_broker_node_note_coming_back(struct rota_broker *broker);
enum rota_code rota_broker_node_read(struct rota_broker *broker,
                                     const struct rota_work_record *record,
                                     struct rota_error *error);
bool rota_broker_node_rewrite_all(struct rota_broker *broker);
void rota_broker_node_free_all(struct rota_broker *broker);

/* --- broker_chunk.c --- */

enum rota_code rota_broker_chunk_read(struct rota_broker *broker,
                                      const struct rota_work_record *record,
                                      struct rota_error *error);
enum rota_code rota_broker_chunk_read_taken(struct rota_broker *broker,
                                            const struct rota_work_record *record,
                                            struct rota_error *error);

/* A job of the chunk that is being received was made; false when there is no memory. */
bool rota_broker_chunk_note_coming(struct rota_broker *broker, const struct rota_job *job);

/* Undo a chunk that was not completed: its sender still has it. False when there is no memory. */
bool rota_broker_chunk_drop_coming(struct rota_broker *broker);

/* Rewrite all chunks; false when there is no memory for all of them. */
bool rota_broker_chunk_rewrite_all(struct rota_broker *broker);
void rota_broker_chunk_free_all(struct rota_broker *broker);

/* How many jobs of the partition are in flight. */
size_t rota_broker_chunk_n_jobs(const struct rota_broker *broker,
                                const struct rota_work_queue *queue, uint32_t partition);

/* Whether a job is in flight, as far as is known; it may be forgotten here already. */
bool rota_broker_chunk_has(const struct rota_broker *broker, const struct rota_work_queue *queue,
                           struct rota_job_id id);

/* The job has returned: it is no longer in flight. False when there is no memory for the record. */
bool rota_broker_chunk_undo(struct rota_broker *broker, const struct rota_work_queue *queue,
                            struct rota_job_id id);

/* --- broker_replay.c --- */

/* Begin the next life; its attempts are above all others. After rota_broker_ready(). */
void rota_broker_replay_next_life(struct rota_broker *broker);

/* Fill a JOB record with a job's current state; `record->spec` is set before. */
void rota_broker_replay_fill_job(const struct rota_broker *broker, const struct rota_job *job,
                                 struct rota_work_record *record);

/* A new job from a JOB record. It is in no lane or list. */
enum rota_code rota_broker_replay_take_job(struct rota_broker *broker,
                                           const struct rota_work_record *record, uint32_t *number,
                                           struct rota_error *error);

/* Convert the times of a job that was read to the monotonic clock. */
void rota_broker_replay_start_clocks(struct rota_broker *broker, uint32_t job_number);
