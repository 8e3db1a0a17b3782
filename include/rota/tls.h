/* TLS for channels and servers: our certificate, and the trusted CAs.
 *
 * A `rota_tls` is read from files: our certificate and key, and the trusted CAs. It can be
 * reloaded; connections made with the older files continue.
 *
 * Both sides require TLS 1.2 or later and "h2" by ALPN; a client always verifies the server's name.
 * Verification cannot be turned off. */
#pragma once

#include <rota/error.h>
#include <rota/time.h>
#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

struct rota_tls;

enum {
    ROTA_TLS_FILE_MAX = 1 << 20, /* bytes of a file of certificates or keys */
    ROTA_TLS_EXPIRY_WARN_DAYS = 14,
};

/* All files are PEM. The strings are copied. */
struct rota_tls_options {
    /* Our certificate, followed by the intermediate ones, and its key. A server needs them; a
     * client has both or none. A key file that everyone can read or change is rejected; access by
     * its group is allowed. */
    const char *certificate_file;
    const char *key_file;

    /* The trusted CAs. A client without this file trusts the system's CAs. A server with it
     * requires a certificate from every client (mutual TLS); a server without it requests none.
     * A client trusts each certificate in the file by itself, whether it is a CA's or a server's
     * own. */
    const char *ca_file;

    void *reserved[4]; /* must be zero; room for future options */
};

/* Read the files for a server, or for a client. Give `*tls`; free it with rota_tls_free(). An
 * expired certificate is not an error here: see rota_tls_has_warning(). */
enum rota_code rota_tls_server_new(const struct rota_tls_options *options, struct rota_tls **tls,
                                   struct rota_error *error);
enum rota_code rota_tls_client_new(const struct rota_tls_options *options, struct rota_tls **tls,
                                   struct rota_error *error);

/* Takes `tls`, which may be NULL. Connections made with it continue. */
void rota_tls_free(struct rota_tls *tls);

/* Reads the files again, for new connections. On an error the former files stay in use. */
enum rota_code rota_tls_reload(struct rota_tls *tls, struct rota_error *error);

/* When the first certificate of our chain expires, on the wall clock; ROTA_TIME_NEVER for a client
 * without one. */
rota_time rota_tls_expires_at(const struct rota_tls *tls);

/* Whether our certificate is valid for this name, or for this IP address as text. */
bool rota_tls_is_for(const struct rota_tls *tls, const char *host);

/* Whether our certificate is expired, not yet valid, or about to expire at `now` (wall clock). If
 * so, `warning`, which may be NULL, says which. */
bool rota_tls_has_warning(const struct rota_tls *tls, rota_time now, struct rota_error *warning);

#ifdef __cplusplus
}
#endif
