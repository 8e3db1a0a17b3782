#include "wire/message/standard_message.h"

#include "wire/message/message_table.h"

/* --- health --- */

#define THIS struct rota_standard_health_request
static const struct rota_message_field HEALTH_REQUEST[] = {F(1, STR, service)};
#undef THIS
TYPE(ROTA_STANDARD_HEALTH_REQUEST, "request", struct rota_standard_health_request, HEALTH_REQUEST);

#define THIS struct rota_standard_health_response
static const struct rota_message_field HEALTH_RESPONSE[] = {F(1, UINT, status)};
#undef THIS
TYPE(ROTA_STANDARD_HEALTH_RESPONSE, "response", struct rota_standard_health_response,
     HEALTH_RESPONSE);

bool rota_standard_message_is_serving(struct rota_str response)
{
    struct rota_standard_health_response message;
    return !rota_message_decode(&ROTA_STANDARD_HEALTH_RESPONSE, response, &message, NULL, NULL) &&
           message.status == ROTA_STANDARD_SERVING;
}

/* --- reflection --- */

#define THIS struct rota_standard_question
static const struct rota_message_field REQUEST[] = {
    F(1, STR, host),
    F(3, STR, file_by_filename),
    F(4, STR, file_containing_symbol),
    F_BYTES(5, file_containing_extension),
    F(6, STR, all_extension_numbers_of_type),
    F(7, STR, list_services),
};
#undef THIS
TYPE(ROTA_STANDARD_REFLECTION_REQUEST, "request", struct rota_standard_question, REQUEST);

#define THIS struct rota_standard_files
static const struct rota_message_field FILES[] = {F(1, STRS, file_descriptor_proto)};
#undef THIS
static TYPE(FILES_TYPE, "response", struct rota_standard_files, FILES);

#define THIS struct rota_standard_extensions
static const struct rota_message_field EXTENSIONS[] = {F(1, STR, base_type_name)};
#undef THIS
static TYPE(EXTENSIONS_TYPE, "response", struct rota_standard_extensions, EXTENSIONS);

#define THIS struct rota_standard_service
static const struct rota_message_field SERVICE[] = {F(1, STR, name)};
#undef THIS
static TYPE(SERVICE_TYPE, "service", struct rota_standard_service, SERVICE);

#define THIS struct rota_standard_services
static const struct rota_message_field SERVICES[] = {F_OF(1, INNERS, service, SERVICE_TYPE)};
#undef THIS
static TYPE(SERVICES_TYPE, "response", struct rota_standard_services, SERVICES);

#define THIS struct rota_standard_error
static const struct rota_message_field ERROR[] = {F(1, INT, error_code), F(2, STR, error_message)};
#undef THIS
static TYPE(ERROR_TYPE, "response", struct rota_standard_error, ERROR);

#define THIS struct rota_standard_answer
static const struct rota_message_field RESPONSE[] = {
    F(1, STR, valid_host),
    F_BYTES(2, original_request),
    F_OF(4, INNER, file_descriptor_response, FILES_TYPE),
    F_OF(5, INNER, all_extension_numbers_response, EXTENSIONS_TYPE),
    F_OF(6, INNER, list_services_response, SERVICES_TYPE),
    F_OF(7, INNER, error_response, ERROR_TYPE),
};
#undef THIS
TYPE(ROTA_STANDARD_REFLECTION_RESPONSE, "response", struct rota_standard_answer, RESPONSE);
