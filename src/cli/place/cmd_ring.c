/* rota ring: look up keys on the ring. Keys are lines of standard input and may be any bytes;
 * answers come in the same order. */
#include "base/json.h"
#include "cli/cli.h"
#include "cli/lines.h"

#include <rota/ring.h>
#include <stdio.h>
#include <stdlib.h>

/* --- lookup --- */

struct lookup {
    struct rota_host_options hosts;
    int64_t points, n;
    rota_time at;
    bool json;
};

/* What is needed to answer the lines. */
struct lookup_run {
    const struct rota_ring *ring;
    uint32_t *owners; /* of a group, or of one key with several owners */
    size_t n;
    bool is_json;
    struct rota_buffer line;
};

static const struct rota_option LOOKUP_OPTIONS[] = {
    ROTA_HOST_OPTIONS(struct lookup, hosts.file, hosts.store, hosts.role),
    {.name = "count",
     .letter = 'n',
     ROTA_OPTION_INTO(INT, struct lookup, n),
     .value_name = "N",
     .default_text = "1",
     .min = 1,
     .max = ROTA_RING_HOSTS_MAX,
     .help = "hosts to print for each key: its owner, then its successors"},
    {.name = "points",
     ROTA_OPTION_INTO(INT, struct lookup, points),
     .value_name = "N",
     .default_text = "100",
     .min = 1,
     .max = ROTA_RING_POINTS_MAX,
     .help = "number of points on the ring for a host of weight 1"},
    {.name = "at",
     ROTA_OPTION_INTO(TIME, struct lookup, at),
     .value_name = "TIME",
     .help = "compute for this time [default: now]"},
    {.name = "json",
     ROTA_OPTION_INTO(FLAG, struct lookup, json),
     .help = "print one JSON object per line"},
};

static void put(struct rota_str str)
{
    fwrite_unlocked(str.data, 1, str.size, stdout);
}

static void answer_text(const struct lookup_run *run, struct rota_str key, const uint32_t *owners,
                        size_t n)
{
    put(key);
    for (size_t i = 0; i < n; i++) {
        putc_unlocked(i == 0 ? '\t' : ',', stdout);
        put(rota_ring_host(run->ring, owners[i]).address);
    }
    putc_unlocked('\n', stdout);
}

static void answer_json(struct lookup_run *run, struct rota_str key, const uint32_t *owners,
                        size_t n)
{
    struct rota_json json = {.buffer = &run->line};
    rota_buffer_clear(&run->line);
    rota_json_begin_object(&json);
    rota_json_add_string(&json, "key", key);
    rota_json_add_array(&json, "hosts");
    for (size_t i = 0; i < n; i++)
        rota_json_string(&json, rota_ring_host(run->ring, owners[i]).address);
    rota_json_end_array(&json);
    rota_json_end_object(&json);
    rota_buffer_append_char(&run->line, '\n');
    put(rota_buffer_str(&run->line));
}

static bool on_keys(void *data, const struct rota_str *keys, size_t n)
{
    struct lookup_run *run = data;
    if (run->n == 1)
        rota_ring_lookup_batch(run->ring, keys, n, run->owners);
    for (size_t i = 0; i < n; i++) {
        const uint32_t *owners = run->owners + (run->n == 1 ? i : 0);
        size_t n_owners = 1;
        if (run->n > 1)
            n_owners = rota_ring_lookup_n(run->ring, keys[i], run->n, run->owners);
        if (run->is_json)
            answer_json(run, keys[i], owners, n_owners);
        else
            answer_text(run, keys[i], owners, n_owners);
    }
    return rota_cli_can_print() && !run->line.failed;
}

