/* Calls that reach any node while jobs move: the real machine of core/work/cluster/front_fsm.h at
 * each node, over the brokers and handovers of handover_world.h.
 *
 * Clients add jobs at any node, and repeat an add that was not answered, or not as they wished, at
 * another one, under the same id; some repeat one whose answer they have. Others ask any node about
 * a job. Nodes forward these calls, search, wait for the disk, and lose what they are about when
 * they crash; messages are lost and late. As over a connection, a request arrives once at most, and
 * not after its node was started again. A call ends with its deadline, also at the nodes that it
 * was forwarded to: a client that repeats an add is not overtaken by its own former request.
 *
 * No job is ever added to two journals, however often it is repeated; what was acknowledged is done
 * exactly once, and no node denies it. Once faults stop, every add is acknowledged. */
#include "core/work/cluster/front_fsm.h"
#include "handover_lists.h"

#include <stdlib.h>
#include <string.h>

enum { VISITS_MAX = 64, SEEN_MAX = 256, RECENT = 16 };
enum { KIND_ADD = 1, KIND_ASK, KIND_FIND };

#define CLIENT_WAITS (2500 * ROTA_MSEC)

enum front_plant {
    PLANT_NO_SEARCH = 1,
    PLANT_ONE_ROUND,
    PLANT_SILENT_IS_NONE,
    PLANT_HERE_UNSEEN,
    PLANT_FOUND_IGNORED,
    PLANT_KNOWN_EARLY,
    PLANT_FIND_EARLY,
    PLANT_ADD_EARLY,
    PLANT_ALWAYS_TOLD,
    PLANT_ONLY_LISTED,
    PLANT_OWNER_FINAL,
    PLANT_ASKED_ONCE,
    PLANT_UNKNOWN_UNDONE,
    PLANT_LATE_UNASKED,
    PLANT_OTHERS_UNKNOWN,
    PLANT_WRONG_UNHEARD,
    N_FRONT_PLANTS,
};

static const struct sim_plant front_plants[N_FRONT_PLANTS - 1] = {
    {"no-search", "a repeated add is added like any other"},
    {"one-round", "all nodes are asked once for the job of a repeated add"},
    {"silent-is-none", "a node that does not answer is held to have no such job"},
    {"here-unseen", "a repeated add is not searched at the node that receives it"},
    {"found-ignored", "that another node has the job of a repeated add is forgotten"},
    {"known-early", "a repeated add of a job that is here does not wait for the disk"},
    {"find-early", "a node says that it has a job before that is on disk"},
    {"add-early", "an add is acknowledged before it is on disk"},
    {"always-told", "a node that has just started believes that it knows all nodes"},
    {"only-listed", "nodes that are not listed are not asked"},
    {"owner-final", "a job that its owner does not have does not exist"},
    {"asked-once", "a job is denied after all nodes were asked once"},
    {"unknown-undone", "an add that its owner did not answer is said to be undone"},
    {"late-unasked", "a node that is learned of during a search is taken for one that was asked"},
    {"others-unknown", "a repeated add is new although a node that was asked knows more nodes"},
    {"wrong-unheard", "a node does not contradict what others wrongly remember of it"},
};

enum stage { ASKING_OWNER, ASKING_OTHERS, SEARCHING, ADDING };

/* A call of a client at a node, while others are asked. */
struct visit {
    uint64_t serial; /* 0: none */
    bool is_add;
    uint32_t job, attempt;
    bool was_added; /* when it came: then it must not be denied */
    enum stage stage;
    uint32_t round, owner;
    bool is_asked[NODES], is_open[NODES], has_owner;
    enum rota_lookup_word words[NODES];
    bool is_silent, is_unsure;
    struct rota_front_new new;
    struct rota_front_search search;
    rota_time until;
    rota_time deadline; /* true time: its client gives up */
};

struct front {
    struct front_world *world;
    uint32_t number;
    struct rota_front_fsm fsm;
    struct visit visits[VISITS_MAX];
    uint64_t seen[SEEN_MAX]; /* requests */
    size_t n_seen;
    rota_time started_at; /* true time */
};

/* What a client knows of its job. */
struct client {
    bool is_waiting, is_again, is_content;
    bool is_here; /* the node that it asked adds it itself */
    uint32_t attempt;
    rota_time until;
};

