/* A run of a journal is noted, every call to the disk in its order and every number that
 * was told as durable. Then the machine crashes behind each of these calls, and in the
 * midst of it, in many ways; the disk is made as it would be, and opened:
 *
 * - every record that was told as durable before is there, in order and as it was;
 * - none is there that was not written;
 * - what was read is there still when the machine crashes once more right then.
 *
 * A file keeps what was written before its last sync; of what came later any sectors, or
 * none. A directory keeps names as of its last sync, and of later changes any that come
 * first. Plants show that each of the rules is needed. */
#include "base/buffer.h"
#include "journal_book.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { INODES_MAX = 256, NAMES_MAX = 32, SECTOR = 512 };

enum op_type { CREATE, ALLOCATE, TRUNCATE, WRITE, SYNC, SYNC_DIRECTORY, UNLINK, TOLD, DROPPED };

struct op {
    enum op_type type;
    char name[32]; /* of CREATE, UNLINK */
    int inode;
    size_t at, size;
    char *bytes;
    uint64_t number; /* of TOLD, DROPPED */
};

enum plant { NO_PLANT, LATE_SYNC, NO_DIRECTORY_SYNC, NO_SYNC_AT_OPEN, NO_CUT, NO_RANGE_SYNC };

struct notes {
    pthread_mutex_t lock; /* the journal's thread and the loop both note */
    ROTA_VECTOR(struct op) ops;
    int inodes[1024];     /* by fd */
    bool is_former[1024]; /* by fd: it was there before it was opened */
    off_t last_at[1024];  /* by fd: where it was written to last; 0: its head */
    int n_inodes;
    enum plant plant;
    bool is_opening;
};

static struct notes notes;

static char violation[256];

/* --- the disk that notes --- */

static const char *base_of(const char *path)
{
    return strrchr(path, '/') + 1;
}

static void note(struct op op)
{
    pthread_mutex_lock(&notes.lock);
    assert_true(rota_vector_push(&notes.ops, op));
    pthread_mutex_unlock(&notes.lock);
}

static struct op op_of(enum op_type type, const char *path)
{
    struct op op = {.type = type};
    if (path)
        snprintf(op.name, sizeof op.name, "%s", base_of(path));
    return op;
}

static int note_create(void *data, const char *path)
{
    int fd = rota_journal_disk_real.create(data, path);
    if (fd < 0)
        return -1;
    struct op op = op_of(CREATE, path);
    op.inode = notes.inodes[fd] = ++notes.n_inodes;
    notes.is_former[fd] = false;
    assert_true(notes.n_inodes < INODES_MAX);
    note(op);
    return fd;
}

/* Which inode a name has, by what was noted. */
static int inode_of(const char *name)
{
    int inode = 0;
    for (size_t i = 0; i < notes.ops.size; i++)
        if (strcmp(notes.ops.items[i].name, name) == 0)
            inode = notes.ops.items[i].type == CREATE ? notes.ops.items[i].inode : 0;
    return inode;
}

static int note_open(void *data, const char *path)
{
    int fd = rota_journal_disk_real.open(data, path);
    if (fd >= 0) {
        notes.inodes[fd] = inode_of(base_of(path));
        notes.is_former[fd] = true;
    }
    return fd;
}

static int note_allocate(void *data, int fd, off_t size)
{
    note((struct op){.type = ALLOCATE, .inode = notes.inodes[fd], .size = (size_t)size});
    return rota_journal_disk_real.allocate(data, fd, size);
}

static int note_truncate(void *data, int fd, off_t size)
{
    if (notes.plant == NO_CUT)
        return 0;
    note((struct op){.type = TRUNCATE, .inode = notes.inodes[fd], .size = (size_t)size});
    return rota_journal_disk_real.truncate(data, fd, size);
}

static bool is_all_zeros(const char *bytes, size_t size)
{
    return bytes[0] == 0 && memcmp(bytes, bytes + 1, size - 1) == 0;
}

