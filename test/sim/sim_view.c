/* Nodes own the shards of a ring or static space by views in one database, while
 * everything fails: nodes crash, pause for longer than their rows last, are cut off, shut
 * down, drain, and come back under the same name, or two of one name at once; statements
 * are lost, late, or done without an answer; clocks drift, and wall clocks jump by hours,
 * the database's too; the database restarts, and falls back to a state of before. Pins,
 * weights, seats and the engine change while earlier changes are not yet known to all. Starts
 * fail on some nodes, for a while or forever; these refuse the shard, and ask for another try.
 *
 * Checked after every event:
 *  - O1: no two nodes start, or act for, a shard with the same epoch;
 *  - O2: a shard never starts with an epoch below one that it had;
 *  - O3: the resource applies no effect of an epoch after one of a later epoch;
 *  - O4: no two nodes serve a shard, be they running or paused;
 *  - O5: some time after the last fault every shard is served by whom the view names,
 *    all that are willing are in the view, and it stays so;
 *  - O7: a node that says it is drained serves nothing;
 *  - R4: a node does not start what it has refused while another could;
 *  - R1: owners and epochs are the same for all who know a view, however they came to it,
 *    and a node that has read knows the view that was there.
 *
 * In some worlds the space is keyed. Then R1, O1 and O2 are checked of some keys
 * (view_key_check.h), and P5: who is said to have had a key before is who had it.
 *
 * After a fall back the database is unreachable until the rows of before are over. O2 is then
 * checked of those who know of what was lost, or whose view comes after it. In some worlds its
 * clock was set back as well, so that numbers and epochs come twice: then O4, O5, O7
 * and the latter part of R1 have to hold. */
#include "view_key_check.h"
#include "view_node.h"

#include <string.h>

enum kind {
    KIND_STORM, /* all but a fall back */
    KIND_STALE, /* the database falls back to a state of before */
    N_KINDS,
};

enum plant {
    PLANT_NONE,
    PLANT_EARLY_START,
    PLANT_ACK_FIRST,
    PLANT_NO_HISTORY,
    PLANT_OLD_EPOCH,
    PLANT_NO_GUARD,
    PLANT_WALL,
    PLANT_BLIND_EVICT,
    PLANT_NO_CAS,
    PLANT_NO_PINS,
    PLANT_KEEPS_DRAINED,
    PLANT_ROWS_FIRST,
    PLANT_ARRIVAL,
    PLANT_UNKNOWN,
    PLANT_SAME_INSTANCE,
    PLANT_TIMERS,
    PLANT_BLIND_JOIN,
    PLANT_NO_FENCE,
    PLANT_ONE_PAST,
    PLANT_ONE_NUMBER,
    PLANT_REFUSER_STARTS,
    PLANT_REFUSED_EPOCH,
    PLANT_NO_REFUSALS,
    PLANT_NO_RETRY,
    PLANT_REFUSES_STILL,
    PLANT_KEY_EPOCH, /* from here on the space is keyed */
    PLANT_KEY_ZONES,
    PLANT_KEY_LIVES,
    PLANT_KEY_FORMER,
    N_PLANTS,
};

static const struct sim_plant plants[N_PLANTS - 1] = {
    {"early-start", "a shard is started before its former owners have acked"},
    {"ack-first", "a view is acked before what was lost is stopped"},
    {"no-history", "who was a member before is forgotten, and so when an owner changed"},
    {"old-epoch", "who gets a shard back goes on with the epoch that it had"},
    {"no-guard", "clocks are taken to run evenly"},
    {"wall-clock", "a row is removed when the database's clock says that it is old"},
    {"blind-evict", "a row is removed although it has changed"},
    {"no-cas", "a view replaces whichever is there"},
    {"no-pins", "one node does not look at pins"},
    {"keeps-drained", "a node that drains goes on with what it has"},
    {"rows-first", "the rows that come with a view are older than it"},
    {"arrival", "a beat is counted from when its answer came"},
    {"unknown", "a beat with unknown outcome is taken as success"},
    {"same-instance", "a node has the same instance after a restart"},
    {"timers", "a shard is served until a timer says otherwise"},
    {"blind-join", "a node takes the row of its name from whoever has it"},
    {"no-fence", "the resource does not look at epochs"},
    {"one-past", "a view is followed although it comes from another past"},
    {"one-number", "a view is taken for the known one by its number alone"},
    {"refuser-starts", "a node does not look at its own refusals"},
    {"refused-epoch", "the next owner of a shard that was refused has the epoch of the first"},
    {"no-refusals", "one node does not look at refusals of others"},
    {"no-retry", "a node that has refused a shard never asks for another try"},
    {"refuses-still", "a refusal outlives the member that made it"},
    {"key-epoch", "a node counts the epochs of keys from the first view that it knew"},
    {"key-zones", "one node places keys without a look at zones"},
    {"key-lives", "a key has the same epoch in the next life of its owner"},
    {"key-former", "another node is said to have had a key than had it"},
};

