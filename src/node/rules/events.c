#include "node/rules/events.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const char *const NAMES[ROTA_EVENT_KINDS] = {
    [ROTA_EVENT_NODE] = "node",         [ROTA_EVENT_SHARD] = "shard",
    [ROTA_EVENT_QUEUE] = "queue",       [ROTA_EVENT_JOB] = "job",
    [ROTA_EVENT_CALL] = "call",         [ROTA_EVENT_GROUP] = "group",
    [ROTA_EVENT_OPERATOR] = "operator", [ROTA_EVENT_SETTING] = "setting",
};

const char *rota_event_kind_name(enum rota_event_kind kind)
{
    return NAMES[kind];
}

bool rota_event_kind_parse(struct rota_str text, enum rota_event_kind *kind)
{
    for (int i = 0; i < ROTA_EVENT_KINDS; i++)
        if (rota_str_is_equal(text, rota_str(NAMES[i]))) {
            *kind = (enum rota_event_kind)i;
            return true;
        }
    return false;
}

/* How much of `text` fits in `size` bytes with a NUL, without half a character. */
static size_t size_that_fits(struct rota_str text, size_t size)
{
    if (text.size < size)
        return text.size;
    size_t n = size - 1;
    while (n > 0 && ((unsigned char)text.data[n] & 0xc0) == 0x80)
        n--;
    return n;
}

static void copy_cut(char *to, size_t size, struct rota_str text)
{
    size_t n = size_that_fits(text, size);
    memcpy(to, text.data, n);
    to[n] = '\0';
}

void rota_events_adopt(struct rota_events *events, rota_time at, enum rota_event_kind kind,
                       struct rota_str subject, struct rota_str text, struct rota_str node)
{
    struct rota_event *event = &events->kept[events->n % ROTA_EVENTS_KEPT];
    event->number = events->base + ++events->n;
    event->at = at;
    event->kind = kind;
    copy_cut(event->subject, sizeof event->subject, subject);
    copy_cut(event->text, sizeof event->text, text);
    copy_cut(event->node, sizeof event->node, node);
}

void rota_events_add(struct rota_events *events, rota_time at, enum rota_event_kind kind,
                     struct rota_str subject, const char *format, ...)
{
    char text[2 * ROTA_EVENT_TEXT_MAX];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    rota_events_adopt(events, at, kind, subject, rota_str(text), rota_str(""));
}

uint64_t rota_events_last(const struct rota_events *events)
{
    return events->base + events->n;
}

/* Numbers of an earlier life are before all of ours. */
const struct rota_event *rota_events_next(const struct rota_events *events, uint64_t after)
{
    uint64_t seen = after > events->base ? after - events->base : 0;
    uint64_t gone = events->n > ROTA_EVENTS_KEPT ? events->n - ROTA_EVENTS_KEPT : 0;
    if (seen >= events->n)
        return NULL;
    return &events->kept[(seen < gone ? gone : seen) % ROTA_EVENTS_KEPT];
}