/* Zeros that go ahead of the batches hide what was not cut, but nobody may rely on them. */
static ssize_t note_pwrite(void *data, int fd, const void *bytes, size_t size, off_t at)
{
    if (notes.plant == NO_CUT && is_all_zeros(bytes, size))
        return (ssize_t)size;
    struct op op = {.type = WRITE, .inode = notes.inodes[fd], .at = (size_t)at, .size = size};
    op.bytes = malloc(size);
    assert_non_null(op.bytes);
    memcpy(op.bytes, bytes, size);
    notes.last_at[fd] = at;
    note(op);
    return rota_journal_disk_real.pwrite(data, fd, bytes, size, at);
}

static int note_sync(void *data, int fd)
{
    (void)data;
    bool is_left_out = (notes.plant == LATE_SYNC && notes.last_at[fd] > 0) ||
                       (notes.plant == NO_RANGE_SYNC && notes.inodes[fd] == inode_of("range")) ||
                       (notes.plant == NO_SYNC_AT_OPEN && notes.is_opening && notes.is_former[fd]);
    if (!is_left_out)
        note((struct op){.type = SYNC, .inode = notes.inodes[fd]});
    return 0;
}

static int note_sync_directory(void *data, const char *path)
{
    (void)data;
    (void)path;
    if (notes.plant != NO_DIRECTORY_SYNC)
        note(op_of(SYNC_DIRECTORY, NULL));
    return 0;
}

static int note_unlink(void *data, const char *path)
{
    if (rota_journal_disk_real.unlink(data, path))
        return -1;
    note(op_of(UNLINK, path));
    return 0;
}

static const struct rota_journal_disk noting_disk = {
    .create = note_create,
    .open = note_open,
    .allocate = note_allocate,
    .truncate = note_truncate,
    .pwrite = note_pwrite,
    .sync = note_sync,
    .sync_directory = note_sync_directory,
    .unlink = note_unlink,
};

static void forget_notes(size_t from)
{
    for (size_t i = from; i < notes.ops.size; i++)
        free(notes.ops.items[i].bytes);
    notes.ops.size = from;
}

/* --- the run that is noted --- */

static void on_told(void *data, uint64_t number)
{
    book_on_durable(data, number);
    note((struct op){.type = TOLD, .number = number});
}

/* Records that are small, so that many fit into a segment. */
static struct rota_work_record small_record(uint64_t number)
{
    struct rota_work_record record = book_record(number);
    if (record.spec && record.spec->payload.size > 300)
        made.spec.payload.size = 300;
    return record;
}

static enum rota_code on_small_record(void *data, const struct rota_work_record *record,
                                      struct rota_error *error)
{
    struct book *at = data;
    struct rota_work_record original = small_record(record->number);
    if (!work_record_is_equal(&original, record) ||
        (at->last_read > 0 && record->number != at->last_read + 1))
        return rota_error_set(error, ROTA_ERR_INVALID, "record %llu is not what was written",
                              (unsigned long long)record->number);
    if (at->n_read++ == 0)
        at->last = record->number; /* the first one */
    at->last_read = record->number;
    return ROTA_OK;
}

static void append_small(size_t n)
{
    for (; n > 0; n--) {
        struct rota_work_record record = small_record(book.last + 1);
        assert_int_equal(rota_journal_append(book.journal, &record, NULL), ROTA_OK);
        book.last++;
    }
}

