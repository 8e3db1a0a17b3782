#include "descriptors.h"
#include "interop.pb-c.h"
#include "peer.h"

#include <rota/experimental/health.h>
#include <rota/experimental/reflection.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

struct service {
    struct rota_server *server;
    struct rota_health *health;
    struct rota_reflection *reflection;
    uv_loop_t *loop;
    uv_signal_t signal;
    Rota__Test__V1__CountReply counts;
    bool is_cut; /* calls were cut off in the drain */
};

/* A call of Sleep, or of Stream. */
struct sleeper {
    uv_timer_t timer;
    struct service *service;
    struct rota_server_call *call;
};

struct streamer {
    uint32_t index, n, size;
    uint8_t *payload;
};

static void bad_request(struct rota_server_call *call)
{
    rota_server_call_finish(call, ROTA_STATUS_INVALID_ARGUMENT, "no such message", NULL, 0);
}

static struct rota_str pack(const ProtobufCMessage *message, struct rota_str *place)
{
    size_t size = protobuf_c_message_get_packed_size(message);
    uint8_t *data = malloc(size + 1);
    if (!data)
        abort();
    protobuf_c_message_pack(message, data);
    *place = rota_str_of(data, size);
    return *place;
}

static void reply(struct rota_server_call *call, const ProtobufCMessage *message)
{
    struct rota_str bytes;
    rota_server_call_reply(call, pack(message, &bytes));
    free((void *)bytes.data);
}

#define UNPACK(type, call)                                                                         \
    rota__test__v1__##type##__unpack(NULL, rota_server_call_request(call).size,                    \
                                     (const uint8_t *)rota_server_call_request(call).data)

/* --- Echo --- */

enum { PAIRS_MAX = 32 };

static size_t pairs_of(struct rota_server_call *call, const char *prefix,
                       struct rota_metadata found[PAIRS_MAX])
{
    size_t n, n_found = 0;
    const struct rota_metadata *pairs = rota_server_call_metadata(call, &n);
    for (size_t i = 0; i < n && n_found < PAIRS_MAX; i++)
        if (rota_str_has_prefix(pairs[i].name, rota_str(prefix)))
            found[n_found++] = pairs[i];
    return n_found;
}

static void on_echo(void *data, struct rota_server_call *call)
{
    Rota__Test__V1__EchoRequest *request = UNPACK(echo_request, call);
    Rota__Test__V1__EchoReply message = ROTA__TEST__V1__ECHO_REPLY__INIT;
    struct rota_metadata head[PAIRS_MAX], tail[PAIRS_MAX];
    struct rota_str bytes;
    uint8_t *zeros = NULL;
    (void)data;
    if (!request) {
        bad_request(call);
        return;
    }
    message.payload = request->payload;
    if (request->reply_size > 0) {
        zeros = calloc(1, request->reply_size);
        message.payload = (ProtobufCBinaryData){request->reply_size, zeros};
    }
    size_t n_head = pairs_of(call, "x-head", head);
    size_t n_tail = pairs_of(call, "x-tail", tail);
    if (n_head > 0)
        rota_server_call_head(call, head, n_head, NULL);
    rota_server_call_send(call, pack(&message.base, &bytes));
    rota_server_call_finish(call, ROTA_STATUS_OK, NULL, tail, n_tail);
    free((void *)bytes.data);
    free(zeros);
    rota__test__v1__echo_request__free_unpacked(request, NULL);
}

/* --- Fail --- */

static void on_fail(void *data, struct rota_server_call *call)
{
    Rota__Test__V1__FailRequest *request = UNPACK(fail_request, call);
    struct rota_metadata pairs[PAIRS_MAX];
    size_t n = 0;
    (void)data;
    if (!request) {
        bad_request(call);
        return;
    }
    for (; n < request->n_metadata && n < PAIRS_MAX; n++)
        pairs[n] = (struct rota_metadata){
            rota_str(request->metadata[n]->name),
            rota_str_of(request->metadata[n]->value.data, request->metadata[n]->value.len)};
    rota_server_call_finish(call, (enum rota_status)request->code, request->text, pairs, n);
    rota__test__v1__fail_request__free_unpacked(request, NULL);
}

/* --- Sleep --- */

static void on_sleeper_closed(uv_handle_t *handle)
{
    free(handle->data);
}

