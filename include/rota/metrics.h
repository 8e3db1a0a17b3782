/* Metrics: what a program counts and measures, in Prometheus' text.
 *
 * Give a registry to what should count (a server, for one) and hand its text
 * to whoever scrapes. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct rota_metrics;

/* A registry; `seed` guards its table against chosen labels. NULL when there is
 * no memory. rota_metrics_free() ends it and all its series; it accepts NULL. */
struct rota_metrics *rota_metrics_new(uint64_t seed);
void rota_metrics_free(struct rota_metrics *metrics);

/* All series in the text format 0.0.4, with a NUL behind it; the length in
 * `*size`, which may be NULL. NULL when there is no memory. Gives the text;
 * free() ends it. */
char *rota_metrics_text(const struct rota_metrics *metrics, size_t *size);

#ifdef __cplusplus
}
#endif
