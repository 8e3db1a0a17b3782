#include "demo/up.h"

#include "base/arena.h"
#include "io/clock.h"
#include "io/net/zmq.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define WELL_AFTER (20 * ROTA_SEC) /* after running this long, the pause is short again */

enum { OUTPUT_MAX = 64 << 10, READY_MAX = 4096, FREEZES_MAX = 1000 };

/* --- the command line --- */

struct line {
    struct rota_arena arena;
    char *words[ROTA_UP_WORDS_MAX + 1];
    size_t n;
    bool has_failed;
};

__attribute__((format(printf, 2, 3))) static void add_word(struct line *line, const char *format,
                                                           ...)
{
    char text[PATH_MAX + 64];
    va_list arguments;
    va_start(arguments, format);
    int size = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    struct rota_str word = {0};
    if (size >= 0 && (size_t)size < sizeof text && line->n < ROTA_UP_WORDS_MAX)
        word = rota_arena_copy(&line->arena, rota_str(text));
    line->has_failed |= !word.data;
    if (word.data)
        line->words[line->n++] = (char *)(uintptr_t)word.data; /* only read */
}

static void add_option(struct line *line, const char *name, const char *value)
{
    add_word(line, "%s", name);
    add_word(line, "%s", value);
}

/* At its previous address, or anywhere. */
static void add_address(struct line *line, const char *name, const char *known)
{
    add_option(line, name, *known ? known : "127.0.0.1:0");
}

static void write_node(const struct rota_up_process *process, struct line *line)
{
    add_word(line, "%s", process->program);
    add_word(line, "--data");
    add_word(line, "%s/%s", process->data, process->name);
    add_word(line, "--store");
    add_word(line, "sqlite:%s/store.db", process->data);
    add_address(line, "--listen", process->grpc);
    if (rota_zmq_check(NULL) == ROTA_OK)
        add_address(line, "--workers", process->zmq);
    add_address(line, "--http", process->http);
    add_option(line, "--name", process->name);
    add_option(line, "--zone", process->zone);
    add_option(line, "--drain-limit", "1s");
    add_word(line, "--config");
    add_word(line, "%s/rotad.toml", process->data);
}

/* A few rows per second of each partition, which ends after 20 seconds or so. */
static void write_task(const struct rota_up_process *process, struct line *line)
{
    _Static_assert(ROTA_UP_ROWS_RATE * 20 == ROTA_UP_ROWS_MEAN, "one end in 20 seconds: 0.05");
    add_word(line, "%s", process->program);
    add_word(line, "group");
    add_word(line, "join");
    add_word(line, "--log");
    add_word(line, "sqlite:%s/groups.db", process->data);
    add_option(line, "--name", rota_up_queue);
    add_option(line, "--task", process->name);
    add_word(line, "--partitions");
    add_word(line, "%d", ROTA_UP_PARTITIONS);
    add_word(line, "--rate");
    add_word(line, "%d", ROTA_UP_ROWS_RATE);
    add_option(line, "--simulate-splits", "0.05");
    add_option(line, "--progress", "2s");
    add_option(line, "--balance", "10s");
}

/* It shares the store of the nodes, and has a file for each shard. */
static void write_server(const struct rota_up_process *process, struct line *line)
{
    add_word(line, "%s", process->program);
    add_word(line, "sqlite:%s/store.db", process->data);
    add_word(line, "%s/counts", process->data);
}

/* `words` are "CAPABILITY COMMAND"; the command is for the shell. */
static void write_worker(const struct rota_up_process *process, struct line *line)
{
    size_t size = strcspn(process->words, " ");
    add_word(line, "%s", process->program);
    add_word(line, "work");
    add_option(line, "--node", process->nodes);
    add_option(line, "--queue", rota_up_queue);
    add_word(line, "--can");
    add_word(line, "%.*s", (int)size, process->words);
    add_option(line, "--name", process->name);
    add_option(line, "--slots", "2");
    add_option(line, "--lease", "20s");
    add_option(line, "--kill-after", "1s");
    add_option(line, "--drain", "0s");
    add_option(line, "--log-level", "warn");
    add_option(line, "--", "sh");
    add_option(line, "-c", process->words + size + 1);
}

