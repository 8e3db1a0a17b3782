/* Peers that mean no good: each meets a bound, and others are served meanwhile. */
#include "base/metrics.h"
#include "raw.h"
#include "wire/http2/gzip.h"
#include "wire/http2/http2.h"

#include <inttypes.h>
#include <stdlib.h>

/* --- around each test --- */

struct fixture {
    struct pair pair; /* with a client like any other */
    struct rota_metrics *metrics;
    struct raw raw;
};

static void open_all(struct fixture *f, struct rota_server_options options)
{
    f->metrics = rota_metrics_new(1);
    assert_non_null(f->metrics);
    options.metrics = f->metrics;
    pair_open(&f->pair, &options, NULL);
    raw_open(&f->raw, f->pair.address);
}

static void check_good(struct fixture *f)
{
    pair_check_echo(f->pair.channel, rota_str("I am fine"));
}

static uint64_t faults(struct fixture *f, enum rota_http2_fault fault)
{
    struct rota_label label = {"fault", rota_str(rota_http2_fault_name(fault))};
    return rota_counter_get(
        rota_metrics_counter(f->metrics, "rota_server_faults_total", "", &label, 1));
}

/* One connection was ended, and that is why. */
static void check_fault(struct fixture *f, enum rota_http2_fault wanted)
{
    for (int i = 0; i < ROTA_HTTP2_FAULTS; i++)
        if (faults(f, (enum rota_http2_fault)i) != (i == (int)wanted))
            fail_msg("%" PRIu64 " times %s", faults(f, (enum rota_http2_fault)i),
                     rota_http2_fault_name((enum rota_http2_fault)i));
}

static void close_all(struct fixture *f)
{
    raw_deinit(&f->raw);
    pair_close(&f->pair);
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
    check_fault(&f, ROTA_HTTP2_FAULT_NOT_HTTP2);
    check_good(&f);
    close_all(&f);
}

static void http1_is_rejected(void **state)
{
    (void)state;
    check_not_http2(rota_str("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"));
}

static void garbage_is_rejected(void **state)
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
    raw_preface(&f.raw, rota_str(""));
    raw_frame(&f.raw, RAW_DATA, 0, 1, rota_str("data for a call that never began"));
    raw_flush(&f.raw);
    RUN_UNTIL(f.raw.is_closed);
    assert_int_equal(f.raw.goaway_code, NGHTTP2_PROTOCOL_ERROR);
    check_fault(&f, ROTA_HTTP2_FAULT_PROTOCOL);
    check_good(&f);
    close_all(&f);
}

/* --- requests that are not gRPC --- */

static void another_content_type_gets_415(void **state)
{
    struct fixture f;
    (void)state;
    open_all(&f, (struct rota_server_options){0});
    raw_preface(&f.raw, rota_str(""));
    raw_request(&f.raw, 1, METHOD_ECHO, "text/html", RAW_END_STREAM);
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
    raw_preface(&f.raw, rota_str(""));
    raw_request(&f.raw, 1, METHOD_ECHO, "application/grpc+proto", 0);
    raw_frame(&f.raw, type, flags, 1, payload);
    raw_flush(&f.raw);
    RUN_UNTIL(f.raw.grpc_status >= 0);
    assert_int_equal(f.raw.http_status, 200);
    assert_int_equal(f.raw.grpc_status, status);
    if (!(flags & RAW_END_STREAM)) /* it need not send the rest */
        RUN_UNTIL(f.raw.n_frames[RAW_RST_STREAM]);
    assert_false(f.raw.is_closed);
    assert_int_equal(f.pair.echo.n_calls, 0);
    close_all(&f);
}

static void a_request_without_a_whole_message_is_refused(void **state)
{
    (void)state;
    check_refused(RAW_DATA, RAW_END_STREAM, rota_str(""), ROTA_STATUS_INTERNAL);
    check_refused(RAW_DATA, RAW_END_STREAM, rota_str_of("\0\0\0\0\5abc", 8), ROTA_STATUS_INTERNAL);
    check_refused(RAW_DATA, RAW_END_STREAM, rota_str_of("\0\0\0\0\0\0\0\0\0\0", 10),
                  ROTA_STATUS_INTERNAL);
}

