/* broker: which job goes to which worker, and what becomes of both.
 *
 * One broker holds all partitions that a node owns, of all queues, and all workers
 * that are connected to it. It decides; who drives it writes its records to a journal,
 * carries frames, and says what time it is.
 *
 *     WAITING --dispatched--> RUNNING --complete--> DONE
 *     RUNNING --failed, lost, timed out--> DELAYED --its time--> WAITING
 *     RUNNING --given back--> WAITING          RUNNING, ... --out of attempts--> DEAD
 *     any of these --cancel--> CANCELLED       DEAD --revive--> WAITING
 *
 * **Choice.** Of the jobs whose capabilities a free worker has: in each queue that it
 * serves the highest priority, then the lowest tag, then the oldest enqueue time, then
 * the lowest number; among those of several queues the same without the tags, for these
 * count within a queue. Tags are what makes keys share a queue: each job's tag is where
 * its key had got to when it was added, in units of one over the key's weight then, and
 * never behind what was last handed out; without keys tags only grow, so that the oldest
 * goes first. A job that comes back keeps its tag and its age. Jobs wait in *lanes*, one
 * for each pair of a queue and a set of capabilities; workers of like queues and
 * capabilities are a *class*, which knows its lanes by what is first in them. A choice
 * costs the logarithm of the lanes of a class for each lane that has changed since its
 * last one, and a change that of a lane: a million waiting jobs and hundreds of sets cost
 * little more than ten of one.
 *
 * **Durability.** A record that the broker emits has a number. A job is handed out only
 * when its ADD is on disk, an answer to a submitter or a worker waits for its record;
 * the driver calls rota_broker_durable() as the disk gets on. START is written but not
 * waited for.
 *
 * **Attempts** are fenced: the number of an attempt is 2^32 times the broker's life plus
 * chance, above the attempts that the job had in this life. So a job's attempts grow, also
 * when the last records before a crash were lost, and nobody can guess one: with a job that
 * is adopted comes the life of its former owner, and ours is above it from then on. Whoever
 * completes, fails or extends a job must name the attempt that is running, and a worker with
 * a session must be the one that has it; every other is refused with ROTA_ERR_STALE. After a
 * restart a job that was
 * running stays RUNNING for `grace`, in which its worker may come back and name it; then
 * it is LOST like any other. A worker may also name an attempt whose START was lost; it
 * is taken up if the job waits.
 *
 * **Workers.** A session is one life of a worker: opening one under a name that has a
 * session ends the older at once, unless that has a higher epoch. A session that was
 * not heard for its liveness is lost, and so are its attempts: their jobs wait again with
 * their old age, after the backoff of a failure, for it may be the job that killed the
 * worker. At the third death (or what was set for the queue) the job is DEAD, and its reason
 * names the workers. An attempt that was lost goes on when its worker comes back and names
 * it, or ends it, before the job was handed out again: it counts once, and nobody died.
 *
 * **Our own absence.** When a tick comes late by ROTA_BROKER_STALL we were not running, and
 * whoever wanted to be heard was not: nobody is lost for the next `grace`. What is lost all
 * the same because we were away, or were restarted, does not count as an attempt.
 *
 * Invariants: a job is in one state and, when running, with one attempt; a worker never
 * has more attempts than slots, nor one that it lacks a capability for; no job waits
 * while a free worker of this broker can take it, unless its queue is paused, its
 * record is not on disk or the worker draws breath for other nodes; everything that grows is
 * bounded by the options. */
#pragma once

#include "core/work/job.h"

#include <rota/random.h>

struct rota_broker;

enum {
    ROTA_BROKER_JOBS_MAX = 50000000,
    ROTA_BROKER_LANES_MAX = 131072, /* pairs of a queue and a set of capabilities */
    ROTA_BROKER_SETS_MAX = 1024,    /* sets of capabilities that jobs need */
    ROTA_BROKER_QUEUES_MAX = 100000,
    ROTA_BROKER_WORKERS_MAX = 65536,
    ROTA_BROKER_KEYS_MAX = 65536, /* fair keys with a job or a weight */
    ROTA_BROKER_AWAY_MAX = 1024, /* kinds of workers that are remembered while none of them polls */
};

#define ROTA_BROKER_GRACE (5 * ROTA_SEC)
#define ROTA_BROKER_STALL (1 * ROTA_SEC) /* a tick that comes so late: we were not running */

