#include <rota/error.h>

#include <stdarg.h>
#include <stdio.h>

enum rota_code rota_error_set(struct rota_error *error, enum rota_code code, const char *format,
                              ...)
{
    if (error) {
        va_list arguments;
        error->code = code;
        va_start(arguments, format);
        vsnprintf(error->text, sizeof error->text, format, arguments);
        va_end(arguments);
    }
    return code;
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
