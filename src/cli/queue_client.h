/* queue_client: what commands that ask a broker share: the options that name it, calls, and
 * the names of jobs. */
#pragma once

#include "base/arena.h"
#include "base/json.h"
#include "base/option.h"
#include "cli/cli.h"
#include "cli/dry_run.h"
#include "cli/tls_options.h"
#include "io/local_token.h"
#include "wire/queue_message.h"

#include <rota/channel.h>
#include <uv.h>

struct rota_queue_client_options {
    const char *node;
    struct rota_tls_words tls;
    const char *token_file;
    rota_time timeout;
    bool insecure, json;
    bool dry_run; /* of commands that change something */
    int output;   /* enum rota_table_form, of commands that list something */
};

/* `result` has a struct rota_queue_client_options named `of`. */
#define ROTA_QUEUE_CLIENT_OPTIONS(result)                                                          \
    ROTA_QUEUE_CLIENT_NODE(result),                                                                \
        {.name = "timeout",                                                                        \
         ROTA_OPTION_INTO(SPAN, result, of.timeout),                                               \
         .value_name = "SPAN",                                                                     \
         .default_text = "10s",                                                                    \
         .min = ROTA_MSEC,                                                                         \
         .max = ROTA_HOUR,                                                                         \
         .help = "how long to wait for an answer"},                                                \
        ROTA_QUEUE_CLIENT_MANNER(result)

/* The same for a command with a table. */
#define ROTA_QUEUE_CLIENT_LIST_OPTIONS(result)                                                     \
    ROTA_QUEUE_CLIENT_OPTIONS(result), ROTA_TABLE_OPTION(result, of.output)

/* The two parts of it that have nothing to do with time. */
#define ROTA_QUEUE_CLIENT_NODE(result)                                                             \
    {                                                                                              \
        .name = "node", ROTA_OPTION_INTO(TEXT, result, of.node), .value_name = "ADDRESS,...",      \
        .help = "comma-separated nodes; the first that answers is used " ROTA_NODE_HELP            \
    }
#define ROTA_QUEUE_CLIENT_MANNER(result)                                                           \
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

#define ROTA_QUEUE_CLIENT_DRY_RUN(result) ROTA_DRY_RUN_OPTION(result, of.dry_run)

enum { ROTA_QUEUE_CLIENT_NODES_MAX = 64 };

struct rota_queue_client {
    uv_loop_t loop;
    struct rota_tls *tls;         /* NULL: plain text */
    struct rota_channel *channel; /* the one that is asked now */
    struct rota_channel *channels[ROTA_QUEUE_CLIENT_NODES_MAX];
    char tokens[ROTA_QUEUE_CLIENT_NODES_MAX][ROTA_LOCAL_TOKEN_MAX + 1]; /* empty: none */
    size_t n_channels, at;
    const struct rota_queue_client_options *options;
    struct rota_arena arena;
    struct rota_queue_job_spec *adding; /* by the request that is made; told when made again */
    size_t n_adding;
    struct rota_reply reply; /* of the last call; what was read from it is borrowed */
    bool is_patient;         /* it has answered: it is waited for when it is away */
    bool is_awaited;         /* also when it has never answered; that is told */
    rota_time until;         /* when the command is over, on the monotonic clock; 0: never */
    bool is_undone;          /* the last call was refused, and another partition may do */
    bool has_told_missing;
    size_t n_missing;      /* nodes that the last reply, a list or a sum, is without ... */
    char missing[300];     /* ... and who they are: "a:1, b:1 and 2 more" */
    bool has_told_waiting; /* what a call that is made again waits for */

    uint32_t partitions; /* of each queue that has no layout; 0: not asked yet */
    uint32_t write;      /* of the queue: those that new jobs go to */
    bool is_alone;       /* one node has all queues */
};

/* Print the answer of a command, and free it; returns an exit code. */
static inline int rota_queue_client_answer(const struct rota_cli_command *command,
                                           const struct rota_queue_client_options *options,
                                           struct rota_buffer *buffer)
{
    return rota_cli_answer(command, options->json ? ROTA_TABLE_JSON : options->output, buffer);
}

/* Fills `*client`; rota_queue_client_close() ends it. */
enum rota_code rota_queue_client_open(const struct rota_queue_client_options *options,
                                      struct rota_queue_client *client, struct rota_error *error);
