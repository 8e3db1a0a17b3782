#include "vectors.h"

json_t *vectors_load(const char *name)
{
    char path[1024];
    json_error_t error;
    snprintf(path, sizeof path, "%s/%s", TEST_DATA, name);
    json_t *root = json_load_file(path, JSON_ALLOW_NUL, &error);
    if (!root)
        fail_msg("%s:%d: %s", path, error.line, error.text);
    return root;
}

struct rota_str vectors_str(const json_t *object, const char *key)
{
    const json_t *text = json_object_get(object, key);
    if (!json_is_string(text))
        fail_msg("no text under %s", key);
    return rota_str_of(json_string_value(text), json_string_length(text));
}

int64_t vectors_int(const json_t *object, const char *key)
{
    const json_t *number = json_object_get(object, key);
    if (!json_is_integer(number))
        fail_msg("no whole number under %s", key);
    return json_integer_value(number);
}

const json_t *vectors_ring(const json_t *root, struct rota_str id)
{
    const json_t *ring;
    size_t i;
    json_array_foreach (json_object_get(root, "rings"), i, ring)
        if (rota_str_is_equal(vectors_str(ring, "id"), id))
            return ring;
    fail_msg("no ring %.*s", ROTA_STR_ARGS(id));
    return NULL;
}