/* --- bugs --- */

static void sabotage_request(struct world *world, uint32_t node, struct request *request)
{
    struct view_table *table = &world->table;
    struct view_table_row *row = view_table_find(table, request->row.name);
    rota_time now = rota_sim_wall(world->sim, DATABASE);
    (void)node;
    if (world->plant == PLANT_BLIND_EVICT && request->type == REQUEST_EVICT && row)
        request->row.pings = row->pings;
    if (world->plant == PLANT_BLIND_JOIN && request->type == REQUEST_JOIN && row)
        request->former = row->instance;
    if (world->plant == PLANT_NO_CAS && request->type == REQUEST_PROPOSE)
        request->known = table->number;
    bool is_by_number =
        world->plant == PLANT_ONE_NUMBER || world->plant == PLANT_NO_CAS || world->changes_views;
    if (is_by_number && request->known == table->number)
        request->known_hash = view_table_hash(table);
    if (world->plant == PLANT_WALL && request->type == REQUEST_READ)
        for (size_t i = 0; i < table->n_rows; i++)
            if (table->rows[i].last_ping + TTL < now)
                view_table_remove(table, &table->rows[i--]);
}

static void sabotage_answer(struct world *world, uint32_t node, struct answer *answer)
{
    if (answer->to != REQUEST_READ)
        return;
    for (size_t i = 0; i < answer->n_rows && world->plant == PLANT_EARLY_START; i++)
        answer->rows[i].acked = answer->number;
    bool is_early = world->plant == PLANT_ROWS_FIRST && node % 2 == 0; /* the others are right */
    if (is_early && rota_sim_now(world->sim) < QUIET_AT) {
        answer->n_rows = world->replica.n_rows;
        memcpy(answer->rows, world->replica.rows, sizeof answer->rows);
    }
}

static void sabotage_view(const struct world *world, uint32_t node, struct rota_view *view)
{
    size_t n = 0;
    char name[VIEW_TABLE_NAME_MAX];
    name_of(world, node, name);
    if (world->plant == PLANT_NO_PINS && node == FIRST_HOST)
        view->pins.size = 0;
    for (size_t i = 0; i < view->refusals.size; i++) {
        struct rota_view_refusal *refusal = &view->refusals.items[i];
        bool is_own = rota_str_is_equal(refusal->name, rota_str(name));
        if (world->plant == PLANT_REFUSED_EPOCH)
            refusal->span.from = view->base;
        if (!(world->plant == PLANT_REFUSER_STARTS && is_own) &&
            !(world->plant == PLANT_NO_REFUSALS && !is_own && node == FIRST_HOST))
            view->refusals.items[n++] = *refusal;
    }
    view->refusals.size = n;
    n = 0;
    for (size_t i = 0; i < view->members.size && world->plant == PLANT_NO_HISTORY; i++)
        if (view->members.items[i].span.to == 0)
            view->members.items[n++] = view->members.items[i];
    if (world->plant == PLANT_NO_HISTORY)
        view->members.size = n;
}

/* What is known becomes what the view that was read tells of that time. */
static void forge_past(struct rota_view_fsm *fsm, const struct rota_view *read)
{
    uint64_t number = fsm->view.number;
    if (read->number <= number || read->base > number)
        return;
    rota_view_deinit(&fsm->view);
    if (!rota_view_copy(read, &fsm->view, NULL))
        fsm->view.number = number;
}