/* One life of a broker: batches, and now and then old segments that go. */
static void live(struct rota_random *chance, int n_batches)
{
    struct rota_journal_options options = book.options;
    options.directory = book.directory;
    options.disk = &noting_disk;
    options.on_record = on_small_record;
    options.on_durable = on_told;
    options.data = &book;
    book.n_read = book.last_read = 0;
    book.n_closed = 0;
    notes.is_opening = true;
    assert_int_equal(rota_journal_open(&loop, &options, &book.journal, &book.error), ROTA_OK);
    notes.is_opening = false;
    book.last = book.durable = rota_journal_look(book.journal).last;
    book.n_durable = (size_t)book.durable;
    for (int i = 0; i < n_batches; i++) {
        append_small(1 + (size_t)rota_random_below(chance, 6));
        struct rota_journal_view view = rota_journal_look(book.journal);
        if (view.n_segments > 3) {
            rota_journal_drop_below(book.journal, view.edge - 2);
            note((struct op){.type = DROPPED, .number = view.edge - 2});
        }
        if (rota_random_chance(chance, 0.8)) /* others gather while this one is written */
            book_await();
    }
    book_close();
}

static void note_run(uint64_t seed, enum plant plant)
{
    struct rota_random chance;
    rota_random_init(&chance, seed);
    notes.plant = plant;
    notes.n_inodes = 0;
    forget_notes(0);
    book_remove(book.directory);
    live(&chance, 20);
    live(&chance, 15);
}

/* --- the disk after a crash --- */

enum crash { NOTHING_MORE, ALL_OF_IT, TORN, ANY_SECTORS };

struct image {
    struct {
        struct rota_buffer now;
    } inodes[INODES_MAX];
    struct {
        char name[32];
        int inode;
    } names[NAMES_MAX];
    size_t n_names;
};

static struct image image;

static void resize(struct rota_buffer *buffer, size_t size)
{
    if (size > buffer->size) {
        size_t more = size - buffer->size;
        memset(rota_buffer_extend(buffer, more), 0, more);
    }
    buffer->size = size;
}

static void apply(struct rota_buffer *content, const struct op *op, size_t from, size_t to)
{
    if (op->type == ALLOCATE && op->size > content->size)
        resize(content, op->size);
    if (op->type == TRUNCATE)
        resize(content, op->size);
    if (op->type != WRITE || from >= to)
        return;
    if (op->at + to > content->size)
        resize(content, op->at + to);
    memcpy(content->data + op->at + from, op->bytes + from, to - from);
}

/* Sectors of the file, each by chance. */
static void apply_sectors(struct rota_buffer *content, const struct op *op,
                          struct rota_random *chance)
{
    for (size_t from = 0; from < op->size;) {
        size_t to = ((op->at + from) / SECTOR + 1) * SECTOR - op->at;
        to = to < op->size ? to : op->size;
        if (rota_random_chance(chance, 0.5))
            apply(content, op, from, to);
        from = to;
    }
}

static void change_names(const struct op *op)
{
    if (op->type == CREATE) {
        snprintf(image.names[image.n_names].name, 32, "%s", op->name);
        image.names[image.n_names++].inode = op->inode;
        assert_true(image.n_names < NAMES_MAX);
        return;
    }
    for (size_t i = 0; i < image.n_names; i++)
        if (strcmp(image.names[i].name, op->name) == 0)
            image.names[i] = image.names[--image.n_names];
}

