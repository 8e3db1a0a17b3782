#include "wire/grpc/grpc.h"

#include "base/percent.h"
#include "base/text.h"

/* --- messages --- */

enum rota_grpc_encoding rota_grpc_encoding_parse(struct rota_str text)
{
    return rota_str_is_equal(text, rota_str("identity")) ? ROTA_GRPC_IDENTITY
           : rota_str_is_equal(text, rota_str("gzip"))   ? ROTA_GRPC_GZIP
                                                         : ROTA_GRPC_ENCODING_OTHER;
}

void rota_grpc_prefix_encode(uint8_t prefix[ROTA_GRPC_PREFIX_SIZE], uint32_t size,
                             bool is_compressed)
{
    prefix[0] = is_compressed;
    prefix[1] = (uint8_t)(size >> 24);
    prefix[2] = (uint8_t)(size >> 16);
    prefix[3] = (uint8_t)(size >> 8);
    prefix[4] = (uint8_t)size;
}

void rota_grpc_decoder_reset(struct rota_grpc_decoder *decoder)
{
    decoder->n_prefix = 0;
    decoder->is_told = false;
    decoder->size = 0;
    rota_buffer_clear(&decoder->message);
}

/* The prefix is complete: check what it announces. */
static enum rota_grpc_found look_at_prefix(struct rota_grpc_decoder *decoder)
{
    const uint8_t *p = decoder->prefix;
    decoder->size = (uint32_t)p[1] << 24 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 8 | p[4];
    if (p[0] > 1)
        return ROTA_GRPC_MALFORMED;
    decoder->is_compressed = p[0] == 1;
    if (decoder->is_compressed && !decoder->takes_compressed)
        return ROTA_GRPC_COMPRESSED;
    return decoder->size > decoder->max ? ROTA_GRPC_TOO_LARGE : ROTA_GRPC_MESSAGE;
}

enum rota_grpc_found rota_grpc_decoder_next(struct rota_grpc_decoder *decoder,
                                            struct rota_str *input)
{
    if (decoder->is_told)
        rota_grpc_decoder_reset(decoder);
    if (decoder->n_prefix < ROTA_GRPC_PREFIX_SIZE) {
        struct rota_str part =
            rota_text_cut(input, (size_t)ROTA_GRPC_PREFIX_SIZE - decoder->n_prefix);
        if (part.size > 0)
            memcpy(decoder->prefix + decoder->n_prefix, part.data, part.size);
        decoder->n_prefix += (uint8_t)part.size;
        if (decoder->n_prefix < ROTA_GRPC_PREFIX_SIZE)
            return ROTA_GRPC_MORE;
        enum rota_grpc_found announced = look_at_prefix(decoder);
        if (announced != ROTA_GRPC_MESSAGE)
            return announced;
    }
    rota_buffer_append_str(&decoder->message,
                           rota_text_cut(input, decoder->size - decoder->message.size));
    if (decoder->message.failed)
        return ROTA_GRPC_NO_MEMORY;
    if (decoder->message.size < decoder->size)
        return ROTA_GRPC_MORE;
    decoder->is_told = true;
    return ROTA_GRPC_MESSAGE;
}

bool rota_grpc_decoder_is_clean(const struct rota_grpc_decoder *decoder)
{
    return decoder->is_told || decoder->n_prefix == 0;
}

enum rota_status rota_grpc_found_status(enum rota_grpc_found found,
                                        enum rota_grpc_encoding encoding)
{
    switch (found) {
    case ROTA_GRPC_MORE:
    case ROTA_GRPC_MESSAGE:
        return ROTA_STATUS_OK;
    case ROTA_GRPC_TOO_LARGE:
    case ROTA_GRPC_NO_MEMORY:
        return ROTA_STATUS_RESOURCE_EXHAUSTED;
    case ROTA_GRPC_COMPRESSED:
        return encoding == ROTA_GRPC_IDENTITY ? ROTA_STATUS_INTERNAL : ROTA_STATUS_UNIMPLEMENTED;
    case ROTA_GRPC_MALFORMED:
        return ROTA_STATUS_INTERNAL;
    }
    return ROTA_STATUS_INTERNAL;
}

/* --- header fields --- */

static const struct unit {
    char letter;
    rota_time size;
} units[] = {
    {'H', ROTA_HOUR}, {'M', ROTA_MIN},  {'S', ROTA_SEC},
    {'m', ROTA_MSEC}, {'u', ROTA_USEC}, {'n', ROTA_NSEC},
};
enum { N_UNITS = sizeof units / sizeof *units, TIMEOUT_DIGITS = 8 };

size_t rota_grpc_timeout_format(rota_time span, char text[ROTA_GRPC_TIMEOUT_MAX])
{
    if (span < 1)
        span = 1; /* a timeout is positive */
    size_t u = 0;
    while (u + 1 < N_UNITS && span / units[u].size < 10)
        u++;
    rota_time n = span / units[u].size + (span % units[u].size != 0);
    rota_time step = 1;
    while (n / step >= 100)
        step *= 10;
    n = (n + step - 1) / step * step;
    char digits[TIMEOUT_DIGITS];
    size_t n_digits = 0, size = 0;
    for (; n > 0; n /= 10)
        digits[n_digits++] = (char)('0' + n % 10);
    while (n_digits > 0)
        text[size++] = digits[--n_digits];
    text[size++] = units[u].letter;
    text[size] = '\0';
    return size;
}

