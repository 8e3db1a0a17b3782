#include "work_truth.h"

#include <string.h>

/* --- runs --- */

const struct run *run_at(const struct world *world, uint32_t run)
{
    return &world->runs.items[run - 1];
}

/* The run of a job with this attempt number; 0: none. A job that moves takes its last attempt
 * along, and no two brokers use the same number for it. */
static uint32_t find_run(const struct world *world, uint32_t job, uint64_t attempt)
{
    for (size_t i = world->runs.size; i > 0; i--) {
        const struct run *run = &world->runs.items[i - 1];
        if (run->job == job && run->attempt == attempt)
            return (uint32_t)i;
    }
    return 0;
}

const struct session *find_session(const struct broker *broker, uint64_t session)
{
    for (size_t i = 0; i < broker->sessions.size; i++)
        if (broker->sessions.items[i].session == session)
            return &broker->sessions.items[i];
    return NULL;
}

bool is_queue_paused(const struct broker *broker, struct rota_str name)
{
    struct rota_queue_view view;
    for (struct rota_str place = {0}; rota_broker_next_queue(broker->machine, &place, &view);)
        if (rota_str_is_equal(view.name, name))
            return view.is_paused;
    return false;
}

static bool can_run(const struct worker *worker, const struct job *job)
{
    return (job->caps & ~worker->caps) == 0 &&
           (worker->queues >> job->part / PARTS_OF_QUEUE & 1) != 0;
}

/* --- a job is handed out --- */

/* Whether `other` should have gone before: it has the higher priority, or is of the same key
 * and has waited for longer. Tags of different keys, and of other brokers, do not compare. */
static bool goes_before(const struct job *other, const struct job *job)
{
    if (other->priority != job->priority)
        return other->priority > job->priority;
    if (other->part / PARTS_OF_QUEUE != job->part / PARTS_OF_QUEUE || other->is_moved ||
        job->is_moved || other->n_key != job->n_key)
        return false;
    return other->enqueued_at != job->enqueued_at ? other->enqueued_at < job->enqueued_at
                                                  : other->order < job->order;
}

static void check_order(struct world *world, uint32_t node, const struct worker *worker,
                        uint32_t number)
{
    const struct broker *broker = broker_at(world, node);
    const struct job *job = &world->jobs[number];
    struct rota_job_view view;
    for (uint32_t queue = 0; queue < QUEUES; queue++) {
        struct rota_str name = rota_str(queue_names[queue]);
        if (is_queue_paused(broker, name))
            continue;
        for (size_t place = 0;
             rota_broker_next_job(broker->machine, name, ROTA_JOB_WAITING, &place, &view);) {
            const struct job *other = &world->jobs[job_of(view.id)];
            if (other != job && broker->parts[other->part].is_open && can_run(worker, other) &&
                other->whole_at == node && other->whole_number <= broker->durable &&
                goes_before(other, job))
                rota_sim_fail(world->sim, "order: job %u is handed out before job %u", number,
                              job_of(view.id));
        }
    }
}

/* Keys that all have jobs waiting are served by their weights: a start-time fair queue is
 * never off by more than one job of each. */
static void check_shares(struct world *world, uint32_t node, const struct job *job)
{
    struct broker *broker = broker_at(world, node);
    struct rota_job_view view;
    bool has[KEYS] = {0};
    if (!world->shape.is_fair)
        return;
    for (size_t place = 0;
         rota_broker_next_job(broker->machine, queue_of(0), ROTA_JOB_WAITING, &place, &view);)
        has[world->jobs[job_of(view.id)].n_key] = true;
    for (uint32_t i = 0; i < KEYS; i++)
        if (!has[i]) {
            memset(broker->n_of_key, 0, sizeof broker->n_of_key);
            return;
        }
    broker->n_of_key[job->n_key]++;
    for (uint32_t i = 0; i < KEYS; i++)
        for (uint32_t k = 0; k < KEYS; k++) {
            double mine = broker->n_of_key[i] * 1000.0 / weights[i];
            double other = broker->n_of_key[k] * 1000.0 / weights[k];
            double bound = (1 + broker->fair_slack) * (1000.0 / weights[i] + 1000.0 / weights[k]);
            if (mine - other > bound + 0.001)
                rota_sim_fail(world->sim, "fairness: key %u has had %u, key %u only %u", i,
                              broker->n_of_key[i], k, broker->n_of_key[k]);
        }
}

static void check_time(struct world *world, uint32_t node, uint32_t number)
{
    const struct job *job = &world->jobs[number];
    if (job->wait_at == node && job->wait_life == rota_sim_life(world->sim, node) &&
        now_of(world, node).boot < job->not_before)
        rota_sim_fail(world->sim, "job %u is handed out before its time", number);
}

