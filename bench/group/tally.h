/* tally: which partitions a member of a group has, told line by line; what the members of
 * `bench group` share, so that they differ in nothing else.
 *
 *     BASE HAS GAINED INTERRUPTED CHANGES AT
 *
 * HAS is how many it has. From each SIGUSR1 on, the BASE-th, GAINED is how many of them it
 * did not have then, and INTERRUPTED how often it was told to stop what it had. CHANGES
 * counts what it said and what counted, AT is the boot clock in ns when HAS changed last. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TALLY_MAX = 10000 };

void tally_start(size_t partition);
void tally_stop(size_t partition);
bool tally_has(size_t partition);
void tally_change(void);
void tally_base(void);

/* A line, if there is news. */
void tally_print(void);

/* Whatever ends the benchmark ends this process. */
void tally_fail(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));
