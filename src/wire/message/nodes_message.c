#include "wire/message/nodes_message.h"

#include "wire/message/message_table.h"

#define THIS struct rota_nodes_change
static const struct rota_message_field SHOW[] = {F(1, STR, node)};
static const struct rota_message_field CHANGE[] = {F(1, STR, node), F(2, BOOL, is_dry_run)};
static const struct rota_message_field WEIGH[] = {F(1, STR, node), F(2, UINT, weight)};
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
    F(2, BOOL, is_whole),
    F(3, BOOL, with_events),
    F(4, UINT, events_after),
    F(5, UINT, life),
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
    F(2, UINT, life),
    F_LIST(3, events, ROTA_NODES_EVENT, ROTA_NODES_EVENTS_MAX),
};
#undef THIS
TYPE(ROTA_NODES_DOCUMENTS_REPLY, "reply", struct rota_nodes_documents_reply, DOCUMENTS_REPLY);

#define THIS struct rota_nodes_events
static const struct rota_message_field EVENTS[] = {F(1, UINT, after), F(2, STRS, kinds),
                                                   F(3, BOOL, is_followed)};
#undef THIS
TYPE(ROTA_NODES_EVENTS, "request", struct rota_nodes_events, EVENTS);
