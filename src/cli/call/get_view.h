/* get_view: what `rota get` prints of a Get. */
#pragma once

#include "base/buffer.h"

#include <rota/experimental/get.h>

struct rota_get_view_options {
    bool is_json, is_raw, explains;
};

/* Append the values of `keys`; with `explains`, also which servers answered and which were
 * asked. */
void rota_get_view_append(const struct rota_get_view_options *options, const struct rota_str *keys,
                          const struct rota_get_result *result, struct rota_buffer *buffer);

/* Print on one line which keys have no value or were not answered. Returns false if all have
 * one. */
bool rota_get_view_problem(const struct rota_str *keys, const struct rota_get_result *result,
                           struct rota_error *error);
