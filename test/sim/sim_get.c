/* Gets over two data centres that fail, move and are re-sharded under them.
 *
 * Node 0 is a client with several Gets at a time, and pings; the others are hosts
 * that hold shards by lease (get_servers.h). First one dc at a time is in trouble:
 * hosts or all of it crash, stop, become slow, are cut off, deny what they hold, or it
 * goes from 4 shards to 8 host by host. Then anything happens anywhere. Then it is quiet.
 *
 * Each key of a Get has one result, the right one, or is named with a reason (C1); it
 * comes from a host that held its shard (R3) and not from one whose claim the client
 * has seen to be over (O3). Nothing begins after the deadline, nothing is left running
 * after the finish, and there is one finish. While one dc is well no Get fails, and none
 * fails before its deadline. A broadcast asks all replicas that the client knows of.
 *
 * At the end the ways to send copies are compared under growing load. */
#include "core/call/get_fsm.h"
#include "get_servers.h"
#include "sim/chaos.h"
#include "sim_main.h"

enum { N_GETS = 4, TIMER_PING = N_GETS, TIMER_START = TIMER_PING + 1, RUNNING_MAX = 256 };

#define WINDOW      (1500 * ROTA_MSEC) /* of trouble in one dc, and of rest after it */
#define N_WINDOWS   4
#define CHAOS_AT    (N_WINDOWS * WINDOW)
#define FREEZE      (600 * ROTA_MSEC) /* of a busy host, while the other dc is away */
#define QUIET_AT    (CHAOS_AT + FREEZE + 1200 * ROTA_MSEC)
#define WELL_AT     (QUIET_AT + 1000 * ROTA_MSEC)
#define END_AT      (WELL_AT + 1000 * ROTA_MSEC)
#define PING_PERIOD (100 * ROTA_MSEC)

enum plant {
    PLANT_NONE,
    PLANT_OLDER_TEACHES,
    PLANT_MISMATCH_AGAIN,
    PLANT_MISMATCH_TAKEN,
    PLANT_CALLS_TWICE,
    PLANT_LOSES_DUPLICATE,
    PLANT_NO_DEADLINE,
    PLANT_WAITS_ON,
    PLANT_STALE_TAKEN,
    PLANT_LEAVES_LOSER,
    PLANT_FORGETS_KEY,
    PLANT_BY_PLACE,
    PLANT_GIVES_UP,
    PLANT_JOINS_NOT,
    PLANT_LEFT_ABSENT,
    N_PLANTS,

    PLANT_NEVER_HEDGES = N_PLANTS, /* makes no Get wrong, but slow: freeze() finds it */
};

static const struct sim_plant plants[N_PLANTS - 1] = {
    {"older-teaches", "an answer teaches the map however old its request is"},
    {"mismatch-again", "an answer that did not match is retried like a failure"},
    {"mismatch-taken", "an answer that did not match is taken for one that did"},
    {"calls-twice", "a late answer ends a Get that has ended"},
    {"loses-duplicate", "of a key asked for twice one is answered"},
    {"no-deadline", "a Get does not know its deadline"},
    {"waits-on", "a key without a shard waits beyond the deadline"},
    {"stale-taken", "an answer of an older epoch is believed"},
    {"leaves-loser", "a try that lost is not cancelled"},
    {"forgets-key", "the keys of a host that failed are not asked for elsewhere"},
    {"by-place", "values are taken by their place in the answer"},
    {"gives-up", "a Get ends when all who hold a key have failed, before its deadline"},
    {"joins-not", "a broadcast is not told of replicas that are learned of later"},
    {"left-absent", "a key that an answer has no room for is taken for absent"},
};

/* A try that is out, and to whom. */
struct out {
    uint64_t number;
    uint32_t node;
};

struct get {
    struct rota_get_fsm fsm;
    bool is_active;
    uint64_t serial;
    rota_time started_at, deadline;
    rota_time true_start; /* true time */
    size_t n_keys, n_finished;
    uint64_t ids[REQUEST_KEYS_MAX], keys[REQUEST_KEYS_MAX];
    bool is_answered[REQUEST_KEYS_MAX];
    struct out running[RUNNING_MAX];
    size_t n_running;
    uint64_t refused[N_NODES]; /* the lesson under which the host did not match */
    uint64_t asked[N_NODES];   /* the lesson under which it was asked last */
};

/* What the client has been told by a host, by the newest of its requests. */
struct told {
    uint64_t number;
    bool has_shard;
    struct rota_interval shard;
    uint64_t epoch;
};

/* How a run is meant to be: faults and checks, or load. */
struct setting {
    enum rota_get_mode mode;
    double load; /* of one copy; 0: none to speak of */
    rota_time service;
    rota_time record_at;   /* latencies from then on */
    rota_time ping_period; /* 0 means PING_PERIOD */
    uint32_t n_slots;
    bool is_steady; /* the service takes as long each time */
    bool is_frozen; /* one host is, from when latencies are recorded */
};

struct world {
    struct rota_sim *sim;
    enum plant plant;
    struct setting setting;
    struct cluster cluster;
    struct rota_sim_chaos chaos;
    const char *violation;
    bool is_resharded;

