/* A journal on a real directory: records reported as durable are read again, and each fault of a
 * disk or a directory has its own error. */
#include "io/journal/journal_files.h"
#include "journal_book.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define TEST(name) cmocka_unit_test_setup_teardown(name, book_set_up, book_tear_down)

/* --- a disk that fails on demand; all but its room is set while the journal is idle --- */

static struct {
    atomic_size_t room;                           /* bytes that may still be allocated or written */
    bool is_bounded;                              /* ... by that */
    bool no_allocate;                             /* the file system can't */
    int fail_sync;                                /* errno of the next syncs */
    int fail_write;                               /* errno of the next writes */
    int fail_unlink, fail_directory, fail_create; /* likewise */
    bool fail_zeros;
    size_t n_zeros;    /* writes of nothing else */
    size_t write_most; /* bytes that one call writes; 0: all */
    int n_interrupts;  /* calls that are interrupted */
    size_t n_syncs, n_writes;
} disk;

static bool is_interrupted(void)
{
    if (disk.n_interrupts == 0)
        return false;
    disk.n_interrupts--;
    errno = EINTR;
    return true;
}

/* Whether a call is to fail with this errno; 0: it is not. */
static bool fails(int code)
{
    errno = code ? code : errno;
    return code != 0;
}

static bool take_room(size_t size)
{
    if (disk.is_bounded && size > disk.room) {
        errno = ENOSPC;
        return false;
    }
    disk.room -= disk.is_bounded ? size : 0;
    return true;
}

static int disk_create(void *data, const char *path)
{
    return fails(disk.fail_create) ? -1 : rota_journal_disk_real.create(data, path);
}

static int disk_open(void *data, const char *path)
{
    return rota_journal_disk_real.open(data, path);
}

static int disk_allocate(void *data, int fd, off_t size)
{
    struct stat status;
    if (is_interrupted())
        return -1;
    if (disk.no_allocate) {
        errno = EOPNOTSUPP;
        return -1;
    }
    assert_int_equal(fstat(fd, &status), 0);
    if (!take_room((size_t)(size - status.st_size)))
        return -1;
    return rota_journal_disk_real.allocate(data, fd, size);
}

static int disk_truncate(void *data, int fd, off_t size)
{
    return rota_journal_disk_real.truncate(data, fd, size);
}

static ssize_t disk_pwrite(void *data, int fd, const void *bytes, size_t size, off_t at)
{
    struct stat status;
    disk.n_writes++;
    if (is_interrupted())
        return -1;
    bool are_zeros = *(const char *)bytes == 0 && !memcmp(bytes, (const char *)bytes + 1, size - 1);
    disk.n_zeros += are_zeros;
    if (disk.fail_write || (disk.fail_zeros && are_zeros)) {
        errno = disk.fail_write ? disk.fail_write : EIO;
        return -1;
    }
    if (disk.write_most && size > disk.write_most)
        size = disk.write_most;
    assert_int_equal(fstat(fd, &status), 0);
    off_t grows = at + (off_t)size - status.st_size;
    if (grows > 0 && disk.is_bounded && (size_t)grows > disk.room &&
        (size_t)grows < size + disk.room)
        size -= (size_t)grows - disk.room; /* what there is room for */
    grows = at + (off_t)size - status.st_size;
    if (size == 0 || (grows > 0 && !take_room((size_t)grows))) {
        errno = ENOSPC;
        return -1;
    }
    return rota_journal_disk_real.pwrite(data, fd, bytes, size, at);
}

static int disk_sync(void *data, int fd)
{
    disk.n_syncs++;
    if (is_interrupted())
        return -1;
    if (disk.fail_sync) {
        errno = disk.fail_sync;
        return -1;
    }
    (void)data;
    (void)fd;
    return 0;
}

static int disk_sync_directory(void *data, const char *path)
{
    (void)data;
    (void)path;
    return fails(disk.fail_directory) ? -1 : 0;
}

static int disk_unlink(void *data, const char *path)
{
    struct stat status;
    if (fails(disk.fail_unlink))
        return -1;
    if (stat(path, &status) == 0 && disk.is_bounded)
        disk.room += (size_t)status.st_size;
    return rota_journal_disk_real.unlink(data, path);
}

static const struct rota_journal_disk bad_disk = {
    .create = disk_create,
    .open = disk_open,
    .allocate = disk_allocate,
    .truncate = disk_truncate,
    .pwrite = disk_pwrite,
    .sync = disk_sync,
    .sync_directory = disk_sync_directory,
    .unlink = disk_unlink,
};

static void use_bad_disk(void)
{
    memset(&disk, 0, sizeof disk);
    book.options.disk = &bad_disk;
}

/* --- helpers --- */

static void path_of(uint64_t index, char path[512])
{
    snprintf(path, 512, "%s/%08llu.journal", book.directory, (unsigned long long)index);
}

static void change_byte(uint64_t index, off_t at, unsigned char flip)
{
    char path[512];
    unsigned char byte;
    path_of(index, path);
    int fd = open(path, O_RDWR);
    assert_true(fd >= 0);
    assert_int_equal(pread(fd, &byte, 1, at), 1);
    byte ^= flip;
    assert_int_equal(pwrite(fd, &byte, 1, at), 1);
    close(fd);
}

/* Records 1 to n, in batches of 10, and closed. */
static void write_records(size_t n)
{
    book_open();
    for (size_t i = 0; i < n; i += 10) {
        book_append(10);
        book_await();
    }
    book_close();
}

static void assert_refused(enum rota_code code, const char *words)
{
    assert_int_equal(book_try_open(), code);
    if (!strstr(book.error.text, words))
        fail_msg("\"%s\" does not say \"%s\"", book.error.text, words);
}

/* For its modes and owners, which a check of the settings looks at, too. */
static void assert_refused_unread(const char *words)
{
    assert_refused(ROTA_ERR_INVALID, words);
    assert_int_equal(rota_journal_read_files_check(book.directory, &book.error), ROTA_ERR_INVALID);
    if (!strstr(book.error.text, words))
        fail_msg("\"%s\" does not say \"%s\"", book.error.text, words);
}

