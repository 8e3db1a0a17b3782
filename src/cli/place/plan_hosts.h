/* plan_hosts: the hosts there are, and those there would be.
 *
 * A plan's hosts come from a file or a store; then another file, or edits on the command
 * line, say what becomes of them. */
#pragma once

#include "base/option.h"
#include "cli/place/host_options.h"

#include <rota/ring.h>

/* What becomes of the hosts, in this order; all empty: nothing. */
struct rota_plan_hosts {
    const char *file; /* takes the place of the first one; NULL: none */
    struct rota_option_list remove, remove_zone, weight, add;
};

/* The name of an option that changes the hosts, or NULL when none does. */
const char *rota_plan_hosts_change(const struct rota_plan_hosts *then);

/* Build the ring of the hosts there are and the one that comes of it; the same one
 * when nothing changes. `now` decides which hosts are placed. Gives both; that
 * both are empty is refused as ROTA_ERR_UNAVAILABLE. */
enum rota_code rota_plan_hosts_build(struct rota_host_options *from,
                                     const struct rota_plan_hosts *then, rota_time now,
                                     int64_t points_before, int64_t points_after,
                                     struct rota_ring **before, struct rota_ring **after,
                                     struct rota_error *error);