uint32_t truth_dispatch(struct world *world, uint32_t node, const struct session *session,
                        uint32_t number, uint64_t attempt)
{
    const struct broker *broker = broker_at(world, node);
    struct job *job = &world->jobs[number];
    const struct worker *worker = worker_at(world, session->node);
    if (!can_run(worker, job))
        rota_sim_fail(world->sim, "W3: job %u goes to node %u, which can't do it", number,
                      session->node);
    if (job->done_run)
        rota_sim_fail(world->sim, "W2: job %u runs again, though it is done", number);
    if (job->is_cancelled && !job->is_revived)
        rota_sim_fail(world->sim, "job %u runs again, though it is cancelled", number);
    if (job->is_dead && !job->is_revived)
        rota_sim_fail(world->sim, "job %u runs again, though it is dead", number);
    if (job->whole_at != node || job->whole_number > broker->durable)
        rota_sim_fail(world->sim, "W1: job %u is handed out before it is on disk", number);
    if (!broker->parts[job->part].is_open)
        rota_sim_fail(world->sim, "job %u is handed out, but its partition is not open", number);
    if (is_queue_paused(broker, queue_of(job->part)))
        rota_sim_fail(world->sim, "job %u is handed out, but its queue is paused", number);
    if (find_run(world, number, attempt))
        rota_sim_fail(world->sim, "attempt %llx of job %u is used twice",
                      (unsigned long long)attempt, number);
    check_time(world, node, number);
    check_order(world, node, worker, number);
    check_shares(world, node, job);
    job->n_runs++;
    struct run run = {.job = number,
                      .broker = node,
                      .node = session->node,
                      .life = session->life,
                      .attempt = attempt,
                      .at = rota_sim_now(world->sim),
                      .number = rota_broker_last_number(broker->machine)};
    if (!rota_vector_push(&world->runs, run))
        die("no memory for a run");
    return (uint32_t)world->runs.size;
}

/* --- a job ends --- */

void truth_over(struct world *world, uint32_t node, const struct rota_work_record *record)
{
    uint32_t run = find_run(world, job_of(record->id), record->attempt);
    if (!run || (record->type == ROTA_WORK_RETRY && record->cause == ROTA_JOB_CAUSE_LOST))
        return;
    world->runs.items[run - 1].over_at = node;
    world->runs.items[run - 1].over_number = record->number;
}

void truth_crashed(struct world *world, uint32_t node)
{
    uint64_t durable = broker_at(world, node)->durable;
    for (size_t i = 0; i < world->runs.size; i++) {
        struct run *run = &world->runs.items[i];
        if (run->broker == node && run->number > durable)
            run->is_forgotten = true;
        if (run->over_at == node && run->over_number > durable)
            run->over_at = NOBODY;
    }
}

/* Why a broker must not take the end of a run that it considers open; NULL: it may. */
static const char *why_not_open(struct world *world, uint32_t node, uint32_t number)
{
    const struct run *run = run_at(world, number);
    if (!broker_at(world, node)->parts[world->jobs[run->job].part].is_open)
        return "the partition is not open there";
    if (run->over_at)
        return "it was over before";
    for (size_t i = number; i < world->runs.size; i++)
        if (world->runs.items[i].job == run->job && !world->runs.items[i].is_forgotten)
            return "the job went to another worker since";
    return NULL;
}

void truth_end_taken(struct world *world, uint32_t node, const struct frame *frame,
                     const struct rota_job_view *before)
{
    struct job *job = &world->jobs[frame->job];
    /* One that was lost may still be ended until the job goes to another worker, also at a
     * broker that has taken over the job since. */
    bool is_running = before->is_attempt_open && before->attempt == frame->attempt &&
                      find_run(world, frame->job, frame->attempt) == frame->run;
    struct run *run = &world->runs.items[frame->run - 1];
    bool is_again = run->cause == frame->cause &&
                    !(frame->cause == ROTA_JOB_CAUSE_DONE && before->state != ROTA_JOB_DONE);
    if (!is_running && !is_again)
        rota_sim_fail(world->sim, "W2: the end of run %u of job %u is taken, but it does not run",
                      frame->run, frame->job);
    const char *why_not = is_running ? why_not_open(world, node, frame->run) : NULL;
    if (why_not)
        rota_sim_fail(world->sim, "W2: the end of run %u of job %u is taken by node %u, but %s",
                      frame->run, frame->job, node, why_not);
    run->cause = frame->cause;
    job->ended_run = is_running ? frame->run : job->ended_run;
    job->was_refused_by_worker |= frame->cause == ROTA_JOB_CAUSE_REFUSED;
    if (!is_running || frame->cause != ROTA_JOB_CAUSE_FAILED)
        return;
    job->wait_at = node;
    job->wait_life = rota_sim_life(world->sim, node);
    job->not_before = now_of(world, node).boot + job->spec.backoff * 3 / 4;
}