static void sabotage_event(struct world *world, uint32_t node, struct rota_view_event *event)
{
    struct rota_view_fsm *fsm = &world->hosts[node].fsm;
    bool is_own = event->ask != 0 && event->ask == fsm->own_ask;
    if (world->plant == PLANT_ARRIVAL && is_own)
        fsm->own_sent_at = clock_of(world, node);
    if (world->plant == PLANT_UNKNOWN && is_own && event->type == ROTA_VIEW_UNKNOWN &&
        fsm->own_type == ROTA_VIEW_BEAT)
        event->type = ROTA_VIEW_BEATEN;
    if (event->view)
        sabotage_view(world, node, (struct rota_view *)event->view);
    if (world->plant == PLANT_ONE_PAST && event->view && event->ask == fsm->seek_ask)
        forge_past(fsm, event->view);
}

/* Half of the past is forgotten when it becomes too much, which takes longer than these
 * worlds last. So some is forgotten at any time. */
static void forget_some(struct world *world, uint32_t node, const struct rota_view_actions *todo)
{
    uint64_t numbers[ROTA_VIEW_STATES_MAX + 1];
    struct rota_view *next = &world->hosts[node].fsm.proposal;
    for (size_t i = 0; i < todo->n_asks; i++)
        if (todo->asks[i].type == ROTA_VIEW_PROPOSE && chance(world, 0.2)) {
            size_t n = rota_view_states(next, numbers);
            rota_view_rebase(next, numbers[rota_random_below(rota_sim_random(world->sim), n)]);
        }
}

/* Whether the node of this name has refused the shard, by the view that is known there. */
static bool has_refused(const struct rota_view *view, uint32_t shard, struct rota_str name)
{
    size_t n, first = rota_view_refusals_of(view, shard, &n);
    for (size_t i = first; i < first + n; i++)
        if (view->refusals.items[i].span.to == 0 &&
            rota_str_is_equal(view->refusals.items[i].name, name))
            return true;
    return false;
}

static void check_start(struct world *world, uint32_t node, uint32_t shard)
{
    const struct rota_view_fsm *fsm = &world->hosts[node].fsm;
    bool has_other = fsm->view.engine == ROTA_VIEW_STATIC;
    if (!has_refused(&fsm->view, shard, fsm->options.name))
        return;
    for (size_t i = 0; i < fsm->view.members.size; i++)
        if (fsm->view.members.items[i].span.to == 0)
            has_other |= !has_refused(&fsm->view, shard, fsm->view.members.items[i].name);
    if (has_other)
        rota_sim_fail(world->sim, "R4: node %u starts shard %u, which it has refused", node, shard);
}

/* The end of a member is not the end of its refusals. */
static void keep_refusals(struct rota_view *next)
{
    for (size_t i = 0; i < next->refusals.size; i++) {
        struct rota_view_refusal *refusal = &next->refusals.items[i];
        if (refusal->span.to != next->number)
            continue;
        bool is_gone = true;
        for (size_t j = 0; j < next->members.size; j++)
            is_gone &= next->members.items[j].span.from > refusal->span.from ||
                       next->members.items[j].span.to != 0 ||
                       !rota_str_is_equal(next->members.items[j].name, refusal->name);
        if (is_gone)
            refusal->span.to = 0;
    }
}

static void sabotage_step(struct world *world, uint32_t node, const struct rota_view_actions *todo)
{
    struct host *host = &world->hosts[node];
    forget_some(world, node, todo);
    for (size_t i = 0; i < todo->n_asks && world->plant == PLANT_REFUSES_STILL; i++)
        if (todo->asks[i].type == ROTA_VIEW_PROPOSE)
            keep_refusals(&host->fsm.proposal);
    for (size_t i = 0; i < todo->n_starts; i++)
        check_start(world, node, todo->starts[i].shard);
    for (size_t i = 0; i < todo->n_starts && world->plant == PLANT_OLD_EPOCH; i++) {
        struct rota_view_shard *start = &host->fsm.starts[i];
        if (host->former[start->shard] == 0)
            host->former[start->shard] = start->epoch;
        start->epoch = host->fsm.held[start->shard] = host->former[start->shard];
    }
}

