/* Hosts hold shards by leases in the table of one database, while everything fails:
 * hosts crash, pause for longer than a lease, are cut off, shut down and come back
 * under the same name; statements are lost, late, or done without an answer; clocks
 * drift, and jump by hours in both directions, the database's too; the database
 * restarts, and fails over to a replica that has not heard of the last changes.
 *
 * A host is the machine of core/own/lease_fsm.h and its driver; the database is the
 * table of test/lib/lease_table.h, asked by messages. Whoever believes to hold a
 * shard makes effects at a resource, which refuses an epoch lower than one that it
 * has seen.
 *
 * Checked after every event:
 *  - O1: no two hosts act for a shard with the same epoch;
 *  - O2: every grant of a shard has an epoch above all before it;
 *  - O3: the resource applies no effect of an epoch after one of a later epoch;
 *  - O4: no two hosts believe to hold a shard, be they running or paused;
 *  - O5: some time after the last fault every shard is held, and stays so; and when a
 *    host dies then, its shards are held by others within 1.1 ttl, if those may hold
 *    more and clocks run as evenly as real ones do.
 *
 * After a failover to a stale replica O4 needs the hold, which is what the worlds
 * with one show; without it O4 is not checked until the leases of before are over.
 * O2 needs a clock that is right within the time that the failover takes, or that
 * those who claim have heard of the epochs that were lost: one kind of world each. */
#include "lease_world.h"

#include <string.h>

/* --- a host's driver --- */

static void drive(struct world *world, uint32_t node, struct rota_lease_event event);

static rota_time clock_of(const struct world *world, uint32_t node)
{
    return world->plant == PLANT_WALL ? rota_sim_wall(world->sim, node)
                                      : rota_sim_mono(world->sim, node);
}

static void set_timer(struct world *world, uint32_t node, uint32_t timer, rota_time at)
{
    rota_time now = rota_sim_now(world->sim);
    if (world->kind == KIND_GRID && at != ROTA_TIME_NEVER) {
        rota_time offset = clock_of(world, node) - now, due = at - offset;
        at = (due > now ? (due + GRID - 1) / GRID * GRID : due) + offset;
    }
    rota_sim_set_timer(world->sim, node, timer,
                       world->plant == PLANT_WALL ? ROTA_SIM_WALL : ROTA_SIM_MONO, at);
}

static void arm_give_up(struct world *world, uint32_t node)
{
    const struct host *host = &world->hosts[node];
    rota_time at = ROTA_TIME_NEVER;
    for (size_t i = 0; i < host->n_open; i++)
        at = rota_time_min(at, host->open[i].give_up_at);
    set_timer(world, node, TIMER_GIVE_UP, at);
}

static void forget_ask(struct host *host, uint64_t ask)
{
    for (size_t i = 0; i < host->n_open; i++)
        if (host->open[i].ask == ask)
            host->open[i--] = host->open[--host->n_open];
}

static struct request request_of(const struct world *world, uint32_t node, enum request_type type)
{
    const struct host *host = &world->hosts[node];
    return (struct request){.type = type,
                            .database_life = rota_sim_life(world->sim, DATABASE),
                            .host_life = rota_sim_life(world->sim, node),
                            .claim = {.host = host->name,
                                      .instance = host->instance,
                                      .ttl = TTL,
                                      .is_alone = host->is_alone}};
}

static void note_ask(struct world *world, uint32_t node, uint64_t ask,
                     enum rota_lease_action_type type)
{
    struct host *host = &world->hosts[node];
    if (host->n_open == OPEN_MAX) {
        rota_sim_fail(world->sim, "node %u has %d asks open", node, OPEN_MAX);
        return;
    }
    host->open[host->n_open++] = (struct open_ask){
        .ask = ask, .type = type, .give_up_at = clock_of(world, node) + world->give_up_after};
}

