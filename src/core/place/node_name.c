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
        if (!is_letter(name.data[i]) && !memchr("._-", name.data[i], 3))
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

/* A live member that has the name, other than the one at `address`. */
static const struct rota_store_member *find_rival(struct rota_str name, struct rota_str address,
                                                  const struct rota_store_member *members, size_t n,
                                                  rota_time db_now)
{
    for (size_t i = 0; i < n; i++)
        if (rota_str_is_equal(members[i].name, name) &&
            !rota_str_is_equal(members[i].address, address) &&
            rota_time_add(members[i].heartbeat, members[i].ttl) >= db_now)
            return &members[i];
    return NULL;
}

enum rota_node_name_verdict rota_node_name_judge(struct rota_node_name_rival *rival,
                                                 struct rota_str name, struct rota_str address,
                                                 const struct rota_store_member *members, size_t n,
                                                 rota_time db_now)
{
    const struct rota_store_member *found = find_rival(name, address, members, n, db_now);
    if (!found) {
        *rival = (struct rota_node_name_rival){0};
        return ROTA_NODE_NAME_FREE;
    }
    if (rota_str_is_equal(found->address, rota_str(rival->address)))
        return found->heartbeat == rival->heartbeat ? ROTA_NODE_NAME_UNSURE : ROTA_NODE_NAME_TAKEN;
    rival->heartbeat = found->heartbeat;
    snprintf(rival->address, sizeof rival->address, "%.*s", ROTA_STR_ARGS(found->address));
    return ROTA_NODE_NAME_UNSURE;
}