static void sabotage_host(struct world *world, uint32_t node)
{
    struct rota_view_fsm *fsm = &world->hosts[node].fsm;
    if (world->plant == PLANT_NO_GUARD)
        fsm->guard = 0;
    if (world->plant == PLANT_SAME_INSTANCE)
        rota_random_init(&fsm->random, node);
}

static void plant(struct world *world)
{
    world->on_request = sabotage_request;
    world->on_answer = sabotage_answer;
    world->on_event = sabotage_event;
    world->on_made = sabotage_host;
    world->on_step = sabotage_step;
    world->stops_late = world->plant == PLANT_ACK_FIRST;
    world->keeps_stops = world->plant == PLANT_KEEPS_DRAINED;
    world->has_no_end = world->plant == PLANT_TIMERS;
    world->skips_fence = world->plant == PLANT_NO_FENCE;
    /* They are not to be found out by their text, which another node would not look at. */
    world->changes_views = world->plant == PLANT_NO_PINS || world->plant == PLANT_NO_HISTORY ||
                           world->plant == PLANT_REFUSER_STARTS ||
                           world->plant == PLANT_REFUSED_EPOCH || world->plant == PLANT_NO_REFUSALS;
}

/* --- operators --- */

static void wish(struct world *world, uint32_t node, struct rota_view_wish made)
{
    made.id = ++world->n_wishes;
    drive(world, node, (struct rota_view_event){.type = ROTA_VIEW_WISH, .wish = made});
}

static void wish_seats(struct world *world, uint32_t node, struct rota_random *random)
{
    char names[HOSTS_MAX][VIEW_TABLE_NAME_MAX];
    struct rota_str seats[HOSTS_MAX];
    size_t n = 1 + rota_random_below(random, HOSTS_MAX);
    for (size_t i = 0; i < n; i++) {
        uint32_t who = FIRST_HOST + (uint32_t)rota_random_below(random, world->n_hosts);
        name_of(world, who, names[i]);
        seats[i] = rota_str(names[i]);
    }
    wish(world, node,
         (struct rota_view_wish){.type = ROTA_VIEW_RESEAT, .seats = seats, .n_seats = n});
}

static void drain(struct world *world, uint32_t node, bool is_draining)
{
    world->hosts[node].is_draining = is_draining;
    drive(world, node,
          (struct rota_view_event){.type = is_draining ? ROTA_VIEW_DRAIN : ROTA_VIEW_UNDRAIN});
}

static void disturb(struct world *world, uint32_t node, struct rota_random *random)
{
    char name[VIEW_TABLE_NAME_MAX];
    uint32_t shard = world->n_shards ? (uint32_t)rota_random_below(random, world->n_shards) : 0;
    enum rota_view_engine to = chance(world, 0.5) ? ROTA_VIEW_RING : ROTA_VIEW_STATIC;
    uint32_t weight = 500 * (uint32_t)rota_random_range(random, 1, 4);
    name_of(world, FIRST_HOST + (uint32_t)rota_random_below(random, world->n_hosts), name);
    switch (rota_random_below(random, 10)) {
    case 0:
        drive(world, node, (struct rota_view_event){.type = ROTA_VIEW_SHUTDOWN});
        break;
    case 1:
    case 2:
        if (!world->are_twins)
            drain(world, node, !world->hosts[node].is_draining);
        break;
    case 3:
        drive(world, node,
              (struct rota_view_event){.type = ROTA_VIEW_WEIGH,
                                       .weight = weight,
                                       .zone = rota_str(weight > 1000 ? "a" : "b")});
        break;
    case 4:
        wish(world, node, (struct rota_view_wish){.type = ROTA_VIEW_UNPIN, .shard = shard});
        break;
    case 5:
        wish_seats(world, node, random);
        break;
    case 6:
        wish(world, node, (struct rota_view_wish){.type = ROTA_VIEW_MIGRATE, .to = to});
        break;
    case 7:
        wish(world, node, (struct rota_view_wish){.type = ROTA_VIEW_COMMIT, .to = to});
        break;
    default:
        wish(
            world, node,
            (struct rota_view_wish){.type = ROTA_VIEW_PIN, .shard = shard, .name = rota_str(name)});
        break;
    }
}

