#include "node/rules/node_memory.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void parts_are_the_whole(void **state)
{
    (void)state;
    for (uint64_t memory = UINT64_C(1) << 30; memory <= UINT64_C(1) << 44;
         memory = memory * 3 + 7) {
        struct rota_node_memory parts = rota_node_memory_split(memory);
        assert_true(parts.jobs + parts.grpc + parts.http == memory);
        assert_true(parts.jobs >= memory / 8 * 7);
    }
}

static void one_request_fits_however_little_there_is(void **state)
{
    struct rota_node_memory parts = rota_node_memory_split(1 << 20);
    (void)state;
    assert_int_equal(parts.grpc, ROTA_NODE_GRPC_MIN);
    assert_int_equal(parts.http, ROTA_NODE_HTTP_MIN);
    assert_int_equal(parts.jobs, (1 << 20) / 8 * 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_are_the_whole),
        cmocka_unit_test(one_request_fits_however_little_there_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
