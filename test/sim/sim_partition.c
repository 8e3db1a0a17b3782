/* Nodes that share the partitions of a store: the real machines of
 * core/work/cluster/partition_fsm.h and front_fsm.h over core/work/broker/broker.h at each node,
 * and a store with a row for each partition and each job.
 *
 * The store stalls, requests and answers are lost and late, also those of a node that crashed
 * meanwhile; nodes crash, pause and are cut off; the route reaches each node at another time, and
 * at first none knows it. Jobs are added at any node, and any node is asked about them.
 *
 * No two nodes have a partition open under one epoch; a node opens and writes a partition only
 * under an epoch that the store gave to it, and opens it with all its jobs; what is acknowledged is
 * in the store; no node denies a job that was acknowledged; a worker gets no attempt that is not in
 * the store. Once faults stop, every partition is open at the node that the route names, under the
 * epoch of its row, and no call waits. */
#include "base/vector.h"
#include "core/work/cluster/front_fsm.h"
#include "sim/sim_chaos.h"
#include "sim_main.h"
#include "wire/message/queue_message.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NODES = 3, STORE = NODES, PARTS = 4, JOBS_MAX = 400, PAGE = 2, GRANTS_MAX = 4096 };
enum { TIMER_LOOK, TIMER_RETRY };

#define QUIET_AT (40 * ROTA_SEC)
#define END_AT   (60 * ROTA_SEC)
#define TIMEOUT  (800 * ROTA_MSEC) /* of a request to the store */

enum plant {
    PLANT_NONE,
    PLANT_OPEN_EARLY,
    PLANT_EPOCH_UNSEEN,
    PLANT_ANY_CHECK,
    PLANT_NO_WAIT,
    PLANT_REJECTED_IGNORED,
    PLANT_NOT_VOID,
    PLANT_ACK_EARLY,
    PLANT_SAME_EPOCH,
    PLANT_UNFENCED,
    PLANT_CHECK_LOST,
    PLANT_TAKE_LOST,
    PLANT_LOAD_LOST,
    PLANT_PLACE_KEPT,
    PLANT_NO_RESUME,
    PLANT_ROUTE_UNHEARD,
    PLANT_START_UNWRITTEN,
    N_PLANTS,
};

static const struct sim_plant plants[N_PLANTS - 1] = {
    {"open-early", "a partition is opened when the first of its jobs are loaded"},
    {"epoch-unseen", "the epoch of a row is not compared"},
    {"any-check", "a check from before a call came shows whose its partition is"},
    {"no-wait", "a call about a job that is not here does not wait for a check"},
    {"rejected-ignored", "a write that the store rejects has no consequences"},
    {"not-void", "what is not written of a partition that is lost is acknowledged"},
    {"ack-early", "a job is acknowledged before it is written"},
    {"same-epoch", "the store gives two nodes the same epoch"},
    {"unfenced", "the store takes writes under any epoch"},
    {"check-lost", "that a check was not answered is never noticed"},
    {"take-lost", "that a take was not answered is never noticed"},
    {"load-lost", "that a load was not answered is never noticed"},
    {"place-kept", "a partition is loaded from where the last one ended"},
    {"no-resume", "a call that waits for a partition is forgotten"},
    {"route-unheard", "a node goes by the first route it hears of"},
    {"start-unwritten", "a worker gets a job before the beginning of its attempt is written"},
};

/* --- messages --- */

enum request { CONNECT, CHECK, TAKE, LOAD, WRITE, N_REQUESTS };

struct frame {
    enum request type;
    uint64_t serial, connection, instance, epoch;
    uint32_t part, after, n;
    uint32_t items[PARTS];     /* of TAKE partitions, of LOAD and of a write, jobs */
    uint64_t epochs[PARTS];    /* of CHECK, and of WRITE: 0, or that of our partition */
    uint64_t instances[PARTS]; /* of CHECK */
    bool is_stale[PARTS];      /* of WRITE */
    uint64_t turn;
};

/* --- the parts of a world --- */

struct row {
    uint64_t epoch, instance; /* 0: there is none */
};

struct job {
    struct rota_job_id id;
    uint32_t part;
    bool is_stored, is_added;
    struct rota_buffer bytes; /* in the store */
    uint64_t attempt;         /* the last that began, in the store */
};

/* A job that a node has to write, and to acknowledge if it is new. */
struct dirty {
    uint64_t number;
    uint32_t job;
    uint64_t epoch;
    bool is_new, is_void;
    struct rota_buffer bytes; /* in a turn: what is written */
    uint64_t attempt;
};

/* A call that waits: to add a job, or about one. */
struct parked {
    bool is_add;
    uint32_t job;
    rota_time since;
};

struct write {
    ROTA_VECTOR(struct dirty) items;
    uint64_t number;
};

