/* rota lease: show and freeze the leases in a store. */
#include "base/json.h"
#include "cli/cli.h"
#include "cli/dry_run.h"
#include "cli/store_options.h"
#include "cli/terminal.h"
#include "io/sql/store_session.h"

struct lease {
    const char *store, *space, *dc;
    rota_time span;
    bool json, dry_run;
    int output;
};

#define SPACE_OPTION                                                                               \
    {                                                                                              \
        .name = "space", ROTA_OPTION_INTO(TEXT, struct lease, space), .value_name = "NAME",        \
        .default_text = "cache/cache", .min = 1, .max = ROTA_STORE_NAME_MAX,                       \
        .help = "name of the space (for a cache: cache/NAME)"                                      \
    }
#define JSON_OPTION                                                                                \
    {                                                                                              \
        .name = "json", ROTA_OPTION_INTO(FLAG, struct lease, json), .help = "print JSON"           \
    }

/* --- asking --- */

/* Fills `*answer`; rota_store_session_answer_deinit() frees it. */
static enum rota_code ask(const struct lease *lease, const struct rota_store_request *request,
                          struct rota_store_answer *answer, struct rota_error *error)
{
    return rota_store_options_ask(lease->store, request, 1, answer, error);
}

/* With all six digits the store keeps. */
static void add_time(struct rota_json *json, const char *key, rota_time time)
{
    char text[ROTA_TIME_TEXT_MAX];
    rota_json_add_text(json, key, time ? rota_terminal_format_time(time, 6, text) : NULL);
}

/* --- list --- */

static const struct rota_option LIST_OPTIONS[] = {
    ROTA_STORE_OPTION(struct lease, store),
    SPACE_OPTION,
    {.name = "dc",
     ROTA_OPTION_INTO(TEXT, struct lease, dc),
     .value_name = "NAME",
     .min = 1,
     .max = ROTA_STORE_NAME_MAX,
     .help = "only this data center"},
    JSON_OPTION,
    ROTA_TABLE_OPTION(struct lease, output),
};

static const char *state_of(const struct rota_store_lease *lease, rota_time now)
{
    if (lease->instance == 0)
        return lease->epoch ? "free" : "new";
    return rota_time_add(lease->last_ping, lease->ttl) < now ? "expired" : "held";
}

/* How many shards the dc has now; 0: unknown. */
static uint32_t shards_of(const struct rota_store_answer *dcs, struct rota_str dc)
{
    for (size_t i = 0; i < dcs->n_dcs; i++)
        if (rota_str_is_equal(dcs->dcs[i].name, dc))
            return dcs->dcs[i].shards;
    return 0;
}

static void append_list_json(struct rota_buffer *buffer, const struct rota_store_answer *answer,
                             const struct rota_store_answer *dcs)
{
    struct rota_json json = {.buffer = buffer};
    rota_json_begin_object(&json);
    add_time(&json, "now", answer->db_now);
    rota_json_add_array(&json, "leases");
    for (size_t i = 0; i < answer->n_leases; i++) {
        const struct rota_store_lease *lease = &answer->leases[i];
        rota_json_begin_object(&json);
        rota_json_add_string(&json, "dc", lease->dc);
        rota_json_add_uint(&json, "shard", lease->shard);
        rota_json_add_uint(&json, "of", lease->shards);
        rota_json_add_uint(&json, "shards", shards_of(dcs, lease->dc));
        rota_json_add_text(&json, "state", state_of(lease, answer->db_now));
        rota_json_add_string(&json, "host", lease->host);
        rota_json_add_uint(&json, "epoch", lease->epoch);
        rota_json_add_uint(&json, "pings", lease->pings);
        add_time(&json, "granted_at", lease->locked_at);
        add_time(&json, "last_ping", lease->last_ping);
        rota_json_add_double(&json, "ttl", (double)lease->ttl / ROTA_SEC);
        rota_json_end_object(&json);
    }
    rota_json_end_array(&json);
    rota_json_end_object(&json);
    rota_buffer_append_char(buffer, '\n');
}

