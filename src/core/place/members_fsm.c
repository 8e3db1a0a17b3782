#include "core/place/members_fsm.h"

#include "base/quote.h"
#include "base/sort.h"
#include "base/text.h"
#include "base/vector.h"

#include <assert.h>
#include <stdlib.h>

/* An operator's override of an address; kept only while it has an effect. */
struct override {
    bool is_evicted, is_drained;
    size_t size;
    char address[];
};

static enum rota_code no_memory(struct rota_error *error)
{
    return rota_error_no_memory(error, "to change members");
}

/* --- lists of members --- */

static void list_deinit(struct rota_members_list *list)
{
    free(list->members);
    free(list->text);
    *list = (struct rota_members_list){0};
}

static int compare_members(const void *a, const void *b)
{
    return rota_str_compare(((const struct rota_member *)a)->host.address,
                            ((const struct rota_member *)b)->host.address);
}

/* A sorted copy of the source's hosts, whose addresses must differ. */
static enum rota_code list_of_hosts(const struct rota_host *hosts, size_t n,
                                    struct rota_members_list *list, struct rota_error *error)
{
    size_t text_size = 1;

    if (n > ROTA_MEMBERS_MAX)
        return rota_error_set(error, ROTA_ERR_LIMIT,
                              "members: there are %zu hosts; at most %d are allowed", n,
                              ROTA_MEMBERS_MAX);
    for (size_t i = 0; i < n; i++)
        text_size += hosts[i].address.size + hosts[i].zone.size;
    struct rota_members_list made = {calloc(n + 1, sizeof *made.members), n, malloc(text_size)};
    if (!made.members || !made.text) {
        list_deinit(&made);
        return no_memory(error);
    }

    char *text = made.text;
    for (size_t i = 0; i < n; i++) {
        struct rota_host *host = &made.members[i].host;
        *host = hosts[i];
        host->address = rota_text_put(&text, hosts[i].address);
        host->zone = rota_text_put(&text, hosts[i].zone);
        host->weight = hosts[i].weight ? hosts[i].weight : ROTA_WEIGHT_ONE;
    }
    size_t repeated = rota_sort_distinct(made.members, n, sizeof *made.members, compare_members);
    if (repeated < n) {
        char quoted[ROTA_QUOTE_MAX];
        rota_error_set(error, ROTA_ERR_INVALID, "members: host %s is listed twice",
                       rota_quote(made.members[repeated].host.address, quoted));
        list_deinit(&made);
        return ROTA_ERR_INVALID;
    }
    *list = made;
    return ROTA_OK;
}

/* A copy of the members of `list`, to be marked again. `list` keeps their text. */
static enum rota_code list_again(const struct rota_members_list *list,
                                 struct rota_members_list *again, struct rota_error *error)
{
    struct rota_member *members = malloc((list->n_members + 1) * sizeof *members);
    if (!members)
        return no_memory(error);
    if (list->n_members)
        memcpy(members, list->members, list->n_members * sizeof *members);
    *again = (struct rota_members_list){.members = members, .n_members = list->n_members};
    return ROTA_OK;
}

/* Apply the overrides and the clock: the one place that decides which hosts are on the ring. */
static void list_mark(struct rota_members_list *list, const struct rota_map *overrides,
                      rota_time now)
{
    for (size_t i = 0; i < list->n_members; i++) {
        struct rota_member *member = &list->members[i];
        const struct override *wish = rota_map_get(overrides, member->host.address);
        member->is_evicted = wish && wish->is_evicted;
        member->is_drained = wish && wish->is_drained;
        member->is_placed =
            rota_host_is_placed(&member->host, now) && !member->is_evicted && !member->is_drained;
    }
}

static bool is_equal_member(const struct rota_member *a, const struct rota_member *b)
{
    return rota_str_is_equal(a->host.zone, b->host.zone) && a->host.weight == b->host.weight &&
           a->host.is_draining == b->host.is_draining && a->host.start_at == b->host.start_at &&
           a->host.stop_at == b->host.stop_at && a->is_evicted == b->is_evicted &&
           a->is_drained == b->is_drained && a->is_placed == b->is_placed;
}

/* --- differences --- */

/* The difference between two lists, in the lists' own memory: for people (added, removed, changed)
 * and for the ring (entering, leaving; a host with another weight or zone does both). */
struct difference {
    ROTA_VECTOR(struct rota_str) added, removed, changed;
    ROTA_VECTOR(struct rota_ring_host) entering;
    ROTA_VECTOR(struct rota_str) leaving;
};