/* --- what it is for --- */

static void durable_records_are_read_again(void **state)
{
    (void)state;
    book_open();
    assert_int_equal(book.n_read, 0);
    book_append(100);
    book_await();
    book_append(1);
    book_await();
    book_close();
    book_open();
    assert_int_equal(book.n_read, 101);
    assert_int_equal(book.last, 101);
    book_append(50);
    book_await();
    book_close();
    book_open();
    assert_int_equal(book.n_read, 151);
    book_close();
}

static void records_of_one_turn_are_one_batch(void **state)
{
    (void)state;
    use_bad_disk();
    book_open();
    size_t n_syncs = disk.n_syncs;
    book_append(20);
    book_await();
    assert_int_equal(disk.n_syncs, n_syncs + 1);
    assert_int_equal(rota_journal_look(book.journal).n_batches, 1);
    book_close();
}

static void append_later(void)
{
    struct rota_work_record record = book_record(book.last + 1);
    assert_int_equal(rota_journal_append_later(book.journal, &record, NULL), ROTA_OK);
    book.last++;
}

static void lazy_records_are_written_with_urgent_ones(void **state)
{
    (void)state;
    use_bad_disk();
    book.options.later = ROTA_HOUR;
    book_open();
    for (int i = 0; i < 10; i++) {
        append_later();
        uv_run(&loop, UV_RUN_NOWAIT);
    }
    assert_int_equal(rota_journal_look(book.journal).n_batches, 0);
    book_append(1);
    book_await();
    assert_int_equal(rota_journal_look(book.journal).n_batches, 1);
    append_later(); /* closing waits for no timer */
    book_close();
    book_open();
    assert_int_equal(book.n_read, 12);
    book_close();
}

static void lazy_records_are_written_eventually(void **state)
{
    (void)state;
    book_open();
    append_later();
    book_await();
    book_append(1); /* behind one that is under way, too */
    uv_run(&loop, UV_RUN_NOWAIT);
    append_later();
    book_await();
    assert_int_equal(rota_journal_look(book.journal).durable, 3);
    book_close();
}

static void closing_writes_pending_records(void **state)
{
    (void)state;
    book_open();
    book_append(33);
    book_close();
    book_open();
    assert_int_equal(book.n_read, 33);
    book_close();
}

static void segments_follow_each_other_and_old_ones_are_deleted(void **state)
{
    (void)state;
    book_open();
    while (rota_journal_look(book.journal).n_segments < 5) {
        book_append(10);
        book_await();
    }
    struct rota_journal_view view = rota_journal_look(book.journal);
    assert_true(view.bytes > 4 * 30000 && view.edge > 1 && view.edge <= book.last);
    book_close();
    book_open();
    assert_int_equal(book.n_read, book.last);
    view = rota_journal_look(book.journal);
    assert_int_equal(view.n_segments, 5);
    rota_journal_drop_below(book.journal, view.edge - 1); /* one record is still needed */
    book_append(1);
    book_await();
    assert_int_equal(rota_journal_look(book.journal).n_segments, 2);
    rota_journal_drop_below(book.journal, view.edge);
    book_close();
    book_open();
    assert_int_equal(rota_journal_look(book.journal).n_segments, 1);
    assert_int_equal(book.n_read, book.last - view.edge + 1);
    book_close();
}

static void a_large_record_has_a_segment_that_is_large_enough(void **state)
{
    static char payload[3 << 20];
    struct rota_job_spec spec = {.id = {1, 1}, .queue = rota_str("q"), .partition = 1};
    struct rota_work_record record = {.type = ROTA_WORK_ADD, .number = 1, .spec = &spec};
    (void)state;
    spec.payload = rota_str_of(payload, sizeof payload);
    record.id = spec.id;
    record.queue = spec.queue;
    record.partition = 1;
    book_open();
    assert_int_equal(rota_journal_append(book.journal, &record, NULL), ROTA_OK);
    book.last = 1;
    book_await();
    assert_int_equal(rota_journal_look(book.journal).n_segments, 2);
    book_close();
    assert_refused(ROTA_ERR_INVALID, "record 1 was never written"); /* it is read, as it is */
}

static void a_second_process_learns_which_process_has_the_journal(void **state)
{
    char words[64];
    (void)state;
    book_open();
    struct book first = book;
    snprintf(words, sizeof words, "process %ld uses this journal", (long)getpid());
    assert_refused(ROTA_ERR_UNAVAILABLE, words);
    book = first;
    book_append(3);
    book_await();
    book_close();
    book_open(); /* the lock was given back */
    assert_int_equal(book.n_read, 3);
    book_close();
}

/* --- damage --- */

/* As if the process had been killed before it closed the journal. */
static void forget_close(void)
{
    char path[512], file[ROTA_JOURNAL_RANGE_FILE] = {0}, bytes[ROTA_JOURNAL_RANGE_SIZE];
    struct rota_journal_range range;
    snprintf(path, sizeof path, "%.400s/range", book.directory);
    int fd = open(path, O_RDWR);
    assert_true(fd >= 0 && pread(fd, file, sizeof file, 0) > 0);
    assert_int_equal(rota_journal_range_decode(file, &range), ROTA_JOURNAL_RANGE_FINE);
    assert_true(range.ended > 0);
    range.ended = 0;
    range.sequence++;
    size_t place = rota_journal_range_encode(&range, bytes);
    assert_int_equal(pwrite(fd, bytes, sizeof bytes, (off_t)place), sizeof bytes);
    close(fd);
}

static void a_torn_end_is_cut_and_written_over(void **state)
{
    char path[512];
    struct stat status;
    (void)state;
    write_records(30);
    path_of(1, path);
    int fd = open(path, O_RDWR);
    char bytes[65536];
    ssize_t size = pread(fd, bytes, sizeof bytes, 0);
    while (bytes[size - 1] == 0)
        size--;
    assert_int_equal(ftruncate(fd, size - 40), 0); /* the mark, and a part of a record */
    close(fd);
    forget_close();
    book_open();
    assert_int_equal(book.n_read, 29);
    book_append(20);
    book_await();
    book_close();
    book_open();
    assert_int_equal(book.n_read, 49);
    book_close();
    assert_int_equal(stat(path, &status), 0);
}

