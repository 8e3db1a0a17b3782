#include "work_world.h"

#include <stdio.h>
#include <stdlib.h>

/* --- small things --- */

const char *const queue_names[QUEUES] = {"a", "b"};
const char *const cap_names[CAPS] = {"gpu", "os=linux", "lang/c", "big"};
const uint32_t weights[KEYS] = {500, 1000, 2000, 4000};

struct rota_str queue_of(uint32_t part)
{
    return rota_str(queue_names[part / PARTS_OF_QUEUE]);
}

struct broker *broker_at(struct world *world, uint32_t node)
{
    return &world->brokers[node - FIRST_BROKER];
}

struct worker *worker_at(struct world *world, uint32_t node)
{
    return &world->workers[node - FIRST_WORKER];
}

bool is_broker(const struct world *world, uint32_t node)
{
    return node >= FIRST_BROKER && node < FIRST_BROKER + world->shape.n_brokers;
}

bool is_worker(uint32_t node)
{
    return node >= FIRST_WORKER;
}

uint32_t job_of(struct rota_job_id id)
{
    return (uint32_t)(id.low & 0xffff);
}

bool chance(struct world *world, double probability)
{
    return rota_random_chance(world->random, probability);
}

rota_time span_upto(struct world *world, rota_time max)
{
    return rota_random_range(world->random, 0, max);
}

void post(struct world *world, uint32_t from, uint32_t to, const struct frame *frame)
{
    rota_sim_send(world->sim, from, to, rota_str_of(frame, sizeof *frame));
}

struct rota_work_now now_of(const struct world *world, uint32_t node)
{
    struct rota_work_now now = {.boot = rota_sim_mono(world->sim, node),
                                .wall = rota_sim_wall(world->sim, node)};
    if (world->plant == PLANT_WALL)
        now.boot = now.wall;
    return now;
}

void start_call(void *data, uint64_t node)
{
    struct world *world = data;
    rota_sim_start(world->sim, (uint32_t)node);
}

void crash_call(void *data, uint64_t node)
{
    struct world *world = data;
    rota_sim_crash(world->sim, (uint32_t)node);
}

void end_node(struct world *world, uint32_t node, rota_time pause)
{
    rota_time now = rota_sim_now(world->sim);
    rota_sim_call(world->sim, now, crash_call, world, node);
    rota_sim_call(world->sim, now + pause, start_call, world, node);
}

rota_time later(rota_time a, rota_time b)
{
    return a > b ? a : b;
}

_Noreturn void die(const char *why)
{
    fprintf(stderr, "%s\n", why);
    exit(2);
}
