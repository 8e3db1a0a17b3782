/* Bytes from a hostile peer into both kinds of session, while the owner does what it
 * may from its callbacks: nothing is read that is not there, every call that began is
 * released once, and the sums come out. The first byte chooses the side, how the bytes
 * are cut and what the owner does first. */
#include "wire/http2/http2.h"

#include <assert.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { CALLS_MAX = 4096, N_OURS = 3 };

struct side {
    struct rota_http2 *session;
    struct rota_http2_call *ours[N_OURS]; /* a client's; NULL once released */
    size_t n_taken, n_released;
    unsigned chance;
};

static struct rota_http2_call *on_accept(void *data)
{
    struct side *side = data;
    if (side->n_taken - side->n_released >= CALLS_MAX)
        return NULL;
    struct rota_http2_call *call = malloc(sizeof *call);
    if (call) {
        rota_http2_call_init(call);
        side->n_taken++;
    }
    return call;
}

static void on_head(void *data, struct rota_http2_call *call)
{
    struct side *side = data;
    size_t n;
    rota_grpc_head_fields_pairs(&call->head.metadata, &n);
    assert(n <= ROTA_GRPC_HEAD_SIZE_MAX);
    unsigned what = side->chance++ % 5;
    if (what == 3)
        rota_http2_expect_stream(call);
    else if (what == 4)
        rota_http2_finish(call, ROTA_STATUS_UNIMPLEMENTED, rota_str("no"), NULL, 0);
}

/* Answer, answer in part, drop, or keep silent. */
static void on_request(void *data, struct rota_http2_call *call)
{
    struct side *side = data;
    switch (side->chance++ % 4) {
    case 0:
        rota_http2_send(call, rota_buffer_str(&call->decoder.message));
        rota_http2_finish(call, ROTA_STATUS_OK, rota_str(""), NULL, 0);
        break;
    case 1:
        rota_http2_send(call, rota_str("part"));
        break;
    case 2:
        rota_http2_cancel(call);
        break;
    case 3:
        break;
    }
}

static void on_message(void *data, struct rota_http2_call *call, struct rota_str message)
{
    struct side *side = data;
    assert(message.size <= ROTA_GRPC_MESSAGE_MAX);
    unsigned what = side->chance++ % 8;
    if (what % 3 == 0 || what == 5)
        rota_http2_pause(call);
    if (what == 4 || what == 5)
        rota_http2_cancel(call);
    if (what == 6)
        rota_http2_resume(call);
}

static void on_end(void *data, struct rota_http2_call *call, const struct rota_http2_result *result)
{
    struct side *side = data;
    assert((unsigned)result->status <= ROTA_STATUS_UNAUTHENTICATED);
    unsigned what = side->chance++ % 4;
    struct rota_http2_call *other = side->ours[side->chance % N_OURS];
    if (what == 1)
        rota_http2_cancel(call);
    else if (what == 2 && other)
        rota_http2_cancel(other);
}

static void on_room(void *data, struct rota_http2_call *call)
{
    (void)data;
    (void)call;
}

static void on_release(void *data, struct rota_http2_call *call)
{
    struct side *side = data;
    side->n_released++;
    for (int i = 0; i < N_OURS; i++)
        if (side->ours[i] == call)
            side->ours[i] = NULL;
    rota_http2_call_deinit(call);
    free(call);
}

static void on_goaway(void *data, bool is_calm)
{
    (void)data;
    (void)is_calm;
}

static void start_calls(struct side *side)
{
    for (int i = 0; i < N_OURS; i++) {
        struct rota_http2_call *call = on_accept(side);
        if (!call)
            return;
        enum rota_code code = rota_http2_call_prepare(call, rota_str("/a/b"), rota_str("hello"),
                                                      NULL, 0, i > 0, NULL);
        if (code || rota_http2_start(side->session, call, ROTA_SEC))
            on_release(side, call);
        else
            side->ours[i] = call;
    }
}

/* Those that were paused hear the rest, some of them late. */
static void resume_calls(struct side *side)
{
    for (int i = 0; i < N_OURS; i++)
        if (side->ours[i] && side->chance++ % 3)
            rota_http2_resume(side->ours[i]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    struct side side = {.chance = data[0] >> 1};
    struct rota_http2_options options = {.is_server = data[0] & 1, .authority = "x"};
    struct rota_http2_handler handler = {on_accept, on_head,    on_request, on_message, on_end,
                                         on_room,   on_release, on_goaway,  &side};
    struct rota_buffer out = {0};
    struct rota_str left = rota_str_of(data + 1, size - 1);
    size_t step = data[0] & 2 ? 7 : SIZE_MAX;
    rota_time now = ROTA_SEC;
    if (rota_http2_new(&options, &handler, now, &side.session, NULL))
        return 0;
    if (!options.is_server)
        start_calls(&side);
    bool is_alive = true;
    while (is_alive && left.size > 0) {
        struct rota_str part = {left.data, left.size < step ? left.size : step};
        left.data += part.size;
        left.size -= part.size;
        while (is_alive && part.size > 0)
            is_alive = rota_http2_feed(side.session, now, &part);
        if (is_alive)
            resume_calls(&side);
        rota_buffer_clear(&out);
        is_alive = rota_http2_pull(side.session, &out, SIZE_MAX) && is_alive;
        now += ROTA_MSEC;
    }
    rota_http2_free(side.session, rota_str("the end"));
    assert(side.n_taken == side.n_released);
    rota_buffer_deinit(&out);
    return 0;
}
