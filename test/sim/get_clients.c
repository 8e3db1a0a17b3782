#include "get_clients.h"

#include <string.h>

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

static bool is_replica(const struct world *world, const struct rota_interval_host *host,
                       uint64_t key)
{
    for (size_t i = 0; i < host->n_claims; i++) {
        const struct rota_interval *shard = &host->claims[i].interval;
        if (rota_interval_has(shard, key) &&
            host->claims[i].epoch == rota_interval_map_epoch(world->map, host->dc, shard))
            return true;
    }
    return false;
}

/* A broadcast has asked every live replica of each key that is pending. */
static void check_asked(struct world *world, const struct get *get)
{
    for (uint32_t node = FIRST_SERVER; node < N_NODES; node++) {
        const struct rota_interval_host *host =
            rota_interval_map_find(world->map, id_of(world, node));
        if (!host->is_live || get->asked[node] == host->lesson)
            continue;
        for (size_t i = 0; i < get->n_keys; i++)
            if (rota_get_fsm_result(&get->fsm, i).state == ROTA_GET_PENDING &&
                is_replica(world, host, get->keys[i]))
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

void drive(struct world *world, struct get *get, const struct rota_get_fsm_event *event)
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

rota_time gap_of(const struct setting *setting)
{
    if (setting->load == 0)
        return 25 * ROTA_MSEC;
    return (rota_time)(2.734 * (double)setting->service / /* 4 keys are on so many of 4 shards */
                       (setting->load * 2 * 4 * setting->n_slots));
}

void start_some(struct world *world)
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

void ping(struct world *world)
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

void on_pong(struct world *world, uint32_t from, const struct message *message)
{
    struct rota_interval_lesson lesson = {
        .number = message->number,
        .claims = message->claims,
        .n_claims = message->n_claims,
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
                         struct rota_interval_claim *claims, uint64_t *ids)
{
    const struct rota_interval_host *host = rota_interval_map_find(world->map, event->host);
    for (size_t i = 0; i < event->n_claims && world->plant == PLANT_STALE_TAKEN; i++) {
        uint64_t seen = *seen_of(world, from, &claims[i].interval);
        claims[i].epoch = claims[i].epoch < seen ? seen : claims[i].epoch;
    }
    if (world->plant == PLANT_MISMATCH_TAKEN && !event->all_matched && host->n_claims > 0) {
        event->all_matched = true;
        event->n_claims = host->n_claims;
        memcpy(claims, host->claims, host->n_claims * sizeof *claims);
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

void on_response(struct world *world, uint32_t from, const struct message *message)
{
    struct get *get = &world->gets[message->slot];
    bool is_its = get->serial == message->serial;
    uint64_t ids[REQUEST_KEYS_MAX];
    struct rota_interval_claim claims[SHARDS_MAX];
    struct rota_get_fsm_problem left[REQUEST_KEYS_MAX];
    memcpy(claims, message->claims, sizeof claims);
    for (size_t i = 0; i < message->n; i++)
        ids[i] = message->entries[i].id;
    for (size_t i = 0; i < message->n_left; i++)
        left[i] = (struct rota_get_fsm_problem){message->entries[message->n + i].id, true};
    struct rota_get_fsm_event event = {
        .type = ROTA_GET_ANSWER,
        .number = message->number,
        .host = id_of(world, from),
        .all_matched = message->all_matched,
        .claims = claims,
        .n_claims = message->n_claims,
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
        plant_answer(world, from, &event, claims, ids);
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

void on_refusal(struct world *world, uint32_t from, const struct message *message)
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
