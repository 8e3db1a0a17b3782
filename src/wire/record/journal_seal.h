/* journal_seal: the checksum of one frame of a journal.
 *
 * It covers the frame's length, its body, its place in the journal (the numbers of its record
 * and of the first record of its batch) and the journal itself (a random id). So an intact frame
 * in the wrong place, left over from an earlier use of the disk, copied from another journal, or
 * forged inside a payload, does not match; and no record is read with what another batch has
 * shared. */
#pragma once

#include "base/crc32c.h"

enum { ROTA_JOURNAL_ID_SIZE = 16 };

struct rota_journal_seal {
    struct rota_crc32c crc;
    uint32_t seed; /* of the journal's id */
};

void rota_journal_seal_init(struct rota_journal_seal *seal,
                            const unsigned char id[ROTA_JOURNAL_ID_SIZE]);

/* `batch` and `number` are those numbers, `length` the length as it is written, `body` what
 * follows the checksum. */
uint32_t rota_journal_seal_sum(const struct rota_journal_seal *seal, uint64_t batch,
                               uint64_t number, struct rota_str length, struct rota_str body);
