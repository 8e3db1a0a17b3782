/* The results of a Get for the program, and a Get for programs without a loop. */
#include "run/call/get_inside.h"

#include "base/search.h"
#include "io/clock.h"
#include "run/rpc/link.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    TRIES_MAX = 4096, /* that a result shows */
    NAMED_MAX = 8,    /* missing keys that the text names */
    SHOWN_MAX = 128,
};

const char *rota_get_outcome_name(enum rota_get_outcome outcome)
{
    static const char *const names[] = {
        [ROTA_GET_TRY_WON] = "won",
        [ROTA_GET_TRY_LATE] = "late",
        [ROTA_GET_TRY_CANCELLED] = "cancelled",
        [ROTA_GET_TRY_FAILED] = "failed",
        [ROTA_GET_TRY_TIMED_OUT] = "timed out",
        [ROTA_GET_TRY_WRONG_SHARD] = "wrong shard",
        [ROTA_GET_TRY_STALE] = "stale",
    };
    return names[outcome];
}

/* --- tries --- */

static enum rota_get_outcome outcome_of(const struct rota_get_fsm_try *try)
{
    if (try->n_taken > 0)
        return ROTA_GET_TRY_WON;
    if (try->is_stale)
        return ROTA_GET_TRY_STALE;
    if (try->is_mismatch)
        return ROTA_GET_TRY_WRONG_SHARD;
    switch (try->failure) {
    case ROTA_FAILURE_NONE:
        return try->is_running ? ROTA_GET_TRY_CANCELLED : ROTA_GET_TRY_LATE;
    case ROTA_FAILURE_CANCELLED:
        return ROTA_GET_TRY_CANCELLED;
    case ROTA_FAILURE_DEADLINE:
    case ROTA_FAILURE_TIMEOUT:
        return ROTA_GET_TRY_TIMED_OUT;
    case ROTA_FAILURE_INPUT:
    case ROTA_FAILURE_UNREACHABLE:
    case ROTA_FAILURE_BROKEN:
    case ROTA_FAILURE_STALE:
    case ROTA_FAILURE_NOT_LOADED:
    case ROTA_FAILURE_OVERLOAD:
    case ROTA_FAILURE_RETRIABLE:
    case ROTA_FAILURE_INTERNAL:
    case ROTA_FAILURE_NO_REPLICA:
    case ROTA_FAILURE_LOCAL:
        break;
    }
    return ROTA_GET_TRY_FAILED;
}

static void show_try(const struct rota_get_run *run, size_t index, struct rota_get_try *view)
{
    const struct rota_get_fsm_try *try = rota_get_fsm_try(&run->fsm, index);
    const struct rota_get_sent *sent = &run->sent.items[index];
    rota_time ended_at = try->is_running ? run->ended_at : try->ended_at;
    *view = (struct rota_get_try){
        .host = sent->host,
        .dc = sent->dc,
        .n_keys = sent->n_keys,
        .started = try->started_at - run->started_at,
        .elapsed = ended_at - try->started_at,
        .outcome = outcome_of(try),
        .text = sent->text.data ? sent->text : rota_str(""),
    };
    if (view->outcome == ROTA_GET_TRY_TIMED_OUT && view->text.size == 0)
        view->text = rota_str("the deadline has passed"); /* by its own clock */
}

static void show_tries(struct rota_get_run *run, struct rota_get_result *result)
{
    size_t n = rota_get_fsm_n_tries(&run->fsm);
    if (n > run->sent.size)
        n = run->sent.size;
    if (n > TRIES_MAX)
        n = TRIES_MAX;
    struct rota_get_try *tries = rota_arena_take(&run->arena, n * sizeof *tries + 1);
    if (!tries)
        return;
    for (size_t i = 0; i < n; i++)
        if (run->sent.items[i].host.size > 0) /* else it was planned, and never sent */
            show_try(run, i, &tries[result->n_tries++]);
    result->tries = tries;
}

/* --- keys --- */

static bool asks_for(const struct rota_get_sent *sent, uint32_t key)
{
    size_t low;
    ROTA_SEARCH(low, sent->n_keys, middle, sent->keys[middle] < key);
    return low < sent->n_keys && sent->keys[low] == key;
}

static const char *write_reason(struct rota_get_run *run, size_t index)
{
    char text[ROTA_ERROR_TEXT_MAX];
    struct rota_get_try try;
    show_try(run, index, &try);
    snprintf(text, sizeof text, "%.*s: %s after %" PRId64 " ms%s%.*s", ROTA_STR_ARGS(try.host),
             rota_get_outcome_name(try.outcome), try.elapsed / ROTA_MSEC, try.text.size ? ": " : "",
             ROTA_STR_ARGS(try.text));
    const char *copy = rota_arena_copy(&run->arena, rota_str(text)).data;
    return copy ? copy : "no reply";
}

