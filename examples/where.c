/* Computes which hosts own the partitions of a queue, and which partitions move when a host
 * joins. Uses nothing but the library. */
#include <rota/experimental/route.h>
#include <rota/rota.h>
#include <stdio.h>

enum { PARTITIONS = 8 };

static struct rota_ring *make_ring(const struct rota_ring_host *hosts, size_t n_hosts)
{
    struct rota_ring *ring;
    struct rota_error error;
    if (rota_ring_new(hosts, n_hosts, 0, &ring, &error)) {
        fprintf(stderr, "where: %s\n", error.text);
        return NULL;
    }
    return ring;
}

int main(void)
{
    const struct rota_ring_host hosts[] = {
        {.address = {"10.0.0.1:7000", 13}},
        {.address = {"10.0.0.2:7000", 13}},
        {.address = {"10.0.0.3:7000", 13}},
    };
    const struct rota_ring_host newcomer = {.address = {"10.0.0.4:7000", 13}};
    const struct rota_partition queue = {
        .namespace_id = rota_str("shop"), .queue = rota_str("orders"), .type = ROTA_TASK_WORKFLOW};
    const struct rota_spread spread = {.mode = ROTA_SPREAD_SLOTS, .batch = PARTITIONS};
    uint32_t before[PARTITIONS], after[PARTITIONS];
    struct rota_ring *ring = make_ring(hosts, 3), *next = NULL;
    struct rota_error error;

    if (!ring)
        return 1;
    if (rota_ring_with(ring, &newcomer, 1, NULL, 0, &next, &error)) {
        fprintf(stderr, "where: %s\n", error.text);
        rota_ring_unref(ring);
        return 1;
    }
    rota_route_all(ring, &queue, spread, PARTITIONS, before);
    rota_route_all(next, &queue, spread, PARTITIONS, after);
    for (int i = 0; i < PARTITIONS; i++) {
        struct rota_str from = rota_ring_host(ring, before[i]).address;
        struct rota_str to = rota_ring_host(next, after[i]).address;
        printf("%d\t%.*s\t%.*s%s\n", i, ROTA_STR_ARGS(from), ROTA_STR_ARGS(to),
               rota_str_is_equal(from, to) ? "" : "\tmoves");
    }
    rota_ring_unref(ring);
    rota_ring_unref(next);
    return 0;
}
