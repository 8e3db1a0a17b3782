/* Membership: the hosts of a cluster, and the ring of those that get work.
 *
 * A source (a hosts file, a table) lists the hosts; operators' overrides take precedence over the
 * source; the wall clock decides when a `start_at` or `stop_at` takes effect. These three alone
 * determine the ring. */
#pragma once

#include <rota/experimental/host.h>
#include <rota/log.h>

struct uv_loop_s;

#ifdef __cplusplus
extern "C" {
#endif

enum {
    ROTA_MEMBERS_MAX = ROTA_RING_HOSTS_MAX, /* hosts of one snapshot */
    ROTA_MEMBERS_OVERRIDES_MAX = 65535,     /* evicted or drained hosts */
};

/* How long a change takes to reach all processes, as rota_members_align() assumes. */
#define ROTA_MEMBERS_PROPAGATION (3 * ROTA_SEC)

/* A host of the source, and its state. Its weight is never 0. */
struct rota_member {
    struct rota_host host;
    bool is_evicted; /* an operator marked it as dead, even if it answers */
    bool is_drained; /* an operator drained it: it gets no work */
    bool is_placed;  /* it is on the ring */
};

/* A change. Each address is in at most one list; all three are empty if nothing changed. */
struct rota_members_change {
    const struct rota_str *added;   /* now on the ring, not before */
    const struct rota_str *removed; /* no longer on the ring */
    /* The rest: another weight, zone or state, or a host that came or went without being placed. */
    const struct rota_str *changed;
    size_t n_added, n_removed, n_changed;
};

/* --- sources of hosts --- */

/* Where a source reports to. Call both on the loop's thread. */
struct rota_members_sink {
    /* The whole list, copied; a higher version is later. A list with a bad or repeated host is
     * rejected, and so is an empty list after a non-empty one; then the membership is unchanged. */
    enum rota_code (*on_snapshot)(void *data, uint64_t version, const struct rota_host *hosts,
                                  size_t n_hosts, struct rota_error *error);
    void (*on_error)(void *data, const struct rota_error *error);
    void *data;
};

/* A source: put these functions at the head of a struct of your own. */
struct rota_members_source {
    /* Starts to report to `sink`, which is copied. A source that has its list at hand reports it
     * before this returns, and fails if it is rejected; a source that has to fetch it reports
     * later. */
    enum rota_code (*start)(struct rota_members_source *source, struct uv_loop_s *loop,
                            const struct rota_members_sink *sink, struct rota_error *error);

    /* Takes `source`, started or not. Nothing is reported afterwards. May be called from inside a
     * report. */
    void (*stop)(struct rota_members_source *source);
};

/* A source that reads the hosts file `path` and watches it; the format is that of `rota hosts`. A
 * file that becomes invalid, empty or missing is reported once as an error and leaves the
 * membership unchanged. Gives `*source`, which rota_members_open() takes. */
enum rota_code rota_hosts_watch_new(const char *path, struct rota_members_source **source,
                                    struct rota_error *error);

/* A source with a fixed list of hosts: addresses "host:port", separated by commas. Gives `*source`,
 * which rota_members_open() takes. */
enum rota_code rota_hosts_list_new(const char *text, struct rota_members_source **source,
                                   struct rota_error *error);

/* --- the membership of a running program --- */

struct rota_members;

struct rota_members_options {
    uint32_t points;            /* per host of the ring, see rota_ring_new(); 0: the default */
    const struct rota_log *log; /* kept; NULL: none */

    /* The source has a problem; the membership is unchanged. May be NULL. */
    void (*on_error)(void *data, const struct rota_error *error);
    void *data; /* kept */

    void *reserved[4]; /* must be zero; room for future options */
};

/* Opens a membership on `loop`, which is kept, from `source`, which is taken. `options` may be
 * NULL. Gives `*members`; close it with rota_members_close(). */
enum rota_code rota_members_open(struct uv_loop_s *loop, struct rota_members_source *source,
                                 const struct rota_members_options *options,
                                 struct rota_members **members, struct rota_error *error);

/* Takes `members`, which may be NULL. No callback is called afterwards; a callback may call this.
 * Memory is freed when the loop has closed the handles. */
void rota_members_close(struct rota_members *members);

/* A reference to the current ring; release it with rota_ring_unref(). Never blocks, allocates
 * nothing. Any thread, until rota_members_close(). */
struct rota_ring *rota_members_ring(struct rota_members *members);

/* All members by address, borrowed until the next call that may change them or until the loop
 * runs. */
const struct rota_member *rota_members_list(const struct rota_members *members, size_t *n_members);

/* Operators' overrides, which take precedence over the source. An unlisted host is not an error,
 * nor is a repeated override. */
enum rota_code rota_members_evict(struct rota_members *members, struct rota_str address,
                                  struct rota_error *error);
enum rota_code rota_members_unevict(struct rota_members *members, struct rota_str address,
                                    struct rota_error *error);
enum rota_code rota_members_drain(struct rota_members *members, struct rota_str address,
                                  struct rota_error *error);
enum rota_code rota_members_undrain(struct rota_members *members, struct rota_str address,
                                    struct rota_error *error);

/* Subscribes to changes, reported after the new ring is in force. Names are unique and have at most
 * 255 bytes; there are at most 10,000. Subscribing a name twice is an error. `on_change` may call
 * any function of this header; `data` is kept. */
enum rota_code rota_members_subscribe(struct rota_members *members, const char *name,
                                      void (*on_change)(void *data,
                                                        const struct rota_members_change *change),
                                      void *data, struct rota_error *error);

/* Unsubscribes. An unknown name is not an error. */
void rota_members_unsubscribe(struct rota_members *members, const char *name);

/* The time to join or leave at so that all members change over together: the next multiple of
 * `alignment` since 1970 strictly after `now` + `propagation` (usually ROTA_MEMBERS_PROPAGATION).
 * An alignment of 0 means `now`. Any thread. */
rota_time rota_members_align(rota_time now, rota_time alignment, rota_time propagation);

#ifdef __cplusplus
}
#endif
