#include "run/own/space_admin.h"

#include "base/quote.h"
#include "core/own/view.h"
#include "wire/text/view_text.h"

#include <rota/experimental/lease.h>
#include <rota/experimental/store_ask.h>
#include <stdio.h>
#include <string.h>

/* --- the outcome --- */

static void report_outcome(struct rota_space_admin *admin, enum rota_code code,
                           const struct rota_error *error)
{
    struct rota_space_outcome outcome = {.code = code, .text = admin->text};
    rota_space_on_outcome *on_outcome = admin->on_outcome;
    void *data = admin->data;
    if (code)
        outcome.error = *error;
    rota_buffer_deinit(&admin->seats);
    on_outcome(data, &outcome); /* may free the request */
}

/* --- writing --- */

static void on_written(void *data, const struct rota_store_answer *answer)
{
    struct rota_space_admin *admin = data;
    struct rota_error error = answer->error;
    enum rota_code code = answer->code;
    if (!code && !answer->is_done)
        code = rota_error_set(&error, ROTA_ERR_INVALID,
                              "space %s was changed at the same time; check it and try again",
                              admin->name);
    report_outcome(admin, code, &error);
}

static void write_change(struct rota_space_admin *admin, const struct rota_store_request *request)
{
    struct rota_error error;
    enum rota_code code = rota_store_ask(admin->store, request, on_written, admin, &error);
    if (code)
        report_outcome(admin, code, &error);
}

/* The seats of a static space; borrowed from the request. */
static enum rota_code add_seats(const struct rota_space_admin *admin, struct rota_view *view,
                                struct rota_error *error)
{
    struct rota_str rest = rota_buffer_str(&admin->seats);
    while (rest.size > 0) {
        const char *comma = memchr(rest.data, ',', rest.size);
        size_t size = comma ? (size_t)(comma - rest.data) : rest.size;
        struct rota_str seat = rota_str_of(rest.data, size);
        if (view->seats.size == ROTA_VIEW_SEATS_MAX)
            return rota_error_set(error, ROTA_ERR_INVALID,
                                  "space %s: more than %d nodes in the list", admin->name,
                                  ROTA_VIEW_SEATS_MAX);
        if (!rota_vector_push(&view->seats, seat))
            return rota_error_no_memory(error, "for the list of nodes");
        size += comma != NULL;
        rest = rota_str_of(rest.data + size, rest.size - size);
    }
    return ROTA_OK;
}

/* Numbers are at least the store's clock, and above all epochs that the store knows of the name. */
static void create_space(struct rota_space_admin *admin, const struct rota_store_answer *answer)
{
    struct rota_view view = {.n_shards = admin->n_shards};
    struct rota_buffer text = {0};
    struct rota_error error;
    uint64_t now = (uint64_t)(answer->db_now / ROTA_MSEC);
    rota_view_engine_parse(rota_str(admin->engine), &view.engine);
    view.to = view.engine;
    view.number = view.base = now > answer->highest ? now : answer->highest + 1;
    enum rota_code code = add_seats(admin, &view, &error);
    if (!code)
        code = rota_view_check(&view, &error);
    if (!code)
        rota_view_text_format(&view, &text);
    if (!code && text.failed)
        code = rota_error_no_memory(&error, "for space %s", admin->name);
    if (code || admin->is_dry_run)
        report_outcome(admin, code, &error);
    else
        write_change(admin, &(struct rota_store_request){
                                .verb = ROTA_STORE_SPACE_PROPOSE,
                                .config = {.name = rota_str(admin->name),
                                           .engine = rota_str(admin->engine),
                                           .text = rota_buffer_str(&text),
                                           .version = view.number},
                            });
    rota_buffer_deinit(&text);
    rota_view_deinit(&view);
}

static void delete_space(struct rota_space_admin *admin, const struct rota_store_answer *answer)
{
    struct rota_error error;
    char quoted[ROTA_QUOTE_MAX];
    enum rota_code code = ROTA_OK;
    if (answer->n_nodes > 0)
        code = rota_error_set(
            &error, ROTA_ERR_INVALID,
            "space %s cannot be deleted: it has %zu member%s, for example %s; stop the "
            "processes that have the space open first",
            admin->name, answer->n_nodes, answer->n_nodes == 1 ? "" : "s",
            rota_quote(answer->nodes[0].name, quoted));
    if (code || admin->is_dry_run)
        report_outcome(admin, code, &error);
    else
        write_change(admin, &(struct rota_store_request){
                                .verb = ROTA_STORE_SPACE_DELETE,
                                .space = rota_str(admin->name),
                                .known = answer->spaces->version,
                                .known_text = answer->spaces->text,
                            });
}

/* --- reading --- */

static void on_read(void *data, const struct rota_store_answer *answer)
{
    struct rota_space_admin *admin = data;
    struct rota_error error = answer->error;
    enum rota_code code = answer->code;
    if (!code && admin->is_deletion && answer->n_spaces == 0)
        code = rota_error_set(&error, ROTA_ERR_NOT_FOUND, "there is no space \"%s\"", admin->name);
    if (!code && !admin->is_deletion && answer->n_spaces > 0)
        code = rota_error_set(&error, ROTA_ERR_INVALID, "space %s exists already, with engine %.*s",
                              admin->name, ROTA_STR_ARGS(answer->spaces->engine));
    if (code)
        report_outcome(admin, code, &error);
    else if (admin->is_deletion)
        delete_space(admin, answer);
    else
        create_space(admin, answer);
}

