/* up_show: what `rota up` prints about its cluster. */
#pragma once

#include "cli/watch.h"
#include "demo/up.h"

struct rota_up_run {
    size_t n_nodes;
    uint64_t n_kills, n_pauses;
    rota_time duration;
    bool is_kept; /* every promise was checked */
};

/* Print how the run ended, with a row per promise. */
void rota_up_show_verdict(struct rota_watch *watch, const struct rota_up_ledger *ledger,
                          const struct rota_up_run *run);

/* Print where the nodes are and what to try, or the same as JSON; `data` is the common directory,
 * `rota` this program. */
void rota_up_show(struct rota_watch *watch, const struct rota_up_process *nodes, size_t n_nodes,
                  const char *data, const char *rota, bool has_no_load);
