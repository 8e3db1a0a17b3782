/* A number with a fraction as text, the same in every locale. */
#pragma once

enum { ROTA_DECIMAL_TEXT_MAX = 40 };

/* Write `value` in the fewest digits that read back as the same number, with a
 * point and no needless zeros; or "NaN", "+Inf", "-Inf". Returns `text`. */
char *rota_decimal_format(double value, char text[ROTA_DECIMAL_TEXT_MAX]);
