#include "node/node_settings.h"

#include "base/quote.h"
#include "base/spell.h"
#include "core/call/get/lru.h"
#include "core/own/view.h"
#include "core/place/node_name.h"
#include "io/log/sync.h"
#include "node/rules/access.h"
#include "wire/text/hosts_file.h"

#include <rota/experimental/host.h>
#include <rota/experimental/lease.h>
#include <rota/experimental/shards.h>
#include <rota/experimental/store_ask.h>
#include <rota/log.h>
#include <rota/space.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define INTO(kind, field) ROTA_OPTION_INTO(kind, struct rota_node_settings, field)

static const char *const ENGINES[] = {"static", "ring", "lease", "group", NULL};

static const char *const LOSSES[] = {"abort", "exit", "standby", NULL}; /* enum rota_lease_loss */

static const char *const ROLES[] = {"cache", "group", "queue"};

const struct rota_option rota_node_options[] = {
    {.name = "data",
     INTO(TEXT, data),
     .value_name = "DIR",
     .default_text = "rota-data",
     .max = 4000,
     .help = "directory of this node, created if missing; \"\" means a temporary one, removed when "
             "the node stops"},
    {.name = "listen",
     INTO(TEXT, listen),
     .value_name = "ADDRESS",
     .default_text = "127.0.0.1:7700",
     .help = "address to serve gRPC on; port 0 picks a free one"},
    {.name = "http",
     INTO(TEXT, http),
     .value_name = "ADDRESS",
     .default_text = "127.0.0.1:7780",
     .help = "address to serve HTTP on: dashboard, API, metrics"},
    {.name = "http-names",
     INTO(TEXT, http_names),
     .value_name = "NAME,...",
     .help = "host names that browsers may use for this node, besides localhost and its address"},
    {.name = "workers",
     INTO(TEXT, workers),
     .value_name = "ADDRESS",
     .default_text = WORKERS_DEFAULT,
     .help = "address for workers over ZeroMQ; \"\" means none"},
    {.name = "workers-key",
     INTO(TEXT, workers_key),
     .value_name = "FILE",
     .help = "this node's key pair (`rota worker-key`), needed for workers on other machines"},
    {.name = "workers-list",
     INTO(TEXT, workers_list),
     .value_name = "FILE",
     .help = "workers that may connect, one name and public key per line"},
    {.name = "advertise",
     INTO(TEXT, advertise),
     .value_name = "ADDRESS",
     .min = 1,
     .max = ROTA_STORE_NAME_MAX,
     .help = "address under which other nodes reach this one [default: --listen]"},
    {.name = "name",
     INTO(TEXT, name),
     .value_name = "NAME",
     .min = 1,
     .max = ROTA_NODE_NAME_MAX,
     .help = "name of this node for people, unique in the cluster: letters, digits, '.', '_' and "
             "'-' [default: the host's name, with the port if that is not 7700]"},
    {.name = "store",
     INTO(TEXT, store),
     .value_name = "URL",
     .help = "database that all nodes share: sqlite:PATH, mysql://... or postgres://... [default: "
             "store.db in the data directory]"},
    {.name = "zone",
     INTO(TEXT, zone),
     .value_name = "NAME",
     .default_text = "",
     .max = ROTA_STORE_NAME_MAX,
     .help = "failure zone of this node"},
    {.name = "weight",
     INTO(TEXT, weight),
     .value_name = "N",
     .default_text = "1",
     .help = "share of the ring relative to other nodes"},
    {.name = "roles",
     INTO(TEXT, roles),
     .value_name = "ROLE,...",
     .default_text = "queue,cache,group",
     .help = "roles of this node: queue, cache, group"},
    {.name = "durability",
     INTO(CHOICE, durability),
     .value_name = "HOW",
     .default_text = "journal",
     .choices = rota_durability_names,
     .help = "where to keep jobs: in the node's journal, in the store, or in memory, lost with the "
             "process"},
    {.name = "partitions",
     INTO(INT, partitions),
     .value_name = "N",
     .default_text = "16",
     .min = 1,
     .max = 65536,
     .help = "default number of partitions of a queue; the same on all nodes"},
    {.name = "queue-settings",
     INTO(TEXT, queue_settings),
     .value_name = "FILE",
     .help = "dynamic settings: partitions of queues and how they are spread; read again when it "
             "changes; the same on all nodes"},
    {.name = "memory",
     INTO(INT, memory),
     .value_name = "BYTES",
     .default_text = "4294967296",
     .min = 1 << 20,
     .max = INT64_C(1) << 44,
     .help = "memory for jobs, and for requests and replies in flight, which get an eighth of it"},
    {.name = "segment",
     INTO(INT, segment),
     .value_name = "BYTES",
     .default_text = "67108864",
     .min = 1 << 16,
     .max = 1 << 30,
     .help = "size of journal files; use a smaller one on a small disk"},
    {.name = "repair",
     INTO(FLAG, repair),
     .help = "skip damaged or missing parts of the journal, losing what they held; for one start"},
    {.name = "peer-connections",
     INTO(INT, peer_connections),
     .value_name = "N",
     .default_text = "0",
     .min = 0,
     .max = 1000000,
     .help = "maximum number of connections per peer address, for gRPC and HTTP each; 0 means half "
             "of the total, so 2,000 for gRPC and 512 for HTTP. Raise it if clients connect "
             "through one proxy"},
    {.name = "idle-limit",
     INTO(SPAN, idle_limit),
     .value_name = "DURATION",
     .default_text = "5m",
     .min = ROTA_SEC,
     .max = ROTA_DAY,
     .help = "close connections without a call or a complete request after this long"},
    {.name = "ttl",
     INTO(SPAN, ttl),
     .value_name = "DURATION",
     .default_text = "10s",
     .min = ROTA_SEC,
     .max = ROTA_HOUR,
     .help = "declare a node dead after this long without a heartbeat"},
    {.name = "align",
     INTO(SPAN, align),
     .value_name = "DURATION",
     .default_text = "0s",
     .min = 0,
     .max = ROTA_HOUR,
     .help = "let nodes join and leave only when the clock is at a multiple of this duration, so "
             "that all nodes change rings at the same time"},
    {.name = "drain-limit",
     INTO(SPAN, drain_limit),
     .value_name = "DURATION",
     .default_text = "30s",
     .min = 0,
     .max = ROTA_DAY,
     .help = "grace period at shutdown for finishing or handing over work"},
    {.name = "cert",
     INTO(TEXT, certificate),
     .value_name = "FILE",
     .help = "certificate for gRPC, for serving and for calling other nodes [default: plaintext]"},
    {.name = "key",
     INTO(TEXT, key),
     .value_name = "FILE",
     .help = "private key of the certificate"},
    {.name = "ca",
     INTO(TEXT, ca),
     .value_name = "FILE",
     .help = "require certificates from these CAs, of clients and other nodes"},
    {.name = "operators",
     INTO(TEXT, operators),
     .value_name = "NAME,...",
     .help = "certificate names that may operate the cluster over gRPC, as holders of the node's "
             "token can; needs --ca"},
    {.name = "nodes",
     INTO(TEXT, nodes),
     .value_name = "NAME,...",
     .help = "certificate names accepted as nodes, in addition to nodes that know the secret in "
             "the store; needs --ca"},
    {.name = "ledger",
     INTO(TEXT, ledger),
     .value_name = "FILE",
     .min = 1,
     .max = 4000,
     .help = "JSON file written by a program that checks this cluster; shown on the dashboard's "
             "Cluster page and at /api/v1/ledger"},
    {.name = "insecure",
     INTO(FLAG, insecure),
     .help = "allow plaintext gRPC and HTTP on addresses other than loopback"},
    {.name = "log-level",
     INTO(CHOICE, log_level),
     .value_name = "LEVEL",
     .default_text = "info",
     .choices = rota_log_level_names,
     .help = "minimum level of log messages on standard error"},
};
const size_t rota_node_n_options = sizeof rota_node_options / sizeof rota_node_options[0];

