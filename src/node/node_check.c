/* Whether a node could start with its settings, as far as that can be told without starting. */
#include "node/node_settings.h"

#include "io/address.h"
#include "wire/sql_url.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

/* `*is_far`: it leads beyond this machine. A name is not looked up, and may. */
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
    return rota_error_set(
        error, ROTA_ERR_INVALID,
        "%s: %.300s is beyond this machine, where plain text has to be asked for: "
        "%s, or set insecure",
        rota_settings_where(settings, name, where), address, instead);
}

/* Who may connect there is given jobs, and says how they ended: nothing lets in everybody. */
static enum rota_code refuse_keyless(const struct rota_settings *settings, const char *address,
                                     struct rota_error *error)
{
    char where[ROTA_SETTINGS_WHERE_MAX];
    return rota_error_set(error, ROTA_ERR_INVALID,
                          "%s: %.300s is beyond this machine, where workers need keys: give "
                          "workers-key and workers-list",
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
        return refuse_plain(settings, "listen", values->listen, "give cert and key", error);
    if (!code)
        code = check_address(settings, "workers", values->workers, &is_far, error);
    if (!code && is_far && !values->workers_key)
        return refuse_keyless(settings, values->workers, error);
    if (!code)
        code = check_address(settings, "http", values->http, &is_far, error);
    if (!code && is_far && !values->insecure)
        return refuse_plain(settings, "http", values->http,
                            "put a proxy with TLS before an address of this machine", error);
    return code;
}

enum rota_code rota_node_settings_check_reach(const struct rota_settings *settings,
                                              struct rota_error *error)
{
    const struct rota_node_settings *values = settings->values;
    const struct {
        const char *name, *path;
    } files[] = {{"cert", values->certificate},
                 {"key", values->key},
                 {"ca", values->ca},
                 {"workers-key", values->workers_key},
                 {"workers-list", values->workers_list}};
    struct rota_sql_url url;
    struct rota_error why;
    char where[ROTA_SETTINGS_WHERE_MAX];
    enum rota_code code = check_addresses(settings, error);
    for (size_t i = 0; !code && i < sizeof files / sizeof files[0]; i++)
        code = check_file(settings, files[i].name, files[i].path, error);
    if (!code && values->store && rota_sql_url_parse(rota_str(values->store), &url, &why))
        code = rota_error_set(error, ROTA_ERR_INVALID, "%s: %s",
                              rota_settings_where(settings, "store", where), why.text);
    return code;
}
