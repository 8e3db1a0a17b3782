#include "io/sql/store_inside.h"

#include "base/quote.h"
#include "base/utf8.h"
#include "core/place/node_name.h"

#include <rota/ring.h>

/* --- parts of a request --- */

/* Printable UTF-8, so that a name is the same in every database and for every reader. */
static enum rota_code check_text(const char *what, struct rota_str text, size_t size_max,
                                 bool is_one_line, struct rota_error *error)
{
    char quoted[ROTA_QUOTE_MAX];
    if (text.size > size_max)
        return rota_error_set(error, ROTA_ERR_LIMIT, "%s has %zu bytes; at most %zu are allowed",
                              what, text.size, size_max);
    for (struct rota_str rest = text; rest.size > 0;) {
        size_t size;
        unsigned char c = (unsigned char)rest.data[0];
        uint32_t character = rota_utf8_decode(rest, &size);
        bool is_control = c < ' ' || c == 0x7f;
        bool is_layout = c == '\n' || c == '\t' || c == '\r';
        if (character == ROTA_UTF8_NONE || (is_control && (is_one_line || !is_layout)) ||
            (is_one_line && rota_utf8_is_hidden(character)))
            return rota_error_set(error, ROTA_ERR_INVALID,
                                  "%s %s has an invisible character or is not UTF-8", what,
                                  rota_quote(text, quoted));
        rest = rota_str_of(rest.data + size, rest.size - size);
    }
    return ROTA_OK;
}

static enum rota_code check_name(const char *what, struct rota_str name, struct rota_error *error)
{
    char quoted[ROTA_QUOTE_MAX];
    if (name.size == 0)
        return rota_error_set(error, ROTA_ERR_INVALID, "%s has no name", what);
    if (name.data[0] == ' ' || name.data[name.size - 1] == ' ')
        return rota_error_set(error, ROTA_ERR_INVALID, "%s %s begins or ends with a space", what,
                              rota_quote(name, quoted));
    return check_text(what, name, ROTA_STORE_NAME_MAX, true, error);
}

static enum rota_code check_number(const char *what, uint64_t number, uint64_t from, uint64_t to,
                                   struct rota_error *error)
{
    if (number >= from && number <= to)
        return ROTA_OK;
    return rota_error_set(error, ROTA_ERR_INVALID, "%s %llu is not from %llu to %llu", what,
                          (unsigned long long)number, (unsigned long long)from,
                          (unsigned long long)to);
}

static enum rota_code check_ttl(rota_time ttl, struct rota_error *error)
{
    if (ttl >= ROTA_MSEC && ttl <= 365 * ROTA_DAY)
        return ROTA_OK;
    return rota_error_set(error, ROTA_ERR_INVALID, "a ttl must be from 1 ms to a year");
}

static enum rota_code check_lease_ttl(rota_time ttl, struct rota_error *error)
{
    if (ttl >= ROTA_LEASE_TTL_MIN && ttl <= ROTA_LEASE_TTL_MAX)
        return ROTA_OK;
    return rota_error_set(error, ROTA_ERR_INVALID,
                          "the ttl of a lease must be from 100 ms to an hour");
}

/* [A-Za-z_][A-Za-z0-9_]*, at most 63 bytes: the same in every database, quoted or not. */
static bool is_identifier(struct rota_str name)
{
    for (size_t i = 0; i < name.size; i++) {
        char c = name.data[i];
        bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
        if (!is_letter && (i == 0 || c < '0' || c > '9'))
            return false;
    }
    return name.size > 0 && name.size <= 63;
}

static bool is_table(struct rota_str name)
{
    const char *dot = name.size ? memchr(name.data, '.', name.size) : NULL;
    if (!dot)
        return is_identifier(name);
    size_t before = (size_t)(dot - name.data);
    return is_identifier(rota_str_of(name.data, before)) &&
           is_identifier(rota_str_of(dot + 1, name.size - before - 1));
}

/* --- requests --- */

