#include "io/local_token.h"
#include "vectors.h"

#include <fcntl.h>
#include <rota/error.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { NOBODY = 65534 };

static char runtime[64], folder[80];

/* As a user who can't write to /run, so that our folder is the one that is used. */
static int setup(void **state)
{
    (void)state;
    strcpy(runtime, "/tmp/rota-token-XXXXXX");
    if (!mkdtemp(runtime) || (geteuid() == 0 && chown(runtime, NOBODY, NOBODY)))
        return -1;
    snprintf(folder, sizeof folder, "%s/rota", runtime);
    setenv("XDG_RUNTIME_DIR", runtime, 1);
    return geteuid() == 0 ? seteuid(NOBODY) : 0;
}

static int teardown(void **state)
{
    char command[128];
    (void)state;
    if (getuid() == 0 && seteuid(0))
        return -1;
    snprintf(command, sizeof command, "rm -r %s", runtime);
    return system(command);
}

static const char *path_of(const char *name)
{
    static char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static int leave(const char *address, const char *token)
{
    int fd = -1;
    struct rota_error error;
    if (rota_local_token_write(address, token, &fd, &error))
        fail_msg("%s", error.text);
    return fd;
}

static void assert_token(const char *address, const char *expected)
{
    char token[ROTA_LOCAL_TOKEN_MAX + 1];
    assert_int_equal(rota_local_token_read(address, token), expected != NULL);
    if (expected)
        assert_string_equal(token, expected);
}

static void a_command_finds_the_token_of_a_node_that_lives(void **state)
{
    struct stat status;
    (void)state;
    assert_token("127.0.0.1:7", NULL);
    int fd = leave("127.0.0.1:7", "the token of before, which is longer");
    close(fd);
    assert_token("127.0.0.1:7", NULL); /* its node has died */
    fd = leave("127.0.0.1:7", "secret");
    assert_token("127.0.0.1:7", "secret");
    assert_int_equal(stat(path_of("127.0.0.1:7.token"), &status), 0);
    assert_int_equal(status.st_mode & 07777, 0600);
    assert_token("127.0.0.1:8", NULL);
    assert_token("127.0.0.2:7", NULL);
    rota_local_token_remove("127.0.0.1:7", fd);
    assert_token("127.0.0.1:7", NULL);
    assert_int_not_equal(stat(path_of("127.0.0.1:7.token"), &status), 0);
    rota_local_token_remove("127.0.0.1:7", -1);
}

static void a_node_at_all_addresses_is_found_at_the_first(void **state)
{
    static const char *const all[] = {"0.0.0.0:7", "[::]:7"};
    (void)state;
    for (int i = 0; i < 2; i++) {
        int fd = leave(all[i], "secret");
        assert_token("127.0.0.1:7", "secret");
        rota_local_token_remove(all[i], fd);
    }
}

static void nothing_is_left_for_other_machines(void **state)
{
    (void)state;
    assert_int_equal(leave("10.0.0.7:7", "secret"), -1);
    assert_int_equal(leave("example.org:7", "secret"), -1);
    assert_int_equal(leave("7", "secret"), -1);
    assert_int_not_equal(access(folder, F_OK), 0);
}

static void a_long_token_is_read_up_to_its_bound(void **state)
{
    char token[ROTA_LOCAL_TOKEN_MAX + 2];
    (void)state;
    memset(token, 'x', sizeof token);
    token[ROTA_LOCAL_TOKEN_MAX] = '\0';
    int fd = leave("127.0.0.1:7", token);
    assert_token("127.0.0.1:7", token);
    rota_local_token_remove("127.0.0.1:7", fd);
    fd = leave("127.0.0.1:7", ""); /* it is being written */
    assert_token("127.0.0.1:7", NULL);
    rota_local_token_remove("127.0.0.1:7", fd);
}

/* The next folder is used instead, of which only a few files would be ours. */
static void a_folder_writable_by_other_users_is_not_used(void **state)
{
    char token[ROTA_LOCAL_TOKEN_MAX + 1];
    static const mode_t modes[] = {0775, 0757};
    (void)state;
    int fd = leave("127.0.0.1:7", "secret");
    assert_token("127.0.0.1:7", "secret");
    for (int i = 0; i < 2; i++) {
        assert_int_equal(chmod(folder, modes[i]), 0);
        assert_false(rota_local_token_read("127.0.0.1:7", token));
    }
    assert_int_equal(chmod(folder, 0755), 0);
    assert_token("127.0.0.1:7", "secret");
    rota_local_token_remove("127.0.0.1:7", fd);
}

static void a_relative_folder_is_not_used(void **state)
{
    (void)state;
    int fd = leave("127.0.0.1:7", "secret");
    setenv("XDG_RUNTIME_DIR", runtime + 1, 1);
    assert_int_equal(chdir("/"), 0);
    assert_token("127.0.0.1:7", NULL);
    setenv("XDG_RUNTIME_DIR", runtime, 1);
    rota_local_token_remove("127.0.0.1:7", fd);
}

/* Another node has taken the address: its file has the name now. */
static void a_node_removes_its_own_file_only(void **state)
{
    (void)state;
    int old = leave("127.0.0.1:7", "old");
    assert_int_equal(unlink(path_of("127.0.0.1:7.token")), 0);
    int fd = leave("127.0.0.1:7", "new");
    rota_local_token_remove("127.0.0.1:7", old);
    assert_token("127.0.0.1:7", "new");
    rota_local_token_remove("127.0.0.1:7", fd);
}

/* What lies there under the name may be a trap: a token is written to a file that is ours alone. */
static void a_token_is_written_to_our_own_file_only(void **state)
{
    char other[128], name[256];
    (void)state;
    rota_local_token_remove("127.0.0.1:7", leave("127.0.0.1:7", "secret")); /* makes the folder */
    strcpy(name, path_of("127.0.0.1:7.token"));
    snprintf(other, sizeof other, "%s/other", runtime);
    int made = open(other, O_CREAT | O_WRONLY, 0600);
    assert_true(made >= 0);
    close(made);
    assert_int_equal(link(other, name), 0);
    int fd = leave("127.0.0.1:7", "secret"); /* in the next folder */
    struct stat status;
    assert_int_equal(stat(other, &status), 0);
    assert_int_equal(status.st_size, 0);
    rota_local_token_remove("127.0.0.1:7", fd);
    assert_int_equal(unlink(name), 0);
    assert_int_equal(mkfifo(name, 0600), 0);
    fd = leave("127.0.0.1:7", "secret");
    assert_token("127.0.0.1:7", "secret");
    rota_local_token_remove("127.0.0.1:7", fd);
    assert_int_equal(access(name, F_OK), 0); /* the pipe is not its file */
}

static void a_second_node_at_the_address_uses_another_folder(void **state)
{
    (void)state;
    int first = leave("127.0.0.1:7", "first");
    int second = leave("127.0.0.1:7", "second");
    assert_token("127.0.0.1:7", "first");
    rota_local_token_remove("127.0.0.1:7", first);
    assert_token("127.0.0.1:7", "second");
    rota_local_token_remove("127.0.0.1:7", second);
    assert_token("127.0.0.1:7", NULL);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_command_finds_the_token_of_a_node_that_lives),
        TEST(a_node_at_all_addresses_is_found_at_the_first),
        TEST(nothing_is_left_for_other_machines),
        TEST(a_long_token_is_read_up_to_its_bound),
        TEST(a_folder_writable_by_other_users_is_not_used),
        TEST(a_relative_folder_is_not_used),
        TEST(a_node_removes_its_own_file_only),
        TEST(a_token_is_written_to_our_own_file_only),
        TEST(a_second_node_at_the_address_uses_another_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