struct front_world {
    struct world base; /* first */
    enum front_plant plant;
    struct front fronts[NODES];
    struct client clients[JOBS_MAX];
    uint32_t n_adds[JOBS_MAX]; /* on disks */
};

static struct front_world *of(struct world *world)
{
    return (struct front_world *)world;
}

/* --- what the machine asks --- */

static struct rota_front_owner owner(void *data, struct rota_str name, uint32_t partition)
{
    const struct front *front = data;
    uint8_t who = front->world->base.nodes[front->number].owners[partition];
    (void)name;
    if (who == front->number)
        return (struct rota_front_owner){.whose = ROTA_PARTITION_OURS};
    return (struct rota_front_owner){ROTA_PARTITION_ANOTHERS, rota_str(ADDRESSES[who])};
}

static struct rota_work_layout layout(void *data, struct rota_str name)
{
    (void)data;
    (void)name;
    return (struct rota_work_layout){.wanted = PARTS, .write = PARTS, .read = PARTS};
}

/* The other nodes that may have a job. */
static size_t list_others(struct front *front, bool for_add, bool is_other[NODES])
{
    struct world *world = &front->world->base;
    const struct node *node = &world->nodes[front->number];
    struct rota_str address;
    size_t n = 0;
    memset(is_other, 0, NODES * sizeof *is_other);
    for (uint32_t i = 0; i < NODES; i++)
        is_other[i] = i != front->number && is_listed(node, i);
    for (size_t place = 0; front->world->plant != PLANT_ONLY_LISTED &&
                           rota_broker_next_absent(node->core, now_of(world, front->number).boot,
                                                   for_add, &place, &address);)
        is_other[address.data[0] - 'a'] = address.data[0] - 'a' != (int)front->number;
    for (uint32_t i = 0; i < NODES; i++)
        n += is_other[i];
    return n;
}

static size_t n_others(void *data, enum rota_front_others which)
{
    bool is_other[NODES];
    (void)which; /* those that may hold jobs, here */
    return list_others(data, false, is_other);
}

static bool is_told(void *data)
{
    const struct front *front = data;
    const struct node *node = &front->world->base.nodes[front->number];
    return front->world->plant == PLANT_ALWAYS_TOLD || node->is_told;
}

/* --- clients --- */

static void answer_client(struct front_world *world, uint32_t job, uint32_t attempt,
                          enum rota_status status, bool is_undone)
{
    struct client *client = &world->clients[job];
    if (status == ROTA_STATUS_OK)
        world->base.jobs[job].is_added = true;
    if (!client->is_waiting || client->attempt != attempt)
        return;
    client->is_waiting = false;
    if (status == ROTA_STATUS_OK)
        client->is_content =
            by_chance(&world->base, has_crowd(&world->base) ? 10 : world->base.pace.content);
    if (!client->is_content && (status == ROTA_STATUS_OK || !is_undone))
        client->is_again = true;
}

static void refuse_client(struct front_world *world, const struct visit *visit,
                          enum rota_front_reason reason)
{
    if (visit->is_add)
        answer_client(world, visit->job, visit->attempt, ROTA_STATUS_UNAVAILABLE,
                      rota_front_fsm_refusal(reason)->is_undone);
}

static void deny(struct front_world *world, const struct front *front, const struct visit *visit)
{
    if (visit->was_added)
        rota_sim_fail(world->base.sim, "node %u denies job %u", front->number, visit->job);
}

/* --- asking other nodes --- */

static void end_round(struct front *front, struct visit *visit);

static void send_message(struct world *world, uint32_t from, uint32_t to,
                         const struct message *message)
{
    rota_sim_send(world->sim, from, to, rota_str_of(message, sizeof *message));
}

static void ask_node(struct front *front, struct visit *visit, uint32_t to, uint32_t kind)
{
    struct world *world = &front->world->base;
    struct message message;
    memset(&message, 0, sizeof message);
    message.kind = kind;
    message.serial = visit->serial << 8 | visit->round;
    message.job = visit->job;
    message.partition = visit->new.partition;
    message.sent_at = rota_sim_now(world->sim);
    message.at = visit->deadline;
    visit->is_asked[to] = visit->is_open[to] = true;
    visit->words[to] = ROTA_LOOKUP_SILENT;
    if (!world->nodes[to].core && by_chance(world, 50))
        visit->is_open[to] = false; /* its port is closed */
    else
        send_message(world, front->number, to, &message);
}

