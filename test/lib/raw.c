#include "raw.h"

#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

static void on_raw_closed(uv_handle_t *handle)
{
    ((struct raw *)handle->data)->is_closed = true;
}

static void raw_close(struct raw *raw)
{
    if (!uv_is_closing((uv_handle_t *)&raw->tcp))
        uv_close((uv_handle_t *)&raw->tcp, on_raw_closed);
}

static void raw_hear_field(struct raw *raw, const nghttp2_nv *nv)
{
    struct rota_str name = rota_str_of(nv->name, nv->namelen);
    char text[16];
    snprintf(text, sizeof text, "%.*s", (int)nv->valuelen, (const char *)nv->value);
    if (rota_str_is_equal(name, rota_str(":status")))
        raw->http_status = atoi(text);
    if (rota_str_is_equal(name, rota_str("grpc-status")))
        raw->grpc_status = atoi(text);
    if (rota_str_is_equal(name, rota_str("grpc-accept-encoding")))
        snprintf(raw->accepts, sizeof raw->accepts, "%.*s", (int)nv->valuelen,
                 (const char *)nv->value);
    if (rota_str_is_equal(name, rota_str("grpc-encoding")))
        snprintf(raw->encoding, sizeof raw->encoding, "%s", text);
}

static void raw_hear(struct raw *raw, uint8_t type, const uint8_t *payload, size_t size)
{
    raw->n_frames[type & 15]++;
    if (type == RAW_DATA)
        raw->n_data += size;
    if (type == RAW_GOAWAY && size >= 8)
        raw->goaway_code = (uint32_t)payload[4] << 24 | (uint32_t)payload[5] << 16 |
                           (uint32_t)payload[6] << 8 | payload[7];
    while (type == RAW_HEADERS) {
        nghttp2_nv nv;
        int flags = 0;
        ssize_t n = nghttp2_hd_inflate_hd2(raw->inflater, &nv, &flags, payload, size, 1);
        assert_true(n >= 0);
        payload += n;
        size -= (size_t)n;
        if (flags & NGHTTP2_HD_INFLATE_EMIT)
            raw_hear_field(raw, &nv);
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
        raw_hear(raw, p[3], p + 9, size);
        at += 9 + size;
    }
    if (at > 0)
        memmove(raw->in.data, raw->in.data + at, raw->in.size - at);
    raw->in.size -= at;
}

static void on_raw_alloc(uv_handle_t *handle, size_t size, uv_buf_t *buffer)
{
    (void)handle;
    *buffer = uv_buf_init(malloc(size), (unsigned)size);
}

static void on_raw_connected(uv_connect_t *request, int status)
{
    struct raw *raw = request->data;
    assert_int_equal(status, 0);
    raw->is_connected = true;
    uv_read_start((uv_stream_t *)&raw->tcp, on_raw_alloc, on_raw_read);
}

void raw_open(struct raw *raw, const char *address)
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

void raw_deinit(struct raw *raw)
{
    raw_close(raw);
    RUN_UNTIL(raw->is_closed && raw->n_writing == 0);
    nghttp2_hd_inflate_del(raw->inflater);
    rota_buffer_deinit(&raw->in);
    rota_buffer_deinit(&raw->out);
}

struct raw_write {
    uv_write_t request;
    struct raw *raw;
    char *data;
};

static void on_raw_written(uv_write_t *request, int status)
{
    struct raw_write *write = (struct raw_write *)request;
    (void)status;
    write->raw->n_writing--;
    free(write->data);
    free(write);
}

void raw_flush(struct raw *raw)
{
    struct raw_write *write = malloc(sizeof *write);
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
    uv_write(&write->request, (uv_stream_t *)&raw->tcp, &buffer, 1, on_raw_written);
    RUN_UNTIL(raw->n_writing == 0);
}

void raw_frame_head(struct raw *raw, size_t size, int type, int flags, uint32_t stream)
{
    const uint8_t head[9] = {
        (uint8_t)(size >> 16),   (uint8_t)(size >> 8),   (uint8_t)size,
        (uint8_t)type,           (uint8_t)flags,         (uint8_t)(stream >> 24),
        (uint8_t)(stream >> 16), (uint8_t)(stream >> 8), (uint8_t)stream};
    rota_buffer_append(&raw->out, head, sizeof head);
}

void raw_frame(struct raw *raw, int type, int flags, uint32_t stream, struct rota_str payload)
{
    raw_frame_head(raw, payload.size, type, flags, stream);
    rota_buffer_append_str(&raw->out, payload);
}

void raw_preface(struct raw *raw, struct rota_str settings)
{
    rota_buffer_append_text(&raw->out, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    raw_frame(raw, RAW_SETTINGS, 0, 0, settings);
}

void raw_field(struct rota_buffer *block, const char *name, struct rota_str value)
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

struct rota_buffer raw_head_block(const char *path, const char *content_type)
{
    struct rota_buffer block = {0};
    raw_field(&block, ":method", rota_str("POST"));
    raw_field(&block, ":scheme", rota_str("http"));
    raw_field(&block, ":path", rota_str(path));
    raw_field(&block, ":authority", rota_str("x"));
    raw_field(&block, "te", rota_str("trailers"));
    raw_field(&block, "content-type", rota_str(content_type));
    return block;
}

void raw_request(struct raw *raw, uint32_t stream, const char *path, const char *content_type,
                 int flags)
{
    struct rota_buffer block = raw_head_block(path, content_type);
    raw_frame(raw, RAW_HEADERS, RAW_END_HEADERS | flags, stream, rota_buffer_str(&block));
    rota_buffer_deinit(&block);
}

/* --- a server of bytes --- */

int raw_listen(char address[64])
{
    struct sockaddr_in place = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof place;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&place, sizeof place), 0);
    assert_int_equal(listen(fd, 8), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&place, &size), 0);
    snprintf(address, 64, "127.0.0.1:%u", ntohs(place.sin_port));
    return fd;
}

int raw_greet(int listening, struct rota_str bytes)
{
    int fd;
    while ((fd = accept(listening, NULL, NULL)) < 0)
        uv_run(&loop, UV_RUN_NOWAIT);
    assert_int_equal(write(fd, bytes.data, bytes.size), (ssize_t)bytes.size);
    return fd;
}
