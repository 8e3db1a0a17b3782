#include "demo/check_jobs.h"

void rota_check_jobs_init(struct rota_check_jobs *jobs, struct rota_check *check)
{
    *jobs = (struct rota_check_jobs){.check = check};
}

void rota_check_jobs_deinit(struct rota_check_jobs *jobs)
{
    rota_vector_deinit(&jobs->jobs);
}

static int compare_jobs(const void *a, const void *b)
{
    const struct rota_check_job *one = a, *other = b;
    if (one->id.high != other->id.high)
        return one->id.high < other->id.high ? -1 : 1;
    return one->id.low < other->id.low ? -1 : one->id.low > other->id.low;
}

static void report_job(struct rota_check_jobs *jobs, enum rota_check_fault fault,
                       struct rota_job_id id, const char *what)
{
    char text[ROTA_JOB_ID_TEXT];
    rota_check_report_fault(jobs->check, fault, "job %s %s", rota_job_id_format(id, text), what);
}

bool rota_check_jobs_acknowledged(struct rota_check_jobs *jobs, struct rota_job_id id,
                                  rota_time now)
{
    struct rota_check_job job = {.id = id, .at = now};
    jobs->n_acknowledged++;
    if (jobs->jobs.size == ROTA_CHECK_JOBS_MAX || !rota_vector_push(&jobs->jobs, job)) {
        report_job(jobs, ROTA_CHECK_UNCHECKED, id, "is not checked: too many jobs");
        return false;
    }
    jobs->is_sorted = false;
    return true;
}

/* While jobs are being added, the one searched for is among the last. */
static struct rota_check_job *find_job(struct rota_check_jobs *jobs, struct rota_job_id id)
{
    struct rota_check_job key = {.id = id};
    if (jobs->is_sorted && jobs->jobs.size > 0)
        return bsearch(&key, jobs->jobs.items, jobs->jobs.size, sizeof key, compare_jobs);
    for (size_t i = jobs->jobs.size; i-- > 0;)
        if (compare_jobs(&jobs->jobs.items[i], &key) == 0)
            return &jobs->jobs.items[i];
    return NULL;
}

static void note_done(struct rota_check_jobs *jobs, struct rota_check_job *job, size_t n_done,
                      bool is_right)
{
    char text[ROTA_JOB_ID_TEXT];
    jobs->n_done++;
    job->is_done = true;
    if (n_done > 1)
        rota_check_report_fault(jobs->check, ROTA_CHECK_JOB_TWICE, "job %s was completed %zu times",
                                rota_job_id_format(job->id, text), n_done);
    if (!is_right)
        report_job(jobs, ROTA_CHECK_JOB_WRONG, job->id,
                   "has a result that does not match its payload");
}

void rota_check_jobs_ended(struct rota_check_jobs *jobs, struct rota_job_id id,
                           enum rota_job_state state, size_t n_done, bool is_right)
{
    struct rota_check_job *job = find_job(jobs, id);
    if (!job || job->is_ended)
        return;
    switch (state) {
    case ROTA_JOB_WAITING:
    case ROTA_JOB_DELAYED:
    case ROTA_JOB_RUNNING:
        return;
    case ROTA_JOB_DONE:
        note_done(jobs, job, n_done, is_right);
        break;
    case ROTA_JOB_DEAD:
        report_job(jobs, ROTA_CHECK_JOB_DEAD, id, "is dead");
        break;
    case ROTA_JOB_CANCELLED:
        jobs->n_cancelled++;
        break;
    }
    job->is_ended = true;
}

void rota_check_jobs_list_begin(struct rota_check_jobs *jobs)
{
    if (!jobs->is_sorted && jobs->jobs.size > 0)
        qsort(jobs->jobs.items, jobs->jobs.size, sizeof *jobs->jobs.items, compare_jobs);
    jobs->is_sorted = true;
    for (size_t i = 0; i < jobs->jobs.size; i++)
        jobs->jobs.items[i].n_listed = 0;
}

void rota_check_jobs_listed(struct rota_check_jobs *jobs, struct rota_job_id id)
{
    struct rota_check_job *job = find_job(jobs, id);
    if (job && job->n_listed < 2)
        job->n_listed++;
}

void rota_check_jobs_list_end(struct rota_check_jobs *jobs, rota_time since)
{
    for (size_t i = 0; i < jobs->jobs.size; i++) {
        const struct rota_check_job *job = &jobs->jobs.items[i];
        if (job->n_listed > 1)
            report_job(jobs, ROTA_CHECK_JOB_TWICE, job->id, "was completed on two nodes");
        else if (job->n_listed == 0 && job->is_done && job->at >= since)
            report_job(jobs, ROTA_CHECK_JOB_LOST, job->id,
                       "was completed, but no node knows it now");
    }
}

void rota_check_jobs_judge(struct rota_check_jobs *jobs)
{
    for (size_t i = 0; i < jobs->jobs.size; i++)
        if (!jobs->jobs.items[i].is_ended)
            report_job(jobs, ROTA_CHECK_JOB_LOST, jobs->jobs.items[i].id, "has not ended");
}
