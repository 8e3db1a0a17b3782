/* broker: which job goes to which worker, and the state of both.
 *
 * One broker holds all partitions that a node owns, of all queues, and all workers that are
 * connected to it. It decides; its driver writes its records to a journal, carries frames, and
 * supplies the time.
 *
 *     WAITING --dispatched--> RUNNING --complete--> DONE
 *     RUNNING --failed, lost, timed out--> DELAYED --its time--> WAITING
 *     RUNNING --returned--> WAITING            RUNNING, ... --out of attempts--> DEAD
 *     any of these --cancel--> CANCELLED       DEAD --revive--> WAITING
 *
 * **Choice.** Of the jobs whose capabilities a free worker has: in each queue that it serves the
 * highest priority, then the lowest tag, then the oldest enqueue time, then the lowest number;
 * among those of several queues the same without the tags, which are local to a queue. Tags make
 * keys share a queue fairly: each job's tag is its key's virtual time when it was added, in units
 * of one over the key's weight then, and never before that of the last job handed out; without keys
 * tags only grow, so that the oldest goes first. A job that returns to the queue keeps its tag and
 * its age. Jobs wait in *lanes*, one for each pair of a queue and a set of capabilities; workers
 * with the same queues and capabilities are a *class*, which orders its lanes by their first job. A
 * choice costs the logarithm of the lanes of a class for each lane that has changed since its last
 * one, and a change that of a lane: a million waiting jobs and hundreds of sets cost little more
 * than ten of one.
 *
 * **Durability.** A record that the broker emits has a number. A job is handed out only when its
 * ADD is on disk, an answer to a submitter or a worker waits for its record; the driver calls
 * rota_broker_durable() when records are on disk. In a journal, nothing waits for START; where jobs
 * are rows (`has_rows`), the worker does.
 *
 * **Attempts** are fenced: the number of an attempt (its fencing token) is 2^32 times the broker's
 * life (a counter of restarts) plus a random number, above the attempts that the job had in this
 * life. So a job's attempts grow, even when the last records before a crash were lost, and can't be
 * guessed: an adopted job brings the life of its former owner, and ours is above it from then on. A
 * caller that completes, fails or extends a job must name the running attempt, and a worker with a
 * session must be the one that has it; every other call is rejected with ROTA_ERR_STALE. After a
 * restart a job that was running stays RUNNING for `grace`, in which its worker may reconnect and
 * name it; then it is LOST like any other. A worker may also name an attempt whose START was lost;
 * it is resumed if the job waits.
 *
 * **Workers.** A session is one connection of a worker: opening one under a name that has a session
 * ends the older at once, unless that has a higher epoch. A session without a heartbeat for its
 * liveness is lost, and so are its attempts: their jobs wait again with their old age, after the
 * backoff of a failure, since the job may have killed the worker. At the third death (or the
 * queue's limit) the job is DEAD, and its reason names the workers. A lost attempt is resumed when
 * its worker returns and names it, or ends it, before the job was handed out again: it counts once,
 * and not as a death. A report that comes while the next attempt runs is rejected, but takes the
 * death back, too.
 *
 * **Our own absence.** When a tick is late by ROTA_BROKER_STALL we were not running, and could not
 * receive heartbeats: no worker is lost for the next `grace`. Before a worker may be lost, a tick
 * is due every ROTA_BROKER_WATCH, so that a pause shows even if it is hardly longer than a lease.
 * An attempt that is lost nevertheless because we were not running, or were restarted, does not
 * count.
 *
 * Invariants: a job is in one state and, when running, with one attempt; a worker never has more
 * attempts than slots, nor one that it lacks a capability for; no job waits while a free worker
 * of this broker can take it, unless its queue is paused, its record is not on disk or the
 * worker yields to other nodes (yield.h); everything that grows is bounded by the options. */
#pragma once

#include "core/work/job/job.h"

#include <rota/experimental/random.h>

struct rota_broker;

enum {
    ROTA_BROKER_JOBS_MAX = 50000000,
    ROTA_BROKER_LANES_MAX = 131072, /* pairs of a queue and a set of capabilities */
    ROTA_BROKER_SETS_MAX = 1024,    /* sets of capabilities that jobs need */
    ROTA_BROKER_QUEUES_MAX = 100000,
    ROTA_BROKER_WORKERS_MAX = 65536,
    ROTA_BROKER_KEYS_MAX = 65536, /* fair keys with a job or a weight */
    ROTA_BROKER_AWAY_MAX =
        1024, /* classes of workers that are remembered while none of them polls */
};

#define ROTA_BROKER_GRACE (5 * ROTA_SEC)
#define ROTA_BROKER_STALL (1 * ROTA_SEC)    /* a tick that is this late: we were not running */
#define ROTA_BROKER_WATCH (250 * ROTA_MSEC) /* between ticks, before a worker may be lost */

