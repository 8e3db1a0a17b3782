/* What TLS alone decides: whom a stream believes, and what it says when not. */
#include "streams.h"

#include "io/clock.h"

#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* --- helpers --- */

static char path_2[3][128]; /* another certificate, its key, another authority */

static struct certificate make(const char *name, const char *names, const struct certificate *ca)
{
    return certificate_make(&(struct certificate_wish){.name = name, .names = names, .issuer = ca});
}

/* Write another certificate, signed by `ca`, to files of its own. */
static void write_second(struct certificate certificate)
{
    certificate_write(&certificate, streams_path("certificate2", path_2[0]),
                      streams_path("key2", path_2[1]));
    certificate_deinit(&certificate);
}

static void use_server(const char *certificate, const char *key, const char *ca)
{
    rota_tls_free(streams.listen.tls);
    streams.listen.tls = streams_tls(true, certificate, key, ca);
}

static void use_client(const char *certificate, const char *key, const char *ca)
{
    rota_tls_free((struct rota_tls *)streams.connect.tls);
    streams.connect.tls = streams_tls(false, certificate, key, ca);
}

/* Connect and be refused by our own side. */
static void await_refusal(const char *address, const char *phrase)
{
    streams_dial(&streams.client, address);
    await(&streams.loop, &streams.client.n_closed, 1);
    assert_int_equal(streams.client.n_opened, 0);
    streams_assert_reason(&streams.client.reason, ROTA_ERR_IO, phrase);
    assert_non_null(strstr(streams.client.reason.text, "127.0.0.1:"));
}

static const char *by_name(const char *name)
{
    static char address[64];
    snprintf(address, sizeof address, "%s:%s", name, streams_port());
    return address;
}

/* --- certificates --- */

static void both_know_the_peer_by_its_certificate(void **state)
{
    (void)state;
    write_second(make("worker-7", "URI:rota:worker-7,DNS:w7.example", &streams.ca));
    use_server(streams.certificate_path, streams.key_path, streams.ca_path);
    use_client(path_2[0], path_2[1], streams.ca_path);
    streams_listen("127.0.0.1:0");
    streams_meet();
    assert_string_equal(rota_stream_identity(streams.client.stream),
                        "CN=server-1 DNS:localhost IP:127.0.0.1");
    assert_string_equal(rota_stream_identity(streams.server[0].stream),
                        "CN=worker-7 URI:rota:worker-7 DNS:w7.example");
}

static void a_peer_is_named_by_its_common_name_or_a_dns_name(void **state)
{
    static const char *const others[] = {"",       "worker-",       "worker-70", "Worker-7", "w7",
                                         "a.wild", "rota:worker-7", "127.0.0.1", "server-1"};
    (void)state;
    write_second(make("worker-7", "URI:rota:worker-7,DNS:w7.example,DNS:*.wild", &streams.ca));
    use_server(streams.certificate_path, streams.key_path, streams.ca_path);
    use_client(path_2[0], path_2[1], streams.ca_path);
    streams_listen("127.0.0.1:0");
    streams_meet();
    const struct rota_stream *worker = streams.server[0].stream, *server = streams.client.stream;
    assert_true(rota_stream_is_named(worker, "worker-7"));
    assert_true(rota_stream_is_named(worker, "w7.example"));
    assert_true(rota_stream_is_named(worker, "*.wild"));
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        assert_false(rota_stream_is_named(worker, others[i]));
    assert_true(rota_stream_is_named(server, "server-1"));
    assert_true(rota_stream_is_named(server, "localhost"));
    assert_false(rota_stream_is_named(server, "127.0.0.1"));
}

static void a_peer_without_certificate_has_no_name(void **state)
{
    (void)state;
    streams_listen("127.0.0.1:0");
    streams_meet();
    assert_false(rota_stream_is_named(streams.server[0].stream, "server-1"));
    assert_false(rota_stream_is_named(streams.server[0].stream, ""));
}