static const struct rota_table_column LIST_COLUMNS[] = {
    {"DC", "dc", ROTA_TABLE_TEXT, false},
    {"SHARD", "shard", ROTA_TABLE_NUMBER, false},
    {"STATE", "state", ROTA_TABLE_STATE, false},
    {"HOST", "host", ROTA_TABLE_NAME, false},
    {"SHARDS", "shards", ROTA_TABLE_NUMBER, false},
    {"EPOCH", "epoch", ROTA_TABLE_NUMBER, false},
    {"CLAIMED OF", "of", ROTA_TABLE_NUMBER, false},
    {"HEARTBEAT", "last_ping", ROTA_TABLE_AGE, false},
};
static const struct rota_table LIST_TABLE = ROTA_TABLE_OF("leases", LIST_COLUMNS);

static int run_list(int argc, char *const *argv)
{
    struct lease options = {0};
    struct rota_store_answer answers[2] = {0};
    struct rota_buffer buffer = {0};
    struct rota_error error;
    int code;
    if (!rota_cli_parse(&rota_cmd_lease_list, argc, argv, &options, NULL, &code))
        return code;
    const struct rota_store_request requests[] = {
        {.verb = ROTA_STORE_LEASES,
         .space = rota_str(options.space),
         .dc = rota_str(options.dc ? options.dc : "")},
        {.verb = ROTA_STORE_DCS, .space = rota_str(options.space)},
    };
    if (rota_store_options_ask(options.store, requests, 2, answers, &error))
        return rota_cli_fail_error(&error);
    bool is_empty = answers[0].n_leases == 0;
    append_list_json(&buffer, &answers[0], &answers[1]);
    rota_store_session_answer_deinit(&answers[0]);
    rota_store_session_answer_deinit(&answers[1]);
    if (!is_empty)
        return rota_cli_answer(&rota_cmd_lease_list,
                               options.json ? ROTA_TABLE_JSON : options.output, &buffer);
    rota_buffer_deinit(&buffer);
    return rota_cli_fail(ROTA_CLI_NO,
                         "the space %s has no shards in the store; --space names another",
                         options.space);
}

const struct rota_cli_command rota_cmd_lease_list = {
    .command =
        {
            .name = "lease list",
            .summary = "List shards and the hosts that hold them",
            .description =
                "Lists the shards of a space. STATE is `held`, `expired` (no host has taken it "
                "yet), `free` or `new` (no host has ever held it). HOST holds the shard, or held "
                "it last. SHARDS is the number of shards of the data center now (hosts no longer "
                "claim shards beyond it), CLAIMED OF the number when this shard was claimed. "
                "HEARTBEAT is the last one by the database's clock. Exits 1 if the space has no "
                "shards.\n\nWith --json: {\"now\", \"leases\": [{\"dc\", \"shard\", \"of\", "
                "\"shards\", \"state\", \"host\", \"epoch\", \"pings\", \"granted_at\", "
                "\"last_ping\", \"ttl\": seconds}]}.",
            .options = LIST_OPTIONS,
            .n_options = sizeof LIST_OPTIONS / sizeof *LIST_OPTIONS,
            .examples =
                "rota lease list --store sqlite:/var/lib/rota/store.db\n"
                "rota lease list --store postgres://rota@db.example/rota --dc east --json\n",
        },
    .table = &LIST_TABLE,
    .run = run_list,
};

/* --- history --- */

static const struct rota_option HISTORY_OPTIONS[] = {ROTA_STORE_OPTION(struct lease, store),
                                                     SPACE_OPTION, JSON_OPTION,
                                                     ROTA_TABLE_OPTION(struct lease, output)};

static const char *event_of(const struct rota_store_event *event)
{
    return event->is_release ? "released" : "granted";
}

