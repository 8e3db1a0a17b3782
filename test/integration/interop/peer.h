/* Rota's side of the tests of interoperation: the service of interop.proto, and
 * the list of checks that every client makes of every server.
 *
 *     peer serve ADDRESS DIRECTORY            prints "ready ADDRESS"; SIGTERM drains
 *     peer check ADDRESS DIRECTORY [WHAT...]  all checks, as TAP
 *     peer survive ADDRESS DIRECTORY [WHAT...]
 *                                             calls on while the server is replaced
 *
 * DIRECTORY has ca.pem, cert.pem and key.pem for TLS; "-" means plain text. WHAT
 * the server has of its own: chat, health, reflection, gzip (it refuses that),
 * cancels (as gRPC's in C++ does: when it begins to shut down, it answers calls
 * that just arrive with CANCELLED, whichever the client), drops (as gRPC's for Node
 * does on a Node before 20: it ends connections with calls in flight when it
 * drains, whichever the client). `survive` prints
 * "holding" when its server may go, and ends when it reads a line.
 *
 * The peers in other languages are called in the same way. */
#pragma once

#include <rota/experimental/rota.h>
#include <uv.h>

#define PEER_SERVICE      "rota.test.v1.Interop"
#define PEER_METHOD(name) "/" PEER_SERVICE "/" name

/* Each returns the program's status. `what` ends with a NULL. */
int peer_serve(uv_loop_t *loop, const char *address, struct rota_tls *tls, char **what);
int peer_check(uv_loop_t *loop, const char *address, struct rota_tls *tls, char **what);
int peer_survive(uv_loop_t *loop, const char *address, struct rota_tls *tls, char **what);
