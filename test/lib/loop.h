/* The loop of a test in one process, and how to run it until something has happened. */
#pragma once

#include <uv.h>

extern uv_loop_t loop;

#define RUN_UNTIL(condition)                                                                       \
    while (!(condition))                                                                           \
    uv_run(&loop, UV_RUN_ONCE)

/* A test with a new loop that must be empty at its end. */
#define TEST(name) cmocka_unit_test_setup_teardown(name, loop_set_up, loop_tear_down)

int loop_set_up(void **state);
int loop_tear_down(void **state);
