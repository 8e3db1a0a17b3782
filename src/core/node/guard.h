/* guard: who may ask a node for what, over HTTP.
 *
 * Everybody who can reach the node may look; a change needs the node's token. A browser can be
 * made to send requests by any page that its user visits, so that being reachable from this
 * machine alone is no protection: a request must be for a name of this node's (which a page that
 * points a name of its own at 127.0.0.1 can't pretend), and a change must not come from a page of
 * somewhere else. The token is a header that no page gets sent by itself; there are no cookies. A
 * preview is asked for as a change is, and needs no token unless it is large (node_plan.h): it
 * changes nothing. */
#pragma once

#include <rota/str.h>
#include <stdbool.h>
#include <stddef.h>

enum { ROTA_GUARD_TOKEN_SIZE = 43 }; /* letters, digits, '-' and '_': 256 bits */

struct rota_guard {
    struct rota_str token;        /* empty: nothing can be changed */
    const struct rota_str *names; /* of this node beside loopback's: "host" or "host:port" */
    size_t n_names;
};

/* Header fields as they came; empty: there is none. */
struct rota_guard_request {
    bool is_change;
    bool is_preview; /* of a change: it only looks */
    bool has_body;
    struct rota_str host, origin, authorization, content_type;
};

enum rota_guard_verdict {
    ROTA_GUARD_ALLOWED,
    ROTA_GUARD_WRONG_HOST,   /* it was not meant for this node */
    ROTA_GUARD_WRONG_ORIGIN, /* a page of somewhere else asks */
    ROTA_GUARD_NO_TOKEN,
    ROTA_GUARD_WRONG_TOKEN,
    ROTA_GUARD_WRONG_TYPE, /* a body that is not JSON: what a form would send */
};

enum rota_guard_verdict rota_guard_judge(const struct rota_guard *guard,
                                         const struct rota_guard_request *request);

/* Only whether a header field of the name Authorization has the token. */
enum rota_guard_verdict rota_guard_judge_token(const struct rota_guard *guard,
                                               struct rota_str authorization);

/* The status of HTTP, and a sentence; of ALLOWED 200 and "". Any thread. */
unsigned rota_guard_status(enum rota_guard_verdict verdict);
const char *rota_guard_text(enum rota_guard_verdict verdict);

/* Make a token of 32 bytes of chance. Returns `token`, with a NUL. */
char *rota_guard_token(const unsigned char chance[32], char token[ROTA_GUARD_TOKEN_SIZE + 1]);
