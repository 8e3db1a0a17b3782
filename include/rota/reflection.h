/* reflection: gRPC's standard reflection service, for tools such as grpcurl.
 *
 * It tells which services the server has, and hands out the .proto files that
 * describe them. Services without a description are not told of. The service
 * is the same under its two names, `grpc.reflection.v1.ServerReflection` and
 * the older v1alpha.
 *
 * Close the server first: then nobody asks any more. */
#pragma once

#include <rota/error.h>
#include <rota/server.h>

#ifdef __cplusplus
extern "C" {
#endif

struct rota_reflection;

/* Serve it on `server`, kept, with the FileDescriptorSets `sets`, whose bytes
 * are kept. Rota's own are in "descriptors.h". Gives `*reflection`;
 * rota_reflection_close() ends it. */
enum rota_code rota_reflection_open(struct rota_server *server, const struct rota_str *sets,
                                    size_t n_sets, struct rota_reflection **reflection,
                                    struct rota_error *error);

/* Takes `reflection`, which may be NULL. */
void rota_reflection_close(struct rota_reflection *reflection);

#ifdef __cplusplus
}
#endif
