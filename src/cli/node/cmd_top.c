/* rota top: a live view of a cluster in the terminal. */
#include "cli/cli.h"
#include "cli/node/documents.h"
#include "cli/node/top.h"
#include "cli/node/top_screen.h"
#include "cli/signals.h"
#include "cli/terminal.h"
#include "io/clock.h"
#include "wire/text/json_scan.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { EVERY_MS = 1000, ONCE_WIDTH = 160, DETAILS_MAX = 200 };

static const char *const VIEW_NAMES[] = {"nodes", "shards", "queues", "calls", NULL};

struct options {
    struct rota_client_options of;
    int view;
    bool is_once;
};

static const struct rota_option OPTIONS[] = {
    ROTA_CLIENT_OPTIONS(struct options),
    ROTA_TABLE_OPTION_HELP(struct options, of.output,
                           "output format of --once; auto is a table with totals"),
    {.name = "view",
     ROTA_OPTION_INTO(CHOICE, struct options, view),
     .value_name = "VIEW",
     .choices = VIEW_NAMES,
     .default_text = "nodes",
     .help = "view to start with"},
    {.name = "once",
     ROTA_OPTION_INTO(FLAG, struct options, is_once),
     .help = "print one view after a second and exit, for scripts"},
};

/* --- rows --- */

/* Read the rows of the current view from the node's reply. */
static void take_rows(struct rota_top *top, const struct rota_nodes_documents_reply *reply,
                      struct rota_rows *rows)
{
    const struct rota_top_view *view = &rota_top_views[top->view];
    const char *fields[ROTA_TOP_COLUMNS_MAX];
    struct rota_str document = rota_documents_find(reply, view->topic);
    struct rota_rows fresh;
    struct rota_error error;
    char why[160];
    for (size_t i = 0; i < view->n_columns; i++)
        fields[i] = view->columns[i].field;
    if (document.size == 0) {
        snprintf(why, sizeof why, "this node has no %s", view->name);
        rota_top_refuse(top, why);
    } else if (rota_json_rows_read(document, view->key, fields, view->n_columns, &fresh, &error)) {
        snprintf(why, sizeof why, "%.150s", error.text);
        rota_top_refuse(top, why);
    } else {
        rota_json_rows_deinit(rows);
        *rows = fresh;
        rota_top_take(top, rota_clock_boot(), rows->cells, rows->n_rows);
    }
}

static uint64_t now_ms(void)
{
    return (uint64_t)(rota_clock_wall() / ROTA_MSEC);
}

/* --- once --- */

static enum rota_code look_once(struct rota_client *client, struct rota_top *top,
                                struct rota_rows *rows, struct rota_error *error)
{
    struct rota_str topic = rota_str(rota_top_views[top->view].topic);
    struct rota_nodes_documents_reply reply;
    enum rota_code code = rota_documents_ask(client, &topic, 1, &reply, error);
    if (!code)
        take_rows(top, &reply, rows);
    return code;
}

/* Only the table: titles, rows and totals. */
static void append_page(struct rota_top *top, bool is_wide, struct rota_buffer *buffer)
{
    static struct rota_top_screen screen;
    enum { BEFORE = 2, AROUND = 5, MARGIN = 2, PAGE = ROTA_TOP_HEIGHT_MAX - AROUND };
    size_t n_rows = top->rows.size < PAGE ? top->rows.size : PAGE;
    struct rota_terminal terminal = rota_terminal_look();
    top->width = is_wide                ? ROTA_TOP_WIDTH_MAX
                 : terminal.is_terminal ? terminal.width + MARGIN
                                        : ONCE_WIDTH;
    top->marks[0] = top->marks[1] = "";
    top->height = (int)n_rows + AROUND + (n_rows == 0);
    rota_top_draw(top, "", now_ms(), NULL, 0, &screen);
    for (size_t i = BEFORE; i + 1 < screen.n; i++) {
        struct rota_str line =
            rota_str_of(screen.text.data + screen.lines[i].at, screen.lines[i].size);
        line = rota_str_of(line.data + MARGIN, line.size > MARGIN ? line.size - MARGIN : 0);
        while (line.size > 0 && line.data[line.size - 1] == ' ')
            line.size--;
        if (line.size == 0) /* between an empty table and its totals */
            continue;
        rota_buffer_append_str(buffer, line);
        rota_buffer_append_char(buffer, '\n');
    }
    rota_top_screen_deinit(&screen);
}

static const char *name_of(const struct rota_top_column *column)
{
    return column->name ? column->name : column->field;
}

