#include "io/notify.h"
#include "vectors.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static char folder[64], path[96];
static int listener;

static void listen_at(const char *name, size_t size)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    memcpy(address.sun_path, name, size);
    listener = socket(AF_UNIX, SOCK_DGRAM, 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&address,
                          (socklen_t)(offsetof(struct sockaddr_un, sun_path) + size)),
                     0);
}

static int setup(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/rota-notify-XXXXXX");
    if (!mkdtemp(folder))
        return -1;
    snprintf(path, sizeof path, "%s/socket", folder);
    listener = -1;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    close(listener);
    unlink(path);
    unsetenv("NOTIFY_SOCKET");
    unsetenv("WATCHDOG_USEC");
    unsetenv("WATCHDOG_PID");
    return rmdir(folder);
}

/* NULL: nothing has come. */
static void assert_came(const char *expected)
{
    char text[64] = "";
    ssize_t size = recv(listener, text, sizeof text - 1, MSG_DONTWAIT);
    assert_int_equal(size, expected ? (ssize_t)strlen(expected) : -1);
    if (expected)
        assert_string_equal(text, expected);
}

static void the_manager_receives_each_text_whole(void **state)
{
    (void)state;
    listen_at(path, strlen(path));
    rota_notify("READY=1"); /* there is no manager */
    assert_came(NULL);
    setenv("NOTIFY_SOCKET", path, 1);
    rota_notify("READY=1\nSTATUS=well");
    rota_notify_alive();
    assert_came("READY=1\nSTATUS=well");
    assert_came("WATCHDOG=1");
    assert_came(NULL);
}

static void a_socket_may_have_an_abstract_name(void **state)
{
    char name[64] = "@rota-notify-", other[64];
    (void)state;
    snprintf(name + strlen(name), 32, "%ld", (long)getpid());
    memcpy(other, name, sizeof name);
    other[0] = '\0';
    listen_at(other, strlen(name));
    setenv("NOTIFY_SOCKET", name, 1);
    rota_notify("READY=1");
    assert_came("READY=1");
}

static void an_invalid_socket_name_is_ignored(void **state)
{
    char longest[sizeof((struct sockaddr_un *)0)->sun_path + 1];
    static const char *const names[] = {"", "/", "@", "relative"};
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        setenv("NOTIFY_SOCKET", names[i], 1);
        rota_notify("READY=1");
    }
    memset(longest, 'x', sizeof longest);
    longest[0] = '/';
    longest[sizeof longest - 1] = '\0';
    setenv("NOTIFY_SOCKET", longest, 1); /* it does not fit */
    rota_notify("READY=1");
    setenv("NOTIFY_SOCKET", path, 1); /* nothing listens there */
    rota_notify("READY=1");
}

/* A manager that does not read fills its socket: the loop must not wait for it. */
static void a_manager_that_does_not_read_holds_nothing_up(void **state)
{
    int n = 0;
    char text[64];
    (void)state;
    listen_at(path, strlen(path));
    setenv("NOTIFY_SOCKET", path, 1);
    for (int i = 0; i < 2000; i++)
        rota_notify_alive();
    while (recv(listener, text, sizeof text, MSG_DONTWAIT) > 0)
        n++;
    assert_in_range(n, 1, 1999);
}

static void a_watchdog_has_an_interval_and_perhaps_a_process(void **state)
{
    static const struct {
        const char *micros;
        rota_time interval;
    } cases[] = {
        {"1", 1000},
        {"9", 9000},
        {"30000000", 30 * ROTA_SEC},
        {"0", 0},
        {"", 0},
        {"-5", 0},
        {"+5", 0},
        {"5s", 0},
        {"x", 0},
        {" 5", 0},
        {":", 0},
        {"99999999999999999999", 0},
        {"86399999999", 86399999999000},
        {"86400000000", 0},
    };
    char pid[32];
    (void)state;
    assert_int_equal(rota_notify_watchdog(), 0);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        setenv("WATCHDOG_USEC", cases[i].micros, 1);
        assert_int_equal(rota_notify_watchdog(), cases[i].interval);
    }
    setenv("WATCHDOG_USEC", "5", 1);
    snprintf(pid, sizeof pid, "%ld", (long)getpid());
    setenv("WATCHDOG_PID", pid, 1);
    assert_int_equal(rota_notify_watchdog(), 5000);
    snprintf(pid, sizeof pid, "%ld", (long)getppid());
    setenv("WATCHDOG_PID", pid, 1);
    assert_int_equal(rota_notify_watchdog(), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_manager_receives_each_text_whole),
        TEST(a_socket_may_have_an_abstract_name),
        TEST(an_invalid_socket_name_is_ignored),
        TEST(a_manager_that_does_not_read_holds_nothing_up),
        TEST(a_watchdog_has_an_interval_and_perhaps_a_process),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
