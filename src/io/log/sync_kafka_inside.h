/* sync_kafka_inside: what the parts of the Kafka engine share. Only src/io/log/sync_kafka*.c and a
 * test include it.
 *
 * There are two parts, each with a thread for blocking calls: the log (sync_kafka_log.c), whose
 * records and answers librdkafka queues and the loop takes out, and the membership
 * (sync_kafka_member.c), which runs from a join() to its leave() on a thread of its own and
 * posts what happened. */
#pragma once

#include "base/container.h"
#include "base/vector.h"
#include "core/call/backoff.h"
#include "io/log/sync_inside.h"
#include "io/mailbox.h"
#include "wire/text/kafka_url.h"

#include <librdkafka/rdkafka.h>
#include <stdatomic.h>
#include <uv.h>

enum {
    ROTA_KAFKA_ASK_MS = 2000, /* one request, at most; so long a close() may take */
    ROTA_KAFKA_APPEND_MS = 5000,

    /* Of the largest message: a record and Kafka's overhead. */
    ROTA_KAFKA_MESSAGE_MAX = ROTA_SYNC_RECORD_MAX + 4096,

    /* Each member should hold a partition of the rebalance topic: see
     * sync_kafka_hold.c. */
    ROTA_KAFKA_REBALANCE_PARTITIONS = 128,
};

/* What all clients are made from. It does not change, and outlives them. */
struct rota_kafka_setup {
    struct rota_kafka_url url;
    char *group, *sync_topic, *rebalance_topic;
    rota_time session, ok_every;
    bool is_observer;
    struct rota_mailbox *lines; /* log lines of librdkafka */
    char *words;                /* and its last error message; the loop's */
    const struct rota_log *log;
};

enum { ROTA_KAFKA_WORDS_MAX = 256 };

/* --- clients and topics; any thread (sync_kafka_topic.c) --- */

struct rota_kafka_setting {
    const char *name, *value;
};

/* Whether librdkafka takes the properties of the URL. */
enum rota_code rota_kafka_client_check(const struct rota_kafka_setup *setup,
                                       struct rota_error *error);

/* Give a client; rd_kafka_destroy() ends it. ROTA_ERR_INVALID when a property of the
 * URL is none. */
enum rota_code rota_kafka_client_open(const struct rota_kafka_setup *setup, rd_kafka_type_t type,
                                      const struct rota_kafka_setting *settings, size_t n_settings,
                                      int events, rd_kafka_t **client, struct rota_error *error);

/* An error that time does not heal: rights, a password. */
bool rota_kafka_is_refusal(rd_kafka_resp_err_t code);

/* Whether there is such a topic, and with how many partitions: ROTA_ERR_NOT_FOUND when
 * not, ROTA_ERR_INVALID when we may not know, ROTA_ERR_UNAVAILABLE otherwise. */
enum rota_code rota_kafka_topic_find(rd_kafka_t *client, const char *name, int *n_partitions,
                                     int *n_replicas, int *n_brokers, struct rota_error *error);

/* Make it, if it is not there by now. Codes as above. */
enum rota_code rota_kafka_topic_make(rd_kafka_t *client, const char *name, int n_partitions,
                                     int n_replicas, const struct rota_kafka_setting *settings,
                                     size_t n_settings, struct rota_error *error);

/* The sync topic: created if allowed, and checked. ROTA_ERR_INVALID says what to change. */
enum rota_code rota_kafka_topic_open(rd_kafka_t *client, const struct rota_kafka_setup *setup,
                                     bool may_make, struct rota_error *error);

/* Records below `offset` go. */
enum rota_code rota_kafka_topic_trim(rd_kafka_t *client, const char *name, uint64_t offset,
                                     struct rota_error *error);

/* --- the coordinator's view; any thread (sync_kafka_coordinator.c) --- */

enum { ROTA_KAFKA_ID_MAX = 1024 };

/* Who we are at the coordinator. */
struct rota_kafka_identity {
    int32_t generation;
    char id[ROTA_KAFKA_ID_MAX];
};

/* False when we are not a member. */
bool rota_kafka_identify(rd_kafka_t *client, struct rota_kafka_identity *identity);

/* Commit an offset, with `mark` as its metadata, as the member that we are. */
rd_kafka_resp_err_t rota_kafka_commit(rd_kafka_t *client, const char *topic, int32_t slot,
                                      const char *mark);

struct rota_kafka_roster {
    const struct rd_kafka_group_list *list;
    const struct rd_kafka_group_member_info *members; /* borrowed from it */
    size_t n_members;
    bool is_stable;
};

