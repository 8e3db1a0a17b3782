/* Peers that mean no good: each meets a bound, and others are served meanwhile. */
#include "base/buffer.h"
#include "base/metrics.h"
#include "echo.h"
#include "io/http2.h"
#include "loop.h"

#include <nghttp2/nghttp2.h>

/* --- a client of hand-made frames --- */

enum { HEADERS = 1, RST_STREAM = 3, SETTINGS = 4, PING = 6, GOAWAY = 7, CONTINUATION = 9 };
enum { END_STREAM = 1, END_HEADERS = 4 };
enum { DATA = 0 };

struct raw {
    uv_tcp_t tcp;
    uv_connect_t connect;
    struct rota_buffer out, in;
    nghttp2_hd_inflater *inflater;
    bool is_connected, is_closed;
    size_t n_writing, n_headers, n_frames[16];
    uint32_t goaway_code;
    int http_status, grpc_status; /* the last ones heard */
};

struct fixture {
    struct echo echo;
    struct rota_metrics *metrics;
    struct rota_channel *good; /* a client like any other */
    struct raw raw;
};

static void on_raw_closed(uv_handle_t *handle)
{
    ((struct raw *)handle->data)->is_closed = true;
}

static void raw_close(struct raw *raw)
{
    if (!uv_is_closing((uv_handle_t *)&raw->tcp))
        uv_close((uv_handle_t *)&raw->tcp, on_raw_closed);
}

static void raw_header(struct raw *raw, const nghttp2_nv *nv)
{
    struct rota_str name = rota_str_of(nv->name, nv->namelen);
    char text[16];
    snprintf(text, sizeof text, "%.*s", (int)nv->valuelen, (const char *)nv->value);
    if (rota_str_is_equal(name, rota_str(":status")))
        raw->http_status = atoi(text);
    if (rota_str_is_equal(name, rota_str("grpc-status")))
        raw->grpc_status = atoi(text);
}

static void raw_frame(struct raw *raw, uint8_t type, const uint8_t *payload, size_t size)
{
    raw->n_frames[type & 15]++;
    if (type == GOAWAY && size >= 8)
        raw->goaway_code = (uint32_t)payload[4] << 24 | (uint32_t)payload[5] << 16 |
                           (uint32_t)payload[6] << 8 | payload[7];
    while (type == HEADERS) {
        nghttp2_nv nv;
        int flags = 0;
        ssize_t n = nghttp2_hd_inflate_hd2(raw->inflater, &nv, &flags, payload, size, 1);
        assert_true(n >= 0);
        payload += n;
        size -= (size_t)n;
        if (flags & NGHTTP2_HD_INFLATE_EMIT)
            raw_header(raw, &nv);
        if (flags & NGHTTP2_HD_INFLATE_FINAL) {
            nghttp2_hd_inflate_end_headers(raw->inflater);
            break;
        }
    }
}

static void on_raw_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buffer)
{
    struct raw *raw = stream->data;
    if (n < 0)
        raw_close(raw);
    if (n > 0)
        rota_buffer_append(&raw->in, buffer->base, (size_t)n);
    free(buffer->base);
    size_t at = 0;
    while (raw->in.size - at >= 9) {
        const uint8_t *p = (const uint8_t *)raw->in.data + at;
        size_t size = (size_t)p[0] << 16 | (size_t)p[1] << 8 | p[2];
        if (raw->in.size - at < 9 + size)
            break;
        raw_frame(raw, p[3], p + 9, size);
        at += 9 + size;
    }
    memmove(raw->in.data, raw->in.data + at, raw->in.size - at);
    raw->in.size -= at;
}

static void on_alloc(uv_handle_t *handle, size_t size, uv_buf_t *buffer)
{
    (void)handle;
    *buffer = uv_buf_init(malloc(size), (unsigned)size);
}

static void on_raw_connected(uv_connect_t *request, int status)
{
    struct raw *raw = request->data;
    assert_int_equal(status, 0);
    raw->is_connected = true;
    uv_read_start((uv_stream_t *)&raw->tcp, on_alloc, on_raw_read);
}

