/* load: what the clients of `bench get` share, so that they differ in nothing else.
 *
 * There are LOAD_KEYS keys of 20 bytes with values of 100. A client keeps a number of
 * Gets under way, one in each slot: when one ends, the next begins in the same slot. A
 * Get asks for neighbouring keys from a random one on; their hashes are anywhere. Each
 * value is compared with what it has to be, and a wrong one ends the run.
 *
 * Latency is counted from the call that begins a Get to the look at its last value. A
 * Get that comes back without some of its values has not been answered: it counts as
 * LOAD_TIMEOUT_MS, and how long it really took is counted apart, as "returned". One
 * that is under way when the window ends counts with its age. When the window begins
 * the client may stop a server; when it ends the client prints one line:
 *
 *     GETS INCOMPLETE KEYS NS P50 P99 P999 RETURNED_P99 CLIENT_CPU SERVER_CPU
 *
 * (times in ns, keys that have come; CPU of whole processes) and is gone. */
#pragma once

#include <rota/str.h>
#include <stdbool.h>
#include <stdint.h>

enum {
    LOAD_KEYS = 20000,
    LOAD_KEY_SIZE = 20,
    LOAD_VALUE_SIZE = 100,
    LOAD_BATCH_MAX = 100,
    LOAD_SLOTS_MAX = 64,
    LOAD_SERVERS_MAX = 16,
    LOAD_TIMEOUT_MS = 5000, /* of a Get */
};

struct load {
    const char *mode;
    unsigned n_keys, n_slots, n_servers;
    const char *servers[LOAD_SERVERS_MAX]; /* "127.0.0.1:4711" */
};

/* All keys, and the first ones again, so that any LOAD_BATCH_MAX neighbours stand in a
 * row; and their values. */
extern struct rota_str load_keys[LOAD_KEYS + LOAD_BATCH_MAX];
extern char load_values[LOAD_KEYS][LOAD_VALUE_SIZE];

/* Make the keys and values; whatever ends the benchmark ends this process. */
void load_init(const char *name);
void load_fail(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

/* MODE KEYS SLOTS WARM_MS WINDOW_MS PID-TO-STOP (ADDRESS PID)... */
void load_parse(int n, char **arguments, struct load *load);

/* A Get begins in this slot: its first key. Slots are independent of each other. */
unsigned load_begin(unsigned slot);

/* It has ended, with that many right values. */
void load_end(const struct load *load, unsigned slot, unsigned n_values);

/* Is this the value of key number `index`? */
bool load_is_right(unsigned index, struct rota_str value);
