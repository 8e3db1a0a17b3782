/* The partitions that a broker has of its store: taken, loaded, given up, lost. */
#include "run/broker_store.h"

#include "base/hash.h"
#include "base/quote.h"
#include "io/clock.h"
#include "wire/journal_record.h"

#include <stdlib.h>
#include <string.h>

static void tell(struct rota_broker_store *store, enum rota_log_level level, const char *phrase,
                 const struct rota_broker_held *part, const char *why)
{
    rota_log(store->broker->options.log, rota_clock_wall(), level, phrase,
             ROTA_LOG_FACT("queue", part->queue),
             ROTA_LOG_FACT("partition", (uint64_t)part->number),
             ROTA_LOG_FACT("epoch", part->epoch), ROTA_LOG_FACT("why", why));
}

/* --- the list --- */

enum { KEY_MAX = sizeof(uint32_t) + ROTA_JOB_QUEUE_NAME_MAX };

static struct rota_str write_key(char key[KEY_MAX], struct rota_str queue, uint32_t number)
{
    size_t size = queue.size < ROTA_JOB_QUEUE_NAME_MAX ? queue.size : ROTA_JOB_QUEUE_NAME_MAX;
    memcpy(key, &number, sizeof number);
    memcpy(key + sizeof number, queue.data, size);
    return rota_str_of(key, sizeof number + size);
}

struct rota_broker_held *rota_broker_store_part(const struct rota_broker_store *store,
                                                struct rota_str queue, uint32_t number)
{
    char key[KEY_MAX];
    return rota_map_get(&store->parts, write_key(key, queue, number));
}

static void set_state(struct rota_broker_store *store, struct rota_broker_held *part,
                      enum rota_broker_held_state state)
{
    store->n_in[part->state]--;
    store->n_in[state]++;
    part->state = state;
}

struct rota_broker_held *rota_broker_store_want(struct rota_broker_store *store,
                                                struct rota_str queue, uint32_t number)
{
    struct rota_broker_held *part = rota_broker_store_part(store, queue, number);
    if (part || rota_job_queue_check(queue, NULL))
        return part;
    part = calloc(1, sizeof *part + KEY_MAX);
    if (!part)
        return NULL;
    part->number = number;
    part->key = write_key(part->bytes, queue, number);
    part->queue = rota_str_of(part->bytes + sizeof number, queue.size);
    if (!rota_map_put(&store->parts, part->key, part)) {
        free(part);
        return NULL;
    }
    store->n_in[part->state]++;
    return part;
}

/* Nothing of it is left, here or on its way. Takes `part`. */
static void remove_part(struct rota_broker_store *store, struct rota_broker_held *part)
{
    rota_broker_store_void(store, part);
    for (size_t i = 0; store->take.is_under_way && i < store->n_taken; i++)
        if (store->taken_parts[i] == part)
            store->taken_parts[i] = NULL;
    if (store->loaded == part)
        store->loaded = NULL;
    store->n_in[part->state]--;
    rota_map_remove(&store->parts, part->key);
    free(part);
}

static void drop_part(struct rota_broker_store *store, struct rota_broker_held *part)
{
    struct rota_error error;
    if (rota_broker_partition_drop(store->broker->core, rota_work_broker_now(), part->queue,
                                   part->number, &error))
        tell(store, ROTA_LOG_ERROR, "partition not forgotten", part, error.text);
    rota_work_broker_touch(store->broker);
}

void rota_broker_store_lose(struct rota_broker_store *store, struct rota_broker_held *part,
                            const char *why)
{
    tell(store, ROTA_LOG_WARN, "partition lost", part, why);
    rota_work_broker_watch_lost(store->broker, part->queue, part->number);
    drop_part(store, part);
    remove_part(store, part);
}

/* --- taking --- */

static bool is_ours(const struct rota_broker_store *store, struct rota_str queue, uint32_t number)
{
    struct rota_broker_cluster *cluster = store->broker->cluster;
    return rota_broker_cluster_is_ours(cluster, queue, number);
}

