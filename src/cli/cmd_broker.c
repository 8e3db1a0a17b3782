/* rota broker: a broker of jobs, by itself. */
#include "cli/cli.h"
#include "cli/store_options.h"
#include "core/work/durability.h"
#include "io/clock.h"

#include "descriptors.h"

#include <rota/broker.h>
#include <rota/health.h>
#include <rota/log.h>
#include <rota/members.h>
#include <rota/reflection.h>
#include <rota/server.h>
#include <rota/tls.h>
#include <signal.h>
#include <stdio.h>
#include <uv.h>

struct options {
    const char *data, *listen, *workers, *workers_key, *workers_list;
    const char *store, *nodes, *hosts, *advertise, *certificate, *key, *ca;
    int durability; /* enum rota_durability, and see below */
    int log_level;
    int64_t partitions, jobs_max, bytes_max, segment_size;
    rota_time drain;
    bool insecure, repair;
};

/* Of `durability`. "fsync" says no more than that it is not memory. */
enum { DURABILITY_NOT_GIVEN = -1, DURABILITY_FSYNC = ROTA_DURABILITY_MEMORY + 1 };

static const struct rota_option OPTIONS[] = {
    {.name = "data",
     ROTA_OPTION_INTO(TEXT, struct options, data),
     .value_name = "DIR",
     .min = 1,
     .max = 4000,
     .help = "directory for jobs, created if missing"},
    {.name = "store",
     ROTA_OPTION_INTO(TEXT, struct options, store),
     .value_name = "URL",
     .help = "keep jobs in this database instead, shared by all brokers"},
    {.name = "listen",
     ROTA_OPTION_INTO(TEXT, struct options, listen),
     .value_name = "ADDRESS",
     .default_text = ROTA_NODE_DEFAULT,
     .help = "address to serve gRPC on; port 0 picks a free one"},
    {.name = "nodes",
     ROTA_OPTION_INTO(TEXT, struct options, nodes),
     .value_name = "ADDRESS,...",
     .help = "all brokers of the cluster, including this one"},
    {.name = "hosts",
     ROTA_OPTION_INTO(TEXT, struct options, hosts),
     .value_name = "FILE",
     .help = "the same from a file, one per line; reloaded when it changes"},
    {.name = "advertise",
     ROTA_OPTION_INTO(TEXT, struct options, advertise),
     .value_name = "ADDRESS",
     .help = "address of this broker in that list [default: --listen]"},
    {.name = "workers",
     ROTA_OPTION_INTO(TEXT, struct options, workers),
     .value_name = "ADDRESS",
     .help = "address for workers over ZeroMQ [default: none]"},
    {.name = "workers-key",
     ROTA_OPTION_INTO(TEXT, struct options, workers_key),
     .value_name = "FILE",
     .help = "the broker's key pair from `rota worker-key`, for workers on other machines"},
    {.name = "workers-list",
     ROTA_OPTION_INTO(TEXT, struct options, workers_list),
     .value_name = "FILE",
     .help = "workers that may connect, one name and public key per line"},
    {.name = "durability",
     ROTA_OPTION_INTO(CHOICE, struct options, durability),
     .value_name = "HOW",
     .choices = rota_durability_names,
     .old_choice = "fsync",
     .help = "where to keep jobs: in the journal of --data, in --store, or in memory, lost with "
             "the process [default: by --data or --store]"},
    {.name = "partitions",
     ROTA_OPTION_INTO(INT, struct options, partitions),
     .value_name = "N",
     .default_text = "16",
     .min = 1,
     .max = 65536,
     .help = "default number of partitions of a queue; the same on all nodes"},
    {.name = "jobs-max",
     ROTA_OPTION_INTO(INT, struct options, jobs_max),
     .value_name = "N",
     .default_text = "50000000",
     .min = 1,
     .max = 50000000,
     .help = "maximum number of unfinished jobs; more are rejected"},
    {.name = "memory",
     ROTA_OPTION_INTO(INT, struct options, bytes_max),
     .value_name = "BYTES",
     .default_text = "4294967296",
     .min = 1 << 20,
     .max = INT64_C(1) << 44,
     .help = "maximum memory for payloads and results; jobs that don't fit are rejected"},
    {.name = "segment",
     ROTA_OPTION_INTO(INT, struct options, segment_size),
     .value_name = "BYTES",
     .default_text = "67108864",
     .min = 1 << 16,
     .max = 1 << 30,
     .help = "size of journal files; use a smaller one on a small disk"},
    {.name = "drain",
     ROTA_OPTION_INTO(SPAN, struct options, drain),
     .value_name = "SPAN",
     .default_text = "10s",
     .min = 0,
     .max = ROTA_HOUR,
     .help = "grace period for running calls at shutdown"},
    {.name = "tls-cert",
     ROTA_OPTION_INTO(TEXT, struct options, certificate),
     .value_name = "FILE",
     .help = "certificate for serving and for calling other brokers [default: plaintext]"},
    {.name = "tls-key",
     ROTA_OPTION_INTO(TEXT, struct options, key),
     .value_name = "FILE",
     .help = "private key of the certificate"},
    {.name = "tls-ca",
     ROTA_OPTION_INTO(TEXT, struct options, ca),
     .value_name = "FILE",
     .help = "require client certificates from these CAs, also from other brokers"},
    {.name = "repair",
     ROTA_OPTION_INTO(FLAG, struct options, repair),
     .help = "skip damaged or missing parts of the journal, losing what they held"},
    {.name = "insecure",
     ROTA_OPTION_INTO(FLAG, struct options, insecure),
     .help = "serve plaintext gRPC on addresses other than loopback; ZeroMQ workers still need "
             "keys there"},
    {.name = "log",
     ROTA_OPTION_INTO(CHOICE, struct options, log_level),
     .value_name = "LEVEL",
     .default_text = "info",
     .choices = rota_log_level_names,
     .help = "minimum level of log messages on standard error"},
};

