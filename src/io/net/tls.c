#include "io/net/tls_inside.h"

#include "io/file.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdlib.h>
#include <time.h>

/* What HTTP/2 allows with TLS 1.2: forward secrecy and authenticated encryption. */
#define CIPHERS_12 "ECDHE+AESGCM:ECDHE+CHACHA20"

static const unsigned char ALPN_H2[] = {2, 'h', '2'};

/* OpenSSL's description of the first error. */
static const char *openssl_reason(void)
{
    const char *reason = ERR_reason_error_string(ERR_peek_error());
    return reason ? reason : "unknown error of the TLS library";
}

static enum rota_code refuse_file(const char *path, const char *what, struct rota_error *error)
{
    return rota_error_set(error, ROTA_ERR_INVALID, "%s: %s", path, what);
}

static enum rota_code no_memory(struct rota_error *error)
{
    return rota_error_no_memory(error, "for TLS");
}

/* --- reading files --- */

/* Years beyond a rota_time mean "never". */
static rota_time moment_of(const ASN1_TIME *time)
{
    struct tm parts;
    if (!ASN1_TIME_to_tm(time, &parts))
        return 0;
    time_t seconds = timegm(&parts);
    if (seconds > INT64_MAX / ROTA_SEC)
        return ROTA_TIME_NEVER;
    return seconds < INT64_MIN / ROTA_SEC ? ROTA_TIME_MIN : seconds * ROTA_SEC;
}

static int refuse_password(char *password, int size, int is_writing, void *data)
{
    (void)password, (void)size, (void)is_writing, (void)data;
    return -1; /* or OpenSSL would ask on the terminal */
}

static enum rota_code open_pem(const char *path, struct rota_buffer *content, BIO **bio,
                               struct rota_error *error)
{
    enum rota_code code = rota_file_read(path, ROTA_TLS_FILE_MAX, content, error);
    if (code)
        return code;
    *bio = BIO_new_mem_buf(content->size ? content->data : "", (int)content->size);
    if (*bio)
        return ROTA_OK;
    rota_buffer_deinit(content);
    return no_memory(error);
}

/* Do not leave keys in freed memory. */
static void close_pem(struct rota_buffer *content, BIO *bio)
{
    BIO_free(bio);
    if (content->data)
        OPENSSL_cleanse(content->data, content->size);
    rota_buffer_deinit(content);
}

/* Read all certificates of a file, at least one. Gives `*list`. */
static enum rota_code read_certificates(const char *path, STACK_OF(X509) * *list,
                                        struct rota_error *error)
{
    struct rota_buffer content = {0};
    BIO *bio;
    X509 *certificate;
    enum rota_code code = open_pem(path, &content, &bio, error);
    if (code)
        return code;

    STACK_OF(X509) *made = sk_X509_new_null();
    ERR_clear_error();
    while (made && (certificate = PEM_read_bio_X509(bio, NULL, refuse_password, NULL)))
        if (!sk_X509_push(made, certificate)) {
            X509_free(certificate);
            break;
        }
    /* The end of the file is an error to OpenSSL; a broken entry is another one. */
    bool is_whole = ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
    if (!made)
        code = no_memory(error);
    else if (!is_whole)
        code = rota_error_set(error, ROTA_ERR_INVALID, "%s: certificate %d of the file: %s", path,
                              sk_X509_num(made) + 1, openssl_reason());
    else if (sk_X509_num(made) == 0)
        code = refuse_file(path, "contains no PEM certificate", error);
    ERR_clear_error();
    close_pem(&content, bio);
    if (code)
        sk_X509_pop_free(made, X509_free);
    else
        *list = made;
    return code;
}

static enum rota_code read_key(const char *path, EVP_PKEY **key, struct rota_error *error)
{
    struct rota_buffer content = {0};
    BIO *bio;
    enum rota_code code = open_pem(path, &content, &bio, error);
    if (code)
        return code;
    ERR_clear_error();
    EVP_PKEY *made = PEM_read_bio_PrivateKey(bio, NULL, refuse_password, NULL);
    if (!made && content.size > 0 && memmem(content.data, content.size, "ENCRYPTED", 9))
        code = refuse_file(path, "the key needs a password, which is not supported", error);
    else if (!made)
        code = refuse_file(path, "contains no PEM private key", error);
    else
        code = rota_file_check_secret(path, true, error); /* a group that may read it is usual */
    if (code)
        EVP_PKEY_free(made);
    else
        *key = made;
    ERR_clear_error();
    close_pem(&content, bio);
    return code;
}

