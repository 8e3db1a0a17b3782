/* What submitters and workers of test_work_processes.py write to standard output, before and after
 * each step that may be their last, in lines that test/lib/work_history.py reads. A submitter:
 *
 *     add ID CAPABILITY SIZE   it is about to ask for a job
 *     ack ID                   which was acknowledged
 *     doubt ID                 or nobody knows, and it asks again
 *     no ID STATUS             or refused for good, and it never was in doubt
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
#include "core/work/job.h"

#include <errno.h>
#include <rota/random.h>
#include <rota/time.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct rota_random chance;
static struct rota_buffer lines; /* not written yet */
static uint64_t lease_ms;

static inline void give_up(const char *what, const char *why)
{
    fprintf(stderr, "work: %s: %s\n", what, why);
    exit(1);
}

/* --- the log --- */

static inline void flush_lines(void)
{
    for (size_t at = 0; at < lines.size;) {
        ssize_t written = write(STDOUT_FILENO, lines.data + at, lines.size - at);
        if (written < 0 && errno != EINTR)
            give_up("standard output", strerror(errno));
        at += written > 0 ? (size_t)written : 0;
    }
    rota_buffer_clear(&lines);
}

static inline void log_job(const char *what, struct rota_job_id id)
{
    char text[ROTA_JOB_ID_TEXT];
    rota_buffer_print(&lines, "%s %s", what, rota_job_id_format(id, text));
}

static inline void log_attempt(const char *what, struct rota_job_id id, uint64_t attempt)
{
    log_job(what, id);
    rota_buffer_print(&lines, " %llu\n", (unsigned long long)attempt);
}

/* --- payloads: a function of the id --- */

static inline void fill_payload(struct rota_job_id id, char *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++)
        bytes[i] = (char)((id.low >> (8 * (i % 8))) + i / 8);
}

static inline bool is_payload(struct rota_job_id id, struct rota_str payload)
{
    for (size_t i = 0; i < payload.size; i++)
        if (payload.data[i] != (char)((id.low >> (8 * (i % 8))) + i / 8))
            return false;
    return payload.size > 0;
}

/* --- what a worker does with a job --- */

/* How long it takes. Some fail, some take a while, some longer than a lease. */
static inline rota_time choose_fate(bool *is_failing)
{
    uint64_t fate = rota_random_below(&chance, 1000);
    *is_failing = fate < 10;
    if (fate >= 10 && fate < 50)
        return (rota_time)rota_random_below(&chance, 200) * ROTA_MSEC;
    return fate >= 50 && fate < 53 ? (rota_time)(lease_ms + lease_ms / 2) * ROTA_MSEC : 0;
}

/* Whoever is killed from here on may have said how it ended. */
static inline void log_got(struct rota_job_id id, uint64_t attempt, struct rota_str payload,
                           bool is_failing)
{
    log_job("got", id);
    rota_buffer_print(&lines, " %llu %s\n", (unsigned long long)attempt,
                      is_payload(id, payload) ? "good" : "bad");
    log_attempt(is_failing ? "fail" : "end", id, attempt);
}
