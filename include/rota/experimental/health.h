/* gRPC's standard health service, `grpc.health.v1.Health`.
 *
 * Each service has a status by its name; the empty name is the server as a whole. Check returns the
 * status. Watch sends it now and after each change; a slow watcher gets only the latest.
 *
 * Close the server before this service. */
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

/* Serves health checks on `server`, which is kept. Gives `*health`; close it with
 * rota_health_close(). The server as a whole is serving until you set another status. */
enum rota_code rota_health_open(struct rota_server *server, struct rota_health **health,
                                struct rota_error *error);

/* Takes `health`, which may be NULL. */
void rota_health_close(struct rota_health *health);

/* Sets the status of `service` and notifies its watchers of a change. */
enum rota_code rota_health_set(struct rota_health *health, const char *service, bool is_serving,
                               struct rota_error *error);

#ifdef __cplusplus
}
#endif
