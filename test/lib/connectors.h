/* For tests of connectors: a broker and workers on one loop, what became of them, and a
 * peer without manners that speaks ZeroMQ directly. */
#pragma once

#include "await.h"
#include "wire/message/worker_frame.h"

#include <rota/experimental/connector.h>
#include <zmq.h>

/* One side and what it was told; all on the loop's thread. */
struct end {
    struct rota_connector *connector;
    struct rota_connector_peer *peer; /* the last one that connected */
    uint32_t text, echo;
    size_t n_connected, n_disconnected, n_retries, n_unhandled, n_room, n_closed, n_messages;
    uint64_t sessions[64]; /* by connection, the first ones */
    char why[ROTA_ERROR_TEXT_MAX];
    enum rota_code code;
    char name[130]; /* of the last one that spoke */
    char last[256]; /* what it said */
    uv_thread_t heard_on;
};

void on_end_closed(void *data);
void on_text(void *data, struct rota_connector_peer *from, struct rota_str message);
struct rota_connector_options end_options(struct end *end, uv_loop_t *loop);

/* Open one side, with a handler for "text" on the consumer, and start it. */
void end_open(struct end *end, const struct rota_connector_options *options);

void broker_open(struct end *end, uv_loop_t *loop);
void worker_open(struct end *end, uv_loop_t *loop, const char *address, const char *name);
void end_close(struct end *end, uv_loop_t *loop);
enum rota_code end_say(struct end *end, struct rota_connector_peer *to, const char *text);
struct rota_connector_stats end_stats(const struct end *end);

struct raw {
    void *context, *socket;
};

void raw_open(struct raw *raw, const char *address, const char *routing_id);
void raw_close(struct raw *raw);
void raw_send(struct raw *raw, const void *frame, size_t size);
void raw_say(struct raw *raw, const char *type, const struct rota_buffer *body);
void raw_hello(struct raw *raw, const char *name, uint64_t epoch);

/* The next message that is no beat, while the loop runs; its type is written to `type`. */
struct rota_str raw_hear(struct raw *raw, uv_loop_t *loop, char type[65], char frame[4096]);

/* Hear a goodbye, and for which reason. */
enum rota_worker_bye_reason raw_hear_bye(struct raw *raw, uv_loop_t *loop);
