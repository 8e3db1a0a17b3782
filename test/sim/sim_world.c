/* A primary lease over a bad network: the pattern for simulations to come.
 *
 * Node 0 is a server that grants one lease with a ttl; the others are clients
 * that ask for it again and again. The server remembers nothing across a
 * crash, so after one it waits until any grant of its former life has ended.
 * Two rules keep clients honest: a grant counts from when it was asked for, by
 * the client's own monotonic clock, and that span is shortened by as much as
 * two clocks can drift apart.
 *
 * Never do two clients believe that they hold it, and once faults stop
 * somebody does. */
#include "sim/sim_chaos.h"
#include "sim_main.h"

#include <string.h>

enum { SERVER, N_NODES = 6, DRIFT_PPM = 20000 };
enum { TIMER_ASK };

#define TTL      (3 * ROTA_SEC)
#define QUIET_AT (120 * ROTA_SEC)
#define END_AT   (150 * ROTA_SEC)

enum plant {
    PLANT_NONE,
    PLANT_ARRIVAL,
    PLANT_WALL,
    PLANT_DRIFT,
    PLANT_FORMER_LIFE,
    PLANT_HASTY,
    PLANT_GIVES_UP,
    N_PLANTS,
};

static const struct sim_plant plants[N_PLANTS - 1] = {
    {"arrival", "a grant counts from its arrival"},
    {"wall", "a client counts by its wall clock"},
    {"drift", "clocks are taken to run at the same rate"},
    {"former-life", "an answer to a former life of the client counts"},
    {"hasty", "a restarted server grants at once"},
    {"gives-up", "a client that is refused never asks again"},
};

/* Both on the wire; the answer repeats the ask. */
struct ask {
    rota_time sent_at; /* on the client's clock: only the client can read it */
    uint32_t life;
    bool is_granted;
};

struct client {
    rota_time believes_until; /* on its own clock */
};

struct world {
    struct rota_sim *sim;
    enum plant plant;
    struct rota_sim_chaos server_chaos, client_chaos;
    struct client clients[N_NODES];

    uint32_t holder; /* the server's, by its monotonic clock; SERVER: nobody */
    rota_time granted_until;

    rota_time believed_at; /* true time at which somebody last did */
};

/* --- a node's code: what it knows is its own state and its own clocks --- */

static rota_time client_clock(const struct world *world, uint32_t node)
{
    return world->plant == PLANT_WALL ? rota_sim_wall(world->sim, node)
                                      : rota_sim_mono(world->sim, node);
}

/* How long a client may count on a grant: while its clock is as slow and the
 * server's as fast as can be. */
static rota_time safe_ttl(const struct world *world)
{
    if (world->plant == PLANT_DRIFT)
        return TTL;
    return TTL / (1000000 + DRIFT_PPM) * (1000000 - DRIFT_PPM);
}

static void client_ask(struct world *world, uint32_t node)
{
    struct ask ask;
    memset(&ask, 0, sizeof ask); /* the padding is sent, too */
    ask.sent_at = client_clock(world, node);
    ask.life = rota_sim_life(world->sim, node);
    rota_sim_send(world->sim, node, SERVER, rota_str_of(&ask, sizeof ask));

    rota_time wait = rota_random_range(rota_sim_random(world->sim), TTL / 8, TTL / 3);
    rota_sim_set_timer(world->sim, node, TIMER_ASK, ROTA_SIM_MONO,
                       rota_sim_mono(world->sim, node) + wait);
}

static void client_answered(struct world *world, uint32_t node, const struct ask *ask)
{
    struct client *client = &world->clients[node];
    rota_time from = world->plant == PLANT_ARRIVAL ? client_clock(world, node) : ask->sent_at;
    if (ask->life != rota_sim_life(world->sim, node) && world->plant != PLANT_FORMER_LIFE)
        return;
    if (!ask->is_granted && world->plant == PLANT_GIVES_UP)
        rota_sim_set_timer(world->sim, node, TIMER_ASK, ROTA_SIM_MONO, ROTA_TIME_NEVER);
    if (ask->is_granted && from + safe_ttl(world) > client->believes_until) {
        client->believes_until = from + safe_ttl(world);
        rota_sim_note(world->sim, node, "believes");
    }
}

