/* Errors of a caller whose server is unavailable: each case has its own sentence, with the
 * address in it, and correct callers are served. */
#include "certificate.h"
#include "raw.h"

#include <rota/tls.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A call on a channel of its own to `address` fails with `phrase`. */
static void check_failure(const char *address, const struct rota_channel_options *options,
                          const char *phrase)
{
    struct rota_channel *channel;
    assert_int_equal(rota_channel_open(&loop, address, options, &channel, NULL), ROTA_OK);
    struct seen seen = pair_ask(channel, METHOD_ECHO, rota_str("x"));
    assert_int_equal(seen.status, ROTA_STATUS_UNAVAILABLE);
    if (!strstr(seen.text, phrase) || !strstr(seen.text, address))
        fail_msg("no \"%s\" and %s in: %s", phrase, address, seen.text);
    free(seen.message);
    rota_channel_close(channel);
}

/* --- nobody there --- */

static void in_backoff_a_call_fails_at_once(void **state)
{
    struct rota_channel *channel;
    struct rota_error error;
    (void)state;
    assert_int_equal(rota_channel_open(&loop, "127.0.0.1:1",
                                       &(struct rota_channel_options){.backoff_first = ROTA_HOUR,
                                                                      .backoff_max = ROTA_HOUR},
                                       &channel, NULL),
                     ROTA_OK);
    struct seen seen = pair_ask(channel, METHOD_ECHO, rota_str("x"));
    assert_int_equal(seen.status, ROTA_STATUS_UNAVAILABLE);
    assert_non_null(strstr(seen.text, "127.0.0.1:1"));
    assert_non_null(strstr(seen.text, "connection refused"));
    free(seen.message);
    assert_int_equal(rota_channel_state(channel), ROTA_CHANNEL_BACKOFF);
    struct rota_call_options options = {.method = rota_str(METHOD_ECHO), .on_end = seen_on_end};
    assert_int_equal(rota_channel_call(channel, &options, NULL, &error), ROTA_ERR_UNAVAILABLE);
    assert_non_null(strstr(error.text, "127.0.0.1:1"));
    rota_channel_close(channel);
    pair_settle();
}

static void an_invalid_address_is_refused_before_any_call(void **state)
{
    static const char *const targets[] = {"nonsense", "127.0.0.1:99999", "", ":80", "::1:80", "a:"};
    (void)state;
    for (size_t i = 0; i < sizeof targets / sizeof *targets; i++) {
        struct rota_channel *channel = NULL;
        struct rota_error error = {0};
        assert_int_equal(rota_channel_open(&loop, targets[i], NULL, &channel, &error),
                         ROTA_ERR_INVALID);
        assert_null(channel);
        assert_non_null(strstr(error.text, targets[i]));
    }
}

static void names_and_targets_that_lead_nowhere_are_named(void **state)
{
    static const char *const targets[] = {"no-such-host.invalid:1", "192.0.2.1:80"};
    (void)state;
    for (size_t i = 0; i < sizeof targets / sizeof *targets; i++) {
        struct rota_channel *channel;
        assert_int_equal(rota_channel_open(&loop, targets[i], NULL, &channel, NULL), ROTA_OK);
        struct seen seen = pair_ask(channel, METHOD_ECHO, rota_str("x"));
        assert_int_equal(seen.status, ROTA_STATUS_UNAVAILABLE);
        assert_true(strlen(seen.text) > 10);
        assert_non_null(strstr(seen.text, targets[i]));
        free(seen.message);
        rota_channel_close(channel);
        pair_settle();
    }
}

/* --- somebody else there --- */

static void a_server_of_http1_is_recognized(void **state)
{
    struct rota_channel *channel;
    char address[64];
    (void)state;
    int listening = raw_listen(address);
    assert_int_equal(rota_channel_open(&loop, address, NULL, &channel, NULL), ROTA_OK);
    struct seen seen = {0};
    pair_start(channel, METHOD_ECHO, rota_str("x"), &seen);
    int fd =
        raw_greet(listening, rota_str("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"));
    RUN_UNTIL(seen.n_ended);
    assert_int_equal(seen.status, ROTA_STATUS_UNAVAILABLE);
    assert_non_null(strstr(seen.text, address));
    assert_non_null(
        strstr(seen.text, "the peer does not speak HTTP/2; gRPC is at a node's listen address"));
    free(seen.message);
    close(fd);
    close(listening);
    rota_channel_close(channel);
    pair_settle();
}

/* --- TLS --- */

/* A server that serves `client`, and a client that trusts itself alone. */
struct secure {
    struct pair pair;
    char directory[32], x509[64], key[64], other[64];
    struct rota_tls *server, *client, *stranger;
};

static struct rota_tls *trust(const char *file)
{
    struct rota_tls_options options = {.ca_file = file};
    struct rota_tls *tls;
    assert_int_equal(rota_tls_client_new(&options, &tls, NULL), ROTA_OK);
    return tls;
}

