#include "core/own/view.h"

#include "base/decimal.h"
#include "base/quote.h"
#include "base/search.h"

#include <assert.h>

/* --- making, copying --- */

void rota_view_deinit(struct rota_view *view)
{
    rota_vector_deinit(&view->seats);
    rota_vector_deinit(&view->members);
    rota_vector_deinit(&view->pins);
    rota_vector_deinit(&view->refusals);
    rota_arena_deinit(&view->arena);
    *view = (struct rota_view){0};
}

static bool copy_str(struct rota_view *view, struct rota_str *str)
{
    *str = rota_arena_copy(&view->arena, *str);
    return str->data;
}

static bool copy_lists(const struct rota_view *view, struct rota_view *copy)
{
    for (size_t i = 0; i < view->seats.size; i++) {
        struct rota_str seat = view->seats.items[i];
        if (!copy_str(copy, &seat) || !rota_vector_push(&copy->seats, seat))
            return false;
    }
    for (size_t i = 0; i < view->members.size; i++) {
        struct rota_view_member member = view->members.items[i];
        if (!copy_str(copy, &member.name) || !copy_str(copy, &member.zone) ||
            !rota_vector_push(&copy->members, member))
            return false;
    }
    for (size_t i = 0; i < view->pins.size; i++) {
        struct rota_view_pin pin = view->pins.items[i];
        if (!copy_str(copy, &pin.name) || !rota_vector_push(&copy->pins, pin))
            return false;
    }
    for (size_t i = 0; i < view->refusals.size; i++) {
        struct rota_view_refusal refusal = view->refusals.items[i];
        if (!copy_str(copy, &refusal.name) || !copy_str(copy, &refusal.why) ||
            !rota_vector_push(&copy->refusals, refusal))
            return false;
    }
    return true;
}

enum rota_code rota_view_copy(const struct rota_view *view, struct rota_view *copy,
                              struct rota_error *error)
{
    *copy = (struct rota_view){.number = view->number,
                               .base = view->base,
                               .engine = view->engine,
                               .to = view->to,
                               .phase = view->phase,
                               .n_shards = view->n_shards};
    if (copy_lists(view, copy))
        return ROTA_OK;
    rota_view_deinit(copy);
    return rota_error_no_memory(error, "to copy a view");
}

/* --- valid views --- */

static bool is_text(struct rota_str text, size_t size_max)
{
    if (text.size < 1 || text.size > size_max)
        return false;
    for (size_t i = 0; i < text.size; i++)
        if ((unsigned char)text.data[i] < ' ' || text.data[i] == 0x7f)
            return false;
    return true;
}

bool rota_view_name_is_valid(struct rota_str name)
{
    return is_text(name, ROTA_VIEW_NAME_MAX);
}

bool rota_view_zone_is_valid(struct rota_str zone)
{
    return zone.size == 0 || is_text(zone, ROTA_VIEW_NAME_MAX);
}

bool rota_view_why_is_valid(struct rota_str why)
{
    return is_text(why, ROTA_VIEW_WHY_MAX);
}

static bool span_is_valid(const struct rota_view *view, struct rota_view_span span)
{
    return span.from >= view->base && span.from <= view->number &&
           (span.to == 0 || (span.to > span.from && span.to <= view->number));
}

/* Two of one key that are there at the same time. */
static bool spans_overlap(struct rota_view_span a, struct rota_view_span b)
{
    return (a.to == 0 || b.from < a.to) && (b.to == 0 || a.from < b.to);
}

int rota_view_compare_members(const void *a, const void *b)
{
    const struct rota_view_member *x = a, *y = b;
    int order = rota_str_compare(x->name, y->name);
    return order ? order : (x->span.from > y->span.from) - (x->span.from < y->span.from);
}

int rota_view_compare_pins(const void *a, const void *b)
{
    const struct rota_view_pin *x = a, *y = b;
    if (x->shard != y->shard)
        return x->shard < y->shard ? -1 : 1;
    return (x->span.from > y->span.from) - (x->span.from < y->span.from);
}

int rota_view_compare_refusals(const void *a, const void *b)
{
    const struct rota_view_refusal *x = a, *y = b;
    if (x->shard != y->shard)
        return x->shard < y->shard ? -1 : 1;
    int order = rota_str_compare(x->name, y->name);
    return order ? order : (x->span.from > y->span.from) - (x->span.from < y->span.from);
}