static void a_compressed_or_huge_message_is_refused_before_it_arrives(void **state)
{
    (void)state;
    check_refused(RAW_DATA, 0, rota_str_of("\1\0\0\0\1x", 6), ROTA_STATUS_INTERNAL);
    check_refused(RAW_DATA, 0, rota_str_of("\7\0\0\0\1x", 6), ROTA_STATUS_INTERNAL);
    check_refused(RAW_DATA, 0, rota_str_of("\0\377\377\377\377", 5),
                  ROTA_STATUS_RESOURCE_EXHAUSTED);
}

/* A request with this encoding and message, packed as it says; how it ended. */
static int ask_packed(struct fixture *f, const char *encoding, struct rota_str packed)
{
    enum { FRAME_MAX = 16384 };
    uint8_t prefix[ROTA_GRPC_PREFIX_SIZE];
    struct rota_buffer message = {0};
    open_all(f, (struct rota_server_options){0});
    raw_preface(&f->raw, rota_str(""));
    struct rota_buffer block = raw_head_block(METHOD_ECHO, "application/grpc");
    raw_field(&block, "grpc-encoding", rota_str(encoding));
    raw_frame(&f->raw, RAW_HEADERS, RAW_END_HEADERS, 1, rota_buffer_str(&block));
    rota_grpc_prefix_encode(prefix, (uint32_t)packed.size, true);
    rota_buffer_append(&message, prefix, sizeof prefix);
    rota_buffer_append_str(&message, packed);
    for (size_t at = 0; at < message.size; at += FRAME_MAX) {
        bool is_last = message.size - at <= FRAME_MAX;
        raw_frame(&f->raw, RAW_DATA, is_last ? RAW_END_STREAM : 0, 1,
                  rota_str_of(message.data + at, is_last ? message.size - at : FRAME_MAX));
    }
    raw_flush(&f->raw);
    RUN_UNTIL(f->raw.grpc_status >= 0);
    assert_string_equal(f->raw.accepts, ROTA_GRPC_ENCODINGS);
    rota_buffer_deinit(&message);
    rota_buffer_deinit(&block);
    return f->raw.grpc_status;
}

/* Many zeros, packed. */
static struct rota_buffer pack_zeros(size_t size)
{
    struct rota_buffer packed = {0};
    char *zeros = calloc(1, size);
    assert_non_null(zeros);
    assert_true(rota_gzip_pack(rota_str_of(zeros, size), &packed));
    free(zeros);
    return packed;
}

static void a_message_with_gzip_is_answered_with_gzip(void **state)
{
    struct rota_buffer packed = pack_zeros(100000);
    struct fixture f;
    (void)state;
    assert_int_equal(ask_packed(&f, "gzip", rota_buffer_str(&packed)), ROTA_STATUS_OK);
    assert_string_equal(f.raw.encoding, "gzip");
    assert_in_range(f.raw.n_data, 1, 1000); /* bytes of the reply */
    close_all(&f);
    rota_buffer_deinit(&packed);
}

static void a_gzip_bomb_is_refused(void **state)
{
    struct rota_buffer packed = pack_zeros(ROTA_GRPC_MESSAGE_MAX + 1);
    struct fixture f;
    (void)state;
    assert_in_range(packed.size, 1, 40000);
    assert_int_equal(ask_packed(&f, "gzip", rota_buffer_str(&packed)),
                     ROTA_STATUS_RESOURCE_EXHAUSTED);
    assert_int_equal(f.pair.echo.n_calls, 0);
    assert_false(f.raw.is_closed);
    close_all(&f);
    rota_buffer_deinit(&packed);
}

