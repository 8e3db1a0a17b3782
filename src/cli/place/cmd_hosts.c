/* rota hosts: a hosts file or the members of a store as Rota reads them, once or as they change. */
#include "base/json.h"
#include "cli/cli.h"
#include "cli/terminal.h"
#include "cli/watch.h"
#include "io/clock.h"

#include <rota/experimental/members.h>
#include <rota/experimental/store_members.h>
#include <stdlib.h>

struct hosts {
    struct rota_host_options from;
    rota_time at;
    bool json;
    int output;
};

/* Whether a host is on the ring, or why not. */
static const char *state_of(const struct rota_host *host, bool is_placed, rota_time now)
{
    if (is_placed)
        return "on ring";
    if (host->is_draining)
        return "draining";
    return host->stop_at && host->stop_at <= now ? "stopped" : "not yet";
}

static void take_argument(struct rota_host_options *from, const struct rota_option_list *arguments)
{
    from->is_argument = true;
    from->file = arguments->size ? arguments->items[0] : NULL;
}

/* --- check --- */

static const struct rota_option CHECK_OPTIONS[] = {
    ROTA_MEMBER_OPTIONS(struct hosts, from.store, from.role),
    {.name = "at",
     ROTA_OPTION_INTO(TIME, struct hosts, at),
     .value_name = "TIME",
     .help = "compute for this time [default: now]"},
    {.name = "json", ROTA_OPTION_INTO(FLAG, struct hosts, json), .help = "print JSON"},
    ROTA_TABLE_OPTION(struct hosts, output),
};

static void add_size(struct rota_json *json, const struct rota_host *host)
{
    rota_json_add_string(json, "zone", host->zone);
    rota_json_add_double(json, "weight", (double)host->weight / ROTA_WEIGHT_ONE);
}

static void append_json(struct rota_buffer *buffer, const struct rota_hosts *hosts, rota_time now)
{
    struct rota_json json = {.buffer = buffer};
    size_t n_placed = 0;
    rota_json_begin_object(&json);
    rota_json_add_array(&json, "hosts");
    for (size_t i = 0; i < hosts->n_hosts; i++) {
        const struct rota_host *host = &hosts->hosts[i];
        bool is_placed = rota_host_is_placed(host, now);
        n_placed += is_placed;
        rota_json_begin_object(&json);
        rota_json_add_string(&json, "host", host->address);
        rota_json_add_text(&json, "state", state_of(host, is_placed, now));
        add_size(&json, host);
        rota_json_add_bool(&json, "draining", host->is_draining);
        rota_cli_add_time(&json, "start_at", host->start_at);
        rota_cli_add_time(&json, "stop_at", host->stop_at);
        rota_json_add_bool(&json, "on_ring", is_placed);
        rota_json_end_object(&json);
    }
    rota_json_end_array(&json);
    rota_json_add_uint(&json, "on_ring", n_placed);
    rota_json_end_object(&json);
    rota_buffer_append_char(buffer, '\n');
}

/* The columns for weight and zone. */
static void append_size(struct rota_buffer *buffer, const struct rota_host *host)
{
    rota_buffer_print(buffer, "\tweight=%g", (double)host->weight / ROTA_WEIGHT_ONE);
    if (host->zone.size > 0) {
        rota_buffer_append_text(buffer, "\tzone=");
        rota_terminal_append(buffer, host->zone);
    }
}

static const struct rota_table_column COLUMNS[] = {
    {"HOST", "host", ROTA_TABLE_NAME, false},
    {"STATE", "state", ROTA_TABLE_STATE, false},
    {"WEIGHT", "weight", ROTA_TABLE_NUMBER, false},
    {"ZONE", "zone", ROTA_TABLE_TEXT, false},
    {"START AT", "start_at", ROTA_TABLE_TIME, false},
    {"STOP AT", "stop_at", ROTA_TABLE_TIME, false},
};
static const struct rota_table TABLE = ROTA_TABLE_OF("hosts", COLUMNS);

