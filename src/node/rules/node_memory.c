#include "node/rules/node_memory.h"

static uint64_t at_least(uint64_t bytes, uint64_t min)
{
    return bytes > min ? bytes : min;
}

struct rota_node_memory rota_node_memory_split(uint64_t memory)
{
    uint64_t requests = memory / 8;
    return (struct rota_node_memory){
        .jobs = memory - requests,
        .grpc = at_least(requests - requests / 8, ROTA_NODE_GRPC_MIN),
        .http = at_least(requests / 8, ROTA_NODE_HTTP_MIN),
    };
}