/* The rows as JSON; rates are those of the last second. */
static void append_json(const struct rota_top *top, struct rota_buffer *buffer)
{
    const struct rota_top_view *view = &rota_top_views[top->view];
    struct rota_json json = {.buffer = buffer};
    rota_json_begin_object(&json);
    rota_json_add_array(&json, view->name);
    for (size_t row = 0; row < top->rows.size; row++) {
        rota_json_begin_object(&json);
        for (size_t i = 0; i < view->n_columns; i++) {
            enum rota_top_kind kind = view->columns[i].kind;
            struct rota_str cell = top->rows.items[row].cells[i];
            double rate = top->rows.items[row].rates[i];
            rota_json_key(&json, name_of(&view->columns[i]));
            if (cell.size == 0)
                rota_json_null(&json);
            else if (kind == ROTA_TOP_TEXT)
                rota_json_string(&json, cell);
            else if (kind == ROTA_TOP_RATE || kind == ROTA_TOP_CPU)
                rota_json_double(&json, kind == ROTA_TOP_CPU ? rate / 1000 : rate);
            else
                rota_json_raw(&json, cell);
        }
        rota_json_end_object(&json);
    }
    rota_json_end_array(&json);
    rota_json_end_object(&json);
    rota_buffer_append_char(buffer, '\n');
}

/* The same values as tab-separated lines. */
static enum rota_code append_lines(const struct rota_top *top, struct rota_buffer *buffer,
                                   struct rota_error *error)
{
    static const enum rota_table_kind KINDS[] = {
        [ROTA_TOP_TEXT] = ROTA_TABLE_TEXT,     [ROTA_TOP_FLAG] = ROTA_TABLE_FLAG,
        [ROTA_TOP_NUMBER] = ROTA_TABLE_NUMBER, [ROTA_TOP_VALUE] = ROTA_TABLE_NUMBER,
        [ROTA_TOP_BYTES] = ROTA_TABLE_BYTES,   [ROTA_TOP_AGE] = ROTA_TABLE_AGE,
        [ROTA_TOP_SPAN] = ROTA_TABLE_DURATION, [ROTA_TOP_RATE] = ROTA_TABLE_NUMBER,
        [ROTA_TOP_CPU] = ROTA_TABLE_NUMBER,
    };
    const struct rota_top_view *view = &rota_top_views[top->view];
    const struct rota_terminal terminal = rota_terminal_look();
    struct rota_table_column columns[ROTA_TOP_COLUMNS_MAX];
    const struct rota_table table = {
        .key = view->name, .columns = columns, .n_columns = view->n_columns};
    struct rota_buffer document = {0};
    for (size_t i = 0; i < view->n_columns; i++)
        columns[i] = (struct rota_table_column){.title = view->columns[i].title,
                                                .field = name_of(&view->columns[i]),
                                                .kind = KINDS[view->columns[i].kind]};
    append_json(top, &document);
    enum rota_code code = rota_table_append(buffer, &table, ROTA_TABLE_TSV, &terminal,
                                            rota_buffer_str(&document), rota_clock_wall(), error);
    buffer->failed |= document.failed;
    rota_buffer_deinit(&document);
    return code;
}

static enum rota_code append_once(struct rota_top *top, const struct rota_client_options *of,
                                  struct rota_buffer *buffer, struct rota_error *error)
{
    if (!top->has_rows)
        return rota_error_set(error, ROTA_ERR_UNAVAILABLE, "top: %s", top->why);
    if (of->output == ROTA_TABLE_TSV && !of->json)
        return append_lines(top, buffer, error);
    if (of->output == ROTA_TABLE_JSON || of->json)
        append_json(top, buffer);
    else
        append_page(top, of->output == ROTA_TABLE_WIDE, buffer);
    return ROTA_OK;
}

static int run_once(const struct options *options, struct rota_client *client)
{
    struct rota_top top;
    struct rota_rows rows = {0}, before = {0};
    struct rota_buffer buffer = {0};
    struct rota_error error;
    rota_top_init(&top);
    top.view = (size_t)options->view;
    enum rota_code code = look_once(client, &top, &before, &error);
    if (!code) {
        rota_client_pause(client, EVERY_MS);
        code = look_once(client, &top, &rows, &error);
    }
    if (!code)
        code = append_once(&top, &options->of, &buffer, &error);
    rota_top_deinit(&top);
    rota_json_rows_deinit(&rows);
    rota_json_rows_deinit(&before);
    if (code) {
        rota_buffer_deinit(&buffer);
        return rota_cli_fail_error(&error);
    }
    return rota_cli_print(&buffer);
}

