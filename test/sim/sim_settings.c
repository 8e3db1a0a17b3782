/* Nodes that change settings of queues, which are rows of one store: the real machine of
 * core/work/cluster/settings_fsm.h at each node, with a copy on its disk.
 *
 * Operators ask any node for a change of one setting of a queue, again and again. Requests to the
 * store are lost, late, and carried out after the node has given them up; the store is down, is
 * cut off, drops rows that say nothing, and is restored from a backup. Nodes crash, and come back
 * with their disk or without.
 *
 * A change that was acknowledged is in the store, one that was reported as not made is not, and no
 * change undoes another. A node without a copy begins with the rows that there were when it
 * started. Once faults stop, all nodes have what the store has. */
#include "core/work/cluster/settings_fsm.h"
#include "sim/sim_chaos.h"
#include "sim_main.h"

#include <string.h>

enum { STORE, NODES = 5, QUEUES = 3, FIELDS = 2, CHANGES = 8, VALUES_MAX = 4096 };
enum { TIMER_FSM, TIMER_ANSWER };

#define INTERVAL   ROTA_SEC
#define ANSWER_MAX (1500 * ROTA_MSEC)
#define KEEP       (ROTA_SETTINGS_ALL + 2 * ROTA_MIN) /* of a row that says nothing */
#define QUIET_AT   (30 * ROTA_MIN)
#define END_AT     (QUIET_AT + ROTA_SETTINGS_ALL + ROTA_MIN)
#define WISH_EVERY (8 * ROTA_SEC)
#define CUT_FOR    (KEEP + 3 * ROTA_MIN)

enum plant {
    PLANT_NONE,
    PLANT_HINT_BELIEVED,
    PLANT_HINTS_ONLY,
    PLANT_NO_COMPARE,
    PLANT_BEGINS_UNREAD,
    PLANT_OLDER_ROW,
    PLANT_CACHE_WINS,
    PLANT_ACK_EARLY,
    PLANT_LOST_IS_FAILED,
    PLANT_ROWS_STAY,
    PLANT_NEVER_ALL,
    PLANT_WHOLE_ROW,
    N_PLANTS,
};

static const struct sim_plant plants[N_PLANTS - 1] = {
    {"hint-believed", "a node takes a hint for the row that it announces"},
    {"hints-only", "a node reads only when it gets a hint"},
    {"no-compare", "a row is written without comparing its version"},
    {"begins-unread", "a new node begins with its jobs before it has read the rows"},
    {"older-row", "two reads at a time, of which the later answer counts"},
    {"cache-wins", "what a node has on its disk is not overwritten by rows"},
    {"ack-early", "a change is acknowledged before the store has it"},
    {"lost-is-failed", "a write without an answer is taken for one that was not made"},
    {"rows-stay", "a queue whose row is gone keeps its settings"},
    {"never-all", "only later rows are read, never all"},
    {"whole-row", "after a conflict the row is written as it was computed first"},
};

struct row {
    uint64_t version;
    uint32_t values[FIELDS]; /* 0: the default */
};

struct message {
    enum { READ, WRITE, HINT, ANSWER } type;
    uint64_t id;      /* of a request and its answer */
    uint64_t version; /* READ: later ones; WRITE: the row is not later; HINT, ANSWER: the last */
    uint64_t previous;
    uint32_t queue, field, value;
    struct row rows[QUEUES]; /* of an ANSWER; of WRITE the first */
    bool has_row[QUEUES], is_all, is_done;
};

struct change {
    struct rota_settings_change base;
    uint32_t queue, field, value; /* `value` may be that of a default, see world.is_default */
    struct row row;
    bool has_row, is_used;
};

struct node {
    struct rota_settings_fsm fsm;
    struct change changes[CHANGES];
    struct change *written; /* the change in flight */
    struct row rows[QUEUES];
    uint64_t needed[QUEUES]; /* versions that there were at its start */
    bool has_copy, is_up, is_request_out;
    uint64_t id;
    /* The disk. */
    struct row copy[QUEUES];
    bool has_disk;
};

