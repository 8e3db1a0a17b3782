/* sync_sql_inside: what the files of the log in a database share.
 *
 * The loop's side (sync_sql_state.h) decides what to do next and puts it into a turn; the thread's
 * side (sync_sql_turn.c) carries it out on one connection: all writes in one transaction, then all
 * reads. One turn is in flight at a time, and what comes up meanwhile goes into the next. Besides
 * their dialects, SQLite and PostgreSQL differ in the signal: sync_sqlite.c, sync_pg.c.
 *
 * Invariants: a writer locks the row of the head until the commit, so records are committed in
 * the order of their offsets, without gaps. A write takes effect only if the head still has the
 * expected id. */
#pragma once

#include "base/list.h"
#include "base/vector.h"
#include "io/log/sync_inside.h"
#include "io/mailbox.h"
#include "io/sql/sql.h"

enum {
    ROTA_SYNC_SCHEMA_VERSION = 1,
    ROTA_SYNC_CHUNK = 32,            /* records of one statement: 32 MB at most */
    ROTA_SYNC_CHUNKS_MAX = 32,       /* of a turn */
    ROTA_SYNC_BATCH_BYTES = 2 << 20, /* a turn that has read so much ends */
    ROTA_SYNC_TRIM_MAX = 1000,       /* records that are cut at one time */
    ROTA_SYNC_OWED_MAX = 64,         /* ids that are still to be taken out of the table */
};

/* --- waking others, and detecting that a process is dead --- */

enum {
    ROTA_SYNC_HEARD_NEWS = 1,  /* there are new records */
    ROTA_SYNC_HEARD_DEATH = 2, /* a process may have ended */
    ROTA_SYNC_HEARD_LOST = 4,  /* the signal is lost: open it again */
};

struct rota_sync_signal;

struct rota_sync_head {
    uint64_t id; /* random; 0: none */
    uint64_t first, next, generation;
};

/* `new`, `fd` and `hear` are called on the loop, `free` when the thread has ended, the others on
 * the thread. `hear` may run concurrently with any of these but `open`. */
struct rota_sync_signal_kind {
    /* Gives `*signal`, that is not open yet. `url` is kept. */
    enum rota_code (*new)(const struct rota_sql_url *url, const struct rota_sync_options *options,
                          struct rota_sync_signal **signal, struct rota_error *error);
    void (*free)(struct rota_sync_signal *signal);

    /* What can be known before the database is opened: that it can't be. */
    enum rota_code (*check)(struct rota_sync_signal *signal, struct rota_error *error);

    /* Begin to listen, again after HEARD_LOST. */
    enum rota_code (*open)(struct rota_sync_signal *signal, struct rota_error *error);
    int (*fd)(const struct rota_sync_signal *signal); /* -1: it is not open */
    int (*hear)(struct rota_sync_signal *signal);     /* it is readable: the bits above */

    /* Wake the others: in the transaction, or after its commit. Either may be NULL. */
    enum rota_code (*tell)(struct rota_sync_signal *signal, struct rota_sql *sql,
                           const struct rota_sync_head *head, struct rota_error *error);
    void (*told)(struct rota_sync_signal *signal);

    /* Hold a proof that the process lives, for the member `id`, which goes into the member's
     * row. The next hold replaces it. May be NULL, like what follows. */
    enum rota_code (*hold)(struct rota_sync_signal *signal, uint64_t id, uint64_t *where,
                           struct rota_error *error);
    void (*drop)(struct rota_sync_signal *signal);
    bool (*is_dead)(struct rota_sync_signal *signal, uint64_t id, uint64_t where);

    /* Of a group without a head: whether another process has its log open, and so knows a former
     * one. `is_made`: the tables did not exist either. */
    bool (*is_known)(struct rota_sync_signal *signal, struct rota_sql *sql, bool is_made);
};

extern const struct rota_sync_signal_kind rota_sync_sqlite, rota_sync_pg;

