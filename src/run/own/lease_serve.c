/* What a lease holds, for other modules: the claims that servers fence by, callbacks, the log
 * and the metrics. */
#include "io/clock.h"
#include "run/own/lease_inside.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

/* --- the log --- */

void rota_lease_serve_log_shard(const struct rota_lease *lease, enum rota_log_level level,
                                const char *phrase, const struct rota_lease_action *action,
                                struct rota_log_fact more)
{
    rota_log(lease->options.log, rota_clock_wall(), level, phrase,
             ROTA_LOG_FACT("space", lease->options.space), ROTA_LOG_FACT("dc", lease->options.dc),
             ROTA_LOG_FACT("shard", action->shard), ROTA_LOG_FACT("epoch", action->epoch), more);
}

static void log_stop(const struct rota_lease *lease, const struct rota_lease_action *action)
{
    bool is_wanted = action->why == ROTA_LEASE_WHY_SHUTDOWN;
    rota_lease_serve_log_shard(lease, is_wanted ? ROTA_LOG_INFO : ROTA_LOG_ERROR,
                               is_wanted ? "lease stopped" : "lease lost", action,
                               ROTA_LOG_FACT("why", rota_lease_why_text(action->why)));
}

void rota_lease_serve_extend(struct rota_lease *lease, const struct rota_lease_action *action)
{
    const struct rota_lease_options *o = &lease->options;
    char shard[ROTA_DRIVER_SHARD_MAX];
    struct rota_error error;
    if (!o->claims)
        return;
    bool is_served = !lease->is_served || lease->is_served(o->data, action->shard, action->epoch);
    const struct rota_claim claim = {
        .space = rota_str(o->space),
        .shard = rota_driver_shard_text(action->shard, shard),
        .node = o->node,
        .epoch = action->epoch,
        .address = rota_str(o->address && is_served ? o->address : ""),
        .is_held = is_served,
        .until = action->until,
    };
    if (rota_claims_set(o->claims, &claim, &error)) /* and so it is served nowhere */
        rota_lease_serve_log_shard(lease, ROTA_LOG_ERROR, "lease not served", action,
                                   ROTA_LOG_FACT("error", error.text));
}

void rota_lease_serve_update_claim(struct rota_lease *lease, uint32_t shard, uint64_t epoch)
{
    size_t n;
    const struct rota_lease_slot *slots = rota_lease_fsm_held(&lease->fsm, &n);
    for (size_t i = 0; i < n; i++)
        if (slots[i].shard == shard && slots[i].epoch == epoch)
            rota_lease_serve_extend(
                lease, &(struct rota_lease_action){
                           .shard = shard, .epoch = epoch, .until = slots[i].expires_at});
}

static void drop_claim(struct rota_lease *lease, const struct rota_lease_action *action)
{
    char shard[ROTA_DRIVER_SHARD_MAX];
    if (lease->options.claims)
        rota_claims_drop(lease->options.claims, rota_str(lease->options.space),
                         rota_driver_shard_text(action->shard, shard), action->epoch);
}

void rota_lease_serve_start(struct rota_lease *lease, const struct rota_lease_action *action)
{
    rota_lease_serve_log_shard(lease, ROTA_LOG_INFO, "lease gained", action, ROTA_LOG_NO_FACTS);
    rota_counter_add(lease->series.gained, 1);
    rota_gauge_add(lease->series.held, 1);
    rota_lease_serve_extend(lease, action);
    if (lease->options.on_start)
        lease->options.on_start(lease->options.data, action->shard, action->epoch);
}

void rota_lease_serve_stop(struct rota_lease *lease, const struct rota_lease_action *action)
{
    drop_claim(lease, action);
    log_stop(lease, action);
    rota_counter_add(lease->series.stopped[action->why], 1);
    rota_gauge_add(lease->series.held, -1);
    if (lease->options.on_stop)
        lease->options.on_stop(lease->options.data, action->shard, action->epoch, action->why);
    if (action->why == ROTA_LEASE_WHY_SHUTDOWN)
        return;
    assert(lease->lost.size < lease->lost.capacity); /* as many as can be held */
    lease->lost.items[lease->lost.size++] = *action;
}

void rota_lease_serve_tell_lost(struct rota_lease *lease)
{
    const struct rota_lease_options *o = &lease->options;
    if (lease->lost.size == 0)
        return;
    for (size_t i = 0; o->on_lost && i < lease->lost.size; i++) {
        const struct rota_lease_action *lost = &lease->lost.items[i];
        o->on_lost(o->data, lost->shard, lost->epoch, lost->why);
    }
    lease->lost.size = 0;
    switch (o->loss) {
    case ROTA_LEASE_LOSS_ABORT:
        abort();
    case ROTA_LEASE_LOSS_EXIT:
        exit(EXIT_FAILURE);
    case ROTA_LEASE_LOSS_STANDBY:
        break;
    }
}

/* --- metrics --- */

static struct rota_counter *lease_counter(struct rota_lease *lease, const char *name,
                                          const char *help, const char *why)
{
    const struct rota_label labels[] = {{"space", rota_str(lease->options.space)},
                                        {"dc", rota_str(lease->options.dc)},
                                        {"why", rota_str(why ? why : "")}};
    return rota_metrics_counter(lease->options.metrics, name, help, labels, why ? 3 : 2);
}

bool rota_lease_serve_make_series(struct rota_lease *lease)
{
    if (!lease->options.metrics)
        lease->options.metrics = lease->metrics = rota_metrics_new(1);
    if (!lease->options.metrics)
        return false;
    const struct rota_label labels[] = {{"space", rota_str(lease->options.space)},
                                        {"dc", rota_str(lease->options.dc)}};
    lease->series.held =
        rota_metrics_gauge(lease->options.metrics, "rota_lease_held", "Shards held.", labels, 2);
    lease->series.gained = lease_counter(lease, "rota_lease_gained_total", "Grants.", NULL);
    lease->series.unknown =
        lease_counter(lease, "rota_lease_unknown_total", "Requests with an unknown outcome.", NULL);
    for (int why = 0; why <= ROTA_LEASE_WHY_SHUTDOWN; why++)
        lease->series.stopped[why] =
            lease_counter(lease, "rota_lease_stopped_total", "Shards no longer served, by reason.",
                          rota_lease_why_text((enum rota_lease_why)why));
    return true;
}
