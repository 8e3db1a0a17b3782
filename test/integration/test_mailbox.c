/* Letters between threads: none lost, none done twice, in order, within bounds.
 * What letters hold is plain memory, so that ThreadSanitizer, under which CI
 * runs this too, sees a crossing without the lock. */
#include "io/mailbox.h"

#include "await.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

enum { MANY = 20000, SENDERS = 4 };

static uv_loop_t loop;

/* One letter with what became of it. */
struct item {
    struct rota_letter letter;
    struct desk *desk;
    size_t number;
    size_t n_worked, n_done;
    bool was_cancelled;
    uv_thread_t worked_on;
};

/* Where letters come back to. All but the gate is the loop thread's. */
struct desk {
    struct rota_thread *thread;
    struct rota_mailbox *mailbox;
    uv_sem_t gate; /* work() of a gated letter waits for it */
    size_t n_done, n_cancelled, n_closed;
    size_t expected;   /* the number of the next letter to come back */
    size_t close_when; /* this many are done; 0: not */
    size_t n_left;     /* letters that done() posts again */
    enum rota_code code;
};

static struct desk desk;

static void on_closed(void *data)
{
    struct desk *closed = data;
    closed->n_closed++;
    closed->thread = NULL;
    closed->mailbox = NULL;
}

static void work(struct rota_letter *letter)
{
    struct item *item = (struct item *)letter;
    item->n_worked++;
    item->worked_on = uv_thread_self();
}

static void work_gated(struct rota_letter *letter)
{
    struct item *item = (struct item *)letter;
    uv_sem_wait(&item->desk->gate);
    work(letter);
}

static void done(struct rota_letter *letter, bool is_cancelled)
{
    struct item *item = (struct item *)letter;
    struct desk *at = item->desk;
    assert_int_equal(item->number, at->expected++);
    assert_int_equal(at->n_closed, 0);
    item->n_done++;
    item->was_cancelled = is_cancelled;
    at->n_done++;
    at->n_cancelled += is_cancelled;
    if (at->close_when && at->n_done == at->close_when && at->thread)
        rota_mailbox_thread_close(at->thread, on_closed, at);
    if (at->close_when && at->n_done == at->close_when && at->mailbox)
        rota_mailbox_close(at->mailbox, on_closed, at);
}

static struct item *items_new(size_t n, void (*worked)(struct rota_letter *))
{
    struct item *items = calloc(n, sizeof *items);
    assert_non_null(items);
    for (size_t i = 0; i < n; i++)
        items[i] =
            (struct item){.letter = {.work = worked, .done = done}, .desk = &desk, .number = i};
    return items;
}

static void open_thread(size_t pending_max)
{
    struct rota_thread_options options = {.name = "test", .pending_max = pending_max};
    struct rota_error error;
    if (rota_mailbox_thread_open(&loop, &options, &desk.thread, &error))
        fail_msg("%s", error.text);
}

static void close_thread(void)
{
    rota_mailbox_thread_close(desk.thread, on_closed, &desk);
    await(&loop, &desk.n_closed, 1);
}

static void open_mailbox(size_t pending_max)
{
    struct rota_error error;
    if (rota_mailbox_open(&loop, pending_max, &desk.mailbox, &error))
        fail_msg("%s", error.text);
}

static void close_mailbox(void)
{
    rota_mailbox_close(desk.mailbox, on_closed, &desk);
    await(&loop, &desk.n_closed, 1);
}

static int setup(void **state)
{
    (void)state;
    memset(&desk, 0, sizeof desk);
    uv_sem_init(&desk.gate, 0);
    return uv_loop_init(&loop);
}

static int teardown(void **state)
{
    (void)state;
    await_end(&loop);
    uv_sem_destroy(&desk.gate);
    return 0;
}

/* --- a thread --- */

static void work_runs_on_the_thread_and_ends_on_the_loop(void **state)
{
    struct item *item = items_new(1, work);
    uv_thread_t here = uv_thread_self();
    (void)state;
    open_thread(0);
    assert_int_equal(rota_mailbox_thread_post(desk.thread, &item->letter), ROTA_OK);
    await(&loop, &desk.n_done, 1);
    assert_int_equal(item->n_worked, 1);
    assert_false(item->was_cancelled);
    assert_false(uv_thread_equal(&item->worked_on, &here));
    close_thread();
    free(item);
}

static void a_thread_without_letters_closes(void **state)
{
    (void)state;
    open_thread(0);
    close_thread();
    rota_mailbox_thread_close(NULL, NULL, NULL);
    open_thread(0);
    rota_mailbox_thread_close(desk.thread, NULL, NULL);
    uv_run(&loop, UV_RUN_DEFAULT);
}