/* Zero means the default. */
struct rota_broker_options {
    size_t jobs_max;   /* that have not ended */
    size_t queues_max; /* with jobs, workers or settings; 0: ROTA_BROKER_QUEUES_MAX, at most that */
    size_t bytes_max;  /* of payloads and results; 0: 4 GiB */
    size_t ended_max;  /* ended jobs that are kept; 0: 100,000 */
    rota_time keep;    /* ... and for how long; DEAD ones stay until `ended_max` */
    rota_time grace;
    /* Jobs are rows that the next owner of their partition reads. FORGET is written for an ended
     * job that is removed for age or number, too. A job is handed out only when its START is
     * written, or that owner would hand it out again; and an attempt without a session outlives its
     * partition here: its worker ends it there. */
    bool has_rows;
    bool is_volatile; /* records are not kept: those of a job's usual course, ADD, START and END as
                         DONE, have their numbers but are not emitted; ADD is while jobs are watched
                       */
    uint32_t kills_max; /* of queues without a limit of their own, see rota_broker_set_kills() */
    uint64_t seed;      /* for random ids, jitter, hashes */
    uint64_t secret; /* for attempt numbers, which must not be guessable from other random values */

    /* Of queues without a layout of their own: a queue that is set back to this needs no record. */
    struct rota_work_layout layout;
};

/* Both clocks, read together. */
struct rota_work_now {
    rota_time boot; /* monotonic */
    rota_time wall;
};

enum rota_work_effect_type {
    ROTA_WORK_DO_RECORD,   /* append `record` to the journal; in the order of the numbers */
    ROTA_WORK_DO_DISPATCH, /* send the job to `session` as `attempt` */
    ROTA_WORK_DO_CANCEL,   /* tell `session` to stop `attempt` of `id`, for `cause` */
    ROTA_WORK_TELL_ENDED,  /* `id` has ended; true once `number` is on disk */
    ROTA_WORK_TELL_STATE,  /* `id` changed its state, or made progress: for watchers */
    ROTA_WORK_TELL_LOST, /* `session` is over: no heartbeat, another took its place, or a poll whose
                            jobs are another node's now */
};

/* Pointers are into the broker, and valid until rota_broker_clear(). */
struct rota_work_effect {
    enum rota_work_effect_type type;
    uint64_t number; /* of the record that it waits for; 0: none */
    struct rota_job_id id;
    struct rota_str queue; /* of the job; empty when it is not about a job */
    uint64_t attempt;
    uint32_t n_attempts; /* this one included */
    uint64_t session;
    enum rota_job_cause cause;

    /* Of DISPATCH. */
    uint64_t handed;   /* grows with each; see rota_broker_worker_holds() */
    rota_time timeout; /* of this attempt, the deadline included */
    int16_t priority;
    struct rota_str payload, key, trace;

    struct rota_work_record record; /* of RECORD, else not set; the bytes are the broker's */
};

enum rota_code rota_broker_new(const struct rota_broker_options *options,
                               struct rota_broker **broker, struct rota_error *error);
void rota_broker_free(struct rota_broker *broker);

/* What to do, in this order. Every call adds effects, so that a driver may handle many frames
 * before it looks; the list is borrowed until the next call, and rota_broker_clear() removes
 * what was done. */
const struct rota_work_effect *rota_broker_effects(const struct rota_broker *broker, size_t *n);
void rota_broker_clear(struct rota_broker *broker);

/* Whether jobs are watched, true at first: TELL_ENDED and TELL_STATE are for watchers only. */
void rota_broker_set_watched(struct rota_broker *broker, bool is_watched);

/* --- the journal --- */

/* Replay a record of the journal, before rota_broker_begin(). ROTA_ERR_INVALID for one that
 * contradicts earlier ones; it is skipped, and counted. */
enum rota_code rota_broker_replay(struct rota_broker *broker, const struct rota_work_record *record,
                                  struct rota_error *error);

/* A hint: a record about `id` will be replayed after the next ROTA_JOB_FORESEEN that are named.
 * Lets the table prefetch. */
void rota_broker_foresee(struct rota_broker *broker, struct rota_job_id id);

/* The journal is read. Begins the next life; emits LIFE, and hands nothing out before that is on
 * disk. Partitions that were ours are ours again: a driver closes those that it has lost
 * meanwhile before it admits workers. */
void rota_broker_begin(struct rota_broker *broker, struct rota_work_now now);

/* All records up to `number` are on disk. */
void rota_broker_durable(struct rota_broker *broker, struct rota_work_now now, uint64_t number);

/* While `why` is set, no job is accepted: the disk is full. Copied; NULL: jobs are accepted. */
void rota_broker_refuse_adds(struct rota_broker *broker, const char *why);

/* Accept no more than `bytes` of new jobs, from now on and until the next call: that is the room
 * for them. The first that does not fit is rejected, and all that follow. Without a call
 * there is no limit. */
void rota_broker_allow_adds(struct rota_broker *broker, uint64_t bytes);

/* Whether a job was rejected for that since the last call. */
bool rota_broker_is_short(const struct rota_broker *broker);

/* Rewrite jobs whose last whole record (ADD or JOB) is below `number`, as JOB records: at most
 * `n_max` of them, and `bytes_max` bytes by our estimate. Returns how many are left, so that a
 * journal can drop old segments. Queue settings and ownership are rewritten after the last of
 * them. */
size_t rota_broker_rewrite(struct rota_broker *broker, uint64_t number, size_t n_max,
                           size_t bytes_max);

/* How many bytes that would take, an upper bound: of at most `n_max` jobs, and stops counting
 * above `enough`. */