static void send_request(struct world *world, uint32_t node, const struct rota_lease_action *action,
                         enum request_type type)
{
    struct request request = request_of(world, node, type);
    request.ask = action->ask;
    request.shard = action->shard;
    request.epoch = action->epoch;
    request.claim.floor = action->floor;
    request.claim.n_dead = action->n_dead;
    if (action->n_dead > 0)
        memcpy(request.claim.dead, action->dead, action->n_dead * sizeof *action->dead);
    rota_sim_send(world->sim, node, DATABASE, rota_str_of(&request, sizeof request));
    note_ask(world, node, action->ask, action->type);
}

/* Pings of a step go in one message, but for those that want to be alone. */
static void send_pings(struct world *world, uint32_t node, const struct rota_lease_action *list,
                       size_t n)
{
    struct request request = request_of(world, node, REQUEST_PING);
    for (size_t i = 0; i < n; i++) {
        if (list[i].type != ROTA_LEASE_PING)
            continue;
        struct ping ping = {.ask = list[i].ask, .shard = list[i].shard, .epoch = list[i].epoch};
        note_ask(world, node, list[i].ask, list[i].type);
        if (list[i].is_single) {
            struct request single = request;
            single.n_pings = 1;
            single.pings[0] = ping;
            rota_sim_send(world->sim, node, DATABASE, rota_str_of(&single, sizeof single));
        } else {
            request.pings[request.n_pings++] = ping;
        }
    }
    if (request.n_pings > 0)
        rota_sim_send(world->sim, node, DATABASE, rota_str_of(&request, sizeof request));
}

static void end_node(void *data, uint64_t node)
{
    struct world *world = data;
    rota_sim_crash(world->sim, (uint32_t)node);
}

/* The process ends, and is started again some time later. */
static void end_host(struct world *world, uint32_t node)
{
    rota_time now = rota_sim_now(world->sim);
    world->hosts[node].is_over = true;
    rota_sim_call(world->sim, now, end_node, world, node);
    rota_sim_call(world->sim, now + rota_sim_exponential(rota_sim_random(world->sim), ROTA_SEC),
                  start_node, world, node);
}

static void started(struct world *world, uint32_t node, const struct rota_lease_action *action)
{
    struct effect *last = &world->started[action->shard];
    uint32_t life = rota_sim_life(world->sim, node);
    if (action->epoch == last->epoch && (last->node != node || last->life != life))
        rota_sim_fail(world->sim, "O1: nodes %u and %u both start shard %u with epoch %llu",
                      last->node, node, action->shard, (unsigned long long)action->epoch);
    if (action->epoch > last->epoch)
        *last = (struct effect){
            .shard = action->shard, .node = node, .life = life, .epoch = action->epoch};
}

static void stopped(struct world *world, uint32_t node, const struct rota_lease_action *action)
{
    rota_sim_note(world->sim, node, "stops shard %u: %s", action->shard,
                  rota_lease_why_text(action->why));
    if (action->why == ROTA_LEASE_WHY_SHUTDOWN)
        return;
    if (rota_sim_now(world->sim) > OWNED_AT)
        rota_sim_fail(world->sim, "O5: node %u loses shard %u in peace: %s", node, action->shard,
                      rota_lease_why_text(action->why));
    if (world->aborts)
        end_host(world, node);
}

static void carry_out(struct world *world, uint32_t node, const struct rota_lease_action *action)
{
    switch (action->type) {
    case ROTA_LEASE_CLAIM:
        send_request(world, node, action, REQUEST_CLAIM);
        break;
    case ROTA_LEASE_LIST:
        send_request(world, node, action, REQUEST_LIST);
        break;
    case ROTA_LEASE_PING: /* with the others of the step */
        break;
    case ROTA_LEASE_RELEASE:
        send_request(world, node, action, REQUEST_RELEASE);
        break;
    case ROTA_LEASE_START:
        rota_sim_note(world->sim, node, "starts shard %u with epoch %llu", action->shard,
                      (unsigned long long)action->epoch);
        started(world, node, action);
        break;
    case ROTA_LEASE_STOP:
        stopped(world, node, action);
        break;
    case ROTA_LEASE_WENT_BACK:
        rota_sim_note(world->sim, node, "sees that shard %u went back", action->shard);
        if (world->n_failovers == 0)
            rota_sim_fail(world->sim, "node %u takes the database to have gone back", node);
        break;
    case ROTA_LEASE_DONE:
        end_host(world, node);
        break;
    case ROTA_LEASE_EXTEND:
        break;
    }
}

