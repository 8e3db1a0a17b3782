/* The rules of HTTP/2, one session against frames made by hand: a peer that breaks a rule of a
 * call loses the call, and one that breaks a rule of the connection loses the connection. */
#include "wire/http2/http2.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

enum {
    DATA,
    HEADERS,
    PRIORITY,
    RST_STREAM,
    SETTINGS,
    PUSH_PROMISE,
    PING,
    GOAWAY,
    WINDOW_UPDATE,
    CONTINUATION
};
enum { END_STREAM = 1, ACK = 1, END_HEADERS = 4, PADDED = 8, WITH_PRIORITY = 32 };
enum {
    NO_ERROR = 0,
    PROTOCOL_ERROR = 1,
    FLOW_CONTROL_ERROR = 3,
    STREAM_CLOSED = 5,
    FRAME_SIZE_ERROR = 6,
    REFUSED_STREAM = 7,
    COMPRESSION_ERROR = 9,
    ENHANCE_YOUR_CALM = 11
};
enum { CALLS = 8, NONE = -1, HEAD = 9 };

#define MAGIC    "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
#define BYTES(s) rota_str_of(s, sizeof(s) - 1)

/* A request's four pseudo fields, and what makes it gRPC: "POST", "http", "/", "x". */
#define PSEUDO "\x83\x86\x84\x01\x01x"
#define TE     "\x00\x02te\x08trailers"
#define TYPE                                                                                       \
    "\x0f\x10\x10"                                                                                 \
    "application/grpc"
#define REQUEST PSEUDO TE TYPE
#define MESSAGE "\0\0\0\0\2hi"

struct peer {
    struct rota_http2 *session;
    struct rota_http2_call calls[CALLS];
    struct rota_buffer frames, answer; /* for the session, and from it */
    size_t n_accepted, n_asked, n_ended, n_released;
    enum rota_status status;
    bool is_unsent, is_slow;
};

static struct rota_http2_call *on_accept(void *data)
{
    struct peer *peer = data;
    assert_true(peer->n_accepted < CALLS);
    return &peer->calls[peer->n_accepted++];
}

static void on_head(void *data, struct rota_http2_call *call)
{
    (void)data;
    (void)call;
}

static void on_request(void *data, struct rota_http2_call *call)
{
    struct peer *peer = data;
    peer->n_asked++;
    if (peer->is_slow)
        return;
    rota_http2_send(call, rota_buffer_str(&call->decoder.message));
    rota_http2_finish(call, ROTA_STATUS_OK, rota_str(""), NULL, 0);
}

static void on_end(void *data, struct rota_http2_call *call, const struct rota_http2_result *result)
{
    struct peer *peer = data;
    (void)call;
    peer->n_ended++;
    peer->status = result->status;
    peer->is_unsent = result->is_unsent;
}

static void on_release(void *data, struct rota_http2_call *call)
{
    struct peer *peer = data;
    (void)call;
    peer->n_released++;
}

static void frame(struct peer *peer, int type, int flags, uint32_t stream, struct rota_str payload)
{
    const uint8_t head[HEAD] = {(uint8_t)(payload.size >> 16),
                                (uint8_t)(payload.size >> 8),
                                (uint8_t)payload.size,
                                (uint8_t)type,
                                (uint8_t)flags,
                                (uint8_t)(stream >> 24),
                                (uint8_t)(stream >> 16),
                                (uint8_t)(stream >> 8),
                                (uint8_t)stream};
    rota_buffer_append(&peer->frames, head, sizeof head);
    rota_buffer_append_str(&peer->frames, payload);
}

static void open_peer(struct peer *peer, struct rota_http2_options options)
{
    struct rota_http2_handler handler = {.on_accept = on_accept,
                                         .on_head = on_head,
                                         .on_request = on_request,
                                         .on_end = on_end,
                                         .on_release = on_release,
                                         .data = peer};
    memset(peer, 0, sizeof *peer);
    options.authority = "test";
    for (int i = 0; i < CALLS; i++)
        rota_http2_call_init(&peer->calls[i]);
    assert_int_equal(rota_http2_new(&options, &handler, ROTA_SEC, &peer->session, NULL), ROTA_OK);
    if (options.is_server)
        rota_buffer_append_text(&peer->frames, MAGIC);
    frame(peer, SETTINGS, 0, 0, BYTES(""));
}

static void open_server(struct peer *peer)
{
    open_peer(peer, (struct rota_http2_options){.is_server = true});
}

