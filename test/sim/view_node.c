#include "view_node.h"

#include <stdio.h>
#include <string.h>

/* --- a node's driver: asks --- */

static void arm_give_up(struct world *world, uint32_t node)
{
    const struct host *host = &world->hosts[node];
    rota_time at = ROTA_TIME_NEVER;
    for (size_t i = 0; i < host->n_open; i++)
        at = rota_time_min(at, host->open[i].give_up_at);
    rota_sim_set_timer(world->sim, node, TIMER_GIVE_UP, ROTA_SIM_MONO, at);
}

static void forget_ask(struct host *host, uint64_t ask)
{
    for (size_t i = 0; i < host->n_open; i++)
        if (host->open[i].ask == ask)
            host->open[i--] = host->open[--host->n_open];
}

static void note_ask(struct world *world, uint32_t node, const struct rota_view_ask *ask)
{
    struct host *host = &world->hosts[node];
    if (host->n_open == OPEN_MAX) {
        rota_sim_fail(world->sim, "node %u has %d asks open", node, OPEN_MAX);
        return;
    }
    host->open[host->n_open++] =
        (struct open_ask){.ask = ask->number,
                          .type = ask->type,
                          .give_up_at = clock_of(world, node) + world->give_up_after};
}

static void send_request(struct world *world, uint32_t node, struct request *request)
{
    request->database_life = rota_sim_life(world->sim, DATABASE);
    request->host_life = rota_sim_life(world->sim, node);
    rota_sim_send(world->sim, node, DATABASE,
                  rota_str_of(request, offsetof(struct request, text) + request->text_size));
}

static uint64_t hash_view(const struct rota_view *view)
{
    struct rota_buffer buffer = {0};
    rota_view_text_format(view, &buffer);
    uint64_t hash = rota_hash_quick64(0, rota_buffer_str(&buffer));
    rota_buffer_deinit(&buffer);
    return hash;
}

static void write_text(struct world *world, const struct rota_view *view, struct request *request)
{
    struct rota_buffer buffer = {0};
    rota_view_text_format(view, &buffer);
    if (buffer.size > sizeof request->text)
        rota_sim_fail(world->sim, "a view of %zu bytes", buffer.size);
    else
        memcpy(request->text, buffer.data, buffer.size);
    request->text_size = buffer.size <= sizeof request->text ? buffer.size : 0;
    rota_buffer_deinit(&buffer);
}

static void send_ask(struct world *world, uint32_t node, const struct rota_view_ask *ask)
{
    static struct request request;
    const struct rota_view_row *row = &ask->row;
    memset(&request, 0, offsetof(struct request, text));
    request.type = (enum request_type)ask->type; /* in the same order */
    request.ask = ask->number;
    request.former = ask->former;
    request.known = ask->known;
    if (ask->known)
        request.known_hash = hash_view(rota_view_fsm_view(&world->hosts[node].fsm));
    request.row = (struct view_table_row){.instance = row->instance,
                                          .pings = row->pings,
                                          .ttl = row->ttl,
                                          .acked = row->acked,
                                          .highest = row->highest,
                                          .weight = row->weight,
                                          .is_draining = row->is_draining};
    snprintf(request.row.name, sizeof request.row.name, "%.*s", ROTA_STR_ARGS(row->name));
    snprintf(request.row.zone, sizeof request.row.zone, "%.*s", ROTA_STR_ARGS(row->zone));
    if (ask->view) {
        request.number = ask->view->number;
        write_text(world, ask->view, &request);
    }
    send_request(world, node, &request);
    note_ask(world, node, ask);
}

/* --- a node's driver: owning --- */

bool is_served(const struct world *world, uint32_t node, uint32_t shard)
{
    const struct host *host = &world->hosts[node];
    bool is_on = host->serving[shard] != 0 || host->late[shard] != 0;
    return host->is_ready && is_on && !host->failing[shard] &&
           (world->has_no_end || clock_of(world, node) < host->until || host->late[shard] != 0);
}

