/* http_target: the path and the query of an HTTP request, taken apart.
 *
 *     /api/v1/queues/mail%2Fnew/jobs?state=dead&after=7
 *
 * has the parts "api", "v1", "queues", "mail/new", "jobs" and the pairs state = dead and after = 7.
 * Escapes are decoded after splitting, so that a name may contain a slash; a + of the query is a
 * space.
 *
 * Invariants: parts and values are UTF-8 without NUL and control characters; there is no part
 * "." or "..", and an empty one only at the end of "/", which has none at all. */
#pragma once

#include <rota/error.h>
#include <rota/str.h>
#include <stdbool.h>
#include <stddef.h>

enum {
    ROTA_HTTP_TARGET_SIZE_MAX = 8192, /* bytes of all */
    ROTA_HTTP_TARGET_PARTS_MAX = 16,
    ROTA_HTTP_TARGET_PAIRS_MAX = 32,
};

struct rota_http_pair {
    struct rota_str name, value;
};

struct rota_http_target {
    struct rota_str parts[ROTA_HTTP_TARGET_PARTS_MAX];
    size_t n_parts;
    struct rota_http_pair pairs[ROTA_HTTP_TARGET_PAIRS_MAX];
    size_t n_pairs;
    char text[ROTA_HTTP_TARGET_SIZE_MAX]; /* what all of it points into */
};

/* Fill `*target`, which must not be moved. ROTA_ERR_INVALID comes with the reason. */
enum rota_code rota_http_target_parse(struct rota_str text, struct rota_http_target *target,
                                      struct rota_error *error);

/* The first value of this name; false when there is none. */
bool rota_http_target_find(const struct rota_http_target *target, const char *name,
                           struct rota_str *value);