static void secure_open(struct secure *s, const struct certificate_wish *wish)
{
    struct certificate made = certificate_make(wish);
    struct certificate other = certificate_make(&(struct certificate_wish){.name = "other"});
    strcpy(s->directory, "/tmp/rota-failures-XXXXXX");
    assert_non_null(mkdtemp(s->directory));
    snprintf(s->x509, sizeof s->x509, "%s/x509", s->directory);
    snprintf(s->key, sizeof s->key, "%s/key", s->directory);
    snprintf(s->other, sizeof s->other, "%s/other", s->directory);
    certificate_write(&made, s->x509, s->key);
    certificate_write(&other, s->other, NULL);
    certificate_deinit(&made);
    certificate_deinit(&other);

    struct rota_tls_options files = {.certificate_file = s->x509, .key_file = s->key};
    assert_int_equal(rota_tls_server_new(&files, &s->server, NULL), ROTA_OK);
    s->client = trust(s->x509);
    s->stranger = trust(s->other);
    pair_open(&s->pair, &(struct rota_server_options){.tls = s->server},
              &(struct rota_channel_options){.tls = s->client});
}

static void secure_close(struct secure *s)
{
    pair_close(&s->pair);
    rota_tls_free(s->server);
    rota_tls_free(s->client);
    rota_tls_free(s->stranger);
    unlink(s->x509);
    unlink(s->key);
    unlink(s->other);
    rmdir(s->directory);
}

static void only_clients_that_trust_the_server_are_served(void **state)
{
    static char bytes[1 << 20];
    struct secure s;
    (void)state;
    secure_open(&s, &(struct certificate_wish){.name = "test", .names = "IP:127.0.0.1"});
    pair_check_echo(s.pair.channel, rota_str("secret"));
    pair_check_echo(s.pair.channel, rota_str_of(bytes, sizeof bytes));
    check_failure(s.pair.address, &(struct rota_channel_options){.tls = s.stranger},
                  "it is not signed by a trusted CA");
    check_failure(s.pair.address,
                  &(struct rota_channel_options){.tls = s.client, .tls_name = "db.example"},
                  "the peer's certificate is for CN=test IP:127.0.0.1, not for db.example");
    check_failure(s.pair.address, NULL, "the peer speaks TLS, but this side uses plaintext");
    pair_check_echo(s.pair.channel, rota_str("still"));
    secure_close(&s);
}

/* In TLS 1.3 a client has shaken hands before it hears that its certificate is missed, and may
 * have sent a call: nobody has seen that. */
static void a_client_rejected_by_the_server_has_certainly_not_called(void **state)
{
    struct secure s;
    struct rota_tls *server;
    (void)state;
    secure_open(&s, &(struct certificate_wish){.name = "test", .names = "IP:127.0.0.1"});
    struct rota_tls_options files = {
        .certificate_file = s.x509, .key_file = s.key, .ca_file = s.x509};
    assert_int_equal(rota_tls_server_new(&files, &server, NULL), ROTA_OK);
    pair_close(&s.pair);
    pair_open(&s.pair, &(struct rota_server_options){.tls = server},
              &(struct rota_channel_options){.tls = s.client});
    struct seen seen = pair_ask(s.pair.channel, METHOD_ECHO, rota_str("x"));
    assert_int_equal(seen.status, ROTA_STATUS_UNAVAILABLE);
    assert_non_null(strstr(seen.text, "the peer requires a certificate, and this side sent none"));
    assert_false(seen.may_have_run);
    assert_int_equal(rota_channel_reason(s.pair.channel)->code, ROTA_ERR_INVALID);
    free(seen.message);
    secure_close(&s);
    rota_tls_free(server);
}

static void an_expired_server_is_not_called(void **state)
{
    struct secure s;
    (void)state;
    secure_open(&s,
                &(struct certificate_wish){
                    .name = "test", .names = "IP:127.0.0.1", .from_s = -7200, .until_s = -3600});
    check_failure(s.pair.address, &(struct rota_channel_options){.tls = s.client},
                  "it has expired");
    secure_close(&s);
}

static void plaintext_at_a_tls_port_is_rejected(void **state)
{
    struct secure s;
    struct raw raw;
    (void)state;
    secure_open(&s, &(struct certificate_wish){.name = "test", .names = "IP:127.0.0.1"});
    raw_open(&raw, s.pair.address);
    rota_buffer_append_text(&raw.out, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
    raw_flush(&raw);
    RUN_UNTIL(raw.is_closed);
    RUN_UNTIL(rota_server_counts(s.pair.echo.server).handshakes_failed_total == 1);
    assert_int_equal(rota_server_counts(s.pair.echo.server).faults_total, 0);
    pair_check_echo(s.pair.channel, rota_str("secret"));
    raw_deinit(&raw);
    secure_close(&s);
}

static void tls_at_a_plain_port_is_recognized(void **state)
{
    struct pair pair;
    struct rota_tls *tls = NULL;
    (void)state;
    assert_int_equal(rota_tls_client_new(&(struct rota_tls_options){0}, &tls, NULL), ROTA_OK);
    pair_open(&pair, NULL, NULL);
    check_failure(pair.address, &(struct rota_channel_options){.tls = tls},
                  "the peer speaks plaintext, but this side uses TLS");
    pair_check_echo(pair.channel, rota_str("plain"));
    pair_close(&pair);
    rota_tls_free(tls);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        PAIR_TEST(in_backoff_a_call_fails_at_once),
        PAIR_TEST(an_invalid_address_is_refused_before_any_call),
        PAIR_TEST(names_and_targets_that_lead_nowhere_are_named),
        PAIR_TEST(a_server_of_http1_is_recognized),
        PAIR_TEST(only_clients_that_trust_the_server_are_served),
        PAIR_TEST(a_client_rejected_by_the_server_has_certainly_not_called),
        PAIR_TEST(an_expired_server_is_not_called),
        PAIR_TEST(plaintext_at_a_tls_port_is_rejected),
        PAIR_TEST(tls_at_a_plain_port_is_recognized),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
