#include "io/net/tls_inside.h"

#include "base/quote.h"

#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <stdlib.h>

struct rota_tls_session {
    SSL *ssl;
    bool is_server;
    bool has_failed;                     /* OpenSSL must no longer be called */
    int first_byte;                      /* the peer's, to detect one without TLS; -1: none */
    struct rota_str in;                  /* fed and not yet used up */
    struct rota_buffer *out;             /* during a call */
    char *host;                          /* the name to verify; NULL at a server */
    char refused[ROTA_TLS_IDENTITY_MAX]; /* the subject of the rejected certificate */
};

/* --- certificates as text --- */

/* Append printable characters; the rest becomes question marks. */
static void append_printable(char text[ROTA_TLS_IDENTITY_MAX], const void *bytes, size_t size)
{
    const char *from = bytes;
    size_t used = strlen(text);
    for (size_t i = 0; i < size && used < ROTA_TLS_IDENTITY_MAX - 1; i++)
        text[used++] = from[i] > ' ' && from[i] <= '~' ? from[i] : '?';
    text[used] = '\0';
}

static void append_label(char text[ROTA_TLS_IDENTITY_MAX], const char *label)
{
    size_t used = strlen(text);
    if (used > 0 && used < ROTA_TLS_IDENTITY_MAX - 1) {
        text[used] = ' ';
        text[used + 1] = '\0';
    }
    append_printable(text, label, strlen(label));
}

static void append_subject(char text[ROTA_TLS_IDENTITY_MAX], X509 *certificate)
{
    char name[ROTA_TLS_IDENTITY_MAX];
    int size = X509_NAME_get_text_by_NID(X509_get_subject_name(certificate), NID_commonName, name,
                                         sizeof name);
    if (size <= 0)
        return;
    append_label(text, "CN=");
    append_printable(text, name, (size_t)size);
}

static void append_ip(char text[ROTA_TLS_IDENTITY_MAX], const ASN1_OCTET_STRING *ip)
{
    int family = ASN1_STRING_length(ip) == 4 ? AF_INET : AF_INET6;
    char shown[INET6_ADDRSTRLEN];
    if (ASN1_STRING_length(ip) != 4 && ASN1_STRING_length(ip) != 16)
        return;
    if (!inet_ntop(family, ASN1_STRING_get0_data(ip), shown, sizeof shown))
        return;
    append_label(text, "IP:");
    append_printable(text, shown, strlen(shown));
}

static void append_names(char text[ROTA_TLS_IDENTITY_MAX], X509 *certificate)
{
    GENERAL_NAMES *names = X509_get_ext_d2i(certificate, NID_subject_alt_name, NULL, NULL);
    for (int i = 0; i < sk_GENERAL_NAME_num(names); i++) {
        int type;
        const ASN1_STRING *value = GENERAL_NAME_get0_value(sk_GENERAL_NAME_value(names, i), &type);
        if (type == GEN_IPADD) {
            append_ip(text, value);
        } else if (type == GEN_DNS || type == GEN_URI) {
            append_label(text, type == GEN_DNS ? "DNS:" : "URI:");
            append_printable(text, ASN1_STRING_get0_data(value), (size_t)ASN1_STRING_length(value));
        }
    }
    GENERAL_NAMES_free(names);
}

static char *describe_peer(X509 *certificate, char text[ROTA_TLS_IDENTITY_MAX])
{
    text[0] = '\0';
    if (certificate) {
        append_subject(text, certificate);
        append_names(text, certificate);
    }
    return text;
}

/* Decides nothing; remembers the rejected certificate. */
static int on_verify(int passes, X509_STORE_CTX *store)
{
    SSL *ssl = X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx());
    struct rota_tls_session *session = SSL_get_app_data(ssl);
    if (!passes && session && !session->refused[0])
        describe_peer(X509_STORE_CTX_get0_cert(store), session->refused);
    return passes;
}

/* --- bytes to and from OpenSSL --- */

static int bio_read(BIO *bio, char *to, int capacity)
{
    struct rota_tls_session *session = BIO_get_data(bio);
    size_t size = session->in.size < (size_t)capacity ? session->in.size : (size_t)capacity;
    BIO_clear_retry_flags(bio);
    if (size == 0) {
        BIO_set_retry_read(bio);
        return -1;
    }
    memcpy(to, session->in.data, size);
    session->in = rota_str_of(session->in.data + size, session->in.size - size);
    return (int)size;
}

