/* Whether a node could start with its settings, as far as that is known without starting. */
#include "node/node_settings.h"

#include "io/file.h"
#include "io/journal/journal_files.h"
#include "io/net/address.h"
#include "run/connector/connector_inside.h"
#include "wire/text/config_text.h"
#include "wire/text/sql_url.h"

#include <rota/tls.h>

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* `*is_far`: it leads beyond this machine. A name is not resolved, and may. */
static enum rota_code check_address(const struct rota_settings *settings, const char *name,
                                    const char *text, bool *is_far, struct rota_error *error)
{
    struct rota_address address;
    struct sockaddr_storage resolved;
    struct rota_error why;
    char where[ROTA_SETTINGS_WHERE_MAX];
    *is_far = false;
    if (!text)
        return ROTA_OK;
    if (rota_address_parse(text, &address, &why))
        return rota_error_set(error, ROTA_ERR_INVALID, "%s: %s",
                              rota_settings_where(settings, name, where), why.text);
    *is_far = rota_address_resolve(&address, &resolved) &&
              !rota_address_is_loopback((const struct sockaddr *)&resolved);
    return ROTA_OK;
}

static enum rota_code check_file(const struct rota_settings *settings, const char *name,
                                 const char *path, struct rota_error *error)
{
    char where[ROTA_SETTINGS_WHERE_MAX];
    if (!path || access(path, R_OK) == 0)
        return ROTA_OK;
    return rota_error_set(error, ROTA_ERR_INVALID, "%s: %.1000s: %s",
                          rota_settings_where(settings, name, where), path, strerror(errno));
}

static enum rota_code refuse_plain(const struct rota_settings *settings, const char *name,
                                   const char *address, const char *instead,
                                   struct rota_error *error)
{
    char where[ROTA_SETTINGS_WHERE_MAX];
    return rota_error_set(error, ROTA_ERR_INVALID,
                          "%s: %.300s is not a loopback address, and plaintext is allowed only on "
                          "loopback: %s, or set insecure",
                          rota_settings_where(settings, name, where), address, instead);
}

/* Other nodes connect to `advertise`, or else to `listen`. */
static enum rota_code check_advertised(const struct rota_settings *settings,
                                       struct rota_error *error)
{
    const struct rota_node_settings *values = settings->values;
    const char *name = values->advertise ? "advertise" : "listen";
    const char *text = values->advertise ? values->advertise : values->listen;
    char where[ROTA_SETTINGS_WHERE_MAX];
    if (!rota_address_is_any(text))
        return ROTA_OK;
    return rota_error_set(error, ROTA_ERR_INVALID,
                          "%s: %.300s is not an address that other nodes can connect to: set "
                          "advertise to one that is",
                          rota_settings_where(settings, name, where), text);
}

/* Workers that may connect there receive jobs, and report their results: do not let everyone in. */
static enum rota_code refuse_keyless(const struct rota_settings *settings, const char *address,
                                     struct rota_error *error)
{
    char where[ROTA_SETTINGS_WHERE_MAX];
    return rota_error_set(error, ROTA_ERR_INVALID,
                          "%s: %.300s is not a loopback address, and workers on other machines "
                          "need keys: set workers-key and workers-list",
                          rota_settings_where(settings, "workers", where), address);
}

static enum rota_code check_addresses(const struct rota_settings *settings,
                                      struct rota_error *error)
{
    const struct rota_node_settings *values = settings->values;
    bool is_far;
    enum rota_code code = check_address(settings, "advertise", values->advertise, &is_far, error);
    if (!code)
        code = check_address(settings, "listen", values->listen, &is_far, error);
    if (!code && is_far && !values->certificate && !values->insecure)
        return refuse_plain(settings, "listen", values->listen, "set cert and key", error);
    if (!code)
        code = check_advertised(settings, error);
    if (!code)
        code = check_address(settings, "workers", values->workers[0] ? values->workers : NULL,
                             &is_far, error);
    if (!code && is_far && !values->workers_key)
        return refuse_keyless(settings, values->workers, error);
    if (!code)
        code = check_address(settings, "http", values->http, &is_far, error);
    if (!code && is_far && !values->insecure)
        return refuse_plain(settings, "http", values->http,
                            "put a TLS proxy in front of a loopback address", error);
    return code;
}