/* What a wrong machine would have done in this step. */
static void sabotage_host(struct world *world, uint32_t node, const struct rota_lease_event *event,
                          rota_time listed_at)
{
    struct rota_lease_fsm *fsm = &world->hosts[node].fsm;
    rota_time now = clock_of(world, node);
    for (size_t i = 0; i < fsm->n_actions && world->plant == PLANT_ARRIVAL; i++) {
        const struct rota_lease_action *action = &fsm->actions[i];
        if (action->type == ROTA_LEASE_START || action->type == ROTA_LEASE_EXTEND)
            fsm->slots[fsm->slot_of[action->shard]].expires_at = now + TTL - fsm->guard;
    }
    bool is_blind = world->plant == PLANT_SHARE_BLIND && fsm->n_held >= fsm->n_share;
    if (fsm->list_at != ROTA_TIME_NEVER && (world->plant == PLANT_RARE_LOOKS || is_blind))
        for (size_t i = 0; i < fsm->n_actions; i++)
            if (fsm->actions[i].type == ROTA_LEASE_LIST)
                fsm->list_at = now + (is_blind ? ROTA_HOUR : TTL / 3);
    for (uint32_t i = 0; i < fsm->n_held && world->plant == PLANT_PING_ALL; i++)
        fsm->slots[i].is_single = false;
    if (world->plant == PLANT_WATCH_FROM_ASK && event->type == ROTA_LEASE_LISTED) {
        for (uint32_t shard = 0; shard < world->n_shards; shard++)
            if (fsm->watch.sights[shard].since == now)
                fsm->watch.sights[shard].since = listed_at;
        fsm->dead_at = rota_lease_watch_dead_at(&fsm->watch);
    }
    if (world->plant == PLANT_NO_HEIRS && event->type == ROTA_LEASE_LISTED)
        for (uint32_t shard = 0; shard < world->n_shards; shard++)
            if (fsm->watch.sights[shard].instance == fsm->options.instance)
                fsm->watch.sights[shard].inherited_until = 0;
}

/* Callers know of the epochs that the database has forgotten; the highest is told
 * first, for a claim may follow at once. */
static void tell(struct world *world, uint32_t node)
{
    struct host *host = &world->hosts[node];
    uint32_t first = 0;
    if (world->kind != KIND_STALE_HOLD || host->n_told == world->n_failovers)
        return;
    host->n_told = world->n_failovers;
    for (uint32_t shard = 0; shard < world->n_shards; shard++)
        if (world->lost[shard] > world->lost[first])
            first = shard;
    for (uint32_t i = 0; i < world->n_shards; i++) {
        uint32_t shard = (first + i) % world->n_shards;
        drive(world, node,
              (struct rota_lease_event){
                  .type = ROTA_LEASE_SEEN, .shard = shard, .epoch = world->lost[shard]});
    }
}

static void drive(struct world *world, uint32_t node, struct rota_lease_event event)
{
    struct host *host = &world->hosts[node];
    rota_time listed_at = host->fsm.seek_sent_at;
    if (host->is_over)
        return;
    tell(world, node);
    if (host->is_over)
        return;
    struct rota_lease_actions todo = rota_lease_fsm_step(&host->fsm, clock_of(world, node), &event);
    sabotage_host(world, node, &event, listed_at);
    for (size_t i = 0; i < todo.n && !host->is_over; i++)
        carry_out(world, node, &todo.list[i]);
    if (!host->is_over)
        send_pings(world, node, todo.list, todo.n);
    set_timer(world, node, TIMER_DEADLINE, rota_lease_fsm_deadline(&host->fsm));
    arm_give_up(world, node);
}

/* Whether this very ping is waited for. */
static bool is_open(const struct host *host, const struct ping *ping)
{
    size_t n;
    const struct rota_lease_slot *held = rota_lease_fsm_held(&host->fsm, &n);
    for (size_t i = 0; i < n; i++)
        if (held[i].ask == ping->ask && held[i].shard == ping->shard)
            return true;
    return false;
}