struct node {
    struct world *world;
    uint32_t number;
    struct rota_broker *core; /* NULL: down */
    struct rota_partition_fsm fsm;
    struct rota_front_fsm front;
    uint64_t instance, connection;
    uint64_t poll;                /* the last one of its worker */
    uint64_t serials[N_REQUESTS]; /* in flight; 0: none */
    rota_time until[N_REQUESTS];
    bool is_up, is_driving;
    uint8_t owners[PARTS]; /* NODES: not known */
    bool has_route;
    uint64_t durable;
    ROTA_VECTOR(struct dirty) dirty;
    ROTA_VECTOR(struct parked) parked;
    struct write turn; /* in flight, or of unknown outcome */
    bool has_turn;
    uint32_t load_after;
};

struct world {
    struct rota_sim *sim;
    struct rota_random *random;
    enum plant plant;
    struct rota_sim_chaos chaos, stalls;
    struct node nodes[NODES];
    struct row rows[PARTS];
    uint64_t connections[NODES]; /* the last one at the store */
    uint64_t last_epoch;
    uint64_t grants[GRANTS_MAX]; /* by epoch: the instance that got it */
    struct job jobs[JOBS_MAX];
    uint32_t n_jobs;
    uint64_t serial;
};

static void die(const char *text)
{
    fprintf(stderr, "%s\n", text);
    exit(2);
}

static struct rota_work_now now_of(const struct world *world, uint32_t node)
{
    return (struct rota_work_now){.boot = rota_sim_mono(world->sim, node),
                                  .wall = rota_sim_wall(world->sim, node)};
}

static struct rota_str queue(void)
{
    return rota_str("q");
}

static bool by_chance(struct world *world, int percent)
{
    return rota_random_range(world->random, 0, 99) < percent;
}

static uint32_t job_of(struct rota_job_id id)
{
    return (uint32_t)(id.low & 0xffff);
}

static void post(struct world *world, uint32_t from, uint32_t to, const struct frame *frame)
{
    rota_sim_send(world->sim, from, to, rota_str_of(frame, sizeof *frame));
}

/* --- the store --- */

static void store_take(struct world *world, struct frame *frame)
{
    if (world->plant != PLANT_SAME_EPOCH || by_chance(world, 80) || world->last_epoch == 0)
        world->last_epoch++;
    if (world->last_epoch == GRANTS_MAX)
        die("too many epochs");
    world->grants[world->last_epoch] = frame->instance;
    frame->epoch = world->last_epoch;
    for (uint32_t i = 0; i < frame->n; i++)
        world->rows[frame->items[i]] =
            (struct row){.epoch = frame->epoch, .instance = frame->instance};
}

static void store_load(const struct world *world, struct frame *frame)
{
    frame->n = 0;
    for (uint32_t i = frame->after; i < world->n_jobs && frame->n < PAGE; i++)
        if (world->jobs[i].is_stored && world->jobs[i].part == frame->part)
            frame->items[frame->n++] = i;
}

/* The jobs of a turn are in the node that sent it: it keeps them until it is answered. A node that
 * crashed has none, as if its connection had broken. */
static void store_write(struct world *world, uint32_t from, struct frame *frame)
{
    const struct node *node = &world->nodes[from];
    if (!node->core || !node->has_turn || node->instance != frame->instance ||
        node->turn.number != frame->turn)
        return;
    for (uint32_t i = 0; i < PARTS; i++)
        frame->is_stale[i] = frame->epochs[i] && (world->rows[i].epoch != frame->epochs[i] ||
                                                  world->rows[i].instance != frame->instance);
    for (size_t i = 0; i < node->turn.items.size; i++) {
        struct job *job = &world->jobs[node->turn.items.items[i].job];
        if (frame->is_stale[job->part] && world->plant != PLANT_UNFENCED)
            continue;
        const struct dirty *dirty = &node->turn.items.items[i];
        job->is_stored = true;
        job->attempt = dirty->attempt;
        rota_buffer_clear(&job->bytes);
        rota_buffer_append_str(&job->bytes, rota_buffer_str(&dirty->bytes));
        if (world->rows[job->part].epoch != dirty->epoch)
            rota_sim_fail(world->sim, "node %u writes partition %u under an old epoch", from,
                          job->part);
    }
    for (uint32_t i = 0; i < PARTS && world->plant == PLANT_UNFENCED; i++)
        frame->is_stale[i] = false;
}

static void store_on_message(struct world *world, uint32_t from, struct frame *frame)
{
    if (frame->connection < world->connections[from])
        return; /* it is closed */
    world->connections[from] = frame->connection;
    if (frame->type == TAKE)
        store_take(world, frame);
    else if (frame->type == LOAD)
        store_load(world, frame);
    else if (frame->type == WRITE)
        store_write(world, from, frame);
    for (uint32_t i = 0; i < PARTS && frame->type == CHECK; i++) {
        frame->epochs[i] = world->rows[i].epoch;
        frame->instances[i] = world->rows[i].instance;
    }
    post(world, STORE, from, frame);
}

