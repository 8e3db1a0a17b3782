/* load: what the clients of `bench work` share, so that they differ in nothing else.
 *
 * A client is the submitter and LOAD_WORKERS workers in one process, each with connections of
 * its own. It keeps a number of jobs under way, one in each slot. The life of a job begins
 * when it is submitted and is over when both have come: the answer to the submitter that
 * the job was taken in, and the word that its end is on record (to the worker, or to the
 * submitter where a peer tells it). Then the next begins in the same slot. A worker looks at
 * each payload, and one that is wrong or was there before ends the run.
 *
 * Whatever is to be sent goes out once in a turn of a client's loop, as far as the peer's
 * protocol lets it.
 *
 *     NAME live ADDRESS [ADDRESS] SLOTS WARM_MS WINDOW_MS SERVER_PID
 *
 * prints, when the window is over, "JOBS NS P50 P99 CLIENT_CPU SERVER_CPU" (times in ns, CPU
 * of whole processes), and is gone.
 *
 *     NAME fill ADDRESS [ADDRESS] JOBS
 *
 * adds jobs that nobody takes, LOAD_FILL_SLOTS at a time, and prints "filled NS". */
#pragma once

#include <rota/str.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    LOAD_WORKERS = 4,
    LOAD_PAYLOAD_SIZE = 100,
    LOAD_RESULT_SIZE = 17, /* the front of a payload: whose it is */
    LOAD_SLOTS_MAX = 1000,
    LOAD_FILL_SLOTS = 1000,
    LOAD_ADDRESS_SIZE = 64,
};

struct load {
    char addresses[2][LOAD_ADDRESS_SIZE]; /* "127.0.0.1:4711" */
    unsigned n_slots;
    bool is_fill; /* no workers */

    /* Submit the payload of a slot. */
    void (*add)(unsigned slot, const char payload[LOAD_PAYLOAD_SIZE]);
};

void load_parse(int argc, char **argv, int n_addresses, struct load *load);
void load_fail(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

/* Begin in all slots. */
void load_start(struct load *load);

/* How many jobs one worker asks for ahead, where a protocol lets it: its share of the slots. */
unsigned load_share(void);

/* A worker has got it: whose slot it is. */
unsigned load_take(struct rota_str payload);

/* The slot that a payload or a result is of, that was taken before. */
unsigned load_slot(struct rota_str payload);

/* The job of this slot is acknowledged to its submitter; and its end is on record. */
void load_added(unsigned slot);
void load_ended(unsigned slot);