static void take_wanted(struct rota_broker_store *store)
{
    size_t place = 0;
    store->n_taken = 0;
    for (const struct rota_map_entry *entry; store->n_taken < ROTA_BROKER_STORE_TAKE_MAX &&
                                             (entry = rota_map_next(&store->parts, &place));) {
        struct rota_broker_held *part = entry->value;
        if (part->state != ROTA_BROKER_HELD_WANTED)
            continue;
        set_state(store, part, ROTA_BROKER_HELD_TAKING);
        store->taken_parts[store->n_taken] = part;
        memcpy(store->taken_queues[store->n_taken], part->queue.data, part->queue.size);
        store->taken[store->n_taken] = (struct rota_store_partition){
            .queue = rota_str_of(store->taken_queues[store->n_taken], part->queue.size),
            .number = part->number};
        store->n_taken++;
    }
    if (store->n_taken > 0)
        rota_broker_store_post(&store->take);
}

/* On the thread. */
void rota_broker_store_work_take(struct rota_letter *letter)
{
    struct rota_broker_letter *own = ROTA_LIST_ITEM(letter, struct rota_broker_letter, letter);
    struct rota_broker_store *store = own->store;
    own->code =
        store->session
            ? rota_store_jobs_take(store->session, store->instance, rota_str(store->owner),
                                   store->taken, store->n_taken, &store->taken_epoch, &own->error)
            : rota_error_set(&own->error, ROTA_ERR_UNAVAILABLE, "there is no connection");
}

void rota_broker_store_done_take(struct rota_letter *letter, bool is_cancelled)
{
    struct rota_broker_letter *own = ROTA_LIST_ITEM(letter, struct rota_broker_letter, letter);
    struct rota_broker_store *store = own->store;
    own->is_under_way = false;
    if (is_cancelled || store->is_closing)
        return;
    bool is_taken = rota_broker_store_heard(own) &&
                    !rota_broker_raise_life(store->broker->core, rota_work_broker_now(),
                                            store->taken_epoch, &own->error);
    for (size_t i = 0; i < store->n_taken; i++) {
        struct rota_broker_held *part = store->taken_parts[i];
        if (!part)
            continue;
        if (is_taken)
            part->epoch = store->taken_epoch;
        set_state(store, part, is_taken ? ROTA_BROKER_HELD_LOADING : ROTA_BROKER_HELD_WANTED);
    }
    rota_work_broker_touch(store->broker);
    rota_broker_store_drive(store);
}

/* --- loading --- */

static void load_next(struct rota_broker_store *store)
{
    size_t place = 0;
    const struct rota_map_entry *entry;
    while (!store->loaded && (entry = rota_map_next(&store->parts, &place))) {
        struct rota_broker_held *part = entry->value;
        if (part->state != ROTA_BROKER_HELD_LOADING)
            continue;
        store->loaded = part;
        memcpy(store->load_queue, part->queue.data, part->queue.size);
        store->load_queue[part->queue.size] = 0;
        store->load_number = part->number;
        store->load_after[0] = 0;
    }
    if (store->loaded)
        rota_broker_store_post(&store->load);
}

/* On the thread. */
void rota_broker_store_work_load(struct rota_letter *letter)
{
    struct rota_broker_letter *own = ROTA_LIST_ITEM(letter, struct rota_broker_letter, letter);
    struct rota_broker_store *store = own->store;
    own->code =
        store->session
            ? rota_store_jobs_load(store->session, rota_str(store->load_queue), store->load_number,
                                   rota_str(store->load_after), &store->rows, &own->error)
            : rota_error_set(&own->error, ROTA_ERR_UNAVAILABLE, "there is no connection");
}

/* A row that is no job is passed over and told: what it was, only a person can know. */
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
    rota_log(store->broker->options.log, rota_clock_wall(), ROTA_LOG_WARN, "row passed over",
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
        /* Ids have 32 digits; behind a longer one there is nothing of ours. */
        last.size = sizeof store->load_after - 1;
    }
    memcpy(store->load_after, last.data, last.size);
    store->load_after[last.size] = 0;
    return ROTA_OK;
}

