#include "work_bench.h"

static struct rota_str bench_keep(struct bench *bench, struct rota_str bytes)
{
    return bytes.size ? rota_arena_copy(&bench->memory, bytes) : rota_str_of("", 0);
}

static struct rota_job_spec *bench_keep_spec(struct bench *bench, const struct rota_job_spec *spec)
{
    struct rota_job_spec *copy = rota_arena_take(&bench->memory, sizeof *copy);
    struct rota_str *names =
        rota_arena_take(&bench->memory, (spec->n_capabilities + 1) * sizeof *names);
    *copy = *spec;
    copy->queue = bench_keep(bench, spec->queue);
    copy->payload = bench_keep(bench, spec->payload);
    copy->unique = bench_keep(bench, spec->unique);
    copy->key = bench_keep(bench, spec->key);
    copy->trace = bench_keep(bench, spec->trace);
    for (size_t i = 0; i < spec->n_capabilities; i++)
        names[i] = bench_keep(bench, spec->capabilities[i]);
    copy->capabilities = names;
    return copy;
}

static struct rota_work_record bench_keep_record(struct bench *bench,
                                                 const struct rota_work_record *record)
{
    struct rota_work_record copy = *record;
    copy.spec = record->spec ? bench_keep_spec(bench, record->spec) : NULL;
    if (record->layout) {
        struct rota_work_layout *layout = rota_arena_take(&bench->memory, sizeof *layout);
        assert_non_null(layout);
        *layout = *record->layout;
        copy.layout = layout;
    }
    copy.queue = bench_keep(bench, record->queue);
    copy.key = bench_keep(bench, record->key);
    copy.worker = bench_keep(bench, record->worker);
    copy.reason = bench_keep(bench, record->reason);
    copy.bytes = bench_keep(bench, record->bytes);
    return copy;
}

void bench_take(struct bench *bench)
{
    size_t n;
    const struct rota_work_effect *effects = rota_broker_effects(bench->broker, &n);
    for (size_t i = 0; i < n; i++) {
        struct rota_work_effect effect = effects[i];
        if (effect.type == ROTA_WORK_DO_RECORD) {
            uint64_t next =
                bench->journal.size ? bench->journal.items[bench->journal.size - 1].number + 1 : 1;
            if (bench->options.is_volatile)
                assert_true(effect.record.number >= next);
            else
                assert_int_equal(effect.record.number, next);
            assert_true(
                rota_vector_push(&bench->journal, bench_keep_record(bench, &effect.record)));
        } else {
            effect.payload = bench_keep(bench, effect.payload);
            effect.key = bench_keep(bench, effect.key);
            effect.trace = bench_keep(bench, effect.trace);
            assert_true(rota_vector_push(&bench->done, effect));
        }
    }
    rota_broker_clear(bench->broker);
}

void bench_sync(struct bench *bench)
{
    bench_take(bench);
    rota_broker_durable(bench->broker, bench->now, rota_broker_last_number(bench->broker));
    bench_take(bench);
}

void bench_settle(struct bench *bench)
{
    if (!bench->is_slow)
        bench_sync(bench);
    else
        bench_take(bench);
    assert_true(rota_broker_is_sound(bench->broker));
}

void bench_new(struct bench *bench)
{
    assert_int_equal(rota_broker_new(&bench->options, &bench->broker, NULL), ROTA_OK);
}

void bench_own(struct bench *bench, const char *queue)
{
    assert_int_equal(
        rota_broker_partition_open(bench->broker, bench->now, rota_str(queue), 0, 1, NULL),
        ROTA_OK);
    bench_settle(bench);
}

void bench_init(struct bench *bench)
{
    struct rota_broker_options options = bench->options;
    *bench = (struct bench){.options = options, .now = {1000 * ROTA_SEC, BENCH_WALL}};
    bench_new(bench);
    rota_broker_begin(bench->broker, bench->now);
    bench_settle(bench);
    bench_own(bench, "q");
}

void bench_deinit(struct bench *bench)
{
    rota_broker_free(bench->broker);
    rota_vector_deinit(&bench->journal);
    rota_vector_deinit(&bench->done);
    rota_arena_deinit(&bench->memory);
    *bench = (struct bench){0};
}

void bench_crash(struct bench *bench, size_t n_kept)
{
    rota_broker_free(bench->broker);
    bench->journal.size = n_kept;
    bench->done.size = 0;
    bench->options.seed++;
    bench_new(bench);
    for (size_t i = 0; i < n_kept; i++) {
        enum rota_code code =
            rota_broker_replay(bench->broker, &bench->journal.items[i], &bench->error);
        if (code)
            fail_msg("%s", bench->error.text);
    }
    rota_broker_begin(bench->broker, bench->now);
    bench_settle(bench);
}

void bench_restart(struct bench *bench)
{
    bench_crash(bench, bench->journal.size);
}

void bench_stall(struct bench *bench, rota_time span)
{
    bench->now.boot += span;
    bench->now.wall += span;
    rota_broker_tick(bench->broker, bench->now);
    bench_settle(bench);
}

void bench_tick(struct bench *bench, rota_time span)
{
    rota_time until = bench->now.boot + span, due;
    while ((due = rota_broker_deadline(bench->broker)) > bench->now.boot && due < until)
        bench_stall(bench, due - bench->now.boot);
    bench_stall(bench, until - bench->now.boot);
}

