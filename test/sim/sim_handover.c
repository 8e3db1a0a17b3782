/* Brokers that hand jobs to each other while routes change and differ: the real machines of
 * core/work/broker/broker.h and core/work/cluster/handover_fsm.h, each with a disk of its own.
 *
 * Requests are lost, late and come twice; nodes crash and lose what is not on disk; a list
 * of owners reaches each node at another time, and an older one after a newer one. Ended jobs
 * are forgotten at once, so that a job which is accepted a second time is run a second
 * time.
 *
 * No job is ever completed twice, and once faults stop and all agree, every job that was
 * acknowledged is completed, and none is left where it does not belong.
 *
 * Nodes remember which nodes may hold jobs, and tell each other; a node that is in no list hands
 * all over, says that it holds none, and may come back. Whichever node is asked, it never denies a
 * job that was acknowledged and has not ended: one of the nodes that it would ask has the job, is
 * down, or knows other nodes than the one that asks. */
#include "handover_lists.h"

#include <stdlib.h>
#include <string.h>

static const struct sim_plant plants[N_HANDOVER_PLANTS - 1] = {
    {"send-early", "a chunk is sent before it is on disk"},
    {"answer-early", "jobs are said to be here before they are on disk"},
    {"names-lost", "the names of chunks that were taken in do not outlive a crash"},
    {"chunks-lost", "where jobs were sent does not outlive a crash"},
    {"halves-kept", "half a chunk is kept after a crash"},
    {"unseen", "what was not answered is held for unseen"},
    {"forget-first", "jobs are forgotten when they are sent"},
    {"never-again", "a chunk that was not answered is not sent again"},
    {"nodes-lost", "which nodes may hold jobs does not outlive a crash"},
    {"leaves-full", "a node that leaves says that it holds no jobs before that is so"},
    {"listed-only", "only nodes that are listed are asked for a job"},
    {"sure", "a node that knows other nodes is believed when it has no such job"},
};

/* What node `number` says of a job: whether it denies it. */
static bool is_denied(struct world *world, uint32_t number, const struct job *job)
{
    const struct node *node = &world->nodes[number];
    bool is_asked[NODES] = {false};
    struct rota_str address;
    for (uint32_t i = 0; i < NODES; i++)
        is_asked[i] = i == number || is_listed(node, i);
    for (size_t place = 0;
         world->plant != HANDOVER_LISTED_ONLY &&
         rota_broker_next_absent(node->core, now_of(world, number).boot, false, &place, &address);)
        is_asked[address.data[0] - 'a'] = true;
    for (uint32_t i = 0; i < NODES; i++) {
        struct rota_job_view view;
        if (!is_asked[i])
            continue;
        if (!is_well(world, i) ||
            !rota_broker_find(world->nodes[i].core, queue(), job->id, &view, NULL))
            return false;
        if (world->plant != HANDOVER_SURE &&
            rota_broker_nodes_hash(world->nodes[i].core) != rota_broker_nodes_hash(node->core))
            return false;
    }
    return true;
}

static void ask_call(void *data, uint64_t unused)
{
    struct world *world = data;
    (void)unused;
    rota_sim_call(world->sim, rota_sim_now(world->sim) + 100 * ROTA_MSEC, ask_call, world, 0);
    for (uint32_t j = 0; j < world->n_jobs; j++)
        for (uint32_t i = 0; i < NODES; i++)
            if (world->jobs[j].is_added && !world->jobs[j].is_ended && is_well(world, i) &&
                world->nodes[i].is_told && is_denied(world, i, &world->jobs[j])) {
                rota_sim_fail(world->sim, "node %u denies job %u", i, j);
                return;
            }
}

static void add_call(void *data, uint64_t gap)
{
    struct world *world = data;
    uint32_t number = (uint32_t)rota_random_range(world->random, 0, NODES - 1);
    uint32_t part = (uint32_t)rota_random_range(world->random, 0, PARTS - 1);
    struct node *node = &world->nodes[number];
    struct held held = {.what = HELD_ADDED, .job = world->n_jobs};
    rota_time next = rota_sim_now(world->sim) + rota_sim_exponential(world->random, (rota_time)gap);
    if (next < QUIET_AT && world->n_jobs < JOBS_MAX)
        rota_sim_call(world->sim, next, add_call, world, gap);
    if (!is_well(world, number) || node->owners[part] != number)
        return;
    struct rota_job_spec spec = {
        .queue = queue(),
        .partition = part,
        .max_attempts = 1000,
        .id = rota_job_id_make(rota_sim_wall(world->sim, number),
                               world->n_jobs % 4 ? part : 0x4000 | (uint32_t)world->n_jobs,
                               world->n_jobs)}; /* every fourth is like a UUID */
    bool is_new;
    struct rota_job_id id;
    if (rota_broker_partition_open(node->core, now_of(world, number), queue(), part, 1, NULL) ||
        rota_broker_add(node->core, now_of(world, number), &spec, &id, &is_new, &held.number, NULL))
        return;
    world->jobs[world->n_jobs++].id = id;
    hold(world, number, held);
}

static void begin(struct world *world)
{
    rota_sim_call(world->sim, 0, add_call, world, 50 * ROTA_MSEC);
    rota_sim_call(world->sim, ROTA_SEC, ask_call, world, 0);
}

static void run_world(struct sim_case *run)
{
    struct world *world = calloc(1, sizeof *world);
    if (!world)
        die("no memory for a world");
    world->plant = (enum handover_plant)run->plant;
    run_handovers(run, world, begin, NULL);
}

int main(int argc, char **argv)
{
    const struct sim_suite suite = {
        .name = "sim_handover",
        .n_seeds = 1000,
        .kept = {72, 239, 747, 902178, 902927, 903242},
        .plants = plants,
        .n_plants = N_HANDOVER_PLANTS - 1,
        .run = run_world,
    };
    return sim_main(argc, argv, &suite);
}
