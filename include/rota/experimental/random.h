/* Random numbers from a seed: the same seed always gives the same numbers, on every machine.
 * xoshiro256**, seeded by splitmix64; not for secrets. */
#pragma once

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct rota_random {
    uint64_t state[4];
};

/* One step of splitmix64: a cheap, well-mixed number from a counter. */
static inline uint64_t rota_random_mix(uint64_t *counter)
{
    uint64_t z = *counter += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static inline void rota_random_init(struct rota_random *random, uint64_t seed)
{
    for (int i = 0; i < 4; i++)
        random->state[i] = rota_random_mix(&seed);
}

static inline uint64_t rota_random_next(struct rota_random *random)
{
    uint64_t *s = random->state;
    uint64_t times5 = s[1] * 5;
    uint64_t result = ((times5 << 7) | (times5 >> 57)) * 9;
    uint64_t shifted = s[1] << 17;

    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= shifted;
    s[3] = (s[3] << 45) | (s[3] >> 19);
    return result;
}

/* Uniform in [0, bound), without bias; bound > 0. */
static inline uint64_t rota_random_below(struct rota_random *random, uint64_t bound)
{
    assert(bound > 0);
    uint64_t reject_below = -bound % bound;
    for (;;) {
        __extension__ unsigned __int128 product = rota_random_next(random);
        product *= bound;
        if ((uint64_t)product >= reject_below)
            return (uint64_t)(product >> 64);
    }
}

/* Uniform in [from, to], both ends included. */
static inline int64_t rota_random_range(struct rota_random *random, int64_t from, int64_t to)
{
    assert(from <= to);
    uint64_t span = (uint64_t)to - (uint64_t)from;
    if (span == UINT64_MAX)
        return (int64_t)rota_random_next(random);
    return (int64_t)((uint64_t)from + rota_random_below(random, span + 1));
}

/* Uniform in [0, 1). */
static inline double rota_random_unit(struct rota_random *random)
{
    return (double)(rota_random_next(random) >> 11) * 0x1p-53;
}

/* True with the given probability. */
static inline bool rota_random_chance(struct rota_random *random, double probability)
{
    return rota_random_unit(random) < probability;
}

#ifdef __cplusplus
}
#endif
