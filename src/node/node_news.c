/* Events about other nodes, for people. */
#include "node/node_inside.h"

#include <stdlib.h>
#include <string.h>

enum { GONE_MAX = 64 }; /* at a time; more are not reported */

/* Nodes that were removed from the ring, while the store is asked for their state. */
struct gone {
    struct rota_node *node;
    struct rota_list_node link; /* in the node's `gone` */
    size_t n;
    char names[GONE_MAX][ROTA_STORE_NAME_MAX + 1];
};

/* The first placed node reports, so that each event is reported once. */
static bool is_ours_to_tell(const struct rota_node *node)
{
    size_t n;
    const struct rota_member *list = rota_members_list(node->members, &n);
    for (size_t i = 0; i < n; i++)
        if (list[i].is_placed)
            return rota_str_is_equal(list[i].host.address, rota_str(node->advertise));
    return false;
}

static const char *fate_of(const char *name, const struct rota_store_answer *answer)
{
    for (size_t i = 0; i < answer->n_members; i++) {
        const struct rota_store_member *row = &answer->members[i];
        if (!rota_str_is_equal(row->address, rota_str(name)))
            continue;
        if (row->state == ROTA_STORE_MEMBER_EVICTED)
            return "is evicted";
        if (rota_time_add(row->heartbeat, row->ttl) < answer->db_now)
            return "is dead: no heartbeat for its ttl";
        if (row->state == ROTA_STORE_MEMBER_DRAINING)
            return "is off the ring: other nodes take over its work";
        return row->stop_at > 0 ? "is leaving" : "is off the ring";
    }
    return "has left";
}

static void on_rows(void *data, const struct rota_store_answer *answer)
{
    struct gone *gone = data;
    for (size_t i = 0; i < gone->n; i++)
        rota_node_note(gone->node, ROTA_EVENT_NODE, rota_str(gone->names[i]), "%s",
                       answer->code ? "is off the ring" : fate_of(gone->names[i], answer));
    rota_list_remove(&gone->link);
    free(gone);
}

static bool is_listed(const struct rota_node *node, struct rota_str name)
{
    size_t n;
    const struct rota_member *list = rota_members_list(node->members, &n);
    for (size_t i = 0; i < n; i++)
        if (rota_str_is_equal(list[i].host.address, name))
            return true;
    return false;
}

static void add_name(struct gone *gone, struct rota_str name)
{
    if (gone->n < GONE_MAX && name.size <= ROTA_STORE_NAME_MAX &&
        !rota_str_is_equal(name, rota_str(gone->node->advertise)))
        memcpy(gone->names[gone->n++], name.data, name.size);
}

/* Nodes that are off the ring now; and those that were before, and are not even listed. */
static void ask_fates(struct rota_node *node, const struct rota_members_change *change)
{
    const struct rota_store_request request = {.verb = ROTA_STORE_MEMBERS};
    struct gone *gone = calloc(1, sizeof *gone);
    if (!gone)
        return;
    gone->node = node;
    for (size_t i = 0; i < change->n_removed; i++)
        add_name(gone, change->removed[i]);
    for (size_t i = 0; i < change->n_changed; i++)
        if (!is_listed(node, change->changed[i]))
            add_name(gone, change->changed[i]);
    if (gone->n == 0 || rota_store_ask(node->store, &request, on_rows, gone, NULL))
        free(gone);
    else
        rota_list_push(&node->gone, &gone->link);
}

void rota_node_news_note_members(struct rota_node *node, const struct rota_members_change *change)
{
    bool is_first = !node->has_seen_members;
    node->has_seen_members = true;
    if (is_first || !is_ours_to_tell(node))
        return;
    for (size_t i = 0; i < change->n_added; i++)
        if (!rota_str_is_equal(change->added[i], rota_str(node->advertise)))
            rota_node_note(node, ROTA_EVENT_NODE, change->added[i], "has joined the ring");
    if (change->n_removed + change->n_changed > 0)
        ask_fates(node, change);
}

void rota_node_news_end(struct rota_node *node)
{
    ROTA_LIST_DRAIN (gone, &node->gone, struct gone, link) {
        rota_store_forget(node->store, gone);
        rota_list_remove(&gone->link);
        free(gone);
    }
}
