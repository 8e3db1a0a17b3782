#include "streams.h"

#include "io/net/stream_inside.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct streams streams;

char streams_byte(size_t index)
{
    return (char)((index * 2654435761u) >> 13);
}

static void streams_end_at(struct streams_end *end, enum streams_moment moment)
{
    if (end->ends_at != moment || !end->stream)
        return;
    struct rota_stream *stream = end->stream;
    if (moment != STREAMS_ON_CLOSE) {
        end->stream = NULL;
        end->n_ended++;
    }
    if (end->finishes)
        rota_stream_finish(stream);
    else
        rota_stream_close(stream);
}

enum rota_code streams_push(struct rota_stream *stream, struct rota_str bytes)
{
    struct rota_buffer copy = {0};
    rota_buffer_append_str(&copy, bytes);
    enum rota_code code = rota_stream_send_buffer(stream, &copy);
    rota_buffer_deinit(&copy);
    return code;
}

void streams_set_reading(struct streams_end *end, bool reads)
{
    uv_stream_t *tcp = (uv_stream_t *)&end->stream->tcp;
    if (reads && end->on_read) {
        uv_read_start(tcp, end->on_alloc, end->on_read);
        end->on_read = NULL;
    } else if (!reads && !end->on_read) {
        end->on_alloc = tcp->alloc_cb;
        end->on_read = tcp->read_cb;
        uv_read_stop(tcp);
    }
}

static void streams_note_pending(struct streams_end *end)
{
    size_t pending = rota_stream_pending(end->stream);
    if (pending > end->pending_max)
        end->pending_max = pending;
}

static void streams_send(struct streams_end *end)
{
    char piece[10000];
    while (end->habit == STREAMS_SOURCE && end->n_sent < end->to_send &&
           rota_stream_pending(end->stream) < STREAMS_HOLD) {
        size_t size = end->to_send - end->n_sent;
        if (size > sizeof piece)
            size = sizeof piece;
        for (size_t i = 0; i < size; i++)
            piece[i] = streams_byte(end->n_sent + i);
        enum rota_code code = streams_push(end->stream, rota_str_of(piece, size));
        if (code == ROTA_ERR_UNAVAILABLE) /* the peer has closed: on_close follows */
            return;
        assert_int_equal(code, ROTA_OK);
        end->n_sent += size;
        streams_note_pending(end);
    }
}

static void streams_on_open(void *data)
{
    struct streams_end *end = data;
    assert_int_equal(end->n_closed, 0);
    end->n_opened++;
    streams_send(end);
    streams_end_at(end, STREAMS_ON_OPEN);
}

static void streams_on_data(void *data, struct rota_str bytes)
{
    struct streams_end *end = data;
    assert_int_equal(end->n_opened, 1);
    assert_int_equal(end->n_closed, 0);
    assert_in_range(bytes.size, 1, ROTA_STREAM_READ_SIZE);
    for (size_t i = 0; i < bytes.size; i++)
        end->n_wrong += bytes.data[i] != streams_byte(end->n_got + i);
    end->n_got += bytes.size;
    if (end->habit == STREAMS_ECHO) {
        assert_int_equal(streams_push(end->stream, bytes), ROTA_OK);
        streams_note_pending(end);
        if (rota_stream_pending(end->stream) >= STREAMS_HOLD)
            streams_set_reading(end, false);
    }
    streams_end_at(end, STREAMS_ON_DATA);
}

static void streams_on_drained(void *data)
{
    struct streams_end *end = data;
    assert_int_equal(rota_stream_pending(end->stream), 0);
    end->n_drained++;
    if (end->habit == STREAMS_ECHO)
        streams_set_reading(end, true);
    streams_send(end);
    streams_end_at(end, STREAMS_ON_DRAINED);
}

static void streams_on_close(void *data, const struct rota_error *reason)
{
    struct streams_end *end = data;
    assert_int_equal(end->n_ended, 0);
    end->n_closed++;
    end->n_ended++;
    end->reason = *reason;
    assert_true(strlen(rota_stream_peer(end->stream)) > 0);
    streams_end_at(end, STREAMS_ON_CLOSE);
    end->stream = NULL;
}

static struct rota_stream_handler streams_handler(struct streams_end *end)
{
    return (struct rota_stream_handler){
        .on_open = streams_on_open,
        .on_data = streams_on_data,
        .on_drained = streams_on_drained,
        .on_close = streams_on_close,
        .data = end,
    };
}

static void streams_on_accept(void *data, struct rota_stream *stream)
{
    assert_ptr_equal(data, &streams);
    assert_true(streams.n_accepted < STREAMS_MAX);
    struct streams_end *end = &streams.server[streams.n_accepted++];
    *end = streams.model;
    end->stream = stream;
    struct rota_stream_handler handler = streams_handler(end);
    rota_stream_set_handler(stream, &handler);
    if (streams.closes_listener) {
        rota_listener_close(streams.listener);
        streams.listener = NULL;
    }
    streams_on_open(end);
}

static void streams_on_refused(void *data, const char *peer, const struct rota_error *reason)
{
    assert_ptr_equal(data, &streams);
    assert_true(strlen(peer) > 0);
    streams.refusal = *reason;
    streams.n_refused++;
}

