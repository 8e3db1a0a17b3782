#include "io/journal/journal.h"

#include "base/container.h"
#include "io/clock.h"
#include "io/mailbox.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

enum { KEPT_MAX = 4 << 20 }; /* a larger buffer is freed */

#define SHORT "the disk is full, except for the reserve for running jobs"

/* What the thread works on. Meanwhile it and the files belong to the thread. */
struct commit {
    struct rota_letter letter;
    struct rota_buffer batch;
    uint64_t first, last; /* numbers of its records; 0: none */
    uint64_t drop_below;  /* 0: nothing is dropped */
    size_t want;          /* bytes that the last segment has to take; 0: any */
    bool is_final;        /* nothing follows: write a mark */
    struct rota_journal_files *files;
    struct rota_journal_writer *writer; /* of the final one, for its mark */

    uint64_t n_free; /* bytes of the disk, after it */
    enum rota_code code, drop_code;
    struct rota_error error, drop_error;
};

struct batch {
    struct rota_buffer bytes;
    uint64_t first, last;
};

struct rota_journal {
    struct rota_journal_options options;
    struct rota_thread *thread;
    uv_prepare_t turn; /* runs before the loop waits, when there is something to write */
    uv_timer_t retry, later;
    struct commit commit;
    bool is_committing; /* it is at the thread, or waits for room */
    bool is_at_thread;

    struct rota_journal_writer writer;
    struct rota_buffer waiting;                   /* the next batch */
    bool is_waited_for;                           /* something waits for a record of it */
    uint64_t first;                               /* its first number */
    struct batch sealed[ROTA_JOURNAL_SEALED_MAX]; /* those before it */
    size_t n_sealed;
    uint64_t drop_below, drop_after; /* asked for; once this number is on disk */
    size_t want;                     /* requested since the last commit */

    struct rota_journal_view view; /* of the files as they were after the last commit */
    bool is_full, is_failed, is_closing;
    bool is_short; /* jobs are rejected for lack of room */
    bool is_stuck; /* a batch did not fit anywhere */
    int n_open;    /* handles that are not closed yet */
    void (*on_closed)(void *data);
    void *closed_data;
};

/* --- on the thread --- */

static void leave_mark(struct commit *commit)
{
    struct rota_buffer mark = {0};
    uint64_t number = (commit->last ? commit->last : commit->files->last) + 1;
    const struct rota_journal_files *files = commit->files;
    rota_journal_segment_write_mark(commit->writer, number, &mark);
    bool fits = files->fd >= 0 && files->parts.size > 0 &&
                mark.size <= files->size - files->parts.items[files->parts.size - 1].used;
    if (!mark.failed && fits)
        (void)rota_journal_files_write(commit->files, rota_buffer_str(&mark), number, NULL);
    rota_buffer_deinit(&mark);
    rota_journal_files_end(commit->files, number);
}

static void write_commit(struct commit *commit)
{
    struct rota_journal_files *files = commit->files;
    commit->code = ROTA_OK;
    commit->drop_code = ROTA_OK;
    if (commit->batch.size > 0)
        commit->code = rota_journal_files_write(files, rota_buffer_str(&commit->batch),
                                                commit->first, &commit->error);
    if (commit->code)
        return;
    if (commit->last)
        files->last = commit->last;
    if (commit->drop_below)
        commit->drop_code = rota_journal_files_drop(files, commit->drop_below, &commit->drop_error);
    if (commit->want) /* the caller checks whether it succeeded */
        (void)rota_journal_files_make_room(files, commit->want, NULL);
    if (commit->is_final)
        leave_mark(commit);
    else if (files->is_full)
        rota_journal_files_find_room(files);
}

static void commit_on_thread(struct rota_letter *letter)
{
    struct commit *commit = (struct commit *)letter;
    write_commit(commit);
    commit->n_free = rota_journal_files_free(commit->files);
}

/* --- on the loop --- */

static void post_commit(struct rota_journal *journal)
{
    journal->is_committing = journal->is_at_thread = true;
    enum rota_code code = rota_mailbox_thread_post(journal->thread, &journal->commit.letter);
    assert(code == ROTA_OK); /* it is the only one */
    (void)code;
}

