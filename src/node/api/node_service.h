/* node_service: rota.v1.Nodes, for operators and for the other nodes. */
#pragma once

#include <rota/error.h>
#include <stddef.h>

struct rota_node;
struct rota_node_service;

/* Serve it at the node's server. Gives `*service`; rota_node_service_close() ends it, after the
 * server. */
enum rota_code rota_node_service_open(struct rota_node *node, struct rota_node_service **service,
                                      struct rota_error *error);
void rota_node_service_close(struct rota_node_service *service); /* accepts NULL */
