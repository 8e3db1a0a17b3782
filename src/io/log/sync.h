/* sync: the ordered log of a group and its membership engine, behind one interface: SQLite,
 * PostgreSQL and Kafka.
 *
 * The log holds bytes at offsets that grow; the engine holds members, each a line of text, in
 * numbered rounds. Their meaning is defined elsewhere: records in wire/record/group_record.h, lines
 * in rota_group_record_metadata_format(), and core/own/group_fsm.h decides, whose events and
 * actions match these.
 *
 *     open --> OPENED --read()--> RECORD, ..., OK, RECORD, OK, ... LOST --> OPENED ...
 *              join() --> ROUND, GROUP_OK, ..., ROUND, ... GROUP_LOST
 *
 * It connects and reconnects by itself, with a growing, jittered delay; while it can't, UNREACHABLE
 * is reported once, and OK and GROUP_OK are not. FAILED is reported once, when retrying won't help:
 * a topic with the wrong settings, tables of a newer version, missing permissions.
 *
 * Invariants: records are delivered in the order of their offsets, each once after a read(), and
 * only those from the last read()'s offset on; an offset once reported as the end never holds
 * another record later, or LOST comes before it is seen; every append gets exactly one answer;
 * OK and GROUP_OK carry the time of the request, not of the answer. A member is removed only
 * after a session without a heartbeat, counted from the last one, or when it leaves, or when its
 * process is known to be dead; every member receives every round that it is in, with the whole
 * list, the latest one if several have passed. An engine that has forgotten its members waits
 * for a session before its next round. */
#pragma once

#include <rota/error.h>
#include <rota/log.h>
#include <rota/str.h>
#include <rota/time.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rota_sync;
struct uv_loop_s;

enum {
    ROTA_SYNC_NAME_MAX = 128,   /* bytes of a group's name: letters, digits, '.', '_', '-' */
    ROTA_SYNC_APPENDS_MAX = 16, /* in flight at a time */
    ROTA_SYNC_LINE_MAX = 256,   /* bytes of a member's line */
    ROTA_SYNC_RECORD_MAX =
        1 << 20,                  /* bytes of a record; of a larger one only the size is reported */
    ROTA_SYNC_MEMBERS_MAX = 2048, /* of a round; later ones wait for a place */
};

#define ROTA_SYNC_SESSION     (6 * ROTA_SEC)
#define ROTA_SYNC_SESSION_MIN (1 * ROTA_SEC)
#define ROTA_SYNC_SESSION_MAX (5 * ROTA_MIN)

enum rota_sync_event_type {
    ROTA_SYNC_OPENED, /* offsets `first` to below `end` are there; 0: nothing was ever cut */
    ROTA_SYNC_RECORD, /* `bytes` at `offset`; `size` alone when it exceeds the limit */
    ROTA_SYNC_OK, /* everything below `end` was delivered since read(); it was the log's end at some
                     time after `sent_at` */
    ROTA_SYNC_LOST,         /* what was delivered may be outdated: see `error` */
    ROTA_SYNC_APPENDED,     /* `number`, at `offset`, durably */
    ROTA_SYNC_NOT_APPENDED, /* `number`, as far as is known: it may yet appear */

    ROTA_SYNC_ROUND,    /* `generation` has `members`, asked for at `sent_at` */
    ROTA_SYNC_GROUP_OK, /* a heartbeat sent at `sent_at` counted, and then there was no later round
                           than the last one reported */
    ROTA_SYNC_GROUP_LOST, /* we are no longer a member: see `error`; join() again */

    ROTA_SYNC_UNREACHABLE, /* the server does not answer: see `error`; reported once */
    ROTA_SYNC_FAILED,      /* see `error`; nothing follows */
};

/* All is borrowed while the callback runs. */
struct rota_sync_event {
    enum rota_sync_event_type type;
    uint64_t first, end, offset, number, generation;
    struct rota_str bytes;
    size_t size;
    rota_time sent_at; /* rota_clock_boot() */

    const struct rota_str *members; /* lines as they were given to join(), ours among them */
    size_t n_members;
    bool is_leader; /* the engine nominates us to write the epoch */

    const struct rota_error *error;
};

/* The texts are copied. */
struct rota_sync_options {
    /* "sqlite:PATH", "postgres://USER:PASSWORD@HOST:PORT/DATABASE", or
     * "kafka://HOST:PORT[,HOST:PORT...]". */
    const char *url;
    const char *name;  /* of the group */
    rota_time session; /* 0 means ROTA_SYNC_SESSION */

    /* OK and GROUP_OK are reported at least this often in normal operation; 0 means a sixth of
     * the session. */
    rota_time ok_every;

    /* Never join, never create anything that is missing: only read. */
    bool is_observer;

    /* Called from the loop; may call any function of this header. */
    void (*on_event)(void *data, const struct rota_sync_event *event);
    const struct rota_log *log; /* kept; NULL: none */
    void *data;                 /* kept */
};

/* Open the log of a group on `loop`, which is kept, and create it if there is none. An
 * unreachable server is not an error, but an invalid URL is, and a kind that was not built in.
 * Gives `*sync`; rota_sync_close() ends it. */
enum rota_code rota_sync_open(struct uv_loop_s *loop, const struct rota_sync_options *options,
                              struct rota_sync **sync, struct rota_error *error);

/* Takes `sync`, which may be NULL; no event is reported after this. If joined, it leaves. When
 * everything is released `on_closed`, which may be NULL, is called from the loop; an event's
 * callback may call this. */
void rota_sync_close(struct rota_sync *sync, void (*on_closed)(void *data), void *data);

/* Deliver records from `offset` on, present and future; replaces an earlier read. Between OPENED
 * and LOST. */
void rota_sync_read(struct rota_sync *sync, uint64_t offset);

/* Add a record; the answer has `number`. `bytes` is copied. An error here means that nothing was
 * sent and there is no answer: ROTA_ERR_LIMIT with too many in flight or too many bytes,
 * ROTA_ERR_UNAVAILABLE after FAILED, ROTA_ERR_NO_MEMORY. */
enum rota_code rota_sync_append(struct rota_sync *sync, uint64_t number, struct rota_str bytes,
                                struct rota_error *error);

/* Become a member with this line, which is copied and cut to ROTA_SYNC_LINE_MAX; leave. A later
 * request replaces an earlier one. After leave() neither ROUND nor GROUP_OK is reported. */
void rota_sync_join(struct rota_sync *sync, struct rota_str line);
void rota_sync_leave(struct rota_sync *sync);

/* Records below `offset` are no longer needed, and may be deleted later. */
void rota_sync_trim(struct rota_sync *sync, uint64_t offset);

/* The URL without its password, borrowed until the log is closed. */
const char *rota_sync_name(const struct rota_sync *sync);

/* Why the server was unreachable at the last attempt; NULL when it was not. Borrowed until the
 * loop continues. */
const char *rota_sync_trouble(const struct rota_sync *sync);
