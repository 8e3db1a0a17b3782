#include <rota/experimental/reflection.h>

#include "wire/grpc/descriptor.h"
#include "wire/message/standard_message.h"

#include <stdlib.h>

struct rota_reflection {
    struct rota_server *server;
    struct rota_descriptors descriptors;
};

/* A request, and how it is answered. */
struct question {
    struct rota_reflection *reflection;
    struct rota_server_call *call;
    struct rota_str bytes;
    struct rota_standard_question asks;
};

/* --- answers --- */

static bool send_answer(const struct question *question, struct rota_standard_answer answer)
{
    struct rota_buffer bytes = {0};
    answer.valid_host = question->asks.host;
    answer.original_request = question->bytes;
    rota_message_encode(&ROTA_STANDARD_REFLECTION_RESPONSE, &answer, &bytes);
    enum rota_code code = bytes.failed
                              ? ROTA_ERR_NO_MEMORY
                              : rota_server_call_send(question->call, rota_buffer_str(&bytes));
    rota_buffer_deinit(&bytes);
    return code == ROTA_OK || code == ROTA_ERR_UNAVAILABLE; /* whose on_cancel follows */
}

static bool send_error(const struct question *question, enum rota_status status, const char *text)
{
    const struct rota_standard_error error = {status, rota_str(text)};
    return send_answer(question, (struct rota_standard_answer){.error_response = &error});
}

static bool send_file(const struct question *question, const struct rota_descriptor_file *file)
{
    if (!file)
        return send_error(question, ROTA_STATUS_NOT_FOUND, "no such file or symbol here");
    const struct rota_standard_files files = {{&file->bytes, 1}};
    return send_answer(question, (struct rota_standard_answer){.file_descriptor_response = &files});
}

static bool send_services(const struct question *question)
{
    const struct rota_descriptors *descriptors = &question->reflection->descriptors;
    struct rota_standard_service *names = calloc(descriptors->symbols.size + 1, sizeof *names);
    size_t n = 0;
    if (!names)
        return false;
    for (size_t i = 0; i < descriptors->symbols.size; i++) {
        const struct rota_descriptor_symbol *symbol = descriptors->symbols.items[i];
        struct rota_str name = rota_str(symbol->name);
        if (symbol->is_service && rota_server_has_service(question->reflection->server, name))
            names[n++].name = name;
    }
    const struct rota_standard_services services = {{names, n}};
    bool is_sent =
        send_answer(question, (struct rota_standard_answer){.list_services_response = &services});
    free(names);
    return is_sent;
}

/* The message is known, but no extension of it is. */
static bool send_extensions(const struct question *question)
{
    const struct rota_standard_extensions type = {question->asks.all_extension_numbers_of_type};
    if (!rota_descriptors_file_of(&question->reflection->descriptors, type.base_type_name))
        return send_error(question, ROTA_STATUS_NOT_FOUND, "no such type here");
    return send_answer(question,
                       (struct rota_standard_answer){.all_extension_numbers_response = &type});
}

static bool answer_question(const struct question *question)
{
    const struct rota_descriptors *descriptors = &question->reflection->descriptors;
    const struct rota_standard_question *asks = &question->asks;
    if (asks->file_by_filename.data)
        return send_file(question, rota_descriptors_file(descriptors, asks->file_by_filename));
    if (asks->file_containing_symbol.data)
        return send_file(question,
                         rota_descriptors_file_of(descriptors, asks->file_containing_symbol));
    if (asks->file_containing_extension.data)
        return send_error(question, ROTA_STATUS_NOT_FOUND, "no such extension here");
    if (asks->all_extension_numbers_of_type.data)
        return send_extensions(question);
    if (asks->list_services.data)
        return send_services(question);
    return send_error(question, ROTA_STATUS_INVALID_ARGUMENT, "unknown request");
}

/* --- calls --- */

static void on_call(void *data, struct rota_server_call *call)
{
    (void)data;
    (void)call; /* the requests follow */
}

static void on_message(void *data, struct rota_server_call *call, struct rota_str message)
{
    struct question question = {.reflection = data, .call = call, .bytes = message};
    if (rota_message_decode(&ROTA_STANDARD_REFLECTION_REQUEST, message, &question.asks, NULL, NULL))
        rota_server_call_finish(call, ROTA_STATUS_INVALID_ARGUMENT, "the request is malformed",
                                NULL, 0);
    else if (!answer_question(&question))
        rota_server_call_finish(call, ROTA_STATUS_RESOURCE_EXHAUSTED,
                                "the client does not read its responses", NULL, 0);
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
        return rota_error_no_memory(error, "for server reflection");
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
