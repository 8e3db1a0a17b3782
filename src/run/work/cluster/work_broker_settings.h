/* broker_settings: what nodes with jobs of their own send each other about nodes that may hold
 * jobs. Functions that take settings accept NULL. */
#pragma once

#include "run/work/broker/work_broker_front.h"

struct rota_broker_settings;

/* A node whose row in the store is not live had its last heartbeat at `at`, on the wall clock. */
void rota_work_broker_settings_was_alive(struct rota_work_broker *broker, struct rota_str address,
                                         rota_time at);

enum rota_code rota_work_broker_settings_open(struct rota_work_broker *broker,
                                              struct rota_error *error);
void rota_work_broker_settings_close(struct rota_broker_settings *settings);
bool rota_work_broker_settings_turn(struct rota_broker_settings *settings, rota_time now);
rota_time rota_work_broker_settings_deadline(const struct rota_broker_settings *settings);
rota_broker_handler rota_work_broker_settings_exchange;

/* What to report about ourselves in a message; NULL: nothing. Borrowed until the next call. */
const struct rota_queue_node *rota_work_broker_settings_speak(struct rota_work_broker *broker,
                                                              bool may_hold,
                                                              struct rota_queue_node *room);

/* What another node reports about itself, or about others. */
enum rota_code rota_work_broker_settings_take_node(struct rota_work_broker *broker,
                                                   const struct rota_queue_node *node,
                                                   struct rota_error *error);

/* Jobs have arrived: if the peers know this node as empty, correct that. */
void rota_work_broker_settings_take_back(struct rota_broker_settings *settings);

/* Another node knows other nodes than we do. */
void rota_work_broker_settings_ask_soon(struct rota_broker_settings *settings);

/* Whether all peers have reported, or can't, what this node must know before it may answer that
 * a job does not exist. */
bool rota_work_broker_settings_are_told(const struct rota_broker_settings *settings);

/* Whether this node has handed over everything it can, and its peers know that it is empty. */
bool rota_work_broker_settings_has_left(const struct rota_work_broker *broker);

/* Nodes that are not listed and may hold jobs, by number from 0; empty for one that is too high.
 * Borrowed until the loop continues. */
size_t rota_work_broker_settings_n_absent(const struct rota_work_broker *broker, bool for_add);
struct rota_str rota_work_broker_settings_absent(const struct rota_work_broker *broker,
                                                 bool for_add, size_t index);