/* One after the other; whatever the others say, what is taken is given up. */
static void hear_pings(struct world *world, uint32_t node, const struct answer *answer)
{
    struct host *host = &world->hosts[node];
    bool is_wrong = false;
    for (size_t i = 0; i < answer->n_pings; i++) {
        forget_ask(host, answer->pings[i].ask);
        is_wrong |= world->plant == PLANT_PING_ALL && answer->pings[i].outcome == ROTA_LEASE_PINGED;
    }
    for (size_t i = 0; i < answer->n_pings && !host->is_over; i++) {
        const struct ping *ping = &answer->pings[i];
        bool is_refused = ping->outcome == ROTA_LEASE_TAKEN && is_open(host, ping);
        drive(world, node,
              (struct rota_lease_event){.type = is_wrong ? ROTA_LEASE_PINGED : ping->outcome,
                                        .ask = ping->ask,
                                        .epoch = ping->epoch});
        if (is_refused && !host->is_over &&
            rota_lease_fsm_epoch(&host->fsm, clock_of(world, node), ping->shard) != 0)
            rota_sim_fail(world->sim, "O1: node %u believes in shard %u, which is refused", node,
                          ping->shard);
    }
}

static void host_hear(struct world *world, uint32_t node, struct rota_str message)
{
    struct answer answer = {0};
    memcpy(&answer, message.data, message.size);
    if (answer.host_life != rota_sim_life(world->sim, node))
        return;
    if (answer.n_pings > 0) {
        hear_pings(world, node, &answer);
        return;
    }
    forget_ask(&world->hosts[node], answer.ask);
    if (world->plant == PLANT_NO_STRAYS && answer.type == ROTA_LEASE_LISTED)
        for (size_t i = 0; i < answer.n_rows; i++)
            if (answer.rows[i].instance == world->hosts[node].instance)
                answer.rows[i].instance++; /* somebody, it seems */
    drive(world, node,
          (struct rota_lease_event){.type = answer.type,
                                    .ask = answer.ask,
                                    .shard = answer.shard,
                                    .epoch = answer.epoch,
                                    .rows = answer.rows,
                                    .n_rows = answer.n_rows});
}

/* Connections are given up whose answers do not come. */
static void host_give_up(struct world *world, uint32_t node)
{
    struct host *host = &world->hosts[node];
    rota_time now = clock_of(world, node);
    for (size_t i = 0; i < host->n_open;) {
        struct open_ask open = host->open[i];
        if (open.give_up_at > now) {
            i++;
            continue;
        }
        forget_ask(host, open.ask);
        bool is_wrong = world->plant == PLANT_UNKNOWN && open.type == ROTA_LEASE_PING;
        drive(world, node,
              (struct rota_lease_event){.type = is_wrong ? ROTA_LEASE_PINGED : ROTA_LEASE_UNKNOWN,
                                        .ask = open.ask});
        i = 0; /* others may have been added */
    }
    arm_give_up(world, node);
}

static bool is_served(const struct world *world, uint32_t node, const struct rota_lease_slot *slot)
{
    const struct host *host = &world->hosts[node];
    rota_time now = clock_of(world, node);
    if (world->plant == PLANT_TIMERS)
        return true;
    if (world->plant == PLANT_LESS_EQUAL)
        now--;
    return rota_lease_fsm_check(&host->fsm, now, slot->shard, slot->epoch);
}

static void host_act(struct world *world, uint32_t node)
{
    size_t n;
    const struct rota_lease_slot *held = rota_lease_fsm_held(&world->hosts[node].fsm, &n);
    for (size_t i = 0; i < n && !world->hosts[node].is_over; i++) {
        struct effect effect = {.shard = held[i].shard,
                                .node = node,
                                .life = rota_sim_life(world->sim, node),
                                .epoch = held[i].epoch};
        if (is_served(world, node, &held[i]))
            rota_sim_send(world->sim, node, RESOURCE, rota_str_of(&effect, sizeof effect));
    }
    set_timer(world, node, TIMER_EFFECT, clock_of(world, node) + TTL / 10);
}

