#include "view_nodes.h"

#include <stdio.h>

struct view_table table;
struct rota_view stored;
struct node nodes[NODES];
rota_time now;
uint64_t unix_ms;
bool is_keyed;

static void carry_out(struct node *node, struct rota_view_actions todo);

void drive(struct node *node, struct rota_view_event event)
{
    carry_out(node, rota_view_fsm_step(&node->fsm, now, &event));
}

static bool is_stored(const struct node *node, uint64_t known)
{
    return stored.number == known &&
           (known == 0 || rota_view_is_equal(&stored, rota_view_fsm_view(&node->fsm)));
}

static void answer_read(struct node *node, uint64_t ask, uint64_t known)
{
    struct rota_view_row rows[VIEW_TABLE_ROWS_MAX];
    struct rota_view_event event = {.type = ROTA_VIEW_SIGHT,
                                    .ask = ask,
                                    .view = is_stored(node, known) ? NULL : &stored,
                                    .rows = rows,
                                    .n_rows = table.n_rows,
                                    .unix_ms = unix_ms};
    for (size_t i = 0; i < table.n_rows; i++)
        rows[i] = (struct rota_view_row){.name = rota_str(table.rows[i].name),
                                         .instance = table.rows[i].instance,
                                         .pings = table.rows[i].pings,
                                         .ttl = table.rows[i].ttl,
                                         .acked = table.rows[i].acked,
                                         .highest = table.rows[i].highest,
                                         .weight = table.rows[i].weight,
                                         .zone = rota_str(table.rows[i].zone),
                                         .is_draining = table.rows[i].is_draining};
    drive(node, event);
}

static void answer_propose(struct node *node, uint64_t ask, uint64_t known, struct rota_view *view)
{
    struct rota_error error;
    bool is_taken = is_stored(node, known);
    const struct rota_view_wish *late = node->late;
    node->late = NULL;
    if (late)
        drive(node, (struct rota_view_event){.type = ROTA_VIEW_WISH, .wish = *late});
    if (rota_view_check(view, &error))
        fail_msg("%s", error.text);
    if (is_taken) {
        rota_view_deinit(&stored);
        stored = *view;
    } else {
        rota_view_deinit(view);
    }
    drive(node, (struct rota_view_event){.type = is_taken ? ROTA_VIEW_PROPOSED : ROTA_VIEW_REFUSED,
                                         .ask = ask});
}

/* What comes in the ask is borrowed, and answers may follow at once: a copy is kept. */
static void answer(struct node *node, struct rota_view_ask ask)
{
    struct rota_view view = {0};
    struct view_table_row row = {.instance = ask.row.instance,
                                 .pings = ask.row.pings,
                                 .ttl = ask.row.ttl,
                                 .acked = ask.row.acked,
                                 .highest = ask.row.highest,
                                 .weight = ask.row.weight,
                                 .is_draining = ask.row.is_draining};
    struct rota_view_event event = {.ask = ask.number};
    snprintf(row.name, sizeof row.name, "%.*s", ROTA_STR_ARGS(ask.row.name));
    snprintf(row.zone, sizeof row.zone, "%.*s", ROTA_STR_ARGS(ask.row.zone));
    if (ask.view)
        assert_int_equal(rota_view_copy(ask.view, &view, NULL), ROTA_OK);
    if (node->is_deaf || (node->is_blind && ask.type == ROTA_VIEW_READ)) {
        rota_view_deinit(&view);
        event.type = ROTA_VIEW_UNKNOWN;
        drive(node, event);
        return;
    }
    switch (ask.type) {
    case ROTA_VIEW_JOIN:
        event.type = view_table_join(&table, &row, ask.former) ? ROTA_VIEW_JOINED : ROTA_VIEW_TAKEN;
        break;
    case ROTA_VIEW_BEAT:
        event.type = view_table_beat(&table, &row) ? ROTA_VIEW_BEATEN : ROTA_VIEW_GONE;
        break;
    case ROTA_VIEW_LEAVE:
        view_table_leave(&table, row.name, row.instance);
        event.type = ROTA_VIEW_LEFT;
        break;
    case ROTA_VIEW_EVICT:
        view_table_evict(&table, row.name, row.instance, row.pings);
        event.type = ROTA_VIEW_EVICTED;
        break;
    case ROTA_VIEW_READ:
        answer_read(node, ask.number, ask.known);
        return;
    case ROTA_VIEW_PROPOSE:
        answer_propose(node, ask.number, ask.known, &view);
        return;
    }
    drive(node, event);
}

