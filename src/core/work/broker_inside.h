/* What the files of the broker share; nobody else looks in here.
 *
 *   broker.c         its life, its effects, the clocks
 *   broker_queue.c   queues, partitions, lanes
 *   broker_job.c     what becomes of a job, without a word to anybody: also of one that is read
 *   broker_timer.c   who has to be looked at when
 *   broker_add.c     jobs come
 *   broker_match.c   jobs are handed out
 *   broker_class.c   who can do what
 *   broker_worker.c  workers come and go
 *   broker_poller.c  ... those that poll, and work while nobody hears of them
 *   broker_end.c     attempts and jobs end
 *   broker_ended.c   ... and are remembered for a while
 *   broker_replay.c  the journal is read, and written anew
 *   broker_setting.c pauses and weights
 *   broker_hand.c    partitions come and go
 *   broker_node.c    nodes that may hold jobs
 *   broker_load.c    ... and their jobs with them, where these are kept elsewhere
 *   broker_view.c    questions
 *   broker_idle.c    ... of other nodes: who is free, what waits
 *   broker_sound.c   whether all of it fits together
 *
 * A change is made whole or not at all: rota_broker_ready() gets the memory for it before
 * anything is touched. When there is none, whoever asked is told; what nobody asked for, as
 * when a worker is lost, stays undone and is tried again with the next tick. */
#pragma once

#include "base/arena.h"
#include "base/heap.h"
#include "core/work/breath.h"
#include "core/work/broker.h"
#include "core/work/capability.h"
#include "core/work/choice.h"
#include "core/work/fair.h"

enum { ROTA_BROKER_REFUSAL_MAX = 256 };

#define ROTA_BROKER_NONE UINT32_MAX /* no lane */

struct rota_work_partition {
    uint32_t number;
    bool is_open;
    bool is_loaded; /* and was not opened since: times and tags are to be set */
    uint64_t epoch; /* the highest that was seen */
    size_t n_jobs;  /* of whatever state */
    size_t n_live;  /* those that have not ended */
    size_t n_drawn; /* of these: the layout chose the partition, and not an id from elsewhere */
    uint32_t place; /* where the next chunk begins to look */
};

/* Some jobs of a partition that go to another broker. */
struct rota_work_chunk {
    struct rota_job_id name;
    uint32_t queue, partition;
    uint64_t number; /* of its last record */
    size_t n_ids;    /* 0: it is there */
    char *to;
    struct rota_job_id ids[]; /* sorted */
};

/* A chunk that is being taken in: what was made of it so far. */
struct rota_work_coming {
    struct rota_job_id name; /* none: there is none */
    ROTA_VECTOR(struct rota_job_id) ids;
    uint32_t queue; /* of them */
};

/* A chunk of another broker that is here. */
struct rota_work_taken {
    struct rota_job_id name;
    uint64_t number;
    rota_time over_at; /* wall clock: since when its sender knows; 0: it may ask again */
};

struct rota_work_queue {
    uint32_t number;
    bool is_paused;
    uint32_t kills_max;  /* see rota_broker_set_kills(); 0: the default */
    rota_time paused_at; /* wall clock: since when both are so; 0: neither was ever set */
    struct rota_work_layout layout;
    rota_time laid_at;                                  /* the same, for the layout */
    ROTA_VECTOR(struct rota_work_partition) partitions; /* by number */
    ROTA_VECTOR(uint32_t) lanes;                        /* by set; ROTA_BROKER_NONE: none */
    struct rota_fair_queue fair;
    size_t counts[ROTA_JOB_STATES];
    size_t n_lanes, n_classes;
    uint64_t least_tag; /* while a broker begins */
    uint64_t n_added, n_done, n_dead, n_retries, n_quarantined;
    bool is_noted;   /* among those that may be empty */
    bool is_deleted; /* and not used since */
    uint16_t name_size;
    char name[ROTA_JOB_QUEUE_NAME_MAX];
};

