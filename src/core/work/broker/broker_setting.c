#include "core/work/broker/broker_inside.h"

#include "base/quote.h"

enum rota_code rota_broker_setting_begin(struct rota_broker *broker, struct rota_work_now now,
                                         struct rota_str name, struct rota_work_queue **queue,
                                         struct rota_error *error)
{
    rota_broker_at(broker, now);
    enum rota_code code = rota_broker_queue_need(broker, name, queue, error);
    if (!code && !rota_broker_ready(broker, NULL))
        code = rota_error_no_memory(error, "to change a queue");
    return code;
}

struct rota_work_record *rota_broker_setting_write(struct rota_broker *broker,
                                                   enum rota_work_record_type type,
                                                   const struct rota_work_queue *queue)
{
    struct rota_work_record *record = rota_broker_write(broker, type, NULL);
    record->queue = rota_broker_queue_name(queue);
    return record;
}

static void offer_queue(struct rota_broker *broker, const struct rota_work_queue *queue)
{
    for (size_t i = 0; i < queue->lanes.size; i++)
        if (queue->lanes.items[i] != ROTA_BROKER_NONE &&
            broker->lanes.all.items[queue->lanes.items[i]]->size > 0)
            rota_broker_match_mark_dirty(broker, broker->lanes.all.items[queue->lanes.items[i]]);
}

/* The time of a setting that replaces one of `before`. */
static rota_time time_after(const struct rota_broker *broker, rota_time before)
{
    return broker->stamp > before ? broker->stamp : rota_time_add(before, 1);
}

/* --- making --- */

/* A setting restores a deleted queue, unless it is the default: deleting a queue resets its
 * settings everywhere, and that is not a reason to keep it. */
static void note_setting(struct rota_broker *broker, struct rota_work_queue *queue, bool is_usual)
{
    if (is_usual)
        rota_broker_queue_note_empty(broker, queue);
    else
        queue->is_deleted = false;
}

/* Pause and kill limit are one setting, in one record. */
static uint64_t set_paused(struct rota_broker *broker, struct rota_work_queue *queue,
                           bool is_paused, uint32_t kills_max, rota_time at)
{
    queue->is_paused = is_paused;
    queue->kills_max = kills_max;
    queue->paused_at = at;
    note_setting(broker, queue, !is_paused && kills_max == 0);
    struct rota_work_record *record = rota_broker_setting_write(broker, ROTA_WORK_PAUSE, queue);
    record->is_paused = is_paused;
    record->weight = kills_max;
    record->at = at;
    uint64_t number = record->number;
    if (!is_paused)
        offer_queue(broker, queue);
    rota_broker_match(broker);
    return number;
}

enum rota_code rota_broker_pause(struct rota_broker *broker, struct rota_work_now now,
                                 struct rota_str queue, bool is_paused, uint64_t *number,
                                 struct rota_error *error)
{
    struct rota_work_queue *found;
    enum rota_code code = rota_broker_setting_begin(broker, now, queue, &found, error);
    if (!code)
        *number = set_paused(broker, found, is_paused, found->kills_max,
                             time_after(broker, found->paused_at));
    return code;
}

static enum rota_code check_kills(uint32_t kills_max, struct rota_error *error)
{
    if (kills_max <= ROTA_JOB_ATTEMPTS_MAX)
        return ROTA_OK;
    return rota_error_set(error, ROTA_ERR_INVALID,
                          "a job may kill 1 to %d workers, or 0 for the default",
                          ROTA_JOB_ATTEMPTS_MAX);
}

enum rota_code rota_broker_set_kills(struct rota_broker *broker, struct rota_work_now now,
                                     struct rota_str queue, uint32_t kills_max, uint64_t *number,
                                     struct rota_error *error)
{
    struct rota_work_queue *found;
    enum rota_code code = check_kills(kills_max, error);
    if (!code)
        code = rota_broker_setting_begin(broker, now, queue, &found, error);
    if (!code)
        *number = set_paused(broker, found, found->is_paused, kills_max,
                             time_after(broker, found->paused_at));
    return code;
}

