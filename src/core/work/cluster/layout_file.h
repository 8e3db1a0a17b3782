/* layout_file: the layout that the file of dynamic settings (<rota/experimental/config.h>) gives a
 * queue.
 *
 * What the file names, for one queue or for all, wins. What it does not name is up to commands
 * (`rota queue partitions`, `rota queue spread`), and without these to the defaults of the nodes.
 *
 * Nodes take the number of partitions from the setting for writes. They find the number to read
 * themselves: it follows when the partitions beyond are empty (layout.h). */
#pragma once

#include "core/work/cluster/layout.h"

struct rota_layout_file {
    struct rota_queue_config values;
    uint32_t partitions_line;       /* where the file names it; 0: it does not */
    uint32_t batch_line, mode_line; /* the same */
};

/* `config` may be NULL: a file that names nothing. */
struct rota_layout_file rota_layout_file_of(const struct rota_config *config,
                                            struct rota_str queue);

/* The layout of a queue that no command has changed and that has no jobs: it begins with the final
 * values. Values that no layout can have, as too many partitions, stay as in `usual`. */
struct rota_work_layout rota_layout_file_usual(const struct rota_layout_file *file,
                                               const struct rota_work_layout *usual);

/* The first step from `layout` to what the file says at `now` (wall clock): `*next`, which is
 * equal to `layout` when there is nothing to do. What the file does not name stays. Fails like
 * rota_layout_want(). */
enum rota_code rota_layout_file_want(const struct rota_layout_file *file,
                                     const struct rota_work_layout *layout, rota_time now,
                                     struct rota_work_layout *next, struct rota_error *error);

/* Whether a request changes what the file decides; `*line` is the place. */
bool rota_layout_file_decides(const struct rota_layout_file *file,
                              const struct rota_layout_wish *wish, uint32_t *line);
