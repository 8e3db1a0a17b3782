/* file_watch: one file's content, and what it becomes.
 *
 * The directory is watched rather than the file, so that a file moved over the
 * old one, deleted and made anew, or reached through a symbolic link that is
 * turned is seen too. A notice is only a hint: after a moment for the writer to
 * finish, the file is looked at again and handed over if its content differs.
 * A slow look at regular intervals catches what no notice told.
 *
 * The files are texts of lines. One that was changed while it was read, that
 * ends in the middle of a line or that has become empty is probably half of a
 * write: it is looked at again until it rests, or often enough that it seems to
 * be meant so. An empty one is never handed over in the place of one that was
 * not: `> file` is a slip.
 *
 * A file that goes missing, is emptied or whose content is refused is reported
 * once, and stays what it was to whoever uses it. */
#pragma once

#include <rota/error.h>
#include <rota/str.h>
#include <rota/time.h>
#include <uv.h>

/* How long a file must be left alone before it is read, how long that can put
 * off reading one which is written all the time, how often one that seems half
 * written is looked at again, and the slow look's interval. */
#define ROTA_FILE_WATCH_SETTLE     (50 * ROTA_MSEC)
#define ROTA_FILE_WATCH_SETTLE_MAX (1 * ROTA_SEC)
#define ROTA_FILE_WATCH_TORN_MAX   10
#define ROTA_FILE_WATCH_POLL       (10 * ROTA_SEC)

struct rota_file_watch;

struct rota_file_watch_options {
    const char *path; /* copied */
    size_t size_max;  /* a larger file is an error */
    rota_time poll;   /* 0 means ROTA_FILE_WATCH_POLL */

    /* New content, borrowed. A refusal is reported through `on_error`. */
    enum rota_code (*on_content)(void *data, struct rota_str content, struct rota_error *error);

    /* The file can't be read, or its content was refused. Told again only when
     * the sentence is another one or all was well in between. */
    void (*on_error)(void *data, const struct rota_error *error);

    /* The watch is gone and `data` no longer used: what the callbacks might
     * still stand on may be freed. Not called when opening fails. May be NULL. */
    void (*on_closed)(void *data);
    void *data; /* kept */
};

/* Read the file, hand its content over before this returns, and watch it from
 * then on. A file that can't be read or is refused now is an error. Gives
 * `*watch`; rota_file_watch_close() ends it. */
enum rota_code rota_file_watch_open(uv_loop_t *loop, const struct rota_file_watch_options *options,
                                    struct rota_file_watch **watch, struct rota_error *error);

/* Takes `watch`, which may be NULL. A callback may call it; none but `on_closed`
 * comes after, from the loop. */
void rota_file_watch_close(struct rota_file_watch *watch);