static void wake(struct sleeper *sleeper)
{
    sleeper->service->counts.sleeping--;
    uv_close((uv_handle_t *)&sleeper->timer, on_sleeper_closed);
}

static void on_woken(uv_timer_t *timer)
{
    struct sleeper *sleeper = timer->data;
    Rota__Test__V1__SleepReply message = ROTA__TEST__V1__SLEEP_REPLY__INIT;
    struct rota_server_call *call = sleeper->call;
    wake(sleeper);
    reply(call, &message.base);
}

static void on_sleep(void *data, struct rota_server_call *call)
{
    struct service *service = data;
    Rota__Test__V1__SleepRequest *request = UNPACK(sleep_request, call);
    struct sleeper *sleeper = malloc(sizeof *sleeper);
    if (!request || !sleeper)
        abort();
    rota_time left = rota_server_call_time_left(call);
    service->counts.sleeping++;
    service->counts.timeout_ms =
        left == ROTA_TIME_NEVER ? 0 : (uint32_t)((left + ROTA_MSEC - 1) / ROTA_MSEC);
    sleeper->service = service;
    sleeper->call = call;
    uv_timer_init(service->loop, &sleeper->timer);
    sleeper->timer.data = sleeper;
    if (request->ms > 0)
        uv_timer_start(&sleeper->timer, on_woken, request->ms, 0);
    rota_server_call_set_data(call, sleeper);
    rota__test__v1__sleep_request__free_unpacked(request, NULL);
}

static void on_sleep_cancel(void *data, struct rota_server_call *call)
{
    struct service *service = data;
    service->counts.cancelled++;
    wake(rota_server_call_data(call));
    rota_server_call_finish(call, ROTA_STATUS_CANCELLED, NULL, NULL, 0);
}

/* --- Count --- */

static void on_count(void *data, struct rota_server_call *call)
{
    struct service *service = data;
    reply(call, &service->counts.base);
}

/* --- Stream --- */

static void stream_end(struct rota_server_call *call, enum rota_status status)
{
    struct streamer *streamer = rota_server_call_data(call);
    rota_server_call_finish(call, status, NULL, NULL, 0);
    free(streamer->payload);
    free(streamer);
}

static void on_stream_room(void *data, struct rota_server_call *call)
{
    struct service *service = data;
    struct streamer *streamer = rota_server_call_data(call);
    Rota__Test__V1__StreamReply message = ROTA__TEST__V1__STREAM_REPLY__INIT;
    message.payload = (ProtobufCBinaryData){streamer->size, streamer->payload};
    for (; streamer->index < streamer->n; streamer->index++) {
        struct rota_str bytes;
        message.index = streamer->index;
        enum rota_code code = rota_server_call_send(call, pack(&message.base, &bytes));
        free((void *)bytes.data);
        if (code) /* on_room, or on_cancel, follows */
            return;
        service->counts.streamed++;
    }
    stream_end(call, ROTA_STATUS_OK);
}

static void on_stream(void *data, struct rota_server_call *call)
{
    Rota__Test__V1__StreamRequest *request = UNPACK(stream_request, call);
    struct streamer *streamer = calloc(1, sizeof *streamer);
    if (!request || !streamer || !(streamer->payload = calloc(1, request->size + 1)))
        abort();
    streamer->n = request->n;
    streamer->size = request->size;
    rota_server_call_set_data(call, streamer);
    rota__test__v1__stream_request__free_unpacked(request, NULL);
    on_stream_room(data, call);
}

static void on_stream_cancel(void *data, struct rota_server_call *call)
{
    struct service *service = data;
    service->counts.cancelled++;
    stream_end(call, ROTA_STATUS_CANCELLED);
}

/* --- Chat --- */

static void on_chat(void *data, struct rota_server_call *call)
{
    struct service *service = data;
    (void)call; /* the messages follow */
    service->counts.sleeping++;
}

static void chat_end(struct service *service, struct rota_server_call *call,
                     enum rota_status status)
{
    service->counts.sleeping--;
    rota_server_call_finish(call, status, NULL, NULL, 0);
}

