/* The members table of a store as a source of members. */
#include "run/store/store_members.h"

#include "base/vector.h"

#include <rota/experimental/store_members.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

struct source {
    struct rota_members_source base; /* first: the two are cast into each other */
    struct rota_members_sink sink;
    struct rota_store *store;
    uv_timer_t timer;
    rota_time interval;
    uint64_t version; /* counts deliveries */
    ROTA_VECTOR(struct rota_host) hosts;
    bool is_started, is_unreachable, is_stopped;
    rota_store_on_answer *on_rows; /* may be NULL */
    void *data;
    char role[];
};

/* Whether `role` is one of `roles`, "a,b,c". */
static bool has_role(struct rota_str roles, struct rota_str role)
{
    if (role.size == 0)
        return true;
    while (roles.size > 0) {
        const char *comma = memchr(roles.data, ',', roles.size);
        size_t size = comma ? (size_t)(comma - roles.data) : roles.size;
        if (rota_str_is_equal(rota_str_of(roles.data, size), role))
            return true;
        size += comma != NULL;
        roles = rota_str_of(roles.data + size, roles.size - size);
    }
    return false;
}

bool rota_store_member_is_listed(const struct rota_store_member *member, struct rota_str role,
                                 rota_time db_now)
{
    return member->state != ROTA_STORE_MEMBER_EVICTED &&
           rota_time_add(member->heartbeat, member->ttl) >= db_now && has_role(member->roles, role);
}

struct rota_host rota_store_member_host(const struct rota_store_member *member)
{
    return (struct rota_host){.address = member->address,
                              .zone = member->zone,
                              .weight = member->weight,
                              .is_draining = member->state == ROTA_STORE_MEMBER_DRAINING,
                              .start_at = member->start_at,
                              .stop_at = member->stop_at};
}

static void on_answer(void *data, const struct rota_store_answer *answer);

static void on_timer(uv_timer_t *timer)
{
    struct source *source = timer->data;
    const struct rota_store_request request = {.verb = ROTA_STORE_MEMBERS};
    struct rota_store_answer answer = {0};
    answer.code = rota_store_ask(source->store, &request, on_answer, source, &answer.error);
    if (answer.code)
        on_answer(source, &answer);
}

/* Logged when it begins, not each time it persists. */
static void report_failure(struct source *source, const struct rota_error *error)
{
    bool is_news = !source->is_unreachable;
    source->is_unreachable = true;
    if (is_news)
        source->sink.on_error(source->sink.data, error);
}

static bool list_hosts(struct source *source, const struct rota_store_answer *answer)
{
    source->hosts.size = 0;
    if (!rota_vector_reserve(&source->hosts, answer->n_members))
        return false;
    for (size_t i = 0; i < answer->n_members; i++) {
        const struct rota_store_member *member = &answer->members[i];
        if (rota_store_member_is_listed(member, rota_str(source->role), answer->db_now))
            source->hosts.items[source->hosts.size++] = rota_store_member_host(member);
    }
    return true;
}

/* Delivering is last, since it may stop us; we are freed when the loop continues. */
static void on_answer(void *data, const struct rota_store_answer *answer)
{
    struct source *source = data;
    struct rota_error error = answer->error;
    uv_timer_start(&source->timer, on_timer, (uint64_t)(source->interval / ROTA_MSEC), 0);
    if (answer->code) {
        report_failure(source, &error);
        return;
    }
    if (source->on_rows)
        source->on_rows(source->data, answer);
    if (!list_hosts(source, answer)) {
        rota_error_no_memory(&error, "for the members in the store");
        report_failure(source, &error);
        return;
    }
    enum rota_code code = source->sink.on_snapshot(source->sink.data, ++source->version,
                                                   source->hosts.items, source->hosts.size, &error);
    if (source->is_stopped)
        return;
    if (code)
        report_failure(source, &error);
    else
        source->is_unreachable = false;
}

static enum rota_code start_source(struct rota_members_source *base, struct uv_loop_s *loop,
                                   const struct rota_members_sink *sink, struct rota_error *error)
{
    struct source *source = (struct source *)base;
    (void)error;
    source->sink = *sink;
    uv_timer_init(loop, &source->timer);
    source->timer.data = source;
    source->is_started = true;
    uv_timer_start(&source->timer, on_timer, 0, 0);
    return ROTA_OK;
}

static void source_free(struct source *source)
{
    rota_vector_deinit(&source->hosts);
    free(source);
}

static void on_closed(uv_handle_t *handle)
{
    source_free(handle->data);
}

static void stop_source(struct rota_members_source *base)
{
    struct source *source = (struct source *)base;
    source->is_stopped = true;
    if (!source->is_started) {
        source_free(source);
        return;
    }
    rota_store_forget(source->store, source);
    uv_close((uv_handle_t *)&source->timer, on_closed);
}

enum rota_code rota_store_members_new(struct rota_store *store, const char *role,
                                      rota_time interval, struct rota_members_source **result,
                                      struct rota_error *error)
{
    size_t size = role ? strlen(role) + 1 : 1;
    if (interval < 0)
        return rota_error_set(error, ROTA_ERR_INVALID, "members of the store: a negative interval");
    if (size > ROTA_STORE_ROLES_MAX || (role && strchr(role, ',')))
        return rota_error_set(error, ROTA_ERR_INVALID, "members of the store: no such role");
    struct source *source = calloc(1, sizeof *source + size);
    if (!source)
        return rota_error_no_memory(error, "for the members in the store");
    source->base = (struct rota_members_source){.start = start_source, .stop = stop_source};
    source->store = store;
    source->interval = interval ? interval : ROTA_SEC;
    memcpy(source->role, role ? role : "", size);
    *result = &source->base;
    return ROTA_OK;
}

void rota_store_members_watch(struct rota_members_source *base, rota_store_on_answer *on_rows,
                              void *data)
{
    struct source *source = (struct source *)base;
    source->on_rows = on_rows;
    source->data = data;
}

void rota_store_members_look(struct rota_members_source *base)
{
    struct source *source = (struct source *)base;
    if (source->is_started)
        uv_timer_start(&source->timer, on_timer, 0, 0);
}
