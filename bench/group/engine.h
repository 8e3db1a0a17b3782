/* engine: the groups of `bench group` on one engine, whose server was started for them.
 *
 * Prints a line for each round,
 *
 *     result CELL PEER IS-RIGHT MS HAD MOVED INTERRUPTED
 *
 * and on SQLite what the log takes: `bytes CHANGES RECORDS BYTES SNAPSHOT-BYTES LARGEST`. */
#pragma once

#include <stdbool.h>

enum { GROUP_SESSION_MS = 6000 };

enum engine { SQLITE, POSTGRES, KAFKA, N_ENGINES };
enum peer { ROTA_SQLITE, ROTA_POSTGRES, ROTA_KAFKA, RANGE, STICKY, N_PEERS };

struct peer_kind {
    const char *name, *assignor; /* NULL: Rota's */
    enum engine engine;
};
extern const struct peer_kind peers[N_PEERS];

struct cell {
    int n_members, n_partitions;
};

struct result {
    double ms;          /* from the kill until all have an owner */
    double had;         /* partitions of the one that was killed */
    double moved;       /* partitions that have another owner than before */
    double interrupted; /* ... of the living, that were stopped */
};

/* Of one more cell, of Rota on SQLite: 3 members that split 10,000 partitions. */
struct bytes {
    double changes, records, bytes, snapshot_bytes, largest;
};

/* Every peer of the engine in every cell; returns the exit code. */
int engine_run(enum engine engine, const char *url, const struct cell *cells, int n_cells,
               int n_rounds);
