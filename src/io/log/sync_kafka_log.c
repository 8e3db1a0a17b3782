/* The log of a group in Kafka: one partition, read without a group and written by an idempotent
 * producer.
 *
 * librdkafka queues events, and the loop takes them out when it is woken; blocking calls are jobs
 * of the thread, one at a time. A read has a queue of its own, so that nothing of an earlier one is
 * ever seen.
 *
 * The log's end is requested with the time of the request, and reported as OK when everything
 * below it was delivered. librdkafka 2.0 does not show the id of a topic, so that a topic which
 * was deleted and recreated can't be distinguished from the former one when it has outgrown it
 * meanwhile. While we are connected a fetch fails before that; and after a session without an
 * answer, the log counts as lost and is read again like a new one. */
#include "io/clock.h"
#include "io/log/sync_kafka_inside.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Events of one wake-up, so that others get their turn. */
enum { EVENTS_MAX = 256, BYTES_MAX = 4 << 20 };

/* How long an existing topic may be missing: brokers that start, or elect a controller, do not know
 * of all, and on a busy machine that takes longer than 10 s. */
#define MISSING_MAX (30 * ROTA_SEC)

/* How long they may fail to answer before we report it: a new topic has no leader at first. */
#define UNREACHABLE_AFTER (1 * ROTA_SEC)

/* --- jobs --- */

static void step(struct rota_kafka *kafka);

static void answer_append(struct rota_kafka *kafka, struct rota_kafka_append *append,
                          bool is_appended, uint64_t offset)
{
    struct rota_sync_event event = {
        .type = is_appended ? ROTA_SYNC_APPENDED : ROTA_SYNC_NOT_APPENDED,
        .number = append->number,
        .offset = offset,
    };
    append->is_used = false;
    rota_sync_kafka_report_event(kafka, &event);
}

static void refuse_all(struct rota_kafka *kafka)
{
    for (size_t i = 0; i < ROTA_SYNC_APPENDS_MAX; i++)
        if (kafka->appends[i].is_used)
            answer_append(kafka, &kafka->appends[i], false, 0);
}

/* What was delivered may no longer hold; start over. */
static void lose_log(struct rota_kafka *kafka, const struct rota_error *error)
{
    if (kafka->phase == ROTA_KAFKA_LOOKING || kafka->phase == ROTA_KAFKA_OVER)
        return;
    rota_log(kafka->setup.log, rota_clock_wall(), ROTA_LOG_WARN, "log lost",
             ROTA_LOG_FACT("log", kafka->sync.name), ROTA_LOG_FACT("reason", error->text));
    kafka->phase = ROTA_KAFKA_LOOKING;
    kafka->look_at = 0;
    kafka->has_end = kafka->wants_read = false;
    rota_sync_kafka_report_event(kafka,
                                 &(struct rota_sync_event){.type = ROTA_SYNC_LOST, .error = error});
    refuse_all(kafka); /* whether they are there will be seen */
}

static void lose_because(struct rota_kafka *kafka, const char *why)
{
    struct rota_error error;
    rota_error_set(&error, ROTA_ERR_UNAVAILABLE, "Kafka's topic %s: %s", kafka->setup.sync_topic,
                   why);
    lose_log(kafka, &error);
}

/* Its end was requested: has everything been delivered by now? */
static void check_end(struct rota_kafka *kafka)
{
    if (!kafka->has_end || kafka->position < kafka->end || kafka->phase != ROTA_KAFKA_READING)
        return;
    kafka->has_end = false;
    rota_sync_kafka_report_event(kafka, &(struct rota_sync_event){.type = ROTA_SYNC_OK,
                                                                  .end = kafka->end,
                                                                  .sent_at = kafka->end_sent_at});
}

