#include "base/crc32c.h"
#include "io/journal_files.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The file has two places, written in turn: a write that is cut off leaves the other one. They
 * are so far apart that no disk has both in one sector. */
enum { PLACE = 4096, AT_SEQUENCE = 8, AT_LOWEST = 16, AT_LAST = 24, AT_FIRST = 32, AT_SUM = 40 };
enum { SIZE = 44, FILE_SIZE = PLACE + SIZE };

static const char magic[8] = "rotaRNGE";

/* --- bytes --- */

static void put_fixed(char *at, uint64_t value, int size)
{
    for (int i = 0; i < size; i++)
        at[i] = (char)(unsigned char)(value >> 8 * i);
}

static uint64_t get_fixed(const char *at, int size)
{
    uint64_t value = 0;
    for (int i = 0; i < size; i++)
        value |= (uint64_t)(unsigned char)at[i] << 8 * i;
    return value;
}

static uint32_t sum_of(const char *bytes)
{
    struct rota_crc32c crc;
    rota_crc32c_init(&crc);
    return rota_crc32c_add(&crc, 0, rota_str_of(bytes, AT_SUM));
}

static size_t place_of(uint64_t sequence)
{
    return sequence % 2 ? 0 : PLACE;
}

static void encode(const struct rota_journal_range *range, char bytes[SIZE])
{
    memcpy(bytes, magic, sizeof magic);
    put_fixed(bytes + AT_SEQUENCE, range->sequence, 8);
    put_fixed(bytes + AT_LOWEST, range->lowest, 8);
    put_fixed(bytes + AT_LAST, range->last, 8);
    put_fixed(bytes + AT_FIRST, range->first, 8);
    put_fixed(bytes + AT_SUM, sum_of(bytes), 4);
}

/* What stands at `place` of the file; false when that is nothing we wrote there. */
static bool decode(const char *file, size_t place, struct rota_journal_range *range)
{
    const char *bytes = file + place;
    if (memcmp(bytes, magic, sizeof magic) != 0 || get_fixed(bytes + AT_SUM, 4) != sum_of(bytes))
        return false;
    *range = (struct rota_journal_range){
        .sequence = get_fixed(bytes + AT_SEQUENCE, 8),
        .lowest = get_fixed(bytes + AT_LOWEST, 8),
        .last = get_fixed(bytes + AT_LAST, 8),
        .first = get_fixed(bytes + AT_FIRST, 8),
    };
    return range->sequence > 0 && range->sequence < UINT64_MAX &&
           place_of(range->sequence) == place && range->lowest > 0 &&
           range->lowest <= range->last && range->last - range->lowest < ROTA_JOURNAL_SEGMENTS_MAX;
}

static bool is_blank(const char *bytes)
{
    static const char zeros[SIZE];
    return memcmp(bytes, zeros, SIZE) == 0;
}

/* The first write of all may have been cut off: it begins as it should, as far as it came. */
static bool is_being_made(const char *file)
{
    size_t i = 0;
    while (i < sizeof magic && file[i] == magic[i])
        i++;
    while (i < sizeof magic && file[i] == 0)
        i++;
    return i == sizeof magic && is_blank(file + PLACE);
}

/* --- reading --- */

/* Read what there is, the rest of `file` is zeros; -1 with errno, 0 for what is no file. */
static int load(const char *path, char file[FILE_SIZE])
{
    struct stat status;
    size_t at = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return -1;
    bool is_file = fstat(fd, &status) == 0 && S_ISREG(status.st_mode);
    memset(file, 0, FILE_SIZE);
    while (is_file && at < FILE_SIZE) {
        ssize_t n = pread(fd, file + at, FILE_SIZE - at, (off_t)at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            int why = errno;
            close(fd);
            errno = why;
            return -1;
        }
        if (n == 0)
            break;
        at += (size_t)n;
    }
    close(fd);
    return is_file;
}

static enum rota_code refuse_damage(const char *path, struct rota_error *error)
{
    return rota_error_set(error, ROTA_ERR_INVALID,
                          "%s: damaged at byte 0: it does not tell which segments there are; "
                          "restore the directory from a backup, or do without it with `rota "
                          "broker --repair`",
                          path);
}

enum rota_code rota_journal_range_read(struct rota_journal_files *files, bool repair,
                                       struct rota_error *error)
{
    char path[ROTA_JOURNAL_PATH_MAX], file[FILE_SIZE];
    struct rota_journal_range one = {0}, other = {0};
    rota_journal_files_path_of(files, "range", path);
    int is_file = load(path, file);
    if (is_file < 0 && errno == ENOENT)
        return ROTA_OK;
    if (is_file < 0 && errno != ELOOP && !repair)
        return rota_journal_files_refuse(path, "can't be read", error);
    bool has_one = is_file > 0 && decode(file, 0, &one);
    bool has_other = is_file > 0 && decode(file, PLACE, &other);
    if (!has_one && !has_other) {
        files->has_bad_range = is_file <= 0 || !is_being_made(file);
        return files->has_bad_range && !repair ? refuse_damage(path, error) : ROTA_OK;
    }
    bool is_one = has_one && (!has_other || one.sequence > other.sequence);
    files->range = is_one ? one : other;
    files->is_range_torn = (!has_one && !is_blank(file)) || (!has_other && !is_blank(file + PLACE));
    return ROTA_OK;
}

/* --- writing --- */

static int write_to(struct rota_journal_files *files, int fd,
                    const struct rota_journal_range *range)
{
    char bytes[SIZE];
    bool is_new = files->range.sequence == 0;
    encode(range, bytes);
    if (is_new && rota_journal_files_allocate(files, fd, FILE_SIZE))
        return -1;
    if (rota_journal_files_put(files, fd, rota_str_of(bytes, SIZE), place_of(range->sequence)) ||
        rota_journal_files_sync(files, fd))
        return -1;
    return is_new ? files->disk->sync_directory(files->disk->data, files->directory) : 0;
}

int rota_journal_range_put(struct rota_journal_files *files, struct rota_journal_range range)
{
    char path[ROTA_JOURNAL_PATH_MAX];
    rota_journal_files_path_of(files, "range", path);
    if (files->has_bad_range && files->disk->unlink(files->disk->data, path) && errno != ENOENT)
        return -1;
    files->has_bad_range = false;
    range.sequence = files->range.sequence + 1;
    int fd = files->disk->open(files->disk->data, path);
    if (fd < 0 && errno == ENOENT)
        fd = files->disk->create(files->disk->data, path);
    if (fd < 0)
        return -1;
    int failed = write_to(files, fd, &range), why = errno;
    close(fd);
    errno = why;
    if (!failed)
        files->range = range;
    return failed;
}
