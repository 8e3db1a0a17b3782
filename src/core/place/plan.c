#include <rota/experimental/plan.h>

#include <assert.h>
#include <math.h>
#include <rota/experimental/gradual.h>
#include <stdlib.h>

/* Partitions are routed in chunks: few enough that both answers stay in the
 * cache, many enough that a batch is rarely cut. */
enum { CHUNK = 16384, BUCKETS_DEFAULT = 24 };

struct rota_plan {
    struct rota_plan_options options;
    struct rota_gradual window;
    struct rota_plan_result result;
    struct rota_plan_host *hosts;
    struct rota_plan_zone *zones;
    uint64_t *buckets;
    uint32_t *numbers_before, *numbers_after; /* host of a ring -> index into hosts */
    double gained_share; /* what fair shares gain, beyond those of the removed hosts */
    uint64_t unhoused;   /* of both sides, with a removed host */
    uint32_t routes_before[CHUNK], routes_after[CHUNK];
};

/* --- the hosts and zones of both rings --- */

static struct rota_ring_host ring_host(const struct rota_ring *ring, size_t number)
{
    return rota_ring_host(ring, (uint32_t)number);
}

static double share_of_host(const struct rota_ring *ring, double total, size_t number)
{
    return (double)ring_host(ring, number).weight / total;
}

static double total_weight(const struct rota_ring *ring)
{
    double total = 0;
    for (size_t i = 0; i < rota_ring_size(ring); i++)
        total += (double)ring_host(ring, i).weight;
    return total;
}

/* Both rings number their hosts by address, so one walk over both finds the union, in order, and
 * what the fair share of each host gains. Partitions of removed hosts have to move and are
 * counted one by one, so only what is gained beyond their shares is kept. */
static void join_hosts(struct rota_plan *plan)
{
    const struct rota_ring *before = plan->options.before, *after = plan->options.after;
    size_t n_before = rota_ring_size(before), n_after = rota_ring_size(after);
    double total_before = total_weight(before), total_after = total_weight(after);
    double gained = 0, left_behind = 0;
    size_t b = 0, a = 0, n = 0;

    while (b < n_before || a < n_after) {
        struct rota_plan_host *host = &plan->hosts[n];
        int order = b == n_before  ? 1
                    : a == n_after ? -1
                                   : rota_str_compare(ring_host(before, b).address,
                                                      ring_host(after, a).address);
        double gain = 0;
        if (order <= 0) {
            host->address = ring_host(before, b).address;
            host->zone = ring_host(before, b).zone;
            host->weight_before = ring_host(before, b).weight;
            host->is_before = true;
            gain -= share_of_host(before, total_before, b);
            plan->numbers_before[b++] = (uint32_t)n;
        }
        if (order >= 0) {
            host->address = ring_host(after, a).address;
            host->zone = ring_host(after, a).zone;
            host->weight_after = ring_host(after, a).weight;
            host->is_after = true;
            gain += share_of_host(after, total_after, a);
            plan->numbers_after[a++] = (uint32_t)n;
        }
        if (gain > 0)
            gained += gain;
        else if (!host->is_after)
            left_behind -= gain;
        n++;
    }
    plan->gained_share = gained > left_behind ? gained - left_behind : 0;
    plan->result.n_hosts = n;
}

static int compare_zones(const void *a, const void *b)
{
    return rota_str_compare(((const struct rota_plan_zone *)a)->name,
                            ((const struct rota_plan_zone *)b)->name);
}

static uint32_t find_zone(const struct rota_plan *plan, struct rota_str name)
{
    struct rota_plan_zone wanted = {.name = name};
    const struct rota_plan_zone *found =
        bsearch(&wanted, plan->zones, plan->result.n_zones, sizeof wanted, compare_zones);
    assert(found);
    return (uint32_t)(found - plan->zones);
}

/* Collect the zones of both rings, sorted and each once, and point hosts at
 * them. `zones` has room for one per host and ring. */
