#include "cli/place/host_options.h"

#include "cli/cli.h"
#include "io/sql/store_session.h"
#include "run/store/store_members.h"

#include <stdio.h>
#include <stdlib.h>

enum rota_code rota_host_options_check(struct rota_host_options *options, struct rota_error *error)
{
    const char *file = options->is_argument ? "FILE" : "--hosts";
    if (options->file && options->store)
        return rota_error_set(error, ROTA_ERR_INVALID, "give %s or --store, not both", file);
    if (options->file && options->role)
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "--role is for the members of a store, but the hosts come from %s",
                              file);
    if (options->file)
        return ROTA_OK;
    if (!options->store)
        options->store = getenv("ROTA_STORE");
    if (!options->store || !options->store[0])
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "no hosts given: use %s or --store, or set ROTA_STORE", file);
    return rota_store_options_check_there(&options->store, error);
}

const char *rota_host_options_name(const struct rota_host_options *options,
                                   char name[ROTA_SQL_URL_TEXT_MAX])
{
    struct rota_sql_url url;
    if (options->file)
        return rota_cli_file_name(options->file);
    if (rota_sql_url_parse(rota_str(options->store), &url, NULL))
        return "the store";
    rota_sql_url_format(&url, name);
    return name;
}

static struct rota_str keep(struct rota_str str, char **to)
{
    struct rota_str copy = rota_str_of(*to, str.size);
    if (str.size > 0)
        memcpy(*to, str.data, str.size);
    *to += str.size;
    return copy;
}

/* The listed members, as a hosts file would have them. */
static enum rota_code list_members(const struct rota_store_answer *answer, struct rota_str role,
                                   struct rota_hosts *hosts, struct rota_error *error)
{
    struct rota_hosts made = {0};
    size_t size = 1;
    for (size_t i = 0; i < answer->n_members; i++)
        size += answer->members[i].address.size + answer->members[i].zone.size;
    made.hosts = calloc(answer->n_members + 1, sizeof *made.hosts);
    char *text = made.text = malloc(size);
    if (!made.hosts || !made.text) {
        rota_hosts_file_deinit(&made);
        return rota_error_no_memory(error, "for %zu members", answer->n_members);
    }
    for (size_t i = 0; i < answer->n_members; i++) {
        const struct rota_store_member *member = &answer->members[i];
        if (!rota_store_member_is_listed(member, role, answer->db_now))
            continue;
        struct rota_host host = rota_store_member_host(member);
        host.address = keep(host.address, &text);
        host.zone = keep(host.zone, &text);
        made.hosts[made.n_hosts++] = host;
    }
    *hosts = made;
    return ROTA_OK;
}

enum rota_code rota_host_options_read(const struct rota_host_options *options,
                                      struct rota_hosts *hosts, struct rota_error *error)
{
    const struct rota_store_request request = {.verb = ROTA_STORE_MEMBERS};
    struct rota_store_answer answer = {0};
    if (options->file)
        return rota_cli_read_hosts(options->file, hosts, error);
    enum rota_code code = rota_store_options_ask(options->store, &request, 1, &answer, error);
    if (code)
        return code;
    code = list_members(&answer, rota_str(options->role ? options->role : ""), hosts, error);
    rota_store_session_answer_deinit(&answer);
    return code;
}
