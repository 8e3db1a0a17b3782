#include <rota/experimental/gradual.h>

#include "base/hash.h"

enum rota_code rota_gradual_check(const struct rota_gradual *change, struct rota_error *error)
{
    if (rota_gradual_is_static(change))
        return ROTA_OK;
    if (change->start < 0 || change->end < 0)
        return rota_error_set(error, ROTA_ERR_INVALID, "gradual change: its %s is before 1970",
                              change->start < 0 ? "start" : "end");
    if (change->start == 0 || change->end == 0)
        return rota_error_set(error, ROTA_ERR_INVALID, "gradual change: it has no %s",
                              change->start == 0 ? "start" : "end");
    if (change->end < change->start) {
        rota_time span = change->start - change->end;
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "gradual change: its end is %lld.%09lld s before its start",
                              (long long)(span / ROTA_SEC), (long long)(span % ROTA_SEC));
    }
    return ROTA_OK;
}

/* A duration as the number that the rule computes with. Durations of checked changes are
 * positive; unsigned, so that no other one can overflow. */
static double span_of(rota_time from, rota_time to)
{
    return (double)((uint64_t)to - (uint64_t)from);
}

/* The rule itself. Every step of it is exactly defined, rounding included, because all nodes
 * that share a change have to agree. It is monotone in `now`, since each rounding is. */
static bool is_new(const struct rota_gradual *change, uint32_t hash, rota_time now)
{
    if (rota_gradual_is_static(change) || now >= change->end)
        return true;
    if (now <= change->start)
        return false;
    double fraction = span_of(change->start, now) / span_of(change->start, change->end);
    return hash < (uint32_t)(fraction * UINT32_MAX);
}

bool rota_gradual_is_new(const struct rota_gradual *change, struct rota_str key, rota_time now)
{
    return is_new(change, rota_hash_farm32(key), now);
}

int64_t rota_gradual_value(const struct rota_gradual *change, struct rota_str key, rota_time now)
{
    return rota_gradual_is_new(change, key, now) ? change->new_value : change->old_value;
}

/* Whether the key is new `elapsed` after the start. */
static bool is_new_after(const struct rota_gradual *change, uint32_t hash, uint64_t elapsed)
{
    return is_new(change, hash, (rota_time)((uint64_t)change->start + elapsed));
}

/* How long after the start the key would flip without rounding: the minimum integer elapsed with
 * elapsed / span * UINT32_MAX >= hash + 1. It is off by a few parts in 2^53 of the duration. */
static uint64_t guess_flip(uint64_t span, uint32_t hash)
{
    __extension__ unsigned __int128 elapsed = span;
    if (hash == UINT32_MAX)
        return span;
    return (uint64_t)((elapsed * ((uint64_t)hash + 1) + UINT32_MAX - 1) / UINT32_MAX);
}

rota_time rota_gradual_when(const struct rota_gradual *change, struct rota_str key)
{
    if (rota_gradual_is_static(change))
        return ROTA_TIME_MIN;
    if (change->end <= change->start)
        return change->end;

    uint32_t hash = rota_hash_farm32(key);
    uint64_t span = (uint64_t)change->end - (uint64_t)change->start;
    uint64_t old_at = 0, new_at, at = guess_flip(span, hash), step = 1;

    /* From the guess on in doubling steps until the flip lies between ... */
    if (is_new_after(change, hash, at)) {
        for (new_at = at; new_at > step && is_new_after(change, hash, new_at - step); step *= 2)
            new_at -= step;
        old_at = new_at > step ? new_at - step : 0;
    } else {
        for (old_at = at; span - old_at > step && !is_new_after(change, hash, old_at + step);
             step *= 2)
            old_at += step;
        new_at = span - old_at > step ? old_at + step : span;
    }
    /* ... and then by halves. */
    while (new_at - old_at > 1) {
        uint64_t middle = old_at + (new_at - old_at) / 2;
        if (is_new_after(change, hash, middle))
            new_at = middle;
        else
            old_at = middle;
    }
    return (rota_time)((uint64_t)change->start + new_at);
}
