/* gRPC's C core, one completion queue and one thread, with arguments that make
 * it fast: the minimal stack with deadlines kept, no bandwidth probe, no
 * channelz, no retries. */
#include "messages.h"

#include <grpc/byte_buffer.h>
#include <grpc/byte_buffer_reader.h>
#include <grpc/grpc.h>
#include <grpc/grpc_security.h>
#include <grpc/support/time.h>
#include <stdio.h>
#include <string.h>

enum { CALLS_POSTED = LOAD_CALLS_MAX };

static grpc_completion_queue *queue;

static const grpc_channel_args *tuned(void)
{
    static grpc_arg items[] = {
        {GRPC_ARG_INTEGER, GRPC_ARG_MINIMAL_STACK, {.integer = 1}},
        {GRPC_ARG_INTEGER, GRPC_ARG_ENABLE_DEADLINE_CHECKS, {.integer = 1}},
        {GRPC_ARG_INTEGER, GRPC_ARG_HTTP2_BDP_PROBE, {.integer = 0}},
        {GRPC_ARG_INTEGER, GRPC_ARG_ENABLE_CHANNELZ, {.integer = 0}},
        {GRPC_ARG_INTEGER, GRPC_ARG_ENABLE_RETRIES, {.integer = 0}},
        {GRPC_ARG_INTEGER, GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, {.integer = 1}},
    };
    static const grpc_channel_args arguments = {sizeof items / sizeof *items, items};
    return &arguments;
}

/* One slice is borrowed, several are joined. */
static struct rota_str content(grpc_byte_buffer *buffer, grpc_slice *slice)
{
    grpc_byte_buffer_reader reader;
    if (!buffer || !grpc_byte_buffer_reader_init(&reader, buffer))
        load_fail("a message can't be read");
    *slice = grpc_byte_buffer_reader_readall(&reader);
    grpc_byte_buffer_reader_destroy(&reader);
    return rota_str_of(GRPC_SLICE_START_PTR(*slice), GRPC_SLICE_LENGTH(*slice));
}

static grpc_byte_buffer *message_of(const struct rota_buffer *bytes)
{
    grpc_slice slice = grpc_slice_from_copied_buffer(bytes->data, bytes->size);
    grpc_byte_buffer *buffer = grpc_raw_byte_buffer_create(&slice, 1);
    grpc_slice_unref(slice);
    return buffer;
}

static void start(grpc_call *call, const grpc_op *ops, size_t n, void *tag)
{
    grpc_call_error error = grpc_call_start_batch(call, ops, n, tag, NULL);
    if (error)
        load_fail("a batch: %s", grpc_call_error_to_string(error));
}

/* --- the server --- */

struct served {
    bool is_batch, is_answering;
    grpc_call *call;
    gpr_timespec deadline;
    grpc_metadata_array metadata;
    grpc_byte_buffer *request, *reply;
    int was_cancelled;
};

static grpc_server *server;
static void *methods[2];

static void post(struct served *served)
{
    served->is_answering = false;
    served->request = NULL;
    if (grpc_server_request_registered_call(server, methods[served->is_batch], &served->call,
                                            &served->deadline, &served->metadata, &served->request,
                                            queue, queue, served))
        load_fail("a call can't be asked for");
}

static void answer(struct served *served)
{
    static struct rota_buffer bytes;
    grpc_slice slice;
    rota_buffer_clear(&bytes);
    if (!messages_answer(served->is_batch, content(served->request, &slice), &bytes))
        load_fail("a malformed request");
    grpc_slice_unref(slice);
    grpc_byte_buffer_destroy(served->request);
    served->reply = message_of(&bytes);
    grpc_op ops[4];
    memset(ops, 0, sizeof ops);
    ops[0].op = GRPC_OP_SEND_INITIAL_METADATA;
    ops[1].op = GRPC_OP_SEND_MESSAGE;
    ops[1].data.send_message.send_message = served->reply;
    ops[2].op = GRPC_OP_SEND_STATUS_FROM_SERVER;
    ops[2].data.send_status_from_server.status = GRPC_STATUS_OK;
    ops[3].op = GRPC_OP_RECV_CLOSE_ON_SERVER;
    ops[3].data.recv_close_on_server.cancelled = &served->was_cancelled;
    served->is_answering = true;
    start(served->call, ops, 4, served);
}

static void served_end(struct served *served)
{
    grpc_byte_buffer_destroy(served->reply);
    grpc_call_unref(served->call);
    grpc_metadata_array_destroy(&served->metadata);
    grpc_metadata_array_init(&served->metadata);
    post(served);
}

