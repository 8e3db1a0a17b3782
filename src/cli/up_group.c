#include "cli/up.h"

#include <stdio.h>
#include <stdlib.h>

void rota_up_group_init(struct rota_up_group *group)
{
    *group = (struct rota_up_group){.n_reads = 0};
    rota_map_init(&group->by_name, 0);
}

void rota_up_group_deinit(struct rota_up_group *group)
{
    for (size_t i = 0; i < group->partitions.size; i++) {
        free(group->partitions.items[i]->name);
        free(group->partitions.items[i]);
    }
    rota_vector_deinit(&group->partitions);
    rota_map_deinit(&group->by_name);
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

/* The name is of the sample's partitions, which need no escapes. */
static bool read_name(const char *line, const char *key, char *name, size_t size)
{
    const char *value = strstr(line, key);
    if (!value)
        return false;
    value += strlen(key);
    snprintf(name, size, "%.*s", (int)strcspn(value, "\""), value);
    return true;
}

/* --- what was read --- */

static struct rota_up_rows *find_rows(struct rota_up_group *group, const char *name)
{
    struct rota_up_rows *rows = rota_map_get(&group->by_name, rota_str(name));
    if (rows || group->partitions.size == ROTA_UP_PARTITIONS_MAX)
        return rows;
    rows = calloc(1, sizeof *rows);
    if (!rows || !(rows->name = strdup(name)) || !rota_vector_push(&group->partitions, rows)) {
        free(rows ? rows->name : NULL);
        free(rows);
        return NULL;
    }
    if (!rota_map_put(&group->by_name, rota_str(rows->name), rows))
        rows->is_lost = true; /* without memory nothing can be said of it */
    return rows;
}

/* Lines of different tasks come in no order, so gaps may close later. */
static void add_part(struct rota_up_rows *rows, int64_t from, int64_t to)
{
    size_t first = 0, last;
    while (first < rows->n_parts && rows->parts[first].to < from)
        first++;
    for (last = first; last < rows->n_parts && rows->parts[last].from <= to; last++) {
        from = rows->parts[last].from < from ? rows->parts[last].from : from;
        to = rows->parts[last].to > to ? rows->parts[last].to : to;
    }
    if (first == last && rows->n_parts == ROTA_UP_GAPS_MAX) {
        rows->is_lost = true;
        return;
    }
    memmove(&rows->parts[first + 1], &rows->parts[last],
            (rows->n_parts - last) * sizeof rows->parts[0]);
    rows->n_parts = rows->n_parts + 1 - (last - first);
    rows->parts[first].from = from;
    rows->parts[first].to = to;
}

__attribute__((format(printf, 2, 3))) static void tell(struct rota_up_group *group,
                                                       const char *format, ...)
{
    va_list arguments;
    if (group->n_told == ROTA_UP_TOLD_MAX)
        return;
    va_start(arguments, format);
    vsnprintf(group->told[group->n_told++], sizeof group->told[0], format, arguments);
    va_end(arguments);
}

/* All tasks are of this machine, and its clock is the one that they tell the time by. */
static void note_token(struct rota_up_group *group, struct rota_up_rows *rows, uint64_t token,
                       rota_time at)
{
    if (token > rows->token) {
        rows->token = token;
        rows->since = at;
    } else if (token < rows->token && at > rows->since) {
        group->n_overlaps++;
        tell(group, "partition %.100s is read under token %llu after %llu had begun", rows->name,
             (unsigned long long)token, (unsigned long long)rows->token);
    }
}

void rota_up_group_hear(struct rota_up_group *group, const char *line)
{
    char event[32], name[256];
    int64_t token, from, to, at;
    if (!read_name(line, "\"event\":\"", event, sizeof event) || strcmp(event, "read") != 0 ||
        !read_name(line, "\"partition\":\"", name, sizeof name) ||
        !read_number(line, "\"token\":", &token) || !read_number(line, "\"from\":", &from) ||
        !read_number(line, "\"to\":", &to) || !read_number(line, "\"at\":", &at))
        return;
    struct rota_up_rows *rows = find_rows(group, name);
    if (!rows)
        return;
    group->n_reads++;
    note_token(group, rows, (uint64_t)token, at);
    add_part(rows, from, to);
}

void rota_up_group_judge(struct rota_up_group *group)
{
    group->n_lost = 0;
    for (size_t i = 0; i < group->partitions.size; i++) {
        const struct rota_up_rows *rows = group->partitions.items[i];
        if (rows->n_parts <= 1 && !rows->is_lost)
            continue;
        group->n_lost++;
        tell(group, "rows of partition %.100s were passed over, from %lld on", rows->name,
             (long long)(rows->n_parts > 0 ? rows->parts[0].to : 0));
    }
}
