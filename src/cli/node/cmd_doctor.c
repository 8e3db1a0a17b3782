/* rota doctor: what is wrong here, and how to fix it. */
#include "cli/node/doctor.h"

#include "base/json.h"
#include "cli/cli.h"
#include "cli/store_options.h"
#include "cli/terminal.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

struct doctor_options {
    struct rota_tls_words tls; /* for `node` */
    const char *data, *store, *log, *group, *certificate, *key, *ca, *node;
    struct rota_option_list listen;
    int64_t memory;
    rota_time timeout;
    bool insecure, json;
    int output;
};

static const struct rota_option OPTIONS[] = {
    {.name = "data",
     ROTA_OPTION_INTO(TEXT, struct doctor_options, data),
     .value_name = "DIR",
     .default_text = ".",
     .help = "directory for journals and databases"},
    ROTA_STORE_OPTION(struct doctor_options, store),
    {.name = "log",
     ROTA_OPTION_INTO(TEXT, struct doctor_options, log),
     .value_name = "URL",
     .help = "log of a group: sqlite:PATH, postgres://... or kafka://HOST:PORT"},
    {.name = "group",
     ROTA_OPTION_INTO(TEXT, struct doctor_options, group),
     .value_name = "NAME",
     .default_text = "rota",
     .help = "name of the group in --log"},
    {.name = "memory",
     ROTA_OPTION_INTO(INT, struct doctor_options, memory),
     .value_name = "BYTES",
     .default_text = "0",
     .max = INT64_C(1) << 44,
     .help = "total of a node's `memory` settings, to check that the machine has that much"},
    {.name = "listen",
     ROTA_OPTION_INTO(LIST, struct doctor_options, listen),
     .value_name = "ADDRESS",
     .help = "address a server should listen on"},
    {.name = "cert",
     ROTA_OPTION_INTO(TEXT, struct doctor_options, certificate),
     .value_name = "FILE",
     .help = "certificate of a server"},
    {.name = "key",
     ROTA_OPTION_INTO(TEXT, struct doctor_options, key),
     .value_name = "FILE",
     .help = "private key of the certificate"},
    {.name = "ca",
     ROTA_OPTION_INTO(TEXT, struct doctor_options, ca),
     .value_name = "FILE",
     .help = "CAs of client certificates"},
    ROTA_TLS_OPTIONS(struct doctor_options, tls.ca, tls.certificate, tls.key),
    {.name = "node",
     ROTA_OPTION_INTO(TEXT, struct doctor_options, node),
     .value_name = "ADDRESS,...",
     .help = "running nodes to check [env ROTA_NODE]"},
    {.name = "insecure",
     ROTA_OPTION_INTO(FLAG, struct doctor_options, insecure),
     .help = "allow plaintext connections to other machines"},
    {.name = "timeout",
     ROTA_OPTION_INTO(SPAN, struct doctor_options, timeout),
     .value_name = "DURATION",
     .default_text = "10s",
     .min = ROTA_MSEC,
     .max = ROTA_HOUR,
     .help = "how long to wait for a log or a node"},
    {.name = "json", ROTA_OPTION_INTO(FLAG, struct doctor_options, json), .help = "print JSON"},
    ROTA_TABLE_OPTION_HELP(struct doctor_options, output,
                           "output format; auto is a paragraph for each finding"),
};

void rota_cmd_doctor_find(struct rota_doctor *doctor, const char *what, enum rota_verdict verdict,
                          const char *fix, const char *format, ...)
{
    struct rota_finding finding = {.what = what, .verdict = verdict, .fix = fix};
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(finding.found, sizeof finding.found, format, arguments);
    va_end(arguments);
    if (!rota_vector_push(&doctor->findings, finding))
        doctor->has_failed = true;
}

char *rota_cmd_doctor_span(rota_time span, char text[ROTA_TIME_TEXT_MAX])
{
    rota_time unit = 1;
    while (span / unit >= 100)
        unit *= 10;
    return rota_span_format(span / unit * unit, text);
}

/* ROTA_STORE and ROTA_NODE count only if the user named nothing: a check of a certificate need not
 * contact the node that ROTA_NODE happens to name. */
static const char *from_environment(const struct doctor_options *options, const char *name)
{
    const char *set = getenv(name);
    bool has_asked = options->store || options->log || options->certificate || options->key ||
                     options->ca || options->node || options->listen.size > 0;
    return !has_asked && set && *set ? set : NULL;
}

/* Each of "ADDRESS,...". */
static void look_at_nodes(struct rota_doctor *doctor, const struct doctor_options *options,
                          uv_loop_t *loop)
{
    const struct rota_doctor_asking how = {
        .tls = &options->tls, .is_insecure = options->insecure, .timeout = options->timeout};
    const char *given = options->node ? options->node : from_environment(options, "ROTA_NODE");
    if (!given)
        return;
    char *text = strdup(given);
    if (!text)
        doctor->has_failed = true;
    for (char *rest = text, *address; (address = strsep(&rest, ","));)
        rota_doctor_node(doctor, loop, address, &how);
    free(text);
}

static void look_at_all(struct rota_doctor *doctor, const struct doctor_options *options,
                        uv_loop_t *loop)
{
    const char *store = options->store ? options->store : from_environment(options, "ROTA_STORE");
    rota_doctor_clock(doctor);
    rota_doctor_limits(doctor, (uint64_t)options->memory);
    rota_doctor_disk(doctor, options->data);
    if (store)
        rota_doctor_store(doctor, store);
    if (options->log)
        rota_doctor_log(doctor, loop, options->log, options->group, options->timeout);
    if (options->certificate || options->key || options->ca)
        rota_doctor_tls(doctor, options->certificate, options->key, options->ca);
    for (size_t i = 0; i < options->listen.size; i++)
        rota_doctor_port(doctor, loop, options->listen.items[i]);
    look_at_nodes(doctor, options, loop);
}