/* --- its log --- */

static void log_path(const struct rota_up_process *process, char path[PATH_MAX])
{
    snprintf(path, PATH_MAX, "%s/%s.log", process->data, process->name);
}

char *rota_up_process_last_line(const struct rota_up_process *process, char line[ROTA_UP_LINE_MAX])
{
    char path[PATH_MAX], text[ROTA_UP_LINE_MAX];
    line[0] = '\0';
    log_path(process, path);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return line;
    off_t end = lseek(fd, 0, SEEK_END);
    off_t begin = end > (off_t)sizeof text - 1 ? end - (off_t)sizeof text + 1 : 0;
    ssize_t size = pread(fd, text, sizeof text - 1, begin);
    close(fd);
    while (size > 0 && text[size - 1] == '\n')
        size--;
    text[size > 0 ? size : 0] = '\0';
    const char *last = strrchr(text, '\n');
    snprintf(line, ROTA_UP_LINE_MAX, "%s", last ? last + 1 : text);
    return line;
}

/* Writers append, so they continue at the new beginning; a line written meanwhile may be lost. */
void rota_up_process_trim_log(const struct rota_up_process *process)
{
    char path[PATH_MAX], old[PATH_MAX + 8], block[16384];
    ssize_t size;
    log_path(process, path);
    snprintf(old, sizeof old, "%s.old", path);
    int from = open(path, O_RDWR | O_CLOEXEC);
    if (from < 0)
        return;
    int to = lseek(from, 0, SEEK_END) > ROTA_UP_LOG_MAX
                 ? open(old, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600)
                 : -1;
    lseek(from, 0, SEEK_SET);
    while (to >= 0 && (size = read(from, block, sizeof block)) > 0)
        if (write(to, block, (size_t)size) != size)
            break; /* a full disk: better to lose it than to grow without end */
    if (to >= 0) {
        if (ftruncate(from, 0))
            unlink(path);
        close(to);
    }
    close(from);
}

/* --- its life --- */

/* The value of "NAME=" in the ready line. */
static void read_address(const char *ready, const char *name, char address[ROTA_CHANNEL_TARGET_MAX])
{
    const char *value = strstr(ready, name);
    if (!value)
        return;
    value += strlen(name);
    snprintf(address, ROTA_CHANNEL_TARGET_MAX, "%.*s", (int)strcspn(value, " \n"), value);
}

/* All complete lines; one that is too long is skipped. */
static void hear_lines(struct rota_up_process *process)
{
    struct rota_str output = rota_child_output(process->child);
    size_t done = 0;
    const char *end;
    while ((end = memchr(output.data + done, '\n', output.size - done))) {
        char line[ROTA_UP_LINE_MAX];
        snprintf(line, sizeof line, "%.*s", (int)(end - output.data - (ptrdiff_t)done),
                 output.data + done);
        done = (size_t)(end - output.data) + 1;
        process->on_line(process->callback_data, process, line);
    }
    rota_child_drop_output(process->child, done                        ? done
                                           : output.size == OUTPUT_MAX ? output.size
                                                                       : 0);
}

static void on_output(void *data)
{
    struct rota_up_process *process = data;
    struct rota_str output = rota_child_output(process->child);
    char line[READY_MAX + 1];
    if (process->on_line) {
        hear_lines(process);
        return;
    }
    if (process->is_ready || !process->zone || !memchr(output.data, '\n', output.size))
        return;
    snprintf(line, sizeof line, "%.*s", ROTA_STR_ARGS(output));
    if (strncmp(line, "ready ", 6) != 0)
        return;
    read_address(line, " grpc=", process->grpc);
    read_address(line, " http=", process->http);
    read_address(line, " zmq=", process->zmq);
    process->is_ready = true;
    process->on_ready(process->callback_data, process);
}

static void on_overflow(void *data)
{
    (void)data; /* what it prints after the first line does not matter */
}

static void on_restart(uv_timer_t *timer);

