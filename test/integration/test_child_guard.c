#include "run/work/queue/child_guard.h"
#include "vectors.h"

#include <rota/error.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* A process in a group of its own, which waits for a signal. */
static pid_t start_child(const struct rota_child_guard *guard)
{
    int fds[2];
    char byte;
    assert_int_equal(pipe(fds), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        setpgid(0, 0);
        close(fds[0]);
        close(guard->fd); /* as at an exec */
        close(fds[1]);
        for (;;)
            pause();
    }
    close(fds[1]);
    assert_int_equal(read(fds[0], &byte, 1), 0); /* it is in its group */
    close(fds[0]);
    return pid;
}

/* 0: it lived until now, when we end it. */
static int signal_of(pid_t pid)
{
    int status;
    pid_t ended = waitpid(pid, &status, WNOHANG);
    if (ended == 0) {
        kill(pid, SIGTERM);
        assert_int_equal(waitpid(pid, &status, 0), pid);
    }
    assert_true(WIFSIGNALED(status));
    return WTERMSIG(status) == SIGTERM ? 0 : WTERMSIG(status);
}

/* The guard ends the groups that are left when its pipe closes, and then itself; the kernel has
 * marked them by then. */
static void remaining_groups_are_killed(void **state)
{
    struct rota_child_guard guard = {0};
    pid_t left[2], gone, other;
    (void)state;
    assert_int_equal(rota_child_guard_open(&guard, NULL), ROTA_OK);
    left[0] = start_child(&guard);
    gone = start_child(&guard);
    left[1] = start_child(&guard);
    other = start_child(&guard);
    assert_int_equal(rota_child_guard_add(&guard, left[0]), 0);
    assert_int_equal(rota_child_guard_add(&guard, gone), 0);
    assert_int_equal(rota_child_guard_add(&guard, left[1]), 0);
    assert_int_equal(rota_child_guard_add(&guard, left[1]), 0); /* twice is once */
    assert_int_equal(rota_child_guard_remove(&guard, gone), 0);
    assert_int_equal(rota_child_guard_remove(&guard, other), 0); /* not known */
    rota_child_guard_close(&guard);
    assert_int_equal(guard.pid, 0);
    for (int i = 0; i < 2; i++) {
        int status;
        assert_int_equal(waitpid(left[i], &status, 0), left[i]);
        assert_true(WIFSIGNALED(status));
        assert_int_equal(WTERMSIG(status), SIGKILL);
    }
    assert_int_equal(signal_of(gone), 0);
    assert_int_equal(signal_of(other), 0);
    rota_child_guard_close(&guard); /* again */
}

/* As a terminal or a service manager sends them to a whole group. */
static void signals_that_end_others_do_not_end_it(void **state)
{
    static const int signals[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGPIPE, SIGTSTP};
    struct rota_child_guard guard = {0};
    (void)state;
    assert_int_equal(rota_child_guard_open(&guard, NULL), ROTA_OK);
    assert_int_equal(getpgid(guard.pid), guard.pid);
    pid_t pid = start_child(&guard);
    assert_int_equal(rota_child_guard_add(&guard, pid), 0);
    for (int n = 1; n > 0;) /* before it reads it may not ignore them yet */
        assert_int_equal(ioctl(guard.fd, FIONREAD, &n), 0);
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        assert_int_equal(kill(guard.pid, signals[i]), 0);
    rota_child_guard_close(&guard);
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

static void groups_beyond_the_bound_are_not_guarded(void **state)
{
    struct rota_child_guard guard = {0};
    (void)state;
    assert_int_equal(rota_child_guard_open(&guard, NULL), ROTA_OK);
    for (int32_t i = 0; i < ROTA_GUARD_GROUPS_MAX; i++) /* numbers that no process has */
        assert_int_equal(rota_child_guard_add(&guard, (1 << 29) + i), 0);
    pid_t pid = start_child(&guard);
    assert_int_equal(rota_child_guard_add(&guard, pid), 0);
    assert_int_equal(rota_child_guard_remove(&guard, 1 << 29), 0);
    pid_t other = start_child(&guard);
    assert_int_equal(rota_child_guard_add(&guard, other), 0); /* in the place of the first */
    rota_child_guard_close(&guard);
    assert_int_equal(signal_of(pid), 0);
    int status;
    assert_int_equal(waitpid(other, &status, 0), other);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(remaining_groups_are_killed),
        cmocka_unit_test(signals_that_end_others_do_not_end_it),
        cmocka_unit_test(groups_beyond_the_bound_are_not_guarded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
