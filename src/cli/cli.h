/* cli: what the commands of `rota` share.
 *
 * A command reads its options by its table, does its work and returns an exit code. Its answer goes
 * to standard output; an error is one sentence on standard error. It checks all input that it can
 * check before it prints anything. */
#pragma once

#include "base/buffer.h"
#include "base/command.h"
#include "base/json.h"
#include "cli/place/host_options.h"
#include "cli/table.h"
#include "wire/text/hosts_file.h"

#include <rota/ring.h>
#include <rota/rpc.h>

struct uv_loop_s; /* a uv_loop_t */

enum {
    ROTA_CLI_OK = 0,
    ROTA_CLI_NO = 1,  /* negative, not found, or unavailable */
    ROTA_CLI_BAD = 2, /* bad usage or input */
};

/* One entry of the table of commands. */
struct rota_cli_command {
    struct rota_command command;
    int (*run)(int argc, char *const *argv); /* the words after its name; an exit code */
    const struct rota_table *table; /* of its answer, which is JSON; NULL: the answer is text */
};

extern const struct rota_cli_command rota_cmd_broker;
extern const struct rota_cli_command rota_cmd_cache_serve;
extern const struct rota_cli_command rota_cmd_complete;
extern const struct rota_cli_command rota_cmd_config_check;
extern const struct rota_cli_command rota_cmd_config_show;
extern const struct rota_cli_command rota_cmd_config_watch;
extern const struct rota_cli_command rota_cmd_directory_get;
extern const struct rota_cli_command rota_cmd_directory_serve;
extern const struct rota_cli_command rota_cmd_doctor;
extern const struct rota_cli_command rota_cmd_events;
extern const struct rota_cli_command rota_cmd_get;
extern const struct rota_cli_command rota_cmd_gradual;
extern const struct rota_cli_command rota_cmd_group_join;
extern const struct rota_cli_command rota_cmd_group_status;
extern const struct rota_cli_command rota_cmd_hosts_check;
extern const struct rota_cli_command rota_cmd_hosts_watch;
extern const struct rota_cli_command rota_cmd_job_add;
extern const struct rota_cli_command rota_cmd_job_cancel;
extern const struct rota_cli_command rota_cmd_job_explain;
extern const struct rota_cli_command rota_cmd_job_list;
extern const struct rota_cli_command rota_cmd_job_priority;
extern const struct rota_cli_command rota_cmd_job_retry;
extern const struct rota_cli_command rota_cmd_job_show;
extern const struct rota_cli_command rota_cmd_lease_history;
extern const struct rota_cli_command rota_cmd_lease_hold;
extern const struct rota_cli_command rota_cmd_lease_list;
extern const struct rota_cli_command rota_cmd_node_heartbeat;
extern const struct rota_cli_command rota_cmd_node_drain;
extern const struct rota_cli_command rota_cmd_node_evict;
extern const struct rota_cli_command rota_cmd_node_list;
extern const struct rota_cli_command rota_cmd_node_members;
extern const struct rota_cli_command rota_cmd_node_remove;
extern const struct rota_cli_command rota_cmd_node_show;
extern const struct rota_cli_command rota_cmd_node_undrain;
extern const struct rota_cli_command rota_cmd_ping;
extern const struct rota_cli_command rota_cmd_plan;
extern const struct rota_cli_command rota_cmd_queue_dead;
extern const struct rota_cli_command rota_cmd_queue_delete;
extern const struct rota_cli_command rota_cmd_queue_forget;
extern const struct rota_cli_command rota_cmd_queue_list;
extern const struct rota_cli_command rota_cmd_queue_nodes;
extern const struct rota_cli_command rota_cmd_queue_partitions;
extern const struct rota_cli_command rota_cmd_queue_spread;
extern const struct rota_cli_command rota_cmd_queue_pause;
extern const struct rota_cli_command rota_cmd_queue_resume;
extern const struct rota_cli_command rota_cmd_queue_show;
extern const struct rota_cli_command rota_cmd_queue_quarantine;
extern const struct rota_cli_command rota_cmd_queue_wait_empty;
extern const struct rota_cli_command rota_cmd_queue_weight;
extern const struct rota_cli_command rota_cmd_queue_workers;
extern const struct rota_cli_command rota_cmd_ring_hash;
extern const struct rota_cli_command rota_cmd_ring_lookup;
extern const struct rota_cli_command rota_cmd_route;
extern const struct rota_cli_command rota_cmd_shard_explain;
extern const struct rota_cli_command rota_cmd_shard_list;
extern const struct rota_cli_command rota_cmd_shard_move;
extern const struct rota_cli_command rota_cmd_shard_pin;
extern const struct rota_cli_command rota_cmd_shard_show;
extern const struct rota_cli_command rota_cmd_directory_show;
extern const struct rota_cli_command rota_cmd_directory_watch;
extern const struct rota_cli_command rota_cmd_sim_balance;
extern const struct rota_cli_command rota_cmd_space_list;
extern const struct rota_cli_command rota_cmd_space_create;
extern const struct rota_cli_command rota_cmd_space_delete;
extern const struct rota_cli_command rota_cmd_space_migrate;
extern const struct rota_cli_command rota_cmd_space_reseat;
extern const struct rota_cli_command rota_cmd_space_show;
extern const struct rota_cli_command rota_cmd_top;
extern const struct rota_cli_command rota_cmd_up;
extern const struct rota_cli_command rota_cmd_wait;
extern const struct rota_cli_command rota_cmd_work;
extern const struct rota_cli_command rota_cmd_worker_key;

