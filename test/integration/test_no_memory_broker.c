/* What becomes of calls to a cluster of brokers when memory runs out in any of them: each call
 * ends, a job that was acknowledged is still there, and all works once there is memory again. */
#include "no_memory.h"

#include "three_brokers.h"

#include <stdio.h>

static struct {
    size_t n, n_items;
    enum rota_code code;
    char job[ROTA_QUEUE_JOB_MAX];
    uint64_t attempt;
} told;

static void on_result(void *data, const struct rota_queue_result *result)
{
    (void)data;
    told.n++;
    told.code = result->code;
    assert_true(!result->code || result->text[0]);
    if (result->job[0])
        snprintf(told.job, sizeof told.job, "%s", result->job);
}

static void on_results(void *data, const struct rota_queue_result *result,
                       const struct rota_queue_result *items, size_t n)
{
    (void)items;
    on_result(data, result);
    told.n_items = n;
}

static void on_work(void *data, const struct rota_queue_result *result,
                    const struct rota_queue_work *works, size_t n)
{
    on_result(data, result);
    told.n_items = n;
    if (n == 0)
        return;
    snprintf(told.job, sizeof told.job, "%s", works[0].job);
    told.attempt = works[0].attempt;
}

/* --- the calls, each about `told.job` if it is about one --- */

static const struct rota_queue_job JOB = {.queue = {"q", 1}, .payload = {"x", 1}};

static enum rota_code add(struct rota_queue *queue)
{
    return rota_queue_add(queue, &JOB, on_result, NULL, NULL);
}

static enum rota_code add_unique(struct rota_queue *queue)
{
    struct rota_queue_job job = JOB;
    job.unique = rota_str("once");
    return rota_queue_add(queue, &job, on_result, NULL, NULL);
}

static enum rota_code add_all(struct rota_queue *queue)
{
    const struct rota_queue_job jobs[] = {JOB, JOB, JOB, JOB, JOB, JOB, JOB, JOB};
    return rota_queue_add_all(queue, jobs, 8, on_results, NULL, NULL);
}

static enum rota_code describe(struct rota_queue *queue)
{
    return rota_queue_describe(queue, told.job, true, on_result, NULL, NULL);
}

static enum rota_code list(struct rota_queue *queue)
{
    return rota_queue_list(queue, rota_str("q"), ROTA_QUEUE_WAITING, 5, 0, on_results, NULL, NULL);
}

static enum rota_code count(struct rota_queue *queue)
{
    return rota_queue_count(queue, rota_str("q"), on_result, NULL, NULL);
}

static enum rota_code set_priority(struct rota_queue *queue)
{
    return rota_queue_set_priority(queue, told.job, 3, on_result, NULL, NULL);
}

static enum rota_code poll(struct rota_queue *queue)
{
    const struct rota_queue_wanted wanted = {
        .queue = rota_str("q"), .wait = ROTA_MSEC, .lease = ROTA_HOUR};
    return rota_queue_poll(queue, &wanted, on_work, NULL, NULL);
}

static enum rota_code cancel(struct rota_queue *queue)
{
    return rota_queue_cancel(queue, told.job, on_result, NULL, NULL);
}

static enum rota_code wait_for_cancelled(struct rota_queue *queue)
{
    return rota_queue_wait(queue, told.job, on_result, NULL, NULL);
}

static enum rota_code retry(struct rota_queue *queue)
{
    return rota_queue_retry(queue, told.job, on_result, NULL, NULL);
}

/* --- without memory --- */

static void call(struct world *world, enum rota_code (*begin)(struct rota_queue *))
{
    size_t n = told.n;
    enum rota_code code = NO_MEMORY_IN(begin(world->queue));
    if (code) {
        assert_true(code == ROTA_ERR_NO_MEMORY || code == ROTA_ERR_LIMIT);
        assert_true(no_memory_has_failed());
        told.code = code;
        return;
    }
    while (told.n == n)
        NO_MEMORY_IN(uv_run(&world->loop, UV_RUN_ONCE));
    assert_int_equal(told.n, n + 1);
}

/* With memory: until it goes well. */
static void must(struct world *world, enum rota_code (*begin)(struct rota_queue *))
{
    do
        call(world, begin);
    while (told.code);
}

/* Its first allocation fails, then its second, and so on. */
static void starve(struct world *world, enum rota_code (*begin)(struct rota_queue *))
{
    enum { FEW = 10 };
    for (int is_lasting = 0; is_lasting < 2; is_lasting++)
        /* Others allocate beside it, now more and now less: it ends when none has failed for some.
         */
        for (uint64_t i = 1, n_well = 0; n_well < FEW; i++) {
            char job[ROTA_QUEUE_JOB_MAX];
            snprintf(job, sizeof job, "%s", told.job);
            memset(&no_memory, 0, sizeof no_memory);
            no_memory.is_lasting = is_lasting;
            no_memory.fails_at = i;
            call(world, begin);
            n_well = no_memory_has_failed() ? 0 : n_well + 1;
            no_memory_end();
            snprintf(told.job, sizeof told.job, "%s", job);
        }
    must(world, begin);
}

static void assert_known(struct world *world, const char *job)
{
    snprintf(told.job, sizeof told.job, "%s", job);
    must(world, describe);
    assert_string_equal(told.job, job);
}

static int set_up_impatient(void **state)
{
    if (set_up(state))
        return -1;
    struct world *world = *state;
    const struct rota_queue_options options = {
        .nodes = world->nodes, .timeout = 100 * ROTA_MSEC, .patience = ROTA_MSEC};
    rota_queue_close(world->queue);
    assert_int_equal(rota_queue_open(&world->loop, &options, &world->queue, NULL), ROTA_OK);
    memset(&told, 0, sizeof told);
    memset(&no_memory, 0, sizeof no_memory);
    return 0;
}

static void adds_end_and_jobs_stay(void **state)
{
    struct world *world = *state;
    char first[ROTA_QUEUE_JOB_MAX];
    must(world, add);
    snprintf(first, sizeof first, "%s", told.job);
    starve(world, add);
    starve(world, add_unique);
    starve(world, add_all);
    assert_known(world, first);
}

static void questions_end(void **state)
{
    struct world *world = *state;
    must(world, add);
    starve(world, describe);
    starve(world, list);
    starve(world, count);
    starve(world, set_priority);
}

static void ended_jobs_are_reported(void **state)
{
    struct world *world = *state;
    must(world, add);
    must(world, cancel);
    starve(world, wait_for_cancelled);
    must(world, retry);
    must(world, cancel);
    must(world, wait_for_cancelled);
}

static void polls_end(void **state)
{
    struct world *world = *state;
    starve(world, poll);
    must(world, add);
    for (told.n_items = 0; told.n_items == 0;)
        must(world, poll);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up_impatient, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(adds_end_and_jobs_stay),
        TEST(questions_end),
        TEST(ended_jobs_are_reported),
        TEST(polls_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
