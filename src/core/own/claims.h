/* claims: what a server asks of <rota/experimental/claims.h> for every call. */
#pragma once

#include <rota/experimental/claims.h>

/* As rota_claims_check(), for the shard of a note as rota_shard_note_format() writes it. NOT_HELD
 * for any other text, which may be a note all the same, or may not be one. */
enum rota_claims_answer rota_claims_check_note(const struct rota_claims *claims, rota_time now,
                                               struct rota_str note, uint64_t epoch);
