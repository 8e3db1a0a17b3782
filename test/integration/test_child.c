#include "await.h"
#include "run/work/queue/child.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { OUTPUT_MAX = 1000 };

static uv_loop_t loop;
static struct rota_child_guard guard;
static struct rota_child *child;
static size_t n_outputs, n_overflows, n_ended;
static int last_code, last_signal;
static bool drops; /* the output, as soon as it is there */
static size_t n_dropped;

static void on_output(void *data)
{
    (void)data;
    n_outputs++;
    if (!drops)
        return;
    size_t size = rota_child_output(child).size;
    n_dropped += size - (size > 0);
    rota_child_drop_output(child, size - (size > 0)); /* all but the last byte */
}

static void on_overflow(void *data)
{
    (void)data;
    n_overflows++;
}

static void on_end(void *data, int exit_code, int signal)
{
    assert_ptr_equal(data, &guard);
    n_ended++;
    last_code = exit_code;
    last_signal = signal;
}

static int setup(void **state)
{
    (void)state;
    child = NULL;
    n_outputs = n_overflows = n_ended = n_dropped = 0;
    drops = false;
    return rota_child_guard_open(&guard, NULL) || uv_loop_init(&loop);
}

static int teardown(void **state)
{
    (void)state;
    rota_child_free(child);
    await_end(&loop);
    rota_child_guard_close(&guard);
    return 0;
}

static enum rota_code try_start(struct rota_child_options options, struct rota_error *error)
{
    options.output_max = options.output_max ? options.output_max : OUTPUT_MAX;
    options.on_output = on_output;
    options.on_overflow = on_overflow;
    options.on_end = on_end;
    options.data = &guard;
    return rota_child_start(&loop, &guard, &options, &child, error);
}

static void start_with(const char *script, struct rota_child_options options)
{
    char *const argv[] = {"sh", "-c", (char *)script, NULL};
    struct rota_error error;
    options.argv = argv;
    if (try_start(options, &error))
        fail_msg("%s", error.text);
    assert_true(rota_child_pid(child) > 0);
}

static void run_with(const char *script, struct rota_child_options options)
{
    start_with(script, options);
    await(&loop, &n_ended, 1);
    assert_int_equal(rota_child_pid(child), 0);
}

static void run(const char *script, const char *input)
{
    run_with(script, (struct rota_child_options){.input = rota_str(input)});
}

static void assert_text(struct rota_str text, const char *expected)
{
    if (!rota_str_is_equal(text, rota_str(expected)))
        fail_msg("\"%.*s\" is not \"%s\"", ROTA_STR_ARGS(text), expected);
}

static void a_command_reads_its_input_and_ends_with_a_code(void **state)
{
    (void)state;
    run("cat; echo more; echo log >&2; exit 3", "in");
    assert_int_equal(last_code, 3);
    assert_int_equal(last_signal, 0);
    assert_text(rota_child_output(child), "inmore\n");
    assert_text(rota_child_log(child), "log\n");
    assert_true(n_outputs > 0);
    assert_int_equal(n_overflows, 0);
}

static void a_command_that_prints_nothing_has_no_output(void **state)
{
    (void)state;
    run("cat", "");
    assert_int_equal(last_code, 0);
    assert_text(rota_child_output(child), "");
    assert_text(rota_child_log(child), "");
    assert_int_equal(n_outputs, 0);
}

static void a_large_input_is_read_or_not(void **state)
{
    static char input[1000000];
    (void)state;
    run_with("wc -c", (struct rota_child_options){.input = rota_str_of(input, sizeof input)});
    assert_text(rota_child_output(child), "1000000\n");
    rota_child_free(child);
    n_ended = 0;
    run_with("exit 5", (struct rota_child_options){.input = rota_str_of(input, sizeof input)});
    assert_int_equal(last_code, 5);
}

/* A variable of ours is replaced by one of the same name, and by none that begins like it. */
static void its_environment_is_ours_and_more(void **state)
{
    static const char *const more[] = {"ROTA_TEST_A=3", "ROTA_TEST_BB=9", NULL};
    (void)state;
    setenv("ROTA_TEST_A", "1", 1);
    setenv("ROTA_TEST_B", "2", 1);
    run_with("echo $ROTA_TEST_A $ROTA_TEST_B $ROTA_TEST_BB; env | grep -c ROTA_TEST_A",
             (struct rota_child_options){.environment = more});
    assert_text(rota_child_output(child), "3 2 9\n1\n");
}

static void a_command_that_cannot_run_says_why(void **state)
{
    char *const argv[] = {"rota-no-such-command", NULL};
    struct rota_child_guard whole = guard;
    struct rota_error error;
    int fds[2];
    (void)state;
    assert_int_equal(try_start((struct rota_child_options){.argv = argv}, &error),
                     ROTA_ERR_UNAVAILABLE);
    assert_null(child);
    assert_string_equal(error.text, "cannot run rota-no-such-command: No such file or directory");
    assert_int_equal(pipe(fds), 0);
    close(fds[0]);
    guard.fd = fds[1]; /* of a guard that is dead: nothing would end the command */
    char *const good[] = {"true", NULL};
    assert_int_equal(try_start((struct rota_child_options){.argv = good}, &error),
                     ROTA_ERR_UNAVAILABLE);
    assert_string_equal(error.text, "cannot run true: Broken pipe");
    close(fds[1]);
    guard = whole;
    assert_int_equal(n_ended, 0);
}

