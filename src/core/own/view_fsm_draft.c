#include "core/own/view_fsm_inside.h"

#include "base/search.h"

/* --- rows --- */

const struct rota_view_row *rota_view_fsm_draft_row(const struct rota_view_fsm *fsm,
                                                    struct rota_str name)
{
    size_t from;
    ROTA_SEARCH(from, fsm->rows.size, middle,
                rota_str_compare(fsm->rows.items[middle].name, name) < 0);
    const struct rota_view_row *row = &fsm->rows.items[from];
    return from < fsm->rows.size && rota_str_is_equal(row->name, name) ? row : NULL;
}

bool rota_view_fsm_draft_is_acked(const struct rota_view_fsm *fsm, uint64_t number)
{
    for (size_t i = 0; i < fsm->rows.size; i++)
        if (fsm->rows.items[i].acked < number)
            return false;
    return true;
}

/* Only keys are placed by zones. */
static struct rota_str zone_of(const struct rota_view *view, const struct rota_view_row *row)
{
    return view->n_shards == 0 ? row->zone : rota_str("");
}

static uint32_t weight_of(const struct rota_view_row *row)
{
    return row->weight < ROTA_VIEW_WEIGHT_MAX ? row->weight : ROTA_VIEW_WEIGHT_MAX;
}

/* Whether a row's node is to be a member. */
static bool is_willing(const struct rota_view_row *row)
{
    return !row->is_draining && row->instance != 0 && row->weight >= ROTA_WEIGHT_MIN &&
           rota_view_name_is_valid(row->name) && rota_view_zone_is_valid(row->zone);
}

/* --- a draft --- */

struct draft {
    struct rota_view_fsm *fsm;
    struct rota_view *next;
    bool is_changed;
    bool is_break;     /* all shards get a new epoch */
    bool has_migrated; /* one step at a time */
    bool has_failed;
};

static struct rota_str copy_name(struct draft *draft, struct rota_str name)
{
    struct rota_str copy = rota_arena_copy(&draft->next->arena, name);
    draft->has_failed |= !copy.data;
    return copy;
}

/* Above all that is known to have been used, by views or by the other engines. */
static uint64_t next_number(const struct rota_view_fsm *fsm)
{
    uint64_t highest = fsm->floor;
    for (size_t i = 0; i < fsm->rows.size; i++) {
        uint64_t told = fsm->rows.items[i].highest;
        if (told > highest && told < ROTA_VIEW_NUMBER_MAX)
            highest = told;
    }
    if (fsm->store_highest > highest && fsm->store_highest < ROTA_VIEW_NUMBER_MAX)
        highest = fsm->store_highest;
    if (fsm->highest > highest)
        highest = fsm->highest;
    if (fsm->unix_ms > highest && fsm->unix_ms < ROTA_VIEW_NUMBER_MAX)
        return fsm->unix_ms;
    return highest + 1;
}

/* Members whose row is missing, or has changed, end. Returns how many stay. */
static size_t end_members(struct draft *draft)
{
    size_t n = 0;
    for (size_t i = 0; i < draft->next->members.size; i++) {
        struct rota_view_member *member = &draft->next->members.items[i];
        if (member->span.to != 0)
            continue;
        const struct rota_view_row *row = rota_view_fsm_draft_row(draft->fsm, member->name);
        if (row && is_willing(row) && row->instance == member->instance &&
            weight_of(row) == member->weight &&
            rota_str_is_equal(zone_of(draft->next, row), member->zone)) {
            n++;
        } else {
            member->span.to = draft->next->number;
            draft->is_changed = true;
        }
    }
    return n;
}

static void add_members(struct draft *draft, size_t n_present)
{
    struct rota_view *next = draft->next;
    size_t n_before = next->members.size;
    for (size_t i = 0; i < draft->fsm->rows.size && n_present < ROTA_VIEW_NODES_MAX; i++) {
        const struct rota_view_row *row = &draft->fsm->rows.items[i];
        if (!is_willing(row) || (i > 0 && rota_str_is_equal(row->name, row[-1].name)))
            continue;
        bool is_there = false;
        for (size_t j = 0; j < n_before && !is_there; j++)
            is_there = next->members.items[j].span.to == 0 &&
                       rota_str_is_equal(next->members.items[j].name, row->name);
        if (is_there)
            continue;
        struct rota_view_member member = {.span.from = next->number,
                                          .name = copy_name(draft, row->name),
                                          .zone = copy_name(draft, zone_of(next, row)),
                                          .instance = row->instance,
                                          .weight = weight_of(row)};
        draft->has_failed |= !rota_vector_push(&next->members, member);
        draft->is_changed = true;
        n_present++;
    }
    if (next->members.size > 1)
        qsort(next->members.items, next->members.size, sizeof *next->members.items,
              rota_view_compare_members);
}

