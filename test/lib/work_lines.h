/* What submitters and workers of test_work_processes.py write to standard output, before and after
 * each step that may be their last, in lines that test/lib/work_history.py reads. A submitter:
 *
 *     add ID CAPABILITY SIZE   it is about to ask for a job
 *     ack ID                   which was acknowledged
 *     doubt ID                 or nobody knows, and it asks again
 *     no ID STATUS             or refused permanently, and it never was in doubt
 *
 * A worker:
 *
 *     can CAPABILITY...        the first line
 *     got ID ATTEMPT WHAT      it was handed a job, whose payload is `good` or `bad`
 *     end ID ATTEMPT           it is about to complete it
 *     fail ID ATTEMPT          or to say that it failed
 *     ok ID ATTEMPT            which was accepted
 *     stale ID ATTEMPT         or refused, for the attempt is over
 *     gone ID ATTEMPT          or nobody knows the job any more */
#pragma once

#include "base/buffer.h"
#include "core/work/job/job.h"

#include <rota/experimental/random.h>
#include <rota/time.h>

extern struct rota_random chance;
extern struct rota_buffer lines; /* not written yet */
extern uint64_t lease_ms;

void give_up(const char *what, const char *why);
void flush_lines(void);
void log_job(const char *what, struct rota_job_id id);
void log_attempt(const char *what, struct rota_job_id id, uint64_t attempt);
void fill_payload(struct rota_job_id id, char *bytes, size_t size);

/* How long it takes. Some fail, some take a while, some longer than a lease. */
rota_time choose_fate(bool *is_failing);

/* Whoever is killed from here on may have said how it ended. */
void log_got(struct rota_job_id id, uint64_t attempt, struct rota_str payload, bool is_failing);
