#include "io/journal/journal_files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { AHEAD = ROTA_JOB_FORESEEN + 8 }; /* records */

struct reading {
    struct rota_journal_files *files;
    const struct rota_journal_files_options *options;
    struct rota_error *error;
    ROTA_VECTOR(uint64_t) indexes; /* of the segments, in order */
    char *bytes;                   /* of the segment that is read */
    size_t size, capacity;
    struct rota_journal_reader reader;
};

/* --- which segments there are --- */

/* NNN.journal: at least eight digits, and only as many leading zeros as needed. */
static bool parse_name(const char *name, uint64_t *index)
{
    char again[64];
    char *end;
    if (name[0] < '0' || name[0] > '9')
        return false;
    errno = 0;
    unsigned long long value = strtoull(name, &end, 10);
    snprintf(again, sizeof again, "%08llu.journal", value);
    if (errno || value == 0 || strcmp(name, again) != 0)
        return false;
    *index = value;
    return true;
}

static int compare_numbers(const void *a, const void *b)
{
    uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;
    return (left > right) - (left < right);
}

static enum rota_code list_segments(struct reading *reading)
{
    const char *directory = reading->files->directory;
    DIR *entries = opendir(directory);
    enum rota_code code = ROTA_OK;
    if (!entries)
        return rota_journal_files_refuse(directory, "cannot be listed", reading->error);
    for (struct dirent *entry; !code && (entry = readdir(entries));) {
        uint64_t index;
        if (!parse_name(entry->d_name, &index))
            continue;
        if (reading->indexes.size == ROTA_JOURNAL_SEGMENTS_MAX)
            code = rota_error_set(reading->error, ROTA_ERR_LIMIT, "%s: more than %d segments",
                                  directory, ROTA_JOURNAL_SEGMENTS_MAX);
        else if (!rota_vector_push(&reading->indexes, index))
            code = rota_error_no_memory(reading->error, "to list %s", directory);
    }
    closedir(entries);
    if (!code && reading->indexes.size > 0)
        qsort(reading->indexes.items, reading->indexes.size, sizeof *reading->indexes.items,
              compare_numbers);
    return code;
}

/* --- whether all are there --- */

static enum rota_code refuse_missing(struct reading *reading, uint64_t index)
{
    const struct rota_journal_files *files = reading->files;
    char path[ROTA_JOURNAL_PATH_MAX], range[ROTA_JOURNAL_PATH_MAX];
    rota_journal_files_path(files, index, path);
    rota_journal_files_path_of(files, "range", range);
    if (files->is_range_torn)
        return rota_error_set(reading->error, ROTA_ERR_INVALID,
                              "%s: damaged at byte 0 or 4096, or %s is missing; restore the "
                              "directory from a backup, or repair it with `rotad --repair`",
                              range, path);
    return rota_error_set(
        reading->error, ROTA_ERR_INVALID,
        "%s: is missing (%" PRIu64 " of %" PRIu64
        " segments are); put the missing files back, restore the directory from a backup, or "
        "repair it with `rotad --repair`, which loses the missing records",
        path, files->n_missing, files->range.last - files->range.lowest + 1);
}

static bool has_file(const struct rota_journal_files *files, const char *name)
{
    char path[ROTA_JOURNAL_PATH_MAX];
    struct stat status;
    return lstat(rota_journal_files_path_of(files, name, path), &status) == 0;
}

/* A journal without any record. ROTA_OK if it is a new one: there is a segment with records before
 * there is a reserve, or a record in the lock. */
static enum rota_code refuse_emptied(struct reading *reading, uint64_t index, const char *what)
{
    const struct rota_journal_files *files = reading->files;
    char path[ROTA_JOURNAL_PATH_MAX], known[64] = "there is a `reserve`";
    if (files->had == 0 && !has_file(files, "reserve"))
        return ROTA_OK;
    if (files->had > 0)
        snprintf(known, sizeof known, "`lock` names record %" PRIu64, files->had);
    return rota_error_set(
        reading->error, ROTA_ERR_INVALID,
        "%s: %s, and no other file has a record, but %s: the journal had records; put all "
        "*.journal files back, restore the directory from a backup, start with "
        "an empty directory, or start empty here with `rotad --repair`",
        rota_journal_files_path(files, index, path), what, known);
}

