/* The messages of directories, health and reflection: any bytes are a message or none, the same as
 * protobuf-c finds. The first byte says which message it is. */
#include "oracle.h"
#include "wire/message/directory_message.h"
#include "wire/message/standard_message.h"

#include "directory.pb-c.h"
#include "health.pb-c.h"

#include <assert.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* An enum and a oneof are read in another way than protobuf-c's: a number may have 64 bits, and
 * of several members all are there. */
static void check_standard(const struct rota_message_type *type, struct rota_str bytes)
{
    union {
        struct rota_standard_health_response health;
        struct rota_standard_question question;
    } message, same;
    struct rota_buffer written = {0};
    assert(type->size <= sizeof message);
    if (rota_message_decode(type, bytes, &message, NULL, NULL))
        return;
    rota_message_encode(type, &message, &written);
    assert(!rota_message_decode(type, rota_buffer_str(&written), &same, NULL, NULL));
    assert(message.health.status == same.health.status || type != &ROTA_STANDARD_HEALTH_RESPONSE);
    assert(type != &ROTA_STANDARD_REFLECTION_REQUEST ||
           rota_str_is_equal(message.question.list_services, same.question.list_services));
    rota_buffer_deinit(&written);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    enum { N_KINDS = 7 };
    if (size == 0)
        return 0;
    struct rota_str bytes = rota_str_of(data + 1, size - 1);
    switch (data[0] % N_KINDS) {
    case 0:
    case 2:
        oracle_check(&ROTA_DIRECTORY_SPACE_REPLY, &rota__v1__get_space_reply__descriptor, bytes);
        break;
    case 1:
    case 3:
        oracle_check(&ROTA_DIRECTORY_SPACE_REQUEST, &rota__v1__get_space_request__descriptor,
                     bytes);
        break;
    case 4:
        oracle_check(&ROTA_STANDARD_HEALTH_REQUEST,
                     &grpc__health__v1__health_check_request__descriptor, bytes);
        break;
    case 5:
        check_standard(&ROTA_STANDARD_HEALTH_RESPONSE, bytes);
        break;
    default:
        check_standard(&ROTA_STANDARD_REFLECTION_REQUEST, bytes);
    }
    return 0;
}
