#include "run/work/broker/work_broker_inside.h"

#include "base/hash.h"
#include "core/call/failure.h"
#include "io/clock.h"
#include "run/work/broker/work_broker_workers.h"
#include "run/work/cluster/work_broker_errand.h"
#include "run/work/cluster/work_broker_forward.h"
#include "run/work/cluster/work_broker_handover.h"
#include "run/work/cluster/work_broker_layout.h"
#include "run/work/cluster/work_broker_layout_file.h"
#include "run/work/cluster/work_broker_refresh.h"
#include "run/work/cluster/work_broker_rows.h"
#include "run/work/cluster/work_broker_settings.h"
#include "run/work/store/work_broker_store.h"
#include "wire/grpc/call_notes.h"

#include <rota/experimental/members.h>
#include <stdlib.h>

#define STUCK_WAIT (20 * ROTA_MSEC) /* until a journal that can't take a record is asked again */

struct rota_work_now rota_work_broker_now(void)
{
    return (struct rota_work_now){.boot = rota_clock_boot(), .wall = rota_clock_wall()};
}

void rota_work_broker_hold(struct rota_work_broker *broker, enum rota_broker_hold_reason reason,
                           bool is_on)
{
    broker->holds = is_on ? broker->holds | reason : broker->holds & ~(unsigned)reason;
    rota_broker_hold(broker->core, rota_work_broker_now(), broker->holds != 0);
}

/* --- a turn --- */

/* Carry out one effect; false when the journal can't take it now. */
static bool execute_effect(struct rota_work_broker *broker, const struct rota_work_effect *effect)
{
    switch (effect->type) {
    case ROTA_WORK_DO_RECORD:
        if (broker->log.sink && !broker->log.sink->append(broker, &effect->record))
            return false;
        if (effect->record.type == ROTA_WORK_ADD)
            rota_work_broker_watch_added(broker, &effect->record);
        rota_work_broker_news_report(broker, effect);
        return true;
    case ROTA_WORK_DO_DISPATCH:
        if (!rota_work_broker_workers_hand(broker->workers, effect))
            rota_work_broker_poll_hand(broker, effect);
        return true;
    case ROTA_WORK_DO_CANCEL: /* a poll learns of it when it extends or ends the attempt */
        rota_work_broker_workers_cancel(broker->workers, effect, 0);
        return true;
    case ROTA_WORK_TELL_ENDED:
    case ROTA_WORK_TELL_STATE:
        rota_work_broker_watch_tell(broker, effect);
        return true;
    case ROTA_WORK_TELL_LOST:
        rota_work_broker_workers_lost(broker->workers, effect->session);
        rota_work_broker_poll_lost(broker, effect->session);
        return true;
    }
    return true;
}

bool rota_work_broker_carry_out(struct rota_work_broker *broker)
{
    size_t n;
    const struct rota_work_effect *effects = rota_broker_effects(broker->core, &n);
    while (broker->log.n_carried < n && execute_effect(broker, &effects[broker->log.n_carried]))
        broker->log.n_carried++;
    if (broker->log.n_carried < n)
        return false;
    rota_broker_clear(broker->core);
    broker->log.n_carried = 0;
    return true;
}

static void send_answer(struct rota_work_broker *broker, const struct rota_broker_answer *answer)
{
    struct rota_str message =
        rota_str_of(answer->large ? answer->large : answer->small, answer->size);
    if (rota_work_broker_store_turn_is_void(broker, answer->first, answer->last)) {
        const struct rota_metadata note = {rota_str(ROTA_NOTE_FAILURE),
                                           rota_str(rota_failure_name(ROTA_FAILURE_STALE))};
        if (answer->call)
            rota_server_call_finish(answer->call, ROTA_STATUS_UNAVAILABLE,
                                    "the partition moved to another node before this was stored",
                                    &note, 1);
    } else if (answer->call) {
        rota_server_call_reply(answer->call, message);
    } else {
        rota_work_broker_workers_verdict(broker->workers, answer->connection, message);
    }
}

static void send_answers(struct rota_work_broker *broker)
{
    size_t i = broker->log.n_answered;
    for (;
         i < broker->log.answers.size && broker->log.answers.items[i].number <= broker->log.durable;
         i++) {
        struct rota_broker_answer *answer = &broker->log.answers.items[i];
        send_answer(broker, answer);
        free(answer->large);
    }
    broker->log.n_answered = i;
    if (i == broker->log.answers.size)
        broker->log.answers.size = broker->log.n_answered = 0;
}

