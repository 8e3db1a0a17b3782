/* sync_sql_state: a group's log in a database, as the loop sees it. sync_sql.c decides what the
 * next turn does, sync_sql_hear.c reports its result. */
#pragma once

#include "core/call/backoff.h"
#include "core/own/session_watch.h"
#include "io/log/sync_sql_inside.h"

#include <uv.h>

struct rota_sync_sql {
    struct rota_sync base;
    uv_loop_t *loop;
    struct rota_sync_options options;
    char name[ROTA_SYNC_NAME_MAX + 1];
    uv_timer_t timer;
    uv_poll_t *poll; /* NULL: nothing wakes us */
    struct rota_thread *thread;
    struct rota_sync_session session; /* the thread's, while a turn is in flight */
    struct rota_sync_signal *signal;
    struct rota_sync_turn turn;
    struct rota_backoff backoff;
    struct rota_random random;
    uint64_t hash_seed;

    bool is_busy;   /* a turn is in flight, or is being reported */
    bool is_wanted; /* there is news, or something to write */
    bool is_up, is_failed, is_closed;
    bool is_last_sent;  /* the turn after which the thread ends */
    bool is_log_told;   /* it was logged as unreachable */
    bool is_deaf;       /* ... that nothing wakes us */
    rota_time retry_at; /* nothing is tried before */
    rota_time beat_at;  /* a read and a heartbeat are due */
    bool is_full;       /* there was no place to join; try again with the next heartbeat */
    rota_time look_at;  /* a process may have ended */
    int n_looks;
    int n_parts; /* of parts that have to end before it is freed */
    void (*on_closed)(void *data);
    void *closed_data;

    /* The log. */
    struct rota_sync_head head; /* as reported; `id` 0: none */
    bool is_reading;
    uint64_t next, n_reads;
    bool has_tail;
    uint64_t tail_offset, tail_hash;
    struct rota_list_node appends;
    size_t n_appends; /* with those of the turn */
    uint64_t trim_below;

    /* The group. */
    bool is_wished;
    char line[ROTA_SYNC_LINE_MAX];
    size_t line_size;
    uint64_t id; /* of the membership that is wished; 0: none yet */
    bool is_tried, is_joined;
    ROTA_VECTOR(uint64_t) owed; /* ids to be taken out of the table */
    uint64_t place, generation; /* of the last round reported; 0: none */
    rota_time sign_at;          /* when the last heartbeat that counted was sent */
    rota_time round_at;         /* no round before */
    struct rota_session_watch sessions;
};

/* Report the result of the turn, in the order that the listener needs; ends early when a
 * callback closes it. */
void rota_sync_sql_hear(struct rota_sync_sql *sync);

/* We are no longer a member, or do not want to be: delete our row from the table, if any. */
void rota_sync_sql_hear_leave(struct rota_sync_sql *sync);