/* --- a node --- */

static void tell(struct world *world, struct node *node, struct rota_partition_event event);
static void pump(struct world *world, struct node *node);

static void ask_store(struct world *world, struct node *node, struct frame frame)
{
    frame.serial = node->serials[frame.type] = ++world->serial;
    frame.connection = node->connection;
    frame.instance = node->instance;
    node->until[frame.type] = rota_sim_mono(world->sim, node->number) + TIMEOUT;
    post(world, node->number, STORE, &frame);
}

static void connect(struct world *world, struct node *node)
{
    node->connection = ++world->serial;
    ask_store(world, node, (struct frame){.type = CONNECT});
}

static void check_opened(struct world *world, const struct node *node,
                         const struct rota_partition_held *part)
{
    struct rota_job_view view;
    if (part->epoch >= GRANTS_MAX || world->grants[part->epoch] != node->instance)
        rota_sim_fail(world->sim, "node %u has partition %u under an epoch of another",
                      node->number, part->number);
    for (uint32_t i = 0; i < NODES; i++) {
        const struct node *other = &world->nodes[i];
        const struct rota_partition_held *same =
            other->core ? rota_partition_fsm_find(&other->fsm, queue(), part->number) : NULL;
        if (other != node && same && same->state == ROTA_PARTITION_OPEN &&
            same->epoch == part->epoch)
            rota_sim_fail(world->sim, "nodes %u and %u have partition %u under one epoch",
                          node->number, i, part->number);
    }
    for (uint32_t i = 0; i < world->n_jobs; i++)
        if (world->rows[part->number].epoch == part->epoch && world->jobs[i].is_stored &&
            world->jobs[i].part == part->number &&
            rota_broker_find(node->core, queue(), world->jobs[i].id, &view, NULL))
            rota_sim_fail(world->sim, "node %u opens partition %u without job %u", node->number,
                          part->number, i);
}

static void forget(struct world *world, struct node *node, const struct rota_partition_held *part)
{
    size_t n = 0;
    for (size_t i = 0; i < node->dirty.size; i++)
        if (world->jobs[node->dirty.items[i].job].part != part->number)
            node->dirty.items[n++] = node->dirty.items[i];
    if (world->plant != PLANT_NOT_VOID)
        node->dirty.size = n;
    for (size_t i = 0; i < node->turn.items.size && world->plant != PLANT_NOT_VOID; i++)
        if (world->jobs[node->turn.items.items[i].job].part == part->number)
            node->turn.items.items[i].is_void = true;
}

static void handle(struct world *world, struct node *node, struct parked call);

static void resume_calls(struct world *world, struct node *node, bool is_failed)
{
    struct parked calls[64];
    size_t n = node->parked.size;
    if (world->plant == PLANT_NO_RESUME)
        return;
    if (n > 64)
        die("too many calls wait");
    if (n > 0)
        memcpy(calls, node->parked.items, n * sizeof *calls);
    node->parked.size = 0;
    for (size_t i = 0; i < n && !is_failed; i++)
        handle(world, node, calls[i]);
}

static void carry_out(struct world *world, struct node *node,
                      const struct rota_partition_action *action)
{
    struct frame frame = {.type = CHECK};
    switch (action->type) {
    case ROTA_PARTITION_DO_CHECK:
        ask_store(world, node, frame);
        break;
    case ROTA_PARTITION_DO_TAKE:
        frame.type = TAKE;
        for (size_t i = 0; i < node->fsm.n_taken; i++)
            frame.items[frame.n++] = node->fsm.taken[i]->number;
        ask_store(world, node, frame);
        break;
    case ROTA_PARTITION_DO_LOAD:
        frame.type = LOAD;
        frame.part = action->part->number;
        if (action->is_first && world->plant != PLANT_PLACE_KEPT)
            node->load_after = 0;
        frame.after = node->load_after;
        ask_store(world, node, frame);
        break;
    case ROTA_PARTITION_DO_FORGET:
        rota_sim_note(world->sim, node->number, "partition %u is gone: %s", action->part->number,
                      action->text);
        forget(world, node, action->part);
        break;
    case ROTA_PARTITION_DO_OPENED:
        rota_sim_note(world->sim, node->number, "partition %u is open under %llu",
                      action->part->number, (unsigned long long)action->part->epoch);
        check_opened(world, node, action->part);
        break;
    case ROTA_PARTITION_DO_RESUME:
        resume_calls(world, node, action->text != NULL);
        break;
    case ROTA_PARTITION_DO_REMOVE:
    case ROTA_PARTITION_DO_UNCLOSED:
        rota_sim_fail(world->sim, "node %u: action %d", node->number, (int)action->type);
        break;
    }
}

