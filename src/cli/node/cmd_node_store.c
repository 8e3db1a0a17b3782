/* rota node members, heartbeat and remove; and drain, undrain and evict with --store. */
#include "cli/node/node_store.h"

#include "base/json.h"
#include "base/quote.h"
#include "cli/cli.h"
#include "cli/dry_run.h"
#include "cli/place/host_options.h"
#include "cli/store_options.h"
#include "cli/terminal.h"
#include "io/sql/store_session.h"

struct members {
    const char *store, *roles, *zone;
    const char *weight;
    rota_time ttl, start_at, stop_at;
    bool json, dry_run;
    int output;
};

/* --- list --- */

static const struct rota_option LIST_OPTIONS[] = {
    ROTA_STORE_OPTION(struct members, store),
    {.name = "json", ROTA_OPTION_INTO(FLAG, struct members, json), .help = "print JSON"},
    ROTA_TABLE_OPTION(struct members, output),
};

/* An operator's decision also applies to a dead member: it may come back. */
static const char *state_of(const struct rota_store_member *member, rota_time now)
{
    switch (member->state) {
    case ROTA_STORE_MEMBER_EVICTED:
        return "evicted";
    case ROTA_STORE_MEMBER_DRAINING:
    case ROTA_STORE_MEMBER_IN:
        break;
    }
    if (rota_time_add(member->heartbeat, member->ttl) < now)
        return "dead";
    return member->state == ROTA_STORE_MEMBER_DRAINING ? "draining" : "in";
}

static void add_time(struct rota_json *json, const char *name, rota_time time)
{
    char text[ROTA_TIME_TEXT_MAX];
    rota_json_add_text(json, name, time ? rota_terminal_format_time(time, 6, text) : NULL);
}

static void append_json(struct rota_buffer *buffer, const struct rota_store_answer *answer)
{
    struct rota_json json = {.buffer = buffer};
    char text[ROTA_TIME_TEXT_MAX];
    rota_json_begin_object(&json);
    rota_json_add_text(&json, "now", rota_terminal_format_time(answer->db_now, 6, text));
    rota_json_add_array(&json, "members");
    for (size_t i = 0; i < answer->n_members; i++) {
        const struct rota_store_member *member = &answer->members[i];
        rota_json_begin_object(&json);
        rota_json_add_string(&json, "address", member->address);
        rota_json_add_string(&json, "name", member->name);
        rota_json_add_text(&json, "state", state_of(member, answer->db_now));
        rota_json_add_string(&json, "roles", member->roles);
        rota_json_add_string(&json, "zone", member->zone);
        rota_json_add_double(&json, "weight", (double)member->weight / ROTA_WEIGHT_ONE);
        rota_json_add_text(&json, "heartbeat",
                           rota_terminal_format_time(member->heartbeat, 6, text));
        add_time(&json, "start_at", member->start_at);
        add_time(&json, "stop_at", member->stop_at);
        rota_json_add_double(&json, "ttl", (double)member->ttl / ROTA_SEC);
        rota_json_end_object(&json);
    }
    rota_json_end_array(&json);
    rota_json_end_object(&json);
    rota_buffer_append_char(buffer, '\n');
}

static const struct rota_table_column COLUMNS[] = {
    {"ADDRESS", "address", ROTA_TABLE_NAME, false},
    {"STATE", "state", ROTA_TABLE_STATE, false},
    {"WEIGHT", "weight", ROTA_TABLE_NUMBER, false},
    {"ZONE", "zone", ROTA_TABLE_TEXT, false},
    {"ROLES", "roles", ROTA_TABLE_TEXT, false},
    {"HEARTBEAT", "heartbeat", ROTA_TABLE_AGE, false},
    {"START AT", "start_at", ROTA_TABLE_TIME, true},
    {"STOP AT", "stop_at", ROTA_TABLE_TIME, true},
    {"NAME", "name", ROTA_TABLE_NAME, false},
};
static const struct rota_table TABLE = ROTA_TABLE_OF("members", COLUMNS);

