/* tls_options: the options by which commands that ask nodes say who they are and whom they
 * believe. All of them have the same, by the same names as the settings of a node have. */
#pragma once

#include "base/option.h"

#include <rota/tls.h>

struct rota_tls_words {
    const char *ca, *certificate, *key;
};

/* The fields are those of a struct rota_tls_words. */
#define ROTA_TLS_OPTIONS(result, ca_field, cert_field, key_field)                                  \
    ROTA_TLS_KEYLESS_OPTIONS(result, ca_field, cert_field),                                        \
    {                                                                                              \
        .name = "key", ROTA_OPTION_INTO(TEXT, result, key_field), .value_name = "FILE",            \
        .help = "the key of --cert; ROTA_KEY if not given, or in the same file"                    \
    }

/* The same for commands whose --key is something else. */
#define ROTA_TLS_KEYLESS_OPTIONS(result, ca_field, cert_field)                                     \
    {.name = "ca",                                                                                 \
     ROTA_OPTION_INTO(TEXT, result, ca_field),                                                     \
     .value_name = "FILE",                                                                         \
     .help = "ask by TLS, and believe these authorities; ROTA_CA if not given"},                   \
    {                                                                                              \
        .name = "cert", ROTA_OPTION_INTO(TEXT, result, cert_field), .value_name = "FILE",          \
        .help = "ask by TLS with this certificate, whose key is in ROTA_KEY or the same file; "    \
                "ROTA_CERT if not given"                                                           \
    }

/* Gives `*tls`, which rota_tls_free() ends; NULL when plain text is meant, for neither an
 * authority nor a certificate is named. */
enum rota_code rota_tls_options_open(const struct rota_tls_words *words, struct rota_tls **tls,
                                     struct rota_error *error);
