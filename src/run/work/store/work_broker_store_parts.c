/* The partitions that a broker has of its store: the driver of partition_fsm. */
#include "run/work/store/work_broker_store_inside.h"

#include "base/quote.h"
#include "io/clock.h"
#include "wire/record/journal_record.h"

#include <stdlib.h>
#include <string.h>

static void log_part(struct rota_broker_store *store, enum rota_log_level level, const char *phrase,
                     const struct rota_partition_held *part, const char *why)
{
    rota_log(store->broker->options.log, rota_clock_wall(), level, phrase,
             ROTA_LOG_FACT("queue", part->queue),
             ROTA_LOG_FACT("partition", (uint64_t)part->number),
             ROTA_LOG_FACT("epoch", part->epoch), ROTA_LOG_FACT("why", why));
}

/* --- actions --- */

static void post_take(struct rota_broker_store *store)
{
    const struct rota_partition_fsm *fsm = &store->fsm;
    store->n_taken = 0;
    for (size_t i = 0; i < fsm->n_taken; i++) {
        const struct rota_partition_held *part = fsm->taken[i];
        if (!part)
            continue;
        memcpy(store->taken_queues[store->n_taken], part->queue.data, part->queue.size);
        store->taken[store->n_taken] = (struct rota_store_partition){
            .queue = rota_str_of(store->taken_queues[store->n_taken], part->queue.size),
            .number = part->number};
        store->n_taken++;
    }
    rota_work_broker_store_post(&store->take);
}

static void post_load(struct rota_broker_store *store, const struct rota_partition_action *action)
{
    const struct rota_partition_held *part = action->part;
    if (action->is_first) {
        memcpy(store->load_queue, part->queue.data, part->queue.size);
        store->load_queue[part->queue.size] = 0;
        store->load_number = part->number;
        store->load_after[0] = 0;
    }
    rota_work_broker_store_post(&store->load);
}

static void remove_row(struct rota_broker_store *store, const struct rota_partition_held *part)
{
    char *copy = malloc(part->queue.size + 1);
    if (copy)
        memcpy(copy, part->queue.data, part->queue.size);
    struct rota_store_removal removal = {.queue = rota_str_of(copy, part->queue.size),
                                         .epoch = part->epoch,
                                         .partition = part->number};
    if (!copy || !rota_vector_push(&store->removals, removal)) {
        free(copy);
        rota_work_broker_store_parts_tell(
            store, &(struct rota_partition_event){.type = ROTA_PARTITION_REMOVED,
                                                  .queue = part->queue,
                                                  .number = part->number,
                                                  .epoch = part->epoch,
                                                  .is_failed = true});
    }
    rota_work_broker_touch(store->broker);
}

static void forget_part(struct rota_broker_store *store, const struct rota_partition_action *action)
{
    const struct rota_partition_held *part = action->part;
    bool is_lost = action->end == ROTA_PARTITION_LOST;
    if (action->end != ROTA_PARTITION_DROPPED)
        log_part(store, is_lost ? ROTA_LOG_WARN : ROTA_LOG_INFO,
                 is_lost ? "partition lost" : "partition released", part, action->text);
    if (is_lost || action->end == ROTA_PARTITION_RELEASED)
        rota_work_broker_watch_lost(store->broker, part->queue, part->number);
    if (action->is_kept)
        log_part(store, ROTA_LOG_ERROR, "partition not forgotten", part, "no memory");
    rota_work_broker_store_turn_void(store, part);
    rota_work_broker_touch(store->broker);
}

static void carry_out(struct rota_broker_store *store, const struct rota_partition_action *action)
{
    switch (action->type) {
    case ROTA_PARTITION_DO_CHECK:
        rota_work_broker_store_post(&store->look);
        break;
    case ROTA_PARTITION_DO_TAKE:
        post_take(store);
        break;
    case ROTA_PARTITION_DO_LOAD:
        post_load(store, action);
        break;
    case ROTA_PARTITION_DO_REMOVE:
        remove_row(store, action->part);
        break;
    case ROTA_PARTITION_DO_FORGET:
        forget_part(store, action);
        break;
    case ROTA_PARTITION_DO_OPENED:
        log_part(store, ROTA_LOG_INFO, "partition open", action->part, "this node owns it");
        break;
    case ROTA_PARTITION_DO_UNCLOSED:
        log_part(store, ROTA_LOG_WARN, "partition not closed", action->part, action->text);
        break;
    case ROTA_PARTITION_DO_RESUME:
        rota_work_broker_store_gate_unpark(store, action->text);
        break;
    }
}

/* The one caller of the machine. A resumed call may come back here: the loop handles the
 * consequences. Before the store is open, actions wait. */