/* No segment has to be there. */
static enum rota_code check_reserve(struct reading *reading)
{
    const struct rota_journal_files *files = reading->files;
    bool repair = reading->options->repair, has_reserve = has_file(files, "reserve");
    if (repair && reading->indexes.size == 0 && !has_reserve && !has_file(files, "range"))
        return rota_error_set(reading->error, ROTA_ERR_NOT_FOUND,
                              "%s: there is no journal to repair here; a node's journal is in the "
                              "directory `jobs` of its data directory",
                              files->directory);
    return reading->indexes.size > 0 || repair ? ROTA_OK : refuse_emptied(reading, 1, "is missing");
}

/* The segments that the range names must exist; there may be others below and above. */
static enum rota_code check_range(struct reading *reading)
{
    struct rota_journal_files *files = reading->files;
    const struct rota_journal_range *range = &files->range;
    uint64_t n_there = 0, missing = range->lowest;
    if (range->sequence == 0)
        return check_reserve(reading);
    for (size_t i = 0; i < reading->indexes.size; i++) {
        uint64_t index = reading->indexes.items[i];
        n_there += index >= range->lowest && index <= range->last;
        missing += index == missing;
    }
    files->n_missing = range->last - range->lowest + 1 - n_there;
    return files->n_missing > 0 && !reading->options->repair ? refuse_missing(reading, missing)
                                                             : ROTA_OK;
}

/* For segments missing before all others, the number of their records is known. */
static void count_missing(struct reading *reading)
{
    struct rota_journal_files *files = reading->files;
    const struct rota_journal_range *range = &files->range;
    const struct rota_journal_part *part = files->parts.items;
    if (files->n_missing > 0 && files->parts.size > 0 && part->index > range->lowest &&
        part->first > range->first)
        files->n_lost += part->first - range->first;
}

/* --- the bytes of one --- */

static enum rota_code read_bytes(struct reading *reading, int fd, const char *path)
{
    size_t at = 0;
    while (at < reading->size) {
        ssize_t n = pread(fd, reading->bytes + at, reading->size - at, (off_t)at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return rota_journal_files_refuse(path, "cannot be read", reading->error);
        if (n == 0)
            reading->size = at; /* it has shrunk */
        at += (size_t)n;
    }
    return ROTA_OK;
}

/* Whether an open segment may be read; fills the size. */
static enum rota_code check_segment(struct reading *reading, int fd, const char *path)
{
    struct stat status;
    if (fstat(fd, &status) != 0)
        return rota_journal_files_refuse(path, "cannot be examined", reading->error);
    if (!S_ISREG(status.st_mode))
        return rota_error_set(reading->error, ROTA_ERR_INVALID, "%s: is not a file", path);
    if (reading->files->is_open && status.st_mode & (S_IROTH | S_IWOTH))
        return rota_error_set(reading->error, ROTA_ERR_INVALID,
                              "%s: other users can %s the jobs in it (mode %04o); run chmod 600 %s",
                              path, status.st_mode & S_IROTH ? "read" : "change",
                              (unsigned)status.st_mode & 07777, path);
    if (status.st_uid != geteuid() && geteuid() == 0)
        return rota_error_set(reading->error, ROTA_ERR_INVALID,
                              "%s: belongs to user %u, but this process runs as root: run it as "
                              "that user, because it cannot read files that root writes here",
                              path, (unsigned)status.st_uid);
    if (status.st_size > ROTA_JOURNAL_SEGMENT_MAX)
        return rota_error_set(reading->error, ROTA_ERR_LIMIT,
                              "%s: has %lld bytes, more than the %d of a segment", path,
                              (long long)status.st_size, ROTA_JOURNAL_SEGMENT_MAX);
    reading->size = (size_t)status.st_size;
    return ROTA_OK;
}

static enum rota_code read_whole(struct reading *reading, int fd, const char *path)
{
    if (reading->size > reading->capacity) {
        free(reading->bytes);
        reading->bytes = malloc(reading->size);
        reading->capacity = reading->bytes ? reading->size : 0;
    }
    if (reading->size > 0 && !reading->bytes)
        return rota_error_set(reading->error, ROTA_ERR_NO_MEMORY,
                              "%s: not enough memory for %zu bytes", path, reading->size);
    return read_bytes(reading, fd, path);
}

static enum rota_code load_segment(struct reading *reading, const char *path, bool is_read)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return rota_journal_files_refuse(path, "cannot be opened", reading->error);
    enum rota_code code = check_segment(reading, fd, path);
    if (!code && is_read)
        code = read_whole(reading, fd, path);
    close(fd);
    return code;
}