    struct rota_interval_map *map;
    struct rota_balancer *balancer;
    struct rota_random random;
    struct rota_budget budget;
    struct rota_hedge hedge;
    struct rota_get_load load;
    struct rota_get_stats stats;
    struct rota_get_shared shared;
    struct get *gets;
    size_t n_gets; /* at a time */
    uint64_t serial;
    rota_time next_start;
    uint64_t version; /* of the map, that Gets were told of */
    struct told told[N_NODES];
    uint64_t seen[N_DCS][SHARDS_MAX + 1][SHARDS_MAX]; /* epochs, by number of shards */
    uint64_t pings[N_NODES];                          /* the one that is out, 0: none */
    uint64_t n_ended, n_failed, n_skipped;
    uint64_t n_good; /* whole, of those that are recorded */
    struct rota_histogram latency;
};

/* Of all seeds, for whoever reads the output. */
static struct rota_get_stats totals;

static rota_time clock_of(const struct world *world)
{
    return rota_sim_mono(world->sim, 0);
}

static void violate(struct world *world, const char *what)
{
    if (!world->violation)
        world->violation = what;
}

/* --- hosts and nodes --- */

static void list_hosts(struct world *world)
{
    static const char *const dcs[N_DCS] = {"east", "west"};
    static char names[N_NODES][8];
    struct rota_interval_member members[N_SERVERS];
    for (uint32_t i = 0; i < N_SERVERS; i++) {
        uint32_t node = FIRST_SERVER + i;
        int size = snprintf(names[node], sizeof names[node], "%u", node);
        members[i].address = rota_str_of(names[node], (size_t)size);
        members[i].dc = rota_str(dcs[i / N_HOSTS]);
    }
    rota_interval_map_set_hosts(world->map, members, N_SERVERS, NULL);
}

static uint64_t id_of(const struct world *world, uint32_t node)
{
    return rota_interval_map_host(world->map, node - FIRST_SERVER)->id;
}

static uint32_t node_of(const struct world *world, uint64_t id)
{
    uint32_t node = FIRST_SERVER;
    while (id_of(world, node) != id)
        node++;
    return node;
}

/* --- what must hold --- */

static uint64_t *seen_of(struct world *world, uint32_t node, const struct rota_interval *shard)
{
    return &world->seen[(node - FIRST_SERVER) / N_HOSTS][shard->of][shard->from];
}

/* An answer has come: what the client can know from now on. */
static void note_told(struct world *world, uint32_t node, const struct message *message)
{
    struct told *told = &world->told[node];
    if (message->has_shard) {
        uint64_t *seen = seen_of(world, node, &message->shard);
        *seen = message->epoch > *seen ? message->epoch : *seen;
    }
    if (message->number > told->number)
        *told = (struct told){message->number, message->has_shard, message->shard, message->epoch};
}

static void check_map(struct world *world, uint32_t node)
{
    const struct told *told = &world->told[node];
    const struct rota_interval_host *host = rota_interval_map_find(world->map, id_of(world, node));
    if (told->number &&
        (host->has_shard != told->has_shard ||
         (host->has_shard &&
          (host->epoch != told->epoch || !rota_interval_is_equal(&host->shard, &told->shard)))))
        violate(world, "the map does not say what the newest answer of a host said");
}

static void note_end(struct get *get, uint64_t number)
{
    for (size_t i = 0; i < get->n_running; i++)
        if (get->running[i].number == number) {
            get->running[i] = get->running[--get->n_running];
            return;
        }
}

/* The answer was given to the machine: what it took, it was allowed to take. */
static void check_taken(struct world *world, struct get *get, uint32_t node,
                        const struct message *message)
{
    for (size_t i = 0; i < get->n_keys; i++) {
        struct rota_get_fsm_result result = rota_get_fsm_result(&get->fsm, i);
        bool is_found = result.state == ROTA_GET_FOUND;
        if (get->is_answered[i] || (!is_found && result.state != ROTA_GET_ABSENT))
            continue;
        get->is_answered[i] = true;
        if (result.number != message->number)
            violate(world, "C1: a key was answered by another answer than this");
        if (!message->all_matched || !rota_interval_has(&message->shard, get->keys[i]))
            violate(world, "R3: a key was answered by a shard that does not hold it");
        else if (message->epoch < *seen_of(world, node, &message->shard))
            violate(world, "O3: an answer of an epoch that is over was believed");
        if (is_found != cluster_has(get->keys[i]))
            violate(world, "C1: a key that is there is not found, or the other way round");
        else if (is_found &&
                 message->entries[result.entry].key != cluster_value(get->ids[i], get->keys[i]))
            violate(world, "C1: a key has the value of another");
    }
}

/* Whether one dc was well all the time since then: the first windows are made so;
 * later only what begins when it is quiet is well. */
static bool was_well_since(const struct world *world, rota_time since)
{
    rota_time now = rota_sim_now(world->sim);
    return (since >= 300 * ROTA_MSEC && now < CHAOS_AT) || since >= WELL_AT;
}

