/* check_jobs: whether each job that was acknowledged is done, by one completion.
 *
 *     acknowledged --> ended, as one look at it shows --> listed once among those that are done
 *
 * A look counts the completions in the job's story; the list, of all nodes together, shows one
 * that two nodes have each done, or that was done and then forgotten. What nobody acknowledged
 * was not promised and is not looked at. */
#pragma once

#include "base/vector.h"
#include "core/node/check.h"
#include "core/work/job.h"

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
    uint64_t n_acknowledged, n_done, n_cancelled; /* the last by somebody, which is no fault */
};

void rota_check_jobs_init(struct rota_check_jobs *jobs, struct rota_check *check); /* keeps it */
void rota_check_jobs_deinit(struct rota_check_jobs *jobs);

/* The cluster has promised to do it. False: there is no room for it. */
bool rota_check_jobs_acknowledged(struct rota_check_jobs *jobs, struct rota_job_id id,
                                  rota_time now);

/* It was seen at its end: DONE, by so many completions, with a result that is as expected or not;
 * DEAD; or CANCELLED. */
void rota_check_jobs_ended(struct rota_check_jobs *jobs, struct rota_job_id id,
                           enum rota_job_state state, size_t n_done, bool is_right);

/* All have ended, and those that are done are listed: begin, each of them, and the end. Those
 * that were acknowledged before `since` may have been forgotten, as is usual after an hour. */
void rota_check_jobs_list_begin(struct rota_check_jobs *jobs);
void rota_check_jobs_listed(struct rota_check_jobs *jobs, struct rota_job_id id);
void rota_check_jobs_list_end(struct rota_check_jobs *jobs, rota_time since);

/* Nothing more is waited for: what has not ended is lost. */
void rota_check_jobs_judge(struct rota_check_jobs *jobs);