void rota_work_broker_store_parts_tell(struct rota_broker_store *store,
                                       const struct rota_partition_event *event)
{
    struct rota_partition_fsm *fsm = &store->fsm;
    rota_partition_fsm_step(fsm, rota_work_broker_now(), event);
    if (store->is_driving || !store->store || fsm->actions.size == 0)
        return;
    store->is_driving = true;
    for (size_t i = 0; i < fsm->actions.size; i++) {
        struct rota_partition_action action = fsm->actions.items[i];
        carry_out(store, &action);
    }
    store->is_driving = false;
    rota_partition_fsm_clear(fsm);
}

void rota_work_broker_store_parts_take(struct rota_broker_store *store)
{
    if (!store->is_closing)
        rota_work_broker_store_parts_tell(
            store, &(struct rota_partition_event){.type = ROTA_PARTITION_TURN,
                                                  .durable = store->broker->log.durable});
}

enum rota_partition_owner rota_work_broker_store_parts_owner(void *data, struct rota_str queue,
                                                             uint32_t number)
{
    const struct rota_broker_store *store = data;
    return rota_work_broker_cluster_whose(store->broker->cluster, queue, number).whose;
}

void rota_work_broker_store_parts_delete(struct rota_work_broker *broker, struct rota_str queue)
{
    if (broker->store)
        rota_work_broker_store_parts_tell(
            broker->store,
            &(struct rota_partition_event){.type = ROTA_PARTITION_DELETED, .queue = queue});
}

/* --- taking --- */

/* On the thread. */
void rota_work_broker_store_parts_work_take(struct rota_letter *letter)
{
    struct rota_broker_letter *own = ROTA_LIST_ITEM(letter, struct rota_broker_letter, letter);
    struct rota_broker_store *store = own->store;
    own->code = store->session ? rota_store_jobs_take_partitions(
                                     store->session, store->instance, rota_str(store->owner),
                                     store->taken, store->n_taken, &store->taken_epoch, &own->error)
                               : rota_error_set(&own->error, ROTA_ERR_UNAVAILABLE, "not connected");
}

void rota_work_broker_store_parts_done_take(struct rota_letter *letter, bool is_cancelled)
{
    struct rota_broker_letter *own = ROTA_LIST_ITEM(letter, struct rota_broker_letter, letter);
    struct rota_broker_store *store = own->store;
    own->is_under_way = false;
    if (is_cancelled || store->is_closing)
        return;
    bool is_taken = rota_work_broker_store_heard(own);
    rota_work_broker_store_parts_tell(store,
                                      &(struct rota_partition_event){.type = ROTA_PARTITION_TAKEN,
                                                                     .epoch = store->taken_epoch,
                                                                     .is_failed = !is_taken});
    rota_work_broker_touch(store->broker);
    rota_work_broker_store_drive(store);
}

/* --- loading --- */

/* On the thread. */
void rota_work_broker_store_parts_work_load(struct rota_letter *letter)
{
    struct rota_broker_letter *own = ROTA_LIST_ITEM(letter, struct rota_broker_letter, letter);
    struct rota_broker_store *store = own->store;
    own->code =
        store->session
            ? rota_store_jobs_load(store->session, rota_str(store->load_queue), store->load_number,
                                   rota_str(store->load_after), &store->rows, &own->error)
            : rota_error_set(&own->error, ROTA_ERR_UNAVAILABLE, "not connected");
}

/* A row that is not a job is skipped and logged: only an operator can know what it was. */
static enum rota_code load_row(struct rota_broker_store *store, size_t row,
                               struct rota_error *error)
{
    struct rota_journal_batch batch = {0};
    struct rota_journal_room room;
    struct rota_work_record record;
    struct rota_str id = rota_sql_bytes_at(&store->rows, row, 0);
    struct rota_str body = rota_sql_bytes_at(&store->rows, row, 1);
    struct rota_job_id known;
    bool has_payload = rota_sql_at(&store->rows, row, 2).type == ROTA_SQL_BYTES;
    enum rota_code code = ROTA_OK;
    if (!has_payload || rota_job_id_parse(id, &known, NULL) ||
        !rota_journal_record_decode(&batch, body.data, body, &record, &room) ||
        record.type != ROTA_WORK_JOB || room.spec.id.high != known.high ||
        room.spec.id.low != known.low || room.spec.partition != store->load_number ||
        !rota_str_is_equal(room.spec.queue, rota_str(store->load_queue))) {
        code = rota_error_set(error, ROTA_ERR_INVALID, "the row is not a job of this partition");
    } else {
        room.spec.payload = rota_sql_bytes_at(&store->rows, row, 2);
        code = rota_broker_load(store->broker->core, rota_work_broker_now(), &record, error);
        if (!code)
            store->n_loaded++;
    }
    if (code != ROTA_ERR_INVALID)
        return code;
    char quoted[ROTA_QUOTE_MAX];
    rota_log(store->broker->options.log, rota_clock_wall(), ROTA_LOG_WARN, "row skipped",
             ROTA_LOG_FACT("queue", (const char *)store->load_queue),
             ROTA_LOG_FACT("id", rota_quote(id, quoted)), ROTA_LOG_FACT("why", error->text));
    return ROTA_OK;
}

