#include "node/rules/guard.h"

#include "node/rules/access.h"

#include <string.h>

/* --- names --- */

static char to_lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

/* Whatever the locale: these are host names and HTTP names. */
static bool is_same_name(struct rota_str a, struct rota_str b)
{
    if (a.size != b.size)
        return false;
    for (size_t i = 0; i < a.size; i++)
        if (to_lower(a.data[i]) != to_lower(b.data[i]))
            return false;
    return true;
}

static bool has_name(struct rota_str text, const char *prefix)
{
    size_t size = strlen(prefix);
    return text.size >= size && is_same_name(rota_str_of(text.data, size), rota_str(prefix));
}

/* What follows the name of a host: nothing, or a colon and digits. */
static bool is_port(struct rota_str rest)
{
    if (rest.size == 0)
        return true;
    for (size_t i = 1; i < rest.size; i++)
        if (rest.data[i] < '0' || rest.data[i] > '9')
            return false;
    return rest.data[0] == ':';
}

/* "host" of "host:port" and "[::1]:port"; empty when the rest is not a port. */
static struct rota_str without_port(struct rota_str host)
{
    const char *bracket =
        host.size > 0 && host.data[0] == '[' ? memchr(host.data, ']', host.size) : NULL;
    const char *colon = bracket ? NULL : memchr(host.data, ':', host.size);
    size_t size = bracket ? (size_t)(bracket + 1 - host.data)
                  : colon ? (size_t)(colon - host.data)
                          : host.size;
    return is_port(rota_str_of(host.data + size, host.size - size)) ? rota_str_of(host.data, size)
                                                                    : rota_str("");
}

static bool is_own_name(const struct rota_guard *guard, struct rota_str host)
{
    static const char *const LOOPBACK[] = {"localhost", "127.0.0.1", "[::1]"};
    struct rota_str name = without_port(host);
    for (size_t i = 0; i < sizeof LOOPBACK / sizeof LOOPBACK[0]; i++)
        if (is_same_name(name, rota_str(LOOPBACK[i])))
            return true;
    for (size_t i = 0; i < guard->n_names; i++)
        if (is_same_name(host, guard->names[i]) || is_same_name(name, guard->names[i]))
            return true;
    return false;
}

/* A page's origin is that of the node it was loaded from. */
static bool is_own_origin(struct rota_str origin, struct rota_str host)
{
    static const char *const SCHEMES[] = {"http://", "https://"};
    for (size_t i = 0; i < 2; i++) {
        struct rota_str scheme = rota_str(SCHEMES[i]);
        if (rota_str_has_prefix(origin, scheme) &&
            is_same_name(rota_str_of(origin.data + scheme.size, origin.size - scheme.size), host))
            return true;
    }
    return false;
}

/* --- the token --- */

enum rota_guard_verdict rota_guard_judge_token(const struct rota_guard *guard,
                                               struct rota_str authorization)
{
    static const char SCHEME[] = "Bearer ";
    size_t size = sizeof SCHEME - 1;
    if (authorization.size == size || !has_name(authorization, SCHEME))
        return ROTA_GUARD_NO_TOKEN;
    return rota_access_is_bearer(authorization, guard->token) ? ROTA_GUARD_ALLOWED
                                                              : ROTA_GUARD_WRONG_TOKEN;
}

static bool is_json(struct rota_str type)
{
    static const char JSON[] = "application/json";
    size_t size = sizeof JSON - 1;
    return has_name(type, JSON) &&
           (type.size == size || type.data[size] == ';' || type.data[size] == ' ');
}

enum rota_guard_verdict rota_guard_judge(const struct rota_guard *guard,
                                         const struct rota_guard_request *request)
{
    if (!is_own_name(guard, request->host))
        return ROTA_GUARD_WRONG_HOST;
    if (!request->is_change)
        return ROTA_GUARD_ALLOWED;
    if (request->origin.size > 0 && !is_own_origin(request->origin, request->host))
        return ROTA_GUARD_WRONG_ORIGIN;
    if (request->has_body && !is_json(request->content_type))
        return ROTA_GUARD_WRONG_TYPE;
    return request->is_preview ? ROTA_GUARD_ALLOWED
                               : rota_guard_judge_token(guard, request->authorization);
}

unsigned rota_guard_status(enum rota_guard_verdict verdict)
{
    switch (verdict) {
    case ROTA_GUARD_ALLOWED:
        return 200;
    case ROTA_GUARD_WRONG_HOST:
    case ROTA_GUARD_WRONG_ORIGIN:
        return 403;
    case ROTA_GUARD_NO_TOKEN:
    case ROTA_GUARD_WRONG_TOKEN:
        return 401;
    case ROTA_GUARD_WRONG_TYPE:
        return 415;
    }
    return 500;
}

const char *rota_guard_text(enum rota_guard_verdict verdict)
{
    switch (verdict) {
    case ROTA_GUARD_ALLOWED:
        return "";
    case ROTA_GUARD_WRONG_HOST:
        return "the node does not accept this host name: use its address, or add the name to "
               "http-names";
    case ROTA_GUARD_WRONG_ORIGIN:
        return "requests from another site must not change anything";
    case ROTA_GUARD_NO_TOKEN:
        return "changes need the node's token: send Authorization: Bearer TOKEN";
    case ROTA_GUARD_WRONG_TOKEN:
        return "the token does not belong to this node";
    case ROTA_GUARD_WRONG_TYPE:
        return "the body must be application/json";
    }
    return "";
}

char *rota_guard_token(const unsigned char chance[32], char token[ROTA_GUARD_TOKEN_SIZE + 1])
{
    static const char LETTERS[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    unsigned bits = 0, n_bits = 0;
    size_t n = 0;
    for (size_t i = 0; i < 32; i++) {
        bits = bits << 8 | chance[i];
        for (n_bits += 8; n_bits >= 6; n_bits -= 6)
            token[n++] = LETTERS[bits >> (n_bits - 6) & 63];
    }
    token[n++] = LETTERS[bits << (6 - n_bits) & 63];
    token[n] = '\0';
    return token;
}
