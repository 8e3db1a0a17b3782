/* plan_hosts: the hosts before and after a change.
 *
 * The hosts before come from a file or a store; those after come from another file, or from edits
 * on the command line. */
#pragma once

#include "base/option.h"
#include "cli/place/host_options.h"

#include <rota/ring.h>

/* The changes to the hosts, applied in this order; all empty: none. */
struct rota_plan_hosts {
    const char *file; /* replaces the first file; NULL: none */
    struct rota_option_list remove, remove_zone, weight, add;
};

/* The name of an option that changes the hosts, or NULL if there is none. */
const char *rota_plan_hosts_change(const struct rota_plan_hosts *then);

/* Build the rings before and after; both are the same if nothing changes. `now` decides which hosts
 * are placed. Gives both; if both are empty, that is an error, ROTA_ERR_UNAVAILABLE. */
enum rota_code rota_plan_hosts_build(struct rota_host_options *from,
                                     const struct rota_plan_hosts *then, rota_time now,
                                     int64_t points_before, int64_t points_after,
                                     struct rota_ring **before, struct rota_ring **after,
                                     struct rota_error *error);
