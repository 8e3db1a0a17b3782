/* store_options: the options by which commands name a store and a space in it. */
#pragma once

#include "base/option.h"

#include <rota/experimental/store_ask.h>

/* `field` is a const char *. */
#define ROTA_STORE_OPTION(result, field)                                                           \
    {                                                                                              \
        .name = "store", ROTA_OPTION_INTO(TEXT, result, field), .value_name = "URL",               \
        .help = "database of the cluster: sqlite:PATH, mysql://USER:PASSWORD@HOST/DATABASE or "    \
                "postgres://... [env ROTA_STORE, which hides a password from other users]"         \
    }

#define ROTA_SPACE_OPTION(result, field)                                                           \
    {                                                                                              \
        .name = "space", ROTA_OPTION_INTO(TEXT, result, field), .value_name = "NAME",              \
        .default_text = "cache", .min = 1, .max = ROTA_STORE_NAME_MAX,                             \
        .help = "name of the cache; a store can hold several"                                      \
    }

/* Reject a store that is not named, whose URL is invalid, or whose file can't be written; `*url` is
 * set from ROTA_STORE if it is NULL. */
enum rota_code rota_store_options_check(const char **url, struct rota_error *error);

/* The same for commands that only read: a missing file is not created. */
enum rota_code rota_store_options_check_there(const char **url, struct rota_error *error);

/* Send requests to the store at `url`, or at ROTA_STORE if that is NULL, one after the other, over
 * one connection; only a BEAT creates a missing file. Fills `answers`, which
 * rota_store_session_answer_deinit() frees; none of them if one fails. */
enum rota_code rota_store_options_ask(const char *url, const struct rota_store_request *requests,
                                      size_t n, struct rota_store_answer *answers,
                                      struct rota_error *error);