static int run_check(int argc, char *const *argv)
{
    struct hosts options = {.at = ROTA_TIME_MIN};
    struct rota_option_list arguments;
    struct rota_buffer buffer = {0};
    struct rota_hosts hosts = {0};
    struct rota_ring *ring = NULL;
    struct rota_error error;
    int code;
    if (!rota_cli_parse(&rota_cmd_hosts_check, argc, argv, &options, &arguments, &code))
        return code;

    /* Build the ring as well, since only that detects some errors. */
    char text[ROTA_SQL_URL_TEXT_MAX];
    rota_time now = rota_cli_now(options.at);
    take_argument(&options.from, &arguments);
    if (rota_host_options_check(&options.from, &error) ||
        rota_host_options_read(&options.from, &hosts, &error))
        return rota_cli_fail_error(&error);
    const char *name = rota_host_options_name(&options.from, text);
    if (hosts.n_hosts == 0) {
        rota_hosts_file_deinit(&hosts);
        return rota_cli_fail(ROTA_CLI_NO, "%s: the file has no hosts", name);
    }
    if (rota_cli_build_ring(name, hosts.hosts, hosts.n_hosts, now, 0, &ring, &error)) {
        rota_hosts_file_deinit(&hosts);
        return rota_cli_fail_error(&error);
    }
    rota_ring_unref(ring);
    append_json(&buffer, &hosts, now);
    rota_hosts_file_deinit(&hosts);
    return rota_cli_answer(&rota_cmd_hosts_check, options.json ? ROTA_TABLE_JSON : options.output,
                           &buffer);
}

const struct rota_cli_command rota_cmd_hosts_check = {
    .command =
        {
            .name = "hosts check",
            .summary = "Check a hosts file and show the state of its hosts",
            .arguments = "[FILE]",
            .max_arguments = 1,
            .description =
                "Columns: HOST; STATE: `on ring`, `draining`, `not yet` (its start_at is in the "
                "future) or `stopped` (its stop_at has passed); WEIGHT, ZONE, START AT and STOP AT "
                "as in the file. An invalid file is reported with the line number, exit code 2; a "
                "file without hosts is exit code 1. Without a file the hosts are the live members "
                "of a store.\n\nWith --json: {\"hosts\": [{\"host\", \"state\", \"zone\", "
                "\"weight\", \"draining\", \"start_at\", "
                "\"stop_at\", \"on_ring\"}], \"on_ring\": number on the ring}.",
            .options = CHECK_OPTIONS,
            .n_options = sizeof CHECK_OPTIONS / sizeof *CHECK_OPTIONS,
            .examples = "rota hosts check hosts\n"
                        "rota hosts check hosts --at 2026-01-31T12:00:00Z\n",
        },
    .table = &TABLE,
    .run = run_check,
};

/* --- watch --- */

static const struct rota_option WATCH_OPTIONS[] = {
    ROTA_MEMBER_OPTIONS(struct hosts, from.store, from.role),
    {.name = "json",
     ROTA_OPTION_INTO(FLAG, struct hosts, json),
     .help = "print one JSON object per line"},
};

struct hosts_watch {
    struct rota_watch watch;
    struct rota_host_options from;
    struct rota_store *store; /* NULL: a file is watched */
    struct rota_members *members;
};

/* A line for a host: its state, address, weight and zone. A host that the file no longer names is
 * gone. */
static void tell_host(struct hosts_watch *watch, struct rota_str address,
                      const struct rota_member *member)
{
    struct rota_json *json = &watch->watch.json;
    rota_watch_begin(&watch->watch,
                     member ? state_of(&member->host, member->is_placed, rota_clock_wall())
                            : "gone");
    if (watch->watch.is_json) {
        rota_json_add_string(json, "host", address);
        if (member)
            add_size(json, &member->host);
    } else {
        rota_buffer_append_char(&watch->watch.line, '\t');
        rota_terminal_append(&watch->watch.line, address);
        if (member)
            append_size(&watch->watch.line, &member->host);
    }
    rota_watch_end(&watch->watch);
}

static int compare_address(const void *key, const void *item)
{
    return rota_str_compare(*(const struct rota_str *)key,
                            ((const struct rota_member *)item)->host.address);
}