static const struct rota_option SPACE_OPTIONS[] = {
    {.name = "name",
     ROTA_OPTION_INTO(TEXT, struct rota_node_space, name),
     .value_name = "NAME",
     .min = 1,
     .max = ROTA_NODE_SPACE_NAME_MAX,
     .is_required = true,
     .help = "name of the space: letters, digits, '.', '_' and '-'"},
    {.name = "engine",
     ROTA_OPTION_INTO(CHOICE, struct rota_node_space, engine),
     .value_name = "ENGINE",
     .default_text = "ring",
     .choices = ENGINES,
     .help = "assignment engine when the space is created; later the store decides"},
    {.name = "shards",
     ROTA_OPTION_INTO(INT, struct rota_node_space, shards),
     .value_name = "N",
     .default_text = "64",
     .min = 1,
     .max = ROTA_SPACE_SHARDS_MAX,
     .help = "number of shards when the space is created"},
    {.name = "seats",
     ROTA_OPTION_INTO(TEXT, struct rota_node_space, seats),
     .value_name = "NODES",
     .help = "engine static: addresses of its nodes when the space is created, separated by "
             "commas; without them, only this node"},
    {.name = "log",
     ROTA_OPTION_INTO(TEXT, struct rota_node_space, log),
     .value_name = "URL",
     .help = "log of the engine group, the same on all nodes"},
};

