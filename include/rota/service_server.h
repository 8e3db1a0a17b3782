/* A service server: a gRPC server for the shards of a space.
 *
 * Processes with a service server of the same space divide its shards among themselves. Each serves
 * the calls to the shards that it owns. Every method is fenced: a call names its shard and the
 * epoch (fencing token) that its client knows the owner by, and only the owner under exactly that
 * epoch serves it. A rejection names the current owner.
 *
 *     on_start --> rota_service_server_started() --> calls --> on_stop
 *
 * This is a server (<rota/server.h>), its claims (<rota/experimental/claims.h>) and a space
 * (<rota/space.h>), put together. The server also serves health checks, and reflection if it has
 * descriptors.
 *
 * Use a service server only on the loop's thread; callbacks come from the loop. */
#pragma once

#include <rota/error.h>
#include <rota/log.h>
#include <rota/metrics.h>
#include <rota/server.h>
#include <rota/space.h>
#include <rota/store.h>
#include <rota/time.h>
#include <rota/tls.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct rota_service_server;
struct uv_loop_s;

enum { ROTA_SERVICE_SERVER_SHARDS = 256 }; /* default of a space that is created */

/* Zero means the default. The strings are copied. */
struct rota_service_server_options {
    const char *space;  /* 1 to 200 letters, digits, '.', '_', '-' */
    const char *listen; /* "host:port"; port 0: any */

    /* How clients and other servers reach this one; unique among live processes. NULL: the address
     * it listens at, which must then not be a wildcard such as 0.0.0.0. */
    const char *address;

    struct rota_store *store; /* kept until on_closed */

    /* If the store has no space of this name, it is created with this engine and these shards;
     * otherwise the store's settings apply. */
    const char *engine; /* NULL means "ring" */
    uint32_t n_shards;  /* 0 means ROTA_SERVICE_SERVER_SHARDS */

    rota_time ttl;         /* a server without heartbeat is dead after this; 0 means 10 s */
    rota_time stop_within; /* as in <rota/space.h> */
    rota_time retry_after; /* as in <rota/space.h> */

    /* Copied. `methods` are fenced; `unfenced` are served to any caller, by any server. */
    const struct rota_server_method *methods, *unfenced;
    size_t n_methods, n_unfenced;

    /* on_start: load the shard, then call rota_service_server_started(), in the callback or later.
     * Until then calls to the shard are rejected without an owner, so that clients wait and try
     * again. NULL: nothing has to be loaded.
     *
     * on_stop: the server rejects new calls already. Let calls in progress finish, write what has
     * to be written, then call rota_service_server_stopped(), in the callback or later, but before
     * `until` (on the clock of rota_space_now(); 0: no time is left). Also called for a shard that
     * is still starting. NULL: the server waits for the calls in progress, at most until `until`.
     */
    void (*on_start)(void *data, uint32_t shard, uint64_t epoch);
    void (*on_stop)(void *data, uint32_t shard, uint64_t epoch, rota_time until);

    struct rota_tls *tls; /* kept; NULL means plaintext */
    bool insecure;        /* allow plaintext on addresses other than loopback */

    /* FileDescriptorSets of the methods, for reflection. The bytes are kept; none: no reflection.
     */
    const struct rota_str *descriptors;
    size_t n_descriptors;

    struct rota_metrics *metrics; /* kept; NULL means none */
    const struct rota_log *log;   /* kept; NULL means none */
    void *data;                   /* kept; given to on_start and on_stop */

    void *reserved[4]; /* must be zero; room for future options */
};

/* Listens, joins the space and serves. Gives `*server`; end it with rota_service_server_close(). An
 * unreachable database is not an error: the server joins later. */
enum rota_code rota_service_server_open(struct uv_loop_s *loop,
                                        const struct rota_service_server_options *options,
                                        struct rota_service_server **server,
                                        struct rota_error *error);

/* Hands over all shards, leaves the space, lets calls in progress finish, and closes. Takes
 * `server`, which may be NULL. Every shard gets its on_stop. on_closed, which may be NULL, is
 * called from the loop when the store may be closed. */
void rota_service_server_close(struct rota_service_server *server, void (*on_closed)(void *data),
                               void *data);

/* The replies to on_start and on_stop. A start with a `problem`, one sentence, has failed: the
 * shard goes to another server, `rota shard explain` shows the sentence, and this server is tried
 * again later; see rota_space_refuse(). A `problem` of NULL means that the shard is loaded.
 * Unexpected replies are ignored. */
void rota_service_server_started(struct rota_service_server *server, uint32_t shard, uint64_t epoch,
                                 const char *problem);
void rota_service_server_stopped(struct rota_service_server *server, uint32_t shard,
                                 uint64_t epoch);

/* The shard and the epoch of a call of a fenced method; false for any other. */
bool rota_service_server_shard(const struct rota_service_server *server,
                               struct rota_server_call *call, uint32_t *shard, uint64_t *epoch);

/* Whether this process still owns the shard of the call, now: reads the clock at each call. Check
 * it right before each effect. While a shard stops, calls in progress may still act, until the time
 * that on_stop gave. If it is false, end the call with rota_server_call_refuse(). */
bool rota_service_server_is_current(const struct rota_service_server *server,
                                    struct rota_server_call *call);

/* The address that others use; the space, to observe it; the gRPC server, to add methods. Borrowed.
 */
const char *rota_service_server_address(const struct rota_service_server *server);
struct rota_space *rota_service_server_space(const struct rota_service_server *server);
struct rota_server *rota_service_server_grpc(const struct rota_service_server *server);

#ifdef __cplusplus
}
#endif
