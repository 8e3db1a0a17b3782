#include "run/work/cluster/work_broker_refresh.h"

#include "io/clock.h"
#include "run/work/broker/work_broker_inside.h"
#include "run/work/broker/work_broker_method.h"
#include "run/work/broker/work_broker_reply.h"
#include "run/work/cluster/work_broker_errand.h"

#include <stdio.h>

static const char LOOK[] = "/rota.peer.v1.QueuePeer/Look";

#define CHECK_EVERY (10 * ROTA_MSEC) /* whether the view is known that calls wait for */

/* With the view that is known now. */
static struct rota_refresh *refresh_of(struct rota_work_broker *broker)
{
    broker->front.refresh.number = rota_work_broker_cluster_view(broker->cluster);
    return &broker->front.refresh;
}

static void hear_number(struct rota_work_broker *broker, uint64_t number)
{
    if (number > 0 && broker->options.on_later_view &&
        rota_refresh_hear(refresh_of(broker), rota_clock_boot(), number))
        broker->options.on_later_view(broker->options.data);
}

void rota_work_broker_refresh_hear(struct rota_work_broker *broker, struct rota_server_call *call,
                                   struct rota_front_call *front)
{
    size_t n;
    const struct rota_metadata *metadata = rota_server_call_metadata(call, &n);
    front->refresh.wanted = rota_work_broker_cluster_view_of(metadata, n);
    hear_number(broker, front->refresh.wanted);
}

bool rota_work_broker_refresh_park(struct rota_work_broker *broker,
                                   const struct rota_broker_method *method,
                                   struct rota_server_call *call,
                                   const struct rota_front_call *front)
{
    struct rota_front_call state = *front;
    if (!rota_refresh_must_wait(refresh_of(broker), rota_clock_boot(), &state.refresh))
        return false;
    struct rota_broker_errand *errand =
        rota_work_broker_errand_new(broker, call, method->path, 0, NULL);
    if (!errand)
        return false; /* it is answered by the view that is known */
    errand->of = method;
    errand->front = state;
    rota_list_push(&broker->front.parked, &errand->link);
    rota_work_broker_touch(broker);
    return true;
}

/* Its call begins, or waits to begin. */
static void begin_call(struct rota_broker_errand *errand, const char *owner)
{
    struct rota_work_broker *broker = errand->broker;
    const struct rota_broker_method *method = errand->of;
    struct rota_front_call front = errand->front;
    front.owner = rota_str(owner);
    struct rota_server_call *call = rota_work_broker_errand_end(errand);
    if (front.owner.size > 0 || !rota_work_broker_refresh_park(broker, method, call, &front))
        rota_work_broker_front_begin(broker, method, call, &front);
}

bool rota_work_broker_refresh_again(struct rota_broker_errand *errand,
                                    const struct rota_broker_part *part)
{
    struct rota_work_broker *broker = errand->broker;
    struct rota_str self = rota_work_broker_cluster_self(broker->cluster);
    char owner[ROTA_ADDRESS_MAX + 1];
    if (part->status == ROTA_STATUS_OK || !part->is_stale)
        return false;
    hear_number(broker, part->view);
    const struct rota_refresh_refusal refusal = {
        .is_stale = part->is_stale,
        .is_undone = part->is_undone,
        .number = part->view,
        .has_owner = part->owner[0] && !rota_str_is_equal(rota_str(part->owner), self)};
    enum rota_refresh_do what = rota_refresh_refused(refresh_of(broker), rota_clock_boot(),
                                                     &errand->front.refresh, &refusal);
    if (what == ROTA_REFRESH_PASS)
        return false;
    snprintf(owner, sizeof owner, "%s", what == ROTA_REFRESH_ASK ? part->owner : "");
    begin_call(errand, owner);
    return true;
}

static void on_told(void *data, struct rota_call *call, const struct rota_call_result *result)
{
    (void)data;
    (void)call;
    (void)result; /* it reads the view sooner or later anyway */
}

void rota_work_broker_refresh_tell(struct rota_work_broker *broker)
{
    const struct rota_call_options options = {.method = rota_str(LOOK), .on_end = on_told};
    size_t n = rota_work_broker_cluster_n_peers(broker->cluster);
    for (size_t i = 0; i < n && rota_work_broker_cluster_view(broker->cluster) > 0; i++)
        rota_work_broker_cluster_call(broker->cluster,
                                      rota_work_broker_cluster_peer(broker->cluster, i), &options,
                                      NULL, NULL);
}

void rota_work_broker_refresh_look(struct rota_broker_request *request)
{
    rota_work_broker_reply_message(request->broker, request->call, 0, NULL, NULL);
}

void rota_work_broker_refresh_turn(struct rota_work_broker *broker, rota_time now)
{
    struct rota_list_node parked;
    if (rota_list_is_empty(&broker->front.parked))
        return;
    rota_list_take(&parked, &broker->front.parked);
    ROTA_LIST_DRAIN (errand, &parked, struct rota_broker_errand, link) {
        rota_list_remove(&errand->link);
        if (rota_refresh_must_wait(refresh_of(broker), now, &errand->front.refresh))
            rota_list_push(&broker->front.parked, &errand->link);
        else
            begin_call(errand, "");
    }
}

rota_time rota_work_broker_refresh_deadline(const struct rota_work_broker *broker, rota_time now)
{
    return rota_list_is_empty(&broker->front.parked) ? ROTA_TIME_NEVER : now + CHECK_EVERY;
}
