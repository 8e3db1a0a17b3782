/* Jobs, queues and workers for people. */
#include "run/work/broker/work_broker_show.h"
#include "run/work/broker/work_broker_inside.h"

/* Knowing the number of an open attempt is enough to end it, so only its worker gets it. */
static uint64_t shown_attempt(const struct rota_job_view *view, uint64_t attempt)
{
    return view->is_attempt_open && attempt == view->attempt ? 0 : attempt;
}

static const struct rota_queue_event *events_of(struct rota_work_broker *broker,
                                                const struct rota_job_view *view)
{
    struct rota_queue_event *events =
        rota_arena_take(&broker->front.arena, (view->n_events + 1) * sizeof *events);
    for (size_t i = 0; events && i < view->n_events; i++)
        events[i] = (struct rota_queue_event){
            .at_ms = rota_queue_to_ms(view->events[i].at),
            .state = view->events[i].state,
            .cause = view->events[i].cause,
            .attempt = shown_attempt(view, view->events[i].attempt),
            .worker = view->events[i].worker,
            .reason = view->events[i].reason,
        };
    return events;
}

/* Capabilities are in the broker's scratch memory, which the next query reuses. */
static bool keep_names(struct rota_work_broker *broker, struct rota_queue_job_spec *spec)
{
    struct rota_str *names =
        rota_arena_take(&broker->front.arena, (spec->can.n + 1) * sizeof *names);
    for (size_t i = 0; names && i < spec->can.n; i++)
        names[i] = spec->can.items[i];
    spec->can.items = names;
    return names != NULL;
}

static void show_job(struct rota_queue_job_info *info, const struct rota_job_view *view)
{
    info->enqueued_ms = rota_queue_to_ms(view->enqueued_at);
    info->ended_ms = rota_queue_to_ms(view->ended_at);
    info->not_before_ms = rota_queue_to_ms(view->not_before);
    info->attempt = shown_attempt(view, view->attempt);
    info->n_attempts = view->n_attempts;
    info->worker = view->worker;
    info->progress = view->progress;
    info->reason = view->reason;
}

const struct rota_queue_job_info *rota_work_broker_show_job(struct rota_work_broker *broker,
                                                            const struct rota_job_view *view,
                                                            enum rota_broker_shown shown)
{
    struct rota_queue_job_info *info = rota_arena_take(&broker->front.arena, sizeof *info);
    struct rota_queue_job_spec *spec = rota_arena_take(&broker->front.arena, sizeof *spec);
    char *id = rota_arena_take(&broker->front.arena, ROTA_QUEUE_ID_SIZE);
    if (!info || !spec || !id)
        return NULL;
    rota_queue_message_spec_write(&view->spec, id, spec);
    spec->id = rota_queue_message_id_write(view->id, id);
    if (shown < ROTA_BROKER_SHOW_PAYLOAD)
        spec->payload = rota_str_of("", 0);
    if (!keep_names(broker, spec))
        return NULL;
    *info = (struct rota_queue_job_info){.spec = spec, .state = view->state};
    if (view->n_events > 0)
        info->cause = view->events[view->n_events - 1].cause;
    if (shown >= ROTA_BROKER_SHOW_LIST)
        show_job(info, view);
    if (shown >= ROTA_BROKER_SHOW_ALL) {
        info->result = view->result;
        info->events = (struct rota_message_list){events_of(broker, view), view->n_events};
        if (!info->events.items)
            return NULL;
    }
    return info;
}