static void open_loaded(struct rota_broker_store *store, struct rota_broker_held *part)
{
    struct rota_error error;
    enum rota_code code =
        rota_broker_partition_open(store->broker->core, rota_work_broker_now(), part->queue,
                                   part->number, part->epoch, &error);
    store->loaded = NULL;
    if (code) {
        rota_broker_store_lose(store, part, error.text);
        rota_broker_store_unpark(store, error.text);
        return;
    }
    set_state(store, part, ROTA_BROKER_HELD_OPEN);
    tell(store, ROTA_LOG_INFO, "partition open", part, "it is ours");
    rota_broker_store_unpark(store, NULL);
}

void rota_broker_store_done_load(struct rota_letter *letter, bool is_cancelled)
{
    struct rota_broker_letter *own = ROTA_LIST_ITEM(letter, struct rota_broker_letter, letter);
    struct rota_broker_store *store = own->store;
    struct rota_broker_held *part = store->loaded;
    own->is_under_way = false;
    if (is_cancelled || store->is_closing) {
        rota_sql_result_deinit(&store->rows);
        return;
    }
    if (rota_broker_store_heard(own) && part) {
        struct rota_error error;
        size_t n_rows = store->rows.n_rows;
        if (load_rows(store, &error)) {
            rota_broker_store_lose(store, part, error.text);
            rota_broker_store_unpark(store, error.text);
        } else if (n_rows == 0) {
            open_loaded(store, part);
        }
    }
    rota_sql_result_deinit(&store->rows);
    rota_work_broker_touch(store->broker);
    rota_broker_store_drive(store);
}

/* --- giving up --- */

static void leave(struct rota_broker_store *store, struct rota_broker_held *part)
{
    struct rota_error error;
    if (part->state != ROTA_BROKER_HELD_OPEN) {
        if (part->state != ROTA_BROKER_HELD_LEAVING) {
            drop_part(store, part);
            remove_part(store, part);
        }
        return;
    }
    if (rota_broker_partition_close(store->broker->core, rota_work_broker_now(), part->queue,
                                    part->number, &error)) {
        tell(store, ROTA_LOG_WARN, "partition not closed", part, error.text);
        return; /* with the next look */
    }
    part->until = rota_broker_last_number(store->broker->core);
    set_state(store, part, ROTA_BROKER_HELD_LEAVING);
    rota_work_broker_touch(store->broker);
}

void rota_work_broker_store_delete(struct rota_work_broker *broker, struct rota_str queue)
{
    struct rota_broker_store *store = broker->store;
    size_t place = 0;
    if (!store)
        return;
    for (const struct rota_map_entry *entry; (entry = rota_map_next(&store->parts, &place));) {
        struct rota_broker_held *part = entry->value;
        if (part->state != ROTA_BROKER_HELD_OPEN || !rota_str_is_equal(part->queue, queue))
            continue; /* what comes or goes is another's, or soon will be */
        leave(store, part);
        part->is_deleted = part->state == ROTA_BROKER_HELD_LEAVING;
    }
}

/* Once; without memory it is tried again. It is ours until the row is gone, so that nobody who
 * looks meanwhile wants it again. */
static void remove_row(struct rota_broker_store *store, struct rota_broker_held *part)
{
    char *copy = part->is_removing ? NULL : malloc(part->queue.size + 1);
    if (!copy)
        return;
    memcpy(copy, part->queue.data, part->queue.size);
    struct rota_store_setting setting = {.queue = rota_str_of(copy, part->queue.size),
                                         .key = rota_str_of(copy, 0),
                                         .epoch = part->epoch,
                                         .partition = part->number};
    part->is_removing = rota_vector_push(&store->settings, setting);
    if (!part->is_removing)
        free(copy);
    rota_work_broker_touch(store->broker);
}

void rota_broker_store_removed(struct rota_broker_store *store,
                               const struct rota_store_setting *setting)
{
    struct rota_broker_held *part =
        rota_broker_store_part(store, setting->queue, setting->partition);
    if (!part || !part->is_removing || part->epoch != setting->epoch)
        return;
    tell(store, ROTA_LOG_INFO, "partition left", part, "its queue was deleted");
    drop_part(store, part);
    remove_part(store, part);
}

