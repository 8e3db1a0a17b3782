/* stream: server-sent events, for live pages.
 *
 * A *topic* is a document, such as all queues (topics.h); while a client listens, each topic is
 * read once per second and sent to clients that do not have its current version. Events are sent
 * as they happen, by number; a browser that reconnects sends the last number it has seen and
 * gets what it missed. A client that does not read is disconnected, and reconnects. */
#pragma once

#include "base/buffer.h"
#include "io/net/http.h"

#include <rota/time.h>

struct rota_node;
struct rota_streams;

#define ROTA_STREAM_EVERY ROTA_SEC
#define ROTA_STREAM_SIGN  (10 * ROTA_SEC) /* of a keepalive, if there is nothing else to send */

enum { ROTA_STREAMS_MAX = 256 }; /* clients at one time */

/* Gives `*streams`; rota_api_stream_close() ends it, before the node's HTTP server is closed. */
enum rota_code rota_api_stream_open(struct rota_node *node, struct rota_streams **streams,
                                    struct rota_error *error);
void rota_api_stream_close(struct rota_streams *streams); /* accepts NULL */

size_t rota_api_stream_n_clients(const struct rota_streams *streams);