static void on_chat_message(void *data, struct rota_server_call *call, struct rota_str message)
{
    Rota__Test__V1__EchoRequest *request =
        rota__test__v1__echo_request__unpack(NULL, message.size, (const uint8_t *)message.data);
    Rota__Test__V1__EchoReply back = ROTA__TEST__V1__ECHO_REPLY__INIT;
    struct rota_str bytes;
    if (!request) {
        chat_end(data, call, ROTA_STATUS_INVALID_ARGUMENT);
        return;
    }
    back.payload = request->payload;
    enum rota_code code = rota_server_call_send(call, pack(&back.base, &bytes));
    free((void *)bytes.data);
    rota__test__v1__echo_request__free_unpacked(request, NULL);
    if (code == ROTA_ERR_LIMIT) /* it does not take its replies */
        chat_end(data, call, ROTA_STATUS_RESOURCE_EXHAUSTED);
}

static void on_chat_end(void *data, struct rota_server_call *call)
{
    chat_end(data, call, ROTA_STATUS_OK);
}

static void on_chat_cancel(void *data, struct rota_server_call *call)
{
    struct service *service = data;
    service->counts.cancelled++;
    chat_end(service, call, ROTA_STATUS_CANCELLED);
}

/* --- SetServing --- */

static void on_set_serving(void *data, struct rota_server_call *call)
{
    struct service *service = data;
    Rota__Test__V1__SetServingRequest *request = UNPACK(set_serving_request, call);
    Rota__Test__V1__SetServingReply message = ROTA__TEST__V1__SET_SERVING_REPLY__INIT;
    if (!request) {
        bad_request(call);
        return;
    }
    rota_health_set(service->health, PEER_SERVICE, request->serving, NULL);
    rota__test__v1__set_serving_request__free_unpacked(request, NULL);
    reply(call, &message.base);
}

/* --- life --- */

static void on_drained(void *data, size_t n_cut)
{
    struct service *service = data;
    service->is_cut = n_cut > 0;
    rota_server_close(service->server);
    rota_health_close(service->health);
    rota_reflection_close(service->reflection);
    uv_close((uv_handle_t *)&service->signal, NULL);
}

static void on_signal(uv_signal_t *signal, int number)
{
    struct service *service = signal->data;
    (void)number;
    rota_server_drain(service->server, 30 * ROTA_SEC, on_drained, service);
}

int peer_serve(uv_loop_t *loop, const char *address, struct rota_tls *tls, char **what)
{
    struct service service = {.loop = loop, .counts = ROTA__TEST__V1__COUNT_REPLY__INIT};
    const struct rota_server_options options = {.tls = tls};
    const struct rota_server_method methods[] = {
        {.path = PEER_METHOD("Echo"), .on_call = on_echo},
        {.path = PEER_METHOD("Fail"), .on_call = on_fail},
        {.path = PEER_METHOD("Sleep"), .on_call = on_sleep, .on_cancel = on_sleep_cancel},
        {.path = PEER_METHOD("Count"), .on_call = on_count},
        {.path = PEER_METHOD("Stream"),
         .on_call = on_stream,
         .on_room = on_stream_room,
         .on_cancel = on_stream_cancel},
        {.path = PEER_METHOD("Chat"),
         .on_call = on_chat,
         .on_message = on_chat_message,
         .on_requests_end = on_chat_end,
         .on_cancel = on_chat_cancel},
        {.path = PEER_METHOD("SetServing"), .on_call = on_set_serving},
    };
    const struct rota_str sets[] = {rota_proto_descriptors, rota_test_descriptors};
    struct rota_error error;
    (void)what;
    if (rota_server_open(loop, &options, &service.server, &error))
        goto fail;
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++) {
        struct rota_server_method method = methods[i];
        method.data = &service;
        if (rota_server_add(service.server, &method, &error))
            goto fail;
    }
    if (rota_health_open(service.server, &service.health, &error) ||
        rota_health_set(service.health, PEER_SERVICE, true, &error) ||
        rota_reflection_open(service.server, sets, 2, &service.reflection, &error) ||
        rota_server_listen(service.server, address, &error))
        goto fail;
    uv_signal_init(loop, &service.signal);
    service.signal.data = &service;
    uv_signal_start(&service.signal, on_signal, SIGTERM);
    printf("ready %s\n", rota_server_address(service.server, 0));
    fflush(stdout);
    uv_run(loop, UV_RUN_DEFAULT);
    return service.is_cut;

fail:
    fprintf(stderr, "peer: %s\n", error.text);
    rota_server_close(service.server);
    rota_health_close(service.health);
    rota_reflection_close(service.reflection);
    return 1;
}
