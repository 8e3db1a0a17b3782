#include "core/call/service/follow.h"

void rota_follow_init(struct rota_follow *follow)
{
    *follow = (struct rota_follow){
        .backoff = {.first = ROTA_FOLLOW_PAUSE, .max = ROTA_FOLLOW_PAUSE_MAX},
        .waits_since = ROTA_TIME_NEVER,
    };
}

bool rota_follow_is_followed(enum rota_failure failure)
{
    return failure == ROTA_FAILURE_STALE || failure == ROTA_FAILURE_UNREACHABLE ||
           failure == ROTA_FAILURE_NOT_LOADED;
}

static void wait_for(struct rota_follow *follow, rota_time now, enum rota_follow_reason reason)
{
    if (follow->waits_since == ROTA_TIME_NEVER)
        follow->waits_since = now;
    follow->reason = reason;
}

/* Whether only another claim of the directory will do, or the end of the pause. */
static bool is_in_circle(struct rota_follow *follow, rota_time now,
                         const struct rota_space_table_shard *shard)
{
    if (follow->n_hops < ROTA_FOLLOW_HOPS_MAX)
        return false;
    uint64_t epoch = shard->n_replicas > 0 ? shard->replicas[0].epoch : 0;
    if (follow->circle_epoch == 0)
        follow->circle_epoch = epoch;
    if (now < follow->retry_at && epoch == follow->circle_epoch)
        return true;
    follow->n_hops = 0;
    follow->circle_epoch = 0;
    return false;
}

static bool is_refused(const struct rota_follow *follow, rota_time now, int64_t node,
                       uint64_t epoch)
{
    return now < follow->retry_at && follow->refused_epoch == epoch && follow->refused_node == node;
}

/* The directory's claim begins a new row if it is another one, or after a pause; not if a learned
 * claim has expired. */
static void count_hop(struct rota_follow *follow, rota_time now,
                      const struct rota_space_table_replica *replica)
{
    if (replica->is_learned) {
        follow->n_hops++;
    } else if (now >= follow->retry_at || replica->epoch != follow->directory_epoch) {
        follow->n_hops = 0;
        follow->directory_epoch = replica->epoch;
    }
}

bool rota_follow_look(struct rota_follow *follow, struct rota_space_table *table, rota_time now,
                      uint32_t shard, int64_t (*node_of)(struct rota_str address),
                      struct rota_space_table_shard *result, rota_time *until)
{
    bool is_hopping = follow->n_hops < ROTA_FOLLOW_HOPS_MAX;
    *until = ROTA_TIME_NEVER;
    if (!rota_space_table_look(table, now, shard, is_hopping, result)) {
        wait_for(follow, now, table->is_known ? ROTA_FOLLOW_NO_SHARD : ROTA_FOLLOW_NO_MAP);
        return false;
    }
    if (!is_hopping && is_in_circle(follow, now, result)) {
        result->n_replicas = 0;
        *until = follow->retry_at;
        wait_for(follow, now, ROTA_FOLLOW_CIRCLE);
        return false;
    }
    size_t n_known = result->n_replicas, n = 0;
    for (size_t i = 0; i < n_known; i++)
        if (!is_refused(follow, now, node_of(result->replicas[i].address),
                        result->replicas[i].epoch))
            result->replicas[n++] = result->replicas[i];
    result->n_replicas = n;
    if (n > 0) {
        bool has_waited = follow->waits_since != ROTA_TIME_NEVER;
        count_hop(follow, now, &result->replicas[0]);
        follow->circle_epoch = 0;
        follow->waits_since = ROTA_TIME_NEVER;
        follow->reason = ROTA_FOLLOW_NONE;
        return has_waited && (follow->refused_epoch != result->replicas[0].epoch ||
                              follow->refused_node != node_of(result->replicas[0].address));
    }
    if (n_known > 0) {
        *until = follow->retry_at;
        wait_for(follow, now, follow->refused_why);
    } else {
        wait_for(follow, now, result->is_moving ? ROTA_FOLLOW_MOVING : ROTA_FOLLOW_NO_OWNER);
    }
    return false;
}

void rota_follow_failed(struct rota_follow *follow, rota_time now, int64_t node, uint64_t epoch,
                        enum rota_failure failure, struct rota_random *random)
{
    if (!rota_follow_is_followed(failure))
        return;
    if (follow->refused_epoch != epoch || follow->refused_node != node)
        rota_backoff_succeeded(&follow->backoff); /* another claim: it begins with a short pause */
    follow->refused_node = node;
    follow->refused_epoch = epoch;
    follow->refused_why =
        failure == ROTA_FAILURE_UNREACHABLE ? ROTA_FOLLOW_UNREACHABLE : ROTA_FOLLOW_REJECTED;
    follow->retry_at = rota_time_add(now, rota_backoff_failed(&follow->backoff, random));
}
