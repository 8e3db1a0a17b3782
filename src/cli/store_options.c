#include "cli/store_options.h"

#include "wire/sql_url.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

static enum rota_code check(const char **url, struct rota_sql_url *parsed, struct rota_error *error)
{
    const char *text = *url ? *url : getenv("ROTA_STORE");
    if (!text || !*text)
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "which store? --store and ROTA_STORE are not there");
    *url = text;
    return rota_sql_url_parse(rota_str(text), parsed, error);
}

enum rota_code rota_store_options_check(const char **url, struct rota_error *error)
{
    struct rota_sql_url parsed;
    return check(url, &parsed, error);
}

enum rota_code rota_store_options_check_there(const char **url, struct rota_error *error)
{
    struct rota_sql_url parsed;
    enum rota_code code = check(url, &parsed, error);
    if (code || parsed.kind != ROTA_SQL_SQLITE || access(parsed.path, R_OK) == 0)
        return code;
    return rota_error_set(error, ROTA_ERR_NOT_FOUND, "the store sqlite:%.200s: %s", parsed.path,
                          strerror(errno));
}
