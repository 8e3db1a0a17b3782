/* Jobs with NATS JetStream: a stream that keeps what is not acknowledged, in memory or in
 * files as its name says; published with an answer for each, pushed to the workers as one
 * group, and acknowledged with an answer. There is no result.
 *
 *     work_nats live ADDRESS file|memory ... */
#include "load.h"
#include "wire.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ADDED = 1, ENDED = 2, JOBS = 3, MADE = 4 }; /* numbers of subscriptions */

static struct load load;
static struct wire submitter, workers[LOAD_WORKERS];
static unsigned n_made;

static void add(unsigned slot, const char payload[LOAD_PAYLOAD_SIZE])
{
    rota_buffer_print(&submitter.out, "PUB q a.%u 100\r\n", slot);
    rota_buffer_append(&submitter.out, payload, LOAD_PAYLOAD_SIZE);
    rota_buffer_append_text(&submitter.out, "\r\n");
}

static void ask(const char *subject, const char *text)
{
    rota_buffer_print(&submitter.out, "PUB %s made %zu\r\n%s\r\n", subject, strlen(text), text);
}

static void make_stream(void)
{
    char text[512];
    snprintf(
        text, sizeof text,
        "{\"name\":\"W\",\"subjects\":[\"q\"],\"retention\":\"workqueue\",\"max_consumers\":-1,"
        "\"max_msgs\":-1,\"max_bytes\":-1,\"max_age\":0,\"storage\":\"%s\","
        "\"num_replicas\":1,\"discard\":\"new\"}",
        load.addresses[1]);
    ask("$JS.API.STREAM.CREATE.W", text);
}

static void make_consumer(void)
{
    ask("$JS.API.CONSUMER.DURABLE.CREATE.W.c",
        "{\"stream_name\":\"W\",\"config\":{\"durable_name\":\"c\",\"deliver_policy\":\"all\","
        "\"ack_policy\":\"explicit\",\"ack_wait\":120000000000,\"max_ack_pending\":4096,"
        "\"deliver_subject\":\"jobs\",\"deliver_group\":\"g\",\"replay_policy\":\"instant\"}}");
}

/* The stream first, then its consumer, then the load. */
static void on_made(struct rota_str text)
{
    char copy[1024];
    snprintf(copy, sizeof copy, "%.*s", (int)(text.size < 1000 ? text.size : 1000), text.data);
    if (strstr(copy, "\"error\""))
        load_fail("NATS says %s", copy);
    if (++n_made == 1 && !load.is_fill)
        make_consumer();
    else
        load_start(&load);
}

static void on_message(struct wire *wire, const char *subject, unsigned subscription,
                       const char *reply, struct rota_str body)
{
    const char *dot = strchr(subject, '.');
    unsigned slot = dot ? (unsigned)strtoul(dot + 1, NULL, 10) : 0;
    switch (subscription) {
    case ADDED:
        if (body.size < 10 || memcmp(body.data, "{\"stream\":", 10) != 0)
            load_fail("NATS says %.*s", (int)body.size, body.data);
        load_added(slot);
        return;
    case ENDED:
        load_ended(slot);
        return;
    case JOBS:
        slot = load_take(body);
        rota_buffer_print(&wire->out, "PUB %s e%u.%u 4\r\n+ACK\r\n", reply, wire->number, slot);
        return;
    case MADE:
        on_made(body);
        return;
    default: /* a number from outside */
        load_fail("a message for nobody");
    }
}

/* One piece of the protocol; 0 when it has not come as a whole. */
static size_t on_piece(struct wire *wire, struct rota_str bytes)
{
    char head[256], subject[100], words[2][100];
    unsigned subscription;
    struct rota_str line;
    if (!wire_line(bytes, &line))
        return 0;
    snprintf(head, sizeof head, "%.*s", (int)line.size, line.data);
    if (strncmp(head, "MSG ", 4) != 0) {
        if (strcmp(head, "PING") == 0)
            rota_buffer_append_text(&wire->out, "PONG\r\n");
        else if (head[0] == '-')
            load_fail("NATS says %s", head);
        return line.size + 2;
    }
    int n = sscanf(head, "MSG %99s %u %99s %99s", subject, &subscription, words[0], words[1]);
    if (n < 3)
        load_fail("NATS says %s", head);
    size_t size = strtoul(words[n - 3], NULL, 10), at = line.size + 2;
    if (bytes.size - at < size + 2)
        return 0;
    on_message(wire, subject, subscription, n == 4 ? words[0] : "",
               rota_str_of(bytes.data + at, size));
    return at + size + 2;
}

static size_t on_bytes(struct wire *wire, struct rota_str bytes)
{
    size_t at = 0, done;
    while ((done = on_piece(wire, rota_str_of(bytes.data + at, bytes.size - at))) > 0)
        at += done;
    return at;
}

int main(int argc, char **argv)
{
    load_parse(argc, argv, 2, &load);
    load.add = add;
    wire_open(&submitter, load.addresses[0], 0, on_bytes);
    rota_buffer_print(&submitter.out,
                      "CONNECT {\"verbose\":false}\r\nSUB a.* %d\r\nSUB made %d\r\n", ADDED, MADE);
    for (unsigned i = 0; i < LOAD_WORKERS && !load.is_fill; i++) {
        wire_open(&workers[i], load.addresses[0], i, on_bytes);
        rota_buffer_print(&workers[i].out,
                          "CONNECT {\"verbose\":false}\r\nSUB jobs g %d\r\nSUB e%u.* %d\r\n", JOBS,
                          i, ENDED);
    }
    make_stream();
    wire_run();
}