static void an_identity_is_printable_and_bounded(void **state)
{
    char names[2000] = "DNS:a";
    (void)state;
    for (int i = 0; i < 50; i++)
        snprintf(names + strlen(names), sizeof names - strlen(names), ",DNS:name-%d.example", i);
    write_second(make("evil\n\x1b[2J \"name\"", names, &streams.ca));
    use_server(streams.certificate_path, streams.key_path, streams.ca_path);
    use_client(path_2[0], path_2[1], streams.ca_path);
    streams_listen("127.0.0.1:0");
    streams_meet();
    const char *identity = rota_stream_identity(streams.server[0].stream);
    assert_int_equal(strncmp(identity, "CN=evil??[2J?\"name\" DNS:a DNS:name-0", 36), 0);
    assert_int_equal(strlen(identity), ROTA_TLS_IDENTITY_MAX - 1);
}

static void a_client_without_certificate_is_refused_where_one_is_demanded(void **state)
{
    (void)state;
    use_server(streams.certificate_path, streams.key_path, streams.ca_path);
    streams_listen("127.0.0.1:0");
    streams_dial(&streams.client, streams.address);
    await(&streams.loop, &streams.n_refused, 1);
    await(&streams.loop, &streams.client.n_closed, 1);
    streams_assert_reason(&streams.refusal, ROTA_ERR_IO, "the peer sent no certificate");
    streams_assert_reason(&streams.client.reason, ROTA_ERR_INVALID,
                          "the peer requires a certificate");
    assert_int_equal(streams.n_accepted, 0);
    assert_int_equal(rota_listener_counts(streams.listener).refused, 1);
}

/* The alert must reach a client that is busy writing when it comes. */
static void a_refused_client_that_writes_learns_why(void **state)
{
    (void)state;
    streams.client.habit = STREAMS_SOURCE;
    streams.client.to_send = 4 << 20;
    use_server(streams.certificate_path, streams.key_path, streams.ca_path);
    streams_listen("127.0.0.1:0");
    streams_dial(&streams.client, streams.address);
    await(&streams.loop, &streams.client.n_closed, 1);
    streams_assert_reason(&streams.client.reason, ROTA_ERR_INVALID,
                          "the peer requires a certificate");
}

static void a_client_of_another_authority_is_refused(void **state)
{
    struct certificate other = make("another authority", NULL, NULL);
    (void)state;
    write_second(make("stranger", NULL, &other));
    certificate_deinit(&other);
    use_server(streams.certificate_path, streams.key_path, streams.ca_path);
    use_client(path_2[0], path_2[1], streams.ca_path);
    streams_listen("127.0.0.1:0");
    streams_dial(&streams.client, streams.address);
    await(&streams.loop, &streams.n_refused, 1);
    await(&streams.loop, &streams.client.n_closed, 1);
    streams_assert_reason(&streams.refusal, ROTA_ERR_IO, "CN=stranger");
    streams_assert_reason(&streams.refusal, ROTA_ERR_IO, "trusted CA");
    streams_assert_reason(&streams.client.reason, ROTA_ERR_INVALID, "does not trust the CA");
    assert_int_equal(streams.n_accepted, 0);
}

static void an_expired_client_is_refused(void **state)
{
    (void)state;
    write_second(certificate_make(&(struct certificate_wish){
        .name = "late", .issuer = &streams.ca, .from_s = -7200, .until_s = -3600}));
    use_server(streams.certificate_path, streams.key_path, streams.ca_path);
    use_client(path_2[0], path_2[1], streams.ca_path);
    streams_listen("127.0.0.1:0");
    streams_dial(&streams.client, streams.address);
    await(&streams.loop, &streams.n_refused, 1);
    await(&streams.loop, &streams.client.n_closed, 1);
    streams_assert_reason(&streams.refusal, ROTA_ERR_IO, "it has expired");
    streams_assert_reason(&streams.client.reason, ROTA_ERR_INVALID, "our certificate as expired");
}

