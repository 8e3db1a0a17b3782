/* Many clients follow one membership over a bad network, by clocks that
 * disagree, while hosts join, leave, drain and are evicted.
 *
 * Node 0 is the source: it has the list of hosts, numbers each change of it,
 * and sends the whole list to all clients again and again. A client is the
 * machine of core/place/members_fsm.h and its driver: a step for each message
 * and for each deadline on its wall clock, the ring swapped in, then whoever
 * subscribed told.
 *
 * What must hold, for clients that heard of each change within DELIVERY:
 *  - with joins and leaves aligned, no two clients disagree on the owner of a
 *    key for longer than their clocks do;
 *  - a change that is not aligned (drain, evict, and in some worlds all) is
 *    agreed on as soon as everybody knows it;
 *  - a draining, drained or evicted host owns nothing once a client knows;
 *  - a list without hosts, which the source sends by mistake now and then, sends
 *    nobody away;
 *  - who is told of a change finds it in the ring;
 * and once all is quiet every client has the ring that follows from the list.
 *
 * The time that a change is given to reach everybody has to include twice the
 * skew: the clock of the source may be slow and that of a client fast. */
#include "base/hash.h"
#include "core/place/members_fsm.h"
#include "sim/sim_chaos.h"
#include "sim_main.h"

#include <string.h>

enum { SOURCE, CLIENTS_MIN = 5, CLIENTS_MAX = 12, NODES_MAX = CLIENTS_MAX + 1 };
enum { HOSTS = 16, POINTS = 8, KEYS = 16, VERSIONS_MAX = 256 };
enum { TIMER_DEADLINE, TIMER_LOOK, TIMER_SEND };

#define SKEW_SET  (80 * ROTA_MSEC)  /* clocks are set within this of the truth */
#define SKEW      (100 * ROTA_MSEC) /* and stay within this, drift included */
#define DRIFT_PPM 100
#define DELIVERY  (4 * ROTA_SEC)
#define ALIGNMENT (5 * ROTA_SEC)
#define SEND_GAP  ROTA_SEC
#define QUIET_AT  (60 * ROTA_SEC)
#define END_AT    (80 * ROTA_SEC)

enum plant {
    PLANT_NONE,
    PLANT_START_BEFORE,
    PLANT_NO_STOP,
    PLANT_OLDER,
    PLANT_NO_DEADLINE,
    PLANT_TIMER_ONCE,
    PLANT_TELL_FIRST,
    PLANT_NO_DRAIN,
    PLANT_SNAPSHOT_UNEVICTS,
    PLANT_UNALIGNED,
    PLANT_NO_PROPAGATION,
    PLANT_EMPTIED,
    N_PLANTS,
};

static const struct sim_plant plants[N_PLANTS - 1] = {
    {"start-before", "start_at is compared with < instead of <="},
    {"no-stop", "stop_at is ignored"},
    {"older", "an older snapshot replaces a newer one"},
    {"no-deadline", "no timer is set for the deadline"},
    {"timer-once", "a timer that is early, for the clock was set back, is not set again"},
    {"tell-first", "subscribers are told before the ring is swapped"},
    {"no-drain", "is_draining is ignored"},
    {"unevict", "a snapshot ends evictions"},
    {"unaligned", "joins and leaves take effect at once"},
    {"no-propagation", "a change is given no time to reach everybody"},
    {"emptied", "a list without hosts sends everybody away"},
};

/* A host on the wire. */
struct entry {
    rota_time start_at, stop_at;
    uint32_t weight;
    uint8_t host;
    bool is_draining, is_evicted, is_drained;
};

struct list {
    uint64_t version;
    size_t n;
    struct entry entries[HOSTS];
};

struct client {
    bool is_ready;
    struct rota_members_fsm fsm;
    struct rota_ring *ring;              /* swapped in; what lookups see */
    struct list known;                   /* the newest list that came */
    bool evicted[HOSTS], drained[HOSTS]; /* overrides given to the machine */
    rota_time armed_for;                 /* for a plant: the last deadline */
    uint64_t owners;                     /* a hash of the owners of all keys in `ring` */
};

