#include "wire/journal_seal.h"

void rota_journal_seal_init(struct rota_journal_seal *seal,
                            const unsigned char id[ROTA_JOURNAL_ID_SIZE])
{
    rota_crc32c_init(&seal->crc);
    seal->seed = rota_crc32c_add(&seal->crc, 0, rota_str_of(id, ROTA_JOURNAL_ID_SIZE));
}

uint32_t rota_journal_seal_sum(const struct rota_journal_seal *seal, uint64_t batch,
                               uint64_t number, struct rota_str length, struct rota_str body)
{
    unsigned char head[16];
    for (int i = 0; i < 8; i++) {
        head[i] = (unsigned char)(batch >> 8 * i);
        head[8 + i] = (unsigned char)(number >> 8 * i);
    }
    uint32_t sum = rota_crc32c_add(&seal->crc, seal->seed, rota_str_of(head, sizeof head));
    sum = rota_crc32c_add(&seal->crc, sum, length);
    return rota_crc32c_add(&seal->crc, sum, body);
}