static void note_start(struct world *world, uint32_t node, uint32_t shard, uint64_t epoch)
{
    struct claim claim = {shard, node, rota_sim_life(world->sim, node), epoch};
    const struct host *host = &world->hosts[node];
    rota_sim_note(world->sim, node, "starts shard %u with epoch %llu", shard,
                  (unsigned long long)epoch);
    for (size_t i = 0; i < world->n_claims && !has_lost_numbers(world); i++) {
        const struct claim *other = &world->claims[i];
        if (other->shard == shard && other->epoch == epoch &&
            (other->node != node || other->life != claim.life))
            rota_sim_fail(world->sim, "O1: nodes %u and %u both start shard %u with epoch %llu",
                          other->node, node, shard, (unsigned long long)epoch);
    }
    /* After a fall back the views that were lost are not known to all. */
    bool is_told = host->fsm.lost >= world->lost_max || host->fsm.view.base > world->lost_max;
    if (epoch < world->started[shard] && is_told && !has_lost_numbers(world))
        rota_sim_fail(world->sim, "O2: shard %u starts with epoch %llu after %llu", shard,
                      (unsigned long long)epoch, (unsigned long long)world->started[shard]);
    if (epoch > world->started[shard])
        world->started[shard] = epoch;
    if (world->n_claims < CLAIMS_MAX)
        world->claims[world->n_claims++] = claim;
    else
        rota_sim_fail(world->sim, "more than %d starts", CLAIMS_MAX);
}

static void start_shard(struct world *world, uint32_t node, uint32_t shard, uint64_t epoch)
{
    note_start(world, node, shard, epoch);
    world->hosts[node].serving[shard] = epoch;
    world->hosts[node].failing[shard] = world->cannot[node][shard] || world->broken[node][shard];
    world->hosts[node].told[shard] = false;
}

static void stop_shard(struct world *world, uint32_t node, uint32_t shard, const char *why)
{
    struct host *host = &world->hosts[node];
    rota_sim_note(world->sim, node, "stops shard %u: %s", shard, why);
    if (world->stops_late || (world->keeps_stops && host->is_draining))
        host->late[shard] = host->serving[shard];
    if (world->stops_late)
        rota_sim_set_timer(world->sim, node, TIMER_LATE_STOP, ROTA_SIM_MONO,
                           clock_of(world, node) + TTL / 4);
    host->serving[shard] = 0;
    host->failing[shard] = false;
}

/* --- the other engine --- */

static void claim_slot(struct world *world, uint32_t node)
{
    static struct request request;
    struct host *host = &world->hosts[node];
    memset(&request, 0, offsetof(struct request, text));
    request.type = REQUEST_CLAIM;
    request.row.instance = host->fsm.instance;
    request.epoch = host->run_floor;
    request.run = host->run;
    request.ask = ++host->n_claims;
    request.ask_of_life = (uint64_t)rota_sim_life(world->sim, node) << 32 | request.ask;
    for (uint32_t shard = 0; shard < world->n_shards; shard++)
        request.known |= (uint64_t)(host->serving[shard] != 0) << shard;
    send_request(world, node, &request);
    host->claim_at = clock_of(world, node) + TTL / 8;
}

static void release_slot(struct world *world, uint32_t node, uint32_t shard, uint64_t epoch)
{
    static struct request request;
    memset(&request, 0, offsetof(struct request, text));
    request.type = REQUEST_RELEASE;
    request.shard = shard;
    request.epoch = epoch;
    send_request(world, node, &request);
}

static void halt_engine(struct world *world, uint32_t node, const char *why)
{
    struct host *host = &world->hosts[node];
    for (uint32_t shard = 0; shard < world->n_shards; shard++)
        if (host->serving[shard] != 0) {
            uint64_t epoch = host->serving[shard];
            stop_shard(world, node, shard, why);
            release_slot(world, node, shard, epoch);
        }
    host->run = 0;
}

