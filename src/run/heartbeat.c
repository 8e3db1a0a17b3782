/* A process that says in a store that it is well. */
#include "io/clock.h"
#include "io/store.h"

#include <rota/store_members.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

struct rota_heartbeat {
    struct rota_store *store;
    const struct rota_log *log;
    struct rota_store_member member; /* its texts are in `texts` */
    uv_timer_t timer;
    bool is_failing;
    char texts[];
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
    return (struct rota_store_request){.verb = ROTA_STORE_BEAT, .member = heartbeat->member};
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

/* Copy `text` to `*to`, which moves on. */
static struct rota_str keep(char **to, struct rota_str text)
{
    char *copy = *to;
    if (text.size > 0)
        memcpy(copy, text.data, text.size);
    *to += text.size;
    return rota_str_of(copy, text.size);
}

enum rota_code rota_heartbeat_open(struct uv_loop_s *loop, struct rota_store *store,
                                   const struct rota_store_member *member,
                                   const struct rota_log *log, struct rota_heartbeat **result,
                                   struct rota_error *error)
{
    struct rota_heartbeat made = {.member = *member};
    if (made.member.ttl == 0)
        made.member.ttl = 10 * ROTA_SEC;
    const struct rota_store_request request = request_of(&made);
    enum rota_code code = rota_store_request_check(&request, error);
    if (code)
        return code;
    struct rota_heartbeat *heartbeat = calloc(1, sizeof *heartbeat + member->address.size +
                                                     member->roles.size + member->zone.size + 1);
    if (!heartbeat)
        return rota_error_set(error, ROTA_ERR_NO_MEMORY, "heartbeat: no memory");
    char *to = heartbeat->texts;
    heartbeat->member = made.member;
    heartbeat->member.address = keep(&to, member->address);
    heartbeat->member.roles = keep(&to, member->roles);
    heartbeat->member.zone = keep(&to, member->zone);
    heartbeat->store = store;
    heartbeat->log = log;
    uv_timer_init(loop, &heartbeat->timer);
    heartbeat->timer.data = heartbeat;
    uv_timer_start(&heartbeat->timer, on_timer, 0, 0);
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
