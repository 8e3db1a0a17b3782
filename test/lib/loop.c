#include "loop.h"

uv_loop_t loop;

int loop_set_up(void **state)
{
    (void)state;
    return uv_loop_init(&loop);
}

int loop_tear_down(void **state)
{
    (void)state;
    uv_run(&loop, UV_RUN_DEFAULT);
    return uv_loop_close(&loop);
}
