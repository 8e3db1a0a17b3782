/* rota events: what has happened in a cluster. */
#include "base/vector.h"
#include "cli/cli.h"
#include "cli/node/documents.h"
#include "cli/signals.h"
#include "cli/terminal.h"
#include "node/rules/events.h"

#include <limits.h>
#include <stdio.h>

struct events {
    struct rota_client_options of;
    const char *kind;
    bool is_followed;
};

static const struct rota_option OPTIONS[] = {
    ROTA_CLIENT_LIST_OPTIONS(struct events),
    {.name = "follow",
     ROTA_OPTION_INTO(FLAG, struct events, is_followed),
     .help = "keep printing new events"},
    {.name = "kind",
     ROTA_OPTION_INTO(TEXT, struct events, kind),
     .value_name = "KIND",
     .help = "only events of this kind: " ROTA_EVENT_KIND_NAMES},
};

/* A received event, with its texts. */
struct entry {
    struct rota_nodes_event event;
    struct rota_str bytes;
};

struct reader {
    const struct events *options;
    struct rota_client *client;
    struct rota_arena arena;           /* of events that wait to be printed */
    ROTA_VECTOR(struct entry) waiting; /* to be sorted; empty while following */
    uint64_t after;                    /* the last number from the node in use */
    uint64_t last_ms;                  /* of the newest event printed */
    enum rota_table_form form;
    bool has_titles; /* of a table: already printed */
    bool is_following, has_ended, is_interrupted, is_failed;
    enum rota_status status;
    char why[256];
    struct rota_buffer line;
};

/* --- printing --- */

/* An older node sends no names. */
static struct rota_str name_of(struct rota_str name, struct rota_str address)
{
    return name.size > 0 ? name : address;
}

static void append_json(struct rota_buffer *buffer, const struct rota_nodes_event *event)
{
    const struct {
        const char *name;
        struct rota_str value;
    } TEXTS[] = {{"kind", event->kind},
                 {"subject", event->subject},
                 {"text", event->text},
                 {"node", event->node}};
    struct rota_json json = {.buffer = buffer};
    rota_json_begin_object(&json);
    rota_json_add_uint(&json, "number", event->number);
    rota_json_add_uint(&json, "at_ms", event->at_ms);
    for (size_t i = 0; i < sizeof TEXTS / sizeof TEXTS[0]; i++)
        rota_json_add_string(&json, TEXTS[i].name, TEXTS[i].value);
    if (event->subject_name.size > 0)
        rota_json_add_string(&json, "subject_name", event->subject_name);
    rota_json_add_string(&json, "node_name", name_of(event->node_name, event->node));
    rota_json_end_object(&json);
}

static rota_time time_of(const struct rota_nodes_event *event)
{
    return event->at_ms < INT64_MAX / ROTA_MSEC ? (rota_time)event->at_ms * ROTA_MSEC : 0;
}

static void append_text(struct rota_buffer *buffer, const struct rota_nodes_event *event)
{
    char at[ROTA_TIME_TEXT_MAX];
    rota_buffer_append_text(buffer, rota_terminal_format_time(time_of(event), 3, at));
    rota_buffer_append_char(buffer, '\t');
    rota_terminal_append(buffer, event->kind);
    rota_buffer_append_char(buffer, '\t');
    rota_terminal_append(buffer, name_of(event->subject_name, event->subject));
    rota_buffer_append_char(buffer, ' ');
    rota_terminal_append(buffer, event->text);
    rota_buffer_append_char(buffer, '\t');
    rota_terminal_append(buffer, name_of(event->node_name, event->node));
}

enum { TIME_WIDTH = 19, KIND_WIDTH = 8, INDENT = TIME_WIDTH + 2 + KIND_WIDTH + 2 };

/* A row of a table. Its widths are fixed, because further events may come later. */
static void append_wrapped(struct rota_buffer *buffer, const struct rota_nodes_event *event,
                           int width)
{
    struct rota_buffer text = {0};
    rota_terminal_append_local(buffer, time_of(event));
    rota_buffer_append_text(buffer, "  ");
    rota_terminal_append(buffer, event->kind);
    int room = KIND_WIDTH - rota_terminal_columns(event->kind);
    rota_buffer_print(buffer, "%*s", room > 0 ? room + 2 : 2, "");
    rota_terminal_append(&text, name_of(event->subject_name, event->subject));
    rota_buffer_append_char(&text, ' ');
    rota_terminal_append(&text, event->text);
    if (!rota_str_is_equal(event->subject, event->node)) {
        rota_buffer_append_text(&text, " @");
        rota_terminal_append(&text, name_of(event->node_name, event->node));
    }
    rota_buffer_append_char(&text, '\0');
    if (!text.failed)
        rota_terminal_wrap(buffer, text.data, INDENT, width);
    buffer->failed |= text.failed;
    buffer->size -= buffer->size > 0; /* its newline, which every line gets */
    rota_buffer_deinit(&text);
}

