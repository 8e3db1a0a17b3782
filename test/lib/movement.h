/* How much moves, and how even the load is, when one host joins: the figures
 * behind the promises of spread routing. Used by the test that checks them and
 * by the program that prints them for the docs. */
#pragma once

#include <math.h>
#include <rota/experimental/route.h>
#include <stdio.h>
#include <stdlib.h>

struct movement {
    double moved;      /* share of all partitions that change their host */
    double ratio;      /* the same against the minimum, 1 / (hosts + 1) */
    double unevenness; /* standard deviation of the load per host, in means */
    double most;       /* the largest number of a batch's slots on one host, on average */
    bool is_distinct;  /* no batch has two slots on a host, or too uneven a share */
};

enum { MOVEMENT_CLUSTERS = 4 }; /* different sets of addresses, to average over */

static struct rota_ring *movement_ring(int cluster, uint32_t n_hosts)
{
    struct rota_ring_host *hosts = calloc(n_hosts, sizeof *hosts);
    char(*names)[48] = calloc(n_hosts, sizeof *names);
    struct rota_ring *ring = NULL;
    if (!hosts || !names)
        abort();
    for (uint32_t i = 0; i < n_hosts; i++) {
        snprintf(names[i], sizeof names[i], "10.%d.%u.%u:7000", cluster, i / 250, i % 250);
        hosts[i].address = rota_str(names[i]);
    }
    if (rota_ring_new(hosts, n_hosts, 0, &ring, NULL))
        abort();
    free(hosts);
    free(names);
    return ring;
}

/* For each host of `from` its number in `to`, in which all of them are. */
static uint32_t *movement_numbers(const struct rota_ring *from, const struct rota_ring *to)
{
    uint32_t *numbers = calloc(rota_ring_size(from) + 1, sizeof *numbers);
    if (!numbers)
        abort();
    for (uint32_t i = 0; i < rota_ring_size(from); i++)
        numbers[i] = rota_ring_find(to, rota_ring_host(from, i).address);
    return numbers;
}

static void movement_of_queue(const struct rota_ring *before, const struct rota_ring *after,
                              const uint32_t *numbers, struct rota_spread spread, int queue,
                              size_t *load, struct movement *sum)
{
    char name[32];
    uint32_t old_hosts[ROTA_BATCH_MAX], new_hosts[ROTA_BATCH_MAX];
    uint32_t n_hosts = (uint32_t)rota_ring_size(before), most = 0;
    uint32_t allowed = (spread.batch + n_hosts - 1) / n_hosts;
    snprintf(name, sizeof name, "queue-%d", queue);
    struct rota_partition partition = {
        .namespace_id = rota_str("default"), .queue = rota_str(name), .type = ROTA_TASK_WORKFLOW};

    rota_route_all(before, &partition, spread, spread.batch, old_hosts);
    rota_route_all(after, &partition, spread, spread.batch, new_hosts);
    for (uint32_t i = 0; i < spread.batch; i++) {
        uint32_t same = 0;
        sum->moved += numbers[old_hosts[i]] != new_hosts[i];
        load[old_hosts[i]]++;
        for (uint32_t j = 0; j < spread.batch; j++)
            same += old_hosts[i] == old_hosts[j];
        most = same > most ? same : most;
    }
    sum->most += most;
    sum->is_distinct = sum->is_distinct && most <= allowed;
}

/* One host joins `n_hosts`; averaged over queues of one batch each. A host that
 * leaves is the same the other way round. */
static inline struct movement movement_measure(struct rota_spread spread, uint32_t n_hosts,
                                               int n_queues)
{
    struct movement sum = {.is_distinct = true};
    double total = (double)n_queues * spread.batch;

    for (int cluster = 0; cluster < MOVEMENT_CLUSTERS; cluster++) {
        struct rota_ring *before = movement_ring(cluster, n_hosts);
        struct rota_ring *after = movement_ring(cluster, n_hosts + 1);
        uint32_t *numbers = movement_numbers(before, after);
        size_t *load = calloc(n_hosts, sizeof *load);
        double mean = total / n_hosts, squares = 0;
        if (!load)
            abort();
        for (int queue = 0; queue < n_queues; queue++)
            movement_of_queue(before, after, numbers, spread, queue, load, &sum);
        for (uint32_t i = 0; i < n_hosts; i++)
            squares += ((double)load[i] - mean) * ((double)load[i] - mean);
        sum.unevenness += sqrt(squares / n_hosts) / mean;
        free(load);
        free(numbers);
        rota_ring_unref(before);
        rota_ring_unref(after);
    }
    sum.moved /= MOVEMENT_CLUSTERS * total;
    sum.ratio = sum.moved * (n_hosts + 1);
    sum.unevenness /= MOVEMENT_CLUSTERS;
    sum.most /= MOVEMENT_CLUSTERS * (double)n_queues;
    return sum;
}
