/* Membership: which hosts there are, and the ring of those that are given work.
 *
 * A source (a hosts file, a table) lists the hosts; operators' overrides hold
 * whatever the source says; the wall clock decides when a `start_at` or a
 * `stop_at` comes. What stands on the ring follows from these three alone. */
#pragma once

#include <rota/host.h>
#include <rota/log.h>

struct uv_loop_s;

#ifdef __cplusplus
extern "C" {
#endif

enum {
    ROTA_MEMBERS_MAX = ROTA_RING_HOSTS_MAX, /* hosts of one snapshot */
    ROTA_MEMBERS_OVERRIDES_MAX = 65535,     /* hosts that are evicted or drained */
};

/* How long a change takes to reach everybody, as rota_members_align() assumes. */
#define ROTA_MEMBERS_PROPAGATION (3 * ROTA_SEC)

/* A host of the source, and what became of it. Its weight is never 0. */
struct rota_member {
    struct rota_host host;
    bool is_evicted; /* an operator holds it for dead, even if it answers */
    bool is_drained; /* an operator has asked that it be given nothing */
    bool is_placed;  /* it stands on the ring */
};

/* What is different now. Each address is in one list at most; all three empty
 * means that nothing is. */
struct rota_members_change {
    const struct rota_str *added;   /* stand on the ring and did not before */
    const struct rota_str *removed; /* no longer stand on the ring */
    const struct rota_str *changed; /* the rest: another weight, zone or state, or a
                                     * host that came or went without being placed */
    size_t n_added, n_removed, n_changed;
};

/* --- where the hosts come from --- */

/* What a source reports to. Both are called on the loop's thread. */
struct rota_members_sink {
    /* The whole list, copied; of two the one with the higher version is later.
     * When it is refused the membership stays as it was: one with a bad or
     * repeated host is, and one without hosts after there were some. */
    enum rota_code (*on_snapshot)(void *data, uint64_t version, const struct rota_host *hosts,
                                  size_t n_hosts, struct rota_error *error);
    void (*on_error)(void *data, const struct rota_error *error);
    void *data;
};

/* A source: a few functions at the head of whatever struct serves them. */
struct rota_members_source {
    /* Begin to report to `sink`, which is copied. A source that has its list at
     * hand reports it before this returns, and fails when it is refused; one
     * that has to ask for it reports later. */
    enum rota_code (*start)(struct rota_members_source *source, struct uv_loop_s *loop,
                            const struct rota_members_sink *sink, struct rota_error *error);

    /* Takes `source`, started or not; nothing is reported after. It may be
     * called from inside a report. */
    void (*stop)(struct rota_members_source *source);
};

/* A source that reads the hosts file `path` and watches it; the file's format is
 * that of `rota hosts`. A file that becomes invalid, empty or is deleted is
 * reported as an error, once, and leaves the membership as it was. Gives
 * `*source`, which rota_members_open() takes. */
enum rota_code rota_hosts_watch_new(const char *path, struct rota_members_source **source,
                                    struct rota_error *error);

/* A source of hosts that are always the same: addresses "host:port" with commas between
 * them. Gives `*source`, which rota_members_open() takes. */
enum rota_code rota_hosts_list_new(const char *text, struct rota_members_source **source,
                                   struct rota_error *error);

/* --- the membership of a running program --- */

struct rota_members;

struct rota_members_options {
    uint32_t points;            /* of the ring, see rota_ring_new(); 0: the default */
    const struct rota_log *log; /* kept; NULL: none */

    /* The source has a problem; the membership stays as it was. May be NULL. */
    void (*on_error)(void *data, const struct rota_error *error);
    void *data; /* kept */
};

/* Open a membership on `loop`, which is kept, from `source`, which is taken.
 * `options` may be NULL. Gives `*members`; rota_members_close() ends it. */
enum rota_code rota_members_open(struct uv_loop_s *loop, struct rota_members_source *source,
                                 const struct rota_members_options *options,
                                 struct rota_members **members, struct rota_error *error);

/* Takes `members`, which may be NULL; no callback comes after, and a callback
 * may call it. Memory is freed when the loop has closed the handles. */
void rota_members_close(struct rota_members *members);

/* The current ring, a share of it; rota_ring_unref() ends it. Never waits and
 * allocates nothing. Any thread, until rota_members_close(). */
struct rota_ring *rota_members_ring(struct rota_members *members);

/* All members by address, borrowed until the next call that may change them or
 * the loop runs on. */
const struct rota_member *rota_members_list(const struct rota_members *members, size_t *n_members);

/* What operators want, whatever the source says: a host that is not listed is
 * no error, nor is wanting the same again. */
enum rota_code rota_members_evict(struct rota_members *members, struct rota_str address,
                                  struct rota_error *error);
enum rota_code rota_members_unevict(struct rota_members *members, struct rota_str address,
                                    struct rota_error *error);
enum rota_code rota_members_drain(struct rota_members *members, struct rota_str address,
                                  struct rota_error *error);
enum rota_code rota_members_undrain(struct rota_members *members, struct rota_str address,
                                    struct rota_error *error);

/* Be told of every change from now on, after the new ring is in place. Names
 * are unique and have at most 255 bytes, and there are at most 10,000; a name
 * that is there already is an error. `on_change` may call
 * any function of this header; `data` is kept. */
enum rota_code rota_members_subscribe(struct rota_members *members, const char *name,
                                      void (*on_change)(void *data,
                                                        const struct rota_members_change *change),
                                      void *data, struct rota_error *error);

/* Be told no more. An unknown name is no error. */
void rota_members_unsubscribe(struct rota_members *members, const char *name);

/* The moment to join or leave so that all flip together: the next multiple of
 * `alignment` since the epoch strictly after `now` + `propagation` (usually
 * ROTA_MEMBERS_PROPAGATION). An alignment of 0 means `now`. Any thread. */
rota_time rota_members_align(rota_time now, rota_time alignment, rota_time propagation);

#ifdef __cplusplus
}
#endif