/* End the pin of the shard. One that began with this very draft is removed without a trace. */
static void unpin_shard(struct draft *draft, size_t index)
{
    struct rota_view *next = draft->next;
    struct rota_view_pin *pin = &next->pins.items[index];
    if (pin->span.from == next->number)
        *pin = next->pins.items[--next->pins.size];
    else
        pin->span.to = next->number;
}

/* An empty name: no pin. ROTA_ERR_STALE: that is already the case. */
static enum rota_code wish_pin(struct draft *draft, uint32_t shard, struct rota_str name)
{
    struct rota_view *next = draft->next;
    size_t found = SIZE_MAX, n_now = 0;
    if (shard >= next->n_shards || (name.size > 0 && !rota_view_name_is_valid(name)))
        return ROTA_ERR_INVALID;
    for (size_t i = 0; i < next->pins.size; i++) {
        n_now += next->pins.items[i].span.to == 0;
        if (next->pins.items[i].span.to == 0 && next->pins.items[i].shard == shard)
            found = i;
    }
    if (found == SIZE_MAX ? name.size == 0 : rota_str_is_equal(next->pins.items[found].name, name))
        return ROTA_ERR_STALE;
    if (name.size > 0 && found == SIZE_MAX && n_now == ROTA_VIEW_PINS_NOW_MAX)
        return ROTA_ERR_LIMIT;
    if (found != SIZE_MAX)
        unpin_shard(draft, found);
    if (name.size > 0) {
        struct rota_view_pin pin = {
            .span.from = next->number, .shard = shard, .name = copy_name(draft, name)};
        draft->has_failed |= !rota_vector_push(&next->pins, pin);
    }
    return ROTA_OK;
}

/* --- refusals --- */

static void end_refusal(struct draft *draft, size_t index)
{
    struct rota_view *next = draft->next;
    struct rota_view_refusal *refusal = &next->refusals.items[index];
    if (refusal->span.from == next->number)
        *refusal = next->refusals.items[--next->refusals.size];
    else
        refusal->span.to = next->number;
}

/* Refusals end with the member that made them, even if there is another of its name. */
static void end_refusals(struct draft *draft)
{
    const struct rota_view *next = draft->next;
    for (size_t i = 0; i < next->refusals.size; i++) {
        const struct rota_view_refusal *refusal = &next->refusals.items[i];
        uint32_t member = rota_view_find(next, refusal->name);
        if (refusal->span.to == 0 && (member == ROTA_VIEW_NOBODY ||
                                      next->members.items[member].span.from > refusal->span.from))
            end_refusal(draft, i);
    }
}

/* An empty reason: it is no longer refused. ROTA_ERR_STALE: that is already the case. */
static enum rota_code wish_refusal(struct draft *draft, const struct rota_view_wish *wish,
                                   struct rota_str why)
{
    struct rota_view *next = draft->next;
    size_t found = SIZE_MAX, n_now = 0;
    if (wish->shard >= next->n_shards || (why.size > 0 && !rota_view_why_is_valid(why)) ||
        (why.size > 0 && rota_view_find(next, wish->name) == ROTA_VIEW_NOBODY))
        return ROTA_ERR_INVALID;
    for (size_t i = 0; i < next->refusals.size; i++) {
        const struct rota_view_refusal *refusal = &next->refusals.items[i];
        n_now += refusal->span.to == 0;
        if (refusal->span.to == 0 && refusal->shard == wish->shard &&
            rota_str_is_equal(refusal->name, wish->name))
            found = i;
    }
    if ((found == SIZE_MAX) == (why.size == 0))
        return ROTA_ERR_STALE;
    if (why.size == 0) {
        end_refusal(draft, found);
        return ROTA_OK;
    }
    if (n_now == ROTA_VIEW_REFUSALS_NOW_MAX)
        return ROTA_ERR_LIMIT;
    struct rota_view_refusal refusal = {.span.from = next->number,
                                        .shard = wish->shard,
                                        .name = copy_name(draft, wish->name),
                                        .why = copy_name(draft, why)};
    draft->has_failed |= !rota_vector_push(&next->refusals, refusal);
    return ROTA_OK;
}

