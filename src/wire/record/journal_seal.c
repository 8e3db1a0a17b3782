#include "wire/record/journal_seal.h"

#include <assert.h>

enum { LENGTH_MAX = 4 };

void rota_journal_seal_init(struct rota_journal_seal *seal,
                            const unsigned char id[ROTA_JOURNAL_ID_SIZE])
{
    rota_crc32c_init(&seal->crc);
    seal->seed = rota_crc32c_add(&seal->crc, 0, rota_str_of(id, ROTA_JOURNAL_ID_SIZE));
}

uint32_t rota_journal_seal_sum(const struct rota_journal_seal *seal, uint64_t batch,
                               uint64_t number, struct rota_str length, struct rota_str body)
{
    unsigned char head[16 + LENGTH_MAX];
    for (int i = 0; i < 8; i++) {
        head[i] = (unsigned char)(batch >> 8 * i);
        head[8 + i] = (unsigned char)(number >> 8 * i);
    }
    assert(length.size <= LENGTH_MAX);
    for (size_t i = 0; i < length.size; i++)
        head[16 + i] = (unsigned char)length.data[i];
    uint32_t sum = rota_crc32c_add(&seal->crc, seal->seed, rota_str_of(head, 16 + length.size));
    return rota_crc32c_add(&seal->crc, sum, body);
}
