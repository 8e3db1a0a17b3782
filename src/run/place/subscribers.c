#include "run/place/subscribers.h"

#include "base/quote.h"

#include <stdlib.h>

struct rota_subscriber {
    struct rota_subscriber *next;
    uint64_t since; /* number of the last notification before it was added */
    bool is_gone;   /* removed during a notification; its place is still visited */
    rota_subscriber_function *function;
    void *data;
    char name[];
};

static void sweep_removed(struct rota_subscribers *list, bool all)
{
    for (struct rota_subscriber **place = &list->first; *place;) {
        struct rota_subscriber *subscriber = *place;
        if (!all && !subscriber->is_gone) {
            place = &subscriber->next;
            continue;
        }
        *place = subscriber->next;
        free(subscriber);
    }
}

void rota_subscribers_deinit(struct rota_subscribers *list)
{
    sweep_removed(list, true);
    *list = (struct rota_subscribers){0};
}

/* The place of the subscriber with this name, or the one where it would go. */
static struct rota_subscriber **find_subscriber(struct rota_subscribers *list, const char *name)
{
    struct rota_subscriber **place = &list->first;
    while (*place && ((*place)->is_gone || strcmp((*place)->name, name) != 0))
        place = &(*place)->next;
    return place;
}

enum rota_code rota_subscribers_add(struct rota_subscribers *list, const char *name,
                                    rota_subscriber_function *function, void *data,
                                    struct rota_error *error)
{
    struct rota_subscriber **place = find_subscriber(list, name);
    size_t size = strlen(name) + 1;
    char quoted[ROTA_QUOTE_MAX];

    rota_quote(rota_str(name), quoted);
    if (*place)
        return rota_error_set(error, ROTA_ERR_INVALID, "subscriber %s exists already", quoted);
    if (size > ROTA_SUBSCRIBERS_NAME_MAX + 1)
        return rota_error_set(error, ROTA_ERR_LIMIT, "subscriber %s: a name has at most %d bytes",
                              quoted, ROTA_SUBSCRIBERS_NAME_MAX);
    if (list->size == ROTA_SUBSCRIBERS_MAX)
        return rota_error_set(error, ROTA_ERR_LIMIT,
                              "subscriber %s: there are already %d subscribers, the maximum",
                              quoted, ROTA_SUBSCRIBERS_MAX);
    struct rota_subscriber *subscriber = calloc(1, sizeof *subscriber + size);
    if (!subscriber)
        return rota_error_no_memory(error, "for subscriber %s", quoted);
    subscriber->since = list->n_news;
    subscriber->function = function;
    subscriber->data = data;
    memcpy(subscriber->name, name, size);
    *place = subscriber;
    list->size++;
    return ROTA_OK;
}

void rota_subscribers_remove(struct rota_subscribers *list, const char *name)
{
    struct rota_subscriber *subscriber = *find_subscriber(list, name);
    if (!subscriber)
        return;
    subscriber->is_gone = true;
    list->size--;
    if (list->depth == 0)
        sweep_removed(list, false);
}

void rota_subscribers_notify(struct rota_subscribers *list, uint64_t number,
                             void (*call)(rota_subscriber_function *function, void *data,
                                          const void *news),
                             const void *news)
{
    list->depth++;
    for (struct rota_subscriber *s = list->first; s && !list->is_stopped; s = s->next)
        if (!s->is_gone && s->since < number)
            call(s->function, s->data, news);
    if (--list->depth == 0)
        sweep_removed(list, false);
}