struct service {
    uv_loop_t loop;
    uv_signal_t interrupt, terminate;
    uv_timer_t look;         /* whether it has handed over what it has, when it leaves */
    rota_time leaving_until; /* monotonic */
    const struct options *options;
    struct rota_log log;
    struct rota_tls *tls, *peers_tls; /* NULL: plain text */
    struct rota_server *server;
    struct rota_health *health;
    struct rota_reflection *reflection;
    struct rota_work_broker *broker;
    bool has_signals, is_leaving;
    int exit_code;
};

static void write_log(void *data, struct rota_str line)
{
    (void)data;
    fwrite(line.data, 1, line.size, stderr);
}

static void tell(struct service *service, const char *phrase)
{
    rota_log(&service->log, rota_clock_wall(), ROTA_LOG_INFO, phrase, ROTA_LOG_NO_FACTS);
}

/* One that is not in the list hands its jobs over, and tells the others when it has none left. */
static void look_drained(uv_timer_t *timer)
{
    struct service *service = timer->data;
    if (rota_work_broker_is_drained(service->broker) || rota_clock_mono() >= service->leaving_until)
        uv_stop(&service->loop);
}

static void on_drained(void *data, size_t n_cut)
{
    enum { LOOK_EVERY_MS = 20 };
    struct service *service = data;
    (void)n_cut;
    uv_timer_start(&service->look, look_drained, 0, LOOK_EVERY_MS);
}

static void on_failed(void *data, const struct rota_error *error)
{
    struct service *service = data;
    service->exit_code = rota_cli_fail(ROTA_CLI_NO, "%s", error->text);
    uv_stop(&service->loop);
}

static void on_signal(uv_signal_t *signal, int number)
{
    struct service *service = signal->data;
    (void)number;
    if (service->is_leaving) { /* told twice: at once */
        uv_stop(&service->loop);
        return;
    }
    service->is_leaving = true;
    service->leaving_until = rota_time_add(rota_clock_mono(), service->options->drain);
    tell(service, "broker stopping");
    rota_health_set(service->health, "", false, NULL);
    rota_work_broker_drain(service->broker);
    rota_server_drain(service->server, service->options->drain, on_drained, service);
}

static void open_signals(struct service *service)
{
    uv_signal_init(&service->loop, &service->interrupt);
    uv_signal_init(&service->loop, &service->terminate);
    uv_timer_init(&service->loop, &service->look);
    service->interrupt.data = service->terminate.data = service->look.data = service;
    service->has_signals = true;
    uv_signal_start(&service->interrupt, on_signal, SIGINT);
    uv_signal_start(&service->terminate, on_signal, SIGTERM);
}

