#include "core/work/job/choice.h"
#include "vectors.h"

#include <rota/experimental/random.h>

enum { N_LANES = 500, N_CHOICES = 3, N_JOBS = 4000 };

static struct rota_job_table table;
static struct rota_random chance;
static struct rota_lane lanes[N_LANES];
static struct rota_choice choices[N_CHOICES];
static uint32_t numbers[N_JOBS];
static bool is_inside[N_JOBS];

/* The first choice watches all lanes, each of the others some. */
static bool is_watched(size_t choice, size_t lane)
{
    return lane % (choice + 1) == 0;
}

static void watch(size_t choice, size_t lane)
{
    if (!is_watched(choice, lane))
        return;
    assert_true(rota_choice_reserve(&choices[choice]));
    rota_choice_watch(&choices[choice], &lanes[lane]);
}

static int set_up(void **state)
{
    (void)state;
    rota_random_init(&chance, 1);
    rota_job_table_init(&table, 1);
    for (size_t i = 0; i < N_JOBS; i++) {
        numbers[i] = rota_job_table_add(&table, (struct rota_job_id){1, i + 1});
        struct rota_job *job = rota_job_at(&table, numbers[i]);
        job->order = i + 1;
        job->lane = (uint32_t)(i % N_LANES);
        is_inside[i] = false;
    }
    for (size_t k = 0; k < N_CHOICES; k++)
        rota_choice_init(&choices[k]);
    for (size_t i = 0; i < N_LANES; i++) {
        rota_list_init(&lanes[i].watches);
        for (size_t k = 0; k < N_CHOICES; k++)
            watch(k, i);
    }
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_CHOICES; i++)
        rota_choice_deinit(&choices[i]);
    for (size_t i = 0; i < N_LANES; i++) {
        assert_true(rota_list_is_empty(&lanes[i].watches));
        rota_lane_deinit(&lanes[i]);
    }
    rota_job_table_deinit(&table);
    return 0;
}

static void push(size_t job)
{
    struct rota_lane *lane = &lanes[job % N_LANES];
    assert_true(rota_lane_reserve(lane));
    rota_lane_push(lane, &table, numbers[job]);
    if (rota_lane_first(lane) == numbers[job])
        rota_choice_tell(lane);
    is_inside[job] = true;
}

static void take(size_t job)
{
    rota_lane_remove(&lanes[job % N_LANES], &table, numbers[job]);
    is_inside[job] = false;
}

static uint32_t first_by_a_look_at_all(size_t choice)
{
    uint32_t best = 0;
    for (size_t i = 0; i < N_LANES; i++) {
        uint32_t first = rota_lane_first(&lanes[i]);
        if (first && is_watched(choice, i) &&
            (!best || rota_job_is_before(rota_job_at(&table, first), rota_job_at(&table, best))))
            best = first;
    }
    return best;
}

static void check(void)
{
    for (size_t i = 0; i < N_CHOICES; i++) {
        uint64_t n_looks = 0;
        assert_int_equal(rota_choice_first(&choices[i], &table, &n_looks),
                         first_by_a_look_at_all(i));
        assert_true(rota_choice_is_sound(&choices[i], &table));
    }
}

static void a_choice_equals_a_full_scan(void **state)
{
    (void)state;
    for (int step = 0; step < 20000; step++) {
        size_t i = rota_random_below(&chance, N_JOBS);
        double wanted = step < 10000 ? 0.8 : 0.2; /* they fill, then they drain */
        if (!is_inside[i] && rota_random_chance(&chance, wanted)) {
            struct rota_job *job = rota_job_at(&table, numbers[i]);
            job->tag = rota_random_below(&chance, 4);
            job->enqueued_at = (rota_time)rota_random_below(&chance, 100);
            job->priority = (int16_t)rota_random_range(&chance, -1, 1);
            push(i);
        } else if (is_inside[i] && !rota_random_chance(&chance, wanted)) {
            take(i);
        } else if (step % 3 == 0) {
            uint32_t first = rota_lane_first(&lanes[i % N_LANES]);
            if (first)
                take(rota_job_at(&table, first)->order - 1);
        }
        if (step % 7 == 0)
            check();
    }
    check();
}

static void a_lane_that_is_watched_no_longer_is_not_chosen(void **state)
{
    (void)state;
    for (size_t i = 0; i < 2 * N_LANES; i++)
        push(i);
    check();
    for (size_t i = 0; i < N_LANES; i += 2) {
        while (lanes[i].size > 0)
            take(rota_job_at(&table, rota_lane_first(&lanes[i]))->order - 1);
        for (size_t k = 0; k < N_CHOICES; k++)
            rota_choice_unwatch(&choices[k], &lanes[i]);
        assert_true(rota_list_is_empty(&lanes[i].watches));
        if (i % 50 == 0)
            check();
    }
    check();
    for (size_t k = 0; k < N_CHOICES; k++)
        watch(k, 0);
    push(0);
    check();
}

/* Jobs leave in the order in which they came, one from each lane in turn. */
static void the_cost_of_a_choice_does_not_grow_with_the_lanes(void **state)
{
    (void)state;
    uint64_t n_looks = 0;
    for (size_t i = 0; i < N_JOBS; i++)
        push(i);
    assert_int_equal(rota_choice_first(&choices[0], &table, &n_looks), numbers[0]);
    assert_in_range(n_looks, N_LANES, N_LANES + 1); /* once, at each */
    n_looks = 0;
    for (size_t i = 0; i < N_JOBS; i++) {
        assert_int_equal(rota_choice_first(&choices[0], &table, &n_looks), numbers[i]);
        take(i);
    }
    assert_in_range(n_looks, N_JOBS, 2 * N_JOBS);
}

static void a_class_that_does_not_choose_is_notified_of_a_lane_once(void **state)
{
    (void)state;
    uint64_t n_looks = 0;
    for (size_t i = 0; i < N_JOBS; i++) {
        push(i);
        take(i);
    }
    rota_choice_first(&choices[0], &table, &n_looks);
    assert_int_equal(n_looks, N_LANES);
    assert_int_equal(choices[0].heap.size, 0);
}

/* Something inside has this value for a moment, and the choice is not sound. */
#define NOTICED(place, value)                                                                      \
    do {                                                                                           \
        __typeof__(place) before = (place);                                                        \
        (place) = (value);                                                                         \
        assert_false(rota_choice_is_sound(choice, &table));                                        \
        (place) = before;                                                                          \
        assert_true(rota_choice_is_sound(choice, &table));                                         \
    } while (0)

static void what_is_wrong_inside_is_noticed(void **state)
{
    (void)state;
    struct rota_choice *choice = &choices[0];
    for (size_t i = 0; i < N_LANES; i++)
        push(i);
    check();
    struct rota_lane_watch *top = choice->heap.items[0], *other = choice->heap.items[5];
    NOTICED(other->place, 0); /* its lane has a job */
    NOTICED(other->place, 1);
    NOTICED(other->place, choice->heap.size + 1);
    NOTICED(other->first.order, 0);         /* before those above it */
    NOTICED(top->first.order, N_JOBS + 1u); /* after the job */
    NOTICED(choice->watches.size, choice->heap.size - 1);
}

#define RULE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        RULE(a_choice_equals_a_full_scan),
        RULE(a_lane_that_is_watched_no_longer_is_not_chosen),
        RULE(the_cost_of_a_choice_does_not_grow_with_the_lanes),
        RULE(a_class_that_does_not_choose_is_notified_of_a_lane_once),
        RULE(what_is_wrong_inside_is_noticed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
