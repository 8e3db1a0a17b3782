/* Rota's side of the tests of interoperation: the service of interop.proto, and
 * the list of checks that every client makes of every server.
 *
 *     peer serve ADDRESS [DIRECTORY]     prints "ready ADDRESS"; SIGTERM drains
 *     peer check ADDRESS [DIRECTORY]     all checks, as TAP
 *     peer survive ADDRESS [DIRECTORY]   calls on while the server is replaced
 *
 * DIRECTORY has ca.pem, cert.pem and key.pem, and means TLS. The peers in other
 * languages are called in the same way. */
#pragma once

#include <rota/rota.h>
#include <uv.h>

#define PEER_METHOD(name) "/rota.test.v1.Interop/" name

/* Serve until SIGTERM and return the program's status. */
int peer_serve(uv_loop_t *loop, const char *address, struct rota_tls *tls);

/* Run the checks and return how many failed. */
int peer_check(uv_loop_t *loop, const char *address, struct rota_tls *tls);
int peer_survive(uv_loop_t *loop, const char *address, struct rota_tls *tls);