struct world {
    struct rota_sim *sim;
    enum plant plant;
    bool is_aligned;
    uint32_t n_clients;
    struct rota_sim_chaos chaos;
    struct list list; /* the source's */
    struct client clients[NODES_MAX];

    rota_time published_at[VERSIONS_MAX]; /* true time, by version */
    uint64_t due;                         /* the version that everybody should know */
    rota_time settled_at;                 /* the last change that is not aligned is known by then */
    rota_time disagree_since;
    struct rota_error error;
};

static struct rota_str address_of(uint32_t host)
{
    static const char addresses[HOSTS][14] = {
        "10.0.0.1:7000", "10.0.0.2:7000", "10.0.0.3:7000", "10.0.0.4:7000",
        "10.0.0.5:7000", "10.0.0.6:7000", "10.0.0.7:7000", "10.0.0.8:7000",
        "10.0.0.9:7000", "10.0.1.0:7000", "10.0.1.1:7000", "10.0.1.2:7000",
        "10.0.1.3:7000", "10.0.1.4:7000", "10.0.1.5:7000", "10.0.1.6:7000",
    };
    return rota_str(addresses[host]);
}

static struct rota_host host_of(const struct entry *entry)
{
    return (struct rota_host){.address = address_of(entry->host),
                              .weight = entry->weight,
                              .is_draining = entry->is_draining,
                              .start_at = entry->start_at,
                              .stop_at = entry->stop_at};
}

/* The owners of all keys, as one number. */
static uint64_t owners_of(const struct rota_ring *ring)
{
    uint64_t hash = rota_ring_size(ring);
    for (uint32_t key = 0; key < KEYS; key++) {
        uint32_t host = rota_ring_lookup_hash(ring, key * (UINT32_MAX / KEYS));
        if (host != ROTA_RING_NONE)
            hash = rota_hash_sip64(hash, rota_ring_host(ring, host).address);
    }
    return hash;
}

/* --- the source --- */

static void send(struct world *world, const struct list *list)
{
    size_t size = offsetof(struct list, entries) + list->n * sizeof(struct entry);
    for (uint32_t node = 1; node <= world->n_clients; node++)
        rota_sim_send(world->sim, SOURCE, node, rota_str_of(list, size));
}

static void send_list(struct world *world)
{
    send(world, &world->list);
}

/* What a source sends whose table is gone for a moment. */
static void send_slip(struct world *world)
{
    struct list slip = {.version = world->list.version};
    if (rota_random_chance(rota_sim_random(world->sim), 0.05))
        send(world, &slip);
}

/* The list has changed. A change that takes effect on arrival is agreed on
 * once all have heard of it and all clocks have passed it. */
static void publish(struct world *world, bool is_at_once)
{
    rota_time now = rota_sim_now(world->sim);
    if (world->list.version + 1 == VERSIONS_MAX) {
        rota_sim_fail(world->sim, "more than %d changes", VERSIONS_MAX);
        return;
    }
    world->published_at[++world->list.version] = now;
    if (is_at_once)
        world->settled_at = now + DELIVERY + 2 * SKEW;
    send_list(world);
}

static rota_time moment_of_change(const struct world *world)
{
    rota_time wall = rota_sim_wall(world->sim, SOURCE), propagation = DELIVERY + 2 * SKEW;
    if (world->plant == PLANT_NO_PROPAGATION)
        propagation = 0;
    bool is_aligned = world->is_aligned && world->plant != PLANT_UNALIGNED;
    return rota_members_align(wall, is_aligned ? ALIGNMENT : 0, propagation);
}

static void join(struct world *world, uint32_t host)
{
    struct entry *entry = &world->list.entries[world->list.n++];
    memset(entry, 0, sizeof *entry);
    entry->host = (uint8_t)host;
    entry->start_at = moment_of_change(world);
    entry->weight = ROTA_WEIGHT_ONE;
    rota_sim_note(world->sim, SOURCE, "host %u joins", host);
    publish(world, !world->is_aligned);
}

