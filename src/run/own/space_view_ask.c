/* What a space asks of its store for its views, and how the answers are read. */
#include "run/own/space_inside.h"
#include "wire/text/view_text.h"

#include <stdio.h>
#include <stdlib.h>

/* A question that the store has not answered yet. */
struct rota_space_ask {
    struct rota_driver_ask base;
    struct rota_space *space;
    enum rota_view_ask_type type;
    uint64_t number; /* 0: the machine does not know of it */
    uint64_t known;
    uint64_t acked; /* what it reports to the others */
};

/* --- answers --- */

/* Report a row that can't be used. False: it can. */
static bool refuse_row(struct rota_space *space, struct rota_error *error)
{
    char text[ROTA_ERROR_TEXT_MAX];
    snprintf(text, sizeof text, "the store's row of space %s is malformed: %.300s",
             space->options.name, error->text);
    rota_space_trouble(space, text);
    space->view.is_row_bad = true;
    return false;
}

bool rota_space_view_ask_parse(struct rota_space *space, const struct rota_store_space *row,
                               struct rota_view *view)
{
    struct rota_error error;
    if (rota_view_text_parse(row->text, view, &error))
        return refuse_row(space, &error);
    if (view->number == row->version)
        return true;
    rota_error_set(&error, ROTA_ERR_INVALID, "its version is %llu, but its text says %llu",
                   (unsigned long long)row->version, (unsigned long long)view->number);
    rota_view_deinit(view);
    return refuse_row(space, &error);
}

static bool read_rows(struct rota_space *space, const struct rota_store_answer *answer)
{
    space->view.rows.size = 0;
    if (!rota_vector_reserve(&space->view.rows, answer->n_nodes))
        return false;
    for (size_t i = 0; i < answer->n_nodes; i++) {
        const struct rota_store_node *node = &answer->nodes[i];
        space->view.rows.items[space->view.rows.size++] = (struct rota_view_row){
            .name = node->name,
            .instance = node->instance,
            .pings = node->pings,
            .ttl = node->ttl,
            .acked = node->acked,
            .highest = node->highest,
            .weight = node->weight,
            .zone = node->zone,
            .is_draining = node->is_draining,
        };
    }
    return true;
}

static void hear_sight(struct rota_space *space, const struct rota_space_ask *ask,
                       const struct rota_store_answer *answer)
{
    struct rota_view view = {0};
    const struct rota_store_space *row = answer->n_spaces ? answer->spaces : NULL;
    bool is_known = row && ask->known && row->version == ask->known && row->text.size == 0;
    struct rota_view_event event = {.type = ROTA_VIEW_UNKNOWN, .ask = ask->number};
    if (read_rows(space, answer) &&
        (!row || is_known || rota_space_view_ask_parse(space, row, &view))) {
        /* A node with its own row is well if its heartbeats succeed. */
        if (space->view.is_row_bad || !space->options.member)
            rota_space_trouble(space, NULL);
        space->view.is_row_bad = false;
        event.type = ROTA_VIEW_SIGHT;
        event.view = is_known ? NULL : &view;
        event.rows = space->view.rows.items;
        event.n_rows = space->view.rows.size;
        event.unix_ms = (uint64_t)(answer->db_now / ROTA_MSEC);
        event.highest = answer->highest;
    }
    rota_space_view_drive(space, &event);
    rota_view_deinit(&view);
}

static void handle_taken(struct rota_space *space)
{
    char text[ROTA_ERROR_TEXT_MAX];
    snprintf(
        text, sizeof text,
        "a previous process of %s is still registered in space %s; waiting until its ttl expires",
        space->options.member, space->options.name);
    rota_space_trouble(space, text);
}

static enum rota_view_event_type event_of(const struct rota_space_ask *ask,
                                          const struct rota_store_answer *answer)
{
    switch (ask->type) {
    case ROTA_VIEW_JOIN:
        return answer->is_done ? ROTA_VIEW_JOINED : ROTA_VIEW_TAKEN;
    case ROTA_VIEW_BEAT:
        return answer->is_done ? ROTA_VIEW_BEATEN : ROTA_VIEW_GONE;
    case ROTA_VIEW_LEAVE:
        return ROTA_VIEW_LEFT;
    case ROTA_VIEW_EVICT:
        return ROTA_VIEW_EVICTED;
    case ROTA_VIEW_READ:
        return ROTA_VIEW_SIGHT;
    case ROTA_VIEW_PROPOSE:
        return answer->is_done ? ROTA_VIEW_PROPOSED : ROTA_VIEW_REFUSED;
    }
    return ROTA_VIEW_UNKNOWN;
}

/* Side effects of an answer besides the machine's. */
static void note_answer(struct rota_space *space, const struct rota_space_ask *ask,
                        const struct rota_store_answer *answer)
{
    bool is_own = ask->type == ROTA_VIEW_JOIN || ask->type == ROTA_VIEW_BEAT;
    if (answer->code)
        rota_space_trouble(space, answer->error.text);
    else if (ask->type == ROTA_VIEW_JOIN && !answer->is_done)
        handle_taken(space);
    else if (is_own && answer->is_done && !space->view.is_row_bad)
        rota_space_trouble(space, NULL);
    if (is_own && !answer->code && answer->is_done && ask->acked > space->view.told)
        space->view.told = ask->acked;
    else if (is_own && answer->code)
        space->view.sent = space->view.told;
}

