/* memory: how much of it this process may have, and who says so.
 *
 * It is the least of what the machine has, what the process's control group and those above it
 * allow (memory.max, or memory.limit_in_bytes of the first version), and its address space
 * (RLIMIT_AS). Who runs into a limit of a group is killed without a word, so that it is looked at
 * before. */
#pragma once

#include <stdint.h>

enum rota_memory_bound {
    ROTA_MEMORY_OF_MACHINE,
    ROTA_MEMORY_OF_GROUP,
    ROTA_MEMORY_OF_ADDRESSES,
};

struct rota_memory {
    uint64_t bytes;
    enum rota_memory_bound bound; /* the one that is the least */
};

struct rota_memory rota_memory_look(void);

/* What a node takes with nothing in it; addresses are more than what is behind them. */
#define ROTA_MEMORY_NODE_MIN      (UINT64_C(24) << 20)
#define ROTA_MEMORY_ADDRESSES_MIN (UINT64_C(128) << 20)

enum rota_memory_verdict {
    ROTA_MEMORY_ENOUGH,
    ROTA_MEMORY_LESS_THAN_ALLOWED, /* by settings: it goes well until they are used */
    ROTA_MEMORY_TOO_LITTLE,        /* for a node, whatever it does */
};

/* Whether it is enough for a node whose settings let jobs and values take `allowed` bytes. */
enum rota_memory_verdict rota_memory_judge(const struct rota_memory *memory, uint64_t allowed);

/* "the machine", "the control group", "the address space". Any thread. */
const char *rota_memory_bound_name(enum rota_memory_bound bound);

/* Give what was freed back to the system, also where it lies between pieces in use. Takes about ten
 * milliseconds for each 100 MB, in which no other thread can allocate. Any thread. */
void rota_memory_trim(void);

/* What the control groups allow, by the files below `root`, which is "" but for tests; UINT64_MAX
 * when none says anything. */
uint64_t rota_memory_of_groups(const char *root);