static void begin_round(struct front *front, struct visit *visit)
{
    struct world *world = &front->world->base;
    bool is_open = false;
    for (uint32_t i = 0; i < NODES; i++)
        is_open = is_open || visit->is_open[i];
    visit->until = rota_sim_mono(world->sim, front->number) + CALL_TIMEOUT;
    if (is_open)
        set_timer(world, front->number, TIMER_OTHER, CALL_TIMEOUT / 4);
    else
        end_round(front, visit);
}

static void ask_others(struct front *front, struct visit *visit, enum stage stage)
{
    bool is_other[NODES];
    list_others(front, stage == SEARCHING, is_other);
    visit->stage = stage;
    visit->round++;
    visit->is_silent = visit->is_unsure = false;
    for (uint32_t i = 0; i < NODES; i++)
        if (is_other[i] && !(stage == ASKING_OTHERS && visit->has_owner && i == visit->owner))
            ask_node(front, visit, i, stage == SEARCHING ? KIND_FIND : KIND_ASK);
    begin_round(front, visit);
}

/* --- adding --- */

/* Add a job here: for the visit of a client or, with a message, for another node. */
static void add_here(struct front *front, const struct rota_front_call *call,
                     struct rota_front_new *new, struct held held)
{
    struct world *world = &front->world->base;
    struct rota_job_spec spec = {.queue = queue(), .max_attempts = 1000, .id = new->id};
    struct rota_front_added added = {0};
    enum rota_code code = rota_front_fsm_add(&front->fsm, now_of(world, front->number), call, new,
                                             &spec, &added, NULL);
    held.number = added.number;
    held.answer.status = code ? ROTA_STATUS_UNAVAILABLE : ROTA_STATUS_OK;
    held.answer.is_undone = code == ROTA_ERR_STALE || code == ROTA_ERR_UNAVAILABLE;
    if (code == ROTA_ERR_INVALID)
        rota_sim_fail(world->sim, "node %u calls job %u invalid", front->number, held.job);
    if (code || added.number == 0 || front->world->plant == PLANT_ADD_EARLY) {
        if (held.what == HELD_OTHER)
            answer_client(front->world, held.job, held.to, held.answer.status,
                          held.answer.is_undone);
        else
            send_message(world, front->number, held.to, &held.answer);
        drive(world, front->number);
    } else {
        hold(world, front->number, held);
    }
}

static void add_for_client(struct front *front, struct visit *visit)
{
    struct held held = {.what = HELD_OTHER, .job = visit->job, .to = visit->attempt};
    struct rota_front_new new = visit->new;
    visit->serial = 0;
    if (front->world->clients[visit->job].attempt == visit->attempt)
        front->world->clients[visit->job].is_here = true;
    add_here(front, &(struct rota_front_call){0}, &new, held);
}

static void route_add(struct front *front, struct visit *visit)
{
    struct rota_front_action action;
    if (rota_front_fsm_route(&front->fsm, &(struct rota_front_call){0}, &visit->new, &action, NULL))
        rota_sim_fail(front->world->base.sim, "node %u can't place job %u", front->number,
                      visit->job);
    if (action.what == ROTA_FRONT_ASK_OWNER) {
        visit->stage = ADDING;
        visit->round++;
        visit->owner = (uint32_t)(action.owner.data[0] - 'a');
        ask_node(front, visit, visit->owner, KIND_ADD);
        begin_round(front, visit);
    } else {
        add_for_client(front, visit);
    }
}

static void go_on(struct front *front, struct visit *visit, const struct rota_front_action *action)
{
    bool is_once = front->world->plant == PLANT_ONE_ROUND && visit->search.n_rounds == 1;
    if (action->what == ROTA_FRONT_REFUSE) {
        refuse_client(front->world, visit, action->reason);
        visit->serial = 0;
    } else if (action->what == ROTA_FRONT_ASK_OTHERS && !is_once) {
        ask_others(front, visit, SEARCHING);
    } else {
        if (front->world->plant == PLANT_FOUND_IGNORED)
            visit->new.is_found = false;
        bool is_found = visit->new.is_found;
        rota_front_fsm_settle(&front->fsm, &visit->new);
        if (front->world->plant == PLANT_KNOWN_EARLY)
            visit->new.is_known = is_found;
        route_add(front, visit);
    }
}