static void close_peer(struct peer *peer)
{
    rota_http2_free(peer->session, rota_str("the end"));
    for (int i = 0; i < CALLS; i++)
        rota_http2_call_deinit(&peer->calls[i]);
    rota_buffer_deinit(&peer->frames);
    rota_buffer_deinit(&peer->answer);
}

/* Feed what was gathered, in pieces of `step` bytes, and take the answer. */
static void give_in_steps(struct peer *peer, size_t step)
{
    struct rota_str left = rota_buffer_str(&peer->frames);
    bool is_alive = true;
    while (left.size > 0 && is_alive) {
        struct rota_str part = {left.data, left.size < step ? left.size : step};
        left.data += part.size;
        left.size -= part.size;
        while (part.size > 0 && is_alive)
            is_alive = rota_http2_feed(peer->session, ROTA_SEC, &part);
    }
    rota_http2_pull(peer->session, &peer->answer, SIZE_MAX);
    rota_buffer_clear(&peer->frames);
}

static void give(struct peer *peer)
{
    give_in_steps(peer, SIZE_MAX);
}

/* The error code of the last such frame in the answer, or NONE. */
static int code_of(const struct peer *peer, int type, uint32_t stream)
{
    const uint8_t *p = (const uint8_t *)peer->answer.data;
    bool has_magic = rota_str_has_prefix(rota_buffer_str(&peer->answer), rota_str(MAGIC));
    int code = NONE;
    for (size_t at = has_magic ? strlen(MAGIC) : 0; at + HEAD <= peer->answer.size;) {
        const uint8_t *f = p + at;
        size_t size = (size_t)f[0] << 16 | (size_t)f[1] << 8 | f[2];
        uint32_t its = (uint32_t)f[5] << 24 | (uint32_t)f[6] << 16 | (uint32_t)f[7] << 8 | f[8];
        if (f[3] == type && its == stream)
            code = f[HEAD + (type == GOAWAY ? 7 : 3)];
        at += HEAD + size;
    }
    return code;
}

static int reset_code(const struct peer *peer, uint32_t stream)
{
    return code_of(peer, RST_STREAM, stream);
}

static int goaway_code(const struct peer *peer)
{
    return code_of(peer, GOAWAY, 0);
}

/* The next call works: nothing is wrong with the connection. */
static void check_alive(struct peer *peer, uint32_t stream)
{
    size_t n_asked = peer->n_asked;
    frame(peer, HEADERS, END_HEADERS, stream, BYTES(REQUEST));
    frame(peer, DATA, END_STREAM, stream, BYTES(MESSAGE));
    give(peer);
    assert_int_equal(peer->n_asked, n_asked + 1);
    assert_int_equal(goaway_code(peer), NONE);
    assert_int_equal(rota_http2_fault(peer->session), ROTA_HTTP2_FAULT_NONE);
}

/* --- calls --- */

static void check_malformed_request(struct rota_str block, int flags)
{
    struct peer peer;
    open_server(&peer);
    frame(&peer, HEADERS, END_HEADERS | flags, 1, block);
    give(&peer);
    assert_int_equal(reset_code(&peer, 1), PROTOCOL_ERROR);
    assert_int_equal(peer.n_asked, 0);
    assert_int_equal(peer.n_released, peer.n_accepted);
    check_alive(&peer, 3);
    close_peer(&peer);
}

static void a_malformed_request_costs_the_call_alone(void **state)
{
    (void)state;
    check_malformed_request(BYTES(""), END_STREAM);
    check_malformed_request(BYTES("\x86\x84\x01\x01x" TE TYPE), 0);          /* no method */
    check_malformed_request(BYTES("\x83\x84\x01\x01x" TE TYPE), 0);          /* no scheme */
    check_malformed_request(BYTES("\x83\x86\x01\x01x" TE TYPE), 0);          /* no path */
    check_malformed_request(BYTES("\x83\x86\x84" TE TYPE), 0);               /* no authority */
    check_malformed_request(BYTES("\x83" REQUEST), 0);                       /* two methods */
    check_malformed_request(BYTES(PSEUDO "\x84" TE TYPE), 0);                /* two paths */
    check_malformed_request(BYTES(PSEUDO "\x88" TE TYPE), 0);                /* a status */
    check_malformed_request(BYTES(PSEUDO TE "\x84"), 0);                     /* a late one */
    check_malformed_request(BYTES(PSEUDO "\x00\x04:new\x01x" TE TYPE), 0);   /* unknown */
    check_malformed_request(BYTES("\x83\x86\x04\x01*\x01\x01x" TE TYPE), 0); /* path "*" */
    check_malformed_request(BYTES(REQUEST "\x00\x01X\x01y"), 0);             /* upper case */
    check_malformed_request(BYTES(REQUEST "\x00\x0a"
                                          "connection\x05"
                                          "close"),
                            0);
    check_malformed_request(BYTES(REQUEST "\x0f\x0d\x01x"), 0); /* content-length: x */
    check_malformed_request(BYTES(REQUEST "\x0f\x0d\x01"
                                          "7\x0f\x0d\x01"
                                          "7"),
                            0); /* two */
}

