/* work: a worker that runs a command for each job, over gRPC. worker_fsm decides, this file
 * acts. */
#pragma once

#include "core/work/worker/worker_fsm.h"
#include "run/work/queue/child_guard.h"

#include <rota/log.h>
#include <rota/str.h>
#include <uv.h>

struct rota_tls;
struct rota_work;

/* Everything must stay valid. */
struct rota_work_options {
    struct rota_worker_fsm_options worker;
    const struct rota_str *queues, *can;
    size_t n_queues, n_can;
    const char *const *nodes; /* addresses, worker.n_nodes of them */
    const char *name;
    char *const *argv;    /* the command, ends with NULL */
    struct rota_tls *tls; /* NULL: plain text */
    bool is_insecure;
    const struct rota_child_guard *guard;
    const struct rota_log *log;
    void (*on_over)(void *data); /* the worker has left */
    void *data;
};

/* Start working. Gives `*work`; rota_work_close() frees it. */
enum rota_code rota_work_open(uv_loop_t *loop, const struct rota_work_options *options,
                              struct rota_work **work, struct rota_error *error);

/* Leave: finish jobs or return them; called again: at once. */
void rota_work_stop(struct rota_work *work);

/* Frees `work`, which may be NULL, and kills running commands. Run the loop until everything is
 * freed. */
void rota_work_close(struct rota_work *work);