/* Among all but one, `gone`, which is 0 if all are there. Who is not told of shares holds what it
 * wants. */
static void tell_share(struct world *world, uint32_t node, uint32_t gone)
{
    uint64_t all = 0;
    for (uint32_t host = FIRST_HOST; host < FIRST_HOST + world->n_hosts; host++)
        all += host != gone ? world->hosts[host].weight : 0;
    uint32_t n_share = rota_lease_share_of_weight(world->n_shards, world->hosts[node].weight, all);
    drive(world, node,
          (struct rota_lease_event){.type = ROTA_LEASE_SHARE,
                                    .n_share = world->is_shared ? n_share : UINT32_MAX,
                                    .n_most =
                                        world->plant == PLANT_SHARE_STRICT ? n_share : UINT32_MAX});
}

/* --- what the world calls --- */

static void host_start(struct world *world, uint32_t node)
{
    struct host *host = &world->hosts[node];
    struct rota_random *random = rota_sim_random(world->sim);
    struct rota_error error;
    host->instance = rota_random_next(random) | 1;
    host->is_over = false;
    host->n_told = 0;
    host->n_open = 0;
    if (rota_lease_fsm_init(&host->fsm, clock_of(world, node),
                            &(struct rota_lease_fsm_options){.n_shards = world->n_shards,
                                                             .n_wanted = host->n_wanted,
                                                             .ttl = TTL,
                                                             .is_alone = host->is_alone,
                                                             .instance = host->instance,
                                                             .seed = rota_random_next(random)},
                            &error)) {
        rota_sim_fail(world->sim, "node %u: %s", node, error.text);
        return;
    }
    host->is_ready = true;
    if (world->kind == KIND_GRID || world->plant == PLANT_NO_GUARD)
        host->fsm.guard = 0;
    if (world->is_shared)
        tell_share(world, node, 0);
    set_timer(world, node, TIMER_DEADLINE, rota_lease_fsm_deadline(&host->fsm));
    host_act(world, node);
}

static void on_start(void *data, uint32_t node)
{
    struct world *world = data;
    if (node == DATABASE)
        database_start(world);
    else if (node >= FIRST_HOST)
        host_start(world, node);
}

static void on_crash(void *data, uint32_t node)
{
    struct world *world = data;
    struct host *host = &world->hosts[node];
    if (host->is_ready)
        rota_lease_fsm_deinit(&host->fsm);
    host->is_ready = false;
}

static void on_message(void *data, uint32_t node, uint32_t from, struct rota_str message)
{
    struct world *world = data;
    struct request request;
    struct effect effect;
    if (node == RESOURCE) {
        memcpy(&effect, message.data, sizeof effect);
        resource_apply(world, &effect);
    } else if (node == DATABASE) {
        memcpy(&request, message.data, sizeof request);
        if (request.database_life == rota_sim_life(world->sim, DATABASE))
            database_answer(world, from, request);
    } else {
        host_hear(world, node, message);
    }
}

static void on_timer(void *data, uint32_t node, uint32_t timer)
{
    struct world *world = data;
    if (timer == TIMER_EFFECT)
        host_act(world, node);
    else if (timer == TIMER_GIVE_UP)
        host_give_up(world, node);
    else
        drive(world, node, (struct rota_lease_event){.type = ROTA_LEASE_TICK});
}

/* A host is told that one of its shards has a later epoch, and so has to take one again:
 * what it holds is not all of the same age. */
static void unseat(struct world *world, uint32_t node)
{
    size_t n;
    const struct rota_lease_slot *held = rota_lease_fsm_held(&world->hosts[node].fsm, &n);
    if (n == 0)
        return;
    const struct rota_lease_slot slot = held[rota_random_below(rota_sim_random(world->sim), n)];
    drive(world, node,
          (struct rota_lease_event){
              .type = ROTA_LEASE_SEEN, .shard = slot.shard, .epoch = slot.epoch + 1});
}

/* A host is to hold less, and then as much as before: it has given back some by then. */
static void share(struct world *world, uint32_t node)
{
    drive(world, node, (struct rota_lease_event){.type = ROTA_LEASE_SHARE, .n_share = 1});
    tell_share(world, node, 0);
}

