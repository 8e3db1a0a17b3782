/* URLs of databases: whatever is read is written so that it reads as the same without its
 * password, and no message shows a part of it. */
#include "wire/text/sql_url.h"

#include <assert.h>
#include <stdbool.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct rota_sql_url url, again;
    static char text[ROTA_SQL_URL_TEXT_MAX], twice[ROTA_SQL_URL_TEXT_MAX];
    struct rota_error error = {0};

    if (rota_sql_url_parse(rota_str_of(data, size), &url, &error)) {
        assert(error.code == ROTA_ERR_INVALID || error.code == ROTA_ERR_LIMIT);
        for (const char *c = error.text; *c; c++)
            assert(*c >= ' ' && *c <= '~'); /* our own words only */
        return 0;
    }
    assert(rota_sql_url_format(&url, text) == text);
    assert(rota_sql_url_parse(rota_str(text), &again, &error) == ROTA_OK);
    assert(again.password[0] == '\0');
    assert(again.kind == url.kind && again.tls == url.tls && again.port == url.port);
    assert(strcmp(again.user, url.user) == 0 && strcmp(again.host, url.host) == 0);
    assert(strcmp(again.database, url.database) == 0 && strcmp(again.path, url.path) == 0);
    assert(strcmp(again.ca, url.ca) == 0);
    assert(strcmp(rota_sql_url_format(&again, twice), text) == 0);
    return 0;
}