/* For so long a setting that was taken back is remembered; nodes ask each other more often. */
#define ROTA_BROKER_SETTING_NEWS (1 * ROTA_MIN)

/* Zero means the default. */
struct rota_broker_options {
    size_t jobs_max;   /* that have not ended */
    size_t queues_max; /* with jobs, workers or settings; 0: ROTA_BROKER_QUEUES_MAX, at most that */
    size_t bytes_max;  /* of payloads and results; 0: 4 GiB */
    size_t ended_max;  /* ended jobs that are remembered; 0: 100,000 */
    rota_time keep;    /* ... and for how long; DEAD ones stay until `ended_max` */
    rota_time grace;
    bool tells_forgotten; /* write FORGET also for an ended job that is too old, or too many */
    bool is_volatile;   /* nobody keeps records: those of a job's usual life, ADD, START and END as
                         * DONE, have their numbers but are not told; ADD is while jobs are watched */
    uint32_t kills_max; /* of queues for which none was set, see rota_broker_set_kills() */
    uint64_t seed;      /* of chance: ids, jitter, hashes */
    uint64_t secret;    /* of attempts; what is seen of the other chance must not tell it */

    /* Of queues for which none was set: one that is laid out so again is nothing to remember. */
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
    ROTA_WORK_TELL_ENDED,  /* `id` came to its end; true once `number` is on disk */
    ROTA_WORK_TELL_STATE,  /* `id` is in another state, or has got on: for those who watch */
    ROTA_WORK_TELL_LOST,   /* `session` is gone: not heard, or another took its place */
};

