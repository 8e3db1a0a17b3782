/* Numbers as decimal text, the same in every locale. */
#pragma once

#include <stdint.h>

enum { ROTA_DECIMAL_TEXT_MAX = 40 };

/* Write `value` in the fewest digits that read back as the same number, with a
 * point and no needless zeros; or "NaN", "+Inf", "-Inf". Returns `text`. */
char *rota_decimal_format(double value, char text[ROTA_DECIMAL_TEXT_MAX]);

/* Write `number` at `end`, at most 20 digits without a NUL; returns the end after them. Keys and
 * points are made of these, so it has to be fast. */
static inline char *rota_decimal_put(char *end, uint64_t number)
{
    char digits[20];
    int n = 0;
    for (; number > UINT32_MAX; number /= 10)
        digits[n++] = (char)('0' + number % 10);
    uint32_t low = (uint32_t)number; /* the most frequent, and cheaper to divide */
    do
        digits[n++] = (char)('0' + low % 10);
    while (low /= 10);
    while (n > 0)
        *end++ = digits[--n];
    return end;
}
