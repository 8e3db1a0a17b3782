#include "base/hash.h"

static const uint32_t MULTIPLY_1 = 0xcc9e2d51;
static const uint32_t MULTIPLY_2 = 0x1b873593;

static uint32_t load32(const char *bytes)
{
    uint32_t value;
    memcpy(&value, bytes, sizeof value);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    value = __builtin_bswap32(value);
#endif
    return value;
}

static uint64_t load64(const char *bytes)
{
    return load32(bytes) | (uint64_t)load32(bytes + 4) << 32;
}

static uint32_t rotate32(uint32_t value, int right)
{
    return value >> right | value << (32 - right);
}

/* Mix a word that is already scrambled into the state. */
static uint32_t stir(uint32_t state, uint32_t word)
{
    return rotate32(state ^ word, 19) * 5 + 0xe6546b64;
}

static uint32_t scramble(uint32_t word)
{
    return rotate32(word * MULTIPLY_1, 17) * MULTIPLY_2;
}

static uint32_t mix(uint32_t state, uint32_t word)
{
    return stir(state, scramble(word));
}

static uint32_t farm_0_to_4(const char *s, uint32_t size)
{
    uint32_t b = 0, c = 9;
    for (uint32_t i = 0; i < size; i++) {
        b = b * MULTIPLY_1 + (uint32_t)(int32_t)(signed char)s[i];
        c ^= b;
    }
    return rota_hash_finish32(mix(mix(c, size), b));
}

static uint32_t farm_5_to_12(const char *s, uint32_t size)
{
    uint32_t a = size + load32(s);
    uint32_t b = size * 5 + load32(s + size - 4);
    uint32_t c = 9 + load32(s + (size >> 1 & 4));
    return rota_hash_finish32(mix(mix(mix(size * 5, a), b), c));
}

static uint32_t farm_13_to_24(const char *s, uint32_t size)
{
    uint32_t half = size >> 1;
    uint32_t c = load32(s + size - 8), d = load32(s + half), f = load32(s + size - 4);
    uint32_t h = d * MULTIPLY_1 + size;

    uint32_t a = rotate32(load32(s + half - 4), 12) + f;
    h = mix(h, c) + a;
    a = rotate32(a, 3) + c;
    h = mix(h, load32(s)) + a;
    a = rotate32(a + f, 12) + d;
    h = mix(h, load32(s + 4)) + a;
    return rota_hash_finish32(h);
}

uint32_t rota_hash_farm32(struct rota_str data)
{
    const char *s = data.data;
    uint32_t size = (uint32_t)data.size;

    if (data.size <= 4)
        return farm_0_to_4(s, size);
    if (data.size <= 12)
        return farm_5_to_12(s, size);
    if (data.size <= 24)
        return farm_13_to_24(s, size);

    const char *end = s + data.size;
    uint32_t h = size, g = MULTIPLY_1 * size, f = g;
    h = stir(stir(h, scramble(load32(end - 4))), scramble(load32(end - 16)));
    g = stir(stir(g, scramble(load32(end - 8))), scramble(load32(end - 12)));
    f = rotate32(f + scramble(load32(end - 20)), 19) + 113;

    for (size_t rounds = (data.size - 1) / 20; rounds > 0; rounds--, s += 20) {
        uint32_t a = load32(s), b = load32(s + 4), c = load32(s + 8);
        uint32_t d = load32(s + 12), e = load32(s + 16);
        h = mix(h + a, d) + e;
        g = mix(g + b, c) + a;
        f = mix(f + c, b + e * MULTIPLY_1) + d;
        f += g;
        g += f;
    }

    g = rotate32(rotate32(g, 11) * MULTIPLY_1, 17) * MULTIPLY_1;
    f = rotate32(rotate32(f, 11) * MULTIPLY_1, 17) * MULTIPLY_1;
    h = rotate32(stir(h + g, 0), 17) * MULTIPLY_1;
    return rotate32(stir(h + f, 0), 17) * MULTIPLY_1;
}

static uint64_t rotate64(uint64_t value, int left)
{
    return value << left | value >> (64 - left);
}

/* Inline, so that all four stay in registers. */
static inline __attribute__((always_inline)) void sip_round(uint64_t v[4])
{
    v[0] += v[1];
    v[1] = rotate64(v[1], 13) ^ v[0];
    v[0] = rotate64(v[0], 32);
    v[2] += v[3];
    v[3] = rotate64(v[3], 16) ^ v[2];
    v[0] += v[3];
    v[3] = rotate64(v[3], 21) ^ v[0];
    v[2] += v[1];
    v[1] = rotate64(v[1], 17) ^ v[2];
    v[2] = rotate64(v[2], 32);
}

