/* worker_frame: the messages between a broker and its workers.
 *
 * Every message is one frame: the length of its type's name in one byte, the name, and the body.
 * Names that begin with "rota." are Rota's own, and their bodies are the messages of
 * proto/rota/v1/worker.proto; docs/worker-protocol.md has the rules.
 *
 * A batch is appended to a buffer entry by entry, and read the same way:
 *
 *     struct rota_worker_batch batch = rota_worker_batch(body);
 *     while (rota_worker_batch_job_next(&batch, &job, &code, error))
 *         ... job ...
 *     if (code) ... what followed can't be read ...
 *
 * The readers are strict and bounded: they return only valid names, ids, numbers and sizes,
 * except for the cause and the texts of ends and the texts of progress: a worker should not lose
 * its session for an invalid one, and the broker judges it. Unknown fields are skipped, so that
 * either side may be newer. Everything is borrowed from the frame. */
#pragma once

#include "base/buffer.h"
#include "core/work/broker/broker.h"
#include "core/work/cluster/peer_fsm.h"
#include "wire/message/lean.h"
#include "wire/message/message.h"

enum {
    ROTA_WORKER_PROTOCOL_VERSION = 1,
    ROTA_WORKER_TYPE_MAX = 64,    /* bytes of a type's name: letters, digits, '.', '_', '-' */
    ROTA_WORKER_BATCH_MAX = 4096, /* entries of one message */
    ROTA_WORKER_HELD_MAX = 8192,  /* attempts that a worker names as held */
    ROTA_WORKER_BYE_TEXT_MAX = 512,
};

#define ROTA_WORKER_PROTOCOL "rota-worker"

#define ROTA_WORKER_HELLO    "rota.hello"
#define ROTA_WORKER_WELCOME  "rota.welcome"
#define ROTA_WORKER_BEAT     "rota.beat"
#define ROTA_WORKER_BYE      "rota.bye"
#define ROTA_WORKER_READY    "rota.ready"
#define ROTA_WORKER_JOBS     "rota.jobs"
#define ROTA_WORKER_CANCEL   "rota.cancel"
#define ROTA_WORKER_ENDS     "rota.ends"
#define ROTA_WORKER_ENDED    "rota.ended"
#define ROTA_WORKER_PROGRESS "rota.progress"
#define ROTA_WORKER_SLOTS    "rota.slots"
#define ROTA_WORKER_CHECK    "rota.check"
#define ROTA_WORKER_HOLDS    "rota.holds"

/* --- the frame --- */

bool rota_worker_frame_type_is_valid(struct rota_str name);

/* How many bytes are before the body; and write them. Returns where the body goes. */
static inline size_t rota_worker_head_size(struct rota_str type)
{
    return 1 + type.size;
}
uint8_t *rota_worker_frame_head_write(uint8_t *to, struct rota_str type);

/* ROTA_ERR_INVALID when it is not a frame. */
enum rota_code rota_worker_frame_parse(struct rota_str frame, struct rota_str *type,
                                       struct rota_str *body, struct rota_error *error);

/* --- the session --- */

struct rota_worker_hello {
    uint64_t version;
    struct rota_str name;
    uint64_t epoch;
    struct rota_str protocol; /* of one that was read; the writer fills it in */
};

struct rota_worker_welcome {
    uint32_t version;
    uint64_t session;
    struct rota_beat beat;
    uint64_t message_max;
};

enum rota_worker_bye_reason {
    ROTA_BYE_STOPPING,
    ROTA_BYE_NO_SESSION,
    ROTA_BYE_REPLACED,
    ROTA_BYE_STALE,
    ROTA_BYE_MALFORMED,
    ROTA_BYE_UNSUPPORTED,
    ROTA_BYE_FULL,
    ROTA_BYE_NOT_ALLOWED,
    ROTA_BYE_REFUSED, /* also for an unknown reason of a newer protocol */
    ROTA_BYE_SILENT,
};

struct rota_worker_bye {
    enum rota_worker_bye_reason reason;
    struct rota_str text;
};

/* Whether a text can be a worker's name. */
enum rota_code rota_worker_frame_name_check(struct rota_str name, struct rota_error *error);

/* For people: "another session of this name came". */
const char *rota_worker_frame_bye_text(enum rota_worker_bye_reason reason);

/* Each appends a body. */
void rota_worker_frame_hello_write(const struct rota_worker_hello *hello, struct rota_buffer *body);
void rota_worker_frame_welcome_write(const struct rota_worker_welcome *welcome,
                                     struct rota_buffer *body);
void rota_worker_frame_bye_write(const struct rota_worker_bye *bye, struct rota_buffer *body);

/* ROTA_ERR_INVALID, ROTA_ERR_LIMIT; a HELLO of another protocol or version is ROTA_ERR_UNAVAILABLE.
 */
enum rota_code rota_worker_frame_hello_read(struct rota_str body, struct rota_worker_hello *hello,
                                            struct rota_error *error);
enum rota_code rota_worker_frame_welcome_read(struct rota_str body,
                                              struct rota_worker_welcome *welcome,
                                              struct rota_error *error);
enum rota_code rota_worker_frame_bye_read(struct rota_str body, struct rota_worker_bye *bye,
                                          struct rota_error *error);

/* --- jobs --- */

/* A worker's capabilities. The arrays are the reader's, of ROTA_WORKER_CAPABILITIES_MAX,
 * ROTA_WORKER_QUEUES_MAX and ROTA_WORKER_SLOTS_MAX entries. */
