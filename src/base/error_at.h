/* Errors about a line of a text: "FILE:LINE: what is wrong". */
#pragma once

#include <rota/error.h>
#include <stddef.h>

/* As rota_error_set(), about line `line` (from 1) of `file`; the name of a file
 * is cut so that the sentence has room. */
#define rota_error_set_at(error, code, file, line, ...)                                            \
    __extension__({                                                                                \
        enum rota_code code_to_set_ = (code);                                                      \
        rota_error_fill_at((error), code_to_set_, (file), (line), __VA_ARGS__);                    \
        code_to_set_;                                                                              \
    })

/* What rota_error_set_at() calls. */
void rota_error_fill_at(struct rota_error *error, enum rota_code code, const char *file,
                        size_t line, const char *format, ...) __attribute__((format(printf, 5, 6)));