/* The batch that gathers; an empty one takes its place, in the memory of `empty`. */
static struct batch take_waiting(struct rota_journal *journal, struct rota_buffer empty)
{
    struct batch batch = {.bytes = journal->waiting};
    if (batch.bytes.size > 0) {
        batch.first = journal->first;
        batch.last = journal->view.last;
    }
    rota_buffer_clear(&empty);
    journal->waiting = empty;
    journal->is_waited_for = false;
    uv_timer_stop(&journal->later);
    if (journal->waiting.capacity > KEPT_MAX)
        rota_buffer_deinit(&journal->waiting);
    return batch;
}

static struct batch take_sealed(struct rota_journal *journal)
{
    struct batch batch = journal->sealed[0];
    rota_buffer_deinit(&journal->commit.batch);
    journal->n_sealed--;
    memmove(journal->sealed, journal->sealed + 1, journal->n_sealed * sizeof *journal->sealed);
    return batch;
}

/* Send pending records to the thread, if that is idle. */
static void commit_waiting(struct rota_journal *journal)
{
    struct commit *commit = &journal->commit;
    if (journal->is_committing || journal->is_failed)
        return;
    struct batch batch =
        journal->n_sealed > 0 ? take_sealed(journal) : take_waiting(journal, commit->batch);
    commit->batch = batch.bytes;
    commit->first = batch.first;
    commit->last = batch.last;
    bool is_dropping = (batch.last ? batch.last : journal->view.durable) >= journal->drop_after;
    commit->drop_below = is_dropping ? journal->drop_below : 0;
    commit->want = journal->want;
    commit->is_final = journal->is_closing && journal->n_sealed == 0 && journal->waiting.size == 0;
    if (is_dropping)
        journal->drop_below = 0;
    journal->want = 0;
    post_commit(journal);
}

static void on_turn(uv_prepare_t *turn)
{
    struct rota_journal *journal = turn->data;
    uv_prepare_stop(turn);
    commit_waiting(journal);
}

static void wake_writer(struct rota_journal *journal)
{
    if (!journal->is_committing && !journal->is_failed)
        uv_prepare_start(&journal->turn, on_turn);
}

static void on_later(uv_timer_t *timer)
{
    wake_writer(timer->data);
}

static uint64_t later_ms(const struct rota_journal *journal)
{
    rota_time later = journal->options.later;
    return (uint64_t)((later > 0 ? later : ROTA_JOURNAL_LATER) / ROTA_MSEC);
}

/* Make sure that pending records get to the disk, at once or in time. */
static void wake_for_records(struct rota_journal *journal)
{
    if (journal->is_waited_for)
        wake_writer(journal);
    else if (!uv_is_active((uv_handle_t *)&journal->later))
        uv_timer_start(&journal->later, on_later, later_ms(journal), 0);
}

static void on_retry(uv_timer_t *timer)
{
    struct rota_journal *journal = timer->data;
    if (journal->is_at_thread)
        return;
    if (journal->is_committing)
        post_commit(journal); /* the same again */
    else
        commit_waiting(journal);
}

static uint64_t retry_ms(const struct rota_journal *journal)
{
    rota_time retry = journal->options.retry;
    return (uint64_t)((retry > 0 ? retry : ROTA_JOURNAL_RETRY) / ROTA_MSEC);
}

static void look_at_files(struct rota_journal *journal)
{
    const struct rota_journal_files *files = journal->commit.files;
    journal->view.bytes = rota_journal_files_bytes(files);
    journal->view.edge = rota_journal_files_edge(files);
    size_t n = 0;
    for (; n < ROTA_JOURNAL_OLD && n + 1 < files->parts.size; n++)
        journal->view.old[n] = (struct rota_journal_segment){
            .bytes = files->parts.items[n].size, .end = files->parts.items[n + 1].first};
    journal->view.n_old = n;
    journal->view.n_segments = files->parts.size;
    journal->view.n_left = rota_journal_files_left(files);
    journal->view.has_reserve = !files->is_full;
}

static void log_error(const struct rota_journal *journal, enum rota_log_level level,
                      const char *phrase, const char *why)
{
    rota_log(journal->options.log, rota_clock_wall(), level, phrase,
             ROTA_LOG_FACT("directory", journal->commit.files->directory),
             ROTA_LOG_FACT("why", why));
}

/* Report that there is no room, or that there is again; only changes. */
static void tell_room(struct rota_journal *journal, const char *why)
{
    bool is_full = why != NULL;
    if (is_full == journal->is_full || journal->is_closing)
        return;
    journal->is_full = is_full;
    if (is_full)
        log_error(journal, ROTA_LOG_ERROR, "journal full", why);
    else
        rota_log(journal->options.log, rota_clock_wall(), ROTA_LOG_INFO, "journal has room again",
                 ROTA_LOG_FACT("directory", journal->commit.files->directory));
    if (is_full && journal->options.on_full)
        journal->options.on_full(journal->options.data, why);
    else if (!is_full && journal->options.on_room)
        journal->options.on_room(journal->options.data);
}