static void on_answer(void *data, const struct rota_store_answer *answer)
{
    struct rota_space_ask *ask = data;
    struct rota_space *space = ask->space;
    rota_list_remove(&ask->base.link);
    note_answer(space, ask, answer);
    if (ask->number == 0) {
        if (ask->type == ROTA_VIEW_LEAVE)
            rota_space_finish(space);
        else
            rota_space_view_check_drained(space);
    } else if (!answer->code && ask->type == ROTA_VIEW_READ) {
        hear_sight(space, ask, answer);
    } else {
        const struct rota_view_event event = {
            .type = answer->code ? ROTA_VIEW_UNKNOWN : event_of(ask, answer), .ask = ask->number};
        rota_space_view_drive(space, &event);
    }
    free(ask);
}

/* --- questions --- */

static enum rota_store_verb verb_of(enum rota_view_ask_type type)
{
    switch (type) {
    case ROTA_VIEW_JOIN:
        return ROTA_STORE_SPACE_JOIN;
    case ROTA_VIEW_BEAT:
        return ROTA_STORE_SPACE_BEAT;
    case ROTA_VIEW_LEAVE:
        return ROTA_STORE_SPACE_LEAVE;
    case ROTA_VIEW_EVICT:
        return ROTA_STORE_SPACE_EVICT;
    case ROTA_VIEW_READ:
        return ROTA_STORE_SPACE_READ;
    case ROTA_VIEW_PROPOSE:
        return ROTA_STORE_SPACE_PROPOSE;
    }
    return ROTA_STORE_SPACE_READ;
}

/* Others wait for a row longer than the machine believes in it, by as much as the user may
 * need to stop. */
static struct rota_store_node node_of(const struct rota_space *space,
                                      const struct rota_view_row *row, uint64_t acked)
{
    return (struct rota_store_node){
        .name = row->name,
        .instance = row->instance,
        .pings = row->pings,
        .ttl = rota_space_ttl(space),
        .acked = acked,
        .highest = row->highest,
        .weight = row->weight,
        .zone = row->zone,
        .is_draining = row->is_draining,
    };
}

static struct rota_store_request request_of(struct rota_space *space,
                                            const struct rota_view_ask *ask, uint64_t acked)
{
    struct rota_store_request request = {
        .verb = verb_of(ask->type),
        .space = rota_str(space->options.name),
        .former = ask->former,
        .known = ask->known,
    };
    rota_buffer_clear(&space->view.text);
    rota_buffer_clear(&space->view.known_text);
    if (ask->known) {
        rota_view_text_format(rota_view_fsm_view(&space->view.fsm), &space->view.known_text);
        request.known_text = rota_buffer_str(&space->view.known_text);
    }
    if (ask->type == ROTA_VIEW_PROPOSE) {
        rota_view_text_format(ask->view, &space->view.text);
        request.config = (struct rota_store_space){
            .name = request.space,
            .engine = rota_str(rota_view_engine_name(ask->view->engine)),
            .text = rota_buffer_str(&space->view.text),
            .version = ask->view->number,
        };
    } else if (ask->type != ROTA_VIEW_READ) {
        request.node = node_of(space, &ask->row, acked);
    }
    return request;
}

static void fail_ask(struct rota_space *space, uint64_t number)
{
    if (number)
        rota_space_view_later(space, ROTA_VIEW_UNKNOWN, number);
    else if (space->view.is_leaving)
        rota_space_finish(space);
}

void rota_space_view_ask_store(struct rota_space *space, const struct rota_view_ask *wanted,
                               uint64_t acked)
{
    const struct rota_store_request request = request_of(space, wanted, acked);
    bool has_failed = space->view.text.failed || space->view.known_text.failed;
    struct rota_space_ask *ask = has_failed ? NULL : calloc(1, sizeof *ask);
    if (!ask) {
        fail_ask(space, wanted->number);
        return;
    }
    *ask = (struct rota_space_ask){.space = space,
                                   .type = wanted->type,
                                   .number = wanted->number,
                                   .known = wanted->known,
                                   .acked = acked};
    struct rota_error error;
    if (!rota_driver_ask(&space->view.driver, space->store, &request, on_answer, &ask->base,
                         &error))
        return;
    rota_space_trouble(space, error.text);
    fail_ask(space, wanted->number);
}

/* Our own row: while a stop has no answer, others must not learn that it is done. The row's name
 * belongs to the machine, and lives as long. */
static void ask_own(struct rota_space *space, const struct rota_view_ask *ask)
{
    bool is_stopping = rota_space_is_stopping(space);
    if (is_stopping && ask->type != ROTA_VIEW_BEAT) {
        rota_space_view_later(space, ROTA_VIEW_UNKNOWN, ask->number);
        return;
    }
    space->view.row = ask->row;
    space->view.is_row_there = ask->type != ROTA_VIEW_LEAVE;
    if (ask->type == ROTA_VIEW_JOIN)
        space->view.told = 0;
    space->view.sent = is_stopping ? space->view.told : ask->row.acked;
    rota_space_view_ask_store(space, ask, space->view.sent);
}

void rota_space_view_ask(struct rota_space *space, const struct rota_view_ask *ask)
{
    if (ask->type == ROTA_VIEW_JOIN || ask->type == ROTA_VIEW_BEAT || ask->type == ROTA_VIEW_LEAVE)
        ask_own(space, ask);
    else
        rota_space_view_ask_store(space, ask, 0);
}
