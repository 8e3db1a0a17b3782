#include "run/work/queue/child.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

enum {
    LOG_ROOM = 8 * ROTA_CHILD_LOG_MAX, /* collected before its beginning is dropped */
    REST_MAX = 32 << 20,               /* bytes that are read after the end */
    READ_SIZE = 16384,
};

struct rota_child {
    uv_pipe_t pipes[3]; /* our ends of its standard streams */
    uv_signal_t ended;
    uv_write_t write;
    unsigned n_handles; /* that are not closed */
    const struct rota_child_guard *guard;
    pid_t pid; /* 0: it has ended */
    size_t output_max;
    bool is_full, is_freed;
    struct rota_buffer input, output, log;
    void (*on_overflow)(void *data);
    void (*on_output)(void *data);
    void (*on_end)(void *data, int exit_code, int signal);
    void *data;
    char room[READ_SIZE];
};

/* --- the new process --- */

/* Preparations before the exec: made by the parent, since no memory can be allocated after the
 * fork. */
struct plan {
    char *const *argv;
    char **environment;
    int streams[3], report; /* the last takes an errno */
    const struct rota_child_guard *guard;
};

static void exec_child(const struct plan *plan)
{
    sigset_t none;
    sigemptyset(&none);
    for (int number = 1; number < NSIG; number++)
        if (number != SIGKILL && number != SIGSTOP)
            signal(number, SIG_DFL);
    signal(SIGPIPE, SIG_IGN); /* a dead guard is an error */
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* should the guard be killed, too */
    if (rota_child_guard_add(plan->guard, getpid()) == 0) {
        signal(SIGPIPE, SIG_DFL);
        for (int fd = 0; fd < 3; fd++)
            dup2(plan->streams[fd], fd);
        sigprocmask(SIG_SETMASK, &none, NULL);
        execvpe(plan->argv[0], plan->argv, plan->environment);
    }
    int reason = errno;
    ssize_t size = write(plan->report, &reason, sizeof reason);
    _exit(size < 0 ? 126 : 127);
}

static char **join_environment(const char *const *more)
{
    size_t n = 0, n_more = 0;
    while (environ[n])
        n++;
    while (more && more[n_more])
        n_more++;
    char **joined = calloc(n + n_more + 1, sizeof *joined);
    if (!joined)
        return NULL;
    size_t size = 0;
    for (size_t i = 0; i < n_more; i++)
        joined[size++] = (char *)(uintptr_t)more[i]; /* only read */
    for (size_t i = 0; i < n; i++) {
        bool is_ours = false;
        size_t name = strcspn(environ[i], "=") + 1;
        for (size_t j = 0; j < n_more && !is_ours; j++)
            is_ours = strncmp(more[j], environ[i], name) == 0;
        if (!is_ours)
            joined[size++] = environ[i];
    }
    return joined;
}

/* The descriptors of a child: ours, and its own, which are closed when it has begun. */
struct ends {
    int ours[4], its[4];
};

static void close_ends(int fds[4])
{
    for (int i = 0; i < 4; i++)
        if (fds[i] >= 0)
            close(fds[i]);
}

static bool open_ends(struct ends *ends)
{
    memset(ends, -1, sizeof *ends);
    for (int i = 0; i < 4; i++) {
        int fds[2];
        if (pipe2(fds, O_CLOEXEC)) {
            close_ends(ends->ours);
            close_ends(ends->its);
            return false;
        }
        ends->ours[i] = fds[i == 0];
        ends->its[i] = fds[i != 0];
    }
    return true;
}

static pid_t spawn_child(const struct rota_child_options *options,
                         const struct rota_child_guard *guard, const struct ends *ends)
{
    struct plan plan = {.argv = options->argv,
                        .environment = join_environment(options->environment),
                        .streams = {ends->its[0], ends->its[1],
                                    options->log_fd > 0 ? options->log_fd : ends->its[2]},
                        .report = ends->its[3],
                        .guard = guard};
    sigset_t all, before;
    if (!plan.environment)
        return -1;
    sigfillset(&all); /* no handler of ours may run in the child */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pid_t pid = fork();
    if (pid == 0)
        exec_child(&plan);
    int reason = errno;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    free(plan.environment);
    errno = reason;
    return pid;
}

/* --- output --- */

