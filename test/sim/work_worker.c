#include "work_worker.h"

#include <string.h>

/* --- what it has --- */

static void worker_arm(struct world *world, uint32_t node)
{
    const struct worker *worker = worker_at(world, node);
    rota_time at = ROTA_TIME_NEVER;
    for (size_t i = 0; i < worker->n_items; i++)
        at = rota_time_min(at, worker->items[i].due_at);
    rota_sim_set_timer(world->sim, node, TIMER_WORK, ROTA_SIM_MONO, at);
}

static void drop_item(struct worker *worker, uint64_t attempt, uint32_t broker)
{
    for (size_t i = 0; i < worker->n_items; i++)
        if (worker->items[i].name.attempt == attempt && worker->items[i].broker == broker)
            worker->items[i--] = worker->items[--worker->n_items];
}

static bool has_seen(struct worker *worker, uint32_t run)
{
    for (size_t i = 0; i < worker->n_seen && i < SEEN_MAX; i++)
        if (worker->seen[i] == run)
            return true;
    worker->seen[worker->n_seen++ % SEEN_MAX] = run;
    return false;
}

static enum rota_job_cause choose_cause(struct world *world)
{
    const struct shape *shape = &world->shape;
    double luck = rota_random_unit(world->random);
    if ((luck -= shape->fails) < 0)
        return ROTA_JOB_CAUSE_FAILED;
    if ((luck -= shape->gives_back) < 0)
        return ROTA_JOB_CAUSE_GIVEN_BACK;
    if ((luck -= shape->refuses) < 0)
        return ROTA_JOB_CAUSE_REFUSED;
    return ROTA_JOB_CAUSE_DONE;
}

static void hear_dispatch(struct world *world, uint32_t node, uint32_t from,
                          const struct frame *frame)
{
    struct worker *worker = worker_at(world, node);
    const struct job *job = &world->jobs[frame->job];
    bool hangs = job->spec.timeout > 0 && chance(world, world->shape.hangs);
    rota_time took = rota_sim_exponential(world->random, world->shape.work_for);
    bool is_asked = worker->polls || worker->links[from - FIRST_BROKER].session == frame->session;
    if (!is_asked || worker->n_items == ITEMS_MAX || has_seen(worker, frame->run))
        return; /* when there is no room, it comes again */
    worker->links[from - FIRST_BROKER].is_served = true;
    worker->items[worker->n_items++] = (struct item){
        .name = {.job = frame->job, .run = frame->run, .attempt = frame->attempt},
        .broker = from,
        .cause = choose_cause(world),
        .due_at = hangs ? ROTA_TIME_NEVER : rota_sim_mono(world->sim, node) + took,
    };
    worker_arm(world, node);
}

/* --- how it went --- */

static void send_end(struct world *world, uint32_t node, uint32_t to, const struct item *item)
{
    post(world, node, to,
         &(struct frame){.type = END,
                         .life = rota_sim_life(world->sim, node),
                         .epoch = worker_at(world, node)->links[to - FIRST_BROKER].epoch,
                         .job = item->name.job,
                         .run = item->name.run,
                         .attempt = item->name.attempt,
                         .cause = item->cause});
}

/* Anybody may carry a worker's word to who owns the partition now. */
static uint32_t owner_of(const struct world *world, uint32_t job)
{
    return world->rows[world->jobs[job].part].owner;
}

void work_on_timer(struct world *world, uint32_t node)
{
    enum { TRIES_MAX = 60 };
    struct worker *worker = worker_at(world, node);
    rota_time now = rota_sim_mono(world->sim, node);
    for (size_t i = 0; i < worker->n_items; i++) {
        struct item *item = &worker->items[i];
        if (item->due_at > now)
            continue;
        item->is_ended = true;
        if (worker->links[item->broker - FIRST_BROKER].session == 0 && !worker->polls) {
            item->due_at = now + 50 * ROTA_MSEC; /* first it is let in, and names what it has */
            continue;
        }
        item->due_at = now + 400 * ROTA_MSEC + span_upto(world, 200 * ROTA_MSEC);
        bool is_routed = item->n_tries > 0 && chance(world, 0.3);
        send_end(world, node, is_routed ? owner_of(world, item->name.job) : item->broker, item);
        if (++item->n_tries == TRIES_MAX)
            worker->items[i--] = worker->items[--worker->n_items];
    }
    worker_arm(world, node);
}

static void echo_call(void *data, uint64_t number)
{
    struct echo *echo = data;
    struct world *world = echo->world;
    if (rota_sim_is_up(world->sim, echo->node) && !rota_sim_is_paused(world->sim, echo->node)) {
        uint32_t to = number ? owner_of(world, echo->item.name.job) : echo->item.broker;
        struct frame frame = {.type = END,
                              .life = echo->life,
                              .job = echo->item.name.job,
                              .run = echo->item.name.run,
                              .attempt = echo->item.name.attempt,
                              .cause = echo->item.cause};
        post(world, echo->node, to, &frame);
    }
}

static void repeat(struct world *world, uint32_t node, const struct item *item)
{
    if (world->n_echos == ECHOS_MAX || !chance(world, world->shape.repeats))
        return;
    struct echo *echo = &world->echos[world->n_echos++];
    *echo = (struct echo){
        .world = world, .node = node, .life = rota_sim_life(world->sim, node), .item = *item};
    rota_sim_call(world->sim, rota_sim_now(world->sim) + span_upto(world, 4 * ROTA_SEC), echo_call,
                  echo, chance(world, 0.5));
}

/* A refusal of before the last hello says nothing: that has named the attempt once more, and
 * it may have been taken up. Nor does the word of a broker that it is not from. */
