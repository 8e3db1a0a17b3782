#include "core/call/admission.h"

#include <assert.h>

void rota_admission_init(struct rota_admission *admission, size_t running_max, size_t waiting_max)
{
    *admission = (struct rota_admission){.running_max = running_max, .waiting_max = waiting_max};
    rota_list_init(&admission->queue);
}

static bool has_room(const struct rota_admission *admission)
{
    return admission->running_max == 0 || admission->n_running < admission->running_max;
}

static void start_running(struct rota_admission *admission, rota_time now,
                          struct rota_admission_ticket *ticket)
{
    ticket->place = ROTA_ADMISSION_RUNNING;
    ticket->started_at = now;
    admission->n_running++;
}

enum rota_admission_place rota_admission_enter(struct rota_admission *admission, rota_time now,
                                               bool can_wait, struct rota_admission_ticket *ticket)
{
    assert(ticket->place == ROTA_ADMISSION_OUT);
    ticket->arrived_at = now;
    if (admission->n_waiting == 0 && has_room(admission)) {
        start_running(admission, now, ticket);
    } else if (can_wait && admission->n_waiting < admission->waiting_max) {
        ticket->place = ROTA_ADMISSION_WAITING;
        rota_list_push(&admission->queue, &ticket->link);
        admission->n_waiting++;
    }
    return ticket->place;
}

void rota_admission_leave(struct rota_admission *admission, struct rota_admission_ticket *ticket)
{
    switch (ticket->place) {
    case ROTA_ADMISSION_OUT:
        break;
    case ROTA_ADMISSION_WAITING:
        rota_list_remove(&ticket->link);
        admission->n_waiting--;
        break;
    case ROTA_ADMISSION_RUNNING:
        admission->n_running--;
        break;
    }
    ticket->place = ROTA_ADMISSION_OUT;
}

bool rota_admission_has_next(const struct rota_admission *admission)
{
    return admission->n_waiting > 0 && has_room(admission);
}

struct rota_admission_ticket *rota_admission_next(struct rota_admission *admission, rota_time now)
{
    struct rota_admission_ticket *ticket =
        ROTA_LIST_FIRST(&admission->queue, struct rota_admission_ticket, link);
    if (!ticket || !has_room(admission))
        return NULL;
    rota_admission_leave(admission, ticket);
    if (now < ticket->deadline)
        start_running(admission, now, ticket);
    return ticket;
}

struct rota_cost rota_admission_cost(const struct rota_admission *admission, rota_time now,
                                     const struct rota_admission_ticket *ticket)
{
    return (struct rota_cost){
        .response_us = (now - ticket->arrived_at) / ROTA_USEC,
        .service_us = (now - ticket->started_at) / ROTA_USEC,
        .waiting = (int64_t)admission->n_waiting,
    };
}
