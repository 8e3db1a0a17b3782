#include "wire/grpc/call_notes.h"

#include "base/decimal.h"
#include "base/percent.h"

#include <stdio.h>

/* --- the shard --- */

static bool is_plain(char c)
{
    return c > ' ' && c <= '~' && c != '/' && c != '%';
}

static char *escape_name(char *to, struct rota_str name)
{
    for (size_t i = 0; i < name.size; i++)
        if (is_plain(name.data[i]))
            *to++ = name.data[i];
        else
            to = rota_percent_encode(to, (unsigned char)name.data[i]);
    return to;
}

static bool is_name(struct rota_str name)
{
    return name.size > 0 && name.size <= ROTA_SHARD_NAME_MAX;
}

struct rota_str rota_call_notes_format_shard(struct rota_str space, struct rota_str shard,
                                             char text[ROTA_NOTE_SHARD_MAX])
{
    if (!is_name(space) || !is_name(shard))
        return rota_str_of(text, 0);
    char *end = escape_name(text, space);
    *end++ = '/';
    end = escape_name(end, shard);
    return rota_str_of(text, (size_t)(end - text));
}

/* Read one name; `room` has ROTA_SHARD_NAME_MAX bytes for it. */
static bool unescape_name(struct rota_str text, char *room, struct rota_str *name)
{
    size_t n = 0;
    bool is_escaped = false;
    for (size_t i = 0; i < text.size; i++) {
        bool is_one = text.data[i] == '%';
        int c = rota_percent_decode(text, &i);
        if (n == ROTA_SHARD_NAME_MAX || c < 0 || (!is_one && !is_plain((char)c)))
            return false;
        is_escaped |= is_one;
        room[n++] = (char)c;
    }
    *name = is_escaped ? rota_str_of(room, n) : text;
    return n > 0;
}

/* A name without escapes, as nearly all are. */
static bool is_plain_name(struct rota_str text)
{
    bool is_fine = is_name(text);
    for (size_t i = 0; i < text.size; i++)
        is_fine &= is_plain(text.data[i]);
    return is_fine;
}

bool rota_call_notes_parse_shard(struct rota_str text, char room[ROTA_NOTE_NAMES_MAX],
                                 struct rota_str *space, struct rota_str *shard)
{
    const char *slash = text.size > 0 ? memchr(text.data, '/', text.size) : NULL;
    struct rota_str names[2];
    if (!slash)
        return false;
    size_t size = (size_t)(slash - text.data);
    names[0] = rota_str_of(text.data, size);
    names[1] = rota_str_of(slash + 1, text.size - size - 1);
    if ((!is_plain_name(names[0]) || !is_plain_name(names[1])) &&
        (!unescape_name(names[0], room, &names[0]) ||
         !unescape_name(names[1], room + ROTA_SHARD_NAME_MAX, &names[1])))
        return false;
    *space = names[0];
    *shard = names[1];
    return true;
}

/* --- numbers --- */

char *rota_call_notes_format_cost(const struct rota_cost *cost, char text[ROTA_NOTE_COST_MAX])
{
    const int64_t parts[] = {cost->response_us, cost->service_us, cost->waiting};
    char *end = text;
    for (size_t i = 0; i < 3; i++) {
        end = rota_decimal_put(end, parts[i] > 0 ? (uint64_t)parts[i] : 0);
        *end++ = i < 2 ? ' ' : '\0';
    }
    return text;
}

/* Take a number off `text`, with the blank after it; false when there is none. */
static bool take_number(struct rota_str *text, uint64_t most, uint64_t *number)
{
    enum { SAFE_DIGITS = 18 }; /* more may be above INT64_MAX, the lowest of `most` */
    uint64_t value = 0;
    size_t i = 0;
    for (; i < text->size && text->data[i] >= '0' && text->data[i] <= '9'; i++) {
        uint64_t digit = (uint64_t)(text->data[i] - '0');
        if (i >= SAFE_DIGITS && value > (most - digit) / 10)
            return false;
        value = value * 10 + digit;
    }
    if (i == 0 || (i < text->size && text->data[i] != ' '))
        return false;
    i += i < text->size;
    *text = rota_str_of(text->data + i, text->size - i);
    *number = value;
    return true;
}

bool rota_call_notes_parse_cost(struct rota_str text, struct rota_cost *cost)
{
    uint64_t response, service, waiting;
    if (text.size == 0 || text.data[text.size - 1] == ' ')
        return false;
    if (!take_number(&text, INT64_MAX, &response) || !take_number(&text, INT64_MAX, &service) ||
        !take_number(&text, INT64_MAX, &waiting) || text.size > 0)
        return false;
    *cost = (struct rota_cost){(int64_t)response, (int64_t)service, (int64_t)waiting};
    return true;
}

bool rota_call_notes_parse_epoch(struct rota_str text, uint64_t *epoch)
{
    uint64_t number;
    if (text.size == 0 || text.data[text.size - 1] == ' ' ||
        !take_number(&text, UINT64_MAX, &number) || text.size > 0)
        return false;
    *epoch = number;
    return true;
}

char *rota_call_notes_format_claim(int64_t node, uint64_t epoch, struct rota_str address,
                                   char text[ROTA_NOTE_CLAIM_MAX])
{
    snprintf(text, ROTA_NOTE_CLAIM_MAX, "%lld %llu %.*s", (long long)node,
             (unsigned long long)epoch, ROTA_STR_ARGS(address));
    return text;
}

bool rota_call_notes_parse_claim(struct rota_str text, struct rota_replica *claim)
{
    uint64_t node, epoch;
    if (!take_number(&text, INT64_MAX, &node) || !take_number(&text, UINT64_MAX, &epoch) ||
        text.size == 0 || text.size > ROTA_SHARD_NAME_MAX)
        return false;
    *claim = (struct rota_replica){(int64_t)node, text, epoch, true};
    return true;
}
