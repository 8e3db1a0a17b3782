/* A JSON writer: compact, on one line, and always well-formed.
 *
 *     struct rota_json json = {.buffer = &buffer};
 *     rota_json_begin_object(&json);
 *     rota_json_key(&json, "host");
 *     rota_json_string(&json, address);
 *     rota_json_end_object(&json);
 *
 * Commas come by themselves. Texts may hold any bytes: see quote.h. Whether
 * memory sufficed is asked of the buffer, once, at the end. Calls that do not
 * fit together (a value without its key, an end without its begin) are our own
 * mistakes and meet an assert. */
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

/* In the fewest digits that read back as the same number; what is not finite
 * becomes null. */
void rota_json_double(struct rota_json *json, double value);
