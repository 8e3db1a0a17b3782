#include "wire/message/nodes_message.h"

#include "wire/message/message_table.h"

#include <rota/time.h>

#define THIS struct rota_nodes_change
static const struct rota_message_field SHOW[] = {F(1, STR, node)};
static const struct rota_message_field CHANGE[] = {F(1, STR, node), F(2, BOOL, is_dry_run)};
static const struct rota_message_field WEIGH[] = {F(1, STR, node), F(2, UINT, weight),
                                                  F_MAX(3, UINT, delay_ms, ROTA_DAY / ROTA_MSEC)};
#undef THIS
TYPE(ROTA_NODES_SHOW, "request", struct rota_nodes_change, SHOW);
TYPE(ROTA_NODES_CHANGE, "request", struct rota_nodes_change, CHANGE);
TYPE(ROTA_NODES_WEIGH, "request", struct rota_nodes_change, WEIGH);

#define THIS struct rota_nodes_shown
static const struct rota_message_field SHOWN[] = {F(1, STR, json)};
#undef THIS
TYPE(ROTA_NODES_SHOWN, "reply", struct rota_nodes_shown, SHOWN);

#define THIS struct rota_nodes_changed
static const struct rota_message_field CHANGED[] = {F_MAX(1, STRS, plan, ROTA_NODES_PLAN_MAX),
                                                    F(2, BOOL, is_done), F(3, STR, node)};
#undef THIS
TYPE(ROTA_NODES_CHANGED, "reply", struct rota_nodes_changed, CHANGED);

#define THIS struct rota_nodes_documents
static const struct rota_message_field DOCUMENTS[] = {
    F_MAX(1, STRS, topics, ROTA_NODES_TOPICS_MAX),
};
#undef THIS
TYPE(ROTA_NODES_DOCUMENTS, "request", struct rota_nodes_documents, DOCUMENTS);

#define THIS struct rota_nodes_document
static const struct rota_message_field DOCUMENT[] = {F(1, STR, topic), F(2, STR, json)};
#undef THIS
static TYPE(DOCUMENT_TYPE, "document", struct rota_nodes_document, DOCUMENT);

#define THIS struct rota_nodes_event
static const struct rota_message_field EVENT[] = {
    F(1, UINT, number), F(2, UINT, at_ms), F(3, STR, kind),      F(4, STR, subject),
    F(5, STR, text),    F(6, STR, node),   F(7, STR, node_name), F(8, STR, subject_name),
};
#undef THIS
TYPE(ROTA_NODES_EVENT, "event", struct rota_nodes_event, EVENT);

#define THIS struct rota_nodes_documents_reply
static const struct rota_message_field DOCUMENTS_REPLY[] = {
    F_LIST(1, documents, DOCUMENT_TYPE, ROTA_NODES_TOPICS_MAX),
};
#undef THIS
TYPE(ROTA_NODES_DOCUMENTS_REPLY, "reply", struct rota_nodes_documents_reply, DOCUMENTS_REPLY);

#define THIS struct rota_nodes_events
static const struct rota_message_field EVENTS[] = {F(1, UINT, after), F(2, STRS, kinds),
                                                   F(3, BOOL, is_followed)};
#undef THIS
TYPE(ROTA_NODES_EVENTS, "request", struct rota_nodes_events, EVENTS);

/* --- rota.peer.v1.NodePeer --- */

#define THIS struct rota_nodes_ask
static const struct rota_message_field ASK[] = {F(1, BOOL, with_calls), F(2, UINT, events_after),
                                                F(3, UINT, life)};
#undef THIS
TYPE(ROTA_NODES_ASK, "request", struct rota_nodes_ask, ASK);

#define THIS struct rota_nodes_node
static const struct rota_message_field NODE[] = {
    F(1, STR, http),    F(2, UINT, started_ms),  F(3, UINT, cpu_ms),
    F(4, UINT, memory), F(5, UINT, calls),       F(6, UINT, calls_total),
    F(7, UINT, shards), F(8, UINT, collections), F(9, UINT, watchers),
};
#undef THIS
TYPE(ROTA_NODES_NODE, "report", struct rota_nodes_node, NODE);

#define THIS struct rota_nodes_queue
static const struct rota_message_field QUEUE[] = {F(1, UINT, jobs), F(2, UINT, running),
                                                  F(3, UINT, polls), F(4, UINT, jobs_memory)};
#undef THIS
TYPE(ROTA_NODES_QUEUE, "report", struct rota_nodes_queue, QUEUE);

#define THIS struct rota_nodes_cache
static const struct rota_message_field CACHE[] = {
    F(1, UINT, gets), F(2, UINT, gets_failed), F(3, UINT, gets_running), F(4, UINT, cache_shards)};
#undef THIS
TYPE(ROTA_NODES_CACHE, "report", struct rota_nodes_cache, CACHE);

#define THIS struct rota_nodes_group
static const struct rota_message_field GROUP[] = {F(1, UINT, groups)};
#undef THIS
TYPE(ROTA_NODES_GROUP, "report", struct rota_nodes_group, GROUP);

#define THIS struct rota_nodes_replica
static const struct rota_message_field REPLICA[] = {
    F(1, STR, collection),     F(2, STR, replica),       F(3, STR, zone),
    F(4, UINT, n_shards),      F(5, BOOL, is_connected), F(6, UINT, n_calls),
    F(7, UINT, n_failed),      F(8, UINT, n_cancelled),  F(9, UINT, n_hedged),
    F(10, UINT, n_hedges_won), F(11, UINT, in_flight),   F(12, SINT, score),
    F(13, STR, circuit),
};
#undef THIS
TYPE(ROTA_NODES_REPLICA, "report", struct rota_nodes_replica, REPLICA);

#define THIS struct rota_nodes_latency
static const struct rota_message_field LATENCY[] = {F_MAX(1, UINT, bucket, 62), F(2, UINT, n)};
#undef THIS
static TYPE(LATENCY_TYPE, "latency", struct rota_nodes_latency, LATENCY);

#define THIS struct rota_nodes_calls
static const struct rota_message_field CALLS[] = {F_OF(1, INNER, replica, ROTA_NODES_REPLICA),
                                                  F_OF(2, INNERS, latencies, LATENCY_TYPE)};
#undef THIS
static TYPE(CALLS_TYPE, "report", struct rota_nodes_calls, CALLS);

#define THIS struct rota_nodes_event
static const struct rota_message_field RECORDED[] = {
    F(1, UINT, number), F(2, UINT, at_ms), F(3, STR, kind), F(4, STR, subject), F(5, STR, text),
};
#undef THIS
static TYPE(RECORDED_TYPE, "event", struct rota_nodes_event, RECORDED);

#define THIS struct rota_nodes_report
static const struct rota_message_field REPORT[] = {
    F(1, STR, state),
    F_OF(2, INNER, node, ROTA_NODES_NODE),
    F_OF(3, INNER, queue, ROTA_NODES_QUEUE),
    F_OF(4, INNER, cache, ROTA_NODES_CACHE),
    F_OF(5, INNER, group, ROTA_NODES_GROUP),
    F_LIST(6, calls, CALLS_TYPE, ROTA_NODES_CALLS_MAX),
    F(7, UINT, life),
    F_LIST(8, events, RECORDED_TYPE, ROTA_NODES_EVENTS_MAX),
};
#undef THIS
TYPE(ROTA_NODES_REPORT, "reply", struct rota_nodes_report, REPORT);