static int run_list(int argc, char *const *argv)
{
    struct members options = {0};
    const struct rota_store_request request = {.verb = ROTA_STORE_MEMBERS};
    struct rota_store_answer answer = {0};
    struct rota_buffer buffer = {0};
    struct rota_error error;
    int code;
    if (!rota_cli_parse(&rota_cmd_node_members, argc, argv, &options, NULL, &code))
        return code;
    if (rota_store_options_ask(options.store, &request, 1, &answer, &error))
        return rota_cli_fail_error(&error);
    append_json(&buffer, &answer);
    rota_store_session_answer_deinit(&answer);
    return rota_cli_answer(&rota_cmd_node_members, options.json ? ROTA_TABLE_JSON : options.output,
                           &buffer);
}

const struct rota_cli_command rota_cmd_node_members = {
    .command =
        {
            .name = "node members",
            .summary = "List the members in a store",
            .description =
                "Columns: ADDRESS; STATE: `in`, `draining` (gets no new shards), `evicted` "
                "(excluded from the cluster) or `dead` (its last heartbeat is older than its ttl); "
                "WEIGHT; ZONE; ROLES; the last HEARTBEAT by the database's clock; START AT and "
                "STOP AT; the NAME of a node. Commands with --store use the members that are in or "
                "draining as "
                "hosts.\n\nWith "
                "--json: {\"now\", \"members\": [{\"address\", \"name\", \"state\", \"roles\", "
                "\"zone\", "
                "\"weight\", \"heartbeat\", \"start_at\", \"stop_at\", \"ttl\": seconds}]}.",
            .options = LIST_OPTIONS,
            .n_options = sizeof LIST_OPTIONS / sizeof *LIST_OPTIONS,
            .examples = "rota node members --store sqlite:/var/lib/rota/store.db\n",
        },
    .table = &TABLE,
    .run = run_list,
};

/* --- what operators and members do --- */

static const struct rota_option CHANGE_OPTIONS[] = {ROTA_STORE_OPTION(struct members, store),
                                                    ROTA_DRY_RUN_OPTION(struct members, dry_run)};

/* By its address, or by its name: of several that had the name, the last. */
static const struct rota_store_member *find_member(const struct rota_store_answer *answer,
                                                   const char *text)
{
    const struct rota_store_member *found = NULL;
    for (size_t i = 0; i < answer->n_members; i++) {
        const struct rota_store_member *member = &answer->members[i];
        if (rota_str_is_equal(member->address, rota_str(text)))
            return member;
        if (*text && rota_str_is_equal(member->name, rota_str(text)) &&
            (!found || member->heartbeat > found->heartbeat))
            found = member;
    }
    return found;
}

/* Read the members in the store. Fills `*answer`; returns the exit code. */
static int ask_members(const char *store, struct rota_store_answer *answer)
{
    const struct rota_store_request request = {.verb = ROTA_STORE_MEMBERS};
    struct rota_error error;
    return rota_store_options_ask(store, &request, 1, answer, &error) ? rota_cli_fail_error(&error)
                                                                      : ROTA_CLI_OK;
}

static int plan_change(const char *store, const char *address, const char *fate)
{
    struct rota_store_answer answer = {0};
    struct rota_buffer buffer = {0};
    struct rota_dry_run dry_run;
    int code = ask_members(store, &answer);
    if (code)
        return code;
    const struct rota_store_member *member = find_member(&answer, address);
    rota_dry_run_begin(&dry_run, false, &buffer);
    if (member)
        rota_dry_run_say(&dry_run, "%s is %s (zone=%.*s, roles=%.*s): it would %s", address,
                         state_of(member, answer.db_now), ROTA_STR_ARGS(member->zone),
                         ROTA_STR_ARGS(member->roles), fate);
    rota_dry_run_end(&dry_run);
    rota_store_session_answer_deinit(&answer);
    if (!member)
        code = rota_cli_fail(ROTA_CLI_NO, "%s is not a member of the store", address);
    int printed = rota_cli_print(&buffer);
    return code ? code : printed;
}

