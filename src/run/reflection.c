#include <rota/reflection.h>

#include "wire/descriptor.h"

#include "reflection.pb-c.h"

#include <stdlib.h>
#include <string.h>

struct rota_reflection {
    struct rota_server *server;
    struct rota_descriptors descriptors;
};

typedef Grpc__Reflection__V1__ServerReflectionRequest request_message;
typedef Grpc__Reflection__V1__ServerReflectionResponse response_message;

#define REQUEST(name)  GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_##name
#define RESPONSE(name) GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__MESSAGE_RESPONSE_##name

/* --- answers --- */

static bool send_response(struct rota_server_call *call, request_message *request,
                          response_message *response)
{
    response->valid_host = request->host;
    response->original_request = request;
    size_t size = grpc__reflection__v1__server_reflection_response__get_packed_size(response);
    uint8_t *bytes = malloc(size + 1);
    if (!bytes)
        return false;
    grpc__reflection__v1__server_reflection_response__pack(response, bytes);
    enum rota_code code = rota_server_call_send(call, rota_str_of(bytes, size));
    free(bytes);
    return code == ROTA_OK || code == ROTA_ERR_UNAVAILABLE; /* whose on_cancel is on the way */
}

static bool send_error(struct rota_server_call *call, request_message *request,
                       enum rota_status status, const char *text)
{
    Grpc__Reflection__V1__ErrorResponse error = GRPC__REFLECTION__V1__ERROR_RESPONSE__INIT;
    response_message response = GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__INIT;
    error.error_code = (int32_t)status;
    error.error_message = (char *)text;
    response.message_response_case = RESPONSE(ERROR_RESPONSE);
    response.error_response = &error;
    return send_response(call, request, &response);
}

static bool send_file(struct rota_server_call *call, request_message *request,
                      const struct rota_descriptor_file *file)
{
    Grpc__Reflection__V1__FileDescriptorResponse files =
        GRPC__REFLECTION__V1__FILE_DESCRIPTOR_RESPONSE__INIT;
    response_message response = GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__INIT;
    if (!file)
        return send_error(call, request, ROTA_STATUS_NOT_FOUND, "no such file or symbol here");
    ProtobufCBinaryData bytes = {file->bytes.size, (uint8_t *)file->bytes.data};
    files.n_file_descriptor_proto = 1;
    files.file_descriptor_proto = &bytes;
    response.message_response_case = RESPONSE(FILE_DESCRIPTOR_RESPONSE);
    response.file_descriptor_response = &files;
    return send_response(call, request, &response);
}

static bool send_services(struct rota_reflection *reflection, struct rota_server_call *call,
                          request_message *request)
{
    Grpc__Reflection__V1__ListServiceResponse list =
        GRPC__REFLECTION__V1__LIST_SERVICE_RESPONSE__INIT;
    response_message response = GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__INIT;
    size_t n = reflection->descriptors.symbols.size;
    Grpc__Reflection__V1__ServiceResponse *services = calloc(n + 1, sizeof *services);
    Grpc__Reflection__V1__ServiceResponse **places = calloc(n + 1, sizeof *places);
    bool is_sent = false;
    if (services && places) {
        for (size_t i = 0; i < n; i++) {
            struct rota_descriptor_symbol *symbol = reflection->descriptors.symbols.items[i];
            if (!symbol->is_service ||
                !rota_server_has_service(reflection->server, rota_str(symbol->name)))
                continue;
            size_t at = list.n_service++;
            grpc__reflection__v1__service_response__init(&services[at]);
            services[at].name = symbol->name;
            places[at] = &services[at];
        }
        list.service = places;
        response.message_response_case = RESPONSE(LIST_SERVICES_RESPONSE);
        response.list_services_response = &list;
        is_sent = send_response(call, request, &response);
    }
    free(services);
    free(places);
    return is_sent;
}

/* No extension is known, to messages that are. */
static bool send_extensions(struct rota_reflection *reflection, struct rota_server_call *call,
                            request_message *request)
{
    Grpc__Reflection__V1__ExtensionNumberResponse numbers =
        GRPC__REFLECTION__V1__EXTENSION_NUMBER_RESPONSE__INIT;
    response_message response = GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__INIT;
    numbers.base_type_name = request->all_extension_numbers_of_type;
    if (!rota_descriptors_file_of(&reflection->descriptors, rota_str(numbers.base_type_name)))
        return send_error(call, request, ROTA_STATUS_NOT_FOUND, "no such type here");
    response.message_response_case = RESPONSE(ALL_EXTENSION_NUMBERS_RESPONSE);
    response.all_extension_numbers_response = &numbers;
    return send_response(call, request, &response);
}

