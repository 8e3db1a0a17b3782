#include "work_scenarios.h"

#include <string.h>

struct shape calm_shape(void)
{
    return (struct shape){.n_brokers = 1,
                          .n_workers = 2,
                          .n_jobs = 20,
                          .add_every = 10 * ROTA_MSEC,
                          .work_for = 50 * ROTA_MSEC,
                          .quiet_at = 6 * ROTA_SEC,
                          .end_at = 60 * ROTA_SEC,
                          .kills_max = KILLS_MANY};
}

/* All workers can do all, one at a time. */
static void plain_workers(struct world *world)
{
    for (uint32_t i = 0; i < world->shape.n_workers; i++) {
        world->workers[i].caps = (1U << CAPS) - 1;
        world->workers[i].queues = (1U << QUEUES) - 1;
        world->workers[i].slots = 1;
        world->workers[i].polls = world->workers[i].has_leases = false;
        world->workers[i].is_checked = false;
    }
}

void plain_jobs(struct world *world)
{
    for (uint32_t i = 0; i < world->n_jobs; i++) {
        world->jobs[i].spec.timeout = 0;
        world->jobs[i].spec.max_attempts = 100;
    }
    plain_workers(world);
}

static const struct run *nth_run(const struct world *world, uint32_t job, int n)
{
    for (size_t i = 0; i < world->runs.size; i++)
        if (world->runs.items[i].job == job && n-- == 0)
            return &world->runs.items[i];
    return NULL;
}

/* --- many jobs of one moment --- */

static void jump_back(void *data, uint64_t number)
{
    struct world *world = data;
    rota_sim_jump_wall(world->sim, FIRST_BROKER, -(rota_time)number * ROTA_HOUR);
}

static void script_same_time(struct world *world)
{
    plain_jobs(world);
    rota_sim_call(world->sim, 390 * ROTA_MSEC, jump_back, world, 1);
}

static const char *check_same_time(struct world *world)
{
    rota_time at = world->jobs[1].enqueued_at;
    for (uint32_t i = 1; i < world->n_jobs; i++)
        if (world->jobs[i].enqueued_at != at)
            return "the jobs are not of one moment";
    return world->n_done == world->n_jobs ? NULL : "not all jobs are done";
}

/* --- a running job is cancelled --- */

static void shape_long(struct shape *shape)
{
    shape->n_jobs = 1;
    shape->work_for = 30 * ROTA_SEC;
}

static void script_cancel(struct world *world)
{
    plain_jobs(world);
    world->jobs[0].cancel_at = 2 * ROTA_SEC;
}

static const char *check_cancel(struct world *world)
{
    const struct job *job = &world->jobs[0];
    if (job->n_runs != 1)
        return "the job ran again";
    return job->is_cancelled || job->done_run ? NULL : "the job is not cancelled"; /* or quick */
}

/* --- a worker is lost while another is idle --- */

static void crash_runner(void *data, uint64_t number)
{
    struct world *world = data;
    const struct run *run = nth_run(world, 0, 0);
    world->shape.work_for = 50 * ROTA_MSEC; /* from now on */
    if (run)
        rota_sim_crash(world->sim, run->node);
    if (run && number)
        rota_sim_call(world->sim, rota_sim_now(world->sim) + 5 * ROTA_MSEC, start_call, world,
                      run->node);
    else if (run)
        rota_sim_call(world->sim, rota_sim_now(world->sim) + 10 * ROTA_SEC, start_call, world,
                      run->node);
}

static void script_loss(struct world *world)
{
    plain_jobs(world);
    rota_sim_call(world->sim, 2 * ROTA_SEC, crash_runner, world, 0);
}

static const char *check_again_within(struct world *world, rota_time bound)
{
    const struct run *first = nth_run(world, 0, 0), *second = nth_run(world, 0, 1);
    if (first && run_at(world, world->jobs[0].done_run) == first)
        return NULL; /* it was quick */
    if (!second)
        return "the job is not handed out again";
    return second->at - 2 * ROTA_SEC <= bound ? NULL : "the job is handed out too late";
}

static const char *check_loss(struct world *world)
{
    return check_again_within(world, LIVENESS + BEAT_EVERY + world->jobs[0].spec.backoff * 6 / 5);
}

/* --- nobody overtakes --- */

static void shape_overtake(struct shape *shape)
{
    shape->n_workers = 1;
    shape->n_jobs = 12;
    shape->work_for = 100 * ROTA_MSEC;
    shape->worker_crash_every = ROTA_SEC;
}

