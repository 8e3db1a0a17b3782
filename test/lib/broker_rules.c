#include "broker_rules.h"

struct bench bench;

int set_up(void **state)
{
    (void)state;
    bench.options = (struct rota_broker_options){.seed = 7};
    bench_init(&bench);
    return 0;
}

int tear_down(void **state)
{
    (void)state;
    bench_deinit(&bench);
    return 0;
}
