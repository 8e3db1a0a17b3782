/* UTF-8: characters out of untrusted bytes, and back.
 *
 * The only decoder, so that no two readers disagree about what is text. It is strict: a
 * truncated or overlong form, a surrogate and a number beyond U+10FFFF are not characters. */
#pragma once

#include <rota/str.h>
#include <stdint.h>

enum { ROTA_UTF8_MAX = 4 }; /* bytes of one character */

#define ROTA_UTF8_NONE UINT32_MAX /* no character */

/* The character at the start of `text`, which is not empty, and its size; ROTA_UTF8_NONE and 1 for
 * a byte that begins no character. */
uint32_t rota_utf8_decode(struct rota_str text, size_t *size);

/* Write a character that rota_utf8_decode() could have returned; returns its size. */
size_t rota_utf8_encode(uint32_t character, char text[ROTA_UTF8_MAX]);

/* Whether a reader can't see it as it is: control characters, and those that end a line or
 * change its direction. */
bool rota_utf8_is_hidden(uint32_t character);
