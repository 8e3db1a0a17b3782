/* health: gRPC's standard health service, `grpc.health.v1.Health`.
 *
 * Each service has a status by its name; the empty name is the server as a
 * whole. Check tells it, Watch tells it now and whenever it changes, the latest
 * one if the watcher is slow.
 *
 * Close the server first: then nobody watches any more. */
#pragma once

#include <rota/error.h>
#include <rota/server.h>

#ifdef __cplusplus
extern "C" {
#endif

struct rota_health;

enum {
    ROTA_HEALTH_SERVICES_MAX = 1024,
    ROTA_HEALTH_NAME_MAX = 256,
    ROTA_HEALTH_WATCHERS_MAX = 1024,
};

/* Serve it on `server`, kept. Gives `*health`; rota_health_close() ends it. The
 * server as a whole is serving, until told otherwise. */
enum rota_code rota_health_open(struct rota_server *server, struct rota_health **health,
                                struct rota_error *error);

/* Takes `health`, which may be NULL. */
void rota_health_close(struct rota_health *health);

/* Tell the status of `service`; all watchers of it hear of a change. */
enum rota_code rota_health_set(struct rota_health *health, const char *service, bool is_serving,
                               struct rota_error *error);

#ifdef __cplusplus
}
#endif