static void damage_is_refused_and_repair_skips_it(void **state)
{
    char words[600];
    (void)state;
    write_records(60);
    change_byte(1, 3000, 0x40);
    snprintf(words, sizeof words, "%s/00000001.journal: damaged at byte ", book.directory);
    assert_refused(ROTA_ERR_INVALID, words);
    assert_refused(ROTA_ERR_INVALID, "`rotad --repair`");
    book.options.repair = true;
    book_open();
    struct rota_journal_view view = rota_journal_look(book.journal);
    assert_true(view.n_lost > 0 && view.n_lost <= 10);
    assert_int_equal(book.n_read + view.n_lost, 60);
    book_append(10);
    book_await();
    view = rota_journal_look(book.journal);
    assert_int_equal(view.n_segments, 2); /* nothing is written behind damage */
    rota_journal_drop_below(book.journal, view.edge);
    book_close();
    book.options.repair = false; /* it went with its segment */
    book_open();
    assert_int_equal(book.n_read, 10);
    book_close();
}

/* All records of the last batch are blank, and the mark behind them is not. */
static void numbers_that_were_lost_are_not_used_again(void **state)
{
    static char bytes[65536], zeros[65536];
    char path[512];
    (void)state;
    write_records(10);
    path_of(1, path);
    int fd = open(path, O_RDWR);
    ssize_t before = pread(fd, bytes, sizeof bytes, 0);
    while (before > 0 && bytes[before - 1] == 0)
        before--;
    book_open();
    book_append(10);
    book_close();
    assert_int_equal(pread(fd, bytes, sizeof bytes, 0), sizeof bytes);
    size_t begins = (size_t)before + 40, ends = sizeof bytes; /* in the batch; its mark */
    while (memcmp(bytes + ends - 4,
                  "\x7f"
                  "BAT",
                  4) != 0)
        ends--;
    assert_true(ends - 10 > begins);
    assert_int_equal(pwrite(fd, zeros, ends - 10 - begins, (off_t)begins), ends - 10 - begins);
    close(fd);
    assert_refused(ROTA_ERR_INVALID, "damaged at byte");
    book.options.repair = true;
    book_open();
    assert_int_equal(book.last_read, 10);
    assert_int_equal(book.last_told, 20);
    assert_int_equal(book.last, 20);
    book_append(5);
    book_await();
    book_close();
    book_open(); /* the new ones are found behind the damage */
    assert_int_equal(book.last_read, 25);
    assert_int_equal(book.n_read, 15);
    book_close();
}

static void name_path(const char *name, char path[512])
{
    snprintf(path, 512, "%s/%s", book.directory, name);
}

static void remove_segments(uint64_t from, uint64_t to)
{
    char path[512];
    for (uint64_t index = from; index <= to; index++) {
        path_of(index, path);
        assert_int_equal(unlink(path), 0);
    }
}

enum { N_RECORDS = 720 }; /* fill three segments, and a part of the fourth */

/* Segments 1 to 4, in a directory without any other. */
static void write_segments(void)
{
    book_remove(book.directory);
    assert_int_equal(mkdir(book.directory, 0700), 0);
    book.options.repair = false;
    write_records(N_RECORDS);
    book_open();
    assert_int_equal(rota_journal_look(book.journal).n_segments, 4);
    book_close();
}

