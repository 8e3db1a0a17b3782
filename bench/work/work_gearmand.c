/* Jobs with gearmand: a job in the foreground, whose result comes back to its submitter. A
 * worker asks for its share of jobs ahead. A worker's end is not acknowledged to it; the life
 * of a job is over when its submitter has the result. */
#include "load.h"
#include "wire.h"

#include <stdio.h>
#include <string.h>

enum {
    CAN_DO = 1,
    PRE_SLEEP = 4,
    NOOP = 6,
    SUBMIT_JOB = 7,
    JOB_CREATED = 8,
    GRAB_JOB = 9,
    NO_JOB = 10,
    JOB_ASSIGN = 11,
    WORK_COMPLETE = 13,
    SUBMIT_JOB_BG = 18,
    HEAD = 12,
};

static struct load load;
static struct wire submitter, workers[LOAD_WORKERS];
static unsigned adds[LOAD_SLOTS_MAX], first_add, n_adds;
static unsigned n_grabs[LOAD_WORKERS]; /* that are not answered */

static void put_head(struct rota_buffer *out, unsigned type, size_t size)
{
    unsigned char head[HEAD] = {0, 'R', 'E', 'Q'};
    for (int i = 0; i < 4; i++) {
        head[4 + i] = (unsigned char)(type >> (24 - 8 * i));
        head[8 + i] = (unsigned char)(size >> (24 - 8 * i));
    }
    rota_buffer_append(out, head, sizeof head);
}

static unsigned get(const char *at)
{
    const unsigned char *bytes = (const unsigned char *)at;
    return (unsigned)bytes[0] << 24 | (unsigned)bytes[1] << 16 | (unsigned)bytes[2] << 8 | bytes[3];
}

static void add(unsigned slot, const char payload[LOAD_PAYLOAD_SIZE])
{
    char unique[24]; /* of its own; without one gearmand makes a longer one */
    int n = snprintf(unique, sizeof unique, "%.*s", LOAD_RESULT_SIZE, payload);
    adds[(first_add + n_adds++) % LOAD_SLOTS_MAX] = slot;
    put_head(&submitter.out, load.is_fill ? SUBMIT_JOB_BG : SUBMIT_JOB,
             2 + (size_t)n + 1 + LOAD_PAYLOAD_SIZE);
    rota_buffer_append(&submitter.out, "q", 2);
    rota_buffer_append(&submitter.out, unique, (size_t)n + 1);
    rota_buffer_append(&submitter.out, payload, LOAD_PAYLOAD_SIZE);
}

static void grab(struct wire *wire)
{
    for (; n_grabs[wire->number] < load_share(); n_grabs[wire->number]++)
        put_head(&wire->out, GRAB_JOB, 0);
}

static void on_created(void)
{
    if (n_adds == 0)
        load_fail("an answer to nothing");
    unsigned slot = adds[first_add];
    first_add = (first_add + 1) % LOAD_SLOTS_MAX;
    n_adds--;
    load_added(slot);
}

static void on_assigned(struct wire *wire, struct rota_str body)
{
    size_t handle = strnlen(body.data, body.size) + 1;
    size_t function = handle < body.size ? strnlen(body.data + handle, body.size - handle) + 1 : 0;
    if (function == 0 || handle + function > body.size)
        load_fail("a malformed job");
    struct rota_str payload =
        rota_str_of(body.data + handle + function, body.size - handle - function);
    load_take(payload);
    n_grabs[wire->number]--;
    put_head(&wire->out, WORK_COMPLETE, handle + LOAD_RESULT_SIZE);
    rota_buffer_append(&wire->out, body.data, handle);
    rota_buffer_append(&wire->out, payload.data, LOAD_RESULT_SIZE);
    grab(wire);
}

static void on_packet(struct wire *wire, unsigned type, struct rota_str body)
{
    size_t handle;
    switch (type) {
    case JOB_CREATED:
        on_created();
        return;
    case WORK_COMPLETE:
        handle = strnlen(body.data, body.size) + 1;
        load_ended(load_slot(rota_str_of(body.data + handle, body.size - handle)));
        return;
    case JOB_ASSIGN:
        on_assigned(wire, body);
        return;
    case NO_JOB:
        if (--n_grabs[wire->number] == 0)
            put_head(&wire->out, PRE_SLEEP, 0);
        return;
    case NOOP:
        grab(wire);
        return;
    default: /* a number from outside */
        load_fail("gearmand says %u: %.*s", type, (int)body.size, body.data);
    }
}

static size_t on_bytes(struct wire *wire, struct rota_str bytes)
{
    size_t at = 0;
    while (bytes.size - at >= HEAD) {
        size_t size = get(bytes.data + at + 8);
        if (memcmp(bytes.data + at, "\0RES", 4) != 0)
            load_fail("gearmand says something else");
        if (bytes.size - at - HEAD < size)
            break;
        on_packet(wire, get(bytes.data + at + 4), rota_str_of(bytes.data + at + HEAD, size));
        at += HEAD + size;
    }
    return at;
}

int main(int argc, char **argv)
{
    load_parse(argc, argv, 1, &load);
    load.add = add;
    wire_open(&submitter, load.addresses[0], 0, on_bytes);
    for (unsigned i = 0; i < LOAD_WORKERS && !load.is_fill; i++) {
        wire_open(&workers[i], load.addresses[0], i, on_bytes);
        put_head(&workers[i].out, CAN_DO, 1);
        rota_buffer_append(&workers[i].out, "q", 1);
        grab(&workers[i]);
    }
    load_start(&load);
    wire_run();
}
