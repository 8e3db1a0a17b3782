/* Threads that read what the loop's thread swaps: the ring of a membership and
 * the configuration in force. Run under ThreadSanitizer by CI. */
#include <rota/experimental/config_watch.h>
#include <rota/experimental/members.h>

#include "await.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { READERS = 3, SWAPS = 8 };

static uv_loop_t loop;
static struct rota_members *members;
static struct rota_config_watch *config;
static char path[64];
static atomic_bool is_over;
static size_t n_told;

static void on_config(void *data, const struct rota_config *next)
{
    (void)data;
    (void)next;
    n_told++;
}

static void on_members(void *data, const struct rota_members_change *change)
{
    (void)data;
    (void)change;
    n_told++;
}

static int setup(void **state)
{
    (void)state;
    strcpy(path, "/tmp/rota-readers-XXXXXX");
    atomic_store(&is_over, false);
    n_told = 0;
    members = NULL;
    config = NULL;
    int fd = mkstemp(path);
    return fd < 0 || close(fd) ? -1 : uv_loop_init(&loop);
}

static int teardown(void **state)
{
    (void)state;
    rota_members_close(members);
    rota_config_watch_close(config);
    await_end(&loop);
    return unlink(path);
}

/* Run READERS threads of `read` while the file goes through its versions, of
 * which `version` writes one; each is in force before the next comes. */
static void read_during_swaps(void *(*read)(void *), void (*version)(int))
{
    pthread_t readers[READERS];
    for (int i = 0; i < READERS; i++)
        assert_int_equal(pthread_create(&readers[i], NULL, read, NULL), 0);
    for (int i = 1; i <= SWAPS; i++) {
        version(i);
        await(&loop, &n_told, (size_t)i);
    }
    atomic_store(&is_over, true);
    for (int i = 0; i < READERS; i++) {
        void *n_wrong;
        assert_int_equal(pthread_join(readers[i], &n_wrong), 0);
        assert_null(n_wrong);
    }
}

/* --- the ring --- */

/* Version i names i + 1 hosts, the first of which is always there. */
static void write_hosts(int i)
{
    char text[256];
    size_t end = 0;
    for (int host = 0; host <= i; host++)
        end += (size_t)snprintf(text + end, sizeof text - end, "h%d:1\n", host);
    await_write(path, text);
}

/* Whatever ring is found is whole and stays so while it is held. */
static void *read_ring(void *data)
{
    uintptr_t n_wrong = 0;
    size_t size_before = 0;
    (void)data;
    while (!atomic_load(&is_over)) {
        struct rota_ring *ring = rota_members_ring(members);
        size_t size = rota_ring_size(ring);
        uint32_t owner = rota_ring_lookup(ring, rota_str("key"));
        n_wrong += size < size_before || owner >= size || rota_ring_find(ring, rota_str("h0:1"));
        size_before = size;
        rota_ring_unref(ring);
    }
    return (void *)n_wrong;
}

static void every_reader_sees_a_whole_ring(void **state)
{
    struct rota_members_source *source;
    struct rota_error error;
    (void)state;
    write_hosts(0);
    if (rota_hosts_watch_new(path, &source, &error) ||
        rota_members_open(&loop, source, NULL, &members, &error) ||
        rota_members_subscribe(members, "test", on_members, NULL, &error))
        fail_msg("%s", error.text);
    read_during_swaps(read_ring, write_hosts);
}

/* --- the configuration --- */

/* Version i has i + 1 partitions. */
static void write_counts(int i)
{
    char text[128];
    snprintf(text, sizeof text,
             "[matching]\nnumTaskqueueWritePartitions = %d\nnumTaskqueueReadPartitions = %d\n",
             i + 1, i + 1);
    await_write(path, text);
}

static void *read_config(void *data)
{
    uintptr_t n_wrong = 0;
    int64_t before = 0;
    (void)data;
    while (!atomic_load(&is_over)) {
        struct rota_config *now = rota_config_watch_get(config);
        struct rota_queue_config queue =
            rota_config_queue(now, rota_str("ns"), rota_str("q"), ROTA_TASK_WORKFLOW);
        n_wrong += queue.write != queue.read || queue.read < before;
        before = queue.read;
        rota_config_unref(now);
    }
    return (void *)n_wrong;
}

static void every_reader_sees_a_whole_configuration(void **state)
{
    struct rota_config_watch_options options = {.path = path};
    struct rota_error error;
    (void)state;
    write_counts(0);
    if (rota_config_watch_open(&loop, &options, &config, &error) ||
        rota_config_watch_subscribe(config, "test", on_config, NULL, &error))
        fail_msg("%s", error.text);
    read_during_swaps(read_config, write_counts);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(every_reader_sees_a_whole_ring),
        TEST(every_reader_sees_a_whole_configuration),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
