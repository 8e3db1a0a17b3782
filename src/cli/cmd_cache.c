/* rota cache: a server of a sharded cache. */
#include "cli/cli.h"
#include "cli/store_options.h"
#include "core/call/lru.h"
#include "io/clock.h"
#include "run/cache_service.h"

#include <rota/store.h>
#include <signal.h>
#include <stdio.h>
#include <uv.h>

/* How long what was closed may take to end. */
#define GRACE ROTA_SEC

struct serve {
    struct rota_cache_service_options of;
    int loss, log_level;
};

static const char *const LOSSES[] = {"abort", "exit", "standby", NULL};

static const struct rota_option SERVE_OPTIONS[] = {
    ROTA_STORE_OPTION(struct serve, of.store),
    ROTA_SPACE_OPTION(struct serve, of.space),
    {.name = "dc",
     ROTA_OPTION_INTO(TEXT, struct serve, of.dc),
     .value_name = "NAME",
     .is_required = true,
     .min = 1,
     .max = ROTA_STORE_NAME_MAX,
     .help = "data center; each has all shards"},
    {.name = "shards",
     ROTA_OPTION_INTO(INT, struct serve, of.shards),
     .value_name = "N",
     .is_required = true,
     .min = 1,
     .max = ROTA_STORE_SHARDS_MAX,
     .help = "number of shards in the data center"},
    {.name = "source",
     ROTA_OPTION_INTO(TEXT, struct serve, of.source),
     .value_name = "SOURCE",
     .is_required = true,
     .help = "source of the values: file:FILE, or sql:TABLE in the store's database"},
    {.name = "listen",
     ROTA_OPTION_INTO(TEXT, struct serve, of.listen),
     .value_name = "ADDRESS",
     .default_text = "127.0.0.1:0",
     .help = "address to serve gRPC on; port 0 picks a free one"},
    {.name = "advertise",
     ROTA_OPTION_INTO(TEXT, struct serve, of.advertise),
     .value_name = "ADDRESS",
     .help = "address for clients, if it differs from --listen"},
    {.name = "insecure",
     ROTA_OPTION_INTO(FLAG, struct serve, of.insecure),
     .help = "serve plaintext on addresses other than loopback"},
    {.name = "memory",
     ROTA_OPTION_INTO(INT, struct serve, of.memory),
     .value_name = "BYTES",
     .default_text = "268435456",
     .min = ROTA_LRU_BYTES_MIN,
     .max = INT64_C(1) << 44,
     .help = "memory for cached values, including overhead"},
    {.name = "keep",
     ROTA_OPTION_INTO(SPAN, struct serve, of.keep),
     .value_name = "SPAN",
     .default_text = "10s",
     .min = 0,
     .max = 365 * ROTA_DAY,
     .help = "how long to cache a value of a table; a missing key: a tenth of that"},
    {.name = "ttl",
     ROTA_OPTION_INTO(SPAN, struct serve, of.ttl),
     .value_name = "SPAN",
     .default_text = "10s",
     .min = ROTA_LEASE_TTL_MIN,
     .max = ROTA_LEASE_TTL_MAX,
     .help = "how long a lease lasts without a heartbeat"},
    {.name = "wanted",
     ROTA_OPTION_INTO(INT, struct serve, of.wanted),
     .value_name = "N",
     .default_text = "1",
     .min = 1,
     .max = ROTA_LEASE_WANTED_MAX,
     .help = "number of shards to hold, each on its own port, counting up from that of --listen"},
    {.name = "alone",
     ROTA_OPTION_INTO(FLAG, struct serve, of.is_alone),
     .help = "promise that no other process can use this address, so that it reclaims its shards "
             "at once after a crash"},
    {.name = "reshard",
     ROTA_OPTION_INTO(FLAG, struct serve, of.is_reshard),
     .help = "allow changing the data center's number of shards"},
    {.name = "loss",
     ROTA_OPTION_INTO(CHOICE, struct serve, loss),
     .value_name = "WHAT",
     .default_text = "abort",
     .choices = LOSSES,
     .help = "what to do when a shard is lost"},
    {.name = "drain",
     ROTA_OPTION_INTO(SPAN, struct serve, of.drain),
     .value_name = "SPAN",
     .default_text = "10s",
     .min = 0,
     .max = ROTA_HOUR,
     .help = "grace period for running calls at shutdown"},
    {.name = "log",
     ROTA_OPTION_INTO(CHOICE, struct serve, log_level),
     .value_name = "LEVEL",
     .default_text = "info",
     .choices = rota_log_level_names,
     .help = "minimum level of log messages on standard error"},
};

/* --- the process --- */

struct process {
    uv_loop_t loop;
    uv_signal_t signals[2];
    struct rota_log log;
    struct rota_cache_service *service;
    bool is_leaving, is_over, is_forced, is_closed;
    int exit_code;
};

static void stop(struct process *process, int exit_code)
{
    process->is_over = true;
    process->exit_code = exit_code;
    uv_stop(&process->loop);
}

static void write_log(void *data, struct rota_str line)
{
    (void)data;
    fwrite(line.data, 1, line.size, stderr);
}

static void on_ready(void *data)
{
    struct process *process = data;
    for (size_t i = 0; i < rota_cache_service_n_servers(process->service); i++)
        printf("%s%s", i ? "," : "ready grpc=", rota_cache_service_address(process->service, i));
    printf("\n");
    fflush(stdout);
    if (!rota_cli_can_print())
        stop(process, ROTA_CLI_NO);
}

