/* load: what the programs of `bench call` share, so that transports differ in
 * nothing else.
 *
 * A program is a server or a client of one transport. The client keeps `n_calls`
 * calls under way at all times: it begins one in each slot, and whenever one
 * ends, the next in the same slot. Every reply is checked against what the
 * request asked for; a wrong one ends the run. When the window is over the
 * client prints one line and is gone.
 *
 *     NAME server                                prints "ready ADDRESS", serves
 *     NAME client ADDRESS KIND CALLS CONNECTIONS WARM_MS WINDOW_MS SERVER_PID
 *
 * An echo is {uint64 id = 1; bytes payload = 2} of 100 bytes; a batch is
 * rota.v1.Cache/Get for 100 keys of 16 bytes with values of 12. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
    LOAD_CALLS_MAX = 1024,
    LOAD_CONNECTIONS_MAX = 4,
    LOAD_PAYLOAD_SIZE = 100,
    LOAD_KEYS = 100,
    LOAD_KEY_SIZE = 16,
    LOAD_VALUE_SIZE = 12,
    LOAD_TIMEOUT_MS = 10000, /* the deadline of every call */
    LOAD_FLUSH_CALLS = 32,   /* the flush policy of those that write themselves */
    LOAD_FLUSH_SIZE = 32 << 10,
};

#define LOAD_ECHO_PATH  "/bench.Echo/Call"
#define LOAD_BATCH_PATH "/rota.v1.Cache/Get"

struct load {
    const char *address; /* "127.0.0.1:4711" */
    bool is_batch;
    unsigned n_calls, n_connections;
};

struct load_transport {
    const char *name;
    void (*serve)(void);              /* calls load_ready() once */
    void (*drive)(struct load *load); /* does not return before the load ends the program */
};

int load_main(int argc, char **argv, const struct load_transport *transport);
void load_ready(const char *address);
void load_fail(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

/* --- a client's slots --- */

/* A call begins in this slot: its id, which is its own alone. */
uint64_t load_begin(struct load *load, unsigned slot);

/* It has ended, rightly or not. Ends the program when the window is over. */
void load_end(struct load *load, unsigned slot, bool is_right);

/* --- what is asked and answered --- */

void load_payload(uint64_t id, char payload[LOAD_PAYLOAD_SIZE]);
void load_key(uint64_t id, unsigned index, char key[LOAD_KEY_SIZE]);
void load_value(const char key[LOAD_KEY_SIZE], char value[LOAD_VALUE_SIZE]);

#ifdef __cplusplus
}
#endif