static void a_body_is_as_long_as_it_says(void **state)
{
    struct peer peer;
    (void)state;
    open_server(&peer);
    frame(&peer, HEADERS, END_HEADERS, 1,
          BYTES(REQUEST "\x0f\x0d\x01"
                        "8"));
    frame(&peer, DATA, END_STREAM, 1, BYTES(MESSAGE));
    frame(&peer, HEADERS, END_HEADERS, 3,
          BYTES(REQUEST "\x0f\x0d\x01"
                        "7"));
    frame(&peer, DATA, END_STREAM | PADDED, 3, BYTES("\3" MESSAGE "pad"));
    give(&peer);
    assert_int_equal(reset_code(&peer, 1), PROTOCOL_ERROR);
    assert_int_equal(reset_code(&peer, 3), NONE);
    assert_int_equal(peer.n_asked, 1);
    close_peer(&peer);
}

static void trailers_end_the_stream_and_have_no_pseudo_fields(void **state)
{
    struct peer peer;
    (void)state;
    open_server(&peer);
    for (uint32_t stream = 1; stream <= 5; stream += 2) {
        frame(&peer, HEADERS, END_HEADERS, stream, BYTES(REQUEST));
        frame(&peer, DATA, 0, stream, BYTES(MESSAGE));
    }
    frame(&peer, HEADERS, END_HEADERS, 1, BYTES("\x00\x01x\x01y"));
    frame(&peer, HEADERS, END_HEADERS | END_STREAM, 3, BYTES("\x84"));
    frame(&peer, HEADERS, END_HEADERS | END_STREAM, 5, BYTES("\x00\x01x\x01y"));
    give(&peer);
    assert_int_equal(reset_code(&peer, 1), PROTOCOL_ERROR);
    assert_int_equal(reset_code(&peer, 3), PROTOCOL_ERROR);
    assert_int_equal(reset_code(&peer, 5), NONE);
    assert_int_equal(peer.n_asked, 1);
    close_peer(&peer);
}

static void padding_priorities_and_frames_of_later_times_are_skipped(void **state)
{
    (void)state;
    for (size_t step = 1; step < 40; step++) {
        struct peer peer;
        open_server(&peer);
        frame(&peer, 0x42, 0xff, 7, BYTES("what may this be?"));
        frame(&peer, PRIORITY, 0, 1, BYTES("\0\0\0\0\20"));
        frame(&peer, HEADERS, PADDED | WITH_PRIORITY, 1, BYTES("\2\0\0\0\0\20" PSEUDO "xx"));
        frame(&peer, CONTINUATION, 0, 1, BYTES(TE));
        frame(&peer, CONTINUATION, END_HEADERS, 1, BYTES(TYPE));
        frame(&peer, DATA, PADDED, 1, BYTES("\4\0\0\0xxxx"));
        frame(&peer, DATA, PADDED, 1, BYTES("\0"));
        frame(&peer, DATA, 0, 1, BYTES(""));
        frame(&peer, DATA, END_STREAM, 1, BYTES("\0\2hi"));
        give_in_steps(&peer, step);
        assert_int_equal(peer.n_asked, 1);
        assert_int_equal(goaway_code(&peer), NONE);
        assert_int_equal(peer.n_released, 1);
        close_peer(&peer);
    }
}

static void calls_above_the_limit_are_refused(void **state)
{
    struct peer peer;
    (void)state;
    open_peer(&peer, (struct rota_http2_options){.is_server = true, .streams_max = 1});
    peer.is_slow = true;
    frame(&peer, HEADERS, END_HEADERS, 1, BYTES(REQUEST));
    frame(&peer, HEADERS, END_HEADERS, 3, BYTES(REQUEST));
    frame(&peer, DATA, END_STREAM, 3, BYTES(MESSAGE)); /* in flight already */
    give(&peer);
    assert_int_equal(reset_code(&peer, 1), NONE);
    assert_int_equal(reset_code(&peer, 3), REFUSED_STREAM);
    assert_int_equal(peer.n_accepted, 1);
    assert_int_equal(goaway_code(&peer), NONE);
    close_peer(&peer);
}

