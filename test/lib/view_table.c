#include "view_table.h"

struct view_table_row *view_table_find(struct view_table *table, const char *name)
{
    for (size_t i = 0; i < table->n_rows; i++)
        if (strcmp(table->rows[i].name, name) == 0)
            return &table->rows[i];
    return NULL;
}

void view_table_remove(struct view_table *table, struct view_table_row *row)
{
    *row = table->rows[--table->n_rows];
}

bool view_table_join(struct view_table *table, const struct view_table_row *made, uint64_t former)
{
    struct view_table_row *row = view_table_find(table, made->name);
    if (row ? row->instance != former : table->n_rows == VIEW_TABLE_ROWS_MAX)
        return false;
    if (!row)
        row = &table->rows[table->n_rows++];
    *row = *made;
    return true;
}

bool view_table_beat(struct view_table *table, const struct view_table_row *made)
{
    struct view_table_row *row = view_table_find(table, made->name);
    if (!row || row->instance != made->instance)
        return false;
    *row = *made;
    return true;
}

void view_table_leave(struct view_table *table, const char *name, uint64_t instance)
{
    struct view_table_row *row = view_table_find(table, name);
    if (row && row->instance == instance)
        view_table_remove(table, row);
}

bool view_table_evict(struct view_table *table, const char *name, uint64_t instance, uint64_t pings)
{
    struct view_table_row *row = view_table_find(table, name);
    if (!row || row->instance != instance || row->pings != pings)
        return false;
    view_table_remove(table, row);
    return true;
}

uint64_t view_table_hash(const struct view_table *table)
{
    return rota_hash_quick64(0, rota_str_of(table->text, table->text_size));
}

bool view_table_has(const struct view_table *table, uint64_t number, uint64_t hash)
{
    return table->number == number && (number == 0 || view_table_hash(table) == hash);
}

bool view_table_propose(struct view_table *table, uint64_t known, uint64_t known_hash,
                        uint64_t number, struct rota_str text)
{
    if (!view_table_has(table, known, known_hash) || text.size > sizeof table->text)
        return false;
    table->number = number;
    table->text_size = text.size;
    memcpy(table->text, text.data, text.size);
    return true;
}