static void difference_deinit(struct difference *difference)
{
    rota_vector_deinit(&difference->added);
    rota_vector_deinit(&difference->removed);
    rota_vector_deinit(&difference->changed);
    rota_vector_deinit(&difference->entering);
    rota_vector_deinit(&difference->leaving);
}

/* Record the change of one address: `before` or `after` is NULL where it is not listed. False
 * when there is no memory. */
static bool difference_add(struct difference *difference, const struct rota_member *before,
                           const struct rota_member *after)
{
    struct rota_str address = before ? before->host.address : after->host.address;
    bool was_placed = before && before->is_placed, is_placed = after && after->is_placed;

    if (before && after && is_equal_member(before, after))
        return true;
    bool is_same_point = was_placed && is_placed && before->host.weight == after->host.weight &&
                         rota_str_is_equal(before->host.zone, after->host.zone);
    if (was_placed && !is_same_point && !rota_vector_push(&difference->leaving, address))
        return false;
    if (is_placed && !is_same_point &&
        !rota_vector_push(&difference->entering, rota_host_to_ring(&after->host)))
        return false;
    if (is_placed && !was_placed)
        return rota_vector_push(&difference->added, address);
    if (was_placed && !is_placed)
        return rota_vector_push(&difference->removed, address);
    return rota_vector_push(&difference->changed, address);
}

static bool difference_fill(struct difference *difference, const struct rota_members_list *before,
                            const struct rota_members_list *after)
{
    size_t i = 0, j = 0;
    while (i < before->n_members || j < after->n_members) {
        const struct rota_member *a = i < before->n_members ? &before->members[i] : NULL;
        const struct rota_member *b = j < after->n_members ? &after->members[j] : NULL;
        int order = !a ? 1 : !b ? -1 : compare_members(a, b);
        if (!difference_add(difference, order <= 0 ? a : NULL, order >= 0 ? b : NULL))
            return false;
        i += order <= 0;
        j += order >= 0;
    }
    return true;
}

static size_t text_size(const struct rota_str *strings, size_t n)
{
    size_t size = 0;
    for (size_t i = 0; i < n; i++)
        size += strings[i].size;
    return size;
}

static const struct rota_str *copy_strings(struct rota_str **place, char **text,
                                           const struct rota_str *strings, size_t n)
{
    const struct rota_str *copy = *place;
    for (size_t i = 0; i < n; i++)
        *(*place)++ = rota_text_put(text, strings[i]);
    return copy;
}

/* Copy the difference into `actions`, since it outlives the lists. */
static bool difference_tell(const struct difference *d, struct rota_members_actions *actions)
{
    size_t n = d->added.size + d->removed.size + d->changed.size;
    size_t size = text_size(d->added.items, d->added.size) +
                  text_size(d->removed.items, d->removed.size) +
                  text_size(d->changed.items, d->changed.size);
    struct rota_str *place = malloc(n * sizeof *place + size + 1);
    if (!place)
        return false;

    actions->tell = true;
    actions->memory = place;
    char *text = (char *)(place + n);
    actions->change = (struct rota_members_change){
        .n_added = d->added.size, .n_removed = d->removed.size, .n_changed = d->changed.size};
    actions->change.added = copy_strings(&place, &text, d->added.items, d->added.size);
    actions->change.removed = copy_strings(&place, &text, d->removed.items, d->removed.size);
    actions->change.changed = copy_strings(&place, &text, d->changed.items, d->changed.size);
    return true;
}

/* --- steps --- */

/* Check that the waiting members could enter `ring` with all the others. */
static enum rota_code check_ring_room(const struct rota_ring *ring,
                                      const struct rota_members_list *list,
                                      struct rota_error *error)
{
    ROTA_VECTOR(struct rota_ring_host) waiting = {0};
    enum rota_code code = ROTA_OK;

    for (size_t i = 0; i < list->n_members && !code; i++)
        if (!list->members[i].is_placed &&
            !rota_vector_push(&waiting, rota_host_to_ring(&list->members[i].host)))
            code = no_memory(error);
    if (!code && waiting.size) {
        struct rota_ring *all = NULL;
        code = rota_ring_with(ring, waiting.items, waiting.size, NULL, 0, &all, error);
        rota_ring_unref(all);
    }
    rota_vector_deinit(&waiting);
    return code;
}