static void on_timer(uv_timer_t *timer);

static void set_timer(struct rota_work_broker *broker, rota_time now, bool is_stuck)
{
    const struct rota_heap_node *poll = rota_heap_first(&broker->polls.until);
    rota_time at = rota_broker_deadline(broker->core);
    at = rota_time_min(at, rota_work_broker_handover_deadline(broker->handover));
    at = rota_time_min(at, rota_work_broker_settings_deadline(broker->settings));
    at = rota_time_min(at, rota_work_broker_layout_deadline(broker->layouts));
    at = rota_time_min(at, rota_work_broker_refresh_deadline(broker, now));
    at = rota_time_min(at, rota_work_broker_layout_file_deadline(broker->layout_file));
    at = rota_time_min(at, rota_work_broker_rows_deadline(broker->rows));
    if (poll)
        at = rota_time_min(at, poll->at);
    at = rota_time_min(at, rota_work_broker_forward_deadline(broker));
    if (broker->log.sink && broker->log.sink->deadline)
        at = rota_time_min(at, broker->log.sink->deadline(broker));
    if (is_stuck)
        at = rota_time_min(at, now + STUCK_WAIT);
    if (at == ROTA_TIME_NEVER) {
        uv_timer_stop(&broker->timer);
        return;
    }
    rota_time wait = at > now ? at - now : 0;
    uv_update_time(broker->timer.loop);
    uv_timer_start(&broker->timer, on_timer, rota_queue_to_ms(wait), 0);
}

#define EMPTY_EVERY (10 * ROTA_SEC) /* unused queues are forgotten */

/* Carry out the effects of everything received, and of what that causes. */
static void run_turn(struct rota_work_broker *broker)
{
    struct rota_work_now now = rota_work_broker_now();
    broker->is_dirty = false;
    broker->n_turns++;
    uv_check_stop(&broker->check);
    uv_idle_stop(&broker->idle);
    rota_work_broker_rows_turn(broker->rows, now.boot);
    rota_work_broker_layout_file_turn(broker->layout_file, now);
    rota_work_broker_refresh_turn(broker, now.boot);
    bool is_stuck = !rota_work_broker_carry_out(broker);
    while (!is_stuck) {
        bool has_more = rota_work_broker_poll_return(broker);
        has_more |= rota_work_broker_handover_turn(broker->handover, now);
        has_more |= rota_work_broker_settings_turn(broker->settings, now.boot);
        has_more |= rota_work_broker_layout_turn(broker->layouts, now);
        if (!broker->log.sink)
            broker->log.appended = rota_broker_last_number(broker->core);
        if (!broker->log.sink && broker->log.durable < broker->log.appended) {
            broker->log.durable = broker->log.appended;
            rota_broker_durable(broker->core, now, broker->log.durable);
            has_more = true;
        }
        if (!has_more)
            break;
        is_stuck = !rota_work_broker_carry_out(broker);
    }
    if (broker->is_failed)
        return;
    if (!is_stuck && rota_broker_has_empty(broker->core) &&
        now.boot - broker->swept_at >= EMPTY_EVERY) {
        broker->swept_at = now.boot;
        rota_broker_forget_empty(broker->core, now);
    }
    if (!is_stuck && broker->log.sink)
        broker->log.sink->turn(broker);
    send_answers(broker);
    rota_work_broker_workers_flush(broker->workers);
    rota_work_broker_poll_flush(broker, now.boot, broker->front.fsm.is_draining);
    rota_work_broker_watch_flush(broker);
    rota_work_broker_forward_turn(broker, now);
    if (!broker->is_dirty)
        set_timer(broker, now.boot, is_stuck);
}

static void on_check(uv_check_t *check)
{
    run_turn(check->data);
}

static void on_idle(uv_idle_t *idle)
{
    (void)idle;
}

static void on_timer(uv_timer_t *timer)
{
    struct rota_work_broker *broker = timer->data;
    rota_broker_tick(broker->core, rota_work_broker_now());
    rota_work_broker_touch(broker);
}

void rota_work_broker_touch(struct rota_work_broker *broker)
{
    if (broker->is_dirty || broker->front.fsm.is_closing)
        return;
    broker->is_dirty = true;
    uv_check_start(&broker->check, on_check);
    uv_idle_start(&broker->idle, on_idle);
}

/* An answer whose record is older than the last one waits for that one: all of them are on disk
 * soon after. */