static void check_finish(struct world *world, struct get *get,
                         const struct rota_get_fsm_action *action)
{
    rota_time now = clock_of(world);
    size_t n_missing = 0;
    if (++get->n_finished > 1)
        violate(world, "C1: a Get has ended twice");
    if (get->n_running > 0)
        violate(world, "a try was left running");
    if (now > get->deadline + 10 * ROTA_MSEC)
        violate(world, "a Get did not end in time");
    for (size_t i = 0; i < get->n_keys; i++) {
        struct rota_get_fsm_result result = rota_get_fsm_result(&get->fsm, i);
        if (result.state == ROTA_GET_PENDING)
            violate(world, "C1: a key was neither answered nor named");
        bool is_missing = result.state == ROTA_GET_NO_SHARD || result.state == ROTA_GET_NO_ANSWER;
        if (is_missing && !result.failure)
            violate(world, "C1: a key is missing for no reason");
        n_missing += is_missing;
    }
    if (n_missing != action->n_missing || (n_missing > 0) != (action->failure != 0))
        violate(world, "C1: the count of missing keys is wrong");
    bool is_long = get->deadline - get->started_at >= 600 * ROTA_MSEC &&
                   get->fsm.options.host_timeout <= ROTA_SEC / 3;
    if (n_missing > 0 && world->setting.load == 0 && is_long &&
        action->failure != ROTA_FAILURE_CANCELLED && was_well_since(world, get->true_start))
        violate(world, "a Get has failed although one dc was well");
    if (n_missing > 0 && action->failure != ROTA_FAILURE_CANCELLED && now < get->deadline)
        violate(world, "a Get has given up before its deadline");
    world->n_failed += n_missing > 0;
    world->n_ended++;
    if (get->true_start < world->setting.record_at)
        return;
    world->n_good += n_missing == 0;
    rota_histogram_record(&world->latency, (now - get->started_at) / ROTA_USEC);
}

/* --- the client --- */

static void drive(struct world *world, struct get *get, const struct rota_get_fsm_event *event);

static void send(struct world *world, struct get *get, const struct rota_get_fsm_action *action)
{
    rota_time now = clock_of(world);
    uint32_t node = node_of(world, action->host->id);
    struct message request = {
        .type = REQUEST,
        .slot = (uint32_t)(get - world->gets),
        .serial = get->serial,
        .number = action->number,
        .n = (uint32_t)action->n_keys,
    };
    for (size_t i = 0; i < action->n_keys; i++)
        request.entries[i] =
            (struct message_entry){get->ids[action->keys[i]], get->keys[action->keys[i]]};
    if (now >= get->deadline || action->deadline > get->deadline)
        violate(world, "a try begins or may run after the deadline");
    if (action->n_keys == 0)
        violate(world, "a try asks for nothing");
    if (get->refused[node] == action->host->lesson)
        violate(world, "a host was asked again for what it did not have");
    if (get->n_running == RUNNING_MAX)
        violate(world, "too many tries run");
    else
        get->running[get->n_running++] = (struct out){action->number, node};
    get->asked[node] = action->host->lesson;
    if (rota_sim_is_up(world->sim, node)) {
        rota_sim_send(world->sim, 0, node, message_bytes(&request));
    } else { /* nobody listens */
        request.type = REFUSAL;
        request.n = 0;
        rota_sim_send(world->sim, 0, 0, message_bytes(&request));
    }
}

static void cancel(struct world *world, struct get *get, uint64_t number)
{
    struct message message = {.type = CANCEL, .number = number};
    for (size_t i = 0; i < get->n_running; i++)
        if (get->running[i].number == number)
            rota_sim_send(world->sim, 0, get->running[i].node, message_bytes(&message));
    note_end(get, number);
}

static void carry_out(struct world *world, struct get *get)
{
    struct rota_get_fsm_action action;
    while (rota_get_fsm_next(&get->fsm, &action)) {
        switch (action.type) {
        case ROTA_GET_SEND:
            send(world, get, &action);
            break;
        case ROTA_GET_KEEP:
            break;
        case ROTA_GET_CANCEL_TRY:
            if (world->plant != PLANT_LEAVES_LOSER)
                cancel(world, get, action.number);
            break;
        case ROTA_GET_FINISH:
            check_finish(world, get, &action);
            get->is_active = false;
            break;
        }
    }
    if (world->plant == PLANT_GIVES_UP && get->fsm.is_backing_off && get->fsm.n_running == 0)
        get->fsm.options.deadline = clock_of(world);
    rota_time at = rota_get_fsm_deadline(&get->fsm);
    if (world->plant == PLANT_WAITS_ON && get->fsm.keys.n_idle > 0)
        at = rota_time_add(clock_of(world), PING_PERIOD);
    rota_sim_set_timer(world->sim, 0, (uint32_t)(get - world->gets), ROTA_SIM_MONO, at);
}

/* A broadcast has asked every live replica of each key that is pending. */
static void check_asked(struct world *world, const struct get *get)
{
    for (uint32_t node = FIRST_SERVER; node < N_NODES; node++) {
        const struct rota_interval_host *host =
            rota_interval_map_find(world->map, id_of(world, node));
        if (!host->is_replica || !host->is_live || get->asked[node] == host->lesson)
            continue;
        for (size_t i = 0; i < get->n_keys; i++)
            if (rota_get_fsm_result(&get->fsm, i).state == ROTA_GET_PENDING &&
                rota_interval_has(&host->shard, get->keys[i]))
                violate(world, "a broadcast has not asked a replica that it could know of");
    }
}

/* Gets hear of what the others have learned. */
static void tell_gets(struct world *world)
{
    if (world->version == rota_interval_map_version(world->map))
        return;
    world->version = rota_interval_map_version(world->map);
    for (size_t i = 0; i < world->n_gets; i++) {
        struct get *get = &world->gets[i];
        bool is_told = world->plant != PLANT_JOINS_NOT || get->fsm.keys.n_idle > 0;
        if (!get->is_active || !rota_get_fsm_wants_news(&get->fsm))
            continue;
        if (is_told)
            drive(world, get, &(struct rota_get_fsm_event){.type = ROTA_GET_MAP_CHANGED});
        if (get->is_active && world->setting.mode == ROTA_GET_MODE_BROADCAST)
            check_asked(world, get);
    }
}

static void drive(struct world *world, struct get *get, const struct rota_get_fsm_event *event)
{
    rota_get_fsm_step(&get->fsm, clock_of(world), event);
    carry_out(world, get);
    tell_gets(world);
}

