/* SHA-256 of a few short texts: for what has to be the same everywhere and must not collide even
 * when the texts come from somebody who wants them to. Not for large data, nor for secrets. */
#pragma once

#include <rota/str.h>
#include <stddef.h>
#include <stdint.h>

enum { ROTA_SHA256_SIZE = 32 };

/* The digest of `parts`, one behind the other. */
void rota_sha256(const struct rota_str *parts, size_t n, uint8_t digest[ROTA_SHA256_SIZE]);
