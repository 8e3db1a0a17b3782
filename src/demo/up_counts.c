#include "demo/up.h"

#include <rota/service_client.h>
#include <stdio.h>
#include <stdlib.h>

#define TICK        (500 * ROTA_MSEC)
#define COUNT_LIMIT (60 * ROTA_SEC) /* a server is down or paused for less */
#define TRY_LIMIT   (2 * ROTA_SEC)

enum { COUNTERS = 16 };

/* One addition at a time: each must give one more than the one before. */
struct counter {
    struct rota_up_counts *counts;
    char name[16];
    uint64_t value;  /* the last reply; 0: not known yet */
    uint64_t number; /* of the addition */
    bool is_adding;
};

struct rota_up_counts {
    uv_timer_t timer;
    struct rota_service_client *client;
    struct counter counters[COUNTERS];
    uint64_t run, n_counts; /* `run` makes the ids of this process unlike those of others */
    struct rota_check *check;
    bool is_finishing;
    void (*on_checked)(void *data);
    void *data;
};

/* An addition that has failed is repeated under the same id: it may have been counted. */
static void on_reply(void *data, const struct rota_service_reply *reply)
{
    struct counter *counter = data;
    struct rota_up_counts *counts = counter->counts;
    counter->is_adding = false;
    if (reply->status == ROTA_STATUS_NOT_FOUND && counter->value == 0)
        return; /* the servers have yet to create the space */
    if (reply->status != ROTA_STATUS_OK) {
        rota_check_report_fault(counts->check, ROTA_CHECK_COUNT_UNANSWERED, "counter %s: %s: %.*s",
                                counter->name, rota_status_name(reply->status),
                                (int)reply->text.size, reply->text.data);
        return;
    }
    counts->n_counts++;
    counter->number++;
    counter->value = rota_check_count(counts->check, counter->name, counter->value, reply->message);
}

static void add(struct counter *counter)
{
    struct rota_up_counts *counts = counter->counts;
    char request[80];
    snprintf(request, sizeof request, "%s %llxn%llu", counter->name,
             (unsigned long long)counts->run, (unsigned long long)counter->number);
    const struct rota_service_request call = {
        .space = rota_str("counters"),
        .key = rota_str(counter->name),
        .method = rota_str("/example.Counter/Add"),
        .request = rota_str(request),
        .timeout = COUNT_LIMIT,
        .try_timeout = TRY_LIMIT,
        .repeat = ROTA_REPEAT_ANY,
        .on_reply = on_reply,
        .data = counter,
    };
    counter->is_adding = !rota_service_client_call(counts->client, &call, NULL, NULL);
}

static void on_tick(uv_timer_t *timer)
{
    struct rota_up_counts *counts = timer->data;
    size_t n_adding = 0;
    for (size_t i = 0; i < COUNTERS; i++) {
        struct counter *counter = &counts->counters[i];
        if (!counter->is_adding && !counts->is_finishing)
            add(counter);
        n_adding += counter->is_adding;
    }
    if (!counts->is_finishing || n_adding > 0)
        return;
    uv_timer_stop(timer);
    for (size_t i = 0; i < COUNTERS; i++)
        if (counts->counters[i].value == 0)
            rota_check_report_fault(counts->check, ROTA_CHECK_COUNT_UNANSWERED,
                                    "counter %s never replied", counts->counters[i].name);
    counts->on_checked(counts->data);
}

enum rota_code rota_up_counts_open(uv_loop_t *loop, const char *const *nodes, size_t n,
                                   struct rota_check *check, struct rota_up_counts **result,
                                   struct rota_error *error)
{
    struct rota_up_counts *counts = calloc(1, sizeof *counts);
    if (!counts)
        return rota_error_no_memory(error, "for counters");
    const struct rota_service_client_options options = {.nodes = nodes, .n_nodes = n};
    enum rota_code code = rota_service_client_open(loop, &options, &counts->client, error);
    if (code) {
        free(counts);
        return code;
    }
    counts->check = check;
    counts->run = uv_hrtime();
    for (size_t i = 0; i < COUNTERS; i++) {
        counts->counters[i].counts = counts;
        snprintf(counts->counters[i].name, sizeof counts->counters[i].name, "sample%zu", i);
    }
    uv_timer_init(loop, &counts->timer);
    counts->timer.data = counts;
    uv_timer_start(&counts->timer, on_tick, 0, TICK / ROTA_MSEC);
    *result = counts;
    return ROTA_OK;
}

void rota_up_counts_finish(struct rota_up_counts *counts, void (*on_checked)(void *data),
                           void *data)
{
    counts->is_finishing = true;
    counts->on_checked = on_checked;
    counts->data = data;
}

uint64_t rota_up_counts_n(const struct rota_up_counts *counts)
{
    return counts->n_counts;
}

static void on_closed(uv_handle_t *handle)
{
    free(handle->data);
}

void rota_up_counts_close(struct rota_up_counts *counts)
{
    if (!counts)
        return;
    rota_service_client_close(counts->client); /* calls in flight are dropped */
    uv_close((uv_handle_t *)&counts->timer, on_closed);
}
