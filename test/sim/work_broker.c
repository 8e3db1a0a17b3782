#include "work_broker.h"

#include <string.h>

/* --- answers that wait --- */

void hold(struct world *world, uint32_t node, struct held held)
{
    struct broker *broker = broker_at(world, node);
    if (!rota_vector_push(&broker->held, held))
        die("no memory for an answer");
}

/* What becomes true as an answer goes out. */
static void answer_out(struct world *world, uint32_t node, const struct held *held)
{
    const struct frame *frame = &held->frame;
    if (held->is_ended) {
        truth_ended(world, node, frame->job, frame->cause, frame->attempt);
        return;
    }
    if (frame->type == ADDED && frame->code == ROTA_OK) {
        struct job *job = &world->jobs[frame->other];
        job->is_acked = true;
        job->home = node;
    }
    if (frame->type == HAND_TAKEN)
        for (uint32_t i = 0; i < frame->n; i++) {
            struct job *taken = &world->jobs[frame->items[i].job];
            if (taken->whole_at == node)
                taken->home = node;
        }
    post(world, node, held->to, frame);
}

static void release(struct world *world, uint32_t node)
{
    struct broker *broker = broker_at(world, node);
    size_t n = 0;
    for (size_t i = 0; i < broker->held.size; i++) {
        struct held held = broker->held.items[i];
        bool is_early =
            (world->plant == PLANT_ADD_EARLY && held.frame.type == ADDED) ||
            (world->plant == PLANT_END_EARLY && (held.is_ended || held.frame.type == ENDED)) ||
            (world->plant == PLANT_ADOPT_EARLY && held.frame.type == HAND_TAKEN);
        if (held.number <= broker->durable || is_early)
            answer_out(world, node, &held);
        else
            broker->held.items[n++] = held;
    }
    broker->held.size = n;
}

/* --- effects --- */

static struct session *own_session(struct broker *broker, uint64_t session)
{
    return (struct session *)find_session(broker, session);
}

static void drop_session(struct broker *broker, uint64_t session)
{
    for (size_t i = 0; i < broker->sessions.size; i++)
        if (broker->sessions.items[i].session == session)
            broker->sessions.items[i--] = broker->sessions.items[--broker->sessions.size];
}

static void send_job(struct world *world, uint32_t node, const struct session *session,
                     const struct sent_job *sent)
{
    post(world, node, session->node,
         &(struct frame){.type = DISPATCH,
                         .life = session->life,
                         .session = session->session,
                         .job = sent->job,
                         .run = sent->run,
                         .attempt = sent->attempt});
}

/* Whether an attempt still runs, as far as the broker knows. */
static bool is_sent_on(struct world *world, uint32_t node, const struct sent_job *sent)
{
    const struct job *job = &world->jobs[sent->job];
    struct rota_job_view view;
    return !rota_broker_find(broker_at(world, node)->machine, queue_of(job->part), job->spec.id,
                             &view, NULL) &&
           view.state == ROTA_JOB_RUNNING && view.attempt == sent->attempt;
}

static void do_dispatch(struct world *world, uint32_t node, const struct rota_work_effect *effect)
{
    struct session *session = own_session(broker_at(world, node), effect->session);
    uint32_t number = job_of(effect->id);
    if (!session) {
        rota_sim_fail(world->sim, "job %u goes to a session that nobody opened", number);
        return;
    }
    if (effect->payload.size != world->jobs[number].spec.payload.size ||
        memcmp(effect->payload.data, world->jobs[number].payload, effect->payload.size) != 0)
        rota_sim_fail(world->sim, "job %u has another payload", number);
    struct sent_job sent = {.job = number,
                            .attempt = effect->attempt,
                            .handed = effect->handed,
                            .sent_at = rota_sim_mono(world->sim, node),
                            .run = truth_dispatch(world, node, session, number, effect->attempt)};
    rota_sim_note(world->sim, node, "job %u goes to node %u as run %u, attempt %llx", number,
                  session->node, sent.run, (unsigned long long)sent.attempt);
    for (size_t i = session->n_sent; i-- > 0 && session->n_sent == ITEMS_MAX;)
        if (!is_sent_on(world, node, &session->sent[i]))
            session->sent[i] = session->sent[--session->n_sent];
    session->sent[session->n_sent++] = sent;
    send_job(world, node, session, &sent);
}

