#include <rota/members.h>

#include "base/log.h"
#include "core/place/members_fsm.h"
#include "io/clock.h"
#include "run/ring_cell.h"

#include <stdlib.h>
#include <uv.h>

/* The wall clock may be set to another time, which no timer notices: while it
 * matters, it is looked at this often. */
#define CLOCK_LOOK ROTA_SEC

struct subscriber {
    struct subscriber *next;
    uint64_t since; /* number of the last change before it came */
    bool is_gone;   /* removed while others were being told */
    void (*on_change)(void *data, const struct rota_members_change *change);
    void *data;
    char name[];
};

/* A change that subscribers are still to be told of. */
struct news {
    struct news *next;
    uint64_t number;
    struct rota_members_actions actions;
};

struct rota_members {
    struct rota_members_options options;
    struct rota_members_fsm fsm;
    struct rota_ring_cell cell;
    struct rota_members_source *source;
    uv_timer_t timer;
    bool is_closed;

    struct subscriber *subscribers; /* in the order in which they came */
    size_t n_subscribers;           /* without those that are gone */
    struct news *news;              /* oldest first */
    uint64_t n_news;                /* changes so far */
    bool is_telling;
};

/* --- telling --- */

static void news_free(struct news *news)
{
    rota_members_actions_deinit(&news->actions);
    free(news);
}

static void sweep_subscribers(struct rota_members *members, bool all)
{
    for (struct subscriber **place = &members->subscribers; *place;) {
        struct subscriber *subscriber = *place;
        if (!all && !subscriber->is_gone) {
            place = &subscriber->next;
            continue;
        }
        *place = subscriber->next;
        free(subscriber);
    }
}

/* Tell what is to be told, in order. A callback may change the membership: that
 * news is queued behind this and told by the same loop. It may also close us,
 * which frees nothing before the loop runs on. */
static void tell_all(struct rota_members *members)
{
    if (members->is_telling)
        return;
    members->is_telling = true;
    for (struct news *news; !members->is_closed && (news = members->news);) {
        for (struct subscriber *subscriber = members->subscribers;
             subscriber && !members->is_closed; subscriber = subscriber->next)
            if (!subscriber->is_gone && subscriber->since < news->number)
                subscriber->on_change(subscriber->data, &news->actions.change);
        members->news = news->next;
        news_free(news);
    }
    members->is_telling = false;
    sweep_subscribers(members, false);
}

static void queue_news(struct rota_members *members, struct news *news)
{
    struct news **last = &members->news;
    while (*last)
        last = &(*last)->next;
    news->number = ++members->n_news;
    *last = news;
}

/* --- the machine's driver --- */

static void on_timer(uv_timer_t *timer);

static void set_timer(struct rota_members *members, rota_time now, bool failed)
{
    if (!rota_members_fsm_is_timed(&members->fsm)) {
        uv_timer_stop(&members->timer);
        return;
    }
    rota_time deadline = rota_members_fsm_deadline(&members->fsm);
    rota_time wait = CLOCK_LOOK;
    if (!failed && deadline < rota_time_add(now, CLOCK_LOOK))
        wait = deadline - now;
    uint64_t wait_ms = wait > 0 ? (uint64_t)((wait + ROTA_MSEC - 1) / ROTA_MSEC) : 0;
    uv_timer_start(&members->timer, on_timer, wait_ms, 0);
}

static void log_change(const struct rota_members *members, rota_time now,
                       const struct rota_members_change *change)
{
    size_t n_members;
    rota_members_fsm_list(&members->fsm, &n_members);
    rota_log(members->options.log, now, ROTA_LOG_INFO, "members changed",
             ROTA_LOG_FACT("added", change->n_added), ROTA_LOG_FACT("removed", change->n_removed),
             ROTA_LOG_FACT("changed", change->n_changed), ROTA_LOG_FACT("members", n_members),
             ROTA_LOG_FACT("placed", rota_ring_size(rota_members_fsm_ring(&members->fsm))));
}

/* The one caller of the machine. The ring is swapped before anybody is told,
 * and telling is last, for it may close us. */
static enum rota_code drive(struct rota_members *members, const struct rota_members_event *event,
                            struct rota_error *error)
{
    rota_time now = rota_clock_wall();
    struct news *news = calloc(1, sizeof *news);
    if (!news)
        return rota_error_set(error, ROTA_ERR_NO_MEMORY, "members: no memory for a change");

    enum rota_code code = rota_members_fsm_step(&members->fsm, now, event, &news->actions, error);
    set_timer(members, now, code != ROTA_OK);
    if (code || !news->actions.tell) {
        news_free(news);
        return code;
    }
    if (news->actions.ring) {
        rota_ring_cell_swap(&members->cell, news->actions.ring);
        news->actions.ring = NULL; /* the cell's now */
    }
    log_change(members, now, &news->actions.change);
    queue_news(members, news);
    tell_all(members);
    return ROTA_OK;
}

static void on_error(void *data, const struct rota_error *error)
{
    struct rota_members *members = data;
    rota_log(members->options.log, rota_clock_wall(), ROTA_LOG_WARN, "members not updated",
             ROTA_LOG_FACT("code", rota_code_name(error->code)),
             ROTA_LOG_FACT("error", error->text));
    if (members->options.on_error)
        members->options.on_error(members->options.data, error);
}

static void on_timer(uv_timer_t *timer)
{
    struct rota_error error;
    if (drive(timer->data, &(struct rota_members_event){.type = ROTA_MEMBERS_TICK}, &error))
        on_error(timer->data, &error);
}

