/* cli: what the commands of `rota` share.
 *
 * A command reads its options by its table, does its work and returns an exit
 * code. Its answer goes to standard output; whatever goes wrong is one sentence
 * on standard error. Nothing is printed before all of the input that can be
 * checked beforehand was checked. */
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
    ROTA_CLI_NO = 1,  /* the answer is no, there is none, or it can't be had */
    ROTA_CLI_BAD = 2, /* bad usage or input */
};

/* One entry of the table of commands. */
struct rota_cli_command {
    struct rota_command command;
    int (*run)(int argc, char *const *argv); /* the words behind its name; an exit code */
    const struct rota_table *table;          /* of its answer, which is JSON; NULL: text */
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
extern const struct rota_cli_command rota_cmd_node_beat;
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

/* Read the options of a command into `result` and its `arguments`, which may be
 * NULL. When that is all there is to do (help, or an error) answers false and
 * sets `*exit_code`. */
bool rota_cli_parse(const struct rota_cli_command *command, int argc, char *const *argv,
                    void *result, struct rota_option_list *arguments, int *exit_code);

/* End the process by SIGINT, so that its parent, maybe a loop of a shell, sees that it was
 * an interrupt; an exit code where that can't be. */
int rota_cli_end_interrupted(void);

/* Whether standard output still takes what is printed; asked after writing, for
 * it also notes why not. */
bool rota_cli_can_print(void);

/* Add a member of an object: bytes that are no UTF-8 get another name and another form. */
void rota_cli_add_bytes(struct rota_json *json, const char *name, const char *base64_name,
                        struct rota_str bytes);

/* Fill `error` with what a node answered, or why it could not be asked and what to do. */
void rota_cli_describe_refusal(struct rota_error *error, enum rota_code code, const char *node,
                               enum rota_status status, const char *text);

/* The same for a moment; null for 0, which is none. */
void rota_cli_add_time(struct rota_json *json, const char *key, rota_time time);

/* Print a buffer and free it; returns an exit code. */
int rota_cli_print(struct rota_buffer *buffer);

/* Print the answer of a command with a table in a form of enum rota_table_form, and free it;
 * returns an exit code. */
int rota_cli_answer(const struct rota_cli_command *command, int form, struct rota_buffer *json);

/* Close a loop that was given some time to end. When that was too short for a thread, which may
 * wait for a database, the process ends without the handlers of exit(): they would take away
 * what the thread uses. */
void rota_cli_close_loop(struct uv_loop_s *loop);

/* The same, and give it the time: a peer that does not take its end is not waited for. */
void rota_cli_end_loop(struct uv_loop_s *loop, rota_time grace);
bool rota_cli_has_thread_left(void);

/* Flush standard output at the very end. Turns a failure into a sentence, and
 * the exit code into ROTA_CLI_NO unless it tells of something else already. */
int rota_cli_finish(int exit_code);

#define ROTA_NODE_DEFAULT "127.0.0.1:7700" /* where a broker or a node listens by itself */
#define ROTA_NODE_HELP    "[env ROTA_NODE, default " ROTA_NODE_DEFAULT "]"

/* Whom to ask: what was given, ROTA_NODE, or the default. */
const char *rota_cli_node(const char *given);

/* Write a line of a log to standard error: for struct rota_log. */
void rota_cli_write_log(void *data, struct rota_str line);

/* The wall clock, or `at` if it is not ROTA_TIME_MIN. */
rota_time rota_cli_now(rota_time at);

/* Read a whole file, once: it may be a pipe, and `-` is standard input. Fills
 * `*content`; rota_buffer_deinit() ends it. */
enum rota_code rota_cli_read_file(const char *path, size_t size_max, struct rota_buffer *content,
                                  struct rota_error *error);

/* What a file is called in messages. */
const char *rota_cli_file_name(const char *path);

/* Whether reading `path` takes what standard input has to give. */
bool rota_cli_is_input(const char *path);

/* Read a hosts file. Fills `*hosts`; rota_hosts_file_deinit() ends it. */
enum rota_code rota_cli_read_hosts(const char *path, struct rota_hosts *hosts,
                                   struct rota_error *error);

/* The ring of those hosts that are placed at `now`. Gives `*ring`. `path` is
 * named in errors. */
enum rota_code rota_cli_build_ring(const char *path, const struct rota_host *hosts, size_t n_hosts,
                                   rota_time now, int64_t points, struct rota_ring **ring,
                                   struct rota_error *error);

/* Both: the ring of where the hosts come from, which is looked up first if it was not said.
 * An empty one is refused as ROTA_ERR_UNAVAILABLE. */
enum rota_code rota_cli_load_ring(struct rota_host_options *from, rota_time now, int64_t points,
                                  struct rota_ring **ring, struct rota_error *error);
