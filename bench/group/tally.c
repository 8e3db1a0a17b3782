#include "tally.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static bool has[TALLY_MAX], had[TALLY_MAX];
static size_t n_has, n_gained, n_interrupted, n_changes, n_bases;
static int64_t changed_at;
static bool is_new;

static int64_t boot_clock(void)
{
    struct timespec t;
    clock_gettime(CLOCK_BOOTTIME, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void changed(void)
{
    changed_at = boot_clock();
    is_new = true;
}

void tally_start(size_t partition)
{
    if (partition >= TALLY_MAX || has[partition])
        tally_fail("partition %zu is started twice", partition);
    has[partition] = true;
    n_has++;
    n_gained += !had[partition];
    changed();
}

void tally_stop(size_t partition)
{
    if (partition >= TALLY_MAX || !has[partition])
        tally_fail("partition %zu is stopped, and was not started", partition);
    has[partition] = false;
    n_has--;
    n_gained -= !had[partition];
    n_interrupted += had[partition];
    changed();
}

bool tally_has(size_t partition)
{
    return partition < TALLY_MAX && has[partition];
}

void tally_change(void)
{
    n_changes++;
    is_new = true;
}

void tally_base(void)
{
    memcpy(had, has, sizeof had);
    n_gained = n_interrupted = 0;
    n_bases++;
    is_new = true;
}

void tally_print(void)
{
    char line[160];
    if (!is_new)
        return;
    is_new = false;
    int size = snprintf(line, sizeof line, "%zu %zu %zu %zu %zu %" PRId64 "\n", n_bases, n_has,
                        n_gained, n_interrupted, n_changes, changed_at);
    if (write(STDOUT_FILENO, line, (size_t)size) != size)
        exit(1);
}

void tally_fail(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "\nbench group: ");
    vfprintf(stderr, format, arguments);
    fprintf(stderr, "\n");
    va_end(arguments);
    exit(1);
}
