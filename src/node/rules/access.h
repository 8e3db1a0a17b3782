/* access: who calls a node over gRPC, and what that caller may do.
 *
 * A caller proves its role by a secret in the call's metadata ("authorization: Bearer SECRET") or
 * by the name in its certificate. The node's token and the certificates in `operators` make an
 * operator, who may change how the cluster works. The secret of the cluster, which only nodes can
 * read from the store, and the certificates in `nodes` make a node. Everyone else is a client: it
 * may add jobs, work on them, read state, and call what a program serves.
 *
 * A node may name the caller for which it forwards a call (`rota-actor`); a client may not. */
#pragma once

#include <rota/server.h>
#include <rota/str.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    ROTA_ACCESS_NAME_MAX = 255, /* bytes of a name in a certificate */
    ROTA_ACCESS_NAMES_MAX = 64, /* names in one list */
};

/* Metadata of a call that a node forwards: the caller's identity. */
#define ROTA_NOTE_ACTOR "rota-actor"

struct rota_access_list {
    const char *names[ROTA_ACCESS_NAMES_MAX];
    size_t n;
};

struct rota_access {
    struct rota_str token;  /* an operator's; empty: none */
    struct rota_str secret; /* of the cluster; empty: not known yet */
    struct rota_access_list operators, nodes;
};

/* The facts about a caller. */
struct rota_access_caller {
    struct rota_str authorization; /* as received; empty: none */
    struct rota_str actor;         /* for whom it calls, as it claims; empty: for itself */
    const char *address;
    bool (*is_named)(const void *data, const char *name); /* by its certificate */
    const void *data;
};

/* Is it "Bearer SECRET"? Takes the same time for every wrong secret of the same size. Never true
 * for an empty `secret`. */
bool rota_access_is_bearer(struct rota_str authorization, struct rota_str secret);

/* ROTA_ROLE_OPERATOR and ROTA_ROLE_NODE, as bits. */
uint32_t rota_access_roles(const struct rota_access *access,
                           const struct rota_access_caller *caller);

/* The caller's identity, for events and logs: "an operator with the token, from 127.0.0.1:4711" or
 * "certificate ops, from ...". Of a forwarded call, the actor that the node names. Control
 * characters become '?'. Returns `text`. */
char *rota_access_actor(const struct rota_access *access, const struct rota_access_caller *caller,
                        char text[ROTA_SERVER_ACTOR_MAX]);

/* Split "NAME,NAME,..." in `text`, which is changed and kept. False when a name is empty or too
 * long, or there are too many. */
bool rota_access_list_parse(char *text, struct rota_access_list *list);
