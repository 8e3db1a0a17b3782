#include "wire/message/queue_message.h"

#include "wire/message/message_table.h"

static const char *state_name(uint64_t value)
{
    return value < ROTA_JOB_STATES ? rota_job_state_name((enum rota_job_state)value) : NULL;
}

static const char *cause_name(uint64_t value)
{
    return value <= ROTA_JOB_CAUSE_HANDED_OVER ? rota_job_cause_text((enum rota_job_cause)value)
                                               : NULL;
}

/* --- jobs --- */

#define THIS struct rota_queue_job_spec
static const struct rota_message_field JOB_SPEC[] = {
    F(1, STR, queue),
    F_BYTES(2, payload),
    F_ID(3, id),
    F_MAX(4, STRS, can, ROTA_JOB_CAPABILITIES_MAX),
    F_MAX(5, UINT, partition, ROTA_JOB_PARTITIONS_MAX - 1),
    F(6, SINT, priority),
    F(7, UINT, delay_ms),
    F(8, UINT, not_before_ms),
    F(9, UINT, deadline_ms),
    F(10, UINT, timeout_ms),
    F_MAX(11, UINT, max_attempts, UINT32_MAX),
    F(12, UINT, backoff_ms),
    F(13, UINT, backoff_max_ms),
    F_BYTES(14, unique),
    F_BYTES(15, key),
    F_BYTES(16, trace),
    F(17, BOOL, is_again),
    F(18, BOOL, is_known),
    F_BYTES(19, idempotency_key),
};
#undef THIS
HOT_TYPE(ROTA_QUEUE_JOB_SPEC, "job", struct rota_queue_job_spec, JOB_SPEC);

#define THIS struct rota_queue_add
static const struct rota_message_field ADD[] = {F_OF(1, INNER, job, ROTA_QUEUE_JOB_SPEC)};
#undef THIS
TYPE(ROTA_QUEUE_ADD, "request", struct rota_queue_add, ADD);

#define THIS struct rota_queue_added
static const struct rota_message_field ADDED[] = {
    F_ID(1, id),      F(2, BOOL, is_new),           F(3, UINT, status),
    F(4, STR, error), F(5, BOOL, may_go_elsewhere),
};
#undef THIS
HOT_ENTRY(ROTA_QUEUE_ADDED, "reply", struct rota_queue_added, ADDED);

#define THIS struct rota_queue_event
static const struct rota_message_field EVENT[] = {
    F(1, UINT, at_ms),
    F_NAMED(2, state, state_name),
    F_NAMED(3, cause, cause_name),
    F(4, UINT, attempt),
    F(5, STR, worker),
    F_BYTES(6, reason),
};
#undef THIS
static TYPE(EVENT_TYPE, "event", struct rota_queue_event, EVENT);

#define THIS struct rota_queue_job_info
static const struct rota_message_field JOB_INFO[] = {
    F_OF(1, INNER, spec, ROTA_QUEUE_JOB_SPEC),
    F_NAMED(2, state, state_name),
    F_NAMED(3, cause, cause_name),
    F(4, UINT, enqueued_ms),
    F(5, UINT, ended_ms),
    F(6, UINT, not_before_ms),
    F(7, UINT, attempt),
    F(8, UINT, n_attempts),
    F(9, STR, worker),
    F_BYTES(10, progress),
    F_BYTES(11, reason),
    F_BYTES(12, result),
    F_OF(13, INNERS, events, EVENT_TYPE),
};
#undef THIS
TYPE(ROTA_QUEUE_JOB_INFO, "job", struct rota_queue_job_info, JOB_INFO);

#define THIS struct rota_queue_description
static const struct rota_message_field DESCRIPTION[] = {
    F_OF(1, INNER, job, ROTA_QUEUE_JOB_INFO),
    F(2, STR, explain),
};
#undef THIS
TYPE(ROTA_QUEUE_DESCRIPTION, "reply", struct rota_queue_description, DESCRIPTION);

#define THIS struct rota_queue_news
static const struct rota_message_field NEWS[] = {
    F_OF(1, INNER, job, ROTA_QUEUE_JOB_INFO),
    F(2, UINT, n_missed),
};
#undef THIS
TYPE(ROTA_QUEUE_NEWS, "reply", struct rota_queue_news, NEWS);

