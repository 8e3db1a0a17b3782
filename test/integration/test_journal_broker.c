/* A broker over a journal: what it was is what the next one reads, also when the journal was
 * compacted meanwhile. */
#include "core/work/broker/broker.h"
#include "core/work/broker/compaction.h"
#include "journal_book.h"

#include <string.h>

static struct rota_broker *broker;
static struct rota_work_now now = {.boot = ROTA_SEC, .wall = 1780000000 * ROTA_SEC};
static struct rota_compaction compaction;
static size_t n_compactions;
static size_t n_dispatched;

enum { DISPATCHED_MAX = 4096 };
static struct {
    struct rota_job_id id;
    uint64_t attempt;
} dispatched[DISPATCHED_MAX];

static enum rota_code on_replay(void *data, const struct rota_work_record *record,
                                struct rota_error *error)
{
    (void)data;
    return rota_broker_replay(broker, record, error);
}

/* Carry out what the broker wants: records go to the journal, jobs are held. */
static void carry_out(void)
{
    size_t n;
    const struct rota_work_effect *effects = rota_broker_effects(broker, &n);
    for (size_t i = 0; i < n; i++) {
        if (effects[i].type == ROTA_WORK_DO_RECORD) {
            assert_int_equal(rota_journal_append(book.journal, &effects[i].record, NULL), ROTA_OK);
            book.last = effects[i].record.number;
        } else if (effects[i].type == ROTA_WORK_DO_DISPATCH) {
            assert_true(n_dispatched < DISPATCHED_MAX);
            dispatched[n_dispatched].id = effects[i].id;
            dispatched[n_dispatched++].attempt = effects[i].attempt;
        }
    }
    rota_broker_clear(broker);
}

static void compact(void)
{
    struct rota_journal_view view = rota_journal_look(book.journal);
    struct rota_compaction_look look = {
        .bytes = view.bytes,
        .live = rota_broker_memory(broker),
        .edge = view.edge,
        .segment_size = view.segment_size,
        .room = {.left = view.n_left, .free = view.n_free, .waiting = view.n_waiting_bytes}};
    for (; look.n_old < view.n_old; look.n_old++)
        look.old[look.n_old] = (struct rota_compaction_segment){.bytes = view.old[look.n_old].bytes,
                                                                .end = view.old[look.n_old].end};
    uint64_t size = 64 + rota_broker_rewrite_size(broker, look.old[0].end, ROTA_COMPACTION_JOBS,
                                                  ROTA_COMPACTION_BYTES);
    struct rota_compaction_todo todo = rota_compaction_step(&compaction, now.boot, &look, broker);
    if (todo.want)
        rota_journal_make_room(book.journal, todo.want);
    if (todo.has_written) { /* it takes no more than it was said to */
        carry_out();
        size_t n_bytes = rota_journal_look(book.journal).n_waiting_bytes - view.n_waiting_bytes;
        assert_true(n_bytes <= size);
        rota_journal_seal(book.journal);
    }
    if (todo.drop_below) {
        rota_journal_drop_below(book.journal, todo.drop_below);
        n_compactions++;
    }
}

static void on_durable(void *data, uint64_t number)
{
    book_on_durable(data, number);
    rota_broker_durable(broker, now, number);
    carry_out();
}

static void start_broker(void)
{
    struct rota_broker_options broker_options = {.seed = 7, .ended_max = 10};
    struct rota_journal_options options = book.options;
    struct rota_error error;
    assert_int_equal(rota_broker_new(&broker_options, &broker, &error), ROTA_OK);
    options.directory = book.directory;
    options.on_record = on_replay;
    options.on_durable = on_durable;
    options.data = &book;
    if (rota_journal_open(&loop, &options, &book.journal, &error))
        fail_msg("%s", error.text);
    book.last = book.durable = rota_journal_look(book.journal).last;
    book.n_durable = (size_t)book.last;
    book.n_closed = 0;
    assert_int_equal(rota_broker_last_number(broker), book.last);
    rota_broker_begin(broker, now);
    carry_out();
    book_await();
}

static void stop_broker(void)
{
    book_close();
    rota_broker_free(broker);
    memset(&compaction, 0, sizeof compaction);
}

