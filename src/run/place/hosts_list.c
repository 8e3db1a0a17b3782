/* A list of addresses as a source of members that never changes. */
#include <rota/experimental/members.h>

#include "base/vector.h"
#include "io/net/address.h"

#include <stdio.h>
#include <stdlib.h>

struct hosts_list {
    struct rota_members_source source; /* first: the two are cast into each other */
    ROTA_VECTOR(struct rota_host) hosts;
    char text[]; /* what they point to */
};

static enum rota_code start_list(struct rota_members_source *source, struct uv_loop_s *loop,
                                 const struct rota_members_sink *sink, struct rota_error *error)
{
    struct hosts_list *list = (struct hosts_list *)source;
    (void)loop;
    return sink->on_snapshot(sink->data, 1, list->hosts.items, list->hosts.size, error);
}

static void stop_list(struct rota_members_source *source)
{
    struct hosts_list *list = (struct hosts_list *)source;
    rota_vector_deinit(&list->hosts);
    free(list);
}

static enum rota_code add_host(struct hosts_list *list, const char *address,
                               struct rota_error *error)
{
    struct rota_host host = {.address = rota_str(address)};
    struct rota_address parsed;
    enum rota_code code = rota_address_parse(address, &parsed, error);
    if (!code && parsed.port == 0)
        code = rota_error_set(error, ROTA_ERR_INVALID, "%s: port 0 is not a valid target", address);
    if (!code && !rota_vector_push(&list->hosts, host))
        code = rota_error_no_memory(error, "for a list of hosts");
    return code;
}

enum rota_code rota_hosts_list_new(const char *text, struct rota_members_source **source,
                                   struct rota_error *error)
{
    size_t size = strlen(text) + 1;
    struct hosts_list *list = calloc(1, sizeof *list + size);
    if (!list)
        return rota_error_no_memory(error, "for a list of hosts");
    list->source = (struct rota_members_source){.start = start_list, .stop = stop_list};
    memcpy(list->text, text, size);
    enum rota_code code = ROTA_OK;
    for (char *at = list->text; !code && at;) {
        char *comma = strchr(at, ',');
        if (comma)
            *comma++ = '\0';
        code = add_host(list, at, error);
        at = comma;
    }
    if (code)
        stop_list(&list->source);
    else
        *source = &list->source;
    return code;
}