static void join_zones(struct rota_plan *plan)
{
    const struct rota_ring *rings[2] = {plan->options.before, plan->options.after};
    size_t n = 0, kept = 0;

    for (int side = 0; side < 2; side++)
        for (size_t i = 0; i < rota_ring_size(rings[side]); i++)
            plan->zones[n++].name = ring_host(rings[side], i).zone;
    qsort(plan->zones, n, sizeof *plan->zones, compare_zones);
    for (size_t i = 0; i < n; i++)
        if (kept == 0 || compare_zones(&plan->zones[kept - 1], &plan->zones[i]) != 0)
            plan->zones[kept++] = plan->zones[i];
    plan->result.n_zones = kept;

    for (size_t i = 0; i < rota_ring_size(rings[0]); i++) {
        struct rota_plan_host *host = &plan->hosts[plan->numbers_before[i]];
        host->zone_before = find_zone(plan, ring_host(rings[0], i).zone);
        plan->zones[host->zone_before].n_hosts_before++;
        plan->zones[host->zone_before].weight_before += host->weight_before;
    }
    for (size_t i = 0; i < rota_ring_size(rings[1]); i++) {
        struct rota_plan_host *host = &plan->hosts[plan->numbers_after[i]];
        host->zone_after = find_zone(plan, ring_host(rings[1], i).zone);
        plan->zones[host->zone_after].n_hosts_after++;
        plan->zones[host->zone_after].weight_after += host->weight_after;
    }
}

static enum rota_code check_window(const struct rota_plan_options *options,
                                   struct rota_gradual *window, struct rota_error *error)
{
    *window = (struct rota_gradual){.new_value = 1, .start = options->start, .end = options->end};
    if (options->n_buckets > ROTA_PLAN_BUCKETS_MAX)
        return rota_error_set(error, ROTA_ERR_LIMIT,
                              "plan: there are %zu buckets; at most %d are allowed",
                              options->n_buckets, ROTA_PLAN_BUCKETS_MAX);
    if (options->start != 0 && options->before != options->after)
        return rota_error_set(
            error, ROTA_ERR_INVALID,
            "plan: changes of hosts, weights or points apply immediately, not gradually");
    return rota_gradual_check(window, error);
}

enum rota_code rota_plan_new(const struct rota_plan_options *options, struct rota_plan **plan,
                             struct rota_error *error)
{
    size_t n_before = rota_ring_size(options->before), n_after = rota_ring_size(options->after);
    struct rota_gradual window;
    enum rota_code code = check_window(options, &window, error);
    if (code)
        return code;

    struct rota_plan *made = calloc(1, sizeof *made);
    if (!made)
        goto no_memory;
    made->options = *options;
    made->options.before = rota_ring_ref(options->before);
    made->options.after = rota_ring_ref(options->after);
    made->window = window;
    if (options->start != 0)
        made->result.n_buckets = options->start == options->end ? 1
                                 : options->n_buckets           ? options->n_buckets
                                                                : BUCKETS_DEFAULT;
    made->hosts = calloc(n_before + n_after + 1, sizeof *made->hosts);
    made->zones = calloc(n_before + n_after + 1, sizeof *made->zones);
    made->numbers_before = calloc(n_before + 1, sizeof *made->numbers_before);
    made->numbers_after = calloc(n_after + 1, sizeof *made->numbers_after);
    made->buckets = calloc(made->result.n_buckets + 1, sizeof *made->buckets);
    if (!made->hosts || !made->zones || !made->numbers_before || !made->numbers_after ||
        !made->buckets)
        goto no_memory;
    join_hosts(made);
    join_zones(made);
    *plan = made;
    return ROTA_OK;

no_memory:
    rota_plan_free(made);
    return rota_error_no_memory(error, "for the %zu hosts of a plan", n_before + n_after);
}

void rota_plan_free(struct rota_plan *plan)
{
    if (!plan)
        return;
    rota_ring_unref(plan->options.before);
    rota_ring_unref(plan->options.after);
    free(plan->hosts);
    free(plan->zones);
    free(plan->numbers_before);
    free(plan->numbers_after);
    free(plan->buckets);
    free(plan);
}

/* --- routing both ways --- */

static size_t bucket_of(const struct rota_plan *plan, rota_time at)
{
    double length = (double)(plan->options.end - plan->options.start);
    double place = length > 0 ? (double)(at - plan->options.start) / length : 0;
    size_t bucket = place > 0 ? (size_t)(place * (double)plan->result.n_buckets) : 0;
    return bucket < plan->result.n_buckets ? bucket : plan->result.n_buckets - 1;
}

/* When a moving partition flips: decided by its key in basic routing, whatever
 * its batch, as for every gradual change. */
static rota_time flip_at(const struct rota_plan *plan, struct rota_partition *partition,
                         uint32_t id)
{
    struct rota_route_key key;
    partition->id = id;
    rota_partition_route_key(partition, 0, &key);
    return rota_gradual_when(&plan->window, rota_str_of(key.text, key.size));
}

static uint32_t number_of(const uint32_t *numbers, uint32_t host)
{
    return host == ROTA_RING_NONE ? ROTA_RING_NONE : numbers[host];
}