enum rota_code rota_journal_read_files_check(const char *directory, struct rota_error *error)
{
    struct rota_journal_files files = {0};
    struct reading reading = {.files = &files, .error = error};
    char path[ROTA_JOURNAL_PATH_MAX];
    if (access(directory, F_OK) != 0)
        return ROTA_OK;
    if (!(files.directory = strdup(directory)))
        return rota_error_no_memory(error, "to check %s", directory);
    enum rota_code code = rota_journal_files_check_directory(&files, error);
    if (!code)
        code = list_segments(&reading);
    for (size_t i = 0; !code && i < reading.indexes.size; i++)
        code = load_segment(&reading,
                            rota_journal_files_path(&files, reading.indexes.items[i], path), false);
    rota_vector_deinit(&reading.indexes);
    free(files.directory);
    return code;
}

/* --- content --- */

static enum rota_code refuse_damage(struct reading *reading, const char *path)
{
    const struct rota_journal_reader *reader = &reading->reader;
    return rota_error_set(reading->error, ROTA_ERR_INVALID,
                          "%s: damaged at byte %zu, after record %" PRIu64
                          ": %s; restore the directory from a backup, or repair it with `rotad "
                          "--repair`, which loses the damaged records",
                          path, reader->at, reader->next ? reader->next - 1 : 0, reader->why);
}

static enum rota_code refuse_newer(struct reading *reading, const char *path)
{
    return rota_error_set(
        reading->error, ROTA_ERR_INVALID,
        "%s: written by a newer version of Rota: %s; nothing is damaged, use that "
        "version or a later one",
        path, reading->reader.why);
}

/* Announce jobs some records ahead. */
static void look_ahead(struct reading *reading)
{
    struct rota_job_id id;
    int n = reading->reader.ahead <= reading->reader.at ? AHEAD : 1;
    while (n-- > 0 && rota_journal_segment_reader_foresee(&reading->reader, &id))
        reading->options->on_ahead(reading->options->data, id);
}

/* Read the records of a segment; `*found` says how it ended. */
static enum rota_code read_records(struct reading *reading, const char *path, bool is_last,
                                   enum rota_journal_found *found)
{
    struct rota_journal_reader *reader = &reading->reader;
    struct rota_work_record record;
    *found = rota_journal_segment_reader_open(reader, rota_str_of(reading->bytes, reading->size),
                                              is_last);
    for (;;) {
        if (*found == ROTA_JOURNAL_NEWER)
            return refuse_newer(reading, path);
        if (*found == ROTA_JOURNAL_END || *found == ROTA_JOURNAL_TORN)
            return ROTA_OK;
        if (*found == ROTA_JOURNAL_DAMAGED) {
            if (!reading->options->repair)
                return refuse_damage(reading, path);
            if (!rota_journal_segment_reader_pass_over(reader))
                return ROTA_OK;
        }
        if (reading->options->on_ahead)
            look_ahead(reading);
        *found = rota_journal_segment_reader_next(reader, &record);
        if (*found != ROTA_JOURNAL_FINE)
            continue;
        reading->files->n_records++;
        reading->files->last = record.number;
        enum rota_code code =
            reading->options->on_record
                ? reading->options->on_record(reading->options->data, &record, reading->error)
                : ROTA_OK;
        if (code)
            return code;
    }
}