/* --- lists --- */

#define THIS struct rota_queue_handed
static const struct rota_message_field HANDED[] = {
    F(1, STR, queue),       F_ID(2, id),
    F(3, UINT, attempt),    F_BYTES(4, payload),
    F(5, UINT, n_attempts), F(6, UINT, timeout_ms),
    F(7, SINT, priority),   F_BYTES(8, key),
    F_BYTES(9, trace),
};
#undef THIS
HOT_ENTRY(ROTA_QUEUE_HANDED, "job", struct rota_queue_handed, HANDED);

#define THIS struct rota_queue_info
static const struct rota_message_field INFO[] = {
    F(1, STR, name),
    F(2, BOOL, is_paused),
    F(3, UINT, n_partitions),
    F(4, UINT, n_waiting),
    F(5, UINT, n_delayed),
    F(6, UINT, n_running),
    F(7, UINT, n_done),
    F(8, UINT, n_dead),
    F(9, UINT, n_cancelled),
    F(10, UINT, oldest_ms),
    F(11, UINT, added_total),
    F(12, UINT, done_total),
    F(13, UINT, dead_total),
    F(14, UINT, retries_total),
    F(15, UINT, n_workers),
    F(16, UINT, n_slots),
    F(17, UINT, n_free),
    F(18, UINT, fetched_total),
    F(19, UINT, lent_total),
    F(20, UINT, wanted),
    F(21, UINT, write),
    F(22, UINT, read),
    F(23, UINT, batch),
    F(24, BOOL, is_slots),
    F(25, UINT, quarantined_total),
    F(26, UINT, worker_deaths),
    F(27, UINT, change_from_batch),
    F(28, BOOL, change_from_slots),
    F(29, UINT, change_start_ms),
    F(30, UINT, change_end_ms),
    F(31, STR, partitions_from),
    F(32, STR, spread_from),
};
#undef THIS
TYPE(ROTA_QUEUE_INFO, "queue", struct rota_queue_info, INFO);

#define THIS struct rota_queue_worker_info
static const struct rota_message_field WORKER_INFO[] = {
    F(1, STR, name),       F(2, UINT, session),   F(3, UINT, epoch), F(4, UINT, slots),
    F(5, UINT, n_running), F(6, UINT, silent_ms), F(7, STRS, can),   F(8, STRS, queues),
};
#undef THIS
TYPE(ROTA_QUEUE_WORKER_INFO, "worker", struct rota_queue_worker_info, WORKER_INFO);

#define THIS struct rota_queue_word
static const struct rota_message_field WORD[] = {
    F(1, BOOL, is_offer),
    F(2, STR, node),
    F(3, STR, queue),
    F(4, STR, can),
    F(5, UINT, stamp),
    F_MAX(6, UINT, n, UINT32_MAX),
    F_MAX(7, UINT, hops, UINT32_MAX),
    F(8, UINT, age_ms),
};
static const struct rota_message_field VISIT[] = {
    F(1, STR, node),
    F(2, STR, queue),
    F(3, STR, can),
    F_MAX(4, UINT, n, UINT32_MAX),
};
#undef THIS
TYPE(ROTA_QUEUE_WORD, "word", struct rota_queue_word, WORD);
TYPE(ROTA_QUEUE_VISIT, "request", struct rota_queue_word, VISIT);

#define THIS struct rota_queue_visited
static const struct rota_message_field VISITED[] = {
    F_MAX(1, UINT, n, UINT32_MAX),
    F(2, BOOL, is_lost),
};
#undef THIS
TYPE(ROTA_QUEUE_VISITED, "reply", struct rota_queue_visited, VISITED);

/* Whole lists are of one shape: a field 1 of many. */
#define THIS struct rota_queue_list
#define LIST_OF(type_name, text, name_text, entry, table, m)                                       \
    static const struct rota_message_field table[] = {{.name = (name_text),                        \
                                                       .number = 1,                                \
                                                       ROTA_MESSAGE_INTO(INNERS, THIS, items),     \
                                                       .type = &(entry),                           \
                                                       .max = (m)}};                               \
    TYPE(type_name, text, THIS, table)
