#include "io/file.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

static char directory[64];

static const char *path_of(const char *name)
{
    static char path[128];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    return path;
}

static int setup(void **state)
{
    (void)state;
    strcpy(directory, "/tmp/rota-file-XXXXXX");
    return mkdtemp(directory) ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    unlink(path_of("entry"));
    return rmdir(directory);
}

static void write_file(size_t size)
{
    FILE *file = fopen(path_of("entry"), "wb");
    assert_non_null(file);
    for (size_t i = 0; i < size; i++)
        putc((int)(i % 251), file);
    fclose(file);
}

static void assert_refused(const char *path, enum rota_code code, const char *phrase)
{
    struct rota_buffer content = {.size = 77};
    struct rota_error error;
    assert_int_equal(rota_file_read(path, 100, &content, &error), code);
    assert_int_equal(content.size, 77); /* left alone */
    assert_true(strstr(error.text, path) != NULL);
    assert_non_null(strstr(error.text, phrase));
}

static void file_is_read_whole(void **state)
{
    static const size_t sizes[] = {0, 1, 100, 16384, 16385, 100000};
    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        struct rota_buffer content = {0};
        struct rota_error error;
        write_file(sizes[i]);
        if (rota_file_read(path_of("entry"), sizes[i], &content, &error))
            fail_msg("%s", error.text);
        assert_int_equal(content.size, sizes[i]);
        for (size_t j = 0; j < sizes[i]; j++)
            assert_int_equal((unsigned char)content.data[j], j % 251);
        rota_buffer_deinit(&content);
    }
}

static void larger_file_than_allowed_is_refused(void **state)
{
    (void)state;
    write_file(101);
    assert_refused(path_of("entry"), ROTA_ERR_LIMIT, "larger than the allowed 100 bytes");
    assert_refused("/proc/self/status", ROTA_ERR_LIMIT, "larger"); /* it claims to be empty */
}

static void missing_file_is_not_found(void **state)
{
    (void)state;
    assert_refused(path_of("absent"), ROTA_ERR_NOT_FOUND, "No such file");
    assert_refused("", ROTA_ERR_NOT_FOUND, "No such file");
    write_file(1);
    assert_refused(path_of("entry/below"), ROTA_ERR_NOT_FOUND, "Not a directory");
}

static void anything_but_a_file_is_refused_at_once(void **state)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    (void)state;
    assert_refused(directory, ROTA_ERR_INVALID, "is a directory, not a file");
    assert_refused("/dev/zero", ROTA_ERR_INVALID, "is a device, not a file");
    assert_int_equal(mkfifo(path_of("entry"), 0600), 0);
    assert_refused(path_of("entry"), ROTA_ERR_INVALID, "is a pipe, not a file");
    unlink(path_of("entry"));

    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    strcpy(address.sun_path, path_of("entry"));
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    assert_refused(path_of("entry"), ROTA_ERR_INVALID, "is a socket, not a file");
    close(fd);
}

static void unreadable_file_is_an_error(void **state)
{
    (void)state;
    enum { NOBODY = 65534 };
    write_file(1);
    chmod(path_of("entry"), 0);
    chmod(directory, 0755);
    bool is_root = geteuid() == 0; /* who may read everything: be somebody else for a moment */
    if (is_root)
        assert_int_equal(seteuid(NOBODY), 0);
    assert_refused(path_of("entry"), ROTA_ERR_IO, "Permission denied");
    if (is_root)
        assert_int_equal(seteuid(0), 0);
}

/* Ours is for us alone, or for our group where that is usual; another's we may have by its group.
 */
