/* CRC-32C (Castagnoli), eight bytes at a time, by the processor's own instruction where it has one
 * and else by tables: the checksum of data on disk. It detects every error of up to three bits in
 * the sizes that we write, and all but one in four billion of other damage; it does not protect
 * against an attacker.
 *
 * The caller makes the tables when it needs them and owns them: 8 KiB, not shared. The values
 * are those of every other CRC-32C. */
#pragma once

#include <rota/str.h>
#include <stdbool.h>
#include <stdint.h>

struct rota_crc32c {
    bool has_instruction;
    uint32_t tables[8][256];
};

void rota_crc32c_init(struct rota_crc32c *crc);

/* The checksum of some bytes with the checksum `sum` (0: none), followed by `bytes`. */
uint32_t rota_crc32c_add(const struct rota_crc32c *crc, uint32_t sum, struct rota_str bytes);
