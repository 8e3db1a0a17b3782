/* call_notes: what travels beside the messages of a call to a shard.
 *
 *     rota-epoch: 7                 the claim that the client routed by, in a request
 *     rota-cost: 1500 1200 3        in a reply: response and service time in
 *                                   microseconds, work that still waits
 *     rota-failure: stale           in a refusal: its class, see core/call/failure.h
 *     rota-claim: 12 8 host:7000    in a stale refusal: node, epoch and address of
 *                                   who leads the shard now
 *
 * Numbers are decimal without sign, one blank between them. What can't be read is
 * as good as not there: a note is a help, never a condition. */
#pragma once

#include <rota/balancer.h>
#include <rota/shard.h>

#define ROTA_NOTE_EPOCH   "rota-epoch"
#define ROTA_NOTE_COST    "rota-cost"
#define ROTA_NOTE_FAILURE "rota-failure"
#define ROTA_NOTE_CLAIM   "rota-claim"

enum {
    ROTA_NOTE_NUMBER_MAX = 24, /* room for a number, with its NUL */
    ROTA_NOTE_COST_MAX = 3 * ROTA_NOTE_NUMBER_MAX,
};

/* Write a cost, what is below 0 as 0. Returns `text`. */
char *rota_note_format_cost(const struct rota_cost *cost, char text[ROTA_NOTE_COST_MAX]);

/* False, and nothing done, when it is no cost. */
bool rota_note_parse_cost(struct rota_str text, struct rota_cost *cost);

/* The address of the claim points into `text`; who refuses with a claim says
 * that its holder is serviceable. */
bool rota_note_parse_claim(struct rota_str text, struct rota_replica *claim);
