#include "core/work/broker/broker_inside.h"

static struct rota_work_poller *find_poller(const struct rota_work_name *name,
                                            const struct rota_work_class *class)
{
    struct rota_work_poller *poller = name->pollers;
    while (poller && poller->class != class)
        poller = poller->next;
    return poller;
}

static struct rota_work_poller *make_poller(struct rota_broker *broker, struct rota_work_name *name,
                                            struct rota_work_class *class)
{
    struct rota_work_poller *made = calloc(1, sizeof *made);
    if (!made || !rota_vector_push(&broker->workers.pollers, made)) {
        free(made);
        return NULL;
    }
    made->place = broker->workers.pollers.size - 1;
    made->class = class;
    made->name = name;
    made->next = name->pollers;
    name->pollers = made;
    class->n_pollers++;
    return made;
}

/* Free a poller that neither polls nor has an attempt. */
static void drop_idle_poller(struct rota_broker *broker, struct rota_work_poller *poller)
{
    if (poller->n_polls > 0 || poller->n_leased > 0)
        return;
    struct rota_work_poller **link = &poller->name->pollers;
    while (*link != poller)
        link = &(*link)->next;
    *link = poller->next;
    struct rota_work_poller *last = broker->workers.pollers.items[--broker->workers.pollers.size];
    broker->workers.pollers.items[poller->place] = last;
    last->place = poller->place;
    poller->class->n_pollers--;
    free(poller);
}

bool rota_broker_poller_begin(struct rota_broker *broker, struct rota_work_worker *worker)
{
    if (!worker->is_poll)
        return true;
    worker->poller = find_poller(worker->name, worker->class);
    if (!worker->poller)
        worker->poller = make_poller(broker, worker->name, worker->class);
    if (!worker->poller)
        return false;
    worker->poller->n_polls++;
    worker->poller->heard_at = broker->now.boot;
    worker->class->n_polls++;
    return true;
}

void rota_broker_poller_end(struct rota_broker *broker, struct rota_work_worker *worker)
{
    if (!worker->poller)
        return;
    worker->class->n_polls--;
    worker->poller->n_polls--;
    drop_idle_poller(broker, worker->poller);
    worker->poller = NULL;
}

void rota_broker_poller_lease(struct rota_work_poller *poller, struct rota_job_extra *extra)
{
    if (!poller)
        return;
    extra->poller = poller;
    poller->n_leased++;
    poller->class->n_leased++;
}

void rota_broker_poller_unlease(struct rota_broker *broker, struct rota_job_extra *extra)
{
    struct rota_work_poller *poller = extra->poller;
    if (!poller)
        return;
    struct rota_work_class *class = poller->class;
    extra->poller = NULL;
    poller->heard_at = broker->now.boot;
    poller->n_leased--;
    class->n_leased--;
    drop_idle_poller(broker, poller);
    rota_broker_class_settle(broker, class);
}