static enum rota_code check_head(const struct rota_view *view, struct rota_error *error)
{
    if (view->number < 1 || view->number > ROTA_VIEW_NUMBER_MAX || view->base < 1 ||
        view->base > view->number)
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "view: number %llu with base %llu are out of bounds",
                              (unsigned long long)view->number, (unsigned long long)view->base);
    if (view->n_shards > ROTA_VIEW_SHARDS_MAX)
        return rota_error_set(error, ROTA_ERR_INVALID, "view: %u shards; a space has 1 to %d",
                              view->n_shards, ROTA_VIEW_SHARDS_MAX);
    if (view->n_shards == 0 && (view->engine != ROTA_VIEW_RING || view->to != ROTA_VIEW_RING ||
                                view->phase != ROTA_VIEW_STABLE || view->seats.size > 0))
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "view: 0 shards; only a stable ring without seats can be keyed");
    bool is_moving = view->phase == ROTA_VIEW_SHADOW || view->phase == ROTA_VIEW_STOPPING;
    if (is_moving == (view->engine == view->to))
        return rota_error_set(error, ROTA_ERR_INVALID, "view: engine %s to %s, phase %s",
                              rota_view_engine_name(view->engine), rota_view_engine_name(view->to),
                              rota_view_phase_name(view->phase));
    if (view->seats.size > ROTA_VIEW_SEATS_MAX || view->members.size > ROTA_VIEW_MEMBERS_MAX ||
        view->pins.size > ROTA_VIEW_PINS_MAX || view->refusals.size > ROTA_VIEW_REFUSALS_MAX)
        return rota_error_set(
            error, ROTA_ERR_LIMIT,
            "view: %zu seats, %zu members, %zu pins, %zu refusals; at most %d, %d, %d, %d",
            view->seats.size, view->members.size, view->pins.size, view->refusals.size,
            ROTA_VIEW_SEATS_MAX, ROTA_VIEW_MEMBERS_MAX, ROTA_VIEW_PINS_MAX, ROTA_VIEW_REFUSALS_MAX);
    return ROTA_OK;
}

static enum rota_code check_member(const struct rota_view *view,
                                   const struct rota_view_member *member, struct rota_error *error)
{
    char quoted[ROTA_QUOTE_MAX];
    bool has_fitting_zone =
        view->n_shards == 0 ? rota_view_zone_is_valid(member->zone) : member->zone.size == 0;
    if (rota_view_name_is_valid(member->name) && has_fitting_zone &&
        span_is_valid(view, member->span) && member->instance != 0 &&
        member->weight >= ROTA_WEIGHT_MIN && member->weight <= ROTA_VIEW_WEIGHT_MAX)
        return ROTA_OK;
    return rota_error_set(error, ROTA_ERR_INVALID,
                          "view: member %s has an invalid name, zone, weight, instance or range",
                          rota_quote(member->name, quoted));
}

/* The list has to be in order, so that there is one text for each view. */
static enum rota_code check_members(const struct rota_view *view, struct rota_error *error)
{
    char quoted[ROTA_QUOTE_MAX];
    const struct rota_view_member *members = view->members.items;
    for (size_t i = 0; i < view->members.size; i++) {
        enum rota_code code = check_member(view, &members[i], error);
        if (code)
            return code;
        if (i > 0 && (rota_view_compare_members(&members[i - 1], &members[i]) >= 0 ||
                      (rota_str_is_equal(members[i - 1].name, members[i].name) &&
                       spans_overlap(members[i - 1].span, members[i].span))))
            return rota_error_set(error, ROTA_ERR_INVALID,
                                  "view: member %s is out of order or a duplicate",
                                  rota_quote(members[i].name, quoted));
    }
    return ROTA_OK;
}

static enum rota_code check_pins(const struct rota_view *view, struct rota_error *error)
{
    const struct rota_view_pin *pins = view->pins.items;
    for (size_t i = 0; i < view->pins.size; i++) {
        if (!rota_view_name_is_valid(pins[i].name) || !span_is_valid(view, pins[i].span) ||
            pins[i].shard >= view->n_shards)
            return rota_error_set(error, ROTA_ERR_INVALID,
                                  "view: the pin of shard %u has an invalid name or range",
                                  pins[i].shard);
        if (i > 0 &&
            (rota_view_compare_pins(&pins[i - 1], &pins[i]) >= 0 ||
             (pins[i - 1].shard == pins[i].shard && spans_overlap(pins[i - 1].span, pins[i].span))))
            return rota_error_set(error, ROTA_ERR_INVALID,
                                  "view: the pin of shard %u is out of order or a duplicate",
                                  pins[i].shard);
    }
    return ROTA_OK;
}