static void add_output(struct rota_child *child, struct rota_str text)
{
    size_t room = child->output_max - child->output.size;
    bool is_over = text.size > room;
    if (is_over)
        text.size = room;
    rota_buffer_append_str(&child->output, text);
    if ((is_over || child->output.failed) && !child->is_full) {
        child->is_full = true;
        child->on_overflow(child->data);
    }
}

static void add_log(struct rota_child *child, struct rota_str text)
{
    if (text.size > ROTA_CHILD_LOG_MAX)
        text = rota_str_of(text.data + text.size - ROTA_CHILD_LOG_MAX, ROTA_CHILD_LOG_MAX);
    if (child->log.size + text.size > LOG_ROOM) {
        struct rota_str last = rota_child_log(child);
        memmove(child->log.data, last.data, last.size);
        child->log.size = last.size;
    }
    rota_buffer_append_str(&child->log, text);
}

static void add_text(struct rota_child *child, int stream, struct rota_str text)
{
    if (stream == STDOUT_FILENO)
        add_output(child, text);
    else
        add_log(child, text);
}

static int stream_of(const struct rota_child *child, const void *handle)
{
    return handle == &child->pipes[STDOUT_FILENO] ? STDOUT_FILENO : STDERR_FILENO;
}

static void on_alloc(uv_handle_t *handle, size_t size, uv_buf_t *buffer)
{
    struct rota_child *child = handle->data;
    (void)size;
    *buffer = uv_buf_init(child->room, READ_SIZE);
}

static void on_read(uv_stream_t *stream, ssize_t size, const uv_buf_t *buffer)
{
    struct rota_child *child = stream->data;
    if (size < 0)
        uv_read_stop(stream);
    if (size <= 0)
        return;
    add_text(child, stream_of(child, stream), rota_str_of(buffer->base, (size_t)size));
    if (child->on_output && stream_of(child, stream) == STDOUT_FILENO)
        child->on_output(child->data);
}

/* The rest of the pipe when all writers are dead. */
static void read_rest(struct rota_child *child, int stream)
{
    uv_os_fd_t fd;
    ssize_t size;
    size_t total = 0;
    if (uv_fileno((uv_handle_t *)&child->pipes[stream], &fd))
        return;
    while (total < REST_MAX &&
           ((size = read(fd, child->room, READ_SIZE)) > 0 || (size < 0 && errno == EINTR))) {
        total += size > 0 ? (size_t)size : 1;
        if (size > 0)
            add_text(child, stream, rota_str_of(child->room, (size_t)size));
    }
}

/* --- its end --- */

static void release_child(struct rota_child *child)
{
    if (child->n_handles > 0 || !child->is_freed)
        return;
    rota_buffer_deinit(&child->input);
    rota_buffer_deinit(&child->output);
    rota_buffer_deinit(&child->log);
    free(child);
}

static void on_closed(uv_handle_t *handle)
{
    struct rota_child *child = handle->data;
    child->n_handles--;
    release_child(child);
}

static void close_handle(void *handle)
{
    if (!uv_is_closing(handle))
        uv_close(handle, on_closed);
}

static void close_handles(struct rota_child *child)
{
    for (int i = 0; i < 3; i++)
        close_handle(&child->pipes[i]);
    close_handle(&child->ended);
}

/* The group is killed while its number can't be another's: before the process is waited for. */
static int reap_child(struct rota_child *child)
{
    int status = 0;
    kill(-child->pid, SIGKILL);
    rota_child_guard_remove(child->guard, child->pid);
    while (waitpid(child->pid, &status, 0) < 0 && errno == EINTR)
        ;
    child->pid = 0;
    return status;
}