/* Gives the members of the group; false when they are unknown. rota_kafka_roster_free() ends it. */
bool rota_kafka_list_members(rd_kafka_t *client, const char *group,
                             struct rota_kafka_roster *roster);
void rota_kafka_roster_free(struct rota_kafka_roster *roster);
bool rota_kafka_roster_has(const struct rota_kafka_roster *roster, const char *id);

/* The lowest partition of `topic` that a member of a stable group holds; -1: none. */
int32_t rota_kafka_slot_of(const struct rd_kafka_group_member_info *member, const char *topic);

/* --- from one round into the next; the member's thread (sync_kafka_hold.c) --- */

/* Another member of the round, and the partition on which it reports that it is ready. */
struct rota_kafka_holder {
    char id[ROTA_KAFKA_ID_MAX];
    int32_t slot;
    bool is_checker; /* it reports when all are ready */
    bool is_ready;   /* or removed */
};

struct rota_kafka_hold {
    ROTA_VECTOR(struct rota_kafka_holder) holders;
    bool is_checker;
    char ready[32], go[32]; /* marks of this hold: I am ready; all are */
    bool may_go;
    rota_time look_at, list_at, check_at;
};

/* Who is in the round, and so will be waited for; `id` and `slot` are ours. */
void rota_kafka_hold_remember(struct rota_kafka_hold *hold, const struct rota_kafka_setup *setup,
                              const struct rota_kafka_roster *roster, const char *id, int32_t slot);
/* The round is over. */
void rota_kafka_hold_begin(struct rota_kafka_hold *hold, const struct rota_kafka_setup *setup,
                           int32_t generation);
/* Whether we may proceed; asks the coordinator, not before `look_at`. When it says so without
 * `may_go`, the others have not been notified yet. */
bool rota_kafka_hold_look(struct rota_kafka_hold *hold, rd_kafka_t *client,
                          const struct rota_kafka_setup *setup);

/* --- the membership (sync_kafka_member.c) --- */

struct rota_kafka_member;

/* A member's report; borrowed. */
struct rota_kafka_note {
    struct rota_letter letter;
    void (*on_note)(void *owner, const struct rota_kafka_note *note);
    void *owner;
    uint64_t member; /* its number */
    uint64_t number; /* among the notes of the member */
    enum rota_sync_event_type type;
    uint64_t generation;
    rota_time sent_at;
    bool is_leader;
    struct rota_str *members;  /* followed by their text */
    size_t n_members, n_slots; /* the latter hold partitions of the rebalance topic */
    struct rota_error error;
};

struct rota_kafka_member_options {
    const struct rota_kafka_setup *setup; /* kept */
    struct uv_loop_s *loop;               /* kept */
    struct rota_mailbox *notes;           /* kept: where its notes go */
    uint64_t number;
    struct rota_str line; /* copied */

    /* Of each note, on the loop; frees nothing. */
    void (*on_note)(void *owner, const struct rota_kafka_note *note);
    void *owner; /* kept */

    const atomic_uint_fast64_t *taken; /* kept: the number of the last note that was handled */
};

enum rota_code rota_kafka_member_open(const struct rota_kafka_member_options *options,
                                      struct rota_kafka_member **member, struct rota_error *error);

/* Leave and close; `on_closed` is called from the loop. Notes may arrive meanwhile. */
void rota_kafka_member_close(struct rota_kafka_member *member, void (*on_closed)(void *data),
                             void *data);

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
    uint64_t known;  /* all below was there when the job began */

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

void rota_kafka_job_work(struct rota_letter *letter);

static inline struct rota_kafka *rota_kafka_job_owner(struct rota_letter *letter)
{
    return ROTA_CONTAINER(letter, struct rota_kafka, job.letter);
}

/* Tell, unless it is over. The object may be closing when this returns. */
void rota_kafka_tell(struct rota_kafka *kafka, const struct rota_sync_event *event);
/* Tell FAILED, and end all work. */
void rota_kafka_fail(struct rota_kafka *kafka, const struct rota_error *error);

enum rota_code rota_kafka_log_open(struct rota_kafka *kafka, struct rota_error *error);
/* Have the thread give everything back; then `on_ended` is called. */
void rota_kafka_log_end(struct rota_kafka *kafka);
void rota_kafka_log_ended(struct rota_kafka *kafka); /* in sync_kafka.c */
void rota_kafka_log_read(struct rota_kafka *kafka, uint64_t offset);
enum rota_code rota_kafka_log_append(struct rota_kafka *kafka, uint64_t number,
                                     struct rota_str bytes, struct rota_error *error);
void rota_kafka_log_trim(struct rota_kafka *kafka, uint64_t offset);
/* After a failure: answer everything in flight. */
void rota_kafka_log_refuse(struct rota_kafka *kafka);
