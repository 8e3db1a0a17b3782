/* stream: server-sent events, for pages that live.
 *
 * A *topic* is a document, such as all queues (topics.h); while anybody listens each topic is
 * looked at once per second and sent to those who have not got it as it is now. What has happened
 * comes as it happens, by its number; a browser that reconnects says the last number it has seen
 * and gets what it missed. A client that does not read is cut off, and comes back. */
#pragma once

#include "base/buffer.h"
#include "io/http.h"

#include <rota/time.h>

struct rota_api_call;
struct rota_node;
struct rota_streams;

#define ROTA_STREAM_EVERY ROTA_SEC
#define ROTA_STREAM_SIGN  (10 * ROTA_SEC) /* of life, when there is nothing else */

enum { ROTA_STREAMS_MAX = 256 }; /* clients at one time */

/* Gives `*streams`; rota_streams_close() ends it, before the node's HTTP server is closed. */
enum rota_code rota_streams_open(struct rota_node *node, struct rota_streams **streams,
                                 struct rota_error *error);
void rota_streams_close(struct rota_streams *streams); /* accepts NULL */

/* Answer a request with a stream. */
void rota_api_stream(struct rota_api_call *call);

size_t rota_streams_n_clients(const struct rota_streams *streams);
