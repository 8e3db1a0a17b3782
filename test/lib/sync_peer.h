/* For tests of a group's log: a peer that has it open and remembers its events. A forbidden
 * event fails the test at once. */
#pragma once

#include "await.h"
#include "base/vector.h"
#include "io/clock.h"
#include "io/log/sync.h"

struct peer_record {
    uint64_t offset;
    char *bytes;
    size_t size;
    bool is_whole;
};

struct peer {
    uv_loop_t *loop;
    struct rota_sync *sync;
    rota_time ok_every; /* 0: a second at most, so that no test waits */
    bool is_deaf;       /* after OPENED nothing is read by itself */
    bool is_member;     /* between join() and leave() */
    size_t n_events;    /* of all kinds */
    size_t n_opened, n_lost, n_ok, n_appended, n_not_appended, n_answered;
    size_t n_rounds, n_group_ok, n_group_lost, n_unreachable, n_failed, n_closed, n_records;
    size_t n_ok_since;       /* OK since the last append was answered */
    size_t n_group_ok_since; /* GROUP_OK since the last round */
    uint64_t first, end;     /* of the last OPENED */
    uint64_t ok_end;
    rota_time ok_sent_at, group_ok_sent_at;
    uint64_t from, next; /* of read(), and what comes next */
    ROTA_VECTOR(struct peer_record) records;
    uint64_t offsets[4096]; /* by number; UINT64_MAX: not appended */
    bool is_answered[4096];
    uint64_t generation;
    bool is_leader;
    ROTA_VECTOR(char *) members;
    char error[ROTA_ERROR_TEXT_MAX];
    void (*on_event)(struct peer *peer, const struct rota_sync_event *event); /* may be NULL */
};

void peer_forget_records(struct peer *peer);
void peer_forget_members(struct peer *peer);
void peer_read(struct peer *peer, uint64_t offset);
void peer_on_event(void *data, const struct rota_sync_event *event);
void peer_start(struct peer *peer, uv_loop_t *loop, const char *url, const char *name,
                rota_time session, bool is_observer);

/* Open it, and wait until it is. */
void peer_open(struct peer *peer, uv_loop_t *loop, const char *url, const char *name,
               rota_time session);

void peer_on_closed(void *data);
void peer_close(struct peer *peer);
void peer_append(struct peer *peer, uint64_t number, const void *bytes, size_t size);

/* Append a text and wait until it is there. Returns its offset. */
uint64_t peer_write(struct peer *peer, uint64_t number, const char *text);

void peer_join(struct peer *peer, const char *line);
void peer_leave(struct peer *peer);
bool peer_has_member(const struct peer *peer, const char *line);

/* Wait for a round with `n` members. */
void peer_await_members(struct peer *peer, size_t n);

/* Wait until all that was appended before now was told. */
void peer_await_end(struct peer *peer, uint64_t end);