enum rota_code bench_try_add(struct bench *bench, const struct rota_job_spec *spec,
                             struct rota_job_id *id)
{
    enum rota_code code = rota_broker_add(bench->broker, bench->now, spec, id, &bench->is_new,
                                          &bench->number, &bench->error);
    bench_settle(bench);
    return code;
}

struct rota_job_id bench_add_spec(struct bench *bench, struct rota_job_spec spec)
{
    struct rota_job_id id = {0};
    if (spec.queue.size == 0)
        spec.queue = rota_str("q");
    if (bench_try_add(bench, &spec, &id))
        fail_msg("%s", bench->error.text);
    return id;
}

struct rota_job_id bench_add(struct bench *bench, const char *payload)
{
    return bench_add_spec(bench, (struct rota_job_spec){.payload = rota_str(payload)});
}

struct rota_job_id bench_add_for(struct bench *bench, const char *capability)
{
    struct rota_str name = rota_str(capability);
    return bench_add_spec(bench,
                          (struct rota_job_spec){.capabilities = &name, .n_capabilities = 1});
}

enum rota_code bench_try_open(struct bench *bench, const struct rota_worker_spec *spec,
                              uint64_t *session)
{
    enum rota_code code =
        rota_broker_worker_open(bench->broker, bench->now, spec, session, &bench->error);
    bench_settle(bench);
    return code;
}

uint64_t bench_open_spec(struct bench *bench, struct rota_worker_spec spec)
{
    struct rota_str queue = rota_str("q");
    uint64_t session = 0;
    if (spec.n_queues == 0) {
        spec.queues = &queue;
        spec.n_queues = 1;
    }
    if (bench_try_open(bench, &spec, &session))
        fail_msg("%s", bench->error.text);
    assert_true(session != 0);
    return session;
}

uint64_t bench_open(struct bench *bench, const char *name, uint32_t slots)
{
    return bench_open_spec(bench,
                           (struct rota_worker_spec){.name = rota_str(name), .slots = slots});
}

uint64_t bench_open_for(struct bench *bench, const char *name, uint32_t slots,
                        const char *capability)
{
    struct rota_str can = rota_str(capability);
    return bench_open_spec(bench, (struct rota_worker_spec){.name = rota_str(name),
                                                            .slots = slots,
                                                            .capabilities = &can,
                                                            .n_capabilities = 1});
}

uint64_t bench_open_running(struct bench *bench, const char *name, struct rota_job_id id,
                            uint64_t attempt, uint64_t epoch)
{
    struct rota_worker_running running = {rota_str("q"), id, attempt};
    return bench_open_spec(bench, (struct rota_worker_spec){.name = rota_str(name),
                                                            .epoch = epoch,
                                                            .slots = 1,
                                                            .running = &running,
                                                            .n_running = 1});
}

struct rota_job_view bench_view(struct bench *bench, struct rota_job_id id)
{
    struct rota_job_view view;
    assert_int_equal(rota_broker_find(bench->broker, rota_str("q"), id, &view, NULL), ROTA_OK);
    return view;
}

enum rota_job_state bench_state(struct bench *bench, struct rota_job_id id)
{
    return bench_view(bench, id).state;
}

enum rota_code bench_end(struct bench *bench, struct rota_job_id id, uint64_t attempt,
                         enum rota_job_cause cause, const char *text)
{
    struct rota_attempt_end end = {.queue = rota_str("q"),
                                   .id = id,
                                   .attempt = attempt,
                                   .cause = cause,
                                   .bytes = rota_str(text),
                                   .reason = rota_str(text)};
    enum rota_code code =
        rota_broker_end(bench->broker, bench->now, &end, &bench->number, &bench->error);
    bench_settle(bench);
    return code;
}

void bench_end_now(struct bench *bench, struct rota_job_id id, enum rota_job_cause cause,
                   const char *text)
{
    if (bench_end(bench, id, bench_view(bench, id).attempt, cause, text))
        fail_msg("%s", bench->error.text);
}

void bench_done(struct bench *bench, struct rota_job_id id)
{
    bench_end_now(bench, id, ROTA_JOB_CAUSE_DONE, "");
}

bool bench_id_is(struct rota_job_id a, struct rota_job_id b)
{
    return a.high == b.high && a.low == b.low;
}

size_t bench_count(const struct bench *bench, enum rota_work_effect_type type,
                   struct rota_job_id id)
{
    size_t n = 0;
    for (size_t i = 0; i < bench->done.size; i++)
        n += bench->done.items[i].type == type &&
             (rota_job_id_is_none(id) || bench_id_is(bench->done.items[i].id, id));
    return n;
}

struct rota_work_effect bench_last(const struct bench *bench, enum rota_work_effect_type type)
{
    for (size_t i = bench->done.size; i-- > 0;)
        if (bench->done.items[i].type == type)
            return bench->done.items[i];
    fail_msg("there is no such effect");
    return (struct rota_work_effect){0};
}

void bench_look(struct bench *bench)
{
    bench->done.size = 0;
}

uint64_t bench_session_of(const struct bench *bench, struct rota_job_id id)
{
    for (size_t i = bench->done.size; i-- > 0;)
        if (bench->done.items[i].type == ROTA_WORK_DO_DISPATCH &&
            bench_id_is(bench->done.items[i].id, id))
            return bench->done.items[i].session;
    return 0;
}
