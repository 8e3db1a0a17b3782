#include "node/rules/access.h"

#include <stdio.h>
#include <string.h>

static bool is_same_secret(struct rota_str a, struct rota_str b)
{
    unsigned difference = 0;
    if (a.size != b.size)
        return false;
    for (size_t i = 0; i < a.size; i++)
        difference |= (unsigned char)a.data[i] ^ (unsigned char)b.data[i];
    return difference == 0;
}

/* The scheme's name is the same in any case, as HTTP has it. */
static bool is_scheme(struct rota_str text)
{
    static const char SCHEME[] = "bearer ";
    if (text.size < sizeof SCHEME - 1)
        return false;
    for (size_t i = 0; i < sizeof SCHEME - 1; i++)
        if ((text.data[i] | ' ') != SCHEME[i])
            return false;
    return true;
}

bool rota_access_is_bearer(struct rota_str authorization, struct rota_str secret)
{
    size_t size = strlen("Bearer ");
    return secret.size > 0 && is_scheme(authorization) &&
           is_same_secret(rota_str_of(authorization.data + size, authorization.size - size),
                          secret);
}

/* The first name in the list that the caller's certificate has; NULL when there is none. */
static const char *find_name(const struct rota_access_list *list,
                             const struct rota_access_caller *caller)
{
    for (size_t i = 0; i < list->n; i++)
        if (caller->is_named(caller->data, list->names[i]))
            return list->names[i];
    return NULL;
}

static bool is_node(const struct rota_access *access, const struct rota_access_caller *caller)
{
    return rota_access_is_bearer(caller->authorization, access->secret) ||
           find_name(&access->nodes, caller);
}

uint32_t rota_access_roles(const struct rota_access *access,
                           const struct rota_access_caller *caller)
{
    bool is_operator = rota_access_is_bearer(caller->authorization, access->token) ||
                       find_name(&access->operators, caller);
    return (is_operator ? ROTA_ROLE_OPERATOR : 0) | (is_node(access, caller) ? ROTA_ROLE_NODE : 0);
}

char *rota_access_actor(const struct rota_access *access, const struct rota_access_caller *caller,
                        char text[ROTA_SERVER_ACTOR_MAX])
{
    const char *name = find_name(&access->operators, caller);
    if (caller->actor.size > 0 && is_node(access, caller))
        snprintf(text, ROTA_SERVER_ACTOR_MAX, "%.*s", (int)caller->actor.size, caller->actor.data);
    else if (name)
        snprintf(text, ROTA_SERVER_ACTOR_MAX, "certificate %s, from %s", name, caller->address);
    else if (rota_access_is_bearer(caller->authorization, access->token))
        snprintf(text, ROTA_SERVER_ACTOR_MAX, "an operator with the token, from %s",
                 caller->address);
    else if (is_node(access, caller))
        snprintf(text, ROTA_SERVER_ACTOR_MAX, "a node, from %s", caller->address);
    else
        snprintf(text, ROTA_SERVER_ACTOR_MAX, "a client, from %s", caller->address);
    for (char *c = text; *c; c++)
        if ((unsigned char)*c < ' ' || *c == 0x7f)
            *c = '?';
    return text;
}

bool rota_access_list_parse(char *text, struct rota_access_list *list)
{
    *list = (struct rota_access_list){0};
    while (text && *text) {
        char *comma = strchr(text, ',');
        if (comma)
            *comma = '\0';
        if (*text == '\0' || strlen(text) > ROTA_ACCESS_NAME_MAX ||
            list->n == ROTA_ACCESS_NAMES_MAX)
            return false;
        list->names[list->n++] = text;
        if (comma && comma[1] == '\0')
            return false;
        text = comma ? comma + 1 : NULL;
    }
    return true;
}
