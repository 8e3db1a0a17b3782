#include "core/place/node_name.h"

#include <stdio.h>
#include <string.h>

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

bool rota_node_name_is_valid(struct rota_str name)
{
    if (name.size == 0 || name.size > ROTA_NODE_NAME_MAX || !is_letter(name.data[0]))
        return false;
    for (size_t i = 1; i < name.size; i++)
        if (!is_letter(name.data[i]) && name.data[i] != '.' && name.data[i] != '_' &&
            name.data[i] != '-')
            return false;
    return true;
}

void rota_node_name_default(struct rota_str host, unsigned port, char name[ROTA_NODE_NAME_MAX + 1])
{
    char suffix[16] = "";
    if (port != ROTA_NODE_NAME_PORT)
        snprintf(suffix, sizeof suffix, "-%u", port);
    int size = snprintf(name, ROTA_NODE_NAME_MAX + 1, "%.*s%s", ROTA_STR_ARGS(host), suffix);
    if (size > ROTA_NODE_NAME_MAX || !rota_node_name_is_valid(rota_str(name)))
        name[0] = '\0';
}

/* A live member that has the name: the one at our address, or another. */
static const struct rota_store_member *find_holder(const struct rota_node_name_seek *seek,
                                                   bool is_self,
                                                   const struct rota_store_member *members,
                                                   size_t n, rota_time db_now)
{
    for (size_t i = 0; i < n; i++)
        if (rota_str_is_equal(members[i].name, rota_str(seek->name)) &&
            rota_str_is_equal(members[i].address, rota_str(seek->address)) == is_self &&
            rota_time_add(members[i].heartbeat, members[i].ttl) >= db_now)
            return &members[i];
    return NULL;
}

enum rota_node_name_action rota_node_name_step(struct rota_node_name_seek *seek,
                                               const struct rota_store_member *members, size_t n,
                                               rota_time db_now)
{
    const struct rota_store_member *rival = find_holder(seek, false, members, n, db_now);
    if (rival) {
        bool is_known = rota_str_is_equal(rival->address, rota_str(seek->rival));
        if (is_known && rival->heartbeat != seek->heartbeat)
            return ROTA_NODE_NAME_YIELD;
        seek->heartbeat = rival->heartbeat;
        snprintf(seek->rival, sizeof seek->rival, "%.*s", ROTA_STR_ARGS(rival->address));
        if (seek->waits_since == 0)
            seek->waits_since = db_now;
        bool is_tired =
            seek->is_default && db_now >= rota_time_add(seek->waits_since, ROTA_NODE_NAME_PATIENCE);
        return seek->is_written || is_tired ? ROTA_NODE_NAME_YIELD : ROTA_NODE_NAME_WAIT;
    }
    seek->rival[0] = '\0';
    seek->waits_since = 0;
    bool was_written = seek->is_written;
    seek->is_written = true;
    if (find_holder(seek, true, members, n, db_now))
        return ROTA_NODE_NAME_HOLD;
    return was_written ? ROTA_NODE_NAME_WAIT : ROTA_NODE_NAME_WRITE;
}