static void append_titles(struct rota_buffer *buffer, const struct rota_terminal *terminal)
{
    rota_buffer_print(buffer, "%s%-*s  %-*s  EVENT%s\n",
                      rota_terminal_color(terminal, ROTA_COLOR_BOLD), TIME_WIDTH, "TIME",
                      KIND_WIDTH, "KIND", rota_terminal_color(terminal, ROTA_COLOR_NONE));
}

static void print(struct reader *reader, const struct rota_nodes_event *event)
{
    struct rota_buffer *line = &reader->line;
    struct rota_terminal terminal = rota_terminal_look();
    rota_buffer_clear(line);
    if (reader->form == ROTA_TABLE_JSON) {
        append_json(line, event);
    } else if (reader->form == ROTA_TABLE_TSV) {
        append_text(line, event);
    } else {
        if (!reader->has_titles)
            append_titles(line, &terminal);
        reader->has_titles = true;
        append_wrapped(line, event, reader->form == ROTA_TABLE_WIDE ? INT_MAX : terminal.width);
    }
    rota_buffer_append_char(line, '\n');
    if (!line->failed)
        fwrite(line->data, 1, line->size, stdout);
    if (event->at_ms > reader->last_ms)
        reader->last_ms = event->at_ms;
    reader->is_failed = line->failed || !rota_cli_can_print();
}

static int compare(const void *a, const void *b)
{
    const struct rota_nodes_event *one = &((const struct entry *)a)->event;
    const struct rota_nodes_event *other = &((const struct entry *)b)->event;
    if (one->at_ms != other->at_ms)
        return one->at_ms < other->at_ms ? -1 : 1;
    return one->number < other->number ? -1 : one->number > other->number;
}

/* Print in the order of their times; after a change of node, only newer ones. */
static void print_waiting(struct reader *reader, uint64_t since_ms)
{
    if (reader->waiting.size > 1)
        qsort(reader->waiting.items, reader->waiting.size, sizeof reader->waiting.items[0],
              compare);
    for (size_t i = 0; i < reader->waiting.size && !reader->is_failed; i++)
        if (reader->waiting.items[i].event.at_ms > since_ms)
            print(reader, &reader->waiting.items[i].event);
    reader->waiting.size = 0;
    rota_arena_clear(&reader->arena);
    fflush(stdout);
}

/* --- reading --- */

static void on_message(void *data, struct rota_call *call, struct rota_str message)
{
    struct reader *reader = data;
    struct rota_nodes_event event;
    (void)call;
    if (reader->is_following) {
        if (rota_message_decode(&ROTA_NODES_EVENT, message, &event, &reader->arena, NULL))
            return;
        print(reader, &event);
        fflush(stdout);
        reader->after = event.number;
        return;
    }
    struct entry entry = {.bytes = rota_arena_copy(&reader->arena, message)};
    if (!rota_message_decode(&ROTA_NODES_EVENT, entry.bytes, &entry.event, &reader->arena, NULL) &&
        rota_vector_push(&reader->waiting, entry) && entry.event.number > reader->after)
        reader->after = entry.event.number;
}

static void on_end(void *data, struct rota_call *call, const struct rota_call_result *result)
{
    struct reader *reader = data;
    (void)call;
    reader->has_ended = true;
    reader->status = result->status;
    snprintf(reader->why, sizeof reader->why, "%.*s", ROTA_STR_ARGS(result->text));
}

