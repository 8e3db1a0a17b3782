#include "base/quote.h"

#include "base/utf8.h"

#include <stdio.h>

size_t rota_quote_next(struct rota_str *rest, char piece[ROTA_QUOTE_PIECE_MAX])
{
    size_t size;
    uint32_t character = rota_utf8_decode(*rest, &size);
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
    if (character == ROTA_UTF8_NONE)
        character = 0xfffd;
    else if (!rota_utf8_is_hidden(character)) {
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