static void hear_claimed(struct world *world, uint32_t node, const struct answer *answer)
{
    struct host *host = &world->hosts[node];
    if (answer->shard >= world->n_shards || answer->ask != host->n_claims)
        return; /* nothing, or an answer to a claim that was given up */
    host->n_claims++;
    if (host->run == 0 || host->run != answer->run ||
        !rota_view_fsm_is_running(&host->fsm, clock_of(world, node))) {
        release_slot(world, node, answer->shard, answer->epoch);
        return;
    }
    rota_view_fsm_note_epoch(&host->fsm, answer->epoch);
    start_shard(world, node, answer->shard, answer->epoch);
}

/* --- a node's driver: the machine --- */

/* What follows from a view is the same for all who know it, however they came to it. */
static void compare_views(struct world *world, uint32_t node)
{
    const struct rota_view_fsm *fsm = &world->hosts[node].fsm;
    uint64_t hash = 1469598103934665603u;
    if (fsm->view.number == 0)
        return;
    for (uint32_t shard = 0; shard < world->n_shards; shard++) {
        struct rota_view_owner owner = {0};
        if (!rota_view_fsm_owner(fsm, shard, &owner))
            owner.epoch = fsm->epochs[shard];
        hash = (hash ^ owner.instance) * 1099511628211u;
        hash = (hash ^ owner.epoch) * 1099511628211u;
    }
    for (size_t i = 0; i < world->n_views; i++)
        if (world->views[i].number == fsm->view.number) {
            if (world->views[i].hash != hash && !has_lost_numbers(world))
                rota_sim_fail(world->sim, "R1: node %u sees view %llu otherwise than another", node,
                              (unsigned long long)fsm->view.number);
            return;
        }
    if (world->n_views == NUMBERS_MAX)
        rota_sim_fail(world->sim, "more than %d views", NUMBERS_MAX);
    else
        world->views[world->n_views++] = (struct known_view){fsm->view.number, hash};
}

/* The driver and the machine agree on what is served. */
static void compare_served(struct world *world, uint32_t node)
{
    const struct host *host = &world->hosts[node];
    rota_time now = clock_of(world, node);
    for (uint32_t shard = 0; shard < world->n_shards && host->run == 0; shard++)
        if (rota_view_fsm_epoch(&host->fsm, now, shard) !=
                (now < host->until ? host->serving[shard] : 0) &&
            !world->has_no_end)
            rota_sim_fail(world->sim, "node %u has told otherwise of shard %u than it says", node,
                          shard);
}