/* What it points to is the broker's, and stays until rota_broker_clear(). */
struct rota_work_effect {
    enum rota_work_effect_type type;
    uint64_t number; /* of the record that it waits for; 0: of none */
    struct rota_job_id id;
    struct rota_str queue; /* of the job; empty when it is about none */
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

/* What to do, in this order. Every call adds to it, so that a driver may take many frames in
 * before it looks; the list is borrowed until the next call, and rota_broker_clear() forgets
 * what was done. */
const struct rota_work_effect *rota_broker_effects(const struct rota_broker *broker, size_t *n);
void rota_broker_clear(struct rota_broker *broker);

/* Whether somebody watches jobs, as at first: TELL_ENDED and TELL_STATE are for nobody else. */
void rota_broker_set_watched(struct rota_broker *broker, bool is_watched);

/* --- the journal --- */

/* Take in a record of the journal, before rota_broker_begin(). ROTA_ERR_INVALID for one
 * that contradicts what came before; it is passed over, and counted. */
enum rota_code rota_broker_replay(struct rota_broker *broker, const struct rota_work_record *record,
                                  struct rota_error *error);

/* A record about `id` will be replayed after the next ROTA_JOB_FORESEEN
 * that are named: a hint, which makes work on many faster. */
void rota_broker_foresee(struct rota_broker *broker, struct rota_job_id id);

/* All was read. Begins another life; emits LIFE, and hands nothing out before that is on
 * disk. Partitions that were ours are ours again: a driver closes those that it has lost
 * meanwhile before it lets workers in. */
void rota_broker_begin(struct rota_broker *broker, struct rota_work_now now);

/* All records up to `number` are on disk. */
void rota_broker_durable(struct rota_broker *broker, struct rota_work_now now, uint64_t number);

/* While `why` is set, no job is taken in: the disk is full. Copied; NULL: all is well. */
void rota_broker_refuse_adds(struct rota_broker *broker, const char *why);

/* Take in no more than `bytes` of new jobs, from now on and until the next call: so much room
 * there is for them. The first that does not fit is refused, and all that follow. Without a
 * call there is no bound. */
void rota_broker_allow_adds(struct rota_broker *broker, uint64_t bytes);

/* Whether a job was refused for that since the last call. */
bool rota_broker_is_short(const struct rota_broker *broker);

/* Write jobs whose last whole record (ADD or JOB) is below `number` anew, as JOB records: at most
 * `n_max` of them, and `bytes_max` bytes by our guess. Returns how many are left, so that a
 * journal can drop what is old. Queue settings and ownership are rewritten after the last of
 * them. */
size_t rota_broker_rewrite(struct rota_broker *broker, uint64_t number, size_t n_max,
                           size_t bytes_max);

/* How many bytes that would take, not less than it does: of at most `n_max` jobs, and of no more
 * when it is above `enough`. */
uint64_t rota_broker_rewrite_size(const struct rota_broker *broker, uint64_t number, size_t n_max,
                                  uint64_t enough);

/* --- submitters --- */

/* Take a job in. Gives its id and the number of the record to wait for; `is_new` is false
 * when this job, or one with this unique key, is there already: then `*id` is that job's
 * and `*number` its record's. ROTA_ERR_INVALID for a spec that can't be or whose id another job
 * has, ROTA_ERR_STALE when the partition is not ours, ROTA_ERR_LIMIT when there is no room. */
enum rota_code rota_broker_add(struct rota_broker *broker, struct rota_work_now now,
                               const struct rota_job_spec *spec, struct rota_job_id *id,
                               bool *is_new, uint64_t *number, struct rota_error *error);

/* ROTA_ERR_INVALID when a job with the id of the spec is here, ours or not, and is not what the
 * spec asks for; with a key it is, whatever else it says. What may have changed since it was added
 * is not looked at: its priority and when it may begin; neither is its trace. The payload of one
 * that is done is gone, but for its size and a hash; of one that was done when it came here, by a
 * JOB record, not even that is known, and its payload may be any. */
enum rota_code rota_broker_check_same(const struct rota_broker *broker,
                                      const struct rota_job_spec *spec, struct rota_error *error);

/* Cancel a job, whatever it does; ROTA_ERR_NOT_FOUND, or ROTA_ERR_INVALID when it has ended. */
enum rota_code rota_broker_cancel(struct rota_broker *broker, struct rota_work_now now,
                                  struct rota_str queue, struct rota_job_id id, uint64_t *number,
                                  struct rota_error *error);

/* A dead job, or a cancelled one, waits again. */
enum rota_code rota_broker_revive(struct rota_broker *broker, struct rota_work_now now,
                                  struct rota_str queue, struct rota_job_id id, uint64_t *number,
                                  struct rota_error *error);

/* A job that has not ended has another priority from now on. */
enum rota_code rota_broker_set_priority(struct rota_broker *broker, struct rota_work_now now,
                                        struct rota_str queue, struct rota_job_id id,
                                        int16_t priority, uint64_t *number,
                                        struct rota_error *error);

/* --- queues --- */

enum rota_code rota_broker_pause(struct rota_broker *broker, struct rota_work_now now,
                                 struct rota_str queue, bool is_paused, uint64_t *number,
                                 struct rota_error *error);
/* So many workers may die at a job of the queue, then it is DEAD: 1 to ROTA_JOB_ATTEMPTS_MAX, or 0
 * for ROTA_JOB_KILLS_DEFAULT. */
enum rota_code rota_broker_set_kills(struct rota_broker *broker, struct rota_work_now now,
                                     struct rota_str queue, uint32_t kills_max, uint64_t *number,
                                     struct rota_error *error);
/* `weight` in thousandths; 1000 is what every key has. It counts for jobs that are added from now
 * on: those that wait have their tags, and what the key adds next comes behind them. */
enum rota_code rota_broker_set_weight(struct rota_broker *broker, struct rota_work_now now,
                                      struct rota_str queue, struct rota_str key, uint32_t weight,
                                      uint64_t *number, struct rota_error *error);

/* The partitions of a queue are to be as `layout` says from `at` on, on the wall clock; 0: from
 * now on, which is after all that is known. */
enum rota_code rota_broker_set_layout(struct rota_broker *broker, struct rota_work_now now,
                                      struct rota_str queue, const struct rota_work_layout *layout,
                                      rota_time at, uint64_t *number, struct rota_error *error);

/* False: none was ever set. */
bool rota_broker_layout(const struct rota_broker *broker, struct rota_str queue,
                        struct rota_work_layout *layout, rota_time *at);

/* Grows with every layout that is set. */
uint64_t rota_broker_n_layouts(const struct rota_broker *broker);

/* Whether a job that has not ended is in a partition that is read and not written any more, and was
 * put there by a former layout. Jobs whose id chose it come there whatever the layout, and do not
 * count. */
bool rota_broker_has_beyond(const struct rota_broker *broker, struct rota_str queue,
                            const struct rota_work_layout *layout);

/* Forget queues that have neither jobs nor workers nor a setting that differs from what every queue
 * has, and where nobody minds: with all their partitions, if these are not another's to decide
 * about
 * (`tells_forgotten`). Whether there may be some is known at no cost. */
bool rota_broker_has_empty(const struct rota_broker *broker);
void rota_broker_forget_empty(struct rota_broker *broker, struct rota_work_now now);

/* Delete a queue that has no job but such as have ended: these, its settings and so its name.
 * ROTA_ERR_INVALID while jobs wait or run, of which `*n_live` says how many; `*n_ended` how many
 * go. ROTA_ERR_NOT_FOUND. What it had for settings is written as what every queue has, so that
 * nodes which have older ones learn of it. */
enum rota_code rota_broker_delete_queue(struct rota_broker *broker, struct rota_work_now now,
                                        struct rota_str queue, bool is_dry_run, size_t *n_live,
                                        size_t *n_ended, uint64_t *number,
                                        struct rota_error *error);

/* Settings that were ever made, as PAUSE, LAYOUT and WEIGHT records with their time; start with a
 * place that is zeroed, false ends it. */
struct rota_setting_place {
    size_t queue, inner;
};
bool rota_broker_next_setting(const struct rota_broker *broker, struct rota_setting_place *place,
                              struct rota_work_record *record);

/* Whether a setting is what every queue has, and of a queue that is not known here: that is no
 * reason to make one. */
bool rota_broker_is_needless(const struct rota_broker *broker,
                             const struct rota_work_record *setting);

/* A setting as another broker has it; the later one counts. */
enum rota_code rota_broker_take_setting(struct rota_broker *broker, struct rota_work_now now,
                                        const struct rota_work_record *setting,
                                        struct rota_error *error);

/* The partition is ours under `epoch`, which grows with each owner; what we may have of it
 * is served from now on. ROTA_ERR_STALE when a higher epoch was seen, ROTA_ERR_UNAVAILABLE
 * while jobs of it are on their way to another broker. */
enum rota_code rota_broker_partition_open(struct rota_broker *broker, struct rota_work_now now,
                                          struct rota_str queue, uint32_t partition, uint64_t epoch,
                                          struct rota_error *error);

/* It is not ours any more: nothing of it is handed out or taken in, and no time of it comes;
 * attempts that run are cancelled at their workers. What is left of it can be handed over: */
enum rota_code rota_broker_partition_close(struct rota_broker *broker, struct rota_work_now now,
                                           struct rota_str queue, uint32_t partition,
                                           struct rota_error *error);

/* The jobs of a partition that is closed, as JOB records, one after the other: start with
 * *place = 0; false ends it. Their tags count from where the queue has got to here. Borrowed
 * until the next call. rota_broker_forget() drops one that its new owner has. */
bool rota_broker_partition_next(const struct rota_broker *broker, struct rota_str queue,
                                uint32_t partition, size_t *place, struct rota_work_record *record);
enum rota_code rota_broker_forget(struct rota_broker *broker, struct rota_work_now now,
                                  struct rota_str queue, struct rota_job_id id, uint64_t *number,
                                  struct rota_error *error);
/* ... and is taken in by another broker with its age, attempts and id; once, however often. It
 * waits for its partition to be opened there, if it is not. ROTA_ERR_LIMIT without room. */
enum rota_code rota_broker_adopt(struct rota_broker *broker, struct rota_work_now now,
                                 const struct rota_work_record *job, uint64_t *number,
                                 struct rota_error *error);

/* --- jobs that are kept elsewhere ---
 *
 * Where jobs are rows that a partition's owner reads and writes, a partition comes like this:
 * its life is raised to what nobody else has, its rows are loaded, it is opened. It goes with
 * a drop: the rows are another's. */

/* Take in a job of a partition that is not open, as its JOB record was kept. No record is
 * written. One that runs has `grace` from when the partition is opened; tags count from where
 * the queue has got to then. ROTA_ERR_STALE when the partition is open, ROTA_ERR_INVALID for a
 * record that can't be. */
enum rota_code rota_broker_load(struct rota_broker *broker, struct rota_work_now now,
                                const struct rota_work_record *job, struct rota_error *error);

/* Attempts are of life `life` from now on, if it is above ours. */
enum rota_code rota_broker_raise_life(struct rota_broker *broker, struct rota_work_now now,
                                      uint64_t life, struct rota_error *error);

/* A job as it is now, as a JOB record, borrowed until the next call; false: there is none. */
bool rota_broker_job_record(const struct rota_broker *broker, struct rota_str queue,
                            struct rota_job_id id, struct rota_work_record *record);

/* Close a partition if it is open, and forget all of its jobs without a record of each. What
 * there is no memory for is left: ROTA_ERR_NO_MEMORY, and may be asked again. */
enum rota_code rota_broker_partition_drop(struct rota_broker *broker, struct rota_work_now now,
                                          struct rota_str queue, uint32_t partition,
                                          struct rota_error *error);

/* While it is on hold nothing is handed out; all else goes on. */
void rota_broker_hold(struct rota_broker *broker, struct rota_work_now now, bool is_on_hold);

/* While workers are shared with other nodes, those that are never idle draw breath now and then
 * (see breath.h), so that who fetches jobs of others finds one. */
void rota_broker_share(struct rota_broker *broker, struct rota_work_now now, bool is_shared);

/* --- chunks: how the jobs of a closed partition go to another broker ---
 *
 * A job is at one broker at any time, whoever crashes and whatever is lost on the way. Jobs
 * go in chunks. Before a chunk is sent it is written down, with its name and to whom it
 * goes: from then on its jobs go there and nowhere else, the same ones under the same name,
 * as often as it takes; they are forgotten here when they are there on disk. Who takes a
 * chunk in writes its name down before and behind its jobs, and takes it in once: also when
 * its jobs have long ended there. When it was told that the chunk is forgotten here, it keeps the
 * name for a while, for a message that comes late.
 *
 *     chunk_begin -> on disk -> sent -> adopting, adopt ..., adopted -> on disk -> answered
 *     chunk_taken (jobs are forgotten) -> on disk -> said -> adopted_over -> chunk_end
 *
 * A chunk that was never sent may end before. A partition is not opened while jobs of it are
 * on their way. A job that comes back while it is in a chunk has been there: it is not in the
 * chunk any more, and what we knew of it is old. */

enum {
    ROTA_BROKER_CHUNK_JOBS_MAX = 256,      /* jobs of one chunk */
    ROTA_BROKER_CHUNK_BYTES_MAX = 4 << 20, /* of their payloads and results, but for the first */
    ROTA_BROKER_CHUNKS_MAX = 4096,         /* that are on their way */
    ROTA_BROKER_TAKEN_MAX = 65536,         /* names of chunks that were taken in */
};

#define ROTA_BROKER_TAKEN_KEEP (1 * ROTA_HOUR) /* how long the name of one that is over stays */

struct rota_chunk_view {
    struct rota_job_id name;
    struct rota_str queue, to;
    uint32_t partition;
    size_t n_jobs;   /* 0 when it is taken */
    bool is_taken;   /* it is there; who has it is to be told that we know */
    uint64_t number; /* of the record that says so */
};

/* Choose some jobs of a closed partition for `to`, the address of another broker. Gives the
 * name of the chunk; ROTA_ERR_NOT_FOUND when there are no more jobs, ROTA_ERR_LIMIT when too
 * much is on its way. */
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

/* End all chunks to a broker that will never come back, whose jobs are here again; or count them
 * only. Jobs that it has after all are there twice. */
enum rota_code rota_broker_chunks_forget(struct rota_broker *broker, struct rota_work_now now,
                                         struct rota_str to, bool is_dry_run, size_t *n_chunks,
                                         size_t *n_jobs, struct rota_error *error);

/* Start with *place = 0; false ends it. Borrowed until the next call. */
bool rota_broker_next_chunk(const struct rota_broker *broker, size_t *place,
                            struct rota_chunk_view *view);

/* Whether a chunk was taken in, and the record that says so. */
bool rota_broker_has_adopted(const struct rota_broker *broker, struct rota_job_id name,
                             uint64_t *number);

/* The jobs of a chunk are adopted, one after the other; then all of them are here. In between
 * nothing else is asked of the broker. One that did not end, for an error or a crash, is as if it
 * had never come. ROTA_ERR_INVALID for a chunk that is here, or our own. */
enum rota_code rota_broker_adopting(struct rota_broker *broker, struct rota_work_now now,
                                    struct rota_job_id name, struct rota_error *error);
enum rota_code rota_broker_adopted(struct rota_broker *broker, struct rota_work_now now,
                                   struct rota_job_id name, uint64_t *number,
                                   struct rota_error *error);
void rota_broker_adopt_none(struct rota_broker *broker, struct rota_work_now now);

/* Who sent it knows; one that is not known is no error. */
enum rota_code rota_broker_adopted_over(struct rota_broker *broker, struct rota_work_now now,
                                        struct rota_job_id name, uint64_t *number,
                                        struct rota_error *error);

/* --- nodes: whose journals may hold jobs ---
 *
 * A node that is down keeps its jobs on its disk, although no list of living nodes names it. Each
 * broker therefore remembers every node that was ever given partitions or jobs, until that node
 * says that it holds none, or an operator says that it is lost. Brokers tell each other what they
 * remember; of two statements about a node the later one counts, and of two of the same time the
 * one that it may hold jobs. */

enum { ROTA_BROKER_NODES_MAX = 1024 }; /* when there are more, one that holds none is forgotten */

/* For so long after it was listed a node in memory may still be alive. */
#define ROTA_BROKER_NODE_VOLATILE (1 * ROTA_HOUR)

/* Fixed for ever: these are in journals. */
enum rota_broker_node_state {
    ROTA_BROKER_NODE_EMPTY, /* it holds no jobs, or nothing that is waited for */
    ROTA_BROKER_NODE_HOLDS, /* it may hold jobs */
    ROTA_BROKER_NODE_SELF,  /* this journal is its own */
};

struct rota_broker_node_view {
    struct rota_str address;
    bool may_hold;
    rota_time at; /* wall clock: since when */
};

/* This journal serves under `address` from now on. An address that it served under before holds
 * nothing any more: its jobs are here. */
enum rota_code rota_broker_node_self(struct rota_broker *broker, struct rota_work_now now,
                                     struct rota_str address, struct rota_error *error);

/* The list of living nodes, whole: a begin, each node, an end. A node that is `is_placed` has
 * partitions: from the moment that it is placed it may hold jobs. */
void rota_broker_nodes_begin(struct rota_broker *broker, struct rota_work_now now);
enum rota_code rota_broker_node_listed(struct rota_broker *broker, struct rota_str address,
                                       bool is_placed, struct rota_error *error);
void rota_broker_nodes_end(struct rota_broker *broker);

/* An operator gives the node up for lost: nobody waits for what it holds. Gives the record to wait
 * for. A node that is not known is no error. */
enum rota_code rota_broker_node_forget(struct rota_broker *broker, struct rota_work_now now,
                                       struct rota_str address, uint64_t *number,
                                       struct rota_error *error);

/* What to tell the others of ourselves: that we may hold jobs, or that we hold none and take none.
 * What a node says of itself is dated by its own clock alone, and each change later than the one
 * before; jobs that are adopted take it back that we hold none. Borrowed until the next call. */
enum rota_code rota_broker_node_speak(struct rota_broker *broker, struct rota_work_now now,
                                      bool may_hold, struct rota_broker_node_view *said,
                                      struct rota_error *error);

/* What another broker says of itself, or remembers of a node. */
enum rota_code rota_broker_take_node(struct rota_broker *broker, struct rota_work_now now,
                                     const struct rota_broker_node_view *node,
                                     struct rota_error *error);

/* All nodes, ourselves included; start with *place = 0. Borrowed until the next call. */
bool rota_broker_next_node(const struct rota_broker *broker, size_t *place,
                           struct rota_broker_node_view *view);

/* Nodes that are not listed and may hold jobs; the same way. Where jobs are in memory, those of a
 * node that is gone are gone with it: then such a node counts `for_add` only, to find a job that
 * is added again, and for ROTA_BROKER_NODE_VOLATILE. */
bool rota_broker_next_absent(const struct rota_broker *broker, rota_time now, bool for_add,
                             size_t *place, struct rota_str *address);

/* A hash of the nodes that may hold jobs, ourselves included: brokers with the same one know the
 * same nodes. A broker that knows others may have sent them a job that it says it does not have. */
uint64_t rota_broker_nodes_hash(const struct rota_broker *broker);

/* Whether there is no job here, in whatever state, and none on its way. */
bool rota_broker_is_empty(const struct rota_broker *broker);

/* Partitions that are or were ours, or that jobs are here of. Start with *place = 0. */
struct rota_partition_view {
    struct rota_str queue;
    uint32_t partition;
    uint64_t epoch; /* the highest that was seen; 0: none */
    bool is_open;
    size_t n_jobs;    /* of whatever state */
    size_t n_chunked; /* of those: on their way */
};
bool rota_broker_next_partition(const struct rota_broker *broker, size_t *place,
                                struct rota_partition_view *view);

/* --- workers --- */

struct rota_worker_running {
    struct rota_str queue;
    struct rota_job_id id;
    uint64_t attempt;
};

/* All is borrowed. */
struct rota_worker_spec {
    struct rota_str name;
    uint64_t epoch; /* grows with each session of this name; 0: the name is not kept to one */
    const struct rota_str *capabilities, *queues;
    size_t n_capabilities, n_queues;
    uint32_t slots;
    rota_time liveness; /* span: lost when not heard for so long; 0: never */

