/* percent: a byte written as %XX, with two hexadecimal digits. The format decides which bytes
 * are escaped. */
#pragma once

#include "base/hex.h"

#include <rota/str.h>
#include <string.h>

/* The byte at `*at`, with its %XX decoded; `*at` is moved to the last character of it. -1, and
 * `*at` stays, when a % is not followed by two digits. */
static inline int rota_percent_decode(struct rota_str text, size_t *at)
{
    size_t i = *at;
    if (text.data[i] != '%')
        return (unsigned char)text.data[i];
    int high = text.size - i > 2 ? rota_hex_digit(text.data[i + 1]) : -1;
    int low = text.size - i > 2 ? rota_hex_digit(text.data[i + 2]) : -1;
    if (high < 0 || low < 0)
        return -1;
    *at += 2;
    return high << 4 | low;
}

/* Write the three characters, and no NUL; gives the end. */
static inline char *rota_percent_encode(char *to, unsigned char c)
{
    static const char digits[] = "0123456789ABCDEF";
    memcpy(to, (const char[]){'%', digits[c >> 4], digits[c & 15]}, 3);
    return to + 3;
}
