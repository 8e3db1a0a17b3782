/* Paths and queries: what is read is inside the target, and is text. */
#include "base/utf8.h"
#include "wire/grpc/http_target.h"

#include <assert.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const struct rota_http_target *target, struct rota_str str)
{
    assert(str.size == 0 ||
           (str.data >= target->text && str.data + str.size <= target->text + sizeof target->text));
    for (size_t i = 0; i < str.size; i++)
        assert((unsigned char)str.data[i] >= ' ');
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct rota_http_target target;
    struct rota_error error = {0};
    if (rota_http_target_parse(rota_str_of(data, size), &target, &error)) {
        assert(error.code == ROTA_ERR_INVALID && error.text[0]);
        return 0;
    }
    for (size_t i = 0; i < target.n_parts; i++) {
        assert(target.parts[i].size > 0);
        check(&target, target.parts[i]);
    }
    for (size_t i = 0; i < target.n_pairs; i++) {
        check(&target, target.pairs[i].name);
        check(&target, target.pairs[i].value);
    }
    return 0;
}
