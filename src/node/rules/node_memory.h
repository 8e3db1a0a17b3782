/* node_memory: how a node divides the bytes that its setting `memory` allows.
 *
 * An eighth is for requests and replies in flight, most of it over gRPC; the rest is for jobs.
 * Both kinds of requests get enough for one of the largest, even if `memory` is small. */
#pragma once

#include <stdint.h>

enum {
    ROTA_NODE_GRPC_MIN = 48 << 20, /* a request of 20 MiB fits in the half that is for anyone */
    ROTA_NODE_HTTP_MIN = 4 << 20,  /* of 1 MiB each */
};

struct rota_node_memory {
    uint64_t jobs, grpc, http;
};

struct rota_node_memory rota_node_memory_split(uint64_t memory);
