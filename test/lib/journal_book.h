/* A journal under test: a directory of its own, random records, and a list of everything that it
 * reported. */
#pragma once

#include "io/journal/journal.h"

#include "await.h"
#include "work_records.h"

extern uv_loop_t loop;
extern struct work_room made;

/* What a journal has told; all is the loop thread's. */
struct book {
    char directory[256];
    struct rota_journal_options options;
    struct rota_journal *journal;
    uint64_t n_read, last_read; /* records that were read, as they had been written */
    uint64_t last_told;         /* by a record that says where numbers go on; 0: none */
    uint64_t last;              /* appended */
    size_t n_durable, n_full, n_room, n_failed, n_closed;
    uint64_t durable;
    char why[ROTA_ERROR_TEXT_MAX];
    struct rota_error error;
};

extern struct book book;

/* The record of a number is always the same. Few are large. */
struct rota_work_record book_record(uint64_t number);

void book_on_durable(void *data, uint64_t number);
void book_on_closed(void *data);
enum rota_code book_try_open(void);
void book_open(void);
void book_append(size_t n);
void book_await(void);
void book_close(void);
void book_remove(const char *directory);
int book_set_up(void **state);
int book_tear_down(void **state);
