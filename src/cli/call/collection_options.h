/* collection_options: the options by which commands name nodes to ask and a collection, that is a
 * space, and their rules. */
#pragma once

#include "base/option.h"
#include "cli/cli.h"
#include "cli/tls_options.h"

#include <rota/experimental/shards.h>

struct rota_collection_options {
    const char *node, *collection;
    rota_time timeout;
    struct rota_tls_words tls;
    bool insecure;
};

/* The nodes to ask, and how. */
struct rota_collection_nodes {
    const char *items[ROTA_SHARDS_DIRECTORIES_MAX];
    size_t size;
    char *text;           /* what they point into */
    struct rota_tls *tls; /* NULL: plain text */
};

/* Reject options that name no directory or no collection. Fills `*nodes`;
 * rota_collection_options_nodes_deinit() frees it. */
enum rota_code rota_collection_options_check(const struct rota_collection_options *options,
                                             struct rota_collection_nodes *nodes,
                                             struct rota_error *error);
void rota_collection_options_nodes_deinit(struct rota_collection_nodes *nodes);

/* `result` has a struct rota_collection_options named `of`; `the_help` says what the timeout is
 * for. */
#define ROTA_COLLECTION_OPTIONS(result, timeout_default, timeout_help)                             \
    {.name = "node",                                                                               \
     ROTA_OPTION_INTO(TEXT, result, of.node),                                                      \
     .value_name = "ADDRESS",                                                                      \
     .help = "comma-separated directories; the first that answers is used " ROTA_NODE_HELP},       \
        {.name = "collection",                                                                     \
         ROTA_OPTION_INTO(TEXT, result, of.collection),                                            \
         .value_name = "NAME",                                                                     \
         .default_text = "",                                                                       \
         .max = ROTA_SHARD_NAME_MAX,                                                               \
         .help = "name of a space, or cache/NAME for a cache"},                                    \
        {.name = "timeout",                                                                        \
         ROTA_OPTION_INTO(SPAN, result, of.timeout),                                               \
         .value_name = "DURATION",                                                                 \
         .default_text = (timeout_default),                                                        \
         .min = ROTA_MSEC,                                                                         \
         .max = ROTA_HOUR,                                                                         \
         .help = (timeout_help)},                                                                  \
        {.name = "insecure",                                                                       \
         ROTA_OPTION_INTO(FLAG, result, of.insecure),                                              \
         .help = "allow plaintext connections to other machines"},                                 \
        ROTA_TLS_OPTIONS(result, of.tls.ca, of.tls.certificate, of.tls.key)
