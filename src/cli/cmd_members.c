/* rota members: the members of a store, for people and scripts. */
#include "base/json.h"
#include "base/quote.h"
#include "cli/cli.h"
#include "cli/dry_run.h"
#include "cli/host_options.h"
#include "cli/store_options.h"
#include "cli/terminal.h"
#include "io/store.h"

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

/* An operator's word counts for one that is dead, too: it may come back. */
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
    rota_json_key(json, name);
    rota_json_text(json, time ? rota_time_format(time, text) : NULL);
}

static void append_json(struct rota_buffer *buffer, const struct rota_store_answer *answer)
{
    struct rota_json json = {.buffer = buffer};
    char text[ROTA_TIME_TEXT_MAX];
    rota_json_begin_object(&json);
    rota_json_key(&json, "now");
    rota_json_text(&json, rota_time_format(answer->db_now, text));
    rota_json_key(&json, "members");
    rota_json_begin_array(&json);
    for (size_t i = 0; i < answer->n_members; i++) {
        const struct rota_store_member *member = &answer->members[i];
        rota_json_begin_object(&json);
        rota_json_key(&json, "address");
        rota_json_string(&json, member->address);
        rota_json_key(&json, "state");
        rota_json_text(&json, state_of(member, answer->db_now));
        rota_json_key(&json, "roles");
        rota_json_string(&json, member->roles);
        rota_json_key(&json, "zone");
        rota_json_string(&json, member->zone);
        rota_json_key(&json, "weight");
        rota_json_double(&json, (double)member->weight / ROTA_WEIGHT_ONE);
        rota_json_key(&json, "heartbeat");
        rota_json_text(&json, rota_time_format(member->heartbeat, text));
        add_time(&json, "start_at", member->start_at);
        add_time(&json, "stop_at", member->stop_at);
        rota_json_key(&json, "ttl");
        rota_json_double(&json, (double)member->ttl / ROTA_SEC);
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
};
static const struct rota_table TABLE = {"members", COLUMNS, sizeof COLUMNS / sizeof *COLUMNS};

static int run_list(int argc, char *const *argv)
{
    struct members options = {0};
    const struct rota_store_request request = {.verb = ROTA_STORE_MEMBERS};
    struct rota_store_answer answer = {0};
    struct rota_buffer buffer = {0};
    struct rota_error error;
    int code;
    if (!rota_cli_parse(&rota_cmd_members_list, argc, argv, &options, NULL, &code))
        return code;
    if (rota_store_options_ask(options.store, &request, 1, &answer, &error))
        return rota_cli_fail_error(&error);
    append_json(&buffer, &answer);
    rota_store_answer_deinit(&answer);
    return rota_cli_answer(&rota_cmd_members_list, options.json ? ROTA_TABLE_JSON : options.output,
                           &buffer);
}

const struct rota_cli_command rota_cmd_members_list = {
    .command =
        {
            .name = "members list",
            .summary = "List the members in a store",
            .description =
                "Columns: ADDRESS; STATE: `in`, `draining` (gets no new shards), `evicted` "
                "(excluded from the cluster) or `dead` (its last heartbeat is older than its ttl); "
                "WEIGHT; ZONE; ROLES; the last HEARTBEAT by the database's clock; START AT and "
                "STOP AT. Commands with --store use the members that are in or draining as "
                "hosts.\n\n"
                "With --json: {\"now\", \"members\": [{\"address\", \"state\", \"roles\", "
                "\"zone\", \"weight\", \"heartbeat\", \"start_at\", \"stop_at\", \"ttl\": "
                "seconds}]}.",
            .options = LIST_OPTIONS,
            .n_options = sizeof LIST_OPTIONS / sizeof *LIST_OPTIONS,
            .examples = "rota members list --store sqlite:/var/lib/rota/store.db\n",
        },
    .table = &TABLE,
    .run = run_list,
};

/* --- what operators and members do --- */

static const struct rota_option CHANGE_OPTIONS[] = {ROTA_STORE_OPTION(struct members, store),
                                                    ROTA_DRY_RUN_OPTION(struct members, dry_run)};

static const struct rota_store_member *find_member(const struct rota_store_answer *answer,
                                                   const char *address)
{
    for (size_t i = 0; i < answer->n_members; i++)
        if (rota_str_is_equal(answer->members[i].address, rota_str(address)))
            return &answer->members[i];
    return NULL;
}

static const char *fate(enum rota_store_verb verb, enum rota_store_member_state state)
{
    if (verb == ROTA_STORE_MEMBER_REMOVE)
        return "be removed from the list until its next heartbeat";
    switch (state) {
    case ROTA_STORE_MEMBER_DRAINING:
        return "be draining: known, but without shards";
    case ROTA_STORE_MEMBER_EVICTED:
        return "be evicted: excluded from the cluster";
    case ROTA_STORE_MEMBER_IN:
        break;
    }
    return "be in, as long as it is alive";
}

/* Who the store has now; the exit code. Fills `*answer`. */
static int ask_members(const char *store, struct rota_store_answer *answer)
{
    const struct rota_store_request request = {.verb = ROTA_STORE_MEMBERS};
    struct rota_error error;
    return rota_store_options_ask(store, &request, 1, answer, &error) ? rota_cli_fail_error(&error)
                                                                      : ROTA_CLI_OK;
}

static int plan_change(const struct members *options, const struct rota_option_list *addresses,
                       enum rota_store_verb verb, enum rota_store_member_state state)
{
    struct rota_store_answer answer = {0};
    struct rota_buffer buffer = {0};
    struct rota_dry_run dry_run;
    int code = ask_members(options->store, &answer);
    if (code)
        return code;
    rota_dry_run_begin(&dry_run, false, &buffer);
    for (size_t i = 0; i < addresses->size; i++) {
        const struct rota_store_member *member = find_member(&answer, addresses->items[i]);
        if (member)
            rota_dry_run_say(&dry_run, "%s is %s (zone=%.*s, roles=%.*s): it would %s",
                             addresses->items[i], state_of(member, answer.db_now),
                             ROTA_STR_ARGS(member->zone), ROTA_STR_ARGS(member->roles),
                             fate(verb, state));
        else
            code =
                rota_cli_fail(ROTA_CLI_NO, "%s is not a member of the store", addresses->items[i]);
    }
    rota_dry_run_end(&dry_run);
    rota_store_answer_deinit(&answer);
    int printed = rota_cli_print(&buffer);
    return code ? code : printed;
}

/* One after the other, all that are there; exit code 1 when one is not. */
static int change(const struct rota_cli_command *command, int argc, char *const *argv,
                  enum rota_store_verb verb, enum rota_store_member_state state)
{
    struct members options = {0};
    struct rota_option_list addresses;
    struct rota_error error;
    int code;
    if (!rota_cli_parse(command, argc, argv, &options, &addresses, &code))
        return code;
    if (options.dry_run)
        return plan_change(&options, &addresses, verb, state);
    for (size_t i = 0; i < addresses.size; i++) {
        const struct rota_store_request request = {
            .verb = verb, .member = {.address = rota_str(addresses.items[i]), .state = state}};
        struct rota_store_answer answer = {0};
        if (rota_store_options_ask(options.store, &request, 1, &answer, &error))
            return rota_cli_fail_error(&error);
        if (!answer.is_done)
            code =
                rota_cli_fail(ROTA_CLI_NO, "%s is not a member of the store", addresses.items[i]);
        rota_store_answer_deinit(&answer);
    }
    return code;
}

#define CHANGE(word, does, long_text, verb, state)                                                 \
    static int run_##word(int argc, char *const *argv)                                             \
    {                                                                                              \
        return change(&rota_cmd_members_##word, argc, argv, (verb), (state));                      \
    }                                                                                              \
    const struct rota_cli_command rota_cmd_members_##word = {                                      \
        .command =                                                                                 \
            {                                                                                      \
                .name = "members " #word,                                                          \
                .summary = (does),                                                                 \
                .arguments = "ADDRESS...",                                                         \
                .min_arguments = 1,                                                                \
                .description = long_text " Exits 1 if an address is not a member.",                \
                .options = CHANGE_OPTIONS,                                                         \
                .n_options = sizeof CHANGE_OPTIONS / sizeof *CHANGE_OPTIONS,                       \
                .examples = "rota members " #word " 10.0.0.7:7000 "                                \
                            "--store sqlite:/var/lib/rota/store.db\n",                             \
            },                                                                                     \
        .run = run_##word,                                                                         \
    }

CHANGE(drain, "Stop placing shards on members",
       "The members stay known but own nothing from now on, whatever their heartbeats say. "
       "`members restore` undoes this.",
       ROTA_STORE_MEMBER_STATE, ROTA_STORE_MEMBER_DRAINING);
CHANGE(evict, "Exclude members from the cluster",
       "The members count as dead, whatever their heartbeats say, until `members restore`.",
       ROTA_STORE_MEMBER_STATE, ROTA_STORE_MEMBER_EVICTED);
CHANGE(restore, "Undo a drain or an eviction",
       "The members are in again, as long as they are alive.", ROTA_STORE_MEMBER_STATE,
       ROTA_STORE_MEMBER_IN);
CHANGE(remove, "Remove members from the list",
       "For members that are permanently gone; a live one returns with its next heartbeat.",
       ROTA_STORE_MEMBER_REMOVE, ROTA_STORE_MEMBER_IN);

/* --- beat --- */

static const struct rota_option BEAT_OPTIONS[] = {
    ROTA_STORE_OPTION(struct members, store),
    {.name = "ttl",
     ROTA_OPTION_INTO(SPAN, struct members, ttl),
     .value_name = "SPAN",
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

/* A file that is not there yet is made by a heartbeat, and not by looking. */
static int plan_beat(const struct members *options, const struct rota_store_request *beat)
{
    const struct rota_store_request request = {.verb = ROTA_STORE_MEMBERS};
    struct rota_store_answer answer = {0};
    struct rota_buffer buffer = {0};
    struct rota_dry_run dry_run;
    struct rota_error error;
    const char *store = options->store;
    struct rota_str address = beat->member.address;
    char ttl[ROTA_TIME_TEXT_MAX];
    enum rota_code code = rota_store_request_check(beat, &error);
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
        rota_dry_run_say(&dry_run, "the store is not there yet, and would be made");
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
    rota_store_answer_deinit(&answer);
    return rota_cli_print(&buffer);
}

static int run_beat(int argc, char *const *argv)
{
    struct members options = {0};
    struct rota_option_list arguments;
    struct rota_store_answer answer = {0};
    struct rota_error error;
    char quoted[ROTA_QUOTE_MAX];
    int code;
    if (!rota_cli_parse(&rota_cmd_members_beat, argc, argv, &options, &arguments, &code))
        return code;
    struct rota_store_request request = {.verb = ROTA_STORE_BEAT,
                                         .member = {.address = rota_str(arguments.items[0]),
                                                    .roles = rota_str(options.roles),
                                                    .zone = rota_str(options.zone),
                                                    .start_at = options.start_at,
                                                    .stop_at = options.stop_at,
                                                    .ttl = options.ttl}};
    if (!rota_hosts_parse_weight(options.weight, &request.member.weight))
        return rota_cli_fail(ROTA_CLI_BAD, "members beat: --weight: %s is not from 0.01 to 1000",
                             rota_quote(rota_str(options.weight), quoted));
    if (options.dry_run)
        return plan_beat(&options, &request);
    if (rota_store_options_ask(options.store, &request, 1, &answer, &error))
        return rota_cli_fail_error(&error);
    rota_store_answer_deinit(&answer);
    return ROTA_CLI_OK;
}

const struct rota_cli_command rota_cmd_members_beat = {
    .command =
        {
            .name = "members beat",
            .summary = "Send a heartbeat for a member, adding it if needed",
            .arguments = "ADDRESS",
            .min_arguments = 1,
            .max_arguments = 1,
            .description =
                "Sends one heartbeat, for processes that don't use the library. The member is "
                "alive for --ttl by the database's clock, so repeat the command well before, for "
                "example from a timer that checks its health. Roles, zone, weight and times are "
                "replaced by those you give; what operators set (`members drain`) stays.",
            .options = BEAT_OPTIONS,
            .n_options = sizeof BEAT_OPTIONS / sizeof *BEAT_OPTIONS,
            .examples = "rota members beat 10.0.0.7:7000 --roles broker --zone east --ttl 30s "
                        "--store sqlite:/var/lib/rota/store.db\n",
        },
    .run = run_beat,
};
