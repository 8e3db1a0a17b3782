/* The frame of tests that show the rules of core/work/broker.h: each has a broker on a bench, of
 * one queue "q". */
#pragma once

#include "work_bench.h"

static struct bench bench;

static int set_up(void **state)
{
    (void)state;
    bench.options = (struct rota_broker_options){.seed = 7};
    bench_init(&bench);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    bench_deinit(&bench);
    return 0;
}

#define RULE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
