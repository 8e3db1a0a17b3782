/* hex: one hexadecimal digit. */
#pragma once

/* The value of a digit of either case; -1 when it is not a digit. */
static inline int rota_hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}
