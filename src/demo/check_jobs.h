/* check_jobs: whether each acknowledged job is done, by one completion.
 *
 *     acknowledged --> ended, as a read of the job shows --> listed once among the done ones
 *
 * A read counts the completions in the job's history; the list, of all nodes together, shows a
 * job that two nodes have each done, or that was done and then forgotten. Jobs that were not
 * acknowledged are not checked. */
#pragma once

#include "base/vector.h"
#include "core/work/job/job.h"
#include "demo/check.h"

enum { ROTA_CHECK_JOBS_MAX = 1000000 }; /* more are UNCHECKED */

struct rota_check_job {
    struct rota_job_id id;
    rota_time at; /* when it was acknowledged */
    bool is_ended, is_done;
    uint8_t n_listed; /* 2: twice or more */
};

struct rota_check_jobs {
    struct rota_check *check;
    ROTA_VECTOR(struct rota_check_job) jobs;
    bool is_sorted;
    uint64_t n_acknowledged, n_done,
        n_cancelled; /* the last by an operator or client, which is not a fault */
};

void rota_check_jobs_init(struct rota_check_jobs *jobs,
                          struct rota_check *check); /* keeps `check` */
void rota_check_jobs_deinit(struct rota_check_jobs *jobs);

/* The cluster has promised to run it. Returns false if there is no room for it. */
bool rota_check_jobs_acknowledged(struct rota_check_jobs *jobs, struct rota_job_id id,
                                  rota_time now);

/* A read showed its end: DONE, by this many completions, with a result that is as expected or not;
 * DEAD; or CANCELLED. */
void rota_check_jobs_ended(struct rota_check_jobs *jobs, struct rota_job_id id,
                           enum rota_job_state state, size_t n_done, bool is_right);

/* All have ended, and the done ones are listed: begin, each of them, and the end. Jobs
 * acknowledged before `since` may have been forgotten, as is usual after an hour. */
void rota_check_jobs_list_begin(struct rota_check_jobs *jobs);
void rota_check_jobs_listed(struct rota_check_jobs *jobs, struct rota_job_id id);
void rota_check_jobs_list_end(struct rota_check_jobs *jobs, rota_time since);

/* The check is over: jobs that have not ended are lost. */
void rota_check_jobs_judge(struct rota_check_jobs *jobs);