/* --- seats and engines --- */

static bool seats_are(const struct rota_view *view, const struct rota_view_wish *wish)
{
    bool is_same = view->seats.size == wish->n_seats;
    for (size_t i = 0; is_same && i < wish->n_seats; i++)
        is_same = rota_str_is_equal(view->seats.items[i], wish->seats[i]);
    return is_same;
}

static enum rota_code wish_seats(struct draft *draft, const struct rota_view_wish *wish)
{
    struct rota_view *next = draft->next;
    if (wish->n_seats == 0 || next->n_shards == 0 || wish->n_seats > ROTA_VIEW_SEATS_MAX)
        return wish->n_seats == 0 || next->n_shards == 0 ? ROTA_ERR_INVALID : ROTA_ERR_LIMIT;
    for (size_t i = 0; i < wish->n_seats; i++)
        if (!rota_view_name_is_valid(wish->seats[i]))
            return ROTA_ERR_INVALID;
    if (seats_are(next, wish))
        return ROTA_ERR_STALE;
    next->seats.size = 0;
    for (size_t i = 0; i < wish->n_seats; i++) {
        struct rota_str seat = copy_name(draft, wish->seats[i]);
        draft->has_failed |= !rota_vector_push(&next->seats, seat);
    }
    draft->is_break |= next->engine == ROTA_VIEW_STATIC; /* seats have no history */
    return ROTA_OK;
}

/* A static space without seats uses the current members, by name. */
static void seat_members(struct draft *draft)
{
    struct rota_view *next = draft->next;
    for (size_t i = 0; i < next->members.size && next->seats.size < ROTA_VIEW_SEATS_MAX; i++)
        if (next->members.items[i].span.to == 0)
            draft->has_failed |= !rota_vector_push(&next->seats, next->members.items[i].name);
}

static void put_migrate(struct draft *draft, const struct rota_migrate *migrate)
{
    struct rota_migrate before = rota_view_fsm_migrate(draft->next);
    draft->is_break |= rota_migrate_fsm_is_break(&before, migrate);
    draft->next->engine = migrate->engine;
    draft->next->to = migrate->to;
    draft->next->phase = migrate->phase;
}

static enum rota_code wish_migrate(struct draft *draft, enum rota_migrate_wish type,
                                   const struct rota_view_wish *wish)
{
    struct rota_migrate before = rota_view_fsm_migrate(draft->next), after = before;
    if (draft->next->n_shards == 0)
        return ROTA_ERR_INVALID;
    if (draft->has_migrated)
        return ROTA_ERR_UNAVAILABLE;
    enum rota_code code = rota_migrate_fsm_wish(&after, type, wish->to, NULL);
    if (code)
        return code;
    if (after.phase == before.phase && after.engine == before.engine && after.to == before.to)
        return ROTA_ERR_STALE;
    if (type == ROTA_MIGRATE_BEGIN && wish->to == ROTA_VIEW_STATIC) {
        if (wish->n_seats > 0)
            code = wish_seats(draft, wish);
        else if (draft->next->seats.size == 0)
            seat_members(draft);
        if (code && code != ROTA_ERR_STALE)
            return code;
    }
    put_migrate(draft, &after);
    draft->has_migrated = true;
    return ROTA_OK;
}

static enum rota_code grant_wish(struct draft *draft, const struct rota_view_wish *wish)
{
    switch (wish->type) {
    case ROTA_VIEW_PIN:
        return wish->name.size ? wish_pin(draft, wish->shard, wish->name) : ROTA_ERR_INVALID;
    case ROTA_VIEW_UNPIN:
        return wish_pin(draft, wish->shard, rota_str(""));
    case ROTA_VIEW_RESEAT:
        return wish_seats(draft, wish);
    case ROTA_VIEW_MIGRATE:
        return wish_migrate(draft, ROTA_MIGRATE_BEGIN, wish);
    case ROTA_VIEW_REFUSE:
        return wish->why.size ? wish_refusal(draft, wish, wish->why) : ROTA_ERR_INVALID;
    case ROTA_VIEW_RETRY:
        return wish_refusal(draft, wish, rota_str(""));
    case ROTA_VIEW_COMMIT:
        return wish_migrate(draft, ROTA_MIGRATE_COMMIT, wish);
    case ROTA_VIEW_CANCEL:
        return wish_migrate(draft, ROTA_MIGRATE_CANCEL, wish);
    }
    return ROTA_ERR_INVALID;
}

