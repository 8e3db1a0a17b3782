/* What metrics say, by the name of a series as it is printed, labels included. */
#pragma once

#include <rota/metrics.h>

int64_t metric_in(const char *text, const char *series);
int64_t metric_of(const struct rota_metrics *metrics, const char *series);