static void schedule_retry(struct rota_journal *journal)
{
    if (!uv_is_active((uv_handle_t *)&journal->retry))
        uv_timer_start(&journal->retry, on_retry, retry_ms(journal), retry_ms(journal));
}

/* Report that not even work can end, or that it can again. */
static void tell_stuck(struct rota_journal *journal)
{
    bool is_stuck = journal->commit.code == ROTA_ERR_LIMIT;
    if (is_stuck == journal->is_stuck || journal->is_closing)
        return;
    journal->is_stuck = is_stuck;
    if (is_stuck)
        log_error(journal, ROTA_LOG_ERROR, "journal stalled", journal->commit.error.text);
    else
        rota_log(journal->options.log, rota_clock_wall(), ROTA_LOG_INFO, "journal recovered",
                 ROTA_LOG_FACT("directory", journal->commit.files->directory));
}

static void look_for_room(struct rota_journal *journal)
{
    const struct commit *commit = &journal->commit;
    const char *why = NULL;
    char no_reserve[128];
    if (commit->code == ROTA_ERR_LIMIT) {
        why = commit->error.text;
    } else if (commit->files->is_full) {
        snprintf(no_reserve, sizeof no_reserve,
                 "the disk is full: there is no room for the reserve of %zu bytes",
                 commit->files->reserve_size);
        why = no_reserve;
    } else if (journal->is_short) {
        why = SHORT;
    } else if (journal->waiting.size > ROTA_JOURNAL_BEHIND) {
        why = "the disk is too slow";
    }
    bool is_disk = commit->code == ROTA_ERR_LIMIT || commit->files->is_full || journal->is_short;
    if (is_disk)
        schedule_retry(journal);
    else
        uv_timer_stop(&journal->retry);
    tell_stuck(journal);
    tell_room(journal, why);
}

static void tell_failed(struct rota_journal *journal)
{
    struct rota_error error = journal->commit.error;
    uv_timer_stop(&journal->retry);
    log_error(journal, ROTA_LOG_ERROR, "journal failed", error.text);
    if (journal->options.on_failed)
        journal->options.on_failed(journal->options.data, &error);
}

/* --- closing --- */

static void finish_close(struct rota_journal *journal)
{
    if (--journal->n_open > 0)
        return;
    rota_journal_files_close(journal->commit.files);
    rota_buffer_deinit(&journal->waiting);
    for (size_t i = 0; i < journal->n_sealed; i++)
        rota_buffer_deinit(&journal->sealed[i].bytes);
    rota_buffer_deinit(&journal->commit.batch);
    if (journal->on_closed)
        journal->on_closed(journal->closed_data);
    free(journal);
}

static void on_thread_closed(void *data)
{
    finish_close(data);
}

static void on_handle_closed(uv_handle_t *handle)
{
    finish_close(handle->data);
}

static void close_handles(struct rota_journal *journal)
{
    uv_close((uv_handle_t *)&journal->turn, on_handle_closed);
    uv_close((uv_handle_t *)&journal->retry, on_handle_closed);
    uv_close((uv_handle_t *)&journal->later, on_handle_closed);
    if (journal->thread)
        rota_mailbox_thread_close(journal->thread, on_thread_closed, journal);
    else
        journal->n_open--;
}

/* The last commit, or the end when there can be none. */
static void close_idle(struct rota_journal *journal)
{
    bool is_stuck = journal->is_committing; /* it waits for room that is no longer needed */
    if (journal->is_failed || is_stuck || journal->commit.is_final)
        close_handles(journal);
    else
        commit_waiting(journal);
}

void rota_journal_close(struct rota_journal *journal, void (*on_closed)(void *data), void *data)
{
    if (!journal)
        return;
    assert(!journal->is_closing);
    journal->is_closing = true;
    journal->on_closed = on_closed;
    journal->closed_data = data;
    uv_prepare_stop(&journal->turn);
    uv_timer_stop(&journal->retry);
    uv_timer_stop(&journal->later);
    if (!journal->is_at_thread)
        close_idle(journal);
}