static void tell(struct world *world, struct node *node, struct rota_partition_event event)
{
    rota_partition_fsm_step(&node->fsm, now_of(world, node->number), &event);
    if (node->is_driving)
        return;
    node->is_driving = true;
    for (size_t i = 0; i < node->fsm.actions.size; i++) {
        struct rota_partition_action action = node->fsm.actions.items[i];
        carry_out(world, node, &action);
    }
    node->is_driving = false;
    rota_partition_fsm_clear(&node->fsm);
}

/* --- calls, which another node has routed here --- */

static const struct rota_front_call CARRIED = {.is_carried = true};

static struct rota_front_new new_of(const struct job *job)
{
    return (struct rota_front_new){.queue = queue(), .id = job->id, .asked = job->part};
}

static void add_job(struct world *world, struct node *node, uint32_t number)
{
    struct job *job = &world->jobs[number];
    struct rota_job_spec spec = {.queue = queue(), .max_attempts = 3, .id = job->id};
    struct rota_front_new new = new_of(job);
    struct rota_front_added added;
    if (rota_front_fsm_add(&node->front, now_of(world, node->number), &CARRIED, &new, &spec, &added,
                           NULL))
        return; /* the partition is not ours */
    if (world->plant == PLANT_ACK_EARLY)
        job->is_added = true;
    pump(world, node);
}

static void answer(struct world *world, const struct node *node, uint32_t number,
                   const struct rota_front_action *action)
{
    if (action->what != ROTA_FRONT_REFUSE &&
        !rota_front_fsm_has(&node->front, queue(), world->jobs[number].id))
        rota_sim_fail(world->sim, "node %u denies job %u", node->number, number);
}

static void handle(struct world *world, struct node *node, struct parked call)
{
    const struct job *job = &world->jobs[call.job];
    struct rota_front_new new = new_of(job);
    rota_time since = world->plant == PLANT_ANY_CHECK ? 1 : call.since;
    struct rota_front_call facts = {.is_carried = true, .since = since < 0 ? 1 : since};
    struct rota_front_action action = {.what = ROTA_FRONT_HERE};
    if (!call.is_add)
        action = rota_front_fsm_job(&node->front, &facts, queue(), job->id);
    else if (rota_front_fsm_must_wait(&node->front, &CARRIED, &new))
        action.what = ROTA_FRONT_WAIT;
    if (action.what == ROTA_FRONT_WAIT && (call.is_add || world->plant != PLANT_NO_WAIT)) {
        if (!call.since)
            call.since = rota_sim_mono(world->sim, node->number);
        if (node->parked.size < 64 && !rota_vector_push(&node->parked, call))
            die("no memory");
        tell(world, node, (struct rota_partition_event){.type = ROTA_PARTITION_WAITS});
    } else if (call.is_add) {
        add_job(world, node, call.job);
    } else {
        answer(world, node, call.job, &action);
    }
}

/* --- writing --- */

static void append(struct world *world, struct node *node, const struct rota_work_record *record)
{
    const struct job *job = &world->jobs[job_of(record->id)];
    const struct rota_partition_held *part =
        rota_partition_fsm_find(&node->fsm, queue(), job->part);
    bool is_new = record->type == ROTA_WORK_ADD;
    if ((!is_new && record->type != ROTA_WORK_START && record->type != ROTA_WORK_RETRY &&
         record->type != ROTA_WORK_END) ||
        !part || part->state < ROTA_PARTITION_LOADING)
        return; /* void, and never acknowledged */
    struct dirty dirty = {.number = record->number,
                          .job = job_of(record->id),
                          .epoch = part->epoch,
                          .is_new = is_new};
    if (!rota_vector_push(&node->dirty, dirty))
        die("no memory");
}

/* The job as it is now. */
static void fill_dirty(struct world *world, struct node *node, struct dirty *dirty)
{
    struct rota_journal_batch batch = {0};
    struct rota_work_record whole;
    if (!rota_broker_job_record(node->core, queue(), world->jobs[dirty->job].id, &whole))
        die("a job that is to be written is gone");
    rota_queue_message_write_jobs(&batch, &whole, &dirty->bytes);
    dirty->attempt = whole.attempt;
    if (dirty->bytes.failed)
        die("no memory");
}

static void clear_turn(struct node *node)
{
    for (size_t i = 0; i < node->turn.items.size; i++)
        rota_buffer_deinit(&node->turn.items.items[i].bytes);
    node->turn.items.size = 0;
}

static void send_turn(struct world *world, struct node *node)
{
    struct frame frame = {.type = WRITE, .turn = node->turn.number};
    for (size_t i = 0; i < node->turn.items.size; i++) {
        const struct dirty *dirty = &node->turn.items.items[i];
        uint32_t part = world->jobs[dirty->job].part;
        frame.epochs[part] = dirty->epoch;
        if (dirty->epoch >= GRANTS_MAX || world->grants[dirty->epoch] != node->instance)
            rota_sim_fail(world->sim, "node %u writes under an epoch of another", node->number);
    }
    ask_store(world, node, frame);
}