static void tell_all(struct hosts_watch *watch, const struct rota_str *hosts, size_t n)
{
    size_t n_members;
    const struct rota_member *list = rota_members_list(watch->members, &n_members);
    for (size_t i = 0; i < n && !watch->watch.is_failed; i++)
        tell_host(watch, hosts[i],
                  n_members ? bsearch(&hosts[i], list, n_members, sizeof *list, compare_address)
                            : NULL);
}

static void on_change(void *data, const struct rota_members_change *change)
{
    tell_all(data, change->removed, change->n_removed);
    tell_all(data, change->added, change->n_added);
    tell_all(data, change->changed, change->n_changed);
}

static void on_error(void *data, const struct rota_error *error)
{
    rota_watch_refuse(&((struct hosts_watch *)data)->watch, error);
}

static void tell_members(struct hosts_watch *watch)
{
    size_t n;
    const struct rota_member *list = rota_members_list(watch->members, &n);
    if (n == 0) {
        rota_watch_begin(&watch->watch, "no hosts");
        rota_watch_end(&watch->watch);
    }
    for (size_t i = 0; i < n && !watch->watch.is_failed; i++)
        tell_host(watch, list[i].host.address, &list[i]);
}

static enum rota_code open_source(struct hosts_watch *watch, struct rota_members_source **source,
                                  struct rota_error *error)
{
    const struct rota_store_options options = {.url = watch->from.store};
    if (watch->from.file)
        return rota_hosts_watch_new(watch->from.file, source, error);
    enum rota_code code = rota_store_open(watch->watch.loop, &options, &watch->store, error);
    return code ? code : rota_store_members_new(watch->store, watch->from.role, 0, source, error);
}

static enum rota_code open_watch(struct rota_watch *base, struct rota_error *error)
{
    struct hosts_watch *watch = (struct hosts_watch *)base;
    struct rota_members_options options = {.on_error = on_error, .data = watch};
    struct rota_members_source *source;
    enum rota_code code = open_source(watch, &source, error);
    if (code == ROTA_OK)
        code = rota_members_open(base->loop, source, &options, &watch->members, error);
    if (code)
        return code;
    if (!watch->store) /* its first answer has not arrived yet */
        tell_members(watch);
    return rota_members_subscribe(watch->members, "rota hosts watch", on_change, watch, error);
}

static void close_watch(struct rota_watch *base)
{
    struct hosts_watch *watch = (struct hosts_watch *)base;
    rota_members_close(watch->members);
    rota_store_close(watch->store);
}

static int run_watch(int argc, char *const *argv)
{
    struct hosts options = {0};
    struct rota_option_list arguments;
    struct rota_error error;
    int code;
    if (!rota_cli_parse(&rota_cmd_hosts_watch, argc, argv, &options, &arguments, &code))
        return code;
    take_argument(&options.from, &arguments);
    if (rota_host_options_check(&options.from, &error))
        return rota_cli_fail_error(&error);
    struct hosts_watch watch = {.from = options.from};
    return rota_watch_command(&watch.watch, options.json, open_watch, close_watch);
}

const struct rota_cli_command rota_cmd_hosts_watch = {
    .command =
        {
            .name = "hosts watch",
            .summary = "Report changes of the ring as a hosts file changes",
            .arguments = "[FILE]",
            .max_arguments = 1,
            .description =
                "Prints one line per host, and then one per change, until interrupted, with "
                "tab-separated values: the time; the new state, `on ring`, `draining`, `not yet`, "
                "`stopped` (as in `hosts check`) or `gone` from the file; the address; weight and "
                "zone. start_at and stop_at take effect on time. A file without hosts is reported "
                "as `no hosts`. If the file becomes empty, invalid or unreadable, that is reported "
                "as `refused` with the reason, and the hosts stay as they were. Without a file the "
                "live members of a store are watched.\n\nWith --json: {\"time\", \"event\", "
                "\"host\", \"zone\", \"weight\"} or {\"time\", \"event\": \"refused\", \"error\"} "
                "per line; the event is the same word as in the text.",
            .options = WATCH_OPTIONS,
            .n_options = sizeof WATCH_OPTIONS / sizeof *WATCH_OPTIONS,
            .examples = "rota hosts watch hosts\n",
        },
    .run = run_watch,
};