static const char *check_overtake(struct world *world)
{
    for (uint32_t i = 0; i < world->n_jobs; i++)
        for (uint32_t k = 0; k < i; k++)
            if (world->jobs[i].part / PARTS_OF_QUEUE == world->jobs[k].part / PARTS_OF_QUEUE &&
                world->jobs[i].order > world->jobs[k].order &&
                nth_run(world, i, 0)->at < nth_run(world, k, 0)->at &&
                nth_run(world, i, 0)->at > world->jobs[k].add_at + ROTA_SEC)
                return "a job has overtaken an older one";
    return NULL;
}

/* --- a reply comes late --- */

static void pause_runner(void *data, uint64_t number)
{
    struct world *world = data;
    const struct run *run = nth_run(world, 0, 0);
    if (!run)
        return;
    if (number)
        rota_sim_pause(world->sim, run->node);
    else
        rota_sim_resume(world->sim, run->node);
}

static void shape_late(struct shape *shape)
{
    shape->n_jobs = 1;
    shape->work_for = ROTA_SEC;
}

static void script_late(struct world *world)
{
    plain_jobs(world);
    rota_sim_call(world->sim, 600 * ROTA_MSEC, pause_runner, world, 1);
    rota_sim_call(world->sim, 5 * ROTA_SEC, pause_runner, world, 0);
}

static const char *check_late(struct world *world)
{
    const struct job *job = &world->jobs[0];
    if (job->done_run == 0)
        return "the job is not done";
    return job->n_runs == 1 || run_at(world, job->done_run) != nth_run(world, 0, 0)
               ? NULL
               : "a reply of an attempt that is over was taken";
}

/* --- a worker restarts at once, under its name --- */

static void script_restart(struct world *world)
{
    plain_jobs(world);
    rota_sim_call(world->sim, 2 * ROTA_SEC, crash_runner, world, 1);
}

static const char *check_restart(struct world *world)
{
    return check_again_within(world, 500 * ROTA_MSEC);
}

/* --- jobs wait for long --- */

static void shape_wait(struct shape *shape)
{
    shape->n_jobs = 10;
    shape->quiet_at = 45 * ROTA_SEC;
    shape->end_at = 90 * ROTA_SEC;
}

static void prioritise(void *data, uint64_t number)
{
    set_priority(data, FIRST_BROKER, (uint32_t)number, 5);
}

static void script_wait(struct world *world)
{
    plain_jobs(world);
    world->workers[1].caps = 0;
    for (uint32_t i = 0; i < world->n_jobs; i++) {
        world->jobs[i].caps = 1;
        world->jobs[i].spec.n_capabilities = 1;
        world->jobs[i].capabilities[0] = rota_str(cap_names[0]);
    }
    rota_sim_call(world->sim, 300 * ROTA_MSEC, crash_call, world, FIRST_WORKER);
    rota_sim_call(world->sim, 3 * ROTA_SEC, prioritise, world, 7);
    rota_sim_call(world->sim, 40 * ROTA_SEC, start_call, world, FIRST_WORKER);
}

static const char *check_wait(struct world *world)
{
    if (world->n_done != world->n_jobs)
        return "not all jobs are done";
    return run_at(world, world->jobs[7].done_run)->at < run_at(world, world->jobs[0].done_run)->at
               ? NULL
               : "the order is wrong";
}

/* --- times are told --- */

static void script_plain(struct world *world)
{
    plain_jobs(world);
}

static const char *check_times(struct world *world)
{
    struct rota_job_view view;
    struct rota_queue_view queue;
    size_t n_done = 0;
    struct rota_str place = {0};
    for (uint32_t i = 0; i < world->n_jobs; i++) {
        const struct job *job = &world->jobs[i];
        if (rota_broker_find(world->brokers[0].machine, queue_of(job->part), job->spec.id, &view,
                             NULL))
            return "a job is not there";
        if (view.enqueued_at <= 0 || view.ended_at < view.enqueued_at || view.n_events == 0)
            return "a job has no times";
        for (size_t k = 0; k < view.n_events; k++)
            if (view.events[k].at < view.enqueued_at || view.events[k].at > view.ended_at)
                return "an event of a job has no time";
    }
    while (rota_broker_next_queue(world->brokers[0].machine, &place, &queue))
        n_done += queue.n_done;
    return n_done == world->n_jobs ? NULL : "the counts are wrong";
}