static void do_cancel(struct world *world, uint32_t node, const struct rota_work_effect *effect)
{
    const struct session *session = own_session(broker_at(world, node), effect->session);
    if (session)
        hold(world, node,
             (struct held){.number = effect->number,
                           .to = session->node,
                           .frame = {.type = CANCEL_WORK,
                                     .life = session->life,
                                     .job = job_of(effect->id),
                                     .attempt = effect->attempt}});
}

static void do_record(struct world *world, uint32_t node, const struct rota_work_record *record)
{
    struct broker *broker = broker_at(world, node);
    if (record->type == ROTA_WORK_ADD) {
        struct job *job = &world->jobs[job_of(record->spec->id)];
        job->whole_at = node;
        job->whole_number = job->order = record->number;
        job->enqueued_at = record->at;
        job->priority = job->spec.priority;
        job->is_moved = false;
    }
    if (record->type == ROTA_WORK_JOB) {
        struct job *job = &world->jobs[job_of(record->spec->id)];
        if (job->whole_at == node && job->whole_number > broker->durable)
            job->whole_number = record->number; /* it is waited for in place of the first */
    }
    if (record->type == ROTA_WORK_RETRY || record->type == ROTA_WORK_END)
        truth_over(world, node, record);
    if (record->type == ROTA_WORK_LIFE && record->attempt > broker->life) {
        broker->life = record->attempt;
        broker->life_number = record->number;
    }
    disk_append(broker, record);
}

static void carry_out(struct world *world, uint32_t node, const struct rota_work_effect *effect)
{
    switch (effect->type) {
    case ROTA_WORK_DO_RECORD:
        do_record(world, node, &effect->record);
        break;
    case ROTA_WORK_DO_DISPATCH:
        do_dispatch(world, node, effect);
        break;
    case ROTA_WORK_DO_CANCEL:
        do_cancel(world, node, effect);
        break;
    case ROTA_WORK_TELL_ENDED:
        hold(world, node,
             (struct held){.number = effect->number,
                           .is_ended = true,
                           .frame = {.type = ENDED,
                                     .job = job_of(effect->id),
                                     .cause = effect->cause,
                                     .attempt = effect->attempt}});
        break;
    case ROTA_WORK_TELL_STATE:
        break;
    case ROTA_WORK_TELL_LOST: {
        const struct session *session = own_session(broker_at(world, node), effect->session);
        world->n_lost++;
        if (session)
            post(world, node, session->node,
                 &(struct frame){
                     .type = NO_SESSION, .life = session->life, .session = session->session});
        drop_session(broker_at(world, node), effect->session);
        break;
    }
    }
}

void drive(struct world *world, uint32_t node)
{
    struct broker *broker = broker_at(world, node);
    size_t n;
    const struct rota_work_effect *effects = rota_broker_effects(broker->machine, &n);
    for (size_t i = 0; i < n; i++)
        carry_out(world, node, &effects[i]);
    rota_broker_clear(broker->machine);
    for (size_t i = broker->sessions.size; i-- > 0;) {
        const struct session *session = &broker->sessions.items[i];
        if (session->n_sent > 0 && worker_at(world, session->node)->polls)
            drop_session(broker, session->session); /* it was served */
    }
    if (!rota_broker_is_sound(broker->machine))
        rota_sim_fail(world->sim, "the broker of node %u is not sound", node);
    release(world, node);
    disk_bound(world, node);
    disk_write(world, node);
    rota_sim_set_timer(world->sim, node, TIMER_TICK,
                       world->plant == PLANT_WALL ? ROTA_SIM_WALL : ROTA_SIM_MONO,
                       rota_broker_deadline(broker->machine));
}

void on_durable(struct world *world, uint32_t node)
{
    struct broker *broker = broker_at(world, node);
    for (uint32_t queue = 0; queue < QUEUES; queue++)
        if (broker->is_pause_open[queue] && broker->pause_number[queue] <= broker->durable) {
            broker->paused[queue] = broker->pause_next[queue];
            broker->is_pause_open[queue] = false;
        }
    if (world->plant != PLANT_NO_DURABLE || broker->held.size > 0)
        rota_broker_durable(broker->machine, now_of(world, node), broker->durable);
    drive(world, node);
}

