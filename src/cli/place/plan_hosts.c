#include "cli/place/plan_hosts.h"

#include "base/quote.h"
#include "base/vector.h"
#include "cli/cli.h"
#include "cli/place/host_options.h"

#include <stdio.h>
#include <stdlib.h>

/* The hosts before or after; the strings belong to the files and to --add. */
struct host_list {
    ROTA_VECTOR(struct rota_host) hosts;
    ROTA_VECTOR(struct rota_hosts) sources;
    rota_time now; /* the time at which hosts are placed */
};

static void host_list_deinit(struct host_list *list)
{
    for (size_t i = 0; i < list->sources.size; i++)
        rota_hosts_file_deinit(&list->sources.items[i]);
    rota_vector_deinit(&list->sources);
    rota_vector_deinit(&list->hosts);
}

/* Append the hosts of `source` and take ownership of it. */
static enum rota_code append_source(struct host_list *list, struct rota_hosts source,
                                    struct rota_error *error)
{
    if (!rota_vector_push(&list->sources, source)) {
        rota_hosts_file_deinit(&source);
        return rota_error_no_memory(error, "for the hosts of a plan");
    }
    for (size_t i = 0; i < source.n_hosts; i++)
        if (!rota_vector_push(&list->hosts, source.hosts[i]))
            return rota_error_no_memory(error, "for the hosts of a plan");
    return ROTA_OK;
}

static enum rota_code append_from(struct host_list *list, const struct rota_host_options *from,
                                  struct rota_error *error)
{
    struct rota_hosts source;
    enum rota_code code = rota_host_options_read(from, &source, error);
    return code ? code : append_source(list, source, error);
}

static struct rota_host *find_host(const struct host_list *list, struct rota_str address)
{
    for (size_t i = 0; i < list->hosts.size; i++)
        if (rota_str_is_equal(list->hosts.items[i].address, address))
            return &list->hosts.items[i];
    return NULL;
}

/* Read one host as in a hosts file. There is only one line, so errors need no line number. */
static enum rota_code parse_host(const char *line, struct rota_hosts *source,
                                 struct rota_error *error)
{
    static const char PLACE[] = "--add:1: ";
    char quoted[ROTA_QUOTE_MAX];
    struct rota_error inner;
    enum rota_code code = ROTA_ERR_INVALID;
    if (!strchr(line, '\n')) {
        code = rota_hosts_file_parse(rota_str(line), "--add", source, &inner);
        if (code)
            return rota_error_set(
                error, code, "plan: --add: %s",
                inner.text + (strncmp(inner.text, PLACE, strlen(PLACE)) == 0 ? strlen(PLACE) : 0));
        if (source->n_hosts == 1)
            return ROTA_OK;
        rota_hosts_file_deinit(source);
    }
    return rota_error_set(error, ROTA_ERR_INVALID, "plan: --add: %s is not one host",
                          rota_quote(rota_str(line), quoted));
}

/* Adding a host that is not placed would change nothing. */
static enum rota_code check_added(const struct host_list *list, const struct rota_host *host,
                                  struct rota_error *error)
{
    char text[ROTA_TIME_TEXT_MAX];
    if (find_host(list, host->address))
        return rota_error_set(error, ROTA_ERR_INVALID, "plan: --add: host %.*s is listed already",
                              ROTA_STR_ARGS(host->address));
    if (rota_host_is_placed(host, list->now))
        return ROTA_OK;
    return rota_error_set(
        error, ROTA_ERR_INVALID,
        "plan: --add: host %.*s is not placed at %s: %s; --at computes for another time",
        ROTA_STR_ARGS(host->address), rota_time_format(list->now, text),
        host->is_draining            ? "it is draining"
        : host->start_at > list->now ? "it starts later"
                                     : "it has stopped");
}

static enum rota_code add_host(struct host_list *list, const char *line, struct rota_error *error)
{
    struct rota_hosts source;
    enum rota_code code = parse_host(line, &source, error);
    if (code)
        return code;
    if ((code = check_added(list, &source.hosts[0], error))) {
        rota_hosts_file_deinit(&source);
        return code;
    }
    return append_source(list, source, error);
}

static enum rota_code remove_host(struct host_list *list, const char *address,
                                  struct rota_error *error)
{
    char quoted[ROTA_QUOTE_MAX];
    struct rota_host *host = find_host(list, rota_str(address));
    if (!host)
        return rota_error_set(error, ROTA_ERR_NOT_FOUND, "plan: --remove: there is no host %s",
                              rota_quote(rota_str(address), quoted));
    *host = list->hosts.items[--list->hosts.size];
    return ROTA_OK;
}

static enum rota_code remove_zone(struct host_list *list, const char *zone,
                                  struct rota_error *error)
{
    char quoted[ROTA_QUOTE_MAX];
    size_t kept = 0;
    for (size_t i = 0; i < list->hosts.size; i++)
        if (!rota_str_is_equal(list->hosts.items[i].zone, rota_str(zone)))
            list->hosts.items[kept++] = list->hosts.items[i];
    if (kept == list->hosts.size)
        return rota_error_set(error, ROTA_ERR_NOT_FOUND,
                              "plan: --remove-zone: there is no host in zone %s",
                              rota_quote(rota_str(zone), quoted));
    list->hosts.size = kept;
    return ROTA_OK;
}

