#include "io/http2_inside.h"

#include <assert.h>
#include <nghttp2/nghttp2.h>

/* --- header fields --- */

enum {
    NV_MAX = ROTA_GRPC_HEAD_FIELDS_MAX + 16,
    KEPT = NGHTTP2_NV_FLAG_NO_COPY_NAME | NGHTTP2_NV_FLAG_NO_COPY_VALUE,
};

struct nvs {
    nghttp2_nv items[NV_MAX];
    size_t n;
};

static void nv(struct nvs *nvs, struct rota_str name, struct rota_str value, uint8_t flags)
{
    assert(nvs->n < NV_MAX);
    nvs->items[nvs->n++] = (nghttp2_nv){
        .name = (uint8_t *)name.data,
        .namelen = name.size,
        .value = (uint8_t *)value.data,
        .valuelen = value.size,
        .flags = flags,
    };
}

#define NV_CONST(nvs, name, value)                                                                 \
    nv(nvs, (struct rota_str){"" name, sizeof(name) - 1},                                          \
       (struct rota_str){"" value, sizeof(value) - 1}, KEPT)

/* The pairs of `sent` from number `from` on. They are no-copy only when nothing
 * is added to `sent` before they have gone out. */
static void nv_sent(struct nvs *nvs, struct rota_http2_call *call, size_t from, size_t to,
                    uint8_t flags)
{
    size_t n;
    const struct rota_metadata *pairs = rota_grpc_fields_pairs(&call->sent, &n);
    for (size_t i = from; i < n && i < to; i++) {
        /* Binary values are ids and the like: they would only push others out
         * of the peer's table. */
        bool is_binary = rota_grpc_name_is_binary(pairs[i].name);
        nv(nvs, pairs[i].name, pairs[i].value, flags | (is_binary ? NGHTTP2_NV_FLAG_NO_INDEX : 0));
    }
}

static void nv_status(struct nvs *nvs, struct rota_http2_call *call)
{
    unsigned status = (unsigned)call->status % 100;
    size_t size = 0;
    if (status >= 10)
        call->status_text[size++] = (char)('0' + status / 10);
    call->status_text[size++] = (char)('0' + status % 10);
    nv(nvs, rota_str("grpc-status"), rota_str_of(call->status_text, size), KEPT);
    nv_sent(nvs, call, call->n_sent_head, SIZE_MAX, KEPT);
}

/* --- messages --- */

static void submit_trailers(struct rota_http2_call *call)
{
    struct nvs nvs;
    nvs.n = 0;
    nv_status(&nvs, call);
    nghttp2_submit_trailer(call->session->h2, call->stream, nvs.items, nvs.n);
}

static ssize_t read_out(nghttp2_session *h2, int32_t stream, uint8_t *to, size_t size,
                        uint32_t *flags, nghttp2_data_source *source, void *data)
{
    struct rota_http2_call *call = source->ptr;
    struct rota_http2 *session = data;
    size_t n = call->out.size - call->out_at;
    (void)h2;
    (void)stream;
    if (n > size)
        n = size;
    if (n > 0)
        memcpy(to, call->out.data + call->out_at, n);
    call->out_at += n;
    call->is_started = true;
    if (!session->options.is_server) {
        if (call->out_at == call->out.size)
            *flags |= NGHTTP2_DATA_FLAG_EOF;
        return (ssize_t)n;
    }
    session->out_size -= n;
    if (call->out_at < call->out.size)
        return (ssize_t)n;
    rota_buffer_clear(&call->out);
    call->out_at = 0;
    if (call->is_finished) {
        *flags |= NGHTTP2_DATA_FLAG_EOF | NGHTTP2_DATA_FLAG_NO_END_STREAM;
        submit_trailers(call);
    } else if (n == 0) {
        call->is_deferred = true;
        return NGHTTP2_ERR_DEFERRED;
    }
    return (ssize_t)n;
}

/* --- a client's calls --- */

