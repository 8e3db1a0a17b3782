/* Calls to a service that is divided into shards, each with replicas.
 *
 * Name a collection and a method; the client finds the nodes that serve its shards, chooses a
 * replica, retries, hedges, and learns from every answer. See docs/calls.md. The map of the shards
 * comes from a directory, that is any node of the cluster, or from a source that you supply. A
 * directory has the maps of spaces and caches: collection NAME is space NAME, collection NAME of
 * the database "cache" is a cache, a channel is the number of a shard, and the replicas of a shard
 * are its owners, one in each zone.
 *
 * Use a client only on the loop's thread. Callbacks come from the loop, never from inside a
 * function of this header, and may call any function here except rota_shards_wait(). The exceptions
 * are on_request and sources, which may be called at any time: on_request may call none of these
 * functions, a source only those for sources. */
#pragma once

#include <rota/error.h>
#include <rota/experimental/balancer.h>
#include <rota/experimental/shard.h>
#include <rota/rpc.h>
#include <rota/time.h>

#ifdef __cplusplus
extern "C" {
#endif

struct rota_metrics;
struct rota_shards;
struct rota_shards_run;
struct rota_tls;
struct uv_loop_s; /* a uv_loop_t */

enum {
    ROTA_SHARDS_DIRECTORIES_MAX = 16,
    ROTA_SHARDS_RUNS_MAX = 65536, /* not ended; more are rejected with ROTA_ERR_LIMIT */
    /* Collections of a directory in use; more are rejected with ROTA_ERR_LIMIT. */
    ROTA_SHARDS_WATCHES_MAX = 1024,
};

/* --- sources of maps --- */

/* Names a collection by id or, if the id is 0, by name. A directory knows only the ids of
 * collections in use. An empty database means "default". */
struct rota_shards_name {
    struct rota_str database, collection;
    int64_t id;
};

struct rota_shards_map {
    int64_t id; /* of the collection; never 0 */
    const struct rota_shard_channel *channels;
    size_t n_channels;

    /* The collection's name, by which servers claim its shards; empty: they do so by its id. */
    struct rota_str name;
};

/* A source. It answers each question once with rota_shards_tell(), at once or later. */
struct rota_shards_source {
    /* The name is borrowed. */
    void (*ask)(void *data, struct rota_shards *shards, uint64_t question,
                const struct rota_shards_name *name);
    /* The answer is no longer needed and would be ignored. May be NULL. */
    void (*forget)(void *data, uint64_t question);
    /* Writes to `error` why no answer has come so far, for callers that timed out; returns false if
     * nothing is wrong. May be NULL. */
    bool (*explain)(void *data, struct rota_error *error);
    /* The last call. May be NULL. */
    void (*close)(void *data);
    void *data;
};

/* Answers with a map, which is copied, or with an error: ROTA_ERR_NOT_FOUND if the collection does
 * not exist, ROTA_ERR_UNAVAILABLE if that cannot be determined now. `error` is NULL if there is a
 * map. */
void rota_shards_tell(struct rota_shards *shards, uint64_t question,
                      const struct rota_shards_map *map, const struct rota_error *error);

/* Replaces the map of a collection that has changed. */
void rota_shards_replace(struct rota_shards *shards, const struct rota_shards_map *map);

/* --- open and close --- */

/* Zero means the default. */
struct rota_shards_options {
    /* The directories, "host:port" each. All have the same content; if one does not answer, the
     * client asks the next. Copied. */
    const char *const *directories;
    size_t n_directories;
    const struct rota_shards_source *source; /* instead of directories; copied */

    struct rota_tls *tls; /* kept; NULL means plaintext */
    bool insecure;        /* allow plaintext to remote hosts */

    enum rota_balancer_policy policy;
    /* Only for the policy look_aside. `cost_expiry`: a node's report is ignored after this; 1 s.
     * `check_every`: every how many choices the scores are compared; 10. `tolerance_ppm`: scores
     * that differ by at most this are equal; 100,000, a tenth. */
    rota_time cost_expiry;
    uint32_t check_every, tolerance_ppm;

    /* A call tries each replica of its shard once for free. Further tries take tokens from a budget
     * that all calls share. Each call adds `budget_ppm` millionths of a token, 200,000; each second
     * adds `budget_per_second`, 3 (negative: none); the budget holds at most `budget_max` tokens,
     * 100. */
    int64_t retries; /* of requests that don't set it; 5, negative means 1 */
    int64_t budget_ppm, budget_per_second, budget_max;
    bool has_no_hedges;  /* never send a second try while the first is in flight */
    rota_time blacklist; /* how long a failing replica is skipped; 30 s, negative: never */

    rota_time ttl;       /* of a map; 60 s */
    int64_t connections; /* per node, at first; 10, negative means 1 */
    /* Every `purge_interval`, 10 min, connections to a node that were unused for `purge_age`, 1 h,
     * are closed, unless a current map says that the node serves a shard. */
    rota_time purge_interval, purge_age;

    rota_time health_interval; /* between health checks of a silent node; 1 s */
    rota_time health_timeout;  /* 3 s */
    /* Consecutive failed checks until a node is unavailable, 3, and until it is dropped, that is
     * checked less and less often, 5. */
    uint32_t health_unavailable, health_dropped;

    struct rota_metrics *metrics; /* kept; NULL means a registry of its own */
    uint64_t seed;                /* for random choices; 0 means from the clock */

    void *reserved[4]; /* must be zero; room for future options */
};

/* Opens a client. Gives `*shards`; close it with rota_shards_close(). The client connects when it
 * needs to. */
enum rota_code rota_shards_open(struct uv_loop_s *loop, const struct rota_shards_options *options,
                                struct rota_shards **shards, struct rota_error *error);

/* Takes `shards`, which may be NULL. Runs are dropped, and no callback is called afterwards. Run
 * the loop once more to free everything. */
void rota_shards_close(struct rota_shards *shards);

/* --- calls to shards --- */

enum rota_shards_mode {
    ROTA_SHARDS_ALL,   /* every shard of the collection, concurrently */
    ROTA_SHARDS_ONE,   /* any one shard */
    ROTA_SHARDS_NAMED, /* the shard `channel` */
};

/* The result of one shard. Borrowed during on_reply. */
struct rota_shards_reply {
    struct rota_str channel;
    enum rota_status status;
    struct rota_str text;    /* the status message; may be empty */
    struct rota_str message; /* the reply, if the status is OK */
    const char *failure;     /* the failure class of docs/calls.md; "none" on success */
    int64_t node;            /* that answered; meaningful if the status is OK */
    uint32_t n_tries;
};

/* The result of all shards: the first failure, if there was one. Borrowed during on_done. */
struct rota_shards_result {
    enum rota_status status;
    struct rota_str text;
    const char *failure;
    size_t n_ok, n_failed; /* shards */
};

struct rota_shards_request {
    struct rota_shards_name name;
    enum rota_shards_mode mode;
    struct rota_str channel; /* for ROTA_SHARDS_NAMED */
    struct rota_str method;  /* "/package.Service/Method" */

    /* The request: the same for each shard, or what on_request returns for a shard. on_request is
     * called for every try, and its bytes must stay valid until the next call. */
    struct rota_str request;
    struct rota_str (*on_request)(void *data, struct rota_str channel);

    rota_time timeout;            /* of the whole run; 0 means none */
    rota_time try_timeout;        /* of one try; 0 means only `timeout` applies */
    rota_time hedge_after;        /* 0 means derived from past latencies; negative: never */
    int64_t work;                 /* relative cost, in a unit common to all requests; 0 means 1 */
    int64_t retries;              /* 0 means as in the options; negative means 1 */
    enum rota_call_repeat repeat; /* which tries may be repeated */
    bool is_partial;              /* a shard that fails does not end the others */
    bool has_preferred;           /* use node `preferred` if it can serve */
    /* One try on node `preferred`, healthy or not, and on no other: for diagnosis. */
    bool is_pinned;
    int64_t preferred;

    void (*on_reply)(void *data, const struct rota_shards_reply *reply); /* may be NULL */
    /* The last callback; required. */
    void (*on_done)(void *data, const struct rota_shards_result *result);
    void *data; /* kept */
};

/* Starts a run; all of `request` is copied. Gives `*run`, unless `run` is NULL; it is valid until
 * on_done or rota_shards_cancel(). */
enum rota_code rota_shards_execute(struct rota_shards *shards,
                                   const struct rota_shards_request *request,
                                   struct rota_shards_run **run, struct rota_error *error);

/* Cancels a run, on the nodes too. Takes `run`; no callback is called afterwards. */
void rota_shards_cancel(struct rota_shards_run *run);

/* --- the map --- */

/* Asks which nodes serve a collection. `is_fresh`: bypass the cache. `is_warmed`: open connections
 * to the nodes. `is_shuffled`: rotate the first replica of each shard with every such query, and
 * shuffle the others; for a program that makes its calls itself and takes the first replica that
 * works. The map is borrowed during on_map; it is NULL if there is none, and `text` says why. */
struct rota_shards_query {
    struct rota_shards_name name;
    bool is_fresh, is_warmed, is_shuffled;
    rota_time timeout; /* 0 means none */
    void (*on_map)(void *data, const struct rota_shards_map *map, struct rota_str text);
    void *data; /* kept */
};
enum rota_code rota_shards_look(struct rota_shards *shards, const struct rota_shards_query *query,
                                struct rota_error *error);

/* Drops maps from the cache, so that the next use fetches them. Unknown names are not errors. */
void rota_shards_deprecate(struct rota_shards *shards, struct rota_str database,
                           struct rota_str collection);
void rota_shards_invalidate(struct rota_shards *shards, const int64_t *ids, size_t n_ids);
void rota_shards_remove_database(struct rota_shards *shards, struct rota_str database);

/* --- introspection --- */

/* A node as this client sees it. The strings are borrowed until the loop runs. */
struct rota_shards_view {
    int64_t node;
    const char *address;
    enum rota_health_state health;
    uint32_t n_failed_checks; /* consecutive */
    size_t n_connections;     /* established */
    /* How the last try or health check failed; "": it succeeded. */
    const char *problem;
    /* The last failure, on the monotonic clock; ROTA_TIME_MIN: never. */
    rota_time failed_at;
    bool has_balance;                  /* the balancer knows the node */
    struct rota_balancer_view balance; /* circuit, tries in flight, score, outcomes */
};

/* Copies the first `size` known nodes into `nodes`, unordered. Returns the number of known
 * nodes. */
size_t rota_shards_nodes(const struct rota_shards *shards, int64_t *nodes, size_t size);

/* Describes a node; false if it is not known. */
bool rota_shards_look_at(const struct rota_shards *shards, int64_t node,
                         struct rota_shards_view *view);

/* All metrics, of its own registry or the given one, in Prometheus text format. Gives a string;
 * free it with free(). NULL if out of memory. */
char *rota_shards_metrics(struct rota_shards *shards);

/* --- for simple programs --- */

struct rota_shards_answer {
    char *channel;
    enum rota_status status;
    char *text;    /* the status message */
    char *message; /* with a final NUL; NULL if the status is not OK */
    size_t size;   /* of the message */
    int64_t node;
};

struct rota_shards_answers {
    enum rota_status status;
    char *text;
    struct rota_shards_answer *items; /* one per shard, in the order of arrival */
    size_t n_items;
};

/* Executes a request and runs the loop until it is done. Of the callbacks in `request` only
 * on_request is used. Gives `answers`, even if the status is not OK; free it with
 * rota_shards_answers_deinit(). ROTA_ERR_INVALID from inside a callback. */
enum rota_code rota_shards_wait(struct rota_shards *shards,
                                const struct rota_shards_request *request,
                                struct rota_shards_answers *answers, struct rota_error *error);
void rota_shards_answers_deinit(struct rota_shards_answers *answers);

#ifdef __cplusplus
}
#endif