static void finish_leaving(struct rota_broker_store *store)
{
    size_t place = 0;
    for (const struct rota_map_entry *entry; (entry = rota_map_next(&store->parts, &place));) {
        struct rota_broker_held *part = entry->value;
        if (part->state != ROTA_BROKER_HELD_LEAVING || part->until > store->broker->durable)
            continue;
        if (part->is_deleted) {
            remove_row(store, part);
            continue;
        }
        tell(store, ROTA_LOG_INFO, "partition left", part, "another node has it");
        rota_work_broker_watch_lost(store->broker, part->queue, part->number);
        drop_part(store, part);
        remove_part(store, part);
        place = 0; /* the map has changed */
    }
}

void rota_broker_store_take(struct rota_broker_store *store)
{
    if (store->is_closing)
        return;
    if (store->n_in[ROTA_BROKER_HELD_LEAVING] > 0)
        finish_leaving(store);
    if (!store->is_up)
        return;
    if (store->n_in[ROTA_BROKER_HELD_WANTED] > 0 && !store->take.is_under_way)
        take_wanted(store);
    if (store->n_in[ROTA_BROKER_HELD_LOADING] > 0 && !store->load.is_under_way)
        load_next(store);
    bool is_coming = store->n_in[ROTA_BROKER_HELD_WANTED] + store->n_in[ROTA_BROKER_HELD_TAKING] +
                         store->n_in[ROTA_BROKER_HELD_LOADING] >
                     0;
    if (!store->is_settled && store->is_looked && !is_coming) {
        store->is_settled = true;
        rota_broker_store_unpark(store, NULL);
    }
}

/* --- looking --- */

/* On the thread. */
void rota_broker_store_work_look(struct rota_letter *letter)
{
    struct rota_broker_letter *own = ROTA_LIST_ITEM(letter, struct rota_broker_letter, letter);
    struct rota_broker_store *store = own->store;
    own->code = store->session
                    ? rota_store_jobs_list(store->session, &store->list, &own->error)
                    : rota_error_set(&own->error, ROTA_ERR_UNAVAILABLE, "there is no connection");
}

/* A node that is alone takes what there is when it begins, and later only while calls wait: if
 * another one is started beside it, neither takes from the other all the time. A partition that is
 * found to be lost is wanted at once if the route still says that it is ours, or the calls that
 * wait for this look would be told that its jobs do not exist. */
static void look_at_row(struct rota_broker_store *store, size_t row)
{
    const struct rota_sql_result *rows = &store->list.partitions;
    struct rota_str queue = rota_sql_bytes_at(rows, row, 0);
    int64_t number = rota_sql_int_at(rows, row, 1);
    if (number < 0 || number >= ROTA_JOB_PARTITIONS_MAX || rota_job_queue_check(queue, NULL))
        return;
    struct rota_broker_held *part = rota_broker_store_part(store, queue, (uint32_t)number);
    if (part) {
        part->is_seen = true;
        if (part->state < ROTA_BROKER_HELD_LOADING ||
            ((uint64_t)rota_sql_int_at(rows, row, 2) == part->epoch &&
             (uint64_t)rota_sql_int_at(rows, row, 3) == store->instance))
            return;
        rota_broker_store_lose(store, part, "another node has taken it");
    }
    bool may_take = !rota_broker_cluster_is_alone(store->broker->cluster) || !store->was_looked ||
                    store->n_parked > 0;
    if (may_take && is_ours(store, queue, (uint32_t)number))
        rota_broker_store_want(store, queue, (uint32_t)number);
}

/* Those that the table does not have, and those that the route gives to others. */
static void look_at_parts(struct rota_broker_store *store)
{
    size_t place = 0, n = 0;
    const struct rota_map_entry *entry;
    struct rota_broker_held **parts = malloc((store->parts.size + 1) * sizeof *parts);
    if (!parts)
        return; /* with the next look */
    while ((entry = rota_map_next(&store->parts, &place)))
        parts[n++] = entry->value;
    for (size_t i = 0; i < n; i++) {
        bool is_seen = parts[i]->is_seen;
        parts[i]->is_seen = false;
        if (!is_seen && parts[i]->state >= ROTA_BROKER_HELD_LOADING && parts[i]->epoch > 0 &&
            parts[i]->is_old)
            rota_broker_store_lose(store, parts[i], "its row is gone");
        else if (!is_ours(store, parts[i]->queue, parts[i]->number))
            leave(store, parts[i]);
        else
            parts[i]->is_old = parts[i]->state >= ROTA_BROKER_HELD_LOADING;
    }
    free((void *)parts);
}