static void append_history_json(struct rota_buffer *buffer, const struct rota_store_answer *answer)
{
    struct rota_json json = {.buffer = buffer};
    rota_json_begin_object(&json);
    rota_json_add_array(&json, "history");
    for (size_t i = 0; i < answer->n_history; i++) {
        const struct rota_store_event *event = &answer->history[i];
        rota_json_begin_object(&json);
        add_time(&json, "at", event->at);
        rota_json_add_text(&json, "event", event_of(event));
        rota_json_add_string(&json, "dc", event->dc);
        rota_json_add_uint(&json, "shard", event->shard);
        rota_json_add_uint(&json, "of", event->shards);
        rota_json_add_string(&json, "host", event->host);
        rota_json_add_uint(&json, "epoch", event->epoch);
        rota_json_end_object(&json);
    }
    rota_json_end_array(&json);
    rota_json_end_object(&json);
    rota_buffer_append_char(buffer, '\n');
}

static const struct rota_table_column HISTORY_COLUMNS[] = {
    {"TIME", "at", ROTA_TABLE_TIME, false},         {"EVENT", "event", ROTA_TABLE_TEXT, false},
    {"DC", "dc", ROTA_TABLE_TEXT, false},           {"SHARD", "shard", ROTA_TABLE_NUMBER, false},
    {"HOST", "host", ROTA_TABLE_NAME, false},       {"EPOCH", "epoch", ROTA_TABLE_NUMBER, false},
    {"CLAIMED OF", "of", ROTA_TABLE_NUMBER, false},
};
static const struct rota_table HISTORY_TABLE = ROTA_TABLE_OF("history", HISTORY_COLUMNS);

static int run_history(int argc, char *const *argv)
{
    struct lease options = {0};
    struct rota_store_answer answer = {0};
    struct rota_buffer buffer = {0};
    struct rota_error error;
    int code;
    if (!rota_cli_parse(&rota_cmd_lease_history, argc, argv, &options, NULL, &code))
        return code;
    const struct rota_store_request request = {.verb = ROTA_STORE_HISTORY,
                                               .space = rota_str(options.space)};
    if (ask(&options, &request, &answer, &error))
        return rota_cli_fail_error(&error);
    append_history_json(&buffer, &answer);
    rota_store_session_answer_deinit(&answer);
    return rota_cli_answer(&rota_cmd_lease_history, options.json ? ROTA_TABLE_JSON : options.output,
                           &buffer);
}

const struct rota_cli_command rota_cmd_lease_history = {
    .command =
        {
            .name = "lease history",
            .summary = "List grants and releases of shards",
            .description =
                "Lists the last 1,000 grants and releases in the space, newest first. TIME is by "
                "the database's clock, EVENT is `granted` or `released`, CLAIMED OF is the number "
                "of shards the data center had then.\n\nWith --json: {\"history\": [{\"at\", "
                "\"event\", \"dc\", \"shard\", \"of\" (0 if unknown), \"host\", \"epoch\"}]}.",
            .options = HISTORY_OPTIONS,
            .n_options = sizeof HISTORY_OPTIONS / sizeof *HISTORY_OPTIONS,
            .examples = "rota lease history --store sqlite:/var/lib/rota/store.db\n",
        },
    .table = &HISTORY_TABLE,
    .run = run_history,
};

/* --- hold --- */

static const struct rota_option HOLD_OPTIONS[] = {
    ROTA_STORE_OPTION(struct lease, store),
    {.name = "space",
     ROTA_OPTION_INTO(TEXT, struct lease, space),
     .value_name = "NAME",
     .min = 1,
     .max = ROTA_STORE_NAME_MAX,
     .help = "only this space [default: all]"},
    {.name = "for",
     ROTA_OPTION_INTO(SPAN, struct lease, span),
     .value_name = "DURATION",
     .is_required = true,
     .max = 365 * ROTA_DAY,
     .help = "how long to freeze claims; 0 ends the freeze"},
    ROTA_DRY_RUN_OPTION(struct lease, dry_run),
    JSON_OPTION,
};