/* The first one, the last one, one between them, all. */
static void a_missing_segment_is_refused(void **state)
{
    static const struct {
        uint64_t from, to;
        const char *words;
        bool is_counted; /* how many records are lost */
    } CASES[] = {
        {1, 1, "00000001.journal: is missing (1 of 4 segments", true},
        {2, 2, "00000002.journal: is missing (1 of 4 segments", true},
        {2, 3, "00000002.journal: is missing (2 of 4 segments", true},
        {4, 4, "00000004.journal: is missing (1 of 4 segments", false},
        {1, 4, "00000001.journal: is missing (4 of 4 segments", false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        write_segments();
        remove_segments(CASES[i].from, CASES[i].to);
        assert_refused(ROTA_ERR_INVALID, CASES[i].words);
        book.options.repair = true;
        book_open();
        assert_true(book.n_read < N_RECORDS && (book.n_read > 0 || i == 4));
        if (CASES[i].is_counted)
            assert_int_equal(book.n_read + rota_journal_look(book.journal).n_lost, N_RECORDS);
        book_append(10);
        book_await();
        uint64_t n = book.n_read + 10;
        book_close();
        book.options.repair = CASES[i].from == 2; /* a gap is there until it is dropped */
        book_open();
        assert_int_equal(book.n_read, n);
        book_close();
    }
}

static void a_last_segment_that_is_emptied_is_refused(void **state)
{
    char path[512];
    (void)state;
    write_segments();
    path_of(4, path);
    await_write(path, "");
    assert_refused(ROTA_ERR_INVALID, "00000004.journal: damaged at byte 0");
    book.options.repair = true;
    book_open();
    assert_true(book.n_read > 0 && book.n_read < N_RECORDS);
    book_close();
}

static void empty_file(const char *name)
{
    char path[512];
    name_path(name, path);
    await_write(path, "");
}

static void remove_file(const char *name)
{
    char path[512];
    name_path(name, path);
    assert_int_equal(unlink(path), 0);
}

/* Nothing of it is left but a file that there is only after records. */
static void a_journal_that_was_emptied_is_not_a_new_one(void **state)
{
    static const char SEGMENT[] = "00000001.journal";
    static const char *const WORDS[] = {
        "00000001.journal: is empty, and no other file has a record, but `lock` names record 10",
        "00000001.journal: is missing, and no other file has a record, but `lock` names record 10",
        "00000001.journal: is empty, and no other file has a record, but there is a `reserve`",
    };
    (void)state;
    for (int i = 0; i < 3; i++) {
        book_remove(book.directory);
        assert_int_equal(mkdir(book.directory, 0700), 0);
        book.options.repair = false;
        write_records(10);
        empty_file("range");
        if (i == 1)
            remove_file(SEGMENT);
        else
            empty_file(SEGMENT);
        if (i == 2)
            empty_file("lock");
        else
            remove_file("reserve");
        for (int again = 0; again < 2; again++)
            assert_refused(ROTA_ERR_INVALID, WORDS[i]);
        book.options.repair = true;
        book_open();
        assert_int_equal(book.n_read, 0);
        book_append(10);
        book_await();
        book_close();
        book.options.repair = false;
        book_open();
        assert_int_equal(book.n_read, 10);
        book_close();
    }
}

static void segments_that_were_dropped_are_not_missed(void **state)
{
    (void)state;
    write_segments();
    book_open();
    rota_journal_drop_below(book.journal, rota_journal_look(book.journal).edge);
    book_close();
    for (int i = 0; i < 3; i++) {
        book_open();
        assert_int_equal(rota_journal_look(book.journal).n_segments, 1);
        book_close();
    }
    remove_segments(4, 4);
    assert_refused(ROTA_ERR_INVALID, "00000004.journal: is missing (1 of 1 segments");
}

/* It was written before there was a range, and is given one. */
static void a_journal_without_a_range_is_read_and_given_one(void **state)
{
    char path[512];
    (void)state;
    write_segments();
    name_path("range", path);
    assert_int_equal(unlink(path), 0);
    remove_segments(1, 1);
    book_open(); /* this one can't be told from one that was dropped */
    book_close();
    remove_segments(4, 4);
    assert_refused(ROTA_ERR_INVALID, "00000004.journal: is missing");
    assert_int_equal(unlink(path), 0);
    remove_segments(2, 3);
    assert_refused(ROTA_ERR_INVALID, "`lock` names record 720: the journal had records; put all");
    book.options.repair = true;
    book_open();
    assert_int_equal(book.n_read, 0);
    book_close();
}

static void a_range_that_is_something_else_is_refused(void **state)
{
    static const char *const TEXTS[] = {"a note", "rotaRNGX", "rotaRNGE", "", "rota"};
    char path[512];
    (void)state;
    write_segments();
    name_path("range", path);
    for (size_t i = 0; i < sizeof TEXTS / sizeof *TEXTS; i++) {
        await_write(path, TEXTS[i]);
        book.options.repair = false;
        if (i < 2)
            assert_refused(ROTA_ERR_INVALID, "/range: damaged at byte 0");
        book.options.repair = i < 2; /* the others may be a first write that was cut off */
        book_open();
        assert_int_equal(book.n_read, N_RECORDS);
        book_close();
    }
    for (int i = 0; i < 3; i++) {
        assert_int_equal(unlink(path), 0);
        if (i == 0)
            assert_int_equal(symlink("/dev/zero", path), 0);
        else if (i == 1)
            assert_int_equal(mkfifo(path, 0600), 0);
        else
            assert_int_equal(mkdir(path, 0700), 0);
        book.options.repair = false;
        assert_refused(ROTA_ERR_INVALID, "/range: damaged at byte 0");
        book.options.repair = true;
        if (i == 2) {
            assert_refused(ROTA_ERR_IO, "/range: cannot be written");
            assert_int_equal(rmdir(path), 0);
        }
        book_open();
        assert_int_equal(book.n_read, N_RECORDS);
        book_close();
    }
    book.options.repair = false;
    remove_segments(1, 1); /* it was made anew each time */
    assert_refused(ROTA_ERR_INVALID, "00000001.journal: is missing");
}

static void a_newer_version_is_refused(void **state)
{
    (void)state;
    write_records(10);
    change_byte(1, 8, ROTA_JOURNAL_VERSION ^ (ROTA_JOURNAL_VERSION + 1));
    assert_refused(ROTA_ERR_INVALID, "written by a newer version of Rota: its format");
    book.options.repair = true;
    assert_refused(ROTA_ERR_INVALID, "written by a newer version of Rota: its format");
}

static void cut_segment(uint64_t index, off_t size)
{
    char path[512];
    path_of(index, path);
    assert_int_equal(truncate(path, size), 0);
}

/* The records of the last segment are gone, its head is not: nothing in it looks wrong. */
static void an_end_that_was_cut_after_a_close_is_noticed(void **state)
{
    (void)state;
    write_records(10);
    cut_segment(1, ROTA_JOURNAL_HEAD_SIZE);
    assert_refused(ROTA_ERR_INVALID, "ends at byte 48 with record 0, but the journal was closed "
                                     "after record 10");
    book.options.repair = true;
    book_open();
    assert_int_equal(book.n_read, 0);
    book_close();
    book.options.repair = false;
    book_open(); /* the end that it was closed with since then is there */
    book_close();
}

static void a_cut_within_a_record_after_a_close_is_noticed(void **state)
{
    (void)state;
    write_records(10);
    cut_segment(1, 200);
    assert_refused(ROTA_ERR_INVALID, "but the journal was closed after record 10");
}

/* Only what was written down as closed must be there: a process that was killed has not. */
static void an_end_is_void_once_the_journal_is_open_again(void **state)
{
    (void)state;
    write_records(10);
    book_open();
    struct rota_journal_files *files;
    struct rota_error error;
    char copy[512], command[2048];
    snprintf(copy, sizeof copy, "%.400s-copy", book.directory);
    snprintf(command, sizeof command, "cp -r %.400s %.500s && rm -f %.500s/lock", book.directory,
             copy, copy);
    assert_int_equal(system(command), 0); /* as a loss of power would leave it */
    book_close();
    const struct rota_journal_files_options options = {.directory = copy};
    if (rota_journal_files_open(&options, &files, &error))
        fail_msg("%s", error.text);
    assert_int_equal(files->range.ended, 0);
    assert_int_equal(files->n_records, 10);
    rota_journal_files_close(files);
    snprintf(command, sizeof command, "rm -r %.500s", copy);
    assert_int_equal(system(command), 0);
}

/* An older program would take a record that it does not know for damage. */
static void nothing_is_added_to_a_segment_of_an_earlier_version(void **state)
{
    char path[512], head[ROTA_JOURNAL_HEAD_SIZE];
    (void)state;
    write_records(10);
    path_of(1, path);
    int fd = open(path, O_RDWR);
    assert_true(fd >= 0);
    assert_int_equal(pread(fd, head, sizeof head, 0), sizeof head);
    struct rota_crc32c crc;
    rota_crc32c_init(&crc);
    head[8] = 1; /* the version, and the checksum of all before it */
    rota_journal_put_fixed(head + 44, rota_crc32c_add(&crc, 0, rota_str_of(head, 44)), 4);
    assert_int_equal(pwrite(fd, head, sizeof head, 0), sizeof head);
    close(fd);
    book_open();
    assert_int_equal(book.n_read, 10);
    book_close();
    write_records(10);
    path_of(2, path);
    assert_int_equal(access(path, F_OK), 0);
    book_open();
    assert_int_equal(book.n_read, 20);
    book_close();
}

static void a_foreign_file_is_refused(void **state)
{
    char path[512];
    (void)state;
    path_of(1, path);
    await_write(path, "this is a diary, and it is longer than the head of a journal is");
    assert_refused(ROTA_ERR_INVALID, "it does not start with a journal header");
    unlink(path);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_refused_unread("is not a file");
    rmdir(path);
    int fd = open(path, O_WRONLY | O_CREAT, 0600);
    assert_int_equal(ftruncate(fd, (off_t)ROTA_JOURNAL_SEGMENT_MAX + 1), 0);
    close(fd);
    assert_refused(ROTA_ERR_LIMIT, "has 1073741825 bytes, more than the 1073741824 of a segment");
    unlink(path);
    snprintf(path, sizeof path, "%s", book.directory);
    snprintf(book.directory, sizeof book.directory, "%.200s/no/such/place", path);
    assert_refused(ROTA_ERR_IO, "No such file or directory");
    snprintf(book.directory, sizeof book.directory, "%s", "/dev/null");
    assert_refused_unread("is not a directory");
    snprintf(book.directory, sizeof book.directory, "%.200s", path);
    assert_int_equal(chmod(path, 0777), 0);
    assert_refused_unread("every user can write to it");
    assert_int_equal(chmod(path, 0700), 0);
}

/* What others can read, where they can get at it. */
static void journal_readable_by_other_users_is_refused(void **state)
{
    char path[512];
    (void)state;
    write_records(10);
    path_of(1, path);
    assert_int_equal(chmod(path, 0644), 0);
    assert_int_equal(chmod(book.directory, 0755), 0);
    assert_refused_unread("other users can read the jobs in it (mode 0644); run chmod 600 ");
    assert_int_equal(chmod(path, 0602), 0);
    assert_refused_unread("other users can change the jobs in it");
    assert_int_equal(chmod(book.directory, 0700), 0);
    assert_int_equal(rota_journal_read_files_check(book.directory, &book.error), ROTA_OK);
    book_open(); /* nobody else gets so far */
    book_close();
}

/* Neither one that is longer than a head, which looks damaged, nor one that looks cut off. */
static void repair_touches_nothing_where_no_journal_is(void **state)
{
    static const char *const TEXTS[] = {
        "this is a diary, and it is longer than the head of a journal is", "a note", "rota"};
    char path[512];
    struct stat status;
    (void)state;
    path_of(1, path);
    for (size_t i = 0; i < 4; i++) {
        book.options.repair = i % 2 == 0;
        await_write(path, TEXTS[i / 2]);
        assert_refused(ROTA_ERR_INVALID, i == 1 ? "it does not start with" : "is not a journal");
        assert_int_equal(stat(path, &status), 0);
        assert_int_equal(status.st_size, strlen(TEXTS[i / 2]));
    }
    await_write(path, TEXTS[2]); /* a head that was cut off */
    book_open();
    book_close();
}

static void repair_of_an_empty_directory_is_refused(void **state)
{
    (void)state;
    book.options.repair = true;
    assert_refused(ROTA_ERR_NOT_FOUND, "there is no journal to repair here");
    book.options.repair = false;
    book_open();
    book_close();
}

static void files_of_another_user_are_refused(void **state)
{
    char path[512];
    (void)state;
    if (geteuid() != 0)
        return; /* files can't be given away */
    assert_int_equal(rota_journal_read_files_check("/no/such/place", &book.error), ROTA_OK);
    write_records(10);
    path_of(1, path);
    assert_int_equal(chown(path, 1234, 1234), 0);
    assert_refused_unread("belongs to user 1234, but this process runs as root");
}

/* --- faults --- */

static void interrupts_and_short_writes_are_retried(void **state)
{
    (void)state;
    use_bad_disk();
    disk.n_interrupts = 5;
    disk.write_most = 7;
    book_open();
    book_append(40);
    book_await();
    book_close();
    book_open();
    assert_int_equal(book.n_read, 40);
    book_close();
}

static void a_sync_that_fails_ends_it(void **state)
{
    struct rota_work_record record;
    (void)state;
    use_bad_disk();
    book_open();
    book_append(10);
    book_await();
    disk.fail_sync = EIO;
    book_append(10);
    await(&loop, &book.n_failed, 1);
    assert_non_null(strstr(book.error.text, "cannot be synced: Input/output error"));
    assert_int_equal(book.durable, 10);
    disk.fail_sync = 0; /* that it is well again changes nothing */
    record = book_record(book.last + 1);
    assert_int_equal(rota_journal_append(book.journal, &record, &book.error), ROTA_ERR_IO);
    size_t n_writes = disk.n_writes;
    book_close();
    assert_int_equal(disk.n_writes, n_writes);
    book_open();
    assert_true(book.n_read >= 10);
    book_close();
}

static void a_write_that_fails_ends_it(void **state)
{
    (void)state;
    use_bad_disk();
    book_open();
    disk.fail_write = EIO;
    book_append(10);
    await(&loop, &book.n_failed, 1);
    assert_int_equal(book.durable, 0);
    book_close();
    disk.fail_write = 0;
    book_open();
    assert_int_equal(book.n_read, 0);
    book_close();
}

static char logged[4096];

static void keep_line(void *data, struct rota_str line)
{
    (void)data;
    snprintf(logged, sizeof logged, "%.*s", ROTA_STR_ARGS(line));
}

/* Old segments that can't be removed are no reason to stop; they are removed later. */
static void failed_removals_of_segments_are_reported_and_retried(void **state)
{
    static const struct rota_log log = {.level = ROTA_LOG_WARN, .write = keep_line};
    int *const faults[] = {&disk.fail_unlink, &disk.fail_directory};
    static const char *const phrases[] = {"cannot be removed: Permission denied",
                                          "cannot be synced: Permission denied"};
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        use_bad_disk();
        book.options.log = &log;
        book_open();
        while (rota_journal_look(book.journal).n_segments < 4) {
            book_append(10);
            book_await();
        }
        struct rota_journal_view view = rota_journal_look(book.journal);
        *faults[i] = EACCES;
        logged[0] = '\0';
        rota_journal_drop_below(book.journal, view.edge);
        book_append(1);
        book_await();
        assert_non_null(strstr(logged, "journal not shortened"));
        assert_non_null(strstr(logged, phrases[i]));
        assert_int_equal(rota_journal_look(book.journal).n_segments, view.n_segments);
        assert_int_equal(book.n_failed, 0);
        *faults[i] = 0;
        rota_journal_drop_below(book.journal, view.edge);
        book_append(1);
        book_await();
        assert_int_equal(rota_journal_look(book.journal).n_segments, 1);
        book_close();
        book_open();
        assert_int_equal(book.last_read, book.last);
        book_close();
    }
    book.options.log = NULL;
}