/* The end of the last segment was never acknowledged: truncate it, durably. */
static enum rota_code cut_segment(struct reading *reading, const char *path, size_t used)
{
    struct rota_journal_files *files = reading->files;
    files->n_cut_bytes = reading->size - used;
    files->cut_at = used;
    snprintf(files->cut_path, sizeof files->cut_path, "%s", strrchr(path, '/') + 1);
    while (files->n_cut_bytes > 0 && reading->bytes[used + files->n_cut_bytes - 1] == 0)
        files->n_cut_bytes--;
    if (files->disk->truncate(files->disk->data, files->fd, (off_t)used))
        return rota_journal_files_refuse(path, "cannot be truncated", reading->error);
    files->size = used;
    if (rota_journal_files_sync(files, files->fd))
        return rota_journal_files_refuse(path, "cannot be synced", reading->error);
    return ROTA_OK;
}

/* A journal that was closed cleanly has lost its end since then, unless it is complete. */
static enum rota_code check_end(struct reading *reading, const char *path)
{
    struct rota_journal_files *files = reading->files;
    uint64_t next = reading->reader.next, ended = files->range.ended;
    if (ended == 0 || next >= ended)
        return ROTA_OK;
    if (reading->options->repair) {
        reading->reader.n_lost += ended - next;
        return ROTA_OK;
    }
    return rota_error_set(reading->error, ROTA_ERR_INVALID,
                          "%s: ends at byte %zu with record %" PRIu64
                          ", but the journal was closed after record %" PRIu64
                          "; restore the directory from a backup, or open it without these records "
                          "with `rotad --repair`",
                          path, reading->reader.at, next - 1, ended - 1);
}

/* Continue after the last record of the last segment. */
static enum rota_code continue_segment(struct reading *reading, const char *path,
                                       enum rota_journal_found found)
{
    struct rota_journal_files *files = reading->files;
    const struct rota_journal_reader *reader = &reading->reader;
    enum rota_code code = ROTA_OK;
    size_t used = reader->at;
    files->fd = files->disk->open(files->disk->data, path);
    if (files->fd < 0)
        return rota_journal_files_refuse(path, "cannot be opened for writing", reading->error);
    files->size = reading->size;
    if (found == ROTA_JOURNAL_TORN)
        code = cut_segment(reading, path, used);
    if (code)
        return code;
    size_t from = reader->batch_at ? reader->batch_at : 0;
    struct rota_str again = {reading->bytes + from, used - from};
    if (rota_journal_files_put(files, files->fd, again, from) ||
        rota_journal_files_sync(files, files->fd))
        return rota_journal_files_refuse(path, "cannot be written", reading->error);
    if (files->size < files->segment_size &&
        rota_journal_files_allocate(files, files->fd, files->segment_size) == 0)
        files->size = files->segment_size;
    return ROTA_OK;
}

/* There is a segment, but none contains anything of a journal: the damaged files may be another
 * program's. */
static bool is_foreign(const struct reading *reading)
{
    return reading->reader.n_lost_bytes > 0 ||
           !rota_journal_segment_may_begin(rota_str_of(reading->bytes, reading->size));
}