static void look_at_times(struct rota_members_fsm *fsm, rota_time now)
{
    fsm->looked_at = now;
    fsm->deadline = ROTA_TIME_NEVER;
    fsm->is_timed = false;
    for (size_t i = 0; i < fsm->list.n_members; i++) {
        const struct rota_host *host = &fsm->list.members[i].host;
        fsm->is_timed |= host->start_at != 0 || host->stop_at != 0;
        if (host->start_at != 0 && host->start_at > now)
            fsm->deadline = rota_time_min(fsm->deadline, host->start_at);
        if (host->stop_at != 0 && host->stop_at > now)
            fsm->deadline = rota_time_min(fsm->deadline, host->stop_at);
    }
}

/* Replace the current list by `next`. */
static void commit_list(struct rota_members_fsm *fsm, struct rota_members_list *next,
                        const struct rota_members_actions *actions)
{
    if (!next->text) {
        next->text = fsm->list.text;
        fsm->list.text = NULL;
    }
    list_deinit(&fsm->list);
    fsm->list = *next;
    *next = (struct rota_members_list){0};
    if (actions->ring) {
        rota_ring_unref(fsm->ring);
        fsm->ring = rota_ring_ref(actions->ring);
    }
}

/* Switch to the list `next`, which is taken, under the current overrides and clock. */
static enum rota_code apply_list(struct rota_members_fsm *fsm, rota_time now,
                                 struct rota_members_list *next,
                                 struct rota_members_actions *actions, struct rota_error *error)
{
    struct rota_members_actions todo = {0};
    struct difference difference = {0};
    enum rota_code code = ROTA_OK;

    list_mark(next, &fsm->overrides, now);
    if (!difference_fill(&difference, &fsm->list, next)) {
        code = no_memory(error);
        goto end;
    }
    if (difference.added.size + difference.removed.size + difference.changed.size > 0) {
        if ((difference.entering.size || difference.leaving.size) &&
            (code = rota_ring_with(fsm->ring, difference.entering.items, difference.entering.size,
                                   difference.leaving.items, difference.leaving.size, &todo.ring,
                                   error)))
            goto end;
        /* A list without text of its own holds hosts that were checked before. */
        if (next->text && (code = check_ring_room(todo.ring ? todo.ring : fsm->ring, next, error)))
            goto end;
        if (!difference_tell(&difference, &todo)) {
            code = no_memory(error);
            goto end;
        }
        commit_list(fsm, next, &todo);
    }
    look_at_times(fsm, now);
    *actions = todo;
    todo = (struct rota_members_actions){0};

end:
    difference_deinit(&difference);
    rota_members_fsm_actions_deinit(&todo);
    list_deinit(next);
    return code;
}

static enum rota_code reapply_list(struct rota_members_fsm *fsm, rota_time now,
                                   struct rota_members_actions *actions, struct rota_error *error)
{
    struct rota_members_list next = {0};
    enum rota_code code = list_again(&fsm->list, &next, error);
    return code ? code : apply_list(fsm, now, &next, actions, error);
}

static enum rota_code take_snapshot(struct rota_members_fsm *fsm, rota_time now,
                                    const struct rota_members_event *event,
                                    struct rota_members_actions *actions, struct rota_error *error)
{
    struct rota_members_list next = {0};
    enum rota_code code;

    if (event->version < fsm->version)
        return reapply_list(fsm, now, actions, error);
    if (event->n_hosts == 0 && fsm->list.n_members > 0)
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "members: the list is empty; keeping the current members");
    if ((code = list_of_hosts(event->hosts, event->n_hosts, &next, error)))
        return code;
    if ((code = apply_list(fsm, now, &next, actions, error)))
        return code;
    fsm->version = event->version;
    return ROTA_OK;
}

/* The override of an address, made when there is none. */
static enum rota_code override_get(struct rota_members_fsm *fsm, struct rota_str address,
                                   struct override **wish, struct rota_error *error)
{
    if ((*wish = rota_map_get(&fsm->overrides, address)))
        return ROTA_OK;
    if (address.size == 0 || address.size > ROTA_ADDRESS_MAX)
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "members: an address has 1 to %d bytes, not %zu", ROTA_ADDRESS_MAX,
                              address.size);
    if (fsm->overrides.size == ROTA_MEMBERS_OVERRIDES_MAX)
        return rota_error_set(error, ROTA_ERR_LIMIT,
                              "members: %d hosts are already evicted or drained, the maximum",
                              ROTA_MEMBERS_OVERRIDES_MAX);

    struct override *made = calloc(1, sizeof *made + address.size);
    if (!made)
        return no_memory(error);
    made->size = address.size;
    memcpy(made->address, address.data, address.size);
    if (!rota_map_put(&fsm->overrides, rota_str_of(made->address, made->size), made)) {
        free(made);
        return no_memory(error);
    }
    *wish = made;
    return ROTA_OK;
}

