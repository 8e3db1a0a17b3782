#include "wire/worker_frame.h"

#include "base/quote.h"
#include "wire/worker_fields.h"

/* --- the frame --- */

bool rota_worker_type_is_valid(struct rota_str name)
{
    for (size_t i = 0; i < name.size; i++) {
        char c = name.data[i];
        bool is_good = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '.' || c == '_' || c == '-';
        if (!is_good)
            return false;
    }
    return name.size > 0 && name.size <= ROTA_WORKER_TYPE_MAX;
}

uint8_t *rota_worker_head_write(uint8_t *to, struct rota_str type)
{
    *to++ = (uint8_t)type.size;
    memcpy(to, type.data, type.size);
    return to + type.size;
}

enum rota_code rota_worker_frame_parse(struct rota_str frame, struct rota_str *type,
                                       struct rota_str *body, struct rota_error *error)
{
    if (frame.size == 0)
        return rota_error_set(error, ROTA_ERR_INVALID, "an empty frame");
    size_t size = (uint8_t)frame.data[0];
    struct rota_str name = rota_str_of(frame.data + 1, size);
    if (size >= frame.size || !rota_worker_type_is_valid(name)) {
        char quoted[ROTA_QUOTE_MAX];
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "a frame of %zu bytes that begins with %s names no type", frame.size,
                              rota_quote(frame, quoted));
    }
    *type = name;
    *body = rota_str_of(frame.data + 1 + size, frame.size - 1 - size);
    return ROTA_OK;
}

static enum rota_code malformed(const char *what, struct rota_error *error)
{
    return rota_error_set(error, ROTA_ERR_INVALID, "the %s can't be read", what);
}

/* --- the session --- */

enum rota_code rota_worker_name_check(struct rota_str name, struct rota_error *error)
{
    bool is_good = name.size > 0 && name.size <= ROTA_WORKER_NAME_MAX;
    for (size_t i = 0; is_good && i < name.size; i++)
        is_good = name.data[i] > ' ' && name.data[i] <= '~';
    if (is_good)
        return ROTA_OK;
    char quoted[ROTA_QUOTE_MAX];
    return rota_error_set(error, ROTA_ERR_INVALID,
                          "%s is not the name of a worker: 1 to %d printable ASCII characters "
                          "without blanks",
                          rota_quote(name, quoted), ROTA_WORKER_NAME_MAX);
}

static const char *const bye_texts[] = {
    [ROTA_BYE_STOPPING] = "it stops",
    [ROTA_BYE_NO_SESSION] = "there is no session: say hello first",
    [ROTA_BYE_REPLACED] = "another session of this name came",
    [ROTA_BYE_STALE] = "another session of this name has this epoch or a higher one",
    [ROTA_BYE_MALFORMED] = "what was sent can't be read",
    [ROTA_BYE_UNSUPPORTED] = "another protocol, or another version of it",
    [ROTA_BYE_FULL] = "there is no room for another worker",
    [ROTA_BYE_NOT_ALLOWED] = "the key is not that of this name",
    [ROTA_BYE_REFUSED] = "it was refused",
    [ROTA_BYE_SILENT] = "nothing was heard for too long",
};

const char *rota_worker_bye_text(enum rota_worker_bye_reason reason)
{
    return (size_t)reason < ROTA_WORKER_N(bye_texts) ? bye_texts[reason] : "it was refused";
}

void rota_worker_hello_write(const struct rota_worker_hello *hello, struct rota_buffer *body)
{
    const struct rota_worker_field fields[] = {
        {.number = 1, .bytes = rota_str(ROTA_WORKER_PROTOCOL)},
        {.number = 2, .value = hello->version},
        {.number = 3, .bytes = hello->name},
        {.number = 4, .value = hello->epoch},
    };
    rota_worker_fields_write(body, fields, ROTA_WORKER_N(fields));
}

