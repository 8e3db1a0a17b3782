#include <rota/error.h>

#include "base/error_at.h"

#include <stdarg.h>
#include <stdio.h>

void rota_error_fill(struct rota_error *error, enum rota_code code, const char *format, ...)
{
    va_list arguments;
    if (!error)
        return;
    error->code = code;
    va_start(arguments, format);
    vsnprintf(error->text, sizeof error->text, format, arguments);
    va_end(arguments);
}

void rota_error_fill_at(struct rota_error *error, enum rota_code code, const char *file,
                        size_t line, const char *format, ...)
{
    va_list arguments;
    if (!error)
        return;
    error->code = code;
    int size = snprintf(error->text, sizeof error->text, "%.200s:%zu: ", file, line);
    va_start(arguments, format);
    vsnprintf(error->text + size, sizeof error->text - (size_t)size, format, arguments);
    va_end(arguments);
}

const char *rota_code_name(enum rota_code code)
{
    switch (code) {
    case ROTA_OK:
        return "ok";
    case ROTA_ERR_INVALID:
        return "invalid";
    case ROTA_ERR_NOT_FOUND:
        return "not found";
    case ROTA_ERR_LIMIT:
        return "limit";
    case ROTA_ERR_UNAVAILABLE:
        return "unavailable";
    case ROTA_ERR_IO:
        return "io";
    case ROTA_ERR_NO_MEMORY:
        return "no memory";
    case ROTA_ERR_UNKNOWN:
        return "unknown outcome";
    case ROTA_ERR_STALE:
        return "stale";
    }
    return "unknown";
}