static void begin(struct world *world, struct get *get)
{
    struct rota_random *random = &world->random;
    rota_time now = clock_of(world);
    bool is_loaded = world->setting.load > 0;
    static const rota_time spans[] = {50 * ROTA_MSEC, 200 * ROTA_MSEC, 600 * ROTA_MSEC, ROTA_SEC};
    rota_time span = is_loaded ? 2 * ROTA_SEC : spans[rota_random_below(random, 4)];
    get->is_active = true;
    get->serial = ++world->serial;
    get->started_at = now;
    get->true_start = rota_sim_now(world->sim);
    get->deadline = now + span;
    get->n_finished = get->n_running = 0;
    get->n_keys = is_loaded ? 4 : rota_random_below(random, REQUEST_KEYS_MAX);
    memset(get->refused, 0, sizeof get->refused);
    memset(get->asked, 0, sizeof get->asked);
    for (size_t i = 0; i < get->n_keys; i++) {
        uint64_t key = is_loaded ? rota_random_next(random) : rota_random_below(random, 32);
        get->keys[i] = key;
        get->ids[i] = key * 2654435761u % 1000003; /* the key's own */
        get->is_answered[i] = false;
    }
    struct rota_get_fsm_options options = {
        .ids = get->ids,
        .keys = get->keys,
        .n_keys = get->n_keys,
        .deadline = get->deadline,
        .ping_time = PING_PERIOD,
        .host_timeout = is_loaded || rota_random_chance(random, 0.5) ? 0 : span,
        .mode = world->setting.mode,
    };
    rota_get_fsm_start(&get->fsm, now, &options, NULL);
    if (world->plant == PLANT_NO_DEADLINE)
        get->fsm.options.deadline = ROTA_TIME_NEVER;
    for (uint32_t i = 0; i < get->n_keys && world->plant == PLANT_LOSES_DUPLICATE; i++)
        get->fsm.keys.items.items[i].first = i;
    carry_out(world, get);
}

static rota_time gap_of(const struct setting *setting)
{
    if (setting->load == 0)
        return 25 * ROTA_MSEC;
    return (rota_time)(2.734 * (double)setting->service / /* 4 keys are on so many of 4 shards */
                       (setting->load * 2 * 4 * setting->n_slots));
}

/* A Get every now and then, as many at a time as there is room for. */
static void start_some(struct world *world)
{
    rota_time now = clock_of(world);
    const struct setting *setting = &world->setting;
    for (size_t i = 0; i < world->n_gets; i++)
        if (!world->gets[i].is_active) {
            begin(world, &world->gets[i]);
            break;
        } else if (i + 1 == world->n_gets) {
            world->n_skipped++;
        }
    struct get *victim = &world->gets[rota_random_below(&world->random, world->n_gets)];
    if (setting->load == 0 && victim->is_active && rota_random_chance(&world->random, 0.02))
        drive(world, victim, &(struct rota_get_fsm_event){.type = ROTA_GET_CANCEL});
    world->next_start = now + rota_sim_exponential(&world->random, gap_of(setting));
    rota_sim_set_timer(world->sim, 0, world->n_gets + 1, ROTA_SIM_MONO, world->next_start);
}

static void ping(struct world *world)
{
    for (uint32_t node = FIRST_SERVER; node < N_NODES; node++) {
        if (world->pings[node])
            rota_interval_map_failed(world->map, id_of(world, node));
        world->pings[node] = rota_interval_map_number(world->map);
        struct message request = {.type = REQUEST, .is_ping = true, .number = world->pings[node]};
        rota_sim_send(world->sim, 0, node, message_bytes(&request));
    }
    rota_time period = world->setting.ping_period ? world->setting.ping_period : PING_PERIOD;
    rota_sim_set_timer(world->sim, 0, (uint32_t)world->n_gets, ROTA_SIM_MONO,
                       clock_of(world) + period);
}

static void on_pong(struct world *world, uint32_t from, const struct message *message)
{
    struct rota_interval_lesson lesson = {
        .number = message->number,
        .has_shard = message->has_shard,
        .shard = message->shard,
        .epoch = message->epoch,
    };
    if (world->plant == PLANT_OLDER_TEACHES)
        lesson.number = rota_interval_map_number(world->map);
    if (world->pings[from] == message->number)
        world->pings[from] = 0;
    rota_interval_map_learn(world->map, id_of(world, from), &lesson);
    tell_gets(world);
}

/* What a bug in the reading of an answer would make of it. */
static void plant_answer(struct world *world, uint32_t from, struct rota_get_fsm_event *event,
                         uint64_t *ids)
{
    const struct rota_interval_host *host = rota_interval_map_find(world->map, event->host);
    uint64_t seen = event->has_shard ? *seen_of(world, from, &event->shard) : 0;
    if (world->plant == PLANT_STALE_TAKEN && event->epoch < seen)
        event->epoch = seen;
    if (world->plant == PLANT_MISMATCH_TAKEN && !event->all_matched && host->has_shard) {
        event->all_matched = event->has_shard = true;
        event->shard = host->shard;
        event->epoch = host->epoch;
    }
    if (world->plant == PLANT_MISMATCH_AGAIN && !event->all_matched)
        *event = (struct rota_get_fsm_event){
            .type = ROTA_GET_FAILED, .number = event->number, .failure = ROTA_FAILURE_RETRIABLE};
    if (world->plant == PLANT_BY_PLACE && event->n_ids > 1) {
        uint64_t id = ids[0];
        ids[0] = ids[1];
        ids[1] = id;
    }
}

