/* A file of pairs as a source: checked, indexed and read on worker threads, so that the loop
 * never waits for a disk. */
#include "base/hash.h"
#include "io/clock.h"
#include "io/pairs.h"
#include "run/call/cache.h"

#include <stdlib.h>
#include <uv.h>

/* How often the file is checked, and how many checks in a row may find it without an end, or
 * empty, before that counts as intended. */
#define LOOK (ROTA_SEC / 2)
enum { TORN_MAX = 6 };

/* An open file, for as long as it is read. The loop owns the count. */
struct held {
    struct rota_pairs_file *file;
    size_t n_users;
};

struct source {
    struct rota_cache_source base; /* first */
    struct rota_cache_source_options options;
    uv_loop_t *loop;
    char *path;
    uint64_t seed;
    struct held *held;
    uv_timer_t timer;
    bool is_looking, is_closed;
    size_t n_users; /* work and handles that still point here */
    int n_torn;
    struct rota_error standing; /* reported, and still the case */
};

static void drop_held(struct held *held)
{
    if (held && --held->n_users == 0) {
        rota_pairs_file_close(held->file);
        free(held);
    }
}

static void leave_source(struct source *source)
{
    if (--source->n_users > 0)
        return;
    drop_held(source->held);
    free(source->path);
    free(source);
}

/* --- checking --- */

struct look {
    uv_work_t work; /* first */
    struct source *source;
    struct held *held;            /* the file in use */
    struct rota_pairs_file *file; /* the current file, if it changed */
    bool is_news;
    struct rota_error error;
};

/* Worker thread. */
static void do_look(uv_work_t *work)
{
    struct look *look = (struct look *)work;
    look->is_news = !rota_pairs_file_is_current(look->held->file, look->source->path);
    if (look->is_news && rota_pairs_file_open(look->source->path, look->source->seed, &look->file,
                                              &look->error) == ROTA_OK)
        look->error.code = ROTA_OK;
}

static void report_failure(struct source *source, const struct rota_error *error)
{
    bool is_known =
        source->standing.code == error->code && strcmp(source->standing.text, error->text) == 0;
    source->standing = *error;
    if (!is_known)
        rota_log(source->options.log, rota_clock_wall(), ROTA_LOG_ERROR,
                 "source rejected, keeping the previous values",
                 ROTA_LOG_FACT("error", error->text));
}

/* Whether it looks half written. */
static bool is_torn(struct source *source, struct look *look)
{
    bool is_empty = rota_pairs_file_n_keys(look->file) == 0;
    if (is_empty && source->n_torn >= TORN_MAX)
        rota_error_set(&look->error, ROTA_ERR_INVALID, "%s: is empty", source->path);
    return is_empty || (!rota_pairs_file_is_whole(look->file) && source->n_torn < TORN_MAX);
}

static void take_file(struct source *source, struct look *look)
{
    struct held *held = malloc(sizeof *held);
    if (!held)
        return; /* the next check finds it again */
    *held = (struct held){look->file, 1};
    look->file = NULL;
    drop_held(source->held);
    source->held = held;
    source->n_torn = 0;
    source->standing.code = ROTA_OK;
    rota_log(source->options.log, rota_clock_wall(), ROTA_LOG_INFO, "source read",
             ROTA_LOG_FACT("file", source->path),
             ROTA_LOG_FACT("keys", rota_pairs_file_n_keys(held->file)));
    source->options.events.on_changed(source->options.events.data);
}

/* One that was changed while it was read is simply read again. */
static void on_looked(uv_work_t *work, int status)
{
    struct look *look = (struct look *)work;
    struct source *source = look->source;
    source->is_looking = false;
    if (!source->is_closed && status == 0 && look->is_news) {
        if (look->file && !is_torn(source, look))
            take_file(source, look);
        else if (look->file)
            source->n_torn++;
        if (look->error.code && look->error.code != ROTA_ERR_UNAVAILABLE)
            report_failure(source, &look->error);
    }
    rota_pairs_file_close(look->file);
    drop_held(look->held);
    free(look);
    leave_source(source);
}

static void on_timer(uv_timer_t *timer)
{
    struct source *source = timer->data;
    struct look *look = source->is_looking ? NULL : calloc(1, sizeof *look);
    if (!look)
        return;
    look->source = source;
    look->held = source->held;
    if (uv_queue_work(source->loop, &look->work, do_look, on_looked) != 0) {
        free(look);
        return;
    }
    source->held->n_users++;
    source->n_users++;
    source->is_looking = true;
}

/* --- reading --- */

struct answer {
    bool is_found;
    size_t at, size; /* in the values */
};

struct reading {
    uv_work_t work; /* first */
    struct source *source;
    struct held *held;
    struct rota_cache_read *read; /* the loop's */
    struct rota_buffer names, values;
    ROTA_VECTOR(struct rota_str) keys;
    ROTA_VECTOR(struct answer) answers;
    struct rota_error error;
};