LIST_OF(ROTA_QUEUE_ADD_BATCH, "request", "jobs", ROTA_QUEUE_JOB_SPEC, ADD_BATCH,
        ROTA_QUEUE_BATCH_MAX);
LIST_OF(ROTA_QUEUE_ADD_BATCH_REPLY, "reply", "items", ROTA_QUEUE_ADDED, ADD_BATCH_REPLY,
        ROTA_QUEUE_BATCH_MAX);
LIST_OF(ROTA_QUEUE_TELL, "request", "items", ROTA_QUEUE_WORD, TELL, 0);
LIST_OF(ROTA_QUEUE_POLL_REPLY, "reply", "items", ROTA_QUEUE_HANDED, POLL_REPLY,
        ROTA_QUEUE_POLL_MAX);
static const struct rota_message_field QUEUES_REPLY[] = {
    F_LIST(1, items, ROTA_QUEUE_INFO, ROTA_BROKER_QUEUES_MAX),
    F(2, STR, next),
    F(3, STRS, missing),
    F(4, STRS, missing_why),
};
TYPE(ROTA_QUEUE_QUEUES_REPLY, "reply", THIS, QUEUES_REPLY);
static const struct rota_message_field WORKERS_REPLY[] = {
    F_LIST(1, items, ROTA_QUEUE_WORKER_INFO, ROTA_BROKER_WORKERS_MAX),
    F(3, STRS, missing),
    F(4, STRS, missing_why),
};
TYPE(ROTA_QUEUE_WORKERS_REPLY, "reply", THIS, WORKERS_REPLY);
#undef THIS

#define THIS struct rota_queue_missing
static const struct rota_message_field MISSING[] = {F(3, STRS, nodes), F(4, STRS, why)};
#undef THIS
TYPE(ROTA_QUEUE_MISSING, "reply", struct rota_queue_missing, MISSING);

#define THIS struct rota_queue_list_reply
static const struct rota_message_field LIST_REPLY[] = {
    F_OF(1, INNERS, jobs, ROTA_QUEUE_JOB_INFO),
    F(2, UINT, next),
    F(3, STRS, missing),
    F(4, STRS, missing_why),
};
#undef THIS
TYPE(ROTA_QUEUE_LIST_REPLY, "reply", struct rota_queue_list_reply, LIST_REPLY);

/* --- requests --- */

#define THIS struct rota_queue_about
static const struct rota_message_field NAME[] = {F(1, STR, queue), F_ID(2, id)};
static const struct rota_message_field PRIORITY[] = {F(1, STR, queue), F_ID(2, id),
                                                     F(3, SINT, priority)};
static const struct rota_message_field DESCRIBE[] = {
    F(1, STR, queue), F_ID(2, id), F(3, BOOL, with_payload), F(4, BOOL, asks_nodes)};
static const struct rota_message_field COMPLETE[] = {
    F(1, STR, queue), F_ID(2, id), F(3, UINT, attempt), F_BYTES(4, bytes), F_BYTES(5, log)};
static const struct rota_message_field EXTEND[] = {
    F(1, STR, queue), F_ID(2, id), F(3, UINT, attempt), F_BYTES(4, bytes), F(5, UINT, lease_ms)};
static const struct rota_message_field FAIL[] = {
    F(1, STR, queue),           F_ID(2, id),          F(3, UINT, attempt),
    F_BYTES(4, bytes),          F(5, BOOL, is_final), F(6, BOOL, is_given_back),
    F(7, UINT, retry_after_ms), F(8, BOOL, is_lost),
};
#undef THIS
TYPE(ROTA_QUEUE_NAME, "request", struct rota_queue_about, NAME);
TYPE(ROTA_QUEUE_PRIORITY, "request", struct rota_queue_about, PRIORITY);
#define THIS struct rota_queue_list
LIST_OF(ROTA_QUEUE_FIND, "request", "jobs", ROTA_QUEUE_NAME, FIND, ROTA_QUEUE_BATCH_MAX);
static const struct rota_message_field FOUND[] = {
    {.name = "jobs",
     .number = 1,
     ROTA_MESSAGE_INTO(INNERS, THIS, items),
     .type = &ROTA_QUEUE_NAME,
     .max = ROTA_QUEUE_BATCH_MAX},
    F(2, UINT, nodes),
};
TYPE(ROTA_QUEUE_FOUND, "reply", THIS, FOUND);
#undef THIS
TYPE(ROTA_QUEUE_DESCRIBE, "request", struct rota_queue_about, DESCRIBE);
HOT_TYPE(ROTA_QUEUE_COMPLETE, "request", struct rota_queue_about, COMPLETE);
#define THIS struct rota_queue_list
LIST_OF(ROTA_QUEUE_COMPLETE_BATCH, "request", "attempts", ROTA_QUEUE_COMPLETE, COMPLETE_BATCH,
        ROTA_QUEUE_BATCH_MAX);