/* --- starts that fail --- */

static void mend_shard(struct world *world, uint32_t node, uint32_t shard)
{
    struct host *host = &world->hosts[node];
    struct rota_str name = host->fsm.options.name;
    bool can = !world->cannot[node][shard] && !world->broken[node][shard];
    if (host->failing[shard] && can) {
        host->failing[shard] = false;
    } else if (host->failing[shard] &&
               (!host->told[shard] || chance(world, 0.2))) { /* tried again */
        host->told[shard] = true;
        wish(world, node,
             (struct rota_view_wish){.type = ROTA_VIEW_REFUSE,
                                     .shard = shard,
                                     .name = name,
                                     .why = rota_str("its file is broken")});
    } else if (host->fsm.me != ROTA_VIEW_NOBODY && has_refused(&host->fsm.view, shard, name) &&
               world->plant != PLANT_NO_RETRY &&
               (rota_sim_now(world->sim) < QUIET_AT ? chance(world, 0.3) : can)) {
        wish(world, node,
             (struct rota_view_wish){.type = ROTA_VIEW_RETRY, .shard = shard, .name = name});
    }
}

static void mend(void *data, uint64_t number)
{
    struct world *world = data;
    struct rota_random *random = rota_sim_random(world->sim);
    uint32_t some = FIRST_HOST + (uint32_t)rota_random_below(random, world->n_hosts);
    uint32_t shard = (uint32_t)rota_random_below(random, world->n_shards);
    if (rota_sim_now(world->sim) < QUIET_AT - ROTA_SEC)
        world->cannot[some][shard] = !world->cannot[some][shard];
    else
        memset(world->cannot, 0, sizeof world->cannot);
    for (uint32_t node = FIRST_HOST; node < FIRST_HOST + world->n_hosts; node++)
        for (shard = 0; shard < world->n_shards; shard++)
            if (world->hosts[node].is_ready && !rota_sim_is_paused(world->sim, node))
                mend_shard(world, node, shard);
    rota_sim_call(world->sim, rota_sim_now(world->sim) + rota_random_range(random, 1, 5) * TTL / 10,
                  mend, world, number + 1);
}

/* The first node, which stays in, can start all. */
static void let_starts_fail(struct world *world, struct rota_random *shape)
{
    for (uint32_t node = FIRST_HOST + 1; node < FIRST_HOST + world->n_hosts; node++)
        for (uint32_t shard = 0; shard < world->n_shards; shard++)
            world->broken[node][shard] = !world->are_twins && rota_random_chance(shape, 0.1);
    rota_sim_call(world->sim, 2 * ROTA_SEC, mend, world, 0);
}

/* --- operators, from time to time --- */

static void operate(void *data, uint64_t number)
{
    struct world *world = data;
    struct rota_random *random = rota_sim_random(world->sim);
    uint32_t node = FIRST_HOST + (uint32_t)rota_random_below(random, world->n_hosts);
    rota_time next = rota_sim_now(world->sim) + rota_sim_exponential(random, 2 * ROTA_SEC);
    if (rota_sim_is_up(world->sim, node) && !rota_sim_is_paused(world->sim, node))
        disturb(world, node, random);
    if (next < QUIET_AT)
        rota_sim_call(world->sim, next, operate, world, number + 1);
}

/* Somebody has to own what there is. */
static void leave_one(void *data, uint64_t number)
{
    struct world *world = data;
    (void)number;
    drain(world, FIRST_HOST, false);
}

/* --- a database that falls back --- */

static void replicate(void *data, uint64_t number)
{
    struct world *world = data;
    rota_time mean = world->plant == PLANT_ROWS_FIRST ? 4 * TTL : TTL;
    rota_time gap = rota_sim_exponential(rota_sim_random(world->sim), mean);
    world->replica = world->table;
    rota_sim_call(world->sim, rota_sim_now(world->sim) + gap, replicate, world, number);
}

/* The first view has its number from the clock, and the next ones count from there. */
static void set_back(void *data, uint64_t number)
{
    struct world *world = data;
    (void)number;
    rota_sim_jump_wall(world->sim, DATABASE, -ROTA_HOUR);
}

