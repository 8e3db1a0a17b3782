#include "cli/call/collection_options.h"

#include "io/net/address.h"

#include <stdlib.h>

void rota_collection_options_nodes_deinit(struct rota_collection_nodes *nodes)
{
    free(nodes->text);
    rota_tls_free(nodes->tls);
    *nodes = (struct rota_collection_nodes){0};
}

static enum rota_code split(struct rota_collection_nodes *nodes, struct rota_error *error)
{
    struct rota_address parsed;
    enum rota_code code;
    for (char *rest = nodes->text, *address; (address = strsep(&rest, ","));) {
        if (nodes->size == ROTA_SHARDS_DIRECTORIES_MAX)
            return rota_error_set(error, ROTA_ERR_LIMIT, "--node has more than %d addresses",
                                  ROTA_SHARDS_DIRECTORIES_MAX);
        if ((code = rota_address_parse(address, &parsed, error)))
            return code;
        nodes->items[nodes->size++] = address;
    }
    return ROTA_OK;
}

enum rota_code rota_collection_options_check(const struct rota_collection_options *options,
                                             struct rota_collection_nodes *nodes,
                                             struct rota_error *error)
{
    const char *node = rota_cli_node(options->node);
    struct rota_collection_nodes made = {0};
    if (!*node)
        return rota_error_set(error, ROTA_ERR_INVALID, "--node must not be empty");
    if (!*options->collection)
        return rota_error_set(error, ROTA_ERR_INVALID, "no collection given: use --collection");
    made.text = strdup(node);
    if (!made.text)
        return rota_error_no_memory(error, "for the addresses");
    enum rota_code code = split(&made, error);
    if (!code)
        code = rota_tls_options_open(&options->tls, &made.tls, error);
    if (code) {
        rota_collection_options_nodes_deinit(&made);
        return code;
    }
    *nodes = made;
    return ROTA_OK;
}