static void an_expired_server_is_refused(void **state)
{
    (void)state;
    write_second(certificate_make(&(struct certificate_wish){.name = "late",
                                                             .names = "IP:127.0.0.1",
                                                             .issuer = &streams.ca,
                                                             .from_s = -7200,
                                                             .until_s = -3600}));
    use_server(path_2[0], path_2[1], NULL);
    streams_listen("127.0.0.1:0");
    await_refusal(streams.address, "CN=late IP:127.0.0.1, is rejected: it has expired");
    await(&streams.loop, &streams.n_refused, 1);
    streams_assert_reason(&streams.refusal, ROTA_ERR_INVALID, "our certificate as expired");
}

static void a_server_of_another_authority_is_refused(void **state)
{
    struct certificate other = make("another authority", NULL, NULL);
    (void)state;
    certificate_write(&other, streams_path("ca2", path_2[2]), NULL);
    certificate_deinit(&other);
    use_client(NULL, NULL, path_2[2]);
    streams_listen("127.0.0.1:0");
    await_refusal(streams.address, "not signed by a trusted CA");
    await(&streams.loop, &streams.n_refused, 1);
    streams_assert_reason(&streams.refusal, ROTA_ERR_INVALID, "does not trust the CA");
}

static void a_server_that_the_system_does_not_know_is_refused(void **state)
{
    (void)state;
    use_client(NULL, NULL, NULL);
    streams_listen("127.0.0.1:0");
    await_refusal(streams.address, "not signed by a trusted CA");
}

static void the_servers_name_is_verified(void **state)
{
    (void)state;
    write_second(make("elsewhere", "DNS:elsewhere.example,IP:127.0.0.9", &streams.ca));
    use_server(path_2[0], path_2[1], NULL);
    streams_listen("127.0.0.1:0");
    await_refusal(streams.address, "is for CN=elsewhere DNS:elsewhere.example IP:127.0.0.9, "
                                   "not for 127.0.0.1");
    streams.client = (struct streams_end){0};
    await_refusal(by_name("localhost"), "not for localhost");

    streams.client = (struct streams_end){0};
    streams.connect.tls_name = "elsewhere.example"; /* the name one means, wherever it is */
    streams_meet();
}

static void a_wildcard_stands_for_a_whole_label(void **state)
{
    (void)state;
    write_second(make("wild", "DNS:*.a.example,DNS:no*.b.example", &streams.ca));
    use_server(path_2[0], path_2[1], NULL);
    streams_listen("127.0.0.1:0");
    streams.connect.tls_name = "node.b.example";
    await_refusal(streams.address, "not for node.b.example");

    streams.client = (struct streams_end){0};
    streams.connect.tls_name = "node.a.example";
    streams_meet();
}

static void a_name_may_end_in_a_dot(void **state)
{
    (void)state;
    streams.connect.tls_name = "localhost.";
    streams_listen("127.0.0.1:0");
    streams_meet();
}

/* For OpenSSL an empty name is a wish not to verify. */
static void a_name_is_always_verified(void **state)
{
    static const char *const names[] = {"", ".", "..", ".example"};
    const struct rota_stream_handler handler = {0};
    struct rota_stream *stream = NULL;
    struct rota_error error;
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        streams.connect.tls_name = names[i];
        assert_int_equal(rota_stream_connect(&streams.loop, "127.0.0.1:1", &streams.connect,
                                             &handler, &stream, &error),
                         ROTA_ERR_INVALID);
        assert_non_null(strstr(error.text, "not a verifiable name"));
    }
    assert_null(stream);
}