static bool submit(struct rota_http2_call *call)
{
    struct rota_http2 *session = call->session;
    nghttp2_data_provider provider = {.source.ptr = call, .read_callback = read_out};
    struct nvs nvs;
    nvs.n = 0;
    NV_CONST(&nvs, ":method", "POST");
    if (session->options.is_tls)
        NV_CONST(&nvs, ":scheme", "https");
    else
        NV_CONST(&nvs, ":scheme", "http");
    nv(&nvs, rota_str(":path"), rota_buffer_str(&call->path), KEPT);
    nv(&nvs, rota_str(":authority"), rota_str(session->options.authority), KEPT);
    NV_CONST(&nvs, "te", "trailers");
    NV_CONST(&nvs, "content-type", "application/grpc");
    NV_CONST(&nvs, "user-agent", "rota");
    if (call->timeout_size > 0)
        nv(&nvs, rota_str("grpc-timeout"), rota_str_of(call->timeout, call->timeout_size), KEPT);
    nv_sent(&nvs, call, 0, SIZE_MAX, KEPT);

    int32_t stream = nghttp2_submit_request(session->h2, NULL, nvs.items, nvs.n, &provider, call);
    if (stream < 0)
        return false;
    call->stream = stream;
    session->n_open++;
    rota_http2_list_push(&session->calls, call);
    rota_http2_count_out(session, 1, call->out.size);
    return true;
}

static size_t peer_limit(const struct rota_http2 *session)
{
    return nghttp2_session_get_remote_settings(session->h2,
                                               NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS);
}

enum rota_code rota_http2_start(struct rota_http2 *session, struct rota_http2_call *call,
                                rota_time timeout)
{
    assert(!call->session && !session->options.is_server);
    if (!rota_http2_is_open(session))
        return ROTA_ERR_UNAVAILABLE;
    call->timeout_size = 0;
    if (timeout != ROTA_TIME_NEVER)
        call->timeout_size = rota_grpc_timeout_format(timeout, call->timeout);
    call->out_at = 0;
    call->decoder.max = session->options.message_max;
    bool must_wait = session->queue.first || session->n_open >= peer_limit(session);
    if (must_wait && session->n_queued >= session->options.queue_max)
        return ROTA_ERR_LIMIT;
    call->session = session;
    if (must_wait) {
        call->is_queued = true;
        session->n_queued++;
        rota_http2_list_push(&session->queue, call);
        return ROTA_OK;
    }
    if (submit(call))
        return ROTA_OK;
    call->session = NULL;
    return ROTA_ERR_UNAVAILABLE;
}

/* The peer lets in more: those that wait longest go. */
void rota_http2_start_queued(struct rota_http2 *session)
{
    struct rota_http2_call *call;
    while ((call = session->queue.first) && session->n_open < peer_limit(session)) {
        rota_http2_list_remove(&session->queue, call);
        session->n_queued--;
        call->is_queued = false;
        if (rota_http2_is_open(session) && submit(call))
            continue;
        rota_http2_list_push(&session->calls, call); /* for rota_http2_release() */
        rota_http2_end_text(call, ROTA_STATUS_UNAVAILABLE, "the connection takes no more calls",
                            true);
        rota_http2_release(call);
    }
}

void rota_http2_fail_queued(struct rota_http2 *session)
{
    struct rota_http2_call *call;
    while ((call = session->queue.first)) {
        rota_http2_end_text(call, ROTA_STATUS_UNAVAILABLE, "the connection takes no more calls",
                            true);
        rota_http2_release(call);
    }
}

/* --- either side --- */

void rota_http2_cancel(struct rota_http2_call *call)
{
    struct rota_http2 *session = call->session;
    if (!session)
        return;
    call->is_ended = true;
    if (session->options.is_server)
        call->is_finished = true;
    if (call->is_queued) {
        rota_http2_release(call);
    } else if (call->is_closed) {
        if (!call->is_delivering)
            rota_http2_release(call);
    } else if (session->h2) {
        nghttp2_submit_rst_stream(session->h2, NGHTTP2_FLAG_NONE, call->stream, NGHTTP2_CANCEL);
        rota_http2_count_out(session, 1, 0);
    }
}

/* --- a server's replies --- */

enum rota_code rota_http2_reply_head(struct rota_http2_call *call,
                                     const struct rota_metadata *metadata, size_t n,
                                     struct rota_error *error)
{
    if (!call->session || call->is_finished)
        return rota_error_set(error, ROTA_ERR_UNAVAILABLE, "the call has ended");
    if (call->is_replying || call->sent.places.size > 0)
        return rota_error_set(error, ROTA_ERR_INVALID, "the reply's head is there already");
    enum rota_code code = rota_grpc_fields_add_metadata(&call->sent, metadata, n, error);
    if (code)
        rota_grpc_fields_clear(&call->sent);
    call->n_sent_head = call->sent.places.size;
    return code;
}

