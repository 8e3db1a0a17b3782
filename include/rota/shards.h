/* Shards: calls to a service that is spread over shards, each with replicas.
 *
 * A program says what it wants done and on which collection; who serves its
 * shards, which replica is asked, when another one is and when a second one
 * besides, and what is learnt from every answer is done here. docs/calls.md tells
 * how. The map of the shards comes from a directory, the gRPC service
 * rota.v1.Directory, or from any source that can answer a question.
 *
 * All of it lives on the loop's thread. Callbacks come from the loop, never from
 * inside a function of this header, and may use any function here but the one that
 * waits. Only on_request and a source may be called at any time; the former may use
 * none of these functions, the latter those that are for sources. */
#pragma once

#include <rota/balancer.h>
#include <rota/error.h>
#include <rota/rpc.h>
#include <rota/shard.h>
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
    ROTA_SHARDS_RUNS_MAX = 65536,   /* not ended; one more is refused with ROTA_ERR_LIMIT */
    ROTA_SHARDS_WATCHES_MAX = 1024, /* collections whose changes are heard at once; others
                                     * are asked for as their map grows old */
};

/* --- where the maps come from --- */

/* Which collection is meant: by id, or by name when that is 0. */
struct rota_shards_name {
    struct rota_str database, collection;
    int64_t id;
};

struct rota_shards_map {
    int64_t id; /* of the collection; never 0 */
    const struct rota_shard_channel *channels;
    size_t n_channels;
};

/* A source: it is asked, and answers each question once with
 * rota_shards_tell(), at once or later. */
struct rota_shards_source {
    /* The name is borrowed. */
    void (*ask)(void *data, struct rota_shards *shards, uint64_t question,
                const struct rota_shards_name *name);
    /* The answer is not wanted any more; one that comes does nothing. May be NULL. */
    void (*forget)(void *data, uint64_t question);
    /* Why no answer has come so far, for whoever waited in vain, into `error`; false
     * when nothing is wrong. May be NULL. */
    bool (*explain)(void *data, struct rota_error *error);
    /* The last call. May be NULL. */
    void (*close)(void *data);
    void *data;
};

/* Answer with a map, copied, or with an error: ROTA_ERR_NOT_FOUND when there is
 * no such collection, ROTA_ERR_UNAVAILABLE when it can't be found out now. `error`
 * is NULL when there is a map. */
void rota_shards_tell(struct rota_shards *shards, uint64_t question,
                      const struct rota_shards_map *map, const struct rota_error *error);

/* A collection has changed: put the new map in place of the one that is known. */
void rota_shards_replace(struct rota_shards *shards, const struct rota_shards_map *map);

/* --- life --- */

/* Zero means the default. */
struct rota_shards_options {
    /* The directories, "host:port" each: all know the same, the next one is asked
     * when one does not answer. Copied. */
    const char *const *directories;
    size_t n_directories;
    const struct rota_shards_source *source; /* instead of directories; copied */

    struct rota_tls *tls; /* kept; NULL means plain text */
    bool insecure;        /* plain text to other machines too */

    enum rota_balancer_policy policy;
    /* Of the policy look_aside alone: a node's report is no longer used after `cost_expiry`, 1 s;
     * every `check_every`th choice looks at the scores, 10; scores that differ by no more than
     * `tolerance_ppm` are equal, 100,000: a tenth. */
    rota_time cost_expiry;
    uint32_t check_every, tolerance_ppm;

    /* A call tries each replica of its shard once for free. To try them again it takes tokens from
     * a budget that all calls share: each call brings `budget_ppm` millionths of a token, 200,000,
     * each second `budget_per_second`, 3 (negative: none), and at most `budget_max` are kept, 100.
     */
    int64_t retries; /* of requests that do not say; 5, negative means 1 */
    int64_t budget_ppm, budget_per_second, budget_max;
    bool has_no_hedges;  /* never a second try beside the first */
    rota_time blacklist; /* how long a broken replica is left out; 30 s, negative: not */

    rota_time ttl;       /* of a map; 60 s */
    int64_t connections; /* of a node, at first; 10, negative means 1 */
    /* Every `purge_interval`, 10 min, connections to a node that were not used for `purge_age`, 1
     * h, are closed, unless a map at hand says that the node serves a shard. */
    rota_time purge_interval, purge_age;

    rota_time health_interval; /* between two questions to a silent node; 1 s */
    rota_time health_timeout;  /* 3 s */
    /* Failed checks in a row after which a node is unavailable, 3, and given up, 5: asked less and
     * less often. */
    uint32_t health_unavailable, health_dropped;

    struct rota_metrics *metrics; /* kept; NULL means its own */
    uint64_t seed;                /* of chance; 0 means from the clock */
};

/* Gives `*shards`; rota_shards_close() ends it. Nothing is connected before it is
 * needed. */
enum rota_code rota_shards_open(struct uv_loop_s *loop, const struct rota_shards_options *options,
                                struct rota_shards **shards, struct rota_error *error);

/* Takes `shards`, which may be NULL. What runs is dropped; no callback comes
 * after. The loop has to run once more to free everything. */
void rota_shards_close(struct rota_shards *shards);

/* --- running something on shards --- */

enum rota_shards_mode {
    ROTA_SHARDS_ALL,   /* each shard of the collection, side by side */
    ROTA_SHARDS_ONE,   /* any one */
    ROTA_SHARDS_NAMED, /* the one with the name `channel` */
};

/* How it ended on one shard. Borrowed during on_reply. */
struct rota_shards_reply {
    struct rota_str channel;
    enum rota_status status;
    struct rota_str text;    /* what the status says; may be empty */
    struct rota_str message; /* the reply, when the status is OK */
    const char *failure;     /* the class of docs/calls.md, "none" when all went well */
    int64_t node;            /* who answered; meaningful when the status is OK */
    uint32_t n_tries;
};

