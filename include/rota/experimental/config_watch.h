/* A watched configuration: the one in force, read again when its file changes.
 *
 * A file that becomes invalid, empty or missing is reported once and leaves the old configuration
 * in force. Subscribers are notified after the new configuration is in force. */
#pragma once

#include <rota/experimental/config.h>
#include <rota/log.h>

struct uv_loop_s;

#ifdef __cplusplus
extern "C" {
#endif

struct rota_config_watch;

struct rota_config_watch_options {
    const char *path;           /* copied */
    const struct rota_log *log; /* kept; NULL: none */

    /* The file has a problem; the configuration is unchanged. May be NULL. */
    void (*on_error)(void *data, const struct rota_error *error);
    void *data; /* kept */

    void *reserved[4]; /* must be zero; room for future options */
};

/* Reads the file and watches it on `loop`, which is kept. Fails if the file is unreadable or
 * invalid now. Gives `*watch`; close it with rota_config_watch_close(). */
enum rota_code rota_config_watch_open(struct uv_loop_s *loop,
                                      const struct rota_config_watch_options *options,
                                      struct rota_config_watch **watch, struct rota_error *error);

/* Takes `watch`, which may be NULL. No callback is called afterwards; a callback may call this. */
void rota_config_watch_close(struct rota_config_watch *watch);

/* A reference to the configuration in force; release it with rota_config_unref(). Never blocks. Any
 * thread, until rota_config_watch_close(). */
struct rota_config *rota_config_watch_get(struct rota_config_watch *watch);

/* Subscribes to changes of the configuration in force. Names are unique and have at most 255 bytes;
 * there are at most 10,000. Subscribing a name twice is an error, removing an unknown one is not.
 * `on_change` may call any function of this header; `data` is kept. */
enum rota_code rota_config_watch_subscribe(struct rota_config_watch *watch, const char *name,
                                           void (*on_change)(void *data,
                                                             const struct rota_config *config),
                                           void *data, struct rota_error *error);
void rota_config_watch_unsubscribe(struct rota_config_watch *watch, const char *name);

#ifdef __cplusplus
}
#endif