static enum rota_code check_refusals(const struct rota_view *view, struct rota_error *error)
{
    const struct rota_view_refusal *refusals = view->refusals.items;
    for (size_t i = 0; i < view->refusals.size; i++) {
        if (!rota_view_name_is_valid(refusals[i].name) ||
            !rota_view_why_is_valid(refusals[i].why) || !span_is_valid(view, refusals[i].span) ||
            refusals[i].shard >= view->n_shards)
            return rota_error_set(
                error, ROTA_ERR_INVALID,
                "view: the refusal of shard %u has an invalid name, reason or range",
                refusals[i].shard);
        if (i > 0 && (rota_view_compare_refusals(&refusals[i - 1], &refusals[i]) >= 0 ||
                      (refusals[i - 1].shard == refusals[i].shard &&
                       rota_str_is_equal(refusals[i - 1].name, refusals[i].name) &&
                       spans_overlap(refusals[i - 1].span, refusals[i].span))))
            return rota_error_set(error, ROTA_ERR_INVALID,
                                  "view: the refusal of shard %u is out of order or a duplicate",
                                  refusals[i].shard);
    }
    return ROTA_OK;
}

enum rota_code rota_view_check(const struct rota_view *view, struct rota_error *error)
{
    uint64_t numbers[ROTA_VIEW_STATES_MAX + 1];
    enum rota_code code = check_head(view, error);
    for (size_t i = 0; !code && i < view->seats.size; i++)
        if (!rota_view_name_is_valid(view->seats.items[i]))
            code = rota_error_set(error, ROTA_ERR_INVALID,
                                  "view: entry %zu of the node list has an invalid name", i);
    if (!code)
        code = check_members(view, error);
    if (!code)
        code = check_pins(view, error);
    if (!code)
        code = check_refusals(view, error);
    if (!code && rota_view_states(view, numbers) > ROTA_VIEW_STATES_MAX + 1)
        code = rota_error_set(error, ROTA_ERR_LIMIT, "view: more than %d changes since its base",
                              ROTA_VIEW_STATES_MAX);
    return code;
}

/* --- questions --- */

/* Where the names that are not below `name` begin. */
static size_t lower_bound(const struct rota_view *view, struct rota_str name)
{
    size_t from;
    ROTA_SEARCH(from, view->members.size, middle,
                rota_str_compare(view->members.items[middle].name, name) < 0);
    return from;
}

/* The member of this name as of `number`. */
static uint32_t find_at(const struct rota_view *view, struct rota_str name, uint64_t number)
{
    for (size_t i = lower_bound(view, name);
         i < view->members.size && rota_str_is_equal(view->members.items[i].name, name); i++)
        if (rota_view_span_has(view->members.items[i].span, number))
            return (uint32_t)i;
    return ROTA_VIEW_NOBODY;
}

uint32_t rota_view_find(const struct rota_view *view, struct rota_str name)
{
    return find_at(view, name, view->number);
}

size_t rota_view_refusals_of(const struct rota_view *view, uint32_t shard, size_t *n)
{
    size_t from;
    ROTA_SEARCH(from, view->refusals.size, middle, view->refusals.items[middle].shard < shard);
    for (*n = 0; from + *n < view->refusals.size && view->refusals.items[from + *n].shard == shard;)
        ++*n;
    return from;
}

/* Put a number into the sorted list, once; there is room for one more than may be. */
static size_t add_number(uint64_t *numbers, size_t n, uint64_t number)
{
    size_t at = n;
    while (at > 0 && numbers[at - 1] > number)
        at--;
    if (at > 0 && numbers[at - 1] == number)
        return n;
    if (n == ROTA_VIEW_STATES_MAX + 1)
        return n + 1;
    memmove(numbers + at + 1, numbers + at, (n - at) * sizeof *numbers);
    numbers[at] = number;
    return n + 1;
}

static size_t add_span(uint64_t *numbers, size_t n, struct rota_view_span span)
{
    if (n <= ROTA_VIEW_STATES_MAX + 1)
        n = add_number(numbers, n, span.from);
    if (n <= ROTA_VIEW_STATES_MAX + 1 && span.to != 0)
        n = add_number(numbers, n, span.to);
    return n;
}