uint64_t rota_broker_rewrite_size(const struct rota_broker *broker, uint64_t number, size_t n_max,
                                  uint64_t enough);

/* --- submitters --- */

/* Add a job. Gives its id and the number of the record to wait for; `is_new` is false when this
 * job, or one with this unique key, exists already: then `*id` is that job's and `*number` its
 * record's. ROTA_ERR_INVALID for an invalid spec or an id that another job has, ROTA_ERR_STALE
 * when the partition is not ours, ROTA_ERR_LIMIT when there is no room. */
enum rota_code rota_broker_add(struct rota_broker *broker, struct rota_work_now now,
                               const struct rota_job_spec *spec, struct rota_job_id *id,
                               bool *is_new, uint64_t *number, struct rota_error *error);

/* ROTA_ERR_INVALID when a job with the id of the spec is here, ours or not, and differs from the
 * spec; with a key it never does. Fields that may have changed since it was added are not
 * compared: its priority and when it may begin; neither is its trace. Of a payload whose job is
 * done only its size and a hash are left; of a job that was done before it arrived here, by a JOB
 * record, not even these, and its payload may be any. */
enum rota_code rota_broker_check_same(const struct rota_broker *broker,
                                      const struct rota_job_spec *spec, struct rota_error *error);

/* Cancel a job in any state; ROTA_ERR_NOT_FOUND, or ROTA_ERR_INVALID when it has ended. */
enum rota_code rota_broker_cancel(struct rota_broker *broker, struct rota_work_now now,
                                  struct rota_str queue, struct rota_job_id id, uint64_t *number,
                                  struct rota_error *error);

/* Return a dead or cancelled job to its queue. */
enum rota_code rota_broker_revive(struct rota_broker *broker, struct rota_work_now now,
                                  struct rota_str queue, struct rota_job_id id, uint64_t *number,
                                  struct rota_error *error);

/* Change the priority of a job that has not ended. */
enum rota_code rota_broker_set_priority(struct rota_broker *broker, struct rota_work_now now,
                                        struct rota_str queue, struct rota_job_id id,
                                        int16_t priority, uint64_t *number,
                                        struct rota_error *error);

/* --- queues --- */

enum rota_code rota_broker_pause(struct rota_broker *broker, struct rota_work_now now,
                                 struct rota_str queue, bool is_paused, uint64_t *number,
                                 struct rota_error *error);
/* How many workers may die at a job of the queue before it is DEAD: 1 to ROTA_JOB_ATTEMPTS_MAX,
 * or 0 for ROTA_JOB_KILLS_DEFAULT. */
enum rota_code rota_broker_set_kills(struct rota_broker *broker, struct rota_work_now now,
                                     struct rota_str queue, uint32_t kills_max, uint64_t *number,
                                     struct rota_error *error);
/* `weight` in thousandths; 1000 is the default of every key. It applies to jobs that are added
 * from now on: waiting jobs keep their tags, and the key's next jobs come after them. */
enum rota_code rota_broker_set_weight(struct rota_broker *broker, struct rota_work_now now,
                                      struct rota_str queue, struct rota_str key, uint32_t weight,
                                      uint64_t *number, struct rota_error *error);

/* Lay the partitions of a queue out as `layout` says from `at` on, on the wall clock; 0: from
 * now on, which is after all known layouts. */
enum rota_code rota_broker_set_layout(struct rota_broker *broker, struct rota_work_now now,
                                      struct rota_str queue, const struct rota_work_layout *layout,
                                      rota_time at, uint64_t *number, struct rota_error *error);

/* False: none was ever set. */
bool rota_broker_layout(const struct rota_broker *broker, struct rota_str queue,
                        struct rota_work_layout *layout, rota_time *at);

/* Grows with every layout that is set. */
uint64_t rota_broker_n_layouts(const struct rota_broker *broker);

/* Whether a job that has not ended is in a partition that is read but no longer written, because
 * a former layout chose it. Jobs whose id chose the partition go there under any layout, and do
 * not count. */
bool rota_broker_has_beyond(const struct rota_broker *broker, struct rota_str queue,
                            const struct rota_work_layout *layout);

/* Forget queues without jobs, workers and settings that differ from the defaults: with all their
 * partitions, unless another module decides about these (`has_rows`). Checking whether
 * there may be some is free. */
bool rota_broker_has_empty(const struct rota_broker *broker);
void rota_broker_forget_empty(struct rota_broker *broker, struct rota_work_now now);

/* Delete a queue whose jobs have all ended: these jobs, its settings and so its name.
 * ROTA_ERR_INVALID while jobs wait or run, of which `*n_live` says how many; `*n_ended` how many
 * are deleted. ROTA_ERR_NOT_FOUND. */
enum rota_code rota_broker_delete_queue(struct rota_broker *broker, struct rota_work_now now,
                                        struct rota_str queue, bool is_dry_run, size_t *n_live,
                                        size_t *n_ended, uint64_t *number,
                                        struct rota_error *error);

/* All settings ever made, as PAUSE, LAYOUT and WEIGHT records with their time; start with a
 * zeroed place, false ends it. */
struct rota_setting_place {
    size_t queue, inner;
};
bool rota_broker_next_setting(const struct rota_broker *broker, struct rota_setting_place *place,
                              struct rota_work_record *record);