struct world {
    struct rota_sim *sim;
    struct rota_random *random;
    enum plant plant;
    struct rota_sim_chaos chaos, store_chaos;
    struct node nodes[NODES + 1];
    uint64_t n_requests;
    uint32_t cut;   /* a node that does not reach the store for long; 0: none */
    uint32_t still; /* a queue that is reset then, and not changed after it */

    /* The store. */
    struct row table[QUEUES], backup[QUEUES];
    uint64_t last, backup_last;
    rota_time emptied_at[QUEUES];
    bool was_restored, is_touched[QUEUES][FIELDS];

    /* By the number of a change. */
    uint32_t n_values, n_done;
    bool is_default[VALUES_MAX], is_written[VALUES_MAX], is_refused[VALUES_MAX];
};

static void drive(struct world *world, uint32_t number, struct rota_settings_event event);

static struct message new_message(int type)
{
    struct message message;
    memset(&message, 0, sizeof message); /* the padding is sent, too */
    message.type = type;
    return message;
}

static void send(struct world *world, uint32_t from, uint32_t to, const struct message *message)
{
    bool is_cut =
        world->cut && (from == world->cut || to == world->cut) && (from == STORE || to == STORE);
    if (!is_cut)
        rota_sim_send(world->sim, from, to, rota_str_of(message, sizeof *message));
}

static uint32_t effect_of(const struct world *world, uint32_t value)
{
    return world->is_default[value] ? 0 : value;
}

static bool is_empty(const struct row *row)
{
    return row->values[0] == 0 && row->values[1] == 0;
}

/* --- the store --- */

static void drop_rows(struct world *world)
{
    rota_time now = rota_sim_now(world->sim);
    for (uint32_t i = 0; i < QUEUES; i++)
        if (world->table[i].version && is_empty(&world->table[i]) &&
            now - world->emptied_at[i] > KEEP)
            world->table[i] = (struct row){0};
}

static void read_rows(struct world *world, const struct message *request, struct message *answer)
{
    answer->is_all = request->is_all;
    for (uint32_t i = 0; i < QUEUES; i++) {
        answer->has_row[i] = world->table[i].version > request->version;
        answer->rows[i] = world->table[i];
    }
}

/* A change of one setting leaves the others of its row alone; those that came back from a backup
 * may be as they were before. */
static void check_update(struct world *world, const struct message *request)
{
    const struct row *is = &world->table[request->queue];
    for (uint32_t i = 0; i < FIELDS; i++)
        if (i != request->field && request->rows[0].values[i] != is->values[i] &&
            (!world->was_restored || world->is_touched[request->queue][i]))
            rota_sim_fail(world->sim, "change %u undid change %u", request->value, is->values[i]);
    if (world->is_refused[request->value])
        rota_sim_fail(world->sim, "change %u was reported as not made", request->value);
}

static void write_row(struct world *world, const struct message *request, struct message *answer)
{
    struct row *row = &world->table[request->queue];
    drop_rows(world);
    if (row->version > request->version && world->plant != PLANT_NO_COMPARE)
        return;
    check_update(world, request);
    uint64_t clock = (uint64_t)(rota_sim_now(world->sim) / ROTA_MSEC);
    answer->is_done = true;
    answer->previous = world->last;
    world->last = world->last + 1 > clock ? world->last + 1 : clock;
    *row = request->rows[0];
    row->version = world->last;
    if (is_empty(row))
        world->emptied_at[request->queue] = rota_sim_now(world->sim);
    world->is_written[request->value] = true;
    world->is_touched[request->queue][request->field] = true;
}

static void serve(struct world *world, uint32_t from, const struct message *request)
{
    struct message answer = new_message(ANSWER);
    answer.id = request->id;
    if (request->type == READ)
        read_rows(world, request, &answer);
    else
        write_row(world, request, &answer);
    answer.version = world->last;
    send(world, STORE, from, &answer);
}

