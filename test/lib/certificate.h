/* Certificates for tests, made with OpenSSL on the spot: no file in the
 * repository can run out. Keys are on P-256, which takes no time to make. */
#pragma once

#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include "await.h"

struct certificate {
    X509 *x509;
    EVP_PKEY *key;
};

/* What a certificate is to say. */
struct certificate_wish {
    const char *name;  /* the common name */
    const char *names; /* alternative ones, as in "DNS:localhost,IP:127.0.0.1"; NULL: none */
    const struct certificate *issuer; /* NULL: itself, and it is an authority */
    bool is_authority;                /* though it has an issuer */
    long from_s, until_s;             /* from now on, in seconds; 0 and 0: an hour both ways */
};

struct certificate certificate_make(const struct certificate_wish *wish);
void certificate_write(const struct certificate *certificate, const char *x509_path,
                       const char *key_path);
void certificate_deinit(struct certificate *certificate);