static void resume_node(void *data, uint64_t node)
{
    struct world *world = data;
    rota_sim_resume(world->sim, (uint32_t)node);
}

/* One node alone knows the views that are lost, and comes back when the others, which know none,
 * may have counted to the same numbers. */
static void leave_one_that_knows(struct world *world, rota_time back_at)
{
    struct rota_random *random = rota_sim_random(world->sim);
    uint32_t one = FIRST_HOST + (uint32_t)rota_random_below(random, world->n_hosts);
    for (uint32_t node = FIRST_HOST; node < FIRST_HOST + world->n_hosts; node++) {
        if (node != one)
            rota_sim_crash(world->sim, node);
        rota_sim_call(world->sim, back_at, start_node, world, node);
    }
    rota_sim_pause(world->sim, one);
    rota_sim_call(world->sim, back_at + HOLD + rota_random_range(random, 0, TTL), resume_node,
                  world, one);
}

static void fail_over(void *data, uint64_t number)
{
    struct world *world = data;
    struct rota_random *random = rota_sim_random(world->sim);
    rota_time back_at =
        rota_sim_now(world->sim) + ROTA_SEC + rota_sim_exponential(random, ROTA_SEC);
    rota_time next = back_at + HOLD + rota_sim_exponential(random, 12 * ROTA_SEC);
    if (back_at + HOLD >= QUIET_AT)
        return;
    world->is_failing_over = true;
    rota_sim_crash(world->sim, DATABASE);
    if (world->is_set_back)
        leave_one_that_knows(world, back_at);
    rota_sim_call(world->sim, back_at, start_node, world, DATABASE);
    rota_sim_call(world->sim, next, fail_over, world, number + 1);
}

/* --- what must hold in the end --- */

static bool is_willing(const struct world *world, uint32_t node)
{
    const struct host *host = &world->hosts[node];
    return host->is_ready && !host->is_over && !host->is_draining &&
           host->fsm.standing == ROTA_VIEW_IN;
}

/* The node with this name and instance. */
static uint32_t find_node(const struct world *world, uint64_t instance)
{
    for (uint32_t node = FIRST_HOST; node < FIRST_HOST + world->n_hosts; node++)
        if (world->hosts[node].is_ready && world->hosts[node].fsm.instance == instance)
            return node;
    return 0;
}

/* Whether the node of this name could own the shard, and does not because it once refused it. */
static bool is_lost(const struct world *world, const struct rota_view *view, struct rota_str name,
                    uint32_t shard)
{
    uint32_t member = rota_view_find(view, name);
    uint32_t node =
        member == ROTA_VIEW_NOBODY ? 0 : find_node(world, view->members.items[member].instance);
    return node != 0 && !world->broken[node][shard];
}

static const char *check_shards(const struct world *world, const struct rota_view_fsm *fsm)
{
    for (uint32_t shard = 0; shard < world->n_shards; shard++) {
        struct rota_view_owner owner = {0};
        bool is_owned = rota_view_fsm_owner(fsm, shard, &owner);
        uint32_t node = find_node(world, owner.instance);
        if (!is_owned && fsm->view.engine == ROTA_VIEW_RING)
            return "O5: a shard has no owner, long after the last fault";
        if (is_owned && (node == 0 || !is_served(world, node, shard)))
            return "O5: an owner does not serve, long after the last fault";
        const struct rota_view *view = &fsm->view;
        if (!is_owned && view->engine == ROTA_VIEW_STATIC && view->phase == ROTA_VIEW_STABLE &&
            is_lost(world, view, view->seats.items[shard % view->seats.size], shard))
            return "O5: a shard has no owner, although its node could start it";
    }
    for (size_t i = 0; i < fsm->view.pins.size; i++) {
        const struct rota_view_pin *pin = &fsm->view.pins.items[i];
        struct rota_view_owner owner = {0};
        if (pin->span.to == 0 && rota_view_find(&fsm->view, pin->name) != ROTA_VIEW_NOBODY &&
            !has_refused(&fsm->view, pin->shard, pin->name) &&
            (!rota_view_fsm_owner(fsm, pin->shard, &owner) ||
             !rota_str_is_equal(owner.name, pin->name)))
            return "O5: a pinned shard is not where it is pinned to";
    }
    return NULL;
}

