/* gRPC's standard reflection service, for tools such as grpcurl.
 *
 * The service lists the services of the server and serves the .proto files that describe them.
 * Services without a description are not listed. The service is the same under both names,
 * `grpc.reflection.v1.ServerReflection` and the older v1alpha.
 *
 * Close the server before this service. */
#pragma once

#include <rota/error.h>
#include <rota/server.h>

#ifdef __cplusplus
extern "C" {
#endif

struct rota_reflection;

/* Serves reflection on `server`, which is kept, with the FileDescriptorSets `sets`, whose bytes are
 * kept. Rota's own are in "descriptors.h". Gives `*reflection`; close it with
 * rota_reflection_close(). */
enum rota_code rota_reflection_open(struct rota_server *server, const struct rota_str *sets,
                                    size_t n_sets, struct rota_reflection **reflection,
                                    struct rota_error *error);

/* Takes `reflection`, which may be NULL. */
void rota_reflection_close(struct rota_reflection *reflection);

#ifdef __cplusplus
}
#endif
