/* Log lines in logfmt: a fixed phrase to search for, followed by facts.
 *
 *     rota_log(log, now, ROTA_LOG_INFO, "lease gained",
 *              ROTA_LOG_FACT("name", name), ROTA_LOG_FACT("epoch", epoch));
 *
 *     ts=2026-01-31T12:00:00.000000Z level=info msg="lease gained" name=jobs epoch=7
 *
 * These functions read no clock and write no file: the time is an argument, and lines go to a sink.
 * A line is always one line of printable UTF-8, whatever the facts contain, and is made without
 * allocating memory. */
#pragma once

#include <rota/error.h>
#include <rota/str.h>
#include <rota/time.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
    ROTA_LOG_LINE_MAX = 4096, /* facts that don't fit are left out, and cut=true is added */
    ROTA_LOG_VALUE_MAX = 512, /* longer values are truncated and end in dots */
};

/* `error` needs a person, `warn` may need one, `info` marks a change of state, `debug` traces every
 * step. A level includes those before it. */
enum rota_log_level {
    ROTA_LOG_ERROR,
    ROTA_LOG_WARN,
    ROTA_LOG_INFO,
    ROTA_LOG_DEBUG,
};

/* "error", "warn", "info", "debug", NULL: by level, and for an option's choices. */
extern const char *const rota_log_level_names[];

enum rota_code rota_log_level_parse(struct rota_str text, enum rota_log_level *level);

struct rota_log {
    enum rota_log_level level;                       /* more detailed lines are dropped */
    void (*write)(void *data, struct rota_str line); /* gets the line with its newline */
    void *data;                                      /* kept */
};

enum rota_log_type {
    ROTA_LOG_TYPE_STR,
    ROTA_LOG_TYPE_INT,
    ROTA_LOG_TYPE_UINT,
    ROTA_LOG_TYPE_DOUBLE,
    ROTA_LOG_TYPE_BOOL,
    ROTA_LOG_TYPE_SPAN,
    ROTA_LOG_TYPE_TIME,
};

/* A fact. Made by ROTA_LOG_FACT and the macros below it. */
struct rota_log_fact {
    const char *name; /* NULL: none */
    enum rota_log_type type;
    union {
        struct rota_str as_str;
        int64_t as_int; /* durations and timestamps too */
        uint64_t as_uint;
        double as_double;
        bool as_bool;
    };
};

/* A fact from a C string, a struct rota_str, a bool or any number; the compiler selects the type
 * and rejects anything else. C only, like all macros that make facts; C++ calls the functions
 * below. */
#define ROTA_LOG_FACT(name, value)                                                                 \
    _Generic((value),                                                                              \
        char *: rota_log_fact_text,                                                                \
        const char *: rota_log_fact_text,                                                          \
        struct rota_str: rota_log_fact_str,                                                        \
        bool: rota_log_fact_bool,                                                                  \
        short: rota_log_fact_int,                                                                  \
        int: rota_log_fact_int,                                                                    \
        long: rota_log_fact_int,                                                                   \
        long long: rota_log_fact_int,                                                              \
        unsigned char: rota_log_fact_uint,                                                         \
        unsigned short: rota_log_fact_uint,                                                        \
        unsigned int: rota_log_fact_uint,                                                          \
        unsigned long: rota_log_fact_uint,                                                         \
        unsigned long long: rota_log_fact_uint,                                                    \
        double: rota_log_fact_double)((name), (value))

/* A rota_time is a plain number to the compiler, so these two have their own macros. */
#define ROTA_LOG_SPAN(name, value) rota_log_fact_span((name), (value))
#define ROTA_LOG_TIME(name, value) rota_log_fact_time((name), (value))

/* For a phrase without facts. */
#define ROTA_LOG_NO_FACTS ((struct rota_log_fact){0})

static inline bool rota_log_is_on(const struct rota_log *log, enum rota_log_level level)
{
    return log && log->write && level <= log->level;
}

/* Logs one line. `log` may be NULL. The facts are evaluated only if the level is on. */
#define rota_log(log, now, level, phrase, ...)                                                     \
    do {                                                                                           \
        if (rota_log_is_on((log), (level))) {                                                      \
            const struct rota_log_fact facts_[] = {__VA_ARGS__};                                   \
            rota_log_write((log), (now), (level), (phrase), facts_,                                \
                           sizeof facts_ / sizeof facts_[0]);                                      \
        }                                                                                          \
    } while (0)

/* Called by rota_log(); `now` is on the wall clock. */
void rota_log_write(const struct rota_log *log, rota_time now, enum rota_log_level level,
                    const char *phrase, const struct rota_log_fact *facts, size_t n_facts);

/* Writes a line, with its newline, into `line`; returns the part used. */
struct rota_str rota_log_format(rota_time now, enum rota_log_level level, const char *phrase,
                                const struct rota_log_fact *facts, size_t n_facts,
                                char line[ROTA_LOG_LINE_MAX]);

/* --- the functions behind ROTA_LOG_FACT --- */

static inline struct rota_log_fact rota_log_fact_of(const char *name, enum rota_log_type type)
{
    struct rota_log_fact fact;
    memset(&fact, 0, sizeof fact);
    fact.name = name;
    fact.type = type;
    return fact;
}

static inline struct rota_log_fact rota_log_fact_str(const char *name, struct rota_str value)
{
    struct rota_log_fact fact = rota_log_fact_of(name, ROTA_LOG_TYPE_STR);
    fact.as_str = value;
    return fact;
}

static inline struct rota_log_fact rota_log_fact_text(const char *name, const char *value)
{
    return rota_log_fact_str(name, rota_str(value ? value : ""));
}

static inline struct rota_log_fact rota_log_fact_bool(const char *name, bool value)
{
    struct rota_log_fact fact = rota_log_fact_of(name, ROTA_LOG_TYPE_BOOL);
    fact.as_bool = value;
    return fact;
}

static inline struct rota_log_fact rota_log_fact_int(const char *name, int64_t value)
{
    struct rota_log_fact fact = rota_log_fact_of(name, ROTA_LOG_TYPE_INT);
    fact.as_int = value;
    return fact;
}

static inline struct rota_log_fact rota_log_fact_uint(const char *name, uint64_t value)
{
    struct rota_log_fact fact = rota_log_fact_of(name, ROTA_LOG_TYPE_UINT);
    fact.as_uint = value;
    return fact;
}

static inline struct rota_log_fact rota_log_fact_double(const char *name, double value)
{
    struct rota_log_fact fact = rota_log_fact_of(name, ROTA_LOG_TYPE_DOUBLE);
    fact.as_double = value;
    return fact;
}

static inline struct rota_log_fact rota_log_fact_span(const char *name, rota_time value)
{
    struct rota_log_fact fact = rota_log_fact_of(name, ROTA_LOG_TYPE_SPAN);
    fact.as_int = value;
    return fact;
}

static inline struct rota_log_fact rota_log_fact_time(const char *name, rota_time value)
{
    struct rota_log_fact fact = rota_log_fact_of(name, ROTA_LOG_TYPE_TIME);
    fact.as_int = value;
    return fact;
}

#ifdef __cplusplus
}
#endif
