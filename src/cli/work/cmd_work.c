/* rota work: a worker that runs a command for each job. */
#include "base/quote.h"
#include "cli/cli.h"
#include "cli/signals.h"
#include "cli/tls_options.h"
#include "cli/work/work.h"
#include "io/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

struct options {
    const char *node, *name;
    struct rota_tls_words tls;
    struct rota_option_list queues, can;
    int64_t slots;
    rota_time timeout, lease, kill_after, drain, retry_after;
    int log_level;
    bool insecure;
};

static const struct rota_option OPTIONS[] = {
    {.name = "node",
     ROTA_OPTION_INTO(TEXT, struct options, node),
     .value_name = "ADDRESS,...",
     .help = "comma-separated nodes to take jobs from " ROTA_NODE_HELP},
    {.name = "queue",
     ROTA_OPTION_INTO(LIST, struct options, queues),
     .value_name = "NAME",
     .is_required = true,
     .help = "queue to take jobs from"},
    {.name = "can",
     ROTA_OPTION_INTO(LIST, struct options, can),
     .value_name = "CAPABILITY",
     .help = "capabilities of the command"},
    {.name = "slots",
     ROTA_OPTION_INTO(INT, struct options, slots),
     .value_name = "N",
     .default_text = "1",
     .min = 1,
     .max = ROTA_WORKER_FSM_SLOTS_MAX,
     .help = "number of jobs to run in parallel"},
    {.name = "timeout",
     ROTA_OPTION_INTO(SPAN, struct options, timeout),
     .value_name = "DURATION",
     .default_text = "0s",
     .min = 0,
     .max = 365 * ROTA_DAY,
     .help = "kill a command after this long; 0: only by the job's own timeout"},
    {.name = "kill-after",
     ROTA_OPTION_INTO(SPAN, struct options, kill_after),
     .value_name = "DURATION",
     .default_text = "5s",
     .min = ROTA_MSEC,
     .max = ROTA_HOUR,
     .help = "time between SIGTERM and SIGKILL when stopping a command"},
    {.name = "drain",
     ROTA_OPTION_INTO(SPAN, struct options, drain),
     .value_name = "DURATION",
     .default_text = "30s",
     .min = 0,
     .max = ROTA_DAY,
     .help = "grace period for running commands at shutdown"},
    {.name = "lease",
     ROTA_OPTION_INTO(SPAN, struct options, lease),
     .value_name = "DURATION",
     .default_text = "20s",
     .min = ROTA_SEC,
     .max = ROTA_DAY,
     .help = "give the worker's jobs to others after this long without a heartbeat; at least four "
             "times --kill-after"},
    {.name = "retry-after",
     ROTA_OPTION_INTO(SPAN, struct options, retry_after),
     .value_name = "DURATION",
     .default_text = "10s",
     .min = ROTA_MSEC,
     .max = ROTA_DAY,
     .help = "delay before a job runs again after exit code 75"},
    {.name = "name",
     ROTA_OPTION_INTO(TEXT, struct options, name),
     .value_name = "NAME",
     .min = 1,
     .max = ROTA_WORKER_NAME_MAX,
     .help = "name of the worker [default: host and process id]"},
    {.name = "insecure",
     ROTA_OPTION_INTO(FLAG, struct options, insecure),
     .help = "allow plaintext connections to other machines"},
    ROTA_TLS_OPTIONS(struct options, tls.ca, tls.certificate, tls.key),
    {.name = "log-level",
     ROTA_OPTION_INTO(CHOICE, struct options, log_level),
     .value_name = "LEVEL",
     .default_text = "info",
     .choices = rota_log_level_names,
     .help = "minimum level of log messages on standard error"},
};

struct service {
    uv_loop_t loop;
    struct rota_signals signals;
    struct rota_work *work;
    struct rota_log log;
};

static void on_over(void *data)
{
    uv_stop(&((struct service *)data)->loop);
}

static void on_signal(void *data)
{
    struct service *service = data;
    rota_log(&service->log, rota_clock_wall(), ROTA_LOG_INFO, "worker stopping", ROTA_LOG_NO_FACTS);
    rota_work_stop(service->work);
}

/* --- words --- */

/* Split "a,b" into the texts, which are stored in `room`. Returns false if one is empty, or there
 * are too many. */
static bool split(char *room, const char *nodes[ROTA_WORKER_FSM_NODES_MAX], uint32_t *n)
{
    for (char *text = room; text;) {
        char *comma = strchr(text, ',');
        if (comma)
            *comma = '\0';
        if (*text == '\0' || *n == ROTA_WORKER_FSM_NODES_MAX)
            return false;
        nodes[(*n)++] = text;
        text = comma ? comma + 1 : NULL;
    }
    return *n > 0;
}

