/* journal_range: the bytes of a small file that says which segments of a journal there must be.
 *
 * The file has two places, written in turn: a torn write leaves the other one intact. They are so
 * far apart that no disk has both in one sector.
 *
 * A journal that was closed cleanly records its end, so that an end that was lost later is not
 * mistaken for a write that a crash has torn. This comes after the checksum of the rest, with
 * its own checksum over everything: programs that do not know it read and write the rest as
 * before, and their writes invalidate it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    ROTA_JOURNAL_SEGMENTS_MAX = 1 << 16,
    ROTA_JOURNAL_RANGE_PLACE = 4096, /* where the second begins */
    ROTA_JOURNAL_RANGE_SIZE = 56,    /* of what is stored at a place */
    ROTA_JOURNAL_RANGE_FILE = ROTA_JOURNAL_RANGE_PLACE + ROTA_JOURNAL_RANGE_SIZE,
};

struct rota_journal_range {
    uint64_t sequence;     /* of its writes; 0: none */
    uint64_t lowest, last; /* segments: these and all between them are there */
    uint64_t first;        /* number of the first record of the lowest */
    uint64_t ended;        /* closed cleanly before this record; 0: it is open, or was not closed */
};

enum rota_journal_range_found {
    ROTA_JOURNAL_RANGE_FINE,
    ROTA_JOURNAL_RANGE_TORN, /* its content is valid, but the other place is damaged or torn */
    ROTA_JOURNAL_RANGE_NONE, /* the first write of all was cut off */
    ROTA_JOURNAL_RANGE_DAMAGED,
};

/* Returns where in the file it belongs. */
size_t rota_journal_range_encode(const struct rota_journal_range *range,
                                 char bytes[ROTA_JOURNAL_RANGE_SIZE]);

/* Read a whole file; missing bytes at its end are zeros. `*range` is set when it is FINE or
 * TORN. */
enum rota_journal_range_found rota_journal_range_decode(const char file[ROTA_JOURNAL_RANGE_FILE],
                                                        struct rota_journal_range *range);
