/* memory: how much of it this process may have, and which limit applies.
 *
 * It is the minimum of the machine's memory, the limits of the process's control group and those
 * above it (memory.max, or memory.limit_in_bytes of the first version), and its address space
 * (RLIMIT_AS). A process that exceeds a limit of a group is killed without a message, so the
 * limit is checked before. */
#pragma once

#include <stdint.h>

enum rota_memory_bound {
    ROTA_MEMORY_OF_MACHINE,
    ROTA_MEMORY_OF_GROUP,
    ROTA_MEMORY_OF_ADDRESSES,
};

struct rota_memory {
    uint64_t bytes;
    enum rota_memory_bound bound; /* the limit that applies */
};

struct rota_memory rota_memory_look(void);

/* What an empty node takes; it uses more addresses than memory. */
#define ROTA_MEMORY_NODE_MIN      (UINT64_C(24) << 20)
#define ROTA_MEMORY_ADDRESSES_MIN (UINT64_C(128) << 20)

enum rota_memory_verdict {
    ROTA_MEMORY_ENOUGH,
    ROTA_MEMORY_LESS_THAN_ALLOWED, /* allowed by settings: memory is not a problem until it is used
                                    */
    ROTA_MEMORY_TOO_LITTLE,        /* for a node, whatever it does */
};

/* Whether it is enough for a node whose settings allow jobs and values `allowed` bytes. */
enum rota_memory_verdict rota_memory_judge(const struct rota_memory *memory, uint64_t allowed);

/* "the machine", "the control group", "the address space". Any thread. */
const char *rota_memory_bound_name(enum rota_memory_bound bound);

/* Return freed memory to the system, also between blocks in use. Takes about ten milliseconds
 * for each 100 MB, in which no other thread can allocate. Any thread. */
void rota_memory_trim(void);

/* What the control groups allow, by the files below `root`, which is "" except in tests;
 * UINT64_MAX when there is no limit. */
uint64_t rota_memory_of_groups(const char *root);