static void on_response(struct world *world, uint32_t from, const struct message *message)
{
    struct get *get = &world->gets[message->slot];
    bool is_its = get->serial == message->serial;
    uint64_t ids[REQUEST_KEYS_MAX];
    struct rota_get_fsm_problem left[REQUEST_KEYS_MAX];
    for (size_t i = 0; i < message->n; i++)
        ids[i] = message->entries[i].id;
    for (size_t i = 0; i < message->n_left; i++)
        left[i] = (struct rota_get_fsm_problem){message->entries[message->n + i].id, true};
    struct rota_get_fsm_event event = {
        .type = ROTA_GET_ANSWER,
        .number = message->number,
        .host = id_of(world, from),
        .has_shard = message->has_shard,
        .all_matched = message->all_matched,
        .shard = message->shard,
        .epoch = message->epoch,
        .cost = &message->cost,
        .ids = ids,
        .n_ids = message->n,
        .problems = left,
        .n_problems = world->plant == PLANT_LEFT_ABSENT ? 0 : message->n_left,
    };
    if (!is_its) { /* its Get is over, and another one is in its place */
        on_pong(world, from, message);
        return;
    }
    if (world->plant)
        plant_answer(world, from, &event, ids);
    for (size_t i = 0; i < get->n_running && !message->all_matched; i++)
        if (get->running[i].number == message->number)
            for (size_t t = 0; t < rota_get_fsm_n_tries(&get->fsm); t++)
                if (rota_get_fsm_try(&get->fsm, t)->number == message->number)
                    get->refused[from] = rota_get_fsm_try(&get->fsm, t)->lesson;
    note_end(get, message->number);
    if (world->plant == PLANT_CALLS_TWICE)
        get->fsm.is_done = false;
    rota_get_fsm_step(&get->fsm, clock_of(world), &event);
    check_taken(world, get, from, message);
    carry_out(world, get);
    tell_gets(world);
}

static void on_refusal(struct world *world, uint32_t from, const struct message *message)
{
    struct get *get = &world->gets[message->slot];
    if (get->serial != message->serial || !get->is_active)
        return;
    note_end(get, message->number);
    for (size_t t = 0; t < get->fsm.tries.size && world->plant == PLANT_FORGETS_KEY; t++)
        get->fsm.tries.items[t].deadline = ROTA_TIME_NEVER;
    if (world->plant == PLANT_FORGETS_KEY)
        return;
    drive(world, get,
          &(struct rota_get_fsm_event){
              .type = ROTA_GET_FAILED,
              .number = message->number,
              .failure = from == 0 ? ROTA_FAILURE_UNREACHABLE : ROTA_FAILURE_OVERLOAD,
          });
}

/* --- the world --- */

static void on_start(void *data, uint32_t node)
{
    struct world *world = (struct world *)data;
    if (node != 0) {
        server_start(&world->cluster, node);
        return;
    }
    rota_time now = clock_of(world);
    rota_budget_init(&world->budget, now, &ROTA_BUDGET_RETRIES);
    rota_hedge_init(&world->hedge, now,
                    &(struct rota_hedge_options){.budget = ROTA_GET_BUDGET_HEDGES});
    rota_get_load_init(&world->load, now);
    rota_sim_set_timer(world->sim, 0, (uint32_t)world->n_gets, ROTA_SIM_MONO, now + ROTA_MSEC);
    rota_sim_set_timer(world->sim, 0, (uint32_t)world->n_gets + 1, ROTA_SIM_MONO,
                       now + 5 * ROTA_MSEC);
}

static void on_message(void *data, uint32_t node, uint32_t from, struct rota_str bytes)
{
    struct world *world = (struct world *)data;
    struct message message;
    memcpy(&message, bytes.data, bytes.size);
    if (node != 0) {
        server_take(&world->cluster, node, &message);
        return;
    }
    if (message.type == RESPONSE)
        note_told(world, from, &message);
    if (message.type == REFUSAL)
        on_refusal(world, from, &message);
    else if (message.is_ping)
        on_pong(world, from, &message);
    else
        on_response(world, from, &message);
    bool is_untold = world->plant == PLANT_STALE_TAKEN || world->plant == PLANT_MISMATCH_TAKEN ||
                     world->plant == PLANT_MISMATCH_AGAIN;
    if (message.type == RESPONSE && !is_untold)
        check_map(world, from);
}

static void on_timer(void *data, uint32_t node, uint32_t timer)
{
    struct world *world = (struct world *)data;
    if (node != 0 && timer == TIMER_RENEW)
        server_renew(&world->cluster, node);
    else if (node != 0)
        server_end(&world->cluster, node, timer);
    else if (timer == world->n_gets)
        ping(world);
    else if (timer == world->n_gets + 1)
        start_some(world);
    else if (world->gets[timer].is_active)
        drive(world, &world->gets[timer], &(struct rota_get_fsm_event){.type = ROTA_GET_TICK});
}

/* --- faults --- */

static uint32_t first_of(uint64_t dc)
{
    return FIRST_SERVER + (uint32_t)dc * N_HOSTS;
}

static void block_dc(struct world *world, uint64_t dc, bool is_blocked)
{
    for (uint32_t node = first_of(dc); node < first_of(dc) + N_HOSTS; node++) {
        rota_sim_block(world->sim, 0, node, is_blocked);
        rota_sim_block(world->sim, node, 0, is_blocked);
    }
}

