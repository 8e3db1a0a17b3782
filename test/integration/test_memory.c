#include "io/memory.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char root[64];

static int setup(void **state)
{
    (void)state;
    strcpy(root, "/tmp/rota-memory-XXXXXX");
    return mkdtemp(root) ? 0 : -1;
}

static int teardown(void **state)
{
    char command[128];
    (void)state;
    snprintf(command, sizeof command, "rm -r %s", root);
    return system(command);
}

/* A file below `root`, with the folders that lead to it. */
static void put(const char *path, const char *text)
{
    char whole[512];
    int size = snprintf(whole, sizeof whole, "%s/%s", root, path);
    for (int i = (int)strlen(root) + 1; i < size; i++)
        if (whole[i] == '/') {
            whole[i] = '\0';
            mkdir(whole, 0700);
            whole[i] = '/';
        }
    FILE *file = fopen(whole, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void a_process_without_a_group_has_no_group_limit(void **state)
{
    (void)state;
    assert_int_equal(rota_memory_of_groups(root), UINT64_MAX);
    put("proc/self/cgroup", "");
    assert_int_equal(rota_memory_of_groups(root), UINT64_MAX);
    put("proc/self/cgroup", "nonsense\n:::\n0::/a\n4:cpu,cpuacct:/b\n");
    assert_int_equal(rota_memory_of_groups(root), UINT64_MAX);
    put("sys/fs/cgroup/b/memory.max", "1\n"); /* another's */
    put("sys/fs/cgroup/a/memory.max", "max\n");
    assert_int_equal(rota_memory_of_groups(root), UINT64_MAX);
}

static void groups_above_count_too(void **state)
{
    (void)state;
    put("proc/self/cgroup", "0::/system.slice/rotad.service\n");
    put("sys/fs/cgroup/system.slice/rotad.service/memory.max", "max\n");
    put("sys/fs/cgroup/system.slice/memory.max", "3000000\n");
    assert_int_equal(rota_memory_of_groups(root), 3000000);
    put("sys/fs/cgroup/system.slice/rotad.service/memory.max", "2000000\n");
    assert_int_equal(rota_memory_of_groups(root), 2000000);
    put("sys/fs/cgroup/memory.max", "1000000\n"); /* of a container */
    assert_int_equal(rota_memory_of_groups(root), 1000000);
}

static void the_first_version_is_read_too(void **state)
{
    (void)state;
    put("proc/self/cgroup", "9:name=systemd:/\n4:hugetlb,memory:/docker/abc\n1:cpu:/\n0::/\n");
    put("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    assert_int_equal(rota_memory_of_groups(root), 9223372036854771712u);
    put("sys/fs/cgroup/memory/docker/abc/memory.limit_in_bytes", "500000\n");
    assert_int_equal(rota_memory_of_groups(root), 500000);
    put("sys/fs/cgroup/memory/docker/abc/memory.limit_in_bytes", "99999999999999999999999\n");
    assert_int_equal(rota_memory_of_groups(root), 9223372036854771712u);
}

static void the_minimum_counts(void **state)
{
    struct rlimit limit = {UINT64_C(1) << 30, RLIM_INFINITY}, old;
    (void)state;
    struct rota_memory memory = rota_memory_look();
    assert_in_range(memory.bytes, 1 << 20, UINT64_C(1) << 50);
    getrlimit(RLIMIT_AS, &old);
#ifdef __SANITIZE_ADDRESS__ /* which takes all addresses that there are */
    return;
#endif
    if (memory.bytes <= limit.rlim_cur || setrlimit(RLIMIT_AS, &limit))
        return;
    memory = rota_memory_look();
    setrlimit(RLIMIT_AS, &old);
    assert_int_equal(memory.bytes, UINT64_C(1) << 30);
    assert_int_equal(memory.bound, ROTA_MEMORY_OF_ADDRESSES);
}

static void settings_are_held_against_it(void **state)
{
    struct rota_memory memory = {UINT64_C(1) << 30, ROTA_MEMORY_OF_GROUP};
    (void)state;
    assert_int_equal(rota_memory_judge(&memory, 900 << 20), ROTA_MEMORY_ENOUGH);
    assert_int_equal(rota_memory_judge(&memory, 1 << 30), ROTA_MEMORY_LESS_THAN_ALLOWED);
    assert_int_equal(rota_memory_judge(&memory, UINT64_MAX), ROTA_MEMORY_LESS_THAN_ALLOWED);
    memory.bytes = 100 << 20;
    assert_int_equal(rota_memory_judge(&memory, 0), ROTA_MEMORY_ENOUGH);
    memory.bound = ROTA_MEMORY_OF_ADDRESSES;
    assert_int_equal(rota_memory_judge(&memory, 0), ROTA_MEMORY_TOO_LITTLE);
    memory = (struct rota_memory){ROTA_MEMORY_NODE_MIN - 1, ROTA_MEMORY_OF_MACHINE};
    assert_int_equal(rota_memory_judge(&memory, 0), ROTA_MEMORY_TOO_LITTLE);
}

/* Each bound to the byte: what is allowed, and what a node needs beside it. */
static void the_minimum_that_suffices(void **state)
{
    static const struct {
        enum rota_memory_bound bound;
        uint64_t least;
        const char *name;
    } cases[] = {
        {ROTA_MEMORY_OF_MACHINE, ROTA_MEMORY_NODE_MIN, "the machine"},
        {ROTA_MEMORY_OF_GROUP, ROTA_MEMORY_NODE_MIN, "the control group"},
        {ROTA_MEMORY_OF_ADDRESSES, ROTA_MEMORY_ADDRESSES_MIN, "the address space (ulimit -v)"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct rota_memory memory = {cases[i].least, cases[i].bound};
        assert_int_equal(rota_memory_judge(&memory, 0), ROTA_MEMORY_ENOUGH);
        assert_int_equal(rota_memory_judge(&memory, 1), ROTA_MEMORY_LESS_THAN_ALLOWED);
        memory.bytes += 5;
        assert_int_equal(rota_memory_judge(&memory, 5), ROTA_MEMORY_ENOUGH);
        assert_int_equal(rota_memory_judge(&memory, 6), ROTA_MEMORY_LESS_THAN_ALLOWED);
        memory.bytes = cases[i].least - 1;
        assert_int_equal(rota_memory_judge(&memory, 0), ROTA_MEMORY_TOO_LITTLE);
        assert_string_equal(rota_memory_bound_name(cases[i].bound), cases[i].name);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_process_without_a_group_has_no_group_limit),
        TEST(groups_above_count_too),
        TEST(the_first_version_is_read_too),
        TEST(the_minimum_counts),
        TEST(settings_are_held_against_it),
        TEST(the_minimum_that_suffices),
    };
    return cmocka_run_group_tests_name("memory", tests, NULL, NULL);
}
