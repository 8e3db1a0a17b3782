/* The lease table as core/own/lease_fsm.h has it, without a database: what a
 * simulation grants by, and what a real one is compared with. */
#pragma once

#include "core/own/lease_watch.h"

enum { LEASE_TABLE_SHARDS_MAX = 64 };

struct lease_table_row {
    uint32_t host;     /* the last holder's name, a number here; 0: never held */
    uint64_t instance; /* 0: free */
    uint64_t epoch, pings;
    rota_time last_ping; /* by the database's clock */
    rota_time ttl;
};

struct lease_table {
    uint32_t n_shards;
    rota_time hold_until; /* no claims before, by the database's clock */
    struct lease_table_row rows[LEASE_TABLE_SHARDS_MAX];
};

struct lease_table_claim {
    uint32_t host;
    uint64_t instance;
    rota_time ttl;
    bool is_alone;
    uint64_t floor;
    struct rota_lease_dead dead[ROTA_LEASE_DEAD_MAX];
    size_t n_dead;
};

/* `now` is the database's clock. False: none. */
bool lease_table_claim(struct lease_table *table, rota_time now,
                       const struct lease_table_claim *claim, uint32_t *shard, uint64_t *epoch);

/* False: taken. */
bool lease_table_ping(struct lease_table *table, rota_time now, uint32_t shard, uint64_t instance,
                      uint64_t epoch);

void lease_table_release(struct lease_table *table, rota_time now, uint32_t shard,
                         uint64_t instance, uint64_t epoch);

/* All rows, as this host sees them. */
size_t lease_table_list(const struct lease_table *table, uint32_t host,
                        struct rota_lease_row rows[LEASE_TABLE_SHARDS_MAX]);