/* The holder's reason why a key can't be returned. */
static const char *write_refusal(struct rota_get_run *run, const struct rota_get_fsm_result *result)
{
    char text[ROTA_ERROR_TEXT_MAX];
    const struct rota_get_sent *sent = &run->sent.items[result->try];
    if (!sent->problems)
        return "not enough memory";
    snprintf(text, sizeof text, "%.*s: %.*s", ROTA_STR_ARGS(sent->host),
             ROTA_STR_ARGS(sent->problems[result->entry].text));
    const char *copy = rota_arena_copy(&run->arena, rota_str(text)).data;
    return copy ? copy : "not enough memory";
}

static const char *write_unheld(struct rota_get_run *run)
{
    char text[ROTA_ERROR_TEXT_MAX];
    rota_get_hosts_describe(run->get, text, sizeof text);
    const char *copy = rota_arena_copy(&run->arena, rota_str(text)).data;
    return copy ? copy : "no known host serves its shard";
}

/* Why a key has no answer: the failure of the last host that was asked. */
static const char *reason_of(struct rota_get_run *run, size_t key)
{
    size_t n = rota_get_fsm_n_tries(&run->fsm);
    struct rota_get_fsm_result result = rota_get_fsm_result(&run->fsm, key);
    uint32_t first = run->fsm.keys.items.items[key].first; /* which the callers need nevertheless */
    if (result.state == ROTA_GET_REFUSED)
        return write_refusal(run, &result);
    if (result.state == ROTA_GET_NO_SHARD)
        return run->unheld ? run->unheld : (run->unheld = write_unheld(run));
    for (size_t i = n < run->sent.size ? n : run->sent.size; i-- > 0;) {
        struct rota_get_sent *sent = &run->sent.items[i];
        if (!asks_for(sent, first))
            continue;
        if (!sent->reason)
            sent->reason = write_reason(run, i);
        return sent->reason;
    }
    return "no time was left to request it";
}

static struct rota_get_item show_key(struct rota_get_run *run, size_t key)
{
    struct rota_get_fsm_result found = rota_get_fsm_result(&run->fsm, key);
    struct rota_get_item item = {.value = {"", 0}, .host = {"", 0}};
    const struct rota_get_sent *sent = NULL;
    const struct rota_interval_claim *claim;
    switch (found.state) {
    case ROTA_GET_FOUND:
        sent = &run->sent.items[found.try];
        if (!sent->entries)
            break; /* no memory to keep it */
        item.state = ROTA_GET_KEY_FOUND;
        item.value = sent->entries[found.entry].value;
        break;
    case ROTA_GET_ABSENT:
        sent = &run->sent.items[found.try];
        item.state = ROTA_GET_KEY_ABSENT;
        break;
    case ROTA_GET_PENDING:
    case ROTA_GET_REFUSED:
    case ROTA_GET_NO_SHARD:
    case ROTA_GET_NO_ANSWER:
        break;
    }
    if (item.state != ROTA_GET_KEY_MISSING) {
        item.host = sent->host;
        claim = rota_interval_find_claim(sent->shards, sent->n_shards,
                                         run->fsm.keys.items.items[key].key);
        item.shard = claim ? claim->interval : item.shard;
        item.epoch = claim ? claim->epoch : 0;
        item.elapsed = rota_get_fsm_try(&run->fsm, found.try)->ended_at - run->started_at;
    }
    return item;
}

static void show_keys(struct rota_get_run *run, struct rota_get_result *result)
{
    size_t n = run->request.n_keys;
    struct rota_get_item *items = rota_arena_take(&run->arena, n * sizeof *items + 1);
    if (!items) {
        run->has_no_memory = true;
        result->n_missing = n;
        return;
    }
    for (size_t i = 0; i < n; i++) {
        items[i] = show_key(run, i);
        if (items[i].state == ROTA_GET_KEY_MISSING) {
            items[i].reason = run->has_no_memory ? "not enough memory" : reason_of(run, i);
            result->n_missing++;
        }
    }
    result->items = items;
    result->n_items = n;
}

/* --- the whole --- */

static void name_key(const struct rota_get_run *run, size_t key, char text[SHOWN_MAX])
{
    const struct rota_get_service *service = &run->get->service;
    const char *keys = run->request.keys;
    snprintf(text, SHOWN_MAX, "number %zu", key);
    if (service->name_key)
        service->name_key(service->data, keys + key * service->key_size, text, SHOWN_MAX);
    text[SHOWN_MAX - 1] = '\0';
}

