#include "core/call/get/held.h"

#include <rota/experimental/random.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

static void one_alone_may_hold_half(void **state)
{
    struct rota_held held = {.max = 1000, .size = 500, .n = 1};
    (void)state;
    assert_true(rota_held_fits(&held, 500));
    held.size = 501;
    assert_false(rota_held_fits(&held, 501));
}

static void modest_connections_are_served_while_greedy_ones_are_refused(void **state)
{
    struct rota_held held = {.max = 1000, .size = 900, .n = 10};
    (void)state;
    assert_true(rota_held_fits(&held, 50));
    assert_false(rota_held_fits(&held, 51));
}

static void all_together_never_hold_more_than_the_bound(void **state)
{
    enum { N = 50 };
    (void)state;
    for (uint64_t seed = 1; seed <= 200; seed++) {
        struct rota_random random;
        rota_random_init(&random, seed);
        struct rota_held held = {.max = 10000, .n = N};
        size_t own[N] = {0};
        for (int step = 0; step < 2000; step++) {
            size_t who = rota_random_below(&random, N);
            size_t more = rota_random_below(&random, 3000);
            own[who] += more;
            held.size += more;
            if (!rota_held_fits(&held, own[who]) || rota_random_below(&random, 8) == 0) {
                held.size -= own[who]; /* the call is refused, or done */
                own[who] = 0;
            }
            assert_true(held.size <= held.max);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_alone_may_hold_half),
        cmocka_unit_test(modest_connections_are_served_while_greedy_ones_are_refused),
        cmocka_unit_test(all_together_never_hold_more_than_the_bound),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