static void each_side_has_its_own_kind_of_tls(void **state)
{
    struct rota_tls *server = streams.listen.tls;
    const struct rota_stream_options options = {.tls = server};
    const struct rota_stream_handler handler = {0};
    struct rota_stream *stream = NULL;
    struct rota_error error;
    (void)state;
    assert_int_equal(
        rota_stream_connect(&streams.loop, "127.0.0.1:1", &options, &handler, &stream, &error),
        ROTA_ERR_INVALID);
    assert_non_null(strstr(error.text, "the TLS settings of a server cannot be used by a client"));

    streams.listen.tls = (struct rota_tls *)streams.connect.tls;
    streams_listen("127.0.0.1:0");
    streams.listen.tls = server;
    int fd = streams_socket(streams.address, false);
    await(&streams.loop, &streams.n_refused, 1);
    streams_assert_reason(&streams.refusal, ROTA_ERR_INVALID, "cannot be used by a server");
    close(fd);
}

/* --- peers that speak something else --- */

/* A peer made of OpenSSL alone, on a thread of its own. */
struct foreigner {
    uv_thread_t thread;
    bool is_server;
    int fd;
    int version_max;      /* 0: any */
    const char *protocol; /* for ALPN, with its length in front; NULL: none */
    bool is_through;      /* its handshake succeeded */
    int reason;           /* OpenSSL's, for what ended it */
};

static void foreigner_run(void *data)
{
    struct foreigner *self = data;
    SSL_CTX *context = SSL_CTX_new(self->is_server ? TLS_server_method() : TLS_client_method());
    if (self->is_server) {
        int fd = accept(self->fd, NULL, NULL);
        close(self->fd);
        self->fd = fd;
        SSL_CTX_use_certificate(context, streams.own.x509);
        SSL_CTX_use_PrivateKey(context, streams.own.key);
    }
    if (self->version_max)
        SSL_CTX_set_max_proto_version(context, self->version_max);
    if (self->protocol)
        SSL_CTX_set_alpn_protos(context, (const unsigned char *)self->protocol,
                                (unsigned)strlen(self->protocol));
    SSL *ssl = SSL_new(context);
    char byte;
    SSL_set_fd(ssl, self->fd);
    self->is_through = (self->is_server ? SSL_accept(ssl) : SSL_connect(ssl)) == 1;
    if (self->is_through && SSL_write(ssl, "x", 1) == 1)
        SSL_read(ssl, &byte, 1);
    self->reason = ERR_GET_REASON(ERR_peek_error());
    ERR_clear_error();
    SSL_free(ssl);
    SSL_CTX_free(context);
    close(self->fd);
}

static void foreigner_start(struct foreigner *self, int fd)
{
    self->fd = fd;
    fcntl(fd, F_SETFL, 0); /* it may wait */
    assert_int_equal(uv_thread_create(&self->thread, foreigner_run, self), 0);
}

static void a_client_must_offer_h2(void **state)
{
    static const char *const protocols[] = {NULL, "\x08http/1.1"};
    (void)state;
    streams_listen("127.0.0.1:0");
    for (size_t i = 0; i < 2; i++) {
        struct foreigner client = {.protocol = protocols[i]};
        foreigner_start(&client, streams_socket(streams.address, false));
        await(&streams.loop, &streams.n_refused, i + 1);
        uv_thread_join(&client.thread);
        streams_assert_reason(&streams.refusal, ROTA_ERR_IO, "does not offer h2");
        assert_false(client.is_through);
        assert_int_equal(client.reason, SSL_AD_REASON_OFFSET + SSL_AD_NO_APPLICATION_PROTOCOL);
    }
    assert_int_equal(streams.n_accepted, 0);
}

static void a_server_must_agree_on_h2(void **state)
{
    struct foreigner server = {.is_server = true};
    (void)state;
    int fd = streams_socket(":0", true);
    streams_name_socket(fd, streams.address);
    foreigner_start(&server, fd);
    await_refusal(streams.address, "did not agree on h2");
    uv_run(&streams.loop, UV_RUN_DEFAULT); /* what it still has to send, and its end */
    uv_thread_join(&server.thread);
}