static void frames_for_an_ended_call_are_ignored(void **state)
{
    struct peer peer;
    (void)state;
    open_server(&peer);
    check_alive(&peer, 5);
    frame(&peer, WINDOW_UPDATE, 0, 5, BYTES("\0\0\0\1"));
    frame(&peer, RST_STREAM, 0, 5, BYTES("\0\0\0\10"));
    frame(&peer, DATA, 0, 5, BYTES("late"));
    frame(&peer, DATA, 0, 3, BYTES("for one that was passed over"));
    frame(&peer, HEADERS, END_HEADERS, 3, BYTES("\x40\x01x\x01y"));
    check_alive(&peer, 7);
    close_peer(&peer);
}

/* --- windows --- */

static void a_window_is_respected_and_sending_continues_when_it_grows(void **state)
{
    struct peer peer;
    (void)state;
    open_server(&peer);
    frame(&peer, SETTINGS, 0, 0, BYTES("\0\4\0\0\0\3")); /* 3 bytes for each call */
    frame(&peer, HEADERS, END_HEADERS, 1, BYTES(REQUEST));
    frame(&peer, DATA, END_STREAM, 1, BYTES(MESSAGE));
    give(&peer);
    assert_int_equal(peer.n_asked, 1);
    assert_int_equal(peer.n_released, 0);
    frame(&peer, SETTINGS, 0, 0, BYTES("\0\4\0\0\0\2"));  /* one less than nothing */
    frame(&peer, SETTINGS, 0, 0, BYTES("\0\4\0\0\0\4"));  /* one more, */
    frame(&peer, WINDOW_UPDATE, 0, 1, BYTES("\0\0\0\2")); /* and two: six of seven */
    give(&peer);
    assert_int_equal(peer.n_released, 0);
    frame(&peer, WINDOW_UPDATE, 0, 1, BYTES("\0\0\0\1"));
    give(&peer);
    assert_int_equal(peer.n_released, 1);
    close_peer(&peer);
}

static void the_connections_window_holds_all_calls_back(void **state)
{
    static char large[40000];
    struct peer peer;
    (void)state;
    open_server(&peer);
    peer.is_slow = true;
    for (uint32_t stream = 1; stream <= 5; stream += 2) {
        frame(&peer, HEADERS, END_HEADERS, stream, BYTES(REQUEST));
        frame(&peer, DATA, END_STREAM, stream, BYTES(MESSAGE));
    }
    give(&peer);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(rota_http2_send(&peer.calls[i], rota_str_of(large, sizeof large)),
                         ROTA_OK);
        rota_http2_finish(&peer.calls[i], ROTA_STATUS_OK, rota_str(""), NULL, 0);
    }
    rota_buffer_clear(&peer.answer);
    give(&peer);
    assert_in_range(peer.answer.size, 65535, 65535 + 200);
    assert_int_equal(peer.n_released, 0);
    assert_false(rota_http2_wants_pull(peer.session));
    frame(&peer, RST_STREAM, 0, 3, BYTES("\0\0\0\10")); /* one does not want it any more */
    frame(&peer, WINDOW_UPDATE, 0, 0, BYTES("\0\0\xff\0"));
    give(&peer);
    assert_int_equal(peer.n_released, 3);
    close_peer(&peer);
}

static void check_window_breach(int type, uint32_t stream, struct rota_str payload, int reset,
                                int goaway)
{
    struct peer peer;
    open_server(&peer);
    peer.is_slow = true;
    frame(&peer, HEADERS, END_HEADERS, 1, BYTES(REQUEST));
    frame(&peer, type, 0, stream, payload);
    give(&peer);
    assert_int_equal(reset_code(&peer, 1), reset);
    assert_int_equal(goaway_code(&peer), goaway);
    if (goaway == NONE)
        check_alive(&peer, 3);
    close_peer(&peer);
}

static void a_window_grows_by_more_than_zero_and_up_to_a_limit(void **state)
{
    (void)state;
    check_window_breach(WINDOW_UPDATE, 1, BYTES("\0\0\0\0"), PROTOCOL_ERROR, NONE);
    check_window_breach(WINDOW_UPDATE, 1, BYTES("\x7f\xff\xff\xff"), FLOW_CONTROL_ERROR, NONE);
    check_window_breach(WINDOW_UPDATE, 0, BYTES("\0\0\0\0"), NONE, PROTOCOL_ERROR);
    check_window_breach(WINDOW_UPDATE, 0, BYTES("\x7f\xff\xff\xff"), NONE, FLOW_CONTROL_ERROR);
    check_window_breach(SETTINGS, 0, BYTES("\0\4\x80\0\0\0"), NONE, FLOW_CONTROL_ERROR);
    check_window_breach(WINDOW_UPDATE, 1, BYTES("\0\0\1"), NONE, FRAME_SIZE_ERROR);
}