/* --- permissions --- */

/* A file with a secret in it, which may not be there yet: then the node creates it for itself. */
static enum rota_code check_secret(const char *path, struct rota_error *error)
{
    struct stat status;
    return stat(path, &status) ? ROTA_OK : rota_file_check_secret(path, true, error);
}

/* The directory may not exist yet. The store in it holds a secret, too: see check_store(). */
static enum rota_code check_data(const struct rota_settings *settings, struct rota_error *error)
{
    const struct rota_node_settings *values = settings->values;
    const char *data = values->data;
    struct stat status;
    char path[4200], where[ROTA_SETTINGS_WHERE_MAX];
    if (stat(data, &status))
        return ROTA_OK;
    if (status.st_mode & S_IWOTH)
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "%s: every user can write to %.1000s: run chmod o-w on it",
                              rota_settings_where(settings, "data", where), data);
    snprintf(path, sizeof path, "%s/token", data);
    enum rota_code code = check_secret(path, error);
    snprintf(path, sizeof path, "%s/store.db", data);
    if (!code && !values->store)
        code = check_secret(path, error);
    snprintf(path, sizeof path, "%s/jobs", data);
    if (!code && rota_node_settings_has_role(values, "queue") &&
        values->durability == ROTA_DURABILITY_JOURNAL)
        code = rota_journal_read_files_check(path, error);
    return code;
}

/* The file of SQLite may not be there yet, but its directory is. */
static enum rota_code check_parent(const char *path, struct rota_error *error)
{
    const char *slash = strrchr(path, '/');
    char parent[4200];
    snprintf(parent, sizeof parent, "%.*s/", slash ? (int)(slash - path) : 1, slash ? path : ".");
    return access(parent, W_OK | X_OK)
               ? rota_error_set(error, ROTA_ERR_INVALID, "%.1000s: %s", parent, strerror(errno))
               : ROTA_OK;
}

/* The store holds the secret by which nodes know each other; SQLite keeps it in a file. */
static enum rota_code check_store(const struct rota_settings *settings, struct rota_error *error)
{
    const char *store = ((const struct rota_node_settings *)settings->values)->store;
    struct rota_sql_url url;
    struct rota_error why;
    char where[ROTA_SETTINGS_WHERE_MAX];
    if (!store)
        return ROTA_OK;
    enum rota_code code = rota_sql_url_parse(rota_str(store), &url, &why);
    if (!code && url.kind == ROTA_SQL_SQLITE)
        code = check_parent(url.path, &why);
    if (!code && url.kind == ROTA_SQL_SQLITE)
        code = check_secret(url.path, &why);
    return code ? rota_error_set(error, ROTA_ERR_INVALID, "%s: %s",
                                 rota_settings_where(settings, "store", where), why.text)
                : ROTA_OK;
}

/* The pair of keys, and the list of workers, as they are read at the start. */
static enum rota_code check_workers(const struct rota_settings *settings, struct rota_error *error)
{
    const struct rota_node_settings *values = settings->values;
    struct rota_connector_options options = {.address = values->workers,
                                             .key_file = values->workers_key,
                                             .workers_file = values->workers_list};
    struct rota_error why;
    char where[ROTA_SETTINGS_WHERE_MAX];
    if (!values->workers_key || !rota_node_settings_has_role(values, "queue") ||
        !rota_connector_check_broker(&options, &why))
        return ROTA_OK;
    return rota_error_set(error, why.code, "%s: %s",
                          rota_settings_where(settings, "workers-key", where), why.text);
}

/* --- certificates --- */

