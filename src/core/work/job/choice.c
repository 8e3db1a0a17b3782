#include "core/work/job/choice.h"

#include "base/heap.h"

/* --- the heap --- */

static void put_watch(struct rota_choice *choice, size_t index, struct rota_lane_watch *watch)
{
    choice->heap.items[index] = watch;
    watch->place = index + 1;
}

static bool is_before(const struct rota_choice *choice, const struct rota_lane_watch *a,
                      const struct rota_lane_watch *b)
{
    (void)choice;
    return rota_job_rank_is_before(&a->first, &b->first);
}

/* Find the place for `watch` from `index` on, which is free for it. */
static void sift_watch(struct rota_choice *choice, size_t index, struct rota_lane_watch *watch)
{
    ROTA_HEAP_SIFT(choice, choice->heap.items, choice->heap.size, index, watch, is_before,
                   put_watch);
}

static void leave_heap(struct rota_choice *choice, struct rota_lane_watch *watch)
{
    if (!watch->place)
        return;
    struct rota_lane_watch *last = choice->heap.items[--choice->heap.size];
    if (last != watch)
        sift_watch(choice, watch->place - 1, last);
    watch->place = 0;
}

/* --- doors --- */

void rota_choice_init(struct rota_choice *choice)
{
    *choice = (struct rota_choice){0};
    rota_list_init(&choice->changed);
}

void rota_choice_deinit(struct rota_choice *choice)
{
    for (size_t i = 0; i < choice->watches.size; i++) {
        rota_list_remove(&choice->watches.items[i]->link);
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
    rota_list_push(&choice->changed, &watch->link);
}

void rota_choice_unwatch(struct rota_choice *choice, struct rota_lane *lane)
{
    size_t i = 0;
    while (i < choice->watches.size && choice->watches.items[i]->lane != lane)
        i++;
    if (i == choice->watches.size)
        return;
    struct rota_lane_watch *watch = choice->watches.items[i];
    rota_list_remove(&watch->link);
    leave_heap(choice, watch);
    choice->watches.items[i] = choice->watches.items[--choice->watches.size];
    free(watch);
}

void rota_choice_tell(struct rota_lane *lane)
{
    ROTA_LIST_DRAIN (watch, &lane->watches, struct rota_lane_watch, link) {
        rota_list_remove(&watch->link);
        rota_list_push(&watch->choice->changed, &watch->link);
        watch->has_looked = false;
    }
}

/* Update the first job of the lane. */
static void update_first(struct rota_choice *choice, struct rota_lane_watch *watch, uint32_t first,
                         const struct rota_job_table *table)
{
    if (!first) {
        leave_heap(choice, watch);
        return;
    }
    watch->first = rota_job_rank(rota_job_at(table, first));
    sift_watch(choice, watch->place ? watch->place - 1 : choice->heap.size++, watch);
}

uint32_t rota_choice_first(struct rota_choice *choice, const struct rota_job_table *table,
                           uint64_t *n_looks)
{
    ROTA_LIST_DRAIN (watch, &choice->changed, struct rota_lane_watch, link) {
        rota_list_remove(&watch->link);
        rota_list_push(&watch->lane->watches, &watch->link);
        watch->has_looked = true;
        ++*n_looks;
        update_first(choice, watch, rota_lane_first(watch->lane), table);
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
        update_first(choice, watch, first, table);
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
            is_before(choice, watch, choice->heap.items[index > 0 ? (index - 1) / 2 : 0]))
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