/* Somebody is shut down, as in a release of the software. */
static void operate(void *data, uint64_t number)
{
    struct world *world = data;
    struct rota_random *random = rota_sim_random(world->sim);
    uint32_t node = FIRST_HOST + (uint32_t)rota_random_below(random, world->n_hosts);
    rota_time next = rota_sim_now(world->sim) + rota_sim_exponential(random, 4 * ROTA_SEC);
    bool is_running = rota_sim_is_up(world->sim, node) && !rota_sim_is_paused(world->sim, node);
    if (chance(world, 0.5) && is_running)
        unseat(world, node);
    else if (chance(world, 0.3) && is_running)
        share(world, node);
    else if (is_running)
        drive(world, node, (struct rota_lease_event){.type = ROTA_LEASE_SHUTDOWN});
    if (next < QUIET_AT)
        rota_sim_call(world->sim, next, operate, world, number + 1);
}

/* From here on the network is a good one. */
static void calm(void *data, uint64_t number)
{
    struct world *world = data;
    const struct rota_sim_link link = {.delay_mean = 5 * ROTA_MSEC, .delay_max = 50 * ROTA_MSEC};
    (void)number;
    for (uint32_t node = FIRST_HOST; node < FIRST_HOST + world->n_hosts; node++) {
        rota_sim_set_link(world->sim, node, DATABASE, &link);
        rota_sim_set_link(world->sim, DATABASE, node, &link);
    }
}

/* --- a death in peace --- */

static bool is_well(const struct world *world, uint32_t node)
{
    return world->hosts[node].is_ready && !world->hosts[node].is_over &&
           rota_sim_is_up(world->sim, node);
}

/* Shortly before, all take again what they hold, but for one shard each. */
static void share_anew(void *data, uint64_t number)
{
    struct world *world = data;
    (void)number;
    for (uint32_t node = FIRST_HOST; node < FIRST_HOST + world->n_hosts; node++)
        if (is_well(world, node))
            share(world, node);
}

/* The others divide the shards again. */
static void divide(void *data, uint64_t number)
{
    struct world *world = data;
    (void)number;
    for (uint32_t node = FIRST_HOST; node < FIRST_HOST + world->n_hosts; node++)
        if (is_well(world, node))
            tell_share(world, node, world->victim);
}

/* Somebody who holds something dies, and is not started again. */
static void kill_one(void *data, uint64_t number)
{
    struct world *world = data;
    uint32_t first = (uint32_t)rota_random_below(rota_sim_random(world->sim), world->n_hosts);
    (void)number;
    for (uint32_t i = 0; i < world->n_hosts && !world->victim; i++) {
        uint32_t node = FIRST_HOST + (first + i) % world->n_hosts;
        if (is_well(world, node) && world->hosts[node].fsm.n_held > 0)
            world->victim = node;
    }
    if (!world->victim)
        return;
    const struct rota_lease_fsm *fsm = &world->hosts[world->victim].fsm;
    for (uint32_t i = 0; i < fsm->n_held; i++)
        world->is_orphan[fsm->slots[i].shard] = true;
    world->died_at = rota_sim_now(world->sim);
    rota_sim_crash(world->sim, world->victim);
    rota_sim_call(world->sim, world->died_at + SHARES_AFTER, divide, world, 0);
}

/* Whether nobody needs to hold this shard now: its holder has just died, nobody has room for
 * it, or the others are dividing the shards again. */
static bool may_be_free(const struct world *world, uint32_t shard)
{
    rota_time since = rota_sim_now(world->sim) - world->died_at;
    bool has_room = false;
    if (!world->victim)
        return false;
    for (uint32_t node = FIRST_HOST; node < FIRST_HOST + world->n_hosts; node++)
        has_room |= is_well(world, node) &&
                    world->hosts[node].fsm.n_held < world->hosts[node].fsm.options.n_wanted;
    if (world->is_orphan[shard] && (!has_room || !world->is_even || since <= FAILOVER_MAX))
        return true;
    return world->is_shared && since >= SHARES_AFTER && since < SHARES_AFTER + TTL;
}