enum rota_code rota_node_check_certificate(const struct rota_tls *tls, const char *certificate,
                                           const char *host, struct rota_error *error)
{
    return rota_tls_is_for(tls, host)
               ? ROTA_OK
               : rota_error_set(
                     error, ROTA_ERR_INVALID,
                     "the certificate %.1000s is not valid for %s, the address under which other "
                     "nodes reach this one: set advertise to a name in the certificate",
                     certificate, host);
}

/* Other nodes reach this one at `advertise`, or else at the address that `listen` resolves to. */
static void find_host(const struct rota_node_settings *values, char host[ROTA_ADDRESS_HOST_MAX])
{
    struct rota_address address;
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM}, *found = NULL;
    host[0] = '\0';
    if (rota_address_parse(values->advertise ? values->advertise : values->listen, &address, NULL))
        return;
    snprintf(host, ROTA_ADDRESS_HOST_MAX, "%s", address.host);
    if (values->advertise || getaddrinfo(address.host, NULL, &hints, &found))
        return;
    getnameinfo(found->ai_addr, found->ai_addrlen, host, ROTA_ADDRESS_HOST_MAX, NULL, 0,
                NI_NUMERICHOST);
    freeaddrinfo(found);
}

/* Does the error begin with this file? */
static bool names_file(const struct rota_error *error, const char *path)
{
    size_t size = path ? strlen(path) : 0;
    return path && strncmp(error->text, path, size) == 0 && error->text[size] == ':';
}

static enum rota_code check_certificate(const struct rota_settings *settings,
                                        struct rota_error *error)
{
    const struct rota_node_settings *values = settings->values;
    struct rota_tls_options options = {
        .certificate_file = values->certificate, .key_file = values->key, .ca_file = values->ca};
    struct rota_tls *tls = NULL;
    struct rota_error why;
    char host[ROTA_ADDRESS_HOST_MAX], where[ROTA_SETTINGS_WHERE_MAX];
    if (!values->certificate)
        return ROTA_OK;
    find_host(values, host);
    enum rota_code code = rota_tls_server_new(&options, &tls, &why);
    if (!code && host[0])
        code = rota_node_check_certificate(tls, values->certificate, host, &why);
    rota_tls_free(tls);
    if (!code)
        return ROTA_OK;
    const char *name = names_file(&why, values->key)  ? "key"
                       : names_file(&why, values->ca) ? "ca"
                                                      : "cert";
    return rota_error_set(error, code, "%s: %s", rota_settings_where(settings, name, where),
                          why.text);
}

/* The error names the file and the line. */
static enum rota_code check_queue_settings(const struct rota_settings *settings,
                                           struct rota_error *error)
{
    const struct rota_node_settings *values = settings->values;
    struct rota_buffer text = {0};
    struct rota_config *config = NULL;
    if (!values->queue_settings)
        return ROTA_OK;
    enum rota_code code =
        rota_file_read(values->queue_settings, ROTA_CONFIG_TEXT_MAX, &text, error);
    if (!code)
        code = rota_config_parse(rota_buffer_str(&text), values->queue_settings, &config, error);
    rota_config_unref(config);
    rota_buffer_deinit(&text);
    return code;
}

enum rota_code rota_node_check_reach(const struct rota_settings *settings, struct rota_error *error)
{
    const struct rota_node_settings *values = settings->values;
    const struct {
        const char *name, *path;
    } files[] = {{"cert", values->certificate},
                 {"key", values->key},
                 {"ca", values->ca},
                 {"workers-key", values->workers_key},
                 {"workers-list", values->workers_list}};
    enum rota_code code = check_addresses(settings, error);
    for (size_t i = 0; !code && i < sizeof files / sizeof files[0]; i++)
        code = check_file(settings, files[i].name, files[i].path, error);
    if (!code)
        code = check_store(settings, error);
    if (!code)
        code = check_data(settings, error);
    if (!code)
        code = check_workers(settings, error);
    if (!code)
        code = check_queue_settings(settings, error);
    return code ? code : check_certificate(settings, error);
}