/* --- settings that brokers share: those of a queue are a whole, as PAUSE, LAYOUT and WEIGHT
 * records of what is not the default --- */

/* Supplies one record after the other, valid until the next call and with keys that stay; false
 * ends it. */
typedef bool rota_setting_source(void *data, struct rota_work_record *setting);

/* The queue has exactly these settings from now on, each since its time; all others are the
 * defaults. ROTA_ERR_INVALID: one of them was left out, as it is invalid. After any other error,
 * put all of them again. */
enum rota_code rota_broker_put_settings(struct rota_broker *broker, struct rota_work_now now,
                                        struct rota_str queue, rota_setting_source *next,
                                        void *data, struct rota_error *error);

/* Whether a queue has settings other than the defaults. */
bool rota_broker_has_settings(const struct rota_broker *broker, struct rota_str queue);

enum rota_setting_edit_type {
    ROTA_SETTING_PAUSE,
    ROTA_SETTING_KILLS,
    ROTA_SETTING_WEIGHT, /* of `key` */
    ROTA_SETTING_LAYOUT,
    ROTA_SETTING_RESET, /* all, the layout to the given one */
    ROTA_SETTING_NONE,
};

struct rota_setting_edit {
    enum rota_setting_edit_type type;
    struct rota_str key;
    bool is_paused;
    uint32_t number; /* deaths, or the weight */
    struct rota_work_layout layout;
    rota_time at; /* of the layout; 0: later than all known ones */
};

enum rota_code rota_broker_edit_check(const struct rota_setting_edit *edit,
                                      struct rota_error *error);

/* The settings of a queue as they are after an edit, which is not made. Start with *place = 0;
 * false ends it. */
bool rota_broker_next_edited(struct rota_broker *broker, struct rota_work_now now,
                             struct rota_str queue, const struct rota_setting_edit *edit,
                             size_t *place, struct rota_work_record *setting);

/* The partition is ours under `epoch`, which grows with each owner; jobs of it that are here are
 * served from now on. ROTA_ERR_STALE when a higher epoch was seen, ROTA_ERR_UNAVAILABLE while
 * jobs of it are in flight to another broker. */
enum rota_code rota_broker_partition_open(struct rota_broker *broker, struct rota_work_now now,
                                          struct rota_str queue, uint32_t partition, uint64_t epoch,
                                          struct rota_error *error);

/* The partition is no longer ours: its jobs are neither handed out nor accepted, and their
 * timers stop; running attempts are cancelled at their workers, except with `has_rows` those that
 * have no session. The remaining jobs can be handed over: */
enum rota_code rota_broker_partition_close(struct rota_broker *broker, struct rota_work_now now,
                                           struct rota_str queue, uint32_t partition,
                                           struct rota_error *error);

/* The jobs of a closed partition as JOB records, one after the other: start with *place = 0;
 * false ends it. Their tags are relative to the queue's current tag here. Borrowed until the
 * next call. rota_broker_forget() drops a job once its new owner has it. */
bool rota_broker_partition_next(const struct rota_broker *broker, struct rota_str queue,
                                uint32_t partition, size_t *place, struct rota_work_record *record);
enum rota_code rota_broker_forget(struct rota_broker *broker, struct rota_work_now now,
                                  struct rota_str queue, struct rota_job_id id, uint64_t *number,
                                  struct rota_error *error);
/* ... and another broker adopts it with its age, attempts and id; once, however often it is
 * sent. It waits for its partition to be opened there, if it is not. ROTA_ERR_LIMIT without
 * room. */
enum rota_code rota_broker_adopt(struct rota_broker *broker, struct rota_work_now now,
                                 const struct rota_work_record *job, uint64_t *number,
                                 struct rota_error *error);

/* --- jobs that are kept elsewhere ---
 *
 * Where jobs are rows in a store that a partition's owner reads and writes, a partition is taken
 * over like this: raise the life above every other, load its rows, open it. It is left with a
 * drop: the rows are another owner's. */

/* Load a job of a partition that is not open, from its stored JOB record. No record is written.
 * A running one has `grace` from when the partition is opened; tags count from the queue's
 * current tag then. ROTA_ERR_STALE when the partition is open, ROTA_ERR_INVALID for an
 * impossible record. */
enum rota_code rota_broker_load(struct rota_broker *broker, struct rota_work_now now,
                                const struct rota_work_record *job, struct rota_error *error);

/* New attempts belong to life `life` from now on, if it is above ours. */
enum rota_code rota_broker_raise_life(struct rota_broker *broker, struct rota_work_now now,
                                      uint64_t life, struct rota_error *error);

/* A job as it is now, as a JOB record, borrowed until the next call; false: there is none. */
bool rota_broker_job_record(const struct rota_broker *broker, struct rota_str queue,
                            struct rota_job_id id, struct rota_work_record *record);

/* Close a partition if it is open, and forget all of its jobs without a record of each. Where
 * memory is missing, jobs are left: ROTA_ERR_NO_MEMORY; call it again. */
enum rota_code rota_broker_partition_drop(struct rota_broker *broker, struct rota_work_now now,
                                          struct rota_str queue, uint32_t partition,
                                          struct rota_error *error);

