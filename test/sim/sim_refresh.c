/* New jobs are sent to the owner of their partition by nodes that know different views of who it
 * is. The views change all the time; a node reads the latest one now and then, and at once when a
 * call tells it of a later one. Messages are late, and lost in some worlds; in others a node can't
 * reach the store at all.
 *
 * Checked:
 *  - P2: a node answers a call only by a view that is not earlier than the sender's, unless it has
 *    waited for it as long as it may; and adds a job only if the later of the two views names it;
 *  - a call is sent on at most three times in a row, and ends in time;
 *  - nothing is refused because of a change of the owner: a job is added at the first call, unless
 *    a message was lost, or the owner is a node that can't reach the store;
 *  - P6: this also holds for jobs that come to the node that can't reach the store. */
#include "core/work/cluster/refresh.h"
#include "sim_main.h"

#include <string.h>

enum { NODES_MAX = 5, STORE = NODES_MAX, N_NODES, VIEWS_MAX = 1024, CALLS_MAX = 4096 };
enum { PARKED_MAX = 64, NONE = NODES_MAX };
enum { TIMER_READ, TIMER_PARKED, TIMER_CALLS };

#define QUIET_AT   (30 * ROTA_SEC)
#define END_AT     (QUIET_AT + 10 * ROTA_SEC)
#define READ_EVERY (3 * ROTA_SEC)
#define CHECK      (10 * ROTA_MSEC)
#define GIVE_UP    (5 * ROTA_SEC)

enum plant {
    PLANT_NONE,
    PLANT_NO_WAIT,
    PLANT_NO_NUMBER,
    PLANT_NO_HINTS,
    PLANT_NO_OWNER,
    PLANT_OWN_NUMBER,
    PLANT_EARLIER_TOO,
    PLANT_NO_END,
    N_PLANTS,
};

static const struct sim_plant plants[N_PLANTS - 1] = {
    {"no-wait", "a node answers without reading the later view that it has heard of"},
    {"no-number", "calls do not have the number of a view"},
    {"no-hints", "a node that hears of a later view reads it when it would have anyway"},
    {"no-owner", "a refusal does not name the owner"},
    {"own-number", "a call to the owner that was named has the number of the sender's view"},
    {"earlier-too", "a refusal by an earlier view is followed, too"},
    {"no-end", "a call waits as long as it takes"},
};

enum message_type { READ, VIEW, ADD, ANSWER };

struct message {
    uint64_t type, call, number;
    uint64_t owner; /* of an answer that is a refusal; NONE: none */
    uint64_t is_refused;
};

struct parked {
    struct message add;
    uint32_t from;
    struct rota_refresh_call state;
};

struct node {
    struct rota_refresh refresh;
    bool is_reading;
    struct parked parked[PARKED_MAX];
    size_t n_parked;
};

enum call_state { CALL_FREE, CALL_SENT, CALL_WAITS, CALL_OVER };

struct call {
    enum call_state state;
    uint32_t router;
    struct rota_refresh_call refresh;
    rota_time since; /* true time, like all that checks look at */
    uint64_t first;  /* the earliest view that a node with a store knew then */
    unsigned n_asks, n_sent;
};

struct world {
    struct rota_sim *sim;
    enum plant plant;
    uint32_t n_nodes, cut; /* the node that can't reach the store; NONE: all can */
    bool is_lossy;
    uint32_t owners[VIEWS_MAX]; /* by number */
    rota_time changed_at[VIEWS_MAX];
    uint64_t latest;
    struct node nodes[NODES_MAX];
    struct call calls[CALLS_MAX];
    size_t n_calls, n_added;
};

static void send(struct world *world, uint32_t from, uint32_t to, const struct message *message)
{
    rota_sim_send(world->sim, from, to, rota_str_of(message, sizeof *message));
}

/* --- the store --- */

static void read_store(struct world *world, uint32_t node)
{
    if (node != world->cut)
        send(world, node, STORE, &(struct message){.type = READ});
}

static void hear_number(struct world *world, uint32_t node, uint64_t number)
{
    struct rota_refresh *refresh = &world->nodes[node].refresh;
    if (rota_refresh_hear(refresh, rota_sim_mono(world->sim, node), number) &&
        world->plant != PLANT_NO_HINTS)
        read_store(world, node);
}