/* Reported and logged once, and not for a short failure; librdkafka's message gives the reason. */
static void note_unreachable(struct rota_kafka *kafka, const struct rota_error *error)
{
    rota_time now = rota_clock_boot();
    rota_error_set(&kafka->sync.trouble, error->code, "%s%s%s", error->text,
                   kafka->words[0] ? "; librdkafka says: " : "", kafka->words);
    if (kafka->unreachable_since == 0)
        kafka->unreachable_since = now;
    if (kafka->is_trouble_told || now - kafka->unreachable_since < UNREACHABLE_AFTER)
        return;
    struct rota_error trouble = kafka->sync.trouble;
    kafka->is_trouble_told = true;
    rota_log(kafka->setup.log, rota_clock_wall(), ROTA_LOG_WARN, "log unreachable",
             ROTA_LOG_FACT("log", kafka->sync.name), ROTA_LOG_FACT("reason", trouble.text));
    rota_sync_kafka_report_event(
        kafka, &(struct rota_sync_event){.type = ROTA_SYNC_UNREACHABLE, .error = &trouble});
}

static void note_reached(struct rota_kafka *kafka)
{
    kafka->sync.trouble = (struct rota_error){0};
    kafka->words[0] = '\0';
    kafka->unreachable_since = 0;
    kafka->is_trouble_told = false;
}

static void on_opened(struct rota_kafka *kafka, const struct rota_kafka_job *job)
{
    kafka->has_opened = true;
    kafka->missing_since = 0;
    kafka->phase = ROTA_KAFKA_OPEN;
    kafka->known = job->end;
    note_reached(kafka);
    rota_backoff_succeeded(&kafka->backoff);
    rota_log(kafka->setup.log, rota_clock_wall(), ROTA_LOG_INFO, "log opened",
             ROTA_LOG_FACT("log", kafka->sync.name),
             ROTA_LOG_FACT("topic", kafka->setup.sync_topic), ROTA_LOG_FACT("first", job->first),
             ROTA_LOG_FACT("end", job->end));
    rota_sync_kafka_report_event(
        kafka,
        &(struct rota_sync_event){.type = ROTA_SYNC_OPENED, .first = job->first, .end = job->end});
}

/* A missing topic is created only by a member that never saw it: an empty log must not replace
 * that of a running group. */
static bool is_missing_for_good(struct rota_kafka *kafka, rota_time now)
{
    if (kafka->setup.is_observer && !kafka->has_opened)
        return true;
    if (kafka->missing_since == 0)
        kafka->missing_since = now;
    return now - kafka->missing_since >= MISSING_MAX;
}

static void on_not_found(struct rota_kafka *kafka)
{
    struct rota_error error;
    if (kafka->has_opened)
        rota_error_set(&error, ROTA_ERR_NOT_FOUND,
                       "Kafka's topic %s is gone, and with it the log of the group: the owners of "
                       "its partitions are unknown",
                       kafka->setup.sync_topic);
    else
        rota_error_set(&error, ROTA_ERR_NOT_FOUND, "there is no such group: Kafka has no topic %s",
                       kafka->setup.sync_topic);
    rota_sync_kafka_fail(kafka, &error);
}

/* The topic is unusable. One that worked before was changed, or deleted and recreated by a
 * broker on the next request. */
static void on_refused(struct rota_kafka *kafka, const struct rota_error *error)
{
    struct rota_error longer;
    rota_error_set(&longer, error->code,
                   "the log of the group was changed, or deleted and created again: %s",
                   error->text);
    rota_sync_kafka_fail(kafka, kafka->has_opened ? &longer : error);
}

static void on_looked(struct rota_kafka *kafka, const struct rota_kafka_job *job)
{
    rota_time now = rota_clock_boot();
    kafka->has_clients = kafka->reader != NULL;
    uv_async_send(&kafka->wake); /* for events queued meanwhile */
    if (!job->code) {
        on_opened(kafka, job);
    } else if (job->code == ROTA_ERR_INVALID) {
        on_refused(kafka, &job->error);
    } else if (job->code == ROTA_ERR_NOT_FOUND && is_missing_for_good(kafka, now)) {
        on_not_found(kafka);
    } else {
        kafka->look_at = now + rota_backoff_failed(&kafka->backoff, &kafka->random);
        note_unreachable(kafka, &job->error);
    }
}