void streams_listen(const char *address)
{
    const struct rota_listener_handler handler = {streams_on_accept, streams_on_refused, NULL,
                                                  &streams};
    struct rota_error error;
    if (rota_listener_open(&streams.loop, address, &streams.listen, &handler, &streams.listener,
                           &error))
        fail_msg("%s", error.text);
    snprintf(streams.address, sizeof streams.address, "%s",
             rota_listener_address(streams.listener));
}

const char *streams_port(void)
{
    return strrchr(streams.address, ':') + 1;
}

void streams_dial(struct streams_end *end, const char *address)
{
    struct rota_stream_handler handler = streams_handler(end);
    struct rota_error error;
    if (rota_stream_connect(&streams.loop, address, &streams.connect, &handler, &end->stream,
                            &error))
        fail_msg("%s", error.text);
}

void streams_meet(void)
{
    streams_dial(&streams.client, streams.address);
    await(&streams.loop, &streams.client.n_opened, 1);
    await(&streams.loop, &streams.n_accepted, 1);
}

void streams_write(struct streams_end *end, size_t size)
{
    struct rota_buffer bytes = {0};
    for (size_t i = 0; i < size; i++)
        rota_buffer_append_char(&bytes, streams_byte(end->n_sent++));
    assert_int_equal(rota_stream_send_buffer(end->stream, &bytes), ROTA_OK);
    rota_buffer_deinit(&bytes);
}

void streams_assert_reason(const struct rota_error *reason, enum rota_code code, const char *phrase)
{
    if (reason->code != code || !strstr(reason->text, phrase))
        fail_msg("\"%s\" with code %s, and not %s with \"%s\"", reason->text,
                 rota_code_name(reason->code), rota_code_name(code), phrase);
}

int streams_socket(const char *address, bool listens)
{
    struct sockaddr_in place = {.sin_family = AF_INET};
    place.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    place.sin_port = htons((uint16_t)atoi(strrchr(address, ':') + 1));
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    assert_true(fd >= 0);
    if (listens) {
        assert_int_equal(bind(fd, (struct sockaddr *)&place, sizeof place), 0);
        assert_int_equal(listen(fd, 0), 0);
    } else {
        assert_true(connect(fd, (struct sockaddr *)&place, sizeof place) == 0 ||
                    errno == EINPROGRESS);
    }
    return fd;
}

void streams_name_socket(int fd, char address[64])
{
    struct sockaddr_in place;
    socklen_t size = sizeof place;
    assert_int_equal(getsockname(fd, (struct sockaddr *)&place, &size), 0);
    snprintf(address, 64, "127.0.0.1:%u", ntohs(place.sin_port));
}

/* --- certificates --- */

const char *streams_path(const char *name, char path[128])
{
    snprintf(path, 128, "%s/%s", streams.directory, name);
    return path;
}

struct rota_tls *streams_tls(bool is_server, const char *certificate, const char *key,
                             const char *ca)
{
    const struct rota_tls_options options = {
        .certificate_file = certificate, .key_file = key, .ca_file = ca};
    struct rota_tls *tls;
    struct rota_error error;
    if (is_server ? rota_tls_server_new(&options, &tls, &error)
                  : rota_tls_client_new(&options, &tls, &error))
        fail_msg("%s", error.text);
    return tls;
}

static void streams_prepare_tls(void)
{
    strcpy(streams.directory, "/tmp/rota-stream-XXXXXX");
    assert_non_null(mkdtemp(streams.directory));
    streams_path("ca", streams.ca_path);
    streams_path("certificate", streams.certificate_path);
    streams_path("key", streams.key_path);
    streams.ca = certificate_make(&(struct certificate_wish){.name = "test authority"});
    streams.own = certificate_make(&(struct certificate_wish){
        .name = "server-1",
        .names = "DNS:localhost,IP:127.0.0.1",
        .issuer = &streams.ca,
    });
    certificate_write(&streams.ca, streams.ca_path, NULL);
    certificate_write(&streams.own, streams.certificate_path, streams.key_path);
    streams.listen.tls = streams_tls(true, streams.certificate_path, streams.key_path, NULL);
    streams.connect.tls = streams_tls(false, NULL, NULL, streams.ca_path);
}

int streams_setup(void **state)
{
    (void)state;
    memset(&streams, 0, sizeof streams);
    return uv_loop_init(&streams.loop);
}

int streams_setup_tls(void **state)
{
    streams_setup(state);
    streams_prepare_tls();
    return 0;
}

void streams_drop(struct streams_end *end)
{
    if (end->stream)
        rota_stream_close(end->stream);
    end->stream = NULL;
}

int streams_teardown(void **state)
{
    char path[128];
    (void)state;
    streams_drop(&streams.client);
    for (size_t i = 0; i < streams.n_accepted; i++)
        streams_drop(&streams.server[i]);
    rota_listener_close(streams.listener);
    uv_run(&streams.loop, UV_RUN_DEFAULT);
    await_end(&streams.loop);
    rota_tls_free(streams.listen.tls);
    rota_tls_free((struct rota_tls *)streams.connect.tls);
    if (streams.directory[0]) {
        static const char *const names[] = {"ca",  "certificate",  "key",
                                            "ca2", "certificate2", "key2"};
        for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
            unlink(streams_path(names[i], path));
        rmdir(streams.directory);
        certificate_deinit(&streams.ca);
        certificate_deinit(&streams.own);
    }
    return 0;
}