static int bio_write(BIO *bio, const char *from, int size)
{
    struct rota_tls_session *session = BIO_get_data(bio);
    BIO_clear_retry_flags(bio);
    rota_buffer_append(session->out, from, (size_t)size);
    return session->out->failed ? -1 : size;
}

static long bio_control(BIO *bio, int command, long number, void *pointer)
{
    (void)bio, (void)number, (void)pointer;
    return command == BIO_CTRL_FLUSH;
}

static BIO_METHOD *bio_method;

static void make_bio_method(void)
{
    BIO_METHOD *made = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "rota stream");
    if (made && BIO_meth_set_read(made, bio_read) && BIO_meth_set_write(made, bio_write) &&
        BIO_meth_set_ctrl(made, bio_control))
        bio_method = made;
}

/* OpenSSL reads directly from the input and writes directly to the output: its own BIOs in
 * memory would copy both once more. */
static bool attach_bios(struct rota_tls_session *session)
{
    static CRYPTO_ONCE once = CRYPTO_ONCE_STATIC_INIT;
    if (!CRYPTO_THREAD_run_once(&once, make_bio_method) || !bio_method)
        return false;
    BIO *bio = BIO_new(bio_method);
    if (!bio)
        return false;
    BIO_set_data(bio, session);
    BIO_set_init(bio, 1);
    SSL_set_bio(session->ssl, bio, bio);
    return true;
}

/* --- errors --- */

enum { ALERT_BASE = SSL_AD_REASON_OFFSET }; /* OpenSSL's reason for an alert of the peer */

static const struct {
    int reason;
    const char *sentence;
} known_reasons[] = {
    {ALERT_BASE + SSL_AD_HANDSHAKE_FAILURE,
     "the peer rejected the TLS handshake; does it require a client certificate?"},
    {ALERT_BASE + SSL_AD_BAD_CERTIFICATE, "the peer rejected our certificate as invalid"},
    {ALERT_BASE + SSL_AD_CERTIFICATE_REVOKED, "the peer rejected our certificate as revoked"},
    {ALERT_BASE + SSL_AD_CERTIFICATE_EXPIRED, "the peer rejected our certificate as expired"},
    {ALERT_BASE + SSL_AD_CERTIFICATE_UNKNOWN, "the peer rejected our certificate"},
    {ALERT_BASE + SSL_AD_UNKNOWN_CA, "the peer does not trust the CA of our certificate"},
    {ALERT_BASE + SSL_AD_PROTOCOL_VERSION,
     "the peer supports no TLS version that this side supports"},
    {ALERT_BASE + TLS13_AD_CERTIFICATE_REQUIRED,
     "the peer requires a certificate, and this side sent none"},
    {ALERT_BASE + SSL_AD_NO_APPLICATION_PROTOCOL, "the peer does not speak h2 (ALPN)"},
    {SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE, "the peer sent no certificate"},
    {SSL_R_NO_APPLICATION_PROTOCOL, "the peer does not offer h2 (ALPN)"},
    {SSL_R_CALLBACK_FAILED, "the peer does not offer h2 (ALPN)"},
    {SSL_R_UNSUPPORTED_PROTOCOL, "the peer does not support TLS 1.2 or later"},
    {SSL_R_NO_SHARED_CIPHER, "the peer and this side have no cipher in common"},
};

static enum rota_code explain_verify(const struct rota_tls_session *session, long result,
                                     struct rota_error *error)
{
    const char *who = session->refused[0] ? session->refused : "no name";
    const char *why = X509_verify_cert_error_string(result);
    switch (result) {
    case X509_V_ERR_HOSTNAME_MISMATCH:
    case X509_V_ERR_IP_ADDRESS_MISMATCH:
        return rota_error_set(error, ROTA_ERR_IO, "the peer's certificate is for %s, not for %s",
                              who, session->host);
    case X509_V_ERR_CERT_HAS_EXPIRED:
        why = "it has expired";
        break;
    case X509_V_ERR_CERT_NOT_YET_VALID:
        why = "it is not valid yet";
        break;
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
        why = "it is not signed by a trusted CA";
        break;
    }
    return rota_error_set(error, ROTA_ERR_IO, "the peer's certificate, for %s, is rejected: %s",
                          who, why);
}

/* Describe the failure of the last call. `what` was being done. A rejection by the peer is
 * ROTA_ERR_INVALID: a retry would give the same, and the peer has read nothing else. */
