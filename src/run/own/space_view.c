/* The views of a space: the machine of core/own/view_fsm.h, fed by a store and a timer. */
#include "io/clock.h"
#include "run/own/space_inside.h"
#include "run/own/space_members.h"

#include <stdio.h>
#include <string.h>

#define LOOK_AGAIN (1 * ROTA_SEC)

/* --- the end of a drain --- */

/* Without a machine there was never a row. */
static bool is_drained(const struct rota_space *space)
{
    if (rota_space_is_stopping(space) || space->n_mine > 0)
        return false;
    return !space->options.member || !space->view.has_fsm ||
           (rota_view_fsm_is_drained(&space->view.fsm) &&
            space->view.told >= space->view.row.acked);
}

void rota_space_view_check_drained(struct rota_space *space)
{
    void (*on_drained)(void *data) = space->on_drained;
    if (!space->is_draining || space->is_drained || space->is_closing || !is_drained(space))
        return;
    space->is_drained = true;
    space->on_drained = NULL;
    rota_space_map_changed(space);
    if (on_drained)
        on_drained(space->drained_data);
}

/* --- the machine --- */

void rota_space_view_later(struct rota_space *space, enum rota_view_event_type type, uint64_t ask)
{
    const struct rota_space_late late = {.type = type, .ask = ask};
    (void)rota_vector_push(&space->view.late, late);
}

/* Until when a user may finish its work for shards that it loses. While our row exists no other
 * node takes them; this is not true if the row was removed, or the store fell back. */
static rota_time grace_until(const struct rota_space *space, enum rota_view_why why)
{
    switch (why) {
    case ROTA_VIEW_WHY_MOVED:
    case ROTA_VIEW_WHY_EXPIRED:
    case ROTA_VIEW_WHY_SHUTDOWN:
        return space->view.until ? space->view.until + rota_space_stop_within(space) : 0;
    case ROTA_VIEW_WHY_GONE:
    case ROTA_VIEW_WHY_WENT_BACK:
        return 0;
    }
    return 0;
}

static void stop_shards(struct rota_space *space, const struct rota_view_actions *todo)
{
    rota_time until = grace_until(space, todo->why);
    if (todo->n_stops > 0 || todo->has_halt)
        rota_log(space->options.log, rota_clock_wall(),
                 todo->why == ROTA_VIEW_WHY_MOVED || todo->why == ROTA_VIEW_WHY_SHUTDOWN
                     ? ROTA_LOG_INFO
                     : ROTA_LOG_ERROR,
                 "space stops its shards", ROTA_LOG_FACT("space", space->options.name),
                 ROTA_LOG_FACT("shards", todo->has_halt ? space->map.n_held : todo->n_stops),
                 ROTA_LOG_FACT("why", rota_view_fsm_look_why_text(todo->why)));
    for (size_t i = 0; i < todo->n_stops; i++)
        rota_space_engine_stop(space, todo->stops[i].shard, todo->stops[i].epoch, until);
    if (todo->has_halt)
        rota_space_halt(space, until);
}

void rota_space_view_limit(struct rota_space *space)
{
    rota_time until = space->view.until;
    if (space->state && space->engine->until)
        until = rota_time_min(until, space->engine->until(space->state));
    if (space->options.claims && until > 0)
        rota_claims_limit(space->options.claims, rota_str(space->options.name), until, NULL);
}

static void extend_ownership(struct rota_space *space, rota_time until)
{
    if (until == space->view.until)
        return;
    space->view.until = until;
    rota_space_view_limit(space);
}

static void step(struct rota_space *space, const struct rota_view_event *event)
{
    bool is_sight = event->type == ROTA_VIEW_SIGHT;
    struct rota_view_actions todo = rota_view_fsm_step(&space->view.fsm, rota_clock_boot(), event);
    stop_shards(space, &todo);
    for (size_t i = 0; i < todo.n_asks; i++)
        rota_space_view_ask(space, &todo.asks[i]);
    extend_ownership(space, todo.until);
    if (todo.is_changed)
        rota_space_set_engine(space);
    if (todo.is_changed || todo.n_stops > 0 || (is_sight && space->map.n_moving > 0))
        rota_space_map_view(space);
    for (size_t i = 0; i < todo.n_starts; i++)
        rota_space_engine_start(space, todo.starts[i].shard, todo.starts[i].epoch);
    if (todo.has_run)
        rota_space_run(space, todo.floor);
    if (todo.went_back && !space->options.member && space->view.fsm.view.number == 0)
        rota_space_trouble(space, "the store no longer has this space");
    else if (todo.went_back)
        rota_space_trouble(space, "the store went back to an earlier state: all shards stop, and "
                                  "restart when every node has had time to notice");
    for (size_t i = 0; i < todo.n_outcomes; i++) {
        rota_space_change_hear(space, &todo.outcomes[i]);
        rota_space_start_hear(space, &todo.outcomes[i]);
    }
    if (space->follower && (todo.is_changed || is_sight))
        rota_space_members_look(space->follower);
    space->view.is_over |= todo.is_done;
}