/* What is on disk when the machine crashes behind the first `n` calls. */
static void make_image(size_t n, enum crash crash, size_t torn_at, struct rota_random *chance)
{
    size_t last_directory_sync = 0, last_sync[INODES_MAX] = {0};
    bool has_names = true;
    for (int i = 0; i < INODES_MAX; i++)
        rota_buffer_clear(&image.inodes[i].now);
    image.n_names = 0;
    for (size_t i = 0; i < n; i++) {
        if (notes.ops.items[i].type == SYNC)
            last_sync[notes.ops.items[i].inode] = i;
        if (notes.ops.items[i].type == SYNC_DIRECTORY)
            last_directory_sync = i;
    }
    for (size_t i = 0; i < n; i++) {
        const struct op *op = &notes.ops.items[i];
        bool is_name = op->type == CREATE || op->type == UNLINK;
        bool is_content = op->type == ALLOCATE || op->type == TRUNCATE || op->type == WRITE;
        struct rota_buffer *content = &image.inodes[op->inode].now;
        bool is_safe = is_name ? i < last_directory_sync : i < last_sync[op->inode];
        if (!is_name && !is_content)
            continue;
        if (!is_safe && crash == NOTHING_MORE)
            continue;
        if (is_name) {
            /* Of the changes to a directory those that came first. */
            if (!is_safe && crash == ANY_SECTORS && rota_random_chance(chance, 0.3))
                has_names = false;
            if (is_safe || has_names)
                change_names(op);
        } else if (is_safe || crash == ALL_OF_IT || (crash == TORN && i + 1 < n)) {
            apply(content, op, 0, op->size);
        } else if (crash == TORN) {
            apply(content, op, 0, op->type == WRITE && torn_at < op->size ? torn_at : op->size);
        } else if (op->type == WRITE) {
            apply_sectors(content, op, chance);
        } else if (rota_random_chance(chance, 0.5)) {
            apply(content, op, 0, op->size);
        }
    }
}

static size_t n_images;

static void write_image(void)
{
    char path[512];
    n_images++;
    book_remove(book.directory);
    assert_int_equal(mkdir(book.directory, 0700), 0);
    for (size_t i = 0; i < image.n_names; i++) {
        const struct rota_buffer *content = &image.inodes[image.names[i].inode].now;
        snprintf(path, sizeof path, "%s/%s", book.directory, image.names[i].name);
        int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
        assert_true(fd >= 0);
        assert_int_equal(write(fd, content->data ? content->data : "", content->size),
                         content->size);
        close(fd);
    }
}

/* --- what must hold --- */

static uint64_t number_before(size_t n, enum op_type type)
{
    uint64_t number = 0;
    for (size_t i = 0; i < n; i++)
        if (notes.ops.items[i].type == type && notes.ops.items[i].number > number)
            number = notes.ops.items[i].number;
    return number;
}

static struct rota_journal_files *reopen(void)
{
    struct rota_journal_files *files = NULL;
    struct rota_journal_files_options options = {
        .directory = book.directory,
        .segment_size = book.options.segment_size,
        .reserve_size = book.options.reserve_size,
        .disk = &noting_disk,
        .on_record = on_small_record,
        .data = &book,
    };
    book.n_read = book.last_read = book.last = 0;
    notes.is_opening = true;
    if (rota_journal_files_open(&options, &files, &book.error))
        snprintf(violation, sizeof violation, "not opened: %.200s", book.error.text);
    notes.is_opening = false;
    return files;
}

/* Open the image, and see that all up to `told` is there. */
static struct rota_journal_files *check(size_t n, uint64_t told, uint64_t dropped)
{
    struct rota_journal_files *files = reopen();
    if (!files)
        return NULL;
    if (book.last_read < told)
        snprintf(violation, sizeof violation, "behind call %zu: %llu of %llu that were told", n,
                 (unsigned long long)book.last_read, (unsigned long long)told);
    else if (book.n_read > 0 && book.last > (dropped ? dropped : 1))
        snprintf(violation, sizeof violation, "behind call %zu: begins with %llu", n,
                 (unsigned long long)book.last);
    return files;
}

static bool crash_at(size_t n, enum crash crash, size_t torn_at, struct rota_random *chance)
{
    size_t n_ops = notes.ops.size;
    int n_inodes = notes.n_inodes;
    uint64_t told = number_before(n, TOLD), dropped = number_before(n, DROPPED);
    make_image(n, crash, torn_at, chance);
    write_image();
    rota_journal_files_close(check(n, told, dropped));
    forget_notes(n_ops);
    notes.n_inodes = n_inodes;
    return violation[0] == '\0';
}