#undef THIS
#define THIS struct rota_queue_added
static const struct rota_message_field COMPLETED[] = {F(1, UINT, status), F(2, STR, error),
                                                      F(3, BOOL, may_go_elsewhere)};
#undef THIS
HOT_TYPE(ROTA_QUEUE_COMPLETED, "reply", struct rota_queue_added, COMPLETED);
#define THIS struct rota_queue_list
LIST_OF(ROTA_QUEUE_COMPLETE_BATCH_REPLY, "reply", "items", ROTA_QUEUE_COMPLETED,
        COMPLETE_BATCH_REPLY, ROTA_QUEUE_BATCH_MAX);
#undef THIS
TYPE(ROTA_QUEUE_EXTEND, "request", struct rota_queue_about, EXTEND);
TYPE(ROTA_QUEUE_FAIL, "request", struct rota_queue_about, FAIL);

#define THIS struct rota_queue_poll
static const struct rota_message_field POLL[] = {
    F_MAX(1, STRS, queues, ROTA_WORKER_QUEUES_MAX),
    F_MAX(2, STRS, can, ROTA_WORKER_CAPABILITIES_MAX),
    F_MAX(3, UINT, max_jobs, ROTA_QUEUE_POLL_MAX),
    F(4, UINT, lease_ms),
    F(5, UINT, wait_ms),
    F(6, STR, worker),
};
#undef THIS
TYPE(ROTA_QUEUE_POLL, "request", struct rota_queue_poll, POLL);

#define THIS struct rota_queue_list_request
static const struct rota_message_field LIST[] = {
    F(1, STR, queue),
    F_MAX(2, UINT, state, ROTA_JOB_STATES - 1),
    F_MAX(3, UINT, max_jobs, ROTA_QUEUE_LIST_MAX),
    F(4, UINT, after),
};
#undef THIS
TYPE(ROTA_QUEUE_LIST, "request", struct rota_queue_list_request, LIST);

#define THIS struct rota_queue_page
static const struct rota_message_field PAGE[] = {
    F(1, STR, queue), F_MAX(2, UINT, max_queues, ROTA_QUEUE_PAGE_MAX), F(3, STR, after)};
#undef THIS
TYPE(ROTA_QUEUE_PAGE, "request", struct rota_queue_page, PAGE);

#define THIS struct rota_queue_setting
static const struct rota_message_field PAUSE[] = {F(1, STR, queue), F(2, BOOL, is_paused)};
static const struct rota_message_field QUARANTINE[] = {F(1, STR, queue), F(2, UINT, weight)};
static const struct rota_message_field WEIGHT[] = {F(1, STR, queue), F_BYTES(2, key),
                                                   F_MAX(3, UINT, weight, UINT32_MAX)};
#undef THIS
TYPE(ROTA_QUEUE_PAUSE, "request", struct rota_queue_setting, PAUSE);
TYPE(ROTA_QUEUE_QUARANTINE, "request", struct rota_queue_setting, QUARANTINE);
TYPE(ROTA_QUEUE_WEIGHT, "request", struct rota_queue_setting, WEIGHT);

#define THIS struct rota_queue_adopt
static const struct rota_message_field ADOPT[] = {
    F(1, STR, name), F(2, STR, queue),    F_MAX(3, UINT, partition, ROTA_JOB_PARTITIONS_MAX - 1),
    F(4, STR, jobs), F(5, BOOL, is_over),
};
#undef THIS
TYPE(ROTA_QUEUE_ADOPT, "request", struct rota_queue_adopt, ADOPT);