size_t rota_view_states(const struct rota_view *view, uint64_t numbers[ROTA_VIEW_STATES_MAX + 1])
{
    size_t n = add_number(numbers, 0, view->base);
    for (size_t i = 0; i < view->members.size; i++)
        n = add_span(numbers, n, view->members.items[i].span);
    for (size_t i = 0; i < view->pins.size; i++)
        n = add_span(numbers, n, view->pins.items[i].span);
    for (size_t i = 0; i < view->refusals.size; i++)
        n = add_span(numbers, n, view->refusals.items[i].span);
    return n;
}

/* From and to as of `number`, since `base`; false: it did not exist then. */
static bool span_as_of(struct rota_view_span *span, uint64_t base, uint64_t number)
{
    if (span->from > number || (span->to != 0 && span->to <= base))
        return false;
    if (span->from < base)
        span->from = base;
    if (span->to > number)
        span->to = 0;
    return true;
}

static bool next_member(const struct rota_view *view, size_t *at, uint64_t base, uint64_t number,
                        struct rota_view_member *member)
{
    while (*at < view->members.size) {
        *member = view->members.items[(*at)++];
        if (span_as_of(&member->span, base, number))
            return true;
    }
    return false;
}

static bool next_pin(const struct rota_view *view, size_t *at, uint64_t base, uint64_t number,
                     struct rota_view_pin *pin)
{
    while (*at < view->pins.size) {
        *pin = view->pins.items[(*at)++];
        if (span_as_of(&pin->span, base, number))
            return true;
    }
    return false;
}

static bool next_refusal(const struct rota_view *view, size_t *at, uint64_t base, uint64_t number,
                         struct rota_view_refusal *refusal)
{
    while (*at < view->refusals.size) {
        *refusal = view->refusals.items[(*at)++];
        if (span_as_of(&refusal->span, base, number))
            return true;
    }
    return false;
}

static bool spans_are_equal(struct rota_view_span a, struct rota_view_span b)
{
    return a.from == b.from && a.to == b.to;
}

static bool seats_are_equal(const struct rota_view *a, const struct rota_view *b)
{
    bool is_same = a->seats.size == b->seats.size;
    for (size_t i = 0; is_same && i < a->seats.size; i++)
        is_same = rota_str_is_equal(a->seats.items[i], b->seats.items[i]);
    return is_same;
}

/* Fields without from and to change only together with the base. So they are the same in all
 * views that can be reconstructed from one of them, and a base never decreases. */
static bool heads_agree(const struct rota_view *view, const struct rota_view *later)
{
    return view->base <= later->base && view->engine == later->engine &&
           (view->n_shards == 0) == (later->n_shards == 0) &&
           (view->phase == ROTA_VIEW_STOPPING) == (later->phase == ROTA_VIEW_STOPPING) &&
           (view->engine != ROTA_VIEW_STATIC || seats_are_equal(view, later));
}

static bool refusals_agree(const struct rota_view *view, const struct rota_view *later)
{
    struct rota_view_refusal a = {0}, b = {0};
    for (size_t i = 0, j = 0;;) {
        bool has_a = next_refusal(view, &i, later->base, view->number, &a);
        if (has_a != next_refusal(later, &j, later->base, view->number, &b))
            return false;
        if (!has_a)
            return true;
        if (a.shard != b.shard || !rota_str_is_equal(a.name, b.name) ||
            !rota_str_is_equal(a.why, b.why) || !spans_are_equal(a.span, b.span))
            return false;
    }
}

bool rota_view_is_before(const struct rota_view *view, const struct rota_view *later)
{
    struct rota_view_member a = {0}, b = {0};
    struct rota_view_pin x = {0}, y = {0};
    size_t i = 0, j = 0;
    uint64_t base = later->base, number = view->number;
    if (!heads_agree(view, later))
        return false;
    for (;;) {
        bool has_a = next_member(view, &i, base, number, &a);
        if (has_a != next_member(later, &j, base, number, &b))
            return false;
        if (!has_a)
            break;
        if (a.instance != b.instance || a.weight != b.weight ||
            !rota_str_is_equal(a.name, b.name) || !rota_str_is_equal(a.zone, b.zone) ||
            !spans_are_equal(a.span, b.span))
            return false;
    }
    for (i = j = 0;;) {
        bool has_x = next_pin(view, &i, base, number, &x);
        if (has_x != next_pin(later, &j, base, number, &y))
            return false;
        if (!has_x)
            return refusals_agree(view, later);
        if (x.shard != y.shard || !rota_str_is_equal(x.name, y.name) ||
            !spans_are_equal(x.span, y.span))
            return false;
    }
}

