#include "wire/grpc/grpc_field.h"

#include "wire/grpc/grpc.h"

#define IS_LETTER(c) (((c) >= 'a' && (c) <= 'z') || ((c) >= 'A' && (c) <= 'Z'))
#define IS_DIGIT(c)  ((c) >= '0' && (c) <= '9')

static bool is_in(char c, const char *set)
{
    return c != '\0' && strchr(set, c);
}

static bool is_token_char(char c)
{
    return IS_LETTER(c) || IS_DIGIT(c) || is_in(c, "!#$%&'*+-.^_`|~");
}

static bool is_token(struct rota_str text)
{
    for (size_t i = 0; i < text.size; i++)
        if (!is_token_char(text.data[i]))
            return false;
    return text.size > 0;
}

static bool is_scheme(struct rota_str text)
{
    for (size_t i = 0; i < text.size; i++) {
        char c = text.data[i];
        if (!IS_LETTER(c) && (i == 0 || (!IS_DIGIT(c) && !is_in(c, "+-."))))
            return false;
    }
    return text.size > 0;
}

static bool is_path(struct rota_str text)
{
    for (size_t i = 0; i < text.size; i++)
        if ((unsigned char)text.data[i] <= 0x20 || text.data[i] == 0x7f)
            return false;
    return text.size > 0;
}

static bool is_authority(struct rota_str text)
{
    for (size_t i = 0; i < text.size; i++) {
        char c = text.data[i];
        if (!IS_LETTER(c) && !IS_DIGIT(c) && !is_in(c, "!$%&'()*+,-.:;=@[]_~"))
            return false;
    }
    return text.size > 0;
}

/* 101 would change the protocol, which HTTP/2 does not know. */
static bool is_status(struct rota_str text)
{
    return text.size == 3 && text.data[0] >= '1' && text.data[0] <= '9' && IS_DIGIT(text.data[1]) &&
           IS_DIGIT(text.data[2]) && memcmp(text.data, "101", 3) != 0;
}

static bool is_number(struct rota_str text)
{
    for (size_t i = 0; i < text.size; i++)
        if (!IS_DIGIT(text.data[i]))
            return false;
    return text.size > 0 && text.size <= 18;
}

static bool is_space(char c)
{
    return c == ' ' || c == '\t';
}

static bool is_value(struct rota_str text)
{
    for (size_t i = 0; i < text.size; i++) {
        unsigned char c = (unsigned char)text.data[i];
        if ((c < 0x20 && c != '\t') || c == 0x7f)
            return false;
    }
    return text.size == 0 || (!is_space(text.data[0]) && !is_space(text.data[text.size - 1]));
}

static bool is_trailers(struct rota_str text)
{
    static const char word[] = "trailers";
    if (text.size != sizeof word - 1)
        return false;
    for (size_t i = 0; i < text.size; i++)
        if ((text.data[i] | 0x20) != word[i])
            return false;
    return true;
}

/* For texts of the same size, which the compiler knows. */
#define IS(name, known) (memcmp((name).data, known, sizeof(known) - 1) == 0)

