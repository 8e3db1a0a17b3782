#include "core/call/get/places.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

struct peer {
    uint32_t n;
    uint8_t size;
    char key[ROTA_PLACES_KEY_MAX];
};

void rota_places_init(struct rota_places *places, uint32_t max, uint32_t peer_max, uint32_t reserve,
                      uint64_t seed)
{
    uint32_t share = peer_max ? peer_max : (max + 1) / 2;
    *places = (struct rota_places){.max = max, .peer_max = share, .reserve = reserve};
    rota_map_init(&places->peers, seed);
}

void rota_places_deinit(struct rota_places *places)
{
    rota_map_deinit_values(&places->peers);
}

static struct rota_str cut_key(struct rota_str key)
{
    return rota_str_of(key.data, key.size < ROTA_PLACES_KEY_MAX ? key.size : ROTA_PLACES_KEY_MAX);
}

static struct peer *make_peer(struct rota_places *places, struct rota_str key)
{
    struct peer *peer = calloc(1, sizeof *peer);
    if (!peer)
        return NULL;
    peer->size = (uint8_t)key.size;
    if (key.size > 0)
        memcpy(peer->key, key.data, key.size);
    if (rota_map_put(&places->peers, rota_str_of(peer->key, peer->size), peer))
        return peer;
    free(peer);
    return NULL;
}

static enum rota_place take_ordinary(struct rota_places *places, struct rota_str key)
{
    struct peer *peer = rota_map_get(&places->peers, key);
    if (places->n >= places->max)
        return ROTA_PLACE_ALL_FULL;
    if (peer && peer->n >= places->peer_max)
        return ROTA_PLACE_PEER_FULL;
    if (!peer && !(peer = make_peer(places, key)))
        return ROTA_PLACE_OUT_OF_MEMORY;
    peer->n++;
    places->n++;
    return ROTA_PLACE_GIVEN;
}

enum rota_place rota_places_take(struct rota_places *places, struct rota_str peer,
                                 enum rota_place *refused)
{
    *refused = take_ordinary(places, cut_key(peer));
    if (*refused == ROTA_PLACE_GIVEN || places->reserve == 0)
        return *refused;
    places->n_reserved++;
    return ROTA_PLACE_RESERVED;
}

void rota_places_give_back(struct rota_places *places, struct rota_str peer, enum rota_place place)
{
    if (place == ROTA_PLACE_RESERVED) {
        assert(places->n_reserved > 0);
        places->n_reserved--;
        return;
    }
    struct peer *found = rota_map_get(&places->peers, cut_key(peer));
    assert(place == ROTA_PLACE_GIVEN && found && places->n > 0);
    places->n--;
    if (--found->n == 0) {
        rota_map_remove(&places->peers, cut_key(peer));
        free(found);
    }
}

bool rota_places_is_over_reserve(const struct rota_places *places)
{
    return places->n_reserved > places->reserve;
}

bool rota_places_note_refusal(struct rota_refusals *refusals, rota_time now, uint64_t *n)
{
    refusals->n++;
    if (refusals->has_logged && now - refusals->logged_at < ROTA_REFUSALS_EVERY)
        return false;
    *n = refusals->n;
    refusals->n = 0;
    refusals->logged_at = now;
    refusals->has_logged = true;
    return true;
}
