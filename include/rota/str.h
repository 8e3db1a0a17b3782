/* A borrowed string of bytes: any content, no final NUL, valid during the call. */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

struct rota_str {
    const char *data;
    size_t size;
};

/* For printf: printf("%.*s", ROTA_STR_ARGS(s)). */
#define ROTA_STR_ARGS(s) (int)((s).size < INT_MAX ? (s).size : INT_MAX), (s).data

static inline struct rota_str rota_str(const char *text)
{
    struct rota_str str = {text, strlen(text)};
    return str;
}

static inline struct rota_str rota_str_of(const void *data, size_t size)
{
    struct rota_str str = {(const char *)data, size};
    return str;
}

static inline bool rota_str_is_equal(struct rota_str a, struct rota_str b)
{
    return a.size == b.size && (a.size == 0 || memcmp(a.data, b.data, a.size) == 0);
}

/* Bytewise order, with a prefix first: <0, 0, >0. */
static inline int rota_str_compare(struct rota_str a, struct rota_str b)
{
    size_t shorter = a.size < b.size ? a.size : b.size;
    int order = shorter ? memcmp(a.data, b.data, shorter) : 0;
    return order ? order : (a.size > b.size) - (a.size < b.size);
}

static inline bool rota_str_has_prefix(struct rota_str s, struct rota_str prefix)
{
    return s.size >= prefix.size &&
           (prefix.size == 0 || memcmp(s.data, prefix.data, prefix.size) == 0);
}

#ifdef __cplusplus
}
#endif