    /* Span: attempts end unless extended within; 0: with the session only. */
    rota_time lease;

    /* Needs a lease. One request for up to `slots` jobs: the session goes when it has handed out
     * any, or is closed; its attempts live on by their lease. */
    bool is_poll;

    bool is_hasty; /* it is closed at once unless it is given something now */

    const struct rota_worker_running *running; /* what it says it still runs */
    size_t n_running;

    /* A session of its own that this one takes the place of, with all that it may run. 0: none. */
    uint64_t older;
};

/* A worker is there. Gives `*session`, never 0; for each of `running` that is not its any
 * more a CANCEL follows. ROTA_ERR_STALE when a session of this name has a higher epoch. */
enum rota_code rota_broker_worker_open(struct rota_broker *broker, struct rota_work_now now,
                                       const struct rota_worker_spec *spec, uint64_t *session,
                                       struct rota_error *error);

/* It goes in order: what it still has goes to others at once. */
void rota_broker_worker_close(struct rota_broker *broker, struct rota_work_now now,
                              uint64_t session);

/* It is dead, or so it seems. What it has is LOST, and counted as a death at each job; but when
 * that is excused, for we were not listening ourselves, it runs on and has `grace` to come back. */
void rota_broker_worker_lost(struct rota_broker *broker, struct rota_work_now now, uint64_t session,
                             bool is_excused);

/* A sign of life. False when there is no such session: it must open another. */
bool rota_broker_worker_heard(struct rota_broker *broker, struct rota_work_now now,
                              uint64_t session);

/* It takes no more than `slots` at a time from now on; 0 drains it. */
bool rota_broker_worker_slots(struct rota_broker *broker, struct rota_work_now now,
                              uint64_t session, uint32_t slots);

/* What a worker has, of the attempts that were handed out up to `up_to` (`handed` of DISPATCH), all
 * of which it would have got by now: those of its session that it does not name never came to it
 * and are LOST; for those that it names and that are not its any more a CANCEL follows, unless it
 * knows already. ROTA_ERR_NOT_FOUND when there is no such session. */
enum rota_code rota_broker_worker_holds(struct rota_broker *broker, struct rota_work_now now,
                                        uint64_t session, uint64_t up_to,
                                        const struct rota_worker_running *held, size_t n_held,
                                        struct rota_error *error);

/* How an attempt ended: DONE with `bytes`, FAILED, REFUSED or GIVEN_BACK with `reason`, which is
 * cut when it is too long. `retry_after` (span) takes the place of the backoff; 0: none.
 * ROTA_ERR_STALE for an attempt that is not the one running or not that of `session`,
 * ROTA_ERR_NOT_FOUND for no such job. Said once more of an attempt that has ended just so, with
 * the same bytes, it is no error, and `*number` is that record's.
 *
 * ROTA_ERR_INVALID for an end that can't be: an unknown cause, a result that is too large. By a
 * session's word the attempt is over then all the same, FAILED for that reason, and `*number` is
 * set: who said it would only say it again. */
struct rota_attempt_end {
    struct rota_str queue;
    struct rota_job_id id;
    uint64_t attempt;
    uint64_t session; /* of the worker that says so; 0: not known, the attempt alone counts */
    enum rota_job_cause cause;
    struct rota_str bytes, reason;
    rota_time retry_after;
};

/* Whether it is one that can be. */
enum rota_code rota_attempt_end_check(const struct rota_attempt_end *end, struct rota_error *error);

enum rota_code rota_broker_end(struct rota_broker *broker, struct rota_work_now now,
                               const struct rota_attempt_end *end, uint64_t *number,
                               struct rota_error *error);

/* The worker that has an attempt died, by the word of a node that handed the job to it. */
enum rota_code rota_broker_lose(struct rota_broker *broker, struct rota_work_now now,
                                struct rota_str queue, struct rota_job_id id, uint64_t attempt,
                                uint64_t *number, struct rota_error *error);

/* The attempt goes on: its lease begins anew, with another length when `lease` (span) is not 0 and
 * it is no session's; a broker that was restarted knows of none. `progress`, which may be empty, is
 * for people, and is cut like a reason. `session` is as in struct rota_attempt_end. */
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
    bool is_attempt_open; /* who names it can still end it: not for everybody's eyes */
    uint32_t n_attempts;
    struct rota_str worker, progress, reason, result;
    const struct rota_job_event *events;
    size_t n_events;
};