/* Nothing is told any more, and what was told before is there when it is opened again. */
static void failing_to_create_a_segment_ends_the_journal(void **state)
{
    (void)state;
    use_bad_disk();
    book_open();
    book_append(10);
    book_await();
    disk.fail_create = EACCES;
    while (book.n_failed == 0) {
        const struct rota_work_record record = book_record(book.last + 1);
        if (rota_journal_append(book.journal, &record, NULL) == ROTA_OK)
            book.last++;
        uv_run(&loop, UV_RUN_ONCE);
    }
    assert_int_equal(book.error.code, ROTA_ERR_IO);
    assert_non_null(strstr(book.error.text, "Permission denied"));
    uint64_t told = book.durable;
    assert_true(told >= 10);
    book_close();
    disk.fail_create = 0;
    book_open();
    assert_true(book.last_read >= told);
    book_close();
}

static void zeros_written_ahead_are_ignored(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        use_bad_disk();
        disk.fail_zeros = i == 1;
        book_open();
        book_append(10);
        book_await();
        book_append(10);
        book_await();
        assert_int_equal(book.n_failed, 0);
        assert_true(disk.n_zeros > 0);
        book_close();
    }
    disk.fail_zeros = false;
    book_open();
    assert_int_equal(book.n_read, 40);
    book_close();
}