/* More than a call's window at once: its message was never taken. */
static void exceeding_the_window_ends_the_call(void **state)
{
    static char chunk[16384];
    struct peer peer;
    (void)state;
    open_peer(&peer, (struct rota_http2_options){0});
    struct rota_http2_call *call = on_accept(&peer);
    assert_int_equal(
        rota_http2_call_prepare(call, rota_str("/a/b"), rota_str("hi"), NULL, 0, true, NULL),
        ROTA_OK);
    assert_int_equal(rota_http2_start(peer.session, call, ROTA_SEC), ROTA_OK);
    rota_http2_pause(call);
    give(&peer);
    frame(&peer, HEADERS, END_HEADERS, 1, BYTES("\x88" TYPE));
    for (size_t sent = 0; sent <= ROTA_HTTP2_STREAM_WINDOW; sent += sizeof chunk)
        frame(&peer, DATA, 0, 1, rota_str_of(chunk, sizeof chunk));
    give(&peer);
    assert_int_equal(reset_code(&peer, 1), FLOW_CONTROL_ERROR);
    assert_int_equal(goaway_code(&peer), NONE);
    close_peer(&peer);
}

/* --- the connection --- */

static void check_fatal(int type, int flags, uint32_t stream, struct rota_str payload, int code)
{
    struct peer peer;
    open_server(&peer);
    peer.is_slow = true;
    frame(&peer, HEADERS, END_HEADERS | END_STREAM, 1, BYTES(REQUEST));
    frame(&peer, HEADERS, END_HEADERS, 3, BYTES(REQUEST));
    frame(&peer, DATA, END_STREAM, 3, BYTES(MESSAGE));
    frame(&peer, type, flags, stream, payload);
    give(&peer);
    assert_int_equal(goaway_code(&peer), code);
    assert_int_equal(rota_http2_fault(peer.session), ROTA_HTTP2_FAULT_PROTOCOL);
    assert_true(rota_http2_is_done(peer.session));
    close_peer(&peer);
}

static void malformed_frames_end_the_connection(void **state)
{
    (void)state;
    check_fatal(DATA, 0, 0, BYTES("x"), PROTOCOL_ERROR);
    check_fatal(DATA, 0, 5, BYTES("x"), PROTOCOL_ERROR);       /* never begun */
    check_fatal(DATA, 0, 3, BYTES("x"), STREAM_CLOSED);        /* after its end */
    check_fatal(DATA, PADDED, 3, BYTES("\1"), PROTOCOL_ERROR); /* more padding than frame */
    check_fatal(DATA, PADDED, 3, BYTES(""), PROTOCOL_ERROR);
    check_fatal(HEADERS, END_HEADERS, 0, BYTES(REQUEST), PROTOCOL_ERROR);
    check_fatal(HEADERS, END_HEADERS, 2, BYTES(REQUEST), PROTOCOL_ERROR); /* a server's number */
    check_fatal(HEADERS, END_HEADERS, 3, BYTES(""), STREAM_CLOSED);
    check_fatal(HEADERS, END_HEADERS | PADDED, 5, BYTES("\7" PSEUDO), PROTOCOL_ERROR);
    check_fatal(HEADERS, END_HEADERS | WITH_PRIORITY, 5, BYTES("\0\0"), PROTOCOL_ERROR);
    check_fatal(HEADERS, END_HEADERS, 5, BYTES("\xff"), COMPRESSION_ERROR);
    check_fatal(HEADERS, END_HEADERS, 5, BYTES("\xbe"), COMPRESSION_ERROR);
    check_fatal(CONTINUATION, END_HEADERS, 5, BYTES(REQUEST), PROTOCOL_ERROR);
    check_fatal(PRIORITY, 0, 0, BYTES("\0\0\0\0\0"), PROTOCOL_ERROR);
    check_fatal(PRIORITY, 0, 5, BYTES("\0\0\0\0"), FRAME_SIZE_ERROR);
    check_fatal(RST_STREAM, 0, 0, BYTES("\0\0\0\0"), PROTOCOL_ERROR);
    check_fatal(RST_STREAM, 0, 5, BYTES("\0\0\0\0"), PROTOCOL_ERROR);
    check_fatal(RST_STREAM, 0, 3, BYTES("\0\0\0"), FRAME_SIZE_ERROR);
    check_fatal(WINDOW_UPDATE, 0, 5, BYTES("\0\0\0\1"), PROTOCOL_ERROR);
    check_fatal(SETTINGS, 0, 1, BYTES(""), PROTOCOL_ERROR);
    check_fatal(SETTINGS, 0, 0, BYTES("\0\4\0\0\0"), FRAME_SIZE_ERROR);
    check_fatal(SETTINGS, ACK, 0, BYTES("\0\4\0\0\0\0"), FRAME_SIZE_ERROR);
    check_fatal(SETTINGS, 0, 0, BYTES("\0\2\0\0\0\2"), PROTOCOL_ERROR); /* push: 0 or 1 */
    check_fatal(SETTINGS, 0, 0, BYTES("\0\5\0\0\0\1"), PROTOCOL_ERROR); /* a frame of 1 byte */
    check_fatal(PUSH_PROMISE, END_HEADERS, 3, BYTES("\0\0\0\2"), PROTOCOL_ERROR);
    check_fatal(PING, 0, 1, BYTES("12345678"), PROTOCOL_ERROR);
    check_fatal(PING, 0, 0, BYTES("1234567"), FRAME_SIZE_ERROR);
    check_fatal(GOAWAY, 0, 1, BYTES("\0\0\0\0\0\0\0\0"), PROTOCOL_ERROR);
    check_fatal(GOAWAY, 0, 0, BYTES("\0\0\0\0\0\0\0"), FRAME_SIZE_ERROR);
}