static enum rota_code check(const struct rota_option_list *list, size_t max, const char *option,
                            enum rota_code (*judge)(struct rota_str, struct rota_error *),
                            struct rota_str *names, struct rota_error *error)
{
    enum rota_code code = ROTA_OK;
    if (list->size > max)
        return rota_error_set(error, ROTA_ERR_INVALID, "--%s: at most %zu of them, not %zu", option,
                              max, list->size);
    for (size_t i = 0; i < list->size && !code; i++) {
        names[i] = rota_str(list->items[i]);
        code = judge(names[i], error);
    }
    return code;
}

static enum rota_code check_name(const char *name, struct rota_error *error)
{
    char quoted[ROTA_QUOTE_MAX];
    for (const char *c = name; *c; c++)
        if (*c <= ' ' || *c >= 0x7f)
            return rota_error_set(error, ROTA_ERR_INVALID,
                                  "%s is not the name of a worker: use printable characters "
                                  "without spaces",
                                  rota_quote(rota_str(name), quoted));
    return ROTA_OK;
}

static const char *make_name(char name[ROTA_WORKER_NAME_MAX + 1])
{
    char host[65] = "";
    gethostname(host, sizeof host - 1);
    for (char *c = host; *c; c++)
        if (*c <= ' ' || *c >= 0x7f)
            *c = '-';
    snprintf(name, ROTA_WORKER_NAME_MAX + 1, "%s-%ld", host[0] ? host : "work", (long)getpid());
    return name;
}

/* --- life --- */

static int serve(const struct rota_work_options *options, int log_level)
{
    struct service service = {
        .log = {.level = (enum rota_log_level)log_level, .write = rota_cli_write_log}};
    struct rota_work_options with = *options;
    struct rota_child_guard guard;
    struct rota_error error;
    int exit_code = ROTA_CLI_OK;
    if (rota_child_guard_open(&guard, &error))
        return rota_cli_fail_error(&error);
    if (uv_loop_init(&service.loop)) {
        rota_child_guard_close(&guard);
        return rota_cli_fail(ROTA_CLI_NO, "no event loop");
    }
    signal(SIGPIPE, SIG_IGN);
    with.guard = &guard;
    with.log = &service.log;
    with.on_over = on_over;
    with.data = &service;
    if (uv_random(NULL, NULL, &with.worker.seed, sizeof with.worker.seed, 0, NULL))
        with.worker.seed = (uint64_t)rota_clock_wall() ^ (uint64_t)getpid();
    if (rota_work_open(&service.loop, &with, &service.work, &error)) {
        exit_code = rota_cli_fail_error(&error);
    } else {
        rota_signals_open(&service.signals, &service.loop, rota_signals_end, on_signal, &service);
        uv_run(&service.loop, UV_RUN_DEFAULT);
        rota_work_close(service.work);
        rota_signals_close(&service.signals);
    }
    uv_run(&service.loop, UV_RUN_DEFAULT);
    uv_loop_close(&service.loop);
    rota_child_guard_close(&guard);
    return exit_code;
}

/* 0 if it can be run, or an errno. */
static int why_not_run(const char *path)
{
    struct stat status;
    if (faccessat(AT_FDCWD, path, X_OK, AT_EACCESS) || stat(path, &status))
        return errno;
    return S_ISREG(status.st_mode) ? 0 : EACCES;
}

/* Look for the command as execvp() will. If it is missing, the worker would take jobs only to
 * return them; if it disappears later, it may come back. */
static enum rota_code check_command(const char *name, struct rota_error *error)
{
    char path[PATH_MAX];
    bool is_path = strchr(name, '/') != NULL;
    const char *at = getenv("PATH") ? getenv("PATH") : "/bin:/usr/bin";
    int failed = is_path ? why_not_run(name) : ENOENT;
    while (failed && !is_path && name[0] && at) {
        const char *end = strchrnul(at, ':');
        snprintf(path, sizeof path, "%.*s%s%s", (int)(end - at), at, end > at ? "/" : "./", name);
        int why = why_not_run(path);
        if (why == 0 || why == EACCES) /* report a command that exists but can't be executed */
            failed = why;
        at = *end ? end + 1 : NULL;
    }
    if (!failed)
        return ROTA_OK;
    return rota_error_set(error, ROTA_ERR_INVALID, "cannot run %s: %s", name[0] ? name : "\"\"",
                          strerror(failed));
}