/* While it is on hold nothing is handed out; everything else continues. */
void rota_broker_hold(struct rota_broker *broker, struct rota_work_now now, bool is_on_hold);

/* While workers are shared with other nodes, those that are never idle yield now and then (see
 * yield.h), so that other nodes' jobs are fetched. */
void rota_broker_share(struct rota_broker *broker, struct rota_work_now now, bool is_shared);

/* --- chunks: how the jobs of a closed partition go to another broker ---
 *
 * A job is at one broker at any time, whichever node crashes and whichever message is lost. Jobs
 * move in chunks. Before a chunk is sent it is recorded, with its name and its receiver: from then
 * on its jobs go there only, the same ones under the same name, as often as it takes; they are
 * forgotten here when they are on the receiver's disk. The receiver records the name before and
 * after the jobs, and accepts a chunk once, even if its jobs have ended there long ago. When it
 * knows that the chunk is forgotten here, it keeps the name for a while, for late messages.
 *
 *     chunk_begin -> on disk -> sent -> adopting, adopt ..., adopted -> on disk -> answered
 *     chunk_taken (jobs are forgotten) -> on disk -> confirmed -> adopted_over -> chunk_end
 *
 * A chunk that was never sent may end earlier. A partition is not opened while jobs of it are in
 * flight. A job that returns while it is in a chunk has been at the receiver: it leaves the
 * chunk, and our copy of it is outdated. */

enum {
    ROTA_BROKER_CHUNK_JOBS_MAX = 256,      /* jobs of one chunk */
    ROTA_BROKER_CHUNK_BYTES_MAX = 4 << 20, /* of their payloads and results, except for the first */
    ROTA_BROKER_CHUNKS_MAX = 4096,         /* in flight */
    ROTA_BROKER_TAKEN_MAX = 65536,         /* names of received chunks */
};

#define ROTA_BROKER_TAKEN_KEEP (1 * ROTA_HOUR) /* how long the name of a finished one is kept */

struct rota_chunk_view {
    struct rota_job_id name;
    struct rota_str queue, to;
    uint32_t partition;
    size_t n_jobs;   /* 0 when it is taken */
    bool is_taken;   /* the receiver has it, and has to learn that we know */
    uint64_t number; /* of the record about this */
};

/* Choose some jobs of a closed partition for `to`, the address of another broker. Gives the name
 * of the chunk; ROTA_ERR_NOT_FOUND when there are no more jobs, ROTA_ERR_LIMIT when too much is
 * in flight. */
enum rota_code rota_broker_chunk_begin(struct rota_broker *broker, struct rota_work_now now,
                                       struct rota_str queue, uint32_t partition,
                                       struct rota_str to, struct rota_job_id *name,
                                       struct rota_error *error);

/* Its jobs as JOB records, like rota_broker_partition_next(). */
bool rota_broker_chunk_next(const struct rota_broker *broker, struct rota_job_id name,
                            size_t *place, struct rota_work_record *record);
enum rota_code rota_broker_chunk_taken(struct rota_broker *broker, struct rota_work_now now,
                                       struct rota_job_id name, struct rota_error *error);
enum rota_code rota_broker_chunk_end(struct rota_broker *broker, struct rota_work_now now,
                                     struct rota_job_id name, struct rota_error *error);

/* End all chunks to a broker that is permanently lost, whose jobs are here again; or only count
 * them. Jobs that it has after all exist twice. */
enum rota_code rota_broker_chunks_forget(struct rota_broker *broker, struct rota_work_now now,
                                         struct rota_str to, bool is_dry_run, size_t *n_chunks,
                                         size_t *n_jobs, struct rota_error *error);

/* Start with *place = 0; false ends it. Borrowed until the next call. */
bool rota_broker_next_chunk(const struct rota_broker *broker, size_t *place,
                            struct rota_chunk_view *view);

/* Whether a chunk was received, and the record about it. */
bool rota_broker_has_adopted(const struct rota_broker *broker, struct rota_job_id name,
                             uint64_t *number);

/* Adopt the jobs of a chunk, one after the other; then all of them are here. In between the
 * broker must not be used otherwise. A chunk that was not completed, because of an error or a
 * crash, has no effect. ROTA_ERR_INVALID for a chunk that is here, or our own. */
enum rota_code rota_broker_adopting(struct rota_broker *broker, struct rota_work_now now,
                                    struct rota_job_id name, struct rota_error *error);
enum rota_code rota_broker_adopted(struct rota_broker *broker, struct rota_work_now now,
                                   struct rota_job_id name, uint64_t *number,
                                   struct rota_error *error);
void rota_broker_adopt_none(struct rota_broker *broker, struct rota_work_now now);

/* The sender knows that we have it; an unknown chunk is ignored. */
enum rota_code rota_broker_adopted_over(struct rota_broker *broker, struct rota_work_now now,
                                        struct rota_job_id name, uint64_t *number,
                                        struct rota_error *error);

/* --- nodes: whose journals may hold jobs ---
 *
 * A node that is down keeps its jobs on its disk, although no list of living nodes names it.
 * Each broker therefore remembers every node that was ever given partitions or jobs, until that
 * node reports that it holds none, or an operator declares it lost. Brokers exchange what they
 * remember; of two statements about a node the later one counts, and of two of the same time the
 * one that it may hold jobs. */