static void raw_open(struct raw *raw, const char *address)
{
    struct sockaddr_in in;
    memset(raw, 0, sizeof *raw);
    raw->grpc_status = -1;
    assert_int_equal(nghttp2_hd_inflate_new(&raw->inflater), 0);
    assert_int_equal(uv_ip4_addr("127.0.0.1", atoi(strchr(address, ':') + 1), &in), 0);
    uv_tcp_init(&loop, &raw->tcp);
    raw->tcp.data = raw->connect.data = raw;
    uv_tcp_connect(&raw->connect, &raw->tcp, (struct sockaddr *)&in, on_raw_connected);
    RUN_UNTIL(raw->is_connected);
}

static void raw_deinit(struct raw *raw)
{
    raw_close(raw);
    RUN_UNTIL(raw->is_closed && raw->n_writing == 0);
    nghttp2_hd_inflate_del(raw->inflater);
    rota_buffer_deinit(&raw->in);
    rota_buffer_deinit(&raw->out);
}

struct write {
    uv_write_t request;
    struct raw *raw;
    char *data;
};

static void on_written(uv_write_t *request, int status)
{
    struct write *write = (struct write *)request;
    (void)status;
    write->raw->n_writing--;
    free(write->data);
    free(write);
}

/* Send what is gathered, and wait until the kernel has it. */
static void raw_flush(struct raw *raw)
{
    struct write *write = malloc(sizeof *write);
    assert_non_null(write);
    write->raw = raw;
    write->data = raw->out.data;
    uv_buf_t buffer = uv_buf_init(raw->out.data, (unsigned)raw->out.size);
    raw->out = (struct rota_buffer){0};
    if (uv_is_closing((uv_handle_t *)&raw->tcp)) {
        free(write->data);
        free(write);
        return;
    }
    raw->n_writing++;
    uv_write(&write->request, (uv_stream_t *)&raw->tcp, &buffer, 1, on_written);
    RUN_UNTIL(raw->n_writing == 0);
}

static void frame_head(struct raw *raw, size_t size, int type, int flags, uint32_t stream)
{
    const uint8_t head[9] = {
        (uint8_t)(size >> 16),   (uint8_t)(size >> 8),   (uint8_t)size,
        (uint8_t)type,           (uint8_t)flags,         (uint8_t)(stream >> 24),
        (uint8_t)(stream >> 16), (uint8_t)(stream >> 8), (uint8_t)stream};
    rota_buffer_append(&raw->out, head, sizeof head);
}

static void frame(struct raw *raw, int type, int flags, uint32_t stream, struct rota_str payload)
{
    frame_head(raw, payload.size, type, flags, stream);
    rota_buffer_append_str(&raw->out, payload);
}

