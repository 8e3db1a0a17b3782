/* A hosts file as a source of members: file_watch delivers the text, hosts_file parses it, the
 * list goes to the sink. */
#include "run/place/file_watch.h"
#include "wire/text/hosts_file.h"

#include <rota/experimental/members.h>
#include <stdlib.h>

struct hosts_watch {
    struct rota_members_source source; /* first: the two are cast into each other */
    struct rota_members_sink sink;
    struct rota_file_watch *watch;
    uint64_t version; /* counts deliveries */
    char path[];
};

/* Delivering is last, since it may stop us. */
static enum rota_code on_content(void *data, struct rota_str content, struct rota_error *error)
{
    struct hosts_watch *watch = data;
    struct rota_hosts hosts;
    struct rota_error why;
    enum rota_code code = rota_hosts_file_parse(content, watch->path, &hosts, error);
    if (code)
        return code;
    code = watch->sink.on_snapshot(watch->sink.data, ++watch->version, hosts.hosts, hosts.n_hosts,
                                   &why);
    rota_hosts_file_deinit(&hosts);
    if (code) /* then nothing was delivered, and we still exist */
        rota_error_set(error, code, "%s: %s", watch->path, why.text);
    return code;
}

static void on_error(void *data, const struct rota_error *error)
{
    struct hosts_watch *watch = data;
    watch->sink.on_error(watch->sink.data, error);
}

static enum rota_code start_watch(struct rota_members_source *source, struct uv_loop_s *loop,
                                  const struct rota_members_sink *sink, struct rota_error *error)
{
    struct hosts_watch *watch = (struct hosts_watch *)source;
    struct rota_file_watch_options options = {
        .path = watch->path,
        .size_max = ROTA_HOSTS_TEXT_MAX,
        .on_content = on_content,
        .on_error = on_error,
        .data = watch,
    };
    watch->sink = *sink;
    return rota_file_watch_open(loop, &options, &watch->watch, error);
}

static void stop_watch(struct rota_members_source *source)
{
    struct hosts_watch *watch = (struct hosts_watch *)source;
    rota_file_watch_close(watch->watch);
    free(watch);
}

enum rota_code rota_hosts_watch_new(const char *path, struct rota_members_source **source,
                                    struct rota_error *error)
{
    size_t size = strlen(path) + 1;
    struct hosts_watch *watch = calloc(1, sizeof *watch + size);
    if (!watch)
        return rota_error_no_memory(error, "to watch %s", path);
    watch->source = (struct rota_members_source){.start = start_watch, .stop = stop_watch};
    memcpy(watch->path, path, size);
    *source = &watch->source;
    return ROTA_OK;
}
