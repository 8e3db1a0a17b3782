#include "sim/world.h"

#include "base/hash.h"

#include <stdarg.h>
#include <stdio.h>

static int format_what(const struct rota_sim_event *event, char *text, size_t size)
{
    long long number = (long long)event->number;
    unsigned long long hash = rota_hash_sip64(0, event->bytes);

    switch (event->kind) {
    case ROTA_SIM_STARTED:
        return snprintf(text, size, "starts, life %lld", number);
    case ROTA_SIM_CRASHED:
        return snprintf(text, size, "crashes, life %lld", number);
    case ROTA_SIM_PAUSED:
        return snprintf(text, size, "is paused");
    case ROTA_SIM_RESUMED:
        return snprintf(text, size, "resumes, %lld events late", number);
    case ROTA_SIM_JUMPED:
        return snprintf(text, size, "wall clock jumps by %.6f s", (double)number / 1e9);
    case ROTA_SIM_DRIFTED:
        return snprintf(text, size, "clocks drift by %lld ppm", number);
    case ROTA_SIM_SPLIT:
        return snprintf(text, size, "is in group %lld", number);
    case ROTA_SIM_BLOCKED:
        return snprintf(text, size, "to node %u is %s", event->peer, number ? "cut" : "open");
    case ROTA_SIM_HEALED:
        return snprintf(text, size, "the network is whole");
    case ROTA_SIM_LOST:
        return snprintf(text, size, "to node %u lost, %zu bytes", event->peer, event->bytes.size);
    case ROTA_SIM_MESSAGE:
        return snprintf(text, size, "message from node %u, %zu bytes %016llx", event->peer,
                        event->bytes.size, hash);
    case ROTA_SIM_VANISHED:
        return snprintf(text, size, "is down for node %u, %zu bytes %016llx", event->peer,
                        event->bytes.size, hash);
    case ROTA_SIM_TIMER:
        return snprintf(text, size, "timer %lld", number);
    case ROTA_SIM_CALL:
        return snprintf(text, size, "call %lld", number);
    case ROTA_SIM_NOTE:
        return snprintf(text, size, "%.*s", ROTA_STR_ARGS(event->bytes));
    }
    return 0;
}

char *rota_sim_event_format(const struct rota_sim_event *event, char text[ROTA_SIM_TEXT_MAX])
{
    char node[24] = "world";
    if (event->node != ROTA_SIM_NO_NODE)
        snprintf(node, sizeof node, "node %u", event->node);
    int size = snprintf(text, ROTA_SIM_TEXT_MAX, "%lld.%09lld %s ",
                        (long long)(event->at / ROTA_SEC), (long long)(event->at % ROTA_SEC), node);
    format_what(event, text + size, ROTA_SIM_TEXT_MAX - (size_t)size);
    return text;
}

static uint64_t fold_hash(uint64_t hash, uint64_t value)
{
    hash = (hash ^ value) * 0x9e3779b97f4a7c15u;
    return hash ^ hash >> 29;
}

void rota_sim_trace_record(struct rota_sim *sim, struct rota_sim_event event)
{
    event.at = sim->now;
    if (event.kind != ROTA_SIM_NOTE) {
        uint64_t hash = fold_hash(sim->hash, (uint64_t)event.at);
        hash = fold_hash(hash, (uint64_t)event.kind << 32 | event.node);
        hash = fold_hash(hash, event.number ^ (uint64_t)event.peer << 32);
        if (event.bytes.size)
            hash = fold_hash(hash, rota_hash_sip64(0, event.bytes));
        sim->hash = hash;
    }
    if (sim->options.on_trace)
        sim->options.on_trace(sim->options.trace_data, &event);
}

void rota_sim_trace_record_number(struct rota_sim *sim, enum rota_sim_kind kind, uint32_t node,
                                  uint32_t peer, uint64_t number)
{
    rota_sim_trace_record(
        sim, (struct rota_sim_event){.kind = kind, .node = node, .peer = peer, .number = number});
}

void rota_sim_note(struct rota_sim *sim, uint32_t node, const char *format, ...)
{
    if (!sim->options.on_trace)
        return;
    char text[ROTA_SIM_TEXT_MAX];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    rota_sim_trace_record(sim, (struct rota_sim_event){.kind = ROTA_SIM_NOTE,
                                                       .node = node,
                                                       .peer = ROTA_SIM_NO_NODE,
                                                       .bytes = rota_str(text)});
}
