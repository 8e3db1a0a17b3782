/* doctor: looks at what Rota needs, and says what is wrong and how to fix it.
 *
 * Each look leaves findings; none of them changes anything, but for a file that is written to
 * measure a disk, which is gone afterwards. */
#pragma once

#include "base/buffer.h"
#include "base/vector.h"
#include "cli/tls_options.h"

#include <rota/error.h>
#include <rota/time.h>

struct uv_loop_s;

enum rota_verdict {
    ROTA_VERDICT_OK,
    ROTA_VERDICT_WARN, /* it works, but not as well or as safely as it could */
    ROTA_VERDICT_FAIL, /* it can't work */
};

enum { ROTA_FINDING_TEXT_MAX = 512 };

struct rota_finding {
    const char *what; /* "clock", "disk sync" */
    enum rota_verdict verdict;
    char found[ROTA_FINDING_TEXT_MAX];
    const char *fix; /* a sentence; NULL: there is nothing to do */
};

struct rota_doctor {
    ROTA_VECTOR(struct rota_finding) findings;
    bool has_failed; /* there was no memory for one */
};

/* Leave a finding. `what` and `fix` are kept. */
void rota_cmd_doctor_find(struct rota_doctor *doctor, const char *what, enum rota_verdict verdict,
                          const char *fix, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

/* A measured span in two or three digits: "4.2ms". Returns `text`. */
char *rota_cmd_doctor_span(rota_time span, char text[ROTA_TIME_TEXT_MAX]);

/* This machine: clock, descriptors, memory, of which jobs and caches are `allowed` so much. */
void rota_doctor_clock(struct rota_doctor *doctor);
void rota_doctor_limits(struct rota_doctor *doctor, uint64_t allowed);

/* A directory for journals and databases: that it can be written, what it is on, and how long
 * a sync takes. */
void rota_doctor_disk(struct rota_doctor *doctor, const char *directory);

/* A database: that it can be reached, its version, its clock, how its sessions are set. */
void rota_doctor_store(struct rota_doctor *doctor, const char *url);

/* The log of a group: that it can be reached and is set up well, within `timeout`. */
void rota_doctor_log(struct rota_doctor *doctor, struct uv_loop_s *loop, const char *url,
                     const char *group, rota_time timeout);

/* Certificates; any but the first may be NULL. */
void rota_doctor_tls(struct rota_doctor *doctor, const char *certificate, const char *key,
                     const char *ca);

/* An address that a server wants to listen on. */
void rota_doctor_port(struct rota_doctor *doctor, struct uv_loop_s *loop, const char *address);

/* A node that runs, and how it is asked. */
struct rota_doctor_asking {
    const struct rota_tls_words *tls;
    bool is_insecure; /* another machine in plain text, too */
    rota_time timeout;
};

void rota_doctor_node(struct rota_doctor *doctor, struct uv_loop_s *loop, const char *address,
                      const struct rota_doctor_asking *how);