static void write_some(struct world *world, struct node *node)
{
    if (!node->is_up || node->serials[WRITE])
        return;
    if (!node->has_turn && node->dirty.size == 0) {
        node->durable = rota_broker_last_number(node->core);
        return;
    }
    if (!node->has_turn) {
        clear_turn(node);
        for (size_t i = 0; i < node->dirty.size; i++) {
            fill_dirty(world, node, &node->dirty.items[i]);
            if (!rota_vector_push(&node->turn.items, node->dirty.items[i]))
                die("no memory");
        }
        node->dirty.size = 0;
        node->turn.number = rota_broker_last_number(node->core);
        node->has_turn = true;
    }
    send_turn(world, node);
}

/* Partitions that are found to be another's are gone before anything is acknowledged. */
static void finish_turn(struct world *world, struct node *node, const struct frame *frame)
{
    for (uint32_t i = 0; i < PARTS; i++)
        if (frame->is_stale[i] && world->plant != PLANT_REJECTED_IGNORED)
            tell(world, node,
                 (struct rota_partition_event){.type = ROTA_PARTITION_REJECTED,
                                               .queue = queue(),
                                               .number = i,
                                               .epoch = frame->epochs[i]});
    for (size_t i = 0; i < node->turn.items.size; i++) {
        const struct dirty *dirty = &node->turn.items.items[i];
        if (dirty->is_void || !dirty->is_new)
            continue;
        world->jobs[dirty->job].is_added = true;
        if (!world->jobs[dirty->job].is_stored)
            rota_sim_fail(world->sim, "node %u acknowledges job %u, and it is not stored",
                          node->number, dirty->job);
    }
    node->has_turn = false;
    node->durable = node->turn.number;
}

/* A worker begins. If its partition goes to another node now, that one must not begin the same. */
static void begin_job(struct world *world, const struct node *node,
                      const struct rota_work_effect *effect)
{
    if (world->jobs[job_of(effect->id)].attempt < effect->attempt)
        rota_sim_fail(world->sim, "node %u hands out job %u, and the store has no such attempt",
                      node->number, job_of(effect->id));
}

/* Effects until there are none, what is to be written, and what is due. */
static void pump(struct world *world, struct node *node)
{
    size_t n;
    rota_broker_tick(node->core, now_of(world, node->number));
    const struct rota_work_effect *effects = rota_broker_effects(node->core, &n);
    for (size_t i = 0; i < n; i++) {
        if (effects[i].type == ROTA_WORK_DO_RECORD)
            append(world, node, &effects[i].record);
        else if (effects[i].type == ROTA_WORK_DO_DISPATCH)
            begin_job(world, node, &effects[i]);
    }
    rota_broker_clear(node->core);
    write_some(world, node);
    rota_broker_durable(node->core, now_of(world, node->number), node->durable);
    tell(world, node,
         (struct rota_partition_event){.type = ROTA_PARTITION_TURN, .durable = node->durable});
    rota_time at =
        rota_time_min(rota_partition_fsm_deadline(&node->fsm), rota_broker_deadline(node->core));
    for (int i = 0; i < N_REQUESTS; i++)
        if (node->serials[i])
            at = rota_time_min(at, node->until[i]);
    rota_sim_set_timer(world->sim, node->number, TIMER_LOOK, ROTA_SIM_MONO, at);
}

/* --- answers --- */

static void fail_request(struct world *world, struct node *node, enum request type)
{
    if (!node->serials[type])
        return;
    node->serials[type] = 0;
    if (type == CHECK && world->plant != PLANT_CHECK_LOST) {
        tell(world, node,
             (struct rota_partition_event){.type = ROTA_PARTITION_CHECKED, .is_failed = true});
    } else if (type == TAKE && world->plant != PLANT_TAKE_LOST) {
        tell(world, node,
             (struct rota_partition_event){.type = ROTA_PARTITION_TAKEN, .is_failed = true});
    } else if (type == LOAD && world->plant != PLANT_LOAD_LOST) {
        tell(world, node,
             (struct rota_partition_event){.type = ROTA_PARTITION_LOADED, .is_failed = true});
    }
}

/* The connection broke: all that was asked over it has failed. */
static void go_down(struct world *world, struct node *node)
{
    node->is_up = false;
    tell(world, node, (struct rota_partition_event){.type = ROTA_PARTITION_DOWN});
    for (int i = 0; i < N_REQUESTS; i++)
        fail_request(world, node, (enum request)i);
    rota_sim_set_timer(world->sim, node->number, TIMER_RETRY, ROTA_SIM_MONO,
                       rota_sim_mono(world->sim, node->number) +
                           rota_random_range(world->random, 50, 600) * ROTA_MSEC);
}