static void a_secret_must_not_be_readable_by_every_user(void **state)
{
    static const struct {
        mode_t mode;
        bool is_ours, group_may;
        const char *phrase; /* NULL: it is a secret */
    } cases[] = {
        {0600, true, false, NULL},
        {0400, true, false, NULL},
        {0711, true, false, NULL},
        {0640, true, true, NULL},
        {0640, false, false, NULL},
        {0640, true, false, ": other users can read the secret in it (mode 0640); run chmod 600 "},
        {0644, true, true, ": other users can read the secret in it (mode 0644); run chmod 600 "},
        {0644, false, false, ": other users can read the secret in it (mode 0644); run chmod 640 "},
        {0620, true, false,
         ": other users can change the secret in it (mode 0620); run chmod 600 "},
    };
    enum { NOBODY = 65534 };
    struct rota_error error;
    (void)state;
    write_file(1);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        if (!cases[i].is_ours && geteuid() != 0)
            continue; /* only root can give a file away */
        assert_int_equal(chown(path_of("entry"), cases[i].is_ours ? geteuid() : NOBODY, getegid()),
                         0);
        assert_int_equal(chmod(path_of("entry"), cases[i].mode), 0);
        enum rota_code code = rota_file_check_secret(path_of("entry"), cases[i].group_may, &error);
        assert_int_equal(code, cases[i].phrase ? ROTA_ERR_INVALID : ROTA_OK);
        if (!code)
            continue;
        assert_non_null(strstr(error.text, cases[i].phrase));
        assert_string_equal(strrchr(error.text, ' ') + 1, path_of("entry"));
    }
    assert_int_equal(rota_file_check_secret(path_of("absent"), true, &error), ROTA_ERR_NOT_FOUND);
}

/* A process that ended without emptying the file has left its number. */
static void a_lock_names_its_holder(void **state)
{
    struct rota_error error;
    int fd = -1, other = -1;
    long holder = -1;
    char own[32];
    (void)state;
    assert_int_equal(rota_file_lock(path_of("entry"), &fd, &holder, &error), ROTA_OK);
    assert_int_equal(holder, 0);
    assert_int_equal(rota_file_lock(path_of("entry"), &other, &holder, &error),
                     ROTA_ERR_UNAVAILABLE);
    assert_int_equal(holder, getpid());
    assert_int_equal(other, -1);
    snprintf(own, sizeof own, "another process (%ld)", (long)getpid());
    assert_non_null(strstr(error.text, own));
    assert_non_null(strstr(error.text, path_of("entry")));
    assert_int_equal(ftruncate(fd, 0), 0);
    assert_int_equal(pwrite(fd, "1234567890123456789\n", 20, 0), 20);
    close(fd);
    assert_int_equal(rota_file_lock(path_of("entry"), &fd, &holder, &error), ROTA_OK);
    assert_int_equal(holder, 1234567890123456789);
    close(fd);
    assert_int_equal(rota_file_lock(path_of("entry"), &fd, &holder, &error), ROTA_OK);
    assert_int_equal(holder, getpid()); /* nothing of the longer number is left */
    close(fd);
    assert_int_equal(unlink(path_of("entry")), 0);
    assert_int_equal(symlink("elsewhere", path_of("entry")), 0);
    assert_int_equal(rota_file_lock(path_of("entry"), &fd, &holder, &error), ROTA_ERR_IO);
    assert_non_null(strstr(error.text, "cannot open"));
}

static void a_closed_descriptor_is_an_error(void **state)
{
    struct rota_buffer content = {.size = 77};
    struct rota_error error;
    (void)state;
    assert_int_equal(rota_file_read_fd(-1, "that pipe", 5, &content, &error), ROTA_ERR_IO);
    assert_int_equal(content.size, 77);
    assert_non_null(strstr(error.text, "cannot read that pipe"));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(file_is_read_whole),          TEST(larger_file_than_allowed_is_refused),
        TEST(missing_file_is_not_found),   TEST(anything_but_a_file_is_refused_at_once),
        TEST(unreadable_file_is_an_error), TEST(a_secret_must_not_be_readable_by_every_user),
        TEST(a_lock_names_its_holder),     TEST(a_closed_descriptor_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