static enum rota_code check_claim(const struct rota_store_request *request,
                                  struct rota_error *error)
{
    const struct rota_store_claim *claim = &request->claim;
    enum rota_code code = check_name("the host", request->host, error);
    if (!code)
        code =
            check_number("the number of shards", request->shards, 1, ROTA_STORE_SHARDS_MAX, error);
    if (!code)
        code = check_number("the floor", claim->floor, 0, ROTA_LEASE_EPOCH_MAX, error);
    if (!code && claim->n_dead > ROTA_LEASE_DEAD_MAX)
        code = rota_error_set(error, ROTA_ERR_LIMIT,
                              "%zu leases are listed as dead; at most %d are allowed",
                              claim->n_dead, ROTA_LEASE_DEAD_MAX);
    for (size_t i = 0; !code && i < claim->n_dead; i++) {
        code = check_number("the shard", claim->dead[i].shard, 0, ROTA_STORE_SHARDS_MAX - 1, error);
        if (!code)
            code = check_number("the epoch", claim->dead[i].epoch, 0, INT64_MAX, error);
        if (!code)
            code = check_number("the number of pings", claim->dead[i].pings, 0, INT64_MAX, error);
    }
    return code;
}

static enum rota_code check_pings(const struct rota_store_request *request,
                                  struct rota_error *error)
{
    enum rota_code code =
        check_number("the number of pings", request->n_pings, 1, ROTA_STORE_PINGS_MAX, error);
    for (size_t i = 0; !code && i < request->n_pings; i++) {
        const struct rota_store_ping *ping = &request->pings[i];
        if (i > 0 && ping->shard <= ping[-1].shard)
            return rota_error_set(
                error, ROTA_ERR_INVALID,
                "the shards to ping must be in ascending order, without duplicates");
        code = check_number("the shard", ping->shard, 0, ROTA_STORE_SHARDS_MAX - 1, error);
        if (!code)
            code = check_number("the epoch", ping->epoch, 1, ROTA_LEASE_EPOCH_MAX, error);
    }
    return code;
}

static enum rota_code check_lease(const struct rota_store_request *request,
                                  struct rota_error *error)
{
    enum rota_code code = check_name("the space", request->space, error);
    if (!code)
        code = check_name("the dc", request->dc, error);
    if (!code && request->instance == 0)
        code = rota_error_set(error, ROTA_ERR_INVALID, "an instance must not be 0");
    if (!code && request->verb != ROTA_STORE_RELEASE)
        code = check_lease_ttl(request->ttl, error);
    if (code)
        return code;
    if (request->verb == ROTA_STORE_CLAIM)
        return check_claim(request, error);
    if (request->verb == ROTA_STORE_PINGS)
        return check_pings(request, error);
    code = check_number("the shard", request->shard, 0, ROTA_STORE_SHARDS_MAX - 1, error);
    return code ? code : check_number("the epoch", request->epoch, 1, ROTA_LEASE_EPOCH_MAX, error);
}

static enum rota_code check_n_keys(const char *what, const struct rota_store_request *request,
                                   struct rota_error *error)
{
    if (request->n_keys <= ROTA_STORE_KEYS_MAX)
        return ROTA_OK;
    return rota_error_set(error, ROTA_ERR_LIMIT, "there are %zu %s; at most %d are allowed",
                          request->n_keys, what, ROTA_STORE_KEYS_MAX);
}

/* Of a heartbeat: an address that a hosts file can't have could not be distinguished from two
 * hosts. */
static enum rota_code check_address(struct rota_str address, bool is_beat, struct rota_error *error)
{
    char quoted[ROTA_QUOTE_MAX];
    enum rota_code code = check_name("the address", address, error);
    for (size_t i = 0; !code && is_beat && i < address.size; i++)
        if (strchr(" ,#", address.data[i]))
            code = rota_error_set(error, ROTA_ERR_INVALID,
                                  "the address %s has a space, a comma or a #",
                                  rota_quote(address, quoted));
    return code;
}

static enum rota_code check_node_name(const struct rota_store_request *request,
                                      struct rota_error *error)
{
    char quoted[ROTA_QUOTE_MAX];
    if (!rota_node_name_is_valid(request->member.name))
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "%s is not the name of a node: use " ROTA_NODE_NAME_RULE,
                              rota_quote(request->member.name, quoted));
    if (request->n_keys > 0)
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "a member with several addresses cannot have a name");
    return ROTA_OK;
}