/* In bursts up to the bound, so that batches of all sizes are taken. */
static void letters_are_done_once_and_in_order(void **state)
{
    struct item *items = items_new(MANY, work);
    size_t n_refused = 0;
    (void)state;
    open_thread(100);
    for (size_t i = 0; i < MANY;) {
        enum rota_code code = rota_mailbox_thread_post(desk.thread, &items[i].letter);
        i += code == ROTA_OK;
        if (code) {
            assert_int_equal(code, ROTA_ERR_LIMIT);
            n_refused++;
            uv_run(&loop, UV_RUN_ONCE);
        }
    }
    await(&loop, &desk.n_done, MANY);
    assert_true(n_refused > 0);
    for (size_t i = 0; i < MANY; i++)
        assert_true(items[i].n_worked == 1 && items[i].n_done == 1 && !items[i].was_cancelled);
    close_thread();
    free(items);
}

static void letters_beyond_the_bound_are_refused_and_stay_the_senders(void **state)
{
    struct item *items = items_new(4, work_gated);
    (void)state;
    open_thread(3);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(rota_mailbox_thread_post(desk.thread, &items[i].letter), ROTA_OK);
    assert_int_equal(rota_mailbox_thread_post(desk.thread, &items[3].letter), ROTA_ERR_LIMIT);
    uv_sem_post(&desk.gate);
    await(&loop, &desk.n_done, 1);
    assert_int_equal(rota_mailbox_thread_post(desk.thread, &items[3].letter), ROTA_OK);
    for (size_t i = 0; i < 3; i++)
        uv_sem_post(&desk.gate);
    await(&loop, &desk.n_done, 4);
    assert_int_equal(items[3].n_worked, 1);
    close_thread();
    free(items);
}

static void done_and_post_again(struct rota_letter *letter, bool is_cancelled)
{
    struct item *item = (struct item *)letter;
    struct desk *at = item->desk;
    assert_false(is_cancelled);
    at->n_done++;
    if (at->n_left-- > 0)
        assert_int_equal(rota_mailbox_thread_post(at->thread, letter), ROTA_OK);
}

static void done_may_post_in_the_place_it_left(void **state)
{
    struct item *item = items_new(1, work);
    (void)state;
    item->letter.done = done_and_post_again;
    desk.n_left = 500;
    open_thread(1);
    assert_int_equal(rota_mailbox_thread_post(desk.thread, &item->letter), ROTA_OK);
    await(&loop, &desk.n_done, 501);
    assert_int_equal(item->n_worked, 501);
    close_thread();
    free(item);
}

static void post_when_cancelled(struct rota_letter *letter, bool is_cancelled)
{
    struct item *item = (struct item *)letter;
    struct rota_thread *thread = item->desk->thread;
    done(letter, is_cancelled);
    if (is_cancelled)
        item->desk->code = rota_mailbox_thread_post(thread, letter);
}

/* The gate opens only after closing has returned: had it waited for the letter
 * at work, this would not end. */
static void closing_finishes_the_current_letter_and_returns_the_rest(void **state)
{
    struct item *items = items_new(5, work_gated);
    (void)state;
    open_thread(0);
    for (size_t i = 0; i < 5; i++) {
        items[i].letter.done = post_when_cancelled;
        assert_int_equal(rota_mailbox_thread_post(desk.thread, &items[i].letter), ROTA_OK);
    }
    uv_sem_post(&desk.gate);
    await(&loop, &desk.n_done, 1); /* so the second has begun, or will not */
    assert_false(rota_mailbox_thread_is_closing(desk.thread));
    rota_mailbox_thread_close(desk.thread, on_closed, &desk);
    assert_true(rota_mailbox_thread_is_closing(desk.thread));
    assert_int_equal(desk.n_done, 1);
    assert_int_equal(rota_mailbox_thread_post(desk.thread, &items[0].letter), ROTA_ERR_UNAVAILABLE);
    uv_sem_post(&desk.gate);
    await(&loop, &desk.n_closed, 1);

    assert_int_equal(desk.n_done, 5);
    assert_in_range(desk.n_cancelled, 3, 4);
    assert_int_equal(desk.code, ROTA_ERR_UNAVAILABLE);
    for (size_t i = 0; i < 5; i++)
        assert_int_equal(items[i].n_worked, !items[i].was_cancelled);
    free(items);
}

