#include "cli/tls_options.h"

#include <stdlib.h>

static const char *choose(const char *word, const char *variable)
{
    const char *text = word ? word : getenv(variable);
    return text && *text ? text : NULL;
}

enum rota_code rota_tls_options_open(const struct rota_tls_words *words, struct rota_tls **tls,
                                     struct rota_error *error)
{
    struct rota_tls_options options = {.ca_file = choose(words->ca, "ROTA_TLS_CA"),
                                       .certificate_file =
                                           choose(words->certificate, "ROTA_TLS_CERT"),
                                       .key_file = choose(words->key, "ROTA_TLS_KEY")};
    if (words->key && !options.certificate_file)
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "--tls-key needs --tls-cert or ROTA_TLS_CERT");
    if (!options.certificate_file)
        options.key_file = NULL;
    else if (!options.key_file)
        options.key_file = options.certificate_file;
    if (!options.certificate_file && !options.ca_file) {
        *tls = NULL;
        return ROTA_OK;
    }
    return rota_tls_client_new(&options, tls, error);
}
