#include "base/sha256.h"

#include <stdio.h>

/* FIPS 180-4. */
static const uint32_t ROUNDS[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

enum { BLOCK = 64, LENGTH = 8 };

struct sha256 {
    uint32_t state[8];
    uint8_t block[BLOCK];
    uint64_t n_bytes;
};

static uint32_t rotate(uint32_t word, int n)
{
    return word >> n | word << (32 - n);
}

static void mix_block(struct sha256 *sha)
{
    uint32_t words[64], s[8];
    for (int i = 0; i < 16; i++)
        words[i] = (uint32_t)sha->block[4 * i] << 24 | (uint32_t)sha->block[4 * i + 1] << 16 |
                   (uint32_t)sha->block[4 * i + 2] << 8 | sha->block[4 * i + 3];
    for (int i = 16; i < 64; i++) {
        uint32_t a = words[i - 15], b = words[i - 2];
        words[i] = words[i - 16] + (rotate(a, 7) ^ rotate(a, 18) ^ a >> 3) + words[i - 7] +
                   (rotate(b, 17) ^ rotate(b, 19) ^ b >> 10);
    }
    for (int i = 0; i < 8; i++)
        s[i] = sha->state[i];
    for (int i = 0; i < 64; i++) {
        uint32_t first = s[7] + (rotate(s[4], 6) ^ rotate(s[4], 11) ^ rotate(s[4], 25)) +
                         ((s[4] & s[5]) ^ (~s[4] & s[6])) + ROUNDS[i] + words[i];
        uint32_t second = (rotate(s[0], 2) ^ rotate(s[0], 13) ^ rotate(s[0], 22)) +
                          ((s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]));
        for (int k = 7; k > 0; k--)
            s[k] = s[k - 1];
        s[4] += first;
        s[0] = first + second;
    }
    for (int i = 0; i < 8; i++)
        sha->state[i] += s[i];
}

static void add_byte(struct sha256 *sha, uint8_t byte)
{
    sha->block[sha->n_bytes++ % BLOCK] = byte;
    if (sha->n_bytes % BLOCK == 0)
        mix_block(sha);
}

void rota_sha256(const struct rota_str *parts, size_t n, uint8_t digest[ROTA_SHA256_SIZE])
{
    struct sha256 sha = {.state = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f,
                                   0x9b05688c, 0x1f83d9ab, 0x5be0cd19}};
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < parts[i].size; k++)
            add_byte(&sha, (uint8_t)parts[i].data[k]);
    uint64_t bits = sha.n_bytes * 8;
    add_byte(&sha, 0x80);
    while (sha.n_bytes % BLOCK != BLOCK - LENGTH)
        add_byte(&sha, 0);
    for (int i = LENGTH; i-- > 0;)
        add_byte(&sha, (uint8_t)(bits >> 8 * i));
    for (int i = 0; i < ROTA_SHA256_SIZE; i++)
        digest[i] = (uint8_t)(sha.state[i / 4] >> (24 - 8 * (i % 4)));
}

void rota_sha256_format(struct rota_str text, char digest[ROTA_SHA256_TEXT_SIZE])
{
    uint8_t bytes[ROTA_SHA256_SIZE];
    rota_sha256(&text, 1, bytes);
    for (size_t i = 0; i < sizeof bytes; i++)
        snprintf(digest + 2 * i, 3, "%02x", bytes[i]);
}