static enum rota_code open_tls(struct service *service, struct rota_error *error)
{
    const struct options *options = service->options;
    struct rota_tls_options with = {
        .certificate_file = options->certificate, .key_file = options->key, .ca_file = options->ca};
    if (!options->certificate)
        return ROTA_OK;
    enum rota_code code = rota_tls_server_new(&with, &service->tls, error);
    return code ? code : rota_tls_client_new(&with, &service->peers_tls, error);
}

/* Where the other brokers are; none if it is not said. */
static enum rota_code open_source(const struct options *options,
                                  struct rota_members_source **source, struct rota_error *error)
{
    if (options->nodes)
        return rota_hosts_list_new(options->nodes, source, error);
    if (options->hosts)
        return rota_hosts_watch_new(options->hosts, source, error);
    return ROTA_OK;
}

static enum rota_code open_service(struct service *service, struct rota_error *error)
{
    const struct options *options = service->options;
    enum rota_code code = open_tls(service, error);
    struct rota_server_options with = {.tls = service->tls,
                                       .insecure = options->insecure,
                                       .message_max = ROTA_WORK_BROKER_MESSAGE_MAX,
                                       .calls_max = 65536};
    struct rota_work_broker_options broker = {
        .directory = options->data,
        .store = options->store,
        .is_memory = options->durability == ROTA_DURABILITY_MEMORY,
        .repair = options->repair,
        .workers_address = options->workers,
        .workers_key_file = options->workers_key,
        .workers_file = options->workers_list,
        .tls = service->peers_tls,
        .is_insecure = options->insecure,
        .on_failed = on_failed,
        .data = service,
        .partitions = (uint32_t)options->partitions,
        .jobs_max = (size_t)options->jobs_max,
        .bytes_max = (size_t)options->bytes_max,
        .segment_size = (size_t)options->segment_size,
        .log = &service->log,
    };
    if (!code)
        code = rota_server_open(&service->loop, &with, &service->server, error);
    if (!code)
        code = rota_health_open(service->server, &service->health, error);
    if (!code)
        code = rota_reflection_open(service->server, &rota_proto_descriptors, 1,
                                    &service->reflection, error);
    if (!code)
        code = rota_server_listen(service->server, options->listen, error);
    if (!code)
        code = open_source(options, &broker.members, error);
    if (!code) {
        broker.advertise =
            options->advertise ? options->advertise : rota_server_address(service->server, 0);
        code = rota_work_broker_open(&service->loop, service->server, &broker, &service->broker,
                                     error);
    }
    if (code)
        return code;
    open_signals(service);
    rota_health_set(service->health, "", true, NULL);
    printf("ready grpc=%s", rota_server_address(service->server, 0));
    if (options->workers)
        printf(" zmq=%s", rota_work_broker_workers_address(service->broker));
    printf("\n");
    fflush(stdout);
    return ROTA_OK;
}

static void close_service(struct service *service)
{
    if (service->has_signals) {
        uv_close((uv_handle_t *)&service->interrupt, NULL);
        uv_close((uv_handle_t *)&service->terminate, NULL);
        uv_close((uv_handle_t *)&service->look, NULL);
    }
    rota_server_close(service->server);
    rota_work_broker_close(service->broker);
    rota_health_close(service->health);
    rota_reflection_close(service->reflection);
    uv_run(&service->loop, UV_RUN_DEFAULT);
    uv_loop_close(&service->loop);
    rota_tls_free(service->tls);
    rota_tls_free(service->peers_tls);
}

