#include "core/work/cluster/front_fsm.h"

#include "core/work/cluster/handover_fsm.h"

#include <rota/ring.h>

_Static_assert(ROTA_FRONT_SEARCH_MAX <= ROTA_HANDOVER_HOLD,
               "a job that moves is seen in one of two rounds");

enum { ROUNDS = 2 };

#define UNREAD     "this node has not read the settings of queues yet; try again"
#define STORE_AWAY "the store is unreachable; see the log of this node"

const struct rota_front_refusal *rota_front_fsm_refusal(enum rota_front_reason reason)
{
    static const struct rota_front_refusal refusals[] = {
        [ROTA_FRONT_NO_REASON] = {ROTA_STATUS_INTERNAL, false, false, "no reason"},
        [ROTA_FRONT_CLOSING] = {ROTA_STATUS_UNAVAILABLE, false, false, "this node is stopping"},
        [ROTA_FRONT_STORE_AWAY] = {ROTA_STATUS_UNAVAILABLE, false, true, STORE_AWAY},
        [ROTA_FRONT_STORE_AWAY_NEW] = {ROTA_STATUS_UNAVAILABLE, false, true,
                                       "the node accepts no new jobs, " STORE_AWAY},
        [ROTA_FRONT_STORE_AWAY_AGAIN] = {ROTA_STATUS_UNAVAILABLE, false, false,
                                         "the outcome of this write is unknown, " STORE_AWAY},
        [ROTA_FRONT_UNREAD] = {ROTA_STATUS_UNAVAILABLE, false, true, UNREAD},
        [ROTA_FRONT_UNREAD_AGAIN] = {ROTA_STATUS_UNAVAILABLE, false, false, UNREAD},
        [ROTA_FRONT_NOT_TOLD] = {ROTA_STATUS_UNAVAILABLE, false, true,
                                 "this node does not know yet which other nodes may have the job; "
                                 "try again"},
        [ROTA_FRONT_NOT_TOLD_AGAIN] = {ROTA_STATUS_UNAVAILABLE, false, false,
                                       "this node does not know yet which other nodes may already "
                                       "have the job; try again"},
        [ROTA_FRONT_SILENT] = {ROTA_STATUS_UNAVAILABLE, false, false, NULL},
        [ROTA_FRONT_LATE] = {ROTA_STATUS_UNAVAILABLE, false, false,
                             "the other nodes did not confirm in time that none of them has the "
                             "job"},
        [ROTA_FRONT_MOVED] = {ROTA_STATUS_UNAVAILABLE, false, true,
                              "the job has just moved to this node; try again"},
        [ROTA_FRONT_NOT_OWNED] = {ROTA_STATUS_UNAVAILABLE, true, true,
                                  "this node does not own the job's partition, which may be in "
                                  "handover; try again"},
        [ROTA_FRONT_NOT_HERE] = {ROTA_STATUS_NOT_FOUND, false, false, NULL},
        [ROTA_FRONT_NOT_HERE_IN_BATCH] = {ROTA_STATUS_UNAVAILABLE, false, true,
                                          "this node does not have the job; Complete searches all "
                                          "nodes"},
    };
    return &refusals[reason];
}

void rota_front_fsm_init(struct rota_front_fsm *fsm, const struct rota_front_options *options)
{
    *fsm = (struct rota_front_fsm){.options = *options};
    rota_random_init(&fsm->random, options->seed);
}

static struct rota_front_action act(enum rota_front_do what)
{
    return (struct rota_front_action){.what = what};
}

static struct rota_front_action refuse(enum rota_front_reason reason)
{
    return (struct rota_front_action){.what = ROTA_FRONT_REFUSE, .reason = reason};
}

/* A call waits for an answer from the store; if the store is unreachable, that would take too
 * long. */
static struct rota_front_action wait(const struct rota_front_fsm *fsm)
{
    return fsm->is_store_down ? refuse(ROTA_FRONT_STORE_AWAY) : act(ROTA_FRONT_WAIT);
}

static bool is_for_others(const struct rota_front_fsm *fsm, const struct rota_front_call *call)
{
    return !fsm->options.is_alone && !call->is_carried;
}

static size_t n_others(const struct rota_front_fsm *fsm, enum rota_front_others which)
{
    return fsm->options.n_others(fsm->options.data, which);
}

static bool is_told(const struct rota_front_fsm *fsm)
{
    return fsm->options.is_told(fsm->options.data);
}

static struct rota_front_owner owner_of(const struct rota_front_fsm *fsm, struct rota_str queue,
                                        uint32_t partition)
{
    return fsm->options.owner(fsm->options.data, queue, partition);
}

