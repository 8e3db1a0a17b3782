/* subscribers: a list of named callbacks.
 *
 * A callback may add and remove subscribers and stop the notification. One that is added during a
 * notification receives the next one, not the current one.
 *
 * The callbacks' types differ from list to list: functions are kept as a rota_subscriber_function,
 * and the owner, which knows the type, calls them. */
#pragma once

#include <rota/error.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    ROTA_SUBSCRIBERS_MAX = 10000,
    ROTA_SUBSCRIBERS_NAME_MAX = 255, /* bytes of a name */
};

typedef void rota_subscriber_function(void);

/* A list starts zeroed. */
struct rota_subscribers {
    struct rota_subscriber *first; /* in the order in which they were added */
    size_t size;                   /* without removed ones */
    uint64_t n_news;               /* the number of the last notification */
    size_t depth;                  /* notifications in progress */
    bool is_stopped;
};

void rota_subscribers_deinit(struct rota_subscribers *list);

/* Add a subscriber under a name that is not there yet; `data` is kept. */
enum rota_code rota_subscribers_add(struct rota_subscribers *list, const char *name,
                                    rota_subscriber_function *function, void *data,
                                    struct rota_error *error);

/* An unknown name is not an error. */
void rota_subscribers_remove(struct rota_subscribers *list, const char *name);

/* Number a notification; subscribers added from now on do not receive it. */
static inline uint64_t rota_subscribers_number(struct rota_subscribers *list)
{
    return ++list->n_news;
}

/* Notify all subscribers that were there before `number`: `call` calls one function with its
 * data and `news`. */
void rota_subscribers_notify(struct rota_subscribers *list, uint64_t number,
                             void (*call)(rota_subscriber_function *function, void *data,
                                          const void *news),
                             const void *news);

/* No function is called from now on. */
static inline void rota_subscribers_stop(struct rota_subscribers *list)
{
    list->is_stopped = true;
}
