#include "run/place/file_watch.h"

#include "base/buffer.h"
#include "base/hash.h"
#include "io/clock.h"
#include "io/file.h"

#include <stdlib.h>
#include <sys/stat.h>

/* Distinguishes states of a file without reading it. All zero for a missing file. */
struct signature {
    dev_t device;
    ino_t inode;
    off_t size;
    struct timespec modified_at, changed_at;
};

struct rota_file_watch {
    struct rota_file_watch_options options;
    char *path;
    char *directory;
    const char *name; /* the last part of `path` */

    uv_fs_event_t notices;
    uv_timer_t settle, poll;
    int n_handles; /* that are not closed yet */
    bool is_closed;

    bool is_noticed;      /* a notice named the file: read it, whatever its signature */
    rota_time noticed_at; /* monotonic; the first notice that was not followed up */

    struct signature seen;      /* of the file when it was last read */
    bool has_content;           /* some was handed over */
    bool had_bytes;             /* and it was not empty */
    uint64_t digest;            /* of what was last delivered */
    int n_torn;                 /* reads in a row that found it half written */
    struct rota_error standing; /* reported, and still the case; ROTA_OK: no error */
};

static struct signature signature_of(const char *path)
{
    struct signature signature = {0};
    struct stat status;
    if (stat(path, &status) == 0) {
        signature.device = status.st_dev;
        signature.inode = status.st_ino;
        signature.size = status.st_size;
        signature.modified_at = status.st_mtim;
        signature.changed_at = status.st_ctim;
    }
    return signature;
}

static bool is_same_moment(struct timespec a, struct timespec b)
{
    return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
}

static bool is_same_signature(const struct signature *a, const struct signature *b)
{
    return a->device == b->device && a->inode == b->inode && a->size == b->size &&
           is_same_moment(a->modified_at, b->modified_at) &&
           is_same_moment(a->changed_at, b->changed_at);
}

/* --- looking --- */

static void report_failure(struct rota_file_watch *watch, const struct rota_error *error)
{
    bool is_known =
        watch->standing.code == error->code && strcmp(watch->standing.text, error->text) == 0;
    watch->standing = *error;
    if (!is_known)
        watch->options.on_error(watch->options.data, error);
}

static void on_settled(uv_timer_t *timer);

static void start_settling(struct rota_file_watch *watch)
{
    rota_time now = rota_clock_mono();
    if (!uv_is_active((uv_handle_t *)&watch->settle))
        watch->noticed_at = now;
    else if (now - watch->noticed_at > ROTA_FILE_WATCH_SETTLE_MAX)
        return;
    uv_timer_start(&watch->settle, on_settled, ROTA_FILE_WATCH_SETTLE / ROTA_MSEC, 0);
}

/* Whether `content`, read while the file went from one signature to another, looks half written. */
static bool is_torn(struct rota_str content, const struct signature *before,
                    const struct signature *after)
{
    return !is_same_signature(before, after) || content.size == 0 ||
           content.data[content.size - 1] != '\n';
}

static enum rota_code hand_over(struct rota_file_watch *watch, struct rota_str content,
                                uint64_t digest, struct rota_error *error)
{
    if (content.size == 0 && watch->had_bytes)
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "%s: is empty; the previous contents stay in force", watch->path);
    watch->has_content = true;
    watch->had_bytes = content.size > 0;
    watch->digest = digest;
    enum rota_code code = watch->options.on_content(watch->options.data, content, error);
    if (!code)
        watch->standing.code = ROTA_OK;
    return code;
}

/* Read the file and deliver it when it has changed, or when the last content was rejected. */
static enum rota_code read_again(struct rota_file_watch *watch, struct rota_error *error)
{
    struct signature before = signature_of(watch->path);
    struct rota_buffer buffer = {0};
    enum rota_code code = rota_file_read(watch->path, watch->options.size_max, &buffer, error);

    watch->seen = before;
    if (code)
        return code;
    struct signature after = signature_of(watch->path);
    struct rota_str content = rota_buffer_str(&buffer);
    uint64_t digest = rota_hash_sip64(content.size, content);
    bool is_news = !watch->has_content || digest != watch->digest || watch->standing.code;

    if (is_news && watch->has_content && watch->n_torn < ROTA_FILE_WATCH_TORN_MAX &&
        is_torn(content, &before, &after)) {
        watch->n_torn++;
        watch->is_noticed = true; /* check again, even if it does not change */
        start_settling(watch);
    } else {
        watch->n_torn = 0;
        if (is_news)
            code = hand_over(watch, content, digest, error);
    }
    rota_buffer_deinit(&buffer);
    return code;
}