/* --- a call at the node that it came to --- */

static void route(struct world *world, uint64_t id);

static void end_call(struct world *world, uint64_t id, bool is_added)
{
    struct call *call = &world->calls[id];
    bool is_excused = world->is_lossy || is_added;
    for (uint64_t n = call->first; n <= world->latest; n++)
        is_excused = is_excused || world->owners[n] == world->cut;
    call->state = CALL_OVER;
    world->n_added += is_added;
    if (!is_excused)
        rota_sim_fail(world->sim, "call %llu is refused; node %u is cut off",
                      (unsigned long long)id, world->cut);
    if (rota_sim_now(world->sim) - call->since > GIVE_UP)
        rota_sim_fail(world->sim, "call %llu takes too long", (unsigned long long)id);
}

static void send_add(struct world *world, uint64_t id, uint32_t owner, uint64_t number)
{
    struct call *call = &world->calls[id];
    call->state = CALL_SENT;
    if (++call->n_sent > 20)
        rota_sim_fail(world->sim, "call %llu is sent on and on", (unsigned long long)id);
    if (world->plant == PLANT_NO_NUMBER)
        number = 0;
    rota_sim_note(world->sim, call->router, "sends call %llu to node %u by view %llu",
                  (unsigned long long)id, owner, (unsigned long long)number);
    send(world, call->router, owner, &(struct message){.type = ADD, .call = id, .number = number});
}

/* Check a job that is added. */
static void add_job(struct world *world, uint32_t node, uint64_t wanted)
{
    uint64_t number = world->nodes[node].refresh.number;
    if (wanted > number)
        number = wanted;
    if (world->owners[number] != node)
        rota_sim_fail(world->sim, "P2: node %u adds a job that view %llu gives to another", node,
                      (unsigned long long)number);
}

static void wait_or_route(struct world *world, uint64_t id)
{
    struct call *call = &world->calls[id];
    const struct rota_refresh *refresh = &world->nodes[call->router].refresh;
    rota_time now = rota_sim_mono(world->sim, call->router);
    if (world->plant == PLANT_NO_END)
        call->refresh.since = now;
    if (rota_refresh_must_wait(refresh, now, &call->refresh)) {
        call->state = CALL_WAITS;
        rota_sim_set_timer(world->sim, call->router, TIMER_CALLS, ROTA_SIM_MONO, now + CHECK);
    } else {
        route(world, id);
    }
}

static void route(struct world *world, uint64_t id)
{
    struct call *call = &world->calls[id];
    uint64_t number = world->nodes[call->router].refresh.number;
    uint32_t owner = world->owners[number];
    call->n_asks = 0;
    if (owner == call->router) {
        add_job(world, owner, number);
        end_call(world, id, true);
        return;
    }
    call->refresh.route = number;
    send_add(world, id, owner, number);
}

static void hear_refusal(struct world *world, uint64_t id, const struct message *message)
{
    struct call *call = &world->calls[id];
    const struct rota_refresh *refresh = &world->nodes[call->router].refresh;
    struct rota_refresh_refusal refusal = {.is_stale = true,
                                           .is_undone = true,
                                           .number = message->number,
                                           .has_owner = message->owner != NONE &&
                                                        message->owner != call->router &&
                                                        world->plant != PLANT_NO_OWNER};
    hear_number(world, call->router, message->number);
    if (world->plant == PLANT_EARLIER_TOO && refusal.number <= call->refresh.route)
        refusal.number = call->refresh.route + 1;
    switch (rota_refresh_refused(refresh, rota_sim_mono(world->sim, call->router), &call->refresh,
                                 &refusal)) {
    case ROTA_REFRESH_PASS:
        end_call(world, id, false);
        break;
    case ROTA_REFRESH_ASK:
        if (++call->n_asks > ROTA_REFRESH_HOPS_MAX)
            rota_sim_fail(world->sim, "call %llu is sent on too often", (unsigned long long)id);
        send_add(world, id, (uint32_t)message->owner,
                 world->plant == PLANT_OWN_NUMBER ? refresh->number : call->refresh.route);
        break;
    case ROTA_REFRESH_AGAIN:
        wait_or_route(world, id);
        break;
    }
}

