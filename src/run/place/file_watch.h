/* file_watch: the content of one file, and its changes.
 *
 * It watches the directory rather than the file, so that it also sees a file that is moved over the
 * old one, deleted and recreated, or reached through a symbolic link that changes. A notification
 * is only a hint: after a short time for the writer to finish, the file is read again and delivered
 * if its content differs. A slow poll catches changes without a notification.
 *
 * The files are texts of lines. One that was changed while it was read, that ends in the middle of
 * a line or that has become empty is probably half written: it is read again until it is stable, or
 * has looked so for several reads. An empty file never replaces one that was not: `> file` is
 * usually a mistake.
 *
 * A file that goes missing, is emptied or whose content is rejected is reported once, and its
 * users keep the last good content. */
#pragma once

#include <rota/error.h>
#include <rota/str.h>
#include <rota/time.h>
#include <uv.h>

/* How long a file must be unchanged before it is read, how long that can delay reading one that
 * is written all the time, how often one that seems half written is read again, and the interval
 * of the slow poll. */
#define ROTA_FILE_WATCH_SETTLE     (50 * ROTA_MSEC)
#define ROTA_FILE_WATCH_SETTLE_MAX (1 * ROTA_SEC)
#define ROTA_FILE_WATCH_TORN_MAX   10
#define ROTA_FILE_WATCH_POLL       (10 * ROTA_SEC)

struct rota_file_watch;

struct rota_file_watch_options {
    const char *path; /* copied */
    size_t size_max;  /* a larger file is an error */
    rota_time poll;   /* 0 means ROTA_FILE_WATCH_POLL */

    /* New content, borrowed. A rejection is reported through `on_error`. */
    enum rota_code (*on_content)(void *data, struct rota_str content, struct rota_error *error);

    /* The file can't be read, or its content was rejected. Reported again only when the error
     * changes or there was a success in between. */
    void (*on_error)(void *data, const struct rota_error *error);

    /* The watch is closed and `data` no longer used: what the callbacks depend on may be freed.
     * Not called when opening fails. May be NULL. */
    void (*on_closed)(void *data);
    void *data; /* kept */
};

/* Read the file, deliver its content before this returns, and watch it from then on. A file that
 * can't be read or is rejected now is an error. Gives `*watch`; rota_file_watch_close() ends it. */
enum rota_code rota_file_watch_open(uv_loop_t *loop, const struct rota_file_watch_options *options,
                                    struct rota_file_watch **watch, struct rota_error *error);

/* Takes `watch`, which may be NULL. A callback may call it; only `on_closed` is called after
 * this, from the loop. */
void rota_file_watch_close(struct rota_file_watch *watch);