static void on_restart(void *data, uint64_t node)
{
    struct world *world = (struct world *)data;
    rota_sim_crash(world->sim, (uint32_t)node);
    rota_sim_start(world->sim, (uint32_t)node);
}

/* One host after the other comes back with the new number of shards. */
static void reshard(struct world *world, uint64_t dc)
{
    world->cluster.n_shards[dc] = SHARDS_MAX;
    for (uint32_t i = 0; i < N_HOSTS; i++)
        rota_sim_call(world->sim, rota_sim_now(world->sim) + i * 60 * ROTA_MSEC, on_restart, world,
                      first_of(dc) + i);
}

static void end_trouble(void *data, uint64_t dc)
{
    struct world *world = (struct world *)data;
    block_dc(world, dc, false);
    for (uint32_t node = first_of(dc); node < first_of(dc) + N_HOSTS; node++) {
        rota_sim_resume(world->sim, node);
        rota_sim_start(world->sim, node);
        world->cluster.servers[node].service = world->setting.service;
        world->cluster.servers[node].is_confused = false;
    }
}

static void begin_trouble(void *data, uint64_t window)
{
    struct world *world = (struct world *)data;
    struct rota_random *random = rota_sim_random(world->sim);
    uint64_t dc = window % N_DCS;
    uint32_t victim = first_of(dc) + (uint32_t)rota_random_below(random, N_HOSTS / 2);
    rota_time span = 100 * ROTA_MSEC + (rota_time)rota_random_below(random, 500 * ROTA_MSEC);
    if (world->is_resharded && window < N_DCS) {
        reshard(world, dc);
        return;
    }
    switch (rota_random_below(random, 6)) {
    case 0:
        rota_sim_crash(world->sim, victim);
        break;
    case 1:
        for (uint32_t node = first_of(dc); node < first_of(dc) + N_HOSTS; node++)
            rota_sim_crash(world->sim, node);
        break;
    case 2:
        rota_sim_pause(world->sim, victim);
        break;
    case 3:
        world->cluster.servers[victim].service *= 100;
        break;
    case 4:
        block_dc(world, dc, true);
        break;
    case 5:
        world->cluster.servers[victim].is_confused = true;
        break;
    }
    rota_sim_call(world->sim, rota_sim_now(world->sim) + span, end_trouble, world, dc);
}

static void on_assign(void *data, uint64_t number)
{
    struct world *world = (struct world *)data;
    if (!world->setting.is_frozen || rota_sim_now(world->sim) < world->setting.record_at)
        cluster_assign(&world->cluster); /* else it would be replaced */
    rota_sim_call(world->sim, rota_sim_now(world->sim) + ASSIGN_EVERY, on_assign, world, number);
}

/* A host is stopped with work in hand, and goes on when others have its shard: what
 * it answers then is over. Nobody else can answer before that. */
static void on_freeze(void *data, uint64_t step)
{
    struct world *world = (struct world *)data;
    static const rota_time after[] = {20 * ROTA_MSEC, 350 * ROTA_MSEC, FREEZE - 370 * ROTA_MSEC};
    for (uint32_t node = first_of(0); node < first_of(1); node++) {
        if (step == 0)
            world->cluster.servers[node].service *= 50;
        else if (step == 1 && node % 2 == 0 && world->cluster.servers[node].has_shard)
            rota_sim_pause(world->sim, node);
        else if (step == 2)
            rota_sim_resume(world->sim, node);
    }
    if (step == 0)
        block_dc(world, 1, true);
    if (step < 3)
        rota_sim_call(world->sim, rota_sim_now(world->sim) + after[step], on_freeze, world,
                      step + 1);
    for (uint64_t dc = 0; step == 3 && dc < N_DCS; dc++)
        end_trouble(world, dc);
}

static void on_chaos(void *data, uint64_t number)
{
    struct world *world = (struct world *)data;
    (void)number;
    rota_sim_chaos_start(&world->chaos, world->sim,
                         &(struct rota_sim_chaos_options){
                             .first_node = FIRST_SERVER,
                             .quiet_at = QUIET_AT,
                             .crash_every = 200 * ROTA_MSEC,
                             .crash_for = 200 * ROTA_MSEC,
                             .pause_every = 150 * ROTA_MSEC,
                             .pause_for = 300 * ROTA_MSEC,
                             .split_every = 500 * ROTA_MSEC,
                             .split_for = 200 * ROTA_MSEC,
                         });
}

static const char *all_is_well(void *data)
{
    return ((struct world *)data)->violation;
}

/* --- one run --- */

