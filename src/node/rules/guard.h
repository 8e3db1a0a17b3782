/* guard: which HTTP requests a node accepts.
 *
 * Every client that can reach the node may read; a change needs the node's token. Any page that
 * a user visits can make the browser send requests, so being reachable from this machine alone
 * is not a protection: a request must name this node as its host (which a page that points its
 * own name at 127.0.0.1 can't fake), and a change must not come from a page of another origin.
 * The token is a header that browsers never send by themselves; there are no cookies. A preview
 * is requested like a change, and needs no token unless it is large (node_plan_rules.h): it changes
 * nothing. */
#pragma once

#include <rota/str.h>
#include <stdbool.h>
#include <stddef.h>

enum { ROTA_GUARD_TOKEN_SIZE = 43 }; /* letters, digits, '-' and '_': 256 bits */

struct rota_guard {
    struct rota_str token;        /* empty: nothing can be changed */
    const struct rota_str *names; /* of this node, in addition to loopback: "host" or "host:port" */
    size_t n_names;
};

/* Header fields as received; empty: none. */
struct rota_guard_request {
    bool is_change;
    bool is_preview; /* of a change: it only reads */
    bool has_body;
    struct rota_str host, origin, authorization, content_type;
};

enum rota_guard_verdict {
    ROTA_GUARD_ALLOWED,
    ROTA_GUARD_WRONG_HOST,   /* it is not addressed to this node */
    ROTA_GUARD_WRONG_ORIGIN, /* a page of another origin asks */
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

/* Make a token of 32 random bytes. Returns `token`, with a NUL. */
char *rota_guard_token(const unsigned char chance[32], char token[ROTA_GUARD_TOKEN_SIZE + 1]);
