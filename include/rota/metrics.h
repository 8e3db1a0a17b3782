/* Metrics: counters and measurements of a program, in Prometheus text format.
 *
 * Pass a registry to the parts that should count (a server, for example) and serve its text to
 * Prometheus. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct rota_metrics;

/* Creates a registry; `seed` protects its hash table against chosen labels. NULL if out of memory.
 * rota_metrics_free() frees it with all its series; it accepts NULL. */
struct rota_metrics *rota_metrics_new(uint64_t seed);
void rota_metrics_free(struct rota_metrics *metrics);

/* All series in text format 0.0.4, with a final NUL; stores the length in `*size`, which may be
 * NULL. NULL if out of memory. Gives the text; free it with free(). */
char *rota_metrics_text(const struct rota_metrics *metrics, size_t *size);

#ifdef __cplusplus
}
#endif