/* Worker thread. */
static void do_read(uv_work_t *work)
{
    struct reading *reading = (struct reading *)work;
    enum rota_code code = ROTA_OK;
    for (size_t i = 0; !code && i < reading->keys.size; i++) {
        struct answer *answer = &reading->answers.items[i];
        answer->at = reading->values.size;
        code = rota_pairs_file_get(reading->held->file, reading->keys.items[i], ROTA_CACHE_READ_MAX,
                                   &reading->values, &answer->is_found, &reading->error);
        answer->size = reading->values.size - answer->at;
    }
    reading->error.code = code;
}

static void free_reading(struct reading *reading)
{
    rota_buffer_deinit(&reading->names);
    rota_buffer_deinit(&reading->values);
    rota_vector_deinit(&reading->keys);
    rota_vector_deinit(&reading->answers);
    free(reading);
}

static void tell_values(const struct reading *reading)
{
    const char *values = reading->values.data ? reading->values.data : "";
    for (size_t i = 0; i < reading->keys.size; i++) {
        const struct answer *answer = &reading->answers.items[i];
        if (answer->is_found)
            rota_cache_read_value(reading->read, reading->keys.items[i],
                                  rota_str_of(values + answer->at, answer->size));
    }
}

static void on_read(uv_work_t *work, int status)
{
    struct reading *reading = (struct reading *)work;
    struct source *source = reading->source;
    if (status != 0)
        rota_error_set(&reading->error, ROTA_ERR_UNAVAILABLE, "%s: was not read", source->path);
    if (!source->is_closed) {
        if (reading->error.code == ROTA_OK)
            tell_values(reading);
        rota_cache_read_done(reading->read, reading->error.code ? &reading->error : NULL);
    }
    drop_held(reading->held);
    free_reading(reading);
    leave_source(source);
}

/* The worker gets copies of the keys, since the read may end before it. */
static bool copy_keys(struct reading *reading, const struct rota_str *keys, size_t n)
{
    size_t at = 0;
    for (size_t i = 0; i < n; i++)
        rota_buffer_append_str(&reading->names, keys[i]);
    if (reading->names.failed || !rota_vector_reserve(&reading->keys, n) ||
        !rota_vector_reserve(&reading->answers, n))
        return false;
    for (size_t i = 0; i < n; i++) {
        const char *names = reading->names.data ? reading->names.data : "";
        reading->keys.items[i] = rota_str_of(names + at, keys[i].size);
        reading->answers.items[i] = (struct answer){0};
        at += keys[i].size;
    }
    reading->keys.size = reading->answers.size = n;
    return true;
}

static void read_keys(struct rota_cache_source *base, struct rota_cache_read *read)
{
    struct source *source = (struct source *)base;
    struct reading *reading = calloc(1, sizeof *reading);
    struct rota_error error;
    size_t n;
    const struct rota_str *keys = rota_cache_read_keys(read, &n);
    bool is_begun = reading && copy_keys(reading, keys, n);
    if (is_begun) {
        reading->source = source;
        reading->held = source->held;
        reading->read = read;
        is_begun = uv_queue_work(source->loop, &reading->work, do_read, on_read) == 0;
    }
    if (!is_begun) {
        if (reading)
            free_reading(reading);
        rota_error_no_memory(&error, "to read %s", source->path);
        rota_cache_read_done(read, &error);
        return;
    }
    source->held->n_users++;
    source->n_users++;
}

/* --- opening --- */

static void on_timer_closed(uv_handle_t *handle)
{
    leave_source(handle->data);
}

static void close_source(struct rota_cache_source *base)
{
    struct source *source = (struct source *)base;
    source->is_closed = true;
    uv_close((uv_handle_t *)&source->timer, on_timer_closed);
}

enum rota_code rota_cache_file_open(struct uv_loop_s *loop, const char *path,
                                    const struct rota_cache_source_options *options,
                                    struct rota_cache_source **source, struct rota_error *error)
{
    struct source *made = calloc(1, sizeof *made);
    struct held *held = calloc(1, sizeof *held);
    char *copy = strdup(path);
    enum rota_code code = ROTA_ERR_NO_MEMORY;
    if (!made || !held || !copy) {
        rota_error_set(error, code, "%s: not enough memory to read it", path);
        goto fail;
    }
    made->seed = rota_hash_sip64((uint64_t)rota_clock_mono(), rota_str(path));
    if ((code = rota_pairs_file_open(path, made->seed, &held->file, error)))
        goto fail;
    made->base = (struct rota_cache_source){
        .read = read_keys, .close = close_source, .is_ready = true, .is_static = true};
    made->options = *options;
    made->loop = loop;
    made->path = copy;
    made->held = held;
    held->n_users = made->n_users = 1;
    uv_timer_init(loop, &made->timer);
    made->timer.data = made;
    uv_timer_start(&made->timer, on_timer, LOOK / ROTA_MSEC, LOOK / ROTA_MSEC);
    *source = &made->base;
    return ROTA_OK;

fail:
    free(copy);
    free(held);
    free(made);
    return code;
}