static void carry_out(struct node *node, struct rota_view_actions todo)
{
    struct rota_view_ask asks[ROTA_VIEW_ASKS_MAX];
    for (size_t i = 0; i < todo.n_stops; i++) {
        assert_int_equal(node->serving[todo.stops[i].shard], todo.stops[i].epoch);
        node->serving[todo.stops[i].shard] = 0;
    }
    for (size_t i = 0; i < todo.n_starts; i++) {
        assert_int_equal(node->serving[todo.starts[i].shard], 0);
        node->serving[todo.starts[i].shard] = todo.starts[i].epoch;
        for (size_t j = 0; j < NODES; j++)
            assert_true(&nodes[j] == node || nodes[j].serving[todo.starts[i].shard] == 0 ||
                        now >= nodes[j].fsm.until);
    }
    node->n_stopped += todo.n_stops;
    node->n_started += todo.n_starts;
    node->n_halts += todo.has_halt;
    node->is_running = (node->is_running && !todo.has_halt) || todo.has_run;
    if (todo.has_run)
        node->floor = todo.floor;
    if (todo.n_outcomes > 0)
        node->outcome = todo.outcomes[0];
    node->went_back |= todo.went_back;
    node->is_done |= todo.is_done;
    memcpy(asks, todo.asks, todo.n_asks * sizeof *asks);
    for (size_t i = 0; i < todo.n_asks; i++)
        answer(node, asks[i]);
}

void open_node(int i, struct rota_view_fsm_options options)
{
    static const char *const NAMES[] = {"a", "b", "c"};
    struct rota_error error;
    nodes[i] = (struct node){0};
    options.space = rota_str("space");
    if (!options.name.data)
        options.name = rota_str(NAMES[i]);
    options.n_shards = is_keyed ? 0 : SHARDS;
    options.ttl = TTL;
    options.seed = (uint64_t)i * 7 + 1 + (uint64_t)now;
    if (rota_view_fsm_init(&nodes[i].fsm, now, &options, &error))
        fail_msg("%s", error.text);
}

void open_plain(int i)
{
    open_node(i, (struct rota_view_fsm_options){0});
}

void pass(rota_time span)
{
    for (size_t i = 0; i < NODES; i++)
        nodes[i].n_stopped = nodes[i].n_started = 0;
    for (rota_time end = now + span; now < end; now += TTL / 100)
        for (size_t i = 0; i < NODES; i++)
            if (nodes[i].fsm.options.ttl && now >= rota_view_fsm_deadline(&nodes[i].fsm))
                drive(&nodes[i], (struct rota_view_event){.type = ROTA_VIEW_TICK});
}

int set_up(void **state)
{
    (void)state;
    now = 1000 * ROTA_SEC;
    unix_ms = 0;
    is_keyed = false;
    table = (struct view_table){0};
    memset(nodes, 0, sizeof nodes);
    return 0;
}

int tear_down(void **state)
{
    (void)state;
    for (size_t i = 0; i < NODES; i++)
        if (nodes[i].fsm.options.ttl)
            rota_view_fsm_deinit(&nodes[i].fsm);
    rota_view_deinit(&stored);
    return 0;
}

uint32_t n_served(int i)
{
    uint32_t n = 0;
    for (uint32_t shard = 0; shard < SHARDS; shard++)
        n += nodes[i].serving[shard] != 0;
    return n;
}

uint32_t n_served_in_all(void)
{
    return n_served(0) + n_served(1) + n_served(2);
}

void wish(int i, struct rota_view_wish made)
{
    nodes[i].outcome = (struct rota_view_outcome){.code = ROTA_ERR_IO};
    made.id = 77;
    drive(&nodes[i], (struct rota_view_event){.type = ROTA_VIEW_WISH, .wish = made});
    pass(TTL / 10);
    assert_int_equal(nodes[i].outcome.id, 77);
}