#define THIS struct rota_queue_node
static const struct rota_message_field NODE[] = {
    F(1, STR, address),
    F(2, BOOL, may_hold),
    F_MAX(3, UINT, at_ns, INT64_MAX),
};
#undef THIS
TYPE(ROTA_QUEUE_NODE, "node", struct rota_queue_node, NODE);

#define THIS struct rota_queue_holders
static const struct rota_message_field HOLDERS[] = {
    F_LIST(1, nodes, ROTA_QUEUE_NODE, ROTA_BROKER_NODES_MAX)};
static const struct rota_message_field HOLDERS_REQUEST[] = {
    F_OF(1, INNER, self, ROTA_QUEUE_NODE),
    F_LIST(2, nodes, ROTA_QUEUE_NODE, ROTA_BROKER_NODES_MAX),
};
#undef THIS
TYPE(ROTA_QUEUE_HOLDERS, "reply", struct rota_queue_holders, HOLDERS);
TYPE(ROTA_QUEUE_HOLDERS_REQUEST, "request", struct rota_queue_holders, HOLDERS_REQUEST);
TYPE(ROTA_QUEUE_ADOPT_REPLY, "reply", struct rota_queue_holders, HOLDERS_REQUEST);

#define THIS struct rota_queue_changed
static const struct rota_message_field CHANGED[] = {F(1, UINT, version), F(2, STR, queue)};
#undef THIS
TYPE(ROTA_QUEUE_CHANGED, "request", struct rota_queue_changed, CHANGED);

#define THIS struct rota_queue_changed_reply
static const struct rota_message_field CHANGED_REPLY[] = {F(1, UINT, version), F_BYTES(2, records),
                                                          F(3, BOOL, has_beyond)};
#undef THIS
TYPE(ROTA_QUEUE_CHANGED_REPLY, "reply", struct rota_queue_changed_reply, CHANGED_REPLY);

#define THIS struct rota_queue_lay_out
static const struct rota_message_field SET_LAYOUT[] = {
    F(1, STR, queue),
    F_MAX(2, UINT, partitions, ROTA_JOB_PARTITIONS_MAX),
    F(3, BOOL, has_spread),
    F_MAX(4, UINT, batch, UINT32_MAX),
    F(5, BOOL, is_slots),
    F(6, BOOL, is_dry_run),
    F_MAX(7, UINT, gradual_ms, ROTA_LAYOUT_CHANGE_MAX / ROTA_MSEC),
};
#undef THIS
TYPE(ROTA_QUEUE_SET_LAYOUT, "request", struct rota_queue_lay_out, SET_LAYOUT);

#define THIS struct rota_queue_laid_out
static const struct rota_message_field LAID_OUT[] = {
    F(1, UINT, wanted),
    F(2, UINT, write),
    F(3, UINT, read),
    F(4, UINT, batch),
    F(5, BOOL, is_slots),
    F(6, UINT, change_from_batch),
    F(7, BOOL, change_from_slots),
    F(8, UINT, change_start_ms),
    F(9, UINT, change_end_ms),
};
#undef THIS
TYPE(ROTA_QUEUE_LAID_OUT, "reply", struct rota_queue_laid_out, LAID_OUT);

#define THIS struct rota_queue_delete
static const struct rota_message_field DELETE[] = {F(1, STR, queue), F(2, BOOL, is_dry_run)};
#undef THIS
TYPE(ROTA_QUEUE_DELETE, "request", struct rota_queue_delete, DELETE);

#define THIS struct rota_queue_deleted
static const struct rota_message_field DELETED[] = {F(1, UINT, n_jobs)};
#undef THIS
TYPE(ROTA_QUEUE_DELETED, "reply", struct rota_queue_deleted, DELETED);

#define THIS struct rota_queue_forget
static const struct rota_message_field FORGET[] = {F(1, STR, node), F(2, BOOL, is_dry_run)};
#undef THIS
TYPE(ROTA_QUEUE_FORGET, "request", struct rota_queue_forget, FORGET);