static enum rota_code set_weight(struct host_list *list, const char *text, struct rota_error *error)
{
    char quoted[ROTA_QUOTE_MAX];
    const char *equals = strrchr(text, '=');
    uint32_t weight;
    if (!equals || !rota_hosts_file_parse_weight(equals + 1, &weight))
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "plan: --weight: %s is not HOST=W with a weight from 0.01 to 1000",
                              rota_quote(rota_str(text), quoted));
    struct rota_str address = rota_str_of(text, (size_t)(equals - text));
    struct rota_host *host = find_host(list, address);
    if (!host)
        return rota_error_set(error, ROTA_ERR_NOT_FOUND, "plan: --weight: there is no host %s",
                              rota_quote(address, quoted));
    host->weight = weight;
    return ROTA_OK;
}

typedef enum rota_code edit_fn(struct host_list *list, const char *text, struct rota_error *error);

static enum rota_code edit_all(struct host_list *list, edit_fn *edit,
                               const struct rota_option_list *texts, struct rota_error *error)
{
    enum rota_code code = ROTA_OK;
    for (size_t i = 0; i < texts->size && !code; i++)
        code = edit(list, texts->items[i], error);
    return code;
}

/* A weight given twice is ambiguous. */
static enum rota_code check_weights(const struct rota_option_list *weights,
                                    struct rota_error *error)
{
    char quoted[ROTA_QUOTE_MAX];
    for (size_t i = 0; i < weights->size; i++) {
        const char *equals = strrchr(weights->items[i], '=');
        size_t size = equals ? (size_t)(equals - weights->items[i]) + 1 : 0;
        for (size_t k = 0; size > 0 && k < i; k++)
            if (strncmp(weights->items[i], weights->items[k], size) == 0 &&
                strrchr(weights->items[k], '=') == weights->items[k] + size - 1)
                return rota_error_set(error, ROTA_ERR_INVALID,
                                      "plan: --weight: host %s is given twice",
                                      rota_quote(rota_str_of(weights->items[i], size - 1), quoted));
    }
    return ROTA_OK;
}

static enum rota_code copy_hosts(struct host_list *list, const struct host_list *from,
                                 struct rota_error *error)
{
    for (size_t i = 0; i < from->hosts.size; i++)
        if (!rota_vector_push(&list->hosts, from->hosts.items[i]))
            return rota_error_no_memory(error, "for the hosts of a plan");
    return ROTA_OK;
}

/* Fill both lists. A file is read only once, because it may be a pipe; so the second list points
 * into the first. */
static enum rota_code read_lists(struct rota_host_options *from, const struct rota_plan_hosts *then,
                                 struct host_list *before, struct host_list *after,
                                 struct rota_error *error)
{
    struct rota_host_options later = {.file = then->file};
    enum rota_code code = rota_host_options_check(from, error);
    if (code)
        return code;
    if (then->file && from->file && rota_cli_is_input(from->file) && rota_cli_is_input(then->file))
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "plan: --hosts and --then-hosts cannot both be standard input");
    if ((code = check_weights(&then->weight, error)) || (code = append_from(before, from, error)) ||
        (code =
             then->file ? append_from(after, &later, error) : copy_hosts(after, before, error)) ||
        (code = edit_all(after, remove_host, &then->remove, error)) ||
        (code = edit_all(after, remove_zone, &then->remove_zone, error)) ||
        (code = edit_all(after, set_weight, &then->weight, error)))
        return code;
    return edit_all(after, add_host, &then->add, error);
}

static enum rota_code build_ring(const char *name, const struct host_list *list, int64_t points,
                                 struct rota_ring **ring, struct rota_error *error)
{
    return rota_cli_build_ring(name, list->hosts.items, list->hosts.size, list->now, points, ring,
                               error);
}

static enum rota_code build_rings(const char *name, const struct host_list *lists,
                                  const struct rota_plan_hosts *then, int64_t points_before,
                                  int64_t points_after, struct rota_ring **rings,
                                  struct rota_error *error)
{
    enum rota_code code = build_ring(name, &lists[0], points_before, &rings[0], error);
    if (code)
        return code;
    if (!rota_plan_hosts_change(then) && points_before == points_after)
        rings[1] = rota_ring_ref(rings[0]);
    else if ((code = build_ring(then->file ? rota_cli_file_name(then->file) : name, &lists[1],
                                points_after, &rings[1], error))) {
        rota_ring_unref(rings[0]);
        return code;
    }
    if (rota_ring_size(rings[0]) > 0 || rota_ring_size(rings[1]) > 0)
        return ROTA_OK;
    rota_ring_unref(rings[0]);
    rota_ring_unref(rings[1]);
    return rota_error_set(error, ROTA_ERR_UNAVAILABLE, "%s: the ring is empty, before and after",
                          name);
}

const char *rota_plan_hosts_change(const struct rota_plan_hosts *then)
{
    return then->file               ? "then-hosts"
           : then->remove.size      ? "remove"
           : then->remove_zone.size ? "remove-zone"
           : then->weight.size      ? "weight"
           : then->add.size         ? "add"
                                    : NULL;
}

enum rota_code rota_plan_hosts_build(struct rota_host_options *from,
                                     const struct rota_plan_hosts *then, rota_time now,
                                     int64_t points_before, int64_t points_after,
                                     struct rota_ring **before, struct rota_ring **after,
                                     struct rota_error *error)
{
    struct host_list lists[2] = {{.now = now}, {.now = now}};
    struct rota_ring *rings[2];
    char name[ROTA_SQL_URL_TEXT_MAX];
    enum rota_code code = read_lists(from, then, &lists[0], &lists[1], error);
    if (!code)
        code = build_rings(rota_host_options_name(from, name), lists, then, points_before,
                           points_after, rings, error);
    if (!code) {
        *before = rings[0];
        *after = rings[1];
    }
    host_list_deinit(&lists[1]);
    host_list_deinit(&lists[0]);
    return code;
}