/* Print "rota: " and the sentence on one line of standard error; returns
 * `exit_code`. */
int rota_cli_fail(int exit_code, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The same for an error of the library. */
int rota_cli_fail_error(const struct rota_error *error);

/* Read the options of a command into `result`, and its arguments into `arguments`, which may be
 * NULL. Returns false if there is nothing left to do (help, or an error) and sets `*exit_code`. */
bool rota_cli_parse(const struct rota_cli_command *command, int argc, char *const *argv,
                    void *result, struct rota_option_list *arguments, int *exit_code);

/* End the process with SIGINT, so that its parent, for example a shell loop, sees the interrupt. If
 * that fails, returns an exit code. */
int rota_cli_end_interrupted(void);

/* Whether standard output can still be written. Call it right after writing: it also records
 * errno. */
bool rota_cli_can_print(void);

/* Add a member of an object. Bytes that are not UTF-8 are added in base64, under the other name. */
void rota_cli_add_bytes(struct rota_json *json, const char *name, const char *base64_name,
                        struct rota_str bytes);

/* Fill `error` with a node's answer, or with why the node is unreachable and what to do about
 * it. */
void rota_cli_describe_refusal(struct rota_error *error, enum rota_code code, const char *node,
                               enum rota_status status, const char *text);

/* The same for a timestamp; 0 becomes null. */
void rota_cli_add_time(struct rota_json *json, const char *key, rota_time time);

/* Print a buffer and free it; returns an exit code. */
int rota_cli_print(struct rota_buffer *buffer);

/* Print the answer of a command with a table, in a form of enum rota_table_form, and free it.
 * Returns an exit code. */
int rota_cli_answer(const struct rota_cli_command *command, int form, struct rota_buffer *json);

/* Run a loop for up to `grace`, without waiting for a peer that never closes, and close it. If a
 * thread is still running, for example waiting for a database, the process later ends without the
 * handlers of exit(), which would free what the thread uses. */
void rota_cli_end_loop(struct uv_loop_s *loop, rota_time grace);
bool rota_cli_has_thread_left(void);

/* Flush standard output at the very end. Turns a failure into a sentence, and the exit code into
 * ROTA_CLI_NO unless it already reports another failure. */
int rota_cli_finish(int exit_code);

#define ROTA_NODE_DEFAULT "127.0.0.1:7700" /* the default address of a node */
#define ROTA_NODE_HELP    "[env ROTA_NODE, default " ROTA_NODE_DEFAULT "]"

/* The nodes to ask: `given`, ROTA_NODE, or the default. */
const char *rota_cli_node(const char *given);

/* Write a log line to standard error, for struct rota_log. */
void rota_cli_write_log(void *data, struct rota_str line);

/* The wall clock, or `at` if it is not ROTA_TIME_MIN. */
rota_time rota_cli_now(rota_time at);

/* Read a whole file once: it may be a pipe, and `-` is standard input. Fills `*content`;
 * rota_buffer_deinit() frees it. */
enum rota_code rota_cli_read_file(const char *path, size_t size_max, struct rota_buffer *content,
                                  struct rota_error *error);

/* What a file is called in messages. */
const char *rota_cli_file_name(const char *path);

/* Whether reading `path` consumes standard input. */
bool rota_cli_is_input(const char *path);

/* Read a hosts file. Fills `*hosts`; rota_hosts_file_deinit() frees it. */
enum rota_code rota_cli_read_hosts(const char *path, struct rota_hosts *hosts,
                                   struct rota_error *error);

/* Build the ring of the hosts that are placed at `now`. Gives `*ring`. `path` is named in
 * errors. */
enum rota_code rota_cli_build_ring(const char *path, const struct rota_host *hosts, size_t n_hosts,
                                   rota_time now, int64_t points, struct rota_ring **ring,
                                   struct rota_error *error);

/* Both: read the hosts from a file or a store, and build their ring. An empty ring is an error,
 * ROTA_ERR_UNAVAILABLE. */
enum rota_code rota_cli_load_ring(struct rota_host_options *from, rota_time now, int64_t points,
                                  struct rota_ring **ring, struct rota_error *error);