/* --- the submitter --- */

void hear_add(struct world *world, uint32_t node, const struct frame *frame)
{
    struct broker *broker = broker_at(world, node);
    const struct job *job = &world->jobs[frame->job];
    const struct partition *part = &broker->parts[job->part];
    struct rota_job_spec spec = job->spec;
    struct rota_job_id id = spec.id;
    bool is_new = false;
    struct held held = {.to = SUBMITTER,
                        .frame = {.type = ADDED, .job = frame->job, .other = frame->job}};
    bool is_coming = part->row.owner == node && part->row.from != NOBODY;
    if (world->plant == PLANT_NO_KEY)
        spec.key = rota_str_of("", 0);
    if (!broker->is_ready || (is_coming && world->plant != PLANT_ADDS_EARLY))
        held.frame.code = ROTA_ERR_UNAVAILABLE;
    else
        held.frame.code = rota_broker_add(broker->machine, now_of(world, node), &spec, &id, &is_new,
                                          &held.number, NULL);
    if (held.frame.code == ROTA_OK) {
        held.frame.other = job_of(id);
        rota_sim_note(world->sim, node, "job %u is %s job %u", frame->job,
                      is_new ? "new:" : "known:", held.frame.other);
    }
    if (is_new && world->shape.jobs_max &&
        rota_broker_n_jobs(broker->machine) > world->shape.jobs_max)
        rota_sim_fail(world->sim, "bounds: node %u adds a job to %zu", node,
                      rota_broker_n_jobs(broker->machine) - 1);
    if (is_new && spec.not_before > 0) {
        struct rota_work_now now = now_of(world, node);
        world->jobs[frame->job].wait_at = node;
        world->jobs[frame->job].wait_life = rota_sim_life(world->sim, node);
        world->jobs[frame->job].not_before = now.boot + (spec.not_before - now.wall);
    }
    hold(world, node, held);
    drive(world, node);
}

void hear_cancel(struct world *world, uint32_t node, const struct frame *frame)
{
    struct broker *broker = broker_at(world, node);
    const struct job *job = &world->jobs[frame->job];
    struct held held = {.to = SUBMITTER, .frame = {.type = CANCELLED, .job = frame->job}};
    uint64_t number;
    held.frame.code =
        broker->is_ready ? rota_broker_cancel(broker->machine, now_of(world, node),
                                              queue_of(job->part), job->spec.id, &held.number, NULL)
                         : ROTA_ERR_UNAVAILABLE;
    if (held.frame.code == ROTA_OK && world->plant == PLANT_CANCEL_REQUEUES)
        rota_broker_revive(broker->machine, now_of(world, node), queue_of(job->part), job->spec.id,
                           &number, NULL);
    hold(world, node, held);
    drive(world, node);
}

/* --- workers --- */

/* The session that was asked for by this hello; or any of the node, if none was. */
static struct session *session_of(struct broker *broker, uint32_t node, const struct frame *frame)
{
    struct session *found = NULL;
    for (size_t i = 0; i < broker->sessions.size; i++) {
        struct session *session = &broker->sessions.items[i];
        if (session->node == node && (!found || session->life == frame->life))
            found = session;
    }
    return found;
}

static void welcome(struct world *world, uint32_t node, const struct session *session)
{
    post(world, node, session->node,
         &(struct frame){.type = WELCOME,
                         .life = session->life,
                         .session = session->session,
                         .epoch = session->epoch});
}

