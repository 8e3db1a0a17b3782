#include <rota/experimental/config_watch.h>

#include "io/clock.h"
#include "run/place/cell.h"
#include "run/place/file_watch.h"
#include "run/place/subscribers.h"
#include "wire/text/config_text.h"

#include <stdlib.h>
#include <uv.h>

struct rota_config_watch {
    struct rota_config_watch_options options;
    struct rota_file_watch *file;
    struct rota_cell cell;
    bool has_config; /* the cell is in use */
    struct rota_subscribers subscribers;
    char path[];
};

static void ref_config(void *config)
{
    rota_config_ref(config);
}

static void unref_config(void *config)
{
    rota_config_unref(config);
}

static const struct rota_cell_type config_type = {ref_config, unref_config};

typedef void on_change_function(void *data, const struct rota_config *config);

static void call_subscriber(rota_subscriber_function *function, void *data, const void *config)
{
    ((on_change_function *)function)(data, config);
}

/* Notifying is last, since it may close us; our reference keeps the object alive. */
static enum rota_code on_content(void *data, struct rota_str content, struct rota_error *error)
{
    struct rota_config_watch *watch = data;
    struct rota_config *config;
    enum rota_code code = rota_config_parse(content, watch->path, &config, error);
    if (code)
        return code;
    if (!watch->has_config) {
        rota_cell_init(&watch->cell, &config_type, config);
        watch->has_config = true;
        return ROTA_OK;
    }
    rota_cell_swap(&watch->cell, rota_config_ref(config));
    rota_log(watch->options.log, rota_clock_wall(), ROTA_LOG_INFO, "config changed",
             ROTA_LOG_FACT("file", watch->path));
    rota_subscribers_notify(&watch->subscribers, rota_subscribers_number(&watch->subscribers),
                            call_subscriber, config);
    rota_config_unref(config);
    return ROTA_OK;
}

static void on_error(void *data, const struct rota_error *error)
{
    struct rota_config_watch *watch = data;
    rota_log(watch->options.log, rota_clock_wall(), ROTA_LOG_WARN, "config not updated",
             ROTA_LOG_FACT("code", rota_code_name(error->code)),
             ROTA_LOG_FACT("error", error->text));
    if (watch->options.on_error)
        watch->options.on_error(watch->options.data, error);
}

static void on_closed(void *data)
{
    struct rota_config_watch *watch = data;
    if (watch->has_config)
        rota_cell_deinit(&watch->cell);
    rota_subscribers_deinit(&watch->subscribers);
    free(watch);
}

enum rota_code rota_config_watch_open(struct uv_loop_s *loop,
                                      const struct rota_config_watch_options *options,
                                      struct rota_config_watch **watch, struct rota_error *error)
{
    size_t size = strlen(options->path) + 1;
    struct rota_config_watch *made = calloc(1, sizeof *made + size);
    if (!made)
        return rota_error_no_memory(error, "to watch %s", options->path);
    memcpy(made->path, options->path, size);
    made->options = *options;
    made->options.path = made->path;

    struct rota_file_watch_options file = {
        .path = made->path,
        .size_max = ROTA_CONFIG_TEXT_MAX,
        .on_content = on_content,
        .on_error = on_error,
        .on_closed = on_closed,
        .data = made,
    };
    enum rota_code code = rota_file_watch_open(loop, &file, &made->file, error);
    if (code)
        on_closed(made);
    else
        *watch = made;
    return code;
}

void rota_config_watch_close(struct rota_config_watch *watch)
{
    if (!watch)
        return;
    rota_subscribers_stop(&watch->subscribers);
    rota_file_watch_close(watch->file);
}

struct rota_config *rota_config_watch_get(struct rota_config_watch *watch)
{
    return rota_cell_get(&watch->cell);
}

enum rota_code rota_config_watch_subscribe(struct rota_config_watch *watch, const char *name,
                                           void (*on_change)(void *data,
                                                             const struct rota_config *config),
                                           void *data, struct rota_error *error)
{
    return rota_subscribers_add(&watch->subscribers, name, (rota_subscriber_function *)on_change,
                                data, error);
}

void rota_config_watch_unsubscribe(struct rota_config_watch *watch, const char *name)
{
    rota_subscribers_remove(&watch->subscribers, name);
}