static void hear_rows(struct world *world, struct node *node, const struct frame *frame)
{
    for (uint32_t i = 0; i < PARTS; i++) {
        struct rota_partition_event event = {.type = ROTA_PARTITION_ROW,
                                             .queue = queue(),
                                             .number = i,
                                             .epoch = frame->epochs[i],
                                             .instance = frame->instances[i]};
        const struct rota_partition_held *part = rota_partition_fsm_find(&node->fsm, queue(), i);
        if (world->plant == PLANT_EPOCH_UNSEEN && part) {
            event.epoch = part->epoch;
            event.instance = node->instance;
        }
        if (frame->epochs[i])
            tell(world, node, event);
    }
    tell(world, node, (struct rota_partition_event){.type = ROTA_PARTITION_CHECKED});
}

static void hear_jobs(struct world *world, struct node *node, const struct frame *frame)
{
    struct rota_partition_event event = {.type = ROTA_PARTITION_LOADED, .is_last = frame->n == 0};
    for (uint32_t i = 0; i < frame->n && node->fsm.loaded; i++) {
        const struct job *job = &world->jobs[frame->items[i]];
        struct rota_journal_batch batch = {0};
        struct rota_journal_room room;
        struct rota_work_record record;
        struct rota_error error;
        size_t place = 0;
        if (!rota_queue_message_read_jobs(&batch, rota_buffer_str(&job->bytes), &place, &record,
                                          &room))
            die("a job can't be read");
        if (rota_broker_load(node->core, now_of(world, node->number), &record, &error))
            rota_sim_fail(world->sim, "node %u: %.150s", node->number, error.text);
        node->load_after = frame->items[i] + 1;
    }
    if (world->plant == PLANT_OPEN_EARLY)
        event.is_last = true;
    tell(world, node, event);
}

static void node_on_message(struct world *world, struct node *node, const struct frame *frame)
{
    if (node->serials[frame->type] != frame->serial)
        return; /* it has failed */
    node->serials[frame->type] = 0;
    if (frame->type == CONNECT) {
        node->is_up = true;
        tell(world, node, (struct rota_partition_event){.type = ROTA_PARTITION_UP});
    } else if (frame->type == CHECK) {
        hear_rows(world, node, frame);
    } else if (frame->type == TAKE) {
        tell(world, node,
             (struct rota_partition_event){.type = ROTA_PARTITION_TAKEN, .epoch = frame->epoch});
    } else if (frame->type == LOAD) {
        hear_jobs(world, node, frame);
    } else {
        finish_turn(world, node, frame);
    }
    pump(world, node);
}

/* --- the life of a node --- */

static enum rota_partition_owner owner(void *data, struct rota_str name, uint32_t part)
{
    const struct node *node = data;
    uint8_t who = node->owners[part];
    (void)name;
    return who == node->number ? ROTA_PARTITION_OURS
           : who == NODES      ? ROTA_PARTITION_NOBODYS
                               : ROTA_PARTITION_ANOTHERS;
}

static struct rota_front_owner front_owner(void *data, struct rota_str name, uint32_t part)
{
    return (struct rota_front_owner){.whose = owner(data, name, part)};
}

static struct rota_work_layout layout(void *data, struct rota_str name)
{
    (void)data;
    (void)name;
    return (struct rota_work_layout){.wanted = PARTS, .write = PARTS, .read = PARTS};
}

static void start_node(struct world *world, uint32_t number)
{
    struct node *node = &world->nodes[number];
    uint64_t chance = rota_random_next(world->random);
    if (rota_broker_new(
            &(struct rota_broker_options){.seed = chance,
                                          .secret = ~chance,
                                          .has_rows = world->plant != PLANT_START_UNWRITTEN},
            &node->core, NULL))
        die("no memory for a broker");
    node->instance = chance | 1;
    node->durable = 0;
    node->is_up = node->is_driving = node->has_turn = node->has_route = false;
    memset(node->owners, NODES, sizeof node->owners);
    rota_broker_begin(node->core, now_of(world, number));
    const struct rota_partition_options options = {.broker = node->core,
                                                   .instance = node->instance,
                                                   .owner = owner,
                                                   .data = node,
                                                   .seed = chance};
    if (!rota_partition_fsm_init(&node->fsm, &options))
        die("no memory");
    rota_front_fsm_init(&node->front, &(struct rota_front_options){.broker = node->core,
                                                                   .partitions = &node->fsm,
                                                                   .n_partitions = PARTS,
                                                                   .owner = front_owner,
                                                                   .layout = layout,
                                                                   .data = node});
    connect(world, node);
    pump(world, node);
}

static void crash_node(struct world *world, uint32_t number)
{
    struct node *node = &world->nodes[number];
    (void)world;
    if (!node->core)
        return;
    rota_partition_fsm_deinit(&node->fsm);
    rota_broker_free(node->core);
    node->core = NULL;
    memset(node->serials, 0, sizeof node->serials);
    node->dirty.size = node->parked.size = 0;
    clear_turn(node);
}