/* Put our certificate, its chain and the key into the context. */
static enum rota_code use_chain(const struct rota_tls *tls, struct rota_tls_material *material,
                                STACK_OF(X509) * chain, struct rota_error *error)
{
    EVP_PKEY *key = NULL;
    X509 *own = sk_X509_value(chain, 0);
    enum rota_code code = read_key(tls->key_file, &key, error);
    if (code)
        return code;
    if (!X509_check_private_key(own, key))
        code = rota_error_set(error, ROTA_ERR_INVALID,
                              "%s: the key does not belong to the certificate in %s", tls->key_file,
                              tls->certificate_file);
    else if (!SSL_CTX_use_certificate(material->context, own) ||
             !SSL_CTX_use_PrivateKey(material->context, key))
        code = refuse_file(tls->certificate_file, openssl_reason(), error);
    EVP_PKEY_free(key);
    for (int i = 0; i < sk_X509_num(chain) && !code; i++) {
        X509 *each = sk_X509_value(chain, i);
        rota_time from = moment_of(X509_get0_notBefore(each));
        rota_time until = moment_of(X509_get0_notAfter(each));
        if (i > 0 && !SSL_CTX_add1_chain_cert(material->context, each))
            code = refuse_file(tls->certificate_file, openssl_reason(), error);
        if (from > material->valid_from)
            material->valid_from = from;
        material->expires_at = rota_time_min(material->expires_at, until);
    }
    return code;
}

static enum rota_code load_own(const struct rota_tls *tls, struct rota_tls_material *material,
                               struct rota_error *error)
{
    STACK_OF(X509) *chain = NULL;
    if (!tls->certificate_file)
        return ROTA_OK;
    enum rota_code code = read_certificates(tls->certificate_file, &chain, error);
    if (!code)
        code = use_chain(tls, material, chain, error);
    sk_X509_pop_free(chain, X509_free);
    return code;
}

static enum rota_code load_trusted(const struct rota_tls *tls, SSL_CTX *context,
                                   struct rota_error *error)
{
    STACK_OF(X509) *list = NULL;
    if (!tls->ca_file) {
        if (!tls->is_server && !SSL_CTX_set_default_verify_paths(context))
            return rota_error_set(error, ROTA_ERR_IO, "cannot load the system's CAs: %s",
                                  openssl_reason());
        return ROTA_OK;
    }
    enum rota_code code = read_certificates(tls->ca_file, &list, error);
    if (!tls->is_server)
        X509_STORE_set_flags(SSL_CTX_get_cert_store(context), X509_V_FLAG_PARTIAL_CHAIN);
    for (int i = 0; i < sk_X509_num(list) && !code; i++)
        if (!X509_STORE_add_cert(SSL_CTX_get_cert_store(context), sk_X509_value(list, i)) ||
            (tls->is_server && !SSL_CTX_add_client_CA(context, sk_X509_value(list, i))))
            code = refuse_file(tls->ca_file, openssl_reason(), error);
    sk_X509_pop_free(list, X509_free);
    return code;
}

/* --- rules of every connection --- */

static int choose_protocol(SSL *ssl, const unsigned char **chosen, unsigned char *chosen_size,
                           const unsigned char *offered, unsigned offered_size, void *data)
{
    (void)ssl, (void)data;
    if (SSL_select_next_proto((unsigned char **)chosen, chosen_size, ALPN_H2, sizeof ALPN_H2,
                              offered, offered_size) != OPENSSL_NPN_NEGOTIATED)
        return SSL_TLSEXT_ERR_ALERT_FATAL;
    return SSL_TLSEXT_ERR_OK;
}

/* A client that offers no protocol at all never gets to choose_protocol(). */
static int demand_protocol(SSL *ssl, int *alert, void *data)
{
    const unsigned char *bytes;
    size_t size;
    (void)data;
    if (SSL_client_hello_get0_ext(ssl, TLSEXT_TYPE_application_layer_protocol_negotiation, &bytes,
                                  &size))
        return SSL_CLIENT_HELLO_SUCCESS;
    *alert = SSL_AD_NO_APPLICATION_PROTOCOL;
    return SSL_CLIENT_HELLO_ERROR;
}

static bool set_rules(const struct rota_tls *tls, SSL_CTX *context)
{
    int verify = tls->is_server && !tls->ca_file
                     ? SSL_VERIFY_NONE
                     : SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT;
    SSL_CTX_set_verify(context, verify, NULL);
    SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS);
    /* Connections live long, so there is nothing to win by resuming sessions. */
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_num_tickets(context, 0);
    SSL_CTX_set_options(context, SSL_OP_NO_TICKET | SSL_OP_NO_RENEGOTIATION |
                                     SSL_OP_NO_COMPRESSION | SSL_OP_CIPHER_SERVER_PREFERENCE);
    if (tls->is_server) {
        SSL_CTX_set_alpn_select_cb(context, choose_protocol, NULL);
        SSL_CTX_set_client_hello_cb(context, demand_protocol, NULL);
    } else if (SSL_CTX_set_alpn_protos(context, ALPN_H2, sizeof ALPN_H2)) {
        return false;
    }
    return SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION) &&
           SSL_CTX_set_cipher_list(context, CIPHERS_12);
}