struct rota_work_class {
    struct rota_capability_list capabilities;
    uint32_t queues[ROTA_WORKER_QUEUES_MAX];
    size_t n_queues;
    struct rota_choice *choices;    /* one for each queue: the lanes that its workers can serve */
    ROTA_VECTOR(uint64_t) has_lane; /* a bit each */
    size_t n_workers, n_slots, n_free;
    size_t n_polls, n_pollers; /* of the workers; and by how many names */
    size_t n_leased;           /* attempts of polls that are over */
    struct rota_work_worker *first_free, *last_free;
    struct rota_work_class *next, *previous; /* of those with a free worker */
    rota_time free_since;                    /* while there is one */
    struct rota_breath breath;
    bool is_away; /* without a worker */
    char *text;   /* what it is found by */
    size_t text_size;
};

/* Who polls: all polls of one name and class, and the attempts that such have got. */
struct rota_work_poller {
    struct rota_work_class *class;
    struct rota_work_name *name; /* held by its polls and attempts */
    struct rota_work_poller *next;
    uint32_t n_polls, n_leased;
    size_t place; /* among all */
    rota_time heard_at;
};

/* How an attempt was lost. */
enum rota_work_loss {
    ROTA_LOSS_LEFT, /* its worker went in order, or never got it */
    ROTA_LOSS_DIED, /* its worker is dead, perhaps by this job */
    ROTA_LOSS_OURS, /* this broker was away and does not know: it does not count */
};

struct rota_work_worker {
    struct rota_heap_node alarm; /* when to see whether it was heard */
    uint64_t session, epoch;
    struct rota_work_name *name;
    struct rota_work_class *class;
    struct rota_work_poller *poller;          /* of a poll */
    struct rota_work_worker *next, *previous; /* of those that are free */
    uint32_t slots, n_running, n_free;
    uint32_t running; /* the first of its jobs; 0: none */
    rota_time liveness, lease, heard_at;
    bool is_poll, is_hasty, is_free;
    bool is_gone; /* lost or closed, but not yet rid of its jobs */
    bool is_told; /* ... and that will be told */
    enum rota_work_loss loss;
};

struct rota_ended_list {
    uint32_t first, last; /* numbers of extras, not of jobs */
    uint32_t hint;        /* the last one that was not put last: the next such is often beside it */
};

/* A block that is of no use any more. */
struct rota_work_trash {
    void *block;
    size_t size; /* of one of the table's; 0: it is malloc's */
};

/* Another node, or ourselves. */
struct rota_work_node {
    enum rota_broker_node_state state;
    rota_time at;      /* wall clock: since when */
    rota_time left_at; /* monotonic: when it was last listed, in this life */
    bool is_listed, is_placed, is_seen;
    bool is_left; /* of ourselves: we have said that we hold none */
    size_t size;
    char address[];
};

struct rota_broker {
    struct rota_broker_options options;
    struct rota_random random;
    uint64_t seed;   /* of tables */
    uint64_t chance; /* of the next id */
    struct rota_job_table jobs;
    struct rota_capabilities capabilities;
    struct rota_fair fair;

    ROTA_VECTOR(struct rota_work_queue *) queues; /* NULL: the number is free */
    struct rota_map queues_by_name;
    struct rota_work_queue *last_queue;    /* that was asked for */
    size_t free_queue, free_lane;          /* no number below is free */
    ROTA_VECTOR(uint32_t) empties;         /* queues that may have become so */
    uint64_t n_layouts;                    /* that were ever set */
    ROTA_VECTOR(struct rota_lane *) lanes; /* NULL: the number is free */
    ROTA_VECTOR(uint32_t) dirty;           /* lanes that jobs came to; never needs memory */
    size_t n_lanes;

    struct rota_map classes;
    struct rota_work_class *first_free, *last_free;
    ROTA_VECTOR(struct rota_work_worker *) workers; /* by the low bits of a session */
    ROTA_VECTOR(uint32_t) free_workers;             /* numbers; never needs memory */
    struct rota_map workers_by_name;                /* those with an epoch */
    ROTA_VECTOR(struct rota_work_poller *) pollers;
    size_t n_away; /* classes without a worker */
    struct rota_heap alarms;
    size_t n_gone;
    uint32_t serial;

    struct rota_map names;        /* of workers */
    struct rota_map uniques;      /* jobs by queue and unique key */
    ROTA_VECTOR(uint32_t) timers; /* extras, a heap; never needs memory */
    struct rota_ended_list dead, ended;
    size_t n_live, n_ended, bytes;
    size_t peak;           /* what jobs held at most, see rota_broker_has_shrunk() */
    uint32_t first_unsafe; /* the first job, by record, whose record is not on disk */