enum { ROTA_BROKER_NODES_MAX = 1024 }; /* above it, a node that holds none is forgotten */

/* How long after it was listed a node that keeps jobs in memory may still be alive. */
#define ROTA_BROKER_NODE_VOLATILE (1 * ROTA_HOUR)

/* Never change these: they are in journals. */
enum rota_broker_node_state {
    ROTA_BROKER_NODE_EMPTY, /* it holds no jobs, or none that matter */
    ROTA_BROKER_NODE_HOLDS, /* it may hold jobs */
    ROTA_BROKER_NODE_SELF,  /* this journal is its own */
};

struct rota_broker_node_view {
    struct rota_str address;
    bool may_hold;
    rota_time at; /* wall clock: since when */
};

/* This journal serves under `address` from now on. Its former address no longer holds anything:
 * its jobs are here. */
enum rota_code rota_broker_node_self(struct rota_broker *broker, struct rota_work_now now,
                                     struct rota_str address, struct rota_error *error);

/* The complete list of live nodes: a begin, each node, an end. A node that `is_placed` has
 * partitions: from then on it may hold jobs. */
void rota_broker_nodes_begin(struct rota_broker *broker, struct rota_work_now now);
enum rota_code rota_broker_node_listed(struct rota_broker *broker, struct rota_str address,
                                       bool is_placed, struct rota_error *error);
void rota_broker_nodes_end(struct rota_broker *broker);

/* The store has a row of this node, which is not live: its last heartbeat was at `at`, on the wall
 * clock. One that came after it was empty may have taken jobs since, while no other node ran. */
enum rota_code rota_broker_node_was_alive(struct rota_broker *broker, struct rota_work_now now,
                                          struct rota_str address, rota_time at,
                                          struct rota_error *error);

/* Whether a node at this address was ever listed, or reported by another, unless it has been empty
 * for longest of ROTA_BROKER_NODES_MAX. */
bool rota_broker_node_is_known(const struct rota_broker *broker, struct rota_str address);

/* An operator declares the node lost: no broker waits for its jobs. Gives the record to wait
 * for. An unknown node is not an error. */
enum rota_code rota_broker_node_forget(struct rota_broker *broker, struct rota_work_now now,
                                       struct rota_str address, uint64_t *number,
                                       struct rota_error *error);

/* What to report about ourselves: that we may hold jobs, or that we hold none and accept none. A
 * node's report about itself is dated by its own clock, each change later than the one before;
 * adopting jobs revokes a report that we hold none. Borrowed until the next call. */
enum rota_code rota_broker_node_speak(struct rota_broker *broker, struct rota_work_now now,
                                      bool may_hold, struct rota_broker_node_view *said,
                                      struct rota_error *error);

/* What another broker reports about itself, or remembers of a node. If it remembers the opposite
 * of what we report about ourselves, our report gets a later date than its memory. */
enum rota_code rota_broker_take_node(struct rota_broker *broker, struct rota_work_now now,
                                     const struct rota_broker_node_view *node,
                                     struct rota_error *error);

/* All nodes, ourselves included; start with *place = 0. Borrowed until the next call. */
bool rota_broker_next_node(const struct rota_broker *broker, size_t *place,
                           struct rota_broker_node_view *view);

/* Nodes that are not listed and may hold jobs; the same way. Where jobs are in memory, those of
 * a node that has stopped are gone with it: then such a node counts `for_add` only, to find a
 * job that is added again, and for ROTA_BROKER_NODE_VOLATILE. */
bool rota_broker_next_absent(const struct rota_broker *broker, rota_time now, bool for_add,
                             size_t *place, struct rota_str *address);

/* A hash of the nodes that may hold jobs, ourselves included: brokers with the same hash know
 * the same nodes. A broker that knows others may have sent them a job that it reports as
 * missing. */
uint64_t rota_broker_nodes_hash(const struct rota_broker *broker);

/* Whether no job is here, in any state, and none is in flight. */
bool rota_broker_is_empty(const struct rota_broker *broker);

/* Partitions that are or were ours, or of which jobs are here. Start with *place = 0. */
struct rota_partition_view {
    struct rota_str queue;
    uint32_t partition;
    uint64_t epoch; /* the highest that was seen; 0: none */
    bool is_open;
    size_t n_jobs;    /* in any state */
    size_t n_chunked; /* of those: in flight */
};
bool rota_broker_next_partition(const struct rota_broker *broker, size_t *place,
                                struct rota_partition_view *view);

/* --- workers --- */

struct rota_worker_running {
    struct rota_str queue;
    struct rota_job_id id;
    uint64_t attempt;
};

/* Everything is borrowed. */
struct rota_worker_spec {
    struct rota_str name;
    uint64_t
        epoch; /* grows with each session of this name; 0: the name may have several sessions */
    const struct rota_str *capabilities, *queues;
    size_t n_capabilities, n_queues;
    uint32_t slots;
    rota_time liveness; /* duration: lost without a heartbeat for this long; 0: never */

    /* Duration: attempts end unless extended within it; 0: with the session only. */
    rota_time lease;

    /* Needs a lease. One request for up to `slots` jobs: the session ends when it has handed out
     * any, or is closed; its attempts live on by their lease. */
    bool is_poll;