static void on_backup(void *data, uint64_t number)
{
    struct world *world = data;
    (void)number;
    memcpy(world->backup, world->table, sizeof world->backup);
    world->backup_last = world->last;
}

static void on_restore(void *data, uint64_t number)
{
    struct world *world = data;
    (void)number;
    memcpy(world->table, world->backup, sizeof world->table);
    world->last = world->backup_last;
    world->was_restored = true;
    memset(world->is_touched, 0, sizeof world->is_touched);
    for (uint32_t i = 1; i <= NODES; i++)
        memset(world->nodes[i].needed, 0, sizeof world->nodes[i].needed);
}

/* --- a node --- */

static void take_rows(struct world *world, struct node *node, const struct message *answer)
{
    for (uint32_t i = 0; i < QUEUES; i++) {
        bool is_gone = answer->is_all && !answer->has_row[i] && world->plant != PLANT_ROWS_STAY;
        if (world->plant == PLANT_CACHE_WINS && node->has_copy && !is_empty(&node->copy[i]))
            continue;
        if (answer->has_row[i] || is_gone)
            node->rows[i] = answer->has_row[i] ? answer->rows[i] : (struct row){0};
    }
    memcpy(node->copy, node->rows, sizeof node->copy);
    node->has_disk = true;
}

static void ask_store(struct world *world, uint32_t number, struct message *request)
{
    struct node *node = &world->nodes[number];
    node->id = request->id = ++world->n_requests;
    node->is_request_out = true;
    send(world, number, STORE, request);
    rota_sim_set_timer(world->sim, number, TIMER_ANSWER, ROTA_SIM_MONO,
                       rota_sim_mono(world->sim, number) + ANSWER_MAX);
}

static void ask_rows(struct world *world, uint32_t number, uint64_t from, bool is_all)
{
    struct message request = new_message(READ);
    request.version = world->plant == PLANT_NEVER_ALL ? world->nodes[number].fsm.known : from;
    request.is_all = is_all && world->plant != PLANT_NEVER_ALL;
    ask_store(world, number, &request);
}

static void write_change(struct world *world, uint32_t number,
                         const struct rota_settings_actions *todo)
{
    struct node *node = &world->nodes[number];
    struct change *change = ROTA_CONTAINER(todo->write, struct change, base);
    struct message request = new_message(WRITE);
    if (!change->has_row || world->plant != PLANT_WHOLE_ROW)
        change->row = node->rows[change->queue];
    change->has_row = true;
    change->row.values[change->field] = effect_of(world, change->value);
    request.version = todo->known;
    request.queue = change->queue;
    request.field = change->field;
    request.value = change->value;
    request.rows[0] = change->row;
    node->written = change;
    ask_store(world, number, &request);
}

static void end_change(struct world *world, struct rota_settings_change *base,
                       enum rota_settings_end how)
{
    struct change *change = ROTA_CONTAINER(base, struct change, base);
    change->is_used = false;
    if (how == ROTA_SETTINGS_DONE && !world->is_written[change->value])
        rota_sim_fail(world->sim, "change %u was acknowledged, and is not in the store",
                      change->value);
    if (how == ROTA_SETTINGS_UNREACHABLE && world->is_written[change->value])
        rota_sim_fail(world->sim, "change %u is in the store, and was reported as not made",
                      change->value);
    world->n_done += how == ROTA_SETTINGS_DONE;
    world->is_refused[change->value] = how == ROTA_SETTINGS_UNREACHABLE;
}

static void check_begin(struct world *world, uint32_t number)
{
    const struct node *node = &world->nodes[number];
    for (uint32_t i = 0; !node->has_copy && i < QUEUES; i++)
        if (node->rows[i].version < node->needed[i] && world->table[i].version)
            rota_sim_fail(world->sim, "node %u began before it had the settings of queue %u",
                          number, i);
}

static void tell_others(struct world *world, uint32_t number, uint64_t version)
{
    struct message hint = new_message(HINT);
    hint.version = version;
    for (uint32_t i = 1; i <= NODES; i++)
        if (i != number)
            send(world, number, i, &hint);
}