/* Forget an override without effect. */
static void override_prune(struct rota_members_fsm *fsm, struct override *wish)
{
    if (wish->is_evicted || wish->is_drained)
        return;
    rota_map_remove(&fsm->overrides, rota_str_of(wish->address, wish->size));
    free(wish);
}

static enum rota_code set_override(struct rota_members_fsm *fsm, rota_time now,
                                   const struct rota_members_event *event,
                                   struct rota_members_actions *actions, struct rota_error *error)
{
    bool is_set = event->type == ROTA_MEMBERS_EVICT || event->type == ROTA_MEMBERS_DRAIN;
    bool is_evict = event->type == ROTA_MEMBERS_EVICT || event->type == ROTA_MEMBERS_UNEVICT;
    struct override *wish;
    enum rota_code code;

    if (!is_set && !rota_map_get(&fsm->overrides, event->address))
        return reapply_list(fsm, now, actions, error);
    if ((code = override_get(fsm, event->address, &wish, error)))
        return code;
    bool *wanted = is_evict ? &wish->is_evicted : &wish->is_drained;
    bool before = *wanted;
    *wanted = is_set;
    if ((code = reapply_list(fsm, now, actions, error)))
        *wanted = before;
    override_prune(fsm, wish);
    return code;
}

enum rota_code rota_members_fsm_init(struct rota_members_fsm *fsm, uint32_t points,
                                     struct rota_error *error)
{
    struct rota_members_fsm made = {.looked_at = ROTA_TIME_MIN, .deadline = ROTA_TIME_NEVER};
    enum rota_code code = rota_ring_new(NULL, 0, points, &made.ring, error);
    if (code)
        return code;
    rota_map_init(&made.overrides, 0);
    *fsm = made;
    return ROTA_OK;
}

void rota_members_fsm_deinit(struct rota_members_fsm *fsm)
{
    rota_map_deinit_values(&fsm->overrides);
    list_deinit(&fsm->list);
    rota_ring_unref(fsm->ring);
    fsm->ring = NULL;
}

enum rota_code rota_members_fsm_step(struct rota_members_fsm *fsm, rota_time now,
                                     const struct rota_members_event *event,
                                     struct rota_members_actions *actions, struct rota_error *error)
{
    switch (event->type) {
    case ROTA_MEMBERS_SNAPSHOT:
        return take_snapshot(fsm, now, event, actions, error);
    case ROTA_MEMBERS_EVICT:
    case ROTA_MEMBERS_UNEVICT:
    case ROTA_MEMBERS_DRAIN:
    case ROTA_MEMBERS_UNDRAIN:
        return set_override(fsm, now, event, actions, error);
    case ROTA_MEMBERS_TICK:
        if (now < fsm->looked_at || now >= fsm->deadline)
            return reapply_list(fsm, now, actions, error);
        fsm->looked_at = now; /* no bound was crossed, so there is nothing to see */
        *actions = (struct rota_members_actions){0};
        return ROTA_OK;
    }
    assert(!"no such event");
    return ROTA_ERR_INVALID;
}

void rota_members_fsm_actions_deinit(struct rota_members_actions *actions)
{
    rota_ring_unref(actions->ring);
    free(actions->memory);
    *actions = (struct rota_members_actions){0};
}

rota_time rota_members_fsm_deadline(const struct rota_members_fsm *fsm)
{
    return fsm->deadline;
}

bool rota_members_fsm_is_timed(const struct rota_members_fsm *fsm)
{
    return fsm->is_timed;
}

struct rota_ring *rota_members_fsm_ring(const struct rota_members_fsm *fsm)
{
    return fsm->ring;
}

const struct rota_member *rota_members_fsm_list(const struct rota_members_fsm *fsm,
                                                size_t *n_members)
{
    *n_members = fsm->list.n_members;
    return fsm->list.members;
}

const struct rota_member *rota_members_fsm_find(const struct rota_members_fsm *fsm,
                                                struct rota_str address)
{
    struct rota_member key = {.host.address = address};
    return fsm->list.n_members ? bsearch(&key, fsm->list.members, fsm->list.n_members,
                                         sizeof *fsm->list.members, compare_members)
                               : NULL;
}

rota_time rota_members_align(rota_time now, rota_time alignment, rota_time propagation)
{
    if (alignment <= 0)
        return now;
    rota_time known_at = rota_time_add(now, propagation);
    rota_time past = known_at % alignment;
    if (past < 0)
        past += alignment;
    return rota_time_add(known_at, alignment - past);
}