static bool next_event(struct rota_space *space, struct rota_view_event *event)
{
    if (space->view.late.size > 0) {
        struct rota_space_late late = space->view.late.items[0];
        memmove(space->view.late.items, space->view.late.items + 1,
                --space->view.late.size * sizeof late);
        *event = (struct rota_view_event){.type = late.type,
                                          .ask = late.ask,
                                          .weight = space->weight,
                                          .zone = rota_str(space->zone)};
        return true;
    }
    *event = (struct rota_view_event){.type = ROTA_VIEW_WISH};
    return !space->is_closing && (rota_space_change_next(space, &event->wish) ||
                                  rota_space_start_next(space, &event->wish));
}

static void on_timer(uv_timer_t *timer);

/* The machine has given up, or is done. Our row stays until all stops are answered. */
static void end_if_over(struct rota_space *space)
{
    struct rota_space_view *view = &space->view;
    if (!view->is_over || view->is_leaving || rota_space_is_stopping(space))
        return;
    view->is_leaving = true;
    uv_timer_stop(&view->driver.timer);
    rota_driver_forget(&view->driver, space->store);
    if (view->is_row_there)
        rota_space_view_ask_store(
            space, &(struct rota_view_ask){.type = ROTA_VIEW_LEAVE, .row = view->row}, 0);
    else
        rota_space_finish(space);
}

/* The machine thinks that others know; all stops are answered now, so they may. */
static void tell_held_back(struct rota_space *space)
{
    struct rota_space_view *view = &space->view;
    if (rota_space_is_stopping(space) || view->is_over || !view->is_row_there ||
        view->sent >= view->row.acked)
        return;
    view->sent = view->row.acked;
    rota_space_view_ask_store(
        space, &(struct rota_view_ask){.type = ROTA_VIEW_BEAT, .row = view->row}, view->row.acked);
}

/* The one caller of the machine. Events from callbacks and failed asks are handled after the
 * event that caused them. */
void rota_space_view_drive(struct rota_space *space, const struct rota_view_event *event)
{
    struct rota_view_event next = *event;
    space->view.driver.is_driving = true;
    do
        step(space, &next);
    while (!space->view.is_over && next_event(space, &next));
    space->view.driver.is_driving = false;
    if (!space->view.is_over)
        rota_driver_arm(&space->view.driver, on_timer, rota_view_fsm_deadline(&space->view.fsm));
    tell_held_back(space);
    rota_space_view_check_drained(space);
    end_if_over(space);
}

static void on_timer(uv_timer_t *timer)
{
    rota_space_view_drive(timer->data, &(struct rota_view_event){.type = ROTA_VIEW_TICK});
}

void rota_space_view_tell(struct rota_space *space, enum rota_view_event_type type)
{
    if (!space->view.has_fsm || space->view.is_over)
        return;
    if (space->view.driver.is_driving)
        rota_space_view_later(space, type, 0);
    else
        rota_space_view_drive(space, &(struct rota_view_event){.type = type,
                                                               .weight = space->weight,
                                                               .zone = rota_str(space->zone)});
}

void rota_space_view_wish(struct rota_space *space)
{
    struct rota_view_event event = {.type = ROTA_VIEW_WISH};
    if (space->view.has_fsm && !space->view.is_over && !space->view.driver.is_driving &&
        (rota_space_change_next(space, &event.wish) || rota_space_start_next(space, &event.wish)))
        rota_space_view_drive(space, &event);
}

void rota_space_view_stopped(struct rota_space *space)
{
    if (space->view.driver.is_driving)
        return; /* it is handled afterwards */
    tell_held_back(space);
    end_if_over(space);
}

/* --- the beginning --- */

static void look_up_space(struct rota_space *space);

static void on_look_timer(uv_timer_t *timer)
{
    look_up_space(timer->data);
}

static void schedule_look(struct rota_space *space, const char *trouble)
{
    if (trouble)
        rota_space_trouble(space, trouble);
    uv_timer_start(&space->view.driver.timer, on_look_timer, LOOK_AGAIN / ROTA_MSEC, 0);
}

/* The parts of `text` between commas. */
static bool split_names(const char *text, struct rota_str *parts, size_t *n)
{
    for (*n = 0; *n < ROTA_VIEW_SEATS_MAX;) {
        size_t size = strcspn(text, ",");
        parts[(*n)++] = rota_str_of(text, size);
        if (!text[size])
            return true;
        text += size + 1;
    }
    return false;
}

