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
static struct {
    atomic_bool is_armed, is_lasting;
    atomic_uint_fast64_t n, fails_at, n_failed;
    atomic_int_fast64_t n_live;
} no_memory;

void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *old, size_t size);
void __real_free(void *memory);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *old, size_t size);
void __wrap_free(void *memory);
char *__wrap_strdup(const char *text);
char *__wrap_strndup(const char *text, size_t size);

static inline bool no_memory_fails(void)
{
    if (!no_memory.is_armed || no_memory.fails_at == 0)
        return false;
    uint64_t n = ++no_memory.n;
    bool fails = no_memory.is_lasting ? n >= no_memory.fails_at : n == no_memory.fails_at;
    no_memory.n_failed += fails;
    return fails;
}

void *__wrap_malloc(size_t size)
{
    void *memory = no_memory_fails() ? NULL : __real_malloc(size);
    no_memory.n_live += memory != NULL;
    return memory;
}

void *__wrap_calloc(size_t n, size_t size)
{
    void *memory = no_memory_fails() ? NULL : __real_calloc(n, size);
    no_memory.n_live += memory != NULL;
    return memory;
}

void *__wrap_realloc(void *old, size_t size)
{
    void *memory = no_memory_fails() ? NULL : __real_realloc(old, size);
    no_memory.n_live += memory != NULL && old == NULL;
    return memory;
}

void __wrap_free(void *memory)
{
    no_memory.n_live -= memory != NULL;
    __real_free(memory);
}

char *__wrap_strdup(const char *text)
{
    size_t size = strlen(text) + 1;
    char *copy = __wrap_malloc(size);
    return copy ? memcpy(copy, text, size) : NULL;
}

char *__wrap_strndup(const char *text, size_t size)
{
    size_t length = strnlen(text, size);
    char *copy = __wrap_malloc(length + 1);
    if (copy) {
        memcpy(copy, text, length);
        copy[length] = '\0';
    }
    return copy;
}

static inline void no_memory_arm(void)
{
    no_memory.is_armed = true;
}

static inline void no_memory_disarm(void)
{
    no_memory.is_armed = false;
}

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

/* There is memory again, whatever was to fail. */
static inline void no_memory_end(void)
{
    no_memory.fails_at = 0;
}

/* Whether one has failed in this run. */
static inline bool no_memory_has_failed(void)
{
    return no_memory.n_failed > 0;
}

/* One allocation fails in each run, or all from there on. */
static inline void no_memory_each(void (*scenario)(void), bool is_lasting)
{
    enum { ALLOCATIONS_MAX = 100000 };
    for (uint64_t i = 1;; i++) {
        assert_true(i < ALLOCATIONS_MAX);
        memset(&no_memory, 0, sizeof no_memory);
        no_memory.is_lasting = is_lasting;
        no_memory.fails_at = i;
        scenario();
        no_memory_disarm();
        if (no_memory.n_live != 0)
            fail_msg("%lld allocations are left when number %llu%s fails",
                     (long long)no_memory.n_live, (unsigned long long)i,
                     is_lasting ? " and all after it" : "");
        if (!no_memory_has_failed()) {
            assert_true(i > 1); /* it does allocate */
            break;
        }
    }
    memset(&no_memory, 0, sizeof no_memory);
}

static inline void no_memory_everywhere(void (*scenario)(void))
{
    no_memory_each(scenario, false);
    no_memory_each(scenario, true);
}