static bool push_answer(struct rota_work_broker *broker, struct rota_broker_answer answer,
                        struct rota_str message)
{
    size_t n = broker->log.answers.size;
    answer.last = answer.number;
    if (n > broker->log.n_answered && answer.number < broker->log.answers.items[n - 1].number)
        answer.number = broker->log.answers.items[n - 1].number;
    answer.size = message.size;
    if (message.size > sizeof answer.small) {
        answer.large = malloc(message.size);
        if (!answer.large)
            return false;
    }
    if (message.size)
        memcpy(answer.large ? answer.large : answer.small, message.data, message.size);
    if (!rota_vector_push(&broker->log.answers, answer)) {
        free(answer.large);
        return false;
    }
    rota_work_broker_touch(broker);
    return true;
}

void rota_work_broker_answer(struct rota_work_broker *broker, struct rota_server_call *call,
                             uint64_t number, struct rota_str message)
{
    uint64_t first = broker->front.call_first < number ? broker->front.call_first : number;
    /* Others may wait for a full disk, or an unreachable store. A record may be void because
     * another node took the partition, which is checked in its turn. */
    if (number == 0 || (!broker->store && number <= broker->log.durable))
        rota_server_call_reply(call, message);
    else if (broker->is_failed && number > broker->log.durable)
        rota_server_call_finish(call, ROTA_STATUS_UNAVAILABLE, broker->log.sink->failed, NULL, 0);
    else if (!push_answer(
                 broker,
                 (struct rota_broker_answer){.number = number, .first = first, .call = call},
                 message))
        rota_server_call_finish(
            call, ROTA_STATUS_UNKNOWN,
            "the request succeeded, but there is not enough memory for the reply", NULL, 0);
}

bool rota_work_broker_queue_verdict(struct rota_work_broker *broker, uint64_t connection,
                                    uint64_t number, struct rota_str verdict)
{
    return push_answer(
        broker,
        (struct rota_broker_answer){.number = number, .first = number, .connection = connection},
        verdict);
}

void rota_work_broker_durable(struct rota_work_broker *broker, uint64_t number)
{
    broker->log.durable = number;
    rota_broker_durable(broker->core, rota_work_broker_now(), number);
    rota_work_broker_touch(broker);
}

void rota_work_broker_drop_answers(struct rota_work_broker *broker, const char *why)
{
    for (size_t i = broker->log.n_answered; i < broker->log.answers.size; i++) {
        if (broker->log.answers.items[i].call)
            rota_server_call_finish(broker->log.answers.items[i].call, ROTA_STATUS_UNAVAILABLE, why,
                                    NULL, 0);
        free(broker->log.answers.items[i].large);
    }
    broker->log.answers.size = broker->log.n_answered = 0;
}

void rota_work_broker_fail(struct rota_work_broker *broker, const struct rota_error *error)
{
    if (broker->is_failed)
        return;
    broker->is_failed = true;
    rota_log(broker->options.log, rota_work_broker_now().wall, ROTA_LOG_ERROR, "journal failed",
             ROTA_LOG_FACT("why", error->text));
    rota_work_broker_drop_answers(broker, broker->log.sink->failed);
    if (broker->options.on_failed)
        broker->options.on_failed(broker->options.data, error);
}

/* --- life --- */

void rota_work_broker_let_go(struct rota_work_broker *broker)
{
    if (--broker->n_handles > 0)
        return;
    rota_broker_free(broker->core);
    rota_work_broker_front_deinit(&broker->front);
    rota_work_broker_poll_deinit(&broker->polls);
    rota_work_broker_watch_deinit(&broker->watchers);
    rota_vector_deinit(&broker->log.answers);
    free(broker);
}

static void on_closed(uv_handle_t *handle)
{
    rota_work_broker_let_go(handle->data);
}

static void on_sink_closed(void *data)
{
    rota_work_broker_let_go(data);
}

static void open_handles(struct rota_work_broker *broker, uv_loop_t *loop)
{
    uv_check_init(loop, &broker->check);
    uv_idle_init(loop, &broker->idle);
    uv_timer_init(loop, &broker->timer);
    broker->check.data = broker->idle.data = broker->timer.data = broker;
    broker->n_handles = 3;
}

