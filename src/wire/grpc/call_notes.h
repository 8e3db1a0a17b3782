/* call_notes: the metadata of a call to a shard.
 *
 *     rota-shard: books/0           in a request: the space and the shard it is for,
 *     rota-epoch: 7                 and the epoch of the claim it was routed by
 *     rota-cost: 1500 1200 3        in a reply: response and service time in
 *                                   microseconds, work that still waits in the queue
 *     rota-failure: stale           in a rejection: its class, see core/call/failure.h
 *     rota-claim: 12 8 host:7000    in a stale rejection: node, epoch and address of
 *                                   the current leader of the shard
 *
 * Numbers are decimal without sign, one blank between them. core/own/shard_note.h has the text of a
 * shard. A note that can't be read is ignored: it is optional, except for a method that requires
 * it. */
#pragma once

#include <rota/experimental/balancer.h>
#include <rota/experimental/shard.h>

#define ROTA_NOTE_SHARD   "rota-shard"
#define ROTA_NOTE_EPOCH   "rota-epoch"
#define ROTA_NOTE_COST    "rota-cost"
#define ROTA_NOTE_FAILURE "rota-failure"
#define ROTA_NOTE_CLAIM   "rota-claim"

enum {
    ROTA_NOTE_NUMBER_MAX = 24, /* room for a number, with its NUL */
    ROTA_NOTE_COST_MAX = 3 * ROTA_NOTE_NUMBER_MAX,
    ROTA_NOTE_CLAIM_MAX = 2 * ROTA_NOTE_NUMBER_MAX + ROTA_SHARD_NAME_MAX,
};

/* Write a cost, numbers below 0 as 0. Returns `text`. */
char *rota_call_notes_format_cost(const struct rota_cost *cost, char text[ROTA_NOTE_COST_MAX]);

/* False, without effect, when it is not a cost. */
bool rota_call_notes_parse_cost(struct rota_str text, struct rota_cost *cost);

/* Write a claim, whose address is of printable ASCII and not longer than
 * ROTA_SHARD_NAME_MAX. Returns `text`. */
char *rota_call_notes_format_claim(int64_t node, uint64_t epoch, struct rota_str address,
                                   char text[ROTA_NOTE_CLAIM_MAX]);

/* The address of the claim points into `text`; a rejection with a claim implies that its holder
 * is serviceable. */
bool rota_call_notes_parse_claim(struct rota_str text, struct rota_replica *claim);

bool rota_call_notes_parse_epoch(struct rota_str text, uint64_t *epoch);