static uint64_t earliest_view(const struct world *world)
{
    uint64_t first = world->latest;
    for (uint32_t node = 0; node < world->n_nodes; node++)
        if (node != world->cut && world->nodes[node].refresh.number < first)
            first = world->nodes[node].refresh.number;
    return first;
}

static void begin_call(void *data, uint64_t id)
{
    struct world *world = data;
    struct rota_random *random = rota_sim_random(world->sim);
    struct call *call = &world->calls[id];
    rota_time now = rota_sim_now(world->sim);
    *call = (struct call){.router = (uint32_t)rota_random_below(random, world->n_nodes),
                          .since = now,
                          .first = earliest_view(world)};
    world->n_calls++;
    route(world, id);
    rota_time next = now + rota_sim_exponential(random, 40 * ROTA_MSEC);
    if (next < END_AT - GIVE_UP && id + 1 < CALLS_MAX)
        rota_sim_call(world->sim, next, begin_call, world, id + 1);
}

/* --- a call at the node that it is sent to --- */

static void answer(struct world *world, uint32_t node, uint32_t from, const struct message *add)
{
    uint64_t number = world->nodes[node].refresh.number;
    struct message reply = {.type = ANSWER, .call = add->call, .number = number, .owner = NONE};
    reply.is_refused = world->owners[number] != node;
    rota_sim_note(world->sim, node, "%s call %llu by view %llu",
                  reply.is_refused ? "refuses" : "adds", (unsigned long long)add->call,
                  (unsigned long long)number);
    if (reply.is_refused)
        reply.owner = world->owners[number];
    else
        add_job(world, node, add->number);
    send(world, node, from, &reply);
}

/* Whether it waits. */
static bool must_wait(struct world *world, uint32_t node, struct parked *parked)
{
    const struct rota_refresh *refresh = &world->nodes[node].refresh;
    rota_time now = rota_sim_mono(world->sim, node);
    bool waits = rota_refresh_must_wait(refresh, now, &parked->state);
    if (waits && world->plant == PLANT_NO_WAIT)
        waits = false;
    bool has_waited = parked->state.since > 0 && now - parked->state.since >= ROTA_REFRESH_WAIT_MAX;
    if (!waits && parked->add.number > refresh->number && !has_waited)
        rota_sim_fail(world->sim, "P2: node %u answers by view %llu a call of view %llu", node,
                      (unsigned long long)refresh->number, (unsigned long long)parked->add.number);
    return waits;
}

static void hear_add(struct world *world, uint32_t node, uint32_t from, const struct message *add)
{
    struct node *self = &world->nodes[node];
    struct parked parked = {.add = *add, .from = from, .state.wanted = add->number};
    hear_number(world, node, add->number);
    if (!must_wait(world, node, &parked)) {
        answer(world, node, from, add);
    } else if (self->n_parked == PARKED_MAX) {
        rota_sim_fail(world->sim, "more than %d calls wait", PARKED_MAX);
    } else {
        self->parked[self->n_parked++] = parked;
        rota_sim_set_timer(world->sim, node, TIMER_PARKED, ROTA_SIM_MONO,
                           rota_sim_mono(world->sim, node) + CHECK);
    }
}

static void look_at_parked(struct world *world, uint32_t node)
{
    struct node *self = &world->nodes[node];
    size_t n = 0;
    for (size_t i = 0; i < self->n_parked; i++) {
        struct parked parked = self->parked[i];
        if (must_wait(world, node, &parked))
            self->parked[n++] = parked;
        else
            answer(world, node, parked.from, &parked.add);
    }
    self->n_parked = n;
    if (n > 0)
        rota_sim_set_timer(world->sim, node, TIMER_PARKED, ROTA_SIM_MONO,
                           rota_sim_mono(world->sim, node) + CHECK);
}

static void look_at_calls(struct world *world, uint32_t node)
{
    for (uint64_t id = 0; id < world->n_calls; id++)
        if (world->calls[id].router == node && world->calls[id].state == CALL_WAITS)
            wait_or_route(world, id);
}

/* --- what the world calls --- */