static enum rota_grpc_kind name_kind(struct rota_str name)
{
    switch (name.size) {
    case 2:
        if (IS(name, "te"))
            return ROTA_GRPC_FIELD_TE;
        break;
    case 4:
        if (IS(name, "host"))
            return ROTA_GRPC_FIELD_HOST;
        break;
    case 5:
        if (IS(name, ":path"))
            return ROTA_GRPC_FIELD_PATH;
        break;
    case 7:
        if (IS(name, ":method"))
            return ROTA_GRPC_FIELD_METHOD;
        if (IS(name, ":scheme"))
            return ROTA_GRPC_FIELD_SCHEME;
        if (IS(name, ":status"))
            return ROTA_GRPC_FIELD_STATUS;
        if (IS(name, "upgrade"))
            return ROTA_GRPC_FIELD_MALFORMED;
        break;
    case 10:
        if (IS(name, ":authority"))
            return ROTA_GRPC_FIELD_AUTHORITY;
        if (IS(name, "connection") || IS(name, "keep-alive"))
            return ROTA_GRPC_FIELD_MALFORMED;
        break;
    case 11:
        if (IS(name, "grpc-status"))
            return ROTA_GRPC_FIELD_GRPC_STATUS;
        break;
    case 12:
        if (IS(name, "content-type"))
            return ROTA_GRPC_FIELD_CONTENT_TYPE;
        if (IS(name, "grpc-timeout"))
            return ROTA_GRPC_FIELD_TIMEOUT;
        if (IS(name, "grpc-message"))
            return ROTA_GRPC_FIELD_GRPC_MESSAGE;
        break;
    case 13:
        if (IS(name, "grpc-encoding"))
            return ROTA_GRPC_FIELD_ENCODING;
        break;
    case 14:
        if (IS(name, "content-length"))
            return ROTA_GRPC_FIELD_CONTENT_LENGTH;
        break;
    case 16:
        if (IS(name, "proxy-connection"))
            return ROTA_GRPC_FIELD_MALFORMED;
        break;
    case 17:
        if (IS(name, "transfer-encoding"))
            return ROTA_GRPC_FIELD_MALFORMED;
        break;
    default:
        break;
    }
    if (name.size > 0 && name.data[0] == ':')
        return ROTA_GRPC_FIELD_MALFORMED;
    if (rota_str_has_prefix(name, rota_str("grpc-")))
        return ROTA_GRPC_FIELD_IGNORED;
    return rota_grpc_name_is_binary(name) ? ROTA_GRPC_FIELD_BINARY : ROTA_GRPC_FIELD_METADATA;
}

/* Upper case anywhere is malformed; other unexpected bytes only drop the field. */
static enum rota_grpc_kind check_name(struct rota_str name, enum rota_grpc_kind kind)
{
    bool is_plain = name.size > 0;
    for (size_t i = 0; i < name.size; i++) {
        char c = name.data[i];
        if (c >= 'A' && c <= 'Z')
            return ROTA_GRPC_FIELD_MALFORMED;
        is_plain = is_plain && is_token_char(c);
    }
    return is_plain ? kind : ROTA_GRPC_FIELD_DROPPED;
}

enum rota_grpc_kind rota_grpc_field_kind(struct rota_str name, struct rota_str value)
{
    enum rota_grpc_kind kind = name_kind(name);
    bool is_good = true;
    switch (kind) {
    case ROTA_GRPC_FIELD_METHOD:
        is_good = is_token(value);
        break;
    case ROTA_GRPC_FIELD_SCHEME:
        is_good = is_scheme(value);
        break;
    case ROTA_GRPC_FIELD_PATH:
        is_good = is_path(value);
        break;
    case ROTA_GRPC_FIELD_AUTHORITY:
        is_good = is_authority(value);
        break;
    case ROTA_GRPC_FIELD_STATUS:
        is_good = is_status(value);
        break;
    case ROTA_GRPC_FIELD_TE:
        is_good = is_trailers(value);
        break;
    case ROTA_GRPC_FIELD_CONTENT_LENGTH:
        is_good = is_number(value);
        break;
    case ROTA_GRPC_FIELD_HOST:
        return is_authority(value) ? kind : ROTA_GRPC_FIELD_DROPPED;
    case ROTA_GRPC_FIELD_CONTENT_TYPE:
    case ROTA_GRPC_FIELD_TIMEOUT:
    case ROTA_GRPC_FIELD_ENCODING:
    case ROTA_GRPC_FIELD_GRPC_STATUS:
    case ROTA_GRPC_FIELD_GRPC_MESSAGE:
        return is_value(value) ? kind : ROTA_GRPC_FIELD_DROPPED;
    case ROTA_GRPC_FIELD_IGNORED:
    case ROTA_GRPC_FIELD_METADATA:
    case ROTA_GRPC_FIELD_BINARY:
        kind = check_name(name, kind);
        return is_value(value) || kind == ROTA_GRPC_FIELD_MALFORMED ? kind
                                                                    : ROTA_GRPC_FIELD_DROPPED;
    case ROTA_GRPC_FIELD_DROPPED:
    case ROTA_GRPC_FIELD_MALFORMED:
        break;
    }
    return is_good ? kind : ROTA_GRPC_FIELD_MALFORMED;
}
