#include "io/mailbox.h"

#include <assert.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <uv.h>

/* Letters in the order of their posts. */
struct letters {
    struct rota_letter *first, *last;
};

static void append(struct letters *letters, struct rota_letter *letter)
{
    letter->next = NULL;
    if (letters->first)
        letters->last->next = letter;
    else
        letters->first = letter;
    letters->last = letter;
}

/* Move all of `from` behind those of `to`. */
static void move_all(struct letters *to, struct letters *from)
{
    if (!from->first)
        return;
    if (to->first)
        to->last->next = from->first;
    else
        to->first = from->first;
    to->last = from->last;
    *from = (struct letters){0};
}

static struct rota_letter *pop(struct letters *letters)
{
    struct rota_letter *letter = letters->first;
    if (letter)
        letters->first = letter->next;
    return letter;
}

/* --- from any thread to the loop --- */

struct rota_mailbox {
    uv_mutex_t lock; /* guards `waiting`, and what a thread says it does */
    struct letters waiting;
    uv_async_t wake;

    /* Grows under the lock, so that a bound which was looked at holds; shrinks
     * without. */
    atomic_size_t n_pending;
    size_t pending_max;

    struct letters taken; /* by the loop and not yet done; the loop's */
    bool is_closed;       /* written by the loop, under the lock */
    void (*on_closed)(void *data);
    void *data;
};

static void take(struct rota_mailbox *mailbox)
{
    uv_mutex_lock(&mailbox->lock);
    move_all(&mailbox->taken, &mailbox->waiting);
    uv_mutex_unlock(&mailbox->lock);
}

static void finish(struct rota_mailbox *mailbox, struct rota_letter *letter, bool is_cancelled)
{
    atomic_fetch_sub(&mailbox->n_pending, 1);
    letter->done(letter, is_cancelled);
}

static void on_wake(uv_async_t *wake)
{
    struct rota_mailbox *mailbox = wake->data;
    struct rota_letter *letter;

    take(mailbox);
    while (!mailbox->is_closed && (letter = pop(&mailbox->taken)))
        finish(mailbox, letter, letter->is_cancelled);
}

static void on_wake_closed(uv_handle_t *wake)
{
    struct rota_mailbox *mailbox = wake->data;
    struct rota_letter *letter;

    take(mailbox);
    while ((letter = pop(&mailbox->taken)))
        finish(mailbox, letter, true);
    if (mailbox->on_closed)
        mailbox->on_closed(mailbox->data);
    uv_mutex_destroy(&mailbox->lock);
    free(mailbox);
}

enum rota_code rota_mailbox_open(uv_loop_t *loop, size_t pending_max, struct rota_mailbox **mailbox,
                                 struct rota_error *error)
{
    struct rota_mailbox *made = calloc(1, sizeof *made);
    if (!made)
        return rota_error_set(error, ROTA_ERR_NO_MEMORY, "no memory for a mailbox");

    int failed = uv_mutex_init(&made->lock);
    if (failed) {
        free(made);
        return rota_error_set(error, ROTA_ERR_IO, "a lock for a mailbox: %s", uv_strerror(failed));
    }
    failed = uv_async_init(loop, &made->wake, on_wake);
    if (failed) {
        uv_mutex_destroy(&made->lock);
        free(made);
        return rota_error_set(error, ROTA_ERR_IO, "a wake-up for a mailbox: %s",
                              uv_strerror(failed));
    }
    made->wake.data = made;
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

/* Find room for one more. Under the lock. */
static enum rota_code admit(struct rota_mailbox *mailbox)
{
    if (mailbox->is_closed)
        return ROTA_ERR_UNAVAILABLE;
    if (atomic_load(&mailbox->n_pending) >= mailbox->pending_max)
        return ROTA_ERR_LIMIT;
    atomic_fetch_add(&mailbox->n_pending, 1);
    return ROTA_OK;
}

/* The first of a batch wakes the loop, for those that follow. Under the lock:
 * once it is free the loop may do the letter and close the mailbox. */
static void put(struct rota_mailbox *mailbox, struct rota_letter *letter)
{
    bool is_first = !mailbox->waiting.first;
    append(&mailbox->waiting, letter);
    if (is_first)
        uv_async_send(&mailbox->wake);
}

enum rota_code rota_mailbox_post(struct rota_mailbox *mailbox, struct rota_letter *letter)
{
    uv_mutex_lock(&mailbox->lock);
    enum rota_code code = admit(mailbox);
    if (!code) {
        letter->is_cancelled = false;
        put(mailbox, letter);
    }
    uv_mutex_unlock(&mailbox->lock);
    return code;
}

/* --- from the loop to a thread, and back --- */

struct rota_thread {
    struct rota_mailbox *mailbox; /* the way back; its lock guards the way there too */
    uv_cond_t posted;
    struct letters requests;
    atomic_bool is_closing;
    struct rota_letter last; /* says that the thread ends */