static void on_start(void *data, uint32_t number)
{
    if (number < NODES)
        start_node(data, number);
}

static void on_crash(void *data, uint32_t number)
{
    if (number < NODES)
        crash_node(data, number);
}

static void on_message(void *data, uint32_t number, uint32_t from, struct rota_str message)
{
    struct world *world = data;
    struct frame frame;
    memcpy(&frame, message.data, sizeof frame);
    if (number == STORE)
        store_on_message(world, from, &frame);
    else
        node_on_message(world, &world->nodes[number], &frame);
}

static void on_timer(void *data, uint32_t number, uint32_t timer)
{
    struct world *world = data;
    struct node *node = &world->nodes[number];
    rota_time now = rota_sim_mono(world->sim, number);
    bool is_late = false;
    for (int i = 0; i < N_REQUESTS; i++)
        is_late = is_late || (node->serials[i] && node->until[i] <= now);
    if (is_late)
        go_down(world, node);
    else if (timer == TIMER_RETRY && !node->is_up && !node->serials[CONNECT])
        connect(world, node);
    pump(world, node);
}

/* --- what happens --- */

static bool is_well(const struct world *world, uint32_t number)
{
    return world->nodes[number].core && !rota_sim_is_paused(world->sim, number);
}

/* Node and owners in one number. One that is paused hears of it later. */
static void learn_call(void *data, uint64_t number)
{
    struct world *world = data;
    struct node *node = &world->nodes[number & 0xff];
    if (!is_well(world, node->number)) {
        rota_sim_call(world->sim, rota_sim_now(world->sim) + 500 * ROTA_MSEC, learn_call, world,
                      number);
        return;
    }
    if (node->has_route && world->plant == PLANT_ROUTE_UNHEARD)
        return;
    node->has_route = true;
    for (int i = 0; i < PARTS; i++)
        node->owners[i] = (uint8_t)(number >> 8 * (i + 1) & 0xff);
    tell(world, node, (struct rota_partition_event){.type = ROTA_PARTITION_ROUTE});
    pump(world, node);
}

static void route_call(void *data, uint64_t unused)
{
    struct world *world = data;
    rota_time now = rota_sim_now(world->sim),
              next = now + rota_sim_exponential(world->random, 2 * ROTA_SEC);
    bool is_last = next >= QUIET_AT;
    uint64_t owners = 0;
    (void)unused;
    for (int i = 0; i < PARTS; i++)
        owners |= (uint64_t)rota_random_range(world->random, 0, NODES - 1) << 8 * (i + 1);
    for (uint32_t i = 0; i < NODES; i++)
        rota_sim_call(world->sim,
                      is_last ? QUIET_AT + 3 * ROTA_SEC
                              : now + rota_random_range(world->random, 0, 3 * ROTA_SEC),
                      learn_call, world, owners | i);
    if (!is_last)
        rota_sim_call(world->sim, next, route_call, world, 0);
}

static void add_call(void *data, uint64_t unused)
{
    struct world *world = data;
    uint32_t number = (uint32_t)rota_random_range(world->random, 0, NODES - 1);
    uint32_t part = (uint32_t)rota_random_range(world->random, 0, PARTS - 1);
    rota_time next = rota_sim_now(world->sim) + rota_sim_exponential(world->random, 80 * ROTA_MSEC);
    (void)unused;
    if (next < QUIET_AT && world->n_jobs + 1 < JOBS_MAX)
        rota_sim_call(world->sim, next, add_call, world, 0);
    if (!is_well(world, number) || !world->nodes[number].has_route)
        return;
    world->jobs[world->n_jobs].id =
        rota_job_id_make(rota_sim_wall(world->sim, number), part, world->n_jobs);
    world->jobs[world->n_jobs].part = part;
    handle(world, &world->nodes[number], (struct parked){.is_add = true, .job = world->n_jobs++});
    pump(world, &world->nodes[number]);
}

/* A node has one worker, which asks for two jobs at a time. It never says what came of them. */
static void poll_call(void *data, uint64_t unused)
{
    struct world *world = data;
    struct node *node = &world->nodes[rota_random_range(world->random, 0, NODES - 1)];
    const struct rota_str queues[] = {queue()};
    const struct rota_worker_spec spec = {.name = rota_str("w"),
                                          .queues = queues,
                                          .n_queues = 1,
                                          .slots = 2,
                                          .lease = 2 * ROTA_SEC,
                                          .is_poll = true};
    (void)unused;
    rota_sim_call(world->sim, rota_sim_now(world->sim) + 50 * ROTA_MSEC, poll_call, world, 0);
    if (!is_well(world, node->number) || rota_broker_worker_is_open(node->core, node->poll))
        return;
    if (rota_broker_worker_open(node->core, now_of(world, node->number), &spec, &node->poll, NULL))
        die("no memory for a poll");
    pump(world, node);
}

