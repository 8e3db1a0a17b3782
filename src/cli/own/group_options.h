/* group_options: the options by which commands name a group and its log. */
#pragma once

#include "base/option.h"
#include "io/log/sync.h"

/* Fields are const char *. */
#define ROTA_GROUP_LOG_OPTION(result, field)                                                       \
    {                                                                                              \
        .name = "log", ROTA_OPTION_INTO(TEXT, result, field), .value_name = "URL",                 \
        .help = "log of the group: sqlite:PATH, postgres://USER:PASSWORD@HOST/DATABASE or "        \
                "kafka://HOST:PORT[,HOST:PORT...] [env ROTA_LOG, which hides a password from "     \
                "other users]"                                                                     \
    }
#define ROTA_GROUP_NAME_OPTION(result, field)                                                      \
    {                                                                                              \
        .name = "name", ROTA_OPTION_INTO(TEXT, result, field), .value_name = "GROUP",              \
        .is_required = true, .min = 1, .max = ROTA_SYNC_NAME_MAX, .help = "name of the group"      \
    }

/* Reject a log that is not named, and a file that can't be created or written; `*url` is set from
 * ROTA_LOG if it is NULL. With `is_there` the file must exist, but only be readable. */
enum rota_code rota_group_options_check(const char **url, bool is_there, struct rota_error *error);
