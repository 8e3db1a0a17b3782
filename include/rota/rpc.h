/* What gRPC clients and servers share: status codes, repeats and metadata. */
#pragma once

#include <rota/str.h>
#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* gRPC's status codes; the numbers are those on the wire. */
enum rota_status {
    ROTA_STATUS_OK = 0,
    ROTA_STATUS_CANCELLED = 1,
    ROTA_STATUS_UNKNOWN = 2,
    ROTA_STATUS_INVALID_ARGUMENT = 3,
    ROTA_STATUS_DEADLINE_EXCEEDED = 4,
    ROTA_STATUS_NOT_FOUND = 5,
    ROTA_STATUS_ALREADY_EXISTS = 6,
    ROTA_STATUS_PERMISSION_DENIED = 7,
    ROTA_STATUS_RESOURCE_EXHAUSTED = 8,
    ROTA_STATUS_FAILED_PRECONDITION = 9,
    ROTA_STATUS_ABORTED = 10,
    ROTA_STATUS_OUT_OF_RANGE = 11,
    ROTA_STATUS_UNIMPLEMENTED = 12,
    ROTA_STATUS_INTERNAL = 13,
    ROTA_STATUS_UNAVAILABLE = 14,
    ROTA_STATUS_DATA_LOSS = 15,
    ROTA_STATUS_UNAUTHENTICATED = 16,
};

/* The name as gRPC writes it, "NOT_FOUND". Any thread. */
const char *rota_status_name(enum rota_status status);

/* Which tries of a call may be repeated after bytes of it were sent. */
enum rota_call_repeat {
    ROTA_REPEAT_UNSENT,  /* none: for calls that must not happen twice */
    ROTA_REPEAT_REFUSED, /* those that a node rejected without acting on them */
    ROTA_REPEAT_ANY,     /* all: the call is idempotent. Only these are hedged */
};

/* A pair of metadata. Names consist of a-z 0-9 _ - . and do not begin with "grpc-"; a value is
 * printable ASCII, or any bytes if the name ends in "-bin". A name may occur more than once. */
struct rota_metadata {
    struct rota_str name, value;
};

/* The first value of `name`; false if there is none. */
static inline bool rota_metadata_get(const struct rota_metadata *pairs, size_t n, const char *name,
                                     struct rota_str *value)
{
    for (size_t i = 0; i < n; i++)
        if (rota_str_is_equal(pairs[i].name, rota_str(name))) {
            *value = pairs[i].value;
            return true;
        }
    return false;
}

#ifdef __cplusplus
}
#endif