static enum rota_code check_weight(struct rota_str key, uint32_t weight, struct rota_error *error)
{
    if (weight > 0 && weight <= ROTA_FAIR_WEIGHT_MAX && key.size <= ROTA_JOB_KEY_MAX)
        return ROTA_OK;
    return rota_error_set(error, ROTA_ERR_INVALID,
                          "a key has at most %d bytes, and a weight is from 1 to %d (the default "
                          "is %d)",
                          ROTA_JOB_KEY_MAX, ROTA_FAIR_WEIGHT_MAX, ROTA_FAIR_WEIGHT);
}

static uint64_t set_weight(struct rota_broker *broker, struct rota_work_queue *queue,
                           struct rota_fair_key *key, uint32_t weight, rota_time at)
{
    struct rota_work_record *record = rota_broker_setting_write(broker, ROTA_WORK_WEIGHT, queue);
    record->key = key ? rota_str_of(key->name, key->size) : rota_str_of("", 0);
    record->weight = weight;
    record->at = at;
    rota_fair_set_weight(&queue->fair, key, weight, at);
    note_setting(broker, queue, weight == ROTA_FAIR_WEIGHT);
    return record->number;
}

enum rota_code rota_broker_set_weight(struct rota_broker *broker, struct rota_work_now now,
                                      struct rota_str queue, struct rota_str key, uint32_t weight,
                                      uint64_t *number, struct rota_error *error)
{
    struct rota_work_queue *found;
    struct rota_fair_key *own = NULL;
    enum rota_code code = check_weight(key, weight, error);
    if (!code)
        code = rota_broker_setting_begin(broker, now, queue, &found, error);
    if (!code && key.size > 0)
        code = rota_fair_key(&found->fair, key, &own, error);
    if (code)
        return code;
    rota_time before = own ? own->weighed_at : found->fair.weighed_at;
    *number = set_weight(broker, found, own, weight, time_after(broker, before));
    return ROTA_OK;
}

static uint64_t set_layout(struct rota_broker *broker, struct rota_work_queue *queue,
                           const struct rota_work_layout *layout, rota_time at)
{
    queue->layout = *layout;
    queue->laid_at = at;
    broker->queues.n_layouts++;
    note_setting(broker, queue, rota_layout_is_equal(layout, &broker->options.layout));
    struct rota_work_record *record = rota_broker_setting_write(broker, ROTA_WORK_LAYOUT, queue);
    record->layout = &queue->layout;
    record->at = at;
    return record->number;
}

enum rota_code rota_broker_set_layout(struct rota_broker *broker, struct rota_work_now now,
                                      struct rota_str queue, const struct rota_work_layout *layout,
                                      rota_time at, uint64_t *number, struct rota_error *error)
{
    struct rota_work_queue *found;
    enum rota_code code = rota_layout_check(layout, error);
    if (!code)
        code = rota_broker_setting_begin(broker, now, queue, &found, error);
    if (!code)
        *number = set_layout(broker, found, layout, at ? at : time_after(broker, found->laid_at));
    return code;
}

/* Reset all settings to the defaults. False when there is no memory for all. */
static bool reset_settings(struct rota_broker *broker, struct rota_work_queue *queue,
                           uint64_t *number)
{
    size_t place = 0;
    bool is_ready = rota_broker_ready(broker, NULL);
    if (is_ready && (queue->is_paused || queue->kills_max > 0)) {
        *number = set_paused(broker, queue, false, 0, time_after(broker, queue->paused_at));
        is_ready = rota_broker_ready(broker, NULL);
    }
    if (is_ready && queue->laid_at) {
        const struct rota_work_layout *usual = &broker->options.layout;
        const struct rota_layout_wish wish = {
            .wanted = usual->wanted, .has_spread = true, .spread = usual->spread};
        struct rota_work_layout next = queue->layout;
        if (!rota_layout_want(&queue->layout, &wish, broker->stamp, &next, NULL) &&
            !rota_layout_is_equal(&next, &queue->layout))
            *number = set_layout(broker, queue, &next, time_after(broker, queue->laid_at));
        is_ready = rota_broker_ready(broker, NULL);
    }
    if (is_ready && queue->fair.weight != ROTA_FAIR_WEIGHT) {
        *number = set_weight(broker, queue, NULL, ROTA_FAIR_WEIGHT,
                             time_after(broker, queue->fair.weighed_at));
        is_ready = rota_broker_ready(broker, NULL);
    }
    for (const struct rota_map_entry *entry;
         is_ready && (entry = rota_map_next(&queue->fair.keys, &place));) {
        struct rota_fair_key *key = entry->value;
        if (key->weight == ROTA_FAIR_WEIGHT)
            continue;
        *number =
            set_weight(broker, queue, key, ROTA_FAIR_WEIGHT, time_after(broker, key->weighed_at));
        is_ready = rota_broker_ready(broker, NULL);
    }
    return is_ready;
}