static enum rota_code explain_failure(struct rota_tls_session *session, const char *what,
                                      struct rota_error *error)
{
    int reason = ERR_GET_REASON(ERR_peek_error());
    const char *text = ERR_reason_error_string(ERR_peek_error());
    long verified = SSL_get_verify_result(session->ssl);
    session->has_failed = true;
    session->in = rota_str("");
    if (session->out->failed)
        return rota_error_set(error, ROTA_ERR_NO_MEMORY, "%s: not enough memory", what);
    if (reason == SSL_R_CERTIFICATE_VERIFY_FAILED && verified != X509_V_OK)
        return explain_verify(session, verified, error);
    for (size_t i = 0; i < sizeof known_reasons / sizeof known_reasons[0]; i++)
        if (known_reasons[i].reason == reason)
            return rota_error_set(error, reason > ALERT_BASE ? ROTA_ERR_INVALID : ROTA_ERR_IO, "%s",
                                  known_reasons[i].sentence);
    return rota_error_set(error, ROTA_ERR_IO, "%s: %s", what, text ? text : "aborted");
}

/* --- one connection --- */

/* Whom the server must be: by its certificate, and by the name in our hello. */
static bool set_host(struct rota_tls_session *session, const char *host)
{
    size_t size = strlen(host);
    X509_VERIFY_PARAM *rules = SSL_get0_param(session->ssl);
    if (size > 1 && host[size - 1] == '.') /* the root, which certificates leave out */
        size--;
    /* OpenSSL takes no name for any name, and one after a dot for all below it. */
    if (size == 0 || host[0] == '.')
        return false;
    session->host = strndup(host, size);
    if (!session->host)
        return false;
    if (X509_VERIFY_PARAM_set1_ip_asc(rules, session->host))
        return true;
    X509_VERIFY_PARAM_set_hostflags(rules, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    return X509_VERIFY_PARAM_set1_host(rules, session->host, 0) &&
           SSL_set_tlsext_host_name(session->ssl, session->host);
}

enum rota_code rota_tls_session_new(const struct rota_tls *tls, const char *host,
                                    struct rota_tls_session **session, struct rota_error *error)
{
    char quoted[ROTA_QUOTE_MAX];
    if (tls->is_server != !host)
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "the TLS settings of a %s cannot be used by a %s",
                              host ? "server" : "client", host ? "client" : "server");
    struct rota_tls_session *made = calloc(1, sizeof *made);
    if (!made)
        return rota_error_no_memory(error, "for TLS");
    ERR_clear_error();
    made->is_server = tls->is_server;
    made->first_byte = -1;
    made->ssl = SSL_new(tls->material.context);
    if (!made->ssl || !attach_bios(made))
        goto fail;
    SSL_set_app_data(made->ssl, made);
    SSL_set_verify(made->ssl, SSL_get_verify_mode(made->ssl), on_verify);
    if (tls->is_server)
        SSL_set_accept_state(made->ssl);
    else
        SSL_set_connect_state(made->ssl);
    if (host && !set_host(made, host))
        goto fail;
    *session = made;
    return ROTA_OK;

fail:
    ERR_clear_error();
    rota_tls_session_free(made);
    if (!host)
        return rota_error_no_memory(error, "for a TLS connection");
    return rota_error_set(error, ROTA_ERR_INVALID, "TLS: %s is not a verifiable name",
                          rota_quote(rota_str(host), quoted));
}

void rota_tls_session_free(struct rota_tls_session *session)
{
    if (!session)
        return;
    SSL_free(session->ssl);
    free(session->host);
    free(session);
}

void rota_tls_session_feed(struct rota_tls_session *session, struct rota_str bytes)
{
    if (session->first_byte < 0 && bytes.size > 0)
        session->first_byte = (unsigned char)bytes.data[0];
    session->in = bytes;
}

/* The first record of a TLS peer is of its handshake, or an alert. */
static bool is_plain_text(const struct rota_tls_session *session)
{
    return session->first_byte >= 0 && session->first_byte != SSL3_RT_HANDSHAKE &&
           session->first_byte != SSL3_RT_ALERT;
}

static enum rota_code refuse_plain_text(struct rota_tls_session *session, struct rota_error *error)
{
    static const char alert[] = {SSL3_RT_ALERT,           3, 1, 0, 2, SSL3_AL_FATAL,
                                 TLS1_AD_PROTOCOL_VERSION};
    session->has_failed = true;
    session->in = rota_str("");
    /* A Rota client knows the cause by this alert. */
    if (session->is_server)
        rota_buffer_append(session->out, alert, sizeof alert);
    return rota_error_set(error, ROTA_ERR_IO, "the peer speaks plaintext, but this side uses TLS");
}