static void malformed_gzip_is_refused(void **state)
{
    struct rota_buffer packed = pack_zeros(1000);
    struct rota_str whole = rota_buffer_str(&packed);
    struct fixture f;
    (void)state;
    const struct {
        const char *encoding;
        struct rota_str message;
        int status;
    } cases[] = {
        {"gzip", rota_str("no gzip at all"), ROTA_STATUS_INTERNAL},
        {"gzip", rota_str(""), ROTA_STATUS_INTERNAL},
        {"gzip", {whole.data, whole.size - 1}, ROTA_STATUS_INTERNAL},
        {"deflate", whole, ROTA_STATUS_UNIMPLEMENTED},
        {"identity", whole, ROTA_STATUS_INTERNAL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(ask_packed(&f, cases[i].encoding, cases[i].message), cases[i].status);
        close_all(&f);
    }
    rota_buffer_append_char(&packed, 'x'); /* and something after it */
    assert_int_equal(ask_packed(&f, "gzip", rota_buffer_str(&packed)), ROTA_STATUS_INTERNAL);
    close_all(&f);
    rota_buffer_deinit(&packed);
}

/* The client never drops the call: that it ends is the server's doing. */
static void a_server_enforces_the_deadline_on_its_own(void **state)
{
    struct fixture f;
    (void)state;
    open_all(&f, (struct rota_server_options){0});
    raw_preface(&f.raw, rota_str(""));
    struct rota_buffer block = raw_head_block(METHOD_KEEP, "application/grpc");
    raw_field(&block, "grpc-timeout", rota_str("20m"));
    raw_frame(&f.raw, RAW_HEADERS, RAW_END_HEADERS, 1, rota_buffer_str(&block));
    raw_frame(&f.raw, RAW_DATA, RAW_END_STREAM, 1, rota_str_of("\0\0\0\0\0", 5));
    raw_flush(&f.raw);
    RUN_UNTIL(f.raw.grpc_status >= 0);
    assert_int_equal(f.raw.grpc_status, ROTA_STATUS_DEADLINE_EXCEEDED);
    assert_int_equal(f.pair.echo.n_cancelled, 1);
    assert_int_equal(rota_server_counts(f.pair.echo.server).calls, 0);
    rota_buffer_deinit(&block);
    close_all(&f);
}

static void a_server_enforces_the_deadline_of_waiting_calls(void **state)
{
    struct fixture f;
    (void)state;
    open_all(&f, (struct rota_server_options){.handlers_max = 1});
    raw_preface(&f.raw, rota_str(""));
    raw_request(&f.raw, 1, METHOD_KEEP, "application/grpc", 0);
    raw_frame(&f.raw, RAW_DATA, RAW_END_STREAM, 1, rota_str_of("\0\0\0\0\0", 5));
    struct rota_buffer block = raw_head_block(METHOD_KEEP, "application/grpc");
    raw_field(&block, "grpc-timeout", rota_str("20m"));
    raw_frame(&f.raw, RAW_HEADERS, RAW_END_HEADERS, 3, rota_buffer_str(&block));
    raw_frame(&f.raw, RAW_DATA, RAW_END_STREAM, 3, rota_str_of("\0\0\0\0\0", 5));
    raw_flush(&f.raw);
    RUN_UNTIL(f.raw.grpc_status >= 0);
    assert_int_equal(f.raw.grpc_status, ROTA_STATUS_DEADLINE_EXCEEDED);
    assert_int_equal(f.pair.echo.n_cancelled, 0); /* its handler never had it */
    assert_int_equal(rota_server_counts(f.pair.echo.server).waiting, 0);
    struct rota_label late = {"reason", rota_str("deadline")};
    assert_int_equal(rota_counter_get(rota_metrics_counter(f.metrics, "rota_server_refused_total",
                                                           "", &late, 1)),
                     1);
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
    raw_preface(&f.raw, rota_str(""));
    while (!f.raw.is_closed && stream < 400000) {
        for (int i = 0; i < 250; i++, stream += 2) {
            raw_request(&f.raw, stream, METHOD_KEEP, "application/grpc", 0);
            raw_frame(&f.raw, RAW_RST_STREAM, 0, stream, rota_str_of("\0\0\0\10", 4));
        }
        raw_flush(&f.raw);
        if (stream % 5000 == 1)
            check_good(&f);
    }
    assert_true(f.raw.is_closed);
    check_fault(&f, ROTA_HTTP2_FAULT_RESETS);
    assert_true(stream / 2 >= ROTA_HTTP2_RESETS_BURST);
    assert_int_equal(rota_server_counts(f.pair.echo.server).calls, 0);
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
    raw_preface(&f.raw, rota_str(""));
    while (!f.raw.is_closed && stream < 400000) {
        for (int i = 0; i < 250; i++, stream += 2) {
            raw_request(&f.raw, stream, METHOD_KEEP, "application/grpc", 0);
            /* A window grown beyond what there are numbers for. */
            raw_frame(&f.raw, RAW_WINDOW_UPDATE, 0, stream, rota_str("\177\377\377\377"));
        }
        raw_flush(&f.raw);
    }
    assert_true(f.raw.is_closed);
    check_fault(&f, ROTA_HTTP2_FAULT_RESETS);
    assert_true(stream / 2 >= ROTA_HTTP2_RESETS_BURST);
    check_good(&f);
    close_all(&f);
}

static void a_header_without_end_ends_the_connection(void **state)
{
    struct fixture f;
    struct rota_buffer block = raw_head_block(METHOD_ECHO, "application/grpc");
    int n = 0;
    (void)state;
    open_all(&f, (struct rota_server_options){0});
    raw_preface(&f.raw, rota_str(""));
    raw_frame(&f.raw, RAW_HEADERS, 0, 1, rota_buffer_str(&block));
    while (!f.raw.is_closed && n < 10000) {
        rota_buffer_clear(&block);
        raw_field(&block, "x-more", rota_str("and more"));
        raw_frame(&f.raw, RAW_CONTINUATION, 0, 1, rota_buffer_str(&block));
        raw_flush(&f.raw);
        n++;
    }
    assert_true(f.raw.is_closed);
    check_fault(&f, ROTA_HTTP2_FAULT_PROTOCOL);
    check_good(&f);
    rota_buffer_deinit(&block);
    close_all(&f);
}

/* A header of so many frames, of a method that there is not. */
static void send_header(struct fixture *f, uint32_t stream, int n_continued)
{
    struct rota_buffer block = raw_head_block("/no.such/Method", "application/grpc");
    raw_frame(&f->raw, RAW_HEADERS, 0, stream, rota_buffer_str(&block));
    for (int i = 1; i <= n_continued; i++) {
        rota_buffer_clear(&block);
        raw_field(&block, "x-more", rota_str("and more"));
        raw_frame(&f->raw, RAW_CONTINUATION, i == n_continued ? RAW_END_HEADERS : 0, stream,
                  rota_buffer_str(&block));
    }
    raw_flush(&f->raw);
    rota_buffer_deinit(&block);
}

static void each_header_may_have_as_many_frames_as_the_limit_says(void **state)
{
    struct fixture f;
    (void)state;
    open_all(&f, (struct rota_server_options){0});
    raw_preface(&f.raw, rota_str(""));
    for (uint32_t stream = 1; stream <= 3; stream += 2) {
        f.raw.grpc_status = -1;
        send_header(&f, stream, ROTA_HTTP2_CONTINUATIONS_MAX);
        RUN_UNTIL(f.raw.grpc_status >= 0 || f.raw.is_closed);
        assert_int_equal(f.raw.grpc_status, ROTA_STATUS_UNIMPLEMENTED);
    }
    send_header(&f, 5, ROTA_HTTP2_CONTINUATIONS_MAX + 1);
    RUN_UNTIL(f.raw.is_closed);
    check_fault(&f, ROTA_HTTP2_FAULT_PROTOCOL);
    close_all(&f);
}

static void too_many_header_fields_refuse_the_call_only(void **state)
{
    struct fixture f;
    (void)state;
    open_all(&f, (struct rota_server_options){0});
    raw_preface(&f.raw, rota_str(""));
    struct rota_buffer block = raw_head_block(METHOD_ECHO, "application/grpc");
    for (int i = 0; i < 200; i++)
        raw_field(&block, "x", rota_str("y"));
    raw_frame(&f.raw, RAW_HEADERS, RAW_END_HEADERS, 1, rota_buffer_str(&block));
    raw_flush(&f.raw);
    RUN_UNTIL(f.raw.grpc_status >= 0);
    assert_int_equal(f.raw.grpc_status, ROTA_STATUS_RESOURCE_EXHAUSTED);

    f.raw.grpc_status = -1;
    rota_buffer_deinit(&block);
    block = raw_head_block(METHOD_ECHO, "application/grpc");
    static char large[ROTA_GRPC_HEAD_SIZE_MAX - 400];
    memset(large, 'a', sizeof large);
    raw_field(&block, "x-large", rota_str_of(large, sizeof large));
    raw_frame(&f.raw, RAW_HEADERS, 0, 3, rota_buffer_str(&block));
    rota_buffer_clear(&block);
    raw_field(&block, "x-larger", rota_str_of(large, 1000));
    raw_frame(&f.raw, RAW_CONTINUATION, RAW_END_HEADERS, 3, rota_buffer_str(&block));
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
    raw_preface(&f.raw, rota_str(""));
    raw_request(&f.raw, 1, METHOD_ECHO, "application/grpc", 0);
    raw_frame_head(&f.raw, 16385, RAW_DATA, 0, 1);
    raw_flush(&f.raw);
    RUN_UNTIL(f.raw.is_closed);
    assert_int_equal(f.raw.goaway_code, NGHTTP2_FRAME_SIZE_ERROR);
    check_fault(&f, ROTA_HTTP2_FAULT_PROTOCOL);
    check_good(&f);
    close_all(&f);
}

static void pings_for_pinging_end_the_connection(void **state)
{
    struct fixture f;
    int n = 0;
    (void)state;
    open_all(&f, (struct rota_server_options){0});
    raw_preface(&f.raw, rota_str(""));
    for (; !f.raw.is_closed && n < 10000; n++) {
        raw_frame(&f.raw, RAW_PING, 0, 0, rota_str("12345678"));
        raw_flush(&f.raw);
    }
    assert_true(f.raw.is_closed);
    assert_int_equal(f.raw.goaway_code, NGHTTP2_ENHANCE_YOUR_CALM);
    check_fault(&f, ROTA_HTTP2_FAULT_PINGS);
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
    raw_preface(&f.raw, rota_str_of(entries, sizeof entries));
    raw_flush(&f.raw);
    RUN_UNTIL(f.raw.is_closed);
    check_fault(&f, ROTA_HTTP2_FAULT_SETTINGS);
    check_good(&f);
    close_all(&f);
}

/* The client reads what we answer, so nothing piles up; it is work all the same. */
static void settings_without_end_end_the_connection(void **state)
{
    struct fixture f;
    int n = 0;
    (void)state;
    open_all(&f, (struct rota_server_options){0});
    raw_preface(&f.raw, rota_str(""));
    for (; !f.raw.is_closed && n < 100000; n++) {
        raw_frame(&f.raw, RAW_SETTINGS, 0, 0, rota_str_of("\0\4\0\0\377\377", 6));
        raw_flush(&f.raw);
        if (n % 100 == 0)
            check_good(&f);
    }
    assert_true(f.raw.is_closed);
    assert_true(n >= ROTA_HTTP2_SETTINGS_BURST);
    assert_int_equal(f.raw.goaway_code, NGHTTP2_ENHANCE_YOUR_CALM);
    check_fault(&f, ROTA_HTTP2_FAULT_SETTINGS);
    check_good(&f);
    close_all(&f);
}

/* Calls beyond the limit are refused, each with a frame; the client does not
 * read them, and our frames must not pile up without end. */
static void unread_refusals_end_the_connection(void **state)
{
    struct fixture f;
    uint32_t stream = 1;
    (void)state;
    open_all(&f, (struct rota_server_options){.connection_calls_max = 4});
    raw_preface(&f.raw, rota_str(""));
    uv_read_stop((uv_stream_t *)&f.raw.tcp);
    while (rota_server_counts(f.pair.echo.server).faults_total == 0 && stream < 2000000) {
        for (int i = 0; i < 250; i++, stream += 2)
            raw_request(&f.raw, stream, METHOD_KEEP, "application/grpc", 0);
        raw_flush(&f.raw);
    }
    assert_int_equal(rota_server_counts(f.pair.echo.server).faults_total, 1);
    check_good(&f);
    close_all(&f);
}

/* Each of these frames costs time to read and changes nothing. The call that it names is there. */
static void check_trifles(int type, struct rota_str payload)
{
    struct fixture f;
    int n = 0;
    open_all(&f, (struct rota_server_options){0});
    raw_preface(&f.raw, rota_str(""));
    raw_request(&f.raw, 1, METHOD_KEEP, "application/grpc", 0);
    while (!f.raw.is_closed && n < 10 * ROTA_HTTP2_TRIFLES_MAX) {
        for (int i = 0; i < 250; i++, n++)
            raw_frame(&f.raw, type, 0, 1, payload);
        raw_flush(&f.raw);
        if (n % 5000 == 0)
            check_good(&f);
    }
    assert_true(f.raw.is_closed);
    assert_true(n >= ROTA_HTTP2_TRIFLES_MAX);
    assert_int_equal(f.raw.goaway_code, NGHTTP2_ENHANCE_YOUR_CALM);
    check_fault(&f, ROTA_HTTP2_FAULT_FLOOD);
    check_good(&f);
    close_all(&f);
}

static void frames_that_change_nothing_end_the_connection(void **state)
{
    enum { PRIORITY = 2, UNKNOWN = 0x77 };
    (void)state;
    check_trifles(PRIORITY, rota_str_of("\0\0\0\0\1", 5));
    check_trifles(UNKNOWN, rota_str(""));
    check_trifles(UNKNOWN, rota_str("some bytes"));
    check_trifles(RAW_DATA, rota_str(""));
    check_trifles(RAW_WINDOW_UPDATE, rota_str_of("\0\0\0\1", 4));
}

/* A field in the table is named again and again: few bytes, and each a field of 4 KiB. */
static void header_bombs_end_the_connection(void **state)
{
    struct fixture f;
    static char value[3900], again[8000];
    uint32_t stream = 3;
    (void)state;
    memset(value, 'a', sizeof value);
    memset(again, 0xbe, sizeof again); /* the newest of the table */
    open_all(&f, (struct rota_server_options){0});
    raw_preface(&f.raw, rota_str(""));
    struct rota_buffer block = raw_head_block(METHOD_ECHO, "application/grpc");
    rota_buffer_append_char(&block, 0x40); /* a new name, to be kept */
    rota_buffer_append_str(&block, rota_str_of("\1x\177\275\35", 5));
    rota_buffer_append(&block, value, sizeof value);
    raw_frame(&f.raw, RAW_HEADERS, RAW_END_HEADERS, 1, rota_buffer_str(&block));
    rota_buffer_deinit(&block);
    block = raw_head_block(METHOD_ECHO, "application/grpc");
    rota_buffer_append(&block, again, sizeof again);
    for (; !f.raw.is_closed && stream < 20000; stream += 2) {
        raw_frame(&f.raw, RAW_HEADERS, RAW_END_HEADERS | RAW_END_STREAM, stream,
                  rota_buffer_str(&block));
        raw_flush(&f.raw);
    }
    assert_true(f.raw.is_closed);
    check_fault(&f, ROTA_HTTP2_FAULT_FLOOD);
    check_good(&f);
    rota_buffer_deinit(&block);
    close_all(&f);
}

/* --- connections --- */

static uint64_t times_full(struct fixture *f, const char *bound)
{
    struct rota_label label = {"bound", rota_str(bound)};
    return rota_counter_get(
        rota_metrics_counter(f->metrics, "rota_server_full_total", "", &label, 1));
}

/* The fixture has two already: a client like any other, and the one that does this. */
static void a_peer_has_a_share_of_the_connections(void **state)
{
    enum { N = 20 };
    struct fixture f;
    struct raw more[N];
    (void)state;
    open_all(&f, (struct rota_server_options){.connections_max = 100, .peer_connections_max = 8});
    check_good(&f);
    raw_preface(&f.raw, rota_str(""));
    raw_flush(&f.raw);
    RUN_UNTIL(rota_server_counts(f.pair.echo.server).connections == 2);
    for (int i = 0; i < N; i++) {
        raw_open(&more[i], f.pair.address);
        raw_preface(&more[i], rota_str(""));
        raw_flush(&more[i]);
    }
    RUN_UNTIL(times_full(&f, "peer") == N - 6);
    for (int i = 0; i < N; i++)
        if (i >= 6)
            RUN_UNTIL(more[i].is_closed);
    assert_int_equal(rota_server_counts(f.pair.echo.server).connections, 8);
    assert_int_equal(rota_server_counts(f.pair.echo.server).turned_away_total, N - 6);
    check_good(&f);
    for (int i = 0; i < N; i++)
        raw_deinit(&more[i]);
    close_all(&f);
}

/* Preface and settings, then nothing: no call, so it goes; the one with a call stays. */
static void idle_connections_end(void **state)
{
    struct fixture f;
    struct raw busy;
    (void)state;
    open_all(&f, (struct rota_server_options){.idle_timeout = 20 * ROTA_MSEC,
                                              .keepalive_timeout = 20 * ROTA_MSEC});
    raw_open(&busy, f.pair.address);
    raw_preface(&busy, rota_str(""));
    raw_request(&busy, 1, METHOD_KEEP, "application/grpc", 0);
    raw_frame(&busy, RAW_DATA, RAW_END_STREAM, 1, rota_str_of("\0\0\0\0\0", 5));
    raw_flush(&busy);
    RUN_UNTIL(rota_server_counts(f.pair.echo.server).calls == 1);
    raw_preface(&f.raw, rota_str(""));
    raw_flush(&f.raw);
    RUN_UNTIL(f.raw.is_closed);
    assert_int_equal(f.raw.goaway_code, NGHTTP2_NO_ERROR);
    assert_int_equal(f.raw.n_frames[RAW_PING], 1); /* which it did not answer */
    check_fault(&f, ROTA_HTTP2_FAULT_SILENT);
    assert_false(busy.is_closed);
    check_good(&f); /* a client like any other connects again */
    raw_deinit(&busy);
    close_all(&f);
}

/* Begun requests of a few connections, none of which ever ends. */
static void bytes_held_by_all_connections_are_bounded(void **state)
{
    enum { N = 4, SIZE = 1 << 20, CHUNK = 16384, MAX = 4 << 20 };
    struct fixture f;
    struct raw more[N];
    static char chunk[CHUNK];
    (void)state;
    open_all(&f, (struct rota_server_options){.held_max = MAX});
    for (int i = 0; i < N; i++) {
        uint8_t prefix[5];
        raw_open(&more[i], f.pair.address);
        raw_preface(&more[i], rota_str(""));
        rota_grpc_prefix_encode(prefix, SIZE, false);
        raw_request(&more[i], 1, METHOD_ECHO, "application/grpc", 0);
        raw_frame(&more[i], RAW_DATA, 0, 1, rota_str_of(prefix, 5));
        for (int sent = 0; sent < SIZE - CHUNK; sent += CHUNK) {
            raw_frame(&more[i], RAW_DATA, 0, 1, rota_str_of(chunk, CHUNK));
            raw_flush(&more[i]);
            assert_true(rota_server_counts(f.pair.echo.server).held <= MAX);
        }
    }
    RUN_UNTIL(times_full(&f, "bytes") > 0);
    RUN_UNTIL(more[N - 1].grpc_status >= 0 || more[N - 2].grpc_status >= 0);
    check_good(&f); /* it holds little */
    assert_true(rota_server_counts(f.pair.echo.server).held <= MAX);
    for (int i = 0; i < N; i++)
        raw_deinit(&more[i]);
    RUN_UNTIL(rota_server_counts(f.pair.echo.server).held == 0);
    close_all(&f);
}

/* --- a client that asks and does not take --- */

static void unread_replies_are_bounded(void **state)
{
    enum { SIZE = 3 << 20, CHUNK = 16384, N = 40 };
    struct fixture f;
    static char chunk[CHUNK];
    (void)state;
    open_all(&f, (struct rota_server_options){0});
    raw_preface(&f.raw, rota_str_of("\0\4\0\0\0\0", 6)); /* a window of nothing */
    for (uint32_t i = 0; i < N; i++) {
        uint8_t prefix[5];
        rota_grpc_prefix_encode(prefix, SIZE, false);
        raw_request(&f.raw, 2 * i + 1, METHOD_ECHO, "application/grpc", 0);
        raw_frame(&f.raw, RAW_DATA, 0, 2 * i + 1, rota_str_of(prefix, 5));
        for (int sent = 0; sent < SIZE; sent += CHUNK)
            raw_frame(&f.raw, RAW_DATA, sent + CHUNK == SIZE ? RAW_END_STREAM : 0, 2 * i + 1,
                      rota_str_of(chunk, CHUNK));
        raw_flush(&f.raw);
        if (i % 8 == 0)
            check_good(&f);
    }
    /* Those over the bound get a status, which needs no window. */
    RUN_UNTIL(f.raw.grpc_status >= 0);
    assert_int_equal(f.raw.grpc_status, ROTA_STATUS_UNKNOWN); /* they were served */
    assert_false(f.raw.is_closed);
    assert_int_equal(f.raw.n_frames[RAW_DATA], 0);
    check_good(&f);
    close_all(&f);
}

static void a_reply_read_byte_by_byte_delays_no_other(void **state)
{
    enum { SIZE = 200 };
    struct fixture f;
    char message[5 + SIZE] = {0, 0, 0, 0, (char)SIZE};
    (void)state;
    open_all(&f, (struct rota_server_options){0});
    raw_preface(&f.raw, rota_str_of("\0\4\0\0\0\1", 6)); /* a window of one byte */
    raw_request(&f.raw, 1, METHOD_ECHO, "application/grpc", 0);
    raw_frame(&f.raw, RAW_DATA, RAW_END_STREAM, 1, rota_str_of(message, sizeof message));
    raw_flush(&f.raw);
    for (size_t n = 1; n < sizeof message; n++) {
        RUN_UNTIL(f.raw.n_frames[RAW_DATA] == n);
        assert_int_equal(f.raw.grpc_status, -1);
        if (n % 50 == 0)
            check_good(&f);
        raw_frame(&f.raw, RAW_WINDOW_UPDATE, 0, 1, rota_str_of("\0\0\0\1", 4));
        raw_flush(&f.raw);
    }
    RUN_UNTIL(f.raw.grpc_status >= 0);
    assert_int_equal(f.raw.grpc_status, ROTA_STATUS_OK);
    assert_int_equal(f.raw.n_frames[RAW_DATA], sizeof message);
    close_all(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        PAIR_TEST(http1_is_rejected),
        PAIR_TEST(garbage_is_rejected),
        PAIR_TEST(frames_without_sense_end_the_connection),
        PAIR_TEST(another_content_type_gets_415),
        PAIR_TEST(a_request_without_a_whole_message_is_refused),
        PAIR_TEST(a_compressed_or_huge_message_is_refused_before_it_arrives),
        PAIR_TEST(a_message_with_gzip_is_answered_with_gzip),
        PAIR_TEST(a_gzip_bomb_is_refused),
        PAIR_TEST(malformed_gzip_is_refused),
        PAIR_TEST(a_server_enforces_the_deadline_on_its_own),
        PAIR_TEST(a_server_enforces_the_deadline_of_waiting_calls),
        PAIR_TEST(calls_dropped_as_fast_as_they_begin_end_the_connection),
        PAIR_TEST(calls_made_to_be_dropped_by_us_end_the_connection),
        PAIR_TEST(a_header_without_end_ends_the_connection),
        PAIR_TEST(each_header_may_have_as_many_frames_as_the_limit_says),
        PAIR_TEST(too_many_header_fields_refuse_the_call_only),
        PAIR_TEST(a_frame_beyond_the_limit_ends_the_connection),
        PAIR_TEST(pings_for_pinging_end_the_connection),
        PAIR_TEST(settings_of_too_many_entries_end_the_connection),
        PAIR_TEST(settings_without_end_end_the_connection),
        PAIR_TEST(unread_refusals_end_the_connection),
        PAIR_TEST(frames_that_change_nothing_end_the_connection),
        PAIR_TEST(header_bombs_end_the_connection),
        PAIR_TEST(a_peer_has_a_share_of_the_connections),
        PAIR_TEST(idle_connections_end),
        PAIR_TEST(bytes_held_by_all_connections_are_bounded),
        PAIR_TEST(unread_replies_are_bounded),
        PAIR_TEST(a_reply_read_byte_by_byte_delays_no_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
