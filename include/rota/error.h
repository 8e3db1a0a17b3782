/* What can go wrong, for programs (a code) and for people (a sentence).
 *
 * There are few codes, each for something callers do differently. */
#pragma once

#ifdef __cplusplus
extern "C" {
#endif

enum rota_code {
    ROTA_OK = 0,
    ROTA_ERR_INVALID,     /* the input is wrong; the same call will fail again */
    ROTA_ERR_NOT_FOUND,   /* what was named does not exist */
    ROTA_ERR_LIMIT,       /* a named bound was reached; nothing was done */
    ROTA_ERR_UNAVAILABLE, /* nobody can serve it now; try again later */
    ROTA_ERR_IO,          /* the outside failed: a file, a socket, a database */
    ROTA_ERR_NO_MEMORY,
    ROTA_ERR_UNKNOWN, /* the other side was lost on the way: it may be done or not */
    ROTA_ERR_STALE,   /* it was ours, or has moved on: somebody else has it now */
};

enum { ROTA_ERROR_TEXT_MAX = 512 };

struct rota_error {
    enum rota_code code;
    char text[ROTA_ERROR_TEXT_MAX]; /* one sentence without a final dot; cut if too long */
};

/* Fill `error`, which may be NULL, and return `code`. Any thread.
 *
 * A macro, so that a compiler that looks at one file alone knows what comes
 * back, and does not warn of paths that can't be. */
#define rota_error_set(error, code, ...)                                                           \
    __extension__({                                                                                \
        enum rota_code code_to_set_ = (code);                                                      \
        rota_error_fill((error), code_to_set_, __VA_ARGS__);                                       \
        code_to_set_;                                                                              \
    })

/* What rota_error_set() calls. */
void rota_error_fill(struct rota_error *error, enum rota_code code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* A short constant name, "invalid" for ROTA_ERR_INVALID. Any thread. */
const char *rota_code_name(enum rota_code code);

#ifdef __cplusplus
}
#endif