    uv_thread_t handle;
    char name[16];
    void (*on_closed)(void *data);
    void *data;
};

/* Wait for requests and take them all. Nothing when the thread is closing and
 * none are left. */
static struct letters take_requests(struct rota_thread *thread)
{
    struct letters batch = {0};
    uv_mutex_lock(&thread->mailbox->lock);
    while (!thread->requests.first && !atomic_load(&thread->is_closing))
        uv_cond_wait(&thread->posted, &thread->mailbox->lock);
    move_all(&batch, &thread->requests);
    uv_mutex_unlock(&thread->mailbox->lock);
    return batch;
}

static void send_back(struct rota_thread *thread, struct rota_letter *letter)
{
    uv_mutex_lock(&thread->mailbox->lock);
    put(thread->mailbox, letter);
    uv_mutex_unlock(&thread->mailbox->lock);
}

static void run(void *data)
{
    struct rota_thread *thread = data;
    struct letters batch;

    pthread_setname_np(pthread_self(), thread->name);
    while ((batch = take_requests(thread)).first) {
        struct rota_letter *letter;
        while ((letter = pop(&batch))) {
            letter->is_cancelled = atomic_load(&thread->is_closing);
            if (!letter->is_cancelled)
                letter->work(letter);
            send_back(thread, letter);
        }
    }
    send_back(thread, &thread->last);
}

/* Signals are for the loop's thread: a new one is born deaf to them. */
static int start_deaf(struct rota_thread *thread)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = uv_thread_create(&thread->handle, run, thread);
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
    struct rota_thread *thread =
        (struct rota_thread *)((char *)letter - offsetof(struct rota_thread, last));
    (void)is_cancelled;
    uv_thread_join(&thread->handle); /* it only has to return */
    rota_mailbox_close(thread->mailbox, on_mailbox_closed, thread);
}

enum rota_code rota_thread_open(uv_loop_t *loop, const struct rota_thread_options *options,
                                struct rota_thread **thread, struct rota_error *error)
{
    size_t pending_max = options->pending_max ? options->pending_max : ROTA_THREAD_PENDING_MAX;
    struct rota_thread *made = calloc(1, sizeof *made);
    if (!made)
        return rota_error_set(error, ROTA_ERR_NO_MEMORY, "no memory for the thread %s",
                              options->name);

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

void rota_thread_close(struct rota_thread *thread, void (*on_closed)(void *data), void *data)
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

enum rota_code rota_thread_post(struct rota_thread *thread, struct rota_letter *letter)
{
    if (atomic_load(&thread->is_closing))
        return ROTA_ERR_UNAVAILABLE;
    uv_mutex_lock(&thread->mailbox->lock);
    enum rota_code code = admit(thread->mailbox);
    if (!code) {
        append(&thread->requests, letter);
        uv_cond_signal(&thread->posted);
    }
    uv_mutex_unlock(&thread->mailbox->lock);
    return code;
}

bool rota_thread_is_closing(const struct rota_thread *thread)
{
    return atomic_load(&thread->is_closing);
}
