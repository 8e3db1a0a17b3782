#include "io/mailbox.h"

#include "base/container.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <uv.h>

void rota_mailbox_letters_add(struct rota_letters *letters, struct rota_letter *letter)
{
    letter->next = NULL;
    if (letters->first)
        letters->last->next = letter;
    else
        letters->first = letter;
    letters->last = letter;
}

/* Append all of `from` to `to`. */
static void move_all(struct rota_letters *to, struct rota_letters *from)
{
    if (!from->first)
        return;
    if (to->first)
        to->last->next = from->first;
    else
        to->first = from->first;
    to->last = from->last;
    *from = (struct rota_letters){0};
}

static struct rota_letter *pop_letter(struct rota_letters *letters)
{
    struct rota_letter *letter = letters->first;
    if (letter)
        letters->first = letter->next;
    return letter;
}

/* --- from any thread to the loop --- */

/* The loop is woken by a descriptor of our own. With libuv's uv_async_t the woken thread spins
 * until the waking thread has left its call, which takes a while on a busy machine: the former
 * runs at once on the CPU of the latter. */
struct rota_mailbox {
    uv_mutex_t lock; /* guards `waiting`, and the state of a thread */
    struct rota_letters waiting;
    int wake_fd;
    uv_poll_t wake;
    atomic_size_t n_waking; /* threads that are about to use `wake_fd` */

    /* Grows under the lock, so that a checked bound holds; shrinks without. */
    atomic_size_t n_pending;
    size_t pending_max;

    struct rota_letters taken; /* by the loop and not yet done; the loop's */
    bool is_closed;            /* written by the loop, under the lock */
    void (*on_closed)(void *data);
    void *data;
};

static void take_waiting(struct rota_mailbox *mailbox)
{
    uv_mutex_lock(&mailbox->lock);
    move_all(&mailbox->taken, &mailbox->waiting);
    uv_mutex_unlock(&mailbox->lock);
}

static void finish_letter(struct rota_mailbox *mailbox, struct rota_letter *letter,
                          bool is_cancelled)
{
    atomic_fetch_sub(&mailbox->n_pending, 1);
    letter->done(letter, is_cancelled);
}

/* One that is awake is woken already. */
static void wake_up(struct rota_mailbox *mailbox)
{
    uint64_t one = 1;
    ssize_t n = write(mailbox->wake_fd, &one, sizeof one);
    (void)n;
    atomic_fetch_sub(&mailbox->n_waking, 1);
}

/* Cleared before the letters are taken, so that later ones wake it again. */
static void on_wake(uv_poll_t *wake, int status, int events)
{
    struct rota_mailbox *mailbox = wake->data;
    struct rota_letter *letter;
    uint64_t count;
    (void)status, (void)events;

    ssize_t n = read(mailbox->wake_fd, &count, sizeof count);
    (void)n;
    take_waiting(mailbox);
    while (!mailbox->is_closed && (letter = pop_letter(&mailbox->taken)))
        finish_letter(mailbox, letter, letter->is_cancelled);
}

/* The sender of the last letter may still be inside its post. */
static void destroy_mailbox(struct rota_mailbox *mailbox)
{
    while (atomic_load(&mailbox->n_waking) > 0)
        sched_yield();
    if (mailbox->wake_fd >= 0)
        close(mailbox->wake_fd);
    uv_mutex_destroy(&mailbox->lock);
    free(mailbox);
}

static void on_wake_closed(uv_handle_t *wake)
{
    struct rota_mailbox *mailbox = wake->data;
    struct rota_letter *letter;

    take_waiting(mailbox);
    while ((letter = pop_letter(&mailbox->taken)))
        finish_letter(mailbox, letter, true);
    if (mailbox->on_closed)
        mailbox->on_closed(mailbox->data);
    destroy_mailbox(mailbox);
}

enum rota_code rota_mailbox_open(uv_loop_t *loop, size_t pending_max, struct rota_mailbox **mailbox,
                                 struct rota_error *error)
{
    struct rota_mailbox *made = calloc(1, sizeof *made);
    if (!made)
        return rota_error_no_memory(error, "for a mailbox");

