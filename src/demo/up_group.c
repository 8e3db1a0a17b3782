#include "demo/up.h"

#include "sim/splits.h"

#include <stdio.h>

void rota_up_group_begin(struct rota_check_rows *rows)
{
    for (int i = 0; i < ROTA_UP_PARTITIONS; i++) {
        char name[24];
        snprintf(name, sizeof name, "p%d", i);
        rota_check_rows_made(rows, name, NULL, 0);
    }
}

/* --- lines of `rota group join`, our own program's --- */

static bool read_number(const char *line, const char *key, int64_t *number)
{
    const char *value = strstr(line, key);
    if (!value)
        return false;
    *number = strtoll(value + strlen(key), NULL, 10);
    return true;
}

/* The names are those of the sample's partitions and tasks, which need no escapes. */
static bool read_name(const char *line, const char *key, char *name, size_t size)
{
    const char *value = strstr(line, key);
    if (!value)
        return false;
    value += strlen(key);
    snprintf(name, size, "%.*s", (int)strcspn(value, "\""), value);
    return true;
}

/* Where a partition ends and what follows is computed from its name and the row, so that we know it
 * without asking the group. */
static void note_end(struct rota_check_rows *rows, const char *name, int64_t from, int64_t to)
{
    struct rota_splits_child children[2];
    int64_t end = rota_splits_end(rota_str(name), from, to, ROTA_UP_ROWS_MEAN);
    if (!end)
        return;
    rota_check_rows_ended(rows, name, end);
    size_t n = rota_splits_children(rota_str(name), children);
    for (size_t i = 0; i < n; i++) {
        const char *const parents[] = {children[i].parents[0], children[i].parents[1]};
        rota_check_rows_made(rows, children[i].name, parents, children[i].n_parents);
    }
}

void rota_up_group_read_line(struct rota_check_rows *rows, const char *line)
{
    char event[32], name[256];
    int64_t token, at, who, mark, from, to;
    if (!read_name(line, "\"event\":\"", event, sizeof event) ||
        !read_name(line, "\"partition\":\"", name, sizeof name) ||
        !read_number(line, "\"token\":", &token) || !read_number(line, "\"at\":", &at) ||
        !read_number(line, "\"incarnation\":", &who))
        return;
    if (strcmp(event, "start") == 0 && read_number(line, "\"mark\":", &mark)) {
        rota_check_rows_start(rows, name, (uint64_t)token, (uint64_t)who, mark, at);
    } else if (strcmp(event, "read") == 0 && read_number(line, "\"from\":", &from) &&
               read_number(line, "\"to\":", &to)) {
        rota_check_rows_read(rows, name, (uint64_t)token, (uint64_t)who, from, to, at);
        note_end(rows, name, from, to);
    } else if (strcmp(event, "progress") == 0 && read_number(line, "\"mark\":", &mark)) {
        rota_check_rows_progress(rows, name, (uint64_t)token, mark);
    }
}