static void on_refused(void *data, const struct rota_error *error)
{
    struct process *process = data;
    if (!process->is_over)
        stop(process, rota_cli_fail_error(error));
}

static void on_left(void *data)
{
    stop(data, ROTA_CLI_OK);
}

static void on_signal(uv_signal_t *handle, int number)
{
    struct process *process = handle->data;
    if (process->is_leaving) {
        rota_log(&process->log, rota_clock_wall(), ROTA_LOG_WARN, "cache ended at once",
                 ROTA_LOG_FACT("signal", number));
        process->is_forced = true;
        stop(process, ROTA_CLI_NO);
        return;
    }
    process->is_leaving = true;
    rota_cache_service_leave(process->service);
}

static void on_closed(void *data)
{
    ((struct process *)data)->is_closed = true;
}

static void on_grace_over(uv_timer_t *timer)
{
    uv_stop(timer->loop);
}

static void run_for_a_while(struct process *process)
{
    static uv_timer_t grace;
    uv_timer_init(&process->loop, &grace);
    uv_timer_start(&grace, on_grace_over, GRACE / ROTA_MSEC, 0);
    uv_unref((uv_handle_t *)&grace);
    uv_run(&process->loop, UV_RUN_DEFAULT);
    uv_close((uv_handle_t *)&grace, NULL);
    uv_run(&process->loop, UV_RUN_NOWAIT);
}

static void open_signals(struct process *process)
{
    static const int NUMBERS[] = {SIGINT, SIGTERM};
    for (size_t i = 0; i < 2; i++) {
        uv_signal_init(&process->loop, &process->signals[i]);
        process->signals[i].data = process;
        uv_signal_start(&process->signals[i], on_signal, NUMBERS[i]);
    }
}

static void end(struct process *process)
{
    for (size_t i = 0; i < 2; i++)
        uv_close((uv_handle_t *)&process->signals[i], NULL);
    rota_cache_service_close(process->service, on_closed, process);
    run_for_a_while(process);
    if (process->is_closed)
        run_for_a_while(process);
    rota_cli_close_loop(&process->loop);
}

static int serve(struct rota_cache_service_options *options, enum rota_log_level level)
{
    /* Stays where it is if the loop can't be ended in time. */
    static struct process process;
    struct rota_error error;
    process.log = (struct rota_log){.level = level, .write = write_log};
    options->log = &process.log;
    options->on_ready = on_ready;
    options->on_refused = on_refused;
    options->on_left = on_left;
    options->data = &process;
    if (uv_loop_init(&process.loop))
        return rota_cli_fail(ROTA_CLI_NO, "no event loop");
    if (rota_cache_service_open(&process.loop, options, &process.service, &error)) {
        process.exit_code = rota_cli_fail_error(&error);
        run_for_a_while(&process);
        rota_cli_close_loop(&process.loop);
        return process.exit_code;
    }
    open_signals(&process);
    if (!process.is_over)
        uv_run(&process.loop, UV_RUN_DEFAULT);
    if (!process.is_forced)
        end(&process);
    return process.exit_code;
}

static int run_serve(int argc, char *const *argv)
{
    struct serve options = {0};
    struct rota_error error;
    int code;
    if (!rota_cli_parse(&rota_cmd_cache_serve, argc, argv, &options, NULL, &code))
        return code;
    options.of.loss = (enum rota_lease_loss)options.loss;
    if (rota_store_options_check(&options.of.store, &error) ||
        rota_cli_check_listen(options.of.listen, options.of.insecure, NULL, &error))
        return rota_cli_fail_error(&error);
    if (options.of.wanted > options.of.shards)
        return rota_cli_fail(ROTA_CLI_BAD, "--wanted %lld is more than --shards %lld",
                             (long long)options.of.wanted, (long long)options.of.shards);
    return serve(&options.of, (enum rota_log_level)options.log_level);
}

const struct rota_cli_command rota_cmd_cache_serve = {
    .command =
        {
            .name = "cache serve",
            .summary = "Serve a shard of a cache over a table or a file",
            .description =
                "Leases a shard of its data center and serves rota.v1.Cache/Get for the keys of "
                "that shard. If no shard is free, the process is a standby until one is. Prints "
                "`ready grpc=ADDRESS` when clients can find it, and logs to standard error. "
                "SIGTERM and SIGINT end it gracefully: it accepts no new calls, finishes running "
                "ones and releases the shard. A second signal ends it at once, with exit code "
                "1.\n\nsql:TABLE reads the columns `key` and `value`, sql:TABLE:K:V the columns K "
                "and V. file:FILE has a key, a tab and a value per line, with the escapes \\t \\n "
                "\\r \\\\ and \\xHH. The file is read again when you move another one into its "
                "place; an invalid one changes nothing. A key has at most 4096 bytes, a value 16 "
                "MiB.\n\nWhen a shard is lost, the process no longer serves it; then it calls "
                "abort(), exits with code 1, or becomes a standby (--loss). docs/cache.md is a "
                "tour.",
            .options = SERVE_OPTIONS,
            .n_options = sizeof SERVE_OPTIONS / sizeof *SERVE_OPTIONS,
            .examples =
                "rota cache serve --store sqlite:cache.db --dc east --shards 2 "
                "--source file:pairs\n"
                "ROTA_STORE=postgres://rota:secret@db/rota rota cache serve --dc west --shards 8 "
                "--source sql:users --listen 10.0.0.7:7600 --insecure\n",
        },
    .run = run_serve,
};