static void its_output_is_kept_up_to_a_bound(void **state)
{
    (void)state;
    run("head -c 1000 /dev/zero | tr '\\0' x", "");
    assert_int_equal(rota_child_output(child).size, OUTPUT_MAX);
    assert_int_equal(n_overflows, 0);
    rota_child_free(child);
    n_ended = 0;
    run("head -c 100000 /dev/zero | tr '\\0' x; echo end >&2", "");
    assert_int_equal(rota_child_output(child).size, OUTPUT_MAX);
    assert_int_equal(n_overflows, 1); /* it is told once */
    assert_text(rota_child_log(child), "end\n");
}

static void room_can_be_made_for_its_output(void **state)
{
    (void)state;
    drops = true;
    start_with("head -c 100000 /dev/zero | tr '\\0' x; printf y; read end",
               (struct rota_child_options){.output_max = 1 << 20, .input = rota_str("")});
    await(&loop, &n_ended, 1);
    assert_int_equal(n_overflows, 0);
    assert_int_equal(n_dropped + rota_child_output(child).size, 100001);
    struct rota_str output = rota_child_output(child);
    assert_int_equal(output.data[output.size - 1], 'y');
}

static void of_its_log_the_end_is_kept(void **state)
{
    enum { LINES = 20000 };
    static char whole[6 * LINES + 1];
    (void)state;
    for (int i = 0; i < LINES; i++)
        snprintf(whole + (size_t)i * 6, 7, "%05d\n", i);
    char script[64];
    snprintf(script, sizeof script, "seq -f %%05g 0 %d >&2", LINES - 1);
    run(script, "");
    assert_text(rota_child_log(child), whole + 6 * (size_t)LINES - ROTA_CHILD_LOG_MAX);
    rota_child_free(child);
    n_ended = 0;
    run("seq -f %05g 0 169 >&2; printf 1234 >&2", ""); /* as much as is kept */
    assert_int_equal(rota_child_log(child).size, ROTA_CHILD_LOG_MAX);
    assert_int_equal(rota_child_log(child).data[0], '0');
}

static void its_log_can_go_to_a_file(void **state)
{
    char text[16] = "";
    int fds[2];
    (void)state;
    assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
    run_with("echo log >&2; echo out", (struct rota_child_options){.log_fd = fds[1]});
    assert_int_equal(read(fds[0], text, sizeof text), 4);
    assert_string_equal(text, "log\n");
    assert_text(rota_child_output(child), "out\n");
    assert_text(rota_child_log(child), "");
    close(fds[0]);
    close(fds[1]);
}

static void a_signal_reaches_its_whole_group(void **state)
{
    (void)state;
    start_with("sleep 1000 & echo; wait", (struct rota_child_options){0});
    await(&loop, &n_outputs, 1);
    assert_int_equal(getpgid(rota_child_pid(child)), rota_child_pid(child));
    rota_child_signal(child, SIGTERM);
    await(&loop, &n_ended, 1);
    assert_int_equal(last_signal, SIGTERM);
    assert_int_equal(last_code, 0);
    rota_child_signal(child, SIGTERM); /* it has ended */
}

/* A process that it has left behind is ours to wait for, so that we see how it ended. */
static int signal_of_orphan(void)
{
    int status;
    pid_t pid = (pid_t)strtol(rota_child_output(child).data, NULL, 10);
    assert_true(pid > 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

static void processes_left_by_a_command_are_killed(void **state)
{
    (void)state;
    assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
    run("sleep 1000 & echo $! end", "");
    assert_int_equal(last_code, 0);
    assert_int_equal(last_signal, 0);
    assert_int_equal(signal_of_orphan(), SIGKILL);
    assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 0), 0);
}

static void a_freed_command_is_killed_and_reports_nothing(void **state)
{
    (void)state;
    start_with("echo; sleep 1000", (struct rota_child_options){0});
    await(&loop, &n_outputs, 1);
    pid_t pid = rota_child_pid(child);
    rota_child_free(child);
    child = NULL;
    assert_int_equal(kill(pid, 0), -1);
    assert_int_equal(errno, ESRCH);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(n_ended, 0);
    rota_child_free(NULL);
}

static void a_command_has_none_of_our_handlers_and_masks(void **state)
{
    sigset_t set;
    (void)state;
    signal(SIGUSR1, SIG_IGN);
    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    sigprocmask(SIG_BLOCK, &set, NULL);
    run("grep -c -E '^Sig(Blk|Ign):\t0000000000000000$' /proc/self/status", "");
    assert_text(rota_child_output(child), "2\n");
    sigprocmask(SIG_UNBLOCK, &set, NULL);
    signal(SIGUSR1, SIG_DFL);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_command_reads_its_input_and_ends_with_a_code),
        TEST(a_command_that_prints_nothing_has_no_output),
        TEST(a_large_input_is_read_or_not),
        TEST(its_environment_is_ours_and_more),
        TEST(a_command_that_cannot_run_says_why),
        TEST(its_output_is_kept_up_to_a_bound),
        TEST(room_can_be_made_for_its_output),
        TEST(of_its_log_the_end_is_kept),
        TEST(its_log_can_go_to_a_file),
        TEST(a_signal_reaches_its_whole_group),
        TEST(processes_left_by_a_command_are_killed),
        TEST(a_freed_command_is_killed_and_reports_nothing),
        TEST(a_command_has_none_of_our_handlers_and_masks),
    };
    signal(SIGPIPE, SIG_IGN); /* a command may leave its input unread */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
