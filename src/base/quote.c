#include "base/quote.h"

#include <stdint.h>
#include <stdio.h>

static const uint32_t NO_CHARACTER = UINT32_MAX;

/* How many bytes a character has that begins with `lead`; 0 when none does. */
static size_t size_by_lead(unsigned char lead)
{
    if (lead < 0x80)
        return 1;
    if (lead >= 0xc2 && lead < 0xe0)
        return 2;
    if (lead >= 0xe0 && lead < 0xf0)
        return 3;
    if (lead >= 0xf0 && lead < 0xf5)
        return 4;
    return 0;
}

/* The character at the start of `str`, and its size: 1 for a byte that
 * begins none. Overlong forms, surrogates and numbers beyond Unicode are none. */
static uint32_t decode(struct rota_str str, size_t *size)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    unsigned char lead = (unsigned char)str.data[0];
    size_t n = size_by_lead(lead);

    *size = 1;
    if (n == 1)
        return lead;
    if (n == 0 || n > str.size)
        return NO_CHARACTER;
    uint32_t character = lead & (0x7f >> n);
    for (size_t i = 1; i < n; i++) {
        unsigned char next = (unsigned char)str.data[i];
        if ((next & 0xc0) != 0x80)
            return NO_CHARACTER;
        character = character << 6 | (next & 0x3f);
    }
    if (character < least[n] || character > 0x10ffff || (character >= 0xd800 && character < 0xe000))
        return NO_CHARACTER;
    *size = n;
    return character;
}

/* Control characters, and those that end a line or turn its direction. */
static bool is_hidden(uint32_t character)
{
    return character < 0x20 || (character >= 0x7f && character < 0xa0) ||
           (character >= 0x2028 && character <= 0x202e) ||
           (character >= 0x2066 && character <= 0x2069);
}

size_t rota_quote_next(struct rota_str *rest, char piece[ROTA_QUOTE_PIECE_MAX])
{
    size_t size;
    uint32_t character = decode(*rest, &size);
    struct rota_str plain = {rest->data, size};
    *rest = rota_str_of(rest->data + size, rest->size - size);

    if (character == '"' || character == '\\') {
        piece[0] = '\\';
        piece[1] = (char)character;
        return 2;
    }
    if (character == '\n' || character == '\r' || character == '\t') {
        piece[0] = '\\';
        piece[1] = character == '\n' ? 'n' : character == '\r' ? 'r' : 't';
        return 2;
    }
    if (character == NO_CHARACTER)
        character = 0xfffd;
    else if (!is_hidden(character)) {
        memcpy(piece, plain.data, plain.size);
        return plain.size;
    }
    return (size_t)snprintf(piece, ROTA_QUOTE_PIECE_MAX, "\\u%04x", character & 0xffff);
}

char *rota_quote(struct rota_str str, char text[ROTA_QUOTE_MAX])
{
    static const char end[] = "\"", cut[] = "\"...";
    size_t size = 0;

    text[size++] = '"';
    while (str.size > 0) {
        char piece[ROTA_QUOTE_PIECE_MAX];
        size_t piece_size = rota_quote_next(&str, piece);
        if (size + piece_size + sizeof cut > ROTA_QUOTE_MAX) {
            memcpy(text + size, cut, sizeof cut);
            return text;
        }
        memcpy(text + size, piece, piece_size);
        size += piece_size;
    }
    memcpy(text + size, end, sizeof end);
    return text;
}
