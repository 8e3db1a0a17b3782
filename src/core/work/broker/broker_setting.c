#include "core/work/broker/broker_inside.h"

#include "base/quote.h"

#define AHEAD_MAX (24 * ROTA_HOUR) /* of a setting's time: some clock is wrong */

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

static enum rota_code take_layout(struct rota_broker *broker, struct rota_work_now now,
                                  const struct rota_work_record *setting, struct rota_error *error)
{
    struct rota_work_queue *queue;
    if (!setting->layout)
        return rota_error_set(error, ROTA_ERR_INVALID, "an empty layout");
    enum rota_code code = rota_layout_check(setting->layout, error);
    if (!code)
        code = rota_broker_setting_begin(broker, now, setting->queue, &queue, error);
    if (!code && rota_layout_is_later(setting->layout, setting->at, &queue->layout, queue->laid_at))
        set_layout(broker, queue, setting->layout, setting->at);
    return code;
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

/* --- taking over --- */

bool rota_broker_is_needless(const struct rota_broker *broker,
                             const struct rota_work_record *setting)
{
    if (rota_broker_queue(broker, setting->queue))
        return false;
    if (setting->type == ROTA_WORK_LAYOUT)
        return setting->layout && rota_layout_is_equal(setting->layout, &broker->options.layout);
    return setting->type == ROTA_WORK_WEIGHT ? setting->weight == ROTA_FAIR_WEIGHT
                                             : !setting->is_paused && setting->weight == 0;
}

enum rota_code rota_broker_take_setting(struct rota_broker *broker, struct rota_work_now now,
                                        const struct rota_work_record *setting,
                                        struct rota_error *error)
{
    struct rota_work_queue *queue;
    struct rota_fair_key *key = NULL;
    char quoted[ROTA_QUOTE_MAX];
    rota_broker_at(broker, now);
    bool is_weight = setting->type == ROTA_WORK_WEIGHT;
    if (!is_weight && setting->type != ROTA_WORK_PAUSE && setting->type != ROTA_WORK_LAYOUT)
        return rota_error_set(error, ROTA_ERR_INVALID, "%s is not a setting of a queue",
                              rota_job_work_record_name(setting->type));
    if (setting->at <= 0 || setting->at > rota_time_add(broker->stamp, AHEAD_MAX))
        return rota_error_set(
            error, ROTA_ERR_INVALID,
            "a setting of queue %s has a time in the future: check the clocks of the nodes",
            rota_quote(setting->queue, quoted));
    if (rota_broker_is_needless(broker, setting))
        return rota_job_queue_check(setting->queue, error);
    if (setting->type == ROTA_WORK_LAYOUT)
        return take_layout(broker, now, setting, error);
    enum rota_code code = is_weight ? check_weight(setting->key, setting->weight, error)
                                    : check_kills(setting->weight, error);
    if (!code)
        code = rota_broker_setting_begin(broker, now, setting->queue, &queue, error);
    if (!code && is_weight && setting->key.size > 0)
        code = rota_fair_key(&queue->fair, setting->key, &key, error);
    if (code)
        return code;
    /* Of two settings of the same time, all brokers choose the same one. */
    rota_time known = queue->paused_at;
    uint32_t own = 2 * queue->kills_max + queue->is_paused,
             other = 2 * setting->weight + setting->is_paused;
    if (is_weight) {
        known = key ? key->weighed_at : queue->fair.weighed_at;
        own = key ? key->weight : queue->fair.weight;
        other = setting->weight;
    }
    if (setting->at < known || (setting->at == known && other <= own))
        return ROTA_OK;
    if (is_weight)
        set_weight(broker, queue, key, other, setting->at);
    else
        set_paused(broker, queue, setting->is_paused, setting->weight, setting->at);
    return ROTA_OK;
}
