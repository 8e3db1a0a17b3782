#include "wire/record/journal_range.h"

#include "base/crc32c.h"
#include "wire/record/journal_record.h"

#include <string.h>

enum {
    AT_SEQUENCE = 8,
    AT_LOWEST = 16,
    AT_LAST = 24,
    AT_FIRST = 32,
    AT_SUM = 40,
    AT_ENDED = 44,
    AT_END_SUM = 52
};

static const char magic[8] = "rotaRNGE";

static uint32_t sum_of(const char *bytes, size_t size)
{
    struct rota_crc32c crc;
    rota_crc32c_init(&crc);
    return rota_crc32c_add(&crc, 0, rota_str_of(bytes, size));
}

static size_t place_of_sequence(uint64_t sequence)
{
    return sequence % 2 ? 0 : ROTA_JOURNAL_RANGE_PLACE;
}

size_t rota_journal_range_encode(const struct rota_journal_range *range,
                                 char bytes[ROTA_JOURNAL_RANGE_SIZE])
{
    memcpy(bytes, magic, sizeof magic);
    rota_journal_put_fixed(bytes + AT_SEQUENCE, range->sequence, 8);
    rota_journal_put_fixed(bytes + AT_LOWEST, range->lowest, 8);
    rota_journal_put_fixed(bytes + AT_LAST, range->last, 8);
    rota_journal_put_fixed(bytes + AT_FIRST, range->first, 8);
    rota_journal_put_fixed(bytes + AT_SUM, sum_of(bytes, AT_SUM), 4);
    rota_journal_put_fixed(bytes + AT_ENDED, range->ended, 8);
    rota_journal_put_fixed(bytes + AT_END_SUM, sum_of(bytes, AT_END_SUM), 4);
    return place_of_sequence(range->sequence);
}

/* The content at `place` of the file; false when Rota did not write it. */
static bool decode_place(const char *file, size_t place, struct rota_journal_range *range)
{
    const char *bytes = file + place;
    if (memcmp(bytes, magic, sizeof magic) != 0 ||
        rota_journal_get_fixed(bytes + AT_SUM, 4) != sum_of(bytes, AT_SUM))
        return false;
    bool has_end = rota_journal_get_fixed(bytes + AT_END_SUM, 4) == sum_of(bytes, AT_END_SUM);
    *range = (struct rota_journal_range){
        .sequence = rota_journal_get_fixed(bytes + AT_SEQUENCE, 8),
        .lowest = rota_journal_get_fixed(bytes + AT_LOWEST, 8),
        .last = rota_journal_get_fixed(bytes + AT_LAST, 8),
        .first = rota_journal_get_fixed(bytes + AT_FIRST, 8),
        .ended = has_end ? rota_journal_get_fixed(bytes + AT_ENDED, 8) : 0,
    };
    return range->sequence > 0 && range->sequence < UINT64_MAX &&
           place_of_sequence(range->sequence) == place && range->lowest > 0 &&
           range->lowest <= range->last && range->last - range->lowest < ROTA_JOURNAL_SEGMENTS_MAX;
}

static bool is_blank(const char *bytes)
{
    static const char zeros[ROTA_JOURNAL_RANGE_SIZE];
    return memcmp(bytes, zeros, sizeof zeros) == 0;
}

/* The very first write may have been torn: the part that exists is valid. */
static bool is_being_made(const char *file)
{
    size_t i = 0;
    while (i < sizeof magic && file[i] == magic[i])
        i++;
    while (i < sizeof magic && file[i] == 0)
        i++;
    return i == sizeof magic && is_blank(file + ROTA_JOURNAL_RANGE_PLACE);
}

enum rota_journal_range_found rota_journal_range_decode(const char file[ROTA_JOURNAL_RANGE_FILE],
                                                        struct rota_journal_range *range)
{
    struct rota_journal_range one = {0}, other = {0};
    const char *second = file + ROTA_JOURNAL_RANGE_PLACE;
    bool has_one = decode_place(file, 0, &one);
    bool has_other = decode_place(file, ROTA_JOURNAL_RANGE_PLACE, &other);
    if (!has_one && !has_other)
        return is_being_made(file) ? ROTA_JOURNAL_RANGE_NONE : ROTA_JOURNAL_RANGE_DAMAGED;
    *range = has_one && (!has_other || one.sequence > other.sequence) ? one : other;
    return (!has_one && !is_blank(file)) || (!has_other && !is_blank(second))
               ? ROTA_JOURNAL_RANGE_TORN
               : ROTA_JOURNAL_RANGE_FINE;
}
