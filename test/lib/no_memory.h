/* Allocations that fail when a test says so, in a program that is linked with
 * --wrap=malloc and so on (`no_memory_args` in test/meson.build).
 *
 *     no_memory_everywhere(scenario);
 *
 * runs the scenario again and again: first its first allocation fails, then the second, and
 * so on until it meets no failure any more; then the same with all allocations from there on. Only
 * what runs between no_memory_arm() and no_memory_disarm() fails. After each run everything
 * has to be freed. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Atomic, since programs have threads. */
extern struct no_memory {
    atomic_bool is_armed, is_lasting;
    atomic_uint_fast64_t n, fails_at, n_failed;
    atomic_int_fast64_t n_live;
} no_memory;

void no_memory_everywhere(void (*scenario)(void));

/* One allocation fails in each run, or all from there on. */
void no_memory_each(void (*scenario)(void), bool is_lasting);

void no_memory_arm(void);
void no_memory_disarm(void);

/* There is memory again, whatever was to fail. */
void no_memory_end(void);

/* Whether one has failed in this run. */
bool no_memory_has_failed(void);

/* A machine is stepped by helpers of other tests, whose own allocations do not fail:
 *
 *     #define rota_view_fsm_step(...) NO_MEMORY_IN(rota_view_fsm_step(__VA_ARGS__))
 *
 * before their .c file is included: the test compiles it again. */
#define NO_MEMORY_IN(call)                                                                         \
    __extension__({                                                                                \
        no_memory_arm();                                                                           \
        __typeof__(call) answer_ = (call);                                                         \
        no_memory_disarm();                                                                        \
        answer_;                                                                                   \
    })
#define NO_MEMORY_DURING(statement) (no_memory_arm(), (statement), no_memory_disarm())