/* --- live --- */

struct live {
    struct rota_client *client;
    struct rota_top top;
    struct rota_rows rows;
    struct rota_top_screen screens[2];
    int shown; /* index of the screen shown; -1: unknown, draw everything */
    struct rota_top_screen_terminal terminal;
    bool is_colored, is_stale; /* the pending answer is for another view */
    struct rota_call *call;
    uv_poll_t keys;
    uv_timer_t timer;
    struct rota_signals signals;
    char away[200]; /* why no node answers; empty: one does */
};

static size_t read_details(const struct live *live, struct rota_top_detail *details, char **room)
{
    size_t chosen = live->top.is_detail ? rota_top_chosen(&live->top) : SIZE_MAX, n = 0;
    struct rota_scan scan;
    struct rota_str key;
    *room = NULL;
    if (chosen >= live->rows.n_rows || !(*room = malloc(live->rows.objects[chosen].size + 1)))
        return 0;
    rota_json_scan_init(&scan, live->rows.objects[chosen], *room);
    rota_json_scan_object(&scan);
    while (n < DETAILS_MAX && rota_json_scan_key(&scan, &key)) {
        details[n].name = key;
        details[n++].value = rota_json_scan_skip(&scan);
    }
    return n;
}

static void stop(struct live *live)
{
    uv_stop(&live->client->loop);
}

static void draw(struct live *live)
{
    struct rota_top_detail details[DETAILS_MAX];
    struct rota_buffer out = {0}, at = {0};
    char title[400], *room;
    size_t n = read_details(live, details, &room);
    rota_terminal_append_local(&at, rota_clock_wall());
    snprintf(title, sizeof title, "rota top  %s  %.*s%s%s",
             rota_channel_target(live->client->channel), ROTA_STR_ARGS(rota_buffer_str(&at)),
             live->away[0] ? "  " : "", live->away);
    rota_buffer_deinit(&at);
    struct rota_top_screen *wanted = &live->screens[live->shown == 0];
    rota_top_draw(&live->top, title, now_ms(), details, n, wanted);
    rota_top_paint(live->shown < 0 ? NULL : &live->screens[live->shown], wanted, live->is_colored,
                   &out);
    live->shown = live->shown == 0;
    if (out.failed || !rota_top_screen_write(rota_buffer_str(&out)))
        stop(live);
    rota_buffer_deinit(&out);
    free(room);
}

static void ask(struct live *live);

static void on_end(void *data, struct rota_call *call, const struct rota_call_result *result)
{
    struct live *live = data;
    struct rota_client *client = live->client;
    struct rota_arena arena = {0};
    struct rota_nodes_documents_reply reply;
    (void)call;
    live->call = NULL;
    if (result->status == ROTA_STATUS_OK &&
        !rota_message_decode(&ROTA_NODES_DOCUMENTS_REPLY, result->message, &reply, &arena, NULL)) {
        live->away[0] = '\0';
        if (!live->is_stale)
            take_rows(&live->top, &reply, &live->rows);
    } else {
        snprintf(live->away, sizeof live->away, "(%s: %.*s)", rota_status_name(result->status),
                 ROTA_STR_ARGS(result->text));
        rota_client_next(client);
    }
    rota_arena_deinit(&arena);
    draw(live);
    if (live->is_stale)
        ask(live);
}

static void ask(struct live *live)
{
    struct rota_str topic = rota_str(rota_top_views[live->top.view].topic);
    const struct rota_nodes_documents request = {.topics = {&topic, 1}};
    struct rota_buffer message = {0};
    struct rota_error error;
    live->is_stale = live->call != NULL;
    if (live->call)
        return;
    rota_message_encode(&ROTA_NODES_DOCUMENTS, &request, &message);
    struct rota_call_options options = {.method = rota_str("/rota.v1.Nodes/Documents"),
                                        .request = rota_buffer_str(&message),
                                        .timeout = live->client->options->timeout,
                                        .on_end = on_end,
                                        .data = live};
    if (rota_channel_call(live->client->channel, &options, &live->call, &error)) {
        snprintf(live->away, sizeof live->away, "(%.150s)", error.text);
        rota_client_next(live->client);
    }
    rota_buffer_deinit(&message);
}

/* Wait for an answer that takes longer than a second. */
static void on_timer(uv_timer_t *timer)
{
    struct live *live = timer->data;
    if (!live->call && !live->top.is_paused)
        ask(live);
    draw(live);
}

