/* The tables of views and members as core/own/view_fsm.h has them, for one space and without a
 * database: the model for simulations, with which a real database is compared. */
#pragma once

#include "base/hash.h"
#include "core/own/view_fsm.h"

enum { VIEW_TABLE_ROWS_MAX = 16, VIEW_TABLE_NAME_MAX = 16, VIEW_TABLE_TEXT_MAX = 1 << 16 };

struct view_table_row {
    char name[VIEW_TABLE_NAME_MAX];
    uint64_t instance, pings;
    rota_time ttl;
    uint64_t acked, highest;
    uint32_t weight;
    char zone[VIEW_TABLE_NAME_MAX];
    bool is_draining;
    rota_time last_ping; /* by the database's clock; nobody reads it */
};

struct view_table {
    uint64_t number; /* 0: there is no view */
    size_t text_size;
    char text[VIEW_TABLE_TEXT_MAX];
    size_t n_rows;
    struct view_table_row rows[VIEW_TABLE_ROWS_MAX];
};

struct view_table_row *view_table_find(struct view_table *table, const char *name);
void view_table_remove(struct view_table *table, struct view_table_row *row);

/* False: the name is taken. */
bool view_table_join(struct view_table *table, const struct view_table_row *made, uint64_t former);

/* False: gone. */
bool view_table_beat(struct view_table *table, const struct view_table_row *made);

void view_table_leave(struct view_table *table, const char *name, uint64_t instance);
bool view_table_evict(struct view_table *table, const char *name, uint64_t instance,
                      uint64_t pings);
uint64_t view_table_hash(const struct view_table *table);

/* Whether the view that is there has this number, and a text with this hash. */
bool view_table_has(const struct view_table *table, uint64_t number, uint64_t hash);

/* False: another view is there than the known one. */
bool view_table_propose(struct view_table *table, uint64_t known, uint64_t known_hash,
                        uint64_t number, struct rota_str text);
