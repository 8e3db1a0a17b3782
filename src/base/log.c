#include <rota/log.h>

#include "base/decimal.h"
#include "base/quote.h"

#include <stdio.h>

const char *const rota_log_level_names[] = {
    [ROTA_LOG_ERROR] = "error", [ROTA_LOG_WARN] = "warn",    [ROTA_LOG_INFO] = "info",
    [ROTA_LOG_DEBUG] = "debug", [ROTA_LOG_DEBUG + 1] = NULL,
};

enum rota_code rota_log_level_parse(struct rota_str text, enum rota_log_level *level)
{
    for (size_t i = 0; rota_log_level_names[i]; i++) {
        if (rota_str_is_equal(text, rota_str(rota_log_level_names[i]))) {
            *level = (enum rota_log_level)i;
            return ROTA_OK;
        }
    }
    return ROTA_ERR_INVALID;
}

static const char CUT[] = " cut=true";

/* A line while it is written. There is always room after it for the mark that something was cut,
 * and the newline. */
struct line {
    char *text;
    size_t size;
};

/* False, and nothing is done, when it does not fit. */
static bool append_text(struct line *line, struct rota_str str)
{
    if (line->size + str.size + sizeof CUT > ROTA_LOG_LINE_MAX)
        return false;
    memcpy(line->text + line->size, str.data, str.size);
    line->size += str.size;
    return true;
}

static bool is_plain(struct rota_str str)
{
    for (size_t i = 0; i < str.size && i < ROTA_LOG_VALUE_MAX; i++) {
        unsigned char c = (unsigned char)str.data[i];
        if (c <= ' ' || c >= 0x7f || c == '"' || c == '=' || c == '\\')
            return false;
    }
    return str.size > 0 && str.size <= ROTA_LOG_VALUE_MAX;
}

/* A text as it is when it is plain, else in quotation marks. */
static bool append_value(struct line *line, struct rota_str value)
{
    if (is_plain(value))
        return append_text(line, value);

    struct line quoted = *line;
    bool fits = append_text(&quoted, rota_str("\""));
    while (fits && value.size > 0) {
        char piece[ROTA_QUOTE_PIECE_MAX];
        size_t size = rota_quote_next(&value, piece);
        bool is_long = quoted.size - line->size + size > ROTA_LOG_VALUE_MAX;
        fits = append_text(&quoted, is_long ? rota_str("...") : rota_str_of(piece, size));
        if (is_long)
            break;
    }
    if (!fits || !append_text(&quoted, rota_str("\"")))
        return false;
    line->size = quoted.size;
    return true;
}

static struct rota_str format_value(const struct rota_log_fact *fact, char text[64])
{
    switch (fact->type) {
    case ROTA_LOG_TYPE_STR:
        return fact->as_str;
    case ROTA_LOG_TYPE_INT:
        snprintf(text, 64, "%lld", (long long)fact->as_int);
        break;
    case ROTA_LOG_TYPE_UINT:
        snprintf(text, 64, "%llu", (unsigned long long)fact->as_uint);
        break;
    case ROTA_LOG_TYPE_DOUBLE:
        return rota_str(rota_decimal_format(fact->as_double, text));
    case ROTA_LOG_TYPE_BOOL:
        return rota_str(fact->as_bool ? "true" : "false");
    case ROTA_LOG_TYPE_SPAN:
        return rota_str(rota_span_format(fact->as_int, text));
    case ROTA_LOG_TYPE_TIME:
        return rota_str(rota_time_format(fact->as_int, text));
    }
    return rota_str(text);
}

/* A fact is written as a whole or not at all. */
static bool append_fact(struct line *line, const struct rota_log_fact *fact)
{
    char text[64];
    struct line longer = *line;
    if (!append_text(&longer, rota_str(" ")) || !append_text(&longer, rota_str(fact->name)) ||
        !append_text(&longer, rota_str("=")) || !append_value(&longer, format_value(fact, text)))
        return false;
    line->size = longer.size;
    return true;
}

struct rota_str rota_log_format(rota_time now, enum rota_log_level level, const char *phrase,
                                const struct rota_log_fact *facts, size_t n_facts,
                                char text[ROTA_LOG_LINE_MAX])
{
    struct line line = {.text = text};
    char time[ROTA_TIME_TEXT_MAX];
    bool is_whole = true;

    /* All times have one width, so that columns align and lines sort as text. */
    rota_time fraction = (now % ROTA_SEC + ROTA_SEC) % ROTA_SEC;
    size_t size = strlen(rota_time_format(now - fraction, time)) - 1; /* "...:53Z" */
    line.size = (size_t)snprintf(text, ROTA_LOG_LINE_MAX, "ts=%.*s.%06dZ level=%s msg=", (int)size,
                                 time, (int)(fraction / ROTA_USEC), rota_log_level_names[level]);
    append_value(&line, rota_str(phrase));
    for (size_t i = 0; i < n_facts; i++)
        if (facts[i].name && !append_fact(&line, &facts[i]))
            is_whole = false;
    if (!is_whole) {
        memcpy(text + line.size, CUT, sizeof CUT - 1);
        line.size += sizeof CUT - 1;
    }
    text[line.size++] = '\n';
    return rota_str_of(text, line.size);
}

void rota_log_write(const struct rota_log *log, rota_time now, enum rota_log_level level,
                    const char *phrase, const struct rota_log_fact *facts, size_t n_facts)
{
    char line[ROTA_LOG_LINE_MAX];
    log->write(log->data, rota_log_format(now, level, phrase, facts, n_facts, line));
}