static void carry_out(struct world *world, uint32_t number,
                      const struct rota_settings_actions *todo)
{
    if (todo->ended)
        end_change(world, todo->ended, todo->how);
    if (todo->begin)
        check_begin(world, number);
    if (todo->read)
        ask_rows(world, number, todo->from, todo->is_all);
    if (todo->write)
        write_change(world, number, todo);
}

static void drive(struct world *world, uint32_t number, struct rota_settings_event event)
{
    struct node *node = &world->nodes[number];
    do {
        rota_time now = rota_sim_mono(world->sim, number);
        struct rota_settings_actions todo = rota_settings_fsm_step(&node->fsm, now, &event);
        carry_out(world, number, &todo);
        event = (struct rota_settings_event){.type = ROTA_SETTINGS_TICK};
    } while (rota_settings_fsm_deadline(&node->fsm) <= rota_sim_mono(world->sim, number));
    if (world->plant == PLANT_HINTS_ONLY && node->fsm.has_read)
        node->fsm.read_at = ROTA_TIME_NEVER;
    rota_sim_set_timer(world->sim, number, TIMER_FSM, ROTA_SIM_MONO,
                       rota_settings_fsm_deadline(&node->fsm));
}

static void take_answer(struct world *world, uint32_t number, const struct message *answer)
{
    struct node *node = &world->nodes[number];
    struct change *change = node->written;
    bool is_late = !node->is_request_out || answer->id != node->id;
    if (is_late && world->plant == PLANT_OLDER_ROW && !answer->is_done)
        take_rows(world, node, answer);
    if (is_late)
        return;
    node->is_request_out = false;
    node->written = NULL;
    rota_sim_set_timer(world->sim, number, TIMER_ANSWER, ROTA_SIM_MONO, ROTA_TIME_NEVER);
    struct rota_settings_event event = {.type = ROTA_SETTINGS_CONFLICT};
    if (!change) {
        take_rows(world, node, answer);
        event =
            (struct rota_settings_event){.type = ROTA_SETTINGS_READ, .version = answer->version};
    } else if (answer->is_done) {
        node->rows[change->queue] = change->row;
        node->rows[change->queue].version = answer->version;
        memcpy(node->copy, node->rows, sizeof node->copy);
        event = (struct rota_settings_event){.type = ROTA_SETTINGS_WRITTEN,
                                             .version = answer->version,
                                             .previous = answer->previous,
                                             .is_applied = true};
        tell_others(world, number, answer->version);
    }
    drive(world, number, event);
}

static void take_hint(struct world *world, uint32_t number, uint64_t version)
{
    struct node *node = &world->nodes[number];
    if (world->plant == PLANT_HINT_BELIEVED && version > node->fsm.known)
        node->fsm.known = version;
    if (world->plant == PLANT_OLDER_ROW && node->is_request_out && !node->written) {
        struct message request = new_message(READ);
        send(world, number, STORE, &request);
    }
    drive(world, number,
          (struct rota_settings_event){.type = ROTA_SETTINGS_HINT, .version = version});
}

static void on_message(void *data, uint32_t number, uint32_t from, struct rota_str bytes)
{
    struct message message;
    memcpy(&message, bytes.data, sizeof message);
    if (number == STORE)
        serve(data, from, &message);
    else if (message.type == HINT)
        take_hint(data, number, message.version);
    else
        take_answer(data, number, &message);
}

static void on_timer(void *data, uint32_t number, uint32_t timer)
{
    struct world *world = data;
    struct node *node = &world->nodes[number];
    struct rota_settings_event event = {.type = ROTA_SETTINGS_TICK};
    if (timer == TIMER_ANSWER && node->is_request_out) {
        bool may_be_done = node->written && world->plant != PLANT_LOST_IS_FAILED;
        event.type = may_be_done ? ROTA_SETTINGS_LOST : ROTA_SETTINGS_FAILED;
        node->is_request_out = false;
        node->written = NULL;
    }
    drive(world, number, event);
}