static const struct rota_option CACHE_OPTIONS[] = {
    {.name = "name",
     ROTA_OPTION_INTO(TEXT, struct rota_node_cache, name),
     .value_name = "NAME",
     .min = 1,
     .max = ROTA_STORE_NAME_MAX,
     .is_required = true,
     .help = "name of the collection"},
    {.name = "source",
     ROTA_OPTION_INTO(TEXT, struct rota_node_cache, source),
     .value_name = "SOURCE",
     .min = 1,
     .max = 4000,
     .is_required = true,
     .help = "source of the values: file:FILE, or sql:TABLE in the store's database"},
    {.name = "shards",
     ROTA_OPTION_INTO(INT, struct rota_node_cache, shards),
     .value_name = "N",
     .default_text = "4",
     .min = 1,
     .max = ROTA_STORE_SHARDS_MAX,
     .help = "number of shards in each zone"},
    {.name = "memory",
     ROTA_OPTION_INTO(INT, struct rota_node_cache, memory),
     .value_name = "BYTES",
     .default_text = "268435456",
     .min = ROTA_LRU_BYTES_MIN,
     .max = INT64_C(1) << 44,
     .help = "memory for values, in bytes"},
    {.name = "keep",
     ROTA_OPTION_INTO(SPAN, struct rota_node_cache, keep),
     .value_name = "DURATION",
     .default_text = "10s",
     .min = 0,
     .max = 365 * ROTA_DAY,
     .help = "how long to cache a value of a table; a missing key is cached for a tenth of that"},
    {.name = "wanted",
     ROTA_OPTION_INTO(INT, struct rota_node_cache, wanted),
     .value_name = "N",
     .default_text = "0",
     .min = 0,
     .max = ROTA_LEASE_WANTED_MAX,
     .help = "number of shards that this node holds; 0 means its share of those in its zone"},
    {.name = "loss",
     ROTA_OPTION_INTO(CHOICE, struct rota_node_cache, loss),
     .value_name = "WHAT",
     .default_text = "standby",
     .choices = LOSSES,
     .help = "what the node does when it loses a shard: stand by for the next, exit, or abort(); "
             "with the last two it also exits if it cannot serve the cache at all"},
    {.name = "reshard",
     ROTA_OPTION_INTO(FLAG, struct rota_node_cache, reshard),
     .help = "allow changing the zone's number of shards"},
};

static const struct rota_option GROUP_OPTIONS[] = {
    {.name = "name",
     ROTA_OPTION_INTO(TEXT, struct rota_node_group, name),
     .value_name = "NAME",
     .min = 1,
     .max = ROTA_SYNC_NAME_MAX,
     .is_required = true,
     .help = "name of the group"},
    {.name = "log",
     ROTA_OPTION_INTO(TEXT, struct rota_node_group, log),
     .value_name = "URL",
     .min = 1,
     .max = 4000,
     .help = "log that its tasks share [default: groups.db in the data directory]"},
};

const struct rota_settings_kind rota_node_kinds[] = {
    {.name = "cache",
     .options = CACHE_OPTIONS,
     .n_options = sizeof CACHE_OPTIONS / sizeof CACHE_OPTIONS[0],
     .size = sizeof(struct rota_node_cache)},
    {.name = "group",
     .options = GROUP_OPTIONS,
     .n_options = sizeof GROUP_OPTIONS / sizeof GROUP_OPTIONS[0],
     .size = sizeof(struct rota_node_group)},
    {.name = "space",
     .options = SPACE_OPTIONS,
     .n_options = sizeof SPACE_OPTIONS / sizeof SPACE_OPTIONS[0],
     .size = sizeof(struct rota_node_space)},
    {.name = "directory",
     .gone = "remove it; every node serves the owners of all spaces and caches in its store"},
};
const size_t rota_node_n_kinds = sizeof rota_node_kinds / sizeof rota_node_kinds[0];

/* --- consistency --- */