static int run_work(int argc, char *const *argv)
{
    static struct options options;
    static struct rota_option_list words;
    struct rota_str queues[ROTA_WORKER_QUEUES_MAX], can[ROTA_WORKER_CAPABILITIES_MAX];
    const char *nodes[ROTA_WORKER_FSM_NODES_MAX];
    char *command[ROTA_OPTION_LIST_MAX + 1] = {0};
    char name[ROTA_WORKER_NAME_MAX + 1];
    struct rota_error error;
    int exit_code;
    if (!rota_cli_parse(&rota_cmd_work, argc, argv, &options, &words, &exit_code))
        return exit_code;
    options.node = rota_cli_node(options.node);
    if (!*options.node)
        return rota_cli_fail(ROTA_CLI_BAD, "--node must not be empty");
    if (options.lease < 4 * options.kill_after)
        return rota_cli_fail(
            ROTA_CLI_BAD,
            "--lease must be at least four times --kill-after, so that a command ends before "
            "another worker starts it again");
    if (check(&options.queues, ROTA_WORKER_QUEUES_MAX, "queue", rota_job_queue_check, queues,
              &error) ||
        check(&options.can, ROTA_WORKER_CAPABILITIES_MAX, "can", rota_job_check_capability, can,
              &error) ||
        (options.name && check_name(options.name, &error)) || check_command(words.items[0], &error))
        return rota_cli_fail_error(&error);
    struct rota_work_options with = {
        .worker = {.slots = (uint32_t)options.slots,
                   .lease = options.lease,
                   .timeout = options.timeout,
                   .kill_after = options.kill_after,
                   .drain = options.drain,
                   .retry_after = options.retry_after},
        .queues = queues,
        .n_queues = options.queues.size,
        .can = can,
        .n_can = options.can.size,
        .nodes = nodes,
        .name = options.name ? options.name : make_name(name),
        .argv = command,
        .is_insecure = options.insecure,
    };
    if (rota_tls_options_open(&options.tls, &with.tls, &error))
        return rota_cli_fail_error(&error);
    for (size_t i = 0; i < words.size; i++)
        command[i] = (char *)(uintptr_t)words.items[i]; /* only read */
    char *room = strdup(options.node);
    if (!room)
        exit_code = rota_cli_fail(ROTA_CLI_NO, "not enough memory to start the workers");
    else
        exit_code =
            split(room, nodes, &with.worker.n_nodes)
                ? serve(&with, options.log_level)
                : rota_cli_fail(ROTA_CLI_BAD, "--node: give 1 to %d addresses, separated by commas",
                                ROTA_WORKER_FSM_NODES_MAX);
    free(room);
    rota_tls_free(with.tls);
    return exit_code;
}

const struct rota_cli_command rota_cmd_work = {
    .command =
        {
            .name = "work",
            .summary = "Run a command for each job of a queue",
            .arguments = "[--] COMMAND [ARG...]",
            .min_arguments = 1,
            .description =
                "Takes jobs and runs COMMAND for each, up to --slots in parallel, until "
                "interrupted. The command gets the payload on standard input; its standard output "
                "is the result (at most 16 MiB). The last 1024 bytes of its standard error are "
                "kept as the job's log, which `rota job show` prints, and the last line of that is "
                "the job's progress while it runs. The output of a cancelled job is only in the "
                "worker's own log. The command's environment has ROTA_JOB_ID, ROTA_JOB_ATTEMPT (1 "
                "for the first), ROTA_QUEUE and ROTA_TRACE.\n\nExit code 0 completes the job. Exit "
                "code 75 retries it after --retry-after without counting the attempt. Exit code 65 "
                "marks it dead, for jobs that can never succeed. Any other code, or a signal, "
                "fails the attempt, and the job "
                "runs again after its backoff until it has no attempts left.\n\nA command runs in "
                "a process group of its own. The worker ends the group with SIGTERM, and after "
                "--kill-after with SIGKILL, if the job is cancelled, if --timeout or the job's own "
                "timeout passes (then SIGKILL follows after at most 5 s), or if no node was "
                "reachable for almost "
                "--lease. When the command or the worker ends, for any reason, any remaining "
                "process of the group gets SIGKILL. On SIGTERM or SIGINT the worker stops taking "
                "jobs, lets "
                "commands run for up to --drain, then ends the rest and returns their jobs to the "
                "queue. A second signal kills and returns all of them at once.\n\nWith several "
                "nodes it polls all of them in parallel and returns jobs it has no slot for. It "
                "retries unreachable nodes until they are back. COMMAND must exist at the start; "
                "if it disappears later, no job loses an attempt.",
            .options = OPTIONS,
            .n_options = sizeof OPTIONS / sizeof *OPTIONS,
            .examples = "rota work --node 127.0.0.1:7700 --queue mail --can smtp --slots 4 -- "
                        "./send-mail\n"
                        "rota work --queue sums -- sh -c 'expr $(cat)'\n",
        },
    .run = run_work,
};
