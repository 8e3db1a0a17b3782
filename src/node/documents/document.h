/* document: what a node shows of itself and of the cluster, in JSON: an object each. topics.h has
 * their names and combines those of several nodes. */
#pragma once

#include "base/json.h"

struct rota_event;
struct rota_node;
struct rota_peer;
struct rota_watched_group;

/* --- document_cluster.c --- */

void rota_document_cluster_write(struct rota_node *node, struct rota_json *json);
void rota_document_cluster_write_node(struct rota_node *node, const struct rota_peer *peer,
                                      struct rota_json *json);
void rota_document_cluster_write_self(struct rota_node *node, struct rota_json *json);
void rota_document_cluster_write_event(const struct rota_node *node, const struct rota_event *event,
                                       struct rota_json *json);

/* --- document_calls.c: the nodes' calls to the replicas of each collection --- */

void rota_document_calls_write(struct rota_node *node, struct rota_json *json);

/* --- document_groups.c --- */

void rota_document_groups_write(struct rota_node *node, struct rota_json *json);
void rota_document_groups_write_one(const struct rota_watched_group *watched,
                                    struct rota_json *json);

/* --- document_ledger.c: what a program that checks the cluster has seen --- */

void rota_document_ledger_write(struct rota_node *node, struct rota_json *json);

/* --- document_spaces.c --- */

void rota_document_spaces_write(struct rota_node *node, struct rota_json *json);