/* Count and report one partition that moves. */
static void count_move(struct rota_plan *plan, struct rota_partition *partition,
                       struct rota_plan_move *move)
{
    struct rota_plan_result *result = &plan->result;
    switch (move->kind) {
    case ROTA_PLAN_MOVED:
        result->moved++;
        break;
    case ROTA_PLAN_NEW:
        result->added++;
        break;
    case ROTA_PLAN_GONE:
        result->gone++;
        break;
    case ROTA_PLAN_LOST:
        result->lost++;
        break;
    }
    if (move->kind != ROTA_PLAN_NEW && move->from != ROTA_RING_NONE) {
        plan->hosts[move->from].leaving++;
        if (move->kind == ROTA_PLAN_MOVED && !plan->hosts[move->from].is_after)
            plan->unhoused++;
    }
    if (move->kind != ROTA_PLAN_GONE && move->to != ROTA_RING_NONE)
        plan->hosts[move->to].arriving++;
    if (move->kind == ROTA_PLAN_MOVED && result->n_buckets > 0) {
        move->at = flip_at(plan, partition, move->partition);
        plan->buckets[bucket_of(plan, move->at)]++;
    }
    if (plan->options.on_move)
        plan->options.on_move(plan->options.data, move);
}

static void compare_chunk(struct rota_plan *plan, const struct rota_plan_space *space,
                          struct rota_partition *partition, uint32_t first, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        bool is_before = first + i < space->before.n_partitions;
        bool is_after = first + i < space->after.n_partitions;
        uint32_t from = ROTA_RING_NONE, to = ROTA_RING_NONE;
        if (is_before) {
            from = number_of(plan->numbers_before, plan->routes_before[i]);
            if (from != ROTA_RING_NONE)
                plan->hosts[from].before++;
        }
        if (is_after) {
            to = number_of(plan->numbers_after, plan->routes_after[i]);
            if (to != ROTA_RING_NONE)
                plan->hosts[to].after++;
        }
        if (is_before && is_after && from == to) {
            plan->result.stays++;
            continue;
        }
        struct rota_plan_move move = {
            .space = space,
            .partition = first + i,
            .kind = !is_before             ? ROTA_PLAN_NEW
                    : !is_after            ? ROTA_PLAN_GONE
                    : to == ROTA_RING_NONE ? ROTA_PLAN_LOST
                                           : ROTA_PLAN_MOVED,
            .from = from,
            .to = to,
        };
        count_move(plan, partition, &move);
    }
}

static enum rota_code check_side(const struct rota_plan_side *side, struct rota_error *error)
{
    if (side->n_partitions > ROTA_PARTITIONS_MAX)
        return rota_error_set(error, ROTA_ERR_LIMIT,
                              "plan: %u partitions are too many; a queue has at most %d",
                              side->n_partitions, ROTA_PARTITIONS_MAX);
    if (side->spread.batch > ROTA_BATCH_MAX)
        return rota_error_set(error, ROTA_ERR_LIMIT, "plan: the batch is %u; at most %d is allowed",
                              side->spread.batch, ROTA_BATCH_MAX);
    return ROTA_OK;
}

/* Whether the space may be added to the plan. */
static enum rota_code check_plan_room(const struct rota_plan *plan,
                                      const struct rota_plan_space *space, struct rota_error *error)
{
    const struct rota_plan_result *result = &plan->result;
    if (result->n_buckets > 0 && space->before.n_partitions != space->after.n_partitions)
        return rota_error_set(
            error, ROTA_ERR_INVALID,
            "plan: a change of the number of partitions applies immediately, not gradually");
    if (result->before + space->before.n_partitions > ROTA_PLAN_PARTITIONS_MAX ||
        result->after + space->after.n_partitions > ROTA_PLAN_PARTITIONS_MAX)
        return rota_error_set(error, ROTA_ERR_LIMIT, "plan: more than the allowed %llu partitions",
                              (unsigned long long)ROTA_PLAN_PARTITIONS_MAX);
    return ROTA_OK;
}

static void route_side(const struct rota_ring *ring, const struct rota_partition *partition,
                       const struct rota_plan_side *side, uint32_t first, uint32_t *routes)
{
    if (first >= side->n_partitions)
        return;
    uint32_t n = side->n_partitions - first;
    rota_route_range(ring, partition, side->spread, first, n < CHUNK ? n : CHUNK, routes);
}

enum rota_code rota_plan_add(struct rota_plan *plan, const struct rota_plan_space *space,
                             struct rota_error *error)
{
    struct rota_partition partition = {
        .namespace_id = space->namespace_id,
        .queue = space->queue,
        .type = space->type,
        .kind = ROTA_PARTITION_NORMAL,
    };
    uint32_t n_before = space->before.n_partitions, n_after = space->after.n_partitions;
    uint32_t n = n_before > n_after ? n_before : n_after;
    enum rota_code code;