static void on_message(void *data, uint32_t node, uint32_t from, struct rota_str text)
{
    struct world *world = data;
    struct message message;
    memcpy(&message, text.data, sizeof message);
    struct message view = {.type = VIEW, .number = world->latest};
    switch ((enum message_type)message.type) {
    case READ:
        send(world, node, from, &view);
        break;
    case VIEW:
        if (message.number > world->nodes[node].refresh.number)
            world->nodes[node].refresh.number = message.number;
        break;
    case ADD:
        hear_add(world, node, from, &message);
        break;
    case ANSWER:
        if (world->calls[message.call].state != CALL_SENT)
            break; /* twice */
        if (message.is_refused)
            hear_refusal(world, message.call, &message);
        else
            end_call(world, message.call, true);
        break;
    }
}

static void on_timer(void *data, uint32_t node, uint32_t timer)
{
    struct world *world = data;
    if (timer == TIMER_PARKED) {
        look_at_parked(world, node);
    } else if (timer == TIMER_CALLS) {
        look_at_calls(world, node);
    } else {
        read_store(world, node);
        rota_sim_set_timer(world->sim, node, TIMER_READ, ROTA_SIM_MONO,
                           rota_sim_mono(world->sim, node) + READ_EVERY);
    }
}

static void on_start(void *data, uint32_t node)
{
    if (node != STORE)
        on_timer(data, node, TIMER_READ);
}

static void change_view(void *data, uint64_t number)
{
    struct world *world = data;
    struct rota_random *random = rota_sim_random(world->sim);
    world->latest = number;
    world->owners[number] = (uint32_t)rota_random_below(random, world->n_nodes);
    rota_sim_note(world->sim, STORE, "has view %llu: node %u", (unsigned long long)number,
                  world->owners[number]);
    rota_time next =
        rota_sim_now(world->sim) + 150 * ROTA_MSEC + rota_sim_exponential(random, 300 * ROTA_MSEC);
    if (next < QUIET_AT && number + 1 < VIEWS_MAX)
        rota_sim_call(world->sim, next, change_view, world, number + 1);
}

static void check_end(const struct world *world)
{
    for (uint64_t id = 0; id < world->n_calls && !world->is_lossy; id++)
        if (world->calls[id].state != CALL_OVER)
            rota_sim_fail(world->sim, "call %llu never ends", (unsigned long long)id);
    if (world->n_added * 4 < world->n_calls && world->cut == NONE)
        rota_sim_fail(world->sim, "only %zu of %zu jobs are added", world->n_added, world->n_calls);
}

static void run(struct sim_case *run)
{
    static struct world world;
    struct rota_random shape;
    struct rota_sim_link link = {.delay_mean = 4 * ROTA_MSEC, .delay_max = 15 * ROTA_MSEC};
    rota_random_init(&shape, run->seed);
    world = (struct world){.plant = (enum plant)run->plant,
                           .n_nodes = (uint32_t)rota_random_range(&shape, 2, NODES_MAX),
                           .cut = NONE};
    world.is_lossy = rota_random_chance(&shape, 0.2);
    link.loss = world.is_lossy ? 0.05 : 0;
    link.duplication = world.is_lossy ? 0.05 : 0;
    if (rota_random_chance(&shape, 0.4))
        world.cut = (uint32_t)rota_random_below(&shape, world.n_nodes);
    world.sim = sim_case_new(run, (struct rota_sim_options){.n_nodes = N_NODES,
                                                            .skew_max = 100 * ROTA_MSEC,
                                                            .drift_max_ppm = 200,
                                                            .on_start = on_start,
                                                            .on_message = on_message,
                                                            .on_timer = on_timer,
                                                            .data = &world});
    for (uint32_t from = 0; from < N_NODES; from++)
        for (uint32_t to = 0; to < N_NODES; to++)
            rota_sim_set_link(world.sim, from, to, &link);
    change_view(&world, 1);
    for (uint32_t node = 0; node < world.n_nodes; node++)
        world.nodes[node].refresh.number = 1;
    rota_sim_call(world.sim, ROTA_SEC, begin_call, &world, 0);
    rota_sim_run(world.sim, END_AT);
    check_end(&world);
    sim_case_end(run, world.sim);
}

int main(int argc, char **argv)
{
    return sim_main(argc, argv,
                    &(struct sim_suite){
                        .name = "sim_refresh",
                        .n_seeds = 500,
                        .n_plant_seeds = 500,
                        .plants = plants,
                        .n_plants = N_PLANTS - 1,
                        .run = run,
                    });
}
