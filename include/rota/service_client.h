/* A client of a service that is divided into shards: servers own the shards of a space
 * (<rota/space.h>), and the client calls the owner.
 *
 * A client knows nodes of the cluster and no database: it gets the map of a space from the service
 * rota.v1.Directory of any of them, finds the shard of a key, calls its owner with the shard and
 * its epoch (fencing token), and follows when the shard moves, until the deadline of the call. The
 * server (<rota/server.h> with claims) rejects a call that was routed by another epoch than its own
 * before a handler sees it.
 *
 *     client --key--> shard --map--> owner, epoch --call--> server: held under this epoch?
 *        ^                                                    | yes: handler    | no
 *        +------------------------ the current claim ---------|-----------------+
 *
 * docs/services.md has the protocol, for clients without this library. Use a client only on the
 * loop's thread. */
#pragma once

#include <rota/error.h>
#include <rota/rpc.h>
#include <rota/str.h>
#include <rota/time.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct rota_metrics;
struct rota_service_call;
struct rota_service_client;
struct rota_tls;
struct uv_loop_s;

enum {
    ROTA_SERVICE_NODES_MAX = 16,    /* addresses of nodes that a client is given */
    ROTA_SERVICE_SPACES_MAX = 256,  /* spaces that a client follows at the same time */
    ROTA_SERVICE_CALLS_MAX = 65536, /* not ended, of a client */
    ROTA_SERVICE_METADATA_MAX = 32, /* pairs of a call's own */
    ROTA_SERVICE_NAME_MAX = 200,    /* bytes of the name of a space */
};

/* The shard of a key in a space of `n_shards`: the upper 32 bits of XXH64 of its bytes with seed 0,
 * times n_shards, divided by 2^32. The same in every language. Any thread. */
uint32_t rota_service_shard_of(struct rota_str key, uint32_t n_shards);

/* Zero means the default. */
struct rota_service_client_options {
    /* Nodes of the cluster, "host:port" each; any one that answers is enough. Copied. */
    const char *const *nodes;
    size_t n_nodes;
    struct rota_tls *tls; /* kept; NULL means plaintext */
    bool insecure;        /* allow plaintext to remote hosts */
    const char *zone;     /* where shards have an owner in each zone: prefer this one; copied */

    const char *token; /* sent to the nodes as "Bearer TOKEN"; kept; NULL means none */

    int64_t retries;              /* of calls that don't set it; 5, negative means 1 */
    struct rota_metrics *metrics; /* kept; NULL means a registry of its own */
    uint64_t seed;                /* for random choices; 0 means from the clock */

    void *reserved[4]; /* must be zero; room for future options */
};

/* Opens a client. Gives `*client`; close it with rota_service_client_close(). It connects when it
 * needs to. Use it only on the loop's thread. */
enum rota_code rota_service_client_open(struct uv_loop_s *loop,
                                        const struct rota_service_client_options *options,
                                        struct rota_service_client **client,
                                        struct rota_error *error);

/* Takes `client`, which may be NULL. Calls are dropped, and no callback is called afterwards. Run
 * the loop once more to free everything. */
void rota_service_client_close(struct rota_service_client *client);

/* The result of a call. Borrowed during on_reply. */
struct rota_service_reply {
    enum rota_status status;
    struct rota_str text;    /* the status message; may be empty */
    struct rota_str message; /* the reply, if the status is OK */
    const char *failure;     /* the failure class of docs/calls.md; "none" on success */
    uint32_t shard;          /* of the key; UINT32_MAX if the space is unknown */
    uint64_t epoch;          /* of the last try; 0: there was none */
    struct rota_str node;    /* the server that answered or failed last; empty: none */
    uint32_t n_tries;
    bool may_have_run; /* false: no server has acted on it; it is safe to repeat */
};

struct rota_service_request {
    struct rota_str space;
    struct rota_str key; /* its shard is called, unless `has_shard` */
    bool has_shard;
    uint32_t shard;
    struct rota_str method; /* "/package.Service/Method" */
    struct rota_str request;
    const struct rota_metadata *metadata;
    size_t n_metadata;

    rota_time timeout;     /* of the whole call, also while the shard moves; 0 means 10 s */
    rota_time try_timeout; /* of one try; 0 means only `timeout` applies */
    rota_time hedge_after; /* only with replicas: 0 means derived; negative: never */
    int64_t retries;       /* 0 means as in the options; negative means 1 */
    /* Which tries may be repeated after bytes of them were sent. A rejection by epoch always is:
     * no handler has seen the call. */
    enum rota_call_repeat repeat;

    void (*on_reply)(void *data, const struct rota_service_reply *reply); /* required, once */
    void *data;                                                           /* kept */

    void *reserved[4]; /* must be zero; room for future options */
};

/* Starts a call; all of `request` is copied. Gives `*call`, unless `call` is NULL; it is valid
 * until on_reply or rota_service_call_cancel(). on_reply comes from the loop, never from inside
 * this. */
enum rota_code rota_service_client_call(struct rota_service_client *client,
                                        const struct rota_service_request *request,
                                        struct rota_service_call **call, struct rota_error *error);

/* Cancels a call, on the server too. Takes `call`; on_reply is not called. */
void rota_service_call_cancel(struct rota_service_call *call);

/* For simple programs: makes a call and runs the loop until it has ended; on_reply is not used.
 * Gives `answer`, even if the status is not OK; free it with rota_service_answer_deinit().
 * ROTA_ERR_INVALID from inside a callback. */
struct rota_service_answer {
    enum rota_status status;
    char *text;    /* the status message */
    char *message; /* with a final NUL; NULL if the status is not OK */
    size_t size;   /* of the message */
    char *node;    /* as in rota_service_reply */
    uint32_t shard, n_tries;
    uint64_t epoch;
    bool may_have_run;
};
enum rota_code rota_service_client_wait(struct rota_service_client *client,
                                        const struct rota_service_request *request,
                                        struct rota_service_answer *answer,
                                        struct rota_error *error);
void rota_service_answer_deinit(struct rota_service_answer *answer);

/* Follows a space before the first call, so that the call does not have to wait for the map. */
enum rota_code rota_service_client_follow(struct rota_service_client *client, struct rota_str space,
                                          struct rota_error *error);

/* What the client knows of a shard. */
struct rota_service_view {
    uint32_t n_shards;
    struct rota_str engine; /* of the space */
    struct rota_str owner;  /* the address to call; empty: none now. Borrowed, like the engine,
                               until the loop runs */
    uint64_t epoch;         /* of the owner */
    bool is_moving;         /* the shard waits for its former owner to stop */
};

/* Looks at a shard; never waits. False if the map of the space is not known yet, or has no such
 * shard. */
bool rota_service_client_look(struct rota_service_client *client, struct rota_str space,
                              uint32_t shard, struct rota_service_view *view);

#ifdef __cplusplus
}
#endif
