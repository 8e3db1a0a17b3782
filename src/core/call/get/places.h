/* places: which connections a server keeps when more arrive than it has places for.
 *
 * Each peer address may hold a share of all places, so that one machine cannot shut out the others.
 * A server may also set a few places in reserve: a connection beyond its share, or beyond all
 * places, gets one of them, for short requests only, such as health checks. The reserve is never
 * full: the oldest connection in it makes room for the next one.
 *
 * A peer is a key of a few bytes: an IPv4 address, or the first half of an IPv6 address, since a
 * machine usually has a whole network of the latter. */
#pragma once

#include "base/map.h"

#include <rota/time.h>

enum { ROTA_PLACES_KEY_MAX = 8 }; /* bytes of a key; longer ones are cut */

#define ROTA_REFUSALS_EVERY (10 * ROTA_SEC) /* at most one log line per reason in this time */

struct rota_places {
    uint32_t max, peer_max, reserve;
    uint32_t n, n_reserved; /* taken */
    struct rota_map peers;  /* places taken, by peer */
};

enum rota_place {
    ROTA_PLACE_GIVEN,
    ROTA_PLACE_RESERVED,  /* from the reserve */
    ROTA_PLACE_PEER_FULL, /* none: the peer has its share */
    ROTA_PLACE_ALL_FULL,  /* none at all */
    ROTA_PLACE_OUT_OF_MEMORY,
};

/* `peer_max` 0 means half of `max`, and at least one. `seed` is for the table of peers. */
void rota_places_init(struct rota_places *places, uint32_t max, uint32_t peer_max, uint32_t reserve,
                      uint64_t seed);
void rota_places_deinit(struct rota_places *places);

/* A connection of `peer` has arrived. `*refused` says why it got no ordinary place; GIVEN if it
 * did. Return GIVEN and RESERVED places with the same key. */
enum rota_place rota_places_take(struct rota_places *places, struct rota_str peer,
                                 enum rota_place *refused);
void rota_places_give_back(struct rota_places *places, struct rota_str peer, enum rota_place place);

/* More connections are in the reserve than it has places: close the oldest of them. */
bool rota_places_is_over_reserve(const struct rota_places *places);

/* Refusals of one kind, to be logged at a limited rate. */
struct rota_refusals {
    uint64_t n; /* since the last line */
    rota_time logged_at;
    bool has_logged;
};

/* Count one more. True when it is time for a log line, which then reports their number: `*n`. */
bool rota_places_note_refusal(struct rota_refusals *refusals, rota_time now, uint64_t *n);