static enum rota_code check_options(const struct rota_work_broker_options *options,
                                    struct rota_error *error)
{
    if (options->is_memory + (options->directory != NULL) + (options->store != NULL) != 1)
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "keep jobs in one place: a directory, a store or memory");
    if (options->partitions > ROTA_JOB_PARTITIONS_MAX)
        return rota_error_set(error, ROTA_ERR_INVALID, "a queue has at most %d partitions, not %u",
                              ROTA_JOB_PARTITIONS_MAX, options->partitions);
    if (options->members && !options->advertise)
        return rota_error_set(error, ROTA_ERR_INVALID, "the node's own address is missing");
    return rota_work_broker_workers_check(options, error);
}

static void tell_unlisted(const struct rota_work_broker *broker)
{
    rota_log(broker->options.log, rota_work_broker_now().wall, ROTA_LOG_WARN,
             "node not in the list of nodes",
             ROTA_LOG_FACT("address", rota_work_broker_cluster_self(broker->cluster)));
}

/* A node that has not joined yet, or leaves cleanly, is not listed: that is not an error. */
static void on_listing(void *data)
{
    struct rota_work_broker *broker = data;
    bool is_listed = rota_work_broker_cluster_is_listed(
        broker->cluster, rota_work_broker_cluster_self(broker->cluster));
    if (broker->was_listed && !is_listed && !broker->front.fsm.is_draining)
        tell_unlisted(broker);
    bool is_placed = rota_work_broker_cluster_is_placed(broker->cluster);
    bool is_news = is_placed && !broker->was_placed;
    if (is_placed != broker->is_placed)
        rota_work_broker_refresh_tell(broker);
    broker->was_listed = is_listed;
    broker->is_placed = is_placed;
    broker->was_placed = broker->was_placed || is_placed;
    if (is_news && rota_work_broker_rows_have_begun(broker->rows) && broker->options.on_listed)
        broker->options.on_listed(broker->options.data);
}

static enum rota_code join_cluster(struct rota_work_broker *broker, uv_loop_t *loop,
                                   struct rota_error *error)
{
    const struct rota_broker_cluster_options with = {
        .source = broker->options.members,
        .self = broker->options.advertise,
        .partitions = broker->options.partitions,
        .tls = broker->options.tls,
        .insecure = broker->options.is_insecure,
        .token = broker->options.token,
        .view = broker->options.view,
        .data = broker->options.data,
        .log = broker->options.log,
    };
    enum rota_code code = rota_work_broker_cluster_open(loop, &with, &broker->cluster, error);
    if (code || !with.source)
        return code;
    broker->listing =
        (struct rota_broker_cluster_subscriber){.on_route = on_listing, .data = broker};
    rota_work_broker_cluster_subscribe(broker->cluster, &broker->listing);
    on_listing(broker);
    /* A list that is available by now is a file or a setting, and has to contain this node. */
    if (!broker->was_listed && rota_work_broker_cluster_n_peers(broker->cluster) > 0)
        tell_unlisted(broker);
    return ROTA_OK;
}

enum rota_code rota_work_broker_open(struct uv_loop_s *loop, struct rota_server *server,
                                     const struct rota_work_broker_options *options,
                                     struct rota_work_broker **broker, struct rota_error *error)
{
    struct rota_work_broker *made = NULL;
    enum rota_code code = check_options(options, error);
    if (!code && !(made = calloc(1, sizeof *made)))
        code = rota_error_no_memory(error, "for a broker");
    if (code) {
        if (options->members)
            options->members->stop(options->members);
        return code;
    }
    uint64_t seed = uv_hrtime() ^ (uint64_t)rota_clock_wall();
    if (uv_random(NULL, NULL, &seed, sizeof seed, 0, NULL))
        seed ^= (uint64_t)(uintptr_t)made;
    uint64_t secret = rota_hash_sip64(seed, rota_str("attempts"));
    uv_random(NULL, NULL, &secret, sizeof secret, 0, NULL);
    made->options = *options;
    made->seed = seed;
    if (made->options.partitions == 0)
        made->options.partitions = 16;
    rota_map_init(&made->front.errands, seed);
    rota_work_broker_poll_init(&made->polls, seed);
    rota_work_broker_watch_init(&made->watchers, seed);
    open_handles(made, loop);
    struct rota_broker_options with = {
        .jobs_max = options->jobs_max,
        .bytes_max = options->bytes_max,
        .has_rows = options->store != NULL,
        .is_volatile = options->is_memory,
        .keep = options->keep,
        .seed = seed,
        .secret = secret,
        .layout = rota_work_broker_cluster_default(made->options.partitions)};
    code = join_cluster(made, loop, error);
    if (!code && !rota_work_broker_cluster_is_alone(made->cluster))
        code = rota_work_broker_forward_open(made, error);
    if (!code)
        code = rota_broker_new(&with, &made->core, error);
    if (!code)
        rota_broker_set_watched(made->core, false);
    if (!code && options->directory)
        code = rota_work_broker_journal_open(made, loop, options->directory, error);
    if (!code && options->store)
        code = rota_work_broker_store_open(made, loop, options->store, error);
    if (!code && options->workers_address)
        code = rota_work_broker_workers_open(made, loop, error);
    if (!code)
        code = rota_work_broker_front_open(made, server, error);
    if (code) {
        rota_work_broker_close(made);
        return code;
    }
    made->has_past = rota_broker_last_number(made->core) > 0;
    rota_broker_begin(made->core, rota_work_broker_now());
    code = rota_work_broker_layout_open(made, error);
    if (!code)
        code = rota_work_broker_rows_open(made, error);
    if (!code)
        code = rota_work_broker_layout_file_open(made, error);
    if (!code && options->members && !options->store) {
        code = rota_work_broker_settings_open(made, error);
        if (!code)
            code = rota_work_broker_handover_open(made, error);
    }
    if (code) {
        rota_work_broker_close(made);
        return code;
    }
    rota_work_broker_touch(made);
    *broker = made;
    return ROTA_OK;
}