/* One of the things that operators do. */
static void change(struct world *world, struct entry *entry, uint64_t what)
{
    rota_sim_note(world->sim, SOURCE, "host %u: change %u", entry->host, (unsigned)what);
    if (what < 3 && entry->stop_at == 0) {
        entry->stop_at = moment_of_change(world);
        publish(world, !world->is_aligned);
        return;
    }
    if (what < 5)
        entry->is_draining = !entry->is_draining;
    else if (what < 7)
        entry->is_evicted = !entry->is_evicted;
    else if (what < 9)
        entry->is_drained = !entry->is_drained;
    else
        entry->weight = entry->weight == ROTA_WEIGHT_ONE ? 2 * ROTA_WEIGHT_ONE : ROTA_WEIGHT_ONE;
    publish(world, true);
}

static void operate(void *data, uint64_t number)
{
    struct world *world = data;
    struct rota_random *random = rota_sim_random(world->sim);
    uint32_t host = (uint32_t)rota_random_below(random, HOSTS);
    rota_time next = rota_sim_now(world->sim) + rota_sim_exponential(random, 3 * ROTA_SEC);
    size_t i = 0;

    while (i < world->list.n && world->list.entries[i].host != host)
        i++;
    if (i == world->list.n)
        join(world, host);
    else
        change(world, &world->list.entries[i], rota_random_below(random, 10));
    if (next < QUIET_AT)
        rota_sim_call(world->sim, next, operate, world, number + 1);
}

/* Who has left is listed until every clock shows that it has, and as long as it
 * is the last. */
static void drop_stopped(struct world *world)
{
    struct list *list = &world->list;
    rota_time wall = rota_sim_wall(world->sim, SOURCE);
    size_t n = 0;
    for (size_t i = 0; i < list->n; i++)
        if (list->entries[i].stop_at == 0 || wall < list->entries[i].stop_at + 2 * SKEW + ROTA_SEC)
            list->entries[n++] = list->entries[i];
    if (n == 0 || n == list->n)
        return;
    list->n = n;
    publish(world, false);
}

static void source_tick(struct world *world)
{
    drop_stopped(world);
    send_list(world);
    send_slip(world);
    rota_sim_set_timer(world->sim, SOURCE, TIMER_SEND, ROTA_SIM_MONO,
                       rota_sim_mono(world->sim, SOURCE) + SEND_GAP);
}

/* --- a client's driver --- */

/* A subscriber: it looks up what it was told. */
static void subscriber(struct world *world, uint32_t node, const struct rota_members_change *change)
{
    const struct rota_ring *ring = world->clients[node].ring;
    bool is_true = true;
    for (size_t i = 0; i < change->n_added; i++)
        is_true &= rota_ring_find(ring, change->added[i]) != ROTA_RING_NONE;
    for (size_t i = 0; i < change->n_removed; i++)
        is_true &= rota_ring_find(ring, change->removed[i]) == ROTA_RING_NONE;
    if (!is_true)
        rota_sim_fail(world->sim, "node %u is told of a change that its ring does not have", node);
}

static void swap(struct world *world, uint32_t node, struct rota_ring *ring)
{
    struct client *client = &world->clients[node];
    if (!ring)
        return;
    rota_ring_unref(client->ring);
    client->ring = rota_ring_ref(ring);
    client->owners = owners_of(ring);
    rota_sim_note(world->sim, node, "swaps in a ring of %zu hosts", rota_ring_size(ring));
}

static void arm(struct world *world, uint32_t node)
{
    struct client *client = &world->clients[node];
    rota_time deadline = rota_members_fsm_deadline(&client->fsm);
    rota_time wall = rota_sim_wall(world->sim, node);
    if (world->plant == PLANT_NO_DEADLINE)
        return;
    if (world->plant == PLANT_START_BEFORE) /* its bounds were given as one later */
        deadline = deadline - 1 > wall ? deadline - 1 : ROTA_TIME_NEVER;
    if (world->plant != PLANT_TIMER_ONCE) {
        rota_sim_set_timer(world->sim, node, TIMER_DEADLINE, ROTA_SIM_WALL, deadline);
        return;
    }
    if (deadline != client->armed_for && deadline != ROTA_TIME_NEVER)
        rota_sim_set_timer(world->sim, node, TIMER_DEADLINE, ROTA_SIM_MONO,
                           rota_sim_mono(world->sim, node) + deadline - wall);
    client->armed_for = deadline;
}