/* --- what must hold --- */

static void count_believers(const struct world *world, uint32_t n[SHARDS_MAX])
{
    for (uint32_t node = FIRST_HOST; node < FIRST_HOST + world->n_hosts; node++) {
        const struct host *host = &world->hosts[node];
        size_t n_held = 0;
        const struct rota_lease_slot *held = NULL;
        if (host->is_ready && !host->is_over)
            held = rota_lease_fsm_held(&host->fsm, &n_held);
        for (size_t i = 0; i < n_held; i++)
            n[held[i].shard] += is_served(world, node, &held[i]);
    }
}

static const char *leases_hold(void *data)
{
    struct world *world = data;
    uint32_t n[SHARDS_MAX] = {0};
    rota_time now = rota_sim_now(world->sim);
    count_believers(world, n);
    for (uint32_t shard = 0; shard < world->n_shards; shard++) {
        if (n[shard] > 1 && now >= world->stale_until)
            return "O4: two hosts believe to hold a shard";
        if (n[shard] == 0 && now >= OWNED_AT && !may_be_free(world, shard))
            return world->is_orphan[shard] ? "O5: a dead holder is not replaced in time"
                                           : "O5: nobody holds a shard, long after the last fault";
    }
    return NULL;
}

/* --- worlds --- */

static void make_hosts(struct world *world, struct rota_random *shape)
{
    uint32_t n_wanted = (uint32_t)rota_random_range(shape, 1, 3), n_all = 0;
    bool are_twins = rota_random_chance(shape, 0.4), is_alone = rota_random_chance(shape, 0.5);
    for (uint32_t i = 0; i < world->n_hosts; i++) {
        struct host *host = &world->hosts[FIRST_HOST + i];
        host->name = 1 + (are_twins ? i / 2 : i);
        host->is_alone = is_alone && (!are_twins || world->plant == PLANT_ALONE);
        host->n_wanted = world->is_shared ? SHARDS_MAX : n_wanted;
        n_all += n_wanted;
    }
    uint32_t n_max = n_all < SHARDS_MAX ? n_all : SHARDS_MAX;
    world->n_shards = (uint32_t)rota_random_range(shape, 1, n_max);
    world->table.n_shards = world->replica.n_shards = world->n_shards;
}

static struct rota_sim_link make_link(struct rota_random *shape, double loss)
{
    const rota_time means[] = {5 * ROTA_MSEC, 50 * ROTA_MSEC, 400 * ROTA_MSEC};
    return (struct rota_sim_link){.delay_min = ROTA_MSEC,
                                  .delay_mean = means[rota_random_below(shape, 3)],
                                  .delay_max = 4 * ROTA_SEC,
                                  .loss = loss};
}

/* Every host has a way to the database that is good or bad in its own manner. */
static void make_links(struct world *world, struct rota_random *shape)
{
    double loss = rota_random_chance(shape, 0.5) ? 0.1 : 0;
    for (uint32_t node = FIRST_HOST; node < FIRST_HOST + world->n_hosts; node++) {
        struct rota_sim_link to = make_link(shape, loss), from = make_link(shape, loss);
        from.duplication = 0.05;
        rota_sim_set_link(world->sim, node, DATABASE, &to);
        rota_sim_set_link(world->sim, DATABASE, node, &from);
        to = make_link(shape, loss);
        rota_sim_set_link(world->sim, node, RESOURCE, &to);
    }
}