/* Write a batch as the journal does, and note that it was told. */
static void write_more(struct rota_journal_files *files, size_t n_records)
{
    static struct rota_journal_writer writer;
    struct rota_buffer batch = {0};
    uint64_t first = files->last + 1;
    rota_journal_segment_writer_init(&writer, files->id);
    for (size_t i = 0; i < n_records; i++) {
        struct rota_work_record record = small_record(++files->last);
        rota_journal_segment_write(&writer, &record, &batch);
    }
    assert_int_equal(rota_journal_files_write(files, rota_buffer_str(&batch), first, NULL), 0);
    note((struct op){.type = TOLD, .number = files->last});
    rota_buffer_deinit(&batch);
}

/* From here on the disk is what it is: everything that is on it is there permanently. */
static void note_image(void)
{
    for (size_t i = 0; i < image.n_names; i++) {
        const struct rota_buffer *content = &image.inodes[image.names[i].inode].now;
        struct op op = {.type = CREATE, .inode = image.names[i].inode};
        snprintf(op.name, sizeof op.name, "%s", image.names[i].name);
        note(op);
        struct op contents = {.type = WRITE, .inode = op.inode, .size = content->size};
        contents.bytes = malloc(content->size + 1);
        assert_non_null(contents.bytes);
        if (content->size > 0)
            memcpy(contents.bytes, content->data, content->size);
        note(contents);
        note((struct op){.type = SYNC, .inode = op.inode});
    }
    note(op_of(SYNC_DIRECTORY, NULL));
}

/* After a first crash behind call `n`, of the process alone (ALL_OF_IT: what it wrote is in
 * memory, synced or not) or of the machine, the next one reads what there is, writes a
 * little more, and then the machine crashes. */
static bool crash_twice(size_t n, enum crash crash, struct rota_random *chance)
{
    uint64_t told = number_before(n, TOLD), dropped = number_before(n, DROPPED);
    int n_inodes = notes.n_inodes;
    __typeof__(notes.ops) whole = notes.ops;
    size_t n_borrowed = crash == ALL_OF_IT ? n : 0;
    make_image(n, crash, 0, chance);
    write_image();
    memset(&notes.ops, 0, sizeof notes.ops);
    for (size_t i = 0; i < n_borrowed; i++)
        note(whole.items[i]);
    if (crash != ALL_OF_IT)
        note_image();
    struct rota_journal_files *files = check(n, told, dropped);
    uint64_t read = book.last_read;
    bool is_long = rota_random_chance(chance, 0.5);
    if (files && !violation[0] && is_long) {
        write_more(files, 1);
        write_more(files, 2);
        write_more(files, 30); /* more than is left of the segment */
    }
    rota_journal_files_close(files);
    if (!violation[0]) {
        uint64_t later = number_before(notes.ops.size, TOLD);
        told = later > read ? later : read;
        make_image(notes.ops.size, is_long ? ANY_SECTORS : NOTHING_MORE, 0, chance);
        write_image();
        rota_journal_files_close(check(n, told, dropped));
    }
    forget_notes(n_borrowed);
    rota_vector_deinit(&notes.ops);
    notes.ops = whole;
    notes.n_inodes = n_inodes;
    return violation[0] == '\0';
}

/* Whether a run outlives a crash at every place; `violation` says where it does not. */
static bool outlives(uint64_t seed, enum plant plant)
{
    struct rota_random chance;
    rota_random_init(&chance, seed);
    violation[0] = '\0';
    note_run(seed, plant);
    for (size_t n = 1; n <= notes.ops.size; n++) {
        const struct op last = notes.ops.items[n - 1];
        size_t step = last.size / 16 + 1;
        bool is_fine = crash_at(n, NOTHING_MORE, 0, &chance) && crash_at(n, ALL_OF_IT, 0, &chance);
        for (size_t at = 0; is_fine && last.type == WRITE && at < last.size; at += step)
            is_fine = crash_at(n, TORN, at, &chance);
        for (int i = 0; is_fine && i < 3; i++)
            is_fine = crash_at(n, ANY_SECTORS, 0, &chance);
        if (!is_fine || !crash_twice(n, ALL_OF_IT, &chance) ||
            !crash_twice(n, ANY_SECTORS, &chance))
            return false;
    }
    return true;
}

