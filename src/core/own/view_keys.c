#include "core/own/view_keys.h"

#include <assert.h>
#include <stdlib.h>

uint32_t rota_view_keys_lookup(const void *key, const struct rota_ring *ring)
{
    return rota_ring_lookup(ring, *(const struct rota_str *)key);
}

/* The ring's hosts are numbered by name, and so are the members of one view. */
static enum rota_code build_state(const struct rota_view *view, struct rota_view_keys_state *state,
                                  struct rota_error *error)
{
    size_t n = 0;
    enum rota_code code = ROTA_OK;
    struct rota_ring_host *hosts = malloc((view->members.size + 1) * sizeof *hosts);
    uint32_t *members = malloc((view->members.size + 1) * sizeof *members);
    if (!hosts || !members)
        code = rota_error_no_memory(error, "for the ring of a view");
    for (size_t i = 0; !code && i < view->members.size; i++) {
        const struct rota_view_member *member = &view->members.items[i];
        if (!rota_view_span_has(member->span, state->number))
            continue;
        hosts[n] = (struct rota_ring_host){
            .address = member->name, .zone = member->zone, .weight = member->weight};
        members[n++] = (uint32_t)i;
    }
    if (!code)
        code = rota_ring_new(hosts, n, 0, &state->ring, error);
    free(hosts);
    if (code)
        free(members);
    else
        state->members = members;
    return code;
}

enum rota_code rota_view_keys_init(struct rota_view_keys *keys, const struct rota_view *view,
                                   struct rota_error *error)
{
    uint64_t numbers[ROTA_VIEW_STATES_MAX + 1];
    assert(rota_view_is_keyed(view));
    *keys = (struct rota_view_keys){.n_states = rota_view_states(view, numbers)};
    assert(keys->n_states <= ROTA_VIEW_STATES_MAX + 1); /* rota_view_check() */
    for (size_t i = 0; i < keys->n_states; i++)
        keys->states[i].number = numbers[i];
    enum rota_code code = rota_view_copy(view, &keys->view, error);
    if (!code)
        code = build_state(&keys->view, &keys->states[keys->n_states - 1], error);
    if (code)
        rota_view_keys_deinit(keys);
    return code;
}

void rota_view_keys_deinit(struct rota_view_keys *keys)
{
    for (size_t i = 0; i < keys->n_states; i++) {
        rota_ring_unref(keys->states[i].ring);
        free(keys->states[i].members);
    }
    rota_view_deinit(&keys->view);
    keys->n_states = 0;
}

struct rota_ring *rota_view_keys_ring(const struct rota_view_keys *keys)
{
    return keys->states[keys->n_states - 1].ring;
}

/* The owner as of a view; NULL: it has no members. */
static enum rota_code find_owner(struct rota_view_keys *keys, struct rota_view_keys_state *state,
                                 rota_view_keys_place *place, const void *key,
                                 const struct rota_view_member **owner, struct rota_error *error)
{
    enum rota_code code = state->ring ? ROTA_OK : build_state(&keys->view, state, error);
    if (code)
        return code;
    uint32_t host = place(key, state->ring);
    *owner = host == ROTA_RING_NONE ? NULL : &keys->view.members.items[state->members[host]];
    return ROTA_OK;
}

static bool is_same_node(const struct rota_view_member *a, const struct rota_view_member *b)
{
    return a == b || (a && b && rota_str_is_equal(a->name, b->name));
}

static bool is_same_life(const struct rota_view_member *a, const struct rota_view_member *b)
{
    return is_same_node(a, b) && (!a || a->instance == b->instance);
}

enum rota_code rota_view_keys_find(struct rota_view_keys *keys, rota_view_keys_place *place,
                                   const void *key, struct rota_view_key *found,
                                   struct rota_error *error)
{
    const struct rota_view_member *owner = NULL, *before = NULL;
    size_t i = keys->n_states - 1;
    bool is_since = true; /* the owner has had it since this view */
    enum rota_code code = find_owner(keys, &keys->states[i], place, key, &owner, error);
    struct rota_view_key made = {.epoch = keys->states[i].number};
    if (!code && owner) {
        made.owner = owner->name;
        made.instance = owner->instance;
    }
    while (!code && i-- > 0 && made.former.size == 0) {
        struct rota_view_keys_state *state = &keys->states[i];
        code = find_owner(keys, state, place, key, &before, error);
        is_since = is_since && is_same_life(owner, before);
        if (!code && is_since)
            made.epoch = state->number;
        if (!code && before && !is_same_node(owner, before)) {
            made.former = before->name;
            made.lost_at = state[1].number;
        }
    }
    if (!code)
        *found = made;
    return code;
}