    bool is_hasty; /* it is closed at once unless a job is available now */

    /* It keeps what it runs, within `slots`, but gets no job before rota_broker_worker_slots(). */
    bool gets_none;

    const struct rota_worker_running *running; /* attempts that it reports as running */
    size_t n_running;

    /* A former session of the same worker that this one replaces, with all attempts that it may
     * run. 0: none. */
    uint64_t older;
};

/* A worker connects. Gives `*session`, never 0; for each of `running` that is no longer its own
 * a CANCEL follows. ROTA_ERR_STALE when a session of this name has a higher epoch. */
enum rota_code rota_broker_worker_open(struct rota_broker *broker, struct rota_work_now now,
                                       const struct rota_worker_spec *spec, uint64_t *session,
                                       struct rota_error *error);

/* The worker leaves cleanly: its jobs go to others at once. */
void rota_broker_worker_close(struct rota_broker *broker, struct rota_work_now now,
                              uint64_t session);

/* The worker is presumed dead. Its attempts are LOST, and counted as a death at each job; but
 * when that is excused, because we were not listening, they keep running and have `grace` to
 * return. */
void rota_broker_worker_lost(struct rota_broker *broker, struct rota_work_now now, uint64_t session,
                             bool is_excused);

/* A heartbeat. False when there is no such session: the worker must open another. */
bool rota_broker_worker_heard(struct rota_broker *broker, struct rota_work_now now,
                              uint64_t session);

/* Whether the session is not over. That of a poll is as soon as it has jobs, which may still wait
 * for their START to be written; if none of them is sent then, TELL_LOST follows. */
bool rota_broker_worker_is_open(const struct rota_broker *broker, uint64_t session);

/* Limit the worker to `slots` at a time from now on; 0 drains it. */
bool rota_broker_worker_slots(struct rota_broker *broker, struct rota_work_now now,
                              uint64_t session, uint32_t slots);

/* What a worker has, of the attempts that were handed out up to `up_to` (`handed` of DISPATCH),
 * all of which it would have received by now: those of its session that it does not name never
 * reached it and are LOST; for those that it names and that are no longer its own a CANCEL
 * follows, unless it knows already. ROTA_ERR_NOT_FOUND when there is no such session. */
enum rota_code rota_broker_worker_holds(struct rota_broker *broker, struct rota_work_now now,
                                        uint64_t session, uint64_t up_to,
                                        const struct rota_worker_running *held, size_t n_held,
                                        struct rota_error *error);

/* How an attempt ended: DONE with `bytes`, FAILED, REFUSED or GIVEN_BACK with `reason`, which is
 * cut when it is too long. `retry_after` (duration) replaces the backoff; 0: none. ROTA_ERR_STALE
 * for an attempt that is not running or not that of `session`, ROTA_ERR_NOT_FOUND for no such job.
 * Repeating it for an attempt that has ended the same way, with the same bytes, is not an error,
 * and `*number` is that record's.
 *
 * ROTA_ERR_INVALID for an invalid end: an unknown cause, a result that is too large. If a
 * session reports it, the attempt is over nevertheless, FAILED for that reason, and `*number` is
 * set: the worker would only repeat it. */
#define ROTA_BROKER_NO_SESSION                                                                     \
    UINT64_MAX /* a caller without one: it ends no attempt of a session */
struct rota_attempt_end {
    struct rota_str queue;
    struct rota_job_id id;
    uint64_t attempt;
    uint64_t session; /* of the worker that reports it; 0: not known, only the attempt counts */
    enum rota_job_cause cause;
    struct rota_str bytes, reason;
    rota_time retry_after;
};

/* Whether it is valid. */
enum rota_code rota_broker_end_attempt_check(const struct rota_attempt_end *end,
                                             struct rota_error *error);

enum rota_code rota_broker_end(struct rota_broker *broker, struct rota_work_now now,
                               const struct rota_attempt_end *end, uint64_t *number,
                               struct rota_error *error);

/* The worker that has an attempt died, as the node that handed the job to it reports; as without
 * a session. */
enum rota_code rota_broker_lose(struct rota_broker *broker, struct rota_work_now now,
                                struct rota_str queue, struct rota_job_id id, uint64_t attempt,
                                uint64_t *number, struct rota_error *error);

/* The attempt continues: its lease starts again, with another duration when `lease` is not 0 and
 * it does not belong to a session; a broker that was restarted knows of none. `progress`, which
 * may be empty, is for people, and is cut like a reason. `session` is as in struct
 * rota_attempt_end. */
enum rota_code rota_broker_extend(struct rota_broker *broker, struct rota_work_now now,
                                  struct rota_str queue, struct rota_job_id id, uint64_t attempt,
                                  uint64_t session, rota_time lease, struct rota_str progress,
                                  struct rota_error *error);

/* --- time --- */

void rota_broker_tick(struct rota_broker *broker, struct rota_work_now now);

/* When the next tick is needed, on the monotonic clock; ROTA_TIME_NEVER: after a call only. */
rota_time rota_broker_deadline(const struct rota_broker *broker);

/* --- questions; what is borrowed is valid until the next call --- */

struct rota_job_event {
    rota_time at; /* wall clock */
    enum rota_job_state state;
    enum rota_job_cause cause;
    uint64_t attempt;
    struct rota_str worker, reason;
};

