/* A watched configuration: the one in force, read anew when its file changes.
 *
 * A file that becomes invalid, is emptied or goes missing is reported once and
 * leaves in force what was. Subscribers are told after the new configuration is in place. */
#pragma once

#include <rota/config.h>
#include <rota/log.h>

struct uv_loop_s;

#ifdef __cplusplus
extern "C" {
#endif

struct rota_config_watch;

struct rota_config_watch_options {
    const char *path;           /* copied */
    const struct rota_log *log; /* kept; NULL: none */

    /* The file has a problem; the configuration stays as it was. May be NULL. */
    void (*on_error)(void *data, const struct rota_error *error);
    void *data; /* kept */
};

/* Read the file and watch it on `loop`, which is kept. One that can't be read or is invalid now is
 * an error. Gives `*watch`; rota_config_watch_close() ends it. */
enum rota_code rota_config_watch_open(struct uv_loop_s *loop,
                                      const struct rota_config_watch_options *options,
                                      struct rota_config_watch **watch, struct rota_error *error);

/* Takes `watch`, which may be NULL; no callback comes after, and a callback may
 * call it. */
void rota_config_watch_close(struct rota_config_watch *watch);

/* The configuration in force, a share of it; rota_config_unref() ends it. Never
 * waits. Any thread, until rota_config_watch_close(). */
struct rota_config *rota_config_watch_get(struct rota_config_watch *watch);

/* Be told when another configuration is in force. Names are unique, have at most
 * 255 bytes, and there are at most 10,000; a name that is there already is an
 * error, removing an unknown one is not. `on_change` may call any function of
 * this header; `data` is kept. */
enum rota_code rota_config_watch_subscribe(struct rota_config_watch *watch, const char *name,
                                           void (*on_change)(void *data,
                                                             const struct rota_config *config),
                                           void *data, struct rota_error *error);
void rota_config_watch_unsubscribe(struct rota_config_watch *watch, const char *name);

#ifdef __cplusplus
}
#endif