static int run_lookup(int argc, char *const *argv)
{
    struct lookup options = {.at = ROTA_TIME_MIN};
    struct rota_ring *ring = NULL;
    struct rota_error error;
    int code;
    if (!rota_cli_parse(&rota_cmd_ring_lookup, argc, argv, &options, NULL, &code))
        return code;
    if (options.hosts.file && rota_cli_is_input(options.hosts.file))
        return rota_cli_fail(ROTA_CLI_BAD, "ring lookup: --hosts: standard input has the keys, so "
                                           "the hosts cannot come from it");
    if (rota_cli_load_ring(&options.hosts, rota_cli_now(options.at), options.points, &ring, &error))
        return rota_cli_fail_error(&error);

    struct lookup_run run = {.ring = ring, .n = (size_t)options.n, .is_json = options.json};
    size_t room = run.n > ROTA_LINES_GROUP_MAX ? run.n : ROTA_LINES_GROUP_MAX;
    run.owners = malloc(room * sizeof *run.owners);
    if (!run.owners)
        code = rota_cli_fail(ROTA_CLI_NO, "not enough memory for %zu hosts", run.n);
    else
        code = rota_lines_read(on_keys, &run);
    if (run.line.failed)
        code = rota_cli_fail(ROTA_CLI_NO, "not enough memory for the answer");
    rota_buffer_deinit(&run.line);
    free(run.owners);
    rota_ring_unref(ring);
    return code;
}

const struct rota_cli_command rota_cmd_ring_lookup = {
    .command =
        {
            .name = "ring lookup",
            .summary = "Find the hosts that own the keys on standard input",
            .description =
                "Reads keys, one per line, and prints each with a tab and its hosts, separated by "
                "commas. A key is any bytes up to the newline, at most 1 MiB; an empty line is the "
                "empty key. The ring is the same one that ringpop builds from these hosts; weights "
                "and zones extend it.\n\nA hosts file has one address per line, optionally "
                "followed by weight=W, zone=Z, start_at=TIME, stop_at=TIME and draining; # starts "
                "a comment. Hosts that are draining, have not started yet or have stopped are not "
                "on the ring. Exits 1 if the ring is empty.\n\nWith --json: {\"key\", \"hosts\": "
                "[...]} per line. Bytes that are not UTF-8 become U+FFFD.",
            .options = LOOKUP_OPTIONS,
            .n_options = sizeof LOOKUP_OPTIONS / sizeof *LOOKUP_OPTIONS,
            .examples = "printf 'alice\\nbob\\n' | rota ring lookup --hosts hosts -n 3\n"
                        "rota ring lookup --hosts hosts --json < keys\n",
        },
    .run = run_lookup,
};

/* --- hash --- */

struct hash {
    bool json;
};

static const struct rota_option HASH_OPTIONS[] = {
    {.name = "json",
     ROTA_OPTION_INTO(FLAG, struct hash, json),
     .help = "print one JSON object per line"},
};

struct hash_run {
    bool is_json;
    struct rota_buffer line;
};

static bool on_words(void *data, const struct rota_str *lines, size_t n)
{
    struct hash_run *run = data;
    for (size_t i = 0; i < n; i++) {
        uint32_t hash = rota_ring_hash(lines[i]);
        if (!run->is_json) {
            printf("%u\n", hash);
            continue;
        }
        struct rota_json json = {.buffer = &run->line};
        rota_buffer_clear(&run->line);
        rota_json_begin_object(&json);
        rota_json_add_string(&json, "key", lines[i]);
        rota_json_add_uint(&json, "hash", hash);
        rota_json_end_object(&json);
        rota_buffer_append_char(&run->line, '\n');
        put(rota_buffer_str(&run->line));
    }
    return rota_cli_can_print() && !run->line.failed;
}

static int run_hash(int argc, char *const *argv)
{
    struct hash options = {0};
    int code;
    if (!rota_cli_parse(&rota_cmd_ring_hash, argc, argv, &options, NULL, &code))
        return code;
    struct hash_run run = {.is_json = options.json};
    code = rota_lines_read(on_words, &run);
    if (run.line.failed)
        code = rota_cli_fail(ROTA_CLI_NO, "not enough memory for the answer");
    rota_buffer_deinit(&run.line);
    return code;
}

const struct rota_cli_command rota_cmd_ring_hash = {
    .command =
        {
            .name = "ring hash",
            .summary = "Hash the lines of standard input as the ring does",
            .description = "Prints the FarmHash Fingerprint32 of every line, without its newline, "
                           "in decimal. With --json: {\"key\", \"hash\"} per line.",
            .options = HASH_OPTIONS,
            .n_options = sizeof HASH_OPTIONS / sizeof *HASH_OPTIONS,
            .examples = "printf 'alice\\n' | rota ring hash\n",
        },
    .run = run_hash,
};