/* Whether an event would leave a client that has hosts without any. */
static bool is_slip(const struct client *client, const struct rota_members_event *event)
{
    size_t n_members;
    rota_members_fsm_list(&client->fsm, &n_members);
    return event->type == ROTA_MEMBERS_SNAPSHOT && event->n_hosts == 0 && n_members > 0 &&
           event->version >= client->fsm.version;
}

static void drive(struct world *world, uint32_t node, struct rota_members_event event)
{
    struct client *client = &world->clients[node];
    struct rota_members_actions todo = {0};
    rota_time now = rota_sim_wall(world->sim, node);

    bool is_expected = is_slip(client, &event);
    if (rota_members_fsm_step(&client->fsm, now, &event, &todo, &world->error) && !is_expected)
        rota_sim_fail(world->sim, "node %u: %s", node, world->error.text);
    arm(world, node);
    if (todo.tell && world->plant == PLANT_TELL_FIRST)
        subscriber(world, node, &todo.change);
    swap(world, node, todo.ring);
    if (todo.tell && world->plant != PLANT_TELL_FIRST)
        subscriber(world, node, &todo.change);
    rota_members_fsm_actions_deinit(&todo);
}

/* Give the machine one override as the list has it. */
static void drive_override(struct world *world, uint32_t node, uint32_t host, bool is_wanted,
                           bool *is_given, enum rota_members_event_type set,
                           enum rota_members_event_type unset)
{
    if (is_wanted == *is_given)
        return;
    *is_given = is_wanted;
    drive(
        world, node,
        (struct rota_members_event){.type = is_wanted ? set : unset, .address = address_of(host)});
}

static void drive_overrides(struct world *world, uint32_t node, const struct list *list)
{
    struct client *client = &world->clients[node];
    for (size_t i = 0; i < list->n; i++) {
        const struct entry *entry = &list->entries[i];
        drive_override(world, node, entry->host, entry->is_evicted, &client->evicted[entry->host],
                       ROTA_MEMBERS_EVICT, ROTA_MEMBERS_UNEVICT);
        drive_override(world, node, entry->host, entry->is_drained, &client->drained[entry->host],
                       ROTA_MEMBERS_DRAIN, ROTA_MEMBERS_UNDRAIN);
    }
}

static void drive_list(struct world *world, uint32_t node, const struct list *list)
{
    struct client *client = &world->clients[node];
    struct rota_host hosts[HOSTS];
    bool is_older = list->version < client->known.version;

    for (size_t i = 0; i < list->n; i++) {
        hosts[i] = host_of(&list->entries[i]);
        hosts[i].start_at += world->plant == PLANT_START_BEFORE;
        if (world->plant == PLANT_NO_STOP)
            hosts[i].stop_at = 0;
        if (world->plant == PLANT_NO_DRAIN)
            hosts[i].is_draining = false;
    }
    if (!is_older || world->plant == PLANT_OLDER)
        drive_overrides(world, node, list);
    drive(world, node,
          (struct rota_members_event){.type = ROTA_MEMBERS_SNAPSHOT,
                                      .version = world->plant == PLANT_OLDER ? 1 : list->version,
                                      .hosts = hosts,
                                      .n_hosts = list->n});
    if (world->plant == PLANT_SNAPSHOT_UNEVICTS)
        for (uint32_t host = 0; host < HOSTS; host++)
            drive(world, node,
                  (struct rota_members_event){.type = ROTA_MEMBERS_UNEVICT,
                                              .address = address_of(host)});
}

/* The list came without hosts, but there are some. */
static void drive_slip(struct world *world, uint32_t node, const struct list *slip)
{
    struct list list = world->clients[node].known;
    if (world->plant != PLANT_EMPTIED) {
        drive_list(world, node, slip);
        return;
    }
    for (size_t i = 0; i < list.n; i++) /* as good as gone */
        list.entries[i].is_draining = true;
    drive_list(world, node, &list);
}