static uint64_t hash_rows(uint64_t seed, const struct rota_sql_result *rows)
{
    for (size_t i = 0; i < rows->n_rows * rows->n_columns; i++) {
        const struct rota_sql_value *value = &rows->values[i];
        seed = rota_hash_sip64(seed, value->type == ROTA_SQL_BYTES
                                         ? value->bytes
                                         : rota_str_of(&value->number, sizeof value->number));
    }
    return seed;
}

/* A setting that was read here need not be written; why one was refused is kept. */
static void note_setting(struct rota_broker_store *store, struct rota_str queue, uint64_t number,
                         const struct rota_error *why, struct rota_error *refusal)
{
    char quoted[ROTA_QUOTE_MAX];
    if (why->code)
        rota_error_set(refusal, why->code, "queue %s: %s", rota_quote(queue, quoted), why->text);
    else if (number)
        store->quiet.items[store->quiet.size++] = number;
}

static void look_at_pauses(struct rota_broker_store *store, const struct rota_sql_result *rows,
                           struct rota_error *refusal)
{
    for (size_t i = 0; i < rows->n_rows; i++) {
        struct rota_str queue = rota_sql_bytes_at(rows, i, 0);
        const struct rota_work_record row = {.type = ROTA_WORK_PAUSE,
                                             .queue = queue,
                                             .is_paused = rota_sql_int_at(rows, i, 1) != 0,
                                             .weight = (uint32_t)rota_sql_int_at(rows, i, 2)};
        struct rota_error error = {0};
        uint64_t number = 0;
        if (rota_broker_is_needless(store->broker->core, &row))
            continue;
        rota_broker_pause(store->broker->core, rota_work_broker_now(), queue, row.is_paused,
                          &number, &error);
        note_setting(store, queue, number, &error, refusal);
        number = 0;
        if (!error.code)
            rota_broker_set_kills(store->broker->core, rota_work_broker_now(), queue, row.weight,
                                  &number, &error);
        note_setting(store, queue, number, &error, refusal);
    }
}

static void look_at_weights(struct rota_broker_store *store, const struct rota_sql_result *rows,
                            struct rota_error *refusal)
{
    for (size_t i = 0; i < rows->n_rows; i++) {
        struct rota_str queue = rota_sql_bytes_at(rows, i, 0);
        const struct rota_work_record row = {.type = ROTA_WORK_WEIGHT,
                                             .queue = queue,
                                             .weight = (uint32_t)rota_sql_int_at(rows, i, 2)};
        struct rota_error error = {0};
        uint64_t number = 0;
        if (rota_broker_is_needless(store->broker->core, &row))
            continue;
        rota_broker_set_weight(store->broker->core, rota_work_broker_now(), queue,
                               rota_sql_bytes_at(rows, i, 1), row.weight, &number, &error);
        note_setting(store, queue, number, &error, refusal);
    }
}

static struct rota_spread read_spread(const struct rota_sql_result *rows, size_t row, size_t column)
{
    return (struct rota_spread){
        .batch = (uint32_t)rota_sql_int_at(rows, row, column),
        .mode = rota_sql_int_at(rows, row, column + 1) ? ROTA_SPREAD_SLOTS : ROTA_SPREAD_LOOKUP};
}

