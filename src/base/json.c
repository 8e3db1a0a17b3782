#include "base/json.h"

#include "base/decimal.h"
#include "base/quote.h"

#include <assert.h>
#include <math.h>

static uint64_t depth_bit(const struct rota_json *json)
{
    return (uint64_t)1 << (json->depth - 1);
}

/* The next value is an item of the open container: separate it from the last one. */
static void separate_item(struct rota_json *json)
{
    if (json->depth == 0)
        return;
    if (json->has_items & depth_bit(json))
        rota_buffer_append_char(json->buffer, ',');
    json->has_items |= depth_bit(json);
}

static void begin_value(struct rota_json *json)
{
    bool is_member = json->depth > 0 && (json->is_object & depth_bit(json));
    assert(is_member == json->has_key);
    if (!is_member)
        separate_item(json);
    json->has_key = false;
}

static void begin_container(struct rota_json *json, bool is_object)
{
    assert(json->depth < ROTA_JSON_DEPTH_MAX);
    begin_value(json);
    json->depth++;
    json->has_items &= ~depth_bit(json);
    json->is_object &= ~depth_bit(json);
    if (is_object)
        json->is_object |= depth_bit(json);
    rota_buffer_append_char(json->buffer, is_object ? '{' : '[');
}

static void end_container(struct rota_json *json, bool is_object)
{
    assert(json->depth > 0 && !json->has_key);
    assert(is_object == ((json->is_object & depth_bit(json)) != 0));
    json->depth--;
    rota_buffer_append_char(json->buffer, is_object ? '}' : ']');
}

void rota_json_begin_object(struct rota_json *json)
{
    begin_container(json, true);
}

void rota_json_end_object(struct rota_json *json)
{
    end_container(json, true);
}

void rota_json_begin_array(struct rota_json *json)
{
    begin_container(json, false);
}

void rota_json_end_array(struct rota_json *json)
{
    end_container(json, false);
}

/* Most texts are plain, and copied in one piece. */
static size_t plain_size(struct rota_str text)
{
    size_t size = 0;
    while (size < text.size && text.data[size] >= 0x20 && text.data[size] < 0x7f &&
           text.data[size] != '"' && text.data[size] != '\\')
        size++;
    return size;
}

static void append_quoted(struct rota_buffer *buffer, struct rota_str text)
{
    rota_buffer_append_char(buffer, '"');
    while (text.size > 0) {
        char piece[ROTA_QUOTE_PIECE_MAX];
        size_t size = plain_size(text);
        if (size > 0) {
            rota_buffer_append(buffer, text.data, size);
            text = rota_str_of(text.data + size, text.size - size);
        } else {
            size = rota_quote_next(&text, piece);
            rota_buffer_append(buffer, piece, size);
        }
    }
    rota_buffer_append_char(buffer, '"');
}

void rota_json_key(struct rota_json *json, const char *key)
{
    rota_json_key_str(json, rota_str(key));
}

void rota_json_key_str(struct rota_json *json, struct rota_str key)
{
    assert(json->depth > 0 && (json->is_object & depth_bit(json)) && !json->has_key);
    separate_item(json);
    append_quoted(json->buffer, key);
    rota_buffer_append_char(json->buffer, ':');
    json->has_key = true;
}

void rota_json_string(struct rota_json *json, struct rota_str value)
{
    begin_value(json);
    append_quoted(json->buffer, value);
}

void rota_json_text(struct rota_json *json, const char *value)
{
    if (value)
        rota_json_string(json, rota_str(value));
    else
        rota_json_null(json);
}

void rota_json_int(struct rota_json *json, int64_t value)
{
    char text[21] = "-";
    char *from = value < 0 ? text + 1 : text;
    uint64_t size = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    begin_value(json);
    rota_buffer_append(json->buffer, text, (size_t)(rota_decimal_put(from, size) - text));
}

void rota_json_uint(struct rota_json *json, uint64_t value)
{
    char
        text[20]; /* documents of large spaces are made of these: printf takes four times as long */
    begin_value(json);
    rota_buffer_append(json->buffer, text, (size_t)(rota_decimal_put(text, value) - text));
}

void rota_json_bool(struct rota_json *json, bool value)
{
    begin_value(json);
    rota_buffer_append_text(json->buffer, value ? "true" : "false");
}

void rota_json_null(struct rota_json *json)
{
    begin_value(json);
    rota_buffer_append_text(json->buffer, "null");
}

void rota_json_double(struct rota_json *json, double value)
{
    char text[ROTA_DECIMAL_TEXT_MAX];
    if (!isfinite(value)) {
        rota_json_null(json);
        return;
    }
    begin_value(json);
    rota_buffer_append_text(json->buffer, rota_decimal_format(value, text));
}

void rota_json_raw(struct rota_json *json, struct rota_str value)
{
    begin_value(json);
    rota_buffer_append_str(json->buffer, value);
}

void rota_json_add_string(struct rota_json *json, const char *key, struct rota_str value)
{
    rota_json_key(json, key);
    rota_json_string(json, value);
}

void rota_json_add_text(struct rota_json *json, const char *key, const char *value)
{
    rota_json_key(json, key);
    rota_json_text(json, value);
}

void rota_json_add_int(struct rota_json *json, const char *key, int64_t value)
{
    rota_json_key(json, key);
    rota_json_int(json, value);
}

void rota_json_add_uint(struct rota_json *json, const char *key, uint64_t value)
{
    rota_json_key(json, key);
    rota_json_uint(json, value);
}

void rota_json_add_bool(struct rota_json *json, const char *key, bool value)
{
    rota_json_key(json, key);
    rota_json_bool(json, value);
}

void rota_json_add_double(struct rota_json *json, const char *key, double value)
{
    rota_json_key(json, key);
    rota_json_double(json, value);
}

void rota_json_add_object(struct rota_json *json, const char *key)
{
    rota_json_key(json, key);
    rota_json_begin_object(json);
}

void rota_json_add_array(struct rota_json *json, const char *key)
{
    rota_json_key(json, key);
    rota_json_begin_array(json);
}

void rota_json_add_strings(struct rota_json *json, const char *key, const struct rota_str *values,
                           size_t n)
{
    rota_json_add_array(json, key);
    for (size_t i = 0; i < n; i++)
        rota_json_string(json, values[i]);
    rota_json_end_array(json);
}
