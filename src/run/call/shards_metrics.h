/* shards_metrics: the series of calls to shards. */
#pragma once

#include <stdbool.h>

struct rota_shards;
struct rota_shards_node;

/* Make the series that do not depend on nodes; false without memory. */
bool rota_shards_metrics_init(struct rota_shards *shards);
void rota_shards_metrics_deinit(struct rota_shards *shards);

/* The series of a node: NULL without memory is fine. */
void rota_shards_metrics_measure_node(struct rota_shards_node *node);