static void on_child(uv_signal_t *signal, int number)
{
    struct rota_child *child = signal->data;
    siginfo_t info = {0};
    (void)number;
    if (child->pid == 0 ||
        waitid(P_PID, (id_t)child->pid, &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
        info.si_pid == 0)
        return;
    int status = reap_child(child);
    read_rest(child, STDOUT_FILENO);
    read_rest(child, STDERR_FILENO);
    close_handles(child);
    child->on_end(child->data, WIFEXITED(status) ? WEXITSTATUS(status) : 0,
                  WIFSIGNALED(status) ? WTERMSIG(status) : 0);
}

static void on_written(uv_write_t *write, int status)
{
    struct rota_child *child = write->data;
    (void)status; /* a command need not read all of its input */
    close_handle(&child->pipes[STDIN_FILENO]);
}

/* --- doors --- */

static struct rota_child *make_child(uv_loop_t *loop, const struct rota_child_guard *guard,
                                     const struct rota_child_options *options)
{
    struct rota_child *child = calloc(1, sizeof *child);
    if (!child)
        return NULL;
    child->guard = guard;
    child->output_max = options->output_max;
    child->on_overflow = options->on_overflow;
    child->on_output = options->on_output;
    child->on_end = options->on_end;
    child->data = options->data;
    rota_buffer_append_str(&child->input, options->input);
    for (int i = 0; i < 3; i++) {
        uv_pipe_init(loop, &child->pipes[i], 0);
        child->pipes[i].data = child;
    }
    uv_signal_init(loop, &child->ended);
    child->ended.data = child->write.data = child;
    child->n_handles = 4;
    return child;
}

/* It runs now; these can fail for lack of memory only, and then it reads nothing. */
static void attach_child(struct rota_child *child, struct ends *ends)
{
    uv_buf_t input = uv_buf_init(child->input.data, (unsigned)child->input.size);
    for (int i = 0; i < 3; i++) {
        uv_pipe_open(&child->pipes[i], ends->ours[i]);
        ends->ours[i] = -1;
    }
    uv_read_start((uv_stream_t *)&child->pipes[STDOUT_FILENO], on_alloc, on_read);
    uv_read_start((uv_stream_t *)&child->pipes[STDERR_FILENO], on_alloc, on_read);
    if (input.len == 0 ||
        uv_write(&child->write, (uv_stream_t *)&child->pipes[STDIN_FILENO], &input, 1, on_written))
        close_handle(&child->pipes[STDIN_FILENO]);
}

enum rota_code rota_child_start(uv_loop_t *loop, const struct rota_child_guard *guard,
                                const struct rota_child_options *options, struct rota_child **child,
                                struct rota_error *error)
{
    struct rota_child *made = make_child(loop, guard, options);
    struct ends ends;
    int reason = 0;
    if (!made)
        return rota_error_no_memory(error, "for a command");
    if (made->input.failed || !open_ends(&ends)) {
        reason = made->input.failed ? ENOMEM : errno;
        goto fail;
    }
    uv_signal_start(&made->ended, on_child, SIGCHLD);
    made->pid = spawn_child(options, guard, &ends);
    reason = made->pid < 0 ? errno : 0;
    close_ends(ends.its);
    if (made->pid > 0) {
        setpgid(made->pid, made->pid); /* both sides do it: either may be first */
        ssize_t size;
        do
            size = read(ends.ours[3], &reason, sizeof reason);
        while (size < 0 && errno == EINTR);
        if (size > 0) {
            reap_child(made);
            made->pid = -1;
        }
    }
    if (made->pid > 0)
        attach_child(made, &ends);
    close_ends(ends.ours);
    if (made->pid > 0) {
        *child = made;
        return ROTA_OK;
    }

fail:
    made->pid = 0;
    rota_child_free(made);
    return rota_error_set(error, ROTA_ERR_UNAVAILABLE, "cannot run %s: %s", options->argv[0],
                          strerror(reason));
}

pid_t rota_child_pid(const struct rota_child *child)
{
    return child->pid;
}

void rota_child_signal(struct rota_child *child, int signal)
{
    if (child->pid > 0)
        kill(-child->pid, signal);
}

void rota_child_drop_output(struct rota_child *child, size_t size)
{
    struct rota_buffer *output = &child->output;
    assert(size <= output->size);
    memmove(output->data, output->data + size, output->size - size);
    output->size -= size;
}

struct rota_str rota_child_output(const struct rota_child *child)
{
    return rota_buffer_str(&child->output);
}

struct rota_str rota_child_log(const struct rota_child *child)
{
    size_t skipped =
        child->log.size > ROTA_CHILD_LOG_MAX ? child->log.size - ROTA_CHILD_LOG_MAX : 0;
    return child->log.size ? rota_str_of(child->log.data + skipped, child->log.size - skipped)
                           : rota_str("");
}

void rota_child_free(struct rota_child *child)
{
    if (!child)
        return;
    if (child->pid > 0) {
        kill(-child->pid, SIGKILL);
        reap_child(child);
    }
    child->is_freed = true;
    close_handles(child);
    release_child(child);
}