static enum rota_code load_material(const struct rota_tls *tls, struct rota_tls_material *material,
                                    struct rota_error *error)
{
    struct rota_tls_material made = {.valid_from = ROTA_TIME_MIN, .expires_at = ROTA_TIME_NEVER};
    enum rota_code code = ROTA_OK;
    ERR_clear_error();
    made.context = SSL_CTX_new(tls->is_server ? TLS_server_method() : TLS_client_method());
    if (!made.context)
        return no_memory(error);
    if (!set_rules(tls, made.context))
        code = rota_error_set(error, ROTA_ERR_IO, "setting up TLS: %s", openssl_reason());
    if (!code)
        code = load_own(tls, &made, error);
    if (!code)
        code = load_trusted(tls, made.context, error);
    ERR_clear_error();
    if (code)
        SSL_CTX_free(made.context);
    else
        *material = made;
    return code;
}

/* --- content of files --- */

static bool copy_path(char **copy, const char *path)
{
    *copy = path ? strdup(path) : NULL;
    return *copy || !path;
}

static enum rota_code create_context(bool is_server, const struct rota_tls_options *options,
                                     struct rota_tls **tls, struct rota_error *error)
{
    if (!options->certificate_file != !options->key_file)
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "TLS needs a certificate and its key; only a %s is given",
                              options->key_file ? "key" : "certificate");
    if (is_server && !options->certificate_file)
        return rota_error_set(error, ROTA_ERR_INVALID, "a TLS server needs a certificate");

    enum rota_code code;
    struct rota_tls *made = calloc(1, sizeof *made);
    if (!made)
        return no_memory(error);
    made->is_server = is_server;
    if (!copy_path(&made->certificate_file, options->certificate_file) ||
        !copy_path(&made->key_file, options->key_file) ||
        !copy_path(&made->ca_file, options->ca_file))
        code = no_memory(error);
    else
        code = load_material(made, &made->material, error);
    if (code)
        rota_tls_free(made);
    else
        *tls = made;
    return code;
}

enum rota_code rota_tls_server_new(const struct rota_tls_options *options, struct rota_tls **tls,
                                   struct rota_error *error)
{
    return create_context(true, options, tls, error);
}

enum rota_code rota_tls_client_new(const struct rota_tls_options *options, struct rota_tls **tls,
                                   struct rota_error *error)
{
    return create_context(false, options, tls, error);
}

void rota_tls_free(struct rota_tls *tls)
{
    if (!tls)
        return;
    SSL_CTX_free(tls->material.context);
    free(tls->certificate_file);
    free(tls->key_file);
    free(tls->ca_file);
    free(tls);
}

enum rota_code rota_tls_reload(struct rota_tls *tls, struct rota_error *error)
{
    struct rota_tls_material fresh;
    enum rota_code code = load_material(tls, &fresh, error);
    if (code)
        return code;
    SSL_CTX_free(tls->material.context); /* sessions made with it keep it */
    tls->material = fresh;
    return ROTA_OK;
}

rota_time rota_tls_expires_at(const struct rota_tls *tls)
{
    return tls->material.expires_at;
}

bool rota_tls_is_for(const struct rota_tls *tls, const char *host)
{
    X509 *own = SSL_CTX_get0_certificate(tls->material.context);
    return own && (X509_check_ip_asc(own, host, 0) == 1 ||
                   X509_check_host(own, host, 0, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS, NULL) == 1);
}

bool rota_tls_has_warning(const struct rota_tls *tls, rota_time now, struct rota_error *warning)
{
    const struct rota_tls_material *material = &tls->material;
    char moment[ROTA_TIME_TEXT_MAX];
    const char *what;
    rota_time soon = rota_time_add(now, ROTA_TLS_EXPIRY_WARN_DAYS * ROTA_DAY);
    if (now < material->valid_from)
        what = "is not valid before";
    else if (now >= material->expires_at)
        what = "expired at";
    else if (soon >= material->expires_at)
        what = "will expire at";
    else
        return false;
    rota_time_format(now < material->valid_from ? material->valid_from : material->expires_at,
                     moment);
    rota_error_set(warning, ROTA_ERR_INVALID, "%s: the certificate %s %s", tls->certificate_file,
                   what, moment);
    return true;
}