enum rota_code rota_broker_find(const struct rota_broker *broker, struct rota_str queue,
                                struct rota_job_id id, struct rota_job_view *view,
                                struct rota_error *error);

/* Jobs of a queue in a state, in no useful order: start with *place = 0; false ends it. */
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
    rota_time oldest_at;                         /* wall clock: the oldest that waits; 0: none */
    uint32_t kills_max;                          /* as it was set; 0: the default */
    uint64_t n_added, n_done, n_dead, n_retries; /* here since the broker began: what came from
                                                     its journal or another owner is not counted */
    uint64_t n_quarantined;                      /* of those that are dead: they killed workers */
    size_t n_workers, n_slots, n_free;           /* that serve it, or have a lease on jobs */
};

/* A session; or, without one, what a worker that polls has got by its leases. */
struct rota_worker_view {
    uint64_t session, epoch;
    struct rota_str name;
    uint32_t slots, n_running;
    rota_time heard_at; /* monotonic */
    struct rota_str can[ROTA_WORKER_CAPABILITIES_MAX], queues[ROTA_WORKER_QUEUES_MAX];
    size_t n_can, n_queues; /* borrowed until the broker is changed */
};

/* Start with *place = 0; false ends it. */
bool rota_broker_next_queue(const struct rota_broker *broker, size_t *place,
                            struct rota_queue_view *view);