static void tls_1_2_is_accepted_and_nothing_older(void **state)
{
    (void)state;
    streams_listen("127.0.0.1:0");
    struct foreigner client = {.protocol = "\x02h2", .version_max = TLS1_2_VERSION};
    foreigner_start(&client, streams_socket(streams.address, false));
    await(&streams.loop, &streams.n_accepted, 1);
    await(&streams.loop, &streams.server[0].n_got, 1);
    streams_drop(&streams.server[0]);
    uv_run(&streams.loop, UV_RUN_NOWAIT);
    uv_thread_join(&client.thread);
    assert_true(client.is_through);

    struct foreigner older = {.protocol = "\x02h2", .version_max = TLS1_1_VERSION};
    foreigner_start(&older, streams_socket(streams.address, false));
    await(&streams.loop, &streams.n_refused, 1);
    uv_thread_join(&older.thread);
    assert_false(older.is_through);
}

static void plain_text_to_a_tls_port_is_recognized_by_both(void **state)
{
    const struct rota_tls *tls = streams.connect.tls;
    (void)state;
    streams_listen("127.0.0.1:0");
    streams.connect.tls = NULL;
    streams.client.habit = STREAMS_SOURCE;
    streams.client.to_send = 1 << 20;
    streams_dial(&streams.client, streams.address);
    await(&streams.loop, &streams.client.n_closed, 1);
    await(&streams.loop, &streams.n_refused, 1);
    streams_assert_reason(&streams.refusal, ROTA_ERR_IO, "the peer speaks plaintext");
    streams_assert_reason(&streams.client.reason, ROTA_ERR_INVALID, "the peer speaks TLS");
    streams.connect.tls = tls;
}

static void tls_to_a_plain_port_is_recognized_by_both(void **state)
{
    struct rota_tls *tls = streams.listen.tls;
    (void)state;
    streams.listen.tls = NULL;
    streams_listen("127.0.0.1:0");
    streams.listen.tls = tls;
    streams_dial(&streams.client, streams.address);
    await(&streams.loop, &streams.client.n_closed, 1);
    streams_assert_reason(&streams.client.reason, ROTA_ERR_UNAVAILABLE, "does it speak TLS?");
    assert_int_equal(streams.n_accepted, 1);
    streams_assert_reason(&streams.server[0].reason, ROTA_ERR_INVALID, "the peer speaks TLS");
}

static void an_answer_in_plain_text_is_recognized(void **state)
{
    static const char answer[] = "HTTP/1.1 400 Bad Request\r\n\r\n";
    (void)state;
    int listening = streams_socket(":0", true), fd;
    streams_name_socket(listening, streams.address);
    streams_dial(&streams.client, streams.address);
    while ((fd = accept(listening, NULL, NULL)) < 0)
        uv_run(&streams.loop, UV_RUN_ONCE);
    assert_int_equal(write(fd, answer, sizeof answer - 1), sizeof answer - 1);
    await(&streams.loop, &streams.client.n_closed, 1);
    streams_assert_reason(&streams.client.reason, ROTA_ERR_IO, "the peer speaks plaintext");
    close(fd);
    close(listening);
}

/* Every first kilobyte of noise is refused with a sentence, and none crashes. */
static void noise_is_refused(void **state)
{
    uint64_t seed = 88172645463325252u;
    (void)state;
    streams_listen("127.0.0.1:0");
    for (size_t round = 0; round < 50; round++) {
        char noise[1024] = {0x16, 3, 1, 0x03, (char)0xf0};
        for (size_t i = round % 2 ? 5 : 1; i < sizeof noise; i++) {
            seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
            noise[i] = (char)seed;
        }
        int fd = streams_socket(streams.address, false);
        while (write(fd, noise, sizeof noise) < 0)
            uv_run(&streams.loop, UV_RUN_NOWAIT);
        shutdown(fd, SHUT_WR);
        await(&streams.loop, &streams.n_refused, round + 1);
        close(fd);
    }
    assert_int_equal(streams.n_accepted, 0);
}