static enum rota_code init_fsm(struct rota_space *space, const struct rota_view *view,
                               struct rota_error *error)
{
    const struct rota_space_options *o = &space->options;
    const char *member = o->member ? o->member : "no node";
    struct rota_str seats[ROTA_VIEW_SEATS_MAX];
    size_t n_seats = 0;
    uint64_t seed = 0;
    int failed = uv_random(NULL, NULL, &seed, sizeof seed, 0, NULL);
    const struct rota_engine *engine =
        o->engine ? rota_space_engine_find(rota_str(o->engine)) : NULL;
    if (failed)
        return rota_error_set(error, ROTA_ERR_IO, "space %s: no random number: %s", o->name,
                              uv_strerror(failed));
    if (view->number > 0 && (view->n_shards == 0) != o->is_keyed && o->member)
        return rota_error_set(error, ROTA_ERR_INVALID, "space %s in the store %s", o->name,
                              o->is_keyed ? "has shards" : "is keyed, and has no shards");
    if (engine == &rota_engine_static &&
        !split_names(o->seats ? o->seats : member, seats, &n_seats))
        return rota_error_set(error, ROTA_ERR_LIMIT, "space %s: more than %d nodes in the list",
                              o->name, ROTA_VIEW_SEATS_MAX);
    const struct rota_view_fsm_options options = {
        .space = rota_str(o->name),
        .name = rota_str(member),
        .n_shards = view->number ? view->n_shards : o->n_shards,
        .engine = engine ? engine->kind : view->engine,
        .seats = seats,
        .n_seats = n_seats,
        .weight = space->weight,
        .zone = rota_str(space->zone),
        .ttl = rota_space_ttl(space) - (o->member ? rota_space_stop_within(space) : 0),
        .is_alone = o->is_alone,
        .is_observer = !o->member,
        .seed = seed,
    };
    return rota_view_fsm_init(&space->view.fsm, rota_clock_boot(), &options, error);
}

static void begin_view(struct rota_space *space, const struct rota_view *view)
{
    struct rota_error error;
    enum rota_code code = init_fsm(space, view, &error);
    if (!code) {
        space->view.has_fsm = true;
        code = rota_space_map_init(space, space->view.fsm.options.n_shards, &error);
    }
    if (code) {
        if (space->view.has_fsm)
            rota_view_fsm_deinit(&space->view.fsm);
        space->view.has_fsm = false;
        schedule_look(space, error.text);
        return;
    }
    rota_space_trouble(space, NULL);
    if (space->is_draining || space->is_displaced)
        rota_space_view_later(space, ROTA_VIEW_DRAIN, 0);
    rota_space_view_drive(space, &(struct rota_view_event){.type = ROTA_VIEW_TICK});
}

static void on_look(void *data, const struct rota_store_answer *answer)
{
    struct rota_space *space = data;
    struct rota_view view = {0};
    char text[ROTA_ERROR_TEXT_MAX];
    if (answer->code) {
        schedule_look(space, answer->error.text);
    } else if (answer->n_spaces == 0 && !space->options.engine) {
        snprintf(text, sizeof text, "the store has no space %s", space->options.name);
        schedule_look(space, text);
    } else if (answer->n_spaces == 0 || rota_space_view_ask_parse(space, answer->spaces, &view)) {
        begin_view(space, &view);
        rota_view_deinit(&view);
    } else {
        schedule_look(space, NULL);
    }
}

static void look_up_space(struct rota_space *space)
{
    struct rota_error error;
    const struct rota_store_request request = {.verb = ROTA_STORE_SPACE_READ,
                                               .space = rota_str(space->options.name)};
    if (rota_store_ask(space->store, &request, on_look, space, &error))
        schedule_look(space, error.text);
}

void rota_space_view_open(struct rota_space *space)
{
    look_up_space(space);
}

/* --- the end --- */

void rota_space_view_close(struct rota_space *space)
{
    if (!space->view.has_fsm) {
        rota_store_forget(space->store, space);
        uv_timer_stop(&space->view.driver.timer);
        rota_space_finish(space);
    } else {
        rota_space_view_tell(space, ROTA_VIEW_SHUTDOWN);
    }
}

void rota_space_view_deinit(struct rota_space *space)
{
    struct rota_space_view *view = &space->view;
    if (view->has_fsm)
        rota_view_fsm_deinit(&view->fsm);
    rota_vector_deinit(&view->late);
    rota_vector_deinit(&view->rows);
    rota_buffer_deinit(&view->text);
    rota_buffer_deinit(&view->known_text);
}