static struct rota_work_layout layout_of(const struct rota_front_fsm *fsm, struct rota_str queue)
{
    return fsm->options.layout(fsm->options.data, queue);
}

/* --- any call --- */

struct rota_front_action rota_front_fsm_poll(const struct rota_front_fsm *fsm)
{
    return fsm->is_draining || fsm->is_closing ? refuse(ROTA_FRONT_CLOSING) : act(ROTA_FRONT_HERE);
}

/* If no other node is listed, this node is all nodes, and it need not be able to reach itself. */
struct rota_front_action rota_front_fsm_all(const struct rota_front_fsm *fsm,
                                            const struct rota_front_call *call,
                                            enum rota_front_others which, bool needs_jobs)
{
    if (is_for_others(fsm, call) && n_others(fsm, which) > 0)
        return act(ROTA_FRONT_ASK_OTHERS);
    if (needs_jobs && fsm->options.partitions && !fsm->options.partitions->is_settled)
        return wait(fsm);
    return act(ROTA_FRONT_HERE);
}

/* --- a job --- */

struct rota_front_search rota_front_fsm_begin_search(const struct rota_front_fsm *fsm,
                                                     rota_time now)
{
    return (struct rota_front_search){.until = now + ROTA_FRONT_SEARCH_MAX,
                                      .nodes = rota_broker_nodes_hash(fsm->options.broker)};
}

bool rota_front_fsm_has(const struct rota_front_fsm *fsm, struct rota_str queue,
                        struct rota_job_id id)
{
    struct rota_job_view view;
    return !rota_job_id_is_none(id) &&
           !rota_broker_find(fsm->options.broker, queue, id, &view, NULL);
}

/* It is not here. A node that knows it is the only one need not ask. */
static bool must_ask(const struct rota_front_fsm *fsm, bool vouches)
{
    bool is_shared = fsm->options.partitions != NULL;
    if (is_shared && vouches)
        return false;
    return n_others(fsm, ROTA_FRONT_HOLDERS) > 0 || !(is_shared || is_told(fsm));
}

struct rota_front_action rota_front_fsm_job(const struct rota_front_fsm *fsm,
                                            const struct rota_front_call *call,
                                            struct rota_str queue, struct rota_job_id id)
{
    const struct rota_partition_fsm *partitions = fsm->options.partitions;
    bool may_be_elsewhere = partitions || call->is_carried || !fsm->options.is_alone;
    if (!may_be_elsewhere || rota_front_fsm_has(fsm, queue, id))
        return act(ROTA_FRONT_HERE);
    uint32_t place = rota_job_id_place(id, fsm->options.n_partitions);
    if (partitions && rota_partition_fsm_must_wait(partitions, queue, place, call->since))
        return wait(fsm);
    bool vouches = !partitions || rota_partition_fsm_vouches(partitions, queue, place);
    if (is_for_others(fsm, call) && must_ask(fsm, vouches)) {
        struct rota_front_owner owner = owner_of(fsm, queue, place);
        bool is_anothers = owner.whose == ROTA_PARTITION_ANOTHERS;
        return (struct rota_front_action){.what = is_anothers ? ROTA_FRONT_ASK_OWNER
                                                              : ROTA_FRONT_ASK_OTHERS,
                                          .owner = owner.address};
    }
    if (!vouches)
        return refuse(ROTA_FRONT_NOT_OWNED);
    return call->is_carried && !partitions ? refuse(ROTA_FRONT_NOT_HERE) : act(ROTA_FRONT_HERE);
}

bool rota_front_fsm_knows_others(const struct rota_front_fsm *fsm, uint64_t nodes)
{
    return nodes != 0 && nodes != rota_broker_nodes_hash(fsm->options.broker);
}

enum rota_lookup_word rota_front_fsm_word(const struct rota_front_fsm *fsm,
                                          const struct rota_front_answer *answer)
{
    if (answer->status == ROTA_STATUS_OK)
        return ROTA_LOOKUP_FOUND;
    if (answer->status == ROTA_STATUS_NOT_FOUND) {
        bool knows_others = answer->has_nodes && rota_front_fsm_knows_others(fsm, answer->nodes);
        return knows_others ? ROTA_LOOKUP_UNSURE : ROTA_LOOKUP_NONE;
    }
    if (answer->status == ROTA_STATUS_UNAVAILABLE && answer->is_stale)
        return ROTA_LOOKUP_UNOWNED;
    bool is_silent = answer->status == ROTA_STATUS_UNAVAILABLE ||
                     answer->status == ROTA_STATUS_DEADLINE_EXCEEDED;
    return is_silent ? ROTA_LOOKUP_SILENT : ROTA_LOOKUP_REFUSED;
}