static enum rota_code open_session(struct world *world, uint32_t node, uint32_t from,
                                   const struct frame *frame, struct session *session)
{
    const struct worker *worker = worker_at(world, from);
    struct rota_str caps[CAPS], queues[QUEUES];
    struct rota_worker_running running[ITEMS_MAX];
    struct rota_worker_spec spec = {.name = rota_str(worker->name),
                                    .epoch = frame->epoch,
                                    .capabilities = caps,
                                    .queues = queues,
                                    .slots = frame->slots + (world->plant == PLANT_SLOTS),
                                    .is_poll = worker->polls,
                                    .liveness = LIVENESS,
                                    .lease = worker->has_leases ? LEASE : 0,
                                    .running = running,
                                    .n_running = world->plant == PLANT_NO_RETURN ? 0 : frame->n};
    for (uint32_t i = 0; i < CAPS; i++)
        if ((worker->caps >> i & 1) || world->plant == PLANT_ALL_CAPABLE)
            caps[spec.n_capabilities++] = rota_str(cap_names[i]);
    for (uint32_t i = 0; i < QUEUES; i++)
        if (worker->queues >> i & 1)
            queues[spec.n_queues++] = rota_str(queue_names[i]);
    for (uint32_t i = 0; i < frame->n; i++) {
        const struct job *job = &world->jobs[frame->items[i].job];
        running[i] = (struct rota_worker_running){
            .queue = queue_of(job->part), .id = job->spec.id, .attempt = frame->items[i].attempt};
    }
    *session = (struct session){.epoch = frame->epoch, .node = from, .life = frame->life};
    return rota_broker_worker_open(broker_at(world, node)->machine, now_of(world, node), &spec,
                                   &session->session, NULL);
}

void hear_hello(struct world *world, uint32_t node, uint32_t from, const struct frame *frame)
{
    struct broker *broker = broker_at(world, node);
    struct session *known = session_of(broker, from, frame), made;
    if (!broker->is_ready)
        return;
    if (known && world->plant == PLANT_IDENTITY) { /* "it is still there" */
        known->life = frame->life;
        known->epoch = frame->epoch;
    }
    if (known && known->epoch == frame->epoch && known->life == frame->life) {
        rota_broker_worker_heard(broker->machine, now_of(world, node), known->session);
        welcome(world, node, known); /* it was not heard, or comes twice */
        return;
    }
    enum rota_code code = open_session(world, node, from, frame, &made);
    if (code == ROTA_OK) {
        if (!rota_vector_push(&broker->sessions, made))
            die("no memory for a session");
        welcome(world, node, &made);
    } else if (code == ROTA_ERR_STALE) {
        world->n_stale++;
    } else {
        rota_sim_fail(world->sim, "node %u is not let in: %s", from, rota_code_name(code));
    }
    drive(world, node);
}

/* What it works on continues. */
static void extend(struct world *world, uint32_t node, uint32_t from, const struct frame *frame)
{
    for (uint32_t i = 0; i < frame->n; i++) {
        const struct item_name *item = &frame->items[i];
        const struct job *job = &world->jobs[item->job];
        if (rota_broker_extend(broker_at(world, node)->machine, now_of(world, node),
                               queue_of(job->part), job->spec.id, item->attempt, 0, 0,
                               rota_str("half"), NULL))
            post(world, node, from,
                 &(struct frame){.type = CANCEL_WORK,
                                 .life = frame->life,
                                 .job = item->job,
                                 .attempt = item->attempt});
    }
}

/* Jobs that a worker should have and does not know of are sent again. */
static void send_again(struct world *world, uint32_t node, struct session *session,
                       const struct frame *frame)
{
    rota_time now = rota_sim_mono(world->sim, node);
    size_t n = 0;
    for (size_t i = 0; i < session->n_sent; i++) {
        struct sent_job sent = session->sent[i];
        bool is_known = false;
        for (uint32_t k = 0; k < frame->n; k++)
            is_known |= frame->items[k].attempt == sent.attempt;
        if (is_known || !is_sent_on(world, node, &sent))
            continue; /* it has it, or it is over */
        if (now - sent.sent_at > RESEND_AFTER) {
            sent.sent_at = now;
            send_job(world, node, session, &sent);
        }
        session->sent[n++] = sent;
    }
    session->n_sent = n;
}

/* Ask what it has got of all that was sent so long ago that it must have come. */
static void check_worker(struct world *world, uint32_t node, const struct session *session)
{
    rota_time now = rota_sim_mono(world->sim, node);
    uint64_t up_to = 0, first_on_its_way = UINT64_MAX;
    for (size_t i = 0; i < session->n_sent; i++) {
        const struct sent_job *sent = &session->sent[i];
        if (now - sent->sent_at > DELAY_MAX)
            up_to = sent->handed > up_to ? sent->handed : up_to;
        else if (sent->handed < first_on_its_way)
            first_on_its_way = sent->handed;
    }
    post(world, node, session->node,
         &(struct frame){.type = CHECK,
                         .life = session->life,
                         .session = session->session,
                         .attempt = up_to < first_on_its_way ? up_to : first_on_its_way - 1});
}

