/* gRPC's framing and header fields: the cut of the input does not matter, no
 * message is beyond the limit, and what is read can be written again. */
#include "wire/grpc/grpc.h"

#include <assert.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MESSAGE_MAX = 300 };

/* Messages and their bytes, added up; the last thing found. */
struct seen {
    size_t n, n_bytes;
    enum rota_grpc_found last;
};

static struct seen decode(struct rota_str input, size_t step)
{
    struct rota_grpc_decoder decoder = {.max = MESSAGE_MAX};
    struct seen seen = {.last = ROTA_GRPC_MORE};
    while (input.size > 0 && seen.last == ROTA_GRPC_MORE) {
        struct rota_str part = {input.data, input.size < step ? input.size : step};
        input.data += part.size;
        input.size -= part.size;
        while ((seen.last = rota_grpc_decoder_next(&decoder, &part)) == ROTA_GRPC_MESSAGE) {
            assert(decoder.message.size <= MESSAGE_MAX);
            seen.n++;
            seen.n_bytes += decoder.message.size;
        }
    }
    rota_buffer_deinit(&decoder.message);
    return seen;
}

static void check_texts(struct rota_str text)
{
    struct rota_buffer one = {0}, two = {0};
    rota_time span;
    if (!rota_grpc_timeout_parse(text, &span))
        assert(span >= 0);
    rota_grpc_status_parse(text);

    rota_grpc_percent_encode(&one, text);
    rota_grpc_percent_decode(&two, rota_buffer_str(&one));
    if (text.size <= ROTA_GRPC_TEXT_MAX)
        assert(rota_str_is_equal(rota_buffer_str(&two), text));

    rota_buffer_clear(&one);
    rota_buffer_clear(&two);
    rota_grpc_base64_encode(&one, text);
    enum rota_code code = rota_grpc_base64_decode(&two, rota_buffer_str(&one));
    assert(code == ROTA_OK && rota_str_is_equal(rota_buffer_str(&two), text));
    rota_buffer_clear(&two);
    rota_grpc_percent_decode(&two, text);
    assert(two.size <= text.size);
    rota_buffer_clear(&two);
    rota_grpc_base64_decode(&two, text);
    assert(two.size <= text.size);
    rota_buffer_deinit(&one);
    rota_buffer_deinit(&two);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct rota_str input = rota_str_of(data, size);
    struct seen whole = decode(input, size + 1), bytewise = decode(input, 1);
    assert(whole.n == bytewise.n && whole.n_bytes == bytewise.n_bytes);
    assert(whole.last == bytewise.last);
    check_texts(input);
    return 0;
}
