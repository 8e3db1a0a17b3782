#include "cli/cli.h"

#include "base/quote.h"
#include "base/utf8.h"
#include "cli/terminal.h"
#include "io/clock.h"
#include "io/file.h"
#include "io/net/address.h"
#include "wire/grpc/grpc.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <uv.h>

/* Print a sentence on one line, even if a file name in it contains newlines or escapes. */
static void print_safely(struct rota_str text)
{
    char piece[ROTA_QUOTE_PIECE_MAX];
    while (text.size > 0) {
        size_t size = rota_terminal_next(&text, piece);
        fwrite(piece, 1, size, stderr);
    }
}

int rota_cli_fail(int exit_code, const char *format, ...)
{
    char text[ROTA_ERROR_TEXT_MAX + 100];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);

    fputs("rota: ", stderr);
    print_safely(rota_str(text));
    fputc('\n', stderr);
    return exit_code;
}

int rota_cli_fail_error(const struct rota_error *error)
{
    switch (error->code) {
    case ROTA_ERR_UNAVAILABLE:
    case ROTA_ERR_NO_MEMORY:
    case ROTA_ERR_UNKNOWN:
    case ROTA_ERR_STALE:
        return rota_cli_fail(ROTA_CLI_NO, "%s", error->text);
    case ROTA_OK:
    case ROTA_ERR_INVALID:
    case ROTA_ERR_NOT_FOUND:
    case ROTA_ERR_LIMIT:
    case ROTA_ERR_IO:
        break;
    }
    return rota_cli_fail(ROTA_CLI_BAD, "%s", error->text);
}

bool rota_cli_parse(const struct rota_cli_command *command, int argc, char *const *argv,
                    void *result, struct rota_option_list *arguments, int *exit_code)
{
    struct rota_option_list none;
    struct rota_buffer help = {0};
    struct rota_error error;

    switch (rota_command_parse(&command->command, argc, argv, result, arguments ? arguments : &none,
                               &error)) {
    case ROTA_COMMAND_RUN:
        return true;
    case ROTA_COMMAND_HELP:
        rota_command_format_help(&command->command, (unsigned)rota_terminal_look().width, &help);
        *exit_code = rota_cli_print(&help);
        return false;
    case ROTA_COMMAND_REFUSED:
        break;
    }
    bool is_question = error.text[strlen(error.text) - 1] == '?';
    *exit_code = rota_cli_fail(ROTA_CLI_BAD, "%s: %s%s see `rota %s --help`", command->command.name,
                               error.text, is_question ? "" : ";", command->command.name);
    return false;
}

/* Why the first failed write to standard output failed. By the end of the program `errno` may mean
 * something else. */
static int output_errno;

int rota_cli_end_interrupted(void)
{
    signal(SIGINT, SIG_DFL);
    raise(SIGINT);
    return 128 + SIGINT;
}

bool rota_cli_can_print(void)
{
    if (!ferror(stdout))
        return true;
    if (output_errno == 0)
        output_errno = errno;
    return false;
}

static bool is_utf8(struct rota_str text)
{
    for (size_t size; text.size > 0; text = rota_str_of(text.data + size, text.size - size))
        if (rota_utf8_decode(text, &size) == ROTA_UTF8_NONE)
            return false;
    return true;
}

void rota_cli_add_bytes(struct rota_json *json, const char *name, const char *base64_name,
                        struct rota_str bytes)
{
    struct rota_buffer base64 = {0};
    if (is_utf8(bytes)) {
        rota_json_add_string(json, name, bytes);
        return;
    }
    rota_grpc_base64_encode(&base64, bytes);
    while (base64.size % 4 != 0 && !base64.failed) /* padding, which gRPC omits and others expect */
        rota_buffer_append_char(&base64, '=');
    rota_json_add_string(json, base64_name, rota_buffer_str(&base64));
    if (base64.failed)
        json->buffer->failed = true;
    rota_buffer_deinit(&base64);
}