/* The request has the member's name or address. */
static int make_change(const char *store, struct rota_store_request request)
{
    struct rota_store_answer answer = {0};
    struct rota_error error;
    const char *text = request.member.address.data;
    char address[ROTA_STORE_NAME_MAX + 1] = "";
    int code = ask_members(store, &answer);
    if (code)
        return code;
    const struct rota_store_member *member = find_member(&answer, text);
    if (member)
        snprintf(address, sizeof address, "%.*s", ROTA_STR_ARGS(member->address));
    rota_store_session_answer_deinit(&answer);
    request.member.address = rota_str(address);
    bool is_done = false;
    if (member) {
        if (rota_store_options_ask(store, &request, 1, &answer, &error))
            return rota_cli_fail_error(&error);
        is_done = answer.is_done;
        rota_store_session_answer_deinit(&answer);
    }
    return is_done ? ROTA_CLI_OK
                   : rota_cli_fail(ROTA_CLI_NO, "%s is not a member of the store", text);
}

int rota_cmd_node_store_change(const char *store, const char *address,
                               enum rota_store_member_state state, bool is_dry_run)
{
    static const char *const FATES[] = {
        [ROTA_STORE_MEMBER_IN] = "be in, as long as it is alive",
        [ROTA_STORE_MEMBER_DRAINING] = "be draining: known, but without shards",
        [ROTA_STORE_MEMBER_EVICTED] = "be evicted: excluded from the cluster",
    };
    const struct rota_store_request request = {
        .verb = ROTA_STORE_MEMBER_STATE, .member = {.address = rota_str(address), .state = state}};
    return is_dry_run ? plan_change(store, address, FATES[state]) : make_change(store, request);
}

static int run_remove(int argc, char *const *argv)
{
    struct members options = {0};
    struct rota_option_list addresses;
    int code;
    if (!rota_cli_parse(&rota_cmd_node_remove, argc, argv, &options, &addresses, &code))
        return code;
    for (size_t i = 0; i < addresses.size; i++) {
        const struct rota_store_request request = {
            .verb = ROTA_STORE_MEMBER_REMOVE, .member = {.address = rota_str(addresses.items[i])}};
        int result = options.dry_run ? plan_change(options.store, addresses.items[i],
                                                   "be removed from the list until its next "
                                                   "heartbeat")
                                     : make_change(options.store, request);
        code = result ? result : code;
    }
    return code;
}

const struct rota_cli_command rota_cmd_node_remove = {
    .command =
        {
            .name = "node remove",
            .summary = "Remove nodes and other members from the list in a store",
            .arguments = "NODE...",
            .min_arguments = 1,
            .description = "For members that are permanently gone, by name or address; a live one "
                           "returns with its next heartbeat. Exits 1 if there is no such member.",
            .options = CHANGE_OPTIONS,
            .n_options = sizeof CHANGE_OPTIONS / sizeof *CHANGE_OPTIONS,
            .examples = "rota node remove 10.0.0.7:7000 --store sqlite:/var/lib/rota/store.db\n",
        },
    .run = run_remove,
};

/* --- heartbeat --- */

static const struct rota_option BEAT_OPTIONS[] = {
    ROTA_STORE_OPTION(struct members, store),
    {.name = "ttl",
     ROTA_OPTION_INTO(SPAN, struct members, ttl),
     .value_name = "DURATION",
     .default_text = "10s",
     .min = ROTA_MSEC,
     .max = 365 * ROTA_DAY,
     .help = "how long the member stays alive without a heartbeat"},
    {.name = "roles",
     ROTA_OPTION_INTO(TEXT, struct members, roles),
     .value_name = "ROLES",
     .default_text = "",
     .max = ROTA_STORE_ROLES_MAX,
     .help = "comma-separated roles"},
    {.name = "zone",
     ROTA_OPTION_INTO(TEXT, struct members, zone),
     .value_name = "ZONE",
     .default_text = "",
     .max = ROTA_STORE_NAME_MAX,
     .help = "failure zone"},
    {.name = "weight",
     ROTA_OPTION_INTO(TEXT, struct members, weight),
     .value_name = "W",
     .default_text = "1",
     .help = "relative share of shards, from 0.01 to 1000"},
    {.name = "start-at",
     ROTA_OPTION_INTO(TIME, struct members, start_at),
     .value_name = "TIME",
     .help = "when to start placing shards on it [default: now]"},
    {.name = "stop-at",
     ROTA_OPTION_INTO(TIME, struct members, stop_at),
     .value_name = "TIME",
     .help = "when to stop placing shards on it [default: never]"},
    ROTA_DRY_RUN_OPTION(struct members, dry_run),
};