/* The next name of a list with commas; false at its end. */
static bool next_name(struct rota_str *rest, struct rota_str *name)
{
    if (rest->size == 0)
        return false;
    const char *comma = memchr(rest->data, ',', rest->size);
    size_t n = comma ? (size_t)(comma - rest->data) : rest->size;
    *name = rota_str_of(rest->data, n);
    n += comma != NULL;
    *rest = rota_str_of(rest->data + n, rest->size - n);
    return true;
}

/* Whether the names of certificates can be read. */
static bool check_list(const char *names)
{
    struct rota_access_list list;
    char *text = names ? strdup(names) : NULL;
    bool is_fine = !names || (text && rota_access_list_parse(text, &list));
    free(text);
    return is_fine;
}

static enum rota_code check_roles(const struct rota_settings *settings, struct rota_error *error)
{
    const struct rota_node_settings *values = settings->values;
    struct rota_str name, rest = rota_str(values->roles);
    char where[ROTA_SETTINGS_WHERE_MAX];
    while (next_name(&rest, &name)) {
        struct rota_spell spell = {.word = name};
        char quoted[ROTA_QUOTE_MAX], near[ROTA_SPELL_HINT_MAX];
        size_t i = 0;
        for (; i < sizeof ROLES / sizeof ROLES[0]; i++) {
            rota_spell_offer(&spell, ROLES[i]);
            if (rota_str_is_equal(name, rota_str(ROLES[i])))
                break;
        }
        if (i == sizeof ROLES / sizeof ROLES[0])
            return rota_error_set(error, ROTA_ERR_INVALID,
                                  "%s: %s is not a role: use queue, cache or group%s",
                                  rota_settings_where(settings, "roles", where),
                                  rota_quote(name, quoted), rota_spell_hint(&spell, near));
    }
    return ROTA_OK;
}

bool rota_node_settings_has_role(const struct rota_node_settings *settings, const char *role)
{
    struct rota_str name, rest = rota_str(settings->roles);
    while (next_name(&rest, &name))
        if (rota_str_is_equal(name, rota_str(role)))
            return true;
    return false;
}

/* Two sections of one kind have different names; so do a cache and a space, since their leases
 * are in one table. Each kind's struct begins with the name. */
static enum rota_code check_names(const struct rota_settings *settings, struct rota_error *error)
{
    for (size_t i = 0; i < settings->n_sections; i++)
        for (size_t k = 0; k < i; k++) {
            const struct rota_settings_section *one = &settings->sections[k];
            const struct rota_settings_section *other = &settings->sections[i];
            bool is_lone =
                strcmp(one->kind->name, "group") == 0 || strcmp(other->kind->name, "group") == 0;
            if ((one->kind != other->kind && is_lone) ||
                strcmp(*(char *const *)one->values, *(char *const *)other->values) != 0)
                continue;
            return rota_error_set(
                error, ROTA_ERR_INVALID,
                "[[%s]] on line %u: [[%s]] on line %u already has the name %.200s",
                other->kind->name, other->line, one->kind->name, one->line,
                *(char *const *)one->values);
        }
    return ROTA_OK;
}

static enum rota_code check_caches(const struct rota_settings *settings, struct rota_error *error)
{
    for (size_t i = 0; i < settings->n_sections; i++) {
        const struct rota_node_cache *cache = settings->sections[i].values;
        if (strcmp(settings->sections[i].kind->name, "cache") == 0 && cache->wanted > cache->shards)
            return rota_error_set(error, ROTA_ERR_INVALID,
                                  "[[cache]] %.200s: wanted = %lld is more than shards = %lld",
                                  cache->name, (long long)cache->wanted, (long long)cache->shards);
    }
    return ROTA_OK;
}

/* --- spaces --- */

static bool is_space_name(const char *name)
{
    for (; *name; name++)
        if (!(*name >= 'a' && *name <= 'z') && !(*name >= 'A' && *name <= 'Z') &&
            !(*name >= '0' && *name <= '9') && !strchr("._-", *name))
            return false;
    return true;
}

