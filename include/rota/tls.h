/* TLS for channels and servers: who we are, and whom we believe.
 *
 * A `rota_tls` is what comes from files: our certificate and key, and the
 * authorities (CAs) we trust. It can be read again while connections that were
 * made with the older files live on.
 *
 * Both sides insist on TLS 1.2 or later and on "h2" by ALPN; a client always
 * verifies the server's name. There is no way to turn verification off. */
#pragma once

#include <rota/error.h>
#include <rota/time.h>
#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

struct rota_tls;

enum {
    ROTA_TLS_FILE_MAX = 1 << 20, /* bytes in a file of certificates or keys */
    ROTA_TLS_EXPIRY_WARN_DAYS = 14,
};

/* All in PEM. The texts are copied. */
struct rota_tls_options {
    /* Our certificate, then those between it and the CA; and its key. A server
     * needs them, a client has both or none. A key that everybody can read or change is
     * refused; the group of its file may. */
    const char *certificate_file;
    const char *key_file;

    /* Whom we believe. A client without it trusts what the system trusts. A
     * server with it demands a certificate from every client (mutual TLS), a
     * server without it asks for none. A client believes each certificate in it by
     * itself, be it an authority's or a server's own. */
    const char *ca_file;
};

/* Read the files for the side that listens, or the side that connects. Gives
 * `*tls`; rota_tls_free() ends it. An expired certificate is no error here: see
 * rota_tls_has_warning(). */
enum rota_code rota_tls_server_new(const struct rota_tls_options *options, struct rota_tls **tls,
                                   struct rota_error *error);
enum rota_code rota_tls_client_new(const struct rota_tls_options *options, struct rota_tls **tls,
                                   struct rota_error *error);

/* Takes `tls`, which may be NULL. Connections made with it live on. */
void rota_tls_free(struct rota_tls *tls);

/* Read the files again, for the connections to come. On any error what was
 * read before stays in use. */
enum rota_code rota_tls_reload(struct rota_tls *tls, struct rota_error *error);

/* When the first certificate of our chain runs out, on the wall clock;
 * ROTA_TIME_NEVER for a client without one. */
rota_time rota_tls_expires_at(const struct rota_tls *tls);

/* Is our certificate for this name, or for this IP address in text? */
bool rota_tls_is_for(const struct rota_tls *tls, const char *host);

/* Is our certificate expired, not valid yet, or about to expire at the moment
 * `now` of the wall clock? Then `warning` says so; it may be NULL. */
bool rota_tls_has_warning(const struct rota_tls *tls, rota_time now, struct rota_error *warning);

#ifdef __cplusplus
}
#endif