static const char *const VERDICTS[] = {
    [ROTA_VERDICT_OK] = "ok", [ROTA_VERDICT_WARN] = "warn", [ROTA_VERDICT_FAIL] = "fail"};

static void append_json(const struct rota_doctor *doctor, struct rota_buffer *buffer)
{
    struct rota_json json = {.buffer = buffer};
    rota_json_begin_object(&json);
    rota_json_add_array(&json, "findings");
    for (size_t i = 0; i < doctor->findings.size; i++) {
        const struct rota_finding *finding = &doctor->findings.items[i];
        rota_json_begin_object(&json);
        rota_json_add_text(&json, "what", finding->what);
        rota_json_add_text(&json, "verdict", VERDICTS[finding->verdict]);
        rota_json_add_text(&json, "found", finding->found);
        rota_json_add_text(&json, "fix", finding->fix);
        rota_json_end_object(&json);
    }
    rota_json_end_array(&json);
    rota_json_end_object(&json);
    rota_buffer_append_char(buffer, '\n');
}

static void append_text(const struct rota_doctor *doctor, struct rota_buffer *buffer)
{
    static const enum rota_color COLORS[] = {[ROTA_VERDICT_OK] = ROTA_COLOR_GREEN,
                                             [ROTA_VERDICT_WARN] = ROTA_COLOR_YELLOW,
                                             [ROTA_VERDICT_FAIL] = ROTA_COLOR_RED};
    enum { INDENT = 6 };
    struct rota_terminal terminal = rota_terminal_look();
    struct rota_buffer line = {0};
    for (size_t i = 0; i < doctor->findings.size; i++) {
        const struct rota_finding *finding = &doctor->findings.items[i];
        rota_buffer_print(
            buffer, "%s%-4s%s  ", rota_terminal_color(&terminal, COLORS[finding->verdict]),
            VERDICTS[finding->verdict], rota_terminal_color(&terminal, ROTA_COLOR_NONE));
        rota_buffer_clear(&line);
        rota_buffer_print(&line, "%s: ", finding->what);
        rota_terminal_append(&line, rota_str(finding->found));
        rota_terminal_wrap(buffer, rota_buffer_str(&line).data, INDENT, terminal.width);
        if (finding->fix) {
            rota_buffer_print(buffer, "%*s", INDENT, "");
            rota_terminal_wrap(buffer, finding->fix, INDENT, terminal.width);
        }
    }
    rota_buffer_deinit(&line);
}

static const struct rota_table_column COLUMNS[] = {
    {"CHECK", "what", ROTA_TABLE_NAME, false},
    {"VERDICT", "verdict", ROTA_TABLE_STATE, false},
    {"FOUND", "found", ROTA_TABLE_TEXT, false},
    {"FIX", "fix", ROTA_TABLE_TEXT, false},
};
static const struct rota_table TABLE = ROTA_TABLE_OF("findings", COLUMNS);

static int run_doctor(int argc, char *const *argv)
{
    struct doctor_options options = {0};
    struct rota_doctor doctor = {0};
    struct rota_buffer buffer = {0};
    uv_loop_t loop;
    int code;
    if (!rota_cli_parse(&rota_cmd_doctor, argc, argv, &options, NULL, &code))
        return code;
    if (uv_loop_init(&loop))
        return rota_cli_fail(ROTA_CLI_NO, "no event loop");
    look_at_all(&doctor, &options, &loop);
    uv_loop_close(&loop);
    if (options.json)
        options.output = ROTA_TABLE_JSON;
    if (options.output == ROTA_TABLE_AUTO)
        append_text(&doctor, &buffer);
    else
        append_json(&doctor, &buffer);
    bool is_well = !doctor.has_failed;
    for (size_t i = 0; i < doctor.findings.size; i++)
        is_well &= doctor.findings.items[i].verdict != ROTA_VERDICT_FAIL;
    rota_vector_deinit(&doctor.findings);
    code = options.output == ROTA_TABLE_AUTO
               ? rota_cli_print(&buffer)
               : rota_cli_answer(&rota_cmd_doctor, options.output, &buffer);
    return code || is_well ? code : ROTA_CLI_NO;
}

const struct rota_cli_command rota_cmd_doctor = {
    .command =
        {
            .name = "doctor",
            .summary = "Check this machine and the servers Rota uses",
            .description =
                "Checks what Rota needs and prints one line per finding: `ok`, `warn` (works, but "
                "not as well or as safely as it could) or `fail` (cannot work), and below it how "
                "to fix it. The clock, the limits and the data directory are always checked; a "
                "database, a log, certificates, addresses and nodes if you name them. ROTA_STORE "
                "and ROTA_NODE are used only if you name none of these. Nothing is changed, except "
                "for a temporary file in the data directory to measure the disk.\n\nThe columns of "
                "the other formats are CHECK, VERDICT, FOUND and FIX. With --json: "
                "{\"findings\": [{\"what\", \"verdict\", \"found\", \"fix\"}]}. Exits 1 if "
                "something fails.",
            .options = OPTIONS,
            .n_options = sizeof OPTIONS / sizeof *OPTIONS,
            .examples = "rota doctor --data /var/lib/rota --listen 127.0.0.1:7700\n"
                        "rota doctor --store postgres://rota@db/rota --node 127.0.0.1:7700\n",
        },
    .table = &TABLE,
    .run = run_doctor,
};