struct rota_job_view {
    struct rota_job_id id;
    struct rota_job_spec spec;
    enum rota_job_state state;
    rota_time enqueued_at, ended_at, not_before; /* wall clock; 0: none */
    uint64_t attempt;
    bool is_attempt_open; /* a caller that names it can still end it: do not show it to everyone */
    uint32_t n_attempts;
    struct rota_str worker, progress, reason, result;
    const struct rota_job_event *events;
    size_t n_events;
};

enum rota_code rota_broker_find(const struct rota_broker *broker, struct rota_str queue,
                                struct rota_job_id id, struct rota_job_view *view,
                                struct rota_error *error);

/* Jobs of a queue in a state, unordered: start with *place = 0; false ends it. */
bool rota_broker_next_job(const struct rota_broker *broker, struct rota_str queue,
                          enum rota_job_state state, size_t *place, struct rota_job_view *view);

/* Write why a job is, or is not, where it is: one sentence. Returns `text`. */
char *rota_broker_explain(const struct rota_broker *broker, struct rota_work_now now,
                          struct rota_str queue, struct rota_job_id id, char *text, size_t size);

struct rota_queue_view {
    struct rota_str name;
    bool is_paused;
    size_t n_partitions;                         /* that are open here */
    size_t counts[ROTA_JOB_STATES];              /* jobs by state */
    rota_time oldest_at;                         /* wall clock: the oldest waiting job; 0: none */
    uint32_t kills_max;                          /* as set; 0: the default */
    uint64_t n_added, n_done, n_dead, n_retries; /* since the broker began: jobs from its journal or
                                                    another owner are not counted */
    uint64_t n_quarantined;                      /* of the dead ones: they killed workers */
    size_t n_workers, n_slots, n_free;           /* that serve it, or have a lease on jobs */
};

/* A session; or, without one, the leases of a worker that polls. */
struct rota_worker_view {
    uint64_t session, epoch;
    struct rota_str name;
    uint32_t slots, n_running;
    rota_time heard_at; /* monotonic */
    struct rota_str can[ROTA_WORKER_CAPABILITIES_MAX], queues[ROTA_WORKER_QUEUES_MAX];
    size_t n_can, n_queues; /* borrowed until the broker changes */
};

/* The first queue by name after `*after`, which becomes its name: borrowed until the broker
 * changes. Start with an empty one; false ends it. */
bool rota_broker_next_queue(const struct rota_broker *broker, struct rota_str *after,
                            struct rota_queue_view *view);

/* Start with *place = 0; false ends it. */
bool rota_broker_next_worker(const struct rota_broker *broker, size_t *place,
                             struct rota_worker_view *view);

/* One queue; false when there is none. */
bool rota_broker_find_queue(const struct rota_broker *broker, struct rota_str name,
                            struct rota_queue_view *view);

/* Supply and demand for other nodes (tree_fsm.h). `can` is names in order, each followed by a
 * blank. Start with *place = 0; false ends it. */

/* Free slots of all workers that serve the same queues with the same capabilities. */
struct rota_idle_view {
    struct rota_str can;
    struct rota_str queues[ROTA_WORKER_QUEUES_MAX];
    size_t n_queues, n_free;
};
bool rota_broker_next_idle(const struct rota_broker *broker, size_t *place,
                           struct rota_idle_view *view);

/* Jobs that could be handed out, and need the same: no worker here is free for them. */
struct rota_waiting_view {
    struct rota_str queue, can;
    size_t n_jobs;
    rota_time first_at; /* wall clock: of the next one */
};
bool rota_broker_next_waiting(const struct rota_broker *broker, size_t *place,
                              struct rota_waiting_view *view);

/* A worker with a free slot that can take jobs of this queue with these requirements. */
struct rota_idle_worker {
    uint64_t session;
    struct rota_str name, can;
    uint32_t slots, n_free;
    rota_time lease;
    bool is_poll;
};
bool rota_broker_find_idle(const struct rota_broker *broker, struct rota_str queue,
                           struct rota_str needed, struct rota_idle_worker *idle);

/* Whether a job waits for a worker, and for nothing else. */
bool rota_broker_waits_for_worker(const struct rota_broker *broker, struct rota_str queue,
                                  struct rota_job_id id);

/* Whether `n` more jobs can be adopted. Those of closed partitions leave as soon as their new
 * owner takes them, so they take no room, up to `jobs_max` of them: two full brokers can still
 * exchange partitions. */
bool rota_broker_has_room(const struct rota_broker *broker, size_t n);

/* Bytes that all jobs take, indexes included; and how many have not ended. */
size_t rota_broker_memory(const struct rota_broker *broker);
size_t rota_broker_n_jobs(const struct rota_broker *broker);

/* Jobs of all queues. */
size_t rota_broker_n_in_state(const struct rota_broker *broker, enum rota_job_state state);

uint64_t rota_broker_last_number(const struct rota_broker *broker);

/* How many lanes were examined so far to choose jobs. */
uint64_t rota_broker_n_looks(const struct rota_broker *broker);

/* Whether the invariants hold; visits everything, for tests. */
bool rota_broker_is_sound(const struct rota_broker *broker);