    ROTA_VECTOR(struct rota_work_chunk *) chunks;
    ROTA_VECTOR(struct rota_work_taken) taken;
    struct rota_work_coming coming;
    ROTA_VECTOR(struct rota_work_node *) nodes; /* that may hold jobs, or did */

    ROTA_VECTOR(struct rota_work_effect) effects;
    ROTA_VECTOR(struct rota_work_trash) trash; /* what effects may point to */
    struct rota_arena arena;
    struct rota_job_spec *spec_ahead; /* of the next record that has one */
    struct rota_work_record noted;    /* the last one that is not told */

    struct rota_work_now now; /* of this call; `boot` never goes back */
    rota_time spare_until;    /* we were not there ourselves: nobody is lost before */
    rota_time stamp;          /* wall clock: never goes back */
    uint64_t life;
    uint64_t n_attempts; /* that were made up */
    uint64_t chances;    /* of the last of them, and of the next */
    uint64_t n_handed;   /* that were handed out */
    uint64_t last_number, durable, life_number;
    uint64_t rewrite_number, settings_number;
    size_t rewrite_left;
    size_t n_passed_over;
    uint64_t n_looks; /* at lanes, for what goes next */
    bool is_begun, is_starved, is_on_hold;
    bool is_unwatched;
    bool is_shared;      /* with other nodes */
    rota_time breath_at; /* when the first breath is over; 0: there is none */
    char refusal[ROTA_BROKER_REFUSAL_MAX];
    uint64_t add_room; /* bytes of new jobs that may be taken in yet ... */
    bool is_bounded;   /* ... if that is bounded */
    bool is_short;     /* one was refused for it */

    struct rota_job_event events[ROTA_JOB_STORY_MAX + 4]; /* of the last view */
    char put_off[ROTA_TIME_TEXT_MAX + 16];                /* of the first of them */
    struct rota_job_spec spec;                            /* of the last record shown */
};

/* --- broker_add.c --- */

/* Whether a job of this spec may be written, and `more` bytes with it. What is taken in then is
 * counted with rota_broker_take_room(). */
enum rota_code rota_broker_check_disk(struct rota_broker *broker, const struct rota_job_spec *spec,
                                      size_t more, struct rota_error *error);
void rota_broker_take_room(struct rota_broker *broker, const struct rota_job_spec *spec,
                           size_t more);

/* Bytes that a job takes in a journal, by a guess that is not too low. */
size_t rota_broker_spec_size(const struct rota_job_spec *spec);

/* --- broker.c --- */

/* A call begins, at `now`. */
void rota_broker_at(struct rota_broker *broker, struct rota_work_now now);

/* The memory for one change of a job of `lane` (NULL: it will not wait). False when there is
 * none: the change must not begin. */
bool rota_broker_ready(struct rota_broker *broker, struct rota_lane *lane);

/* One more effect, zeroed but for what it is and about. `job` may be NULL. */
struct rota_work_effect *rota_broker_emit(struct rota_broker *broker,
                                          enum rota_work_effect_type type,
                                          const struct rota_job *job);

/* One more record, with its number and `at`. `job` may be NULL. */
struct rota_work_record *rota_broker_write(struct rota_broker *broker,
                                           enum rota_work_record_type type,
                                           const struct rota_job *job);

/* The same for one that only a journal reads: without one it is gone with the next. */
struct rota_work_record *rota_broker_note(struct rota_broker *broker,
                                          enum rota_work_record_type type,
                                          const struct rota_job *job);

/* The spec of a job for the record that was written last. */
void rota_broker_attach_spec(struct rota_broker *broker, const struct rota_job *job);

/* Tell those who watch, if there are such. */
void rota_broker_tell(struct rota_broker *broker, const struct rota_job *job, uint64_t number);

/* Free a block that effects may point to. Takes `block`, which may be NULL. */
void rota_broker_discard(struct rota_broker *broker, void *block);

/* A moment of the wall clock on the monotonic one; ROTA_TIME_NEVER for 0. */
rota_time rota_broker_boot_of(const struct rota_broker *broker, rota_time wall);