struct rota_front_action rota_front_fsm_owner_said(const struct rota_front_fsm *fsm,
                                                   enum rota_lookup_word word, bool has_sent)
{
    bool is_settled = fsm->options.partitions
                          ? word != ROTA_LOOKUP_UNOWNED
                          : word != ROTA_LOOKUP_NONE && word != ROTA_LOOKUP_UNSURE;
    bool is_asked = word != ROTA_LOOKUP_UNASKED;
    return act(is_asked && (is_settled || has_sent) ? ROTA_FRONT_PASS : ROTA_FRONT_ASK_OTHERS);
}

/* It is nowhere, according to the nodes. `unknown`: the reason, if there are others. */
static struct rota_front_action finish_round(const struct rota_front_fsm *fsm,
                                             struct rota_front_search *search, rota_time now,
                                             enum rota_front_reason unknown)
{
    if (search->nodes != rota_broker_nodes_hash(fsm->options.broker))
        return refuse(unknown);
    if (++search->n_rounds < ROUNDS)
        return act(ROTA_FRONT_ASK_OTHERS);
    return now > search->until ? refuse(ROTA_FRONT_LATE) : act(ROTA_FRONT_HERE);
}

struct rota_front_action rota_front_fsm_others_said(const struct rota_front_fsm *fsm,
                                                    struct rota_front_search *search, rota_time now,
                                                    struct rota_str queue, struct rota_job_id id,
                                                    const enum rota_lookup_word *words, size_t n)
{
    bool is_shared = fsm->options.partitions != NULL;
    size_t chosen = rota_lookup_choose(words, n, is_shared);
    bool is_asked = chosen != SIZE_MAX;
    bool is_none = is_asked ? words[chosen] == ROTA_LOOKUP_NONE : !is_shared;
    struct rota_front_action action = refuse(ROTA_FRONT_NOT_TOLD);
    action.is_unsure = is_asked && words[chosen] == ROTA_LOOKUP_UNSURE;
    if (action.is_unsure || (is_none && !is_shared && !is_told(fsm)))
        return action;
    if (!is_asked && !is_none)
        return refuse(ROTA_FRONT_NOT_OWNED);
    if (is_none && !is_shared && rota_front_fsm_has(fsm, queue, id))
        return refuse(ROTA_FRONT_MOVED);
    if (is_none && !is_shared && is_asked) {
        action = finish_round(fsm, search, now, ROTA_FRONT_NOT_TOLD);
        if (action.what != ROTA_FRONT_HERE)
            return action;
    }
    return (struct rota_front_action){.what = ROTA_FRONT_PASS, .index = is_asked ? chosen : 0};
}

bool rota_front_fsm_denies(const struct rota_front_fsm *fsm)
{
    return fsm->options.is_alone && !fsm->options.partitions;
}

/* --- new jobs --- */

void rota_front_fsm_read(struct rota_front_new *job, bool is_carried)
{
    /* A client that gives both an id and a partition can choose another of each. */
    bool follows = is_carried ? rota_job_id_partition(job->id) != job->asked : job->asked == 0;
    job->is_placed = job->is_keyed || (!rota_job_id_is_none(job->id) && follows);
}

/* The one partition of the queue where jobs with this unique key go. It stays the same when the
 * queue gets more partitions. */
static uint32_t partition_of_key(const struct rota_front_fsm *fsm,
                                 const struct rota_work_layout *layout, struct rota_str unique)
{
    return rota_layout_write(layout, rota_ring_hash(unique) % fsm->options.n_partitions);
}

/* The partition of a job: by its id or, without one, by its unique key. */
static enum rota_code find_place(const struct rota_front_fsm *fsm,
                                 const struct rota_front_call *call, struct rota_front_new *job,
                                 struct rota_error *error)
{
    char text[ROTA_JOB_ID_TEXT];
    bool has_id = !rota_job_id_is_none(job->id);
    uint32_t place = has_id ? rota_job_id_place(job->id, fsm->options.n_partitions) : job->asked;
    if (job->unique.size > 0 && !fsm->options.is_alone && !has_id) {
        struct rota_work_layout layout = layout_of(fsm, job->queue);
        place = partition_of_key(fsm, &layout, job->unique);
    }
    if (call->is_carried && job->asked > 0)
        place = job->asked; /* the sender has determined it */
    if (has_id && job->asked > 0 && job->asked != place)
        return rota_error_set(error, ROTA_ERR_INVALID, "job %s belongs to partition %u, not %u",
                              rota_job_id_format(job->id, text), place, job->asked);
    job->partition = place;
    return ROTA_OK;
}