static void start_faults(struct world *world)
{
    bool is_stale = world->kind == KIND_STALE || world->kind == KIND_STALE_HOLD;
    struct rota_random *random = rota_sim_random(world->sim);
    rota_sim_chaos_start(&world->host_chaos, world->sim,
                         &(struct rota_sim_chaos_options){
                             .first_node = FIRST_HOST,
                             .quiet_at = QUIET_AT,
                             .crash_every = 8 * ROTA_SEC,
                             .crash_for = 2 * ROTA_SEC,
                             .pause_every = 5 * ROTA_SEC,
                             .pause_for = 4 * ROTA_SEC,
                             .split_every = 8 * ROTA_SEC,
                             .split_for = 4 * ROTA_SEC,
                             .jump_every = 5 * ROTA_SEC,
                             .jump_max = 3 * ROTA_HOUR,
                         });
    if (is_stale) {
        rota_sim_call(world->sim, ROTA_MSEC, replicate, world, 0);
        rota_sim_call(world->sim, rota_random_range(random, 5, 20) * ROTA_SEC, fail_over, world, 0);
    } else {
        rota_sim_chaos_start(
            &world->database_chaos, world->sim,
            &(struct rota_sim_chaos_options){
                .first_node = DATABASE,
                .n_nodes = 1,
                .quiet_at = QUIET_AT,
                .crash_every = 20 * ROTA_SEC,
                .crash_for = 2 * ROTA_SEC,
                .pause_every = 20 * ROTA_SEC,
                .pause_for = ROTA_SEC,
                .jump_every = chance(world, 0.7) || world->kind == KIND_GRID ? 2 * ROTA_SEC : 0,
                .jump_max = chance(world, 0.5) ? 3 * ROTA_HOUR : 2 * TTL,
            });
    }
    rota_sim_call(world->sim, ROTA_SEC, operate, world, 0);
    if (world->kind == KIND_GRID)
        return;
    rota_sim_call(world->sim, QUIET_AT, calm, world, 0);
    if (world->is_ragged)
        rota_sim_call(world->sim, OWNED_AT - TTL / 2, share_anew, world, 0);
    rota_time most = world->is_ragged ? TTL / 4 : TTL; /* later the pings are together again */
    rota_sim_call(world->sim, OWNED_AT + rota_random_range(random, 0, most), kill_one, world, 0);
}

static void run(struct sim_case *run)
{
    struct rota_random shape;
    struct world world = {.plant = (enum plant)run->plant};
    rota_random_init(&shape, run->seed);
    world.kind = (enum kind)rota_random_below(&shape, N_KINDS);
    if (rota_random_chance(&shape, 0.3))
        world.kind = KIND_STORM;
    world.aborts = rota_random_chance(&shape, 0.5);
    world.n_hosts = (uint32_t)rota_random_range(&shape, 2, HOSTS_MAX);
    world.give_up_after = rota_random_range(&shape, 1, 12) * (TTL / 8);
    world.is_shared = rota_random_chance(&shape, 0.3);
    make_hosts(&world, &shape);

    const int32_t drifts[] = {200, 60000, 60000};
    int32_t drift = drifts[rota_random_below(&shape, 3)];
    if (world.kind == KIND_GRID || (world.kind != KIND_STORM && drift > 200))
        drift = 0;
    world.is_even = drift <= DRIFT_EVEN;
    world.sim = sim_case_new(run, (struct rota_sim_options){
                                      .n_nodes = FIRST_HOST + world.n_hosts,
                                      .link = {.delay_max = world.kind == KIND_GRID},
                                      .skew_max = SKEW,
                                      .drift_max_ppm = drift,
                                      .on_start = on_start,
                                      .on_crash = on_crash,
                                      .on_message = on_message,
                                      .on_timer = on_timer,
                                      .data = &world,
                                  });
    if (world.kind != KIND_GRID)
        make_links(&world, &shape);
    world.is_ragged = rota_random_below(&shape, 3) > 0;
    for (uint32_t node = FIRST_HOST; node < FIRST_HOST + world.n_hosts; node++)
        world.hosts[node].weight = (uint32_t)rota_random_range(&shape, 1, 4);
    rota_sim_add_check(world.sim, leases_hold, &world);
    start_faults(&world);
    rota_sim_run(world.sim, END_AT);
    for (uint32_t node = FIRST_HOST; node < FIRST_HOST + world.n_hosts; node++)
        on_crash(&world, node);
    sim_case_end(run, world.sim);
}

int main(int argc, char **argv)
{
    return sim_main(argc, argv,
                    &(struct sim_suite){
                        .name = "sim_lease",
                        .n_seeds = 1000,
                        .n_plant_seeds = 4000,
                        .kept = {903183150444},
                        .plants = plants,
                        .n_plants = N_PLANTS - 1,
                        .run = run,
                    });
}
