#include "base/utf8.h"

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

uint32_t rota_utf8_decode(struct rota_str text, size_t *size)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    unsigned char lead = (unsigned char)text.data[0];
    size_t n = size_by_lead(lead);

    *size = 1;
    if (n == 1)
        return lead;
    if (n == 0 || n > text.size)
        return ROTA_UTF8_NONE;
    uint32_t character = lead & (0x7f >> n);
    for (size_t i = 1; i < n; i++) {
        unsigned char next = (unsigned char)text.data[i];
        if ((next & 0xc0) != 0x80)
            return ROTA_UTF8_NONE;
        character = character << 6 | (next & 0x3f);
    }
    if (character < least[n] || character > 0x10ffff || (character >= 0xd800 && character < 0xe000))
        return ROTA_UTF8_NONE;
    *size = n;
    return character;
}

size_t rota_utf8_encode(uint32_t character, char text[ROTA_UTF8_MAX])
{
    static const uint32_t leads[] = {0, 0, 0xc0, 0xe0, 0xf0};
    size_t size = character < 0x80 ? 1 : character < 0x800 ? 2 : character < 0x10000 ? 3 : 4;
    for (size_t i = size; --i > 0; character >>= 6)
        text[i] = (char)(0x80 | (character & 0x3f));
    text[0] = (char)(leads[size] | character);
    return size;
}

bool rota_utf8_is_hidden(uint32_t character)
{
    return character < 0x20 || (character >= 0x7f && character < 0xa0) || character == 0x61c ||
           character == 0x200e || character == 0x200f ||
           (character >= 0x2028 && character <= 0x202e) ||
           (character >= 0x2066 && character <= 0x2069);
}