static void begin_add(struct front *front, struct visit *visit)
{
    struct world *world = &front->world->base;
    bool is_unseen = front->world->plant == PLANT_HERE_UNSEEN;
    visit->new.is_again = front->world->clients[visit->job].is_again;
    if (!visit->new.is_again || front->world->plant == PLANT_NO_SEARCH) {
        visit->new.is_again = false;
        route_add(front, visit);
        return;
    }
    visit->new.is_found = !is_unseen &&rota_front_fsm_has(&front->fsm, queue(), visit->new.id);
    struct rota_front_action action =
        rota_front_fsm_search(&front->fsm, &visit->search, rota_sim_mono(world->sim, front->number),
                              !visit->new.is_found);
    go_on(front, visit, &action);
}

/* --- asking about a job --- */

static void follow_ask(struct front *front, struct visit *visit,
                       const struct rota_front_action *action)
{
    if (action->what == ROTA_FRONT_ASK_OWNER) {
        visit->stage = ASKING_OWNER;
        visit->round++;
        visit->has_owner = true;
        visit->owner = (uint32_t)(action->owner.data[0] - 'a');
        ask_node(front, visit, visit->owner, KIND_ASK);
        begin_round(front, visit);
    } else if (action->what == ROTA_FRONT_ASK_OTHERS) {
        ask_others(front, visit, ASKING_OTHERS);
    } else {
        if (action->what == ROTA_FRONT_HERE &&
            !rota_front_fsm_has(&front->fsm, queue(), visit->new.id))
            deny(front->world, front, visit);
        visit->serial = 0;
    }
}

static void ask_again(struct front *front, struct visit *visit)
{
    visit->round++;
    for (uint32_t i = 0; i < NODES; i++)
        if (visit->is_asked[i])
            ask_node(front, visit, i, KIND_ASK);
    begin_round(front, visit);
}

/* The words of all that were asked, the owner's first. */
static void end_ask(struct front *front, struct visit *visit)
{
    enum rota_lookup_word words[NODES + 1] = {visit->has_owner ? visit->words[visit->owner]
                                                               : ROTA_LOOKUP_UNASKED};
    for (uint32_t i = 0; i < NODES; i++) {
        bool is_told_of = visit->is_asked[i] && !(visit->has_owner && i == visit->owner);
        words[i + 1] = is_told_of ? visit->words[i] : ROTA_LOOKUP_UNASKED;
        if (front->world->plant == PLANT_SILENT_IS_NONE && words[i + 1] == ROTA_LOOKUP_SILENT)
            words[i + 1] = ROTA_LOOKUP_NONE;
    }
    struct rota_front_action action = rota_front_fsm_others_said(
        &front->fsm, &visit->search, rota_sim_mono(front->world->base.sim, front->number), queue(),
        visit->new.id, words, sizeof words / sizeof *words);
    bool is_once = front->world->plant == PLANT_ASKED_ONCE;
    if (action.what == ROTA_FRONT_ASK_OTHERS && !is_once) {
        ask_again(front, visit);
        return;
    }
    enum rota_lookup_word word = words[action.index];
    bool is_none = word == ROTA_LOOKUP_NONE || word == ROTA_LOOKUP_UNASKED;
    if (action.what == ROTA_FRONT_ASK_OTHERS || (action.what == ROTA_FRONT_PASS && is_none))
        deny(front->world, front, visit);
    visit->serial = 0;
}

static void end_owner(struct front *front, struct visit *visit)
{
    enum rota_lookup_word word = visit->words[visit->owner];
    struct rota_front_action action = rota_front_fsm_owner_said(&front->fsm, word, false);
    bool is_final = front->world->plant == PLANT_OWNER_FINAL;
    if (action.what == ROTA_FRONT_ASK_OTHERS && !is_final) {
        ask_others(front, visit, ASKING_OTHERS);
        return;
    }
    if (word == ROTA_LOOKUP_NONE || word == ROTA_LOOKUP_UNSURE)
        deny(front->world, front, visit);
    visit->serial = 0;
}