/* What the thread has done. */
static void take_back(struct rota_journal *journal)
{
    struct commit *commit = &journal->commit;
    journal->is_at_thread = false;
    journal->is_committing = commit->code == ROTA_ERR_LIMIT;
    journal->is_failed = commit->code && commit->code != ROTA_ERR_LIMIT;
    look_at_files(journal);
    journal->view.n_free = commit->n_free;
    if (commit->drop_code)
        log_error(journal, ROTA_LOG_WARN, "journal not shortened", commit->drop_error.text);
    if (commit->code)
        return;
    if (commit->last)
        journal->view.durable = commit->last;
    journal->view.n_batches += commit->batch.size > 0;
    rota_buffer_clear(&commit->batch);
}

/* The user's callbacks are last, since they may close us; that frees us only later. */
static void on_commit_done(struct rota_letter *letter, bool is_cancelled)
{
    struct rota_journal *journal = ROTA_CONTAINER(letter, struct rota_journal, commit.letter);
    struct rota_journal_view before = journal->view;
    (void)is_cancelled; /* the thread is closed only when nothing is in flight */
    take_back(journal);
    if (journal->is_closing) {
        close_idle(journal);
        return;
    }
    if (journal->is_failed) {
        tell_failed(journal);
        return;
    }
    if (journal->drop_below || journal->want || journal->n_sealed > 0)
        wake_writer(journal);
    else if (journal->waiting.size > 0)
        wake_for_records(journal);
    look_for_room(journal);
    bool has_changed =
        journal->view.n_segments != before.n_segments || journal->view.edge != before.edge;
    if (has_changed && !journal->is_closing && journal->options.on_changed)
        journal->options.on_changed(journal->options.data);
    if (journal->view.durable > before.durable && !journal->is_closing &&
        journal->options.on_durable)
        journal->options.on_durable(journal->options.data, journal->view.durable);
}

/* --- opening --- */

static void log_opened(const struct rota_journal *journal, rota_time began)
{
    const struct rota_journal_files *files = journal->commit.files;
    const struct rota_log *log = journal->options.log;
    if (files->n_cut_bytes > 0)
        rota_log(log, rota_clock_wall(), ROTA_LOG_WARN, "journal truncated",
                 ROTA_LOG_FACT("directory", files->directory),
                 ROTA_LOG_FACT("file", files->cut_path), ROTA_LOG_FACT("at", files->cut_at),
                 ROTA_LOG_FACT("bytes", files->n_cut_bytes), ROTA_LOG_FACT("last", files->last));
    if (files->n_lost_bytes > 0 || files->n_missing > 0)
        rota_log(log, rota_clock_wall(), ROTA_LOG_ERROR, "journal repaired",
                 ROTA_LOG_FACT("directory", files->directory),
                 ROTA_LOG_FACT("segments_missing", files->n_missing),
                 ROTA_LOG_FACT("records_lost", files->n_lost),
                 ROTA_LOG_FACT("bytes_lost", files->n_lost_bytes));
    rota_log(log, rota_clock_wall(), ROTA_LOG_INFO, "journal opened",
             ROTA_LOG_FACT("directory", files->directory),
             ROTA_LOG_FACT("segments", files->parts.size),
             ROTA_LOG_FACT("records", files->n_records), ROTA_LOG_FACT("last", files->last),
             ROTA_LOG_SPAN("took", rota_clock_mono() - began));
}

static enum rota_code start_thread(struct uv_loop_s *loop, struct rota_journal *journal,
                                   struct rota_error *error)
{
    struct rota_thread_options options = {.name = "journal"};
    uv_prepare_init(loop, &journal->turn);
    uv_timer_init(loop, &journal->retry);
    uv_timer_init(loop, &journal->later);
    journal->turn.data = journal->retry.data = journal->later.data = journal;
    journal->n_open = 4;
    return rota_mailbox_thread_open(loop, &options, &journal->thread, error);
}