void rota_cli_describe_refusal(struct rota_error *error, enum rota_code code, const char *node,
                               enum rota_status status, const char *text)
{
    static const char *const HELP[][2] = {
        {"connection refused", "is rotad running there? --node or ROTA_NODE chooses other nodes"},
        {"speaks TLS, but this side", "give --tls-ca, or set ROTA_TLS_CA"},
        {"speaks plaintext, but this side", "leave out --tls-ca, --tls-cert and ROTA_TLS_..."},
        {"requires a certificate", "give --tls-cert and --tls-key"},
        {"signed by a trusted CA", "is --tls-ca the CA of this node?"},
    };
    bool is_named = strstr(text, node); /* not if the node is a host name: then it has an address */
    bool is_unreachable =
        status == ROTA_STATUS_UNAVAILABLE &&
        (is_named || rota_str_has_prefix(rota_str(text), rota_str("cannot connect to ")));
    struct rota_buffer shown = {0};
    if (!is_unreachable || !is_named)
        rota_buffer_print(&shown, "%s: %s: ", node, rota_status_name(status));
    rota_terminal_append(&shown, rota_str(text)); /* a sentence, with its own quotes */
    for (size_t i = 0; is_unreachable && i < sizeof HELP / sizeof *HELP; i++)
        if (strstr(text, HELP[i][0]))
            rota_buffer_print(&shown, "; %s", HELP[i][1]);
    rota_error_set(error, code, "%.*s", ROTA_STR_ARGS(rota_buffer_str(&shown)));
    rota_buffer_deinit(&shown);
}

void rota_cli_add_time(struct rota_json *json, const char *key, rota_time time)
{
    char text[ROTA_TIME_TEXT_MAX];
    rota_json_add_text(json, key, time ? rota_terminal_format_time(time, 3, text) : NULL);
}

void rota_cli_write_log(void *data, struct rota_str line)
{
    (void)data;
    fwrite(line.data, 1, line.size, stderr);
}

int rota_cli_print(struct rota_buffer *buffer)
{
    int code = ROTA_CLI_OK;
    if (buffer->failed)
        code = rota_cli_fail(ROTA_CLI_NO, "not enough memory for the answer");
    else
        fwrite(rota_buffer_str(buffer).data, 1, buffer->size, stdout);
    rota_cli_can_print();
    rota_buffer_deinit(buffer);
    return code;
}

int rota_cli_answer(const struct rota_cli_command *command, int form, struct rota_buffer *json)
{
    const struct rota_terminal terminal = rota_terminal_look();
    struct rota_buffer shown = {0};
    struct rota_error error;
    if (json->failed || !command->table)
        return rota_cli_print(json);
    enum rota_code code = rota_table_append(
        &shown, command->table, rota_table_choose((enum rota_table_form)form, &terminal), &terminal,
        rota_buffer_str(json), rota_clock_wall(), &error);
    rota_buffer_deinit(json);
    if (!code)
        return rota_cli_print(&shown);
    rota_buffer_deinit(&shown);
    return rota_cli_fail_error(&error);
}

static bool has_thread_left;

static void on_grace_over(uv_timer_t *timer)
{
    uv_stop(timer->loop);
}

void rota_cli_end_loop(struct uv_loop_s *loop, rota_time grace)
{
    static uv_timer_t timer;
    uv_run(loop, UV_RUN_NOWAIT); /* a uv_stop() from before would end the next run */
    uv_timer_init(loop, &timer);
    uv_timer_start(&timer, on_grace_over, (uint64_t)(grace / ROTA_MSEC), 0);
    uv_unref((uv_handle_t *)&timer);
    uv_run(loop, UV_RUN_DEFAULT);
    uv_close((uv_handle_t *)&timer, NULL);
    for (int i = 0; i < 2; i++)
        uv_run(loop, UV_RUN_NOWAIT);
    if (uv_loop_close(loop) == UV_EBUSY)
        has_thread_left = true;
}

bool rota_cli_has_thread_left(void)
{
    return has_thread_left;
}

int rota_cli_finish(int exit_code)
{
    if (rota_cli_can_print())
        fflush(stdout);
    if (rota_cli_can_print() || exit_code != ROTA_CLI_OK)
        return exit_code;
    if (output_errno == EPIPE) /* the reader has closed the pipe */
        return ROTA_CLI_NO;
    return rota_cli_fail(ROTA_CLI_NO, "cannot write to standard output: %s",
                         strerror(output_errno));
}