static enum rota_code load_rows(struct rota_broker_store *store, struct rota_error *error)
{
    enum rota_code code = ROTA_OK;
    for (size_t i = 0; !code && i < store->rows.n_rows; i++)
        code = load_row(store, i, error);
    if (code || store->rows.n_rows == 0)
        return code;
    struct rota_str last = rota_sql_bytes_at(&store->rows, store->rows.n_rows - 1, 0);
    if (last.size >= sizeof store->load_after) {
        /* Ids have 32 digits; a longer one is not followed by any of ours. */
        last.size = sizeof store->load_after - 1;
    }
    memcpy(store->load_after, last.data, last.size);
    store->load_after[last.size] = 0;
    return ROTA_OK;
}

void rota_work_broker_store_parts_done_load(struct rota_letter *letter, bool is_cancelled)
{
    struct rota_broker_letter *own = ROTA_LIST_ITEM(letter, struct rota_broker_letter, letter);
    struct rota_broker_store *store = own->store;
    own->is_under_way = false;
    if (is_cancelled || store->is_closing) {
        rota_sql_result_deinit(&store->rows);
        return;
    }
    struct rota_error error;
    struct rota_partition_event event = {.type = ROTA_PARTITION_LOADED,
                                         .is_failed = !rota_work_broker_store_heard(own),
                                         .is_last = store->rows.n_rows == 0,
                                         .error = error.text};
    if (!event.is_failed && store->fsm.loaded && load_rows(store, &error))
        event.type = ROTA_PARTITION_UNUSABLE;
    rota_sql_result_deinit(&store->rows);
    rota_work_broker_store_parts_tell(store, &event);
    rota_work_broker_touch(store->broker);
    rota_work_broker_store_drive(store);
}

/* --- looking --- */

/* On the thread. */
void rota_work_broker_store_parts_work_look(struct rota_letter *letter)
{
    struct rota_broker_letter *own = ROTA_LIST_ITEM(letter, struct rota_broker_letter, letter);
    struct rota_broker_store *store = own->store;
    own->code = store->session
                    ? rota_store_jobs_list_partitions(store->session, &store->list, &own->error)
                    : rota_error_set(&own->error, ROTA_ERR_UNAVAILABLE, "not connected");
}

static void look_at_row(struct rota_broker_store *store, size_t row)
{
    const struct rota_sql_result *rows = &store->list;
    struct rota_str queue = rota_sql_bytes_at(rows, row, 0);
    int64_t number = rota_sql_int_at(rows, row, 1);
    if (number < 0 || number >= ROTA_JOB_PARTITIONS_MAX || rota_job_queue_check(queue, NULL))
        return;
    rota_work_broker_store_parts_tell(
        store, &(struct rota_partition_event){.type = ROTA_PARTITION_ROW,
                                              .queue = queue,
                                              .number = (uint32_t)number,
                                              .epoch = (uint64_t)rota_sql_int_at(rows, row, 2),
                                              .instance = (uint64_t)rota_sql_int_at(rows, row, 3),
                                              .is_waited_for = store->n_parked > 0});
}

void rota_work_broker_store_parts_done_look(struct rota_letter *letter, bool is_cancelled)
{
    struct rota_broker_letter *own = ROTA_LIST_ITEM(letter, struct rota_broker_letter, letter);
    struct rota_broker_store *store = own->store;
    own->is_under_way = false;
    if (!is_cancelled && !store->is_closing) {
        bool is_looked = rota_work_broker_store_heard(own);
        for (size_t i = 0; is_looked && i < store->list.n_rows; i++)
            look_at_row(store, i);
        if (is_looked)
            rota_work_broker_store_there(store);
        rota_work_broker_store_parts_tell(
            store, &(struct rota_partition_event){.type = ROTA_PARTITION_CHECKED,
                                                  .is_failed = !is_looked});
    }
    rota_sql_result_deinit(&store->list);
    rota_work_broker_store_drive(store);
}

void rota_work_broker_store_parts_deinit(struct rota_broker_store *store)
{
    const struct rota_map_entry *entry;
    for (size_t place = 0; (entry = rota_map_next(&store->fsm.parts, &place));)
        rota_work_broker_store_turn_void(store, entry->value);
    rota_partition_fsm_deinit(&store->fsm);
    rota_sql_result_deinit(&store->rows);
    rota_sql_result_deinit(&store->list);
}