struct rota_work_name *rota_broker_hold_name(struct rota_broker *broker, struct rota_str name);
void rota_broker_drop_name(struct rota_broker *broker, struct rota_work_name *name);

/* --- broker_queue.c --- */

/* NULL when there is none. */
struct rota_work_queue *rota_broker_queue(const struct rota_broker *broker, struct rota_str name);

/* ... and made if need be. */
enum rota_code rota_broker_need_queue(struct rota_broker *broker, struct rota_str name,
                                      struct rota_work_queue **queue, struct rota_error *error);
void rota_broker_free_queue(struct rota_broker *broker, struct rota_work_queue *queue);

/* Its last job or class has gone, perhaps. Without memory that is found out at the bound. */
void rota_broker_note_empty(struct rota_broker *broker, struct rota_work_queue *queue);

/* The lane of a spec, made if need be. Lanes without jobs go when others need the room. */
enum rota_code rota_broker_need_lane(struct rota_broker *broker, const struct rota_job_spec *spec,
                                     struct rota_lane **lane, struct rota_error *error);

/* NULL when nothing is known of it. It is at its own number when all below are known. */
struct rota_work_partition *rota_broker_search_partition(const struct rota_work_queue *queue,
                                                         uint32_t partition);

static inline struct rota_work_partition *rota_broker_partition(const struct rota_work_queue *queue,
                                                                uint32_t partition)
{
    if (partition < queue->partitions.size &&
        queue->partitions.items[partition].number == partition)
        return &queue->partitions.items[partition];
    return rota_broker_search_partition(queue, partition);
}

enum rota_code rota_broker_need_partition(struct rota_work_queue *queue, uint32_t number,
                                          struct rota_work_partition **partition,
                                          struct rota_error *error);

static inline struct rota_lane *rota_broker_lane_of(const struct rota_broker *broker,
                                                    const struct rota_job *job)
{
    return broker->lanes.items[job->lane];
}

/* Whether a job is in its partition because a layout chose that, and not its id. */
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
uint32_t rota_broker_find_job(const struct rota_broker *broker, struct rota_str queue,
                              struct rota_job_id id);

/* ... and the error when there is none. */
enum rota_code rota_broker_want_job(const struct rota_broker *broker, struct rota_str queue,
                                    struct rota_job_id id, uint32_t *number,
                                    struct rota_error *error);

/* --- broker_job.c --- */

static inline bool rota_job_state_is_ended(int state)
{
    return state >= ROTA_JOB_DONE;
}

void rota_broker_set_state(struct rota_broker *broker, struct rota_job *job,
                           enum rota_job_state state);

/* A job as it was asked for, WAITING, in no lane or list. Its partition must be known. */
enum rota_code rota_broker_job_new(struct rota_broker *broker, const struct rota_job_spec *spec,
                                   struct rota_job_id id, rota_time at, uint64_t order,
                                   uint32_t *number, struct rota_error *error);

/* It is gone; false when there is no memory for what effects point to. To erase it is to know
 * that none do, or that the memory is ready. */
void rota_broker_job_erase(struct rota_broker *broker, uint32_t number);
bool rota_broker_job_free(struct rota_broker *broker, uint32_t number);

/* Its last whole record is `record`. */
void rota_broker_job_whole(struct rota_broker *broker, uint32_t number, uint64_t record);

/* It waits, and goes to its lane if it may be handed out. After rota_broker_ready(). */
void rota_broker_job_enter(struct rota_broker *broker, uint32_t number);

/* It goes from its lane, in which it has to be; or only if it is there. */
void rota_broker_job_pull(struct rota_broker *broker, uint32_t number);

static inline void rota_broker_job_leave(struct rota_broker *broker, uint32_t number)
{
    if (rota_job_at(&broker->jobs, number)->flags & ROTA_JOB_IN_LANE)
        rota_broker_job_pull(broker, number);
}

/* An attempt begins; the job has an extra. Takes one hold of `worker`, which may be NULL. */
void rota_broker_job_start(struct rota_broker *broker, uint32_t number, uint64_t attempt,
                           uint32_t n_attempts, struct rota_work_name *worker, rota_time at);

/* The attempt that runs is over and the job comes back; `number` is that of the record that says
 * so. Its state is WAITING or DELAYED, by `not_before`, but it is in no lane. */
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
char *rota_broker_copy(struct rota_broker *broker, struct rota_str bytes);