/* Whether a new job may go to its partition. ROTA_ERR_STALE: formerly it could. */
static enum rota_code check_place(const struct rota_front_fsm *fsm,
                                  const struct rota_front_new *job, struct rota_error *error)
{
    struct rota_work_layout layout = layout_of(fsm, job->queue);
    uint32_t n = fsm->options.n_partitions;
    if (rota_job_id_is_none(job->id) && job->partition >= (layout.read > n ? layout.read : n))
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "queues have %u partitions here; there is no partition %u", n,
                              job->partition);
    bool has_place = job->unique.size == 0 || fsm->options.is_alone;
    uint32_t of_key = has_place ? job->partition : partition_of_key(fsm, &layout, job->unique);
    if (job->partition != of_key && rota_layout_write(&layout, job->partition) != of_key)
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "the unique key of this job belongs to partition %u, its id to %u",
                              of_key, job->partition);
    bool may_be_there = job->is_sought || (job->is_again && fsm->options.partitions);
    if ((job->partition < layout.write && job->partition == of_key) || may_be_there ||
        job->is_placed)
        return ROTA_OK;
    return rota_error_set(
        error, ROTA_ERR_STALE,
        "new jobs of this queue go to its first %u partitions, not to partition %u", layout.write,
        job->partition);
}

/* A partition that is ours, if there is one, from a random one on. */
static uint32_t any_partition(struct rota_front_fsm *fsm, struct rota_str queue)
{
    uint32_t n = layout_of(fsm, queue).write;
    uint32_t any = (uint32_t)(rota_random_next(&fsm->random) % n);
    for (uint32_t i = 0; i < n; i++)
        if (owner_of(fsm, queue, (any + i) % n).whose == ROTA_PARTITION_OURS)
            return (any + i) % n;
    return any;
}

enum rota_code rota_front_fsm_route(struct rota_front_fsm *fsm, const struct rota_front_call *call,
                                    struct rota_front_new *job, struct rota_front_action *action,
                                    struct rota_error *error)
{
    *action = act(ROTA_FRONT_HERE);
    job->has_partition = false;
    if (!is_for_others(fsm, call))
        return ROTA_OK;
    enum rota_code code = find_place(fsm, call, job, error);
    if (!code && !job->is_known)
        code = check_place(fsm, job, error);
    if (code)
        return code;
    if (job->partition == 0 && job->unique.size == 0 && rota_job_id_is_none(job->id))
        job->partition = any_partition(fsm, job->queue);
    job->has_partition = true;
    if (job->is_known)
        return ROTA_OK;
    struct rota_front_owner owner = owner_of(fsm, job->queue, job->partition);
    if (owner.whose == ROTA_PARTITION_ANOTHERS && !rota_front_fsm_has(fsm, job->queue, job->id))
        *action = (struct rota_front_action){.what = ROTA_FRONT_ASK_OWNER, .owner = owner.address};
    return ROTA_OK;
}

enum rota_front_reason rota_front_fsm_unread(bool may_be_there)
{
    return may_be_there ? ROTA_FRONT_UNREAD_AGAIN : ROTA_FRONT_UNREAD;
}

struct rota_front_action rota_front_fsm_accept(const struct rota_front_fsm *fsm, bool may_be_there)
{
    if (!fsm->is_store_down)
        return act(ROTA_FRONT_HERE);
    return refuse(may_be_there ? ROTA_FRONT_STORE_AWAY_AGAIN : ROTA_FRONT_STORE_AWAY_NEW);
}

bool rota_front_fsm_must_wait(struct rota_front_fsm *fsm, const struct rota_front_call *call,
                              const struct rota_front_new *job)
{
    struct rota_front_new placed = *job;
    if (!job->has_partition && (find_place(fsm, call, &placed, NULL) ||
                                check_place(fsm, &placed, NULL) == ROTA_ERR_INVALID))
        return false; /* it is refused */
    return rota_partition_fsm_must_wait_to_add(fsm->options.partitions, job->queue,
                                               placed.partition);
}

/* A job that is here is not new: to refuse it as not added would let its client add it again under
 * another id. */
static enum rota_code check_open(const struct rota_front_fsm *fsm, const struct rota_front_new *job,
                                 struct rota_error *error)
{
    return fsm->is_draining && !rota_front_fsm_has(fsm, job->queue, job->id)
               ? rota_error_set(error, ROTA_ERR_UNAVAILABLE,
                                "this node is drained or stopping, and accepts no new jobs")
               : ROTA_OK;
}

/* Another node that has sent a job here may know of other partitions; but jobs with one key
 * belong in one, or a second one would not be found. */
