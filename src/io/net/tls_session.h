/* One connection's part of TLS: private to io/net/stream.c.
 *
 * It does no I/O: the stream passes input to it and sends its output. */
#pragma once

#include "base/buffer.h"

#include <rota/tls.h>

struct rota_tls_session;

enum { ROTA_TLS_IDENTITY_MAX = 256 }; /* bytes of a peer's identity as text, with its NUL */

/* Gives `*session`; rota_tls_session_free() ends it. `host` is the name or the
 * IP address the server's certificate must be made for; NULL at a server. */
enum rota_code rota_tls_session_new(const struct rota_tls *tls, const char *host,
                                    struct rota_tls_session **session, struct rota_error *error);
void rota_tls_session_free(struct rota_tls_session *session);

/* Input from the peer. The bytes are kept until a later handshake or read asks for more, and
 * must all be used up before the next are passed. */
void rota_tls_session_feed(struct rota_tls_session *session, struct rota_str bytes);

/* Continue the handshake; `*done` says that it is complete. Output for the peer, an alert on
 * failure included, is appended to `out`. */
enum rota_code rota_tls_session_handshake(struct rota_tls_session *session, struct rota_buffer *out,
                                          bool *done, struct rota_error *error);

/* Read at most `capacity` bytes into `plain`; `*size` 0 means that more must be
 * fed first, or that the peer has ended when `*ended` is set. */
enum rota_code rota_tls_session_read(struct rota_tls_session *session, char *plain, size_t capacity,
                                     size_t *size, bool *ended, struct rota_buffer *out,
                                     struct rota_error *error);

/* Append `plain` to `out`, encrypted for the peer. */
enum rota_code rota_tls_session_write(struct rota_tls_session *session, struct rota_str plain,
                                      struct rota_buffer *out, struct rota_error *error);

/* Append our goodbye to `out`. */
void rota_tls_session_finish(struct rota_tls_session *session, struct rota_buffer *out);

/* The peer's certificate as text for logs, its subject and its names, cut if
 * too long, in printable ASCII; "" when it showed none. Returns `text`. */
char *rota_tls_session_identity(const struct rota_tls_session *session,
                                char text[ROTA_TLS_IDENTITY_MAX]);

/* Did the peer show a certificate with this very name, as its common name or as an alternative
 * DNS name? */
bool rota_tls_session_is_named(const struct rota_tls_session *session, const char *name);