static void open_world(struct world *world, const struct sim_case *run)
{
    const struct setting *setting = &world->setting;
    bool is_loaded = setting->load > 0;
    struct rota_sim_options options = {
        .n_nodes = N_NODES,
        .link = {100 * ROTA_USEC, 300 * ROTA_USEC, 20 * ROTA_MSEC, 0.002, 0.01},
        .drift_max_ppm = 100,
        .on_start = on_start,
        .on_message = on_message,
        .on_timer = on_timer,
        .data = world,
    };
    if (is_loaded)
        options.link = (struct rota_sim_link){100 * ROTA_USEC, 200 * ROTA_USEC, ROTA_MSEC, 0, 0};
    world->plant = (enum plant)run->plant;
    world->sim = sim_case_new(run, options);
    world->n_gets = is_loaded ? 2048 : N_GETS;
    world->gets = (struct get *)calloc(world->n_gets, sizeof *world->gets);
    rota_random_init(&world->random, run->seed);
    rota_interval_map_new(run->seed, &world->map, NULL);
    rota_balancer_new(&(struct rota_balancer_options){.seed = run->seed}, &world->balancer, NULL);
    list_hosts(world);
    world->shared = (struct rota_get_shared){
        .map = world->map,
        .balancer = world->balancer,
        .random = &world->random,
        .budget = &world->budget,
        .hedge = world->plant == PLANT_NEVER_HEDGES ? NULL : &world->hedge,
        .load = &world->load,
        .stats = &world->stats,
    };
    for (size_t i = 0; i < world->n_gets; i++)
        rota_get_fsm_init(&world->gets[i].fsm, &world->shared);
    world->cluster.sim = world->sim;
    world->cluster.n_slots = setting->n_slots;
    world->cluster.is_steady = setting->is_steady;
    world->cluster.leaves_out = !is_loaded;
    world->cluster.n_shards[0] = world->cluster.n_shards[1] = 4;
    rota_random_init(&world->cluster.random, run->seed + 1);
    for (uint32_t node = FIRST_SERVER; node < N_NODES; node++)
        world->cluster.servers[node].service = setting->service;
    rota_sim_add_check(world->sim, all_is_well, world);
    rota_sim_call(world->sim, 0, on_assign, world, 0);
}

static void close_world(struct world *world, struct sim_case *run)
{
    for (size_t i = 0; i < world->n_gets; i++)
        rota_get_fsm_deinit(&world->gets[i].fsm, clock_of(world));
    if (!world->violation && rota_balancer_n_tries(world->balancer) > 0)
        rota_sim_fail(world->sim, "the balancer was not told of the end of all tries");
    if (!world->violation && world->stats.n_running > 0)
        rota_sim_fail(world->sim, "tries are counted that do not run");
    if (!run->plant) {
        totals.n_gets += world->stats.n_gets;
        totals.n_tries += world->stats.n_tries;
        totals.n_retries += world->stats.n_retries;
        totals.n_hedges += world->stats.n_hedges;
        totals.n_cancelled += world->stats.n_cancelled;
        totals.n_mismatched += world->stats.n_mismatched;
        totals.n_stale += world->stats.n_stale;
        totals.n_waits += world->stats.n_waits;
        totals.n_failed += world->stats.n_failed;
    }
    sim_case_end(run, world->sim);
    rota_interval_map_free(world->map);
    rota_balancer_free(world->balancer);
    free(world->gets);
}

static void run_seed(struct sim_case *run)
{
    struct world *world = (struct world *)calloc(1, sizeof *world);
    world->setting = (struct setting){
        .mode = (enum rota_get_mode)(run->seed % ROTA_GET_MODES),
        .service = ROTA_MSEC,
        .n_slots = 2,
    };
    open_world(world, run);
    struct rota_random *random = rota_sim_random(world->sim);
    world->is_resharded = rota_random_chance(random, 0.5);
    for (uint64_t i = 0; i < N_WINDOWS; i++)
        rota_sim_call(world->sim, (rota_time)i * WINDOW + 400 * ROTA_MSEC, begin_trouble, world, i);
    rota_sim_call(world->sim, CHAOS_AT, on_freeze, world, 0);
    rota_sim_call(world->sim, CHAOS_AT + FREEZE, on_chaos, world, 0);
    rota_sim_run(world->sim, END_AT);
    if (!rota_sim_violation(world->sim) && world->n_ended < 100)
        rota_sim_fail(world->sim, "only %d Gets have ended", (int)world->n_ended);
    close_world(world, run);
    free(world);
}

/* --- copies under load --- */

struct figures {
    double p50_ms, p99_ms, p999_ms, slowest_ms, share, failed;
    double goodput; /* whole Gets for each one that was to be */
};

static void on_frozen(void *data, uint64_t number)
{
    struct world *world = (struct world *)data;
    (void)number;
    for (uint32_t node = first_of(0); node < first_of(1); node++)
        if (world->cluster.servers[node].has_shard) {
            rota_sim_pause(world->sim, node);
            return;
        }
}

static struct figures measure(struct setting setting, enum plant plant)
{
    struct world *world = (struct world *)calloc(1, sizeof *world);
    struct sim_case run = {.seed = 1, .plant = (int)plant};
    const rota_time end_at = 20 * ROTA_SEC;
    setting.record_at = 6 * ROTA_SEC;
    setting.n_slots = 4;
    world->setting = setting;
    open_world(world, &run);
    if (setting.is_frozen)
        rota_sim_call(world->sim, setting.record_at, on_frozen, world, 0);
    rota_sim_run(world->sim, end_at);
    const struct rota_histogram *latency = &world->latency;
    uint64_t n = world->stats.n_gets ? world->stats.n_gets : 1;
    struct figures figures = {
        .p50_ms = (double)rota_histogram_quantile(latency, 0.5) / 1000,
        .p99_ms = (double)rota_histogram_quantile(latency, 0.99) / 1000,
        .p999_ms = (double)rota_histogram_quantile(latency, 0.999) / 1000,
        .slowest_ms = (double)rota_histogram_quantile(latency, 1) / 1000,
        .share = (double)world->stats.n_copies[ROTA_GET_ALL] / (double)n,
        .failed = (double)(world->n_failed + world->n_skipped) / (double)n,
        .goodput =
            (double)world->n_good * (double)gap_of(&setting) / (double)(end_at - setting.record_at),
    };
    close_world(world, &run);
    free(world);
    return figures;
}

static double lower(double a, double b)
{
    return a < b ? a : b;
}