static void begin_reply(struct nvs *nvs, struct rota_http2_call *call)
{
    nvs->n = 0;
    NV_CONST(nvs, ":status", "200");
    NV_CONST(nvs, "content-type", "application/grpc");
    nv_sent(nvs, call, 0, call->n_sent_head, 0);
}

/* Bytes that are sent leave the front before they are most of the buffer. */
static void compact(struct rota_http2_call *call)
{
    if (call->out_at < ROTA_HTTP2_CALL_KEPT_MAX || call->out_at < call->out.size / 2)
        return;
    call->out.size -= call->out_at;
    memmove(call->out.data, call->out.data + call->out_at, call->out.size);
    call->out_at = 0;
}

enum rota_code rota_http2_send(struct rota_http2_call *call, struct rota_str message)
{
    struct rota_http2 *session = call->session;
    if (!session || !session->h2 || call->is_finished)
        return ROTA_ERR_UNAVAILABLE;
    size_t waiting = call->out.size - call->out_at, before = call->out.size;
    if (session->out_size + message.size > ROTA_HTTP2_OUT_MAX ||
        (waiting > 0 && waiting + message.size > ROTA_HTTP2_STREAM_OUT_MAX)) {
        if (!call->wants_room) {
            call->wants_room = true;
            call->next_with_room = session->with_room;
            session->with_room = call;
        }
        return ROTA_ERR_LIMIT;
    }
    if (!rota_http2_frame_out(call, message)) {
        call->out.size = before;
        call->out.failed = false;
        return ROTA_ERR_NO_MEMORY;
    }
    session->out_size += call->out.size - before;
    rota_http2_count_out(session, 1, call->out.size - before);
    compact(call);
    if (!call->is_replying) {
        nghttp2_data_provider provider = {.source.ptr = call, .read_callback = read_out};
        struct nvs nvs;
        begin_reply(&nvs, call);
        call->is_replying = true;
        nghttp2_submit_response(session->h2, call->stream, nvs.items, nvs.n, &provider);
    } else if (call->is_deferred) {
        call->is_deferred = false;
        nghttp2_session_resume_data(session->h2, call->stream);
    }
    return ROTA_OK;
}

void rota_http2_finish(struct rota_http2_call *call, enum rota_status status, struct rota_str text,
                       const struct rota_metadata *metadata, size_t n_metadata)
{
    struct rota_http2 *session = call->session;
    if (!session || !session->h2 || call->is_finished)
        return;
    call->is_finished = call->is_ended = true;
    call->status = status;
    rota_http2_count_out(session, 1, 0);
    if (text.size > 0) {
        struct rota_buffer escaped = {0};
        rota_grpc_percent_encode(&escaped, text);
        rota_grpc_fields_add(&call->sent, rota_str("grpc-message"), rota_buffer_str(&escaped));
        rota_buffer_deinit(&escaped);
    }
    if (n_metadata > 0)
        rota_grpc_fields_add_metadata(&call->sent, metadata, n_metadata, NULL);
    rota_http2_shrink(
        &call->decoder.message); /* a slow client holds its reply, not its request too */
    rota_http2_account_in(call);
    if (call->is_replying) {
        if (call->is_deferred) {
            call->is_deferred = false;
            nghttp2_session_resume_data(session->h2, call->stream);
        }
        return;
    }
    struct nvs nvs;
    begin_reply(&nvs, call);
    nv_status(&nvs, call);
    call->is_replying = true;
    nghttp2_submit_response(session->h2, call->stream, nvs.items, nvs.n, NULL);
}

void rota_http2_answer_http(struct rota_http2_call *call)
{
    struct nvs nvs;
    nvs.n = 0;
    NV_CONST(&nvs, ":status", "415");
    NV_CONST(&nvs, "content-length", "0");
    call->is_finished = call->is_ended = true;
    nghttp2_submit_response(call->session->h2, call->stream, nvs.items, nvs.n, NULL);
    rota_http2_count_out(call->session, 1, 0);
}