void truth_ended(struct world *world, uint32_t node, uint32_t number, enum rota_job_cause cause,
                 uint64_t attempt)
{
    struct job *job = &world->jobs[number];
    uint32_t run = find_run(world, number, attempt);
    rota_sim_note(world->sim, node, "job %u has come to its end: %s", number,
                  rota_job_cause_text(cause));
    if (cause == ROTA_JOB_CAUSE_CANCELLED) {
        job->is_cancelled = true;
        return;
    }
    if (cause != ROTA_JOB_CAUSE_DONE) {
        uint32_t max = job->spec.max_attempts;
        bool is_fair = cause == ROTA_JOB_CAUSE_DEADLINE  ? job->spec.deadline > 0
                       : cause == ROTA_JOB_CAUSE_REFUSED ? job->was_refused_by_worker
                       : cause == ROTA_JOB_CAUSE_LOST && job->n_runs >= world->shape.kills_max
                           ? true
                           : job->n_runs >= max;
        if (!is_fair && !job->is_revived)
            rota_sim_fail(world->sim, "W1: job %u is dead after %u of %u attempts: %s", number,
                          job->n_runs, max, rota_job_cause_text(cause));
        job->is_dead = true;
        return;
    }
    if (job->done_run && job->done_run != run)
        rota_sim_fail(world->sim, "W2: job %u is done by run %u, and by run %u before", number, run,
                      job->done_run);
    if (!run || job->ended_run != run)
        rota_sim_fail(world->sim, "W2: job %u is done, but nobody did it", number);
    world->n_done += job->done_run == 0;
    job->done_run = run;
}

/* --- a broker has read its journal --- */

static void check_settings(struct world *world, uint32_t node)
{
    struct broker *broker = broker_at(world, node);
    for (uint32_t queue = 0; queue < QUEUES; queue++) {
        bool is_paused = is_queue_paused(broker, rota_str(queue_names[queue]));
        if (!broker->is_pause_open[queue] && is_paused != broker->paused[queue])
            rota_sim_fail(world->sim, "W6: queue %s is %s after a restart", queue_names[queue],
                          is_paused ? "paused" : "not paused");
        broker->paused[queue] = is_paused;
        broker->is_pause_open[queue] = false;
    }
}

/* Where the last record that has all of a job is now. */
static void find_whole(struct world *world, uint32_t node)
{
    const struct broker *broker = broker_at(world, node);
    const struct disk *disk = &broker->disk;
    for (uint32_t i = 0; i < world->n_jobs; i++)
        if (world->jobs[i].whole_at == node)
            world->jobs[i].whole_at = NOBODY;
    for (size_t i = 0; i < disk->kept.size; i++) {
        const struct rota_work_record *record = &disk->kept.items[i]->record;
        struct job *job = &world->jobs[job_of(record->id)];
        if (record->type == ROTA_WORK_FORGET && job->whole_at == node)
            job->whole_at = NOBODY;
        if (record->type != ROTA_WORK_ADD && record->type != ROTA_WORK_JOB)
            continue;
        bool is_elsewhere = job->home != NOBODY && job->home != node;
        if ((job->whole_at != NOBODY && job->whole_at != node) ||
            (is_elsewhere && !broker->parts[job->part].is_open))
            continue; /* a copy of old */
        job->whole_at = node;
        job->whole_number = record->number;
        job->enqueued_at = record->at;
        if (record->type == ROTA_WORK_ADD)
            job->order = record->number;
    }
}

/* What a broker has read, before it begins. Ends that nobody was told of may be there. */
static void recovered_job(struct world *world, uint32_t node, uint32_t number,
                          const struct rota_job_view *view)
{
    struct job *job = &world->jobs[number];
    bool is_wrong =
        job->done_run ? view->state != ROTA_JOB_DONE
                      : job->is_cancelled && !job->is_revived && view->state != ROTA_JOB_CANCELLED;
    if (is_wrong)
        rota_sim_fail(world->sim, "W6: job %u is %s after a restart", number,
                      rota_job_state_name(view->state));
    if (view->state == ROTA_JOB_DONE && !job->done_run)
        truth_ended(world, node, number, ROTA_JOB_CAUSE_DONE, view->attempt);
    if (job->priority_number > broker_at(world, node)->durable_before)
        job->priority = view->spec.priority;
    job->is_cancelled |= view->state == ROTA_JOB_CANCELLED;
    job->is_dead |= view->state == ROTA_JOB_DEAD;
}