static const char *all_is_owned(void *data)
{
    struct world *world = data;
    uint32_t n_willing = 0;
    if (rota_sim_now(world->sim) < OWNED_AT)
        return NULL;
    for (uint32_t node = FIRST_HOST; node < FIRST_HOST + world->n_hosts; node++) {
        const struct rota_view_fsm *fsm = &world->hosts[node].fsm;
        if (world->hosts[node].is_ready && fsm->view.number != world->table.number)
            return "O5: a node does not know the latest view";
        if (world->hosts[node].is_draining && !rota_view_fsm_is_drained(fsm))
            return "O7: a node that drains is not drained, long after the last fault";
        if (!is_willing(world, node))
            continue;
        n_willing++;
        if (fsm->me == ROTA_VIEW_NOBODY)
            return "O5: a node that is willing is not in the view";
        const char *sentence = check_shards(world, fsm);
        if (sentence)
            return sentence;
    }
    return n_willing == 0 ? "O5: nobody is in, long after the last fault" : NULL;
}

/* --- worlds --- */

/* Where a guard is missing it shows when clocks differ much and all else is quick. */
static void hurry(struct world *world)
{
    calm(world, 0);
    for (uint32_t node = FIRST_HOST; node < FIRST_HOST + world->n_hosts; node++)
        rota_sim_set_drift(world->sim, node, node % 2 ? 60000 : -60000);
}

static void check_keys(struct world *world, uint32_t node)
{
    bool is_planted = world->plant >= PLANT_KEY_EPOCH;
    enum key_plant wrong = KEY_PLANT_EPOCH + (enum key_plant)(world->plant - PLANT_KEY_EPOCH);
    key_check_view(world, node, is_planted ? wrong : KEY_PLANT_NONE);
}

/* Operators' wishes are refused, apart from weights and drains. */
static void become_keyed(struct world *world)
{
    world->n_shards = 0;
    world->engine = ROTA_VIEW_RING;
    world->on_view = check_keys;
    key_check_begin();
}

static void run(struct sim_case *run)
{
    static struct world world;
    struct rota_random shape;
    rota_random_init(&shape, run->seed);
    memset(&world, 0, sizeof world);
    world.plant = run->plant;
    enum kind kind = rota_random_chance(&shape, 0.25) ? KIND_STALE : KIND_STORM;
    world.engine = rota_random_chance(&shape, 0.7) ? ROTA_VIEW_RING : ROTA_VIEW_STATIC;
    make_world(&world, run, &shape);
    if (world.plant ? world.plant >= PLANT_KEY_EPOCH : run->seed % 4 == 0)
        become_keyed(&world);
    plant(&world);
    if (world.plant == PLANT_NO_GUARD)
        hurry(&world);
    rota_sim_add_check(world.sim, all_is_owned, &world);
    start_faults(&world);
    rota_sim_call(world.sim, ROTA_MSEC, replicate, &world, 0);
    world.is_set_back = kind == KIND_STALE && rota_random_chance(&shape, 0.3);
    if (world.is_set_back)
        rota_sim_call(world.sim, 3 * ROTA_SEC, set_back, &world, 0);
    if (kind == KIND_STALE)
        rota_sim_call(world.sim, rota_random_range(&shape, 5, 20) * ROTA_SEC, fail_over, &world, 0);
    else
        start_database_faults(&world);
    rota_sim_call(world.sim, ROTA_SEC, operate, &world, 0);
    rota_sim_call(world.sim, QUIET_AT + ROTA_MSEC, leave_one, &world, 0);
    bool fails = rota_random_chance(&shape, 0.5) || world.plant >= PLANT_REFUSER_STARTS;
    if (fails && world.n_shards > 0)
        let_starts_fail(&world, &shape);
    rota_sim_run(world.sim, END_AT);
    end_world(&world, run);
}

int main(int argc, char **argv)
{
    return sim_main(argc, argv,
                    &(struct sim_suite){
                        .name = "sim_view",
                        .n_seeds = 1000,
                        .kept = {706750413460},
                        .n_plant_seeds = 2000,
                        .plants = plants,
                        .n_plants = N_PLANTS - 1,
                        .run = run,
                    });
}
