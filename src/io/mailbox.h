/* mailbox: how work and results cross between threads. The one place with a lock, except the one
 * that counts the users of a context in zmq.c.
 *
 * A letter is embedded in the sender's message, linked into a list and never copied. A mailbox
 * carries letters from any thread to the loop's. To a thread that is opened here, which has a
 * mailbox of its own, the loop posts work that must not run on the loop because it blocks; the
 * thread posts it back when it is done.
 *
 *     loop --rota_mailbox_thread_post()--> work(), on the thread --> done(), on the loop
 *     any thread --rota_mailbox_post()---------------------> done(), on the loop
 *
 * Invariants: an accepted letter gets done() exactly once, and letters get it in the order in which
 * they were posted. Never are more than `pending_max` between their post and their done(); a place
 * is free again when done() begins, so that it may post the next one. All pending letters are taken
 * with one lock and delivered with one wake-up.
 *
 * A source of events, such as one that polls a broker, is a thread with one long letter that posts
 * to a mailbox of its own:
 *
 *     while (!rota_mailbox_thread_is_closing(thread))
 *         ... rota_mailbox_post(mailbox, &event->letter) ...
 *
 * To end it: rota_mailbox_thread_close(), and in its `on_closed` rota_mailbox_close(). */
#pragma once

#include <rota/error.h>
#include <stdbool.h>
#include <stddef.h>

struct rota_mailbox;
struct rota_thread;
struct uv_loop_s;

/* The defaults of `pending_max`. */
enum {
    ROTA_MAILBOX_PENDING_MAX = 4096,
    ROTA_THREAD_PENDING_MAX = 1024,
};

/* Kept from its post until its done() begins, which may free it or post it again. */
struct rota_letter {
    /* On the thread. Not called for a letter of a mailbox. */
    void (*work)(struct rota_letter *letter);

    /* Loop's thread. `is_cancelled`: work() was not called, or the receiver has closed its
     * mailbox; only free what the letter holds. */
    void (*done)(struct rota_letter *letter, bool is_cancelled);

    struct rota_letter *next; /* the mailbox's own, like all below */
    bool is_cancelled;
};

/* Some of them, in an order. Zero: none. */
struct rota_letters {
    struct rota_letter *first, *last;
};

void rota_mailbox_letters_add(struct rota_letters *letters, struct rota_letter *letter);

/* --- from any thread to the loop --- */

/* Give `*mailbox` of `loop`, for `pending_max` letters at one time (0 means
 * ROTA_MAILBOX_PENDING_MAX); rota_mailbox_close() ends it. */
enum rota_code rota_mailbox_open(struct uv_loop_s *loop, size_t pending_max,
                                 struct rota_mailbox **mailbox, struct rota_error *error);

/* Takes `mailbox`, which may be NULL. No other thread may post to it from now on; it is enough that
 * done() of each thread's last letter has begun. Pending letters are returned as cancelled, from
 * the loop, and then `on_closed`, which may be NULL, is called. A done() may call this. */
void rota_mailbox_close(struct rota_mailbox *mailbox, void (*on_closed)(void *data), void *data);

/* Any thread. Send `letter` to the loop. ROTA_ERR_LIMIT when `pending_max` are pending,
 * ROTA_ERR_UNAVAILABLE when it is closed; the letter stays the sender's then. */
enum rota_code rota_mailbox_post(struct rota_mailbox *mailbox, struct rota_letter *letter);

/* The same with all of `letters`, which is empty then, or with none of them: one lock and at most
 * one wake-up. */
enum rota_code rota_mailbox_post_all(struct rota_mailbox *mailbox, struct rota_letters *letters);

/* --- from the loop to a thread, and back --- */

struct rota_thread_options {
    const char *name;   /* of the thread, as ps shows it, cut to 15 bytes; copied */
    size_t pending_max; /* letters at one time; 0 means ROTA_THREAD_PENDING_MAX */
};

/* Start a thread that executes posted letters, one after the other. Gives `*thread`;
 * rota_mailbox_thread_close() ends it. */
enum rota_code rota_mailbox_thread_open(struct uv_loop_s *loop,
                                        const struct rota_thread_options *options,
                                        struct rota_thread **thread, struct rota_error *error);

/* Takes `thread`, which may be NULL, and returns at once. The current letter is finished,
 * pending ones are returned as cancelled, both from the loop and in order; then the thread ends
 * and `on_closed`, which may be NULL, is called. A done() may call this, work() may not. */
void rota_mailbox_thread_close(struct rota_thread *thread, void (*on_closed)(void *data),
                               void *data);

/* Send `letter` to the thread. ROTA_ERR_LIMIT when `pending_max` are pending,
 * ROTA_ERR_UNAVAILABLE when it is closing; the letter stays the sender's then. */
enum rota_code rota_mailbox_thread_post(struct rota_thread *thread, struct rota_letter *letter);

/* Any thread. Whether rota_mailbox_thread_close() was called: long work should end. */
bool rota_mailbox_thread_is_closing(const struct rota_thread *thread);
