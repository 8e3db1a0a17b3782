#include "wire/message/worker_frame.h"

#include "base/quote.h"
#include "wire/message/message_table.h"
#include "wire/message/queue_message.h"

/* --- the frame --- */

bool rota_worker_frame_type_is_valid(struct rota_str name)
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

uint8_t *rota_worker_frame_head_write(uint8_t *to, struct rota_str type)
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
    if (size >= frame.size || !rota_worker_frame_type_is_valid(name)) {
        char quoted[ROTA_QUOTE_MAX];
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "a frame of %zu bytes that starts with %s has an unknown type",
                              frame.size, rota_quote(frame, quoted));
    }
    *type = name;
    *body = rota_str_of(frame.data + 1 + size, frame.size - 1 - size);
    return ROTA_OK;
}

/* --- the session --- */

#define THIS struct rota_worker_hello
static const struct rota_message_field HELLO[] = {
    F(1, STR, protocol),
    F_MAX(2, UINT, version, UINT32_MAX),
    F(3, STR, name),
    F(4, UINT, epoch),
};
#undef THIS
TYPE(ROTA_WORKER_HELLO_TYPE, "hello", struct rota_worker_hello, HELLO);

/* A welcome as it is sent. */
struct welcome {
    uint64_t version, session, interval_ms, missed_max, message_max;
};

#define THIS struct welcome
static const struct rota_message_field WELCOME[] = {
    F_MAX(1, UINT, version, UINT32_MAX),
    F(2, UINT, session),
    F(3, UINT, interval_ms),
    F(4, UINT, missed_max),
    F(5, UINT, message_max),
};
#undef THIS
TYPE(ROTA_WORKER_WELCOME_TYPE, "welcome", struct welcome, WELCOME);

struct bye {
    uint64_t reason;
    struct rota_str text;
};

#define THIS struct bye
static const struct rota_message_field BYE[] = {F(1, UINT, reason), F(2, STR, text)};
#undef THIS
TYPE(ROTA_WORKER_BYE_TYPE, "goodbye", struct bye, BYE);

enum rota_code rota_worker_frame_name_check(struct rota_str name, struct rota_error *error)
{
    bool is_good = name.size > 0 && name.size <= ROTA_WORKER_NAME_MAX;
    for (size_t i = 0; is_good && i < name.size; i++)
        is_good = name.data[i] > ' ' && name.data[i] <= '~';
    if (is_good)
        return ROTA_OK;
    char quoted[ROTA_QUOTE_MAX];
    return rota_error_set(error, ROTA_ERR_INVALID,
                          "%s is not the name of a worker: use 1 to %d printable ASCII "
                          "characters without spaces",
                          rota_quote(name, quoted), ROTA_WORKER_NAME_MAX);
}

static const char *const bye_texts[] = {
    [ROTA_BYE_STOPPING] = "it is stopping",
    [ROTA_BYE_NO_SESSION] = "no session: send hello first",
    [ROTA_BYE_REPLACED] = "replaced by another session with this name",
    [ROTA_BYE_STALE] = "another session with this name has the same or a higher epoch",
    [ROTA_BYE_MALFORMED] = "malformed message",
    [ROTA_BYE_UNSUPPORTED] = "unsupported protocol or version",
    [ROTA_BYE_FULL] = "too many workers are connected",
    [ROTA_BYE_NOT_ALLOWED] = "this key belongs to another name",
    [ROTA_BYE_REFUSED] = "rejected",
    [ROTA_BYE_SILENT] = "no heartbeat for too long",
};

const char *rota_worker_frame_bye_text(enum rota_worker_bye_reason reason)
{
    return (size_t)reason < N_OF(bye_texts) ? bye_texts[reason] : "rejected";
}

void rota_worker_frame_hello_write(const struct rota_worker_hello *hello, struct rota_buffer *body)
{
    struct rota_worker_hello message = *hello;
    message.protocol = rota_str(ROTA_WORKER_PROTOCOL);
    rota_message_encode(&ROTA_WORKER_HELLO_TYPE, &message, body);
}