#define THIS struct rota_queue_forgotten
static const struct rota_message_field FORGOTTEN[] = {F(1, UINT, n_chunks), F(2, UINT, n_jobs)};
#undef THIS
TYPE(ROTA_QUEUE_FORGOTTEN, "reply", struct rota_queue_forgotten, FORGOTTEN);

#define THIS struct rota_queue_nodes
static const struct rota_message_field NODES[] = {
    F_MAX(1, UINT, partitions, ROTA_JOB_PARTITIONS_MAX),
    F(2, STR, node),
    F(3, STRS, nodes),
    F(4, UINT, n_jobs),
    F(5, UINT, n_leaving),
    F_MAX(6, UINT, write, ROTA_JOB_PARTITIONS_MAX),
    F(7, STRS, absent),
    F_MAX(8, UINT, read, ROTA_JOB_PARTITIONS_MAX),
    F_MAX(9, UINT, batch, UINT32_MAX),
    F(10, BOOL, is_slots),
    F_MAX(11, UINT, change_from_batch, UINT32_MAX),
    F(12, BOOL, change_from_slots),
    F(13, UINT, change_start_ms),
    F(14, UINT, change_end_ms),
};
#undef THIS
TYPE(ROTA_QUEUE_NODES, "reply", struct rota_queue_nodes, NODES);

/* --- contents --- */

/* The halves of an id, the highest byte first. */
static uint64_t swap_bytes(uint64_t half)
{
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    half = __builtin_bswap64(half);
#endif
    return half;
}

enum rota_code rota_queue_message_id_read(struct rota_str bytes, struct rota_job_id *id,
                                          struct rota_error *error)
{
    if (bytes.size != 0 && bytes.size != ROTA_QUEUE_ID_SIZE)
        return rota_error_set(error, ROTA_ERR_INVALID, "the id of a job has %d bytes, not %zu",
                              ROTA_QUEUE_ID_SIZE, bytes.size);
    uint64_t halves[2] = {0};
    if (bytes.size > 0)
        memcpy(halves, bytes.data, sizeof halves);
    *id = (struct rota_job_id){.high = swap_bytes(halves[0]), .low = swap_bytes(halves[1])};
    return ROTA_OK;
}

struct rota_str rota_queue_message_id_write(struct rota_job_id id, char bytes[ROTA_QUEUE_ID_SIZE])
{
    uint64_t halves[2] = {swap_bytes(id.high), swap_bytes(id.low)};
    memcpy(bytes, halves, sizeof halves);
    return rota_str_of(bytes, ROTA_QUEUE_ID_SIZE);
}

enum rota_code rota_queue_message_priority_check(int64_t priority, struct rota_error *error)
{
    if (priority >= INT16_MIN && priority <= INT16_MAX)
        return ROTA_OK;
    return rota_error_set(error, ROTA_ERR_INVALID, "a priority must be from %d to %d, not %lld",
                          INT16_MIN, INT16_MAX, (long long)priority);
}

enum rota_code rota_queue_message_key_check(const struct rota_queue_job_spec *message,
                                            struct rota_error *error)
{
    size_t size = message->idempotency_key.size;
    if (size == 0 || message->is_keyed)
        return ROTA_OK;
    if (size > ROTA_JOB_KEY_MAX)
        return rota_error_set(error, ROTA_ERR_INVALID, "idempotency_key has 1 to %d bytes, not %zu",
                              ROTA_JOB_KEY_MAX, size);
    if (message->id.size > 0 || message->partition > 0)
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "a job with an idempotency_key must not have an id or a partition: "
                              "both follow from the key");
    if (message->unique.size > 0)
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "a job can have an idempotency_key or a unique key, not both");
    return ROTA_OK;
}

void rota_queue_message_spec_name(struct rota_queue_job_spec *message, uint32_t partitions,
                                  char id[ROTA_QUEUE_ID_SIZE])
{
    if (message->idempotency_key.size == 0 || message->is_keyed ||
        rota_queue_message_key_check(message, NULL))
        return;
    message->id = rota_queue_message_id_write(
        rota_job_id_of_key(message->queue, message->idempotency_key, partitions), id);
    message->is_keyed = true;
    message->is_again = true; /* perhaps: the caller need not know */
}