static void server_asked(struct world *world, uint32_t from, struct ask ask)
{
    rota_time now = rota_sim_mono(world->sim, SERVER);
    ask.is_granted = from == world->holder || now >= world->granted_until;
    if (ask.is_granted) {
        world->holder = from;
        world->granted_until = now + TTL;
    }
    rota_sim_send(world->sim, SERVER, from, rota_str_of(&ask, sizeof ask));
}

/* --- what the world calls --- */

static void on_start(void *data, uint32_t node)
{
    struct world *world = data;
    if (node == SERVER) {
        rota_time wait = world->plant == PLANT_HASTY ? 0 : TTL;
        world->holder = SERVER;
        world->granted_until = rota_sim_mono(world->sim, node) + wait;
        return;
    }
    world->clients[node] = (struct client){.believes_until = ROTA_TIME_MIN};
    client_ask(world, node);
}

static void on_message(void *data, uint32_t node, uint32_t from, struct rota_str message)
{
    struct ask ask;
    memcpy(&ask, message.data, sizeof ask);
    if (node == SERVER)
        server_asked(data, from, ask);
    else
        client_answered(data, node, &ask);
}

static void on_timer(void *data, uint32_t node, uint32_t timer)
{
    (void)timer;
    client_ask(data, node);
}

/* --- what must hold --- */

static const char *at_most_one_believes(void *data)
{
    struct world *world = data;
    uint32_t n_believers = 0;
    for (uint32_t node = 1; node < N_NODES; node++)
        n_believers += rota_sim_is_up(world->sim, node) &&
                       client_clock(world, node) < world->clients[node].believes_until;
    if (n_believers > 0)
        world->believed_at = rota_sim_now(world->sim);
    return n_believers > 1 ? "two clients believe that they hold the lease" : NULL;
}

static void run(struct sim_case *run)
{
    struct world world = {.plant = (enum plant)run->plant};
    world.sim = sim_case_new(run, (struct rota_sim_options){
                                      .n_nodes = N_NODES,
                                      .link = {.delay_min = ROTA_MSEC,
                                               .delay_mean = 20 * ROTA_MSEC,
                                               .delay_max = 2 * ROTA_SEC,
                                               .loss = 0.1,
                                               .duplication = 0.05},
                                      .skew_max = ROTA_SEC,
                                      .drift_max_ppm = DRIFT_PPM,
                                      .on_start = on_start,
                                      .on_message = on_message,
                                      .on_timer = on_timer,
                                      .data = &world,
                                  });
    rota_sim_add_check(world.sim, at_most_one_believes, &world);

    struct rota_sim_chaos_options faults = {
        .first_node = 1,
        .quiet_at = QUIET_AT,
        .crash_every = 5 * ROTA_SEC,
        .crash_for = ROTA_SEC,
        .pause_every = 5 * ROTA_SEC,
        .pause_for = 2 * ROTA_SEC,
        .split_every = 20 * ROTA_SEC,
        .split_for = 5 * ROTA_SEC,
        .jump_every = 3 * ROTA_SEC,
        .jump_max = 10 * ROTA_SEC,
    };
    rota_sim_chaos_start(&world.client_chaos, world.sim, &faults);
    faults = (struct rota_sim_chaos_options){
        .first_node = SERVER,
        .n_nodes = 1,
        .quiet_at = QUIET_AT,
        .crash_every = 30 * ROTA_SEC,
        .crash_for = ROTA_SEC,
        .pause_every = 30 * ROTA_SEC,
        .pause_for = ROTA_SEC,
    };
    rota_sim_chaos_start(&world.server_chaos, world.sim, &faults);

    if (rota_sim_run(world.sim, END_AT) && world.believed_at < END_AT - 3 * TTL)
        rota_sim_fail(world.sim, "nobody holds the lease long after all faults");
    sim_case_end(run, world.sim);
}

int main(int argc, char **argv)
{
    return sim_main(argc, argv,
                    &(struct sim_suite){
                        .name = "sim_world",
                        .n_seeds = 2000,
                        .n_plant_seeds = 200,
                        .plants = plants,
                        .n_plants = N_PLANTS - 1,
                        .run = run,
                    });
}