enum rota_code rota_grpc_timeout_parse(struct rota_str text, rota_time *span)
{
    if (text.size < 2 || text.size > TIMEOUT_DIGITS + 1)
        return ROTA_ERR_INVALID;
    rota_time n = 0, result;
    for (size_t i = 0; i + 1 < text.size; i++) {
        if (text.data[i] < '0' || text.data[i] > '9')
            return ROTA_ERR_INVALID;
        n = n * 10 + (text.data[i] - '0');
    }
    for (size_t u = 0; u < N_UNITS; u++)
        if (units[u].letter == text.data[text.size - 1]) {
            *span = __builtin_mul_overflow(n, units[u].size, &result) ? ROTA_TIME_NEVER : result;
            return ROTA_OK;
        }
    return ROTA_ERR_INVALID;
}

static bool is_printable(char c)
{
    return c >= 0x20 && c <= 0x7e;
}

/* `size`, or a little less so as not to cut a UTF-8 character in two. */
static size_t cut_utf8(struct rota_str text, size_t size)
{
    if (text.size <= size)
        return text.size;
    for (size_t back = 0; back < 4 && back < size; back++)
        if (((unsigned char)text.data[size - back] & 0xc0) != 0x80)
            return size - back;
    return size;
}

void rota_grpc_percent_encode(struct rota_buffer *buffer, struct rota_str text)
{
    char escape[3];
    size_t size = cut_utf8(text, ROTA_GRPC_TEXT_MAX);
    for (size_t i = 0; i < size; i++) {
        unsigned char c = (unsigned char)text.data[i];
        if (is_printable(text.data[i]) && c != '%')
            rota_buffer_append_char(buffer, text.data[i]);
        else
            rota_buffer_append(buffer, escape, (size_t)(rota_percent_encode(escape, c) - escape));
    }
}

void rota_grpc_percent_decode(struct rota_buffer *buffer, struct rota_str text)
{
    for (size_t i = 0; i < text.size; i++) {
        int c = rota_percent_decode(text, &i);
        rota_buffer_append_char(buffer, c >= 0 ? (char)c : '%');
    }
}

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void rota_grpc_base64_encode(struct rota_buffer *buffer, struct rota_str bytes)
{
    uint32_t bits = 0;
    int n_bits = 0;
    for (size_t i = 0; i < bytes.size; i++) {
        bits = bits << 8 | (unsigned char)bytes.data[i];
        for (n_bits += 8; n_bits >= 6; n_bits -= 6)
            rota_buffer_append_char(buffer, alphabet[bits >> (n_bits - 6) & 63]);
    }
    if (n_bits > 0)
        rota_buffer_append_char(buffer, alphabet[bits << (6 - n_bits) & 63]);
}

static int base64_value(char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    if (c == '+')
        return 62;
    return c == '/' ? 63 : -1;
}

enum rota_code rota_grpc_base64_decode(struct rota_buffer *buffer, struct rota_str text)
{
    size_t kept = buffer->size, size = text.size;
    if (size % 4 == 0)
        for (int i = 0; i < 2 && size > 0 && text.data[size - 1] == '='; i++)
            size--;
    if (size % 4 == 1)
        return ROTA_ERR_INVALID;
    uint32_t bits = 0;
    int n_bits = 0;
    for (size_t i = 0; i < size; i++) {
        int value = base64_value(text.data[i]);
        if (value < 0) {
            buffer->size = kept;
            return ROTA_ERR_INVALID;
        }
        bits = bits << 6 | (uint32_t)value;
        n_bits += 6;
        if (n_bits >= 8) {
            n_bits -= 8;
            rota_buffer_append_char(buffer, (char)(bits >> n_bits));
        }
    }
    return ROTA_OK;
}

bool rota_grpc_name_is_binary(struct rota_str name)
{
    return name.size > 4 && memcmp(name.data + name.size - 4, "-bin", 4) == 0;
}

bool rota_grpc_metadata_is_valid(const struct rota_metadata *pair)
{
    static const char *const ours[] = {
        "te",         "content-type", "content-length",   "user-agent",        "host",
        "connection", "keep-alive",   "proxy-connection", "transfer-encoding", "upgrade",
    };
    struct rota_str name = pair->name;
    if (name.size == 0 || name.size > 256 || rota_str_has_prefix(name, rota_str("grpc-")))
        return false;
    for (size_t i = 0; i < name.size; i++) {
        char c = name.data[i];
        if (!(c >= 'a' && c <= 'z') && !(c >= '0' && c <= '9') && c != '_' && c != '-' && c != '.')
            return false;
    }
    for (size_t i = 0; i < sizeof ours / sizeof *ours; i++)
        if (rota_str_is_equal(name, rota_str(ours[i])))
            return false;
    if (rota_grpc_name_is_binary(name))
        return true;
    for (size_t i = 0; i < pair->value.size; i++)
        if (!is_printable(pair->value.data[i]))
            return false;
    /* Spaces at the ends do not survive HTTP. */
    size_t size = pair->value.size;
    return size == 0 || (pair->value.data[0] != ' ' && pair->value.data[size - 1] != ' ');
}