/* --- what the world calls --- */

static void client_deinit(struct client *client)
{
    if (client->is_ready) {
        rota_members_fsm_deinit(&client->fsm);
        rota_ring_unref(client->ring);
    }
    *client = (struct client){0};
}

static void look_again(struct world *world, uint32_t node)
{
    rota_sim_set_timer(world->sim, node, TIMER_LOOK, ROTA_SIM_MONO,
                       rota_sim_mono(world->sim, node) + 5 * ROTA_SEC);
}

static void on_start(void *data, uint32_t node)
{
    struct world *world = data;
    struct client *client = &world->clients[node];
    if (node == SOURCE) {
        source_tick(world);
        return;
    }
    if (rota_members_fsm_init(&client->fsm, POINTS, &world->error)) {
        rota_sim_fail(world->sim, "node %u: %s", node, world->error.text);
        return;
    }
    client->ring = rota_ring_ref(rota_members_fsm_ring(&client->fsm));
    client->is_ready = true;
    look_again(world, node);
}

static void on_crash(void *data, uint32_t node)
{
    struct world *world = data;
    client_deinit(&world->clients[node]);
}

/* A host that is known to be given nothing stands on no ring. */
static void check_excluded(struct world *world, uint32_t node)
{
    const struct client *client = &world->clients[node];
    for (size_t i = 0; i < client->known.n; i++) {
        const struct entry *entry = &client->known.entries[i];
        if ((entry->is_draining || entry->is_drained || entry->is_evicted) &&
            rota_ring_find(client->ring, address_of(entry->host)) != ROTA_RING_NONE)
            rota_sim_fail(world->sim, "node %u has host %u on its ring, which is %s", node,
                          entry->host, entry->is_evicted ? "evicted" : "draining");
    }
}

static void on_message(void *data, uint32_t node, uint32_t from, struct rota_str message)
{
    struct world *world = data;
    struct client *client = &world->clients[node];
    struct list list = {0};
    (void)from;
    memcpy(&list, message.data, message.size);
    if (list.n == 0 && list.version > 0) {
        if (client->known.n > 0) /* else nobody could tell */
            drive_slip(world, node, &list);
        return;
    }
    drive_list(world, node, &list);
    if (list.version >= client->known.version)
        client->known = list;
    check_excluded(world, node);
}

static void on_timer(void *data, uint32_t node, uint32_t timer)
{
    struct world *world = data;
    if (node == SOURCE) {
        source_tick(world);
        return;
    }
    drive(world, node, (struct rota_members_event){.type = ROTA_MEMBERS_TICK});
    if (timer == TIMER_LOOK)
        look_again(world, node);
    check_excluded(world, node);
}

/* --- what must hold --- */

/* Whether the promises are made to this client: it runs, and has heard of all
 * changes that had the time to come. */
static bool is_served(const struct world *world, uint32_t node)
{
    return rota_sim_is_up(world->sim, node) && !rota_sim_is_paused(world->sim, node) &&
           world->clients[node].known.version >= world->due;
}

static bool is_agreed(const struct world *world)
{
    const struct client *first = NULL;
    for (uint32_t node = 1; node <= world->n_clients; node++) {
        const struct client *client = &world->clients[node];
        if (!is_served(world, node))
            continue;
        if (first && first->owners != client->owners)
            return false;
        first = client;
    }
    return true;
}

static const char *clients_agree(void *data)
{
    struct world *world = data;
    rota_time now = rota_sim_now(world->sim);
    while (world->due < world->list.version &&
           world->published_at[world->due + 1] + DELIVERY <= now)
        world->due++;
    if (is_agreed(world)) {
        world->disagree_since = ROTA_TIME_NEVER;
        return NULL;
    }
    world->disagree_since = rota_time_min(world->disagree_since, now);
    rota_time from =
        world->disagree_since > world->settled_at ? world->disagree_since : world->settled_at;
    return now > from + 2 * SKEW ? "clients disagree on an owner for longer than their clocks do"
                                 : NULL;
}