/* Find out where jobs are kept, which is said once or twice in the same sense; an exit code. */
static int choose_durability(struct options *options)
{
    bool is_said = options->durability != DURABILITY_NOT_GIVEN;
    if (!is_said || options->durability == DURABILITY_FSYNC)
        options->durability = options->store ? ROTA_DURABILITY_STORE : ROTA_DURABILITY_JOURNAL;
    bool is_journal = options->durability == ROTA_DURABILITY_JOURNAL;
    bool is_store = options->durability == ROTA_DURABILITY_STORE;
    if (options->data && options->store)
        return rota_cli_fail(ROTA_CLI_BAD, "give --store or --data, not both");
    if ((options->data && !is_journal) || (options->store && !is_store))
        return rota_cli_fail(ROTA_CLI_BAD, "--%s has no effect with --durability %s",
                             options->data ? "data" : "store",
                             rota_durability_names[options->durability]);
    if (options->repair && !is_journal)
        return rota_cli_fail(ROTA_CLI_BAD,
                             "--repair is for the journal of --data, which is not given");
    if (is_store && !options->store)
        return rota_cli_fail(ROTA_CLI_BAD, "--durability store needs a database: give --store");
    if (is_journal && !options->data && is_said)
        return rota_cli_fail(ROTA_CLI_BAD, "--durability journal needs a directory: give --data");
    if (is_journal && !options->data)
        return rota_cli_fail(
            ROTA_CLI_BAD,
            "where should jobs be kept? Give --data DIR, --store URL, or --durability memory");
    return ROTA_CLI_OK;
}

static int run(int argc, char *const *argv)
{
    struct options options = {.durability = DURABILITY_NOT_GIVEN};
    struct rota_error error;
    int code;
    if (!rota_cli_parse(&rota_cmd_broker, argc, argv, &options, NULL, &code))
        return code;
    if ((code = choose_durability(&options)))
        return code;
    if (options.store && rota_store_options_check(&options.store, &error))
        return rota_cli_fail_error(&error);
    if (options.nodes && options.hosts)
        return rota_cli_fail(ROTA_CLI_BAD, "give --nodes or --hosts, not both");
    if (options.advertise && !options.nodes && !options.hosts && !options.store)
        return rota_cli_fail(ROTA_CLI_BAD, "--advertise needs --nodes, --hosts or --store");
    if ((options.workers_key || options.workers_list) && !options.workers)
        return rota_cli_fail(ROTA_CLI_BAD, "--workers-key and --workers-list need --workers");
    if (!options.certificate != !options.key || (options.ca && !options.certificate))
        return rota_cli_fail(ROTA_CLI_BAD, "--tls-cert and --tls-key go together, and --tls-ca "
                                           "with them");
    if (!options.workers_key != !options.workers_list)
        return rota_cli_fail(ROTA_CLI_BAD, "--workers-key and --workers-list go together: the "
                                           "broker's own keys, and those of its workers");
    if (options.workers && !options.workers_key && rota_cli_is_far(options.workers))
        return rota_cli_fail(ROTA_CLI_BAD,
                             "--workers: %s is not of this machine: workers there need keys, give "
                             "--workers-key and --workers-list",
                             options.workers);
    if (rota_cli_check_listen(options.listen, options.insecure || options.certificate,
                              "--tls-cert and --tls-key", &error))
        return rota_cli_fail_error(&error);
    struct service service = {.options = &options};
    service.log =
        (struct rota_log){.level = (enum rota_log_level)options.log_level, .write = write_log};
    signal(SIGXFSZ, SIG_IGN); /* a write beyond `ulimit -f` is told by an error */
    if (uv_loop_init(&service.loop))
        return rota_cli_fail(ROTA_CLI_NO, "no event loop");
    if (open_service(&service, &error))
        service.exit_code = rota_cli_fail_error(&error);
    else
        uv_run(&service.loop, UV_RUN_DEFAULT);
    close_service(&service);
    return service.exit_code;
}

const struct rota_cli_command rota_cmd_broker = {
    .command =
        {
            .name = "broker",
            .summary = "Serve queues without a cluster",
            .description =
                "Serves rota.v1.Queue, the standard health service and reflection until "
                "interrupted. Prints `ready grpc=ADDRESS zmq=ADDRESS` when it does, the latter "
                "with --workers. After a crash it recovers every acknowledged job from --data; "
                "only one broker can use a directory. On SIGTERM or SIGINT it accepts and starts "
                "no more jobs, answers waiting polls, and lets running calls finish for --drain. A "
                "second signal stops it at once.",
            .options = OPTIONS,
            .n_options = sizeof OPTIONS / sizeof *OPTIONS,
            .examples = "rota broker --data jobs --listen 127.0.0.1:7700 --workers 127.0.0.1:7701\n"
                        "rota broker --durability memory\n",
        },
    .run = run,
};