enum rota_code rota_queue_message_spec_read(const struct rota_queue_job_spec *message,
                                            rota_time now, struct rota_job_spec *spec,
                                            struct rota_error *error)
{
    struct rota_job_id id;
    enum rota_code code = rota_queue_message_id_read(message->id, &id, error);
    if (!code)
        code = rota_queue_message_priority_check(message->priority, error);
    if (code)
        return code;
    code = rota_queue_message_key_check(message, error);
    if (code)
        return code;
    if (message->delay_ms && message->not_before_ms)
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "a job can have delay_ms or not_before_ms, not both");
    rota_time not_before = rota_queue_from_ms(message->not_before_ms);
    if (message->delay_ms)
        not_before = rota_time_add(now, rota_queue_from_ms(message->delay_ms));
    *spec = (struct rota_job_spec){
        .id = id,
        .queue = message->queue,
        .partition = message->partition || rota_job_id_is_none(id) ? (uint32_t)message->partition
                                                                   : rota_job_id_partition(id),
        .capabilities = message->can.items,
        .n_capabilities = message->can.n,
        .payload = message->payload,
        .priority = (int16_t)message->priority,
        .not_before = not_before,
        .deadline = rota_queue_from_ms(message->deadline_ms),
        .timeout = rota_queue_from_ms(message->timeout_ms),
        .max_attempts = (uint32_t)message->max_attempts,
        .backoff = rota_queue_from_ms(message->backoff_ms),
        .backoff_max = rota_queue_from_ms(message->backoff_max_ms),
        .unique = message->unique,
        .key = message->key,
        .trace = message->trace,
        .is_keyed = message->is_keyed,
    };
    return ROTA_OK;
}

void rota_queue_message_spec_write(const struct rota_job_spec *spec, char id[ROTA_QUEUE_ID_SIZE],
                                   struct rota_queue_job_spec *message)
{
    *message = (struct rota_queue_job_spec){
        .queue = spec->queue,
        .payload = spec->payload,
        .can = {spec->capabilities, spec->n_capabilities},
        .partition = spec->partition,
        .priority = spec->priority,
        .not_before_ms = rota_queue_to_ms(spec->not_before),
        .deadline_ms = rota_queue_to_ms(spec->deadline),
        .timeout_ms = rota_queue_to_ms(spec->timeout),
        .max_attempts = spec->max_attempts,
        .backoff_ms = rota_queue_to_ms(spec->backoff),
        .backoff_max_ms = rota_queue_to_ms(spec->backoff_max),
        .unique = spec->unique,
        .key = spec->key,
        .trace = spec->trace,
    };
    if (!rota_job_id_is_none(spec->id))
        message->id = rota_queue_message_id_write(spec->id, id);
}

enum { SIZE_BYTES = 4 }; /* before each job, the lowest first */

void rota_queue_message_write_jobs(struct rota_journal_batch *batch,
                                   const struct rota_work_record *record, struct rota_buffer *bytes)
{
    size_t bound = rota_journal_record_bound(record), start = bytes->size;
    char *room = rota_buffer_extend(bytes, SIZE_BYTES + bound);
    if (!room)
        return;
    size_t size = rota_journal_record_encode(batch, record, bytes->data, room + SIZE_BYTES);
    for (int i = 0; i < SIZE_BYTES; i++)
        room[i] = (char)(size >> 8 * i);
    bytes->size = start + SIZE_BYTES + size;
}

bool rota_queue_message_read_jobs(struct rota_journal_batch *batch, struct rota_str bytes,
                                  size_t *place, struct rota_work_record *record,
                                  struct rota_journal_room *room)
{
    size_t size = 0, left = bytes.size - *place;
    const char *at = bytes.data + *place;
    if (left < SIZE_BYTES)
        return false;
    for (int i = SIZE_BYTES; i-- > 0;)
        size = size << 8 | (unsigned char)at[i];
    if (size > left - SIZE_BYTES || size > ROTA_JOURNAL_BODY_MAX ||
        !rota_journal_record_decode(batch, bytes.data, rota_str_of(at + SIZE_BYTES, size), record,
                                    room))
        return false;
    *place += SIZE_BYTES + size;
    return true;
}