/* While brokers elect a controller or a leader, a topic that is there may be unknown for a while:
 * only one that stays so is lost. */
static void on_asked(struct rota_kafka *kafka, const struct rota_kafka_job *job)
{
    rota_time now = rota_clock_boot();
    kafka->ask_at = now + kafka->setup.ok_every / 2;
    if (kafka->phase != ROTA_KAFKA_READING)
        return; /* the read is another one by now */
    if (job->code == ROTA_ERR_NOT_FOUND && is_missing_for_good(kafka, now)) {
        lose_log(kafka, &job->error);
    } else if (job->code) {
        note_unreachable(kafka, &job->error);
    } else if (job->sent_at - kafka->asked_at > kafka->setup.session) {
        lose_because(kafka, "it did not respond for a session");
    } else if (job->end < job->known) { /* not kafka->known: records have arrived since */
        lose_because(kafka, "it became shorter");
    } else {
        note_reached(kafka);
        kafka->missing_since = 0;
        kafka->asked_at = job->sent_at;
        kafka->has_end = true;
        kafka->end = job->end;
        if (kafka->known < job->end)
            kafka->known = job->end;
        kafka->end_sent_at = job->sent_at;
        check_end(kafka);
    }
}

static void on_started(struct rota_kafka *kafka, const struct rota_kafka_job *job)
{
    if (kafka->phase != ROTA_KAFKA_STARTING)
        return;
    if (job->code) {
        lose_log(kafka, &job->error);
        return;
    }
    if (kafka->wants_read)
        return; /* from elsewhere */
    kafka->phase = ROTA_KAFKA_READING;
    kafka->position = job->offset;
    kafka->ask_at = 0;
    uv_async_send(&kafka->wake);
}

static void on_job_done(struct rota_letter *letter, bool is_cancelled)
{
    struct rota_kafka *kafka = rota_kafka_job_owner(letter);
    struct rota_kafka_job job = kafka->job;
    (void)is_cancelled;
    kafka->has_job = false;
    if (job.type == ROTA_KAFKA_END) {
        rota_sync_kafka_log_ended(kafka);
        return;
    }
    switch (kafka->phase == ROTA_KAFKA_OVER ? ROTA_KAFKA_END : job.type) {
    case ROTA_KAFKA_LOOK:
        on_looked(kafka, &job);
        break;
    case ROTA_KAFKA_START:
        on_started(kafka, &job);
        break;
    case ROTA_KAFKA_ASK:
        on_asked(kafka, &job);
        break;
    case ROTA_KAFKA_TRIM:
        if (job.code)
            rota_log(kafka->setup.log, rota_clock_wall(), ROTA_LOG_WARN, "log not trimmed",
                     ROTA_LOG_FACT("log", kafka->sync.name),
                     ROTA_LOG_FACT("reason", job.error.text));
        break;
    case ROTA_KAFKA_RENEW:
        if (job.code)
            rota_sync_kafka_fail(kafka, &job.error);
        break;
    case ROTA_KAFKA_END:
        break;
    }
    step(kafka);
}

static void post_job(struct rota_kafka *kafka, enum rota_kafka_job_type type, uint64_t offset)
{
    kafka->job = (struct rota_kafka_job){
        .letter = {.work = rota_sync_kafka_job_work, .done = on_job_done},
        .type = type,
        .offset = offset,
        .known = kafka->known,
    };
    kafka->has_job = true;
    enum rota_code code = rota_mailbox_thread_post(kafka->thread, &kafka->job.letter);
    assert(!code); /* one at a time, and it is not closed before the last */
    (void)code;
}

static void on_timer(uv_timer_t *timer)
{
    step(timer->data);
}

