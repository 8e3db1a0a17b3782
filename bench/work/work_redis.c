/* Jobs with Redis: LPUSH by the submitter; a worker moves each to a list of its own with
 * BLMOVE, its share ahead, and removes it with LREM over a second connection, so that what is
 * done does not wait behind what is waited for. A worker that dies loses nothing. There is
 * no result, no attempt and no age; redis keeps the bytes alone. */
#include "load.h"
#include "wire.h"

#include <stdlib.h>
#include <string.h>

static struct load load;
static struct wire submitter, takers[LOAD_WORKERS], enders[LOAD_WORKERS];

/* Slots in the order in which their answers come. */
struct line {
    unsigned slots[LOAD_SLOTS_MAX];
    unsigned first, n;
};
static struct line adds, ends[LOAD_WORKERS];

static void push(struct line *line, unsigned slot)
{
    line->slots[(line->first + line->n++) % LOAD_SLOTS_MAX] = slot;
}

static unsigned pop(struct line *line)
{
    if (line->n-- == 0)
        load_fail("an answer to nothing");
    unsigned slot = line->slots[line->first];
    line->first = (line->first + 1) % LOAD_SLOTS_MAX;
    return slot;
}

static void add(unsigned slot, const char payload[LOAD_PAYLOAD_SIZE])
{
    push(&adds, slot);
    rota_buffer_append_text(&submitter.out, "*3\r\n$5\r\nLPUSH\r\n$1\r\nq\r\n$100\r\n");
    rota_buffer_append(&submitter.out, payload, LOAD_PAYLOAD_SIZE);
    rota_buffer_append_text(&submitter.out, "\r\n");
}

static void take_more(unsigned worker)
{
    rota_buffer_print(
        &takers[worker].out,
        "*6\r\n$6\r\nBLMOVE\r\n$1\r\nq\r\n$2\r\nw%u\r\n$5\r\nRIGHT\r\n$4\r\nLEFT\r\n$1\r\n0\r\n",
        worker);
}

static void end(unsigned worker, struct rota_str payload)
{
    push(&ends[worker], load_take(payload));
    rota_buffer_print(&enders[worker].out, "*4\r\n$4\r\nLREM\r\n$2\r\nw%u\r\n$2\r\n-1\r\n$100\r\n",
                      worker);
    rota_buffer_append_str(&enders[worker].out, payload);
    rota_buffer_append_text(&enders[worker].out, "\r\n");
}

/* Answers that are numbers. */
static size_t on_numbers(struct wire *wire, struct rota_str bytes)
{
    size_t at = 0;
    struct rota_str line;
    while (wire_line(rota_str_of(bytes.data + at, bytes.size - at), &line)) {
        if (line.size < 2 || line.data[0] != ':' || line.data[1] == '0')
            load_fail("redis says %.*s", (int)line.size, line.data);
        if (wire == &submitter)
            load_added(pop(&adds));
        else
            load_ended(pop(&ends[wire->number]));
        at += line.size + 2;
    }
    return at;
}

static size_t on_jobs(struct wire *wire, struct rota_str bytes)
{
    enum { HEAD = 6, WHOLE = HEAD + LOAD_PAYLOAD_SIZE + 2 }; /* "$100\r\n" */
    size_t at = 0;
    for (; bytes.size - at >= WHOLE; at += WHOLE) {
        if (memcmp(bytes.data + at, "$100\r\n", HEAD) != 0)
            load_fail("redis says %.*s", 60, bytes.data + at);
        end(wire->number, rota_str_of(bytes.data + at + HEAD, LOAD_PAYLOAD_SIZE));
        take_more(wire->number);
    }
    return at;
}

int main(int argc, char **argv)
{
    load_parse(argc, argv, 1, &load);
    load.add = add;
    wire_open(&submitter, load.addresses[0], 0, on_numbers);
    for (unsigned i = 0; i < LOAD_WORKERS && !load.is_fill; i++) {
        wire_open(&takers[i], load.addresses[0], i, on_jobs);
        wire_open(&enders[i], load.addresses[0], i, on_numbers);
        for (unsigned n = 0; n < load_share(); n++)
            take_more(i);
    }
    load_start(&load);
    wire_run();
}