static void on_start(void *data, uint32_t number)
{
    struct world *world = data;
    struct node *node = &world->nodes[number];
    if (number == STORE)
        return;
    if (rota_random_range(world->random, 0, 2) == 0)
        node->has_disk = false; /* a new node, at the same address */
    if (!node->has_disk)
        memset(node->copy, 0, sizeof node->copy);
    node->is_up = true;
    node->is_request_out = false;
    node->written = NULL;
    node->has_copy = node->has_disk;
    memcpy(node->rows, node->copy, sizeof node->rows);
    memset(node->changes, 0, sizeof node->changes);
    for (uint32_t i = 0; i < QUEUES; i++)
        node->needed[i] = world->table[i].version;
    rota_settings_fsm_init(&node->fsm, rota_sim_mono(world->sim, number), INTERVAL,
                           node->has_disk || world->plant == PLANT_BEGINS_UNREAD);
    drive(world, number, (struct rota_settings_event){.type = ROTA_SETTINGS_TICK});
}

static void on_crash(void *data, uint32_t number)
{
    ((struct world *)data)->nodes[number].is_up = false;
}

/* --- the operators --- */

static void ask(struct world *world, uint32_t number, uint32_t queue, uint32_t field,
                bool is_default)
{
    struct node *node = &world->nodes[number];
    struct change *change = NULL;
    for (uint32_t i = 0; i < CHANGES && !change; i++)
        if (!node->changes[i].is_used)
            change = &node->changes[i];
    if (!change || world->n_values + 1 >= VALUES_MAX || !rota_sim_is_up(world->sim, number) ||
        rota_sim_is_paused(world->sim, number))
        return;
    *change = (struct change){
        .queue = queue, .field = field, .value = ++world->n_values, .is_used = true};
    world->is_default[change->value] = is_default;
    if (world->plant == PLANT_ACK_EARLY)
        end_change(world, &change->base, ROTA_SETTINGS_DONE);
    else
        drive(world, number,
              (struct rota_settings_event){.type = ROTA_SETTINGS_CHANGE, .change = &change->base});
}

static void on_wish(void *data, uint64_t number)
{
    struct world *world = data;
    for (uint64_t n = rota_random_range(world->random, 1, 3); n > 0; n--) {
        uint32_t queue = (uint32_t)rota_random_range(world->random, 0, QUEUES - 1);
        uint32_t node = (uint32_t)rota_random_range(world->random, 1, NODES);
        uint32_t field = (uint32_t)rota_random_range(world->random, 0, FIELDS - 1);
        if (queue != world->still)
            ask(world, node, queue, field, rota_random_range(world->random, 0, 1));
    }
    rota_time next = rota_sim_now(world->sim) + rota_sim_exponential(world->random, WISH_EVERY);
    if (next < QUIET_AT)
        rota_sim_call(world->sim, next, on_wish, world, number + 1);
}

/* The node that never crashes is cut off from the store for longer than a row is kept that is reset
 * meanwhile. */
static void on_cut(void *data, uint64_t number)
{
    struct world *world = data;
    world->cut = (uint32_t)number;
    if (world->cut == 0)
        return;
    world->still = 0;
    for (uint32_t i = 0; i < FIELDS; i++)
        ask(world, world->cut % NODES + 1, world->still, i, true);
    rota_sim_call(world->sim, rota_sim_now(world->sim) + CUT_FOR, on_cut, world, 0);
}

/* --- what must hold at the end --- */

static void check_end(struct world *world)
{
    for (uint32_t i = 1; i <= NODES; i++) {
        const struct node *node = &world->nodes[i];
        if (!node->is_up || !node->fsm.has_begun)
            rota_sim_fail(world->sim, "node %u has not begun", i);
        for (uint32_t k = 0; k < QUEUES; k++) {
            if (memcmp(node->rows[k].values, world->table[k].values, sizeof node->rows[k].values))
                rota_sim_fail(world->sim, "node %u does not have what the store has", i);
            if (memcmp(node->copy[k].values, node->rows[k].values, sizeof node->copy[k].values))
                rota_sim_fail(world->sim, "node %u has something else on its disk", i);
        }
        if (node->fsm.n_changes > 0)
            rota_sim_fail(world->sim, "a change at node %u has not ended", i);
    }
    if (world->n_done == 0)
        rota_sim_fail(world->sim, "no change was made");
}