/* The next job, or when to check for one again. */
static void step(struct rota_kafka *kafka)
{
    rota_time now = rota_clock_boot(), at = ROTA_TIME_NEVER;
    if (kafka->has_job || kafka->is_taking)
        return;
    if (kafka->is_closing) {
        post_job(kafka, ROTA_KAFKA_END, 0);
        return;
    }
    switch (kafka->phase) {
    case ROTA_KAFKA_LOOKING:
        at = kafka->look_at;
        if (at <= now)
            post_job(kafka, ROTA_KAFKA_LOOK, 0);
        break;
    case ROTA_KAFKA_STARTING:
        kafka->wants_read = false;
        post_job(kafka, ROTA_KAFKA_START, kafka->read_offset);
        break;
    case ROTA_KAFKA_READING:
        at = kafka->ask_at;
        if (kafka->wants_producer) {
            kafka->wants_producer = false;
            post_job(kafka, ROTA_KAFKA_RENEW, 0);
            refuse_all(kafka);
        } else if (at <= now)
            post_job(kafka, ROTA_KAFKA_ASK, 0);
        else if (kafka->wants_trim)
            post_job(kafka, ROTA_KAFKA_TRIM, kafka->trim_offset);
        kafka->wants_trim = kafka->wants_trim && kafka->job.type != ROTA_KAFKA_TRIM;
        break;
    case ROTA_KAFKA_OPEN:
    case ROTA_KAFKA_OVER:
        break;
    }
    if (!kafka->has_job && at != ROTA_TIME_NEVER)
        uv_timer_start(&kafka->timer, on_timer, (uint64_t)((at - now) / ROTA_MSEC) + 1, 0);
}

/* The producer is the thread's. */
static bool is_renewing(const struct rota_kafka *kafka)
{
    return kafka->has_job && kafka->job.type == ROTA_KAFKA_RENEW;
}

/* --- events of librdkafka --- */

static void on_record(struct rota_kafka *kafka, const rd_kafka_message_t *message)
{
    bool is_small = message->len <= ROTA_SYNC_RECORD_MAX;
    struct rota_sync_event event = {
        .type = ROTA_SYNC_RECORD,
        .offset = (uint64_t)message->offset,
        .bytes = rota_str_of(message->payload ? message->payload : "", is_small ? message->len : 0),
        .size = message->len,
    };
    if (event.offset < kafka->position)
        return;
    kafka->position = event.offset + 1;
    if (kafka->known < kafka->position)
        kafka->known = kafka->position;
    rota_sync_kafka_report_event(kafka, &event);
}

/* Events of the read other than records. */
static void on_read_error(struct rota_kafka *kafka, rd_kafka_event_t *event)
{
    struct rota_error error;
    rd_kafka_resp_err_t code = rd_kafka_event_error(event);
    rd_kafka_topic_partition_t *place = rd_kafka_event_topic_partition(event);
    int64_t offset = place ? place->offset : -1;
    if (place)
        rd_kafka_topic_partition_destroy(place);
    switch (code) {
    case RD_KAFKA_RESP_ERR__PARTITION_EOF: /* it also skips what is not a record */
        if (offset >= 0 && (uint64_t)offset > kafka->position)
            kafka->position = (uint64_t)offset;
        break;
    case RD_KAFKA_RESP_ERR__AUTO_OFFSET_RESET:
    case RD_KAFKA_RESP_ERR_OFFSET_OUT_OF_RANGE:
        lose_because(kafka, "the next record to read is missing");
        break;
    case RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART:
    case RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC:
    case RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION:
        lose_because(kafka, "it no longer exists");
        break;
    default: /* librdkafka tries again by itself */
        if (!rota_sync_kafka_topic_is_refusal(code))
            break;
        rota_error_set(&error, ROTA_ERR_INVALID, "cannot read Kafka's topic %s: %s",
                       kafka->setup.sync_topic, rd_kafka_err2str(code));
        rota_sync_kafka_fail(kafka, &error);
        break;
    }
}