/* The last bytes, fewer than 8, in loads that may overlap. */
static uint64_t load_rest(const char *s, size_t size)
{
    if (size >= 4)
        return load32(s) | (uint64_t)load32(s + size - 4) << 8 * (size - 4);
    if (size == 0)
        return 0;
    size_t middle = size / 2, last = size - 1;
    return (uint64_t)(unsigned char)s[0] | (uint64_t)(unsigned char)s[middle] << 8 * middle |
           (uint64_t)(unsigned char)s[last] << 8 * last;
}

/* The 128-bit key of SipHash is the seed and its complement. */
uint64_t rota_hash_sip64(uint64_t seed, struct rota_str data)
{
    uint64_t v[4] = {
        seed ^ 0x736f6d6570736575u,
        ~seed ^ 0x646f72616e646f6du,
        seed ^ 0x6c7967656e657261u,
        ~seed ^ 0x7465646279746573u,
    };
    size_t left = data.size;
    const char *s = data.data;

    for (; left >= 8; left -= 8, s += 8) {
        uint64_t word = load64(s);
        v[3] ^= word;
        sip_round(v);
        v[0] ^= word;
    }
    uint64_t last = (uint64_t)data.size << 56 | load_rest(s, left);
    v[3] ^= last;
    sip_round(v);
    v[0] ^= last;

    v[2] ^= 0xff;
    for (int i = 0; i < 3; i++)
        sip_round(v);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}

/* Both halves of the product: each bit of one factor reaches most of the result. */
static uint64_t fold(uint64_t a, uint64_t b)
{
    __extension__ unsigned __int128 product = (unsigned __int128)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

/* Without the seed an attacker can't choose bytes that make a factor 0. */
uint64_t rota_hash_quick64(uint64_t seed, struct rota_str data)
{
    uint64_t other = fold(seed ^ 0x9e3779b97f4a7c15u, 0xbf58476d1ce4e5b9u);
    uint64_t state = fold(seed + data.size, 0x94d049bb133111ebu) ^ other;
    const char *at = data.data, *last;
    char few[16] = {0}; /* the size says how much of it counts */
    if (data.size >= sizeof few) {
        last = at + data.size - sizeof few; /* perhaps a part of it for the second time */
        for (; at < last; at += sizeof few)
            state = fold(state ^ load64(at), other ^ load64(at + 8));
    } else {
        if (data.size > 0)
            memcpy(few, at, data.size);
        last = few;
    }
    state = fold(state ^ load64(last), other ^ load64(last + 8));
    return fold(state ^ seed, 0xd6e8feb86659fd93u);
}

/* --- xxh64 --- */

#define XXH_PRIME_1 0x9e3779b185ebca87u
#define XXH_PRIME_2 0xc2b2ae3d27d4eb4fu
#define XXH_PRIME_3 0x165667b19e3779f9u
#define XXH_PRIME_4 0x85ebca77c2b2ae63u
#define XXH_PRIME_5 0x27d4eb2f165667c5u

static uint64_t xxh_round(uint64_t lane, uint64_t word)
{
    return rotate64(lane + word * XXH_PRIME_2, 31) * XXH_PRIME_1;
}

/* Blocks of 32 bytes go to four lanes, which are joined. Moves `*at` past the last block. */
static uint64_t xxh_blocks(uint64_t seed, const char **at, const char *end)
{
    uint64_t lanes[4] = {seed + XXH_PRIME_1 + XXH_PRIME_2, seed + XXH_PRIME_2, seed,
                         seed - XXH_PRIME_1};
    for (; end - *at >= 32; *at += 32)
        for (int i = 0; i < 4; i++)
            lanes[i] = xxh_round(lanes[i], load64(*at + 8 * i));
    uint64_t state = rotate64(lanes[0], 1) + rotate64(lanes[1], 7) + rotate64(lanes[2], 12) +
                     rotate64(lanes[3], 18);
    for (int i = 0; i < 4; i++)
        state = (state ^ xxh_round(0, lanes[i])) * XXH_PRIME_1 + XXH_PRIME_4;
    return state;
}

uint64_t rota_hash_xxh64(uint64_t seed, struct rota_str data)
{
    const char *at = data.size > 0 ? data.data : "", *end = at + data.size;
    uint64_t state = data.size >= 32 ? xxh_blocks(seed, &at, end) : seed + XXH_PRIME_5;
    state += data.size;
    for (; end - at >= 8; at += 8)
        state = rotate64(state ^ xxh_round(0, load64(at)), 27) * XXH_PRIME_1 + XXH_PRIME_4;
    if (end - at >= 4) {
        state =
            rotate64(state ^ (uint64_t)load32(at) * XXH_PRIME_1, 23) * XXH_PRIME_2 + XXH_PRIME_3;
        at += 4;
    }
    for (; at < end; at++)
        state = rotate64(state ^ (unsigned char)*at * XXH_PRIME_5, 11) * XXH_PRIME_1;
    state = (state ^ state >> 33) * XXH_PRIME_2;
    state = (state ^ state >> 29) * XXH_PRIME_3;
    return state ^ state >> 32;
}
