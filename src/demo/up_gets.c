#include "demo/up.h"
#include "run/call/get_message.h"

#include "io/clock.h"

#include <rota/experimental/get.h>
#include <stdio.h>
#include <stdlib.h>

#define TICK       (200 * ROTA_MSEC)
#define GET_LIMIT  (60 * ROTA_SEC) /* a node is down or paused for less */
#define HOST_LIMIT (2 * ROTA_SEC)

enum { AT_ONCE = 8, UNKNOWN_EVERY = 16 }; /* keys of a Get; one in this many has no value */

/* A Get in flight. */
struct get_run {
    struct get_run *next;
    struct rota_up_gets *gets;
    struct rota_get_run *run;
    size_t n;
    bool is_last;
    struct rota_str *keys;
    unsigned *numbers;
    char (*names)[24];
};

struct rota_up_gets {
    uv_timer_t timer;
    struct rota_get *get;
    struct rota_random random;
    struct get_run *runs;
    size_t n_pending;
    uint64_t n_gets;
    struct rota_check *check;
    bool is_finishing;
    void (*on_checked)(void *data);
    void *data;
};

static void run_free(struct get_run *run)
{
    free(run->keys);
    free(run->numbers);
    free(run->names);
    free(run);
}

static void remove_run(struct get_run *run)
{
    struct get_run **place = &run->gets->runs;
    while (*place != run)
        place = &(*place)->next;
    *place = run->next;
    run->gets->n_pending--;
}

/* --- answers --- */

static void judge(const struct get_run *run, size_t i, const struct rota_get_item *item)
{
    char value[ROTA_UP_VALUE_MAX];
    rota_check_get(run->gets->check, run->names[i], item,
                   run->numbers[i] < ROTA_UP_KEYS ? rota_up_value(run->numbers[i], value) : NULL);
}

static void on_done(void *data, const struct rota_get_result *result)
{
    struct get_run *run = data;
    struct rota_up_gets *gets = run->gets;
    bool is_last = run->is_last;
    gets->n_gets++;
    for (size_t i = 0; i < result->n_items; i++)
        judge(run, i, &result->items[i]);
    remove_run(run);
    run_free(run);
    if (is_last)
        gets->on_checked(gets->data);
}

/* --- asking --- */

/* `n` random keys, or, with `is_last`, all of them. */
static bool begin(struct rota_up_gets *gets, size_t n, bool is_last)
{
    struct get_run *run = calloc(1, sizeof *run);
    if (!run)
        return false;
    *run = (struct get_run){.gets = gets,
                            .n = n,
                            .is_last = is_last,
                            .keys = calloc(n, sizeof *run->keys),
                            .numbers = calloc(n, sizeof *run->numbers),
                            .names = calloc(n, sizeof *run->names)};
    for (size_t i = 0; run->keys && run->numbers && run->names && i < n; i++) {
        run->numbers[i] =
            is_last ? (unsigned)i : (unsigned)rota_random_below(&gets->random, ROTA_UP_KEYS);
        if (!is_last && rota_random_below(&gets->random, UNKNOWN_EVERY) == 0)
            run->numbers[i] += ROTA_UP_KEYS;
        snprintf(run->names[i], sizeof run->names[i], "sample-%u", run->numbers[i]);
        run->keys[i] = rota_str(run->names[i]);
    }
    struct rota_get_request request = {
        .keys = run->keys, .n_keys = n, .timeout = GET_LIMIT, .on_done = on_done, .data = run};
    if (!run->keys || !run->numbers || !run->names ||
        rota_get_start(gets->get, &request, &run->run, NULL)) {
        run_free(run);
        return false;
    }
    run->next = gets->runs;
    gets->runs = run;
    gets->n_pending++;
    return true;
}

static void on_tick(uv_timer_t *timer)
{
    struct rota_up_gets *gets = timer->data;
    if (!gets->is_finishing && gets->n_pending < ROTA_UP_GETS_MAX)
        begin(gets, AT_ONCE, false);
    else if (gets->is_finishing && gets->n_pending == 0 && begin(gets, ROTA_UP_KEYS, true))
        uv_timer_stop(timer);
}

/* --- doors --- */

enum rota_code rota_up_gets_open(uv_loop_t *loop, const char *const *nodes, size_t n,
                                 struct rota_check *check, struct rota_up_gets **result,
                                 struct rota_error *error)
{
    struct rota_get_host hosts[ROTA_UP_NODES_MAX];
    struct rota_up_gets *gets = calloc(1, sizeof *gets);
    if (!gets)
        return rota_error_no_memory(error, "for a load of multi-gets");
    gets->check = check;
    for (size_t i = 0; i < n; i++)
        hosts[i] = (struct rota_get_host){.address = rota_str(nodes[i])};
    rota_random_init(&gets->random, uv_hrtime());
    const struct rota_get_options options = {.service = rota_get_cache_relay(),
                                             .hosts = hosts,
                                             .n_hosts = n,
                                             .mode = ROTA_GET_MODE_HEDGE,
                                             .timeout = GET_LIMIT,
                                             .host_timeout = HOST_LIMIT};
    enum rota_code code = rota_get_open(loop, &options, &gets->get, error);
    if (code) {
        free(gets);
        return code;
    }
    uv_timer_init(loop, &gets->timer);
    gets->timer.data = gets;
    uv_timer_start(&gets->timer, on_tick, 0, (uint64_t)(TICK / ROTA_MSEC));
    *result = gets;
    return ROTA_OK;
}

void rota_up_gets_finish(struct rota_up_gets *gets, void (*on_checked)(void *data), void *data)
{
    gets->is_finishing = true;
    gets->on_checked = on_checked;
    gets->data = data;
    uv_timer_start(&gets->timer, on_tick, (uint64_t)(TICK / ROTA_MSEC),
                   (uint64_t)(TICK / ROTA_MSEC));
}

uint64_t rota_up_gets_n(const struct rota_up_gets *gets)
{
    return gets->n_gets;
}

static void on_closed(uv_handle_t *handle)
{
    free(handle->data);
}

void rota_up_gets_close(struct rota_up_gets *gets)
{
    if (!gets)
        return;
    rota_get_close(gets->get); /* Gets in flight are dropped */
    while (gets->runs) {
        struct get_run *run = gets->runs;
        gets->runs = run->next;
        run_free(run);
    }
    uv_close((uv_handle_t *)&gets->timer, on_closed);
}