enum rota_code rota_worker_frame_hello_read(struct rota_str body, struct rota_worker_hello *hello,
                                            struct rota_error *error)
{
    struct rota_worker_hello message;
    enum rota_code code = rota_message_decode(&ROTA_WORKER_HELLO_TYPE, body, &message, NULL, error);
    if (code)
        return code;
    if (!rota_str_is_equal(message.protocol, rota_str(ROTA_WORKER_PROTOCOL)) ||
        message.version != ROTA_WORKER_PROTOCOL_VERSION) {
        char quoted[ROTA_QUOTE_MAX];
        return rota_error_set(error, ROTA_ERR_UNAVAILABLE,
                              "the worker speaks %s version %llu; this broker needs %s version %d",
                              rota_quote(message.protocol, quoted),
                              (unsigned long long)message.version, ROTA_WORKER_PROTOCOL,
                              ROTA_WORKER_PROTOCOL_VERSION);
    }
    code = rota_worker_frame_name_check(message.name, error);
    if (!code)
        *hello = message;
    return code;
}

void rota_worker_frame_welcome_write(const struct rota_worker_welcome *welcome,
                                     struct rota_buffer *body)
{
    const struct welcome message = {
        .version = welcome->version,
        .session = welcome->session,
        .interval_ms = rota_queue_to_ms(welcome->beat.interval),
        .missed_max = welcome->beat.missed_max,
        .message_max = welcome->message_max,
    };
    rota_message_encode(&ROTA_WORKER_WELCOME_TYPE, &message, body);
}

enum rota_code rota_worker_frame_welcome_read(struct rota_str body,
                                              struct rota_worker_welcome *welcome,
                                              struct rota_error *error)
{
    struct welcome message;
    enum rota_code code =
        rota_message_decode(&ROTA_WORKER_WELCOME_TYPE, body, &message, NULL, error);
    if (code)
        return code;
    rota_time interval = rota_queue_from_ms(message.interval_ms);
    if (message.session == 0 || message.missed_max == 0 ||
        message.missed_max > ROTA_PEER_MISSED_LIMIT || interval < ROTA_PEER_INTERVAL_MIN ||
        interval > ROTA_PEER_INTERVAL_MAX)
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "the welcome to session %llu has an invalid heartbeat: every %llu "
                              "ms, dead after %llu missed",
                              (unsigned long long)message.session,
                              (unsigned long long)message.interval_ms,
                              (unsigned long long)message.missed_max);
    *welcome = (struct rota_worker_welcome){
        .version = (uint32_t)message.version,
        .session = message.session,
        .beat = {interval, (uint32_t)message.missed_max},
        .message_max = message.message_max,
    };
    return ROTA_OK;
}

void rota_worker_frame_bye_write(const struct rota_worker_bye *bye, struct rota_buffer *body)
{
    struct bye message = {bye->reason, bye->text};
    if (message.text.size > ROTA_WORKER_BYE_TEXT_MAX)
        message.text.size = ROTA_WORKER_BYE_TEXT_MAX;
    rota_message_encode(&ROTA_WORKER_BYE_TYPE, &message, body);
}

enum rota_code rota_worker_frame_bye_read(struct rota_str body, struct rota_worker_bye *bye,
                                          struct rota_error *error)
{
    struct bye message;
    enum rota_code code = rota_message_decode(&ROTA_WORKER_BYE_TYPE, body, &message, NULL, error);
    if (code)
        return code;
    if (message.text.size > ROTA_WORKER_BYE_TEXT_MAX)
        return rota_error_set(error, ROTA_ERR_INVALID, "text of the goodbye has %zu bytes, not %d",
                              message.text.size, ROTA_WORKER_BYE_TEXT_MAX);
    bool is_known = message.reason < N_OF(bye_texts);
    *bye = (struct rota_worker_bye){
        .reason = is_known ? (enum rota_worker_bye_reason)message.reason : ROTA_BYE_REFUSED,
        .text = message.text,
    };
    return ROTA_OK;
}