static void an_unresponsive_peer_loses_its_place(void **state)
{
    (void)state;
    streams.listen.open_timeout = 50 * ROTA_MSEC;
    streams_listen("127.0.0.1:0");
    int fd = streams_socket(streams.address, false);
    await(&streams.loop, &streams.n_refused, 1);
    streams_assert_reason(&streams.refusal, ROTA_ERR_UNAVAILABLE, "timed out");
    while (rota_listener_counts(streams.listener).connections > 0)
        uv_run(&streams.loop, UV_RUN_ONCE);
    close(fd);
}

static void an_unresponsive_server_is_given_up(void **state)
{
    (void)state;
    int listening = streams_socket(":0", true);
    streams_name_socket(listening, streams.address);
    streams.connect.open_timeout = 50 * ROTA_MSEC;
    streams_dial(&streams.client, streams.address);
    await(&streams.loop, &streams.client.n_closed, 1);
    streams_assert_reason(&streams.client.reason, ROTA_ERR_UNAVAILABLE, "timed out");
    close(listening);
}

static void a_listener_that_closes_drops_those_in_the_handshake(void **state)
{
    (void)state;
    streams_listen("127.0.0.1:0");
    int fd = streams_socket(streams.address, false);
    while (rota_listener_counts(streams.listener).connections == 0)
        uv_run(&streams.loop, UV_RUN_ONCE);
    rota_listener_close(streams.listener);
    streams.listener = NULL;
    uv_run(&streams.loop, UV_RUN_DEFAULT); /* ends: nothing is left */
    assert_int_equal(streams.n_refused, 0);
    close(fd);
}

static void an_end_without_close_notify_is_an_error(void **state)
{
    (void)state;
    streams_listen("127.0.0.1:0");
    streams_meet();
    streams_drop(&streams.client);
    await(&streams.loop, &streams.server[0].n_closed, 1);
    streams_assert_reason(&streams.server[0].reason, ROTA_ERR_IO, "without a TLS close_notify");
}

/* --- files --- */

static void reloading_affects_only_new_connections(void **state)
{
    struct certificate next = make("server-2", "IP:127.0.0.1", &streams.ca);
    struct streams_end second = {0};
    struct rota_error error;
    (void)state;
    streams.model.habit = STREAMS_ECHO;
    streams_listen("127.0.0.1:0");
    streams_meet();
    certificate_write(&next, streams.certificate_path, streams.key_path);
    certificate_deinit(&next);
    assert_int_equal(rota_tls_reload(streams.listen.tls, &error), ROTA_OK);

    streams_dial(&second, streams.address);
    await(&streams.loop, &second.n_opened, 1);
    assert_non_null(strstr(rota_stream_identity(second.stream), "CN=server-2"));
    assert_non_null(strstr(rota_stream_identity(streams.client.stream), "CN=server-1"));
    streams_write(&streams.client, 100);
    await(&streams.loop, &streams.client.n_got, 100);
    assert_int_equal(streams.client.n_wrong, 0);
    streams_drop(&second);
}

static void a_bad_file_leaves_the_old_one_in_use(void **state)
{
    struct rota_error error;
    struct certificate other = make("server-2", "IP:127.0.0.1", &streams.ca);
    rota_time expires_at = rota_tls_expires_at(streams.listen.tls);
    (void)state;
    streams_listen("127.0.0.1:0");
    certificate_write(&other, streams.certificate_path, NULL); /* and the key of the first */
    assert_int_equal(rota_tls_reload(streams.listen.tls, &error), ROTA_ERR_INVALID);
    assert_non_null(strstr(error.text, "key does not belong to the certificate"));
    await_write(streams.certificate_path, "-----BEGIN CERTIFICATE-----\nbroken\n");
    assert_int_equal(rota_tls_reload(streams.listen.tls, &error), ROTA_ERR_INVALID);
    assert_non_null(strstr(error.text, streams.certificate_path));
    unlink(streams.certificate_path);
    assert_int_equal(rota_tls_reload(streams.listen.tls, &error), ROTA_ERR_NOT_FOUND);
    assert_non_null(strstr(error.text, streams.certificate_path));
    certificate_deinit(&other);

    assert_int_equal(rota_tls_expires_at(streams.listen.tls), expires_at);
    streams_meet();
    assert_non_null(strstr(rota_stream_identity(streams.client.stream), "CN=server-1"));
}