static void serve(void)
{
    static struct served posted[2 * CALLS_POSTED];
    char address[32];
    grpc_init();
    queue = grpc_completion_queue_create_for_next(NULL);
    server = grpc_server_create(tuned(), NULL);
    grpc_server_register_completion_queue(server, queue, NULL);
    methods[0] = grpc_server_register_method(server, LOAD_ECHO_PATH, NULL,
                                             GRPC_SRM_PAYLOAD_READ_INITIAL_BYTE_BUFFER, 0);
    methods[1] = grpc_server_register_method(server, LOAD_BATCH_PATH, NULL,
                                             GRPC_SRM_PAYLOAD_READ_INITIAL_BYTE_BUFFER, 0);
    grpc_server_credentials *plain = grpc_insecure_server_credentials_create();
    int port = grpc_server_add_http2_port(server, "127.0.0.1:0", plain);
    grpc_server_start(server);
    for (int i = 0; i < 2 * CALLS_POSTED; i++) {
        posted[i].is_batch = i % 2;
        grpc_metadata_array_init(&posted[i].metadata);
        post(&posted[i]);
    }
    snprintf(address, sizeof address, "127.0.0.1:%d", port);
    load_ready(address);
    for (;;) {
        grpc_event event =
            grpc_completion_queue_next(queue, gpr_inf_future(GPR_CLOCK_REALTIME), NULL);
        struct served *served = event.tag;
        if (event.type != GRPC_OP_COMPLETE)
            return;
        if (served->is_answering)
            served_end(served);
        else if (event.success && served->request)
            answer(served);
    }
}

/* --- the client --- */

struct asked {
    uint64_t id;
    grpc_call *call;
    grpc_byte_buffer *request, *reply;
    grpc_metadata_array head, trailers;
    grpc_status_code status;
    grpc_slice text;
};

static struct load *load;
static struct asked asked[LOAD_CALLS_MAX];
static grpc_channel *channels[LOAD_CONNECTIONS_MAX];
static void *registered[LOAD_CONNECTIONS_MAX];

static void begin(struct asked *a)
{
    static struct rota_buffer bytes;
    unsigned slot = (unsigned)(a - asked), connection = slot % load->n_connections;
    gpr_timespec deadline = gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                                         gpr_time_from_millis(LOAD_TIMEOUT_MS, GPR_TIMESPAN));
    a->id = load_begin(load, slot);
    messages_ask(load->is_batch, a->id, &bytes);
    a->request = message_of(&bytes);
    a->reply = NULL;
    a->call =
        grpc_channel_create_registered_call(channels[connection], NULL, GRPC_PROPAGATE_DEFAULTS,
                                            queue, registered[connection], deadline, NULL);
    grpc_metadata_array_init(&a->head);
    grpc_metadata_array_init(&a->trailers);
    grpc_op ops[6];
    memset(ops, 0, sizeof ops);
    ops[0].op = GRPC_OP_SEND_INITIAL_METADATA;
    ops[1].op = GRPC_OP_SEND_MESSAGE;
    ops[1].data.send_message.send_message = a->request;
    ops[2].op = GRPC_OP_SEND_CLOSE_FROM_CLIENT;
    ops[3].op = GRPC_OP_RECV_INITIAL_METADATA;
    ops[3].data.recv_initial_metadata.recv_initial_metadata = &a->head;
    ops[4].op = GRPC_OP_RECV_MESSAGE;
    ops[4].data.recv_message.recv_message = &a->reply;
    ops[5].op = GRPC_OP_RECV_STATUS_ON_CLIENT;
    ops[5].data.recv_status_on_client.trailing_metadata = &a->trailers;
    ops[5].data.recv_status_on_client.status = &a->status;
    ops[5].data.recv_status_on_client.status_details = &a->text;
    start(a->call, ops, 6, a);
}

static void end(struct asked *a)
{
    grpc_slice slice;
    if (a->status != GRPC_STATUS_OK)
        load_fail("a call failed with status %d", a->status);
    bool is_right = messages_is_right(load->is_batch, a->id, content(a->reply, &slice));
    grpc_slice_unref(slice);
    grpc_slice_unref(a->text);
    grpc_byte_buffer_destroy(a->request);
    grpc_byte_buffer_destroy(a->reply);
    grpc_metadata_array_destroy(&a->head);
    grpc_metadata_array_destroy(&a->trailers);
    grpc_call_unref(a->call);
    load_end(load, (unsigned)(a - asked), is_right);
    begin(a);
}

static void drive(struct load *the_load)
{
    load = the_load;
    grpc_init();
    queue = grpc_completion_queue_create_for_next(NULL);
    for (unsigned i = 0; i < load->n_connections; i++) {
        grpc_channel_credentials *plain = grpc_insecure_credentials_create();
        channels[i] = grpc_channel_create(load->address, plain, tuned());
        registered[i] = grpc_channel_register_call(
            channels[i], load->is_batch ? LOAD_BATCH_PATH : LOAD_ECHO_PATH, NULL, NULL);
    }
    for (unsigned i = 0; i < load->n_calls; i++)
        begin(&asked[i]);
    for (;;) {
        grpc_event event =
            grpc_completion_queue_next(queue, gpr_inf_future(GPR_CLOCK_REALTIME), NULL);
        if (event.type != GRPC_OP_COMPLETE)
            return;
        end(event.tag);
    }
}

int main(int argc, char **argv)
{
    return load_main(argc, argv, &(struct load_transport){"call_core", serve, drive});
}
