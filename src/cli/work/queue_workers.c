#include "cli/work/queue_workers.h"

#include <stdlib.h>
#include <string.h>

static bool has(struct rota_message_strs names, struct rota_str name)
{
    for (size_t i = 0; i < names.n; i++)
        if (rota_str_is_equal(names.items[i], name))
            return true;
    return false;
}

/* Add those of `more` that are not in `names`. */
static bool join(struct rota_message_strs *names, struct rota_message_strs more,
                 struct rota_arena *arena)
{
    size_t n_new = 0;
    for (size_t i = 0; i < more.n; i++)
        n_new += !has(*names, more.items[i]);
    if (n_new == 0)
        return true;
    struct rota_str *items = rota_arena_take(arena, (names->n + n_new) * sizeof *items);
    if (!items)
        return false;
    struct rota_message_strs joined = {items, names->n};
    if (names->n > 0)
        memcpy(items, names->items, names->n * sizeof *items);
    for (size_t i = 0; i < more.n; i++)
        if (!has(*names, more.items[i]))
            items[joined.n++] = more.items[i];
    *names = joined;
    return true;
}

static bool merge(struct rota_queue_worker *worker, const struct rota_queue_worker *other,
                  struct rota_arena *arena)
{
    struct rota_queue_worker_info *info = &worker->info;
    worker->n_connections += other->n_connections;
    if (other->n_free > worker->n_free)
        worker->n_free = other->n_free;
    info->n_running += other->info.n_running;
    info->slots = worker->n_free + info->n_running;
    if (other->info.epoch > info->epoch)
        info->epoch = other->info.epoch;
    if (other->info.silent_ms < info->silent_ms)
        info->silent_ms = other->info.silent_ms;
    return join(&info->queues, other->info.queues, arena) &&
           join(&info->can, other->info.can, arena);
}

static int compare(const void *a, const void *b)
{
    const struct rota_queue_worker *one = a, *other = b;
    return rota_str_compare(one->info.name, other->info.name);
}

enum rota_code rota_queue_workers_ask(struct rota_client *client,
                                      const struct rota_queue_worker **workers, size_t *n,
                                      struct rota_error *error)
{
    struct rota_queue_list reply;
    enum rota_code code =
        rota_client_ask(client, "Workers", NULL, NULL, &ROTA_QUEUE_WORKERS_REPLY, &reply, error);
    if (code)
        return code;
    const struct rota_queue_worker_info *infos = reply.items.items;
    struct rota_queue_worker *made =
        rota_arena_take(&client->arena, (reply.items.n + 1) * sizeof *made);
    bool is_well = made;
    size_t size = 0;
    for (size_t i = 0; is_well && i < reply.items.n; i++)
        made[i] = (struct rota_queue_worker){
            .info = infos[i],
            .n_connections = 1,
            .n_free = infos[i].slots > infos[i].n_running ? infos[i].slots - infos[i].n_running : 0,
        };
    if (is_well)
        qsort(made, reply.items.n, sizeof *made, compare);
    for (size_t i = 0; is_well && i < reply.items.n; i++)
        if (size > 0 && made[i].info.name.size > 0 && compare(&made[size - 1], &made[i]) == 0)
            is_well = merge(&made[size - 1], &made[i], &client->arena);
        else
            made[size++] = made[i];
    if (!is_well)
        return rota_error_no_memory(error, "for the workers");
    *workers = made;
    *n = size;
    return ROTA_OK;
}
