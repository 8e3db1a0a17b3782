/* The cache's messages, read by our codec and by protobuf-c: what ours takes
 * theirs takes too and sees the same in it; both write the same bytes; and what
 * theirs alone takes (it drops bits that we refuse), once written anew, ours
 * takes too. */
#include "cache_oracle.h"
#include "wire/lean.h"

#include <assert.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_request(struct rota_str input)
{
    struct rota_cache_request request = {0};
    struct rota_buffer ours = {0};
    enum rota_code code = rota_cache_request_decode(&request, input, NULL);
    Rota__V1__GetRequest *theirs =
        rota__v1__get_request__unpack(NULL, input.size, (const uint8_t *)input.data);
    assert(code || (theirs && oracle_request_equal(theirs, &request)));
    if (theirs && code != ROTA_ERR_LIMIT) {
        oracle_forget_unknown(&theirs->base);
        struct rota_buffer packed = oracle_pack(&theirs->base);
        code = rota_cache_request_decode(&request, rota_buffer_str(&packed), NULL);
        assert(!code && oracle_request_equal(theirs, &request));
        code = rota_cache_request_encode(&request, &ours);
        assert(!code && rota_str_is_equal(rota_buffer_str(&packed), rota_buffer_str(&ours)));
        rota_buffer_deinit(&packed);
    }
    if (theirs)
        rota__v1__get_request__free_unpacked(theirs, NULL);
    rota_buffer_deinit(&ours);
    rota_cache_request_deinit(&request);
}

static void forget_unknown(Rota__V1__GetResponse *theirs)
{
    oracle_forget_unknown(&theirs->base);
    for (size_t i = 0; i < theirs->n_entry; i++)
        oracle_forget_unknown(&theirs->entry[i]->base);
    for (size_t i = 0; i < theirs->n_problem; i++)
        oracle_forget_unknown(&theirs->problem[i]->base);
    if (theirs->shard)
        oracle_forget_unknown(&theirs->shard->base);
}

/* A shard that comes in two pieces is to be merged; protobuf-c takes the last. */
static bool has_two_shards(struct rota_str input)
{
    struct rota_lean_reader reader = rota_lean_reader(input);
    struct rota_lean_field field = {0};
    int n = 0;
    while (rota_lean_next(&reader, &field) == ROTA_LEAN_FIELD)
        n += field.number == 2;
    return n > 1;
}

static void check_response(struct rota_str input)
{
    struct rota_cache_response response = {0};
    struct rota_buffer ours = {0};
    enum rota_code code = rota_cache_response_decode(&response, input, NULL);
    Rota__V1__GetResponse *theirs =
        rota__v1__get_response__unpack(NULL, input.size, (const uint8_t *)input.data);
    if (!code && theirs && theirs->shard && has_two_shards(input))
        response.shard =
            (struct rota_interval){theirs->shard->from, theirs->shard->to, theirs->shard->of};
    assert(code || (theirs && oracle_response_equal(theirs, &response)));
    if (theirs && code != ROTA_ERR_LIMIT) {
        forget_unknown(theirs);
        struct rota_buffer packed = oracle_pack(&theirs->base);
        code = rota_cache_response_decode(&response, rota_buffer_str(&packed), NULL);
        assert(!code && oracle_response_equal(theirs, &response));
        code = rota_cache_response_encode(&response, &ours);
        assert(!code && rota_str_is_equal(rota_buffer_str(&packed), rota_buffer_str(&ours)));
        rota_buffer_deinit(&packed);
    }
    if (theirs)
        rota__v1__get_response__free_unpacked(theirs, NULL);
    rota_buffer_deinit(&ours);
    rota_cache_response_deinit(&response);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    check_request(rota_str_of(data, size));
    check_response(rota_str_of(data, size));
    return 0;
}
