/* The inside of a rota_tls, for tls.c, which makes it from files, and tls_session.c, which makes
 * connections with it. No other file uses OpenSSL. */
#pragma once

#include "io/net/tls_session.h"

#include <openssl/ssl.h>

/* What the files hold. */
struct rota_tls_material {
    SSL_CTX *context;
    rota_time valid_from, expires_at; /* while all of our chain is valid */
};

struct rota_tls {
    bool is_server;
    char *certificate_file, *key_file, *ca_file;
    struct rota_tls_material material;
};