static enum rota_code read_segment(struct reading *reading, size_t place)
{
    struct rota_journal_files *files = reading->files;
    struct rota_journal_reader *reader = &reading->reader;
    char path[ROTA_JOURNAL_PATH_MAX];
    enum rota_journal_found found;
    uint64_t index = reading->indexes.items[place];
    bool is_last = place + 1 == reading->indexes.size;
    struct rota_journal_part part = {.index = index};
    rota_journal_files_path(files, index, path);
    if (reader->index == 0)
        reader->index = index;
    enum rota_code code = load_segment(reading, path, true);
    if (!code)
        code = read_records(reading, path, is_last, &found);
    if (code)
        return code;
    files->index = index + 1;
    if (is_last && !reader->has_seal && is_foreign(reading))
        return rota_error_set(
            reading->error, ROTA_ERR_INVALID,
            "%s is not a journal, and the directory has no other; restore the directory from a "
            "backup, or move it elsewhere to start without jobs (nothing was changed)",
            path);
    if (is_last && found == ROTA_JOURNAL_TORN && reader->at == 0) { /* its head: it holds nothing */
        bool was_whole = files->range.sequence && index <= files->range.last;
        if (was_whole && !reading->options->repair)
            return refuse_damage(reading, path);
        if (!reader->has_seal && !reading->options->repair)
            code = refuse_emptied(reading, index, "is empty");
        if (code)
            return code;
        files->n_missing += was_whole;
        if (files->disk->unlink(files->disk->data, path))
            return rota_journal_files_refuse(path, "cannot be removed", reading->error);
        files->index = index;
        return ROTA_OK;
    }
    part.first = reader->first;
    part.used = reader->at;
    part.size = reading->size;
    if (!rota_vector_push(&files->parts, part))
        return rota_error_set(reading->error, ROTA_ERR_NO_MEMORY, "%s: not enough memory", path);
    bool has_all = !is_last || reader->next >= files->range.ended;
    code = is_last ? check_end(reading, path) : ROTA_OK;
    /* Nothing is written after damage, nor in the format of an earlier version. */
    if (!code && is_last && has_all && reader->n_lost_bytes == 0)
        code = continue_segment(reading, path, found);
    if (!code && files->fd >= 0 && reader->version < ROTA_JOURNAL_VERSION) {
        close(files->fd);
        files->fd = -1;
    }
    return code;
}

/* The numbers of lost records at the end are not reused: a FORGET of no job, which has no
 * effect, says where they continue. */
static enum rota_code tell_last(struct reading *reading)
{
    struct rota_journal_files *files = reading->files;
    uint64_t next = reading->reader.next;
    struct rota_str none = rota_str_of("", 0);
    struct rota_work_record record = {.type = ROTA_WORK_FORGET, .number = next - 1};
    if (next <= 1 || files->last == next - 1)
        return ROTA_OK;
    files->last = next - 1;
    record.queue = record.key = record.worker = record.reason = record.bytes = none;
    return reading->options->on_record
               ? reading->options->on_record(reading->options->data, &record, reading->error)
               : ROTA_OK;
}

enum rota_code rota_journal_read_files(struct rota_journal_files *files,
                                       const struct rota_journal_files_options *options,
                                       struct rota_error *error)
{
    struct reading *reading = calloc(1, sizeof *reading);
    if (!reading)
        return rota_error_no_memory(error, "to read a journal");
    reading->files = files;
    reading->options = options;
    reading->error = error;
    rota_journal_segment_reader_init(&reading->reader);
    enum rota_code code = list_segments(reading);
    if (!code)
        code = rota_journal_files_range_read(files, options->repair, error);
    if (!code)
        code = check_range(reading);
    for (size_t i = 0; !code && i < reading->indexes.size; i++)
        code = read_segment(reading, i);
    if (!code)
        code = tell_last(reading);
    if (!code && reading->indexes.size > 0 &&
        files->disk->sync_directory(files->disk->data, files->directory))
        code = rota_journal_files_refuse(files->directory, "cannot be synced", error);
    files->has_id = reading->reader.has_seal;
    memcpy(files->id, reading->reader.id, sizeof files->id);
    files->n_lost = reading->reader.n_lost;
    files->n_lost_bytes = reading->reader.n_lost_bytes;
    count_missing(reading);
    rota_vector_deinit(&reading->indexes);
    free(reading->bytes);
    free(reading);
    return code;
}
