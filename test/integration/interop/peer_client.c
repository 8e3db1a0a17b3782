#include "interop.pb-c.h"
#include "peer.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    BIG = 3 << 20,
    TOO_BIG = 5 << 20,
    N_STREAMED = 10000,
    N_CONCURRENT = 2000,
};

#define PATIENCE (20 * ROTA_SEC) /* for what should come at once */
#define TEXT     "día 100% \xe2\x80\x94 \xe6\xbc\xa2\xe5\xad\x97\n"

struct client {
    uv_loop_t *loop;
    const char *address;
    struct rota_tls *tls;
    struct rota_channel *channel;
    int n_checks, n_failed;
};

/* How one call has ended. */
struct outcome {
    bool is_over;
    enum rota_status status;
    char text[ROTA_ERROR_TEXT_MAX];
    uint8_t *message;
    size_t size;
    char head[64], tail[64], binary[64];
    size_t binary_size;
    bool may_have_run;
};

static bool check(struct client *client, bool is_right, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static bool check(struct client *client, bool is_right, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    printf("%s %d - ", is_right ? "ok" : "not ok", ++client->n_checks);
    vprintf(format, args);
    printf("\n");
    fflush(stdout);
    va_end(args);
    client->n_failed += !is_right;
    return is_right;
}

/* Check how a call ended, and tell if it was otherwise. */
static bool check_ended(struct client *client, const struct outcome *outcome,
                        enum rota_status status, const char *name)
{
    bool is_right = outcome->status == status;
    if (!is_right)
        printf("# ended as %s: %s\n", rota_status_name(outcome->status), outcome->text);
    return check(client, is_right, "%s", name);
}

/* --- calls --- */

static void copy_value(const struct rota_call_result *result, const char *name, char *to,
                       size_t room, size_t *size)
{
    struct rota_str value;
    if (!rota_metadata_get(result->metadata, result->n_metadata, name, &value) ||
        value.size >= room)
        return;
    memcpy(to, value.data, value.size);
    to[value.size] = '\0';
    if (size)
        *size = value.size;
}

static void on_end(void *data, struct rota_call *call, const struct rota_call_result *result)
{
    struct outcome *outcome = data;
    (void)call;
    outcome->is_over = true;
    outcome->status = result->status;
    outcome->may_have_run = result->may_have_run;
    snprintf(outcome->text, sizeof outcome->text, "%.*s", ROTA_STR_ARGS(result->text));
    outcome->size = result->message.size;
    outcome->message = malloc(outcome->size + 1);
    if (!outcome->message)
        abort();
    if (outcome->size > 0)
        memcpy(outcome->message, result->message.data, outcome->size);
    copy_value(result, "x-head", outcome->head, sizeof outcome->head, NULL);
    copy_value(result, "x-tail", outcome->tail, sizeof outcome->tail, NULL);
    copy_value(result, "x-tail-bin", outcome->binary, sizeof outcome->binary,
               &outcome->binary_size);
}

static void outcome_deinit(struct outcome *outcome)
{
    free(outcome->message);
    *outcome = (struct outcome){0};
}

/* Start a call of `method` with `message` and all else from `options`. */
static struct rota_call *start(struct client *client, const char *method,
                               const ProtobufCMessage *message, struct rota_call_options options,
                               struct outcome *outcome)
{
    struct rota_call *call = NULL;
    struct rota_error error;
    size_t size = protobuf_c_message_get_packed_size(message);
    uint8_t *bytes = malloc(size + 1);
    if (!bytes)
        abort();
    protobuf_c_message_pack(message, bytes);
    *outcome = (struct outcome){0};
    options.method = rota_str(method);
    options.request = rota_str_of(bytes, size);
    options.on_end = on_end;
    options.data = outcome;
    if (options.timeout == 0)
        options.timeout = PATIENCE;
    if (rota_channel_call(client->channel, &options, &call, &error)) {
        outcome->is_over = true;
        outcome->status = ROTA_STATUS_UNAVAILABLE;
        snprintf(outcome->text, sizeof outcome->text, "%s", error.text);
    }
    free(bytes);
    return call;
}

static void await(struct client *client, const struct outcome *outcome)
{
    while (!outcome->is_over)
        uv_run(client->loop, UV_RUN_ONCE);
}

static void call(struct client *client, const char *method, const ProtobufCMessage *message,
                 struct outcome *outcome)
{
    start(client, method, message, (struct rota_call_options){0}, outcome);
    await(client, outcome);
}

/* Is it OK with `size` bytes, each of them `byte`? */
static bool is_echo(const struct outcome *outcome, size_t size, uint8_t byte)
{
    Rota__Test__V1__EchoReply *reply = NULL;
    if (outcome->status == ROTA_STATUS_OK)
        reply = rota__test__v1__echo_reply__unpack(NULL, outcome->size, outcome->message);
    bool is_right = reply && reply->payload.len == size;
    for (size_t i = 0; is_right && i < size; i++)
        is_right = reply->payload.data[i] == byte;
    if (!is_right)
        printf("# %s %s, %zu bytes\n", rota_status_name(outcome->status), outcome->text,
               reply ? reply->payload.len : 0);
    if (reply)
        rota__test__v1__echo_reply__free_unpacked(reply, NULL);
    return is_right;
}

static bool echoes(struct client *client, size_t size)
{
    Rota__Test__V1__EchoRequest request = ROTA__TEST__V1__ECHO_REQUEST__INIT;
    struct outcome outcome;
    uint8_t *payload = malloc(size + 1);
    if (!payload)
        abort();
    memset(payload, 'e', size);
    request.payload = (ProtobufCBinaryData){size, payload};
    call(client, PEER_METHOD("Echo"), &request.base, &outcome);
    bool is_right = is_echo(&outcome, size, 'e');
    outcome_deinit(&outcome);
    free(payload);
    return is_right;
}

static Rota__Test__V1__CountReply counts(struct client *client)
{
    Rota__Test__V1__CountRequest request = ROTA__TEST__V1__COUNT_REQUEST__INIT;
    Rota__Test__V1__CountReply result = ROTA__TEST__V1__COUNT_REPLY__INIT, *reply;
    struct outcome outcome;
    call(client, PEER_METHOD("Count"), &request.base, &outcome);
    reply = rota__test__v1__count_reply__unpack(NULL, outcome.size, outcome.message);
    if (outcome.status != ROTA_STATUS_OK || !reply) {
        printf("Bail out! Count: %s\n", outcome.text);
        exit(1);
    }
    result = *reply;
    rota__test__v1__count_reply__free_unpacked(reply, NULL);
    outcome_deinit(&outcome);
    return result;
}

/* --- the checks --- */

static void check_unary(struct client *client)
{
    check(client, echoes(client, 100), "unary");
    check(client, echoes(client, 0), "empty message");
    check(client, echoes(client, BIG), "3 MiB both ways");
}

static void check_errors(struct client *client)
{
    Rota__Test__V1__FailRequest request = ROTA__TEST__V1__FAIL_REQUEST__INIT;
    Rota__Test__V1__Pair text = ROTA__TEST__V1__PAIR__INIT, binary = ROTA__TEST__V1__PAIR__INIT;
    Rota__Test__V1__Pair *pairs[] = {&text, &binary};
    struct outcome outcome;
    int n_right = 0;
    for (request.code = 1; request.code <= 16; request.code++) {
        request.text = (char *)TEXT;
        call(client, PEER_METHOD("Fail"), &request.base, &outcome);
        n_right += outcome.status == request.code && strcmp(outcome.text, TEXT) == 0;
        outcome_deinit(&outcome);
    }
    check(client, n_right == 16, "every status, with a text in UTF-8");

    request.code = ROTA_STATUS_ABORTED;
    text.name = (char *)"x-tail";
    text.value = (ProtobufCBinaryData){5, (uint8_t *)"later"};
    binary.name = (char *)"x-tail-bin";
    binary.value = (ProtobufCBinaryData){4, (uint8_t *)"\0\xff\x80,"};
    request.n_metadata = 2;
    request.metadata = pairs;
    call(client, PEER_METHOD("Fail"), &request.base, &outcome);
    check_ended(client, &outcome, ROTA_STATUS_ABORTED, "error with metadata");
    check(client, strcmp(outcome.tail, "later") == 0, "metadata of an error");
    check(client, outcome.binary_size == 4 && memcmp(outcome.binary, "\0\xff\x80,", 4) == 0,
          "binary metadata of an error");
    outcome_deinit(&outcome);

    call(client, PEER_METHOD("Nothing"), &request.base, &outcome);
    check_ended(client, &outcome, ROTA_STATUS_UNIMPLEMENTED, "unknown method");
    outcome_deinit(&outcome);
    call(client, "/no.Service/Nothing", &request.base, &outcome);
    check_ended(client, &outcome, ROTA_STATUS_UNIMPLEMENTED, "unknown service");
    outcome_deinit(&outcome);
}

static void check_metadata(struct client *client)
{
    Rota__Test__V1__EchoRequest request = ROTA__TEST__V1__ECHO_REQUEST__INIT;
    const struct rota_metadata pairs[] = {
        {rota_str("x-head"), rota_str("before")},
        {rota_str("x-tail"), rota_str("after")},
        {rota_str("x-tail-bin"), rota_str_of("\0\1\2\xff", 4)},
    };
    struct rota_call_options options = {.metadata = pairs, .n_metadata = 3};
    struct outcome outcome;
    start(client, PEER_METHOD("Echo"), &request.base, options, &outcome);
    await(client, &outcome);
    check(client, strcmp(outcome.head, "before") == 0, "metadata in the head");
    check(client, strcmp(outcome.tail, "after") == 0, "metadata behind the reply");
    check(client, outcome.binary_size == 4 && memcmp(outcome.binary, "\0\1\2\xff", 4) == 0,
          "binary metadata");
    outcome_deinit(&outcome);
}

/* Ask until the server has seen so many cancelled, and none asleep. */
static bool sees_cancelled(struct client *client, uint32_t n)
{
    rota_time until = (rota_time)uv_hrtime() + PATIENCE;
    for (;;) {
        Rota__Test__V1__CountReply now = counts(client);
        if (now.cancelled == n && now.sleeping == 0)
            return true;
        if ((rota_time)uv_hrtime() > until)
            return false;
    }
}

static void check_deadline(struct client *client)
{
    Rota__Test__V1__SleepRequest request = ROTA__TEST__V1__SLEEP_REQUEST__INIT;
    struct rota_call_options options = {.timeout = 200 * ROTA_MSEC};
    struct outcome outcome;
    uint32_t n = counts(client).cancelled;
    start(client, PEER_METHOD("Sleep"), &request.base, options, &outcome);
    await(client, &outcome);
    check_ended(client, &outcome, ROTA_STATUS_DEADLINE_EXCEEDED, "deadline at the client");
    outcome_deinit(&outcome);
    check(client, sees_cancelled(client, n + 1), "deadline at the server");
    uint32_t ms = counts(client).timeout_ms;
    check(client, ms > 0 && ms <= 220, "the server was told of the deadline");
    printf("# the server saw %u of 200 ms\n", ms);
}

static void check_cancel(struct client *client)
{
    Rota__Test__V1__SleepRequest request = ROTA__TEST__V1__SLEEP_REQUEST__INIT;
    struct rota_call_options options = {0};
    struct outcome outcome;
    uint32_t n = counts(client).cancelled;
    struct rota_call *asleep =
        start(client, PEER_METHOD("Sleep"), &request.base, options, &outcome);
    while (counts(client).sleeping == 0)
        ;
    rota_call_cancel(asleep);
    check(client, sees_cancelled(client, n + 1), "a cancelled call ends at the server");
}

static void check_limits(struct client *client)
{
    Rota__Test__V1__EchoRequest request = ROTA__TEST__V1__ECHO_REQUEST__INIT;
    struct outcome outcome;
    request.payload = (ProtobufCBinaryData){TOO_BIG, calloc(1, TOO_BIG)};
    call(client, PEER_METHOD("Echo"), &request.base, &outcome);
    check_ended(client, &outcome, ROTA_STATUS_RESOURCE_EXHAUSTED, "a request too large");
    check(client, rota_channel_state(client->channel) == ROTA_CHANNEL_READY,
          "the connection stays");
    outcome_deinit(&outcome);
    free(request.payload.data);

    request.payload = (ProtobufCBinaryData){0};
    request.reply_size = TOO_BIG;
    call(client, PEER_METHOD("Echo"), &request.base, &outcome);
    check_ended(client, &outcome, ROTA_STATUS_RESOURCE_EXHAUSTED, "a reply too large");
    check(client, rota_channel_state(client->channel) == ROTA_CHANNEL_READY && echoes(client, 1),
          "the connection stays and serves");
    outcome_deinit(&outcome);
}

/* --- streams --- */

static struct {
    uint32_t n, size;
    bool is_wrong, is_stopped; /* stopped: it takes one message and no more */
    struct rota_call *paused;
} streamed;

static void on_message(void *data, struct rota_call *call, struct rota_str message)
{
    Rota__Test__V1__StreamReply *reply =
        rota__test__v1__stream_reply__unpack(NULL, message.size, (const uint8_t *)message.data);
    (void)data;
    if (!reply || reply->index != streamed.n || reply->payload.len != streamed.size)
        streamed.is_wrong = true;
    if (reply)
        rota__test__v1__stream_reply__free_unpacked(reply, NULL);
    streamed.n++;
    if (streamed.is_stopped || streamed.n % 500 == 0) {
        rota_call_pause(call);
        streamed.paused = call;
    }
}

/* What was paused continues before the loop waits. */
static void on_prepare(uv_prepare_t *prepare)
{
    (void)prepare;
    if (streamed.paused)
        rota_call_resume(streamed.paused);
    streamed.paused = NULL;
}

static void check_stream(struct client *client)
{
    uv_prepare_t prepare;
    Rota__Test__V1__StreamRequest request = ROTA__TEST__V1__STREAM_REQUEST__INIT;
    struct rota_call_options options = {.on_message = on_message, .timeout = 60 * ROTA_SEC};
    struct outcome outcome;
    memset(&streamed, 0, sizeof streamed);
    request.n = N_STREAMED;
    request.size = streamed.size = 1000;
    uv_prepare_init(client->loop, &prepare);
    uv_prepare_start(&prepare, on_prepare);
    start(client, PEER_METHOD("Stream"), &request.base, options, &outcome);
    await(client, &outcome);
    uv_prepare_stop(&prepare);
    check_ended(client, &outcome, ROTA_STATUS_OK, "stream");
    check(client, streamed.n == N_STREAMED && !streamed.is_wrong, "%u messages in their order",
          streamed.n);
    outcome_deinit(&outcome);

    request.n = 0;
    start(client, PEER_METHOD("Stream"), &request.base, options, &outcome);
    await(client, &outcome);
    check_ended(client, &outcome, ROTA_STATUS_OK, "stream without a message");
    outcome_deinit(&outcome);
    uv_close((uv_handle_t *)&prepare, NULL);
    uv_run(client->loop, UV_RUN_NOWAIT);
}

static void check_held_back(struct client *client)
{
    Rota__Test__V1__StreamRequest request = ROTA__TEST__V1__STREAM_REQUEST__INIT;
    struct rota_call_options options = {.on_message = on_message, .timeout = 60 * ROTA_SEC};
    struct outcome outcome;
    Rota__Test__V1__CountReply before = counts(client), now = before, last;
    memset(&streamed, 0, sizeof streamed);
    request.n = 5000;
    request.size = streamed.size = 50000;
    streamed.is_stopped = true;
    struct rota_call *stream =
        start(client, PEER_METHOD("Stream"), &request.base, options, &outcome);
    int n_same = 0;
    while (n_same < 50) {
        last = now;
        now = counts(client);
        n_same = streamed.n > 0 && now.streamed == last.streamed ? n_same + 1 : 0;
    }
    check(client, streamed.n == 1 && now.streamed - before.streamed < request.n,
          "a reader that stops holds the server back");
    printf("# after %u of %u messages\n", now.streamed - before.streamed, request.n);
    rota_call_cancel(stream);
    check(client, sees_cancelled(client, before.cancelled + 1),
          "a cancelled stream ends at the server");
}

static void check_many(struct client *client)
{
    Rota__Test__V1__EchoRequest request = ROTA__TEST__V1__ECHO_REQUEST__INIT;
    struct outcome *outcomes = calloc(N_CONCURRENT, sizeof *outcomes);
    int n_right = 0;
    if (!outcomes)
        abort();
    request.payload = (ProtobufCBinaryData){4, (uint8_t *)"many"};
    for (int i = 0; i < N_CONCURRENT; i++)
        start(client, PEER_METHOD("Echo"), &request.base,
              (struct rota_call_options){.timeout = 60 * ROTA_SEC}, &outcomes[i]);
    for (int i = 0; i < N_CONCURRENT; i++) {
        await(client, &outcomes[i]);
        n_right += outcomes[i].status == ROTA_STATUS_OK;
        outcome_deinit(&outcomes[i]);
    }
    free(outcomes);
    check(client, n_right == N_CONCURRENT, "%d calls at one time", N_CONCURRENT);
}

static void check_keepalive(struct client *client)
{
    Rota__Test__V1__SleepRequest request = ROTA__TEST__V1__SLEEP_REQUEST__INIT;
    struct rota_channel_options options = {.tls = client->tls,
                                           .keepalive_interval = 200 * ROTA_MSEC,
                                           .keepalive_timeout = 10 * ROTA_SEC};
    struct client other = *client;
    struct outcome outcome;
    if (rota_channel_open(client->loop, client->address, &options, &other.channel, NULL))
        abort();
    request.ms = 1500;
    call(&other, PEER_METHOD("Sleep"), &request.base, &outcome);
    check_ended(client, &outcome, ROTA_STATUS_OK, "pings while a call waits");
    outcome_deinit(&outcome);
    rota_channel_close(other.channel);
}

static void open_channel(struct client *client, uv_loop_t *loop, const char *address,
                         struct rota_tls *tls)
{
    const struct rota_channel_options options = {.tls = tls, .backoff_max = 500 * ROTA_MSEC};
    struct rota_error error;
    *client = (struct client){.loop = loop, .address = address, .tls = tls};
    if (rota_channel_open(loop, address, &options, &client->channel, &error)) {
        printf("Bail out! %s\n", error.text);
        exit(1);
    }
}

static int done(struct client *client)
{
    printf("1..%d\n", client->n_checks);
    rota_channel_close(client->channel);
    return client->n_failed;
}

int peer_check(uv_loop_t *loop, const char *address, struct rota_tls *tls, char **what)
{
    struct client client;
    (void)what; /* nothing that our client could ask for */
    open_channel(&client, loop, address, tls);
    check_unary(&client);
    check_errors(&client);
    check_metadata(&client);
    check_deadline(&client);
    check_cancel(&client);
    check_limits(&client);
    check_stream(&client);
    check_held_back(&client);
    check_many(&client);
    check_keepalive(&client);
    return done(&client);
}

/* --- a server that is replaced --- */

static bool is_told_to_end;

static void on_line(uv_poll_t *poll, int status, int events)
{
    (void)status;
    (void)events;
    is_told_to_end = true;
    uv_close((uv_handle_t *)poll, NULL);
}

/* One echo, again as long as the server has not acted on it. */
static bool echo_at_last(struct client *client, bool may_cancel, int *n_again)
{
    Rota__Test__V1__EchoRequest request = ROTA__TEST__V1__ECHO_REQUEST__INIT;
    struct rota_call_options options = {.wait_for_ready = true, .timeout = 60 * ROTA_SEC};
    struct outcome outcome;
    for (;; ++*n_again) {
        start(client, PEER_METHOD("Echo"), &request.base, options, &outcome);
        await(client, &outcome);
        bool is_right = outcome.status == ROTA_STATUS_OK;
        bool is_unseen = (outcome.status == ROTA_STATUS_UNAVAILABLE && !outcome.may_have_run) ||
                         (outcome.status == ROTA_STATUS_CANCELLED && may_cancel);
        if (!is_right && !is_unseen)
            printf("# %s: %s\n", rota_status_name(outcome.status), outcome.text);
        outcome_deinit(&outcome);
        if (is_right || !is_unseen)
            return is_right;
    }
}

int peer_survive(uv_loop_t *loop, const char *address, struct rota_tls *tls, char **what)
{
    bool may_cancel = *what && strcmp(*what, "cancels") == 0;
    bool may_drop = *what && strcmp(*what, "drops") == 0;
    Rota__Test__V1__SleepRequest request = ROTA__TEST__V1__SLEEP_REQUEST__INIT;
    struct rota_call_options options = {.timeout = 30 * ROTA_SEC};
    struct outcome outcome;
    struct client client;
    uv_poll_t input;
    int n_calls = 0, n_failed = 0, n_again = 0;
    open_channel(&client, loop, address, tls);
    request.ms = 700;
    start(&client, PEER_METHOD("Sleep"), &request.base, options, &outcome);
    while (counts(&client).sleeping == 0)
        ;
    uv_poll_init(loop, &input, 0);
    uv_poll_start(&input, UV_READABLE, on_line);
    for (int n_after = 0; n_after < 100; n_calls++) {
        if (n_calls == 50) {
            printf("holding\n");
            fflush(stdout);
        }
        n_failed += !echo_at_last(&client, may_cancel, &n_again);
        n_after += is_told_to_end;
    }
    await(&client, &outcome);
    if (may_drop && outcome.status != ROTA_STATUS_OK)
        check_ended(&client, &outcome, ROTA_STATUS_UNAVAILABLE, "the call under way is dropped");
    else
        check_ended(&client, &outcome, ROTA_STATUS_OK, "the call under way finishes in the drain");
    check(&client, n_failed == 0, "no call is lost while the server is replaced");
    printf("# %d calls, %d made again by us\n", n_calls, n_again);
    outcome_deinit(&outcome);
    return done(&client);
}
