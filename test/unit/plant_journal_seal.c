/* A planted bug: a checksum that leaves out which record it is of. Linked in place of the
 * real one, it must make test_journal_segment fail. */
#include "wire/record/journal_seal.h"

void rota_journal_seal_init(struct rota_journal_seal *seal,
                            const unsigned char id[ROTA_JOURNAL_ID_SIZE])
{
    rota_crc32c_init(&seal->crc);
    seal->seed = rota_crc32c_add(&seal->crc, 0, rota_str_of(id, ROTA_JOURNAL_ID_SIZE));
}

uint32_t rota_journal_seal_sum(const struct rota_journal_seal *seal, uint64_t batch,
                               uint64_t number, struct rota_str length, struct rota_str body)
{
    (void)batch;
    (void)number;
    uint32_t sum = rota_crc32c_add(&seal->crc, seal->seed, length);
    return rota_crc32c_add(&seal->crc, sum, body);
}