/* Ended jobs of the queue, with a record each. False when there is no memory for all. */
static bool forget_jobs(struct rota_broker *broker, const struct rota_work_queue *queue,
                        size_t n_jobs, uint64_t *number)
{
    for (uint32_t i = 0; n_jobs > 0 && (i = rota_job_table_next(&broker->jobs, i));) {
        const struct rota_job *job = rota_job_at(&broker->jobs, i);
        if (rota_broker_queue_of(broker, job) != queue)
            continue;
        if (!rota_broker_ready(broker, NULL))
            return false;
        *number = rota_broker_write(broker, ROTA_WORK_FORGET, job)->number;
        rota_broker_job_erase(broker, i);
        n_jobs--;
    }
    return true;
}

enum rota_code rota_broker_delete_queue(struct rota_broker *broker, struct rota_work_now now,
                                        struct rota_str name, bool is_dry_run, size_t *n_live,
                                        size_t *n_ended, uint64_t *number, struct rota_error *error)
{
    char quoted[ROTA_QUOTE_MAX];
    rota_broker_at(broker, now);
    *n_live = *n_ended = 0;
    *number = 0;
    enum rota_code code = rota_job_queue_check(name, error);
    if (code)
        return code;
    struct rota_work_queue *queue = rota_broker_queue(broker, name);
    if (!queue)
        return rota_error_set(error, ROTA_ERR_NOT_FOUND, "no queue %s", rota_quote(name, quoted));
    for (int i = 0; i < ROTA_JOB_STATES; i++)
        *(rota_job_state_is_ended(i) ? n_ended : n_live) += queue->counts[i];
    for (size_t i = 0; i < queue->partitions.size; i++)
        *n_live += rota_broker_chunk_n_jobs(broker, queue, queue->partitions.items[i].number);
    if (*n_live > 0)
        return rota_error_set(
            error, ROTA_ERR_INVALID,
            "queue %s has unfinished jobs (%zu): wait for them, or cancel them first",
            rota_quote(name, quoted), *n_live);
    if (is_dry_run)
        return ROTA_OK;
    *number = broker->journal.last_number;
    if (!forget_jobs(broker, queue, *n_ended, number) || !reset_settings(broker, queue, number))
        return rota_error_no_memory(error, "to delete a queue");
    queue->is_deleted = true;
    rota_broker_queue_note_empty(broker, queue);
    return ROTA_OK;
}

bool rota_broker_layout(const struct rota_broker *broker, struct rota_str queue,
                        struct rota_work_layout *layout, rota_time *at)
{
    const struct rota_work_queue *found = rota_broker_queue(broker, queue);
    if (!found || !found->laid_at)
        return false;
    *layout = found->layout;
    *at = found->laid_at;
    return true;
}

uint64_t rota_broker_n_layouts(const struct rota_broker *broker)
{
    return broker->queues.n_layouts;
}

bool rota_broker_has_beyond(const struct rota_broker *broker, struct rota_str queue,
                            const struct rota_work_layout *layout)
{
    const struct rota_work_queue *found = rota_broker_queue(broker, queue);
    for (size_t i = 0; found && i < found->partitions.size; i++) {
        const struct rota_work_partition *partition = &found->partitions.items[i];
        if (partition->number >= layout->write && partition->number < layout->read &&
            partition->n_drawn > 0)
            return true;
    }
    return false;
}

/* --- telling --- */

enum { PLACE_PAUSE, PLACE_LAYOUT, PLACE_WEIGHT, PLACE_KEYS };

/* The next setting of a queue at or after `*place`: its pause, its layout, its weight, those of
 * its keys. */