/* Adaptive is about as good as the better of the two, whichever that is. */
static bool compare(bool is_steady)
{
    static const enum rota_get_mode modes[] = {ROTA_GET_MODE_BROADCAST, ROTA_GET_MODE_HEDGE,
                                               ROTA_GET_MODE_ADAPTIVE};
    bool is_fine = true;
    printf("# p50 / p99 / p99.9 of Gets, in ms; service 10 ms, %s; 2 dcs x 4 shards x 4 "
           "slots\n# %-6s %-24s %-24s %s\n",
           is_steady ? "steady" : "exponential", "load", "broadcast", "hedge",
           "adaptive (part broadcast)");
    for (int percent = 10; percent <= 60; percent += 10) {
        struct figures of[3];
        printf("# %3d %%  ", percent);
        for (size_t i = 0; i < 3; i++) {
            char text[64];
            struct setting setting = {.mode = modes[i],
                                      .load = percent / 100.0,
                                      .service = 10 * ROTA_MSEC,
                                      .is_steady = is_steady};
            of[i] = measure(setting, PLANT_NONE);
            snprintf(text, sizeof text, "%.1f / %.0f / %.0f", of[i].p50_ms, of[i].p99_ms,
                     of[i].p999_ms);
            printf("%-24s ", text);
        }
        printf("(%.2f)\n", of[2].share);
        is_fine = is_fine && of[2].p50_ms <= 1.3 * lower(of[0].p50_ms, of[1].p50_ms) &&
                  of[2].p99_ms <= 1.3 * lower(of[0].p99_ms, of[1].p99_ms) &&
                  of[2].p999_ms <= 1.5 * lower(of[0].p999_ms, of[1].p999_ms) &&
                  of[2].failed < 0.001;
    }
    if (!is_fine)
        printf("# adaptive is more than 1.3 times worse than the better one (p99.9: 1.5 times)\n");
    return is_fine;
}

/* With more work than the servers can do adaptive gets as much done as one copy does. */
static bool saturate(void)
{
    bool is_fine = true;
    printf("# whole Gets of those that were to be; %-12s %-12s %s\n", "broadcast", "hedge",
           "adaptive (part broadcast)");
    for (int percent = 80; percent <= 140; percent += 20) {
        struct setting setting = {.load = percent / 100.0, .service = 10 * ROTA_MSEC};
        setting.mode = ROTA_GET_MODE_BROADCAST;
        double broadcast = measure(setting, PLANT_NONE).goodput;
        setting.mode = ROTA_GET_MODE_HEDGE;
        double one = measure(setting, PLANT_NONE).goodput;
        setting.mode = ROTA_GET_MODE_ADAPTIVE;
        struct figures adaptive = measure(setting, PLANT_NONE);
        printf("# %3d %% %38.2f %11.2f %11.2f (%.2f)\n", percent, broadcast, one, adaptive.goodput,
               adaptive.share);
        is_fine = is_fine && adaptive.goodput >= 0.9 * one;
    }
    if (!is_fine)
        printf("# adaptive gets less than 0.9 of that done which one copy does\n");
    return is_fine;
}

/* Where replicas are steady adaptive asks one, and that one may be frozen. This does not
 * show in the slowest of a hundred, and no Get waits until its host is out of time; as
 * some would if nothing were hedged. */
static bool freeze(void)
{
    const double timeout_ms = 2000.0 / 3;
    struct setting setting = {
        .mode = ROTA_GET_MODE_ADAPTIVE,
        .load = 0.2,
        .service = ROTA_MSEC,
        .ping_period = ROTA_SEC,
        .is_steady = true,
    };
    struct figures well = measure(setting, PLANT_NONE);
    setting.is_frozen = true;
    struct figures frozen = measure(setting, PLANT_NONE);
    struct figures unhedged = measure(setting, PLANT_NEVER_HEDGES);
    bool is_fine = frozen.p99_ms <= 1.5 * well.p99_ms && frozen.slowest_ms < timeout_ms / 10 &&
                   unhedged.slowest_ms >= timeout_ms;
    printf("# p99 and slowest Get, in ms, service 1 ms, steady: %.1f, %.1f; with a frozen host "
           "%.1f, %.1f (part broadcast %.2f); without hedges %.1f, %.1f\n",
           well.p99_ms, well.slowest_ms, frozen.p99_ms, frozen.slowest_ms, frozen.share,
           unhedged.p99_ms, unhedged.slowest_ms);
    if (!is_fine)
        printf("# a frozen host shows, or the lack of hedges does not\n");
    return is_fine;
}

int main(int argc, char **argv)
{
    static const struct sim_suite suite = {
        .name = "sim_get",
        .n_seeds = 1000,
        .n_plant_seeds = 200,
        .plants = plants,
        .n_plants = N_PLANTS - 1,
        .run = run_seed,
    };
    int code = sim_main(argc, argv, &suite);
    printf("# %llu Gets, %llu failed; %llu tries, %llu retries, %llu hedges, %llu cancelled, %llu "
           "mismatched, %llu stale, %llu waits\n",
           (unsigned long long)totals.n_gets, (unsigned long long)totals.n_failed,
           (unsigned long long)totals.n_tries, (unsigned long long)totals.n_retries,
           (unsigned long long)totals.n_hedges, (unsigned long long)totals.n_cancelled,
           (unsigned long long)totals.n_mismatched, (unsigned long long)totals.n_stale,
           (unsigned long long)totals.n_waits);
    if (argc > 1)
        return code;
    bool is_fine = compare(false);
    is_fine = compare(true) && is_fine;
    is_fine = saturate() && is_fine;
    is_fine = freeze() && is_fine;
    return is_fine ? code : 1;
}
