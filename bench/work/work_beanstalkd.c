/* Jobs with beanstalkd: put, reserve, delete. Only the connection that has reserved a job may
 * delete it, and a reserve holds up what follows it; so a worker has one job at a time,
 * and deletes it and reserves the next with one write. There is no result. */
#include "load.h"
#include "wire.h"

#include <stdio.h>
#include <string.h>

static struct load load;
static struct wire submitter, workers[LOAD_WORKERS];
static unsigned adds[LOAD_SLOTS_MAX], first_add, n_adds; /* slots that wait for their answer */
static unsigned taken[LOAD_WORKERS];
static bool has_taken[LOAD_WORKERS];

static void add(unsigned slot, const char payload[LOAD_PAYLOAD_SIZE])
{
    adds[(first_add + n_adds++) % LOAD_SLOTS_MAX] = slot;
    rota_buffer_append_text(&submitter.out, "put 1 0 120 100\r\n");
    rota_buffer_append(&submitter.out, payload, LOAD_PAYLOAD_SIZE);
    rota_buffer_append_text(&submitter.out, "\r\n");
}

static bool starts_with(struct rota_str line, const char *word)
{
    return line.size >= strlen(word) && memcmp(line.data, word, strlen(word)) == 0;
}

static size_t on_inserted(struct wire *wire, struct rota_str bytes)
{
    size_t at = 0;
    struct rota_str line;
    (void)wire;
    while (wire_line(rota_str_of(bytes.data + at, bytes.size - at), &line)) {
        if (!starts_with(line, "INSERTED ") || n_adds == 0)
            load_fail("beanstalkd says %.*s", (int)line.size, line.data);
        unsigned slot = adds[first_add];
        first_add = (first_add + 1) % LOAD_SLOTS_MAX;
        n_adds--;
        load_added(slot);
        at += line.size + 2;
    }
    return at;
}

static size_t on_job(struct wire *wire, struct rota_str line, struct rota_str rest)
{
    unsigned long long id;
    unsigned size;
    char text[64];
    snprintf(text, sizeof text, "%.*s", (int)line.size, line.data);
    if (sscanf(text, "RESERVED %llu %u", &id, &size) != 2 || size != LOAD_PAYLOAD_SIZE)
        load_fail("beanstalkd says %s", text);
    if (rest.size < LOAD_PAYLOAD_SIZE + 2)
        return 0;
    taken[wire->number] = load_take(rota_str_of(rest.data, LOAD_PAYLOAD_SIZE));
    has_taken[wire->number] = true;
    rota_buffer_print(&wire->out, "delete %llu\r\nreserve\r\n", id);
    return line.size + 2 + LOAD_PAYLOAD_SIZE + 2;
}

static size_t on_worker(struct wire *wire, struct rota_str bytes)
{
    size_t at = 0;
    struct rota_str line;
    while (wire_line(rota_str_of(bytes.data + at, bytes.size - at), &line)) {
        size_t done = line.size + 2, behind = at + done;
        if (starts_with(line, "DELETED") && has_taken[wire->number]) {
            has_taken[wire->number] = false;
            load_ended(taken[wire->number]);
        } else {
            done = on_job(wire, line, rota_str_of(bytes.data + behind, bytes.size - behind));
        }
        if (done == 0)
            break;
        at += done;
    }
    return at;
}

int main(int argc, char **argv)
{
    load_parse(argc, argv, 1, &load);
    load.add = add;
    wire_open(&submitter, load.addresses[0], 0, on_inserted);
    for (unsigned i = 0; i < LOAD_WORKERS && !load.is_fill; i++) {
        wire_open(&workers[i], load.addresses[0], i, on_worker);
        rota_buffer_append_text(&workers[i].out, "reserve\r\n");
    }
    load_start(&load);
    wire_run();
}