static void preface(struct raw *raw, struct rota_str settings)
{
    rota_buffer_append_text(&raw->out, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    frame(raw, SETTINGS, 0, 0, settings);
}

/* A header field as HPACK's simplest form. */
static void field(struct rota_buffer *block, const char *name, struct rota_str value)
{
    assert_true(strlen(name) < 127);
    rota_buffer_append_char(block, 0);
    rota_buffer_append_char(block, (char)strlen(name));
    rota_buffer_append_text(block, name);
    if (value.size < 127) {
        rota_buffer_append_char(block, (char)value.size);
    } else {
        size_t left = value.size - 127;
        rota_buffer_append_char(block, 127);
        for (; left >= 128; left >>= 7)
            rota_buffer_append_char(block, (char)(left | 128));
        rota_buffer_append_char(block, (char)left);
    }
    rota_buffer_append_str(block, value);
}

static struct rota_buffer head_block(const char *path, const char *content_type)
{
    struct rota_buffer block = {0};
    field(&block, ":method", rota_str("POST"));
    field(&block, ":scheme", rota_str("http"));
    field(&block, ":path", rota_str(path));
    field(&block, ":authority", rota_str("x"));
    field(&block, "te", rota_str("trailers"));
    field(&block, "content-type", rota_str(content_type));
    return block;
}

static void request(struct raw *raw, uint32_t stream, const char *path, const char *content_type,
                    int flags)
{
    struct rota_buffer block = head_block(path, content_type);
    frame(raw, HEADERS, END_HEADERS | flags, stream, rota_buffer_str(&block));
    rota_buffer_deinit(&block);
}

/* --- around each test --- */

static void open_all(struct fixture *f, struct rota_server_options options)
{
    f->metrics = rota_metrics_new(1);
    assert_non_null(f->metrics);
    options.metrics = f->metrics;
    echo_open(&f->echo, &loop, "127.0.0.1:0", &options);
    const char *address = rota_server_address(f->echo.server, 0);
    assert_int_equal(rota_channel_open(&loop, address, NULL, &f->good, NULL), ROTA_OK);
    raw_open(&f->raw, address);
}

static void check_good(struct fixture *f)
{
    struct rota_reply reply;
    struct rota_call_options options = {.method = rota_str(METHOD_ECHO),
                                        .request = rota_str("I am fine")};
    assert_int_equal(rota_channel_wait(f->good, &options, &reply, NULL), ROTA_OK);
    assert_int_equal(reply.status, ROTA_STATUS_OK);
    assert_string_equal(reply.message, "I am fine");
    rota_reply_deinit(&reply);
}

static uint64_t faults(struct fixture *f, enum rota_http2_fault fault)
{
    struct rota_label label = {"fault", rota_str(rota_http2_fault_name(fault))};
    return rota_counter_get(
        rota_metrics_counter(f->metrics, "rota_server_faults_total", "", &label, 1));
}

static void close_all(struct fixture *f)
{
    raw_deinit(&f->raw);
    rota_channel_close(f->good);
    rota_server_close(f->echo.server);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(
        rota_gauge_get(rota_metrics_gauge(f->metrics, "rota_server_calls", "", NULL, 0)), 0);
    assert_int_equal(
        rota_gauge_get(rota_metrics_gauge(f->metrics, "rota_server_connections", "", NULL, 0)), 0);
    rota_metrics_free(f->metrics);
}

/* --- no HTTP/2 at all --- */

static void check_not_http2(struct rota_str bytes)
{
    struct fixture f;
    open_all(&f, (struct rota_server_options){0});
    rota_buffer_append_str(&f.raw.out, bytes);
    raw_flush(&f.raw);
    RUN_UNTIL(f.raw.is_closed);
    assert_int_equal(faults(&f, ROTA_HTTP2_FAULT_NOT_HTTP2), 1);
    check_good(&f);
    close_all(&f);
}

static void http1_is_shown_the_door(void **state)
{
    (void)state;
    check_not_http2(rota_str("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"));
}

static void garbage_is_shown_the_door(void **state)
{
    char bytes[300];
    (void)state;
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (char)(i * 131 + 7);
    check_not_http2(rota_str_of(bytes, sizeof bytes));
}

static void frames_without_sense_end_the_connection(void **state)
{
    struct fixture f;
    (void)state;
    open_all(&f, (struct rota_server_options){0});
    preface(&f.raw, rota_str(""));
    frame(&f.raw, DATA, 0, 1, rota_str("data for a call that never began"));
    raw_flush(&f.raw);
    RUN_UNTIL(f.raw.is_closed);
    assert_int_equal(f.raw.goaway_code, NGHTTP2_PROTOCOL_ERROR);
    assert_int_equal(faults(&f, ROTA_HTTP2_FAULT_PROTOCOL), 1);
    check_good(&f);
    close_all(&f);
}

/* --- requests that are not gRPC --- */

static void another_content_type_gets_415(void **state)
{
    struct fixture f;
    (void)state;
    open_all(&f, (struct rota_server_options){0});
    preface(&f.raw, rota_str(""));
    request(&f.raw, 1, METHOD_ECHO, "text/html", END_STREAM);
    raw_flush(&f.raw);
    RUN_UNTIL(f.raw.http_status);
    assert_int_equal(f.raw.http_status, 415);
    assert_false(f.raw.is_closed);
    close_all(&f);
}

static void check_refused(int type, int flags, struct rota_str payload, int status)
{
    struct fixture f;
    open_all(&f, (struct rota_server_options){0});
    preface(&f.raw, rota_str(""));
    request(&f.raw, 1, METHOD_ECHO, "application/grpc+proto", 0);
    frame(&f.raw, type, flags, 1, payload);
    raw_flush(&f.raw);
    RUN_UNTIL(f.raw.grpc_status >= 0);
    assert_int_equal(f.raw.http_status, 200);
    assert_int_equal(f.raw.grpc_status, status);
    if (!(flags & END_STREAM)) /* it need not send the rest */
        RUN_UNTIL(f.raw.n_frames[RST_STREAM]);
    assert_false(f.raw.is_closed);
    assert_int_equal(f.echo.n_calls, 0);
    close_all(&f);
}

static void a_request_without_a_whole_message_is_refused(void **state)
{
    (void)state;
    check_refused(DATA, END_STREAM, rota_str(""), ROTA_STATUS_INTERNAL);
    check_refused(DATA, END_STREAM, rota_str_of("\0\0\0\0\5abc", 8), ROTA_STATUS_INTERNAL);
    check_refused(DATA, END_STREAM, rota_str_of("\0\0\0\0\0\0\0\0\0\0", 10), ROTA_STATUS_INTERNAL);
}

static void a_compressed_or_huge_message_is_refused_before_it_comes(void **state)
{
    (void)state;
    check_refused(DATA, 0, rota_str_of("\1\0\0\0\1x", 6), ROTA_STATUS_INTERNAL);
    check_refused(DATA, 0, rota_str_of("\7\0\0\0\1x", 6), ROTA_STATUS_INTERNAL);
    check_refused(DATA, 0, rota_str_of("\0\377\377\377\377", 5), ROTA_STATUS_RESOURCE_EXHAUSTED);
}

/* The client never drops the call: that it ends is the server's doing. */
static void a_server_keeps_the_deadline_by_itself(void **state)
{
    struct fixture f;
    (void)state;
    open_all(&f, (struct rota_server_options){0});
    preface(&f.raw, rota_str(""));
    struct rota_buffer block = head_block(METHOD_KEEP, "application/grpc");
    field(&block, "grpc-timeout", rota_str("20m"));
    frame(&f.raw, HEADERS, END_HEADERS, 1, rota_buffer_str(&block));
    frame(&f.raw, DATA, END_STREAM, 1, rota_str_of("\0\0\0\0\0", 5));
    raw_flush(&f.raw);
    RUN_UNTIL(f.raw.grpc_status >= 0);
    assert_int_equal(f.raw.grpc_status, ROTA_STATUS_DEADLINE_EXCEEDED);
    assert_int_equal(f.echo.n_cancelled, 1);
    assert_int_equal(rota_server_counts(f.echo.server).calls, 0);
    rota_buffer_deinit(&block);
    close_all(&f);
}

/* --- floods --- */

/* Calls are opened and dropped at once; never more than one is open, so the
 * limit on those tells nothing. */
static void calls_dropped_as_fast_as_they_begin_end_the_connection(void **state)
{
    struct fixture f;
    uint32_t stream = 1;
    (void)state;
    open_all(&f, (struct rota_server_options){0});
    preface(&f.raw, rota_str(""));
    while (!f.raw.is_closed && stream < 400000) {
        for (int i = 0; i < 250; i++, stream += 2) {
            request(&f.raw, stream, METHOD_KEEP, "application/grpc", 0);
            frame(&f.raw, RST_STREAM, 0, stream, rota_str_of("\0\0\0\10", 4));
        }
        raw_flush(&f.raw);
        if (stream % 5000 == 1)
            check_good(&f);
    }
    assert_true(f.raw.is_closed);
    assert_int_equal(faults(&f, ROTA_HTTP2_FAULT_RESETS), 1);
    assert_true(stream / 2 >= ROTA_HTTP2_RESETS_BURST);
    assert_int_equal(rota_server_counts(f.echo.server).calls, 0);
    check_good(&f);
    close_all(&f);
}

/* The same the other way round: each call breaks a rule, so that we drop it. */
static void calls_made_to_be_dropped_by_us_end_the_connection(void **state)
{
    struct fixture f;
    uint32_t stream = 1;
    (void)state;
    open_all(&f, (struct rota_server_options){0});
    preface(&f.raw, rota_str(""));
    while (!f.raw.is_closed && stream < 400000) {
        for (int i = 0; i < 250; i++, stream += 2) {
            request(&f.raw, stream, METHOD_KEEP, "application/grpc", 0);
            frame(&f.raw, 8, 0, stream, rota_str_of("\0\0\0\0", 4)); /* a window grown by 0 */
        }
        raw_flush(&f.raw);
    }
    assert_true(f.raw.is_closed);
    check_good(&f);
    close_all(&f);
}

static void a_header_without_end_ends_the_connection(void **state)
{
    struct fixture f;
    struct rota_buffer block = head_block(METHOD_ECHO, "application/grpc");
    int n = 0;
    (void)state;
    open_all(&f, (struct rota_server_options){0});
    preface(&f.raw, rota_str(""));
    frame(&f.raw, HEADERS, 0, 1, rota_buffer_str(&block));
    while (!f.raw.is_closed && n < 10000) {
        rota_buffer_clear(&block);
        field(&block, "x-more", rota_str("and more"));
        frame(&f.raw, CONTINUATION, 0, 1, rota_buffer_str(&block));
        raw_flush(&f.raw);
        n++;
    }
    assert_true(f.raw.is_closed);
    check_good(&f);
    rota_buffer_deinit(&block);
    close_all(&f);
}

static void too_many_header_fields_refuse_the_call_only(void **state)
{
    struct fixture f;
    (void)state;
    open_all(&f, (struct rota_server_options){0});
    preface(&f.raw, rota_str(""));
    struct rota_buffer block = head_block(METHOD_ECHO, "application/grpc");
    for (int i = 0; i < 200; i++)
        field(&block, "x", rota_str("y"));
    frame(&f.raw, HEADERS, END_HEADERS, 1, rota_buffer_str(&block));
    raw_flush(&f.raw);
    RUN_UNTIL(f.raw.grpc_status >= 0);
    assert_int_equal(f.raw.grpc_status, ROTA_STATUS_RESOURCE_EXHAUSTED);

    f.raw.grpc_status = -1;
    rota_buffer_deinit(&block);
    block = head_block(METHOD_ECHO, "application/grpc");
    static char large[ROTA_GRPC_HEAD_SIZE_MAX - 400];
    memset(large, 'a', sizeof large);
    field(&block, "x-large", rota_str_of(large, sizeof large));
    frame(&f.raw, HEADERS, 0, 3, rota_buffer_str(&block));
    rota_buffer_clear(&block);
    field(&block, "x-larger", rota_str_of(large, 1000));
    frame(&f.raw, CONTINUATION, END_HEADERS, 3, rota_buffer_str(&block));
    raw_flush(&f.raw);
    RUN_UNTIL(f.raw.grpc_status >= 0);
    assert_int_equal(f.raw.grpc_status, ROTA_STATUS_RESOURCE_EXHAUSTED);
    assert_false(f.raw.is_closed);
    rota_buffer_deinit(&block);
    close_all(&f);
}

static void a_frame_beyond_the_limit_ends_the_connection(void **state)
{
    struct fixture f;
    (void)state;
    open_all(&f, (struct rota_server_options){0});
    preface(&f.raw, rota_str(""));
    request(&f.raw, 1, METHOD_ECHO, "application/grpc", 0);
    frame_head(&f.raw, 16385, DATA, 0, 1);
    raw_flush(&f.raw);
    RUN_UNTIL(f.raw.is_closed);
    assert_int_equal(f.raw.goaway_code, NGHTTP2_FRAME_SIZE_ERROR);
    check_good(&f);
    close_all(&f);
}

static void pings_for_pinging_end_the_connection(void **state)
{
    struct fixture f;
    int n = 0;
    (void)state;
    open_all(&f, (struct rota_server_options){0});
    preface(&f.raw, rota_str(""));
    for (; !f.raw.is_closed && n < 10000; n++) {
        frame(&f.raw, PING, 0, 0, rota_str("12345678"));
        raw_flush(&f.raw);
    }
    assert_true(f.raw.is_closed);
    assert_int_equal(f.raw.goaway_code, NGHTTP2_ENHANCE_YOUR_CALM);
    assert_int_equal(faults(&f, ROTA_HTTP2_FAULT_PINGS), 1);
    check_good(&f);
    close_all(&f);
}

static void settings_of_too_many_entries_end_the_connection(void **state)
{
    struct fixture f;
    char entries[6 * 100] = {0};
    (void)state;
    for (int i = 0; i < 100; i++)
        entries[i * 6 + 1] = 0x20;
    open_all(&f, (struct rota_server_options){0});
    preface(&f.raw, rota_str_of(entries, sizeof entries));
    raw_flush(&f.raw);
    RUN_UNTIL(f.raw.is_closed);
    check_good(&f);
    close_all(&f);
}

/* Calls beyond the limit are refused, each with a frame; the client does not
 * read them, and our frames must not pile up without end. */
static void refusals_nobody_reads_end_the_connection(void **state)
{
    struct fixture f;
    uint32_t stream = 1;
    (void)state;
    open_all(&f, (struct rota_server_options){.connection_calls_max = 4});
    preface(&f.raw, rota_str(""));
    uv_read_stop((uv_stream_t *)&f.raw.tcp);
    while (rota_server_counts(f.echo.server).faults_total == 0 && stream < 2000000) {
        for (int i = 0; i < 250; i++, stream += 2)
            request(&f.raw, stream, METHOD_KEEP, "application/grpc", 0);
        raw_flush(&f.raw);
    }
    assert_int_equal(rota_server_counts(f.echo.server).faults_total, 1);
    check_good(&f);
    close_all(&f);
}

/* --- a client that asks and does not take --- */

static void replies_nobody_takes_are_bounded(void **state)
{
    enum { SIZE = 3 << 20, CHUNK = 16384, N = 40 };
    struct fixture f;
    static char chunk[CHUNK];
    (void)state;
    open_all(&f, (struct rota_server_options){0});
    preface(&f.raw, rota_str_of("\0\4\0\0\0\0", 6)); /* a window of nothing */
    for (uint32_t i = 0; i < N; i++) {
        uint8_t prefix[5];
        rota_grpc_prefix_encode(prefix, SIZE);
        request(&f.raw, 2 * i + 1, METHOD_ECHO, "application/grpc", 0);
        frame(&f.raw, DATA, 0, 2 * i + 1, rota_str_of(prefix, 5));
        for (int sent = 0; sent < SIZE; sent += CHUNK)
            frame(&f.raw, DATA, sent + CHUNK == SIZE ? END_STREAM : 0, 2 * i + 1,
                  rota_str_of(chunk, CHUNK));
        raw_flush(&f.raw);
        if (i % 8 == 0)
            check_good(&f);
    }
    /* Those over the bound get a status, which needs no window. */
    RUN_UNTIL(f.raw.grpc_status >= 0);
    assert_int_equal(f.raw.grpc_status, ROTA_STATUS_RESOURCE_EXHAUSTED);
    assert_false(f.raw.is_closed);
    assert_int_equal(f.raw.n_frames[DATA], 0);
    check_good(&f);
    close_all(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(http1_is_shown_the_door),
        TEST(garbage_is_shown_the_door),
        TEST(frames_without_sense_end_the_connection),
        TEST(another_content_type_gets_415),
        TEST(a_request_without_a_whole_message_is_refused),
        TEST(a_compressed_or_huge_message_is_refused_before_it_comes),
        TEST(a_server_keeps_the_deadline_by_itself),
        TEST(calls_dropped_as_fast_as_they_begin_end_the_connection),
        TEST(calls_made_to_be_dropped_by_us_end_the_connection),
        TEST(a_header_without_end_ends_the_connection),
        TEST(too_many_header_fields_refuse_the_call_only),
        TEST(a_frame_beyond_the_limit_ends_the_connection),
        TEST(pings_for_pinging_end_the_connection),
        TEST(settings_of_too_many_entries_end_the_connection),
        TEST(refusals_nobody_reads_end_the_connection),
        TEST(replies_nobody_takes_are_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