static void refuse(bool is_server, const char *certificate, const char *key, const char *ca,
                   const char *phrase)
{
    const struct rota_tls_options options = {
        .certificate_file = certificate, .key_file = key, .ca_file = ca};
    struct rota_tls *tls = NULL;
    struct rota_error error = {0};
    assert_true(is_server ? rota_tls_server_new(&options, &tls, &error)
                          : rota_tls_client_new(&options, &tls, &error));
    assert_null(tls);
    if (!strstr(error.text, phrase))
        fail_msg("\"%s\" and not \"%s\"", error.text, phrase);
}

static void errors_in_a_file_are_named(void **state)
{
    const char *good = streams.certificate_path, *key = streams.key_path;
    char path[128];
    FILE *file;
    (void)state;
    streams_path("key2", path);
    refuse(true, NULL, NULL, NULL, "needs a certificate");
    refuse(true, good, NULL, NULL, "only a certificate is given");
    refuse(false, NULL, key, NULL, "only a key is given");
    refuse(true, "/nonexistent/c", key, NULL, "/nonexistent/c: No such file");
    refuse(true, good, streams.directory, NULL, "is a directory");
    refuse(true, key, key, NULL, "contains no PEM certificate");
    refuse(true, good, good, NULL, "contains no PEM private key");
    refuse(false, NULL, NULL, key, "contains no PEM certificate");
    await_write(path, "");
    refuse(true, path, key, NULL, "contains no PEM certificate");
    refuse(true, good, path, NULL, "contains no PEM private key");

    assert_non_null(file = fopen(path, "w"));
    PEM_write_PrivateKey(file, streams.own.key, EVP_aes_128_cbc(), (const unsigned char *)"pw", 2,
                         NULL, NULL);
    fclose(file);
    refuse(true, good, path, NULL, "needs a password");
    assert_int_equal(chmod(key, 0644), 0);
    refuse(true, good, key, NULL,
           "other users can read the secret in it (mode 0644); run chmod 600 ");
    assert_int_equal(chmod(key, 0602), 0);
    refuse(false, good, key, NULL, "other users can change the secret in it (mode 0602)");
    assert_int_equal(chmod(key, 0640), 0);
    use_server(good, key, NULL); /* its group may */
    assert_non_null(file = fopen(path, "w"));
    for (int i = 0; i < (ROTA_TLS_FILE_MAX >> 10) + 1; i++)
        fprintf(file, "%1023d\n", i);
    fclose(file);
    refuse(true, path, key, NULL, "larger than");
}

static void the_expiry_of_a_certificate_is_known_and_warned_of(void **state)
{
    struct rota_error warning = {0};
    rota_time now = rota_clock_wall(), end = rota_tls_expires_at(streams.listen.tls);
    (void)state;
    assert_in_range(end, now + 3500 * ROTA_SEC, now + 3600 * ROTA_SEC);
    assert_int_equal(rota_tls_expires_at(streams.connect.tls), ROTA_TIME_NEVER);
    assert_false(rota_tls_has_warning(streams.connect.tls, now, NULL));

    assert_true(rota_tls_has_warning(streams.listen.tls, end, &warning));
    assert_non_null(strstr(warning.text, "expired at"));
    assert_non_null(strstr(warning.text, streams.certificate_path));
    assert_true(rota_tls_has_warning(streams.listen.tls, now, &warning));
    assert_non_null(strstr(warning.text, "will expire at"));
    assert_true(rota_tls_has_warning(streams.listen.tls, now - 2 * ROTA_HOUR, &warning));
    assert_non_null(strstr(warning.text, "is not valid before"));

    write_second(certificate_make(&(struct certificate_wish){
        .name = "for ever", .issuer = &streams.ca, .from_s = -1, .until_s = 86400L * 365 * 7000}));
    use_server(path_2[0], path_2[1], NULL);
    assert_int_equal(rota_tls_expires_at(streams.listen.tls), ROTA_TIME_NEVER);
    assert_false(rota_tls_has_warning(streams.listen.tls, now, NULL));
}