static enum rota_code check_member(const struct rota_store_request *request,
                                   struct rota_error *error)
{
    const struct rota_store_member *member = &request->member;
    bool is_beat = request->verb == ROTA_STORE_BEAT;
    enum rota_code code = check_n_keys("addresses", request, error);
    if (!code)
        code = check_address(member->address, is_beat, error);
    for (size_t i = 0; !code && i < request->n_keys; i++)
        code = check_address(request->keys[i], is_beat, error);
    if (!code && request->verb == ROTA_STORE_MEMBER_STATE) {
        code =
            check_number("the state", (uint64_t)member->state, 0, ROTA_STORE_MEMBER_EVICTED, error);
        if (!code && (member->drain_in < 0 || member->drain_in > 365 * ROTA_DAY))
            code = rota_error_set(error, ROTA_ERR_INVALID, "a drain is due within a year");
        if (!code && member->drain_in > 0 && member->state != ROTA_STORE_MEMBER_IN)
            code = rota_error_set(error, ROTA_ERR_INVALID, "only an active member drains later");
        return code;
    }
    if (code || !is_beat)
        return code;
    code = check_text("the list of roles", member->roles, ROTA_STORE_ROLES_MAX, true, error);
    if (!code && member->zone.size > 0)
        code = check_name("the zone", member->zone, error);
    if (!code && member->name.size > 0)
        code = check_node_name(request, error);
    if (!code && member->weight)
        code = check_number("the weight", member->weight, ROTA_WEIGHT_MIN, ROTA_WEIGHT_MAX, error);
    if (!code && (member->start_at < 0 || member->stop_at < 0))
        code = rota_error_set(error, ROTA_ERR_INVALID, "a time before 1970");
    return code ? code : check_ttl(member->ttl, error);
}

static enum rota_code check_select(const struct rota_store_request *request,
                                   struct rota_error *error)
{
    char quoted[ROTA_QUOTE_MAX];
    const struct rota_str columns[] = {request->key_column, request->value_column};
    if (!is_table(request->table))
        return rota_error_set(
            error, ROTA_ERR_INVALID,
            "the table %s is not a name of letters, digits and underscores, optionally SCHEMA.NAME",
            rota_quote(request->table, quoted));
    for (size_t i = 0; i < 2; i++)
        if (columns[i].size > 0 && !is_identifier(columns[i]))
            return rota_error_set(error, ROTA_ERR_INVALID,
                                  "the column %s is not a name of letters, digits and underscores",
                                  rota_quote(columns[i], quoted));
    enum rota_code code = check_n_keys("keys", request, error);
    if (code)
        return code;
    for (size_t i = 0; i < request->n_keys; i++)
        if (request->keys[i].size > ROTA_STORE_KEY_MAX)
            return rota_error_set(error, ROTA_ERR_LIMIT,
                                  "a key has %zu bytes; at most %d are allowed",
                                  request->keys[i].size, ROTA_STORE_KEY_MAX);
    return ROTA_OK;
}

static enum rota_code check_settings(struct rota_str queue, struct rota_str settings,
                                     struct rota_error *error)
{
    enum rota_code code = check_name("the queue", queue, error);
    if (!code && settings.size > ROTA_STORE_TEXT_MAX)
        code = rota_error_set(error, ROTA_ERR_LIMIT,
                              "the settings of the queue have %zu bytes; at most %d are allowed",
                              settings.size, ROTA_STORE_TEXT_MAX);
    return code;
}

static enum rota_code check_queue(const struct rota_store_request *request,
                                  struct rota_error *error)
{
    enum rota_code code = check_number("the version", request->known, 0, INT64_MAX - 1, error);
    if (code || request->verb == ROTA_STORE_QUEUES)
        return code;
    code = check_settings(request->config.name, request->config.text, error);
    if (!code && request->host.size > 0)
        code = check_name("the author", request->host, error);
    if (!code)
        code = check_n_keys("keys", request, error);
    if (!code && request->n_keys % 2 != 0)
        code = rota_error_set(error, ROTA_ERR_INVALID, "a queue without settings");
    for (size_t i = 0; !code && i < request->n_keys; i += 2)
        code = check_settings(request->keys[i], request->keys[i + 1], error);
    return code;
}

