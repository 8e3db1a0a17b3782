#include "wire/grpc/http_target.h"

#include "base/percent.h"
#include "base/quote.h"
#include "base/utf8.h"

#include <string.h>

static enum rota_code reject_target(const char *why, struct rota_str text, struct rota_error *error)
{
    char quoted[ROTA_QUOTE_MAX];
    return rota_error_set(error, ROTA_ERR_INVALID, "%s %s", rota_quote(text, quoted), why);
}

/* Decode the escapes of `piece` to `*end`, which is advanced. */
static enum rota_code decode_escapes(struct rota_str piece, bool is_query, char **end,
                                     struct rota_str *decoded, struct rota_error *error)
{
    char *begin = *end;
    for (size_t i = 0; i < piece.size; i++) {
        int c = is_query && piece.data[i] == '+' ? ' ' : rota_percent_decode(piece, &i);
        if (c < 0)
            return reject_target("has a % without two hexadecimal digits after it", piece, error);
        if (c < ' ' || c == 0x7f)
            return reject_target("has a control character", piece, error);
        *(*end)++ = (char)c;
    }
    *decoded = rota_str_of(begin, (size_t)(*end - begin));
    for (struct rota_str rest = *decoded; rest.size > 0;) {
        size_t size;
        if (rota_utf8_decode(rest, &size) == ROTA_UTF8_NONE)
            return reject_target("is not UTF-8", piece, error);
        rest = rota_str_of(rest.data + size, rest.size - size);
    }
    return ROTA_OK;
}

/* Take off what is before `mark`, and the mark. */
static struct rota_str cut_at(struct rota_str *rest, char mark)
{
    const char *found = memchr(rest->data, mark, rest->size);
    struct rota_str piece =
        rota_str_of(rest->data, found ? (size_t)(found - rest->data) : rest->size);
    size_t n = piece.size + (found != NULL);
    *rest = rota_str_of(rest->data + n, rest->size - n);
    return piece;
}

static enum rota_code read_path(struct rota_str path, struct rota_http_target *target, char **end,
                                struct rota_error *error)
{
    struct rota_str rest = rota_str_of(path.data + 1, path.size - 1);
    while (rest.size > 0) {
        struct rota_str part;
        struct rota_str piece = cut_at(&rest, '/');
        if (target->n_parts == ROTA_HTTP_TARGET_PARTS_MAX)
            return reject_target("has too many parts", path, error);
        enum rota_code code = decode_escapes(piece, false, end, &part, error);
        if (code)
            return code;
        if (part.size == 0 || rota_str_is_equal(part, rota_str(".")) ||
            rota_str_is_equal(part, rota_str("..")))
            return reject_target("has an empty part, or a part . or ..", path, error);
        target->parts[target->n_parts++] = part;
    }
    return ROTA_OK;
}

static enum rota_code read_query(struct rota_str query, struct rota_http_target *target, char **end,
                                 struct rota_error *error)
{
    for (struct rota_str rest = query; rest.size > 0;) {
        struct rota_str value = cut_at(&rest, '&');
        if (value.size == 0)
            continue;
        struct rota_str name = cut_at(&value, '=');
        if (target->n_pairs == ROTA_HTTP_TARGET_PAIRS_MAX)
            return reject_target("has too many values", query, error);
        struct rota_http_pair *pair = &target->pairs[target->n_pairs++];
        enum rota_code code = decode_escapes(name, true, end, &pair->name, error);
        if (!code)
            code = decode_escapes(value, true, end, &pair->value, error);
        if (code)
            return code;
    }
    return ROTA_OK;
}

enum rota_code rota_http_target_parse(struct rota_str text, struct rota_http_target *target,
                                      struct rota_error *error)
{
    char *end = target->text;
    target->n_parts = target->n_pairs = 0;
    if (text.size > ROTA_HTTP_TARGET_SIZE_MAX)
        return reject_target("is too long", text, error);
    if (text.size == 0 || text.data[0] != '/')
        return reject_target("does not start with /", text, error);
    struct rota_str query = text;
    struct rota_str path = cut_at(&query, '?');
    enum rota_code code = read_path(path, target, &end, error);
    return code ? code : read_query(query, target, &end, error);
}

bool rota_http_target_find(const struct rota_http_target *target, const char *name,
                           struct rota_str *value)
{
    for (size_t i = 0; i < target->n_pairs; i++)
        if (rota_str_is_equal(target->pairs[i].name, rota_str(name))) {
            *value = target->pairs[i].value;
            return true;
        }
    return false;
}
