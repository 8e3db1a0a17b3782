#include "wire/call_notes.h"

#include <stdio.h>

char *rota_note_format_cost(const struct rota_cost *cost, char text[ROTA_NOTE_COST_MAX])
{
    const int64_t parts[] = {cost->response_us, cost->service_us, cost->waiting};
    int64_t held[3];
    for (size_t i = 0; i < 3; i++)
        held[i] = parts[i] > 0 ? parts[i] : 0;
    snprintf(text, ROTA_NOTE_COST_MAX, "%lld %lld %lld", (long long)held[0], (long long)held[1],
             (long long)held[2]);
    return text;
}

/* Take a number off `text`, with the blank behind it; false when there is none. */
static bool take_number(struct rota_str *text, uint64_t most, uint64_t *number)
{
    uint64_t value = 0;
    size_t i = 0;
    for (; i < text->size && text->data[i] >= '0' && text->data[i] <= '9'; i++) {
        uint64_t digit = (uint64_t)(text->data[i] - '0');
        if (value > (most - digit) / 10)
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

bool rota_note_parse_cost(struct rota_str text, struct rota_cost *cost)
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

bool rota_note_parse_claim(struct rota_str text, struct rota_replica *claim)
{
    uint64_t node, epoch;
    if (!take_number(&text, INT64_MAX, &node) || !take_number(&text, UINT64_MAX, &epoch) ||
        text.size == 0 || text.size > ROTA_SHARD_NAME_MAX)
        return false;
    *claim = (struct rota_replica){(int64_t)node, text, epoch, true};
    return true;
}