/* Skips reading when the file has not changed, unless there was a notification: two writes
 * within one tick of the file system's clock have the same signature. After an error it is read
 * every time. */
static void check_file(struct rota_file_watch *watch)
{
    struct signature signature = signature_of(watch->path);
    struct rota_error error;

    if (!watch->is_noticed && !watch->standing.code && is_same_signature(&signature, &watch->seen))
        return;
    watch->is_noticed = false;
    if (read_again(watch, &error) && !watch->is_closed)
        report_failure(watch, &error);
}

/* --- noticing --- */

static void on_notice(uv_fs_event_t *handle, const char *name, int events, int status)
{
    struct rota_file_watch *watch = handle->data;
    bool is_ours = status == 0 && (!name || strcmp(name, watch->name) == 0);
    (void)events;
    if (is_ours)
        watch->is_noticed = true;
    /* Another file in the directory may be a link on the way to ours, so its changes cause a
     * check, but do not delay one. */
    if (is_ours || !uv_is_active((uv_handle_t *)&watch->settle))
        start_settling(watch);
}

/* Watch the directory that has the name now, since it may itself have been replaced. Without
 * notifications, as when the system has run out of them, the slow poll remains. */
static void listen_again(struct rota_file_watch *watch)
{
    uv_fs_event_stop(&watch->notices);
    uv_fs_event_start(&watch->notices, on_notice, watch->directory, 0);
}

static void on_settled(uv_timer_t *timer)
{
    check_file(timer->data);
}

static void on_poll(uv_timer_t *timer)
{
    struct rota_file_watch *watch = timer->data;
    listen_again(watch);
    check_file(watch);
}

/* --- life --- */

static void on_handle_closed(uv_handle_t *handle)
{
    struct rota_file_watch *watch = handle->data;
    if (--watch->n_handles > 0)
        return;
    if (watch->options.on_closed)
        watch->options.on_closed(watch->options.data);
    free(watch->path);
    free(watch->directory);
    free(watch);
}

static struct rota_file_watch *watch_new(uv_loop_t *loop,
                                         const struct rota_file_watch_options *options)
{
    struct rota_file_watch *watch = calloc(1, sizeof *watch);
    const char *slash = strrchr(options->path, '/');
    if (!watch)
        return NULL;

    watch->options = *options;
    watch->path = strdup(options->path);
    watch->directory = !slash ? strdup(".")
                       : slash == options->path
                           ? strdup("/")
                           : strndup(options->path, (size_t)(slash - options->path));
    if (!watch->path || !watch->directory) {
        free(watch->path);
        free(watch->directory);
        free(watch);
        return NULL;
    }
    watch->options.path = watch->path;
    watch->name = slash ? watch->path + (slash - options->path) + 1 : watch->path;
    uv_fs_event_init(loop, &watch->notices);
    uv_timer_init(loop, &watch->settle);
    uv_timer_init(loop, &watch->poll);
    watch->notices.data = watch->settle.data = watch->poll.data = watch;
    watch->n_handles = 3;
    return watch;
}

enum rota_code rota_file_watch_open(uv_loop_t *loop, const struct rota_file_watch_options *options,
                                    struct rota_file_watch **watch, struct rota_error *error)
{
    rota_time poll = options->poll ? options->poll : ROTA_FILE_WATCH_POLL;
    struct rota_file_watch *made = watch_new(loop, options);
    if (!made)
        return rota_error_no_memory(error, "to watch %s", options->path);

    /* Notices first, so that no change falls between reading and watching. */
    listen_again(made);
    enum rota_code code = read_again(made, error);
    if (code) {
        made->options.on_closed = NULL;
        rota_file_watch_close(made);
        return code;
    }
    uint64_t poll_ms = (uint64_t)(poll / ROTA_MSEC);
    uv_timer_start(&made->poll, on_poll, poll_ms, poll_ms);
    *watch = made;
    return ROTA_OK;
}

void rota_file_watch_close(struct rota_file_watch *watch)
{
    if (!watch || watch->is_closed)
        return;
    watch->is_closed = true;
    uv_close((uv_handle_t *)&watch->notices, on_handle_closed);
    uv_close((uv_handle_t *)&watch->settle, on_handle_closed);
    uv_close((uv_handle_t *)&watch->poll, on_handle_closed);
}