/* All have answered, or it takes too long. */
static void end_round(struct front *front, struct visit *visit)
{
    struct world *world = &front->world->base;
    struct rota_front_action action;
    if (rota_sim_now(world->sim) >= visit->deadline) {
        visit->serial = 0;
        return;
    }
    for (uint32_t i = 0; i < NODES; i++) {
        visit->is_silent =
            visit->is_silent || (visit->is_asked[i] && visit->words[i] == ROTA_LOOKUP_SILENT);
        visit->is_open[i] = false;
    }
    if (front->world->plant == PLANT_LATE_UNASKED)
        visit->search.nodes = rota_broker_nodes_hash(world->nodes[front->number].core);
    switch (visit->stage) {
    case ASKING_OWNER:
        end_owner(front, visit);
        break;
    case ASKING_OTHERS:
        end_ask(front, visit);
        break;
    case SEARCHING:
        action = rota_front_fsm_searched(
            &front->fsm, &visit->search, rota_sim_mono(world->sim, front->number),
            !visit->new.is_found, visit->is_silent && front->world->plant != PLANT_SILENT_IS_NONE,
            visit->is_unsure && front->world->plant != PLANT_OTHERS_UNKNOWN);
        memset(visit->is_asked, 0, sizeof visit->is_asked);
        go_on(front, visit, &action);
        break;
    case ADDING: /* its outcome is unknown */
        answer_client(front->world, visit->job, visit->attempt, ROTA_STATUS_UNAVAILABLE,
                      front->world->plant == PLANT_UNKNOWN_UNDONE);
        visit->serial = 0;
        break;
    }
}

/* --- what arrives --- */

static bool is_fresh(struct front *front, const struct message *message)
{
    for (size_t i = 0; i < SEEN_MAX; i++)
        if (front->seen[i] == (message->serial << 2 | message->kind))
            return false;
    front->seen[front->n_seen++ % SEEN_MAX] = message->serial << 2 | message->kind;
    bool is_late = rota_sim_now(front->world->base.sim) >= message->at;
    return message->sent_at >= front->started_at && !is_late;
}

static struct rota_front_new new_of(const struct front_world *world, uint32_t job)
{
    return (struct rota_front_new){.queue = queue(), .id = world->base.jobs[job].id};
}

static void hear_request(struct front *front, uint32_t from, const struct message *message)
{
    struct world *world = &front->world->base;
    struct node *node = &world->nodes[front->number];
    const struct rota_front_call carried = {.is_carried = true};
    struct rota_front_new new = new_of(front->world, message->job);
    struct held held = {.what = HELD_ANSWER, .job = message->job, .to = from};
    if (!is_fresh(front, message))
        return;
    memcpy(&held.answer, message, sizeof *message);
    held.answer.is_answer = true;
    held.answer.status = ROTA_STATUS_OK;
    if (message->kind == KIND_ADD) {
        new.asked = message->partition;
        rota_front_fsm_read(&new, true);
        add_here(front, &carried, &new, held);
        return;
    }
    if (message->kind == KIND_FIND) {
        held.answer.is_found = rota_front_fsm_has(&front->fsm, queue(), new.id);
        held.answer.nodes = rota_broker_nodes_hash(node->core);
        held.number = rota_broker_last_number(node->core);
        if (front->world->plant == PLANT_FIND_EARLY)
            held.number = 0;
        hold(world, front->number, held);
        return;
    }
    struct rota_front_action action =
        rota_front_fsm_job(&front->fsm, &carried, queue(), world->jobs[message->job].id);
    if (action.what == ROTA_FRONT_REFUSE && action.reason == ROTA_FRONT_NOT_HERE) {
        held.answer.status = ROTA_STATUS_NOT_FOUND;
        held.answer.has_nodes = true;
        held.answer.nodes = rota_broker_nodes_hash(node->core);
    } else if (action.what != ROTA_FRONT_HERE) {
        rota_sim_fail(world->sim, "node %u routes a carried call", front->number);
    }
    send_message(world, front->number, from, &held.answer);
}

