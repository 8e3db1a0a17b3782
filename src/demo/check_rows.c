#include "demo/check_rows.h"

#include <assert.h>
#include <string.h>

void rota_check_rows_init(struct rota_check_rows *rows, struct rota_check *check)
{
    *rows = (struct rota_check_rows){.check = check};
    rota_map_init(&rows->by_name, 0);
}

static void partition_free(struct rota_check_partition *partition)
{
    if (!partition)
        return;
    rota_vector_deinit(&partition->readers);
    free(partition->name);
    free(partition);
}

void rota_check_rows_deinit(struct rota_check_rows *rows)
{
    for (size_t i = 0; i < rows->partitions.size; i++)
        partition_free(rows->partitions.items[i]);
    rota_vector_deinit(&rows->partitions);
    rota_map_deinit(&rows->by_name);
}

/* --- partitions --- */

static struct rota_check_partition *make_partition(struct rota_check_rows *rows, const char *name)
{
    size_t size = strlen(name) + 1;
    struct rota_check_partition *made = calloc(1, sizeof *made);
    if (!made || !(made->name = malloc(size)) ||
        !rota_vector_reserve(&rows->partitions, rows->partitions.size + 1) ||
        !rota_map_put(&rows->by_name, rota_str(memcpy(made->name, name, size)), made)) {
        partition_free(made);
        return NULL;
    }
    made->reached = made->end = -1;
    rows->partitions.items[rows->partitions.size++] = made;
    return made;
}

/* The partition of this name, added if needed. NULL: there is no room for it. */
static struct rota_check_partition *find_or_add_partition(struct rota_check_rows *rows,
                                                          const char *name)
{
    struct rota_check_partition *found = rota_map_get(&rows->by_name, rota_str(name));
    if (!found && rows->partitions.size < ROTA_CHECK_PARTITIONS_MAX)
        found = make_partition(rows, name);
    if (!found)
        rota_check_report_fault(rows->check, ROTA_CHECK_UNCHECKED,
                                "partition %.100s is not checked: too many partitions", name);
    return found;
}

void rota_check_rows_made(struct rota_check_rows *rows, const char *name,
                          const char *const *parents, size_t n_parents)
{
    struct rota_check_partition *partition = find_or_add_partition(rows, name);
    assert(n_parents <= ROTA_CHECK_PARENTS_MAX);
    if (!partition || partition->is_made)
        return;
    for (size_t i = 0; i < n_parents; i++)
        if (!(partition->parents[i] = find_or_add_partition(rows, parents[i])))
            return; /* already reported */
    partition->n_parents = n_parents;
    partition->is_made = true;
}

void rota_check_rows_ended(struct rota_check_rows *rows, const char *name, int64_t row)
{
    struct rota_check_partition *partition = find_or_add_partition(rows, name);
    if (!partition)
        return;
    partition->end = row;
    rows->n_awaited -= partition->is_awaited;
    partition->is_awaited = false;
}

/* --- readers --- */

/* The place of a token, or where it would be. */
static size_t place_of_token(const struct rota_check_partition *partition, uint64_t token)
{
    size_t i = partition->readers.size;
    while (i > 0 && partition->readers.items[i - 1].token >= token)
        i--;
    return i;
}

static struct rota_check_reader *find_reader(const struct rota_check_partition *partition,
                                             uint64_t token)
{
    size_t i = place_of_token(partition, token);
    return i < partition->readers.size && partition->readers.items[i].token == token
               ? &partition->readers.items[i]
               : NULL;
}

static void tell_late(struct rota_check_rows *rows, const struct rota_check_partition *partition,
                      struct rota_check_reader *reader, uint64_t later)
{
    if (reader->is_late)
        return;
    reader->is_late = true;
    rota_check_report_fault(
        rows->check, ROTA_CHECK_ROW_LATE,
        "partition %.100s is read under the stale token %llu after a reader started under %llu",
        partition->name, (unsigned long long)reader->token, (unsigned long long)later);
}