/* One call, until it ends or is interrupted. */
static enum rota_code read_events(struct reader *reader, bool is_followed, struct rota_error *error)
{
    struct rota_str kind = rota_str(reader->options->kind ? reader->options->kind : "");
    const struct rota_nodes_events request = {
        .after = reader->after, .kinds = {&kind, kind.size > 0}, .is_followed = is_followed};
    struct rota_buffer message = {0};
    struct rota_call *call = NULL;
    rota_message_encode(&ROTA_NODES_EVENTS, &request, &message);
    struct rota_call_options options = {.method = rota_str("/rota.v1.Nodes/Events"),
                                        .request = rota_buffer_str(&message),
                                        .timeout = is_followed ? 0 : reader->options->of.timeout,
                                        .on_message = on_message,
                                        .on_end = on_end,
                                        .data = reader};
    reader->is_following = is_followed;
    reader->has_ended = false;
    reader->status = ROTA_STATUS_OK;
    enum rota_code code = rota_channel_call(reader->client->channel, &options, &call, error);
    rota_buffer_deinit(&message);
    if (code)
        return code;
    while (!reader->has_ended && !reader->is_interrupted && !reader->is_failed)
        uv_run(&reader->client->loop, UV_RUN_ONCE);
    if (!reader->has_ended)
        rota_call_cancel(call);
    if (reader->status == ROTA_STATUS_OK)
        return ROTA_OK;
    code = reader->status == ROTA_STATUS_INVALID_ARGUMENT ? ROTA_ERR_INVALID : ROTA_ERR_UNAVAILABLE;
    rota_cli_describe_refusal(error, code, rota_channel_target(reader->client->channel),
                              reader->status, reader->why);
    return code;
}

/* Switch to another node, or start again with the same one: its numbers are different. */
static void go_on_elsewhere(struct reader *reader)
{
    struct rota_client *client = reader->client;
    rota_client_next(client);
    reader->after = 0;
}

static enum rota_code read_all(struct reader *reader, struct rota_error *error)
{
    enum { PAUSE_MS = 500 };
    enum rota_code code;
    bool has_read = false;
    for (size_t n_failed = 0;;) {
        uint64_t since_ms = reader->last_ms;
        code = read_events(reader, false, error);
        if (!code) {
            print_waiting(reader, since_ms);
            has_read = true;
            n_failed = 0;
        }
        if (!code && reader->options->is_followed && !reader->is_interrupted && !reader->is_failed)
            code = read_events(reader, true, error);
        if (reader->is_interrupted || reader->is_failed || code == ROTA_ERR_INVALID)
            return reader->is_interrupted ? ROTA_OK : code;
        if (!code && !reader->options->is_followed)
            return ROTA_OK;
        if (!has_read && ++n_failed >= reader->client->n_channels)
            return code;
        go_on_elsewhere(reader);
        if (has_read)
            rota_client_pause(reader->client, PAUSE_MS);
    }
}

/* --- the command --- */

static void on_signal(void *data)
{
    struct reader *reader = data;
    reader->is_interrupted = true;
    uv_stop(&reader->client->loop);
}

static enum rota_code run_reader(struct reader *reader, struct rota_error *error)
{
    struct rota_signals signals;
    rota_signals_open(&signals, &reader->client->loop, rota_signals_end, on_signal, reader);
    enum rota_code code = read_all(reader, error);
    rota_signals_close(&signals);
    uv_run(&reader->client->loop, UV_RUN_NOWAIT);
    return code;
}

static int run_events(int argc, char *const *argv)
{
    struct events options = {0};
    struct rota_client client;
    struct rota_error error;
    struct reader reader = {.options = &options, .client = &client};
    int exit_code;
    if (!rota_cli_parse(&rota_cmd_events, argc, argv, &options, NULL, &exit_code))
        return exit_code;
    const struct rota_terminal terminal = rota_terminal_look();
    reader.form =
        rota_table_choose(options.of.json ? ROTA_TABLE_JSON : options.of.output, &terminal);
    if (rota_client_open(&options.of, &client, &error))
        return rota_cli_fail_error(&error);
    enum rota_code code = run_reader(&reader, &error);
    rota_client_close(&client);
    rota_vector_deinit(&reader.waiting);
    rota_arena_deinit(&reader.arena);
    rota_buffer_deinit(&reader.line);
    return code ? rota_cli_fail_error(&error) : ROTA_CLI_OK;
}

const struct rota_cli_command rota_cmd_events = {
    .command =
        {
            .name = "events",
            .summary = "Show what happened in a cluster",
            .description =
                "Every node keeps its last few thousand events, and any node can return the events "
                "of all nodes. Prints one line per event, oldest first: the time, the kind, what "
                "happened, and the node that recorded it. A table wraps long sentences; `-o wide` "
                "keeps each on one line. With --json each line is {\"number\", \"at_ms\", "
                "\"kind\", \"subject\", \"text\", \"node\"}. --follow "
                "keeps printing until interrupted (exit code 0) and moves on to the next node in "
                "--node if one becomes unreachable. Events recorded only on a node that has since "
                "died are lost.",
            .options = OPTIONS,
            .n_options = sizeof OPTIONS / sizeof *OPTIONS,
            .examples = "rota events --node 127.0.0.1:7700\n"
                        "rota events --follow --kind node --json\n",
        },
    .run = run_events,
};