/* Without a restore every node has the rows a little after they were written. */
static void on_check(void *data, uint64_t number)
{
    struct world *world = data;
    (void)number;
    for (uint32_t i = 1; i <= NODES && !world->was_restored; i++)
        for (uint32_t k = 0; k < QUEUES; k++)
            if (memcmp(world->nodes[i].rows[k].values, world->table[k].values,
                       sizeof world->table[k].values))
                rota_sim_fail(world->sim, "node %u does not learn of a row", i);
}

static void start_chaos(struct world *world)
{
    const struct rota_sim_chaos_options faults = {
        .first_node = 1,
        .n_nodes = NODES - 1,
        .quiet_at = QUIET_AT,
        .crash_every = 40 * ROTA_SEC,
        .crash_for = 5 * ROTA_SEC,
        .pause_every = 40 * ROTA_SEC,
        .pause_for = 2 * ROTA_SEC,
        .split_every = 60 * ROTA_SEC,
        .split_for = 8 * ROTA_SEC,
    };
    const struct rota_sim_chaos_options store_faults = {
        .n_nodes = 1,
        .quiet_at = QUIET_AT,
        .crash_every = 90 * ROTA_SEC,
        .crash_for = 10 * ROTA_SEC,
        .pause_every = 60 * ROTA_SEC,
        .pause_for = 3 * ROTA_SEC,
    };
    rota_sim_chaos_start(&world->chaos, world->sim, &faults);
    rota_sim_chaos_start(&world->store_chaos, world->sim, &store_faults);
}

static void run(struct sim_case *run)
{
    static struct world world;
    memset(&world, 0, sizeof world);
    world.plant = (enum plant)run->plant;
    world.sim = sim_case_new(run, (struct rota_sim_options){
                                      .n_nodes = NODES + 1,
                                      .link = {.delay_min = ROTA_MSEC,
                                               .delay_mean = 40 * ROTA_MSEC,
                                               .delay_max = 3 * ROTA_SEC,
                                               .loss = 0.05},
                                      .drift_max_ppm = 200,
                                      .on_start = on_start,
                                      .on_crash = on_crash,
                                      .on_message = on_message,
                                      .on_timer = on_timer,
                                      .data = &world,
                                  });
    world.random = rota_sim_random(world.sim);
    world.still = QUEUES;
    start_chaos(&world);
    rota_sim_call(world.sim, ROTA_SEC, on_wish, &world, 1);
    if (rota_random_range(world.random, 0, 1))
        rota_sim_call(world.sim, (rota_time)rota_random_range(world.random, 0, QUIET_AT - CUT_FOR),
                      on_cut, &world, NODES);
    if (rota_random_range(world.random, 0, 2) == 0) {
        rota_time at = (rota_time)rota_random_range(world.random, ROTA_MIN, QUIET_AT - ROTA_MIN);
        rota_sim_call(world.sim, at, on_backup, &world, 0);
        rota_sim_call(world.sim, at + (rota_time)rota_random_range(world.random, 0, ROTA_MIN),
                      on_restore, &world, 0);
    }
    rota_sim_call(world.sim, QUIET_AT + ROTA_MIN, on_check, &world, 0);
    if (rota_sim_run(world.sim, END_AT))
        check_end(&world);
    sim_case_end(run, world.sim);
}

int main(int argc, char **argv)
{
    const struct sim_suite suite = {
        .name = "sim_settings",
        .n_seeds = 100,
        .n_plant_seeds = 60,
        .plants = plants,
        .n_plants = N_PLANTS - 1,
        .run = run,
    };
    return sim_main(argc, argv, &suite);
}
