/* events: what has happened in a cluster, for people: the newest few thousand, numbered.
 *
 * An event is a timestamp, a kind, a subject and a sentence. A node records its own, and fetches
 * those of others while a client watches. Numbers are local to this log: they grow by one, in the
 * order in which events became known here; a follower asks for events after the last number it has
 * seen, and a gap shows that it was too slow. */
#pragma once

#include <rota/str.h>
#include <rota/time.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    ROTA_EVENTS_KEPT = 4096,
    ROTA_EVENT_SUBJECT_MAX = 128, /* bytes with the NUL; longer ones are cut */
    ROTA_EVENT_TEXT_MAX = 256,
};

enum rota_event_kind {
    ROTA_EVENT_NODE,     /* a node joined, drains, is gone */
    ROTA_EVENT_SHARD,    /* a shard has another owner */
    ROTA_EVENT_QUEUE,    /* paused, full, handed over */
    ROTA_EVENT_JOB,      /* died, was retried by an operator */
    ROTA_EVENT_CALL,     /* a circuit opened or closed */
    ROTA_EVENT_GROUP,    /* an epoch, a task */
    ROTA_EVENT_OPERATOR, /* an operator changed something */
    ROTA_EVENT_SETTING,  /* has another value */
};

enum { ROTA_EVENT_KINDS = ROTA_EVENT_SETTING + 1 };

struct rota_event {
    uint64_t number;
    rota_time at; /* wall clock */
    enum rota_event_kind kind;
    char subject[ROTA_EVENT_SUBJECT_MAX], text[ROTA_EVENT_TEXT_MAX]; /* valid UTF-8 if they were */
    char node[ROTA_EVENT_SUBJECT_MAX]; /* the node that recorded it; empty: this node */
};

/* All zero is one without events. Set `base` before the first so that numbers of a node's
 * earlier incarnation are not reused. */
struct rota_events {
    uint64_t base; /* the first one's number, less one */
    uint64_t n;    /* of all that ever were */
    struct rota_event kept[ROTA_EVENTS_KEPT];
};

/* For error messages and help. */
#define ROTA_EVENT_KIND_NAMES "node, shard, queue, job, call, group, operator, setting"

/* "node", "shard", ... Any thread. */
const char *rota_event_kind_name(enum rota_event_kind kind);
bool rota_event_kind_parse(struct rota_str text, enum rota_event_kind *kind);

/* Record an event; the oldest makes room. Both texts are cut between characters. */
void rota_events_add(struct rota_events *events, rota_time at, enum rota_event_kind kind,
                     struct rota_str subject, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

/* Add an event that another node has recorded; it gets one of our numbers. */
void rota_events_adopt(struct rota_events *events, rota_time at, enum rota_event_kind kind,
                       struct rota_str subject, struct rota_str text, struct rota_str node);

/* The last one's number, or `base`. */
uint64_t rota_events_last(const struct rota_events *events);

/* The first event after number `after` that is still there; NULL when there is none. Borrowed
 * until the next is added. */
const struct rota_event *rota_events_next(const struct rota_events *events, uint64_t after);