void start_node(void *data, uint64_t node)
{
    struct world *world = data;
    rota_sim_start(world->sim, (uint32_t)node);
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

static void carry_out(struct world *world, uint32_t node, const struct rota_view_actions *todo)
{
    struct host *host = &world->hosts[node];
    const char *why = rota_view_fsm_look_why_text(todo->why);
    for (size_t i = 0; i < todo->n_stops; i++) {
        if (host->serving[todo->stops[i].shard] != todo->stops[i].epoch && !world->keeps_stops)
            rota_sim_fail(world->sim, "node %u stops a shard that it does not serve", node);
        stop_shard(world, node, todo->stops[i].shard, why);
        if (rota_sim_now(world->sim) > OWNED_AT && !host->is_over &&
            todo->why != ROTA_VIEW_WHY_SHUTDOWN)
            rota_sim_fail(world->sim, "O5: node %u loses shard %u in peace: %s", node,
                          todo->stops[i].shard, why);
    }
    if (todo->has_halt)
        halt_engine(world, node, why);
    for (size_t i = 0; i < todo->n_asks; i++)
        send_ask(world, node, &todo->asks[i]);
    for (size_t i = 0; i < todo->n_starts; i++)
        start_shard(world, node, todo->starts[i].shard, todo->starts[i].epoch);
    host->until = todo->until;
    if (todo->has_run) {
        host->run = ++host->n_runs;
        host->run_floor = todo->floor;
        claim_slot(world, node);
    }
    world->n_outcomes += todo->n_outcomes;
    if (todo->went_back && world->n_failovers == 0)
        rota_sim_fail(world->sim, "node %u takes the store to have gone back", node);
    if (todo->is_done)
        end_host(world, node);
}

void drive(struct world *world, uint32_t node, struct rota_view_event event)
{
    struct host *host = &world->hosts[node];
    if (!host->is_ready || host->is_over)
        return;
    if (world->on_event)
        world->on_event(world, node, &event);
    struct rota_view_actions todo = rota_view_fsm_step(&host->fsm, clock_of(world, node), &event);
    if (world->on_step)
        world->on_step(world, node, &todo);
    carry_out(world, node, &todo);
    arm_give_up(world, node);
    rota_sim_set_timer(world->sim, node, TIMER_DEADLINE, ROTA_SIM_MONO,
                       rota_view_fsm_deadline(&host->fsm));
    compare_served(world, node);
    if (todo.is_changed)
        compare_views(world, node);
    if (todo.is_changed && world->on_view)
        world->on_view(world, node);
}

/* A node that has read knows the very view that was there. */
static void compare_read(struct world *world, uint32_t node, const struct answer *answer)
{
    const struct rota_view_fsm *fsm = &world->hosts[node].fsm;
    if (!world->changes_views && answer->number != 0 && fsm->view.number == answer->number &&
        hash_view(&fsm->view) != answer->hash)
        rota_sim_fail(world->sim, "R1: node %u has read view %llu and knows another", node,
                      (unsigned long long)answer->number);
}

static void hear_sight(struct world *world, uint32_t node, const struct answer *answer)
{
    struct rota_view view = {0};
    struct rota_error error;
    struct rota_view_row rows[VIEW_TABLE_ROWS_MAX];
    struct rota_view_event event = {.type = ROTA_VIEW_SIGHT,
                                    .ask = answer->ask,
                                    .rows = rows,
                                    .n_rows = answer->n_rows,
                                    .unix_ms = answer->unix_ms,
                                    .highest = answer->highest};
    for (size_t i = 0; i < answer->n_rows; i++)
        rows[i] = (struct rota_view_row){.name = rota_str(answer->rows[i].name),
                                         .instance = answer->rows[i].instance,
                                         .pings = answer->rows[i].pings,
                                         .ttl = answer->rows[i].ttl,
                                         .acked = answer->rows[i].acked,
                                         .highest = answer->rows[i].highest,
                                         .weight = answer->rows[i].weight,
                                         .zone = rota_str(answer->rows[i].zone),
                                         .is_draining = answer->rows[i].is_draining};
    if (answer->text_size > 0 || answer->number == 0)
        event.view = &view;
    if (answer->text_size > 0 &&
        rota_view_text_parse(rota_str_of(answer->text, answer->text_size), &view, &error)) {
        rota_sim_fail(world->sim, "a view is no view: %s", error.text);
        return;
    }
    bool is_awaited = world->hosts[node].fsm.seek_ask == answer->ask;
    drive(world, node, event);
    if (is_awaited)
        compare_read(world, node, answer);
    rota_view_deinit(&view);
}

static void host_hear(struct world *world, uint32_t node, struct rota_str message)
{
    static struct answer answer;
    memcpy(&answer, message.data, message.size);
    if (answer.host_life != rota_sim_life(world->sim, node))
        return;
    if (answer.to == REQUEST_CLAIM) {
        hear_claimed(world, node, &answer);
        return;
    }
    forget_ask(&world->hosts[node], answer.ask);
    if (answer.to == REQUEST_READ)
        hear_sight(world, node, &answer);
    else
        drive(world, node, (struct rota_view_event){.type = answer.type, .ask = answer.ask});
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
        drive(world, node, (struct rota_view_event){.type = ROTA_VIEW_UNKNOWN, .ask = open.ask});
        i = 0; /* others may have been added */
    }
    arm_give_up(world, node);
}

static void host_act(struct world *world, uint32_t node)
{
    struct host *host = &world->hosts[node];
    for (uint32_t shard = 0; shard < world->n_shards; shard++) {
        struct effect effect = {.shard = shard,
                                .node = node,
                                .life = rota_sim_life(world->sim, node),
                                .epoch = host->serving[shard] | host->late[shard]};
        if (is_served(world, node, shard))
            rota_sim_send(world->sim, node, RESOURCE, rota_str_of(&effect, sizeof effect));
    }
    if (host->run != 0 && clock_of(world, node) >= host->claim_at)
        claim_slot(world, node);
    rota_sim_set_timer(world->sim, node, TIMER_EFFECT, ROTA_SIM_MONO,
                       clock_of(world, node) + TTL / 10);
}

