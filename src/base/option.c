#include "base/option.h"

#include "base/quote.h"

#include <assert.h>
#include <stdio.h>

size_t rota_option_size(enum rota_option_type type)
{
    switch (type) {
    case ROTA_OPTION_FLAG:
        return sizeof(bool);
    case ROTA_OPTION_INT:
        return sizeof(int64_t);
    case ROTA_OPTION_SPAN:
    case ROTA_OPTION_TIME:
        return sizeof(rota_time);
    case ROTA_OPTION_TEXT:
        return sizeof(const char *);
    case ROTA_OPTION_CHOICE:
        return sizeof(int);
    case ROTA_OPTION_LIST:
        return sizeof(struct rota_option_list);
    }
    return 0;
}

/* --- limits --- */

static bool has_bounds(const struct rota_option *option)
{
    return option->min != 0 || option->max != 0;
}

static bool is_in_bounds(const struct rota_option *option, int64_t number)
{
    return !has_bounds(option) || (option->min <= number && number <= option->max);
}

/* A number the way the user would write it. */
static char *format_number(const struct rota_option *option, int64_t number,
                           char text[ROTA_TIME_TEXT_MAX])
{
    if (option->type == ROTA_OPTION_SPAN)
        return rota_span_format(number, text);
    if (option->type == ROTA_OPTION_TIME)
        return rota_time_format(number, text);
    snprintf(text, ROTA_TIME_TEXT_MAX, "%lld", (long long)number);
    return text;
}

static void format_choices(const char *const *choices, char text[ROTA_OPTION_LIMITS_MAX])
{
    size_t size = 0;
    for (size_t i = 0; choices[i]; i++) {
        int added =
            snprintf(text + size, ROTA_OPTION_LIMITS_MAX - size, "%s%s", i ? ", " : "", choices[i]);
        assert(added >= 0 && (size_t)added < ROTA_OPTION_LIMITS_MAX - size);
        size += (size_t)added;
    }
}

char *rota_option_format_limits(const struct rota_option *option, char text[ROTA_OPTION_LIMITS_MAX])
{
    char min[ROTA_TIME_TEXT_MAX], max[ROTA_TIME_TEXT_MAX];
    bool is_text = option->type == ROTA_OPTION_TEXT || option->type == ROTA_OPTION_LIST;
    const char *unit = is_text ? " bytes" : "";

    text[0] = '\0';
    if (option->type == ROTA_OPTION_CHOICE) {
        format_choices(option->choices, text);
        return text;
    }
    if (!has_bounds(option))
        return text;
    format_number(option, option->min, min);
    format_number(option, option->max, max);
    if (option->max == INT64_MAX)
        snprintf(text, ROTA_OPTION_LIMITS_MAX, "%s%s or more", min, unit);
    else if (option->min == INT64_MIN)
        snprintf(text, ROTA_OPTION_LIMITS_MAX, "%s%s or less", max, unit);
    else
        snprintf(text, ROTA_OPTION_LIMITS_MAX, "%s to %s%s", min, max, unit);
    return text;
}

/* Reject with `<what> <why> (<limits>)`. */
static enum rota_code reject_value(const struct rota_option *option, const char *what,
                                   const char *why, struct rota_error *error)
{
    char limits[ROTA_OPTION_LIMITS_MAX];
    if (*rota_option_format_limits(option, limits))
        return rota_error_set(error, ROTA_ERR_INVALID, "%s %s (%s)", what, why, limits);
    return rota_error_set(error, ROTA_ERR_INVALID, "%s %s", what, why);
}

/* --- values --- */

static bool is_whole_number(struct rota_str text)
{
    size_t start = text.size > 0 && text.data[0] == '-';
    for (size_t i = start; i < text.size; i++)
        if (text.data[i] < '0' || text.data[i] > '9')
            return false;
    return text.size > start;
}

/* False when it does not fit. */
static bool read_whole_number(struct rota_str text, int64_t *number)
{
    bool is_negative = text.data[0] == '-';
    *number = 0;
    for (size_t i = is_negative; i < text.size; i++) {
        int digit = text.data[i] - '0';
        if (__builtin_mul_overflow(*number, 10, number) ||
            __builtin_add_overflow(*number, is_negative ? -digit : digit, number))
            return false;
    }
    return true;
}