void rota_check_rows_start(struct rota_check_rows *rows, const char *name, uint64_t token,
                           uint64_t who, int64_t mark, rota_time at)
{
    struct rota_check_partition *partition = find_or_add_partition(rows, name);
    const struct rota_check_reader made = {.token = token,
                                           .who = who,
                                           .start_at = at,
                                           .last_at = at,
                                           .mark = mark,
                                           .reached = mark,
                                           .committed = mark};
    if (!partition)
        return;
    size_t i = place_of_token(partition, token);
    if (find_reader(partition, token)) {
        rota_check_report_fault(rows->check, ROTA_CHECK_TWO_READERS,
                                "partition %.100s was started twice under token %llu", name,
                                (unsigned long long)token);
        return;
    }
    if (partition->readers.size == ROTA_CHECK_READERS_MAX ||
        !rota_vector_push(&partition->readers, made)) {
        rota_check_report_fault(rows->check, ROTA_CHECK_UNCHECKED,
                                "a reader of partition %.100s is not checked: too many readers",
                                name);
        return;
    }
    struct rota_check_reader *readers = partition->readers.items;
    memmove(&readers[i + 1], &readers[i], (partition->readers.size - 1 - i) * sizeof made);
    readers[i] = made;
    for (size_t n = 0; n < i; n++)
        if (readers[n].reached > readers[n].mark && readers[n].last_at > at)
            tell_late(rows, partition, &readers[n], token);
}

/* Each of its rows once, one after the other. */
static void check_next_rows(struct rota_check_rows *rows, struct rota_check_partition *partition,
                            struct rota_check_reader *reader, int64_t from, int64_t to)
{
    if (from != reader->reached || to < from)
        rota_check_report_fault(
            rows->check, from > reader->reached ? ROTA_CHECK_ROW_LOST : ROTA_CHECK_ROW_TWICE,
            "a reader of partition %.100s continues at row %lld but was at row %lld",
            partition->name, (long long)from, (long long)reader->reached);
    if (to > reader->reached)
        reader->reached = to;
    if (partition->reached < reader->mark)
        partition->reached = reader->mark;
    if (to > partition->reached) {
        rows->n_rows += (uint64_t)(to - partition->reached);
        partition->reached = to;
    }
}

void rota_check_rows_read(struct rota_check_rows *rows, const char *name, uint64_t token,
                          uint64_t who, int64_t from, int64_t to, rota_time at)
{
    struct rota_check_partition *partition = find_or_add_partition(rows, name);
    struct rota_check_reader *reader = partition ? find_reader(partition, token) : NULL;
    if (!partition)
        return;
    if (!reader || reader->who != who) {
        rota_check_report_fault(
            rows->check, ROTA_CHECK_TWO_READERS,
            "partition %.100s is read under token %llu by a task that does not own it", name,
            (unsigned long long)token);
        return;
    }
    reader->last_at = at;
    check_next_rows(rows, partition, reader, from, to);
    const struct rota_check_reader *end = partition->readers.items + partition->readers.size;
    for (const struct rota_check_reader *later = reader + 1; later < end; later++)
        if (later->start_at < at)
            tell_late(rows, partition, reader, later->token);
    rows->n_awaited -= partition->is_awaited;
    partition->is_awaited = false;
}

void rota_check_rows_progress(struct rota_check_rows *rows, const char *name, uint64_t token,
                              int64_t mark)
{
    struct rota_check_partition *partition = find_or_add_partition(rows, name);
    struct rota_check_reader *reader = partition ? find_reader(partition, token) : NULL;
    if (reader && mark > reader->committed)
        reader->committed = mark;
}

/* --- the end --- */

static bool have_parents_ended(const struct rota_check_partition *partition)
{
    for (size_t i = 0; i < partition->n_parents; i++)
        if (partition->parents[i]->end < 0)
            return false;
    return true;
}

