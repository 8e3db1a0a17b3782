#include "cli/store_options.h"

#include "io/sql/store_session.h"
#include "wire/text/sql_url.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

static enum rota_code check(const char **url, struct rota_sql_url *parsed, struct rota_error *error)
{
    const char *text = *url ? *url : getenv("ROTA_STORE");
    if (!text || !*text)
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "no store given: use --store, or set ROTA_STORE");
    *url = text;
    return rota_sql_url_parse(rota_str(text), parsed, error);
}

static enum rota_code refuse_file(const struct rota_sql_url *url, struct rota_error *error)
{
    return rota_error_set(
        error, ROTA_ERR_NOT_FOUND, "cannot open sqlite:%.200s: %s%s", url->path, strerror(errno),
        errno == ENOENT ? "; the first node, cache server or group task that uses it creates it"
                        : "");
}

/* Can the file be created, or written if it exists? An unreachable store may come back, but this
 * would never fix itself. */
static bool is_usable(const struct rota_sql_url *url)
{
    char folder[ROTA_SQL_URL_PATH_MAX];
    if (access(url->path, F_OK) == 0)
        return access(url->path, R_OK | W_OK) == 0;
    memcpy(folder, url->path, sizeof folder);
    char *slash = strrchr(folder, '/');
    if (!slash)
        return access(".", W_OK | X_OK) == 0;
    slash[slash == folder ? 1 : 0] = 0;
    return access(folder, W_OK | X_OK) == 0;
}

enum rota_code rota_store_options_check(const char **url, struct rota_error *error)
{
    struct rota_sql_url parsed;
    enum rota_code code = check(url, &parsed, error);
    if (code || parsed.kind != ROTA_SQL_SQLITE || is_usable(&parsed))
        return code;
    return refuse_file(&parsed, error);
}

enum rota_code rota_store_options_check_there(const char **url, struct rota_error *error)
{
    struct rota_sql_url parsed;
    enum rota_code code = check(url, &parsed, error);
    if (code || parsed.kind != ROTA_SQL_SQLITE || access(parsed.path, R_OK) == 0)
        return code;
    return refuse_file(&parsed, error);
}

enum rota_code rota_store_options_ask(const char *url, const struct rota_store_request *requests,
                                      size_t n, struct rota_store_answer *answers,
                                      struct rota_error *error)
{
    struct rota_sql_url parsed;
    struct rota_sql_options options = {0};
    struct rota_store_session *session = NULL;
    enum rota_code code = ROTA_OK;
    for (size_t i = 0; !code && i < n; i++)
        code = rota_store_check_request(&requests[i], error);
    if (!code && requests[0].verb == ROTA_STORE_BEAT)
        code = rota_store_options_check(&url, error);
    else if (!code)
        code = rota_store_options_check_there(&url, error);
    if (!code)
        code = rota_sql_url_parse(rota_str(url), &parsed, error);
    if (!code)
        code = rota_store_session_open(&parsed, &options, &session, error);
    for (size_t i = 0; !code && i < n; i++) {
        rota_store_session_do(session, &requests[i], &answers[i]);
        code = answers[i].code;
        if (code && error)
            *error = answers[i].error;
    }
    rota_store_session_close(session);
    for (size_t i = 0; code && i < n; i++)
        rota_store_session_answer_deinit(&answers[i]);
    return code;
}