static void ask_call(void *data, uint64_t unused)
{
    struct world *world = data;
    (void)unused;
    if (rota_sim_now(world->sim) < END_AT - 4 * ROTA_SEC)
        rota_sim_call(world->sim, rota_sim_now(world->sim) + 40 * ROTA_MSEC, ask_call, world, 0);
    if (world->n_jobs == 0)
        return;
    uint32_t job = (uint32_t)rota_random_range(world->random, 0, world->n_jobs - 1);
    for (uint32_t i = 0; i < NODES; i++)
        if (world->jobs[job].is_added && is_well(world, i)) {
            handle(world, &world->nodes[i], (struct parked){.job = job});
            pump(world, &world->nodes[i]);
        }
}

/* --- the end --- */

static void check_end(struct world *world)
{
    for (uint32_t i = 0; i < NODES; i++) {
        struct node *node = &world->nodes[i];
        if (node->parked.size > 0)
            rota_sim_fail(world->sim, "a call still waits at node %u", i);
        for (uint32_t part = 0; part < PARTS; part++) {
            const struct rota_partition_held *held =
                rota_partition_fsm_find(&node->fsm, queue(), part);
            bool is_open = held && held->state == ROTA_PARTITION_OPEN &&
                           held->epoch == world->rows[part].epoch &&
                           node->instance == world->rows[part].instance;
            if (world->rows[part].epoch && world->nodes[0].owners[part] == i && !is_open)
                rota_sim_fail(world->sim, "partition %u is not open at node %u", part, i);
            if (world->nodes[0].owners[part] != i && held)
                rota_sim_fail(world->sim, "node %u still has partition %u", i, part);
        }
        if (!rota_broker_is_sound(node->core))
            rota_sim_fail(world->sim, "broker %u is not sound", i);
    }
}

static void free_world(struct world *world)
{
    for (uint32_t i = 0; i < NODES; i++) {
        crash_node(world, i);
        rota_vector_deinit(&world->nodes[i].dirty);
        rota_vector_deinit(&world->nodes[i].parked);
        rota_vector_deinit(&world->nodes[i].turn.items);
    }
    for (uint32_t i = 0; i < world->n_jobs; i++)
        rota_buffer_deinit(&world->jobs[i].bytes);
    free(world);
}

static void run_world(struct sim_case *run)
{
    struct world *world = calloc(1, sizeof *world);
    if (!world)
        die("no memory for a world");
    world->plant = (enum plant)run->plant;
    world->sim = sim_case_new(run, (struct rota_sim_options){.n_nodes = NODES + 1,
                                                             .link = {.delay_min = ROTA_MSEC,
                                                                      .delay_mean = 10 * ROTA_MSEC,
                                                                      .delay_max = 500 * ROTA_MSEC,
                                                                      .loss = 0.01},
                                                             .skew_max = ROTA_SEC,
                                                             .drift_max_ppm = 200,
                                                             .on_start = on_start,
                                                             .on_crash = on_crash,
                                                             .on_message = on_message,
                                                             .on_timer = on_timer,
                                                             .data = world});
    world->random = rota_sim_random(world->sim);
    for (uint32_t i = 0; i < NODES; i++) {
        world->nodes[i].world = world;
        world->nodes[i].number = i;
    }
    rota_sim_chaos_start(&world->chaos, world->sim,
                         &(struct rota_sim_chaos_options){.n_nodes = NODES,
                                                          .quiet_at = QUIET_AT,
                                                          .crash_every = 5 * ROTA_SEC,
                                                          .crash_for = ROTA_SEC,
                                                          .pause_every = 3 * ROTA_SEC,
                                                          .pause_for = 2 * ROTA_SEC});
    rota_sim_chaos_start(&world->stalls, world->sim,
                         &(struct rota_sim_chaos_options){.n_nodes = NODES + 1,
                                                          .quiet_at = QUIET_AT,
                                                          .pause_every = 5 * ROTA_SEC,
                                                          .pause_for = ROTA_SEC,
                                                          .split_every = 6 * ROTA_SEC,
                                                          .split_for = ROTA_SEC});
    rota_sim_call(world->sim, ROTA_SEC, add_call, world, 0);
    rota_sim_call(world->sim, 500 * ROTA_MSEC, route_call, world, 0);
    rota_sim_call(world->sim, ROTA_SEC, ask_call, world, 0);
    rota_sim_call(world->sim, ROTA_SEC, poll_call, world, 0);
    if (rota_sim_run(world->sim, END_AT))
        check_end(world);
    sim_case_end(run, world->sim);
    free_world(world);
}

int main(int argc, char **argv)
{
    const struct sim_suite suite = {
        .name = "sim_partition",
        .n_seeds = 400,
        .plants = plants,
        .n_plants = N_PLANTS - 1,
        .run = run_world,
    };
    return sim_main(argc, argv, &suite);
}