/* A partition from before this run appears only as a parent. */
static bool is_known_partition(const struct rota_check_partition *partition)
{
    return partition->is_made || partition->readers.size > 0;
}

void rota_check_rows_await(struct rota_check_rows *rows)
{
    rows->n_awaited = 0;
    for (size_t i = 0; i < rows->partitions.size; i++) {
        struct rota_check_partition *partition = rows->partitions.items[i];
        partition->is_awaited =
            partition->end < 0 && is_known_partition(partition) && have_parents_ended(partition);
        rows->n_awaited += partition->is_awaited;
    }
}

/* It begins where one of its parents has ended. */
static void judge_begin(struct rota_check_rows *rows, const struct rota_check_partition *partition)
{
    int64_t mark = partition->readers.items[0].mark, least = 0;
    bool is_right = partition->n_parents == 0 && mark == 0;
    for (size_t i = 0; i < partition->n_parents; i++) {
        int64_t end = partition->parents[i]->end;
        if (end < 0)
            return; /* it is reported as EARLY, or is from before this run */
        is_right |= end == mark;
        least = i == 0 || end < least ? end : least;
    }
    if (!is_right)
        rota_check_report_fault(
            rows->check, mark < least ? ROTA_CHECK_ROW_TWICE : ROTA_CHECK_ROW_LOST,
            "partition %.100s starts at the wrong row %lld", partition->name, (long long)mark);
}

static void judge_readers(struct rota_check_rows *rows,
                          const struct rota_check_partition *partition)
{
    const struct rota_check_reader *readers = partition->readers.items;
    int64_t reached = readers[0].mark, committed = readers[0].mark;
    for (size_t i = 0; i < partition->readers.size; i++) {
        if (readers[i].mark > reached)
            rota_check_report_fault(rows->check, ROTA_CHECK_ROW_LOST,
                                    "rows %lld to %lld of partition %.100s were skipped",
                                    (long long)reached, (long long)readers[i].mark - 1,
                                    partition->name);
        if (readers[i].mark < committed)
            rota_check_report_fault(
                rows->check, ROTA_CHECK_ROW_TWICE,
                "partition %.100s restarts at row %lld, but row %lld was committed",
                partition->name, (long long)readers[i].mark, (long long)committed);
        reached = readers[i].reached > reached ? readers[i].reached : reached;
        committed = readers[i].committed > committed ? readers[i].committed : committed;
    }
    if (partition->end >= 0 && reached > partition->end)
        rota_check_report_fault(rows->check, ROTA_CHECK_ROW_TWICE,
                                "partition %.100s was read up to row %lld but ends at row %lld",
                                partition->name, (long long)reached, (long long)partition->end);
}

static void judge_parent(struct rota_check_rows *rows, const struct rota_check_partition *child,
                         const struct rota_check_partition *parent)
{
    rota_time begun_at = child->readers.items[0].start_at;
    bool is_early = is_known_partition(parent) && parent->end < 0;
    for (size_t i = 0; i < parent->readers.size; i++)
        is_early |= parent->readers.items[i].last_at > begun_at;
    if (is_early)
        rota_check_report_fault(
            rows->check, ROTA_CHECK_PARTITION_EARLY,
            "partition %.80s was started before the last row of its parent %.80s was read",
            child->name, parent->name);
}

void rota_check_rows_judge(struct rota_check_rows *rows)
{
    for (size_t i = 0; i < rows->partitions.size; i++) {
        const struct rota_check_partition *partition = rows->partitions.items[i];
        if (partition->is_awaited)
            rota_check_report_fault(rows->check, ROTA_CHECK_PARTITION_FORGOTTEN,
                                    "no task reads partition %.100s", partition->name);
        if (partition->readers.size == 0)
            continue;
        judge_readers(rows, partition);
        if (partition->is_made)
            judge_begin(rows, partition);
        for (size_t n = 0; n < partition->n_parents; n++)
            judge_parent(rows, partition, partition->parents[n]);
    }
}