static enum rota_code read_space(struct rota_space_admin *admin, struct rota_error *error)
{
    const struct rota_store_request request = {.verb = ROTA_STORE_SPACE_READ,
                                               .space = rota_str(admin->name)};
    return rota_store_ask(admin->store, &request, on_read, admin, error);
}

static enum rota_code check_name(struct rota_str name, struct rota_error *error)
{
    char quoted[ROTA_QUOTE_MAX];
    bool is_valid = name.size >= 1 && name.size <= ROTA_SPACE_ADMIN_NAME_MAX;
    for (size_t i = 0; is_valid && i < name.size; i++) {
        char c = name.data[i];
        is_valid = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                   c == '.' || c == '_' || c == '-';
    }
    if (rota_str_is_equal(name, rota_str(ROTA_VIEW_QUEUES)))
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "the name " ROTA_VIEW_QUEUES
                              " is taken: it is the space of the nodes that serve queues");
    return is_valid ? ROTA_OK
                    : rota_error_set(error, ROTA_ERR_INVALID,
                                     "%s is not the name of a space: 1 to %d letters, digits, '.', "
                                     "'_' or '-'",
                                     rota_quote(name, quoted), ROTA_SPACE_ADMIN_NAME_MAX);
}

static enum rota_code check_options(const struct rota_space_options *options,
                                    struct rota_error *error)
{
    enum rota_view_engine engine = ROTA_VIEW_RING;
    char quoted[ROTA_QUOTE_MAX];
    enum rota_code code = check_name(rota_str(options->name), error);
    if (code)
        return code;
    if (!rota_view_engine_parse(rota_str(options->engine), &engine))
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "unknown engine %s; use static, ring, lease or group",
                              rota_quote(rota_str(options->engine), quoted));
    bool is_small = engine == ROTA_VIEW_LEASE || engine == ROTA_VIEW_GROUP;
    uint32_t max = is_small ? ROTA_LEASE_SHARDS_MAX : ROTA_SPACE_SHARDS_MAX;
    if (options->n_shards < 1 || options->n_shards > max)
        return rota_error_set(error, ROTA_ERR_INVALID,
                              "a space with engine %s has 1 to %u shards, not %u", options->engine,
                              (unsigned)max, (unsigned)options->n_shards);
    bool has_seats = options->seats && *options->seats;
    if ((engine == ROTA_VIEW_STATIC) != has_seats)
        return rota_error_set(error, ROTA_ERR_INVALID,
                              engine == ROTA_VIEW_STATIC
                                  ? "a static space needs its list of nodes (seats)"
                                  : "only a static space has a list of nodes (seats)");
    return ROTA_OK;
}

/* --- requests --- */

enum rota_code rota_space_admin_create(struct rota_space_admin *admin, struct rota_store *store,
                                       const struct rota_space_options *options, bool is_dry_run,
                                       rota_space_on_outcome *on_outcome, void *data,
                                       struct rota_error *error)
{
    enum rota_code code = check_options(options, error);
    if (code)
        return code;
    *admin = (struct rota_space_admin){.store = store,
                                       .on_outcome = on_outcome,
                                       .data = data,
                                       .is_dry_run = is_dry_run,
                                       .n_shards = options->n_shards};
    snprintf(admin->name, sizeof admin->name, "%s", options->name);
    snprintf(admin->engine, sizeof admin->engine, "%s", options->engine);
    snprintf(admin->text, sizeof admin->text, "space %s %s created with engine %s and %u shard%s",
             admin->name, is_dry_run ? "would be" : "was", admin->engine, (unsigned)admin->n_shards,
             admin->n_shards == 1 ? "" : "s");
    rota_buffer_append_str(&admin->seats, rota_str(options->seats ? options->seats : ""));
    if (admin->seats.failed)
        code = rota_error_no_memory(error, "for the list of nodes");
    else
        code = read_space(admin, error);
    if (code)
        rota_space_admin_forget(admin);
    return code;
}

enum rota_code rota_space_admin_delete(struct rota_space_admin *admin, struct rota_store *store,
                                       struct rota_str name, bool is_dry_run,
                                       rota_space_on_outcome *on_outcome, void *data,
                                       struct rota_error *error)
{
    enum rota_code code = check_name(name, error);
    if (code)
        return code;
    *admin = (struct rota_space_admin){.store = store,
                                       .on_outcome = on_outcome,
                                       .data = data,
                                       .is_deletion = true,
                                       .is_dry_run = is_dry_run};
    snprintf(admin->name, sizeof admin->name, "%.*s", ROTA_STR_ARGS(name));
    snprintf(admin->text, sizeof admin->text, "space %s %s deleted", admin->name,
             is_dry_run ? "would be" : "was");
    return read_space(admin, error);
}

void rota_space_admin_forget(struct rota_space_admin *admin)
{
    if (admin->store)
        rota_store_forget(admin->store, admin);
    rota_buffer_deinit(&admin->seats);
}