/* Let the checks see the moments between events, too. */
static void watch(void *data, uint64_t number)
{
    struct world *world = data;
    rota_sim_call(world->sim, rota_sim_now(world->sim) + 50 * ROTA_MSEC, watch, world, number);
}

/* The ring that follows from the list and a perfect clock. */
static struct rota_ring *true_ring(struct world *world)
{
    struct rota_ring_host hosts[HOSTS] = {0};
    struct rota_ring *ring = NULL;
    size_t n = 0;
    for (size_t i = 0; i < world->list.n; i++) {
        const struct entry *entry = &world->list.entries[i];
        struct rota_host host = host_of(entry);
        if (rota_host_is_placed(&host, rota_sim_true_wall(world->sim)) && !entry->is_evicted &&
            !entry->is_drained)
            hosts[n++] = (struct rota_ring_host){.address = host.address, .weight = host.weight};
    }
    if (rota_ring_new(hosts, n, POINTS, &ring, &world->error))
        rota_sim_fail(world->sim, "the true ring: %s", world->error.text);
    return ring;
}

static void check_end(struct world *world)
{
    struct rota_ring *ring = true_ring(world);
    for (uint32_t node = 1; ring && node <= world->n_clients; node++) {
        const struct client *client = &world->clients[node];
        if (client->owners != owners_of(ring) ||
            rota_ring_points_checksum(client->ring) != rota_ring_points_checksum(ring))
            rota_sim_fail(world->sim, "node %u has a wrong ring long after all changes", node);
    }
    rota_ring_unref(ring);
}

static void run(struct sim_case *run)
{
    struct rota_random shape;
    struct world world = {.plant = (enum plant)run->plant, .disagree_since = ROTA_TIME_NEVER};
    rota_random_init(&shape, run->seed);
    world.n_clients = (uint32_t)rota_random_range(&shape, CLIENTS_MIN, CLIENTS_MAX);
    world.is_aligned = rota_random_chance(&shape, 0.75);
    memset(&world.list, 0, sizeof world.list);
    world.sim = sim_case_new(run, (struct rota_sim_options){
                                      .n_nodes = 1 + world.n_clients,
                                      .link = {.delay_min = ROTA_MSEC,
                                               .delay_mean = 150 * ROTA_MSEC,
                                               .delay_max = 3 * ROTA_SEC,
                                               .loss = 0.1,
                                               .duplication = 0.1},
                                      .skew_max = SKEW_SET,
                                      .drift_max_ppm = DRIFT_PPM,
                                      .on_start = on_start,
                                      .on_crash = on_crash,
                                      .on_message = on_message,
                                      .on_timer = on_timer,
                                      .data = &world,
                                  });
    rota_sim_add_check(world.sim, clients_agree, &world);
    rota_sim_chaos_start(&world.chaos, world.sim,
                         &(struct rota_sim_chaos_options){
                             .first_node = 1,
                             .quiet_at = QUIET_AT,
                             .crash_every = 20 * ROTA_SEC,
                             .crash_for = 2 * ROTA_SEC,
                             .pause_every = 15 * ROTA_SEC,
                             .pause_for = 3 * ROTA_SEC,
                             .split_every = 20 * ROTA_SEC,
                             .split_for = 3 * ROTA_SEC,
                             .jump_every = 3 * ROTA_SEC,
                             .jump_max = SKEW_SET,
                         });
    rota_sim_call(world.sim, ROTA_MSEC, operate, &world, 0);
    rota_sim_call(world.sim, ROTA_MSEC, watch, &world, 0);
    if (rota_sim_run(world.sim, END_AT))
        check_end(&world);
    for (uint32_t node = 1; node <= world.n_clients; node++)
        client_deinit(&world.clients[node]);
    sim_case_end(run, world.sim);
}

int main(int argc, char **argv)
{
    return sim_main(argc, argv,
                    &(struct sim_suite){
                        .name = "sim_members",
                        .n_seeds = 1000,
                        .n_plant_seeds = 200,
                        .plants = plants,
                        .n_plants = N_PLANTS - 1,
                        .run = run,
                    });
}