/* What every signal begins with. */
struct rota_sync_signal {
    const struct rota_sync_signal_kind *kind;
};

/* --- one turn --- */

struct rota_sync_append {
    struct rota_list_node link;
    uint64_t number;
    size_t size;
    char bytes[];
};

/* Remove a member if this is still its count. */
struct rota_sync_remove {
    uint64_t place, pings;
};

struct rota_sync_turn {
    struct rota_letter letter;

    /* --- request --- */
    struct rota_sync_head known;              /* `id` 0: only read the head */
    bool opens_signal, looks, beats, is_last; /* a heartbeat is a read, too */
    struct rota_list_node appends;
    uint64_t owed[ROTA_SYNC_OWED_MAX]; /* members that we were */
    size_t n_owed;
    uint64_t join_id, ping_id;     /* 0: don't */
    char line[ROTA_SYNC_LINE_MAX]; /* of join_id */
    size_t line_size;
    ROTA_VECTOR(struct rota_sync_remove) removes;
    uint64_t trim_below;
    bool reads;
    uint64_t from;
    bool has_tail; /* the last record that was delivered; checked on a new connection */
    uint64_t tail_offset, tail_hash, hash_seed;

    /* --- result --- */
    rota_time sent_at, heard_at;
    enum rota_code code; /* of the first thing that failed */
    struct rota_error error;
    bool is_new;                    /* the connection was made in this turn */
    bool is_forgotten;              /* the log was recreated; its former members may not know yet */
    bool is_connected;              /* it is still connected */
    bool is_other;                  /* the log is not the known one: `error` says why */
    bool has_written;               /* all that was to be written is */
    bool is_full;                   /* there was no place to join */
    bool is_ping_missed;            /* there is no such member */
    uint64_t append_at, append_end; /* offsets of `appends`: the first, and after the last */
    enum rota_code signal_code;
    struct rota_error signal_error;
    struct rota_sync_head head; /* `id` 0: it was not read */
    struct rota_sql_result members;
    bool has_members;
    ROTA_VECTOR(bool) dead; /* by row of `members` */
    struct rota_sql_result chunks[ROTA_SYNC_CHUNKS_MAX];
    size_t n_chunks;
    bool has_read; /* `chunks` hold everything from `from` on, up to `head.next` or a part */
};

/* Columns of `members`, and of each chunk. A group without members has one row without
 * an id. */
enum {
    ROTA_SYNC_MEMBER_ID = 4,
    ROTA_SYNC_MEMBER_PLACE,
    ROTA_SYNC_MEMBER_PINGS,
    ROTA_SYNC_MEMBER_SESSION_MS,
    ROTA_SYNC_MEMBER_HELD,
    ROTA_SYNC_MEMBER_LINE,
};
enum {
    ROTA_SYNC_RECORD_OFFSET,
    ROTA_SYNC_RECORD_SIZE,
    ROTA_SYNC_RECORD_BYTES, /* nothing when there are too many */
};

/* The thread's. */
struct rota_sync_session {
    struct rota_sql_url url;
    const char *name;
    rota_time session, timeout;
    bool is_observer;
    struct rota_sql *sql; /* NULL: not connected */
    struct rota_sync_signal *signal;
};

/* Thread. Carry it out. */
void rota_sync_sql_turn_do(struct rota_sync_session *session, struct rota_sync_turn *turn);

void rota_sync_sql_turn_appends_free(struct rota_list_node *appends);

/* Free the result, and start the next with nothing to do. */
void rota_sync_sql_turn_clear(struct rota_sync_turn *turn);

/* Thread. Create or upgrade the tables, and create the head of the group. `*is_forgotten` is set
 * when the head was made, and there are signs that it existed before. */
enum rota_code rota_sync_sql_schema_open(struct rota_sync_session *session, bool *is_forgotten,
                                         struct rota_error *error);

/* Thread. A random number above 0 and below 2^62. */
uint64_t rota_sync_sql_schema_random(void);