/* --- a cancel comes late, and the worker has another job --- */

static void shape_cancels(struct shape *shape)
{
    shape->n_jobs = 40;
    shape->add_every = 100 * ROTA_MSEC;
    shape->work_for = 400 * ROTA_MSEC;
    shape->cancel_every = ROTA_SEC;
    shape->duplication = 0.9;
}

static const char *check_cancels(struct world *world)
{
    for (uint32_t i = 0; i < world->n_jobs; i++)
        if (world->jobs[i].n_runs > 1)
            return "a cancel has hit another job";
    return NULL;
}

/* --- a broker is unreachable for long --- */

static void shape_away(struct shape *shape)
{
    shape->n_brokers = 2;
    shape->quiet_at = 26 * ROTA_SEC;
}

static void script_away(struct world *world)
{
    plain_jobs(world);
    rota_sim_call(world->sim, 200 * ROTA_MSEC, crash_call, world, FIRST_BROKER + 1);
    rota_sim_call(world->sim, 25 * ROTA_SEC, start_call, world, FIRST_BROKER + 1);
}

static const char *check_away(struct world *world)
{
    for (uint32_t i = 0; i < world->n_jobs; i++) {
        const struct run *run = nth_run(world, i, 0);
        rota_time bound = run->broker == FIRST_BROKER ? 6 * ROTA_SEC : 29 * ROTA_SEC;
        if (run->at > bound)
            return "a worker was deaf while it waited for another broker";
    }
    return NULL;
}

/* --- a job goes to nowhere --- */

static void cut_runner(void *data, uint64_t number)
{
    struct world *world = data;
    for (uint32_t broker = FIRST_BROKER; is_broker(world, broker); broker++) {
        rota_sim_block(world->sim, FIRST_WORKER, broker, number);
        rota_sim_block(world->sim, broker, FIRST_WORKER, number);
    }
}

static void shape_void(struct shape *shape)
{
    shape->n_jobs = 6;
}

static void script_void(struct world *world)
{
    plain_jobs(world);
    rota_sim_call(world->sim, 380 * ROTA_MSEC, cut_runner, world, 1);
    rota_sim_call(world->sim, 5 * ROTA_SEC, cut_runner, world, 0);
}

static const char *check_void(struct world *world)
{
    for (uint32_t i = 0; i < world->n_jobs; i++)
        if (run_at(world, world->jobs[i].done_run)->at > 4 * ROTA_SEC)
            return "a job waited for a worker that nobody reaches";
    return NULL;
}

/* --- the broker is paused --- */

static void shape_one(struct shape *shape)
{
    shape->n_jobs = 1;
    shape->work_for = 20 * ROTA_SEC;
    shape->quiet_at = 12 * ROTA_SEC;
    shape->end_at = 10 * ROTA_MIN;
}

static void freeze(void *data, uint64_t number)
{
    struct world *world = data;
    if (number)
        rota_sim_pause(world->sim, FIRST_BROKER);
    else
        rota_sim_resume(world->sim, FIRST_BROKER);
}

/* Twice as long as a silent worker lives; each could cost the job its only attempt. */
static void script_freeze(struct world *world)
{
    plain_jobs(world);
    world->jobs[0].spec.max_attempts = 1;
    for (rota_time at = 2 * ROTA_SEC; at < 12 * ROTA_SEC; at += 5 * ROTA_SEC) {
        rota_sim_call(world->sim, at, freeze, world, 1);
        rota_sim_call(world->sim, at + 2 * LIVENESS, freeze, world, 0);
    }
}

static const char *check_one_run(struct world *world)
{
    const struct job *job = &world->jobs[0];
    if (job->n_runs != 1)
        return "the job ran again";
    return job->done_run ? NULL : "the job is not done";
}

/* --- a worker comes back before its job has gone to another --- */

static void shape_return(struct shape *shape)
{
    shape_one(shape);
    shape->n_workers = 1;
}

static void script_return(struct world *world)
{
    plain_jobs(world);
    rota_sim_call(world->sim, 2 * ROTA_SEC, cut_runner, world, 1);
    rota_sim_call(world->sim, 2 * ROTA_SEC + 2 * LIVENESS, cut_runner, world, 0);
}

/* --- a job kills whoever runs it --- */