bool rota_view_is_equal(const struct rota_view *view, const struct rota_view *other)
{
    return view->number == other->number && view->base == other->base && view->to == other->to &&
           view->phase == other->phase && view->n_shards == other->n_shards &&
           seats_are_equal(view, other) && rota_view_is_before(view, other);
}

static bool rebase_span(struct rota_view_span *span, uint64_t base)
{
    if (span->to != 0 && span->to <= base)
        return false;
    if (span->from < base)
        span->from = base;
    return true;
}

void rota_view_rebase(struct rota_view *view, uint64_t base)
{
    size_t n = 0;
    assert(base >= view->base && base <= view->number);
    view->base = base;
    for (size_t i = 0; i < view->members.size; i++)
        if (rebase_span(&view->members.items[i].span, base))
            view->members.items[n++] = view->members.items[i];
    view->members.size = n;
    n = 0;
    for (size_t i = 0; i < view->pins.size; i++)
        if (rebase_span(&view->pins.items[i].span, base))
            view->pins.items[n++] = view->pins.items[i];
    view->pins.size = n;
    n = 0;
    for (size_t i = 0; i < view->refusals.size; i++)
        if (rebase_span(&view->refusals.items[i].span, base))
            view->refusals.items[n++] = view->refusals.items[i];
    view->refusals.size = n;
}

/* --- placement --- */

uint32_t rota_view_hash(struct rota_str space, uint32_t shard)
{
    char key[ROTA_VIEW_NAME_MAX + 24];
    assert(space.size <= ROTA_VIEW_NAME_MAX);
    memcpy(key, space.data, space.size);
    key[space.size] = '/';
    const char *end = rota_decimal_put(key + space.size + 1, shard);
    return rota_ring_hash(rota_str_of(key, (size_t)(end - key)));
}

/* Whether the member has refused the shard, whose refusals these are. */
static bool has_refused(const struct rota_view *view, uint64_t number, size_t first, size_t n,
                        uint32_t member)
{
    for (size_t i = first; i < first + n; i++)
        if (rota_view_span_has(view->refusals.items[i].span, number) &&
            rota_str_is_equal(view->refusals.items[i].name, view->members.items[member].name))
            return true;
    return false;
}

/* A pin to a node that is not a member, or has refused the shard, waits for it. */
static void place_pins(const struct rota_view *view, uint64_t number, uint32_t *owners)
{
    for (size_t i = 0; i < view->pins.size; i++) {
        const struct rota_view_pin *pin = &view->pins.items[i];
        uint32_t owner = rota_view_span_has(pin->span, number) ? find_at(view, pin->name, number)
                                                               : ROTA_VIEW_NOBODY;
        size_t n, first = rota_view_refusals_of(view, pin->shard, &n);
        if (owner != ROTA_VIEW_NOBODY && !has_refused(view, number, first, n, owner))
            owners[pin->shard] = owner;
    }
}

/* The next member clockwise that has not refused the shard; NOBODY when all have. Of one more
 * member than there are refusals, one is left. */
static uint32_t find_next(const struct rota_view *view, uint64_t number, size_t first, size_t n,
                          const struct rota_ring *ring, const uint32_t *members, uint32_t hash)
{
    uint32_t hosts[ROTA_VIEW_NODES_MAX];
    size_t n_asked = n < ROTA_VIEW_NODES_MAX ? n + 1 : ROTA_VIEW_NODES_MAX;
    size_t n_hosts = rota_ring_lookup_n_hash(ring, hash, n_asked, hosts);
    for (size_t i = 0; i < n_hosts; i++)
        if (!has_refused(view, number, first, n, members[hosts[i]]))
            return members[hosts[i]];
    return ROTA_VIEW_NOBODY;
}