static void look_at_layouts(struct rota_broker_store *store, const struct rota_sql_result *rows,
                            struct rota_error *refusal)
{
    struct rota_broker *core = store->broker->core;
    for (size_t i = 0; i < rows->n_rows; i++) {
        uint64_t before = rota_broker_last_number(core);
        const struct rota_work_layout layout = {.wanted = (uint32_t)rota_sql_int_at(rows, i, 2),
                                                .write = (uint32_t)rota_sql_int_at(rows, i, 3),
                                                .read = (uint32_t)rota_sql_int_at(rows, i, 4),
                                                .spread = read_spread(rows, i, 5),
                                                .change = {.from = read_spread(rows, i, 7),
                                                           .start = rota_sql_int_at(rows, i, 9),
                                                           .end = rota_sql_int_at(rows, i, 10)}};
        const struct rota_work_record record = {.type = ROTA_WORK_LAYOUT,
                                                .queue = rota_sql_bytes_at(rows, i, 0),
                                                .at = rota_sql_int_at(rows, i, 1),
                                                .layout = &layout};
        struct rota_error error = {0};
        rota_broker_take_setting(core, rota_work_broker_now(), &record, &error);
        uint64_t number = rota_broker_last_number(core);
        note_setting(store, record.queue, number != before ? number : 0, &error, refusal);
    }
}

/* A table that is as it was is passed over, unless a row was refused: its time may have come. */
static void look_at_table(struct rota_broker_store *store, struct rota_broker_seen *seen,
                          const struct rota_sql_result *rows,
                          void (*look)(struct rota_broker_store *store,
                                       const struct rota_sql_result *rows,
                                       struct rota_error *refusal))
{
    struct rota_error refusal = {0};
    uint64_t hash = hash_rows(1, rows);
    if ((hash == seen->hash && !seen->is_refused) ||
        !rota_vector_reserve(&store->quiet, store->quiet.size + 2 * rows->n_rows))
        return;
    look(store, rows, &refusal);
    if (refusal.code && hash != seen->hash)
        rota_log(store->broker->options.log, rota_clock_wall(), ROTA_LOG_WARN,
                 "setting not taken over yet", ROTA_LOG_FACT("why", refusal.text));
    *seen = (struct rota_broker_seen){.hash = hash, .is_refused = refusal.code != ROTA_OK};
    rota_work_broker_touch(store->broker);
}

/* What was set at another node. Not while something that was set here is on its way. */
static void look_at_settings(struct rota_broker_store *store)
{
    const struct rota_work_broker *broker = store->broker;
    if (store->settings.size > 0 || (store->has_turn && store->turn.n_settings > 0) ||
        broker->appended != rota_broker_last_number(broker->core))
        return;
    look_at_table(store, &store->pauses, &store->list.queues, look_at_pauses);
    look_at_table(store, &store->weights, &store->list.weights, look_at_weights);
    look_at_table(store, &store->layouts, &store->list.layouts, look_at_layouts);
}

/* Before any node is known, what is ours is not either. */
static bool is_route_known(const struct rota_broker_store *store)
{
    struct rota_broker_cluster *cluster = store->broker->cluster;
    return rota_broker_cluster_is_alone(cluster) ||
           rota_broker_cluster_owner(cluster, rota_str("any"), 0).size > 0;
}

void rota_broker_store_done_look(struct rota_letter *letter, bool is_cancelled)
{
    struct rota_broker_letter *own = ROTA_LIST_ITEM(letter, struct rota_broker_letter, letter);
    struct rota_broker_store *store = own->store;
    own->is_under_way = false;
    if (!is_cancelled && !store->is_closing && rota_broker_store_heard(own)) {
        for (size_t i = 0; i < store->list.partitions.n_rows; i++)
            look_at_row(store, i);
        look_at_parts(store);
        look_at_settings(store);
        store->is_looked = is_route_known(store);
        store->was_looked = true;
        store->looked_at = store->look_began_at;
        store->look_at = rota_time_add(rota_clock_boot(), ROTA_BROKER_STORE_LOOK);
        rota_broker_store_there(store);
        rota_broker_store_unpark(store, NULL);
    }
    rota_store_jobs_list_deinit(&store->list);
    rota_broker_store_drive(store);
}

void rota_broker_store_parts_deinit(struct rota_broker_store *store)
{
    size_t place = 0;
    for (const struct rota_map_entry *entry; (entry = rota_map_next(&store->parts, &place));
         place = 0) {
        struct rota_broker_held *part = entry->value;
        rota_broker_store_void(store, part);
        rota_map_remove(&store->parts, part->key);
        free(part);
    }
    rota_map_deinit(&store->parts);
    rota_sql_result_deinit(&store->rows);
    rota_store_jobs_list_deinit(&store->list);
}