static void on_enough(uv_timer_t *timer)
{
    ++*(size_t *)timer->data;
}

/* Run the loop for a few tries. */
static void let_it_try(void)
{
    size_t n_turns = 0;
    uv_timer_t *timer = malloc(sizeof *timer);
    assert_non_null(timer);
    uv_timer_init(&loop, timer);
    timer->data = &n_turns;
    uv_timer_start(timer, on_enough, 3, 3);
    while (n_turns < 3 && book.durable < book.last)
        uv_run(&loop, UV_RUN_ONCE);
    uv_close((uv_handle_t *)timer, (uv_close_cb)free);
}

static void a_full_disk_loses_nothing_and_writing_continues_when_there_is_room(void **state)
{
    char path[512];
    (void)state;
    use_bad_disk();
    disk.is_bounded = true;
    book.options.reserve_size = 131072;
    disk.room = 65536 + 131072 + 8192; /* a segment, the reserve and the range */
    book_open();
    while (book.n_full == 0) {
        book_append(10);
        book_await();
    }
    /* The reserve has taken the place of a segment: all was made durable so far. */
    assert_int_equal(book.durable, book.last);
    assert_non_null(strstr(book.why, "no room for the reserve of 131072 bytes"));
    name_path("reserve", path);
    let_it_try();
    assert_int_equal(access(path, F_OK), -1); /* half a reserve would take room that others need */
    while (rota_journal_look(book.journal).n_waiting_bytes < 80000) {
        book_append(10);
        let_it_try();
    }
    uint64_t durable = book.durable;
    assert_true(durable < book.last);
    assert_int_equal(book.n_room, 0);
    disk.room += 1 << 20; /* somebody has cleaned up */
    book_await();
    await(&loop, &book.n_room, 1);
    book_append(10);
    book_await();
    book_close();
    uint64_t last = book.last;
    book_open();
    assert_int_equal(book.n_read, last);
    book_close();
}

static void a_journal_closed_on_a_full_disk_keeps_acknowledged_records(void **state)
{
    (void)state;
    use_bad_disk();
    disk.no_allocate = true; /* so that writes fail, and halfway */
    disk.is_bounded = true;
    disk.room = 16384 + 9000;
    book_open();
    while (book.n_full == 0 || book.durable == book.last) {
        book_append(3);
        let_it_try();
    }
    uint64_t durable = book.durable;
    book_close();
    disk.room = 1 << 20;
    book_open();
    assert_in_range(book.n_read, durable, book.last);
    assert_int_equal(book.n_full, 0);
    book_append(10);
    book_await();
    book_close();
}

/* Fill it until the reserve is given up; then nothing waits. */
static void fill_up(size_t room, size_t reserve)
{
    use_bad_disk();
    disk.is_bounded = true;
    disk.room = room;
    book.options.reserve_size = reserve;
    book_open();
    while (book.n_full == 0) {
        book_append(10);
        book_await();
    }
}

