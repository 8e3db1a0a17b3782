/* broker_log: the records of a broker, where they go, and the answers that wait for them. */
#pragma once

#include "base/vector.h"
#include "core/work/broker/broker.h"
#include "core/work/broker/compaction.h"
#include "io/journal/journal.h"

#include <rota/server.h>
#include <uv.h>

struct rota_work_broker;

/* An answer that waits for its record: to a call, or to a worker by its `connection`. */
struct rota_broker_answer {
    uint64_t number;      /* it waits for this one ... */
    uint64_t first, last; /* ... because its own are among these; 0: it has none */
    struct rota_server_call *call;
    uint64_t connection;
    char *large; /* the message when it is not `small`; freed */
    size_t size;
    char small[64];
};

/* Where records go: a journal or a store. Without one, in memory, appended records count as
 * durable. It calls rota_work_broker_durable() as records become durable. */
struct rota_broker_sink {
    /* False when it can't be taken now: the same record is appended again later. */
    bool (*append)(struct rota_work_broker *broker, const struct rota_work_record *record);

    /* All records of a turn were appended. */
    void (*turn)(struct rota_work_broker *broker);

    /* When another turn is needed at the latest. NULL: never. */
    rota_time (*deadline)(const struct rota_work_broker *broker);

    /* Write what is pending, if possible, and release everything. Nothing else is called after
     * this. */
    void (*close)(struct rota_work_broker *broker, void (*on_closed)(void *data), void *data);

    const char *failed; /* the error for callers when it can no longer write */
};
extern const struct rota_broker_sink rota_broker_journal_sink, rota_broker_store_sink;

struct rota_broker_log {
    const struct rota_broker_sink *sink; /* NULL: in memory */
    uint64_t appended, durable;          /* numbers of records */
    size_t n_carried; /* effects that are carried out; the rest waits for the journal */
    ROTA_VECTOR(struct rota_broker_answer) answers; /* in the order of their numbers */
    size_t n_answered;                              /* of them, from the front */

    /* Of work_broker_journal.c. */
    struct rota_journal *journal; /* NULL: another sink is used */
    struct rota_compaction compaction;
    struct rota_room room;
    uint64_t drop_below; /* for the journal, when this turn is written; 0: nothing */
    uint64_t n_replayed;
};

enum rota_code rota_work_broker_journal_open(struct rota_work_broker *broker, uv_loop_t *loop,
                                             const char *directory, struct rota_error *error);
