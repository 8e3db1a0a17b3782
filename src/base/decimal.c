#include "base/decimal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A program that uses us may have set a locale with another decimal point. */
static void put_point(char *text)
{
    static const char digits[] = "0123456789+-e";
    char *point = text + strspn(text, digits);
    if (*point == '\0')
        return;
    char *rest = point + strcspn(point, digits);
    *point = '.';
    memmove(point + 1, rest, strlen(rest) + 1);
}

char *rota_decimal_format(double value, char text[ROTA_DECIMAL_TEXT_MAX])
{
    if (!isfinite(value))
        return strcpy(text, isnan(value) ? "NaN" : value > 0 ? "+Inf" : "-Inf");

    /* Up to 15 digits survive a round trip, so fewer need no extra try; below the normal range
     * numbers carry less than that. */
    for (int n_digits = isnormal(value) ? 15 : 1; n_digits <= 17; n_digits++) {
        snprintf(text, ROTA_DECIMAL_TEXT_MAX, "%.*g", n_digits, value);
        if (strtod(text, NULL) == value)
            break;
    }
    put_point(text);
    return text;
}
