/* Time: nanoseconds in a signed 64-bit number, for timestamps and durations alike.
 *
 * A timestamp on the wall clock counts from 1970-01-01T00:00:00Z. The monotonic clock counts from
 * an arbitrary time, and so does the boot clock, which also counts the time in which the machine
 * was suspended. Comments say which clock is meant where it matters. A function that takes `now`
 * never reads a clock itself. */
#pragma once

#include <rota/error.h>
#include <rota/str.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef int64_t rota_time;

#define ROTA_NSEC ((rota_time)1)
#define ROTA_USEC (1000 * ROTA_NSEC)
#define ROTA_MSEC (1000 * ROTA_USEC)
#define ROTA_SEC  (1000 * ROTA_MSEC)
#define ROTA_MIN  (60 * ROTA_SEC)
#define ROTA_HOUR (60 * ROTA_MIN)
#define ROTA_DAY  (24 * ROTA_HOUR)

#define ROTA_TIME_MIN   INT64_MIN
#define ROTA_TIME_NEVER INT64_MAX /* a deadline that never comes */

/* Room for any timestamp or duration as text, with its final NUL. */
enum { ROTA_TIME_TEXT_MAX = 40 };

/* Parses a wall-clock timestamp: RFC 3339 ("2026-01-31T12:00:00.5Z", any offset) or Unix seconds,
 * with an optional fraction ("1767225600.25"). */
enum rota_code rota_time_parse(struct rota_str text, rota_time *time);

/* Writes a wall-clock timestamp as RFC 3339 in UTC, with only as many digits of the fraction as
 * needed. Returns `text`. */
char *rota_time_format(rota_time time, char text[ROTA_TIME_TEXT_MAX]);

/* Parses a duration: a decimal number and a unit (ns us ms s m h d), several in a row ("1h30m");
 * "0" needs no unit. Never negative. */
enum rota_code rota_span_parse(struct rota_str text, rota_time *span);

/* Writes a duration in the format that rota_span_parse() reads. Returns `text`. */
char *rota_span_format(rota_time span, char text[ROTA_TIME_TEXT_MAX]);

/* `a + b`, saturated at the ends of the range instead of overflowing. */
static inline rota_time rota_time_add(rota_time a, rota_time b)
{
    rota_time sum;
    if (__builtin_add_overflow(a, b, &sum))
        return b > 0 ? INT64_MAX : INT64_MIN;
    return sum;
}

/* The earlier of two timestamps. */
static inline rota_time rota_time_min(rota_time a, rota_time b)
{
    return a < b ? a : b;
}

#ifdef __cplusplus
}
#endif
