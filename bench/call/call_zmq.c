/* ZeroMQ: DEALER to ROUTER, one frame of {slot, timeout in ms, method} and the
 * message. libzmq writes as it likes; the deadline travels and is not watched. */
#include "messages.h"

#include <stdio.h>
#include <zmq.h>

struct header {
    uint32_t slot, timeout_ms, method;
};

static void *context;

static void *open_socket(int type)
{
    void *socket = zmq_socket(context, type);
    int none = 0;
    if (!socket || zmq_setsockopt(socket, ZMQ_SNDHWM, &none, sizeof none) ||
        zmq_setsockopt(socket, ZMQ_RCVHWM, &none, sizeof none))
        load_fail("a socket: %s", zmq_strerror(zmq_errno()));
    return socket;
}

static void send_bytes(void *socket, const struct rota_buffer *bytes)
{
    if (zmq_send(socket, bytes->data, bytes->size, 0) < 0)
        load_fail("sending: %s", zmq_strerror(zmq_errno()));
}

/* The header is copied out, the message borrowed. */
static struct rota_str split(zmq_msg_t *frame, struct header *header)
{
    size_t size = zmq_msg_size(frame);
    const char *data = zmq_msg_data(frame);
    if (size < sizeof *header)
        load_fail("a frame of %zu bytes", size);
    memcpy(header, data, sizeof *header);
    return rota_str_of(data + sizeof *header, size - sizeof *header);
}

/* --- the server --- */

static void serve(void)
{
    char address[64] = "";
    size_t size = sizeof address;
    struct rota_buffer reply = {0};
    zmq_msg_t from, frame;
    context = zmq_ctx_new();
    void *socket = open_socket(ZMQ_ROUTER);
    if (zmq_bind(socket, "tcp://127.0.0.1:*") ||
        zmq_getsockopt(socket, ZMQ_LAST_ENDPOINT, address, &size))
        load_fail("bind: %s", zmq_strerror(zmq_errno()));
    load_ready(address + strlen("tcp://"));
    zmq_msg_init(&from);
    zmq_msg_init(&frame);
    for (;;) {
        struct header header;
        if (zmq_msg_recv(&from, socket, 0) < 0 || zmq_msg_recv(&frame, socket, 0) < 0)
            load_fail("receiving: %s", zmq_strerror(zmq_errno()));
        struct rota_str request = split(&frame, &header);
        rota_buffer_clear(&reply);
        rota_buffer_append(&reply, &header, sizeof header);
        if (!messages_answer(header.method, request, &reply))
            load_fail("a malformed request");
        if (zmq_msg_send(&from, socket, ZMQ_SNDMORE) < 0)
            load_fail("sending: %s", zmq_strerror(zmq_errno()));
        send_bytes(socket, &reply);
    }
}

/* --- the client --- */

static uint64_t ids[LOAD_CALLS_MAX];

static void begin(struct load *load, void *socket, unsigned slot)
{
    static struct rota_buffer request, bytes;
    struct header header = {slot, LOAD_TIMEOUT_MS, load->is_batch};
    ids[slot] = load_begin(load, slot);
    messages_ask(load->is_batch, ids[slot], &request);
    rota_buffer_clear(&bytes);
    rota_buffer_append(&bytes, &header, sizeof header);
    rota_buffer_append_str(&bytes, rota_buffer_str(&request));
    send_bytes(socket, &bytes);
}

/* Take what is there. */
static void drain(struct load *load, void *socket)
{
    zmq_msg_t frame;
    zmq_msg_init(&frame);
    while (zmq_msg_recv(&frame, socket, ZMQ_DONTWAIT) >= 0) {
        struct header header;
        struct rota_str reply = split(&frame, &header);
        if (header.slot >= load->n_calls)
            load_fail("a reply to no call");
        load_end(load, header.slot, messages_is_right(load->is_batch, ids[header.slot], reply));
        begin(load, socket, header.slot);
    }
    zmq_msg_close(&frame);
}

static void drive(struct load *load)
{
    zmq_pollitem_t items[LOAD_CONNECTIONS_MAX] = {0};
    char address[64];
    context = zmq_ctx_new();
    snprintf(address, sizeof address, "tcp://%s", load->address);
    for (unsigned i = 0; i < load->n_connections; i++) {
        items[i].socket = open_socket(ZMQ_DEALER);
        items[i].events = ZMQ_POLLIN;
        if (zmq_connect(items[i].socket, address))
            load_fail("connect: %s", zmq_strerror(zmq_errno()));
    }
    for (unsigned i = 0; i < load->n_calls; i++)
        begin(load, items[i % load->n_connections].socket, i);
    while (zmq_poll(items, (int)load->n_connections, -1) >= 0)
        for (unsigned i = 0; i < load->n_connections; i++)
            if (items[i].revents & ZMQ_POLLIN)
                drain(load, items[i].socket);
}

int main(int argc, char **argv)
{
    return load_main(argc, argv, &(struct load_transport){"call_zmq", serve, drive});
}