enum rota_code rota_worker_hello_read(struct rota_str body, struct rota_worker_hello *hello,
                                      struct rota_error *error)
{
    struct rota_worker_fields fields;
    if (!rota_worker_fields_read(body, ROTA_WORKER_BIT(1) | ROTA_WORKER_BIT(3),
                                 ROTA_WORKER_BIT(2) | ROTA_WORKER_BIT(4), &fields))
        return malformed("hello", error);
    if (!rota_str_is_equal(fields.bytes[1], rota_str(ROTA_WORKER_PROTOCOL)) ||
        fields.values[2] != ROTA_WORKER_PROTOCOL_VERSION) {
        char quoted[ROTA_QUOTE_MAX];
        return rota_error_set(
            error, ROTA_ERR_UNAVAILABLE, "the worker speaks %s version %llu, and we %s version %d",
            rota_quote(fields.bytes[1], quoted), (unsigned long long)fields.values[2],
            ROTA_WORKER_PROTOCOL, ROTA_WORKER_PROTOCOL_VERSION);
    }
    enum rota_code code = rota_worker_name_check(fields.bytes[3], error);
    if (!code)
        *hello = (struct rota_worker_hello){(uint32_t)fields.values[2], fields.bytes[3],
                                            fields.values[4]};
    return code;
}

void rota_worker_welcome_write(const struct rota_worker_welcome *welcome, struct rota_buffer *body)
{
    const struct rota_worker_field fields[] = {
        {.number = 1, .value = welcome->version},
        {.number = 2, .value = welcome->session},
        {.number = 3, .value = rota_worker_to_ms(welcome->beat.interval)},
        {.number = 4, .value = welcome->beat.missed_max},
        {.number = 5, .value = welcome->message_max},
    };
    rota_worker_fields_write(body, fields, ROTA_WORKER_N(fields));
}

enum rota_code rota_worker_welcome_read(struct rota_str body, struct rota_worker_welcome *welcome,
                                        struct rota_error *error)
{
    struct rota_worker_fields fields;
    unsigned numbers = ROTA_WORKER_BIT(1) | ROTA_WORKER_BIT(2) | ROTA_WORKER_BIT(3) |
                       ROTA_WORKER_BIT(4) | ROTA_WORKER_BIT(5);
    if (!rota_worker_fields_read(body, 0, numbers, &fields) || fields.values[1] > UINT32_MAX)
        return malformed("welcome", error);
    if (fields.values[2] == 0 || fields.values[3] == 0 || fields.values[4] == 0 ||
        fields.values[4] > ROTA_PEER_MISSED_LIMIT ||
        rota_worker_from_ms(fields.values[3]) < ROTA_PEER_INTERVAL_MIN ||
        rota_worker_from_ms(fields.values[3]) > ROTA_PEER_INTERVAL_MAX)
        return rota_error_set(
            error, ROTA_ERR_INVALID,
            "the welcome to session %llu asks for a beat each %llu ms, dead after "
            "%llu: that can't be",
            (unsigned long long)fields.values[2], (unsigned long long)fields.values[3],
            (unsigned long long)fields.values[4]);
    *welcome = (struct rota_worker_welcome){
        .version = (uint32_t)fields.values[1],
        .session = fields.values[2],
        .beat = {rota_worker_from_ms(fields.values[3]), (uint32_t)fields.values[4]},
        .message_max = fields.values[5],
    };
    return ROTA_OK;
}

void rota_worker_bye_write(const struct rota_worker_bye *bye, struct rota_buffer *body)
{
    struct rota_str text = bye->text;
    if (text.size > ROTA_WORKER_BYE_TEXT_MAX)
        text.size = ROTA_WORKER_BYE_TEXT_MAX;
    const struct rota_worker_field fields[] = {
        {.number = 1, .value = bye->reason},
        {.number = 2, .bytes = text},
    };
    rota_worker_fields_write(body, fields, ROTA_WORKER_N(fields));
}

enum rota_code rota_worker_bye_read(struct rota_str body, struct rota_worker_bye *bye,
                                    struct rota_error *error)
{
    struct rota_worker_fields fields;
    if (!rota_worker_fields_read(body, ROTA_WORKER_BIT(2), ROTA_WORKER_BIT(1), &fields) ||
        fields.bytes[2].size > ROTA_WORKER_BYE_TEXT_MAX)
        return malformed("goodbye", error);
    bool is_known = fields.values[1] < ROTA_WORKER_N(bye_texts);
    *bye = (struct rota_worker_bye){
        .reason = is_known ? (enum rota_worker_bye_reason)fields.values[1] : ROTA_BYE_REFUSED,
        .text = fields.bytes[2],
    };
    return ROTA_OK;
}