static void on_delivery(struct rota_kafka *kafka, const rd_kafka_message_t *message)
{
    size_t slot = (size_t)(uintptr_t)message->_private;
    if (slot >= ROTA_SYNC_APPENDS_MAX || !kafka->appends[slot].is_used)
        return;
    if (message->err)
        rota_log(kafka->setup.log, rota_clock_wall(), ROTA_LOG_WARN, "record not appended",
                 ROTA_LOG_FACT("log", kafka->sync.name),
                 ROTA_LOG_FACT("reason", rd_kafka_err2str(message->err)));
    /* After its broker has died an idempotent producer may wait for an answer forever. */
    if (message->err == RD_KAFKA_RESP_ERR__MSG_TIMED_OUT)
        kafka->wants_producer = true;
    /* A record whose later try was acknowledged is in the log, at an unknown offset. */
    bool is_appended = !message->err && message->offset >= 0;
    answer_append(kafka, &kafka->appends[slot], is_appended,
                  is_appended ? (uint64_t)message->offset : 0);
}

static void on_client_error(struct rota_kafka *kafka, rd_kafka_event_t *event, bool is_producer)
{
    struct rota_error error;
    rd_kafka_resp_err_t code = rd_kafka_event_error(event);
    rota_error_set(&error, ROTA_ERR_INVALID, "%s: %s: %s", kafka->sync.name, rd_kafka_err2str(code),
                   rd_kafka_event_error_string(event));
    if (rota_sync_kafka_topic_is_refusal(code)) {
        rota_sync_kafka_fail(kafka, &error);
    } else if (is_producer && code == RD_KAFKA_RESP_ERR__FATAL) {
        lose_log(kafka, &error); /* it does nothing from now on */
    }
}

static void take_news(struct rota_kafka *kafka, rd_kafka_queue_t *queue, bool is_producer)
{
    rd_kafka_event_t *event;
    while (queue && kafka->phase != ROTA_KAFKA_OVER &&
           !(is_producer && kafka->phase == ROTA_KAFKA_LOOKING) &&
           (event = rd_kafka_queue_poll(queue, 0))) {
        const rd_kafka_message_t *message;
        if (rd_kafka_event_type(event) == RD_KAFKA_EVENT_DR)
            while ((message = rd_kafka_event_message_next(event)))
                on_delivery(kafka, message);
        else if (rd_kafka_event_type(event) == RD_KAFKA_EVENT_ERROR)
            on_client_error(kafka, event, is_producer);
        rd_kafka_event_destroy(event);
    }
}

static void take_records(struct rota_kafka *kafka)
{
    size_t n = 0, bytes = 0;
    rd_kafka_event_t *event;
    while (kafka->phase == ROTA_KAFKA_READING) {
        if (n >= EVENTS_MAX || bytes >= BYTES_MAX) {
            uv_async_send(&kafka->wake); /* the rest after the others */
            break;
        }
        if (!(event = rd_kafka_queue_poll(kafka->records, 0)))
            break;
        const rd_kafka_message_t *message;
        while (rd_kafka_event_type(event) == RD_KAFKA_EVENT_FETCH &&
               (message = rd_kafka_event_message_next(event))) {
            n++;
            bytes += message->len;
            if (kafka->phase == ROTA_KAFKA_READING && !message->err)
                on_record(kafka, message);
        }
        if (rd_kafka_event_type(event) == RD_KAFKA_EVENT_ERROR)
            on_read_error(kafka, event);
        rd_kafka_event_destroy(event);
    }
    check_end(kafka);
}

static void on_wake(uv_async_t *wake)
{
    struct rota_kafka *kafka = wake->data;
    for (size_t i = 0; i < kafka->refused.size; i++)
        rota_sync_kafka_report_event(kafka,
                                     &(struct rota_sync_event){.type = ROTA_SYNC_NOT_APPENDED,
                                                               .number = kafka->refused.items[i]});
    kafka->refused.size = 0;
    if (!kafka->has_clients || kafka->phase == ROTA_KAFKA_OVER)
        return;
    kafka->is_taking = true;
    if (!(kafka->has_job && kafka->job.type == ROTA_KAFKA_LOOK) && !is_renewing(kafka)) {
        take_news(kafka, kafka->producer_news, true);
        take_news(kafka, kafka->reader_news, false);
    }
    take_records(kafka);
    kafka->is_taking = false;
    step(kafka);
}

/* --- wishes --- */