/* Closed by a done(), in each of many states that posting and working are in. */
static void closing_under_load_loses_nothing(void **state)
{
    enum { ROUNDS = 200, N = 300 };
    (void)state;
    for (size_t round = 0; round < ROUNDS; round++) {
        struct item *items = items_new(N, work);
        size_t n_posted = 0;
        memset(&desk.n_done, 0, sizeof desk - offsetof(struct desk, n_done));
        desk.close_when = 1 + round * 7 % N;
        open_thread(N / 2);
        while (!desk.n_closed) {
            while (n_posted < N && desk.thread &&
                   !rota_mailbox_thread_post(desk.thread, &items[n_posted].letter))
                n_posted++;
            uv_run(&loop, UV_RUN_ONCE);
        }
        assert_true(n_posted >= desk.close_when);
        assert_int_equal(desk.n_done, n_posted);
        for (size_t i = 0; i < N; i++) {
            assert_int_equal(items[i].n_done, i < n_posted);
            assert_int_equal(items[i].n_worked, i < n_posted && !items[i].was_cancelled);
            if (i + 1 < n_posted) /* none is worked on after one that was not */
                assert_true(items[i].was_cancelled <= items[i + 1].was_cancelled);
        }
        free(items);
    }
}

/* --- a mailbox --- */

static void undelivered_letters_are_bounded(void **state)
{
    struct item *items = items_new(9, NULL);
    (void)state;
    open_mailbox(8);
    for (size_t i = 0; i < 8; i++)
        assert_int_equal(rota_mailbox_post(desk.mailbox, &items[i].letter), ROTA_OK);
    assert_int_equal(rota_mailbox_post(desk.mailbox, &items[8].letter), ROTA_ERR_LIMIT);
    assert_int_equal(desk.n_done, 0);
    await(&loop, &desk.n_done, 8);
    assert_int_equal(rota_mailbox_post(desk.mailbox, &items[8].letter), ROTA_OK);
    await(&loop, &desk.n_done, 9);
    close_mailbox();
    free(items);
}

static void several_letters_at_once_are_all_accepted_in_order_or_none(void **state)
{
    struct item *items = items_new(9, NULL);
    struct rota_letters letters = {0};
    (void)state;
    open_mailbox(8);
    assert_int_equal(rota_mailbox_post_all(desk.mailbox, &letters), ROTA_OK);
    for (size_t i = 0; i < 9; i++)
        rota_mailbox_letters_add(&letters, &items[i].letter);
    assert_int_equal(rota_mailbox_post_all(desk.mailbox, &letters), ROTA_ERR_LIMIT);
    assert_ptr_equal(letters.first, &items[0].letter);

    letters = (struct rota_letters){0};
    for (size_t i = 1; i < 9; i++)
        rota_mailbox_letters_add(&letters, &items[i].letter);
    assert_int_equal(rota_mailbox_post(desk.mailbox, &items[0].letter), ROTA_OK);
    assert_int_equal(rota_mailbox_post_all(desk.mailbox, &letters), ROTA_ERR_LIMIT);
    await(&loop, &desk.n_done, 1);
    assert_int_equal(rota_mailbox_post_all(desk.mailbox, &letters), ROTA_OK);
    assert_null(letters.first);
    await(&loop, &desk.n_done, 9);
    assert_int_equal(desk.n_cancelled, 0);
    close_mailbox();
    free(items);
}

static void done_and_post_the_sixth(struct rota_letter *letter, bool is_cancelled)
{
    struct item *item = (struct item *)letter;
    done(letter, is_cancelled);
    assert_int_equal(rota_mailbox_post(item->desk->mailbox, &item[5].letter), ROTA_OK);
}

/* The second closes; the next three were taken with it, and the sixth waits. */
static void a_closed_mailbox_returns_pending_letters(void **state)
{
    struct item *items = items_new(6, NULL);
    (void)state;
    open_mailbox(0);
    desk.close_when = 2;
    items[0].letter.done = done_and_post_the_sixth;
    for (size_t i = 0; i < 5; i++)
        assert_int_equal(rota_mailbox_post(desk.mailbox, &items[i].letter), ROTA_OK);
    await(&loop, &desk.n_closed, 1);
    assert_int_equal(desk.n_done, 6);
    assert_int_equal(desk.n_cancelled, 4);
    assert_false(items[1].was_cancelled);
    items[0].letter.done = done;

    memset(&desk.n_done, 0, sizeof desk - offsetof(struct desk, n_done));
    open_mailbox(0);
    assert_int_equal(rota_mailbox_post(desk.mailbox, &items[0].letter), ROTA_OK);
    rota_mailbox_close(desk.mailbox, on_closed, &desk);
    assert_int_equal(rota_mailbox_post(desk.mailbox, &items[5].letter), ROTA_ERR_UNAVAILABLE);
    assert_int_equal(desk.n_done, 0);
    await(&loop, &desk.n_closed, 1);
    assert_int_equal(desk.n_cancelled, 1);
    rota_mailbox_close(NULL, NULL, NULL);
    free(items);
}