enum rota_code rota_journal_open(struct uv_loop_s *loop, const struct rota_journal_options *options,
                                 struct rota_journal **journal, struct rota_error *error)
{
    struct rota_journal_files_options reading = {
        .directory = options->directory,
        .segment_size = options->segment_size,
        .reserve_size = options->reserve_size,
        .repair = options->repair,
        .disk = options->disk,
        .on_record = options->on_record,
        .on_ahead = options->on_ahead,
        .data = options->data,
    };
    rota_time began = rota_clock_mono();
    struct rota_journal *made = calloc(1, sizeof *made);
    if (!made)
        return rota_error_no_memory(error, "for a journal");
    made->options = *options;
    made->options.directory = NULL; /* the files have it */
    made->commit.letter = (struct rota_letter){.work = commit_on_thread, .done = on_commit_done};
    made->commit.writer = &made->writer;
    enum rota_code code = rota_journal_files_open(&reading, &made->commit.files, error);
    if (code) {
        free(made);
        return code;
    }
    const struct rota_journal_files *files = made->commit.files;
    rota_journal_segment_writer_init(&made->writer, files->id);
    made->view.last = made->view.durable = files->last;
    made->view.n_lost = files->n_lost;
    made->view.segment_size = files->segment_size;
    made->view.reserve_size = files->reserve_size;
    made->view.n_free = rota_journal_files_free(files);
    look_at_files(made);
    code = start_thread(loop, made, error);
    if (code) {
        close_handles(made);
        return code;
    }
    if (files->is_full) /* the first turn reports it */
        uv_timer_start(&made->retry, on_retry, 0, retry_ms(made));
    log_opened(made, began);
    *journal = made;
    return ROTA_OK;
}

static enum rota_code append_record(struct rota_journal *journal,
                                    const struct rota_work_record *record, bool is_waited_for,
                                    struct rota_error *error)
{
    assert(!journal->is_closing);
    assert(record->number == journal->view.last + 1);
    if (journal->is_failed)
        return rota_error_set(error, ROTA_ERR_IO, "%s: the journal has failed",
                              journal->commit.files->directory);
    size_t bound = rota_journal_record_bound(record);
    if (journal->waiting.size + bound > ROTA_JOURNAL_PENDING_MAX)
        return rota_error_set(error, ROTA_ERR_LIMIT, "%zu bytes are already waiting for the disk",
                              journal->waiting.size);
    size_t size = journal->waiting.size;
    rota_journal_segment_write(&journal->writer, record, &journal->waiting);
    if (journal->waiting.failed) {
        journal->waiting.size = size;
        journal->waiting.failed = false;
        return rota_error_no_memory(error, "for a record of %zu bytes", bound);
    }
    if (size == 0)
        journal->first = record->number;
    journal->view.last = record->number;
    journal->is_waited_for = journal->is_waited_for || is_waited_for;
    wake_for_records(journal);
    if (size <= ROTA_JOURNAL_BEHIND && journal->waiting.size > ROTA_JOURNAL_BEHIND)
        tell_room(journal, "the disk is too slow");
    return ROTA_OK;
}

enum rota_code rota_journal_append(struct rota_journal *journal,
                                   const struct rota_work_record *record, struct rota_error *error)
{
    return append_record(journal, record, true, error);
}

enum rota_code rota_journal_append_later(struct rota_journal *journal,
                                         const struct rota_work_record *record,
                                         struct rota_error *error)
{
    return append_record(journal, record, false, error);
}

void rota_journal_seal(struct rota_journal *journal)
{
    if (journal->waiting.size == 0 || journal->n_sealed == ROTA_JOURNAL_SEALED_MAX)
        return;
    journal->sealed[journal->n_sealed] = take_waiting(journal, (struct rota_buffer){0});
    journal->n_sealed++;
    wake_writer(journal);
}

void rota_journal_make_room(struct rota_journal *journal, size_t bytes)
{
    journal->want = bytes;
    wake_writer(journal);
}

void rota_journal_set_short(struct rota_journal *journal, bool is_short)
{
    if (is_short == journal->is_short || journal->is_failed || journal->is_closing)
        return;
    journal->is_short = is_short;
    if (!is_short) {
        wake_writer(journal); /* the disk is asked */
    } else {
        schedule_retry(journal);
        if (!journal->is_full)
            tell_room(journal, SHORT);
    }
}

void rota_journal_drop_below(struct rota_journal *journal, uint64_t number)
{
    if (number > journal->drop_below)
        journal->drop_below = number;
    journal->drop_after = journal->view.last;
    wake_writer(journal);
}

struct rota_journal_view rota_journal_look(const struct rota_journal *journal)
{
    struct rota_journal_view view = journal->view;
    view.n_waiting_bytes =
        journal->waiting.size + (journal->is_committing ? journal->commit.batch.size : 0);
    for (size_t i = 0; i < journal->n_sealed; i++)
        view.n_waiting_bytes += journal->sealed[i].bytes.size;
    view.has_sealed = journal->n_sealed > 0;
    view.is_full = journal->is_full;
    view.is_failed = journal->is_failed;
    return view;
}