/* Free a copy of `size` bytes. */
void rota_broker_discard_copy(struct rota_broker *broker, char *copy, size_t size);

/* What is kept of a payload when its job is done; never 0. */
uint64_t rota_broker_hash_payload(const struct rota_broker *broker, struct rota_str payload);

void rota_broker_fill_spec(const struct rota_broker *broker, const struct rota_job *job,
                           struct rota_job_spec *spec);

/* --- broker_ended.c --- */

/* Ended jobs go until both bounds hold with `bytes` more; those that are too old, too. */
void rota_broker_forget_ended(struct rota_broker *broker, size_t bytes);

/* While a journal is read none is too old, as later records may be about it. Forget those that the
 * broker which wrote it had forgotten at `wall`; false when there are none. */
bool rota_broker_forget_read(struct rota_broker *broker, rota_time wall);

/* When the first of them is too old. */
rota_time rota_broker_forgets_at(const struct rota_broker *broker);

/* One of them is about to go, and was not looked at for long: what it takes, and what the next
 * ones take, is fetched into the processor's cache. Nothing depends on it. */
void rota_broker_fetch_oldest(const struct rota_broker *broker);
void rota_ended_list_push(struct rota_broker *broker, uint32_t number);
void rota_ended_list_remove(struct rota_broker *broker, uint32_t number);

/* --- broker_timer.c --- */

/* Look at a job when its state wants it. */
void rota_broker_set_timer(struct rota_broker *broker, const struct rota_job *job);

/* From now on the attempt has its timeout, if it has one, and the grace after it. The timer is not
 * set. */
void rota_broker_limit_attempt(const struct rota_broker *broker, struct rota_job_extra *extra);

/* Nobody looks at it until its timer is set again. */
void rota_broker_drop_timer(struct rota_broker *broker, const struct rota_job *job);

/* The job's extra, with room for its timer; NULL when there is no memory. */
struct rota_job_extra *rota_broker_need_extra(struct rota_broker *broker, uint32_t job_number);

/* The first extra that is due; 0: none. */
uint32_t rota_broker_due(const struct rota_broker *broker);
rota_time rota_broker_first_timer(const struct rota_broker *broker);

/* --- broker_match.c --- */

void rota_broker_mark_dirty(struct rota_broker *broker, struct rota_lane *lane);

/* Hand out what came to lanes, as far as there are free workers. */
void rota_broker_match(struct rota_broker *broker);

/* Hand out to one worker, as long as it is free. It may be gone after it. */
void rota_broker_serve(struct rota_broker *broker, struct rota_work_worker *worker);

/* The next rota_broker_match() sees all that waits. */
void rota_broker_offer_all(struct rota_broker *broker);

/* The next rota_broker_match() sees what waits for such a worker, which has become free. */
void rota_broker_offer(struct rota_broker *broker, const struct rota_work_worker *worker);

/* Breaths that are over, end. */
void rota_broker_end_breaths(struct rota_broker *broker);

/* Whether anything may be handed out at all. */
static inline bool rota_broker_may_dispatch(const struct rota_broker *broker)
{
    return broker->is_begun && broker->durable >= broker->life_number && !broker->is_on_hold;
}

/* --- broker_class.c --- */

/* The class of a worker's queues and capabilities, made if need be; it goes when
 * rota_broker_settle_class() finds no worker in it, nor anything that one was leased. */
enum rota_code rota_broker_need_class(struct rota_broker *broker,
                                      const struct rota_worker_spec *spec,
                                      struct rota_work_class **class, struct rota_error *error);
void rota_broker_settle_class(struct rota_broker *broker, struct rota_work_class *class);

/* The choice of the class that a lane belongs to; NULL when it does not serve the queue. */
struct rota_choice *rota_broker_class_choice(const struct rota_work_class *class, uint32_t queue);

/* Room for a lane that the class fits; and the lane itself then. False when there is no memory. */
bool rota_broker_class_reserve_lane(struct rota_work_class *class, const struct rota_lane *lane,
                                    uint32_t number);
void rota_broker_class_add_lane(struct rota_work_class *class, struct rota_lane *lane,
                                uint32_t number);

