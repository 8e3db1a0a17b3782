/* A JSON writer: compact, on one line, and always well-formed.
 *
 *     struct rota_json json = {.buffer = &buffer};
 *     rota_json_begin_object(&json);
 *     rota_json_add_string(&json, "host", address);
 *     rota_json_end_object(&json);
 *
 * Commas are automatic. Texts may hold any bytes: see quote.h. Check the buffer for lack of
 * memory once, at the end. Inconsistent calls (a value without its key, an end without its
 * begin) are our own mistakes and fail an assert. */
#pragma once

#include "base/buffer.h"

#include <stdint.h>

enum { ROTA_JSON_DEPTH_MAX = 64 };

struct rota_json {
    struct rota_buffer *buffer; /* kept */
    unsigned depth;             /* how many objects and arrays are open */
    uint64_t is_object;         /* bit by depth: an object, not an array */
    uint64_t has_items;         /* bit by depth: the next item needs a comma */
    bool has_key;               /* a key waits for its value */
};

void rota_json_begin_object(struct rota_json *json);
void rota_json_end_object(struct rota_json *json);
void rota_json_begin_array(struct rota_json *json);
void rota_json_end_array(struct rota_json *json);

void rota_json_key(struct rota_json *json, const char *key);
void rota_json_key_str(struct rota_json *json, struct rota_str key);

void rota_json_string(struct rota_json *json, struct rota_str value);
void rota_json_text(struct rota_json *json, const char *value); /* NULL: null */
void rota_json_int(struct rota_json *json, int64_t value);
void rota_json_uint(struct rota_json *json, uint64_t value);
void rota_json_bool(struct rota_json *json, bool value);
void rota_json_null(struct rota_json *json);

/* A value that is JSON already: as it is. */
void rota_json_raw(struct rota_json *json, struct rota_str value);

/* In the fewest digits that read back as the same number; numbers that are not finite become
 * null. */
void rota_json_double(struct rota_json *json, double value);

/* A key and its value. */
void rota_json_add_string(struct rota_json *json, const char *key, struct rota_str value);
void rota_json_add_text(struct rota_json *json, const char *key, const char *value);
void rota_json_add_int(struct rota_json *json, const char *key, int64_t value);
void rota_json_add_uint(struct rota_json *json, const char *key, uint64_t value);
void rota_json_add_bool(struct rota_json *json, const char *key, bool value);
void rota_json_add_double(struct rota_json *json, const char *key, double value);

/* A key; its value, an object or an array, begins. */
void rota_json_add_object(struct rota_json *json, const char *key);
void rota_json_add_array(struct rota_json *json, const char *key);

/* A key and an array of strings. */
void rota_json_add_strings(struct rota_json *json, const char *key, const struct rota_str *values,
                           size_t n);
