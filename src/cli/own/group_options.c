#include "cli/own/group_options.h"

#include "cli/store_options.h"

#include <stdlib.h>

enum rota_code rota_group_options_check(const char **url, bool is_there, struct rota_error *error)
{
    const char *text = *url ? *url : getenv("ROTA_LOG");
    if (!text || !*text)
        return rota_error_set(error, ROTA_ERR_INVALID, "no log given: use --log, or set ROTA_LOG");
    *url = text;
    if (!rota_str_has_prefix(rota_str(text), rota_str("sqlite:")))
        return ROTA_OK; /* a server may be unreachable now, and the engine checks the rest */
    return is_there ? rota_store_options_check_there(url, error)
                    : rota_store_options_check(url, error);
}
