/* Gets with libmemcached's multi-get: `fill ADDRESS...` stores all keys and prints
 * "ready"; `client MODE KEYS ...` (load.h) asks. A handle of libmemcached has one Get
 * under way, so each slot is a thread with a handle of its own.
 *
 * "default" is libmemcached as it comes, with 5 s for an answer. "tuned" has 100 ms, and
 * leaves a server that was silent alone for a second. Copies on a second server
 * (MEMCACHED_BEHAVIOR_NUMBER_OF_REPLICAS) do not help here: they are for servers that
 * can't be connected to, and one that is stopped can. */
#include "load.h"

#include <libmemcached/memcached.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TUNED_TIMEOUT_MS = 100, TUNED_RETRY_SECONDS = 1 };

static struct load load;
static const char *keys[LOAD_KEYS + LOAD_BATCH_MAX];
static size_t key_sizes[LOAD_KEYS + LOAD_BATCH_MAX];

static void set(memcached_st *handle, memcached_behavior_t behaviour, uint64_t value)
{
    if (memcached_behavior_set(handle, behaviour, value) != MEMCACHED_SUCCESS)
        load_fail("libmemcached refuses a setting");
}

static memcached_st *open_handle(void)
{
    memcached_st *handle = memcached_create(NULL);
    if (!handle)
        load_fail("no memory");
    for (unsigned i = 0; i < load.n_servers; i++) {
        char host[64];
        snprintf(host, sizeof host, "%s", load.servers[i]);
        char *colon = strrchr(host, ':');
        if (!colon)
            load_fail("%s has no port", host);
        *colon = '\0';
        memcached_server_add(handle, host, (in_port_t)atoi(colon + 1));
    }
    set(handle, MEMCACHED_BEHAVIOR_TCP_NODELAY, 1);
    if (strcmp(load.mode, "tuned") == 0) {
        set(handle, MEMCACHED_BEHAVIOR_NO_BLOCK, 1);
        set(handle, MEMCACHED_BEHAVIOR_POLL_TIMEOUT, TUNED_TIMEOUT_MS);
        set(handle, MEMCACHED_BEHAVIOR_CONNECT_TIMEOUT, TUNED_TIMEOUT_MS);
        set(handle, MEMCACHED_BEHAVIOR_RETRY_TIMEOUT, TUNED_RETRY_SECONDS);
        set(handle, MEMCACHED_BEHAVIOR_SERVER_FAILURE_LIMIT, 1);
        set(handle, MEMCACHED_BEHAVIOR_SERVER_TIMEOUT_LIMIT, 1);
    }
    return handle;
}

static void fill(int n, char **servers)
{
    for (int i = 0; i < n && i < LOAD_SERVERS_MAX; i++)
        load.servers[load.n_servers++] = servers[i];
    memcached_st *handle = open_handle();
    for (unsigned i = 0; i < LOAD_KEYS; i++) {
        memcached_return_t result = memcached_set(handle, load_keys[i].data, load_keys[i].size,
                                                  load_values[i], LOAD_VALUE_SIZE, 0, 0);
        if (result != MEMCACHED_SUCCESS && result != MEMCACHED_BUFFERED)
            load_fail("%s", memcached_strerror(handle, result));
    }
    memcached_free(handle);
    printf("ready\n");
    fflush(stdout);
}

/* --- the client --- */

/* How many values have come. */
static unsigned get(memcached_st *handle, unsigned first)
{
    memcached_return_t code;
    memcached_result_st *result;
    unsigned n = 0;
    memcached_mget(handle, keys + first, key_sizes + first, load.n_keys);
    while ((result = memcached_fetch_result(handle, NULL, &code))) {
        char name[LOAD_KEY_SIZE + 1];
        memcpy(name, memcached_result_key_value(result), LOAD_KEY_SIZE);
        name[LOAD_KEY_SIZE] = '\0';
        unsigned index = (unsigned)strtoul(name + 4, NULL, 10);
        unsigned at = (index + LOAD_KEYS - first) % LOAD_KEYS;
        struct rota_str value =
            rota_str_of(memcached_result_value(result), memcached_result_length(result));
        if (at >= load.n_keys || !load_is_right(index, value))
            load_fail("a wrong value");
        n++;
    }
    return n;
}

static void *ask(void *data)
{
    unsigned slot = (unsigned)((char *)data - (char *)keys);
    memcached_st *handle = open_handle();
    for (;;) {
        unsigned first = load_begin(slot);
        load_end(&load, slot, get(handle, first));
    }
    return NULL;
}

int main(int argc, char **argv)
{
    load_init("get_memcached");
    for (unsigned i = 0; i < LOAD_KEYS + LOAD_BATCH_MAX; i++) {
        keys[i] = load_keys[i].data;
        key_sizes[i] = load_keys[i].size;
    }
    if (argc > 2 && strcmp(argv[1], "fill") == 0) {
        load.mode = "default";
        fill(argc - 2, argv + 2);
        return 0;
    }
    if (argc < 3 || strcmp(argv[1], "client") != 0)
        load_fail("fill ADDRESS..., or client MODE ...");
    load_parse(argc - 2, argv + 2, &load);
    for (unsigned i = 1; i < load.n_slots; i++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, ask, (char *)keys + i))
            load_fail("no thread for a slot");
    }
    ask(keys);
}
