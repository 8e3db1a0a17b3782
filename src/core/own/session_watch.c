#include "core/own/session_watch.h"

#include <assert.h>

void rota_session_watch_init(struct rota_session_watch *watch, rota_time gap_max,
                             rota_time session_min, rota_time session_max)
{
    assert(gap_max > 0 && session_min > 0 && session_min <= session_max);
    *watch = (struct rota_session_watch){
        .gap_max = gap_max, .session_min = session_min, .session_max = session_max};
}

void rota_session_watch_deinit(struct rota_session_watch *watch)
{
    rota_vector_deinit(&watch->sights);
    rota_vector_deinit(&watch->fresh);
}

/* How much of the time since the last read counts. */
static rota_time gap_until(const struct rota_session_watch *watch, rota_time now)
{
    if (!watch->has_looked || now <= watch->looked_at)
        return 0;
    if (watch->looked_at < 0 && now > ROTA_TIME_NEVER + watch->looked_at)
        return watch->gap_max; /* too far apart to be a number */
    return rota_time_min(now - watch->looked_at, watch->gap_max);
}

static rota_time clamp_session(const struct rota_session_watch *watch, rota_time session)
{
    if (session < watch->session_min)
        return watch->session_min;
    return rota_time_min(session, watch->session_max);
}

/* The row's current state, with the time counted before. */
static struct rota_session_sight sight_of(const struct rota_session_watch *watch,
                                          const struct rota_session_row *row,
                                          const struct rota_session_sight *before, rota_time gap)
{
    struct rota_session_sight sight = {.row = *row};
    sight.row.session = clamp_session(watch, row->session);
    if (before && before->row.pings == row->pings)
        sight.silent = rota_time_add(before->silent, gap);
    if (before && before->row.is_dead && row->is_dead)
        sight.dead = rota_time_add(before->dead, gap);
    return sight;
}

/* What was seen of a place, if anything: most often right after the last that was found, at
 * `*at`. */
static const struct rota_session_sight *find_seen(const struct rota_session_watch *watch,
                                                  uint64_t place, size_t *at)
{
    size_t n = watch->sights.size;
    for (size_t i = 0; i < n; i++) {
        const struct rota_session_sight *sight = &watch->sights.items[(*at + i) % n];
        if (sight->row.place == place) {
            *at = (*at + i + 1) % n;
            return sight;
        }
    }
    return NULL;
}

bool rota_session_watch_see_rows(struct rota_session_watch *watch, rota_time now,
                                 const struct rota_session_row *rows, size_t n_rows)
{
    rota_time gap = gap_until(watch, now);
    size_t at = 0;
    if (!rota_vector_reserve(&watch->fresh, n_rows))
        return false;
    watch->fresh.size = 0;
    for (size_t i = 0; i < n_rows; i++) {
        const struct rota_session_sight *before = find_seen(watch, rows[i].place, &at);
        watch->fresh.items[watch->fresh.size++] = sight_of(watch, &rows[i], before, gap);
    }
    struct rota_session_sight *items = watch->sights.items;
    size_t capacity = watch->sights.capacity;
    watch->sights.items = watch->fresh.items;
    watch->sights.size = watch->fresh.size;
    watch->sights.capacity = watch->fresh.capacity;
    watch->fresh.items = items;
    watch->fresh.capacity = capacity;
    watch->looked_at = now;
    watch->has_looked = true;
    return true;
}

void rota_session_watch_forget(struct rota_session_watch *watch)
{
    watch->sights.size = 0;
    watch->has_looked = false;
}

/* How long until it is dead; below 0 it has been for that long. */
static rota_time left_of(const struct rota_session_sight *sight)
{
    rota_time left = sight->row.session - sight->silent;
    return sight->row.is_dead ? rota_time_min(left, -sight->dead) : left;
}

/* How many live members are before us; false when we are not a member. */
static bool find_delay(const struct rota_session_watch *watch, uint64_t ours, rota_time *delay)
{
    int rank = 0;
    for (size_t i = 0; i < watch->sights.size; i++) {
        const struct rota_session_sight *sight = &watch->sights.items[i];
        if (sight->row.place == ours) {
            *delay = rank * ROTA_SESSION_RANK_DELAY;
            return true;
        }
        if (left_of(sight) > 0 && rank < ROTA_SESSION_RANKS_MAX)
            rank++;
    }
    return false;
}

const struct rota_session_row *rota_session_watch_next(const struct rota_session_watch *watch,
                                                       uint64_t ours, size_t *place)
{
    rota_time delay;
    if (!find_delay(watch, ours, &delay))
        return NULL;
    while (*place < watch->sights.size) {
        const struct rota_session_sight *sight = &watch->sights.items[(*place)++];
        if (sight->row.place != ours && left_of(sight) <= -delay)
            return &sight->row;
    }
    return NULL;
}

rota_time rota_session_watch_deadline(const struct rota_session_watch *watch, uint64_t ours)
{
    rota_time delay, least = ROTA_TIME_NEVER;
    if (!watch->has_looked || !find_delay(watch, ours, &delay))
        return ROTA_TIME_NEVER;
    for (size_t i = 0; i < watch->sights.size; i++)
        if (watch->sights.items[i].row.place != ours)
            least = rota_time_min(least, rota_time_add(left_of(&watch->sights.items[i]), delay));
    return least == ROTA_TIME_NEVER ? least : rota_time_add(watch->looked_at, least);
}