/* --- the status of a call --- */

static const char *const names[] = {
    "OK",
    "CANCELLED",
    "UNKNOWN",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "INTERNAL",
    "UNAVAILABLE",
    "DATA_LOSS",
    "UNAUTHENTICATED",
};
enum { N_STATUS = sizeof names / sizeof *names };

const char *rota_status_name(enum rota_status status)
{
    return (unsigned)status < N_STATUS ? names[status] : "UNKNOWN";
}

enum rota_status rota_grpc_status_parse(struct rota_str text)
{
    unsigned n = 0;
    if (text.size == 0 || text.size > 2)
        return ROTA_STATUS_UNKNOWN;
    for (size_t i = 0; i < text.size; i++) {
        if (text.data[i] < '0' || text.data[i] > '9')
            return ROTA_STATUS_UNKNOWN;
        n = n * 10 + (unsigned)(text.data[i] - '0');
    }
    return n < N_STATUS ? (enum rota_status)n : ROTA_STATUS_UNKNOWN;
}

enum rota_status rota_grpc_status_of_http(int http_status)
{
    switch (http_status) {
    case 400:
    case 431:
        return ROTA_STATUS_INTERNAL;
    case 401:
        return ROTA_STATUS_UNAUTHENTICATED;
    case 403:
        return ROTA_STATUS_PERMISSION_DENIED;
    case 404:
        return ROTA_STATUS_UNIMPLEMENTED;
    case 429:
    case 502:
    case 503:
    case 504:
        return ROTA_STATUS_UNAVAILABLE;
    default:
        return ROTA_STATUS_UNKNOWN;
    }
}

enum rota_status rota_grpc_status_of_code(enum rota_code code)
{
    switch (code) {
    case ROTA_OK:
        return ROTA_STATUS_OK;
    case ROTA_ERR_INVALID:
        return ROTA_STATUS_INVALID_ARGUMENT;
    case ROTA_ERR_NOT_FOUND:
        return ROTA_STATUS_NOT_FOUND;
    case ROTA_ERR_LIMIT:
    case ROTA_ERR_NO_MEMORY:
        return ROTA_STATUS_RESOURCE_EXHAUSTED;
    case ROTA_ERR_UNAVAILABLE:
    case ROTA_ERR_IO:
        return ROTA_STATUS_UNAVAILABLE;
    case ROTA_ERR_UNKNOWN:
        return ROTA_STATUS_UNKNOWN;
    case ROTA_ERR_STALE:
        return ROTA_STATUS_ABORTED;
    }
    return ROTA_STATUS_INTERNAL;
}

enum rota_code rota_grpc_code_of_status(enum rota_status status)
{
    switch (status) {
    case ROTA_STATUS_OK:
        return ROTA_OK;
    case ROTA_STATUS_INVALID_ARGUMENT:
    case ROTA_STATUS_FAILED_PRECONDITION:
    case ROTA_STATUS_OUT_OF_RANGE:
    case ROTA_STATUS_ALREADY_EXISTS:
    case ROTA_STATUS_UNIMPLEMENTED:
        return ROTA_ERR_INVALID;
    case ROTA_STATUS_NOT_FOUND:
        return ROTA_ERR_NOT_FOUND;
    case ROTA_STATUS_ABORTED:
        return ROTA_ERR_STALE;
    case ROTA_STATUS_RESOURCE_EXHAUSTED:
        return ROTA_ERR_LIMIT;
    case ROTA_STATUS_UNAVAILABLE:
    case ROTA_STATUS_PERMISSION_DENIED:
    case ROTA_STATUS_UNAUTHENTICATED:
        return ROTA_ERR_UNAVAILABLE;
    case ROTA_STATUS_CANCELLED:
    case ROTA_STATUS_UNKNOWN:
    case ROTA_STATUS_DEADLINE_EXCEEDED:
    case ROTA_STATUS_INTERNAL:
    case ROTA_STATUS_DATA_LOSS:
        return ROTA_ERR_UNKNOWN;
    }
    return ROTA_ERR_UNKNOWN;
}

enum rota_status rota_grpc_status_of_reset(uint32_t error_code)
{
    enum { REFUSED_STREAM = 7, CANCEL = 8, ENHANCE_YOUR_CALM = 11, INADEQUATE_SECURITY = 12 };
    switch (error_code) {
    case REFUSED_STREAM:
        return ROTA_STATUS_UNAVAILABLE;
    case CANCEL:
        return ROTA_STATUS_CANCELLED;
    case ENHANCE_YOUR_CALM:
        return ROTA_STATUS_RESOURCE_EXHAUSTED;
    case INADEQUATE_SECURITY:
        return ROTA_STATUS_PERMISSION_DENIED;
    default:
        return ROTA_STATUS_INTERNAL;
    }
}