static enum rota_code check_node(const struct rota_store_request *request, struct rota_error *error)
{
    const struct rota_store_node *node = &request->node;
    bool is_written =
        request->verb == ROTA_STORE_SPACE_JOIN || request->verb == ROTA_STORE_SPACE_BEAT;
    enum rota_code code = check_name("the space", request->space, error);
    if (!code)
        code = check_name("the node", node->name, error);
    if (!code && node->instance == 0)
        code = rota_error_set(error, ROTA_ERR_INVALID, "an instance must not be 0");
    if (!code)
        code = check_number("the number of pings", node->pings, 0, INT64_MAX, error);
    if (code || !is_written)
        return code;
    code = check_lease_ttl(node->ttl, error);
    if (!code)
        code = check_number("the view", node->acked, 0, INT64_MAX, error);
    if (!code)
        code = check_number("the epoch", node->highest, 0, INT64_MAX, error);
    if (!code && node->weight)
        code = check_number("the weight", node->weight, ROTA_WEIGHT_MIN, ROTA_WEIGHT_MAX, error);
    if (!code && node->zone.size > 0)
        code = check_name("the zone", node->zone, error);
    return code;
}

static enum rota_code check_config(const struct rota_store_space *config, struct rota_error *error)
{
    enum rota_code code = check_name("the space", config->name, error);
    if (!code)
        code = check_name("the engine", config->engine, error);
    if (!code)
        code = check_number("the version", config->version, 0, INT64_MAX - 1, error);
    return code ? code
                : check_text("the configuration", config->text, ROTA_STORE_TEXT_MAX, false, error);
}

static enum rota_code check_known(const struct rota_store_request *request,
                                  struct rota_error *error)
{
    return check_text("the known configuration", request->known_text, ROTA_STORE_TEXT_MAX, false,
                      error);
}

enum rota_code rota_store_check_request(const struct rota_store_request *request,
                                        struct rota_error *error)
{
    enum rota_code code = ROTA_OK;
    switch (request->verb) {
    case ROTA_STORE_CLAIM:
    case ROTA_STORE_PING:
    case ROTA_STORE_PINGS:
    case ROTA_STORE_RELEASE:
        return check_lease(request, error);
    case ROTA_STORE_LEASES:
        if (request->dc.size > 0)
            code = check_name("the dc", request->dc, error);
        return code ? code : check_name("the space", request->space, error);
    case ROTA_STORE_HISTORY:
        return check_name("the space", request->space, error);
    case ROTA_STORE_HOLD:
        if (request->span < 0 || request->span > 365 * ROTA_DAY)
            return rota_error_set(error, ROTA_ERR_INVALID, "a freeze lasts at most a year");
        return request->space.size ? check_name("the space", request->space, error) : ROTA_OK;
    case ROTA_STORE_SPACES:
    case ROTA_STORE_DCS:
        return request->space.size ? check_name("the space", request->space, error) : ROTA_OK;
    case ROTA_STORE_BEAT:
    case ROTA_STORE_MEMBER_STATE:
    case ROTA_STORE_MEMBER_REMOVE:
        return check_member(request, error);
    case ROTA_STORE_MEMBERS:
        return ROTA_OK;
    case ROTA_STORE_SPACE_PUT:
        return check_config(&request->config, error);
    case ROTA_STORE_SPACE_JOIN:
    case ROTA_STORE_SPACE_BEAT:
    case ROTA_STORE_SPACE_LEAVE:
    case ROTA_STORE_SPACE_EVICT:
        return check_node(request, error);
    case ROTA_STORE_SPACE_READ:
    case ROTA_STORE_SPACE_DELETE:
        code = check_number("the version", request->known, 0, INT64_MAX, error);
        if (!code)
            code = check_known(request, error);
        return code ? code : check_name("the space", request->space, error);
    case ROTA_STORE_SPACE_PROPOSE:
        code = check_number("the version", request->config.version, request->known + 1,
                            INT64_MAX - 1, error);
        if (!code)
            code = check_known(request, error);
        return code ? code : check_config(&request->config, error);
    case ROTA_STORE_SECRET:
        code = check_name("the secret's name", request->config.name, error);
        return code ? code : check_name("the secret", request->config.text, error);
    case ROTA_STORE_QUEUES:
    case ROTA_STORE_QUEUE_PUT:
        return check_queue(request, error);
    case ROTA_STORE_SELECT:
        return check_select(request, error);
    }
    return rota_error_set(error, ROTA_ERR_INVALID, "unknown request to the store");
}