static enum rota_code check_protocol(struct rota_tls_session *session, struct rota_error *error)
{
    const unsigned char *name;
    unsigned size;
    SSL_get0_alpn_selected(session->ssl, &name, &size);
    if (size == 2 && memcmp(name, "h2", 2) == 0)
        return ROTA_OK;
    session->has_failed = true;
    return rota_error_set(error, ROTA_ERR_IO, "the peer did not agree on h2 (ALPN)");
}

enum rota_code rota_tls_session_handshake(struct rota_tls_session *session, struct rota_buffer *out,
                                          bool *done, struct rota_error *error)
{
    session->out = out;
    if (is_plain_text(session))
        return refuse_plain_text(session, error);
    ERR_clear_error();
    int result = SSL_do_handshake(session->ssl);
    if (result == 1) {
        enum rota_code code = check_protocol(session, error);
        if (!code)
            *done = true;
        return code;
    }
    if (SSL_get_error(session->ssl, result) != SSL_ERROR_WANT_READ)
        return explain_failure(session, "TLS handshake", error);
    *done = false;
    return ROTA_OK;
}

enum rota_code rota_tls_session_read(struct rota_tls_session *session, char *plain, size_t capacity,
                                     size_t *size, bool *ended, struct rota_buffer *out,
                                     struct rota_error *error)
{
    session->out = out;
    ERR_clear_error();
    int result = SSL_read_ex(session->ssl, plain, capacity, size);
    if (result == 1) {
        *ended = false;
        return ROTA_OK;
    }
    int why = SSL_get_error(session->ssl, result);
    if (why != SSL_ERROR_WANT_READ && why != SSL_ERROR_ZERO_RETURN)
        return explain_failure(session, "TLS", error);
    *size = 0;
    *ended = why == SSL_ERROR_ZERO_RETURN;
    return ROTA_OK;
}

enum rota_code rota_tls_session_write(struct rota_tls_session *session, struct rota_str plain,
                                      struct rota_buffer *out, struct rota_error *error)
{
    size_t written;
    session->out = out;
    ERR_clear_error();
    if (session->has_failed)
        return rota_error_set(error, ROTA_ERR_IO, "TLS has failed before");
    if (plain.size > 0 && !SSL_write_ex(session->ssl, plain.data, plain.size, &written))
        return explain_failure(session, "TLS", error);
    return ROTA_OK;
}

void rota_tls_session_finish(struct rota_tls_session *session, struct rota_buffer *out)
{
    session->out = out;
    ERR_clear_error();
    if (!session->has_failed)
        SSL_shutdown(session->ssl);
    ERR_clear_error();
}

char *rota_tls_session_identity(const struct rota_tls_session *session,
                                char text[ROTA_TLS_IDENTITY_MAX])
{
    return describe_peer(SSL_get0_peer_certificate(session->ssl), text);
}

/* Compares the text as it is: no wildcards, no case folding, and no name with a NUL inside. */
static bool is_text(const ASN1_STRING *text, const char *name)
{
    return (size_t)ASN1_STRING_length(text) == strlen(name) &&
           memcmp(ASN1_STRING_get0_data(text), name, strlen(name)) == 0;
}

static bool has_alternative_name(X509 *certificate, const char *name)
{
    bool is_found = false;
    GENERAL_NAMES *names = X509_get_ext_d2i(certificate, NID_subject_alt_name, NULL, NULL);
    for (int i = 0; !is_found && i < sk_GENERAL_NAME_num(names); i++) {
        const GENERAL_NAME *one = sk_GENERAL_NAME_value(names, i);
        is_found = one->type == GEN_DNS && is_text(one->d.dNSName, name);
    }
    GENERAL_NAMES_free(names);
    return is_found;
}

bool rota_tls_session_is_named(const struct rota_tls_session *session, const char *name)
{
    X509 *certificate = SSL_get0_peer_certificate(session->ssl);
    if (!certificate)
        return false;
    X509_NAME *subject = X509_get_subject_name(certificate);
    for (int i = -1; (i = X509_NAME_get_index_by_NID(subject, NID_commonName, i)) >= 0;)
        if (is_text(X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, i)), name))
            return true;
    return has_alternative_name(certificate, name);
}