static void hear_answer(struct front *front, uint32_t from, const struct message *message)
{
    struct visit *visit = NULL;
    for (size_t i = 0; i < VISITS_MAX; i++)
        if (front->visits[i].serial &&
            (front->visits[i].serial << 8 | front->visits[i].round) == message->serial)
            visit = &front->visits[i];
    if (!visit || !visit->is_open[from])
        return;
    const struct rota_front_answer answer = {
        .status = message->status, .has_nodes = message->has_nodes, .nodes = message->nodes};
    visit->is_open[from] = false;
    visit->words[from] = rota_front_fsm_word(&front->fsm, &answer);
    if (message->kind == KIND_FIND) {
        visit->new.is_found = visit->new.is_found || message->is_found;
        visit->is_unsure =
            visit->is_unsure || rota_front_fsm_knows_others(&front->fsm, message->nodes);
    }
    if (message->kind == KIND_ADD) {
        answer_client(front->world, visit->job, visit->attempt, message->status,
                      message->is_undone);
        visit->serial = 0;
        return;
    }
    for (uint32_t i = 0; i < NODES; i++)
        if (visit->is_open[i])
            return;
    end_round(front, visit);
}

static void on_frame(struct world *world, uint32_t number, uint32_t from,
                     const struct message *message)
{
    if (message->is_answer)
        hear_answer(&of(world)->fronts[number], from, message);
    else
        hear_request(&of(world)->fronts[number], from, message);
}

static void on_held(struct world *world, uint32_t number, const struct held *held)
{
    (void)number;
    answer_client(of(world), held->job, held->to, ROTA_STATUS_OK, false);
}

static void on_due(struct world *world, uint32_t number)
{
    struct front *front = &of(world)->fronts[number];
    bool has_more = false;
    for (size_t i = 0; i < VISITS_MAX; i++)
        if (front->visits[i].serial && front->visits[i].until <= rota_sim_mono(world->sim, number))
            end_round(front, &front->visits[i]);
    for (size_t i = 0; i < VISITS_MAX; i++)
        has_more = has_more || front->visits[i].serial;
    if (has_more)
        set_timer(world, number, TIMER_OTHER, CALL_TIMEOUT / 4);
}

static void on_node(struct world *world, uint32_t number, bool is_up)
{
    struct front *front = &of(world)->fronts[number];
    const struct rota_front_options options = {
        .broker = world->nodes[number].core,
        .n_partitions = PARTS,
        .owner = owner,
        .layout = layout,
        .n_others = n_others,
        .is_told = is_told,
        .data = front,
        .seed = number,
    };
    memset(front->visits, 0, sizeof front->visits);
    front->started_at = rota_sim_now(world->sim);
    if (is_up)
        rota_front_fsm_init(&front->fsm, &options);
}

static void on_added(struct world *world, uint32_t number, uint32_t job)
{
    if (++of(world)->n_adds[job] > 1)
        rota_sim_fail(world->sim, "job %u is added a second time, at node %u", job, number);
}

/* --- what clients do --- */

static void visit_node(struct front_world *world, uint32_t number, uint32_t job, bool is_add)
{
    struct front *front = &world->fronts[number];
    size_t i = 0;
    while (i < VISITS_MAX && front->visits[i].serial)
        i++;
    if (i == VISITS_MAX)
        return;
    struct visit *visit = &front->visits[i];
    *visit = (struct visit){.serial = ++world->base.serial,
                            .is_add = is_add,
                            .job = job,
                            .attempt = world->clients[job].attempt,
                            .was_added = world->base.jobs[job].is_added,
                            .deadline = rota_sim_now(world->base.sim) + CLIENT_WAITS,
                            .new = new_of(world, job)};
    visit->search =
        rota_front_fsm_begin_search(&front->fsm, rota_sim_mono(world->base.sim, number));
    rota_front_fsm_read(&visit->new, false);
    if (is_add) {
        begin_add(front, visit);
    } else {
        struct rota_front_action action =
            rota_front_fsm_job(&front->fsm, &(struct rota_front_call){0}, queue(), visit->new.id);
        follow_ask(front, visit, &action);
    }
}

/* An add until it is acknowledged, and now and then beyond. Some clients lose their connection to
 * the node while it waits for its disk. */
