#include "connectors.h"
#include "libzmq_races.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* On a busy machine a healthy side may be late: 5 s of silence, where nothing else is said. */
enum { BEAT_MS = 50, MISSED_MAX = 100 };

static void on_connected(void *data, struct rota_connector_peer *peer)
{
    struct end *end = data;
    if (end->n_connected < 64)
        end->sessions[end->n_connected] = rota_connector_peer_session(peer);
    end->peer = peer;
    end->n_connected++;
}

static void on_disconnected(void *data, struct rota_connector_peer *peer,
                            const struct rota_error *why)
{
    struct end *end = data;
    if (end->peer == peer)
        end->peer = NULL;
    snprintf(end->why, sizeof end->why, "%s", why->text);
    snprintf(end->name, sizeof end->name, "%.*s", ROTA_STR_ARGS(rota_connector_peer_name(peer)));
    end->code = why->code;
    end->n_disconnected++;
}

static void on_retry(void *data, const struct rota_error *why, rota_time wait)
{
    struct end *end = data;
    assert_true(wait > 0);
    snprintf(end->why, sizeof end->why, "%s", why->text);
    end->code = why->code;
    end->n_retries++;
}

static void on_unhandled(void *data, struct rota_connector_peer *from, struct rota_str type,
                         struct rota_str message)
{
    struct end *end = data;
    (void)from;
    snprintf(end->last, sizeof end->last, "%.*s:%.*s", ROTA_STR_ARGS(type), ROTA_STR_ARGS(message));
    end->n_unhandled++;
}

static void on_room(void *data, struct rota_connector_peer *peer)
{
    struct end *end = data;
    (void)peer;
    end->n_room++;
}

void on_end_closed(void *data)
{
    struct end *end = data;
    end->connector = NULL;
    end->n_closed++;
}

void on_text(void *data, struct rota_connector_peer *from, struct rota_str message)
{
    struct end *end = data;
    snprintf(end->name, sizeof end->name, "%.*s", ROTA_STR_ARGS(rota_connector_peer_name(from)));
    snprintf(end->last, sizeof end->last, "%.*s", ROTA_STR_ARGS(message));
    end->heard_on = uv_thread_self();
    end->n_messages++;
}

struct rota_connector_options end_options(struct end *end, uv_loop_t *loop)
{
    return (struct rota_connector_options){
        .address = "127.0.0.1:0",
        .loop = loop,
        .interval = BEAT_MS * ROTA_MSEC,
        .missed_max = MISSED_MAX,
        .reconnect_first = 20 * ROTA_MSEC,
        .reconnect_max = 200 * ROTA_MSEC,
        .on_connected = on_connected,
        .on_disconnected = on_disconnected,
        .on_retry = on_retry,
        .on_unhandled = on_unhandled,
        .on_room = on_room,
        .data = end,
    };
}

void end_open(struct end *end, const struct rota_connector_options *options)
{
    struct rota_error error;
    memset(end, 0, sizeof *end);
    if ((options->name ? rota_connector_open_worker
                       : rota_connector_open_broker)(options, &end->connector, &error))
        fail_msg("%s", error.text);
    assert_int_equal(rota_connector_register(end->connector, "text", &end->text, &error), 0);
    assert_int_equal(rota_connector_register(end->connector, "echo", &end->echo, &error), 0);
    assert_int_equal(
        rota_connector_register_handler_async(end->connector, end->text, on_text, end, &error), 0);
    if (rota_connector_start(end->connector, &error))
        fail_msg("%s", error.text);
}

void broker_open(struct end *end, uv_loop_t *loop)
{
    struct rota_connector_options options = end_options(end, loop);
    end_open(end, &options);
}

void worker_open(struct end *end, uv_loop_t *loop, const char *address, const char *name)
{
    struct rota_connector_options options = end_options(end, loop);
    options.address = address;
    options.name = name;
    end_open(end, &options);
}

void end_close(struct end *end, uv_loop_t *loop)
{
    rota_connector_close(end->connector, on_end_closed, end);
    await(loop, &end->n_closed, 1);
}

enum rota_code end_say(struct end *end, struct rota_connector_peer *to, const char *text)
{
    return rota_connector_send(end->connector, to, end->text, rota_str(text), NULL);
}

struct rota_connector_stats end_stats(const struct end *end)
{
    struct rota_connector_stats stats;
    rota_connector_stats(end->connector, &stats);
    return stats;
}

/* --- one without manners --- */

void raw_open(struct raw *raw, const char *address, const char *routing_id)
{
    char endpoint[300];
    int none = 0;
    snprintf(endpoint, sizeof endpoint, "tcp://%s", address);
    raw->context = zmq_ctx_new();
    raw->socket = zmq_socket(raw->context, ZMQ_DEALER);
    zmq_setsockopt(raw->socket, ZMQ_LINGER, &none, sizeof none);
    if (routing_id)
        zmq_setsockopt(raw->socket, ZMQ_ROUTING_ID, routing_id, strlen(routing_id));
    assert_int_equal(zmq_connect(raw->socket, endpoint), 0);
}

void raw_close(struct raw *raw)
{
    zmq_close(raw->socket);
    zmq_ctx_term(raw->context);
}

void raw_send(struct raw *raw, const void *frame, size_t size)
{
    assert_true(zmq_send(raw->socket, frame, size, 0) >= 0);
}

void raw_say(struct raw *raw, const char *type, const struct rota_buffer *body)
{
    char frame[4096];
    size_t size = strlen(type);
    frame[0] = (char)size;
    memcpy(frame + 1, type, size);
    if (body && body->size)
        memcpy(frame + 1 + size, body->data, body->size);
    raw_send(raw, frame, 1 + size + (body ? body->size : 0));
}

void raw_hello(struct raw *raw, const char *name, uint64_t epoch)
{
    struct rota_worker_hello hello = {
        .version = ROTA_WORKER_PROTOCOL_VERSION, .name = rota_str(name), .epoch = epoch};
    struct rota_buffer body = {0};
    rota_worker_frame_hello_write(&hello, &body);
    raw_say(raw, ROTA_WORKER_HELLO, &body);
    rota_buffer_deinit(&body);
}

struct rota_str raw_hear(struct raw *raw, uv_loop_t *loop, char type[65], char frame[4096])
{
    for (int i = 0; i < 3000; i++) {
        int size = zmq_recv(raw->socket, frame, 4096, ZMQ_DONTWAIT);
        struct rota_str name, body;
        if (size >= 0) {
            assert_int_equal(
                rota_worker_frame_parse(rota_str_of(frame, (size_t)size), &name, &body, NULL), 0);
            if (rota_str_is_equal(name, rota_str(ROTA_WORKER_BEAT)))
                continue;
            snprintf(type, 65, "%.*s", ROTA_STR_ARGS(name));
            return body;
        }
        uv_run(loop, UV_RUN_NOWAIT);
        usleep(10000);
    }
    fail_msg("no heartbeat");
    return rota_str("");
}

enum rota_worker_bye_reason raw_hear_bye(struct raw *raw, uv_loop_t *loop)
{
    char type[65], frame[4096];
    struct rota_worker_bye bye;
    struct rota_str body = raw_hear(raw, loop, type, frame);
    assert_string_equal(type, ROTA_WORKER_BYE);
    assert_int_equal(rota_worker_frame_bye_read(body, &bye, NULL), 0);
    return bye.reason;
}
