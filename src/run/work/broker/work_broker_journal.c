/* A broker's journal: replaying it, writing it, and the state of the disk. */
#include "run/work/broker/work_broker_inside.h"

#include "base/quote.h"

static enum rota_code on_record(void *data, const struct rota_work_record *record,
                                struct rota_error *error)
{
    struct rota_work_broker *broker = data;
    enum rota_code code = rota_broker_replay(broker->core, record, error);
    broker->log.appended = broker->log.durable = record->number;
    broker->log.n_replayed++;
    if (code != ROTA_ERR_INVALID)
        return code;
    rota_log(broker->options.log, rota_work_broker_now().wall, ROTA_LOG_WARN,
             "journal record skipped", ROTA_LOG_FACT("number", record->number),
             ROTA_LOG_FACT("why", error->text));
    return ROTA_OK;
}

static void on_ahead(void *data, struct rota_job_id id)
{
    rota_broker_foresee(((struct rota_work_broker *)data)->core, id);
}

static void on_durable(void *data, uint64_t number)
{
    rota_work_broker_durable(data, number);
}

static void on_full(void *data, const char *why)
{
    struct rota_work_broker *broker = data;
    rota_broker_refuse_adds(broker->core, why);
    rota_work_broker_touch(broker);
}

static void on_room(void *data)
{
    struct rota_work_broker *broker = data;
    rota_broker_refuse_adds(broker->core, NULL);
    rota_work_broker_touch(broker);
}

static void on_changed(void *data)
{
    rota_work_broker_touch(data);
}

static void on_failed(void *data, const struct rota_error *error)
{
    rota_work_broker_fail(data, error);
}

enum rota_code rota_work_broker_journal_open(struct rota_work_broker *broker, uv_loop_t *loop,
                                             const char *directory, struct rota_error *error)
{
    struct rota_journal_options options = {
        .directory = directory,
        .log = broker->options.log,
        .repair = broker->options.repair,
        .segment_size = broker->options.segment_size,
        .on_record = on_record,
        .on_ahead = on_ahead,
        .on_durable = on_durable,
        .on_full = on_full,
        .on_room = on_room,
        .on_changed = on_changed,
        .on_failed = on_failed,
        .data = broker,
    };
    rota_time before = rota_work_broker_now().boot;
    enum rota_code code = rota_journal_open(loop, &options, &broker->log.journal, error);
    if (code)
        return code;
    broker->log.sink = &rota_broker_journal_sink;
    rota_log(broker->options.log, rota_work_broker_now().wall, ROTA_LOG_INFO, "journal read",
             ROTA_LOG_FACT("directory", directory),
             ROTA_LOG_FACT("records", broker->log.n_replayed),
             ROTA_LOG_FACT("jobs", rota_broker_n_jobs(broker->core)),
             ROTA_LOG_SPAN("took", rota_work_broker_now().boot - before));
    return ROTA_OK;
}

/* Nothing waits for the start of an attempt: the job is in flight to the worker already, and a
 * broker that finds no start after a crash hands the job out again. */
static bool append_record(struct rota_work_broker *broker, const struct rota_work_record *record)
{
    struct rota_error error;
    enum rota_code code = record->type == ROTA_WORK_START
                              ? rota_journal_append_later(broker->log.journal, record, &error)
                              : rota_journal_append(broker->log.journal, record, &error);
    if (!code)
        broker->log.appended = record->number;
    else if (code != ROTA_ERR_LIMIT && code != ROTA_ERR_NO_MEMORY)
        rota_work_broker_fail(broker, &error);
    return !code;
}

static struct rota_room_look look_at_room(const struct rota_work_broker *broker,
                                          const struct rota_journal_view *view)
{
    return (struct rota_room_look){
        .left = view->n_left,
        .free = view->n_free,
        .waiting = view->n_waiting_bytes,
        .reserve = view->reserve_size,
        .has_reserve = view->has_reserve,
        .n_jobs = rota_broker_n_jobs(broker->core),
    };
}

/* Set how much may be accepted, and whether anything may. */
static void bound_adds(struct rota_work_broker *broker)
{
    struct rota_journal_view view = rota_journal_look(broker->log.journal);
    struct rota_room_look look = look_at_room(broker, &view);
    bool is_short = rota_room_step(&broker->log.room, &look, rota_broker_is_short(broker->core));
    rota_journal_set_short(broker->log.journal, is_short);
    rota_broker_allow_adds(broker->core, rota_room_for_adds(&look));
}

/* A few jobs at a time, between other work, and in a batch of their own. */
static void compact_some(struct rota_work_broker *broker)
{
    struct rota_journal_view view = rota_journal_look(broker->log.journal);
    struct rota_compaction_look look = {
        .bytes = view.bytes,
        .live = rota_broker_memory(broker->core),
        .edge = view.edge,
        .segment_size = view.segment_size,
        .room = look_at_room(broker, &view),
        .is_full = view.is_full,
        .is_damaged = view.n_lost > 0,
        .is_busy = view.has_sealed,
    };
    for (; look.n_old < view.n_old && look.n_old < ROTA_COMPACTION_OLD; look.n_old++)
        look.old[look.n_old] = (struct rota_compaction_segment){.bytes = view.old[look.n_old].bytes,
                                                                .end = view.old[look.n_old].end};
    struct rota_compaction_todo todo = rota_compaction_step(
        &broker->log.compaction, rota_work_broker_now().boot, &look, broker->core);
    if (todo.want)
        rota_journal_make_room(broker->log.journal, todo.want);
    if (todo.drop_below)
        broker->log.drop_below = todo.drop_below;
    if (!todo.has_written)
        return;
    rota_journal_seal(broker->log.journal);
    bool is_appended = rota_work_broker_carry_out(broker);
    rota_journal_seal(broker->log.journal);
    if (!is_appended)
        rota_work_broker_touch(broker);
}

/* What the last one rewrote is appended: this turn has carried out everything. */
static void drop_old(struct rota_work_broker *broker)
{
    if (broker->log.drop_below)
        rota_journal_drop_below(broker->log.journal, broker->log.drop_below);
    broker->log.drop_below = 0;
}

static void run_journal_turn(struct rota_work_broker *broker)
{
    drop_old(broker);
    compact_some(broker);
    if (broker->log.drop_below)
        rota_work_broker_touch(broker);
    bound_adds(broker);
}

static rota_time journal_deadline(const struct rota_work_broker *broker)
{
    return rota_compaction_deadline(&broker->log.compaction);
}

static void close_journal(struct rota_work_broker *broker, void (*on_closed)(void *data),
                          void *data)
{
    rota_journal_close(broker->log.journal, on_closed, data);
}

const struct rota_broker_sink rota_broker_journal_sink = {
    .append = append_record,
    .turn = run_journal_turn,
    .deadline = journal_deadline,
    .close = close_journal,
    .failed = "the journal of this node can no longer be written",
};