    if ((code = rota_partition_check(&partition, error)) ||
        (code = check_side(&space->before, error)) || (code = check_side(&space->after, error)) ||
        (code = check_plan_room(plan, space, error)))
        return code;

    for (uint32_t first = 0; first < n; first += CHUNK) {
        route_side(plan->options.before, &partition, &space->before, first, plan->routes_before);
        route_side(plan->options.after, &partition, &space->after, first, plan->routes_after);
        compare_chunk(plan, space, &partition, first, n - first < CHUNK ? n - first : CHUNK);
    }
    plan->result.n_spaces++;
    plan->result.before += n_before;
    plan->result.after += n_after;
    return ROTA_OK;
}

/* --- the result --- */

/* A running maximum, mean and standard deviation (Welford's). `fair` is the
 * load's share by weight. */
static void spread_count(struct rota_plan_spread *spread, uint64_t load, double fair)
{
    double difference = (double)load - spread->mean;
    if (load > spread->max)
        spread->max = load;
    if (fair > 0 && (double)load / fair > spread->max_to_fair)
        spread->max_to_fair = (double)load / fair;
    spread->n++;
    spread->mean += difference / spread->n;
    spread->stddev += difference * ((double)load - spread->mean);
}

static void spread_end(struct rota_plan_spread *spread)
{
    if (spread->n > 0)
        spread->stddev = sqrt(spread->stddev / spread->n);
}

const struct rota_plan_host *rota_plan_hosts(const struct rota_plan *plan, size_t *n_hosts)
{
    *n_hosts = plan->result.n_hosts;
    return plan->hosts;
}

/* Without the last digits: the shares of many hosts do not add up exactly. */
static double round_share(double number)
{
    return number < 1e12 ? (double)(uint64_t)(number * 1e6 + 0.5) / 1e6 : number;
}

/* Sum up the zones from the hosts. */
static void count_zones(struct rota_plan *plan)
{
    for (size_t i = 0; i < plan->result.n_zones; i++)
        plan->zones[i].before = plan->zones[i].after = 0;
    for (size_t i = 0; i < plan->result.n_hosts; i++) {
        const struct rota_plan_host *host = &plan->hosts[i];
        if (host->is_before)
            plan->zones[host->zone_before].before += host->before;
        if (host->is_after)
            plan->zones[host->zone_after].after += host->after;
    }
}

static void count_spreads(struct rota_plan *plan)
{
    struct rota_plan_result *result = &plan->result;
    struct rota_plan_spread none = {0};
    double weight_before = total_weight(plan->options.before);
    double weight_after = total_weight(plan->options.after);
    double per_weight_before = weight_before > 0 ? (double)result->before / weight_before : 0;
    double per_weight_after = weight_after > 0 ? (double)result->after / weight_after : 0;

    result->hosts_before = result->hosts_after = none;
    result->zones_before = result->zones_after = none;
    for (size_t i = 0; i < result->n_hosts; i++) {
        const struct rota_plan_host *host = &plan->hosts[i];
        if (host->is_before)
            spread_count(&result->hosts_before, host->before,
                         per_weight_before * (double)host->weight_before);
        if (host->is_after)
            spread_count(&result->hosts_after, host->after,
                         per_weight_after * (double)host->weight_after);
    }
    for (size_t i = 0; i < result->n_zones; i++) {
        const struct rota_plan_zone *zone = &plan->zones[i];
        if (zone->n_hosts_before > 0)
            spread_count(&result->zones_before, zone->before,
                         per_weight_before * (double)zone->weight_before);
        if (zone->n_hosts_after > 0)
            spread_count(&result->zones_after, zone->after,
                         per_weight_after * (double)zone->weight_after);
    }
    spread_end(&result->hosts_before);
    spread_end(&result->hosts_after);
    spread_end(&result->zones_before);
    spread_end(&result->zones_after);
}

const struct rota_plan_result *rota_plan_result(struct rota_plan *plan)
{
    struct rota_plan_result *result = &plan->result;
    count_zones(plan);
    count_spreads(plan);
    result->minimum = round_share((double)plan->unhoused +
                                  plan->gained_share * (double)(result->stays + result->moved));
    result->hosts = plan->hosts;
    result->zones = plan->zones;
    result->buckets = plan->buckets;
    return result;
}

double rota_plan_ratio(const struct rota_plan_result *result)
{
    return result->minimum > 0 ? (double)result->moved / result->minimum : -1;
}
