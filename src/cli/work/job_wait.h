/* job_wait: wait for the end of a job.
 *
 * Asks the nodes until the job has ended, no matter how long that takes. If standard error is a
 * terminal, one line there shows the state, and after an interrupt a message says that the job
 * continues. */
#pragma once

#include "cli/work/queue_view.h"

/* Wait and print the result. Returns an exit code. Interrupted on a terminal it does not return:
 * the process ends by the signal, as it does elsewhere. */
int rota_job_wait(struct rota_client *client, struct rota_queue *queue, const char *job);
