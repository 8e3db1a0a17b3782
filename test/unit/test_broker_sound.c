/* rota_broker_is_sound() notices each thing that can be wrong inside a broker. Other tests and the
 * simulations of work rely on that. */
#include "broker_rules.h"
#include "core/work/broker/broker_inside.h"

/* A broker that has jobs in every state, and more than one job in each list. */
struct scene {
    struct rota_job_id waiting, delayed[2], run[2], leased, done[2], dead[2];
    uint64_t session;
};

static struct scene set_scene(void)
{
    struct scene scene;
    struct rota_str gpu = rota_str("gpu");
    uint64_t session = bench_open(&bench, "w", 2);
    for (int i = 0; i < 2; i++) {
        scene.done[i] = bench_add(&bench, "payload");
        bench_end_now(&bench, scene.done[i], ROTA_JOB_CAUSE_DONE, "result");
        bench_tick(&bench, ROTA_SEC);
        scene.dead[i] = bench_add_spec(&bench, (struct rota_job_spec){.queue = rota_str("q"),
                                                                      .payload = rota_str("p"),
                                                                      .max_attempts = 1});
        bench_end_now(&bench, scene.dead[i], ROTA_JOB_CAUSE_FAILED, "why");
        bench_tick(&bench, ROTA_SEC);
    }
    for (int i = 0; i < 2; i++)
        scene.delayed[i] = bench_add_spec(
            &bench, (struct rota_job_spec){.queue = rota_str("q"),
                                           .payload = rota_str("p"),
                                           .not_before = bench.now.wall + (i + 1) * ROTA_HOUR});
    for (int i = 0; i < 2; i++)
        scene.run[i] = bench_add(&bench, "r");
    scene.leased = bench_add_for(&bench, "gpu");
    bench_open_spec(&bench, (struct rota_worker_spec){.name = rota_str("p"),
                                                      .slots = 1,
                                                      .capabilities = &gpu,
                                                      .n_capabilities = 1,
                                                      .lease = ROTA_HOUR,
                                                      .is_poll = true});
    scene.waiting = bench_add_for(&bench, "tpu");
    scene.session = session;
    assert_int_equal(bench_session_of(&bench, scene.run[1]), session);
    assert_int_equal(bench_state(&bench, scene.leased), ROTA_JOB_RUNNING);
    assert_true(rota_broker_is_sound(bench.broker));
    return scene;
}

static struct rota_job *job_of(struct rota_job_id id)
{
    return rota_job_at(&bench.broker->jobs, rota_job_table_find(&bench.broker->jobs, id));
}

static struct rota_job_extra *extra_of(struct rota_job_id id)
{
    return rota_job_extra_known(&bench.broker->jobs, job_of(id));
}

