/* client: how commands talk to nodes: the options that name the nodes, one call at a time, and the
 * queue client of <rota/queue.h> for the same nodes. */
#pragma once

#include "base/arena.h"
#include "base/json.h"
#include "base/option.h"
#include "cli/cli.h"
#include "cli/dry_run.h"
#include "cli/terminal.h"
#include "cli/tls_options.h"
#include "io/local_token.h"
#include "wire/message/message.h"

#include <rota/experimental/channel.h>
#include <rota/queue.h>
#include <uv.h>

struct rota_client_options {
    const char *node;
    struct rota_tls_words tls;
    const char *token_file;
    rota_time timeout;
    bool insecure, json;
    bool dry_run; /* of commands that change something */
    int output;   /* enum rota_table_form, of commands that list something */
};

/* `result` has a struct rota_client_options named `of`. */
#define ROTA_CLIENT_OPTIONS(result)                                                                \
    ROTA_CLIENT_NODE(result),                                                                      \
        {.name = "timeout",                                                                        \
         ROTA_OPTION_INTO(SPAN, result, of.timeout),                                               \
         .value_name = "DURATION",                                                                 \
         .default_text = "10s",                                                                    \
         .min = ROTA_MSEC,                                                                         \
         .max = ROTA_HOUR,                                                                         \
         .help = "how long to wait for an answer"},                                                \
        ROTA_CLIENT_MANNER(result)

/* The same for a command with a table. */
#define ROTA_CLIENT_LIST_OPTIONS(result)                                                           \
    ROTA_CLIENT_OPTIONS(result), ROTA_TABLE_OPTION(result, of.output)

/* The parts of it that do not concern time. */
#define ROTA_CLIENT_NODE(result)                                                                   \
    {                                                                                              \
        .name = "node", ROTA_OPTION_INTO(TEXT, result, of.node), .value_name = "ADDRESS,...",      \
        .help = "comma-separated nodes; one that answers is used " ROTA_NODE_HELP                  \
    }
#define ROTA_CLIENT_MANNER(result)                                                                 \
    {.name = "json", ROTA_OPTION_INTO(FLAG, result, of.json), .help = "print JSON"},               \
        {.name = "insecure",                                                                       \
         ROTA_OPTION_INTO(FLAG, result, of.insecure),                                              \
         .help = "allow plaintext connections to other machines"},                                 \
        {.name = "token-file",                                                                     \
         ROTA_OPTION_INTO(TEXT, result, of.token_file),                                            \
         .value_name = "FILE",                                                                     \
         .help = "file with the node's token, which commands that change the cluster need [env "   \
                 "ROTA_TOKEN_FILE; found automatically for a node on this machine]"},              \
        ROTA_TLS_OPTIONS(result, of.tls.ca, of.tls.certificate, of.tls.key)

#define ROTA_CLIENT_DRY_RUN(result) ROTA_DRY_RUN_OPTION(result, of.dry_run)

enum { ROTA_CLIENT_NODES_MAX = 64 };

/* Nodes that are missing from a list or a sum; borrowed from the reply. */
struct rota_client_missing {
    const struct rota_str *nodes, *why; /* `why` may be NULL */
    size_t n;
    char names[300]; /* "a:1, b:1 and 2 more" */
};

struct rota_client {
    uv_loop_t loop;
    struct rota_tls *tls;         /* NULL: plain text */
    struct rota_channel *channel; /* the one in use */
    struct rota_channel *channels[ROTA_CLIENT_NODES_MAX];
    char tokens[ROTA_CLIENT_NODES_MAX][ROTA_LOCAL_TOKEN_MAX + 1]; /* empty: none */
    size_t n_channels, at;
    const struct rota_client_options *options;
    struct rota_queue *queue; /* NULL: not needed yet */
    struct rota_arena arena;
    struct rota_reply reply; /* of the last call; decoded replies borrow from it */
    bool is_patient;         /* a node has answered: if it becomes unreachable, wait for it */
    bool is_awaited;         /* the same even if none has answered yet, and report it */
    rota_time until;         /* deadline of the command, on the monotonic clock; 0: none */
    bool has_told_waiting;   /* reported that a repeated call waits */
    struct rota_client_missing missing; /* of the last reply that was checked for them */
    bool has_told_missing;

    /* Of a repeated call: until when it waits, in words, and the progress line to erase before a
     * report. With them it is reported at once. */
    const char *until_text;
    struct rota_progress *progress;
};

/* Print the answer of a command, and free it; returns an exit code. */
static inline int rota_client_answer(const struct rota_cli_command *command,
                                     const struct rota_client_options *options,
                                     struct rota_buffer *buffer)
{
    return rota_cli_answer(command, options->json ? ROTA_TABLE_JSON : options->output, buffer);
}

/* Fills `*client`; rota_client_close() frees it. */
enum rota_code rota_client_open(const struct rota_client_options *options,
                                struct rota_client *client, struct rota_error *error);
void rota_client_close(struct rota_client *client);

/* What a command does: append its answer to `buffer`. */
typedef enum rota_code rota_client_act(struct rota_client *client, const void *options,
                                       struct rota_buffer *buffer, struct rota_error *error);

/* The frame of most commands: open a client, act, and print the answer; a command with a table
 * appends lines of JSON. Returns an exit code. */
int rota_client_run(const struct rota_cli_command *command, const struct rota_client_options *of,
                    rota_client_act *act, const void *options);

/* Call a method of rota.v1.Queue, or of any service if `method` is a whole path, and decode the
 * answer into the struct `reply`; both types may be NULL. A refusal is an error: ROTA_ERR_INVALID
 * for an invalid request, ROTA_ERR_UNAVAILABLE for everything else. Skips unreachable nodes. */
enum rota_code rota_client_ask(struct rota_client *client, const char *method,
                               const struct rota_message_type *request_type, const void *request,
                               const struct rota_message_type *reply_type, void *reply,
                               struct rota_error *error);

/* The same for an idempotent request. While its outcome is unknown, or no node is reachable and one
 * has answered before or is awaited, try_fsm repeats it for three times the timeout, or until the
 * deadline of the command if it has one. */
enum rota_code rota_client_insist(struct rota_client *client, const char *method,
                                  const struct rota_message_type *request_type, const void *request,
                                  const struct rota_message_type *reply_type, void *reply,
                                  struct rota_error *error);

/* The queue client, on the client's loop and with its nodes; always use the same patience. A call
 * fails at once while no node has ever answered; after that, calls are repeated for `patience`. */
enum rota_code rota_client_queue(struct rota_client *client, rota_time patience,
                                 struct rota_queue **queue, struct rota_error *error);
#define ROTA_CLIENT_ONCE 1 /* a patience: no call is repeated */

/* The error for a result that is not ROTA_OK: names the node, with the codes of
 * rota_client_ask(). */
enum rota_code rota_client_error(const struct rota_queue_result *result, struct rota_error *error);

/* Use the next node from now on. */
void rota_client_next(struct rota_client *client);

/* Run the loop for `ms`, or until the command's deadline. */
void rota_client_pause(struct rota_client *client, uint64_t ms);