struct rota_worker_ready {
    struct rota_str *capabilities, *queues;
    struct rota_worker_running *running;
    size_t n_capabilities, n_queues, n_running;
    uint32_t slots;
    bool takes_ended_with_jobs; /* verdicts may be in the message with its jobs */
};

void rota_worker_batch_ready_write(const struct rota_worker_ready *ready, struct rota_buffer *body);
enum rota_code rota_worker_batch_ready_read(struct rota_str body, struct rota_worker_ready *ready,
                                            struct rota_error *error);

struct rota_worker_job {
    struct rota_str queue;
    struct rota_job_id id;
    uint64_t attempt;
    uint32_t n_attempts;
    int16_t priority;
    rota_time timeout; /* duration; 0: none */
    struct rota_str payload, key, trace;
};

struct rota_worker_cancel {
    struct rota_str queue;
    struct rota_job_id id;
    uint64_t attempt;
    enum rota_job_cause cause; /* NONE: one that this side does not know */
};

struct rota_worker_verdict {
    struct rota_str queue;
    struct rota_job_id id;
    uint64_t attempt;
    enum rota_code code;
};

struct rota_worker_step {
    struct rota_str queue;
    struct rota_job_id id;
    uint64_t attempt;
    struct rota_str text;
};

/* Each appends an entry of a batch. */
void rota_worker_batch_job_write(const struct rota_worker_job *job, struct rota_buffer *body);
void rota_worker_batch_cancel_write(const struct rota_worker_cancel *cancel,
                                    struct rota_buffer *body);
void rota_worker_batch_end_write(const struct rota_attempt_end *end, struct rota_buffer *body);
void rota_worker_batch_verdict_write(const struct rota_worker_verdict *verdict,
                                     struct rota_buffer *body);
void rota_worker_batch_step_write(const struct rota_worker_step *step, struct rota_buffer *body);

/* Verdicts that go along with jobs: append them, entries as rota_worker_batch_verdict_write() has
 * written them, to a batch of jobs. */
void rota_worker_batch_ended_append(struct rota_str verdicts, struct rota_buffer *jobs);

struct rota_worker_batch {
    struct rota_lean_reader reader;
    uint32_t number; /* of the field whose entries are read */
    size_t n;        /* entries that were read */
};

static inline struct rota_worker_batch rota_worker_batch(struct rota_str body)
{
    return (struct rota_worker_batch){.reader = rota_lean_reader(body), .number = 1};
}

/* The verdicts in a message of jobs. */
static inline struct rota_worker_batch rota_worker_ended_batch(struct rota_str jobs)
{
    return (struct rota_worker_batch){.reader = rota_lean_reader(jobs), .number = 2};
}

/* The next entry. False ends it: `*code` is ROTA_OK, or ROTA_ERR_INVALID when what follows is
 * malformed; earlier entries are valid. */
bool rota_worker_batch_job_next(struct rota_worker_batch *batch, struct rota_worker_job *job,
                                enum rota_code *code, struct rota_error *error);
bool rota_worker_batch_cancel_next(struct rota_worker_batch *batch,
                                   struct rota_worker_cancel *cancel, enum rota_code *code,
                                   struct rota_error *error);
bool rota_worker_batch_end_next(struct rota_worker_batch *batch, struct rota_attempt_end *end,
                                enum rota_code *code, struct rota_error *error);
bool rota_worker_batch_verdict_next(struct rota_worker_batch *batch,
                                    struct rota_worker_verdict *verdict, enum rota_code *code,
                                    struct rota_error *error);
bool rota_worker_batch_step_next(struct rota_worker_batch *batch, struct rota_worker_step *step,
                                 enum rota_code *code, struct rota_error *error);

void rota_worker_batch_slots_write(uint32_t slots, struct rota_buffer *body);
enum rota_code rota_worker_batch_slots_read(struct rota_str body, uint32_t *slots,
                                            struct rota_error *error);

/* A broker's question: which of the attempts up to `up_to` do you have? `round` is returned. */
struct rota_worker_check {
    uint64_t up_to, round;
};

/* The answer, with both numbers of the question. The array is the reader's, of
 * ROTA_WORKER_HELD_MAX entries. */
struct rota_worker_holds {
    struct rota_worker_running *held;
    size_t n_held;
    uint64_t up_to, round;
    bool has_slots; /* it reports its slots: */
    uint32_t slots;
};

void rota_worker_batch_check_write(const struct rota_worker_check *check, struct rota_buffer *body);
void rota_worker_batch_holds_write(const struct rota_worker_holds *holds, struct rota_buffer *body);
enum rota_code rota_worker_batch_check_read(struct rota_str body, struct rota_worker_check *check,
                                            struct rota_error *error);
enum rota_code rota_worker_batch_holds_read(struct rota_str body, struct rota_worker_holds *holds,
                                            struct rota_error *error);

/* The messages of the .proto, for tests. Entries of all batches are of one struct. */
extern const struct rota_message_type ROTA_WORKER_HELLO_TYPE, ROTA_WORKER_WELCOME_TYPE,
    ROTA_WORKER_BYE_TYPE, ROTA_WORKER_READY_TYPE, ROTA_WORKER_ATTEMPT_TYPE, ROTA_WORKER_JOB_TYPE,
    ROTA_WORKER_CANCEL_TYPE, ROTA_WORKER_END_TYPE, ROTA_WORKER_VERDICT_TYPE, ROTA_WORKER_STEP_TYPE,
    ROTA_WORKER_SLOTS_TYPE, ROTA_WORKER_CHECK_TYPE, ROTA_WORKER_HOLDS_TYPE;