/* Something inside has this value for a moment, and the broker is not sound. */
#define NOTICED(place, value)                                                                      \
    do {                                                                                           \
        __typeof__(place) before = (place);                                                        \
        (place) = (value);                                                                         \
        if (rota_broker_is_sound(bench.broker))                                                    \
            fail_msg("%s = %s is not noticed", #place, #value);                                    \
        (place) = before;                                                                          \
        assert_true(rota_broker_is_sound(bench.broker));                                           \
    } while (0)

static void wrong_sum_is_noticed(void **state)
{
    (void)state;
    set_scene();
    struct rota_broker *broker = bench.broker;
    struct rota_work_queue *queue = rota_broker_queue(broker, rota_str("q"));
    for (int by = -1; by <= 1; by += 2) {
        NOTICED(broker->n_live, before + (size_t)by);
        NOTICED(broker->ended.n, before + (size_t)by);
        NOTICED(broker->bytes, before + (size_t)by);
        NOTICED(broker->workers.pollers.items[0]->n_leased, before + (uint32_t)by);
        for (int i = 0; i < ROTA_JOB_STATES; i++)
            NOTICED(broker->counts[i], before + (size_t)by);
        NOTICED(queue->partitions.items[0].n_jobs, before + (size_t)by);
        NOTICED(queue->partitions.items[0].n_live, before + (size_t)by);
        NOTICED(queue->partitions.items[0].n_drawn, before + (size_t)by);
    }
    NOTICED(broker->queues.by_name.size, before + 1);
    NOTICED(broker->options.ended_max, broker->ended.n - 1);
    broker->options.ended_max = broker->ended.n;
    assert_true(rota_broker_is_sound(broker));
}

/* The sums over all partitions are still right. */
static void job_that_another_partition_counts_is_noticed(void **state)
{
    (void)state;
    set_scene();
    assert_int_equal(rota_broker_partition_open(bench.broker, bench.now, rota_str("q"), 1, 1, NULL),
                     ROTA_OK);
    bench_settle(&bench);
    struct rota_work_queue *queue = rota_broker_queue(bench.broker, rota_str("q"));
    struct rota_work_partition *from = rota_broker_partition(queue, 0),
                               *to = rota_broker_partition(queue, 1);
    from->n_live--, to->n_live++;
    assert_false(rota_broker_is_sound(bench.broker));
    from->n_live++, to->n_live--;
    from->n_jobs--, to->n_jobs++;
    assert_false(rota_broker_is_sound(bench.broker));
    from->n_jobs++, to->n_jobs--;
    assert_true(rota_broker_is_sound(bench.broker));
}

static void attempt_without_a_holder_is_noticed(void **state)
{
    (void)state;
    struct scene scene = set_scene();
    struct rota_job_extra *run = extra_of(scene.run[0]), *leased = extra_of(scene.leased);
    NOTICED(run->attempt, 0);
    NOTICED(run->session, 0); /* and no lease */
    NOTICED(run->session, scene.session + ((uint64_t)1 << 40));
    NOTICED(run->next_job, rota_job_table_find(&bench.broker->jobs, scene.delayed[0]));
    NOTICED(leased->lease_until, ROTA_TIME_NEVER);
    NOTICED(leased->worker, NULL);
    NOTICED(leased->poller, NULL);
    NOTICED(leased->session, scene.session);
    NOTICED(run->poller, leased->poller);
    NOTICED(extra_of(scene.delayed[0])->session, scene.session);
    NOTICED(extra_of(scene.delayed[0])->poller, leased->poller);
}

static void job_that_keeps_too_much_or_too_little_is_noticed(void **state)
{
    (void)state;
    struct scene scene = set_scene();
    struct rota_job_id keyed =
        bench_add_spec(&bench, (struct rota_job_spec){.key = rota_str("k"),
                                                      .not_before = bench.now.wall + ROTA_HOUR});
    assert_true(rota_broker_is_sound(bench.broker));
    NOTICED(job_of(scene.done[0])->payload_hash, 0);
    NOTICED(extra_of(keyed)->key, NULL);
    NOTICED(extra_of(scene.delayed[0])->key, extra_of(keyed)->key);
}

static void choice_that_is_wrong_is_noticed(void **state)
{
    (void)state;
    struct scene scene = set_scene();
    struct rota_work_worker *worker = rota_broker_worker(bench.broker, scene.session);
    struct rota_choice *choice = &worker->class->choices[0];
    NOTICED(choice->heap.size, choice->watches.size + 1);
}

static void worker_that_may_not_have_its_job_is_noticed(void **state)
{
    (void)state;
    struct scene scene = set_scene();
    NOTICED(job_of(scene.run[0])->lane, job_of(scene.waiting)->lane);
}

static void worker_that_counts_wrong_is_noticed(void **state)
{
    (void)state;
    struct scene scene = set_scene();
    struct rota_work_worker *worker = rota_broker_worker(bench.broker, scene.session);
    NOTICED(worker->n_running, 1);
    NOTICED(worker->n_running, 3);
    NOTICED(worker->running,
            rota_job_extra_known(&bench.broker->jobs, rota_job_at(&bench.broker->jobs, before))
                ->next_job);
    NOTICED(worker->is_free, true); /* it has no slot left */
    NOTICED(worker->slots, 3);      /* it has, and is not free */
    bench_done(&bench, scene.run[0]);
    NOTICED(worker->is_free, false);
    NOTICED(worker->is_gone, true); /* and free */
}

static void job_in_the_wrong_place_is_noticed(void **state)
{
    (void)state;
    struct scene scene = set_scene();
    struct rota_work_queue *queue = rota_broker_queue(bench.broker, rota_str("q"));
    NOTICED(job_of(scene.waiting)->flags, (uint8_t)(before & ~ROTA_JOB_IN_LANE));
    NOTICED(job_of(scene.run[0])->flags, before | ROTA_JOB_IN_LANE);
    NOTICED(job_of(scene.waiting)->flags, before | ROTA_JOB_UNSAFE);
    NOTICED(bench.broker->lanes.all.items[job_of(scene.waiting)->lane]->is_dirty, true);
    NOTICED(bench.broker->lanes.all.items[job_of(scene.waiting)->lane]->size, 2);
    for (size_t i = 0; i < queue->partitions.size; i++)
        if (queue->partitions.items[i].number ==
            rota_job_partition(&bench.broker->jobs, job_of(scene.waiting)))
            NOTICED(queue->partitions.items[i].is_open, false);
}

static void timer_out_of_order_is_noticed(void **state)
{
    (void)state;
    struct scene scene = set_scene();
    NOTICED(extra_of(scene.delayed[0])->timer_place, 0);
    NOTICED(extra_of(scene.delayed[0])->timer_place, before + 1);
    NOTICED(rota_job_extra_at(&bench.broker->jobs, bench.broker->timers.items[0])->timer_at,
            ROTA_TIME_NEVER);
    NOTICED(rota_job_extra_at(&bench.broker->jobs,
                              bench.broker->timers.items[bench.broker->timers.size - 1])
                ->timer_at,
            0);
}

static void ended_job_out_of_its_list_is_noticed(void **state)
{
    (void)state;
    struct scene scene = set_scene();
    struct rota_broker *broker = bench.broker;
    struct rota_job *done = job_of(scene.done[0]);
    NOTICED(broker->ended.others.first, extra_of(scene.done[0])->next_ended);
    NOTICED(broker->ended.others.last, done->extra);
    NOTICED(broker->ended.dead.last, 0);
    NOTICED(extra_of(scene.done[0])->next_ended, 0);
    NOTICED(extra_of(scene.done[1])->previous_ended, 0);
    NOTICED(extra_of(scene.done[1])->next_ended, done->extra); /* forever */
    NOTICED(extra_of(scene.done[0])->since, extra_of(scene.done[1])->since + 1);
    NOTICED(extra_of(scene.dead[0])->since, extra_of(scene.dead[1])->since + 1);
    struct rota_ended_list ended =
        broker->ended.others; /* each list holds what belongs in the other */
    broker->ended.others = broker->ended.dead;
    broker->ended.dead = ended;
    assert_false(rota_broker_is_sound(broker));
    broker->ended.dead = broker->ended.others;
    broker->ended.others = ended;
    NOTICED(extra_of(scene.done[1])->job, extra_of(scene.done[0])->job);
}

static void worker_that_is_idle_beside_its_job_is_noticed(void **state)
{
    (void)state;
    struct rota_job_id id = bench_add_for(&bench, "tpu"), other = bench_add_for(&bench, "gpu");
    struct rota_broker *broker = bench.broker;
    struct rota_work_queue *queue = rota_broker_queue(broker, rota_str("q"));
    queue->is_paused = true;
    bench_open_for(&bench, "w", 1, "tpu");
    assert_int_equal(bench_state(&bench, id), ROTA_JOB_WAITING);
    assert_true(rota_broker_is_sound(broker));
    NOTICED(queue->is_paused, false);
    queue->is_paused = false;
    broker->is_starved = true; /* it could not be given the job */
    assert_true(rota_broker_is_sound(broker));
    broker->is_starved = false;
    broker->matching.is_on_hold = true; /* it must not */
    assert_true(rota_broker_is_sound(broker));
    broker->matching.is_on_hold = false;
    size_t place = 0;
    struct rota_work_class *class = rota_map_next(&broker->classes.by_key, &place)->value;
    broker->matching.is_shared = true;
    class->yield.until = bench.now.boot + ROTA_SEC; /* its only slot waits for another node */
    assert_true(rota_broker_is_sound(broker));
    NOTICED(broker->matching.is_shared, false);
    NOTICED(class->yield.until, 0);
    NOTICED(class->has_lane.items[0], 0);
    NOTICED(class->has_lane.items[0], before | (uint64_t)1 << job_of(other)->lane);
    queue->is_paused = true;
}

static void broker_that_has_not_started_is_not_judged(void **state)
{
    (void)state;
    set_scene();
    bench.broker->n_live++;
    bench.broker->journal.is_begun = false;
    assert_true(rota_broker_is_sound(bench.broker));
    bench.broker->journal.is_begun = true;
    bench.broker->n_live--;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        RULE(wrong_sum_is_noticed),
        RULE(job_that_another_partition_counts_is_noticed),
        RULE(attempt_without_a_holder_is_noticed),
        RULE(job_that_keeps_too_much_or_too_little_is_noticed),
        RULE(choice_that_is_wrong_is_noticed),
        RULE(worker_that_may_not_have_its_job_is_noticed),
        RULE(worker_that_counts_wrong_is_noticed),
        RULE(job_in_the_wrong_place_is_noticed),
        RULE(timer_out_of_order_is_noticed),
        RULE(ended_job_out_of_its_list_is_noticed),
        RULE(worker_that_is_idle_beside_its_job_is_noticed),
        RULE(broker_that_has_not_started_is_not_judged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