static void shape_poison(struct shape *shape)
{
    shape->n_jobs = 1;
    shape->n_workers = WORKERS_MAX;
    shape->work_for = 20 * ROTA_SEC;
    shape->quiet_at = 20 * ROTA_SEC;
    shape->kills_max = ROTA_JOB_KILLS_DEFAULT;
}

static void kill_runner(void *data, uint64_t number)
{
    struct world *world = data;
    const struct run *run = NULL;
    for (int i = 0; nth_run(world, 0, i); i++)
        run = nth_run(world, 0, i);
    if (run && !is_gone(world, run->node, run->life)) {
        rota_sim_crash(world->sim, run->node);
        rota_sim_call(world->sim, rota_sim_now(world->sim) + ROTA_SEC, start_call, world,
                      run->node);
    }
    if (rota_sim_now(world->sim) < world->shape.quiet_at)
        rota_sim_call(world->sim, rota_sim_now(world->sim) + 20 * ROTA_MSEC, kill_runner, world,
                      number);
}

static void script_poison(struct world *world)
{
    plain_jobs(world);
    rota_sim_call(world->sim, 20 * ROTA_MSEC, kill_runner, world, 0);
}

static const char *check_poison(struct world *world)
{
    const struct job *job = &world->jobs[0];
    if (job->done_run)
        return NULL; /* it was quick */
    if (job->n_runs > ROTA_JOB_KILLS_DEFAULT)
        return "the job has killed more workers than it may";
    for (int i = 1; i < (int)job->n_runs; i++)
        if (nth_run(world, 0, i)->at - nth_run(world, 0, i - 1)->at < job->spec.backoff / 2)
            return "the job goes to the next worker at once";
    return job->n_runs == ROTA_JOB_KILLS_DEFAULT ? NULL : "the job is not tried as often as it may";
}

/* --- there is a bound for everything --- */

static void shape_limits(struct shape *shape)
{
    shape->n_jobs = 60;
    shape->add_every = ROTA_MSEC;
    shape->jobs_max = 10;
    shape->ended_max = 8;
    shape->bytes_max = 100;
}

static const char *check_limits(struct world *world)
{
    if (world->n_limits == 0)
        return "nothing was refused";
    return world->n_done == world->n_jobs ? NULL : "not all jobs are done";
}

const struct scenario scenarios[] = {
    {{"same-time", "many jobs of one moment are all kept"},
     NULL,
     script_same_time,
     check_same_time},
    {{"cancel", "a running job that is cancelled does not run again"},
     shape_long,
     script_cancel,
     check_cancel},
    {{"loss", "a lost job goes to an idle worker at once"}, shape_long, script_loss, check_loss},
    {{"overtake", "a new job does not overtake older ones"},
     shape_overtake,
     script_plain,
     check_overtake},
    {{"late", "a late reply is refused, and frees nobody"}, shape_late, script_late, check_late},
    {{"restart", "a worker that restarts at once has lost its job"},
     shape_long,
     script_restart,
     check_restart},
    {{"wait", "a job waits until somebody can do it, however long"},
     shape_wait,
     script_wait,
     check_wait},
    {{"times", "all times and counts are told"}, NULL, script_plain, check_times},
    {{"cancels", "a late cancel does not hit the next job"},
     shape_cancels,
     script_plain,
     check_cancels},
    {{"away", "workers serve one broker while they wait for another"},
     shape_away,
     script_away,
     check_away},
    {{"void", "a job that goes to nowhere is handed out again in time"},
     shape_void,
     script_void,
     check_void},
    {{"freeze", "a broker that stood still takes nobody's job away"},
     shape_one,
     script_freeze,
     check_one_run},
    {{"return", "a worker that comes back goes on, unless its job is another's"},
     shape_return,
     script_return,
     check_one_run},
    {{"poison", "a job that kills its workers waits longer each time, and then is dead"},
     shape_poison,
     script_poison,
     check_poison},
    {{"limits", "jobs, bytes and what is remembered have bounds"},
     shape_limits,
     script_plain,
     check_limits},
};

const struct scenario *scenario_of(const struct sim_case *run)
{
    const char *name = run->plant == PLANT_NO_STALL        ? "freeze"
                       : run->plant == PLANT_NO_RETURN     ? "return"
                       : run->plant == PLANT_NO_QUARANTINE ? "poison"
                                                           : NULL;
    for (int i = 0; name && i < N_SCENARIOS; i++)
        if (strcmp(scenarios[i].name.name, name) == 0)
            return &scenarios[i];
    return run->scenario ? &scenarios[run->scenario - 1] : NULL;
}
