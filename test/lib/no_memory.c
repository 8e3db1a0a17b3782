#include "no_memory.h"

struct no_memory no_memory;

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

static bool no_memory_fails(void)
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

void no_memory_arm(void)
{
    no_memory.is_armed = true;
}

void no_memory_disarm(void)
{
    no_memory.is_armed = false;
}

void no_memory_end(void)
{
    no_memory.fails_at = 0;
}

bool no_memory_has_failed(void)
{
    return no_memory.n_failed > 0;
}

void no_memory_each(void (*scenario)(void), bool is_lasting)
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

void no_memory_everywhere(void (*scenario)(void))
{
    no_memory_each(scenario, false);
    no_memory_each(scenario, true);
}
