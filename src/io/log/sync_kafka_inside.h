/* sync_kafka_inside: the Kafka engine itself, and its log. Only src/io/log/sync_kafka*.c and a test
 * include it.
 *
 * There are two parts, each with a thread for blocking calls: the log (sync_kafka_log.c), whose
 * records and answers librdkafka queues and the loop takes out, and the membership
 * (sync_kafka_member.c), which runs from a join() to its leave() on a thread of its own and
 * posts what happened. */
#pragma once

#include "base/container.h"
#include "base/vector.h"
#include "core/call/backoff.h"
#include "io/log/sync_kafka_member.h"

/* --- the log (sync_kafka_log.c) --- */

enum rota_kafka_phase {
    ROTA_KAFKA_LOOKING,  /* for the brokers, the topic, its ends */
    ROTA_KAFKA_OPEN,     /* and no read was requested */
    ROTA_KAFKA_STARTING, /* to read */
    ROTA_KAFKA_READING,
    ROTA_KAFKA_OVER, /* failed, or closing */
};

enum rota_kafka_job_type {
    ROTA_KAFKA_LOOK,
    ROTA_KAFKA_START,
    ROTA_KAFKA_ASK,
    ROTA_KAFKA_TRIM,
    ROTA_KAFKA_RENEW, /* the producer */
    ROTA_KAFKA_END,
};

/* What the thread does (sync_kafka_job.c), one at a time. */
struct rota_kafka_job {
    struct rota_letter letter;
    enum rota_kafka_job_type type;
    uint64_t offset; /* of START and TRIM */
    uint64_t known;  /* all below existed when the job began */

    enum rota_code code;
    struct rota_error error;
    uint64_t first, end;
    rota_time sent_at;
};

struct rota_kafka_append {
    bool is_used;
    uint64_t number;
};

struct rota_kafka {
    struct rota_sync sync;
    struct rota_kafka_setup setup;
    struct uv_loop_s *loop;
    void (*on_event)(void *data, const struct rota_sync_event *event);
    void *data;
    struct rota_random random;

    /* The log. The clients belong to the thread while a job is in flight that changes them; the
     * loop uses them in the phases in which they exist. */
    struct rota_thread *thread;
    struct rota_kafka_job job;
    bool has_job, has_clients, has_opened;
    bool is_taking; /* an event of librdkafka is being handled: no job may begin that closes a
                       client */
    rd_kafka_t *reader, *producer;
    rd_kafka_topic_t *reader_topic, *producer_topic;
    rd_kafka_queue_t *records; /* of the current read */
    rd_kafka_queue_t *reader_news, *producer_news;
    uv_async_t wake; /* one of the queues has something */
    uv_timer_t timer;
    enum rota_kafka_phase phase;
    struct rota_backoff backoff;
    rota_time look_at, missing_since; /* the topic is; 0: it is there */
    rota_time unreachable_since;      /* 0: the brokers answered last time */
    bool is_trouble_told;
    char words[ROTA_KAFKA_WORDS_MAX];
    bool wants_read, wants_trim, wants_producer;
    uint64_t read_offset, trim_offset;
    uint64_t position; /* everything below was delivered */
    uint64_t known;    /* all below was there */
    bool has_end;      /* of the log, which was not reported yet */
    uint64_t end;
    rota_time end_sent_at, ask_at, asked_at;
    struct rota_kafka_append appends[ROTA_SYNC_APPENDS_MAX];
    ROTA_VECTOR(uint64_t) refused; /* numbers of appends to be answered at the next wake */

    /* The membership. */
    struct rota_mailbox *notes;
    struct rota_kafka_member *member;
    uint64_t member_number;
    atomic_uint_fast64_t taken; /* the last note of the member that was handled */
    size_t n_members;           /* those that are leaving included */

    /* The end. */
    bool is_failed, is_closing;
    size_t n_open; /* threads, mailboxes, handles that are not closed yet */
    void (*on_closed)(void *data);
    void *closed_data;
};

void rota_sync_kafka_job_work(struct rota_letter *letter);

static inline struct rota_kafka *rota_kafka_job_owner(struct rota_letter *letter)
{
    return ROTA_CONTAINER(letter, struct rota_kafka, job.letter);
}

/* Report an event, unless the object is ending. It may be closing when this returns. */
void rota_sync_kafka_report_event(struct rota_kafka *kafka, const struct rota_sync_event *event);
/* Report FAILED, and end all work. */
void rota_sync_kafka_fail(struct rota_kafka *kafka, const struct rota_error *error);

enum rota_code rota_sync_kafka_log_open(struct rota_kafka *kafka, struct rota_error *error);
/* Have the thread give everything back; then `on_ended` is called. */
void rota_sync_kafka_log_end(struct rota_kafka *kafka);
void rota_sync_kafka_log_ended(struct rota_kafka *kafka); /* in sync_kafka.c */
void rota_sync_kafka_log_read(struct rota_kafka *kafka, uint64_t offset);
enum rota_code rota_sync_kafka_log_append(struct rota_kafka *kafka, uint64_t number,
                                          struct rota_str bytes, struct rota_error *error);
void rota_sync_kafka_log_trim(struct rota_kafka *kafka, uint64_t offset);
/* After a failure: answer everything in flight. */
void rota_sync_kafka_log_refuse(struct rota_kafka *kafka);
