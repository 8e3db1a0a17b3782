/* group_join: a task of a group with simulated partitions, until a signal ends it. */
#pragma once

#include <rota/group.h>

struct rota_group_join_options {
    const char *log, *name, *task;
    int64_t partitions, rate;
    double splits; /* per second and partition */
    rota_time session, stop_within, progress, withdraw, balance;
    enum rota_log_level log_level;
};

/* Returns an exit code. */
int rota_group_join_run(const struct rota_group_join_options *options);
