#include "journal_book.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

uv_loop_t loop;
struct work_room made;

struct book book;

struct rota_work_record book_record(uint64_t number)
{
    rota_random_init(&made.random, number);
    return work_record_make(&made, (enum rota_work_record_type)(number % ROTA_WORK_RECORDS),
                            number);
}

static enum rota_code book_on_record(void *data, const struct rota_work_record *record,
                                     struct rota_error *error)
{
    struct book *at = data;
    struct rota_work_record original = book_record(record->number);
    if (record->type == ROTA_WORK_FORGET && rota_job_id_is_none(record->id) &&
        record->queue.size == 0 && original.queue.size > 0) {
        at->last_told = record->number;
        return ROTA_OK;
    }
    if (!work_record_is_equal(&original, record))
        return rota_error_set(error, ROTA_ERR_INVALID, "record %llu was never written",
                              (unsigned long long)record->number);
    if (record->number <= at->last_read)
        return rota_error_set(error, ROTA_ERR_INVALID, "record %llu comes behind %llu",
                              (unsigned long long)record->number,
                              (unsigned long long)at->last_read);
    at->n_read++;
    at->last_read = record->number;
    return ROTA_OK;
}

void book_on_durable(void *data, uint64_t number)
{
    struct book *at = data;
    assert_true(number > at->durable && number <= at->last);
    assert_int_equal(at->n_failed, 0);
    at->n_durable = (size_t)number;
    at->durable = number;
}

static void book_on_full(void *data, const char *why)
{
    struct book *at = data;
    assert_int_equal(at->n_full, at->n_room);
    at->n_full++;
    snprintf(at->why, sizeof at->why, "%s", why);
}

static void book_on_room(void *data)
{
    struct book *at = data;
    at->n_room++;
    assert_int_equal(at->n_full, at->n_room);
}

static void book_on_failed(void *data, const struct rota_error *error)
{
    struct book *at = data;
    assert_int_equal(at->n_failed, 0);
    at->n_failed++;
    at->error = *error;
}

void book_on_closed(void *data)
{
    struct book *at = data;
    at->n_closed++;
    at->journal = NULL;
}

enum rota_code book_try_open(void)
{
    struct rota_journal_options options = book.options;
    options.directory = book.directory;
    options.on_record = book_on_record;
    options.on_durable = book_on_durable;
    options.on_full = book_on_full;
    options.on_room = book_on_room;
    options.on_failed = book_on_failed;
    options.data = &book;
    book.n_read = book.last_read = book.last_told = book.last = book.durable = 0;
    book.n_durable = book.n_full = book.n_room = book.n_failed = book.n_closed = 0;
    enum rota_code code = rota_journal_open(&loop, &options, &book.journal, &book.error);
    if (!code)
        book.last = book.durable = rota_journal_look(book.journal).last;
    return code;
}

void book_open(void)
{
    if (book_try_open())
        fail_msg("%s", book.error.text);
}

void book_append(size_t n)
{
    for (; n > 0; n--) {
        struct rota_work_record record = book_record(book.last + 1);
        assert_int_equal(rota_journal_append(book.journal, &record, NULL), ROTA_OK);
        book.last++;
    }
}

void book_await(void)
{
    await(&loop, &book.n_durable, (size_t)book.last);
}

void book_close(void)
{
    rota_journal_close(book.journal, book_on_closed, &book);
    await(&loop, &book.n_closed, 1);
}

void book_remove(const char *directory)
{
    DIR *entries = opendir(directory);
    char path[1024];
    for (struct dirent *entry; entries && (entry = readdir(entries));) {
        snprintf(path, sizeof path, "%s/%s", directory, entry->d_name);
        unlink(path);
    }
    if (entries)
        closedir(entries);
    rmdir(directory);
}

int book_set_up(void **state)
{
    (void)state;
    memset(&book, 0, sizeof book);
    snprintf(book.directory, sizeof book.directory, "%s/journal-XXXXXX",
             access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    assert_non_null(mkdtemp(book.directory));
    book.options.segment_size = 65536;
    book.options.reserve_size = 16384;
    book.options.retry = ROTA_MSEC;
    return uv_loop_init(&loop);
}

int book_tear_down(void **state)
{
    (void)state;
    book_remove(book.directory);
    await_end(&loop);
    return 0;
}
