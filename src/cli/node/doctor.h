/* doctor: check what Rota needs, and say what is wrong and how to fix it.
 *
 * Each check adds findings. None of them changes anything, except for a temporary file that is
 * written to measure the disk. */
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
    const char *fix; /* a sentence; NULL: nothing to fix */
};

struct rota_doctor {
    ROTA_VECTOR(struct rota_finding) findings;
    bool has_failed; /* out of memory for a finding */
};

/* Add a finding. `what` and `fix` must stay valid. */
void rota_cmd_doctor_find(struct rota_doctor *doctor, const char *what, enum rota_verdict verdict,
                          const char *fix, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

/* Format a measured duration with two or three digits: "4.2ms". Returns `text`. */
char *rota_cmd_doctor_span(rota_time span, char text[ROTA_TIME_TEXT_MAX]);

/* This machine: clock, descriptors, and memory, of which jobs and caches may use `allowed`. */
void rota_doctor_clock(struct rota_doctor *doctor);
void rota_doctor_limits(struct rota_doctor *doctor, uint64_t allowed);

/* A directory for journals and databases: can it be written, what file system is it on, and how
 * long does a sync take? */
void rota_doctor_disk(struct rota_doctor *doctor, const char *directory);

/* A database: is it reachable, which version, its clock, and its session settings. */
void rota_doctor_store(struct rota_doctor *doctor, const char *url);

/* The log of a group: is it reachable within `timeout`, and set up well? */
void rota_doctor_log(struct rota_doctor *doctor, struct uv_loop_s *loop, const char *url,
                     const char *group, rota_time timeout);

/* Certificates; any but the first may be NULL. */
void rota_doctor_tls(struct rota_doctor *doctor, const char *certificate, const char *key,
                     const char *ca);

/* An address to listen on. */
void rota_doctor_port(struct rota_doctor *doctor, struct uv_loop_s *loop, const char *address);

/* A running node, and how to connect to it. */
struct rota_doctor_asking {
    const struct rota_tls_words *tls;
    bool is_insecure; /* allow plaintext to other machines */
    rota_time timeout;
};

void rota_doctor_node(struct rota_doctor *doctor, struct uv_loop_s *loop, const char *address,
                      const struct rota_doctor_asking *how);