const char *rota_cli_node(const char *given)
{
    const char *node = given ? given : getenv("ROTA_NODE");
    return node && (given || *node) ? node : ROTA_NODE_DEFAULT;
}

rota_time rota_cli_now(rota_time at)
{
    return at == ROTA_TIME_MIN ? rota_clock_wall() : at;
}

static bool is_dash(const char *path)
{
    return strcmp(path, "-") == 0;
}

static bool is_pipe(const char *path, struct stat *status)
{
    return stat(path, status) == 0 && S_ISFIFO(status->st_mode);
}

const char *rota_cli_file_name(const char *path)
{
    return is_dash(path) ? "standard input" : path;
}

bool rota_cli_is_input(const char *path)
{
    struct stat file, input;
    return is_dash(path) || (is_pipe(path, &file) && fstat(STDIN_FILENO, &input) == 0 &&
                             file.st_dev == input.st_dev && file.st_ino == input.st_ino);
}

/* A file that is read once may be a pipe; reading anything else that is not a file fails later. */
enum rota_code rota_cli_read_file(const char *path, size_t size_max, struct rota_buffer *content,
                                  struct rota_error *error)
{
    struct stat status;
    if (is_dash(path))
        return rota_file_read_fd(STDIN_FILENO, rota_cli_file_name(path), size_max, content, error);
    if (!is_pipe(path, &status))
        return rota_file_read(path, size_max, content, error);

    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return rota_error_set(error, ROTA_ERR_IO, "cannot read %s: %s", path, strerror(errno));
    enum rota_code code = rota_file_read_fd(fd, path, size_max, content, error);
    close(fd);
    return code;
}

enum rota_code rota_cli_read_hosts(const char *path, struct rota_hosts *hosts,
                                   struct rota_error *error)
{
    struct rota_buffer content;
    if (!path[0])
        return rota_error_set(error, ROTA_ERR_INVALID, "the name of the hosts file is empty");
    enum rota_code code = rota_cli_read_file(path, ROTA_HOSTS_TEXT_MAX, &content, error);
    if (code)
        return code;
    code = rota_hosts_file_parse(rota_buffer_str(&content), rota_cli_file_name(path), hosts, error);
    rota_buffer_deinit(&content);
    return code;
}

enum rota_code rota_cli_build_ring(const char *path, const struct rota_host *hosts, size_t n_hosts,
                                   rota_time now, int64_t points, struct rota_ring **ring,
                                   struct rota_error *error)
{
    struct rota_error inner;
    struct rota_ring_host *placed = calloc(n_hosts + 1, sizeof *placed);
    size_t n = 0;
    if (!placed)
        return rota_error_set(error, ROTA_ERR_NO_MEMORY, "%s: not enough memory for %zu hosts",
                              path, n_hosts);
    for (size_t i = 0; i < n_hosts; i++)
        if (rota_host_is_placed(&hosts[i], now))
            placed[n++] = rota_host_to_ring(&hosts[i]);
    enum rota_code code = rota_ring_new(placed, n, (uint32_t)points, ring, &inner);
    if (code)
        rota_error_set(error, code, "%s: %s", path, inner.text);
    free(placed);
    return code;
}

enum rota_code rota_cli_load_ring(struct rota_host_options *from, rota_time now, int64_t points,
                                  struct rota_ring **ring, struct rota_error *error)
{
    struct rota_hosts hosts = {0};
    char text[ROTA_SQL_URL_TEXT_MAX];
    enum rota_code code = rota_host_options_check(from, error);
    if (!code)
        code = rota_host_options_read(from, &hosts, error);
    if (code)
        return code;
    const char *name = rota_host_options_name(from, text);
    code = rota_cli_build_ring(name, hosts.hosts, hosts.n_hosts, now, points, ring, error);
    if (!code && rota_ring_size(*ring) == 0) {
        rota_ring_unref(*ring);
        code = rota_error_set(
            error, ROTA_ERR_UNAVAILABLE,
            hosts.n_hosts ? "%s: the ring is empty: none of the %zu hosts is placed now"
            : from->file  ? "%s: the ring is empty: the file has no hosts"
                          : "%s: the ring is empty: the store has no such live members",
            name, hosts.n_hosts);
    }
    rota_hosts_file_deinit(&hosts);
    return code;
}
