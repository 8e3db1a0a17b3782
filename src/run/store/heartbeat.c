/* A process that sends its heartbeat to a store. */
#include "base/text.h"
#include "io/clock.h"
#include "io/sql/store_session.h"

#include <rota/experimental/store_members.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

struct rota_heartbeat {
    struct rota_store *store;
    const struct rota_log *log;
    struct rota_store_member member; /* its texts follow `more` */
    uv_timer_t timer;
    bool is_failing;
    size_t n_more;
    struct rota_str more[];
};

static void on_timer(uv_timer_t *timer);

/* One that failed is tried again sooner. Logged when it becomes another. */
static void on_answer(void *data, const struct rota_store_answer *answer)
{
    struct rota_heartbeat *heartbeat = data;
    bool is_failing = answer->code != ROTA_OK;
    if (is_failing && !heartbeat->is_failing)
        rota_log(heartbeat->log, rota_clock_wall(), ROTA_LOG_WARN, "heartbeat not written",
                 ROTA_LOG_FACT("address", heartbeat->member.address),
                 ROTA_LOG_FACT("store", rota_store_name(heartbeat->store)),
                 ROTA_LOG_FACT("error", answer->error.text));
    else if (!is_failing && heartbeat->is_failing)
        rota_log(heartbeat->log, rota_clock_wall(), ROTA_LOG_INFO, "heartbeat written again",
                 ROTA_LOG_FACT("address", heartbeat->member.address));
    heartbeat->is_failing = is_failing;
    rota_time wait = heartbeat->member.ttl / (is_failing ? 12 : 3);
    uv_timer_start(&heartbeat->timer, on_timer, (uint64_t)(wait / ROTA_MSEC + 1), 0);
}

static struct rota_store_request request_of(const struct rota_heartbeat *heartbeat)
{
    return (struct rota_store_request){.verb = ROTA_STORE_BEAT,
                                       .member = heartbeat->member,
                                       .keys = heartbeat->more,
                                       .n_keys = heartbeat->n_more};
}

static void on_timer(uv_timer_t *timer)
{
    struct rota_heartbeat *heartbeat = timer->data;
    const struct rota_store_request request = request_of(heartbeat);
    struct rota_store_answer answer = {0};
    answer.code = rota_store_ask(heartbeat->store, &request, on_answer, heartbeat, &answer.error);
    if (answer.code)
        on_answer(heartbeat, &answer);
}

/* Room for it and all its texts. */
static struct rota_heartbeat *make_heartbeat(const struct rota_store_member *member,
                                             const struct rota_str *more, size_t n_more)
{
    struct rota_heartbeat *made;
    size_t size = sizeof *made + n_more * sizeof *more + member->address.size + member->roles.size +
                  member->zone.size + member->name.size + 1;
    for (size_t i = 0; i < n_more; i++)
        size += more[i].size;
    made = calloc(1, size);
    if (!made)
        return NULL;
    char *to = (char *)&made->more[n_more];
    made->member = *member;
    made->member.address = rota_text_put(&to, member->address);
    made->member.roles = rota_text_put(&to, member->roles);
    made->member.zone = rota_text_put(&to, member->zone);
    made->member.name = rota_text_put(&to, member->name);
    made->n_more = n_more;
    for (size_t i = 0; i < n_more; i++)
        made->more[i] = rota_text_put(&to, more[i]);
    return made;
}

enum rota_code rota_heartbeat_open(struct uv_loop_s *loop, struct rota_store *store,
                                   const struct rota_store_member *member,
                                   const struct rota_str *more, size_t n_more,
                                   const struct rota_log *log, struct rota_heartbeat **result,
                                   struct rota_error *error)
{
    struct rota_store_request request = {
        .verb = ROTA_STORE_BEAT, .member = *member, .keys = more, .n_keys = n_more};
    if (request.member.ttl == 0)
        request.member.ttl = 10 * ROTA_SEC;
    enum rota_code code = rota_store_check_request(&request, error);
    if (code)
        return code;
    struct rota_heartbeat *heartbeat = make_heartbeat(&request.member, more, n_more);
    if (!heartbeat)
        return rota_error_no_memory(error, "for heartbeats");
    heartbeat->store = store;
    heartbeat->log = log;
    uv_timer_init(loop, &heartbeat->timer);
    heartbeat->timer.data = heartbeat;
    on_timer(&heartbeat->timer); /* now: the next query for members finds this one */
    *result = heartbeat;
    return ROTA_OK;
}

static void on_closed(uv_handle_t *handle)
{
    free(handle->data);
}

void rota_heartbeat_close(struct rota_heartbeat *heartbeat)
{
    if (!heartbeat)
        return;
    rota_store_forget(heartbeat->store, heartbeat);
    uv_close((uv_handle_t *)&heartbeat->timer, on_closed);
}