/* By the database's clock, which decides. */
static int plan_hold(const struct lease *options)
{
    const struct rota_store_request request = {
        .verb = options->space ? ROTA_STORE_LEASES : ROTA_STORE_MEMBERS,
        .space = rota_str(options->space ? options->space : "")};
    struct rota_store_answer answer = {0};
    struct rota_buffer buffer = {0};
    struct rota_dry_run dry_run;
    struct rota_error error;
    char whose[ROTA_STORE_NAME_MAX + 10] = "any space", until[ROTA_TIME_TEXT_MAX];
    size_t n_held = 0;
    if (ask(options, &request, &answer, &error))
        return rota_cli_fail_error(&error);
    for (size_t i = 0; i < answer.n_leases; i++)
        n_held += strcmp(state_of(&answer.leases[i], answer.db_now), "held") == 0;
    if (options->space)
        snprintf(whose, sizeof whose, "space %s", options->space);
    rota_dry_run_begin(&dry_run, options->json, &buffer);
    if (options->space)
        rota_dry_run_say(&dry_run, "%s has %zu shards: %zu are held, and their holders keep them",
                         whose, answer.n_leases, n_held);
    if (options->span > 0)
        rota_dry_run_say(
            &dry_run, "no host could claim a shard of %s until %s", whose,
            rota_terminal_format_time(rota_time_add(answer.db_now, options->span), 3, until));
    else
        rota_dry_run_say(&dry_run, "a freeze of %s would end, if there is one",
                         options->space ? whose : "all spaces");
    rota_dry_run_end(&dry_run);
    rota_store_session_answer_deinit(&answer);
    return rota_cli_print(&buffer);
}

static int run_hold(int argc, char *const *argv)
{
    struct lease options = {0};
    struct rota_store_answer answer = {0};
    struct rota_buffer buffer = {0};
    struct rota_error error;
    int code;
    if (!rota_cli_parse(&rota_cmd_lease_hold, argc, argv, &options, NULL, &code))
        return code;
    const struct rota_store_request request = {.verb = ROTA_STORE_HOLD,
                                               .space =
                                                   rota_str(options.space ? options.space : ""),
                                               .span = options.span};
    if (options.dry_run)
        return plan_hold(&options);
    if (ask(&options, &request, &answer, &error))
        return rota_cli_fail_error(&error);
    if (options.json) {
        struct rota_json json = {.buffer = &buffer};
        rota_json_begin_object(&json);
        add_time(&json, "hold_until", answer.hold_until);
        rota_json_end_object(&json);
        rota_buffer_append_char(&buffer, '\n');
    } else if (answer.hold_until) {
        rota_buffer_append_text(&buffer, "claims are frozen until ");
        rota_terminal_append_time(&buffer, answer.hold_until);
        rota_buffer_append_char(&buffer, '\n');
    } else {
        rota_buffer_append_text(&buffer, "claims are not frozen\n");
    }
    rota_store_session_answer_deinit(&answer);
    return rota_cli_print(&buffer);
}

const struct rota_cli_command rota_cmd_lease_hold = {
    .command =
        {
            .name = "lease freeze",
            .summary = "Freeze claims: no host can claim a shard for a while",
            .description = "Use this after a failover to a replica that may lack the last writes, "
                           "or after restoring a dump: a host whose lease was lost that way still "
                           "believes it holds it for up to one ttl, so freeze claims for longer "
                           "than the longest ttl in use. Holders keep their shards; free shards "
                           "stay free. A freeze of one space and a freeze of all spaces are "
                           "independent: each ends by itself, or with --for 0.\n\nWith --json: "
                           "{\"hold_until\"}, null if claims are not frozen. " ROTA_DRY_RUN_JSON,
            .options = HOLD_OPTIONS,
            .n_options = sizeof HOLD_OPTIONS / sizeof *HOLD_OPTIONS,
            .examples = "rota lease freeze --store postgres://rota@db.example/rota --for 30s\n",
        },
    .run = run_hold,
};