/* --- what the world calls --- */

static void host_start(struct world *world, uint32_t node)
{
    struct host *host = &world->hosts[node];
    struct rota_random *random = rota_sim_random(world->sim);
    struct rota_error error;
    char name[VIEW_TABLE_NAME_MAX], seats[2][VIEW_TABLE_NAME_MAX];
    bool is_draining = host->is_draining;
    name_of(world, node, name);
    name_of(world, FIRST_HOST, seats[0]);
    name_of(world, FIRST_HOST + 1, seats[1]);
    const struct rota_str names[] = {rota_str(seats[0]), rota_str(seats[1])};
    *host = (struct host){.is_draining = is_draining, .seed = rota_random_next(random)};
    if (rota_view_fsm_init(&host->fsm, clock_of(world, node),
                           &(struct rota_view_fsm_options){.space = rota_str("space"),
                                                           .name = rota_str(name),
                                                           .zone = rota_str(node % 2 ? "a" : "b"),
                                                           .n_shards = world->n_shards,
                                                           .engine = world->engine,
                                                           .seats = names,
                                                           .n_seats = 2,
                                                           .ttl = TTL,
                                                           .is_alone = world->is_alone,
                                                           .is_observer = node == world->observer,
                                                           .seed = host->seed},
                           &error)) {
        rota_sim_fail(world->sim, "node %u: %s", node, error.text);
        return;
    }
    host->is_ready = true;
    if (world->on_made)
        world->on_made(world, node);
    if (is_draining)
        drive(world, node, (struct rota_view_event){.type = ROTA_VIEW_DRAIN});
    rota_sim_set_timer(world->sim, node, TIMER_DEADLINE, ROTA_SIM_MONO,
                       rota_view_fsm_deadline(&host->fsm));
    host_act(world, node);
}

static void on_crash(void *data, uint32_t node)
{
    struct world *world = data;
    struct host *host = &world->hosts[node];
    if (host->is_ready)
        rota_view_fsm_deinit(&host->fsm);
    *host = (struct host){.is_draining = host->is_draining};
}

static void database_start(struct world *world)
{
    if (!world->is_failing_over)
        return;
    world->is_failing_over = false;
    world->table = world->replica;
    world->lost_max = world->number_max;
    world->n_failovers++;
    world->away_until = rota_sim_now(world->sim) + HOLD;
    rota_sim_note(world->sim, DATABASE, "is the replica now");
}

static void on_start(void *data, uint32_t node)
{
    struct world *world = data;
    if (node == DATABASE)
        database_start(world);
    else if (node >= FIRST_HOST)
        host_start(world, node);
}