/* A heartbeat creates a missing file; reading does not. */
static int plan_heartbeat(const struct members *options, const struct rota_store_request *beat)
{
    const struct rota_store_request request = {.verb = ROTA_STORE_MEMBERS};
    struct rota_store_answer answer = {0};
    struct rota_buffer buffer = {0};
    struct rota_dry_run dry_run;
    struct rota_error error;
    const char *store = options->store;
    struct rota_str address = beat->member.address;
    char ttl[ROTA_TIME_TEXT_MAX];
    enum rota_code code = rota_store_check_request(beat, &error);
    if (!code)
        code = rota_store_options_check(&store, &error);
    if (code)
        return rota_cli_fail_error(&error);
    code = rota_store_options_ask(store, &request, 1, &answer, &error);
    if (code && code != ROTA_ERR_NOT_FOUND)
        return rota_cli_fail_error(&error);
    rota_dry_run_begin(&dry_run, false, &buffer);
    const struct rota_store_member *member = code ? NULL : find_member(&answer, address.data);
    if (code)
        rota_dry_run_say(&dry_run, "the store does not exist yet, and would be created");
    if (member)
        rota_dry_run_say(&dry_run, "%.*s is %s (zone=%.*s, roles=%.*s)", ROTA_STR_ARGS(address),
                         state_of(member, answer.db_now), ROTA_STR_ARGS(member->zone),
                         ROTA_STR_ARGS(member->roles));
    else
        rota_dry_run_say(&dry_run, "%.*s is not a member yet", ROTA_STR_ARGS(address));
    rota_dry_run_say(&dry_run, "it would be alive for %s (zone=%s, roles=%s, weight=%s)",
                     rota_span_format(options->ttl, ttl), options->zone, options->roles,
                     options->weight);
    rota_dry_run_end(&dry_run);
    rota_store_session_answer_deinit(&answer);
    return rota_cli_print(&buffer);
}

static int run_heartbeat(int argc, char *const *argv)
{
    struct members options = {0};
    struct rota_option_list arguments;
    struct rota_store_answer answer = {0};
    struct rota_error error;
    char quoted[ROTA_QUOTE_MAX];
    int code;
    if (!rota_cli_parse(&rota_cmd_node_heartbeat, argc, argv, &options, &arguments, &code))
        return code;
    struct rota_store_request request = {.verb = ROTA_STORE_BEAT,
                                         .member = {.address = rota_str(arguments.items[0]),
                                                    .roles = rota_str(options.roles),
                                                    .zone = rota_str(options.zone),
                                                    .start_at = options.start_at,
                                                    .stop_at = options.stop_at,
                                                    .ttl = options.ttl}};
    if (!rota_hosts_file_parse_weight(options.weight, &request.member.weight))
        return rota_cli_fail(ROTA_CLI_BAD, "node heartbeat: --weight: %s is not from 0.01 to 1000",
                             rota_quote(rota_str(options.weight), quoted));
    if (options.dry_run)
        return plan_heartbeat(&options, &request);
    if (rota_store_options_ask(options.store, &request, 1, &answer, &error))
        return rota_cli_fail_error(&error);
    rota_store_session_answer_deinit(&answer);
    return ROTA_CLI_OK;
}

const struct rota_cli_command rota_cmd_node_heartbeat = {
    .command =
        {
            .name = "node heartbeat",
            .summary = "Send a heartbeat for a member, adding it if needed",
            .arguments = "ADDRESS",
            .min_arguments = 1,
            .max_arguments = 1,
            .description = "Sends one heartbeat, for processes that don't use the library. The "
                           "member is alive for --ttl by the database's clock, so repeat the "
                           "command well before that runs out, for example from a timer that "
                           "checks the member's health. Roles, zone, weight and times are replaced "
                           "by those you give; what operators set (`node drain`) stays.",
            .options = BEAT_OPTIONS,
            .n_options = sizeof BEAT_OPTIONS / sizeof *BEAT_OPTIONS,
            .examples = "rota node heartbeat 10.0.0.7:7000 --roles search --zone east --ttl 30s "
                        "--store sqlite:/var/lib/rota/store.db\n",
        },
    .run = run_heartbeat,
};