static const char *write_text(struct rota_get_run *run, const struct rota_get_result *result)
{
    struct rota_buffer text = {0};
    char name[SHOWN_MAX];
    size_t n_named = 0;
    if (result->n_missing == 0)
        return "";
    rota_buffer_print(&text, "%zu of %zu keys are missing after %" PRId64 " ms", result->n_missing,
                      run->request.n_keys, result->elapsed / ROTA_MSEC);
    for (size_t i = 0; i < result->n_items && n_named < NAMED_MAX; i++) {
        if (result->items[i].state != ROTA_GET_KEY_MISSING)
            continue;
        name_key(run, i, name);
        rota_buffer_print(&text, "%s%s (%s)", n_named++ ? ", " : ": ", name,
                          result->items[i].reason);
    }
    if (n_named < result->n_missing)
        rota_buffer_print(&text, ", and %zu more", result->n_missing - n_named);
    const char *copy =
        text.failed ? NULL : rota_arena_copy(&run->arena, rota_buffer_str(&text)).data;
    rota_buffer_deinit(&text);
    return copy ? copy : "keys are missing, and there is not enough memory to list them";
}

void rota_get_result_report(struct rota_get_run *run)
{
    struct rota_get_result result = {.elapsed = run->ended_at - run->started_at, .text = ""};
    run->unheld = NULL;
    show_tries(run, &result);
    show_keys(run, &result);
    result.text = write_text(run, &result);
    if (result.n_missing > 0)
        result.code = run->has_no_memory ? ROTA_ERR_NO_MEMORY : ROTA_ERR_UNAVAILABLE;
    rota_get_metrics_measure_run(run->get, &result);
    rota_list_remove(&run->link); /* from now on it can't be cancelled */
    run->request.on_done(run->request.data, &result);
    rota_get_run_end(run);
}

/* --- for simple programs --- */

struct waited {
    struct rota_get_result result; /* first, since the program has a pointer to it */
    struct rota_arena arena;
};

struct wait {
    struct uv_loop_s *loop;
    struct waited *waited;
    bool is_done, has_failed;
};

static struct rota_str keep_copy(struct wait *wait, struct rota_str str)
{
    struct rota_str copy = rota_arena_copy(&wait->waited->arena, str);
    wait->has_failed |= !copy.data;
    return copy;
}

static void *keep_array(struct wait *wait, const void *items, size_t size)
{
    void *copy = rota_arena_take(&wait->waited->arena, size + 1);
    wait->has_failed |= !copy;
    if (copy && size > 0)
        memcpy(copy, items, size);
    return copy;
}

static void on_done(void *data, const struct rota_get_result *result)
{
    struct wait *wait = data;
    struct rota_get_result *ours = &wait->waited->result;
    struct rota_get_item *items = keep_array(wait, result->items, result->n_items * sizeof *items);
    struct rota_get_try *tries = keep_array(wait, result->tries, result->n_tries * sizeof *tries);
    for (size_t i = 0; items && i < result->n_items; i++) {
        items[i].value = keep_copy(wait, items[i].value);
        items[i].host = keep_copy(wait, items[i].host);
        if (items[i].reason)
            items[i].reason = keep_copy(wait, rota_str(items[i].reason)).data;
    }
    for (size_t i = 0; tries && i < result->n_tries; i++) {
        tries[i].host = keep_copy(wait, tries[i].host);
        tries[i].dc = keep_copy(wait, tries[i].dc);
        tries[i].text = keep_copy(wait, tries[i].text);
    }
    *ours = *result;
    ours->items = items;
    ours->tries = tries;
    ours->text = keep_copy(wait, rota_str(result->text)).data;
    wait->is_done = true;
    uv_stop(wait->loop); /* from a timer, the loop would still sleep once */
}

enum rota_code rota_get_wait(struct rota_get *get, const struct rota_get_request *request,
                             struct rota_get_result **result, struct rota_error *error)
{
    *result = NULL;
    if (rota_link_is_inside())
        return rota_error_set(
            error, ROTA_ERR_INVALID,
            "a callback cannot wait for a multi-get: the event loop is already running");
    struct wait wait = {.loop = get->loop, .waited = calloc(1, sizeof *wait.waited)};
    if (!wait.waited)
        return rota_error_no_memory(error, "for a multi-get");
    struct rota_get_request ours = *request;
    ours.on_done = on_done;
    ours.data = &wait;
    enum rota_code code = rota_get_start(get, &ours, NULL, error);
    while (!code && !wait.is_done)
        uv_run(get->loop, UV_RUN_ONCE);
    if (!code && wait.has_failed)
        code = rota_error_no_memory(error, "for the values of a multi-get");
    if (code) {
        rota_get_result_free(&wait.waited->result);
        return code;
    }
    *result = &wait.waited->result;
    if ((*result)->code)
        return rota_error_set(error, (*result)->code, "%s", (*result)->text);
    return ROTA_OK;
}

void rota_get_result_free(struct rota_get_result *result)
{
    struct waited *waited = (struct waited *)result;
    if (!waited)
        return;
    rota_arena_deinit(&waited->arena);
    free(waited);
}