static void a_block_of_fields_is_not_interrupted(void **state)
{
    static const struct {
        int type;
        uint32_t stream;
    } frames[] = {{DATA, 3}, {PING, 0}, {CONTINUATION, 3}, {0x42, 1}, {HEADERS, 1}};
    (void)state;
    for (size_t i = 0; i < sizeof frames / sizeof *frames; i++) {
        struct peer peer;
        open_server(&peer);
        frame(&peer, HEADERS, 0, 1, BYTES(PSEUDO));
        frame(&peer, frames[i].type, 0, frames[i].stream, BYTES("12345678"));
        give(&peer);
        assert_int_equal(goaway_code(&peer), PROTOCOL_ERROR);
        close_peer(&peer);
    }
}

static void settings_come_first_and_are_acknowledged_once(void **state)
{
    struct peer peer;
    (void)state;
    open_server(&peer);
    rota_buffer_clear(&peer.frames);
    rota_buffer_append_text(&peer.frames, MAGIC);
    frame(&peer, PING, 0, 0, BYTES("12345678"));
    give(&peer);
    assert_int_equal(goaway_code(&peer), PROTOCOL_ERROR);
    close_peer(&peer);

    open_server(&peer);
    frame(&peer, SETTINGS, ACK, 0, BYTES(""));
    frame(&peer, SETTINGS, ACK, 0, BYTES(""));
    give(&peer);
    assert_int_equal(goaway_code(&peer), PROTOCOL_ERROR);
    close_peer(&peer);
}

/* Up to the bound nothing of them may stay; beyond it the connection ends. */
static void frames_that_change_nothing_leave_nothing(void **state)
{
    enum { N = ROTA_HTTP2_TRIFLES_MAX / 6, ANSWER_MAX = 256 };
    struct peer peer;
    (void)state;
    open_server(&peer);
    peer.is_slow = true;
    frame(&peer, HEADERS, END_HEADERS, 1, BYTES(REQUEST));
    for (int i = 0; i < N; i++) {
        frame(&peer, PRIORITY, 0, 1, BYTES("\0\0\0\0\0"));
        frame(&peer, DATA, 0, 1, BYTES(""));
        frame(&peer, DATA, PADDED, 1, BYTES("\0"));
        frame(&peer, WINDOW_UPDATE, 0, 1, BYTES("\0\0\0\1"));
        frame(&peer, WINDOW_UPDATE, 0, 0, BYTES("\0\0\0\1"));
        frame(&peer, 0x42, 0xff, 1, BYTES(""));
    }
    give(&peer);
    assert_in_range(peer.answer.size, 1, ANSWER_MAX);
    frame(&peer, DATA, END_STREAM, 1, BYTES(MESSAGE));
    give(&peer);
    assert_int_equal(peer.n_asked, 1);
    check_alive(&peer, 3);
    for (int i = 0; i < N; i++)
        frame(&peer, PRIORITY, 0, 1, BYTES("\0\0\0\0\0"));
    give(&peer);
    assert_int_equal(goaway_code(&peer), ENHANCE_YOUR_CALM);
    close_peer(&peer);
}