/* Whether its workers serve the queue of a lane, and can do what its jobs need. */
bool rota_broker_class_fits(const struct rota_broker *broker, const struct rota_work_class *class,
                            const struct rota_lane *lane);

static inline bool rota_broker_class_has(const struct rota_work_class *class, uint32_t lane)
{
    return lane / 64 < class->has_lane.size && (class->has_lane.items[lane / 64] >> lane % 64 & 1);
}

/* A worker has free slots, or none any more. */
void rota_broker_put_free(struct rota_broker *broker, struct rota_work_worker *worker);
void rota_broker_take_free(struct rota_broker *broker, struct rota_work_worker *worker);

/* It has got a job: the others, and other classes, are asked before it next time. */
void rota_broker_turn(struct rota_broker *broker, struct rota_work_worker *worker);

/* --- broker_worker.c --- */

struct rota_work_worker *rota_broker_worker(const struct rota_broker *broker, uint64_t session);

/* An attempt of a worker begins or ends. */
void rota_broker_worker_take(struct rota_broker *broker, struct rota_work_worker *worker,
                             uint32_t job_number);
void rota_broker_worker_release(struct rota_broker *broker, uint32_t job_number);

/* Put it among the free or take it from them, as its slots are. */
void rota_broker_worker_settle(struct rota_broker *broker, struct rota_work_worker *worker);
void rota_broker_worker_detach(struct rota_broker *broker, struct rota_work_worker *worker);

/* Those that were not heard are lost; those that are gone lose their jobs. */
void rota_broker_lose_workers(struct rota_broker *broker);
void rota_broker_free_worker(struct rota_broker *broker, struct rota_work_worker *worker);

/* --- broker_poller.c --- */

/* A poll comes, or goes; false when there is no memory. */
bool rota_broker_poll_begin(struct rota_broker *broker, struct rota_work_worker *worker);
void rota_broker_poll_end(struct rota_broker *broker, struct rota_work_worker *worker);

/* The attempt is the poller's, until rota_broker_unlease(), which may find that it is nobody's.
 * `poller` may be NULL. */
void rota_broker_lease(struct rota_work_poller *poller, struct rota_job_extra *extra);
void rota_broker_unlease(struct rota_broker *broker, struct rota_job_extra *extra);

/* --- broker_end.c --- */

/* End the attempt that runs: back to the queue, or to its end when it is out of attempts.
 * After rota_broker_ready() with its lane. Returns the number of the record. */
uint64_t rota_broker_attempt_over(struct rota_broker *broker, uint32_t job_number,
                                  enum rota_job_cause cause, struct rota_str reason,
                                  rota_time retry_after);

/* The same when it is lost. */
uint64_t rota_broker_attempt_lost(struct rota_broker *broker, uint32_t job_number,
                                  enum rota_work_loss loss, const char *reason);

/* Whether the last attempt can still be ended: it runs, or it was lost and nobody has had the job
 * since. */
static inline bool rota_broker_is_attempt_open(const struct rota_job *job,
                                               const struct rota_job_extra *extra)
{
    bool is_back = job->state == ROTA_JOB_WAITING || job->state == ROTA_JOB_DELAYED;
    return job->state == ROTA_JOB_RUNNING ||
           (is_back && extra && extra->attempt && extra->ended == extra->attempt &&
            extra->ended_cause == ROTA_JOB_CAUSE_LOST && extra->cause == ROTA_JOB_CAUSE_LOST);
}

/* Whether an attempt that was lost may go on: nobody has had the job since. */
bool rota_broker_may_resume(const struct rota_broker *broker, const struct rota_job *job,
                            uint64_t attempt);

/* ... and who had it; NULL: not known. */
struct rota_work_name *rota_broker_resumes_for(const struct rota_job_extra *extra);

/* It goes on as if it had not been lost, and is in no session. After rota_broker_ready(). */
void rota_broker_resume(struct rota_broker *broker, uint32_t job_number);

/* The job comes to its end. After rota_broker_ready(), and it has an extra. */
uint64_t rota_broker_finish(struct rota_broker *broker, uint32_t job_number,
                            enum rota_job_state state, enum rota_job_cause cause,
                            struct rota_str reason, char *result, size_t result_size);

/* Its time has come; false when there is no memory. */
bool rota_broker_on_time(struct rota_broker *broker, uint32_t job_number);