void truth_recovered(struct world *world, uint32_t node)
{
    struct broker *broker = broker_at(world, node);
    struct rota_job_view view;
    find_whole(world, node);
    for (uint32_t i = 0; i < world->n_jobs; i++) {
        const struct job *job = &world->jobs[i];
        bool is_there =
            !rota_broker_find(broker->machine, queue_of(job->part), job->spec.id, &view, NULL);
        if (is_there && job->whole_at == node)
            recovered_job(world, node, i, &view);
        else if (!is_there && job->home == node && job->is_acked && !job->is_merged)
            rota_sim_fail(world->sim, "W6: job %u is lost in a restart of node %u", i, node);
    }
    check_settings(world, node);
    memset(broker->n_of_key, 0, sizeof broker->n_of_key);
    broker->fair_slack = rota_sim_life(world->sim, node) > 1 ? WORKERS_MAX : 0;
}

/* --- now and then --- */

bool is_gone(const struct world *world, uint32_t node, uint32_t life)
{
    return rota_sim_life(world->sim, node) != life || !rota_sim_is_up(world->sim, node);
}

/* W5: nobody waits forever for a worker that is no more. */
static void look_at_runs(struct world *world, uint32_t node)
{
    const struct broker *broker = broker_at(world, node);
    rota_time now = rota_sim_now(world->sim);
    struct rota_job_view view;
    struct rota_worker_view worker;
    for (size_t place = 0; rota_broker_next_worker(broker->machine, &place, &worker);) {
        if (!worker.session)
            continue; /* leases, which end in time */
        const struct session *session = find_session(broker, worker.session);
        const struct worker *who = session ? worker_at(world, session->node) : NULL;
        if (!session)
            rota_sim_fail(world->sim, "node %u has a session that nobody opened", node);
        else if (worker.n_running > who->slots)
            rota_sim_fail(world->sim, "bounds: node %u runs %u jobs in %u slots", session->node,
                          worker.n_running, who->slots);
        else if (is_gone(world, session->node, session->life) &&
                 now - later(who->crashed_at, broker->well_since) > LIVENESS + SLACK)
            rota_sim_fail(world->sim, "W5: node %u is gone, and still has its session",
                          session->node);
    }
    for (uint32_t queue = 0; queue < QUEUES; queue++)
        for (size_t place = 0; rota_broker_next_job(broker->machine, rota_str(queue_names[queue]),
                                                    ROTA_JOB_RUNNING, &place, &view);) {
            uint32_t number = job_of(view.id), run = find_run(world, number, view.attempt);
            if (!run) {
                rota_sim_fail(world->sim, "job %u runs in an attempt that nobody began", number);
                continue;
            }
            const struct run *own = run_at(world, run);
            const struct worker *who = worker_at(world, own->node);
            if (is_gone(world, own->node, own->life) &&
                now - later(who->crashed_at, broker->well_since) > GRACE + LIVENESS + SLACK)
                rota_sim_fail(world->sim, "W5: job %u is lost with node %u, and not queued again",
                              number, own->node);
        }
}

static void look_at_waiting(struct world *world, uint32_t node)
{
    const struct broker *broker = broker_at(world, node);
    struct rota_job_view view;
    struct rota_worker_view worker;
    if (broker->life_number > broker->durable)
        return; /* nothing is handed out yet */
    for (uint32_t queue = 0; queue < QUEUES; queue++) {
        struct rota_str name = rota_str(queue_names[queue]);
        if (is_queue_paused(broker, name))
            continue;
        for (size_t place = 0;
             rota_broker_next_job(broker->machine, name, ROTA_JOB_WAITING, &place, &view);) {
            const struct job *job = &world->jobs[job_of(view.id)];
            if (!broker->parts[job->part].is_open || job->whole_at != node ||
                job->whole_number > broker->durable)
                continue;
            for (size_t i = 0; rota_broker_next_worker(broker->machine, &i, &worker);) {
                const struct session *session = find_session(broker, worker.session);
                if (session && worker.n_running < worker.slots &&
                    can_run(worker_at(world, session->node), job))
                    rota_sim_fail(world->sim, "job %u waits beside node %u, which is idle",
                                  job_of(view.id), session->node);
            }
        }
    }
}

