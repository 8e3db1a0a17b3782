#include "cli/cli.h"

#include <rota/experimental/gradual.h>
#include <stdio.h>

struct gradual {
    const char *key;
    int64_t start, end, now;
    bool json;
};

static const struct rota_option OPTIONS[] = {
    {.name = "key",
     ROTA_OPTION_INTO(TEXT, struct gradual, key),
     .value_name = "KEY",
     .is_required = true,
     .help = "key to look up; for a partition, its routing key without a batch"},
    {.name = "start",
     ROTA_OPTION_INTO(INT, struct gradual, start),
     .value_name = "NS",
     .min = 1,
     .max = INT64_MAX,
     .is_required = true,
     .help = "start of the change in Unix nanoseconds"},
    {.name = "end",
     ROTA_OPTION_INTO(INT, struct gradual, end),
     .value_name = "NS",
     .min = 1,
     .max = INT64_MAX,
     .is_required = true,
     .help = "end of the change in Unix nanoseconds"},
    {.name = "now",
     ROTA_OPTION_INTO(INT, struct gradual, now),
     .value_name = "NS",
     .max = INT64_MAX,
     .is_required = true,
     .help = "time to compute for, in Unix nanoseconds"},
    {.name = "json", ROTA_OPTION_INTO(FLAG, struct gradual, json), .help = "print JSON"},
};

static int run_gradual(int argc, char *const *argv)
{
    struct gradual options = {0};
    char text[ROTA_TIME_TEXT_MAX];
    int code;
    if (!rota_cli_parse(&rota_cmd_gradual, argc, argv, &options, NULL, &code))
        return code;

    if (options.end < options.start)
        return rota_cli_fail(ROTA_CLI_BAD, "gradual: --end is before --start");
    struct rota_gradual change = {.new_value = 1, .start = options.start, .end = options.end};
    struct rota_str key = rota_str(options.key);
    const char *value = rota_gradual_is_new(&change, key, options.now) ? "new" : "old";
    rota_time when = rota_gradual_when(&change, key);
    if (options.json)
        printf("{\"value\":\"%s\",\"when_ns\":%lld,\"when\":\"%s\"}\n", value, (long long)when,
               rota_time_format(when, text));
    else
        printf("%s\t%lld\n", value, (long long)when);
    return ROTA_CLI_OK;
}

const struct rota_cli_command rota_cmd_gradual = {
    .command =
        {
            .name = "gradual",
            .summary = "Compute when a gradual change reaches a key",
            .description = "A gradual change switches from the old to the new value key by key, "
                           "each at a time that depends only on the key. Prints which value the "
                           "key has at --now (`old` or `new`), a tab, and the time at which it "
                           "switches to the new one. All times here are Unix nanoseconds.\n\nWith "
                           "--json: {\"value\", \"when_ns\", \"when\"}, the last one as RFC 3339.",
            .options = OPTIONS,
            .n_options = sizeof OPTIONS / sizeof *OPTIONS,
            .examples = "rota gradual --key ns:orders:1 --start 1767225600000000000 \\\n"
                        "    --end 1767229200000000000 --now 1767226630524852324\n",
        },
    .run = run_gradual,
};