static void on_keys(uv_poll_t *poll, int status, int events)
{
    struct live *live = poll->data;
    char bytes[256];
    ssize_t n = status < 0 ? 0 : read(STDIN_FILENO, bytes, sizeof bytes);
    (void)events;
    if (n <= 0) {
        stop(live);
        return;
    }
    if (rota_top_feed(&live->top, rota_str_of(bytes, (size_t)n)))
        ask(live);
    if (live->top.is_over)
        stop(live);
    else
        draw(live);
}

static void measure_terminal(struct live *live)
{
    struct rota_terminal terminal = rota_terminal_look();
    live->top.width = terminal.width;
    if (terminal.is_utf8) {
        live->top.marks[0] = "▼";
        live->top.marks[1] = "▲";
    }
    live->top.height = terminal.height;
    live->is_colored = terminal.is_colored;
    live->shown = -1;
}

static void on_signal(void *data)
{
    struct live *live = data;
    switch (live->signals.number) {
    case SIGTSTP: /* suspended by the user; execution continues after raise() */
        rota_top_screen_leave(&live->terminal);
        raise(SIGSTOP);
        break;
    case SIGCONT:
    case SIGWINCH:
        break;
    default: /* all others end the command */
        stop(live);
        return;
    }
    if (!rota_top_screen_enter(&live->terminal))
        stop(live);
    measure_terminal(live);
    draw(live);
}

static void run_live(struct live *live)
{
    static const int SIGNALS[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGCONT, SIGWINCH, 0};
    uv_loop_t *loop = &live->client->loop;
    uv_timer_init(loop, &live->timer);
    uv_poll_init(loop, &live->keys, STDIN_FILENO);
    live->timer.data = live->keys.data = live;
    rota_signals_open(&live->signals, loop, SIGNALS, on_signal, live);
    uv_poll_start(&live->keys, UV_READABLE, on_keys);
    uv_timer_start(&live->timer, on_timer, 0, EVERY_MS);
    measure_terminal(live);
    if (rota_top_screen_enter(&live->terminal))
        uv_run(loop, UV_RUN_DEFAULT);
    rota_top_screen_leave(&live->terminal);
    if (live->call)
        rota_call_cancel(live->call);
    uv_close((uv_handle_t *)&live->timer, NULL);
    uv_close((uv_handle_t *)&live->keys, NULL);
    rota_signals_close(&live->signals);
    uv_run(loop, UV_RUN_NOWAIT);
}

static int run_top(int argc, char *const *argv)
{
    struct options options = {0};
    struct rota_client client;
    struct rota_error error;
    static struct live live;
    int exit_code = ROTA_CLI_OK;
    if (!rota_cli_parse(&rota_cmd_top, argc, argv, &options, NULL, &exit_code))
        return exit_code;
    if (!options.is_once && !rota_top_screen_is_there())
        return rota_cli_fail(ROTA_CLI_BAD, "top needs a terminal; `rota top --once` prints one "
                                           "view for scripts");
    if (!options.is_once && (options.of.json || options.of.output))
        return rota_cli_fail(ROTA_CLI_BAD, "top: --json and --output need --once");
    if (rota_client_open(&options.of, &client, &error))
        return rota_cli_fail_error(&error);
    if (options.is_once) {
        exit_code = run_once(&options, &client);
    } else {
        live = (struct live){.client = &client};
        rota_top_init(&live.top);
        live.top.view = (size_t)options.view;
        run_live(&live);
        rota_top_deinit(&live.top);
        rota_json_rows_deinit(&live.rows);
        for (int i = 0; i < 2; i++)
            rota_top_screen_deinit(&live.screens[i]);
    }
    rota_client_close(&client);
    return exit_code;
}

const struct rota_cli_command rota_cmd_top = {
    .command =
        {
            .name = "top",
            .summary = "Watch nodes, shards, queues and calls live",
            .description =
                "Redraws once per second, from the first node that answers. Keys: 1 to 4 or Tab "
                "switch the view; Up and Down select a row, Enter shows its details, Esc goes "
                "back; < and > choose the sort column, r reverses the order; p pauses; ? shows the "
                "keys; q quits. If the node becomes unreachable, the next one in --node is "
                "used.\n\nThe last line has totals.\n\nWith --once one view is printed as a table, "
                "with rates over one second; with --json as {VIEW: [{...}]}, where \"cpu\" is in "
                "cores and timestamps are in milliseconds. Exits 1 if the node has no such view.",
            .options = OPTIONS,
            .n_options = sizeof OPTIONS / sizeof *OPTIONS,
            .examples = "rota top --node 127.0.0.1:7700,127.0.0.1:7710\n"
                        "rota top --once --view queues\n",
        },
    .run = run_top,
};
