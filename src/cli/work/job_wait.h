/* job_wait: see a job to its end.
 *
 * The nodes are asked until the job has ended, however long that takes. Where standard error is a
 * terminal, one line there shows its state, and an interrupt says that the job continues. */
#pragma once

#include "cli/work/queue_view.h"

/* Wait, and print the result. Returns an exit code; interrupted on a terminal it does not return:
 * the process ends by the signal, as it does elsewhere. */
int rota_job_wait(struct rota_client *client, struct rota_queue *queue, const char *job);
