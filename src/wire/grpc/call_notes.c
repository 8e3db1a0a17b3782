#include "wire/grpc/call_notes.h"

#include "base/decimal.h"

#include <stdio.h>

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

/* Apart from take_number(), since each call of a fenced method has one. */
bool rota_call_notes_parse_epoch(struct rota_str text, uint64_t *epoch)
{
    enum { SAFE_DIGITS = 19 }; /* a number of so many is below UINT64_MAX */
    uint64_t value = 0;
    if (text.size == 0 || text.size > SAFE_DIGITS + 1)
        return false;
    for (size_t i = 0; i < text.size; i++) {
        unsigned digit = (unsigned char)text.data[i] - (unsigned)'0';
        if (digit > 9 || (i == SAFE_DIGITS && value > (UINT64_MAX - digit) / 10))
            return false;
        value = value * 10 + digit;
    }
    *epoch = value;
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