static void on_message(void *data, uint32_t node, uint32_t from, struct rota_str message)
{
    static struct request request;
    struct world *world = data;
    struct effect effect;
    if (node == RESOURCE) {
        memcpy(&effect, message.data, sizeof effect);
        resource_apply(world, &effect);
    } else if (node == DATABASE) {
        memcpy(&request, message.data, message.size);
        if (request.database_life == rota_sim_life(world->sim, DATABASE))
            database_answer(world, from, &request);
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
    else if (timer == TIMER_LATE_STOP)
        memset(world->hosts[node].late, 0, sizeof world->hosts[node].late);
    else
        drive(world, node, (struct rota_view_event){.type = ROTA_VIEW_TICK});
}

void calm(void *data, uint64_t number)
{
    struct world *world = data;
    const struct rota_sim_link link = {.delay_mean = 5 * ROTA_MSEC, .delay_max = 50 * ROTA_MSEC};
    (void)number;
    for (uint32_t node = FIRST_HOST; node < FIRST_HOST + world->n_hosts; node++) {
        rota_sim_set_link(world->sim, node, DATABASE, &link);
        rota_sim_set_link(world->sim, DATABASE, node, &link);
    }
}

/* --- what must hold --- */

static const char *owners_hold(void *data)
{
    struct world *world = data;
    for (uint32_t shard = 0; shard < world->n_shards; shard++) {
        int n = 0;
        for (uint32_t node = FIRST_HOST; node < FIRST_HOST + world->n_hosts; node++)
            n += is_served(world, node, shard);
        if (n > 1)
            return "O4: two nodes serve a shard";
    }
    for (uint32_t node = FIRST_HOST; node < FIRST_HOST + world->n_hosts; node++) {
        const struct host *host = &world->hosts[node];
        if (!host->is_ready || !rota_view_fsm_is_drained(&host->fsm))
            continue;
        for (uint32_t shard = 0; shard < world->n_shards; shard++)
            if (is_served(world, node, shard))
                return "O7: a drained node serves a shard";
    }
    return NULL;
}

/* --- making worlds --- */

static struct rota_sim_link make_link(struct rota_random *shape, double loss)
{
    const rota_time means[] = {5 * ROTA_MSEC, 50 * ROTA_MSEC, 400 * ROTA_MSEC};
    return (struct rota_sim_link){.delay_min = ROTA_MSEC,
                                  .delay_mean = means[rota_random_below(shape, 3)],
                                  .delay_max = 4 * ROTA_SEC,
                                  .loss = loss};
}

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

void make_world(struct world *world, struct sim_case *run, struct rota_random *shape)
{
    const int32_t drifts[] = {200, 60000};
    int32_t drift = drifts[rota_random_below(shape, 2)];
    world->n_hosts = (uint32_t)rota_random_range(shape, 2, HOSTS_MAX);
    world->n_shards = (uint32_t)rota_random_range(shape, 1, SHARDS_MAX);
    world->give_up_after = rota_random_range(shape, 1, 12) * (TTL / 8);
    world->are_twins = rota_random_chance(shape, 0.2);
    world->is_alone = !world->are_twins && rota_random_chance(shape, 0.5);
    world->sim = sim_case_new(run, (struct rota_sim_options){.n_nodes = FIRST_HOST + world->n_hosts,
                                                             .skew_max = SKEW,
                                                             .drift_max_ppm = drift,
                                                             .on_start = on_start,
                                                             .on_crash = on_crash,
                                                             .on_message = on_message,
                                                             .on_timer = on_timer,
                                                             .data = world});
    make_links(world, shape);
    rota_sim_add_check(world->sim, owners_hold, world);
}

void start_faults(struct world *world)
{
    rota_sim_chaos_start(&world->host_chaos, world->sim,
                         &(struct rota_sim_chaos_options){.first_node = FIRST_HOST,
                                                          .quiet_at = QUIET_AT,
                                                          .crash_every = 8 * ROTA_SEC,
                                                          .crash_for = 2 * ROTA_SEC,
                                                          .pause_every = 5 * ROTA_SEC,
                                                          .pause_for = 4 * ROTA_SEC,
                                                          .split_every = 8 * ROTA_SEC,
                                                          .split_for = 4 * ROTA_SEC,
                                                          .jump_every = 5 * ROTA_SEC,
                                                          .jump_max = 3 * ROTA_HOUR});
    rota_sim_call(world->sim, QUIET_AT, calm, world, 0);
}

void start_database_faults(struct world *world)
{
    rota_sim_chaos_start(&world->database_chaos, world->sim,
                         &(struct rota_sim_chaos_options){.first_node = DATABASE,
                                                          .n_nodes = 1,
                                                          .quiet_at = QUIET_AT,
                                                          .crash_every = 20 * ROTA_SEC,
                                                          .crash_for = 2 * ROTA_SEC,
                                                          .pause_every = 20 * ROTA_SEC,
                                                          .pause_for = ROTA_SEC,
                                                          .jump_every = 8 * ROTA_SEC,
                                                          .jump_max = 3 * ROTA_HOUR});
}

void end_world(struct world *world, struct sim_case *run)
{
    for (uint32_t node = FIRST_HOST; node < FIRST_HOST + world->n_hosts; node++)
        on_crash(world, node);
    sim_case_end(run, world->sim);
}