static void hear_ended(struct world *world, uint32_t node, uint32_t from, const struct frame *frame)
{
    struct worker *worker = worker_at(world, node);
    bool is_old = frame->epoch != worker->links[from - FIRST_BROKER].epoch;
    for (size_t i = 0; i < worker->n_items; i++) {
        struct item *item = &worker->items[i];
        if (item->name.attempt != frame->attempt || item->name.job != frame->job ||
            !item->is_ended || (frame->code != ROTA_OK && (is_old || item->broker != from)))
            continue;
        repeat(world, node, item);
        worker->items[i--] = worker->items[--worker->n_items];
    }
    worker_arm(world, node);
}

/* --- sessions --- */

static void list_items(const struct worker *worker, uint32_t broker, struct frame *frame)
{
    for (size_t i = 0; i < worker->n_items; i++)
        if (worker->items[i].broker == broker)
            frame->items[frame->n++] = worker->items[i].name;
}

static uint32_t n_busy(const struct worker *worker, uint32_t broker)
{
    uint32_t n = 0;
    for (size_t i = 0; i < worker->n_items; i++)
        n += worker->items[i].broker == broker && !worker->items[i].is_ended;
    return n;
}

/* Ask for a session, each time under a higher epoch, and never more often than it helps. */
static void hello(struct world *world, uint32_t node, uint32_t broker)
{
    struct worker *worker = worker_at(world, node);
    struct link *link = &worker->links[broker - FIRST_BROKER];
    rota_time now = rota_sim_mono(world->sim, node);
    if (now < link->hello_at || (worker->polls && n_busy(worker, broker) >= worker->slots))
        return;
    struct frame frame = {
        .type = HELLO, .life = rota_sim_life(world->sim, node), .slots = worker->slots};
    link->session = 0;
    link->epoch = frame.epoch = worker->polls ? 0 : ++worker->epoch;
    link->hello_wait = rota_time_min(2 * link->hello_wait + 100 * ROTA_MSEC, 2 * ROTA_SEC);
    link->hello_at = now + link->hello_wait / 2 + span_upto(world, link->hello_wait / 2);
    if (worker->polls)
        frame.slots = worker->slots - n_busy(worker, broker);
    else
        list_items(worker, broker, &frame);
    post(world, node, broker, &frame);
}

/* Keep what it has, and ask for more if there is room. True when it is to beat. */
static bool poll(struct world *world, uint32_t node, uint32_t broker)
{
    struct worker *worker = worker_at(world, node);
    struct link *link = &worker->links[broker - FIRST_BROKER];
    struct frame frame = {.type = EXTEND, .life = rota_sim_life(world->sim, node)};
    list_items(worker, broker, &frame);
    if (frame.n > 0)
        post(world, node, broker, &frame);
    if (link->is_served)
        link->session = 0;
    link->is_served = false;
    return link->session != 0 || n_busy(worker, broker) < worker->slots;
}

void beat_on_timer(struct world *world, uint32_t node)
{
    struct worker *worker = worker_at(world, node);
    rota_time now = rota_sim_mono(world->sim, node);
    for (uint32_t broker = FIRST_BROKER; is_broker(world, broker); broker++) {
        struct link *link = &worker->links[broker - FIRST_BROKER];
        if (worker->polls && !poll(world, node, broker))
            continue;
        if (link->session == 0 || now - link->heard_at > LIVENESS) {
            hello(world, node, broker);
            continue;
        }
        struct frame frame = {
            .type = BEAT, .life = rota_sim_life(world->sim, node), .session = link->session};
        list_items(worker, broker, &frame);
        post(world, node, broker, &frame);
    }
    rota_sim_set_timer(world->sim, node, TIMER_BEAT, ROTA_SIM_MONO, now + BEAT_EVERY);
}

void worker_on_message(struct world *world, uint32_t node, uint32_t from, const struct frame *frame)
{
    struct worker *worker = worker_at(world, node);
    struct link *link = &worker->links[from - FIRST_BROKER];
    if (frame->life != rota_sim_life(world->sim, node))
        return; /* for one that was here before us */
    if (frame->type == WELCOME && frame->epoch == link->epoch) {
        link->session = frame->session;
        link->hello_wait = 0;
        link->heard_at = rota_sim_mono(world->sim, node);
    } else if (frame->type == BEATEN && frame->session == link->session) {
        link->heard_at = rota_sim_mono(world->sim, node);
    } else if (frame->type == NO_SESSION && frame->session == link->session && link->session) {
        link->session = 0;
        hello(world, node, from);
    } else if (frame->type == DISPATCH) {
        hear_dispatch(world, node, from, frame);
    } else if (frame->type == CHECK && frame->session == link->session) {
        struct frame holds = {.type = HOLDS,
                              .life = frame->life,
                              .session = frame->session,
                              .attempt = frame->attempt};
        list_items(worker, from, &holds);
        post(world, node, from, &holds);
    } else if (frame->type == CANCEL_WORK) {
        drop_item(worker, frame->attempt, from);
        worker_arm(world, node);
    } else if (frame->type == ENDED) {
        hear_ended(world, node, from, frame);
    }
}

/* --- its life --- */

void worker_on_start(struct world *world, uint32_t node)
{
    struct worker *worker = worker_at(world, node);
    worker->n_items = worker->n_seen = 0;
    memset(worker->links, 0, sizeof worker->links);
    for (int i = 0; i < BROKERS_MAX; i++)
        worker->links[i].hello_at = ROTA_TIME_MIN;
    beat_on_timer(world, node);
}

void worker_on_crash(struct world *world, uint32_t node)
{
    worker_at(world, node)->crashed_at = rota_sim_now(world->sim);
}
