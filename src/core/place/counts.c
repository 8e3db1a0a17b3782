#include <rota/experimental/counts.h>

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static bool is_known_empty(const struct rota_counts *counts, int64_t partition)
{
    assert(counts->empties); /* allocated when counts were first set */
    return counts->empties[partition / 8] >> (partition % 8) & 1;
}

static void set_known_empty(struct rota_counts *counts, int64_t partition, bool is_empty)
{
    unsigned char bit = (unsigned char)(1 << (partition % 8));
    assert(counts->empties);
    if (is_empty)
        counts->empties[partition / 8] |= bit;
    else
        counts->empties[partition / 8] &= (unsigned char)~bit;
}

/* Lower the read count as far as wanted and known to be safe. What is known about a partition is
 * forgotten with it: it may be used again. */
static void lower_read_count(struct rota_counts *counts)
{
    while (counts->read > counts->wanted_read && is_known_empty(counts, counts->read - 1))
        set_known_empty(counts, --counts->read, false);
}

enum rota_code rota_counts_check(int64_t write, int64_t read, struct rota_error *error)
{
    if (write < 1 || read < 1 || write > ROTA_PARTITIONS_MAX || read > ROTA_PARTITIONS_MAX)
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "%lld write and %lld read partitions: both must be from 1 to %d",
                              (long long)write, (long long)read, ROTA_PARTITIONS_MAX);
    if (read < write)
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "%lld read partitions are fewer than %lld write partitions; jobs in "
                              "the excess partitions would never be read",
                              (long long)read, (long long)write);
    return ROTA_OK;
}

enum rota_code rota_counts_init(struct rota_counts *counts, int64_t write, int64_t read,
                                struct rota_error *error)
{
    struct rota_counts made = {0};
    enum rota_code code = rota_counts_want(&made, write, read, error);
    if (!code)
        *counts = made;
    return code;
}

void rota_counts_deinit(struct rota_counts *counts)
{
    free(counts->empties);
    *counts = (struct rota_counts){0};
}

enum rota_code rota_counts_want(struct rota_counts *counts, int64_t write, int64_t read,
                                struct rota_error *error)
{
    size_t size = (size_t)read / 8 + 1;
    enum rota_code code = rota_counts_check(write, read, error);
    if (code)
        return code;
    if (size > counts->size) {
        unsigned char *grown = realloc(counts->empties, size);
        if (!grown)
            return rota_error_no_memory(error, "for %lld partitions", (long long)read);
        memset(grown + counts->size, 0, size - counts->size);
        counts->empties = grown;
        counts->size = size;
    }

    /* With a higher write count, empty partitions may be written to. */
    assert(counts->empties);
    if (write > counts->write)
        memset(counts->empties, 0, counts->size);
    counts->write = write;
    counts->wanted_read = read;
    if (read > counts->read)
        counts->read = read;
    lower_read_count(counts);
    return ROTA_OK;
}

void rota_counts_report_empty(struct rota_counts *counts, int64_t partition, bool is_empty)
{
    if (partition < counts->write || partition >= counts->read)
        return;
    set_known_empty(counts, partition, is_empty);
    lower_read_count(counts);
}

bool rota_counts_is_lowering(const struct rota_counts *counts)
{
    return counts->read > counts->wanted_read;
}

int64_t rota_counts_waits_for(const struct rota_counts *counts)
{
    return rota_counts_is_lowering(counts) ? counts->read - 1 : -1;
}
