/* standard_message: the messages of gRPC's own services, health and reflection, as structs:
 * proto/grpc/health/v1/health.proto and proto/grpc/reflection/v1/reflection.proto.
 *
 * Each has a type, ROTA_STANDARD_..., for rota_message_encode() and rota_message_decode(). */
#pragma once

#include "wire/message/message.h"

enum rota_standard_health {
    ROTA_STANDARD_UNKNOWN,
    ROTA_STANDARD_SERVING,
    ROTA_STANDARD_NOT_SERVING,
    ROTA_STANDARD_SERVICE_UNKNOWN, /* only in Watch */
};

struct rota_standard_health_request {
    struct rota_str service;
};

struct rota_standard_health_response {
    uint64_t status; /* enum rota_standard_health, or a later one */
};

/* Whether a response, as bytes, says SERVING. */
bool rota_standard_message_is_serving(struct rota_str response);

/* One of the questions is given: its `data` is not NULL, though it may be empty. */
struct rota_standard_question {
    struct rota_str host;
    struct rota_str file_by_filename, file_containing_symbol;
    struct rota_str file_containing_extension; /* an ExtensionRequest, as bytes */
    struct rota_str all_extension_numbers_of_type, list_services;
};

struct rota_standard_files {
    struct rota_message_strs file_descriptor_proto;
};

struct rota_standard_extensions {
    struct rota_str base_type_name; /* there are no numbers in ours */
};

struct rota_standard_service {
    struct rota_str name;
};

struct rota_standard_services {
    struct rota_message_list service; /* of struct rota_standard_service */
};

struct rota_standard_error {
    int64_t error_code;
    struct rota_str error_message;
};

struct rota_standard_answer {
    struct rota_str valid_host;
    struct rota_str original_request; /* as bytes */

    /* One of these; the others are NULL. */
    const void *file_descriptor_response;       /* struct rota_standard_files */
    const void *all_extension_numbers_response; /* struct rota_standard_extensions */
    const void *list_services_response;         /* struct rota_standard_services */
    const void *error_response;                 /* struct rota_standard_error */
};

extern const struct rota_message_type ROTA_STANDARD_HEALTH_REQUEST, ROTA_STANDARD_HEALTH_RESPONSE,
    ROTA_STANDARD_REFLECTION_REQUEST, ROTA_STANDARD_REFLECTION_RESPONSE;
