#include "run/own/space_members.h"

#include "run/own/space_inside.h"

#include <stdlib.h>

struct rota_space_members {
    struct rota_members_source base; /* first: the two are cast into each other */
    struct rota_members_sink sink;
    struct rota_space *space; /* NULL: none, or it is closed */
    uint64_t number;
    ROTA_VECTOR(struct rota_host) hosts;
    bool is_started, is_failing;
    bool *has_stopped; /* while it reports */
};

static bool list_members(struct rota_space_members *members, const struct rota_view *view)
{
    for (size_t i = 0; i < view->members.size; i++) {
        const struct rota_view_member *member = &view->members.items[i];
        const struct rota_host host = {
            .address = member->name, .zone = member->zone, .weight = member->weight};
        if (member->span.to == 0 && !rota_vector_push(&members->hosts, host))
            return false;
    }
    return true;
}

static bool list_others(struct rota_space_members *members, const struct rota_view_fsm *fsm)
{
    size_t n;
    const struct rota_view_row *rows = rota_view_fsm_rows(fsm, &n);
    for (size_t i = 0; i < n; i++) {
        bool is_repeated = i > 0 && rota_str_is_equal(rows[i - 1].name, rows[i].name);
        const struct rota_host host = {.address = rows[i].name, .is_draining = true};
        if (!is_repeated && rota_view_name_is_valid(rows[i].name) &&
            rota_view_find(&fsm->view, rows[i].name) == ROTA_VIEW_NOBODY &&
            !rota_vector_push(&members->hosts, host))
            return false;
    }
    return true;
}

/* Whether this node is about to join: the view that has it is the first to be reported. */
static bool is_joining(const struct rota_space_members *members)
{
    const struct rota_space *space = members->space;
    const struct rota_view *view = rota_view_fsm_view(&space->view.fsm);
    bool stays_out = space->is_draining || (space->is_displaced && space->is_listed);
    return members->number == 0 && space->options.member && !stays_out &&
           rota_view_find(view, rota_str(space->options.member)) == ROTA_VIEW_NOBODY;
}

/* Reporting is last, since it may stop us, which frees us. */
void rota_space_members_look(struct rota_space_members *members)
{
    const struct rota_view_fsm *fsm = &members->space->view.fsm;
    struct rota_error error;
    if (!members->is_started || !rota_view_is_keyed(&fsm->view) || is_joining(members))
        return;
    members->hosts.size = 0;
    enum rota_code code = ROTA_OK;
    if (!list_members(members, &fsm->view) || !list_others(members, fsm))
        code = rota_error_no_memory(&error, "for the nodes of a space");
    if (!code && members->hosts.size == 0)
        return; /* the last node has left */
    uint64_t before = members->number;
    bool has_stopped = false;
    if (!code) {
        members->has_stopped = &has_stopped;
        members->number = fsm->view.number;
        code = members->sink.on_snapshot(members->sink.data, members->number, members->hosts.items,
                                         members->hosts.size, &error);
    }
    if (has_stopped)
        return;
    members->has_stopped = NULL;
    if (code && !members->is_failing)
        members->sink.on_error(members->sink.data, &error);
    if (code)
        members->number = before;
    members->is_failing = code != ROTA_OK;
}

static enum rota_code start_source(struct rota_members_source *base, struct uv_loop_s *loop,
                                   const struct rota_members_sink *sink, struct rota_error *error)
{
    struct rota_space_members *members = (struct rota_space_members *)base;
    (void)loop;
    (void)error;
    members->sink = *sink;
    members->is_started = true;
    return ROTA_OK;
}

static void stop_source(struct rota_members_source *base)
{
    struct rota_space_members *members = (struct rota_space_members *)base;
    rota_space_members_unfollow(members);
    if (members->has_stopped)
        *members->has_stopped = true;
    rota_vector_deinit(&members->hosts);
    free(members);
}

enum rota_code rota_space_members_new(struct rota_space_members **members, struct rota_error *error)
{
    struct rota_space_members *made = calloc(1, sizeof *made);
    if (!made)
        return rota_error_no_memory(error, "for the nodes of a space");
    made->base = (struct rota_members_source){.start = start_source, .stop = stop_source};
    *members = made;
    return ROTA_OK;
}

struct rota_members_source *rota_space_members_source(struct rota_space_members *members)
{
    return &members->base;
}

void rota_space_members_follow(struct rota_space_members *members, struct rota_space *space)
{
    members->space = space;
    space->follower = members;
}

void rota_space_members_unfollow(struct rota_space_members *members)
{
    if (members->space)
        members->space->follower = NULL;
    members->space = NULL;
}

uint64_t rota_space_members_number(const struct rota_space_members *members)
{
    return members->number;
}

void rota_space_members_hint(struct rota_space_members *members)
{
    if (members->space)
        rota_space_view_tell(members->space, ROTA_VIEW_HINT);
}
