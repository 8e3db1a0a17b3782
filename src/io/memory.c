#include "io/memory.h"

#include <errno.h>
#include <limits.h>
#include <malloc.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* --- control groups --- */

/* The number in a file; UINT64_MAX for "max", or if there is none. */
static uint64_t read_number(const char *path)
{
    char text[64] = "", *end;
    FILE *file = fopen(path, "re");
    if (!file)
        return UINT64_MAX;
    bool is_read = fgets(text, sizeof text, file) != NULL;
    fclose(file);
    errno = 0;
    unsigned long long number = strtoull(text, &end, 10);
    return is_read && end != text && errno == 0 ? number : UINT64_MAX;
}

/* The minimum of `name` in the group's folder and those above it. In a container the group may
 * have its name of the machine outside: then only the top exists. */
static uint64_t least_of(const char *top, const char *group, const char *name)
{
    char path[PATH_MAX], folder[PATH_MAX];
    uint64_t least = UINT64_MAX;
    if (snprintf(folder, sizeof folder, "%s", group) >= (int)sizeof folder)
        return UINT64_MAX;
    for (;;) {
        if (snprintf(path, sizeof path, "%s%s/%s", top, folder, name) < (int)sizeof path) {
            uint64_t number = read_number(path);
            least = number < least ? number : least;
        }
        char *slash = strrchr(folder, '/');
        if (!slash)
            return least;
        *slash = '\0';
    }
}

/* A line is NUMBER:CONTROLLERS:GROUP, of the second version 0::GROUP. */
static uint64_t look_at_line(const char *root, char *line)
{
    char top[PATH_MAX];
    char *controllers = strchr(line, ':'),
         *group = controllers ? strchr(controllers + 1, ':') : NULL;
    if (!group || strlen(root) > PATH_MAX / 2)
        return UINT64_MAX;
    *group++ = '\0';
    group[strcspn(group, "\n")] = '\0';
    bool is_second = strcmp(controllers, ":") == 0;
    bool is_memory = false;
    for (char *rest = controllers + 1, *each; (each = strsep(&rest, ","));)
        is_memory |= strcmp(each, "memory") == 0;
    if (!is_second && !is_memory)
        return UINT64_MAX;
    snprintf(top, sizeof top, "%s/sys/fs/cgroup%s", root, is_memory ? "/memory" : "");
    return least_of(top, group, is_memory ? "memory.limit_in_bytes" : "memory.max");
}

uint64_t rota_memory_of_groups(const char *root)
{
    char path[PATH_MAX], line[PATH_MAX];
    uint64_t least = UINT64_MAX;
    if (snprintf(path, sizeof path, "%s/proc/self/cgroup", root) >= (int)sizeof path)
        return UINT64_MAX;
    FILE *file = fopen(path, "re");
    if (!file)
        return UINT64_MAX;
    while (fgets(line, sizeof line, file)) {
        uint64_t number = look_at_line(root, line);
        least = number < least ? number : least;
    }
    fclose(file);
    return least;
}

/* --- all of them --- */

struct rota_memory rota_memory_look(void)
{
    struct rlimit limit;
    struct rota_memory memory = {(uint64_t)sysconf(_SC_PHYS_PAGES) *
                                     (uint64_t)sysconf(_SC_PAGESIZE),
                                 ROTA_MEMORY_OF_MACHINE};
    uint64_t of_groups = rota_memory_of_groups("");
    if (of_groups < memory.bytes)
        memory = (struct rota_memory){of_groups, ROTA_MEMORY_OF_GROUP};
    if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
        limit.rlim_cur < memory.bytes)
        memory = (struct rota_memory){limit.rlim_cur, ROTA_MEMORY_OF_ADDRESSES};
    return memory;
}

enum rota_memory_verdict rota_memory_judge(const struct rota_memory *memory, uint64_t allowed)
{
    uint64_t least = memory->bound == ROTA_MEMORY_OF_ADDRESSES ? ROTA_MEMORY_ADDRESSES_MIN
                                                               : ROTA_MEMORY_NODE_MIN;
    if (memory->bytes < least)
        return ROTA_MEMORY_TOO_LITTLE;
    return memory->bytes - least < allowed ? ROTA_MEMORY_LESS_THAN_ALLOWED : ROTA_MEMORY_ENOUGH;
}

const char *rota_memory_bound_name(enum rota_memory_bound bound)
{
    switch (bound) {
    case ROTA_MEMORY_OF_MACHINE:
        return "the machine";
    case ROTA_MEMORY_OF_GROUP:
        return "the control group";
    case ROTA_MEMORY_OF_ADDRESSES:
        break;
    }
    return "the address space (ulimit -v)";
}

void rota_memory_set_up(void)
{
#ifdef __GLIBC__
    mallopt(M_MMAP_THRESHOLD, ROTA_MEMORY_MAPPED);
#endif
}
