/* A gradual change: a setting that changes from old to new key by key.
 *
 * Between `start` and `end` each key changes once, at a time that depends only on the key. So all
 * processes with synchronized clocks see the same value, and not everything moves at once. */
#pragma once

#include <rota/error.h>
#include <rota/str.h>
#include <rota/time.h>

#ifdef __cplusplus
extern "C" {
#endif

struct rota_gradual {
    int64_t old_value, new_value;
    rota_time start, end; /* wall clock; both 0: no change in progress, always new */
};

/* A value that does not change. */
static inline struct rota_gradual rota_gradual_static(int64_t value)
{
    struct rota_gradual change = {value, value, 0, 0};
    return change;
}

/* Whether no change is in progress; whether two changes are equal. */
static inline bool rota_gradual_is_static(const struct rota_gradual *change)
{
    return change->start == 0 && change->end == 0;
}

static inline bool rota_gradual_is_equal(const struct rota_gradual *a, const struct rota_gradual *b)
{
    return a->old_value == b->old_value && a->new_value == b->new_value && a->start == b->start &&
           a->end == b->end;
}

/* Rejects a change with only one bound, with a bound before 1970, or with an end before its
 * start. */
enum rota_code rota_gradual_check(const struct rota_gradual *change, struct rota_error *error);

/* Whether `key` has the new value at `now`; and the value itself. */
bool rota_gradual_is_new(const struct rota_gradual *change, struct rota_str key, rota_time now);
int64_t rota_gradual_value(const struct rota_gradual *change, struct rota_str key, rota_time now);

/* The first time at which `key` has the new value; ROTA_TIME_MIN if it always had. */
rota_time rota_gradual_when(const struct rota_gradual *change, struct rota_str key);

#ifdef __cplusplus
}
#endif