static void add_jobs(size_t n)
{
    static char payload[300];
    static const struct rota_str needs[] = {{"gpu", 3}, {"eu", 2}};
    struct rota_error error;
    for (size_t i = 0; i < n; i++) {
        struct rota_job_spec spec = {.queue = rota_str("mail"), .n_capabilities = i % 3};
        struct rota_job_id id;
        uint64_t number;
        bool is_new;
        spec.capabilities = needs;
        spec.payload = rota_str_of(payload, 20 + i % 250);
        spec.priority = (int16_t)(i % 5);
        spec.key = rota_str(i % 2 ? "alice" : "bob");
        spec.max_attempts = 1 + (uint32_t)i % 7;
        if (rota_broker_add(broker, now, &spec, &id, &is_new, &number, &error))
            fail_msg("%s", error.text);
        now.boot += ROTA_MSEC;
        now.wall += ROTA_MSEC;
    }
    carry_out();
    book_await();
}

/* A worker that takes `n` jobs and ends those of them that `ends` says. */
static void work_off(uint32_t n, bool ends)
{
    static const struct rota_str has[] = {{"gpu", 3}, {"eu", 2}}, queues[] = {{"mail", 4}};
    struct rota_worker_spec worker = {.name = rota_str("w1"), .epoch = book.last, .slots = n};
    struct rota_error error;
    uint64_t session, number;
    worker.capabilities = has;
    worker.n_capabilities = 2;
    worker.queues = queues;
    worker.n_queues = 1;
    n_dispatched = 0;
    if (rota_broker_worker_open(broker, now, &worker, &session, &error))
        fail_msg("%s", error.text);
    carry_out();
    book_await();
    size_t n_first = n_dispatched;
    assert_int_equal(n_first, n);
    assert_true(rota_broker_worker_slots(broker, now, session, 0));
    for (size_t i = 0; ends && i < n_first; i++) {
        struct rota_attempt_end end = {.queue = rota_str("mail"),
                                       .id = dispatched[i].id,
                                       .attempt = dispatched[i].attempt,
                                       .cause = ROTA_JOB_CAUSE_DONE,
                                       .bytes = rota_str("fine")};
        if (rota_broker_end(broker, now, &end, &number, &error))
            fail_msg("%s", error.text);
    }
    carry_out();
    book_await();
}

/* What there is, in a number that does not depend on the order. */
static uint64_t sum_of_jobs(void)
{
    uint64_t sum = 0;
    for (int state = 0; state < ROTA_JOB_STATES; state++) {
        struct rota_job_view view;
        for (size_t place = 0; rota_broker_next_job(broker, rota_str("mail"),
                                                    (enum rota_job_state)state, &place, &view);) {
            uint64_t one = view.id.high ^ view.id.low ^ (uint64_t)view.enqueued_at ^
                           view.spec.payload.size << 8 ^ view.attempt ^ view.n_attempts ^
                           (uint64_t)view.state << 40 ^ view.spec.max_attempts << 4 ^
                           view.spec.key.size ^ (uint64_t)view.spec.priority << 50 ^
                           view.spec.n_capabilities << 30 ^ view.result.size << 33;
            sum += rota_random_mix(&one);
        }
    }
    assert_true(rota_broker_is_sound(broker));
    return sum;
}

static void the_next_broker_has_the_same_jobs(void **state)
{
    (void)state;
    struct rota_error error;
    start_broker();
    assert_int_equal(rota_broker_partition_open(broker, now, rota_str("mail"), 0, 1, &error),
                     ROTA_OK);
    add_jobs(400);
    work_off(100, true);
    work_off(30, false); /* these run when it stops */
    uint64_t sum = sum_of_jobs();
    size_t n = rota_broker_n_jobs(broker);
    assert_int_equal(n, 300);
    stop_broker();
    start_broker();
    assert_int_equal(rota_broker_n_jobs(broker), n);
    assert_int_equal(sum_of_jobs(), sum);
    stop_broker();
}

static void jobs_outlive_compactions(void **state)
{
    (void)state;
    struct rota_error error;
    n_compactions = 0;
    start_broker();
    assert_int_equal(rota_broker_partition_open(broker, now, rota_str("mail"), 0, 1, &error),
                     ROTA_OK);
    add_jobs(60); /* some of them stay to the end */
    for (int i = 0; i < 200; i++) {
        add_jobs(100);
        work_off(100, true);
        compact();
    }
    assert_true(n_compactions > 1);
    struct rota_journal_view view = rota_journal_look(book.journal);
    assert_true(view.bytes < 20 * view.segment_size);
    uint64_t sum = sum_of_jobs();
    stop_broker();
    start_broker();
    assert_int_equal(rota_broker_n_jobs(broker), 60);
    assert_int_equal(sum_of_jobs(), sum);
    stop_broker();
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, book_set_up, book_tear_down)
    const struct CMUnitTest tests[] = {
        TEST(the_next_broker_has_the_same_jobs),
        TEST(jobs_outlive_compactions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
