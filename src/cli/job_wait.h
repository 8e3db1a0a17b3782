/* job_wait: see a job to its end.
 *
 * Whoever has the job is asked until it has ended, however long that takes. Where standard error is
 * a terminal, one line there tells how it stands, and an interrupt tells what goes on without us.
 */
#pragma once

#include "cli/queue_client.h"

/* Wait, and print the result. Returns an exit code; interrupted on a terminal it does not return:
 * the process ends by the signal, as it does elsewhere. */
int rota_job_wait(struct rota_queue_client *client, const struct rota_queue_about *about);
