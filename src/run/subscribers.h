/* subscribers: who wants to be told, each under a name of its own.
 *
 * A callback may add and remove subscribers and stop the telling. One that is
 * added while others are told hears of the next news, not of this.
 *
 * What is told differs from list to list: functions are kept as a
 * rota_subscriber_function, and the owner, who knows what they are, calls them. */
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
    struct rota_subscriber *first; /* in the order in which they came */
    size_t size;                   /* without those that are gone */
    uint64_t n_news;               /* the number of the last news */
    size_t depth;                  /* how many tellings are under way */
    bool is_stopped;
};

void rota_subscribers_deinit(struct rota_subscribers *list);

/* Add a subscriber under a name that is not there yet; `data` is kept. */
enum rota_code rota_subscribers_add(struct rota_subscribers *list, const char *name,
                                    rota_subscriber_function *function, void *data,
                                    struct rota_error *error);

/* An unknown name is no error. */
void rota_subscribers_remove(struct rota_subscribers *list, const char *name);

/* Number a piece of news; who is added from now on is not told of it. */
static inline uint64_t rota_subscribers_number(struct rota_subscribers *list)
{
    return ++list->n_news;
}

/* Tell everybody who was there before news `number`: `call` calls one function
 * with its data and `news`. */
void rota_subscribers_tell(struct rota_subscribers *list, uint64_t number,
                           void (*call)(rota_subscriber_function *function, void *data,
                                        const void *news),
                           const void *news);

/* No function is called from now on. */
static inline void rota_subscribers_stop(struct rota_subscribers *list)
{
    list->is_stopped = true;
}