static void a_chain_is_sent_with_the_certificate(void **state)
{
    struct certificate middle = certificate_make(&(struct certificate_wish){
        .name = "middle", .issuer = &streams.ca, .is_authority = true, .until_s = 1800});
    struct certificate leaf = make("leaf", "IP:127.0.0.1", &middle);
    FILE *file;
    (void)state;
    certificate_write(&leaf, streams_path("certificate2", path_2[0]),
                      streams_path("key2", path_2[1]));
    assert_non_null(file = fopen(path_2[0], "a"));
    PEM_write_X509(file, middle.x509);
    fclose(file);
    certificate_deinit(&leaf);
    certificate_deinit(&middle);
    use_server(path_2[0], path_2[1], NULL);
    assert_in_range(rota_tls_expires_at(streams.listen.tls), rota_clock_wall(),
                    rota_clock_wall() + 1800 * ROTA_SEC); /* the middle one runs out first */
    streams_listen("127.0.0.1:0");
    streams_meet();
}

#define UNDER_TLS(test)                                                                            \
    {                                                                                              \
#test, test, streams_setup_tls, streams_teardown, NULL                                     \
    }

int main(void)
{
    const struct CMUnitTest tests[] = {
        UNDER_TLS(both_know_the_peer_by_its_certificate),
        UNDER_TLS(a_peer_is_named_by_its_common_name_or_a_dns_name),
        UNDER_TLS(a_peer_without_certificate_has_no_name),
        UNDER_TLS(an_identity_is_printable_and_bounded),
        UNDER_TLS(a_client_without_certificate_is_refused_where_one_is_demanded),
        UNDER_TLS(a_refused_client_that_writes_learns_why),
        UNDER_TLS(a_client_of_another_authority_is_refused),
        UNDER_TLS(an_expired_client_is_refused),
        UNDER_TLS(an_expired_server_is_refused),
        UNDER_TLS(a_server_of_another_authority_is_refused),
        UNDER_TLS(a_server_that_the_system_does_not_know_is_refused),
        UNDER_TLS(the_servers_name_is_verified),
        UNDER_TLS(a_wildcard_stands_for_a_whole_label),
        UNDER_TLS(a_name_may_end_in_a_dot),
        UNDER_TLS(a_name_is_always_verified),
        UNDER_TLS(each_side_has_its_own_kind_of_tls),
        UNDER_TLS(a_client_must_offer_h2),
        UNDER_TLS(a_server_must_agree_on_h2),
        UNDER_TLS(tls_1_2_is_accepted_and_nothing_older),
        UNDER_TLS(plain_text_to_a_tls_port_is_recognized_by_both),
        UNDER_TLS(tls_to_a_plain_port_is_recognized_by_both),
        UNDER_TLS(an_answer_in_plain_text_is_recognized),
        UNDER_TLS(noise_is_refused),
        UNDER_TLS(an_unresponsive_peer_loses_its_place),
        UNDER_TLS(an_unresponsive_server_is_given_up),
        UNDER_TLS(a_listener_that_closes_drops_those_in_the_handshake),
        UNDER_TLS(an_end_without_close_notify_is_an_error),
        UNDER_TLS(reloading_affects_only_new_connections),
        UNDER_TLS(a_bad_file_leaves_the_old_one_in_use),
        UNDER_TLS(errors_in_a_file_are_named),
        UNDER_TLS(the_expiry_of_a_certificate_is_known_and_warned_of),
        UNDER_TLS(a_chain_is_sent_with_the_certificate),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