static void batches_on_a_full_disk_share_a_segment(void **state)
{
    (void)state;
    fill_up(65536 + 131072 + 8192 + 3000, 131072); /* and a bit that no segment fits into */
    size_t n_segments = rota_journal_look(book.journal).n_segments;
    for (int i = 0; i < 30; i++) {
        book_append(3);
        book_await();
    }
    assert_true(rota_journal_look(book.journal).n_segments <= n_segments + 2);
    book_close();
}

static void a_smaller_segment_is_made_before_the_reserve_is_given_up(void **state)
{
    (void)state;
    use_bad_disk();
    disk.is_bounded = true;
    book.options.reserve_size = 131072;
    disk.room = 65536 + 131072 + 8192 + 40000;
    book_open();
    while (rota_journal_look(book.journal).n_segments == 1) {
        book_append(3);
        book_await();
    }
    struct rota_journal_view view = rota_journal_look(book.journal);
    assert_true(view.has_reserve);
    assert_true(view.n_left < 65536 / 2);
    assert_int_equal(book.n_full, 0);
    book_close();
}

static void a_segment_that_is_left_is_cut_to_what_it_holds(void **state)
{
    char path[512];
    struct stat status;
    (void)state;
    write_records(10);
    path_of(1, path);
    assert_int_equal(stat(path, &status), 0);
    off_t whole = status.st_size;
    write_records(2000);
    assert_int_equal(stat(path, &status), 0);
    assert_true(status.st_size < whole);
    book_open();
    assert_int_equal(book.n_read, book.last);
    assert_true(rota_journal_look(book.journal).n_segments > 2);
    book_close();
}

static void damage_in_a_large_last_batch_is_not_a_torn_end(void **state)
{
    struct stat status;
    char path[512];
    (void)state;
    book_open();
    size_t size = rota_journal_look(book.journal).segment_size;
    while (rota_journal_look(book.journal).n_waiting_bytes <= size)
        book_append(10); /* one batch, for which there must be a segment of its own */
    book_await();
    book_close();
    path_of(2, path);
    assert_int_equal(stat(path, &status), 0);
    change_byte(2, status.st_size / 2, 1);
    assert_refused(ROTA_ERR_INVALID, "damaged");
}

static void sealed_records_are_a_separate_batch(void **state)
{
    (void)state;
    book_open();
    uint64_t before = rota_journal_look(book.journal).n_batches;
    rota_journal_seal(book.journal); /* of nothing */
    for (int i = 0; i < 3; i++) {
        book_append(5);
        rota_journal_seal(book.journal);
    }
    assert_true(rota_journal_look(book.journal).has_sealed);
    book_append(5); /* the third could not be sealed: these are with it */
    book_await();
    assert_int_equal(rota_journal_look(book.journal).n_batches, before + 3);
    assert_false(rota_journal_look(book.journal).has_sealed);
    book_append(5);
    rota_journal_seal(book.journal);
    book_append(5);
    book_close(); /* all of it is written */
    uint64_t last = book.last;
    book_open();
    assert_int_equal(book.n_read, last);
    book_close();
}

static void segments_are_deleted_only_when_earlier_sealed_records_are_on_disk(void **state)
{
    (void)state;
    fill_up(65536 + 131072 + 8192, 131072);
    struct rota_journal_view view = rota_journal_look(book.journal);
    assert_true(view.n_segments > 1);
    book_append(400); /* which is more than there is room for */
    rota_journal_seal(book.journal);
    book_append(5);
    rota_journal_drop_below(book.journal, view.edge);
    let_it_try();
    assert_int_equal(rota_journal_look(book.journal).n_segments, view.n_segments);
    disk.room += 1 << 20;
    book_await();
    while (rota_journal_look(book.journal).old[0].end == view.old[0].end)
        uv_run(&loop, UV_RUN_ONCE);
    book_close();
}

static void room_is_made_without_the_reserve(void **state)
{
    (void)state;
    use_bad_disk();
    disk.is_bounded = true;
    book.options.reserve_size = 131072;
    disk.room = 65536 + 131072 + 8192 + 20000;
    book_open();
    book_append(10);
    book_await();
    rota_journal_make_room(book.journal, 70000);
    for (size_t n = 0; n < 50; n++) /* there is nothing to wait for: it must not come */
        uv_run(&loop, UV_RUN_NOWAIT);
    book_append(10);
    book_await();
    struct rota_journal_view view = rota_journal_look(book.journal);
    assert_int_equal(view.n_segments, 1);
    assert_true(view.has_reserve);
    disk.room += 60000;
    rota_journal_make_room(book.journal, 70000);
    while (rota_journal_look(book.journal).n_segments == 1)
        uv_run(&loop, UV_RUN_ONCE);
    view = rota_journal_look(book.journal);
    assert_true(view.n_left >= 70000);
    assert_int_equal(view.edge, book.last + 1);
    book_append(10);
    book_await();
    book_close();
    uint64_t last = book.last;
    book_open();
    assert_int_equal(book.n_read, last);
    book_close();
}

static size_t n_stuck, n_going_on;

static void count_line(void *data, struct rota_str line)
{
    char text[ROTA_LOG_LINE_MAX + 1];
    (void)data;
    snprintf(text, sizeof text, "%.*s", (int)line.size, line.data);
    n_stuck += strstr(text, "level=error msg=\"journal stalled\"") != NULL;
    n_going_on += strstr(text, "level=info msg=\"journal recovered\"") != NULL;
}

static void a_batch_that_fits_nowhere_is_reported_once_and_when_it_fits(void **state)
{
    static const struct rota_log log = {.level = ROTA_LOG_INFO, .write = count_line};
    (void)state;
    n_stuck = n_going_on = 0;
    book.options.log = &log;
    fill_up(65536 + 131072 + 8192, 131072);
    assert_int_equal(n_stuck, 0);
    while (book.durable == book.last) {
        book_append(100);
        let_it_try();
    }
    let_it_try();
    assert_int_equal(n_stuck, 1);
    assert_int_equal(n_going_on, 0);
    disk.room += 1 << 20;
    book_await();
    assert_int_equal(n_stuck, 1);
    assert_int_equal(n_going_on, 1);
    book_close();
}

