/* Four hashes: two that place, one that protects tables, one that compares.
 *
 * farm32 is FarmHash's Fingerprint32 and must never change: placement on the ring and gradual
 * change depend on its exact value. So must xxh64, XXH64 of xxHash, by which clients in every
 * language find the shard of a key. Neither is safe against chosen keys. sip64 is SipHash-1-3
 * with a seed, for tables whose keys come from outside; its value never leaves the process.
 * quick64 has a seed as well and takes a fraction of the time: it replaces bytes that were
 * freed. An observer of its values could compute the seed, so never expose them. */
#pragma once

#include <rota/str.h>
#include <stdint.h>

uint32_t rota_hash_farm32(struct rota_str data);

/* The finalizer of MurmurHash3: every bit of `state` reaches every bit of the
 * result. Part of placement, like farm32. */
static inline uint32_t rota_hash_finish32(uint32_t state)
{
    state ^= state >> 16;
    state *= 0x85ebca6b;
    state ^= state >> 13;
    state *= 0xc2b2ae35;
    return state ^ state >> 16;
}

uint64_t rota_hash_sip64(uint64_t seed, struct rota_str data);
uint64_t rota_hash_quick64(uint64_t seed, struct rota_str data);

uint64_t rota_hash_xxh64(uint64_t seed, struct rota_str data);

/* The shard of a key: the upper half of xxh64 with seed 0, scaled to `n_shards`. */
static inline uint32_t rota_hash_shard(struct rota_str key, uint32_t n_shards)
{
    return (uint32_t)((rota_hash_xxh64(0, key) >> 32) * n_shards >> 32);
}