/* How all of it ended: with the first failure, when there was one. Borrowed
 * during on_done. */
struct rota_shards_result {
    enum rota_status status;
    struct rota_str text;
    const char *failure;
    size_t n_ok, n_failed; /* shards */
};

struct rota_shards_request {
    struct rota_shards_name name;
    enum rota_shards_mode mode;
    struct rota_str channel; /* of ROTA_SHARDS_NAMED */
    struct rota_str method;  /* "/package.Service/Method" */

    /* What is sent: the same to each shard, or what on_request gives for one; it
     * is asked for every try, and its bytes stay until it is asked again. */
    struct rota_str request;
    struct rota_str (*on_request)(void *data, struct rota_str channel);

    rota_time timeout;            /* of all of it; 0 means none */
    rota_time try_timeout;        /* of one try; 0 means none but the above */
    rota_time hedge_after;        /* 0 means as it is usual; negative: never */
    int64_t work;                 /* how much it is, as all requests count it; 0 means 1 */
    int64_t retries;              /* 0 means as the options say, negative means 1 */
    enum rota_call_repeat repeat; /* what may be done twice */
    bool is_partial;              /* a shard that fails does not end the others */
    bool has_preferred;           /* take node `preferred` if it can serve */
    bool is_pinned;               /* one try on node `preferred`, well or not, and on nobody
                                   * else: to find out about a node rather than to be served */
    int64_t preferred;

    void (*on_reply)(void *data, const struct rota_shards_reply *reply);  /* may be NULL */
    void (*on_done)(void *data, const struct rota_shards_result *result); /* the last one; needed */
    void *data;                                                           /* kept */
};

/* Start it; all of `request` is copied. Gives `*run`, which may be NULL if it is
 * not wanted; it is gone after on_done or rota_shards_cancel(). */
enum rota_code rota_shards_execute(struct rota_shards *shards,
                                   const struct rota_shards_request *request,
                                   struct rota_shards_run **run, struct rota_error *error);

/* Drop it, on the nodes too. Takes `run`; no callback comes after. */
void rota_shards_cancel(struct rota_shards_run *run);

/* --- the map --- */

/* Ask who serves a collection. `is_fresh`: past the cache. `is_warmed`: and open
 * connections to them. `is_shuffled`: another replica of each shard is the first
 * with every such look, in turn, and the others are in any order; for a program
 * that makes its calls itself, and takes the first that works. The map is borrowed during on_map;
 * it is NULL when there is none, and then `text` says why. */
struct rota_shards_query {
    struct rota_shards_name name;
    bool is_fresh, is_warmed, is_shuffled;
    rota_time timeout; /* 0 means none */
    void (*on_map)(void *data, const struct rota_shards_map *map, struct rota_str text);
    void *data; /* kept */
};
enum rota_code rota_shards_look(struct rota_shards *shards, const struct rota_shards_query *query,
                                struct rota_error *error);

/* Forget maps: the next who needs one asks. What is not known is no error. */
void rota_shards_deprecate(struct rota_shards *shards, struct rota_str database,
                           struct rota_str collection);
void rota_shards_invalidate(struct rota_shards *shards, const int64_t *ids, size_t n_ids);
void rota_shards_remove_database(struct rota_shards *shards, struct rota_str database);

/* --- looking inside --- */

/* A node as this client knows it. Its strings are borrowed until the loop runs on. */
struct rota_shards_view {
    int64_t node;
    const char *address;
    enum rota_health_state health;
    uint32_t n_failed_checks;          /* of its health, in a row */
    size_t n_connections;              /* that stand */
    const char *problem;               /* what the last try or health check met, if it failed;
                                        * "": it was answered */
    rota_time failed_at;               /* when one last failed, on the monotonic clock;
                                        * ROTA_TIME_MIN: never */
    bool has_balance;                  /* the balancer has met it */
    struct rota_balancer_view balance; /* circuit, tries in flight, score, outcomes */
};

/* The nodes that there is something to tell of, the first `size` of them into
 * `nodes`, in no useful order. Returns how many there are. */
size_t rota_shards_nodes(const struct rota_shards *shards, int64_t *nodes, size_t size);

/* What is known of a node; false when nothing is. */
bool rota_shards_look_at(const struct rota_shards *shards, int64_t node,
                         struct rota_shards_view *view);

/* All metrics, those of its own registry or of the one given, as Prometheus'
 * text. Gives a text that free() ends; NULL when there is no memory. */
char *rota_shards_metrics(struct rota_shards *shards);

/* --- for simple programs --- */

struct rota_shards_answer {
    char *channel;
    enum rota_status status;
    char *text;    /* what the status says */
    char *message; /* with a NUL behind it; NULL when the status is not OK */
    size_t size;   /* of the message */
    int64_t node;
};

struct rota_shards_answers {
    enum rota_status status;
    char *text;
    struct rota_shards_answer *items; /* one of each shard, as they came */
    size_t n_items;
};

/* Execute and run the loop until it is done; the callbacks of `request` other
 * than on_request are not used. Gives `answers`, also when the status is not OK;
 * rota_shards_answers_deinit() ends it. ROTA_ERR_INVALID from inside a callback. */
enum rota_code rota_shards_wait(struct rota_shards *shards,
                                const struct rota_shards_request *request,
                                struct rota_shards_answers *answers, struct rota_error *error);
void rota_shards_answers_deinit(struct rota_shards_answers *answers);

#ifdef __cplusplus
}
#endif