enum rota_code rota_sync_kafka_log_open(struct rota_kafka *kafka, struct rota_error *error)
{
    enum rota_code code = rota_mailbox_thread_open(
        kafka->loop, &(struct rota_thread_options){.name = "rota-kafka"}, &kafka->thread, error);
    if (code)
        return code;
    uv_async_init(kafka->loop, &kafka->wake, on_wake);
    uv_timer_init(kafka->loop, &kafka->timer);
    kafka->wake.data = kafka->timer.data = kafka;
    kafka->backoff = (struct rota_backoff){.first = 50 * ROTA_MSEC, .max = 2 * ROTA_SEC};
    step(kafka);
    return ROTA_OK;
}

void rota_sync_kafka_log_end(struct rota_kafka *kafka)
{
    kafka->phase = ROTA_KAFKA_OVER;
    step(kafka);
}

void rota_sync_kafka_log_read(struct rota_kafka *kafka, uint64_t offset)
{
    if (kafka->phase == ROTA_KAFKA_LOOKING || kafka->phase == ROTA_KAFKA_OVER)
        return; /* it is lost by now */
    if (kafka->phase == ROTA_KAFKA_OPEN)
        kafka->asked_at = rota_clock_boot();
    kafka->phase = ROTA_KAFKA_STARTING;
    kafka->wants_read = true;
    kafka->read_offset = offset;
    kafka->has_end = false;
    step(kafka);
}

enum rota_code rota_sync_kafka_log_append(struct rota_kafka *kafka, uint64_t number,
                                          struct rota_str bytes, struct rota_error *error)
{
    size_t slot = 0;
    if (kafka->is_failed || kafka->setup.is_observer)
        return rota_error_set(
            error, ROTA_ERR_UNAVAILABLE, "%.200s: cannot append: %s", kafka->sync.name,
            kafka->is_failed ? "the log has failed" : "this process only observes");
    while (slot < ROTA_SYNC_APPENDS_MAX && kafka->appends[slot].is_used)
        slot++;
    if (slot + kafka->refused.size >= ROTA_SYNC_APPENDS_MAX)
        return rota_error_set(error, ROTA_ERR_LIMIT, "%.200s: %d records are already being written",
                              kafka->sync.name, ROTA_SYNC_APPENDS_MAX);
    if (kafka->phase == ROTA_KAFKA_LOOKING || is_renewing(kafka)) {
        if (!rota_vector_push(&kafka->refused, number))
            return rota_error_no_memory(error, "to append to the log");
        uv_async_send(&kafka->wake);
        return ROTA_OK;
    }
    if (rd_kafka_produce(kafka->producer_topic, 0, RD_KAFKA_MSG_F_COPY, (void *)bytes.data,
                         bytes.size, NULL, 0, (void *)(uintptr_t)slot))
        return rota_error_set(error, ROTA_ERR_LIMIT, "%.200s: a record of %zu bytes: %s",
                              kafka->sync.name, bytes.size,
                              rd_kafka_err2str(rd_kafka_last_error()));
    kafka->appends[slot] = (struct rota_kafka_append){.is_used = true, .number = number};
    return ROTA_OK;
}

void rota_sync_kafka_log_refuse(struct rota_kafka *kafka)
{
    struct rota_sync_event event = {.type = ROTA_SYNC_NOT_APPENDED};
    for (size_t i = 0; i < ROTA_SYNC_APPENDS_MAX && !kafka->is_closing; i++)
        if (kafka->appends[i].is_used) {
            kafka->appends[i].is_used = false;
            event.number = kafka->appends[i].number;
            kafka->on_event(kafka->data, &event);
        }
    for (size_t i = 0; i < kafka->refused.size && !kafka->is_closing; i++) {
        event.number = kafka->refused.items[i];
        kafka->on_event(kafka->data, &event);
    }
    kafka->refused.size = 0;
}

void rota_sync_kafka_log_trim(struct rota_kafka *kafka, uint64_t offset)
{
    if (kafka->setup.is_observer || offset <= kafka->trim_offset)
        return;
    kafka->trim_offset = offset;
    kafka->wants_trim = true;
    step(kafka);
}