static int crash_set_up(void **state)
{
    int failed = book_set_up(state);
    book.options.segment_size = ROTA_JOURNAL_SEGMENT_MIN;
    book.options.reserve_size = ROTA_JOURNAL_SEGMENT_MIN;
    pthread_mutex_init(&notes.lock, NULL);
    return failed;
}

static void tidy(void)
{
    forget_notes(0);
    rota_vector_deinit(&notes.ops);
    for (int i = 0; i < INODES_MAX; i++)
        rota_buffer_deinit(&image.inodes[i].now);
}

/* A bit of a disk that was synced is another one: that is found, or it lies in what a
 * last batch holds, which can't be told from a torn end; never is it read as a record. */
static void a_flipped_bit_is_never_a_record(void **state)
{
    struct rota_random chance;
    size_t n_found = 0, n_tries = 2000;
    (void)state;
    rota_random_init(&chance, 5);
    note_run(5, NO_PLANT);
    size_t n_ops = notes.ops.size;
    for (size_t i = 0; i < n_tries; i++) {
        make_image(n_ops, ALL_OF_IT, 0, &chance);
        struct rota_buffer *content;
        do {
            size_t place = (size_t)rota_random_below(&chance, image.n_names);
            content = &image.inodes[image.names[place].inode].now;
        } while (content->size == 0);
        size_t at = (size_t)rota_random_below(&chance, content->size);
        content->data[at] ^= (char)(1 << rota_random_below(&chance, 8));
        write_image();
        violation[0] = '\0';
        rota_journal_files_close(reopen());
        if (violation[0] && !strstr(violation, "damaged at byte") &&
            !strstr(violation, "newer version"))
            fail_msg("%s", violation);
        n_found += violation[0] != '\0';
        forget_notes(n_ops);
        notes.n_inodes = INODES_MAX / 2;
    }
    assert_true(n_found > n_tries / 4);
    tidy();
}

static void acknowledged_records_survive_a_crash_at_every_call(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 4; seed++)
        if (!outlives(seed, NO_PLANT))
            fail_msg("seed %llu: %s", (unsigned long long)seed, violation);
    print_message("# %zu disks after a crash\n", n_images);
    tidy();
}

static void assert_caught(enum plant plant)
{
    uint64_t seed = 1;
    while (seed <= 5 && outlives(seed, plant))
        seed++;
    assert_true(seed <= 5);
    print_message("# caught: %s\n", violation);
    tidy();
}

static void plant_acknowledged_before_its_sync_is_caught(void **state)
{
    (void)state;
    assert_caught(LATE_SYNC);
}

static void plant_no_sync_of_the_directory_is_caught(void **state)
{
    (void)state;
    assert_caught(NO_DIRECTORY_SYNC);
}

static void plant_recovered_records_not_synced_is_caught(void **state)
{
    (void)state;
    assert_caught(NO_SYNC_AT_OPEN);
}

static void plant_a_torn_end_is_not_cut_is_caught(void **state)
{
    (void)state;
    assert_caught(NO_CUT);
}

static void plant_no_sync_of_the_range_is_caught(void **state)
{
    (void)state;
    assert_caught(NO_RANGE_SYNC);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, crash_set_up, book_tear_down)
    const struct CMUnitTest tests[] = {
        TEST(acknowledged_records_survive_a_crash_at_every_call),
        TEST(a_flipped_bit_is_never_a_record),
        TEST(plant_acknowledged_before_its_sync_is_caught),
        TEST(plant_no_sync_of_the_directory_is_caught),
        TEST(plant_recovered_records_not_synced_is_caught),
        TEST(plant_a_torn_end_is_not_cut_is_caught),
        TEST(plant_no_sync_of_the_range_is_caught),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
