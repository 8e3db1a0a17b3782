#include <rota/experimental/members.h>

#include "core/place/members_fsm.h"
#include "io/clock.h"
#include "run/place/cell.h"
#include "run/place/subscribers.h"
#include "run/place/wall_wait.h"

#include <stdlib.h>
#include <uv.h>

/* A change that was not reported to subscribers yet. */
struct news {
    struct news *next;
    uint64_t number;
    struct rota_members_actions actions;
};

struct rota_members {
    struct rota_members_options options;
    struct rota_members_fsm fsm;
    struct rota_cell cell;
    struct rota_members_source *source;
    uv_timer_t timer;
    bool is_closed;

    struct rota_subscribers subscribers;
    struct news *news; /* oldest first */
    bool is_telling;
};

static void ref_ring(void *ring)
{
    rota_ring_ref(ring);
}

static void unref_ring(void *ring)
{
    rota_ring_unref(ring);
}

static const struct rota_cell_type ring_type = {ref_ring, unref_ring};

/* --- telling --- */

static void news_free(struct news *news)
{
    rota_members_fsm_actions_deinit(&news->actions);
    free(news);
}

typedef void on_change_function(void *data, const struct rota_members_change *change);

static void call_subscriber(rota_subscriber_function *function, void *data, const void *change)
{
    ((on_change_function *)function)(data, change);
}

/* Report pending changes, in order. A callback may change the membership: that change is queued
 * after this one and reported by the same loop. It may also close us, which frees nothing before
 * the loop continues. */
static void notify_subscribers(struct rota_members *members)
{
    if (members->is_telling)
        return;
    members->is_telling = true;
    for (struct news *news; !members->is_closed && (news = members->news);) {
        rota_subscribers_notify(&members->subscribers, news->number, call_subscriber,
                                &news->actions.change);
        members->news = news->next;
        news_free(news);
    }
    members->is_telling = false;
}

static void queue_news(struct rota_members *members, struct news *news)
{
    struct news **last = &members->news;
    while (*last)
        last = &(*last)->next;
    news->number = rota_subscribers_number(&members->subscribers);
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
    rota_time deadline = failed ? ROTA_TIME_NEVER : rota_members_fsm_deadline(&members->fsm);
    uv_timer_start(&members->timer, on_timer, rota_wall_wait_ms(now, deadline), 0);
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

/* The one caller of the machine. The ring is swapped before any notification, and notifying is
 * last, since it may close us. */
static enum rota_code drive(struct rota_members *members, const struct rota_members_event *event,
                            struct rota_error *error)
{
    rota_time now = rota_clock_wall();
    struct news *news = calloc(1, sizeof *news);
    if (!news)
        return rota_error_no_memory(error, "to change members");

    enum rota_code code = rota_members_fsm_step(&members->fsm, now, event, &news->actions, error);
    set_timer(members, now, code != ROTA_OK);
    if (code || !news->actions.tell) {
        news_free(news);
        return code;
    }
    if (news->actions.ring) {
        rota_cell_swap(&members->cell, news->actions.ring);
        news->actions.ring = NULL; /* the cell's now */
    }
    log_change(members, now, &news->actions.change);
    queue_news(members, news);
    notify_subscribers(members);
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
    rota_subscribers_deinit(&members->subscribers);
    rota_cell_deinit(&members->cell);
    rota_members_fsm_deinit(&members->fsm);
    free(members);
}

static enum rota_code members_new(struct uv_loop_s *loop,
                                  const struct rota_members_options *options,
                                  struct rota_members **members, struct rota_error *error)
{
    struct rota_members *made = calloc(1, sizeof *made);
    if (!made)
        return rota_error_no_memory(error, "to open the members");
    if (options)
        made->options = *options;
    enum rota_code code = rota_members_fsm_init(&made->fsm, made->options.points, error);
    if (code) {
        free(made);
        return code;
    }
    rota_cell_init(&made->cell, &ring_type, rota_ring_ref(rota_members_fsm_ring(&made->fsm)));
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
    rota_subscribers_stop(&members->subscribers);
    members->source->stop(members->source);
    uv_close((uv_handle_t *)&members->timer, on_timer_closed);
}

/* --- queries and overrides --- */

struct rota_ring *rota_members_ring(struct rota_members *members)
{
    return rota_cell_get(&members->cell);
}

const struct rota_member *rota_members_list(const struct rota_members *members, size_t *n_members)
{
    return rota_members_fsm_list(&members->fsm, n_members);
}

static enum rota_code apply_override(struct rota_members *members,
                                     enum rota_members_event_type type, struct rota_str address,
                                     struct rota_error *error)
{
    struct rota_members_event event = {.type = type, .address = address};
    return drive(members, &event, error);
}

enum rota_code rota_members_evict(struct rota_members *members, struct rota_str address,
                                  struct rota_error *error)
{
    return apply_override(members, ROTA_MEMBERS_EVICT, address, error);
}

enum rota_code rota_members_unevict(struct rota_members *members, struct rota_str address,
                                    struct rota_error *error)
{
    return apply_override(members, ROTA_MEMBERS_UNEVICT, address, error);
}

enum rota_code rota_members_drain(struct rota_members *members, struct rota_str address,
                                  struct rota_error *error)
{
    return apply_override(members, ROTA_MEMBERS_DRAIN, address, error);
}

enum rota_code rota_members_undrain(struct rota_members *members, struct rota_str address,
                                    struct rota_error *error)
{
    return apply_override(members, ROTA_MEMBERS_UNDRAIN, address, error);
}

enum rota_code rota_members_subscribe(struct rota_members *members, const char *name,
                                      void (*on_change)(void *data,
                                                        const struct rota_members_change *change),
                                      void *data, struct rota_error *error)
{
    return rota_subscribers_add(&members->subscribers, name, (rota_subscriber_function *)on_change,
                                data, error);
}

void rota_members_unsubscribe(struct rota_members *members, const char *name)
{
    rota_subscribers_remove(&members->subscribers, name);
}
