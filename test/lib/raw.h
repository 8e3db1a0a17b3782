/* A client of hand-made frames, for what a well-behaved one never says, and a
 * server of bytes. They answer nothing by themselves. */
#pragma once

#include "base/buffer.h"
#include "pair.h"

#include <nghttp2/nghttp2.h>

/* Types of frames. */
enum {
    RAW_DATA = 0,
    RAW_HEADERS = 1,
    RAW_RST_STREAM = 3,
    RAW_SETTINGS = 4,
    RAW_PING = 6,
    RAW_GOAWAY = 7,
    RAW_WINDOW_UPDATE = 8,
    RAW_CONTINUATION = 9,
};

/* Flags of frames. */
enum { RAW_ACK = 1, RAW_END_STREAM = 1, RAW_END_HEADERS = 4 };

struct raw {
    uv_tcp_t tcp;
    uv_connect_t connect;
    struct rota_buffer out, in;
    nghttp2_hd_inflater *inflater;
    bool is_connected, is_closed;
    size_t n_writing, n_headers, n_frames[16];
    uint32_t goaway_code;
    int http_status, grpc_status;   /* the last ones heard */
    char accepts[32], encoding[16]; /* grpc-accept-encoding and grpc-encoding, the same */
    size_t n_data;                  /* bytes of messages that were heard */
};

void raw_open(struct raw *raw, const char *address);
void raw_deinit(struct raw *raw);

/* Send what is gathered, and wait until the kernel has it. */
void raw_flush(struct raw *raw);

void raw_frame_head(struct raw *raw, size_t size, int type, int flags, uint32_t stream);
void raw_frame(struct raw *raw, int type, int flags, uint32_t stream, struct rota_str payload);
void raw_preface(struct raw *raw, struct rota_str settings);

/* A header field as HPACK's simplest form. */
void raw_field(struct rota_buffer *block, const char *name, struct rota_str value);

struct rota_buffer raw_head_block(const char *path, const char *content_type);
void raw_request(struct raw *raw, uint32_t stream, const char *path, const char *content_type,
                 int flags);

/* A socket at which the kernel alone answers. */
int raw_listen(char address[64]);

/* Wait for a client, and say `bytes` to it. */
int raw_greet(int listening, struct rota_str bytes);