bool rota_broker_next_worker(const struct rota_broker *broker, size_t *place,
                             struct rota_worker_view *view);

/* One queue; false when there is none. */
bool rota_broker_find_queue(const struct rota_broker *broker, struct rota_str name,
                            struct rota_queue_view *view);

/* What other nodes may be asked for or offered (tree_fsm.h). `can` is names in order, each
 * with a blank behind. Start with *place = 0; false ends it. */

/* Slots that are free, of all workers that serve the same and can do the same. */
struct rota_idle_view {
    struct rota_str can;
    struct rota_str queues[ROTA_WORKER_QUEUES_MAX];
    size_t n_queues, n_free;
};
bool rota_broker_next_idle(const struct rota_broker *broker, size_t *place,
                           struct rota_idle_view *view);

/* Jobs that could be handed out, and need the same: nobody here is free for them. */
struct rota_waiting_view {
    struct rota_str queue, can;
    size_t n_jobs;
    rota_time first_at; /* wall clock: of the one that goes first */
};
bool rota_broker_next_waiting(const struct rota_broker *broker, size_t *place,
                              struct rota_waiting_view *view);

/* A worker with a free slot that can take jobs of a queue that need this. */
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

/* Whether `n` more jobs can be adopted. Those of closed partitions leave as soon as their new owner
 * takes them, so they take no room, up to `jobs_max` of them: two brokers that are full can still
 * exchange partitions. */
bool rota_broker_has_room(const struct rota_broker *broker, size_t n);

/* Bytes that all jobs take, indexes included; and how many have not ended. */
size_t rota_broker_memory(const struct rota_broker *broker);
size_t rota_broker_n_jobs(const struct rota_broker *broker);
uint64_t rota_broker_last_number(const struct rota_broker *broker);

/* How many lanes were looked at so far to find what goes next. */
uint64_t rota_broker_n_looks(const struct rota_broker *broker);

/* Whether the invariants hold, at the cost of a look at everything; for tests. */
bool rota_broker_is_sound(const struct rota_broker *broker);