/* One of several threads that post on their own, with a desk of its own to see
 * that its letters keep their order among those of others. */
struct sender {
    struct desk desk;
    struct rota_mailbox *mailbox;
    struct item *items;
    uv_thread_t thread;
};

static void send_all(void *data)
{
    struct sender *sender = data;
    for (size_t i = 0; i < MANY;) {
        enum rota_code code = rota_mailbox_post(sender->mailbox, &sender->items[i].letter);
        i += code == ROTA_OK;
        if (code == ROTA_ERR_LIMIT)
            sched_yield();
    }
}

static void many_threads_post_to_one_loop(void **state)
{
    struct sender senders[SENDERS] = {0};
    (void)state;
    open_mailbox(50);
    for (size_t i = 0; i < SENDERS; i++) {
        senders[i].mailbox = desk.mailbox;
        senders[i].items = items_new(MANY, NULL);
        for (size_t j = 0; j < MANY; j++)
            senders[i].items[j].desk = &senders[i].desk;
        assert_int_equal(uv_thread_create(&senders[i].thread, send_all, &senders[i]), 0);
    }
    for (size_t i = 0; i < SENDERS; i++)
        await(&loop, &senders[i].desk.n_done, MANY);
    close_mailbox(); /* all are done, so nobody posts: that is enough */
    for (size_t i = 0; i < SENDERS; i++) {
        uv_thread_join(&senders[i].thread);
        for (size_t j = 0; j < MANY; j++)
            assert_int_equal(senders[i].items[j].n_done, 1);
        free(senders[i].items);
    }
}

/* --- both: a thread that makes events by itself --- */

struct poller {
    struct rota_letter letter;
    struct rota_thread *thread;
    struct rota_mailbox *mailbox;
    struct item *items;
    size_t n_posted;
    bool is_done;
};

static void poll_until_closed(struct rota_letter *letter)
{
    struct poller *poller = (struct poller *)letter;
    while (!rota_mailbox_thread_is_closing(poller->thread) && poller->n_posted < MANY)
        if (!rota_mailbox_post(poller->mailbox, &poller->items[poller->n_posted].letter))
            poller->n_posted++;
    while (!rota_mailbox_thread_is_closing(poller->thread))
        sched_yield();
}

static void on_poller_done(struct rota_letter *letter, bool is_cancelled)
{
    assert_false(is_cancelled);
    ((struct poller *)letter)->is_done = true;
}

static void on_poller_closed(void *data)
{
    struct poller *poller = data;
    assert_true(poller->is_done);
    rota_mailbox_close(poller->mailbox, on_closed, &desk);
}

static void a_long_letter_posts_until_its_thread_closes(void **state)
{
    struct poller poller = {.letter = {.work = poll_until_closed, .done = on_poller_done}};
    (void)state;
    open_thread(0);
    open_mailbox(10);
    poller.thread = desk.thread;
    poller.mailbox = desk.mailbox;
    poller.items = items_new(MANY, NULL);
    assert_int_equal(rota_mailbox_thread_post(desk.thread, &poller.letter), ROTA_OK);
    await(&loop, &desk.n_done, 1000);
    rota_mailbox_thread_close(desk.thread, on_poller_closed, &poller);
    await(&loop, &desk.n_closed, 1);
    assert_int_equal(desk.n_done, poller.n_posted);
    free(poller.items);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(work_runs_on_the_thread_and_ends_on_the_loop),
        TEST(a_thread_without_letters_closes),
        TEST(letters_are_done_once_and_in_order),
        TEST(letters_beyond_the_bound_are_refused_and_stay_the_senders),
        TEST(done_may_post_in_the_place_it_left),
        TEST(closing_finishes_the_current_letter_and_returns_the_rest),
        TEST(closing_under_load_loses_nothing),
        TEST(undelivered_letters_are_bounded),
        TEST(several_letters_at_once_are_all_accepted_in_order_or_none),
        TEST(a_closed_mailbox_returns_pending_letters),
        TEST(many_threads_post_to_one_loop),
        TEST(a_long_letter_posts_until_its_thread_closes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
