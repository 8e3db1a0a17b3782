#include "core/work/choice.h"

/* --- lists: of a lane, of a choice --- */

static struct rota_lane_watch **list_of(const struct rota_lane_watch *watch)
{
    return watch->has_looked ? &watch->lane->watches : &watch->choice->changed;
}

static void link_watch(struct rota_lane_watch *watch, bool has_looked)
{
    watch->has_looked = has_looked;
    struct rota_lane_watch **list = list_of(watch);
    watch->previous = NULL;
    watch->next = *list;
    if (*list)
        (*list)->previous = watch;
    *list = watch;
}

static void unlink_watch(struct rota_lane_watch *watch)
{
    if (watch->previous)
        watch->previous->next = watch->next;
    else
        *list_of(watch) = watch->next;
    if (watch->next)
        watch->next->previous = watch->previous;
}

/* --- the heap --- */

static void put(struct rota_choice *choice, size_t index, struct rota_lane_watch *watch)
{
    choice->heap.items[index] = watch;
    watch->place = index + 1;
}

static bool is_before(const struct rota_lane_watch *a, const struct rota_lane_watch *b)
{
    return rota_job_rank_is_before(&a->first, &b->first);
}

/* Find the place for `watch` from `index` on, which is free for it. */
static void sift(struct rota_choice *choice, size_t index, struct rota_lane_watch *watch)
{
    struct rota_lane_watch **heap = choice->heap.items;
    for (; index > 0 && is_before(watch, heap[(index - 1) / 2]); index = (index - 1) / 2)
        put(choice, index, heap[(index - 1) / 2]);
    for (size_t child; (child = 2 * index + 1) < choice->heap.size; index = child) {
        if (child + 1 < choice->heap.size && is_before(heap[child + 1], heap[child]))
            child++;
        if (!is_before(heap[child], watch))
            break;
        put(choice, index, heap[child]);
    }
    put(choice, index, watch);
}

static void leave_heap(struct rota_choice *choice, struct rota_lane_watch *watch)
{
    if (!watch->place)
        return;
    struct rota_lane_watch *last = choice->heap.items[--choice->heap.size];
    if (last != watch)
        sift(choice, watch->place - 1, last);
    watch->place = 0;
}

/* --- doors --- */

void rota_choice_deinit(struct rota_choice *choice)
{
    for (size_t i = 0; i < choice->watches.size; i++) {
        unlink_watch(choice->watches.items[i]);
        free(choice->watches.items[i]);
    }
    rota_vector_deinit(&choice->watches);
    rota_vector_deinit(&choice->heap);
    free(choice->spare);
    choice->spare = NULL;
}

bool rota_choice_reserve(struct rota_choice *choice)
{
    if (!choice->spare)
        choice->spare = malloc(sizeof *choice->spare);
    return choice->spare && rota_vector_reserve(&choice->watches, choice->watches.size + 1) &&
           rota_vector_reserve(&choice->heap, choice->watches.size + 1);
}

void rota_choice_watch(struct rota_choice *choice, struct rota_lane *lane)
{
    struct rota_lane_watch *watch = choice->spare;
    assert(watch && choice->watches.size < choice->watches.capacity);
    choice->spare = NULL;
    *watch = (struct rota_lane_watch){.choice = choice, .lane = lane};
    choice->watches.items[choice->watches.size++] = watch;
    link_watch(watch, false);
}

void rota_choice_unwatch(struct rota_choice *choice, struct rota_lane *lane)
{
    size_t i = 0;
    while (i < choice->watches.size && choice->watches.items[i]->lane != lane)
        i++;
    if (i == choice->watches.size)
        return;
    struct rota_lane_watch *watch = choice->watches.items[i];
    unlink_watch(watch);
    leave_heap(choice, watch);
    choice->watches.items[i] = choice->watches.items[--choice->watches.size];
    free(watch);
}

void rota_choice_tell(struct rota_lane *lane)
{
    for (struct rota_lane_watch *watch; (watch = lane->watches);) {
        unlink_watch(watch);
        link_watch(watch, false);
    }
}

/* Know what is first in the lane now. */
static void look(struct rota_choice *choice, struct rota_lane_watch *watch, uint32_t first,
                 const struct rota_job_table *table)
{
    if (!first) {
        leave_heap(choice, watch);
        return;
    }
    watch->first = rota_job_rank(rota_job_at(table, first));
    sift(choice, watch->place ? watch->place - 1 : choice->heap.size++, watch);
}

uint32_t rota_choice_first(struct rota_choice *choice, const struct rota_job_table *table,
                           uint64_t *n_looks)
{
    for (struct rota_lane_watch *watch; (watch = choice->changed); ++*n_looks) {
        unlink_watch(watch);
        link_watch(watch, true);
        look(choice, watch, rota_lane_first(watch->lane), table);
    }
    while (choice->heap.size > 0) {
        struct rota_lane_watch *watch = choice->heap.items[0];
        uint32_t first = rota_lane_first(watch->lane);
        ++*n_looks;
        if (first && choice->heap.size == 1)
            return first; /* whatever it is, nothing else waits */
        if (first) {
            struct rota_job_rank rank = rota_job_rank(rota_job_at(table, first));
            if (!rota_job_rank_is_before(&watch->first, &rank))
                return first;
        }
        look(choice, watch, first, table);
    }
    return 0;
}

static bool is_watch_sound(const struct rota_lane_watch *watch, const struct rota_job_table *table)
{
    const struct rota_choice *choice = watch->choice;
    uint32_t first = rota_lane_first(watch->lane);
    if (watch->place) {
        size_t index = watch->place - 1;
        if (index >= choice->heap.size || choice->heap.items[index] != watch ||
            is_before(watch, choice->heap.items[index > 0 ? (index - 1) / 2 : 0]))
            return false;
    }
    if (!watch->has_looked || !first)
        return true;
    struct rota_job_rank rank = rota_job_rank(rota_job_at(table, first));
    return watch->place && !rota_job_rank_is_before(&rank, &watch->first);
}

bool rota_choice_is_sound(const struct rota_choice *choice, const struct rota_job_table *table)
{
    for (size_t i = 0; i < choice->watches.size; i++)
        if (!is_watch_sound(choice->watches.items[i], table))
            return false;
    return choice->heap.size <= choice->watches.size;
}