static bool answer(struct rota_reflection *reflection, struct rota_server_call *call,
                   request_message *request)
{
    const struct rota_descriptors *descriptors = &reflection->descriptors;
    switch (request->message_request_case) {
    case REQUEST(FILE_BY_FILENAME):
        return send_file(call, request,
                         rota_descriptors_file(descriptors, rota_str(request->file_by_filename)));
    case REQUEST(FILE_CONTAINING_SYMBOL):
        return send_file(
            call, request,
            rota_descriptors_file_of(descriptors, rota_str(request->file_containing_symbol)));
    case REQUEST(FILE_CONTAINING_EXTENSION):
        return send_error(call, request, ROTA_STATUS_NOT_FOUND, "no such extension here");
    case REQUEST(ALL_EXTENSION_NUMBERS_OF_TYPE):
        return send_extensions(reflection, call, request);
    case REQUEST(LIST_SERVICES):
        return send_services(reflection, call, request);
    case REQUEST(_NOT_SET):
    case _GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST__CASE_IS_INT_SIZE:
        break;
    }
    return send_error(call, request, ROTA_STATUS_INVALID_ARGUMENT, "nothing that we know of asked");
}

/* --- calls --- */

static void on_call(void *data, struct rota_server_call *call)
{
    (void)data;
    (void)call; /* the requests follow */
}

static void on_message(void *data, struct rota_server_call *call, struct rota_str message)
{
    request_message *request = grpc__reflection__v1__server_reflection_request__unpack(
        NULL, message.size, (const uint8_t *)message.data);
    if (!request) {
        rota_server_call_finish(call, ROTA_STATUS_INVALID_ARGUMENT, "the request is malformed",
                                NULL, 0);
        return;
    }
    bool is_sent = answer(data, call, request);
    grpc__reflection__v1__server_reflection_request__free_unpacked(request, NULL);
    if (!is_sent)
        rota_server_call_finish(call, ROTA_STATUS_RESOURCE_EXHAUSTED,
                                "the client does not take its responses", NULL, 0);
}

static void on_requests_end(void *data, struct rota_server_call *call)
{
    (void)data;
    rota_server_call_finish(call, ROTA_STATUS_OK, NULL, NULL, 0);
}

static void on_cancel(void *data, struct rota_server_call *call)
{
    (void)data;
    rota_server_call_finish(call, ROTA_STATUS_CANCELLED, NULL, NULL, 0);
}

/* --- life --- */

enum rota_code rota_reflection_open(struct rota_server *server, const struct rota_str *sets,
                                    size_t n_sets, struct rota_reflection **result,
                                    struct rota_error *error)
{
    static const char *const paths[] = {
        "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
        "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
    };
    struct rota_reflection *reflection = calloc(1, sizeof *reflection);
    if (!reflection)
        return rota_error_set(error, ROTA_ERR_NO_MEMORY, "reflection");
    reflection->server = server;
    rota_descriptors_init(&reflection->descriptors);
    enum rota_code code = ROTA_OK;
    for (size_t i = 0; i < n_sets && !code; i++)
        if ((code = rota_descriptors_add(&reflection->descriptors, sets[i])))
            rota_error_set(error, code, "reflection: descriptor set %zu is malformed or too large",
                           i);
    for (size_t i = 0; i < sizeof paths / sizeof *paths && !code; i++) {
        struct rota_server_method method = {
            .path = paths[i],
            .on_call = on_call,
            .on_message = on_message,
            .on_requests_end = on_requests_end,
            .on_cancel = on_cancel,
            .data = reflection,
            .is_urgent = true,
        };
        code = rota_server_add(server, &method, error);
    }
    if (code) {
        rota_reflection_close(reflection);
        return code;
    }
    *result = reflection;
    return ROTA_OK;
}

void rota_reflection_close(struct rota_reflection *reflection)
{
    if (!reflection)
        return;
    rota_descriptors_deinit(&reflection->descriptors);
    free(reflection);
}
