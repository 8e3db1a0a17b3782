#include "wire/http2/hpack.h"

/* The code of HPACK is canonical: codes of one length follow one another in the order of their
 * bytes, and all of a length come before those that are longer. So the bytes in that order, and
 * where each length begins, define it. */

static const uint8_t symbols[256] = {
    48,  49,  50,  97,  99,  101, 105, 111, 115, 116, 32,  37,  45,  46,  47,  51,  52,  53,  54,
    55,  56,  57,  61,  65,  95,  98,  100, 102, 103, 104, 108, 109, 110, 112, 114, 117, 58,  66,
    67,  68,  69,  70,  71,  72,  73,  74,  75,  76,  77,  78,  79,  80,  81,  82,  83,  84,  85,
    86,  87,  89,  106, 107, 113, 118, 119, 120, 121, 122, 38,  42,  44,  59,  88,  90,  33,  34,
    40,  41,  63,  39,  43,  124, 35,  62,  0,   36,  64,  91,  93,  126, 94,  125, 60,  96,  123,
    92,  195, 208, 128, 130, 131, 162, 184, 194, 224, 226, 153, 161, 167, 172, 176, 177, 179, 209,
    216, 217, 227, 229, 230, 129, 132, 133, 134, 136, 146, 154, 156, 160, 163, 164, 169, 170, 173,
    178, 181, 185, 186, 187, 189, 190, 196, 198, 228, 232, 233, 1,   135, 137, 138, 139, 140, 141,
    143, 147, 149, 150, 151, 152, 155, 157, 158, 165, 166, 168, 174, 175, 180, 182, 183, 188, 191,
    197, 231, 239, 9,   142, 144, 145, 148, 159, 171, 206, 215, 225, 236, 237, 199, 207, 234, 235,
    192, 193, 200, 201, 202, 205, 210, 213, 218, 219, 238, 240, 242, 243, 255, 203, 204, 211, 212,
    214, 221, 222, 223, 241, 244, 245, 246, 247, 248, 250, 251, 252, 253, 254, 2,   3,   4,   5,
    6,   7,   8,   11,  12,  14,  15,  16,  17,  18,  19,  20,  21,  23,  24,  25,  26,  27,  28,
    29,  30,  31,  127, 220, 249, 10,  13,  22,
};

static const struct group {
    uint64_t limit; /* the next 32 bits are below it */
    uint32_t first; /* its first code */
    uint8_t size;   /* bits of its codes */
    uint8_t at;     /* of its first byte in symbols */
} groups[] = {
    {0x50000000, 0x0, 5, 0},
    {0xb8000000, 0x14, 6, 10},
    {0xf8000000, 0x5c, 7, 36},
    {0xfe000000, 0xf8, 8, 68},
    {0xff400000, 0x3f8, 10, 74},
    {0xffa00000, 0x7fa, 11, 79},
    {0xffc00000, 0xffa, 12, 82},
    {0xfff00000, 0x1ff8, 13, 84},
    {0xfff80000, 0x3ffc, 14, 90},
    {0xfffe0000, 0x7ffc, 15, 92},
    {0xfffe6000, 0x7fff0, 19, 95},
    {0xfffee000, 0xfffe6, 20, 98},
    {0xffff4800, 0x1fffdc, 21, 106},
    {0xffffb000, 0x3fffd2, 22, 119},
    {0xffffea00, 0x7fffd8, 23, 145},
    {0xfffff600, 0xffffea, 24, 174},
    {0xfffff800, 0x1ffffec, 25, 186},
    {0xfffffbc0, 0x3ffffe0, 26, 190},
    {0xfffffe20, 0x7ffffde, 27, 205},
    {0xfffffff0, 0xfffffe2, 28, 224},
    {0x100000000, 0x3ffffffc, 30, 253},
};

enum rota_code rota_hpack_huffman_decode(struct rota_buffer *out, struct rota_str bytes)
{
    enum { EOS = 256 };
    size_t before = out->size;
    char *to = rota_buffer_extend(out, bytes.size * 2);
    if (!to)
        return ROTA_ERR_NO_MEMORY;
    uint64_t bits = 0; /* from the highest on */
    unsigned n_bits = 0;
    size_t at = 0, n = 0;
    for (;;) {
        for (; n_bits <= 56 && at < bytes.size; n_bits += 8)
            bits |= (uint64_t)(unsigned char)bytes.data[at++] << (56 - n_bits);
        if (n_bits == 0)
            break;
        /* After the end the padding continues, whose bits are ones. */
        uint64_t window = (n_bits < 64 ? bits | UINT64_MAX >> n_bits : bits) >> 32;
        const struct group *group = groups;
        while (window >= group->limit)
            group++;
        if (group->size > n_bits) {
            if (n_bits >= 8 || window != UINT32_MAX)
                return ROTA_ERR_INVALID;
            break;
        }
        unsigned symbol = group->at + ((uint32_t)(window >> (32 - group->size)) - group->first);
        if (symbol >= EOS)
            return ROTA_ERR_INVALID;
        to[n++] = (char)symbols[symbol];
        bits <<= group->size;
        n_bits -= group->size;
    }
    out->size = before + n;
    out->data[out->size] = '\0';
    return ROTA_OK;
}
