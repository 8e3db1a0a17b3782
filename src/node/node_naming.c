/* The name of a node: which one it wants, whether it may have it, and the names of the others. */
#include "node/node_inside.h"
#include "run/store/store_members.h"

#include <stdio.h>
#include <string.h>

const char *rota_node_naming_name(const struct rota_node *node)
{
    return node->name[0] ? node->name : node->advertise;
}

enum rota_code rota_node_naming_open(struct rota_node *node, struct rota_error *error)
{
    char host[UV_MAXHOSTNAMESIZE];
    size_t size = sizeof host;
    struct rota_node_name_seek *naming = &node->naming;
    struct rota_address address;
    enum rota_code code = rota_address_parse(node->advertise, &address, error);
    if (code)
        return code;
    if (node->settings->name)
        snprintf(naming->name, sizeof naming->name, "%s", node->settings->name);
    else if (uv_os_gethostname(host, &size) == 0)
        rota_node_name_default(rota_str(host), address.port, naming->name);
    naming->is_default = !node->settings->name;
    snprintf(naming->address, sizeof naming->address, "%s", node->advertise);
    node->is_named = naming->name[0] == '\0';
    return ROTA_OK;
}

void rota_node_naming_join(struct rota_node *node)
{
    struct rota_error error;
    if (!node->is_named && !node->naming.is_written)
        return;
    rota_node_book_note(&node->book, rota_str(node->advertise), rota_str(node->name),
                        rota_clock_wall());
    if (rota_node_open_heartbeat(node, false, &error)) {
        rota_log(node->log, rota_clock_wall(), ROTA_LOG_ERROR, "node cannot join",
                 ROTA_LOG_FACT("error", error.text));
        rota_node_fail(node);
    }
}

/* --- seeking a name --- */

static void on_removed(void *data, const struct rota_store_answer *answer)
{
    (void)answer; /* without heartbeats it is removed in a while anyway */
    rota_node_fail(data);
}

static void refuse_name(struct rota_node *node)
{
    struct rota_store_request request = {.verb = ROTA_STORE_MEMBER_REMOVE,
                                         .member = {.address = rota_str(node->advertise)}};
    struct rota_error error;
    bool is_listed = node->heartbeat;
    rota_error_set(&error, ROTA_ERR_INVALID,
                   "the live node at %s has the name \"%s\": give this node another name, with "
                   "name = \"...\", --name or ROTA_NAME",
                   node->naming.rival, node->naming.name);
    rota_log(node->log, rota_clock_wall(), ROTA_LOG_ERROR, "name is taken",
             ROTA_LOG_FACT("error", error.text));
    rota_heartbeat_close(node->heartbeat);
    node->heartbeat = NULL;
    if (!is_listed || rota_store_ask(node->store, &request, on_removed, node, NULL))
        rota_node_fail(node);
}

/* Another node has the name: a node that was given the name does not start; a node that was not
 * is called by its address. */
static void yield_name(struct rota_node *node)
{
    if (node->settings->name) {
        refuse_name(node);
        return;
    }
    rota_log(node->log, rota_clock_wall(), ROTA_LOG_WARN, "name of the host is taken",
             ROTA_LOG_FACT("name", node->naming.name), ROTA_LOG_FACT("by", node->naming.rival),
             ROTA_LOG_FACT("fix", "give this node another one, with name, --name or ROTA_NAME"));
    node->name[0] = '\0';
    node->is_named = true;
    rota_node_naming_join(node);
}

/* Requests to a store are carried out in order: our row is among what is read. */
static void look_at_members(struct rota_node *node)
{
    rota_store_members_look(node->rows);
    for (size_t i = 0; i < node->n_roles; i++)
        if (node->roles[i].role->look)
            node->roles[i].role->look(node->roles[i].data);
}

static void seek_name(struct rota_node *node, const struct rota_store_answer *answer)
{
    bool was_waiting = node->naming.rival[0];
    switch (
        rota_node_name_step(&node->naming, answer->members, answer->n_members, answer->db_now)) {
    case ROTA_NODE_NAME_WAIT:
        if (node->naming.rival[0] && !was_waiting)
            rota_log(node->log, rota_clock_wall(), ROTA_LOG_INFO, "waiting for the name",
                     ROTA_LOG_FACT("name", node->naming.name),
                     ROTA_LOG_FACT("of", node->naming.rival));
        break;
    case ROTA_NODE_NAME_HOLD:
        node->is_named = true;
        if (node->name[0]) {
            rota_node_open_look_ready(node);
            break;
        }
        __attribute__((fallthrough));
    case ROTA_NODE_NAME_WRITE:
        memcpy(node->name, node->naming.name, sizeof node->name);
        rota_node_naming_join(node);
        look_at_members(node);
        break;
    case ROTA_NODE_NAME_YIELD:
        yield_name(node);
        break;
    }
}

void rota_node_naming_take_rows(void *data, const struct rota_store_answer *answer)
{
    struct rota_node *node = data;
    for (size_t i = 0; i < answer->n_members; i++)
        rota_node_book_note(&node->book, answer->members[i].address, answer->members[i].name,
                            answer->members[i].heartbeat);
    for (size_t i = 0; i < node->n_roles; i++)
        if (node->roles[i].role->hear_rows)
            node->roles[i].role->hear_rows(node->roles[i].data, answer);
    if (!node->is_named && !node->is_failing && node->fsm.state == ROTA_NODE_JOINING)
        seek_name(node, answer);
}