static enum rota_code on_snapshot(void *data, uint64_t version, const struct rota_host *hosts,
                                  size_t n_hosts, struct rota_error *error)
{
    struct rota_members_event event = {
        .type = ROTA_MEMBERS_SNAPSHOT, .version = version, .hosts = hosts, .n_hosts = n_hosts};
    return drive(data, &event, error);
}

/* --- life --- */

static void on_timer_closed(uv_handle_t *handle)
{
    struct rota_members *members = handle->data;
    for (struct news *news; (news = members->news);) {
        members->news = news->next;
        news_free(news);
    }
    sweep_subscribers(members, true);
    rota_ring_cell_deinit(&members->cell);
    rota_members_fsm_deinit(&members->fsm);
    free(members);
}

static enum rota_code members_new(struct uv_loop_s *loop,
                                  const struct rota_members_options *options,
                                  struct rota_members **members, struct rota_error *error)
{
    struct rota_members *made = calloc(1, sizeof *made);
    if (!made)
        return rota_error_set(error, ROTA_ERR_NO_MEMORY, "members: no memory to open them");
    if (options)
        made->options = *options;
    enum rota_code code = rota_members_fsm_init(&made->fsm, made->options.points, error);
    if (code) {
        free(made);
        return code;
    }
    rota_ring_cell_init(&made->cell, rota_ring_ref(rota_members_fsm_ring(&made->fsm)));
    uv_timer_init(loop, &made->timer);
    made->timer.data = made;
    *members = made;
    return ROTA_OK;
}

enum rota_code rota_members_open(struct uv_loop_s *loop, struct rota_members_source *source,
                                 const struct rota_members_options *options,
                                 struct rota_members **members, struct rota_error *error)
{
    struct rota_members *made = NULL;
    enum rota_code code = members_new(loop, options, &made, error);
    if (code) {
        source->stop(source);
        return code;
    }
    struct rota_members_sink sink = {on_snapshot, on_error, made};
    made->source = source;
    if ((code = source->start(source, loop, &sink, error))) {
        rota_members_close(made);
        return code;
    }
    *members = made;
    return ROTA_OK;
}

void rota_members_close(struct rota_members *members)
{
    if (!members || members->is_closed)
        return;
    members->is_closed = true;
    members->source->stop(members->source);
    uv_close((uv_handle_t *)&members->timer, on_timer_closed);
}

/* --- what users ask and want --- */

struct rota_ring *rota_members_ring(struct rota_members *members)
{
    return rota_ring_cell_get(&members->cell);
}

const struct rota_member *rota_members_list(const struct rota_members *members, size_t *n_members)
{
    return rota_members_fsm_list(&members->fsm, n_members);
}

static enum rota_code override(struct rota_members *members, enum rota_members_event_type type,
                               struct rota_str address, struct rota_error *error)
{
    struct rota_members_event event = {.type = type, .address = address};
    return drive(members, &event, error);
}

enum rota_code rota_members_evict(struct rota_members *members, struct rota_str address,
                                  struct rota_error *error)
{
    return override(members, ROTA_MEMBERS_EVICT, address, error);
}

enum rota_code rota_members_unevict(struct rota_members *members, struct rota_str address,
                                    struct rota_error *error)
{
    return override(members, ROTA_MEMBERS_UNEVICT, address, error);
}

enum rota_code rota_members_drain(struct rota_members *members, struct rota_str address,
                                  struct rota_error *error)
{
    return override(members, ROTA_MEMBERS_DRAIN, address, error);
}

enum rota_code rota_members_undrain(struct rota_members *members, struct rota_str address,
                                    struct rota_error *error)
{
    return override(members, ROTA_MEMBERS_UNDRAIN, address, error);
}

/* The place of the subscriber with this name, or the one where it would go. */
static struct subscriber **find_subscriber(struct rota_members *members, const char *name)
{
    struct subscriber **place = &members->subscribers;
    while (*place && ((*place)->is_gone || strcmp((*place)->name, name) != 0))
        place = &(*place)->next;
    return place;
}

enum rota_code rota_members_subscribe(struct rota_members *members, const char *name,
                                      void (*on_change)(void *data,
                                                        const struct rota_members_change *change),
                                      void *data, struct rota_error *error)
{
    size_t size = strlen(name) + 1;
    struct subscriber **place = find_subscriber(members, name);
    if (*place)
        return rota_error_set(error, ROTA_ERR_INVALID, "members: %s has subscribed already", name);
    if (size > ROTA_MEMBERS_NAME_MAX + 1)
        return rota_error_set(error, ROTA_ERR_LIMIT,
                              "members: a subscriber's name has at most %d bytes",
                              ROTA_MEMBERS_NAME_MAX);
    if (members->n_subscribers == ROTA_MEMBERS_SUBSCRIBERS_MAX)
        return rota_error_set(error, ROTA_ERR_LIMIT, "members: at most %d may subscribe",
                              ROTA_MEMBERS_SUBSCRIBERS_MAX);
    struct subscriber *subscriber = calloc(1, sizeof *subscriber + size);
    if (!subscriber)
        return rota_error_set(error, ROTA_ERR_NO_MEMORY, "members: no memory for subscriber %s",
                              name);
    subscriber->since = members->n_news;
    subscriber->on_change = on_change;
    subscriber->data = data;
    memcpy(subscriber->name, name, size);
    *place = subscriber;
    members->n_subscribers++;
    return ROTA_OK;
}

void rota_members_unsubscribe(struct rota_members *members, const char *name)
{
    struct subscriber *subscriber = *find_subscriber(members, name);
    if (!subscriber)
        return;
    subscriber->is_gone = true;
    members->n_subscribers--;
    if (!members->is_telling)
        sweep_subscribers(members, false);
}
