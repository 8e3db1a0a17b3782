/* TLS for streams: who we are, whom we believe, and the bytes in between.
 *
 * A `rota_tls` is the part that comes from files: our certificate and key, and
 * the authorities (CAs) we trust. It can be read again while connections that
 * were made with the older files live on. A `rota_tls_session` is one
 * connection's part; it does no I/O of its own: the stream gives it what came
 * from the peer and sends what it asks to send.
 *
 * Both sides insist on TLS 1.2 or later and on "h2" by ALPN; a client always
 * verifies the server's name. There is no way to turn verification off. */
#pragma once

#include "base/buffer.h"

#include <rota/error.h>
#include <rota/time.h>

struct rota_tls;
struct rota_tls_session;

enum {
    ROTA_TLS_FILE_MAX = 1 << 20, /* bytes in a file of certificates or keys */
    ROTA_TLS_IDENTITY_MAX = 256, /* bytes of a peer's identity as text, with its NUL */
    ROTA_TLS_EXPIRY_WARN_DAYS = 14,
};

/* All in PEM. The texts are copied. */
struct rota_tls_options {
    /* Our certificate, then those between it and the CA; and its key. A server
     * needs them, a client has both or none. */
    const char *certificate_file;
    const char *key_file;

    /* Whom we believe. A client without it trusts what the system trusts. A
     * server with it demands a certificate from every client (mutual TLS), a
     * server without it asks for none. */
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

/* Is our certificate expired, not valid yet, or about to expire at the moment
 * `now` of the wall clock? Then `warning` says so; it may be NULL. */
bool rota_tls_has_warning(const struct rota_tls *tls, rota_time now, struct rota_error *warning);

/* --- one connection: for io/stream.c alone --- */

/* Gives `*session`; rota_tls_session_free() ends it. `host` is the name or the
 * IP address the server's certificate must be made for; NULL at a server. */
enum rota_code rota_tls_session_new(const struct rota_tls *tls, const char *host,
                                    struct rota_tls_session **session, struct rota_error *error);
void rota_tls_session_free(struct rota_tls_session *session);

/* Bytes came from the peer. They are kept until a later handshake or read
 * asked for more, and must all be used up so before the next are given. */
void rota_tls_session_feed(struct rota_tls_session *session, struct rota_str bytes);

/* Go on with the handshake; `*done` says that it is through. What has to go to
 * the peer, an alert on failure included, is appended to `out`. */
enum rota_code rota_tls_session_handshake(struct rota_tls_session *session, struct rota_buffer *out,
                                          bool *done, struct rota_error *error);

/* Read at most `capacity` bytes into `plain`; `*size` 0 means that more must be
 * fed first, or that the peer has ended when `*ended` is set. */
enum rota_code rota_tls_session_read(struct rota_tls_session *session, char *plain, size_t capacity,
                                     size_t *size, bool *ended, struct rota_buffer *out,
                                     struct rota_error *error);

/* Append `plain` to `out` as the peer shall get it. */
enum rota_code rota_tls_session_write(struct rota_tls_session *session, struct rota_str plain,
                                      struct rota_buffer *out, struct rota_error *error);

/* Append our goodbye to `out`. */
void rota_tls_session_finish(struct rota_tls_session *session, struct rota_buffer *out);

/* The peer's certificate as text for logs, its subject and its names, cut if
 * too long, in printable ASCII; "" when it showed none. Returns `text`. */
char *rota_tls_session_identity(const struct rota_tls_session *session,
                                char text[ROTA_TLS_IDENTITY_MAX]);