static void jobs_that_are_refused_for_room_make_a_disk_full(void **state)
{
    (void)state;
    book_open();
    rota_journal_set_short(book.journal, true);
    assert_int_equal(book.n_full, 1);
    assert_non_null(strstr(book.why, "the disk is full"));
    book_append(3);
    book_await();
    assert_int_equal(book.n_room, 0);
    rota_journal_set_short(book.journal, false);
    await(&loop, &book.n_room, 1);
    book_close();
}

static void a_new_journal_needs_room(void **state)
{
    (void)state;
    use_bad_disk();
    disk.is_bounded = true;
    disk.room = 20;
    assert_refused(ROTA_ERR_LIMIT, "no space left");
}

static void without_allocation_it_does_as_well(void **state)
{
    (void)state;
    use_bad_disk();
    disk.no_allocate = true;
    write_records(400);
    book_open();
    assert_int_equal(book.n_read, 400);
    assert_true(rota_journal_look(book.journal).n_segments > 1);
    book_close();
}

/* Closing is allowed from each of the callbacks. */
static void on_failed_close(void *data, const struct rota_error *error)
{
    (void)error;
    rota_journal_close(((struct book *)data)->journal, book_on_closed, data);
}

static void on_durable_close(void *data, uint64_t number)
{
    (void)number;
    rota_journal_close(((struct book *)data)->journal, book_on_closed, data);
}

static void it_may_be_closed_from_its_callbacks(void **state)
{
    struct rota_journal_options options = {.directory = book.directory, .data = &book};
    struct rota_work_record record = book_record(1);
    (void)state;
    use_bad_disk();
    options.disk = &bad_disk;
    options.segment_size = 65536;
    options.on_failed = on_failed_close;
    options.on_durable = on_durable_close;
    assert_int_equal(rota_journal_open(&loop, &options, &book.journal, &book.error), ROTA_OK);
    assert_int_equal(rota_journal_append(book.journal, &record, NULL), ROTA_OK);
    await(&loop, &book.n_closed, 1);
    assert_int_equal(rota_journal_open(&loop, &options, &book.journal, &book.error), ROTA_OK);
    disk.fail_sync = EIO;
    record = book_record(2);
    assert_int_equal(rota_journal_append(book.journal, &record, NULL), ROTA_OK);
    await(&loop, &book.n_closed, 2);
}

/* Many batches while the loop appends: for ThreadSanitizer. */
static void batches_gather_while_others_are_written(void **state)
{
    (void)state;
    book_open();
    for (int i = 0; i < 2000; i++) {
        book_append(1 + (size_t)i % 5);
        if (i % 100 == 0)
            rota_journal_drop_below(book.journal, rota_journal_look(book.journal).edge);
        uv_run(&loop, UV_RUN_NOWAIT);
    }
    book_await();
    assert_true(rota_journal_look(book.journal).n_batches > 1);
    uint64_t last = book.last;
    book_close();
    book_open();
    assert_int_equal(book.last_read, last);
    book_close();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(durable_records_are_read_again),
        TEST(records_of_one_turn_are_one_batch),
        TEST(lazy_records_are_written_with_urgent_ones),
        TEST(lazy_records_are_written_eventually),
        TEST(closing_writes_pending_records),
        TEST(segments_follow_each_other_and_old_ones_are_deleted),
        TEST(a_large_record_has_a_segment_that_is_large_enough),
        TEST(a_second_process_learns_which_process_has_the_journal),
        TEST(a_torn_end_is_cut_and_written_over),
        TEST(damage_is_refused_and_repair_skips_it),
        TEST(numbers_that_were_lost_are_not_used_again),
        TEST(a_missing_segment_is_refused),
        TEST(a_last_segment_that_is_emptied_is_refused),
        TEST(a_journal_that_was_emptied_is_not_a_new_one),
        TEST(segments_that_were_dropped_are_not_missed),
        TEST(a_journal_without_a_range_is_read_and_given_one),
        TEST(a_range_that_is_something_else_is_refused),
        TEST(a_newer_version_is_refused),
        TEST(an_end_that_was_cut_after_a_close_is_noticed),
        TEST(a_cut_within_a_record_after_a_close_is_noticed),
        TEST(an_end_is_void_once_the_journal_is_open_again),
        TEST(nothing_is_added_to_a_segment_of_an_earlier_version),
        TEST(a_foreign_file_is_refused),
        TEST(journal_readable_by_other_users_is_refused),
        TEST(repair_touches_nothing_where_no_journal_is),
        TEST(repair_of_an_empty_directory_is_refused),
        TEST(files_of_another_user_are_refused),
        TEST(interrupts_and_short_writes_are_retried),
        TEST(a_sync_that_fails_ends_it),
        TEST(a_write_that_fails_ends_it),
        TEST(failed_removals_of_segments_are_reported_and_retried),
        TEST(failing_to_create_a_segment_ends_the_journal),
        TEST(zeros_written_ahead_are_ignored),
        TEST(a_full_disk_loses_nothing_and_writing_continues_when_there_is_room),
        TEST(a_journal_closed_on_a_full_disk_keeps_acknowledged_records),
        TEST(batches_on_a_full_disk_share_a_segment),
        TEST(a_smaller_segment_is_made_before_the_reserve_is_given_up),
        TEST(a_segment_that_is_left_is_cut_to_what_it_holds),
        TEST(damage_in_a_large_last_batch_is_not_a_torn_end),
        TEST(sealed_records_are_a_separate_batch),
        TEST(segments_are_deleted_only_when_earlier_sealed_records_are_on_disk),
        TEST(room_is_made_without_the_reserve),
        TEST(a_batch_that_fits_nowhere_is_reported_once_and_when_it_fits),
        TEST(jobs_that_are_refused_for_room_make_a_disk_full),
        TEST(a_new_journal_needs_room),
        TEST(without_allocation_it_does_as_well),
        TEST(it_may_be_closed_from_its_callbacks),
        TEST(batches_gather_while_others_are_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