static bool next_of_queue(const struct rota_work_queue *queue, size_t *place,
                          struct rota_work_record *record)
{
    *record = (struct rota_work_record){.queue = rota_broker_queue_name(queue)};
    if (*place == PLACE_PAUSE && ++*place && queue->paused_at) {
        record->type = ROTA_WORK_PAUSE;
        record->is_paused = queue->is_paused;
        record->weight = queue->kills_max;
        record->at = queue->paused_at;
        return true;
    }
    if (*place == PLACE_LAYOUT && ++*place && queue->laid_at) {
        record->type = ROTA_WORK_LAYOUT;
        record->layout = &queue->layout;
        record->at = queue->laid_at;
        return true;
    }
    record->type = ROTA_WORK_WEIGHT;
    if (*place == PLACE_WEIGHT && ++*place && queue->fair.weighed_at) {
        record->weight = queue->fair.weight;
        record->at = queue->fair.weighed_at;
        return true;
    }
    size_t inner = *place - PLACE_KEYS;
    for (const struct rota_map_entry *entry; (entry = rota_map_next(&queue->fair.keys, &inner));) {
        const struct rota_fair_key *key = entry->value;
        if (!key->weighed_at)
            continue;
        record->key = rota_str_of(key->name, key->size);
        record->weight = key->weight;
        record->at = key->weighed_at;
        *place = inner + PLACE_KEYS;
        return true;
    }
    return false;
}

bool rota_broker_next_setting(const struct rota_broker *broker, struct rota_setting_place *place,
                              struct rota_work_record *record)
{
    for (; place->queue < broker->queues.all.size; place->queue++, place->inner = 0) {
        const struct rota_work_queue *queue = broker->queues.all.items[place->queue];
        if (queue && next_of_queue(queue, &place->inner, record))
            return true;
    }
    return false;
}

bool rota_broker_setting_rewrite_all(struct rota_broker *broker,
                                     const struct rota_work_queue *queue)
{
    struct rota_work_record setting;
    for (size_t place = 0; next_of_queue(queue, &place, &setting);) {
        if (!rota_broker_ready(broker, NULL))
            return false;
        struct rota_work_record *record = rota_broker_setting_write(broker, setting.type, queue);
        uint64_t number = record->number;
        *record = setting;
        record->number = number;
    }
    return true;
}

/* --- sharing --- */

static bool is_usual(const struct rota_broker *broker, const struct rota_work_record *setting)
{
    if (setting->type == ROTA_WORK_LAYOUT)
        return rota_layout_is_equal(setting->layout, &broker->options.layout);
    return setting->type == ROTA_WORK_WEIGHT ? setting->weight == ROTA_FAIR_WEIGHT
                                             : !setting->is_paused && setting->weight == 0;
}

bool rota_broker_has_settings(const struct rota_broker *broker, struct rota_str queue)
{
    const struct rota_work_queue *found = rota_broker_queue(broker, queue);
    struct rota_work_record setting;
    for (size_t place = 0; found && next_of_queue(found, &place, &setting);)
        if (!is_usual(broker, &setting))
            return true;
    return false;
}

/* What was put so far. */
struct put {
    struct rota_broker *broker;
    struct rota_work_now now;
    struct rota_str name;
    bool has_pause, has_layout, has_weight;
    struct rota_map keys;
};

static enum rota_code put_pause(struct put *put, const struct rota_work_record *setting,
                                struct rota_error *error)
{
    struct rota_work_queue *queue;
    enum rota_code code = check_kills(setting->weight, error);
    if (!code)
        code = rota_broker_setting_begin(put->broker, put->now, put->name, &queue, error);
    if (code)
        return code;
    put->has_pause = true;
    if (queue->is_paused != setting->is_paused || queue->kills_max != setting->weight)
        set_paused(put->broker, queue, setting->is_paused, setting->weight, setting->at);
    return ROTA_OK;
}