static bool is_alive(enum rota_job_state state)
{
    return state == ROTA_JOB_WAITING || state == ROTA_JOB_DELAYED || state == ROTA_JOB_RUNNING;
}

static void look_at_jobs(struct world *world, uint32_t node)
{
    const struct broker *broker = broker_at(world, node);
    const struct shape *shape = &world->shape;
    struct rota_job_view view, other;
    uint32_t n_live = 0;
    for (uint32_t i = 0; i < world->n_jobs; i++) {
        const struct job *job = &world->jobs[i];
        if (job->whole_at != node ||
            rota_broker_find(broker->machine, queue_of(job->part), job->spec.id, &view, NULL))
            continue;
        n_live += is_alive(view.state);
        if (view.enqueued_at != job->enqueued_at)
            rota_sim_fail(world->sim, "job %u has lost its age", i);
        if (view.spec.priority != job->priority)
            rota_sim_fail(world->sim, "job %u has lost its priority", i);
        for (uint32_t k = 0; k < i && job->spec.unique.size > 0 && is_alive(view.state); k++)
            if (world->jobs[k].part == job->part && world->jobs[k].whole_at == node &&
                rota_str_is_equal(world->jobs[k].spec.unique, job->spec.unique) &&
                !rota_broker_find(broker->machine, queue_of(job->part), world->jobs[k].spec.id,
                                  &other, NULL) &&
                is_alive(other.state))
                rota_sim_fail(world->sim, "jobs %u and %u have one unique key", k, i);
    }
    /* Jobs that leave make room for those that come. */
    if (shape->jobs_max && n_live > shape->jobs_max * (world->n_moves ? 2 : 1))
        rota_sim_fail(world->sim, "bounds: node %u has %u jobs", node, n_live);
}

void look(void *data, uint64_t number)
{
    struct world *world = data;
    for (uint32_t node = FIRST_BROKER; is_broker(world, node); node++) {
        struct broker *broker = broker_at(world, node);
        if (!broker->machine || !rota_sim_is_up(world->sim, node) ||
            rota_sim_is_paused(world->sim, node)) {
            broker->well_since = rota_sim_now(world->sim);
            continue;
        }
        look_at_runs(world, node);
        look_at_waiting(world, node);
        if (number % 4 == 0)
            look_at_jobs(world, node);
    }
    rota_sim_call(world->sim, rota_sim_now(world->sim) + LOOK_EVERY, look, world, number + 1);
}

/* --- at the end --- */

/* Why a job is not where it should be in the end; NULL: it is. */
static const char *check_job(struct world *world, const struct job *job)
{
    struct rota_job_view view;
    if (job->is_refused || job->is_merged)
        return NULL;
    if (!job->is_acked)
        return "was not taken in";
    const struct broker *broker = broker_at(world, job->home);
    if (!broker->machine ||
        rota_broker_find(broker->machine, queue_of(job->part), job->spec.id, &view, NULL))
        return world->shape.ended_max && (job->done_run || job->is_dead || job->is_cancelled)
                   ? NULL
                   : "is lost";
    switch (view.state) {
    case ROTA_JOB_WAITING:
        return "waits";
    case ROTA_JOB_DELAYED:
        return "is delayed";
    case ROTA_JOB_RUNNING:
        return "runs";
    case ROTA_JOB_DONE:
        return job->done_run ? NULL : "is done, but nobody was told";
    case ROTA_JOB_DEAD:
        return job->is_dead ? NULL : "is dead, but nobody was told";
    case ROTA_JOB_CANCELLED:
        return job->is_cancelled ? NULL : "is cancelled, but nobody was told";
    }
    return NULL;
}

bool are_all_let_in(const struct world *world)
{
    for (uint32_t node = FIRST_BROKER; is_broker(world, node); node++)
        for (uint32_t i = 0; i < world->shape.n_workers; i++)
            if (world->workers[i].links[node - FIRST_BROKER].session == 0 &&
                !world->workers[i].polls)
                return false;
    return true;
}

bool is_all_well(struct world *world, uint32_t *which)
{
    for (uint32_t i = 0; i < world->n_jobs; i++) {
        world->why_not = check_job(world, &world->jobs[i]);
        if (world->why_not) {
            *which = i;
            return false;
        }
    }
    return world->n_jobs == world->shape.n_jobs;
}

void check_end(struct world *world)
{
    uint32_t which = 0;
    if (!is_all_well(world, &which))
        rota_sim_fail(world->sim, "W1: job %u %s, long after the last fault", which,
                      world->why_not ? world->why_not : "was never thought of");
    if (!are_all_let_in(world))
        rota_sim_fail(world->sim, "a worker has no session, long after the last fault");
}