static enum rota_code check_space(const struct rota_settings_section *section,
                                  struct rota_error *error)
{
    const struct rota_node_space *space = section->values;
    char quoted[ROTA_QUOTE_MAX];
    if (!is_space_name(space->name))
        return rota_error_set(
            error, ROTA_ERR_INVALID,
            "[[space]] on line %u: the name %s may have only letters, digits, '.', '_' and '-'",
            section->line, rota_quote(rota_str(space->name), quoted));
    if (strcmp(space->name, ROTA_VIEW_QUEUES) == 0)
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "[[space]] on line %u: the name " ROTA_VIEW_QUEUES
                              " is taken: it is the space of the nodes that serve queues",
                              section->line);
    bool is_small =
        space->engine == ROTA_NODE_ENGINE_LEASE || space->engine == ROTA_NODE_ENGINE_GROUP;
    if (is_small && space->shards > ROTA_LEASE_SHARDS_MAX)
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "[[space]] on line %u: the engine %s supports at most %d shards",
                              section->line, ENGINES[space->engine], ROTA_LEASE_SHARDS_MAX);
    if (space->seats && space->engine != ROTA_NODE_ENGINE_STATIC)
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "[[space]] on line %u: seats is for the engine static, not for %s",
                              section->line, ENGINES[space->engine]);
    if (space->engine == ROTA_NODE_ENGINE_GROUP && !space->log)
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "[[space]] on line %u: the engine group needs a log", section->line);
    return ROTA_OK;
}

static enum rota_code check_spaces(const struct rota_settings *settings, struct rota_error *error)
{
    size_t n = 0;
    for (size_t i = 0; rota_node_settings_space(settings, &i); i++) {
        const struct rota_settings_section *section = &settings->sections[i];
        enum rota_code code = check_space(section, error);
        if (code)
            return code;
        if (++n > ROTA_NODE_SPACES_MAX)
            return rota_error_set(error, ROTA_ERR_INVALID,
                                  "[[space]] on line %u: a node has at most %d spaces",
                                  section->line, ROTA_NODE_SPACES_MAX);
    }
    return ROTA_OK;
}

const struct rota_node_space *rota_node_settings_space(const struct rota_settings *settings,
                                                       size_t *place)
{
    for (; *place < settings->n_sections; ++*place)
        if (strcmp(settings->sections[*place].kind->name, "space") == 0)
            return settings->sections[*place].values;
    return NULL;
}

const char *rota_node_settings_engine_name(int engine)
{
    return ENGINES[engine];
}

enum rota_code rota_node_settings_check(const struct rota_settings *settings,
                                        struct rota_error *error)
{
    const struct rota_node_settings *values = settings->values;
    char where[ROTA_SETTINGS_WHERE_MAX], quoted[ROTA_QUOTE_MAX];
    uint32_t weight;
    enum rota_code code = check_roles(settings, error);
    if (!code)
        code = check_names(settings, error);
    if (code)
        return code;
    if (!rota_hosts_file_parse_weight(values->weight, &weight))
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "%s: a weight must be a number from 0.01 to 1000, such as 2.5",
                              rota_settings_where(settings, "weight", where));
    if (values->name && !rota_node_name_is_valid(rota_str(values->name)))
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "%s: %s is not the name of a node: use " ROTA_NODE_NAME_RULE,
                              rota_settings_where(settings, "name", where),
                              rota_quote(rota_str(values->name), quoted));
    if ((values->operators || values->nodes) && !values->ca)
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "%s names certificates, but without ca clients send none: set ca to "
                              "the CA that signs them",
                              values->operators ? "operators" : "nodes");
    if (!check_list(values->operators) || !check_list(values->nodes))
        return rota_error_set(
            error, ROTA_ERR_INVALID,
            "%s: certificate names must be separated by commas, at most %d names of 1 to %d bytes",
            check_list(values->operators) ? "nodes" : "operators", ROTA_ACCESS_NAMES_MAX,
            ROTA_ACCESS_NAME_MAX);
    if (!values->certificate != !values->key)
        return rota_error_set(error, ROTA_ERR_INVALID, "cert and key must be set together");
    if (values->ca && !values->certificate)
        return rota_error_set(
            error, ROTA_ERR_INVALID,
            "ca needs TLS: set cert and key, or clients would need no certificate");
    if (!values->workers_key != !values->workers_list)
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "workers-key and workers-list must be set together");
    if (values->durability == ROTA_DURABILITY_STORE && !values->store)
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "durability = \"store\" needs a store that all nodes share");
    code = check_spaces(settings, error);
    if (!code)
        code = check_caches(settings, error);
    return code ? code : rota_node_check_reach(settings, error);
}

bool rota_node_settings_is_live(size_t i)
{
    static const char *const LIVE[] = {"http-names", "zone", "weight", "drain-limit", "log-level"};
    for (size_t k = 0; k < sizeof LIVE / sizeof LIVE[0]; k++)
        if (strcmp(rota_node_options[i].name, LIVE[k]) == 0)
            return true;
    return false;
}