    int failed = uv_mutex_init(&made->lock);
    if (failed) {
        free(made);
        return rota_error_set(error, ROTA_ERR_IO, "a lock for a mailbox: %s", uv_strerror(failed));
    }
    made->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    failed = made->wake_fd < 0 ? uv_translate_sys_error(errno)
                               : uv_poll_init(loop, &made->wake, made->wake_fd);
    if (failed) {
        destroy_mailbox(made);
        return rota_error_set(error, ROTA_ERR_IO, "a wake-up for a mailbox: %s",
                              uv_strerror(failed));
    }
    made->wake.data = made;
    uv_poll_start(&made->wake, UV_READABLE, on_wake);
    made->pending_max = pending_max ? pending_max : ROTA_MAILBOX_PENDING_MAX;
    *mailbox = made;
    return ROTA_OK;
}

void rota_mailbox_close(struct rota_mailbox *mailbox, void (*on_closed)(void *data), void *data)
{
    if (!mailbox)
        return;
    uv_mutex_lock(&mailbox->lock);
    mailbox->is_closed = true;
    uv_mutex_unlock(&mailbox->lock);
    mailbox->on_closed = on_closed;
    mailbox->data = data;
    uv_close((uv_handle_t *)&mailbox->wake, on_wake_closed);
}

/* Find room for `n` more. Under the lock. */
static enum rota_code admit_letters(struct rota_mailbox *mailbox, size_t n)
{
    if (mailbox->is_closed)
        return ROTA_ERR_UNAVAILABLE;
    if (atomic_load(&mailbox->n_pending) + n > mailbox->pending_max)
        return ROTA_ERR_LIMIT;
    atomic_fetch_add(&mailbox->n_pending, n);
    return ROTA_OK;
}

/* Under the lock. Returns whether the loop has to be woken, once the lock is free: the first of
 * a batch does that for the others. The mailbox stays until it has. */
static bool put_letters(struct rota_mailbox *mailbox, struct rota_letters *letters)
{
    bool is_first = !mailbox->waiting.first;
    move_all(&mailbox->waiting, letters);
    if (is_first)
        atomic_fetch_add(&mailbox->n_waking, 1);
    return is_first;
}

enum rota_code rota_mailbox_post_all(struct rota_mailbox *mailbox, struct rota_letters *letters)
{
    size_t n = 0;
    bool is_first = false;
    for (struct rota_letter *letter = letters->first; letter; letter = letter->next, n++)
        letter->is_cancelled = false;
    if (n == 0)
        return ROTA_OK;
    uv_mutex_lock(&mailbox->lock);
    enum rota_code code = admit_letters(mailbox, n);
    if (!code)
        is_first = put_letters(mailbox, letters);
    uv_mutex_unlock(&mailbox->lock);
    if (is_first)
        wake_up(mailbox);
    return code;
}

enum rota_code rota_mailbox_post(struct rota_mailbox *mailbox, struct rota_letter *letter)
{
    struct rota_letters one = {0};
    rota_mailbox_letters_add(&one, letter);
    return rota_mailbox_post_all(mailbox, &one);
}

/* --- from the loop to a thread, and back --- */

struct rota_thread {
    struct rota_mailbox *mailbox; /* the way back; its lock guards the way there too */
    uv_cond_t posted;
    struct rota_letters requests;
    atomic_bool is_closing;
    struct rota_letter last; /* reports the end of the thread */

    uv_thread_t handle;
    char name[16];
    void (*on_closed)(void *data);
    void *data;
};

/* Wait for requests and take them all. Nothing when the thread is closing and
 * none are left. */
static struct rota_letters take_requests(struct rota_thread *thread)
{
    struct rota_letters batch = {0};
    uv_mutex_lock(&thread->mailbox->lock);
    while (!thread->requests.first && !atomic_load(&thread->is_closing))
        uv_cond_wait(&thread->posted, &thread->mailbox->lock);
    move_all(&batch, &thread->requests);
    uv_mutex_unlock(&thread->mailbox->lock);
    return batch;
}