/* Shards whose owner has refused them. Without a ring they have no other. */
static void place_refused(const struct rota_view *view, uint64_t number,
                          const struct rota_ring *ring, const uint32_t *members,
                          const uint32_t *hashes, uint32_t *owners)
{
    for (size_t first = 0, n; first < view->refusals.size; first += n) {
        uint32_t shard = view->refusals.items[first].shard;
        first = rota_view_refusals_of(view, shard, &n);
        if (owners[shard] == ROTA_VIEW_NOBODY ||
            !has_refused(view, number, first, n, owners[shard]))
            continue;
        uint32_t next = ring ? find_next(view, number, first, n, ring, members, hashes[shard])
                             : ROTA_VIEW_NOBODY;
        if (!ring || next != ROTA_VIEW_NOBODY)
            owners[shard] = next;
    }
}

/* The ring's hosts are numbered by name, and so are the members of one view. */
static enum rota_code place_ring(const struct rota_view *view, uint64_t number,
                                 const uint32_t *hashes, uint32_t *owners, struct rota_error *error)
{
    size_t n = 0;
    struct rota_ring *ring = NULL;
    struct rota_ring_host *hosts = malloc((view->members.size + 1) * sizeof *hosts);
    uint32_t *members = malloc((view->members.size + 1) * sizeof *members);
    enum rota_code code = ROTA_OK;

    if (!hosts || !members)
        code = rota_error_no_memory(error, "for the ring of a view");
    for (size_t i = 0; !code && i < view->members.size; i++) {
        const struct rota_view_member *member = &view->members.items[i];
        if (!rota_view_span_has(member->span, number))
            continue;
        hosts[n] = (struct rota_ring_host){.address = member->name, .weight = member->weight};
        members[n++] = (uint32_t)i;
    }
    if (!code)
        code = rota_ring_new(hosts, n, 0, &ring, error);
    for (uint32_t shard = 0; !code && shard < view->n_shards; shard++) {
        uint32_t host = rota_ring_lookup_hash(ring, hashes[shard]);
        owners[shard] = host == ROTA_RING_NONE ? ROTA_VIEW_NOBODY : members[host];
    }
    if (!code) {
        place_pins(view, number, owners);
        place_refused(view, number, ring, members, hashes, owners);
    }
    rota_ring_unref(ring);
    free(hosts);
    free(members);
    return code;
}

static void place_seats(const struct rota_view *view, uint64_t number, uint32_t *owners)
{
    uint32_t n_seats = (uint32_t)view->seats.size;
    for (uint32_t seat = 0; seat < n_seats; seat++) {
        uint32_t owner = find_at(view, view->seats.items[seat], number);
        for (uint32_t shard = seat; shard < view->n_shards; shard += n_seats)
            owners[shard] = owner;
    }
}

enum rota_code rota_view_place(const struct rota_view *view, uint64_t number,
                               enum rota_view_engine engine, const uint32_t *hashes,
                               uint32_t *owners, struct rota_error *error)
{
    enum rota_code code = ROTA_OK;
    assert(number >= view->base);
    for (uint32_t shard = 0; shard < view->n_shards; shard++)
        owners[shard] = ROTA_VIEW_NOBODY;
    switch (engine) {
    case ROTA_VIEW_RING:
        code = place_ring(view, number, hashes, owners, error);
        break;
    case ROTA_VIEW_STATIC:
        place_seats(view, number, owners);
        place_pins(view, number, owners);
        place_refused(view, number, NULL, NULL, NULL, owners);
        break;
    case ROTA_VIEW_LEASE:
    case ROTA_VIEW_GROUP:
        break;
    }
    return code;
}

/* --- names --- */

static const char *const ENGINES[] = {"ring", "static", "lease", "group"};
static const char *const PHASES[] = {"stable", "shadow", "stopping", "starting"};

const char *rota_view_engine_name(enum rota_view_engine engine)
{
    return ENGINES[engine];
}

const char *rota_view_phase_name(enum rota_view_phase phase)
{
    return PHASES[phase];
}

static int find_name(const char *const *names, int n, struct rota_str name)
{
    for (int i = 0; i < n; i++)
        if (rota_str_is_equal(rota_str(names[i]), name))
            return i;
    return -1;
}

bool rota_view_engine_parse(struct rota_str name, enum rota_view_engine *engine)
{
    int found = find_name(ENGINES, 4, name);
    if (found >= 0)
        *engine = (enum rota_view_engine)found;
    return found >= 0;
}

bool rota_view_phase_parse(struct rota_str name, enum rota_view_phase *phase)
{
    int found = find_name(PHASES, 4, name);
    if (found >= 0)
        *phase = (enum rota_view_phase)found;
    return found >= 0;
}