void hear_holds(struct world *world, uint32_t node, const struct frame *frame)
{
    struct broker *broker = broker_at(world, node);
    struct rota_worker_running held[ITEMS_MAX];
    if (world->plant == PLANT_NEVER_CAME || !own_session(broker, frame->session))
        return;
    for (uint32_t i = 0; i < frame->n; i++) {
        const struct job *job = &world->jobs[frame->items[i].job];
        held[i] = (struct rota_worker_running){
            .queue = queue_of(job->part), .id = job->spec.id, .attempt = frame->items[i].attempt};
    }
    rota_broker_worker_holds(broker->machine, now_of(world, node), frame->session, frame->attempt,
                             held, frame->n, NULL);
    drive(world, node);
}

void hear_beat(struct world *world, uint32_t node, uint32_t from, const struct frame *frame)
{
    struct broker *broker = broker_at(world, node);
    struct session *session = own_session(broker, frame->session);
    struct frame answer = {.life = frame->life, .session = frame->session};
    bool is_known = rota_broker_worker_heard(broker->machine, now_of(world, node), frame->session);
    if (is_known != (session != NULL))
        rota_sim_fail(world->sim, "session %llx of node %u is there, and is not",
                      (unsigned long long)frame->session, from);
    if (session && session->node != from) /* of another life of this broker */
        return;
    answer.type = session ? BEATEN : NO_SESSION;
    if (session && worker_at(world, from)->is_checked)
        check_worker(world, node, session);
    else if (session)
        send_again(world, node, session, frame);
    if (session && worker_at(world, from)->has_leases)
        extend(world, node, from, frame);
    post(world, node, from, &answer);
    drive(world, node);
}

void hear_extend(struct world *world, uint32_t node, uint32_t from, const struct frame *frame)
{
    if (broker_at(world, node)->is_ready)
        extend(world, node, from, frame);
    drive(world, node);
}

/* Small where payloads are large: a disk that is full has no room for more of them. */
static struct rota_str result_of(const struct world *world, const struct job *job)
{
    return world->shape.payload_size ? rota_str("fine") : rota_str(job->payload);
}

void hear_end(struct world *world, uint32_t node, uint32_t from, const struct frame *frame)
{
    struct broker *broker = broker_at(world, node);
    const struct job *job = &world->jobs[frame->job];
    struct held held = {.to = from,
                        .frame = {.type = ENDED,
                                  .life = frame->life,
                                  .epoch = frame->epoch,
                                  .job = frame->job,
                                  .attempt = frame->attempt}};
    struct rota_job_view before = {0};
    struct rota_attempt_end end = {
        .queue = queue_of(job->part),
        .id = job->spec.id,
        .attempt = frame->attempt,
        .cause = frame->cause,
        .bytes = frame->cause == ROTA_JOB_CAUSE_DONE ? result_of(world, job) : rota_str_of("", 0),
        .reason = rota_str("so it is")};
    if (!broker->is_ready)
        return;
    if (!rota_broker_find(broker->machine, end.queue, end.id, &before, NULL) &&
        world->plant == PLANT_NO_FENCE)
        end.attempt = before.attempt;
    held.frame.code =
        rota_broker_end(broker->machine, now_of(world, node), &end, &held.number, NULL);
    rota_sim_note(world->sim, node, "run %u of job %u is %s: %s", frame->run, frame->job,
                  rota_job_cause_text(frame->cause), rota_code_name(held.frame.code));
    if (held.frame.code == ROTA_OK)
        truth_end_taken(world, node, frame, &before);
    world->n_stale += held.frame.code == ROTA_ERR_STALE;
    hold(world, node, held);
    drive(world, node);
}

/* --- its life --- */

/* What a wrong reader would make of a record. */
static bool sabotage_record(struct world *world, struct rota_work_record *record,
                            struct rota_job_spec *spec)
{
    switch (world->plant) {
    case PLANT_NO_LIFE:
        return record->type != ROTA_WORK_LIFE;
    case PLANT_PAUSE_LOST:
        return record->type != ROTA_WORK_PAUSE;
    case PLANT_WEIGHT_LOST:
        return record->type != ROTA_WORK_WEIGHT;
    case PLANT_RETRY_LOST:
        return record->type != ROTA_WORK_RETRY;
    case PLANT_SAME_TIME: {
        bool is_same = record->type == ROTA_WORK_ADD && record->at == world->last_at;
        world->last_at = record->type == ROTA_WORK_ADD ? record->at : world->last_at;
        return !is_same;
    }
    case PLANT_PRIORITY_LOST:
        record->priority = 0;
        if (record->spec) {
            *spec = *record->spec;
            spec->priority = 0;
            record->spec = spec;
        }
        return true;
    default:
        return true;
    }
}

