/* The frame of tests that show the rules of core/work/broker/broker.h: each has a broker on a
 * bench, of one queue "q". */
#pragma once

#include "work_bench.h"

extern struct bench bench;

int set_up(void **state);
int tear_down(void **state);

#define RULE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
