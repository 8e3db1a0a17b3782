/* The rings that recorded answers are about. */
#pragma once

#include "vectors.h"

#include <rota/ring.h>

/* The ring of this description, built at once. */
static inline struct rota_ring *ring_of_vector(const json_t *description)
{
    const json_t *servers = json_object_get(description, "servers");
    const json_t *identities = json_object_get(description, "identities");
    struct rota_ring_host hosts[256] = {0};
    struct rota_ring *ring;
    struct rota_error error;
    size_t n = json_array_size(servers);
    assert_true(n <= 256);
    for (size_t i = 0; i < n; i++) {
        hosts[i].address = rota_str(json_string_value(json_array_get(servers, i)));
        if (identities)
            hosts[i].identity = rota_str(json_string_value(json_array_get(identities, i)));
    }
    uint32_t points = (uint32_t)vectors_int(description, "replica_points");
    if (rota_ring_new(hosts, n, points, &ring, &error))
        fail_msg("%s", error.text);
    return ring;
}