static void read_journal(struct world *world, uint32_t node)
{
    struct broker *broker = broker_at(world, node);
    struct rota_error error;
    for (size_t i = 0; i < broker->disk.kept.size; i++) {
        struct rota_work_record record = broker->disk.kept.items[i]->record;
        struct rota_job_spec spec;
        broker->durable = record.number;
        if (record.type == ROTA_WORK_OWN)
            for (uint32_t part = 0; part < PARTS; part++)
                if (record.partition == part % PARTS_OF_QUEUE &&
                    rota_str_is_equal(record.queue, queue_of(part)))
                    broker->parts[part].is_open = record.epoch > 0;
        if (sabotage_record(world, &record, &spec) &&
            rota_broker_replay(broker->machine, &record, &error))
            rota_sim_fail(world->sim, "W6: %.200s", error.text);
    }
}

static void repair_call(void *data, uint64_t number)
{
    struct world *world = data;
    broker_at(world, (uint32_t)number)->disk.flipped = 0;
    rota_sim_crash(world->sim, (uint32_t)number);
    rota_sim_start(world->sim, (uint32_t)number);
}

void ask_rows(struct world *world, uint32_t node)
{
    post(world, node, TABLE,
         &(struct frame){.type = ASK_ROWS, .life = rota_sim_life(world->sim, node)});
    set_timer(world, node, TIMER_ROWS, 200 * ROTA_MSEC);
}

void broker_on_start(struct world *world, uint32_t node)
{
    struct broker *broker = broker_at(world, node);
    const struct shape *shape = &world->shape;
    if (!disk_open(world, &broker->disk)) {
        world->n_damages++;
        rota_sim_note(world->sim, node, "the journal is damaged");
        rota_sim_call(world->sim, rota_sim_now(world->sim) + 500 * ROTA_MSEC, repair_call, world,
                      node);
        return;
    }
    if (rota_broker_new(
            &(struct rota_broker_options){
                .jobs_max = shape->jobs_max,
                .bytes_max = shape->bytes_max,
                .ended_max = shape->ended_max,
                .grace = GRACE,
                .kills_max = world->plant == PLANT_NO_QUARANTINE ? KILLS_MANY : shape->kills_max,
                .seed = rota_random_next(world->random)},
            &broker->machine, NULL))
        die("no memory for a broker");
    broker->durable_before = broker->durable;
    broker->durable = broker->life = 0;
    broker->well_since = rota_sim_now(world->sim);
    read_journal(world, node);
    rota_broker_begin(broker->machine, now_of(world, node));
    broker->is_ready = world->plant == PLANT_CLOSE_EARLY; /* whatever the table may say */
    truth_recovered(world, node);
    drive(world, node);
    ask_rows(world, node);
    if (shape->compact_every)
        set_timer(world, node, TIMER_COMPACT, shape->compact_every);
}

void broker_on_crash(struct world *world, uint32_t node)
{
    struct broker *broker = broker_at(world, node);
    truth_crashed(world, node);
    rota_broker_free(broker->machine);
    disk_crash(world, broker);
    broker->machine = NULL;
    broker->is_ready = broker->is_writing = broker->is_full = false;
    broker->held.size = broker->sessions.size = 0;
    broker->compact_below = broker->compact_after = broker->n_chunks = 0;
    broker->compaction = (struct rota_compaction){0};
    broker->room = (struct rota_room){0};
    broker->want = 0;
    memset(broker->parts, 0, sizeof broker->parts);
}

void broker_deinit(struct world *world, uint32_t node)
{
    struct broker *broker = broker_at(world, node);
    broker_on_crash(world, node);
    disk_deinit(broker);
    rota_vector_deinit(&broker->held);
    rota_vector_deinit(&broker->sessions);
}
