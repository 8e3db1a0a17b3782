/* Errors: a code for programs and a sentence for people.
 *
 * There are few codes, one for each way in which callers react differently. */
#pragma once

#ifdef __cplusplus
extern "C" {
#endif

enum rota_code {
    ROTA_OK = 0,
    ROTA_ERR_INVALID,     /* the input is wrong; the same call will fail again */
    ROTA_ERR_NOT_FOUND,   /* what was named does not exist */
    ROTA_ERR_LIMIT,       /* a named limit was reached; nothing was done */
    ROTA_ERR_UNAVAILABLE, /* cannot be served now; try again later */
    ROTA_ERR_IO,          /* an external failure: a file, a socket, a database */
    ROTA_ERR_NO_MEMORY,
    ROTA_ERR_UNKNOWN, /* the connection was lost in flight: it may or may not be done */
    ROTA_ERR_STALE,   /* ownership has moved on: another process has it now */
};

enum { ROTA_ERROR_TEXT_MAX = 512 };

struct rota_error {
    enum rota_code code;
    char text[ROTA_ERROR_TEXT_MAX]; /* one sentence without a final dot; truncated if too long */
};

/* Fills `error`, which may be NULL, and returns `code`. Any thread.
 *
 * A macro, so that a compiler that sees only one file knows the result, and does not warn about
 * impossible paths. */
#define rota_error_set(error, code, ...)                                                           \
    __extension__({                                                                                \
        enum rota_code code_to_set_ = (code);                                                      \
        rota_error_fill((error), code_to_set_, __VA_ARGS__);                                       \
        code_to_set_;                                                                              \
    })

/* As rota_error_set() with ROTA_ERR_NO_MEMORY. The format is a literal that says what the memory
 * was for: "for job %s", "to read %s". */
#define rota_error_no_memory(error, ...)                                                           \
    rota_error_set((error), ROTA_ERR_NO_MEMORY, "not enough memory " __VA_ARGS__)

/* What rota_error_set() calls. */
void rota_error_fill(struct rota_error *error, enum rota_code code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* A short constant name, "invalid" for ROTA_ERR_INVALID. Any thread. */
const char *rota_code_name(enum rota_code code);

#ifdef __cplusplus
}
#endif