void rota_work_broker_drain(struct rota_work_broker *broker)
{
    broker->front.fsm.is_draining = true;
    rota_work_broker_workers_drain(broker->workers);
    rota_work_broker_touch(broker);
}

bool rota_work_broker_is_drained(const struct rota_work_broker *broker)
{
    return rota_broker_n_in_state(broker->core, ROTA_JOB_RUNNING) == 0 &&
           rota_work_broker_settings_has_left(broker);
}

bool rota_work_broker_is_listed(const struct rota_work_broker *broker)
{
    return (rota_work_broker_cluster_is_alone(broker->cluster) || broker->was_placed) &&
           rota_work_broker_rows_have_begun(broker->rows);
}

void rota_work_broker_restore(struct rota_work_broker *broker)
{
    broker->front.fsm.is_draining = false;
    rota_work_broker_workers_drain(broker->workers);
    rota_work_broker_touch(broker);
}

void rota_work_broker_close(struct rota_work_broker *broker)
{
    if (!broker)
        return;
    broker->front.fsm.is_closing = true;
    rota_work_broker_drop_answers(broker, "this node is stopping");
    if (broker->core)
        rota_work_broker_poll_flush(broker, rota_clock_boot(), true);
    rota_work_broker_watch_end(broker);
    rota_work_broker_forward_close(broker);
    rota_work_broker_workers_close(broker->workers);
    broker->workers = NULL;
    rota_work_broker_errand_end_all(broker);
    rota_work_broker_handover_close(broker->handover);
    broker->handover = NULL;
    rota_work_broker_settings_close(broker->settings);
    broker->settings = NULL;
    rota_work_broker_rows_close(broker->rows);
    broker->rows = NULL;
    rota_work_broker_layout_file_close(broker->layout_file);
    broker->layout_file = NULL;
    rota_work_broker_layout_close(broker->layouts);
    broker->layouts = NULL;
    if (broker->log.sink) {
        broker->n_handles++;
        broker->log.sink->close(broker, on_sink_closed, broker);
    }
    rota_work_broker_cluster_close(broker->cluster);
    broker->cluster = NULL;
    uv_close((uv_handle_t *)&broker->check, on_closed);
    uv_close((uv_handle_t *)&broker->idle, on_closed);
    uv_close((uv_handle_t *)&broker->timer, on_closed);
}

struct rota_work_broker_counts rota_work_broker_counts(const struct rota_work_broker *broker)
{
    struct rota_work_broker_counts counts = {
        .jobs = rota_broker_n_jobs(broker->core),
        .waiting = rota_broker_n_in_state(broker->core, ROTA_JOB_WAITING),
        .running = rota_broker_n_in_state(broker->core, ROTA_JOB_RUNNING),
        .dead = rota_broker_n_in_state(broker->core, ROTA_JOB_DEAD),
        .polls = broker->polls.by_session.size,
        .watchers = broker->watchers.n,
        .memory = rota_broker_memory(broker->core),
        .turns_total = broker->n_turns,
        .records_total = broker->log.appended,
        .durable_total = broker->log.durable,
    };
    rota_work_broker_forward_counts(broker, &counts);
    rota_work_broker_workers_counts(broker->workers, &counts);
    return counts;
}