/* --- broker_setting.c --- */

/* A change of a queue, which is made if need be, has memory. */
enum rota_code rota_broker_begin_setting(struct rota_broker *broker, struct rota_work_now now,
                                         struct rota_str name, struct rota_work_queue **queue,
                                         struct rota_error *error);

/* ... and its record. */
struct rota_work_record *rota_broker_write_setting(struct rota_broker *broker,
                                                   enum rota_work_record_type type,
                                                   const struct rota_work_queue *queue);

/* All of them anew; false when there is no memory. */
bool rota_broker_rewrite_settings(struct rota_broker *broker, const struct rota_work_queue *queue);

/* --- broker_hand.c --- */

/* Write what was set for a queue anew; false when there is no memory for all of it. */
bool rota_broker_rewrite_queue(struct rota_broker *broker, const struct rota_work_queue *queue);

static inline bool rota_broker_is_of(const struct rota_broker *broker, const struct rota_job *job,
                                     const struct rota_work_queue *queue, uint32_t partition)
{
    return rota_job_partition(&broker->jobs, job) == partition &&
           rota_broker_queue_of(broker, job) == queue;
}

/* --- broker_load.c --- */

/* Jobs that were loaded begin to count. */
void rota_broker_begin_loaded(struct rota_broker *broker, struct rota_work_queue *queue,
                              struct rota_work_partition *partition);

/* --- broker_node.c --- */

/* Jobs are about to be sent to this node. */
enum rota_code rota_broker_note_receiver(struct rota_broker *broker, struct rota_str address,
                                         struct rota_error *error);

/* Jobs come to us: if we have said that we hold none, that is over. False without memory. */
bool rota_broker_note_coming_back(struct rota_broker *broker);
enum rota_code rota_broker_read_node(struct rota_broker *broker,
                                     const struct rota_work_record *record,
                                     struct rota_error *error);
bool rota_broker_rewrite_nodes(struct rota_broker *broker);
void rota_broker_free_nodes(struct rota_broker *broker);

/* --- broker_chunk.c --- */

enum rota_code rota_broker_read_chunk(struct rota_broker *broker,
                                      const struct rota_work_record *record,
                                      struct rota_error *error);
enum rota_code rota_broker_read_taken(struct rota_broker *broker,
                                      const struct rota_work_record *record,
                                      struct rota_error *error);

/* A job of the chunk that is being taken in was made; false when there is no memory. */
bool rota_broker_note_coming(struct rota_broker *broker, const struct rota_job *job);

/* A chunk that did not come as a whole is as if it had never come: whoever sent it has it.
 * False when there is no memory. */
bool rota_broker_drop_coming(struct rota_broker *broker);

/* Write all chunks anew; false when there is no memory for all of them. */
bool rota_broker_rewrite_chunks(struct rota_broker *broker);
void rota_broker_free_chunks(struct rota_broker *broker);

/* How many jobs of the partition are on their way. */
size_t rota_broker_n_chunked(const struct rota_broker *broker, const struct rota_work_queue *queue,
                             uint32_t partition);

/* Whether a job is on its way, as far as is known; it may be forgotten here already. */
bool rota_broker_is_chunked(const struct rota_broker *broker, const struct rota_work_queue *queue,
                            struct rota_job_id id);

/* It has come back: it is not any more. False when there is no memory to say so. */
bool rota_broker_unchunk(struct rota_broker *broker, const struct rota_work_queue *queue,
                         struct rota_job_id id);

/* --- broker_replay.c --- */

/* Another life begins; attempts of it are above all others. After rota_broker_ready(). */
void rota_broker_next_life(struct rota_broker *broker);

/* Fill a JOB record with a job as it is; `record->spec` is set before. */
void rota_broker_fill_job(const struct rota_broker *broker, const struct rota_job *job,
                          struct rota_work_record *record);

/* A new job that is what a JOB record says. It is in no lane or list. */
enum rota_code rota_broker_take_job(struct rota_broker *broker,
                                    const struct rota_work_record *record, uint32_t *number,
                                    struct rota_error *error);

/* Count the times of a job that was read on the monotonic clock from now on. */
void rota_broker_start_clocks(struct rota_broker *broker, uint32_t job_number);
