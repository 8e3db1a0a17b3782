/* The messages of rota.v1.Cache, beside protobuf-c: see oracle.h. */
#include "oracle.h"
#include "wire/message/cache_message.h"

#include "cache.pb-c.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct rota_str bytes = rota_str_of(data, size);
    oracle_check(&ROTA_CACHE_REQUEST, &rota__v1__get_request__descriptor, bytes);
    oracle_check(&ROTA_CACHE_RESPONSE, &rota__v1__get_response__descriptor, bytes);
    return 0;
}