/* A head like the last one is not unpacked again; one that also sets the size of
 * the table has to be. */
static void a_tables_new_size_counts_each_time(void **state)
{
    struct peer peer;
    (void)state;
    open_server(&peer);
    frame(&peer, HEADERS, END_HEADERS, 1, BYTES("\x20" REQUEST)); /* no table */
    frame(&peer, DATA, 0, 1, BYTES(MESSAGE));
    frame(&peer, HEADERS, END_HEADERS | END_STREAM, 1, BYTES("\x3f\xe1\x1f")); /* 4096 bytes */
    frame(&peer, HEADERS, END_HEADERS, 3, BYTES("\x20" REQUEST));
    frame(&peer, DATA, END_STREAM, 3, BYTES(MESSAGE));
    frame(&peer, HEADERS, END_HEADERS, 5, BYTES(REQUEST "\x40\1a\1b")); /* not kept */
    frame(&peer, DATA, END_STREAM, 5, BYTES(MESSAGE));
    give(&peer);
    assert_int_equal(peer.n_asked, 3);
    assert_int_equal(goaway_code(&peer), NONE);
    frame(&peer, HEADERS, END_HEADERS, 7, BYTES(REQUEST "\xbe"));
    give(&peer);
    assert_int_equal(goaway_code(&peer), COMPRESSION_ERROR);
    close_peer(&peer);
}

/* --- a client --- */

static struct rota_http2_call *open_client(struct peer *peer)
{
    open_peer(peer, (struct rota_http2_options){0});
    struct rota_http2_call *call = on_accept(peer);
    assert_int_equal(
        rota_http2_call_prepare(call, rota_str("/a/b"), rota_str("hi"), NULL, 0, false, NULL),
        ROTA_OK);
    assert_int_equal(rota_http2_start(peer->session, call, ROTA_SEC), ROTA_OK);
    give(peer);
    return call;
}

static void check_reply(struct rota_str block, int flags, enum rota_status status, int reset)
{
    struct peer peer;
    open_client(&peer);
    frame(&peer, HEADERS, END_HEADERS | flags, 1, block);
    give(&peer);
    assert_int_equal(peer.n_ended, 1);
    assert_int_equal(peer.status, status);
    assert_int_equal(reset_code(&peer, 1), reset);
    assert_int_equal(peer.n_released, 1);
    assert_int_equal(goaway_code(&peer), NONE);
    close_peer(&peer);
}

static void a_malformed_reply_fails_the_call_alone(void **state)
{
    (void)state;
    check_reply(BYTES("\x88" TYPE "\x00\x0bgrpc-status\x01"
                      "5"),
                END_STREAM, ROTA_STATUS_NOT_FOUND, NONE);
    check_reply(BYTES(TYPE), 0, ROTA_STATUS_INTERNAL, PROTOCOL_ERROR); /* no status */
    check_reply(BYTES("\x88\x88" TYPE), 0, ROTA_STATUS_INTERNAL, PROTOCOL_ERROR);
    check_reply(BYTES("\x88\x84" TYPE), 0, ROTA_STATUS_INTERNAL, PROTOCOL_ERROR); /* a path */
    check_reply(BYTES(TYPE "\x88"), 0, ROTA_STATUS_INTERNAL, PROTOCOL_ERROR);
    check_reply(BYTES("\x08\x03"
                      "100"),
                END_STREAM, ROTA_STATUS_INTERNAL, PROTOCOL_ERROR);
    check_reply(BYTES("\x08\x03"
                      "101"),
                0, ROTA_STATUS_INTERNAL, PROTOCOL_ERROR);
}

static void a_reply_may_be_announced(void **state)
{
    struct peer peer;
    (void)state;
    open_client(&peer);
    frame(&peer, HEADERS, END_HEADERS, 1,
          BYTES("\x08\x03"
                "103"));
    frame(&peer, HEADERS, END_HEADERS, 1,
          BYTES("\x08\x03"
                "100"));
    frame(&peer, HEADERS, END_HEADERS, 1, BYTES("\x88" TYPE));
    frame(&peer, DATA, 0, 1, BYTES(MESSAGE));
    frame(&peer, HEADERS, END_HEADERS | END_STREAM, 1,
          BYTES("\x00\x0bgrpc-status\x01"
                "0"));
    give(&peer);
    assert_int_equal(peer.n_released, 1);
    assert_int_equal(peer.status, ROTA_STATUS_OK);
    close_peer(&peer);

    open_client(&peer); /* but a message is not before the reply's head */
    frame(&peer, HEADERS, END_HEADERS, 1,
          BYTES("\x08\x03"
                "100"));
    frame(&peer, DATA, 0, 1, BYTES(MESSAGE));
    give(&peer);
    assert_int_equal(reset_code(&peer, 1), PROTOCOL_ERROR);
    close_peer(&peer);
}

