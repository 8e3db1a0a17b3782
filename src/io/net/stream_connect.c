#include "io/net/stream_inside.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void try_next(struct rota_stream *stream);

static uint64_t left_ms(const struct rota_stream *stream)
{
    uint64_t now = uv_now(stream->tcp.loop), deadline = stream->dial->deadline_ms;
    return now < deadline ? deadline - now : 0;
}

/* A socket that failed to connect is of no further use, so each target gets a
 * fresh one in the same place. */
static void on_socket_closed(uv_handle_t *handle)
{
    struct rota_stream *stream = handle->data;
    if (stream->state == ROTA_STREAM_CLOSED) {
        rota_stream_release(stream);
        return;
    }
    uv_tcp_init(handle->loop, &stream->tcp);
    stream->tcp.data = stream;
    try_next(stream);
}

static void give_up_target(struct rota_stream *stream, const char *why)
{
    rota_error_set(&stream->dial->error, ROTA_ERR_UNAVAILABLE, "cannot connect to %s: %s",
                   stream->peer, why);
    uv_timer_stop(&stream->timer);
    uv_close((uv_handle_t *)&stream->tcp, on_socket_closed);
}

static void on_connected(uv_connect_t *request, int status)
{
    struct rota_stream *stream = request->data;
    if (uv_is_closing((uv_handle_t *)&stream->tcp))
        return;
    if (status < 0) {
        give_up_target(stream, uv_strerror(status));
        return;
    }
    rota_stream_set_timer(stream, left_ms(stream));
    free(stream->dial);
    stream->dial = NULL;
    rota_stream_start(stream);
}

/* Each target may take its share of the time that is left, so that a dead one
 * does not use up that of the next. */
static void try_next(struct rota_stream *stream)
{
    struct rota_stream_dial *dial = stream->dial;
    if (dial->next == dial->n_targets) {
        rota_stream_end(stream, &dial->error);
        return;
    }
    const struct sockaddr *target = (const struct sockaddr *)&dial->targets[dial->next];
    uint64_t share_ms = left_ms(stream) / (dial->n_targets - dial->next);
    dial->next++;
    rota_address_format(target, stream->peer);
    dial->connect.data = stream;
    rota_stream_set_timer(stream, share_ms);
    int status = uv_tcp_connect(&dial->connect, &stream->tcp, target, on_connected);
    if (status)
        give_up_target(stream, uv_strerror(status));
}

/* Note a target; skip one that plaintext is not allowed to. */
static void add_target(struct rota_stream *stream, const struct sockaddr *address, size_t size)
{
    struct rota_stream_dial *dial = stream->dial;
    if (dial->n_targets == ROTA_STREAM_ADDRESSES_MAX || size > sizeof dial->targets[0])
        return;
    if (!stream->tls && rota_stream_check_plain(address, dial->insecure, &dial->error))
        return;
    memcpy(&dial->targets[dial->n_targets++], address, size);
}

static void on_resolved(uv_getaddrinfo_t *request, int status, struct addrinfo *found)
{
    struct rota_stream *stream = request->data;
    struct rota_stream_dial *dial = stream->dial;
    if (stream->state != ROTA_STREAM_CLOSED) {
        stream->state = ROTA_STREAM_CONNECTING;
        if (status)
            rota_error_set(
                &dial->error,
                status == UV_EAI_NONAME || status == UV_EAI_NODATA ? ROTA_ERR_NOT_FOUND
                                                                   : ROTA_ERR_UNAVAILABLE,
                "cannot look up %s: %s", dial->address, rota_address_lookup_error(status));
        for (struct addrinfo *each = found; each; each = each->ai_next)
            add_target(stream, each->ai_addr, each->ai_addrlen);
        try_next(stream);
    }
    uv_freeaddrinfo(found);
    rota_stream_release(stream);
}

static enum rota_code dial_address(struct rota_stream *stream, const struct rota_address *address,
                                   struct rota_error *error)
{
    struct sockaddr_storage target;
    if (rota_address_resolve(address, &target)) {
        add_target(stream, (struct sockaddr *)&target, sizeof target);
        if (stream->dial->n_targets == 0)
            return rota_error_set(error, stream->dial->error.code, "%s", stream->dial->error.text);
        try_next(stream);
        return ROTA_OK;
    }
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    stream->dial->resolve.data = stream;
    int status = uv_getaddrinfo(stream->tcp.loop, &stream->dial->resolve, on_resolved,
                                address->host, address->port_text, &hints);
    if (status)
        return rota_error_set(error, ROTA_ERR_IO, "cannot look up %s: %s", stream->peer,
                              uv_strerror(status));
    stream->n_holds++;
    stream->state = ROTA_STREAM_RESOLVING;
    rota_stream_set_timer(stream, left_ms(stream));
    return ROTA_OK;
}

void rota_stream_connect_dial_timeout(struct rota_stream *stream)
{
    if (stream->state == ROTA_STREAM_CONNECTING) {
        give_up_target(stream, "no reply in time");
        return;
    }
    struct rota_error reason;
    rota_error_set(&reason, ROTA_ERR_UNAVAILABLE, "looking up %s: timed out",
                   stream->dial->address);
    rota_stream_end(stream, &reason);
}

static uint64_t deadline_ms(uv_loop_t *loop, rota_time timeout)
{
    uv_update_time(loop); /* the loop's time may be outdated */
    if (timeout <= 0)
        timeout = ROTA_STREAM_OPEN_TIMEOUT;
    return uv_now(loop) + (uint64_t)(timeout / ROTA_MSEC);
}

enum rota_code rota_stream_connect(struct uv_loop_s *loop, const char *address,
                                   const struct rota_stream_options *options,
                                   const struct rota_stream_handler *handler,
                                   struct rota_stream **stream, struct rota_error *error)
{
    static const struct rota_stream_options defaults;
    struct rota_address parsed;
    enum rota_code code = rota_address_parse(address, &parsed, error);
    if (code)
        return code;
    options = options ? options : &defaults;

    struct rota_stream *made = rota_stream_new(loop);
    if (!made)
        return rota_error_no_memory(error, "to connect to %s", address);
    made->dial = calloc(1, sizeof *made->dial);
    if (!made->dial) {
        code = rota_error_no_memory(error, "to connect to %s", address);
        goto fail;
    }
    snprintf(made->peer, sizeof made->peer, "%s", address);
    snprintf(made->dial->address, sizeof made->dial->address, "%s", address);
    made->dial->insecure = options->insecure;
    made->dial->deadline_ms = deadline_ms(loop, options->open_timeout);
    made->handler = *handler;

    const char *host = options->tls_name ? options->tls_name : parsed.host;
    if (options->tls && (code = rota_tls_session_new(options->tls, host, &made->tls, error)))
        goto fail;
    if ((code = dial_address(made, &parsed, error)))
        goto fail;
    *stream = made;
    return ROTA_OK;

fail:
    rota_stream_destroy(made);
    return code;
}