static void client_call(void *data, uint64_t job)
{
    struct front_world *world = data;
    struct client *client = &world->clients[job];
    rota_time now = rota_sim_now(world->base.sim);
    if (client->is_content)
        return;
    rota_sim_call(world->base.sim, now + rota_random_range(world->base.random, 50, 400) * ROTA_MSEC,
                  client_call, world, job);
    if (client->is_waiting && now < client->until &&
        (!client->is_here || by_chance(&world->base, 70)))
        return;
    client->is_again = client->is_again || client->is_waiting; /* its outcome is unknown */
    uint32_t number = any_node(&world->base, client->is_again);
    client->is_waiting = false;
    if (!is_well(&world->base, number))
        return;
    client->is_waiting = true;
    client->is_here = false;
    client->attempt++;
    client->until = now + CLIENT_WAITS;
    visit_node(world, number, (uint32_t)job, true);
}

static void add_call(void *data, uint64_t gap)
{
    struct front_world *world = data;
    rota_time now = rota_sim_now(world->base.sim),
              next = now + rota_sim_exponential(world->base.random, (rota_time)gap);
    uint32_t job = world->base.n_jobs;
    uint32_t part = any_partition(&world->base);
    if (next < QUIET_AT && job + 1 < JOBS_MAX)
        rota_sim_call(world->base.sim, next, add_call, world, gap);
    world->base.jobs[job].id = rota_job_id_make(now, part, job);
    world->base.n_jobs++;
    client_call(world, job);
}

/* Any job, often a recent one: one call asks about it, or adds it again although that was
 * acknowledged. */
static void ask_call(void *data, uint64_t unused)
{
    struct front_world *world = data;
    struct rota_sim *sim = world->base.sim;
    rota_time wait = (has_crowd(&world->base) ? 10 : 50) * ROTA_MSEC;
    (void)unused;
    rota_sim_call(sim, rota_sim_now(sim) + wait, ask_call, world, 0);
    if (world->base.n_jobs == 1)
        return;
    uint32_t last = world->base.n_jobs - 1, first = 1;
    if (last > RECENT && by_chance(&world->base, 50))
        first = last - RECENT;
    uint32_t job = (uint32_t)rota_random_range(world->base.random, first, last);
    uint32_t number = any_node(&world->base, true);
    bool is_add = world->clients[job].is_content && by_chance(&world->base, 50);
    world->clients[job].is_again = world->clients[job].is_again || is_add;
    if (is_well(&world->base, number))
        visit_node(world, number, job, is_add);
}

/* --- the world --- */

static void begin(struct world *world)
{
    world->n_jobs = 1; /* no id ends with 0 */
    rota_sim_call(world->sim, 0, add_call, world, 80 * ROTA_MSEC);
    rota_sim_call(world->sim, ROTA_SEC, ask_call, world, 0);
}

static void check(struct world *world)
{
    for (uint32_t i = 1; i < world->n_jobs; i++)
        if (!world->jobs[i].is_added)
            rota_sim_fail(world->sim, "job %u was never acknowledged", i);
}

static void run_world(struct sim_case *run)
{
    struct front_world *world = calloc(1, sizeof *world);
    if (!world)
        die("no memory for a world");
    world->plant = (enum front_plant)run->plant;
    world->base.keeps_ended = true;
    world->base.is_deaf_to_itself = world->plant == PLANT_WRONG_UNHEARD;
    world->base.on_node = on_node;
    world->base.on_frame = on_frame;
    world->base.on_held = on_held;
    world->base.on_due = on_due;
    world->base.on_added = on_added;
    for (uint32_t i = 0; i < NODES; i++) {
        world->fronts[i].world = world;
        world->fronts[i].number = i;
    }
    run_handovers(run, &world->base, begin, check);
}

int main(int argc, char **argv)
{
    const struct sim_suite suite = {
        .name = "sim_front",
        .n_seeds = 100,
        .n_plant_seeds = 500,
        .kept = {235938821107, 235938821611, 184648779669, 843226903012, 953918682552, 953918682831,
                 2001353},
        .plants = front_plants,
        .n_plants = N_FRONT_PLANTS - 1,
        .run = run_world,
    };
    return sim_main(argc, argv, &suite);
}
