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

/* From now on, malloc() maps blocks of ROTA_MEMORY_MAPPED bytes and more by themselves, and free()
 * returns them to the system at once, whatever is in use beside them. Otherwise glibc raises that
 * size to that of the largest block freed so far, and what is freed between blocks in use stays
 * with the process until malloc_trim(), which holds up all threads: 0.1 to 0.5 s for 1 GB. */
enum { ROTA_MEMORY_MAPPED = 512 << 10 };
void rota_memory_set_up(void);

/* What the control groups allow, by the files below `root`, which is "" except in tests;
 * UINT64_MAX when there is no limit. */
uint64_t rota_memory_of_groups(const char *root);
