/* A listener and its peers on one loop, with all their callbacks counted, for tests of streams. */
#pragma once

#include "io/net/listener.h"
#include "io/net/tls_session.h"

#include "await.h"
#include "certificate.h"

enum { STREAMS_MAX = 256 };

/* What an end does by itself. */
enum streams_habit {
    STREAMS_SILENT,
    STREAMS_ECHO,   /* sends back what it gets, and holds back when that is not taken */
    STREAMS_SOURCE, /* sends `to_send` bytes of the pattern, holding back */
};

/* A callback to end the stream in, for tests of just that. */
enum streams_moment {
    STREAMS_NEVER,
    STREAMS_ON_OPEN,
    STREAMS_ON_DATA,
    STREAMS_ON_DRAINED,
    STREAMS_ON_CLOSE,
};

enum { STREAMS_HOLD = 256 << 10 }; /* pending bytes from which an end holds back */

struct streams_end {
    struct rota_stream *stream; /* NULL: it has ended */
    enum streams_habit habit;
    enum streams_moment ends_at;
    bool finishes; /* rather than closes */
    size_t to_send;
    size_t n_opened, n_drained, n_closed; /* how often told so */
    size_t n_ended;                       /* told so, or ended by this side */
    size_t n_got, n_wrong;                /* bytes, and those that are not the pattern's */
    size_t n_sent, pending_max;
    uv_alloc_cb on_alloc; /* of a stream that does not read now */
    uv_read_cb on_read;
    struct rota_error reason;
};

extern struct streams {
    uv_loop_t loop;
    struct rota_listener *listener;
    struct rota_listener_options listen;
    struct rota_stream_options connect;
    struct streams_end client, server[STREAMS_MAX];
    struct streams_end model; /* what a server's end starts as */
    size_t n_accepted, n_refused, n_gone;
    bool closes_listener;
    struct rota_error refusal;
    char address[64];

    char directory[64];
    struct certificate ca, own;
    char ca_path[128], certificate_path[128], key_path[128];
} streams;

/* A pattern in which every shift shows. */
char streams_byte(size_t index);

void streams_listen(const char *address);

/* The port that was chosen, as text. */
const char *streams_port(void);

void streams_dial(struct streams_end *end, const char *address);

/* Connect and wait for both sides to be open. */
void streams_meet(void);

/* Write a copy of `bytes`, or the next `size` bytes of the pattern. */
enum rota_code streams_push(struct rota_stream *stream, struct rota_str bytes);
void streams_write(struct streams_end *end, size_t size);

/* Read nothing more, which fills the kernel's buffers at both ends, or continue. */
void streams_set_reading(struct streams_end *end, bool reads);
void streams_assert_reason(const struct rota_error *reason, enum rota_code code,
                           const char *phrase);

/* A socket of the kernel alone, for peers that are no streams of ours. */
int streams_socket(const char *address, bool listens);

/* Where a socket is bound, as text. */
void streams_name_socket(int fd, char address[64]);

const char *streams_path(const char *name, char path[128]);
struct rota_tls *streams_tls(bool is_server, const char *certificate, const char *key,
                             const char *ca);
int streams_setup(void **state);
int streams_setup_tls(void **state);
void streams_drop(struct streams_end *end);

/* End what a test left open; whatever is then still open was lost by a stream. */
int streams_teardown(void **state);
