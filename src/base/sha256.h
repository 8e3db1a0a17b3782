/* SHA-256 of texts: for values that have to be the same everywhere and must not collide even when
 * an attacker chooses the texts. Not for large data, nor for secrets. */
#pragma once

#include <rota/str.h>
#include <stddef.h>
#include <stdint.h>

enum { ROTA_SHA256_SIZE = 32, ROTA_SHA256_TEXT_SIZE = 2 * ROTA_SHA256_SIZE + 1 };

/* The digest of the concatenated `parts`. */
void rota_sha256(const struct rota_str *parts, size_t n, uint8_t digest[ROTA_SHA256_SIZE]);

/* The digest of one text as lower-case hexadecimal digits. */
void rota_sha256_format(struct rota_str text, char digest[ROTA_SHA256_TEXT_SIZE]);
