/* tls_options: the options by which commands say which certificate they present and which CAs they
 * trust. All commands that call nodes have the same. */
#pragma once

#include "base/option.h"

#include <rota/tls.h>

struct rota_tls_words {
    const char *ca, *certificate, *key;
};

/* The fields are those of a struct rota_tls_words in the result. */
#define ROTA_TLS_OPTIONS(result, ca_field, cert_field, key_field)                                  \
    {.name = "tls-ca",                                                                             \
     ROTA_OPTION_INTO(TEXT, result, ca_field),                                                     \
     .value_name = "FILE",                                                                         \
     .help = "use TLS and trust the CAs in FILE [env ROTA_TLS_CA]"},                               \
        {.name = "tls-cert",                                                                       \
         ROTA_OPTION_INTO(TEXT, result, cert_field),                                               \
         .value_name = "FILE",                                                                     \
         .help = "use TLS and present this client certificate [env ROTA_TLS_CERT]"},               \
    {                                                                                              \
        .name = "tls-key", ROTA_OPTION_INTO(TEXT, result, key_field), .value_name = "FILE",        \
        .help = "private key of the certificate [env ROTA_TLS_KEY, default: in the same file]"     \
    }

/* Gives `*tls`, which rota_tls_free() frees; NULL means plaintext, if neither a CA nor a
 * certificate is given. */
enum rota_code rota_tls_options_open(const struct rota_tls_words *words, struct rota_tls **tls,
                                     struct rota_error *error);
