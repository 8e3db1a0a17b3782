#include "base/crc32c.h"

#include <string.h>
#ifdef __x86_64__
#include <cpuid.h>
#endif

#define POLYNOMIAL 0x82f63b78u /* its bits in reverse, as all of it works */

#ifdef __x86_64__
static bool has_instruction(void)
{
    unsigned a, b, c, d;
    return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_SSE4_2);
}

__attribute__((target("sse4.2"))) static uint32_t add_by_instruction(uint32_t sum,
                                                                     struct rota_str bytes)
{
    const char *at = bytes.data, *end = at + bytes.size;
    uint64_t wide = (uint32_t)~sum;
    for (; end - at >= 8; at += 8) {
        uint64_t next;
        memcpy(&next, at, sizeof next);
        wide = __builtin_ia32_crc32di(wide, next);
    }
    uint32_t narrow = (uint32_t)wide;
    if ((end - at) & 4) {
        uint32_t next;
        memcpy(&next, at, sizeof next);
        narrow = __builtin_ia32_crc32si(narrow, next);
        at += sizeof next;
    }
    for (; at < end; at++)
        narrow = __builtin_ia32_crc32qi(narrow, (uint8_t)*at);
    return ~narrow;
}
#else
static bool has_instruction(void)
{
    return false;
}

static uint32_t add_by_instruction(uint32_t sum, struct rota_str bytes)
{
    (void)bytes;
    return sum;
}
#endif

void rota_crc32c_init(struct rota_crc32c *crc)
{
    crc->has_instruction = has_instruction();
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t sum = i;
        for (int bit = 0; bit < 8; bit++)
            sum = sum >> 1 ^ (sum & 1 ? POLYNOMIAL : 0);
        crc->tables[0][i] = sum;
    }
    for (int t = 1; t < 8; t++)
        for (int i = 0; i < 256; i++) {
            uint32_t before = crc->tables[t - 1][i];
            crc->tables[t][i] = before >> 8 ^ crc->tables[0][before & 0xff];
        }
}

uint32_t rota_crc32c_add(const struct rota_crc32c *crc, uint32_t sum, struct rota_str bytes)
{
    if (crc->has_instruction)
        return add_by_instruction(sum, bytes);
    const uint8_t *at = (const uint8_t *)bytes.data, *end = at + bytes.size;
    const uint32_t(*tables)[256] = crc->tables;
    sum = ~sum;
    for (; end - at >= 8; at += 8) {
        uint64_t next = (uint64_t)at[0] | (uint64_t)at[1] << 8 | (uint64_t)at[2] << 16 |
                        (uint64_t)at[3] << 24 | (uint64_t)at[4] << 32 | (uint64_t)at[5] << 40 |
                        (uint64_t)at[6] << 48 | (uint64_t)at[7] << 56;
        next ^= sum;
        sum = tables[7][next & 0xff] ^ tables[6][next >> 8 & 0xff] ^ tables[5][next >> 16 & 0xff] ^
              tables[4][next >> 24 & 0xff] ^ tables[3][next >> 32 & 0xff] ^
              tables[2][next >> 40 & 0xff] ^ tables[1][next >> 48 & 0xff] ^ tables[0][next >> 56];
    }
    for (; at < end; at++)
        sum = sum >> 8 ^ tables[0][(sum ^ *at) & 0xff];
    return ~sum;
}