static enum rota_code put_layout(struct put *put, const struct rota_work_record *setting,
                                 struct rota_error *error)
{
    struct rota_work_queue *queue;
    if (!setting->layout)
        return rota_error_set(error, ROTA_ERR_INVALID, "an empty layout");
    enum rota_code code = rota_layout_check(setting->layout, error);
    if (!code)
        code = rota_broker_setting_begin(put->broker, put->now, put->name, &queue, error);
    if (code)
        return code;
    put->has_layout = true;
    if (queue->laid_at != setting->at || !rota_layout_is_equal(&queue->layout, setting->layout))
        set_layout(put->broker, queue, setting->layout, setting->at);
    return ROTA_OK;
}

static enum rota_code put_weight(struct put *put, const struct rota_work_record *setting,
                                 struct rota_error *error)
{
    struct rota_work_queue *queue;
    struct rota_fair_key *key = NULL;
    enum rota_code code = check_weight(setting->key, setting->weight, error);
    if (!code)
        code = rota_broker_setting_begin(put->broker, put->now, put->name, &queue, error);
    if (!code && setting->key.size > 0)
        code = rota_fair_key(&queue->fair, setting->key, &key, error);
    if (!code && key && !rota_map_put(&put->keys, setting->key, queue))
        code = rota_error_no_memory(error, "for the settings of a queue");
    if (code)
        return code;
    put->has_weight = put->has_weight || !key;
    if ((key ? key->weight : queue->fair.weight) != setting->weight)
        set_weight(put->broker, queue, key, setting->weight, setting->at);
    return ROTA_OK;
}

static enum rota_code put_setting(struct put *put, const struct rota_work_record *setting,
                                  struct rota_error *error)
{
    if (!rota_str_is_equal(setting->queue, put->name) || setting->at <= 0)
        return rota_error_set(error, ROTA_ERR_INVALID, "a setting of another queue or time");
    if (setting->type == ROTA_WORK_PAUSE)
        return put_pause(put, setting, error);
    if (setting->type == ROTA_WORK_LAYOUT)
        return put_layout(put, setting, error);
    if (setting->type == ROTA_WORK_WEIGHT)
        return put_weight(put, setting, error);
    return rota_error_set(error, ROTA_ERR_INVALID, "%s is not a setting of a queue",
                          rota_job_work_record_name(setting->type));
}

/* Settings that were not put, back to the defaults. False without memory. */
static bool reset_others(const struct put *put, struct rota_work_queue *queue)
{
    struct rota_broker *broker = put->broker;
    size_t place = 0;
    bool is_ready = rota_broker_ready(broker, NULL);
    if (is_ready && !put->has_pause && (queue->is_paused || queue->kills_max > 0)) {
        set_paused(broker, queue, false, 0, time_after(broker, queue->paused_at));
        is_ready = rota_broker_ready(broker, NULL);
    }
    if (is_ready && !put->has_layout && queue->laid_at &&
        !rota_layout_is_equal(&queue->layout, &broker->options.layout)) {
        set_layout(broker, queue, &broker->options.layout, time_after(broker, queue->laid_at));
        is_ready = rota_broker_ready(broker, NULL);
    }
    if (is_ready && !put->has_weight && queue->fair.weight != ROTA_FAIR_WEIGHT) {
        set_weight(broker, queue, NULL, ROTA_FAIR_WEIGHT,
                   time_after(broker, queue->fair.weighed_at));
        is_ready = rota_broker_ready(broker, NULL);
    }
    for (const struct rota_map_entry *entry;
         is_ready && (entry = rota_map_next(&queue->fair.keys, &place));) {
        struct rota_fair_key *key = entry->value;
        if (key->weight == ROTA_FAIR_WEIGHT || rota_map_get(&put->keys, entry->key))
            continue;
        set_weight(broker, queue, key, ROTA_FAIR_WEIGHT, time_after(broker, key->weighed_at));
        is_ready = rota_broker_ready(broker, NULL);
    }
    return is_ready;
}

