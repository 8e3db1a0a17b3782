#include <rota/error.h>

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
    }
    return "unknown";
}