static void send_back(struct rota_thread *thread, struct rota_letter *letter)
{
    struct rota_mailbox *mailbox = thread->mailbox;
    struct rota_letters one = {0};
    rota_mailbox_letters_add(&one, letter);
    uv_mutex_lock(&mailbox->lock);
    bool is_first = put_letters(mailbox, &one);
    uv_mutex_unlock(&mailbox->lock);
    if (is_first)
        wake_up(mailbox);
}

static void run_thread(void *data)
{
    struct rota_thread *thread = data;
    struct rota_letters batch;

    pthread_setname_np(pthread_self(), thread->name);
    while ((batch = take_requests(thread)).first) {
        struct rota_letter *letter;
        while ((letter = pop_letter(&batch))) {
            letter->is_cancelled = atomic_load(&thread->is_closing);
            if (!letter->is_cancelled)
                letter->work(letter);
            send_back(thread, letter);
        }
    }
    send_back(thread, &thread->last);
}

/* Signals are for the loop's thread: block them all in this one. */
static int start_deaf(struct rota_thread *thread)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = uv_thread_create(&thread->handle, run_thread, thread);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return failed;
}

static void on_mailbox_closed(void *data)
{
    struct rota_thread *thread = data;
    uv_cond_destroy(&thread->posted);
    if (thread->on_closed)
        thread->on_closed(thread->data);
    free(thread);
}

static void on_last(struct rota_letter *letter, bool is_cancelled)
{
    struct rota_thread *thread = ROTA_CONTAINER(letter, struct rota_thread, last);
    (void)is_cancelled;
    uv_thread_join(&thread->handle); /* it only has to return */
    rota_mailbox_close(thread->mailbox, on_mailbox_closed, thread);
}

enum rota_code rota_mailbox_thread_open(uv_loop_t *loop, const struct rota_thread_options *options,
                                        struct rota_thread **thread, struct rota_error *error)
{
    size_t pending_max = options->pending_max ? options->pending_max : ROTA_THREAD_PENDING_MAX;
    struct rota_thread *made = calloc(1, sizeof *made);
    if (!made)
        return rota_error_no_memory(error, "for the thread %s", options->name);

    int failed = uv_cond_init(&made->posted);
    if (failed) {
        free(made);
        return rota_error_set(error, ROTA_ERR_IO, "the thread %s: %s", options->name,
                              uv_strerror(failed));
    }
    enum rota_code code = rota_mailbox_open(loop, pending_max, &made->mailbox, error);
    if (code) {
        on_mailbox_closed(made);
        return code;
    }
    made->last.done = on_last;
    atomic_store(&made->mailbox->n_pending, 1); /* the last letter has its place */
    made->mailbox->pending_max++;
    snprintf(made->name, sizeof made->name, "%s", options->name);
    failed = start_deaf(made);
    if (failed) {
        rota_mailbox_close(made->mailbox, on_mailbox_closed, made);
        return rota_error_set(error, ROTA_ERR_IO, "the thread %s: %s", options->name,
                              uv_strerror(failed));
    }
    *thread = made;
    return ROTA_OK;
}

void rota_mailbox_thread_close(struct rota_thread *thread, void (*on_closed)(void *data),
                               void *data)
{
    if (!thread)
        return;
    assert(!atomic_load(&thread->is_closing));
    thread->on_closed = on_closed;
    thread->data = data;
    uv_mutex_lock(&thread->mailbox->lock);
    atomic_store(&thread->is_closing, true);
    uv_cond_signal(&thread->posted);
    uv_mutex_unlock(&thread->mailbox->lock);
}

enum rota_code rota_mailbox_thread_post(struct rota_thread *thread, struct rota_letter *letter)
{
    if (atomic_load(&thread->is_closing))
        return ROTA_ERR_UNAVAILABLE;
    uv_mutex_lock(&thread->mailbox->lock);
    enum rota_code code = admit_letters(thread->mailbox, 1);
    if (!code)
        rota_mailbox_letters_add(&thread->requests, letter);
    uv_mutex_unlock(&thread->mailbox->lock);
    if (!code)
        uv_cond_signal(&thread->posted); /* the woken thread finds the lock free */
    return code;
}

bool rota_mailbox_thread_is_closing(const struct rota_thread *thread)
{
    return atomic_load(&thread->is_closing);
}