static void on_ended(void *data, int exit_code, int signal)
{
    struct rota_up_process *process = data;
    if (process->on_line && process->child)
        hear_lines(process); /* its last line */
    if (rota_clock_boot() - process->started_at > WELL_AFTER)
        rota_backoff_succeeded(&process->backoff);
    rota_child_free(process->child);
    process->child = NULL;
    process->is_ready = process->is_stopped = false;
    rota_time pause = rota_backoff_failed(&process->backoff, &process->random);
    if (process->zone && signal == SIGKILL && !process->is_held)
        pause += ROTA_UP_AWAY;
    process->on_ended(process->callback_data, process, exit_code, signal, pause);
    if (!process->is_held)
        uv_timer_start(&process->timer, on_restart, (uint64_t)(pause / ROTA_MSEC) + 1, 0);
}

static void on_restart(uv_timer_t *timer)
{
    rota_up_process_restart(timer->data);
}

enum rota_code rota_up_process_start(struct rota_up_process *process, struct rota_error *error)
{
    static const char *const NONE[] = {NULL};
    char path[PATH_MAX];
    struct line line = {.n = 0};
    log_path(process, path);
    uv_timer_stop(&process->timer);
    int log = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (log < 0)
        return rota_error_set(error, ROTA_ERR_IO, "cannot open %.1000s: %s", path, strerror(errno));
    if (process->zone)
        write_node(process, &line);
    else if (process->words)
        write_worker(process, &line);
    else if (process->is_server)
        write_server(process, &line);
    else
        write_task(process, &line);
    struct rota_child_options options = {
        .argv = line.words,
        .environment = NONE,
        .input = rota_str(""),
        .output_max = OUTPUT_MAX,
        .log_fd = log,
        .on_output = on_output,
        .on_overflow = on_overflow,
        .on_end = on_ended,
        .data = process,
    };
    process->started_at = rota_clock_boot();
    enum rota_code code =
        line.has_failed
            ? rota_error_set(error, ROTA_ERR_LIMIT, "the command line of %s is too long",
                             process->name)
            : rota_child_start(process->loop, process->guard, &options, &process->child, error);
    rota_arena_deinit(&line.arena);
    close(log);
    if (!code)
        process->pid = (long)rota_child_pid(process->child);
    return code;
}

/* If it is started before its previous run has been seen to end, that end starts it. */
void rota_up_process_restart(struct rota_up_process *process)
{
    if (!process->child && rota_up_process_start(process, NULL))
        on_ended(process, 0, 0);
}

/* --- standing still --- */

/* A process that is paused in the middle of a write to a SQLite file blocks all other writers,
 * which is a limit of SQLite and not what we want to show. The system lists the locks: "1: POSIX
 * ADVISORY WRITE 4711 fe:00:123 120 120"; byte 120 belongs to the writer. The same goes for the
 * files of the example, which its servers lock whole while they write: "1: FLOCK ADVISORY WRITE
 * 4711". A node has such locks as long as it runs. */
static bool is_writing(const struct rota_up_process *process)
{
    FILE *locks = fopen("/proc/locks", "re");
    char line[256], kind[16];
    long owner, from;
    bool is_found = false;
    while (locks && !is_found && fgets(line, sizeof line, locks))
        is_found = sscanf(line, "%*s %15s %*s WRITE %ld %*s %ld", kind, &owner, &from) == 3 &&
                   owner == process->pid &&
                   (strcmp(kind, "POSIX") == 0 ? from == 120
                                               : process->is_server && strcmp(kind, "FLOCK") == 0);
    if (locks)
        fclose(locks);
    return is_found;
}

void rota_up_process_freeze(struct rota_up_process *process)
{
    siginfo_t info;
    if (!process->child)
        return;
    for (int i = 0;; i++) {
        rota_child_signal(process->child, SIGSTOP);
        waitid(P_PID, (id_t)process->pid, &info, WSTOPPED | WEXITED | WNOWAIT);
        if (i == FREEZES_MAX || !is_writing(process))
            break;
        rota_child_signal(process->child, SIGCONT);
        sched_yield();
    }
    process->is_stopped = true;
}

void rota_up_process_thaw(struct rota_up_process *process)
{
    if (process->child)
        rota_child_signal(process->child, SIGCONT);
    process->is_stopped = false;
}