static enum rota_code parse_number(const struct rota_option *option, struct rota_str text,
                                   int64_t *field, struct rota_error *error)
{
    char quoted[ROTA_QUOTE_MAX], shown[ROTA_TIME_TEXT_MAX];
    int64_t number;

    if (option->type == ROTA_OPTION_INT && !is_whole_number(text))
        return reject_value(option, rota_quote(text, quoted), "is not a whole number", error);
    if (option->type == ROTA_OPTION_INT && !read_whole_number(text, &number))
        return reject_value(option, rota_quote(text, quoted), "is out of bounds", error);
    if (option->type == ROTA_OPTION_SPAN && rota_span_parse(text, &number))
        return reject_value(option, rota_quote(text, quoted),
                            "is not a duration such as 500ms, 10s or 1h30m", error);
    if (option->type == ROTA_OPTION_TIME && rota_time_parse(text, &number))
        return reject_value(option, rota_quote(text, quoted),
                            "is not a time such as 2026-01-31T12:00:00Z or Unix seconds", error);
    if (!is_in_bounds(option, number))
        return reject_value(option, format_number(option, number, shown), "is out of bounds",
                            error);
    *field = number;
    return ROTA_OK;
}

static enum rota_code parse_flag(struct rota_str text, bool *field, struct rota_error *error)
{
    char quoted[ROTA_QUOTE_MAX];
    bool is_true = rota_str_is_equal(text, rota_str("true"));
    if (!is_true && !rota_str_is_equal(text, rota_str("false")))
        return rota_error_set(error, ROTA_ERR_INVALID, "%s is neither true nor false",
                              rota_quote(text, quoted));
    *field = is_true;
    return ROTA_OK;
}

static enum rota_code parse_choice(const struct rota_option *option, struct rota_str text,
                                   int *field, struct rota_error *error)
{
    char quoted[ROTA_QUOTE_MAX], limits[ROTA_OPTION_LIMITS_MAX];
    int i = 0;
    while (option->choices[i] && !rota_str_is_equal(text, rota_str(option->choices[i])))
        i++;
    if (option->choices[i]) {
        *field = i;
        return ROTA_OK;
    }
    return rota_error_set(error, ROTA_ERR_INVALID, "%s is not one of %s", rota_quote(text, quoted),
                          rota_option_format_limits(option, limits));
}

/* A NUL inside would hide what follows it from the reader of the text. */
static enum rota_code check_text(const struct rota_option *option, struct rota_str text,
                                 struct rota_error *error)
{
    char quoted[ROTA_QUOTE_MAX];
    if (text.size > 0 && memchr(text.data, '\0', text.size))
        return reject_value(option, rota_quote(text, quoted), "contains a NUL byte", error);
    if (!is_in_bounds(option, (int64_t)text.size))
        return reject_value(option, rota_quote(text, quoted),
                            text.size == 0                     ? "is empty"
                            : (int64_t)text.size < option->min ? "is too short"
                                                               : "is too long",
                            error);
    return ROTA_OK;
}

static enum rota_code parse_item(const struct rota_option *option, struct rota_str text,
                                 struct rota_option_list *list, struct rota_error *error)
{
    enum rota_code code = check_text(option, text, error);
    if (code)
        return code;
    if (list->size == ROTA_OPTION_LIST_MAX)
        return rota_error_set(error, ROTA_ERR_LIMIT, "more than %d values", ROTA_OPTION_LIST_MAX);
    list->items[list->size++] = text.data;
    return ROTA_OK;
}

enum rota_code rota_option_parse_value(const struct rota_option *option, struct rota_str text,
                                       void *field, struct rota_error *error)
{
    enum rota_code code = ROTA_OK;
    assert(option->min <= option->max);

    switch (option->type) {
    case ROTA_OPTION_FLAG:
        return parse_flag(text, field, error);
    case ROTA_OPTION_INT:
    case ROTA_OPTION_SPAN:
    case ROTA_OPTION_TIME:
        return parse_number(option, text, field, error);
    case ROTA_OPTION_TEXT:
        if (!(code = check_text(option, text, error)))
            *(const char **)field = text.data;
        break;
    case ROTA_OPTION_CHOICE:
        return parse_choice(option, text, field, error);
    case ROTA_OPTION_LIST:
        return parse_item(option, text, field, error);
    }
    return code;
}
