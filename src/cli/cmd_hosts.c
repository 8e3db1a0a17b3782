/* rota hosts: a hosts file as Rota reads it, once or for as long as it changes. */
#include "base/json.h"
#include "cli/cli.h"

#include <stdio.h>

struct hosts {
    rota_time at;
    bool json;
};

static const struct rota_option CHECK_OPTIONS[] = {
    {.name = "at",
     ROTA_OPTION_INTO(TIME, struct hosts, at),
     .value_name = "TIME",
     .help = "the moment at which to look which hosts are placed; now if not given"},
    {.name = "json", ROTA_OPTION_INTO(FLAG, struct hosts, json), .help = "answer in JSON"},
};

/* Why a host does not stand on the ring, or that it does. */
static const char *state_of(const struct rota_host *host, rota_time now)
{
    if (rota_host_is_placed(host, now))
        return "on ring";
    if (host->is_draining)
        return "draining";
    return host->start_at > now ? "not yet" : "stopped";
}

static void add_time(struct rota_json *json, const char *key, rota_time time)
{
    char text[ROTA_TIME_TEXT_MAX];
    rota_json_key(json, key);
    rota_json_text(json, time ? rota_time_format(time, text) : NULL);
}

static void append_json(struct rota_buffer *buffer, const struct rota_hosts *hosts, rota_time now)
{
    struct rota_json json = {.buffer = buffer};
    size_t n_placed = 0;
    rota_json_begin_object(&json);
    rota_json_key(&json, "hosts");
    rota_json_begin_array(&json);
    for (size_t i = 0; i < hosts->n_hosts; i++) {
        const struct rota_host *host = &hosts->hosts[i];
        bool is_placed = rota_host_is_placed(host, now);
        n_placed += is_placed;
        rota_json_begin_object(&json);
        rota_json_key(&json, "host");
        rota_json_string(&json, host->address);
        rota_json_key(&json, "zone");
        rota_json_string(&json, host->zone);
        rota_json_key(&json, "weight");
        rota_json_double(&json, (double)host->weight / ROTA_WEIGHT_ONE);
        rota_json_key(&json, "draining");
        rota_json_bool(&json, host->is_draining);
        add_time(&json, "start_at", host->start_at);
        add_time(&json, "stop_at", host->stop_at);
        rota_json_key(&json, "on_ring");
        rota_json_bool(&json, is_placed);
        rota_json_end_object(&json);
    }
    rota_json_end_array(&json);
    rota_json_key(&json, "on_ring");
    rota_json_uint(&json, n_placed);
    rota_json_end_object(&json);
    rota_buffer_append_char(buffer, '\n');
}

static void append_text(struct rota_buffer *buffer, const struct rota_hosts *hosts, rota_time now)
{
    char text[ROTA_TIME_TEXT_MAX];
    for (size_t i = 0; i < hosts->n_hosts; i++) {
        const struct rota_host *host = &hosts->hosts[i];
        rota_buffer_append_str(buffer, host->address);
        rota_buffer_print(buffer, "\t%s\tweight=%g", state_of(host, now),
                          (double)host->weight / ROTA_WEIGHT_ONE);
        if (host->zone.size > 0)
            rota_buffer_print(buffer, "\tzone=%.*s", ROTA_STR_ARGS(host->zone));
        if (host->start_at)
            rota_buffer_print(buffer, "\tstart_at=%s", rota_time_format(host->start_at, text));
        if (host->stop_at)
            rota_buffer_print(buffer, "\tstop_at=%s", rota_time_format(host->stop_at, text));
        rota_buffer_append_char(buffer, '\n');
    }
}

static int run_check(int argc, char *const *argv)
{
    struct hosts options = {.at = ROTA_TIME_MIN};
    struct rota_option_list arguments;
    struct rota_buffer buffer = {0};
    struct rota_hosts hosts;
    struct rota_ring *ring;
    struct rota_error error;
    int code;
    if (!rota_cli_parse(&rota_cmd_hosts_check, argc, argv, &options, &arguments, &code))
        return code;

    /* A ring is built as well, for what only that can refuse. */
    const char *path = arguments.items[0];
    rota_time now = rota_cli_now(options.at);
    if (rota_cli_read_hosts(path, &hosts, &error))
        return rota_cli_fail_error(&error);
    if (rota_cli_build_ring(path, hosts.hosts, hosts.n_hosts, now, 0, &ring, &error)) {
        rota_hosts_deinit(&hosts);
        return rota_cli_fail_error(&error);
    }
    rota_ring_unref(ring);
    if (options.json)
        append_json(&buffer, &hosts, now);
    else
        append_text(&buffer, &hosts, now);
    rota_hosts_deinit(&hosts);
    return rota_cli_print(&buffer);
}

const struct rota_cli_command rota_cmd_hosts_check = {
    .command =
        {
            .name = "hosts check",
            .summary = "Read a hosts file and tell the state of its hosts",
            .arguments = "FILE",
            .min_arguments = 1,
            .max_arguments = 1,
            .description =
                "Prints a line for each host, with tabs between its parts: the address; `on "
                "ring`, `draining`, `not yet` (its start_at is to come) or `stopped` (its stop_at "
                "has passed); then weight, zone, start_at and stop_at as the file has them. A "
                "mistake in the file is told with its line, exit code 2.\n\n"
                "With --json: {\"hosts\": [{\"host\", \"zone\", \"weight\", \"draining\", "
                "\"start_at\", \"stop_at\", \"on_ring\"}], \"on_ring\": how many are}.",
            .options = CHECK_OPTIONS,
            .n_options = sizeof CHECK_OPTIONS / sizeof *CHECK_OPTIONS,
            .examples = "rota hosts check hosts\n"
                        "rota hosts check hosts --at 2026-01-31T12:00:00Z\n",
        },
    .run = run_check,
};