enum rota_code rota_broker_put_settings(struct rota_broker *broker, struct rota_work_now now,
                                        struct rota_str name, rota_setting_source *next, void *data,
                                        struct rota_error *error)
{
    struct put put = {.broker = broker, .now = now, .name = name};
    struct rota_work_record setting;
    enum rota_code code = rota_job_queue_check(name, error), refused = ROTA_OK;
    rota_map_init(&put.keys, broker->seed);
    rota_broker_at(broker, now);
    while (!code && next(data, &setting)) {
        code = put_setting(&put, &setting, error);
        if (code == ROTA_ERR_INVALID) {
            refused = code;
            code = ROTA_OK;
        }
    }
    struct rota_work_queue *queue = code ? NULL : rota_broker_queue(broker, name);
    if (queue && !reset_others(&put, queue))
        code = rota_error_no_memory(error, "for the settings of a queue");
    rota_map_deinit(&put.keys);
    return code ? code : refused;
}

/* --- editing --- */

enum rota_code rota_broker_edit_check(const struct rota_setting_edit *edit,
                                      struct rota_error *error)
{
    switch (edit->type) {
    case ROTA_SETTING_KILLS:
        return check_kills(edit->number, error);
    case ROTA_SETTING_WEIGHT:
        return check_weight(edit->key, edit->number, error);
    case ROTA_SETTING_LAYOUT:
    case ROTA_SETTING_RESET:
        return rota_layout_check(&edit->layout, error);
    case ROTA_SETTING_PAUSE:
    case ROTA_SETTING_NONE:
        break;
    }
    return ROTA_OK;
}

/* Whether the edit says what becomes of this setting. */
static bool is_edited(const struct rota_setting_edit *edit, const struct rota_work_record *setting)
{
    switch (edit->type) {
    case ROTA_SETTING_PAUSE:
    case ROTA_SETTING_KILLS:
        return setting->type == ROTA_WORK_PAUSE;
    case ROTA_SETTING_WEIGHT:
        return setting->type == ROTA_WORK_WEIGHT && rota_str_is_equal(setting->key, edit->key);
    case ROTA_SETTING_LAYOUT:
        return setting->type == ROTA_WORK_LAYOUT;
    case ROTA_SETTING_RESET:
        return true;
    case ROTA_SETTING_NONE:
        break;
    }
    return false;
}

/* The one setting that the edit leaves behind; false: none. */
static bool write_edited(const struct rota_broker *broker, const struct rota_work_queue *queue,
                         const struct rota_setting_edit *edit, struct rota_work_record *setting)
{
    const struct rota_fair_key *key =
        queue && edit->key.size > 0 ? rota_fair_find(&queue->fair, edit->key) : NULL;
    rota_time before = queue ? queue->paused_at : 0;
    switch (edit->type) {
    case ROTA_SETTING_PAUSE:
    case ROTA_SETTING_KILLS:
        setting->type = ROTA_WORK_PAUSE;
        setting->is_paused =
            edit->type == ROTA_SETTING_PAUSE ? edit->is_paused : queue && queue->is_paused;
        setting->weight = edit->type == ROTA_SETTING_KILLS ? edit->number
                          : queue                          ? queue->kills_max
                                                           : 0;
        break;
    case ROTA_SETTING_WEIGHT:
        setting->type = ROTA_WORK_WEIGHT;
        setting->key = edit->key;
        setting->weight = edit->number;
        before = key ? key->weighed_at : queue ? queue->fair.weighed_at : 0;
        break;
    case ROTA_SETTING_LAYOUT:
    case ROTA_SETTING_RESET:
        setting->type = ROTA_WORK_LAYOUT;
        setting->layout = &edit->layout;
        before = queue ? queue->laid_at : 0;
        break;
    case ROTA_SETTING_NONE:
        return false;
    }
    setting->at = edit->at ? edit->at : time_after(broker, before);
    return !is_usual(broker, setting);
}

bool rota_broker_next_edited(struct rota_broker *broker, struct rota_work_now now,
                             struct rota_str name, const struct rota_setting_edit *edit,
                             size_t *place, struct rota_work_record *setting)
{
    const struct rota_work_queue *queue = rota_broker_queue(broker, name);
    rota_broker_at(broker, now);
    *setting = (struct rota_work_record){.queue = name};
    if (*place == 0 && ++*place && write_edited(broker, queue, edit, setting))
        return true;
    for (size_t inner = *place - 1; queue && next_of_queue(queue, &inner, setting);) {
        *place = inner + 1;
        if (!is_usual(broker, setting) && !is_edited(edit, setting))
            return true;
    }
    return false;
}
