#include "work_lines.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct rota_random chance;
struct rota_buffer lines; /* not written yet */
uint64_t lease_ms;

void give_up(const char *what, const char *why)
{
    fprintf(stderr, "work: %s: %s\n", what, why);
    exit(1);
}

/* --- the log --- */

void flush_lines(void)
{
    for (size_t at = 0; at < lines.size;) {
        ssize_t written = write(STDOUT_FILENO, lines.data + at, lines.size - at);
        if (written < 0 && errno != EINTR)
            give_up("standard output", strerror(errno));
        at += written > 0 ? (size_t)written : 0;
    }
    rota_buffer_clear(&lines);
}

void log_job(const char *what, struct rota_job_id id)
{
    char text[ROTA_JOB_ID_TEXT];
    rota_buffer_print(&lines, "%s %s", what, rota_job_id_format(id, text));
}

void log_attempt(const char *what, struct rota_job_id id, uint64_t attempt)
{
    log_job(what, id);
    rota_buffer_print(&lines, " %llu\n", (unsigned long long)attempt);
}

/* --- payloads: a function of the id --- */

void fill_payload(struct rota_job_id id, char *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++)
        bytes[i] = (char)((id.low >> (8 * (i % 8))) + i / 8);
}

static bool is_payload(struct rota_job_id id, struct rota_str payload)
{
    for (size_t i = 0; i < payload.size; i++)
        if (payload.data[i] != (char)((id.low >> (8 * (i % 8))) + i / 8))
            return false;
    return payload.size > 0;
}

/* --- what a worker does with a job --- */

rota_time choose_fate(bool *is_failing)
{
    uint64_t fate = rota_random_below(&chance, 1000);
    *is_failing = fate < 10;
    if (fate >= 10 && fate < 50)
        return (rota_time)rota_random_below(&chance, 200) * ROTA_MSEC;
    return fate >= 50 && fate < 53 ? (rota_time)(lease_ms + lease_ms / 2) * ROTA_MSEC : 0;
}

void log_got(struct rota_job_id id, uint64_t attempt, struct rota_str payload, bool is_failing)
{
    log_job("got", id);
    rota_buffer_print(&lines, " %llu %s\n", (unsigned long long)attempt,
                      is_payload(id, payload) ? "good" : "bad");
    log_attempt(is_failing ? "fail" : "end", id, attempt);
}