void rota_queue_client_close(struct rota_queue_client *client);

/* Ask a method of rota.v1.Queue, or any when it is a whole path, and read the answer into the
 * struct `reply`; both types may be NULL. A refusal is an
 * error: ROTA_ERR_INVALID of a request that can't be, ROTA_ERR_UNAVAILABLE of all others. Where
 * there are several brokers, one that can't be reached is passed over. */
enum rota_code rota_queue_client_ask(struct rota_queue_client *client, const char *method,
                                     const struct rota_message_type *request_type,
                                     const void *request,
                                     const struct rota_message_type *reply_type, void *reply,
                                     struct rota_error *error);

/* The same for a request that may be made twice: it is made again, for three times the timeout,
 * as long as nobody knows what became of it, or the broker is away and has answered before, or is
 * awaited; where the command has an end of its own, until then. It is not when it was certainly not
 * done and another partition may do. */
enum rota_code rota_queue_client_ask_again(struct rota_queue_client *client, const char *method,
                                           const struct rota_message_type *request_type,
                                           const void *request,
                                           const struct rota_message_type *reply_type, void *reply,
                                           struct rota_error *error);

/* How often a job that was not added went to another partition, and until when it may. */
struct rota_queue_moves {
    unsigned n;
    rota_time until;
};

/* None yet; the timeout begins. */
struct rota_queue_moves rota_queue_client_moves(const struct rota_queue_client *client);

/* Whether a job that was not added may be tried with another id, which it is time for now. One
 * that was refused for want of room may not when there is one node only, nor any that has a
 * unique key twice. `why` is told, once, when it takes long. */
bool rota_queue_client_may_move(struct rota_queue_client *client, struct rota_str unique,
                                enum rota_status status, struct rota_queue_moves *moves,
                                const char *why);

/* How many nodes the last reply, a list or a sum, is without. Who they are is told once. */
size_t rota_queue_client_tell_missing(struct rota_queue_client *client);

/* The queue as all nodes together have it; of no name: all queues. ROTA_ERR_UNAVAILABLE when
 * nobody knows it. */
enum rota_code rota_queue_client_look(struct rota_queue_client *client, struct rota_str queue,
                                      struct rota_queue_list *reply, struct rota_error *error);

/* Nothing of a queue was found: whether that is because nobody knows it. */
enum rota_code rota_queue_client_check(struct rota_queue_client *client, struct rota_str queue,
                                       struct rota_error *error);

/* Ask the next of the nodes from now on. */
void rota_queue_client_next(struct rota_queue_client *client);

/* Let `ms` pass on the loop, or what is left until the command is over. */
void rota_queue_client_pause(struct rota_queue_client *client, uint64_t ms);

/* Give a new job an id, so that an add whose outcome is not known can be made again, and with it a
 * partition: any, or that of its unique key. `id` is room. */
void rota_queue_client_name_job(struct rota_queue_client *client, struct rota_queue_job_spec *job,
                                char id[ROTA_QUEUE_ID_SIZE]);

/* Read "QUEUE/ID" into the two fields; `id` is room. */
enum rota_code rota_queue_client_parse_name(const char *text, struct rota_queue_about *about,
                                            char id[ROTA_QUEUE_ID_SIZE], struct rota_error *error);

/* Append "QUEUE/ID"; or a job as an object. */
void rota_queue_client_append_name(struct rota_buffer *buffer, struct rota_str queue,
                                   struct rota_str id);
void rota_queue_client_add_job(struct rota_json *json, const struct rota_queue_job_info *info);

/* A moment with all its milliseconds, so that columns of them line up. Returns `text`. */
char *rota_queue_client_format_moment(uint64_t ms, char text[ROTA_TIME_TEXT_MAX]);

/* Append "change", a gradual change of batch and mode; null for an end of 0, which is none. */
void rota_queue_client_add_change(struct rota_json *json, uint64_t from_batch, bool from_slots,
                                  uint64_t start_ms, uint64_t end_ms);

/* Append a moment in milliseconds since 1970; null when it is none. */
void rota_queue_client_add_moment(struct rota_json *json, const char *key, uint64_t ms);