static enum rota_code place_new(const struct rota_front_fsm *fsm,
                                const struct rota_front_call *call, struct rota_front_new *job,
                                struct rota_error *error)
{
    struct rota_error why;
    enum rota_code code = find_place(fsm, call, job, error);
    if (code || (call->is_carried && job->unique.size == 0))
        return code;
    code = check_place(fsm, job, &why);
    if (!code)
        return ROTA_OK;
    return rota_error_set(error, call->is_carried ? ROTA_ERR_STALE : code, "%s", why.text);
}

/* A partition that is ours is opened with its first job. */
static enum rota_code open_partition(const struct rota_front_fsm *fsm, struct rota_work_now now,
                                     const struct rota_front_new *job, struct rota_error *error)
{
    struct rota_front_owner owner = owner_of(fsm, job->queue, job->partition);
    bool is_anothers = owner.whose == ROTA_PARTITION_ANOTHERS;
    if (owner.whose != ROTA_PARTITION_OURS)
        return rota_error_set(error, ROTA_ERR_STALE, "partition %u of this queue belongs to %.*s",
                              job->partition, is_anothers ? (int)owner.address.size : 7,
                              is_anothers ? owner.address.data : "no node");
    return rota_broker_partition_open(fsm->options.broker, now, job->queue, job->partition, 1,
                                      error);
}

enum rota_code rota_front_fsm_add(struct rota_front_fsm *fsm, struct rota_work_now now,
                                  const struct rota_front_call *call, struct rota_front_new *job,
                                  struct rota_job_spec *spec, struct rota_front_added *added,
                                  struct rota_error *error)
{
    struct rota_broker *broker = fsm->options.broker;
    *added = (struct rota_front_added){.id = job->id};
    if (job->is_known)
        return ROTA_OK;
    enum rota_code code = check_open(fsm, job, error);
    if (!code && !job->has_partition)
        code = place_new(fsm, call, job, error);
    if (code)
        return code;
    spec->partition = job->partition;
    code = rota_broker_add(broker, now, spec, &added->id, &added->is_new, &added->number, error);
    if (code != ROTA_ERR_STALE || fsm->options.partitions)
        return code;
    if (rota_front_fsm_has(fsm, job->queue, job->id)) {
        /* It was added before, and is about to be handed over. */
        *added =
            (struct rota_front_added){.id = job->id, .number = rota_broker_last_number(broker)};
        return rota_broker_check_same(broker, spec, error);
    }
    code = open_partition(fsm, now, job, error);
    return code ? code
                : rota_broker_add(broker, now, spec, &added->id, &added->is_new, &added->number,
                                  error);
}

/* --- repeated adds --- */

bool rota_front_fsm_is_undone(const struct rota_front_fsm *fsm, const struct rota_front_new *job)
{
    return !fsm->options.partitions || !rota_front_new_may_be_there(job);
}

bool rota_front_fsm_must_search(const struct rota_front_fsm *fsm,
                                const struct rota_front_call *call)
{
    return is_for_others(fsm, call) && !fsm->options.partitions;
}

struct rota_front_action rota_front_fsm_search(const struct rota_front_fsm *fsm,
                                               struct rota_front_search *search, rota_time now,
                                               size_t n_sought)
{
    *search = rota_front_fsm_begin_search(fsm, now);
    if (n_sought == 0)
        return act(ROTA_FRONT_HERE);
    return is_told(fsm) ? act(ROTA_FRONT_ASK_OTHERS) : refuse(ROTA_FRONT_NOT_TOLD_AGAIN);
}

struct rota_front_action rota_front_fsm_searched(const struct rota_front_fsm *fsm,
                                                 struct rota_front_search *search, rota_time now,
                                                 bool is_in_doubt, bool is_silent, bool is_unsure)
{
    if (!is_in_doubt)
        return act(ROTA_FRONT_HERE);
    if (is_unsure)
        return (struct rota_front_action){
            .what = ROTA_FRONT_REFUSE, .reason = ROTA_FRONT_NOT_TOLD_AGAIN, .is_unsure = true};
    return is_silent ? refuse(ROTA_FRONT_SILENT)
                     : finish_round(fsm, search, now, ROTA_FRONT_NOT_TOLD_AGAIN);
}

/* One that was here when the search began and still is may not be on disk: its add waits for that.
 * Those that left had to be on disk, and another node answers for its own only when they are. */
void rota_front_fsm_settle(const struct rota_front_fsm *fsm, struct rota_front_new *job)
{
    job->is_known = job->is_found && !rota_front_fsm_has(fsm, job->queue, job->id);
    job->is_sought = job->is_again;
    job->is_again = false;
}