/* Wishes that are fulfilled, or impossible, get their outcome at once. One that seems to be
 * fulfilled by others of the same draft waits until that is a view. */
static void grant_wishes(struct draft *draft)
{
    struct rota_view_fsm *fsm = draft->fsm;
    size_t n = 0;
    for (size_t i = 0; i < fsm->wishes.size; i++) {
        struct rota_view_waiting waiting = fsm->wishes.items[i];
        enum rota_code code = grant_wish(draft, &waiting.wish);
        waiting.is_proposed = code == ROTA_OK;
        draft->is_changed |= waiting.is_proposed;
        if (code == ROTA_OK || code == ROTA_ERR_UNAVAILABLE ||
            (code == ROTA_ERR_STALE && draft->is_changed))
            fsm->wishes.items[n++] = waiting;
        else
            rota_view_fsm_tell_outcome(fsm, waiting.wish.id,
                                       code == ROTA_ERR_STALE ? ROTA_OK : code, fsm->view.number);
    }
    fsm->wishes.size = n;
    if (n == 0)
        rota_arena_clear(&fsm->wish_texts);
    if (draft->next->pins.size > 1)
        qsort(draft->next->pins.items, draft->next->pins.size, sizeof *draft->next->pins.items,
              rota_view_compare_pins);
    if (draft->next->refusals.size > 1)
        qsort(draft->next->refusals.items, draft->next->refusals.size,
              sizeof *draft->next->refusals.items, rota_view_compare_refusals);
}

/* --- the whole --- */

static void begin_first(struct draft *draft)
{
    const struct rota_view_fsm_options *options = &draft->fsm->options;
    struct rota_view *next = draft->next;
    next->base = next->number;
    next->engine = next->to = options->engine;
    next->n_shards = options->n_shards;
    for (size_t i = 0; i < options->n_seats && options->n_shards > 0; i++) {
        struct rota_str seat = copy_name(draft, options->seats[i]);
        draft->has_failed |= !rota_vector_push(&next->seats, seat);
    }
    draft->is_changed = true;
}

/* Room for one more change: old history is dropped, half of it or all. */
static void make_room_for_change(struct rota_view *next, uint64_t present)
{
    uint64_t numbers[ROTA_VIEW_STATES_MAX + 1];
    size_t n = rota_view_states(next, numbers);
    if (n >= ROTA_VIEW_STATES_MAX)
        rota_view_rebase(next, numbers[n / 2]);
    if (next->members.size > ROTA_VIEW_MEMBERS_MAX - ROTA_VIEW_NODES_MAX ||
        next->pins.size > ROTA_VIEW_PINS_MAX - ROTA_VIEW_WISHES_MAX ||
        next->refusals.size > ROTA_VIEW_REFUSALS_MAX - ROTA_VIEW_WISHES_MAX)
        rota_view_rebase(next, present);
}

static void advance_migration(struct draft *draft)
{
    struct rota_view_fsm *fsm = draft->fsm;
    struct rota_migrate before = rota_view_fsm_migrate(draft->next), after = before;
    if (rota_view_fsm_draft_is_acked(fsm, fsm->view.number))
        rota_migrate_fsm_acked(&after);
    if (after.phase == before.phase) {
        grant_wishes(draft);
        return;
    }
    put_migrate(draft, &after);
    draft->is_changed = true;
    for (size_t i = 0; i < fsm->wishes.size; i++)
        fsm->wishes.items[i].is_proposed = false;
}

void rota_view_fsm_draft(struct rota_view_fsm *fsm)
{
    struct draft draft = {.fsm = fsm, .next = &fsm->proposal};
    struct rota_view *next = draft.next;
    rota_view_deinit(next);
    if (fsm->view.number > 0 && rota_view_copy(&fsm->view, next, NULL))
        return;
    uint64_t present = next->number;
    next->number = next_number(fsm);
    if (present == 0)
        begin_first(&draft);
    else
        make_room_for_change(next, present);
    add_members(&draft, end_members(&draft));
    end_refusals(&draft);
    advance_migration(&draft);
    if (next->base <= fsm->lost) /* there were later epochs, which the store has forgotten */
        draft.is_changed = draft.is_break = true;
    if (draft.is_break && present > 0)
        rota_view_rebase(next, next->number);
    if (draft.has_failed || !draft.is_changed || next->number > ROTA_VIEW_NUMBER_MAX)
        rota_view_deinit(next);
}
