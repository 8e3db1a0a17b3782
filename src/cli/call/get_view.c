#include "cli/call/get_view.h"

#include "base/json.h"
#include "base/quote.h"
#include "cli/cli.h"
#include "wire/text/pairs_file.h"

#include <stdio.h>

enum { NAMED_MAX = 3 }; /* keys that a sentence has room for */

static const char *const STATES[] = {[ROTA_GET_KEY_MISSING] = "missing",
                                     [ROTA_GET_KEY_FOUND] = "found",
                                     [ROTA_GET_KEY_ABSENT] = "absent"};

static double as_ms(rota_time span)
{
    rota_time us = span / ROTA_USEC;
    return (double)us / 1000;
}

/* --- JSON --- */

static void append_item_json(struct rota_str key, const struct rota_get_item *item,
                             struct rota_buffer *buffer)
{
    struct rota_json json = {.buffer = buffer};
    rota_json_begin_object(&json);
    rota_cli_add_bytes(&json, "key", "key_base64", key);
    rota_json_add_text(&json, "state", STATES[item->state]);
    if (item->state == ROTA_GET_KEY_FOUND)
        rota_cli_add_bytes(&json, "value", "value_base64", item->value);
    if (item->state == ROTA_GET_KEY_MISSING) {
        rota_json_add_text(&json, "reason", item->reason);
    } else {
        rota_json_add_string(&json, "host", item->host);
        rota_json_add_double(&json, "elapsed_ms", as_ms(item->elapsed));
    }
    rota_json_end_object(&json);
    rota_buffer_append_char(buffer, '\n');
}

static void add_try(struct rota_json *json, const struct rota_get_try *try)
{
    rota_json_begin_object(json);
    rota_json_add_string(json, "host", try->host);
    rota_json_add_string(json, "dc", try->dc);
    rota_json_add_uint(json, "keys", try->n_keys);
    rota_json_add_double(json, "started_ms", as_ms(try->started));
    rota_json_add_double(json, "elapsed_ms", as_ms(try->elapsed));
    rota_json_add_text(json, "outcome", rota_get_outcome_name(try->outcome));
    rota_json_add_string(json, "text", try->text);
    rota_json_end_object(json);
}

static void append_tries_json(const struct rota_get_result *result, struct rota_buffer *buffer)
{
    struct rota_json json = {.buffer = buffer};
    rota_json_begin_object(&json);
    rota_json_add_double(&json, "elapsed_ms", as_ms(result->elapsed));
    rota_json_add_array(&json, "tries");
    for (size_t i = 0; i < result->n_tries; i++)
        add_try(&json, &result->tries[i]);
    rota_json_end_array(&json);
    rota_json_end_object(&json);
    rota_buffer_append_char(buffer, '\n');
}

/* --- text --- */

static void append_item(const struct rota_get_view_options *options, struct rota_str key,
                        const struct rota_get_item *item, struct rota_buffer *buffer)
{
    bool is_found = item->state == ROTA_GET_KEY_FOUND;
    if (!is_found && !options->explains)
        return;
    rota_pairs_file_escape(key, buffer);
    rota_buffer_append_char(buffer, '\t');
    if (is_found)
        rota_pairs_file_escape(item->value, buffer);
    if (options->explains) {
        rota_buffer_print(buffer, "\t%s\t", STATES[item->state]);
        if (item->state == ROTA_GET_KEY_MISSING)
            rota_pairs_file_escape(rota_str(item->reason), buffer);
        else
            rota_buffer_print(buffer, "%.*s\t%.3fms", ROTA_STR_ARGS(item->host),
                              as_ms(item->elapsed));
    }
    rota_buffer_append_char(buffer, '\n');
}

static void append_tries(const struct rota_get_result *result, struct rota_buffer *buffer)
{
    for (size_t i = 0; i < result->n_tries; i++) {
        const struct rota_get_try *try = &result->tries[i];
        rota_buffer_print(buffer, "%.*s\t%.*s\t%zu key%s\tat %.3fms\tfor %.3fms\t%s",
                          ROTA_STR_ARGS(try->host), ROTA_STR_ARGS(try->dc), try->n_keys,
                          try->n_keys == 1 ? "" : "s", as_ms(try->started), as_ms(try->elapsed),
                          rota_get_outcome_name(try->outcome));
        if (try->text.size > 0)
            rota_buffer_append_text(buffer, ": ");
        rota_pairs_file_escape(try->text, buffer);
        rota_buffer_append_char(buffer, '\n');
    }
}

void rota_get_view_append(const struct rota_get_view_options *options, const struct rota_str *keys,
                          const struct rota_get_result *result, struct rota_buffer *buffer)
{
    for (size_t i = 0; i < result->n_items; i++) {
        const struct rota_get_item *item = &result->items[i];
        if (options->is_raw)
            rota_buffer_append_str(buffer,
                                   item->state == ROTA_GET_KEY_FOUND ? item->value : rota_str(""));
        else if (options->is_json)
            append_item_json(keys[i], item, buffer);
        else
            append_item(options, keys[i], item, buffer);
    }
    if (options->explains && options->is_json)
        append_tries_json(result, buffer);
    else if (options->explains && result->n_tries > 0) {
        rota_buffer_append_char(buffer, '\n');
        append_tries(result, buffer);
    }
}

/* --- keys without a value --- */

/* Name the first few keys in this state. Returns how many keys are in it. */
static size_t name_keys(const struct rota_str *keys, const struct rota_get_result *result,
                        enum rota_get_state state, struct rota_buffer *names)
{
    char quoted[ROTA_QUOTE_MAX];
    size_t n = 0;
    for (size_t i = 0; i < result->n_items; i++) {
        if (result->items[i].state != state)
            continue;
        if (n < NAMED_MAX)
            rota_buffer_print(names, "%s%s", n ? ", " : "", rota_quote(keys[i], quoted));
        else if (n == NAMED_MAX)
            rota_buffer_append_text(names, ", ...");
        n++;
    }
    return n;
}

bool rota_get_view_problem(const struct rota_str *keys, const struct rota_get_result *result,
                           struct rota_error *error)
{
    struct rota_buffer names = {0};
    size_t n_absent = name_keys(keys, result, ROTA_GET_KEY_ABSENT, &names);
    if (result->n_missing > 0 || result->code) {
        const char *reason = result->text;
        rota_buffer_clear(&names);
        name_keys(keys, result, ROTA_GET_KEY_MISSING, &names);
        for (size_t i = 0; i < result->n_items; i++)
            if (result->items[i].state == ROTA_GET_KEY_MISSING && result->items[i].reason)
                reason = result->items[i].reason;
        rota_error_set(error, ROTA_ERR_UNAVAILABLE, "no answer for %zu of %zu keys (%.*s): %s",
                       result->n_missing, result->n_items, ROTA_STR_ARGS(rota_buffer_str(&names)),
                       reason);
    } else if (n_absent > 0) {
        rota_error_set(error, ROTA_ERR_UNAVAILABLE, "%zu of %zu keys have no value: %.*s", n_absent,
                       result->n_items, ROTA_STR_ARGS(rota_buffer_str(&names)));
    }
    rota_buffer_deinit(&names);
    return result->n_missing > 0 || result->code || n_absent > 0;
}