static void a_server_need_not_want_all_of_a_request(void **state)
{
    static char large[100000];
    (void)state;
    for (int is_paused = 0; is_paused <= 1; is_paused++) {
        struct peer peer;
        open_peer(&peer, (struct rota_http2_options){0});
        struct rota_http2_call *call = on_accept(&peer);
        assert_int_equal(rota_http2_call_prepare(call, rota_str("/a/b"),
                                                 rota_str_of(large, sizeof large), NULL, 0, true,
                                                 NULL),
                         ROTA_OK);
        assert_int_equal(rota_http2_start(peer.session, call, ROTA_SEC), ROTA_OK);
        if (is_paused)
            rota_http2_pause(call);
        give(&peer);
        frame(&peer, HEADERS, END_HEADERS | END_STREAM, 1,
              BYTES("\x88" TYPE "\x00\x0bgrpc-status\x01"
                    "5"));
        give(&peer);
        assert_int_equal(peer.n_ended, !is_paused);
        rota_http2_resume(call);
        give(&peer);
        assert_int_equal(peer.status, ROTA_STATUS_NOT_FOUND);
        assert_int_equal(peer.n_ended, 1);
        assert_int_equal(peer.n_released, 1);
        assert_int_equal(reset_code(&peer, 1), NO_ERROR);
        close_peer(&peer);
    }
}

static void check_server_fatal(int type, int flags, uint32_t stream, struct rota_str payload)
{
    struct peer peer;
    open_client(&peer);
    frame(&peer, type, flags, stream, payload);
    give(&peer);
    assert_int_equal(goaway_code(&peer), PROTOCOL_ERROR);
    close_peer(&peer);
}

static void a_server_starts_nothing(void **state)
{
    (void)state;
    check_server_fatal(PUSH_PROMISE, END_HEADERS, 1, BYTES("\0\0\0\2" PSEUDO));
    check_server_fatal(HEADERS, END_HEADERS, 2, BYTES("\x88" TYPE));
    check_server_fatal(HEADERS, END_HEADERS, 3, BYTES("\x88" TYPE)); /* not begun yet */
    check_server_fatal(SETTINGS, 0, 0, BYTES("\0\2\0\0\0\1"));
}

static void calls_above_a_goaway_were_not_seen(void **state)
{
    struct peer peer;
    (void)state;
    open_client(&peer);
    frame(&peer, GOAWAY, 0, 0, BYTES("\0\0\0\0\0\0\0\0"));
    give(&peer);
    assert_int_equal(peer.n_released, 1);
    assert_int_equal(peer.status, ROTA_STATUS_UNAVAILABLE);
    assert_true(peer.is_unsent);
    assert_true(rota_http2_is_done(peer.session));
    close_peer(&peer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_malformed_request_costs_the_call_alone),
        cmocka_unit_test(a_body_is_as_long_as_it_says),
        cmocka_unit_test(trailers_end_the_stream_and_have_no_pseudo_fields),
        cmocka_unit_test(padding_priorities_and_frames_of_later_times_are_skipped),
        cmocka_unit_test(calls_above_the_limit_are_refused),
        cmocka_unit_test(frames_for_an_ended_call_are_ignored),
        cmocka_unit_test(a_window_is_respected_and_sending_continues_when_it_grows),
        cmocka_unit_test(the_connections_window_holds_all_calls_back),
        cmocka_unit_test(a_window_grows_by_more_than_zero_and_up_to_a_limit),
        cmocka_unit_test(exceeding_the_window_ends_the_call),
        cmocka_unit_test(malformed_frames_end_the_connection),
        cmocka_unit_test(a_block_of_fields_is_not_interrupted),
        cmocka_unit_test(settings_come_first_and_are_acknowledged_once),
        cmocka_unit_test(frames_that_change_nothing_leave_nothing),
        cmocka_unit_test(a_tables_new_size_counts_each_time),
        cmocka_unit_test(a_malformed_reply_fails_the_call_alone),
        cmocka_unit_test(a_reply_may_be_announced),
        cmocka_unit_test(a_server_need_not_want_all_of_a_request),
        cmocka_unit_test(a_server_starts_nothing),
        cmocka_unit_test(calls_above_a_goaway_were_not_seen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
