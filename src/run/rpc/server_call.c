/* The functions of a call for its handler. */
#include "run/rpc/server_call.h"

#include "run/rpc/server_inside.h"

#include "io/clock.h"
#include "io/net/stream.h"
#include "wire/grpc/call_notes.h"

#include <assert.h>
#include <stdio.h>

struct rota_str rota_server_call_request(const struct rota_server_call *call)
{
    return rota_buffer_str(&call->h2.decoder.message);
}

const struct rota_metadata *rota_server_call_metadata(struct rota_server_call *call, size_t *n)
{
    return rota_grpc_head_fields_pairs(&call->h2.head.metadata, n);
}

uint32_t rota_server_call_roles(struct rota_server_call *call)
{
    const struct rota_server_options *options = &call->server->options;
    return options->identify ? options->identify(options->data, call, NULL) : UINT32_MAX;
}

char *rota_server_call_actor(struct rota_server_call *call, char actor[ROTA_SERVER_ACTOR_MAX])
{
    const struct rota_server_options *options = &call->server->options;
    if (options->identify)
        options->identify(options->data, call, actor);
    else
        snprintf(actor, ROTA_SERVER_ACTOR_MAX, "%s", rota_server_call_peer(call));
    return actor;
}

static const struct rota_stream *stream_of(const struct rota_server_call *call)
{
    return call->connection->link ? rota_link_stream(call->connection->link) : NULL;
}

const char *rota_server_call_peer(const struct rota_server_call *call)
{
    const struct rota_stream *stream = stream_of(call);
    return stream ? rota_stream_peer(stream) : "";
}

bool rota_server_call_is_named(const struct rota_server_call *call, const char *name)
{
    const struct rota_stream *stream = stream_of(call);
    return stream && rota_stream_is_named(stream, name);
}

rota_time rota_server_call_time_left(const struct rota_server_call *call)
{
    if (call->h2.head.timeout == ROTA_TIME_NEVER)
        return ROTA_TIME_NEVER;
    rota_time now = rota_clock_mono();
    return call->node.at > now ? call->node.at - now : 0;
}

bool rota_server_call_is_cancelled(const struct rota_server_call *call)
{
    return call->is_cancelled;
}

void rota_server_call_set_data(struct rota_server_call *call, void *data)
{
    call->data = data;
}

void *rota_server_call_data(const struct rota_server_call *call)
{
    return call->data;
}

enum rota_code rota_server_call_head(struct rota_server_call *call,
                                     const struct rota_metadata *metadata, size_t n,
                                     struct rota_error *error)
{
    return rota_http2_reply_head(&call->h2, metadata, n, error);
}

enum rota_code rota_server_call_send(struct rota_server_call *call, struct rota_str message)
{
    assert(call->is_with_handler);
    enum rota_code code = rota_http2_send(&call->h2, message);
    if (code == ROTA_OK)
        rota_server_arrive_call_touch(call);
    return code;
}

void rota_server_call_cost(struct rota_server_call *call, const struct rota_cost *cost)
{
    if (!call->has_cost || cost->response_us > call->cost.response_us)
        call->cost = *cost;
    call->has_cost = true;
}

/* The one message of a reply was sent, or could not be. */
static void finish_sent(struct rota_server_call *call, enum rota_code code)
{
    switch (code) {
    case ROTA_OK:
    case ROTA_ERR_UNAVAILABLE: /* the client is gone */
        rota_server_call_finish(call, ROTA_STATUS_OK, NULL, NULL, 0);
        break;
    case ROTA_ERR_LIMIT:
    case ROTA_ERR_INVALID:
    case ROTA_ERR_NOT_FOUND:
    case ROTA_ERR_IO:
    case ROTA_ERR_NO_MEMORY:
    case ROTA_ERR_UNKNOWN:
    case ROTA_ERR_STALE:
        /* It was served: a status that means "refused" would have it served again elsewhere. */
        rota_server_call_finish(call, ROTA_STATUS_UNKNOWN,
                                "the call succeeded, but there is no room for its reply: this "
                                "client or others do not read their replies",
                                NULL, 0);
        break;
    }
}

void rota_server_call_reply(struct rota_server_call *call, struct rota_str message)
{
    assert(call->is_with_handler);
    finish_sent(call, rota_http2_send(&call->h2, message));
}

void rota_server_call_begin_reply(struct rota_server_call *call, struct rota_buffer *reply)
{
    assert(call->is_with_handler);
    rota_http2_begin_message(&call->h2, reply);
}

void rota_server_call_reply_buffer(struct rota_server_call *call, struct rota_buffer *reply)
{
    assert(call->is_with_handler);
    finish_sent(call, rota_http2_send_begun(&call->h2, reply));
}

static void measure_call(struct rota_server_call *call)
{
    call->cost = rota_admission_cost(&call->server->admission, rota_clock_mono(), &call->ticket);
    call->has_cost = true;
}

/* End the stream, with the cost in addition to the handler's own pairs. */
static void finish_with_cost(struct rota_server_call *call, enum rota_status status,
                             const char *text, const struct rota_metadata *metadata,
                             size_t n_metadata)
{
    struct rota_metadata pairs[ROTA_SERVER_TRAILERS_MAX + 1];
    char cost[ROTA_NOTE_COST_MAX];
    if (n_metadata > 0)
        memcpy(pairs, metadata, n_metadata * sizeof *pairs);
    pairs[n_metadata].name = rota_str(ROTA_NOTE_COST);
    pairs[n_metadata].value = rota_str(rota_call_notes_format_cost(&call->cost, cost));
    rota_http2_finish(&call->h2, status, rota_str(text), pairs, n_metadata + 1);
}

void rota_server_call_finish(struct rota_server_call *call, enum rota_status status,
                             const char *text, const struct rota_metadata *metadata,
                             size_t n_metadata)
{
    assert(call->is_with_handler);
    call->is_with_handler = false;
    if (call->is_measured && !call->has_cost)
        measure_call(call);
    rota_server_arrive_call_uncount(call);
    rota_server_arrive_call_leave(call);
    rota_heap_remove(&call->server->deadlines, &call->node);
    if (call->has_cost && n_metadata <= ROTA_SERVER_TRAILERS_MAX)
        finish_with_cost(call, status, text ? text : "", metadata, n_metadata);
    else
        rota_http2_finish(&call->h2, status, rota_str(text ? text : ""), metadata, n_metadata);
    rota_server_arrive_call_touch(call);
    struct rota_server_tally tally = call->server->tally;
    bool is_tallied = call->is_tallied;
    uint32_t number = call->tally_number;
    rota_server_arrive_call_free(call);
    if (is_tallied && tally.on_end)
        tally.on_end(tally.data, number);
}

void rota_server_call_set_tally(struct rota_server *server, struct rota_server_tally tally)
{
    server->tally = tally;
}
